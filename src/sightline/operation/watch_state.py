"""The state of a watch: one SQLite file, changed by one transaction a file read.

=============  ======================================================================
table          what it holds
=============  ======================================================================
``about``      the digests of rule and detector, the rules before them, whether time
               stamps are UTC, and how far log and hook have come
``files``      every file of the folder that was looked at: digest, time, what became
               of it
``runs``       first and last time of each continuous run of rows
``hours``      rows of each hour, and sums of residuals, of their squares, and counts
``unwatched``  time that was not watched, and why
``episodes``   alarms of the rule that have ended, as it counts them
``stretches``  stretches in alarm, also of what is out of service, that have ended
``live``       the rule's memory, the detector's last rows, the alarm that still runs
``alarms``     every alarm as it is now, a JSON object each
``changes``    the log: every change of an alarm, the text of its line
=============  ======================================================================
"""

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints
from sightline.data.validity import NotWatched, Unwatched
from sightline.data.zones import iso_stamp
from sightline.operation.alarms import AlarmChange, AlarmRecord, Happening, log_line
from sightline.operation.state_file import StateFile
from sightline.rules.making import MadeRule
from sightline.rules.promise import Ledger

# Minutes that are remembered, for pictures of alarms.
KEPT_MINUTES: Final = 8 * 24 * 60
# Less than any step between rows, in seconds.
_LEAST_S: Final = 1e-3
Arrays = dict[str, npt.NDArray[Any]]
# What is raised where a value of a table is not what was written.
DAMAGE: Final = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OverflowError,
    zipfile.BadZipFile,
    msgspec.MsgspecError,
)


F = TypeVar("F", bound=Callable[..., Any])


def _decoding(read: F) -> F:
    """Let a method that reads a table raise one sentence where a value is damaged."""

    @wraps(read)
    def reading(self: "WatchState", *args: Any, **options: Any) -> Any:
        with self.intact(*DAMAGE):
            return read(self, *args, **options)

    return cast(F, reading)


class Fate(StrEnum):
    """What became of a file.

    ``READ``
        Its rows were read.
    ``WAITING``
        It may still be written; it is looked at again.
    ``BROKEN``
        It cannot be read; it is tried again.
    ``LATE``
        All of its rows lie before the last row read: none was taken.
    """

    READ = "read"
    WAITING = "waiting"
    BROKEN = "broken"
    LATE = "late"


@dataclass(frozen=True, kw_only=True)
class SeenFile:
    """A file of the folder, as it was when it was looked at.

    Parameters
    ----------
    name : str
        Name within the folder.
    size, changed : int
        Bytes, and time of its last change in nanoseconds.
    digest : str
        SHA-256 of its bytes.
    fate : Fate
        What became of it.
    first, last : float, optional
        Time of its first and last row.
    rows : int
        Rows that were taken from it, also at earlier readings.
    note : str
        A sentence about it; empty if there is nothing to say.
    """

    name: str
    size: int
    changed: int
    digest: str
    fate: Fate
    first: float | None = None
    last: float | None = None
    rows: int = 0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class TimedAlarm:
    """One alarm, by the clock.

    Parameters
    ----------
    start, last : float
        Time of its first row, and of its last exceedance.
    rows : int
        Rows from the first to the last, both included.
    peak : float
        Largest value of the rule over its limit.
    member : str
        Member of the rule that was the largest at the peak.
    tags : tuple of str
        Leading tags, the first one leading at the peak.
    """

    start: float
    last: float
    rows: int
    peak: float
    member: str
    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AlarmWindow:
    """A stretch of rows in alarm, also of what is out of service meanwhile.

    Parameters
    ----------
    start, last : float
        Time of its first and last row.
    rows : int
        Rows from the first to the last.
    """

    start: float
    last: float
    rows: int


