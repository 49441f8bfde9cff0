"""Exports of a historian, wide or long, as rows in even steps of time.

A wide export has one column for each tag and one row for each time stamp; short gaps
are filled. A long export has one row for each reading; readings are put on an even grid
of time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from sightline.data.arrays import Bools, Floats, Ints, Labels, check_labels
from sightline.data.recording import expanded_rows, stamp, step_from
from sightline.data.segments import GAP_FACTOR, breaks_from_time
from sightline.errors import FileError, naming
from sightline.tables.cells import read_cells
from sightline.testbeds.base import (
    HOLD_S,
    MOST_NAMES,
    counts_by_channel,
    hold,
    still_missing,
)
from sightline.text import names

LABEL = "label"
# The largest number of rows of a grid for each row of its table.
_MOST_GROWTH = 1000
_NOTHING_LEFT = "tags.csv leaves no tag of it, because all have the role ignore."
_GOOD = ("good", "ok", "valid", "true")
# OPC: the two highest of eight bits mean good.
_OPC_GOOD = 192
_Seconds = Annotated[float, Meta(gt=0, le=1e12, description="positive seconds")]
_Text = Annotated[str, Meta(description="text")]


@dataclass(frozen=True, kw_only=True)
class PlantSettings:
    """What `plant.toml` may say.

    Parameters
    ----------
    timezone : str, optional
        Zone of time stamps without an offset; else the plant's own clock.
    time_format : str, optional
        Format of time stamps; ISO 8601 by default.
    step_s : float, optional
        Seconds between rows; by default the usual step of the table.
    hold_s : float
        How long a value stays valid when no other follows.
    """

    timezone: _Text | None = None
    time_format: _Text | None = None
    step_s: _Seconds | None = None
    hold_s: _Seconds = HOLD_S


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A table as it was read.

    Parameters
    ----------
    table : polars frame
        All its columns.
    columns : dict
        Names of the columns by lower-case name.
    time, is_utc
        Seconds of each row, and whether they are UTC.
    path, place
        The file, and its name for notices.
    settings : PlantSettings
        What `plant.toml` says.
    ignored : frozenset of str
        Tags to leave out.
    time_name : str
        The column of time stamps.
    """

    table: Any
    columns: dict[str, str]
    time: Floats
    is_utc: bool
    path: Path
    place: str
    settings: PlantSettings
    ignored: frozenset[str]
    time_name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """A table in even steps of time.

    Parameters
    ----------
    channels : tuple of str
        Names of the columns of `values`.
    values : array of shape (n_rows, n_channels)
        nan where the last reading is older than `PlantSettings.hold_s`.
    time, breaks, step_s
        Seconds of each row, first row of each continuous run, seconds between rows.
    labels : array of shape (n_rows,), optional
        From a column "label"; None if there is none.
    is_utc : bool
        Whether `time` is UTC, or on the plant's own clock.
    notices : tuple of str
        What was filled, dropped or taken as missing.
    """

    channels: tuple[str, ...]
    values: Floats
    time: Floats
    breaks: Ints
    step_s: float
    labels: Labels | None
    is_utc: bool
    notices: tuple[str, ...]


def _numbers(column: Any, path: Path, place: str, notices: list[str]) -> Floats:
    """Return a column as numbers; text becomes nan, with a notice.

    Parameters
    ----------
    column : polars series
        Numbers, booleans (1 and 0) or text.
    path, place
        The file, and its name for notices.
    notices : list of str
        Gets a sentence with the most frequent texts and their counts.

    Raises
    ------
    FileError
        If the column holds no number at all.
    """
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
    elif column.dtype == pl.String:
        numbers, words, _ = read_cells(column, path=path)
        texts = words.drop_nulls()
        if len(texts):
            counted = texts.value_counts(sort=True).rows()
            texts = [f"{text!r:.40} {count:,} times" for text, count in counted]
            notices.append(
                f"{place}: {column.name} holds text, taken as missing: "
                f"{names(texts, MOST_NAMES)}."
            )
    else:
        numbers = pl.Series(column.name, [None] * len(column), pl.Float64)
    if numbers.null_count() == len(numbers):
        raise FileError(
            f"{path}: column {column.name!r} holds no number at all: take it out of "
            "the table, or give it the role ignore in tags.csv."
        )
    return np.asarray(numbers.fill_null(float("nan")).to_numpy(), np.float64)


def _usual_step(time: Floats, path: Path) -> float:
    """Return the usual step between time stamps, in seconds."""
    step_s = step_from(None, time)
    if step_s is None:
        raise FileError(
            f"{path}: needs two different time stamps, or its step is unknown."
        )
    return step_s


def _check_growth(n_rows: int, n_before: int, source: Source, step_s: float) -> None:
    """Refuse a grid that is mostly filled in: a stray stamp, or too small a step.

    A table of n time stamps may grow to ``_MOST_GROWTH * n + 1,000,000`` rows.
    """
    if n_rows > _MOST_GROWTH * n_before + 1_000_000:
        ends = (source.time.min(), source.time.max())
        first, last = (stamp(at, source.settings.timezone) for at in ends)
        raise FileError(
            f"{source.path}: rows each {step_s:g} s from {first} to {last} would be "
            f"{n_rows:,} where it has {n_before:,} time stamps: state a larger step_s "
            "in plant.toml, or take out a time stamp that is far off."
        )


