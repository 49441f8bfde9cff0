"""The size from which on a falsification is seen, for every tag, shape and rule.

For a linear detector one response gives all sizes in closed form. Down-sampling by a
median is not linear for ramps, scales and noise; a second response, at each place's
own size, corrects for it. For other detectors the sizes are found by a bracketed
search, all places of a case in one call.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from sightline.blindspots.places import (
    LEAST_PLACES,
    Change,
    Deltas,
    Falsifier,
    PlaceRows,
    Stage1,
    TelemetryRecord,
    Timing,
    has_room,
    quantile_sizes,
    room_before_clipping,
)
from sightline.blindspots.result import BlindSpot, SizeAt, SpotOutcome
from sightline.blindspots.rule_view import PlaceRule, RecordRule, RuleView
from sightline.blindspots.shapes import Shape, SizeUnit, Target
from sightline.data.arrays import Bools, Floats, Ints, finite
from sightline.rules.rule import Memory

# A searched size lies within this ratio: 5% on either side.
TOLERANCE: Final = 1.1
# Steps of the search that widen a bracket.
_WIDER: Final = (1.1, 1.2, 1.5, 2.0, 4.0, 8.0, 16.0)
_MOST_CALLS: Final = 40
# Calls of a search after which what the response predicts is no longer tried.
_PREDICTED_CALLS: Final = 6
# A response at the size itself is repeated until the size moves by less than this.
_CONVERGED: Final = 1e-4
_MOST_RESPONSES: Final = 5
# Larger sizes that must be seen too.
_MULTIPLES: Final = (2.0, 4.0, 8.0)
# How sizes that are not in the tag's own unit are written.
_UNITS: Final = {SizeUnit.PERCENT: "%", SizeUnit.SPREAD: "sd"}
# Seed of the noise, beside the seed of the places.
_NOISE: Final = 77


class SpotCase:
    """One shape in one target for one duration.

    Parameters
    ----------
    target, shape : Target, Shape
        What is written, and where.
    falsifier : Falsifier
        The readings.
    stage : Stage1
        What makes residuals.
    views : sequence of PlaceRule
        The rules at the places.
    """

    def __init__(
        self,
        target: Target,
        shape: Shape,
        falsifier: Falsifier,
        stage: Stage1,
        views: Sequence[PlaceRule],
    ) -> None:
        self.target, self.shape, self.stage = target, shape, stage
        self.falsifier, self.views = falsifier, views
        self.sites = [falsifier.site(tag) for tag in target.tags]
        self.weights = [shape.weights(site) for site in self.sites]
        written = np.logical_and.reduce(
            [np.isfinite(one).all(axis=1) for one in self.weights]
        )
        self.is_valid = np.asarray(written)
        self.weights = [np.nan_to_num(one) for one in self.weights]
        # Where a search begins, and the largest size that is tried.
        self.guess = max(min(shape.guess(tag) for tag in target.tags), 1e-300)
        self.largest = min(shape.largest(tag) for tag in target.tags)

    def change(self, sizes: Floats) -> Change:
        """Return the change of the residuals if each place gets its own size."""
        return self.stage.change(self._deltas(sizes), self.falsifier.rows)

    def unit_change(self, sizes: Floats) -> Change:
        """Return the change at some sizes, divided by them: a response."""
        deltas = self._deltas(sizes)
        scaled = {column: delta / sizes[:, None] for column, delta in deltas.items()}
        return self.stage.change(scaled, self.falsifier.rows)

    def _deltas(self, sizes: Floats) -> Deltas:
        falsifier = self.falsifier
        if self.shape.is_shift:
            return {
                site.tag.column: falsifier.shifted(sizes * weights[:, 0])
                for site, weights in zip(self.sites, self.weights, strict=True)
            }
        return {
            site.tag.column: falsifier.delta(site, sizes[:, None] * weights, twin)
            for site, weights, twin in zip(
                self.sites, self.weights, self._twins, strict=True
            )
        }

    @cached_property
    def _twins(self) -> list[Floats]:
        """The detector's rows of each tag as they were."""
        return [self.falsifier.sampled(site) for site in self.sites]

    def spots(self, duration_s: float) -> Iterator[BlindSpot]:
        """Yield what every rule sees."""
        if self.shape.unit is SizeUnit.NONE:
            change = self.change(np.ones(len(self.is_valid)))
            for view in self.views:
                yield self._without_size(view, change, duration_s)
            return
        signs = (1, -1) if self.shape.has_signs else (1,)
        guess = np.full(len(self.is_valid), self.guess)
        response = self.unit_change(guess)
        for view in self.views:
            first, rows = self._first_sizes(view, response)
            analytic = self._analytic(view, response)
            for k, sign in enumerate(signs):
                is_last = None if rows is None else rows[k]
                found = self._sized(view, sign, first[k], is_last)
                named = sign if len(signs) > 1 else 0
                if spot := self._spot(view, named, found, duration_s):
                    yield replace(spot, analytic=analytic)

    def sizes(self, view: PlaceRule, sign: int) -> tuple[Floats, Floats] | None:
        """Return the size of each place that counts, and how far its reading can go.

        As of `PlaceSizes`; None for too few places.
        """
        first, rows = self._first_sizes(
            view, self.unit_change(np.full(len(self.is_valid), self.guess))
        )
        k = 0 if sign > 0 else 1
        found = self._sized(view, sign, first[k], None if rows is None else rows[k])
        counts = self.judgeable(view, sign)
        if counts.sum() < LEAST_PLACES:
            return None
        return found.sizes[counts], self._room(sign)[counts, -1]

    def _analytic(self, view: PlaceRule, response: Change) -> float | None:
        """Return ``sqrt((limit - median energy) / max c)``, of a step and the energy.

        `c` is the energy that a step of 1 adds to a row; the median over places.
        """
        if not (isinstance(view, RuleView) and self.shape.is_shift):
            return None
        (member, *others) = view.members
        is_energy = member.bounds is not None and len(member.limits) == 1
        if others or not is_energy or member.member.memory is not Memory.NONE:
            return None
        judged = view.grid.is_judged
        added = response.through(member.weights)[:, judged]
        largest = 0.5 * np.square(added).sum(axis=2).max(axis=1)
        energy = 0.5 * np.square(member.base[:, judged]).sum(axis=2)
        room = float(member.limits[0]) - float(np.median(energy))
        cost = float(np.median(largest))
        return float(np.sqrt(room / cost)) if cost > 0 and room > 0 else None

    def _first_sizes(
        self, view: PlaceRule, response: Change
    ) -> tuple[Floats, Floats | None]:
        """Return the sizes by one response for both signs, and those of each row."""
        if view.is_linear:
            rows = view.crossings(response)
            return _judged(view, rows), rows
        found = [
            searched(
                lambda sizes, sign=sign: _is_seen(  # type: ignore[misc]
                    view, view.raises(ScaledChange(response, sign * sizes))
                ),
                np.full(len(self.is_valid), self.guess),
                self.largest,
                tolerance=1.001,
            )
            for sign in (1.0, -1.0)
        ]
        return np.stack(found), None

    def _sized(
        self, view: PlaceRule, sign: int, first: Floats, rows: Floats | None
    ) -> "PlaceSizes":
        """Return the size of each place for one sign, corrected or searched."""
        if not self.stage.is_linear:
            return self._searched(view, sign, first)
        is_exact = self.shape.is_exact or self.falsifier.telemetry.every == 1
        sizes = first
        if view.is_linear and not is_exact:
            rows = self._corrected(view, sign, first)
        room = self._room(sign)
        if rows is None:
            return PlaceSizes(
                sizes=_within(sizes, room[:, -1], self.largest), rows=None
            )
        possible = _within(rows, room, self.largest)
        # The least size over rows: of those possible, if there is one.
        judged = possible[:, view.grid.is_judged]
        is_possible = ~np.isneginf(judged)
        least = np.where(is_possible, judged, np.inf).min(axis=1)
        is_stopped = np.isinf(least) & ~is_possible.all(axis=1)
        return PlaceSizes(sizes=np.where(is_stopped, -np.inf, least), rows=possible)

    def _corrected(self, view: PlaceRule, sign: int, sizes: Floats) -> Floats:
        """Return the size of each row by the response at each place's own size.

        A median is not linear; the response at the size itself is exact.
        """
        for _ in range(_MOST_RESPONSES):
            at = np.where(sizes < self.largest, sizes, self.guess)
            at = np.maximum(at, self.guess * 1e-6)
            crossings = view.crossings(self.unit_change(sign * at))
            rows = np.asarray(crossings[0 if sign > 0 else 1])
            sizes = rows[:, view.grid.is_judged].min(axis=1)
            is_far = (np.abs(sizes - at) > _CONVERGED * at) & (sizes < self.largest)
            if not is_far.any():
                break
        return rows

    def _room(self, sign: int) -> Floats:
        """Return the size at which a reading leaves its range by each row of the grid.

        Rows after the end have the room of the last falsified one.
        """
        every = self.falsifier.telemetry.every
        room = np.minimum.reduce(
            [
                room_before_clipping(site, sign * weights, every)
                for site, weights in zip(self.sites, self.weights, strict=True)
            ]
        )
        at = np.searchsorted(
            self.falsifier.falsified, self.falsifier.rows.grid.offsets, side="right"
        )
        return np.asarray(room[:, np.maximum(at - 1, 0)])

    def _searched(self, view: PlaceRule, sign: int, first: Floats) -> "PlaceSizes":
        """Return the sizes by a bracketed search through the detector.

        A reading leaves its possible range at the place's room: no larger size is
        tried.
        """
        change: Change | None = None

        def seen(sizes: Floats) -> Bools:
            nonlocal change
            change = self.change(sign * sizes)
            return _is_seen(view, view.raises(change))

        def predicted(sizes: Floats) -> Floats:
            assert change is not None  # noqa: S101
            unit = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
            crossings = view.crossings(ScaledChange(change, unit))
            return np.asarray(_judged(view, crossings)[0])

        room = self._room(sign)[:, -1]
        start = np.where(first < self.largest, first, self.guess)
        sizes = searched(
            seen,
            np.maximum(start, 1e-300),
            np.minimum(self.largest, room),
            predicted=predicted if view.is_linear else None,
        )
        valid = self.is_valid & np.isfinite(sizes)
        tried = np.where(valid, sizes, 0.0)
        # One call tries all multiples, each at another third of the places.
        larger = np.minimum(np.resize(_MULTIPLES, len(tried)) * tried, self.largest)
        is_uneven = bool((~seen(larger) & valid).any())
        if is_uneven:
            sizes = evened(seen, sizes, self.largest, self.is_valid)
        sizes = _within(sizes, room, self.largest)
        half = quantile_sizes(np.abs(sizes[self.is_valid]), 0.5)[0]
        rows = None
        if np.isfinite(half):
            raised = view.raises(self.change(sign * np.full(len(sizes), half)))
            # At the 50% size a row raises an alarm or not.
            rows = np.where(raised, 0.0, np.inf)
        return PlaceSizes(sizes=sizes, rows=rows, is_uneven=is_uneven)

    def _spot(
        self, view: PlaceRule, sign: int, found: "PlaceSizes", duration_s: float
    ) -> BlindSpot | None:
        """Return the sizes of one rule as a record; None for too few places."""
        judgeable = self.judgeable(view, sign)
        sizes = found.sizes[judgeable]
        if len(sizes) < LEAST_PLACES:
            return None
        impossible = np.isneginf(sizes)
        sizes = np.where(impossible, np.inf, sizes)
        half, most = (self.size_at(sizes, share) for share in (0.5, 0.9))
        outcome = SpotOutcome.SEEN
        if half.size is None:
            # What would be needed for half of the places is possible at fewer.
            is_possible = np.sum(~impossible) >= np.ceil(0.5 * len(sizes))
            outcome = (
                SpotOutcome.NOT_SEEN if is_possible else SpotOutcome.NO_POSSIBLE_VALUE
            )
        delay_s = on_release = None
        if half.size is not None and found.rows is not None:
            delay_s, on_release = self._when(view, found.rows, half.size, judgeable)
        return BlindSpot(
            tag=self.target.name,
            shape=self.shape.name,
            sign=sign,
            duration_s=duration_s,
            rule=view.rule.name,
            outcome=outcome,
            unit=_UNITS.get(self.shape.unit, self.target.tags[0].unit or ""),
            half=half,
            most=most,
            largest=self.largest,
            delay_s=delay_s,
            on_release=on_release,
            n_places=len(sizes),
            is_uneven=found.is_uneven,
        )

    def judgeable(self, view: PlaceRule, sign: int = 0) -> Bools:
        """Return the places that count.

        Those with something to write, at least one row that can be judged, and room
        for a deviation of this sign.
        """
        counts = self.is_valid & (view.is_usable & view.grid.is_judged).any(axis=1)
        if self.shape.unit is SizeUnit.TAG:
            counts &= has_room(self.sites[0], sign or 1)
        return np.asarray(counts)

    def _when(
        self, view: PlaceRule, rows: Floats, size: float, judgeable: Bools
    ) -> tuple[float | None, float | None]:
        """Return the median delay at a size, and the share of alarms on release.

        `rows` has the size from which on each row rings.
        """
        grid = view.grid
        rings = np.abs(rows[judgeable]) <= size
        inside = rings & grid.is_judged
        is_seen = np.asarray(inside.any(axis=1))
        step_s = self.falsifier.telemetry.step_s * self.falsifier.telemetry.every
        delay = on_release = None
        if is_seen.any():
            first = grid.offsets[np.argmax(inside[is_seen], axis=1)]
            delay = float(np.median(first + 1) * step_s)
        if not is_seen.all():
            after = np.asarray((rings & grid.is_release).any(axis=1))
            on_release = float(after[~is_seen].mean())
        return delay, on_release

    def _without_size(
        self, view: PlaceRule, change: Change, duration_s: float
    ) -> BlindSpot:
        """Return how often a shape without a size is seen."""
        raised, judgeable = view.raises(change), self.judgeable(view)
        seen = _is_seen(view, raised)[judgeable]
        rows = np.where(raised, 0.0, np.inf)
        delay_s, on_release = self._when(view, rows, 1.0, judgeable)
        return BlindSpot(
            tag=self.target.name,
            shape=self.shape.name,
            sign=0,
            duration_s=duration_s,
            rule=view.rule.name,
            outcome=SpotOutcome.WITHOUT_SIZE,
            unit="",
            share_seen=float(seen.mean()) if len(seen) else None,
            delay_s=delay_s,
            on_release=on_release,
            n_places=int(judgeable.sum()),
        )

    def size_at(self, sizes: Floats, share: float) -> SizeAt:
        """Return the size seen in a share of places, with its interval."""
        tag = self.target.tags[0]
        sizes = np.asarray(quantile_sizes(sizes, share))
        if self.shape.unit is SizeUnit.TAG and tag.resolution:
            # An instrument shows whole steps: no smaller size can be read.
            sizes = np.ceil(sizes / tag.resolution - 1e-9) * tag.resolution
        size, low, high = map(finite, sizes)
        of_range = None if size is None else self.shape.of_range(size, tag)
        return SizeAt(size=size, low=low, high=high, of_range=of_range)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceSizes:
    """Sizes of the places, and the size at which each row rings.

    Parameters
    ----------
    sizes : array of shape (n_places,)
        Infinite where nothing is seen; negative infinity where the reading leaves its
        possible range before.
    rows : array of shape (n_places, n_offsets), optional
        The size from which on each row rings, where it is known.
    is_uneven : bool
        Whether larger sizes were missed.
    """

    sizes: Floats
    rows: Floats | None
    is_uneven: bool = False


