"""`evaluate`: from a residual stream to its figures.

The walk is: score, measure, diagnose, uncertainty, assemble. The residuals themselves
are needed by scoring and by the diagnosis alone; all else reads the energy.
"""

import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sightline import _version
from sightline.data.arrays import ATTACK, NORMAL, Bools, Floats, Labels
from sightline.data.row_tables import KeptRows, Rows, finite_rows, gather_rows
from sightline.data.segments import Attack, breaks_kept, with_guard
from sightline.data.stream import ResidualStream
from sightline.energy.reference import crossfit_excess
from sightline.energy.scored import ScoredStream, ScoredTest, Track, score_stream
from sightline.errors import StreamError
from sightline.evaluation.chart_data import chart_data
from sightline.evaluation.result import (
    Evaluation,
    Provenance,
    ReferenceFacts,
    SegmentResult,
    StreamFacts,
    StreamMeasures,
    Uncertainty,
    plain,
)
from sightline.evaluation.uncertainty import measure_uncertainty, remarks
from sightline.judgement.judge import Diagnosis, diagnose, passes_over_test
from sightline.judgement.verdicts import SegmentDiagnosis
from sightline.metrics.probe import AlarmMetrics, judge_alarms
from sightline.metrics.quality import (
    Quality,
    measure_compactness,
    measure_drift,
    names_where,
    scale_blind,
)
from sightline.metrics.ranking import (
    AttackRanks,
    measure_rank,
    rank_attacks,
    roc_auc_of_ranks,
)
from sightline.metrics.segment import SegmentMeasures, measure_segments
from sightline.metrics.window_collection import WindowWatch, windows_of_parts
from sightline.metrics.window_kl import WindowEnergies, measure_windows, plan_windows
from sightline.progress import Progress, StepKind
from sightline.rules.quantile import QuantileRule


