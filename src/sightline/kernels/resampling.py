"""One pass over the sorted energy for a reweighted or relabelled stream, compiled."""

import numpy as np
import numpy.typing as npt
from numba import njit

from sightline.checks import Bools, Floats, Ints

# What a row belongs to: a normal block b as b, an attack k as -(k + 1), or nothing.
NOTHING = 2**31 - 1

Units = npt.NDArray[np.int32]


@njit(cache=True)
def shifted_units(order: Ints, units: Units, shift: int, out: Units) -> None:
    """Write, in sorted order, the units of labels moved `shift` rows on."""
    n = len(units)
    for i in range(len(order)):
        row = order[i] - shift
        out[i] = units[row + n if row < 0 else row]


@njit(cache=True)
def rank_pass(
    units: Units,
    tied: Bools,
    block_weight: Floats,
    attack_weight: Floats,
    normal_total: float,
    attack_total: float,
    limits: Floats,
    areas: Floats,
    above: Floats,
) -> float:
    """Walk down the sorted energy; return the average precision.

    `units` are in the order of falling energy, `tied` tells whether a row has the
    energy of the one before. Writes into `areas` the area under the ROC curve up to
    each of the false-alarm rates `limits`, and into `above`, for each attack, the
    weight of normal rows above its rows (ties half), summed over them.
    """
    n_limits = len(limits)
    areas[:] = 0.0
    above[:] = 0.0
    hits = false = precision = 0.0
    i, n = 0, len(units)
    while i < n:
        # One group of equal energies.
        more_hits = more_false = 0.0
        j = i
        while True:
            unit = units[j]
            if unit < 0:
                more_hits += attack_weight[-unit - 1]
            elif unit != NOTHING:
                more_false += block_weight[unit]
            j += 1
            if j == n or not tied[j]:
                break
        for k in range(i, j):
            if units[k] < 0:
                above[-units[k] - 1] += false + 0.5 * more_false
        if more_hits > 0.0:
            both = hits + more_hits + false + more_false
            precision += more_hits * (hits + more_hits) / both
        if more_false > 0.0:
            for a in range(n_limits):
                room = limits[a] * normal_total - false
                if room >= more_false:
                    areas[a] += more_false * (hits + 0.5 * more_hits)
                elif room > 0.0:
                    areas[a] += room * (hits + 0.5 * more_hits * room / more_false)
        hits += more_hits
        false += more_false
        i = j
    for a in range(n_limits):
        areas[a] /= normal_total * attack_total
    return precision / attack_total


@njit(cache=True)
def middle_rows(units: Units, block_weight: Floats, total: float) -> tuple[int, int]:
    """Return the places, in sorted order, of the two middle normal rows.

    They are one place where the weight is odd, as for a median.
    """
    seen = 0.0
    upper = -1
    for i in range(len(units)):
        unit = units[i]
        if 0 <= unit and unit != NOTHING:
            seen += block_weight[unit]
            if upper < 0 and 2.0 * seen > total - 1.0:
                upper = i
            if 2.0 * seen > total:
                return upper, i
    return upper, upper


@njit(cache=True)
def alarm_pass(
    alarm_rows: Ints, units: Units, shift: int, n_attacks: int
) -> tuple[int, int, int]:
    """Return true alarms, false alarms and attacks hit, for shifted labels."""
    n = len(units)
    hit = np.zeros(n_attacks, np.bool_)
    true = false = 0
    for i in range(len(alarm_rows)):
        row = alarm_rows[i] - shift
        unit = units[row + n if row < 0 else row]
        if unit < 0:
            true += 1
            hit[-unit - 1] = True
        elif unit != NOTHING:
            false += 1
    return true, false, int(hit.sum())
