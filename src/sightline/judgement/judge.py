"""A stream diagnosed: a verdict on every attack, and what each repair would gain."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import Bools
from sightline.data.row_tables import Tick, no_tick
from sightline.data.stream import ResidualStream
from sightline.energy.energy import ScoredTest
from sightline.judgement import ladder
from sightline.judgement.calm import AboveLimit
from sightline.judgement.evidence import Evidence, gather_evidence
from sightline.judgement.ladder import LADDER, LadderResult, Used
from sightline.judgement.sentences import advice_of, sentence_of
from sightline.judgement.subspaces import Subspace
from sightline.judgement.verdicts import (
    VERDICTS,
    DiagnosisFacts,
    Reading,
    Repair,
    RungName,
    SegmentDiagnosis,
    Signature,
    Verdict,
)
from sightline.metrics.probe import DAY_S, false_alarm_runs
from sightline.metrics.segment import SegmentMeasures

# The paper's signature: coverage from which the p99 rule sees an attack,
SEEN = 0.30
# AUC that is near chance, and AUC that is clearly above it.
NEAR_CHANCE, CLEARLY_ABOVE = 0.6, 0.7
_SAME_AS = {
    Reading.DETECTED: (Verdict.DETECTED,),
    Reading.THRESHOLD: (Verdict.THRESHOLD, Verdict.SEQUENTIAL),
    Reading.DRIFT: (Verdict.DRIFT,),
    Reading.NO_EVIDENCE: (
        Verdict.WEAK_EVIDENCE,
        Verdict.NOT_IN_TELEMETRY,
        Verdict.QUIET,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The diagnosis of a stream.

    Parameters
    ----------
    segments : tuple of SegmentDiagnosis
        One for each attack.
    repairs : dict of str to Repair
        What each repair would gain and cost; the best one first.
    verdict_counts : dict of str to int
        Attacks of each verdict, those that do not occur included.
    facts : DiagnosisFacts
        Advice, false causes, and whether telemetry was judged.
    """

    segments: tuple[SegmentDiagnosis, ...]
    repairs: dict[str, Repair]
    verdict_counts: dict[str, int]
    facts: DiagnosisFacts


def diagnose(
    stream: ResidualStream,
    scored: ScoredTest,
    rows: Sequence[SegmentMeasures],
    *,
    tick: Tick = no_tick,
) -> Diagnosis:
    """Carry out every repair on every attack of a stream.

    Parameters
    ----------
    stream : ResidualStream
        The residuals, and telemetry if it was given.
    scored : ScoredTest
        Energy, labels, alarms, and at least one attack.
    rows : sequence of SegmentMeasures
        What was measured of each attack.
    tick : callable
        Called with the number of rows of each block read.
    """
    evidence = gather_evidence(stream, scored, tick)
    results = ladder.climb(evidence, scored.segments)
    repairs = measure_repairs(evidence, results)
    false_cause_rate, n_calm_windows = ladder.try_calm_windows(
        evidence, scored.segments
    )
    counts = Counter(result.verdict for result in results)
    return Diagnosis(
        segments=tuple(
            _diagnosis_of(row, k, results, evidence, stream.p)
            for k, row in enumerate(rows)
        ),
        repairs=repairs,
        verdict_counts={str(verdict): counts[verdict] for verdict in VERDICTS},
        facts=DiagnosisFacts(
            advice=advice_of(repairs, {n: used_by(results, n) for n in LADDER}),
            false_cause_rate=false_cause_rate,
            n_calm_windows=n_calm_windows,
            telemetry_judged=evidence.telemetry is not None,
        ),
    )


def passes_over_test(stream: ResidualStream) -> int:
    """Return how often a diagnosis reads the test rows, for a progress bar."""
    return 4 if stream.telemetry_test is None else 6


def _diagnosis_of(
    row: SegmentMeasures,
    k: int,
    results: Sequence[LadderResult],
    evidence: Evidence,
    n_channels: int,
) -> SegmentDiagnosis:
    """Return what the k-th result says of its attack."""
    result, space = results[k], results[k].space
    also: list[str] = []
    more_alarms = None
    if result.verdict is Verdict.DILUTED and space is not None:
        also, more_alarms = _gain_of(space, k, results, evidence)
    signature = signature_of(row)
    return SegmentDiagnosis(
        verdict=result.verdict,
        ladder=result.outcomes,
        refocus_channels=() if space is None else space.members,
        contributing=result.contributing,
        signature=signature,
        signature_agrees=agrees(signature.reading, result.verdict),
        sentence=sentence_of(
            result, n_channels=n_channels, also=also, more_alarms=more_alarms
        ),
    )


def _gain_of(
    space: Subspace, k: int, results: Sequence[LadderResult], evidence: Evidence
) -> tuple[list[str], float | None]:
    """Return the other missed attacks that a subspace shows, and its extra alarms."""
    scored = evidence.scored
    above = AboveLimit(evidence.exceedances.above(space.column))
    also = [
        attack.id
        for i, (attack, result) in enumerate(zip(scored.attacks, results, strict=True))
        if i != k
        and result.verdict is not Verdict.DETECTED
        and (windows := evidence.windows[attack.segment.length]) is not None
        and above.judged(attack.segment, windows).visible
    ]
    before = alarms_per_day(scored, scored.alarms)
    after = alarms_per_day(scored, scored.alarms | above.rows)
    return also, None if before is None or after is None else after - before


