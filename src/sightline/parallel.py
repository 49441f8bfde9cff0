"""Threads under control: one for each numeric library, and our own for separate work.

A linear algebra library that divides small products among threads of its own costs more
than it gains, and its last digits depend on their number. `threads` limits all of them
to one thread; `map_threads` makes independent calls in threads of our own. Most of
their time is spent in numpy and in compiled loops, which release the interpreter's
lock. What is computed does not depend on the number of jobs.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from threading import Lock
from typing import Any, Final, TypeVar

from sightline.errors import StreamError

T = TypeVar("T")


# --- One thread for each library ------------------------------------------------------

_lock: Final = Lock()
# Whether each of those inside `one_thread_each` needs scipy, and the limits they set.
_inside: Final[list[bool]] = []
_limits: Final[list[Any]] = []


@contextmanager
def one_thread_each(*, with_scipy: bool = True) -> Iterator[None]:
    """Limit linear algebra to one thread; the last one to leave restores the number.

    The limit holds for the whole process, so it must not be lifted by one caller while
    another is still at work.

    Parameters
    ----------
    with_scipy : bool
        Whether to limit scipy as well. It has a library of its own, which must be
        loaded to be limited: that takes a third of a second.
    """
    if with_scipy:
        import scipy.linalg.lapack  # noqa: F401
    from threadpoolctl import threadpool_limits

    with _lock:
        if not _inside or (with_scipy and not any(_inside)):
            _limits.append(threadpool_limits(1, user_api="blas"))
        _inside.append(with_scipy)
    try:
        yield
    finally:
        with _lock:
            _inside.remove(with_scipy)
            while _limits and not _inside:
                _limits.pop().restore_original_limits()


# --- Memory ---------------------------------------------------------------------------

# Bytes. Chunks of a file, of which the next one takes the place, are smaller; arrays
# of all rows are larger.
_LEAST_RETURNED: Final = 8 << 20


def return_freed_arrays() -> None:
    """Have large arrays go back to the system when they are freed, in this process.

    The C library of Linux else keeps a heap for each thread, in which freed arrays of
    up to 32 MiB leave holes: half of the memory of a long evaluation. For commands and
    workers, whose process is ours. Without effect elsewhere.
    """
    with suppress(OSError, AttributeError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h.
        for parameter in (-3, -1):
            mallopt(parameter, _LEAST_RETURNED)


# --- Our own --------------------------------------------------------------------------


def n_cores() -> int:
    """Return how many cores this process may use, which may be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usual_jobs() -> int:
    """Return the number of cores of this process, at most ``OMP_NUM_THREADS``."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(n_cores(), max(int(given), 1)) if given.isdecimal() else n_cores()


# How many calls are made at a time inside `threads`; None outside.
_jobs: ContextVar[int | None] = ContextVar("jobs", default=None)


@contextmanager
def threads(jobs: int | None = None) -> Iterator[None]:
    """Have `map_threads` make calls in `jobs` threads; libraries use one each.

    Parameters
    ----------
    jobs : int, optional
        By default one for each core. Within another such block the outer number holds.

    Raises
    ------
    StreamError
        If `jobs` is not at least 1.
    """
    if jobs is not None and jobs < 1:
        raise StreamError(f"`jobs` must be at least 1; got {jobs}.")
    with one_thread_each():
        token = _jobs.set(_jobs.get() or jobs or usual_jobs())
        try:
            yield
        finally:
            _jobs.reset(token)


def n_jobs() -> int:
    """Return how many calls are made at a time; 1 outside of `threads`."""
    return _jobs.get() or 1


def map_threads(
    calls: Sequence[Callable[[], T]], done: Callable[[int], None] = lambda k: None
) -> list[T]:
    """Return what independent calls return, in their order.

    Parameters
    ----------
    calls : sequence of callable
        Functions without arguments. They run in as many threads as `threads` says, with
        the context variables of the caller; what they map themselves runs in their own
        thread, one call after the other. If some raise, the others that have not begun
        are not made, and the first error in their order is raised.
    done : callable
        Called with 0, 1, ... as calls end, in the caller's own thread.

    Examples
    --------
    >>> with threads(2):
    ...     map_threads([lambda: 1, lambda: 2])
    [1, 2]
    """
    n_threads = min(n_jobs(), len(calls))
    if n_threads < 2:
        values = []
        for k, call in enumerate(calls):
            values.append(call())
            done(k)
        return values

    def alone(call: Callable[[], T]) -> T:
        _jobs.set(1)
        return call()

    with ThreadPoolExecutor(n_threads) as pool:
        # A context can be entered by one thread at a time.
        futures = [pool.submit(copy_context().run, alone, call) for call in calls]
        try:
            for k, future in enumerate(as_completed(futures)):
                if future.exception() is not None:
                    break
                done(k)
        finally:
            pool.shutdown(cancel_futures=True)
    # Calls begin in their order: none before the first that failed is cancelled.
    return [future.result() for future in futures]
