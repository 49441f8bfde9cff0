"""Forecasting libraries as detectors: Darts, StatsForecast, Time-Series-Library.

Each expects of a row what the library forecasts one step ahead, from earlier rows of
the same run, by a model that is fitted once on train. The residual is the library's own
forecast error on the scaled rows. None of the libraries is imported before it is used.
"""

import copy
from typing import Any, NamedTuple

import numpy as np

from sightline.data.arrays import Floats, Ints, require
from sightline.detectors.adapters.adapter import (
    Adapter,
    check_expected,
    check_model,
    observation,
    row_count,
    runs_of,
)
from sightline.detectors.base import Residuals
from sightline.detectors.preprocessing import ScaledRows, Scaling
from sightline.errors import StreamError

# Fitted values within this of a forecast from the rows before count as forecasts.
_SAME = 1e-10


class FromDarts(Adapter):
    """A detector that expects what a model of Darts forecasts one step ahead.

    For every model that Darts applies to new series without fitting it again: its
    regression models, its networks, `KalmanForecaster`, `VARIMA`. The residual equals
    ``model.residuals(series, forecast_horizon=1, retrain=False)`` on the scaled rows.

    Parameters
    ----------
    model : object
        A forecasting model of Darts; it is copied and not changed. It learns from all
        runs of train, or from the longest if it can learn from one only.
    every : int
        Make one row (the median) of `every` steps.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    validation_share : float
        Share of train that is held out and not learned from: one block, its place
        drawn at random.
    seed : int
        Seed of that draw, and of a model without a seed of its own.
    name : str, optional
        Name of the detector; else the model's class.

    Raises
    ------
    StreamError
        If the model must be fitted again for each forecast.
    MissingExtraError
        If Darts is not installed.

    Examples
    --------
    >>> from darts.models import LinearRegressionModel  # doctest: +SKIP
    >>> FromDarts(LinearRegressionModel(lags=5)).card.name  # doctest: +SKIP
    'LinearRegressionModel'
    """

    def __init__(
        self,
        model: Any,
        *,
        every: int = 1,
        trim_s: float = 0.0,
        validation_share: float = 0.2,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        require("darts", extra="darts", caller="FromDarts")
        check_model(model, "FromDarts", "fit", "historical_forecasts")
        if not getattr(model, "_supports_non_retrainable_historical_forecasts", True):
            raise StreamError(
                f"{type(model).__name__} must be fitted again for each forecast, so "
                "that it would learn from the test: use a model that Darts applies to "
                "new series, such as LinearRegressionModel."
            )
        title = name or type(model).__name__
        super().__init__(title, "forecast", every, trim_s, validation_share, seed)
        self.model = model
        # The first entry is the oldest row of the target that a forecast looks at. It
        # is no lag of ours: the model learns from whole runs, first rows included.
        self._past = int(-(model.extreme_lags[0] or 0))

    def _learn(self, train: ScaledRows, trained: Ints, scaling: Scaling) -> Any:
        values = np.asarray(train.values, np.float64)
        runs = [r for r in runs_of(trained, train.breaks) if len(r) > self._past + 1]
        if not runs:
            raise StreamError(
                f"No run of train has the {self._past + 2} rows in a row that "
                f"{self.card.title} needs: give a longer recording."
            )
        model = copy.deepcopy(self.model)
        darts = require(
            "darts.models.forecasting.forecasting_model",
            extra="darts",
            caller="FromDarts",
        )
        if isinstance(model, darts.GlobalForecastingModel):  # learns from many series
            model.fit([_series(values[run]) for run in runs])
        else:
            model.fit(_series(values[max(runs, key=len)]))
        return model

    def _row_residuals(
        self, learned: Any, scaled: ScaledRows, scaling: Scaling
    ) -> Residuals:
        values = np.asarray(scaled.values, np.float64)
        rows, residuals = [np.empty(0, np.int64)], [np.empty((0, values.shape[1]))]
        for run in runs_of(np.arange(len(values)), scaled.breaks):
            if len(run) <= self._past:
                continue
            forecast = learned.historical_forecasts(
                _series(values[run]),
                forecast_horizon=1,
                retrain=False,
                last_points_only=True,
                verbose=False,
                show_warnings=False,
            )
            at = run[np.asarray(forecast.time_index)]
            expected = check_expected(forecast.values(), values[at], self.card.title)
            rows.append(at)
            residuals.append(values[at] - expected)
        return observation(np.concatenate(residuals), np.concatenate(rows))


def _series(values: Floats) -> Any:
    """Return rows as a series of Darts, numbered from 0."""
    return require("darts", extra="darts", caller="FromDarts").TimeSeries.from_values(
        np.ascontiguousarray(values)
    )


class _FittedChannels(NamedTuple):
    # By channel; None where it does not move, and then its value.
    models: list[Any]
    resting: Floats


class FromStatsForecast(Adapter):
    """A detector that expects what a model of StatsForecast forecasts one step ahead.

    Each channel has its own copy of the model, fitted once, on the longest run of
    train, and carried on by the library's ``forward``; channels that are constant there
    are expected to stay so. The residual equals the row minus
    ``model.forward(y=earlier_rows, h=1)["mean"]`` on the scaled rows. Where the fitted
    values of ``forward`` are these forecasts, one call gives those of a whole run;
    else the model is called for each row, which takes long.

    Parameters
    ----------
    model : object
        With ``fit`` and ``forward``, such as ``AutoARIMA()``, ``AutoETS()`` or
        ``AutoRegressive(lags=5)``; it is copied and not changed.
    warm_up : int
        Rows at the beginning of each run without a residual: the model has too few rows
        before them.
    every : int
        Make one row (the median) of `every` steps.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    validation_share : float
        Share of train that is held out and not learned from: one block, its place
        drawn at random.
    seed : int
        Seed of that draw.
    name : str, optional
        Name of the detector; else the model's class.

    Raises
    ------
    StreamError
        If the model has no ``forward``.
    MissingExtraError
        If StatsForecast is not installed.

    Examples
    --------
    >>> from statsforecast.models import AutoARIMA  # doctest: +SKIP
    >>> FromStatsForecast(AutoARIMA()).card.name  # doctest: +SKIP
    'AutoARIMA'
    """

    def __init__(
        self,
        model: Any,
        *,
        warm_up: int = 10,
        every: int = 1,
        trim_s: float = 0.0,
        validation_share: float = 0.2,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        require("statsforecast", extra="statsforecast", caller="FromStatsForecast")
        check_model(model, "FromStatsForecast", "fit", "forward")
        title = name or type(model).__name__
        super().__init__(title, "forecast", every, trim_s, validation_share, seed)
        self.model = model
        self.warm_up = row_count(warm_up, "warm_up")

    def _learn(
        self, train: ScaledRows, trained: Ints, scaling: Scaling
    ) -> _FittedChannels:
        run = max(runs_of(trained, train.breaks), key=len)
        rows = np.asarray(train.values, np.float64)[run]
        models = []
        for column in rows.T:
            model = None
            if column.min() < column.max():
                model = copy.deepcopy(self.model)
                model.fit(np.ascontiguousarray(column))
            models.append(model)
        return _FittedChannels(models, rows[0])

    def _row_residuals(
        self, learned: _FittedChannels, scaled: ScaledRows, scaling: Scaling
    ) -> Residuals:
        values = np.asarray(scaled.values, np.float64)
        expected = np.broadcast_to(learned.resting, values.shape).copy()
        rows = [np.empty(0, np.int64)]
        for run in runs_of(np.arange(len(values)), scaled.breaks):
            if len(run) <= self.warm_up:
                continue
            rows.append(run[self.warm_up :])
            for k, model in enumerate(learned.models):
                if model is not None:
                    column = np.ascontiguousarray(values[run, k])
                    expected[rows[-1], k] = _forecasts(model, column, self.warm_up)
        judged = np.concatenate(rows)
        return observation(values[judged] - expected[judged], judged)

    def _about(self) -> dict[str, object]:
        return {"model": repr(self.model), "warm_up": self.warm_up}


def _forecasts(model: Any, column: Floats, first: int) -> Floats:
    """Return the forecast of each row from `first` on, from the rows before it."""

    def ahead(row: int) -> float:
        return float(model.forward(y=column[:row], h=1)["mean"][0])

    fitted = np.asarray(model.forward(y=column, h=1, fitted=True)["fitted"])
    # Of some models they rest on later rows, or on other first values, which wear off.
    probes = {first, (first + len(column)) // 2, len(column) - 1}
    if all(abs(ahead(row) - fitted[row]) <= _SAME for row in probes):
        return fitted[first:]
    return np.array([ahead(row) for row in range(first, len(column))])


# Windows that a network gets at a time when it forecasts.
_WINDOWS_AT_ONCE = 512


class FromTimeSeriesLibrary(Adapter):
    """A detector that expects what a model of Time-Series-Library forecasts.

    For modules that are called as ``model(x_enc, x_mark_enc, x_dec, x_mark_dec)``, as
    all models there are. With the task ``anomaly_detection`` a row is expected as the
    last row of its reconstructed window, else as the first row of the forecast. Both
    marks are None: the calendar is no input.

    Parameters
    ----------
    model : torch.nn.Module
        Made from `configs`; it is copied and not changed. Its own type of numbers is
        used.
    configs : object
        The library's settings: ``seq_len``; for forecasts ``pred_len`` and
        ``label_len``; ``task_name``; for training ``train_epochs``, ``batch_size`` and
        ``learning_rate``. Training is the library's: Adam on the mean squared error of
        the whole forecast. ``train_epochs = 0`` keeps a trained model as it is.
    every : int
        Make one row (the median) of `every` steps.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    validation_share : float
        Share of train that is held out and not learned from: one block, its place
        drawn at random.
    seed : int
        Seed of that draw and of the training.
    name : str, optional
        Name of the detector; else the module that defines the model.

    Raises
    ------
    StreamError
        If the settings lack a length.
    MissingExtraError
        If torch is not installed.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> configs = SimpleNamespace(seq_len=8, label_len=4, pred_len=1)
    >>> FromTimeSeriesLibrary(print, configs)
    Traceback (most recent call last):
    ...
    sightline.errors.StreamError: FromTimeSeriesLibrary takes a torch module, made from
    the library's settings; got builtin_function_or_method.
    """

    def __init__(
        self,
        model: Any,
        configs: Any,
        *,
        every: int = 1,
        trim_s: float = 0.0,
        validation_share: float = 0.2,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        torch = require("torch", extra="detectors", caller="FromTimeSeriesLibrary")
        if not isinstance(model, torch.nn.Module):
            raise StreamError(
                "FromTimeSeriesLibrary takes a torch module, made from the library's "
                f"settings; got {type(model).__name__}."
            )
        # Every class there is called Model; its module has the published name.
        title = name or type(model).__module__.rpartition(".")[2]
        self.is_forecast = "anomaly" not in str(getattr(configs, "task_name", ""))
        kind = "forecast" if self.is_forecast else "reconstruction"
        super().__init__(title, kind, every, trim_s, validation_share, seed)
        self.model, self.configs = model, configs
        self.seq_len = row_count(getattr(configs, "seq_len", None), "seq_len")
        self.pred_len = self.label_len = 0
        if self.is_forecast:
            self.pred_len = row_count(getattr(configs, "pred_len", None), "pred_len")
            self.label_len = int(getattr(configs, "label_len", 0))
            if not 0 <= self.label_len <= self.seq_len:
                raise StreamError(
                    f"`label_len` must be between 0 and `seq_len` ({self.seq_len}); "
                    f"got {self.label_len}."
                )
        self.lags = self.seq_len if self.is_forecast else self.seq_len - 1

    def _learn(self, train: ScaledRows, trained: Ints, scaling: Scaling) -> Any:
        import torch

        model = copy.deepcopy(self.model)
        epochs = int(getattr(self.configs, "train_epochs", 10))
        if not epochs:
            return model.eval()
        rows = trained
        if self.pred_len > 1:
            # All rows of the forecast are learned from, so that all must be there.
            runs = runs_of(trained, train.breaks)
            cut = [run[: max(0, len(run) - self.pred_len + 1)] for run in runs]
            rows = np.concatenate(cut)
        batch = int(getattr(self.configs, "batch_size", 32))
        rate = float(getattr(self.configs, "learning_rate", 1e-4))
        optimiser = torch.optim.Adam(model.parameters(), lr=rate)
        draw = np.random.default_rng(self.settings.seed)
        values = self._tensor(model, train.values)
        model.train()
        for _ in range(epochs):
            order = draw.permutation(rows)
            for start in range(0, len(order), batch):
                part = order[start : start + batch]
                optimiser.zero_grad()
                loss = torch.nn.functional.mse_loss(*self._pair(model, values, part))
                loss.backward()
                optimiser.step()
        return model.eval()

    def _row_residuals(
        self, learned: Any, scaled: ScaledRows, scaling: Scaling
    ) -> Residuals:
        import torch

        from sightline.detectors.networks import one_torch_thread

        values = np.asarray(scaled.values, np.float64)
        rows, tensor = self._rows(scaled), self._tensor(learned, scaled.values)
        residuals = np.empty((len(rows), values.shape[1]))
        with torch.no_grad(), one_torch_thread():
            for start in range(0, len(rows), _WINDOWS_AT_ONCE):
                part = rows[start : start + _WINDOWS_AT_ONCE]
                output = self._output(learned, tensor, part)
                first = output[:, -self.pred_len] if self.is_forecast else output[:, -1]
                expected = first.cpu().numpy().astype(np.float64)
                checked = check_expected(expected, values[part], self.card.title)
                residuals[start : start + len(part)] = values[part] - checked
        return observation(residuals, rows)

    def _tensor(self, model: Any, values: Any) -> Any:
        """Return rows as a tensor of the model's own type, on its device."""
        import torch

        like = next(model.parameters())
        return torch.as_tensor(
            np.asarray(values, np.float64), dtype=like.dtype, device=like.device
        )

    def _windows(self, values: Any, rows: Ints, first: int, last: int) -> Any:
        """Return the rows from `first` to before `last`, counted from each row."""
        return values[rows[:, np.newaxis] + np.arange(first, last)]

    def _output(self, model: Any, values: Any, rows: Ints) -> Any:
        """Return what the model gives for windows that belong to rows."""
        import torch

        if not self.is_forecast:
            return model(self._windows(values, rows, -self.lags, 1), None, None, None)
        past = self._windows(values, rows, -self.seq_len, 0)
        known = past[:, self.seq_len - self.label_len :]
        ahead = torch.zeros_like(past[:, :1]).repeat(1, self.pred_len, 1)
        output = model(past, None, torch.cat([known, ahead], dim=1), None)
        return output[:, -self.pred_len :]

    def _pair(self, model: Any, values: Any, rows: Ints) -> tuple[Any, Any]:
        """Return what the model gives, and what was observed."""
        first, last = (0, self.pred_len) if self.is_forecast else (-self.lags, 1)
        observed = self._windows(values, rows, first, last)
        return self._output(model, values, rows), observed

    def _about(self) -> dict[str, object]:
        return {
            "model": type(self.model).__name__,
            "seq_len": self.seq_len,
            "label_len": self.label_len,
            "pred_len": self.pred_len,
        }
