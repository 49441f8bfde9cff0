"""A recording: what a plant measured in one run, with its labels and attacks.

`forward_fill` and `expanded_rows` fill what is missing in one: a cell takes the last
value, a gap of rows the last row.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.data import arrays
from sightline.data.arrays import Bools, Floats, Ints, Labels, Residuals
from sightline.data.segments import Attack, resolve_breaks
from sightline.data.validity import Codes, Unwatched, codes_of
from sightline.data.zones import check_timezone
from sightline.data.zones import stamp as stamp
from sightline.errors import StreamError
from sightline.showing import Shown
from sightline.text import did_you_mean, duration, plural, short

Values = TypeVar("Values", bound=npt.NDArray[np.floating])


class Role(StrEnum):
    """What a channel is to the process; a value is what `tags.csv` says.

    A member is a string and shows as one, so ``tag.role == "sensor"`` holds.
    """

    SENSOR = "sensor"
    ACTUATOR = "actuator"
    SETPOINT = "setpoint"
    FEEDBACK = "feedback"
    LIMIT = "limit"
    SIGNAL = "signal"
    OTHER = "other"

    # Saved training runs are recognised by the text of their tags.
    __repr__ = str.__repr__


@dataclass(frozen=True, kw_only=True)
class Tag:
    """One channel of a plant: its name and its part in the process.

    Parameters
    ----------
    name : str
        The plant's own name of the channel, such as ``"LIT101"``.
    role : Role
        Also as text, such as ``"actuator"``.
    stage : str, optional
        The part of the plant it belongs to.
    unit : str, optional
        The unit of its values.
    low, high : float, optional
        The least and the largest reading that is possible, as of the instrument.
    resolution : float, optional
        The smallest step of its values.

    Raises
    ------
    StreamError
        If the role is unknown, or `low` is not below `high`.

    Examples
    --------
    >>> Tag(name="P101", role="actuator")
    Tag(name='P101', role='actuator', stage=None, unit=None)
    """

    name: str
    role: Role = Role.SENSOR
    stage: str | None = None
    unit: str | None = None
    low: float | None = field(default=None, repr=False)
    high: float | None = field(default=None, repr=False)
    resolution: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Take a role that is given as text; refuse an empty range."""
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise StreamError(
                f"tag {self.name!r}: low ({self.low:g}) must be below high "
                f"({self.high:g})."
            )
        try:
            object.__setattr__(self, "role", Role(self.role))
        except ValueError:
            raise StreamError(
                f"tag {self.name!r}: role {self.role!r} is unknown; "
                f"{did_you_mean(self.role, Role)}"
            ) from None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What was done to the rows of a recording since they were measured.

    Detectors read it, so that nothing is done twice: what a testbed's options did, the
    settings of a detector do not do again.

    Parameters
    ----------
    every : int
        How many measured rows became one; 1 if rows are as measured.
    sampling : str
        How a block became one row, such as ``"median"``; empty if `every` is 1.
    trim_s : float
        Seconds that were left out at the beginning.
    """

    every: int = 1
    sampling: str = ""
    trim_s: float = 0.0


AS_MEASURED = Prepared()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Recording(Shown):
    """Measured values of one run, with labels, attacks and origin.

    Parameters
    ----------
    values : array of shape (n_steps, n_channels)
        float32 or float64, in the plant's units.
    tags : sequence of Tag
        One for each channel, in the order of the columns.
    labels : array of shape (n_steps,), optional
        1 attack, 0 normal, -1 ignored. Not given: all normal.
    time : array of shape (n_steps,), optional
        Time stamps in seconds; gaps in them become breaks unless `breaks` is given.
    timezone : str, optional
        Zone to show the time stamps in, which are then UTC: an IANA name, or "UTC".
        Not given: they are on the plant's own clock, and no zone is known.
    step_s : float, optional
        Seconds per step. Not given: the median step of `time`, or None without `time`.
    breaks : array of int, optional
        First step of each continuous run; no window of a detector crosses one.
    attacks : sequence of Attack
        Names, targets and notes of the attacks.
    source : str
        Origin of the values: file names and revision.
    prepared : Prepared
        What was done to its rows since they were measured; nothing by default.
    validity : array of int8, shape (n_steps, n_channels), optional
        The `Validity` of each cell. Not given: good where finite, else missing.
    unwatched : sequence of Unwatched
        Time whose rows were taken out, because nothing could be watched in them.
    parts : int
        Into how many parts a test is cut, each to be judged by a model of the others;
        1 if train is another time, as usual. See `sightline.data.record_parts`.
    label_slop_s : float, optional
        Seconds by which labels may begin late or end early; see `ResidualStream`.

    Raises
    ------
    StreamError
        If shapes do not fit together, a tag occurs twice, or a value is not allowed.

    Examples
    --------
    >>> recording = Recording(
    ...     values=[[1.0, 0.0], [1.1, 0.0], [0.9, 1.0]],
    ...     tags=[Tag(name="LIT101", unit="mm"), Tag(name="P101", role="actuator")],
    ...     time=[0.0, 1.0, 60.0],
    ... )
    >>> recording.channels, recording.n_steps, recording.breaks.tolist()
    (('LIT101', 'P101'), 3, [0, 2])
    """

    values: Residuals
    tags: tuple[Tag, ...]
    labels: Labels | None = None
    time: Floats | None = None
    step_s: float | None = None
    breaks: Ints | None = None
    attacks: tuple[Attack, ...] = ()
    source: str = ""
    timezone: str | None = None
    prepared: Prepared = AS_MEASURED
    validity: Codes | None = None
    unwatched: tuple[Unwatched, ...] = ()
    parts: int = 1
    label_slop_s: float | None = None

    def __post_init__(self) -> None:
        """Check all fields, and derive labels, breaks and the step if not given."""
        values = arrays.check_residuals(self.values, "values")
        tags = tuple(self.tags)
        if len(tags) != values.shape[1]:
            raise StreamError(
                f"`tags` must name every channel; got {len(tags)} tags for "
                f"{values.shape[1]} channels."
            )
        arrays.check_unique([tag.name for tag in tags], "tags")
        n_steps = len(values)
        labels = np.zeros(n_steps, np.int8)
        if self.labels is not None:
            labels = arrays.check_labels(self.labels)
        arrays.check_same_length(values=values, labels=labels)
        time = None if self.time is None else arrays.check_series(self.time, "time")
        if time is not None:
            arrays.check_same_length(values=values, time=time)
        if self.validity is not None and self.validity.shape != values.shape:
            raise StreamError(
                f"`validity` must have the shape of `values`, {values.shape}; got "
                f"{self.validity.shape}."
            )
        self.__dict__.update(
            unwatched=tuple(self.unwatched),
            values=arrays.read_only(values),
            tags=tags,
            labels=arrays.read_only(labels),
            time=None if time is None else arrays.read_only(time),
            step_s=step_from(self.step_s, time),
            breaks=resolve_breaks(self.breaks, time, "breaks", n_steps),
            attacks=tuple(self.attacks),
            timezone=check_timezone(self.timezone),
            label_slop_s=slop_from(self.label_slop_s),
        )

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels, in the order of the columns."""
        return tuple(tag.name for tag in self.tags)

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return len(self.values)

    def codes(self) -> Codes:
        """Return the `Validity` of each cell."""
        return codes_of(self.values) if self.validity is None else self.validity

    def _line(self) -> str:
        step = "" if self.step_s is None else f" of {duration(self.step_s)}"
        return (
            f"{short(self.source)!r}: {plural(len(self.tags), 'channel')}, "
            f"{plural(self.n_steps, 'step')}{step}, "
            f"{plural(len(self.attacks), 'attack')}"
        )


