"""Tep: the Tennessee Eastman process with twin truth, by the package `tep_studio`.

`simulate` runs it; `write_simulation` writes a run to disk. docs/tep.md describes the
process, the attacks, and what is published and what is ours. It needs the extra
``tep``.

Names are those of the literature: XMEAS1 to XMEAS41 are measured, XMV1 to XMV12 are
manipulated. Units and noise are those of the model.

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

from copy import copy
from functools import lru_cache, reduce
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np

from sightline.data.arrays import Floats, require
from sightline.data.recording import Role
from sightline.errors import StreamError
from sightline.progress import Progress
from sightline.testbeds.base import tags_of
from sightline.testbeds.twin.folder_writer import write_simulation
from sightline.testbeds.twin.scenario import (
    Action,
    ActionKind,
    PlannedAttack,
    Scenario,
    Vocabulary,
    scenario_from,
    shipped_scenario,
)
from sightline.testbeds.twin.simulation import (
    CLEAR,
    AttackTruth,
    Filling,
    Panel,
    PlantFacts,
    Simulation,
    TwinPlant,
    Yardstick,
    instruments_of,
    sensor_units,
    simulate_plant,
)

__all__ = [
    "SETPOINTS",
    "TAGS",
    "Action",
    "AttackTruth",
    "PlannedAttack",
    "Scenario",
    "Simulation",
    "default_scenario",
    "read_scenario",
    "simulate",
    "write_simulation",
]

# The model is integrated, and its controllers read, every 0.0005 h; a row is 20 steps.
CONTROL_H = 0.0005
CONTROL_S = 1.8
CONTROLS_A_ROW = 20
STEP_S = 36
USUAL_DAYS, QUICK_DAYS = (3.0, 10.75), (0.5, 1.0)

TAGS = tags_of("tep")
SENSORS = tuple(tag.name for tag in TAGS if tag.role is Role.SENSOR)
ACTUATORS = tuple(tag.name for tag in TAGS if tag.role is Role.ACTUATOR)
DISTURBANCES = tuple(f"IDV{k}" for k in range(1, 29))
# Set-points of the controllers: what they are called in `tep_studio`, and the values of
# the base case. HH are the limits of the two overrides.
_SETPOINTS = {
    "XMEAS7.SP": ("reactor_pressure", 2705.0),
    "XMEAS8.SP": ("reactor_level", 75.0),
    "XMEAS9.SP": ("reactor_temperature", 120.4),
    "XMEAS12.SP": ("separator_level", 50.0),
    "XMEAS15.SP": ("stripper_level", 50.0),
    "XMEAS17.SP": ("production_rate", 22.949),
    "XMEAS40.SP": ("pct_g", 53.724),
    "XMEAS7.HH": ("high_pressure_to_production", 2900.0),
    "XMEAS8.HH": ("high_level_to_recycle", 90.0),
}
SETPOINT_FIELDS = {tag: field for tag, (field, _) in _SETPOINTS.items()}
SETPOINTS = {tag: value for tag, (_, value) in _SETPOINTS.items()}

# An actuator is a position in per cent: one per cent is its unit.
_UNIT = sensor_units(*instruments_of("tep", TAGS))
FACTS = PlantFacts(
    name="tep",
    tags=TAGS,
    vocabulary=Vocabulary(
        sensors=SENSORS,
        actuators=ACTUATORS,
        setpoints=SETPOINTS,
        disturbances=DISTURBANCES,
        states=(0.0, 100.0),
        whole=False,
        hint="0 to 100 (per cent)",
        step_s=STEP_S,
    ),
    yardstick=Yardstick(
        tags=(*SENSORS, *ACTUATORS),
        unit=_UNIT,
        noise=CLEAR * _UNIT,
        step_s=STEP_S,
        block_s=900,
        shortest_cap_s=19_800,
    ),
    unit="a sensor's own noise (standard deviation); an actuator by 1 per cent",
    panels=tuple(
        Panel(
            title=title,
            unit=unit,
            tags=tuple(tags),
            limits={"SP": SETPOINTS[f"{tags[0]}.SP"]} if len(tags) == 1 else {},
        )
        for title, unit, *tags in (
            ("Reactor pressure", "kPa", "XMEAS7"),
            ("Reactor temperature", "°C", "XMEAS9"),
            ("Levels of reactor and separator", "%", "XMEAS8", "XMEAS12"),
            ("Purge, and feed of A", "kscmh", "XMEAS10", "XMEAS1"),
            ("Cooling water valves of reactor, separator", "%", "XMV10", "XMV11"),
        )
    ),
)


def default_scenario(days: float = 10.75) -> Scenario:
    """Return the shipped attacks that fit into a number of days; they fill 10.75.

    Examples
    --------
    >>> len(default_scenario().attacks), len(default_scenario(days=1).attacks)
    (42, 4)
    """
    return shipped_scenario("tep", days)


def read_scenario(path: str | Path) -> Scenario:
    """Read attacks on the process from a ``.csv`` or ``.toml`` file.

    Raises
    ------
    FileError
        If the file cannot be read or an attack is impossible; the message names the
        line or the table.
    """
    return scenario_from(path, FACTS.vocabulary)


def simulate(
    *,
    days_train: float | None = None,
    days_test: float | None = None,
    seed: int = 1,
    scenario: Scenario | None = None,
    quick: bool = False,
    recovery_labels: bool = True,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate the Tennessee Eastman process: normal operation, then attacks.

    The same arguments give the same numbers, bit for bit. A row is 36 seconds.

    Parameters
    ----------
    days_train, days_test : float, optional
        Days of plant time: 3 and 10.75 by default, 0.5 and 1 if quick.
    seed : int
        Seed of all random numbers, 0 or more.
    scenario : Scenario, optional
        The attacks; by default the shipped ones that fit into test.
    quick : bool
        Fewer days, for demonstrations and tests.
    recovery_labels : bool
        Label rows in which the plant recovers from an attack -1
        (`twin.simulation.recovery_s`); if False, they are labelled 0 like all other
        rows outside of attacks.
    progress : callable, optional
        Takes a `Step` for each part of train and test.

    Returns
    -------
    Simulation
        Recordings `train` and `test` with 53 tags, and the `truth` of each attack.

    Raises
    ------
    MissingExtraError
        If `tep_studio` is not installed; the message says how.
    StreamError
        If a number of days is not above 0, the seed is no whole number, an attack does
        not fit the plant or the run, or it shuts the plant down.

    Examples
    --------
    >>> made = simulate(days_train=0.01, days_test=0.01)  # doctest: +SKIP
    >>> made.test.values.shape  # doctest: +SKIP
    (24, 53)
    """
    return simulate_plant(
        Simulation,
        FACTS,
        lambda seed: warmed_up(seed).copy(),
        days=(days_train, days_test),
        usual_days=QUICK_DAYS if quick else USUAL_DAYS,
        seed=seed,
        scenario=scenario,
        planned=default_scenario,
        source=f"tep seed {seed}",
        recovery_labels=recovery_labels,
        progress=progress,
    )


