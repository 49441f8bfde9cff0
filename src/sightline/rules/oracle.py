"""The oracle: how early any alarm rule could have raised a recorded attack.

An oracle knows in hindsight the law of each attack and the law of calm rows, both as
Gaussians, and runs the test that is fastest for these two: the cumulative sum of their
log likelihood ratio. Its limit is set on the calm rows of the same record for the same
budget as an alarm rule's. A rule that is later than the oracle could be improved; what
is beyond the oracle needs another model of the plant, not another rule.

Normal law
    Mean and Ledoit-Wolf covariance (channels in units of their own spread) of the calm
    rows of the test, in whose whitened coordinates all is computed. Not those of train:
    the oracle knows how the plant has drifted.
Law of an attack
    ``N(m, K)`` with the mean of its rows and K one of: I; c I with its mean variance c;
    ``(W C + p I) / (W + p)``, its covariance shrunk as in D_FULL. It is the one
    whose divergence is furthest above that of 95% of the calm windows of its length,
    each treated as if it were the attack, and above twice that of the median window: a
    covariance from few rows is mostly noise, which fits these rows and no others.
First part
    Where the first quarter of an attack is nearer to calm rows than to its law, as in a
    ramp, the law of this quarter is known as well, if it is evident, and so on. The
    first alarm counts.
Increments
    ``l_t = (z'z - (z - m)' K^-1 (z - m) - log det K) / 2``. On the attack's own rows,
    which gave the law, a law fits better than it should: what it gains on the median
    calm window in the same way is taken off, the same amount in each row.
Heavy tails
    A likelihood ratio exceeds x in no more than 1 / x of normal rows. Where more calm
    rows do, the evidence of a row is minus the logarithm of the share of calm rows with
    at least as much.
Sum
    ``S_t = max(0, S_t-1 + l_t)``, which restarts at 0 after each alarm, at breaks, and
    where calm rows begin again. It runs through the calm rows before the attack as it
    would in operation, and no row before the attack counts for its delay.
Limit
    The lowest that keeps the budget over all calm rows, alarms counted as for any rule.
    A twentieth of the budget goes to single rows whose own increment is larger than
    that of calm rows: where calm bursts add up, a lone spike would be lost.
Evidence
    If more than 5% of calm windows are as far from normal in hindsight as the attack,
    nothing tells the attack from calm time, and the oracle sees nothing. Under 19
    windows it is enough that none of them is. Nor does it matter where the judgement
    shows the attack in another way, such as by its onset.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Bools, Floats, Ints
from sightline.data.row_tables import (
    Part,
    Rows,
    kept_rows,
    make_calls,
    map_parts,
    parts_of,
)
from sightline.data.segments import Segment, run_bounds
from sightline.energy.energy import ScoredTest, score_rows
from sightline.energy.reference import Reference, fit_reference
from sightline.metrics.alarm_load import DAY_S, Delays
from sightline.metrics.windows import (
    WindowEnergies,
    WindowWatch,
    plan_windows,
    windows_of_parts,
)
from sightline.parallel import map_threads
from sightline.rules.limits import SMALLEST_LIMIT, Budget, Trace, clusters_of, set_limit

# Evidence that a larger share of calm windows has is none.
CHANCE: Final = 0.05
# Calm windows that are treated as if they were the attack.
MOST_WINDOWS: Final = 100
# Spread of evidence among calm windows counts as at least this much, in nats.
LEAST_SPREAD: Final = 1.0
# A law must hold from the beginning: over the first 1 / FIRST_PART of its rows.
FIRST_PART: Final = 4
# Attacks whose increments over calm rows are in memory at the same time: this many, or
# more where they are no more values than these.
AT_ONCE: Final = 4
MOST_VALUES: Final = 32_000_000
# Ratios of neighbouring candidate limits: each tried within the last step before.
RATIOS: Final = (1.3, 1.06, 1.01)
# Share of the budget that goes to single rows: a lone spike does not add up.
ROW_SHARE: Final = 0.05


class AttackLaw(StrEnum):
    """What the oracle knows of an attack."""

    MEAN = "mean"
    SPREAD = "mean and spread"
    FULL = "mean and covariance"


# --- The test that is fastest for two known laws --------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class LikelihoodRatio:
    """Log likelihood ratio of an attack's law to the normal law, for whitened rows.

    ``l(z) = isotropic z'z / 2 + weights' (directions' z)^2 / 2 + linear' z + constant``

    Parameters
    ----------
    linear : array of shape (p,)
        For a mean that is shifted.
    constant : float
        So that it is the logarithm of a ratio of densities.
    isotropic : float
        For a variance that is the same in all directions.
    directions, weights : array of shape (p, k) and (k,), optional
        Orthonormal directions, and what the variance along each weighs.
    """

    linear: Floats
    constant: float
    isotropic: float = 0.0
    directions: Floats | None = None
    weights: Floats | None = None

    @classmethod
    def of_law(cls, mean: Floats, covariance: Floats) -> "LikelihoodRatio":
        """Return the ratio of ``N(mean, covariance)`` to ``N(0, I)``."""
        variance, directions = np.linalg.eigh(covariance)
        along = mean @ directions
        constant = -0.5 * float(np.sum(along**2 / variance + np.log(variance)))
        return cls(
            linear=directions @ (along / variance),
            constant=constant,
            directions=directions,
            weights=1 - 1 / variance,
        )

    @classmethod
    def of_moments(cls, mean: Floats, second: Floats, n_rows: int) -> "LikelihoodRatio":
        """Return the ratio of ``N(m, (W C + p I) / (W + p))`` to ``N(0, I)``.

        Parameters
        ----------
        mean : array of shape (p,)
            Mean of the attack's whitened rows.
        second : array of shape (p, p)
            Their centred second-moment sum.
        n_rows : int
            Their number, W.
        """
        p = len(mean)
        return cls.of_law(mean, (second + p * np.eye(p)) / (n_rows + p))

    @classmethod
    def of_spread(cls, mean: Floats, variance: float) -> "LikelihoodRatio":
        """Return the ratio of ``N(m, c I)`` to ``N(0, I)``."""
        log_det = len(mean) * float(np.log(variance))
        return cls(
            linear=mean / variance,
            constant=-0.5 * (float(mean @ mean) / variance + log_det),
            isotropic=1 - 1 / variance,
        )

    @classmethod
    def of_mean(cls, mean: Floats) -> "LikelihoodRatio":
        """Return the ratio of ``N(m, I)`` to ``N(0, I)``."""
        return cls(linear=mean, constant=-0.5 * float(mean @ mean))

    def increments(self, rows: Floats, energy: Floats | None = None) -> Floats:
        """Return the log likelihood ratio of each whitened row.

        Parameters
        ----------
        rows : array of shape (n_rows, p)
            The rows.
        energy : array of shape (n_rows,), optional
            Half the sum of squares of each, if it is known.

        Examples
        --------
        >>> ratio = LikelihoodRatio.of_mean(np.array([2.0, 0.0]))
        >>> ratio.increments(np.array([[0.0, 5.0], [2.0, -1.0]])).tolist()
        [-2.0, 2.0]
        """
        found = rows @ self.linear + self.constant
        if self.isotropic:
            if energy is None:
                energy = 0.5 * np.einsum("tj,tj->t", rows, rows)
            found += self.isotropic * energy
        if self.directions is not None and self.weights is not None:
            along = rows @ self.directions
            np.square(along, out=along)
            found += 0.5 * (along @ self.weights)
        return np.asarray(found)


def restarting(
    increments: Floats, breaks: Ints, limit: float, start: float = 0.0
) -> tuple[Ints, float, float]:
    """Return the rows at which the sum exceeds, its last value, and its largest."""
    from sightline._kernels.alarms import restarting_sum

    begins, out = np.zeros((2, len(increments)), np.bool_)
    begins[breaks] = True
    last, largest = restarting_sum(increments, begins, limit, start, out)
    return np.flatnonzero(out), last, largest


def oracle_limit(
    increments: Floats, breaks: Ints, days: float, delays: Delays, budget: Budget
) -> float:
    """Return the limit of the restarting sum that keeps a budget over calm rows.

    Candidates run from the highest down; it is the last before the first that makes
    more alarms, or a larger share of time, than the budget allows.

    Parameters
    ----------
    increments : array of shape (n_rows,)
        Log likelihood ratio of calm rows.
    breaks : array of int
        First row of each stretch.
    days : float
        Days of all rows.
    delays, budget : Delays, Budget
        How alarms are joined and counted, and how many are accepted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=40_000) - 0.5  # a shift of one standard deviation
    >>> budget = Budget(per_day=24, share=0.5)
    >>> round(oracle_limit(rows, np.array([0]), 1.0, Delays(), budget), 1)
    5.4
    """

    def is_kept(limit: float) -> bool:
        places = restarting(increments, breaks, limit)[0]
        starts, lasts = clusters_of(places, breaks, delays.off)
        rows = lasts - starts + 1
        n_alarms = len(starts) + int(np.sum(rows // delays.unit))
        within = float(rows.sum()) <= budget.share * len(increments)
        return n_alarms <= budget.per_day * days and within

    top = restarting(increments, breaks, np.inf)[2]
    limit = max(top * (1 + 1e-9), SMALLEST_LIMIT)
    for ratio in RATIOS:
        while limit > 1e-3 and is_kept(limit / ratio):
            limit /= ratio
    return limit


@dataclass(frozen=True, kw_only=True, eq=False)
class Claims:
    """How much evidence a row may claim, by the calm rows of the record.

    A likelihood ratio exceeds x in no more than 1 / x of normal rows. Where more calm
    rows do, because their tails are heavier than a Gaussian's, the evidence of a row is
    minus the logarithm of the share of calm rows with at least as much.

    Parameters
    ----------
    above : array of float
        Increments of calm rows above 0, rising.
    n_rows : int
        Number of all calm rows.

    Examples
    --------
    >>> claims = Claims.of(np.array([0.0] * 98 + [50.0, 60.0]))
    >>> claims.of_rows(np.array([-3.0, 1.0, 55.0, 80.0])).round(1).tolist()
    [-3.0, 1.0, 3.9, 4.6]
    """

    above: Floats
    n_rows: int

    @classmethod
    def of(cls, calm: Floats) -> "Claims":
        """Return what the increments of calm rows allow."""
        return cls(above=np.sort(calm[calm > 0]), n_rows=len(calm))

    def of_rows(self, increments: Floats) -> Floats:
        """Return increments of any rows, none above what a row may claim."""
        claimed = increments.copy()
        is_above = increments > 0
        values = increments[is_above]
        # Sorted needles walk through memory in order: far fewer cache misses.
        order = np.argsort(values)
        n_as_large = np.empty(len(values), np.int64)
        n_as_large[order] = np.searchsorted(self.above, values[order])
        np.subtract(len(self.above), n_as_large, out=n_as_large)
        most = np.log((1 + self.n_rows) / (1 + n_as_large))
        claimed[is_above] = np.minimum(values, most)
        return claimed


@dataclass(frozen=True, kw_only=True, eq=False)
class Oracle:
    """The test that knows an attack's law, with limits for a budget."""

    trace: Floats
    claims: Claims
    row_limit: float
    limit: float

    @classmethod
    def of(cls, raw: Floats, breaks: Ints, step_s: float, budget: Budget) -> "Oracle":
        """Return the oracle by the increments of calm rows and where they begin."""
        delays, claims = Delays.of_step(step_s), Claims.of(raw)
        days = len(raw) * step_s / DAY_S
        rows = replace(budget, per_day=ROW_SHARE * budget.per_day)
        summed = replace(budget, per_day=(1 - ROW_SHARE) * budget.per_day)
        every = Trace(values=raw, breaks=breaks, days=days, delays=delays)
        trace = claims.of_rows(raw)
        return cls(
            trace=trace,
            claims=claims,
            row_limit=set_limit(every, rows).value,
            limit=oracle_limit(trace, breaks, days, delays, summed),
        )

    def first_alarm(self, increments: Floats, start: float) -> int | None:
        """Return the row of the first alarm in an attack."""
        claimed = self.claims.of_rows(increments)
        summed = restarting(claimed, np.empty(0, np.int64), self.limit, start)[0]
        single = np.flatnonzero(increments > self.row_limit)
        first = [int(rows[0]) for rows in (summed, single) if len(rows)]
        return min(first) if first else None


