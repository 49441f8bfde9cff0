"""The Tennessee Eastman process with its controllers, run row by row.

Physics, noise, disturbances and the strategy of control are those of `tep_studio`: the
model of Downs and Vogel as revised by Bathelt, Ricker and Jelali, and Ricker's
decentralised controllers for mode 1. Ours is the attacker between them: the controllers
read forged measurements, and what they command may be replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from sightline.data.arrays import Floats, require
from sightline.errors import StreamError
from sightline.testbeds.tep import plant as p
from sightline.testbeds.tep.controllers import Controllers, changed
from sightline.testbeds.tep.model import Model
from sightline.testbeds.twin.forging import forged_value
from sightline.testbeds.twin.scenario import Action, ActionKind, PlannedAttack
from sightline.testbeds.twin.truth import Rows

# Features of the model: noise and disturbances have random numbers of their own (0x20),
# disturbances change at times fixed beforehand (0x40) and have a strength (0x80). So a
# plant with a disturbance and its twin without it see the same noise.
MODEL_FLAGS = 0xE0
# The base case is no steady state of the controlled plant: levels settle in half a day.
WARM_UP_H = 24
_N_SENSORS = len(p.SENSORS)


class Runner:
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

    def copy(self) -> Runner:
        """Return a plant in the same state that will see the same random numbers."""
        twin = Runner(
            self._model.copy(), self._controllers.copy(), self._reading.copy()
        )
        twin._last_attack = self._last_attack
        return twin

    def run(
        self,
        recorded: Rows,
        *,
        unforged: Rows | None = None,
        start: int = 0,
        stop: int | None = None,
        attack: PlannedAttack | None = None,
        report: Callable[[int], None] | None = None,
    ) -> None:
        """Run the plant and fill rows [start, stop) of `recorded`.

        The parameters are those of `twin.simulation.Plant.run`.

        Raises
        ------
        StreamError
            If the plant shuts down: it has no operator who would start it again.
        """
        stop = len(recorded) if stop is None else stop
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
        for row in range(start, stop):
            for k in range(p.CONTROLS_A_ROW):
                commands = self._step(actions, idv)
                elapsed_s = ((row - start) * p.CONTROLS_A_ROW + k + 1) * p.CONTROL_S
                self._reading[:] = self._model.measured
                for action in actions:
                    if action.kind.forges:
                        self._forge(action, recorded, row, start, elapsed_s)
            self._check_running()
            recorded[row, :_N_SENSORS] = self._reading
            recorded[row, _N_SENSORS:] = commands
            if unforged is not None:
                unforged[row] = recorded[row]
                unforged[row, :_N_SENSORS] = self._model.measured
            if report is not None and row % 100 == 99:
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

    def _check_running(self) -> None:
        """Raise `StreamError` if the plant has shut down."""
        if reason := self._model.shutdown().split("!!")[0]:
            raise StreamError(
                f"attack {self._last_attack} shuts the plant down "
                f"({reason}): make it shorter or weaker."
            )

    def _forge(
        self, action: Action, recorded: Rows, row: int, start: int, elapsed_s: float
    ) -> None:
        """Replace one reading by a forged one."""
        column = p.SENSORS.index(action.tag)
        replayed = 0.0
        if action.kind is ActionKind.REPLAY:
            replayed = float(recorded[row - int(action.value or 0) // p.STEP_S, column])
        absent = np.nan if action.kind is ActionKind.RAMP else 0.0
        self._reading[column] = forged_value(
            action.kind.code,
            float(self._reading[column]),
            absent if action.value is None else action.value,
            action.rate or 0.0,
            elapsed_s,
            float(recorded[start - 1, column]),
            replayed,
            0.0,
        )


def warmed_up(seed: int) -> Runner:
    """Return a plant that has settled: `WARM_UP_H` hours after the base case."""
    return _warmed_up(seed).copy()


@lru_cache(maxsize=2)
def _warmed_up(seed: int) -> Runner:
    """Return the plant of `warmed_up`, of which only copies are run."""
    native, registry, schema = (
        require(f"tep_studio.{name}", extra="tep", caller="Testbed tep")
        for name in ("simulation.native", "control.registry", "simulation.schema")
    )
    model = Model(native)
    # The generator of the model multiplies: its seed must be odd.
    state = np.random.SeedSequence(seed).generate_state(1)[0] | 1
    model.reset(float(state), MODEL_FLAGS)
    runner = Runner(
        model, Controllers(registry, schema, model.measured), model.measured.copy()
    )
    n_rows = WARM_UP_H * 3600 // p.STEP_S
    runner.run(np.empty((n_rows, len(p.TAG_NAMES)), np.float32))
    return runner
