"""Differences of two detectors on one testbed, with intervals from the same draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from sightline.comparison.runs import DetectorRuns, Figure
from sightline.data.arrays import ATTACK, Floats, Ints
from sightline.data.segments import Segment, breaks_kept, segments_of
from sightline.metrics import intervals
from sightline.metrics.intervals import percentile_interval
from sightline.metrics.window_kl import WindowOutcome
from sightline.storage import Result

# Figures whose difference between two detectors gets a paired interval.
PAIRED_FIGURES = (
    Figure.ROC_AUC,
    Figure.PAUC_1,
    Figure.AVERAGE_PRECISION,
    Figure.MEAN_SEGMENT_AUC,
    Figure.P_FULL,
    Figure.F1,
    Figure.RECALL,
)
# Time stamps must be the same for this share of the rows of the shorter result.
LEAST_SHARED = 0.5


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A figure of the first detector minus that of the second.

    Parameters
    ----------
    testbed : str
        Name of the testbed.
    detectors : tuple of str
        Labels of the first and the second detector.
    figure : str
        Name of the figure.
    difference : float
        First minus second, the mean over all pairs of seeds. 0 if they do not differ.
    interval : tuple of float, optional
        95% interval from draws of attacks and blocks of normal rows that are the same
        for both detectors. None for fewer than two shared attacks.
    n_rows : int
        Test rows that both detectors have, on which the difference is measured (the
        fewest over pairs of seeds).
    """

    testbed: str
    detectors: tuple[str, str]
    figure: str
    difference: float
    interval: tuple[float, float] | None
    n_rows: int


@dataclass(frozen=True)
class _Side:
    """The figures of a result on some rows: as measured, and in every draw."""

    measured: dict[str, float]
    drawn: dict[str, Floats]


@dataclass(frozen=True)
class _Pair:
    """Two results on the rows that they share."""

    first: _Side
    second: _Side
    n_attacks: int
    n_rows: int


class _NotPaired(Exception):
    """The reason why two results have no rows to compare."""


