"""One second of the plant: control, attack, interlocks, physics, sensors. Compiled.

The PLCs see readings (which an attacker may have forged) and the real states of
actuators. Hard-wired interlocks act after them, and neither PLC nor attacker can
override those. docs/waterworks.md lists the rules with their set-points.

Levels, dosing and the return of surplus water are controlled by hysteresis: a flag is
set on one side of a band, reset on the other, and kept in between. Each duty pump has a
standby that starts when the duty pump does not run.

A step takes its random numbers as an argument and keeps nothing outside of the state,
so the same state and the same numbers give the same future, bit for bit.
`WaterworksPlant` runs steps from a state, over rows, with or without an attack.
"""

from typing import Any, Self

import numpy as np
from numba import njit

from sightline.data.arrays import Floats
from sightline.testbeds.twin import scenario as f
from sightline.testbeds.twin.scenario import Rows
from sightline.testbeds.twin.simulation import Filling, NoiseSource, TwinPlant
from sightline.testbeds.waterworks import plant as p
from sightline.testbeds.waterworks.physics import move, uf_resistance

# A valve takes 8 s from end to end: in eighths, so that it arrives exactly.
TRAVEL = 0.125
# A pump's speed goes 40 % of the way to its new value every second.
RUN_UP = 0.4
DOSING_FLOW, BISULPHITE_FLOW = 0.5, 0.3
N_SENSORS = len(p.SENSOR_COLUMNS)
N_DRAWS = N_SENSORS + p.N_DISTURBANCES
WARM_UP_S, DAY_S = 43_200, 86_400
STANDBY_AFTER_S = 5
# A tank that was too low to pump from must first rise by this much.
RELEASE_MM = 200.0
BACKWASH_S, DRAIN_S = 45, 20
# A sequence that hangs, because a valve does not move, is aborted.
PHASE_LIMIT_S = 120
TRIP_AFTER_S, RESTART_AFTER_S = 15, 60
HIGH_ORP_S, HIGH_SALT_S, HIGH_DP_S = 120, 60, 5
# The RO pump's speed follows the permeate tank, between these.
SLOWEST, FASTEST = 0.8, 1.15
PERMEATE_TARGET_M3, SPEED_PER_M3 = 1.4, 0.25
RETURN_START_M3, RETURN_STOP_M3 = 2.2, 1.9
_forged_value = njit(cache=True)(f.forged_value)


@njit(cache=True)
def _latched(
    state: Any, latch: p.Index, reading: float, low: float, high: float
) -> bool:
    """Return a flag with hysteresis: set below `low`, reset above `high`.

    Parameters
    ----------
    state : record
        The plant; the flag is kept in ``state.latch[latch]``.
    latch : int
        Which flag.
    reading, low, high : float
        The reading and its band; negate all three to set the flag above the band.
    """
    if reading < low:
        state.latch[latch] = 1
    elif reading > high:
        state.latch[latch] = 0
    return state.latch[latch] == 1  # type: ignore[no-any-return]


@njit(cache=True)
def _is_low(state: Any, latch: p.Index, level: float, limit: float) -> bool:
    """Return whether a tank is too low to pump from, with hysteresis."""
    return _latched(state, latch, level, limit, limit + RELEASE_MM)


@njit(cache=True)
def _held(state: Any, timer: p.Index, is_so: bool) -> int:
    """Count and return for how many seconds a condition has held.

    The timer restarts at 0 when the condition is False.
    """
    state.timer[timer] = state.timer[timer] + 1 if is_so else 0
    return state.timer[timer]  # type: ignore[no-any-return]


@njit(cache=True)
def _run_pair(
    state: Any, is_wanted: bool, duty: p.Index, standby: p.Index, timer: p.Index
) -> None:
    """Command the duty pump, and its standby if the duty pump does not start.

    The standby starts when the duty pump has not run for more than `STANDBY_AFTER_S`
    seconds although it is wanted.
    """
    state.command[duty] = p.ON if is_wanted else p.OFF
    waited = _held(state, timer, is_wanted and state.drive[duty] != p.ON)
    state.command[standby] = p.ON if waited > STANDBY_AFTER_S else p.OFF


