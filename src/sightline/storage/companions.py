"""Files that come with a stream: alarms, score, attacks, an alarm log, telemetry.

What a file holds is matched to the rows of the stream by time if it has time stamps,
else row by row; what cannot be matched is refused, and nothing is filled in.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    NORMAL,
    Floats,
    Ints,
    check_alarms,
)
from sightline.data.row_tables import ArrayRows, KeptRows, Rows
from sightline.data.segments import (
    GAP_FACTOR,
    labelled,
    rows_within,
)
from sightline.data.stream import NO_LABELS, NORMAL_KEY, ResidualStream
from sightline.data.stream_input import (
    MOST_NAMES,
    TableColumns,
    is_called,
    is_time_name,
    matrix_of,
    seconds_of,
    zone_in_text,
)
from sightline.data.zones import iso_stamp, stamp
from sightline.errors import FileError, StreamError, naming
from sightline.files import reading, staged_file
from sightline.rules.episodes import Episode
from sightline.storage.frames import check_table_file, is_parquet, read_numbers
from sightline.storage.parquet import columns_of, open_rows, read_column
from sightline.tables.lists import (
    EpisodeDecision,
    IncidentList,
    decision_of,
    list_rows,
    read_incidents,
)
from sightline.tables.stamps import iso_dates, seconds_of_cell
from sightline.tables.text_tables import read_table
from sightline.text import csv_cell, names, plural

# Time stamps that differ by less are the same: floats do not hold all times exactly.
_SAME_S = 1e-3
# Names of the columns of an alarm log, the preferred one first.
_STARTS = ("start", "begin", "from", "raised", "active", "time", "timestamp")
_ENDS = ("end", "to", "cleared", "returned", "inactive")


def columns_and_files(
    given: Mapping[str, object], columns: Sequence[str], test: Path
) -> tuple[dict[str, str], dict[str, Path]]:
    """Return which options name a column of the test table, and which a file.

    Parameters
    ----------
    given : mapping
        By option (``"alarms"``, ``"score"``): a column, a path, or values, which are in
        neither answer. A column wins over a file of the same name.
    columns : sequence of str
        The columns of the test table.
    test : Path
        The test table, for messages.

    Raises
    ------
    FileError
        If a text is neither.
    """
    named: dict[str, str] = {}
    files: dict[str, Path] = {}
    for option, value in given.items():
        if isinstance(value, str) and value in columns:
            named[option] = value
        elif isinstance(value, str | Path):
            files[option] = Path(value)
            if not files[option].is_file():
                raise FileError(
                    f"--{option} {value}: is neither a column of {test} (it has "
                    f"{names(columns, MOST_NAMES, quoted=True)}) nor a file."
                )
    return named, files


def join_files(
    stream: ResidualStream,
    *,
    alarms: str | Path | None = None,
    score: str | Path | None = None,
    alarm_log: str | Path | None = None,
    attacks: str | Path | None = None,
    time_format: str | None = None,
) -> ResidualStream:
    """Return a stream with the alarms, score and attacks of some files.

    Parameters
    ----------
    stream : ResidualStream
        The stream.
    alarms, score : path, optional
        Tables with one value for each test row, or with time stamps and values.
    alarm_log : path, optional
        List of alarms: start, end, tag, text. A row is in alarm from the row in which
        an alarm starts to the one in which it ends; an alarm without end counts in the
        row in which it starts.
    attacks : path, optional
        List of attacks in times or rows, as the argument of `read_tables`.
    time_format : str, optional
        The format of times in these files, where it cannot be found.

    Raises
    ------
    FileError
        If a file cannot be read, or does not fit to the rows of the stream.
    """
    if alarms is not None and alarm_log is not None:
        raise StreamError("Give the alarms either with --alarms or with --alarm-log.")
    if alarms is not None:
        path = Path(alarms)
        with naming(path):
            codes = check_alarms(_series(path, "alarms", stream, time_format))
        stream = stream.replace(alarms=codes)
    if score is not None:
        values = _series(Path(score), "score", stream, time_format)
        stream = stream.replace(score=values)
    if alarm_log is not None:
        path = Path(alarm_log)
        stream = _with_alarm_log(stream, ListTimes(path, stream, time_format))
    if attacks is None:
        return stream
    return _with_attacks(stream, ListTimes(Path(attacks), stream, time_format))


def _series(
    path: Path, kind: str, stream: ResidualStream, time_format: str | None
) -> npt.NDArray[Any]:
    """Return the values of a file, one for each test row."""
    check_table_file(path)
    bare, n_rows = _bare_numbers(path), stream.test.n_rows
    if bare is not None and bare.ndim == 1 and 0 <= len(bare) - n_rows <= 1:
        return bare[len(bare) - n_rows :]
    if path.suffix.lower() == ".npy":
        raise FileError(
            f"{path}: must hold one number for each of the {plural(n_rows, 'test row')}"
            ", as numpy.save writes them."
        )
    table = read_table(path)
    listed = table.frame.columns
    clocks = [column for column in listed if is_time_name(column)]
    values = [column for column in listed if column not in clocks]
    if len(values) > 1:
        values = [column for column in values if is_called(column, kind)]
    if len(values) != 1 or len(clocks) > 1:
        raise FileError(
            f"{path}: must have one column of values, called {kind!r} if there are "
            "others, and may have one of time stamps; it has "
            f"{names(listed, MOST_NAMES, quoted=True)}."
        )
    table = replace(table, frame=table.frame.select([*clocks, *values]))
    columns = TableColumns(
        time=clocks[0] if clocks else None,
        alarms=values[0] if kind == "alarms" else None,
    )
    frame = read_numbers(table, columns, time_format).frame
    series = frame[values[0]].to_numpy()
    if not clocks:
        if len(series) != n_rows:
            raise FileError(
                f"{path}: must have one value for each of the "
                f"{plural(n_rows, 'test row')}; it has {len(series):,}: "
                "add a column of time stamps if it has other rows."
            )
        return np.asarray(series)
    if stream.test_time is None:
        raise FileError(
            f"{path}: has time stamps and the stream has none: name the time column of "
            "the tables with --time, or leave the time stamps out."
        )
    clock = seconds_of(frame[clocks[0]].to_numpy(), clocks[0])
    return np.asarray(series[_rows_at(stream.test_time, clock, path, stream)])


def _bare_numbers(path: Path) -> Floats | None:
    """Return the numbers of a file of nothing else, as `numpy.save` or `savetxt` write.

    None for other files.
    """
    if is_parquet(path):
        return None
    try:
        with reading(path):
            if path.suffix.lower() != ".npy":
                return np.loadtxt(path, ndmin=1, dtype=np.float64)
            return np.asarray(np.load(path, allow_pickle=False), np.float64).ravel()
    except (ValueError, EOFError, TypeError, UnicodeDecodeError):
        return None


def _rows_at(wanted: Floats, clock: Floats, path: Path, stream: ResidualStream) -> Ints:
    """Return the row of a file for each time stamp; refuse one that has none.

    Of several rows with one time stamp the last counts.
    """
    order = np.argsort(clock, kind="stable")
    place = np.searchsorted(clock[order], wanted + _SAME_S, side="right") - 1
    is_missing = (place < 0) | (wanted - clock[order[place]] > _SAME_S)
    if is_missing.any():
        first = stamp(float(wanted[is_missing.argmax()]), stream.timezone)
        raise FileError(
            f"{path}: has no row for {int(is_missing.sum()):,} of "
            f"{plural(len(wanted), 'row')} of the stream, the first at {first}: check "
            "that both have the same clock and step."
        )
    return np.asarray(order[place])


class ListTimes:
    """Reads the times of a list: dates, seconds, or rows of the stream.

    Parameters
    ----------
    path : Path
        The list, for messages.
    stream : ResidualStream
        The stream whose clock they are on.
    time_format : str, optional
        The format of dates, where it cannot be found.
    """

    def __init__(
        self, path: Path, stream: ResidualStream, time_format: str | None
    ) -> None:
        self.path, self.stream, self.time_format = path, stream, time_format
        self.are_numbers: bool | None = None

    def __call__(self, cell: str, name: str, line: int) -> float:
        """Return one cell as seconds, or as the number that it is."""
        where = f"{self.path}: line {line}"
        try:
            value, is_number = float(cell), True
        except ValueError:
            read = seconds_of_cell(
                cell, name, line, path=self.path, time_format=self.time_format
            )
            value, is_number = read[0], False
        if not np.isfinite(value):
            raise FileError(f"{where}: {name} must be a time; it is {cell!r}.")
        if self.are_numbers is not None and self.are_numbers != is_number:
            raise FileError(
                f"{where}: has a number where other lines have dates, or the other way "
                "round: write all of them as dates, or all as rows."
            )
        self.are_numbers = is_number
        if is_number:
            return value
        has_zone = zone_in_text([cell]) is not None
        if has_zone != (self.stream.timezone is not None):
            sides = ("the list", "the stream")
            first, second = sides if has_zone else sides[::-1]
            raise FileError(
                f"{where}: time stamps of {first} carry an offset from UTC, those of "
                f"{second} do not: write both in the same way."
            )
        return value

    def are_rows(self, spans: Sequence[tuple[float, float]]) -> bool:
        """Return whether the spans are rows of the stream.

        Numbers are rows if the stream has no time, or they lie within its rows and not
        within its time.

        Raises
        ------
        FileError
            If dates are given and the stream has no time stamps.
        """
        time, n_rows = self.stream.test_time, self.stream.test.n_rows
        if not self.are_numbers:
            if time is None:
                raise FileError(
                    f"{self.path}: lists times and the stream has no time stamps: name "
                    "the time column of the tables with --time, or list rows."
                )
            return False
        if time is None:
            return True
        # An incident without an end counts by its start.
        ends = [(s, s if np.isinf(e) else e) for s, e in spans]
        is_timed = any(start <= time[-1] and end >= time[0] for start, end in ends)
        return not is_timed and all(0 <= s <= e < n_rows for s, e in ends)


def _with_attacks(stream: ResidualStream, times: ListTimes) -> ResidualStream:
    """Return a stream with what a list says of its rows.

    Attacks of a plain list give their names to labelled rows, and mark rows where none
    is labelled an attack. Those of a reviewed list of episodes are added to what is
    labelled; episodes that are not known are ignored, and normal ones are remembered.
    """
    path = times.path
    check_table_file(path)
    listed = read_incidents(path, times, has_format=times.time_format is not None)
    incidents, is_review = listed.incidents, listed.is_review
    if not incidents and not listed.normal:
        raise FileError(
            f"{path}: no row is decided 'incident' or 'normal': decide what is known."
            if is_review
            else f"{path}: lists no attack; leave the list out."
        )
    notices = [*listed.notices]
    clock = stream.test_time
    spans = [*(i.listed for i in incidents), *listed.normal, *listed.unknown]
    if times.are_rows(spans) or clock is None:
        clock = np.arange(stream.test.n_rows, dtype=np.float64)
        step_s = stream.step_s
        uncertain = [one.id for one in incidents if one.uncertainty_s]
        if uncertain and step_s is None:
            raise FileError(
                f"{path}: attack {uncertain[0]!r} has an uncertainty in minutes, and "
                "the step of the stream is unknown: give it with --step."
            )
        incidents = tuple(
            replace(one, uncertainty_s=one.uncertainty_s / (step_s or 1.0))
            for one in incidents
        )
        notices.append(
            f"{path.name}: start and end are rows of test, counted from 0, both "
            "included."
        )
    absent = [i.id for i in incidents if not rows_within(clock, i.listed).any()]
    if not any(rows_within(clock, span).any() for span in spans):
        span = f"rows 0 to {len(clock) - 1:,}"
        what = "episode" if is_review else "attack"
        if stream.test_time is not None:
            first, last = (
                stamp(float(t), stream.timezone) for t in stream.test_time[[0, -1]]
            )
            span = f"from {first} to {last}"
        raise FileError(
            f"{path}: none of its {plural(len(spans), what)} has a test row "
            f"({span}): check that both have the same clock."
        )
    if absent:
        notices.append(
            f"{path.name}: attacks without a test row: {names(absent, MOST_NAMES)}."
        )
    joined = _labelled(stream, clock, listed._replace(incidents=incidents), path)
    return joined.replace(notices=(*joined.notices, *notices))


def _labelled(
    stream: ResidualStream, clock: Floats, listed: IncidentList, path: Path
) -> ResidualStream:
    """Return a stream with a list as labels; times are on its clock, or rows."""
    given, meta = stream.labels, stream.meta
    is_free = NO_LABELS in stream.notices or not (given == ATTACK).any()
    decide = None if listed.is_review or is_free else given
    labels, attacks = labelled(clock, decide, listed.incidents)
    labels = np.where((labels != ATTACK) & (given != NORMAL), given, labels)
    if listed.is_review:
        is_unknown = np.zeros(len(clock), np.bool_)
        for episode in listed.unknown:
            is_unknown |= rows_within(clock, episode)
        labels[is_unknown & (labels == NORMAL)] = IGNORED
        # By the clock of the stream, so that they stay with their rows.
        last = float(clock[-1])
        spans = [[float(s), min(float(e), last)] for s, e in listed.normal]
        meta, attacks = {**meta, NORMAL_KEY: spans}, (*stream.segments, *attacks)
    with naming(path):
        return stream.replace(labels=labels, segments=attacks, meta=meta)


def _with_alarm_log(stream: ResidualStream, read_time: ListTimes) -> ResidualStream:
    """Return a stream whose alarms are those of a list, by time."""
    path, time = read_time.path, stream.test_time
    if time is None:
        raise FileError(
            f"{path}: an alarm log is matched by time and the stream has no time "
            "stamps: name the time column of the tables with --time."
        )
    check_table_file(path)
    rows = list_rows(path, [])
    if not rows:
        raise FileError(f"{path}: lists no alarm; leave --alarm-log out.")
    has = list(next(iter(rows.values())))
    begin = next((name for name in _STARTS if name in has), None)
    end = next((name for name in _ENDS if name in has), None)
    if begin is None:
        raise FileError(
            f"{path}: needs a column 'start' (and 'end') with the times of the alarms; "
            f"it has {names(has, MOST_NAMES, quoted=True)}."
        )
    alarms = np.zeros(len(time), np.int8)
    longest_s = np.inf if stream.step_s is None else GAP_FACTOR * stream.step_s
    n_outside = n_open = 0
    for line, row in rows.items():
        first_s = last_s = read_time(row[begin], begin, line)
        if end is not None and row[end]:
            last_s = read_time(row[end], end, line)
        else:
            n_open += 1
        if last_s < first_s:
            raise FileError(f"{path}: line {line}: the alarm ends before it starts.")
        # A row lasts until the next one; after the last before a gap, for one step.
        first = int(np.searchsorted(time, first_s + _SAME_S, side="right")) - 1
        if first < 0 or first_s - time[first] >= longest_s:
            first += 1
        stop = int(np.searchsorted(time, last_s + _SAME_S, side="right"))
        alarms[first:stop] = 1
        n_outside += first >= stop
    if n_outside == len(rows):
        raise FileError(
            f"{path}: none of its {plural(len(rows), 'alarm')} lies within test, from "
            f"{stamp(time[0], stream.timezone)} to {stamp(time[-1], stream.timezone)}: "
            "check that both have the same clock."
        )
    notices = [
        f"{path.name}: {plural(len(rows), 'alarm')}, {n_outside:,} of them outside of "
        f"test; {int(alarms.sum()):,} of {plural(len(alarms), 'test row')} are in "
        "alarm."
    ]
    if n_open:
        notices.append(
            f"{path.name}: {plural(n_open, 'alarm')} without an end: counted in the "
            "row of the start alone."
        )
    joined = stream.replace(alarms=alarms)
    return joined.replace(notices=(*joined.notices, *notices))


def join_telemetry(
    stream: ResidualStream,
    train: object,
    test: object,
    columns: TableColumns,
    time_format: str | None = None,
) -> ResidualStream:
    """Return a stream with the plant's measurements.

    Parameters
    ----------
    stream : ResidualStream
        The stream.
    train, test : path or array, optional
        The measurements: tables with the column of time stamps that the residuals
        have, from which the rows of the residuals are taken; or tables and arrays with
        the same number of rows.
    columns : TableColumns
        The columns of the tables that are no measurements.
    time_format : str, optional
        The format of time stamps, where it cannot be found.

    Raises
    ------
    FileError, StreamError
        If a table cannot be read, or lacks rows of the residuals.
    """
    if train is None and test is None:
        return stream
    known: dict[str, object] = {"telemetry_train": train, "telemetry_test": test}
    channels: Sequence[str] | None = None
    for name, time, n_rows in (
        ("telemetry_train", stream.train_time, stream.train.n_rows),
        ("telemetry_test", stream.test_time, stream.test.n_rows),
    ):
        path = known[name]
        if not isinstance(path, str | Path):
            continue
        path = Path(path)
        rows, tags, clock = _measurements(path, columns, channels, time_format)
        channels = channels or tags
        if clock is not None and time is not None:
            rows = _taken(rows, _rows_at(time, clock, path, stream), path)
        elif rows.n_rows != n_rows:
            raise FileError(
                f"{path}: must have the {plural(n_rows, 'row')} of its residuals; it "
                f"has {rows.n_rows:,}: name a column of time stamps that both have "
                "with --time, to match them by time."
            )
        known[name] = rows
    return stream.replace(telemetry_channels=channels, **known)


def _measurements(
    path: Path,
    columns: TableColumns,
    channels: Sequence[str] | None,
    time_format: str | None,
) -> tuple[Rows, Sequence[str], Floats | None]:
    """Return the rows of a table of measurements, its tags, and its time if it has it.

    The tags of a second table are put into the order of the first, `channels`.
    """
    check_table_file(path)
    frame = None
    if not is_parquet(path):
        frame = read_numbers(read_table(path), columns, time_format).frame
    has = columns_of([path]) if frame is None else frame.columns
    with naming(path):
        tags = columns.residuals(has, "telemetry")
    if channels is not None and sorted(tags) != sorted(channels):
        differing = sorted(set(tags) ^ set(channels))
        raise FileError(
            f"{path}: must have the tags of the telemetry of train; only one of the "
            f"two has {names(differing, MOST_NAMES, quoted=True)}."
        )
    tags = list(channels or tags)
    clock: Floats | None = None
    if columns.time in has and columns.time is not None:
        with naming(path):
            clock = seconds_of(
                read_column([path], columns.time, has)
                if frame is None
                else frame[columns.time].to_numpy(),
                columns.time,
            )
    if frame is None:
        return open_rows([path], tags), tags, clock
    with naming(path):
        return ArrayRows(matrix_of(frame, tags, "telemetry")), tags, clock


def _taken(rows: Rows, numbers: Ints, path: Path) -> Rows:
    """Return the numbered rows of a table, which must come in order."""
    if isinstance(rows, ArrayRows):
        return ArrayRows(rows.values[numbers])
    if len(numbers) == rows.n_rows and (numbers == np.arange(rows.n_rows)).all():
        return rows
    if (np.diff(numbers) <= 0).any():
        raise FileError(f"{path}: its rows must be in the order of time: sort them.")
    keep = np.zeros(rows.n_rows, np.bool_)
    keep[numbers] = True
    return KeptRows(rows, keep)


COLUMNS: Final = ("start", "end", "peak", "tags", "decision", "note")


@dataclass(frozen=True, kw_only=True)
class ReviewRow:
    """One row of a review list.

    Parameters
    ----------
    cells : dict
        Its cells by column.
    span : (start, end)
        Both in seconds, or in rows of a test without time stamps; both included.
    decision : EpisodeDecision
        What was decided; unknown as long as nothing was.
    """

    cells: dict[str, str]
    span: tuple[float, float]
    decision: EpisodeDecision

    @property
    def is_reviewed(self) -> bool:
        """Whether somebody has decided or noted something."""
        return self.decision is not EpisodeDecision.UNKNOWN or bool(
            self.cells["note"].strip()
        )


def write_review_list(
    episodes: Iterable[Episode], stream: ResidualStream, path: str | Path
) -> list[ReviewRow]:
    """Write episodes for review, and keep what an earlier list has decided.

    Parameters
    ----------
    episodes : iterable of Episode
        As `find_episodes` returns them.
    stream : ResidualStream
        The stream they were found in; its clock and zone.
    path : path
        The list, CSV. If it exists, rows with a decision or a note stay as they are,
        and episodes that overlap one of them are not listed again.

    Returns
    -------
    list of ReviewRow
        The rows written, in the order of time.

    Raises
    ------
    FileError
        If the file exists and is no review list, or a cell of it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> stream = ResidualStream(np.zeros((9, 1)), np.zeros((9, 1)))
    >>> episode = Episode(start=2, stop=5, peak=3.21, tags=("LIT101",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = write_review_list([episode], stream, f"{folder}/review.csv")
    >>> rows[0].cells["start"], rows[0].cells["end"], rows[0].cells["peak"]
    ('2', '4', '3.2')
    """
    path = Path(path)
    if path.suffix.lower() != ".csv":
        raise FileError(f"{path}: a review list is CSV: name it like review.csv.")
    reviewed, columns = [], list(COLUMNS)
    if path.exists():
        earlier = read_review_list(path, stream)
        reviewed = [row for row in earlier if row.is_reviewed]
        columns += [c for row in reviewed for c in row.cells if c not in columns]
    columns = list(dict.fromkeys(columns))
    rows = [*reviewed]
    for row in (_row(episode, stream) for episode in episodes):
        # Times in the list are whole seconds.
        first, last = np.floor(row.span[0]), np.ceil(row.span[1])
        if not any(r.span[0] <= last and r.span[1] >= first for r in reviewed):
            rows.append(row)
    rows.sort(key=lambda row: row.span)
    with (
        staged_file(path) as partial,
        open(
            partial, "w", newline="", encoding="utf-8", errors="backslashreplace"
        ) as file,
    ):
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: csv_cell(cell) for name, cell in row.cells.items()})
    return rows


def read_review_list(path: str | Path, stream: ResidualStream) -> list[ReviewRow]:
    """Return the rows of a review list.

    Parameters
    ----------
    path : path
        The list.
    stream : ResidualStream
        The stream whose episodes it lists.

    Raises
    ------
    FileError
        If it is no review list, or a time or a decision cannot be read; the message
        names the line.
    """
    path = Path(path)
    read_time = ListTimes(path, stream, None)
    rows = list_rows(path, ["start", "end", "decision"])
    moments = iso_dates([row[name] for row in rows.values() for name in COLUMNS[:2]])
    found = []
    for k, (line, cells) in enumerate(rows.items()):
        start, end = (
            read_time(moment, name, line)
            for moment, name in zip(
                moments[2 * k : 2 * k + 2], COLUMNS[:2], strict=True
            )
        )
        if end < start:
            raise FileError(
                f"{path}: line {line}: the episode ends before it starts; check start "
                "and end."
            )
        cells = dict.fromkeys(COLUMNS, "") | cells
        decision = decision_of(cells, path, line)
        found.append(ReviewRow(cells=cells, span=(start, end), decision=decision))
    return found


def _row(episode: Episode, stream: ResidualStream) -> ReviewRow:
    """Return an episode as a row that is not reviewed yet."""
    time, rows = stream.test_time, (episode.start, episode.stop - 1)
    if time is None:
        span = (float(rows[0]), float(rows[1]))
        moments = [str(row) for row in rows]
    else:
        span = (float(time[rows[0]]), float(time[rows[1]]))
        moments = [iso_stamp(at, stream.timezone) for at in span]
    cells = {
        "start": moments[0],
        "end": moments[1],
        "peak": f"{episode.peak:.2g}" if episode.peak < 100 else f"{episode.peak:.0f}",
        "tags": "; ".join(episode.tags),
        "decision": EpisodeDecision.UNKNOWN.value,
        "note": "",
    }
    return ReviewRow(cells=cells, span=span, decision=EpisodeDecision.UNKNOWN)