def slop_from(label_slop_s: float | None) -> float | None:
    """Return label slop in seconds; raise `StreamError` for what is none.

    Examples
    --------
    >>> slop_from(30), slop_from(None)
    (30.0, None)
    """
    if label_slop_s is None:
        return None
    if isinstance(label_slop_s, bool) or not 0 <= label_slop_s < np.inf:
        raise StreamError(
            "`label_slop_s` must be seconds, 0 or more, by which labels may begin late "
            f"or end early; got {label_slop_s}."
        )
    return float(label_slop_s)


# A shorter step is a mistake, and numbers of steps would not fit into 64 bits.
LEAST_STEP_S: Final = 1e-9


def step_from(step_s: float | None, time: Floats | None) -> float | None:
    """Return seconds per step: as given, else the median step of the time stamps.

    Parameters
    ----------
    step_s : float, optional
        Seconds, at least `LEAST_STEP_S`.
    time : array of shape (n_steps,), optional
        Time stamps in seconds. Steps back and shorter ones do not count.

    Returns
    -------
    float or None
        None if there are no two rising time stamps.
    """
    if step_s is not None:
        if not (np.isfinite(step_s) and step_s > 0):
            raise StreamError(f"`step_s` must be positive seconds; got {step_s}.")
        if step_s < LEAST_STEP_S:
            raise StreamError(
                f"`step_s` must be at least {LEAST_STEP_S:g} seconds; got {step_s:g}."
            )
        return float(step_s)
    if time is None or len(time) < 2:
        return None
    steps = np.diff(time)
    forward = steps[steps >= LEAST_STEP_S]
    return float(np.median(forward)) if len(forward) else None