@dataclass
class Pairing:
    """Pairs results of one testbed; each result is drawn once for the rows it shares.

    Parameters
    ----------
    results : sequence of Result
        All results that will be paired.
    n_replicates, seed : int
        Number of draws, and the seed that makes them reproducible.
    tick : callable
        Called after each draw.
    """

    results: Sequence[Result]
    n_replicates: int
    seed: int
    tick: Callable[[], None] = intervals.no_tick
    _sides: dict[tuple[Result, bytes], _Side] = field(default_factory=dict)
    # Of each pair with different rows: how many both have, and the larger number.
    _rows: list[tuple[int, int]] = field(default_factory=list)
    # By reason: the detectors with results that could not be paired, in order.
    _unpaired: dict[str, dict[str, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose one block length for all, so that all draws are the same."""
        bootstraps = [result.evaluation.bootstrap for result in self.results]
        self._block = max(1 if facts is None else facts.block for facts in bootstraps)

    def differences(
        self, first: DetectorRuns, second: DetectorRuns
    ) -> list[Difference]:
        """Return the differences between two detectors in all `PAIRED_FIGURES`.

        Rows are paired by time stamps, or by number if not both results have them.
        `notices` reports what could not be paired.
        """
        pairs = []
        for a, b in product(first.results, second.results):
            try:
                pairs.append(self._pair(a, b))
            except _NotPaired as reason:
                detectors = f"{first.label} and {second.label}"
                self._unpaired.setdefault(str(reason), {})[detectors] = None
        differences = []
        for name in PAIRED_FIGURES:
            sides = [
                (pair.first, pair.second)
                for pair in pairs
                if name in pair.first.measured and name in pair.second.measured
            ]
            if not sides:
                continue
            measured = [a.measured[name] - b.measured[name] for a, b in sides]
            difference = float(np.mean(measured))
            if not np.isfinite(difference):
                continue
            drawn = np.mean([a.drawn[name] - b.drawn[name] for a, b in sides], axis=0)
            n_attacks = min(pair.n_attacks for pair in pairs)
            interval = percentile_interval("difference", difference, drawn, n_attacks)
            differences.append(
                Difference(
                    testbed=first.testbed,
                    detectors=(first.label, second.label),
                    figure=name.value,
                    difference=difference,
                    interval=interval,
                    n_rows=min(pair.n_rows for pair in pairs),
                )
            )
        return differences

    def notices(self, testbed: str) -> list[str]:
        """Return which detectors could not be paired, and on how many rows others are.

        One notice for each reason.
        """
        notices = [
            f"{testbed}: not compared row by row are {'; '.join(detectors)}: {reason}."
            for reason, detectors in self._unpaired.items()
        ]
        if self._rows:
            shared, most = zip(*self._rows, strict=True)
            low, high = f"{min(shared):,}", f"{max(shared):,}"
            notices.append(
                f"{testbed}: results have different test rows, so each difference is "
                f"on the rows both have: {low if low == high else f'{low} to {high}'} "
                f"of up to {max(most):,} rows."
            )
        return notices

    def _pair(self, a: Result, b: Result) -> _Pair:
        rows_a, rows_b = _shared_rows(a, b)
        attacks, breaks = _common_attacks(a, b, rows_a, rows_b)
        if not attacks:
            raise _NotPaired("they have no attack row in common")
        most = max(len(a.traces.labels), len(b.traces.labels))
        if len(rows_a) < most:
            self._rows.append((len(rows_a), most))
        first = self._side(a, rows_a, attacks, breaks)
        second = self._side(b, rows_b, attacks, breaks)
        return _Pair(first, second, len(attacks), len(rows_a))

    def _side(
        self, result: Result, rows: Ints, attacks: list[Segment], breaks: Ints
    ) -> _Side:
        """Return the figures of a result on some rows, drawn when first asked for."""
        key = (result, rows.tobytes() + breaks.tobytes())
        if key in self._sides:
            return self._sides[key]
        energy = result.traces.test_energy[rows]
        tau99 = result.evaluation.probe.tau99
        drawable = intervals.Drawable.of(
            energy,
            result.traces.labels[rows],
            energy > (np.inf if tau99 is None else tau99),
            attacks,
            breaks,
            block=self._block,
        )
        train_mean = result.evaluation.compactness.p_eff / 2
        windows = _windows(result, len(attacks))
        measured = intervals.figures_of_draw(
            drawable,
            np.ones(len(attacks)),
            np.ones(len(drawable.block_rows)),
            train_mean=train_mean,
            windows=windows,
        )
        drawn = intervals.bootstrap(
            drawable,
            train_mean=train_mean,
            windows=windows,
            n_replicates=self.n_replicates,
            seed=self.seed,
            tick=self.tick,
        )
        self._sides[key] = _Side(measured, drawn)
        return self._sides[key]


def _shared_rows(a: Result, b: Result) -> tuple[Ints, Ints]:
    """Return the rows of both results that are the same moments, in time order."""
    time_a, time_b = a.traces.test_time, b.traces.test_time
    n_a, n_b = len(a.traces.labels), len(b.traces.labels)
    if time_a is None or time_b is None:
        if n_a != n_b:
            reason = f"they have {n_a} and {n_b} rows and not both have time stamps"
            raise _NotPaired(reason)
        rows_a = rows_b = np.arange(n_a)
    else:
        _, rows_a, rows_b = np.intersect1d(time_a, time_b, return_indices=True)
        if len(rows_a) < LEAST_SHARED * min(n_a, n_b):
            raise _NotPaired("fewer than half of their time stamps are the same")
        rows_a, rows_b = np.sort(rows_a), np.sort(rows_b)
    if not np.array_equal(a.traces.labels[rows_a], b.traces.labels[rows_b]):
        raise _NotPaired("their labels differ on the rows they share")
    return rows_a, rows_b


def _common_attacks(
    a: Result, b: Result, rows_a: Ints, rows_b: Ints
) -> tuple[list[Segment], Ints]:
    """Return the attacks among the shared rows, and the breaks of either result."""
    breaks = []
    for result, rows in ((a, rows_a), (b, rows_b)):
        keep = np.zeros(len(result.traces.labels), np.bool_)
        keep[rows] = True
        breaks.append(breaks_kept(result.traces.test_breaks, keep))
    merged = np.union1d(*breaks)
    return segments_of(a.traces.labels[rows_a] == ATTACK, merged), merged


def _windows(result: Result, n_attacks: int) -> WindowOutcome | None:
    """Return the windows of a result; None if its attacks are not the shared ones."""
    traces = result.traces
    if len(traces.segment_d_full) != n_attacks:
        return None
    groups = np.split(traces.matched_d_full, traces.matched_bounds[1:-1])
    matched = [groups[k] for k in traces.segment_group]
    return WindowOutcome.of(traces.segment_d_full, matched)
