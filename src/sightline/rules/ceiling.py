"""The ceiling: how early any alarm rule could have raised a recorded attack.

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
    each treated as if it were the attack: a covariance from few rows is mostly noise.
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
from functools import partial
from typing import Final

import numpy as np

from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Residuals,
)
from sightline.data.row_tables import Part, gather_rows, kept_rows, map_parts
from sightline.data.segments import Segment, run_bounds
from sightline.data.stream import ResidualStream
from sightline.energy.energy import ScoredTest, score_rows
from sightline.energy.reference import Reference, fit_reference
from sightline.metrics.alarm_load import DAY_S, AlarmLoad, Delays, episodes_of
from sightline.metrics.window_collection import WindowWatch, windows_of_parts
from sightline.metrics.window_kl import WindowEnergies, plan_windows
from sightline.parallel import side_by_side
from sightline.rules.against_ceiling import (
    CHANCE,
    AttackLaw,
    Ceiling,
    CeilingOutcome,
    RuleAtCeiling,
    is_evident,
    with_sentences,
)
from sightline.rules.budget import Budget
from sightline.rules.commission import Commissioning
from sightline.rules.limits import SMALLEST_LIMIT, Trace, clusters_of, set_limit

# Calm windows that are treated as if they were the attack.
MOST_WINDOWS: Final = 100
# Spread of evidence among calm windows counts as at least this much, in nats.
LEAST_SPREAD: Final = 1.0
# Ratios of neighbouring candidate limits: each tried within the last step before.
RATIOS: Final = (1.3, 1.06, 1.01)
# Share of the budget that goes to single rows: a lone spike does not add up.
ROW_SHARE: Final = 0.05
# Attacks whose increments over calm rows are in memory at the same time: this many, or
# more where they are no more values than these.
AT_ONCE: Final = 4
MOST_VALUES: Final = 16_000_000


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


def ceilings(
    stream: ResidualStream,
    test: ScoredTest,
    is_quiet: Bools,
    made: Commissioning,
    shown: Sequence[bool] = (),
) -> list[Ceiling | None]:
    """Return the ceiling of every attack, and how rules stand to it.

    Parameters
    ----------
    stream, test : ResidualStream, ScoredTest
        As it is judged, with attacks and seconds a row.
    is_quiet : array of bool, shape (n_test,)
        Calm rows of the test, without ten minutes after each attack.
    made : Commissioning
        Rules made for the budget, on this stream.
    shown : sequence of bool
        Which attacks another test has shown to differ from calm windows.

    Returns
    -------
    list of Ceiling or None
        In the order of the attacks. None for an attack of one row, whose law cannot be
        known, and where no calm window is as long.
    """
    if not test.attacks:
        return []
    calm = _CalmRows.of(stream, test, is_quiet)
    evidence = _evidence(calm, test, shown or [False] * len(test.attacks))
    budget = Budget.parse(made.facts.budget)
    rules = _rules(test, made)
    found: list[Ceiling | None] = [None] * len(test.attacks)
    usable = [i for i, each in enumerate(evidence) if each is not None]
    at_once = max(AT_ONCE, MOST_VALUES // max(int(is_quiet.sum()), 1))
    for first in range(0, len(usable), at_once):
        chosen = usable[first : first + at_once]
        known = [each for i in chosen if (each := evidence[i]) is not None]
        traces = calm.increments([each.ratio for each in known])
        calls = [
            partial(_ceiling, calm, test.segments[i], each, trace, budget, rules)
            for i, each, trace in zip(chosen, known, traces, strict=True)
        ]
        for i, ceiling in zip(chosen, side_by_side(calls), strict=True):
            found[i] = ceiling
    return found


# --- Calm rows and evidence -----------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _CalmRows:
    """The calm rows of a test, and their law."""

    stream: ResidualStream
    reference: Reference
    is_quiet: Bools
    starts: Ints
    stops: Ints
    step_s: float

    @classmethod
    def of(
        cls, stream: ResidualStream, test: ScoredTest, is_quiet: Bools
    ) -> "_CalmRows":
        starts, stops = run_bounds(is_quiet, test.breaks)
        return cls(
            stream=stream,
            reference=fit_reference(
                kept_rows(stream.test, is_quiet), estimator="ledoit-wolf-standardised"
            ),
            is_quiet=is_quiet,
            starts=starts,
            stops=stops,
            step_s=test.step_s or 1.0,
        )

    @property
    def breaks(self) -> Ints:
        """Where stretches begin, among calm rows alone."""
        place = np.concatenate([[0], np.cumsum(self.is_quiet)])
        return np.asarray(place[self.starts], np.int64)

    @property
    def days(self) -> float:
        """Days of calm rows."""
        return float(self.is_quiet.sum()) * self.step_s / DAY_S

    def whitened(self, rows: Residuals) -> Floats:
        """Return rows in coordinates in which the normal law is N(0, I)."""
        return np.asarray((rows - self.reference.mean) @ self.reference.whitening)

    def increments(self, ratios: Sequence[LikelihoodRatio]) -> list[Floats]:
        """Return the increments of each ratio over all calm rows, in one pass."""
        rows = kept_rows(self.stream.test, self.is_quiet)
        parts = list(map_parts(rows, partial(self._increments, ratios=ratios)))
        return list(np.concatenate(parts, axis=1))

    def _increments(self, part: Part, ratios: Sequence[LikelihoodRatio]) -> Floats:
        """Return the increments of each ratio over a part of the calm rows."""
        traces = np.empty((len(ratios), part.rows.n_rows))
        for start, block in part.blocks():
            rows = self.whitened(block)
            energy = 0.5 * np.einsum("tj,tj->t", rows, rows)
            for ratio, trace in zip(ratios, traces, strict=True):
                trace[start : start + len(rows)] = ratio.increments(rows, energy)
        return traces

    def before(self, segment: Segment, trace: Floats, limit: float) -> float:
        """Return the sum with which an attack begins.

        0 unless calm rows lead up to it.
        """
        stretch = np.flatnonzero(self.stops == segment.start)
        if not len(stretch):
            return 0.0
        first = self.breaks[stretch[0]]
        length = int(self.stops[stretch[0]] - self.starts[stretch[0]])
        return _run(trace[first : first + length], np.zeros(1, np.int64), limit)[1]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Evidence:
    """What sets one attack apart from calm windows, in hindsight."""

    ratio: LikelihoodRatio
    law: AttackLaw
    p_value: float
    n_windows: int
    is_evident: bool
    gain_by_fit: float


def _evidence(
    calm: _CalmRows, test: ScoredTest, shown: Sequence[bool]
) -> list[_Evidence | None]:
    """Return the law of each attack, with how far calm windows get in the same way."""
    rows, segments = calm.stream.test, test.segments
    labels = np.where(calm.is_quiet, NORMAL, IGNORED).astype(test.labels.dtype)
    labels[test.labels == ATTACK] = ATTACK
    plan = plan_windows(segments, labels, test.breaks, most=MOST_WINDOWS)
    watch = WindowWatch(plan, rows.n_channels, rows.n_rows)
    scored = score_rows(rows, calm.reference, name="test", watch=watch)
    windows = windows_of_parts(plan, rows.n_channels, scored.collected)
    before = np.concatenate([[0.0], np.cumsum(scored.energy)])
    n_rows = np.repeat(plan.lengths, np.diff(plan.bounds))
    energy = before[plan.starts + n_rows] - before[plan.starts]
    return [
        _evidence_of(windows, energy, i, segment.length, is_shown=shown[i])
        for i, segment in enumerate(segments)
    ]


def _evidence_of(
    windows: WindowEnergies, energy: Floats, i: int, n_rows: int, *, is_shown: bool
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
    law = max(gains, key=lambda each: _above_calm(gains[each]))
    best = np.max([_apart(values) for values in gains.values()], axis=0)
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
        is_evident=is_shown or is_evident(p_value, len(others)),
        gain_by_fit=by_fit,
    )


def _above_calm(values: Floats) -> float:
    """Return how far the attack's evidence lies above that of most calm windows."""
    return float(values[0] - np.quantile(values[1:], 1 - CHANCE))


