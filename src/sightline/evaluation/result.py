"""The typed result: everything that was measured on one stream, as frozen records.

`EvaluationRecord` is the content of ``evaluation.json``, `ChartData` that of
``traces.npz``. An undefined or overflowed value is None. The records of single blocks
live with the code that fills them (`sightline.metrics`, `sightline.judgement`); their
docstrings are the source of the tables in ``docs/metrics.md``.
"""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum, StrEnum
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from sightline import _version
from sightline.audit.record import Finding, RecordingFacts
from sightline.data.arrays import Floats, Ints, Labels
from sightline.errors import StreamError
from sightline.evaluation.localisation import Localisation
from sightline.judgement.verdicts import (
    DiagnosisFacts,
    Repair,
    SegmentDiagnosis,
)
from sightline.metrics.alarm_figures import AlarmFigure
from sightline.metrics.alarm_load import AlarmMetrics
from sightline.metrics.chance import Floor
from sightline.metrics.measures import Compactness, Drift, Quality, SegmentMeasures
from sightline.metrics.ranking import Rank
from sightline.metrics.windows import Windows
from sightline.rules.ceiling import Ceiling
from sightline.rules.episodes import Episode
from sightline.rules.judging import CommissioningFacts
from sightline.showing import Shown, in_notebook
from sightline.text import Labelling, did_you_mean, plural, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 2
# The 95% interval of a figure: lower and upper end; None if nothing bounds it above.
Interval = tuple[float, float | None]
# What the limit of `probe_test_calibrated` is called wherever it is shown.
HINDSIGHT = "limit set in hindsight on attack-free test rows"


class Protocol(StrEnum):
    """How a stream is evaluated: what we believe is right, or the letter of the paper.

    A value is what `protocol=` and a plan say. ``paper`` gives the numbers of the
    paper's tables from the same residuals. It changes only what `SWITCHES` lists;
    docs/paper.md says why each of them differs.
    """

    SIGHTLINE = "sightline"
    PAPER = "paper"


# One sentence for each thing that protocol `paper` does otherwise.
SWITCHES = (
    "The reference is fitted on all attack-free train rows, those held out included.",
    "D_FULL, P_FULL and their medians use the plain covariance of a window; where it "
    "is singular, D_MS stands in place of D_FULL.",
    "A false-positive segment is a run of false-positive rows, also beside an attack.",
    "A stream of one score is measured two-sided, as all others.",
)


def protocol_named(name: str) -> Protocol:
    """Return the protocol of a name; `StreamError` if there is none.

    Examples
    --------
    >>> protocol_named("paper")
    <Protocol.PAPER: 'paper'>
    """
    try:
        return Protocol(name)
    except ValueError:
        raise StreamError(
            f"`protocol` must be {' or '.join(Protocol)}; got {name!r}."
        ) from None


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """What was evaluated.

    Parameters
    ----------
    name : str
        What the stream is called: the file's stem, or as given.
        Null: never.
    detector, testbed, space : str, optional
        The detector that gave the residuals, the testbed, and the residual space
        (observation, sensor, invariant, or the user's own word).
        Paper: detector, testbed, residual space.
        Null: if not given.
    p : int
        Number of residual channels.
        Paper: p.
        Null: never.
    n_train : int
        Number of train rows used.
        Null: never.
    n_test : int
        Number of test rows, ignored ones included.
        Null: never.
    n_attack : int
        Number of test rows with label 1.
        Null: never.
    n_ignored : int
        Number of test rows with label -1, those of the guard included.
        Null: never.
    n_segments : int
        Number of attack segments.
        Null: never.
    step_s : float, optional
        Seconds per row: as given, else the median step of the test time stamps.
        Null: if neither a step nor time stamps are given.
    timezone : str, optional
        Zone in which times are shown, by its IANA name; time stamps are then UTC.
        Null: on the plant's own clock, whose zone is not known.
    is_own_plant : bool
        Whether labels mark incidents of the user's own plant, not attacks of a testbed.
        Null: never.
    """

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
    timezone: str | None = None
    is_own_plant: bool = False

    @property
    def is_labelled(self) -> bool:
        """Whether there is an attack: else no alarm is known to be false."""
        return self.n_segments > 0

    @property
    def labels(self) -> Labelling:
        """What the labels mark."""
        return Labelling.of(self.n_segments, self.is_own_plant)


