"""What chance gives for a figure: calm windows at a like level in place of the attacks.

Attack and ignored rows are cut out, which leaves one line of calm rows. For each attack
a window of its length is drawn among those whose surroundings have most nearly the
level of its own surroundings. This keeps the length of the attacks, the autocorrelation
of the energy, its alarm rate, and a level that changes within the test, as when normal
operation steps up before the first attack.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Segment, evenly_chosen
from sightline.figures import PAUC_RATES
from sightline.metrics.intervals import Draws, Tick, attacks_of_rows, log_of, no_tick
from sightline.metrics.windows import EQUAL_EVIDENCE, WindowEnergies

N_SHIFTS = 199
# A figure is above its floor if chance reaches it with at most this probability.
FLOOR_SHARE = 0.05
# The level of a stretch is that of this many calm rows on each side, or of this many
# times its own rows if they are more.
LEAST_LEVEL_ROWS = 250
LEVEL_LENGTHS = 2
# Windows begin at every eighth of their length; at most this many are looked at.
WINDOW_PARTS = 8
MOST_WINDOWS = 20_000
# This share of the windows, those nearest in level, may stand for an attack.
NEAREST = 0.2
# Rounding must not put a figure above chance that is equal to it.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What chance gives for a figure, and whether the figure is above it.

    Parameters
    ----------
    value : float
        Mean of the figure with calm windows at a like level in place of the attacks;
        of `alarm_metrics`, with the alarms or the score shifted against the labels; of
        `localisation`, with the targets of other attacks.
    above_floor : bool
        Whether `p` is at most 0.05.
    p : float, optional
        Probability that chance reaches the figure; that of recall for F1 and precision.
        None in results of earlier versions, whose labels were shifted instead.
    """

    value: float
    above_floor: bool
    p: float | None = None