@njit(cache=True)
def _run_raw_water(state: Any, setpoint: Floats) -> None:
    """P1 and P2: fill T101 by MV101, feed T301 through MV201 by P101, and dose.

    MV101 closes above HH. The transfer stops when T101 is too low or T301 above HH; the
    pump starts only when MV201 is fully open. Salt, acid and chlorine are dosed by
    hysteresis while water flows.
    """
    reading = state.reading
    level, target = reading[p.LIT101], reading[p.LIT301]
    fill = _latched(state, p.INLET, level, setpoint[p.LIT101_L], setpoint[p.LIT101_H])
    is_high = level > setpoint[p.LIT101_HH]
    state.command[p.MV101] = p.OPEN if fill and not is_high else p.CLOSED
    wanted = _latched(
        state, p.TRANSFER, target, setpoint[p.LIT301_L], setpoint[p.LIT301_H]
    )
    is_dry = _is_low(state, p.T101_LOW, level, setpoint[p.LIT101_LL])
    wanted = wanted and not is_dry and target <= setpoint[p.LIT301_HH]
    state.command[p.MV201] = p.OPEN if wanted else p.CLOSED
    may_pump = wanted and state.drive[p.MV201] == p.OPEN
    _run_pair(state, may_pump, p.P101, p.P102, p.WAIT_P101)
    flows = reading[p.FIT201] > setpoint[p.FIT201_L]
    salt = _latched(
        state, p.SALT, reading[p.AIT201], setpoint[p.AIT201_L], setpoint[p.AIT201_H]
    )
    # Acid lowers the pH, so its hysteresis is that of the negative pH.
    acid = _latched(
        state, p.ACID, -reading[p.AIT202], -setpoint[p.AIT202_H], -setpoint[p.AIT202_L]
    )
    chlorine = _latched(
        state, p.CHLORINE, reading[p.AIT203], setpoint[p.AIT203_L], setpoint[p.AIT203_H]
    )
    _run_pair(state, flows and salt, p.P201, p.P202, p.WAIT_P201)
    _run_pair(state, flows and acid, p.P203, p.P204, p.WAIT_P203)
    _run_pair(state, flows and chlorine, p.P205, p.P206, p.WAIT_P205)


@njit(cache=True)
def _enter(state: Any, phase: p.Index) -> None:
    """Start a phase of the ultrafiltration sequence."""
    state.uf_phase = phase
    state.timer[p.UF_PHASE_S] = 0


@njit(cache=True)
def _next_phase(state: Any, setpoint: Floats, may_filter: bool) -> None:
    """Advance the ultrafiltration sequence: filter, stop, backwash, drain, rest.

    A backwash is due after the set time of filtration, or when the differential
    pressure was too high for more than `HIGH_DP_S` seconds. It starts when MV302 is
    closed and lasts `BACKWASH_S`. A phase that hangs is aborted after `PHASE_LIMIT_S`.
    """
    state.timer[p.UF_PHASE_S] += 1
    since = state.timer[p.UF_PHASE_S]
    phase = state.uf_phase
    is_clogged = state.reading[p.DPIT301] > setpoint[p.DPIT301_H]
    clogged_s = _held(state, p.HIGH_DP, phase == p.FILTER and is_clogged)
    if phase == p.IDLE:
        if may_filter:
            _enter(state, p.FILTER)
    elif phase == p.FILTER:
        if state.drive[p.P302] == p.ON or state.drive[p.P301] == p.ON:
            state.filtered_s += 1.0
        if clogged_s > HIGH_DP_S or state.filtered_s > setpoint[p.P602_INTERVAL]:
            _enter(state, p.STOP)
        elif not may_filter:
            _enter(state, p.IDLE)
    elif phase == p.STOP:
        if state.drive[p.MV302] == p.CLOSED:
            _enter(state, p.BACKWASH)
        elif since > PHASE_LIMIT_S:
            _enter(state, p.IDLE)
    elif phase == p.BACKWASH:
        is_done = since > BACKWASH_S and state.drive[p.P602] == p.ON
        if is_done or since > PHASE_LIMIT_S:
            state.filtered_s = 0.0
            _enter(state, p.DRAIN)
    elif phase == p.DRAIN:
        if since > DRAIN_S:
            _enter(state, p.REST)
    elif since > DRAIN_S:  # at rest, until all valves have closed
        _enter(state, p.IDLE)


