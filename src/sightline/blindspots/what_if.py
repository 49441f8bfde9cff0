"""What if: attacks of a user's table, written into the places of a record.

One row of the table is one action; rows with the same id act together. Kinds::

    constant   the tag reads `value`
    bias       the tag reads too much by `value`, growing by `rate` a second
    ramp       the tag moves from its last reading by `rate` a second, up to `value`
    freeze     the tag stays at its last reading
    replay     the tag repeats what it read `value` seconds before
    gain       the tag reads `value` times what it measures
    set        an actuator shows the state `value`
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sightline.blindspots.places import LEAST_PLACES, Grid
from sightline.blindspots.result import WhatIf
from sightline.blindspots.rule_view import Change
from sightline.blindspots.shapes import Site, TrainTag
from sightline.blindspots.sizes import Arena
from sightline.blindspots.telemetry import Falsifier, PlaceRows
from sightline.data.arrays import Bools, Floats
from sightline.errors import StreamError
from sightline.text import did_you_mean, number, plural


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
    some = arena.timing.grids[0]
    grid = Grid(
        rows=max(round(attack.duration_s / step_s), 1),
        judged=some.judged,
        release=some.release,
        memory=some.memory,
    )
    fits = arena.room >= grid.rows + grid.release
    if fits.sum() < LEAST_PLACES:
        yield (
            f"Attack {attack.id!r} is left out: it fits at "
            f"{plural(int(fits.sum()), 'place')}, and {LEAST_PLACES} are needed."
        )
        return
    change, is_known, leaves = _written(arena, attack, tags, grid, fits)
    words = "; ".join(a.words(tags[a.tag].unit) for a in attack.actions)
    for one in arena.rules:
        view = one.at(grid, fits)
        # A place whose twin is in alarm throughout can neither see nor miss it.
        judgeable = is_known & (view.is_usable & grid.is_judged).any(axis=1)
        n_places = int(judgeable.sum())
        if n_places < LEAST_PLACES:
            yield (
                f"Attack {attack.id!r} is left out for the rule {view.rule.name!r}: it "
                f"can be judged at {plural(n_places, 'place')}, and {LEAST_PLACES} are "
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
            n_places=n_places,
            delay_s=float(np.median(first[seen]) * step_s) if seen.any() else None,
            leaves_range=float(leaves[judgeable].mean()),
        )


def _written(
    arena: Arena,
    attack: WhatIfAttack,
    tags: Mapping[str, TrainTag],
    grid: Grid,
    fits: Bools,
) -> tuple[Change, Bools, Bools]:
    """Return the change of the residuals, where it is known, and what left its range.

    Both of the latter have one value for each place at which the attack fits.
    """
    rows = PlaceRows(grid=grid, places=arena.places[fits], memory=arena.stage.memory)
    n_places = len(rows.places)
    falsifier = Falsifier(
        arena.telemetry,
        rows,
        np.zeros((n_places, grid.rows * arena.telemetry.every)),
        arena.reach[fits],
    )
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
    return arena.stage.change(deltas, rows), is_known, leaves
