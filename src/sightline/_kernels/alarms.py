"""Compiled loops of alarm rules: views of rows, memory, episodes, tails.

No loop is relaxed: every sum is made in one fixed order, row by row, so that a record
read at once, in pieces or one row at a time gives the same bits. A multiplication is
rounded before it is added, so that plain numpy in the same order gives them too.
"""

import numpy as np
import numpy.typing as npt

from sightline._kernels import kernel
from sightline.data.arrays import Bools, Floats, Ints, Residuals

# Rows that are taken together, one after the other in a vector register.
ROWS = 64


@kernel
def view_rows(
    rows: Residuals,
    mean: Floats,
    order: Ints,
    reach: Ints,
    weights: Floats,
    out: Floats,
) -> None:
    """Write ``out[t, k] = sum_j (rows[t, order[j]] - mean[order[j]]) weights[j, k]``.

    Only j in [reach[0, k], reach[1, k]) are summed, in the order of j. Rows are taken
    in whole groups of `ROWS`, four terms of the sum at a time, which leaves the order
    of each sum as it is; of rows after the last group nothing is written.
    """
    n_columns = len(order)
    # Arrays that the compiler knows to overlap with no other make it faster.
    y, total = np.empty((n_columns, ROWS)), np.empty(ROWS)
    for t in range(0, len(rows) - ROWS + 1, ROWS):
        for j in range(n_columns):
            column = order[j]
            centre = mean[column]
            for r in range(ROWS):
                y[j, r] = np.float64(rows[t + r, column]) - centre
        for k in range(n_columns):
            for r in range(ROWS):
                total[r] = 0.0
            j, end = reach[0, k], reach[1, k]
            while j + 4 <= end:
                a, b = weights[j, k], weights[j + 1, k]
                c, d = weights[j + 2, k], weights[j + 3, k]
                for r in range(ROWS):
                    some = (total[r] + y[j, r] * a) + y[j + 1, r] * b
                    total[r] = (some + y[j + 2, r] * c) + y[j + 3, r] * d
                j += 4
            while j < end:
                a = weights[j, k]
                for r in range(ROWS):
                    total[r] += y[j, r] * a
                j += 1
            for r in range(ROWS):
                out[t + r, k] = total[r]


@kernel
def average_rows(values: Floats, centre: Floats, weight: float, state: Floats) -> None:
    """Replace rows by their exponentially weighted average about a centre."""
    n_rows, n_columns = values.shape
    for t in range(n_rows):
        for j in range(n_columns):
            state[j] += weight * ((values[t, j] - centre[j]) - state[j])
            values[t, j] = state[j]


@kernel
def accumulate_rows(
    values: Floats, centre: Floats, allowance: Floats, state: Floats
) -> None:
    """Replace rows by two-sided cumulative sums, the larger of both sides.

    ``up = max(0, up + y - allowance)``, ``down = max(0, down - y - allowance)`` with y
    about the centre; `state` has shape (2, n_columns).
    """
    n_rows, n_columns = values.shape
    for t in range(n_rows):
        for j in range(n_columns):
            y = values[t, j] - centre[j]
            up = max(0.0, state[0, j] + y - allowance[j])
            down = max(0.0, state[1, j] - y - allowance[j])
            state[0, j], state[1, j] = up, down
            values[t, j] = max(up, down)


@kernel
def unit_energies(values: Floats, bounds: Ints, out: Floats) -> None:
    """Write half the sum of squares of columns [bounds[g], bounds[g + 1])."""
    for t in range(len(values)):
        for g in range(len(bounds) - 1):
            square = 0.0
            for j in range(bounds[g], bounds[g + 1]):
                square += values[t, j] * values[t, j]
            out[t, g] = 0.5 * square


@kernel
def largest_unit(
    values: Floats, levels: Floats, ratios: Floats, out: Floats, which: Ints
) -> None:
    """Write the largest ``abs(value) / level`` of each row, and its column.

    `ratios` has room for those of a row.
    """
    n_rows, n_columns = values.shape
    for t in range(n_rows):
        for j in range(n_columns):
            ratios[j] = abs(values[t, j]) / levels[j]
        best, at = -1.0, 0
        for j in range(n_columns):
            if ratios[j] > best:
                best, at = ratios[j], j
        out[t] = best
        which[t] = at


