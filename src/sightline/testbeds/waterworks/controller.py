"""The plant's PLCs: readings in, commands out, once a second. Compiled.

The controller sees readings (which an attacker may have forged) and the real states of
actuators. Hard-wired interlocks, which neither PLC nor attacker can override, are in
process.py. docs/waterworks.md lists the rules with their set-points.

Levels, dosing and the return of surplus water are controlled by hysteresis: a flag is
set on one side of a band, reset on the other, and kept in between. Each duty pump has a
standby that starts when the duty pump does not run.
"""

from typing import Any

from numba import njit

from sightline.data.arrays import Floats
from sightline.testbeds.waterworks import plant as p

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
    """P1: fill T101 by MV101, feed T301 through MV201 by P101.

    MV101 closes above HH. The transfer stops when T101 is too low or T301 above HH; the
    pump starts only when MV201 is fully open.
    """
    level, target = state.reading[p.LIT101], state.reading[p.LIT301]
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


@njit(cache=True)
def _run_dosing(state: Any, setpoint: Floats) -> None:
    """P2: salt, acid and chlorine, each by hysteresis while water flows."""
    reading = state.reading
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
def _is_tripped(state: Any, setpoint: Floats, is_fed: bool) -> bool:
    """Return whether the RO pump is tripped: low flow, or too much chlorine.

    It restarts `RESTART_AFTER_S` seconds after the cause is gone.
    """
    reading = state.reading
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
    return state.latch[p.RO_TRIP] == 1  # type: ignore[no-any-return]


@njit(cache=True)
def _run_reverse_osmosis(state: Any, setpoint: Floats) -> None:
    """P4, P5 and P6: feed, dechlorinate, press, and control the permeate tank.

    The speed of the RO pump falls with the volume in T601; P601 returns surplus. Salty
    permeate is diverted to drain after `HIGH_SALT_S` seconds. P603 never runs.
    """
    reading, drive, command = state.reading, state.drive, state.command
    is_dry = _is_low(state, p.T401_LOW, reading[p.LIT401], setpoint[p.LIT401_LL])
    _run_pair(state, not is_dry, p.P402, p.P401, p.WAIT_P402)
    is_fed = drive[p.P402] == p.ON or drive[p.P401] == p.ON
    is_tripped = _is_tripped(state, setpoint, is_fed)
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
    _run_dosing(state, setpoint)
    _run_ultrafiltration(state, setpoint)
    _run_reverse_osmosis(state, setpoint)
