"""How far a figure may be trusted: the event-and-block bootstrap.

Attacks are few and long, and energy is autocorrelated, so neither attack steps nor
normal steps are independent. Attacks are drawn whole, attack-free time in blocks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Segment, segments_of
from sightline.metrics.window_kl import WindowOutcome

N_REPLICATES = 500
# With fewer attacks than this an interval is marked.
FEW_EVENTS = 10
# Attack-free time is cut into at most about so many blocks: more draw no better.
MOST_BLOCKS = 10_000
_PAUC = (0.01, 0.05)
# Where figures end, and intervals with them.
_RANGE = {
    "roc_auc": (0.0, 1.0),
    "pauc_1": (-np.inf, 1.0),
    "pauc_5": (-np.inf, 1.0),
    "average_precision": (0.0, 1.0),
    "mean_segment_auc": (0.0, 1.0),
    "p_full": (0.0, 1.0),
    "median_d_full": (0.0, np.inf),
    "f1": (0.0, 1.0),
    "precision": (0.0, 1.0),
    "recall": (0.0, 1.0),
}


def no_tick() -> None:
    """Progress that nobody watches."""


def block_length(series: Floats) -> int:
    """Return the block length of Politis and White for a series.

    Politis and White (2004), doi:10.1081/ETC-120028836, with the correction of Patton,
    Politis and White (2009), doi:10.1080/07474930802459016, for the circular block
    bootstrap. 1 where the series shows no autocorrelation.
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
    n = len(series)
    centered = series - series.mean()
    size = 1 << int(np.ceil(np.log2(n + n_lags + 1)))
    spectrum = np.abs(np.fft.rfft(centered, size)) ** 2
    return np.fft.irfft(spectrum, size)[: n_lags + 1] / n


@dataclass(frozen=True, eq=False)
class Drawable:
    """A test stream cut into what is drawn: attacks, and blocks of attack-free time.

    Steps are kept in the order of falling energy: of normal ones the block and the
    energy, of attack ones the attack, how many normal ones lie above and at or above,
    and whether it has the energy of the one before. Sums over each attack and block
    stand ready, so that a replicate costs one pass and no sort.
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
        """Cut the stream and sort its energy, once; `block` is estimated if None."""
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
    for _ in range(n_replicates):
        yield _counts(rng, n_attacks), _counts(rng, n_blocks)


def _counts(rng: np.random.Generator, n: int) -> Floats:
    if n == 0:
        return np.empty(0)
    return np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)


def figures_of_draw(
    stream: Drawable,
    attack_weight: Floats,
    block_weight: Floats,
    *,
    train_mean: float,
    windows: WindowOutcome | None = None,
) -> dict[str, float]:
    """Return every figure of the stream with its attacks and blocks reweighted."""
    from sightline._kernels.resampling import middle_steps, weigh_normal

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

    See `sightline._kernels.resampling.rank_sums` for the arrays.
    """
    from sightline._kernels.resampling import rank_sums

    areas, segment_auc = np.empty(3), np.empty(len(attack_weight))
    average_precision = rank_sums(
        attack,
        tied,
        attack_weight,
        above,
        up_to,
        normal_total,
        np.array([*_PAUC, 1.0]),
        areas,
        segment_auc,
    )
    pauc_1, pauc_5 = (
        (area - a**2 / 2) / (a - a**2 / 2)
        for area, a in zip(areas[:2].tolist(), _PAUC, strict=True)
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

    `tick` is called after each replicate.
    """
    replicates = []
    for attacks, blocks in draws(
        len(stream.attack_rows),
        len(stream.block_rows),
        n_replicates=n_replicates,
        seed=seed,
    ):
        replicates.append(
            figures_of_draw(
                stream, attacks, blocks, train_mean=train_mean, windows=windows
            )
        )
        tick()
    return {
        name: np.array([replicate[name] for replicate in replicates])
        for name in replicates[0]
    }


def percentile_interval(
    name: str, estimate: float | None, replicates: Floats, n_attacks: int
) -> tuple[float, float] | None:
    """Return the 95% interval of a figure, widened for few attacks.

    With k attacks a percentile interval is too narrow; about the estimate it is
    stretched by sqrt(k / (k - 1)) t(0.975, k - 1) / 1.96. None where it is undefined.
    """
    known = replicates[np.isfinite(replicates)]
    if estimate is None or len(known) == 0:
        return None
    low, high = np.percentile(known, [2.5, 97.5])
    low, high = min(low, estimate), max(high, estimate)
    if not name.startswith("d_drift"):
        if n_attacks < 2:
            return None
        stretch = _stretch(n_attacks)
        low = estimate - stretch * (estimate - low)
        high = estimate + stretch * (high - estimate)
    least, most = _RANGE.get(name, (-np.inf, np.inf))
    low, high = np.clip([low, high], least, most)
    return float(low), float(high)


@cache
def _stretch(n_attacks: int) -> float:
    from scipy.special import stdtrit

    k = n_attacks
    return float(np.sqrt(k / (k - 1)) * stdtrit(k - 1, 0.975) / 1.96)


def count_interval(hits: int, n: int) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) 95% interval of a count of n."""
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, 0.025))
    high = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 0.975))
    return low * n, high * n
