"""Chart data: the arrays a report needs, bounded whatever the size of the stream.

Excerpts show the rows around each attack in at most `MOST_COLUMNS` columns, episodes
are the false alarms, and states tell in which states of the plant they begin.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.row_tables import Rows, gather_rows
from sightline.data.segments import Segment
from sightline.data.stream import ResidualStream
from sightline.energy.energy import ScoredTest, energy_parts
from sightline.energy.reference import Reference
from sightline.evaluation.result import ChartData, SegmentResult
from sightline.metrics.alarm_load import false_alarm_runs
from sightline.metrics.ranking import roc_points
from sightline.rules.judging import RuleTrace
from sightline.rules.scoring import ScoredStream

# Corners of the ROC curve, at most.
ROC_POINTS = 2000
# Long train energy is thinned to the lowest and highest value of this many stretches.
TRAIN_STRETCHES = 10_000
# Later attacks of a long list have no excerpt.
MOST_ATTACKS = 120
MOST_COLUMNS = 300
MOST_CHANNELS = 8
# Up to this many of them are the attack's targets and the channels of its diagnosis.
MOST_NAMED = 3
# Of a long attack at most this many rows are read for each column.
ROWS_PER_COLUMN = 16
# Values of all excerpts in memory at once.
MOST_VALUES = 20_000_000
MOST_EPISODES = 20_000
# Rows of normal operation in which the states of the plant are counted.
STATE_ROWS = 5000
# A channel with more values than this has no states.
MOST_STATES = 6
MOST_STATE_CHANNELS = 3
# The alarm rules, by their number in `episode_rule`.
P99, OWN = 0, 1

Arrays = dict[str, npt.NDArray[np.generic]]


def chart_data(
    scored: ScoredStream,
    segments: Sequence[SegmentResult],
    trace: RuleTrace | None = None,
) -> ChartData:
    """Return the arrays that charts need; residuals are read once.

    Parameters
    ----------
    scored : ScoredStream
        The stream and its energies.
    segments : sequence of SegmentResult
        The attacks; their diagnosis decides which channels are shown.
    trace : RuleTrace, optional
        What the chosen rule said.
    """
    stream, test, windows = scored.stream, scored.test, scored.windows
    plan, energy = windows.plan, scored.energies.train.energy
    roc_fpr, roc_tpr = roc_points(scored.ranks, ROC_POINTS)
    train_rows = extreme_rows(energy, TRAIN_STRETCHES)
    arrays = _arrays_of_rows(stream, test, segments)
    if test.own_alarms is not None:
        # Rows from each attack's start to its first alarm; -1 for none.
        inside = [test.own_alarms[one.start : one.stop] for one in segments]
        first = [int(np.argmax(rows)) if rows.any() else -1 for rows in inside]
        arrays["own_first_alarm"] = np.array(first, dtype=np.int64)
    if trace is not None:
        arrays["rule_rows"], arrays["rule_peaks"] = trace.rows, trace.peaks
        arrays["rule_alarms"] = trace.alarms
    # Energy is half of |z|^2, so a window's sum of it follows from its moments. Rows
    # beyond 1e150 overflow; the figure leaves such an attack out.
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.trace(windows.seconds, axis1=1, axis2=2)
        d_ms, n_rows = windows.d_ms[plan.own], plan.lengths[plan.group]
        excess = np.asarray(0.5 * squares + d_ms - 0.5 * stream.p * n_rows)
    return ChartData(
        test_energy=test.energy,
        labels=test.labels,
        test_time=stream.test_time,
        test_breaks=test.breaks,
        train_energy=energy[train_rows],
        train_rows=train_rows,
        train_quantiles=np.quantile(energy, np.linspace(0, 1, 1001)),
        roc_fpr=roc_fpr,
        roc_tpr=roc_tpr,
        segment_d_full=windows.attack_d_full,
        segment_d_ms=d_ms,
        segment_excess=excess,
        segment_group=plan.group,
        matched_d_full=windows.normal_d_full,
        matched_starts=plan.starts[plan.is_normal],
        matched_bounds=plan.normal_bounds,
        **arrays,  # type: ignore[arg-type]
    )


def extreme_rows(values: Floats, n_stretches: int) -> Ints:
    """Return the rows of the lowest and the highest value of each stretch.

    All rows if there are at most two for each stretch.

    Examples
    --------
    >>> extreme_rows(np.array([0.0, 5, 1, 2, -3, 2, 2, 9, 1, 1, 1, 0]), 3)
    array([ 0,  1,  4,  7,  8, 11])
    """
    if len(values) <= 2 * n_stretches:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), n_stretches + 1).astype(np.int64)
    starts, lengths = edges[:-1], np.diff(edges)
    rows = []
    for extreme in (np.minimum, np.maximum):
        reached = values == np.repeat(extreme.reduceat(values, starts), lengths)
        places = np.flatnonzero(reached)
        rows.append(places[np.searchsorted(places, starts)])
    return np.unique(np.concatenate(rows))


def _arrays_of_rows(
    stream: ResidualStream, test: ScoredTest, segments: Sequence[SegmentResult]
) -> Arrays:
    """Return the fields of `ChartData` on false alarms, states and excerpts."""
    spans = _spans(test.segments, stream)
    # Rule, first row, length and peak row of each false alarm of each rule.
    of_rules: list[list[Ints]] = []
    for number, is_alarm in ((P99, test.alarms), (OWN, test.own_alarms)):
        if is_alarm is None:
            continue
        starts, stops = false_alarm_runs(is_alarm, test.labels, test.breaks)
        if len(starts) > MOST_EPISODES:
            some = np.arange(MOST_EPISODES) * len(starts) // MOST_EPISODES
            starts, stops = starts[some], stops[some]
        peaks = np.array(
            [
                a + int(np.argmax(test.energy[a:b]))
                for a, b in zip(starts, stops, strict=True)
            ],
            dtype=np.int64,
        )
        of_rules.append([np.full(len(starts), number), starts, stops - starts, peaks])
    rule, starts, lengths, peaks = map(np.concatenate, zip(*of_rules, strict=True))
    around = [span.rows for span in spans]
    wanted = np.unique(np.concatenate([peaks, *around]))
    residuals = _SomeRows(stream.test, wanted.astype(np.int64))
    leading = np.zeros(0, np.int32)
    if len(peaks):
        parts = _contributions(residuals.at(peaks), test.reference)
        leading = parts.argmax(axis=1).astype(np.int32)
    arrays: Arrays = {
        "channel_names": np.array(stream.channels),
        "telemetry_names": np.array(stream.telemetry_channels, dtype=np.str_),
        "episode_rule": rule.astype(np.int8),
        "episode_start": starts,
        "episode_length": lengths,
        "episode_channel": leading,
    }
    telemetry, by_p99 = None, starts[rule == P99]
    if stream.telemetry_test is not None and len(by_p99):
        arrays |= _states(stream.telemetry_test, test.attack_free.by_label, by_p99)
    if not spans:
        return arrays
    if stream.telemetry_test is not None:
        telemetry = _SomeRows(stream.telemetry_test, np.unique(np.concatenate(around)))
    return arrays | _excerpts(
        stream, segments, spans, residuals, telemetry, test.reference
    )


class _SomeRows:
    """Some rows of a table, by their number in it."""

    def __init__(self, rows: Rows, wanted: Ints) -> None:
        self.wanted = wanted
        self.values = gather_rows(rows, wanted)

    def at(self, rows: Ints) -> Floats:
        """Return rows by their number in the table."""
        return self.values[np.searchsorted(self.wanted, rows)]


@dataclass(frozen=True)
class _Span:
    """The rows around one attack: those that are read, and the column of each."""

    start: int
    stop: int
    rows: Ints
    columns: Ints
    n_columns: int

    def binned(self, values: Floats) -> npt.NDArray[np.float32]:
        """Return the lowest, highest and mean value of each column."""
        edges = np.searchsorted(self.columns, np.arange(self.n_columns))
        counts = np.diff(np.append(edges, len(values)))
        low = np.minimum.reduceat(values, edges)
        high = np.maximum.reduceat(values, edges)
        with np.errstate(over="ignore"):  # clipped below
            mean = np.add.reduceat(values, edges) / counts
        bound = np.finfo(np.float32).max
        columns = np.clip(np.stack([low, high, mean], axis=1), -bound, bound)
        return np.asarray(columns, dtype=np.float32)


def _spans(segments: Sequence[Segment], stream: ResidualStream) -> list[_Span]:
    """Return the rows around each attack: its own length before and after."""
    first = segments[:MOST_ATTACKS]
    n_test = stream.test.n_rows
    each = MOST_VALUES // (max(stream.p, 1) * max(len(first), 1))
    most = int(np.clip(each, MOST_COLUMNS, MOST_COLUMNS * ROWS_PER_COLUMN))
    spans = []
    for segment in first:
        margin = max(segment.length, 10)
        start = max(0, segment.start - margin)
        stop = min(segment.stop + margin, n_test)
        length = stop - start
        n_rows, n_columns = min(length, most), min(length, MOST_COLUMNS)
        offsets = (np.arange(n_rows) * length) // n_rows
        columns = offsets * n_columns // length
        spans.append(_Span(start, stop, start + offsets, columns, n_columns))
    return spans


def _contributions(residuals: Floats, reference: Reference) -> Floats:
    """Return each channel's part of the energy; what overflows counts as 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        parts = energy_parts(residuals, reference)
    return np.nan_to_num(parts, nan=0.0, posinf=0.0, neginf=0.0)


