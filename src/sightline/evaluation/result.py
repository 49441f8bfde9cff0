"""An evaluation: all that was measured on one stream, as frozen values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints, Labels
from sightline.data.keyed import Keyed
from sightline.judgement.verdicts import DiagnosisFacts, Repair, SegmentDiagnosis
from sightline.metrics.chance import Floor
from sightline.metrics.drift import Drift
from sightline.metrics.probe import AlarmMetrics
from sightline.metrics.quality import Compactness, Quality
from sightline.metrics.segment import SegmentMeasures
from sightline.metrics.window_kl import Windows

SCHEMA = 2
# The 95% interval of a figure: its lower and upper end.
Interval = tuple[float, float]


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
class SegmentResult(SegmentDiagnosis, SegmentMeasures):
    """Everything known of one attack: what was measured, and the diagnosis."""


@dataclass(frozen=True, kw_only=True)
class BootstrapFacts(Keyed):
    """How intervals and chance floors were drawn."""

    n: int
    block: int
    seed: int
    few_events: bool
    shifts: int


@dataclass(frozen=True, kw_only=True)
class Provenance(Keyed):
    """Which versions computed an evaluation, and the stream's own ``meta``."""

    sightline: str | None = None
    numpy: str | None = None
    python: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

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
class ChartData(Keyed):
    """Arrays for charts: energy over time, ROC curve, windows, excerpts.

    Long train energy is thinned to its extremes: `train_energy` holds the energy of
    the rows `train_rows`, and `train_quantiles` 1,001 quantiles of all of it.

    `segment_excess` is W (mean energy - p/2) of each attack, which equals
    `segment_d_ms` where an attack only shifts the mean (the paper's identity figure).
    Attacks of one length share their matched windows: those of attack i are
    ``matched_bounds[k]`` to ``matched_bounds[k + 1]`` with ``k = segment_group[i]``.

    ``excerpt_*`` hold what is around each attack, ``episode_*`` each false alarm and
    ``state_*`` the states of the plant they come in; see
    `sightline.evaluation.chart_data`.
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


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """The content of ``evaluation.json``: every figure of one stream.

    An undefined value is None. `intervals` and `floor` hold a 95% interval and a
    chance floor for each figure; with `bootstrap`, they are None if they were not asked
    for, and so are `diagnosis`, `repairs` and `verdict_counts`, which also need an
    attack.
    """

    schema: int = SCHEMA
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
    guard: int
    dropped_rows: dict[str, int]
    notices: tuple[str, ...]
    provenance: Provenance
    intervals: dict[str, Interval | None] | None = None
    floor: dict[str, Floor | None] | None = None
    diagnosis: DiagnosisFacts | None = None
    repairs: dict[str, Repair] | None = None
    verdict_counts: dict[str, int] | None = None
    bootstrap: BootstrapFacts | None = None
    segments: tuple[SegmentResult, ...]


@dataclass(frozen=True, kw_only=True)
class Evaluation(EvaluationRecord):
    """Everything that was measured on one stream, as `evaluate` returns it.

    The fields are those of `EvaluationRecord`, and `traces`, the arrays for charts
    (None if the evaluation was read without them). Two evaluations are equal if all
    their figures are; charts do not count.
    """

    traces: ChartData | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``evaluation.json``: plain values, without charts."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(EvaluationRecord)}


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what is not finite becomes None."""
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
