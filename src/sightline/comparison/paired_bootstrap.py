"""Two detectors on one testbed: differences with intervals from the same draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from sightline.comparison.runs import DetectorRuns, Figure
from sightline.data.arrays import ATTACK, Bools, Floats, Ints
from sightline.data.segments import Segment, breaks_kept, segments_of
from sightline.metrics.intervals import (
    Drawable,
    bootstrap,
    figures_of_draw,
    no_tick,
    percentile_interval,
)
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


@dataclass(frozen=True, kw_only=True)
class Difference:
    """First minus second detector, with a 95% interval from the same draws.

    With several seeds it is the mean over all pairs of them. `n_rows` is how many test
    rows both have, on which alone it is measured (the fewest over pairs of seeds).
    """

    testbed: str
    detectors: tuple[str, str]
    figure: str
    difference: float
    interval: tuple[float, float] | None
    n_rows: int


# The figures of a result on some rows, as they are and in every replicate.
_Side = tuple[dict[str, float], dict[str, Floats]]


class Pairing:
    """Pairs results of one testbed; each is drawn once for the rows it shares."""

    def __init__(
        self,
        results: Sequence[Result],
        *,
        n_replicates: int,
        seed: int,
        tick: Callable[[], None] = no_tick,
    ) -> None:
        # One block length for all, or the draws would not be the same.
        self.block = max(_block(result) for result in results)
        self.n_replicates = n_replicates
        self.seed = seed
        self.tick = tick
        self._sides: dict[tuple[int, bytes], _Side] = {}
        # Of each pair whose rows differ: how many both have, and the more of the two.
        self._rows: list[tuple[int, int]] = []
        # Detectors with results that could not be paired, in order, by the reason.
        self._unpaired: dict[str, dict[str, None]] = {}

    def differences(
        self, first: DetectorRuns, second: DetectorRuns
    ) -> list[Difference]:
        """Return the differences between two detectors, given their seeds.

        Rows are paired by time stamps, or by number where not both results have any.
        What could not be paired, and why, is for `notices` to say.
        """
        pairs = []
        for a, b in product(first.results, second.results):
            pair = self._pair(a, b)
            if isinstance(pair, str):
                names = f"{first.label} and {second.label}"
                self._unpaired.setdefault(pair, {}).setdefault(names)
            else:
                pairs.append(pair)
        if not pairs:
            return []
        n_attacks = min(pair[2] for pair in pairs)
        n_rows = min(pair[3] for pair in pairs)
        found = []
        for name in PAIRED_FIGURES:
            known = [
                (one, two)
                for one, two, *_ in pairs
                if name in one[0] and name in two[0]
            ]
            if not known:
                continue
            difference = float(np.mean([o[0][name] - t[0][name] for o, t in known]))
            drawn = np.mean([o[1][name] - t[1][name] for o, t in known], axis=0)
            if np.isfinite(difference):
                found.append(
                    Difference(
                        testbed=first.testbed,
                        detectors=(first.label, second.label),
                        figure=name.value,
                        difference=difference,
                        interval=percentile_interval(
                            "difference", difference, drawn, n_attacks
                        ),
                        n_rows=n_rows,
                    )
                )
        return found

    def notices(self, testbed: str) -> list[str]:
        """Return what could not be paired, and on how many rows the rest is."""
        told = [
            f"{testbed}: not compared row by row are {'; '.join(names)}: {why}."
            for why, names in self._unpaired.items()
        ]
        if self._rows:
            shared, most = zip(*self._rows, strict=True)
            told.append(
                f"{testbed}: results have different test rows, so each difference is "
                f"on the rows both have: {_between(shared)} of up to {max(most):,} "
                "rows."
            )
        return told

    def _pair(self, a: Result, b: Result) -> tuple[_Side, _Side, int, int] | str:
        shared = _shared_rows(a, b)
        if isinstance(shared, str):
            return shared
        rows_a, rows_b = shared
        attacks, breaks = _common_attacks(a, b, rows_a, rows_b)
        if not attacks:
            return "they have no attack row in common"
        most = max(len(r.traces["labels"]) for r in (a, b))
        if len(rows_a) < most:
            self._rows.append((len(rows_a), most))
        sides = [
            self._side(result, rows, attacks, breaks)
            for result, rows in ((a, rows_a), (b, rows_b))
        ]
        return sides[0], sides[1], len(attacks), len(rows_a)

    def _side(
        self, result: Result, rows: Ints, attacks: list[Segment], breaks: Ints
    ) -> _Side:
        key = (id(result), rows.tobytes() + breaks.tobytes())
        if key not in self._sides:
            self._sides[key] = self._draw(result, rows, attacks, breaks)
        return self._sides[key]

    def _draw(
        self, result: Result, rows: Ints, attacks: list[Segment], breaks: Ints
    ) -> _Side:
        energy = result.traces["test_energy"][rows]
        drawable = Drawable.of(
            energy,
            result.traces["labels"][rows],
            _alarms(result, energy),
            attacks,
            breaks,
            block=self.block,
        )
        train_mean = result.evaluation.compactness.p_eff / 2
        windows = _outcome(result, len(attacks))
        measured = figures_of_draw(
            drawable,
            np.ones(len(attacks)),
            np.ones(len(drawable.block_rows)),
            train_mean=train_mean,
            windows=windows,
        )
        drawn = bootstrap(
            drawable,
            train_mean=train_mean,
            windows=windows,
            n_replicates=self.n_replicates,
            seed=self.seed,
            tick=self.tick,
        )
        return measured, drawn


def _shared_rows(a: Result, b: Result) -> tuple[Ints, Ints] | str:
    """Return the rows of both that stand for the same moments, or why none do."""
    times = a.traces.get("test_time"), b.traces.get("test_time")
    n_a, n_b = len(a.traces["labels"]), len(b.traces["labels"])
    if times[0] is None or times[1] is None:
        if n_a != n_b:
            return f"they have {n_a} and {n_b} rows and not both have time stamps"
        rows_a = rows_b = np.arange(n_a)
    else:
        _, rows_a, rows_b = np.intersect1d(times[0], times[1], return_indices=True)
        if len(rows_a) < 0.5 * min(n_a, n_b):
            return "fewer than half of their time stamps are the same"
        rows_a, rows_b = np.sort(rows_a), np.sort(rows_b)
    if not np.array_equal(a.traces["labels"][rows_a], b.traces["labels"][rows_b]):
        return "their labels differ on the rows they share"
    return rows_a, rows_b


def _common_attacks(
    a: Result, b: Result, rows_a: Ints, rows_b: Ints
) -> tuple[list[Segment], Ints]:
    """Return the attacks among the shared rows, and the breaks of either result."""
    breaks = []
    for result, rows in ((a, rows_a), (b, rows_b)):
        keep = np.zeros(len(result.traces["labels"]), np.bool_)
        keep[rows] = True
        breaks.append(breaks_kept(result.traces["test_breaks"], keep))
    merged = np.union1d(*breaks)
    is_attack = a.traces["labels"][rows_a] == ATTACK
    return segments_of(is_attack, merged), merged


def _between(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _alarms(result: Result, energy: Floats) -> Bools:
    probe = result.evaluation.probe
    tau99 = None if probe is None else probe.tau99  # an old file may lack it
    return energy > (np.inf if tau99 is None else tau99)


def _block(result: Result) -> int:
    return result.evaluation.bootstrap.block if result.evaluation.bootstrap else 1


def _outcome(result: Result, n_attacks: int) -> WindowOutcome | None:
    """Return the windows of a result, where they are those of the shared attacks."""
    d_full, bounds = result.traces["segment_d_full"], result.traces["matched_bounds"]
    if len(d_full) != n_attacks:
        return None
    matched = [
        result.traces["matched_d_full"][bounds[k] : bounds[k + 1]]
        for k in result.traces["segment_group"]
    ]
    return WindowOutcome.of(d_full, matched)