def read_wide(source: Source) -> Readings:
    """Return a wide table as readings: each column is a tag.

    Rows are sorted by time, short gaps are filled with rows, and missing cells are held
    at the last value for up to `PlantSettings.hold_s`.

    Raises
    ------
    FileError
        If no tag is left, or a column holds no number.
    StreamError
        If the column "label" holds anything but 0, 1 and -1.
    """
    table, time, place = source.table, source.time, source.place
    label_name = source.columns.get(LABEL)
    no_tags = {source.time_name, label_name, *source.ignored}
    channels = [column for column in table.columns if column not in no_tags]
    if not channels:
        empty = "has no column besides time to take as a tag."
        raise FileError(f"{source.path}: {_NOTHING_LEFT if source.ignored else empty}")
    notices: list[str] = []
    values = np.empty((table.height, len(channels)))
    for k, channel in enumerate(channels):
        values[:, k] = _numbers(table[channel], source.path, place, notices)
    labels = None
    if label_name is not None:
        with naming(source.path):
            column = table[label_name]
            is_wide = str(column.dtype) in ("Int128", "UInt128")
            codes = (column.cast(float) if is_wide else column).to_numpy()
            labels = check_labels(codes, label_name)
    order = _in_order(time, place, notices)
    if order is not None:
        time, values = time[order], values[order]
        labels = None if labels is None else labels[order]
    hold_s = source.settings.hold_s
    step_s = source.settings.step_s or _usual_step(time, source.path)
    lost = _lost_rows(time, step_s, hold_s)
    n_filled = int(lost.sum())
    _check_growth(len(time) + n_filled, len(time), source, step_s)
    if n_filled:
        notices.append(
            f"{place}: {n_filled:,} rows are missing in gaps of up to {hold_s:g} s and "
            "were filled with the last values."
        )
        row, since = expanded_rows(lost)
        values = np.where((since > 0)[:, None], np.nan, values[row])
        labels = None if labels is None else labels[row]
        time = time[row] + since * step_s
    breaks = breaks_from_time(time, step_s)
    values, held = hold(
        values,
        breaks,
        channels=channels,
        step_s=step_s,
        place=place,
        time=time,
        hold_s=hold_s,
    )
    notices.extend(held)
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


def _in_order(time: Floats, place: str, notices: list[str]) -> Ints | None:
    """Return the rows in order of time, each stamp once; None if they are already.

    Adds notices about repeated stamps and about sorting.
    """
    steps = np.diff(time)
    if (steps > 0).all():
        return None
    order = np.argsort(time, kind="stable")
    # Of several rows with one time stamp the last counts.
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


def _lost_rows(time: Floats, step_s: float, hold_s: float) -> Ints:
    """Return how many rows are missing between each row and the next, in short gaps.

    A gap is a step above `GAP_FACTOR` times the usual one; it is short if at most
    `hold_s` seconds are missing. 0 for all other steps.
    """
    steps = np.diff(time)
    is_short = (steps > GAP_FACTOR * step_s) & (steps <= hold_s + step_s)
    return np.where(is_short, np.rint(steps / step_s).astype(np.int64) - 1, 0)


