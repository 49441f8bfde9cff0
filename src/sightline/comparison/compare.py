"""Detectors and testbeds side by side, from results on disk alone."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, count, product
from typing import Any

import numpy as np

from sightline.comparison.paired_bootstrap import Difference, Pairing
from sightline.comparison.seed_rankings import RANKED_FIGURES, Ranking, rank_detectors
from sightline.evaluation.result import plain
from sightline.evaluation.uncertainty import figures
from sightline.metrics.correlation import RankCorrelation, rank_correlation
from sightline.metrics.intervals import N_REPLICATES
from sightline.progress import Progress, Step, StepKind
from sightline.storage import Result

# Detector-level figures whose ranking is followed from testbed to testbed.
TRANSFER_FIGURES = ("roc_auc", "median_d_full", "p_full")


@dataclass(frozen=True, kw_only=True)
class SeededFigure:
    """A figure of one detector on one testbed, over its seeds."""

    testbed: str
    detector: str
    figure: str
    n_seeds: int
    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Whether two detectors find the same attacks of a testbed strong.

    Spearman's rho of D_FULL over the attacks both have, the mean over pairs of seeds;
    `n_matched` attacks in common, and how many each has alone.
    """

    testbed: str
    detectors: tuple[str, str]
    rho: float | None
    rho_range: tuple[float, float] | None
    n_matched: int
    n_alone: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Whether the ranking of detectors on one testbed holds on another."""

    figure: str
    testbeds: tuple[str, str]
    correlation: RankCorrelation


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """One attack of a testbed, and what became of it with each detector.

    `verdicts` and `spaces` are by detector, of its first seed; `seen_by` are those that
    detect it. `reading` is the paper's: evidence in one residual space that another,
    pooled over more channels, does not show.
    """

    testbed: str
    attack: str
    verdicts: dict[str, str]
    spaces: dict[str, str | None]
    seen_by: tuple[str, ...]
    reading: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that can be said across results."""

    figures: tuple[SeededFigure, ...]
    rankings: tuple[Ranking, ...]
    agreement: tuple[Agreement, ...]
    transfer: tuple[Transfer, ...]
    differences: tuple[Difference, ...]
    verdicts: tuple[SideBySide, ...]
    notices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        as_json: dict[str, Any] = plain(asdict(self))
        return as_json


