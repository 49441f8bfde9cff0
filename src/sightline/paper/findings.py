"""The paper's seven findings, tried on a study.

Those on missed attacks (2, 4 and 5) come first, then those on figures of detectors:
alarms, compactness, rankings and agreement (1, 3, 6 and 7).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from importlib.resources import files
from itertools import combinations, permutations

import msgspec
import numpy as np

from sightline.comparison.runs import DetectorRuns, Spread, TestbedRuns
from sightline.data.arrays import Floats
from sightline.evaluation.result import SegmentResult, plain
from sightline.figures import Figure
from sightline.judgement.judge import METHOD, MOST_FALSE_CAUSES
from sightline.judgement.ladder import causes
from sightline.judgement.verdicts import Verdict
from sightline.metrics.ranking import rank_correlation
from sightline.paper.study import PaperStudy, is_missed, space_of
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
# Finding 1: detectors this close to the best ROC-AUC rank alike, and at least
# `FEWEST_DETECTORS` of them are needed. Their F1 must differ by this factor, and the
# best must reach `LEAST_F1`.
SIMILAR_ROC_AUC = 0.15
FEWEST_DETECTORS = 3
F1_RATIO = 3
LEAST_F1 = 0.1
# Finding 3: the least gap between the compactness of two residual spaces.
COMPACTNESS_GAP = 0.1
# Finding 6: below this rho two rankings are weakly related at best, and this share of
# draws of seeds must agree.
WEAK_RHO = 0.5
SURE = 0.95
N_SEED_DRAWS = 2000
# So that a rho of exactly one half is not below it by rounding.
_ROUNDING = 1e-9
# Finding 7.
FEWEST_ATTACKS = 5
N_ATTACK_DRAWS = 1000


class Upheld(StrEnum):
    """Whether a finding holds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be judged"


@dataclass(frozen=True)
class FindingTrial:
    """The outcome of a finding in one place.

    Parameters
    ----------
    where : str
        A testbed, or two testbeds, by title.
    outcome : Upheld
        Whether the finding holds there.
    sentence : str
        The reason, with the numbers of the study.
    """

    where: str
    outcome: Upheld
    sentence: str


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
        from scipy.stats import binom

        tail = binom.sf(n_caused - 1, len(self.segments), self.chance)
        return bool(tail < LEVEL / n_detectors)


# Whether a finding holds, and why.
Outcome = tuple[Upheld, str]
_Judge = Callable[[PaperStudy, str, list[Missed]], Outcome]


def unstable_references(study: PaperStudy, testbed: str) -> Outcome:
    """Try finding 2 on a testbed: drift beyond chance.

    It holds if more of a detector's missed attacks have the verdict drift than chance
    gives (see `Missed.beyond_chance`), for any detector; it fails if for none. Open
    where no detector misses `FEWEST_MISSED` attacks, or causes cannot be told apart.
    """
    return _of_missed(study, testbed, partial(_judge_verdict, Verdict.DRIFT))


def diluted_attacks(study: PaperStudy, testbed: str) -> Outcome:
    """Try finding 4 on a testbed: dilution beyond chance.

    As `unstable_references`, for the verdict diluted. The sentence also counts the
    diluted attacks that a detector with fewer channels in another space detects.
    """
    return _of_missed(study, testbed, partial(_judge_verdict, Verdict.DILUTED))


def different_fixes(study: PaperStudy, testbed: str) -> Outcome:
    """Try finding 5 on a testbed: several proven causes.

    A cause is proven on an attack if the repair of its rung gains that attack. It holds
    if the misses of any detector have two proven causes or more, and more of them are
    proven than chance gives.
    """
    return _of_missed(study, testbed, _judge_fixes)


def _of_missed(study: PaperStudy, testbed: str, judge: _Judge) -> Outcome:
    """Judge the missed attacks; open where no detector misses enough of them."""
    detectors = study.on(testbed).detectors
    missed = []
    for runs in detectors:
        segments = tuple(filter(is_missed, study.judged(runs)))
        if len(segments) >= FEWEST_MISSED:
            facts = runs.evaluation.diagnosis
            rate = facts.false_cause_rate if facts is not None else None
            missed.append(Missed(runs, segments, max(rate or 0.0, LEAST_CHANCE)))
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
    return outcome, sentence


