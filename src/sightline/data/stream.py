"""The residual stream: the one thing the evaluation reads.

Left of it nobody knows metrics; right of it nobody knows models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    NORMAL,
    Floats,
    Ints,
    Labels,
    check_alarms,
    check_labels,
    check_series,
)
from sightline.data.frames import column_of, columns_of, matrix_of
from sightline.data.recording import resolve_breaks, step_from
from sightline.data.row_tables import Rows
from sightline.data.segments import (
    Attack,
    breaks_kept,
    check_breaks,
    name_segments,
    segments_of,
)
from sightline.data.stream_input import (
    attack_free_rows,
    check_against_test,
    check_attacks,
    check_calibration,
    check_channels,
    check_same_channels,
    check_telemetry,
    check_time,
    check_train_and_test,
    many_breaks,
    rows_of,
    some_of,
    unmatched_attacks,
)
from sightline.errors import StreamError

NO_LABELS = "No labels were given: every test row is taken as attack-free."
# What the sentences about attacks and breaks are made from.
_TOLD_FROM = {"labels", "segments", "test", "test_time", "test_breaks"}


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
    _derived: ClassVar[frozenset[str]]

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
        train_rows, test_rows = rows_of(train, "train"), rows_of(test, "test")
        named = check_channels(channels, train, train_rows, "channels")
        check_train_and_test(train_rows, test_rows, named, test)
        if labels is None:
            labels = np.zeros(test_rows.n_rows, np.int8)
            told.append("No labels were given: every test row is taken as attack-free.")
        n_test = test_rows.n_rows
        train_seconds = check_time(train_time, "train_time", train_rows.n_rows)
        test_seconds = check_time(test_time, "test_time", n_test)
        stream_fields = {
            "train": train_rows,
            "test": test_rows,
            "labels": check_against_test(check_labels(labels), "labels", n_test),
            "calibration": check_calibration(calibration, named),
            "alarms": None
            if alarms is None
            else check_against_test(check_alarms(alarms), "alarms", n_test),
            "score": None
            if score is None
            else check_against_test(check_series(score, "score"), "score", n_test),
            "channels": named,
            "train_time": train_seconds,
            "test_time": test_seconds,
            "train_breaks": resolve_breaks(
                train_breaks, train_seconds, "train_breaks", train_rows.n_rows
            ),
            "test_breaks": resolve_breaks(
                test_breaks, test_seconds, "test_breaks", n_test
            ),
            "segments": check_attacks(segments, n_test),
            **check_telemetry(
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
        derived = unmatched_attacks(self.segments, self.labels)
        if test_breaks is None:
            derived += many_breaks(self.test_breaks, n_test)
        object.__setattr__(self, "notices", tuple(dict.fromkeys([*told, *derived])))
        object.__setattr__(self, "_derived", frozenset(derived))

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
                    f"has {some_of(from_test)}."
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
                known["train_time"] = np.asarray(known["train_time"])[keep]
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
        """Return a copy with some fields changed, checked anew.

        New time stamps bring their own breaks and step, unless those are given too.
        """
        now = {field.name: getattr(self, field.name) for field in fields(self)}
        stale = self._derived if _TOLD_FROM & set(changes) else frozenset()
        if "labels" in changes:
            stale |= {NO_LABELS}
        now["notices"] = [told for told in self.notices if told not in stale]
        if "train_time" in changes:
            now["train_breaks"] = None
        if "test_time" in changes:
            now["test_breaks"] = None
            if changes["test_time"] is not None:
                now["step_s"] = None
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


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
