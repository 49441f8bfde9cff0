"""A plant that runs twice: test with its attacks, and a twin for each of them.

Any plant will do that can be run, stopped and copied at any row (`TwinPlant`), and
whose random numbers depend on the seed and the time alone.

A twin starts in the same state and with the same random numbers that the plant has at
the attack's first step. It runs without the attack, but with those that follow. Every
difference between the recorded values of the two is caused by the attack.

Recovery is the time after an attack in which the plant still differs from its twin by
more than noise, and is where it never is without attacks; `recovery_s` has the rule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Bools, Floats
from sightline.data.recording import Recording, Tag
from sightline.data.segments import KnownEffect, labels_of
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind, silent
from sightline.testbeds.base import shipped_rows
from sightline.testbeds.twin.scenario import (
    DAY_S,
    ActionKind,
    PlannedAttack,
    Rows,
    Scenario,
    Vocabulary,
    forged_value,
)

BLOCK_STEPS = 3600
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


def instruments_of(testbed: str, tags: Sequence[Tag]) -> tuple[Floats, Floats]:
    """Return noise and rounding of each tag of a plant, from ``instruments.csv``.

    Both are 0 for a tag that is not in the table, such as an actuator.
    """
    rows = shipped_rows("instruments.csv")
    errors = {row["tag"]: row for row in rows if row["testbed"] == testbed}
    noise, quantum = (
        np.array(
            [float(errors[t.name][key]) if t.name in errors else 0.0 for t in tags]
        )
        for key in ("noise", "quantum")
    )
    return noise, quantum


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


class NoiseSource:
    """Standard normal draws that depend on the seed and the step alone.

    They come in blocks of `BLOCK_STEPS` steps (3600), each from its own generator. A
    run may start at any step, stop anywhere, and be repeated: step t has the same
    numbers. One block is in memory at a time.
    """

    def __init__(self, seed: int, n_draws: int) -> None:
        self._seed = seed
        self._n_draws = n_draws
        self._number = -1
        self._block: Floats = np.empty((0, n_draws))

    def upto(self, step: int, n_steps: int) -> Floats:
        """Return the draws of up to `n_steps` steps from `step`, within one block."""
        number, offset = divmod(step, BLOCK_STEPS)
        if number != self._number:
            sequence = np.random.SeedSequence(self._seed, spawn_key=(0, number))
            generator = np.random.Generator(np.random.PCG64(sequence))
            self._block = generator.standard_normal((BLOCK_STEPS, self._n_draws))
            self._number = number
        return self._block[offset : offset + n_steps]


# Train begins on Monday, 1 January 2024, at midnight.
FIRST_SECOND = 1_704_067_200.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Filling:
    """The rows that a plant is to fill, and what an attacker does meanwhile.

    Parameters
    ----------
    recorded : array of shape (n_rows, n_tags)
        Readings. Rows before the first are read by attacks that continue or repeat the
        past.
    unforged : array of shape (n_rows, n_tags), optional
        To be filled with readings before any forging.
    rows : range
        Which rows to fill.
    attack : PlannedAttack, optional
        An attack that lasts for all of these rows.
    report : callable
        Takes the number of rows that are filled, now and then.
    """

    recorded: Rows
    unforged: Rows | None
    rows: range
    attack: PlannedAttack | None
    report: Callable[[int], None]

    def values(self, kind: ActionKind) -> dict[str, float]:
        """Return the value of each action of a kind, by tag."""
        return {} if self.attack is None else self.attack.values(kind)

    def forge(
        self,
        reading: Floats,
        sensors: Sequence[str],
        *,
        row: int,
        elapsed_s: float,
        step_s: int,
        lowest: float,
    ) -> None:
        """Replace the readings that the attack forges.

        Parameters
        ----------
        reading : array of shape (n,)
            What the sensors measure; changed in place.
        sensors : sequence of str
            The tags of the first columns.
        row : int
            The present row.
        elapsed_s, lowest : float
            As for `forged_value`.
        step_s : int
            Seconds a row.
        """
        for action in () if self.attack is None else self.attack.actions:
            if not action.kind.forges:
                continue
            column, replayed = sensors.index(action.tag), 0.0
            if action.kind is ActionKind.REPLAY:
                past = row - int(action.value or 0) // step_s
                replayed = float(self.recorded[past, column])
            reading[column] = forged_value(
                action.kind.code,
                float(reading[column]),
                *action.numbers,
                elapsed_s,
                float(self.recorded[self.rows.start - 1, column]),
                replayed,
                lowest,
            )


class TwinPlant(ABC):
    """A plant that can be run, stopped, and copied at any row."""

    @abstractmethod
    def copy(self) -> Self:
        """Return a plant in the same state that will see the same random numbers."""

    @abstractmethod
    def fill(self, to_fill: Filling) -> None:
        """Run the plant over some rows."""

    def run(
        self,
        recorded: Rows,
        *,
        unforged: Rows | None = None,
        start: int = 0,
        stop: int | None = None,
        attack: PlannedAttack | None = None,
        report: Callable[[int], None] = lambda done: None,
    ) -> None:
        """Run the plant and fill rows [start, stop) of `recorded`; see `Filling`."""
        rows = range(start, len(recorded) if stop is None else stop)
        self.fill(
            Filling(
                recorded=recorded,
                unforged=unforged,
                rows=rows,
                attack=attack,
                report=report,
            )
        )


P = TypeVar("P", bound=TwinPlant)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel of the picture of a simulation.

    Parameters
    ----------
    title, unit : str
        Above it, and at its axis.
    tags : tuple of str
        One or two tags to draw.
    limits : mapping from str to float
        Set-points to draw as lines, by the word that stands at the line.
    """

    title: str
    unit: str
    tags: tuple[str, ...]
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlantFacts:
    """What one simulated plant is made of.

    Parameters
    ----------
    name : str
        The testbed.
    tags : tuple of Tag
        The columns.
    vocabulary : Vocabulary
        What attackers can act on.
    yardstick : Yardstick
        How differences from a twin are measured; `step_s` is the time between rows.
    unit : str
        The unit of an effect, in words.
    panels : tuple of Panel
        The panels of the picture.
    picture_days : int
        How many days the picture shows.
    """

    name: str
    tags: tuple[Tag, ...]
    vocabulary: Vocabulary
    yardstick: Yardstick
    unit: str
    panels: tuple[Panel, ...]
    picture_days: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """Train, test, and what is known about test but not recorded.

    Parameters
    ----------
    facts : PlantFacts
        The plant.
    train, test : Recording
        Normal operation, and the time that follows, with the scenario's attacks.
    true_values : array of shape (n_rows, n_tags)
        Readings of test before any forging.
    truth : tuple of AttackTruth
        The effect of each attack, in comparison with its twin.
    seed : int
        Seed of all random numbers.
    scenario : Scenario
        The attacks.
    """

    facts: PlantFacts
    train: Recording
    test: Recording
    true_values: Rows
    truth: tuple[AttackTruth, ...]
    seed: int
    scenario: Scenario
    _before_test: TwinPlant
    _after_test: TwinPlant

    @property
    def name(self) -> str:
        """The testbed."""
        return self.facts.name

    @property
    def release(self) -> str:
        """What tells this run from others of the same plant, such as ``"seed1"``."""
        return f"seed{self.seed}"

    def options(self) -> dict[str, object]:
        """Return the arguments besides the seed, for truth.json."""
        return {}

    def clean_test(self) -> Recording:
        """Return test without any attack, from the same state and random numbers."""
        recorded = np.empty(self.test.values.shape, np.float32)
        self._before_test.copy().run(recorded)
        return Recording(
            values=recorded,
            tags=self.test.tags,
            time=self.test.time,
            step_s=self.test.step_s,
            source=f"{self.test.source}, attacks removed",
        )


