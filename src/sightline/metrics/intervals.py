"""How far a figure may be trusted: intervals by bootstrap, floors by chance.

Attacks are few and long, and energy is autocorrelated, so neither attack steps nor
normal steps are independent. For an interval attacks are drawn whole and attack-free
time in blocks. For the chance floor the labels are moved along the stream, which keeps
the length of the attacks, the autocorrelation of the energy and its alarm rate.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Segment, segments_of
from sightline.metrics.ranking import PAUC_RATES
from sightline.metrics.window_kl import WindowEnergies, WindowOutcome

N_REPLICATES = 500
N_SHIFTS = 199
# With fewer attacks than this an interval is marked.
FEW_EVENTS = 10
# Attack-free time is cut into about this many blocks at most: more draw no better.
MOST_BLOCKS = 10_000
# A figure is above its floor if at most this share of shifts reaches it.
FLOOR_SHARE = 0.05


@dataclass(frozen=True)
class FigureInfo:
    """A figure that gets an interval: its block, its range, whether it needs attacks.

    Intervals end where the figure does. What needs no attack has no chance floor, and
    its interval is not widened for few attacks.
    """

    block: str
    low: float = 0.0
    high: float = 1.0
    needs_attack: bool = True


FIGURES = {
    "roc_auc": FigureInfo("rank"),
    "pauc_1": FigureInfo("rank", low=-np.inf),
    "pauc_5": FigureInfo("rank", low=-np.inf),
    "average_precision": FigureInfo("rank"),
    "mean_segment_auc": FigureInfo("rank"),
    "p_full": FigureInfo("windows"),
    "median_d_full": FigureInfo("windows", high=np.inf),
    "d_drift": FigureInfo("drift", low=-np.inf, high=np.inf, needs_attack=False),
    "d_drift_robust": FigureInfo("drift", low=-np.inf, high=np.inf, needs_attack=False),
    "f1": FigureInfo("probe"),
    "precision": FigureInfo("probe"),
    "recall": FigureInfo("probe"),
    "hits": FigureInfo("probe", high=np.inf),
}
# The difference of a figure between two results.
_DIFFERENCE = FigureInfo("", low=-np.inf, high=np.inf)


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What chance gives for a figure, and whether the figure is above it.

    Parameters
    ----------
    value : float
        Mean of the figure over random shifts of the labels along the stream.
    above_floor : bool
        Whether at most 5% of the shifts reach the figure.
    """

    value: float
    above_floor: bool


def no_tick() -> None:
    """Ignore progress: the default if no callback is given."""


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
    spectrum = np.abs(np.fft.rfft(centered, size)) ** 2
    return np.fft.irfft(spectrum, size)[: n_lags + 1] / n


