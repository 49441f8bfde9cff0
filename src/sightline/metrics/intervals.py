"""How far a figure may be trusted: intervals with one more attack.

With 95% confidence an interval holds the value of a figure for endlessly many attacks
of these lengths, of the kinds these are a sample of, and endless calm time of the same
stationary process; detector, reference, limit and share of attack rows as they are. It
says nothing about other plants, other kinds of attack, or drift.

Most figures are means ``sum w_i v_i`` over attacks, with weights that sum to 1. In each
draw the calm rows are redrawn in blocks, the attacks get weights g from Exp(1), and one
more attack gets as much weight as an attack has on average: ``s = sum w_i^2``. It is
unseen for the lower end, wholly seen for the upper end,

    (sum g_i w_i v_i + g_0 s u) / (sum g_i w_i + g_0 s).

For values of 0 and 1 and equal weights this is the interval of Clopper and Pearson.

A stream is cut into what is drawn: whole attacks, and blocks of attack-free time.
Attacks are few and long, and energy is autocorrelated, so neither attack rows nor calm
rows are independent. Attacks therefore count as wholes, and calm rows are drawn in
blocks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Segment, segments_of
from sightline.figures import PAUC_RATES, Figure

N_REPLICATES = 500
# Attack-free time is cut into about this many blocks at most: more draw no better.
MOST_BLOCKS = 10_000
# One more block of calm time is in alarm for at least this share of it.
LEAST_ALARM_SHARE = 0.5
# Counts that a product takes as floats at a time: little memory, used again.
_MOST_COUNTS = 1 << 18
# Called with the number of draws that are done.
Tick = Callable[[int], None]
# With fewer effective attacks than this an interval is marked.
FEW_EVENTS = 10
LEVEL = 0.95
_LEAST = float(np.finfo(np.float64).tiny)
_TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
# One more attack, unseen or wholly seen, is more than 95% need where few attacks hold
# most rows: figures that weigh rows then take twice the tail, fully so up to this many
# effective attacks.
_FEW_EFFECTIVE = 3.0


def block_length(series: Floats) -> int:
    """Return the block length of Politis and White for a series.

    Politis and White (2004), doi:10.1081/ETC-120028836, with the correction of Patton,
    Politis and White (2009), doi:10.1080/07474930802459016, for the circular block
    bootstrap. At least 1, which is the value for a series without autocorrelation; at
    most ``min(3 sqrt(n), n / 3)``.

    Parameters
    ----------
    series : array of shape (n,)
        Values one after another.

    Examples
    --------
    >>> block_length(np.random.default_rng(0).normal(size=1000)) < 5
    True
    """
    n = len(series)
    if n < 10 or np.ptp(series) == 0:
        return 1
    run = max(5, int(np.log10(n)))
    most = int(np.ceil(np.sqrt(n))) + run
    longest = int(np.ceil(min(3 * np.sqrt(n), n / 3)))
    # The autocovariance at lags 0 to `n_lags`, by Fourier transform.
    n_lags = min(most, n - 1)
    size = 1 << int(np.ceil(np.log2(n + n_lags + 1)))
    power = np.abs(np.fft.rfft(series - series.mean(), size))
    np.square(power, out=power)
    # A copy, so that the rest of a long series is freed.
    autocovariance = np.fft.irfft(power, size)[: n_lags + 1] / n
    correlation = np.abs(autocovariance / autocovariance[0])
    small = correlation[1:] < 2 * np.sqrt(np.log10(n) / n)
    # The first lag after which `run` correlations in a row are small.
    in_a_row = np.convolve(small, np.ones(run, int), mode="valid")
    quiet = np.flatnonzero(in_a_row == run)
    bandwidth = min(2 * max(int(quiet[0]), 1) if len(quiet) else most, most)
    lags = np.arange(1, min(bandwidth, len(autocovariance) - 1) + 1)
    taper = np.where(lags <= bandwidth / 2, 1.0, 2 * (1 - lags / bandwidth))
    weighed = taper * autocovariance[lags]
    variance = autocovariance[0] + 2 * weighed.sum()
    if variance <= 0:
        return longest
    spread = 2 * np.sum(lags * weighed)
    length = (2 * spread**2 / (4 / 3 * variance**2)) ** (1 / 3) * n ** (1 / 3)
    return int(np.clip(np.ceil(length), 1, longest))


def block_of_calm(log_energy: Floats) -> int:
    """Return the rows of a block for a series of calm log energy.

    `block_length`, and at least long enough that there are about `MOST_BLOCKS` blocks.
    """
    return max(block_length(log_energy), -(-len(log_energy) // MOST_BLOCKS))


def log_of(energy: Floats) -> Floats:
    """Return the logarithm of energies, of which some may be 0."""
    return np.log(np.maximum(energy, np.finfo(np.float64).tiny))


def blocks_of_rows(labels: Labels, breaks: Ints, block: int) -> npt.NDArray[np.int32]:
    """Return the number of the block each calm row is in; -1 for all other rows.

    Blocks have `block` rows from the beginning of each attack-free stretch, the last
    of a stretch fewer; none crosses a break.

    Examples
    --------
    >>> blocks_of_rows(np.array([0, 0, 0, 1, 0]), np.array([0]), 2)
    array([ 0,  0,  1, -1,  2], dtype=int32)
    """
    block_of = np.full(len(labels), -1, np.int32)
    n_blocks = 0
    for stretch in segments_of(labels == NORMAL, breaks):
        within = np.arange(stretch.length) // block
        block_of[stretch.rows] = n_blocks + within
        n_blocks += int(within[-1]) + 1
    return block_of


def attacks_of_rows(attacks: Sequence[Segment], n_rows: int) -> npt.NDArray[np.int32]:
    """Return the number of the attack each row is in; -1 for all other rows."""
    attack_of = np.full(n_rows, -1, np.int32)
    for i, attack in enumerate(attacks):
        attack_of[attack.rows] = i
    return attack_of


@dataclass(frozen=True, eq=False)
class MatchedWindows:
    """The attack-free windows that one attack is compared with.

    Parameters
    ----------
    block : array of shape (n_windows,)
        Block of the middle row of each window.
    is_beaten : array of bool, shape (n_windows,)
        Whether its D_FULL is below that of the attack.
    """

    block: npt.NDArray[np.int32]
    is_beaten: Bools

    def __add__(self, other: "MatchedWindows") -> "MatchedWindows":
        """Return the windows of both, for two attacks that count as one."""
        return MatchedWindows(
            np.concatenate([self.block, other.block]),
            np.concatenate([self.is_beaten, other.is_beaten]),
        )


@dataclass(frozen=True, eq=False)
class Drawable:
    """A test stream cut into attacks and blocks; rows are sorted once.

    Parameters
    ----------
    block : float
        Rows of a block.
    normal_block, normal_energy : array of shape (n_normal,)
        Block and energy of each calm row, by falling energy.
    attack, attack_tied : array of shape (n_attack,)
        Which attack each attack row is part of, by falling energy, and whether it has
        the energy of the row before it.
    above, up_to : array of shape (n_attack,)
        Number of calm rows with more, and with at least, the row's energy.
    attack_rows, attack_alarms : array of shape (n_attacks,)
        Rows and alarmed rows of each attack.
    block_rows, block_alarms, block_energy : array of shape (n_blocks,)
        Rows, alarmed rows and summed energy of each block.
    d_full : array of shape (n_attacks,), optional
        Evidence of each attack.
    windows : sequence of MatchedWindows, optional
        With which each attack is compared.
    """

    block: float
    normal_block: npt.NDArray[np.int32]
    normal_energy: Floats
    attack: npt.NDArray[np.int32]
    attack_tied: Bools
    above: Ints
    up_to: Ints
    attack_rows: Floats
    attack_alarms: Floats
    block_rows: Floats
    block_alarms: Floats
    block_energy: Floats
    d_full: Floats | None = None
    windows: Sequence[MatchedWindows] | None = None

    @classmethod
    def of(
        cls,
        energy: Floats,
        is_alarm: Bools,
        attack_of: npt.NDArray[np.int32],
        block_of: npt.NDArray[np.int32],
        *,
        block: float,
        n_attacks: int,
        n_blocks: int,
        d_full: Floats | None = None,
        windows: Sequence[MatchedWindows] | None = None,
    ) -> "Drawable":
        """Cut a scored test into attacks and blocks, and sort its energy once.

        Parameters
        ----------
        energy, is_alarm : array of shape (n_rows,)
            Energy and alarm of each test row.
        attack_of, block_of : array of int, shape (n_rows,)
            Number of the attack and of the block each row is in, or -1. A row that is
            in neither counts nowhere.
        block : float
            Rows of a block.
        n_attacks, n_blocks : int
            How many there are.
        d_full, windows : optional
            Evidence of each attack, and the windows it is compared with.
        """
        calm, attacked = np.flatnonzero(block_of >= 0), np.flatnonzero(attack_of >= 0)
        falling = calm[np.argsort(energy[calm])[::-1]]
        order = attacked[np.argsort(energy[attacked])[::-1]]
        attack_falling, rising = energy[order], energy[falling][::-1]
        tied = np.zeros(len(order), np.bool_)
        tied[1:] = attack_falling[1:] == attack_falling[:-1]

        def summed(numbers: npt.NDArray[np.int32], of: Floats, n: int) -> Floats:
            return np.bincount(numbers, of, minlength=n).astype(np.float64)

        block_at, attack_at = block_of[calm], attack_of[attacked]
        return cls(
            block=block,
            normal_block=block_of[falling],
            normal_energy=energy[falling],
            attack=attack_of[order],
            attack_tied=tied,
            above=len(calm) - np.searchsorted(rising, attack_falling, side="right"),
            up_to=len(calm) - np.searchsorted(rising, attack_falling, side="left"),
            attack_rows=summed(attack_at, np.ones(len(attacked)), n_attacks),
            attack_alarms=summed(
                attack_at, is_alarm[attacked].astype(float), n_attacks
            ),
            block_rows=summed(block_at, np.ones(len(calm)), n_blocks),
            block_alarms=summed(block_at, is_alarm[calm].astype(float), n_blocks),
            block_energy=summed(block_at, energy[calm], n_blocks),
            d_full=d_full,
            windows=windows,
        )

    @property
    def n_attacks(self) -> int:
        """Number of attacks."""
        return len(self.attack_rows)

    @property
    def n_normal(self) -> int:
        """Number of calm rows."""
        return len(self.normal_block)

    @property
    def n_windows(self) -> Floats:
        """Number of windows each attack is compared with."""
        if self.windows is None:
            return np.zeros(self.n_attacks)
        return np.array([float(len(one.block)) for one in self.windows])


@dataclass(frozen=True, eq=False)
class Draws:
    """What is drawn, the same for all streams that are compared; row 0 changes nothing.

    Parameters
    ----------
    counts : array of int, shape (1 + n, n_blocks)
        How often each block of calm time is drawn.
    gamma : array of shape (1 + n, 1 + n_attacks)
        Weights from Exp(1): of one more attack, and of each attack.
    more_calm : array of shape (1 + n,)
        The weight from Exp(1) of one more block of calm time.
    """

    counts: npt.NDArray[np.int32]
    gamma: Floats
    more_calm: Floats

    @classmethod
    def of(cls, n_attacks: int, n_blocks: int, *, n: int, seed: int) -> "Draws":
        """Draw `n` times; the same seed gives the same draws."""
        rng = np.random.default_rng(seed)
        counts = np.ones((1 + n, n_blocks), np.int32)
        # One draw at a time uses the same memory again, which is faster.
        for count in counts[1:]:
            chosen = rng.integers(0, n_blocks, n_blocks)
            count[:] = np.bincount(chosen, minlength=n_blocks)
        gamma = np.ones((1 + n, 1 + n_attacks))
        gamma[0, 0] = 0.0
        gamma[1:] = rng.exponential(size=(n, 1 + n_attacks))
        more_calm = np.concatenate([[0.0], rng.exponential(size=n)])
        return cls(counts, gamma, more_calm)

    @classmethod
    def of_pairs(cls, n_attacks: int, n_blocks: int, *, n: int, seed: int) -> "Draws":
        """Leave out each attack in turn, then redraw attack-free time `n` times.

        There is no further attack and no further block. Rows 1 to `n_attacks` are
        without one attack each.
        """
        redrawn = cls.of(0, n_blocks, n=n, seed=seed).counts
        n_rows = n_attacks + len(redrawn)
        counts = np.ones((n_rows, n_blocks), np.int32)
        counts[1 + n_attacks :] = redrawn[1:]
        gamma = np.ones((n_rows, 1 + n_attacks))
        gamma[:, 0] = 0.0
        gamma[np.arange(1, 1 + n_attacks), np.arange(1, 1 + n_attacks)] = 0.0
        return cls(counts, gamma, np.zeros(n_rows))

    def sums(self, of_blocks: Floats) -> Floats:
        """Return what the drawn blocks sum to.

        Parameters
        ----------
        of_blocks : array of shape (n_blocks, ...)
            What each block is worth.

        Returns
        -------
        array of shape (1 + n, ...)
            A row for each draw.
        """
        n = max(1, _MOST_COUNTS // len(of_blocks))
        parts = (self.counts[k : k + n] for k in range(0, len(self), n))
        return np.concatenate([part.astype(np.float64) @ of_blocks for part in parts])

    def running_sums(self, block: npt.NDArray[np.int32]) -> Iterator[Ints]:
        """Yield for each draw how many of the first 0, 1, ... items are drawn.

        The array of shape (1 + n_items,) is valid until the next one.

        Parameters
        ----------
        block : array of shape (n_items,)
            The block that each item is in, and with which it is drawn.
        """
        # The type that numpy takes as it is, and the same memory for all draws.
        index, sums = block.astype(np.intp), np.zeros(1 + len(block), np.int64)
        for count in self.counts:
            np.cumsum(count[index], out=sums[1:])
            yield sums

    def __len__(self) -> int:
        """Return the number of rows, row 0 included."""
        return len(self.counts)

    def of_attacks(self, kept: Bools) -> "Draws":
        """Return the same draws for some of the attacks.

        One that would leave no attack leaves all.
        """
        gamma = self.gamma[:, np.append(True, kept)]
        gamma[~gamma.any(axis=1), 1:] = 1.0
        return Draws(self.counts, gamma, self.more_calm)


class Value(StrEnum):
    """What an attack is worth to a figure, by the docs of the figure.

    ``AUC``, ``PAUC_1`` and ``PAUC_5`` are against all calm rows, ``COVERAGE`` is the
    share of its rows in alarm, ``HIT`` whether there is one, and ``BEATEN`` the share
    of its matched windows with less evidence.
    """

    AUC = "auc"
    PAUC_1 = "pauc_1"
    PAUC_5 = "pauc_5"
    COVERAGE = "coverage"
    HIT = "hit"
    BEATEN = "beaten"


@dataclass(frozen=True, eq=False)
class DrawnStream:
    """What a stream gives in every draw; row 0 is the stream as it is.

    Parameters
    ----------
    stream : Drawable
        The stream.
    values : dict
        By `Value`: that of each attack, of shape (1 + n, n_attacks), or (1, n_attacks)
        if it does not depend on calm time; nan where an attack has none.
    average_precision : array of shape (1 + n, 2)
        With one more attack, unseen and wholly seen.
    false_rate, false_rate_more : array of shape (1 + n,)
        Share of calm rows in alarm, without and with one more block.
    mean, median : array of shape (1 + n,)
        Energy of calm rows.
    """

    stream: Drawable
    values: dict[Value, Floats]
    average_precision: Floats
    false_rate: Floats
    false_rate_more: Floats
    mean: Floats
    median: Floats


def no_tick(n_done: int) -> None:
    """Ignore progress: the default if no callback is given."""


def draw(
    stream: Drawable, draws: Draws, *, medians: bool = True, tick: Tick = no_tick
) -> DrawnStream:
    """Return what a stream gives in every draw.

    Parameters
    ----------
    stream : Drawable
        The stream.
    draws : Draws
        For as many attacks and blocks as the stream has.
    medians : bool
        Whether the median energy of calm rows is needed; nan if not.
    tick : callable
        Called with the number of draws that are done, after each.
    """
    of_blocks = (stream.block_rows, stream.block_energy, stream.block_alarms)
    totals, energy, alarms = draws.sums(np.column_stack(of_blocks)).T
    summed, precision, median = _draw_ranks(stream, draws, totals, medians, tick)
    areas = _shares(summed, stream.attack_rows[:, None])
    for k, rate in enumerate(PAUC_RATES, start=1):
        chance = rate**2 / 2
        areas[:, :, k] = (areas[:, :, k] - chance) / (rate - chance)
    is_hit = np.where(stream.attack_rows > 0, np.sign(stream.attack_alarms), np.nan)
    values = {
        Value.AUC: areas[:, :, 0],
        Value.PAUC_1: areas[:, :, 1],
        Value.PAUC_5: areas[:, :, 2],
        Value.COVERAGE: _shares(stream.attack_alarms, stream.attack_rows)[None],
        Value.HIT: is_hit[None],
    }
    if stream.windows is not None:
        # The windows of all attacks side by side, of each the beaten ones first.
        each = [
            one.block[kept]
            for one in stream.windows
            for kept in (one.is_beaten, ~one.is_beaten)
        ]
        block = np.concatenate([np.empty(0, np.int32), *each])
        bounds = np.cumsum([0, *map(len, each)])
        sums = [one[bounds] for one in draws.running_sums(block)]
        number = np.diff(np.array(sums, np.float64), axis=1)
        beaten = _shares(number[:, ::2], number[:, ::2] + number[:, 1::2])
        # Where none of its windows is drawn, its own share stands for it.
        values[Value.BEATEN] = np.where(np.isnan(beaten), beaten[0], beaten)
    # One more block is in alarm as the worst that is not much shorter than others.
    rows = stream.block_rows
    long = rows >= rows[rows > 0].mean() / 2
    share = float(np.max(stream.block_alarms[long] / rows[long]))
    more = draws.more_calm * stream.block
    more_alarms = max(LEAST_ALARM_SHARE, share) * more
    return DrawnStream(
        stream=stream,
        values=values,
        average_precision=precision,
        mean=_shares(energy, totals),
        median=median,
        false_rate=_shares(alarms, totals),
        false_rate_more=_shares(alarms + more_alarms, totals + more),
    )


def _draw_ranks(
    stream: Drawable, draws: Draws, totals: Floats, medians: bool, tick: Tick
) -> tuple[Floats, Floats, Floats]:
    """Return rank figures, a row for each draw; nan for a draw without calm rows.

    All that a draw needs of the calm rows is how many are drawn above each attack row,
    and at or above it: a running sum of how often each calm row is drawn. `totals` are
    the calm rows of each draw.

    Returns
    -------
    areas : array of shape (1 + n, n_attacks, 1 + n_limits)
        By attack, summed over its rows: the area under the ROC curve, and that up to
        each limit of the false-alarm rate.
    precision : array of shape (1 + n, 2)
        Average precision with one more attack, unseen and wholly seen; nan without
        attack rows.
    median : array of shape (1 + n,)
        Median energy of calm rows; nan if it is not needed.
    """
    n, n_rows, n_normal = len(totals), len(stream.attack), stream.n_normal
    areas = np.full((n, stream.n_attacks, 1 + len(PAUC_RATES)), np.nan)
    precision, median = np.full((n, 2), np.nan), np.full(n, np.nan)
    attack = stream.attack.astype(np.intp)
    # For each attack row the last of the same energy.
    is_last = np.append(~stream.attack_tied[1:], True)
    last = np.flatnonzero(is_last)[np.cumsum(~stream.attack_tied) - 1]
    # What a row of each attack weighs, and the rows of one more attack: together as
    # many rows as the attacks have.
    share = _shares(stream.attack_rows, stream.attack_rows.sum())
    more = draws.gamma[:, 0] * np.sum(share**2)
    scale = draws.gamma[:, 1:] @ share + more
    weight = _shares(draws.gamma[:, 1:], scale[:, None])
    extra = _shares(n_rows * more, scale)
    for r, sums in enumerate(draws.running_sums(stream.normal_block)):
        tick(r + 1)
        if (total := float(totals[r])) == 0:
            continue
        above = sums[stream.above].astype(np.float64)
        up_to = sums[stream.up_to].astype(np.float64)
        areas[r] = _roc_areas(stream, attack, above, up_to, total).T
        if n_rows:
            of_row, false = weight[r].take(attack), n_normal / total * up_to
            hits = np.cumsum(of_row).take(last)
            # Above all rows that count there is neither: their precision is 0.
            low = float(of_row @ (hits / np.maximum(hits + false, _LEAST)))
            hits += extra[r]
            high = float(of_row @ (hits / np.maximum(hits + false, _LEAST)))
            by_chance = n_rows / (n_rows + n_normal)
            precision[r, 0] = (low + extra[r] * by_chance) / n_rows
            precision[r, 1] = (high + extra[r]) / n_rows
        if medians:
            # The middle row of those drawn, or both middle ones.
            middle = [(int(total) + 1) // 2, int(total) // 2 + 1]
            lower, upper = stream.normal_energy[np.searchsorted(sums, middle) - 1]
            median[r] = 0.5 * (upper + lower)
    return areas, precision, median


def _roc_areas(
    stream: Drawable, attack: Ints, above: Floats, up_to: Floats, total: float
) -> Floats:
    """Return areas under the ROC curve by attack, of shape (1 + n_limits, n_attacks).

    `above` and `up_to` are the calm rows drawn above each attack row, and down to it;
    `total` are all calm rows drawn.
    """
    share, n_attacks = 1.0 / total, stream.n_attacks
    areas = np.empty((1 + len(PAUC_RATES), n_attacks))
    middle = 0.5 * (above + up_to)
    areas[0] = stream.attack_rows - share * np.bincount(attack, middle, n_attacks)
    for k, limit in enumerate(PAUC_RATES, start=1):
        # Rows come by falling energy: from here on none is above the limit.
        end = int(above.searchsorted(total * limit))
        # What a step that rises from rate first to last has up to the limit.
        first, last = share * above[:end], share * up_to[:end]
        width = np.where(last > first, last - first, 1.0)
        inner = limit - 0.5 * (first + last)
        ramp = np.where(limit >= last, inner, 0.5 * (limit - first) ** 2 / width)
        areas[k] = np.bincount(attack[:end], ramp, n_attacks)
    return areas


def _shares(part: Floats, whole: Floats) -> Floats:
    """Return part / whole; nan where the whole is 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(part / np.where(whole > 0, whole, np.nan))