@dataclass(frozen=True, kw_only=True)
class ReferenceFacts:
    """Which reference was fitted, and what another scale would give.

    Parameters
    ----------
    estimator : str
        The estimator of `S0`.
        Paper: Ledoit-Wolf.
        Null: never. Any other than `ledoit-wolf` is a sensitivity analysis: do not
        compare its figures with published ones.
    shrinkage : float, optional
        How far `S0` was drawn towards a multiple of the identity.
        Formula: `S0 = (1 - s) C + s (tr C / p) I`, C the train covariance.
        Range: 0 to 1.
        Nothing wrong: near 0 with many rows.
        Null: for `empirical` and `minimum-covariance-determinant`. Near 1 there are
        too few train rows for `p` channels, and energy is nearly a plain sum of
        squares.
    n_rows : int
        Number of rows the reference was fitted on.
        Better: more.
        Nothing wrong: `n_train`.
        Null: never. At most 50,000 for `minimum-covariance-determinant`.
    standardised_roc_auc : float, optional
        `rank.roc_auc` again, with the reference fitted on residuals in units of each
        channel's own spread.
        Formula: Ledoit-Wolf on `r_tj / sd_j`, sd of train.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Null: without attacks.
    standardised_pauc_1 : float, optional
        `rank.pauc_1` under the same reference.
        Formula: as `rank.pauc_1`.
        Range: -0.005 to 1.
        Better: higher.
        Nothing wrong: 0.
        Null: without attacks.
    standardised_f1 : float, optional
        `probe.f1` under the same reference, its limit from train as well.
        Formula: as `probe.f1`.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: under 0.02.
        Null: without attacks.
    standardised_compactness : float, optional
        `compactness.compactness` under the same reference.
        Formula: as `compactness.compactness`.
        Range: 0 to 1.
        Nothing wrong: near 1.
        Null: without attacks.
    """

    estimator: str
    shrinkage: float | None
    n_rows: int
    standardised_roc_auc: float | None
    standardised_pauc_1: float | None = None
    standardised_f1: float | None = None
    standardised_compactness: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class SegmentResult(Shown, SegmentDiagnosis, SegmentMeasures):
    """Everything known of one attack: what was measured, and the diagnosis.

    Parameters
    ----------
    ceiling : Ceiling, optional
        How early any rule could have raised it, and how rules stand to that.
        Null: without a diagnosis, without rules for a budget, for an attack of one row,
        where no calm stretch is as long, and if calm rows of the test never change.
    """

    ceiling: Ceiling | None = None

    def _line(self) -> str:
        verdict = "not judged" if self.verdict is None else str(self.verdict)
        return f"{self.id!r}: rows {self.start:,} to {self.stop - 1:,}, {verdict}"


@dataclass(frozen=True, kw_only=True)
class EffectiveAttacks:
    """How many attacks of equal weight would tell as much.

    Parameters
    ----------
    rows : float
        For figures in which an attack weighs by its rows: 1 / sum of squared weights.
    segments : float
        For figures in which all attacks weigh alike: their number.
    """

    rows: float
    segments: float


