"""Water accounts of a run: nothing is made, nothing is lost."""

from dataclasses import dataclass

from sightline.data.arrays import Floats
from sightline.testbeds.waterworks.plant import HEIGHT_MM, TANK_NAMES
from sightline.testbeds.waterworks.state import (
    INFLOW,
    OUTFLOW,
    OVERFLOW,
    UNMET,
    State,
)


@dataclass(frozen=True, kw_only=True)
class TankBalance:
    """What a tank held, took in and gave, in m3; and its extreme levels in mm.

    `unmet_m3` is what pumps tried to draw from the empty tank.
    """

    tank: str
    first_m3: float
    last_m3: float
    inflow_m3: float
    outflow_m3: float
    overflow_m3: float
    unmet_m3: float
    lowest_mm: float
    highest_mm: float

    @property
    def error_m3(self) -> float:
        """What is missing in the account: 0 but for rounding."""
        change = self.last_m3 - self.first_m3
        return self.inflow_m3 - self.outflow_m3 - self.overflow_m3 - change

    @property
    def is_safe(self) -> bool:
        """Whether it neither overflowed nor ran dry."""
        return 0.0 < self.lowest_mm and self.highest_mm < HEIGHT_MM


@dataclass(frozen=True, kw_only=True)
class WaterBalance:
    """The accounts of all tanks, and what entered and left the plant, in m3."""

    tanks: tuple[TankBalance, ...]
    raw_m3: float
    delivered_m3: float
    drained_m3: float

    @property
    def error_m3(self) -> float:
        """What is missing in the account of the whole plant: 0 but for rounding."""
        change = sum(tank.last_m3 - tank.first_m3 for tank in self.tanks)
        spilt = sum(tank.overflow_m3 for tank in self.tanks)
        return self.raw_m3 - self.delivered_m3 - self.drained_m3 - spilt - change


def balance_of(state: State, opened: Floats) -> WaterBalance:
    """Return the accounts in a state whose volumes were `opened` at their start."""
    record = state[0]
    tanks = tuple(
        TankBalance(
            tank=name,
            first_m3=float(opened[k]),
            last_m3=float(record["volume"][k]),
            inflow_m3=float(record["account"][k, INFLOW]),
            outflow_m3=float(record["account"][k, OUTFLOW]),
            overflow_m3=float(record["account"][k, OVERFLOW]),
            unmet_m3=float(record["account"][k, UNMET]),
            lowest_mm=float(record["lowest"][k]),
            highest_mm=float(record["highest"][k]),
        )
        for k, name in enumerate(TANK_NAMES)
    )
    return WaterBalance(
        tanks=tanks,
        raw_m3=float(record["bought"]),
        delivered_m3=float(record["delivered"]),
        drained_m3=float(record["drained"]),
    )
