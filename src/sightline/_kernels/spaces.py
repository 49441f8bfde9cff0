"""Compiled loops over rows: energies of subspaces, exceedances, accumulated traces.

A family of subspaces has one column each: every channel alone, then groups, then the
sums of the k largest channels. No loop needs more than one block of rows.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from sightline.data.arrays import Bools, Floats, Ints


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
    running: npt.NDArray[np.int32],
    at_positions: npt.NDArray[np.int32],
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
