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
from functools import partial
from typing import Final

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Bools, Floats, Ints, Residuals
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
from sightline.errors import StreamError
from sightline.metrics.alarm_load import AlarmLoad, Delays, episodes_of
from sightline.metrics.window_collection import WindowWatch, windows_of_parts
from sightline.metrics.window_kl import WindowEnergies, plan_windows
from sightline.parallel import map_threads
from sightline.rules.against_ceiling import (
    CHANCE,
    AttackLaw,
    Ceiling,
    CeilingOutcome,
    RuleAtCeiling,
    is_evident,
    with_sentences,
)
from sightline.rules.commission import Commissioning
from sightline.rules.limits import Budget
from sightline.rules.oracle import LikelihoodRatio, Oracle, restarting

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


def ceilings(
    rows: Rows, test: ScoredTest, made: Commissioning, shown: Sequence[bool] = ()
) -> list[Ceiling | None]:
    """Return the ceiling of every attack, and how rules stand to it.

    Parameters
    ----------
    rows : Rows
        Test residuals.
    test : ScoredTest
        The test with its attacks and its attack-free time.
    made : Commissioning
        Rules made on this stream; their budget is the oracle's.
    shown : sequence of bool
        Which attacks another test has shown to differ from attack-free windows.

    Returns
    -------
    list of Ceiling or None
        In the order of the attacks. None where the oracle knows no law: for an attack
        of one row, where no attack-free window is as long, and everywhere if there are
        fewer than two attack-free rows, or they never change.
    """
    segments, budget = test.segments, made.facts.accepted
    if not segments:
        return []
    try:
        calm = _CalmRows.of(rows, test, test.attack_free.for_alarms)
    except StreamError:
        return [None] * len(segments)
    rules = _rules(test, made)
    sightings = [
        None if seen is None else seen.if_shown(is_shown)
        for seen, is_shown in zip(
            _sightings(calm, segments, budget),
            shown or [False] * len(segments),
            strict=True,
        )
    ]
    first_rows = _first_rows(calm, segments, sightings, budget)
    return [
        None if seen is None else _ceiling(segment, seen, row, calm, budget, rules)
        for segment, seen, row in zip(segments, sightings, first_rows, strict=True)
    ]


