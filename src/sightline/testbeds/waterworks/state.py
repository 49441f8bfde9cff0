"""The whole state of the plant as one record, so that a snapshot is one copy."""

import hashlib
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.testbeds.waterworks.plant import (
    ACTUATORS,
    AREA_M2,
    COLUMN,
    HEIGHT_MM,
    N_TAGS,
    N_TANKS,
    OFF,
)

# An array of one record: numpy copies it whole, numba reads its fields by name.
State = npt.NDArray[np.void]

# Bodies of water that mix: three tanks, and the contactors after each dosing point.
RAW, DOSED, FEED_UF, FEED_RO, DECHLORINATED, PRESSED = np.arange(6)
N_BODIES = 6
CONDUCTIVITY, PH, ORP, HARDNESS = range(4)

# Slow and fast random movements from outside.
(
    RAW_CONDUCTIVITY, RAW_PH, RAW_ORP, RAW_HARDNESS,
    INLET_SLOW, INLET_FAST, DEMAND, GRID, TURBIDITY,
) = np.arange(9)  # fmt: skip
N_DISTURBANCES = 9

# What the PLC remembers between steps.
(
    INLET, TRANSFER, T101_LOW, UF_WANTED, T301_LOW, T401_LOW,
    SALT, ACID, CHLORINE, BISULPHITE, RO_TRIP, DIVERT, RETURN,
) = np.arange(13)  # fmt: skip
N_LATCHES = 13

# Seconds a condition has held: one for each duty pump, then the trips.
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

# What an account of a tank counts, in m3; UNMET is what a pump could not draw.
INFLOW, OUTFLOW, OVERFLOW, UNMET = range(4)

# What compiled code has inside, functions and constants.
SOURCES = (
    "controller.py",
    "drift.py",
    "physics.py",
    "plant.py",
    "process.py",
    "scenario.py",
    "state.py",
)


def _digest_of_sources() -> str:
    """Return a name for the present text of the sources.

    Compiled code is cached by the date of its own file only, but has code and constants
    of other files inside. It is cached for a type of state too: a field named after the
    sources makes code of other sources a type that the cache does not have.
    """
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(files(__package__).joinpath(name).read_bytes())
    return f"sources_{digest.hexdigest()[:16]}"


_FIELDS: list[Any] = [
    (_digest_of_sources(), np.int8),
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
    """Return a plant at rest, its levels and disturbances drawn from the seed."""
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
    for name in ACTUATORS:
        state["drive"][0, COLUMN[name]] = OFF
        state["command"][0, COLUMN[name]] = OFF
    start_accounts(state)
    return state


def start_accounts(state: State) -> None:
    """Begin the water accounts and the extremes of the levels anew."""
    state["account"] = 0.0
    for counter in ("bought", "delivered", "drained"):
        state[counter] = 0.0
    state["lowest"] = HEIGHT_MM
    state["highest"] = 0.0
