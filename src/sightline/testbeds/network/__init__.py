"""Network: a water network with twin truth, by EPANET and the package `wntr`.

`simulate` runs any EPANET file; `write_simulation` writes a run to disk.
docs/network.md describes control, noise, attacks, and what is published and what is
ours. It needs the extra ``water``.

================  ===================================================================
`hydraulics`      one step by EPANET's toolkit
`plant`           a network read from a file: tags, instruments, controls, demands
`process`         one row of everything, and runs of many
`scenario`        attacks for any network
================  ===================================================================
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.errors import StreamError
from sightline.progress import Progress
from sightline.testbeds.network.plant import DEFAULT, STEP_S, Network, read_network
from sightline.testbeds.network.process import (
    Instruments,
    NetworkBalance,
    nominal_days,
    warmed_up,
)
from sightline.testbeds.network.scenario import planned_scenario
from sightline.testbeds.twin.folder_writer import write_simulation
from sightline.testbeds.twin.scenario import (
    DAY_S,
    Action,
    PlannedAttack,
    Rows,
    Scenario,
    scenario_from,
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
    "Action",
    "AttackTruth",
    "NetworkBalance",
    "NetworkSimulation",
    "PlannedAttack",
    "Scenario",
    "Simulation",
    "default_scenario",
    "read_scenario",
    "simulate",
    "write_simulation",
]

USUAL_DAYS, QUICK_DAYS = (60.0, 46.0), (10.0, 7.0)
# Panels of the picture: at most this many levels, pumps and pressures.
_LEVELS, _FLOWS, _PRESSURES = 2, 2, 1


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkSimulation(Simulation):
    """A simulation of a water network.

    Parameters
    ----------
    network : Network
        What was run.
    """

    network: Network

    @property
    def release(self) -> str:
        """The network and the seed, such as ``"Net3-seed1"``."""
        return f"{self.network.name}-seed{self.seed}"

    def options(self) -> dict[str, object]:
        """Return the network, for truth.json."""
        return {"network": self.network.name}


def facts_of(network: Network, instruments: Instruments) -> PlantFacts:
    """Return what a network is made of: its picture shows levels, flows, a pressure."""
    read = [c.tag for c in network.controls if c.tag in network.levels]
    panels = []
    for tag in list(dict.fromkeys([*read, *network.levels]))[:_LEVELS]:
        switched: dict[float, list[str]] = {}
        for control in network.controls:
            if control.tag == tag:
                name = control.name.split(".")[1]
                switched.setdefault(control.limit, []).append(name)
        limits = {"\n".join(names): limit for limit, names in switched.items()}
        panels.append(Panel(title=f"Level {tag}", unit="m", tags=(tag,), limits=limits))
    others = [("Flow", "l/s", tag) for tag in network.flow_tags[:_FLOWS]]
    others += [("Pressure", "m", tag) for tag in network.pressure_tags[:_PRESSURES]]
    panels += [
        Panel(title=f"{what} {tag}", unit=unit, tags=(tag,))
        for what, unit, tag in others
    ]
    return PlantFacts(
        name="network",
        tags=network.tags,
        vocabulary=network.vocabulary,
        yardstick=network.yardstick(instruments.noise, instruments.quantum),
        unit="a sensor's own noise and rounding (standard deviation); a status by 1",
        panels=tuple(panels),
        picture_days=7,
    )


def opened_network(network: str | Path) -> tuple[Network, Instruments, Rows]:
    """Return a network, instruments that fit its flows, and a day without noise."""
    read = read_network(network)
    usual = nominal_days(read, 1)
    n_flows = len(read.flow_tags)
    flows = np.abs(usual[:, -2 * n_flows : len(read.tags) - n_flows]).max(axis=0)
    noise, quantum = read.instruments(flows.astype(np.float64))
    return read, Instruments(noise=noise, quantum=quantum), usual


def default_scenario(days: float = 46.0, *, network: str | Path = DEFAULT) -> Scenario:
    """Return the attacks that `simulate` plans for a network and a number of days.

    One begins every 30 hours: 36 in 46 days.
    """
    return planned_scenario(*opened_network(network)[::2], days)


def read_scenario(path: str | Path, *, network: str | Path = DEFAULT) -> Scenario:
    """Read attacks on a network from a ``.csv`` or ``.toml`` file.

    Raises
    ------
    FileError
        If the file cannot be read or an attack is impossible; the message names the
        line or the table.
    """
    return scenario_from(path, read_network(network).vocabulary)


def simulate(
    *,
    network: str | Path = DEFAULT,
    days_train: float | None = None,
    days_test: float | None = None,
    seed: int = 1,
    scenario: Scenario | None = None,
    quick: bool = False,
    recovery_labels: bool = True,
    progress: Progress | None = None,
) -> NetworkSimulation:
    """Simulate a water network: normal operation, then more with attacks.

    The same arguments give the same numbers, bit for bit. A row is five minutes.

    Parameters
    ----------
    network : str or path
        A network that `wntr` ships (``"Net3"``, ``"ky10"``), or an EPANET file.
    days_train, days_test : float, optional
        Days of plant time: 60 and 46 by default, 10 and 7 if quick.
    seed : int
        Seed of all random numbers, 0 or more.
    scenario : Scenario, optional
        The attacks; by default those that `planned_scenario` makes for the network.
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
        Recordings `train` and `test`, and the `truth` of each attack.

    Raises
    ------
    MissingExtraError
        If `wntr` is not installed; the message says how.
    FileError
        If the network cannot be read.
    StreamError
        If a number of days is not above 0, the seed is no whole number, or an attack
        does not fit the network or the run.

    Examples
    --------
    >>> made = simulate(days_train=1, days_test=2)  # doctest: +SKIP
    >>> made.test.n_steps  # doctest: +SKIP
    576
    """
    if not isinstance(network, str | Path):
        raise StreamError(f"`network` must be a name or a path; got {network!r}.")
    usual_days = QUICK_DAYS if quick else USUAL_DAYS
    length = RunLength.checked(days_train, days_test, usual_days, STEP_S, seed)
    read, instruments, usual = opened_network(network)
    days = length.n_test * STEP_S / DAY_S
    return simulate_plant(
        NetworkSimulation,
        facts_of(read, instruments),
        length,
        lambda: warmed_up(read, instruments, length.seed),
        scenario=scenario or planned_scenario(read, usual, days),
        source=f"network {read.name} seed {length.seed}",
        recovery_labels=recovery_labels,
        progress=progress,
        network=read,
    )
