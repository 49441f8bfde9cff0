"""The facts of the plant: tags, tanks, set-points, instruments.

Nothing here moves. The process (physics.py), its controller (controller.py) and its
instruments (process.py) read these facts; compiled code holds indices as constants.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.data.arrays import Floats
from sightline.data.recording import Role, Tag

# A column, a tank, a place in an array: Python's integer or numpy's.
Index = int | np.integer[Any]

# Codes of the SWaT historian.
MOVING, CLOSED, OPEN = 0, 1, 2
OFF, ON = CLOSED, OPEN

# The 51 tags in SWaT's order; each name is the column of its tag. Numpy's integers: for
# Python's own, a compiled function is made anew for each value it is called with.
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


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """A sensor: what it measures, and how well."""

    unit: str
    noise: float
    quantum: float


# Standard deviation of the white noise, and the step of the reading.
INSTRUMENTS = {
    "FIT101": Instrument(unit="m3/h", noise=0.02, quantum=0.005),
    "LIT101": Instrument(unit="mm", noise=0.6, quantum=0.1),
    "AIT201": Instrument(unit="uS/cm", noise=0.4, quantum=0.1),
    "AIT202": Instrument(unit="pH", noise=0.01, quantum=0.005),
    "AIT203": Instrument(unit="mV", noise=1.0, quantum=0.2),
    "FIT201": Instrument(unit="m3/h", noise=0.015, quantum=0.005),
    "DPIT301": Instrument(unit="kPa", noise=0.15, quantum=0.02),
    "FIT301": Instrument(unit="m3/h", noise=0.015, quantum=0.005),
    "LIT301": Instrument(unit="mm", noise=0.6, quantum=0.1),
    "AIT401": Instrument(unit="mg/l", noise=0.5, quantum=0.1),
    "AIT402": Instrument(unit="mV", noise=1.0, quantum=0.2),
    "FIT401": Instrument(unit="m3/h", noise=0.01, quantum=0.002),
    "LIT401": Instrument(unit="mm", noise=0.6, quantum=0.1),
    "AIT501": Instrument(unit="pH", noise=0.004, quantum=0.002),
    "AIT502": Instrument(unit="mV", noise=1.0, quantum=0.2),
    "AIT503": Instrument(unit="uS/cm", noise=0.2, quantum=0.05),
    "AIT504": Instrument(unit="uS/cm", noise=0.06, quantum=0.02),
    "FIT501": Instrument(unit="m3/h", noise=0.01, quantum=0.002),
    "FIT502": Instrument(unit="m3/h", noise=0.008, quantum=0.002),
    "FIT503": Instrument(unit="m3/h", noise=0.006, quantum=0.002),
    "FIT504": Instrument(unit="m3/h", noise=0.004, quantum=0.001),
    "PIT501": Instrument(unit="kPa", noise=0.6, quantum=0.1),
    "PIT502": Instrument(unit="kPa", noise=0.02, quantum=0.01),
    "PIT503": Instrument(unit="kPa", noise=0.6, quantum=0.1),
    "FIT601": Instrument(unit="m3/h", noise=0.01, quantum=0.002),
}

TAG_NAMES = (
    "FIT101 LIT101 MV101 P101 P102 "
    "AIT201 AIT202 AIT203 FIT201 MV201 P201 P202 P203 P204 P205 P206 "
    "DPIT301 FIT301 LIT301 MV301 MV302 MV303 MV304 P301 P302 "
    "AIT401 AIT402 FIT401 LIT401 P401 P402 P403 P404 UV401 "
    "AIT501 AIT502 AIT503 AIT504 FIT501 FIT502 FIT503 FIT504 "
    "P501 P502 PIT501 PIT502 PIT503 "
    "FIT601 P601 P602 P603"
).split()
COLUMN = {name: column for column, name in enumerate(TAG_NAMES)}
SENSORS = tuple(name for name in TAG_NAMES if name in INSTRUMENTS)
ACTUATORS = tuple(name for name in TAG_NAMES if name not in INSTRUMENTS)
VALVES = tuple(name for name in ACTUATORS if name.startswith("MV"))


def _tag(name: str) -> Tag:
    stage = f"P{name[-3]}"
    if name in INSTRUMENTS:
        unit = INSTRUMENTS[name].unit
        return Tag(name=name, role=Role.SENSOR, stage=stage, unit=unit)
    return Tag(name=name, role=Role.ACTUATOR, stage=stage, unit="state")


TAGS = tuple(_tag(name) for name in TAG_NAMES)

# Columns the compiled loops run over.
SENSOR_COLUMNS = np.array([COLUMN[name] for name in SENSORS])
VALVE_COLUMNS = np.array([COLUMN[name] for name in VALVES])
PUMP_COLUMNS = np.array([COLUMN[name] for name in ACTUATORS if name not in VALVES])

# Tanks. P6 has no level tag, as in SWaT: its levels show only in what they cause.
T101, T301, T401, T601, T602 = np.arange(5)
N_TANKS = 5
TANK_NAMES = ("T101", "T301", "T401", "T601", "T602")
AREA_M2 = np.array([1.5, 1.5, 1.5, 2.0, 0.6])
HEIGHT_MM = 1300.0

# What the PLC compares readings with. An attacker, and drift, may change each.
SETPOINTS: dict[str, float] = {
    "LIT101.LL": 250.0,
    "LIT101.L": 500.0,
    "LIT101.H": 800.0,
    "LIT101.HH": 1200.0,
    "LIT301.LL": 250.0,
    "LIT301.L": 800.0,
    "LIT301.H": 1000.0,
    "LIT301.HH": 1200.0,
    "LIT401.LL": 250.0,
    "LIT401.L": 800.0,
    "LIT401.H": 1000.0,
    "LIT401.HH": 1200.0,
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


def noise_by_column() -> Floats:
    """Return the noise's standard deviation of each tag; 0 for actuators."""
    return _by_column("noise")


def quantum_by_column() -> Floats:
    """Return the step of each tag's reading; 0 for actuators."""
    return _by_column("quantum")


def _by_column(field: str) -> Floats:
    values = np.zeros(N_TAGS)
    for name, instrument in INSTRUMENTS.items():
        values[COLUMN[name]] = getattr(instrument, field)
    return values


def unit_by_column() -> Floats:
    """Return what one unit of a standardised effect is, for each tag.

    For a sensor: the standard deviation of its own reading of a still value, noise and
    rounding together. For an actuator: 1, so that off to on, or closed to open, is 1.
    """
    rounding = quantum_by_column() / np.sqrt(12.0)
    spread = np.hypot(noise_by_column(), rounding)
    return np.where(spread > 0, spread, 1.0)
