"""Exports of a historian, wide or long, as rows in even steps of time.

A wide export has one column for each tag and one row for each time stamp; short gaps
are filled. A long export has one row for each reading; readings are put on an even grid
of time. Every cell gets its `Validity` here, and nowhere else; rows that were not
watched are taken out, and remembered as time not watched.
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
from sightline.data.validity import (
    Codes,
    Gate,
    Mode,
    Unwatched,
    Validity,
    breaks_after,
    code_counts,
    hold,
    is_usable,
    spans,
)
from sightline.data.zones import TimeOrder, in_time_order, stamp
from sightline.errors import FileError, naming
from sightline.tables.cells import (
    EMPTY,
    GOOD,
    MISSING,
    TextCells,
    label_codes,
    plain,
)
from sightline.testbeds.base import MOST_NAMES, counts_by_channel
from sightline.testbeds.own_plant.settings import PlantSettings
from sightline.testbeds.own_plant.tables import (
    OpenedTable,
    StateWords,
    is_like_labels,
)
from sightline.text import counted, duration, legible, names, plural

# The largest number of rows of a grid for each row of its table.
_MOST_GROWTH = 1000
_NOTHING_LEFT = "tags.csv leaves no tag of it, because all have the role ignore."
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
        nan where a cell cannot be used.
    validity : array of int8, shape (n_rows, n_channels)
        The `Validity` of each cell.
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
    unwatched : tuple of Unwatched
        Time whose rows were taken out.
    clock : tuple of str
        Those of the notices that say that time cannot be believed.
    words : mapping of str to (array, polars series)
        By tag, the times of cells with text that is no value, and the texts.
    """

    channels: tuple[str, ...]
    values: Floats
    validity: Codes
    time: Floats
    breaks: Ints
    step_s: float
    labels: Labels | None
    is_utc: bool
    notices: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    unwatched: tuple[Unwatched, ...] = ()
    clock: tuple[str, ...] = ()
    words: Mapping[str, tuple[Floats, Any]] = field(default_factory=dict)


