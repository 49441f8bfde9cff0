"""Leaving out the rows of a stream that hold a nan or an infinity, when asked to."""

from dataclasses import replace
from typing import Any

import numpy as np

from sightline.data.arrays import Bools
from sightline.data.row_tables import KeptRows, Rows, finite_rows
from sightline.data.segments import breaks_kept
from sightline.data.stream import ResidualStream


def drop_nonfinite(stream: ResidualStream) -> tuple[ResidualStream, dict[str, int]]:
    """Return the stream without its non-finite rows, and how many each array lost.

    Breaks are those of the full record: a dropped row makes no break of its own.
    """
    dropped = {"train": 0, "test": 0, "calibration": 0}
    changes: dict[str, Any] = {}
    for name, change in (
        ("train", _train_without),
        ("test", _test_without),
        ("calibration", _calibration_without),
    ):
        rows: Rows | None = getattr(stream, name)
        if rows is not None:
            keep, n_bad, _ = finite_rows(rows)
            if n_bad:
                dropped[name] = int((~keep).sum())
                changes |= change(stream, keep)
    return (stream.replace(**changes) if changes else stream), dropped


def _train_without(stream: ResidualStream, keep: Bools) -> dict[str, Any]:
    return {
        "train": KeptRows(stream.train, keep),
        "train_time": _kept(stream.train_time, keep),
        "train_breaks": breaks_kept(stream.train_breaks, keep),
        "telemetry_train": _kept_rows(stream.telemetry_train, keep),
    }


def _test_without(stream: ResidualStream, keep: Bools) -> dict[str, Any]:
    new_row = np.concatenate([[0], np.cumsum(keep)])
    moved = [
        (attack, int(new_row[attack.start]), int(new_row[attack.stop]))
        for attack in stream.segments
    ]
    gone = [attack.id for attack, start, stop in moved if start == stop]
    told = (
        [f"Every row of these attacks was dropped: {', '.join(gone)}."] if gone else []
    )
    return {
        "test": KeptRows(stream.test, keep),
        "labels": stream.labels[keep],
        "alarms": _kept(stream.alarms, keep),
        "score": _kept(stream.score, keep),
        "test_time": _kept(stream.test_time, keep),
        "test_breaks": breaks_kept(stream.test_breaks, keep),
        "telemetry_test": _kept_rows(stream.telemetry_test, keep),
        "segments": [
            replace(attack, start=start, stop=stop)
            for attack, start, stop in moved
            if start < stop
        ],
        "notices": [*stream.notices, *told],
    }


def _calibration_without(stream: ResidualStream, keep: Bools) -> dict[str, Any]:
    return {"calibration": _kept_rows(stream.calibration, keep)}


def _kept(values: Any, keep: Bools) -> Any:
    return None if values is None else values[keep]


def _kept_rows(rows: Rows | None, keep: Bools) -> Rows | None:
    return None if rows is None else KeptRows(rows, keep)
