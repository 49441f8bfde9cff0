"""Checks of what a caller gives for a stream: arrays, frames, time stamps, attacks.

Each `check_x` function returns what a `ResidualStream` holds, or raises `StreamError`.

A frame is an object with `columns` and `to_numpy`; neither pandas nor polars is
imported. `TableColumns` says which columns of two tables are residuals, and which are
labels, time or alarms.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.data import arrays
from sightline.data.arrays import Bools, Floats, Ints, Labels, Residuals
from sightline.data.row_tables import ArrayRows, KeptRows, Rows, as_rows
from sightline.data.segments import (
    Attack,
    Segment,
    breaks_kept,
    check_breaks,
    resolve_breaks,
)
from sightline.errors import StreamError
from sightline.text import names, plural

# More continuous runs than this, and more than one in this many rows, look like jitter.
MANY_BREAKS = 100
# How many names a message lists.
MOST_NAMES = 6
# The end of a time stamp that carries its offset from UTC.
_OFFSET = re.compile(r":\d\d(\.\d+)?\s*([Zz]|[+-]\d\d(:?\d\d)?)$")

_Array = TypeVar("_Array", bound=npt.NDArray[Any])
_Check = Callable[[object, str], _Array]


# Frames


def is_frame(values: object) -> bool:
    """Return whether values are a pandas or polars frame."""
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def columns_of(frame: Any, name: str) -> list[str]:
    """Return the names of a frame's columns as text; raise if one occurs twice."""
    if not is_frame(frame):
        raise StreamError(
            f"`{name}` must be a pandas or polars frame; got {type(frame).__name__}."
        )
    columns = [str(column) for column in frame.columns]
    arrays.check_unique(columns, f"{name} columns")
    return columns


def column_of(frame: Any, column: str | None) -> npt.NDArray[Any]:
    """Return the column whose name, as text, is `column`."""
    by_text: dict[str | None, Any] = {str(name): name for name in frame.columns}
    return np.asarray(frame[by_text[column]].to_numpy())


def column_zone(frame: Any, column: str) -> str | None:
    """Return the time zone of a polars column of date-times; None if it has none.

    Date-times of pandas carry their offset and need none; see `zone_in_text`.
    """
    by_text = {str(name): name for name in frame.columns}
    zone: str | None = getattr(frame[by_text[column]].dtype, "time_zone", None)
    return zone


def matrix_of(frame: Any, channels: Sequence[str], name: str) -> Residuals:
    """Return the number columns `channels` of a frame, in that order.

    The array has shape (rows, channels). It is float32 if every column fits into
    float32, else float64; a missing value becomes nan.
    """
    if not channels:
        raise StreamError(f"`{name}` must have at least one channel; it has none.")
    columns = []
    for channel in channels:
        column = arrays.as_array(column_of(frame, channel), channel)
        if column.dtype.kind not in "iuf":
            raise StreamError(
                f"`{name}` column {channel!r} must hold numbers; got type "
                f"{column.dtype}: if it is the label or the time, name it as such."
            )
        columns.append(column)
    dtype = np.result_type(np.float32, *(column.dtype for column in columns))
    values = np.stack(columns, axis=1).astype(dtype, copy=False)
    return arrays.check_residuals(values, name)


# Channels and rows


def check_same_channels(
    train: Sequence[str], other: Sequence[str], name: str = "test"
) -> None:
    """Raise `StreamError` if two tables have different columns, naming these."""
    only_train = [c for c in train if c not in set(other)]
    only_other = [c for c in other if c not in set(train)]
    if only_train or only_other:
        listed = [
            names(columns, MOST_NAMES, quoted=True) or "none"
            for columns in (only_train, only_other)
        ]
        raise StreamError(
            f"`train` and `{name}` must have the same channels; "
            f"only in train: {listed[0]}; only in {name}: {listed[1]} "
            "(name the label and time columns if these are they)."
        )


