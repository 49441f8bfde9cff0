"""The paper's seven findings, each tried on the results of a study."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from sightline.evaluation.result import plain
from sightline.paper.findings import Outcome, Trial
from sightline.paper.findings.missed_attacks import (
    FEWEST_MISSED,
    LEAST_CHANCE,
    LEVEL,
    different_fixes,
    diluted_attacks,
    unstable_references,
)
from sightline.paper.findings.rankings import (
    COMPACTNESS_GAP,
    F1_RATIO,
    FEWEST_ATTACKS,
    FEWEST_DETECTORS,
    LEAST_F1,
    N_ATTACK_DRAWS,
    N_SEED_DRAWS,
    SIMILAR_ROC_AUC,
    SURE,
    WEAK_RHO,
    agreement_follows_space,
    rankings_do_not_transfer,
    same_ranking_other_alarms,
    spaces_differ,
)
from sightline.paper.markup import one_line, render
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


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """How one finding is judged.

    `is_possibility` marks a finding about what can happen: one testbed is enough for
    it. Any other finding needs more than half of the places that can be judged.
    """

    statement: str
    rule: str
    trials: Callable[[Study], tuple[Trial, ...]]
    is_possibility: bool


_ONE = " Holds if it does on at least one testbed, for it says what can happen."
_MOST = " Holds if it does in more than half of the places that can be judged."
_RULES = (
    _Rule(
        statement="Alarm-level precision, recall and F1 can rank the alarm rule's cut, "
        "not only the representation.",
        rule=f"On a testbed, take the detectors whose ROC-AUC is within "
        f"{SIMILAR_ROC_AUC} of the best; at least {FEWEST_DETECTORS} are needed. It "
        f"holds if the highest F1@p99 is at least {LEAST_F1} and at least {F1_RATIO} "
        "times the lowest, and the 95% intervals of the two (the range over seeds "
        "where there is none) do not overlap." + _ONE,
        trials=same_ranking_other_alarms,
        is_possibility=True,
    ),
    _Rule(
        statement="Some failures are reference-stability problems, not only "
        "weak-representation problems.",
        rule=f"A detector on a testbed with at least {FEWEST_MISSED} missed attacks. "
        "It holds if more of them have the verdict drift (fitting the reference again "
        "on attack-free test rows shows them) than the ladder would blame by chance: "
        f"binomial tail below {LEVEL}, divided by the number of detectors there, with "
        f"the stream's own false-cause rate, at least {LEAST_CHANCE}, as the chance."
        + _ONE,
        trials=unstable_references,
        is_possibility=True,
    ),
    _Rule(
        statement="The residual space determines what kind of evidence a detector can "
        "express.",
        rule="On a testbed with at least 2 residual spaces and 3 detectors. It holds "
        "if the compactness p_eff/p of all detectors and seeds of one space lies apart "
        f"from that of all of another, with a gap of at least {COMPACTNESS_GAP}; one "
        "of the two spaces must have 2 detectors, else it might be the detector."
        + _MOST,
        trials=spaces_differ,
        is_possibility=False,
    ),
    _Rule(
        statement="Localised attacks are diluted where all channels are pooled: hard "
        "for a residual-space reason.",
        rule="As finding 2, for the verdict diluted (scoring a smaller part of the "
        "residuals shows the attack). How many of these attacks another detector with "
        "fewer channels in another space detects is reported, but not required." + _ONE,
        trials=diluted_attacks,
        is_possibility=True,
    ),
    _Rule(
        statement="The same missed alarm can imply different fixes.",
        rule=f"A detector on a testbed with at least {FEWEST_MISSED} missed attacks. "
        "It holds if they have at least two causes, each proven on some attack by its "
        "repair, and more attacks have a cause than the ladder would blame by chance "
        "(as in finding 2)." + _ONE,
        trials=different_fixes,
        is_possibility=True,
    ),
    _Rule(
        statement="A detector ranking on one testbed does not reliably transfer to "
        "another.",
        rule=f"Two testbeds with at least {FEWEST_DETECTORS} detectors in common, "
        "ranked by ROC-AUC. It holds for the two if Spearman's rho of the means is "
        f"below {WEAK_RHO} and so it is in at least {SURE:.0%} of {N_SEED_DRAWS:,} "
        "draws of one seed for each detector and testbed; it does not hold if rho is "
        f"{WEAK_RHO} or more in at least {SURE:.0%} of them; between the two the seeds "
        "leave it open." + _MOST,
        trials=rankings_do_not_transfer,
        is_possibility=False,
    ),
    _Rule(
        statement="Detectors disagree most when they expose different evidence.",
        rule="On a testbed with pairs of detectors in one residual space and pairs "
        f"across spaces, and at least {FEWEST_ATTACKS} attacks that all share. The "
        "difference of the mean Spearman's rho of D_FULL (same space minus across; of "
        "several seeds the mean over their pairs) gets a 95% interval from "
        f"{N_ATTACK_DRAWS:,} draws of the attacks. It holds if the interval is above "
        "0, does not if the difference is 0 or less, and is open between." + _MOST,
        trials=agreement_follows_space,
        is_possibility=False,
    ),
)


def judge_findings(study: Study) -> tuple[Finding, ...]:
    """Return all seven findings, each tried on every testbed of a study."""
    findings = []
    for number, rule in enumerate(_RULES, start=1):
        trials = tuple(
            replace(trial, sentence=one_line(trial.sentence))
            for trial in rule.trials(study)
        )
        outcome = _outcome(rule, trials)
        findings.append(
            Finding(
                number=number,
                statement=rule.statement,
                outcome=outcome,
                sentence=_sentence(outcome, trials),
                rule=rule.rule,
                tried=trials,
            )
        )
    return tuple(findings)


def _outcome(rule: _Rule, trials: tuple[Trial, ...]) -> Outcome:
    judged = [trial.outcome for trial in trials if trial.outcome != Outcome.OPEN]
    if not judged:
        return Outcome.OPEN
    needed = 1 if rule.is_possibility else len(judged) // 2 + 1
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
    """Return the content of ``findings.json``: the scope and all findings."""
    return {"scope": SCOPE, "findings": plain([asdict(f) for f in findings])}


def findings_markdown(findings: tuple[Finding, ...]) -> str:
    """Return the content of ``findings.md``: outcomes, reasons and rules."""
    return render("findings.md", findings=findings, scope=SCOPE)