def _judge_verdict(
    verdict: Verdict, study: PaperStudy, testbed: str, missed: list[Missed]
) -> Outcome:
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


def _judge_fixes(study: PaperStudy, testbed: str, missed: list[Missed]) -> Outcome:
    """Return whether the misses of a detector have two proven causes or more."""
    rungs: dict[Verdict | None, str]
    rungs = {cause: rung for rung, cause in reversed(causes().items())}
    judged = []
    for m in missed:
        # A cause is proven if the repair of its rung gains the attack.
        repairs = m.runs.evaluation.repairs or {}
        proven: Counter[str] = Counter()
        for segment in m.segments:
            repair = repairs.get(rungs.get(segment.verdict, ""))
            if repair is not None and segment.id in repair.segments_gained:
                proven[str(segment.verdict)] += 1
        is_clear = m.beyond_chance(proven.total(), len(missed))
        judged.append((is_clear and len(proven) > 1, proven.total(), proven, m))
    holds, n_proven, proven, m = max(judged, key=lambda item: (item[0], item[1]))
    counts = names([f"{n} {cause}" for cause, n in proven.most_common()])
    return Upheld.HOLDS if holds else Upheld.FAILS, (
        f"{study.detector_title(m.runs.label)} missed {len(m.segments)} attacks; a "
        f"repair shows {n_proven} of them" + (f" ({counts})." if counts else ".")
    )


def same_ranking_other_alarms(study: PaperStudy, testbed: str) -> Outcome:
    """Try finding 1 on a testbed: equal ranking, other alarms.

    Among the detectors within `SIMILAR_ROC_AUC` of the best mean ROC-AUC it holds if
    the highest mean F1@p99 is at least `LEAST_F1` and `F1_RATIO` times the lowest, and
    the 95% intervals of the two do not overlap. Open for fewer than `FEWEST_DETECTORS`.
    """
    detectors = study.on(testbed).detectors
    figures: list[tuple[float, float, DetectorRuns]] = []
    for runs in detectors:
        roc_auc, f1 = runs.mean(Figure.ROC_AUC), runs.mean(Figure.F1)
        if roc_auc is not None and f1 is not None:
            figures.append((roc_auc, f1, runs))
    best = max((roc_auc for roc_auc, *_ in figures), default=0.0)
    alike = [figure for figure in figures if figure[0] >= best - SIMILAR_ROC_AUC]
    if len(alike) < FEWEST_DETECTORS:
        return (
            Upheld.OPEN,
            f"{len(alike)} of {len(detectors)} detectors have a ROC-AUC within "
            f"{SIMILAR_ROC_AUC} of the best; {FEWEST_DETECTORS} are needed.",
        )
    roc_aucs = [roc_auc for roc_auc, *_ in alike]
    _, most, high = max(alike, key=lambda figure: figure[1])
    _, least, low = min(alike, key=lambda figure: figure[1])
    is_apart = _f1_range(high)[0] > _f1_range(low)[1]
    is_much = most >= max(F1_RATIO * least, LEAST_F1)
    return (
        Upheld.HOLDS if is_apart and is_much else Upheld.FAILS,
        f"{len(alike)} detectors have ROC-AUC from {min(roc_aucs):.3f} to "
        f"{max(roc_aucs):.3f}, and F1@p99 from {least:.3f} "
        f"({study.detector_title(low.label)}) to {most:.3f} "
        f"({study.detector_title(high.label)})"
        + ("." if is_apart else ", whose intervals overlap."),
    )


def _f1_range(runs: DetectorRuns) -> tuple[float, float]:
    """Return the widest 95% interval of F1 over seeds; without any, their range."""
    ends = [
        end
        for result in runs.results
        for end in (result.evaluation.intervals or {}).get(Figure.F1) or ()
        if end is not None
    ] or runs.values(Figure.F1)
    return min(ends), max(ends)