@dataclass(kw_only=True)
class OpenWindow:
    """A stretch that still goes on.

    Parameters
    ----------
    start, last : float
        Time of its first row, and of its last exceedance so far.
    age : int
        Rows since it began.
    rows : int
        Rows from the first to the last exceedance.
    over : float
        Time at which the off-delay had passed, once it has.
    """

    start: float
    last: float
    age: int = 0
    rows: int = 0
    over: float = 0.0

    def so_far(self) -> AlarmWindow:
        """Return it as it is now."""
        return AlarmWindow(start=self.start, last=self.last, rows=self.rows)


@dataclass(kw_only=True)
class OpenAlarm(OpenWindow):
    """An alarm that still runs.

    Parameters
    ----------
    start, last, age, rows, over
        See `OpenWindow`.
    peak : float
        Largest value of the rule so far.
    member : str
        Who was the largest then.
    at_peak : tuple of str
        Whose value it was.
    tags_at_peak : tuple of str
        Leading tags then, if it was the value of several.
    leading : dict of str to int
        How often each channel or stage was the largest, in order of appearance.
    told : tuple of str
        The leading tags that the log names so far.
    """

    peak: float = 0.0
    member: str = ""
    at_peak: tuple[str, ...] = ()
    tags_at_peak: tuple[str, ...] = ()
    leading: dict[str, int] = field(default_factory=dict)
    told: tuple[str, ...] = ()

    def as_alarm(self, limit: float, most: int) -> TimedAlarm:
        """Return it as it is now, with at most `most` tags, as `apply` names them."""
        order = sorted(
            self.leading, key=lambda n: (n not in self.at_peak, -self.leading[n])
        )
        return TimedAlarm(
            start=self.start,
            last=self.last,
            rows=self.rows,
            peak=self.peak / limit,
            member=self.member,
            tags=self.tags_at_peak or tuple(order[:most]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchMemory:
    """What is needed to go on with the next row.

    Parameters
    ----------
    arrays : dict of str to array
        Memory of the rule, and the detector's last rows.
    alarm : OpenAlarm, optional
        The alarm that runs.
    stretch : OpenWindow, optional
        The stretch that goes on.
    waiting : tuple of Happening
        What happened after the last row that the rule has judged.
    """

    arrays: Arrays = field(default_factory=dict)
    alarm: OpenAlarm | None = None
    stretch: OpenWindow | None = None
    waiting: tuple[Happening, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Hours:
    """Rows hour by hour.

    Parameters
    ----------
    hour : array of int, shape (n,)
        Hours since 1970, ascending.
    rows : array of int, shape (n,)
        Rows in each.
    sums : array of shape (n, 3, p)
        Sum of the residuals of each channel, of their squares, and how many there are.
    """

    hour: Ints
    rows: Ints
    sums: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Minutes:
    """The last row of each minute, in the plant's units where they are known.

    Parameters
    ----------
    time : array of shape (n,)
        Seconds since 1970, ascending.
    measured, expected : array of shape (n, p)
        What the plant measured, and what the detector expected; nan where unknown.
    """

    time: Floats
    measured: Floats
    expected: Floats


class WatchState(StateFile):
    """The SQLite file of a watch.

    Parameters
    ----------
    path : Path
        The file; it is made if it does not exist.
    n_channels : int
        Channels of the rule.

    Raises
    ------
    FileError
        If the file is no state, or was written by a newer version.
    """

    def __init__(self, path: Path, n_channels: int = 0) -> None:
        super().__init__(path)
        self.n_channels = n_channels

    # --- What it was made for ---------------------------------------------------------

    @_decoding
    def about(self) -> dict[str, str]:
        """Return what the state was made for, by key."""
        return dict(
            self.read("SELECT key, value FROM about WHERE key != 'digest'").fetchall()
        )

    def set_about(self, values: Mapping[str, str]) -> None:
        """Write what the state was made for."""
        for key, value in values.items():
            self.put("about", (key, value))

    @_decoding
    def rule_since(self) -> float:
        """Return the last time before this rule began; minus infinity for the first."""
        rules = json.loads(self.about().get("rules", "[]"))
        since = rules[-1]["since"] if len(rules) > 1 else None
        return -np.inf if since is None else float(since)

    @_decoding
    def ledger(self, made: MadeRule) -> Ledger:
        """Return the promise in force; before the first, that of the rule.

        It begins with the next row. One that an earlier version began at a full hour
        has the rows since then.
        """
        text = self.about().get("ledger")
        if not text:
            runs = self.runs()
            last = float(runs[-1, 1]) if len(runs) else 0.0
            return Ledger(promise=made.promise, begins=last)
        ledger = msgspec.json.decode(text, type=Ledger)
        if ledger.rows or ledger.stood is not None:
            return ledger
        n = int(self.hours(int(ledger.begins // 3600)).rows.sum())
        return replace(ledger, rows=n)

    def put_ledger(self, ledger: Ledger) -> None:
        """Write the promise in force."""
        self.set_about({"ledger": msgspec.json.encode(ledger).decode()})

    def begin_rule(self) -> None:
        """Forget residuals and promise of the rule before: a new one has others."""
        self.set_about({"ledger": ""})
        nothing = np.zeros((3, self.n_channels), "<f8").tobytes()
        for hour, rows in self.read("SELECT hour, rows FROM hours").fetchall():
            self.put("hours", (hour, rows, nothing))
        self.with_minutes()
        self.delete("minutes", "1")

    # --- Files ------------------------------------------------------------------------

    @_decoding
    def files(self) -> dict[str, SeenFile]:
        """Return the files that were looked at, by name."""
        rows = self.read(
            "SELECT name, size, changed, digest, fate, first, last, rows, note "
            "FROM files ORDER BY name"
        )
        names = [column[0] for column in rows.description]
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return {row["name"]: msgspec.convert(row, SeenFile) for row in found}

    def put_file(self, file: SeenFile) -> None:
        """Write what became of a file."""
        self.put("files", tuple(asdict(file).values()))

    # --- Rows -------------------------------------------------------------------------

    @_decoding
    def runs(self) -> Floats:
        """Return first and last time of each continuous run, shape (n, 2)."""
        rows = self.read("SELECT first, last FROM runs ORDER BY first")
        return np.array(rows.fetchall(), np.float64).reshape(-1, 2)

    def put_run(self, first: float, last: float) -> None:
        """Write a run, or that it has grown."""
        self.put("runs", (first, last))

    @_decoding
    def hours(self, since: int = 0) -> Hours:
        """Return the rows of each hour from an hour on."""
        rows = self.read(
            "SELECT hour, rows, sums FROM hours WHERE hour >= ? ORDER BY hour", (since,)
        ).fetchall()
        return Hours(
            hour=np.array([row[0] for row in rows], np.int64),
            rows=np.array([row[1] for row in rows], np.int64),
            sums=np.array([self._sums(row[2], row[1]) for row in rows]).reshape(
                -1, 3, self.n_channels
            ),
        )

    def _sums(self, blob: bytes, n_rows: int) -> Floats:
        sums = np.frombuffer(blob, "<f8").reshape(-1, self.n_channels)
        # States of earlier versions have no counts: every row had every residual.
        counts = np.full((3 - len(sums), self.n_channels), float(n_rows))
        return np.concatenate([sums, counts])

    @_decoding
    def add_hour(self, hour: int, rows: Floats) -> None:
        """Add rows of one hour.

        Sums grow row by row, so that they do not depend on how rows were cut into
        files.
        """
        known = self.read(
            "SELECT rows, sums FROM hours WHERE hour = ?", (hour,)
        ).fetchone()
        n = 0 if known is None else known[0]
        sums = np.zeros((3, self.n_channels))
        if known is not None:
            sums = self._sums(known[1], n)
        is_number = ~np.isnan(rows)
        numbers = np.where(is_number, rows, 0.0)
        added = np.stack([numbers, np.square(numbers), is_number], axis=1)
        sums = np.cumsum(np.concatenate([sums[None], added]), axis=0)[-1]
        self.put("hours", (hour, n + len(rows), sums.astype("<f8").tobytes()))

    @_decoding
    def put_minutes(self, time: Floats, measured: Floats, expected: Floats) -> None:
        """Write the last row of each minute; forget those older than `KEPT_MINUTES`."""
        if not len(time):
            return
        self.with_minutes()
        minute = np.floor(time / 60).astype(np.int64)
        last = np.flatnonzero(np.diff(minute, append=minute[-1] + 1))
        both = np.stack([measured[last], expected[last]], axis=1)
        bound = np.finfo(np.float32).max
        both = np.clip(both, -bound, bound).astype("<f4")
        for row, pair in zip(last.tolist(), both, strict=True):
            self.put("minutes", (int(minute[row]), float(time[row]), pair.tobytes()))
        newest = self.read("SELECT max(minute) FROM minutes").fetchone()[0]
        self.delete("minutes", "minute < ?", (newest - KEPT_MINUTES,))

    @_decoding
    def minutes(self, begin: float, end: float) -> Minutes:
        """Return the last row of each minute within some time; none in older states."""
        has_any = self.read("PRAGMA table_info(minutes)").fetchall()
        rows = (
            self.read(
                "SELECT time, pair FROM minutes WHERE time >= ? AND time <= ? "
                "ORDER BY minute",
                (begin, end),
            ).fetchall()
            if has_any
            else []
        )
        pairs = np.array([np.frombuffer(pair, "<f4") for _, pair in rows], np.float64)
        pairs = pairs.reshape(len(rows), 2, -1 if len(rows) else self.n_channels)
        time = np.array([at for at, _ in rows], np.float64)
        return Minutes(time=time, measured=pairs[:, 0], expected=pairs[:, 1])

    @_decoding
    def unwatched(self, since: float = -np.inf) -> list[Unwatched]:
        """Return the time that was not watched and ends after a time, in order."""
        rows = self.read(
            "SELECT start, end, reason FROM unwatched WHERE end > ? ORDER BY start",
            (max(since, -1e300),),
        )
        return [
            Unwatched(float(start), float(end), NotWatched(why))
            for start, end, why in rows
        ]

    def add_unwatched(self, span: Unwatched, step_s: float) -> None:
        """Write time that was not watched; what goes on from the last span joins it."""
        last = self.read(
            "SELECT start, end, reason FROM unwatched ORDER BY start DESC LIMIT 1"
        ).fetchone()
        start = span.start
        if last and last[2] == span.reason and abs(last[1] - start) < 0.5 * step_s:
            start = last[0]
        self.put("unwatched", (start, span.end, str(span.reason)))

    def forget_after(self, time: float) -> None:
        """Remove what was read of rows from a time on, within a transaction.

        Memory and promise begin with the next row; files with such rows, and those
        that came too late, count as new. The log stays.

        Parameters
        ----------
        time : float
            A full hour: rows are counted by the hour.
        """
        for first, last in self.runs().tolist():
            if first < time <= last:
                self.put_run(first, time - _LEAST_S)
        self.delete("runs", "first >= ?", (time,))
        self.delete("hours", "hour >= ?", (time // 3600,))
        for table in ("unwatched", "episodes", "stretches"):
            self.delete(table, "start >= ?", (time,))
        self.with_minutes()
        self.delete("minutes", "time >= ?", (time,))
        self.delete("files", "last >= ? OR fate = ?", (time, str(Fate.LATE)))
        self.put_live(WatchMemory())
        self.set_about({"ledger": ""})

    # --- Alarms as they are, and the log ----------------------------------------------

    @_decoding
    def alarms(self, *, since: float = -np.inf) -> list[AlarmRecord]:
        """Return the alarms that are open, or were after a time, in order of start."""
        rows = self.read(
            "SELECT alarm FROM alarms WHERE is_open OR last >= ?", (max(since, -1e300),)
        )
        found = [msgspec.json.decode(text, type=AlarmRecord) for (text,) in rows]
        return sorted(found, key=lambda one: (one.start, one.id))

    def open_alarms(self) -> list[AlarmRecord]:
        """Return the alarms that run or are shelved."""
        return self.alarms(since=np.inf)

    def n_changes(self) -> int:
        """Return the number of the last line of the log."""
        return int(self.read("SELECT count(*) FROM changes").fetchone()[0])

    def lines(self, after: int = 0) -> list[str]:
        """Return the lines of the log after some, in order."""
        rows = self.read(
            "SELECT line FROM changes WHERE seq > ? ORDER BY seq", (after,)
        )
        return [str(line) for (line,) in rows]

    def put_changes(
        self, changes: Sequence[AlarmChange], zone: str | None, now: float
    ) -> None:
        """Write what happened to alarms, and how they are now."""
        written = iso_stamp(now, "UTC")
        for seq, change in enumerate(changes, start=self.n_changes() + 1):
            line = log_line(change, seq, written, zone)
            text = json.dumps(line, ensure_ascii=False)
            self.put("changes", (seq, text))
            alarm = change.alarm
            is_open = alarm.is_running or alarm.until is not None
            last = alarm.start if alarm.end is None else alarm.end
            stated = msgspec.json.encode(alarm).decode()
            self.put("alarms", (alarm.id, is_open, last, stated))

    # --- Alarms as the rule counts them -----------------------------------------------

    @_decoding
    def episodes(self, since: float = -np.inf) -> list[TimedAlarm]:
        """Return the alarms that have ended, in order; those that last beyond a time.

        Parameters
        ----------
        since : float
            Alarms with a last exceedance before it are left out.
        """
        rows = self.read(
            "SELECT start, last, rows, peak, member, tags FROM episodes "
            "WHERE last >= ? ORDER BY id",
            (max(since, -1e300),),
        )
        return [
            TimedAlarm(
                start=float(start),
                last=float(last),
                rows=int(n),
                peak=float(peak),
                member=str(member),
                tags=msgspec.json.decode(tags, type=tuple[str, ...]),
            )
            for start, last, n, peak, member, tags in rows
        ]

    def add_episode(self, alarm: TimedAlarm) -> None:
        """Write an alarm that has ended."""
        tags = json.dumps(alarm.tags)
        values = alarm.start, alarm.last, alarm.rows, alarm.peak, alarm.member, tags
        self.put("episodes", (None, *values))

    @_decoding
    def stretches(self, since: float = -np.inf) -> list[AlarmWindow]:
        """Return the stretches that have ended and last beyond a time, in order."""
        rows = self.read(
            "SELECT start, last, rows FROM stretches WHERE last >= ? ORDER BY start",
            (max(since, -1e300),),
        )
        return [
            AlarmWindow(start=float(start), last=float(last), rows=int(n))
            for start, last, n in rows
        ]

    def add_stretch(self, one: AlarmWindow) -> None:
        """Write a stretch that has ended."""
        self.put("stretches", (one.start, one.last, one.rows))

    @_decoding
    def live(self) -> WatchMemory:
        """Return what `put_live` wrote last, to the last bit."""
        row = self.read("SELECT * FROM live").fetchone()
        if row is None:
            return WatchMemory()
        with np.load(io.BytesIO(row[1]), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        alarm, stretch, *rest = (msgspec.json.decode(text) for text in row[2:])
        return WatchMemory(
            arrays=arrays,
            alarm=msgspec.convert(alarm, OpenAlarm | None),
            stretch=msgspec.convert(stretch, OpenWindow | None),
            waiting=msgspec.convert(rest[0] if rest else (), tuple[Happening, ...]),
        )

    def put_live(self, live: WatchMemory) -> None:
        """Write what is needed to go on with the next row."""
        buffer = io.BytesIO()
        np.savez(buffer, **live.arrays)  # type: ignore[arg-type]
        rest = live.alarm, live.stretch, live.waiting
        parts = (msgspec.json.encode(part) for part in rest)
        self.put("live", (1, buffer.getvalue(), *(part.decode() for part in parts)))
