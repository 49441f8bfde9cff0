"""The repair ladder: every repair is carried out on every attack, and shows its cause.

`LADDER` is the table of the rungs. A new rung is one row of it and one function that
judges an attack; result, terminal, page and figures read the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sightline.data.arrays import Bools
from sightline.data.segments import Segment
from sightline.judgement.calm import CalmWindows
from sightline.judgement.evidence import Accumulation, Evidence
from sightline.judgement.refit import RefitScope, refit_around
from sightline.judgement.subspaces import Subspace
from sightline.judgement.verdicts import RungName, RungOutcome, Verdict

# Of repairs that compete, the first with this share of the best coverage is the cause.
NEARLY_ALL = 0.8
# A quiet attack has less than this share of the usual mean energy.
QUIET_SHARE = 0.6
# The ladder is tried on at most this many calm windows.
MOST_CALM = 60

Used = Subspace | Accumulation | RefitScope


@dataclass(frozen=True)
class Finding:
    """Outcome of one rung, and what it used."""

    outcome: RungOutcome
    used: Used | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """One attack, or an attack-free window in its place, with what it is compared to.

    Parameters
    ----------
    segment : Segment
        Its rows.
    windows, near : CalmWindows
        All calm windows of its length, and those nearest to it.
    local : RungOutcome, optional
        Its outcome under references fitted around it.
    """

    segment: Segment
    windows: CalmWindows
    near: CalmWindows
    local: RungOutcome | None


# --- The rungs: how each judges an attack, and when its repair is in alarm ------------


def _judge_own_rule(evidence: Evidence, case: Case) -> Finding | None:
    if evidence.own_rule is None:
        return None
    return Finding(evidence.own_rule.judged(case.segment, case.near))


def _judge_refitted(evidence: Evidence, case: Case) -> Finding:
    """Judge by the better of the two refits: around the attack, and of all rows."""
    findings = []
    if case.local is not None:
        findings.append(Finding(case.local, RefitScope.AROUND))
    if evidence.refitted is not None:
        whole = evidence.refitted.judged(case.segment, case.windows)
        findings.append(Finding(whole, RefitScope.WHOLE))
    if not findings:
        return Finding(RungOutcome(coverage=0.0, calm=0.0, limit=0.0, visible=False))
    return max(findings, key=lambda f: (f.outcome.visible, f.outcome.coverage))


def _refitted_alarms(evidence: Evidence, used: Sequence[Used]) -> Bools | None:
    """Return the alarms of the refit of the whole record.

    None where an attack needs a refit around it: a reference that follows the plant
    has no alarms of one trace to count.
    """
    if evidence.refitted is None or RefitScope.AROUND in used:
        return None
    return evidence.refitted.above.rows


def _subspace_alarms(evidence: Evidence, used: Sequence[Used]) -> Bools:
    columns = [space.column for space in used if isinstance(space, Subspace)]
    above = [evidence.exceedances.above(column) for column in columns]
    return np.asarray(np.any(above, axis=0))


def _accumulated_alarms(evidence: Evidence, used: Sequence[Used]) -> Bools:
    ways = [way for way in used if isinstance(way, Accumulation)]
    above = [evidence.accumulated.above[way].rows for way in ways]
    return np.asarray(np.any(above, axis=0))


@np.errstate(over="ignore", invalid="ignore")
def _judge_quiet(evidence: Evidence, case: Case) -> Finding:
    """Judge whether an attack has less mean energy than every calm window near it.

    Mean energies are shares of the median of these windows, under the original or the
    refitted reference.
    """
    traces = [evidence.scored.energy]
    if evidence.refitted is not None:
        traces.append(evidence.refitted.energy)
    shares = []
    for trace in traces:
        # One by one: a running sum would carry the rounding of all rows before.
        length = case.near.length
        calm = np.array([np.mean(trace[i : i + length]) for i in case.near.starts])
        mean, usual = float(np.mean(trace[case.segment.rows])), float(np.median(calm))
        lowest = float(calm.min())
        is_quiet = mean < lowest and mean < QUIET_SHARE * usual
        # A mean that overflowed is infinite, and its share of another one unknown.
        pair = (mean / usual, lowest / usual) if usual > 0 else (1.0, 1.0)
        shares.append((is_quiet, *np.nan_to_num(pair, nan=1.0).tolist()))
    is_quiet, share, lowest_share = min(shares, key=lambda s: (not s[0], s[1]))
    return Finding(
        RungOutcome(coverage=share, calm=1.0, limit=lowest_share, visible=is_quiet)
    )


def _judge_telemetry(evidence: Evidence, case: Case) -> Finding | None:
    if evidence.telemetry is None:
        return None
    return Finding(*evidence.telemetry.judged(case.segment, case.windows))


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One row of the ladder: a way to look at an attack.

    Parameters
    ----------
    name : str
        Its name in files.
    label : str
        Its name for people.
    judge : callable
        Returns what it makes of a case; None where it does not apply to the stream.
    proves : Verdict, optional
        The cause of an attack that this rung shows and the p99 rule does not.
    competes : bool
        Whether it names the cause only with at least `NEARLY_ALL` of the best coverage
        of those that compete. The others name it where none before them shows the
        attack.
    repair : str, optional
        What to try, in words, with ``{by}`` for what it uses.
    alarms : callable, optional
        Returns the rows in alarm after the repair, given what the attacks use. None
        where they cannot be counted.
    is_coverage : bool
        Whether its figures are shares of rows, and not of energy.
    """

    name: str
    label: str
    judge: Callable[[Evidence, Case], Finding | None]
    proves: Verdict | None = None
    competes: bool = False
    repair: str | None = None
    alarms: Callable[[Evidence, Sequence[Used]], Bools | None] | None = None
    is_coverage: bool = True


