"""Two kinds of attackers: one who knows detector, rule and limit, and a user's table.

Who knows the rule stays just below its limit. For a linear detector the largest
deviation that no row shows is the solution of a convex problem: maximise the mean
deviation such that every row stays below the limit. A member that looks at the largest
deviation gives linear constraints, one that looks at an energy quadratic ones; both are
met by cuts, added where the last solution violates them.

One row of a user's table is one action; rows with the same id act together. Kinds::

    constant   the tag reads `value`
    bias       the tag reads too much by `value`, growing by `rate` a second
    ramp       the tag moves from its last reading by `rate` a second, up to `value`
    freeze     the tag stays at its last reading
    replay     the tag repeats what it read `value` seconds before
    gain       the tag reads `value` times what it measures
    set        an actuator shows the state `value`
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from sightline.blindspots.places import (
    LEAST_PLACES,
    Falsifier,
    LinearStage1,
    PlaceRows,
    quantile_sizes,
)
from sightline.blindspots.result import (
    BlindSpot,
    KnowingAttacker,
    WhatIf,
    nearest_duration,
    weight,
)
from sightline.blindspots.rule_view import MemberView, PlaceRule, RowChange, RuleView
from sightline.blindspots.shapes import SHAPES, Site, TrainTag
from sightline.blindspots.sizes import Arena
from sightline.data.arrays import Floats, Ints
from sightline.errors import StreamError
from sightline.rules.rule import Memory
from sightline.text import did_you_mean, number, plural

# Rows may exceed their limit by this share when the search ends.
SLACK: Final = 1e-4
_MOST_ROUNDS: Final = 200
# Places at which the attacker who knows the rule is solved, and for how many tags.
KNOWING_PLACES: Final = 3
KNOWING_TAGS: Final = 10
# The deviation takes at most this many values, each for equally many rows: with 900 of
# them (15 minutes of seconds) a solution takes some 20 times as long, for 1% more.
MOST_VALUES: Final = 90
# A tag whose lasting response is below this share of its first one reads anything.
_NO_RESPONSE: Final = 1e-6


@dataclass(frozen=True, eq=False)
class _Constraint:
    """One member over the rows of one place: ``f(t) = base(t) + sum_s G(t - s) d(s)``.

    Parameters
    ----------
    base : array of shape (n_rows, q)
        Without deviation.
    response : array of shape (n_rows, q)
        G: what a deviation of 1 in one row does now, a row later, ...
    view : MemberView
        The member, with its limits and what of it is out of service.
    place : int
        The place.
    """

    base: Floats
    response: Floats
    view: MemberView
    place: int

    @classmethod
    def of(cls, one: MemberView, taps: Floats, place: int, n: int) -> "_Constraint":
        """Return a member of a rule at one place, over `n` rows."""
        response = np.zeros((n, one.weights.shape[1]))
        reach = min(n, len(taps))
        response[:reach] = taps[:reach] @ one.weights
        if one.member.memory is Memory.AVERAGE:
            from scipy.signal import lfilter

            weight = one.member.weight
            response = lfilter([weight], [1.0, weight - 1.0], response, axis=0)
        return cls(one.base[place, :n], response, one, place)

    def change(self, deviation: Floats) -> Floats:
        """Return how a deviation changes what the member looks at, (n_rows, q)."""
        from scipy.signal import fftconvolve

        whole = fftconvolve(deviation[:, None], self.response, axes=0)
        return self.view.in_service(whole[: len(self.base)], self.place)

    def ratio(self, seen: Floats) -> Floats:
        """Return each unit over its limit, shape (n_rows, n_units).

        Of an energy the root.
        """
        view = self.view
        if view.bounds is None:
            ratio = np.abs(seen) / view.limits
        else:
            squares = np.add.reduceat(np.square(seen), view.bounds[:-1], axis=1)
            ratio = np.sqrt(0.5 * squares / view.limits)
        return np.asarray(ratio)

    def worst(self, change: Floats) -> float:
        """Return the largest ratio under a change."""
        return float(self.ratio(self.base + change).max(initial=0.0))

    def cuts(self, change: Floats, starts: Ints) -> tuple[Floats, Floats]:
        """Return linear constraints that a change violates.

        Each is ``row @ d <= bound``, `d` the deviation in the blocks of rows that begin
        at `starts`. The twin itself must be below its limits.
        """
        seen = self.base + change
        ratio, view = self.ratio(seen), self.view
        rows, bounds = [], []
        if view.bounds is None:
            times = np.flatnonzero(ratio.max(axis=1) > 1 + SLACK / 2)
            units = ratio[times].argmax(axis=1)
            sign = np.sign(seen[times, units])
            rows.append(sign[:, None] * self._lagged(times, starts, units[:, None]))
            bounds.append(view.limits[units] - sign * self.base[times, units])
        for g in range(0 if view.bounds is None else len(view.limits)):
            assert view.bounds is not None  # noqa: S101
            part = slice(view.bounds[g], view.bounds[g + 1])
            times = np.flatnonzero(ratio[:, g] > 1 + SLACK / 2)
            # The tangent of the energy at the point where the ray from the twin's row
            # meets the limit: it cuts deeper than one at the point itself.
            base = self.base[times, part]
            step = seen[times, part] - base
            a, b = np.square(step).sum(axis=1), (base * step).sum(axis=1)
            c = np.square(base).sum(axis=1) - 2 * float(view.limits[g])
            root = np.sqrt(np.maximum(b * b - a * c, 0.0))
            at = base + ((root - b) / a)[:, None] * step
            lagged = self._lagged(times, starts, part)
            rows.append((lagged @ at[:, :, None])[..., 0])
            bounds.append((at * (at - base)).sum(axis=1))
        return np.concatenate(rows), np.concatenate(bounds)

    def _lagged(self, times: Ints, starts: Ints, columns: slice | Ints) -> Floats:
        """Return how some rows depend on the deviation of each block.

        Shape (n_times, n_blocks), of one column for each time; or with another axis, of
        a slice of columns.
        """
        # What a deviation from a row on has done by now, less that from the next block.
        ends = np.append(starts[1:], len(self.base))
        since = times[:, None] - np.stack([starts, ends])[:, None]
        found = self._lasting[np.maximum(since, -1) + 1, columns]
        return np.asarray(found[0] - found[1])

    @cached_property
    def _lasting(self) -> Floats:
        """The response to a deviation that lasts; its first row is before it."""
        return np.concatenate(
            [np.zeros((1, self.response.shape[1])), self.response.cumsum(axis=0)]
        )


def largest_deviation(
    view: RuleView, taps: Floats, place: int, most: float
) -> Floats | None:
    """Return the deviation of each row with the largest mean that no row shows.

    Parameters
    ----------
    view : RuleView
        A rule with linear memory, for a duration that is judged whole.
    taps : array of shape (memory + 1, n_channels)
        Response of the detector to the tag.
    place : int
        Which place.
    most : float
        The deviation is kept within plus and minus this. It takes at most
        `MOST_VALUES` values in turn.

    Returns
    -------
    array of shape (n_rows,), optional
        None if the twin itself is over a limit there.
    """
    from scipy.optimize import linprog

    n = view.grid.rows
    members = [_Constraint.of(one, taps, place, n) for one in view.members]
    starts = np.arange(0, n, int(np.ceil(n / MOST_VALUES)))
    lengths = np.diff(np.append(starts, n))
    if any(one.worst(np.zeros_like(one.base)) >= 1 for one in members):
        return None
    rows, bounds = np.empty((0, len(starts))), np.empty(0)
    values = np.full(len(starts), most)
    for _ in range(_MOST_ROUNDS):
        changes = [one.change(np.repeat(values, lengths)) for one in members]
        parts = list(zip(members, changes, strict=True))
        if max(one.worst(change) for one, change in parts) <= 1 + SLACK:
            break
        cuts = [one.cuts(change, starts) for one, change in parts]
        rows = np.concatenate([rows, *(new for new, _ in cuts)])
        bounds = np.concatenate([bounds, *(new for _, new in cuts)])
        # In units of `most`, so that the solver sees numbers near 1.
        scale = np.maximum(np.abs(rows).max(axis=1), 1e-300)
        solved = linprog(
            -lengths / n,
            A_ub=rows / scale[:, None],
            b_ub=bounds / scale / most,
            bounds=(-1.0, 1.0),
            method="highs",
        )
        if solved.x is None:
            return None
        values = solved.x * most
    deviation = np.repeat(values, lengths)
    # Pulled in to the share at which no row is over its limit.
    parts = [(one, one.change(deviation)) for one in members]
    if all(one.worst(change) <= 1 for one, change in parts):
        return deviation
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if all(one.worst(middle * change) <= 1 for one, change in parts):
            low = middle
        else:
            high = middle
    return deviation * low


def held_for_good(view: RuleView, taps: Floats) -> float | None:
    """Return the deviation that can be held for good if it is approached slowly.

    ``sqrt(2 (limit - median energy) / h'Ph)`` with h the sum of the responses; of a
    largest deviation ``(limit - median) / |h|``. The least over members and units; None
    where the detector forgets the deviation, so that any can be held.
    """
    total, least = taps.sum(axis=0), np.inf
    for one in view.members:
        moved = total @ one.weights
        first = np.abs(taps @ one.weights).max(initial=0.0)
        if np.abs(moved).max(initial=0.0) <= _NO_RESPONSE * first:
            continue
        base = one.base.reshape(-1, one.base.shape[2])
        if one.bounds is None:
            room = np.maximum(one.limits - np.median(np.abs(base), axis=0), 0.0)
            answers = moved != 0
            sizes = room[answers] / np.abs(moved[answers])
            least = min(least, float(sizes.min(initial=np.inf)))
            continue
        for g, limit in enumerate(one.limits):
            part = slice(one.bounds[g], one.bounds[g + 1])
            squares = float(np.square(moved[part]).sum())
            energy = float(np.median(0.5 * np.square(base[:, part]).sum(axis=1)))
            if squares > 0:
                left = max(float(limit) - energy, 0.0)
                least = min(least, float(np.sqrt(2 * left / squares)))
    return least if np.isfinite(least) else None


def held_unread(view: RuleView, taps: Floats) -> float | None:
    """Return the deviation, approached slowly, that half of the places keep unseen.

    Of an attacker who does not know the readings: for as long as the view lasts the
    noise may lift a row over its limit. The better of both signs. None where too few
    places can be judged.

    Parameters
    ----------
    view : RuleView
        A rule with linear memory, for a duration that is judged whole.
    taps : array of shape (memory + 1, n_channels)
        Response of the detector to the tag.
    """
    # What lasts has filled the averages: they add it whole.
    filled = tuple(
        replace(one, member=replace(one.member, memory=Memory.NONE))
        for one in view.members
    )
    total, judged = taps.sum(axis=0), view.grid.is_judged
    change = RowChange(np.broadcast_to(total, (*view.is_usable.shape, len(total))))
    sizes = replace(view, members=filled).crossings(change)[..., judged].min(axis=2)
    counts = (view.is_usable & judged).any(axis=1)
    if counts.sum() < LEAST_PLACES:
        return None
    return max(quantile_sizes(one[counts], 0.5)[0] for one in sizes)


def knowing_attacker(
    view: RuleView,
    taps: Floats,
    tag: TrainTag,
    places: Sequence[int],
    *,
    step_s: float,
    most: float,
    injected: float | None = None,
    longest: RuleView | None = None,
) -> KnowingAttacker | None:
    """Return how far an attacker who knows everything can push one tag, unseen.

    Parameters
    ----------
    view : RuleView
        The rule, for the duration.
    taps : array of shape (memory + 1, n_channels)
        Response of the detector to the tag.
    tag : TrainTag
        The tag.
    places : sequence of int
        Which places are solved; the median is reported.
    step_s : float
        Seconds a row.
    most : float
        Largest deviation.
    injected : float, optional
        50% size of a plain step.
    longest : RuleView, optional
        The rule for the longest duration that is judged whole; by default `view`.
    """
    means = []
    for place in places:
        found = [
            largest_deviation(view, sign * taps, place, most) for sign in (1.0, -1.0)
        ]
        known = [float(one.mean()) for one in found if one is not None]
        if known:
            means.append(max(known))
    if not means:
        return None
    mean, held = float(np.median(means)), held_for_good(view, taps)
    longest = longest or view
    unread = None if held is None else held_unread(longest, taps)
    return KnowingAttacker(
        tag=tag.name,
        rule=view.rule.name,
        unit=tag.unit or "",
        duration_s=view.grid.rows * step_s,
        held=held,
        mean=mean,
        of_range=mean / tag.range,
        injected=injected,
        held_unread=unread,
        unread_s=None if held and unread is None else longest.grid.rows * step_s,
    )


# --- Attacks of a user's table --------------------------------------------------------


def knowing_attackers(
    arena: Arena,
    views: Sequence[PlaceRule],
    tags: Sequence[TrainTag],
    spots: Sequence[BlindSpot],
) -> Iterator[KnowingAttacker]:
    """Yield how far those who know the rule can push the blindest tags.

    Parameters
    ----------
    arena : Arena
        The record; nothing is yielded unless its detector is linear.
    views : sequence of PlaceRule
        The rule at the places, one for each duration; nothing is yielded unless its
        memory is linear and it has no on-delay.
    tags : sequence of TrainTag
        The tags.
    spots : sequence of BlindSpot
        What the rule sees of them.
    """
    stage, grids = arena.stage, arena.timing.grids
    seconds = [arena.timing.seconds(grid) for grid in grids]
    usual = nearest_duration(seconds)
    # Durations ascend, so that the last of these is the longest.
    whole = [g for g, one in enumerate(grids) if one.rows <= one.judged]
    view = views[seconds.index(usual)]
    if not isinstance(stage, LinearStage1) or seconds.index(usual) not in whole:
        return
    if not isinstance(view, RuleView) or not view.is_linear or view.rule.delays.on > 1:
        return
    longest = views[whole[-1]]
    by_name = {tag.name: tag for tag in tags}
    mine = [
        s
        for s in spots
        if (s.shape, s.duration_s) == ("step", usual) and s.tag in by_name
    ]
    worst = {s.tag: s for s in sorted(mine, key=weight)}
    # Places whose twin raises no alarm.
    is_clear = view.is_usable[:, view.grid.is_judged].all(axis=1)
    clear = np.flatnonzero(is_clear)[:KNOWING_PLACES].tolist()
    for spot in sorted(worst.values(), key=lambda s: -weight(s))[:KNOWING_TAGS]:
        tag = by_name[spot.tag]
        found = knowing_attacker(
            view,
            stage.taps[tag.column],
            tag,
            clear,
            step_s=arena.timing.step_s,
            most=SHAPES["step"].largest(tag),
            injected=None if spot.half is None else spot.half.size,
            longest=longest if isinstance(longest, RuleView) else None,
        )
        if found is not None:
            yield found


class TagAction(StrEnum):
    """What an attack does to a tag."""

    CONSTANT = "constant"
    BIAS = "bias"
    RAMP = "ramp"
    FREEZE = "freeze"
    REPLAY = "replay"
    GAIN = "gain"
    SET = "set"


_NEEDS_VALUE = (
    TagAction.CONSTANT,
    TagAction.REPLAY,
    TagAction.GAIN,
    TagAction.SET,
)


@dataclass(frozen=True, kw_only=True)
class Falsification:
    """One action of an attack.

    Parameters
    ----------
    tag : str
        The tag.
    kind : TagAction
        See the module.
    value, rate : float, optional
        In the unit of the tag, and the same a second; seconds for ``replay``, a factor
        for ``gain``.

    Raises
    ------
    StreamError
        If a number that the kind needs is missing.
    """

    tag: str
    kind: TagAction
    value: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        """Refuse an action without the number it needs."""
        kind = self.kind
        if kind in _NEEDS_VALUE and self.value is None:
            raise StreamError(f"{kind.value!r} of {self.tag} needs a value.")
        if kind is TagAction.RAMP and not self.rate:
            raise StreamError(f"'ramp' of {self.tag} needs a rate other than 0.")
        if kind is TagAction.BIAS and not self.rate and not self.value:
            raise StreamError(f"'bias' of {self.tag} needs a value or a rate.")
        if kind is TagAction.REPLAY and not (self.value or 0) > 0:
            raise StreamError(f"'replay' of {self.tag} needs seconds back above 0.")

    def reads(self, site: Site) -> Floats:
        """Return what the tag shows, shape (n_places, n_steps)."""
        seconds = (site.steps + 1) * site.step_s
        value, rate = self.value or 0.0, self.rate or 0.0
        if self.kind in (TagAction.CONSTANT, TagAction.SET):
            return site.filled(value)
        if self.kind is TagAction.BIAS:
            return np.asarray(site.readings + value + rate * seconds)
        if self.kind is TagAction.GAIN:
            return np.asarray(site.readings * value)
        if self.kind is TagAction.FREEZE:
            return np.repeat(site.last[:, None], site.readings.shape[1], axis=1)
        if self.kind is TagAction.REPLAY:
            return site.earlier(max(round(value / site.step_s), 1))
        moved = site.last[:, None] + rate * seconds
        if self.value is None:
            return moved
        return np.minimum(moved, value) if rate > 0 else np.maximum(moved, value)

    def words(self, unit: str | None) -> str:
        """Return what it does, in words."""
        value = f"{number(self.value)} {unit or ''}".strip()
        rate = f"{number(self.rate)} {unit or ''}".strip()
        return {
            TagAction.CONSTANT: f"{self.tag} reads {value}",
            TagAction.SET: f"{self.tag} shows the state {number(self.value)}",
            TagAction.FREEZE: f"{self.tag} stays at its last reading",
            TagAction.REPLAY: f"{self.tag} repeats {number(self.value)} s before",
            TagAction.RAMP: f"{self.tag} moves by {rate} a second",
            TagAction.GAIN: f"{self.tag} reads {number(self.value)} times its value",
            TagAction.BIAS: f"{self.tag} reads too much by "
            + " and ".join(
                ([value] if self.value else [])
                + ([f"{rate} a second"] * bool(self.rate))
            ),
        }[self.kind]


@dataclass(frozen=True, kw_only=True)
class WhatIfAttack:
    """Actions that begin and end together.

    Parameters
    ----------
    id : str
        Name of the attack.
    duration_s : float
        How long it lasts.
    actions : tuple of Falsification
        What it does.
    """

    id: str
    duration_s: float
    actions: tuple[Falsification, ...]


def what_if(arena: Arena, attacks: Sequence[WhatIfAttack]) -> Iterator[WhatIf | str]:
    """Yield how often each rule sees each attack; a sentence where it cannot be said.

    Parameters
    ----------
    arena : Arena
        The record with its places; the first durations are not used.
    attacks : sequence of WhatIfAttack
        The attacks.
    """
    by_name = {tag.name: tag for tag in arena.telemetry.tags}
    for attack in attacks:
        if unknown := [a.tag for a in attack.actions if a.tag not in by_name]:
            yield (
                f"Attack {attack.id!r} is left out: there is no tag {unknown[0]!r}; "
                f"{did_you_mean(unknown[0], by_name)}"
            )
            continue
        yield from _of_attack(arena, attack, by_name)


def _of_attack(
    arena: Arena, attack: WhatIfAttack, tags: Mapping[str, TrainTag]
) -> Iterator[WhatIf | str]:
    """Yield the same for one attack."""
    step_s = arena.timing.step_s
    grid = replace(
        arena.timing.grids[0], rows=max(round(attack.duration_s / step_s), 1)
    )
    fits = arena.room >= grid.rows + grid.release
    n_places = int(fits.sum())
    if n_places < LEAST_PLACES:
        yield (
            f"Attack {attack.id!r} is left out: it fits at "
            f"{plural(n_places, 'place')}, and {LEAST_PLACES} are needed."
        )
        return
    rows = PlaceRows(grid=grid, places=arena.places[fits], memory=arena.stage.memory)
    draws = np.zeros((n_places, grid.rows * arena.telemetry.every))
    falsifier = Falsifier(arena.telemetry, rows, draws, arena.reach[fits])
    # Where the attack can be written, and where a reading leaves its possible range.
    is_known, leaves = np.ones(n_places, np.bool_), np.zeros(n_places, np.bool_)
    deltas = {}
    for action in attack.actions:
        site = falsifier.site(tags[action.tag])
        reads = action.reads(site)
        known = np.isfinite(reads).all(axis=1)
        possible = np.clip(reads, site.tag.least, site.tag.most)
        is_known &= known
        leaves |= (possible != reads).any(axis=1) & known
        added = np.nan_to_num(possible - site.readings)
        deltas[site.tag.column] = falsifier.delta(site, added, falsifier.sampled(site))
    change = arena.stage.change(deltas, rows)
    words = "; ".join(a.words(tags[a.tag].unit) for a in attack.actions)
    for one in arena.rules:
        view = one.at(grid, fits)
        # A place whose twin is in alarm throughout can neither see nor miss it.
        judgeable = is_known & (view.is_usable & grid.is_judged).any(axis=1)
        n_judged = int(judgeable.sum())
        if n_judged < LEAST_PLACES:
            yield (
                f"Attack {attack.id!r} is left out for the rule {view.rule.name!r}: it "
                f"can be judged at {plural(n_judged, 'place')}, and {LEAST_PLACES} are "
                "needed."
            )
            continue
        raised = view.raises(change)[judgeable][:, grid.is_judged]
        seen = np.asarray(raised.any(axis=1))
        first = grid.offsets[grid.is_judged][np.argmax(raised, axis=1)] + 1
        yield WhatIf(
            id=attack.id,
            text=words,
            rule=view.rule.name,
            duration_s=grid.rows * step_s,
            share_seen=float(seen.mean()),
            n_places=n_judged,
            delay_s=float(np.median(first[seen]) * step_s) if seen.any() else None,
            leaves_range=float(leaves[judgeable].mean()),
        )