def _excerpts(
    stream: ResidualStream,
    segments: Sequence[SegmentResult],
    spans: Sequence[_Span],
    residuals: _SomeRows,
    telemetry: _SomeRows | None,
    reference: Reference,
) -> Arrays:
    """Return contributions and signals around each attack, in columns."""
    n_columns = max(span.n_columns for span in spans)
    shape = (len(spans), min(MOST_CHANNELS, stream.p))
    channels, measured = np.full((2, *shape), -1, np.int32)
    heat = np.full((*shape, n_columns), np.nan, np.float32)
    signals = np.full((*shape, n_columns, 3), np.nan, np.float32)
    place = {name: j for j, name in enumerate(stream.telemetry_channels)}
    column = {name: j for j, name in enumerate(stream.channels)}
    for i, (segment, span) in enumerate(zip(segments, spans, strict=False)):
        values = residuals.at(span.rows)
        parts = _contributions(values, reference)
        inside = (span.rows >= segment.start) & (span.rows < segment.stop)
        with np.errstate(over="ignore"):  # an infinite strength comes first
            strength = np.abs(parts[inside]).mean(axis=0)
        # Targets and diagnosed channels, else those with most evidence. A whole stage
        # is not shown channel by channel.
        k, strongest = shape[1], list(np.argsort(-strength, kind="stable")[: shape[1]])
        refocus = segment.evidence_channels or ()
        pointed = [*segment.targets, *(refocus if len(refocus) <= MOST_NAMED else ())]
        named = dict.fromkeys(column[name] for name in pointed if name in column)
        missing = [j for j in named if j not in strongest][: min(MOST_NAMED, k - 1)]
        channels[i] = strongest[: k - len(missing)] + missing
        raw = None if telemetry is None else telemetry.at(span.rows)
        for m, j in enumerate(channels[i]):
            heat[i, m, : span.n_columns] = span.binned(np.abs(parts[:, j]))[:, 2]
            table, source = values, j
            if raw is not None and stream.channels[j] in place:
                table, source = raw, place[stream.channels[j]]
                measured[i, m] = source
            signals[i, m, : span.n_columns] = span.binned(table[:, source])
    return {
        "excerpt_rows": np.array([(s.start, s.stop) for s in spans], dtype=np.int64),
        "excerpt_columns": np.array([s.n_columns for s in spans], dtype=np.int32),
        "excerpt_channels": channels,
        "excerpt_telemetry": measured,
        "excerpt_contributions": heat,
        "excerpt_signals": signals,
    }