# --- Intervals ------------------------------------------------------------------------


class Weighting(StrEnum):
    """By what an attack weighs in a figure: rows, matched windows, or all alike."""

    ROWS = "rows"
    WINDOWS = "windows"
    EQUAL = "equal"


@dataclass(frozen=True)
class WeightedMean:
    """A figure that is a mean over attacks.

    Parameters
    ----------
    value : Value
        What an attack is worth.
    weighting : Weighting
        What it weighs.
    unseen : float, optional
        What an attack is worth that leaves no trace; None if any value of 0 to 1 is as
        likely: how an attack-free window ranks among such windows.
    """

    value: Value
    weighting: Weighting
    unseen: float | None = 0.0


# Figures that are means over attacks, by their key in `sightline.figures`.
MEANS = {
    Figure.ROC_AUC: WeightedMean(Value.AUC, Weighting.ROWS, 0.5),
    Figure.PAUC_1: WeightedMean(Value.PAUC_1, Weighting.ROWS),
    Figure.PAUC_5: WeightedMean(Value.PAUC_5, Weighting.ROWS),
    Figure.MEAN_SEGMENT_AUC: WeightedMean(Value.AUC, Weighting.EQUAL, 0.5),
    Figure.P_FULL: WeightedMean(Value.BEATEN, Weighting.WINDOWS, None),
    Figure.P_FULL_PER_SEGMENT: WeightedMean(Value.BEATEN, Weighting.EQUAL, None),
    Figure.RECALL: WeightedMean(Value.COVERAGE, Weighting.ROWS),
    Figure.HITS: WeightedMean(Value.HIT, Weighting.EQUAL),
}


