"""A plant that runs twice: test with its attacks, and a twin for each of them.

Any plant will do that can be run, stopped and copied at any row (`TwinPlant`), and
whose random numbers depend on the seed and the time alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Floats, Labels
from sightline.data.recording import Recording, Tag
from sightline.data.segments import Attack, labels_of
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind, silent
from sightline.testbeds.twin.scenario import (
    DAY_S,
    PlannedAttack,
    Rows,
    Scenario,
    Vocabulary,
)
from sightline.testbeds.twin.truth import (
    AttackTruth,
    Usual,
    Yardstick,
    truth_of,
    usual_of,
)

BLOCK_STEPS = 3600


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


class TwinPlant(ABC):
    """A plant that can be run, stopped, and copied at any row."""

    @abstractmethod
    def copy(self) -> Self:
        """Return a plant in the same state that will see the same random numbers."""

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
        """Run the plant and fill rows [start, stop) of `recorded`.

        Parameters
        ----------
        recorded : array of shape (n_rows, n_tags)
            Readings. Rows before `start` are read by attacks that continue or repeat
            the past.
        unforged : array of shape (n_rows, n_tags), optional
            Filled with readings before any forging.
        start, stop : int
            Which rows to fill; `stop` is the end by default.
        attack : PlannedAttack, optional
            An attack that begins in row `start` and lasts to `stop`.
        report : callable, optional
            Takes the number of rows that are filled, now and then.
        """
        rows = range(start, len(recorded) if stop is None else stop)
        self._fill(recorded, unforged, rows, attack, report)

    @abstractmethod
    def _fill(
        self,
        recorded: Rows,
        unforged: Rows | None,
        rows: range,
        attack: PlannedAttack | None,
        report: Callable[[int], None],
    ) -> None:
        """Run the plant over some rows; the parameters are those of `run`."""

    def open_account(self) -> None:
        """Start a new water account, if the plant keeps one."""
        return

    def close_account(self) -> Any:
        """Return the water account since `open_account`; None if there is none."""
        return None


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
    train_water, test_water : dataclass, optional
        The water accounts of both, if the plant keeps them.
    """

    facts: PlantFacts
    train: Recording
    test: Recording
    true_values: Rows
    truth: tuple[AttackTruth, ...]
    seed: int
    scenario: Scenario
    train_water: Any
    test_water: Any
    _before_test: TwinPlant

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


class RunLength(NamedTuple):
    """Rows of train and of test, and the seed of all random numbers."""

    n_train: int
    n_test: int
    seed: int

    @classmethod
    def checked(
        cls,
        days_train: float | None,
        days_test: float | None,
        usual: tuple[float, float],
        step_s: int,
        seed: int,
    ) -> RunLength:
        """Return a length in days as rows; `usual` days where none are given.

        Raises
        ------
        StreamError
            If days are not above 0, or the seed is no whole number, 0 or more.
        """
        wanted = {"days_train": days_train, "days_test": days_test}
        n_rows = []
        for (name, stated), default in zip(wanted.items(), usual, strict=True):
            days = default if stated is None else stated
            is_number = isinstance(days, Real) and np.isfinite(days)
            n_rows.append(round(days * DAY_S / step_s) if is_number else 0)
            if n_rows[-1] < 1:
                raise StreamError(
                    f"`{name}` must be days of plant time above 0; got {days}."
                )
        is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if not is_whole or seed < 0:
            raise StreamError(
                f"`seed` must be a whole number, 0 or more; got {seed!r}."
            )
        return cls(n_rows[0], n_rows[1], int(seed))


def simulate_plant(
    kind: type[S],
    facts: PlantFacts,
    length: RunLength,
    warmed_up: Callable[[], P],
    *,
    scenario: Scenario,
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
    length : RunLength
        Rows and seed.
    warmed_up : callable
        Returns the plant at the first row of train; it is called once the scenario is
        checked.
    scenario : Scenario
        The attacks.
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
        If an attack does not fit the plant or the run.
    """
    by, progress = facts.yardstick, progress or silent
    n_train, n_test, seed = length
    facts.vocabulary.check_scenario(scenario, n_test * by.step_s)
    train, recorded, unforged = (
        np.empty((n, len(by.tags)), np.float32) for n in (n_train, n_test, n_test)
    )
    plant = warmed_up()
    plant.open_account()
    plant.run(train, report=_reporter(progress, "train", n_train))
    train_water = plant.close_account()
    plant = between(plant)
    plant.open_account()
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
    labels, attacks = _labelled(scenario, truth, n_test, by.step_s, recovery_labels)
    recording = partial(Recording, tags=facts.tags, step_s=float(by.step_s))
    return kind(
        facts=facts,
        train=recording(
            values=train,
            labels=labels_of((), n_train),
            time=FIRST_SECOND + by.step_s * np.arange(n_train, dtype=float),
            source=f"{source}, train",
        ),
        test=recording(
            values=recorded,
            labels=labels,
            time=FIRST_SECOND + by.step_s * (n_train + np.arange(n_test, dtype=float)),
            attacks=attacks,
            source=f"{source}, test",
        ),
        true_values=unforged,
        truth=truth,
        seed=seed,
        scenario=scenario,
        train_water=train_water,
        test_water=plant.close_account(),
        _before_test=before_test,
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


def _labelled(
    scenario: Scenario,
    truth: Sequence[AttackTruth],
    n_rows: int,
    step_s: int,
    recovery_labels: bool,
) -> tuple[Labels, tuple[Attack, ...]]:
    """Return the labels and the attacks of test by row."""
    attacks = tuple(
        Attack(
            id=planned.id,
            start=planned.rows(step_s).start,
            stop=planned.rows(step_s).stop,
            targets=planned.targets,
            note=planned.note or None,
        )
        for planned in scenario.attacks
    )
    labels = labels_of(attacks, n_rows)
    if recovery_labels:
        for effect in truth:
            stop = effect.stop + (effect.recovery_s or 0) // step_s
            rows = labels[effect.stop : stop]
            rows[rows == NORMAL] = IGNORED
    return labels, attacks


def _reporter(progress: Progress, detail: str, total: int) -> Callable[[int], None]:
    """Return a callback that turns a number of rows into a `Step`."""
    return lambda done: progress(Step(StepKind.SIMULATING, done, total, detail))
