"""Where falsifications are written into a record, and which rows judge them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import numpy as np

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
