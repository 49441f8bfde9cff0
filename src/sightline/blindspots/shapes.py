"""What is written into telemetry: one class for each shape.

A falsified reading is ``x(t) + a w(t)``: `a` is the size, the weights `w` are fixed by
the place. A shape without a size is written as it is (`a` = 1), and the share of places
at which it is seen is the answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.recording import Recording, Role
from sightline.data.row_tables import Rows, read_on_grid
from sightline.data.stream import ResidualStream
from sightline.errors import StreamError
from sightline.rules.normal import channels_of, stages_of
from sightline.text import did_you_mean, names


class SizeUnit(StrEnum):
    """In what the size of a shape is measured."""

    TAG = "units of the tag"
    PERCENT = "per cent of the reading"
    SPREAD = "standard deviations in train"
    NONE = "no size"


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainTag:
    """What is known of a tag from train.

    Parameters
    ----------
    name : str
        The tag.
    column : int
        Its column of the telemetry.
    role : Role
        What it is to the process.
    stage, unit : str, optional
        Its part of the plant, and the unit of its readings.
    spread : float
        Standard deviation in train.
    lowest, highest : float
        Extremes in train.
    least, most : float
        Readings that are possible; infinite where nothing is known.
    states : tuple of float
        The values that it takes in train, the most frequent first, if there are at
        most `MOST_STATES`; else empty.
    resolution : float, optional
        Smallest step of its readings, where it is known.
    """

    name: str
    column: int
    role: Role = Role.SENSOR
    stage: str | None = None
    unit: str | None = None
    spread: float
    lowest: float
    highest: float
    least: float = -np.inf
    most: float = np.inf
    states: tuple[float, ...] = ()
    resolution: float | None = None

    @property
    def range(self) -> float:
        """Highest minus lowest reading in train."""
        return self.highest - self.lowest


# A tag with no more values than this in train has states.
MOST_STATES: Final = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """One tag at the places, over the steps that are falsified.

    Parameters
    ----------
    tag : TrainTag
        The tag.
    steps : array of int, shape (n_steps,)
        Measured steps since the beginning of the falsification.
    readings : array of shape (n_places, n_steps)
        What was measured, or its residual.
    shown : array of shape (n_places, n_steps)
        What the instrument showed; nan where only the residual is known.
    last : array of shape (n_places,)
        The reading just before.
    column : array of shape (n_record,)
        All readings of the tag.
    index : array of int, shape (n_places, n_steps)
        Where the steps lie in it.
    reach : array of int, shape (n_places,)
        Attack-free steps directly before each place.
    draws : array of shape (n_places, n_steps)
        Standard normal numbers of the place.
    length : int
        Steps for which the falsification lasts.
    step_s : float
        Seconds a measured step.
    """

    tag: TrainTag
    steps: Ints
    readings: Floats
    shown: Floats
    last: Floats
    column: npt.NDArray[np.floating]
    index: Ints
    reach: Ints
    draws: Floats
    length: int
    step_s: float

    def earlier(self, n_steps: int) -> Floats:
        """Return the readings this many steps earlier; nan where they are not known."""
        before = self.column[np.maximum(self.index - n_steps, 0)]
        is_known = self.reach >= n_steps
        return np.where(is_known[:, None], before.astype(np.float64), np.nan)

    def filled(self, value: float) -> Floats:
        """Return one value for all places and steps."""
        return np.full(self.readings.shape, value)


class Shape(ABC):
    """A kind of falsification.

    Attributes
    ----------
    name : str
        What users type and read.
    unit : SizeUnit
        In what its size is measured.
    has_signs : bool
        Whether its opposite is another falsification.
    is_shift : bool
        Whether it adds the same to every step.
    is_exact : bool
        Whether a median of steps changes in proportion to its size.
    """

    name: ClassVar[str]
    unit: ClassVar[SizeUnit] = SizeUnit.TAG
    has_signs: ClassVar[bool] = True
    is_shift: ClassVar[bool] = False
    is_exact: ClassVar[bool] = False

    @abstractmethod
    def weights(self, site: Site) -> Floats:
        """Return ``w(t)`` at each place, shape (n_places, n_steps).

        Nan at places where the shape cannot be written.
        """

    def applies_to(self, tag: TrainTag) -> bool:
        """Return whether it can be written into a tag."""
        return tag.role is not Role.ACTUATOR

    def guess(self, tag: TrainTag) -> float:
        """Return a size from which the search begins."""
        return 0.05 * tag.range

    def largest(self, tag: TrainTag) -> float:
        """Return the largest size that is tried: ten ranges of the tag in train."""
        return MOST_RANGES * tag.range

    def of_range(self, size: float, tag: TrainTag) -> float:
        """Return a size as a share of the tag's range in train."""
        return size / tag.range


