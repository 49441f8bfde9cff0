"""The plant's PLCs: readings in, commands out, once a second. Compiled.

The controller sees readings (which an attacker may have forged) and the real states of
actuators. Hard-wired interlocks, which no PLC and no attacker can pass, are in
process.py.
"""

from typing import Any

from numba import njit

from sightline.data.arrays import Floats
from sightline.testbeds.waterworks.plant import (
    AIT201,
    AIT201_H,
    AIT201_L,
    AIT202,
    AIT202_H,
    AIT202_L,
    AIT203,
    AIT203_H,
    AIT203_L,
    AIT402,
    AIT402_H,
    AIT402_L,
    AIT502,
    AIT502_H,
    AIT504,
    AIT504_H,
    CLOSED,
    DPIT301,
    DPIT301_H,
    FIT201,
    FIT201_L,
    FIT401,
    FIT401_L,
    LIT101,
    LIT101_H,
    LIT101_HH,
    LIT101_L,
    LIT101_LL,
    LIT301,
    LIT301_H,
    LIT301_HH,
    LIT301_L,
    LIT301_LL,
    LIT401,
    LIT401_H,
    LIT401_HH,
    LIT401_L,
    LIT401_LL,
    MV101,
    MV201,
    MV301,
    MV302,
    MV303,
    MV304,
    OFF,
    ON,
    OPEN,
    P101,
    P102,
    P201,
    P202,
    P203,
    P204,
    P205,
    P206,
    P301,
    P302,
    P401,
    P402,
    P403,
    P404,
    P501,
    P502,
    P601,
    P602,
    P602_INTERVAL,
    P603,
    T601,
    UV401,
    Index,
)
from sightline.testbeds.waterworks.state import (
    ACID,
    BACKWASH,
    BISULPHITE,
    CHLORINE,
    DIVERT,
    DRAIN,
    FILTER,
    HIGH_DP,
    HIGH_ORP,
    HIGH_SALT,
    IDLE,
    INLET,
    LOW_FLOW,
    REST,
    RESTART,
    RETURN,
    RO_TRIP,
    SALT,
    STOP,
    T101_LOW,
    T301_LOW,
    T401_LOW,
    TRANSFER,
    UF_PHASE_S,
    UF_WANTED,
    WAIT_P101,
    WAIT_P201,
    WAIT_P203,
    WAIT_P205,
    WAIT_P302,
    WAIT_P402,
    WAIT_P403,
    WAIT_P501,
)

STANDBY_AFTER_S = 5
# A tank that was too low to pump from must first rise by so much.
RELEASE_MM = 200.0
BACKWASH_S, DRAIN_S = 45, 20
# A sequence that hangs, because a valve does not answer, is given up.
PHASE_LIMIT_S = 120
TRIP_AFTER_S, RESTART_AFTER_S = 15, 60
HIGH_ORP_S, HIGH_SALT_S, HIGH_DP_S = 120, 60, 5
# The RO pump's speed follows the permeate tank, between these.
SLOWEST, FASTEST = 0.8, 1.15
PERMEATE_TARGET_M3, SPEED_PER_M3 = 1.4, 0.25
RETURN_START_M3, RETURN_STOP_M3 = 2.2, 1.9


@njit(cache=True)
def _latched(state: Any, latch: Index, reading: float, low: float, high: float) -> bool:
    """Start below low, stop above high, else go on as before."""
    if reading < low:
        state.latch[latch] = 1
    elif reading > high:
        state.latch[latch] = 0
    return state.latch[latch] == 1  # type: ignore[no-any-return]


@njit(cache=True)
def _is_low(state: Any, latch: Index, level: float, limit: float) -> bool:
    """Tell whether a tank is too low to pump from."""
    return _latched(state, latch, level, limit, limit + RELEASE_MM)


@njit(cache=True)
def _held(state: Any, timer: Index, is_so: bool) -> int:
    """Return for how many seconds a condition has held."""
    state.timer[timer] = state.timer[timer] + 1 if is_so else 0
    return state.timer[timer]  # type: ignore[no-any-return]


