"""Rank figures of a reweighted or relabelled stream without another sort, compiled.

Attack steps come in the order of falling energy. All that is needed of the normal steps
is the weight of those above each attack step, and of those at or above it.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from sightline.data.arrays import Bools, Floats, Ints

Codes = npt.NDArray[np.int32]


@njit(cache=True)
def weigh_normal(
    blocks: Codes,
    weight: Codes,
    above: Ints,
    up_to: Ints,
    weight_above: Floats,
    weight_up_to: Floats,
) -> None:
    """Weigh the normal steps above, and at or above, each attack step.

    `blocks` tells which block each normal step is in, by falling energy; `weight` how
    often a block was drawn. `above` and `up_to` count the normal steps.
    """
    # Whole numbers add up four times as fast as floats, one after another.
    seen = 0
    place = 0
    for i in range(len(above)):
        while place < above[i]:
            seen += weight[blocks[place]]
            place += 1
        weight_above[i] = seen
        if i > 0 and up_to[i] == up_to[i - 1]:
            # The same ties as for the step before: count them once.
            weight_up_to[i] = weight_up_to[i - 1]
            continue
        tied = seen
        for k in range(place, up_to[i]):
            tied += weight[blocks[k]]
        weight_up_to[i] = tied


@njit(cache=True)
def middle_steps(
    blocks: Codes, weight: Codes, total: int, start: int, seen: int
) -> tuple[int, int]:
    """Return the places of the two middle normal steps by weight, as for a median.

    They are one place twice where the weight is odd. The search begins at place
    `start`, above which `seen` weighs less than half.
    """
    upper = -1
    for place in range(start, len(blocks)):
        seen += weight[blocks[place]]
        if upper < 0 and 2 * seen >= total:
            upper = place
        if 2 * seen > total:
            return upper, place
    return upper, upper


@njit(cache=True)
def rank_sums(
    attack: Codes,
    tied: Bools,
    attack_weight: Floats,
    above: Floats,
    up_to: Floats,
    normal_total: float,
    limits: Floats,
    areas: Floats,
    segment_auc: Floats,
) -> float:
    """Return the average precision; write ROC areas and the AUC of each attack.

    `attack` tells which attack each step belongs to, by falling energy, and `tied`
    whether it has the energy of the one before; `above` and `up_to` are weights of
    normal steps. `areas` gets the area under the ROC curve up to each of `limits`;
    `segment_auc` the sum over an attack's steps of the share of normal steps below.
    """
    areas[:] = 0.0
    segment_auc[:] = 0.0
    hits = precision = 0.0
    n = len(attack)
    i = 0
    while i < n:
        j, group = i, 0.0
        while True:
            group += attack_weight[attack[j]]
            segment_auc[attack[j]] += 1.0 - 0.5 * (above[j] + up_to[j]) / normal_total
            j += 1
            if j == n or not tied[j]:
                break
        if group > 0.0:
            hits += group
            precision += group * hits / (hits + up_to[i])
            first, last = above[i] / normal_total, up_to[i] / normal_total
            for a in range(len(limits)):
                if limits[a] >= last:
                    areas[a] += group * (limits[a] - 0.5 * (first + last))
                elif limits[a] > first:
                    areas[a] += group * 0.5 * (limits[a] - first) ** 2 / (last - first)
        i = j
    for a in range(len(limits)):
        areas[a] /= hits
    return precision / hits


@njit(cache=True)
def count_normal(
    places: Ints,
    group_first: Ints,
    group_last: Ints,
    tied: Bools,
    above: Floats,
    up_to: Floats,
) -> None:
    """Count normal steps above, and at or above, each attack step of a relabelling.

    `places` are the sorted places (by falling energy) of the attack steps; all others
    are normal. `group_first` and `group_last` give, for each place, the first place of
    equal energy and the one past the last.
    """
    n = len(places)
    i = 0
    while i < n:
        first, last = group_first[places[i]], group_last[places[i]]
        j = i
        while j < n and places[j] < last:
            j += 1
        for k in range(i, j):
            above[k] = first - i
            up_to[k] = last - j
            tied[k] = k > i
        i = j
