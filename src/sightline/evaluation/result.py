"""An evaluation: all that was measured on one stream, as frozen values."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints, Labels
from sightline.metrics.drift import Drift
from sightline.metrics.probe import AlarmMetrics
from sightline.metrics.quality import Compactness, Quality
from sightline.metrics.segment import SegmentRow
from sightline.metrics.window_kl import Windows

SCHEMA = 1


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Traces:
    """What pictures need and scalars do not have.

    `segment_excess` is W (mean energy - p/2) of each attack, which equals
    `segment_d_ms` where an attack only shifts the mean (the paper's identity figure).
    Attacks of one length share their matched windows: those of attack i are
    ``matched_bounds[k]`` to ``matched_bounds[k + 1]`` with ``k = segment_group[i]``.

    ``excerpt_*`` hold what is around each attack, ``episode_*`` each false alarm and
    ``state_*`` the states of the plant they come in; see
    `sightline.evaluation.chart_data`.
    """

    train_energy: Floats
    test_energy: Floats
    labels: Labels
    test_time: Floats | None
    test_breaks: Ints
    roc_fpr: Floats
    roc_tpr: Floats
    segment_d_full: Floats
    segment_d_ms: Floats
    segment_excess: Floats
    segment_group: Ints
    matched_d_full: Floats
    matched_starts: Ints
    matched_bounds: Ints
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """All that was measured on one stream. An undefined value is None.

    `intervals` and `floor` hold a 95% interval and a chance floor for each figure;
    with `bootstrap`, they are None where they were not asked for, and so are
    `diagnosis`, `repairs` and `verdict_counts`, which also need an attack.
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
    diagnosis: dict[str, Any] | None = None
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
        as_json: dict[str, Any] = plain({"schema": self.schema} | blocks)
        return as_json


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what is not finite becomes None."""
    if isinstance(value, dict):
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