@kernel
def take_tails(values: Floats, top: Floats) -> None:
    """Keep the largest absolute values of each column.

    ``top[j]`` is a binary heap with its smallest value first.
    """
    n_columns, size = top.shape
    for t in range(len(values)):
        for j in range(n_columns):
            value = abs(values[t, j])
            heap = top[j]
            if not value > heap[0]:
                continue
            place = 0
            while 2 * place + 1 < size:
                child = 2 * place + 1
                if child + 1 < size and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= value:
                    break
                heap[place] = heap[child]
                place = child
            heap[place] = value


@kernel
def serve_units(
    values: Floats,
    levels: Floats,
    divisor: float,
    limit: float,
    off: int,
    unit: int,
    back: int,
    state: Ints,
    first: int,
    ringing: Floats,
    which: Ints,
    standing: Bools,
    n_out: npt.NDArray[np.int16],
) -> int:
    """Take units that stand out of service, up to the row at which one goes or returns.

    What it does stands in `sightline.rules.standalone`.
    """
    n_rows, n_units = values.shape
    is_active = bool(state.any())
    for t in range(first, n_rows):
        if not is_active and not ringing[t] > limit:
            continue
        best, at, n_gone = -1.0, 0, 0
        is_active = has_changed = False
        for j in range(n_units):
            ratio = abs(values[t, j]) / levels[j] / divisor
            is_above = ratio > limit
            age, since, is_out = state[j, 0], state[j, 1], state[j, 2]
            if age == 0 and is_out == 0 and not is_above:
                if ratio > best:
                    best, at = ratio, j
                continue
            since = 0 if is_above else since + 1
            age = 0 if age > 0 and since > off else age + (age > 0 or is_above)
            if is_out and since >= back:
                age, is_out, has_changed = 0, 0, True
            elif is_above and age > unit and not is_out:
                is_out, has_changed = 1, True
            if age == 0 and is_out == 0:
                since = 0
            else:
                is_active = True
            state[j, 0], state[j, 1], state[j, 2] = age, since, is_out
            if is_out:
                n_gone += 1
                standing[t] |= is_above
            elif ratio > best:
                best, at = ratio, j
        if n_gone:
            ringing[t] = best
            which[t] = at
            n_out[t] += n_gone
        if has_changed:
            return t + 1
    return len(values)


@kernel
def latch(
    exceeds: Bools, n_needed: int, within: int, off: int, state: Ints, out: Bools
) -> None:
    """Write which rows are in alarm, the latch included.

    An alarm starts at the row with `n_needed` exceedances in the last `within` rows; it
    ends when more than `off` rows have passed since its last one. `state`: the last
    exceedances as bits, rows since the last one, whether an alarm runs.
    """
    mask = (1 << within) - 1
    for t in range(len(exceeds)):
        state[0] = ((state[0] << 1) | exceeds[t]) & mask
        state[1] = 0 if exceeds[t] else state[1] + 1
        if state[2]:
            state[2] = state[1] <= off
        elif exceeds[t]:
            n_set, bits = 0, state[0]
            while bits:
                n_set += bits & 1
                bits >>= 1
            state[2] = n_set >= n_needed
        out[t] = state[2] == 1


@kernel
def restarting_sum(
    increments: Floats, begins: Bools, limit: float, start: float, out: Bools
) -> tuple[float, float]:
    """Write where a cumulative sum that restarts at 0 exceeds its limit.

    ``sum = max(0, sum + increment)``; it is 0 before a row that begins a stretch and
    after a row that exceeds. Returns the sum after the last row, and the largest.
    """
    total, largest = start, 0.0
    for t in range(len(increments)):
        if begins[t]:
            total = 0.0
        total = max(0.0, total + increments[t])
        largest = max(largest, total)
        out[t] = total > limit
        if out[t]:
            total = 0.0
    return total, largest
