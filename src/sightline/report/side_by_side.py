"""Detectors side by side: who sees which attack, who agrees, what carries over."""

from collections.abc import Sequence
from typing import Any

from sightline.comparison.agreement import agreements
from sightline.comparison.compare import ranking_transfer, seeded_figures
from sightline.comparison.runs import Figure, TestbedRuns, group_runs
from sightline.judgement.verdicts import info_of
from sightline.report.entries import Entry, attack_keys
from sightline.report.formatting import score
from sightline.text import UNKNOWN


def _runs(entries: Sequence[Entry]) -> TestbedRuns:
    """Return the runs of one testbed, with its detectors in the order of entries."""
    (runs,) = group_runs([result for entry in entries for result in entry.results])
    return runs


def matrix(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return attacks by detectors of one testbed, a verdict in each cell."""
    there = [entry for entry in entries if entry.evaluation.segments]
    if not there:
        return None
    keys = {entry.key: attack_keys(entry) for entry in there}
    rows = []
    for attack in _runs(there).attacks:
        cells = [_cell(entry, attack.places.get(entry.label), keys) for entry in there]
        n_seen = sum(c is not None and c["verdict"] == "detected" for c in cells)
        targets = next(iter(attack.segments.values())).targets
        rows.append(
            {
                "id": attack.id,
                "targets": list(targets or ()),
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
    style = info_of(entry.evaluation.segments[j].verdict)
    return {
        "verdict": style.word,
        "symbol": style.symbol,
        "detector": entry.label,
        "key": keys[entry.key][j],
    }


def agreement(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return Spearman's rho of D_FULL over shared attacks, detector by detector."""
    there = [entry for entry in entries if entry.evaluation.segments]
    if len(there) < 2:
        return None
    labels = [entry.label for entry in there]
    n = len(there)
    rho: list[list[float | None]] = [[None] * n for _ in range(n)]
    shared = [[0] * n for _ in range(n)]
    for a in range(n):
        rho[a][a] = 1.0
        shared[a][a] = len(there[a].evaluation.segments)
    for row in agreements(_runs(there)):
        a, b = (labels.index(label) for label in row.detectors)
        rho[a][b] = rho[b][a] = row.rho
        shared[a][b] = shared[b][a] = row.n_matched
    return {"detectors": labels, "rho": rho, "shared": shared}


def transfer(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return how rankings of detectors carry over from testbed to testbed."""
    results = [result for entry in entries for result in entry.results]
    return [
        {
            "figure": Figure(row.figure).label,
            "testbeds": list(row.testbeds),
            "n": row.correlation.n,
            "rho": UNKNOWN
            if row.correlation.rho is None
            else f"{row.correlation.rho:+.2f}".replace("-", "\u2212"),
            "p": _probability(row.correlation.p_value),
            "p_exact": _probability(row.correlation.p_exact),
        }
        for row in ranking_transfer(seeded_figures(group_runs(results)))
        if row.correlation.n >= 2
    ]


def _probability(value: float | None) -> str:
    return "<0.001" if value is not None and value < 0.0005 else score(value)
