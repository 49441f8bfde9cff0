"""Rows as time: a few knots between which time runs evenly."""

from typing import Any

import numpy as np

from sightline.checks import Ints
from sightline.report.entries import Entry

# A clock with more knots than this is not worth drawing by; rows are.
MOST_KNOTS = 2000
# Seconds since 1970 that are a date and not a count from the start.
FIRST_DATE = 1e8


def clock(entry: Entry) -> dict[str, Any]:
    """Return how a page turns rows into time.

    ``kind`` is ``date`` (seconds since 1970), ``hours`` or ``row``; ``rows`` and
    ``times`` are the knots.
    """
    n_test = len(entry.traces["test_energy"])
    by_row = {"kind": "row", "rows": [0, max(n_test - 1, 1)]}
    by_row["times"] = by_row["rows"]
    time = entry.traces.get("test_time")
    step = entry.evaluation.stream.step_s
    if time is not None and n_test > 1 and np.all(np.diff(time) >= 0):
        rows = _knots(np.asarray(time, dtype=np.float64))
        if len(rows) <= MOST_KNOTS:
            kind = "date" if time[0] > FIRST_DATE else "hours"
            scale = 1.0 if kind == "date" else 3600.0
            return {
                "kind": kind,
                "rows": rows.tolist(),
                "times": [round(float(time[row]) / scale, 6) for row in rows],
            }
    if step:
        last = max(n_test - 1, 1)
        return {"kind": "hours", "rows": [0, last], "times": [0, last * step / 3600]}
    return by_row


def _knots(time: Any) -> Ints:
    """Return the rows where the pace of time changes, and both ends."""
    step = np.diff(time)
    usual = np.median(step)
    odd = np.flatnonzero(np.abs(step - usual) > 0.5 * max(usual, 1e-9))
    # Slow drift of a clock is caught by knots at even distances as well.
    even = np.linspace(0, len(time) - 1, 65).astype(np.int64)
    return np.unique(np.concatenate([[0, len(time) - 1], odd, odd + 1, even]))


def started(entry: Entry, row: int) -> str:
    """Return when a row is, as text: a date, a time from the start, or a row."""
    time = entry.traces.get("test_time")
    if time is not None and time[0] > FIRST_DATE:
        moment = np.datetime64(int(time[row]), "s")
        return str(moment).replace("T", " ")
    step = entry.evaluation.stream.step_s
    if time is None and step is None:
        return f"row {row:,}"
    seconds = float(time[row]) if time is not None else row * float(step or 0.0)
    days, rest = divmod(int(seconds), 86_400)
    clocked = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"day {days + 1}, {clocked}"
