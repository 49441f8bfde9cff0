"""The results of a study: testbed x detector x seeds, with attacks matched.

This is the only grouping of results. The report, the terminal, the tables, the findings
and `compare` all start from `group_runs`.

`joint_verdicts` says what all detectors of a testbed together say of an attack.
Whether the telemetry moves is a fact of the recording, the same for all detectors. A
stream alone may say ``not-in-telemetry`` of an attack that another detector detects;
here the results that are seen together are brought to one answer.

An attack whose telemetry is still is *vetoed* if the present or the p99 rule of any
detector shows it, or if two detectors show it by a repair (a lone repair of one
detector is one of too many tries, and too little energy never counts). Then no detector
says ``not-in-telemetry``. Without a veto all detectors say it: the same word for all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.data.arrays import Floats, Ints
from sightline.data.stream import REFERENCE_KEY
from sightline.evaluation.result import ChartData, Evaluation, Protocol, SegmentResult
from sightline.figures import FIGURES
from sightline.judgement.ladder import LADDER, Kind
from sightline.judgement.verdicts import SINGLED_OUT, Verdict
from sightline.storage import Result
from sightline.text import names

Span = tuple[float, float]


@dataclass(frozen=True)
class Spread:
    """A figure over seeds: mean, lowest and highest value, and the number of values."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, eq=False)
