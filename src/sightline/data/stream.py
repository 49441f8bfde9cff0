"""The residual stream: the one value that the evaluation reads.

The code that makes a stream (testbeds, detectors) knows no metric; the code that reads
it (energy to report) knows no model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    check_alarms,
    check_series,
)
from sightline.data.recording import slop_from, step_from
from sightline.data.row_tables import ArrayRows, KeptRows, Rows, finite_rows
from sightline.data.segments import (
    Attack,
    breaks_kept,
    name_segments,
    rows_within,
    segments_of,
)
from sightline.data.stream_input import (
    TableColumns,
    check_attacks,
    check_clock,
    check_one_sided,
    check_per_row,
    check_table,
    check_telemetry,
    check_test_labels,
    check_train,
    column_of,
    column_zone,
    columns_of,
    input_notices,
    matrix_of,
    without_ignored,
    zone_in_text,
)
from sightline.data.zones import check_timezone
from sightline.errors import StreamError
from sightline.showing import Shown
from sightline.text import did_you_mean, plural

NO_LABELS = "No labels were given: every test row is taken as attack-free."
# The key of `meta` with the time at which each part begins; see `part_firsts`.
PARTS_KEY = "parts_begin"
# The key of `meta` with first and last moment of what somebody called normal.
NORMAL_KEY = "reviewed_normal"
# In `meta`: how many first rows of the test are the reference.
REFERENCE_KEY = "reference_rows"
# Fewer rows are no reference; more than this share of the test is not taken unasked.
LEAST_ROWS = 100
MOST_SHARE = 1 / 3
# The reference ends this long before the first attack, whose label may be late.
MARGIN_S = 600.0
# Changing one of these changes the notices about attacks and breaks.
_NOTICED = {"labels", "segments", "test", "test_time", "test_breaks"}
# Changing these alone needs no check of the rows.
_FACTS = {"space", "name", "detector", "testbed", "step_s", "timezone", "meta"}
_FACTS |= {"notices", "one_sided", "label_slop_s"}


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ResidualStream(Shown):
    """Residuals of one detector on one testbed: the input of an evaluation.

    All arguments are checked once, when the stream is made; it cannot be changed
    afterwards. That residuals are finite is checked when they are read.

    Parameters
    ----------
    train : array or frame of shape (n_train, p), or Rows
        Residuals (observed minus expected) of attack-free training data.
    test : array or frame of shape (n_test, p), or Rows
        Residuals of the test recording, the same channels in the same order.
    labels : array of shape (n_test,), optional
        1 attack, 0 normal, -1 ignore. Not given: every test row counts as normal.
    calibration : array, frame or Rows of shape (n, p), optional
        Attack-free residuals on which the detector was not trained.
    alarms, score : array of shape (n_test,), optional
        The detector's own alarms (0 or 1) and its own score.
    channels : sequence of str, optional
        Names of the p channels. Not given: the columns of a frame, else numbers.
    train_time, test_time : array, optional
        Time stamps of the rows: seconds, datetime64 or ISO text.
    train_breaks, test_breaks : array of int, optional
        First row of each continuous run. Not given: derived from the time stamps.
    segments : sequence of Attack
        Names, targets and notes of attacks; matched to labelled runs by overlap.
    telemetry_train, telemetry_test : array or Rows, optional
        The plant's measurements in the rows of `train` and `test`; both or neither.
    telemetry_channels : sequence of str, optional
        Names of the telemetry's channels.
    space : str, optional
        Residual space: observation, sensor, invariant, or another word.
    one_sided : bool, optional
        Whether only larger values of the single channel are anomalous, as of a score.
        Not given: they are if the space is ``"score"``, or no value of train is
        negative. False for residuals that are anomalous in both directions.
    name, detector, testbed : str, optional
        Names of the stream, of the detector that made it, and of the testbed.
    step_s : float, optional
        Seconds per row. Not given: the median step of `test_time`.
    label_slop_s : float, optional
        Seconds by which labels may begin late or end early, at least a row: rows that
        close to an attack are not attack-free, and an alarm that starts that shortly
        before it counts for it. Not given: 60. 0 takes labels as they are.
    timezone : str, optional
        Zone to show the time stamps in, which are then UTC: an IANA name, or "UTC".
        Not given: "UTC" if `test_time` is text with offsets, else unknown (the plant's
        own clock).
    meta : mapping
        Further facts to keep with the stream: seed, configuration, versions.
    notices : sequence of str
        Sentences about the input that the results will show.

    Raises
    ------
    StreamError
        If the arguments do not fit together; the message says which, where, and what
        to do.

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
    one_sided: bool | None
    name: str
    detector: str | None
    testbed: str | None
    step_s: float | None
    label_slop_s: float | None
    timezone: str | None
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
        one_sided: bool | None = None,
        name: str = "stream",
        detector: str | None = None,
        testbed: str | None = None,
        step_s: float | None = None,
        label_slop_s: float | None = None,
        timezone: str | None = None,
        meta: Mapping[str, Any] | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        train_rows, channels = check_train(train, channels)
        test_rows = check_table(test, "test", channels)
        n_train, n_test = train_rows.n_rows, test_rows.n_rows
        train_s, train_runs = check_clock(train_time, train_breaks, "train", n_train)
        test_s, test_runs = check_clock(test_time, test_breaks, "test", n_test)
        telemetry = check_telemetry(
            telemetry_train, telemetry_test, telemetry_channels, n_train, n_test
        )
        texts = {"space": space, "name": name, "detector": detector, "testbed": testbed}
        values = {
            "train": train_rows,
            "test": test_rows,
            "labels": check_test_labels(labels, n_test),
            "calibration": None
            if calibration is None
            else check_table(calibration, "calibration", channels),
            "alarms": check_per_row(alarms, "alarms", "test", n_test, check_alarms),
            "score": check_per_row(score, "score", "test", n_test, check_series),
            "channels": channels,
            "train_time": train_s,
            "test_time": test_s,
            "train_breaks": train_runs,
            "test_breaks": test_runs,
            "segments": check_attacks(segments, n_test),
            "step_s": step_from(step_s, test_s),
            "label_slop_s": slop_from(label_slop_s),
            "timezone": check_timezone(timezone or zone_in_text(test_time)),
            "one_sided": check_one_sided(one_sided, len(channels)),
            "meta": dict(meta or {}),
        }
        self.__dict__.update(values | texts | telemetry)
        unlabelled = [NO_LABELS] if labels is None else []
        breaks = self.test_breaks if test_breaks is None else None
        derived = input_notices(self.segments, self.labels, breaks)
        unique = dict.fromkeys([*notices, *unlabelled, *derived])
        self.__dict__["notices"] = tuple(unique)

    @classmethod
    def from_tables(
        cls,
        train: Any,
        test: Any,
        *,
        label: str | None = None,
        time: str | None = None,
        alarms: str | npt.ArrayLike | None = None,
        score: str | npt.ArrayLike | None = None,
        ignore: Sequence[str] = (),
        **known: Any,
    ) -> "ResidualStream":
        """Return a stream made from two pandas or polars frames, one column a channel.

        Parameters
        ----------
        train, test : frame
            The same channels by name; `test` may order them differently.
        label : str, optional
            Column of `test` with 1 attack, 0 normal, -1 ignored. If `train` has it
            too, no row of `train` may be an attack, and ignored rows are left out.
        time : str, optional
            Column of `test` with time stamps; `train` may lack it.
        alarms, score : str or array, optional
            Column of `test`, or the values, with the detector's own alarms and score.
        ignore : sequence of str
            Columns to leave out.
        **known
            Any further argument of `ResidualStream`.

        Raises
        ------
        StreamError
            If a named column is missing, the channels differ, a column does not
            hold numbers, or one is called like alarms, a score, labels or time and
            no argument names it.

        Examples
        --------
        >>> import polars
        >>> train = polars.DataFrame({"LIT101": [0.1, -0.2, 0.0]})
        >>> test = polars.DataFrame({"LIT101": [0.1, 5.0], "attack": [0, 1]})
        >>> ResidualStream.from_tables(train, test, label="attack")
        ResidualStream 'stream': 1 channel, 3 train rows, 2 test rows, 1 attack
        """
        train_columns = columns_of(train, "train")
        own = {"alarms": alarms, "score": score}
        named = {name: v for name, v in own.items() if isinstance(v, str)}
        columns = TableColumns(label=label, time=time, ignore=tuple(ignore), **named)
        channels = columns.channels(train_columns, columns_of(test, "test"))
        own |= {name: column_of(test, column) for name, column in named.items()}
        if time is not None and time in train_columns:
            known["train_time"] = column_of(train, time)
        if time is not None:
            known.setdefault("timezone", column_zone(test, time))
        rows, known["train_time"], known["train_breaks"] = without_ignored(
            ArrayRows(matrix_of(train, channels, "train")),
            column_of(train, label) if label in train_columns else None,
            known.get("train_time"),
            known.get("train_breaks"),
        )
        return cls(
            rows,
            matrix_of(test, channels, "test"),
            None if label is None else column_of(test, label),
            channels=channels,
            test_time=None if time is None else column_of(test, time),
            **(own | known),
        )

    def replace(self, **changes: Any) -> "ResidualStream":
        """Return a copy with some fields changed.

        Parameters
        ----------
        **changes
            Arguments of `ResidualStream`. If only facts change (name, detector,
            testbed, space, step, slop, meta, notices), nothing else is checked again;
            else the whole stream is. New time stamps give new breaks and a new step,
            unless these are given too.

        Raises
        ------
        StreamError
            If the changed stream is not valid.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if set(changes) <= _FACTS:
            copy = object.__new__(ResidualStream)
            copy.__dict__.update(values | changes)
            copy.__dict__.update(
                step_s=step_from(copy.step_s, self.test_time),
                label_slop_s=slop_from(copy.label_slop_s),
                timezone=check_timezone(copy.timezone),
                one_sided=check_one_sided(copy.one_sided, copy.p),
                meta=dict(copy.meta or {}),
                notices=tuple(dict.fromkeys(copy.notices)),
            )
            return copy
        stale = {NO_LABELS} if "labels" in changes else set()
        if _NOTICED & set(changes):
            stale |= {*input_notices(self.segments, self.labels, self.test_breaks)}
        values["notices"] = [line for line in self.notices if line not in stale]
        if "train_time" in changes:
            values["train_breaks"] = None
        if "test_time" in changes:
            values["test_breaks"] = None
            if changes["test_time"] is not None:
                values["step_s"] = None
        return ResidualStream(**(values | changes))

    @property
    def p(self) -> int:
        """Number of residual channels."""
        return len(self.channels)

    @property
    def part_firsts(self) -> Ints:
        """First test row of each part that a model of the other parts judges.

        Empty if one model judges all rows, as usual.
        """
        begins = np.asarray(self.meta.get(PARTS_KEY, ()), np.float64)
        if self.test_time is None:
            return np.zeros(0, np.int64)
        return np.searchsorted(self.test_time, begins).astype(np.int64)

    @property
    def reviewed_normal(self) -> Bools:
        """Which test rows lie in an episode that somebody reviewed and called normal.

        However far out they are, they are not left out of commissioning.
        """
        clock = np.arange(self.test.n_rows, dtype=np.float64)
        if self.test_time is not None:
            clock = self.test_time
        found = np.zeros(len(clock), np.bool_)
        for first, last in self.meta.get(NORMAL_KEY, ()):
            found |= rows_within(clock, (first, last))
        return found

    def attack_segments(self, *, apart: bool = True) -> list[Attack]:
        """Return the labelled attack runs of the test rows, with their identities.

        Parameters
        ----------
        apart : bool
            Whether listed attacks that touch are two segments, or one run of labels.

        Returns
        -------
        list of Attack
            In order, cut at breaks; named by the `segments` that they overlap, else
            numbered.
        """
        runs = segments_of(self.labels == ATTACK, self.test_breaks)
        return name_segments(runs, self.segments, apart=apart)

    def _line(self) -> str:
        return (
            f"{self.name!r}: {plural(self.p, 'channel')}, "
            f"{plural(self.train.n_rows, 'train row')}, "
            f"{plural(self.test.n_rows, 'test row')}, "
            f"{plural(len(self.attack_segments()), 'attack')}"
        )


def stream_given(
    stream: object,
    train: object,
    test: object,
    labels: object,
    known: Mapping[str, Any],
    options: Sequence[str] = (),
) -> ResidualStream:
    """Return the stream that a caller gives, or one made of two tables.

    Parameters
    ----------
    stream : ResidualStream, optional
        Returned as it is; nothing else may then be given.
    train, test : array or frame, optional
        In its place, the residuals. One score may come without `train`.
    labels : array, or str, optional
        Of the test rows; of a frame also the name of the column that holds them.
    known : mapping
        Further arguments of `ResidualStream`, or of its `from_tables`; None for those
        that are not given. Without a name the stream is called after its detector.
    options : sequence of str
        Further arguments of the caller, for the message about one that is misspelt.

    Raises
    ------
    StreamError
        If neither or both are given, or an argument has no meaning.

    Examples
    --------
    >>> stream_given(None, [[0.1], [0.2]], [[0.3]], None, {"detector": "pca"})
    ResidualStream 'pca': 1 channel, 2 train rows, 1 test row, 0 attacks
    """
    known = {name: value for name, value in known.items() if value is not None}
    if stream is not None and not isinstance(stream, ResidualStream):
        raise StreamError(
            f"evaluate takes a ResidualStream; got {type(stream).__name__}: give "
            "residuals of attack-free training data and of the test, as in "
            "evaluate(train=..., test=..., labels=...), or read a file by "
            "sightline.read_stream."
        )
    tables = {"train": train, "test": test, "labels": labels} | known
    given = [name for name, value in tables.items() if value is not None]
    names_known = [field.name for field in fields(ResidualStream)]
    if train is None and stream is None:
        names_known.append("reference_rows")
    for name in given:
        if name not in (*names_known, "time", "ignore"):
            raise StreamError(
                f"evaluate has no argument {name!r}; "
                f"{did_you_mean(name, [*options, *names_known])}"
            )
    if stream is not None:
        if given:
            raise StreamError(
                f"`{given[0]}` has no place beside a stream, which holds its own: use "
                f"stream.replace({given[0]}=...)."
            )
        return stream
    if test is None:
        missing = "train" if train is None else "test"
        raise StreamError(
            f"`{missing}` is missing: evaluate needs a ResidualStream, or residuals of "
            "attack-free training data and of the test, as in evaluate(train=..., "
            "test=..., labels=...)."
        )
    known.setdefault(
        "name", known.get("detector") or ("score" if train is None else "stream")
    )
    if train is None:
        shape = np.asarray(test).shape
        if len(shape) != 1 and shape[1:] != (1,):
            raise StreamError(
                "`train` is missing: without it `test` must be one score for each row; "
                f"got shape {shape}. Give residuals of attack-free training data, as "
                "in evaluate(train=..., test=..., labels=...)."
            )
        return stream_of_scores(test, labels, **known)
    if {"time", "ignore"} & known.keys() or isinstance(labels, str):
        if "channels" in known:
            raise StreamError(
                "`channels` has no place beside columns of labels or time, for the "
                "other columns are the channels: name columns to leave out in "
                "`ignore`."
            )
        if labels is None or isinstance(labels, str):
            return ResidualStream.from_tables(train, test, label=labels, **known)
        return ResidualStream.from_tables(train, test, **known).replace(labels=labels)
    return ResidualStream(train, test, labels, **known)  # type: ignore[arg-type]


def stream_of_scores(
    score: object,
    labels: object = None,
    *,
    reference_rows: int | None = None,
    **known: Any,
) -> ResidualStream:
    """Return the stream of one score, whose first part is the reference.

    Who has only a score for each test row, as benchmarks publish them, has no rows to
    fit a reference on. The rows before the first attack take their place and leave the
    test. What needs several channels cannot be said then, and the notices say so.

    Parameters
    ----------
    score : array of shape (n,)
        The score of each test row, larger where it is more anomalous.
    labels : array of shape (n,), optional
        1 attack, 0 normal, -1 ignore.
    reference_rows : int, optional
        How many first rows are the reference. Not given: those up to 10 minutes (100
        rows where seconds are not known) before the first attack, at most a third.
    **known
        Any further argument of `ResidualStream`, of all rows.

    Raises
    ------
    StreamError
        If fewer than 100 attack-free rows come first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> score, labels = rng.exponential(size=900), np.zeros(900, int)
    >>> labels[700:720] = 1
    >>> stream_of_scores(score, labels, name="mine")
    ResidualStream 'mine': 1 channel, 300 train rows, 600 test rows, 1 attack
    """
    rows = np.asarray(score, dtype=np.float64).reshape(-1, 1)
    defaults = {"channels": ["score"], "space": "score"}
    whole = ResidualStream(rows, rows, labels, **defaults | known)  # type: ignore[arg-type]
    return with_own_reference(whole, reference_rows)


def with_own_reference(
    stream: ResidualStream, reference_rows: int | None = None
) -> ResidualStream:
    """Return the stream whose train is the first part of its test.

    Parameters
    ----------
    stream : ResidualStream
        Its own train is left out.
    reference_rows : int, optional
        As for `stream_of_scores`.
    """
    n_rows = stream.test.n_rows
    marked = np.flatnonzero(stream.labels != NORMAL)
    first = int(marked[0]) if len(marked) else n_rows
    n = reference_rows
    if n is None:
        margin = LEAST_ROWS if stream.step_s is None else MARGIN_S / stream.step_s
        n = min(first - int(margin), int(MOST_SHARE * n_rows))
    if not LEAST_ROWS <= n <= min(first, n_rows - 1):
        raise StreamError(
            f"Without train the first rows of the test are the reference: at least "
            f"{LEAST_ROWS} attack-free ones are needed, and the first attack begins at "
            f"row {first:,} of {n_rows:,}. Give train, or set how many rows with "
            "reference_rows (--reference-rows)."
        )
    later = np.arange(n_rows) >= n
    changes = kept_with(stream, "test", later) | {
        "test": KeptRows(stream.test, later),
        "train": KeptRows(stream.test, ~later),
        "train_breaks": breaks_kept(stream.test_breaks, ~later),
        "meta": dict(stream.meta) | {REFERENCE_KEY: int(n)},
    }
    if stream.test_time is not None:
        changes["train_time"] = stream.test_time[~later]
    if stream.telemetry_test is not None:
        changes["telemetry_train"] = KeptRows(stream.telemetry_test, ~later)
    notice = (
        f"No training data: the first {n:,} rows of the test, before the first attack, "
        "are the reference of all figures and are not judged."
    )
    if stream.p == 1:
        notice += " One score: dilution, localisation and blind spots cannot be judged."
    changes["notices"] = [notice, *changes["notices"]]
    return stream.replace(**changes)


def drop_nonfinite(stream: ResidualStream) -> tuple[ResidualStream, dict[str, int]]:
    """Return the stream without its non-finite rows, and how many each array lost.

    Parameters
    ----------
    stream : ResidualStream
        Its train, test and calibration are read once.

    Returns
    -------
    stream : ResidualStream
        The same object if all rows are finite. Labels, time stamps, alarms, score and
        telemetry lose the same rows as their array; attacks are moved to the rows that
        remain. Breaks are those of the full record: a dropped row makes no break of its
        own.
    dropped : dict
        Number of rows dropped from ``train``, ``test`` and ``calibration``.

    Examples
    --------
    >>> train, test = [[0.0], [1.0], [2.0]], [[0.0], [np.nan], [1.0]]
    >>> finite, dropped = drop_nonfinite(ResidualStream(train, test))
    >>> finite.test.n_rows, dropped
    (2, {'train': 0, 'test': 1, 'calibration': 0})
    """
    dropped = {"train": 0, "test": 0, "calibration": 0}
    changes: dict[str, Any] = {}
    for name in dropped:
        rows: Rows | None = getattr(stream, name)
        if rows is None:
            continue
        keep, n_bad, _ = finite_rows(rows)
        if not n_bad:
            continue
        dropped[name] = int((~keep).sum())
        changes[name] = KeptRows(rows, keep)
        if name != "calibration":
            changes |= kept_with(stream, name, keep)
    return (stream.replace(**changes) if changes else stream), dropped


def kept_with(stream: ResidualStream, part: str, keep: Bools) -> dict[str, Any]:
    """Return what goes with the rows of train or test, for those that are kept.

    An attack of which no row is left is removed, and a notice names it.
    """
    series = [f"{part}_time", *(["alarms", "score"] if part == "test" else [])]
    changes: dict[str, Any] = {
        name: values[keep]
        for name in series
        if (values := getattr(stream, name)) is not None
    }
    telemetry: Rows | None = getattr(stream, f"telemetry_{part}")
    if telemetry is not None:
        changes[f"telemetry_{part}"] = KeptRows(telemetry, keep)
    changes[f"{part}_breaks"] = breaks_kept(getattr(stream, f"{part}_breaks"), keep)
    if part == "train":
        return changes
    new_row = np.concatenate([[0], np.cumsum(keep)]).tolist()
    moved = [
        replace(attack, start=new_row[attack.start], stop=new_row[attack.stop])
        for attack in stream.segments
    ]
    gone = [attack.id for attack in moved if attack.start == attack.stop]
    notice = f"Every row of these attacks was dropped: {', '.join(gone)}."
    return changes | {
        "labels": stream.labels[keep],
        "segments": [attack for attack in moved if attack.start < attack.stop],
        "notices": [*stream.notices, *([notice] if gone else [])],
    }
