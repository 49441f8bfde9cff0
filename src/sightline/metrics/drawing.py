"""A stream cut into what is drawn: whole attacks, and blocks of attack-free time.

Attacks are few and long, and energy is autocorrelated, so neither attack rows nor calm
rows are independent. Attacks therefore count as wholes, and calm rows are drawn in
blocks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Segment, segments_of
from sightline.figures import PAUC_RATES

N_REPLICATES = 500
# Attack-free time is cut into about this many blocks at most: more draw no better.
MOST_BLOCKS = 10_000
# One more block of calm time is in alarm for at least this share of it.
LEAST_ALARM_SHARE = 0.5
# Counts that a product takes as floats at a time: little memory, used again.
_MOST_COUNTS = 1 << 18
# Progress is reported after this many draws.
_TICK = 16
# Called with the number of draws that are done.
Tick = Callable[[int], None]


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
    autocovariance = _autocovariance(series, min(most, n - 1))
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


def _autocovariance(series: Floats, n_lags: int) -> Floats:
    """Return the autocovariance at lags 0 to `n_lags`, by Fourier transform."""
    n = len(series)
    centered = series - series.mean()
    size = 1 << int(np.ceil(np.log2(n + n_lags + 1)))
    power = np.abs(np.fft.rfft(centered, size))
    np.square(power, out=power)
    # A copy, so that the rest of a long series is freed.
    return np.fft.irfft(power, size)[: n_lags + 1] / n


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
        """Return the same draws for some of the attacks."""
        return Draws(self.counts, self.gamma[:, np.append(True, kept)], self.more_calm)


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
        Called with the number of draws that are done, after some of them.
    """
    of_blocks = (stream.block_rows, stream.block_energy, stream.block_alarms)
    totals, energy, alarms = draws.sums(np.column_stack(of_blocks)).T
    ranks = _draw_ranks(stream, draws, totals, medians=medians, tick=tick)
    areas = _shares(ranks.areas, stream.attack_rows[:, None])
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
        windows = _WindowsOfAttacks.of(stream.windows)
        values[Value.BEATEN] = windows.beaten(draws)
    # One more block is in alarm as the worst that is not much shorter than others.
    rows = stream.block_rows
    long = rows >= rows[rows > 0].mean() / 2
    share = float(np.max(stream.block_alarms[long] / rows[long]))
    more = draws.more_calm * stream.block
    more_alarms = max(LEAST_ALARM_SHARE, share) * more
    return DrawnStream(
        stream=stream,
        values=values,
        average_precision=ranks.precision,
        mean=_shares(energy, totals),
        median=ranks.median,
        false_rate=_shares(alarms, totals),
        false_rate_more=_shares(alarms + more_alarms, totals + more),
    )


class _DrawnRanks(NamedTuple):
    """Rank figures, a row for each draw; nan for a draw without calm rows.

    `areas` are by attack, summed over its rows: the area under the ROC curve and that
    up to each limit of the false-alarm rate. `precision` is the average precision with
    one more attack, unseen and wholly seen; nan without attack rows. `median` is the
    median energy of calm rows, nan if it is not needed.
    """

    areas: Floats
    precision: Floats
    median: Floats


