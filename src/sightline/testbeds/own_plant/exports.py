"""Exports of a historian, wide or long, as rows in even steps of time.

A wide export has one column for each tag and one row for each time stamp; short gaps
are filled. A long export has one row for each reading; readings are put on an even grid
of time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints, Labels, check_labels
from sightline.data.recording import expanded_rows, step_from
from sightline.data.segments import GAP_FACTOR, breaks_from_time
from sightline.data.zones import stamp
from sightline.errors import FileError, naming
from sightline.tables.cells import TextCells, label_codes, plain
from sightline.testbeds.base import (
    HOLD_S,
    MOST_NAMES,
    counts_by_channel,
    hold,
    hold_words,
    still_missing,
)
from sightline.testbeds.own_plant.tables import (
    OpenedTable,
    StateWords,
    is_like_labels,
)
from sightline.text import counted, duration, names, plural

# The largest number of rows of a grid for each row of its table.
_MOST_GROWTH = 1000
_NOTHING_LEFT = "tags.csv leaves no tag of it, because all have the role ignore."
_GOOD = ("good", "ok", "valid", "true", "raw", "good, non-specific")
# OPC: the two highest of eight bits mean good. OPC UA: those of 32 bits mean bad.
_OPC_GOOD = 192
_UA_NOT_GOOD = 0x4000_0000
# Steps that a plant would choose, in seconds.
_NICE_STEPS = np.array([1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600])


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
    units : mapping of str to str
        Units that stand in the table, by tag.
    """

    channels: tuple[str, ...]
    values: Floats
    time: Floats
    breaks: Ints
    step_s: float
    labels: Labels | None
    is_utc: bool
    notices: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)


def readings_of(
    source: OpenedTable, states: StateWords, *, may_be_empty: bool = False
) -> Readings:
    """Return a table in even steps of time.

    Parameters
    ----------
    source : OpenedTable
        The table; it is used up.
    states : StateWords
        How words are read.
    may_be_empty : bool
        Whether a column of a wide table may hold no number at all, as in a short piece
        of a longer record.

    Raises
    ------
    FileError
        If no tag is left, a tag holds no number, or no reading is good.
    StreamError
        If the column of labels holds anything but 0, 1 and -1.
    """
    if source.columns.tag is None:
        return read_wide(source, states, may_be_empty=may_be_empty)
    return read_long(source, states)


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


class _Missing:
    """Counts the cells that were taken as missing, for one sentence of each kind."""

    def __init__(self, source: OpenedTable) -> None:
        self.source = source
        self.texts: dict[str, Counter[str]] = {}
        self.codes: dict[str, int] = {}

    def numbers(
        self, column: Any, states: Mapping[str, int] | None, *, name: str
    ) -> Floats:
        """Return a column as numbers, nan where it holds none.

        Parameters
        ----------
        column : TextCells or polars series
            Numbers, or text that was read.
        states : mapping, optional
            The number of each word, if it is a column of words.
        name : str
            The tag.
        """
        import polars as pl

        if isinstance(column, TextCells):
            series, words = column.numbers, column.words
            if states is not None:
                mapped = words.str.to_lowercase().replace_strict(
                    states, default=None, return_dtype=pl.Float64
                )
                series, words = series.fill_null(mapped), words.filter(mapped.is_null())
            self.count_texts(name, words)
        elif column.dtype.is_numeric():
            series = column.cast(pl.Float64)
        else:
            series = pl.Series(name, [None] * len(column), pl.Float64)
        return self.without_codes(series.fill_null(float("nan")).to_numpy(), name)

    def count_texts(self, name: str, words: Any) -> None:
        """Count the words of a tag that are taken as missing."""
        words = words.drop_nulls()
        if len(words):
            self.texts[name] = Counter(dict(sorted(words.value_counts().rows())))

    def without_codes(self, values: Floats, name: str) -> Floats:
        """Return values with nan for the numbers that mean "no value"."""
        codes = self.source.settings.missing_values
        if not codes:
            return np.asarray(values, np.float64)
        # A table may hold them in single precision.
        with np.errstate(over="ignore"):
            singles = np.asarray(codes, np.float32)
        is_code = np.isin(values, [*codes, *singles[np.isfinite(singles)].tolist()])
        if not is_code.any():
            return np.asarray(values, np.float64)
        self.codes[name] = int(is_code.sum())
        return np.where(is_code, np.nan, values)

    def notices(self) -> list[str]:
        """Return a sentence about text, and one about codes."""
        notices = []
        if self.texts:
            said = [
                f"{tag} ({names(times, MOST_NAMES)})"
                for tag, counted in self.texts.items()
                for times in [
                    [f"{text!r:.40} {n:,} times" for text, n in counted.most_common()]
                ]
            ]
            total = sum(counted.total() for counted in self.texts.values())
            notices.append(
                f"{self.source.place}: text in {plural(total, 'cell')} was taken as "
                f"missing: {names(said, MOST_NAMES)}."
            )
        if self.codes:
            said = [f"{tag} ({n:,})" for tag, n in self.codes.items()]
            notices.append(
                f"{self.source.place}: {plural(sum(self.codes.values()), 'cell')} with "
                f"one of missing_values, taken as missing: {names(said, MOST_NAMES)}."
            )
        return notices


