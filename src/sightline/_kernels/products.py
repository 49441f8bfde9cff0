"""A matrix product of scipy's own library, called without the interpreter's lock.

scipy's functions keep the lock, so that threads would multiply one after the other.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address

from sightline.data.arrays import Floats

_Letter, _Array = ctypes.c_char_p, ctypes.c_void_p
# A library that wants 32 bits finds them in the lower half of 64: all machines that
# numba runs on store it first.
_Int, _Float = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_double)
_ONE = ctypes.c_double(1.0)


@cache
def _dtrmm() -> Any:
    """Return BLAS's product by a triangular matrix; ctypes gives up the lock."""
    address = get_cython_function_address("scipy.linalg.cython_blas", "dtrmm")
    letters, matrix = 4 * [_Letter], [_Array, _Int]
    signature: list[Any] = [*letters, _Int, _Int, _Float, *matrix, *matrix]
    return ctypes.CFUNCTYPE(None, *signature)(address)


def whiten_by_triangle(centered: Floats, factor: Floats) -> None:
    """Replace centred rows y by ``L^-1 y``, with L the Cholesky factor.

    They have the energy of rows whitened symmetrically, for half the arithmetic.

    Parameters
    ----------
    centered : array of shape (n, p)
        The rows, in C order; they are overwritten.
    factor : array of shape (p, p)
        ``L^-1``, lower triangular.

    Examples
    --------
    >>> rows = np.array([[2.0, 3.0]])
    >>> whiten_by_triangle(rows, np.array([[0.5, 0.0], [1.0, 2.0]]))
    >>> rows
    array([[1., 8.]])
    """
    if centered.dtype != np.float64 or not centered.flags.c_contiguous:
        raise ValueError("`centered` must hold float64 in C order")
    factor = np.asfortranarray(factor, np.float64)
    n_rows, p = (ctypes.c_int64(n) for n in centered.shape)
    places = (factor.ctypes.data, p, centered.ctypes.data, p)
    # Rows in C order are the columns of the matrix that BLAS sees.
    _dtrmm()(b"L", b"L", b"N", b"N", p, n_rows, _ONE, *places)
