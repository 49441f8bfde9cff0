"""Where falsifications are written into a record, and the readings at these places.

Falsifications are written before down-sampling, as an attacker would. Only the tags
that are falsified are down-sampled again; all others stay as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from sightline.blindspots.shapes import Site, TrainTag
from sightline.data.arrays import Bools, Floats, Ints
from sightline.errors import StreamError
from sightline.metrics.alarm_load import DAY_S
from sightline.text import duration, plural

# How long falsifications last, in seconds.
DURATIONS_S: Final = (60.0, 300.0, 900.0, 3600.0, 14_400.0)
# Places that a duration needs at the least, and places that are drawn.
LEAST_PLACES: Final = 10
N_PLACES: Final = 40
# Judged are this share of the days in which the budget allows one alarm.
JUDGED_SHARE: Final = 0.25
# Alarms so long after the end are alarms on release.
RELEASE_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The rows of one duration, counted from the beginning of a falsification.

    Judged are all rows of a duration of at most `judged` rows; of a longer one the
    first and the last half of that, for in a longer stretch some row is just under the
    limit by chance.

    Parameters
    ----------
    rows : int
        Rows for which the falsification lasts.
    judged : int
        Most rows that are judged.
    release : int
        Rows after the end in which alarms count as alarms on release.
    memory : int
        Rows that a rule remembers; this many are computed before judged rows.

    Examples
    --------
    >>> grid = Grid(rows=100, judged=4, release=1, memory=2)
    >>> grid.runs, grid.offsets[grid.is_judged].tolist()
    (((0, 2), (96, 101)), [0, 1, 98, 99])
    """

    rows: int
    judged: int
    release: int
    memory: int

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """First row and row after the last of each stretch that is computed."""
        end = self.rows + self.release
        if self.rows <= self.judged:
            return ((0, end),)
        half = max(self.judged // 2, 1)
        later = max(self.rows - half - self.memory, 0)
        return ((0, end),) if later <= half else ((0, half), (later, end))

    @cached_property
    def offsets(self) -> Ints:
        """The rows that are computed."""
        return np.concatenate([np.arange(*run) for run in self.runs])

    @cached_property
    def is_judged(self) -> Bools:
        """Which of them are judged."""
        inside = self.offsets < self.rows
        if self.rows <= self.judged:
            return inside
        half = max(self.judged // 2, 1)
        ends = (self.offsets < half) | (self.offsets >= self.rows - half)
        return np.asarray(inside & ends)

    @cached_property
    def is_release(self) -> Bools:
        """Which of them follow the end."""
        return self.offsets >= self.rows


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Durations in rows.

    Parameters
    ----------
    step_s : float
        Seconds a row.
    grids : tuple of Grid
        One for each duration, ascending.
    left_out : tuple of str
        Sentences about durations that are left out.
    """

    step_s: float
    grids: tuple[Grid, ...]
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        step_s: float,
        per_day: float,
        *,
        durations_s: Sequence[float] = DURATIONS_S,
        memory: int = 0,
    ) -> "Timing":
        """Return the durations in rows.

        Parameters
        ----------
        step_s : float
            Seconds a row.
        per_day : float
            Alarms a day that the budget allows.
        durations_s : sequence of float
            Durations in seconds; those shorter than a row are left out.
        memory : int
            Rows that the rules remember.

        Examples
        --------
        >>> [grid.rows for grid in Timing.of(60.0, 6.0).grids]
        [1, 5, 15, 60, 240]
        """
        judged = max(round(JUDGED_SHARE / per_day * DAY_S / step_s), 1)
        release = max(round(RELEASE_S / step_s), 1)
        wanted = sorted(set(durations_s))
        if not wanted or wanted[0] <= 0:
            raise StreamError("Durations must be positive seconds: give at least one.")
        short = [length for length in wanted if round(length / step_s) < 1]
        left_out = tuple(
            f"The duration of {duration(length)} is left out: a row takes "
            f"{duration(step_s)}."
            for length in short
        )
        grids = tuple(
            Grid(
                rows=round(length / step_s),
                judged=judged,
                release=release,
                memory=memory,
            )
            for length in wanted
            if length not in short
        )
        if not grids:
            raise StreamError(
                f"Every duration is shorter than a row of {duration(step_s)}: give "
                "longer ones."
            )
        return cls(step_s=step_s, grids=grids, left_out=left_out)

    def seconds(self, grid: Grid) -> float:
        """Return a duration in seconds."""
        return grid.rows * self.step_s


def rows_after(is_free: Bools, breaks: Ints) -> Ints:
    """Return for each row how many free rows of its run follow, itself included.

    Examples
    --------
    >>> rows_after(np.array([1, 1, 0, 1, 1], bool), np.array([0, 4]))
    array([2, 1, 0, 1, 1])
    """
    n = len(is_free)
    stops = np.union1d(np.flatnonzero(~is_free), np.append(breaks, n))
    following = stops[np.searchsorted(stops, np.arange(n), side="right")]
    return np.where(is_free, following - np.arange(n), 0)


def rows_before(is_calm: Bools, breaks: Ints) -> Ints:
    """Return for each row how many calm rows of its run lie directly before it.

    Examples
    --------
    >>> rows_before(np.array([1, 1, 0, 1, 1], bool), np.array([0, 4]))
    array([0, 1, 2, 0, 0])
    """
    n = len(is_calm)
    begins = np.unique(np.append(0, n - breaks[breaks > 0]))
    room = np.concatenate([[0], rows_after(is_calm[::-1], begins)[::-1][:-1]])
    room[breaks[breaks < n]] = 0
    return room


def draw_places(
    is_free: Bools,
    before_each: Ints,
    breaks: Ints,
    *,
    before: int,
    lengths: Sequence[int],
    n_places: int = N_PLACES,
    seed: int = 0,
) -> tuple[Ints, Bools]:
    """Return places in a record, and which lengths fit at each.

    One place is drawn in each of `n_places` equal parts of the free rows, of those rows
    of the part at which the longest length fits.

    Parameters
    ----------
    is_free : array of bool, shape (n_rows,)
        Attack-free rows on which no limit was set.
    before_each : array of int, shape (n_rows,)
        Attack-free rows before each row: `rows_before`.
    breaks : array of int
        First row of each run.
    before : int
        Rows before a place that the detector remembers.
    lengths : sequence of int
        Rows that each duration needs, ascending.
    n_places : int
        How many places.
    seed : int
        Of the draw.

    Returns
    -------
    places : array of int, ascending
        First row of each falsification; parts at which nothing fits give none.
    fits : array of bool, shape (n_places, n_lengths)
        Which lengths fit.

    Raises
    ------
    StreamError
        If fewer than `LEAST_PLACES` places are found.
    """
    after = rows_after(is_free, breaks)
    is_warm = (before_each >= before) & is_free
    parts = np.array_split(np.flatnonzero(is_free), n_places)
    places = []
    for k, part in enumerate(parts):
        possible = part[is_warm[part] & (after[part] >= lengths[0])]
        if not len(possible):
            continue
        longest = max(n for n in lengths if (after[possible] >= n).any())
        possible = possible[after[possible] >= longest]
        draw = np.random.default_rng([seed, k]).integers(len(possible))
        places.append(int(possible[draw]))
    found = np.array(sorted(places), np.int64)
    if len(found) < LEAST_PLACES:
        raise StreamError(
            f"The record has room for {plural(len(found), 'place')} "
            f"to write a falsification into, and {LEAST_PLACES} are needed: give a "
            "longer attack-free record after the rows that set the limit, or shorter "
            "durations."
        )
    return found, np.asarray(after[found][:, None] >= np.asarray(lengths))


def quantile_sizes(sizes: Floats, share: float) -> tuple[float, float, float]:
    """Return the size seen in a share of places, with its 90% interval.

    The order statistic ``ceil(share n)``; the interval has binomial order statistics as
    its ends. A lower end that no order statistic gives is 0, an upper one infinite.

    Parameters
    ----------
    sizes : array of shape (n_places,)
        Size of each place; infinite where nothing is seen.
    share : float
        Share of places, in (0, 1).

    Examples
    --------
    >>> quantile_sizes(np.arange(1.0, 41.0), 0.5)
    (20.0, 15.0, 26.0)
    """
    ordered = np.sort(sizes)
    n = len(ordered)
    middle = ordered[int(np.ceil(share * n)) - 1]
    low, high = _ends(n, share)
    return (
        float(middle),
        float(ordered[low - 1]) if low > 0 else 0.0,
        float(ordered[high - 1]) if high <= n else float("inf"),
    )


@cache
def _ends(n: int, share: float) -> tuple[int, int]:
    """Return the ranks of the order statistics at both ends of a 90% interval."""
    from scipy.stats import binom

    return int(binom.ppf(0.05, n, share)), int(binom.ppf(0.95, n, share)) + 1


# --- Readings at the places -----------------------------------------------------------


class Change(Protocol):
    """What a falsification changes in the residual rows at the places."""

    def through(self, weights: Floats) -> Floats:
        """Return the change seen through a linear map.

        Parameters
        ----------
        weights : array of shape (n_channels, q)
            The map.

        Returns
        -------
        array of shape (n_places, n_offsets, q)
        """


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
    measured : array of shape (n_steps, n_tags), optional
        What was measured, where `values` are residuals; nan where it is not known.
    """

    values: npt.NDArray[Any]
    tags: tuple[TrainTag, ...]
    starts: Ints
    every: int
    sample: Callable[[Floats, TrainTag], Floats]
    step_s: float
    is_residual: bool = False
    measured: npt.NDArray[Any] | None = None


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
        readings = column[self.index].astype(np.float64)
        measured = self.telemetry.measured
        shown = readings if measured is None else measured[self.index, tag.column]
        return Site(
            tag=tag,
            steps=self.steps,
            readings=readings,
            shown=shown,
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
            left = (limit - site.shown)[is_towards] / weights[is_towards]
            room[is_towards] = np.where(np.isnan(left), np.inf, np.maximum(left, 0.0))
    by_row = room.reshape(len(room), -1, every).min(axis=2)
    # A ramp may be seen by its slope long before its end, but no further than this can
    # anything be that an instrument shows.
    moved = np.abs(weights)
    left = np.multiply(room, moved, out=np.zeros_like(room), where=moved > 0)
    most = left.max(axis=1) / np.maximum(moved.max(axis=1), 1e-300)
    return np.asarray(np.minimum(np.minimum.accumulate(by_row, axis=1), most[:, None]))


def has_room(site: Site, sign: int) -> Bools:
    """Return at which places a reading can be falsified at all.

    A reading that lies at the end of its possible range, such as a flow of 0, cannot
    go further; `LEAST_ROOM` of its range in train must be left.
    """
    limit = site.tag.most if sign > 0 else site.tag.least
    left = sign * (limit - site.shown[:, 0])
    return np.asarray(~(left < LEAST_ROOM * site.tag.range))


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
        lagged, taps = [], []
        for column, delta in self.deltas.items():
            taps.append(self.taps[column] @ weights)
            lagged.append(self._lagged(delta, len(taps[-1])))
        # One product for all tags: many move together.
        if len(taps) == 1:
            return np.asarray(lagged[0] @ taps[0])
        return np.asarray(np.concatenate(lagged, axis=2) @ np.concatenate(taps))

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
