"""Smaller spaces row by row: their energies, largest values and exceedances. Compiled.

A family of spaces is one column each: every channel alone, then groups, then the sum
of the k largest channels. Nothing here keeps more than a block of rows.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from sightline.data.arrays import Bools, Floats, Ints


@njit(cache=True)
def single_energies(
    centered: Floats, half_precision: Floats, most: int, out: Floats
) -> None:
    """Write each channel's energy, and at the end the sums of the 2..`most` largest."""
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
    """Keep the largest values of each column; `kept` has room for twice as many."""
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
    """Count values above their column's limit; note the counts at given rows.

    `bits` gets, for each row, which columns are above. Returns the next position.
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
    """Write an average of each column that forgets; it starts anew where rows begin.

    `state` is carried from block to block.
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
    """Return an average that forgets (weight > 0), or a sum that starts at 0.

    The average begins at `level` after each reset; the sum adds what is above
    ``level + slack`` and never falls below 0. Rows that are not counted change nothing.
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
