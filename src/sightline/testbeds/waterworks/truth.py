"""What an attack did: the attacked plant against its twin.

The twin starts in the very state, and with the very random numbers, the plant has at
the attack's first step; it goes on without the attack for as long as the attack lasts.
Any difference of a recorded value is the attack's doing, for there is no other cause.
It holds for the attack only: afterwards two plants go their own ways for good.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.testbeds.waterworks.plant import COLUMN, TAG_NAMES, unit_by_column
from sightline.testbeds.waterworks.scenario import PlannedAttack

Rows = npt.NDArray[np.float32]

# So many units off its twin, a reading is clearly another, even a single one.
CLEAR = 3.0


@dataclass(frozen=True, kw_only=True)
class AttackTruth:
    """The effect of one attack on every recorded channel, within the attack.

    A unit is, for a sensor, the standard deviation of its own reading of a still value
    (noise and rounding); for an actuator, one step of its code.

    Parameters
    ----------
    id : str
        The attack.
    start, stop : int
        Its rows of test, [start, stop).
    targets, forged_tags : tuple of str
        The tags acted on; those among them whose readings are the attacker's.
    effect : mapping from tag to float
        Largest distance from the twin, in units; 0 if it never differs.
    mean_effect : mapping from tag to float
        Mean signed difference from the twin over the attack, in units.
    first_move_s : mapping from tag to int or None
        Seconds into the attack at which it first differs at all; 0 is the first step.
    first_clear_s : mapping from tag to int or None
        The same for a difference of 3 units or more.
    blocked : bool
        Nothing moved although an actuator was told to leave the state it had: an
        interlock refused. Where nothing moved and it is False, the plant was already
        in the state asked for, or never came to the set-point changed.
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
        """Whether a channel differs whose reading is not the attacker's own."""
        return any(tag not in self.forged_tags for tag in self.moved_tags)


def truth_of(attack: PlannedAttack, attacked: Rows, twin: Rows) -> AttackTruth:
    """Compare the rows of an attack with those of its twin."""
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
        blocked=not largest.any() and _asks_for_change(attack, twin),
    )


def _by_tag(values: npt.NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(TAG_NAMES, values.tolist(), strict=True))


def _first(is_so: npt.NDArray[np.bool_]) -> dict[str, int | None]:
    first = is_so.argmax(axis=0)
    return {
        tag: int(first[k]) if is_so[first[k], k] else None
        for k, tag in enumerate(TAG_NAMES)
    }


def _asks_for_change(attack: PlannedAttack, twin: Rows) -> bool:
    return any(
        action.kind == "set"
        and bool((twin[:, COLUMN[action.tag]] != action.value).any())
        for action in attack.actions
    )
