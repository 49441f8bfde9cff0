"""Water, pressure and chemistry of the plant, one second at a time. Compiled.

Units: flows in m3/h, volumes in m3, levels in mm, pressures in kPa, conductivity in
uS/cm, ORP in mV, hardness in mg/l. Every flow is counted where it leaves and where it
arrives, so water is conserved.

Each second runs in this order:

1. disturbances from outside (raw water, inlet pressure, demand, grid, turbidity);
2. flows of P1 to P3 from valves, pumps and levels, then of P4 to P6 from the pressure
   of the reverse osmosis (RO);
3. water moves with its quality: dosing, ultrafiltration (UF), dechlorination, RO;
4. extreme levels are noted.

A body of water of volume V that receives an amount A of quality q changes by
``A / (V + A) * (q - own quality)``: it is perfectly mixed.
"""

from typing import Any

import numpy as np
from numba import njit

from sightline.data.arrays import Floats
from sightline.testbeds.waterworks import plant as p

HOUR_S, DAY_S = 3600.0, 86400.0
# Memory of each disturbance in seconds, and its standard deviation.
MEMORY_S = np.array([5400, 5400, 5400, 5400, 2400, 20, 1200, 60, 3600], np.float64)
SPREAD = np.array([6.0, 0.08, 12.0, 5.0, 0.03, 0.008, 0.05, 0.004, 0.25])
KEEP = np.exp(-1.0 / MEMORY_S)
STIR = np.sqrt(1.0 - KEEP**2)

RAW_MEAN = np.array([230.0, 8.1, 300.0, 150.0])
RAW_DAILY = np.array([4.0, 0.05, 8.0, 3.0])
DEMAND_M3_H, DEMAND_DAILY = 1.2, 0.1
INLET_M3_H, TRANSFER_M3_H, BACKWASH_M3_H = 2.65, 2.5, 1.75
RETURN_M3_H, CLEANING_M3_H = 1.0, 0.5

# What a dosing pump adds to the quality of the passing water.
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
def _level(state: Any, tank: p.Index) -> float:
    """Return the level of a tank in mm."""
    return 1000.0 * state.volume[tank] / p.AREA_M2[tank]  # type: ignore[no-any-return]


@njit(cache=True)
def _both(first: float, second: float, extra: float) -> float:
    """Return the joint drive of two parallel pumps.

    The stronger counts in full, the weaker with the share `extra`.
    """
    return max(first, second) + extra * min(first, second)


@njit(cache=True)
def _daily(clock: p.Index, peak_h: float) -> float:
    """Return a daily wave between -1 and 1 with its peak at an hour of the day."""
    return np.cos(2.0 * np.pi * (clock / DAY_S - peak_h / 24.0))  # type: ignore[no-any-return]


@njit(cache=True)
def uf_resistance(state: Any, conditions: p.Conditions) -> float:
    """Return the resistance of the UF membrane with its cake, in kPa h/m3."""
    return UF_MEMBRANE * conditions.uf_resistance + state.cake  # type: ignore[no-any-return]


