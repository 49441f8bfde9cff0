"""The paper's seven findings, each tried on the results of a study."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.resources import files

import msgspec

from sightline.evaluation.result import plain
from sightline.paper import missed_attacks, rankings
from sightline.paper.markup import one_line, render
from sightline.paper.study import Outcome, Study, Trial


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One of the paper's findings on a study: whether it holds, and by what rule.

    Parameters
    ----------
    number : int
        1 to 7, in the paper's order.
    statement : str
        What the paper states.
    outcome : Outcome
        Whether the statement holds in this study; follows from `tried` as `rule` says.
    sentence : str
        The reason, with the numbers of the study.
    rule : str
        How it was judged, with all limits.
    tried : tuple of Trial
        The outcome on each testbed, or on each two testbeds.
    """

    number: int
    statement: str
    outcome: Outcome
    sentence: str
    rule: str
    tried: tuple[Trial, ...]


@dataclass(frozen=True)
class _Text:
    """The statement of a finding, how it is tried, and where it must hold.

    `rule` names constants in braces. `quantifier` is "one" for a finding about what can
    happen, for which one testbed is enough, and "most" for any other.
    """

    statement: str
    rule: str
    quantifier: str


@dataclass(frozen=True)
class _Texts:
    """The content of ``texts/findings.toml``."""

    scope: str
    quantifiers: dict[str, str]
    findings: tuple[_Text, ...]


_TEXTS = msgspec.toml.decode(
    (files("sightline.paper") / "texts" / "findings.toml").read_bytes(), type=_Texts
)
SCOPE = _TEXTS.scope
_TRIALS: tuple[Callable[[Study], tuple[Trial, ...]], ...] = (
    rankings.same_ranking_other_alarms,
    missed_attacks.unstable_references,
    rankings.spaces_differ,
    missed_attacks.diluted_attacks,
    missed_attacks.different_fixes,
    rankings.rankings_do_not_transfer,
    rankings.agreement_follows_space,
)


def judge_findings(study: Study) -> tuple[Finding, ...]:
    """Return all seven findings, each tried on every testbed of a study.

    Parameters
    ----------
    study : Study
        The results. What a finding lacks makes it "cannot be judged", never an error.

    Returns
    -------
    tuple of Finding
        In the paper's order.
    """
    limits = {**vars(missed_attacks), **vars(rankings)}
    findings: list[Finding] = []
    for text, tried_on in zip(_TEXTS.findings, _TRIALS, strict=True):
        trials = tuple(
            replace(trial, sentence=one_line(trial.sentence))
            for trial in tried_on(study)
        )
        outcome = _outcome(text, trials)
        quantifier = _TEXTS.quantifiers[text.quantifier]
        findings.append(
            Finding(
                number=len(findings) + 1,
                statement=text.statement,
                outcome=outcome,
                sentence=_sentence(outcome, trials),
                rule=f"{text.rule.format(**limits)} {quantifier}",
                tried=trials,
            )
        )
    return tuple(findings)


def _outcome(text: _Text, trials: tuple[Trial, ...]) -> Outcome:
    """Return whether a finding holds in enough of the places that can be judged."""
    judged = [trial.outcome for trial in trials if trial.outcome != Outcome.OPEN]
    if not judged:
        return Outcome.OPEN
    needed = 1 if text.quantifier == "one" else len(judged) // 2 + 1
    is_met = judged.count(Outcome.HOLDS) >= needed
    return Outcome.HOLDS if is_met else Outcome.FAILS


def _sentence(outcome: Outcome, trials: tuple[Trial, ...]) -> str:
    """Return the first trial with this outcome, and how many places agree."""
    judged = [trial.outcome for trial in trials if trial.outcome != Outcome.OPEN]
    same = [trial for trial in trials if trial.outcome == outcome]
    if not same:
        return "There is nothing to try it on."
    sentence = f"{same[0].where}: {same[0].sentence}"
    if len(judged) > 1:
        n_holds = judged.count(Outcome.HOLDS)
        sentence += f" It holds in {n_holds} of {len(judged)} places judged."
    return sentence


def findings_json(findings: tuple[Finding, ...]) -> dict[str, object]:
    """Return the content of ``findings.json``: the scope and all findings.

    Each finding has ``number``, ``statement``, ``outcome``, ``sentence``, ``rule``, and
    ``tried``, a list of ``where``, ``outcome`` and ``sentence``.
    """
    return {"scope": SCOPE, "findings": plain([asdict(f) for f in findings])}


def findings_markdown(findings: tuple[Finding, ...]) -> str:
    """Return the content of ``findings.md``: outcomes, reasons and rules."""
    return render("findings.md", findings=findings, scope=SCOPE)
