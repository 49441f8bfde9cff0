"""Excerpts of rows for pictures: what is around each attack and behind false alarms.

Everything here is bounded, whatever the size of the stream, so that a report can be
made from a folder of results alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.row_tables import Rows, gather_rows
from sightline.data.segments import run_bounds
from sightline.data.stream import ResidualStream
from sightline.energy.reference import Reference
from sightline.evaluation.result import SegmentResult

# Later attacks of a long list have no picture of their own.
MOST_ATTACKS = 120
MOST_COLUMNS = 300
MOST_CHANNELS = 8
# Of these so many are kept for the attack's targets and what the diagnosis found.
MOST_NAMED = 3
# Of a long attack so many rows stand for each column of its picture.
ROWS_PER_COLUMN = 16
# Values of all excerpts held at once.
MOST_VALUES = 20_000_000
MOST_EPISODES = 20_000
# Rows that stand for normal operation when its states are counted.
STATE_ROWS = 5000
# A channel with more values than this is not one of states.
MOST_STATES = 6
MOST_STATE_CHANNELS = 3
P99, OWN = 0, 1

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class _Span:
    """The rows around one attack: those shown, and the column each falls into."""

    start: int
    stop: int
    rows: Ints
    columns: Ints
    n_columns: int


def excerpts_of(
    stream: ResidualStream,
    labels: Labels,
    segments: Sequence[SegmentResult],
    energy: Floats,
    reference: Reference,
    alarms: Mapping[int, Bools],
) -> Arrays:
    """Return what pictures need of residuals and telemetry, as named arrays.

    Parameters
    ----------
    stream : ResidualStream
        The residuals, and telemetry if it was given.
    labels : array of shape (n_test,)
        1 attack, 0 normal, -1 ignore.
    segments : sequence of SegmentResult
        The attacks, with what the diagnosis found.
    energy : array of shape (n_test,)
        Test energy under `reference`.
    reference : Reference
        Fitted on train.
    alarms : mapping
        The alarms of each rule, by `P99` and `OWN`.

    Returns
    -------
    dict
        Fields of `ChartData`: ``excerpt_*`` with one entry for each attack, channels
        that carry most evidence first; ``episode_*`` with one for each false alarm;
        ``state_*`` with how often they come in the states of the plant.
    """
    spans = _spans(segments, stream)
    episodes = [
        _episodes(rule, is_alarm, labels, stream.test_breaks, energy)
        for rule, is_alarm in alarms.items()
    ]
    rule, starts, lengths, peaks = (
        np.concatenate([e[k] for e in episodes]) for k in range(4)
    )
    wanted = np.unique(np.concatenate([peaks, *(span.rows for span in spans)]))
    residuals = _Taken(stream.test, wanted.astype(np.int64))
    kept = {
        "channel_names": np.array(stream.channels),
        "telemetry_names": np.array(stream.telemetry_channels, dtype=np.str_),
        "episode_rule": rule.astype(np.int8),
        "episode_start": starts,
        "episode_length": lengths,
        "episode_channel": _leading(residuals, peaks, reference),
    }
    kept |= _pictures(stream, segments, spans, residuals, reference)
    if OWN in alarms:
        kept["own_first_alarm"] = _first_alarms(alarms[OWN], segments)
    by_p99 = starts[rule == P99]
    if stream.telemetry_test is not None and len(by_p99):
        kept |= _states(stream.telemetry_test, labels, by_p99)
    return kept


def extreme_rows(values: Floats, n_stretches: int) -> Ints:
    """Return the rows of the lowest and the highest value of each stretch.

    Examples
    --------
    >>> extreme_rows(np.array([0.0, 5, 1, 2, -3, 2, 2, 9, 1, 1, 1, 0]), 3)
    array([ 0,  1,  4,  7,  8, 11])
    """
    if len(values) <= 2 * n_stretches:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), n_stretches + 1).astype(np.int64)
    rows = [
        start + extreme(values[start:stop])
        for start, stop in pairwise(edges)
        for extreme in (np.argmin, np.argmax)
    ]
    return np.unique(np.array(rows, dtype=np.int64))


class _Taken:
    """Some rows of a table, by their number in it."""

    def __init__(self, rows: Rows, wanted: Ints) -> None:
        self.wanted = wanted
        self.values = gather_rows(rows, wanted)

    def at(self, rows: Ints) -> Floats:
        return self.values[np.searchsorted(self.wanted, rows)]


def _spans(segments: Sequence[SegmentResult], stream: ResidualStream) -> list[_Span]:
    """Return the rows around each attack: its own length before and after."""
    shown = segments[:MOST_ATTACKS]
    n_test = stream.test.n_rows
    each = MOST_VALUES // (max(stream.p, 1) * max(len(shown), 1))
    most = int(np.clip(each, MOST_COLUMNS, MOST_COLUMNS * ROWS_PER_COLUMN))
    spans = []
    for segment in shown:
        length = segment.stop - segment.start
        margin = max(length, 10)
        start, stop = max(0, segment.start - margin), segment.stop + margin
        stop = min(stop, n_test)
        n_shown = stop - start
        n_rows = min(n_shown, most)
        offsets = (np.arange(n_rows) * n_shown) // n_rows
        n_columns = min(n_shown, MOST_COLUMNS)
        spans.append(
            _Span(
                start, stop, start + offsets, offsets * n_columns // n_shown, n_columns
            )
        )
    return spans


def _episodes(
    rule: int, is_alarm: Bools, labels: Labels, breaks: Ints, energy: Floats
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return rule, first row, length and peak row of each false alarm."""
    starts, stops = run_bounds(is_alarm, breaks)
    before = [np.concatenate([[0], np.cumsum(labels == m)]) for m in (ATTACK, NORMAL)]
    n_attack, n_normal = (count[stops] - count[starts] for count in before)
    is_false = np.flatnonzero((n_attack == 0) & (n_normal > 0))
    if len(is_false) > MOST_EPISODES:
        is_false = is_false[np.arange(MOST_EPISODES) * len(is_false) // MOST_EPISODES]
    starts, stops = starts[is_false], stops[is_false]
    peaks = [
        a + int(np.argmax(energy[a:b])) for a, b in zip(starts, stops, strict=True)
    ]
    return (
        np.full(len(starts), rule, np.int64),
        starts.astype(np.int64),
        (stops - starts).astype(np.int64),
        np.array(peaks, dtype=np.int64),
    )


def _first_alarms(is_alarm: Bools, segments: Sequence[SegmentResult]) -> Ints:
    """Return the rows from each attack's start to its first alarm; -1 for none."""
    inside = [is_alarm[segment.start : segment.stop] for segment in segments]
    return np.array(
        [int(np.argmax(rows)) if rows.any() else -1 for rows in inside], dtype=np.int64
    )


def _contributions(residuals: Floats, reference: Reference) -> Floats:
    """Return each channel's part of the energy; what overflows counts as none."""
    centered = residuals - reference.mean
    parts = 0.5 * centered * (centered @ reference.precision)
    return np.nan_to_num(parts, nan=0.0, posinf=0.0, neginf=0.0)


def _leading(residuals: _Taken, peaks: Ints, reference: Reference) -> Ints:
    """Return the channel with the largest contribution at each peak."""
    if len(peaks) == 0:
        return np.zeros(0, np.int32)
    parts = _contributions(residuals.at(peaks), reference)
    return np.asarray(parts.argmax(axis=1), dtype=np.int32)


def _pictures(
    stream: ResidualStream,
    segments: Sequence[SegmentResult],
    spans: Sequence[_Span],
    residuals: _Taken,
    reference: Reference,
) -> Arrays:
    """Return contributions and signals around each attack, in columns."""
    if not spans:
        return {}
    most = max(span.n_columns for span in spans)
    k = min(MOST_CHANNELS, stream.p)
    channels = np.full((len(spans), k), -1, np.int32)
    measured = np.full((len(spans), k), -1, np.int32)
    heat = np.full((len(spans), k, most), np.nan, np.float32)
    signals = np.full((len(spans), k, most, 3), np.nan, np.float32)
    telemetry = None
    if stream.telemetry_test is not None:
        rows = np.unique(np.concatenate([span.rows for span in spans]))
        telemetry = _Taken(stream.telemetry_test, rows)
    place = {name: j for j, name in enumerate(stream.telemetry_channels)}
    for i, (segment, span) in enumerate(zip(segments, spans, strict=False)):
        values = residuals.at(span.rows)
        parts = _contributions(values, reference)
        inside = (span.rows >= segment.start) & (span.rows < segment.stop)
        strength = np.abs(parts[inside]).mean(axis=0)
        channels[i] = _shown_channels(strength, segment, stream.channels, k)
        raw = None if telemetry is None else telemetry.at(span.rows)
        for m, j in enumerate(channels[i]):
            heat[i, m, : span.n_columns] = _binned(np.abs(parts[:, j]), span)[:, 2]
            column, source = values, j
            if raw is not None and stream.channels[j] in place:
                column, source = raw, place[stream.channels[j]]
                measured[i, m] = source
            signals[i, m, : span.n_columns] = _binned(column[:, source], span)
    return {
        "excerpt_rows": np.array([(s.start, s.stop) for s in spans], dtype=np.int64),
        "excerpt_columns": np.array([s.n_columns for s in spans], dtype=np.int32),
        "excerpt_channels": channels,
        "excerpt_telemetry": measured,
        "excerpt_contributions": heat,
        "excerpt_signals": signals,
    }


def _shown_channels(
    strength: Floats, segment: SegmentResult, names: Sequence[str], k: int
) -> Ints:
    """Return the channels with most evidence; some places go to what was named."""
    strongest = list(np.argsort(-strength, kind="stable")[:k])
    place = {name: j for j, name in enumerate(names)}
    found = segment.refocus_channels or ()
    # A whole stage is not shown channel by channel.
    pointed = [*segment.targets, *(found if len(found) <= MOST_NAMED else ())]
    named = list(dict.fromkeys(place[name] for name in pointed if name in place))
    missing = [j for j in named if j not in strongest][: min(MOST_NAMED, k - 1)]
    return np.array(strongest[: k - len(missing)] + missing, dtype=np.int32)


def _binned(values: Floats, span: _Span) -> npt.NDArray[np.float32]:
    """Return the lowest, highest and mean value of each column."""
    edges = np.searchsorted(span.columns, np.arange(span.n_columns))
    counts = np.diff(np.append(edges, len(values)))
    low = np.minimum.reduceat(values, edges)
    high = np.maximum.reduceat(values, edges)
    mean = np.add.reduceat(values, edges) / counts
    bound = np.finfo(np.float32).max
    columns = np.clip(np.stack([low, high, mean], axis=1), -bound, bound)
    return np.asarray(columns, dtype=np.float32)


def _states(telemetry: Rows, labels: Labels, starts: Ints) -> Arrays:
    """Return how often false alarms begin in each state of the plant.

    A channel with few values (a pump, a valve, a mode) has states. Those are kept in
    which alarms come most unlike the time spent there.
    """
    normal = np.flatnonzero(labels == NORMAL)
    n_rows = min(STATE_ROWS, len(normal))
    usual = normal[(np.arange(n_rows) * len(normal)) // n_rows]
    usual = usual.astype(np.int64)
    taken = _Taken(telemetry, np.unique(np.concatenate([usual, starts])))
    at_usual, at_alarm = taken.at(usual), taken.at(starts)
    found = []
    for j in range(telemetry.n_channels):
        levels = np.unique(at_usual[:, j])
        if not 2 <= len(levels) <= MOST_STATES:
            continue
        time, alarm = (
            np.array([np.mean(at[:, j] == level) for level in levels])
            for at in (at_usual, at_alarm)
        )
        found.append((0.5 * float(np.abs(time - alarm).sum()), j, levels, time, alarm))
    found = sorted(found, key=lambda f: (-f[0], f[1]))[:MOST_STATE_CHANNELS]
    table = np.full((3, len(found), MOST_STATES), np.nan, np.float32)
    for m, (_, _, levels, time, alarm) in enumerate(found):
        for part, row in enumerate((levels, time, alarm)):
            table[part, m, : len(levels)] = row
    return {
        "state_channel": np.array([f[1] for f in found], dtype=np.int32),
        "state_value": table[0],
        "state_time_share": table[1],
        "state_alarm_share": table[2],
    }
