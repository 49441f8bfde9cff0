"""Compiled loops of alarm rules: views of rows, memory, episodes, tails.

No loop is relaxed: every sum is made in one fixed order, row by row, so that a record
read at once, in pieces or one row at a time gives the same bits. A multiplication is
rounded before it is added, so that plain numpy in the same order gives them too.
"""

import numpy as np

from sightline._kernels.compiling import kernel, part
from sightline.data.arrays import Bools, Floats, Ints, Residuals

# Rows that are taken together, one after the other in a vector register.
_ROWS = 64


@kernel
def view_rows(
    rows: Residuals,
    mean: Floats,
    order: Ints,
    first: Ints,
    stop: Ints,
    weights: Floats,
    out: Floats,
) -> None:
    """Write ``out[t, k] = sum_j (rows[t, order[j]] - mean[order[j]]) weights[j, k]``.

    Column j reaches only k in [first[j], stop[j]), both of which never fall with j;
    sums run in the order of j. Rows are taken together in groups, which leaves the
    order of each sum as it is.
    """
    n_grouped = len(rows) - len(rows) % _ROWS
    if n_grouped:
        _view_groups(rows, n_grouped, mean, order, first, stop, weights, out)
    for t in range(n_grouped, len(rows)):
        for k in range(len(order)):
            out[t, k] = 0.0
        for j in range(len(order)):
            y = np.float64(rows[t, order[j]]) - mean[order[j]]
            for k in range(first[j], stop[j]):
                out[t, k] += y * weights[j, k]


@part
def _view_groups(
    rows: Residuals,
    n_grouped: int,
    mean: Floats,
    order: Ints,
    first: Ints,
    stop: Ints,
    weights: Floats,
    out: Floats,
) -> None:
    """Write the same for whole groups of rows, four terms of the sum at a time."""
    n_columns = len(order)
    y, total = np.empty((n_columns, _ROWS)), np.empty(_ROWS)
    begin, end = np.zeros(n_columns, np.int64), np.zeros(n_columns, np.int64)
    for j in range(n_columns - 1, -1, -1):
        for k in range(first[j], stop[j]):
            begin[k] = j
            end[k] = max(end[k], j + 1)
    for t in range(0, n_grouped, _ROWS):
        for j in range(n_columns):
            for r in range(_ROWS):
                y[j, r] = np.float64(rows[t + r, order[j]]) - mean[order[j]]
        for k in range(n_columns):
            for r in range(_ROWS):
                total[r] = 0.0
            j = begin[k]
            while j + 4 <= end[k]:
                a, b = weights[j, k], weights[j + 1, k]
                c, d = weights[j + 2, k], weights[j + 3, k]
                for r in range(_ROWS):
                    part = (total[r] + y[j, r] * a) + y[j + 1, r] * b
                    total[r] = (part + y[j + 2, r] * c) + y[j + 3, r] * d
                j += 4
            while j < end[k]:
                a = weights[j, k]
                for r in range(_ROWS):
                    total[r] += y[j, r] * a
                j += 1
            for r in range(_ROWS):
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
def largest_unit(values: Floats, levels: Floats, out: Floats, which: Ints) -> None:
    """Write the largest ``abs(value) / level`` of each row, and its column."""
    n_rows, n_columns = values.shape
    ratios = np.empty(n_columns)
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
def largest_sum(
    values: Floats, levels: Floats, n_largest: int, out: Floats, which: Ints
) -> None:
    """Write half the sum of the largest squares of value / level, and the largest's."""
    n_rows, n_columns = values.shape
    for t in range(n_rows):
        ratios = np.abs(values[t]) / levels
        which[t] = np.argmax(ratios)
        ratios.sort()
        total = 0.0
        for k in range(n_columns - 1, max(n_columns - n_largest, 0) - 1, -1):
            total += ratios[k] * ratios[k]
        out[t] = 0.5 * total


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
def join_members(
    exceeds: Bools, off: int, unit: int, state: Ints, out: Bools, shelved: Bools
) -> None:
    """Write where any member that is not shelved exceeds, and who is shelved.

    A member that exceeds after `unit` rows of alarm without pause is shelved; it comes
    back after `unit` rows below its limit. `state[m]` holds the rows since its alarm
    began (0: no alarm), the rows since it last exceeded, and whether it is shelved.
    With `unit` 0 none is ever shelved.
    """
    n_rows, n_members = exceeds.shape
    for t in range(n_rows):
        out[t] = False
        for m in range(n_members):
            age, quiet, is_shelved = state[m, 0], state[m, 1], state[m, 2]
            if exceeds[t, m]:
                quiet = 0
            else:
                quiet += 1
            if age > 0 and quiet > off:
                age = 0
            elif age > 0 or exceeds[t, m]:
                age += 1
            if is_shelved and quiet >= unit:
                is_shelved, age = 0, 0
            elif unit > 0 and age > unit and exceeds[t, m]:
                is_shelved = 1
            if exceeds[t, m] and not is_shelved:
                out[t] = True
            shelved[t, m] = is_shelved
            state[m, 0], state[m, 1], state[m, 2] = age, quiet, is_shelved


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
