"""The plant's tags, tanks, set-points and instruments, its state.

The state is one record. Nothing in this module runs the plant.
physics.py and process.py import it as ``p`` and compile its constants into their code.

Fields of the state, which is an array of one record, so that a snapshot is one copy:

=====================  ==========================================================
clock                  seconds since midnight of the day before train
volume                 water in each tank, m3
water                  conductivity, pH, ORP and hardness of each body of water
permeate_conductivity  of the RO permeate, uS/cm
disturbance            random movements from outside, unit variance
command, drive         what the PLC commands each actuator, and its real state
position               opening of each valve, speed of each pump, 0 to 1
truth, reading         true value and reading of each tag
cake                   resistance of the cake on the UF membrane, kPa h/m3
ro_pressure, ro_speed  RO pressure in kPa, relative speed of its pump
uf_phase, filtered_s   phase of the UF sequence, seconds filtered since a backwash
latch, timer           flags and counters of the PLC
flow                   true flows, m3/h
account                inflow, outflow, overflow and unmet demand of each tank, m3
bought, delivered,     water taken in, given to consumers and drained, m3
drained
lowest, highest        extreme levels of each tank, mm
=====================  ==========================================================
"""

import hashlib
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.data.recording import Role
from sightline.testbeds.base import tags_of
from sightline.testbeds.twin.scenario import Rows, Vocabulary
from sightline.testbeds.twin.simulation import (
    CLEAR,
    Yardstick,
    instruments_of,
    sensor_units,
)

# A column, a tank, a place in an array: Python's integer or numpy's.
Index = int | np.integer[Any]
# An array of one record: numpy copies it as a whole, numba reads its fields by name.
State = npt.NDArray[np.void]

# Codes of the SWaT historian.
MOVING, CLOSED, OPEN = 0, 1, 2
OFF, ON = CLOSED, OPEN

# The 51 tags in SWaT's order; each name is the column of its tag. They are numpy's
# integers, because numba compiles a function again for each Python integer it is
# called with.
(
    FIT101, LIT101, MV101, P101, P102,
    AIT201, AIT202, AIT203, FIT201, MV201, P201, P202, P203, P204, P205, P206,
    DPIT301, FIT301, LIT301, MV301, MV302, MV303, MV304, P301, P302,
    AIT401, AIT402, FIT401, LIT401, P401, P402, P403, P404, UV401,
    AIT501, AIT502, AIT503, AIT504, FIT501, FIT502, FIT503, FIT504,
    P501, P502, PIT501, PIT502, PIT503,
    FIT601, P601, P602, P603,
) = np.arange(51)  # fmt: skip
N_TAGS = 51


TAGS = tags_of("waterworks")
TAG_NAMES = tuple(tag.name for tag in TAGS)
COLUMN = {name: column for column, name in enumerate(TAG_NAMES)}
SENSORS = tuple(tag.name for tag in TAGS if tag.role is Role.SENSOR)
ACTUATORS = tuple(tag.name for tag in TAGS if tag.role is Role.ACTUATOR)
VALVES = tuple(name for name in ACTUATORS if name.startswith("MV"))
# White noise (standard deviation) and rounding of each tag; 0 for actuators.
NOISE, QUANTUM = instruments_of("waterworks", TAGS)
# The unit of an effect. For an actuator it is 1: off to on, or closed to open.
UNIT = sensor_units(NOISE, QUANTUM)

# Columns over which compiled loops run.
SENSOR_COLUMNS = np.array([COLUMN[name] for name in SENSORS])
VALVE_COLUMNS = np.array([COLUMN[name] for name in VALVES])
PUMP_COLUMNS = np.array([COLUMN[name] for name in ACTUATORS if name not in VALVES])

# Tanks. P6 has no level tag, as in SWaT: only its effects are recorded.
T101, T301, T401, T601, T602 = np.arange(5)
N_TANKS = 5
AREA_M2 = np.array([1.5, 1.5, 1.5, 2.0, 0.6])
HEIGHT_MM = 1300.0

