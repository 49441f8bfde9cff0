"""Attack windows against normal windows of the same length: D_FULL, D_MS, P_FULL.

All in whitened coordinates, where the reference is N(0, I). With m and C the mean and
covariance of a window of W rows,

    kl = (tr C + |m|^2 - p - log det C) / 2,   d_full = W kl,   d_ms = W |m|^2 / 2,

where (W C + p I) / (W + p) stands for C: p pseudo-rows of the reference itself, so
that the value is finite for every window and does not jump at W = p. The plain value,
where C has full rank, is `kl_plain`; for it the paper's Theorem 1 holds:
mean energy - p/2 = kl_plain + (log det C) / 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
# or if its smallest eigenvalue is within this many rounding errors of the largest. The
# compiled twin of `plain_kl` in `sightline._kernels.windows` has the same two.
SINGULAR_ROUNDINGS = 10
# Beyond this spread of eigenvalues the smallest have no digits left.
ABSORBED = 1e10
# Evidence that differs by less than this share is equal: what is left is rounding.
EQUAL_EVIDENCE = 1e-9


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
    def outcome(self) -> "WindowOutcome":
        """How each attack compares with its matched windows."""
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
    """How each attack compares with its matched windows.

    Parameters
    ----------
    d_full : array of shape (n_segments,)
        D_FULL of each attack.
    n_matched, wins : array of shape (n_segments,)
        Number of its matched windows, and of those with a smaller D_FULL.
    """

    d_full: Floats
    n_matched: Floats
    wins: Floats

    @classmethod
    def of(cls, d_full: Floats, matched: Sequence[Floats]) -> "WindowOutcome":
        """Count how many of its matched windows each attack outweighs."""
        wins = [
            np.sum(is_beaten(other, own))
            for own, other in zip(d_full, matched, strict=True)
        ]
        return cls(
            d_full=d_full,
            n_matched=np.array([len(other) for other in matched], dtype=np.float64),
            wins=np.array(wins, dtype=np.float64),
        )


def is_beaten(matched: Floats, own: npt.ArrayLike) -> Bools:
    """Return which windows have less evidence than an attack, by more than rounding."""
    return np.asarray(matched < np.asarray(own) * (1 - EQUAL_EVIDENCE))


def energies_of_windows(
    lengths: Ints, means: Floats, seconds: Floats
) -> tuple[Floats, Floats]:
    """Return D_FULL and D_MS of windows; infinite if rows lie beyond 1e150.

    Parameters
    ----------
    lengths : array of int, shape (n_windows,)
        Rows of each window.
    means : array of shape (n_windows, p)
        Means of their whitened rows.
    seconds : array of shape (n_windows, p, p)
        Centred second-moment sums of their rows.
    """
    p = means.shape[1]
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
    return d_full, d_ms


def plain_kl(mean: Floats, second: Floats, n_rows: int) -> float | None:
    """Return the plug-in Gaussian KL of a window's own moments; None if singular.

    ``(tr C + |m|^2 - p - log det C) / 2`` in whitened coordinates, at least 0.

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
    >>> plain_kl(np.array([1.0, 0.0]), 10 * np.eye(2), 10)
    0.5
    >>> plain_kl(np.zeros(2), 10 * np.ones((2, 2)), 10) is None  # two equal channels
    True
    """
    p = len(mean)
    if n_rows <= p or not np.isfinite(second).all():
        return None
    covariance = second / n_rows
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
    log_det = float(np.sum(np.log(pivots)) + np.sum(np.log(variance)))
    return 0.5 * float(np.trace(covariance) + mean @ mean - p - log_det)


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
    wins, n_matched = energies.outcome.wins, energies.outcome.n_matched
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