S = TypeVar("S", bound=Simulation)


def run_length(
    days: tuple[float | None, float | None],
    usual_days: tuple[float, float],
    step_s: int,
    seed: int,
) -> list[int]:
    """Return the rows of train and of test; usual days where none are given.

    Raises
    ------
    StreamError
        If days are not above 0, or the seed is no whole number, 0 or more.
    """
    n_rows = []
    for name, stated, usual in zip(("train", "test"), days, usual_days, strict=True):
        length = usual if stated is None else stated
        is_number = isinstance(length, Real) and np.isfinite(length)
        n_rows.append(round(length * DAY_S / step_s) if is_number else 0)
        if n_rows[-1] < 1:
            raise StreamError(
                f"`days_{name}` must be days of plant time above 0; got {length}."
            )
    is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not is_whole or seed < 0:
        raise StreamError(f"`seed` must be a whole number, 0 or more; got {seed!r}.")
    return n_rows


def simulate_plant(
    kind: type[S],
    facts: PlantFacts,
    warmed_up: Callable[[int], P],
    *,
    days: tuple[float | None, float | None],
    usual_days: tuple[float, float],
    seed: int,
    scenario: Scenario | None,
    planned: Callable[[float], Scenario],
    source: str,
    recovery_labels: bool,
    progress: Progress | None,
    between: Callable[[P], P] = lambda plant: plant,
    **options: Any,
) -> S:
    """Run train, then test with its attacks, then the twin of each attack.

    Parameters
    ----------
    kind : type
        The simulation to return.
    facts : PlantFacts
        The plant.
    warmed_up : callable
        From the seed to the plant at the first row of train; it is called once the
        scenario is checked.
    days, usual_days : (float, float)
        Days of train and of test; usual ones where none are given.
    seed : int
        Seed of all random numbers, 0 or more.
    scenario : Scenario, optional
        The attacks.
    planned : callable
        From days of test to the attacks, if none are given.
    source : str
        Plant and seed in words.
    recovery_labels : bool
        Whether rows in which the plant recovers from an attack are labelled -1.
    progress : callable, optional
        Takes a `Step` for each part of train and test.
    between : callable, optional
        Takes the plant after train and returns the plant of test.
    **options
        Further fields of `kind`.

    Raises
    ------
    StreamError
        If days are not above 0, the seed is no whole number, 0 or more, or an attack
        does not fit the plant or the run.
    """
    by, progress = facts.yardstick, progress or silent
    n_train, n_test = run_length(days, usual_days, by.step_s, seed)
    scenario = scenario or planned(n_test * by.step_s / DAY_S)
    facts.vocabulary.check_scenario(scenario, n_test * by.step_s)
    train, recorded, unforged = (
        np.empty((n, len(by.tags)), np.float32) for n in (n_train, n_test, n_test)
    )
    plant = warmed_up(int(seed))
    plant.run(train, report=_reporter(progress, "train", n_train))
    plant = between(plant)
    before_test = plant.copy()
    report = _reporter(progress, "test", n_test)
    run = partial(plant.run, recorded, unforged=unforged, report=report)
    twins, row = [], 0
    for attack in scenario.attacks:
        rows = attack.rows(by.step_s)
        run(start=row, stop=rows.start)
        twins.append(plant.copy())
        run(start=rows.start, stop=rows.stop, attack=attack)
        row = rows.stop
    run(start=row)
    unattacked = np.empty_like(recorded)
    before_test.copy().run(unattacked)
    usual = usual_of(train, unattacked, by=by)
    truth = _truth(scenario.attacks, twins, recorded, usual, by)
    attacks = tuple(attack.segment(by.step_s) for attack in scenario.attacks)
    labels = labels_of(attacks, n_test)
    for effect in truth if recovery_labels else ():
        stop = effect.stop + (effect.recovery_s or 0) // by.step_s
        after = labels[effect.stop : stop]
        after[after == NORMAL] = IGNORED
    recording = partial(Recording, tags=facts.tags, step_s=float(by.step_s))
    time = FIRST_SECOND + by.step_s * np.arange(n_train + n_test, dtype=float)
    return kind(
        facts=facts,
        train=recording(
            values=train,
            labels=labels_of((), n_train),
            time=time[:n_train],
            source=f"{source}, train",
        ),
        test=recording(
            values=recorded,
            labels=labels,
            time=time[n_train:],
            attacks=attacks,
            source=f"{source}, test",
        ),
        true_values=unforged,
        truth=truth,
        seed=int(seed),
        scenario=scenario,
        _before_test=before_test,
        _after_test=plant,
        **options,
    )


