"""The protocol linter on a stream, a result, a study's folder, or a plan.

A stream is evaluated without intervals and diagnosis, so that what is found does not
depend on who asks. Of results the findings are read that their evaluation made. A plan
is checked without opening files or importing user code.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sightline.audit.record import (
    CODES,
    RANDOM_KEY,
    Finding,
    Severity,
    by_severity,
    finding,
)
from sightline.detectors import detector_type
from sightline.detectors.native_rules import rule_named
from sightline.errors import FileError, StreamError
from sightline.evaluation.pipeline import evaluate
from sightline.evaluation.result import Evaluation
from sightline.export import NO_RULE
from sightline.files import reading
from sightline.progress import Progress, silent
from sightline.storage import read_evaluation, read_stream
from sightline.study.collect import MANIFEST
from sightline.study.plan import StudyPlan, check_rows, read_plan
from sightline.text import did_you_mean, names

MORE_SEEDS: Final = "Run three seeds or more (`seeds` of a plan), or say one seed."


@dataclass(frozen=True, kw_only=True)
class LintReport:
    """What the linter found in one stream, result or plan.

    Parameters
    ----------
    subject : str
        What was looked at.
    findings : tuple of Finding
        The most serious first, without ignored codes.
    """

    subject: str
    findings: tuple[Finding, ...]

    @property
    def has_error(self) -> bool:
        """Whether a finding is an error."""
        return any(one.severity is Severity.ERROR for one in self.findings)


def lint(
    path: str | Path, *, ignore: Collection[str] = (), progress: Progress = silent
) -> tuple[LintReport, ...]:
    """Return what is wrong with the protocol of a stream, a result, or a study.

    Parameters
    ----------
    path : path
        A stream; a result folder, or a folder of results; the folder of a study; or a
        plan (``*.toml``).
    ignore : collection of str
        Codes that are not reported.
    progress : callable, optional
        Called with each `Step`.

    Returns
    -------
    tuple of LintReport
        One for each stream, result or plan.

    Raises
    ------
    FileError
        If there is nothing that can be linted.
    StreamError
        If a code to be ignored does not exist.
    """
    for code in ignore:
        if code not in CODES:
            raise StreamError(f"There is no code {code!r}; {did_you_mean(code, CODES)}")
    path = Path(path)
    with reading(path):
        results = sorted(path.glob("*/evaluation.json")) if path.is_dir() else []
        if (path / "evaluation.json").is_file():
            results = [path / "evaluation.json"]
    if path.suffix == ".toml":
        subjects = [(str(path), tuple(lint_plan(read_plan(path))))]
    elif results:
        evaluations = [read_evaluation(p) for p in results]
        subjects = [
            (p.parent.name, (*one.findings, *one_seed(one, evaluations)))
            for p, one in zip(results, evaluations, strict=True)
        ]
    elif (path / MANIFEST).is_file():
        raise FileError(f"{path}: is a study without results: run it first.")
    else:
        stream = read_stream(path)
        evaluation = evaluate(
            stream, intervals=False, diagnosis=False, metrics="none", progress=progress
        )
        found = (*evaluation.findings, *one_seed(evaluation, [evaluation]))
        subjects = [(stream.name, found)]
    return tuple(
        LintReport(
            subject=subject,
            findings=by_severity(one for one in found if one.code not in ignore),
        )
        for subject, found in subjects
    )


def one_seed(one: Evaluation, others: Sequence[Evaluation]) -> Iterator[Finding]:
    """SL115: the only seed of a random detector among some evaluations."""
    about = [(e.stream.detector, e.stream.testbed, e.guard) for e in (one, *others)]
    if one.provenance.meta.get(RANDOM_KEY) and about[1:].count(about[0]) == 1:
        yield finding(
            "SL115",
            f"{one.stream.detector or one.stream.name} was run with one seed.",
            remedy=MORE_SEEDS,
        )


def lint_plan(plan: StudyPlan) -> Iterator[Finding]:
    """Yield what a plan would do wrong, without opening files.

    Parameters
    ----------
    plan : StudyPlan
        Its user code is not imported.
    """
    for problem in check_rows(plan):
        yield finding("SL113", problem, remedy="Let one of them make the rows.")
    for choice in plan.detectors:
        if ":" in choice.detector:
            continue
        kind = detector_type(choice.detector)
        if kind.card.is_random and len(plan.seeds) == 1:
            yield finding(
                "SL115",
                f"[detectors.{choice.label}]: the plan has one seed.",
                remedy=MORE_SEEDS,
            )
        if choice.rule not in (None, NO_RULE):
            looks_at = rule_named(kind.rules, choice.rule, kind.card.title).looks_at
            if looks_at:
                yield finding(
                    "SL101",
                    f"[detectors.{choice.label}]: its rule {choice.rule!r} looks at "
                    f"{names([str(what) for what in looks_at])}.",
                    remedy="Choose a rule that looks at nothing of the test.",
                )
        own = [
            testbed.label
            for testbed in plan.testbeds
            if choice.settings_on(testbed.label).get("test_scaling") == "own"
        ]
        if own:
            yield finding(
                "SL102",
                f"[detectors.{choice.label}]: scales the test of {names(own)} by its "
                "own range (test_scaling = 'own').",
                remedy="Set test_scaling to 'train'.",
            )