def check_order(
    frame: object, channels: Sequence[str], name: str, first: str = "train"
) -> None:
    """Raise `StreamError` if a frame's columns are not `channels` in that order."""
    columns = columns_of(frame, name)
    if columns != list(channels):
        check_same_channels(channels, columns, name)
        raise StreamError(
            f"`{first}` and `{name}` must have their channels in the same order; "
            f"reorder the columns of `{name}`."
        )


def rows_of(values: object, name: str) -> Rows:
    """Return an array, a frame or `Rows` as `Rows`."""
    if is_frame(values):
        return ArrayRows(matrix_of(values, columns_of(values, name), name))
    return as_rows(values, name)


def check_channels(
    channels: Sequence[str] | None, frame: object, rows: Rows, name: str
) -> tuple[str, ...]:
    """Return the channels' names: as given, else the frame's columns, else numbers.

    Raises `StreamError` if there are more or fewer names than columns, or one twice.
    """
    if channels is None and is_frame(frame):
        channels = columns_of(frame, name)
    if channels is None:
        return tuple(f"channel_{j}" for j in range(rows.n_channels))
    channels = tuple(str(channel) for channel in channels)
    if len(channels) != rows.n_channels:
        raise StreamError(
            f"`{name}` must name every channel; got {len(channels)} names for "
            f"{rows.n_channels} channels."
        )
    arrays.check_unique(channels, name)
    return channels


def check_table(
    values: object, name: str, channels: Sequence[str], first: str = "train"
) -> Rows:
    """Return a table as rows with the channels of the `first` one, in that order.

    Raises
    ------
    StreamError
        If it has other channels, or a frame has them in another order, or it is empty.
    """
    if is_frame(values):
        check_order(values, channels, name, first)
    rows = rows_of(values, name)
    if rows.n_channels != len(channels):
        raise StreamError(
            f"`{name}` must have the {plural(len(channels), 'channel')} of `{first}`; "
            f"it has {rows.n_channels}."
        )
    if rows.n_rows < 1:
        raise StreamError(f"`{name}` must have at least 1 row; it is empty.")
    return rows


def check_train(
    values: object, channels: Sequence[str] | None
) -> tuple[Rows, tuple[str, ...]]:
    """Return train rows and the names of their channels.

    Raises `StreamError` if there is no channel, or fewer than the 2 rows that a
    reference needs.
    """
    rows = rows_of(values, "train")
    if rows.n_channels == 0:
        raise StreamError("`train` must have at least one channel; it has none.")
    if rows.n_rows < 2:
        raise StreamError(
            f"`train` must have at least 2 rows to fit a reference; it has "
            f"{rows.n_rows}."
        )
    return rows, check_channels(channels, values, rows, "channels")


def check_telemetry(
    train: object,
    test: object,
    channels: Sequence[str] | None,
    n_train: int,
    n_test: int,
) -> dict[str, object]:
    """Return the three telemetry fields of a stream.

    The two tables are None, and there are no channels, if neither is given.

    Raises
    ------
    StreamError
        If one of the two is missing, has other rows than its residuals, or other
        channels than the first.
    """
    if (train is None) != (test is None):
        raise StreamError(
            "`telemetry_train` and `telemetry_test` must be given together."
        )
    if train is None:
        return {
            "telemetry_train": None,
            "telemetry_test": None,
            "telemetry_channels": (),
        }
    first = rows_of(train, "telemetry_train")
    named = check_channels(channels or None, train, first, "telemetry_channels")
    order = columns_of(train, "telemetry_train") if is_frame(train) else named
    second = check_table(test, "telemetry_test", order, "telemetry_train")
    tables = {"telemetry_train": first, "telemetry_test": second}
    for (name, rows), n_rows in zip(tables.items(), (n_train, n_test), strict=True):
        if rows.n_rows != n_rows:
            raise StreamError(
                f"`{name}` must have the rows of its residuals; got {rows.n_rows} for "
                f"{n_rows}."
            )
    return tables | {"telemetry_channels": named}


# One value for each row


