"""What attackers do to the plant, and when: a plain table that a user edits.

A scenario is a table with one row for each action; actions with the same id make one
attack. Kinds of action::

    set        an actuator is held at `value`: 1 off or closed, 2 on or open
    constant   a sensor reads `value`
    ramp       a sensor moves from its last reading by `rate` a second, up to `value`
    replay     a sensor repeats what it read `value` seconds before
    freeze     a sensor stays at its last reading
    bias       a sensor reads `value`, growing by `rate` a second, too much
    setpoint   a set-point of the PLC, such as LIT101.H, is `value`
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sightline.data.arrays import Floats
from sightline.errors import StreamError
from sightline.testbeds.waterworks.plant import (
    ACTUATORS,
    COLUMN,
    INSTRUMENTS,
    OFF,
    ON,
    SENSORS,
    SETPOINT_INDEX,
)

KINDS = ("set", "setpoint", "constant", "ramp", "replay", "freeze", "bias")
SET, SETPOINT, CONSTANT, RAMP, REPLAY, FREEZE, BIAS = range(7)
_NEEDS_VALUE = ("set", "setpoint", "constant", "replay")


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing an attacker does for the length of an attack.

    Examples
    --------
    >>> Action(tag="LIT101", kind="ramp", rate=1.0).target
    'LIT101'
    """

    tag: str
    kind: str
    value: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        """Refuse what the plant does not know."""
        if self.kind not in KINDS:
            raise StreamError(
                f"kind {self.kind!r} is unknown: use one of {', '.join(KINDS)}."
            )
        self._check_tag()
        self._check_numbers()

    def _check_tag(self) -> None:
        known: Iterable[str] = SENSORS
        what = "sensor"
        if self.kind == "set":
            known, what = ACTUATORS, "actuator"
        elif self.kind == "setpoint":
            known, what = SETPOINT_INDEX, "set-point"
        if self.tag not in known:
            raise StreamError(
                f"{self.tag!r} is no {what}, and {self.kind!r} acts on one: "
                f"use one of {', '.join(known)}."
            )

    def _check_numbers(self) -> None:
        for name, number in (("value", self.value), ("rate", self.rate)):
            if number is not None and not math.isfinite(number):
                raise StreamError(f"{name} of {self.tag} must be finite; got {number}.")
        if self.kind in _NEEDS_VALUE and self.value is None:
            raise StreamError(f"{self.kind!r} of {self.tag} needs a value: give one.")
        if self.kind == "ramp" and not self.rate:
            raise StreamError(
                f"'ramp' of {self.tag} needs a rate other than 0: give its change "
                "a second."
            )
        if self.kind == "bias" and not self.rate and not self.value:
            raise StreamError(
                f"'bias' of {self.tag} needs a value or a rate: give one of them."
            )
        if self.kind == "set" and self.value not in (OFF, ON):
            raise StreamError(
                f"{self.tag} cannot be set to {self.value:g}: use 1 (off or closed) "
                "or 2 (on or open)."
            )
        if self.kind == "replay" and (
            self.value is None or self.value < 1 or self.value % 1
        ):
            raise StreamError(
                f"'replay' of {self.tag} needs whole seconds back, 1 or more; "
                f"got {self.value}."
            )

    @property
    def target(self) -> str:
        """The tag acted on; for a set-point, the tag it belongs to."""
        return self.tag.split(".")[0]

    def as_row(self) -> Floats:
        """Return kind, target, value and rate as the compiled process takes them."""
        index = SETPOINT_INDEX if self.kind == "setpoint" else COLUMN
        # A ramp without a value has no limit; a bias without one begins at 0.
        absent = math.nan if self.kind == "ramp" else 0.0
        value = absent if self.value is None else self.value
        return np.array(
            [KINDS.index(self.kind), index[self.tag], value, self.rate or 0]
        )


