"""Water, pressure and chemistry of the plant, one second at a time. Compiled.

Every flow is counted where it leaves and where it arrives, so water is neither made nor
lost.
"""

from typing import Any

import numpy as np
from numba import njit

from sightline.data.arrays import Floats
from sightline.testbeds.waterworks.drift import Conditions
from sightline.testbeds.waterworks.plant import (
    AREA_M2,
    HEIGHT_MM,
    MV101,
    MV201,
    MV301,
    MV302,
    MV303,
    MV304,
    N_TANKS,
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
    P603,
    T101,
    T301,
    T401,
    T601,
    T602,
    UV401,
    Index,
)
from sightline.testbeds.waterworks.state import (
    CONDUCTIVITY,
    DECHLORINATED,
    DEMAND,
    DIVERT,
    DOSED,
    FEED_RO,
    FEED_UF,
    GRID,
    HARDNESS,
    INFLOW,
    INLET_FAST,
    INLET_SLOW,
    N_DISTURBANCES,
    ORP,
    OUTFLOW,
    OVERFLOW,
    PH,
    PRESSED,
    Q_BACKWASH,
    Q_CLEANING,
    Q_DEMAND,
    Q_FEED,
    Q_PERMEATE,
    Q_RAW,
    Q_RECYCLE,
    Q_REJECT,
    Q_RETURN,
    Q_TRANSFER,
    Q_UF,
    Q_UF_DRAIN,
    RAW,
    RAW_CONDUCTIVITY,
    RAW_HARDNESS,
    RAW_ORP,
    RAW_PH,
    TURBIDITY,
    UNMET,
)

HOUR_S, DAY_S = 3600.0, 86400.0
# Seconds until a disturbance has forgotten itself, and its standard deviation.
MEMORY_S = np.array([5400, 5400, 5400, 5400, 2400, 20, 1200, 60, 3600], np.float64)
SPREAD = np.array([6.0, 0.08, 12.0, 5.0, 0.03, 0.008, 0.05, 0.004, 0.25])
KEEP = np.exp(-1.0 / MEMORY_S)
STIR = np.sqrt(1.0 - KEEP**2)

RAW_MEAN = np.array([230.0, 8.1, 300.0, 150.0])
RAW_DAILY = np.array([4.0, 0.05, 8.0, 3.0])
DEMAND_M3_H, DEMAND_DAILY = 1.2, 0.1
INLET_M3_H, TRANSFER_M3_H, BACKWASH_M3_H = 2.65, 2.5, 1.75
RETURN_M3_H, CLEANING_M3_H = 1.0, 0.5

# What a dosing pump adds to the water that passes it.
SALT_DOSE, ACID_DOSE, CHLORINE_DOSE = 60.0, -1.8, 300.0
UV_DOSE, BISULPHITE_DOSE, BISULPHITE_PH = -60.0, -250.0, -0.4
# Volumes of the contactors in m3; the water in them is mixed.
DOSED_M3, DECHLORINATED_M3, PRESSED_M3 = 0.1, 0.1, 0.04

# Ultrafiltration: pump head (kPa), its largest flow, pipe loss, membrane (kPa h/m3).
UF_HEAD, UF_LARGEST, UF_PIPE, UF_MEMBRANE = 70.0, 3.0, 14.0, 8.0
CAKE_PER_M3, CAKE_WASHED_M3 = 2.4, 0.007
# Reverse osmosis: pressures (kPa), permeability, reject valve, part recycled.
BOOSTER, PRESS = 100.0, 150.0
PERMEABILITY, REJECT_VALVE, RECYCLED = 0.00543, 0.0465, 0.42
OSMOTIC_PER_CONDUCTIVITY, SALT_PASSAGE = 0.045, 0.032


@njit(cache=True)
def _disturb(state: Any, noise: Floats) -> None:
    """Move the disturbances; each keeps unit variance."""
    for k in range(N_DISTURBANCES):
        state.disturbance[k] = KEEP[k] * state.disturbance[k] + STIR[k] * noise[k]