def _no_number(path: Path, column: str) -> FileError:
    return FileError(
        f"{path}: column {column!r} holds no number at all: name it with ignore in the "
        "section [columns] of plant.toml, or take it out of the table."
    )


def _usual_step(time: Floats, path: Path) -> float:
    """Return the usual step between time stamps, in seconds."""
    step_s = step_from(None, time)
    if step_s is None:
        raise FileError(
            f"{path}: needs two different time stamps, or its step is unknown."
        )
    return step_s


def _check_growth(
    n_rows: int, n_before: int, source: OpenedTable, step_s: float
) -> None:
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


def read_wide(
    source: OpenedTable, states: StateWords, *, may_be_empty: bool = False
) -> Readings:
    """Return a wide table as readings: each column is a tag.

    Rows are sorted by time, short gaps are filled with rows, and missing cells are held
    at the last value for as long as `PlantSettings` says. Parameters as of
    `readings_of`.

    Raises
    ------
    FileError
        If no tag is left, or a column holds no number.
    StreamError
        If the column of labels holds anything but 0, 1 and -1.
    """
    time, place, channels = source.time, source.place, source.columns.tags
    if not channels:
        empty = "has no column besides time to take as a tag."
        raise FileError(f"{source.path}: {_NOTHING_LEFT if source.ignored else empty}")
    holds = source.holds_of(channels)
    notices = source.notices
    labels = _labels(source)
    values, is_bad = _wide_values(
        source,
        states,
        needs_bad=bool((holds > HOLD_S).any()),
        may_be_empty=may_be_empty,
    )
    order = _in_order(time, place, notices)
    if order is not None:
        time, values = time[order], values[order]
        labels = None if labels is None else labels[order]
        is_bad = None if is_bad is None else is_bad[order]
    hold_s = source.settings.hold_s
    step_s = source.settings.step_s or _usual_step(time, source.path)
    # Rows that are missing in short gaps: at most `hold_s` seconds of them.
    steps = np.diff(time)
    is_short = (steps > GAP_FACTOR * step_s) & (steps <= hold_s + step_s)
    lost = np.rint(np.where(is_short, steps / step_s, 1.0)).astype(np.int64) - 1
    n_filled = int(lost.sum())
    _check_growth(len(time) + n_filled, len(time), source, step_s)
    if n_filled:
        notices.append(
            f"{place}: {counted(n_filled, 'row', 'is', 'are')} missing in gaps of up "
            f"to {hold_s:g} s and filled with the last values."
        )
        row, since = expanded_rows(lost)
        is_bad = None if is_bad is None else is_bad[row]
        values = values[row]
        values[since > 0] = np.nan
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
        hold_s=holds,
        is_bad=is_bad,
    )
    return Readings(
        channels=tuple(channels),
        values=values,
        time=time,
        breaks=breaks,
        step_s=step_s,
        labels=labels,
        is_utc=source.is_utc,
        notices=(*notices, *held),
        units=source.table.units,
    )


