"""Compiled loops over rows: energies, draws, averages over time, crossings of limits.

They do in one pass what numpy would do in six to ten, and release the interpreter's
lock. Where sums may be reassociated (`relaxed`, that is what lets them run several at a
time) nothing else is: a nan or an infinity in a row always reaches that row's result.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline._kernels import kernel, relaxed
from sightline.data.arrays import Bools, Floats, Ints, Residuals


@relaxed
def center(
    block: Residuals, mean: Floats, weights: Floats, centered: Floats, squares: Floats
) -> None:
    """Write y = block - mean, and for each row the sum over channels of w_j y_j^2.

    Columns of `centered` beyond those of `block` stay as they are.
    """
    n_rows, n_channels = block.shape
    for t in range(n_rows):
        square = 0.0
        for j in range(n_channels):
            y = np.float64(block[t, j]) - mean[j]
            centered[t, j] = y
            square += weights[j] * y * y
        squares[t] = square


@relaxed
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


# --- Draws: rank figures of a stream that is relabelled -------------------------------
# Rows are sorted by falling energy once. A draw then costs one pass and no sort.

Codes = npt.NDArray[np.int32]


class AllRows(NamedTuple):
    """Calm rows and attack rows together, by falling energy.

    `block` is -1 for an attack row; `last` marks the last row of equal energy. `place`
    says where in that order the rows are: first all calm ones, then those of attacks.
    """

    block: Codes
    alarm: Bools
    last: Bools
    place: Ints


@kernel
def chance_ranks(
    rows: AllRows,
    first: Ints,
    length: Ints,
    count: Codes,
    calm_total: float,
    limits: Floats,
    times: Codes,
    auc: Floats,
    areas: Floats,
    segment_auc: Floats,
) -> tuple[float, float]:
    """Return what ranking gives if other rows stand in the place of the attacks.

    Rows ``first[i]`` to ``first[i] + length[i]`` stand for attack i; calm rows that
    stand for none weigh as often as their block is drawn, `calm_total` with the others.
    `times` and `auc` have an entry for each row; `times` and `areas` are 0 before,
    `times` also after.

    Returns the average precision and the share of the remaining calm rows in alarm, nan
    if none remains; adds up ROC areas up to each limit, and writes each attack's AUC.
    """
    n = len(rows.block)
    # How often each row stands for an attack, and the calm weight of those.
    taken = 0.0
    for i in range(len(first)):
        for k in range(first[i], first[i] + length[i]):
            place = rows.place[k]
            if times[place] == 0 and rows.block[place] >= 0:
                taken += count[rows.block[place]]
            times[place] += 1
    total = calm_total - taken
    above = alarms = hits = precision = 0.0
    start = 0
    while start < n and total > 0.0:
        stop, calm, group = start, 0.0, 0
        while True:
            if times[stop]:
                group += times[stop]
            elif rows.block[stop] >= 0:
                weight = count[rows.block[stop]]
                calm += weight
                if rows.alarm[stop]:
                    alarms += weight
            stop += 1
            if rows.last[stop - 1]:
                break
        if group:
            hits += group
            precision += group * hits / (hits + above + calm)
            low, high = above / total, (above + calm) / total
            # What a step that rises from rate low to high has up to each limit.
            for a in range(len(limits)):
                if limits[a] >= high:
                    areas[a] += group * (limits[a] - 0.5 * (low + high))
                elif limits[a] > low:
                    areas[a] += group * (0.5 * (limits[a] - low) ** 2 / (high - low))
            for k in range(start, stop):
                auc[k] = 1.0 - 0.5 * (low + high)
        above += calm
        start = stop
    for i in range(len(first)):
        summed = 0.0
        for k in range(first[i], first[i] + length[i]):
            summed += auc[rows.place[k]]
            times[rows.place[k]] = 0
        segment_auc[i] = summed / length[i]
    return precision / hits, alarms / total


# --- Judgement: averages over time, smaller spaces, largest values --------------------


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


# --- Blind spots: the size at which a row crosses a limit -----------------------------
# A row of a rule's view is ``f = base + a * change``. Both signs of the size `a` are
# solved at once; a row that no size brings over its limit gets infinity.


@kernel
def channel_crossings(
    base: Floats, change: Floats, limits: Floats, up: Floats, down: Floats
) -> None:
    """Lower `up` and `down` to the least size with ``abs(f_j) > limits_j`` for one j.

    Parameters
    ----------
    base, change : array of shape (n, q)
        Rows without injection, and what a size of 1 adds.
    limits : array of shape (q,)
        Limit of each column.
    up, down : array of shape (n,)
        Sizes found before for the positive and the negative sign; changed.
    """
    n, q = base.shape
    for t in range(n):
        best_up, best_down = up[t], down[t]
        for j in range(q):
            slope = change[t, j]
            if slope < 0.0:
                slope, value = -slope, -base[t, j]
            else:
                value = base[t, j]
            if slope == 0.0:
                continue
            # The nearer limit lies at either side; both signs have one each.
            room_up = max(limits[j] - value, 0.0)
            if room_up < best_up * slope:
                best_up = room_up / slope
            room_down = max(limits[j] + value, 0.0)
            if room_down < best_down * slope:
                best_down = room_down / slope
        up[t], down[t] = best_up, best_down


@kernel
def energy_crossings(
    base: Floats,
    change: Floats,
    bounds: Ints,
    limits: Floats,
    up: Floats,
    down: Floats,
) -> None:
    """Lower `up` and `down` to the least size with one unit's energy over its limit.

    The energy of unit g is ``e0 + a b + a^2 c``, half the sum of squares of columns
    [bounds[g], bounds[g + 1]). Parameters as of `channel_crossings`; `limits` has one
    value for each unit.
    """
    n = len(base)
    for t in range(n):
        for g in range(len(bounds) - 1):
            e0, b, c = 0.0, 0.0, 0.0
            for j in range(bounds[g], bounds[g + 1]):
                e0 += base[t, j] * base[t, j]
                b += base[t, j] * change[t, j]
                c += change[t, j] * change[t, j]
            room, c = limits[g] - 0.5 * e0, 0.5 * c
            if c == 0.0:
                continue
            if room <= 0.0:
                up[t], down[t] = 0.0, 0.0
                continue
            root = np.sqrt(b * b + 4.0 * c * room)
            # The form without cancellation, for either sign of b.
            if b >= 0.0:
                size_up, size_down = 2.0 * room / (b + root), (b + root) / (2.0 * c)
            else:
                size_up, size_down = (root - b) / (2.0 * c), 2.0 * room / (root - b)
            up[t] = min(up[t], size_up)
            down[t] = min(down[t], size_down)