@njit(cache=True)
def _level(state: Any, tank: Index) -> float:
    """Return a level in mm."""
    return 1000.0 * state.volume[tank] / AREA_M2[tank]  # type: ignore[no-any-return]


@njit(cache=True)
def _both(first: float, second: float, extra: float) -> float:
    """Return the joint drive of two pumps in parallel: the second adds little."""
    return max(first, second) + extra * min(first, second)


@njit(cache=True)
def _daily(clock: Index, peak_h: float) -> float:
    return np.cos(2.0 * np.pi * (clock / DAY_S - peak_h / 24.0))  # type: ignore[no-any-return]


@njit(cache=True)
def _uf_flow(resistance: float, drive: float) -> float:
    """Return where the pump's curve meets membrane and pipe: m3/h."""
    left = UF_HEAD * drive * drive - UF_PIPE
    if left <= 0.0:
        return 0.0
    bend = UF_HEAD / UF_LARGEST**2
    root = np.sqrt(resistance * resistance + 4.0 * bend * left)
    return (root - resistance) / (2.0 * bend)  # type: ignore[no-any-return]


@njit(cache=True)
def uf_resistance(state: Any, conditions: Conditions) -> float:
    """Return the membrane's resistance now, cake and all: kPa h/m3."""
    return UF_MEMBRANE * conditions.uf_resistance + state.cake  # type: ignore[no-any-return]


@njit(cache=True)
def _move_water_in(state: Any, conditions: Conditions) -> None:
    """Set the flows of P1, P2 and P3."""
    flow, at, outside = state.flow, state.position, state.disturbance
    grid = 1.0 + SPREAD[GRID] * outside[GRID]
    inlet = 1.0 + SPREAD[INLET_SLOW] * outside[INLET_SLOW]
    inlet += SPREAD[INLET_FAST] * outside[INLET_FAST]
    flow[Q_RAW] = INLET_M3_H * inlet * at[MV101]
    lift = 4e-5 * (_level(state, T101) - _level(state, T301))
    pumps = _both(at[P101] * conditions.pump_head[P101], at[P102], 0.25)
    flow[Q_TRANSFER] = TRANSFER_M3_H * grid * pumps * (1.0 + lift) * at[MV201]
    pumps = _both(at[P302] * conditions.pump_head[P302], at[P301], 0.2)
    drain = 0.5 * at[MV303] + 0.3 * at[MV304]
    ways = at[MV302] + drain
    through = min(ways, 1.0) * _uf_flow(uf_resistance(state, conditions), pumps * grid)
    flow[Q_UF] = through * at[MV302] / ways if ways > 0.0 else 0.0
    flow[Q_UF_DRAIN] = through - flow[Q_UF]
    wash_way = at[MV301] * min(at[MV303] + 0.5 * at[MV304], 1.0)
    flow[Q_BACKWASH] = BACKWASH_M3_H * grid * at[P602] * wash_way