# Sizes are searched up to this many ranges in train.
MOST_RANGES: Final = 10.0


class StepShape(Shape):
    """The reading is too high, or too low, by the same amount all the time."""

    name = "step"
    is_shift = is_exact = True

    def weights(self, site: Site) -> Floats:
        """Return 1."""
        return site.filled(1.0)


class Ramp(Shape):
    """The reading drifts away; the size is what it is off by at the end."""

    name = "ramp"

    def weights(self, site: Site) -> Floats:
        """Return the part of the duration that has passed."""
        part = (site.steps + 1) / site.length
        return np.broadcast_to(part, site.readings.shape).copy()


class Scale(Shape):
    """The reading is too large, or too small, by a share of itself."""

    name = "scale"
    unit = SizeUnit.PERCENT
    is_exact = True

    def weights(self, site: Site) -> Floats:
        """Return a hundredth of the reading."""
        return site.readings / 100.0

    def guess(self, tag: TrainTag) -> float:
        """Return five per cent."""
        return 5.0

    def largest(self, tag: TrainTag) -> float:
        """Return ten ranges in per cent of the largest reading in train."""
        return super().largest(tag) / self._per_cent(tag)

    def of_range(self, size: float, tag: TrainTag) -> float:
        """Return what the size does to the largest reading, as a share of the range."""
        return size * self._per_cent(tag) / tag.range

    @staticmethod
    def _per_cent(tag: TrainTag) -> float:
        return max(abs(tag.lowest), abs(tag.highest)) / 100.0


class Noise(Shape):
    """The reading has additional noise."""

    name = "noise"
    unit = SizeUnit.SPREAD
    has_signs = False

    def weights(self, site: Site) -> Floats:
        """Return normal numbers with the tag's standard deviation in train."""
        return site.tag.spread * site.draws

    def guess(self, tag: TrainTag) -> float:
        """Return one standard deviation."""
        return 1.0

    def largest(self, tag: TrainTag) -> float:
        """Return ten ranges in standard deviations."""
        return super().largest(tag) / tag.spread

    def of_range(self, size: float, tag: TrainTag) -> float:
        """Return the standard deviation of the noise as a share of the range."""
        return size * tag.spread / tag.range


class Stage(Noise):
    """All sensors of a stage are off together, each in its standard deviation."""

    name = "stage"
    has_signs = True
    is_shift = is_exact = True

    def weights(self, site: Site) -> Floats:
        """Return the tag's standard deviation in train."""
        return site.filled(site.tag.spread)


class Frozen(Shape):
    """The reading stays where it was."""

    name = "frozen"
    unit = SizeUnit.NONE
    has_signs = False

    def weights(self, site: Site) -> Floats:
        """Return the last reading minus what was measured."""
        return site.last[:, None] - site.readings


class Dead(Shape):
    """The reading falls to the lowest that is possible, or that train has."""

    name = "dead"
    unit = SizeUnit.NONE
    has_signs = False

    def weights(self, site: Site) -> Floats:
        """Return that reading minus what was measured."""
        tag = site.tag
        lowest = tag.least if np.isfinite(tag.least) else tag.lowest
        return lowest - site.readings


class Replay(Shape):
    """The reading repeats the stretch just before."""

    name = "replay"
    unit = SizeUnit.NONE
    has_signs = False

    def weights(self, site: Site) -> Floats:
        """Return the reading one duration earlier minus what was measured."""
        return site.earlier(site.length) - site.readings


class Held(Shape):
    """An actuator shows another state than its own, one that it takes in train."""

    name = "actuator"
    unit = SizeUnit.NONE
    has_signs = False

    def applies_to(self, tag: TrainTag) -> bool:
        """Return whether the tag is an actuator with at least two states."""
        return tag.role is Role.ACTUATOR and len(tag.states) > 1

    def weights(self, site: Site) -> Floats:
        """Return the most frequent other state minus what was measured."""
        first, second = site.tag.states[:2]
        other = np.where(site.last == first, second, first)
        return other[:, None] - site.readings


