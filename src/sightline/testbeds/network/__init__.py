"""Network: a water network with twin truth, by EPANET and the package `wntr`.

`simulate` runs any EPANET file; `write_simulation` writes a run to disk.
docs/network.md describes control, noise, attacks, and what is published and what is
ours. It needs the extra ``water``.
`plant` reads a network from a file (tags, instruments, controls,
demands) and takes one step by EPANET's toolkit.

Attacks for any network are twelve templates, each on one target after another. They
depend on the network alone, not on the seed. One begins every 30 hours, so that they
meet all times of the day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from sightline.data.arrays import Floats
from sightline.errors import StreamError
from sightline.progress import Progress
from sightline.testbeds.network.plant import (
    DEFAULT,
    STEP_S,
    Instruments,
    Network,
    When,
    read_network,
)
from sightline.testbeds.twin.folder_writer import write_simulation
from sightline.testbeds.twin.scenario import (
    DAY_S,
    Action,
    ActionKind,
    PlannedAttack,
    Rows,
    Scenario,
    scenario_from,
)
from sightline.testbeds.twin.simulation import (
    AttackTruth,
    Filling,
    NoiseSource,
    Panel,
    PlantFacts,
    Simulation,
    TwinPlant,
    simulate_plant,
)

HOUR_S = 3600
FIRST_S, EVERY_S = 30 * HOUR_S, 30 * HOUR_S
# How far a forged level or limit lies beyond the limits of the controls, in metres.
BEYOND_M = 0.3
# Hours and note of each template; `_actions` has what is done.
TEMPLATES = (
    (4, "pump or valve held in the other state"),
    (6, "level forged below its limits; aim: a tank that overflows"),
    (8, "pressure reads 2 m too much"),
    (2, "a command that repeats the usual state; nothing should move"),
    (12, "level frozen"),
    (6, "flow reads 10 % too little; no control reads it"),
    (10, "pump or valve held closed behind a replayed level"),
    (12, "limit that switches at a low level raised"),
    (3, "a command that repeats the usual state; nothing should move"),
    (12, "level biased by 0.1 m an hour; stealthy"),
    (8, "pressure frozen"),
    (6, "level raised slowly, and the limit at a high level lowered"),
)


class Targets:
    """The tags of one network that the templates act on, in turn.

    Parameters
    ----------
    network : Network
        The network.
    usual : array of shape (n_rows, n_tags)
        Days of it without noise, from midnight.
    """

    def __init__(self, network: Network, usual: Rows) -> None:
        self.network = network
        names = [tag.name for tag in network.tags]
        self.usual = {name: usual[:, k] for k, name in enumerate(names)}
        read = {c.tag: None for c in network.controls if c.tag}
        # Levels that control something come first; a network may have none.
        self.levels = [*read, *(tag for tag in network.levels if tag not in read)]
        self.read = list(read) or list(network.levels)
        busy = [tag for tag in network.flow_tags if np.ptp(self.usual[tag]) > 0]
        self.flows = busy or list(network.flow_tags)
        self.running = [f"S_{tag[2:]}" for tag in self.flows]
        self.pressures = list(network.pressure_tags)

    def limits(self, tag: str) -> tuple[float, float]:
        """Return the lowest and highest limit at which a level switches anything."""
        limits = [c.limit for c in self.network.controls if c.tag == tag]
        limits = limits or self.usual[tag].tolist()
        return min(limits), max(limits)

    def moved_limit(self, turn: int, when: When, by: float) -> Action | None:
        """Return a change of a limit by some metres; None if no control has one.

        `when` says whether the control waits for too little or too much.
        """
        limits = [c for c in self.network.controls if c.name and c.when is when]
        if not limits:
            return None
        control = limits[turn % len(limits)]
        value = round(control.limit + by, 3)
        return Action(tag=control.name, kind=ActionKind.SETPOINT, value=value)

    def steady(self, start_s: int, duration_s: int, turn: int) -> Action | None:
        """Return a command that repeats what an actuator usually does at that time."""
        first, length = start_s % DAY_S // STEP_S, duration_s // STEP_S
        commands = []
        for tag in self.network.status_tags:
            states = np.take(self.usual[tag], range(first, first + length), mode="wrap")
            if len(set(states.tolist())) == 1:
                value = float(states[0])
                commands.append(Action(tag=tag, kind=ActionKind.SET, value=value))
        return commands[turn % len(commands)] if commands else None


def _pick(tags: list[str], turn: int) -> str:
    """Return one tag after the other, from the beginning again at the end."""
    return tags[turn % len(tags)]


def _actions(
    targets: Targets, start_s: int, turn: int
) -> tuple[list[Action | None], ...]:
    """Return the actions of each of `TEMPLATES`; None is an action too few.

    Parameters
    ----------
    targets : Targets
        What there is to act on.
    start_s : int
        When the attack begins.
    turn : int
        How often the templates were used before: the next targets are taken.
    """
    read, pump = _pick(targets.read, turn), _pick(targets.running, turn)
    low, high = targets.limits(read)
    level = _pick(targets.levels, turn)
    pressure = _pick(targets.pressures, 3 * turn)
    flow = _pick(targets.flows, turn + 1)
    is_on = bool(targets.usual[pump][start_s % DAY_S // STEP_S])
    lower, higher = round(low - BEYOND_M, 3), high + 0.3

    def act(
        tag: str, kind: str, value: float | None = None, rate: float | None = None
    ) -> Action:
        return Action(tag=tag, kind=ActionKind(kind), value=value, rate=rate)

    return (
        [act(pump, "set", float(not is_on))],
        [act(read, "constant", lower)],
        [act(pressure, "bias", 2.0)],
        [targets.steady(start_s, 2 * HOUR_S, turn)],
        [act(level, "freeze")],
        [act(flow, "gain", 0.9)],
        [act(read, "replay", 24 * HOUR_S), act(pump, "set", 0.0)],
        [targets.moved_limit(turn, When.BELOW, BEYOND_M)],
        [targets.steady(start_s, 3 * HOUR_S, turn + 1)],
        [act(level, "bias", rate=0.1 / HOUR_S)],
        [act(pressure, "freeze")],
        [
            act(read, "ramp", higher, 0.2 / HOUR_S),
            targets.moved_limit(turn, When.ABOVE, -BEYOND_M),
        ],
    )


def planned_scenario(network: Network, usual: Rows, days: float) -> Scenario:
    """Return attacks on a network that fit into a number of days.

    Parameters
    ----------
    network : Network
        The network.
    usual : array of shape (n_rows, n_tags)
        Days of it without noise, from midnight.
    days : float
        Days of test; each 30 hours have an attack.
    """
    targets = Targets(network, usual)
    attacks = []
    for number in range(int(days * DAY_S // EVERY_S)):
        start_s = FIRST_S + number * EVERY_S
        turn, template = divmod(number, len(TEMPLATES))
        hours, note = TEMPLATES[template]
        actions = _actions(targets, start_s, turn)[template]
        possible = tuple(action for action in actions if action is not None)
        if possible:
            attacks.append(
                PlannedAttack(
                    id=str(number + 1),
                    start_s=start_s,
                    duration_s=hours * HOUR_S,
                    actions=possible,
                    note=note,
                )
            )
    return Scenario(attacks=tuple(attacks)).within(round(days * DAY_S))


__all__ = [
    "Action",
    "AttackTruth",
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
        yardstick=network.yardstick(instruments),
        unit="a sensor's own noise and rounding (standard deviation); a status by 1",
        panels=tuple(panels),
        picture_days=7,
    )


def opened_network(network: str | Path) -> tuple[Network, Instruments, Rows]:
    """Return a network, instruments that fit its flows, and a day without noise."""
    read = read_network(network)
    usual = nominal_day(read)
    n_flows = len(read.flow_tags)
    flows = np.abs(usual[:, -2 * n_flows : len(read.tags) - n_flows]).max(axis=0)
    return read, read.instruments(flows.astype(np.float64)), usual


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
        Label rows in which the plant recovers from an attack -1
        (`twin.simulation.recovery_s`); if False, they are labelled 0 like all other
        rows outside of attacks.
    progress : callable, optional
        Takes a `Step` for each part of train and test.

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
    read, instruments, usual = opened_network(network)
    return simulate_plant(
        NetworkSimulation,
        facts_of(read, instruments),
        lambda seed: warmed_up(read, instruments, seed),
        days=(days_train, days_test),
        usual_days=QUICK_DAYS if quick else USUAL_DAYS,
        seed=seed,
        scenario=scenario,
        planned=lambda days: planned_scenario(read, usual, days),
        source=f"network {read.name} seed {seed}",
        recovery_labels=recovery_labels,
        progress=progress,
        network=read,
    )


# Demand differs from the file's pattern by a factor that all consumers share and one of
# each consumer: standard deviation of its logarithm, and seconds it remembers.
SHARED_SPREAD, SHARED_MEMORY_S = 0.05, 10_800.0
OWN_SPREAD, OWN_MEMORY_S = 0.10, 3_600.0
WARM_UP_DAYS = 2


@dataclass(kw_only=True, eq=False)
class NetworkState:
    """Everything that a step depends on.

    Parameters
    ----------
    step : int
        Steps since midnight of the first day, which is before train.
    levels : array of shape (n_tanks,)
        True levels, m.
    status : array of shape (n_actuators,)
        What the controllers command: 0 closed, 1 open.
    setting : list
        Speed or setting of each actuator; None for plainly open.
    demand : array of shape (1 + n_junctions,)
        The disturbance of demand, shared and of each consumer, unit variance.
    reading : array of shape (n_tags,)
        What was recorded last.
    volume, supplied, delivered : float
        For the water account, m3.
    """

    step: int
    levels: Floats
    status: Floats
    setting: list[float | None]
    demand: Floats
    reading: Floats
    volume: float = 0.0
    supplied: float = 0.0
    delivered: float = 0.0

    def copy(self) -> NetworkState:
        """Return an independent copy."""
        changed = {
            name: value.copy() if hasattr(value, "copy") else value
            for name, value in vars(self).items()
        }
        return NetworkState(**changed)


@dataclass(kw_only=True, eq=False)
class NetworkPlant(TwinPlant):
    """A network that can be run, stopped, and copied at any row.

    Parameters
    ----------
    network : Network
        What is run. A copy shares it.
    instruments : Instruments
        The errors of its sensors.
    seed : int or None
        Seed of all random numbers; without one nothing is disturbed.
    state : NetworkState
        Where it is.
    """

    network: Network
    instruments: Instruments
    seed: int | None
    state: NetworkState
    _noise: NoiseSource = field(init=False)

    def __post_init__(self) -> None:
        """Open the source of random numbers: demand first, then sensors."""
        n_draws = len(self.state.demand) + len(self.network.tags)
        self._noise = NoiseSource(self.seed or 0, n_draws)

    @property
    def clock_s(self) -> int:
        """Seconds since midnight of the first day."""
        return self.state.step * STEP_S

    def copy(self) -> Self:
        """Return a plant in the same state that will see the same random numbers."""
        return type(self)(
            network=self.network,
            instruments=self.instruments,
            seed=self.seed,
            state=self.state.copy(),
        )

    def fill(self, to_fill: Filling) -> None:
        """Run the plant over some rows."""
        limits = to_fill.values(ActionKind.SETPOINT)
        commanded = to_fill.values(ActionKind.SET)
        recorded, rows = to_fill.recorded, to_fill.rows
        for row in rows:
            self._control(limits)
            measured = self._step(commanded)
            reading = measured.copy()
            to_fill.forge(
                reading,
                self.network.vocabulary.sensors,
                row=row,
                elapsed_s=(row - rows.start + 1) * STEP_S,
                step_s=STEP_S,
                lowest=-np.inf,
            )
            recorded[row] = reading
            # Controllers read what is recorded.
            self.state.reading = recorded[row].astype(np.float64)
            if to_fill.unforged is not None:
                to_fill.unforged[row] = measured
            if row % 500 == 499:
                to_fill.report(row + 1)

    def _control(self, limits: Mapping[str, float]) -> None:
        """Let the controls of the file act, in its order, on what was read last.

        An attacker may have changed the limits of some.
        """
        network, state = self.network, self.state
        tags = (tag.name for tag in network.tags)
        readings = dict(zip(tags, state.reading.tolist(), strict=True))
        for control in network.controls:
            limit = limits.get(control.name, control.limit)
            if control.when is When.BELOW:
                is_due = readings[control.tag] <= limit
            elif control.when is When.ABOVE:
                is_due = readings[control.tag] >= limit
            else:
                by_day = control.when is When.TIME_OF_DAY
                clock_s = self.clock_s % (DAY_S if by_day else network.timer_period_s)
                is_due = clock_s <= limit < clock_s + STEP_S
            if is_due:
                state.status[control.link] = control.status
                if control.setting is not None:
                    state.setting[control.link] = control.setting

    def _step(self, commanded: Mapping[str, float]) -> Floats:
        """Solve and measure once; return the readings before any forging.

        Every actuator is commanded; the attacker's command replaces the controller's.
        """
        state, network = self.state, self.network
        status = state.status.copy()
        for tag, value in commanded.items():
            status[network.status_tags.index(tag)] = value
        for k, link in enumerate(network.actuators):
            network.hydraulics.command(link, float(status[k]), state.setting[k])
        draws = np.zeros(len(state.demand) + len(network.tags))
        if self.seed is not None:
            draws = self._noise.upto(state.step, 1)[0]
        solved = network.hydraulics.solve(
            self.clock_s,
            state.levels,
            self._demands(draws[: len(state.demand)]),
            network.pressures,
            network.actuators,
        )
        state.levels = solved.level
        state.volume = float(solved.volume.sum())
        state.supplied += solved.supplied_m3
        state.delivered += solved.delivered_m3
        state.step += 1
        real = np.concatenate(
            [solved.level, solved.pressure, solved.flow, solved.status]
        )
        # With noise, rounded to the steps of the instruments.
        noise, quantum = self.instruments
        read = real + noise * draws[len(state.demand) :]
        steps = np.where(quantum > 0, quantum, 1.0)
        return np.where(quantum > 0, np.round(read / steps) * steps, real)

    def _demands(self, draws: Floats) -> Floats:
        """Return what consumers want now, litres a second, and move the disturbance."""
        network, state = self.network, self.state
        row = self.clock_s // network.demand_step_s % len(network.demands)
        memory = np.full(len(draws), np.exp(-STEP_S / OWN_MEMORY_S))
        memory[0] = np.exp(-STEP_S / SHARED_MEMORY_S)
        state.demand = memory * state.demand + np.sqrt(1.0 - memory**2) * draws
        if self.seed is None:
            return np.asarray(network.demands[row])
        spread = SHARED_SPREAD * state.demand[0] + OWN_SPREAD * state.demand[1:]
        factor = np.exp(spread - 0.5 * (SHARED_SPREAD**2 + OWN_SPREAD**2))
        return np.asarray(network.demands[row] * factor)


def warmed_up(
    network: Network, instruments: Instruments, seed: int | None
) -> NetworkPlant:
    """Return a network at midnight, `WARM_UP_DAYS` days after its start.

    It starts in the state that the file begins with.
    """
    first = [network.hydraulics.first_state(link) for link in network.actuators]
    controlled = {control.link for control in network.controls}
    state = NetworkState(
        step=0,
        levels=network.hydraulics.first_levels(),
        status=np.array([status for status, _ in first]),
        # A valve that no control opens keeps the setting of the file.
        setting=[
            None if k in controlled or not setting else setting
            for k, (_, setting) in enumerate(first)
        ],
        demand=np.zeros(1 + len(network.hydraulics.junctions)),
        reading=np.zeros(len(network.tags)),
    )
    state.reading[: len(state.levels)] = state.levels
    plant = NetworkPlant(
        network=network, instruments=instruments, seed=seed, state=state
    )
    plant.run(np.empty((WARM_UP_DAYS * DAY_S // STEP_S, len(network.tags)), np.float32))
    return plant


def nominal_day(network: Network) -> Rows:
    """Return a day without any noise from midnight, as rows."""
    exact = Instruments(*np.zeros((2, len(network.tags))))
    rows = np.empty((DAY_S // STEP_S, len(network.tags)), np.float32)
    warmed_up(network, exact, None).run(rows)
    return rows