def read_long(source: Source, tag_name: str) -> Readings:
    """Return a long table as readings: each step has the last reading at or before it.

    Readings of bad quality are dropped. A reading stays valid for up to
    `PlantSettings.hold_s`; rows in which no tag has a value are left out.

    Parameters
    ----------
    source : Source
        The table.
    tag_name : str
        Its column of tags.

    Raises
    ------
    FileError
        If no tag or no good reading is left, or a tag is called "label".
    """
    table, columns, time = source.table, source.columns, source.time
    place = source.place
    notices = _unused_columns(source, tag_name)
    values = _numbers(table[columns["value"]], source.path, place, notices)
    if "quality" in columns:
        is_bad = _bad_quality(table[columns["quality"]], place, notices)
        values = np.where(is_bad, np.nan, values)
    channels, parts = _by_tag(table[tag_name], time, ~np.isnan(values), source)
    step_s, hold_s = source.settings.step_s, source.settings.hold_s
    if step_s is None:
        step_s = _usual_step(np.unique(time), source.path)
        notices.append(
            f"{source.place}: got one row every {step_s:g} s, the usual step between "
            "its readings; state another with step_s in plant.toml."
        )
    # The last step is at or after the last reading, so that no reading is lost.
    n_steps = int(np.ceil((time.max() - time.min()) / step_s - 1e-6)) + 1
    _check_growth(n_steps, len(np.unique(time)), source, step_s)
    grid = time.min() + step_s * np.arange(n_steps)
    placed = np.full((n_steps, len(channels)), np.nan)
    counts = np.zeros((len(channels), 2), np.int64)
    for k, rows in enumerate(parts):
        placed[:, k], *counts[k] = _on_grid(
            time[rows], values[rows], grid, step_s=step_s, hold_s=hold_s
        )
    notices += _grid_notices(counts, channels, place, hold_s)
    readings = _without_empty(
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
    missing = still_missing(readings.values, channels, place, hold_s)
    return replace(readings, notices=(*readings.notices, *missing))


def _unused_columns(source: Source, tag_name: str) -> list[str]:
    """Return a notice about the columns of a long table that are not read."""
    used = {tag_name, source.time_name}
    used |= {source.columns.get(name, "") for name in ("value", "quality")}
    others = [column for column in source.table.columns if column not in used]
    if not others:
        return []
    return [
        f"{source.place}: {names(others, MOST_NAMES)} is not part of a reading and was "
        "not read."
    ]


def _by_tag(
    tags: Any, time: Floats, is_read: Bools, source: Source
) -> tuple[list[str], list[Ints]]:
    """Return the tags, and for each the rows of its good readings in order of time."""
    all_tags = sorted(set(tags))
    if LABEL in (tag.lower() for tag in all_tags):
        raise FileError(
            f"{source.path}: has a tag called {LABEL!r}: write the labels of a long "
            "table into attacks.csv, or a detector would learn them."
        )
    codes = tags.rank("dense").to_numpy() - 1
    order = np.lexsort((np.arange(len(time)), time, codes))
    order = order[is_read[order]]
    bounds = np.searchsorted(codes[order], np.arange(len(all_tags) + 1))
    chosen = [k for k, tag in enumerate(all_tags) if tag not in source.ignored]
    if not chosen:
        raise FileError(f"{source.path}: {_NOTHING_LEFT}")
    return (
        [all_tags[k] for k in chosen],
        [order[bounds[k] : bounds[k + 1]] for k in chosen],
    )


def _on_grid(
    time: Floats, values: Floats, grid: Floats, *, step_s: float, hold_s: float
) -> tuple[Floats, int, int]:
    """Return one tag on the grid.

    Parameters
    ----------
    time, values : array of shape (n_readings,)
        Good readings of the tag in order of time.
    grid : array of shape (n_steps,)
        The times of the rows.
    step_s, hold_s : float
        Seconds between rows, and the largest age of a reading.

    Returns
    -------
    placed : array of shape (n_steps,)
        The last reading at or before each step; nan if it is too old, or there is none.
    n_held : int
        Steps whose reading is older than one step.
    n_unused : int
        Readings with a later one in the same step.
    """
    placed = np.full(len(grid), np.nan)
    if not len(time):
        return placed, 0, 0
    # A tolerance of 1 us, because floats cannot hold all times exactly.
    last = np.searchsorted(time, grid + 1e-6, side="right") - 1
    age = np.where(last >= 0, grid - time[last], np.inf)
    # A reading since the last step is new; an older one is held.
    is_new = age < step_s - 1e-6
    is_valid = is_new | (age <= hold_s + 1e-6)
    placed[is_valid] = values[last[is_valid]]
    n_unused = len(time) - len(np.unique(last[is_new]))
    return placed, int((is_valid & ~is_new).sum()), n_unused


def _grid_notices(
    counts: Ints, channels: Sequence[str], place: str, hold_s: float
) -> list[str]:
    """Return notices about held cells and unused readings, by channel."""
    held, unused = counts.T
    notices = []
    if held.any():
        notices.append(
            f"{place}: {int(held.sum()):,} cells without a new reading were held at "
            f"the last value for up to {hold_s:g} s: "
            f"{counts_by_channel(held, channels)}."
        )
    if unused.any():
        notices.append(
            f"{place}: {int(unused.sum()):,} readings were not used, because a later "
            f"one lies in the same step: {counts_by_channel(unused, channels)}."
        )
    return notices


def _without_empty(readings: Readings, place: str) -> Readings:
    """Return readings without rows in which no tag has a value (historian down)."""
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


def _bad_quality(column: Any, place: str, notices: list[str]) -> Any:
    """Return which readings are bad, by OPC code, by 1 and 0, or by word.

    A column of nothing but 0 and 1 is a flag; other numbers are OPC codes, good from
    192 on; words are good if they are in `_GOOD`. An empty cell is bad.
    """
    import polars as pl

    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    texts = texts.replace("", None)
    codes = texts.cast(pl.Float64, strict=False)
    if codes.null_count() == texts.null_count() < len(texts):
        is_flag = bool(codes.drop_nulls().is_in([0.0, 1.0]).all())
        # A reading without quality counts as bad.
        numbers = codes.fill_null(0.0).to_numpy()
        is_bad = numbers < (1 if is_flag else _OPC_GOOD)
        good = "1 is good" if is_flag else f"{_OPC_GOOD} and more is good (OPC)"
    else:
        is_bad = ~texts.is_in(list(_GOOD)).fill_null(False).to_numpy()
        good = "'Good' is good"
    if is_bad.any():
        notices.append(
            f"{place}: {int(is_bad.sum()):,} of {len(is_bad):,} readings are of bad "
            f"quality ({good}) and taken as missing."
        )
    return is_bad
