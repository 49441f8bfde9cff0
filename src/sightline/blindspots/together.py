"""How far a tag can be off unseen while other sensors are falsified with it.

For a linear detector the answer to a lasting falsification is linear in the sizes of
all tags. The others cancel in it what they can: least squares over their columns, in
units of the rule's limit. Few others are selected one after the other, each the one
that lowers the answer most. No other sensor leaves the readings that are possible. The
size itself is then found as that of a single tag, at the same places.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from sightline.blindspots.places import (
    Falsifier,
    LinearStage1,
)
from sightline.blindspots.result import (
    BlindSpot,
    SpotOutcome,
    TogetherSize,
    blindest_of,
)
from sightline.blindspots.rule_view import PlaceRule, RuleView
from sightline.blindspots.shapes import SHAPES, Shape, Site, Target, TrainTag
from sightline.blindspots.sizes import Arena, SpotCase
from sightline.data.arrays import Floats, Ints
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.rule import Memory

# Other sensors that are falsified too; None: all.
OTHERS: Final = (1, 2, 5, None)
# Of all others these numbers are tried too: some only take room away.
_MANY: Final = (10, 20)
# Rows of a falsification whose answer is looked at, at the most.
_MOST_ROWS: Final = 16
# Answers below this share of the largest are none.
_RANK: Final = 1e-9
# Others stay possible at this share of the places.
_POSSIBLE_AT: Final = 0.75
# Of their range for one range of the tag; others that move less stay out.
_LEAST_MOVE: Final = 1e-4
# Sizes between alone and the largest at which the others are fitted.
_TRIED: Final = 8
# Times that weights are changed to even out the largest values.
_EVENED: Final = 10


class Together(Shape):
    """One shape in several tags, in a fixed proportion to the first.

    Parameters
    ----------
    base : Shape
        The shape.
    tag : TrainTag
        The first tag, in whose unit sizes are.
    factors : mapping of str to float
        What a size of 1 does to each tag.
    """

    def __init__(self, base: Shape, tag: TrainTag, factors: dict[str, float]) -> None:
        self.base, self.tag, self.factors = base, tag, factors
        self.name = base.name  # type: ignore[misc]
        self.is_shift = base.is_shift  # type: ignore[misc]
        self.is_exact = base.is_exact  # type: ignore[misc]

    def weights(self, site: Site) -> Floats:
        """Return the base's weights in proportion."""
        return self.factors[site.tag.name] * self.base.weights(site)

    def guess(self, tag: TrainTag) -> float:
        """Return the guess of the first tag."""
        return self.base.guess(self.tag)

    def largest(self, tag: TrainTag) -> float:
        """Return the largest size of the first tag."""
        return self.base.largest(self.tag)


def within(tag: TrainTag) -> TrainTag:
    """Return a tag with limits: where none is known, a range beyond those of train.

    Examples
    --------
    >>> tag = TrainTag(name="a", column=0, spread=1.0, lowest=-1.0, highest=3.0)
    >>> within(tag).least, within(tag).most
    (-5.0, 7.0)
    """
    return replace(
        tag,
        least=max(tag.least, tag.lowest - tag.range),
        most=min(tag.most, tag.highest + tag.range),
    )