@njit(cache=True)
def _run_ultrafiltration(state: Any, setpoint: Floats) -> None:
    """P3 and P602: filter into T401 while it needs water, and backwash.

    Valves follow the phase of the sequence; pumps start only when their valve is open.
    """
    reading = state.reading
    wanted = _latched(
        state,
        p.UF_WANTED,
        reading[p.LIT401],
        setpoint[p.LIT401_L],
        setpoint[p.LIT401_H],
    )
    is_dry = _is_low(state, p.T301_LOW, reading[p.LIT301], setpoint[p.LIT301_LL])
    is_full = reading[p.LIT401] > setpoint[p.LIT401_HH]
    _next_phase(state, setpoint, wanted and not is_dry and not is_full)
    phase, command, drive = state.uf_phase, state.command, state.drive
    command[p.MV302] = p.OPEN if phase == p.FILTER else p.CLOSED
    command[p.MV301] = p.OPEN if phase == p.BACKWASH else p.CLOSED
    command[p.MV303] = p.OPEN if phase == p.BACKWASH else p.CLOSED
    command[p.MV304] = p.OPEN if phase == p.DRAIN else p.CLOSED
    may_wash = phase == p.BACKWASH and drive[p.MV301] == p.OPEN
    command[p.P602] = p.ON if may_wash else p.OFF
    may_pump = phase == p.FILTER and drive[p.MV302] == p.OPEN
    _run_pair(state, may_pump, p.P302, p.P301, p.WAIT_P302)


@njit(cache=True)
def _run_reverse_osmosis(state: Any, setpoint: Floats) -> None:
    """P4, P5 and P6: feed, dechlorinate, press, and control the permeate tank.

    A tripped RO pump restarts `RESTART_AFTER_S` seconds after the cause is gone. Its
    speed falls with the volume in T601; P601 returns surplus. Salty permeate is
    diverted to drain after `HIGH_SALT_S` seconds. P603 never runs.
    """
    reading, drive, command = state.reading, state.drive, state.command
    is_dry = _is_low(state, p.T401_LOW, reading[p.LIT401], setpoint[p.LIT401_LL])
    _run_pair(state, not is_dry, p.P402, p.P401, p.WAIT_P402)
    is_fed = drive[p.P402] == p.ON or drive[p.P401] == p.ON
    # Low flow or too much chlorine trips the RO pump until the cause has been gone.
    low_s = _held(
        state, p.LOW_FLOW, is_fed and reading[p.FIT401] < setpoint[p.FIT401_L]
    )
    orp_s = _held(state, p.HIGH_ORP, reading[p.AIT502] > setpoint[p.AIT502_H])
    if low_s > TRIP_AFTER_S or orp_s > HIGH_ORP_S:
        state.latch[p.RO_TRIP] = 1
        state.timer[p.RESTART] = 0
    elif state.latch[p.RO_TRIP] == 1:
        state.timer[p.RESTART] += 1
        if state.timer[p.RESTART] > RESTART_AFTER_S:
            state.latch[p.RO_TRIP] = 0
    is_tripped = state.latch[p.RO_TRIP] == 1
    command[p.UV401] = p.ON if is_fed and not is_tripped else p.OFF
    may_press = is_fed and not is_tripped and drive[p.UV401] == p.ON
    _run_pair(state, may_press, p.P501, p.P502, p.WAIT_P501)
    bisulphite = _latched(
        state,
        p.BISULPHITE,
        -reading[p.AIT402],
        -setpoint[p.AIT402_H],
        -setpoint[p.AIT402_L],
    )
    may_dose = bisulphite and reading[p.FIT401] > setpoint[p.FIT401_L]
    _run_pair(state, may_dose, p.P403, p.P404, p.WAIT_P403)
    salty_s = _held(state, p.HIGH_SALT, reading[p.AIT504] > setpoint[p.AIT504_H])
    state.latch[p.DIVERT] = 1 if salty_s > HIGH_SALT_S else 0
    stored = state.volume[p.T601]
    speed = 1.0 + SPEED_PER_M3 * (PERMEATE_TARGET_M3 - stored)
    state.ro_speed = min(max(speed, SLOWEST), FASTEST)
    surplus = _latched(state, p.RETURN, -stored, -RETURN_START_M3, -RETURN_STOP_M3)
    command[p.P601] = p.ON if surplus else p.OFF
    command[p.P603] = p.OFF