# A loop acts when its time has come, up to rounding; in hours.
_TOLERANCE_H = 1e-9
_A, _C, _PRESSURE, _LEVEL = 22, 24, 6, 7
_RECYCLE = 4
_LOOPS = (
    "production",
    "reactor_level",
    "reactor_pressure",
    "reactor_temperature",
    "separator_level",
    "separator_temperature",
    "stripper_level",
)


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
        ricker, index = registry.RICKER_MODE1, schema.TEP_SCHEMA.index
        self._nominal = ricker.nominal
        specs = {field: getattr(ricker, field) for field in _LOOPS}
        self._loops = {
            field: Loop(spec, index("measurements", spec.pv))
            for field, spec in specs.items()
        }
        self._loops |= {"ya": Loop(ricker.ya, -1), "yac": Loop(ricker.yac, -1)}
        self._feeds = {}
        for spec in ricker.feed_loops:
            self._loops[spec.ratio_key] = Loop(spec, index("measurements", spec.pv))
            place = index("manipulated_variables", spec.mv)
            self._feeds[spec.ratio_key] = place
        self._static = {
            index("manipulated_variables", name): value
            for name, value in ricker.nominal.static_mv.items()
        }
        self._gains = {one.name: one.gain for one in ricker.overrides}
        self._ratios = dict(ricker.nominal.ratios)
        # The base case, and the limits of the overrides.
        a, c = float(measured[_A]), float(measured[_C])
        self.setpoints = {
            **{
                field: float(measured[SENSORS.index(tag.removesuffix(".SP"))])
                for tag, field in SETPOINT_FIELDS.items()
                if tag.endswith(".SP")
            },
            **{"ya": 100.0 * a / (a + c), "yac": a + c},
            **{one.name: one.threshold for one in ricker.overrides},
        }
        self._production = self.setpoints["production_rate"]
        self._product_g = self.setpoints["pct_g"]
        self._time_h = 0.0

    def copy(self) -> Controllers:
        """Return controllers in the same state."""
        twin = copy(self)
        twin._loops = {name: copy(loop) for name, loop in self._loops.items()}
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
        ratios, nominal, gains = self._ratios, self._nominal, self._gains

        def act(field: str, setpoint: float) -> float:
            return loops[field].act(setpoint, read, time_h)

        # The targets of production and product move slowly.
        elapsed, self._time_h = max(0.0, time_h - self._time_h), time_h
        step = nominal.production_sp_rate_limit * elapsed
        self._production = _towards(self._production, goal["production_rate"], step)
        step = nominal.pct_g_sp_rate_limit * elapsed
        self._product_g = _towards(self._product_g, goal["pct_g"], step)
        # The production index scales all feeds.
        adjustment = act("production", self._production)
        excess = read[_PRESSURE] - goal["high_pressure_to_production"]
        cut = min(0.0, -gains["high_pressure_to_production"] * max(0.0, excess))
        index = float(nominal.fp_base + adjustment + cut)
        # Two analysers trim the feeds of A and of A and C.
        a, c = read[_A], read[_C]
        share = 100.0 * a / (a + c) if a + c else 0.0
        by_a = loops["ya"].change(goal["ya"], share, time_h)
        by_ac = loops["yac"].change(goal["yac"], a + c, time_h)
        ratios["r1"] += by_a
        ratios["r4"] += by_ac - by_a
        ratios["r2"] = _polynomial(nominal.p2_coeffs, self._product_g)
        ratios["r3"] = _polynomial(nominal.p3_coeffs, self._product_g)
        separator_goal = act("reactor_level", goal["reactor_level"])
        ratios["r6"] = act("separator_level", goal["separator_level"])
        ratios["r7"] = act("stripper_level", goal["stripper_level"])
        ratios["r5"] = act("reactor_pressure", goal["reactor_pressure"])
        commands = [0.0] * len(ACTUATORS)
        commands[10] = act("separator_temperature", separator_goal)
        commands[9] = act("reactor_temperature", goal["reactor_temperature"])
        for key, place in self._feeds.items():
            commands[place] = act(key, ratios[key] * index)
        for place, value in self._static.items():
            commands[place] = value
        excess = read[_LEVEL] - goal["high_level_to_recycle"]
        commands[_RECYCLE] -= gains["high_level_to_recycle"] * max(0.0, excess)
        return np.clip(commands, 0.0, 100.0)


