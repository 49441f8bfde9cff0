"""A stream diagnosed: a verdict on every attack, how sure it is, what would help.

Verdicts and advice are put into words at the end: channels and numbers, and honest
about hindsight.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.data.row_tables import make_calls
from sightline.energy.energy import ScoredTest
from sightline.energy.reference import standardised_reference
from sightline.energy.tag_extremes import MOST_AT_FLOOR, usual_rank
from sightline.judgement.event_test import (
    FEW_DISJOINT,
    LEAST_ROWS,
    LEAST_WINDOWS,
    LEVEL,
    ONSET_ROWS,
    RARE,
    WAYS,
    AttackFreeRecord,
    Flag,
    Way,
    WindowFacts,
)
from sightline.judgement.ladder import (
    LADDER,
    LADDER_LEVEL,
    UNDECIDED,
    UNSURE,
    Judgement,
    Kind,
    causes,
    contributing,
    judge_case,
)
from sightline.judgement.record import JudgedRecord, judge_cases, units_of
from sightline.judgement.verdicts import (
    SINGLED_OUT,
    VERDICTS,
    Count,
    DiagnosisFacts,
    Facts,
    Found,
    Reading,
    Repair,
    RungName,
    RungOutcome,
    SegmentDiagnosis,
    Signature,
    Verdict,
)
from sightline.metrics.alarm_load import Delays, alarm_load, first_rises
from sightline.metrics.intervals import count_p_value
from sightline.metrics.measures import SegmentMeasures
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.choose import caught_words, load_words
from sightline.rules.judging import CommissioningFacts
from sightline.rules.named import REFITTED
from sightline.rules.scoring import ScoredStream
from sightline.text import duration, names, number, p_value, share

# More channels than this are counted, not listed.
MOST_NAMES: Final = 5
MOST_ATTACKS: Final = 12
_RULES: Final = {
    RungName.OWN_RULE: "Your own rule",
    RungName.PROBE: "The p99 rule",
}
# What limits the comparison with calm time, in words.
FLAG_TEXTS: Final = {
    Flag.UNMATCHED: "too few attack-free stretches in a similar state: the nearest in "
    "state were used",
    Flag.SHORTENED: "the attack-free stretches are shorter than the attack",
    Flag.STATE_CHANGED: "the state after the attack differs from that before it, so a "
    "change of normal operation cannot be told from the attack",
    Flag.FEW_WINDOWS: f"fewer than {FEW_DISJOINT} attack-free stretches do not "
    "overlap, so no p-value is given",
}
# Rungs that look at single rows, the clearest first.
_ROW_RUNGS: Final = (
    RungName.EVIDENCE,
    RungName.SPACE,
    RungName.MOMENT,
    RungName.REFERENCE,
    RungName.PROBE,
    RungName.OWN_RULE,
)
# Version of the rules by which verdicts are made.
METHOD: Final = 3
# Above this share of calm windows with a cause, causes are not to be believed.
MOST_FALSE_CAUSES: Final = 0.10
_TINY: Final = np.finfo(np.float64).tiny
# The paper's reading: coverage from which the p99 rule sees an attack,
SEEN: Final = 0.30
# AUC that is near chance, and AUC that is clearly above it.
NEAR_CHANCE: Final = 0.6
CLEARLY_ABOVE: Final = 0.7
_SAME_AS: Final = {
    Reading.COVERED: SINGLED_OUT,
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
        # What overflowed is very large.
        energy=np.minimum(test.energy, 1e300),
        calm=AttackFreeRecord(
            is_attack_free=test.attack_free.without_aftermath,
            log_energy=np.log(np.clip(test.energy, _TINY, 1e300)),
            breaks=test.breaks,
        ),
        units=units,
        channels=stream.channels,
        is_one_sided=stream.one_sided is True,
        extremes=None if stream.one_sided else scored.extremes,
    )
    pairs = {}
    margins = map(tuple, test.attack_free.margins.tolist())
    for k, (segment, margin) in enumerate(zip(test.segments, margins, strict=True)):
        if (chosen := record.calm.windows_for(segment, margin)) is not None:
            pairs[k] = segment, chosen

    cases = judge_cases(
        record,
        list(pairs.values()),
        partial(judge_case, seed=seed),
        lambda done: progress(Step(StepKind.DIAGNOSING, done + 1, len(pairs))),
    )
    # None with too little attack-free time.
    judgements: list[Judgement | None] = [None] * len(test.segments)
    for k, one in zip(pairs, cases, strict=True):
        judgements[k] = replace(one, case=replace(one.case, record=record))
    evidence = _found(judgements, RungName.EVIDENCE)
    by_rule, caught = _found(judgements, None), _caught(scored)
    segments = tuple(
        _segment(row, judgement, fact, shows, by, is_caught, record)
        for row, judgement, fact, shows, by, is_caught in zip(
            rows, judgements, scored.facts, evidence, by_rule, caught, strict=True
        )
    )
    counts = Counter(segment.verdict for segment in segments)
    return Diagnosis(
        segments=segments,
        repairs=measure_repairs(test, judgements, rules),
        verdict_counts={str(verdict): counts[verdict] for verdict in VERDICTS},
        facts=_facts(scored, judgements, rules),
    )


# --- One attack -----------------------------------------------------------------------


def _found(
    judgements: Sequence[Judgement | None], rung: RungName | None
) -> list[Found | None]:
    """Return whether a rung (by default the present rule) shows each attack."""
    known = [(one, rung or one.rule) for one in judgements if one is not None]
    p_values = [float(one.judged[name].p_value[0]) for one, name in known]
    found = (
        Found(
            is_found=bool(one.ways_of(name)),
            p_value=p,
            q_value=q,
            statistic=WAYS[one.judged[name].way[0]],
            rule=RungName(name),
        )
        for (one, name), p, q in zip(known, p_values, _q_values(p_values), strict=True)
    )
    return [None if one is None else next(found) for one in judgements]


def _caught(scored: ScoredStream) -> list[bool]:
    """Return whether an alarm of the present rule catches each attack."""
    test, rises = scored.test, scored.present.caught_at
    margins = test.attack_free.margins[:, 0]
    begins = np.array([segment.start for segment in test.segments], np.int64)
    stops = np.array([segment.stop for segment in test.segments], np.int64)
    return [bool(hit) for hit in first_rises(rises, begins - margins, stops)[1]]


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
    caught: bool,
    record: JudgedRecord,
) -> SegmentDiagnosis:
    """Return what is said of one attack."""
    # Without a step in seconds it was counted in steps, and is not reported.
    aftermath_s = None if record.scored.step_s is None else fact.aftermath_s
    verdict = Verdict.UNDECIDED
    diagnosis = SegmentDiagnosis(ladder={}, evidence_channels=(), contributing=())
    if judgement is not None:
        is_still = fact.p_value is not None and fact.movement is Movement.STILL
        verdict, diagnosis = _said_by_ladder(
            judgement, is_still=is_still, is_caught=caught
        )
    signature = signature_of(row)
    telemetry = replace(fact, aftermath_s=aftermath_s)
    diagnosis = replace(
        diagnosis,
        verdict=verdict,
        aftermath_s=aftermath_s,
        telemetry=None if fact.p_value is None else telemetry,
        signature=signature,
        signature_agrees=agrees(signature.reading, verdict),
        found=found,
        evidence=evidence,
        caught=caught,
    )
    sentence = sentence_of(diagnosis, n_channels=len(record.channels))
    return replace(diagnosis, sentence=sentence)


def _said_by_ladder(
    judgement: Judgement, *, is_still: bool, is_caught: bool
) -> tuple[Verdict, SegmentDiagnosis]:
    """Return the verdict of the ladder, and what each rung makes of the attack.

    `is_still`: the telemetry's own test does not see the attack. `is_caught`: an alarm
    of the present rule starts in it; without, what the rule shows is no detection.
    """
    instead: dict[Verdict, Verdict] = {}
    if is_still:
        instead[Verdict.WEAK_EVIDENCE] = Verdict.NOT_IN_TELEMETRY
    if not is_caught:
        instead[Verdict.DETECTED] = Verdict.ALREADY_IN_ALARM
    verdict = instead.get(judgement.verdict, judgement.verdict)
    confidence: float | None = judgement.confidence
    is_untried = bool(judgement.untried) and verdict is Verdict.UNDECIDED
    shares = {instead.get(v, v): s for v, s in judgement.shares.items()}
    shown = [n for n, outcome in judgement.outcomes.items() if outcome.visible]
    alternatives = {str(v): s for v, s in shares.items() if v is not verdict}
    if is_untried:
        confidence = None
    elif judgement.confidence < UNDECIDED:
        candidates = {str(verdict): judgement.confidence} | alternatives
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
    moment = judgement.outcomes.get(RungName.MOMENT)
    leading = moment.by if moment is not None and moment.visible else ()
    evident = tuple(dict.fromkeys([*leading, *space]))
    windows = judgement.case.windows
    return verdict, SegmentDiagnosis(
        confidence=confidence,
        alternatives=alternatives,
        ladder=judgement.outcomes,
        ladder_p_value=judgement.p_value,
        evidence_channels=memory if is_sequential and memory else evident,
        untried=judgement.untried if is_untried else (),
        contributing=contributing(shown, verdict),
        windows=WindowFacts(
            count=len(windows.starts),
            length=windows.length,
            matched=len(windows.matched),
            disjoint=windows.disjoint,
            margin=windows.margins[0],
        ),
        flags=windows.flags,
    )


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
        reading = Reading.COVERED
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
    RungName.MOMENT: "z",
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
        (attack.id, one, one.outcomes)
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

    return {
        name: replace(repairs[name], sentence=repair_sentence(name, repairs[name]))
        for name in sorted(repairs, key=net_gain, reverse=True)
    }


def _facts(
    scored: ScoredStream,
    judgements: Sequence[Judgement | None],
    rules: CommissioningFacts | None,
) -> DiagnosisFacts:
    """Return what is said of the stream as a whole."""
    test, alarms, time = scored.test, scored.present_alarms, scored.test.attack_free
    known = [one for one in judgements if one is not None]
    n_tried = sum(one.n_tried for one in known)
    rate = sum(one.n_blamed for one in known) / n_tried if n_tried else None
    delays = Delays.of_step(test.step_s)
    load = alarm_load(scored.present, time.for_alarms, delays, test.step_s)
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
        telemetry_judged=any(fact.p_value is not None for fact in scored.facts),
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
        is_standing=sum(o.rule in o.standing for o in known) > len(known) / 2,
        share_in_alarm=load.share_of_time,
        share_in_alarm_calm=load.share_of_time,
        aftermath_share=time.aftermath_share,
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
    one_more = [(part * n_windows + 1) / (n_windows + 1) for part, n_windows in chances]
    return Count(
        count=sum(hits),
        total=len(hits),
        by_chance=float(sum(part for part, _ in chances)),
        p_value=count_p_value(sum(hits), one_more),
    )


# --- In words -------------------------------------------------------------------------


@dataclass(frozen=True)
class _RungWords:
    """The figures of a rung as the templates of the sentences name them."""

    outcome: RungOutcome
    n_windows: int
    few: bool = False
    is_rule: bool = False
    margin: int = 0

    @property
    def is_alarm(self) -> bool:
        """Whether the rung is a rule of which only the alarms are known."""
        return self.is_rule and self.outcome.peak is None

    @property
    def coverage(self) -> str:
        return share(self.outcome.coverage)

    @property
    def limit(self) -> str:
        return share(self.outcome.limit)

    @property
    def by(self) -> str:
        """What was used, in words."""
        used = [by for by in self.outcome.by if not by.isdecimal()]
        spans = [by for by in self.outcome.by if by.isdecimal()]
        over = f", averaged over {spans[0]} rows" if spans else ""
        return f"{names(used)}{over}"

    @property
    def finding(self) -> str:
        """How the attack stands out, in hindsight, against calm windows."""
        ways, outcome = self.outcome.ways, self.outcome
        if Way.COVERAGE in ways or not ways:
            # The limit of a rule was there before; that of a repair was not.
            when = "" if self.is_rule else "in hindsight "
            where = "is in alarm" if self.is_alarm else "lies beyond the limit"
            text = f"{when}{self.coverage} of it {where}; "
            text += f"attack-free stretches: {share(outcome.calm)}"
        elif Way.ONSET in ways:
            where = (
                "its onset peaks"
                if self.margin
                else f"its first {ONSET_ROWS} rows peak"
            )
            text = f"{where} at {_times(outcome.onset)}"
        else:
            text = f"it peaks at {_times(outcome.peak)}"
        return f"{text}; {self.rarely}"

    @property
    def against(self) -> str:
        """Coverage of an attack that a rung does not show, and of calm windows."""
        where = "is in alarm" if self.is_alarm else "lies beyond"
        return (
            f"{self.coverage} of it {where}; attack-free stretches: "
            f"{share(self.outcome.calm)}, one in {round(1 / (1 - RARE))} above "
            f"{self.limit}"
        )

    @property
    def rarely(self) -> str:
        """How many calm stretches do the same, with the p-value where it has one."""
        p_value = self.outcome.p_value
        if p_value is None:
            return "as attack-free stretches do not"
        n = round(p_value * (1 + self.n_windows)) - 1
        count = "none" if n == 0 else f"{n}"
        kind = "overlapping " if self.few else ""
        text = f"{count} of {self.n_windows} {kind}attack-free stretches of this length"
        text += " does that" if n <= 1 else " do that"
        text = text if self.few else f"{text} (p {p_value:.2g})"
        # Shown all the same: it lies far outside, and they are a handful.
        is_far = self.outcome.visible and p_value > LEVEL
        return f"{text}, an episode that nothing explains" if is_far else text

    @property
    def moment(self) -> str:
        """How one moment of a tag stands out against attack-free blocks."""
        one, n_blocks = self.outcome, self.outcome.n_blocks or 0
        times = number(float(f"{one.coverage:.2g}"))
        more = " or more" if one.coverage == MOST_AT_FLOOR else ""
        besides = ", a handful left out" if usual_rank(n_blocks) > 2 else ""
        return (
            f"one moment of {names(one.by)} is {times}{more} times the largest of "
            f"attack-free time{besides} (largest of {n_blocks} attack-free blocks: "
            f"{number(float(f'{one.limit:.2g}'))})"
        )


def _times(multiple: float | None) -> str:
    if multiple is None or multiple >= 1e4:
        return "far beyond the limit"
    return f"{number(float(f'{multiple:.2g}'))} times the limit"


def sentence_of(diagnosis: SegmentDiagnosis, *, n_channels: int) -> str:
    """Return the verdict on one attack in words, for an operator of the plant.

    Parameters
    ----------
    diagnosis : SegmentDiagnosis
        The verdict, and what each rung makes of the attack.
    n_channels : int
        Channels that are pooled.
    """
    verdict = diagnosis.verdict or Verdict.UNDECIDED
    facts = facts_of(diagnosis)
    clauses = [c.text for c in VERDICTS[verdict].sentence if c.holds(facts)]
    text = "".join(clauses).format_map(_words(diagnosis, n_channels))
    if verdict is Verdict.UNDECIDED:
        return text
    flags = diagnosis.flags or ()
    if diagnosis.confidence is not None and diagnosis.confidence < UNSURE:
        text = f"It may be so ({share(diagnosis.confidence)} of draws agree). {text}"
    others = list(diagnosis.contributing or ())
    if others and verdict is not Verdict.DETECTED:
        repair, shows = ("repair", "shows") if len(others) == 1 else ("repairs", "show")
        text += f" The {repair} for {names(others)} {shows} it as well."
    if Flag.STATE_CHANGED in flags:
        text += (
            " The plant's state after the attack differs from that before it, so that "
            "a change of normal operation cannot be told from the attack."
        )
    return text


def facts_of(diagnosis: SegmentDiagnosis) -> Facts:
    """Return what decides which clauses hold for an attack."""
    ladder = diagnosis.ladder or {}
    shown = {name for name, outcome in ladder.items() if outcome.visible}
    rule = ladder.get(diagnosis.found.rule if diagnosis.found else RungName.PROBE)
    beyond = ladder.get(RungName.EVIDENCE)
    return Facts(
        evidence=RungName.EVIDENCE in shown,
        space=RungName.SPACE in shown,
        moment=RungName.MOMENT in shown,
        others=bool(shown & {RungName.OWN_RULE, RungName.PROBE, RungName.REFERENCE}),
        lies_beyond=beyond is not None and beyond.coverage >= SEEN,
        is_covered=diagnosis.caught is True
        or (rule is not None and rule.coverage >= SEEN),
        has_windows=diagnosis.windows is not None,
        is_untried=bool(diagnosis.untried),
    )


def _words(diagnosis: SegmentDiagnosis, n_channels: int) -> dict[str, object]:
    """Return what the templates name: figures of the rungs, and a few phrases."""
    windows, ladder = diagnosis.windows, diagnosis.ladder or {}
    nearest = list((diagnosis.alternatives or {}).items())[:2]
    words: dict[str, object] = {
        "least_windows": LEAST_WINDOWS,
        "least_rows": LEAST_ROWS,
        "untried": names([LADDER[name].label for name in diagnosis.untried or ()]),
        "leading": names([f"{word} ({share(one)} of draws)" for word, one in nearest]),
    }
    if windows is None:
        return words
    rungs = {
        name: _RungWords(
            outcome,
            windows.count,
            Flag.FEW_WINDOWS in (diagnosis.flags or ()),
            LADDER[name].kind is Kind.RULE,
            windows.margin,
        )
        for name, outcome in ladder.items()
    }
    present = diagnosis.found.rule if diagnosis.found else RungName.PROBE
    kinds = (Kind.RULE, Kind.REPAIR, Kind.MEMORY)
    best = max(
        (one for name, one in ladder.items() if LADDER[name].kind in kinds),
        key=lambda one: (one.coverage, -one.calm),
    )
    rows = [
        rungs[name].moment if name is RungName.MOMENT else rungs[name].finding
        for name in _ROW_RUNGS
        if name in ladder and ladder[name].visible
    ]
    # A single rung may stand out where so many are looked at.
    whole, together = diagnosis.ladder_p_value, ""
    if whole is not None and whole > LADDER_LEVEL:
        together = f"; of all repairs together {p_value(whole)}"
    return words | {
        **rungs,
        "rule": rungs[present],
        "rule_name": _RULES[present],
        "n_channels": n_channels,
        "n_matched": windows.matched,
        "rows_finding": rows[0] if rows else "",
        "best_finding": f"at best {share(best.coverage)} of it lies beyond a limit; "
        f"attack-free stretches: {share(best.calm)}, one in {round(1 / (1 - RARE))} "
        f"above {share(best.limit)}{together}",
        "telemetry_finding": telemetry_finding(diagnosis.telemetry),
    }


def telemetry_finding(facts: AttackFacts | None) -> str:
    """Return what the telemetry's own test says, in one sentence."""
    if facts is None or facts.p_value is None:
        return "Whether the telemetry moves was not judged: no usable one was given."
    p_value = f"p {facts.p_value:.2g}"
    if facts.movement is Movement.MOVES:
        onset = "" if facts.onset_s is None else f", {duration(facts.onset_s)} after"
        onset = onset and f"{onset} its start"
        return (
            f"But the telemetry itself moves ({p_value}), most in "
            f"{names(facts.channels)}{onset}: a better model of the plant is needed."
        )
    if facts.movement is Movement.UNCLEAR:
        return (
            "Whether the telemetry itself moves is unclear: it moves more than most of "
            f"{facts.n_windows} attack-free stretches ({p_value})."
        )
    return (
        "The telemetry's own test does not tell this attack from "
        f"{facts.n_windows} attack-free stretches ({p_value})."
    )


def repair_sentence(name: str, repair: Repair) -> str:
    """Return what a repair shows in hindsight, and what it costs as an alarm rule.

    Parameters
    ----------
    name : str
        Name of its rung.
    repair : Repair
        What it shows, and the rule that carries it out.

    Returns
    -------
    str
        Empty where it shows no attack that the present rule misses.
    """
    if not repair.segments_gained:
        return ""
    by = names(repair.by, MOST_NAMES) or "single channels"
    what = (LADDER[name].repair or name).format(by=by)
    text = (
        f"{what[0].upper()}{what[1:]} shows in hindsight "
        f"{_attacks(repair.segments_gained)}, which the present rule does not single "
        "out"
    )
    if repair.segments_lost:
        text += f", but not {_attacks(repair.segments_lost)}"
    if repair.after is None:
        return f"{text}. No alarm rule was made of it."
    rule = repair.after
    return (
        f"{text}. As alarm rule {rule.name!r} (limit {number(rule.limit)}) it makes "
        f"{load_words(rule.load)} on judged rows and catches "
        f"{caught_words(rule.attacks)}."
    )


def _attacks(ids: Sequence[str]) -> str:
    return f"attack{'' if len(ids) == 1 else 's'} {names(ids, MOST_ATTACKS)}"
