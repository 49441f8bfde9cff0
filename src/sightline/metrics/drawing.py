"""A stream cut into what is drawn: whole attacks, and blocks of attack-free time.

Attacks are few and long, and energy is autocorrelated, so neither attack rows nor calm
rows are independent. Attacks therefore count as wholes, and calm rows are drawn in
blocks.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Segment, segments_of
from sightline.figures import PAUC_RATES
from sightline.metrics.drawn_ranks import Seen, draw_ranks, lanes_of, running_sums

N_REPLICATES = 500
# Attack-free time is cut into about this many blocks at most: more draw no better.
MOST_BLOCKS = 10_000
# One more block of calm time is in alarm for at least this share of it.
LEAST_ALARM_SHARE = 0.5
# Counts that a product takes as floats at a time: little memory, used again.
_MOST_COUNTS = 1 << 18
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
    _shared: dict[int, Ints] = field(default_factory=dict, init=False, repr=False)

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

    def shared(self, bits: int) -> Ints:
        """Return the counts of several draws in each integer; for `running_sums`.

        Draw r has the bits from ``bits * (r % lanes)`` on in row ``r // lanes``.
        """
        if bits not in self._shared:
            lanes = lanes_of(bits)
            shared = np.zeros((-(-len(self) // lanes), self.counts.shape[1]), np.int64)
            for r, count in enumerate(self.counts):
                shared[r // lanes] += count.astype(np.int64) << bits * (r % lanes)
            self._shared[bits] = shared
        return self._shared[bits]

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
    windows = _Windows.of(stream.windows or ())
    n_windows = np.bincount(windows.block, minlength=len(stream.block_rows))
    of_blocks = (stream.block_rows, stream.block_energy, stream.block_alarms, n_windows)
    totals, energy, alarms, drawn_windows = draws.sums(np.column_stack(of_blocks)).T
    # Enough for calm rows and for windows: both share what is made for one.
    bits = int(max(totals.max(), drawn_windows.max())).bit_length()
    weights = _weights_of_rows(stream, draws)
    seen = running_sums(draws, stream.normal_block, bits)
    ranks = draw_ranks(
        stream, seen, totals, weights, PAUC_RATES, medians=medians, tick=tick
    )
    areas = _shares(ranks.areas, stream.attack_rows[:, None])
    for k, rate in enumerate(PAUC_RATES, start=1):
        chance = rate**2 / 2
        areas[:, :, k] = (areas[:, :, k] - chance) / (rate - chance)
    values = _values(stream, areas)
    if stream.windows is not None:
        values[Value.BEATEN] = windows.beaten(running_sums(draws, windows.block, bits))
    return DrawnStream(
        stream=stream,
        values=values,
        average_precision=ranks.precision,
        mean=_shares(energy, totals),
        median=ranks.median,
        **_false_rates(stream, draws, totals, alarms),
    )


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


def _values(stream: Drawable, areas: Floats) -> dict[Value, Floats]:
    """Return what each attack is worth in every draw, but for its windows."""
    return {
        Value.AUC: areas[:, :, 0],
        Value.PAUC_1: areas[:, :, 1],
        Value.PAUC_5: areas[:, :, 2],
        Value.COVERAGE: _shares(stream.attack_alarms, stream.attack_rows)[None],
        Value.HIT: np.where(
            stream.attack_rows > 0, np.sign(stream.attack_alarms), np.nan
        )[None],
    }


@dataclass(frozen=True, eq=False)
class _Windows:
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
    def of(cls, windows: Sequence[MatchedWindows]) -> "_Windows":
        parts = [
            one.block[kept]
            for one in windows
            for kept in (one.is_beaten, ~one.is_beaten)
        ]
        block = np.concatenate([np.empty(0, np.int32), *parts])
        return cls(block, np.cumsum([0, *map(len, parts)]))

    def beaten(self, draws: Iterable[Seen]) -> Floats:
        """Return the share of beaten windows of each attack in every draw."""
        seen = np.array([one.at(self.bounds) for one in draws], np.float64)
        drawn = np.diff(seen, axis=1)
        shares = _shares(drawn[:, ::2], drawn[:, ::2] + drawn[:, 1::2])
        # Where none of its windows is drawn, its own share stands for it.
        return np.where(np.isnan(shares), shares[0], shares)


def _false_rates(
    stream: Drawable, draws: Draws, totals: Floats, alarmed: Floats
) -> dict[str, Floats]:
    """Return the share of calm rows in alarm, without and with one more block."""
    rows, alarms = stream.block_rows, stream.block_alarms
    long = rows >= rows[rows > 0].mean() / 2
    worst = max(LEAST_ALARM_SHARE, float(np.max(alarms[long] / rows[long])))
    more = draws.more_calm * stream.block
    return {
        "false_rate": _shares(alarmed, totals),
        "false_rate_more": _shares(alarmed + worst * more, totals + more),
    }


def _shares(part: Floats, whole: Floats) -> Floats:
    """Return part / whole; nan where the whole is 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(part / np.where(whole > 0, whole, np.nan))
