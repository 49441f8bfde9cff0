"""Any regressor of scikit-learn's kind as a forecaster of the next row."""

import copy
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.detectors.adapters.adapter import (
    Adapter,
    adapter_settings,
    check_expected,
    observation,
)
from sightline.detectors.base import Residuals
from sightline.detectors.preprocessing import Scaled
from sightline.detectors.scaling import Scaling
from sightline.errors import StreamError

# Rows asked about at a time, so that lags of a long recording need little memory.
_ROWS_AT_ONCE = 16_384


class _Learned(NamedTuple):
    regressor: Any
    # Channels that move in the rows learned from; the others stay where they are.
    moving: Ints
    resting: Floats


class FromRegressor(Adapter):
    """A detector that expects what a regressor forecasts from the last rows.

    Channels that are constant in the rows learned from are given to the regressor
    neither to learn from nor to forecast; their residual is their value minus the
    constant.

    Parameters
    ----------
    regressor : object
        With ``fit(X, Y)`` and ``predict(X)``; it is copied and not changed. One that
        says it forecasts a single number is fitted once a channel.
    lags : int
        Rows it is given: the oldest first, all channels of a row together.
    every : int
        Make one row (the median) of so many.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    validation_share : float
        Share of train that is held out: one block, its place drawn, not learned from.
    seed : int
        Draws the place of the block, and what the regressor draws without a seed of
        its own.
    name : str, optional
        What to call it; else the regressor's class.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> FromRegressor(Ridge(), lags=3).card.name
    'Ridge'
    """

    def __init__(
        self,
        regressor: Any,
        lags: int = 1,
        *,
        every: int = 1,
        trim_s: float = 0.0,
        validation_share: float = 0.2,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        _check_has(regressor, "fit", "predict")
        if isinstance(lags, bool) or not isinstance(lags, Integral) or lags < 1:
            raise StreamError(f"`lags` must be 1 or more rows; got {lags!r}.")
        settings = adapter_settings(every, trim_s, validation_share, seed)
        super().__init__(name or type(regressor).__name__, "forecast", settings)
        self.regressor: Any = regressor
        self.lags = int(lags)

    def _learn(self, train: Scaled, trained: Ints, scaling: Scaling) -> _Learned:
        values = np.asarray(train.values, np.float64)
        rows = values[trained]
        moving = np.flatnonzero(rows.min(axis=0) < rows.max(axis=0))
        regressor = copy.deepcopy(self.regressor)
        if len(moving):
            if len(moving) > 1 and not _tells_many(regressor):
                regressor = _one_each(regressor)
            targets = rows[:, moving]
            # One output is one column to some regressors, and a warning to others.
            targets = targets[:, 0] if len(moving) == 1 else targets
            regressor.fit(self._past(values[:, moving], trained), targets)
        return _Learned(regressor, moving, rows[0])

    def _told(self, learned: _Learned, seen: Scaled, scaling: Scaling) -> Residuals:
        rows, moving = self._rows(seen), learned.moving
        apart = np.asarray(seen.values, np.float64)[rows] - learned.resting
        if not len(rows) or not len(moving):
            return observation(apart, rows)
        values = np.asarray(seen.values[:, moving], np.float64)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            forecast = np.asarray(learned.regressor.predict(self._past(values, part)))
            if len(moving) == 1:
                forecast = forecast.reshape(len(forecast), -1)
            expected = check_expected(forecast, values[part], self.card.title)
            apart[start : start + len(part), moving] = values[part] - expected
        return observation(apart, rows)

    def _past(self, values: Floats, rows: Ints) -> Floats:
        return np.hstack([values[rows - lag] for lag in range(self.lags, 0, -1)])

    def _about(self) -> dict[str, Any]:
        return {"model": repr(self.regressor), "lags": self.lags}


def _tells_many(regressor: Any) -> bool:
    """Tell whether a regressor forecasts several numbers, as far as it says so."""
    if hasattr(regressor, "__sklearn_tags__"):
        return bool(regressor.__sklearn_tags__().target_tags.multi_output)
    if hasattr(regressor, "_get_tags"):  # scikit-learn before 1.6
        return bool(regressor._get_tags().get("multioutput", True))
    return True


def _one_each(regressor: Any) -> Any:
    from sklearn.multioutput import MultiOutputRegressor

    return MultiOutputRegressor(regressor)


def _check_has(model: Any, *methods: str) -> None:
    for method in methods:
        if isinstance(model, type) or not callable(getattr(model, method, None)):
            what = model.__name__ if isinstance(model, type) else repr(model)[:60]
            raise StreamError(
                f"A model must be an object with `{method}`; got {what}: make one "
                "first, as in FromRegressor(Ridge())."
            )
