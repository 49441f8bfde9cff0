"""What each repair would buy over all attacks, and what it would cost."""

from collections.abc import Sequence

import numpy as np

from sightline.data.arrays import IGNORED, Bools
from sightline.data.segments import Attack
from sightline.judgement.calm import BUDGET
from sightline.judgement.ladder import Climbed, Evidence, causes
from sightline.judgement.verdicts import Repair, RungName
from sightline.metrics.probe import DAY_S, count_false_positive_segments


def measure_repairs(
    evidence: Evidence,
    climbed: Sequence[Climbed],
    attacks: Sequence[Attack],
    *,
    step_s: float | None,
    own_alarms: Bools | None = None,
) -> dict[str, Repair]:
    """Return each repair by what it buys: most attacks first, then fewest alarms."""
    probe = evidence.energy > evidence.train_limit
    made: dict[str, Repair] = {}
    for name in causes():
        gained = [
            k
            for k, one in enumerate(climbed)
            if one.rungs
            and one.rungs[name].visible
            and not one.rungs[RungName.DETECTED].visible
        ]
        alarms, by = _alarms(evidence, [climbed[k] for k in gained], name)
        made[name] = _repair(
            evidence,
            climbed,
            attacks,
            RungName.DETECTED,
            gained,
            probe,
            None if alarms is None else probe | alarms,
            by,
            step_s,
        )
    ordered = dict(sorted(made.items(), key=lambda item: _rank(item[1])))
    if own_alarms is None:
        return ordered
    gained = [
        k
        for k, one in enumerate(climbed)
        if one.rungs
        and one.rungs[RungName.DETECTED].visible
        and not one.rungs[RungName.OWN_RULE].visible
    ]
    own = _repair(
        evidence,
        climbed,
        attacks,
        RungName.OWN_RULE,
        gained,
        own_alarms,
        own_alarms | probe,
        (),
        step_s,
    )
    return {RungName.OWN_RULE: own} | ordered


def _rank(repair: Repair) -> tuple[int, float]:
    more = (repair.false_alarms_per_day_after or 0.0) - (
        repair.false_alarms_per_day_before or 0.0
    )
    return -len(repair.segments_gained), more


def _repair(
    evidence: Evidence,
    climbed: Sequence[Climbed],
    attacks: Sequence[Attack],
    before: str,
    gained: Sequence[int],
    alarms_before: Bools,
    alarms_after: Bools | None,
    by: tuple[str, ...],
    step_s: float | None,
) -> Repair:
    n_attacks = len(climbed)
    n_before = sum(bool(one.rungs) and one.rungs[before].visible for one in climbed)
    return Repair(
        recall_before=n_before / n_attacks,
        recall_after=(n_before + len(gained)) / n_attacks,
        segments_gained=tuple(attacks[k].id for k in gained),
        false_alarms_per_day_before=alarms_per_day(evidence, alarms_before, step_s),
        false_alarms_per_day_after=None
        if alarms_after is None
        else alarms_per_day(evidence, alarms_after, step_s),
        by=by,
    )


def alarms_per_day(
    evidence: Evidence, is_alarm: Bools, step_s: float | None
) -> float | None:
    """Return false alarms a day of attack-free test time; None without a step."""
    days = None if step_s is None else evidence.is_normal.sum() * step_s / DAY_S
    if not days:
        return None
    # Whatever happens in ignored rows, it is no part of an alarm.
    counted = is_alarm & (evidence.labels != IGNORED)
    count = count_false_positive_segments(counted, evidence.labels, evidence.breaks)
    return float(count / days)


def _alarms(
    evidence: Evidence, gained: Sequence[Climbed], name: str
) -> tuple[Bools | None, tuple[str, ...]]:
    """Return when a repair would be in alarm, using what the gained attacks need.

    None where that cannot be told.
    """
    energy = evidence.energy
    nothing = np.zeros(len(energy), np.bool_)
    if not gained:
        return nothing, ()
    if name == RungName.RECALIBRATE:
        limit = np.quantile(energy[evidence.is_normal], 1 - BUDGET)
        return energy > limit, ()
    if name == RungName.REREFERENCE:
        refitted = evidence.refitted
        where = tuple(sorted({one.rungs[name].by[0] for one in gained}))
        if refitted is None or "around it" in where:
            # A reference that follows the plant has no alarms of one trace to count.
            return None, where
        return refitted.energy > refitted.limit, where
    if name == RungName.REFOCUS:
        spaces = sorted({one.refocus_space or 0 for one in gained})
        above = [evidence.exceedances.above(space) for space in spaces]
        family = evidence.exceedances.family
        return np.any(above, axis=0), tuple(family.name(s) for s in spaces)
    ways = evidence.accumulated
    if name == RungName.ACCUMULATE:
        used = sorted({one.rungs[name].by[0] for one in gained})
        above = [ways.is_above[ways.names.index(way)] for way in used]
        return np.any(above, axis=0), tuple(used)
    return ways.is_low, ()
