"""Compiled loops over rows: moments and energies, subspaces, accumulation, ranks.

The loops over a block of residuals do in one pass what numpy would do in six. Those
marked `_RELAXED` may reassociate sums (that is what lets them run four at a time);
nothing else is relaxed: a nan or an infinity in a row always reaches that row's result.

A family of subspaces has one column each: every channel alone, then groups, then the
sums of the k largest channels. No loop needs more than one block of rows.

The rank figures of a reweighted or relabelled stream need no further sort: attack steps
come in the order of falling energy. All that is needed of the normal steps is the
weight of those above each attack step, and of those at or above it.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from sightline.data.arrays import Bools, Floats, Ints, Residuals

Codes = npt.NDArray[np.int32]
_RELAXED = {"reassoc", "contract", "nsz"}


@njit(cache=True, fastmath=_RELAXED)
def center_and_sum(
    block: Residuals,
    pilot: Floats,
    centered: Floats,
    squares: Floats,
    total: Floats,
    cubic: Floats,
) -> None:
    """Write y = block - pilot and its squared row norms; add up what moments need.

    ``total += sum y`` and ``cubic += sum |y|^2 y``.
    """
    n_rows, n_channels = block.shape
    for t in range(n_rows):
        square = 0.0
        for j in range(n_channels):
            y = np.float64(block[t, j]) - pilot[j]
            centered[t, j] = y
            square += y * y
        squares[t] = square
        for j in range(n_channels):
            total[j] += centered[t, j]
            cubic[j] += square * centered[t, j]


@njit(cache=True, fastmath=_RELAXED)
def center_and_weigh(
    block: Residuals, mean: Floats, weights: Floats, centered: Floats
) -> float:
    """Write y = block - mean; return the sum over rows of (sum_j w_j y_j^2)^2."""
    n_rows, n_channels = block.shape
    fourth = 0.0
    for t in range(n_rows):
        square = 0.0
        for j in range(n_channels):
            y = np.float64(block[t, j]) - mean[j]
            centered[t, j] = y
            square += weights[j] * y * y
        fourth += square * square
    return fourth


@njit(cache=True, fastmath=_RELAXED)
def energies(
    whitened: Floats, counted: Bools, energy: Floats
) -> tuple[float, float, float]:
    """Write half the squared row norms; return max z^2, sum z^2 and sum z^4.

    The three figures are over the rows where `counted` is true.
    """
    n_rows, n_channels = whitened.shape
    largest, second, fourth = 0.0, 0.0, 0.0
    for t in range(n_rows):
        square, quartic = 0.0, 0.0
        for j in range(n_channels):
            zz = whitened[t, j] * whitened[t, j]
            square += zz
            quartic += zz * zz
        energy[t] = 0.5 * square
        if counted[t]:
            second += square
            fourth += quartic
            # No coordinate can be the largest so far unless this sum allows it.
            if quartic > largest * largest:
                for j in range(n_channels):
                    zz = whitened[t, j] * whitened[t, j]
                    largest = zz if zz > largest else largest
    return largest, second, fourth


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