def _wide_values(
    source: OpenedTable, states: StateWords, *, needs_bad: bool, may_be_empty: bool
) -> tuple[Floats, Bools | None]:
    """Return the values of a wide table, and which cells say that there is none.

    Each column leaves the frame as it is read, so that a table of numbers is in memory
    hardly more than once.
    """
    frame, columns = source.table.frame, source.columns
    missing = _Missing(source)
    values = np.empty((frame.height, len(columns.tags)))
    shape = values.shape
    is_bad = np.zeros(shape, np.bool_) if needs_bad and source.cells else None
    n_poor = 0
    for k, tag in enumerate(columns.tags):
        column = frame.drop_in_place(tag)
        if is_bad is not None:
            is_bad[:, k] = source.bad_cells(tag)
        cells = source.cells.pop(tag, column)
        values[:, k] = missing.numbers(cells, states.numbers.get(tag), name=tag)
        if tag in columns.qualities:
            is_poor, _ = bad_quality(frame[columns.qualities[tag]])
            values[is_poor, k] = np.nan
            n_poor += int(is_poor.sum())
            if is_bad is not None:
                is_bad[:, k] |= is_poor
        if not may_be_empty and np.isnan(values[:, k]).all():
            raise _no_number(source.path, tag)
    source.notices += missing.notices()
    if n_poor:
        source.notices.append(
            f"{source.place}: {n_poor:,} cells are of bad quality by the column of "
            "quality of their tag and taken as missing."
        )
    return values, is_bad


def _labels(source: OpenedTable) -> Labels | None:
    """Return the labels of a wide table; None if it has none."""
    name = source.columns.label
    if name is None:
        return None
    codes, words = label_codes(source.table.frame[name])
    if words:
        source.notices.append(f"{source.place}: labels were read as {words}.")
    with naming(source.path):
        labels = check_labels(codes, name)
    if {*np.unique(labels).tolist()} == {-1, 1}:
        raise FileError(
            f"{source.path}: column {name!r} holds 1 and -1 and no 0: write 1 for "
            "attack, 0 for normal and -1 for rows to ignore."
        )
    return labels


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


def read_long(source: OpenedTable, states: StateWords) -> Readings:
    """Return a long table as readings: each step has the last reading at or before it.

    Readings of bad quality are dropped. A reading stays valid for as long as
    `PlantSettings` says; once a bad reading followed it, until it is `HOLD_S` old. Rows
    in which no tag has a value are left out.

    Raises
    ------
    FileError
        If no tag or no good reading is left, or a tag is called "label".
    """
    time, place, notices = source.time, source.place, source.notices
    values = _long_values(source, states)
    tags = source.table.frame[source.columns.tag]
    channels, parts = _by_tag(tags, time, source)
    holds = source.holds_of(channels)
    step_s = source.settings.step_s
    if step_s is None:
        step_s = _proposed_step(time, parts, source)
    usual = _steps_of(time, parts)
    if slow := np.flatnonzero(usual > holds).tolist():
        said = [f"{channels[k]} ({duration(usual[k])})" for k in slow]
        notices.append(
            f"{place}: the usual step of {names(said, MOST_NAMES)} is longer than "
            "hold_s; if the historian writes only changes, state a longer one in the "
            f"section [hold_s] of plant.toml, such as '{channels[slow[0]]}' = "
            "'forever'."
        )
    # The last step is at or after the last reading, so that no reading is lost.
    n_steps = int(np.ceil((time.max() - time.min()) / step_s - 1e-6)) + 1
    _check_growth(n_steps, len(np.unique(time)), source, step_s)
    grid = time.min() + step_s * np.arange(n_steps)
    placed = np.full((n_steps, len(channels)), np.nan)
    counts = np.zeros((len(channels), 2), np.int64)
    for k, rows in enumerate(parts):
        placed[:, k], *counts[k] = _on_grid(
            time[rows], values[rows], grid, step_s=step_s, hold_s=float(holds[k])
        )
    notices += _grid_notices(counts, channels, place, holds)
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
            units=source.table.units,
        ),
        place,
    )
    missing = still_missing(readings.values, channels, place, holds)
    return replace(readings, notices=(*readings.notices, *missing))


