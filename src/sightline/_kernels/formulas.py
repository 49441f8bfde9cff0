"""One-step formulas: their search from inner products, their errors, their CUSUM.

Nothing here is relaxed (no fastmath, but for one sum of squares): predictions are
rounded after every product and every sum, in the order in which they are written, so
that they are the published code's to the last bit.
"""

from typing import NamedTuple

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
# A candidate must be nearer by this factor to take the place of an earlier one.
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


class Inner(NamedTuple):
    """Inner products over some rows, for the sums that may explain one target.

    `gram` are those of the inputs, `cross` those of inputs and target, `square` that of
    the target. The last value of the target is already projected out of all of them.
    """

    gram: Floats
    cross: Floats
    square: float


@njit()
def _pair(
    i: int, j: int, norms: Floats, fitted: Inner, least_left: float
) -> tuple[bool, float, float, float, float]:
    """Eliminate input i from input j.

    Returns whether enough of j is left, its coefficient on i, its pivot, its inner
    product with the target, and the squared error of both over the rows fitted on.
    """
    gram, cross = fitted.gram, fitted.cross
    to_i = gram[i, j] / gram[i, i]
    pivot = gram[j, j] - to_i * gram[i, j]
    if pivot < least_left * norms[j]:
        return False, to_i, pivot, 0.0, 0.0
    y = cross[j] - to_i * cross[i]
    part_i = cross[i] * cross[i] / gram[i, i]
    return True, to_i, pivot, y, fitted.square - part_i - y * (y / pivot)


@njit()
def _pair_error(
    i: int, j: int, p_i: float, p_j: float, error: float, other: Inner
) -> float:
    """Return the squared error of two inputs over all rows."""
    error = error + other.square
    error -= 2.0 * (p_i * other.cross[i] + p_j * other.cross[j])
    error += p_i * p_i * other.gram[i, i]
    error += p_j * p_j * other.gram[j, j]
    error += 2.0 * p_i * p_j * other.gram[i, j]
    return error


@njit()
def _triple_error(
    i: int,
    j: int,
    k: int,
    p: tuple[float, float, float],
    error: float,
    other: Inner,
    floor: float,
) -> float:
    """Return the squared error of three inputs over all rows, at least `floor`."""
    p_i, p_j, p_k = p
    error += other.square - 2.0 * (
        p_i * other.cross[i] + p_j * other.cross[j] + p_k * other.cross[k]
    )
    error += p_i * p_i * other.gram[i, i]
    error += p_j * p_j * other.gram[j, j]
    error += p_k * p_k * other.gram[k, k]
    error += 2.0 * p_i * p_j * other.gram[i, j]
    error += 2.0 * p_i * p_k * other.gram[i, k]
    error += 2.0 * p_j * p_k * other.gram[j, k]
    return max(error, floor)


