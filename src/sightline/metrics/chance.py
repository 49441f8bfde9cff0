"""What chance would give: the same figures with the labels moved along the stream.

Moving labels keeps the length of the attacks, the autocorrelation of the energy and its
alarm rate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, IGNORED, Bools, Floats, Ints, Labels
from sightline.data.keyed import Keyed
from sightline.data.segments import Segment
from sightline.metrics.intervals import alarm_figures, no_tick, rank_figures
from sightline.metrics.window_kl import WindowEnergies

N_SHIFTS = 199
# A figure is above its floor where at most this share of shifts reaches it.
FLOOR_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class Floor(Keyed):
    """What chance gives for a figure, and whether the figure is above it.

    `value` is the mean over random shifts of the labels; `above_floor` says that at
    most `FLOOR_SHARE` of the shifts reach the figure.
    """

    value: float
    above_floor: bool


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
    need all windows anew; there each attack is stood in for by one of its own matched
    normal windows, drawn at random.
    """
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
    rows = []
    for shift in shifts:
        moved = (attack_rows + shift) % n_rows
        # Place and attack in one number, so that one sort does for both.
        keys = np.sort(place[moved] * len(attacks) + attack_of)
        figures = _relabelled(
            keys // len(attacks),
            (keys % len(attacks)).astype(np.int32),
            group_first,
            group_last,
            lengths,
        )
        alarmed = is_alarm[moved]
        true = int(alarmed.sum())
        false = int(is_alarm.sum()) - true
        figures |= alarm_figures(true, false, float(lengths.sum()))
        figures["hits"] = float(np.sum(np.add.reduceat(alarmed, first_steps) > 0))
        rows.append(figures)
        tick()
    at_chance = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    if windows is not None:
        at_chance |= _window_chance(windows, rng, n_shifts)
    return at_chance


def _relabelled(
    places: Ints,
    attack: npt.NDArray[np.int32],
    group_first: Ints,
    group_last: Ints,
    lengths: Ints,
) -> dict[str, float]:
    """Return the rank metrics of a relabelling; see `count_normal` for the arrays."""
    from sightline._kernels.resampling import count_normal

    above, up_to = np.empty((2, len(places)))
    tied = np.empty(len(places), np.bool_)
    count_normal(places, group_first, group_last, tied, above, up_to)
    return rank_figures(
        attack,
        tied,
        np.ones(len(lengths)),
        above,
        up_to,
        float(len(group_first) - len(places)),
        lengths.astype(np.float64),
    )


def _window_chance(
    windows: WindowEnergies, rng: np.random.Generator, n_shifts: int
) -> dict[str, Floats]:
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
    """Return the mean over shifts, and whether at most 5% of them reach the figure."""
    known = at_chance[np.isfinite(at_chance)]
    if estimate is None or len(known) == 0:
        return None
    reached = np.mean(np.where(np.isfinite(at_chance), at_chance, -np.inf) >= estimate)
    return Floor(value=float(known.mean()), above_floor=bool(reached <= FLOOR_SHARE))
