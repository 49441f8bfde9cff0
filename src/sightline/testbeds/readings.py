"""One table of one's own plant, wide or long, as rows on an even grid of time."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sightline.checks import Bools, Floats, Ints, Labels, check_labels
from sightline.errors import FileError, naming
from sightline.files import brief, reading
from sightline.segments import GAP_FACTOR, breaks_from_time
from sightline.testbeds.attack_tables import stamp
from sightline.testbeds.base import listed
from sightline.testbeds.clock import seconds_from
from sightline.testbeds.discovery import SourceFile, find_header
from sightline.testbeds.missing import HOLD_S, counted, hold, left_open

_TIME = ("time", "timestamp", "datetime", "date_time", "date")
_TAG = ("tag", "tagname", "tag_name", "point")
_LABEL = "label"
_GOOD = ("good", "ok", "valid", "true")
# OPC: the two highest of eight bits say good.
_OPC_GOOD = 192
_INFER_ROWS = 10_000
# A grid may have so many times the rows of the table it is made of.
_MOST_GROWTH = 1000
_NOTHING_LEFT = "tags.csv leaves no tag of it, for the role of all is ignore."
# What polars calls a second column of one name.
_REPEATED = re.compile(r"_duplicated_\d+$")


@dataclass(frozen=True, kw_only=True)
class PlantSettings:
    """What `plant.toml` may say."""

    timezone: str | None = None
    time_format: str | None = None
    step_s: float | None = None
    hold_s: float = HOLD_S


@dataclass(frozen=True, kw_only=True, eq=False)
class _Source:
    """A table as it came: its columns by lower-case name, and its time."""

    table: Any
    names: dict[str, str]
    time: Floats
    is_utc: bool
    path: Path
    place: str
    settings: PlantSettings
    ignored: frozenset[str]
    time_name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """A table in even steps of time: nan where nothing was read within the limit."""

    channels: tuple[str, ...]
    values: Floats
    time: Floats
    breaks: Ints
    step_s: float
    labels: Labels | None
    is_utc: bool
    notices: tuple[str, ...]


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
    source = _Source(
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
        return _long(source, tag_name)
    return _wide(source)


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


def _wide(source: _Source) -> Readings:
    """Take each column as a tag; short gaps get rows of their own, without values."""
    table, time, place = source.table, source.time, source.place
    label_name = source.names.get(_LABEL)
    aside = {source.time_name, label_name, *source.ignored}
    channels = [column for column in table.columns if column not in aside]
    if not channels and source.ignored:
        raise FileError(f"{source.path}: {_NOTHING_LEFT}")
    if not channels:
        raise FileError(f"{source.path}: has no column besides time to take as a tag.")
    notices: list[str] = []
    values = np.empty((table.height, len(channels)))
    for k, channel in enumerate(channels):
        values[:, k] = _numbers(table[channel], source.path, place, notices)
    labels = None
    if label_name is not None:
        with naming(source.path):
            labels = check_labels(_plain(table[label_name]), label_name)
    order = _in_order(time, place, notices)
    if order is not None:
        time, values = time[order], values[order]
        labels = None if labels is None else labels[order]
    hold_s = source.settings.hold_s
    step_s = source.settings.step_s or _median_step(time, source.path)
    lost = _lost_rows(time, step_s, hold_s)
    _check_growth(len(time) + int(lost.sum()), len(time), source, step_s)
    taken, filled_time = _without_short_gaps(time, lost, step_s)
    n_filled = int((taken < 0).sum())
    if n_filled:
        notices.append(
            f"{place}: {n_filled:,} rows are missing in gaps of up to {hold_s:g} s and "
            "were put in, held at the last values."
        )
        values = np.where((taken < 0)[:, None], np.nan, values[taken])
        if labels is not None:
            before = np.maximum.accumulate(np.where(taken < 0, 0, taken))
            labels = labels[before]
        time = filled_time
    breaks = breaks_from_time(time, step_s)
    values, told = hold(
        values,
        breaks,
        channels=channels,
        step_s=step_s,
        place=place,
        time=time,
        hold_s=hold_s,
    )
    notices.extend(told)
    return Readings(
        channels=tuple(channels),
        values=values,
        time=time,
        breaks=breaks,
        step_s=step_s,
        labels=labels,
        is_utc=source.is_utc,
        notices=tuple(notices),
    )


def _long(source: _Source, tag_name: str) -> Readings:
    """Put each tag's readings on one grid: the last one at or before each step."""
    table, names, time, place = source.table, source.names, source.time, source.place
    notices = _not_read(source, tag_name)
    values = _numbers(table[names["value"]], source.path, place, notices)
    if "quality" in names:
        is_bad = _bad_quality(table[names["quality"]], place, notices)
        values = np.where(is_bad, np.nan, values)
    channels, parts = _by_tag(table[tag_name], time, ~np.isnan(values), source)
    step_s, hold_s = source.settings.step_s, source.settings.hold_s
    if step_s is None:
        step_s = _median_step(np.unique(time), source.path)
        notices.append(
            f"{source.place}: one row each {step_s:g} s was made of it, the usual step "
            "between its readings; state another with step_s in plant.toml."
        )
    # The last step is at or after the last reading, which would be lost otherwise.
    n_steps = int(np.ceil((time.max() - time.min()) / step_s - 1e-6)) + 1
    _check_growth(n_steps, len(np.unique(time)), source, step_s)
    grid = time.min() + step_s * np.arange(n_steps)
    placed = np.full((n_steps, len(channels)), np.nan)
    counts = np.zeros((len(channels), 2), np.int64)
    for k, mine in enumerate(parts):
        placed[:, k], *counts[k] = _on_grid(
            time[mine], values[mine], grid, step_s=step_s, hold_s=hold_s
        )
    notices += _told_of_grid(counts, channels, place, hold_s)
    made = _without_empty(
        Readings(
            channels=tuple(channels),
            values=placed,
            time=grid,
            breaks=np.zeros(1, np.int64),
            step_s=step_s,
            labels=None,
            is_utc=source.is_utc,
            notices=tuple(notices),
        ),
        place,
    )
    open_still = left_open(made.values, channels, place, hold_s)
    return replace(made, notices=(*made.notices, *open_still))


