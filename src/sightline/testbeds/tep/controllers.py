"""Ricker's decentralised controllers for mode 1, as `tep_studio` writes them down.

Loops, gains, limits and ratios are read from its registry. Only the arithmetic is ours,
because it runs 48,000 times a day; a test compares it with `tep_studio`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from types import ModuleType
from typing import Any

import numpy as np

from sightline.data.arrays import Floats
from sightline.testbeds.tep import plant as p

# A loop acts when its time has come, up to rounding; in hours.
_TOLERANCE_H = 1e-9
_A, _C, _PRESSURE, _LEVEL = 22, 24, 6, 7
_RECYCLE = 4


class Loop:
    """One PI controller in velocity form: where it is, and what it was made with.

    Parameters
    ----------
    spec : PILoopSpec or RatioLoopSpec
        Its numbers in the registry.
    column : int
        The measurement it reads.
    """

    def __init__(self, spec: Any, column: int) -> None:
        self.column = column
        self.gain, self.reset_h, self.every_h = spec.kc, spec.ti_hours, spec.ts_hours
        self.low, self.high = getattr(spec, "lo", 0.0), getattr(spec, "hi", 0.0)
        self.output = min(max(float(spec.x0), self.low), self.high)
        self.error = 0.0
        self.last_h = -self.every_h

    def change(self, setpoint: float, measured: float, time_h: float) -> float:
        """Return by how much the output changes now."""
        elapsed = time_h - self.last_h
        if elapsed < self.every_h - _TOLERANCE_H:
            return 0.0
        error = setpoint - measured
        change = self.gain * (error - self.error + (elapsed / self.reset_h) * error)
        self.error, self.last_h = error, time_h
        return float(change)

    def act(self, setpoint: float, readings: list[float], time_h: float) -> float:
        """Return the output, within its limits."""
        if time_h - self.last_h >= self.every_h - _TOLERANCE_H:
            change = self.change(setpoint, readings[self.column], time_h)
            self.output = min(max(self.output + change, self.low), self.high)
        return self.output


class Controllers:
    """All loops of the plant.

    Parameters
    ----------
    registry : module
        ``tep_studio.control.registry``.
    schema : module
        ``tep_studio.simulation.schema``, which names the measurements.
    measured : array of shape (41,)
        The base case, which the set-points keep.
    """

    def __init__(
        self, registry: ModuleType, schema: ModuleType, measured: Floats
    ) -> None:
        ricker, names = registry.RICKER_MODE1, schema.TEP_SCHEMA
        self._nominal = ricker.nominal
        self._loops = {
            field: Loop(
                getattr(ricker, field),
                names.index("measurements", getattr(ricker, field).pv),
            )
            for field in (
                "production",
                "reactor_level",
                "reactor_pressure",
                "reactor_temperature",
                "separator_level",
                "separator_temperature",
                "stripper_level",
            )
        }
        self._velocity = {"ya": Loop(ricker.ya, -1), "yac": Loop(ricker.yac, -1)}
        self._feeds = [
            (
                Loop(spec, names.index("measurements", spec.pv)),
                spec.ratio_key,
                names.index("manipulated_variables", spec.mv),
            )
            for spec in ricker.feed_loops
        ]
        self._static = {
            names.index("manipulated_variables", name): value
            for name, value in ricker.nominal.static_mv.items()
        }
        self._overrides = {one.name: one for one in ricker.overrides}
        self._ratios = dict(ricker.nominal.ratios)
        self.setpoints = self._first_setpoints(measured)
        self._production = self.setpoints["production_rate"]
        self._product_g = self.setpoints["pct_g"]
        self._time_h = 0.0

    def _first_setpoints(self, measured: Floats) -> dict[str, float]:
        """Return the set-points: the base case, and the limits of the overrides."""
        found = {
            field: float(measured[p.SENSORS.index(name.split(".")[0])])
            for name, field in p.SETPOINT_FIELDS.items()
        }
        a, c = float(measured[_A]), float(measured[_C])
        found |= {"ya": 100.0 * a / (a + c), "yac": a + c}
        return found | {name: one.threshold for name, one in self._overrides.items()}

    def copy(self) -> Controllers:
        """Return controllers in the same state."""
        twin = copy(self)
        twin._loops = {name: copy(loop) for name, loop in self._loops.items()}
        twin._velocity = {name: copy(loop) for name, loop in self._velocity.items()}
        twin._feeds = [(copy(loop), key, k) for loop, key, k in self._feeds]
        twin._ratios, twin.setpoints = dict(self._ratios), dict(self.setpoints)
        return twin

    def commands(self, reading: Floats, time_h: float) -> Floats:
        """Return the twelve manipulated variables for what is read now.

        Parameters
        ----------
        reading : array of shape (41,)
            The measurements, which may be forged.
        time_h : float
            Hours since the base case.
        """
        read, goal, loops = reading.tolist(), self.setpoints, self._loops
        index = self._production_index(read, time_h)
        self._trim_feeds(read, time_h)
        ratios, nominal = self._ratios, self._nominal
        ratios["r2"] = _polynomial(nominal.p2_coeffs, self._product_g)
        ratios["r3"] = _polynomial(nominal.p3_coeffs, self._product_g)

        def act(field: str, setpoint: float) -> float:
            return loops[field].act(setpoint, read, time_h)

        separator_goal = act("reactor_level", goal["reactor_level"])
        ratios["r6"] = act("separator_level", goal["separator_level"])
        ratios["r7"] = act("stripper_level", goal["stripper_level"])
        ratios["r5"] = act("reactor_pressure", goal["reactor_pressure"])
        commands = [0.0] * len(p.ACTUATORS)
        commands[10] = act("separator_temperature", separator_goal)
        commands[9] = act("reactor_temperature", goal["reactor_temperature"])
        for loop, key, place in self._feeds:
            commands[place] = loop.act(ratios[key] * index, read, time_h)
        for place, value in self._static.items():
            commands[place] = value
        level = self._overrides["high_level_to_recycle"]
        excess = read[_LEVEL] - goal[level.name]
        commands[_RECYCLE] -= level.gain * max(0.0, excess)
        return np.clip(commands, 0.0, 100.0)

    def _production_index(self, read: list[float], time_h: float) -> float:
        """Return the production index that scales all feeds; targets move slowly."""
        elapsed, self._time_h = max(0.0, time_h - self._time_h), time_h
        nominal, goal = self._nominal, self.setpoints
        self._production = _towards(
            self._production,
            goal["production_rate"],
            nominal.production_sp_rate_limit * elapsed,
        )
        self._product_g = _towards(
            self._product_g, goal["pct_g"], nominal.pct_g_sp_rate_limit * elapsed
        )
        adjustment = self._loops["production"].act(self._production, read, time_h)
        pressure = self._overrides["high_pressure_to_production"]
        excess = read[_PRESSURE] - goal[pressure.name]
        cut = min(0.0, -pressure.gain * max(0.0, excess))
        return float(nominal.fp_base + adjustment + cut)

    def _trim_feeds(self, read: list[float], time_h: float) -> None:
        """Trim the feeds of A and of A and C by the two analysers."""
        a, c = read[_A], read[_C]
        share = 100.0 * a / (a + c) if a + c else 0.0
        goal = self.setpoints
        by_a = self._velocity["ya"].change(goal["ya"], share, time_h)
        by_ac = self._velocity["yac"].change(goal["yac"], a + c, time_h)
        self._ratios["r1"] += by_a
        self._ratios["r4"] += by_ac - by_a


def _polynomial(coefficients: tuple[float, ...], at: float) -> float:
    """Return a polynomial, the highest power first."""
    value = 0.0
    for coefficient in coefficients:
        value = value * at + coefficient
    return value


def _towards(current: float, goal: float, step: float) -> float:
    """Return a value that moves towards a goal by at most a step."""
    return min(goal, current + step) if goal >= current else max(goal, current - step)


def changed(
    setpoints: Mapping[str, float], changes: Mapping[str, float]
) -> dict[str, float]:
    """Return set-points with those that an attacker changed, named as tags."""
    fields = {**p.SETPOINT_FIELDS, **p.OVERRIDES}
    return {**setpoints, **{fields[tag]: value for tag, value in changes.items()}}