def check_per_row(
    values: object, name: str, rows: str, n_rows: int, check: _Check[_Array]
) -> _Array | None:
    """Return checked values, one for each row of a table; None if none are given.

    Parameters
    ----------
    values : array-like of shape (n_rows,), optional
        The values.
    name : str
        The parameter's name, for messages.
    rows, n_rows : str, int
        The table to which they belong (``"train"`` or ``"test"``), and its rows.
    check : callable
        Returns the array of ``(values, name)``, or raises `StreamError`.
    """
    if values is None:
        return None
    array = check(values, name)
    if len(array) != n_rows:
        raise StreamError(
            f"`{name}` must have one value for each {rows} row; got {len(array)} for "
            f"{n_rows} rows."
        )
    return array


def check_test_labels(labels: object, n_test: int) -> Labels:
    """Return the labels of the test rows as int8; all normal if none are given.

    Raises `StreamError` if no row is normal: false alarms could not be counted.
    """
    codes = check_per_row(labels, "labels", "test", n_test, arrays.check_labels)
    if codes is None:
        return np.zeros(n_test, np.int8)
    if not (codes == arrays.NORMAL).any():
        raise StreamError(
            "`labels` must mark some test rows as normal (0); none is, and -1 "
            "means ignore: if your file says 1 for normal and -1 for attack, "
            "map it to 0 and 1."
        )
    return codes


def check_one_sided(one_sided: object, p: int) -> bool | None:
    """Return whether a stream is one-sided as given; refuse it for several channels."""
    if one_sided is not None and not isinstance(one_sided, bool):
        raise StreamError(f"`one_sided` must be True or False; got {one_sided!r:.40}.")
    if one_sided and p > 1:
        raise StreamError(
            f"`one_sided` is for a stream of one channel; this one has {p}: leave it "
            "out, or give a single score."
        )
    return one_sided


def attack_free_rows(labels: npt.ArrayLike, name: str) -> Bools:
    """Return which train rows are used: all but the ignored ones.

    Raises
    ------
    StreamError
        If a row is labelled as an attack: the normal reference is fitted on train.
    """
    codes = arrays.check_labels(labels, f"{name} label")
    attacked = np.flatnonzero(codes == arrays.ATTACK)
    if len(attacked):
        raise StreamError(
            f"`{name}` must be attack-free, for the normal reference is fitted on it; "
            f"row {attacked[0]} is the first of {len(attacked)} labelled attack: "
            "leave them out."
        )
    return np.asarray(codes != arrays.IGNORED)


def without_ignored(
    rows: Rows,
    labels: npt.ArrayLike | None,
    time: npt.ArrayLike | None,
    breaks: npt.ArrayLike | None,
) -> tuple[Rows, npt.ArrayLike | None, npt.ArrayLike | None]:
    """Return train rows, their time stamps and breaks without the ignored rows.

    Parameters
    ----------
    rows : Rows
        The train rows.
    labels : array-like of shape (rows,), optional
        0 normal, -1 ignored; an attack raises `StreamError`. Not given: all normal.
    time, breaks : array-like, optional
        Time stamps of all rows, and first rows of continuous runs among all rows.
    """
    if labels is None or (keep := attack_free_rows(labels, "train")).all():
        return rows, time, breaks
    if breaks is not None:
        breaks = breaks_kept(check_breaks(breaks, "train_breaks", len(keep)), keep)
    kept: Rows = KeptRows(rows, keep)
    if isinstance(rows, ArrayRows):
        kept = ArrayRows(rows.values[keep])
    return kept, None if time is None else np.asarray(time)[keep], breaks


# Time


