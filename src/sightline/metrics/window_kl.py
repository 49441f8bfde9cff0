"""Attack windows against normal windows of the same length: D_FULL, D_MS, P_FULL.

All in whitened coordinates, where the reference is N(0, I). With m and C the mean and
covariance of a window of W rows,

    kl = (tr C + |m|^2 - p - log det C) / 2,   d_full = W kl,   d_ms = W |m|^2 / 2,

where (W C + p I) / (W + p) stands for C: p pseudo-rows of the reference itself, so
that the value is finite for every window and does not jump at W = p. The plain value,
where C has full rank, is `kl_plain`; for it the paper's Theorem 1 holds:
mean energy - p/2 = kl_plain + (log det C) / 2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from sightline.data.arrays import NORMAL, Bools, Floats, Ints, Labels, finite
from sightline.data.segments import Segment, segments_of

# At most this many normal windows are matched to one attack.
MOST_MATCHED = 1000
# Below this many rows a channel, a window's covariance is mostly noise.
RELIABLE_ROWS = 2
# A pivot this small beside its own variance means that C is singular.
SINGULAR_PIVOT = 1e-12


@dataclass(frozen=True, eq=False)
class WindowPlan:
    """Which windows to measure: each attack's own, and the normal ones of its length.

    Attacks of one length share their normal windows. The windows of ``lengths[k]`` rows
    are ``starts[bounds[k]:bounds[k + 1]]``, sorted; attack i has length number
    ``group[i]``, and is itself window ``own[i]``.
    """

    starts: Ints
    bounds: Ints
    lengths: Ints
    group: Ints
    own: Ints

    @cached_property
    def is_normal(self) -> Bools:
        """Which windows are not an attack."""
        normal = np.ones(len(self.starts), np.bool_)
        normal[self.own] = False
        return normal

    @cached_property
    def normal_bounds(self) -> Ints:
        """Where the normal windows of each length begin and end among all normal."""
        before = np.concatenate([[0], np.cumsum(self.is_normal)])
        return np.asarray(before[self.bounds], np.int64)

    @property
    def n_matched(self) -> Ints:
        """Number of matched normal windows of each attack."""
        return np.diff(self.normal_bounds)[self.group]

    def touching(self, first: int, stop: int) -> tuple["WindowPlan", Ints]:
        """Return the windows that have rows in [first, stop), and their numbers."""
        of_length = [
            begin
            + np.arange(
                *np.searchsorted(
                    self.starts[begin:end], [first - length + 1, max(stop, first)]
                )
            )
            for begin, end, length in zip(
                self.bounds[:-1], self.bounds[1:], self.lengths, strict=True
            )
        ]
        numbers = np.concatenate([np.empty(0, np.int64), *of_length])
        inside = np.isin(self.own, numbers)
        plan = WindowPlan(
            starts=self.starts[numbers],
            bounds=np.cumsum([0, *map(len, of_length)]).astype(np.int64),
            lengths=self.lengths,
            group=self.group[inside],
            own=np.searchsorted(numbers, self.own[inside]),
        )
        return plan, numbers


def matched_starts(stretches: Sequence[Segment], length: int) -> Ints:
    """Return the first rows of normal windows of a length, at most 1000 of them.

    They begin every ``max(1, length // 2)`` rows from the beginning of each
    attack-free stretch and lie wholly in it.

    Examples
    --------
    >>> matched_starts([Segment(0, 10), Segment(20, 23)], 4)
    array([0, 2, 4, 6])
    """
    step = max(1, length // 2)
    found = [
        np.arange(stretch.start, stretch.stop - length + 1, step)
        for stretch in stretches
        if stretch.length >= length
    ]
    starts = np.concatenate(found) if found else np.empty(0, np.int64)
    n = len(starts)
    if n > MOST_MATCHED:
        starts = starts[(np.arange(MOST_MATCHED) * n) // MOST_MATCHED]
    return starts.astype(np.int64)


def plan_windows(
    attacks: Sequence[Segment], labels: Labels, breaks: Ints
) -> WindowPlan:
    """Match normal windows to each attack."""
    stretches = segments_of(labels == NORMAL, breaks)
    lengths, group = np.unique([a.length for a in attacks], return_inverse=True)
    attack_starts = np.array([a.start for a in attacks], dtype=np.int64)
    own = np.empty(len(attacks), np.int64)
    of_length: list[Ints] = []
    total = 0
    for k, length in enumerate(lengths.tolist()):
        here = np.flatnonzero(group == k)
        starts = np.concatenate(
            [matched_starts(stretches, length), attack_starts[here]]
        )
        starts.sort()
        own[here] = total + np.searchsorted(starts, attack_starts[here])
        of_length.append(starts)
        total += len(starts)
    return WindowPlan(
        starts=np.concatenate([np.empty(0, np.int64), *of_length]),
        bounds=np.cumsum([0, *map(len, of_length)]).astype(np.int64),
        lengths=lengths.astype(np.int64),
        group=group.astype(np.int64),
        own=own,
    )


@dataclass(frozen=True, eq=False)
class WindowEnergies:
    """The integrated energies of all planned windows, and the attacks' own moments."""

    plan: WindowPlan
    d_full: Floats
    d_ms: Floats
    means: Floats
    seconds: Floats

    @property
    def attack_d_full(self) -> Floats:
        """D_FULL of each attack."""
        return self.d_full[self.plan.own]

    @cached_property
    def outcome(self) -> "WindowOutcome":
        """How each attack fared against its matched windows."""
        return WindowOutcome.of(
            self.attack_d_full, [self.matched(i) for i in range(len(self.plan.own))]
        )

    @cached_property
    def normal_d_full(self) -> Floats:
        """D_FULL of all normal windows, those of one length side by side."""
        return self.d_full[self.plan.is_normal]

    def matched(self, i: int) -> Floats:
        """Return D_FULL of the normal windows matched to attack i."""
        k = self.plan.group[i]
        first, last = self.plan.normal_bounds[k], self.plan.normal_bounds[k + 1]
        return self.normal_d_full[first:last]


@dataclass(frozen=True, eq=False)
class WindowOutcome:
    """Of each attack: its D_FULL, its matched windows, and how many it outweighs."""

    d_full: Floats
    n_matched: Floats
    wins: Floats

    @classmethod
    def of(cls, d_full: Floats, matched: Sequence[Floats]) -> "WindowOutcome":
        """Count the wins of each attack."""
        wins = [np.sum(own > other) for own, other in zip(d_full, matched, strict=True)]
        return cls(
            d_full=d_full,
            n_matched=np.array([len(other) for other in matched], dtype=np.float64),
            wins=np.array(wins, dtype=np.float64),
        )


@dataclass(frozen=True, eq=False)
class WindowMoments:
    """Rows, mean and centred second-moment sum of some windows, or pieces of them."""

    numbers: Ints
    counts: Floats
    means: Floats
    seconds: Floats


@dataclass(frozen=True, eq=False)
class WindowsOfPart:
    """What some consecutive rows show of the planned windows.

    Of windows that lie wholly in them (`numbers`) the integrated energies, and of
    attacks the moments; of all others the piece that lies in these rows.
    """

    numbers: Ints
    d_full: Floats
    d_ms: Floats
    attacks: WindowMoments
    pieces: WindowMoments


@dataclass(frozen=True, eq=False)
class WindowWatch:
    """The windows to be filled from the rows [first, stop), all of them or a part."""

    plan: WindowPlan
    p: int
    n_rows: int
    first: int = 0
    numbers: Ints | None = None

    def between(self, first: int, stop: int) -> "WindowWatch":
        """Return what is to be filled from some of the rows."""
        plan, numbers = self.plan.touching(first, stop)
        return WindowWatch(plan, self.p, stop - first, first, numbers)

    def begin(self) -> "WindowCollector":
        """Return the collector that fills them."""
        return WindowCollector(self.plan, self.p, first=self.first)

    def found(self, collector: "WindowCollector") -> WindowsOfPart:
        """Return what was filled, once all rows were taken in."""
        return collector.found(self.first + self.n_rows, self.numbers)


class WindowCollector:
    """Fills the planned windows from whitened rows that arrive in order.

    Windows that began before row `first` are filled from there on.
    """

    def __init__(self, plan: WindowPlan, p: int, *, first: int = 0) -> None:
        self.plan = plan
        self._first = first
        n_windows = len(plan.starts)
        # Windows of one length that are being filled at the same time.
        self._n_slots = np.array(
            [
                _most_at_once(plan.starts[begin:end], length)
                for begin, end, length in zip(
                    plan.bounds[:-1], plan.bounds[1:], plan.lengths, strict=True
                )
            ],
            dtype=np.int64,
        )
        self._slots = np.cumsum(self._n_slots) - self._n_slots
        n_slots = int(self._n_slots.sum())
        self._first_open = plan.bounds[:-1].copy()
        begun = plan.starts < first
        n_begun = [int(begun[a:b].sum()) for a, b in pairwise(plan.bounds.tolist())]
        self._next_open = self._first_open + np.array(n_begun, dtype=np.int64)
        self._counts = np.zeros(n_slots)
        self._means = np.zeros((n_slots, p))
        self._seconds = np.zeros((n_slots, p, p))
        other = np.setdiff1d(np.flatnonzero(begun), plan.own)
        kept = np.concatenate([plan.own, other])
        self._kept = np.full(n_windows, -1)
        self._kept[kept] = np.arange(len(kept))
        self._kept_means = np.zeros((len(kept), p))
        self._kept_seconds = np.zeros((len(kept), p, p))
        self._d_full = np.full(n_windows, np.nan)
        self._d_ms = np.full(n_windows, np.nan)

    def take(self, start: int, whitened: Floats) -> None:
        """Take in the rows from `start` on."""
        from sightline._kernels.windows import take_block

        take_block(
            start,
            whitened,
            self.plan.starts,
            self.plan.bounds,
            self.plan.lengths,
            self._first_open,
            self._next_open,
            self._slots,
            self._n_slots,
            self._counts,
            self._means,
            self._seconds,
            self._kept,
            self._kept_means,
            self._kept_seconds,
            self._d_full,
            self._d_ms,
        )

    def energies(self) -> WindowEnergies:
        """Return what was measured, once all rows were taken in."""
        return WindowEnergies(
            self.plan, self._d_full, self._d_ms, self._kept_means, self._kept_seconds
        )

    def found(self, stop: int, numbers: Ints | None = None) -> WindowsOfPart:
        """Return what the rows up to `stop` showed; `numbers` are those of the plan."""
        plan = self.plan
        numbers = np.arange(len(plan.starts)) if numbers is None else numbers
        length = np.repeat(plan.lengths, np.diff(plan.bounds))
        begins, ends = plan.starts >= self._first, plan.starts + length <= stop
        inside = begins & ends
        own = plan.own[inside[plan.own]]
        ended = np.flatnonzero(~begins & ends)
        return WindowsOfPart(
            numbers=numbers[inside],
            d_full=self._d_full[inside],
            d_ms=self._d_ms[inside],
            attacks=self._taken(own, self._kept[own], length, numbers),
            pieces=_both(
                self._taken(ended, self._kept[ended], length, numbers),
                self._still_open(numbers),
            ),
        )

    def _taken(
        self, windows: Ints, kept: Ints, length: Ints, numbers: Ints
    ) -> WindowMoments:
        """Return the kept moments of windows that have ended."""
        starts = self.plan.starts[windows]
        n_rows = starts + length[windows] - np.maximum(starts, self._first)
        return WindowMoments(
            numbers[windows],
            n_rows.astype(np.float64),
            self._kept_means[kept],
            self._kept_seconds[kept],
        )

    def _still_open(self, numbers: Ints) -> WindowMoments:
        """Return the moments of windows of which more rows are to come."""
        opened = [
            (np.arange(first, following), slot, n_slots)
            for first, following, slot, n_slots in zip(
                self._first_open,
                self._next_open,
                self._slots,
                self._n_slots,
                strict=True,
            )
            if first < following
        ]
        none = np.empty(0, np.int64)
        windows = np.concatenate([none, *(k for k, _, _ in opened)])
        slots = np.concatenate([none, *(s + k % n for k, s, n in opened)])
        return WindowMoments(
            numbers[windows],
            self._counts[slots],
            self._means[slots],
            self._seconds[slots],
        )


def _most_at_once(starts: Ints, length: int) -> int:
    """Return how many of the sorted windows overlap at most."""
    still_open = np.searchsorted(starts, starts - length, side="right")
    return int(np.max(np.arange(1, len(starts) + 1) - still_open, initial=0))


def _both(one: WindowMoments, other: WindowMoments) -> WindowMoments:
    return WindowMoments(
        np.concatenate([one.numbers, other.numbers]),
        np.concatenate([one.counts, other.counts]),
        np.concatenate([one.means, other.means]),
        np.concatenate([one.seconds, other.seconds]),
    )


def windows_of_parts(
    plan: WindowPlan, p: int, parts: Iterable[WindowsOfPart]
) -> WindowEnergies:
    """Put together what parts, in order, show of the planned windows.

    The pieces of a window that lies in several are merged by Chan's formula.
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
        for k, window in enumerate(part.pieces.numbers.tolist()):
            piece = growing.setdefault(window, _Growing(p))
            piece.add(part.pieces, k)
            length = plan.lengths[np.searchsorted(plan.bounds, window, "right") - 1]
            if piece.count < length:
                continue
            del growing[window]
            whole.d_full[window], whole.d_ms[window] = piece.energies()
            if window in attack:
                i = attack[window]
                whole.means[i], whole.seconds[i] = piece.mean, piece.second
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

    def add(self, pieces: WindowMoments, k: int) -> None:
        from sightline._kernels.windows import merge_moments

        self.count = merge_moments(
            self.count,
            self.mean,
            self.second,
            pieces.counts[k],
            pieces.means[k],
            pieces.seconds[k],
            np.empty(self.p),
        )

    def energies(self) -> tuple[float, float]:
        from sightline._kernels.windows import energies_of_window

        work = np.empty((self.p, self.p))
        d_full, d_ms = energies_of_window(int(self.count), self.mean, self.second, work)
        return float(d_full), float(d_ms)


def plain_kl(mean: Floats, second: Floats, n_rows: int) -> float | None:
    """Return the plug-in Gaussian KL of a window's own moments; None if singular.

    Parameters
    ----------
    mean, second : array
        Mean and centred second-moment sum of the window's whitened rows.
    n_rows : int
        Length of the window.
    """
    p = len(mean)
    if n_rows <= p:
        return None
    covariance = second / n_rows
    variance = np.diag(covariance)
    if not (variance > 0).all():
        return None
    scale = np.sqrt(variance)
    try:
        pivots = np.diag(np.linalg.cholesky(covariance / np.outer(scale, scale))) ** 2
    except np.linalg.LinAlgError:
        return None
    if pivots.min() < SINGULAR_PIVOT:
        return None
    log_det = float(np.sum(np.log(pivots)) + np.sum(np.log(variance)))
    return 0.5 * float(np.trace(covariance) + mean @ mean - p - log_det)


@dataclass(frozen=True, kw_only=True)
class Windows:
    """How often an attack window outweighs normal windows of its length."""

    p_full: float | None = None
    p_full_per_segment: float | None = None
    median_d_full: float | None = None
    n_segments: int | None = None
    n_matched_windows: int | None = None
    n_unmatched_segments: int | None = None


def measure_windows(energies: WindowEnergies) -> Windows:
    """Summarise the windows of all attacks.

    `p_full` is the share of (attack, matched window) pairs in which the attack has the
    larger D_FULL, each pair weighing the same (the paper's figure, in which short
    attacks dominate); `p_full_per_segment` lets each attack weigh the same.
    """
    wins, n_matched = energies.outcome.wins, energies.outcome.n_matched
    matched = n_matched > 0
    if len(n_matched) == 0:
        return Windows()
    return Windows(
        p_full=float(wins.sum() / n_matched.sum()) if matched.any() else None,
        p_full_per_segment=float(np.mean(wins[matched] / n_matched[matched]))
        if matched.any()
        else None,
        median_d_full=finite(np.median(energies.attack_d_full)),
        n_segments=len(n_matched),
        n_matched_windows=int(n_matched.sum()),
        n_unmatched_segments=int((~matched).sum()),
    )
