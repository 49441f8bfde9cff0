"""How the inner loops are compiled."""

import gc
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])
# Not all of its options are in its types, and some functions have none.
_njit: Any = numba.njit
_register: Any = event.register
_KERNEL = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}


class _WithoutCollection(event.Listener):
    """Keeps the garbage collector from looking through what the compiler builds.

    It would take a seventh of the time to compile, and find nothing.
    """

    def __init__(self) -> None:
        self._n_compiling = 0

    def on_start(self, event: event.Event) -> None:
        """Stop the collector when the outermost function begins to be compiled."""
        if self._n_compiling == 0:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._n_compiling += 1

    def on_end(self, event: event.Event) -> None:
        """Start it again when that function is compiled."""
        self._n_compiling -= 1
        if self._n_compiling == 0 and self._was_enabled:
            gc.enable()


_register("numba:compile", _WithoutCollection())


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
