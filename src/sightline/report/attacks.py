"""Each attack: the rows of a table, and the picture behind each of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.evaluation.result import SegmentResult
from sightline.judgement.ladder import LADDER
from sightline.judgement.verdicts import info_of
from sightline.report.array_encoding import packed, quantised
from sightline.report.entries import Entry, attack_keys, is_found
from sightline.report.formatting import delay
from sightline.report.time_axis import clock_kinds, started
from sightline.text import number, row_span, share

# Signals drawn one below the other; more would not be looked at.
MOST_SIGNALS = 5
HEAT_RANGE = 200


def attack_rows(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return one table row for each attack and detector."""
    kinds = clock_kinds(entries)
    return [
        _row(entry, i, segment, key, kinds[entry.testbed])
        for entry in entries
        for i, (segment, key) in enumerate(
            zip(entry.evaluation.segments, attack_keys(entry), strict=True)
        )
    ]


def _row(
    entry: Entry, i: int, segment: SegmentResult, key: str, kind: str
) -> dict[str, Any]:
    step = entry.evaluation.stream.step_s
    style = info_of(segment.verdict)
    first = segment.first_alarm
    return {
        "key": key,
        "entry": entry.key,
        "index": i,
        "testbed": entry.testbed,
        "detector": entry.label,
        "id": segment.id,
        "name": segment.name,
        "note": segment.note,
        "targets": list(segment.targets or ()),
        "stages": attack_stages(segment, entry.stages),
        "start": segment.start,
        "started": started(entry, segment.start, kind),
        "rows": segment.length,
        "lasted": row_span(segment.length, step),
        "verdict": style.word,
        "symbol": style.symbol,
        "coverage": segment.coverage,
        "coverage_text": share(segment.coverage),
        "auc": segment.auc,
        "auc_text": share(segment.auc),
        "first_alarm": first,
        "first_alarm_text": delay(first, step),
        "is_found": is_found(segment),
        "sentence": segment.sentence or "",
    }


def attack_stages(segment: SegmentResult, stages: dict[str, str]) -> list[str]:
    """Return the stages an attack aims at; else those its evidence lies in."""
    aimed = [stages[name] for name in segment.targets or () if name in stages]
    if not aimed:
        named = segment.refocus_channels or ()
        aimed = [stages[name] for name in named if name in stages]
    return list(dict.fromkeys(aimed))


def attack_details(entry: Entry) -> list[dict[str, Any]]:
    """Return what the picture of each attack is made of."""
    return [
        {
            "ladder": ladder_bars(segment),
            "facts": _facts(segment),
            "signature": segment.signature and segment.signature.reading,
            "signature_agrees": segment.signature_agrees,
            "contributing": list(segment.contributing or ()),
            "picture": _picture(entry, i, segment),
        }
        for i, segment in enumerate(entry.evaluation.segments)
    ]


def ladder_bars(segment: SegmentResult) -> list[dict[str, Any]]:
    """Return the coverage of an attack under each rung of the ladder."""
    ladder = segment.ladder or {}
    return [
        {
            "rung": name,
            "label": rung.label,
            "coverage": ladder[name]["coverage"],
            "calm": ladder[name]["calm"],
            "limit": ladder[name]["limit"],
            "visible": bool(ladder[name]["visible"]),
            "by": ", ".join(ladder[name].get("by") or ()),
        }
        for name, rung in LADDER.items()
        if name in ladder
    ]


def _facts(segment: SegmentResult) -> list[list[str]]:
    """Return the paper's figures of one attack, as pairs of name and value."""
    usable = "" if segment.sdr_usable else " (not usable)"
    shrunk = "" if segment.reliable else " (short window)"
    return [
        ["AUC", share(segment.auc, 1)],
        ["AUC nearby", share(segment.auc_nearby, 1)],
        ["D_FULL", number(segment.d_full) + shrunk],
        ["D_MS", number(segment.d_ms)],
        ["D_eff", number(segment.d_eff)],
        ["SDR", number(segment.sdr) + usable],
    ]


def _picture(entry: Entry, i: int, segment: SegmentResult) -> dict[str, Any] | None:
    """Return the excerpt around an attack; None where the folder has none."""
    traces = entry.traces
    bounds = traces.get("excerpt_rows")
    names = traces.get("channel_names")
    if bounds is None or names is None or i >= len(bounds):
        return None
    n_columns = int(traces["excerpt_columns"][i])
    shown = [m for m, j in enumerate(traces["excerpt_channels"][i]) if j >= 0]
    channels = [str(names[traces["excerpt_channels"][i][m]]) for m in shown]
    heat = traces["excerpt_contributions"][i][shown, :n_columns].astype(np.float64)
    # Two decades below the strongest a channel carries nothing worth a colour.
    least = max(float(np.nanmax(heat, initial=0.0)) / HEAT_RANGE, 1e-6)
    steps, low, high = quantised(np.log10(np.maximum(heat, least)), 255)
    return {
        "start": int(bounds[i][0]),
        "stop": int(bounds[i][1]),
        "columns": n_columns,
        "channels": channels,
        "targets": [name for name in channels if name in (segment.targets or ())],
        "heat": packed(steps) | {"low": low, "high": high},
        "signals": _signals(entry, i, segment, channels, n_columns),
    }


def _signals(
    entry: Entry,
    i: int,
    segment: SegmentResult,
    channels: Sequence[str],
    n_columns: int,
) -> list[dict[str, Any]]:
    """Return lowest and highest values of the channels that matter most."""
    signals = entry.traces.get("excerpt_signals")
    if signals is None:
        return []
    measured = entry.traces["excerpt_telemetry"][i]
    named = {*(segment.targets or ()), *(segment.refocus_channels or ())}
    order = sorted(range(len(channels)), key=lambda m: (channels[m] not in named, m))
    made = []
    for m in order[:MOST_SIGNALS]:
        values = signals[i, m, :n_columns, :2].astype(np.float64)
        steps, low, high = quantised(values, 255)
        made.append(
            {
                "channel": channels[m],
                "is_telemetry": bool(measured[m] >= 0),
                "low": low,
                "high": high,
                "values": packed(np.ascontiguousarray(steps.T)),
            }
        )
    return made
