"""Metrics: arrays in, numbers out. None of them knows a stream or a model."""

from sightline.metrics.probe import f1_score
from sightline.metrics.ranking import (
    average_precision_score,
    partial_auc_score,
    roc_auc_score,
)

__all__ = ["average_precision_score", "f1_score", "partial_auc_score", "roc_auc_score"]