@njit(cache=True)
def _move_water_in(state: Any, conditions: p.Conditions) -> None:
    """Set the flows of P1, P2 and P3 from valves, pumps and levels.

    Raw water through MV101; transfer from T101 to T301 through MV201, a little more
    when T101 is higher; UF flow, split between T401 (MV302) and the drains (MV303,
    MV304); backwash from T602 if its way is open.
    """
    flow, at, outside = state.flow, state.position, state.disturbance
    grid = 1.0 + SPREAD[p.GRID] * outside[p.GRID]
    inlet = 1.0 + SPREAD[p.INLET_SLOW] * outside[p.INLET_SLOW]
    inlet += SPREAD[p.INLET_FAST] * outside[p.INLET_FAST]
    flow[p.Q_RAW] = INLET_M3_H * inlet * at[p.MV101]
    lift = 4e-5 * (_level(state, p.T101) - _level(state, p.T301))
    pumps = _both(at[p.P101] * conditions.pump_head[p.P101], at[p.P102], 0.25)
    flow[p.Q_TRANSFER] = TRANSFER_M3_H * grid * pumps * (1.0 + lift) * at[p.MV201]
    pumps = _both(at[p.P302] * conditions.pump_head[p.P302], at[p.P301], 0.2)
    drain = 0.5 * at[p.MV303] + 0.3 * at[p.MV304]
    ways = at[p.MV302] + drain
    # The UF flow is where pump curve and system curve meet: the positive root of
    # UF_HEAD * drive**2 - bend * q**2 = UF_PIPE + resistance * q; else there is none.
    drive, through = pumps * grid, 0.0
    left = UF_HEAD * drive * drive - UF_PIPE
    if left > 0.0:
        bend, resistance = UF_HEAD / UF_LARGEST**2, uf_resistance(state, conditions)
        root = np.sqrt(resistance * resistance + 4.0 * bend * left)
        through = min(ways, 1.0) * ((root - resistance) / (2.0 * bend))
    flow[p.Q_UF] = through * at[p.MV302] / ways if ways > 0.0 else 0.0
    flow[p.Q_UF_DRAIN] = through - flow[p.Q_UF]
    wash_way = at[p.MV301] * min(at[p.MV303] + 0.5 * at[p.MV304], 1.0)
    flow[p.Q_BACKWASH] = BACKWASH_M3_H * grid * at[p.P602] * wash_way


@njit(cache=True)
def _move_water_out(state: Any, conditions: p.Conditions) -> None:
    """Set the flows of P4, P5 and P6 from the RO pressure and the demand.

    The RO pressure follows booster and press pumps with a lag of 8 s. Permeate is
    proportional to the pressure above the osmotic one, reject to its square root; a
    part of the reject is recycled.
    """
    flow, at, outside = state.flow, state.position, state.disturbance
    grid = 1.0 + SPREAD[p.GRID] * outside[p.GRID]
    booster = _both(at[p.P402], at[p.P401], 0.1)
    press = (
        max(at[p.P501] * conditions.pump_head[p.P501], at[p.P502]) * state.ro_speed**2
    )
    target = (BOOSTER + PRESS * press) * booster * grid * grid
    if state.volume[p.T401] <= 0.0:
        target = 0.0
    state.ro_pressure += (target - state.ro_pressure) / 8.0
    osmotic = OSMOTIC_PER_CONDUCTIVITY * state.water[p.PRESSED, p.CONDUCTIVITY]
    driving = max(state.ro_pressure - osmotic, 0.0)
    flow[p.Q_PERMEATE] = PERMEABILITY * conditions.ro_permeability * driving
    flow[p.Q_REJECT] = REJECT_VALVE * np.sqrt(max(state.ro_pressure, 0.0))
    flow[p.Q_RECYCLE] = RECYCLED * flow[p.Q_REJECT]
    flow[p.Q_FEED] = flow[p.Q_PERMEATE] + flow[p.Q_REJECT] - flow[p.Q_RECYCLE]
    flow[p.Q_RETURN] = RETURN_M3_H * at[p.P601]
    flow[p.Q_CLEANING] = CLEANING_M3_H * at[p.P603]
    daily = DEMAND_DAILY * _daily(state.clock, 19.0)
    demand = DEMAND_M3_H * (1.0 + daily + SPREAD[p.DEMAND] * outside[p.DEMAND])
    # The consumers' float valve closes as the tank runs low.
    flow[p.Q_DEMAND] = demand * min(
        max((_level(state, p.T601) - 150.0) / 50.0, 0.0), 1.0
    )


