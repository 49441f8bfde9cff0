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
from pathlib import Path

import numpy as np

from sightline.blindspots.arena import Arena
from sightline.blindspots.places import LEAST_PLACES, Grid
from sightline.blindspots.result import WhatIf
from sightline.blindspots.rule_view import Change
from sightline.blindspots.shapes import OwnShape, Shape, Site, TagFacts
from sightline.blindspots.telemetry import Falsifier, PlaceRows
from sightline.data.arrays import Bools, Floats
from sightline.errors import FileError, StreamError
from sightline.tables.lists import list_rows
from sightline.text import did_you_mean, number, plural


class ActionKind(StrEnum):
    """What an attack does to a tag."""

    CONSTANT = "constant"
    BIAS = "bias"
    RAMP = "ramp"
    FREEZE = "freeze"
    REPLAY = "replay"
    GAIN = "gain"
    SET = "set"


_NEEDS_VALUE = (
    ActionKind.CONSTANT,
    ActionKind.REPLAY,
    ActionKind.GAIN,
    ActionKind.SET,
)


@dataclass(frozen=True, kw_only=True)
class Falsification:
    """One action of an attack.

    Parameters
    ----------
    tag : str
        The tag.
    kind : ActionKind
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
    kind: ActionKind
    value: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        """Refuse an action without the number it needs."""
        kind = self.kind
        if kind in _NEEDS_VALUE and self.value is None:
            raise StreamError(f"{kind.value!r} of {self.tag} needs a value.")
        if kind is ActionKind.RAMP and not self.rate:
            raise StreamError(f"'ramp' of {self.tag} needs a rate other than 0.")
        if kind is ActionKind.BIAS and not self.rate and not self.value:
            raise StreamError(f"'bias' of {self.tag} needs a value or a rate.")
        if kind is ActionKind.REPLAY and not (self.value or 0) > 0:
            raise StreamError(f"'replay' of {self.tag} needs seconds back above 0.")

    def reads(self, site: Site) -> Floats:
        """Return what the tag shows, shape (n_places, n_steps)."""
        seconds = (site.steps + 1) * site.step_s
        value, rate = self.value or 0.0, self.rate or 0.0
        if self.kind in (ActionKind.CONSTANT, ActionKind.SET):
            return site.filled(value)
        if self.kind is ActionKind.BIAS:
            return np.asarray(site.readings + value + rate * seconds)
        if self.kind is ActionKind.GAIN:
            return np.asarray(site.readings * value)
        if self.kind is ActionKind.FREEZE:
            return np.repeat(site.last[:, None], site.readings.shape[1], axis=1)
        if self.kind is ActionKind.REPLAY:
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
            ActionKind.CONSTANT: f"{self.tag} reads {value}",
            ActionKind.SET: f"{self.tag} shows the state {number(self.value)}",
            ActionKind.FREEZE: f"{self.tag} stays at its last reading",
            ActionKind.REPLAY: f"{self.tag} repeats {number(self.value)} s before",
            ActionKind.RAMP: f"{self.tag} moves by {rate} a second",
            ActionKind.GAIN: f"{self.tag} reads {number(self.value)} times its value",
            ActionKind.BIAS: f"{self.tag} reads too much by "
            + " and ".join(
                ([value] if self.value else [])
                + ([f"{rate} a second"] * bool(self.rate))
            ),
        }[self.kind]


@dataclass(frozen=True, kw_only=True)
class PlannedAttack:
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


def read_attacks(path: str | Path) -> tuple[PlannedAttack, ...]:
    """Return the attacks of a table.

    Parameters
    ----------
    path : path
        CSV with the columns id, duration_s (or duration_min), tag, kind, value, rate;
        others, such as those of a waterworks scenario, are not read.

    Raises
    ------
    FileError
        If a cell cannot be read; the message names the line.
    """
    path = Path(path)
    rows = list_rows(path, ("id", "tag", "kind"))
    attacks: dict[str, tuple[float, list[Falsification]]] = {}
    for line, row in rows.items():
        place = f"{path}: line {line}"
        duration_s = _duration(row, place)
        if row["kind"] not in tuple(ActionKind):
            raise FileError(
                f"{place}: kind {row['kind']!r} is unknown; "
                f"{did_you_mean(row['kind'], list(ActionKind))}"
            )
        try:
            action = Falsification(
                tag=row["tag"],
                kind=ActionKind(row["kind"]),
                value=_number(row.get("value", ""), place, "value"),
                rate=_number(row.get("rate", ""), place, "rate"),
            )
        except StreamError as error:
            raise FileError(f"{place}: {error}") from error
        known = attacks.setdefault(row["id"], (duration_s, []))
        if known[0] != duration_s:
            raise FileError(
                f"{place}: attack {row['id']!r} has another duration than in its "
                "first row: give all of its rows the same."
            )
        known[1].append(action)
    if not attacks:
        raise FileError(f"{path}: holds no attack: give at least one row.")
    return tuple(
        PlannedAttack(id=name, duration_s=length, actions=tuple(actions))
        for name, (length, actions) in attacks.items()
    )


def _duration(row: Mapping[str, str], place: str) -> float:
    for column, factor in (("duration_s", 1.0), ("duration_min", 60.0)):
        value = _number(row.get(column, ""), place, column)
        if value is not None:
            if not value > 0:
                raise FileError(f"{place}: {column} must be above 0; got {value:g}.")
            return value * factor
    raise FileError(f"{place}: says not how long it lasts: give duration_s.")


def _number(text: str, place: str, column: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise FileError(f"{place}: {column} {text!r} is no number.")
    return value


def read_shapes(path: str | Path) -> tuple[Shape, ...]:
    """Return a user's table of shapes.

    Parameters
    ----------
    path : path
        CSV with a column ``seconds`` and one column of weights for each shape.

    Raises
    ------
    FileError
        If a cell is no number, or there is no shape.
    """
    path = Path(path)
    rows = list_rows(path, ("seconds",))
    columns = [name for name in next(iter(rows.values()), {}) if name != "seconds"]
    if not columns:
        raise FileError(
            f"{path}: needs a column 'seconds' and a column of weights for each shape."
        )
    shapes = []
    for name in columns:
        seconds, weights = [], []
        for line, row in rows.items():
            at = _number(row["seconds"], f"{path}: line {line}", "seconds")
            weight = _number(row[name], f"{path}: line {line}", name)
            if at is not None and weight is not None:
                seconds.append(at)
                weights.append(weight)
        try:
            shapes.append(OwnShape(name, seconds, weights))
        except StreamError as error:
            raise FileError(f"{path}: {error}") from error
    return tuple(shapes)


def what_if(arena: Arena, attacks: Sequence[PlannedAttack]) -> Iterator[WhatIf | str]:
    """Yield how often each rule sees each attack; a sentence where it cannot be said.

    Parameters
    ----------
    arena : Arena
        The record with its places; the first durations are not used.
    attacks : sequence of PlannedAttack
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
    arena: Arena, attack: PlannedAttack, tags: Mapping[str, TagFacts]
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
    attack: PlannedAttack,
    tags: Mapping[str, TagFacts],
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
        added, known, outside = _added(action, site)
        is_known &= known
        leaves |= outside
        deltas[site.tag.column] = falsifier.delta(site, added, falsifier.sampled(site))
    return arena.stage.change(deltas, rows), is_known, leaves


def _added(action: Falsification, site: Site) -> tuple[Floats, Bools, Bools]:
    """Return what is added, where it is known, and where it left the range."""
    reads = action.reads(site)
    known = np.asarray(np.isfinite(reads).all(axis=1))
    possible = np.clip(reads, site.tag.least, site.tag.most)
    outside = (possible != reads).any(axis=1) & known
    return np.nan_to_num(possible - site.readings), known, np.asarray(outside)
