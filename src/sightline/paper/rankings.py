"""Findings on figures of detectors: alarms, compactness, rankings and agreement."""

from collections import defaultdict
from itertools import combinations

import numpy as np

from sightline.comparison.runs import DetectorRuns, Spread, TestbedRuns
from sightline.data.arrays import Floats
from sightline.figures import Figure
from sightline.metrics.ranking import rank_correlation
from sightline.paper.study import Upheld, FindingTrial, PaperStudy, space_of
from sightline.text import names

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


def same_ranking_other_alarms(study: PaperStudy) -> tuple[FindingTrial, ...]:
    """Return the trial of finding 1 on each testbed: equal ranking, other alarms.

    Among the detectors within `SIMILAR_ROC_AUC` of the best mean ROC-AUC it holds if
    the highest mean F1@p99 is at least `LEAST_F1` and `F1_RATIO` times the lowest, and
    the 95% intervals of the two do not overlap. Open for fewer than `FEWEST_DETECTORS`.
    """
    return tuple(_alarms_on(study, testbed) for testbed in study.testbeds)


def _alarms_on(study: PaperStudy, testbed: str) -> FindingTrial:
    """Return the trial of finding 1 on one testbed."""
    where = study.testbed_title(testbed)
    detectors = study.on(testbed).detectors
    figures: list[tuple[float, float, DetectorRuns]] = []
    for runs in detectors:
        roc_auc, f1 = runs.mean(Figure.ROC_AUC), runs.mean(Figure.F1)
        if roc_auc is not None and f1 is not None:
            figures.append((roc_auc, f1, runs))
    best = max((roc_auc for roc_auc, *_ in figures), default=0.0)
    alike = [figure for figure in figures if figure[0] >= best - SIMILAR_ROC_AUC]
    if len(alike) < FEWEST_DETECTORS:
        return FindingTrial(
            where,
            Upheld.OPEN,
            f"{len(alike)} of {len(detectors)} detectors have a ROC-AUC within "
            f"{SIMILAR_ROC_AUC} of the best; {FEWEST_DETECTORS} are needed.",
        )
    roc_aucs = [roc_auc for roc_auc, *_ in alike]
    _, most, high = max(alike, key=lambda figure: figure[1])
    _, least, low = min(alike, key=lambda figure: figure[1])
    is_apart = _f1_range(high)[0] > _f1_range(low)[1]
    is_much = most >= max(F1_RATIO * least, LEAST_F1)
    return FindingTrial(
        where,
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


def spaces_differ(study: PaperStudy) -> tuple[FindingTrial, ...]:
    """Return the trial of finding 3 on each testbed: compactness by residual space.

    It holds if the ranges of p_eff/p of two spaces, over all their detectors and seeds,
    are at least `COMPACTNESS_GAP` apart. Open unless two spaces are known and one of
    them has two detectors.
    """
    return tuple(_spaces_on(study, testbed) for testbed in study.testbeds)


def _spaces_on(study: PaperStudy, testbed: str) -> FindingTrial:
    """Return the trial of finding 3 on one testbed."""
    where = study.testbed_title(testbed)
    spaces: dict[str, list[Spread]] = defaultdict(list)
    for runs in study.on(testbed).detectors:
        spread, space = runs.spread(Figure.COMPACTNESS), space_of(runs)
        if spread is not None and space is not None:
            spaces[space].append(spread)
    gaps = {
        (a, b): _gap(spaces[a], spaces[b])
        for a, b in combinations(sorted(spaces), 2)
        if max(len(spaces[a]), len(spaces[b])) > 1
    }
    if not gaps:
        return FindingTrial(
            where,
            Upheld.OPEN,
            f"Residual spaces with a known name: {names(sorted(spaces))} "
            f"({sum(map(len, spaces.values()))} detectors); two are needed, one of "
            "them with two detectors."
            if spaces
            else "No residual space is known.",
        )
    pair, gap = max(gaps.items(), key=lambda item: item[1])
    ranges = " and ".join(
        f"{_range(spaces[name])} in the {name} space ({len(spaces[name])})"
        for name in pair
    )
    return FindingTrial(
        where,
        Upheld.HOLDS if gap >= COMPACTNESS_GAP else Upheld.FAILS,
        f"p_eff/p is {ranges}: "
        + (f"{gap:.3f} apart." if gap > 0 else "they overlap."),
    )


def _gap(first: list[Spread], second: list[Spread]) -> float:
    """Return the distance of two sets of ranges; negative if they overlap."""
    return max(
        min(s.low for s in second) - max(s.high for s in first),
        min(s.low for s in first) - max(s.high for s in second),
    )


def _range(spreads: list[Spread]) -> str:
    low, high = min(s.low for s in spreads), max(s.high for s in spreads)
    return " to ".join(dict.fromkeys((f"{low:.3f}", f"{high:.3f}")))


def rankings_do_not_transfer(study: PaperStudy) -> tuple[FindingTrial, ...]:
    """Return the trial of finding 6 on each two testbeds: no transfer of rankings.

    With rho the rank correlation of mean ROC-AUC over shared detectors, and draws of
    one seed for each detector and testbed: it holds if rho, and at least the share
    `SURE` of the draws, are below `WEAK_RHO`; it fails if rho and as many draws are
    not. Open between, and for fewer than `FEWEST_DETECTORS` shared detectors.
    """
    if len(study.testbeds) < 2:
        return (
            FindingTrial("This study", Upheld.OPEN, "One testbed; two are needed."),
        )
    return tuple(
        _transfer_between(study, first, second)
        for first, second in combinations(study.testbeds, 2)
    )


def _transfer_between(study: PaperStudy, first: str, second: str) -> FindingTrial:
    """Return the trial of finding 6 on two testbeds."""
    where = f"{study.testbed_title(first)} and {study.testbed_title(second)}"
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
        return FindingTrial(where, Upheld.OPEN, need)
    values = [[seeds_of[name] for name in shared] for seeds_of in by_testbed]
    means = [np.array([np.mean(seeds) for seeds in detectors]) for detectors in values]
    correlation = rank_correlation(means[0], means[1])
    rho, p_exact = correlation.rho, correlation.p_exact
    if rho is None:
        return FindingTrial(where, Upheld.OPEN, "All detectors have the same ROC-AUC.")
    weak = _share_weak(values)
    sentence = f"rho of ROC-AUC is {rho:+.2f} over {correlation.n} detectors"
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
        return FindingTrial(where, Upheld.HOLDS, sentence)
    if rho >= WEAK_RHO - _ROUNDING and weak <= 1 - SURE:
        return FindingTrial(where, Upheld.FAILS, sentence)
    return FindingTrial(where, Upheld.OPEN, f"{sentence} The seeds leave it open.")


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


def agreement_follows_space(study: PaperStudy) -> tuple[FindingTrial, ...]:
    """Return the trial of finding 7 on each testbed: agreement follows the space.

    The difference is the mean agreement of detectors of one residual space minus that
    across spaces, over the attacks that all share. It holds if its 95% interval, from
    draws of attacks with replacement, is above 0; it fails if the difference is 0 or
    less. Open between, without both kinds of pairs, and for fewer than
    `FEWEST_ATTACKS` attacks.
    """
    return tuple(_agreement_on(study, testbed) for testbed in study.testbeds)


def _agreement_on(study: PaperStudy, testbed: str) -> FindingTrial:
    """Return the trial of finding 7 on one testbed."""
    where = study.testbed_title(testbed)
    spaces = {
        runs.label: space
        for runs in study.on(testbed).detectors
        if (space := space_of(runs)) is not None
    }
    pairs = list(combinations(spaces, 2))
    same = [(a, b) for a, b in pairs if spaces[a] == spaces[b]]
    across = [(a, b) for a, b in pairs if spaces[a] != spaces[b]]
    if not same or not across:
        return FindingTrial(
            where,
            Upheld.OPEN,
            f"{len(same)} pairs of detectors are of one residual space and "
            f"{len(across)} across; both are needed.",
        )
    d_full, owner = _shared_d_full(study.on(testbed), list(spaces))
    n_attacks = d_full.shape[1]
    if n_attacks < FEWEST_ATTACKS:
        need = f"All detectors share {n_attacks} attacks; {FEWEST_ATTACKS} are needed."
        return FindingTrial(where, Upheld.OPEN, need)
    # The first row has the attacks as they are, the others draw them with replacement.
    size = (N_ATTACK_DRAWS, n_attacks)
    drawn_rows = np.random.default_rng(0).integers(n_attacks, size=size)
    rows = np.vstack([np.arange(n_attacks), drawn_rows])
    rhos = _rank_correlations(np.moveaxis(d_full[:, rows], 0, 1))
    means = [_mean_rho(rhos, owner, kind) for kind in (same, across)]
    within, between = float(means[0][0]), float(means[1][0])
    if not np.isfinite([within, between]).all():
        return FindingTrial(where, Upheld.OPEN, "D_FULL does not order the attacks.")
    drawn = (means[0] - means[1])[1:]
    known = drawn[np.isfinite(drawn)]
    low, high = np.quantile(known, (0.025, 0.975)) if len(known) else (-1.0, 1.0)
    sentence = (
        f"mean rho is {within:.2f} within a space ({len(same)} pairs) and "
        f"{between:.2f} across ({len(across)}); the difference is "
        f"{within - between:+.2f} (95% interval {low:+.2f} to {high:+.2f}, "
        f"{n_attacks} attacks)."
    )
    if low > 0:
        return FindingTrial(where, Upheld.HOLDS, sentence)
    if within <= between:
        return FindingTrial(where, Upheld.FAILS, sentence)
    return FindingTrial(where, Upheld.OPEN, f"{sentence} So few attacks leave it open.")


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


def _mean_rho(rhos: Floats, owner: list[str], pairs: list[tuple[str, str]]) -> Floats:
    """Return the mean over pairs of detectors of the mean over pairs of seeds.

    This is the mean of `sightline.comparison.compare.Agreement.rho`, over the attacks
    that all detectors share.
    """
    rows = {label: [k for k, o in enumerate(owner) if o == label] for label in owner}
    means = [rhos[:, rows[a]][:, :, rows[b]].mean(axis=(1, 2)) for a, b in pairs]
    return np.asarray(np.mean(means, axis=0))