@dataclass(frozen=True, eq=False)
class ScaledChange:
    """A change that grows in proportion, at the size of each place."""

    response: Change
    sizes: Floats

    def through(self, weights: Floats) -> Floats:
        """Return the change seen through a linear map; see `Change`."""
        return np.asarray(self.response.through(weights) * self.sizes[:, None, None])


def _within(sizes: Floats, room: Floats, largest: float) -> Floats:
    """Return sizes; negative infinity where a reading leaves its range before."""
    sizes = np.where(sizes > largest, np.inf, sizes)
    return np.where(sizes > room, -np.inf, sizes)


def _judged(view: PlaceRule, crossings: Floats) -> Floats:
    """Return the least size over the judged rows, shape (2, n_places)."""
    return np.asarray(crossings[:, :, view.grid.is_judged].min(axis=2))


def _is_seen(view: PlaceRule, raised: Bools) -> Bools:
    """Return at which places a judged row raises an alarm."""
    return np.asarray(raised[:, view.grid.is_judged].any(axis=1))


def searched(
    seen: Callable[[Floats], Bools],
    start: Floats,
    largest: Floats | float,
    *,
    tolerance: float = TOLERANCE,
    predicted: Callable[[Floats], Floats] | None = None,
) -> Floats:
    """Return the size from which on each place is seen, by a bracketed search.

    Parameters
    ----------
    seen : callable
        Takes the size of each place and returns which places see it. A place whose size
        is already known gets 0, and what is returned for it is not used.
    start : array of shape (n_places,)
        Where to begin; the nearer, the fewer calls.
    largest : float or array of shape (n_places,)
        The largest size to try.
    tolerance : float
        Ratio of the ends of the last bracket.
    predicted : callable, optional
        Takes the sizes that `seen` was called with last, and returns the size that each
        place's response at that size predicts. It saves calls, and changes the result
        within the tolerance only.

    Returns
    -------
    array of shape (n_places,)
        Geometric mean of the last bracket; infinite where `largest` is not seen.

    Examples
    --------
    >>> truth = np.array([1.0, 30.0, 1e9])
    >>> found = searched(lambda a: a >= truth, np.ones(3), 1e3, tolerance=1.001)
    >>> found.round(1)
    array([ 1., 30., inf])
    """
    low, high = np.zeros(len(start)), np.full(len(start), np.inf)
    size = np.clip(start, np.multiply(largest, 1e-12), largest)
    widened = np.zeros(len(start), np.int64)
    wider = np.asarray(_WIDER)
    is_open = size > 0
    for k in range(_MOST_CALLS):
        tried = np.where(is_open, size, 0.0)
        is_seen = seen(tried)
        high = np.where(is_open & is_seen, np.minimum(high, size), high)
        low = np.where(is_open & ~is_seen, np.maximum(low, size), low)
        is_hidden = (low >= largest) & np.isinf(high)
        is_tiny = high <= np.multiply(largest, 1e-12)
        is_bracketed = (low > 0) & np.isfinite(high)
        ratio = np.where(is_bracketed, high / np.where(low > 0, low, 1.0), np.inf)
        is_open = ~(is_hidden | is_tiny | (ratio <= tolerance))
        if not is_open.any():
            break
        factor = wider[np.minimum(widened, len(wider) - 1)]
        widened += ~is_bracketed
        with np.errstate(invalid="ignore"):
            middle = np.sqrt(low * high)
        down, up = high / factor, np.minimum(low * factor, largest)
        size = np.where(is_bracketed, middle, np.where(np.isfinite(high), down, up))
        if predicted is not None and k < _PREDICTED_CALLS:
            # Just beyond the prediction, so that the next call closes the bracket.
            beyond = np.where(is_seen, tolerance**-0.4, tolerance**0.4)
            wanted = np.minimum(predicted(tried) * beyond, largest)
            is_better = (wanted > low) & (wanted < high) & (ratio > tolerance**2)
            size = np.where(is_better, wanted, size)
    with np.errstate(invalid="ignore"):
        middle = np.sqrt(low * high)
    return np.where(np.isfinite(high), np.where(low > 0, middle, high), np.inf)


