"""One second of the plant: control, attack, interlocks, physics, sensors. Compiled.

A step takes its random numbers as an argument and keeps nothing outside of the state,
so the same state and the same numbers give the same future, bit for bit.
`WaterworksPlant` runs steps from a state, over rows, with or without an attack.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numba import njit

from sightline.data.arrays import Floats
from sightline.testbeds.twin import scenario as f
from sightline.testbeds.twin.scenario import Action, ActionKind, PlannedAttack, Rows
from sightline.testbeds.twin.simulation import NoiseSource, TwinPlant
from sightline.testbeds.waterworks import plant as p
from sightline.testbeds.waterworks.controller import control
from sightline.testbeds.waterworks.physics import move, uf_resistance
from sightline.testbeds.waterworks.plant import WaterBalance, balance_of

# A valve takes 8 s from end to end: in eighths, so that it arrives exactly.
TRAVEL = 0.125
# A pump's speed goes 40 % of the way to its new value every second.
RUN_UP = 0.4
DOSING_FLOW, BISULPHITE_FLOW = 0.5, 0.3
NOISE, QUANTUM = p.by_column("noise"), p.by_column("quantum")
N_SENSORS = len(p.SENSOR_COLUMNS)
N_DRAWS = N_SENSORS + p.N_DISTURBANCES
WARM_UP_S, DAY_S = 43_200, 86_400
_NO_ACTIONS = np.zeros((0, 4))
_forged_value = njit(cache=True)(f.forged_value)


@njit(cache=True)
def _interlock(state: Any) -> None:
    """Cancel the commands that hard-wired interlocks do not allow.

    They act after the attacker: dosing needs flow, MV301 needs MV302 closed, P602 needs
    MV301 open, RO pumps and UV need a feed pump, P502 and P603 need the others off.
    """
    drive, command, flow = state.drive, state.command, state.flow
    if drive[p.MV302] != p.CLOSED:  # raw water must not meet backwash water
        command[p.MV301] = p.CLOSED
    if drive[p.MV301] != p.OPEN:
        command[p.P602] = p.OFF
    if flow[p.Q_TRANSFER] < DOSING_FLOW:
        command[p.P201 : p.P206 + 1] = p.OFF
    if flow[p.Q_FEED] < BISULPHITE_FLOW:
        command[p.P403 : p.P404 + 1] = p.OFF
    if drive[p.P401] != p.ON and drive[p.P402] != p.ON:
        command[p.P501 : p.P502 + 1] = p.OFF
        command[p.UV401] = p.OFF
    if drive[p.P501] == p.ON:
        command[p.P502] = p.OFF
    if drive[p.P501] == p.ON or drive[p.P502] == p.ON:
        command[p.P603] = p.OFF


@njit(cache=True)
def _travel(state: Any) -> None:
    """Move valves, and run pumps up or down.

    A valve moves by `TRAVEL` a second and shows `MOVING` in between. A pump is on or
    off at once, but its speed approaches the target by the share `RUN_UP` a second.
    """
    for valve in p.VALVE_COLUMNS:
        target = 1.0 if state.command[valve] == p.OPEN else 0.0
        gap = target - state.position[valve]
        state.position[valve] += min(max(gap, -TRAVEL), TRAVEL)
        position = state.position[valve]
        state.drive[valve] = (
            p.OPEN if position == 1.0 else p.CLOSED if position == 0.0 else p.MOVING
        )
    for pump in p.PUMP_COLUMNS:
        state.drive[pump] = state.command[pump]
        target = 1.0 if state.drive[pump] == p.ON else 0.0
        gap = target - state.position[pump]
        state.position[pump] = (
            target if abs(gap) < 1e-3 else state.position[pump] + RUN_UP * gap
        )


@njit(cache=True)
def _measure_ideally(state: Any, conditions: p.Conditions) -> None:
    """Set the true value of each sensor, as an ideal instrument would read it."""
    truth, flow, water = state.truth, state.flow, state.water
    truth[p.FIT101], truth[p.FIT201] = flow[p.Q_RAW], flow[p.Q_TRANSFER]
    truth[p.FIT301], truth[p.FIT601] = flow[p.Q_UF], flow[p.Q_BACKWASH]
    truth[p.FIT401] = truth[p.FIT501] = flow[p.Q_FEED]
    truth[p.FIT502], truth[p.FIT503] = flow[p.Q_PERMEATE], flow[p.Q_REJECT]
    truth[p.FIT504] = flow[p.Q_RECYCLE]
    truth[p.LIT101] = 1000.0 * state.volume[p.T101] / p.AREA_M2[p.T101]
    truth[p.LIT301] = 1000.0 * state.volume[p.T301] / p.AREA_M2[p.T301]
    truth[p.LIT401] = 1000.0 * state.volume[p.T401] / p.AREA_M2[p.T401]
    across = flow[p.Q_UF] + 0.6 * flow[p.Q_BACKWASH]
    truth[p.DPIT301] = 1.0 + uf_resistance(state, conditions) * across
    truth[p.AIT201] = water[p.DOSED, p.CONDUCTIVITY]
    truth[p.AIT202], truth[p.AIT203] = water[p.DOSED, p.PH], water[p.DOSED, p.ORP]
    truth[p.AIT401] = water[p.DECHLORINATED, p.HARDNESS]
    truth[p.AIT402] = water[p.DECHLORINATED, p.ORP]
    truth[p.AIT501], truth[p.AIT502] = water[p.PRESSED, p.PH], water[p.PRESSED, p.ORP]
    truth[p.AIT503] = water[p.PRESSED, p.CONDUCTIVITY]
    truth[p.AIT504] = state.permeate_conductivity
    truth[p.PIT501] = state.ro_pressure
    truth[p.PIT502] = 0.2 + 0.65 * flow[p.Q_PERMEATE] ** 2
    truth[p.PIT503] = state.ro_pressure - 20.0 * flow[p.Q_FEED] ** 2


@njit(cache=True)
def _measure(state: Any, conditions: p.Conditions, draws: Floats) -> None:
    """Set the reading of each tag.

    A sensor reads ``round(max(truth + bias + noise, 0) / quantum) * quantum``; an
    actuator reads its state.
    """
    _measure_ideally(state, conditions)
    for k in range(N_SENSORS):
        tag = p.SENSOR_COLUMNS[k]
        value = state.truth[tag] + conditions.bias[tag] + NOISE[tag] * draws[k]
        rounded = np.round(max(value, 0.0) / QUANTUM[tag]) * QUANTUM[tag]
        # Values are recorded in single precision, and the PLC reads the same values.
        state.reading[tag] = np.float32(rounded)
    for tag in p.VALVE_COLUMNS:
        state.reading[tag] = state.drive[tag]
    for tag in p.PUMP_COLUMNS:
        state.reading[tag] = state.drive[tag]


@njit(cache=True)
def _forge(
    state: Any, actions: Floats, recorded: Rows, row: int, attack_row: int
) -> None:
    """Replace readings by forged ones.

    Parameters
    ----------
    state : record
        The plant; its readings are changed.
    actions : array of shape (n_actions, 4)
        Kind, target, value and rate; set and setpoint are not readings.
    recorded : array of shape (n_rows, 51)
        The past, from which ramps and freezes start and replays are taken.
    row, attack_row : int
        The present row, and the first row of the attack.
    """
    for action in range(len(actions)):
        kind, tag = int(actions[action, 0]), int(actions[action, 1])
        if kind == f.SET or kind == f.SETPOINT:
            continue
        value = actions[action, 2]
        replayed = recorded[row - int(value), tag] if kind == f.REPLAY else 0.0
        forged = _forged_value(
            kind,
            state.reading[tag],
            value,
            actions[action, 3],
            row - attack_row + 1,
            recorded[attack_row - 1, tag],
            replayed,
            0.0,
        )
        state.reading[tag] = np.float32(forged)


@njit(cache=True)
def advance(
    states: p.State,
    conditions: p.Conditions,
    draws: Floats,
    actions: Floats,
    attack_row: int,
    row: int,
    recorded: Rows,
    unforged: Rows,
) -> None:
    """Run the plant for one second for each row of `draws`.

    Parameters
    ----------
    states : array of one record
        The plant, changed in place.
    conditions : Conditions
        What stays constant during the run.
    draws : array of shape (n_steps, N_DRAWS)
        Standard normal numbers: for each sensor, then for each disturbance.
    actions : array of shape (n_actions, 4)
        Kind, target, value and rate of each action of the attacker in these steps.
    attack_row : int
        The first row of the attack.
    row : int
        The first row of `recorded` to write.
    recorded : array of shape (n_rows, 51)
        Readings as the historian records them, forged ones included.
    unforged : array of shape (n_rows, 51), or (0, 51)
        Readings before any forging; not written if it has no rows.
    """
    state = states[0]
    setpoints = conditions.setpoints.copy()
    passing = np.zeros(4)
    for action in range(len(actions)):
        if int(actions[action, 0]) == f.SETPOINT:
            setpoints[int(actions[action, 1])] = actions[action, 2]
    for step in range(len(draws)):
        control(state, setpoints)
        for action in range(len(actions)):
            if int(actions[action, 0]) == f.SET:
                state.command[int(actions[action, 1])] = int(actions[action, 2])
        _interlock(state)
        _travel(state)
        move(state, conditions, draws[step, N_SENSORS:], passing)
        _measure(state, conditions, draws[step])
        at = row + step
        if len(unforged):
            for tag in range(p.N_TAGS):
                unforged[at, tag] = state.reading[tag]
        if len(actions):
            _forge(state, actions, recorded, at, attack_row)
        for tag in range(p.N_TAGS):
            recorded[at, tag] = state.reading[tag]
        state.clock += 1


def _action_row(action: Action) -> Floats:
    """Return kind, target, value and rate of an action as `advance` reads them."""
    is_setpoint = action.kind is ActionKind.SETPOINT
    index = p.SETPOINT_INDEX if is_setpoint else p.COLUMN
    # A ramp without a value has no limit; a bias without one begins at 0.
    absent = np.nan if action.kind is ActionKind.RAMP else 0.0
    value = absent if action.value is None else action.value
    return np.array([action.kind.code, index[action.tag], value, action.rate or 0])


class WaterworksPlant(TwinPlant):
    """A plant that can be run, stopped, and copied at any step.

    Parameters
    ----------
    seed : int
        Seed of all random numbers.
    state : State
        The state to start from; changed in place by `run`.
    conditions : Conditions
        What stays constant.
    """

    # Steps computed at a time; it does not change the result.
    chunk_steps = 21_600

    def __init__(self, seed: int, state: p.State, conditions: p.Conditions) -> None:
        self._seed = seed
        self._state = state
        self._conditions = conditions
        self._noise = NoiseSource(seed, N_DRAWS)
        self._opened = state["volume"][0].copy()

    @classmethod
    def warmed_up(cls, seed: int, conditions: p.Conditions) -> "WaterworksPlant":
        """Return a plant at midnight, `WARM_UP_S` seconds after its start."""
        runner = cls(seed, p.first_state(seed, DAY_S - WARM_UP_S), conditions)
        runner.run(p.empty_rows(WARM_UP_S))
        return runner

    def copy(self, conditions: p.Conditions | None = None) -> Self:
        """Return a plant in the same state that will see the same random numbers."""
        return type(self)(
            self._seed, self._state.copy(), conditions or self._conditions
        )

    def _fill(
        self,
        recorded: Rows,
        unforged: Rows | None,
        rows: range,
        attack: PlannedAttack | None,
        report: Callable[[int], None],
    ) -> None:
        """Run the plant over some rows."""
        unforged = p.empty_rows(0) if unforged is None else unforged
        actions = _NO_ACTIONS
        if attack is not None:
            actions = np.array(list(map(_action_row, attack.actions)))
        row = rows.start
        while row < rows.stop:
            steps = min(rows.stop - row, self.chunk_steps)
            draws = self._noise.upto(int(self._state["clock"][0]), steps)
            advance(
                self._state,
                self._conditions,
                draws,
                actions,
                rows.start,
                row,
                recorded,
                unforged,
            )
            row += len(draws)
            report(row)

    def open_account(self) -> None:
        """Start a new water account."""
        p.start_accounts(self._state)
        self._opened = self._state["volume"][0].copy()

    def close_account(self) -> WaterBalance:
        """Return the water account since `open_account`."""
        return balance_of(self._state, self._opened)
