"""Detectors side by side: who sees which attack, who agrees, what carries over."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from sightline.comparison.compare import (
    match_segments,
    ranking_transfer,
    seeded_figures,
    spans_of,
)
from sightline.metrics.correlation import rank_correlation
from sightline.report.entries import Entry, attack_keys
from sightline.report.formatting import score, verdict_of
from sightline.text import UNKNOWN

FIGURES = {
    "roc_auc": "ROC-AUC",
    "median_d_full": "median D_FULL",
    "p_full": "P_FULL",
}


def matrix(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return attacks by detectors of one testbed, a verdict in each cell."""
    there = [entry for entry in entries if entry.evaluation.segments]
    if not there:
        return None
    base = max(there, key=lambda entry: len(entry.evaluation.segments))
    spans = spans_of(base.results[0])
    placed = {
        entry.key: dict(match_segments(spans, spans_of(entry.results[0])))
        for entry in there
    }
    keys = {entry.key: attack_keys(entry) for entry in there}
    rows = []
    for i, segment in enumerate(base.evaluation.segments):
        cells = [_cell(entry, placed[entry.key].get(i), keys) for entry in there]
        n_seen = sum(c is not None and c["verdict"] == "detected" for c in cells)
        rows.append(
            {
                "id": segment.id,
                "targets": list(segment.targets or ()),
                "cells": cells,
                "n_seen": n_seen,
            }
        )
    return {
        "detectors": [entry.label for entry in there],
        "rows": rows,
        "n_missed_by_all": sum(row["n_seen"] == 0 for row in rows),
        "n_seen_by_all": sum(row["n_seen"] == len(there) for row in rows),
    }


def _cell(
    entry: Entry, j: int | None, keys: dict[str, list[str]]
) -> dict[str, Any] | None:
    if j is None:
        return None
    style = verdict_of(entry.evaluation.segments[j].verdict)
    return {
        "verdict": style.word,
        "symbol": style.symbol,
        "detector": entry.label,
        "key": keys[entry.key][j],
    }


def agreement(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return Spearman's rho of D_FULL over shared attacks, detector by detector.

    Of the first seed of each.
    """
    there = [entry for entry in entries if entry.evaluation.segments]
    if len(there) < 2:
        return None
    n = len(there)
    rho: list[list[float | None]] = [[None] * n for _ in range(n)]
    shared = [[0] * n for _ in range(n)]
    for a in range(n):
        rho[a][a] = 1.0
        shared[a][a] = len(there[a].evaluation.segments)
    for a, b in combinations(range(n), 2):
        first, second = there[a].results[0], there[b].results[0]
        pairs = match_segments(spans_of(first), spans_of(second))
        left, right = (
            np.asarray(result.traces["segment_d_full"])[[pair[k] for pair in pairs]]
            for k, result in enumerate((first, second))
        )
        rho[a][b] = rho[b][a] = rank_correlation(left, right).rho
        shared[a][b] = shared[b][a] = len(pairs)
    return {
        "detectors": [entry.label for entry in there],
        "rho": rho,
        "shared": shared,
    }


def transfer(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return how rankings of detectors carry over from testbed to testbed."""
    results = [result for entry in entries for result in entry.results]
    return [
        {
            "figure": FIGURES[row.figure],
            "testbeds": list(row.testbeds),
            "n": row.correlation.n,
            "rho": UNKNOWN
            if row.correlation.rho is None
            else f"{row.correlation.rho:+.2f}".replace("-", "\u2212"),
            "p": _probability(row.correlation.p_value),
            "p_exact": _probability(row.correlation.p_exact),
        }
        for row in ranking_transfer(seeded_figures(results))
        if row.correlation.n >= 2
    ]


def _probability(value: float | None) -> str:
    return "<0.001" if value is not None and value < 0.0005 else score(value)
