"""What an attack does to the recorded values, known from a twin without the attack.

A twin starts in the same state and with the same random numbers that the plant has at
the attack's first step. It runs without the attack, but with those that follow. Every
difference between the recorded values of the two is caused by the attack.

Recovery is the time after an attack in which the plant still differs from its twin by
more than noise, and is where it never is without attacks; `recovery_s` has the rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sightline.data.arrays import Bools, Floats
from sightline.data.segments import KnownEffect
from sightline.testbeds.twin.scenario import ActionKind, PlannedAttack, Rows

# At this many units from its twin even a single reading is clearly different.
CLEAR = 3.0
# The rule for recovery; see `recovery_s`.
QUIET_BLOCKS = 3
CAP_LENGTHS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Yardstick:
    """How differences between a plant and its twin are measured.

    Parameters
    ----------
    tags : tuple of str
        The recorded tags, in the order of the columns.
    unit : array of shape (n_tags,)
        The unit of an effect on each tag: for a sensor the standard deviation of its
        readings of a constant value, for an actuator one step of its state.
    noise : array of shape (n_tags,)
        The distance in the mean of a block up to which recovery counts it as noise.
    step_s : int
        Seconds a row.
    block_s : int
        Length of the blocks in which recovery is judged, in seconds.
    shortest_cap_s : int
        For how long after a short attack recovery is followed, in seconds.
    """

    tags: tuple[str, ...]
    unit: Floats
    noise: Floats
    step_s: int
    block_s: int
    shortest_cap_s: int

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.block_s // self.step_s

    def cap_s(self, duration_s: int) -> int:
        """Return for how long after an attack its recovery is followed, in seconds.

        Three lengths of the attack, at least `shortest_cap_s`.
        """
        return max(CAP_LENGTHS * duration_s, self.shortest_cap_s)


def sensor_units(noise: Floats, quantum: Floats) -> Floats:
    """Return the standard deviation of readings of a constant value; 1 without noise.

    Noise and rounding together: ``sqrt(noise**2 + quantum**2 / 12)``.
    """
    spread = np.hypot(noise, quantum / np.sqrt(12.0))
    return np.where(spread > 0, spread, 1.0)


class Usual(NamedTuple):
    """The lowest and the highest usual mean of a block, of shape (n_tags,) each."""

    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True)
class AttackTruth:
    """The effect of one attack on every recorded channel.

    `Yardstick.unit` is the unit of each tag.

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
    mean_distance : mapping from tag to float
        Mean distance from the twin over the attack, in units.
    first_move_s : mapping from tag to int or None
        Seconds into the attack at which it first differs at all; 0 is the first step.
    first_clear_s : mapping from tag to int or None
        The same for a difference of `CLEAR` units (3) or more.
    blocked : bool
        Nothing moved although an actuator was commanded to leave its state: an
        interlock refused. If nothing moved and it is False, the plant was already in
        the commanded state, or never reached the changed set-point.
    recovery_s : int or None
        Seconds after the attack for which the plant is in recovery, by `recovery_s`;
        None if it does not come back within the cap.
    """

    id: str
    start: int
    stop: int
    targets: tuple[str, ...]
    forged_tags: tuple[str, ...]
    effect: Mapping[str, float]
    mean_effect: Mapping[str, float]
    mean_distance: Mapping[str, float]
    first_move_s: Mapping[str, int | None]
    first_clear_s: Mapping[str, int | None]
    blocked: bool
    recovery_s: int | None

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

    @property
    def known(self) -> KnownEffect:
        """The effect in a few numbers, as results carry it."""
        return KnownEffect(
            id=self.id,
            tags=tuple(sorted(self.moved_tags, key=lambda tag: -self.effect[tag])),
            largest=max(self.effect.values()),
            mean=max(self.mean_distance.values()),
            recovery_s=self.recovery_s,
        )


def truth_of(
    attack: PlannedAttack,
    attacked: Rows,
    twin: Rows,
    is_attacked: Bools,
    usual: Usual,
    by: Yardstick,
) -> AttackTruth:
    """Return the effect of an attack, from its rows and those of its twin.

    Parameters
    ----------
    attack : PlannedAttack
        The attack.
    attacked, twin : array of shape (n_rows, n_tags)
        Recorded values with and without the attack, from its first row to the end of
        the cap or of test.
    is_attacked : array of bool, shape (n_rows,)
        Which of these rows belong to any attack.
    usual : Usual
        What the plant shows without attacks.
    by : Yardstick
        The units, and the rule for recovery.
    """
    n_rows = attack.duration_s // by.step_s
    during, later = slice(n_rows), slice(n_rows, None)
    difference = attacked[during].astype(np.float64) - twin[during]
    difference /= by.unit
    distance = np.abs(difference)
    largest = distance.max(axis=0)
    return AttackTruth(
        id=attack.id,
        start=attack.start_s // by.step_s,
        stop=attack.stop_s // by.step_s,
        targets=attack.targets,
        forged_tags=attack.forged_tags,
        effect=_by_tag(largest, by),
        mean_effect=_by_tag(difference.mean(axis=0), by),
        mean_distance=_by_tag(distance.mean(axis=0), by),
        first_move_s=_first_s(distance > 0, by),
        first_clear_s=_first_s(distance >= CLEAR, by),
        # An actuator was commanded to a state that its twin did not have.
        blocked=not largest.any()
        and any(
            action.kind is ActionKind.SET
            and action.value is not None
            and (
                twin[during, by.tags.index(action.tag)] != np.float32(action.value)
            ).any()
            for action in attack.actions
        ),
        recovery_s=recovery_s(
            attacked[later], twin[later], is_attacked[later], usual, by
        ),
    )


def usual_of(*records: Rows, by: Yardstick) -> Usual:
    """Return the range of the block means of records without attacks, for each tag.

    The range is widened on both sides by what counts as noise.
    """
    rows = by.block_rows
    means = [_block_means(record, rows) for record in records if len(record) >= rows]
    low = np.min([mean.min(axis=0) for mean in means], axis=0, initial=np.inf)
    high = np.max([mean.max(axis=0) for mean in means], axis=0, initial=-np.inf)
    return Usual(low - by.noise, high + by.noise)


def recovery_s(
    recorded: Rows, twin: Rows, is_attacked: Bools, usual: Usual, by: Yardstick
) -> int | None:
    """Return for how many seconds after an attack the plant is in recovery.

    The time is cut into blocks from the attack's end. A block is *out* if some tag
    differs from the twin beyond noise, and also lies beyond noise outside of what it
    shows without attacks; both in the mean of the block. Recovery runs to the last
    block that is out before `QUIET_BLOCKS` (3) in a row are not. Blocks that another
    attack touches are passed over.

    A difference from the twin alone does not make a recovery: after many attacks tanks
    fill and empty at other times than in the twin, for good, and do so as usual.

    Parameters
    ----------
    recorded, twin : array of shape (n_rows, n_tags)
        Recorded values with and without the attack, from its end to the end of the cap
        or of test.
    is_attacked : array of bool, shape (n_rows,)
        Rows of other attacks.
    usual : Usual
        What the plant shows without attacks.
    by : Yardstick
        What counts as noise, and the length of a block.

    Returns
    -------
    int or None
        A multiple of `Yardstick.block_s`; 0 if the plant is back at once. None if it
        does not come back: a change that stays is a new normal, not a recovery.

    Examples
    --------
    >>> by = Yardstick(
    ...     tags=("level",),
    ...     unit=np.ones(1),
    ...     noise=np.full(1, 3.0),
    ...     step_s=1,
    ...     block_s=120,
    ...     shortest_cap_s=3600,
    ... )
    >>> twin = np.full((3600, 1), 100.0, np.float32)
    >>> usual, peace = usual_of(twin, by=by), np.zeros(3600, bool)
    >>> recorded = twin.copy()
    >>> recorded[:500] = 110.0
    >>> recovery_s(recorded, twin, peace, usual, by)
    480
    >>> recorded[:] = 110.0
    >>> print(recovery_s(recorded, twin, peace, usual, by))
    None
    """
    if np.array_equal(recorded, twin):
        return 0
    rows = by.block_rows
    mean = _block_means(recorded, rows)
    differs = _block_means(np.abs(recorded - twin), rows) > by.noise
    is_unusual = (mean < usual.low) | (mean > usual.high)
    is_out = np.asarray((differs & is_unusual).any(axis=1))
    attacked = is_attacked[: len(mean) * rows].reshape(len(mean), rows)
    blocks = np.flatnonzero(~attacked.any(axis=1))
    last = -1
    for k, block in enumerate(blocks):
        if is_out[block]:
            last = k
        elif k - last == QUIET_BLOCKS:
            return 0 if last < 0 else int(blocks[last] + 1) * by.block_s
    return None


def _block_means(rows: Rows, block_rows: int) -> Floats:
    """Return the mean of each full block."""
    n_blocks = len(rows) // block_rows
    blocks = rows[: n_blocks * block_rows].reshape(n_blocks, block_rows, rows.shape[1])
    return np.asarray(blocks.mean(axis=1, dtype=np.float64))


def _by_tag(values: Floats, by: Yardstick) -> dict[str, float]:
    """Return one value for each tag, by name."""
    return dict(zip(by.tags, values.tolist(), strict=True))


def _first_s(is_true: Bools, by: Yardstick) -> dict[str, int | None]:
    """Return for each tag when a condition first holds, in seconds; None if never."""
    first = is_true.argmax(axis=0)
    return {
        tag: int(first[k]) * by.step_s if is_true[first[k], k] else None
        for k, tag in enumerate(by.tags)
    }