@njit(cache=True)
def _run_pair(
    state: Any, is_wanted: bool, duty: Index, standby: Index, timer: Index
) -> None:
    """Run the duty pump, and its standby if the duty pump does not answer."""
    state.command[duty] = ON if is_wanted else OFF
    waited = _held(state, timer, is_wanted and state.drive[duty] != ON)
    state.command[standby] = ON if waited > STANDBY_AFTER_S else OFF


@njit(cache=True)
def _run_raw_water(state: Any, setpoint: Floats) -> None:
    """P1: fill T101 by MV101, feed T301 through MV201 by P101."""
    level, target = state.reading[LIT101], state.reading[LIT301]
    fill = _latched(state, INLET, level, setpoint[LIT101_L], setpoint[LIT101_H])
    is_high = level > setpoint[LIT101_HH]
    state.command[MV101] = OPEN if fill and not is_high else CLOSED
    wanted = _latched(state, TRANSFER, target, setpoint[LIT301_L], setpoint[LIT301_H])
    is_dry = _is_low(state, T101_LOW, level, setpoint[LIT101_LL])
    wanted = wanted and not is_dry and target <= setpoint[LIT301_HH]
    state.command[MV201] = OPEN if wanted else CLOSED
    may_pump = wanted and state.drive[MV201] == OPEN
    _run_pair(state, may_pump, P101, P102, WAIT_P101)


@njit(cache=True)
def _run_dosing(state: Any, setpoint: Floats) -> None:
    """P2: salt, acid and chlorine, each by hysteresis while water flows."""
    reading = state.reading
    flows = reading[FIT201] > setpoint[FIT201_L]
    salt = _latched(
        state, SALT, reading[AIT201], setpoint[AIT201_L], setpoint[AIT201_H]
    )
    # Acid lowers the pH, so its hysteresis is that of the negative pH.
    acid = _latched(
        state, ACID, -reading[AIT202], -setpoint[AIT202_H], -setpoint[AIT202_L]
    )
    chlorine = _latched(
        state, CHLORINE, reading[AIT203], setpoint[AIT203_L], setpoint[AIT203_H]
    )
    _run_pair(state, flows and salt, P201, P202, WAIT_P201)
    _run_pair(state, flows and acid, P203, P204, WAIT_P203)
    _run_pair(state, flows and chlorine, P205, P206, WAIT_P205)


@njit(cache=True)
def _enter(state: Any, phase: Index) -> None:
    state.uf_phase = phase
    state.timer[UF_PHASE_S] = 0


@njit(cache=True)
def _next_phase(state: Any, setpoint: Floats, may_filter: bool) -> None:
    """Move the ultrafiltration sequence on."""
    state.timer[UF_PHASE_S] += 1
    since = state.timer[UF_PHASE_S]
    phase = state.uf_phase
    is_clogged = state.reading[DPIT301] > setpoint[DPIT301_H]
    clogged_s = _held(state, HIGH_DP, phase == FILTER and is_clogged)
    if phase == IDLE:
        if may_filter:
            _enter(state, FILTER)
    elif phase == FILTER:
        if state.drive[P302] == ON or state.drive[P301] == ON:
            state.filtered_s += 1.0
        if clogged_s > HIGH_DP_S or state.filtered_s > setpoint[P602_INTERVAL]:
            _enter(state, STOP)
        elif not may_filter:
            _enter(state, IDLE)
    elif phase == STOP:
        if state.drive[MV302] == CLOSED:
            _enter(state, BACKWASH)
        elif since > PHASE_LIMIT_S:
            _enter(state, IDLE)
    elif phase == BACKWASH:
        is_done = since > BACKWASH_S and state.drive[P602] == ON
        if is_done or since > PHASE_LIMIT_S:
            state.filtered_s = 0.0
            _enter(state, DRAIN)
    elif phase == DRAIN:
        if since > DRAIN_S:
            _enter(state, REST)
    elif since > DRAIN_S:  # at rest, until all valves have closed
        _enter(state, IDLE)


