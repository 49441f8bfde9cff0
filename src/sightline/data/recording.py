"""A recording: what a plant measured in one run, with its labels and attacks."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import numpy as np

from sightline.data.arrays import (
    Floats,
    Ints,
    Labels,
    Residuals,
    check_labels,
    check_residuals,
    check_same_length,
    check_series,
    check_unique,
)
from sightline.data.segments import Attack, resolve_breaks
from sightline.errors import StreamError
from sightline.text import did_you_mean


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

    Raises
    ------
    StreamError
        If the role is unknown.

    Examples
    --------
    >>> Tag(name="P101", role="actuator")
    Tag(name='P101', role='actuator', stage=None, unit=None)
    """

    name: str
    role: Role = Role.SENSOR
    stage: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        """Take a role that is given as text."""
        try:
            object.__setattr__(self, "role", Role(self.role))
        except ValueError:
            raise StreamError(
                f"tag {self.name!r}: role {self.role!r} is unknown; "
                f"{did_you_mean(self.role, Role)}"
            ) from None


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
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
    step_s : float, optional
        Seconds per step. Not given: the median step of `time`, or None without `time`.
    breaks : array of int, optional
        First step of each continuous run; no window of a detector crosses one.
    attacks : sequence of Attack
        Names, targets and notes of the attacks.
    source : str
        Origin of the values: file names and revision.

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

    def __post_init__(self) -> None:
        """Check all fields, and derive labels, breaks and the step if not given."""
        values = check_residuals(self.values, "values")
        tags = tuple(self.tags)
        if len(tags) != values.shape[1]:
            raise StreamError(
                f"`tags` must name every channel; got {len(tags)} tags for "
                f"{values.shape[1]} channels."
            )
        check_unique([tag.name for tag in tags], "tags")
        n_steps = len(values)
        labels = np.zeros(n_steps, np.int8)
        if self.labels is not None:
            labels = check_labels(self.labels)
        check_same_length(values=values, labels=labels)
        time = None if self.time is None else check_series(self.time, "time")
        if time is not None:
            check_same_length(values=values, time=time)
        self.__dict__.update(
            values=values,
            tags=tags,
            labels=labels,
            time=time,
            step_s=step_from(self.step_s, time),
            breaks=resolve_breaks(self.breaks, time, "breaks", n_steps),
            attacks=tuple(self.attacks),
        )

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels, in the order of the columns."""
        return tuple(tag.name for tag in self.tags)

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return len(self.values)


def step_from(step_s: float | None, time: Floats | None) -> float | None:
    """Return seconds per step: as given, else the median step of the time stamps.

    Parameters
    ----------
    step_s : float, optional
        Positive seconds.
    time : array of shape (n_steps,), optional
        Time stamps in seconds. Steps back and repeated stamps do not count.

    Returns
    -------
    float or None
        None if there are no two rising time stamps.
    """
    if step_s is not None:
        if not (np.isfinite(step_s) and step_s > 0):
            raise StreamError(f"`step_s` must be positive seconds; got {step_s}.")
        return float(step_s)
    if time is None or len(time) < 2:
        return None
    steps = np.diff(time)
    forward = steps[steps > 0]
    return float(np.median(forward)) if len(forward) else None


def seconds(stamp: str) -> float:
    """Return an ISO time stamp as seconds since 1970 on the plant's own clock.

    Examples
    --------
    >>> seconds("1970-01-02 00:00:01")
    86401.0
    """
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()


def stamp(at: float) -> str:
    """Return seconds since 1970 as a readable time stamp, to the second.

    Examples
    --------
    >>> stamp(86401.0)
    '1970-01-02 00:00:01'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
