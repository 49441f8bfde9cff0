"""Open one table of your own plant: its columns, its time stamps and its text.

A table has a column of time stamps. With a column of tags and one of values it is long,
else wide. `sightline.tables.cells` holds the names of these columns; `[columns]` in
`plant.toml` overrides them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Bools, Floats
from sightline.data.zones import is_ahead, stamp
from sightline.errors import FileError
from sightline.files import reading
from sightline.tables.cells import (
    NO_TAGS,
    TextCells,
    columns_called,
    has_certain_comma,
    is_missing,
    is_quality,
    plain,
    read_cells,
    word_numbers,
    words_in_text,
)
from sightline.tables.stamps import Seconds, seconds_from
from sightline.tables.text_tables import ExportedTable, read_table
from sightline.testbeds.base import MOST_NAMES
from sightline.testbeds.own_plant.settings import ColumnNames, PlantSettings
from sightline.text import counted, names, plural

# Counters of rows that exports add; they are left out if they count.
_COUNTERS = frozenset("id index idx row rowid rownumber no nr number sample".split())
_QUALITY_OF = re.compile(r"^(.+?)[\s._:-]*(?:quality|qual|qualität)$", re.IGNORECASE)
# A column that is called so is one of quality if it holds nothing else.
_MAYBE_QUALITY_OF = re.compile(
    r"^(.+?)[\s._:-]+(?:q|qc|status|stat|state|flag|valid|validity|statuscode)$",
    re.IGNORECASE,
)
_LIKE_LABELS = re.compile(
    r"attack|anomal|intrusion|malicious|ground.?truth|^(is.?)?outlier$|^class$|^target$",
    re.IGNORECASE,
)
# ColumnRoles of dates, and of the time of day that may stand beside them.
_DATES, _CLOCKS = ("date", "datum"), ("time", "zeit", "uhrzeit")
# Tags that WinCC writes when its runtime starts and stops.
_NO_TAG = "$RT_"


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """Which column of a table is what.

    Parameters
    ----------
    time : str
        Column of time stamps.
    tag : str, optional
        Column of tags, if the table is long.
    values : tuple of str
        ColumnRoles of values of a long table; a reading is in one of them.
    quality, label : str, optional
        Quality of a reading (long), labels (wide).
    qualities : mapping of str to str
        In a wide table, the column of quality of each tag that has one.
    tags : tuple of str
        The columns that are tags, if the table is wide.
    """

    time: str
    tag: str | None = None
    values: tuple[str, ...] = ()
    quality: str | None = None
    label: str | None = None
    qualities: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()


@dataclass(kw_only=True, eq=False)
class OpenedTable:
    """A table as it was opened; reading its columns takes them out of the frame.

    Parameters
    ----------
    table : ExportedTable
        The table.
    columns : ColumnRoles
        Which column is what.
    time, is_utc, second_pass_s
        As of `Seconds`.
    settings : PlantSettings
        What `plant.toml` says.
    roles : mapping of str to str
        The role of each tag that tags.csv lists.
    ranges : mapping of str to (float or None, float or None)
        Least and largest possible reading of each tag, as in tags.csv.
    ignored : frozenset of str
        Tags to leave out.
    cells : dict of str to TextCells
        The columns that hold text, by name.
    notices : list of str
        What was left out or chosen.
    clock : list of str
        Those of them that say that time cannot be believed.
    """

    table: ExportedTable
    columns: ColumnRoles
    time: Floats
    is_utc: bool
    settings: PlantSettings
    roles: Mapping[str, str]
    ranges: Mapping[str, tuple[float | None, float | None]]
    ignored: frozenset[str]
    cells: dict[str, TextCells]
    notices: list[str]
    clock: list[str] = field(default_factory=list)
    second_pass_s: float = 0.0

    @property
    def path(self) -> Path:
        """The file."""
        return self.table.path

    @property
    def place(self) -> str:
        """The name of the file, for notices."""
        return self.table.path.name

    def holds_of(self, tags: Sequence[str]) -> Floats:
        """Return for each tag how many seconds its value stays valid."""
        return self.settings.holds_of(tags, self.roles)


def open_source(
    path: Path,
    settings: PlantSettings,
    *,
    ignored: Collection[str] = (),
    roles: Mapping[str, str] | None = None,
    ranges: Mapping[str, tuple[float | None, float | None]] | None = None,
) -> OpenedTable:
    """Open a table with one column for each tag (wide), or one row for each reading.

    Parameters
    ----------
    path : Path
        A table that `read_table` reads.
    settings : PlantSettings
        What `plant.toml` says.
    ignored : collection of str
        Tags to leave out, whatever their columns hold.
    roles : mapping of str to str, optional
        The role of each tag.
    ranges : mapping of str to (float or None, float or None), optional
        The range of each tag's instrument; a value outside cannot be used.

    Raises
    ------
    FileError
        If the table cannot be read, or has no time or no tags.
    """
    table = read_table(path, least_columns=2)
    notices = list(table.notices)
    columns = columns_of(table, settings.columns, frozenset(ignored), notices)
    if columns.tag is not None:
        table = long_table(table, columns, notices)
    table, seconds = with_time(table, columns, settings)
    table, seconds, ahead = _without_ahead(table, seconds, settings)
    notices += ahead
    notices += [f"{path.name}: {text}." for text in seconds.notices]
    source = OpenedTable(
        table=table,
        columns=columns,
        time=seconds.seconds,
        is_utc=seconds.is_utc,
        settings=settings,
        roles=roles or {},
        ranges=ranges or {},
        ignored=frozenset(ignored),
        cells={},
        notices=notices,
        clock=ahead,
        second_pass_s=seconds.second_pass_s,
    )
    source.cells.update(_cells(source))
    return source


def with_time(
    table: ExportedTable, columns: ColumnRoles, settings: PlantSettings
) -> tuple[ExportedTable, Seconds]:
    """Return a table and the time of its rows, without rows whose time is none.

    These are stamps in the hour that clocks skip in spring, where a zone is stated, and
    the second pass of the hour that comes twice in autumn, where none is: it cannot be
    told from the first.
    """
    stamps, zone = stamps_of(table, columns, settings)
    is_long = columns.tag is not None
    read = seconds_from(
        stamps,
        path=table.path,
        zone=zone,
        time_format=settings.time_format,
        series=table.frame[columns.tag].rank("dense") if is_long else None,
        place_of=table.place_of,
        may_skip=True,
        date_order=settings.date_order,
    )
    is_none = np.isnan(read.seconds)
    why = f"lie in the hour that clocks skip in spring in {zone}"
    if not is_long and not read.is_utc:
        is_none = _second_pass(read.seconds)
        why = (
            "repeat the hour before, as clocks do in autumn, and no zone tells the two "
            "apart: state timezone, such as 'Europe/Berlin'"
        )
    if not is_none.any():
        return table, read
    first = int(is_none.argmax())
    if is_none.all():
        raise FileError(f"{table.path}: all of its time stamps {why}.")
    rows = np.arange(len(is_none)) if table.rows is None else table.rows
    kept = replace(
        table, frame=table.frame.filter(~is_none), rows=np.asarray(rows[~is_none])
    )
    said = (
        f"{counted(int(is_none.sum()), 'row', 'was', 'were')} left out from "
        f"{stamps[first]} on ({table.place_of(first)}): their time stamps {why}"
    )
    seconds, notices = read.seconds[~is_none], (*read.notices, said)
    return kept, read._replace(seconds=seconds, notices=notices)


def _without_ahead(
    table: ExportedTable, read: Seconds, settings: PlantSettings
) -> tuple[ExportedTable, Seconds, list[str]]:
    """Return a table and its time without rows of a far future, and what was said.

    One row of 2099 would else make all that follows it late.
    """
    with reading(table.path):
        changed = table.path.stat().st_mtime
    is_late = is_ahead(read.seconds, changed)
    if not is_late.any():
        return table, read, []
    rows = np.arange(len(is_late)) if table.rows is None else table.rows
    kept = replace(
        table, frame=table.frame.filter(~is_late), rows=np.asarray(rows[~is_late])
    )
    first = int(is_late.argmax())
    zone = settings.timezone if read.is_utc else None
    said = (
        f"{table.path.name}: {counted(int(is_late.sum()), 'row', 'is', 'are')} dated "
        f"later than the file itself and set aside: {table.place_of(first)}, "
        f"{stamp(float(read.seconds[first]), zone)}; correct the time stamp."
    )
    return kept, read._replace(seconds=read.seconds[~is_late]), [said]


def _second_pass(time: Floats) -> Bools:
    """Return the rows after a clock went back by an hour in the night to a Sunday.

    Up to the time that it had reached before.
    """
    steps = np.diff(time)
    is_second = np.zeros(len(time), np.bool_)
    if (steps >= 0).all():
        return is_second
    usual = float(np.median(np.abs(steps)))
    is_back = np.abs(steps + 3600 - usual) < max(1.0, 0.5 * usual)
    # Day 3 of 1970 was a Sunday.
    is_night = ((time[1:] // 86_400) % 7 == 3) & (time[1:] % 86_400 < 4 * 3600)
    for row in np.flatnonzero(is_back & is_night).tolist():
        after = time[row + 1 :]
        n_rows = int((after > time[row]).argmax()) if after.max() > time[row] else None
        is_second[row + 1 :][:n_rows] = True
    return is_second


def columns_of(
    table: ExportedTable,
    stated: ColumnNames,
    ignored: frozenset[str],
    notices: list[str],
) -> ColumnRoles:
    """Return which column is what, by `[columns]` or by name."""
    path, place = table.path, table.path.name
    every = table.frame.columns
    stated_times = [stated.time] if isinstance(stated.time, str) else stated.time or ()
    named = [("time", name) for name in stated_times]
    named += [(r, getattr(stated, r)) for r in ("tag", "value", "quality", "label")]
    for role, name in named:
        if name is not None and name not in every:
            raise FileError(
                f"{path}: has no column {name!r}, which [columns] of plant.toml names "
                f"as {role}; it has {names(every, 6)}."
            )
    unknown = [name for name in stated.ignore if name not in every]
    if unknown:
        notices.append(f"{place}: has no column {names(unknown)} to ignore.")
    free = [column for column in every if column not in stated.ignore]
    times = list(stated_times) or columns_called("time", free)
    if not times:
        raise FileError(
            f"{path}: has no column of time stamps: name it with time in the section "
            f"[columns] of plant.toml. It has {names(every, 6)}."
        )
    tags = [stated.tag] if stated.tag else columns_called("tag", free)
    values = [stated.value] if stated.value else columns_called("value", free)
    if stated.tag and not values:
        raise FileError(
            f"{path}: has a column of tags, {stated.tag!r}, but none of values: name "
            "it with value in the section [columns] of plant.toml."
        )
    if tags and values:
        quality = stated.quality or next(iter(columns_called("quality", free)), None)
        return ColumnRoles(
            time=times[0], tag=tags[0], values=tuple(values), quality=quality
        )
    return _wide_columns(table, stated, times, free, ignored, notices)


def _wide_columns(
    table: ExportedTable,
    stated: ColumnNames,
    times: Sequence[str],
    free: Sequence[str],
    ignored: frozenset[str],
    notices: list[str],
) -> ColumnRoles:
    """Return which column of a wide table is what; what is no tag is announced."""
    path, place = table.path, table.path.name
    labels = [stated.label] if stated.label else columns_called("label", free)
    label = labels[0] if labels else None
    qualities = {}
    for column in free:
        match = _QUALITY_OF.match(column)
        if match is None and (maybe := _MAYBE_QUALITY_OF.match(column)):
            match = maybe if is_quality(table.frame[column]) else None
        if match and match[1] in free:
            qualities[match[1]] = column
    if times[1:] and not stated.time and not _is_clock(table, times):
        notices.append(
            f"{place}: time was read from {times[0]}, not from {names(times[1:])}; "
            "state another with time in [columns] of plant.toml."
        )
    tags, left_out = [], []
    other_times = columns_called("time", free) if not stated.time else []
    for column in free:
        if column in (*other_times, *times, label, *qualities.values()):
            continue
        if column in ignored:
            continue
        counts = False
        if plain(column) in _COUNTERS and table.frame[column].dtype.is_numeric():
            steps = table.frame[column].diff().drop_nulls()
            counts = len(steps) > 0 and bool((steps == 1).all())
        if counts or plain(column) in NO_TAGS - _COUNTERS:
            left_out.append(column)
        elif is_like_labels(column):
            raise FileError(
                f"{path}: column {column!r} looks like labels, which a detector must "
                "not learn: name it with label or ignore in the section [columns] of "
                "plant.toml."
            )
        else:
            tags.append(column)
    if left_out:
        notices.append(
            f"{place}: {names(left_out, MOST_NAMES)} holds no reading and was left out."
        )
    if label is not None and plain(label) != "label" and not stated.label:
        notices.append(f"{place}: column {label!r} was read as the labels.")
    return ColumnRoles(
        time=times[0],
        label=label,
        qualities={tag: q for tag, q in qualities.items() if tag in tags},
        tags=tuple(tags),
    )


def is_like_labels(name: str) -> bool:
    """Return whether a column or tag is called like labels, not like a reading."""
    return bool(_LIKE_LABELS.search(name) or columns_called("label", [name]))


def _is_clock(table: ExportedTable, times: Sequence[str]) -> bool:
    """Return whether a date and a time of day stand in two columns."""
    pair = sorted(times[:2], key=lambda name: plain(name) not in _DATES)
    return (
        [plain(name) in _DATES for name in pair] == [True, False]
        and plain(pair[1]) in _CLOCKS
        and bool(re.match(r"^\s*\d{1,2}:\d\d", str(table.frame[pair[1]][0])))
    )


def stamps_of(
    table: ExportedTable, columns: ColumnRoles, settings: PlantSettings
) -> tuple[Any, str | None]:
    """Return the column of time stamps, and the zone that it is in if it has none."""
    import polars as pl

    zone, stated = settings.timezone, settings.columns.time
    pair = stated if isinstance(stated, tuple) else None
    if stated is None:
        times = columns_called("time", table.frame.columns)
        if _is_clock(table, times):
            pair = (
                (times[0], times[1])
                if plain(times[0]) in _DATES
                else (times[1], times[0])
            )
    if pair is not None:
        date, clock = (
            table.frame[name].cast(pl.String).str.strip_chars() for name in pair
        )
        return (date + " " + clock).alias(columns.time), zone
    if "utc" in plain(columns.time):
        zone = "UTC"
    return table.frame[columns.time], zone


def long_table(
    table: ExportedTable, columns: ColumnRoles, notices: list[str]
) -> ExportedTable:
    """Return a long table with tags as text and one column of values."""
    import polars as pl

    frame, path, tag = table.frame, table.path, str(columns.tag)
    tags = frame[tag].cast(pl.String).str.strip_chars()
    is_empty = tags.is_null() | (tags == "")
    if is_empty.any():
        raise FileError(
            f"{path}: {table.place_of(int(is_empty.arg_max() or 0))} names no tag; "
            f"every reading needs one in column {tag!r}."
        )
    used = {columns.time, tag, columns.quality, *columns.values}
    others = [column for column in frame.columns if column not in used]
    tags = _with_measurement(frame, tags, others, path)
    is_runtime = tags.str.starts_with(_NO_TAG)
    values = frame[columns.values[0]]
    for column in columns.values[1:]:
        if frame[column].dtype != values.dtype:
            values = values.cast(pl.String)
        values = values.fill_null(frame[column].cast(values.dtype))
    frame = frame.with_columns(tags.alias(tag), values.alias(columns.values[0]))
    rows = np.arange(frame.height) if table.rows is None else table.rows
    if is_runtime.any():
        notices.append(
            f"{path.name}: {plural(int(is_runtime.sum()), 'row')} of the historian's "
            f"own tag {tags.filter(is_runtime)[0]}: left out."
        )
        frame, rows = frame.filter(~is_runtime), rows[~is_runtime.to_numpy()]
    unread = [column for column in others if plain(column) not in NO_TAGS]
    if unread:
        notices.append(
            f"{path.name}: {names(unread, MOST_NAMES)} is not part of a reading and "
            "was not read."
        )
    keep = [c for c in frame.columns if c in used and c not in columns.values[1:]]
    return ExportedTable(
        **{**table.__dict__, "frame": frame.select(keep), "rows": rows}
    )


def _with_measurement(frame: Any, tags: Any, others: Sequence[str], path: Path) -> Any:
    """Return the tags of InfluxDB with their measurement, where there are several.

    Raises
    ------
    FileError
        If a further column, such as a host, tells series of one tag apart.
    """
    import polars as pl

    if "_measurement" not in others:
        return tags
    measurement = frame["_measurement"].cast(pl.String).fill_null("")
    if measurement.n_unique() > 1:
        tags = measurement + "." + tags
    for column in others:
        if not column.startswith("_") and frame[column].dtype == pl.String:
            kinds = pl.DataFrame({"t": tags, "k": frame[column]}).unique()
            twice = kinds.filter(kinds["t"].is_duplicated())["t"]
            if plain(column) not in NO_TAGS and len(twice):
                raise FileError(
                    f"{path}: tag {twice[0]!r} has several series, which differ in "
                    f"column {column!r}: export one file for each, or put {column} "
                    "into the tag."
                )
    return tags


def _cells(source: OpenedTable) -> dict[str, TextCells]:
    """Return the text columns of a source, read."""
    import polars as pl

    frame, columns = source.table.frame, source.columns
    wanted = columns.tags if columns.tag is None else columns.values[:1]
    texts = {name: frame[name] for name in wanted if frame[name].dtype == pl.String}
    decimal_comma = source.table.decimal_comma or any(
        map(has_certain_comma, texts.values())
    )
    cells = {
        name: read_cells(text, path=source.path, decimal_comma=decimal_comma)
        for name, text in texts.items()
    }
    with_unit = {name: cell.unit for name, cell in cells.items() if cell.unit}
    if with_unit:
        said = [f"{name} ({unit})" for name, unit in with_unit.items()]
        source.notices.append(
            f"{source.place}: a unit behind each number was left out: "
            f"{names(said, MOST_NAMES)}."
        )
        source.table.units.update(with_unit)
    for name in wanted:
        if frame[name].dtype == pl.Boolean:
            words = frame[name].cast(pl.String)
            cells[name] = TextCells(
                pl.repeat(None, len(words), dtype=pl.Float64, eager=True), words
            )
    return cells


@dataclass(frozen=True)
class StateWords:
    """How words are read.

    Parameters
    ----------
    numbers : mapping
        For each tag of words, the number of each word in lower case.
    texts : mapping of str to str
        The same in words, such as ``"CLOSED = 0, OPEN = 1"``.
    """

    numbers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def notices(self) -> list[str]:
        """Return one sentence about all tags of words; nothing if there are none."""
        by_text: dict[str, list[str]] = defaultdict(list)
        for tag, text in self.texts.items():
            by_text[text].append(tag)
        said = [
            f"{text} in {names(tags, MOST_NAMES)}" for text, tags in by_text.items()
        ]
        return [f"Words were read as numbers: {'; '.join(said)}."] if said else []


def leave_out_empty(sources: Sequence[OpenedTable]) -> list[str]:
    """Leave out columns that are empty in all wide tables; return a notice about them.

    A column that is empty in one table only stays, and is refused when it is read.
    """
    if any(source.columns.tag is not None for source in sources):
        return []
    empty = set.intersection(
        *(
            {
                tag
                for tag in source.columns.tags
                if source.table.frame[tag].null_count() == len(source.time)
            }
            for source in sources
        )
    )
    if not empty or any(empty >= {*source.columns.tags} for source in sources):
        return []
    for source in sources:
        kept = tuple(tag for tag in source.columns.tags if tag not in empty)
        source.columns = replace(source.columns, tags=kept)
    return [f"{names(sorted(empty), MOST_NAMES)} is empty in all tables: left out."]


@dataclass
class _Content:
    """What one tag holds in one table."""

    place: str
    n_numbers: int
    words: Counter[str]


def states_of(sources: Sequence[OpenedTable]) -> StateWords:
    """Return how the words of some tables are read, all tables together.

    A tag is one of words if it holds no number and at most twelve different words in
    all tables; words that say "no value" do not count.

    Raises
    ------
    FileError
        If a tag holds words in one table and numbers in another, or two words or more
        in each table and none in both, as ON and OFF against OPEN and CLOSED.
    """
    contents: dict[str, list[_Content]] = defaultdict(list)
    for source in sources:
        for tag, content in _contents(source).items():
            contents[tag].append(content)
    numbers: dict[str, Mapping[str, int]] = {}
    texts: dict[str, str] = {}
    for tag, parts in contents.items():
        words: Counter[str] = sum((part.words for part in parts), Counter())
        n_numbers = sum(part.n_numbers for part in parts)
        mapped = word_numbers(words)
        if mapped is None:
            continue
        if not n_numbers:
            spoken = [{word.lower() for word in part.words} for part in parts]
            if (
                len(spoken) == 2
                and min(map(len, spoken)) > 1
                and spoken[0].isdisjoint(spoken[1])
            ):
                said = [f"{names(sorted(p.words), 3)} in {p.place}" for p in parts]
                raise FileError(
                    f"{sources[0].path.parent}: tag {tag!r} has other words in each "
                    f"table, {' but '.join(said)}: write the states of both tables "
                    "with the same words, or give it the role ignore in tags.csv."
                )
            numbers[tag] = mapped
            texts[tag] = words_in_text(mapped, words)
            continue
        only_words = [p for p in parts if p.words and not p.n_numbers]
        if only_words:
            others = [p.place for p in parts if p.n_numbers]
            raise FileError(
                f"{sources[0].path.parent}: tag {tag!r} holds words such as "
                f"{min(only_words[0].words)!r} in {only_words[0].place} and "
                f"numbers in {others[0]}: export both in one form, or give it the role "
                "ignore in tags.csv."
            )
    return StateWords(numbers, texts)


def _contents(source: OpenedTable) -> dict[str, _Content]:
    """Return how many numbers and which words each tag of text holds."""
    import polars as pl

    frame, columns = source.table.frame, source.columns
    if columns.tag is None:
        contents = {}
        for tag in columns.tags:
            column, states = frame[tag], Counter[str]()
            if tag in source.cells:
                column, texts, _ = source.cells[tag]
                stated = texts.filter(texts.is_not_null() & ~is_missing(texts))
                states = Counter(dict(sorted(stated.value_counts().rows())))
            n_numbers = int(len(column) - column.null_count())
            contents[tag] = _Content(source.place, n_numbers, states)
        return contents
    value = columns.values[0]
    cells, tags = source.cells.get(value), frame[columns.tag]
    is_number = (frame[value] if cells is None else cells.numbers).is_not_null()
    counts = dict(
        pl.DataFrame({"t": tags, "n": is_number.cast(pl.Int64)})
        .group_by("t")
        .agg(pl.col("n").sum())
        .sort("t")
        .rows()
    )
    words: dict[str, Counter[str]] = defaultdict(Counter)
    if cells is None:
        return {tag: _Content(source.place, n, words[tag]) for tag, n in counts.items()}
    stated = pl.DataFrame({"t": tags, "w": cells.words}).filter(
        cells.words.is_not_null() & ~is_missing(cells.words)
    )
    for tag, word, count in sorted(stated.group_by(["t", "w"]).len().rows()):
        words[tag][word] = count
    return {
        tag: _Content(source.place, n, words[tag])
        for tag, n in counts.items()
        if tag not in source.ignored
    }