def _not_read(source: _Source, tag_name: str) -> list[str]:
    """Tell of columns of a long table that nobody asked for."""
    known = {tag_name, source.time_name}
    known |= {
        source.names[name] for name in ("value", "quality") if name in source.names
    }
    others = [column for column in source.table.columns if column not in known]
    if not others:
        return []
    return [
        f"{source.place}: {listed(others)} is no part of a reading and is not read."
    ]


def _by_tag(
    tags: Any, time: Floats, is_read: Bools, source: _Source
) -> tuple[list[str], list[Ints]]:
    """Return the tags, and for each its good readings in the order of time."""
    all_tags = sorted(set(tags))
    if _LABEL in (tag.lower() for tag in all_tags):
        raise FileError(
            f"{source.path}: has a tag called {_LABEL!r}: labels of a long table "
            "belong into attacks.csv, or a detector would learn them."
        )
    codes = tags.rank("dense").to_numpy() - 1
    order = np.lexsort((np.arange(len(time)), time, codes))
    order = order[is_read[order]]
    bounds = np.searchsorted(codes[order], np.arange(len(all_tags) + 1))
    kept = [k for k, tag in enumerate(all_tags) if tag not in source.ignored]
    if not kept:
        raise FileError(f"{source.path}: {_NOTHING_LEFT}")
    return (
        [all_tags[k] for k in kept],
        [order[bounds[k] : bounds[k + 1]] for k in kept],
    )


def _on_grid(
    time: Floats, values: Floats, grid: Floats, *, step_s: float, hold_s: float
) -> tuple[Floats, int, int]:
    """Return a tag's value at each step, how many were held, how many passed over."""
    placed = np.full(len(grid), np.nan)
    if not len(time):
        return placed, 0, 0
    # A millionth of a second for what a float cannot hold.
    last = np.searchsorted(time, grid + 1e-6, side="right") - 1
    age = np.where(last >= 0, grid - time[last], np.inf)
    # A reading since the last step is the step's own; an older one is held.
    is_own = age < step_s - 1e-6
    is_fresh = is_own | (age <= hold_s + 1e-6)
    placed[is_fresh] = values[last[is_fresh]]
    n_passed = len(time) - len(np.unique(last[is_own]))
    return placed, int((is_fresh & ~is_own).sum()), n_passed


def _told_of_grid(
    counts: Ints, channels: Sequence[str], place: str, hold_s: float
) -> list[str]:
    held, passed = counts.T
    told = []
    if held.any():
        told.append(
            f"{place}: {int(held.sum()):,} cells without a reading of their own were "
            f"held at the last value for up to {hold_s:g} s: "
            f"{counted(held, channels)}."
        )
    if passed.any():
        told.append(
            f"{place}: {int(passed.sum()):,} readings were passed over for a later one "
            f"of the same step: {counted(passed, channels)}."
        )
    return told


def _check_growth(n_rows: int, n_before: int, source: _Source, step_s: float) -> None:
    """Refuse a grid that is mostly made up: a stray stamp, or too small a step."""
    if n_rows > _MOST_GROWTH * n_before + 1_000_000:
        first, last = (
            stamp(float(at)) for at in (source.time.min(), source.time.max())
        )
        raise FileError(
            f"{source.path}: rows each {step_s:g} s from {first} to {last} would be "
            f"{n_rows:,} where it has {n_before:,} time stamps: state a larger step_s "
            "in plant.toml, or take out a time stamp that is far off."
        )