@njit(cache=True)
def _move_water_out(state: Any, conditions: Conditions) -> None:
    """Set the flows of P4, P5 and P6 from the RO pressure."""
    flow, at, outside = state.flow, state.position, state.disturbance
    grid = 1.0 + SPREAD[GRID] * outside[GRID]
    booster = _both(at[P402], at[P401], 0.1)
    press = max(at[P501] * conditions.pump_head[P501], at[P502]) * state.ro_speed**2
    target = (BOOSTER + PRESS * press) * booster * grid * grid
    if state.volume[T401] <= 0.0:
        target = 0.0
    state.ro_pressure += (target - state.ro_pressure) / 8.0
    osmotic = OSMOTIC_PER_CONDUCTIVITY * state.water[PRESSED, CONDUCTIVITY]
    driving = max(state.ro_pressure - osmotic, 0.0)
    flow[Q_PERMEATE] = PERMEABILITY * conditions.ro_permeability * driving
    flow[Q_REJECT] = REJECT_VALVE * np.sqrt(max(state.ro_pressure, 0.0))
    flow[Q_RECYCLE] = RECYCLED * flow[Q_REJECT]
    flow[Q_FEED] = flow[Q_PERMEATE] + flow[Q_REJECT] - flow[Q_RECYCLE]
    flow[Q_RETURN] = RETURN_M3_H * at[P601]
    flow[Q_CLEANING] = CLEANING_M3_H * at[P603]
    daily = DEMAND_DAILY * _daily(state.clock, 19.0)
    demand = DEMAND_M3_H * (1.0 + daily + SPREAD[DEMAND] * outside[DEMAND])
    # Consumers' float valve closes as the tank runs low.
    flow[Q_DEMAND] = demand * min(max((_level(state, T601) - 150.0) / 50.0, 0.0), 1.0)


@njit(cache=True)
def _draw(state: Any, tank: Index, flow: Index) -> float:
    """Take one second of a flow out of a tank, as far as there is water; in m3."""
    wanted = max(state.flow[flow], 0.0) / HOUR_S
    drawn = min(wanted, state.volume[tank])
    if drawn < wanted:
        state.flow[flow] = drawn * HOUR_S
    state.volume[tank] -= drawn
    state.account[tank, OUTFLOW] += drawn
    state.account[tank, UNMET] += wanted - drawn
    return drawn  # type: ignore[no-any-return]


@njit(cache=True)
def _pour(state: Any, tank: Index, amount: float) -> None:
    """Put water into a tank; what does not fit is spilt."""
    state.account[tank, INFLOW] += amount
    full = HEIGHT_MM * AREA_M2[tank] / 1000.0
    volume = state.volume[tank] + amount
    if volume > full:
        state.account[tank, OVERFLOW] += volume - full
        volume = full
    state.volume[tank] = volume


@njit(cache=True)
def _mix(state: Any, body: Index, volume: float, amount: float, source: Floats) -> None:
    """Let water of another quality into a mixed body."""
    if amount > 0.0:
        share = amount / (volume + amount)
        for k in range(4):
            state.water[body, k] += share * (source[k] - state.water[body, k])


@njit(cache=True)
def _treat_in(state: Any, conditions: Conditions, passing: Floats) -> None:
    """Move the water of P1 to P3 with what is dissolved in it."""
    at, water = state.position, state.water
    daily = _daily(state.clock, 15.0)
    for k, outside in enumerate((RAW_CONDUCTIVITY, RAW_PH, RAW_ORP, RAW_HARDNESS)):
        passing[k] = RAW_MEAN[k] + conditions.raw_shift[k] + RAW_DAILY[k] * daily
        passing[k] += SPREAD[outside] * state.disturbance[outside]
    amount = state.flow[Q_RAW] / HOUR_S
    state.bought += amount
    _mix(state, RAW, state.volume[T101], amount, passing)
    _pour(state, T101, amount)
    amount = _draw(state, T101, Q_TRANSFER)
    passing[CONDUCTIVITY] = water[RAW, CONDUCTIVITY] + SALT_DOSE * max(
        at[P201], at[P202]
    )
    passing[PH] = water[RAW, PH] + ACID_DOSE * max(at[P203], at[P204])
    passing[ORP] = water[RAW, ORP] + CHLORINE_DOSE * max(at[P205], at[P206])
    passing[HARDNESS] = water[RAW, HARDNESS]
    _mix(state, DOSED, DOSED_M3, amount, passing)
    _mix(state, FEED_UF, state.volume[T301], amount, water[DOSED])
    _pour(state, T301, amount)


