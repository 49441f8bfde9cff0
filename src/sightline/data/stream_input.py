"""What callers give for a stream, turned into what a stream holds, or refused."""

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    Bools,
    Floats,
    Ints,
    Labels,
    as_rectangle,
    check_labels,
    check_series,
    check_unique,
)
from sightline.data.frames import columns_of, is_frame, matrix_of
from sightline.data.row_tables import ArrayRows, Rows, as_rows
from sightline.data.segments import Attack, Segment
from sightline.errors import StreamError

# More continuous runs than this, and than one in so many rows, look like jitter.
MANY_BREAKS = 100

_Array = TypeVar("_Array", bound=npt.NDArray[Any])


def attack_free_rows(labels: npt.ArrayLike, name: str) -> Bools:
    """Return which train rows to keep; refuse any that is labelled an attack."""
    codes = check_labels(labels, f"{name} label")
    attacked = np.flatnonzero(codes == ATTACK)
    if len(attacked):
        raise StreamError(
            f"`{name}` must be attack-free, for the normal reference is fitted on it; "
            f"row {attacked[0]} is the first of {len(attacked)} labelled attack: "
            "leave them out."
        )
    return np.asarray(codes != IGNORED)


def check_same_channels(
    train: Sequence[str], other: Sequence[str], name: str = "test"
) -> None:
    """Refuse tables whose columns differ, naming the difference."""
    only_train = [c for c in train if c not in set(other)]
    only_other = [c for c in other if c not in set(train)]
    if only_train or only_other:
        raise StreamError(
            f"`train` and `{name}` must have the same channels; "
            f"only in train: {some_of(only_train) or 'none'}; "
            f"only in {name}: {some_of(only_other) or 'none'} "
            "(name the label and time columns if these are they)."
        )


def seconds_of(values: npt.ArrayLike, name: str) -> Floats:
    """Return time stamps as float64 seconds; dates count from 1970-01-01.

    Text is read as ISO; a zone in it is honoured, and without one none is assumed.
    """
    array = as_rectangle(values, name)
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
    return check_series(array, name)


