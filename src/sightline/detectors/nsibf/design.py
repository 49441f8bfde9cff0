"""What NSIBF reads of a recording, the sizes it draws, and the noise it estimates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from sightline.data.arrays import Floats, Ints
from sightline.data.recording import Role, Tag
from sightline.errors import StreamError
from sightline.text import names

Matrix = npt.NDArray[np.floating]
# Ridges tried on a covariance that does not factor, as shares of its mean diagonal.
_RIDGES = (0.0, *(10.0**-k for k in range(12, 0, -2)))
# Bounds between which a search draws sizes.
_DRAWN_LAYERS, _DRAWN_WIDTHS, _DRAWN_PENALTY = (1, 3), (32, 256), (0.0, 0.05)


@dataclass(frozen=True, eq=False)
class Design:
    """Which columns the network reads.

    Parameters
    ----------
    sensors : array of int
        Columns that are measured.
    actuators : array of int
        Columns read by their levels, one covariate a level.
    levels : tuple of array
        Of each actuator, in the order in which they first appear in train.
    numbers : array of int
        Columns that are not sensors and are read as numbers.
    """

    sensors: Ints
    actuators: Ints
    levels: tuple[Floats, ...]
    numbers: Ints

    @property
    def n_inputs(self) -> int:
        """Columns of a covariate row."""
        return len(self.sensors) + sum(map(len, self.levels)) + len(self.numbers)

    def apply(self, values: Matrix) -> Matrix:
        """Return covariate rows, sensors first; a level not in train gives zeros."""
        columns = [values[:, self.sensors]]
        for actuator, levels in zip(self.actuators, self.levels, strict=True):
            is_at = values[:, actuator, None] == levels.astype(values.dtype)
            columns.append(is_at.astype(values.dtype))
        columns.append(values[:, self.numbers])
        return np.concatenate(columns, axis=1)

    def remarks(
        self, values: Matrix, tags: Sequence[Tag], kept: Ints
    ) -> tuple[str, ...]:
        """Return sentences on tags that are not read, and on levels not in train."""
        remarks = []
        read = {*self.sensors, *self.actuators, *self.numbers}
        left = [tags[kept[k]].name for k in range(len(kept)) if k not in read]
        if left:
            remarks.append(
                f"NSIBF does not read {names(left, 4)} (neither sensor nor actuator; "
                "set other_tags to 'use' to read them)."
            )
        unknown = [
            tags[kept[column]].name
            for column, levels in zip(self.actuators, self.levels, strict=True)
            if not np.isin(values[:, column], levels.astype(values.dtype)).all()
        ]
        if unknown:
            remarks.append(
                f"NSIBF never saw some levels of {names(unknown, 4)} in train."
            )
        return tuple(remarks)


def design_of(
    values: Matrix, roles: Sequence[str], *, use_others: bool, most_levels: int
) -> Design:
    """Return the design for train.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Train.
    roles : sequence of str
        Of each channel.
    use_others : bool
        Whether to read channels that are neither sensor nor actuator.
    most_levels : int
        A channel with more levels is read as a number.
    """
    role = np.array(roles)
    sensors = np.flatnonzero(role == Role.SENSOR)
    others = role != Role.SENSOR if use_others else role == Role.ACTUATOR
    actuators, levels, numbers = [], [], []
    for column in np.flatnonzero(others):
        distinct, first = np.unique(values[:, column], return_index=True)
        if len(distinct) > most_levels:
            numbers.append(column)
        else:
            actuators.append(column)
            levels.append(distinct[np.argsort(first)].astype(np.float64))
    return Design(
        sensors,
        np.array(actuators, np.int64),
        tuple(levels),
        np.array(numbers, np.int64),
    )


def filter_tracks(
    breaks: Ints, n_rows: int, *, window: int, reach: int, per_row: bool
) -> list[Ints]:
    """Return the rows at which each filter steps, the longest track first.

    A filter starts where a run has enough rows and steps a window at a time; with
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


def drawn_sizes(rng: np.random.Generator, sensors: int) -> dict[str, int | float]:
    """Return settings of the networks' sizes as the published search draws them."""
    low, high = _DRAWN_LAYERS
    return {
        "state": int(rng.integers(1, 3 * sensors + 1)),
        "encoder_layers": int(rng.integers(low, high + 1)),
        "transition_layers": int(rng.integers(low, high + 1)),
        "lstm_layers": int(rng.integers(low, high + 1)),
        "transition_width": int(rng.integers(*_DRAWN_WIDTHS, endpoint=True)),
        "lstm_width": int(rng.integers(*_DRAWN_WIDTHS, endpoint=True)),
        "penalty": float(rng.uniform(*_DRAWN_PENALTY)),
    }


def covariance_of(parts: list[Matrix]) -> Floats:
    """Return the sample covariance of rows that come in parts."""
    rows = np.concatenate(parts).astype(np.float64)
    return np.atleast_2d(np.cov(rows, rowvar=False, ddof=1))


def smallest_ridge(covariance: Floats) -> float:
    """Return the least ridge with which a covariance factors; 0 if it needs none.

    Raises
    ------
    StreamError
        If a tenth of the mean diagonal is not enough.
    """
    level = float(np.mean(np.diag(covariance))) or 1.0
    for share in _RIDGES:
        try:
            np.linalg.cholesky(covariance + share * level * np.eye(len(covariance)))
        except np.linalg.LinAlgError:
            continue
        return share * level
    raise StreamError(
        "NSIBF's measurement noise cannot be factored even with a ridge of a tenth of "
        "its mean: train has values that are not finite, or extreme ones."
    )