def evaluate(
    stream: ResidualStream,
    *,
    guard: int = 0,
    estimator: str = "ledoit-wolf",
    nonfinite: Literal["error", "drop"] = "error",
    intervals: bool = True,
    diagnosis: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure what a detector's residuals show, before any alarm rule is chosen.

    Parameters
    ----------
    stream : ResidualStream
        The residuals; see there for what it may hold.
    guard : int
        Rows after each attack to leave out as recovery. 0 is the paper's protocol.
    estimator : str
        Covariance estimator of the reference; anything but ``ledoit-wolf`` is for
        sensitivity analysis.
    nonfinite : {"error", "drop"}
        What to do with rows that hold a nan or an infinity.
    intervals : bool
        Whether to measure 95% intervals and chance floors.
    diagnosis : bool
        Whether to find out why each attack was missed, by carrying out every repair.
    seed : int
        Seed of the random draws; the same seed gives the same intervals.
    progress : callable, optional
        Called with a `Step`: what is being done, and how many of all rows are done.

    Returns
    -------
    Evaluation
        Without any attack label, whatever needs one is None.

    Raises
    ------
    StreamError
        If the stream cannot be measured; the message says where and why.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> train, test = rng.normal(size=(500, 3)), rng.normal(size=(300, 3))
    >>> labels = np.zeros(300, int)
    >>> labels[100:120] = 1
    >>> test[100:120, 0] += 8.0
    >>> evaluation = evaluate(ResidualStream(train, test, labels))
    >>> evaluation.rank.roc_auc
    1.0
    >>> evaluation.probe.hits
    1
    """
    stream, dropped = _settle_nonfinite(stream, nonfinite)
    attacks, labels = _attacks_and_labels(stream, guard)
    diagnosed = diagnosis and bool(attacks)
    more_passes = passes_over_test(stream) if diagnosed else 0
    track = Track(progress, stream, more_passes=more_passes)
    scored, windows = _score(stream, labels, attacks, estimator, track)
    test, mean = _scored_test(stream, labels, attacks, scored), scored.train_mean
    ranks = _ranks_of(test.energy, labels)
    measures = _measure(stream, scored, test, ranks, windows, guard, dropped)
    rows = measure_segments(
        attacks,
        test.energy,
        labels,
        test.alarms,
        ranks,
        measures.drift,
        windows=windows,
        train_mean=mean,
        step_s=stream.step_s,
    )
    verdicts = _diagnose(stream, test, rows, track) if diagnosed else None
    uncertainty = Uncertainty()
    if intervals:
        uncertainty = measure_uncertainty(
            test, measures, windows, train_mean=mean, seed=seed, progress=progress
        )
    segments = _segments(rows, verdicts)
    return Evaluation(
        **vars(measures),
        **vars(uncertainty),
        diagnosis=verdicts.facts if verdicts else None,
        repairs=verdicts.repairs if verdicts else None,
        verdict_counts=verdicts.verdict_counts if verdicts else None,
        segments=segments,
        notices=(*stream.notices, *remarks(measures, uncertainty)),
        provenance=_provenance(stream),
        traces=chart_data(stream, scored, test, ranks, windows, segments),
    )


# Score


def _settle_nonfinite(
    stream: ResidualStream, nonfinite: str
) -> tuple[ResidualStream, dict[str, int]]:
    """Return the stream to evaluate, and how many rows each array lost."""
    if nonfinite == "drop":
        return drop_nonfinite(stream)
    if nonfinite != "error":
        raise StreamError(f"`nonfinite` must be error or drop; got {nonfinite!r}.")
    return stream, {"train": 0, "test": 0, "calibration": 0}


def drop_nonfinite(stream: ResidualStream) -> tuple[ResidualStream, dict[str, int]]:
    """Return the stream without its non-finite rows, and how many each array lost.

    Breaks are those of the full record: a dropped row makes no break of its own.
    """
    dropped = {"train": 0, "test": 0, "calibration": 0}
    changes: dict[str, Any] = {}
    for name in dropped:
        rows: Rows | None = getattr(stream, name)
        if rows is None:
            continue
        keep, n_bad, _ = finite_rows(rows)
        if not n_bad:
            continue
        dropped[name] = int((~keep).sum())
        changes[name] = KeptRows(rows, keep)
        if name != "calibration":
            changes |= _kept_with(stream, name, keep)
    return (stream.replace(**changes) if changes else stream), dropped


def _kept_with(stream: ResidualStream, part: str, keep: Bools) -> dict[str, Any]:
    """Return what goes with the rows of train or test, for those that are kept."""
    series = (
        [f"{part}_time"] if part == "train" else [f"{part}_time", "alarms", "score"]
    )
    changes: dict[str, Any] = {
        name: values[keep]
        for name in series
        if (values := getattr(stream, name)) is not None
    }
    telemetry: Rows | None = getattr(stream, f"telemetry_{part}")
    if telemetry is not None:
        changes[f"telemetry_{part}"] = KeptRows(telemetry, keep)
    changes[f"{part}_breaks"] = breaks_kept(getattr(stream, f"{part}_breaks"), keep)
    if part == "train":
        return changes
    new_row = np.concatenate([[0], np.cumsum(keep)])
    moved = [
        replace(
            attack, start=int(new_row[attack.start]), stop=int(new_row[attack.stop])
        )
        for attack in stream.segments
        if new_row[attack.start] < new_row[attack.stop]
    ]
    gone = [a.id for a in stream.segments if new_row[a.start] == new_row[a.stop]]
    notices = list(stream.notices)
    if gone:
        notices.append(f"Every row of these attacks was dropped: {', '.join(gone)}.")
    return changes | {
        "labels": stream.labels[keep],
        "segments": moved,
        "notices": notices,
    }


def _attacks_and_labels(
    stream: ResidualStream, guard: int
) -> tuple[list[Attack], Labels]:
    """Return the attacks, and the labels with a guard after each of them ignored."""
    attacks = stream.attack_segments()
    runs = [attack.segment for attack in attacks]
    labels = with_guard(stream.labels, runs, stream.test_breaks, guard)
    if not (labels == NORMAL).any():
        raise StreamError(
            f"A guard of {guard} rows leaves no normal test row: choose a smaller one."
        )
    return attacks, labels


def _score(
    stream: ResidualStream,
    labels: Labels,
    attacks: Sequence[Attack],
    estimator: str,
    track: Track,
) -> tuple[ScoredStream, WindowEnergies]:
    """Return all energies, and those of attacks and normal windows as a whole."""
    runs = [attack.segment for attack in attacks]
    plan = plan_windows(runs, labels, stream.test_breaks)
    watch = WindowWatch(plan, stream.p, stream.test.n_rows) if attacks else None
    scored = score_stream(stream, labels, estimator, watch, track)
    parts = scored.test.collected if attacks else ()
    return scored, windows_of_parts(plan, stream.p, parts)


def _scored_test(
    stream: ResidualStream,
    labels: Labels,
    attacks: Sequence[Attack],
    scored: ScoredStream,
) -> ScoredTest:
    """Return the record of the scored test, with the alarms of the p99 rule."""
    rule = QuantileRule.from_normal(scored.train.energy)
    return ScoredTest(
        energy=scored.test.energy,
        labels=labels,
        attacks=attacks,
        breaks=stream.test_breaks,
        reference=scored.reference,
        threshold=rule.threshold,
        alarms=rule.alarms(scored.test.energy),
        own_alarms=None if stream.alarms is None else stream.alarms == 1,
        step_s=stream.step_s,
    )


# Measure


def _measure(
    stream: ResidualStream,
    scored: ScoredStream,
    test: ScoredTest,
    ranks: AttackRanks,
    windows: WindowEnergies,
    guard: int,
    dropped: dict[str, int],
) -> StreamMeasures:
    """Return what is measured on the stream as a whole."""
    labels, mean = test.labels, scored.train_mean
    lengths = np.array([segment.length for segment in test.segments])
    standardised = scored.test.other_energy
    reference = scored.reference
    return StreamMeasures(
        stream=_stream_facts(stream, test),
        reference=ReferenceFacts(
            estimator=reference.estimator,
            shrinkage=reference.shrinkage,
            n_rows=reference.n_rows,
            standardised_roc_auc=None
            if standardised is None
            else roc_auc_of_ranks(_ranks_of(standardised, labels)),
        ),
        rank=measure_rank(ranks, lengths, raw=_raw_ranks(stream, labels)),
        windows=measure_windows(windows),
        drift=measure_drift(
            mean,
            np.sort(test.energy[test.is_normal]),
            max_z=scored.test.max_z or 0.0,
            calibration_mean=scored.calibration_mean,
            d_crossfit=crossfit_excess(
                scored.folds, mean, estimator=reference.estimator
            ),
        ),
        compactness=measure_compactness(mean, stream.p),
        quality=_quality(stream, scored),
        probe=_judge(test, test.alarms, test.threshold),
        own_rule=None if test.own_alarms is None else _judge(test, test.own_alarms),
        own_score=None
        if stream.score is None
        else measure_rank(_ranks_of(stream.score, labels), lengths),
        guard=guard,
        dropped_rows=dropped,
    )


def _ranks_of(score: Floats, labels: Labels) -> AttackRanks:
    """Return where attack rows stand among normal rows by a score."""
    return rank_attacks(score[labels == ATTACK], np.sort(score[labels == NORMAL]))


def _raw_ranks(stream: ResidualStream, labels: Labels) -> AttackRanks | None:
    """Return the ranks by the raw value of a single channel, which energy folds."""
    if stream.p > 1 or not (labels == ATTACK).any():
        return None
    raw = gather_rows(stream.test, np.arange(stream.test.n_rows))[:, 0]
    return _ranks_of(raw, labels)


def _judge(test: ScoredTest, alarms: Bools, tau99: float | None = None) -> AlarmMetrics:
    """Return how the p99 rule, or the own one, did on the test."""
    return judge_alarms(
        alarms,
        test.labels,
        test.segments,
        breaks=test.breaks,
        step_s=test.step_s,
        tau99=tau99,
    )


def _quality(stream: ResidualStream, scored: ScoredStream) -> Quality:
    """Return warning signs in the residuals themselves."""
    constant = scored.moments.constant
    blind = scale_blind(
        np.diag(scored.moments.covariance),
        np.diag(scored.reference.covariance),
        constant,
    )
    # Never negative: an absolute error, or a score.
    one_sided = scored.train.one_sided & scored.test.one_sided & ~constant
    return Quality(
        max_z=scored.train.max_z,
        max_z_test_normal=scored.test.max_z,
        excess_kurtosis=scored.train.excess_kurtosis,
        constant_channels=names_where(constant, stream.channels),
        one_sided_channels=names_where(one_sided, stream.channels),
        scale_blind_channels=names_where(blind, stream.channels),
    )


def _stream_facts(stream: ResidualStream, test: ScoredTest) -> StreamFacts:
    """Return what was evaluated."""
    n_attack = int((test.labels == ATTACK).sum())
    return StreamFacts(
        name=stream.name,
        detector=stream.detector,
        testbed=stream.testbed,
        space=stream.space,
        p=stream.p,
        n_train=stream.train.n_rows,
        n_test=test.n_rows,
        n_attack=n_attack,
        n_ignored=test.n_rows - n_attack - int(test.is_normal.sum()),
        n_segments=len(test.attacks),
        step_s=stream.step_s,
    )


# Diagnose and assemble


def _diagnose(
    stream: ResidualStream,
    test: ScoredTest,
    rows: Sequence[SegmentMeasures],
    track: Track,
) -> Diagnosis:
    """Return the diagnosis of every attack, and report the rows read for it."""
    verdicts = diagnose(stream, test, rows, tick=track.stage(StepKind.DIAGNOSING))
    track.finish(StepKind.DIAGNOSING)
    return verdicts


def _segments(
    rows: Sequence[SegmentMeasures], verdicts: Diagnosis | None
) -> tuple[SegmentResult, ...]:
    """Return what was measured of each attack, with its diagnosis if there is one."""
    reasons = verdicts.segments if verdicts else [SegmentDiagnosis()] * len(rows)
    return tuple(
        SegmentResult(**vars(row), **vars(reason))
        for row, reason in zip(rows, reasons, strict=True)
    )


def _provenance(stream: ResidualStream) -> Provenance:
    """Return the versions in use, and the stream's meta as JSON has it."""
    return Provenance(
        sightline=_version.__version__,
        numpy=np.__version__,
        python=platform.python_version(),
        meta=plain(stream.meta),
    )
