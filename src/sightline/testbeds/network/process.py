"""A water network with its controllers, run row by row.

Hydraulics are EPANET's. The controls of the file act here, on what the sensors read, so
that a forged reading misleads them. Demands and sensors have noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from sightline.data.arrays import Floats
from sightline.testbeds.network.plant import STEP_S, Instruments, Network, When
from sightline.testbeds.twin.scenario import DAY_S, ActionKind, Rows
from sightline.testbeds.twin.simulation import Filling, NoiseSource, TwinPlant

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
