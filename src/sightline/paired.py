"""Two detectors on one testbed: differences with intervals from the same draws."""

from dataclasses import dataclass

import numpy as np

from sightline.checks import ATTACK, Bools, Floats, Ints
from sightline.metrics.resampling import (
    N_REPLICATES,
    Drawable,
    bootstrap,
    figures_of_draw,
    percentile_interval,
)
from sightline.metrics.windows import WindowOutcome
from sightline.segments import Segment, breaks_kept, segments_of
from sightline.storage import Result

# Figures whose difference between two detectors gets a paired interval.
PAIRED_FIGURES = (
    "roc_auc",
    "pauc_1",
    "average_precision",
    "mean_segment_auc",
    "p_full",
    "f1",
    "recall",
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """First minus second detector, with a 95% interval from the same draws."""

    testbed: str
    results: tuple[str, str]
    figure: str
    difference: float
    interval: tuple[float, float] | None


def paired_differences(
    a: Result, b: Result, *, n_replicates: int = N_REPLICATES, seed: int = 0
) -> tuple[list[Difference], list[str]]:
    """Return the differences a minus b, drawing the same attacks and blocks for both.

    Rows are paired by time stamps, or by number where neither result has any. The
    second value says why nothing could be paired.
    """
    names = (a.folder.name, b.folder.name)
    shared = _shared_rows(a, b)
    if isinstance(shared, str):
        return [], [f"{names[0]} and {names[1]} are not compared row by row: {shared}."]
    rows_a, rows_b = shared
    attacks, breaks = _common_attacks(a, b, rows_a, rows_b)
    if not attacks:
        return [], [f"{names[0]} and {names[1]} have no attack row in common."]
    block = max(_block(a), _block(b))
    sides = [
        _side(result, rows, attacks, breaks, block, n_replicates, seed)
        for result, rows in ((a, rows_a), (b, rows_b))
    ]
    (one, drawn_one), (two, drawn_two) = sides
    return [
        Difference(
            testbed=a.testbed,
            results=names,
            figure=name,
            difference=one[name] - two[name],
            interval=percentile_interval(
                "difference",
                one[name] - two[name],
                drawn_one[name] - drawn_two[name],
                len(attacks),
            ),
        )
        for name in PAIRED_FIGURES
        if name in one and name in two and np.isfinite(one[name] - two[name])
    ], []


def _side(
    result: Result,
    rows: Ints,
    attacks: list[Segment],
    breaks: Ints,
    block: int,
    n_replicates: int,
    seed: int,
) -> tuple[dict[str, float], dict[str, Floats]]:
    """Return the figures of one result on the shared rows, as they are and drawn."""
    energy = result.traces["test_energy"][rows]
    drawable = Drawable.of(
        energy,
        result.traces["labels"][rows],
        _alarms(result, energy),
        attacks,
        breaks,
        block=block,
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
        n_replicates=n_replicates,
        seed=seed,
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


def _alarms(result: Result, energy: Floats) -> Bools:
    tau99 = result.evaluation.probe.tau99
    return energy > (np.inf if tau99 is None else tau99)


def _block(result: Result) -> int:
    return int((result.evaluation.bootstrap or {}).get("block", 1))


def _outcome(result: Result, n_attacks: int) -> WindowOutcome | None:
    """Return the windows of a result, where they are those of the shared attacks."""
    d_full, bounds = result.traces["segment_d_full"], result.traces["matched_bounds"]
    if len(d_full) != n_attacks:
        return None
    matched = [
        result.traces["matched_d_full"][bounds[i] : bounds[i + 1]]
        for i in range(n_attacks)
    ]
    return WindowOutcome.of(d_full, matched)