def readings_of(
    source: OpenedTable, states: StateWords, *, may_be_empty: bool = False
) -> Readings:
    """Return a table in even steps of time: held, and without what was not watched.

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
    readings = raw_readings(source, states, may_be_empty=may_be_empty)
    values, codes = hold(
        readings.values,
        readings.validity,
        readings.time,
        source.holds_of(readings.channels),
    )
    place = source.place
    mode = mode_of(source.settings, readings.channels, states, source.path)
    reasons = Gate(step_s=readings.step_s, mode=mode).reasons(values, codes)
    is_watched = reasons == 0
    if not is_watched.any() and not may_be_empty:
        raise FileError(
            f"{place}: in no row can at least half of the tags be used: check how it "
            "was exported, and missing_values and hold_s in plant.toml."
        )
    texts = texts_in(readings.words)
    told = code_counts(codes, readings.channels, texts=texts)
    notices = [f"{place}: {said}" for said in told]
    if is_watched.all():
        notices += _lost_tags(codes, readings.channels, place)
        return replace(
            readings,
            values=values,
            validity=codes,
            notices=(*readings.notices, *notices),
        )
    notices += _lost_tags(codes[is_watched], readings.channels, place)
    return replace(
        readings,
        values=values[is_watched],
        validity=codes[is_watched],
        time=readings.time[is_watched],
        breaks=breaks_after(is_watched, readings.breaks),
        labels=None if readings.labels is None else readings.labels[is_watched],
        notices=(*readings.notices, *notices),
        unwatched=spans(readings.time, reasons, readings.step_s),
    )


def raw_readings(
    source: OpenedTable, states: StateWords, *, may_be_empty: bool = False
) -> Readings:
    """Return a table in even steps of time, nothing held and every row in it.

    For tables that continue one another: what is held, and what was watched, is
    decided over all of them. Parameters and errors as of `readings_of`.
    """
    if source.columns.tag is None:
        readings = read_wide(source, states, may_be_empty=may_be_empty)
    else:
        readings = read_long(source, states)
    codes = readings.validity
    for k, tag in enumerate(readings.channels):
        if tag not in source.ranges:
            continue
        low, high = source.ranges[tag]
        with np.errstate(invalid="ignore"):
            outside = readings.values[:, k] < (-np.inf if low is None else low)
            outside |= readings.values[:, k] > (np.inf if high is None else high)
        codes[outside, k] = Validity.RANGE
    return readings


def mode_of(
    settings: PlantSettings, channels: Sequence[str], states: StateWords, path: Path
) -> tuple[int, Mode] | None:
    """Return the channel that says whether the plant runs, by ``mode_tag``.

    Raises
    ------
    FileError
        If there is no such tag, or it never has one of the words of ``mode_running``.
    """
    tag = settings.mode_tag
    if tag is None:
        return None
    if tag not in channels:
        raise FileError(
            f"{path}: has no tag {tag!r}, which mode_tag in plant.toml names; it has "
            f"{names(channels, 6)}."
        )
    numbers = states.numbers.get(tag, {})
    running = []
    for word in settings.mode_running:
        number = numbers.get(str(word).strip().lower())
        try:
            running.append(float(word) if number is None else float(number))
        except ValueError:
            raise FileError(
                f"{path}: {tag} never is {word!r}, which mode_running in plant.toml "
                f"names; it is {names(list(numbers) or ['a number'], 6)}."
            ) from None
    mode = Mode(tag=tag, running=tuple(running), settle_s=settings.mode_settle_s)
    return list(channels).index(tag), mode


def _lost_tags(codes: Codes, channels: Sequence[str], place: str) -> list[str]:
    """Return a sentence about tags that cannot be used in half of the watched rows."""
    if is_usable(codes).all():
        return []
    share = (~is_usable(codes)).sum(axis=0) / max(len(codes), 1)
    lost = np.flatnonzero(share > 0.5).tolist()
    poor = [f"{channels[k]} ({share[k]:.0%})" for k in lost]
    if not poor:
        return []
    return [
        f"{place}: in more than half of the watched rows there is no usable value of "
        f"{names(poor, MOST_NAMES)}."
    ]


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
        readings,
        channels=tuple(channels),
        values=readings.values[:, order].copy(),
        validity=readings.validity[:, order].copy(),
    )


class _CellReader:
    """Reads cells as numbers with their codes, and counts texts for one sentence."""

    def __init__(self, source: OpenedTable) -> None:
        self.source = source
        self.texts: dict[str, Counter[str]] = {}
        # By tag, the rows of the table with such a text, and the texts.
        self.words: dict[str, tuple[Ints, Any]] = {}

    def read(
        self, column: Any, states: Mapping[str, int] | None, *, name: str
    ) -> tuple[Floats, Codes]:
        """Return a column as numbers, nan where it holds none, and the codes.

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

        is_bad: Bools | None = None
        if isinstance(column, TextCells):
            series, words = column.numbers, column.words
            if states is not None:
                mapped = words.str.to_lowercase().replace_strict(
                    states, default=None, return_dtype=pl.Float64
                )
                series = series.fill_null(mapped)
                words = pl.select(pl.when(mapped.is_null()).then(words)).to_series()
            is_word = words.is_not_null() & ~words.str.to_lowercase().is_in([*EMPTY])
            is_bad = np.asarray(is_word.fill_null(False).to_numpy(), np.bool_)
            if is_bad.any():
                counts = words.filter(is_bad).value_counts()
                self.texts[name] = Counter(dict(sorted(counts.rows())))
                self.words[name] = np.flatnonzero(is_bad), words.filter(is_bad)
        elif column.dtype.is_numeric():
            series = column.cast(pl.Float64)
        else:
            series = pl.Series(name, [None] * len(column), pl.Float64)
        values = np.asarray(series.fill_null(float("nan")).to_numpy(), np.float64)
        codes = np.where(np.isnan(values), Validity.MISSING, Validity.GOOD)
        missing = self.source.settings.missing_values
        if missing:
            # A table may hold them in single precision.
            with np.errstate(over="ignore"):
                singles = np.asarray(missing, np.float32)
            finite = singles[np.isfinite(singles)].tolist()
            is_code = np.isin(values, [*missing, *finite])
            is_bad = is_code if is_bad is None else is_bad | is_code
        if is_bad is not None:
            codes[is_bad] = Validity.BAD
        return np.where(codes == Validity.GOOD, values, np.nan), codes.astype(np.int8)

    def notices(self) -> list[str]:
        """Return a sentence about text that is no number, no state and no sign."""
        unknown = {
            tag: Counter({t: n for t, n in counted.items() if t.lower() not in MISSING})
            for tag, counted in self.texts.items()
        }
        unknown = {tag: counted for tag, counted in unknown.items() if counted}
        if not unknown:
            return []
        said = [
            f"{tag} ({names(times, MOST_NAMES)})"
            for tag, counted in unknown.items()
            for times in [
                [f"{text!r:.40} {n:,} times" for text, n in counted.most_common()]
            ]
        ]
        total = sum(counted.total() for counted in unknown.values())
        return [
            f"{self.source.place}: text in {plural(total, 'cell')} is no number and no "
            f"state, and is taken as bad: {names(said, MOST_NAMES)}."
        ]