@njit(cache=True)
def _draw(state: Any, tank: p.Index, flow: p.Index) -> float:
    """Take one second of a flow out of a tank, and return it in m3.

    If the tank runs empty the flow is reduced to what was left, and the rest is counted
    as unmet.
    """
    wanted = max(state.flow[flow], 0.0) / HOUR_S
    drawn = min(wanted, state.volume[tank])
    if drawn < wanted:
        state.flow[flow] = drawn * HOUR_S
    state.volume[tank] -= drawn
    state.account[tank, p.OUTFLOW] += drawn
    state.account[tank, p.UNMET] += wanted - drawn
    return drawn  # type: ignore[no-any-return]


@njit(cache=True)
def _pour(state: Any, tank: p.Index, amount: float) -> None:
    """Put water into a tank, in m3; what does not fit overflows."""
    state.account[tank, p.INFLOW] += amount
    full = p.HEIGHT_MM * p.AREA_M2[tank] / 1000.0
    volume = state.volume[tank] + amount
    if volume > full:
        state.account[tank, p.OVERFLOW] += volume - full
        volume = full
    state.volume[tank] = volume


@njit(cache=True)
def _mix(
    state: Any, body: p.Index, volume: float, amount: float, source: Floats
) -> None:
    """Mix an amount of water of quality `source` into a body of water."""
    if amount > 0.0:
        share = amount / (volume + amount)
        for k in range(4):
            state.water[body, k] += share * (source[k] - state.water[body, k])


@njit(cache=True)
def _treat_in(state: Any, conditions: p.Conditions, passing: Floats) -> None:
    """Move the water of P1 to P3 with what is dissolved in it.

    Raw water has a mean, a daily wave, a drift and a disturbance for each quality. The
    dosing pumps add salt, acid and chlorine to what leaves T101. The cake on the UF
    membrane grows with the filtered volume and the turbidity, and shrinks by the factor
    ``exp(-washed / CAKE_WASHED_M3)`` during a backwash.
    """
    at, water = state.position, state.water
    daily = _daily(state.clock, 15.0)
    for k, outside in enumerate(
        (p.RAW_CONDUCTIVITY, p.RAW_PH, p.RAW_ORP, p.RAW_HARDNESS)
    ):
        passing[k] = RAW_MEAN[k] + conditions.raw_shift[k] + RAW_DAILY[k] * daily
        passing[k] += SPREAD[outside] * state.disturbance[outside]
    amount = state.flow[p.Q_RAW] / HOUR_S
    state.bought += amount
    _mix(state, p.RAW, state.volume[p.T101], amount, passing)
    _pour(state, p.T101, amount)
    amount = _draw(state, p.T101, p.Q_TRANSFER)
    passing[p.CONDUCTIVITY] = water[p.RAW, p.CONDUCTIVITY] + SALT_DOSE * max(
        at[p.P201], at[p.P202]
    )
    passing[p.PH] = water[p.RAW, p.PH] + ACID_DOSE * max(at[p.P203], at[p.P204])
    passing[p.ORP] = water[p.RAW, p.ORP] + CHLORINE_DOSE * max(at[p.P205], at[p.P206])
    passing[p.HARDNESS] = water[p.RAW, p.HARDNESS]
    _mix(state, p.DOSED, DOSED_M3, amount, passing)
    _mix(state, p.FEED_UF, state.volume[p.T301], amount, water[p.DOSED])
    _pour(state, p.T301, amount)
    wasted = _draw(state, p.T301, p.Q_UF_DRAIN)
    filtered = _draw(state, p.T301, p.Q_UF)
    state.drained += wasted
    _mix(state, p.FEED_RO, state.volume[p.T401], filtered, state.water[p.FEED_UF])
    _pour(state, p.T401, filtered)
    washed = _draw(state, p.T602, p.Q_BACKWASH)
    state.drained += washed
    dirt = max(1.0 + SPREAD[p.TURBIDITY] * state.disturbance[p.TURBIDITY], 0.1)
    state.cake += CAKE_PER_M3 * conditions.cake_rate * dirt * (filtered + wasted)
    state.cake *= np.exp(-washed / CAKE_WASHED_M3)
    # The meter in the common line measures both ways out.
    state.flow[p.Q_UF] = (filtered + wasted) * HOUR_S


