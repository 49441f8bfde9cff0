"""A plant that runs twice: test with its attacks, and a twin for each of them.

Any plant will do that can be run, stopped and copied at any row (`Plant`), and whose
random numbers depend on the seed and the time alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Protocol, Self, TypeVar

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Floats, Labels
from sightline.data.recording import Recording, Tag
from sightline.data.segments import Attack, labels_of
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind
from sightline.testbeds.twin.scenario import DAY_S, PlannedAttack, Scenario
from sightline.testbeds.twin.truth import (
    AttackTruth,
    Rows,
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


class Plant(Protocol):
    """A plant that can be run, stopped, and copied at any row."""

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
        report: Callable[[int], None] | None = None,
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


P = TypeVar("P", bound=Plant)


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
    limits: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """Train, test, and what is known about test but not recorded.

    Parameters
    ----------
    name : str
        The testbed.
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

    name: str
    train: Recording
    test: Recording
    true_values: Rows
    truth: tuple[AttackTruth, ...]
    seed: int
    scenario: Scenario
    _before_test: Plant

    @property
    def release(self) -> str:
        """What tells this run from others of the same plant, such as ``"seed1"``."""
        return f"seed{self.seed}"

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The panels of the picture."""
        raise NotImplementedError

    @property
    def picture_days(self) -> int:
        """How many days the picture shows."""
        return 1

    @property
    def unit(self) -> str:
        """The unit of an effect, in words."""
        raise NotImplementedError

    def options(self) -> dict[str, object]:
        """Return the arguments besides the seed, for truth.json."""
        return {}

    def accounts(self) -> dict[str, object]:
        """Return the balances of the simulator, for truth.json."""
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Days:
    """Train and test of one plant, as run.

    Parameters
    ----------
    train, test, true_values : array of shape (n_rows, n_tags)
        Readings; of test also before any forging.
    truth : tuple of AttackTruth
        The effect of each attack.
    before_test : Plant
        The plant at the first row of test.
    """

    train: Rows
    test: Rows
    true_values: Rows
    truth: tuple[AttackTruth, ...]
    before_test: Plant


def run_days(
    plant: P,
    n_rows: tuple[int, int],
    scenario: Scenario,
    by: Yardstick,
    progress: Progress,
    between: Callable[[P], P] = lambda plant: plant,
) -> Days:
    """Run train, then test with its attacks, then the twin of each attack.

    Parameters
    ----------
    plant : Plant
        At the first row of train; afterwards at the end of test.
    n_rows : tuple of int
        Rows of train and of test.
    scenario : Scenario
        The attacks.
    by : Yardstick
        How differences from the twin are measured.
    progress : callable
        Takes a `Step` for each stretch of train and test.
    between : callable, optional
        Takes the plant after train and returns the plant of test.
    """
    train, recorded, unforged = (
        np.empty((n, len(by.tags)), np.float32) for n in (*n_rows, n_rows[1])
    )
    plant.run(train, report=_reporter(progress, "train", len(train)))
    plant = between(plant)
    before_test = plant.copy()
    report = _reporter(progress, "test", len(recorded))
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
    return Days(
        train=train,
        test=recorded,
        true_values=unforged,
        truth=_truth(scenario.attacks, twins, recorded, usual, by),
        before_test=before_test,
    )


def _truth(
    attacks: Sequence[PlannedAttack],
    twins: Sequence[Plant],
    recorded: Rows,
    usual: Usual,
    by: Yardstick,
) -> tuple[AttackTruth, ...]:
    """Return the effect of each attack, from a run of its twin up to the cap.

    Parameters
    ----------
    attacks : sequence of PlannedAttack
        In the order of time.
    twins : sequence of Plant
        The plant before the first step of each attack.
    recorded : array of shape (n_rows, n_tags)
        All of test, with the attacks.
    usual : Usual
        What the plant shows without attacks.
    by : Yardstick
        How differences from the twin are measured.
    """
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
        _run_with(twin, attacks[k + 1 :], rows, start, stop, by.step_s)
        seen = slice(start, stop)
        truth.append(
            truth_of(attack, recorded[seen], rows[seen], is_attacked[seen], usual, by)
        )
    return tuple(truth)


def _run_with(
    plant: Plant,
    attacks: Sequence[PlannedAttack],
    rows: Rows,
    start: int,
    stop: int,
    step_s: int,
) -> None:
    """Fill rows [start, stop) by a plant, with the attacks that begin within them."""
    for attack in attacks:
        its = attack.rows(step_s)
        if its.start >= stop:
            break
        plant.run(rows, start=start, stop=its.start)
        start = min(its.stop, stop)
        plant.run(rows, start=its.start, stop=start, attack=attack)
    plant.run(rows, start=start, stop=stop)


def recordings_of(
    days: Days,
    tags: tuple[Tag, ...],
    scenario: Scenario,
    step_s: int,
    source: str,
    recovery_labels: bool,
) -> tuple[Recording, Recording]:
    """Return train and test as recordings, test labelled by the scenario's attacks.

    Parameters
    ----------
    days : Days
        What was run.
    tags : tuple of Tag
        The columns.
    scenario : Scenario
        The attacks of test.
    step_s : int
        Seconds a row.
    source : str
        Plant and seed in words.
    recovery_labels : bool
        Whether rows in which the plant recovers from an attack are labelled -1.
    """
    attacks = tuple(
        Attack(
            id=a.id,
            start=a.rows(step_s).start,
            stop=a.rows(step_s).stop,
            targets=a.targets,
            note=a.note or None,
        )
        for a in scenario.attacks
    )
    labels = labels_of(attacks, len(days.test))
    if recovery_labels:
        labels = _with_recovery(labels, days.truth, step_s)
    n_train = len(days.train)
    train, test = (
        Recording(
            values=values,
            tags=tags,
            labels=labels_of((), n_train) if part == "train" else labels,
            time=FIRST_SECOND + step_s * (first + np.arange(len(values), dtype=float)),
            step_s=float(step_s),
            attacks=() if part == "train" else attacks,
            source=f"{source}, {part}",
        )
        for part, values, first in (
            ("train", days.train, 0),
            ("test", days.test, n_train),
        )
    )
    return train, test


def _with_recovery(labels: Labels, truth: Sequence[AttackTruth], step_s: int) -> Labels:
    """Return labels with normal rows in recovery labelled -1."""
    labels = np.array(labels)
    for attack in truth:
        stop = attack.stop + (attack.recovery_s or 0) // step_s
        rows = labels[attack.stop : stop]
        rows[rows == NORMAL] = IGNORED
    return labels


def _reporter(progress: Progress, detail: str, total: int) -> Callable[[int], None]:
    """Return a callback that turns a number of rows into a `Step`."""
    return lambda done: progress(Step(StepKind.SIMULATING, done, total, detail))


def rows_of_days(days: float, name: str, step_s: int) -> int:
    """Return days as a number of rows; refuse what is not above 0."""
    is_number = isinstance(days, Real) and np.isfinite(days)
    rows = round(days * DAY_S / step_s) if is_number else 0
    if rows < 1:
        raise StreamError(f"`{name}` must be days of plant time above 0; got {days}.")
    return rows


def check_seed(seed: int) -> int:
    """Return a seed as an integer; refuse what is not a whole number, 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise StreamError(f"`seed` must be a whole number, 0 or more; got {seed!r}.")
    return int(seed)