def spaces_differ(study: PaperStudy, testbed: str) -> Outcome:
    """Try finding 3 on a testbed: compactness by residual space.

    It holds if the ranges of p_eff/p of two spaces, over all their detectors and seeds,
    are at least `COMPACTNESS_GAP` apart. Open unless two spaces are known and one of
    them has two detectors.
    """
    spaces: dict[str, list[Spread]] = defaultdict(list)
    for runs in study.on(testbed).detectors:
        spread, space = runs.spread(Figure.COMPACTNESS), space_of(runs)
        if spread is not None and space is not None:
            spaces[space].append(spread)
    ends = {
        name: (min(s.low for s in spreads), max(s.high for s in spreads))
        for name, spreads in spaces.items()
    }
    # The distance of two ranges; negative if they overlap.
    gaps = {
        (a, b): max(ends[b][0] - ends[a][1], ends[a][0] - ends[b][1])
        for a, b in combinations(sorted(spaces), 2)
        if max(len(spaces[a]), len(spaces[b])) > 1
    }
    if not gaps:
        return (
            Upheld.OPEN,
            f"Residual spaces with a known name: {names(sorted(spaces))} "
            f"({sum(map(len, spaces.values()))} detectors); two are needed, one of "
            "them with two detectors."
            if spaces
            else "No residual space is known.",
        )
    pair, gap = max(gaps.items(), key=lambda item: item[1])
    ranges = " and ".join(
        f"{' to '.join(dict.fromkeys(f'{end:.3f}' for end in ends[name]))} in the "
        f"{name} space ({len(spaces[name])})"
        for name in pair
    )
    return (
        Upheld.HOLDS if gap >= COMPACTNESS_GAP else Upheld.FAILS,
        f"p_eff/p is {ranges}: "
        + (f"{gap:.3f} apart." if gap > 0 else "they overlap."),
    )


def rankings_do_not_transfer(study: PaperStudy, first: str, second: str) -> Outcome:
    """Try finding 6 on two testbeds: no transfer of rankings.

    With rho the rank correlation of mean ROC-AUC over shared detectors, and draws of
    one seed for each detector and testbed: it holds if rho, and at least the share
    `SURE` of the draws, are below `WEAK_RHO`; it fails if rho and as many draws are
    not. Open between, and for fewer than `FEWEST_DETECTORS` shared detectors.
    """
    by_testbed = [
        {
            runs.label: seeds
            for runs in study.on(testbed).detectors
            if (seeds := runs.values(Figure.ROC_AUC))
        }
        for testbed in (first, second)
    ]
    shared = sorted(set(by_testbed[0]) & set(by_testbed[1]))
    if len(shared) < FEWEST_DETECTORS:
        need = f"They share {len(shared)} detectors; {FEWEST_DETECTORS} are needed."
        return Upheld.OPEN, need
    values = [[seeds_of[name] for name in shared] for seeds_of in by_testbed]
    means = [np.array([np.mean(seeds) for seeds in detectors]) for detectors in values]
    correlation = rank_correlation(means[0], means[1])
    rho, p_exact = correlation.rho, correlation.p_exact
    if rho is None:
        return Upheld.OPEN, "All detectors have the same ROC-AUC."
    weak = _share_weak(values)
    sentence = f"rho of ROC-AUC is {rho:+z.2f} over {correlation.n} detectors"
    if p_exact is not None:
        sentence += f" (exact p {p_exact:.2f}; over so few it only describes)"
    sentence += (
        f"; {weak:.0%} of draws of seeds give less than {WEAK_RHO}. "
        if any(len(seeds) > 1 for detectors in values for seeds in detectors)
        else "; with one seed each it is not known how it varies over seeds. "
    )
    best = [shared[int(np.argmax(detectors))] for detectors in means]
    sentence += "First are " if best[0] != best[1] else "First on both is "
    sentence += " and ".join(study.detector_title(b) for b in dict.fromkeys(best)) + "."
    if rho < WEAK_RHO - _ROUNDING and weak >= SURE:
        return Upheld.HOLDS, sentence
    if rho >= WEAK_RHO - _ROUNDING and weak <= 1 - SURE:
        return Upheld.FAILS, sentence
    return Upheld.OPEN, f"{sentence} The seeds leave it open."


