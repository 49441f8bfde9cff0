"""Attacks for any network: twelve templates, each on one target after another.

The attacks depend on the network alone, not on the seed. One begins every 30 hours, so
that they meet all times of the day.
"""

import numpy as np

from sightline.testbeds.network.plant import STEP_S, Network, When
from sightline.testbeds.twin.scenario import (
    DAY_S,
    Action,
    ActionKind,
    PlannedAttack,
    Rows,
    Scenario,
)

HOUR_S = 3600
FIRST_S, EVERY_S = 30 * HOUR_S, 30 * HOUR_S
# How far a forged level or limit lies beyond the limits of the controls, in metres.
BEYOND_M = 0.3
_USUAL_STATE = "a command that repeats the usual state; nothing should move"


class Targets:
    """The tags of one network that the templates act on, in turn.

    Parameters
    ----------
    network : Network
        The network.
    usual : array of shape (n_rows, n_tags)
        Days of it without noise, from midnight.
    """

    def __init__(self, network: Network, usual: Rows) -> None:
        self.network = network
        names = [tag.name for tag in network.tags]
        self.usual = {name: usual[:, k] for k, name in enumerate(names)}
        read = {c.tag: None for c in network.controls if c.tag}
        # Levels that control something come first; a network may have none.
        self.levels = [*read, *(tag for tag in network.levels if tag not in read)]
        self.read = list(read) or list(network.levels)
        busy = [tag for tag in network.flow_tags if np.ptp(self.usual[tag]) > 0]
        self.flows = busy or list(network.flow_tags)
        self.running = [f"S_{tag[2:]}" for tag in self.flows]
        self.pressures = list(network.pressure_tags)

    def limits(self, tag: str) -> tuple[float, float]:
        """Return the lowest and highest limit at which a level switches anything."""
        limits = [c.limit for c in self.network.controls if c.tag == tag]
        limits = limits or self.usual[tag].tolist()
        return min(limits), max(limits)

    def moved_limit(self, turn: int, when: When, by: float) -> Action | None:
        """Return a change of a limit by some metres; None if no control has one.

        `when` says whether the control waits for too little or too much.
        """
        limits = [c for c in self.network.controls if c.name and c.when is when]
        if not limits:
            return None
        control = limits[turn % len(limits)]
        value = round(control.limit + by, 3)
        return Action(tag=control.name, kind=ActionKind.SETPOINT, value=value)

    def steady(self, start_s: int, duration_s: int, turn: int) -> Action | None:
        """Return a command that repeats what an actuator usually does at that time."""
        first, length = start_s % DAY_S // STEP_S, duration_s // STEP_S
        commands = []
        for tag in self.network.status_tags:
            states = np.take(self.usual[tag], range(first, first + length), mode="wrap")
            if len(set(states.tolist())) == 1:
                value = float(states[0])
                commands.append(Action(tag=tag, kind=ActionKind.SET, value=value))
        return commands[turn % len(commands)] if commands else None


def _pick(tags: list[str], turn: int) -> str:
    """Return one tag after the other, from the beginning again at the end."""
    return tags[turn % len(tags)]


def _planned(
    targets: Targets, template: int, turn: int, start_s: int
) -> tuple[int, list[Action | None], str]:
    """Return hours, actions and note of one template; None is an action too few.

    Parameters
    ----------
    targets : Targets
        What there is to act on.
    template : int
        0 to 11.
    turn : int
        How often the template was used before: the next target is taken.
    start_s : int
        When the attack begins.
    """
    read, pump = _pick(targets.read, turn), _pick(targets.running, turn)
    low, high = targets.limits(read)
    level = _pick(targets.levels, turn)
    pressure = _pick(targets.pressures, 3 * turn)
    flow = _pick(targets.flows, turn + 1)
    is_on = bool(targets.usual[pump][start_s % DAY_S // STEP_S])
    lower, higher = round(low - BEYOND_M, 3), high + 0.3
    kind, act = ActionKind, Action
    plans: tuple[tuple[int, list[Action | None], str], ...] = (
        (
            4,
            [act(tag=pump, kind=kind.SET, value=float(not is_on))],
            "pump or valve held in the other state",
        ),
        (
            6,
            [act(tag=read, kind=kind.CONSTANT, value=lower)],
            "level forged below its limits; aim: a tank that overflows",
        ),
        (
            8,
            [act(tag=pressure, kind=kind.BIAS, value=2.0)],
            "pressure reads 2 m too much",
        ),
        (2, [targets.steady(start_s, 2 * HOUR_S, turn)], _USUAL_STATE),
        (12, [act(tag=level, kind=kind.FREEZE)], "level frozen"),
        (
            6,
            [act(tag=flow, kind=kind.GAIN, value=0.9)],
            "flow reads 10 % too little; no control reads it",
        ),
        (
            10,
            [
                act(tag=read, kind=kind.REPLAY, value=24 * HOUR_S),
                act(tag=pump, kind=kind.SET, value=0.0),
            ],
            "pump or valve held closed behind a replayed level",
        ),
        (
            12,
            [targets.moved_limit(turn, When.BELOW, BEYOND_M)],
            "limit that switches at a low level raised",
        ),
        (3, [targets.steady(start_s, 3 * HOUR_S, turn + 1)], _USUAL_STATE),
        (
            12,
            [act(tag=level, kind=kind.BIAS, rate=0.1 / HOUR_S)],
            "level biased by 0.1 m an hour; stealthy",
        ),
        (8, [act(tag=pressure, kind=kind.FREEZE)], "pressure frozen"),
        (
            6,
            [
                act(tag=read, kind=kind.RAMP, rate=0.2 / HOUR_S, value=higher),
                targets.moved_limit(turn, When.ABOVE, -BEYOND_M),
            ],
            "level raised slowly, and the limit at a high level lowered",
        ),
    )
    return plans[template]


def planned_scenario(network: Network, usual: Rows, days: float) -> Scenario:
    """Return attacks on a network that fit into a number of days.

    Parameters
    ----------
    network : Network
        The network.
    usual : array of shape (n_rows, n_tags)
        Days of it without noise, from midnight.
    days : float
        Days of test; each 30 hours have an attack.
    """
    targets = Targets(network, usual)
    attacks = []
    for number in range(int(days * DAY_S // EVERY_S)):
        start_s = FIRST_S + number * EVERY_S
        hours, actions, note = _planned(targets, number % 12, number // 12, start_s)
        possible = tuple(action for action in actions if action is not None)
        if possible:
            attacks.append(
                PlannedAttack(
                    id=str(number + 1),
                    start_s=start_s,
                    duration_s=hours * HOUR_S,
                    actions=possible,
                    note=note,
                )
            )
    return Scenario(attacks=tuple(attacks)).within(round(days * DAY_S))
