"""Weeks of normal operation and weeks of attacks on a water network."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sightline.errors import StreamError
from sightline.progress import Progress, silent
from sightline.testbeds.network.plant import DEFAULT, STEP_S, Network, read_network
from sightline.testbeds.network.process import (
    Instruments,
    NetworkBalance,
    Runner,
    nominal_days,
    warmed_up,
)
from sightline.testbeds.network.scenario import planned_scenario
from sightline.testbeds.twin.scenario import DAY_S, Scenario
from sightline.testbeds.twin.scenario import read_scenario as read_any
from sightline.testbeds.twin.simulation import (
    Panel,
    check_seed,
    recordings_of,
    rows_of_days,
    run_days,
)
from sightline.testbeds.twin.simulation import Simulation as TwinSimulation

USUAL_DAYS, QUICK_DAYS = (60.0, 46.0), (10.0, 7.0)
# Panels of the picture: at most this many levels, pumps and pressures.
_LEVELS, _FLOWS, _PRESSURES = 2, 2, 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation(TwinSimulation):
    """Train, test, and what is known about test but not recorded.

    Parameters
    ----------
    train, test, true_values, truth, seed, scenario
        As for every simulated plant.
    network : Network
        What was run.
    train_water, test_water : NetworkBalance
        The water accounts of both.
    """

    network: Network
    train_water: NetworkBalance
    test_water: NetworkBalance

    @property
    def release(self) -> str:
        """The network and the seed, such as ``"Net3-seed1"``."""
        return f"{self.network.name}-seed{self.seed}"

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Levels with the limits of their controls, flows and a pressure."""
        network = self.network
        read = [c.tag for c in network.controls if c.tag in network.levels]
        levels = list(dict.fromkeys([*read, *network.levels]))[:_LEVELS]
        panels = [
            Panel(
                title=f"Level {tag}",
                unit="m",
                tags=(tag,),
                limits=_limits(network, tag),
            )
            for tag in levels
        ]
        others = [("Flow", "l/s", tag) for tag in network.flow_tags[:_FLOWS]]
        others += [("Pressure", "m", tag) for tag in network.pressure_tags[:_PRESSURES]]
        panels += [
            Panel(title=f"{what} {tag}", unit=unit, tags=(tag,), limits={})
            for what, unit, tag in others
        ]
        return tuple(panels)

    @property
    def picture_days(self) -> int:
        """A week."""
        return 7

    @property
    def unit(self) -> str:
        """The unit of an effect, in words."""
        return "a sensor's own noise and rounding (standard deviation); a status by 1"

    def options(self) -> dict[str, object]:
        """Return the network, for truth.json."""
        return {"network": self.network.name}

    def accounts(self) -> dict[str, object]:
        """Return the water accounts, for truth.json."""
        water = {"train": asdict(self.train_water), "test": asdict(self.test_water)}
        return {"water": water}


def _limits(network: Network, tag: str) -> dict[str, float]:
    """Return the limits of the controls of one level, by what they switch."""
    switched: dict[float, list[str]] = {}
    for control in network.controls:
        if control.tag == tag:
            switched.setdefault(control.limit, []).append(control.name.split(".")[1])
    return {"\n".join(names): limit for limit, names in switched.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Opened:
    """A network, its instruments, and a day of it without noise."""

    network: Network
    instruments: Instruments
    usual: np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def _opened(network: str | Path) -> _Opened:
    """Return a network with instruments that fit its flows."""
    read = read_network(network)
    usual = nominal_days(read, 1)
    n_flows = len(read.flow_tags)
    flows = np.abs(usual[:, -2 * n_flows : len(read.tags) - n_flows]).max(axis=0)
    noise, quantum = read.instruments(flows.astype(np.float64))
    return _Opened(
        network=read, instruments=Instruments(noise=noise, quantum=quantum), usual=usual
    )


def default_scenario(days: float = 46.0, *, network: str | Path = DEFAULT) -> Scenario:
    """Return the attacks that `simulate` plans for a network and a number of days.

    One begins every 30 hours: 36 in 46 days.
    """
    opened = _opened(network)
    return planned_scenario(opened.network, opened.usual, days)


def read_scenario(path: str | Path, *, network: str | Path = DEFAULT) -> Scenario:
    """Read attacks on a network from a ``.csv`` or ``.toml`` file.

    Raises
    ------
    FileError
        If the file cannot be read or an attack is impossible; the message names the
        line or the table.
    """
    return read_any(path, read_network(network).vocabulary)


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
) -> Simulation:
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
    days = QUICK_DAYS if quick else USUAL_DAYS
    wanted = {"days_train": days_train, "days_test": days_test}
    n_train, n_test = (
        rows_of_days(default if given is None else given, name, STEP_S)
        for (name, given), default in zip(wanted.items(), days, strict=True)
    )
    seed = check_seed(seed)
    opened = _opened(network)
    if scenario is None:
        scenario = planned_scenario(
            opened.network, opened.usual, n_test * STEP_S / DAY_S
        )
    opened.network.vocabulary.check_scenario(scenario, n_test * STEP_S)
    return _run(opened, (n_train, n_test), seed, scenario, recovery_labels, progress)


def _run(
    opened: _Opened,
    n_rows: tuple[int, int],
    seed: int,
    scenario: Scenario,
    recovery_labels: bool,
    progress: Progress | None,
) -> Simulation:
    """Run train, test and twins of an opened network."""
    read, instruments = opened.network, opened.instruments
    plant = warmed_up(read, instruments, seed)
    plant.open_account()
    accounts = []

    def between(trained: Runner) -> Runner:
        accounts.append(trained.close_account())
        trained.open_account()
        return trained

    by = read.yardstick(instruments.noise, instruments.quantum)
    days = run_days(plant, n_rows, scenario, by, progress or silent, between)
    source = f"network {read.name} seed {seed}"
    train, test = recordings_of(
        days, read.tags, scenario, STEP_S, source, recovery_labels
    )
    return Simulation(
        name="network",
        train=train,
        test=test,
        true_values=days.true_values,
        truth=days.truth,
        seed=seed,
        scenario=scenario,
        network=read,
        train_water=accounts[0],
        test_water=plant.close_account(),
        _before_test=days.before_test,
    )
