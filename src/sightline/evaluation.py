"""The walk: from a residual stream to everything that can be read from its energy."""

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from sightline import _version
from sightline.alarms import QuantileRule
from sightline.checks import ATTACK, NORMAL, Floats, Ints, Labels
from sightline.energy import Scored, score_rows
from sightline.errors import StreamError
from sightline.metrics.drift import Drift, measure_drift
from sightline.metrics.probe import AlarmMetrics, judge_alarms
from sightline.metrics.quality import (
    Compactness,
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
from sightline.metrics.segment import SegmentRow, measure_segments
from sightline.nonfinite import drop_nonfinite
from sightline.reference import (
    Moments,
    Reference,
    crossfit_excess,
    fit_reference,
    fold_moments,
    merged,
    scale_of,
    standardised_reference,
)
from sightline.rows import gather_rows
from sightline.segments import Attack, with_guard
from sightline.stream import ResidualStream

SCHEMA = 1
# Corners of the ROC curve kept for pictures.
ROC_POINTS = 2000

# Told what is being done, and how many of how many rows are done.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """What was evaluated."""

    name: str
    detector: str | None
    testbed: str | None
    space: str | None
    p: int
    n_train: int
    n_test: int
    n_attack: int
    n_ignored: int
    n_segments: int
    step_s: float | None


@dataclass(frozen=True, kw_only=True)
class ReferenceFacts:
    """Which reference was fitted, and what another scale would have given."""

    estimator: str
    shrinkage: float | None
    n_rows: int
    standardised_roc_auc: float | None


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Does an attack step outrank a normal one? None without attacks."""

    roc_auc: float | None = None
    pauc_1: float | None = None
    pauc_5: float | None = None
    average_precision: float | None = None
    mean_segment_auc: float | None = None
    largest_segment_share: float | None = None
    raw_roc_auc: float | None = None


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Attack windows against matched normal ones; filled by a later stretch."""

    p_full: float | None = None
    p_full_per_segment: float | None = None
    median_d_full: float | None = None
    n_segments: int | None = None
    n_matched_windows: int | None = None
    n_unmatched_segments: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Traces:
    """What pictures need and scalars do not have."""

    train_energy: Floats
    test_energy: Floats
    labels: Labels
    test_time: Floats | None
    test_breaks: Ints
    roc_fpr: Floats
    roc_tpr: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """All that was measured on one stream. An undefined value is None.

    The blocks `intervals`, `floor`, `repairs`, `verdict_counts` and `bootstrap`, and
    the values of `windows`, are None until the parts that measure them exist.
    """

    stream: StreamFacts
    reference: ReferenceFacts
    rank: Rank
    windows: Windows
    drift: Drift
    compactness: Compactness
    quality: Quality
    probe: AlarmMetrics
    own_rule: AlarmMetrics | None
    own_score: Rank | None
    segments: tuple[SegmentRow, ...]
    guard: int
    dropped_rows: dict[str, int]
    notices: tuple[str, ...]
    provenance: dict[str, Any]
    intervals: dict[str, Any] | None = None
    floor: dict[str, Any] | None = None
    repairs: dict[str, Any] | None = None
    verdict_counts: dict[str, int] | None = None
    bootstrap: dict[str, Any] | None = None
    schema: int = SCHEMA
    traces: Traces | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; what is not finite becomes None."""
        blocks = {
            name: asdict(value) if hasattr(value, "__dataclass_fields__") else value
            for name, value in vars(self).items()
            if name not in ("traces", "segments", "schema")
        }
        blocks["segments"] = [asdict(row) for row in self.segments]
        cleaned: dict[str, Any] = _without_nan({"schema": self.schema} | blocks)
        return cleaned


def evaluate(
    stream: ResidualStream,
    *,
    guard: int = 0,
    estimator: str = "ledoit-wolf",
    nonfinite: str = "error",
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
    scored = _score(stream, labels, estimator, _Track(progress, stream))
    train_energy, energy = scored.train.energy, scored.test.energy
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
    rule = QuantileRule.from_normal(train_energy)
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
        train_mean=scored.train_mean,
        step_s=stream.step_s,
    )
    roc_fpr, roc_tpr = roc_points(ranks, ROC_POINTS)
    return Evaluation(
        stream=_facts(stream, labels, attacks),
        reference=_reference_facts(scored, labels),
        rank=_rank(ranks, attacks, raw=_raw_ranks(stream, labels)),
        windows=Windows(),
        drift=drift,
        compactness=measure_compactness(scored.train_mean, stream.p),
        quality=_quality(stream, scored),
        probe=judge(is_alarm, tau99=rule.threshold),
        own_rule=None if stream.alarms is None else judge(stream.alarms == 1),
        own_score=None
        if stream.score is None
        else _rank(_ranks_of(stream.score, labels), attacks),
        segments=tuple(segments),
        guard=guard,
        dropped_rows=dropped,
        notices=_notices(stream, attacks, dropped),
        provenance=_provenance(stream),
        traces=Traces(
            train_energy=train_energy,
            test_energy=energy,
            labels=labels,
            test_time=stream.test_time,
            test_breaks=stream.test_breaks,
            roc_fpr=roc_fpr,
            roc_tpr=roc_tpr,
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scored:
    """The reference and all energies: what needed the residuals themselves."""

    folds: list[Moments]
    moments: Moments
    reference: Reference
    train: Scored
    test: Scored
    train_mean: float
    calibration_mean: float | None


def _score(
    stream: ResidualStream, labels: Labels, estimator: str, track: "_Track"
) -> _Scored:
    """Read the residuals: train twice (fit, score), test and calibration once."""
    folds = fold_moments(
        stream.train, channels=stream.channels, tick=track.stage("Fitting reference")
    )
    moments = merged(folds)
    reference = fit_reference(stream.train, estimator=estimator, moments=moments)
    score = partial(score_rows, reference=reference, channels=stream.channels)
    train = score(
        stream.train,
        name="train",
        scale=scale_of(moments),
        tick=track.stage("Scoring train"),
    )
    test = score(
        stream.test,
        name="test",
        counted=labels == NORMAL,
        beside=standardised_reference(moments, train.scaled_fourth)
        if (labels == ATTACK).any()
        else None,
        tick=track.stage("Scoring test"),
    )
    calibration_mean = None
    if stream.calibration is not None:
        calibration = score(
            stream.calibration,
            name="calibration",
            tick=track.stage("Scoring calibration"),
        )
        calibration_mean = float(np.mean(calibration.energy))
    return _Scored(
        folds=folds,
        moments=moments,
        reference=reference,
        train=train,
        test=test,
        train_mean=float(np.mean(train.energy)),
        calibration_mean=calibration_mean,
    )


class _Track:
    """Counts the rows of each stage for whoever watches."""

    def __init__(self, progress: Progress | None, stream: ResidualStream) -> None:
        extra = stream.calibration.n_rows if stream.calibration else 0
        self.total = 2 * stream.train.n_rows + stream.test.n_rows + extra
        self.done = 0
        self.progress = progress

    def stage(self, doing: str) -> Callable[[int], None]:
        def tick(rows: int) -> None:
            self.done += rows
            if self.progress is not None:
                self.progress(doing, self.done, self.total)

        return tick


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


def _reference_facts(scored: _Scored, labels: Labels) -> ReferenceFacts:
    beside = scored.test.beside
    return ReferenceFacts(
        estimator=scored.reference.estimator,
        shrinkage=scored.reference.shrinkage,
        n_rows=scored.reference.n_rows,
        standardised_roc_auc=None
        if beside is None
        else roc_auc_of_ranks(_ranks_of(beside, labels)),
    )


def _quality(stream: ResidualStream, scored: _Scored) -> Quality:
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


def _notices(
    stream: ResidualStream, attacks: list[Attack], dropped: dict[str, int]
) -> tuple[str, ...]:
    told = list(stream.notices)
    if not attacks:
        told.append(
            "No test row is labelled an attack: what needs one (ranking, precision, "
            "recall) is left empty; drift, quality and false alarms are measured."
        )
    if any(dropped.values()):
        rows = ", ".join(f"{n:,} of {where}" for where, n in dropped.items() if n)
        told.append(
            f"Rows with non-finite residuals were dropped: {rows}; row numbers "
            "below count the rows that are left."
        )
    if stream.step_s is None:
        told.append(
            "Seconds a row are not known, so nothing is given per day: add time "
            "stamps or step_s."
        )
    return tuple(told)


def _provenance(stream: ResidualStream) -> dict[str, Any]:
    return {
        "sightline": _version.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "meta": dict(stream.meta),
    }


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