@dataclass(frozen=True, eq=False)
class Helpers:
    """Other sensors that hide a tag from a rule, for one shape and duration.

    Parameters
    ----------
    stage : LinearStage1
        The detector.
    view : RuleView
        The rule at the places.
    falsifier : Falsifier
        The readings there.
    shape : Shape
        Steps or ramps.
    tags : sequence of TrainTag
        Sensors that move in train, `within` what is possible.
    """

    stage: LinearStage1
    view: RuleView
    falsifier: Falsifier
    shape: Shape
    tags: Sequence[TrainTag]

    @cached_property
    def answers(self) -> Floats:
        """What the rule looks at, over its limit, for one range of each tag.

        Shape (n_values, n_tags).
        """
        site = self.falsifier.site(self.tags[0])
        every = self.falsifier.telemetry.every
        weights = self.shape.weights(site)[0].reshape(-1, every).mean(axis=1)
        full = np.interp(
            np.arange(self.view.grid.rows), self.falsifier.falsified, weights
        )
        taps = [self.stage.taps[tag.column] * tag.range for tag in self.tags]
        return np.stack([self._answer(one, full) for one in taps], axis=1)

    def _answer(self, taps: Floats, weights: Floats) -> Floats:
        """Return the answer to one tag, in units of the limits, as one column."""
        from scipy.signal import lfilter

        n = len(weights)
        moved = np.stack([np.convolve(weights, one)[:n] for one in taps.T], axis=1)
        parts = []
        for one in self.view.members:
            seen = moved @ one.weights
            if one.member.memory is Memory.AVERAGE:
                share = one.member.weight
                seen = lfilter([share], [1.0, share - 1.0], seen, axis=0)
            limits = one.limits
            if one.bounds is not None:
                limits = np.repeat(np.sqrt(2 * limits), np.diff(one.bounds))
            parts.append((seen[self._rows(n, len(taps))] / limits).ravel())
        return np.concatenate(parts)

    @cached_property
    def units(self) -> Ints:
        """Which values of `answers` are compared with a limit together."""
        reach = len(next(iter(self.stage.taps.values())))
        parts, first = [], 0
        for one in self.view.members:
            widths = [1] * one.weights.shape[1]
            if one.bounds is not None:
                widths = np.diff(one.bounds).tolist()
            n = len(self._rows(self.view.grid.rows, reach)) * len(widths)
            parts.append(np.repeat(first + np.arange(n), np.resize(widths, n)))
            first += n
        return np.concatenate(parts)

    @cached_property
    def reduced(self) -> Floats:
        """`answers` with as many values as tags, and the same lengths and angles."""
        return np.asarray(np.linalg.qr(self.answers, mode="r"))

    def _rows(self, n: int, reach: int) -> Ints:
        """Return the rows that are looked at: the first ones, and later ones."""
        first = np.arange(min(reach, n, _MOST_ROWS // 2))
        later = np.linspace(0, n - 1, _MOST_ROWS // 2).round().astype(np.int64)
        return np.union1d(first, later)

    @cached_property
    def room(self) -> Floats:
        """How far each tag can be moved down and up at most places, in its range.

        Shape (2, n_tags).
        """
        rooms = np.empty((2, len(self.tags)))
        for j, tag in enumerate(self.tags):
            readings = self.falsifier.site(tag).readings
            for k, left in enumerate((readings - tag.least, tag.most - readings)):
                rooms[k, j] = np.quantile(left.min(axis=1), 1 - _POSSIBLE_AT)
        ranges = np.array([tag.range for tag in self.tags])
        return np.asarray(np.maximum(rooms, 0.0) / ranges)

    def selected(self, target: int, count: int) -> list[int]:
        """Return the others that lower the answer to a tag most, one after another."""
        columns = self.reduced.copy()
        left = columns[:, target].copy()
        least = _RANK * np.linalg.norm(columns, axis=0).max(initial=0.0)
        taken: list[int] = []
        movable = self.room.max(axis=0) > 0
        movable[target] = False
        for _ in range(min(count, int(movable.sum()))):
            norms = np.linalg.norm(columns, axis=0)
            is_new = movable & (norms > least)
            is_new[taken] = False
            if not is_new.any():
                break
            gains = np.abs(left @ columns) / np.where(is_new, norms, np.inf)
            best = int(np.argmax(np.where(is_new, gains, -1.0)))
            taken.append(best)
            along = columns[:, best] / norms[best]
            left = left - along * (along @ left)
            columns = columns - np.outer(along, along @ columns)
        return taken

    def moves(self, target: int, others: Sequence[int], sign: int) -> list[Floats]:
        """Return ways in which the others move for one range of a tag, in their ranges.

        Of several sizes of the tag the largest whose answer stays below the limit where
        nothing else is measured; the others stay within their room at that size. The
        first way has the least energy, the second the least of its largest values.
        """
        columns, wanted = self.reduced[:, list(others)], -self.reduced[:, target]
        down, up = self.room[:, list(others)]
        low, high = (-down, up) if sign > 0 else (-up, down)
        alone = 1.0 / max(float(np.linalg.norm(wanted)), 1e-12)
        own = self.room[1 if sign > 0 else 0, target] or alone
        best, most, at = np.zeros(len(others)), 0.0, own
        for size in np.geomspace(min(alone, own), max(own, alone), _TRIED):
            found = _within_box(columns, wanted, low / size, high / size)
            answer = float(np.linalg.norm(columns @ found - wanted))
            reached = min(1.0 / max(answer, 1e-12), float(size))
            if reached > most:
                best, most, at = found, reached, float(size)
        ways = [best]
        if len(others):
            ways.append(self._evened(target, list(others), best, low / at, high / at))
        return ways

    def _evened(
        self, target: int, others: list[int], moves: Floats, low: Floats, high: Floats
    ) -> Floats:
        """Return moves with the least largest unit: Lawson's weights."""
        columns, wanted = self.answers[:, others], -self.answers[:, target]
        weights = np.ones(self.units[-1] + 1)
        best, least = moves, np.inf
        for _ in range(_EVENED):
            left = columns @ moves - wanted
            sizes = np.sqrt(np.bincount(self.units, np.square(left)))
            if sizes.max() < least:
                best, least = moves, float(sizes.max())
            weights = weights * sizes
            weights /= weights.mean() or 1.0
            roots = np.sqrt(weights)[self.units]
            whole = np.column_stack([columns, wanted]) * roots[:, None]
            small = np.asarray(np.linalg.qr(whole, mode="r"))
            moves = _within_box(small[:, :-1], small[:, -1], low, high)
        return best


def _within_box(columns: Floats, wanted: Floats, low: Floats, high: Floats) -> Floats:
    """Return the least squares solution whose values lie within bounds.

    Values that leave them are held there, and the rest is solved again.

    Examples
    --------
    >>> _within_box(np.eye(2), np.array([3.0, 1.0]), np.zeros(2), np.full(2, 2.0))
    array([2., 1.])
    """
    found = np.zeros(columns.shape[1])
    is_free = np.ones(len(found), np.bool_)
    while is_free.any():
        rest = wanted - columns[:, ~is_free] @ found[~is_free]
        found[is_free] = np.linalg.lstsq(columns[:, is_free], rest, rcond=_RANK)[0]
        clipped = np.clip(found, low, high)
        is_out = is_free & (np.abs(clipped - found) > 1e-9 * (1 + np.abs(found)))
        if not is_out.any():
            break
        found[is_out] = clipped[is_out]
        is_free &= ~is_out
    return found


def together(helpers: Helpers, alone: BlindSpot) -> Iterator[TogetherSize]:
    """Yield the size of a tag alone, and with others, each at least the one before.

    Parameters
    ----------
    helpers : Helpers
        The sensors, for the shape and duration of `alone`.
    alone : BlindSpot
        What the rule sees of the tag alone.
    """
    target = [tag.name for tag in helpers.tags].index(alone.tag)
    best: TogetherSize | None = None
    for count in (0, *OTHERS):
        if count is None:
            every = [j for j in range(len(helpers.tags)) if j != target]
            sets = [*(helpers.selected(target, n) for n in _MANY), every]
        else:
            sets = [helpers.selected(target, count)]
        for others in sets:
            for moves in helpers.moves(target, others, alone.sign):
                found = _sized(helpers, target, others, moves, alone)
                if best is None or (found and found.size > best.size):
                    best = found
        if best is None:
            return
        yield replace(best, count=count)


def _sized(
    helpers: Helpers,
    target: int,
    others: Sequence[int],
    moves: Floats,
    alone: BlindSpot,
) -> TogetherSize | None:
    """Return the size of a tag with some others; None for too few places."""
    tag, view = helpers.tags[target], helpers.view
    factors = {tag.name: 1.0}
    for j, move in zip(others, moves.tolist(), strict=True):
        if abs(move) > _LEAST_MOVE:
            factors[helpers.tags[j].name] = move * helpers.tags[j].range / tag.range
    by_name = {one.name: one for one in helpers.tags}
    shape = Together(helpers.shape, tag, factors)
    members = tuple(by_name[name] for name in factors)
    goal = Target(name=tag.name, tags=members, shapes=(shape,))
    case = SpotCase(goal, shape, helpers.falsifier, helpers.stage, [view])
    found = case.sizes(view, alone.sign)
    if found is None:
        return None
    sizes, room = found
    if len(factors) > 1:
        # What hides must last: no reading leaves its range before the end.
        sizes = np.where(np.minimum(sizes, case.largest) > room, -np.inf, sizes)
    half = case.size_at(np.where(np.isneginf(sizes), np.inf, sizes), 0.5)
    is_possible = np.sum(~np.isneginf(sizes)) >= np.ceil(0.5 * len(sizes))
    outcome = SpotOutcome.SEEN
    size = half.size
    if size is None:
        # No more is possible, or was tried.
        size = float(np.median(np.minimum(room, case.largest)))
        outcome = SpotOutcome.NOT_SEEN
        outcome = outcome if is_possible else SpotOutcome.NO_POSSIBLE_VALUE
    return TogetherSize(
        tag=tag.name,
        rule=view.rule.name,
        shape=helpers.shape.name,
        sign=alone.sign,
        duration_s=alone.duration_s,
        unit=tag.unit or "",
        count=0,
        outcome=outcome,
        size=size,
        of_range=size / tag.range,
        share_seen=float(np.mean(np.isfinite(sizes) & (sizes <= size))),
        n_places=len(sizes),
        others=tuple(factors)[1:],
        factors=tuple(factors.values())[1:],
    )


def why_not_together(arena: Arena, views: Sequence[PlaceRule]) -> str | None:
    """Return why tags together are not computed; None where they can be."""
    if arena.telemetry.is_residual:
        return "which tags move a residual is known of a detector alone"
    if not isinstance(arena.stage, LinearStage1):
        return "the detector is not linear, and sets of tags are too many to search"
    if not views[0].is_linear:
        return f"what the rule {views[0].rule.name!r} remembers is not linear"
    return None


def all_together(
    arena: Arena,
    views: Sequence[PlaceRule],
    tags: Sequence[TrainTag],
    spots: Sequence[BlindSpot],
    progress: Progress = silent,
) -> Iterator[TogetherSize]:
    """Yield how far each tag can be off alone, and with others, the blindest first.

    Parameters
    ----------
    arena : Arena
        Of a linear detector.
    views : sequence of PlaceRule
        The rule at the places, one for each duration.
    tags : sequence of TrainTag
        Sensors that move in train.
    spots : sequence of BlindSpot
        What the rule sees of single tags.
    progress : callable, optional
        Called with a `Step`.
    """
    sensors, known = [within(tag) for tag in tags], {tag.name for tag in tags}
    worst = [spot for spot in blindest_of(spots) if spot.tag in known]
    seconds = [arena.timing.seconds(grid) for grid in arena.timing.grids]
    helpers: dict[str, Helpers] = {}
    for k, spot in enumerate(worst):
        at = seconds.index(spot.duration_s)
        view, stage = views[at], arena.stage
        assert isinstance(view, RuleView)  # noqa: S101
        assert isinstance(stage, LinearStage1)  # noqa: S101
        if spot.shape not in helpers:
            helpers[spot.shape] = Helpers(
                stage, view, arena.falsifiers[at], SHAPES[spot.shape], sensors
            )
        yield from together(helpers[spot.shape], spot)
        step = Step(StepKind.FALSIFYING, k + 1, len(worst), f"{spot.tag} with others")
        progress(step)
