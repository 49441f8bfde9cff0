"""What can be seen: energy through time, ROC curves, attack windows."""

from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.evaluation.result import ChartData
from sightline.report.array_encoding import packed_energy
from sightline.report.entries import Entry, attack_keys
from sightline.report.time_axis import clock

# Corners of a curve that a page draws; an eye sees no more.
MOST_CORNERS = 500


def energy_figure(entry: Entry, kind: str | None = None) -> dict[str, Any]:
    """Return the energy trace of an entry, its levels and its attacks.

    `kind` is the clock it shares with others, else its own.
    """
    evaluation = entry.evaluation
    drift = evaluation.drift
    robust = drift.mean_dominated
    floor = drift.d_drift_robust if robust else drift.d_drift
    return {
        "key": entry.key,
        "label": entry.label,
        "testbed": entry.testbed,
        "clock": clock(entry, kind),
        "breaks": [int(row) for row in entry.traces["test_breaks"][:1000]],
        "energy": packed_energy(entry.traces["test_energy"]),
        "train_mean": entry.train_mean,
        "tau99": evaluation.probe.tau99,
        "drift_floor": None if floor is None else entry.train_mean + floor,
        "drift_is_median": bool(robust),
        "attacks": [
            {
                "id": segment.id,
                "key": key,
                "start": segment.start,
                "stop": segment.stop,
                "verdict": segment.verdict or "not-diagnosed",
                "coverage": segment.coverage,
            }
            for segment, key in zip(
                evaluation.segments, attack_keys(entry), strict=True
            )
        ],
    }


def roc_figure(entry: Entry) -> dict[str, Any] | None:
    """Return the ROC curve, with most corners where false alarms are few."""
    fpr, tpr = entry.traces.get("roc_fpr"), entry.traces.get("roc_tpr")
    if fpr is None or tpr is None or len(fpr) < 2 or not entry.evaluation.segments:
        return None
    rows = roc_corners(fpr, MOST_CORNERS)
    evaluation = entry.evaluation
    return {
        "fpr": _rounded(fpr[rows]),
        "tpr": _rounded(tpr[rows]),
        "roc_auc": evaluation.rank.roc_auc,
        "pauc_1": evaluation.rank.pauc_1,
        "f1": evaluation.probe.f1,
        "interval": (evaluation.intervals or {}).get("roc_auc"),
        "f1_interval": (evaluation.intervals or {}).get("f1"),
    }


def roc_corners(fpr: Floats, most: int) -> Ints:
    """Return the corners to keep: half of them evenly, half by the log of the rate."""
    if len(fpr) <= most:
        return np.arange(len(fpr))
    evenly = np.linspace(0, len(fpr) - 1, most // 2).astype(np.int64)
    wanted = np.concatenate([[0.0], np.geomspace(1e-5, 1.0, most // 2 - 1)])
    low = np.minimum(np.searchsorted(fpr, wanted), len(fpr) - 1)
    return np.unique(np.concatenate([evenly, low]))


def windows_figure(entry: Entry) -> dict[str, Any] | None:
    """Return the evidence of attacks beside normal windows of their own length.

    Everything is in multiples of the median D_FULL of those windows, so that attacks
    of any length stand on one scale.
    """
    traces = entry.traces
    attack = traces.get("segment_d_full")
    if attack is None or len(attack) == 0:
        return None
    bounds, matched = traces["matched_bounds"], traces["matched_d_full"]
    normal: list[Floats] = []
    medians = np.full(len(bounds) - 1, np.nan)
    for k in range(len(bounds) - 1):
        windows = matched[bounds[k] : bounds[k + 1]]
        if len(windows):
            medians[k] = np.median(windows)
            if medians[k] > 0:
                normal.append(windows / medians[k])
    if not normal:
        return None
    group = traces["segment_group"]
    ratio = attack / medians[group]
    keys = attack_keys(entry)
    told = [
        {
            "id": segment.id,
            "key": keys[i],
            "ratio": float(ratio[i]),
            "outweighs": _outweighed(traces, i),
            "verdict": segment.verdict or "not-diagnosed",
        }
        for i, segment in enumerate(entry.evaluation.segments)
        if np.isfinite(ratio[i]) and ratio[i] > 0
    ]
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    return {
        "normal": [float(q) for q in np.quantile(np.concatenate(normal), levels)],
        "attacks": told,
        "p_full": entry.evaluation.windows.p_full,
    }


def _outweighed(traces: ChartData, i: int) -> float | None:
    """Return the share of its matched windows that an attack outweighs."""
    k, bounds = traces.segment_group[i], traces.matched_bounds
    windows = traces.matched_d_full[bounds[k] : bounds[k + 1]]
    if len(windows) == 0:
        return None
    return float(np.mean(windows < traces.segment_d_full[i]))


def _rounded(values: Floats) -> list[float]:
    return [float(v) for v in np.round(values, 6)]
