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
from sightline.testbeds.waterworks import plant as p
from sightline.testbeds.waterworks.plant import Rows
from sightline.testbeds.waterworks.scenario import PlannedAttack

# At this many units from its twin even a single reading is clearly different.
CLEAR = 3.0
# The rule for recovery; see `recovery_s`.
BLOCK_S = 120
QUIET_BLOCKS = 3
CAP_LENGTHS, SHORTEST_CAP_S = 3, 3600
_NOISE = np.where(p.by_column("noise") > 0, CLEAR * p.unit_by_column(), 0.5)


class Usual(NamedTuple):
    """The lowest and the highest usual mean of a block, of shape (51,) each."""

    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True)
class AttackTruth:
    """The effect of one attack on every recorded channel.

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


def cap_s(duration_s: int) -> int:
    """Return for how long after an attack its recovery is followed, in seconds.

    Three lengths of the attack, at least an hour.

    Examples
    --------
    >>> cap_s(600), cap_s(14_400)
    (3600, 43200)
    """
    return max(CAP_LENGTHS * duration_s, SHORTEST_CAP_S)


def truth_of(
    attack: PlannedAttack,
    attacked: Rows,
    twin: Rows,
    is_attacked: Bools,
    usual: Usual,
) -> AttackTruth:
    """Return the effect of an attack, from its rows and those of its twin.

    Parameters
    ----------
    attack : PlannedAttack
        The attack.
    attacked, twin : array of shape (n_rows, 51)
        Recorded values with and without the attack, from its first row to the end of
        the cap or of test.
    is_attacked : array of bool, shape (n_rows,)
        Which of these rows belong to any attack.
    usual : Usual
        What the plant shows without attacks.
    """
    during, later = slice(attack.duration_s), slice(attack.duration_s, None)
    difference = attacked[during].astype(np.float64) - twin[during]
    difference /= p.unit_by_column()
    distance = np.abs(difference)
    largest = distance.max(axis=0)
    return AttackTruth(
        id=attack.id,
        start=attack.start_s,
        stop=attack.stop_s,
        targets=attack.targets,
        forged_tags=attack.forged_tags,
        effect=_by_tag(largest),
        mean_effect=_by_tag(difference.mean(axis=0)),
        mean_distance=_by_tag(distance.mean(axis=0)),
        first_move_s=_first(distance > 0),
        first_clear_s=_first(distance >= CLEAR),
        blocked=not largest.any() and _commands_change(attack, twin[during]),
        recovery_s=recovery_s(attacked[later], twin[later], is_attacked[later], usual),
    )


def usual_of(*records: Rows) -> Usual:
    """Return the range of the block means of records without attacks, for each tag.

    The range is widened on both sides by what counts as noise: `CLEAR` units of a
    sensor, half a step of an actuator.
    """
    means = [_block_means(record) for record in records if len(record) >= BLOCK_S]
    low = np.min([mean.min(axis=0) for mean in means], axis=0, initial=np.inf)
    high = np.max([mean.max(axis=0) for mean in means], axis=0, initial=-np.inf)
    return Usual(low - _NOISE, high + _NOISE)


def recovery_s(
    recorded: Rows, twin: Rows, is_attacked: Bools, usual: Usual
) -> int | None:
    """Return for how many seconds after an attack the plant is in recovery.

    The time is cut into blocks of `BLOCK_S` seconds (120) from the attack's end. A
    block is *out* if some tag differs from the twin beyond noise, and also lies beyond
    noise outside of what it shows without attacks. Noise ends, in the mean of a block,
    at `CLEAR` units (3) of a sensor and at half a step of an actuator. Recovery runs to
    the last block that is out before `QUIET_BLOCKS` (3) in a row are not. Blocks that
    another attack touches are passed over.

    A difference from the twin alone does not make a recovery: after many attacks tanks
    fill and empty at other times than in the twin, for good, and do so as usual.

    Parameters
    ----------
    recorded, twin : array of shape (n_rows, 51)
        Recorded values with and without the attack, from its end to the end of the cap
        or of test.
    is_attacked : array of bool, shape (n_rows,)
        Rows of other attacks.
    usual : Usual
        What the plant shows without attacks.

    Returns
    -------
    int or None
        A multiple of `BLOCK_S`; 0 if the plant is back at once. None if it does not
        come back: a change that stays is a new normal, not a recovery.

    Examples
    --------
    >>> twin = np.full((3600, 51), 100.0, np.float32)
    >>> usual, peace, recorded = usual_of(twin), np.zeros(3600, bool), twin.copy()
    >>> recorded[:500, p.LIT101] = 110.0
    >>> recovery_s(recorded, twin, peace, usual)
    480
    >>> recorded[:, p.LIT101] = 110.0
    >>> print(recovery_s(recorded, twin, peace, usual))
    None
    """
    if np.array_equal(recorded, twin):
        return 0
    mean = _block_means(recorded)
    differs = _block_means(np.abs(recorded - twin)) > _NOISE
    is_unusual = (mean < usual.low) | (mean > usual.high)
    is_out = np.asarray((differs & is_unusual).any(axis=1))
    attacked = is_attacked[: len(mean) * BLOCK_S].reshape(len(mean), BLOCK_S)
    blocks = np.flatnonzero(~attacked.any(axis=1))
    last = -1
    for k, block in enumerate(blocks):
        if is_out[block]:
            last = k
        elif k - last == QUIET_BLOCKS:
            return 0 if last < 0 else int(blocks[last] + 1) * BLOCK_S
    return None


def _block_means(rows: Rows) -> Floats:
    """Return the mean of each full block of `BLOCK_S` rows."""
    n_blocks = len(rows) // BLOCK_S
    blocks = rows[: n_blocks * BLOCK_S].reshape(n_blocks, BLOCK_S, p.N_TAGS)
    return np.asarray(blocks.mean(axis=1, dtype=np.float64))


def _by_tag(values: Floats) -> dict[str, float]:
    """Return one value for each tag, by name."""
    return dict(zip(p.TAG_NAMES, values.tolist(), strict=True))


def _first(is_true: Bools) -> dict[str, int | None]:
    """Return for each tag the first row in which a condition holds; None if never."""
    first = is_true.argmax(axis=0)
    return {
        tag: int(first[k]) if is_true[first[k], k] else None
        for k, tag in enumerate(p.TAG_NAMES)
    }


def _commands_change(attack: PlannedAttack, twin: Rows) -> bool:
    """Return whether an actuator was commanded to a state its twin did not have."""
    return any(
        action.kind is p.ActionKind.SET
        and bool((twin[:, p.COLUMN[action.tag]] != action.value).any())
        for action in attack.actions
    )
