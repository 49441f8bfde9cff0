"""The tags, instruments and set-points of the Tennessee Eastman process.

Names are those of the literature: XMEAS1 to XMEAS41 are measured, XMV1 to XMV12 are
manipulated. Units and noise are those of the model; nothing here imports it.
"""

import numpy as np

from sightline.data.recording import Role, Tag
from sightline.testbeds.twin.scenario import Vocabulary
from sightline.testbeds.twin.truth import CLEAR, Yardstick

# The model is integrated, and its controllers read, every 0.0005 h; a row is 20 steps.
CONTROL_H = 0.0005
CONTROL_S = 1.8
CONTROLS_A_ROW = 20
STEP_S = 36

# Each measurement: unit, standard deviation of its noise, unit of the process.
_MEASURED: tuple[tuple[str, float, str], ...] = (
    ("kscmh", 0.0012, "feed"),
    ("kg/h", 18.0, "feed"),
    ("kg/h", 22.0, "feed"),
    ("kscmh", 0.05, "feed"),
    ("kscmh", 0.2, "compressor"),
    ("kscmh", 0.21, "reactor"),
    ("kPa", 0.3, "reactor"),
    ("%", 0.5, "reactor"),
    ("degC", 0.01, "reactor"),
    ("kscmh", 0.0017, "separator"),
    ("degC", 0.01, "separator"),
    ("%", 1.0, "separator"),
    ("kPa", 0.3, "separator"),
    ("m3/h", 0.125, "separator"),
    ("%", 1.0, "stripper"),
    ("kPa", 0.3, "stripper"),
    ("m3/h", 0.115, "stripper"),
    ("degC", 0.01, "stripper"),
    ("kg/h", 1.15, "stripper"),
    ("kW", 0.2, "compressor"),
    ("degC", 0.01, "reactor"),
    ("degC", 0.01, "separator"),
    *(("mol%", noise, "reactor") for noise in (0.25, 0.1, 0.25, 0.1, 0.25, 0.025)),
    *(("mol%", noise, "separator") for noise in (0.25, 0.1, 0.25, 0.1, 0.25, 0.025)),
    *(("mol%", noise, "separator") for noise in (0.05, 0.05)),
    *(("mol%", noise, "stripper") for noise in (0.01, 0.01, 0.01, 0.5, 0.5)),
)
_MANIPULATED = (
    *("feed feed feed feed compressor separator separator stripper".split()),
    *("stripper reactor separator reactor".split()),
)
SENSORS = tuple(f"XMEAS{k}" for k in range(1, 42))
ACTUATORS = tuple(f"XMV{k}" for k in range(1, 13))
TAG_NAMES = (*SENSORS, *ACTUATORS)
DISTURBANCES = tuple(f"IDV{k}" for k in range(1, 29))

TAGS = (
    *(
        Tag(name=name, role=Role.SENSOR, stage=stage, unit=unit)
        for name, (unit, _, stage) in zip(SENSORS, _MEASURED, strict=True)
    ),
    *(
        Tag(name=name, role=Role.ACTUATOR, stage=stage, unit="%")
        for name, stage in zip(ACTUATORS, _MANIPULATED, strict=True)
    ),
)

# Set-points of the controllers: what they are called in `tep_studio`, and the values of
# the base case. HH are the limits of the two overrides.
SETPOINT_FIELDS = {
    "XMEAS7.SP": "reactor_pressure",
    "XMEAS8.SP": "reactor_level",
    "XMEAS9.SP": "reactor_temperature",
    "XMEAS12.SP": "separator_level",
    "XMEAS15.SP": "stripper_level",
    "XMEAS17.SP": "production_rate",
    "XMEAS40.SP": "pct_g",
}
OVERRIDES = {
    "XMEAS7.HH": "high_pressure_to_production",
    "XMEAS8.HH": "high_level_to_recycle",
}
SETPOINTS = {
    "XMEAS7.SP": 2705.0,
    "XMEAS8.SP": 75.0,
    "XMEAS9.SP": 120.4,
    "XMEAS12.SP": 50.0,
    "XMEAS15.SP": 50.0,
    "XMEAS17.SP": 22.949,
    "XMEAS40.SP": 53.724,
    "XMEAS7.HH": 2900.0,
    "XMEAS8.HH": 90.0,
}

# Measurements that no controller reads: forging them moves nothing else.
READ_BY_CONTROL = tuple(
    f"XMEAS{k}" for k in (1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 14, 15, 17, 23, 25)
)

VOCABULARY = Vocabulary(
    sensors=SENSORS,
    actuators=ACTUATORS,
    setpoints=SETPOINTS,
    disturbances=DISTURBANCES,
    states=(0.0, 100.0),
    whole=False,
    hint="0 to 100 (per cent)",
    step_s=STEP_S,
)
# An actuator is a position in per cent: one per cent is its unit.
_UNIT = np.array([*(noise for _, noise, _ in _MEASURED), *(1.0 for _ in ACTUATORS)])
YARDSTICK = Yardstick(
    tags=TAG_NAMES,
    unit=_UNIT,
    noise=CLEAR * _UNIT,
    step_s=STEP_S,
    block_s=900,
    shortest_cap_s=19_800,
)
