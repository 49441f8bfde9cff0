"""The compiled model of the process, advanced by fixed steps.

The model is that of `tep_studio`, called through its C functions without the
bookkeeping of its Python class, which takes most of the time. A test compares both, bit
for bit.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from sightline.data.arrays import Floats

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