def evened(
    seen: Callable[[Floats], Bools], sizes: Floats, largest: float, is_valid: Bools
) -> Floats:
    """Return sizes from which on the share of places that see them stays above.

    For falsifications of which a larger one may be missed: the k-th smallest size is
    the least on a grid from which on the share never falls below k places.
    """
    finite = sizes[np.isfinite(sizes) & is_valid]
    if not len(finite):
        return sizes
    n_points = int(np.ceil(np.log(largest / finite.min()) / np.log(1.25))) + 1
    grid = np.geomspace(finite.min(), largest, max(n_points, 2))
    counts = [int((seen(np.full(len(sizes), size)) & is_valid).sum()) for size in grid]
    from_here = np.minimum.accumulate(counts[::-1])[::-1]
    out = np.full(len(sizes), np.inf)
    valid = np.flatnonzero(is_valid)
    for k, place in enumerate(valid):
        enough = np.flatnonzero(from_here >= k + 1)
        out[place] = grid[enough[0]] if len(enough) else np.inf
    return out


@dataclass(frozen=True, kw_only=True, eq=False)
class Arena:
    """All that a search needs: telemetry, detector, rules and places.

    Parameters
    ----------
    telemetry : TelemetryRecord
        The record.
    stage : Stage1
        What makes residuals of it.
    timing : Timing
        The durations.
    places : array of int
        First row of each falsification.
    fits : array of bool, shape (n_places, n_durations)
        Which durations fit.
    reach, room : array of int, shape (n_places,)
        Attack-free rows before each place, and from it on.
    rules : tuple of RecordRule
        The rules at the places.
    seed : int
        Of the noise.
    """

    telemetry: TelemetryRecord
    stage: Stage1
    timing: Timing
    places: Ints
    fits: Bools
    reach: Ints
    room: Ints
    rules: tuple[RecordRule, ...]
    seed: int = 0
    views: list[list[PlaceRule]] = field(init=False)
    falsifiers: list[Falsifier] = field(init=False)

    def __post_init__(self) -> None:
        """Read the rules' views and the normal numbers of the places."""
        longest = max(grid.rows for grid in self.timing.grids) * self.telemetry.every
        draws = np.stack(
            [
                np.random.default_rng([self.seed, _NOISE, k]).standard_normal(longest)
                for k in range(len(self.places))
            ]
        )
        self.__dict__["views"] = [list(one.views()) for one in self.rules]
        self.__dict__["falsifiers"] = [
            Falsifier(
                self.telemetry,
                PlaceRows(
                    grid=grid,
                    places=self.places[self.fits[:, k]],
                    memory=self.stage.memory,
                ),
                draws[self.fits[:, k]],
                self.reach[self.fits[:, k]],
            )
            for k, grid in enumerate(self.timing.grids)
        ]

    def spots(self, target: Target) -> Iterator[BlindSpot]:
        """Yield what every rule sees of every shape and duration."""
        for shape in target.shapes:
            for k, falsifier in enumerate(self.falsifiers):
                views = [by_duration[k] for by_duration in self.views]
                case = SpotCase(target, shape, falsifier, self.stage, views)
                if case.is_valid.sum() >= 1:
                    yield from case.spots(self.timing.seconds(falsifier.rows.grid))
