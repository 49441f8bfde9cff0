"""Read one table of your own plant: its columns and its time stamps.

A table is CSV or Parquet. It has a column of time stamps (`_TIME`); with a column of
tags (`_TAG`) and one called "value" it is long, else wide. Time stamps are text,
seconds or milliseconds since 1970, or date-times with or without a zone.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sightline.errors import FileError
from sightline.tables.stamps import seconds_from
from sightline.tables.text_tables import read_table
from sightline.testbeds.base import MOST_NAMES
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
    read = read_table(path, least_columns=2)
    table = read.frame
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
    time, is_utc, _ = seconds_from(
        table[time_name],
        path=path,
        zone=settings.timezone,
        time_format=settings.time_format,
        series=None if tag_name is None else table[tag_name].rank("dense"),
        place_of=read.place_of,
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
