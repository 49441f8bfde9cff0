"""The repair ladder: every repair carried out on every attack, and its cause."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sightline.data.arrays import NORMAL, Bools, Floats, Ints, Labels
from sightline.data.row_tables import Rows, Tick, gather_rows, no_tick
from sightline.data.segments import Segment, segments_of
from sightline.energy.reference import Reference
from sightline.judgement.accumulation import Accumulated, accumulated
from sightline.judgement.calm import (
    BUDGET,
    CalmWindows,
    Counts,
    calm_windows,
    coverage,
    coverages,
    judged,
    running_count,
)
from sightline.judgement.refit import (
    MOST_ROWS,
    Refitted,
    judge_local,
    judge_refit,
    local_rows,
    refit_all,
)
from sightline.judgement.subspaces import (
    Exceedances,
    count_above,
    family_of,
    upper_quantiles,
)
from sightline.judgement.telemetry import TelemetryEvidence
from sightline.judgement.verdicts import RungName, RungOutcome, Verdict

# The cheapest of the first three repairs that gets nearly all there is to get.
NEARLY_ALL = 0.8
# Quiet is less than this share of the usual mean energy, and less than ever nearby.
QUIET_SHARE = 0.6
# So many calm windows stand for all when the ladder is tried on them.
MOST_CALM = 60


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One row of the ladder: a way to look at an attack.

    Parameters
    ----------
    name : str
        Its name in files.
    label : str
        Its name for people.
    proves : Verdict, optional
        The cause of an attack that this rung shows and the p99 rule does not.
    repair : str, optional
        What to do, in words; None where the rung is no repair.
    is_coverage : bool
        Whether its figures are shares of an attack's rows, and not of its energy.
    """

    name: str
    label: str
    proves: Verdict | None = None
    repair: str | None = None
    is_coverage: bool = True


LADDER: Final[dict[str, Rung]] = {
    rung.name: rung
    for rung in (
        Rung(
            name=RungName.OWN_RULE,
            label="Your own rule, as it runs today",
            repair="the p99 rule beside your own",
        ),
        Rung(name=RungName.DETECTED, label="The p99 limit from training"),
        Rung(
            name=RungName.RECALIBRATE,
            label="Limit set on attack-free test time",
            proves=Verdict.THRESHOLD,
            repair="a limit set on attack-free test time",
        ),
        Rung(
            name=RungName.REREFERENCE,
            label="Reference fitted on attack-free test time",
            proves=Verdict.DRIFT,
            repair="a reference refitted on attack-free test time",
        ),
        Rung(
            name=RungName.REFOCUS,
            label="A smaller space separately",
            proves=Verdict.DILUTED,
            repair="scoring smaller spaces by themselves",
        ),
        Rung(
            name=RungName.ACCUMULATE,
            label="Accumulated over time",
            proves=Verdict.SEQUENTIAL,
            repair="accumulating energy over time",
        ),
        Rung(
            name=RungName.QUIET,
            label="Alarm on too little movement",
            proves=Verdict.QUIET,
            repair="an alarm on too little movement as well",
            is_coverage=False,
        ),
        Rung(name=RungName.TELEMETRY, label="The telemetry itself"),
    )
}


def causes() -> dict[str, Verdict]:
    """Return the verdict that each rung proves, in the order of the ladder.

    Examples
    --------
    >>> list(causes().items())[0]
    (<RungName.RECALIBRATE: 'recalibrate'>, <Verdict.THRESHOLD: 'threshold'>)
    """
    return {r.name: r.proves for r in LADDER.values() if r.proves is not None}


@dataclass(frozen=True, kw_only=True)
class Climbed:
    """One attack on the ladder: the verdict and what each rung makes of it."""

    verdict: Verdict
    rungs: Mapping[str, RungOutcome] = field(default_factory=dict)
    contributing: tuple[Verdict, ...] = ()
    refocus_channels: tuple[str, ...] = ()
    refocus_space: int | None = None
    n_windows: int = 0
    window_length: int | None = None


