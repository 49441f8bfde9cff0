"""What is known about a run and not recorded: effects of attacks, water accounts.

For each attack a twin starts in the same state and with the same random numbers that
the plant has at the attack's first step, and runs without the attack for as long as the
attack lasts. Every difference between their recorded values is caused by the attack.
This holds during the attack only: afterwards the two plants stay different for good.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.testbeds.waterworks.plant import (
    COLUMN,
    HEIGHT_MM,
    INFLOW,
    OUTFLOW,
    OVERFLOW,
    TAG_NAMES,
    TANK_NAMES,
    UNMET,
    ActionKind,
    Rows,
    State,
    unit_by_column,
)
from sightline.testbeds.waterworks.scenario import PlannedAttack

# At this many units from its twin even a single reading is clearly different.
CLEAR = 3.0


@dataclass(frozen=True, kw_only=True)
class AttackTruth:
    """The effect of one attack on every recorded channel, while the attack lasts.

    A unit is, for a sensor, the standard deviation of its readings of a constant value
    (noise and rounding); for an actuator, one step of its code.

    Parameters
    ----------
    id : str
        The attack.
    start, stop : int
        Its rows of test, [start, stop).
    targets, forged_tags : tuple of str
        The tags acted on; those among them whose readings are forged.
    effect : mapping from tag to float
        Largest distance from the twin, in units; 0 if it never differs.
    mean_effect : mapping from tag to float
        Mean signed difference from the twin over the attack, in units.
    first_move_s : mapping from tag to int or None
        Seconds into the attack at which it first differs at all; 0 is the first step.
    first_clear_s : mapping from tag to int or None
        The same for a difference of `CLEAR` units (3) or more.
    blocked : bool
        Nothing moved although an actuator was commanded to leave its state: an
        interlock refused. If nothing moved and it is False, the plant was already in
        the commanded state, or never reached the changed set-point.
    """

    id: str
    start: int
    stop: int
    targets: tuple[str, ...]
    forged_tags: tuple[str, ...]
    effect: Mapping[str, float]
    mean_effect: Mapping[str, float]
    first_move_s: Mapping[str, int | None]
    first_clear_s: Mapping[str, int | None]
    blocked: bool

    @property
    def moved_tags(self) -> tuple[str, ...]:
        """The channels that differ from the twin at least once."""
        return tuple(tag for tag, size in self.effect.items() if size > 0)

    @property
    def moves(self) -> bool:
        """Whether anything recorded differs from the twin at all."""
        return bool(self.moved_tags)

    @property
    def moves_others(self) -> bool:
        """Whether a channel differs whose reading is not forged."""
        return any(tag not in self.forged_tags for tag in self.moved_tags)


def truth_of(attack: PlannedAttack, attacked: Rows, twin: Rows) -> AttackTruth:
    """Return the effect of an attack, from its rows and those of its twin.

    Parameters
    ----------
    attack : PlannedAttack
        The attack.
    attacked, twin : array of shape (duration_s, 51)
        Recorded values with and without the attack.
    """
    difference = (attacked.astype(np.float64) - twin) / unit_by_column()
    distance = np.abs(difference)
    mean = difference.mean(axis=0)
    largest = distance.max(axis=0)
    return AttackTruth(
        id=attack.id,
        start=attack.start_s,
        stop=attack.stop_s,
        targets=attack.targets,
        forged_tags=attack.forged_tags,
        effect=_by_tag(largest),
        mean_effect=_by_tag(mean),
        first_move_s=_first(distance > 0),
        first_clear_s=_first(distance >= CLEAR),
        blocked=not largest.any() and _commands_change(attack, twin),
    )


def _by_tag(values: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return one value for each tag, by name."""
    return dict(zip(TAG_NAMES, values.tolist(), strict=True))


def _first(is_true: npt.NDArray[np.bool_]) -> dict[str, int | None]:
    """Return for each tag the first row in which a condition holds; None if never."""
    first = is_true.argmax(axis=0)
    return {
        tag: int(first[k]) if is_true[first[k], k] else None
        for k, tag in enumerate(TAG_NAMES)
    }


def _commands_change(attack: PlannedAttack, twin: Rows) -> bool:
    """Return whether an actuator was commanded to a state its twin did not have."""
    return any(
        action.kind is ActionKind.SET
        and bool((twin[:, COLUMN[action.tag]] != action.value).any())
        for action in attack.actions
    )


@dataclass(frozen=True, kw_only=True)
class TankBalance:
    """The water account of one tank, in m3, and its extreme levels in mm.

    Parameters
    ----------
    tank : str
        Its name.
    first_m3, last_m3 : float
        Volume at the beginning and at the end.
    inflow_m3, outflow_m3, overflow_m3 : float
        What came in, went out, and was lost because the tank was full.
    unmet_m3 : float
        What pumps tried to draw from the empty tank.
    lowest_mm, highest_mm : float
        Extreme levels.
    """

    tank: str
    first_m3: float
    last_m3: float
    inflow_m3: float
    outflow_m3: float
    overflow_m3: float
    unmet_m3: float
    lowest_mm: float
    highest_mm: float

    @property
    def error_m3(self) -> float:
        """What is missing in the account: 0 apart from rounding."""
        change = self.last_m3 - self.first_m3
        return self.inflow_m3 - self.outflow_m3 - self.overflow_m3 - change

    @property
    def is_safe(self) -> bool:
        """Whether it neither overflowed nor ran dry."""
        return 0.0 < self.lowest_mm and self.highest_mm < HEIGHT_MM


@dataclass(frozen=True, kw_only=True)
class WaterBalance:
    """The water accounts of all tanks and of the whole plant, in m3.

    Parameters
    ----------
    tanks : tuple of TankBalance
        T101, T301, T401, T601 and T602.
    raw_m3, delivered_m3, drained_m3 : float
        Raw water taken in, permeate delivered to consumers, and water to drain.
    """

    tanks: tuple[TankBalance, ...]
    raw_m3: float
    delivered_m3: float
    drained_m3: float

    @property
    def error_m3(self) -> float:
        """What is missing in the account of the plant: 0 apart from rounding."""
        change = sum(tank.last_m3 - tank.first_m3 for tank in self.tanks)
        spilt = sum(tank.overflow_m3 for tank in self.tanks)
        return self.raw_m3 - self.delivered_m3 - self.drained_m3 - spilt - change


def balance_of(state: State, opened: Floats) -> WaterBalance:
    """Return the accounts of a state; `opened` are the volumes at their start."""
    record = state[0]
    tanks = tuple(
        TankBalance(
            tank=name,
            first_m3=float(opened[k]),
            last_m3=float(record["volume"][k]),
            inflow_m3=float(record["account"][k, INFLOW]),
            outflow_m3=float(record["account"][k, OUTFLOW]),
            overflow_m3=float(record["account"][k, OVERFLOW]),
            unmet_m3=float(record["account"][k, UNMET]),
            lowest_mm=float(record["lowest"][k]),
            highest_mm=float(record["highest"][k]),
        )
        for k, name in enumerate(TANK_NAMES)
    )
    return WaterBalance(
        tanks=tanks,
        raw_m3=float(record["bought"]),
        delivered_m3=float(record["delivered"]),
        drained_m3=float(record["drained"]),
    )
