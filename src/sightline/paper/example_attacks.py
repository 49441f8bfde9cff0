"""One attack for each of the paper's four questions, chosen by rule."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.evaluation.result import SegmentResult
from sightline.paper.markup import (
    NOT_KNOWN,
    Phrase,
    fixed,
    listed_in_words,
    powers,
    span,
    whole,
    words,
)
from sightline.paper.study import Pair, Study
from sightline.paper.table import Cell, Column, Group, PaperTable

# Verdicts that say no repair shows the attack.
NO_EVIDENCE = ("weak-evidence", "not-in-telemetry")
# From here on an attack's AUC is clearly above chance; up to there it is near it.
CLEAR_AUC = 0.7
NEAR_CHANCE = 0.6


@dataclass(frozen=True)
class Seen:
    """One attack as one detector's residuals show it."""

    pair: Pair
    row: SegmentResult

    @property
    def is_missed(self) -> bool:
        """Whether a verdict says that it was missed."""
        return self.row.verdict not in (None, "detected", "undecided")


@dataclass(frozen=True, kw_only=True)
class Case:
    """An answer to one question: rows of a table, or a word on why there is none."""

    question: str
    lines: tuple[tuple[Seen, ...], ...] = ()
    lead: tuple[str, ...] = ()
    remark: str | None = None


def choose_cases(study: Study) -> tuple[Case, ...]:
    """Return the most telling attack for each question, if there is any.

    - No evidence: missed by all (else by most) that were judged, no repair shows it;
      of these the one whose median AUC is lowest.
    - Local: detected in a smaller residual space and diluted in a larger one, the
      largest gap in AUC first; else near chance and uncovered in the larger one; else
      diluted alone.
    - Threshold: verdict threshold and AUC of at least 0.7; the least covered first,
      then the highest AUC.
    - Drift: verdict drift; D_eff below 0 first, then the SDR nearest 0.
    """
    attacks = [
        [
            Seen(pair, row)
            for pair in study.on(testbed)
            if (row := by.get(pair.detector))
        ]
        for testbed in study.testbeds
        for by in study.rows(testbed)
    ]
    return (
        _without_evidence(attacks),
        _local(attacks),
        _alone(
            "Is the threshold the bottleneck?",
            attacks,
            "threshold",
            lambda one: one.row.auc >= CLEAR_AUC,
            lambda one: (one.row.coverage, -one.row.auc),
            lambda one: (
                "No attack with the verdict threshold has zero coverage, as the "
                "paper's example has; shown is the least covered."
                if one.row.coverage > 0
                else None
            ),
        ),
        _alone(
            "Is drift hiding the attack?",
            attacks,
            "drift",
            lambda one: True,
            lambda one: ((one.row.d_eff or 0.0) >= 0, abs(one.row.sdr or 0.0)),
            lambda one: (
                "No attack with the verdict drift has D_eff below 0, as the paper's "
                "example has; shown is the SDR nearest 0."
                if (one.row.d_eff or 0.0) >= 0
                else None
            ),
        ),
    )


def _without_evidence(attacks: Sequence[Sequence[Seen]]) -> Case:
    question = "Is there residual evidence?"
    found: list[tuple[float, float, int, list[Seen], int]] = []
    for attack in attacks:
        judged = [one for one in attack if one.row.verdict is not None]
        without = [one for one in judged if one.row.verdict in NO_EVIDENCE]
        if without:
            share = len(without) / len(judged)
            auc = float(np.median([one.row.auc for one in without]))
            found.append((-share, auc, len(found), without, len(judged)))
    if not found:
        return Case(question=question)
    *_, without, n_judged = min(found, key=lambda item: item[:3])
    whose = "all detectors" if len(without) == n_judged > 1 else None
    return Case(
        question=question,
        lines=(tuple(without),),
        lead=(whose or _names(without),),
    )


def _local(attacks: Sequence[Sequence[Seen]]) -> Case:
    question = "Is the evidence local?"
    found = []
    for number, attack in enumerate(attacks):
        for small, large in _by_size(attack):
            if small.row.verdict != "detected" or not large.is_missed:
                continue
            is_diluted = large.row.verdict == "diluted"
            is_lost = large.row.auc <= NEAR_CHANCE and large.row.coverage == 0
            if is_diluted or is_lost:
                gap = small.row.auc - large.row.auc
                found.append((not is_diluted, -gap, number, small, large))
    if found:
        *_, small, large = min(found, key=lambda item: item[:3])
        return Case(
            question=question,
            lines=((small,), (large,)),
            lead=(_names([small]), _names([large])),
        )
    return _alone(
        question,
        attacks,
        "diluted",
        lambda one: True,
        lambda one: (one.row.coverage, one.row.auc),
        lambda one: (
            "No detector in a smaller space detects an attack that a larger one "
            "dilutes; shown is one that a part of the same residuals shows."
        ),
    )


