"""How the inner loops are compiled."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])
# Not all of its options are in its types, and some functions have none.
_njit: Any = numba.njit
_KERNEL = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}


def kernel(function: F) -> F:
    """Compile a function that Python calls: cached, without the interpreter's lock."""
    compiled: F = _njit(**_KERNEL)(function)
    return compiled


def relaxed(function: F) -> F:
    """Compile a kernel that may reassociate sums; nan and infinity stay as they are."""
    compiled: F = _njit(fastmath={"reassoc", "contract", "nsz"}, **_KERNEL)(function)
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