def _polynomial(coefficients: tuple[float, ...], at: float) -> float:
    """Return a polynomial, the highest power first."""
    return reduce(
        lambda value, coefficient: value * at + coefficient, coefficients, 0.0
    )


def _towards(current: float, goal: float, step: float) -> float:
    """Return a value that moves towards a goal by at most a step."""
    return min(goal, current + step) if goal >= current else max(goal, current - step)


_N_STATES, _N_SENSORS = 50, len(SENSORS)
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
        self._native, self._lib, ffi = native, native.lib, native.ffi
        self._handle = ffi.gc(native.lib.tep_create(), native.lib.tep_destroy)
        self.time_h = 0.0
        self._state, self._point, self._sum = np.zeros((3, _N_STATES))
        self._slopes = np.zeros((4, _N_STATES))
        self.measured = np.zeros(_N_SENSORS)
        outputs = (self.measured, *map(np.zeros, _OTHERS))
        # C reads and writes the arrays of this object.
        (self._state_at, self._point_at), self._slopes_at, self._outputs_at = (
            [ffi.from_buffer("double[]", array) for array in arrays]
            for arrays in ((self._state, self._point), self._slopes, outputs)
        )

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
        null = self._native.ffi.NULL
        self._lib.tep_reset(self._handle, null, 0, seed, 1, float(flags))
        self._set_inputs(self._state[38:], np.zeros(28))
        self._lib.tep_outputs(self._handle, 0.0, self._state_at, *self._outputs_at)

    def copy(self) -> Model:
        """Return a model in the same state, with the same random numbers to come."""
        twin = Model(self._native)
        content = self._native.ffi.new(f"char[{self._lib.tep_model_size()}]")
        self._lib.tep_get_model_bytes(self._handle, content)
        self._lib.tep_set_model_bytes(twin._handle, content)
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
        slope_of, handle = self._lib.tep_derivatives, self._handle
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
        self._lib.tep_outputs(handle, end, self._state_at, *self._outputs_at)

    def shutdown(self) -> str:
        """Return why the plant shut down; empty while it runs."""
        if self._lib.tep_shutdown_code(self._handle) == 0.0:
            return ""
        text = self._native.ffi.new("char[]", 256)
        self._lib.tep_shutdown_message(self._handle, text, 256)
        return str(self._native.ffi.string(text).decode("utf-8", errors="replace"))

    def _set_inputs(self, *inputs: Floats) -> None:
        """Set manipulated variables and disturbances."""
        buffer = self._native.ffi.from_buffer
        pointers = [buffer("double[]", array) for array in inputs]
        self._lib.tep_set_inputs(self._handle, *pointers)


