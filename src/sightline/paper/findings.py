"""The paper's seven findings, tried on a study; here those on missed attacks.

`sightline.paper.rankings` tries the others.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.resources import files
from itertools import permutations
from math import comb

import msgspec

from sightline.comparison.runs import DetectorRuns
from sightline.evaluation.result import SegmentResult, plain
from sightline.figures import Figure
from sightline.judgement.judge import METHOD, MOST_FALSE_CAUSES
from sightline.judgement.ladder import causes
from sightline.judgement.verdicts import Verdict
from sightline.paper import rankings
from sightline.paper.example_attacks import is_missed
from sightline.paper.study import Upheld, FindingTrial, PaperStudy, space_of
from sightline.show.phrases import one_line
from sightline.show.printed import render
from sightline.text import names

FEWEST_MISSED = 2
LEVEL = 0.05
# The ladder is built to give a cause to about this share of attack-free windows.
# A stream that reports a lower share is not believed beyond it.
LEAST_CHANCE = 0.05
# Detectors this close in ROC-AUC rank alike; a drift this many times another is named.
ALIKE_ROC_AUC = 0.05
NOTABLE_RATIO = 10


@dataclass(frozen=True, kw_only=True)
class PaperFinding:
    """One of the paper's findings on a study: whether it holds, and by what rule.

    Parameters
    ----------
    number : int
        1 to 7, in the paper's order.
    statement : str
        What the paper states.
    outcome : Upheld
        Whether the statement holds in this study; follows from `tried` as `rule` says.
    sentence : str
        The reason, with the numbers of the study.
    rule : str
        How it was judged, with all limits.
    tried : tuple of FindingTrial
        The outcome on each testbed, or on each two testbeds.
    """

    number: int
    statement: str
    outcome: Upheld
    sentence: str
    rule: str
    tried: tuple[FindingTrial, ...]


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


@dataclass(frozen=True)
class Missed:
    """The attacks that one detector misses.

    Parameters
    ----------
    runs : DetectorRuns
        The detector on a testbed.
    segments : tuple of SegmentResult
        Its missed attacks, of the first seed, with the verdicts of all detectors of the
        testbed together.
    chance : float
        Share of attack-free windows to which the ladder gives a cause.
    """

    runs: DetectorRuns
    segments: tuple[SegmentResult, ...]
    chance: float

    @property
    def why_unusable(self) -> str | None:
        """Why the causes of these attacks prove nothing; None where they do."""
        facts = self.runs.evaluation.diagnosis
        if facts is not None and facts.method < METHOD:
            return "verdicts by the rules of an earlier version: evaluate again"
        if self.chance > MOST_FALSE_CAUSES:
            return (
                f"causes cannot be told apart: {self.chance:.0%} of attack-free "
                "windows get one"
            )
        return None

    def beyond_chance(self, n_caused: int, n_detectors: int) -> bool:
        """Return whether chance rarely gives this many missed attacks a cause.

        The level is divided by the number of detectors tried on the testbed.
        """
        tail = binomial_tail(n_caused, len(self.segments), self.chance)
        return tail < LEVEL / n_detectors


_Judge = Callable[[PaperStudy, str, list[Missed]], tuple[Upheld, str]]


def unstable_references(study: PaperStudy) -> tuple[FindingTrial, ...]:
    """Return the trial of finding 2 on each testbed: drift beyond chance.

    It holds if more of a detector's missed attacks have the verdict drift than chance
    gives (see `Missed.beyond_chance`), for any detector; it fails if for none. Open
    where no detector misses `FEWEST_MISSED` attacks, or causes cannot be told apart.
    """
    return _on_each_testbed(study, partial(_judge_verdict, Verdict.DRIFT))


def diluted_attacks(study: PaperStudy) -> tuple[FindingTrial, ...]:
    """Return the trial of finding 4 on each testbed: dilution beyond chance.

    As `unstable_references`, for the verdict diluted. The sentence also counts the
    diluted attacks that a detector with fewer channels in another space detects.
    """
    return _on_each_testbed(study, partial(_judge_verdict, Verdict.DILUTED))


def different_fixes(study: PaperStudy) -> tuple[FindingTrial, ...]:
    """Return the trial of finding 5 on each testbed: several proven causes.

    A cause is proven on an attack if the repair of its rung gains that attack. It holds
    if the misses of any detector have two proven causes or more, and more of them are
    proven than chance gives.
    """
    return _on_each_testbed(study, _judge_fixes)


def _on_each_testbed(study: PaperStudy, judge: _Judge) -> tuple[FindingTrial, ...]:
    """Return a trial on each testbed, open where no detector misses enough attacks."""
    trials = []
    for testbed in study.testbeds:
        detectors = study.on(testbed).detectors
        missed = [m for runs in detectors if (m := _missed(study, runs)) is not None]
        usable = [m for m in missed if m.why_unusable is None]
        if usable:
            outcome, sentence = judge(study, testbed, usable)
        else:
            outcome = Upheld.OPEN
            sentence = f"No detector missed {FEWEST_MISSED} attacks."
            if not any(s.verdict for r in detectors for s in r.evaluation.segments):
                sentence = "No attack has a verdict: no diagnosis, or no attack."
            elif missed:
                sentence = "No detector's causes can be counted."
        left_out = [
            f"{study.detector_title(m.runs.label)} ({m.why_unusable})"
            for m in missed
            if m.why_unusable is not None
        ]
        if left_out:
            sentence += f" Left out: {names(left_out)}."
        trials.append(FindingTrial(study.testbed_title(testbed), outcome, sentence))
    return tuple(trials)


def _missed(study: PaperStudy, runs: DetectorRuns) -> Missed | None:
    """Return what a detector misses; None for fewer than `FEWEST_MISSED` attacks."""
    segments = tuple(filter(is_missed, study.judged(runs)))
    if len(segments) < FEWEST_MISSED:
        return None
    diagnosis = runs.evaluation.diagnosis
    rate = None if diagnosis is None else diagnosis.false_cause_rate
    return Missed(runs, segments, max(rate or 0.0, LEAST_CHANCE))


def _judge_verdict(
    verdict: Verdict, study: PaperStudy, testbed: str, missed: list[Missed]
) -> tuple[Upheld, str]:
    """Return whether a detector has this verdict more often than chance gives it.

    The sentence also compares the drifts, or counts what other detectors detect.
    """
    remark = _different_drifts if verdict == Verdict.DRIFT else _detected_elsewhere
    counted = [(sum(s.verdict == verdict for s in m.segments), m) for m in missed]
    clear = [(n, m) for n, m in counted if m.beyond_chance(n, len(missed))]
    counts = [
        f"{n} of {len(m.segments)} ({study.detector_title(m.runs.label)})"
        for n, m in sorted(clear or counted, key=lambda pair: -pair[0])
    ]
    rate = max(m.chance for m in missed)
    return Upheld.HOLDS if clear else Upheld.FAILS, (
        f"Missed attacks with the verdict {verdict}: {names(counts)}; "
        + ("more" if clear else "no more")
        + f" than expected if up to {rate:.0%} of attack-free windows get a cause."
        + remark(study, testbed)
    )


def _different_drifts(study: PaperStudy, testbed: str) -> str:
    """Return two detectors that rank alike and drift most differently, if any do."""
    drifts = []
    for runs in study.on(testbed).detectors:
        roc_auc = runs.mean(Figure.ROC_AUC)
        drift = runs.mean(Figure.D_DRIFT_ROBUST)
        p_eff = runs.mean(Figure.P_EFF)
        if roc_auc is not None and drift is not None and p_eff and drift > 0:
            title = study.detector_title(runs.label)
            drifts.append((roc_auc, 2 * drift / p_eff, title))
    pairs = [
        (a[1] / b[1], a, b)
        for a, b in permutations(drifts, 2)
        if abs(a[0] - b[0]) <= ALIKE_ROC_AUC
    ]
    ratio, most, least = max(pairs, default=(0.0, None, None))
    if most is None or least is None or ratio < NOTABLE_RATIO:
        return ""
    return (
        f" {most[2]} and {least[2]} rank alike (ROC-AUC {most[0]:.3f} and "
        f"{least[0]:.3f}), but normal energy rose by {most[1]:.3g} and {least[1]:.3g} "
        "times that of train (by the median)."
    )


def _detected_elsewhere(study: PaperStudy, testbed: str) -> str:
    """Return how many diluted attacks a detector with fewer channels detects."""
    runs = study.on(testbed)
    judged = {one.label: study.judged(one) for one in runs.detectors}
    n_diluted = n_detected = 0
    for attack in runs.attacks:
        for label, place in attack.places.items():
            if judged[label][place].verdict != Verdict.DILUTED:
                continue
            n_diluted += 1
            pooled = runs[label]
            n_detected += any(
                other.verdict == Verdict.DETECTED
                and space_of(runs[name]) != space_of(pooled)
                and runs[name].evaluation.stream.p < pooled.evaluation.stream.p
                for name, other in attack.segments.items()
            )
    if not n_diluted:
        return ""
    return (
        f" Another detector with fewer channels in another space detects {n_detected} "
        f"of the {n_diluted} diluted attacks (counted over all detectors)."
    )


def _judge_fixes(
    study: PaperStudy, testbed: str, missed: list[Missed]
) -> tuple[Upheld, str]:
    """Return whether the misses of a detector have two proven causes or more."""
    judged = []
    for m in missed:
        proven = Counter(str(s.verdict) for s in m.segments if _is_proven(m.runs, s))
        is_clear = m.beyond_chance(proven.total(), len(missed))
        judged.append((is_clear and len(proven) > 1, proven.total(), proven, m))
    holds, n_proven, proven, m = max(judged, key=lambda item: (item[0], item[1]))
    counts = names([f"{n} {cause}" for cause, n in proven.most_common()])
    return Upheld.HOLDS if holds else Upheld.FAILS, (
        f"{study.detector_title(m.runs.label)} missed {len(m.segments)} attacks; a "
        f"repair shows {n_proven} of them" + (f" ({counts})." if counts else ".")
    )


def _is_proven(runs: DetectorRuns, segment: SegmentResult) -> bool:
    """Return whether the repair of its cause gains this attack."""
    rung = next((r for r, cause in causes().items() if cause == segment.verdict), "")
    repair = (runs.evaluation.repairs or {}).get(rung)
    return repair is not None and segment.id in repair.segments_gained


def binomial_tail(n_seen: int, n: int, chance: float) -> float:
    """Return the probability of `n_seen` or more successes in `n` trials.

    Parameters
    ----------
    n_seen, n : int
        Successes and trials.
    chance : float
        Probability of success in one trial.

    Returns
    -------
    float
        Between 0 and 1; 1 for `n_seen` 0.

    Examples
    --------
    >>> binomial_tail(2, 7, 0.05)
    0.0444
    """
    return sum(
        comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n_seen, n + 1)
    )


_TRIALS: tuple[Callable[[PaperStudy], tuple[FindingTrial, ...]], ...] = (
    rankings.same_ranking_other_alarms,
    unstable_references,
    rankings.spaces_differ,
    diluted_attacks,
    different_fixes,
    rankings.rankings_do_not_transfer,
    rankings.agreement_follows_space,
)


def judge_findings(study: PaperStudy) -> tuple[PaperFinding, ...]:
    """Return all seven findings, each tried on every testbed of a study.

    Parameters
    ----------
    study : PaperStudy
        The results. What a finding lacks makes it "cannot be judged", never an error.

    Returns
    -------
    tuple of PaperFinding
        In the paper's order.
    """
    limits = {**globals(), **vars(rankings)}
    findings: list[PaperFinding] = []
    for text, tried_on in zip(_TEXTS.findings, _TRIALS, strict=True):
        trials = tuple(
            replace(trial, sentence=one_line(trial.sentence))
            for trial in tried_on(study)
        )
        outcome = _outcome(text, trials)
        quantifier = _TEXTS.quantifiers[text.quantifier]
        findings.append(
            PaperFinding(
                number=len(findings) + 1,
                statement=text.statement,
                outcome=outcome,
                sentence=_sentence(outcome, trials),
                rule=f"{text.rule.format(**limits)} {quantifier}",
                tried=trials,
            )
        )
    return tuple(findings)


def _outcome(text: _Text, trials: tuple[FindingTrial, ...]) -> Upheld:
    """Return whether a finding holds in enough of the places that can be judged."""
    judged = [trial.outcome for trial in trials if trial.outcome != Upheld.OPEN]
    if not judged:
        return Upheld.OPEN
    needed = 1 if text.quantifier == "one" else len(judged) // 2 + 1
    is_met = judged.count(Upheld.HOLDS) >= needed
    return Upheld.HOLDS if is_met else Upheld.FAILS


def _sentence(outcome: Upheld, trials: tuple[FindingTrial, ...]) -> str:
    """Return the first trial with this outcome, and how many places agree."""
    judged = [trial.outcome for trial in trials if trial.outcome != Upheld.OPEN]
    same = [trial for trial in trials if trial.outcome == outcome]
    if not same:
        return "There is nothing to try it on."
    sentence = f"{same[0].where}: {same[0].sentence}"
    if len(judged) > 1:
        n_holds = judged.count(Upheld.HOLDS)
        sentence += f" It holds in {n_holds} of {len(judged)} places judged."
    return sentence


def findings_json(findings: tuple[PaperFinding, ...]) -> dict[str, object]:
    """Return the content of ``findings.json``: the scope and all findings.

    Each finding has ``number``, ``statement``, ``outcome``, ``sentence``, ``rule``, and
    ``tried``, a list of ``where``, ``outcome`` and ``sentence``.
    """
    return {"scope": SCOPE, "findings": plain([asdict(f) for f in findings])}


def findings_markdown(findings: tuple[PaperFinding, ...]) -> str:
    """Return the content of ``findings.md``: outcomes, reasons and rules."""
    return render("findings.md", "sightline.paper", findings=findings, scope=SCOPE)