# The cheapest repair comes first.
LADDER: Final[dict[str, Rung]] = {
    rung.name: rung
    for rung in (
        Rung(
            name=RungName.OWN_RULE,
            label="Your own rule, as it runs today",
            judge=_judge_own_rule,
            repair="using the p99 rule beside your own",
        ),
        Rung(
            name=RungName.DETECTED,
            label="The p99 limit from training",
            judge=lambda e, c: Finding(e.probe.judged(c.segment, c.near)),
        ),
        Rung(
            name=RungName.RECALIBRATE,
            label="Limit set on attack-free test time",
            judge=lambda e, c: Finding(e.recalibrated.judged(c.segment, c.windows)),
            proves=Verdict.THRESHOLD,
            competes=True,
            repair="setting the alarm limit on attack-free test time",
            alarms=lambda e, used: e.recalibrated.rows,
        ),
        Rung(
            name=RungName.REREFERENCE,
            label="Reference fitted on attack-free test time",
            judge=_judge_refitted,
            proves=Verdict.DRIFT,
            competes=True,
            repair="fitting the reference on attack-free test time {by}",
            alarms=_refitted_alarms,
        ),
        Rung(
            name=RungName.REFOCUS,
            label="A smaller space separately",
            judge=lambda e, c: Finding(*e.exceedances.judged(c.segment, c.windows)),
            proves=Verdict.DILUTED,
            competes=True,
            repair="scoring {by} separately",
            alarms=_subspace_alarms,
        ),
        Rung(
            name=RungName.ACCUMULATE,
            label="Accumulated over time",
            judge=lambda e, c: Finding(
                *e.accumulated.judged(c.segment, c.windows, c.near)
            ),
            proves=Verdict.SEQUENTIAL,
            repair="accumulating energy over time by {by}",
            alarms=_accumulated_alarms,
        ),
        Rung(
            name=RungName.QUIET,
            label="Alarm on too little movement",
            judge=_judge_quiet,
            proves=Verdict.QUIET,
            repair="an alarm on too little movement as well",
            alarms=lambda e, used: e.accumulated.is_low,
            is_coverage=False,
        ),
        Rung(
            name=RungName.TELEMETRY,
            label="The telemetry itself",
            judge=_judge_telemetry,
        ),
    )
}


def causes() -> dict[str, Verdict]:
    """Return the verdict that each rung proves, in the order of the ladder.

    Examples
    --------
    >>> [f"{name}: {verdict}" for name, verdict in causes().items()][:2]
    ['recalibrate: threshold', 'rereference: drift']
    """
    return {r.name: r.proves for r in LADDER.values() if r.proves is not None}


