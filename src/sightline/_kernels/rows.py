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
def single_energies(
    centered: Floats, half_precision: Floats, most: int, out: Floats
) -> None:
    """Write the energy of each channel, and the sums of the 2..`most` largest ones.

    Parameters
    ----------
    centered : array of shape (n_rows, n_channels)
        Residuals minus the mean of the reference.
    half_precision : array of shape (n_channels,)
        Half of one over the variance of each channel.
    most : int
        How many of the largest channels are summed at most.
    out : array of shape (n_rows, n_spaces)
        Channels are written to the first columns, sums to the last ``most - 1``; the
        columns of groups in between are left alone.
    """
    n_rows, p = centered.shape
    first_sum = out.shape[1] - (most - 1)
    top = np.empty(most)
    for t in range(n_rows):
        top[:] = 0.0
        for j in range(p):
            value = half_precision[j] * centered[t, j] * centered[t, j]
            out[t, j] = value
            if value > top[most - 1]:
                k = most - 1
                while k > 0 and top[k - 1] < value:
                    top[k] = top[k - 1]
                    k -= 1
                top[k] = value
        total = top[0]
        for k in range(1, most):
            total += top[k]
            out[t, first_sum + k - 1] = total


@njit(cache=True)
def keep_largest(
    block: Floats, counted: Bools, kept: Floats, counts: Ints, floors: Floats
) -> None:
    """Keep the largest values of each column of a block.

    Parameters
    ----------
    block : array of shape (n_rows, n_columns)
        Values.
    counted : array of bool, shape (n_rows,)
        Rows to look at.
    kept : array of shape (n_columns, room)
        Updated. When the room of a column is full, its larger half is kept.
    counts : array of int, shape (n_columns,)
        Updated: values kept in each column.
    floors : array of shape (n_columns,)
        Updated: values up to this one are not among the largest.
    """
    n_rows, n_columns = block.shape
    room = kept.shape[1]
    for t in range(n_rows):
        if not counted[t]:
            continue
        for f in range(n_columns):
            value = block[t, f]
            if value > floors[f]:
                kept[f, counts[f]] = value
                counts[f] += 1
                if counts[f] == room:
                    ordered = np.sort(kept[f])
                    half = room // 2
                    kept[f, :half] = ordered[room - half :]
                    counts[f] = half
                    floors[f] = ordered[room - half]


@njit(cache=True)
def count_exceedances(
    start: int,
    block: Floats,
    limits: Floats,
    positions: Ints,
    next_position: int,
    running: Codes,
    at_positions: Codes,
    bits: npt.NDArray[np.uint8],
) -> int:
    """Count the values above the limit of their column, and store counts at positions.

    Parameters
    ----------
    start : int
        Row of the table at which the block begins.
    block : array of shape (n_rows, n_columns)
        Values.
    limits : array of shape (n_columns,)
        A value equal to its limit is not above.
    positions : array of int
        Sorted rows at which the running counts are stored, before the row itself.
    next_position : int
        Index of the first position not yet passed.
    running : array of int32, shape (n_columns,)
        Updated: counts so far.
    at_positions : array of int32, shape (n_positions, n_columns)
        Updated: counts at the positions.
    bits : array of uint8, shape (n_table_rows, ceil(n_columns / 8))
        Updated: one bit for each row and column that is above.

    Returns
    -------
    int
        Index of the first position after the block.
    """
    n_rows, n_columns = block.shape
    for t in range(n_rows):
        row = start + t
        while next_position < len(positions) and positions[next_position] == row:
            at_positions[next_position] = running
            next_position += 1
        for f in range(n_columns):
            if block[t, f] > limits[f]:
                running[f] += 1
                bits[row, f >> 3] |= np.uint8(1 << (f & 7))
    return next_position


@njit(cache=True)
def average_columns(
    values: Floats, begins: Bools, weight: float, state: Floats, out: Floats
) -> None:
    """Write the exponentially weighted average of each column.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        Values.
    begins : array of bool, shape (n_rows,)
        Rows at which the average starts again from the value itself.
    weight : float
        Weight of a new value, in (0, 1].
    state : array of shape (n_columns,)
        Updated: the average after the row before, carried from block to block.
    out : array of shape (n_rows, n_columns)
        Overwritten.
    """
    for t in range(values.shape[0]):
        for j in range(values.shape[1]):
            if begins[t]:
                state[j] = values[t, j]
            else:
                state[j] += weight * (values[t, j] - state[j])
            out[t, j] = state[j]


@njit(cache=True)
def accumulate(
    values: Floats,
    counted: Bools,
    resets: Bools,
    level: float,
    slack: float,
    weight: float,
) -> Floats:
    """Return an exponentially weighted average, or a cumulative sum.

    Parameters
    ----------
    values : array of shape (n_rows,)
        Values.
    counted : array of bool, shape (n_rows,)
        Rows that are not counted change nothing.
    resets : array of bool, shape (n_rows,)
        Rows at which it starts again: the average at `level`, the sum at 0.
    level, slack : float
        The sum adds ``value - level - slack`` and never falls below 0.
    weight : float
        Weight of a new value in the average; 0 gives the sum.

    Returns
    -------
    array of shape (n_rows,)
        The average or the sum after each row.
    """
    out = np.empty(len(values))
    state = level if weight > 0 else 0.0
    for t in range(len(values)):
        if resets[t]:
            state = level if weight > 0 else 0.0
        if counted[t]:
            if weight > 0:
                state += weight * (values[t] - state)
            else:
                state = max(0.0, state + values[t] - level - slack)
        out[t] = state
    return out


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