@dataclass(frozen=True, kw_only=True)
class FalseCauses:
    """How many calm windows the same ladder gives a cause."""

    n_windows: int
    rate: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Everything the rungs look at, made once for all attacks."""

    test: Rows
    labels: Labels
    breaks: Ints
    clock: Ints
    energy: Floats
    train_limit: float
    refitted: Refitted | None
    exceedances: Exceedances
    accumulated: Accumulated
    counts: Mapping[str, Counts]
    windows: Mapping[int, CalmWindows | None]
    telemetry: TelemetryEvidence | None = None

    @property
    def is_normal(self) -> Bools:
        """Which rows are attack-free."""
        return np.asarray(self.labels == NORMAL)


def gather_evidence(
    test: Rows,
    labels: Labels,
    breaks: Ints,
    attacks: Sequence[Segment],
    energy: Floats,
    reference: Reference,
    *,
    train_limit: float,
    channels: Sequence[str],
    groups: Mapping[str, Sequence[str]] | None = None,
    alarms: Bools | None = None,
    clock: Ints | None = None,
    tick: Tick = no_tick,
) -> Evidence:
    """Read the residuals four times and keep what all rungs need.

    `clock` says when each row was, where rows are not simply one after the other.
    """
    is_normal = labels == NORMAL
    clock = np.arange(len(labels)) if clock is None else clock
    stretches = segments_of(is_normal, breaks)
    windows = {
        length: calm_windows(stretches, length)
        for length in {attack.length for attack in attacks}
    }
    family = family_of(reference, channels, groups)
    limits = upper_quantiles(test, family, is_normal, tick)
    positions = positions_of(attacks, windows)
    exceedances = count_above(test, family, limits, positions, tick)
    refitted = refit_all(test, is_normal, clock, tick)
    resets = np.zeros(len(labels), np.bool_)
    resets[breaks] = True
    # What accumulated before an attack is not its own, nor what it leaves behind.
    resets[[attack.start for attack in attacks]] = True
    resets[[attack.stop for attack in attacks if attack.stop < len(labels)]] = True
    counts: dict[str, Counts] = {
        RungName.DETECTED: running_count(energy > train_limit),
        RungName.RECALIBRATE: running_count(
            energy > np.quantile(energy[is_normal], 1 - BUDGET)
        ),
    }
    if refitted is not None:
        counts[RungName.REREFERENCE] = running_count(refitted.energy > refitted.limit)
    if alarms is not None:
        counts[RungName.OWN_RULE] = running_count(alarms)
    return Evidence(
        test=test,
        labels=labels,
        breaks=breaks,
        clock=clock,
        energy=energy,
        train_limit=train_limit,
        refitted=refitted,
        exceedances=exceedances,
        accumulated=accumulated(energy, labels, resets),
        counts=counts,
        windows=windows,
    )


def positions_of(
    attacks: Sequence[Segment], windows: Mapping[int, CalmWindows | None]
) -> Ints:
    """Return all rows at which a window begins or ends."""
    edges = [np.array([a.start, a.stop]) for a in attacks]
    for calm in windows.values():
        if calm is not None:
            edges += [calm.starts, calm.stops]
    return np.unique(np.concatenate([np.zeros(1, np.int64), *edges]))


def climb(
    evidence: Evidence, attacks: Sequence[Segment], *, times: int = 1
) -> list[Climbed]:
    """Carry out every repair on every attack; return the cause of each.

    `times` multiplies the rows of a refit near an attack, where the record holds
    several versions of the same time.
    """
    local = _local_rungs(evidence, attacks, times)
    return [
        _climb_one(evidence, attack, near, evidence.windows[attack.length])
        for attack, near in zip(attacks, local, strict=True)
    ]


def false_cause_rate(evidence: Evidence, attacks: Sequence[Segment]) -> FalseCauses:
    """Climb with calm windows instead of attacks, and count those given a cause."""
    there = [w for a in attacks if (w := evidence.windows[a.length]) is not None]
    if not there:
        return FalseCauses(n_windows=0, rate=None)
    each = max(1, MOST_CALM // len(there))
    calm = [
        (Segment(int(start), int(start) + windows.length), windows)
        for windows in there
        for start in windows.starts[
            np.unique(np.linspace(0, len(windows.starts) - 1, each).astype(np.int64))
        ]
    ][:MOST_CALM]
    local = _local_rungs(evidence, [segment for segment, _ in calm], 1)
    blamed = sum(
        _climb_one(evidence, segment, near, windows).verdict in causes().values()
        for (segment, windows), near in zip(calm, local, strict=True)
    )
    return FalseCauses(n_windows=len(calm), rate=blamed / len(calm))


def _local_rungs(
    evidence: Evidence, attacks: Sequence[Segment], times: int
) -> list[RungOutcome | None]:
    """Refit near each attack; all rows needed are read in one pass."""
    normal_rows = np.flatnonzero(evidence.is_normal)
    p = evidence.test.n_channels
    around = [
        local_rows(attack, normal_rows, evidence.clock, p, times=times)
        for attack in attacks
    ]
    inside = [_spaced(attack) for attack in attacks]
    needed = np.unique(np.concatenate([*around, *inside, np.empty(0, np.int64)]))
    values = gather_rows(evidence.test, needed)
    return [
        judge_local(
            values[np.searchsorted(needed, near)],
            near,
            values[np.searchsorted(needed, own)],
            attack,
            evidence.breaks,
            evidence.clock,
        )
        for attack, near, own in zip(attacks, around, inside, strict=True)
    ]


def _spaced(attack: Segment) -> Ints:
    n_rows = min(attack.length, MOST_ROWS)
    return attack.start + (np.arange(n_rows) * attack.length) // n_rows


def _climb_one(
    evidence: Evidence,
    attack: Segment,
    local: RungOutcome | None,
    windows: CalmWindows | None,
) -> Climbed:
    if windows is None:
        return Climbed(verdict=Verdict.UNDECIDED)
    near = windows.nearest(attack, evidence.clock)
    counts = evidence.counts
    rungs: dict[str, RungOutcome] = {}
    if RungName.OWN_RULE in counts:
        rungs[RungName.OWN_RULE] = _judged(counts[RungName.OWN_RULE], attack, near)
    rungs[RungName.DETECTED] = _judged(counts[RungName.DETECTED], attack, near)
    rungs[RungName.RECALIBRATE] = _judged(counts[RungName.RECALIBRATE], attack, windows)
    rungs[RungName.REREFERENCE] = _best(
        local,
        None
        if evidence.refitted is None
        else judge_refit(
            evidence.refitted, attack, windows, counts[RungName.REREFERENCE]
        ),
    )
    rungs[RungName.REFOCUS], space = evidence.exceedances.judged(attack, windows)
    rungs[RungName.ACCUMULATE] = evidence.accumulated.judged(attack, windows, near)
    rungs[RungName.QUIET] = _quiet(evidence, attack, near)
    if evidence.telemetry is not None:
        rungs[RungName.TELEMETRY] = evidence.telemetry.judged(attack, windows)
    family = evidence.exceedances.family
    return Climbed(
        verdict=_verdict(rungs),
        rungs=rungs,
        contributing=tuple(
            verdict for name, verdict in causes().items() if rungs[name].visible
        ),
        refocus_channels=tuple(family.channels[j] for j in family.members(space)),
        refocus_space=space,
        n_windows=len(windows.starts),
        window_length=windows.length,
    )


def _judged(counts: Counts, attack: Segment, windows: CalmWindows) -> RungOutcome:
    return judged(coverage(counts, attack), coverages(counts, windows))


_NO_RUNG = RungOutcome(coverage=0.0, calm=0.0, limit=0.0, visible=False)


def _best(*rungs: RungOutcome | None) -> RungOutcome:
    """Return the better of two ways to make the same repair."""
    there = [rung for rung in rungs if rung is not None]
    if not there:
        return _NO_RUNG
    return max(there, key=lambda rung: (rung.visible, rung.coverage))


def _quiet(evidence: Evidence, attack: Segment, near: CalmWindows) -> RungOutcome:
    """Tell whether an attack has less energy than ever nearby."""
    traces = [evidence.energy]
    if evidence.refitted is not None:
        traces.append(evidence.refitted.energy)
    shares = []
    for trace in traces:
        # Each by itself: a running sum would carry the rounding of all rows before.
        calm = np.array(
            [np.mean(trace[start : start + near.length]) for start in near.starts]
        )
        own = float(np.mean(trace[attack.rows]))
        usual = float(np.median(calm))
        lowest = float(calm.min())
        is_quiet = own < lowest and own < QUIET_SHARE * usual
        share = own / usual if usual > 0 else 1.0
        shares.append((is_quiet, share, lowest / usual if usual > 0 else 1.0))
    is_quiet, share, lowest_share = min(shares, key=lambda s: (not s[0], s[1]))
    return RungOutcome(coverage=share, calm=1.0, limit=lowest_share, visible=is_quiet)


def _verdict(rungs: Mapping[str, RungOutcome]) -> Verdict:
    if rungs[RungName.DETECTED].visible:
        return Verdict.DETECTED
    cause_of = causes()
    first_three = (RungName.RECALIBRATE, RungName.REREFERENCE, RungName.REFOCUS)
    best = max((rungs[n].coverage for n in first_three if rungs[n].visible), default=0)
    for name in first_three:
        if rungs[name].visible and rungs[name].coverage >= NEARLY_ALL * best:
            return cause_of[name]
    for name in (RungName.ACCUMULATE, RungName.QUIET):
        if rungs[name].visible:
            return cause_of[name]
    if RungName.TELEMETRY in rungs and not rungs[RungName.TELEMETRY].visible:
        return Verdict.NOT_IN_TELEMETRY
    return Verdict.WEAK_EVIDENCE
