"""The plant's second: control, attack, interlocks, travel, physics, sensors. Compiled.

A step takes its random numbers as an argument and keeps nothing outside of the state,
so that the same state and the same numbers give the same future, bit for bit.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sightline.data.arrays import Floats
from sightline.testbeds.waterworks.controller import control
from sightline.testbeds.waterworks.drift import Conditions
from sightline.testbeds.waterworks.physics import move, uf_resistance
from sightline.testbeds.waterworks.plant import (
    AIT201,
    AIT202,
    AIT203,
    AIT401,
    AIT402,
    AIT501,
    AIT502,
    AIT503,
    AIT504,
    AREA_M2,
    CLOSED,
    DPIT301,
    FIT101,
    FIT201,
    FIT301,
    FIT401,
    FIT501,
    FIT502,
    FIT503,
    FIT504,
    FIT601,
    LIT101,
    LIT301,
    LIT401,
    MOVING,
    MV301,
    MV302,
    N_TAGS,
    OFF,
    ON,
    OPEN,
    P201,
    P206,
    P401,
    P402,
    P403,
    P404,
    P501,
    P502,
    P602,
    P603,
    PIT501,
    PIT502,
    PIT503,
    PUMP_COLUMNS,
    SENSOR_COLUMNS,
    T101,
    T301,
    T401,
    UV401,
    VALVE_COLUMNS,
    noise_by_column,
    quantum_by_column,
)
from sightline.testbeds.waterworks.scenario import (
    BIAS,
    CONSTANT,
    FREEZE,
    RAMP,
    REPLAY,
    SET,
    SETPOINT,
)
from sightline.testbeds.waterworks.state import (
    CONDUCTIVITY,
    DECHLORINATED,
    DOSED,
    HARDNESS,
    N_DISTURBANCES,
    ORP,
    PH,
    PRESSED,
    Q_BACKWASH,
    Q_FEED,
    Q_PERMEATE,
    Q_RAW,
    Q_RECYCLE,
    Q_REJECT,
    Q_TRANSFER,
    Q_UF,
    State,
)

Rows = npt.NDArray[np.float32]

# A valve takes 8 s from end to end: in eighths, so that it arrives exactly.
TRAVEL = 0.125
# A pump's speed goes 40 % of the way to its new value every second.
RUN_UP = 0.4
DOSING_FLOW, BISULPHITE_FLOW = 0.5, 0.3
NOISE, QUANTUM = noise_by_column(), quantum_by_column()
N_SENSORS = len(SENSOR_COLUMNS)
N_DRAWS = N_SENSORS + N_DISTURBANCES


@njit(cache=True)
def _interlock(state: Any) -> None:
    """Take back commands that hard-wired interlocks do not let pass."""
    drive, command, flow = state.drive, state.command, state.flow
    if drive[MV302] != CLOSED:  # raw water must not meet backwash water
        command[MV301] = CLOSED
    if drive[MV301] != OPEN:
        command[P602] = OFF
    if flow[Q_TRANSFER] < DOSING_FLOW:
        command[P201 : P206 + 1] = OFF
    if flow[Q_FEED] < BISULPHITE_FLOW:
        command[P403 : P404 + 1] = OFF
    if drive[P401] != ON and drive[P402] != ON:
        command[P501 : P502 + 1] = OFF
        command[UV401] = OFF
    if drive[P501] == ON:
        command[P502] = OFF
    if drive[P501] == ON or drive[P502] == ON:
        command[P603] = OFF


@njit(cache=True)
def _travel(state: Any) -> None:
    """Let valves move and pumps run up or down."""
    for valve in VALVE_COLUMNS:
        target = 1.0 if state.command[valve] == OPEN else 0.0
        gap = target - state.position[valve]
        state.position[valve] += min(max(gap, -TRAVEL), TRAVEL)
        where = state.position[valve]
        state.drive[valve] = (
            OPEN if where == 1.0 else CLOSED if where == 0.0 else MOVING
        )
    for pump in PUMP_COLUMNS:
        state.drive[pump] = state.command[pump]
        target = 1.0 if state.drive[pump] == ON else 0.0
        gap = target - state.position[pump]
        state.position[pump] = (
            target if abs(gap) < 1e-3 else state.position[pump] + RUN_UP * gap
        )


@njit(cache=True)
def _see(state: Any, conditions: Conditions) -> None:
    """Write what ideal instruments would read."""
    truth, flow, water = state.truth, state.flow, state.water
    truth[FIT101], truth[FIT201] = flow[Q_RAW], flow[Q_TRANSFER]
    truth[FIT301], truth[FIT601] = flow[Q_UF], flow[Q_BACKWASH]
    truth[FIT401] = truth[FIT501] = flow[Q_FEED]
    truth[FIT502], truth[FIT503] = flow[Q_PERMEATE], flow[Q_REJECT]
    truth[FIT504] = flow[Q_RECYCLE]
    truth[LIT101] = 1000.0 * state.volume[T101] / AREA_M2[T101]
    truth[LIT301] = 1000.0 * state.volume[T301] / AREA_M2[T301]
    truth[LIT401] = 1000.0 * state.volume[T401] / AREA_M2[T401]
    across = flow[Q_UF] + 0.6 * flow[Q_BACKWASH]
    truth[DPIT301] = 1.0 + uf_resistance(state, conditions) * across
    truth[AIT201] = water[DOSED, CONDUCTIVITY]
    truth[AIT202], truth[AIT203] = water[DOSED, PH], water[DOSED, ORP]
    truth[AIT401] = water[DECHLORINATED, HARDNESS]
    truth[AIT402] = water[DECHLORINATED, ORP]
    truth[AIT501], truth[AIT502] = water[PRESSED, PH], water[PRESSED, ORP]
    truth[AIT503] = water[PRESSED, CONDUCTIVITY]
    truth[AIT504] = state.permeate_conductivity
    truth[PIT501] = state.ro_pressure
    truth[PIT502] = 0.2 + 0.65 * flow[Q_PERMEATE] ** 2
    truth[PIT503] = state.ro_pressure - 20.0 * flow[Q_FEED] ** 2


@njit(cache=True)
def _measure(state: Any, conditions: Conditions, draws: Floats) -> None:
    """Read every instrument: bias, noise, rounding; nothing reads below zero."""
    _see(state, conditions)
    for k in range(N_SENSORS):
        tag = SENSOR_COLUMNS[k]
        value = state.truth[tag] + conditions.bias[tag] + NOISE[tag] * draws[k]
        rounded = np.round(max(value, 0.0) / QUANTUM[tag]) * QUANTUM[tag]
        # What is recorded has single precision, and the PLC reads what is recorded.
        state.reading[tag] = np.float32(rounded)
    for tag in VALVE_COLUMNS:
        state.reading[tag] = state.drive[tag]
    for tag in PUMP_COLUMNS:
        state.reading[tag] = state.drive[tag]


@njit(cache=True)
def _forge(
    state: Any, actions: Floats, recorded: Rows, row: int, attack_row: int
) -> None:
    """Replace readings by the attacker's; `recorded` holds the rows before."""
    for action in range(len(actions)):
        kind, tag = int(actions[action, 0]), int(actions[action, 1])
        if kind == SET or kind == SETPOINT:
            continue
        value, rate = actions[action, 2], actions[action, 3]
        forged = state.reading[tag]
        if kind == CONSTANT:
            forged = value
        elif kind == RAMP:
            forged = recorded[attack_row - 1, tag] + rate * (row - attack_row + 1)
            # Without a limit the value is nan, and no comparison with it holds.
            if (rate > 0 and forged > value) or (rate < 0 and forged < value):
                forged = value
            forged = max(forged, 0.0)
        elif kind == REPLAY:
            forged = recorded[row - int(value), tag]
        elif kind == FREEZE:
            forged = recorded[attack_row - 1, tag]
        elif kind == BIAS:
            forged = max(forged + value + rate * (row - attack_row + 1), 0.0)
        state.reading[tag] = np.float32(forged)


