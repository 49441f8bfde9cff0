"""Seconds since 1970 as times of day in a plant's time zone.

A zone is an IANA name such as ``"Europe/Berlin"``, ``"UTC"``, or None for the plant's
own clock, whose zone is not known: its seconds are shown as they are. Seconds never
change; a zone only says how they are shown. Clocks also go back, jump ahead, and give
two rows one stamp: `in_time_order` and `is_ahead` find such rows.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.errors import StreamError

OWN_CLOCK = "plant's own clock"
# Time stamps above this are seconds since 1970; smaller ones count from the start.
FIRST_DATE = 1e8
_DAY = 86_400.0
# A longer record is searched for changes of the clock in larger steps.
_MOST_STEPS = 40_000


@lru_cache(maxsize=64)
def _zone(name: str | None) -> ZoneInfo | None:
    """Return the rules of a zone; None for the plant's own clock and for UTC."""
    if name is None or name == "UTC":
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise StreamError(
            f"`timezone` {name!r} is not known; write it like 'Europe/Berlin' or "
            "'UTC', or leave it out for the plant's own clock."
        ) from None


def check_timezone(name: str | None) -> str | None:
    """Return a time zone as it is given.

    Raises
    ------
    StreamError
        If there is no zone of that name.
    """
    _zone(name)
    return name


def zone_words(zone: str | None) -> str:
    """Return what times are shown in, for a title or the end of a sentence.

    Examples
    --------
    >>> zone_words("Europe/Berlin"), zone_words("UTC"), zone_words(None)
    ('times in Europe/Berlin', 'times in UTC', "times on the plant's own clock")
    """
    return f"times on the {OWN_CLOCK}" if zone is None else f"times in {zone}"


def stamp(at: float, zone: str | None = None) -> str:
    """Return seconds since 1970 as a readable time stamp, to the second.

    Parameters
    ----------
    at : float
        Seconds since 1970, UTC or on the plant's own clock.
    zone : str, optional
        The zone to show them in; by default as they are.

    Returns
    -------
    str
        A stamp in the hour that comes twice in autumn has its offset behind it. A
        time beyond the years 1 to 9999 is shown as seconds.

    Examples
    --------
    >>> stamp(86401.0)
    '1970-01-02 00:00:01'
    >>> stamp(1_792_887_600, "Europe/Berlin"), stamp(1_792_894_800, "Europe/Berlin")
    ('2026-10-25 02:20:00 +02:00', '2026-10-25 03:20:00')
    """
    moment = _moment(at, zone)
    if moment is None:
        return f"{at:g} s"
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    if moment.utcoffset() == moment.replace(fold=1 - moment.fold).utcoffset():
        return text
    return f"{text} {moment.isoformat()[-6:]}"


def iso_stamp(at: float, zone: str | None = None) -> str:
    """Return seconds since 1970 as ISO 8601, to the second.

    Returns
    -------
    str
        With the offset from UTC; without one on the plant's own clock. Beyond the
        years 1 to 9999 it is empty.

    Examples
    --------
    >>> iso_stamp(1_774_746_000, "Europe/Berlin"), iso_stamp(0, "UTC"), iso_stamp(0)
    ('2026-03-29T03:00:00+02:00', '1970-01-01T00:00:00+00:00', '1970-01-01T00:00:00')
    """
    moment = _moment(at, zone)
    if moment is None:
        return ""
    known = moment if zone is not None else moment.replace(tzinfo=None)
    return known.isoformat(timespec="seconds")


def _moment(at: float, zone: str | None) -> datetime | None:
    """Return the date and time in a zone; None if a date cannot hold it."""
    try:
        return datetime.fromtimestamp(at, UTC).astimezone(_zone(zone) or UTC)
    except (ValueError, OverflowError, OSError):
        return None


def offset_changes(first: float, last: float, zone: str | None) -> list[list[float]]:
    """Return when a zone's clock was changed within a span of time.

    Parameters
    ----------
    first, last : float
        Ends of the span in seconds since 1970.
    zone : str, optional
        None and ``"UTC"`` never change.

    Returns
    -------
    list of [since, offset]
        `first` and the offset at that time, then the first second of each further
        offset. Offsets are seconds to add to UTC.

    Examples
    --------
    >>> offset_changes(1_774_700_000, 1_774_800_000, "Europe/Berlin")
    [[1774700000, 3600.0], [1774746000, 7200.0]]
    """
    changes: list[list[float]] = [[first, _offset(first, zone)]]
    if _zone(zone) is None or not last > first:
        return changes
    step = max(_DAY, (last - first) / _MOST_STEPS)
    edges = np.append(np.arange(first, last, step), last)
    for low, high in pairwise(edges.tolist()):
        now = _offset(high, zone)
        if now == changes[-1][1]:
            continue
        before, after = int(low), int(np.ceil(high))
        while after - before > 1:
            middle = (before + after) // 2
            if _offset(middle, zone) == now:
                after = middle
            else:
                before = middle
        changes.append([after, now])
    return changes