def _draw_ranks(
    stream: Drawable, draws: Draws, totals: Floats, *, medians: bool, tick: Tick
) -> _DrawnRanks:
    """Return the rank figures of each draw; `totals` are its calm rows.

    All that a draw needs of the calm rows is how many are drawn above each attack row,
    and at or above it: a running sum of how often each calm row is drawn.
    """
    n, ranked = len(totals), _RankedRows(stream)
    weight, extra = _weights_of_rows(stream, draws)
    ranks = _DrawnRanks(
        np.full((n, stream.n_attacks, 1 + len(PAUC_RATES)), np.nan),
        np.full((n, 2), np.nan),
        np.full(n, np.nan),
    )
    for r, sums in enumerate(draws.running_sums(stream.normal_block)):
        if (total := float(totals[r])) > 0:
            above = sums[stream.above].astype(np.float64)
            up_to = sums[stream.up_to].astype(np.float64)
            ranks.areas[r] = ranked.areas(above, up_to, total).T
            ranks.precision[r] = ranked.precision(up_to, total, weight[r], extra[r])
            if medians:
                # The middle row of those drawn, or both middle ones.
                middle = [(int(total) + 1) // 2, int(total) // 2 + 1]
                lower, upper = stream.normal_energy[np.searchsorted(sums, middle) - 1]
                ranks.median[r] = 0.5 * (upper + lower)
        if r % _TICK == _TICK - 1 or r == n - 1:
            tick(r + 1)
    return ranks


class _RankedRows:
    """The calm rows of a stream by falling energy, and the attack rows among them."""

    def __init__(self, stream: Drawable) -> None:
        self._attack = stream.attack.astype(np.intp)
        self._has_equal = bool((stream.up_to != stream.above).any())
        # For each attack row the last of the same energy; none if all are different.
        self._last = None
        if stream.attack_tied.any():
            is_last = np.append(~stream.attack_tied[1:], True)
            self._last = np.flatnonzero(is_last)[np.cumsum(~stream.attack_tied) - 1]
        self._stream = stream

    def areas(self, above: Floats, up_to: Floats, total: float) -> Floats:
        """Return areas under the ROC curve, of shape (1 + n_limits, n_attacks)."""
        share = 1.0 / total
        areas = np.empty((1 + len(PAUC_RATES), self._stream.n_attacks))
        middle = 0.5 * (above + up_to) if self._has_equal else above
        areas[0] = self._stream.attack_rows - share * self._by_attack(middle)
        for k, limit in enumerate(PAUC_RATES, start=1):
            # Rows come by falling energy: from here on none is above the limit.
            end = int(above.searchsorted(total * limit))
            first = share * above[:end]
            ramp = limit - first
            if self._has_equal:
                # What a step that rises from rate first to last has up to the limit.
                last = share * up_to[:end]
                width = np.where(last > first, last - first, 1.0)
                inner = limit - 0.5 * (first + last)
                ramp = np.where(limit >= last, inner, 0.5 * ramp**2 / width)
            areas[k] = self._by_attack(ramp)
        return areas

    def _by_attack(self, values: Floats) -> Floats:
        """Return sums of values of the first attack rows, by attack."""
        attack = self._attack[: len(values)]
        summed = np.bincount(attack, values, self._stream.n_attacks)
        return summed.astype(np.float64, copy=False)

    def precision(
        self, up_to: Floats, total: float, weight: Floats, extra: float
    ) -> tuple[float, float]:
        """Return the average precision with one more attack, unseen and wholly seen."""
        n, n_normal = len(self._attack), self._stream.n_normal
        if n == 0:
            return np.nan, np.nan
        of_row = weight.take(self._attack)
        hits = np.cumsum(of_row)
        if self._last is not None:
            hits = hits.take(self._last)
        false = n_normal / total * up_to
        low = float(of_row @ (hits / (hits + false)))
        hits += extra
        high = float(of_row @ (hits / (hits + false)))
        by_chance = n / (n + n_normal)
        return (low + extra * by_chance) / n, (high + extra) / n


def _weights_of_rows(stream: Drawable, draws: Draws) -> tuple[Floats, Floats]:
    """Return what a row of each attack weighs, and the rows of one more attack.

    Together they weigh as many rows as the attacks have.
    """
    n_rows = stream.attack_rows.sum()
    if n_rows == 0:
        return np.empty((len(draws), stream.n_attacks)), np.zeros(len(draws))
    share = stream.attack_rows / n_rows
    more = draws.gamma[:, 0] * np.sum(share**2)
    scale = draws.gamma[:, 1:] @ share + more
    return draws.gamma[:, 1:] / scale[:, None], n_rows * more / scale


@dataclass(frozen=True, eq=False)
class _WindowsOfAttacks:
    """The windows of all attacks side by side, of each the beaten ones first.

    Parameters
    ----------
    block : array of shape (n_windows,)
        Their blocks.
    bounds : array of shape (1 + 2 n_attacks,)
        Where the beaten ones and the others of each attack begin; and the end.
    """

    block: npt.NDArray[np.int32]
    bounds: Ints

    @classmethod
    def of(cls, windows: Sequence[MatchedWindows]) -> "_WindowsOfAttacks":
        parts = [
            one.block[kept]
            for one in windows
            for kept in (one.is_beaten, ~one.is_beaten)
        ]
        block = np.concatenate([np.empty(0, np.int32), *parts])
        return cls(block, np.cumsum([0, *map(len, parts)]))

    def beaten(self, draws: Draws) -> Floats:
        """Return the share of beaten windows of each attack in every draw."""
        sums = [one[self.bounds] for one in draws.running_sums(self.block)]
        drawn = np.diff(np.array(sums, np.float64), axis=1)
        shares = _shares(drawn[:, ::2], drawn[:, ::2] + drawn[:, 1::2])
        # Where none of its windows is drawn, its own share stands for it.
        return np.where(np.isnan(shares), shares[0], shares)


def _shares(part: Floats, whole: Floats) -> Floats:
    """Return part / whole; nan where the whole is 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(part / np.where(whole > 0, whole, np.nan))