@njit(cache=True)
def _filter(state: Any, conditions: Conditions) -> None:
    """Move water through the membrane; grow and wash its cake."""
    flow = state.flow
    wasted = _draw(state, T301, Q_UF_DRAIN)
    filtered = _draw(state, T301, Q_UF)
    state.drained += wasted
    _mix(state, FEED_RO, state.volume[T401], filtered, state.water[FEED_UF])
    _pour(state, T401, filtered)
    washed = _draw(state, T602, Q_BACKWASH)
    state.drained += washed
    dirt = max(1.0 + SPREAD[TURBIDITY] * state.disturbance[TURBIDITY], 0.1)
    state.cake += CAKE_PER_M3 * conditions.cake_rate * dirt * (filtered + wasted)
    state.cake *= np.exp(-washed / CAKE_WASHED_M3)
    # A meter in the common line sees both ways out.
    flow[Q_UF] = (filtered + wasted) * HOUR_S


@njit(cache=True)
def _feed_membrane(state: Any, amount: float, passing: Floats) -> None:
    """Mix fresh feed with the recycled part of the reject, which is saltier."""
    water, flow = state.water, state.flow
    for k in range(4):
        passing[k] = water[DECHLORINATED, k]
    recycled = flow[Q_RECYCLE] / HOUR_S if amount > 0.0 else 0.0
    if recycled > 0.0:
        through = flow[Q_FEED] + flow[Q_RECYCLE]
        salt = water[PRESSED, CONDUCTIVITY] * through
        salt -= state.permeate_conductivity * flow[Q_PERMEATE]
        share = flow[Q_RECYCLE] / through
        passing[CONDUCTIVITY] *= 1.0 - share
        passing[CONDUCTIVITY] += share * max(salt, 0.0) / flow[Q_REJECT]
    _mix(state, PRESSED, PRESSED_M3, amount + recycled, passing)


@njit(cache=True)
def _treat_out(state: Any, passing: Floats) -> None:
    """Move the water of P4 to P6 with what is dissolved in it."""
    at, water, flow = state.position, state.water, state.flow
    amount = _draw(state, T401, Q_FEED)
    bisulphite = max(at[P403], at[P404])
    for k in range(4):
        passing[k] = water[FEED_RO, k]
    passing[PH] += BISULPHITE_PH * bisulphite
    passing[ORP] += UV_DOSE * at[UV401] + BISULPHITE_DOSE * bisulphite
    _mix(state, DECHLORINATED, DECHLORINATED_M3, amount, passing)
    _feed_membrane(state, amount, passing)
    permeate = min(flow[Q_PERMEATE] / HOUR_S, amount)
    state.drained += amount - permeate
    if flow[Q_PERMEATE] > 0.05:
        thin = np.sqrt(1.27 / flow[Q_PERMEATE])
        salt = water[PRESSED, CONDUCTIVITY] * SALT_PASSAGE * thin
        state.permeate_conductivity += (salt - state.permeate_conductivity) / 60.0
    if state.latch[DIVERT] == 1:
        state.drained += permeate
        permeate = 0.0
    # A float valve fills the backwash tank first.
    refill = permeate * min(max((950.0 - _level(state, T602)) / 50.0, 0.0), 1.0)
    _pour(state, T602, refill)
    _pour(state, T601, permeate - refill)
    state.delivered += _draw(state, T601, Q_DEMAND)
    _pour(state, T101, _draw(state, T601, Q_RETURN))
    state.drained += _draw(state, T601, Q_CLEANING)


@njit(cache=True)
def move(state: Any, conditions: Conditions, noise: Floats, passing: Floats) -> None:
    """Let one second pass; `passing` is room for the quality of passing water."""
    _disturb(state, noise)
    _move_water_in(state, conditions)
    _move_water_out(state, conditions)
    _treat_in(state, conditions, passing)
    _filter(state, conditions)
    _treat_out(state, passing)
    for tank in range(N_TANKS):
        level = _level(state, tank)
        state.lowest[tank] = min(state.lowest[tank], level)
        state.highest[tank] = max(state.highest[tank], level)