class OwnShape(Shape):
    """A shape of the user: weights by seconds, held after the last.

    Parameters
    ----------
    name : str
        Its name.
    seconds, values : sequence of float
        The weights at these seconds since the beginning; between them they are
        interpolated, and the last one is held.

    Examples
    --------
    >>> OwnShape("pulse", [0, 10, 11], [1, 1, 0]).name
    'pulse'
    """

    def __init__(
        self, name: str, seconds: Sequence[float], values: Sequence[float]
    ) -> None:
        self.name = name  # type: ignore[misc]
        self.seconds = np.asarray(seconds, np.float64)
        self.values = np.asarray(values, np.float64)
        is_good = (
            len(self.seconds) == len(self.values) > 0
            and np.isfinite(self.seconds).all()
            and np.isfinite(self.values).all()
            and (np.diff(self.seconds) > 0).all()
        )
        if not is_good or not self.values.any():
            raise StreamError(
                f"The shape {name!r} needs ascending seconds with a finite weight "
                "each, not all of them 0."
            )

    def weights(self, site: Site) -> Floats:
        """Return the weights at the seconds of the steps."""
        at = np.interp(site.steps * site.step_s, self.seconds, self.values)
        return np.broadcast_to(at, site.readings.shape).copy()


SHAPES: Final[dict[str, Shape]] = {
    shape.name: shape
    for shape in (
        StepShape(),
        Ramp(),
        Scale(),
        Noise(),
        Stage(),
        Frozen(),
        Dead(),
        Replay(),
        Held(),
    )
}
# Shapes that make sense where only residuals are known.
RESIDUAL_SHAPES: Final = ("step", "ramp", "noise", "stage")


def shape_named(name: str, own: Sequence[Shape] = ()) -> Shape:
    """Return a shape by its name.

    Parameters
    ----------
    name : str
        A name of `SHAPES`, or of a shape of the user.
    own : sequence of Shape
        Shapes of the user.

    Raises
    ------
    StreamError
        If there is no such shape.

    Examples
    --------
    >>> shape_named("ramp").unit
    <SizeUnit.TAG: 'units of the tag'>
    """
    known = SHAPES | {shape.name: shape for shape in own}
    if name not in known:
        raise StreamError(
            f"There is no shape {name!r}; {did_you_mean(name, sorted(known))}"
        )
    return known[name]


