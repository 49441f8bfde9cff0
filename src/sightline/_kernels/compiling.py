"""How the inner loops are compiled."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])
# Not all of its options are in its types.
_njit: Any = numba.njit


def kernel(function: F) -> F:
    """Compile a function that Python calls: cached, without the interpreter's lock."""
    options = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
    compiled: F = _njit(error_model="numpy", **options)(function)
    return compiled


def inner(function: F) -> F:
    """Compile a function that compiled functions call in several places."""
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: F = _njit(error_model="numpy", **options)(function)
    return compiled


def part(function: F) -> F:
    """Make a function part of the one compiled function that calls it."""
    compiled: F = _njit(inline="always")(function)
    return compiled