# --- Up the ladder --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LadderResult:
    """The verdict on one attack, and what each rung makes of it.

    Parameters
    ----------
    verdict : Verdict
        Why the p99 rule sees the attack or not.
    findings : mapping of str to Finding
        By the name of the rung, in the order of the ladder; empty where there are too
        few calm windows.
    contributing : tuple of Verdict
        Causes of all rungs that show the attack.
    """

    verdict: Verdict
    findings: Mapping[str, Finding] = field(default_factory=dict)
    contributing: tuple[Verdict, ...] = ()

    @property
    def outcomes(self) -> dict[str, RungOutcome]:
        """The outcome of each rung by its name."""
        return {str(name): f.outcome for name, f in self.findings.items()}

    @property
    def space(self) -> Subspace | None:
        """The best subspace, whatever the verdict."""
        finding = self.findings.get(RungName.REFOCUS)
        used = None if finding is None else finding.used
        return used if isinstance(used, Subspace) else None

    def is_shown(self, rung: str) -> bool:
        """Return whether a rung shows the attack; False where it does not apply."""
        return rung in self.findings and self.findings[rung].outcome.visible


def climb(evidence: Evidence, segments: Sequence[Segment]) -> list[LadderResult]:
    """Carry out every repair on every attack, and return the verdict on each."""
    windows = [evidence.windows[segment.length] for segment in segments]
    return _climb_each(evidence, list(zip(segments, windows, strict=True)))


def _climb_each(
    evidence: Evidence, pairs: Sequence[tuple[Segment, CalmWindows | None]]
) -> list[LadderResult]:
    local = refit_around(evidence.test, evidence.scored, [s for s, _ in pairs])
    return [
        LadderResult(verdict=Verdict.UNDECIDED)
        if windows is None
        else climb_one(evidence, Case(segment, windows, windows.nearest(segment), near))
        for (segment, windows), near in zip(pairs, local, strict=True)
    ]


def climb_one(evidence: Evidence, case: Case) -> LadderResult:
    """Judge one case by every rung of the ladder that applies to the stream."""
    findings = {
        name: finding
        for name, rung in LADDER.items()
        if (finding := rung.judge(evidence, case)) is not None
    }
    outcomes = {name: finding.outcome for name, finding in findings.items()}
    visible = {name for name, outcome in outcomes.items() if outcome.visible}
    return LadderResult(
        verdict=decide(outcomes),
        findings=findings,
        contributing=tuple(c for name, c in causes().items() if name in visible),
    )


def decide(outcomes: Mapping[str, RungOutcome]) -> Verdict:
    """Return the verdict that the outcomes of the rungs lead to.

    The cause is the first of the competing repairs that shows the attack with at least
    `NEARLY_ALL` of their best coverage: the cheapest that gets nearly all there is to
    get. Where none of them shows it, the first of the other repairs that does.
    """
    if outcomes[RungName.DETECTED].visible:
        return Verdict.DETECTED
    shown = [
        (rung, rung.proves, outcomes[name].coverage)
        for name, rung in LADDER.items()
        if rung.proves is not None and name in outcomes and outcomes[name].visible
    ]
    best = max((share for rung, _, share in shown if rung.competes), default=0.0)
    for rung, cause, share in shown:
        if not rung.competes or share >= NEARLY_ALL * best:
            return cause
    telemetry = outcomes.get(RungName.TELEMETRY)
    if telemetry is not None and not telemetry.visible:
        return Verdict.NOT_IN_TELEMETRY
    return Verdict.WEAK_EVIDENCE


def try_calm_windows(
    evidence: Evidence, segments: Sequence[Segment]
) -> tuple[float | None, int]:
    """Put calm windows on the ladder as if they were attacks.

    Returns
    -------
    rate : float or None
        Share of the windows tried that get a cause; None where there is no window.
    n_windows : int
        Windows tried: at most `MOST_CALM`, spread evenly over those of each attack.
    """
    of_each = [evidence.windows[segment.length] for segment in segments]
    per_attack = [windows for windows in of_each if windows is not None]
    each = max(1, MOST_CALM // max(len(per_attack), 1))
    calm = []
    for windows in per_attack:
        picked = np.linspace(0, len(windows.starts) - 1, each).astype(np.int64)
        for start in windows.starts[np.unique(picked)].tolist():
            calm.append((Segment(start, start + windows.length), windows))
    calm = calm[:MOST_CALM]
    if not calm:
        return None, 0
    blamed = set(causes().values())
    n_blamed = sum(one.verdict in blamed for one in _climb_each(evidence, calm))
    return n_blamed / len(calm), len(calm)
