"""Intervals and chance floors of an evaluation's figures."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints
from sightline.data.row_tables import make_calls, parts_of
from sightline.energy.energy import ScoredTest
from sightline.evaluation.result import (
    BootstrapFacts,
    EffectiveAttacks,
    StreamMeasures,
    Uncertainty,
)
from sightline.figures import FIGURES, with_interval
from sightline.metrics import chance, drawing, intervals
from sightline.metrics.drawing import Drawable, Draws, MatchedWindows
from sightline.metrics.window_kl import WindowEnergies, is_beaten
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.scoring import ScoredStream

# Figures of alarms that are above their floor if recall is.
_BY_RECALL = ("f1", "precision")
METHOD = "one-more-attack"


def measure_uncertainty(
    scored: ScoredStream,
    measures: StreamMeasures,
    *,
    seed: int,
    progress: Progress = silent,
) -> Uncertainty:
    """Return a 95% interval and a chance floor for each figure.

    Parameters
    ----------
    scored : ScoredStream
        Energies, labels, attacks and alarms. If the test is divided among workers, they
        draw.
    measures : StreamMeasures
        The figures themselves.
    seed : int
        Same seed, same intervals.
    progress : callable, optional
        Called with a `Step` after some draws.

    Returns
    -------
    Uncertainty
        Without attacks all floors are None, and all intervals but those of drifts and
        of the share of calm rows in alarm.
    """
    test, windows, rows = scored.test, scored.windows, scored.stream.test
    train_mean = scored.energies.train_mean
    n_attacks = len(test.attacks)
    n_replicates, n_shifts = drawing.N_REPLICATES, chance.N_SHIFTS
    total = n_replicates + (n_shifts if n_attacks else 0)

    def tick(n_done: int) -> None:
        progress(Step(StepKind.DRAWING_INTERVALS, min(n_done, total), total))

    is_sent = parts_of(rows) is not None
    block = drawing.block_of_calm(
        drawing.log_of(test.energy[test.attack_free.by_label])
    )
    block_of = drawing.blocks_of_rows(test.labels, test.breaks, block)
    measured = {entry.key: entry.of(measures) for entry in with_interval()}
    floors: dict[str, chance.Floor | None] = {}
    ticks = (tick, lambda n_done: tick(n_replicates + n_done))
    if is_sent:
        ticks = (drawing.no_tick, drawing.no_tick)
    drawn = partial(_intervals, test, windows, block, block_of, measured, train_mean)
    calls: list[Callable[[], Any]] = [
        partial(drawn, n_replicates=n_replicates, seed=seed, tick=ticks[0])
    ]
    if n_attacks:
        rolled = partial(chance.chance, test.energy, test.labels, test.alarms)
        rolled = partial(rolled, test.segments, block_of, windows=windows)
        calls.append(partial(rolled, n_draws=n_shifts, seed=seed, tick=ticks[1]))
    if is_sent:
        (ranges, attack_rows), *at_chance = make_calls(rows, calls)
        tick(total)
    else:
        (ranges, attack_rows), *at_chance = [call() for call in calls]
    if n_attacks:
        ranges["hits"] = intervals.count_interval(measures.probe.hits or 0, n_attacks)
        floors = _floors(measured, at_chance[0])
    effective = None
    if len(attack_rows):
        n_effective = intervals.effective_attacks(attack_rows)
        effective = EffectiveAttacks(rows=n_effective, segments=float(len(attack_rows)))
    return Uncertainty(
        intervals={entry.key: ranges.get(entry.key) for entry in with_interval()},
        floor={e.key: floors.get(e.key) for e in with_interval() if e.has_floor},
        bootstrap=BootstrapFacts(
            method=METHOD,
            n=n_replicates,
            block=block,
            seed=seed,
            effective_attacks=effective,
            few_events=effective is None or effective.rows < intervals.FEW_EVENTS,
            shifts=n_shifts,
        ),
    )


def matched_windows(
    d_full: Floats,
    group: Ints,
    lengths: Ints,
    matched: Floats,
    starts: Ints,
    bounds: Ints,
    block_of: npt.NDArray[np.int32],
) -> list[MatchedWindows]:
    """Return the windows that each attack is compared with, by blocks of calm time.

    Parameters
    ----------
    d_full, group, lengths : array of shape (n_attacks,)
        Evidence of each attack, which of the different lengths it has, and its rows.
    matched, starts : array of shape (n_windows,)
        Evidence and first row of the matched windows, those of one length side by side.
    bounds : array of shape (n_lengths + 1,)
        Where those of each length begin.
    block_of : array of shape (n_rows,)
        Block of each calm row.
    """
    windows = []
    for own, k, length in zip(d_full, group.tolist(), lengths.tolist(), strict=True):
        part = slice(bounds[k], bounds[k + 1])
        block = block_of[starts[part] + length // 2]
        beaten = is_beaten(matched[part], own)
        windows.append(MatchedWindows(block[block >= 0], beaten[block >= 0]))
    return windows


def _intervals(
    test: ScoredTest,
    windows: WindowEnergies,
    block: int,
    block_of: npt.NDArray[np.int32],
    measured: Mapping[str, float | None],
    train_mean: float,
    *,
    n_replicates: int,
    seed: int,
    tick: drawing.Tick,
) -> tuple[dict[str, tuple[float, float | None] | None], Floats]:
    """Return the 95% interval of each figure that is drawn, and rows of each attack."""
    plan, matched = windows.plan, None
    if test.attacks:
        matched = matched_windows(
            windows.attack_d_full,
            plan.group,
            np.array([segment.length for segment in test.segments]),
            windows.normal_d_full,
            plan.starts[plan.is_normal],
            plan.normal_bounds,
            block_of,
        )
    # The test cut into attacks and blocks, with the windows of each attack.
    stream = Drawable.of(
        test.energy,
        test.alarms,
        drawing.attacks_of_rows(test.segments, test.n_rows),
        block_of,
        block=block,
        n_attacks=len(test.attacks),
        n_blocks=int(block_of.max()) + 1,
        d_full=windows.attack_d_full if test.attacks else None,
        windows=matched,
    )
    n_attacks, n_blocks = stream.n_attacks, len(stream.block_rows)
    draws = Draws.of(n_attacks, n_blocks, n=n_replicates, seed=seed)
    drawn = drawing.draw(stream, draws, tick=tick)
    ends = intervals.ends_of(drawn, draws, intervals.weights_of(drawn))
    ends |= intervals.drift_ends(drawn, train_mean)
    found = {
        name: intervals.interval_of(
            measured[name],
            one,
            low=FIGURES[name].low,
            high=FIGURES[name].high,
        )
        for name, one in ends.items()
    }
    return found, stream.attack_rows


def _floors(
    measured: Mapping[str, float | None], at_chance: Mapping[str, Floats]
) -> dict[str, chance.Floor | None]:
    """Return the chance floor of each figure; F1 and precision share recall's verdict.

    Redrawing calm time moves their false alarms, which attacks do not change.
    """
    floors = {
        name: chance.floor_of(measured[name], values)
        for name, values in at_chance.items()
    }
    recall = floors["recall"]
    for name in _BY_RECALL:
        floor = floors[name]
        if floor is not None and recall is not None:
            floors[name] = replace(floor, above_floor=recall.above_floor, p=recall.p)
    return floors