def seconds_of(values: object, name: str) -> Floats:
    """Return time stamps as float64 seconds of shape (rows,).

    Numbers are taken as seconds. Dates count from 1970-01-01. Text is read as ISO; a
    time zone in it is used, and without one none is assumed.

    Examples
    --------
    >>> seconds_of(["1970-01-01T00:01:00", "1970-01-01T01:00:30+01:00"], "time")
    array([60., 30.])
    """
    array = arrays.as_rectangle(values, name)
    if array.ndim != 1:
        raise StreamError(
            f"`{name}` must have one value a row; got shape {array.shape}."
        )
    if array.dtype.kind in "USO":
        array = dates_of(array, name)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise StreamError(
                f"`{name}` must be complete; row {int(np.argmax(np.isnat(array)))} "
                "has no time."
            )
        return array.astype("datetime64[us]").astype(np.int64) / 1e6
    return arrays.check_series(array, name)


def dates_of(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return ISO text, or Python dates, as datetime64 in microseconds."""
    try:
        with warnings.catch_warnings():
            # numpy converts "...Z" and "...+08:00" to UTC, as needed, but warns.
            warnings.simplefilter("ignore")
            text = np.array([str(stamp) for stamp in array.ravel()])
            return text.reshape(array.shape).astype("datetime64[us]")
    except ValueError as error:
        raise StreamError(
            f"`{name}` must be seconds, dates, or ISO text such as "
            f"2015-12-28T10:00:00; {error}."
        ) from error


def zone_in_text(time: object) -> str | None:
    """Return "UTC" if time stamps are text or dates with an offset from UTC.

    The first stamp speaks for all of them.

    Examples
    --------
    >>> zone_in_text(["2026-11-15 08:00:00+01:00"])
    'UTC'
    """
    first = next(iter(time), None) if isinstance(time, Iterable) else None
    return "UTC" if _OFFSET.search(str(first)) else None


def check_clock(
    time: npt.ArrayLike | None, breaks: npt.ArrayLike | None, split: str, n_rows: int
) -> tuple[Floats | None, Ints]:
    """Return the time stamps of a split in seconds, and where its runs begin.

    `breaks` are as given, else from the time stamps, else row 0 alone.
    """
    seconds = check_per_row(time, f"{split}_time", split, n_rows, seconds_of)
    return seconds, resolve_breaks(breaks, seconds, f"{split}_breaks", n_rows)


# Attacks, and notices about the input


def check_attacks(attacks: Sequence[Attack], n_test: int) -> tuple[Attack, ...]:
    """Return the attacks; raise if one does not lie within the test rows."""
    for attack in attacks:
        Segment(attack.start, attack.stop)
        if attack.stop > n_test:
            raise StreamError(
                f"`segments`: attack {attack.id!r} ends at row {attack.stop}, after "
                f"the {n_test} test rows."
            )
    return tuple(attacks)


def input_notices(
    attacks: Sequence[Attack], labels: Labels, breaks: Ints | None
) -> list[str]:
    """Return sentences about attacks without a label and, if derived, many breaks."""
    notices = []
    missing = [
        a.id for a in attacks if not (labels[a.segment.rows] == arrays.ATTACK).any()
    ]
    if missing:
        listed = names(missing, MOST_NAMES, quoted=True)
        notices.append(f"Named attacks without a labelled test row: {listed}.")
    most_breaks = max(MANY_BREAKS, len(labels) // MANY_BREAKS)
    if breaks is not None and len(breaks) > most_breaks:
        notices.append(
            f"The time stamps cut the {len(labels):,} test rows into {len(breaks):,} "
            "runs, and no attack or alarm reaches over a cut: if that is jitter and "
            "not gaps, give test_breaks=[0]."
        )
    return notices


# Words in the names of columns that hold no residual, by the option that claims them.
_ALARM_WORDS = ("alarm", "alarms", "alert", "alerts")
_SCORE_WORDS = ("score", "scores")
_LABEL_WORDS = ("label", "labels", "attack", "attacks", "anomaly", "anomalies")
_TIME_WORDS = ("time", "timestamp", "datetime", "date")
_WORDS = (*_ALARM_WORDS, *_SCORE_WORDS, *_LABEL_WORDS)
# Words that may stand beside them; other words, such as a tag, make it a channel.
_FILLERS = frozenset(
    ("is", "has", "own", "flag", "normal", "no", "detector", "anomalie")
)
# How near a misspelt word must be: "attak", not "store" for "score".
_NEAR = 0.85
_SPLIT = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def is_time_name(column: str) -> bool:
    """Return whether a column is called like one of time stamps.

    Examples
    --------
    >>> is_time_name("Date Time"), is_time_name("timestamp"), is_time_name("runtime")
    (True, True, False)
    """
    words = _words(column)
    return bool(words) and all(
        word in (*_TIME_WORDS, "stamp", "utc", "local") for word in words
    )


def is_called(column: str, kind: str) -> bool:
    """Return whether a column is called like alarms, a score or labels.

    Parameters
    ----------
    column : str
        Its name; case, blanks and small spelling mistakes do not matter.
    kind : {"alarms", "score", "any"}
        What it should be called like.

    Examples
    --------
    >>> is_called("Normal/Attack", "any"), is_called("Anomaly_Score", "score")
    (True, True)
    >>> is_called("alram", "any"), is_called("ALARM_LIT101", "any")
    (True, False)
    """
    wanted = {"alarms": _ALARM_WORDS, "score": _SCORE_WORDS}.get(kind, _WORDS)
    words = _words(column)
    if not all(word in _FILLERS or word.isdigit() or _known(word) for word in words):
        return False
    known = [_known(word) for word in words]
    # "score 1" may be one of several residuals; "attack label (1: attack)" is none.
    if any(word.isdigit() for word in words) and len(list(filter(None, known))) < 2:
        return False
    return any(word in wanted for word in known)


def _words(column: str) -> list[str]:
    return [word.lower() for word in _SPLIT.split(column) if word]


def _known(word: str) -> str:
    """Return the word of `_WORDS` that a word is, or is a misspelling of."""
    for known in _WORDS:
        if word[0] == known[0] and sorted(word) == sorted(known):
            return known
    return next(iter(get_close_matches(word, _WORDS, n=1, cutoff=_NEAR)), "")


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """The columns of two tables, train and test, that are no residuals.

    Parameters
    ----------
    label, time, alarms, score : str, optional
        Columns of the test table; the train table may have them too.
    ignore : tuple of str
        Columns of either table to leave out.
    """

    label: str | None = None
    time: str | None = None
    alarms: str | None = None
    score: str | None = None
    ignore: tuple[str, ...] = ()

    def residuals(self, columns: Sequence[str], table: str) -> list[str]:
        """Return the columns of one table that hold residuals.

        Raises
        ------
        StreamError
            If a column that no option claims is called like alarms, a score, labels
            or time: a detector's alarms taken as a residual would give it away.
        """
        claimed = (self.label, self.time, self.alarms, self.score, *self.ignore)
        left = [column for column in columns if column not in claimed]
        for column in left:
            if not is_time_name(column) and not is_called(column, "any"):
                continue
            options = (
                "--time" if is_time_name(column) else "--alarms, --score or --label"
            )
            raise StreamError(
                f"`{table}` column {column!r} is probably no residual: name it with "
                f"{options}, leave it out with --ignore {column} (in Python the "
                "arguments of these names), or rename it if it is one."
            )
        return left

    def channels(self, train: Sequence[str], test: Sequence[str]) -> list[str]:
        """Return the channels of two tables with these columns, in the order of train.

        Raises
        ------
        StreamError
            If `test` lacks a named column, one to ignore is in neither table, or the
            other columns differ.
        """
        for option in ("label", "time", "alarms", "score"):
            column = getattr(self, option)
            if column is not None and column not in test:
                raise StreamError(
                    f"`test` has no column {column!r} to take the {option} from; it "
                    f"has {names(test, MOST_NAMES, quoted=True)}."
                )
        for column in self.ignore:
            if column not in train and column not in test:
                raise StreamError(
                    f"`test` has no column {column!r} to ignore; it has "
                    f"{names(test, MOST_NAMES, quoted=True)}."
                )
        channels = self.residuals(train, "train")
        check_same_channels(channels, self.residuals(test, "test"))
        return channels