@njit(cache=True)
def _treat_out(state: Any, passing: Floats) -> None:
    """Move the water of P4 to P6 with what is dissolved in it.

    Bisulphite and UV lower the ORP. The permeate's conductivity approaches the salt
    passage of the membrane, higher at low flow. Permeate refills T602 first, then T601;
    it goes to drain while the PLC diverts it.
    """
    at, water, flow = state.position, state.water, state.flow
    amount = _draw(state, p.T401, p.Q_FEED)
    bisulphite = max(at[p.P403], at[p.P404])
    passing[:] = water[p.FEED_RO]
    passing[p.PH] += BISULPHITE_PH * bisulphite
    passing[p.ORP] += UV_DOSE * at[p.UV401] + BISULPHITE_DOSE * bisulphite
    _mix(state, p.DECHLORINATED, DECHLORINATED_M3, amount, passing)
    # Fresh RO feed mixes with the recycled part of the reject, which is saltier: its
    # conductivity follows from the salt balance of the membrane.
    passing[:] = water[p.DECHLORINATED]
    recycled = flow[p.Q_RECYCLE] / HOUR_S if amount > 0.0 else 0.0
    if recycled > 0.0:
        through = flow[p.Q_FEED] + flow[p.Q_RECYCLE]
        salt = water[p.PRESSED, p.CONDUCTIVITY] * through
        salt -= state.permeate_conductivity * flow[p.Q_PERMEATE]
        share = flow[p.Q_RECYCLE] / through
        passing[p.CONDUCTIVITY] *= 1.0 - share
        passing[p.CONDUCTIVITY] += share * max(salt, 0.0) / flow[p.Q_REJECT]
    _mix(state, p.PRESSED, PRESSED_M3, amount + recycled, passing)
    permeate = min(flow[p.Q_PERMEATE] / HOUR_S, amount)
    state.drained += amount - permeate
    if flow[p.Q_PERMEATE] > 0.05:
        thin = np.sqrt(1.27 / flow[p.Q_PERMEATE])
        salt = water[p.PRESSED, p.CONDUCTIVITY] * SALT_PASSAGE * thin
        state.permeate_conductivity += (salt - state.permeate_conductivity) / 60.0
    if state.latch[p.DIVERT] == 1:
        state.drained += permeate
        permeate = 0.0
    # A float valve fills the backwash tank first.
    refill = permeate * min(max((950.0 - _level(state, p.T602)) / 50.0, 0.0), 1.0)
    _pour(state, p.T602, refill)
    _pour(state, p.T601, permeate - refill)
    state.delivered += _draw(state, p.T601, p.Q_DEMAND)
    _pour(state, p.T101, _draw(state, p.T601, p.Q_RETURN))
    state.drained += _draw(state, p.T601, p.Q_CLEANING)


@njit(cache=True)
def move(state: Any, conditions: p.Conditions, noise: Floats, passing: Floats) -> None:
    """Advance water, pressure and chemistry by one second.

    Parameters
    ----------
    state : record
        The plant, changed in place.
    conditions : Conditions
        Wear, drift and set-points of the run.
    noise : array of shape (N_DISTURBANCES,)
        Standard normal draws.
    passing : array of shape (4,)
        Work space for the quality of passing water.
    """
    # Disturbances have unit variance and a memory of `MEMORY_S`; `SPREAD` scales them.
    for k in range(p.N_DISTURBANCES):
        state.disturbance[k] = KEEP[k] * state.disturbance[k] + STIR[k] * noise[k]
    _move_water_in(state, conditions)
    _move_water_out(state, conditions)
    _treat_in(state, conditions, passing)
    _treat_out(state, passing)
    for tank in range(p.N_TANKS):
        level = _level(state, tank)
        state.lowest[tank] = min(state.lowest[tank], level)
        state.highest[tank] = max(state.highest[tank], level)