def _share_weak(values: list[list[list[float]]]) -> float:
    """Return how often rho is weak if one seed is drawn for each detector.

    Parameters
    ----------
    values : list
        For each of two testbeds, for each detector: the figure in each seed.

    Returns
    -------
    float
        Share of the draws with a rho below `WEAK_RHO`, of those that have a rho.
    """
    n_draws = (
        N_SEED_DRAWS
        if any(len(s) > 1 for detectors in values for s in detectors)
        else 1
    )
    rng = np.random.default_rng(0)
    drawn = [
        np.stack([rng.choice(seeds, size=n_draws) for seeds in detectors], axis=1)
        for detectors in values
    ]
    rho = _rank_correlations(np.stack(drawn, axis=1))[:, 0, 1]
    defined = rho[np.isfinite(rho)]
    return float(np.mean(defined < WEAK_RHO - _ROUNDING)) if len(defined) else 0.0


def _rank_correlations(values: Floats) -> Floats:
    """Return Spearman's rho of each two rows, in each draw.

    Parameters
    ----------
    values : array of shape (n_draws, n_rows, n)
        Ties share their mean rank.

    Returns
    -------
    array of shape (n_draws, n_rows, n_rows)
        nan where all values of a row are equal.
    """
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = centred / length[..., None]
    return np.asarray(unit @ np.swapaxes(unit, -1, -2))


def agreement_follows_space(study: PaperStudy, testbed: str) -> Outcome:
    """Try finding 7 on a testbed: agreement follows the space.

    The difference is the mean agreement of detectors of one residual space minus that
    across spaces, over the attacks that all share. It holds if its 95% interval, from
    draws of attacks with replacement, is above 0; it fails if the difference is 0 or
    less. Open between, without both kinds of pairs, and for fewer than
    `FEWEST_ATTACKS` attacks.
    """
    spaces = {
        runs.label: space
        for runs in study.on(testbed).detectors
        if (space := space_of(runs)) is not None
    }
    pairs = list(combinations(spaces, 2))
    same = [(a, b) for a, b in pairs if spaces[a] == spaces[b]]
    across = [(a, b) for a, b in pairs if spaces[a] != spaces[b]]
    if not same or not across:
        return (
            Upheld.OPEN,
            f"{len(same)} pairs of detectors are of one residual space and "
            f"{len(across)} across; both are needed.",
        )
    d_full, owner = _shared_d_full(study.on(testbed), list(spaces))
    n_attacks = d_full.shape[1]
    if n_attacks < FEWEST_ATTACKS:
        need = f"All detectors share {n_attacks} attacks; {FEWEST_ATTACKS} are needed."
        return Upheld.OPEN, need
    # The first row has the attacks as they are, the others draw them with replacement.
    size = (N_ATTACK_DRAWS, n_attacks)
    drawn_rows = np.random.default_rng(0).integers(n_attacks, size=size)
    rows = np.vstack([np.arange(n_attacks), drawn_rows])
    rhos = _rank_correlations(np.moveaxis(d_full[:, rows], 0, 1))
    # As `Agreement.rho`: over pairs of detectors, of the mean over pairs of seeds.
    places = {label: np.flatnonzero(np.array(owner) == label) for label in spaces}
    means = [
        np.mean(
            [rhos[:, places[a]][:, :, places[b]].mean(axis=(1, 2)) for a, b in kind],
            axis=0,
        )
        for kind in (same, across)
    ]
    within, between = float(means[0][0]), float(means[1][0])
    if not np.isfinite([within, between]).all():
        return Upheld.OPEN, "D_FULL does not order the attacks."
    drawn = (means[0] - means[1])[1:]
    known = drawn[np.isfinite(drawn)]
    low, high = np.quantile(known, (0.025, 0.975)) if len(known) else (-1.0, 1.0)
    sentence = (
        f"mean rho is {within:.2f} within a space ({len(same)} pairs) and "
        f"{between:.2f} across ({len(across)}); the difference is "
        f"{within - between:+z.2f} (95% interval {low:+z.2f} to {high:+z.2f}, "
        f"{n_attacks} attacks)."
    )
    if low > 0:
        return Upheld.HOLDS, sentence
    if within <= between:
        return Upheld.FAILS, sentence
    return Upheld.OPEN, f"{sentence} So few attacks leave it open."


