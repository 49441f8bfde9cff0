"""Where false alarms come from: by leading channel, by hour, by the plant's state."""

from typing import Any

import numpy as np

from sightline.data.arrays import NORMAL, Ints
from sightline.evaluation.chart_data import OWN, P99
from sightline.metrics.probe import AlarmMetrics
from sightline.report.entries import Entry
from sightline.report.time_axis import FIRST_DATE
from sightline.text import number, share

MOST_CHANNELS = 12
# So many tags are named in the one sentence, unless fewer make up this share.
MOST_NAMED = 3
MOST_OF_THEM = 0.6
_RULE_WORDS = {P99: "p99 rule", OWN: "own rule"}


def false_alarms(entry: Entry) -> list[dict[str, Any]] | None:
    """Return what is known of false alarms by each rule; None in an old folder."""
    traces = entry.traces
    rules = traces.get("episode_rule")
    if rules is None or "channel_names" not in traces:
        return None
    made = []
    for rule in (OWN, P99):
        alarms = entry.evaluation.own_rule if rule == OWN else entry.evaluation.probe
        if alarms is None:
            continue
        picked = np.flatnonzero(np.asarray(rules) == rule)
        starts = np.asarray(traces["episode_start"])[picked]
        made.append(
            {
                "rule": _RULE_WORDS[rule],
                "count": alarms.false_positive_segments,
                "n_read": len(picked),
                "sentence": _sentence(entry, picked, alarms),
                "channels": by_channel(entry, picked)[:MOST_CHANNELS],
                "hours": by_hour(entry, starts),
                "recovery": after_attacks(entry, starts),
                "states": _states(entry) if rule == P99 else [],
            }
        )
    return made


def by_channel(entry: Entry, picked: Ints) -> list[dict[str, Any]]:
    """Return how many episodes each channel leads, most first."""
    names = entry.traces["channel_names"]
    leading = np.asarray(entry.traces["episode_channel"])[picked]
    lengths = np.asarray(entry.traces["episode_length"])[picked]
    counts = np.bincount(leading, minlength=len(names))
    rows = np.bincount(leading, weights=lengths, minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    total = max(int(counts.sum()), 1)
    return [
        {
            "channel": str(names[j]),
            "stage": entry.stages.get(str(names[j])),
            "count": int(counts[j]),
            "share": float(counts[j] / total),
            "rows": int(rows[j]),
        }
        for j in order
        if counts[j]
    ]


def by_hour(entry: Entry, starts: Ints) -> list[int] | None:
    """Return how many episodes begin in each hour of the day; None without dates."""
    time = entry.traces.get("test_time")
    if time is None or len(time) == 0 or time[0] < FIRST_DATE or len(starts) == 0:
        return None
    hours = (np.asarray(time)[starts] % 86_400 // 3600).astype(np.int64)
    return [int(n) for n in np.bincount(hours, minlength=24)]


def after_attacks(entry: Entry, starts: Ints) -> dict[str, Any] | None:
    """Return the share of episodes that begin within an attack's length after it."""
    segments = entry.evaluation.segments
    if not segments or len(starts) == 0:
        return None
    is_normal = np.asarray(entry.traces["labels"]) == NORMAL
    is_after = np.zeros(len(is_normal), np.bool_)
    for segment in segments:
        is_after[segment.stop : segment.stop + segment.length] = True
    return {
        "share": float(is_after[starts].mean()),
        "time_share": float(is_after[is_normal].mean()) if is_normal.any() else 0.0,
    }


def _sentence(entry: Entry, picked: Ints, alarms: AlarmMetrics) -> str:
    """Return the one sentence: "63% come from 2 tags"."""
    if len(picked) == 0:
        if alarms.false_alarm_rate == 0:
            return "No false alarm."
        return (
            "No run of alarms lies wholly outside attacks; "
            f"{share(alarms.false_alarm_rate)} of normal time is in alarm."
        )
    leaders = by_channel(entry, picked)
    shares = np.cumsum([leader["share"] for leader in leaders])
    k = min(int(np.searchsorted(shares, MOST_OF_THEM)) + 1, MOST_NAMED, len(leaders))
    named = ", ".join(leader["channel"] for leader in leaders[:k])
    tags = "1 tag" if k == 1 else f"{k} tags"
    verb = "comes" if len(picked) == 1 else "come"
    return f"{share(float(shares[k - 1]))} {verb} from {tags}: {named}."


def _states(entry: Entry) -> list[dict[str, Any]]:
    """Return how often alarms begin in the states of a pump, a valve or a mode."""
    traces = entry.traces
    if "state_channel" not in traces:
        return []
    names = traces["telemetry_names"]
    made = []
    for m, j in enumerate(traces["state_channel"]):
        values, time, alarm = (
            traces[key][m]
            for key in ("state_value", "state_time_share", "state_alarm_share")
        )
        made.append(
            {
                "channel": str(names[j]),
                "states": [
                    {
                        "value": number(float(values[k])),
                        "time": share(float(time[k])),
                        "alarms": share(float(alarm[k])),
                        "time_share": float(time[k]),
                        "alarm_share": float(alarm[k]),
                    }
                    for k in range(len(values))
                    if np.isfinite(values[k])
                ],
            }
        )
    return made
