"""How the plant of test may differ from the plant of train."""

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from sightline.data.arrays import Floats
from sightline.errors import StreamError
from sightline.testbeds.waterworks.plant import (
    COLUMN,
    N_TAGS,
    SETPOINT_INDEX,
    SETPOINTS,
)

STRENGTHS = ("none", "mild", "strong")


class Conditions(NamedTuple):
    """What stays as it is during a run, in the form the compiled process takes."""

    raw_shift: Floats
    uf_resistance: float
    cake_rate: float
    ro_permeability: float
    pump_head: Floats
    bias: Floats
    setpoints: Floats


# For each option the change when mild and when strong.
_RAW_SHIFT = {
    "mild": (8.0, 0.1, 12.0, 6.0),
    "strong": (18.0, 0.25, 35.0, 18.0),
}
_FOULING = {"mild": (1.05, 1.1, 0.99), "strong": (1.3, 1.6, 0.92)}
_PUMP_HEAD = {
    "mild": {"P101": 0.97, "P302": 0.97, "P501": 0.985},
    "strong": {"P101": 0.9, "P302": 0.9, "P501": 0.95},
}
_BIAS = {
    "mild": {
        "LIT101": 4.0,
        "AIT201": 1.0,
        "AIT202": 0.02,
        "LIT401": -3.0,
        "FIT401": 0.008,
        "AIT504": 0.15,
        "PIT501": 0.6,
    },
    "strong": {
        "LIT101": 15.0,
        "AIT201": 4.0,
        "AIT202": 0.1,
        "LIT401": -12.0,
        "FIT401": 0.06,
        "AIT504": 0.8,
        "PIT501": 5.0,
    },
}
_SETPOINT = {
    "mild": {"LIT301.L": -20.0, "LIT301.H": -20.0, "AIT203.L": 8.0, "AIT203.H": 8.0},
    "strong": {
        "LIT301.L": -70.0,
        "LIT301.H": -70.0,
        "AIT203.L": 30.0,
        "AIT203.H": 30.0,
    },
}


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What changes between train and test; each is "none", "mild" or "strong".

    Parameters
    ----------
    raw_water : str
        Raw water gets saltier, more alkaline and harder.
    fouling : str
        The UF membrane resists more and clogs faster; the RO membrane passes less.
    pump_wear : str
        P101, P302 and P501 lose head.
    sensor_bias : str
        Seven instruments read off; the PLC reads what they read.
    setpoint : str
        T301's level and the chlorine's ORP are controlled to other set-points.

    Examples
    --------
    >>> Drift.of("mild").fouling
    'mild'
    """

    raw_water: str = "none"
    fouling: str = "none"
    pump_wear: str = "none"
    sensor_bias: str = "none"
    setpoint: str = "none"

    def __post_init__(self) -> None:
        """Refuse a strength that does not exist."""
        for field in fields(self):
            strength = getattr(self, field.name)
            if strength not in STRENGTHS:
                raise StreamError(
                    f"`{field.name}` must be one of {', '.join(STRENGTHS)}; "
                    f"got {strength!r}."
                )

    @classmethod
    def of(cls, text: str) -> "Drift":
        """Return a drift from ``"mild"`` or ``"fouling=strong,setpoint=mild"``."""
        known = [field.name for field in fields(cls)]
        if "=" not in text:
            return cls(**dict.fromkeys(known, text))
        chosen = {}
        for item in text.split(","):
            of, _, strength = (word.strip() for word in item.partition("="))
            if of not in known:
                raise StreamError(
                    f"drift is one of {', '.join(sorted(known))}; got {of!r}."
                )
            chosen[of] = strength
        return cls(**chosen)

    def __str__(self) -> str:
        """Name what drifts: "none", "mild", or "fouling mild, setpoint strong"."""
        strengths = {field.name: getattr(self, field.name) for field in fields(self)}
        if len(set(strengths.values())) == 1:
            return str(strengths["raw_water"])
        moved = [f"{name} {how}" for name, how in strengths.items() if how != "none"]
        return ", ".join(moved)


def conditions_of(drift: Drift) -> Conditions:
    """Return the conditions of a run under a drift."""
    resistance, cake_rate, permeability = _FOULING.get(drift.fouling, (1.0, 1.0, 1.0))
    pump_head, bias = np.ones(N_TAGS), np.zeros(N_TAGS)
    setpoints = np.array(list(SETPOINTS.values()))
    for name, head in _PUMP_HEAD.get(drift.pump_wear, {}).items():
        pump_head[COLUMN[name]] = head
    for name, shift in _BIAS.get(drift.sensor_bias, {}).items():
        bias[COLUMN[name]] = shift
    for name, shift in _SETPOINT.get(drift.setpoint, {}).items():
        setpoints[SETPOINT_INDEX[name]] += shift
    return Conditions(
        raw_shift=np.array(_RAW_SHIFT.get(drift.raw_water, (0.0,) * 4)),
        uf_resistance=resistance,
        cake_rate=cake_rate,
        ro_permeability=permeability,
        pump_head=pump_head,
        bias=bias,
        setpoints=setpoints,
    )