# --- Calm rows and evidence -----------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackFreeLaw:
    """The attack-free rows of a test, and their law."""

    rows: Rows
    reference: Reference
    is_attack_free: Bools
    test_breaks: Ints
    starts: Ints
    stops: Ints
    step_s: float

    @classmethod
    def of(cls, rows: Rows, test: ScoredTest, is_attack_free: Bools) -> "AttackFreeLaw":
        """Fit the law; `StreamError` with fewer than two rows, or if none changes."""
        starts, stops = run_bounds(is_attack_free, test.breaks)
        return cls(
            rows=rows,
            reference=fit_reference(
                kept_rows(rows, is_attack_free), estimator="ledoit-wolf-standardised"
            ),
            is_attack_free=is_attack_free,
            test_breaks=test.breaks,
            starts=starts,
            stops=stops,
            step_s=test.step_s or 1.0,
        )

    @property
    def at_once(self) -> int:
        """How many attacks' increments over calm rows are in memory together."""
        return max(AT_ONCE, MOST_VALUES // max(int(self.is_attack_free.sum()), 1))

    @property
    def breaks(self) -> Ints:
        """Where stretches begin, among calm rows alone."""
        place = np.concatenate([[0], np.cumsum(self.is_attack_free)])
        return np.asarray(place[self.starts], np.int64)

    def increments(
        self, ratios: Sequence[LikelihoodRatio], segments: Sequence[Segment]
    ) -> tuple[list[Floats], list[Floats]]:
        """Return each ratio over all calm rows, and the whitened rows of segments.

        Both from one pass over the test: to read it takes longer than the arithmetic.
        """
        is_own = np.zeros(len(self.is_attack_free), np.bool_)
        for segment in segments:
            is_own[segment.rows] = True
        # Threads write into shared arrays, so that nothing is twice in memory.
        found = _TestPass(
            is_attack_free=self.is_attack_free,
            is_own=is_own,
            traces=np.empty((len(ratios), np.count_nonzero(self.is_attack_free))),
            own=np.empty((np.count_nonzero(is_own), self.rows.n_channels)),
        )
        task = partial(_find, reference=self.reference, ratios=ratios)
        for _ in map_parts(self.rows, task, found):
            pass
        place = np.concatenate([[0], np.cumsum(is_own)])
        own = [found.own[place[s.start] : place[s.stop]] for s in segments]
        return list(found.traces), own

    def before(self, segment: Segment, trace: Floats, limit: float) -> float:
        """Return the sum with which an attack begins.

        0 unless calm rows lead up to it.
        """
        stretch = np.flatnonzero(self.stops == segment.start)
        if not len(stretch):
            return 0.0
        first = self.breaks[stretch[0]]
        length = int(self.stops[stretch[0]] - self.starts[stretch[0]])
        led_up = trace[first : first + length]
        return restarting(led_up, np.zeros(1, np.int64), limit)[1]


@dataclass(frozen=True, kw_only=True, eq=False)
class _TestPass:
    """Which rows a pass looks at, and where it writes what it finds.

    Parameters
    ----------
    is_attack_free, is_own : array of bool, shape (n_rows,)
        Calm rows, and rows of segments.
    traces : array of shape (n_ratios, number of calm rows)
        Increments of each ratio.
    own : array of shape (number of own rows, p)
        Whitened rows of segments.
    """

    is_attack_free: Bools
    is_own: Bools
    traces: Floats
    own: Floats

    def between(self, first: int, stop: int) -> "_TestPass":
        """Return the same for rows [first, stop)."""

        def place(which: Bools) -> slice:
            return slice(*(int(np.count_nonzero(which[:k])) for k in (first, stop)))

        return _TestPass(
            is_attack_free=self.is_attack_free[first:stop],
            is_own=self.is_own[first:stop],
            traces=self.traces[:, place(self.is_attack_free)],
            own=self.own[place(self.is_own)],
        )


def _find(
    part: Part,
    found: _TestPass,
    *,
    reference: Reference,
    ratios: Sequence[LikelihoodRatio],
) -> None:
    """Write the increments of each ratio over calm rows, and the segments' own rows."""
    n_calm = n_own = 0
    for start, block in part.blocks():
        is_attack_free, is_own = (
            each[start : start + len(block)]
            for each in (found.is_attack_free, found.is_own)
        )
        if not (is_attack_free.any() or is_own.any()):
            continue
        # The whole block: the last bits of a product depend on its number of rows, and
        # must not depend on which attacks are looked at together.
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.asarray((block - reference.mean) @ reference.whitening)
        own, calm = rows[is_own], rows if is_attack_free.all() else rows[is_attack_free]
        found.own[n_own : n_own + len(own)] = own
        energy = 0.5 * np.einsum("tj,tj->t", calm, calm)
        for ratio, trace in zip(ratios, found.traces, strict=True):
            trace[n_calm : n_calm + len(calm)] = ratio.increments(calm, energy)
        n_calm, n_own = n_calm + len(calm), n_own + len(own)


def is_evident(p_value: float, n_windows: int) -> bool:
    """Return whether evidence is rare among calm windows.

    Under 19 windows it is if none of them has as much.

    Examples
    --------
    >>> is_evident(0.04, 99), is_evident(0.06, 99), is_evident(0.1, 9)
    (True, False, True)
    """
    return p_value <= max(CHANCE, 1 / (1 + n_windows) + 1e-12)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Evidence:
    """What sets one attack apart from calm windows, in hindsight."""

    ratio: LikelihoodRatio
    law: AttackLaw
    p_value: float
    n_windows: int
    is_evident: bool
    gain_by_fit: float


def _evidence_of(
    windows: WindowEnergies, energy: Floats, i: int, n_rows: int
) -> _Evidence | None:
    """Return what sets attack i apart from calm windows of its length.

    `energy` is the sum of energies of each window.
    """
    plan, p = windows.plan, windows.means.shape[1]
    begin, end = plan.bounds[plan.group[i]], plan.bounds[plan.group[i] + 1]
    others = np.arange(begin, end)[plan.is_normal[begin:end]]
    own = plan.own[i]
    if n_rows < 2 or not len(others) or not np.isfinite(windows.d_full[own]):
        return None
    which = np.concatenate([[own], others])
    d_ms, d_full = windows.d_ms[which], windows.d_full[which]
    variance = np.maximum(2 * (energy[which] - d_ms) / (n_rows * p), p / (n_rows + p))
    gains = {
        AttackLaw.MEAN: d_ms,
        AttackLaw.SPREAD: d_ms + n_rows * p / 2 * (variance - 1 - np.log(variance)),
        AttackLaw.FULL: d_full,
    }
    # Above what a law may owe to the fit: the evidence of most calm windows, and at
    # least twice that of the median one, for a law gains by the fit on its own rows and
    # loses as much on others. Apart: in units of the spread among calm windows.
    above, apart = {}, []
    for law, values in gains.items():
        median, high = np.quantile(values[1:], [0.5, 1 - CHANCE])
        above[law] = float(values[0] - max(high, 2 * median))
        apart.append((values - median) / max(float(high - median), LEAST_SPREAD))
    law = max(above, key=lambda each: above[each])
    best = np.max(apart, axis=0)
    mean, by_fit = windows.means[i], float(np.median(gains[law][1:]))
    if law is AttackLaw.MEAN:
        ratio = LikelihoodRatio.of_mean(mean)
    elif law is AttackLaw.SPREAD:
        ratio = LikelihoodRatio.of_spread(mean, float(variance[0]))
    else:
        ratio = LikelihoodRatio.of_moments(mean, windows.seconds[i], n_rows)
        # Rows that gave a shrunk covariance K gain (2 / s - 1) times its divergence,
        # s = W / (W + p), to the second order in K - I.
        by_fit += 2 * p / n_rows * float(np.median((d_full - d_ms)[1:]))
    p_value = float(np.mean(best >= best[0]))
    return _Evidence(
        ratio=ratio,
        law=law,
        p_value=p_value,
        n_windows=len(others),
        is_evident=is_evident(p_value, len(others)),
        gain_by_fit=by_fit,
    )


# --- What the oracle sees -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Sighting:
    """What the oracle sees of one attack, or of its first part, with one law.

    Parameters
    ----------
    known : _Evidence
        The law.
    limit : float
        Limit of the sum.
    claimed : array of shape (n_rows,)
        Evidence of each row.
    alarm : int, optional
        Row of the first alarm, evident or not; None if there is none.
    """

    known: _Evidence
    limit: float
    claimed: Floats
    alarm: int | None

    @property
    def row(self) -> int | None:
        """Row of the first alarm; None if there is none, or nothing is evident."""
        return self.alarm if self.known.is_evident else None

    def if_shown(self, is_shown: bool) -> "Sighting":
        """Return the same if another test shows the attack: then it is evident."""
        if not is_shown:
            return self
        return replace(self, known=replace(self.known, is_evident=True))

    @property
    def begins_otherwise(self) -> bool:
        """Whether the first part is nearer to calm rows than to the law."""
        return float(self.claimed[: len(self.claimed) // FIRST_PART].sum()) < 0


def find_sightings(
    calm: AttackFreeLaw, segments: Sequence[Segment], budget: Budget
) -> list[Sighting | None]:
    """Fit the oracle's test to each segment, and run it through the rows of it."""
    rows = calm.rows
    labels = np.where(calm.is_attack_free, NORMAL, IGNORED).astype(np.int8)
    plan = plan_windows(segments, labels, calm.test_breaks, most=MOST_WINDOWS)
    watch = WindowWatch(plan)
    scored = score_rows(rows, calm.reference, name="test", watch=watch)
    windows = windows_of_parts(watch, rows.n_channels, scored.collected)
    before = np.concatenate([[0.0], np.cumsum(scored.energy)])
    energy = before[plan.starts + plan.n_rows] - before[plan.starts]
    evidence = [
        _evidence_of(windows, energy, i, segment.length)
        for i, segment in enumerate(segments)
    ]
    found: list[Sighting | None] = [None] * len(segments)
    usable = [
        (i, segments[i], known) for i, known in enumerate(evidence) if known is not None
    ]
    # If workers share the rows, each call is one pass over them; all threads get as
    # many calls.
    parts, n_lots = parts_of(calm.rows), 1
    if parts is not None:
        n_threads, n_passes = parts.runner.n_threads(), -(-len(usable) // calm.at_once)
        n_lots = min(-(-n_passes // n_threads) * n_threads, len(usable))
    lots = [usable[k::n_lots] for k in range(n_lots)]
    calls = [
        partial(_sighted, calm, [pair[1:] for pair in lot], budget) for lot in lots
    ]
    for lot, seen in zip(lots, make_calls(calm.rows, calls), strict=True):
        for (i, _, _), one in zip(lot, seen, strict=True):
            found[i] = one
    return found


def _sighted(
    calm: AttackFreeLaw, pairs: Sequence[tuple[Segment, _Evidence]], budget: Budget
) -> list[Sighting]:
    """Return what the oracle sees of segments whose laws are known, some at a time."""
    found: list[Sighting] = []
    for first in range(0, len(pairs), calm.at_once):
        chosen = pairs[first : first + calm.at_once]
        traces, rows = calm.increments(
            [known.ratio for _, known in chosen], [segment for segment, _ in chosen]
        )
        calls = [
            partial(_sighting, calm, segment, own, known, trace, budget)
            for (segment, known), own, trace in zip(chosen, rows, traces, strict=True)
        ]
        found += map_threads(calls)
    return found


def _sighting(
    calm: AttackFreeLaw,
    segment: Segment,
    rows: Floats,
    known: _Evidence,
    trace: Floats,
    budget: Budget,
) -> Sighting:
    """Return what the oracle sees of the rows of a segment; `trace` is of calm rows."""
    oracle = Oracle.of(trace, calm.breaks, calm.step_s, budget)
    own = known.ratio.increments(rows) - known.gain_by_fit / len(rows)
    row = oracle.first_alarm(own, calm.before(segment, oracle.trace, oracle.limit))
    return Sighting(
        known=known,
        limit=oracle.limit,
        claimed=oracle.claims.of_rows(own),
        alarm=row,
    )


def first_alarm_rows(
    calm: AttackFreeLaw,
    segments: Sequence[Segment],
    sightings: Sequence[Sighting | None],
    budget: Budget,
) -> list[int | None]:
    """Return the row of the oracle's first alarm in each attack.

    Where the first part of an attack is nearer to calm rows than to its law (a ramp),
    and is itself evident, the oracle knows the law of this part as well; and so on.
    """
    rows = [None if each is None else each.row for each in sightings]
    current = dict(enumerate(sightings))
    parts = dict(enumerate(segments))
    while parts:
        parts = {
            i: Segment(part.start, part.start + part.length // FIRST_PART)
            for i, part in parts.items()
            if (seen := current[i]) is not None
            and seen.row is not None
            and seen.begins_otherwise
        }
        found = find_sightings(calm, list(parts.values()), budget) if parts else []
        current = dict(zip(parts, found, strict=True))
        for i, seen in current.items():
            both = (rows[i], None if seen is None else seen.row)
            rows[i] = min(row for row in both if row is not None)
    return rows
