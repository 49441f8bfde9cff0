"""Results as a report shows them: one entry for a detector on a testbed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.data.arrays import Floats
from sightline.evaluation.result import ChartData, Evaluation, SegmentResult
from sightline.metrics.probe import AlarmMetrics
from sightline.report.formatting import slug
from sightline.storage import Result

# What the ladder calls the two alarm rules.
OWN, P99 = "own-rule", "detected"


@dataclass(frozen=True, eq=False)
class Entry:
    """One detector on one testbed: its seeds, of which the first is drawn."""

    testbed: str
    label: str
    key: str
    results: tuple[Result, ...]

    @property
    def evaluation(self) -> Evaluation:
        """What was measured, of the first seed."""
        return self.results[0].evaluation

    @property
    def traces(self) -> ChartData:
        """What pictures are made of, of the first seed."""
        return self.results[0].traces

    @cached_property
    def train_mean(self) -> float:
        """Mean train energy."""
        return self.evaluation.compactness.p_eff / 2

    @cached_property
    def time(self) -> Floats | None:
        """The time of each test row in seconds, if it never runs back."""
        time = self.traces.get("test_time")
        if time is None or len(time) < 2 or not np.all(np.diff(time) >= 0):
            return None
        return np.asarray(time, dtype=np.float64)

    @cached_property
    def stages(self) -> dict[str, str]:
        """The stage of each channel, where the stream brought groups."""
        return stages_of(self.evaluation)


def stages_of(evaluation: Evaluation) -> dict[str, str]:
    """Return the stage of each channel, from the groups in the stream's meta."""
    return evaluation.provenance.stages


def entries_of(results: Sequence[Result]) -> list[Entry]:
    """Group results by testbed and detector; who finds most comes first."""
    grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.testbed, _label(result)].append(result)
    testbeds = list(dict.fromkeys(testbed for testbed, _ in grouped))
    keys: set[str] = set()
    entries = []
    for (testbed, label), seeds in grouped.items():
        # No slug holds the sign between them, so no two of these meet by chance.
        key = unique(f"{slug(testbed)}_{slug(label)}", keys)
        ordered = sorted(seeds, key=lambda result: result.name)
        entries.append(Entry(testbed, label, key, tuple(ordered)))
    return sorted(entries, key=lambda e: (testbeds.index(e.testbed), *_merit(e)))


def _label(result: Result) -> str:
    guard = result.evaluation.guard
    return f"{result.detector} (guard {guard})" if guard else result.detector


def _merit(entry: Entry) -> tuple[float, float, float]:
    evaluation = entry.evaluation
    alarms = evaluation.probe.false_alarms_per_day
    if alarms is None:
        alarms = float(evaluation.probe.false_positive_segments)
    n_found = found(evaluation, main_rule(evaluation))
    return -n_found, -(evaluation.rank.roc_auc or 0.0), alarms


def unique(key: str, taken: set[str]) -> str:
    """Return a key that nobody else has."""
    name, n = key, 1
    while name in taken:
        n += 1
        name = f"{key}-{n}"
    taken.add(name)
    return name


def attack_keys(entry: Entry) -> list[str]:
    """Return the link of each attack: unique, whatever the attacks are called."""
    taken: set[str] = set()
    return [
        unique(f"attack-{entry.key}_{slug(segment.id)}", taken)
        for segment in entry.evaluation.segments
    ]


def rules_of(evaluation: Evaluation) -> list[tuple[str, AlarmMetrics]]:
    """Return the alarm rules there are, with what they did; the own rule first."""
    p99 = [(P99, evaluation.probe)]
    return p99 if evaluation.own_rule is None else [(OWN, evaluation.own_rule), *p99]


def is_judged(evaluation: Evaluation, rule: str) -> bool:
    """Tell whether it is known that alarms stand out, not only that they rang."""
    return any(rule in (segment.ladder or {}) for segment in evaluation.segments)


def main_rule(evaluation: Evaluation) -> str:
    """Return the rule a detector is ranked by: its own, where that was judged."""
    is_own = evaluation.own_rule is not None and is_judged(evaluation, OWN)
    return OWN if is_own else P99


def is_found(segment: SegmentResult, rule: str = P99) -> bool:
    """Tell whether a rule's alarm stands out; without a diagnosis, whether it rang."""
    rung = (segment.ladder or {}).get(rule)
    if rung is not None:
        return bool(rung["visible"])
    if rule == P99 and segment.verdict is None:
        return bool(segment.hit)
    return segment.verdict == rule


def found(evaluation: Evaluation, rule: str = P99) -> int:
    """Count the attacks that a rule's alarm makes stand out from calm hours.

    Where nobody judged that, the attacks in which the rule rings.
    """
    if is_judged(evaluation, rule):
        return sum(is_found(segment, rule) for segment in evaluation.segments)
    return int(dict(rules_of(evaluation))[rule].hits or 0)


def first_alarms(entry: Entry, rule: str) -> list[float]:
    """Return the rows to the first alarm, of the attacks that `found` counts."""
    segments = entry.evaluation.segments
    judged = is_judged(entry.evaluation, rule)
    if rule == P99:
        rows = [segment.first_alarm for segment in segments]
    else:
        own = entry.traces.get("own_first_alarm")
        if own is None or len(own) != len(segments):
            return []
        rows = [int(row) if row >= 0 else None for row in own]
    return [
        float(row)
        for row, segment in zip(rows, segments, strict=True)
        if row is not None and (not judged or is_found(segment, rule))
    ]


def typical_delay(entry: Entry, rule: str) -> float | None:
    """Return the median number of rows to the first alarm, of the attacks found."""
    rows = first_alarms(entry, rule)
    return float(np.median(rows)) if rows else None
