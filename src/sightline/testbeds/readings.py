"""One table of one's own plant, wide or long, as rows on an even grid of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightline.checks import Floats, Ints, Labels, check_labels
from sightline.errors import FileError, naming
from sightline.files import brief, reading
from sightline.segments import GAP_FACTOR, breaks_from_time
from sightline.testbeds.base import listed
from sightline.testbeds.clock import seconds_from
from sightline.testbeds.discovery import SourceFile, find_header

_TIME = ("time", "timestamp", "datetime", "date_time", "date")
_TAG = ("tag", "tagname", "tag_name", "point")
_LABEL = "label"
_GOOD = ("good", "ok", "valid", "true")
# OPC: the two highest of eight bits say good.
_OPC_GOOD = 192
_INFER_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class PlantSettings:
    """What `plant.toml` may say."""

    timezone: str | None = None
    time_format: str | None = None
    step_s: float | None = None
    hold_s: float = 60.0


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """A table on its grid of time: nan where nothing was read within the limit."""

    channels: tuple[str, ...]
    values: Floats
    time: Floats
    breaks: Ints
    step_s: float
    labels: Labels | None
    is_utc: bool
    notices: tuple[str, ...]


def read_readings(path: Path, place: str, settings: PlantSettings) -> Readings:
    """Read a wide (a column a tag) or long (tag, time, value, quality) table."""
    table = _table(path)
    names = {column.lower(): column for column in table.columns}
    time_name = next((names[name] for name in _TIME if name in names), None)
    if time_name is None:
        raise FileError(
            f"{path}: has no column of time stamps; call it 'time'. It has "
            f"{listed(table.columns, 6)}."
        )
    tag_name = next((names[name] for name in _TAG if name in names), None)
    time, is_utc = seconds_from(
        table[time_name],
        path=path,
        zone=settings.timezone,
        time_format=settings.time_format,
    )
    source = _Source(
        table=table,
        names=names,
        time=time,
        is_utc=is_utc,
        path=path,
        place=place,
        settings=settings,
    )
    if tag_name is not None and "value" in names:
        return _long(source, tag_name)
    return _wide(source, time_name)


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
    return table.rename({c: c.strip() for c in table.columns if c != c.strip()})


def _csv(path: Path) -> Any:
    import polars as pl

    layout = find_header(SourceFile(path, path.parent), lambda names: True)
    if layout is None:
        raise FileError(
            f"{path}: must begin with a header of at least two columns, separated by "
            "commas or semicolons."
        )
    for infer_rows in (_INFER_ROWS, None):
        try:
            return pl.read_csv(
                path,
                separator=layout.separator,
                decimal_comma=layout.decimal_comma,
                infer_schema_length=infer_rows,
                glob=False,
            )
        except pl.exceptions.ComputeError:
            # Text far down in a column of numbers: look at all of it.
            if infer_rows is None:
                raise
    raise AssertionError  # the loop returns or raises


def _wide(source: _Source, time_name: str) -> Readings:
    """Take each column as a tag; short gaps get rows of their own, without values."""
    table, time, place = source.table, source.time, source.place
    label_name = source.names.get(_LABEL)
    channels = [c for c in table.columns if c not in (time_name, label_name)]
    notices: list[str] = []
    values = np.empty((table.height, len(channels)))
    for k, channel in enumerate(channels):
        values[:, k] = _numbers(table[channel], source.path, place, notices)
    labels = None
    if label_name is not None:
        with naming(source.path):
            labels = check_labels(table[label_name].to_numpy(), label_name)
    order = _in_order(time, place, notices)
    if order is not None:
        time, values = time[order], values[order]
        labels = None if labels is None else labels[order]
    hold_s = source.settings.hold_s
    step_s = source.settings.step_s or _median_step(time, source.path)
    taken, filled_time = _without_short_gaps(time, step_s, hold_s)
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
    return Readings(
        channels=tuple(channels),
        values=values,
        time=time,
        breaks=breaks_from_time(time, step_s),
        step_s=step_s,
        labels=labels,
        is_utc=source.is_utc,
        notices=tuple(notices),
    )


def _long(source: _Source, tag_name: str) -> Readings:
    """Put each tag's readings on one grid: the last one at or before each step."""
    table, names, time, place = source.table, source.names, source.time, source.place
    notices: list[str] = []
    values = _numbers(table[names["value"]], source.path, place, notices)
    if "quality" in names:
        is_bad = _bad_quality(table[names["quality"]], place, notices)
        values = np.where(is_bad, np.nan, values)
    tags = table[tag_name].cast(str).str.strip_chars()
    channels = sorted(tags.unique().to_list())
    is_read = ~np.isnan(values)
    step_s, hold_s = source.settings.step_s, source.settings.hold_s
    if step_s is None:
        step_s = _median_step(np.unique(time), source.path)
        notices.append(
            f"{source.place}: one row each {step_s:g} s was made of it, the usual step "
            "between its readings; state another with step_s in plant.toml."
        )
    grid = np.arange(time.min(), time.max() + step_s / 2, step_s)
    codes = np.searchsorted(np.array(channels), tags.to_numpy().astype(str))
    placed = np.full((len(grid), len(channels)), np.nan)
    n_held = np.zeros(len(channels), np.int64)
    for k in range(len(channels)):
        mine = np.flatnonzero((codes == k) & is_read)
        mine = mine[np.argsort(time[mine], kind="stable")]
        if not len(mine):
            continue
        # A millionth of a second for what a float cannot hold.
        last = np.searchsorted(time[mine], grid + 1e-6, side="right") - 1
        age = np.where(last >= 0, grid - time[mine][last], np.inf)
        fresh = age <= max(hold_s, step_s)
        placed[fresh, k] = values[mine][last[fresh]]
        n_held[k] = int((fresh & (age >= step_s)).sum())
    if n_held.any():
        held = [f"{channels[k]} ({n_held[k]:,})" for k in np.flatnonzero(n_held)]
        notices.append(
            f"{place}: {int(n_held.sum()):,} cells without a reading of their own were "
            f"held at the last value for up to {hold_s:g} s: {listed(held)}."
        )
    return _without_empty(
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


def _without_empty(readings: Readings, place: str) -> Readings:
    """Leave out rows in which no tag has a value: the historian was down."""
    is_read = ~np.isnan(readings.values).all(axis=1)
    if is_read.all():
        return readings
    time = readings.time[is_read]
    lost = int((~is_read).sum())
    return Readings(
        channels=readings.channels,
        values=readings.values[is_read],
        time=time,
        breaks=breaks_from_time(time, readings.step_s),
        step_s=readings.step_s,
        labels=None,
        is_utc=readings.is_utc,
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
            "the table."
        )
    return np.asarray(numbers.fill_null(float("nan")).to_numpy(), np.float64)


def _bad_quality(column: Any, place: str, notices: list[str]) -> Any:
    """Return which readings are bad: by OPC code, by 1 and 0, or by word."""
    import polars as pl

    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    codes = texts.cast(pl.Float64, strict=False)
    if codes.null_count() == 0:
        numbers = codes.to_numpy()
        is_flag = np.isin(numbers, (0, 1)).all()
        is_bad = numbers == 0 if is_flag else numbers < _OPC_GOOD
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


def _without_short_gaps(
    time: Floats, step_s: float, hold_s: float
) -> tuple[Ints, Floats]:
    """Return the row to take for each row of the grid, -1 where one is put in."""
    steps = np.diff(time)
    is_short = (steps > GAP_FACTOR * step_s) & (steps <= hold_s + step_s)
    lost = np.where(is_short, np.rint(steps / step_s).astype(np.int64) - 1, 0)
    repeat = np.append(lost + 1, 1)
    taken = np.repeat(np.arange(len(time)), repeat)
    since = np.arange(len(taken)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    return np.where(since > 0, -1, taken), time[taken] + since * step_s


def check_channels(train: Sequence[str], test: Sequence[str], root: Path) -> None:
    """Refuse tables with different tags, naming them."""
    for here, there, where in (
        (train, test, "train but not in test"),
        (test, train, "test but not in train"),
    ):
        only = [name for name in here if name not in set(there)]
        if only:
            raise FileError(
                f"{root}: {listed(only)} is in {where}: both tables must have the same "
                "tags."
            )