class DetectorRuns:
    """One detector on one testbed, with all its seeds.

    Parameters
    ----------
    testbed, detector : str
        Names as the results give them.
    guard : int
        Rows ignored after each attack. Results with different guards measure different
        rows, so they are not seeds of one another.
    results : tuple of Result
        One for each seed, sorted by the name of the folder.
    """

    testbed: str
    detector: str
    guard: int
    results: tuple[Result, ...]

    @property
    def label(self) -> str:
        """The name, unique on a testbed: the detector, with guard and protocol if any.

        Results by different protocols are, as those with different guards, no seeds of
        one another.
        """
        notes = [f"guard {self.guard}"] if self.guard else []
        if self.protocol is not Protocol.SIGHTLINE:
            notes.append(f"protocol {self.protocol}")
        if self.evaluation.provenance.meta.get(REFERENCE_KEY):
            notes.append("reference from test")
        return f"{self.detector} ({', '.join(notes)})" if notes else self.detector

    @property
    def protocol(self) -> Protocol:
        """By which protocol all its seeds were evaluated."""
        return self.results[0].evaluation.protocol

    @property
    def first(self) -> Result:
        """The first seed, which represents all where one result is described."""
        return self.results[0]

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation of the first seed."""
        return self.first.evaluation

    @property
    def traces(self) -> ChartData:
        """The chart data of the first seed."""
        return self.first.traces

    @property
    def is_mean_dominated(self) -> bool:
        """Whether extreme points dominate the mean drift of any seed."""
        return any(bool(r.evaluation.drift.mean_dominated) for r in self.results)

    def values(self, figure: str) -> list[float]:
        """Return a figure of each seed that has it, in the order of the seeds."""
        entry = FIGURES[figure]
        values = (entry.of(result.evaluation) for result in self.results)
        return [value for value in values if value is not None]

    def spread(self, figure: str) -> Spread | None:
        """Return a figure over seeds; None where no seed has it."""
        values = self.values(figure)
        if not values:
            return None
        low, high = min(values), max(values)
        # Rounding may put the mean of equal values outside their range.
        mean = float(np.clip(np.mean(values), low, high))
        return Spread(mean, low, high, len(values))

    def mean(self, figure: str) -> float | None:
        """Return the mean of a figure over seeds; None where no seed has it."""
        spread = self.spread(figure)
        return None if spread is None else spread.mean


@dataclass(frozen=True, eq=False)
class MatchedAttack:
    """One attack of a testbed, matched across detectors.

    Parameters
    ----------
    id : str
        As the detector with most attacks numbers it. An attack that this detector does
        not have keeps its own id, with its detector added where the id is taken.
    span : tuple of float
        Begin and end: in seconds if all results of the testbed have time stamps, else
        in rows.
    places : mapping of str to int
        By label, for each detector that has the attack: its index among the segments of
        the first seed.
    segments : mapping of str to SegmentResult
        The segments themselves, by label.
    """

    id: str
    span: Span
    places: Mapping[str, int]
    segments: Mapping[str, SegmentResult]


@dataclass(frozen=True, eq=False)
class TestbedRuns:
    """All detectors of one testbed, and its attacks matched across them.

    Parameters
    ----------
    testbed : str
        Name of the testbed.
    detectors : tuple of DetectorRuns
        In the order in which the results were given.
    """

    testbed: str
    detectors: tuple[DetectorRuns, ...]
    __test__ = False

    def __getitem__(self, label: str) -> DetectorRuns:
        """Return the runs of a detector by its label."""
        return self._by_label[label]

    def __contains__(self, label: object) -> bool:
        """Return whether a detector was run on the testbed."""
        return label in self._by_label

    @cached_property
    def _by_label(self) -> dict[str, DetectorRuns]:
        return {runs.label: runs for runs in self.detectors}

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """All results of the testbed: detector by detector, seed by seed."""
        return tuple(result for runs in self.detectors for result in runs.results)

    @cached_property
    def attacks(self) -> tuple[MatchedAttack, ...]:
        """Every attack that any detector's first seed has, in time order.

        Attacks are matched with those of the detector that has most of them; what only
        other detectors have is added.
        """
        spans: list[Span] = []
        ids: list[str] = []
        places: list[dict[str, int]] = []
        # `sorted` is stable: of detectors with equally many attacks the first counts.
        order = sorted(self.detectors, key=lambda runs: -len(runs.evaluation.segments))
        for runs in order:
            own_spans = spans_of(runs.first, in_time=self._in_time)
            matched = {j: i for i, j in match_spans(spans, own_spans)}
            for j, span in enumerate(own_spans):
                if j not in matched:
                    matched[j] = len(spans)
                    spans.append(span)
                    places.append({})
                    name = runs.evaluation.segments[j].id
                    ids.append(f"{name} of {runs.label}" if name in ids else name)
                places[matched[j]][runs.label] = j
        attacks = [
            MatchedAttack(id, span, place, self._segments(place))
            for id, span, place in zip(ids, spans, places, strict=True)
        ]
        return tuple(sorted(attacks, key=lambda attack: attack.span))

    def places(self, result: Result) -> Ints:
        """Return the index of each attack among the segments of any seed.

        Parameters
        ----------
        result : Result
            One of the results of this testbed.

        Returns
        -------
        array of int, shape (n_attacks,)
            In the order of `attacks`; -1 where the result does not have the attack.
        """
        places = np.full(len(self.attacks), -1)
        spans = spans_of(result, in_time=self._in_time)
        for i, j in match_spans([attack.span for attack in self.attacks], spans):
            places[i] = j
        return places

    @cached_property
    def _in_time(self) -> bool:
        return all(result.traces.test_time is not None for result in self.results)

    def _segments(self, places: Mapping[str, int]) -> dict[str, SegmentResult]:
        """Return the segments at these places, in the order of the detectors."""
        return {
            runs.label: runs.evaluation.segments[places[runs.label]]
            for runs in self.detectors
            if runs.label in places
        }


def group_runs(results: Sequence[Result]) -> tuple[TestbedRuns, ...]:
    """Group results by testbed and detector; several of one detector are its seeds.

    Parameters
    ----------
    results : sequence of Result
        As `read_results` returns them, in any order.

    Returns
    -------
    tuple of TestbedRuns
        Testbeds, and the detectors of each, in the order of their first result. Seeds
        are sorted by the name of their folder.
    """
    grouped: dict[str, dict[tuple[str, int, Protocol], list[Result]]] = {}
    for result in results:
        one = result.evaluation
        key = (result.detector, one.guard, one.protocol)
        grouped.setdefault(result.testbed, {}).setdefault(key, []).append(result)
    by_name = attrgetter("name")
    return tuple(
        TestbedRuns(
            testbed,
            tuple(
                DetectorRuns(testbed, name, guard, tuple(sorted(seeds, key=by_name)))
                for (name, guard, _), seeds in detectors.items()
            ),
        )
        for testbed, detectors in grouped.items()
    )


def spans_of(result: Result, *, in_time: bool) -> list[Span]:
    """Return begin and end of each attack of a result, in seconds or in rows."""
    rows = [(s.start, s.stop) for s in result.evaluation.segments]
    time = result.traces.test_time
    if not in_time or time is None:
        return [(float(start), float(stop)) for start, stop in rows]
    return spans_in(time, rows, result.evaluation.stream.step_s or 0.0)


def spans_in(time: Floats, rows: Sequence[tuple[int, int]], step: float) -> list[Span]:
    """Return begin and end in time of rows [start, stop), each `step` long."""
    return [(float(time[start]), float(time[stop - 1]) + step) for start, stop in rows]


def match_spans(first: Sequence[Span], second: Sequence[Span]) -> list[tuple[int, int]]:
    """Pair spans that overlap, one to one, those with the largest overlap first.

    Parameters
    ----------
    first, second : sequence of (begin, end)
        Half-open spans in the same unit.

    Returns
    -------
    list of (int, int)
        Indices into `first` and `second`, sorted. Spans without a partner are left out.

    Examples
    --------
    >>> match_spans([(0, 10), (20, 30)], [(1, 9), (9, 12), (28, 40)])
    [(0, 0), (1, 2)]
    """
    gaps = sorted(
        (max(a[0], b[0]) - min(a[1], b[1]), i, j)
        for i, a in enumerate(first)
        for j, b in enumerate(second)
        if a[0] < b[1] and b[0] < a[1]
    )
    pairs: dict[int, int] = {}
    for gap, i, j in gaps:
        # Spans overlap where the gap between them is negative.
        if gap < 0 and i not in pairs and j not in pairs.values():
            pairs[i] = j
    return sorted(pairs.items())


# ---- what all detectors together say of an attack ------------------------------------

# Detectors that must show an attack by a repair for a veto.
LEAST_SHOWING = 2
# Verdicts of attacks that no rung shows.
_NOT_SHOWN = (Verdict.WEAK_EVIDENCE, Verdict.NOT_IN_TELEMETRY)


@dataclass(frozen=True, kw_only=True)
class JointVerdict:
    """The verdict on one attack by one detector, in view of all others.

    Parameters
    ----------
    verdict : Verdict, optional
        As the stream alone gives it; but `not-in-telemetry` for all where the telemetry
        is still and not vetoed, and for none else. None without a diagnosis.
    vetoed_by : tuple of str
        Detectors that show the attack, where the verdict would be `not-in-telemetry`
        without them; else empty.
    note : str
        A sentence on what the other detectors say; empty where they change nothing.
    """

    verdict: Verdict | None
    vetoed_by: tuple[str, ...] = ()
    note: str = ""


def joint_verdicts(
    studied: Iterable[TestbedRuns],
) -> dict[tuple[str, str, str], JointVerdict]:
    """Return the verdicts of all detectors on all attacks, brought to one answer.

    Verdicts are those of the first seed of each detector, which stands for all.

    Parameters
    ----------
    studied : iterable of TestbedRuns
        As `sightline.comparison.runs.group_runs` returns them.

    Returns
    -------
    dict
        By testbed, label of the detector, and the attack's id in that detector's own
        result.
    """
    return {
        (runs.testbed, label, attack.segments[label].id): verdict
        for runs in studied
        for attack in runs.attacks
        for label, verdict in joint_verdicts_on(attack).items()
    }


def joint_verdicts_on(attack: MatchedAttack) -> dict[str, JointVerdict]:
    """Return the verdict of each detector on one attack, by label."""
    facts = telemetry_of(attack)
    is_still = facts is not None and facts.movement is Movement.STILL
    n_judged = sum(segment.verdict is not None for segment in attack.segments.values())
    by_rule = _showing(attack, (Kind.RULE,))
    by_repair = _showing(attack, (Kind.REPAIR, Kind.MEMORY))
    vetoing = by_rule or (by_repair if len(by_repair) >= LEAST_SHOWING else ())
    verdicts = {}
    for label, segment in attack.segments.items():
        verdict, note = segment.verdict, ""
        vetoed_by: tuple[str, ...] = ()
        if is_still and not vetoing and verdict is not None and n_judged > 1:
            # The same word for all: a lone repair is one of too many tries.
            verdict, note = (
                Verdict.NOT_IN_TELEMETRY,
                f"Of {n_judged} detectors only {by_repair[0]} shows it, by a repair "
                "and not by its rule: too little to contradict the telemetry."
                if by_repair
                else f"None of {n_judged} detectors shows it.",
            )
        elif verdict in _NOT_SHOWN:
            # Without facts the word itself says it: that of an earlier version.
            says_still = facts is None and verdict == Verdict.NOT_IN_TELEMETRY
            if vetoing and (is_still or says_still):
                verdict, vetoed_by = Verdict.WEAK_EVIDENCE, vetoing
                detect = "detects it" if len(vetoing) == 1 else "detect it"
                note = (
                    "The telemetry's own test does not show this attack, but "
                    f"{names(vetoing)} {detect if by_rule else 'show it by a repair'}."
                )
            elif facts is not None and not is_still:
                # Facts from more calm time say that it moves, or may move.
                verdict = Verdict.WEAK_EVIDENCE
        verdicts[label] = JointVerdict(verdict=verdict, vetoed_by=vetoed_by, note=note)
    return verdicts


def telemetry_of(attack: MatchedAttack) -> AttackFacts | None:
    """Return what the telemetry says of an attack, for all detectors alike.

    Streams that do not carry facts of the recording have their own; they differ only
    where row rates do. The one with most calm windows counts; of equal ones the one
    with the smaller p-value.
    """
    known = [s.telemetry for s in attack.segments.values() if s.telemetry is not None]
    judged = [(-f.n_windows, f.p_value, f) for f in known if f.p_value is not None]
    return min(judged, key=lambda one: one[:2])[2] if judged else None


def _showing(attack: MatchedAttack, kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Return the detectors with a visible rung of one of these kinds, by name."""
    return tuple(
        sorted(
            label
            for label, segment in attack.segments.items()
            if (segment.verdict in SINGLED_OUT and Kind.RULE in kinds)
            or any(
                outcome.visible and name in LADDER and LADDER[name].kind in kinds
                for name, outcome in (segment.ladder or {}).items()
            )
        )
    )