@njit(cache=True)
def _run_ultrafiltration(state: Any, setpoint: Floats) -> None:
    """P3 and P602: filter into T401 while it wants water, backwash now and then."""
    reading = state.reading
    wanted = _latched(
        state, UF_WANTED, reading[LIT401], setpoint[LIT401_L], setpoint[LIT401_H]
    )
    is_dry = _is_low(state, T301_LOW, reading[LIT301], setpoint[LIT301_LL])
    is_full = reading[LIT401] > setpoint[LIT401_HH]
    _next_phase(state, setpoint, wanted and not is_dry and not is_full)
    phase, command, drive = state.uf_phase, state.command, state.drive
    command[MV302] = OPEN if phase == FILTER else CLOSED
    command[MV301] = OPEN if phase == BACKWASH else CLOSED
    command[MV303] = OPEN if phase == BACKWASH else CLOSED
    command[MV304] = OPEN if phase == DRAIN else CLOSED
    may_wash = phase == BACKWASH and drive[MV301] == OPEN
    command[P602] = ON if may_wash else OFF
    may_pump = phase == FILTER and drive[MV302] == OPEN
    _run_pair(state, may_pump, P302, P301, WAIT_P302)


@njit(cache=True)
def _is_tripped(state: Any, setpoint: Floats, is_fed: bool) -> bool:
    """Tell whether the RO pump must stand: too little flow, or too much chlorine."""
    reading = state.reading
    low_s = _held(state, LOW_FLOW, is_fed and reading[FIT401] < setpoint[FIT401_L])
    orp_s = _held(state, HIGH_ORP, reading[AIT502] > setpoint[AIT502_H])
    if low_s > TRIP_AFTER_S or orp_s > HIGH_ORP_S:
        state.latch[RO_TRIP] = 1
        state.timer[RESTART] = 0
    elif state.latch[RO_TRIP] == 1:
        state.timer[RESTART] += 1
        if state.timer[RESTART] > RESTART_AFTER_S:
            state.latch[RO_TRIP] = 0
    return state.latch[RO_TRIP] == 1  # type: ignore[no-any-return]


@njit(cache=True)
def _run_reverse_osmosis(state: Any, setpoint: Floats) -> None:
    """P4, P5 and P6: feed, dechlorinate, press, and look after the permeate tank."""
    reading, drive, command = state.reading, state.drive, state.command
    is_dry = _is_low(state, T401_LOW, reading[LIT401], setpoint[LIT401_LL])
    _run_pair(state, not is_dry, P402, P401, WAIT_P402)
    is_fed = drive[P402] == ON or drive[P401] == ON
    is_tripped = _is_tripped(state, setpoint, is_fed)
    command[UV401] = ON if is_fed and not is_tripped else OFF
    may_press = is_fed and not is_tripped and drive[UV401] == ON
    _run_pair(state, may_press, P501, P502, WAIT_P501)
    bisulphite = _latched(
        state, BISULPHITE, -reading[AIT402], -setpoint[AIT402_H], -setpoint[AIT402_L]
    )
    may_dose = bisulphite and reading[FIT401] > setpoint[FIT401_L]
    _run_pair(state, may_dose, P403, P404, WAIT_P403)
    salty_s = _held(state, HIGH_SALT, reading[AIT504] > setpoint[AIT504_H])
    state.latch[DIVERT] = 1 if salty_s > HIGH_SALT_S else 0
    stored = state.volume[T601]
    speed = 1.0 + SPEED_PER_M3 * (PERMEATE_TARGET_M3 - stored)
    state.ro_speed = min(max(speed, SLOWEST), FASTEST)
    surplus = _latched(state, RETURN, -stored, -RETURN_START_M3, -RETURN_STOP_M3)
    command[P601] = ON if surplus else OFF
    command[P603] = OFF


@njit(cache=True)
def control(state: Any, setpoint: Floats) -> None:
    """Decide every command from the last readings."""
    _run_raw_water(state, setpoint)
    _run_dosing(state, setpoint)
    _run_ultrafiltration(state, setpoint)
    _run_reverse_osmosis(state, setpoint)
