"""Rows as time: a few knots between which time runs evenly."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.report.entries import Entry

# More knots than these would make a page large and no chart finer.
MOST_KNOTS = 2000
# Seconds since 1970 that are a date and not a count from the start.
FIRST_DATE = 1e8
DATE, HOURS, ROW = "date", "hours", "row"


def clock_kinds(entries: Sequence[Entry]) -> dict[str, str]:
    """Return the kind of clock of each testbed, by its name."""
    testbeds = dict.fromkeys(entry.testbed for entry in entries)
    return {
        testbed: clock_kind([entry for entry in entries if entry.testbed == testbed])
        for testbed in testbeds
    }


def clock_kind(entries: Sequence[Entry]) -> str:
    """Return the best kind of clock that all entries have.

    They are drawn on one axis: ``date`` (seconds since 1970), ``hours`` from each
    record's first row, or ``row``.
    """
    kinds = [_own_kind(entry) for entry in entries]
    return next(kind for kind in (ROW, HOURS, DATE) if kind in kinds)


def _own_kind(entry: Entry) -> str:
    time = entry.time
    if time is not None:
        return DATE if time[0] > FIRST_DATE else HOURS
    return HOURS if entry.evaluation.stream.step_s else ROW


def moments(entry: Entry, kind: str) -> Floats:
    """Return when each row is: seconds since 1970, hours from the first, or rows."""
    time, rows = entry.time, np.arange(len(entry.traces["test_energy"]))
    if kind == ROW:
        return rows.astype(np.float64)
    if kind == DATE and time is not None:
        return time
    if time is not None:
        return np.asarray((time - time[0]) / 3600)
    step = float(entry.evaluation.stream.step_s or 0.0)
    return np.asarray(rows * step / 3600)


def clock(entry: Entry, kind: str | None = None) -> dict[str, Any]:
    """Return how a page turns rows into time: its kind, and knots as rows and times."""
    kind = kind or _own_kind(entry)
    at = moments(entry, kind)
    if len(at) < 2:
        return {"kind": kind, "rows": [0, 1], "times": [float(at[0]), float(at[0]) + 1]}
    knots = _knots(at)
    times = [round(float(moment), 6) for moment in at[knots]]
    return {"kind": kind, "rows": knots.tolist(), "times": times}


def _knots(time: Floats) -> Ints:
    """Return the rows where the pace of time changes, and both ends."""
    step = np.diff(time)
    usual = np.median(step)
    odd = np.flatnonzero(np.abs(step - usual) > 0.5 * max(usual, 1e-9))
    # Slow drift of a clock is caught by knots at even distances as well.
    even = np.linspace(0, len(time) - 1, 65).astype(np.int64)
    rows = np.unique(np.concatenate([[0, len(time) - 1], odd, odd + 1, even]))
    if len(rows) <= MOST_KNOTS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MOST_KNOTS).astype(np.int64)]


def started(entry: Entry, row: int, kind: str | None = None) -> str:
    """Return when a row is, as text: a date, a time from the start, or a row."""
    kind = kind or _own_kind(entry)
    if kind == ROW:
        return f"row {row:,}"
    moment = float(moments(entry, kind)[row])
    if kind == DATE:
        return str(np.datetime64(int(moment), "s")).replace("T", " ")
    days, rest = divmod(round(3600 * moment), 86_400)
    clocked = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"day {days + 1}, {clocked}"