@dataclass(frozen=True, kw_only=True)
class BootstrapFacts:
    """How intervals and chance floors were drawn.

    Parameters
    ----------
    method : str, optional
        ``one-more-attack``; None in results of earlier versions, whose intervals were
        percentiles, stretched for few attacks.
    n : int
        Number of replicates.
    block : int
        Rows of a block of attack-free time: the rule of Politis and White on log
        energy, and at least so long that there are about 10,000 blocks.
    seed : int
        Seed of the draws: the same seed gives the same intervals.
    effective_attacks : EffectiveAttacks, optional
        How many attacks the figures rest on; None without attacks.
    few_events : bool
        Whether `effective_attacks.rows` is below 10, so that intervals are wide.
    shifts : int
        Number of draws for the chance floors.
    """

    method: str | None = None
    n: int
    block: int
    seed: int
    effective_attacks: EffectiveAttacks | None = None
    few_events: bool
    shifts: int


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Which versions computed an evaluation, and the stream's own ``meta``.

    Parameters
    ----------
    sightline, numpy, python : str, optional
        Versions of Sightline, numpy and Python.
    meta : mapping
        The stream's `meta` as plain JSON values.

    Examples
    --------
    >>> Provenance(meta={"seed": 7, "groups": {"P1": ["LIT101"]}}).stages
    {'LIT101': 'P1'}
    """

    sightline: str | None = None
    numpy: str | None = None
    python: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_now(cls, meta: Mapping[str, Any]) -> "Provenance":
        """Return the versions that are in use, with a stream's `meta`."""
        return cls(
            sightline=_version.__version__,
            numpy=np.__version__,
            python=platform.python_version(),
            meta=plain(meta),
        )

    @property
    def seed(self) -> int | None:
        """The seed the detector was trained with; None if it is not recorded."""
        settings = self.meta.get("detector_settings")
        inner = settings.get("seed") if isinstance(settings, Mapping) else None
        seed: int | None = self.meta.get("seed", inner)
        return seed

    @property
    def stages(self) -> dict[str, str]:
        """The stage of each channel, by the ``groups`` in `meta`; empty without."""
        groups = self.meta.get("groups")
        if not isinstance(groups, Mapping):
            return {}
        return {
            str(member): str(name)
            for name, members in groups.items()
            if isinstance(members, list | tuple)
            for member in members
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class ChartData:
    """Arrays for charts, bounded whatever the size of the stream but for the test.

    Parameters
    ----------
    train_energy, train_rows : array of shape (n_kept,)
        Energy of the train rows `train_rows`: all of them, or of a long train the
        lowest and highest of each of 10,000 stretches.
    train_quantiles : array of shape (1001,)
        Quantiles 0, 0.001, ..., 1 of the energy of all train rows.
    test_energy, labels : array of shape (n_test,)
        Energy and label (1 attack, 0 normal, -1 ignored) of each test row.
    test_breaks : array of int
        First row of each continuous run of test rows.
    roc_fpr, roc_tpr : array of shape (n_corners,)
        Corners of the ROC curve; empty without attacks.
    segment_d_full, segment_d_ms : array of shape (n_segments,)
        D_FULL and D_MS of each attack.
    segment_group : array of shape (n_segments,)
        Which of the different lengths an attack has. Attacks of one length share their
        matched windows.
    matched_d_full, matched_starts : array of shape (n_windows,)
        D_FULL and first row of the matched windows. Those of attack i are
        ``matched_bounds[k]`` to ``matched_bounds[k + 1]``, ``k = segment_group[i]``.
    matched_bounds : array of shape (n_lengths + 1,)
        Where the windows of each length begin among the matched ones.
    segment_excess : array of shape (n_segments,), optional
        W (mean energy - p/2), which equals `segment_d_ms` if an attack only shifts the
        mean (the paper's identity figure).
    test_time : array of shape (n_test,), optional
        Time stamps of the test rows in seconds.
    channel_names, telemetry_names : array of str, optional
        Names to which the numbers of channels below refer.
    excerpt_rows : array of shape (n, 2), optional
        First row and row past the end of what is shown around each attack.
    excerpt_columns : array of shape (n,), optional
        Number of columns used of those that the arrays below have for each attack.
    excerpt_channels, excerpt_telemetry : array of shape (n, k), optional
        Channels shown, strongest evidence first, and their telemetry; -1 for none.
    excerpt_contributions : array of shape (n, k, m), optional
        Mean absolute contribution to the energy, by column.
    excerpt_signals : array of shape (n, k, m, 3), optional
        Lowest, highest and mean telemetry (or residual), by column.
    episode_rule, episode_start, episode_length, episode_channel : array, optional
        Of each false alarm: the rule (`P99` or `OWN`), first row, rows, and the channel
        that contributes most at its peak.
    own_first_alarm : array of shape (n_segments,), optional
        Rows from an attack's start to the first alarm of the own rule; -1 for none.
    state_channel : array, optional
        Telemetry channels with few values in which false alarms begin more often.
    state_value, state_time_share, state_alarm_share : array, optional
        Values of each, share of attack-free time, share of false alarms; nan-padded.
    rule_rows : array of shape (n_columns,), optional
        First test row of each column of the chosen rule's trace; the last ends with
        the test.
    rule_peaks : array of shape (n_columns,), optional
        Largest value of the trace over its limit, in each column.
    rule_alarms : array of shape (n, 2), optional
        First row of each alarm of the chosen rule, and the row after its last.
    """

    train_energy: Floats
    train_rows: Ints
    train_quantiles: Floats
    test_energy: Floats
    labels: Labels
    test_breaks: Ints
    roc_fpr: Floats
    roc_tpr: Floats
    segment_d_full: Floats
    segment_d_ms: Floats
    segment_group: Ints
    matched_d_full: Floats
    matched_starts: Ints
    matched_bounds: Ints
    segment_excess: Floats | None = None
    test_time: Floats | None = None
    channel_names: npt.NDArray[np.str_] | None = None
    telemetry_names: npt.NDArray[np.str_] | None = None
    excerpt_rows: Ints | None = None
    excerpt_columns: Ints | None = None
    excerpt_channels: Ints | None = None
    excerpt_telemetry: Ints | None = None
    excerpt_contributions: npt.NDArray[np.float32] | None = None
    excerpt_signals: npt.NDArray[np.float32] | None = None
    episode_rule: Ints | None = None
    episode_start: Ints | None = None
    episode_length: Ints | None = None
    episode_channel: Ints | None = None
    own_first_alarm: Ints | None = None
    state_channel: Ints | None = None
    state_value: npt.NDArray[np.float32] | None = None
    state_time_share: npt.NDArray[np.float32] | None = None
    state_alarm_share: npt.NDArray[np.float32] | None = None
    rule_rows: Ints | None = None
    rule_peaks: npt.NDArray[np.float32] | None = None
    rule_alarms: Ints | None = None


@dataclass(frozen=True, kw_only=True)
class TwoSided:
    """What two-sided energy would give for a stream that is judged one-sided.

    Parameters
    ----------
    roc_auc : float, optional
        `rank.roc_auc` if very low values counted as anomalous too.
        Formula: as `rank.roc_auc`, of `(r_t - mu0)^2 / (2 S0)`.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Null: without attacks.
    pauc_1 : float, optional
        `rank.pauc_1` by the same energy.
        Formula: as `rank.pauc_1`.
        Range: -0.005 to 1.
        Better: higher.
        Nothing wrong: 0.
        Null: without attacks.
    f1 : float, optional
        `probe.f1` of the p99 rule on the same energy.
        Formula: as `probe.f1`.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: -.
        Null: as `probe.f1`.
    """

    roc_auc: float | None = None
    pauc_1: float | None = None
    f1: float | None = None


@dataclass(frozen=True, kw_only=True)
class StreamMeasures:
    """What is measured on the stream as a whole, one record for each block.

    Parameters
    ----------
    stream, reference : StreamFacts, ReferenceFacts
        What was evaluated, and what counts as normal.
    rank, windows : Rank, Windows
        Attack rows against normal rows, attacks against windows of their length.
    two_sided : TwoSided, optional
        Figures of the two-sided reading; None unless the stream is judged one-sided.
    drift, compactness, quality : Drift, Compactness, Quality
        The residuals of normal operation.
    probe : AlarmMetrics
        The p99 rule on the energy: its limit is the 0.99 quantile of train energy.
    probe_test_calibrated : AlarmMetrics, optional
        The same with the limit set in hindsight on attack-free test rows: the 0.99
        quantile of their energy. None in older results.
    own_rule : AlarmMetrics, optional
        The same of the detector's own alarms; None if none were given.
    own_score : Rank, optional
        The ranking by the detector's own score; None if none was given.
    largest : Rank, optional
        The ranking by the score `largest` of the residuals; None if it was not asked
        for.
    guard : int
        Rows after each attack that were left out as recovery.
    dropped_rows : dict
        Rows of train, test and calibration dropped because they were not finite.
    protocol : Protocol
        By which protocol: ours, or the letter of the paper.
    """

    stream: StreamFacts
    reference: ReferenceFacts
    rank: Rank
    two_sided: TwoSided | None = None
    windows: Windows
    drift: Drift
    compactness: Compactness
    quality: Quality
    probe: AlarmMetrics
    probe_test_calibrated: AlarmMetrics | None = None
    own_rule: AlarmMetrics | None
    own_score: Rank | None
    largest: Rank | None = None
    guard: int
    dropped_rows: dict[str, int]
    protocol: Protocol = Protocol.SIGHTLINE

    @property
    def drift_cost(self) -> float | None:
        """F1 that is lost because the limit is set on train, before the plant moved.

        F1 with the limit set in hindsight minus F1 with the limit from train; about 0
        without drift. None if one of them is undefined.
        """
        hindsight = self.probe_test_calibrated
        if hindsight is None or hindsight.f1 is None or self.probe.f1 is None:
            return None
        return hindsight.f1 - self.probe.f1


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """How far figures may be trusted. All is None if it was not asked for.

    Parameters
    ----------
    intervals : dict, optional
        The 95% interval of each figure, None if it is undefined.
    floor : dict, optional
        What chance gives for each figure that needs attacks, None if undefined.
    bootstrap : BootstrapFacts, optional
        How both were drawn.
    """

    intervals: dict[str, Interval | None] | None = None
    floor: dict[str, Floor | None] | None = None
    bootstrap: BootstrapFacts | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord(Uncertainty, StreamMeasures):
    """The content of ``evaluation.json``: every figure of one stream.

    Parameters
    ----------
    diagnosis, repairs, verdict_counts : optional
        What the diagnosis says of the whole stream, what each repair would gain, and
        the number of attacks with each verdict; None without a diagnosis or attacks.
    alarm_metrics : dict, optional
        Alarm and score metrics under their published names: by whose alarms or score
        they are (``probe``, ``own_rule``, ``rule:NAME``, ``energy``, ``score``), then
        by key. None without attacks, or if none was asked for.
    localisation : Localisation, optional
        Whether the evidence points at the attacked tags; None if no attack has a target
        among the channels.
    rules : CommissioningFacts, optional
        Alarm rules made for a budget on the first part of the test, judged on the rest;
        None where none could be made, or none were asked for.
    rules_refused : str, optional
        Why no rules could be made.
    episodes : tuple of Episode, optional
        The strongest alarms of the chosen rule, for a test without attacks: what no
        incident explains. None with attacks, and where no rules were made.
    segments : tuple of SegmentResult
        One record for each attack, in the order of their rows.
    notices : tuple of str
        Sentences that a reader of the figures must know.
    findings : tuple of Finding
        What the audit found in the recording, the most serious first; empty without
        an audit.
    recording : RecordingFacts, optional
        The tables and tags that were read; None if the stream carries no audit.
    provenance : Provenance
        Versions, and the stream's own ``meta``, without the audit.
    schema : int
        Version of this layout.
    """

    diagnosis: DiagnosisFacts | None = None
    repairs: dict[str, Repair] | None = None
    verdict_counts: dict[str, int] | None = None
    alarm_metrics: dict[str, dict[str, AlarmFigure]] | None = None
    localisation: Localisation | None = None
    rules: CommissioningFacts | None = None
    rules_refused: str | None = None
    episodes: tuple[Episode, ...] | None = None
    segments: tuple[SegmentResult, ...]
    notices: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    recording: RecordingFacts | None = None
    provenance: Provenance
    schema: int = SCHEMA


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation(Shown, EvaluationRecord):
    """Everything that was measured on one stream, as `evaluate` returns it.

    Its fields are those of `EvaluationRecord`, and `traces`, the arrays for charts
    (None if the evaluation was read without them). Two evaluations are equal if all
    their figures are; charts do not count. A notebook shows it as a table of attacks;
    `summary`, `to_frame`, `plot` and `segment` show it in other forms.

    Parameters
    ----------
    traces : ChartData, optional
        The arrays for charts.

    Examples
    --------
    >>> from sightline import evaluate
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1, 0], [400, 50, 550])
    >>> train, test = rng.normal(size=(2000, 4)), rng.normal(size=(1000, 4))
    >>> test[labels == 1, 2] += 4.0
    >>> evaluation = evaluate(train=train, test=test, labels=labels, name="mine")
    >>> evaluation
    Evaluation 'mine': 4 channels, 1,000 test rows, 1 of 1 attack caught,
    ROC-AUC 98%
    >>> evaluation.to_frame().select("id", "start", "verdict").rows()
    [('1', 400, 'detected')]
    >>> evaluation.segment("1")
    SegmentView '1': rows 400 to 449, detected
    """

    traces: ChartData | None = field(default=None, repr=False, compare=False)

    def _line(self) -> str:
        facts = [
            plural(self.stream.p, "channel"),
            plural(self.stream.n_test, "test row"),
        ]
        attacks = plural(self.stream.n_segments, "attack")
        counted = (self.own_rule or self.probe).attacks
        if counted is not None and counted.n_attacks:
            attacks = f"{counted.caught} of {attacks} caught"
        facts.append(attacks)
        if self.rank.roc_auc is not None:
            facts.append(f"ROC-AUC {share(self.rank.roc_auc)}")
        return f"{self.stream.name!r}: {', '.join(facts)}"

    def summary(self) -> str:
        """Return what the command line prints of it, as plain text.

        Returns
        -------
        str
            Figures with intervals, attacks found with chance and cost, alarm rules, one
            row for each attack, and what a reader must know; at most 88 columns.

        Examples
        --------
        >>> from sightline import evaluate
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> print(evaluate(train=rows, test=rows).summary())
        Evaluation
        ...
        """
        return str(in_notebook("summary_of", self))

    def to_frame(self, library: Literal["polars", "pandas"] = "polars") -> Any:
        """Return one row for each attack: the columns of ``segments.csv``.

        Parameters
        ----------
        library : {"polars", "pandas"}
            Whose frame.

        Returns
        -------
        polars.DataFrame or pandas.DataFrame
            Records within an attack, such as its ladder, are JSON text.

        Raises
        ------
        StreamError
            If the library is another one.
        MissingExtraError
            If it is not installed.

        Examples
        --------
        >>> from sightline import evaluate
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> labels = np.repeat([0, 1, 0], [50, 10, 140])
        >>> evaluation = evaluate(train=rows, test=rows, labels=labels)
        >>> evaluation.to_frame().select("id", "start", "stop").rows()
        [('1', 50, 60)]
        """
        return in_notebook("frame_of", self, library)

    def plot(self) -> "Figure":
        """Return the energy through time, with attacks, alarm limit and levels.

        Returns
        -------
        matplotlib.figure.Figure
            A notebook shows it; ``savefig`` writes it.

        Raises
        ------
        SightlineError
            If the evaluation was read without its traces.

        Examples
        --------
        >>> from sightline import evaluate
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> len(evaluate(train=rows, test=rows).plot().axes)
        1
        """
        figure: Figure = in_notebook("plot_evaluation", self)
        return figure

    def segment(self, id: str | int) -> "SegmentView":
        """Return one attack, which can be drawn.

        Parameters
        ----------
        id : str or int
            The attack's id.

        Returns
        -------
        SegmentView
            Its record, with `plot`.

        Raises
        ------
        StreamError
            If there is no such attack; the message names the nearest.

        Examples
        --------
        >>> from sightline import evaluate
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> labels = np.repeat([0, 1, 0], [50, 10, 140])
        >>> evaluation = evaluate(train=rows, test=rows, labels=labels)
        >>> evaluation.segment("1").length
        10
        >>> evaluation.segment("7")
        Traceback (most recent call last):
        ...
        sightline.errors.StreamError: There is no attack '7'; use 1.
        """
        known = {segment.id: segment for segment in self.segments}
        if str(id) not in known:
            nearest = did_you_mean(str(id), known) if known else "there is none at all."
            raise StreamError(f"There is no attack {str(id)!r}; {nearest}")
        return SegmentView(**vars(known[str(id)]), evaluation=self)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``evaluation.json``: plain values, without charts."""
        blocks = {f.name: getattr(self, f.name) for f in fields(EvaluationRecord)}
        return {"schema": self.schema} | {k: plain(v) for k, v in blocks.items()}


@dataclass(frozen=True, kw_only=True, repr=False)
class SegmentView(SegmentResult):
    """One attack of an evaluation, as `Evaluation.segment` returns it.

    Parameters
    ----------
    evaluation : Evaluation
        Of which it is an attack.

    Examples
    --------
    >>> from sightline import evaluate
    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> labels = np.repeat([0, 1, 0], [50, 10, 140])
    >>> evaluate(train=rows, test=rows, labels=labels).segment(1).start
    50
    """

    evaluation: Evaluation = field(compare=False)

    def plot(self) -> "Figure":
        """Return energy, contributions of channels, and signals around the attack.

        Returns
        -------
        matplotlib.figure.Figure
            A notebook shows it; ``savefig`` writes it.

        Raises
        ------
        SightlineError
            If the evaluation holds no excerpt of this attack.

        Examples
        --------
        >>> from sightline import evaluate
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> labels = np.repeat([0, 1, 0], [50, 10, 140])
        >>> attack = evaluate(train=rows, test=rows, labels=labels).segment(1)
        >>> len(attack.plot().axes)
        5
        """
        figure: Figure = in_notebook("plot_segment", self)
        return figure


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what is not finite becomes None.

    Examples
    --------
    >>> plain({"a": (1, float("nan")), 2: np.arange(2)})
    {'a': [1, None], '2': [0, 1]}
    """
    # Most values are one of these, and the tests below take long.
    if type(value) in (str, int, bool, NoneType):
        return value
    if type(value) is float:
        return value if isfinite(value) else None
    if type(value) is list:
        return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


@dataclass(frozen=True, kw_only=True)
class FigureRange:
    """How far one figure of one stream moves.

    Parameters
    ----------
    stream, figure : str
        Whose, and which.
    default : float, optional
        By default.
    low, high : float
        Over all settings.
    low_by, high_by : str
        The setting of each.
    """

    stream: str
    figure: str
    default: float | None
    low: float
    high: float
    low_by: str
    high_by: str