def _without_empty(readings: Readings, place: str) -> Readings:
    """Leave out rows in which no tag has a value: the historian was down."""
    is_read = ~np.isnan(readings.values).all(axis=1)
    if not is_read.any():
        raise FileError(f"{place}: has no reading of good quality.")
    if is_read.all():
        return readings
    time = readings.time[is_read]
    lost = int((~is_read).sum())
    return replace(
        readings,
        values=readings.values[is_read],
        time=time,
        breaks=breaks_from_time(time, readings.step_s),
        notices=(
            *readings.notices,
            f"{place}: {lost:,} rows in which no tag had a value were left out.",
        ),
    )


def _numbers(column: Any, path: Path, place: str, notices: list[str]) -> Floats:
    """Return a column as numbers; what is text is missing, and told."""
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
    elif column.dtype == pl.String:
        stripped = column.str.strip_chars()
        numbers = stripped.cast(pl.Float64, strict=False)
        texts = stripped.filter(numbers.is_null() & (stripped != "").fill_null(False))
        if len(texts):
            counted = texts.value_counts(sort=True).rows()
            said = [f"{text!r:.40} {count:,} times" for text, count in counted]
            notices.append(
                f"{place}: {column.name} holds text, taken as missing: {listed(said)}."
            )
    else:
        numbers = pl.Series(column.name, [None] * len(column), pl.Float64)
    if numbers.null_count() == len(numbers):
        raise FileError(
            f"{path}: column {column.name!r} holds no number at all: take it out of "
            "the table, or give it the role ignore in tags.csv."
        )
    return np.asarray(numbers.fill_null(float("nan")).to_numpy(), np.float64)


def _plain(column: Any) -> Any:
    """Return a column as numpy has it; numbers of 128 bits as floats."""
    import polars as pl

    if column.dtype in (pl.Int128, pl.UInt128):
        column = column.cast(pl.Float64)
    return column.to_numpy()


def _bad_quality(column: Any, place: str, notices: list[str]) -> Any:
    """Return which readings are bad: by OPC code, by 1 and 0, or by word."""
    import polars as pl

    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    texts = texts.replace("", None)
    codes = texts.cast(pl.Float64, strict=False)
    if codes.null_count() == texts.null_count() < len(texts):
        is_flag = bool(codes.drop_nulls().is_in([0.0, 1.0]).all())
        # Nothing said is nothing good.
        numbers = codes.fill_null(0.0).to_numpy()
        is_bad = numbers < (1 if is_flag else _OPC_GOOD)
        good = "1 is good" if is_flag else "192 and more is good (OPC)"
    else:
        is_bad = ~texts.is_in(list(_GOOD)).fill_null(False).to_numpy()
        good = "'Good' is good"
    if is_bad.any():
        notices.append(
            f"{place}: {int(is_bad.sum()):,} of {len(is_bad):,} readings are of bad "
            f"quality ({good}) and taken as missing."
        )
    return is_bad


def _in_order(time: Floats, place: str, notices: list[str]) -> Ints | None:
    """Return which rows to take so that time only grows; None if it does already."""
    steps = np.diff(time)
    if (steps > 0).all():
        return None
    order = np.argsort(time, kind="stable")
    # Of rows with one time stamp the last counts.
    is_last = np.append(np.diff(time[order]) > 0, True)
    n_twice = int((~is_last).sum())
    if n_twice:
        notices.append(
            f"{place}: {n_twice:,} rows repeat a time stamp; the last of each counts."
        )
    if (steps < 0).any():
        notices.append(
            f"{place}: rows were not in the order of time and were sorted; if clocks "
            "went back in autumn, state timezone in plant.toml."
        )
    return np.asarray(order[is_last])


def _median_step(time: Floats, path: Path) -> float:
    steps = np.diff(time)
    steps = steps[steps > 0]
    if not len(steps):
        raise FileError(
            f"{path}: has no two different time stamps, so that no step is known."
        )
    return float(np.median(steps))


def _lost_rows(time: Floats, step_s: float, hold_s: float) -> Ints:
    """Return how many rows lack between each row and the next, in short gaps."""
    steps = np.diff(time)
    is_short = (steps > GAP_FACTOR * step_s) & (steps <= hold_s + step_s)
    return np.where(is_short, np.rint(steps / step_s).astype(np.int64) - 1, 0)


def _without_short_gaps(time: Floats, lost: Ints, step_s: float) -> tuple[Ints, Floats]:
    """Return the row to take for each row of the grid, -1 where one is put in."""
    repeat = np.append(lost + 1, 1)
    taken = np.repeat(np.arange(len(time)), repeat)
    since = np.arange(len(taken)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    return np.where(since > 0, -1, taken), time[taken] + since * step_s


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
