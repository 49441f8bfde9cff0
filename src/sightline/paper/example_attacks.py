"""One attack for each of the paper's four questions, chosen by rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np

from sightline.comparison.joint import telemetry_of
from sightline.comparison.runs import DetectorRuns
from sightline.evaluation.result import SegmentResult
from sightline.judgement.sentences import telemetry_finding
from sightline.judgement.verdicts import Verdict
from sightline.paper.study import PaperStudy, caption, note, space_of
from sightline.show.phrases import SYMBOLS, Phrase, fixed, powers, whole, words
from sightline.show.printed import (
    PaperTable,
    number_cell,
    one_group,
    range_cell,
    text_cell,
)
from sightline.show.table import Column, Columns, TableCell
from sightline.text import names

LENGTH = Phrase("W", "$W$")
# Verdicts of attacks that no repair shows.
NO_EVIDENCE = (Verdict.WEAK_EVIDENCE, Verdict.NOT_IN_TELEMETRY)
# An attack's AUC is clearly above chance from the first value on, and near chance up to
# the second.
CLEAR_AUC = 0.7
NEAR_CHANCE = 0.6


def is_missed(segment: SegmentResult) -> bool:
    """Return whether a verdict says that the attack was missed."""
    return segment.verdict not in (None, Verdict.DETECTED, Verdict.UNDECIDED)


@dataclass(frozen=True)
class Example:
    """One attack as the residuals of one detector show it.

    Parameters
    ----------
    runs : DetectorRuns
        The detector on the testbed.
    segment : SegmentResult
        The attack, of the first seed, with the verdict in view of all detectors of the
        testbed (`sightline.comparison.joint`) and a sentence that says so.
    telemetry : str
        What the telemetry says of the attack, the same for all detectors.
    """

    runs: DetectorRuns
    segment: SegmentResult
    telemetry: str


@dataclass(frozen=True, kw_only=True)
class ExampleCase:
    """The answer to one question.

    Parameters
    ----------
    question : str
        The question.
    lines : tuple of tuple of Example
        Rows of the table, each with one detector or several; empty without an example.
    is_of_all : bool
        Whether the line is about all detectors of a testbed.
    remark : str, optional
        Name of the note on how the example differs from the paper's.
    """

    question: str
    lines: tuple[tuple[Example, ...], ...] = ()
    is_of_all: bool = False
    remark: str | None = None


def choose_cases(study: PaperStudy) -> tuple[ExampleCase, ...]:
    """Return the clearest attack for each question, if there is any.

    Verdicts are those of all detectors of a testbed together.

    - No evidence: no repair shows the attack, for as many as possible of the detectors
      with a verdict; of these attacks the one with the lowest median AUC.
    - Local: detected in a smaller residual space and diluted in a larger one, the
      largest gap in AUC first; else near chance and uncovered in the larger one; else
      diluted alone.
    - Threshold: verdict threshold and an AUC of at least `CLEAR_AUC`; the least covered
      first, then the highest AUC.
    - Drift: verdict drift; D_eff below 0 first, then the SDR nearest 0.

    Parameters
    ----------
    study : PaperStudy
        The results; verdicts are those of each detector's first seed.

    Returns
    -------
    tuple of ExampleCase
        Four, in this order. A case without an example has no lines.
    """
    judged = {
        (runs.testbed, runs.label): (runs, study.judged(runs)) for runs in study.runs
    }
    attacks = []
    for testbed in study.testbeds:
        for attack in study.on(testbed).attacks:
            telemetry = telemetry_finding(telemetry_of(attack))
            attacks.append(
                [
                    Example(runs, segments[attack.places[label]], telemetry)
                    for (place, label), (runs, segments) in judged.items()
                    if place == testbed and label in attack.places
                ]
            )
    return (
        _without_evidence(attacks),
        _local(attacks),
        _single(
            "Is the threshold the bottleneck?",
            attacks,
            lambda s: s.verdict == Verdict.THRESHOLD and s.auc >= CLEAR_AUC,
            order=lambda s: (s.coverage, -s.auc),
            as_in_paper=lambda s: s.coverage == 0,
            remark="threshold",
        ),
        _single(
            "Is drift hiding the attack?",
            attacks,
            lambda s: s.verdict == Verdict.DRIFT,
            order=lambda s: ((s.d_eff or 0.0) >= 0, abs(s.sdr or 0.0)),
            as_in_paper=lambda s: (s.d_eff or 0.0) < 0,
            remark="drift",
        ),
    )


def _without_evidence(attacks: Sequence[Sequence[Example]]) -> ExampleCase:
    """Return the attack that no repair shows, for the largest share of detectors."""
    question = "Is there residual evidence?"
    candidates: list[tuple[float, float, int, list[Example], int]] = []
    for attack in attacks:
        judged = [one for one in attack if one.segment.verdict is not None]
        without = [one for one in judged if one.segment.verdict in NO_EVIDENCE]
        if without:
            share = len(without) / len(judged)
            auc = float(np.median([example.segment.auc for example in without]))
            candidates.append((-share, auc, len(candidates), without, len(judged)))
    if not candidates:
        return ExampleCase(question=question)
    *_, without, n_judged = min(candidates, key=lambda item: item[:3])
    is_of_all = len(without) == n_judged > 1
    return ExampleCase(question=question, lines=(tuple(without),), is_of_all=is_of_all)


def _local(attacks: Sequence[Sequence[Example]]) -> ExampleCase:
    """Return an attack that a smaller space detects and a larger one loses."""
    question = "Is the evidence local?"
    candidates = []
    for number, attack in enumerate(attacks):
        for small, large in permutations(attack, 2):
            sizes = [one.runs.evaluation.stream.p for one in (small, large)]
            is_other_space = space_of(small.runs) != space_of(large.runs)
            if sizes[0] >= sizes[1] or not is_other_space:
                continue
            a, b = small.segment, large.segment
            is_diluted = b.verdict == Verdict.DILUTED
            is_lost = is_missed(b) and b.auc <= NEAR_CHANCE and b.coverage == 0
            if a.verdict == Verdict.DETECTED and (is_diluted or is_lost):
                gap = a.auc - b.auc
                candidates.append((not is_diluted, -gap, number, small, large))
    if candidates:
        *_, small, large = min(candidates, key=lambda item: item[:3])
        return ExampleCase(question=question, lines=((small,), (large,)))
    return _single(
        question,
        attacks,
        lambda s: s.verdict == Verdict.DILUTED,
        order=lambda s: (s.coverage, s.auc),
        as_in_paper=lambda s: False,
        remark="local",
    )


def _single(
    question: str,
    attacks: Sequence[Sequence[Example]],
    is_example: Callable[[SegmentResult], bool],
    *,
    order: Callable[[SegmentResult], tuple[float, float]],
    as_in_paper: Callable[[SegmentResult], bool],
    remark: str,
) -> ExampleCase:
    """Return the example that is first in an order, remarked if not as in the paper."""
    examples = [one for attack in attacks for one in attack if is_example(one.segment)]
    if not examples:
        return ExampleCase(question=question)
    best = min(examples, key=lambda example: order(example.segment))
    unlike = None if as_in_paper(best.segment) else remark
    return ExampleCase(question=question, lines=((best,),), remark=unlike)


def case_table(study: PaperStudy) -> PaperTable:
    """Return the values behind each case; no rows where no attack has a verdict.

    Questions without an example, and examples unlike the paper's, are named in the
    notes.

    Returns
    -------
    PaperTable
        Columns in CSV: ``question``; ``attack_testbed`` and ``attack_id``;
        ``detectors``; ``length_low`` and ``length_high``, rows of the attack; ``auc``,
        ``coverage``, ``sdr`` and ``d_eff`` as in ``segments.csv``, medians over
        detectors; ``verdict``, of all detectors together; ``confidence``, the lowest;
        ``sentence``.
    """
    has_verdicts = any(s.verdict for r in study.runs for s in r.evaluation.segments)
    cases = choose_cases(study) if has_verdicts else ()
    remarks = [note(case.remark) for case in cases if case.remark is not None]
    notes = [note("cases", length=LENGTH), *remarks]
    unanswered = [case.question for case in cases if not case.lines]
    if unanswered:
        notes.append(words(f"No attack of this study answers: {' '.join(unanswered)}"))
    return PaperTable(
        name="attack_cases",
        caption=caption("attack_cases"),
        columns=_case_columns(study),
        groups=one_group((case, line) for case in cases for line in case.lines),
        grouped_by=None,
        notes=tuple(notes),
    )


# A row of the table: a case, and one detector or several on its attack.
Line = tuple[ExampleCase, Sequence[Example]]


def segments(row: Line) -> list[SegmentResult]:
    """Return the attack as each detector of a row shows it."""
    return [example.segment for example in row[1]]


def median(row: Line, name: str) -> float | None:
    """Return the median of a figure over the detectors of a row; None without any."""
    values = (getattr(segment, name) for segment in segments(row))
    defined = [value for value in values if value is not None]
    return float(np.median(defined)) if defined else None


def _case_columns(study: PaperStudy) -> Columns[Line]:
    """Return the columns: the attack, its detectors, and medians over them."""

    def attack(row: Line) -> TableCell:
        testbed, id = row[1][0].runs.testbed, row[1][0].segment.id
        return TableCell(f"{study.testbed_title(testbed)}, segment {id}", (testbed, id))

    def detectors(row: Line) -> TableCell:
        labels = [example.runs.label for example in row[1]]
        titles = names([study.detector_title(label) for label in labels])
        title = "all detectors (median)" if row[0].is_of_all else titles
        return text_cell(names(labels), title)

    def sdr(row: Line) -> TableCell:
        is_usable = any(segment.sdr_usable for segment in segments(row))
        value = median(row, "sdr")
        return TableCell(values=(value,), printed=powers(value if is_usable else None))

    def confidence(row: Line) -> TableCell:
        known = [s.confidence for s in segments(row) if s.confidence is not None]
        return number_cell(min(known, default=None), two_digits)

    two_digits = partial(fixed, digits=2)

    def sentence(row: Line) -> TableCell:
        first = row[1][0]
        if len(row[1]) == 1:
            return text_cell(first.segment.sentence)
        nothing = "None of the repairs makes this attack stand out in these residuals."
        return text_cell(f"{nothing} {first.telemetry}")

    return (
        Column("question", "Question", lambda r: r[0].question, "p{2.1cm}"),
        Column(
            "attack", "Testbed / segment", attack, "p{2.0cm}", parts=("testbed", "id")
        ),
        Column("detectors", "Detector", detectors, "p{1.6cm}"),
        Column(
            "length",
            LENGTH,
            lambda r: range_cell([s.length for s in segments(r)], whole),
            "r",
            parts=("low", "high"),
        ),
        Column("auc", "AUC", lambda r: number_cell(median(r, "auc"), fixed), "r"),
        Column(
            "coverage",
            words("p99 cov."),
            lambda r: number_cell(median(r, "coverage"), two_digits),
            "r",
        ),
        Column("sdr", "SDR", sdr, "r"),
        Column(
            "d_eff",
            SYMBOLS["D_eff"],
            lambda r: number_cell(median(r, "d_eff"), powers),
            "r",
        ),
        Column(
            "verdict",
            "Verdict",
            lambda r: ", ".join(sorted({str(s.verdict) for s in segments(r)})),
        ),
        Column("confidence", "Conf.", confidence, "r"),
        Column("sentence", "In words", sentence, "p{4.6cm}"),
    )