def _long_values(source: OpenedTable, states: StateWords) -> Floats:
    """Return the value of each reading; nan if it has none or is of bad quality."""
    import polars as pl

    frame, columns = source.table.frame, source.columns
    name, missing = columns.values[0], _Missing(source)
    column = source.cells.get(name, frame[name])
    if isinstance(column, TextCells) and states.numbers:
        tags = frame[columns.tag]
        known = pl.DataFrame(
            [
                (tag, word, float(number))
                for tag, numbers in states.numbers.items()
                for word, number in numbers.items()
            ],
            schema={"t": pl.String, "w": pl.String, "n": pl.Float64},
            orient="row",
        )
        spoken = pl.DataFrame({"t": tags, "w": column.words.str.to_lowercase()})
        mapped = spoken.join(known, on=["t", "w"], how="left", maintain_order="left")[
            "n"
        ]
        column = TextCells(
            column.numbers.fill_null(mapped),
            pl.select(pl.when(mapped.is_null()).then(column.words)).to_series(),
        )
    values = missing.numbers(column, None, name=name)
    if np.isnan(values).all():
        raise _no_number(source.path, name)
    source.notices += missing.notices()
    if columns.quality is None:
        return values
    quality = frame[columns.quality]
    is_bad, good = bad_quality(quality)
    if is_bad.any():
        source.notices.append(
            f"{source.place}: {int(is_bad.sum()):,} of {len(is_bad):,} readings are of "
            f"bad quality ({good}) and taken as missing."
        )
    return np.where(is_bad, np.nan, values)


def _proposed_step(time: Floats, parts: Sequence[Ints], source: OpenedTable) -> float:
    """Return the usual step of the fastest tag, and announce it.

    A step within 5% of one that a plant would choose, such as 10 s, becomes that one;
    so does a longer step, if fewer than half of the steps are about as long.
    """
    usual = _steps_of(time, parts)
    if not np.isfinite(usual).any():
        step_s = _usual_step(np.unique(time), source.path)
    else:
        step_s = float(np.nanmin(usual))
        steps = np.diff(time[parts[int(np.nanargmin(usual))]])
        is_even = np.mean(np.abs(steps / step_s - 1) < 0.05) >= 0.5
        below = _NICE_STEPS[_NICE_STEPS <= step_s]
        if not is_even and len(below):
            step_s = float(below[-1])
    near = _NICE_STEPS[np.abs(_NICE_STEPS / step_s - 1) < 0.05]
    step_s = float(near[0]) if len(near) else step_s
    source.notices.append(
        f"{source.place}: got one row every {step_s:g} s, the usual step between "
        "its readings; state another with step_s in plant.toml."
    )
    return step_s


def _steps_of(time: Floats, parts: Sequence[Ints]) -> Floats:
    """Return the usual step of each tag; nan for one with fewer than two readings."""
    steps = [step_from(None, time[rows]) for rows in parts]
    return np.array([np.nan if step is None else step for step in steps])