@dataclass(frozen=True, eq=False)
class Ends:
    """A figure in every draw, with one more attack unseen and wholly seen.

    Row 0 of both is the figure itself. `tail` is the share of draws beyond each end.
    """

    low: Floats
    high: Floats
    tail: float = _TAILS[0]

    @property
    def estimate(self) -> float:
        """The figure itself."""
        return float(self.low[0])


def effective_attacks(weight: Floats) -> float:
    """Return how many attacks of equal weight would tell as much: 1 / sum w^2.

    Parameters
    ----------
    weight : array of shape (n_attacks,)
        What each attack weighs, in any unit.

    Examples
    --------
    >>> effective_attacks(np.array([1.0, 1.0, 1.0, 1.0]))
    4.0
    >>> round(effective_attacks(np.array([68.0, *34 * [1.0]])), 1)
    2.2
    """
    return float(weight.sum() ** 2 / np.sum(weight**2))


def one_more_attack(
    values: Floats, weight: Floats, gamma: Floats, unseen: float | Floats
) -> Ends:
    """Return a mean over attacks in every draw, with one more attack.

    Parameters
    ----------
    values : array of shape (n, n_attacks) or (1, n_attacks)
        What each attack is worth in each draw.
    weight : array of shape (n_attacks,)
        Its weight; they sum to 1.
    gamma : array of shape (n, 1 + n_attacks)
        Weights from Exp(1); the first is that of one more attack.
    unseen : float or array of shape (n,)
        What that attack is worth if it leaves no trace, the same in each draw or not;
        the lowest of all values where the figure itself is below its mean.

    Examples
    --------
    >>> gamma = np.random.default_rng(0).exponential(size=(20_000, 2))
    >>> ends = one_more_attack(np.ones((1, 1)), np.ones(1), gamma, 0.0)
    >>> round(float(np.quantile(ends.low, 0.025)), 2)
    0.03
    """
    if float(values[0] @ weight) < float(np.mean(unseen)):
        unseen = float(np.min(values[0]))
    drawn = gamma[:, 1:] * weight
    more = gamma[:, 0] * np.sum(weight**2)
    whole = drawn.sum(axis=1) + more
    seen = np.einsum("ri,ri->r", drawn, np.broadcast_to(values, drawn.shape))
    return Ends(_shares(seen + more * unseen, whole), _shares(seen + more, whole))


