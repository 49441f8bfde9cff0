"""One-step formulas: their search from inner products, their errors, their CUSUM.

Nothing here is relaxed (no fastmath, but for one sum of squares): predictions are
rounded after every product and every sum, in the order in which they are written, so
that they are the published code's to the last bit.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from sightline.data.arrays import Bools, Floats, Ints

Sets = npt.NDArray[np.int16]
Families = npt.NDArray[np.int8]
Matrix = npt.NDArray[np.floating]

_SUM = 0
# An error smaller than this share of the target's own movement is rounding.
_ROUNDING = 1e-13
# So much nearer must a candidate be to take the place of an earlier one.
_NEARER = 1.0 + 1e-10


# Not cached: it is to be merged into its callers.
@njit()
def _keep(error: float, i: int, j: int, k: int, best: Floats, sets: Sets) -> None:
    """File a candidate by its error; equals stay behind those that came before."""
    place = len(best) - 1
    while place > 0 and error < best[place - 1]:
        best[place] = best[place - 1]
        sets[place] = sets[place - 1]
        place -= 1
    best[place] = error
    sets[place, 0], sets[place, 1], sets[place, 2] = i, j, k


@njit(cache=True)
def search_sums(
    columns: Ints,
    norms: Floats,
    gram: Floats,
    cross: Floats,
    square: float,
    other_gram: Floats,
    other_cross: Floats,
    other_square: float,
    most: int,
    least_left: float,
    best: Floats,
    sets: Sets,
) -> None:
    """File every sum of up to `most` inputs of one target by its squared error.

    The own lag is already projected out of all columns and of the target. `gram`,
    `cross` and `square` are inner products over the rows fitted on (of the inputs, of
    inputs and target, of the target), the others over the other rows; `norms` are the
    squares of the inputs before the projection, `columns` their numbers. Inputs with
    less than the share `least_left` outside those before them are left out. `best` and
    `sets` get the smallest errors over all rows, ascending, and their inputs.
    """
    n = len(columns)
    last = len(best) - 1
    floor = _ROUNDING * (square + other_square)
    _keep(max(square + other_square, floor), -1, -1, -1, best, sets)
    if most < 1:
        return
    for i in range(n):
        if gram[i, i] < least_left * norms[i]:
            continue
        p = cross[i] / gram[i, i]
        error = square - cross[i] * p + other_square
        error += p * (p * other_gram[i, i] - 2.0 * other_cross[i])
        error = max(error, floor)
        if error * _NEARER < best[last]:
            _keep(error, columns[i], -1, -1, best, sets)
    if most < 2:
        return
    # Level by level: of equal errors the shorter set is to come first.
    for level in range(2, min(most, 3) + 1):
        for i in range(n):
            if gram[i, i] < least_left * norms[i]:
                continue
            part_i = cross[i] * cross[i] / gram[i, i]
            for j in range(i + 1, n):
                to_i = gram[i, j] / gram[i, i]
                pivot_j = gram[j, j] - to_i * gram[i, j]
                if pivot_j < least_left * norms[j]:
                    continue
                y_j = cross[j] - to_i * cross[i]
                z_j = y_j / pivot_j
                fitted = square - part_i - y_j * z_j
                if level == 2:
                    if not max(fitted, floor) * _NEARER < best[last]:
                        continue
                    p_j = z_j
                    p_i = cross[i] / gram[i, i] - to_i * p_j
                    error = fitted + other_square
                    error -= 2.0 * (p_i * other_cross[i] + p_j * other_cross[j])
                    error += p_i * p_i * other_gram[i, i]
                    error += p_j * p_j * other_gram[j, j]
                    error += 2.0 * p_i * p_j * other_gram[i, j]
                    error = max(error, floor)
                    if error * _NEARER < best[last]:
                        _keep(error, columns[i], columns[j], -1, best, sets)
                    continue
                for k in range(j + 1, n):
                    k_to_i = gram[i, k] / gram[i, i]
                    left = gram[j, k] - to_i * gram[i, k]
                    k_to_j = left / pivot_j
                    pivot_k = gram[k, k] - k_to_i * gram[i, k] - k_to_j * left
                    if pivot_k < least_left * norms[k]:
                        continue
                    y_k = cross[k] - k_to_i * cross[i] - k_to_j * y_j
                    p_k = y_k / pivot_k
                    error = fitted - y_k * p_k
                    # The other rows can only add to it.
                    if not max(error, floor) * _NEARER < best[last]:
                        continue
                    p_j = z_j - k_to_j * p_k
                    p_i = cross[i] / gram[i, i] - to_i * p_j - k_to_i * p_k
                    error += other_square - 2.0 * (
                        p_i * other_cross[i]
                        + p_j * other_cross[j]
                        + p_k * other_cross[k]
                    )
                    error += p_i * p_i * other_gram[i, i]
                    error += p_j * p_j * other_gram[j, j]
                    error += p_k * p_k * other_gram[k, k]
                    error += 2.0 * p_i * p_j * other_gram[i, j]
                    error += 2.0 * p_i * p_k * other_gram[i, k]
                    error += 2.0 * p_j * p_k * other_gram[j, k]
                    error = max(error, floor)
                    if error * _NEARER < best[last]:
                        _keep(error, columns[i], columns[j], columns[k], best, sets)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def build_products(
    factor: Matrix, others: Matrix, pilots: Floats, out: Matrix, squares: Floats
) -> None:
    """Write factor * others[r] - pilots[r]; add the sums of squares to `squares`.

    Only a candidate's rank hangs on these; the best are fitted anew by other means.
    """
    for r in range(len(others)):
        pilot = pilots[r]
        total = 0.0
        for s in range(len(factor)):
            q = factor[s] * others[r, s] - pilot
            out[r, s] = q
            total += q * q
        squares[r] += total


@njit(cache=True)
def search_products(
    inputs: Sets,
    targets: Ints,
    n_fitted: float,
    n_other: float,
    own: Floats,
    other_own: Floats,
    sums: Floats,
    squares: Floats,
    other_sums: Floats,
    other_squares: Floats,
    least_left: float,
    best: Floats,
    sets: Sets,
) -> None:
    """File products by the squared error of each target they could explain.

    `own` has, for each target over the rows fitted on: square of the own lag, own lag
    with target, square of the target; `other_own` the same over the other rows, then
    the sums of own lag and of target. `sums` has a row for each product: its inner
    products with all own lags, then with all targets, then its own sum. A product with
    less than the share `least_left` outside the own lag is left out.
    """
    m = len(targets)
    last = best.shape[1] - 1
    for q in range(len(inputs)):
        mean = sums[q, 2 * m] / n_fitted
        norm = squares[q] - mean * sums[q, 2 * m]
        if not norm > least_left * squares[q]:
            continue
        total = other_sums[q, 2 * m]
        other_norm = other_squares[q] - 2.0 * mean * total + n_other * mean * mean
        for t in range(m):
            target = targets[t]
            if (
                inputs[q, 0] == target
                or inputs[q, 1] == target
                or inputs[q, 2] == target
            ):
                continue
            own_lag, with_own, square = own[t, 0], own[t, 1], own[t, 2]
            along = sums[q, t]
            pivot = norm - along * along / own_lag
            if pivot < least_left * norm:
                continue
            y = sums[q, m + t] - along * with_own / own_lag
            b = y / pivot
            floor = _ROUNDING * (square + other_own[t, 2])
            error = square - with_own * with_own / own_lag - y * b
            if not max(error, floor) * _NEARER < best[t, last]:
                continue
            a = (with_own - along * b) / own_lag
            # The mean over the rows fitted on is taken off on the other rows too.
            other_along = other_sums[q, t] - mean * other_own[t, 3]
            other_with = other_sums[q, m + t] - mean * other_own[t, 4]
            error += other_own[t, 2] + a * a * other_own[t, 0] + b * b * other_norm
            error += 2.0 * (a * b * other_along - a * other_own[t, 1] - b * other_with)
            error = max(error, floor)
            if error * _NEARER < best[t, last]:
                _keep(
                    error,
                    inputs[q, 0],
                    inputs[q, 1],
                    inputs[q, 2],
                    best[t],
                    sets[t],
                )


@njit(cache=True)
def observed_minus_predicted(
    values: Floats,
    rows: Ints,
    families: Families,
    inputs: Ints,
    counts: Ints,
    parameters: Floats,
    out: Floats,
) -> None:
    """Write what each formula leaves of the given rows; each from the row before it.

    Families are 0 for a sum and 1 for a product; `inputs` has the target first, and
    `counts` tells how many there are. Sums go from left to right with the offset last,
    products from left to right.
    """
    for r in range(len(rows)):
        now = rows[r]
        before = now - 1
        for f in range(len(families)):
            target = inputs[f, 0]
            told = parameters[f, 0] * values[before, target]
            if families[f] == _SUM:
                for k in range(1, counts[f]):
                    told += parameters[f, k] * values[before, inputs[f, k]]
                told += parameters[f, counts[f]]
            else:
                product = values[before, inputs[f, 1]]
                for k in range(2, counts[f]):
                    product *= values[before, inputs[f, k]]
                told += parameters[f, 1] * product
                told += parameters[f, 2]
            out[r, f] = values[now, target] - told


@njit(cache=True)
def cusum_peak(errors: Floats, drift: float, begins: Bools) -> float:
    """Return the largest CUSUM of errors; it starts at 0 where a run begins."""
    peak = state = 0.0
    for s in range(len(errors)):
        if begins[s]:
            state = 0.0
        state = max(state + abs(errors[s]) - drift, 0.0)
        peak = max(peak, state)
    return peak


@njit(cache=True)
def cusum_alarms(
    residuals: Floats,
    begins: Bools,
    drifts: Floats,
    epsilon: float,
    levels: Floats,
    caps: Floats,
    values: Floats,
    is_alarm: Bools,
) -> None:
    """Write the CUSUM of each column and where it is above its level.

    It starts at 0 where a run begins and is held at the cap, so that it falls below
    the level soon after an attack.
    """
    n_rows, n_columns = residuals.shape
    state = np.zeros(n_columns)
    for s in range(n_rows):
        if begins[s]:
            state[:] = 0.0
        for f in range(n_columns):
            g = max(state[f] + abs(residuals[s, f]) - drifts[f] - epsilon, 0.0)
            g = min(g, caps[f])
            state[f] = g
            values[s, f] = g
            is_alarm[s, f] = g > levels[f]
