"""Arrays and time axes as the page stores them: quantised, compressed, small."""

import base64
import zlib
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints
from sightline.data.zones import FIRST_DATE, offset_changes, stamp, zone_words
from sightline.report.entries import Entry

# What only the page's scripts read. What Python or the template reads is a record.
JsonObject = Mapping[str, object]
# Steps between the lowest and the highest log energy: finer than any screen.
LEVELS = 4095
# Energy 0 (a residual equal to the mean) is drawn at this value.
MIN_ENERGY = 1e-12
# More knots would make the page larger and no chart finer.
MAX_KNOTS = 2000
_ARRAY_TYPES = {"u1": "Uint8Array", "u2": "Uint16Array", "f4": "Float32Array"}


def packed(values: npt.NDArray[np.generic]) -> JsonObject:
    """Return an array for the page: zlib-compressed, base64, little endian.

    Parameters
    ----------
    values : array of uint8, uint16 or float32
        Of any shape.

    Returns
    -------
    mapping
        ``kind`` (the JavaScript array type), ``shape``, and ``data``.
    """
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    text = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii")
    kind = _ARRAY_TYPES[f"{values.dtype.kind}{values.dtype.itemsize}"]
    return {"kind": kind, "shape": list(values.shape), "data": text}


def packed_text(text: str) -> str:
    """Return a long text for the page: UTF-8, zlib-compressed, base64."""
    # A higher level takes twice the time and saves 4%.
    return base64.b64encode(zlib.compress(text.encode(), 4)).decode("ascii")


def quantised(
    values: Floats, levels: int = LEVELS
) -> tuple[npt.NDArray[np.unsignedinteger], float, float]:
    """Return values as integers from 0 to `levels`, and the values of both ends.

    Parameters
    ----------
    values : array of float
        Of any shape.
    levels : int
        The integer of the largest value.

    Returns
    -------
    steps : array of uint8 or uint16
        Of the same shape; uint8 if `levels` fits. Values that are not finite are 0.
    low, high : float
        The values that 0 and `levels` stand for. An error is at most half a step,
        ``(high - low) / levels / 2``.

    Examples
    --------
    >>> quantised(np.array([1.0, 2.0, 3.0]), 255)
    (array([  0, 128, 255], dtype=uint8), 1.0, 3.0)
    """
    finite = np.isfinite(values)
    known = values[finite]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    width = high - low or 1.0
    steps = np.where(finite, (values - low) / width, 0.0) * levels
    kind = np.uint8 if levels <= 255 else np.uint16
    return np.rint(steps).astype(kind), low, low + width


def log_energy(energy: Floats) -> Floats:
    """Return the decimal logarithm of energies, at least that of `MIN_ENERGY`."""
    top = np.finfo(np.float64).max
    return np.asarray(np.log10(np.clip(energy, MIN_ENERGY, top)))


def packed_energy(energy: Floats) -> JsonObject:
    """Return the energy of every row, quantised on a log scale and packed.

    Returns
    -------
    mapping
        ``low`` and ``high`` (decimal logarithms), ``levels``, ``n`` (rows), and the
        packed ``values``. With `LEVELS` steps over ten decades, the error of an energy
        is below 0.3%.
    """
    steps, low, high = quantised(log_energy(energy))
    return {
        "low": round(low, 6),
        "high": round(high, 6),
        "levels": LEVELS,
        "n": len(energy),
        "values": packed(steps),
    }


class Clock(StrEnum):
    """The unit of a time axis, from the least to the most informative."""

    ROW = "row"
    HOURS = "hours"  # from the first row
    DATE = "date"  # seconds since 1970


def clock_of(entries: Sequence[Entry]) -> Clock:
    """Return the most informative clock that all entries have.

    Entries of one testbed are drawn on one axis, so they share one clock: dates if
    all have time stamps since 1970, else hours if all have time stamps or a step,
    else rows.
    """
    clocks = {_best_clock(entry) for entry in entries}
    return next(clock for clock in Clock if clock in clocks)


