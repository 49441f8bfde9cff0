"""Findings on figures of detectors: alarms against ranking, compactness by space."""

from collections import defaultdict
from itertools import combinations

from sightline.comparison.compare import Comparison
from sightline.paper.findings.outcome import CANNOT, FAILS, HOLDS, Tried
from sightline.paper.markup import listed_in_words
from sightline.paper.study import Pair, Spread, Study

# Detectors this near the best rank alike; their F1 must differ by this factor, and
# the best of them must be worth the comparison.
SIMILAR_ROC_AUC = 0.15
F1_RATIO = 3.0
LEAST_F1 = 0.1
# Compactness of two spaces must be this far apart.
COMPACTNESS_GAP = 0.1
FEWEST = 3


def same_ranking_other_alarms(study: Study, _: Comparison) -> tuple[Tried, ...]:
    """Try finding 1 on each testbed."""
    return tuple(_alarms_of(study, testbed) for testbed in study.testbeds)


def _alarms_of(study: Study, testbed: str) -> Tried:
    where = study.testbed_title(testbed)
    known: list[tuple[float, Spread, Pair]] = []
    for pair in study.on(testbed):
        roc, f1 = pair.mean("rank.roc_auc"), pair.spread("probe.f1")
        if roc is not None and f1 is not None:
            known.append((roc, f1, pair))
    best = max((roc for roc, *_ in known), default=0.0)
    alike = [one for one in known if one[0] >= best - SIMILAR_ROC_AUC]
    if len(alike) < FEWEST:
        return Tried(
            where,
            CANNOT,
            f"{len(alike)} of {len(study.on(testbed))} detectors have a ROC-AUC within "
            f"{SIMILAR_ROC_AUC} of the best; {FEWEST} are needed.",
        )
    high = max(alike, key=lambda one: one[1].mean)
    low = min(alike, key=lambda one: one[1].mean)
    rocs = [roc for roc, *_ in alike]
    names = [study.detector_title(one[2].detector) for one in (low, high)]
    apart = _lower(high[2]) > _upper(low[2])
    is_much = high[1].mean >= max(F1_RATIO * low[1].mean, LEAST_F1)
    return Tried(
        where,
        HOLDS if apart and is_much else FAILS,
        f"{len(alike)} detectors have ROC-AUC from {min(rocs):.3f} to {max(rocs):.3f}, "
        f"and F1@p99 from {low[1].mean:.3f} ({names[0]}) to {high[1].mean:.3f} "
        f"({names[1]})" + ("." if apart else ", whose intervals overlap."),
    )


def _lower(pair: Pair) -> float:
    spread = pair.spread("probe.f1")
    lows = [i[0] for i in _intervals(pair)]
    return min(lows, default=spread.low if spread else 0.0)


def _upper(pair: Pair) -> float:
    spread = pair.spread("probe.f1")
    highs = [i[1] for i in _intervals(pair)]
    return max(highs, default=spread.high if spread else 1.0)


def _intervals(pair: Pair) -> list[tuple[float, float]]:
    found = [(r.evaluation.intervals or {}).get("f1") for r in pair.seeds]
    return [(i[0], i[1]) for i in found if i is not None]


def spaces_differ(study: Study, _: Comparison) -> tuple[Tried, ...]:
    """Try finding 3 on each testbed."""
    return tuple(_spaces_of(study, testbed) for testbed in study.testbeds)


def _spaces_of(study: Study, testbed: str) -> Tried:
    where = study.testbed_title(testbed)
    spaces: dict[str, list[Spread]] = defaultdict(list)
    for pair in study.on(testbed):
        spread = pair.spread("compactness.compactness")
        if spread is not None and pair.space is not None:
            spaces[pair.space].append(spread)
    pairs = [
        (a, b)
        for a, b in combinations(sorted(spaces), 2)
        if max(len(spaces[a]), len(spaces[b])) > 1
    ]
    if not pairs:
        return Tried(
            where,
            CANNOT,
            f"Residual spaces with a known name: {listed_in_words(sorted(spaces))}"
            f" ({sum(map(len, spaces.values()))} detectors); two are needed, one of "
            "them with two detectors."
            if spaces
            else "No residual space is known.",
        )
    gaps = {pair: _gap(spaces[pair[0]], spaces[pair[1]]) for pair in pairs}
    first, second = max(gaps, key=lambda pair: gaps[pair])
    gap = gaps[first, second]
    told = " and ".join(
        f"{_between(spaces[name])} in the {name} space ({len(spaces[name])})"
        for name in (first, second)
    )
    return Tried(
        where,
        HOLDS if gap >= COMPACTNESS_GAP else FAILS,
        f"p_eff/p is {told}: " + (f"{gap:.3f} apart." if gap > 0 else "they overlap."),
    )


def _gap(first: list[Spread], second: list[Spread]) -> float:
    """Return how far two sets of ranges lie apart; negative where they overlap."""
    return max(
        min(s.low for s in second) - max(s.high for s in first),
        min(s.low for s in first) - max(s.high for s in second),
    )


def _between(spreads: list[Spread]) -> str:
    low, high = min(s.low for s in spreads), max(s.high for s in spreads)
    return f"{low:.3f}" if f"{low:.3f}" == f"{high:.3f}" else f"{low:.3f} to {high:.3f}"