def _apart(values: Floats) -> Floats:
    """Return evidence in units of its spread among calm windows, the attack first."""
    median, high = np.quantile(values[1:], [0.5, 1 - CHANCE])
    return np.asarray((values - median) / max(float(high - median), LEAST_SPREAD))


# --- The oracle -----------------------------------------------------------------------


def _run(
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
        places = _run(increments, breaks, limit)[0]
        starts, lasts = clusters_of(places, breaks, delays.off)
        rows = lasts - starts + 1
        n_alarms = len(starts) + int(np.sum(rows // delays.unit))
        within = float(rows.sum()) <= budget.share * len(increments)
        return n_alarms <= budget.per_day * days and within

    top = _run(increments, breaks, np.inf)[2]
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
        n_as_large = len(self.above) - np.searchsorted(self.above, values)
        most = np.log((1 + self.n_rows) / (1 + n_as_large))
        claimed[is_above] = np.minimum(values, most)
        return claimed


@dataclass(frozen=True, kw_only=True, eq=False)
class _Oracle:
    """The test that knows an attack's law, with limits for a budget."""

    trace: Floats
    claims: Claims
    row_limit: float
    limit: float

    @classmethod
    def of(cls, calm: _CalmRows, raw: Floats, budget: Budget) -> "_Oracle":
        """Return the oracle by the increments of calm rows."""
        delays, claims = Delays.of_step(calm.step_s), Claims.of(raw)
        rows = replace(budget, per_day=ROW_SHARE * budget.per_day)
        summed = replace(budget, per_day=(1 - ROW_SHARE) * budget.per_day)
        every = Trace(values=raw, breaks=calm.breaks, days=calm.days, delays=delays)
        trace = claims.of_rows(raw)
        return cls(
            trace=trace,
            claims=claims,
            row_limit=set_limit(every, rows, tail=False).value,
            limit=oracle_limit(trace, calm.breaks, calm.days, delays, summed),
        )

    def first_alarm(self, increments: Floats, start: float) -> int | None:
        """Return the row of the first alarm in an attack."""
        claimed = self.claims.of_rows(increments)
        summed = _run(claimed, np.empty(0, np.int64), self.limit, start)[0]
        single = np.flatnonzero(increments > self.row_limit)
        first = [int(rows[0]) for rows in (summed, single) if len(rows)]
        return min(first) if first else None


def _ceiling(
    calm: _CalmRows,
    segment: Segment,
    known: _Evidence,
    raw: Floats,
    budget: Budget,
    rules: Sequence["_RuleAlarms"],
) -> Ceiling:
    """Return the ceiling of one attack, and how rules stand to it."""
    oracle = _Oracle.of(calm, raw, budget)
    places = np.arange(segment.start, segment.stop)
    rows = calm.whitened(gather_rows(calm.stream.test, places))
    own = known.ratio.increments(rows) - known.gain_by_fit / len(rows)
    row = oracle.first_alarm(own, calm.before(segment, oracle.trace, oracle.limit))
    if not known.is_evident:
        row = None
    ceiling = Ceiling(
        delay_s=None if row is None else row * calm.step_s,
        is_evident=known.is_evident,
        p_value=known.p_value,
        n_windows=known.n_windows,
        law=known.law,
        limit=oracle.limit,
        budget=str(budget),
        rules=tuple(
            rule.against(segment, row, oracle.claims.of_rows(own), calm.step_s)
            for rule in rules
        ),
    )
    return with_sentences(ceiling)


# --- Rules against it -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _RuleAlarms:
    """Where the alarms of a rule start, from the first row that it is judged on."""

    name: str
    starts: Ints
    first: int
    load: AlarmLoad

    def against(
        self, segment: Segment, oracle: int | None, own: Floats, step_s: float
    ) -> RuleAtCeiling:
        """Return how the rule stands to the oracle's alarm in one attack."""
        cost = self.load.alarms_per_day
        if segment.start < self.first:
            return RuleAtCeiling(
                rule=self.name, outcome=CeilingOutcome.UNJUDGED, alarms_per_day=cost
            )
        inside = self.starts[
            (self.starts >= segment.start) & (self.starts < segment.stop)
        ]
        row = int(inside[0]) - segment.start if len(inside) else None
        total = float(own.sum())
        share = efficiency = saved = None
        if row is not None and total > 0:
            share = float(np.clip(own[: row + 1].sum() / total, 0.0, 1.0))
        if row is not None and oracle is not None:
            efficiency = min((oracle + 1) / (row + 1), 1.0)
            saved = max(row - oracle, 0) * step_s
        return RuleAtCeiling(
            rule=self.name,
            outcome=_outcome(row, oracle),
            delay_s=None if row is None else row * step_s,
            divergence_share=share,
            efficiency=efficiency,
            could_save_s=saved,
            alarms_per_day=cost,
        )


def _outcome(row: int | None, oracle: int | None) -> CeilingOutcome:
    """Return how an alarm after some rows stands to the oracle's."""
    if oracle is None:
        return CeilingOutcome.UNSEEN
    if row is None:
        return CeilingOutcome.MISSED
    return CeilingOutcome.LATER if row > oracle + 1 else CeilingOutcome.AT_CEILING


def _rules(test: ScoredTest, made: Commissioning) -> list[_RuleAlarms]:
    """Return the alarms of the chosen rule, and of the one in use."""
    facts = made.facts
    name, split = facts.chosen, facts.split
    later = np.unique(np.append(0, test.breaks[test.breaks > split] - split))
    starts, _ = run_bounds(made.alarm_rows[name], later)
    present = facts.present[-1]
    alarms = test.alarms if test.own_alarms is None else test.own_alarms
    episodes = episodes_of(alarms, Delays.of_step(test.step_s), test.breaks)
    return [
        _RuleAlarms(
            name=name, starts=starts + split, first=split, load=facts.row(name).load
        ),
        _RuleAlarms(
            name=present.name, starts=episodes.starts, first=0, load=present.load
        ),
    ]
