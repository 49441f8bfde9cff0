"""A week of normal operation and days of attacks, from one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Labels
from sightline.data.recording import Recording
from sightline.data.segments import Attack
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind
from sightline.testbeds.waterworks.drift import Drift, conditions_of
from sightline.testbeds.waterworks.plant import TAGS
from sightline.testbeds.waterworks.scenario import Scenario
from sightline.testbeds.waterworks.scenario_files import (
    DAY_S,
    default_scenario,
    quick_scenario,
)
from sightline.testbeds.waterworks.truth import AttackTruth, truth_of
from sightline.testbeds.waterworks.water import WaterBalance

if TYPE_CHECKING:
    from sightline.testbeds.waterworks.runner import Runner

# What is being done, steps done, steps in all.
Rows = npt.NDArray[np.float32]

# Train begins on Monday, 1 January 2024, at midnight.
FIRST_SECOND = 1_704_067_200.0
USUAL_DAYS, QUICK_DAYS = (7.0, 4.0), (1.0, 0.5)


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """Train, test, and what is known about test that no historian records.

    Parameters
    ----------
    train, test : Recording
        Normal operation, and what follows it, with the scenario's attacks.
    true_values : array of shape (n_steps, 51)
        Test as its sensors read before any forging.
    truth : tuple of AttackTruth
        What each attack did, from its twin.
    train_water, test_water : WaterBalance
        The water accounts of both.
    seed, drift, scenario
        What it was made from.
    """

    train: Recording
    test: Recording
    true_values: Rows
    truth: tuple[AttackTruth, ...]
    train_water: WaterBalance
    test_water: WaterBalance
    seed: int
    drift: Drift
    scenario: Scenario
    _before_test: Runner

    def clean_test(self) -> Recording:
        """Run test again without any attack: same state, same random numbers."""
        from sightline.testbeds.waterworks.runner import empty_rows

        recorded = empty_rows(self.test.n_steps)
        self._before_test.copy().run(recorded)
        return Recording(
            values=recorded,
            tags=TAGS,
            time=self.test.time,
            step_s=1.0,
            source=f"{self.test.source}, attacks removed",
        )


def simulate(
    *,
    days_train: float | None = None,
    days_test: float | None = None,
    seed: int = 1,
    drift: Drift | None = None,
    scenario: Scenario | None = None,
    quick: bool = False,
    progress: Progress | None = None,
) -> Simulation:
    """Run the plant: normal operation first, then on, with attacks.

    Parameters
    ----------
    days_train, days_test : float, optional
        Days of plant time: 7 and 4, or, if quick, 1 and 0.5.
    seed : int
        All that is random follows from it.
    drift : Drift, optional
        How the plant of test differs from that of train; not at all by default.
    scenario : Scenario, optional
        The attacks; by default the shipped ones that fit into test.
    quick : bool
        Fewer days and a short scenario, for demonstrations and tests.
    progress : callable, optional
        Told what is being done, steps done, and steps in all.

    Returns
    -------
    Simulation

    Raises
    ------
    StreamError
        If a number of days or the seed makes no run, or an attack lies outside of it.

    Examples
    --------
    >>> made = simulate(days_train=0.02, days_test=0.02, scenario=Scenario())
    >>> made.test.values.shape
    (1728, 51)
    """
    usual = QUICK_DAYS if quick else USUAL_DAYS
    n_train = _steps_of(usual[0] if days_train is None else days_train, "days_train")
    n_test = _steps_of(usual[1] if days_test is None else days_test, "days_test")
    drift = drift or Drift()
    if scenario is None:
        scenario = (quick_scenario if quick else default_scenario)(n_test / DAY_S)
    scenario.check_fits(n_test)
    return _run(n_train, n_test, _check_seed(seed), drift, scenario, progress)


def _run(
    n_train: int,
    n_test: int,
    seed: int,
    drift: Drift,
    scenario: Scenario,
    progress: Progress | None,
) -> Simulation:
    # Here, for numba takes a second to import.
    from sightline.testbeds.waterworks.runner import Runner, empty_rows

    plant = Runner.warmed_up(seed, conditions_of(Drift()))
    train = empty_rows(n_train)
    plant.open_accounts()
    plant.run(train, told=_told(progress, "train", n_train))
    train_water = plant.close_accounts()
    plant = plant.copy(conditions_of(drift))
    before_test = plant.copy()
    recorded, unforged = empty_rows(n_test), empty_rows(n_test)
    plant.open_accounts()
    truth = _run_attacks(
        plant, scenario, recorded, unforged, _told(progress, "test", n_test)
    )
    source = f"waterworks seed {seed}, drift {drift}"
    return Simulation(
        train=_recording(train, 0, f"{source}, train"),
        test=_recording(recorded, n_train, f"{source}, test", scenario),
        true_values=unforged,
        truth=truth,
        train_water=train_water,
        test_water=plant.close_accounts(),
        seed=seed,
        drift=drift,
        scenario=scenario,
        _before_test=before_test,
    )


def _run_attacks(
    plant: Runner,
    scenario: Scenario,
    recorded: Rows,
    unforged: Rows,
    told: Callable[[int], None] | None,
) -> tuple[AttackTruth, ...]:
    """Fill the rows of test, and run each attack's twin beside it."""
    from sightline.testbeds.waterworks.runner import empty_rows

    truth = []
    row = 0
    for attack in scenario.attacks:
        plant.run(
            recorded, unforged=unforged, start=row, stop=attack.start_s, told=told
        )
        twin, unattacked = plant.copy(), empty_rows(attack.duration_s)
        twin.run(unattacked)
        plant.run(
            recorded,
            unforged=unforged,
            start=attack.start_s,
            stop=attack.stop_s,
            attack=attack,
            told=told,
        )
        row = attack.stop_s
        truth.append(truth_of(attack, recorded[attack.start_s : row], unattacked))
    plant.run(recorded, unforged=unforged, start=row, told=told)
    return tuple(truth)


def _recording(
    values: Rows, first_row: int, source: str, scenario: Scenario | None = None
) -> Recording:
    attacks = () if scenario is None else scenario.attacks
    labels: Labels = np.zeros(len(values), np.int8)
    for attack in attacks:
        labels[attack.start_s : attack.stop_s] = 1
    return Recording(
        values=values,
        tags=TAGS,
        labels=labels,
        time=FIRST_SECOND + first_row + np.arange(len(values), dtype=np.float64),
        step_s=1.0,
        attacks=tuple(
            Attack(
                id=attack.id,
                start=attack.start_s,
                stop=attack.stop_s,
                targets=attack.targets,
                note=attack.note or None,
            )
            for attack in attacks
        ),
        source=source,
    )


def _told(
    progress: Progress | None, doing: str, total: int
) -> Callable[[int], None] | None:
    if progress is None:
        return None
    return lambda done: progress(Step(StepKind.SIMULATING, done, total, doing))


def _steps_of(days: float, name: str) -> int:
    is_known = isinstance(days, Real) and np.isfinite(days)
    steps = round(days * DAY_S) if is_known else 0
    if steps < 1:
        raise StreamError(f"`{name}` must be days of plant time above 0; got {days}.")
    return steps


def _check_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise StreamError(f"`seed` must be a whole number, 0 or more; got {seed!r}.")
    return int(seed)