# Limits with which the PLC compares readings. Attackers and drift may change them.
_LEVEL_LIMITS_MM = {
    "LIT101": (250.0, 500.0, 800.0, 1200.0),
    "LIT301": (250.0, 800.0, 1000.0, 1200.0),
    "LIT401": (250.0, 800.0, 1000.0, 1200.0),
}
SETPOINTS: dict[str, float] = {
    f"{tag}.{name}": limit
    for tag, limits in _LEVEL_LIMITS_MM.items()
    for name, limit in zip(("LL", "L", "H", "HH"), limits, strict=True)
} | {
    "AIT201.L": 248.0,
    "AIT201.H": 256.0,
    "AIT202.L": 6.9,
    "AIT202.H": 7.1,
    "AIT203.L": 420.0,
    "AIT203.H": 460.0,
    "AIT402.L": 205.0,
    "AIT402.H": 240.0,
    "AIT502.H": 400.0,
    "AIT504.H": 30.0,
    "DPIT301.H": 40.0,
    "FIT201.L": 1.0,
    "FIT401.L": 0.5,
    "P602.INTERVAL": 1800.0,
}
(
    LIT101_LL, LIT101_L, LIT101_H, LIT101_HH,
    LIT301_LL, LIT301_L, LIT301_H, LIT301_HH,
    LIT401_LL, LIT401_L, LIT401_H, LIT401_HH,
    AIT201_L, AIT201_H, AIT202_L, AIT202_H, AIT203_L, AIT203_H,
    AIT402_L, AIT402_H, AIT502_H, AIT504_H, DPIT301_H, FIT201_L, FIT401_L,
    P602_INTERVAL,
) = np.arange(26)  # fmt: skip
SETPOINT_INDEX = {name: index for index, name in enumerate(SETPOINTS)}


# What attackers can act on, and how the effect is measured.
VOCABULARY = Vocabulary(
    sensors=SENSORS,
    actuators=ACTUATORS,
    setpoints=SETPOINTS,
    states=(OFF, ON),
    hint="1 (off or closed) or 2 (on or open)",
)
YARDSTICK = Yardstick(
    tags=TAG_NAMES,
    unit=UNIT,
    noise=np.where(NOISE > 0, CLEAR * UNIT, 0.5),
    step_s=1,
    block_s=120,
    shortest_cap_s=3600,
)


class Conditions(NamedTuple):
    """What stays constant during a run, in the form the compiled process reads.

    Parameters
    ----------
    raw_shift : array of shape (4,)
        Added to conductivity, pH, ORP and hardness of the raw water.
    uf_resistance, cake_rate, ro_permeability : float
        Factors on the resistance of the UF membrane, the growth of its cake, and the
        permeability of the RO membrane.
    pump_head : array of shape (51,)
        Factor on the head of each pump; 1 for all other tags.
    bias : array of shape (51,)
        Added to each sensor's reading.
    setpoints : array of shape (26,)
        Values of `SETPOINTS`, in their order.
    """

    raw_shift: Floats
    uf_resistance: float
    cake_rate: float
    ro_permeability: float
    pump_head: Floats
    bias: Floats
    setpoints: Floats


def empty_rows(n_steps: int) -> Rows:
    """Return uninitialised memory for the readings of a run."""
    return np.empty((n_steps, N_TAGS), np.float32)


# Bodies of water that mix: three tanks, and the contactors after each dosing point.
RAW, DOSED, FEED_UF, FEED_RO, DECHLORINATED, PRESSED = np.arange(6)
N_BODIES = 6
CONDUCTIVITY, PH, ORP, HARDNESS = range(4)

# Slow and fast random disturbances from outside.
(
    RAW_CONDUCTIVITY, RAW_PH, RAW_ORP, RAW_HARDNESS,
    INLET_SLOW, INLET_FAST, DEMAND, GRID, TURBIDITY,
) = np.arange(9)  # fmt: skip
N_DISTURBANCES = 9

# Flags that the PLC keeps between steps.
(
    INLET, TRANSFER, T101_LOW, UF_WANTED, T301_LOW, T401_LOW,
    SALT, ACID, CHLORINE, BISULPHITE, RO_TRIP, DIVERT, RETURN,
) = np.arange(13)  # fmt: skip
N_LATCHES = 13

# Seconds for which a condition has held: one for each duty pump, then the trips.
(
    WAIT_P101, WAIT_P201, WAIT_P203, WAIT_P205, WAIT_P302, WAIT_P402, WAIT_P403,
    WAIT_P501, LOW_FLOW, HIGH_ORP, HIGH_SALT, HIGH_DP, RESTART, UF_PHASE_S,
) = np.arange(14)  # fmt: skip
N_TIMERS = 14

