"""Tep: the Tennessee Eastman process with twin truth, by the package `tep_studio`.

`simulate` runs it; `write_simulation` writes a run to disk. docs/tep.md describes the
process, the attacks, and what is published and what is ours. It needs the extra
``tep``.

================  ===================================================================
`plant`           tags, instruments, set-points
`process`         the compiled model, the loops of Ricker's strategy, and the attacker
                  between them
================  ===================================================================
"""

from pathlib import Path

from sightline.progress import Progress
from sightline.testbeds.tep import plant as p
from sightline.testbeds.tep.plant import SETPOINTS, TAGS
from sightline.testbeds.twin.folder_writer import write_simulation
from sightline.testbeds.twin.scenario import (
    DAY_S,
    Action,
    PlannedAttack,
    Scenario,
    scenario_from,
    shipped_scenario,
)
from sightline.testbeds.twin.simulation import (
    Panel,
    PlantFacts,
    RunLength,
    Simulation,
    simulate_plant,
)
from sightline.testbeds.twin.truth import AttackTruth

__all__ = [
    "SETPOINTS",
    "TAGS",
    "Action",
    "AttackTruth",
    "PlannedAttack",
    "Scenario",
    "Simulation",
    "default_scenario",
    "read_scenario",
    "simulate",
    "write_simulation",
]

USUAL_DAYS, QUICK_DAYS = (3.0, 10.75), (0.5, 1.0)
FACTS = PlantFacts(
    name="tep",
    tags=TAGS,
    vocabulary=p.VOCABULARY,
    yardstick=p.YARDSTICK,
    unit="a sensor's own noise (standard deviation); an actuator by 1 per cent",
    panels=tuple(
        Panel(
            title=title,
            unit=unit,
            tags=tuple(tags),
            limits={"SP": SETPOINTS[f"{tags[0]}.SP"]} if len(tags) == 1 else {},
        )
        for title, unit, *tags in (
            ("Reactor pressure", "kPa", "XMEAS7"),
            ("Reactor temperature", "°C", "XMEAS9"),
            ("Levels of reactor and separator", "%", "XMEAS8", "XMEAS12"),
            ("Purge, and feed of A", "kscmh", "XMEAS10", "XMEAS1"),
            ("Cooling water valves of reactor, separator", "%", "XMV10", "XMV11"),
        )
    ),
)


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
    return scenario_from(path, p.VOCABULARY)


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
        Takes a `Step` for each part of train and test.

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
    length = RunLength.checked(days_train, days_test, usual, p.STEP_S, seed)
    return simulate_plant(
        Simulation,
        FACTS,
        length,
        lambda: warmed_up(length.seed),
        scenario=scenario or default_scenario(length.n_test * p.STEP_S / DAY_S),
        source=f"tep seed {length.seed}",
        recovery_labels=recovery_labels,
        progress=progress,
    )