def _draw_places(
    attack: int,
    length: int,
    sums: Floats,
    line_block: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int32],
    rng: np.random.Generator,
) -> Ints:
    """Return where an attack stands in each draw; -1 for its own place.

    It stands at one of the calm windows nearest in level to it, which weigh as often as
    the block of their middle row is drawn.

    Parameters
    ----------
    attack, length : int
        Calm rows before the attack, and its length.
    sums : array of shape (1 + n_calm,)
        Sum of the log energy of the first 0, 1, ... calm rows.
    line_block : array of shape (n_calm,)
        Block of each calm row.
    counts : array of shape (n_draws, n_blocks)
        How often each block is drawn.
    rng : Generator
        For the draws.
    """
    n_calm, n = len(line_block), len(counts)
    kept, within, at = rng.random((3, n))
    step = max(1, length // WINDOW_PARTS)
    starts = evenly_chosen(np.arange(0, n_calm - length + 1, step), MOST_WINDOWS)
    if len(starts) == 0:
        return np.full(n, -1)
    side = max(LEAST_LEVEL_ROWS, LEVEL_LENGTHS * length)

    def level(first: Ints, stop: Ints) -> Floats:
        low, high = np.maximum(first - side, 0), np.minimum(stop + side, n_calm)
        n_rows = np.maximum(first - low + high - stop, 1)
        return np.asarray((sums[first] - sums[low] + sums[high] - sums[stop]) / n_rows)

    distance = np.abs(level(starts, starts + length) - level(*2 * [np.array([attack])]))
    n_near = max(1, int(np.ceil(NEAREST * len(starts))))
    # Those within the distance of the last of them; of several as far, the first ones.
    reach = np.sort(distance)[n_near - 1]
    near = starts[distance < reach]
    near = np.sort(np.append(near, starts[distance == reach][: n_near - len(near)]))
    # The attack keeps its own place as often as one window of all: those may overlap.
    n_rows = int(np.minimum(np.diff(near, append=n_calm), length).sum())
    keep = 1 / (n_rows / length + 1)
    blocks, first, size = np.unique(
        line_block[near + length // 2], return_index=True, return_counts=True
    )
    weight = np.cumsum(counts[:, blocks] * size, axis=1, dtype=np.float64)
    # Where none of the blocks is drawn, all windows weigh the same.
    weight[weight[:, -1] == 0] = np.cumsum(size)
    chosen = np.sum(weight <= (at * weight[:, -1])[:, None], axis=1)
    window = first[chosen] + (within * size[chosen]).astype(np.int64)
    return np.where(kept < keep, -1, near[window])


def chance(
    energy: Floats,
    labels: Labels,
    is_alarm: Bools,
    attacks: Sequence[Segment],
    block_of: npt.NDArray[np.int32],
    *,
    windows: WindowEnergies | None = None,
    n_draws: int = N_SHIFTS,
    seed: int = 0,
    tick: Tick = no_tick,
) -> dict[str, Floats]:
    """Return each figure for calm windows in place of the attacks, in every draw.

    Parameters
    ----------
    energy, labels, is_alarm : array of shape (n_rows,)
        Energy, label (1, 0, -1) and alarm of each test row.
    attacks : sequence of Segment
        The attack runs of `labels`; at least one.
    block_of : array of int, shape (n_rows,)
        Block of each calm row, by `sightline.metrics.intervals.blocks_of_rows`.
    windows : WindowEnergies, optional
        Of the same attacks, for `p_full` and `median_d_full`. The matched window
        nearest to the one drawn stands for it.
    n_draws, seed : int
        How often to draw, and from which seed.
    tick : callable
        Called with the number of draws that are done, after each.

    Returns
    -------
    dict of array of shape (n_draws,)
        By figure; nan if a draw leaves the figure undefined.
    """
    rng = np.random.default_rng(seed)
    calm = np.flatnonzero(labels == NORMAL)
    counts = Draws.of(0, int(block_of.max()) + 1, n=n_draws, seed=seed).counts[1:]
    lengths = np.array([attack.length for attack in attacks])
    # Where on the calm line each attack stands in each draw; -1 for its own place.
    drawn = np.empty((n_draws, len(attacks)), np.int64)
    sums = np.concatenate([[0.0], np.cumsum(log_of(energy[calm]))])
    line_block = block_of[calm]
    for i, attack in enumerate(attacks):
        before = int(np.searchsorted(calm, attack.start))
        drawn[:, i] = _draw_places(before, attack.length, sums, line_block, counts, rng)
    own = len(calm) + np.cumsum(lengths) - lengths
    first = np.where(drawn < 0, own, drawn)
    attack_rows = np.flatnonzero(attacks_of_rows(attacks, len(labels)) >= 0)
    rows = np.concatenate([calm, attack_rows])
    at_chance = _rank_chance(
        energy[rows], block_of[rows], is_alarm[rows], first, lengths, counts, tick
    )
    if windows is not None:
        at_chance |= _window_chance(windows, calm, drawn, counts, block_of)
    return at_chance


def _rank_chance(
    energy: Floats,
    block: npt.NDArray[np.int32],
    is_alarm: Bools,
    first: Ints,
    lengths: Ints,
    counts: npt.NDArray[np.int32],
    tick: Tick,
) -> dict[str, Floats]:
    """Return the figures of rows in every draw; all calm rows come first."""
    from sightline._kernels.rows import AllRows, chance_ranks

    order = np.argsort(energy)[::-1]
    falling = energy[order]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    last = np.append(falling[1:] != falling[:-1], True)
    rows = AllRows(block[order], is_alarm[order], last, place)
    calm_block = block[block >= 0]
    n, n_attack, n_calm = len(counts), float(lengths.sum()), len(calm_block)
    limits = np.array([1.0, *PAUC_RATES])
    areas, segment_auc = np.zeros((n, 3)), np.empty((n, len(lengths)))
    precision, false_rate = np.empty((2, n))
    totals = counts @ np.bincount(calm_block, minlength=counts.shape[1])
    times, auc = np.zeros(len(rows.block), np.int32), np.empty(len(rows.block))
    for r in range(n):
        precision[r], false_rate[r] = chance_ranks(
            rows,
            first[r],
            lengths,
            counts[r],
            float(totals[r]),
            limits,
            times,
            auc,
            areas[r],
            segment_auc[r],
        )
        tick(r + 1)
    areas /= n_attack
    # No calm row is left.
    none = np.isnan(precision)
    areas[none], segment_auc[none], false_rate[none] = np.nan, np.nan, np.nan
    before = np.concatenate([[0], np.cumsum(is_alarm)])
    alarms = before[first + lengths] - before[first]
    true, false = alarms.sum(axis=1).astype(float), false_rate * n_calm
    corrected = [
        (areas[:, k] - rate**2 / 2) / (rate - rate**2 / 2)
        for k, rate in enumerate(PAUC_RATES, start=1)
    ]
    return {
        "roc_auc": areas[:, 0],
        "pauc_1": corrected[0],
        "pauc_5": corrected[1],
        "average_precision": precision,
        "mean_segment_auc": segment_auc.mean(axis=1),
        "f1": 2 * true / (n_attack + true + false),
        "precision": true / np.where(true + false > 0, true + false, np.nan),
        "recall": true / n_attack,
        "hits": np.sum(alarms > 0, axis=1).astype(float),
    }


def _window_chance(
    windows: WindowEnergies,
    calm: Ints,
    drawn: Ints,
    counts: npt.NDArray[np.int32],
    block_of: npt.NDArray[np.int32],
) -> dict[str, Floats]:
    """Return the window figures with matched windows in the place of attacks.

    Parameters
    ----------
    windows : WindowEnergies
        Of the attacks and their matched windows.
    calm : array of int
        The calm rows.
    drawn : array of shape (n_draws, n_attacks)
        Where on the calm line each attack stands; -1 for its own place.
    counts : array of shape (n_draws, n_blocks)
        How often each block is drawn.
    block_of : array of shape (n_rows,)
        Block of each row.
    """
    plan, n = windows.plan, len(drawn)
    starts = plan.starts[plan.is_normal]
    shares, weights = np.full(drawn.shape, np.nan), np.zeros(drawn.shape[1])
    energies = np.tile(windows.attack_d_full, (n, 1))
    for i, group in enumerate(plan.group.tolist()):
        part = slice(plan.normal_bounds[group], plan.normal_bounds[group + 1])
        matched, begins = windows.normal_d_full[part], starts[part]
        if len(matched) == 0:
            continue
        middle = begins + plan.lengths[group] // 2
        order = np.argsort(matched, kind="stable")
        weight = counts[:, block_of[middle[order]]].astype(np.float64)
        below = np.concatenate([np.zeros((n, 1)), np.cumsum(weight, axis=1)], axis=1)
        moved = np.flatnonzero(drawn[:, i] >= 0)
        # The matched window that begins nearest to the place of the attack.
        at = calm[drawn[moved, i]]
        after = np.clip(np.searchsorted(begins, at), 0, len(begins) - 1)
        earlier = np.maximum(after - 1, 0)
        is_nearer = at - begins[earlier] <= begins[after] - at
        window = np.where(is_nearer, earlier, after)
        energies[moved, i] = matched[window]
        least = energies[:, i] * (1 - EQUAL_EVIDENCE)
        rank = np.searchsorted(matched[order], least, side="left")
        whole = below[:, -1].copy()
        # The window that stands for the attack is not compared with itself.
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        whole[moved] -= weight[moved, place[window]]
        wins = below[np.arange(n), rank]
        shares[:, i] = np.where(whole > 0, wins / np.where(whole > 0, whole, 1), 0.5)
        weights[i] = len(matched)
    at_chance = {"median_d_full": np.median(energies, axis=1)}
    known = weights > 0
    if known.any():
        at_chance["p_full"] = shares[:, known] @ weights[known] / weights.sum()
        at_chance["p_full_per_segment"] = shares[:, known].mean(axis=1)
    return at_chance


def floor_of(
    estimate: float | None,
    at_chance: npt.ArrayLike,
    *,
    lower_is_better: bool = False,
) -> Floor | None:
    """Return what chance gives for a figure; None if either is undefined.

    ``p = (1 + draws that reach the figure) / (1 + draws)``. A draw of which the figure
    is undefined is nan, or None.

    Examples
    --------
    >>> floor_of(0.9, np.linspace(0.4, 0.6, 199))
    Floor(value=0.5, above_floor=True, p=0.005)
    >>> floor_of(0.9, [0.4, 0.5, 0.6, None])
    Floor(value=0.5, above_floor=False, p=0.2)
    """
    draws = np.asarray(at_chance, dtype=np.float64)
    defined = draws[np.isfinite(draws)]
    if estimate is None or len(defined) == 0:
        return None
    sign = -1.0 if lower_is_better else 1.0
    least = sign * estimate - _ROUNDING * max(1.0, abs(estimate))
    p = float(1 + np.sum(sign * defined >= least)) / (1 + len(draws))
    return Floor(value=float(defined.mean()), above_floor=p <= FLOOR_SHARE, p=p)
