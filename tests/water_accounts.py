"""Water accounts of a simulated test, from the states of its plant before and after."""

from dataclasses import dataclass

from sightline.testbeds.waterworks.plant import INFLOW, OUTFLOW, OVERFLOW, UNMET


@dataclass(frozen=True)
class TankAccount:
    """What came and went, in m3, and the extreme levels since the start in mm."""

    inflow: float
    outflow: float
    overflow: float
    unmet: float
    change: float
    lowest: float
    highest: float

    @property
    def error(self):
        return self.inflow - self.outflow - self.overflow - self.change


@dataclass(frozen=True)
class WaterAccount:
    """The accounts of all tanks, and the raw water that is not found again."""

    tanks: tuple[TankAccount, ...]
    raw: float
    error: float


def water_of(made):
    """Return the account of test of a simulated waterworks."""
    first, last = (plant.state[0] for plant in (made._before_test, made._after_test))
    entries, change = (last[name] - first[name] for name in ("account", "volume"))
    tanks = tuple(
        TankAccount(
            *entries[k, [INFLOW, OUTFLOW, OVERFLOW, UNMET]],
            change[k],
            last["lowest"][k],
            last["highest"][k],
        )
        for k in range(len(change))
    )
    raw, used, drained = (
        last[name] - first[name] for name in ("bought", "delivered", "drained")
    )
    spilt = sum(tank.overflow for tank in tanks)
    return WaterAccount(tanks, raw, raw - used - drained - spilt - change.sum())


def network_water_of(made):
    """Return what a network was supplied with in test, and what is not found again."""
    first, last = made._before_test.state, made._after_test.state
    supplied = last.supplied - first.supplied
    change = last.volume - first.volume
    return supplied, supplied - (last.delivered - first.delivered) - change
