"""The paper's seven findings, each tried on a study's own results."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from sightline.comparison.compare import Comparison
from sightline.evaluation.result import plain
from sightline.paper.findings.figures import (
    same_ranking_other_alarms,
    spaces_differ,
)
from sightline.paper.findings.missed_attacks import (
    different_fixes,
    diluted_attacks,
    unstable_references,
)
from sightline.paper.findings.outcome import CANNOT, FAILS, HOLDS, Tried
from sightline.paper.findings.rankings import (
    agreement_follows_space,
    rankings_do_not_transfer,
)
from sightline.paper.markup import escaped_markdown, one_line
from sightline.paper.study import Study

SCOPE = (
    "A finding that holds here holds for these attacks, these recordings, these "
    "detectors as they were trained, and this evaluation. It says nothing about other "
    "attacks or other plants. One that cannot be judged is not refuted. The limits in "
    "the rules are conventions, set with the paper's own numbers in view, and seven "
    "findings are tried at once: read the numbers, not the words alone."
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One of the paper's findings on a study: does it hold, and by what rule.

    `tried` has one entry for each testbed (or pair of testbeds) with its own outcome
    and sentence; `outcome` follows from them as `rule` says.
    """

    number: int
    statement: str
    outcome: str
    sentence: str
    rule: str
    tried: tuple[Tried, ...]


@dataclass(frozen=True, kw_only=True)
class _Rule:
    statement: str
    rule: str
    tries: Callable[[Study, Comparison], tuple[Tried, ...]]
    # Whether one place is enough, or more than half of those judged are needed.
    is_possibility: bool


_ONE = " Holds if it does on at least one testbed, for it says what can happen."
_MOST = " Holds if it does in more than half of the places that can be judged."
_RULES = (
    _Rule(
        statement="Alarm-level precision, recall and F1 can rank the alarm rule's cut, "
        "not only the representation.",
        rule="On a testbed, take the detectors whose ROC-AUC is within 0.15 of the "
        "best; at least 3 are needed. It holds if the highest F1@p99 is at least 0.1 "
        "and at least 3 times the lowest, and the 95% intervals of the two (the range "
        "over seeds where there is none) do not overlap." + _ONE,
        tries=same_ranking_other_alarms,
        is_possibility=True,
    ),
    _Rule(
        statement="Some failures are reference-stability problems, not only "
        "weak-representation problems.",
        rule="A detector on a testbed with at least 2 missed attacks. It holds if more "
        "of them have the verdict drift (refitting the reference on calm test hours "
        "shows them) than the ladder would blame by chance: binomial tail below 0.05, "
        "divided by the number of detectors there, with the stream's own false-cause "
        "rate, at least 0.05, as the chance." + _ONE,
        tries=unstable_references,
        is_possibility=True,
    ),
    _Rule(
        statement="The residual space determines what kind of evidence a detector can "
        "express.",
        rule="On a testbed with at least 2 residual spaces and 3 detectors. It holds "
        "if the compactness p_eff/p of all detectors and seeds of one space lies apart "
        "from that of all of another, with a gap of at least 0.1; one of the two "
        "spaces must have 2 detectors, else it might be the detector." + _MOST,
        tries=spaces_differ,
        is_possibility=False,
    ),
    _Rule(
        statement="Localised attacks are diluted where all channels are pooled: hard "
        "for a residual-space reason.",
        rule="As finding 2, for the verdict diluted (scoring a smaller part of the "
        "residuals shows the attack). How many of these attacks another detector with "
        "fewer channels in another space detects is told, not needed." + _ONE,
        tries=diluted_attacks,
        is_possibility=True,
    ),
    _Rule(
        statement="The same missed alarm can imply different fixes.",
        rule="A detector on a testbed with at least 2 missed attacks. It holds if they "
        "have at least two causes, each proven on some attack by its repair, and more "
        "attacks have a cause than the ladder would blame by chance (as in finding 2)."
        + _ONE,
        tries=different_fixes,
        is_possibility=True,
    ),
    _Rule(
        statement="A detector ranking on one testbed does not reliably transfer to "
        "another.",
        rule="Two testbeds with at least 3 detectors in common, ranked by ROC-AUC. It "
        "holds for the two if Spearman's rho of the means is below 0.5 and so it is in "
        "at least 95% of 2,000 draws of one seed for each detector and testbed; it "
        "does not hold if rho is 0.5 or more in at least 95% of them; between the two "
        "the seeds leave it open." + _MOST,
        tries=rankings_do_not_transfer,
        is_possibility=False,
    ),
    _Rule(
        statement="Detectors disagree most when they expose different evidence.",
        rule="On a testbed with pairs of detectors in one residual space and pairs "
        "across spaces, and at least 5 attacks that all share. The difference of the "
        "mean Spearman's rho of D_FULL (same space minus across) gets a 95% interval "
        "from 1,000 draws of the attacks. It holds if the interval is above 0, does "
        "not if the difference is 0 or less, and is open between." + _MOST,
        tries=agreement_follows_space,
        is_possibility=False,
    ),
)


def judge_findings(study: Study, compared: Comparison) -> tuple[Finding, ...]:
    """Try all seven findings on a study."""
    found = []
    for number, rule in enumerate(_RULES, start=1):
        tried = tuple(
            replace(one, sentence=one_line(one.sentence))
            for one in rule.tries(study, compared)
        )
        outcome = _outcome(rule, tried)
        found.append(
            Finding(
                number=number,
                statement=rule.statement,
                outcome=outcome,
                sentence=_sentence(outcome, tried),
                rule=rule.rule,
                tried=tried,
            )
        )
    return tuple(found)


def _outcome(rule: _Rule, tried: tuple[Tried, ...]) -> str:
    judged = [one.outcome for one in tried if one.outcome != CANNOT]
    if not judged:
        return CANNOT
    n_holds = judged.count(HOLDS)
    needed = 1 if rule.is_possibility else len(judged) // 2 + 1
    return HOLDS if n_holds >= needed else FAILS


def _sentence(outcome: str, tried: tuple[Tried, ...]) -> str:
    """Return the clearest of what was seen, and how many places agree."""
    same = [one for one in tried if one.outcome == outcome]
    judged = [one for one in tried if one.outcome != CANNOT]
    if not same:
        return "There is nothing to try it on."
    told = f"{same[0].where}: {same[0].sentence}"
    if len(judged) > 1:
        n_holds = sum(one.outcome == HOLDS for one in judged)
        told += f" It holds in {n_holds} of {len(judged)} places judged."
    return told


def findings_json(findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Return findings as JSON has them."""
    listed: list[Any] = plain([asdict(finding) for finding in findings])
    return {"scope": SCOPE, "findings": listed}


def findings_markdown(findings: tuple[Finding, ...]) -> str:
    """Return findings for people."""
    lines = ["# The paper's findings on this study", "", SCOPE, ""]
    lines += ["| finding | outcome |", "|---|---|"]
    lines += [f"| {f.number}. {f.statement} | **{f.outcome}** |" for f in findings]
    for finding in findings:
        lines += [
            "",
            f"## {finding.number}. {finding.statement}",
            "",
            f"**{finding.outcome.capitalize()}.** {escaped_markdown(finding.sentence)}",
        ]
        if len(finding.tried) > 1:
            lines += [
                "",
                *(
                    f"- {escaped_markdown(one.where)}: {one.outcome}. "
                    f"{escaped_markdown(one.sentence)}"
                    for one in finding.tried
                ),
            ]
        lines += ["", f"Rule: {escaped_markdown(finding.rule)}"]
    return "\n".join(lines) + "\n"