@dataclass(frozen=True, kw_only=True)
class PlannedAttack:
    """Actions that begin and end together.

    Parameters
    ----------
    id : str
        Its name in every table.
    start_s, duration_s : int
        Seconds from the start of test, and how long.
    actions : sequence of Action
        What is done; at least one.
    note : str
        What the attacker is after.
    """

    id: str
    start_s: int
    duration_s: int
    actions: tuple[Action, ...]
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse times and combinations that make no attack."""
        object.__setattr__(self, "actions", tuple(self.actions))
        if not self.id:
            raise StreamError("An attack needs an id: give it one.")
        if self.duration_s < 1:
            raise StreamError(
                f"attack {self.id} must last 1 s or more; got {self.duration_s}."
            )
        # A ramp and a freeze begin at the reading before the attack.
        if self.start_s < 1:
            raise StreamError(
                f"attack {self.id} must start 1 s or more into the run; "
                f"got {self.start_s}."
            )
        if not self.actions:
            raise StreamError(f"attack {self.id} does nothing: give it an action.")
        tags = [action.tag for action in self.actions]
        for tag in tags:
            if tags.count(tag) > 1:
                raise StreamError(f"attack {self.id} acts on {tag} twice: keep one.")
        self._check_replays()

    def _check_replays(self) -> None:
        for action in self.actions:
            if action.kind != "replay" or action.value is None:
                continue
            if not self.duration_s <= action.value <= self.start_s:
                raise StreamError(
                    f"attack {self.id} replays {action.tag} from {action.value:g} s "
                    f"before: use at least its duration ({self.duration_s} s) and at "
                    f"most its start ({self.start_s} s)."
                )

    @property
    def stop_s(self) -> int:
        """The first second after it."""
        return self.start_s + self.duration_s

    @property
    def targets(self) -> tuple[str, ...]:
        """The tags acted on, each once."""
        return tuple(dict.fromkeys(action.target for action in self.actions))

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages acted on, each once: P1 to P6."""
        return tuple(dict.fromkeys(f"P{tag[-3]}" for tag in self.targets))

    @property
    def family(self) -> str:
        """Its class in SWaT's list: single or multi stage, single or multi point.

        SSSP one tag; SSMP tags of one stage; MSSP one tag in each of several stages;
        MSMP tags of several stages, more than one in at least one of them.
        """
        if len(self.stages) == 1:
            return "SSSP" if len(self.targets) == 1 else "SSMP"
        return "MSSP" if len(self.targets) == len(self.stages) else "MSMP"

    @property
    def forged_tags(self) -> tuple[str, ...]:
        """The sensors whose readings are the attacker's."""
        return tuple(a.tag for a in self.actions if a.tag in INSTRUMENTS)

    def as_rows(self) -> Floats:
        """Return its actions as the compiled process takes them."""
        return np.array([action.as_row() for action in self.actions])


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Attacks in order of time, none overlapping another."""

    attacks: tuple[PlannedAttack, ...] = ()

    def __post_init__(self) -> None:
        """Sort; refuse overlaps and ids used twice."""
        ordered = tuple(sorted(self.attacks, key=lambda attack: attack.start_s))
        object.__setattr__(self, "attacks", ordered)
        for attack, following in pairwise(ordered):
            if following.start_s < attack.stop_s:
                raise StreamError(
                    f"attack {following.id} starts at {following.start_s} s, before "
                    f"attack {attack.id} ends at {attack.stop_s} s: move one of them."
                )
        ids = [attack.id for attack in ordered]
        for id_ in ids:
            if ids.count(id_) > 1:
                raise StreamError(
                    f"attack {id_} is there twice, at different times: rename one."
                )

    def within(self, n_steps: int) -> "Scenario":
        """Return the attacks that end before a run of `n_steps` seconds does."""
        kept = tuple(a for a in self.attacks if a.stop_s <= n_steps)
        return replace(self, attacks=kept)

    def check_fits(self, n_steps: int) -> None:
        """Refuse an attack outside of a run of `n_steps` seconds."""
        for attack in self.attacks:
            if attack.stop_s > n_steps:
                raise StreamError(
                    f"attack {attack.id} ends at {attack.stop_s} s, after the run of "
                    f"{n_steps} s: move it, or simulate more days of test."
                )


def grouped(rows: Sequence[tuple[PlannedAttack, str]]) -> Scenario:
    """Join attacks of one action that share an id, a start and a duration.

    Each comes with the place it was read from, for the sentence of a disagreement.
    """
    attacks: dict[str, PlannedAttack] = {}
    for attack, place in rows:
        first = attacks.get(attack.id)
        if first is None:
            attacks[attack.id] = attack
            continue
        if (first.start_s, first.duration_s) != (attack.start_s, attack.duration_s):
            raise StreamError(
                f"{place}: attack {attack.id} has another start or duration than in "
                "its first row: give all of its rows the same, or another id."
            )
        attacks[attack.id] = replace(
            first,
            actions=first.actions + attack.actions,
            note=first.note or attack.note,
        )
    return Scenario(attacks=tuple(attacks.values()))