# Phases of the ultrafiltration sequence.
IDLE, FILTER, STOP, BACKWASH, DRAIN, REST = np.arange(6)

# True flows in m3/h.
(
    Q_RAW, Q_TRANSFER, Q_UF, Q_UF_DRAIN, Q_BACKWASH, Q_FEED, Q_PERMEATE, Q_REJECT,
    Q_RECYCLE, Q_DEMAND, Q_RETURN, Q_CLEANING,
) = np.arange(12)  # fmt: skip
N_FLOWS = 12

# Entries of a tank's account, in m3; UNMET is what a pump could not draw.
INFLOW, OUTFLOW, OVERFLOW, UNMET = range(4)

# Files whose functions and constants are compiled, and the table of the instruments.
SOURCES = (
    "instruments.csv",
    "twin/scenario.py",
    "waterworks/physics.py",
    "waterworks/plant.py",
    "waterworks/process.py",
)


# numba's cache checks the date of a function's own file only, but compiled code has
# functions and constants of other files. The cache also depends on the type of the
# state: with a field named after all sources, changed sources make a new type.
_TEXTS = [files("sightline.testbeds").joinpath(name).read_bytes() for name in SOURCES]
_FIELDS: list[Any] = [
    (f"sources_{hashlib.sha256(b''.join(_TEXTS)).hexdigest()[:16]}", np.int8),
    ("clock", np.int64),
    ("volume", np.float64, (N_TANKS,)),
    ("water", np.float64, (N_BODIES, 4)),
    ("permeate_conductivity", np.float64),
    ("disturbance", np.float64, (N_DISTURBANCES,)),
    ("position", np.float64, (N_TAGS,)),
    ("command", np.int64, (N_TAGS,)),
    ("drive", np.int64, (N_TAGS,)),
    ("reading", np.float64, (N_TAGS,)),
    ("truth", np.float64, (N_TAGS,)),
    ("cake", np.float64),
    ("ro_pressure", np.float64),
    ("ro_speed", np.float64),
    ("uf_phase", np.int64),
    ("filtered_s", np.float64),
    ("latch", np.int64, (N_LATCHES,)),
    ("timer", np.int64, (N_TIMERS,)),
    ("flow", np.float64, (N_FLOWS,)),
    ("account", np.float64, (N_TANKS, 4)),
    ("bought", np.float64),
    ("delivered", np.float64),
    ("drained", np.float64),
    ("lowest", np.float64, (N_TANKS,)),
    ("highest", np.float64, (N_TANKS,)),
]
STATE_TYPE = np.dtype(_FIELDS, align=True)

_FIRST_WATER = np.array(
    [
        [230.0, 8.1, 300.0, 150.0],
        [252.0, 7.0, 440.0, 150.0],
        [252.0, 7.0, 440.0, 150.0],
        [252.0, 7.0, 440.0, 150.0],
        [252.0, 6.95, 222.0, 150.0],
        [252.0, 6.95, 222.0, 150.0],
    ]
)


def first_state(seed: int, clock: int) -> State:
    """Return a plant at rest; levels and disturbances are drawn from the seed.

    Parameters
    ----------
    seed : int
        The same seed gives the same state.
    clock : int
        Seconds of the day at which the plant starts.
    """
    draws = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    state = np.zeros(1, STATE_TYPE)
    low = np.array([550.0, 820.0, 820.0, 600.0, 900.0])
    high = np.array([780.0, 980.0, 980.0, 800.0, 950.0])
    state["clock"] = clock
    state["volume"] = draws.uniform(low, high) * AREA_M2 / 1000.0
    state["water"] = _FIRST_WATER
    state["permeate_conductivity"] = 11.0
    state["disturbance"] = draws.standard_normal(N_DISTURBANCES)
    state["ro_speed"] = 1.0
    state["filtered_s"] = draws.uniform(0.0, 1800.0)
    for columns in (VALVE_COLUMNS, PUMP_COLUMNS):
        state["drive"][0, columns] = state["command"][0, columns] = OFF
    state["lowest"] = HEIGHT_MM
    return state