def _shared_d_full(runs: TestbedRuns, labels: list[str]) -> tuple[Floats, list[str]]:
    """Return D_FULL of the attacks that all seeds of all detectors have.

    Returns
    -------
    d_full : array of shape (n_results, n_attacks)
        A row for each seed of each detector.
    owner : list of str
        The label of the detector of each row.
    """
    results = [(label, result) for label in labels for result in runs[label].results]
    places = np.array([runs.places(result) for _, result in results])
    places = places[:, (places >= 0).all(axis=0)]
    pairs = zip(results, places, strict=True)
    d_full = [result.traces.segment_d_full[place] for (_, result), place in pairs]
    return np.array(d_full, dtype=np.float64), [label for label, _ in results]


# How each finding is tried; the sixth on each two testbeds.
_TRIALS: tuple[Callable[..., Outcome], ...] = (
    same_ranking_other_alarms,
    unstable_references,
    spaces_differ,
    diluted_attacks,
    different_fixes,
    rankings_do_not_transfer,
    agreement_follows_space,
)


def _tried(study: PaperStudy, trial: Callable[..., Outcome]) -> Iterator[FindingTrial]:
    """Yield the trials of a finding, on each testbed or each two testbeds."""
    n_places = 2 if trial is rankings_do_not_transfer else 1
    if len(study.testbeds) < n_places:
        need = "One testbed; two are needed."
        yield FindingTrial("This study", Upheld.OPEN, need)
    for places in combinations(study.testbeds, n_places):
        outcome, sentence = trial(study, *places)
        where = " and ".join(map(study.testbed_title, places))
        yield FindingTrial(where, outcome, one_line(sentence))


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
    findings: list[PaperFinding] = []
    for text, trial in zip(_TEXTS.findings, _TRIALS, strict=True):
        trials = tuple(_tried(study, trial))
        judged = [trial.outcome for trial in trials if trial.outcome != Upheld.OPEN]
        n_holds = judged.count(Upheld.HOLDS)
        needed = 1 if text.quantifier == "one" else len(judged) // 2 + 1
        outcome = Upheld.HOLDS if n_holds >= needed else Upheld.FAILS
        if not judged:
            outcome = Upheld.OPEN
        # The first place with this outcome, and how many places agree.
        same = [trial for trial in trials if trial.outcome == outcome]
        sentence = "There is nothing to try it on."
        if same:
            sentence = f"{same[0].where}: {same[0].sentence}"
            if len(judged) > 1:
                sentence += f" It holds in {n_holds} of {len(judged)} places judged."
        quantifier = _TEXTS.quantifiers[text.quantifier]
        findings.append(
            PaperFinding(
                number=len(findings) + 1,
                statement=text.statement,
                outcome=outcome,
                sentence=sentence,
                rule=f"{text.rule.format(**globals())} {quantifier}",
                tried=trials,
            )
        )
    return tuple(findings)


def findings_json(findings: tuple[PaperFinding, ...]) -> dict[str, object]:
    """Return the content of ``findings.json``: the scope and all findings.

    Each finding has ``number``, ``statement``, ``outcome``, ``sentence``, ``rule``, and
    ``tried``, a list of ``where``, ``outcome`` and ``sentence``.
    """
    return {"scope": SCOPE, "findings": plain([asdict(f) for f in findings])}


def findings_markdown(findings: tuple[PaperFinding, ...]) -> str:
    """Return the content of ``findings.md``: outcomes, reasons and rules."""
    return render("findings.md", "sightline.paper", findings=findings, scope=SCOPE)
