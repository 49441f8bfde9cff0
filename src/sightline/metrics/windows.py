"""Attack windows against normal windows of the same length: D_FULL, D_MS, P_FULL.

All in whitened coordinates, where the reference is N(0, I). With m and C the mean and
covariance of a window of W rows,

    kl = (tr C + |m|^2 - p - log det C) / 2,   d_full = W kl,   d_ms = W |m|^2 / 2,

where (W C + p I) / (W + p) stands for C: p pseudo-rows of the reference itself, so
that the value is finite for every window and does not jump at W = p. The plain value,
where C has full rank, is `kl_plain`; for it the paper's Theorem 1 holds:
mean energy - p/2 = kl_plain + (log det C) / 2.

Planned windows are filled with whitened rows that arrive block by block, or in parts.
The rows of a test need not be in memory, nor be read by one process: each run of blocks
gives the windows that lie wholly in it, and the pieces of those that do not. Parts of
the rows begin with a run, so pieces are the same, to the last bit, in any division.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import NORMAL, Bools, Floats, Ints, Labels, finite
from sightline.data.segments import Segment, segments_of

# At most this many normal windows are matched to one attack.
MOST_MATCHED = 1000
# Below this many rows a channel, a window's covariance is mostly noise.
RELIABLE_ROWS = 2
# A covariance is singular if a pivot is this small compared with its own variance,
SINGULAR_PIVOT = 1e-12
# or if its smallest eigenvalue is within this many rounding errors of the largest.
SINGULAR_ROUNDINGS = 10
# Beyond this spread of eigenvalues the smallest have no digits left.
ABSORBED = 1e10
# Evidence that differs by less than this share is equal: what is left is rounding.
EQUAL_EVIDENCE = 1e-9
# Rows of a run: tables are divided at multiples of it (`row_tables.GRID_ROWS`).
RUN_ROWS = 32_768
# A window of this many times fewer rows than channels is measured by its rows.
SHORT = 4
# Values of second moments of windows that are judged together.
MOST_VALUES = 4_000_000


@dataclass(frozen=True, eq=False)
class WindowPlan:
    """Which windows to measure: each attack itself, and normal ones of its length.

    Parameters
    ----------
    starts : array of shape (n_windows,)
        First row of each window, sorted among those of one length.
    bounds : array of shape (n_lengths + 1,)
        The windows of ``lengths[k]`` rows are ``starts[bounds[k]:bounds[k + 1]]``.
    lengths : array of shape (n_lengths,)
        The different lengths of attacks, in rows.
    group : array of shape (n_segments,)
        Which of the lengths each attack has. Attacks of one length share their normal
        windows.
    own : array of shape (n_segments,)
        Which of the windows each attack is itself.
    """

    starts: Ints
    bounds: Ints
    lengths: Ints
    group: Ints
    own: Ints

    @cached_property
    def is_normal(self) -> Bools:
        """Which windows are attack-free."""
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

    @cached_property
    def n_rows(self) -> Ints:
        """Rows of each window."""
        return np.repeat(self.lengths, np.diff(self.bounds))

    @cached_property
    def ends(self) -> Ints:
        """The first row after each window."""
        return self.starts + self.n_rows

    def touching(self, first: int, stop: int) -> tuple["WindowPlan", Ints]:
        """Return the windows that have rows in [first, stop), and their numbers."""
        return self.chosen((self.ends > first) & (self.starts < max(stop, first)))

    def chosen(self, which: Bools) -> tuple["WindowPlan", Ints]:
        """Return some of the windows, and their numbers."""
        numbers = np.flatnonzero(which)
        own = which[self.own]
        plan = WindowPlan(
            starts=self.starts[numbers],
            bounds=np.searchsorted(numbers, self.bounds),
            lengths=self.lengths,
            group=self.group[own],
            own=np.searchsorted(numbers, self.own[own]),
        )
        return plan, numbers


def matched_starts(
    stretches: Sequence[Segment], length: int, most: int = MOST_MATCHED
) -> Ints:
    """Return the first rows of normal windows of a length, at most 1,000 of them.

    They begin every ``max(1, length // 2)`` rows from the beginning of each
    attack-free stretch and lie wholly in it.

    Parameters
    ----------
    stretches : sequence of Segment
        Attack-free stretches of rows.
    length : int
        Rows of a window.
    most : int
        How many windows are kept, evenly spaced.

    Examples
    --------
    >>> matched_starts([Segment(0, 10), Segment(20, 23)], 4)
    array([0, 2, 4, 6])
    """
    step = max(1, length // 2)
    in_stretch = [
        np.arange(stretch.start, stretch.stop - length + 1, step)
        for stretch in stretches
        if stretch.length >= length
    ]
    starts = np.concatenate([np.empty(0, np.int64), *in_stretch])
    n = len(starts)
    if n > most:
        starts = starts[(np.arange(most) * n) // most]
    return starts.astype(np.int64)


def plan_windows(
    attacks: Sequence[Segment],
    labels: Labels,
    breaks: Ints,
    *,
    most: int = MOST_MATCHED,
) -> WindowPlan:
    """Return the windows to measure: each attack, and normal windows of its length.

    Parameters
    ----------
    attacks : sequence of Segment
        The attack runs of `labels`.
    labels : array of shape (n_steps,)
        1 attack, 0 normal, -1 ignore.
    breaks : array of int
        First row of each continuous run; no window crosses one.
    most : int
        How many normal windows of each length are kept, evenly spaced.
    """
    stretches = segments_of(labels == NORMAL, breaks)
    lengths, group = np.unique([a.length for a in attacks], return_inverse=True)
    attack_starts = np.array([a.start for a in attacks], dtype=np.int64)
    own = np.empty(len(attacks), np.int64)
    of_length: list[Ints] = []
    total = 0
    for k, length in enumerate(lengths.tolist()):
        these = np.flatnonzero(group == k)
        starts = np.concatenate(
            [matched_starts(stretches, length, most), attack_starts[these]]
        )
        starts.sort()
        own[these] = total + np.searchsorted(starts, attack_starts[these])
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
    """The integrated energies of all planned windows, and the moments of attacks.

    Parameters
    ----------
    plan : WindowPlan
        The windows.
    d_full, d_ms : array of shape (n_windows,)
        Integrated energy of each window; infinite if it overflows.
    means : array of shape (n_segments, p)
        Mean of each attack's whitened rows.
    seconds : array of shape (n_segments, p, p)
        Centred second-moment sum of each attack's whitened rows.
    """

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
    def normal_d_full(self) -> Floats:
        """D_FULL of all normal windows, those of one length side by side."""
        return self.d_full[self.plan.is_normal]

    @cached_property
    def wins(self) -> Floats:
        """Number of matched windows of each attack with a smaller D_FULL."""
        wins = [
            np.sum(is_beaten(self.matched(i), own))
            for i, own in enumerate(self.attack_d_full)
        ]
        return np.array(wins, dtype=np.float64)

    def matched(self, i: int) -> Floats:
        """Return D_FULL of the normal windows matched to attack i."""
        k, bounds = self.plan.group[i], self.plan.normal_bounds
        return self.normal_d_full[bounds[k] : bounds[k + 1]]


def is_beaten(matched: Floats, own: npt.ArrayLike) -> Bools:
    """Return which windows have less evidence than an attack, by more than rounding."""
    return np.asarray(matched < np.asarray(own) * (1 - EQUAL_EVIDENCE))


def energies_of_windows(
    lengths: Ints, means: Floats, seconds: Floats, *, is_plain: bool = False
) -> Floats:
    """Return D_FULL and D_MS of windows; infinite if rows lie beyond 1e150.

    Parameters
    ----------
    lengths : array of int, shape (n_windows,)
        Rows of each window.
    means : array of shape (n_windows, p)
        Means of their whitened rows.
    seconds : array of shape (n_windows, p, p)
        Centred second-moment sums of their rows.
    is_plain : bool
        Whether D_FULL is that of the plain covariance, or D_MS where it is singular.

    Returns
    -------
    array of shape (2, n_windows)
        D_FULL, and D_MS.
    """
    p = means.shape[1]
    if is_plain:
        found = np.full((len(lengths), 2), np.inf)
        for k, length in enumerate(lengths.tolist()):
            parts = divergence_parts(means[k], seconds[k], length)
            if np.isfinite(parts.mean + parts.spread):
                kl = parts.mean if parts.kl is None else parts.kl
                found[k] = length * kl, length * parts.mean
        return found.T
    n_rows = (lengths + p).astype(np.float64)
    least = p / n_rows
    shift = np.einsum("kj,kj->k", means, means)
    covariance = seconds / n_rows[:, None, None]
    covariance.reshape(len(means), -1)[:, :: p + 1] += least[:, None]
    trace = np.einsum("kjj->k", covariance)
    log_det = np.full(len(means), -np.inf)
    is_finite = np.isfinite(trace + shift)  # else whitened values are beyond 1e150
    # In floating point a burst absorbs the added pseudo-rows; even so no eigenvalue can
    # be smaller than they make it.
    absorbs = is_finite & (trace > ABSORBED * least)
    spectrum = np.linalg.eigvalsh(covariance[absorbs])
    log_det[absorbs] = np.log(np.maximum(spectrum, least[absorbs, None])).sum(axis=1)
    plain = is_finite & ~absorbs
    pivots = np.einsum("kjj->kj", np.linalg.cholesky(covariance[plain]))
    log_det[plain] = (2.0 * np.log(pivots)).sum(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        d_full = lengths * 0.5 * (trace + shift - p - log_det)
        d_ms = lengths * 0.5 * shift
    d_full[~is_finite] = d_ms[~is_finite] = np.inf
    return np.stack([d_full, d_ms])


class DivergenceParts(NamedTuple):
    """What the plug-in Gaussian KL of a window consists of, in whitened coordinates.

    Parameters
    ----------
    mean : float
        What its shifted mean adds: ``|m|^2 / 2``.
    spread : float
        What its variances add: ``(tr C - p) / 2``; negative if they are small.
    volume : float, optional
        What its volume takes back: ``-log det C / 2``; None if C is singular. Spread
        and volume together are at least 0.
    kl : float, optional
        The sum of the three, `kl_plain`; None if C is singular.
    """

    mean: float
    spread: float
    volume: float | None
    kl: float | None


def divergence_parts(mean: Floats, second: Floats, n_rows: int) -> DivergenceParts:
    """Return the parts of the plug-in Gaussian KL of a window's own moments.

    The covariance C of a window with a frozen channel, or with copies of a channel, is
    singular; rounding hides this, and the logarithm of a rounding error is noise.
    C therefore counts as numerically singular if its smallest eigenvalue is at most
    ``10 p eps`` times the largest (eps is 2.2e-16, the rounding of a float) or
    ``(10 p eps)^2`` times ``|m|^2``, what rounding leaves of one that is frozen; if a
    pivot of its correlation matrix is below 1e-12, if there are no more rows than
    channels, or if it overflows.

    Parameters
    ----------
    mean : array of shape (p,)
        Mean of the window's whitened rows.
    second : array of shape (p, p)
        Centred second-moment sum of the window's whitened rows.
    n_rows : int
        Length of the window.

    Examples
    --------
    >>> divergence_parts(np.array([1.0, 0.0]), 20 * np.eye(2), 10)[:2]
    (0.5, 1.0)
    """
    covariance = second / n_rows
    with np.errstate(over="ignore", invalid="ignore"):
        trace, shift = np.trace(covariance), mean @ mean
    spread = 0.5 * float(trace - len(mean))
    log_det = _log_det(covariance, mean, n_rows)
    if log_det is None:
        return DivergenceParts(0.5 * float(shift), spread, None, None)
    kl = 0.5 * float(trace + shift - len(mean) - log_det)
    return DivergenceParts(0.5 * float(shift), spread, -0.5 * log_det, kl)


def _log_det(covariance: Floats, mean: Floats, n_rows: int) -> float | None:
    """Return the logarithm of a determinant; None if the matrix counts as singular."""
    p = len(mean)
    if n_rows <= p or not np.isfinite(covariance).all():
        return None
    variance = np.diag(covariance)
    spectrum = np.linalg.eigvalsh(covariance)
    rounding = SINGULAR_ROUNDINGS * p * np.finfo(np.float64).eps
    if not spectrum[0] > max(rounding * spectrum[-1], rounding**2 * (mean @ mean)):
        return None
    scale = np.sqrt(variance)
    try:
        pivots = np.diag(np.linalg.cholesky(covariance / np.outer(scale, scale))) ** 2
    except np.linalg.LinAlgError:
        return None
    if pivots.min() < SINGULAR_PIVOT:
        return None
    return float(np.sum(np.log(pivots)) + np.sum(np.log(variance)))


def plain_kl(mean: Floats, second: Floats, n_rows: int) -> float | None:
    """Return the plug-in Gaussian KL of a window's own moments; None if singular.

    ``(tr C + |m|^2 - p - log det C) / 2`` in whitened coordinates, at least 0.
    Parameters as for `divergence_parts`.

    Examples
    --------
    >>> plain_kl(np.array([1.0, 0.0]), 10 * np.eye(2), 10)
    0.5
    >>> plain_kl(np.zeros(2), 10 * np.ones((2, 2)), 10) is None  # two equal channels
    True
    """
    return divergence_parts(mean, second, n_rows).kl


@dataclass(frozen=True, kw_only=True)
class Windows:
    """How often an attack outweighs normal windows of its length, over all attacks.

    Parameters
    ----------
    p_full : float, optional
        How often an attack outweighs a normal window of its length.
        Formula: share of (attack, matched window) pairs with the larger `d_full`.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Paper: P_FULL.
        Null: without attacks or matched windows. Pairs weigh the same, so short
        attacks, which have more windows, dominate.
    p_full_per_segment : float, optional
        The same, each attack weighing alike.
        Formula: mean over attacks of their own share.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Null: without attacks or matched windows.
    median_d_full : float, optional
        The middle attack's evidence.
        Formula: median over attacks of `d_full`.
        Range: from 0.
        Better: higher.
        Nothing wrong: grows with W and p.
        Paper: med. D_FULL.
        Null: without attacks, or if it overflows. Not comparable between residual
        spaces.
    n_segments, n_matched_windows : int, optional
        Number of attacks, and of matched windows of all of them.
        Null: without attacks.
    n_unmatched_segments : int, optional
        Attacks longer than any attack-free stretch, left out of `p_full`.
        Better: 0.
        Nothing wrong: 0.
        Null: without attacks.
    """

    p_full: float | None = None
    p_full_per_segment: float | None = None
    median_d_full: float | None = None
    n_segments: int | None = None
    n_matched_windows: int | None = None
    n_unmatched_segments: int | None = None


def measure_windows(energies: WindowEnergies) -> Windows:
    """Return how attacks compare with normal windows of their length.

    `p_full` weighs each (attack, matched window) pair the same (the paper's figure, in
    which short attacks dominate); `p_full_per_segment` weighs each attack the same.
    All is None without attacks.
    """
    wins, n_matched = energies.wins, energies.plan.n_matched
    matched = n_matched > 0
    if len(n_matched) == 0:
        return Windows()
    p_full = p_full_per_segment = None
    if matched.any():
        p_full = float(wins.sum() / n_matched.sum())
        p_full_per_segment = float(np.mean(wins[matched] / n_matched[matched]))
    return Windows(
        p_full=p_full,
        p_full_per_segment=p_full_per_segment,
        median_d_full=finite(np.median(energies.attack_d_full)),
        n_segments=len(n_matched),
        n_matched_windows=int(n_matched.sum()),
        n_unmatched_segments=int((~matched).sum()),
    )


# --- Windows filled from blocks of rows -----------------------------------------------


class Piece(NamedTuple):
    """Rows, mean and centred second-moment sum of a window, or of a piece of it."""

    n_rows: float
    mean: Floats
    second: Floats

    def joined(self, more: "Piece") -> "Piece":
        """Return both together, by Chan's formula; `more` are the rows after these."""
        n_rows = self.n_rows + more.n_rows
        # What overflows has an infinite energy.
        with np.errstate(over="ignore", invalid="ignore"):
            shift = more.mean - self.mean
            mean = self.mean + more.n_rows / n_rows * shift
            between = self.n_rows * more.n_rows / n_rows * np.outer(shift, shift)
            return Piece(n_rows, mean, self.second + (more.second + between))


@dataclass(frozen=True, eq=False)
class WindowsOfPart:
    """What some consecutive rows show of the planned windows.

    Parameters
    ----------
    numbers : array of shape (n_whole,)
        Windows that lie wholly in the rows,
    energies : array of shape (2, n_whole)
        and their D_FULL and D_MS.
    attacks : list of (int, Piece)
        Number and moments of those of them that are attacks.
    pieces : list of (int, Piece)
        Of all other windows, the pieces that lie in the rows.
    """

    numbers: Ints
    energies: Floats
    attacks: list[tuple[int, Piece]]
    pieces: list[tuple[int, Piece]]


@dataclass(frozen=True, eq=False)
class WindowWatch:
    """The windows that are to be filled while whitened rows are in memory.

    Parameters
    ----------
    plan : WindowPlan
        The windows.
    is_plain : bool
        Whether D_FULL is that of the plain covariance.
    """

    plan: WindowPlan
    is_plain: bool = False

    def begin(self, first: int, stop: int) -> "RunByRun":
        """Return a collector that fills the windows from rows [first, stop)."""
        return RunByRun(*self.plan.touching(first, stop), first, stop, self.is_plain)


class _Growth:
    """Puts windows together from what consecutive parts of the rows show.

    Pieces of a window are merged from its first row on. Those of a window that began
    before row `first` are therefore given away as they are.
    """

    def __init__(self, plan: WindowPlan, first: int, is_plain: bool) -> None:
        self.plan, self.first, self.is_plain = plan, first, is_plain
        self.energies = np.full((2, len(plan.starts)), np.nan)
        self.attacks: list[tuple[int, Piece]] = []
        self.pieces: list[tuple[int, Piece]] = []
        self.growing: dict[int, Piece] = {}

    def add(self, part: WindowsOfPart) -> None:
        """Take in what the next rows show."""
        self.energies[:, part.numbers] = part.energies
        self.attacks += part.attacks
        for window, piece in part.pieces:
            if self.plan.starts[window] < self.first:
                self.pieces.append((window, piece))
                continue
            begun = self.growing.pop(window, None)
            whole = piece if begun is None else begun.joined(piece)
            if whole.n_rows < self.plan.n_rows[window]:
                self.growing[window] = whole
                continue
            self.energies[:, window] = energies_of_windows(
                np.array([int(whole.n_rows)]),
                whole.mean[None],
                whole.second[None],
                is_plain=self.is_plain,
            )[:, 0]
            if not self.plan.is_normal[window]:
                self.attacks.append((window, whole))


class RunByRun:
    """Fills windows from whitened rows that arrive in order, one run after the other.

    Parameters
    ----------
    plan : WindowPlan
        The windows that have rows among these.
    numbers : array of int
        Their numbers in the whole plan.
    first, stop : int
        The rows [first, stop) arrive.
    is_plain : bool
        Whether D_FULL is that of the plain covariance.
    """

    def __init__(
        self, plan: WindowPlan, numbers: Ints, first: int, stop: int, is_plain: bool
    ) -> None:
        self._growth = _Growth(plan, first, is_plain)
        self._numbers, self._end, self._stop = numbers, stop, first
        self._run: tuple[ShortWindows | WindowCollector, ...] = ()

    def take(self, start: int, whitened: Floats) -> None:
        """Take in the rows from `start` on, a block on the grid."""
        if not self._run or start >= self._stop:
            self._end_run()
            self._stop = min((start // RUN_ROWS + 1) * RUN_ROWS, self._end)
            self._begin_run(start, whitened.shape[1])
        for collector in self._run:
            collector.take(start, whitened)

    def _begin_run(self, start: int, p: int) -> None:
        """Divide the windows of a run among those who fill them."""
        plan, is_plain = self._growth.plan, self._growth.is_plain
        touches = (plan.ends > start) & (plan.starts < self._stop)
        is_whole = (plan.starts >= start) & (plan.ends <= self._stop)
        is_short = is_whole & (plan.n_rows * SHORT <= p) & (not is_plain)
        some, numbers = plan.chosen(touches & ~is_short)
        self._run = (
            ShortWindows(*plan.chosen(is_short)),
            WindowCollector(some, numbers, p, start, is_plain),
        )

    def _end_run(self) -> None:
        """Take in what the rows of a run show."""
        for collector in self._run:
            self._growth.add(collector.ended(self._stop))

    def ended(self) -> WindowsOfPart:
        """Return what the rows show, after all were taken in."""
        self._end_run()
        growth, numbers = self._growth, self._numbers
        whole = np.flatnonzero(~np.isnan(growth.energies[0]))
        pieces = [*growth.pieces, *growth.growing.items()]
        return WindowsOfPart(
            numbers=numbers[whole],
            energies=growth.energies[:, whole],
            attacks=[(int(numbers[k]), piece) for k, piece in growth.attacks],
            pieces=[(int(numbers[k]), piece) for k, piece in pieces],
        )


class ShortWindows:
    """Fills windows of far fewer rows than channels, from the rows themselves.

    With Y the centred rows of a window of W rows, the determinant of its covariance
    ``(Y'Y + p I) / (W + p)`` is ``(p / (W + p))^p`` times that of ``I + Y Y' / p``, a
    matrix of W rows and columns: of 1,000 channels a thousandth of the work.

    Parameters
    ----------
    plan : WindowPlan
        The windows; all of their rows arrive.
    numbers : array of int
        Their numbers in the plan that this one is a part of.
    """

    def __init__(self, plan: WindowPlan, numbers: Ints) -> None:
        self._plan, self._numbers = plan, numbers
        self._energies = np.full((2, len(numbers)), np.nan)
        self._attacks: list[tuple[int, Piece]] = []
        # Rows that windows which have not ended may need, and the first one's number.
        self._rows, self._first = np.empty((0, 0)), 0

    def take(self, start: int, whitened: Floats) -> None:
        """Take in the rows from `start` on."""
        plan, stop = self._plan, start + len(whitened)
        if not len(self._numbers):
            return
        n_held = min(len(self._rows), int(plan.n_rows.max()) - 1)
        held = self._rows[len(self._rows) - n_held :].reshape(n_held, whitened.shape[1])
        self._rows, self._first = np.concatenate([held, whitened]), start - n_held
        ended = (plan.ends > start) & (plan.ends <= stop)
        for length in np.unique(plan.n_rows[ended]).tolist():
            which = np.flatnonzero(ended & (plan.n_rows == length))
            at_once = max(1, MOST_VALUES // (length * whitened.shape[1]))
            for k in range(0, len(which), at_once):
                self._fill(which[k : k + at_once], length)

    def _fill(self, windows: Ints, length: int) -> None:
        """Measure windows of one length."""
        places = self._plan.starts[windows, None] - self._first + np.arange(length)
        rows = self._rows[places]
        p, least = rows.shape[2], rows.shape[2] / (length + rows.shape[2])
        with np.errstate(over="ignore", invalid="ignore"):
            mean = rows.mean(axis=1)
            rows -= mean[:, None]
            inner = rows @ rows.transpose(0, 2, 1)
            shift = np.einsum("kj,kj->k", mean, mean)
            trace = np.einsum("kii->k", inner) / (length + p) + least * p
            is_finite = np.isfinite(trace + shift)
            inner[~is_finite] = 0.0
            spectrum = np.maximum(np.linalg.eigvalsh(inner / p), 0.0)
            log_det = p * np.log(least) + np.log1p(spectrum).sum(axis=1)
            d_full = length * 0.5 * (trace + shift - p - log_det)
            energies = np.stack([d_full, length * 0.5 * shift])
            for k in np.flatnonzero(~self._plan.is_normal[windows]).tolist():
                piece = Piece(float(length), mean[k].copy(), rows[k].T @ rows[k])
                self._attacks.append((int(self._numbers[windows[k]]), piece))
        energies[:, ~is_finite] = np.inf
        self._energies[:, windows] = energies

    def ended(self, stop: int) -> WindowsOfPart:
        """Return what the rows show, after all were taken in."""
        return WindowsOfPart(self._numbers, self._energies, self._attacks, [])


class WindowCollector:
    """Fills the planned windows from whitened rows of one run, which arrive in order.

    Parameters
    ----------
    plan : WindowPlan
        The windows to fill.
    numbers : array of int
        Their numbers in the plan that this one is a part of.
    p : int
        Number of channels.
    first : int
        First row to arrive; windows that began earlier are filled from there on.
    is_plain : bool
        Whether D_FULL is that of the plain covariance.
    """

    def __init__(
        self, plan: WindowPlan, numbers: Ints, p: int, first: int, is_plain: bool
    ) -> None:
        from sightline._kernels.windows import WindowJobs, WindowState

        self._plan, self._numbers = plan, numbers
        self._first, self._is_plain = first, is_plain
        groups = list(pairwise(plan.bounds.tolist()))
        n_slots = np.zeros(len(groups), np.int64)
        for k, (begin, end) in enumerate(groups):
            # Most windows of one length that are being filled at the same time.
            starts = plan.starts[begin:end]
            over = np.searchsorted(starts, starts - plan.lengths[k], side="right")
            n_slots[k] = np.max(np.arange(1, len(starts) + 1) - over, initial=0)
        slots = np.cumsum(n_slots) - n_slots
        each = np.stack([plan.bounds[1:], plan.lengths, slots, n_slots], axis=1)
        self._jobs = WindowJobs(plan.starts, each)
        self._begins = np.sort(plan.starts)
        self._ends = np.sort(plan.ends)
        # Of these the moments are needed when they end.
        begun = plan.starts < first
        self._is_kept = begun | ~plan.is_normal
        self._kept: dict[int, Piece] = {}
        self._energies = np.full((2, len(plan.starts)), np.nan)
        first_open = plan.bounds[:-1]
        n_begun = np.array([int(begun[a:b].sum()) for a, b in groups], dtype=np.int64)
        self._state = WindowState(
            opened=np.stack([first_open, first_open + n_begun], axis=1),
            counts=np.zeros(int(n_slots.sum())),
            moments=np.zeros((int(n_slots.sum()), p + 1, p)),
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
        reached = np.full(len(self._plan.lengths), start)
        n, is_new = room, True
        while n == room:
            n = windows.take_block(
                whitened, self._jobs, self._state, work, reached, stop, ended, is_new
            )
            is_new = False
            if n:
                self._end(ended.numbers[:n], ended.moments[:n])

    def _end(self, windows: Ints, moments: Floats) -> None:
        """Take in the moments of windows that have ended."""
        means, seconds = moments[:, -1], moments[:, :-1]
        starts, n_rows = self._plan.starts[windows], self._plan.n_rows[windows]
        self._energies[:, windows] = energies_of_windows(
            n_rows, means, seconds, is_plain=self._is_plain
        )
        counts = starts + n_rows - np.maximum(starts, self._first)
        for k in np.flatnonzero(self._is_kept[windows]).tolist():
            piece = Piece(float(counts[k]), means[k].copy(), seconds[k].copy())
            self._kept[int(windows[k])] = piece

    def ended(self, stop: int) -> WindowsOfPart:
        """Return what the rows show; `stop` is one past the last row taken in."""
        plan, numbers, state = self._plan, self._numbers.tolist(), self._state
        begins = plan.starts >= self._first
        inside = begins & (plan.ends <= stop)
        kept = sorted(self._kept.items())
        still_open = [
            (window, slot + window % n_slots)
            for (first, end), (_, _, slot, n_slots) in zip(
                state.opened.tolist(), self._jobs.each.tolist(), strict=True
            )
            for window in range(first, end)
        ]
        return WindowsOfPart(
            numbers=self._numbers[inside],
            energies=self._energies[:, inside],
            attacks=[(numbers[k], piece) for k, piece in kept if begins[k]],
            pieces=[
                *((numbers[k], piece) for k, piece in kept if not begins[k]),
                *(
                    (
                        numbers[k],
                        Piece(
                            float(state.counts[at]),
                            state.moments[at, -1].copy(),
                            state.moments[at, :-1].copy(),
                        ),
                    )
                    for k, at in still_open
                ),
            ],
        )


def windows_of_parts(
    watch: WindowWatch, p: int, parts: Iterable[WindowsOfPart]
) -> WindowEnergies:
    """Return the energies of all windows from those of parts of the rows, in order.

    Parameters
    ----------
    watch : WindowWatch
        All windows.
    p : int
        Number of channels.
    parts : iterable of WindowsOfPart
        What each part of the rows shows; they must cover all windows.
    """
    plan = watch.plan
    growth = _Growth(plan, 0, watch.is_plain)
    for part in parts:
        growth.add(part)
    d_full, d_ms = growth.energies
    means, seconds = np.zeros((len(plan.own), p)), np.zeros((len(plan.own), p, p))
    attack = {window: i for i, window in enumerate(plan.own.tolist())}
    for window, whole in growth.attacks:
        i = attack[window]
        means[i], seconds[i] = whole.mean, whole.second
    return WindowEnergies(plan, d_full, d_ms, means, seconds)