@njit(cache=True)
def control(state: Any, setpoint: Floats) -> None:
    """Set every command from the last readings.

    Parameters
    ----------
    state : record
        The plant: `reading` and `drive` are read, `command`, latches and timers set.
    setpoint : array of shape (26,)
        Values of `SETPOINTS`, possibly changed by an attacker.
    """
    _run_raw_water(state, setpoint)
    _run_ultrafiltration(state, setpoint)
    _run_reverse_osmosis(state, setpoint)


@njit(cache=True)
def _actuate(state: Any) -> None:
    """Move valves and run pumps up or down, as far as interlocks allow it.

    Hard-wired interlocks act after the attacker: dosing needs flow, MV301 needs MV302
    closed, P602 needs MV301 open, RO pumps and UV need a feed pump, P502 and P603 need
    the others off. A valve moves by `TRAVEL` a second and shows `MOVING` in between. A
    pump is on or off at once, but its speed approaches the target by the share `RUN_UP`
    a second.
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
def _measure(state: Any, conditions: p.Conditions, draws: Floats) -> None:
    """Set the true value and the reading of each tag.

    A sensor reads ``round(max(truth + bias + noise, 0) / quantum) * quantum``; an
    actuator reads its state.
    """
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
    for k in range(N_SENSORS):
        tag = p.SENSOR_COLUMNS[k]
        value = truth[tag] + conditions.bias[tag] + p.NOISE[tag] * draws[k]
        rounded = np.round(max(value, 0.0) / p.QUANTUM[tag]) * p.QUANTUM[tag]
        # Values are recorded in single precision, and the PLC reads the same values.
        state.reading[tag] = np.float32(rounded)
    for tag in p.VALVE_COLUMNS:
        state.reading[tag] = state.drive[tag]
    for tag in p.PUMP_COLUMNS:
        state.reading[tag] = state.drive[tag]


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
        _actuate(state)
        move(state, conditions, draws[step, N_SENSORS:], passing)
        _measure(state, conditions, draws[step])
        at = row + step
        if len(unforged):
            for tag in range(p.N_TAGS):
                unforged[at, tag] = state.reading[tag]
        for action in range(len(actions)):
            kind, tag = int(actions[action, 0]), int(actions[action, 1])
            if kind == f.SET or kind == f.SETPOINT:
                continue
            value = actions[action, 2]
            forged = _forged_value(
                kind,
                state.reading[tag],
                value,
                actions[action, 3],
                at - attack_row + 1,
                recorded[attack_row - 1, tag],
                recorded[at - int(value), tag] if kind == f.REPLAY else 0.0,
                0.0,
            )
            state.reading[tag] = np.float32(forged)
        for tag in range(p.N_TAGS):
            recorded[at, tag] = state.reading[tag]
        state.clock += 1


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
        self.state = state
        self._conditions = conditions
        self._noise = NoiseSource(seed, N_DRAWS)

    @classmethod
    def warmed_up(cls, seed: int, conditions: p.Conditions) -> "WaterworksPlant":
        """Return a plant at midnight, `WARM_UP_S` seconds after its start."""
        runner = cls(seed, p.first_state(seed, DAY_S - WARM_UP_S), conditions)
        runner.run(p.empty_rows(WARM_UP_S))
        return runner

    def copy(self, conditions: p.Conditions | None = None) -> Self:
        """Return a plant in the same state that will see the same random numbers."""
        return type(self)(self._seed, self.state.copy(), conditions or self._conditions)

    def fill(self, to_fill: Filling) -> None:
        """Run the plant over some rows."""
        rows, attack = to_fill.rows, to_fill.attack
        unforged = p.empty_rows(0) if to_fill.unforged is None else to_fill.unforged
        index = {**p.COLUMN, **p.SETPOINT_INDEX}
        actions = [
            (action.kind.code, index[action.tag], *action.numbers)
            for action in (() if attack is None else attack.actions)
        ]
        row = rows.start
        while row < rows.stop:
            steps = min(rows.stop - row, self.chunk_steps)
            draws = self._noise.upto(int(self.state["clock"][0]), steps)
            advance(
                self.state,
                self._conditions,
                draws,
                np.array(actions, np.float64).reshape(-1, 4),
                rows.start,
                row,
                to_fill.recorded,
                unforged,
            )
            row += len(draws)
            to_fill.report(row)