def train_tag(
    name: str,
    column: int,
    values: Floats,
    *,
    role: Role = Role.SENSOR,
    stage: str | None = None,
    unit: str | None = None,
    least: float | None = None,
    most: float | None = None,
    resolution: float | None = None,
) -> TrainTag:
    """Return what train says of a tag.

    Parameters
    ----------
    name, column, role, stage, unit, resolution
        As of `TrainTag`.
    values : array of shape (n_steps,)
        Its readings in train; missing ones are left out.
    least, most : float, optional
        Readings that are possible. Not given: 0 is the least where no reading of train
        is below 0, and nothing is known otherwise.

    Examples
    --------
    >>> tag = train_tag("P101", 0, np.array([1.0, 2.0, 2.0]), role=Role.ACTUATOR)
    >>> tag.states, tag.least, tag.range
    ((2.0, 1.0), 0.0, 1.0)
    """
    finite = values[np.isfinite(values)]
    lowest, highest = (
        (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    )
    states, counts = np.unique(finite, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    few: Bools | bool = len(states) <= MOST_STATES
    return TrainTag(
        name=name,
        column=column,
        role=role,
        stage=stage,
        unit=unit,
        spread=float(finite.std()) if len(finite) else 0.0,
        lowest=lowest,
        highest=highest,
        least=least if least is not None else (0.0 if lowest >= 0 else -np.inf),
        most=np.inf if most is None else most,
        states=tuple(states[order].tolist()) if few else (),
        resolution=resolution,
    )


def tags_of(train: Recording) -> tuple[TrainTag, ...]:
    """Return what train says of each tag."""
    return tuple(
        train_tag(
            tag.name,
            column,
            np.asarray(train.values[:, column], np.float64),
            role=tag.role,
            stage=tag.stage,
            unit=tag.unit,
            least=tag.low,
            most=tag.high,
            resolution=tag.resolution,
        )
        for column, tag in enumerate(train.tags)
    )


def residual_tags(stream: ResidualStream) -> tuple[tuple[TrainTag, ...], Floats]:
    """Return the channels of a stream as tags, and the plant's units for 1 of each.

    Range and spread are those of the residuals in train. Where the stream carries
    telemetry, 0 is the least reading of a tag that is never below it in train.
    """
    channels = channels_of(stream)
    scales = np.array([channel.scale or 1.0 for channel in channels])
    n, total, squares = 0, np.zeros(stream.p), np.zeros(stream.p)
    low, high = np.full(stream.p, np.inf), np.full(stream.p, -np.inf)
    for _, block in read_on_grid(stream.train):
        rows = block * scales
        n, total = n + len(rows), total + rows.sum(axis=0)
        squares = squares + np.square(rows).sum(axis=0)
        low, high = (
            np.minimum(low, rows.min(axis=0)),
            np.maximum(high, rows.max(axis=0)),
        )
    spread = np.sqrt(np.maximum(squares / n - np.square(total / n), 0.0))
    lowest_shown = np.full(stream.p, np.nan)
    for block in measured_blocks(stream, stream.telemetry_train):
        lowest_shown = np.fmin(lowest_shown, np.fmin.reduce(block, axis=0))
    stages = {
        name: stage for stage, members in stages_of(stream).items() for name in members
    }
    tags = tuple(
        TrainTag(
            name=channel.name,
            column=j,
            stage=stages.get(channel.name),
            unit=f"{channel.unit or ''} (residual)".strip(),
            spread=float(spread[j]),
            lowest=float(low[j]),
            highest=float(high[j]),
            least=0.0 if lowest_shown[j] >= 0 else -np.inf,
        )
        for j, channel in enumerate(channels)
    )
    return tags, scales


def measured_blocks(stream: ResidualStream, telemetry: Rows | None) -> Iterator[Floats]:
    """Yield the telemetry of each channel, block by block; nan where it has none."""
    if telemetry is None:
        return
    columns = {name: k for k, name in enumerate(stream.telemetry_channels)}
    known = [(j, columns[c]) for j, c in enumerate(stream.channels) if c in columns]
    ours, theirs = [j for j, _ in known], [k for _, k in known]
    for _, rows in read_on_grid(telemetry):
        block = np.full((len(rows), stream.p), np.nan)
        block[:, ours] = rows[:, theirs]
        yield block


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is falsified together: a tag, or all sensors of a stage.

    Parameters
    ----------
    name : str
        Name of the tag or the stage.
    tags : tuple of TrainTag
        The tags.
    shapes : tuple of Shape
        What is written into them.
    """

    name: str
    tags: tuple[TrainTag, ...]
    shapes: tuple[Shape, ...]


def targets_of(
    tags: Sequence[TrainTag], shapes: Sequence[Shape]
) -> tuple[list[Target], list[str]]:
    """Return what is falsified, and sentences about tags that are left out.

    Parameters
    ----------
    tags : sequence of TrainTag
        The tags that may be falsified.
    shapes : sequence of Shape
        The shapes.
    """
    single = [shape for shape in shapes if shape.name != "stage"]
    still = [tag.name for tag in tags if not tag.range > 0]
    targets = []
    for tag in tags:
        fitting = tuple(shape for shape in single if shape.applies_to(tag))
        if tag.range > 0 and fitting:
            targets.append(Target(name=tag.name, tags=(tag,), shapes=fitting))
    stage = [shape for shape in shapes if shape.name == "stage"]
    by_stage: dict[str, list[TrainTag]] = {}
    for tag in tags:
        if tag.stage and tag.range > 0 and stage and stage[0].applies_to(tag):
            by_stage.setdefault(tag.stage, []).append(tag)
    targets += [
        Target(name=f"stage {name}", tags=tuple(members), shapes=tuple(stage))
        for name, members in by_stage.items()
        if len(members) > 1
    ]
    notes = []
    if still:
        verb = "never moves" if len(still) == 1 else "never move"
        notes.append(
            f"{names(still, 6)} {verb} in train, so a size has no share of its range: "
            "left out."
        )
    return targets, notes