def compare(
    results: Sequence[Result],
    *,
    n_replicates: int = N_REPLICATES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Compare detectors within testbeds, and their rankings across testbeds.

    Parameters
    ----------
    results : sequence of Result
        As `read_results` gives them; several of one detector on one testbed are its
        seeds.
    n_replicates, seed : int
        Of the paired bootstrap.
    progress : callable, optional
        Told what is being done, and how many of how many draws are done.
    """
    done = count(1)

    def tick() -> None:
        if progress is not None:
            progress(Step(StepKind.COMPARING, next(done), len(results) * n_replicates))

    seeded = seeded_figures(results)
    by_testbed: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_testbed[result.testbed].append(result)
    rankings: list[Ranking] = []
    agreement: list[Agreement] = []
    differences: list[Difference] = []
    verdicts: list[SideBySide] = []
    notices: list[str] = []
    for testbed, here in by_testbed.items():
        detectors = _by_detector(here)
        rankings += _rankings(testbed, detectors)
        verdicts += _side_by_side(testbed, detectors)
        agreement += _agreements(testbed, detectors)
        pairing = Pairing(here, n_replicates=n_replicates, seed=seed, tick=tick)
        for first, second in combinations(detectors.values(), 2):
            differences += pairing.differences(first, second)
        notices += pairing.notices(testbed)
    return Comparison(
        figures=tuple(seeded),
        rankings=tuple(rankings),
        agreement=tuple(agreement),
        transfer=tuple(ranking_transfer(seeded)),
        differences=tuple(differences),
        verdicts=tuple(verdicts),
        notices=tuple(notices),
    )


def seeded_figures(results: Sequence[Result]) -> list[SeededFigure]:
    """Return the mean and the range over seeds of every figure."""
    grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.testbed, result.detector].append(result)
    found = []
    for (testbed, detector), seeds in grouped.items():
        measured = [figures(result.evaluation) for result in seeds]
        for name in measured[0]:
            values = [m[name] for m in measured]
            known = np.array([v for v in values if v is not None], dtype=np.float64)
            found.append(
                SeededFigure(
                    testbed=testbed,
                    detector=detector,
                    figure=name,
                    n_seeds=len(known),
                    mean=float(known.mean()) if len(known) else None,
                    low=float(known.min()) if len(known) else None,
                    high=float(known.max()) if len(known) else None,
                )
            )
    return found


def ranking_transfer(seeded: Sequence[SeededFigure]) -> list[Transfer]:
    """Return how each figure's ranking of the shared detectors carries over."""
    means: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in seeded:
        if row.mean is not None:
            means[row.figure, row.testbed][row.detector] = row.mean
    testbeds = sorted({row.testbed for row in seeded})
    return [
        Transfer(
            figure=figure,
            testbeds=(a, b),
            correlation=_over_shared(means[figure, a], means[figure, b]),
        )
        for figure in TRANSFER_FIGURES
        for a, b in combinations(testbeds, 2)
    ]


def _over_shared(a: dict[str, float], b: dict[str, float]) -> RankCorrelation:
    shared = sorted(set(a) & set(b))
    return rank_correlation(
        np.array([a[name] for name in shared]), np.array([b[name] for name in shared])
    )


def _by_detector(results: Sequence[Result]) -> dict[str, list[Result]]:
    by_detector: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_detector[result.detector].append(result)
    return by_detector


def _rankings(testbed: str, detectors: dict[str, list[Result]]) -> list[Ranking]:
    measured = {
        name: [figures(result.evaluation) for result in seeds]
        for name, seeds in detectors.items()
    }
    found = []
    for figure in RANKED_FIGURES:
        values = {
            name: [value for m in seeds if (value := m[figure]) is not None]
            for name, seeds in measured.items()
        }
        ranking = rank_detectors(testbed, figure, values)
        if ranking is not None:
            found.append(ranking)
    return found


def _agreements(testbed: str, detectors: dict[str, list[Result]]) -> list[Agreement]:
    found = []
    for (name_a, seeds_a), (name_b, seeds_b) in combinations(detectors.items(), 2):
        pairs = [
            (a, b, match_segments(spans_of(a), spans_of(b)))
            for a, b in product(seeds_a, seeds_b)
        ]
        rhos = [
            rank_correlation(
                a.traces["segment_d_full"][[i for i, _ in matched]],
                b.traces["segment_d_full"][[j for _, j in matched]],
            ).rho
            for a, b, matched in pairs
        ]
        known = [rho for rho in rhos if rho is not None]
        a, b, matched = pairs[0]
        found.append(
            Agreement(
                testbed=testbed,
                detectors=(name_a, name_b),
                rho=float(np.mean(known)) if known else None,
                rho_range=(min(known), max(known)) if known else None,
                n_matched=len(matched),
                n_alone=(
                    len(a.evaluation.segments) - len(matched),
                    len(b.evaluation.segments) - len(matched),
                ),
            )
        )
    return found


def _side_by_side(testbed: str, detectors: dict[str, list[Result]]) -> list[SideBySide]:
    """Lay the verdicts of several detectors on the same attacks side by side."""
    firsts = {name: seeds[0] for name, seeds in detectors.items()}
    if len(firsts) < 2:
        return []
    base_name, base = next(iter(firsts.items()))
    spans = spans_of(base)
    places = {base_name: {i: i for i in range(len(spans))}}
    for name, result in firsts.items():
        if name != base_name:
            places[name] = dict(match_segments(spans, spans_of(result)))
    found = []
    for i, segment in enumerate(base.evaluation.segments):
        verdicts = {
            name: str(result.evaluation.segments[places[name][i]].verdict)
            for name, result in firsts.items()
            if i in places[name]
            and result.evaluation.segments[places[name][i]].verdict is not None
        }
        if verdicts:
            found.append(_one_attack(testbed, segment.id, verdicts, firsts))
    return found


def _one_attack(
    testbed: str, attack: str, verdicts: dict[str, str], results: dict[str, Result]
) -> SideBySide:
    spaces = {name: results[name].evaluation.stream.space for name in verdicts}
    seen_by = tuple(name for name, word in verdicts.items() if word == "detected")
    diluted = [name for name, word in verdicts.items() if word == "diluted"]
    if len(seen_by) == len(verdicts):
        reading = "seen by all"
    elif not seen_by:
        reading = "missed by all"
    elif diluted:
        reading = (
            f"visible in {_space(seen_by[0], spaces)}, diluted in "
            f"{_space(diluted[0], spaces)}"
        )
    else:
        reading = f"seen by {', '.join(seen_by)}"
    return SideBySide(
        testbed=testbed,
        attack=attack,
        verdicts=verdicts,
        spaces=spaces,
        seen_by=seen_by,
        reading=reading,
    )


def _space(name: str, spaces: dict[str, str | None]) -> str:
    space = spaces[name]
    return f"the residuals of {name}" if space is None else f"the {space} space"


def spans_of(result: Result) -> list[tuple[float, float]]:
    """Return when each attack begins and ends: in time where known, else in rows."""
    rows = [(s.start, s.stop) for s in result.evaluation.segments]
    time = result.traces.get("test_time")
    if time is None:
        return [(float(start), float(stop)) for start, stop in rows]
    step = result.evaluation.stream.step_s or 0.0
    return [(float(time[start]), float(time[stop - 1]) + step) for start, stop in rows]


def match_segments(
    first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]
) -> list[tuple[int, int]]:
    """Pair the spans that overlap most, one to one; in the order of the first.

    Examples
    --------
    >>> match_segments([(0, 10), (20, 30)], [(1, 9), (9, 12), (28, 40)])
    [(0, 0), (1, 2)]
    """
    overlaps = [
        (min(a[1], b[1]) - max(a[0], b[0]), i, j)
        for i, a in enumerate(first)
        for j, b in enumerate(second)
        if min(a[1], b[1]) > max(a[0], b[0])
    ]
    taken_i: set[int] = set()
    taken_j: set[int] = set()
    pairs = []
    for _, i, j in sorted(overlaps, key=lambda o: (-o[0], o[1], o[2])):
        if i not in taken_i and j not in taken_j:
            taken_i.add(i)
            taken_j.add(j)
            pairs.append((i, j))
    return sorted(pairs)