def _truth(
    attacks: Sequence[PlannedAttack],
    twins: Sequence[TwinPlant],
    recorded: Rows,
    usual: Usual,
    by: Yardstick,
) -> tuple[AttackTruth, ...]:
    """Return the effect of each attack, from a run of its twin up to the cap."""
    is_attacked = np.zeros(len(recorded), np.bool_)
    for attack in attacks:
        is_attacked[attack.rows(by.step_s)] = True
    # A twin's rows follow what was recorded before: later attacks may repeat the past.
    rows, copied, truth = np.empty_like(recorded), 0, []
    for k, (attack, twin) in enumerate(zip(attacks, twins, strict=True)):
        start = attack.rows(by.step_s).start
        rows[copied:start] = recorded[copied:start]
        copied = start
        end_s = attack.stop_s + by.cap_s(attack.duration_s)
        stop = min(end_s // by.step_s, len(recorded))
        # It runs without this attack, but with those that follow.
        row = start
        for later in attacks[k + 1 :]:
            its = later.rows(by.step_s)
            if its.start >= stop:
                break
            twin.run(rows, start=row, stop=its.start)
            row = min(its.stop, stop)
            twin.run(rows, start=its.start, stop=row, attack=later)
        twin.run(rows, start=row, stop=stop)
        seen = slice(start, stop)
        truth.append(
            truth_of(attack, recorded[seen], rows[seen], is_attacked[seen], usual, by)
        )
    return tuple(truth)


def _reporter(progress: Progress, detail: str, total: int) -> Callable[[int], None]:
    """Return a callback that turns a number of rows into a `Step`."""
    return lambda done: progress(Step(StepKind.SIMULATING, done, total, detail))