def dates_of(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return text, or Python dates, as datetime64."""
    try:
        with warnings.catch_warnings():
            # numpy turns "...Z" and "...+08:00" into UTC, as we want, but not silently.
            warnings.simplefilter("ignore")
            text = np.array([str(stamp) for stamp in array.ravel()])
            return text.reshape(array.shape).astype("datetime64[us]")
    except ValueError as error:
        raise StreamError(
            f"`{name}` must be seconds, dates, or ISO text such as "
            f"2015-12-28T10:00:00; {error}."
        ) from error


def rows_of(values: object, name: str) -> Rows:
    """Return an array, a frame or rows as rows."""
    if is_frame(values):
        return ArrayRows(matrix_of(values, columns_of(values, name), name))
    return as_rows(values, name)


def check_channels(
    channels: Sequence[str] | None, frame: object, rows: Rows, name: str
) -> tuple[str, ...]:
    """Return the names of the channels: given, of the frame, or made up."""
    if channels is None and is_frame(frame):
        channels = columns_of(frame, name)
    if channels is None:
        return tuple(f"channel_{j}" for j in range(rows.n_channels))
    named = tuple(str(channel) for channel in channels)
    if len(named) != rows.n_channels:
        raise StreamError(
            f"`{name}` must name every channel; got {len(named)} names for "
            f"{rows.n_channels} channels."
        )
    check_unique(named, name)
    return named


def check_train_and_test(
    train: Rows, test: Rows, channels: tuple[str, ...], test_given: object
) -> None:
    """Refuse tables that do not fit together or are too short."""
    if train.n_channels == 0:
        raise StreamError("`train` must have at least one channel; it has none.")
    if train.n_channels != test.n_channels:
        raise StreamError(
            f"`train` and `test` must have the same channels; train has "
            f"{train.n_channels}, test has {test.n_channels}."
        )
    if is_frame(test_given):
        check_order(test_given, channels, "test")
    if train.n_rows < 2:
        raise StreamError(
            f"`train` must have at least 2 rows to fit a reference; it has "
            f"{train.n_rows}."
        )
    if test.n_rows < 1:
        raise StreamError("`test` must have at least 1 row; it is empty.")


def check_order(frame: object, channels: tuple[str, ...], name: str) -> None:
    """Refuse a frame whose columns are not the channels in their order."""
    columns = columns_of(frame, name)
    if tuple(columns) != channels:
        check_same_channels(channels, columns, name)
        raise StreamError(
            f"`train` and `{name}` must have their channels in the same order; "
            f"reorder the columns of `{name}`."
        )


def check_against_test(array: _Array, name: str, n_test: int) -> _Array:
    """Refuse an array without one value for each test row."""
    if len(array) != n_test:
        raise StreamError(
            f"`{name}` must have one value for each test row; got {len(array)} for "
            f"{n_test} rows."
        )
    return array


def check_calibration(values: object, channels: tuple[str, ...]) -> Rows | None:
    """Return calibration residuals as rows with the channels of train."""
    if values is None:
        return None
    rows = rows_of(values, "calibration")
    if is_frame(values):
        check_order(values, channels, "calibration")
    if rows.n_channels != len(channels):
        raise StreamError(
            f"`calibration` must have the {len(channels)} channels of train; it has "
            f"{rows.n_channels}."
        )
    if rows.n_rows < 1:
        raise StreamError("`calibration` must have at least 1 row; it is empty.")
    return rows


def check_time(values: npt.ArrayLike | None, name: str, n_rows: int) -> Floats | None:
    """Return time stamps in seconds, one a row."""
    if values is None:
        return None
    seconds = seconds_of(values, name)
    if len(seconds) != n_rows:
        raise StreamError(
            f"`{name}` must have one value a row; got {len(seconds)} for {n_rows} rows."
        )
    return seconds


def check_attacks(attacks: Sequence[Attack], n_test: int) -> tuple[Attack, ...]:
    """Refuse attacks that do not lie within the test rows."""
    for attack in attacks:
        Segment(attack.start, attack.stop)
        if attack.stop > n_test:
            raise StreamError(
                f"`segments`: attack {attack.id!r} ends at row {attack.stop}, after "
                f"the {n_test} test rows."
            )
    return tuple(attacks)


def unmatched_attacks(attacks: Sequence[Attack], labels: Labels) -> list[str]:
    """Tell of named attacks that no label marks."""
    missing = [a.id for a in attacks if not (labels[a.segment.rows] == ATTACK).any()]
    if not missing:
        return []
    return [f"Named attacks without a labelled test row: {some_of(missing)}."]


def many_breaks(breaks: Ints, n_test: int) -> list[str]:
    """Tell where time stamps cut the test rows suspiciously often."""
    if len(breaks) <= max(MANY_BREAKS, n_test // MANY_BREAKS):
        return []
    return [
        f"The time stamps cut the {n_test:,} test rows into {len(breaks):,} runs, and "
        "no attack or alarm reaches over a cut: if that is jitter and not gaps, give "
        "test_breaks=[0]."
    ]


def check_telemetry(
    train: object,
    test: object,
    channels: Sequence[str] | None,
    train_rows: Rows,
    n_test: int,
) -> dict[str, Any]:
    """Return the telemetry fields of a stream, or refuse what does not fit."""
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
    from_train = rows_of(train, "telemetry_train")
    from_test = rows_of(test, "telemetry_test")
    wanted = (
        (from_train, "telemetry_train", train_rows.n_rows),
        (from_test, "telemetry_test", n_test),
    )
    for rows, name, n_rows in wanted:
        if rows.n_rows != n_rows:
            raise StreamError(
                f"`{name}` must have the rows of its residuals; got {rows.n_rows} for "
                f"{n_rows}."
            )
    if is_frame(train) and is_frame(test):
        check_order(test, tuple(columns_of(train, "telemetry_train")), "telemetry_test")
    if from_train.n_channels != from_test.n_channels:
        raise StreamError(
            "`telemetry_train` and `telemetry_test` must have the same channels; got "
            f"{from_train.n_channels} and {from_test.n_channels}."
        )
    return {
        "telemetry_train": from_train,
        "telemetry_test": from_test,
        "telemetry_channels": check_channels(
            channels or None, train, from_train, "telemetry_channels"
        ),
    }


def some_of(names: Sequence[str], most: int = 6) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(repr(n) for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