def tail_of(values: Floats, weight: Floats) -> float:
    """Return the tail of a figure that weighs attacks by their rows.

    2.5% for many attacks, and where all values are 0 or 1 (to 0.01), for which one more
    attack is exact; up to 5% for few effective ones, where it is more than 95% need.

    Examples
    --------
    >>> tail_of(np.array([0.2, 0.9]), np.array([1.0, 1.0]))
    0.05
    >>> tail_of(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    0.025
    """
    if np.all(np.abs(values - np.round(values)) <= 0.01):
        return _TAILS[0]
    return _TAILS[0] * (1 + min(1.0, _FEW_EFFECTIVE / effective_attacks(weight)))


def interval_of(
    estimate: float | None, ends: Ends, *, low: float = 0.0, high: float = 1.0
) -> tuple[float, float | None] | None:
    """Return the 95% interval: a low point of the low end, a high one of the high end.

    It is stretched to hold the estimate, and cut to the range of the figure.

    Parameters
    ----------
    estimate : float, optional
        The figure itself.
    ends : Ends
        The figure in every draw; nan does not count.
    low, high : float
        The range of the figure.

    Returns
    -------
    tuple, or None
        None if the figure is undefined. The upper end is None if it is infinite.
    """
    draws = [end[1:][~np.isnan(end[1:])] for end in (ends.low, ends.high)]
    if estimate is None or not all(map(len, draws)):
        return None
    # A value that was drawn, as there is none between a number and infinity.
    at = [
        float(np.quantile(drawn, tail, method="inverted_cdf"))
        for drawn, tail in zip(draws, (ends.tail, 1 - ends.tail), strict=True)
    ]
    bottom, top = max(min(at[0], estimate), low), min(max(at[1], estimate), high)
    if not np.isfinite(bottom):
        return None
    return bottom, (top if np.isfinite(top) else None)