@dataclass(frozen=True, eq=False)
class Drawable:
    """A test stream cut into what is drawn: attacks, and blocks of attack-free time.

    Steps are in the order of falling energy. Sums over each attack and each block are
    made once, so that a replicate costs one pass and no sort.

    Parameters
    ----------
    block : int
        Rows of a block.
    normal_block, normal_energy : array of shape (n_normal,)
        Block and energy of each normal step.
    attack, attack_tied : array of shape (n_attack,)
        Which attack each attack step is part of, and whether it has the energy of the
        step before it.
    above, up_to : array of shape (n_attack,)
        Number of normal steps with more, and with at least, the step's energy.
    attack_rows, attack_alarms : array of shape (n_segments,)
        Steps and alarmed steps of each attack.
    block_rows, block_alarms, block_energy : array of shape (n_blocks,)
        Steps, alarmed steps and summed energy of each block.
    """

    block: int
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

    @classmethod
    def of(
        cls,
        energy: Floats,
        labels: Labels,
        is_alarm: Bools,
        attacks: Sequence[Segment],
        breaks: Ints,
        *,
        block: int | None = None,
    ) -> "Drawable":
        """Cut a scored test into attacks and blocks, and sort its energy once.

        Parameters
        ----------
        energy, labels, is_alarm : array of shape (n_steps,)
            Energy, label (1, 0, -1) and alarm of each test step.
        attacks : sequence of Segment
            The attack runs of `labels`.
        breaks : array of int
            First step of each continuous run; no block crosses one.
        block : int, optional
            Rows of a block; estimated from the log energy if None.
        """
        is_normal = labels == NORMAL
        rows = np.flatnonzero(is_normal)
        if block is None:
            tiny = np.finfo(np.float64).tiny
            estimated = block_length(np.log(np.maximum(energy[rows], tiny)))
            block = max(estimated, -(-len(rows) // MOST_BLOCKS))
        block_of = np.empty(len(energy), np.int32)
        n_blocks = 0
        for stretch in segments_of(is_normal, breaks):
            within = np.arange(stretch.length) // block
            block_of[stretch.rows] = n_blocks + within
            n_blocks += int(within[-1]) + 1
        falling = rows[np.argsort(energy[rows])[::-1]]
        attack_of = np.concatenate(
            [np.full(a.length, k, np.int32) for k, a in enumerate(attacks)]
            or [np.empty(0, np.int32)]
        )
        attack_energy = energy[labels == ATTACK]
        order = np.argsort(attack_energy)[::-1]
        attack_falling = attack_energy[order]
        tied = np.zeros(len(order), np.bool_)
        tied[1:] = attack_falling[1:] == attack_falling[:-1]
        rising = energy[falling][::-1]
        n_normal = len(rising)

        def per_block(values: Floats) -> Floats:
            summed = np.bincount(block_of[rows], values[rows], minlength=n_blocks)
            return summed.astype(np.float64)

        return cls(
            block=block,
            normal_block=block_of[falling],
            normal_energy=energy[falling],
            attack=attack_of[order],
            attack_tied=tied,
            above=n_normal - np.searchsorted(rising, attack_falling, side="right"),
            up_to=n_normal - np.searchsorted(rising, attack_falling, side="left"),
            attack_rows=np.array([float(a.length) for a in attacks]),
            attack_alarms=np.array([float(is_alarm[a.rows].sum()) for a in attacks]),
            block_rows=per_block(np.ones(len(energy))),
            block_alarms=per_block(is_alarm.astype(np.float64)),
            block_energy=per_block(energy),
        )


def draws(
    n_attacks: int, n_blocks: int, *, n_replicates: int, seed: int
) -> Iterator[tuple[Floats, Floats]]:
    """Yield how often each attack and each block is drawn; same seed, same draws."""
    rng = np.random.default_rng(seed)

    def counts(n: int) -> Floats:
        if n == 0:
            return np.empty(0)
        return np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)

    for _ in range(n_replicates):
        yield counts(n_attacks), counts(n_blocks)


def figures_of_draw(
    stream: Drawable,
    attack_weight: Floats,
    block_weight: Floats,
    *,
    train_mean: float,
    windows: WindowOutcome | None = None,
) -> dict[str, float]:
    """Return every figure of the stream with its attacks and blocks reweighted.

    Parameters
    ----------
    stream : Drawable
        The stream cut into attacks and blocks.
    attack_weight, block_weight : array
        How often each attack and each block was drawn.
    train_mean : float
        Mean train energy.
    windows : WindowOutcome, optional
        Of the same attacks, for `p_full` and `median_d_full`.
    """
    from sightline._kernels.rows import middle_steps, weigh_normal

    normal_total = float(block_weight @ stream.block_rows)
    above, up_to = np.empty((2, len(stream.attack)))
    times = block_weight.astype(np.int32)
    weigh_normal(stream.normal_block, times, stream.above, stream.up_to, above, up_to)
    # Attack steps mark how much weight lies above them: begin at the last in the half.
    last = int(np.searchsorted(above, normal_total / 2)) - 1
    start, seen = (int(stream.above[last]), int(above[last])) if last >= 0 else (0, 0)
    upper, lower = middle_steps(
        stream.normal_block, times, int(normal_total), start, seen
    )
    median = 0.5 * (stream.normal_energy[upper] + stream.normal_energy[lower])
    figures = {
        "d_drift": float(block_weight @ stream.block_energy) / normal_total
        - train_mean,
        "d_drift_robust": float(median) - train_mean,
    }
    if len(attack_weight) == 0:
        return figures
    figures |= rank_figures(
        stream.attack,
        stream.attack_tied,
        attack_weight,
        above,
        up_to,
        normal_total,
        stream.attack_rows,
    )
    figures |= alarm_figures(
        float(attack_weight @ stream.attack_alarms),
        float(block_weight @ stream.block_alarms),
        float(attack_weight @ stream.attack_rows),
    )
    if windows is not None:
        drawn = np.repeat(windows.d_full, attack_weight.astype(np.int64))
        n_pairs = float(attack_weight @ windows.n_matched)
        figures["median_d_full"] = float(np.median(drawn))
        figures["p_full"] = (
            float(attack_weight @ windows.wins) / n_pairs if n_pairs else np.nan
        )
    return figures


def rank_figures(
    attack: npt.NDArray[np.int32],
    tied: Bools,
    attack_weight: Floats,
    above: Floats,
    up_to: Floats,
    normal_total: float,
    attack_rows: Floats,
) -> dict[str, float]:
    """Return the rank metrics of one reweighted or relabelled stream.

    See `sightline._kernels.rows.rank_sums` for the arrays.
    """
    from sightline._kernels.rows import rank_sums

    areas, segment_auc = np.empty(3), np.empty(len(attack_weight))
    average_precision = rank_sums(
        attack,
        tied,
        attack_weight,
        above,
        up_to,
        normal_total,
        np.array([*PAUC_RATES, 1.0]),
        areas,
        segment_auc,
    )
    pauc_1, pauc_5 = (
        (area - a**2 / 2) / (a - a**2 / 2)
        for area, a in zip(areas[:2].tolist(), PAUC_RATES, strict=True)
    )
    segment_auc /= attack_rows
    return {
        "roc_auc": float(areas[2]),
        "pauc_1": pauc_1,
        "pauc_5": pauc_5,
        "average_precision": average_precision,
        "mean_segment_auc": float(attack_weight @ segment_auc / attack_weight.sum()),
    }


def alarm_figures(true: float, false: float, n_attack: float) -> dict[str, float]:
    """Return precision, recall and F1 from counts of alarm steps."""
    n_alarms = true + false
    return {
        "f1": 2 * true / (n_attack + n_alarms),
        "precision": true / n_alarms if n_alarms else np.nan,
        "recall": true / n_attack,
    }


def bootstrap(
    stream: Drawable,
    *,
    train_mean: float,
    windows: WindowOutcome | None = None,
    n_replicates: int = N_REPLICATES,
    seed: int = 0,
    tick: Callable[[], None] = no_tick,
) -> dict[str, Floats]:
    """Return each figure in every replicate of the event-and-block bootstrap.

    Parameters
    ----------
    stream : Drawable
        The stream cut into attacks and blocks.
    train_mean : float
        Mean train energy.
    windows : WindowOutcome, optional
        Of the same attacks, for `p_full` and `median_d_full`.
    n_replicates, seed : int
        How many replicates to draw, and from which seed.
    tick : callable
        Called after each replicate.

    Returns
    -------
    dict of array of shape (n_replicates,)
        By figure; nan if a replicate leaves the figure undefined.
    """
    n_attacks, n_blocks = len(stream.attack_rows), len(stream.block_rows)
    replicates = []
    for drawn in draws(n_attacks, n_blocks, n_replicates=n_replicates, seed=seed):
        replicates.append(
            figures_of_draw(stream, *drawn, train_mean=train_mean, windows=windows)
        )
        tick()
    return {name: np.array([r[name] for r in replicates]) for name in replicates[0]}


def percentile_interval(
    name: str, estimate: float | None, replicates: Floats, n_attacks: int
) -> tuple[float, float] | None:
    """Return the 95% percentile interval of a figure, widened for few attacks.

    With k attacks a percentile interval is too narrow: about the estimate it is
    stretched by ``sqrt(k / (k - 1)) t(0.975, k - 1) / 1.96``, and cut to the range of
    the figure. A figure that needs no attack is not stretched.

    Parameters
    ----------
    name : str
        A key of `FIGURES`; any other word is a difference of figures, without bounds.
    estimate : float, optional
        The figure itself, which the interval always holds.
    replicates : array of shape (n_replicates,)
        The figure in each replicate; nan does not count.
    n_attacks : int
        Number of attacks.

    Returns
    -------
    tuple of float, or None
        None if the figure is undefined, or needs attacks and there is only one.
    """
    defined = replicates[np.isfinite(replicates)]
    if estimate is None or len(defined) == 0:
        return None
    low, high = np.percentile(defined, [2.5, 97.5])
    low, high = min(low, estimate), max(high, estimate)
    figure = FIGURES.get(name, _DIFFERENCE)
    if figure.needs_attack:
        if n_attacks < 2:
            return None
        stretch = _stretch(n_attacks)
        low = estimate - stretch * (estimate - low)
        high = estimate + stretch * (high - estimate)
    low, high = np.clip([low, high], figure.low, figure.high)
    return float(low), float(high)


@cache
def _stretch(n_attacks: int) -> float:
    """Return the factor by which an interval from few attacks is widened."""
    from scipy.special import stdtrit

    k = n_attacks
    return float(np.sqrt(k / (k - 1)) * stdtrit(k - 1, 0.975) / 1.96)


def count_interval(hits: int, n: int) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) 95% interval of a count of n.

    Examples
    --------
    >>> low, high = count_interval(0, 10)
    >>> low, round(high, 2)
    (0.0, 3.08)
    """
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, 0.025))
    high = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 0.975))
    return low * n, high * n


def chance(
    energy: Floats,
    labels: Labels,
    is_alarm: Bools,
    attacks: Sequence[Segment],
    *,
    windows: WindowEnergies | None = None,
    n_shifts: int = N_SHIFTS,
    seed: int = 0,
    tick: Callable[[], None] = no_tick,
) -> dict[str, Floats]:
    """Return each figure for labels moved along the stream, once for every shift.

    Ignored rows are left out first, so that they count nowhere. Window figures would
    need all windows again; instead one of its own matched normal windows, drawn at
    random, takes the place of each attack.

    Parameters
    ----------
    energy, labels, is_alarm : array of shape (n_steps,)
        Energy, label (1, 0, -1) and alarm of each test step.
    attacks : sequence of Segment
        The attack runs of `labels`; at least one.
    windows : WindowEnergies, optional
        Of the same attacks, for `p_full` and `median_d_full`.
    n_shifts, seed : int
        How often to move the labels, and from which seed.
    tick : callable
        Called after each shift.

    Returns
    -------
    dict of array of shape (n_shifts,)
        By figure; nan if a shift leaves the figure undefined.
    """
    from sightline._kernels.rows import count_normal

    counted = labels != IGNORED
    energy, labels, is_alarm = energy[counted], labels[counted], is_alarm[counted]
    rng = np.random.default_rng(seed)
    n_rows = len(energy)
    shifts = rng.integers(1, max(n_rows, 2), n_shifts)
    order = np.argsort(energy)[::-1]
    place = np.empty(n_rows, np.int64)
    place[order] = np.arange(n_rows)
    falling = energy[order]
    begins = np.concatenate([[True], falling[1:] != falling[:-1]])
    starts = np.flatnonzero(begins)
    group = np.cumsum(begins) - 1
    group_first, group_last = starts[group], np.append(starts[1:], n_rows)[group]
    attack_rows = np.flatnonzero(labels == ATTACK)
    lengths = np.array([attack.length for attack in attacks])
    attack_of = np.repeat(np.arange(len(attacks)), lengths)
    first_steps = np.cumsum(lengths) - lengths
    above, up_to = np.empty((2, len(attack_rows)))
    tied = np.empty(len(attack_rows), np.bool_)
    replicates = []
    for shift in shifts:
        moved = (attack_rows + shift) % n_rows
        # Place and attack in one number, so that one sort does for both.
        keys = np.sort(place[moved] * len(attacks) + attack_of)
        count_normal(keys // len(attacks), group_first, group_last, tied, above, up_to)
        figures = rank_figures(
            (keys % len(attacks)).astype(np.int32),
            tied,
            np.ones(len(attacks)),
            above,
            up_to,
            float(n_rows - len(attack_rows)),
            lengths.astype(np.float64),
        )
        alarmed = is_alarm[moved]
        true = int(alarmed.sum())
        false = int(is_alarm.sum()) - true
        figures |= alarm_figures(true, false, float(lengths.sum()))
        figures["hits"] = float(np.sum(np.add.reduceat(alarmed, first_steps) > 0))
        replicates.append(figures)
        tick()
    at_chance = {n: np.array([r[n] for r in replicates]) for n in replicates[0]}
    if windows is not None:
        at_chance |= _window_chance(windows, rng, n_shifts)
    return at_chance


def _window_chance(
    windows: WindowEnergies, rng: np.random.Generator, n_shifts: int
) -> dict[str, Floats]:
    """Return the window figures with a matched window in the place of each attack."""
    n_matched = windows.plan.n_matched
    used = np.flatnonzero(n_matched > 1)
    if len(used) == 0:
        return {}
    wins, energies = np.zeros(n_shifts), []
    for i in used.tolist():
        matched = windows.matched(i)
        drawn = matched[rng.integers(0, len(matched), n_shifts)]
        wins += np.searchsorted(np.sort(matched), drawn, side="left")
        energies.append(drawn)
    at_chance = {"p_full": wins / float(np.sum(n_matched[used] - 1))}
    # A median over some of the attacks would not be the same figure.
    if len(used) == len(n_matched):
        at_chance["median_d_full"] = np.median(np.array(energies), axis=0)
    return at_chance


def floor_of(estimate: float | None, at_chance: Floats) -> Floor | None:
    """Return what chance gives for a figure; None if either is undefined.

    Examples
    --------
    >>> floor_of(0.9, np.array([0.4, 0.5, 0.6]))
    Floor(value=0.5, above_floor=True)
    """
    defined = at_chance[np.isfinite(at_chance)]
    if estimate is None or len(defined) == 0:
        return None
    reached = np.mean(np.where(np.isfinite(at_chance), at_chance, -np.inf) >= estimate)
    return Floor(value=float(defined.mean()), above_floor=bool(reached <= FLOOR_SHARE))
