"""A stream diagnosed: a verdict on every attack, how sure it is, what would help."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.data.arrays import Floats
from sightline.data.row_tables import make_calls
from sightline.energy.energy import ScoredTest
from sightline.energy.reference import standardised_reference
from sightline.judgement.confidence import UNDECIDED, Judgement, judge_case
from sightline.judgement.event_test import WAYS, AttackFreeRecord
from sightline.judgement.ladder import JOIN, causes, contributing
from sightline.judgement.record import JudgedRecord, judge_cases, units_of
from sightline.judgement.sentences import repair_sentence, sentence_of
from sightline.judgement.verdicts import (
    VERDICTS,
    Count,
    DiagnosisFacts,
    Found,
    Reading,
    Repair,
    RungName,
    RungOutcome,
    SegmentDiagnosis,
    Signature,
    Verdict,
)
from sightline.metrics.alarm_load import Delays, alarm_load, episodes_of
from sightline.metrics.segment import SegmentMeasures
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.judging import CommissioningFacts
from sightline.rules.named import REFITTED
from sightline.rules.scoring import ScoredStream

# Version of the rules by which verdicts are made.
METHOD: Final = 2
# Above this share of calm windows with a cause, causes are not to be believed.
MOST_FALSE_CAUSES: Final = 0.10
_TINY: Final = np.finfo(np.float64).tiny
# The paper's reading: coverage from which the p99 rule sees an attack,
SEEN: Final = 0.30
# AUC that is near chance, and AUC that is clearly above it.
NEAR_CHANCE: Final = 0.6
CLEARLY_ABOVE: Final = 0.7
_SAME_AS: Final = {
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
        Which attacks each repair shows; the one with the largest net gain first.
    verdict_counts : dict of str to int
        Attacks of each verdict, those that do not occur included.
    facts : DiagnosisFacts
        What is said of the stream as a whole.
    """

    segments: tuple[SegmentDiagnosis, ...]
    repairs: dict[str, Repair]
    verdict_counts: dict[str, int]
    facts: DiagnosisFacts