def texts_in(words: Mapping[str, tuple[Floats, Any]]) -> dict[str, int]:
    """Return the texts in the place of values with their counts, most frequent first.

    `words` as of `Readings`.
    """
    counts: Counter[str] = Counter()
    for _, texts in words.values():
        counts.update(dict(sorted(texts.value_counts().rows())))
    return {legible(text): n for text, n in counts.most_common()}


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
    """Return a wide table as raw readings: each column is a tag.

    Rows are sorted by time, and short gaps are filled with rows without a reading.
    Parameters as of `readings_of`.

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
    notices = source.notices
    labels = _labels(source)
    values, codes, words = _wide_values(source, states, may_be_empty=may_be_empty)
    order = _in_order(source, values)
    if order is not None:
        time, values, codes = time[order.rows], values[order.rows], codes[order.rows]
        labels = None if labels is None else labels[order.rows]
        values[order.is_doubtful] = np.nan
        codes[order.is_doubtful] = Validity.CLOCK
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
        values, codes = values[row], codes[row]
        values[since > 0], codes[since > 0] = np.nan, Validity.MISSING
        labels = None if labels is None else labels[row]
        time = time[row] + since * step_s
    return Readings(
        channels=tuple(channels),
        values=values,
        validity=codes,
        time=time,
        breaks=breaks_from_time(time, step_s),
        step_s=step_s,
        labels=labels,
        is_utc=source.is_utc,
        notices=tuple(notices),
        units=source.table.units,
        clock=tuple(source.clock),
        words=words,
    )


def _wide_values(
    source: OpenedTable, states: StateWords, *, may_be_empty: bool
) -> tuple[Floats, Codes, dict[str, tuple[Floats, Any]]]:
    """Return the values of a wide table, their codes, and texts that are no value.

    Each column leaves the frame as it is read, so that a table of numbers is in memory
    hardly more than once.
    """
    frame, columns = source.table.frame, source.columns
    reader = _CellReader(source)
    values = np.empty((frame.height, len(columns.tags)))
    codes = np.empty(values.shape, np.int8)
    for k, tag in enumerate(columns.tags):
        column = frame.drop_in_place(tag)
        cells = source.cells.pop(tag, column)
        values[:, k], codes[:, k] = reader.read(
            cells, states.numbers.get(tag), name=tag
        )
        if tag in columns.qualities:
            is_poor, _ = bad_quality(frame[columns.qualities[tag]])
            values[is_poor, k], codes[is_poor, k] = np.nan, Validity.BAD
        if not may_be_empty and np.isnan(values[:, k]).all():
            raise _no_number(source.path, tag)
    source.notices += reader.notices()
    said = {tag: (source.time[at], texts) for tag, (at, texts) in reader.words.items()}
    return values, codes, said


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


def _in_order(source: OpenedTable, values: Floats) -> TimeOrder | None:
    """Return the rows in order of time, each stamp once; None if they are already.

    Adds notices about clocks, about repeated stamps and about sorting.
    """
    time, place, zone = source.time, source.place, source.settings.timezone
    step_s = source.settings.step_s or step_from(None, time)
    order = in_time_order(time, values, step_s or 1.0)
    if order is None:
        return None
    doubtful = time[order.rows][order.is_doubtful]
    if len(doubtful):
        source.clock.append(
            f"{place}: the clock went back or repeated itself: from "
            f"{stamp(doubtful[0], zone)} to {stamp(doubtful[-1], zone)} "
            f"{counted(len(doubtful), 'row', 'has a time', 'have times')} that others "
            "have as well; what they hold is not used."
        )
        source.notices.append(source.clock[-1])
    if order.n_twice:
        source.notices.append(
            f"{place}: {order.n_twice:,} rows repeat a time stamp; the last of each "
            "counts."
        )
    if order.is_sorted and not len(doubtful):
        source.notices.append(
            f"{place}: rows were not in the order of time and were sorted; if clocks "
            "went back in autumn, state timezone in plant.toml."
        )
    return order


def read_long(source: OpenedTable, states: StateWords) -> Readings:
    """Return a long table as raw readings: each step has the last one since the last.

    Raises
    ------
    FileError
        If no tag or no good reading is left, or a tag is called "label".
    """
    time, place, notices = source.time, source.place, source.notices
    values, is_bad, words = _long_values(source, states)
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
    # Steps lie on whole multiples of the step, so that files that continue one another
    # have one grid. The last is at or after the last reading: none is lost.
    first = int(np.ceil(time.min() / step_s - 1e-6))
    n_steps = int(np.ceil(time.max() / step_s - 1e-6)) - first + 1
    _check_growth(n_steps, len(np.unique(time)), source, step_s)
    grid = np.asarray(step_s * (first + np.arange(n_steps)), np.float64)
    placed = np.full((n_steps, len(channels)), np.nan)
    codes = np.full(placed.shape, Validity.MISSING, np.int8)
    unused = np.zeros(len(channels), np.int64)
    for k, rows in enumerate(parts):
        # A tolerance of 1 us, because floats cannot hold all times exactly.
        last = np.searchsorted(time[rows], grid + 1e-6, side="right") - 1
        is_new = (last >= 0) & (grid - time[rows][last] < step_s - 1e-6)
        taken = rows[last[is_new]]
        placed[is_new, k] = np.where(is_bad[taken], np.nan, values[taken])
        codes[is_new, k] = np.where(is_bad[taken], Validity.BAD, Validity.GOOD)
        unused[k] = len(rows) - len(taken)
    if unused.any():
        notices.append(
            f"{place}: {int(unused.sum()):,} readings were not used, because a later "
            f"one lies in the same step: {counts_by_channel(unused, channels)}."
        )
    return Readings(
        channels=tuple(channels),
        values=placed,
        validity=codes,
        time=grid,
        breaks=np.zeros(1, np.int64),
        step_s=step_s,
        labels=None,
        is_utc=source.is_utc,
        notices=tuple(notices),
        units=source.table.units,
        clock=tuple(source.clock),
        words=words,
    )


def _long_values(
    source: OpenedTable, states: StateWords
) -> tuple[Floats, Bools, dict[str, tuple[Floats, Any]]]:
    """Return the value of each reading, which are bad, and texts that are no value.

    Bad is what has no value, or is bad by its quality.
    """
    import polars as pl

    frame, columns = source.table.frame, source.columns
    name, reader = columns.values[0], _CellReader(source)
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
    values, codes = reader.read(column, None, name=name)
    if np.isnan(values).all():
        raise _no_number(source.path, name)
    source.notices += reader.notices()
    is_bad = np.asarray(codes != Validity.GOOD)
    if columns.quality is not None:
        is_poor, good = bad_quality(frame[columns.quality])
        if is_poor.all():
            raise FileError(f"{source.place}: has no reading of good quality.")
        if is_poor.any():
            source.notices.append(
                f"{source.place}: {int(is_poor.sum()):,} of {len(is_poor):,} readings "
                f"are of bad quality ({good})."
            )
        is_bad |= is_poor
    rows, texts = reader.words.get(name, (np.empty(0, np.int64), None))
    of = np.asarray(frame[columns.tag].gather(rows).to_numpy())
    time = source.time[rows]
    said = {
        str(tag): (time[of == tag], texts.filter(pl.Series(of == tag)))
        for tag in np.unique(of)
    }
    return values, is_bad, said


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


def bad_quality(column: Any) -> tuple[Bools, str]:
    """Return which readings are bad, and in words which are good.

    A column of nothing but 0 and 1 is a flag, 1 for good. Other numbers are OPC codes,
    good from 192 on; codes of 32 bits, with 0 among them, are those of OPC UA, good if
    the two highest bits are 0. Words are good if they are in `GOOD`. An empty cell is
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
    is_good = texts.is_in(list(GOOD)).fill_null(False)
    return ~is_good.to_numpy(), "'Good' is good"
