"""Metrics: arrays in, numbers out. None of them knows a stream or a model.

`ALARM_METRICS` names every metric of alarms or of a score against labels.
"""

from collections.abc import Callable, Mapping
from inspect import isfunction
from types import MappingProxyType

from sightline.metrics import alarm_metrics, score_metrics, timely_metrics
from sightline.metrics.alarm_load import f1_score
from sightline.metrics.alarm_metrics import (
    Outputs,
    affiliation,
    composite,
    delay,
    esa,
    etapr,
    event,
    nab,
    pak,
    pak_auc,
    point,
    range_based,
    tapr,
)
from sightline.metrics.alarm_runs import AlarmRuns
from sightline.metrics.ranking import (
    average_precision_score,
    partial_auc_score,
    roc_auc_score,
)
from sightline.metrics.score_metrics import (
    ScoreRanks,
    best_pak,
    pa_rank,
    r_auc,
    rank,
    vus,
)
from sightline.metrics.timely_metrics import delayed, latency, pate, pate_f1

# Every public function of these modules whose first argument is `labels`, by its name:
# ``ALARM_METRICS["pak"](labels, alarms, k=20)``.
ALARM_METRICS: Mapping[str, Callable[..., Outputs]] = MappingProxyType(
    {
        name.removesuffix("_based"): call
        for module in (alarm_metrics, timely_metrics, score_metrics)
        for name, call in vars(module).items()
        if isfunction(call)
        and not name.startswith("_")
        and call.__code__.co_varnames[:1] == ("labels",)
    }
)

__all__ = [
    "ALARM_METRICS",
    "AlarmRuns",
    "ScoreRanks",
    "affiliation",
    "average_precision_score",
    "best_pak",
    "composite",
    "delay",
    "delayed",
    "esa",
    "etapr",
    "event",
    "f1_score",
    "latency",
    "nab",
    "pa_rank",
    "pak",
    "pak_auc",
    "partial_auc_score",
    "pate",
    "pate_f1",
    "point",
    "r_auc",
    "range_based",
    "rank",
    "roc_auc_score",
    "tapr",
    "vus",
]