def judge(
    scored: ScoredStream,
    rows: Sequence[SegmentMeasures],
    rules: CommissioningFacts | None = None,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> Diagnosis:
    """Say of every attack why it was missed, by carrying out every repair on it.

    Parameters
    ----------
    scored : ScoredStream
        The stream and its energies; at least one attack.
    rows : sequence of SegmentMeasures
        What was measured of each attack.
    rules : CommissioningFacts, optional
        Alarm rules made for the budget: what repairs cost, and the advice.
    seed : int
        Seed of the draws for the confidence.
    progress : callable
        Takes a `Step` for each attack.
    """
    stream, test, moments = scored.stream, scored.test, scored.energies.moments
    reference = standardised_reference(moments, scored.energies.train.scaled_fourth)
    [units] = make_calls(stream.train, [partial(units_of, stream.train, reference)])
    record = JudgedRecord(
        scored=test,
        test=stream.test,
        calm=AttackFreeRecord(
            is_attack_free=test.attack_free.without_aftermath,
            log_energy=np.log(np.clip(test.energy, _TINY, 1e300)),
            breaks=test.breaks,
        ),
        units=units,
        channels=stream.channels,
        is_one_sided=stream.one_sided is True,
    )
    windows = map(record.calm.windows_for, test.segments)
    pairs = {
        k: (segment, chosen)
        for k, (segment, chosen) in enumerate(zip(test.segments, windows, strict=True))
        if chosen is not None
    }

    def ended(done: int) -> None:
        progress(Step(StepKind.DIAGNOSING, done + 1, len(pairs)))

    cases = judge_cases(
        record, list(pairs.values()), partial(judge_case, seed=seed), ended
    )
    # None with too little attack-free time.
    judgements: list[Judgement | None] = [None] * len(test.segments)
    for k, one in zip(pairs, cases, strict=True):
        judgements[k] = replace(one, case=replace(one.case, record=record))
    evidence = _found(judgements, RungName.EVIDENCE)
    by_rule = _found(judgements, None)
    segments = tuple(
        _segment(*one, record)
        for one in zip(rows, judgements, scored.facts, evidence, by_rule, strict=True)
    )
    counts = Counter(segment.verdict for segment in segments)
    return Diagnosis(
        segments=segments,
        repairs=measure_repairs(test, judgements, rules),
        verdict_counts={str(verdict): counts[verdict] for verdict in VERDICTS},
        facts=_facts(test, judgements, scored.facts, rules),
    )


# --- One attack -----------------------------------------------------------------------


def _found(
    judgements: Sequence[Judgement | None], rung: RungName | None
) -> list[Found | None]:
    """Return whether a rung (by default the present rule) shows each attack."""
    p_values = [
        None if one is None else float(one.judged[rung or one.rule].p_value[0])
        for one in judgements
    ]
    q_values = iter(_q_values([p for p in p_values if p is not None]))
    found: list[Found | None] = []
    for one, p_value in zip(judgements, p_values, strict=True):
        if one is None or p_value is None:
            found.append(None)
            continue
        name = rung or one.rule
        judged = one.judged[name]
        found.append(
            Found(
                is_found=bool(one.ways_of(name)),
                p_value=p_value,
                q_value=next(q_values),
                statistic=WAYS[judged.way[0]],
                rule=RungName(name),
            )
        )
    return found


def _q_values(p_values: Sequence[float]) -> list[float]:
    """Return the q-values of Benjamini and Hochberg.

    Examples
    --------
    >>> _q_values([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    if not p_values:
        return []
    p = np.asarray(p_values)
    order = np.argsort(p)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    q = np.minimum.accumulate(scaled[::-1])[::-1]
    result = np.empty(len(p))
    result[order] = np.minimum(q, 1.0)
    return [float(value) for value in result]


def _segment(
    row: SegmentMeasures,
    judgement: Judgement | None,
    fact: AttackFacts,
    evidence: Found | None,
    found: Found | None,
    record: JudgedRecord,
) -> SegmentDiagnosis:
    """Return what is said of one attack."""
    # Without a step in seconds it was counted in steps, and is not reported.
    aftermath_s = None if record.scored.step_s is None else fact.aftermath_s
    said: dict[str, Any] = {
        "verdict": Verdict.UNDECIDED,
        "ladder": {},
        "evidence_channels": (),
        "contributing": (),
    }
    if judgement is not None:
        is_still = fact.p_value is not None and fact.movement is Movement.STILL
        said = _said_by_ladder(judgement, is_still=is_still)
    signature = signature_of(row)
    diagnosis = SegmentDiagnosis(
        **said,
        aftermath_s=aftermath_s,
        telemetry=None
        if fact.p_value is None
        else replace(fact, aftermath_s=aftermath_s),
        signature=signature,
        signature_agrees=agrees(signature.reading, said["verdict"]),
        found=found,
        evidence=evidence,
    )
    sentence = sentence_of(diagnosis, n_channels=len(record.channels))
    return replace(diagnosis, sentence=sentence)


def _said_by_ladder(judgement: Judgement, *, is_still: bool) -> dict[str, Any]:
    """Return the verdict of the ladder and what each rung makes, by their fields.

    `is_still`: the telemetry's own test does not see the attack.
    """
    ladder = outcomes_of(judgement)
    verdict, confidence = judgement.verdict, judgement.confidence
    shares = {
        Verdict.NOT_IN_TELEMETRY if is_still and v is Verdict.WEAK_EVIDENCE else v: s
        for v, s in judgement.shares.items()
    }
    if verdict is Verdict.WEAK_EVIDENCE and is_still:
        verdict = Verdict.NOT_IN_TELEMETRY
    shown = [name for name, outcome in ladder.items() if outcome.visible]
    alternatives = {str(v): s for v, s in shares.items() if v is not verdict}
    if confidence < UNDECIDED:
        candidates = {str(verdict): confidence} | alternatives
        order = sorted(candidates, key=lambda word: -candidates[word])
        alternatives = {word: candidates[word] for word in order}
        verdict = Verdict.UNDECIDED
    # Channels of the best smaller space, or the one that accumulates.
    space, memory = (
        judgement.scores[name][int(judgement.judged[name].best[0])].channels
        if name in judgement.scores
        else ()
        for name in (RungName.SPACE, RungName.MEMORY)
    )
    is_sequential = judgement.verdict is Verdict.SEQUENTIAL
    windows = judgement.case.windows
    return {
        "verdict": verdict,
        "confidence": confidence,
        "alternatives": alternatives,
        "ladder": ladder,
        "ladder_p_value": judgement.p_value,
        "evidence_channels": memory if is_sequential and memory else space,
        "contributing": contributing(shown, verdict),
        "windows": windows.facts,
        "flags": windows.flags,
    }


@np.errstate(over="ignore", invalid="ignore")
def outcomes_of(judgement: Judgement) -> dict[str, RungOutcome]:
    """Return the outcome of each rung by its name, in the order of the ladder."""
    outcomes = {}
    for name, judged in judgement.judged.items():
        scores = judgement.scores[name]
        best = int(judged.best[0])
        u = scores[best].in_units[0]
        ways = judgement.ways_of(name)
        outcomes[str(name)] = RungOutcome(
            coverage=float(judged.coverage[0]),
            calm=float(judged.median[0, best, 0]),
            limit=float(judged.rare[0, best, 0]),
            visible=bool(ways),
            ways=ways,
            p_value=float(judged.p_value[0]),
            peak=None if scores[best].is_alarm else _largest(u),
            onset=None if scores[best].is_alarm else _largest(u[:10]),
            by=tuple(filter(None, scores[best].name.split(JOIN))),
        )
    share, lowest = judgement.quiet.share()
    outcomes[RungName.QUIET.value] = RungOutcome(
        coverage=share,
        calm=1.0,
        limit=lowest,
        visible=bool(judgement.quiet.is_quiet()[0]),
    )
    return outcomes


def _largest(u: Floats) -> float | None:
    """Return the mean of the three largest values; None where it overflows."""
    mean = float(np.mean(np.sort(np.minimum(u, 1e300))[-3:]))
    return mean if np.isfinite(mean) else None


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


# --- The stream -----------------------------------------------------------------------


# The alarm rule that carries out the repair of each rung.
REPAIR_RULES: Final[dict[str, str]] = {
    RungName.EVIDENCE: "energy",
    RungName.REFERENCE: REFITTED,
    RungName.SPACE: "rows",
    RungName.MEMORY: "memory",
}


def measure_repairs(
    test: ScoredTest,
    judgements: Sequence[Judgement | None],
    rules: CommissioningFacts | None = None,
) -> dict[str, Repair]:
    """Return which attacks each repair shows in place of the present rule.

    The repair that gains most attacks over those it loses comes first; of equal ones
    the one that gains more, then the cheaper. What it costs is measured by the alarm
    rule that carries it out.
    """
    made = {} if rules is None else {row.name: row for row in rules.table}
    before = None if rules is None else rules.present[-1]
    pairs = [
        (attack.id, one, outcomes_of(one))
        for attack, one in zip(test.attacks, judgements, strict=True)
        if one is not None
    ]
    found = {name for name, one, _ in pairs if one.is_found}
    repairs = {}
    for name in causes():
        shown = {id_: o[name] for id_, _, o in pairs if name in o and o[name].visible}
        gained = tuple(id_ for id_ in shown if id_ not in found)
        # Without the span of an average.
        used = Counter(
            by for id_ in gained for by in shown[id_].by if not by.isdecimal()
        )
        repairs[str(name)] = Repair(
            recall_before=len(found) / len(judgements),
            recall_after=len(shown) / len(judgements),
            segments_gained=gained,
            segments_lost=tuple(i for i, *_ in pairs if i in found and i not in shown),
            by=tuple(by for by, _ in used.most_common()),
            before=before,
            after=made.get(REPAIR_RULES.get(name, "")),
        )

    def net_gain(name: str) -> tuple[int, int]:
        gained = len(repairs[name].segments_gained)
        return gained - len(repairs[name].segments_lost), gained

    order = sorted(repairs, key=net_gain, reverse=True)
    return {
        name: replace(repairs[name], sentence=repair_sentence(name, repairs[name]))
        for name in order
    }


def _facts(
    test: ScoredTest,
    judgements: Sequence[Judgement | None],
    facts: Sequence[AttackFacts],
    rules: CommissioningFacts | None,
) -> DiagnosisFacts:
    """Return what is said of the stream as a whole."""
    known = [one for one in judgements if one is not None]
    n_tried = sum(one.n_tried for one in known)
    rate = sum(one.n_blamed for one in known) / n_tried if n_tried else None
    alarms = test.alarms if test.own_alarms is None else test.own_alarms
    time = test.attack_free
    delays = Delays.of_step(test.step_s)
    episodes = episodes_of(alarms, delays, test.breaks)
    load = alarm_load(episodes, time.for_alarms, delays, test.step_s)
    before = np.concatenate([[0], np.cumsum(alarms)])
    withheld = None
    if rate is not None and rate > MOST_FALSE_CAUSES:
        withheld = (
            "Causes on this stream cannot be told apart: the same ladder gives a cause "
            f"to {100 * rate:.0f}% of {n_tried} attack-free stretches."
        )
    return DiagnosisFacts(
        advice=None if rules is None else rules.advice,
        advice_withheld=withheld,
        false_cause_rate=rate,
        n_calm_windows=n_tried,
        telemetry_judged=any(fact.p_value is not None for fact in facts),
        rule=RungName.PROBE if test.own_alarms is None else RungName.OWN_RULE,
        found=_count(
            [one is not None and one.is_found for one in judgements],
            [(one.found_by_chance, one.n_tried) for one in known],
        ),
        # Whether an alarm in an attack without calm windows is chance is not known.
        rings=_count(
            [bool(alarms[one.case.segment.rows].any()) for one in known],
            [
                (
                    float(np.mean(before[at + one.case.windows.length] > before[at])),
                    len(at),
                )
                for one in known
                for at in [one.case.windows.matched]
            ],
        ),
        is_standing=bool(known) and sum(o.is_standing for o in known) > len(known) / 2,
        share_in_alarm=load.share_of_time,
        share_in_alarm_calm=load.share_of_time,
        aftermath_share=float(1 - time.without_aftermath.sum() / time.by_label.sum()),
        method=METHOD,
    )


def _count(hits: Sequence[bool], chances: Sequence[tuple[float, int]]) -> Count:
    """Return a count with its chance.

    Parameters
    ----------
    hits : sequence of bool
        One for each attack.
    chances : sequence of (float, int)
        Share of an attack's calm windows that are hit, and how many there are. The
        p-value (Poisson-binomial) counts one window more as hit than there were: that
        none of 60 is hit does not mean that none ever is.
    """
    n = sum(hits)
    law = np.ones(1)
    for share, n_windows in chances:
        chance = (share * n_windows + 1) / (n_windows + 1)
        law = np.convolve(law, [1 - chance, chance])
    return Count(
        count=n,
        total=len(hits),
        by_chance=float(sum(share for share, _ in chances)),
        p_value=float(min(1.0, law[n:].sum())),
    )
