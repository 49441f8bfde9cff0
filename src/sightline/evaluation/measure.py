"""What is measured on a scored stream: the figures, and the alarm metrics.

`measure` gives one record for each block of the stream, `measure_attacks` one for each
attack, `measure_alarm_metrics` the figures of alarms and scores that users know from
elsewhere.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import numpy as np

from sightline.data.arrays import ATTACK, IGNORED, Bools, Floats, finite
from sightline.data.row_tables import gather_rows, make_calls
from sightline.data.stream import ResidualStream
from sightline.energy.energy import Energies, ScoredTest, two_sided_energy
from sightline.energy.reference import crossfit_excess
from sightline.evaluation import result
from sightline.evaluation.protocol import Protocol
from sightline.figures import PAUC_RATES
from sightline.metrics import quality, ranking
from sightline.metrics.alarm_figures import AlarmFigure, measure_figures
from sightline.metrics.alarm_runs import AlarmRuns, LabelledRows
from sightline.metrics.probe import AlarmMetrics, judge_alarms
from sightline.metrics.score_metrics import ScoreRanks
from sightline.metrics.segment import SegmentMeasures, measure_segments
from sightline.metrics.window_kl import measure_windows
from sightline.progress import Progress, Step, StepKind
from sightline.rules import QuantileRule
from sightline.rules.commission import Commissioning
from sightline.rules.scoring import ScoredStream, ranks_of_score


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
    own_score = None
    if stream.score is not None:
        ranks = ranks_of_score(stream.score, test.labels)
        own_score = ranking.measure_rank(ranks, lengths)
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
        quality=_quality(stream, energies),
        probe=judge(test.alarms, tau99=test.threshold),
        probe_test_calibrated=judge(test.energy > hindsight, tau99=hindsight),
        own_rule=None if test.own_alarms is None else judge(test.own_alarms),
        own_score=own_score,
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
        by_rows=by_rows,
    )


def _quality(stream: ResidualStream, energies: Energies) -> quality.Quality:
    """Return warning signs in the residuals themselves.

    Largest whitened residual and kurtosis (of train; the first also of normal test
    rows), and the names of channels that are constant in train, never negative in train
    and test, or too small in scale to count. The lists are empty if nothing is wrong.
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
    return quality.Quality(
        max_z=energies.train.max_z,
        max_z_test_normal=energies.test.max_z,
        excess_kurtosis=energies.train.excess_kurtosis,
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
    )


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
    rows = LabelledRows(test.labels, test.breaks)
    # Alarms are cut into runs, and a score is sorted, where its figures are measured.
    judged: dict[str, Callable[[], AlarmRuns | ScoreRanks]] = {
        "probe": partial(AlarmRuns.of, rows, test.alarms)
    }
    if test.own_alarms is not None:
        judged["own_rule"] = partial(AlarmRuns.of, rows, test.own_alarms)
    judged["energy"] = partial(ScoreRanks.of, rows, test.energy)
    if scored.stream.score is not None:
        judged["score"] = partial(ScoreRanks.of, rows, scored.stream.score)
    judged |= _of_chosen_rule(test, rules)
    drawn = uncertainty.bootstrap
    calls = [
        partial(
            _measure_figures,
            each,
            keys,
            is_drawn=drawn is not None,
            block=drawn.block if drawn else 1,
            seed=seed,
        )
        for each in judged.values()
    ]

    def done(k: int) -> None:
        progress(Step(StepKind.MEASURING_ALARMS, k + 1, len(judged)))

    blocks = dict(zip(judged, make_calls(scored.stream.test, calls, done), strict=True))
    hits = (uncertainty.floor or {}).get("hits")
    recall = blocks["probe"].get("event_recall")
    if hits and recall:
        floor = replace(hits, value=hits.value / len(test.attacks))
        blocks["probe"]["event_recall"] = replace(recall, floor=floor)
    return {name: figures for name, figures in blocks.items() if figures}


def _measure_figures(
    judged: Callable[[], AlarmRuns | ScoreRanks],
    keys: Collection[str],
    *,
    is_drawn: bool,
    block: int,
    seed: int,
) -> dict[str, AlarmFigure]:
    """Return the figures of alarms or of a score, made where they are measured."""
    return measure_figures(judged(), keys, uncertainty=is_drawn, block=block, seed=seed)


def _of_chosen_rule(
    test: ScoredTest, rules: Commissioning | None
) -> dict[str, Callable[[], AlarmRuns]]:
    """Return the alarms of the chosen rule on judged rows; empty without any attack.

    Earlier rows count nowhere, nor does an attack that begins among them.
    """
    if rules is None:
        return {}
    name, split = rules.facts.chosen, rules.facts.split
    labels = test.labels.copy()
    labels[:split] = IGNORED
    for attack in test.segments:
        if attack.start < split < attack.stop:
            labels[split : attack.stop] = IGNORED
    if not (labels == ATTACK).any():
        return {}
    alarms = np.zeros(test.n_rows, np.bool_)
    alarms[split:] = rules.alarm_rows[name]
    rows = LabelledRows(labels, test.breaks)
    return {f"rule:{name}": partial(AlarmRuns.of, rows, alarms)}
