"""Days of normal operation and days of attacks on the Tennessee Eastman process."""

from dataclasses import dataclass
from pathlib import Path

from sightline.progress import Progress, silent
from sightline.testbeds.tep import plant as p
from sightline.testbeds.twin.scenario import DAY_S, Scenario, shipped_scenario
from sightline.testbeds.twin.scenario import read_scenario as read_any
from sightline.testbeds.twin.simulation import (
    Panel,
    check_seed,
    recordings_of,
    rows_of_days,
    run_days,
)
from sightline.testbeds.twin.simulation import Simulation as TwinSimulation

USUAL_DAYS, QUICK_DAYS = (3.0, 10.75), (0.5, 1.0)


def default_scenario(days: float = 10.75) -> Scenario:
    """Return the shipped attacks that fit into a number of days; they fill 10.75.

    Examples
    --------
    >>> len(default_scenario().attacks), len(default_scenario(days=1).attacks)
    (42, 4)
    """
    return shipped_scenario("sightline.testbeds.tep", "attacks.csv", days)


def read_scenario(path: str | Path) -> Scenario:
    """Read attacks on the process from a ``.csv`` or ``.toml`` file.

    Raises
    ------
    FileError
        If the file cannot be read or an attack is impossible; the message names the
        line or the table.
    """
    return read_any(path, p.VOCABULARY)


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation(TwinSimulation):
    """Train, test, and what is known about test but not recorded."""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Pressure, levels and flows, and two valves."""
        panels: tuple[tuple[str, str, tuple[str, ...]], ...] = (
            ("Reactor pressure", "kPa", ("XMEAS7",)),
            ("Reactor temperature", "°C", ("XMEAS9",)),
            ("Levels of reactor and separator", "%", ("XMEAS8", "XMEAS12")),
            ("Purge, and feed of A", "kscmh", ("XMEAS10", "XMEAS1")),
            ("Cooling water valves of reactor, separator", "%", ("XMV10", "XMV11")),
        )
        return tuple(
            Panel(
                title=title,
                unit=unit,
                tags=tags,
                limits={"SP": p.SETPOINTS[f"{tags[0]}.SP"]} if len(tags) == 1 else {},
            )
            for title, unit, tags in panels
        )

    @property
    def unit(self) -> str:
        """The unit of an effect, in words."""
        return "a sensor's own noise (standard deviation); an actuator by 1 per cent"


def simulate(
    *,
    days_train: float | None = None,
    days_test: float | None = None,
    seed: int = 1,
    scenario: Scenario | None = None,
    quick: bool = False,
    recovery_labels: bool = True,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate the Tennessee Eastman process: normal operation, then attacks.

    The same arguments give the same numbers, bit for bit. A row is 36 seconds.

    Parameters
    ----------
    days_train, days_test : float, optional
        Days of plant time: 3 and 10.75 by default, 0.5 and 1 if quick.
    seed : int
        Seed of all random numbers, 0 or more.
    scenario : Scenario, optional
        The attacks; by default the shipped ones that fit into test.
    quick : bool
        Fewer days, for demonstrations and tests.
    recovery_labels : bool
        Label rows in which the plant recovers from an attack -1 (`truth.recovery_s`);
        if False, they are labelled 0 like all other rows outside of attacks.
    progress : callable, optional
        Takes a `Step` for each stretch of train and test.

    Returns
    -------
    Simulation
        Recordings `train` and `test` with 53 tags, and the `truth` of each attack.

    Raises
    ------
    MissingExtraError
        If `tep_studio` is not installed; the message says how.
    StreamError
        If a number of days is not above 0, the seed is no whole number, an attack does
        not fit the plant or the run, or it shuts the plant down.

    Examples
    --------
    >>> made = simulate(days_train=0.01, days_test=0.01)  # doctest: +SKIP
    >>> made.test.values.shape  # doctest: +SKIP
    (24, 53)
    """
    # Imported late, because the model takes a second to import.
    from sightline.testbeds.tep.process import warmed_up

    usual = QUICK_DAYS if quick else USUAL_DAYS
    wanted = {"days_train": days_train, "days_test": days_test}
    n_train, n_test = (
        rows_of_days(default if given is None else given, name, p.STEP_S)
        for (name, given), default in zip(wanted.items(), usual, strict=True)
    )
    seed = check_seed(seed)
    if scenario is None:
        scenario = default_scenario(n_test * p.STEP_S / DAY_S)
    p.VOCABULARY.check_scenario(scenario, n_test * p.STEP_S)
    days = run_days(
        warmed_up(seed), (n_train, n_test), scenario, p.YARDSTICK, progress or silent
    )
    train, test = recordings_of(
        days, p.TAGS, scenario, p.STEP_S, f"tep seed {seed}", recovery_labels
    )
    return Simulation(
        name="tep",
        train=train,
        test=test,
        true_values=days.true_values,
        truth=days.truth,
        seed=seed,
        scenario=scenario,
        _before_test=days.before_test,
    )