# --- Repairs --------------------------------------------------------------------------


def used_by(results: Sequence[LadderResult], rung: str) -> list[Used]:
    """Return what a repair uses to show attacks that the p99 rule misses, sorted."""
    gained = [r for r in results if _is_gained(r, rung, RungName.DETECTED)]
    used = {result.findings[rung].used for result in gained}
    return sorted(
        (one for one in used if one is not None),
        key=lambda one: (one.column if isinstance(one, Subspace) else 0, str(one)),
    )


def measure_repairs(
    evidence: Evidence, results: Sequence[LadderResult]
) -> dict[str, Repair]:
    """Return what each repair gains: most attacks first, then fewest added alarms.

    Where the user has a rule of their own, the first one is the p99 rule beside it.
    """
    scored = evidence.scored
    repairs: dict[str, Repair] = {}
    for name, rung in LADDER.items():
        if rung.proves is None:
            continue
        used = used_by(results, name)
        is_gained = any(_is_gained(r, name, RungName.DETECTED) for r in results)
        after: Bools | None = np.zeros(scored.n_rows, np.bool_)
        if is_gained:
            after = None if rung.alarms is None else rung.alarms(evidence, used)
        repairs[str(name)] = _repair(
            scored,
            results,
            name,
            RungName.DETECTED,
            scored.alarms,
            None if after is None else scored.alarms | after,
            by=tuple(str(one) for one in used),
        )
    ordered = dict(sorted(repairs.items(), key=lambda item: _rank(item[1])))
    if scored.own_alarms is None:
        return ordered
    beside = _repair(
        scored,
        results,
        RungName.DETECTED,
        RungName.OWN_RULE,
        scored.own_alarms,
        scored.own_alarms | scored.alarms,
    )
    return {RungName.OWN_RULE.value: beside} | ordered


def _rank(repair: Repair) -> tuple[int, float]:
    """Return the key that sorts repairs."""
    before, after = (
        repair.false_alarms_per_day_before,
        repair.false_alarms_per_day_after,
    )
    return -len(repair.segments_gained), (after or 0.0) - (before or 0.0)


def _is_gained(result: LadderResult, rung: str, before: str) -> bool:
    return result.is_shown(rung) and not result.is_shown(before)


def _repair(
    scored: ScoredTest,
    results: Sequence[LadderResult],
    rung: str,
    before: str,
    alarms_before: Bools,
    alarms_after: Bools | None,
    by: tuple[str, ...] = (),
) -> Repair:
    """Return what one rung gains over another, from the alarms of both."""
    gained = tuple(
        attack.id
        for attack, result in zip(scored.attacks, results, strict=True)
        if _is_gained(result, rung, before)
    )
    n_before = sum(result.is_shown(before) for result in results)
    return Repair(
        recall_before=n_before / len(results),
        recall_after=(n_before + len(gained)) / len(results),
        segments_gained=gained,
        false_alarms_per_day_before=alarms_per_day(scored, alarms_before),
        false_alarms_per_day_after=None
        if alarms_after is None
        else alarms_per_day(scored, alarms_after),
        by=by,
    )


def alarms_per_day(scored: ScoredTest, is_alarm: Bools) -> float | None:
    """Return false alarms a day of attack-free test time.

    An alarm counts if it begins outside attacks; ignored rows are never in alarm. None
    without a step in seconds.
    """
    step_s = scored.step_s
    days = None if step_s is None else scored.is_normal.sum() * step_s / DAY_S
    if not days:
        return None
    counted = is_alarm & ~scored.is_ignored
    count = len(false_alarm_runs(counted, scored.labels, scored.breaks)[0])
    return float(count / days)


# --- The paper's signature ------------------------------------------------------------


def signature_of(row: SegmentMeasures) -> Signature:
    """Return four figures of an attack and what the paper's table reads from them.

    The table's second pattern, evidence in a smaller space, shows only between
    detectors; see `compare`.
    """
    # What overflows is None: the attack's energy, or else that of normal test rows.
    d_atk = np.inf if row.d_atk is None else row.d_atk
    beyond = np.inf if row.d_atk is None else -np.inf
    d_eff = beyond if row.d_eff is None else row.d_eff
    if row.coverage >= SEEN:
        reading = Reading.DETECTED
    elif row.sdr_usable and d_atk > 0 > d_eff and row.auc < CLEARLY_ABOVE:
        reading = Reading.DRIFT
    elif row.auc >= CLEARLY_ABOVE:
        reading = Reading.THRESHOLD
    elif row.auc <= NEAR_CHANCE and d_eff <= 0:
        reading = Reading.NO_EVIDENCE
    else:
        reading = Reading.UNCLEAR
    return Signature(
        reading=reading,
        auc=row.auc,
        coverage=row.coverage,
        sdr=row.sdr,
        d_eff=row.d_eff,
    )


def agrees(reading: Reading, verdict: Verdict) -> bool | None:
    """Return whether signature and ladder agree; None where one of them is silent.

    Examples
    --------
    >>> agrees(Reading.THRESHOLD, Verdict.THRESHOLD)
    True
    >>> agrees(Reading.DRIFT, Verdict.DILUTED)
    False
    """
    if reading is Reading.UNCLEAR or verdict is Verdict.UNDECIDED:
        return None
    return verdict in _SAME_AS[reading]