def clocks_by_testbed(entries: Sequence[Entry]) -> dict[str, Clock]:
    """Return the clock that the entries of each testbed share."""
    testbeds = dict.fromkeys(entry.testbed for entry in entries)
    return {
        testbed: clock_of([entry for entry in entries if entry.testbed == testbed])
        for testbed in testbeds
    }


def zones_by_testbed(entries: Sequence[Entry]) -> dict[str, str]:
    """Return which times each testbed shows, in words; empty if it shows no dates."""
    clocks = clocks_by_testbed(entries)
    zones = {e.testbed: e.evaluation.stream.timezone for e in reversed(entries)}
    return {
        testbed: zone_words(zones[testbed]) if clock == Clock.DATE else ""
        for testbed, clock in clocks.items()
    }


def _best_clock(entry: Entry) -> Clock:
    """Return the most informative clock of one entry."""
    if entry.time is not None:
        return Clock.DATE if entry.time[0] > FIRST_DATE else Clock.HOURS
    return Clock.HOURS if entry.evaluation.stream.step_s else Clock.ROW


def moments(entry: Entry, clock: Clock) -> Floats:
    """Return the time of each test row in the unit of a clock.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : Clock
        A clock that the entry has; see `clock_of`.

    Returns
    -------
    array of shape (n_test,)
        Seconds since 1970, hours from the first row, or row numbers.
    """
    time, rows = entry.time, np.arange(len(entry.traces.test_energy))
    if clock == Clock.ROW:
        return rows.astype(np.float64)
    if clock == Clock.DATE and time is not None:
        return time
    if time is not None:
        return np.asarray((time - time[0]) / 3600)
    step = float(entry.evaluation.stream.step_s or 0.0)
    return np.asarray(rows * step / 3600)


def time_axis(entry: Entry, clock: Clock | None = None) -> JsonObject:
    """Return how the page turns rows into time, by linear interpolation.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : Clock, optional
        The clock shared with other detectors; by default the entry's best.

    Returns
    -------
    mapping
        ``kind`` (the clock), ``rows`` and ``times`` of the knots; for dates also
        ``zone`` (which times are shown, in words) and ``offsets`` (see
        `offset_changes`).
    """
    clock = clock or _best_clock(entry)
    at = moments(entry, clock)
    if len(at) < 2:
        rows, times = [0, 1], [float(at[0]), float(at[0]) + 1]
    else:
        knots = _knots(at)
        rows = knots.tolist()
        times = [round(float(moment), 6) for moment in at[knots]]
    axis: dict[str, object] = {"kind": clock, "rows": rows, "times": times}
    if clock == Clock.DATE:
        zone = entry.evaluation.stream.timezone
        axis |= {
            "zone": zone_words(zone),
            "offsets": offset_changes(times[0], times[-1], zone),
        }
    return axis


def _knots(time: Floats) -> Ints:
    """Return the ends and the rows where the sampling interval changes."""
    step = np.diff(time)
    usual = np.median(step)
    odd = np.flatnonzero(np.abs(step - usual) > 0.5 * max(usual, 1e-9))
    # Evenly spaced knots follow a clock that drifts slowly.
    even = np.linspace(0, len(time) - 1, 65).astype(np.int64)
    rows = np.unique(np.concatenate([[0, len(time) - 1], odd, odd + 1, even]))
    if len(rows) <= MAX_KNOTS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MAX_KNOTS).astype(np.int64)]


def time_text(entry: Entry, row: int, clock: Clock | None = None) -> str:
    """Return the time of a row as text.

    Parameters
    ----------
    entry : Entry
        The detector.
    row : int
        A test row.
    clock : Clock, optional
        The clock shared with other detectors; by default the entry's best.

    Returns
    -------
    str
        Such as "2024-01-03 01:02:30" in the stream's time zone, "day 1, 01:02:30"
        (days count from the first row), or "row 750".
    """
    clock = clock or _best_clock(entry)
    if clock == Clock.ROW:
        return f"row {row:,}"
    moment = float(moments(entry, clock)[row])
    if clock == Clock.DATE:
        return stamp(moment, entry.evaluation.stream.timezone)
    days, rest = divmod(round(3600 * moment), 86_400)
    return f"day {days + 1}, {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
