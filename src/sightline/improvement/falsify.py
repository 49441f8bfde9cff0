"""Falsifications written into copies of attack-free telemetry, one tag at a time.

Which tag, where, what and how large is drawn with a seed; the shapes are those of blind
spots. What is drawn depends on the telemetry and the seed alone: no detector, no rule
and no label other than those that leave attacks out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sightline.blindspots.shapes import SHAPES, Site, TrainTag, tags_of
from sightline.data.arrays import Bools, Floats
from sightline.data.recording import Recording
from sightline.detectors.base import unlabelled
from sightline.detectors.preprocessing import fill_missing, means_of
from sightline.errors import StreamError

# Sizes of steps and ramps, in standard deviations of the tag in train.
SIZES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
DURATIONS_S: Final = (300.0, 900.0)
# A falsification lasts at least so many rows of the detectors.
LEAST_ROWS: Final = 12
# What is written into a tag, by the name of the shape; a tag of few states is held, or
# forced to another of its states.
OF_SENSORS: Final = ("step", "ramp", "frozen", "replay")
OF_STATES: Final = ("actuator", "frozen")
# As many are written at least, into at most so many copies.
LEAST: Final = 250
MOST_COPIES: Final = 250
# One that moves the reading by less than this share of its spread is left out.
LEAST_MOVE: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Written:
    """One falsification.

    Parameters
    ----------
    copy : int
        The copy of the telemetry that it is written into, counted from 0.
    start, stop : int
        First step, and the one after the last.
    tag : str
        The falsified tag.
    kind : str
        ``step``, ``ramp``, ``frozen``, ``replay`` (the stretch just before it), or
        ``actuator``: another of its states.
    size : float, optional
        Of a step or ramp, in standard deviations of the tag in train, with its sign.
    minutes : float
        How long it lasts.
    """

    copy: int
    start: int
    stop: int
    tag: str
    kind: str
    size: float | None
    minutes: float


def held_copy(recording: Recording, n_steps: int) -> Recording:
    """Return the first steps of a recording without labels and missing cells."""
    values, _ = fill_missing(
        recording.values[:n_steps],
        np.asarray(recording.breaks),
        means_of(recording.values),
    )
    breaks = np.asarray(recording.breaks)
    return replace(
        unlabelled(recording),
        values=values,
        labels=None,
        time=None if recording.time is None else recording.time[:n_steps],
        breaks=breaks[breaks < n_steps],
        validity=None,
        unwatched=(),
    )


def falsified(
    first: Recording,
    train: Recording,
    is_attack_free: Bools,
    *,
    row_s: float,
    seed: int = 0,
    least: int = LEAST,
) -> Iterator[tuple[Floats, list[Written]]]:
    """Yield copies of telemetry and the falsifications that are in each.

    Two in one copy are never nearer than the longest lasts.

    Parameters
    ----------
    first : Recording
        Telemetry without missing cells; see `held_copy`.
    train : Recording
        What is usual of each tag.
    is_attack_free : array of bool, shape (n_steps,)
        Where falsifications may lie, with as much time before them.
    row_s : float
        Seconds of the longest row of the detectors.
    seed : int
        Of the draw: the same seed gives the same copies.
    least : int
        How many are written, at least.

    Raises
    ------
    StreamError
        If fewer than `least` fit into `MOST_COPIES` copies.
    """
    step_s = first.step_s
    if step_s is None:
        raise StreamError(
            "Seconds a row are not known, so durations cannot be written: give time "
            "stamps or `step_s`."
        )
    draw = _Draw(first, tags_of(train), is_attack_free, step_s, row_s, seed)
    n_written = 0
    for copy in range(MOST_COPIES):
        values, written = draw.copy(copy)
        if written:
            yield values, written
        n_written += len(written)
        if n_written >= least:
            return
    raise StreamError(
        f"Only {n_written} falsifications fit into {MOST_COPIES} copies of the "
        f"attack-free rows, and {least} are needed: give more of the test with `first`."
    )


class _Draw:
    """Where falsifications may begin, and the next of them."""

    def __init__(
        self,
        first: Recording,
        tags: Sequence[TrainTag],
        is_attack_free: Bools,
        step_s: float,
        row_s: float,
        seed: int,
    ) -> None:
        self.values = np.asarray(first.values, np.float64)
        self.tags = [tag for tag in tags if tag.range > 0]
        if not self.tags:
            raise StreamError("No tag moves in train, so none can be falsified.")
        self.step_s, self.rng = step_s, np.random.default_rng(seed)
        least = LEAST_ROWS * row_s
        self.lengths = [round(max(s, least) / step_s) for s in DURATIONS_S]
        self.reach = _reach(is_attack_free, np.asarray(first.breaks))
        longest = max(self.lengths)
        # As much attack-free time before a falsification as it may last.
        at = np.arange(len(self.values) - longest + 1)
        self.places = at[self.reach[at + longest - 1] >= 2 * longest]

    def copy(self, number: int) -> tuple[Floats, list[Written]]:
        """Return a falsified copy, and what is in it."""
        values, written, longest = self.values.copy(), [], max(self.lengths)
        at = int(self.rng.integers(longest))
        while (k := int(np.searchsorted(self.places, at))) < len(self.places):
            start = int(self.places[k])
            made = self._one(number, start)
            if made is not None:
                one, tag, readings = made
                values[start : one.stop, tag.column] = readings
                written.append(one)
            at = start + 2 * longest
        return values, written

    def _one(self, copy: int, start: int) -> tuple[Written, TrainTag, Floats] | None:
        """Draw one falsification; None where it would change nothing."""
        rng, tag = self.rng, self.tags[self.rng.integers(len(self.tags))]
        length = self.lengths[rng.integers(len(self.lengths))]
        has_states = len(tag.states) > 1
        kinds = OF_STATES if has_states else OF_SENSORS
        kind = kinds[rng.integers(len(kinds))]
        size = float(rng.choice(SIZES) * rng.choice((-1.0, 1.0)))
        steps = np.arange(length)
        column = self.values[:, tag.column]
        measured = column[start : start + length]
        site = Site(
            tag=tag,
            steps=steps,
            readings=measured[None],
            shown=measured[None],
            last=column[start - 1 : start],
            column=column,
            index=(start + steps)[None],
            reach=self.reach[start - 1 : start],
            draws=np.zeros((1, length)),
            length=length,
            step_s=self.step_s,
        )
        is_sized = kind in ("step", "ramp")
        change = SHAPES[kind].weights(site)[0] * (size * tag.spread if is_sized else 1)
        if not np.abs(change).max() > LEAST_MOVE * tag.spread:
            return None
        one = Written(
            copy=copy,
            start=start,
            stop=start + length,
            tag=tag.name,
            kind=kind,
            size=size if is_sized else None,
            minutes=length * self.step_s / 60.0,
        )
        return one, tag, measured + change


def _reach(is_free: Bools, breaks: np.ndarray) -> np.ndarray:
    """Return how many attack-free steps of one run end with each step."""
    begins = np.zeros(len(is_free), np.bool_)
    begins[breaks] = True
    at = np.arange(len(is_free))
    # The last step before this one at which the count is 0 afterwards.
    from_here = np.where(~is_free, at + 1, np.where(begins, at, 0))
    return at + 1 - np.maximum.accumulate(from_here)
