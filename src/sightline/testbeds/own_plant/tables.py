"""Read one table of your own plant: its columns and its time stamps.

A table is CSV or Parquet. It has a column of time stamps (`_TIME`); with a column of
tags (`_TAG`) and one called "value" it is long, else wide. Time stamps are text,
seconds or milliseconds since 1970, or date-times with or without a zone.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.errors import FileError
from sightline.files import brief, reading
from sightline.testbeds.base import MOST_NAMES
from sightline.testbeds.csv_reader import SourceFile, find_header
from sightline.testbeds.own_plant.exports import (
    PlantSettings,
    Readings,
    Source,
    read_long,
    read_wide,
)
from sightline.text import names

_TIME = ("time", "timestamp", "datetime", "date_time", "date")
_TAG = ("tag", "tagname", "tag_name", "point")
_INFER_ROWS = 10_000
# The ending that polars adds to a repeated column name.
_REPEATED = re.compile(r"_duplicated_\d+$")
# Formats with an offset first: the others would ignore it.
_FORMATS = (
    "%Y-%m-%dT%H:%M:%S%.f%z",
    "%Y-%m-%dT%H:%M%z",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d",
)
# Numbers beyond this are milliseconds: as seconds they would lie after the year 5000.
_MOST_SECONDS = 1e11


def read_readings(
    path: Path, settings: PlantSettings, *, ignored: Collection[str] = ()
) -> Readings:
    """Read a table with one column for each tag (wide), or one row for each reading.

    Parameters
    ----------
    path : Path
        CSV or Parquet. A long table has the columns tag, time, value and quality.
    settings : PlantSettings
        What `plant.toml` says.
    ignored : collection of str
        Tags to leave out, whatever their columns hold.

    Raises
    ------
    FileError
        If the table cannot be read, or has no time, no tags or no numbers.
    """
    table = _table(path)
    columns = {column.lower(): column for column in table.columns}
    time_name = next((columns[name] for name in _TIME if name in columns), None)
    if time_name is None:
        raise FileError(
            f"{path}: has no column of time stamps; call it 'time'. It has "
            f"{names(table.columns, 6)}."
        )
    tag_name = next((columns[name] for name in _TAG if name in columns), None)
    if "value" not in columns:
        tag_name = None
    if tag_name is not None:
        table = _with_tags(table, tag_name, path)
    time, is_utc = seconds_from(
        table[time_name],
        path=path,
        zone=settings.timezone,
        time_format=settings.time_format,
        series=None if tag_name is None else table[tag_name].rank("dense"),
    )
    source = Source(
        table=table,
        columns=columns,
        time=time,
        is_utc=is_utc,
        path=path,
        place=path.name,
        settings=settings,
        ignored=frozenset(ignored),
        time_name=time_name,
    )
    return read_wide(source) if tag_name is None else read_long(source, tag_name)


def _table(path: Path) -> Any:
    """Return a table with unique column names and at least one row."""
    import polars as pl

    with reading(path):
        try:
            if path.suffix.lower() == ".parquet":
                table = pl.read_parquet(path, glob=False)
            else:
                table = _csv(path)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise FileError(
                f"{path}: cannot be read as a table ({brief(error)}): check that it "
                "has one header line and the same number of columns in each row."
            ) from error
    if table.height == 0:
        raise FileError(f"{path}: has a header but no rows.")
    columns = [_REPEATED.sub("", column).strip() for column in table.columns]
    twice = [name for k, name in enumerate(columns) if name in columns[:k]]
    if twice:
        raise FileError(f"{path}: has two columns called {twice[0]!r}: rename one.")
    return table.rename({column: column.strip() for column in table.columns})


def _with_tags(table: Any, tag_name: str, path: Path) -> Any:
    """Return a long table with its tags as text without surrounding blanks."""
    import polars as pl

    tags = table[tag_name].cast(pl.String).str.strip_chars()
    is_empty = tags.is_null() | (tags == "")
    if is_empty.any():
        raise FileError(
            f"{path}: data row {int(is_empty.arg_max() or 0) + 1} names no tag; every "
            f"reading needs one in column {tag_name!r}."
        )
    return table.with_columns(tags)


def _csv(path: Path) -> Any:
    """Return a CSV table separated by commas or semicolons.

    With semicolons, numbers may have decimal commas.
    """
    import polars as pl
    import polars.selectors as cs

    layout = find_header(SourceFile(path, path.parent), lambda names: True)
    if layout is None:
        raise FileError(
            f"{path}: must begin with a header of at least two columns, separated by "
            "commas or semicolons."
        )
    read = partial(
        pl.read_csv,
        path,
        separator=layout.separator,
        decimal_comma=layout.decimal_comma,
        glob=False,
    )
    try:
        table = read(infer_schema_length=_INFER_ROWS)
    except pl.exceptions.ComputeError:
        # Text far down in a column of numbers: infer types from all rows.
        table = read(infer_schema_length=None)
    if layout.separator == ",":
        return table
    # polars leaves decimal commas in columns that it reads as text.
    return table.with_columns(
        cs.string().str.replace(r"^(\s*[-+]?\d*),(\d+)", "${1}.${2}")
    )


def in_order_of(channels: Sequence[str], readings: Readings, root: Path) -> Readings:
    """Return test with its columns in the order of train.

    Raises
    ------
    FileError
        If one table has tags that the other has not.
    """
    for one, other, where in (
        (channels, readings.channels, "train but not in test"),
        (readings.channels, channels, "test but not in train"),
    ):
        only = [name for name in one if name not in other]
        if only:
            raise FileError(
                f"{root}: {names(only, MOST_NAMES)} is in {where}: both tables must "
                "have the same tags."
            )
    order = [readings.channels.index(name) for name in channels]
    if order == list(range(len(order))):
        return readings
    return replace(
        readings, channels=tuple(channels), values=readings.values[:, order].copy()
    )


def check_zone(zone: str, path: Path) -> str:
    """Return the name of a time zone.

    Raises
    ------
    FileError
        If there is no zone of that name; the message names `path`.
    """
    import polars as pl

    try:
        # Polars takes an empty name for "no zone".
        pl.Series([0]).cast(pl.Datetime("us", zone or "none"))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise FileError(
            f"{path}: timezone {zone!r} is not known; write it like 'Europe/Berlin' or "
            "'UTC'."
        ) from error
    return zone


def seconds_from(
    column: Any,
    *,
    path: Path,
    zone: str | None,
    time_format: str | None,
    series: Any = None,
    first_line: int | None = None,
) -> tuple[Floats, bool]:
    """Return a column of time stamps as seconds since 1970, and whether that is UTC.

    Stamps with an offset, and stamps in a stated zone, become UTC. The hour that comes
    twice in autumn is resolved by the order of the rows. Stamps without offset and
    zone stay on the plant's own clock.

    Parameters
    ----------
    column : polars series
        Text, numbers (seconds or milliseconds since 1970) or date-times.
    path : Path
        The table, for messages.
    zone : str, optional
        The time zone of stamps without an offset.
    time_format : str, optional
        The format of stamps as text; by default ISO 8601.
    series : polars series, optional
        The tag of each row, where a table holds several series: the order of rows
        counts within each.
    first_line : int, optional
        The line of the first stamp, if messages should count lines instead of rows.

    Returns
    -------
    seconds : array of shape (n_rows,)
    is_utc : bool
    """
    import polars as pl

    if column.null_count():
        row = _row(column.is_null(), first_line)
        raise FileError(
            f"{path}: column {column.name!r} must be complete; {row} has no time."
        )
    if column.dtype.is_numeric():
        numbers = column.cast(pl.Float64).to_numpy()
        wrong = ~pl.Series(numbers).is_finite()
        if wrong.any():
            raise FileError(
                f"{path}: column {column.name!r} must hold time stamps; "
                f"{_row(wrong, first_line)} is {numbers[wrong.arg_max() or 0]}."
            )
        is_ms = len(numbers) > 0 and float(np.abs(numbers).max()) > _MOST_SECONDS
        if is_ms and float(np.abs(numbers).max()) > 1000 * _MOST_SECONDS:
            raise FileError(
                f"{path}: column {column.name!r} must hold seconds or milliseconds "
                f"since 1970; {numbers[0]:g} is neither: divide it first."
            )
        return np.asarray(numbers / 1000.0 if is_ms else numbers, np.float64), True
    if column.dtype == pl.String:
        column = _parsed(column, path, time_format, first_line)
    elif not column.dtype.is_temporal() or column.dtype in (pl.Time, pl.Duration):
        raise FileError(
            f"{path}: column {column.name!r} must hold time stamps; it holds "
            f"{column.dtype}."
        )
    column = column.cast(pl.Datetime("us", getattr(column.dtype, "time_zone", None)))
    if column.dtype.time_zone is not None:
        return _seconds(column.dt.convert_time_zone("UTC")), True
    if zone is None:
        return _seconds(column), False
    return _seconds(_in_zone(column, zone, path, series)), True


def _parsed(
    column: Any, path: Path, time_format: str | None, first_line: int | None
) -> Any:
    """Return stamps as date-times, by the one format that fits them all.

    Without a stated format these are the variants of ISO 8601: blank or ``T``, with or
    without seconds, ``Z`` or an offset with or without colon.
    """
    stripped = column.str.strip_chars()
    if time_format is None:
        # ISO 8601 allows several spellings; bring them to one.
        stripped = stripped.str.replace(r"^(\d{4}-\d\d-\d\d) ", "${1}T")
        stripped = stripped.str.replace(r"\s*[Zz]$", "+0000")
        stripped = stripped.str.replace(r"\s*([+-]\d\d):?(\d\d)$", "${1}${2}")
        stripped = stripped.str.replace(
            r"(:\d\d(?:\.\d+)?)\s*([+-]\d\d)$", "${1}${2}00"
        )
    formats = (time_format,) if time_format else _FORMATS
    tried = [
        stripped.str.to_datetime(form, time_unit="us", strict=False) for form in formats
    ]
    best = min(tried, key=lambda times: times.null_count())
    if not best.null_count():
        return best
    found = column[best.is_null().arg_max() or 0]
    raise FileError(
        f"{path}: column {column.name!r} must hold time stamps like '2026-11-15 "
        f"08:00:00' or '2026-11-15T08:00:00+01:00'; {_row(best.is_null(), first_line)} "
        f"is {found!r:.60}: for another form give time_format in plant.toml, such "
        "as '%d/%m/%Y %H:%M:%S'."
    )


def _in_zone(column: Any, zone: str, path: Path, series: Any) -> Any:
    """Return stamps of a zone's clock as UTC; refuse times that the clock skipped."""
    import polars as pl

    is_second = _is_repeated_hour(column.to_physical().to_numpy(), series)
    which = pl.Series(np.where(is_second, "latest", "earliest"))
    placed = pl.DataFrame({"t": column, "which": which}).select(
        pl.col("t").dt.replace_time_zone(
            zone, ambiguous=pl.col("which"), non_existent="null"
        )
    )["t"]
    if placed.null_count():
        row = int(placed.is_null().arg_max() or 0)
        raise FileError(
            f"{path}: {column[row]} (data row {row + 1}) does not exist in {zone}, "
            "because clocks were set forward over it: the stamps are in another zone, "
            "or in none."
        )
    return placed.dt.convert_time_zone("UTC")


def _row(is_wrong: Any, first_line: int | None) -> str:
    """Return the first wrong row in words, as a row or as a line."""
    row = int(is_wrong.arg_max() or 0)
    return f"data row {row + 1}" if first_line is None else f"line {row + first_line}"


def _is_repeated_hour(clock: Ints, series: Any) -> Bools:
    """Return which rows lie in the repeated hour of autumn, its second pass.

    After a clock goes back, these are all rows up to the time it had reached.
    """
    is_second = np.zeros(len(clock), np.bool_)
    if series is None:
        parts = [np.arange(len(clock))]
    else:
        codes = np.unique(np.asarray(series), return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    for rows in parts:
        times = clock[rows]
        steps_back = np.flatnonzero(np.diff(times) < 0) + 1
        if len(steps_back):
            reached = np.maximum.accumulate(times)
            last = np.searchsorted(steps_back, np.arange(len(times)), side="right") - 1
            peak = reached[steps_back[np.maximum(last, 0)] - 1]
            is_second[rows] = (last >= 0) & (times <= peak)
    return is_second


def _seconds(column: Any) -> Floats:
    """Return date-times as seconds since 1970."""
    return np.asarray(column.to_physical().to_numpy() / 1e6)
