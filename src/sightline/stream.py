"""The residual stream: the one thing the evaluation reads.

Left of it nobody knows metrics; right of it nobody knows models.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.checks import (
    ATTACK,
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    as_rectangle,
    check_alarms,
    check_labels,
    check_residuals,
    check_series,
    check_unique,
)
from sightline.errors import StreamError
from sightline.frames import column_of, columns_of, is_frame, matrix_of
from sightline.recording import resolve_breaks, step_from
from sightline.rows import ArrayRows, Rows
from sightline.segments import (
    Attack,
    Segment,
    breaks_kept,
    check_breaks,
    name_segments,
    segments_of,
)

# More continuous runs than this, and than one in so many rows, look like jitter.
MANY_BREAKS = 100

_Array = TypeVar("_Array", bound=npt.NDArray[Any])


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ResidualStream:
    """Residuals of one detector on one testbed: all that evaluation needs to know.

    Parameters
    ----------
    train : array or frame of shape (n_train, p), or Rows
        Residuals (observed minus expected) of attack-free training data.
    test : array or frame of shape (n_test, p), or Rows
        Residuals of the test recording, the same channels in the same order.
    labels : array of shape (n_test,), optional
        1 attack, 0 normal, -1 ignore. Not given: every test row counts as normal.
    calibration : array, frame or Rows of shape (n, p), optional
        Attack-free residuals the detector was not trained on.
    alarms, score : array of shape (n_test,), optional
        The detector's own alarms (0/1) and its own score.
    channels : sequence of str, optional
        Names of the p channels; frames bring their own.
    train_time, test_time : array, optional
        Time stamps: seconds, datetime64 or ISO text.
    train_breaks, test_breaks : array of int, optional
        First row of each continuous run; else found from the time stamps.
    segments : sequence of Attack
        Names, targets and notes of attacks; matched to labelled runs by overlap.
    telemetry_train, telemetry_test : array or Rows, optional
        The plant's own measurements, row by row with `train` and `test`.
    telemetry_channels : sequence of str, optional
        Their names.
    space : str, optional
        Residual space: observation, sensor, invariant, or your own word.
    name, detector, testbed : str, optional
        What to call the stream, and who made it on what.
    step_s : float, optional
        Seconds a row; else the median step of `test_time`.
    meta : mapping
        Anything else worth keeping: seed, configuration, versions.
    notices : sequence of str
        Sentences about the input that a reader should see.

    Examples
    --------
    >>> stream = ResidualStream([[0.1], [-0.2], [0.0]], [[0.1], [5.0]], [0, 1])
    >>> stream
    ResidualStream 'stream': 1 channel, 3 train rows, 2 test rows, 1 attack
    """

    train: Rows
    test: Rows
    labels: Labels
    calibration: Rows | None
    alarms: Labels | None
    score: Floats | None
    channels: tuple[str, ...]
    train_time: Floats | None
    test_time: Floats | None
    train_breaks: Ints
    test_breaks: Ints
    segments: tuple[Attack, ...]
    telemetry_train: Rows | None
    telemetry_test: Rows | None
    telemetry_channels: tuple[str, ...]
    space: str | None
    name: str
    detector: str | None
    testbed: str | None
    step_s: float | None
    meta: Mapping[str, Any]
    notices: tuple[str, ...]

    def __init__(
        self,
        train: object,
        test: object,
        labels: npt.ArrayLike | None = None,
        *,
        calibration: object = None,
        alarms: npt.ArrayLike | None = None,
        score: npt.ArrayLike | None = None,
        channels: Sequence[str] | None = None,
        train_time: npt.ArrayLike | None = None,
        test_time: npt.ArrayLike | None = None,
        train_breaks: npt.ArrayLike | None = None,
        test_breaks: npt.ArrayLike | None = None,
        segments: Sequence[Attack] = (),
        telemetry_train: object = None,
        telemetry_test: object = None,
        telemetry_channels: Sequence[str] | None = None,
        space: str | None = None,
        name: str = "stream",
        detector: str | None = None,
        testbed: str | None = None,
        step_s: float | None = None,
        meta: Mapping[str, Any] | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        told = list(notices)
        train_rows, test_rows = _as_rows(train, "train"), _as_rows(test, "test")
        named = _check_channels(channels, train, train_rows, "channels")
        _check_tables(train_rows, test_rows, named, test)
        if labels is None:
            labels = np.zeros(test_rows.n_rows, np.int8)
            told.append("No labels were given: every test row is taken as attack-free.")
        n_test = test_rows.n_rows
        train_seconds = _check_time(train_time, "train_time", train_rows.n_rows)
        test_seconds = _check_time(test_time, "test_time", n_test)
        stream_fields = {
            "train": train_rows,
            "test": test_rows,
            "labels": _check_against_test(check_labels(labels), "labels", n_test),
            "calibration": _check_calibration(calibration, named),
            "alarms": None
            if alarms is None
            else _check_against_test(check_alarms(alarms), "alarms", n_test),
            "score": None
            if score is None
            else _check_against_test(check_series(score, "score"), "score", n_test),
            "channels": named,
            "train_time": train_seconds,
            "test_time": test_seconds,
            "train_breaks": resolve_breaks(
                train_breaks, train_seconds, "train_breaks", train_rows.n_rows
            ),
            "test_breaks": resolve_breaks(
                test_breaks, test_seconds, "test_breaks", n_test
            ),
            "segments": _check_attacks(segments, n_test),
            **_check_telemetry(
                telemetry_train, telemetry_test, telemetry_channels, train_rows, n_test
            ),
            "space": space,
            "name": name,
            "detector": detector,
            "testbed": testbed,
            "step_s": step_from(step_s, test_seconds),
            "meta": dict(meta or {}),
        }
        if not (stream_fields["labels"] == NORMAL).any():
            raise StreamError(
                "`labels` must mark some test rows as normal (0); none is, and -1 "
                "means ignore: if your file says 1 for normal and -1 for attack, "
                "map it to 0 and 1."
            )
        for field, value in stream_fields.items():
            object.__setattr__(self, field, value)
        told += _unmatched(self.segments, self.labels)
        if test_breaks is None:
            told += _many_breaks(self.test_breaks, n_test)
        object.__setattr__(self, "notices", tuple(dict.fromkeys(told)))

    @classmethod
    def from_tables(
        cls,
        train: Any,
        test: Any,
        *,
        label: str | None = None,
        time: str | None = None,
        **known: Any,
    ) -> "ResidualStream":
        """Make a stream of two pandas or polars frames, one column a channel.

        Parameters
        ----------
        train, test : frame
            The same channels by name; `test` may order them differently.
        label : str, optional
            Column of `test` with 1 attack, 0 normal, -1 ignore. In `train`, where
            it occurs, no row may be an attack, and rows to be ignored are left out.
        time : str, optional
            Column with time stamps; in `train` it may be missing.
        **known
            Any further argument of `ResidualStream`.
        """
        from_train = columns_of(train, "train")
        from_test = columns_of(test, "test")
        for column, option in ((label, "label"), (time, "time")):
            if column is not None and column not in from_test:
                raise StreamError(
                    f"`test` has no column {column!r} to take the {option} from; it "
                    f"has {_listed(from_test)}."
                )
        channels = [c for c in from_train if c not in (label, time)]
        check_same_channels(channels, [c for c in from_test if c not in (label, time)])
        train_values = matrix_of(train, channels, "train")
        if time is not None and time in from_train:
            known["train_time"] = column_of(train, time)
        if label is not None and label in from_train:
            keep = attack_free_rows(column_of(train, label), "train")
            if known.get("train_breaks") is not None:
                breaks = check_breaks(known["train_breaks"], "train_breaks", len(keep))
                known["train_breaks"] = breaks_kept(breaks, keep)
            if known.get("train_time") is not None:
                known["train_time"] = known["train_time"][keep]
            train_values = train_values[keep]
        return cls(
            train_values,
            matrix_of(test, channels, "test"),
            None if label is None else column_of(test, label),
            channels=channels,
            test_time=None if time is None else column_of(test, time),
            **known,
        )

    def replace(self, **changes: Any) -> "ResidualStream":
        """Return a copy with some fields changed, checked anew."""
        now = {field.name: getattr(self, field.name) for field in fields(self)}
        return ResidualStream(**(now | changes))

    @property
    def p(self) -> int:
        """Number of residual channels."""
        return len(self.channels)

    def attack_segments(self) -> list[Attack]:
        """Return the labelled attack runs of the test rows, with what is known."""
        runs = segments_of(self.labels == ATTACK, self.test_breaks)
        return name_segments(runs, self.segments)

    def __repr__(self) -> str:
        """Say what it is in one line."""
        n_attacks = len(self.attack_segments())
        return (
            f"ResidualStream {self.name!r}: {_count(self.p, 'channel')}, "
            f"{_count(self.train.n_rows, 'train row')}, "
            f"{_count(self.test.n_rows, 'test row')}, {_count(n_attacks, 'attack')}"
        )


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
            f"only in train: {_listed(only_train) or 'none'}; "
            f"only in {name}: {_listed(only_other) or 'none'} "
            "(name the label and time columns if these are they)."
        )


def seconds_of(values: npt.ArrayLike, name: str) -> Floats:
    """Return time stamps as float64 seconds; dates count from 1970-01-01.

    Text is read as ISO; a zone in it is honoured, and without one none is assumed.
    """
    array = as_rectangle(values, name)
    if array.dtype.kind in "USO":
        array = _dates(array, name)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise StreamError(
                f"`{name}` must be complete; row {int(np.argmax(np.isnat(array)))} "
                "has no time."
            )
        return array.astype("datetime64[us]").astype(np.int64) / 1e6
    return check_series(array, name)


def _dates(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
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


def _as_rows(values: object, name: str) -> Rows:
    if isinstance(values, Rows):
        return values
    if is_frame(values):
        return ArrayRows(matrix_of(values, columns_of(values, name), name))
    return ArrayRows(check_residuals(values, name))


def _check_channels(
    channels: Sequence[str] | None, frame: object, rows: Rows, name: str
) -> tuple[str, ...]:
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


def _check_tables(
    train: Rows, test: Rows, channels: tuple[str, ...], test_given: object
) -> None:
    if train.n_channels != test.n_channels:
        raise StreamError(
            f"`train` and `test` must have the same channels; train has "
            f"{train.n_channels}, test has {test.n_channels}."
        )
    if is_frame(test_given):
        _check_order(test_given, channels, "test")
    if train.n_rows < 2:
        raise StreamError(
            f"`train` must have at least 2 rows to fit a reference; it has "
            f"{train.n_rows}."
        )
    if test.n_rows < 1:
        raise StreamError("`test` must have at least 1 row; it is empty.")


def _check_order(frame: object, channels: tuple[str, ...], name: str) -> None:
    columns = columns_of(frame, name)
    if tuple(columns) != channels:
        check_same_channels(channels, columns, name)
        raise StreamError(
            f"`train` and `{name}` must have their channels in the same order; "
            f"reorder the columns of `{name}`."
        )


def _check_against_test(array: _Array, name: str, n_test: int) -> _Array:
    if len(array) != n_test:
        raise StreamError(
            f"`{name}` must have one value for each test row; got {len(array)} for "
            f"{n_test} rows."
        )
    return array


def _check_calibration(values: object, channels: tuple[str, ...]) -> Rows | None:
    if values is None:
        return None
    rows = _as_rows(values, "calibration")
    if is_frame(values):
        _check_order(values, channels, "calibration")
    if rows.n_channels != len(channels):
        raise StreamError(
            f"`calibration` must have the {len(channels)} channels of train; it has "
            f"{rows.n_channels}."
        )
    if rows.n_rows < 1:
        raise StreamError("`calibration` must have at least 1 row; it is empty.")
    return rows


def _check_time(values: npt.ArrayLike | None, name: str, n_rows: int) -> Floats | None:
    if values is None:
        return None
    seconds = seconds_of(values, name)
    if len(seconds) != n_rows:
        raise StreamError(
            f"`{name}` must have one value a row; got {len(seconds)} for {n_rows} rows."
        )
    return seconds


def _check_attacks(attacks: Sequence[Attack], n_test: int) -> tuple[Attack, ...]:
    for attack in attacks:
        Segment(attack.start, attack.stop)
        if attack.stop > n_test:
            raise StreamError(
                f"`segments`: attack {attack.id!r} ends at row {attack.stop}, after "
                f"the {n_test} test rows."
            )
    return tuple(attacks)


def _unmatched(attacks: Sequence[Attack], labels: Labels) -> list[str]:
    missing = [a.id for a in attacks if not (labels[a.segment.rows] == ATTACK).any()]
    if not missing:
        return []
    return [f"Named attacks without a labelled test row: {_listed(missing)}."]


def _many_breaks(breaks: Ints, n_test: int) -> list[str]:
    if len(breaks) <= max(MANY_BREAKS, n_test // MANY_BREAKS):
        return []
    return [
        f"The time stamps cut the {n_test:,} test rows into {len(breaks):,} runs, and "
        "no attack or alarm reaches over a cut: if that is jitter and not gaps, give "
        "test_breaks=[0]."
    ]


def _check_telemetry(
    train: object,
    test: object,
    channels: Sequence[str] | None,
    train_rows: Rows,
    n_test: int,
) -> dict[str, Any]:
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
    from_train = _as_rows(train, "telemetry_train")
    from_test = _as_rows(test, "telemetry_test")
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
    if from_train.n_channels != from_test.n_channels:
        raise StreamError(
            "`telemetry_train` and `telemetry_test` must have the same channels; got "
            f"{from_train.n_channels} and {from_test.n_channels}."
        )
    return {
        "telemetry_train": from_train,
        "telemetry_test": from_test,
        "telemetry_channels": _check_channels(
            channels or None, train, from_train, "telemetry_channels"
        ),
    }


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
