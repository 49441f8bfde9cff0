"""Readings at the places: falsified step by step, and brought to the detector's rows.

Falsifications are written before down-sampling, as an attacker would. Only the tags
that are falsified are down-sampled again; all others stay as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from sightline.blindspots.places import Grid
from sightline.blindspots.rule_view import Change
from sightline.blindspots.shapes import Site, TrainTag
from sightline.data.arrays import Bools, Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class TelemetryRecord:
    """The record that falsifications are written into.

    Parameters
    ----------
    values : array of shape (n_steps, n_tags)
        Measured, without missing cells.
    tags : tuple of TrainTag
        One for each column.
    starts : array of int, shape (n_rows,)
        First measured step of each row of the detector.
    every : int
        Steps that make one row.
    sample : callable
        Brings blocks of steps, shape (n, every), of a tag to one value each.
    step_s : float
        Seconds a measured step.
    is_residual : bool
        Whether `values` are the residuals themselves, because nothing else is known.
    """

    values: npt.NDArray[Any]
    tags: tuple[TrainTag, ...]
    starts: Ints
    every: int
    sample: Callable[[Floats, TrainTag], Floats]
    step_s: float
    is_residual: bool = False


# A tag can be falsified where this share of its range in train is left to go.
LEAST_ROOM: Final = 0.01

# The change of some tags in the detector's rows: column to (n_places, n_rows).
Deltas = Mapping[int, Floats]


class Stage1(Protocol):
    """What turns falsified telemetry into residual rows: a detector, or nothing.

    Attributes
    ----------
    memory : int
        Earlier rows that a residual depends on.
    is_linear : bool
        Whether a change of twice the size gives twice the change of the residuals.
    """

    @property
    def memory(self) -> int:
        """Earlier rows that a residual depends on."""

    @property
    def is_linear(self) -> bool:
        """Whether residuals change in proportion to the telemetry."""

    def change(self, deltas: Deltas, rows: "PlaceRows") -> Change:
        """Return how the residuals change if tags change in the detector's rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceRows:
    """The rows of the detector that one duration needs at the places.

    Parameters
    ----------
    grid : Grid
        The rows that are judged.
    places : array of int
        First row of each falsification.
    memory : int
        Earlier rows that a residual depends on.
    """

    grid: Grid
    places: Ints
    memory: int

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The stretches of telemetry rows: those of the grid, with memory before."""
        return tuple((start - self.memory, stop) for start, stop in self.grid.runs)

    @cached_property
    def offsets(self) -> Ints:
        """All telemetry rows, counted from the beginning of the falsification."""
        return np.concatenate([np.arange(*run) for run in self.runs])

    @cached_property
    def is_falsified(self) -> Bools:
        """Which of them are falsified."""
        inside = (self.offsets >= 0) & (self.offsets < self.grid.rows)
        return np.asarray(inside)


class Falsifier:
    """Readings of one duration at the places, and how to falsify them.

    Parameters
    ----------
    telemetry : TelemetryRecord
        The record.
    rows : PlaceRows
        What is needed of it.
    draws : array of shape (n_places, n_steps)
        Standard normal numbers of each place, for every step of the longest duration.
    reach : array of int, shape (n_places,)
        Attack-free rows before each place, for what is replayed.
    """

    def __init__(
        self, telemetry: TelemetryRecord, rows: PlaceRows, draws: Floats, reach: Ints
    ) -> None:
        self.telemetry, self.rows = telemetry, rows
        self.falsified = rows.offsets[rows.is_falsified]
        every = telemetry.every
        begin = telemetry.starts[rows.places]
        self.steps = (self.falsified[:, None] * every + np.arange(every)).ravel()
        self.index = begin[:, None] + self.steps
        self.length = rows.grid.rows * every
        self.begin, self.draws, self.reach = begin, draws, reach * every

    def site(self, tag: TrainTag) -> Site:
        """Return a tag at the places."""
        column = self.telemetry.values[:, tag.column]
        return Site(
            tag=tag,
            steps=self.steps,
            readings=column[self.index].astype(np.float64),
            last=column[np.maximum(self.begin - 1, 0)].astype(np.float64),
            column=column,
            index=self.index,
            reach=self.reach,
            draws=self.draws[:, self.steps],
            length=self.length,
            step_s=self.telemetry.step_s,
        )

    def sampled(self, site: Site, added: Floats | float = 0.0) -> Floats:
        """Return the detector's rows of a tag's readings with something added."""
        blocks = (site.readings + added).reshape(-1, self.telemetry.every)
        return self.telemetry.sample(blocks, site.tag)

    def delta(self, site: Site, added: Floats, twin: Floats) -> Floats:
        """Return how the detector's rows of a tag change.

        Parameters
        ----------
        site : Site
            The tag.
        added : array of shape (n_places, n_steps)
            What is added to its readings.
        twin : array
            `sampled` without anything added.

        Returns
        -------
        array of shape (n_places, n_telemetry_rows)
            0 in rows that are not falsified.
        """
        n_places = len(site.readings)
        changed = self.sampled(site, added) - twin
        delta = np.zeros((n_places, len(self.rows.offsets)))
        delta[:, self.rows.is_falsified] = changed.reshape(n_places, -1)
        return delta

    def shifted(self, added: Floats) -> Floats:
        """Return the same where every step of a place gets the same added: (n_places,).

        A median, a first and a last value all move with a shift.
        """
        return np.asarray(added[:, None] * self.rows.is_falsified)


def room_before_clipping(site: Site, weights: Floats, every: int) -> Floats:
    """Return the size at which a reading has left the possible range by each row.

    Parameters
    ----------
    site : Site
        The tag, with its possible readings.
    weights : array of shape (n_places, n_steps)
        What a size of 1 adds.
    every : int
        Steps that make one row.

    Returns
    -------
    array of shape (n_places, n_rows)
        Of this row and all before it; infinite where no size does.
    """
    room = np.full(weights.shape, np.inf)
    for limit, is_towards in (
        (site.tag.most, weights > 0),
        (site.tag.least, weights < 0),
    ):
        if np.isfinite(limit):
            left = (limit - site.readings)[is_towards] / weights[is_towards]
            room[is_towards] = np.maximum(left, 0.0)
    by_row = room.reshape(len(room), -1, every).min(axis=2)
    return np.minimum.accumulate(by_row, axis=1)


def has_room(site: Site, sign: int) -> Bools:
    """Return at which places a reading can be falsified at all.

    A reading that lies at the end of its possible range, such as a flow of 0, cannot
    go further; `LEAST_ROOM` of its range in train must be left.
    """
    limit = site.tag.most if sign > 0 else site.tag.least
    left = sign * (limit - site.readings[:, 0])
    return np.asarray(left >= LEAST_ROOM * site.tag.range)


@dataclass(frozen=True, eq=False)
class ConvolvedChange:
    """A change that is a sum of shifted responses: of a linear detector.

    Parameters
    ----------
    deltas : mapping of int to array of shape (n_places, n_telemetry_rows)
        The change of each tag.
    taps : mapping of int to array of shape (memory + 1, n_channels)
        Residuals after a change of 1 in one row of the tag: now, a row later, ...
    rows : PlaceRows
        The rows.
    """

    deltas: Deltas
    taps: Mapping[int, Floats]
    rows: PlaceRows

    def through(self, weights: Floats) -> Floats:
        """Return the change seen through a linear map; see `Change`."""
        total: Floats | None = None
        for column, delta in self.deltas.items():
            taps = self.taps[column] @ weights
            part = self._lagged(delta, len(taps)) @ taps
            total = part if total is None else total + part
        assert total is not None  # noqa: S101
        return total

    def _lagged(self, delta: Floats, n_taps: int) -> Floats:
        """Return the last rows of each grid row: shape (n_places, n_offsets, taps)."""
        pieces, first = [], 0
        for start, stop in self.rows.runs:
            part = delta[:, first : first + stop - start]
            windows = np.lib.stride_tricks.sliding_window_view(part, n_taps, axis=1)
            pieces.append(windows[..., ::-1])
            first += stop - start
        return np.concatenate(pieces, axis=1)


@dataclass(frozen=True, eq=False)
class LinearStage1:
    """A detector that is linear and the same at all times, by its responses.

    Parameters
    ----------
    taps : mapping of int to array of shape (memory + 1, n_channels)
        Response to each tag.
    """

    taps: Mapping[int, Floats]
    is_linear: bool = True

    @property
    def memory(self) -> int:
        """Earlier rows that a residual depends on."""
        return len(next(iter(self.taps.values()))) - 1

    def change(self, deltas: Deltas, rows: PlaceRows) -> Change:
        """Return how the residuals change; see `Stage1`."""
        return ConvolvedChange(deltas, self.taps, rows)
