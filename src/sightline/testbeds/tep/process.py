"""The Tennessee Eastman process with its controllers, run row by row.

Physics, noise, disturbances and the strategy of control are those of `tep_studio`: the
model of Downs and Vogel as revised by Bathelt, Ricker and Jelali, and Ricker's
decentralised controllers for mode 1. Ours is the attacker between them: the controllers
read forged measurements, and what they command may be replaced.

`Model` calls the C functions of `tep_studio` without the bookkeeping of its Python
class, which takes most of the time. `Controllers` reads loops, gains, limits and ratios
from its registry; only the arithmetic is ours, because it runs 48,000 times a day.
Tests compare both with `tep_studio`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import lru_cache
from types import ModuleType
from typing import Any, Self

import numpy as np

from sightline.data.arrays import Floats, require
from sightline.errors import StreamError
from sightline.testbeds.tep import plant as p
from sightline.testbeds.twin.scenario import (
    Action,
    ActionKind,
    PlannedAttack,
    Rows,
    forged_reading,
)
from sightline.testbeds.twin.simulation import TwinPlant

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


_N_STATES, _N_SENSORS = 50, 41
# Lengths of the outputs besides the measurements: additional measurements, monitors of
# disturbances, of the process and of concentrations.
_OTHERS = (32, 21, 62, 96)


class Model:
    """The plant between two control steps; changed in place by `advance`.

    Parameters
    ----------
    native : module
        ``tep_studio.simulation.native``, which holds the compiled functions.

    Attributes
    ----------
    time_h : float
        Hours since the base case.
    measured : array of shape (41,)
        What the instruments measure at that time, with their noise.
    """

    def __init__(self, native: ModuleType) -> None:
        self._native, ffi = native, native.ffi
        self._handle = ffi.gc(native.lib.tep_create(), native.lib.tep_destroy)
        self.time_h = 0.0
        self._state = np.zeros(_N_STATES)
        self._slopes = np.zeros((4, _N_STATES))
        self._point, self._sum = np.zeros(_N_STATES), np.zeros(_N_STATES)
        self.measured = np.zeros(_N_SENSORS)
        self._others = [np.zeros(length) for length in _OTHERS]
        self._link()

    def _link(self) -> None:
        """Let C read and write the arrays of this object."""

        def pointer(array: Floats) -> object:
            return self._native.ffi.from_buffer("double[]", array)

        self._state_at, self._point_at = pointer(self._state), pointer(self._point)
        self._slopes_at = [pointer(slope) for slope in self._slopes]
        outputs = (self.measured, *self._others)
        self._outputs_at = [pointer(array) for array in outputs]

    def reset(self, seed: float, flags: int) -> None:
        """Put the plant into the base case of mode 1.

        Parameters
        ----------
        seed : float
            Seed of the model's own random numbers.
        flags : int
            Features of the model, as bits.
        """
        kernel = self._native.NativeTEPKernel()
        self._state[:] = kernel.reset(seed=seed, ms_flag=flags)
        ffi, lib = self._native.ffi, self._native.lib
        first = ffi.from_buffer("double[]", self._state)
        lib.tep_reset(self._handle, ffi.NULL, 0, seed, 1, float(flags))
        self._set_inputs(self._state[38:], np.zeros(28))
        lib.tep_outputs(self._handle, 0.0, first, *self._outputs_at)

    def copy(self) -> Model:
        """Return a model in the same state, with the same random numbers to come."""
        ffi, lib = self._native.ffi, self._native.lib
        twin = Model(self._native)
        content = ffi.new(f"char[{lib.tep_model_size()}]")
        lib.tep_get_model_bytes(self._handle, content)
        lib.tep_set_model_bytes(twin._handle, content)
        twin.time_h = self.time_h
        twin._state[:] = self._state
        twin.measured[:] = self.measured
        return twin

    def advance(self, commands: Floats, disturbances: Floats, hours: float) -> None:
        """Advance by one step of the classical Runge-Kutta method, and measure.

        Parameters
        ----------
        commands : array of shape (12,)
            The manipulated variables, 0 to 100.
        disturbances : array of shape (28,)
            Strength of each, 0 to 1.
        hours : float
            The step.
        """
        self._set_inputs(commands, disturbances)
        # Sums as in `tep_studio`: the end less the start.
        start, end = self.time_h, self.time_h + hours
        step = end - start
        state, point, slopes = self._state, self._point, self._slopes
        slope_of, handle = self._native.lib.tep_derivatives, self._handle
        slope_of(handle, start, self._state_at, self._slopes_at[0])
        for k, share in ((1, 0.5 * step), (2, 0.5 * step), (3, step)):
            np.multiply(slopes[k - 1], share, out=point)
            np.add(point, state, out=point)
            slope_of(handle, start + share, self._point_at, self._slopes_at[k])
        total = np.multiply(slopes[1], 2.0, out=self._sum)
        total += slopes[0]
        slopes[2] *= 2.0
        total += slopes[2]
        total += slopes[3]
        total *= step / 6.0
        state += total
        self.time_h = end
        self._native.lib.tep_outputs(handle, end, self._state_at, *self._outputs_at)

    def shutdown(self) -> str:
        """Return why the plant shut down; empty while it runs."""
        ffi, lib = self._native.ffi, self._native.lib
        if lib.tep_shutdown_code(self._handle) == 0.0:
            return ""
        text = ffi.new("char[]", 256)
        lib.tep_shutdown_message(self._handle, text, 256)
        return str(ffi.string(text).decode("utf-8", errors="replace"))

    def _set_inputs(self, commands: Floats, disturbances: Floats) -> None:
        """Set manipulated variables and disturbances."""
        buffer = self._native.ffi.from_buffer
        self._native.lib.tep_set_inputs(
            self._handle,
            buffer("double[]", commands),
            buffer("double[]", disturbances),
        )


# Features of the model: noise and disturbances have random numbers of their own (0x20),
# disturbances change at times fixed beforehand (0x40) and have a strength (0x80). So a
# plant with a disturbance and its twin without it see the same noise.
MODEL_FLAGS = 0xE0
# The base case is no steady state of the controlled plant: levels settle in half a day.
WARM_UP_H = 24
_N_SENSORS = len(p.SENSORS)


class TepPlant(TwinPlant):
    """A plant that can be run, stopped, and copied at any row.

    Parameters
    ----------
    model : Model
        The plant, at the end of a row.
    controllers : Controllers
        Its controllers.
    reading : array of shape (41,)
        What the controllers read last.
    """

    def __init__(self, model: Model, controllers: Controllers, reading: Floats) -> None:
        self._model = model
        self._controllers = controllers
        self._reading = reading
        self._last_attack = ""

    def copy(self) -> Self:
        """Return a plant in the same state that will see the same random numbers."""
        twin = type(self)(
            self._model.copy(), self._controllers.copy(), self._reading.copy()
        )
        twin._last_attack = self._last_attack
        return twin

    def _fill(
        self,
        recorded: Rows,
        unforged: Rows | None,
        rows: range,
        attack: PlannedAttack | None,
        report: Callable[[int], None],
    ) -> None:
        """Run the plant over some rows; `StreamError` if it shuts down.

        It has no operator who would start it again.
        """
        actions = () if attack is None else attack.actions
        if attack is not None:
            self._last_attack = attack.id
        usual = self._controllers.setpoints
        self._controllers.setpoints = changed(
            usual,
            {
                action.tag: float(action.value or 0.0)
                for action in actions
                if action.kind is ActionKind.SETPOINT
            },
        )
        idv = np.zeros(len(p.DISTURBANCES))
        for action in actions:
            if action.kind is ActionKind.DISTURBANCE:
                idv[p.DISTURBANCES.index(action.tag)] = action.strength
        for row in rows:
            for k in range(p.CONTROLS_A_ROW):
                commands = self._step(actions, idv)
                step = (row - rows.start) * p.CONTROLS_A_ROW + k + 1
                self._reading[:] = self._model.measured
                for action in actions:
                    if action.kind.forges:
                        column = p.SENSORS.index(action.tag)
                        self._reading[column] = forged_reading(
                            action,
                            float(self._reading[column]),
                            recorded,
                            row=row,
                            start=rows.start,
                            column=column,
                            elapsed_s=step * p.CONTROL_S,
                            step_s=p.STEP_S,
                            lowest=0.0,
                        )
            if reason := self._model.shutdown().split("!!")[0]:
                raise StreamError(
                    f"attack {self._last_attack} shuts the plant down "
                    f"({reason}): make it shorter or weaker."
                )
            recorded[row, :_N_SENSORS] = self._reading
            recorded[row, _N_SENSORS:] = commands
            if unforged is not None:
                unforged[row] = recorded[row]
                unforged[row, :_N_SENSORS] = self._model.measured
            if row % 100 == 99:
                report(row + 1)
        self._controllers.setpoints = usual

    def _step(self, actions: tuple[Action, ...], idv: Floats) -> Floats:
        """Control and advance the plant once; return what is commanded."""
        commands = self._controllers.commands(self._reading, self._model.time_h)
        for action in actions:
            if action.kind is ActionKind.SET and action.value is not None:
                commands[p.ACTUATORS.index(action.tag)] = action.value
        self._model.advance(commands, idv, p.CONTROL_H)
        return commands


def warmed_up(seed: int) -> TepPlant:
    """Return a plant that has settled: `WARM_UP_H` hours after the base case."""
    return _warmed_up(seed).copy()


@lru_cache(maxsize=2)
def _warmed_up(seed: int) -> TepPlant:
    """Return the plant of `warmed_up`, of which only copies are run."""
    native, registry, schema = (
        require(f"tep_studio.{name}", extra="tep", caller="Testbed tep")
        for name in ("simulation.native", "control.registry", "simulation.schema")
    )
    model = Model(native)
    # The generator of the model multiplies: its seed must be odd.
    state = np.random.SeedSequence(seed).generate_state(1)[0] | 1
    model.reset(float(state), MODEL_FLAGS)
    runner = TepPlant(
        model, Controllers(registry, schema, model.measured), model.measured.copy()
    )
    n_rows = WARM_UP_H * 3600 // p.STEP_S
    runner.run(np.empty((n_rows, len(p.TAG_NAMES)), np.float32))
    return runner
