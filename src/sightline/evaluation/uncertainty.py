"""Intervals and chance floors of an evaluation's figures."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from sightline.data.arrays import Bools
from sightline.data.segments import Segment
from sightline.evaluation.result import BootstrapFacts, Evaluation
from sightline.metrics.chance import N_SHIFTS, chance, floor_of
from sightline.metrics.intervals import (
    FEW_EVENTS,
    N_REPLICATES,
    Drawable,
    bootstrap,
    count_interval,
    percentile_interval,
)
from sightline.metrics.window_kl import WindowEnergies
from sightline.progress import Progress, Step, StepKind

_FIGURES = {
    "rank": (
        "roc_auc",
        "pauc_1",
        "pauc_5",
        "average_precision",
        "mean_segment_auc",
    ),
    "windows": ("p_full", "median_d_full"),
    "drift": ("d_drift", "d_drift_robust"),
    "probe": ("f1", "precision", "recall", "hits"),
}


def figures(evaluation: Evaluation) -> dict[str, float | None]:
    """Return the figures that get an interval, by name."""
    return {
        name: getattr(getattr(evaluation, block), name)
        for block, names in _FIGURES.items()
        for name in names
    }


def with_uncertainty(
    evaluation: Evaluation,
    is_alarm: Bools,
    attacks: Sequence[Segment],
    windows: WindowEnergies,
    *,
    train_mean: float,
    seed: int,
    n_replicates: int = N_REPLICATES,
    n_shifts: int = N_SHIFTS,
    progress: Progress | None = None,
) -> Evaluation:
    """Return the evaluation with an interval and a floor beside each figure.

    Parameters
    ----------
    evaluation : Evaluation
        The figures themselves.
    is_alarm : array of bool, shape (n_steps,)
        The alarms of the p99 rule.
    attacks : sequence of Segment
        The attack runs of the labels.
    windows : WindowEnergies
        Of its attacks.
    train_mean : float
        Mean train energy.
    seed : int
        Same seed, same intervals.
    n_replicates, n_shifts : int
        How often to draw, and how often to move the labels.
    progress : callable, optional
        Told how many of how many draws and shifts are done.
    """
    traces = evaluation.traces
    if traces is None:
        raise ValueError("`evaluation` must have its traces.")
    energy, labels = traces.test_energy, traces.labels
    stream = Drawable.of(energy, labels, is_alarm, attacks, traces.test_breaks)
    n_attacks = evaluation.stream.n_segments
    measured = figures(evaluation)
    total = n_replicates + (n_shifts if n_attacks else 0)
    done = count(1)

    def tick() -> None:
        if progress is not None:
            progress(Step(StepKind.DRAWING_INTERVALS, next(done), total))

    known = windows if n_attacks else None
    replicates = bootstrap(
        stream,
        train_mean=train_mean,
        windows=known.outcome if known else None,
        n_replicates=n_replicates,
        seed=seed,
        tick=tick,
    )
    intervals = {
        name: percentile_interval(name, measured[name], values, n_attacks)
        for name, values in replicates.items()
    }
    floor = {}
    if n_attacks:
        intervals["hits"] = count_interval(int(evaluation.probe.hits or 0), n_attacks)
        at_chance = chance(
            energy,
            labels,
            is_alarm,
            attacks,
            windows=known,
            n_shifts=n_shifts,
            seed=seed,
            tick=tick,
        )
        floor = {
            name: floor_of(measured[name], values) for name, values in at_chance.items()
        }
    return replace(
        evaluation,
        intervals={name: intervals.get(name) for name in measured},
        floor={
            name: floor.get(name) for name in measured if not name.startswith("d_drift")
        },
        bootstrap=BootstrapFacts(
            n=n_replicates,
            block=stream.block,
            seed=seed,
            few_events=n_attacks < FEW_EVENTS,
            shifts=n_shifts,
        ),
    )