@njit(cache=True)
def advance(
    states: State,
    conditions: Conditions,
    draws: Floats,
    actions: Floats,
    attack_row: int,
    row: int,
    recorded: Rows,
    unforged: Rows,
) -> None:
    """Run the plant for as many seconds as there are draws.

    Parameters
    ----------
    states : array of one record
        The plant, changed in place.
    conditions : Conditions
        What stays as it is.
    draws : array of shape (n_steps, N_DRAWS)
        Standard normal numbers: for each sensor, then for each disturbance.
    actions : array of shape (n_actions, 4)
        Kind, target, value and rate of what the attacker does in these steps.
    attack_row : int
        The row at which the attack began.
    row : int
        Where in `recorded` to begin writing.
    recorded : array of shape (n_rows, 51)
        What the historian keeps: forged readings where there are some.
    unforged : array of shape (n_rows, 51), or (0, 51)
        What sensors read before any forging; left alone if it has no rows.
    """
    state = states[0]
    setpoints = conditions.setpoints.copy()
    passing = np.zeros(4)
    for action in range(len(actions)):
        if int(actions[action, 0]) == SETPOINT:
            setpoints[int(actions[action, 1])] = actions[action, 2]
    for step in range(len(draws)):
        control(state, setpoints)
        for action in range(len(actions)):
            if int(actions[action, 0]) == SET:
                state.command[int(actions[action, 1])] = int(actions[action, 2])
        _interlock(state)
        _travel(state)
        move(state, conditions, draws[step, N_SENSORS:], passing)
        _measure(state, conditions, draws[step])
        here = row + step
        if len(unforged):
            for tag in range(N_TAGS):
                unforged[here, tag] = state.reading[tag]
        if len(actions):
            _forge(state, actions, recorded, here, attack_row)
        for tag in range(N_TAGS):
            recorded[here, tag] = state.reading[tag]
        state.clock += 1