def weights_of(drawn: DrawnStream) -> dict[Weighting, Floats]:
    """Return what each attack of a stream weighs, by kind; they need not sum to 1."""
    stream = drawn.stream
    return {
        Weighting.ROWS: stream.attack_rows,
        Weighting.WINDOWS: stream.n_windows,
        Weighting.EQUAL: np.ones(stream.n_attacks),
    }


def ends_of(
    drawn: DrawnStream, draws: Draws, weights: Mapping[Weighting, Floats]
) -> dict[str, Ends]:
    """Return every figure with an interval but the drifts, in every draw.

    Parameters
    ----------
    drawn : DrawnStream
        What a stream gives in every draw.
    draws : Draws
        The draws.
    weights : mapping
        What each attack weighs, by kind.

    Returns
    -------
    dict
        By figure; without what the stream does not have.
    """
    ends = {"false_alarm_rate": Ends(drawn.false_rate, drawn.false_rate_more)}
    if drawn.stream.n_attacks == 0:
        return ends
    for figure, mean in MEANS.items():
        if mean.value not in drawn.values:
            continue
        values = drawn.values[mean.value]
        known = ~np.isnan(values[0])
        weight = np.where(known, weights[mean.weighting], 0.0)
        if weight.sum() > 0:
            weight, gamma = weight[known] / weight.sum(), draws.of_attacks(known).gamma
            # Any number of 0 to 1 is as likely: the law of Exp(1) at its draws.
            chance = np.asarray(-np.expm1(-draws.more_calm))
            unseen = chance if mean.unseen is None else mean.unseen
            one_more = one_more_attack(values[:, known], weight, gamma, unseen)
            if mean.weighting is Weighting.ROWS:
                one_more = replace(one_more, tail=tail_of(values[0, known], weight))
            ends[figure.value] = one_more
    # F1 and precision follow from recall and the share of calm rows in alarm.
    n_attack, n_normal = drawn.stream.attack_rows.sum(), drawn.stream.n_normal
    recall, f1, precision = ends["recall"], [], []
    for share, rate in (
        (recall.low, drawn.false_rate_more),
        (recall.high, drawn.false_rate),
    ):
        true, alarms = share * n_attack, share * n_attack + rate * n_normal
        f1.append(2 * true / (n_attack + alarms))
        precision.append(true / np.where(alarms > 0, alarms, np.nan))
    auc = ends.get("roc_auc", recall)
    ends |= {
        "f1": Ends(f1[0], f1[1], recall.tail),
        "precision": Ends(precision[0], precision[1], recall.tail),
        "average_precision": replace(Ends(*drawn.average_precision.T), tail=auc.tail),
    }
    if drawn.stream.d_full is not None:
        ends["median_d_full"] = weighted_median(drawn.stream.d_full, draws.gamma)
    return ends


