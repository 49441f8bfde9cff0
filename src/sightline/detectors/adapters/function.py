"""A plain function that says what is expected, as a detector."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.detectors.adapters.adapter import (
    Adapter,
    adapter_settings,
    check_expected,
    observation,
    runs_of,
)
from sightline.detectors.base import Residuals
from sightline.detectors.preprocessing import Scaled
from sightline.detectors.scaling import Scaling
from sightline.errors import StreamError


class FromFunction(Adapter):
    """A detector that expects what a function of yours returns.

    It is given one run of a recording after the other, never rows from both sides of a
    gap, in the plant's units and with missing cells filled. What it returns for a row
    must not depend on later rows; `sightline.check_detector` finds out.

    Parameters
    ----------
    expected : callable
        ``expected(values)`` returns what is expected in place of `values`, in the same
        shape; nan in a row where nothing is. With `fit` it is called as
        ``expected(values, learned)``.
    fit : callable, optional
        ``fit(runs)`` returns whatever is learned from the runs of train, a list of
        arrays of shape (rows, channels).
    every : int
        Make one row (the median) of so many.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    validation_share : float
        Share of train that is held out: one block, its place drawn, not learned from.
    seed : int
        Draws the place of the block.
    name : str, optional
        What to call it; else the function's name.

    Examples
    --------
    >>> def balance(values):
    ...     return values.mean(axis=1, keepdims=True) + 0 * values
    >>> FromFunction(balance).card.name
    'balance'
    """

    def __init__(
        self,
        expected: Callable[..., Any],
        fit: Callable[[list[Floats]], Any] | None = None,
        *,
        every: int = 1,
        trim_s: float = 0.0,
        validation_share: float = 0.2,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        for what, given in (("expected", expected), ("fit", fit)):
            if given is not None and not callable(given):
                raise StreamError(
                    f"`{what}` must be a function; got {type(given).__name__}: two "
                    "arrays are a stream by sightline.detectors.adapters.from_arrays."
                )
        called = str(name or getattr(expected, "__name__", type(expected).__name__))
        settings = adapter_settings(every, trim_s, validation_share, seed)
        super().__init__(called, "function", settings)
        self._expected, self._fit = expected, fit

    def _learn(self, train: Scaled, trained: Ints, scaling: Scaling) -> Any:
        if self._fit is None:
            return None
        values = _in_units(train, scaling)
        return self._fit([values[run] for run in runs_of(trained, train.breaks)])

    def _told(self, learned: Any, seen: Scaled, scaling: Scaling) -> Residuals:
        values = _in_units(seen, scaling)
        given: tuple[Any, ...] = () if self._fit is None else (learned,)
        expected = np.empty_like(values)
        for run in runs_of(np.arange(len(values)), seen.breaks):
            # A copy: what is observed must stay so.
            made = self._expected(values[run], *given)
            expected[run] = check_expected(made, values[run], self.card.title)
        rows = np.flatnonzero(~np.isnan(expected).any(axis=1))
        apart = (values[rows] - expected[rows]) / scaling.scale
        left_out = len(values) - len(rows)
        if not left_out:
            return observation(apart, rows)
        return observation(
            apart, rows, f"{left_out:,} rows were left out, where nothing is expected."
        )


def _in_units(seen: Scaled, scaling: Scaling) -> Floats:
    """Return rows in the plant's units, which is what a function of its physics takes.

    They are scaled first and unscaled again so that there is one way rows are made.
    """
    values = np.asarray(seen.values, np.float64)
    return np.asarray(values * scaling.scale + scaling.offset)
