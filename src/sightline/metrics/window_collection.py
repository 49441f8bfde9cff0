"""Filling planned windows with whitened rows that arrive block by block, or in parts.

The rows of a test need not be in memory, nor be read by one process: each run of blocks
gives the windows that lie wholly in it, and the pieces of those that do not. Parts of
the rows begin with a run, so pieces are the same, to the last bit, in any division.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.metrics.window_kl import (
    WindowEnergies,
    WindowPlan,
    energies_of_windows,
    plain_kl,
)

# Rows of a run: tables are divided at multiples of it (`row_tables.GRID_ROWS`).
RUN_ROWS = 32_768
# Values of second moments of windows that are judged together.
MOST_VALUES = 4_000_000


@dataclass(frozen=True, eq=False)
class WindowMoments:
    """Rows, mean and centred second-moment sum of some windows, or pieces of them.

    Parameters
    ----------
    numbers : array of shape (n,)
        Numbers of the windows in the whole plan.
    counts : array of shape (n,)
        Number of rows.
    means : array of shape (n, p)
        Mean of the rows.
    seconds : array of shape (n, p, p)
        Sum over rows of (z - mean)(z - mean)'.
    """

    numbers: Ints
    counts: Floats
    means: Floats
    seconds: Floats

    @classmethod
    def of(
        cls, found: Sequence[tuple[int, "_Growing"]], numbers: Ints, p: int
    ) -> "WindowMoments":
        """Return the moments of windows, by their place in `numbers`."""
        places = np.array([window for window, _ in found], np.int64)
        return cls(
            numbers[places],
            np.array([each.count for _, each in found]),
            np.array([each.mean for _, each in found]).reshape(-1, p),
            np.array([each.second for _, each in found]).reshape(-1, p, p),
        )

    def each(self) -> Iterator[tuple[int, "_Growing"]]:
        """Yield the number of each window, and its moments."""
        for k, window in enumerate(self.numbers.tolist()):
            one = _Growing(self.means.shape[1], float(self.counts[k]))
            one.mean, one.second = self.means[k].copy(), self.seconds[k].copy()
            yield window, one

    def __add__(self, other: "WindowMoments") -> "WindowMoments":
        """Return the windows of both, one after the other."""
        return WindowMoments(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.seconds, other.seconds]),
        )


@dataclass(frozen=True, eq=False)
class WindowsOfPart:
    """What some consecutive rows show of the planned windows.

    Parameters
    ----------
    numbers, d_full, d_ms : array of shape (n_whole,)
        Windows that lie wholly in the rows, and their integrated energies.
    attacks : WindowMoments
        Moments of those of them that are attacks.
    pieces : WindowMoments
        Of all other windows, the piece that lies in the rows.
    """

    numbers: Ints
    d_full: Floats
    d_ms: Floats
    attacks: WindowMoments
    pieces: WindowMoments


@dataclass(frozen=True, eq=False)
class WindowWatch:
    """The windows to be filled from rows [first, first + n_rows), all or a part.

    Parameters
    ----------
    plan : WindowPlan
        The windows that have rows among these.
    p : int
        Number of channels.
    n_rows, first : int
        The rows.
    numbers : array of int, optional
        Numbers of the windows in the whole plan; None if `plan` is the whole plan.
    is_plain : bool
        Whether D_FULL is that of the plain covariance.
    """

    plan: WindowPlan
    p: int
    n_rows: int
    first: int = 0
    numbers: Ints | None = None
    is_plain: bool = False

    def between(self, first: int, stop: int) -> "WindowWatch":
        """Return what is to be filled from rows [first, stop)."""
        plan, numbers = self.plan.touching(first, stop)
        return WindowWatch(plan, self.p, stop - first, first, numbers, self.is_plain)

    def begin(self) -> "RunByRun":
        """Return a collector that fills them."""
        return RunByRun(self)

    def collected(self, collector: "RunByRun") -> WindowsOfPart:
        """Return what a collector filled, after all rows were taken in."""
        return collector.ended()


class RunByRun:
    """Fills windows from whitened rows that arrive in order, one run after the other.

    Pieces of a window are merged from its first row on. Those of a window that began
    before these rows are therefore given away as they are.

    Parameters
    ----------
    watch : WindowWatch
        What is to be filled.
    """

    def __init__(self, watch: WindowWatch) -> None:
        plan = watch.plan
        self._watch, self._own = watch, frozenset(plan.own.tolist())
        self._length = np.repeat(plan.lengths, np.diff(plan.bounds))
        self._energies = np.full((2, len(plan.starts)), np.nan)
        self._run: tuple[Ints, WindowCollector] | None = None
        self._stop = watch.first
        self._growing: dict[int, _Growing] = {}
        self._attacks: list[tuple[int, _Growing]] = []
        self._pieces: list[tuple[int, _Growing]] = []

    def take(self, start: int, whitened: Floats) -> None:
        """Take in the rows from `start` on, a block on the grid."""
        if self._run is None or start >= self._stop:
            self._end_run()
            watch = self._watch
            last = watch.first + watch.n_rows
            self._stop = min((start // RUN_ROWS + 1) * RUN_ROWS, last)
            plan, numbers = watch.plan.touching(start, self._stop)
            collector = WindowCollector(
                plan, watch.p, first=start, is_plain=watch.is_plain
            )
            self._run = numbers, collector
        self._run[1].take(start, whitened)

    def _end_run(self) -> None:
        """Merge what the rows of a run show."""
        if self._run is None:
            return
        part = self._run[1].of_part(self._stop, self._run[0])
        self._run = None
        self._energies[:, part.numbers] = part.d_full, part.d_ms
        self._attacks += part.attacks.each()
        for window, piece in part.pieces.each():
            if self._watch.plan.starts[window] < self._watch.first:
                self._pieces.append((window, piece))
                continue
            grown = self._growing.setdefault(window, _Growing(self._watch.p))
            grown.add(piece)
            if grown.count == self._length[window]:
                del self._growing[window]
                self._energies[:, window] = grown.energies(self._watch.is_plain)
                if window in self._own:
                    self._attacks.append((window, grown))

    def ended(self) -> WindowsOfPart:
        """Return what the rows show, after all were taken in."""
        self._end_run()
        watch, whole = self._watch, np.flatnonzero(~np.isnan(self._energies[0]))
        numbers = watch.numbers
        if numbers is None:
            numbers = np.arange(len(watch.plan.starts))
        pieces = [*self._pieces, *self._growing.items()]
        return WindowsOfPart(
            numbers=numbers[whole],
            d_full=self._energies[0, whole],
            d_ms=self._energies[1, whole],
            attacks=WindowMoments.of(self._attacks, numbers, watch.p),
            pieces=WindowMoments.of(pieces, numbers, watch.p),
        )


class WindowCollector:
    """Fills the planned windows from whitened rows that arrive in order.

    Parameters
    ----------
    plan : WindowPlan
        The windows to fill.
    p : int
        Number of channels.
    first : int
        First row to arrive; windows that began earlier are filled from there on.
    is_plain : bool
        Whether D_FULL is that of the plain covariance.
    """

    def __init__(
        self, plan: WindowPlan, p: int, *, first: int = 0, is_plain: bool = False
    ) -> None:
        from sightline._kernels.windows import WindowJobs, WindowState

        self.plan = plan
        self._first = first
        n_windows = len(plan.starts)
        # Windows of one length that are being filled at the same time.
        n_slots = np.array(
            [
                _most_at_once(plan.starts[begin:end], length)
                for (begin, end), length in zip(
                    pairwise(plan.bounds.tolist()), plan.lengths.tolist(), strict=True
                )
            ],
            dtype=np.int64,
        )
        begun = plan.starts < first
        n_begun = [int(begun[a:b].sum()) for a, b in pairwise(plan.bounds.tolist())]
        stored = np.concatenate(
            [plan.own, np.setdiff1d(np.flatnonzero(begun), plan.own)]
        )
        kept = np.full(n_windows, -1)
        kept[stored] = np.arange(len(stored))
        n_all = int(n_slots.sum())
        slots = np.cumsum(n_slots) - n_slots
        self._jobs = WindowJobs(
            plan.starts,
            np.stack([plan.bounds[1:], plan.lengths, slots, n_slots], axis=1),
        )
        self._is_plain = is_plain
        self._length = np.repeat(plan.lengths, np.diff(plan.bounds))
        self._begins = np.sort(plan.starts)
        self._ends = np.sort(plan.starts + self._length)
        # Where the moments of a window are stored; negative if they are not.
        self._kept = kept
        self._kept_means = np.zeros((len(stored), p))
        self._kept_seconds = np.zeros((len(stored), p, p))
        self._d_full, self._d_ms = np.full((2, n_windows), np.nan)
        first_open = plan.bounds[:-1]
        next_open = first_open + np.array(n_begun, dtype=np.int64)
        self._state = WindowState(
            opened=np.stack([first_open, next_open], axis=1),
            counts=np.zeros(n_all),
            moments=np.zeros((n_all, p + 1, p)),
        )

    def take(self, start: int, whitened: Floats) -> None:
        """Take in the rows from `start` on."""
        from sightline._kernels import windows

        n_rows, p = whitened.shape
        stop = start + n_rows
        first, last = np.searchsorted(self._ends, [start, stop], "right")
        if np.searchsorted(self._begins, stop) == first:
            return  # all windows that have begun are over
        room = max(1, min(int(last - first), MOST_VALUES // p**2))
        ended = windows.EndedWindows(
            np.empty(room, np.int64), np.empty((room, p + 1, p))
        )
        work = windows.work_for(n_rows, p)
        windows.prepare(whitened, work)
        reached = np.full(len(self.plan.lengths), start)
        n, is_new = room, True
        while n == room:
            n = windows.take_block(
                whitened, self._jobs, self._state, work, reached, stop, ended, is_new
            )
            is_new = False
            if n:
                self._end(ended.numbers[:n], ended.moments[:n])

    def _end(self, numbers: Ints, moments: Floats) -> None:
        """Take in the moments of windows that have ended."""
        means, seconds = moments[:, -1], moments[:, :-1]
        kept = self._kept[numbers]
        self._kept_means[kept[kept >= 0]] = means[kept >= 0]
        self._kept_seconds[kept[kept >= 0]] = seconds[kept >= 0]
        if not self._is_plain:
            each = energies_of_windows(self._length[numbers], means, seconds)
            self._d_full[numbers], self._d_ms[numbers] = each
            return
        from sightline._kernels.windows import plain_energies_of_window

        work = np.empty(seconds.shape[1:])
        for k, mean, second in zip(numbers.tolist(), means, seconds, strict=True):
            length = int(self._length[k])
            found = plain_energies_of_window(length, mean, second, work)
            self._d_full[k], self._d_ms[k] = found

    def energies(self) -> WindowEnergies:
        """Return the energies of all windows, after all rows were taken in."""
        return WindowEnergies(
            self.plan, self._d_full, self._d_ms, self._kept_means, self._kept_seconds
        )

    def of_part(self, stop: int, numbers: Ints | None = None) -> WindowsOfPart:
        """Return what the rows up to `stop` show.

        Parameters
        ----------
        stop : int
            One past the last row taken in.
        numbers : array of int, optional
            Numbers of the windows in the whole plan, if this plan is a part of it.
        """
        plan, length = self.plan, self._length
        numbers = np.arange(len(plan.starts)) if numbers is None else numbers
        begins, ends = plan.starts >= self._first, plan.starts + length <= stop
        inside = begins & ends

        def stored(windows: Ints) -> WindowMoments:
            starts, kept = plan.starts[windows], self._kept[windows]
            n_rows = starts + length[windows] - np.maximum(starts, self._first)
            return WindowMoments(
                numbers[windows],
                n_rows.astype(np.float64),
                self._kept_means[kept],
                self._kept_seconds[kept],
            )

        return WindowsOfPart(
            numbers=numbers[inside],
            d_full=self._d_full[inside],
            d_ms=self._d_ms[inside],
            attacks=stored(plan.own[inside[plan.own]]),
            pieces=stored(np.flatnonzero(~begins & ends)) + self._still_open(numbers),
        )

    def _still_open(self, numbers: Ints) -> WindowMoments:
        """Return the moments of windows of which more rows are to come."""
        jobs, state = self._jobs, self._state
        none = np.empty(0, np.int64)
        windows, slots = [none], [none]
        for (first, end), (_, _, slot, n_slots) in zip(
            state.opened.tolist(), jobs.each.tolist(), strict=True
        ):
            if first < end:
                opened = np.arange(first, end)
                windows.append(opened)
                slots.append(slot + opened % n_slots)
        at = np.concatenate(slots)
        return WindowMoments(
            numbers[np.concatenate(windows)],
            state.counts[at],
            state.moments[at, -1],
            state.moments[at, :-1],
        )


def _most_at_once(starts: Ints, length: int) -> int:
    """Return how many of the sorted windows overlap at most."""
    still_open = np.searchsorted(starts, starts - length, side="right")
    return int(np.max(np.arange(1, len(starts) + 1) - still_open, initial=0))


def windows_of_parts(
    plan: WindowPlan,
    p: int,
    parts: Iterable[WindowsOfPart],
    *,
    is_plain: bool = False,
) -> WindowEnergies:
    """Return the energies of all windows from those of parts of the rows, in order.

    The pieces of a window that lies in several parts are merged by Chan's formula.

    Parameters
    ----------
    plan : WindowPlan
        All windows.
    p : int
        Number of channels.
    parts : iterable of WindowsOfPart
        What each part of the rows shows; they must cover all windows.
    is_plain : bool
        Whether D_FULL is that of the plain covariance, or D_MS where it is singular.
    """
    whole = WindowEnergies(
        plan,
        d_full=np.full(len(plan.starts), np.nan),
        d_ms=np.full(len(plan.starts), np.nan),
        means=np.zeros((len(plan.own), p)),
        seconds=np.zeros((len(plan.own), p, p)),
    )
    attack = {window: i for i, window in enumerate(plan.own.tolist())}
    growing: dict[int, _Growing] = {}
    for part in parts:
        whole.d_full[part.numbers] = part.d_full
        whole.d_ms[part.numbers] = part.d_ms
        own = [attack[window] for window in part.attacks.numbers.tolist()]
        whole.means[own], whole.seconds[own] = part.attacks.means, part.attacks.seconds
        for window, more in part.pieces.each():
            piece = growing.setdefault(window, _Growing(p))
            piece.add(more)
            length = plan.lengths[np.searchsorted(plan.bounds, window, "right") - 1]
            if piece.count < length:
                continue
            del growing[window]
            whole.d_full[window], whole.d_ms[window] = piece.energies(is_plain)
            if window in attack:
                i = attack[window]
                whole.means[i], whole.seconds[i] = piece.mean, piece.second
    if is_plain:
        for i, window in enumerate(plan.own.tolist()):
            length = int(plan.lengths[plan.group[i]])
            kl = plain_kl(whole.means[i], whole.seconds[i], length)
            whole.d_full[window] = whole.d_ms[window] if kl is None else length * kl
    return whole


@dataclass(eq=False)
class _Growing:
    """The moments of a window that is put together from pieces."""

    p: int
    count: float = 0.0
    mean: Floats = field(init=False)
    second: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.mean, self.second = np.zeros(self.p), np.zeros((self.p, self.p))

    def add(self, more: "_Growing") -> None:
        """Merge the next rows into the window, by Chan's formula."""
        n_before, self.count = self.count, self.count + more.count
        if not n_before:
            self.mean, self.second = more.mean, more.second
            return
        # What overflows has an infinite energy.
        with np.errstate(over="ignore", invalid="ignore"):
            shift = more.mean - self.mean
            self.mean = self.mean + more.count / self.count * shift
            between = n_before * more.count / self.count * np.outer(shift, shift)
            self.second = self.second + (more.second + between)

    def energies(self, is_plain: bool) -> tuple[float, float]:
        """Return D_FULL and D_MS of the whole window."""
        length, mean, second = int(self.count), self.mean, self.second
        if not is_plain:
            found = energies_of_windows(np.array([length]), mean[None], second[None])
            return float(found[0][0]), float(found[1][0])
        from sightline._kernels.windows import plain_energies_of_window

        work = np.empty((self.p, self.p))
        d_full, d_ms = plain_energies_of_window(length, mean, second, work)
        return float(d_full), float(d_ms)