def weighted_median(values: Floats, gamma: Floats) -> Ends:
    """Return the weighted median in every draw, with one more attack at 0 or infinity.

    Parameters
    ----------
    values : array of shape (n_attacks,)
        At least 0 each.
    gamma : array of shape (n, 1 + n_attacks)
        The weight of one more attack, and of each attack.
    """
    order = np.argsort(values)
    rising, weight, more = values[order], gamma[:, 1:][:, order], gamma[:, :1]
    return Ends(
        _medians(np.append(0.0, rising), np.hstack([more, weight])),
        _medians(np.append(rising, np.inf), np.hstack([weight, more])),
    )


def _medians(rising: Floats, weight: Floats) -> Floats:
    """Return the median of sorted values by each row of weights.

    The mean of the two middle values where the weight is halved between them.
    """
    below = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
    # So that equal weights are halved where they should be.
    lower = rising[np.argmax(below >= 0.5 - 1e-12, axis=1)]
    upper = rising[np.argmax(below > 0.5 + 1e-12, axis=1)]
    return np.asarray(np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper))


def drift_ends(drawn: DrawnStream, train_mean: float) -> dict[str, Ends]:
    """Return both drifts in every draw of calm blocks; they need no attack."""
    # Energies may be so large that their sum overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        d_drift, robust = drawn.mean - train_mean, drawn.median - train_mean
    return {"d_drift": Ends(d_drift, d_drift), "d_drift_robust": Ends(robust, robust)}


def count_interval(hits: int, n: int) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) 95% interval of a count of n.

    Examples
    --------
    >>> low, high = count_interval(0, 10)
    >>> low, round(high, 2)
    (0.0, 3.08)
    """
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else betaincinv(hits, n - hits + 1, _TAILS[0])
    high = 1.0 if hits == n else 1 - betaincinv(n - hits, hits + 1, _TAILS[0])
    return float(low * n), float(high * n)


def count_p_value(hits: int, chances: Sequence[float]) -> float:
    """Return the probability of as many hits or more, each with a chance of its own.

    The upper tail of the Poisson-binomial law.

    Examples
    --------
    >>> count_p_value(2, [0.5, 0.5]), count_p_value(0, [0.5])
    (0.25, 1.0)
    """
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    return float(min(1.0, law[hits:].sum()))