def _by_size(attack: Sequence[Seen]) -> Iterator[tuple[Seen, Seen]]:
    """Give two detectors on one attack whose spaces differ, the smaller first."""
    for small in attack:
        for large in attack:
            if (
                small.pair.space != large.pair.space
                and small.pair.first.stream.p < large.pair.first.stream.p
            ):
                yield small, large


def _alone(
    question: str,
    attacks: Sequence[Sequence[Seen]],
    verdict: str,
    is_example: Callable[[Seen], bool],
    order: Callable[[Seen], tuple[float, float]],
    remark: Callable[[Seen], str | None],
) -> Case:
    found = [
        one
        for attack in attacks
        for one in attack
        if one.row.verdict == verdict and is_example(one)
    ]
    if not found:
        return Case(question=question)
    best = min(found, key=order)
    return Case(
        question=question,
        lines=((best,),),
        lead=(_names([best]),),
        remark=remark(best),
    )


def _names(seen: Sequence[Seen]) -> str:
    return listed_in_words([one.pair.detector for one in seen])


def case_table(study: Study) -> PaperTable | None:
    """Return the values behind each case; None where no attack has a verdict."""
    if not any(row.verdict for pair in study.pairs for row in pair.first.segments):
        return None
    rows, without, remarks = [], [], []
    for case in choose_cases(study):
        if not case.lines:
            without.append(case.question)
        if case.remark is not None:
            remarks.append(words(case.remark))
        rows += [
            _case_row(study, case.question, seen, lead)
            for seen, lead in zip(case.lines, case.lead, strict=True)
        ]
    notes = [
        words(
            "Chosen by rule from the verdicts of this study, each of a detector's "
            "first seed. Several detectors: W is a range, all else a median. SDR is "
            "left out where drift is too small, negative or made by few points."
        ),
        *remarks,
    ]
    if without:
        notes.append(words(f"No attack of this study answers: {' '.join(without)}"))
    return PaperTable(
        name="attack_cases",
        caption=words(
            "Representative attacks, one for each question. Similar missed alarms can "
            "come from weak evidence, local evidence, the threshold, or drift. AUC is "
            "of one segment against attack-free test points; coverage is the share of "
            "its points above the p99 limit."
        ),
        columns=(
            Column(key="question", header=words("Question"), align="p{2.1cm}"),
            Column(
                key="attack",
                header=words("Testbed / segment"),
                align="p{2.0cm}",
                parts=("testbed", "id"),
            ),
            Column(key="detectors", header=words("Detector"), align="p{1.6cm}"),
            Column(key="length", header=Phrase("W", "$W$"), parts=("low", "high")),
            Column(key="auc", header=words("AUC")),
            Column(key="coverage", header=words("p99 cov.")),
            Column(key="sdr", header=words("SDR")),
            Column(key="d_eff", header=Phrase("D_eff", r"$D_{\mathrm{eff}}$")),
            Column(key="verdict", header=words("Verdict"), align="l"),
            Column(key="sentence", header=words("In words"), align="p{4.6cm}"),
        ),
        groups=(Group(name="", title="", rows=tuple(rows)),),
        grouped_by=None,
        notes=tuple(notes),
    )


def _case_row(
    study: Study, question: str, seen: Sequence[Seen], lead: str
) -> tuple[Cell, ...]:
    testbed = seen[0].pair.testbed
    one = seen[0].row
    title = f"{study.testbed_title(testbed)}, segment {one.id}"
    lengths = [s.row.length for s in seen]
    several = len(seen) > 1
    names = [study.detector_title(s.pair.detector) for s in seen]
    told = f"{lead} (median)" if lead == "all detectors" else listed_in_words(names)
    verdicts = sorted({str(s.row.verdict) for s in seen})
    sentence = _sentence(one, several)

    def median(name: str) -> float | None:
        values = [getattr(s.row, name) for s in seen]
        known = [v for v in values if v is not None]
        return float(np.median(known)) if known else None

    auc, coverage = median("auc"), median("coverage")
    sdr, d_eff = median("sdr"), median("d_eff")
    return (
        Cell(words(question), (question,)),
        Cell(words(title), (testbed, one.id)),
        Cell(words(told), (listed_in_words([s.pair.detector for s in seen]),)),
        Cell(
            span(whole(min(lengths)), whole(max(lengths))), (min(lengths), max(lengths))
        ),
        Cell(fixed(auc), (auc,)),
        Cell(fixed(coverage, 2), (coverage,)),
        Cell(powers(sdr if any(s.row.sdr_usable for s in seen) else None), (sdr,)),
        Cell(powers(d_eff), (d_eff,)),
        Cell(words(", ".join(verdicts)), (", ".join(verdicts),)),
        Cell(NOT_KNOWN if sentence is None else words(sentence), (sentence,)),
    )


def _sentence(row: SegmentResult, several: bool) -> str | None:
    if several:
        return "None of the repairs makes this attack stand out in these residuals."
    return row.sentence
