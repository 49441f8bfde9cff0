"""Compiled loops of a recurrent layer in single precision: its gates, both ways.

Arrays are flat: each holds one row of time for all units of a layer and all windows, so
that the loops run sixteen numbers at a time. Exponentials are written out for the same
reason: a call of the mathematical library would make one at a time. Their relative
error is below 3e-7.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

Singles = npt.NDArray[np.float32]
# Products are added without rounding in between; no number is assumed to be finite.
_FUSED = {"contract", "nsz"}
_ONE, _TWO = np.float32(1), np.float32(2)
# Beyond it the sigmoid is 0 or 1 in single precision.
_FAR = np.float32(80)
_LOG2_E = np.float32(1.44269504)
# The logarithm of two in two parts: whole multiples of the first are exact.
_LN2, _LN2_REST = np.float32(0.693145751953125), np.float32(1.42860677e-06)
_FACTORIALS = tuple(np.float32(1 / f) for f in (5040, 720, 120, 24, 6, 2, 1))
_BIAS, _MANTISSA = np.int32(127), np.int32(23)


@njit(fastmath=_FUSED, error_model="numpy")
def _exp_less_one(x: np.float32) -> np.float32:
    """Return exp(x) - 1, by the series within half a power of two."""
    x = min(max(x, -_FAR), _FAR)
    power = np.rint(x * _LOG2_E)
    rest = x - power * _LN2 - power * _LN2_REST
    series = _FACTORIALS[0]
    for factor in _FACTORIALS[1:]:
        series = series * rest + factor
    scale = np.int32((np.int32(power) + _BIAS) << _MANTISSA).view(np.float32)
    grown: np.float32 = scale * (series * rest) + (scale - _ONE)
    return grown


@njit(fastmath=_FUSED, error_model="numpy")
def _sigmoid(x: np.float32) -> np.float32:
    return _ONE / (_TWO + _exp_less_one(-x))


@njit(fastmath=_FUSED, error_model="numpy")
def _tanh(x: np.float32) -> np.float32:
    grown = _exp_less_one(_TWO * x)
    return grown / (grown + _TWO)


@njit(cache=True, nogil=True, fastmath=_FUSED, error_model="numpy")
def gates_ahead(t: int, gates: Singles, cells: Singles, seen: Singles) -> None:
    """Write cell and code of row t; apply the gates' activations in place.

    Parameters
    ----------
    t : int
        The row.
    gates : array of shape (rows or 1, 4 * n)
        Input, forget, candidate and output gate of each row, one after the other: their
        sums, then their values. One row is used again and again.
    cells : array of shape (rows + 1, n)
        Cells before each row, and after the last.
    seen : array of shape (rows + 1, more than n)
        Its last n columns are the codes before each row, and after the last.
    """
    n = cells.shape[1]
    row = gates[min(t, len(gates) - 1)]
    enter, forget = row[:n], row[n : 2 * n]
    candidate, leave = row[2 * n : 3 * n], row[3 * n :]
    before, cell, code = cells[t], cells[t + 1], seen[t + 1, -n:]
    for k in range(n):
        enter[k] = _sigmoid(enter[k])
        forget[k] = _sigmoid(forget[k])
        candidate[k] = _tanh(candidate[k])
        leave[k] = _sigmoid(leave[k])
        cell[k] = forget[k] * before[k] + enter[k] * candidate[k]
        code[k] = leave[k] * _tanh(cell[k])


@njit(cache=True, nogil=True, fastmath=_FUSED, error_model="numpy")
def gates_back(
    t: int,
    gates: Singles,
    cells: Singles,
    above: Singles,
    after: Singles,
    of_cell: Singles,
) -> None:
    """Turn the gates of row t into the loss's gradient by their sums, in place.

    Parameters
    ----------
    t : int
        The row.
    gates, cells : array
        As `gates_ahead` left them.
    above : array of shape (rows or 1, n or more)
        Its first n columns are the gradient by each row's code, from the layer above.
    after : array of shape (rows + 1, n or more)
        The last n columns of row t + 1 are the gradient by the code, from a row later.
    of_cell : array of shape (n,)
        The gradient by the cell after the row; becomes that by the cell before it.
    """
    n = cells.shape[1]
    row = gates[t]
    enter, forget = row[:n], row[n : 2 * n]
    candidate, leave = row[2 * n : 3 * n], row[3 * n :]
    before, cell = cells[t], cells[t + 1]
    one, two = above[min(t, len(above) - 1), :n], after[t + 1, -n:]
    for k in range(n):
        a, b, c, d = enter[k], forget[k], candidate[k], leave[k]
        of_code = one[k] + two[k]
        shown = _tanh(cell[k])
        slope = of_cell[k] + of_code * d * (_ONE - shown * shown)
        enter[k] = slope * c * a * (_ONE - a)
        forget[k] = slope * before[k] * b * (_ONE - b)
        candidate[k] = slope * a * (_ONE - c * c)
        leave[k] = of_code * shown * d * (_ONE - d)
        of_cell[k] = slope * b