# Features of the model: noise and disturbances have random numbers of their own (0x20),
# disturbances change at times fixed beforehand (0x40) and have a strength (0x80). So a
# plant with a disturbance and its twin without it see the same noise.
MODEL_FLAGS = 0xE0
# The base case is no steady state of the controlled plant: levels settle in half a day.
WARM_UP_H = 24


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
    last_attack : str
        The attack that is under way, or was the last.
    """

    def __init__(
        self,
        model: Model,
        controllers: Controllers,
        reading: Floats,
        last_attack: str = "",
    ) -> None:
        self._model = model
        self._controllers = controllers
        self._reading = reading
        self._last_attack = last_attack

    def copy(self) -> Self:
        """Return a plant in the same state that will see the same random numbers."""
        return type(self)(
            self._model.copy(),
            self._controllers.copy(),
            self._reading.copy(),
            self._last_attack,
        )

    def fill(self, to_fill: Filling) -> None:
        """Run the plant over some rows; `StreamError` if it shuts down.

        It has no operator who would start it again.
        """
        model, controllers, reading = self._model, self._controllers, self._reading
        rows, recorded, unforged = to_fill.rows, to_fill.recorded, to_fill.unforged
        if to_fill.attack is not None:
            self._last_attack = to_fill.attack.id
        usual = controllers.setpoints
        changes = to_fill.values(ActionKind.SETPOINT).items()
        controllers.setpoints = {
            **usual,
            **{SETPOINT_FIELDS[tag]: value for tag, value in changes},
        }
        idv = np.zeros(len(DISTURBANCES))
        for tag, strength in to_fill.values(ActionKind.DISTURBANCE).items():
            idv[DISTURBANCES.index(tag)] = strength
        commanded = to_fill.values(ActionKind.SET).items()
        for row in rows:
            for k in range(CONTROLS_A_ROW):
                commands = controllers.commands(reading, model.time_h)
                for tag, value in commanded:
                    commands[ACTUATORS.index(tag)] = value
                model.advance(commands, idv, CONTROL_H)
                reading[:] = model.measured
                step = (row - rows.start) * CONTROLS_A_ROW + k + 1
                to_fill.forge(
                    reading,
                    SENSORS,
                    row=row,
                    elapsed_s=step * CONTROL_S,
                    step_s=STEP_S,
                    lowest=0.0,
                )
            if reason := model.shutdown().split("!!")[0]:
                raise StreamError(
                    f"attack {self._last_attack} shuts the plant down "
                    f"({reason}): make it shorter or weaker."
                )
            recorded[row] = np.concatenate([reading, commands])
            if unforged is not None:
                unforged[row] = np.concatenate([model.measured, commands])
            if row % 100 == 99:
                to_fill.report(row + 1)
        controllers.setpoints = usual


@lru_cache(maxsize=2)
def warmed_up(seed: int) -> TepPlant:
    """Return a plant that has settled: `WARM_UP_H` hours after the base case.

    The same one for the same seed: run a copy of it.
    """
    native, registry, schema = (
        require(f"tep_studio.{name}", extra="tep", caller="Testbed tep")
        for name in ("simulation.native", "control.registry", "simulation.schema")
    )
    model = Model(native)
    # The generator of the model multiplies: its seed must be odd.
    state = np.random.SeedSequence(seed).generate_state(1)[0] | 1
    model.reset(float(state), MODEL_FLAGS)
    plant = TepPlant(
        model, Controllers(registry, schema, model.measured), model.measured.copy()
    )
    plant.run(np.empty((WARM_UP_H * 3600 // STEP_S, len(TAGS)), np.float32))
    return plant
