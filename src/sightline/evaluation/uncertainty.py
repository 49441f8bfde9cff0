"""Intervals and chance floors of an evaluation's figures."""

from itertools import count

from sightline.energy.energy import ScoredTest
from sightline.evaluation.result import BootstrapFacts, StreamMeasures, Uncertainty
from sightline.metrics import intervals
from sightline.metrics.window_kl import WindowEnergies
from sightline.progress import Progress, Step, StepKind, silent


def figures(measures: StreamMeasures) -> dict[str, float | None]:
    """Return the figures that get an interval, by name; None if undefined."""
    return {
        name: getattr(getattr(measures, figure.block), name)
        for name, figure in intervals.FIGURES.items()
    }


def measure_uncertainty(
    test: ScoredTest,
    measures: StreamMeasures,
    windows: WindowEnergies,
    *,
    train_mean: float,
    seed: int,
    n_replicates: int = intervals.N_REPLICATES,
    n_shifts: int = intervals.N_SHIFTS,
    progress: Progress | None = None,
) -> Uncertainty:
    """Return a 95% interval and a chance floor for each figure.

    Parameters
    ----------
    test : ScoredTest
        Energy, labels, attacks and alarms of the test.
    measures : StreamMeasures
        The figures themselves.
    windows : WindowEnergies
        Of its attacks.
    train_mean : float
        Mean train energy.
    seed : int
        Same seed, same intervals.
    n_replicates, n_shifts : int
        How often to draw, and how often to move the labels.
    progress : callable, optional
        Called with a `Step` after each draw and each shift.

    Returns
    -------
    Uncertainty
        Without attacks all floors are None, and all intervals but those of drifts.
    """
    n_attacks = len(test.attacks)
    total = n_replicates + (n_shifts if n_attacks else 0)
    report, done = progress or silent, count(1)

    def tick() -> None:
        report(Step(StepKind.DRAWING_INTERVALS, next(done), total))

    measured = figures(measures)
    trace = (test.energy, test.labels, test.alarms, test.segments)
    drawable = intervals.Drawable.of(*trace, test.breaks)
    replicates = intervals.bootstrap(
        drawable,
        train_mean=train_mean,
        windows=windows.outcome if n_attacks else None,
        n_replicates=n_replicates,
        seed=seed,
        tick=tick,
    )
    ranges = {
        name: intervals.percentile_interval(name, measured[name], values, n_attacks)
        for name, values in replicates.items()
    }
    floors = {}
    if n_attacks:
        ranges["hits"] = intervals.count_interval(measures.probe.hits or 0, n_attacks)
        at_chance = intervals.chance(
            *trace, windows=windows, n_shifts=n_shifts, seed=seed, tick=tick
        )
        floors = {
            name: intervals.floor_of(measured[name], values)
            for name, values in at_chance.items()
        }
    return Uncertainty(
        intervals={name: ranges.get(name) for name in intervals.FIGURES},
        floor={
            name: floors.get(name)
            for name, figure in intervals.FIGURES.items()
            if figure.needs_attack
        },
        bootstrap=BootstrapFacts(
            n=n_replicates,
            block=drawable.block,
            seed=seed,
            few_events=n_attacks < intervals.FEW_EVENTS,
            shifts=n_shifts,
        ),
    )
