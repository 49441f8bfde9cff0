"""The walk: from a residual stream to everything that can be read from its energy."""

import platform
from dataclasses import replace
from functools import partial

import numpy as np

from sightline import _version
from sightline.data.arrays import ATTACK, NORMAL, Floats, Labels
from sightline.data.row_tables import gather_rows
from sightline.data.segments import Attack, with_guard
from sightline.data.stream import ResidualStream
from sightline.energy.reference import crossfit_excess
from sightline.energy.scored import ScoredTest
from sightline.errors import StreamError
from sightline.evaluation.caveats import remarks
from sightline.evaluation.chart_data import OWN, P99, excerpts_of, extreme_rows
from sightline.evaluation.nonfinite import drop_nonfinite
from sightline.evaluation.result import (
    ChartData,
    Evaluation,
    Provenance,
    Rank,
    ReferenceFacts,
    SegmentResult,
    StreamFacts,
    plain,
)
from sightline.evaluation.scoring import ScoredStream, Track, score_stream
from sightline.evaluation.uncertainty import with_uncertainty
from sightline.judgement.judge import diagnose, passes_over_test
from sightline.metrics.drift import measure_drift
from sightline.metrics.probe import judge_alarms
from sightline.metrics.quality import (
    Quality,
    measure_compactness,
    names_where,
    scale_blind,
)
from sightline.metrics.ranking import (
    AttackRanks,
    auc_of_steps,
    average_precision_of_ranks,
    mean_of_segments,
    partial_auc_of_ranks,
    rank_attacks,
    roc_auc_of_ranks,
    roc_points,
)
from sightline.metrics.segment import measure_segments
from sightline.metrics.window_kl import (
    WindowEnergies,
    WindowWatch,
    measure_windows,
    plan_windows,
    windows_of_parts,
)
from sightline.progress import Progress, StepKind
from sightline.rules.quantile import QuantileRule

# Corners of the ROC curve kept for pictures.
ROC_POINTS = 2000
# Train energy is kept as the lowest and highest value of this many stretches.
TRAIN_STRETCHES = 10_000


