"""The inner loops, compiled by numba and cached on disk; imported where needed.

The first command after an installation compiles them, so they are written for that:
loops in place of whole arrays, and no wrapper that is not called.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numba
from numba.core import event

from sightline.progress import Progress, Step, StepKind

F = TypeVar("F", bound=Callable[..., Any])
# Not all of its options are in its types, and some functions have none.
_njit: Any = numba.njit
_KERNEL = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}


class _Announcement(event.Listener):
    """Reports the first loop that is compiled, and no other."""

    def __init__(self, progress: Progress) -> None:
        self._progress: Progress | None = progress

    def on_start(self, event: event.Event) -> None:
        """Report that loops are being compiled, the first time."""
        progress, self._progress = self._progress, None
        if progress is not None:
            progress(
                Step(
                    StepKind.NOTICE,
                    detail="Compiling loops: once after an installation, some 10 s.",
                )
            )

    def on_end(self, event: event.Event) -> None:
        """Ignore that a loop is compiled."""


@contextmanager
def announce_compiling(progress: Progress) -> Iterator[None]:
    """Report one notice if loops have to be compiled inside this block."""
    install: Any = event.install_listener
    with install("numba:compile", _Announcement(progress)):
        yield


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
