"""Compiled loops of the judgement: averages over time, smaller spaces, largest values.

They do in one pass over the rows of a stretch what numpy does in ten. Nothing is
relaxed: sums run in the order of the rows or columns. All release the interpreter's
lock, so that attacks are judged side by side.
"""

import numpy as np

from sightline._kernels.compiling import kernel
from sightline.data.arrays import Bools, Floats, Ints


@kernel
def average_stretch(
    scaled: Floats,
    whitened: Floats,
    logs: Floats,
    weight: float,
    grown: Floats,
    deviation: Floats,
    state: Floats,
    out: Floats,
    total: Floats,
) -> None:
    """Write what averages over time make of each row of a stretch.

    `state`, of shape (3, p), has the averages of `scaled` and `whitened`, which are 0
    before, and what is made of the first; row t is divided by ``grown[t]``. ``out``
    gets, by row: the largest average of `scaled` over its deviation, the average of
    `logs`, the sum of squares of the averages of `whitened`, and that of the three
    largest over their deviation. Averages over their deviation are added to `total`.
    """
    n_rows, p = scaled.shape
    first, second, z = state[0], state[1], state[2]
    left, log = 1.0 - weight, 0.0
    for t in range(n_rows):
        for j in range(p):
            first[j] = weight * scaled[t, j] + left * first[j]
            second[j] = weight * whitened[t, j] + left * second[j]
            z[j] = abs(first[j] / grown[t]) / deviation[j]
            total[j] += z[j]
        log = weight * logs[t] + left * log
        squares = 0.0
        one = two = three = 0.0
        for j in range(p):
            y = second[j] / grown[t]
            squares += y * y
            if z[j] > three:
                three = z[j]
                if three > two:
                    two, three = three, two
                if two > one:
                    one, two = two, one
        out[t, 0] = one
        out[t, 1] = log / grown[t]
        out[t, 2] = squares
        out[t, 3] = three * three + two * two + one * one


@kernel
def half_sums(rows: Floats, in_first: Bools, out: Floats) -> None:
    """Add up each column and its squares, over each half of the rows.

    `out` has shape (2 halves, 2, n_columns) and is 0 before.
    """
    n_rows, p = rows.shape
    for t in range(n_rows):
        half = 0 if in_first[t] else 1
        for j in range(p):
            out[half, 0, j] += rows[t, j]
            out[half, 1, j] += rows[t, j] * rows[t, j]


@kernel
def group_energies(
    rows: Floats,
    in_first: Bools,
    groups: Ints,
    factors: Floats,
    sizes: Ints,
    y: Floats,
    out: Floats,
) -> None:
    """Write the energy of the first channels of a group, for each number of them.

    Rows of the first half are scored by ``groups[1]``, which the other half chose, and
    the reverse. `factors` are the Cholesky factors of the groups' correlations: that of
    the first channels of a group is the leading part of the whole group's. `y` has
    room for a number of each channel of a group.
    """
    q = groups.shape[1]
    for t in range(len(rows)):
        half = 1 if in_first[t] else 0
        energy, k = 0.0, 0
        for i in range(q):
            value = rows[t, groups[half, i]]
            for j in range(i):
                value -= factors[half, i, j] * y[j]
            y[i] = value / factors[half, i, i]
            energy += y[i] * y[i]
            if sizes[k] == i + 1:
                out[k, t] = 0.5 * energy
                k += 1


@kernel
def describe_draws(u: Floats, rows: Ints, length: int, out: Floats) -> None:
    """Write coverage and mean of the three largest values of redrawn stretches.

    Stretch k has the values ``u[k', rows[d]]`` with k' = k // n_draws, d = k % n_draws:
    each row of `u` under each draw. The largest are those of the first `length` rows.
    """
    n_draws, n_rows = rows.shape
    n_first = min(length, n_rows)
    for k in range(len(out)):
        values, drawn = u[k // n_draws], rows[k % n_draws]
        count = 0
        one = two = three = -np.inf
        for t in range(n_rows):
            value = values[drawn[t]]
            count += value > 1
            if t < n_first and value > three:
                three = value
                if three > two:
                    two, three = three, two
                if two > one:
                    one, two = two, one
        one, two, three = min(one, 1e300), min(two, 1e300), min(three, 1e300)
        out[k, 0] = count / n_rows
        if n_first > 2:
            out[k, 1] = ((three + two) + one) / 3
        elif n_first == 2:
            out[k, 1] = (two + one) / 2
        else:
            out[k, 1] = one