# Extreme values overflow into what becomes None; the residuals themselves are checked.
@np.errstate(all="ignore")
def evaluate(
    stream: ResidualStream,
    *,
    guard: int = 0,
    estimator: str = "ledoit-wolf",
    nonfinite: str = "error",
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
        Whether to say why each attack was missed, by carrying out every repair.
    seed : int
        Of their random draws; the same seed gives the same intervals.
    progress : callable, optional
        Told what is being done, and how many of how many rows are done.

    Returns
    -------
    Evaluation
        Without any attack label, whatever needs one is None.

    Raises
    ------
    StreamError
        Where the stream cannot be measured; the sentence says where and why.

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
    attacks = stream.attack_segments()
    runs = [attack.segment for attack in attacks]
    labels = with_guard(stream.labels, runs, stream.test_breaks, guard)
    if not (labels == NORMAL).any():
        raise StreamError(
            f"A guard of {guard} rows leaves no normal test row: choose a smaller one."
        )
    plan = plan_windows(runs, labels, stream.test_breaks)
    diagnosed = diagnosis and bool(attacks)
    track = Track(
        progress, stream, more_passes=passes_over_test(stream) if diagnosed else 0
    )
    watch = WindowWatch(plan, stream.p, stream.test.n_rows) if attacks else None
    scored = score_stream(stream, labels, estimator, watch, track)
    windows = windows_of_parts(plan, stream.p, scored.test.watched if attacks else ())
    energy = scored.test.energy
    normal_sorted = np.sort(energy[labels == NORMAL])
    ranks = rank_attacks(energy[labels == ATTACK], normal_sorted)
    drift = measure_drift(
        scored.train_mean,
        normal_sorted,
        max_z=scored.test.max_z or 0.0,
        calibration_mean=scored.calibration_mean,
        d_crossfit=crossfit_excess(
            scored.folds, scored.train_mean, estimator=estimator
        ),
    )
    rule = QuantileRule.from_normal(scored.train.energy)
    is_alarm = rule.alarms(energy)
    judge = partial(
        judge_alarms,
        labels=labels,
        attacks=runs,
        breaks=stream.test_breaks,
        step_s=stream.step_s,
    )
    segments = measure_segments(
        attacks,
        energy,
        labels,
        is_alarm,
        ranks,
        drift,
        windows=windows,
        train_mean=scored.train_mean,
        step_s=stream.step_s,
    )
    traces = _traces(stream, labels, scored, ranks, windows)
    evaluation = Evaluation(
        stream=_facts(stream, labels, attacks),
        reference=_reference_facts(scored, labels),
        rank=_rank(ranks, attacks, raw=_raw_ranks(stream, labels)),
        windows=measure_windows(windows),
        drift=drift,
        compactness=measure_compactness(scored.train_mean, stream.p),
        quality=_quality(stream, scored),
        probe=judge(is_alarm, tau99=rule.threshold),
        own_rule=None if stream.alarms is None else judge(stream.alarms == 1),
        own_score=None
        if stream.score is None
        else _rank(_ranks_of(stream.score, labels), attacks),
        segments=tuple(SegmentResult(**vars(row)) for row in segments),
        guard=guard,
        dropped_rows=dropped,
        notices=stream.notices,
        provenance=_provenance(stream),
        traces=traces,
    )
    if diagnosed:
        tested = ScoredTest(
            energy=energy,
            labels=labels,
            attacks=attacks,
            breaks=stream.test_breaks,
            reference=scored.reference,
            threshold=rule.threshold,
            alarms=is_alarm,
            own_alarms=None if stream.alarms is None else stream.alarms == 1,
            step_s=stream.step_s,
        )
        found = diagnose(
            stream, tested, segments, tick=track.stage(StepKind.DIAGNOSING)
        )
        track.finish(StepKind.DIAGNOSING)
        evaluation = replace(
            evaluation,
            segments=tuple(
                SegmentResult(**(vars(row) | vars(why)))
                for row, why in zip(segments, found.segments, strict=True)
            ),
            repairs=found.repairs,
            verdict_counts=found.verdict_counts,
            diagnosis=found.facts,
        )
    if intervals:
        evaluation = with_uncertainty(
            evaluation,
            is_alarm,
            runs,
            windows,
            train_mean=scored.train_mean,
            seed=seed,
            progress=progress,
        )
    own = {} if stream.alarms is None else {OWN: stream.alarms == 1}
    shown = excerpts_of(
        stream,
        labels,
        evaluation.segments,
        energy,
        scored.reference,
        {P99: is_alarm} | own,
    )
    return replace(
        evaluation,
        notices=(*stream.notices, *remarks(evaluation)),
        traces=replace(traces, **shown),
    )


def _settle_nonfinite(
    stream: ResidualStream, nonfinite: str
) -> tuple[ResidualStream, dict[str, int]]:
    if nonfinite == "drop":
        return drop_nonfinite(stream)
    if nonfinite != "error":
        raise StreamError(f"`nonfinite` must be error or drop; got {nonfinite!r}.")
    return stream, {"train": 0, "test": 0, "calibration": 0}


def _ranks_of(score: Floats, labels: Labels) -> AttackRanks:
    return rank_attacks(score[labels == ATTACK], np.sort(score[labels == NORMAL]))


def _raw_ranks(stream: ResidualStream, labels: Labels) -> AttackRanks | None:
    """Return the ranks of a lone channel's raw value, which energy folds in two."""
    if stream.p > 1:
        return None
    raw = gather_rows(stream.test, np.arange(stream.test.n_rows))[:, 0]
    return _ranks_of(raw, labels)


def _rank(
    ranks: AttackRanks, attacks: list[Attack], raw: AttackRanks | None = None
) -> Rank:
    if not attacks:
        return Rank()
    lengths = np.array([attack.segment.length for attack in attacks])
    segment_auc = mean_of_segments(auc_of_steps(ranks), lengths)
    return Rank(
        roc_auc=roc_auc_of_ranks(ranks),
        pauc_1=partial_auc_of_ranks(ranks, 0.01),
        pauc_5=partial_auc_of_ranks(ranks, 0.05),
        average_precision=average_precision_of_ranks(ranks),
        mean_segment_auc=float(np.mean(segment_auc)),
        largest_segment_share=float(lengths.max() / lengths.sum()),
        raw_roc_auc=None if raw is None else roc_auc_of_ranks(raw),
    )


def _traces(
    stream: ResidualStream,
    labels: Labels,
    scored: ScoredStream,
    ranks: AttackRanks,
    windows: WindowEnergies,
) -> ChartData:
    roc_fpr, roc_tpr = roc_points(ranks, ROC_POINTS)
    plan = windows.plan
    # Energy is half of |z|^2, so a window's sum of it follows from its moments.
    trace = np.trace(windows.seconds, axis1=1, axis2=2)
    n_rows = plan.lengths[plan.group]
    excess = 0.5 * trace + windows.d_ms[plan.own] - 0.5 * stream.p * n_rows
    train = scored.train.energy
    train_rows = extreme_rows(train, TRAIN_STRETCHES)
    return ChartData(
        train_energy=train[train_rows],
        train_rows=train_rows,
        train_quantiles=np.quantile(train, np.linspace(0, 1, 1001)),
        test_energy=scored.test.energy,
        labels=labels,
        test_time=stream.test_time,
        test_breaks=stream.test_breaks,
        roc_fpr=roc_fpr,
        roc_tpr=roc_tpr,
        segment_d_full=windows.attack_d_full,
        segment_d_ms=windows.d_ms[plan.own],
        segment_excess=excess,
        segment_group=plan.group,
        matched_d_full=windows.normal_d_full,
        matched_starts=plan.starts[plan.is_normal],
        matched_bounds=plan.normal_bounds,
    )


def _reference_facts(scored: ScoredStream, labels: Labels) -> ReferenceFacts:
    beside = scored.test.beside
    return ReferenceFacts(
        estimator=scored.reference.estimator,
        shrinkage=scored.reference.shrinkage,
        n_rows=scored.reference.n_rows,
        standardised_roc_auc=None
        if beside is None
        else roc_auc_of_ranks(_ranks_of(beside, labels)),
    )


def _quality(stream: ResidualStream, scored: ScoredStream) -> Quality:
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


def _facts(
    stream: ResidualStream, labels: Labels, attacks: list[Attack]
) -> StreamFacts:
    return StreamFacts(
        name=stream.name,
        detector=stream.detector,
        testbed=stream.testbed,
        space=stream.space,
        p=stream.p,
        n_train=stream.train.n_rows,
        n_test=stream.test.n_rows,
        n_attack=int((labels == ATTACK).sum()),
        n_ignored=int((labels != ATTACK).sum() - (labels == NORMAL).sum()),
        n_segments=len(attacks),
        step_s=stream.step_s,
    )


def _provenance(stream: ResidualStream) -> Provenance:
    return Provenance(
        sightline=_version.__version__,
        numpy=np.__version__,
        python=platform.python_version(),
        meta=plain(stream.meta),
    )
