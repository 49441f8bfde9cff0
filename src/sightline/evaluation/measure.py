"""What is measured on a scored stream: figures, their uncertainty, alarm metrics.

`measure` gives one record for each block of the stream, `measure_attacks` one for each
attack, `measure_uncertainty` their intervals and chance floors, and
`measure_alarm_metrics` the figures of alarms and scores that users know from elsewhere.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.audit.record import is_own_plant
from sightline.data.arrays import ATTACK, IGNORED, Bools, Floats, Ints, finite
from sightline.data.row_tables import gather_rows, make_calls, parts_of
from sightline.data.stream import ResidualStream
from sightline.energy.energy import Energies, ScoredTest, two_sided_energy
from sightline.energy.reference import crossfit_excess
from sightline.evaluation import result
from sightline.evaluation.result import Protocol
from sightline.figures import FIGURES, LARGEST, PAUC_RATES, with_interval
from sightline.metrics import chance, intervals, ranking
from sightline.metrics import measures as quality
from sightline.metrics.alarm_figures import AlarmFigure, measure_figures
from sightline.metrics.alarm_load import AlarmMetrics, judge_alarms
from sightline.metrics.alarm_runs import AlarmRuns, LabelledRows
from sightline.metrics.intervals import Drawable, Draws, MatchedWindows
from sightline.metrics.measures import SegmentMeasures, measure_segments
from sightline.metrics.score_metrics import ScoreRanks
from sightline.metrics.windows import WindowEnergies, is_beaten, measure_windows
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules import QuantileRule
from sightline.rules.commission import Commissioning
from sightline.rules.scoring import ScoredStream, ranks_of_score

# Figures of alarms that are above their floor if recall is.
_BY_RECALL = ("f1", "precision")
METHOD = "one-more-attack"


def measure(
    scored: ScoredStream, protocol: Protocol, *, guard: int, dropped: dict[str, int]
) -> result.StreamMeasures:
    """Return what is measured on the stream as a whole.

    Parameters
    ----------
    scored : ScoredStream
        The stream and its energies. Its rows are read only if it has a single channel
        that is judged two-sided, to rank by the raw value as well.
    protocol : Protocol
        `PAPER` counts false-positive segments by rows.
    guard, dropped : int, dict of str to int
        How the stream was changed before; they are only reported.

    Returns
    -------
    StreamMeasures
        Without attacks the figures of `rank`, `windows` and the hits of the rules are
        None. `own_rule` and `own_score` are None if the stream has none.
    """
    stream, energies, test = scored.stream, scored.energies, scored.test
    mean, reference = energies.train_mean, energies.reference
    lengths = np.array([segment.length for segment in test.segments])
    normal = np.sort(test.energy[test.attack_free.by_label])
    # The limit that 1% of the attack-free test rows exceed.
    hindsight = QuantileRule.from_normal(normal).threshold
    judge = partial(_judge_alarms, test, by_rows=protocol is Protocol.PAPER)
    # By the raw value of a single channel; energy grows with it if it is one-sided.
    raw_ranks = scored.ranks if stream.one_sided and test.attacks else None
    if stream.p == 1 and not stream.one_sided and test.attacks:
        raw = gather_rows(stream.test, np.arange(stream.test.n_rows))[:, 0]
        raw_ranks = ranks_of_score(raw, test.labels)
    # How a stream that is judged one-sided would do by two-sided energy.
    two_sided = result.TwoSided() if stream.one_sided else None
    if stream.one_sided and test.attacks:
        both = (
            two_sided_energy(each.energy, reference, energies.moments)
            for each in (energies.train, energies.test)
        )
        two_sided = result.TwoSided(**_by_energy(test, *both))
    own_score, by_largest = (
        None
        if one is None
        else ranking.measure_rank(ranks_of_score(one, test.labels), lengths)
        for one in (stream.score, scored.largest)
    )
    return result.StreamMeasures(
        stream=_stream_facts(scored),
        reference=result.ReferenceFacts(
            estimator=reference.estimator,
            shrinkage=reference.shrinkage,
            n_rows=reference.n_rows,
            **_standardised(energies, test, stream.p),
        ),
        rank=ranking.measure_rank(scored.ranks, lengths, raw=raw_ranks),
        two_sided=two_sided,
        windows=measure_windows(scored.windows),
        drift=quality.measure_drift(
            mean,
            normal,
            max_z=energies.test.max_z or 0.0,
            calibration_mean=energies.calibration_mean,
            d_crossfit=crossfit_excess(
                energies.folds,
                mean,
                estimator=reference.estimator,
                one_sided=bool(stream.one_sided),
            ),
        ),
        compactness=quality.measure_compactness(mean, stream.p),
        quality=_quality(stream, energies, normal),
        probe=judge(test.alarms, tau99=test.threshold),
        probe_test_calibrated=judge(test.energy > hindsight, tau99=hindsight),
        own_rule=None if test.own_alarms is None else judge(test.own_alarms),
        own_score=own_score,
        largest=by_largest,
        guard=guard,
        dropped_rows=dropped,
        protocol=protocol,
    )


def measure_attacks(
    scored: ScoredStream, measures: result.StreamMeasures
) -> list[SegmentMeasures]:
    """Return what is measured on each attack."""
    test = scored.test
    return measure_segments(
        test.attacks,
        test.energy,
        test.labels,
        test.alarms,
        scored.ranks,
        measures.drift,
        windows=scored.windows,
        train_mean=scored.energies.train_mean,
        step_s=test.step_s,
    )


def _standardised(
    energies: Energies, test: ScoredTest, p: int
) -> dict[str, float | None]:
    """Return the figures that units may decide, with each channel in its own spread.

    All None without attacks.
    """
    if energies.test.other_energy is None:
        return {"standardised_roc_auc": None}
    normal = energies.standardised_train
    normal = energies.train.energy if normal is None else normal
    figures = _by_energy(test, normal, energies.test.other_energy)
    figures["compactness"] = finite(2 * float(np.mean(normal)) / p)
    return {f"standardised_{key}": value for key, value in figures.items()}


def _by_energy(
    test: ScoredTest, normal: Floats, energy: Floats
) -> dict[str, float | None]:
    """Return what the p99 rule and the ranks would be by another energy.

    `normal` is that of train, `energy` that of the test.
    """
    ranks = ranks_of_score(energy, test.labels)
    alarms = QuantileRule.from_normal(normal).alarms(energy)
    return {
        "roc_auc": ranking.roc_auc_of_ranks(ranks),
        "pauc_1": ranking.partial_auc_of_ranks(ranks, PAUC_RATES[0]),
        "f1": _judge_alarms(test, alarms).f1,
    }


def _judge_alarms(
    test: ScoredTest,
    alarms: Bools,
    *,
    tau99: float | None = None,
    by_rows: bool = False,
) -> AlarmMetrics:
    """Return how a rule did on the test, by its alarms.

    `tau99` is the limit of the p99 rule; None for the detector's own rule, whose limit
    is not known. With `by_rows` false-positive segments are counted as the paper does.
    """
    return judge_alarms(
        alarms,
        test.labels,
        test.segments,
        breaks=test.breaks,
        step_s=test.step_s,
        tau99=tau99,
        is_attack_free=test.attack_free.for_alarms,
        ids=[attack.id for attack in test.attacks],
        early=test.attack_free.margins[:, 0],
        by_rows=by_rows,
    )


def _quality(
    stream: ResidualStream, energies: Energies, normal: Floats
) -> quality.Quality:
    """Return warning signs in the residuals themselves.

    Largest whitened residual and kurtosis (of train; the first also of normal test
    rows), how energies compare with their law (of both), and the names of channels that
    are constant in train, never negative in train and test, or too small in scale to
    count. The lists are empty if nothing is wrong.
    """
    constant = energies.moments.constant
    blind = quality.scale_blind(
        np.diag(energies.moments.covariance),
        np.diag(energies.reference.covariance),
        constant,
    )
    # Never negative: an absolute error, or a score.
    one_sided = energies.train.one_sided & energies.test.one_sided & ~constant
    if stream.one_sided:
        # A floor hides whether values were negative; one channel has no other's scale.
        one_sided &= getattr(stream.train, "floor", 0.0) == 0
        blind[:] = False
    train, test = (
        quality.against_chi_square(energy, stream.p)
        for energy in (energies.train.energy, normal)
    )
    return quality.Quality(
        max_z=energies.train.max_z,
        max_z_test_normal=energies.test.max_z,
        excess_kurtosis=energies.train.excess_kurtosis,
        chi_square_tail=train[0],
        chi_square_tail_test=test[0],
        chi_square_variance=train[1],
        chi_square_variance_test=test[1],
        constant_channels=quality.names_where(constant, stream.channels),
        one_sided_channels=quality.names_where(one_sided, stream.channels),
        scale_blind_channels=quality.names_where(blind, stream.channels),
    )


def _stream_facts(scored: ScoredStream) -> result.StreamFacts:
    """Return what was evaluated: names as the stream has them, and numbers of rows."""
    test = scored.test
    n_attack = int((test.labels == ATTACK).sum())
    fields = ("name", "detector", "testbed", "space", "p", "step_s", "timezone")
    return result.StreamFacts(
        **{name: getattr(scored.stream, name) for name in fields},
        n_train=scored.energies.rows.n_rows,
        n_test=test.n_rows,
        n_attack=n_attack,
        n_ignored=test.n_rows - n_attack - int(test.attack_free.by_label.sum()),
        n_segments=len(test.attacks),
        is_own_plant=is_own_plant(scored.stream.meta),
    )


# --- Uncertainty ----------------------------------------------------------------------


def measure_uncertainty(
    scored: ScoredStream,
    measures: result.StreamMeasures,
    *,
    seed: int,
    progress: Progress = silent,
) -> result.Uncertainty:
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
    train_mean, n_attacks = scored.energies.train_mean, len(test.attacks)
    n_replicates, n_shifts = intervals.N_REPLICATES, chance.N_SHIFTS
    total = n_replicates + (n_shifts if n_attacks else 0)

    def tick(n_done: int) -> None:
        progress(Step(StepKind.DRAWING_INTERVALS, min(n_done, total), total))

    block = intervals.block_of_calm(
        intervals.log_of(test.energy[test.attack_free.by_label])
    )
    block_of = intervals.blocks_of_rows(test.labels, test.breaks, block)
    measured = {entry.key: entry.of(measures) for entry in with_interval()}
    floors: dict[str, chance.Floor | None] = {}
    ticks = (tick, lambda n_done: tick(n_replicates + n_done))
    drawn = partial(_intervals, test, windows, block, block_of, measured, train_mean)
    calls: list[Callable[..., Any]] = [partial(drawn, n_replicates=n_replicates)]
    if n_attacks:
        rolled = partial(chance.chance, test.energy, test.labels, test.alarms)
        rolled = partial(rolled, test.segments, block_of, windows=windows)
        calls.append(partial(rolled, n_draws=n_shifts))
    calls = [partial(call, seed=seed) for call in calls]
    if parts_of(rows) is not None:
        (ranges, attack_rows), *at_chance = make_calls(rows, calls)
        tick(total)
    else:
        (ranges, attack_rows), *at_chance = [
            call(tick=each) for call, each in zip(calls, ticks, strict=False)
        ]
    if n_attacks:
        ranges["hits"] = intervals.count_interval(measures.probe.hits or 0, n_attacks)
        floors = {
            name: chance.floor_of(measured[name], values)
            for name, values in at_chance[0].items()
        }
        # F1 and precision share recall's verdict: redrawing calm time moves their false
        # alarms, which attacks do not change.
        if recall := floors["recall"]:
            is_above, p = recall.above_floor, recall.p
            for name in _BY_RECALL:
                floor = floors[name]
                floors[name] = floor and replace(floor, above_floor=is_above, p=p)
    effective = None
    if n_segments := float(len(attack_rows)):
        n_effective = intervals.effective_attacks(attack_rows)
        effective = result.EffectiveAttacks(rows=n_effective, segments=n_segments)
    return result.Uncertainty(
        intervals={entry.key: ranges.get(entry.key) for entry in with_interval()},
        floor={e.key: floors.get(e.key) for e in with_interval() if e.has_floor},
        bootstrap=result.BootstrapFacts(
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
    tick: intervals.Tick = intervals.no_tick,
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
        intervals.attacks_of_rows(test.segments, test.n_rows),
        block_of,
        block=block,
        n_attacks=len(test.attacks),
        n_blocks=int(block_of.max()) + 1,
        d_full=windows.attack_d_full if test.attacks else None,
        windows=matched,
    )
    n_attacks, n_blocks = stream.n_attacks, len(stream.block_rows)
    draws = Draws.of(n_attacks, n_blocks, n=n_replicates, seed=seed)
    drawn = intervals.draw(stream, draws, tick=tick)
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


# --- Alarm metrics --------------------------------------------------------------------


def measure_alarm_metrics(
    scored: ScoredStream,
    rules: Commissioning | None,
    uncertainty: result.Uncertainty,
    *,
    keys: Collection[str],
    seed: int,
    progress: Progress,
) -> dict[str, dict[str, AlarmFigure]] | None:
    """Return the alarm and score metrics, by whose alarms or score they are.

    Without attacks, or without keys, None. Recall of attacks by the p99 rule has the
    floor of `hits`: one figure, one floor. The chosen one of the `rules` made for a
    budget is judged on the rows after those it was made on.
    """
    test = scored.test
    if not (test.attacks and keys):
        return None
    rows = LabelledRows.of(test.labels, test.breaks)
    judged: dict[str, AlarmRuns | ScoreRanks] = {
        "probe": AlarmRuns.of(rows, test.alarms)
    }
    if test.own_alarms is not None:
        judged["own_rule"] = AlarmRuns.of(rows, test.own_alarms)
    judged["energy"] = ScoreRanks.of(rows, test.energy)
    if scored.stream.score is not None:
        judged["score"] = ScoreRanks.of(rows, scored.stream.score)
    if scored.largest is not None:
        judged[LARGEST] = ScoreRanks.of(rows, scored.largest)
    if rules is not None:
        # Earlier rows count nowhere, nor does an attack that begins among them.
        name, split = rules.facts.chosen, rules.facts.split
        labels = test.labels.copy()
        labels[:split] = IGNORED
        for attack in test.segments:
            if attack.start < split < attack.stop:
                labels[split : attack.stop] = IGNORED
        if (labels == ATTACK).any():
            alarms = np.zeros(test.n_rows, np.bool_)
            alarms[split:] = rules.alarms[name].rows
            later = LabelledRows.of(labels, test.breaks)
            judged[f"rule:{name}"] = AlarmRuns.of(later, alarms)
    drawn = uncertainty.bootstrap
    calls = [
        partial(
            measure_figures,
            each,
            keys,
            uncertainty=drawn is not None,
            block=drawn.block if drawn else 1,
            seed=seed,
        )
        for each in judged.values()
    ]

    measured = make_calls(
        scored.stream.test,
        calls,
        lambda k: progress(Step(StepKind.MEASURING_ALARMS, k + 1, len(judged))),
    )
    blocks = dict(zip(judged, measured, strict=True))
    hits = (uncertainty.floor or {}).get("hits")
    recall = blocks["probe"].get("event_recall")
    if hits and recall:
        floor = replace(hits, value=hits.value / len(test.attacks))
        blocks["probe"]["event_recall"] = replace(recall, floor=floor)
    return {name: figures for name, figures in blocks.items() if figures}
