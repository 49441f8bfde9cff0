"""One table of one's own plant, wide or long, as rows in even steps of time."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sightline.errors import FileError
from sightline.files import brief, reading
from sightline.testbeds.base import listed
from sightline.testbeds.discovery import SourceFile, find_header
from sightline.testbeds.own_plant.clock import seconds_from
from sightline.testbeds.own_plant.exports import (
    PlantSettings,
    Readings,
    Source,
)
from sightline.testbeds.own_plant.long_export import read_long
from sightline.testbeds.own_plant.wide_export import read_wide

_TIME = ("time", "timestamp", "datetime", "date_time", "date")
_TAG = ("tag", "tagname", "tag_name", "point")
_INFER_ROWS = 10_000
# What polars calls a second column of one name.
_REPEATED = re.compile(r"_duplicated_\d+$")


def read_readings(
    path: Path, settings: PlantSettings, *, ignored: Collection[str] = ()
) -> Readings:
    """Read a wide (a column a tag) or long (tag, time, value, quality) table.

    Tags that are `ignored` are not looked at, whatever they hold.
    """
    table = _table(path)
    names = {column.lower(): column for column in table.columns}
    time_name = next((names[name] for name in _TIME if name in names), None)
    if time_name is None:
        raise FileError(
            f"{path}: has no column of time stamps; call it 'time'. It has "
            f"{listed(table.columns, 6)}."
        )
    tag_name = next((names[name] for name in _TAG if name in names), None)
    if "value" not in names:
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
        names=names,
        time=time,
        is_utc=is_utc,
        path=path,
        place=path.name,
        settings=settings,
        ignored=frozenset(ignored),
        time_name=time_name,
    )
    if tag_name is not None:
        return read_long(source, tag_name)
    return read_wide(source)


def _table(path: Path) -> Any:
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
    names = [_REPEATED.sub("", column).strip() for column in table.columns]
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise FileError(f"{path}: has two columns called {twice[0]!r}: rename one.")
    return table.rename({column: column.strip() for column in table.columns})


def _with_tags(table: Any, tag_name: str, path: Path) -> Any:
    """Return a long table whose tags are texts without blanks around them."""
    import polars as pl

    tags = table[tag_name].cast(pl.String).str.strip_chars()
    nameless = tags.is_null() | (tags == "")
    if nameless.any():
        raise FileError(
            f"{path}: data row {int(nameless.arg_max() or 0) + 1} names no tag; every "
            f"reading needs one in column {tag_name!r}."
        )
    return table.with_columns(tags)


def _csv(path: Path) -> Any:
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
        # Text far down in a column of numbers: look at all of it.
        table = read(infer_schema_length=None)
    if layout.separator == ",":
        return table
    # A column with text in it keeps its decimal commas; so do numbers read as text.
    return table.with_columns(
        cs.string().str.replace(r"^(\s*[-+]?\d*),(\d+)", "${1}.${2}")
    )


def in_order_of(channels: Sequence[str], readings: Readings, root: Path) -> Readings:
    """Return readings with their columns in a given order; refuse other tags."""
    for here, there, where in (
        (channels, readings.channels, "train but not in test"),
        (readings.channels, channels, "test but not in train"),
    ):
        only = [name for name in here if name not in there]
        if only:
            raise FileError(
                f"{root}: {listed(only)} is in {where}: both tables must have the same "
                "tags."
            )
    order = [readings.channels.index(name) for name in channels]
    if order == list(range(len(order))):
        return readings
    return replace(
        readings, channels=tuple(channels), values=readings.values[:, order].copy()
    )