def _offset(at: float, zone: str | None) -> float:
    """Return the seconds to add to UTC at a time; 0 where a date cannot hold it."""
    moment = _moment(at, zone)
    offset = moment.utcoffset() if moment is not None else None
    return (offset or timedelta()).total_seconds()


def local_seconds(time: Floats, zone: str | None) -> Floats:
    """Return seconds since 1970 as a clock in the zone shows them.

    Parameters
    ----------
    time : array of shape (n,)
        Seconds since 1970, in any order.
    zone : str, optional
        None leaves them as they are.

    Returns
    -------
    array of shape (n,)
        ``local % 86400 // 3600`` is the hour of the day.

    Examples
    --------
    >>> times = np.array([1_774_745_999.0, 1_774_746_000.0])
    >>> local_seconds(times, "Europe/Berlin").tolist()
    [1774749599.0, 1774753200.0]
    """
    if not len(time):
        return time
    changes = offset_changes(float(np.min(time)), float(np.max(time)), zone)
    since, offsets = np.asarray(changes, np.float64).T
    place = np.searchsorted(since, time, side="right") - 1
    return np.asarray(time + offsets[np.maximum(place, 0)])


# A row may be dated this much later than its file was changed: zones are not known.
AHEAD_S: Final = 86_400.0
# No plant writes rows this far ahead of its time.
FAR_S: Final = 10 * 365.25 * 86_400.0
# Rows of two passes of a clock collide within this share of a step. Where more rows
# than this go back in time, a table is in no order, and no clock went back.
_NEAR: Final = 0.5
_MOST_BACK: Final = 0.1


def is_ahead(time: Floats, changed: float) -> Bools:
    """Return which rows lie in the future of their file, and contradict its others.

    They are later than the file was changed, by more than `AHEAD_S`, while all others
    are not; and between the two lies more than that time without any row. Where all
    rows of a file are in its future, its own time is wrong, and none is returned.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds since 1970.
    changed : float
        When the file was changed last.

    Examples
    --------
    >>> is_ahead(np.array([0.0, 60.0, 4e9, 120.0]), 180.0).tolist()
    [False, False, True, False]
    """
    is_late = time > changed + AHEAD_S
    if not is_late.any() or is_late.all():
        return np.zeros(len(time), np.bool_)
    gap = time[is_late].min() - time[~is_late].max()
    return np.asarray(is_late & (gap > AHEAD_S))


@dataclass(frozen=True, kw_only=True, eq=False)
class TimeOrder:
    """The rows of a table in order of time, each stamp once.

    Parameters
    ----------
    rows : array of int
        The rows that are kept; of several with one stamp the last.
    is_doubtful : array of bool
        Which of them have a time that another row has as well, or nearly.
    n_twice : int
        Rows left out because a later one has the same stamp, none of them doubtful.
    is_sorted : bool
        Whether rows were in another order.
    """

    rows: Ints
    is_doubtful: Bools
    n_twice: int
    is_sorted: bool


def in_time_order(
    time: Floats, values: npt.NDArray[np.floating], step_s: float
) -> TimeOrder | None:
    """Return the rows of a table in order of time; None if they are, each stamp once.

    A clock that went back counts some time twice. Nothing says which rows of that time
    are right, so all are doubtful: those with a stamp that another row with other
    values has too, and those nearer than half a step to a row before the clock went
    back. Rows that are only in another order are not; nor are stamps that most rows
    share, as those without seconds.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds of each row, in the order of the table.
    values : array of shape (n_rows, n_tags)
        What they hold; nan where nothing.
    step_s : float
        The usual step.

    Examples
    --------
    >>> time = np.array([0.0, 10.0, 20.0, 30.0, 20.0, 30.0, 40.0])
    >>> order = in_time_order(time, np.arange(7.0)[:, None], 10.0)
    >>> order.rows.tolist(), order.is_doubtful.tolist()
    ([0, 1, 4, 5, 6], [False, False, True, True, False])
    """
    steps = np.diff(time)
    if (steps > 0).all():
        return None
    order = np.argsort(time, kind="stable")
    ordered = time[order]
    is_last = np.append(np.diff(ordered) > 0, True)
    stamp = np.append(0, np.cumsum(is_last[:-1]))
    is_same = ~is_last[:-1]
    differs = np.zeros(len(is_same), np.bool_)
    pairs = np.flatnonzero(is_same)
    one, other = values[order[pairs]], values[order[pairs + 1]]
    differs[pairs] = ~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1)
    if np.median(np.bincount(stamp)) > 1:
        differs[:] = False
    is_back = steps < 0
    if is_back.sum() <= _MOST_BACK * len(time):
        run = np.append(0, np.cumsum(is_back))[order]
        is_near = np.diff(ordered) <= _NEAR * step_s * (1 + 1e-9)
        differs |= is_near & ~is_same & (np.diff(run) != 0)
    doubtful = np.zeros(int(stamp[-1]) + 1, np.bool_)
    doubtful[stamp[:-1][differs]] = doubtful[stamp[1:][differs]] = True
    return TimeOrder(
        rows=np.asarray(order[is_last]),
        is_doubtful=doubtful,
        n_twice=int((~is_last & ~doubtful[stamp]).sum()),
        is_sorted=bool(is_back.any()),
    )
