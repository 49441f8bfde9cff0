"""What NSIBF reads of a recording: covariate rows, measurements, and when."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.recording import Tag
from sightline.text import names

Matrix = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Design:
    """Which columns the network reads: sensors, actuators' levels, other numbers."""

    sensors: Ints
    actuators: Ints
    levels: tuple[Floats, ...]
    numbers: Ints

    @property
    def n_inputs(self) -> int:
        """Columns of a covariate row."""
        return len(self.sensors) + sum(map(len, self.levels)) + len(self.numbers)

    def apply(self, values: Matrix) -> Matrix:
        """Return covariate rows: sensors first, a level never seen gives zeros."""
        columns = [values[:, self.sensors]]
        for actuator, levels in zip(self.actuators, self.levels, strict=True):
            is_at = values[:, actuator, None] == levels.astype(values.dtype)
            columns.append(is_at.astype(values.dtype))
        columns.append(values[:, self.numbers])
        return np.concatenate(columns, axis=1)

    def remarks(
        self, values: Matrix, tags: Sequence[Tag], kept: Ints
    ) -> tuple[str, ...]:
        """Return sentences on tags that are not read, and on levels never seen."""
        told = []
        read = {*self.sensors, *self.actuators, *self.numbers}
        left = [tags[kept[k]].name for k in range(len(kept)) if k not in read]
        if left:
            told.append(
                f"NSIBF does not read {names(left, 4)} (neither sensor nor actuator; "
                "other_tags 'use' lets it)."
            )
        strange = [
            tags[kept[column]].name
            for column, levels in zip(self.actuators, self.levels, strict=True)
            if not np.isin(values[:, column], levels.astype(values.dtype)).all()
        ]
        if strange:
            told.append(f"NSIBF never saw some levels of {names(strange, 4)} in train.")
        return tuple(told)


def design_of(
    values: Matrix, roles: Sequence[str], *, use_others: bool, most_levels: int
) -> Design:
    """Return the design for train: levels in the order in which they first appear."""
    role = np.array(roles)
    sensors = np.flatnonzero(role == "sensor")
    others = role != "sensor" if use_others else role == "actuator"
    actuators, levels, numbers = [], [], []
    for column in np.flatnonzero(others):
        found, first = np.unique(values[:, column], return_index=True)
        if len(found) > most_levels:
            numbers.append(column)
        else:
            actuators.append(column)
            levels.append(found[np.argsort(first)].astype(np.float64))
    return Design(
        sensors,
        np.array(actuators, np.int64),
        tuple(levels),
        np.array(numbers, np.int64),
    )


def filter_tracks(
    breaks: Ints, n_rows: int, *, window: int, reach: int, per_row: bool
) -> list[Ints]:
    """Return the rows each filter looks at, one after another, the longest first.

    A filter begins where a run has rows enough and goes on a window at a time; with
    `per_row` there is one for each row of a window.

    Examples
    --------
    >>> filter_tracks(np.array([0]), 9, window=2, reach=3, per_row=True)
    [array([2, 4, 6, 8]), array([3, 5, 7])]
    """
    stops = np.append(breaks[1:], n_rows)
    tracks = [
        np.arange(start + reach - 1 + phase, stop, window)
        for start, stop in zip(breaks, stops, strict=True)
        for phase in range(window if per_row else 1)
    ]
    return sorted((t for t in tracks if len(t) > 1), key=len, reverse=True)


def measurements(values: Matrix, sensors: int, window: int) -> Callable[[Ints], Matrix]:
    """Return a function from rows to the windows that end there, sensor by sensor."""
    view = sliding_window_view(values[:, :sensors], window, axis=0)

    def at(rows: Ints) -> Matrix:
        return view[rows - window + 1].reshape(len(rows), -1)

    return at


@dataclass(frozen=True, eq=False)
class Found:
    """What filters found, track after track: newest innovation, score, and mishaps."""

    values: Floats
    score: Floats
    is_repaired: Bools
    is_lost: Bools
    places: Ints

    @classmethod
    def empty(cls, lengths: Sequence[int], sensors: int) -> "Found":
        """Return room for tracks of these lengths."""
        total = sum(lengths)
        return cls(
            np.empty((total, sensors)),
            np.empty(total),
            np.zeros(total, np.bool_),
            np.zeros(total, np.bool_),
            np.append(0, np.cumsum(lengths))[:-1],
        )

    def put(
        self,
        step: int,
        values: Floats,
        score: Floats,
        is_repaired: Bools,
        is_lost: Bools,
    ) -> None:
        """Take in one step of the filters that still go on."""
        rows = self.places[: len(score)] + step
        self.values[rows], self.score[rows] = values, score
        self.is_repaired[rows], self.is_lost[rows] = is_repaired, is_lost