# --- Calm rows and evidence -----------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _CalmRows:
    """The calm rows of a test, and their law."""

    rows: Rows
    reference: Reference
    is_attack_free: Bools
    test_breaks: Ints
    starts: Ints
    stops: Ints
    step_s: float

    @classmethod
    def of(cls, rows: Rows, test: ScoredTest, is_attack_free: Bools) -> "_CalmRows":
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
        found = _Found(
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


def _whitened(rows: Residuals, reference: Reference) -> Floats:
    """Return rows in coordinates in which the normal law is N(0, I)."""
    return np.asarray((rows - reference.mean) @ reference.whitening)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Found:
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

    def between(self, first: int, stop: int) -> "_Found":
        """Return the same for rows [first, stop)."""

        def place(which: Bools) -> slice:
            return slice(*(int(np.count_nonzero(which[:k])) for k in (first, stop)))

        return _Found(
            is_attack_free=self.is_attack_free[first:stop],
            is_own=self.is_own[first:stop],
            traces=self.traces[:, place(self.is_attack_free)],
            own=self.own[place(self.is_own)],
        )


def _find(
    part: Part,
    found: _Found,
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
            rows = _whitened(block, reference)
        own, calm = rows[is_own], rows if is_attack_free.all() else rows[is_attack_free]
        found.own[n_own : n_own + len(own)] = own
        energy = 0.5 * np.einsum("tj,tj->t", calm, calm)
        for ratio, trace in zip(ratios, found.traces, strict=True):
            trace[n_calm : n_calm + len(calm)] = ratio.increments(calm, energy)
        n_calm, n_own = n_calm + len(calm), n_own + len(own)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Evidence:
    """What sets one attack apart from calm windows, in hindsight."""

    ratio: LikelihoodRatio
    law: AttackLaw
    p_value: float
    n_windows: int
    is_evident: bool
    gain_by_fit: float


def _evidence(calm: _CalmRows, segments: Sequence[Segment]) -> list[_Evidence | None]:
    """Return the law of each attack, with how far calm windows get in the same way."""
    rows = calm.rows
    labels = np.where(calm.is_attack_free, NORMAL, IGNORED).astype(np.int8)
    plan = plan_windows(segments, labels, calm.test_breaks, most=MOST_WINDOWS)
    watch = WindowWatch(plan, rows.n_channels, rows.n_rows)
    scored = score_rows(rows, calm.reference, name="test", watch=watch)
    windows = windows_of_parts(plan, rows.n_channels, scored.collected)
    before = np.concatenate([[0.0], np.cumsum(scored.energy)])
    n_rows = np.repeat(plan.lengths, np.diff(plan.bounds))
    energy = before[plan.starts + n_rows] - before[plan.starts]
    return [
        _evidence_of(windows, energy, i, segment.length)
        for i, segment in enumerate(segments)
    ]


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
        is_evident=is_evident(p_value, len(others)),
        gain_by_fit=by_fit,
    )


def _above_calm(values: Floats) -> float:
    """Return the evidence of an attack above what its law may owe to the fit.

    That of most calm windows, and at least twice that of the median one: a law gains
    by the fit on its own rows, and loses as much on others.
    """
    median, high = np.quantile(values[1:], [0.5, 1 - CHANCE])
    return float(values[0] - max(high, 2 * median))


def _apart(values: Floats) -> Floats:
    """Return evidence in units of its spread among calm windows, the attack first."""
    median, high = np.quantile(values[1:], [0.5, 1 - CHANCE])
    return np.asarray((values - median) / max(float(high - median), LEAST_SPREAD))


# --- What the oracle sees -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sighting:
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

    def if_shown(self, is_shown: bool) -> "_Sighting":
        """Return the same if another test shows the attack: then it is evident."""
        if not is_shown:
            return self
        return replace(self, known=replace(self.known, is_evident=True))

    @property
    def begins_otherwise(self) -> bool:
        """Whether the first part is nearer to calm rows than to the law."""
        return float(self.claimed[: len(self.claimed) // FIRST_PART].sum()) < 0


def _sightings(
    calm: _CalmRows, segments: Sequence[Segment], budget: Budget
) -> list[_Sighting | None]:
    """Return what the oracle sees of each segment, with the law of its rows."""
    evidence = _evidence(calm, segments)
    found: list[_Sighting | None] = [None] * len(segments)
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
    calm: _CalmRows, pairs: Sequence[tuple[Segment, _Evidence]], budget: Budget
) -> list[_Sighting]:
    """Return what the oracle sees of segments whose laws are known, some at a time."""
    found: list[_Sighting] = []
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
    calm: _CalmRows,
    segment: Segment,
    rows: Floats,
    known: _Evidence,
    trace: Floats,
    budget: Budget,
) -> _Sighting:
    """Return what the oracle sees of the rows of a segment; `trace` is of calm rows."""
    oracle = Oracle.of(trace, calm.breaks, calm.step_s, budget)
    own = known.ratio.increments(rows) - known.gain_by_fit / len(rows)
    row = oracle.first_alarm(own, calm.before(segment, oracle.trace, oracle.limit))
    return _Sighting(
        known=known,
        limit=oracle.limit,
        claimed=oracle.claims.of_rows(own),
        alarm=row,
    )


def _first_rows(
    calm: _CalmRows,
    segments: Sequence[Segment],
    sightings: Sequence[_Sighting | None],
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
        found = _sightings(calm, list(parts.values()), budget) if parts else []
        current = dict(zip(parts, found, strict=True))
        for i, seen in current.items():
            both = (rows[i], None if seen is None else seen.row)
            rows[i] = min(row for row in both if row is not None)
    return rows


def _ceiling(
    segment: Segment,
    seen: _Sighting,
    row: int | None,
    calm: _CalmRows,
    budget: Budget,
    rules: Sequence["_RuleAlarms"],
) -> Ceiling:
    """Return the ceiling of one attack, and how rules stand to it."""
    known = seen.known
    ceiling = Ceiling(
        delay_s=None if row is None else row * calm.step_s,
        is_evident=known.is_evident,
        p_value=known.p_value,
        n_windows=known.n_windows,
        law=known.law,
        limit=seen.limit,
        budget=str(budget),
        rules=tuple(
            rule.against(segment, row, seen.claimed, calm.step_s) for rule in rules
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