@njit(cache=True)
def search_sums(
    columns: Ints,
    norms: Floats,
    fitted: Inner,
    other: Inner,
    most: int,
    least_left: float,
    best: Floats,
    sets: Sets,
) -> None:
    """File every sum of up to `most` inputs of one target by its squared error.

    `fitted` are inner products over the rows fitted on, `other` those over the other
    rows; `norms` are the squares of the inputs before the last value of the target was
    projected out, `columns` their numbers. Inputs with less than the share
    `least_left` outside those before them are left out. `best` and `sets` get the
    smallest errors over all rows, ascending, and their inputs.
    """
    gram, cross = fitted.gram, fitted.cross
    n, last = len(columns), len(best) - 1
    floor = _ROUNDING * (fitted.square + other.square)
    _keep(max(fitted.square + other.square, floor), -1, -1, -1, best, sets)
    # Level by level: of equal errors the shorter set is to come first.
    for level in range(1, min(most, 3) + 1):
        for i in range(n):
            if gram[i, i] < least_left * norms[i]:
                continue
            if level == 1:
                p_i = cross[i] / gram[i, i]
                error = fitted.square - cross[i] * p_i + other.square
                error += p_i * (p_i * other.gram[i, i] - 2.0 * other.cross[i])
                error = max(error, floor)
                if error * _NEARER < best[last]:
                    _keep(error, columns[i], -1, -1, best, sets)
                continue
            for j in range(i + 1, n):
                pair = _pair(i, j, norms, fitted, least_left)
                is_left, to_i, pivot_j, y_j, of_pair = pair
                if not is_left:
                    continue
                z_j = y_j / pivot_j
                if level == 2:
                    if not max(of_pair, floor) * _NEARER < best[last]:
                        continue
                    p_i = cross[i] / gram[i, i] - to_i * z_j
                    error = max(_pair_error(i, j, p_i, z_j, of_pair, other), floor)
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
                    error = of_pair - y_k * p_k
                    # The other rows can only add to it.
                    if not max(error, floor) * _NEARER < best[last]:
                        continue
                    p_j = z_j - k_to_j * p_k
                    p_i = cross[i] / gram[i, i] - to_i * p_j - k_to_i * p_k
                    coefficients = (p_i, p_j, p_k)
                    error = _triple_error(i, j, k, coefficients, error, other, floor)
                    if error * _NEARER < best[last]:
                        _keep(error, columns[i], columns[j], columns[k], best, sets)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def build_products(
    factor: Matrix, others: Matrix, pilots: Floats, out: Matrix, squares: Floats
) -> None:
    """Write factor * others[r] - pilots[r]; add the sums of squares to `squares`.

    Only a candidate's rank depends on these; the best are fitted again by other means.
    """
    for r in range(len(others)):
        pilot = pilots[r]
        total = 0.0
        for s in range(len(factor)):
            q = factor[s] * others[r, s] - pilot
            out[r, s] = q
            total += q * q
        squares[r] += total


class ProductSums(NamedTuple):
    """Sums over some rows, for the products that may explain a target.

    `n_rows` is their number. `own` has for each target: the square of its last value,
    that value with the target, the square of the target, and the sums of last value and
    target. `sums` has for each product its inner products with all last values, then
    with all targets, then its own sum; `squares` its square.
    """

    n_rows: float
    own: Floats
    sums: Floats
    squares: Floats


@njit(cache=True)
def search_products(
    inputs: Sets,
    targets: Ints,
    fitted: ProductSums,
    other: ProductSums,
    least_left: float,
    best: Floats,
    sets: Sets,
) -> None:
    """File products by the squared error of each target they could explain.

    `fitted` are sums over the rows fitted on, `other` those over the other rows. A
    product with less than the share `least_left` outside the last value of the target
    is left out. `best` and `sets` get the smallest errors of each target, ascending,
    and the inputs of the products.
    """
    own, sums, squares = fitted.own, fitted.sums, fitted.squares
    other_own, other_sums, other_squares = other.own, other.sums, other.squares
    m = len(targets)
    last = best.shape[1] - 1
    for q in range(len(inputs)):
        i, j, k = inputs[q, 0], inputs[q, 1], inputs[q, 2]
        mean = sums[q, 2 * m] / fitted.n_rows
        norm = squares[q] - mean * sums[q, 2 * m]
        if not norm > least_left * squares[q]:
            continue
        total = other_sums[q, 2 * m]
        other_norm = other_squares[q] - 2.0 * mean * total + other.n_rows * mean * mean
        for t in range(m):
            target = targets[t]
            if i == target or j == target or k == target:
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
                _keep(error, i, j, k, best[t], sets[t])


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
            expected = parameters[f, 0] * values[before, target]
            if families[f] == _SUM:
                for k in range(1, counts[f]):
                    expected += parameters[f, k] * values[before, inputs[f, k]]
                expected += parameters[f, counts[f]]
            else:
                product = values[before, inputs[f, 1]]
                for k in range(2, counts[f]):
                    product *= values[before, inputs[f, k]]
                expected += parameters[f, 1] * product
                expected += parameters[f, 2]
            out[r, f] = values[now, target] - expected


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