def _states(telemetry: Rows, is_attack_free: Bools, starts: Ints) -> Arrays:
    """Return how often false alarms begin in each state of the plant.

    A channel with few values (a pump, a valve, a mode) has states. Of these the
    channels are returned in which alarms begin most unlike the time spent there.
    """
    normal = np.flatnonzero(is_attack_free)
    n_rows = min(STATE_ROWS, len(normal))
    usual = normal[(np.arange(n_rows) * len(normal)) // n_rows].astype(np.int64)
    some = _SomeRows(telemetry, np.unique(np.concatenate([usual, starts])))
    at_usual, at_alarm = some.at(usual), some.at(starts)
    candidates = []
    for j in range(telemetry.n_channels):
        levels = np.unique(at_usual[:, j])
        if not 2 <= len(levels) <= MOST_STATES:
            continue
        time, alarm = (
            np.array([np.mean(at[:, j] == level) for level in levels])
            for at in (at_usual, at_alarm)
        )
        unlike = 0.5 * float(np.abs(time - alarm).sum())
        candidates.append((-unlike, j, (levels, time, alarm)))
    best = sorted(candidates, key=lambda one: one[:2])[:MOST_STATE_CHANNELS]
    table = np.full((3, len(best), MOST_STATES), np.nan, np.float32)
    for m, (_, _, rows) in enumerate(best):
        for part, row in enumerate(rows):
            table[part, m, : len(row)] = row
    return {
        "state_channel": np.array([j for _, j, _ in best], dtype=np.int32),
        "state_value": table[0],
        "state_time_share": table[1],
        "state_alarm_share": table[2],
    }
