"""Findings on missed attacks: unstable references, dilution, different fixes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sightline.comparison.compare import Comparison
from sightline.evaluation.result import SegmentResult
from sightline.judgement.ladder import causes
from sightline.paper.findings.outcome import CANNOT, FAILS, HOLDS, Tried, binomial_tail
from sightline.paper.markup import listed_in_words
from sightline.paper.study import Pair, Study

FEWEST_MISSED = 2
LEVEL = 0.05
# The diagnosis blames calm windows no more often than this by design; a stream that
# says it does so less often is not believed beyond it.
LEAST_CHANCE = 0.05
# Detectors this near in ROC-AUC rank alike.
SIMILAR_ROC_AUC = 0.05


@dataclass(frozen=True)
class Missed:
    """The attacks that one detector missed, and how often calm hours get a cause."""

    pair: Pair
    rows: tuple[SegmentResult, ...]
    chance: float

    def beyond_chance(self, n_seen: int, n_pairs: int) -> bool:
        """Tell whether so many are more than the ladder would blame by chance."""
        return binomial_tail(n_seen, len(self.rows), self.chance) < LEVEL / n_pairs


def missed_of(study: Study, testbed: str) -> list[Missed]:
    """Return who missed at least two attacks with a verdict, in its first seed."""
    found = []
    for pair in study.on(testbed):
        rows = tuple(
            row
            for row in pair.first.segments
            if row.verdict not in (None, "detected", "undecided")
        )
        rate = pair.first.diagnosis and pair.first.diagnosis.false_cause_rate
        if len(rows) >= FEWEST_MISSED:
            found.append(Missed(pair, rows, max(rate or 0.0, LEAST_CHANCE)))
    return found


def _on_each(
    study: Study, judged: Callable[[Study, str, list[Missed]], Tried]
) -> tuple[Tried, ...]:
    found = []
    for testbed in study.testbeds:
        missed = missed_of(study, testbed)
        if missed:
            found.append(judged(study, testbed, missed))
        else:
            has_any = any(
                row.verdict for pair in study.on(testbed) for row in pair.first.segments
            )
            why = (
                f"No detector missed {FEWEST_MISSED} attacks."
                if has_any
                else "No attack has a verdict: there is no diagnosis, or no attack."
            )
            found.append(Tried(study.testbed_title(testbed), CANNOT, why))
    return tuple(found)


def unstable_references(study: Study, _: Comparison) -> tuple[Tried, ...]:
    """Try finding 2 on each testbed."""

    def judged(study: Study, testbed: str, missed: list[Missed]) -> Tried:
        return _by_verdict(study, testbed, missed, "drift", _drifts(study, testbed))

    return _on_each(study, judged)


def diluted_attacks(study: Study, _: Comparison) -> tuple[Tried, ...]:
    """Try finding 4 on each testbed."""

    def judged(study: Study, testbed: str, missed: list[Missed]) -> Tried:
        return _by_verdict(
            study, testbed, missed, "diluted", _seen_in_less(study, testbed)
        )

    return _on_each(study, judged)


def _by_verdict(
    study: Study, testbed: str, missed: Sequence[Missed], verdict: str, more: str
) -> Tried:
    """Ask whether any detector's misses have this verdict more than by chance."""
    counted = [(sum(r.verdict == verdict for r in one.rows), one) for one in missed]
    clear = [(n, one) for n, one in counted if one.beyond_chance(n, len(missed))]
    told = listed_in_words(
        [
            f"{n} of {len(one.rows)} ({study.detector_title(one.pair.detector)})"
            for n, one in sorted(clear or counted, key=lambda pair: -pair[0])
        ]
    )
    rate = max(one.chance for one in missed)
    sentence = (
        f"Missed attacks with the verdict {verdict}: {told}; "
        + ("more" if clear else "no more")
        + f" than calm hours blamed at up to {rate:.0%} would give.{more}"
    )
    return Tried(study.testbed_title(testbed), HOLDS if clear else FAILS, sentence)


def _drifts(study: Study, testbed: str) -> str:
    """Return two detectors that rank alike and drift most differently, if any do."""
    known = []
    for pair in study.on(testbed):
        roc = pair.mean("rank.roc_auc")
        drift = pair.mean("drift.d_drift_robust")
        train = pair.mean("compactness.p_eff")
        if roc is not None and drift is not None and train and drift > 0:
            known.append((roc, 2 * drift / train, study.detector_title(pair.detector)))
    pairs = [
        (a[1] / b[1], a, b)
        for a in known
        for b in known
        if a is not b and abs(a[0] - b[0]) <= SIMILAR_ROC_AUC
    ]
    if not pairs:
        return ""
    ratio, most, least = max(pairs)
    if ratio < 10:
        return ""
    return (
        f" {most[2]} and {least[2]} rank alike (ROC-AUC {most[0]:.3f} and "
        f"{least[0]:.3f}), but normal energy rose by {most[1]:.3g} and {least[1]:.3g} "
        "times that of train (by the median)."
    )


def _seen_in_less(study: Study, testbed: str) -> str:
    """Return how many diluted attacks a detector with fewer channels detects."""
    n_diluted = n_seen = 0
    pairs = {pair.detector: pair for pair in study.on(testbed)}
    for by in study.rows(testbed):
        for name, row in by.items():
            if row.verdict != "diluted":
                continue
            n_diluted += 1
            pooled = pairs[name]
            n_seen += any(
                other.verdict == "detected"
                and pairs[whose].space != pooled.space
                and pairs[whose].first.stream.p < pooled.first.stream.p
                for whose, other in by.items()
            )
    if not n_diluted:
        return ""
    return (
        f" Another detector with fewer channels in another space detects {n_seen} of "
        f"the {n_diluted} diluted attacks (counted over all detectors)."
    )


def different_fixes(study: Study, _: Comparison) -> tuple[Tried, ...]:
    """Try finding 5 on each testbed."""
    return _on_each(study, _fixes_of)


def _fixes_of(study: Study, testbed: str, missed: list[Missed]) -> Tried:
    found = []
    for one in missed:
        causes = Counter(
            str(row.verdict) for row in one.rows if _is_proven(one.pair, row)
        )
        is_clear = one.beyond_chance(causes.total(), len(missed))
        found.append((is_clear and len(causes) > 1, causes.total(), causes, one))
    holds, n_caused, causes, one = max(found, key=lambda item: (item[0], item[1]))
    told = listed_in_words([f"{n} {cause}" for cause, n in causes.most_common()])
    return Tried(
        study.testbed_title(testbed),
        HOLDS if holds else FAILS,
        f"{study.detector_title(one.pair.detector)} missed {len(one.rows)} attacks; a "
        f"repair shows {n_caused} of them" + (f" ({told})." if told else "."),
    )


def _is_proven(pair: Pair, row: SegmentResult) -> bool:
    """Tell whether the repair of its cause gains this attack."""
    rung = next((rung for rung, cause in causes().items() if cause == row.verdict), "")
    repair = (pair.first.repairs or {}).get(rung)
    return repair is not None and row.id in repair["segments_gained"]