def _by_tag(
    tags: Any, time: Floats, source: OpenedTable
) -> tuple[list[str], list[Ints]]:
    """Return the tags, and for each the rows of its readings in order of time."""
    all_tags = sorted(set(tags))
    free = [tag for tag in all_tags if tag not in source.ignored]
    if labels := [tag for tag in free if is_like_labels(tag)]:
        raise FileError(
            f"{source.path}: has a tag called {labels[0]!r}: write the labels of a "
            "long table into attacks.csv and give it the role ignore in tags.csv, or a "
            "detector would learn them."
        )
    codes = tags.rank("dense").to_numpy() - 1
    order = np.lexsort((np.arange(len(time)), time, codes))
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
        Readings of the tag in order of time; nan for a bad one.
    grid : array of shape (n_steps,)
        The times of the rows.
    step_s, hold_s : float
        Seconds between rows, and the largest age of a reading.

    Returns
    -------
    placed : array of shape (n_steps,)
        The last good reading at or before each step; nan if it is too old, or there is
        none. After a bad reading, one that is older than `HOLD_S` is too old.
    n_held : int
        Steps whose reading is older than one step.
    n_unused : int
        Readings with a later one in the same step.
    """
    placed = np.full(len(grid), np.nan)
    is_bad = np.isnan(values)
    if is_bad.all():
        return placed, 0, 0
    bad_time = time[is_bad]
    time, values = time[~is_bad], values[~is_bad]
    # A tolerance of 1 us, because floats cannot hold all times exactly.
    last = np.searchsorted(time, grid + 1e-6, side="right") - 1
    age = np.where(last >= 0, grid - time[last], np.inf)
    longest = np.full(len(grid), hold_s)
    if len(bad_time):
        bad = np.searchsorted(bad_time, grid + 1e-6, side="right") - 1
        is_ended = (bad >= 0) & (last >= 0) & (bad_time[bad] >= time[last])
        longest[is_ended] = min(hold_s, HOLD_S)
    # A reading since the last step is new; an older one is held.
    is_new = age < step_s - 1e-6
    is_valid = is_new | (age <= longest + 1e-6)
    is_valid &= last >= 0
    placed[is_valid] = values[last[is_valid]]
    n_unused = len(time) - len(np.unique(last[is_new]))
    return placed, int((is_valid & ~is_new).sum()), n_unused


def _grid_notices(
    counts: Ints, channels: Sequence[str], place: str, hold_s: Floats
) -> list[str]:
    """Return notices about held cells and unused readings, by channel."""
    held, unused = counts.T
    notices = []
    if held.any():
        notices.append(
            f"{place}: {plural(int(held.sum()), 'cell')} without a new reading "
            f"{'was' if held.sum() == 1 else 'were'} held at the last value for up to "
            f"{hold_words(hold_s)}: "
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


def bad_quality(column: Any) -> tuple[Bools, str]:
    """Return which readings are bad, and in words which are good.

    A column of nothing but 0 and 1 is a flag, 1 for good. Other numbers are OPC codes,
    good from 192 on; codes of 32 bits, with 0 among them, are those of OPC UA, good if
    the two highest bits are 0. Words are good if they are in `_GOOD`. An empty cell is
    bad.
    """
    import polars as pl

    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    texts = texts.replace("", None)
    codes = texts.cast(pl.Float64, strict=False)
    if codes.null_count() == texts.null_count() < len(texts):
        is_flag = bool(codes.drop_nulls().is_in([0.0, 1.0]).all())
        is_status = plain(column.name) == "statuscode"
        # A reading without quality counts as bad.
        numbers = codes.fill_null(np.inf).to_numpy()
        if is_status or bool((codes >= _UA_NOT_GOOD).any()):
            return numbers >= _UA_NOT_GOOD, "0 is good (OPC UA)"
        numbers = np.where(np.isinf(numbers), -1, numbers)
        good = "1 is good" if is_flag else f"{_OPC_GOOD} and more is good (OPC)"
        return numbers < (1 if is_flag else _OPC_GOOD), good
    is_good = texts.is_in(list(_GOOD)).fill_null(False)
    return ~is_good.to_numpy(), "'Good' is good"