def seconds(stamp: str) -> float:
    """Return an ISO time stamp as seconds since 1970 on the plant's own clock.

    Examples
    --------
    >>> seconds("1970-01-02 00:00:01")
    86401.0
    """
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()


def forward_fill(
    values: Values,
    breaks: Ints,
    *,
    is_missing: Bools | None = None,
) -> Values:
    """Replace missing cells by the last value of their channel in the same run.

    Nothing is carried across a break, and nothing is taken from later rows. A cell
    with no value before it stays as it is.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Not changed; returned itself where nothing is missing.
    breaks : array of int
        First row of each continuous run, beginning with 0.
    is_missing : array of shape (n_rows, n_channels), optional
        Which cells to fill; by default those that are nan.

    Returns
    -------
    array of shape (n_rows, n_channels)
        Of the type of `values`.

    Examples
    --------
    >>> values = np.array([[np.nan], [1.0], [np.nan], [np.nan], [2.0]])
    >>> forward_fill(values, np.array([0])).ravel()
    array([nan,  1.,  1.,  1.,  2.])
    """
    is_missing = np.isnan(values) if is_missing is None else is_missing
    columns = np.flatnonzero(is_missing.any(axis=0))
    if not len(columns):
        return values
    filled = values.copy()
    rows = np.arange(len(values))
    run_start = breaks[np.searchsorted(breaks, rows, side="right") - 1]
    for k in columns:
        last = np.maximum.accumulate(np.where(is_missing[:, k], -1, rows))
        is_filled = is_missing[:, k] & (last >= run_start)
        filled[is_filled, k] = values[last[is_filled], k]
    return filled


def expanded_rows(lost: Ints) -> tuple[Ints, Ints]:
    """Return the rows of a table whose gaps are filled with the row before them.

    Parameters
    ----------
    lost : array of shape (n_rows - 1,)
        How many rows are missing between each row and the next.

    Returns
    -------
    row : array of int
        For each row of the filled table, the row of the table it repeats.
    since : array of int
        How many steps after that row it lies; 0 for the row itself.

    Examples
    --------
    >>> expanded_rows(np.array([0, 2]))
    (array([0, 1, 1, 1, 2]), array([0, 0, 1, 2, 0]))
    """
    repeat = np.append(lost + 1, 1)
    row = np.repeat(np.arange(len(repeat)), repeat)
    since = np.arange(len(row)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    return row, since
