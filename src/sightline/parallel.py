"""Threads under control: one for each numeric library, and our own for separate work.

A linear algebra library that divides small products among threads of its own costs more
than it gains, and its last digits depend on their number. `threads` limits all of them
to one thread and starts a team of our own; `side_by_side` has the team make independent
calls. Most of their time is spent in numpy and in compiled loops, which release the
interpreter's lock. What is computed does not depend on the number of jobs.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from threading import Condition, Lock, Thread
from typing import Any, Final, TypeVar, overload

from sightline.errors import StreamError

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")
Q = TypeVar("Q")


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

# Parameters by their variable, with their number in glibc's malloc.h, and their value
# here in bytes: chunks of a file, of which the next one takes the place, are smaller,
# arrays of all rows larger.
_THRESHOLDS: Final = {"MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_TRIM_THRESHOLD_": -1}
_LEAST_RETURNED: Final = 8 << 20


def return_freed_arrays() -> None:
    """Have large arrays go back to the system when they are freed, in this process.

    The C library of Linux else keeps a heap for each thread, in which freed arrays of
    up to 32 MiB leave holes: half of the memory of a long evaluation. Small arrays stay
    for the next ones: to get them from the system again takes time. For commands and
    workers, whose process is ours. Without effect elsewhere; a threshold that the
    environment sets stays.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        for variable, parameter in _THRESHOLDS.items():
            if variable not in os.environ:
                library.mallopt(parameter, _LEAST_RETURNED)


# --- Our own --------------------------------------------------------------------------


def usual_jobs() -> int:
    """Return the number of cores of this process, at most ``OMP_NUM_THREADS``."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return min(cores, max(int(given), 1)) if given.isdecimal() else cores


class _Batch:
    """Calls that are made by one or more threads, each of them once."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.calls = calls
        self.values: list[Any] = [None] * len(calls)
        self.error: BaseException | None = None
        self.n_claimed = self.n_ended = 0


class _Team:
    """Threads that make the calls of all batches that are open, the newest first.

    A thread that opens a batch makes calls of it as well, so that a batch opened within
    a call always comes to its end.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._open: list[_Batch] = []
        self._changed = Condition()
        self._is_over = False
        for _ in range(jobs - 1):
            Thread(target=self._help, daemon=True).start()

    def end(self) -> None:
        """Let the helpers go as soon as they have nothing to do."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def run(
        self, calls: Sequence[Callable[[], Any]], done: Callable[[int], None]
    ) -> list[Any]:
        """Return what the calls return; see `side_by_side`."""
        batch, n_reported = _Batch(calls), 0
        with self._changed:
            self._open.append(batch)
            self._changed.notify_all()
        try:
            while True:
                with self._changed:
                    k = self._claimed(batch)
                    while k is None and batch.n_ended < batch.n_claimed:
                        if batch.n_ended > n_reported:
                            break
                        self._changed.wait()
                    n_ended = batch.n_ended
                if k is not None:
                    self._make(batch, k)
                for one in range(n_reported, n_ended):
                    done(one)
                n_reported = n_ended
                if k is None and n_ended == batch.n_claimed:
                    break
        finally:
            with self._changed:
                batch.n_claimed = len(calls)
                self._open.remove(batch)
        if batch.error is not None:
            raise batch.error
        return batch.values

    def _claimed(self, batch: _Batch) -> int | None:
        """Return the next call of a batch, which is now the caller's."""
        k = batch.n_claimed
        if k == len(batch.calls) or batch.error is not None:
            return None
        batch.n_claimed += 1
        return k

    def _make(self, batch: _Batch, k: int) -> None:
        """Make one call; its error ends the batch."""
        try:
            batch.values[k] = batch.calls[k]()
        except BaseException as error:  # raised again by the one who waits for it
            batch.error = batch.error or error
        with self._changed:
            batch.n_ended += 1
            self._changed.notify_all()

    def _help(self) -> None:
        """Make calls until the team is over."""
        while True:
            with self._changed:
                while (found := self._next()) is None:
                    if self._is_over:
                        return
                    self._changed.wait()
            # The caller may be gone before its calls have ended.
            with one_thread_each():
                self._make(*found)

    def _next(self) -> tuple[_Batch, int] | None:
        for batch in reversed(self._open):
            if (k := self._claimed(batch)) is not None:
                return batch, k
        return None


_team: ContextVar[_Team | None] = ContextVar("team", default=None)


@contextmanager
def threads(jobs: int | None = None) -> Iterator[None]:
    """Have `side_by_side` make calls in `jobs` threads; libraries use one each.

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
        if _team.get() is not None:
            yield
            return
        team = _Team(jobs or usual_jobs())
        token = _team.set(team)
        try:
            yield
        finally:
            _team.reset(token)
            team.end()


def n_jobs() -> int:
    """Return how many calls are made at a time; 1 outside of `threads`."""
    team = _team.get()
    return 1 if team is None else team.jobs


def _ignore(k: int) -> None:
    """Report nothing: the default."""


def side_by_side(
    calls: Sequence[Callable[[], T]], done: Callable[[int], None] = _ignore
) -> list[T]:
    """Return what independent calls return, in their order.

    Parameters
    ----------
    calls : sequence of callable
        Functions without arguments. They may use `side_by_side` themselves. The first
        that raises ends the others that have not begun.
    done : callable
        Called with 0, 1, ... as calls end, in the caller's own thread.

    Examples
    --------
    >>> with threads(2):
    ...     side_by_side([lambda: 1, lambda: 2])
    [1, 2]
    """
    team = _team.get()
    if team is None or team.jobs == 1 or len(calls) < 2:
        values = []
        for k, call in enumerate(calls):
            values.append(call())
            done(k)
        return values
    # A context can be entered by one thread at a time.
    return team.run([_within(copy_context().run, call) for call in calls], done)


@overload
def together(one: Callable[[], T], two: Callable[[], S], /) -> tuple[T, S]: ...


@overload
def together(
    one: Callable[[], T], two: Callable[[], S], three: Callable[[], R], /
) -> tuple[T, S, R]: ...


@overload
def together(
    one: Callable[[], T],
    two: Callable[[], S],
    three: Callable[[], R],
    four: Callable[[], Q],
    /,
) -> tuple[T, S, R, Q]: ...


def together(*calls: Callable[[], Any]) -> tuple[Any, ...]:
    """Return what two to four independent calls return."""
    return tuple(side_by_side(calls))


def _within(run: Callable[..., T], call: Callable[[], T]) -> Callable[[], T]:
    return lambda: run(call)
