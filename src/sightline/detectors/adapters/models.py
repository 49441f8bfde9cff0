"""Models of other libraries as detectors; none of them is imported before it is used.

Regressors and outlier detectors are of scikit-learn, PyOD, aeon, or anything with the
same methods. Of forecasting libraries (Darts, StatsForecast, Time-Series-Library) a row
is expected as forecast one step ahead, from earlier rows of the same run, by a model
that is fitted once on train: the residual is the library's own forecast error on the
scaled rows.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

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
from sightline.detectors.preprocessing import ScaledRows
from sightline.errors import SightlineError, StreamError
from sightline.files import brief

Call = Callable[[Any, Floats], Any]
# Rows worked on at a time, so that a long recording needs little memory.
_ROWS_AT_ONCE = 16_384
# What PyOD adds to deviations before it divides by them.
_PYOD_EPSILON = 1e-8
# A reconstruction that differs by less than this leaves no residual.
_IDENTICAL = 1e-9
# Fitted values within this of a forecast from the rows before count as forecasts.
_SAME = 1e-10
# Windows that a network gets at a time when it forecasts.
_WINDOWS_AT_ONCE = 512


class _FittedRegressor(NamedTuple):
    regressor: Any
    # Channels that change in the rows learned from, and the values of the others.
    moving: Ints
    resting: Floats


class FromRegressor(Adapter):
    """A detector that expects what a regressor forecasts from the last rows.

    The regressor does not see channels that are constant in the rows learned from;
    their residual is their value minus the constant.

    Parameters
    ----------
    regressor : object
        With ``fit(X, Y)`` and ``predict(X)``; it is copied and not changed. One whose
        tags say that it has a single output is fitted once for each channel.
    lags : int
        Number of rows it gets: the oldest first, all channels of a row together.
    name : str, optional
        Name of the detector; else the regressor's class.
    **settings
        Any of `BaselineSettings` by name, as `Adapter` explains them.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> FromRegressor(Ridge(), lags=3).card.name
    'Ridge'
    """

    shown = ("lags",)

    def __init__(
        self,
        regressor: Any,
        lags: int = 1,
        *,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        check_model(regressor, "FromRegressor", "fit", "predict")
        super().__init__(regressor, "forecast", name, settings)
        self.lags = row_count(lags, "lags")

    def _learn(self, train: ScaledRows, trained: Ints) -> _FittedRegressor:
        values = np.asarray(train.values, np.float64)
        rows = values[trained]
        moving = np.flatnonzero(rows.min(axis=0) < rows.max(axis=0))
        regressor = copy.deepcopy(self.model)
        if len(moving):
            if len(moving) > 1 and not has_many_outputs(regressor):
                from sklearn.multioutput import MultiOutputRegressor

                regressor = MultiOutputRegressor(regressor)
            targets = rows[:, moving]
            # One output is one column to some regressors, and a warning to others.
            targets = targets[:, 0] if len(moving) == 1 else targets
            regressor.fit(self._past(values[:, moving], trained), targets)
        return _FittedRegressor(regressor, moving, rows[0])

    def _row_residuals(
        self, learned: _FittedRegressor, scaled: ScaledRows
    ) -> Residuals:
        rows, moving = self._rows(scaled), learned.moving
        residuals = np.asarray(scaled.values, np.float64)[rows] - learned.resting
        if not len(rows) or not len(moving):
            return observation(residuals, rows)
        values = np.asarray(scaled.values[:, moving], np.float64)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            forecast = np.asarray(learned.regressor.predict(self._past(values, part)))
            if len(moving) == 1:
                forecast = forecast.reshape(len(forecast), -1)
            expected = check_expected(forecast, values[part], self.card.title)
            residuals[start : start + len(part), moving] = values[part] - expected
        return observation(residuals, rows)

    def _past(self, values: Floats, rows: Ints) -> Floats:
        """Return the `lags` rows before each row, side by side."""
        return np.hstack([values[rows - lag] for lag in range(self.lags, 0, -1)])


def has_many_outputs(regressor: Any) -> bool:
    """Return whether a regressor forecasts several numbers, as far as it says so."""
    if hasattr(regressor, "__sklearn_tags__"):
        return bool(regressor.__sklearn_tags__().target_tags.multi_output)
    if hasattr(regressor, "_get_tags"):  # scikit-learn before 1.6
        return bool(regressor._get_tags().get("multioutput", True))
    return True


class _FittedModel(NamedTuple):
    model: Any
    reconstruct: Call | None
    score: Call | None
    alarms: Call | None
    notices: tuple[str, ...]


class FromOutlierDetector(Adapter):
    """A detector that uses an outlier detector's reconstruction, else its score.

    *Reconstruction* where the model has one: PyOD's AutoEncoder and VAE (decoded from
    the mean of the code, without random numbers), PyOD's PCA with fewer components than
    channels, and any model with `transform` and `inverse_transform`. Each channel then
    has a residual, observed minus reconstructed.

    *Score* otherwise: one number a row, space ``"score"``, named after the model. A
    score is no residual, and `notices` says so. It is judged one-sided: only a high
    score is odd. PyOD's `decision_function` and aeon's `predict` are high where a row
    is odd; scikit-learn's `score_samples` is low there, and its sign is changed.

    In both cases the stream carries the library's own score as `score`, and its own
    alarms as `alarms`: rows that PyOD's `predict` calls 1, by the model's
    `contamination`, or scikit-learn's calls -1. aeon's models have no limit of their
    own.

    A model of windows (aeon's, PyOD's time series models) scores run by run and learns
    from the longest run of train, so that no window crosses a gap. Most of these score
    a row by windows that end after it; `sightline.check_detector` reports it.

    Parameters
    ----------
    model : object
        With ``fit(X)``; it is copied and not changed.
    use : {"reconstruction", "score"}
        "score" uses the score even where there is a reconstruction.
    reconstruct : callable, optional
        ``reconstruct(model, values)`` returns what the fitted model expects in place
        of scaled rows, for a model that is not recognised.
    score : callable, optional
        ``score(model, values)`` returns one number a row, high where it is odd.
    name : str, optional
        Name of the detector; else the model's class.
    **settings
        Any of `BaselineSettings` by name, as `Adapter` explains them.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest
    >>> FromOutlierDetector(IsolationForest(random_state=0)).card.name
    'IsolationForest'
    """

    def __init__(
        self,
        model: Any,
        *,
        use: Literal["reconstruction", "score"] = "reconstruction",
        reconstruct: Call | None = None,
        score: Call | None = None,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        check_model(model, "FromOutlierDetector", "fit")
        if use not in ("reconstruction", "score"):
            raise StreamError(f"`use` must be reconstruction or score; got {use!r}.")
        super().__init__(model, "outlier", name, settings)
        self._use, self._reconstruct, self._score = use, reconstruct, score

    def _learn(self, train: ScaledRows, trained: Ints) -> _FittedModel:
        title = self.card.title
        model, values = copy.deepcopy(self.model), np.asarray(train.values, np.float64)
        rows = trained
        notices: list[str] = []
        if _is_of_windows(model):
            rows = max(runs_of(trained, train.breaks), key=len)
        is_of_aeon = _takes_axis(model, "predict") and hasattr(model, "get_tag")
        if is_of_aeon and model.get_tag("fit_is_empty"):
            notices.append(
                f"{title} learns nothing from train: it judges each run against the "
                "run itself, which looks ahead."
            )
        else:
            if len(rows) < len(trained):
                notices.append(
                    f"{title} learned from the longest run of train, {len(rows):,} of "
                    f"{len(trained):,} rows, because it uses windows."
                )
            options = {"axis": 0} if _takes_axis(model, "fit") else {}
            model.fit(values[rows], **options)
        reconstruct = self._reconstruction(model, values[rows], notices)
        score = self._score or _score_call(model)
        alarms = _alarm_call(model) if self._score is None else None
        if reconstruct is not None:
            return _FittedModel(model, reconstruct, score, alarms, tuple(notices))
        if score is None:
            raise StreamError(
                f"{title} has no score whose direction is known (decision_function of "
                "PyOD, predict of aeon, score_samples of scikit-learn): give `score`, "
                "a function of the model and rows that is high where a row is odd."
            )
        scores = self._scores(model, score, values[rows])
        notices.append(
            f"{title} gives one score a row and no expectation of each channel: this "
            "score takes the place of a residual, and only a high score is odd."
        )
        if np.isin(scores, (0, 1)).all():
            notices.append(
                f"{title} gives only 0 or 1 for each row of train, which is an alarm "
                "more than a score."
            )
        return _FittedModel(model, None, score, alarms, tuple(notices))

    def _row_residuals(self, learned: _FittedModel, scaled: ScaledRows) -> Residuals:
        values = np.asarray(scaled.values, np.float64)
        rows = np.arange(len(values))
        runs = [rows]
        if _is_of_windows(learned.model):
            runs = runs_of(rows, scaled.breaks)
        failures: list[str] = []
        scores = self._by_run(learned.model, learned.score, values, runs, failures)
        flagged = self._by_run(learned.model, learned.alarms, values, runs, [])
        alarms = None if flagged is None else np.asarray(flagged == 1)
        if learned.reconstruct is not None:
            expected = self._reconstructed(learned.model, learned.reconstruct, values)
            residuals = observation(values - expected, rows, *learned.notices)
            return replace(residuals, score=scores, alarms=alarms)
        assert scores is not None  # noqa: S101
        notices = [*learned.notices, *failures]
        # An infinite score stays: the oddest row must not count as one without a score.
        is_scored = ~np.isnan(scores)
        if left_out := int((~is_scored).sum()):
            notices.append(f"{left_out:,} rows were left out, which have no score.")
        return Residuals(
            values=scores[is_scored, np.newaxis],
            index=rows[is_scored],
            channels=(self.card.name,),
            space="score",
            score=scores[is_scored],
            alarms=None if alarms is None else alarms[is_scored],
            notices=tuple(notices),
        )

    def _by_run(
        self,
        model: Any,
        call: Call | None,
        values: Floats,
        runs: Sequence[Ints],
        failures: list[str],
    ) -> Floats | None:
        """Return one number for each row, run by run; None without a call.

        A run for which the model raises gets nan and a sentence in `failures`, unless
        it raises for all of them.
        """
        if call is None:
            return None
        numbers = np.full(len(values), np.nan)
        n_failed = 0
        for run in runs:
            try:
                numbers[run] = self._scores(model, call, values[run])
            except SightlineError:
                raise
            except Exception as error:
                # Most often a run is shorter than a window; others may not be.
                n_failed += 1
                if n_failed == len(runs):
                    raise
                failures.append(
                    f"{self.card.title} gives no score for a run of {len(run):,} rows "
                    f"({brief(error).rstrip('.')})."
                )
        return numbers

    def _reconstruction(
        self, model: Any, values: Floats, notices: list[str]
    ) -> Call | None:
        """Return how to reconstruct; None if rows come back unchanged or not at all."""
        if self._reconstruct is not None:
            return self._reconstruct
        if self._use == "score" or self._score is not None:
            return None
        call = _reconstruction_call(model)
        if call is None:
            return None
        residuals = values - self._reconstructed(model, call, values)
        if np.abs(residuals).max() > _IDENTICAL:
            return call
        notices.append(
            f"{self.card.title} reconstructs every row as it is (it keeps as many "
            "components as there are channels), so that its score is used."
        )
        return None

    def _reconstructed(self, model: Any, call: Call, values: Floats) -> Floats:
        """Return the reconstruction of rows, a limited number at a time."""
        expected = np.empty_like(values)
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            result = call(model, values[rows].copy())
            expected[rows] = check_expected(result, values[rows], self.card.title)
        return expected

    def _scores(self, model: Any, call: Call, values: Floats) -> Floats:
        """Return one score for each row; raise if the model gives another shape."""
        scores = np.asarray(call(model, values.copy()), np.float64)
        if scores.shape not in ((len(values),), (len(values), 1)):
            raise StreamError(
                f"{self.card.title} must give one score for each of {len(values):,} "
                f"rows; it gave shape {scores.shape}: give `score`, a function of the "
                "model and rows that does."
            )
        return scores.ravel()


def _is_of_windows(model: Any) -> bool:
    """Return whether a model scores series and not rows: aeon's, PyOD's ts models."""
    return _takes_axis(model, "predict") or hasattr(model, "window_size")


def _takes_axis(model: Any, method: str) -> bool:
    """Return whether a method has the parameter `axis`, as aeon's have."""
    try:
        return "axis" in inspect.signature(getattr(model, method)).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def _score_call(model: Any) -> Call | None:
    """Return how to score rows so that high is odd; the sign is never guessed."""
    if _takes_axis(model, "predict"):
        return lambda fitted, values: fitted.predict(values, axis=0)
    # PyOD stores the scores of train; scikit-learn's have the other sign.
    if hasattr(model, "decision_function") and hasattr(model, "decision_scores_"):
        return lambda fitted, values: fitted.decision_function(values)
    if hasattr(model, "score_samples"):
        return lambda fitted, values: -np.asarray(fitted.score_samples(values))
    return None


def _alarm_call(model: Any) -> Call | None:
    """Return how a model flags rows by its own limit, 1 for odd; None if it has none.

    aeon's `predict` is a score. Of scikit-learn's models only outlier detectors, which
    have an `offset_`, flag rows by `predict`; those of others are clusters or classes.
    """
    if _takes_axis(model, "predict") or not hasattr(model, "predict"):
        return None
    if hasattr(model, "decision_scores_"):
        return lambda fitted, values: fitted.predict(values)
    if hasattr(model, "score_samples") and hasattr(model, "offset_"):
        return lambda fitted, values: np.asarray(fitted.predict(values)) == -1
    return None


def _reconstruction_call(model: Any) -> Call | None:
    """Return how a fitted model reconstructs rows; None if it cannot."""
    if hasattr(model, "transform") and hasattr(model, "inverse_transform"):
        return lambda fitted, values: fitted.inverse_transform(fitted.transform(values))
    inner = getattr(model, "detector_", None)
    if hasattr(model, "components_") and hasattr(inner, "inverse_transform"):
        return _by_components
    network = getattr(model, "model", None)
    is_scaled = hasattr(model, "X_mean") and hasattr(model, "X_std")
    is_network = hasattr(network, "encoder") and hasattr(network, "decoder")
    if is_network and (is_scaled or getattr(model, "preprocessing", True) is False):
        return _by_decoder
    return None


def _by_components(model: Any, values: Floats) -> Any:
    """Return the reconstruction of PyOD's PCA, which has scikit-learn's PCA inside."""
    scaler = getattr(model, "scaler_", None)
    rows = values if scaler is None else scaler.transform(values)
    result = model.detector_.inverse_transform(model.detector_.transform(rows))
    return result if scaler is None else scaler.inverse_transform(result)


def _by_decoder(model: Any, values: Floats) -> Any:
    """Return the reconstruction of PyOD's networks, which give only a distance."""
    torch = require("torch", extra="detectors", caller=type(model).__name__)
    mean, deviation = np.zeros(values.shape[1]), np.ones(values.shape[1])
    if getattr(model, "preprocessing", False):
        mean, deviation = model.X_mean, model.X_std + _PYOD_EPSILON
    network = model.model
    network.eval()
    with torch.no_grad():
        rows = torch.as_tensor(
            (values - mean) / deviation, dtype=torch.float32, device=model.device
        )
        # A variational code has a mean and a deviation: no noise is to be drawn.
        code = network.encode(rows) if hasattr(network, "encode") else None
        if isinstance(code, tuple):
            code = code[0]
        result = network.decoder(network.encoder(rows) if code is None else code)
    return result.cpu().numpy().astype(np.float64) * deviation + mean


# ------------------------------------------------------------ forecasting libraries


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
    name : str, optional
        Name of the detector; else the model's class.
    **settings
        Any of `BaselineSettings` by name, as `Adapter` explains them.

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
        name: str | None = None,
        **settings: Any,
    ) -> None:
        require("darts", extra="darts", caller="FromDarts")
        check_model(model, "FromDarts", "fit", "historical_forecasts")
        if not getattr(model, "_supports_non_retrainable_historical_forecasts", True):
            raise StreamError(
                f"{type(model).__name__} must be fitted again for each forecast, so "
                "that it would learn from the test: use a model that Darts applies to "
                "new series, such as LinearRegressionModel."
            )
        super().__init__(model, "forecast", name, settings)
        # The first entry is the oldest row of the target that a forecast looks at. It
        # is no lag of ours: the model learns from whole runs, first rows included.
        self._past = int(-(model.extreme_lags[0] or 0))

    def _learn(self, train: ScaledRows, trained: Ints) -> Any:
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

    def _row_residuals(self, learned: Any, scaled: ScaledRows) -> Residuals:
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
    name : str, optional
        Name of the detector; else the model's class.
    **settings
        Any of `BaselineSettings` by name, as `Adapter` explains them.

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

    shown = ("warm_up",)

    def __init__(
        self,
        model: Any,
        *,
        warm_up: int = 10,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        require("statsforecast", extra="statsforecast", caller="FromStatsForecast")
        check_model(model, "FromStatsForecast", "fit", "forward")
        super().__init__(model, "forecast", name, settings)
        self.warm_up = row_count(warm_up, "warm_up")

    def _learn(self, train: ScaledRows, trained: Ints) -> _FittedChannels:
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

    def _row_residuals(self, learned: _FittedChannels, scaled: ScaledRows) -> Residuals:
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
    name : str, optional
        Name of the detector; else the module that defines the model.
    **settings
        Any of `BaselineSettings` by name, as `Adapter` explains them.

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

    shown = ("seq_len", "label_len", "pred_len")

    def __init__(
        self,
        model: Any,
        configs: Any,
        *,
        name: str | None = None,
        **settings: Any,
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
        super().__init__(model, kind, title, settings)
        self.configs = configs
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

    def _learn(self, train: ScaledRows, trained: Ints) -> Any:
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

    def _row_residuals(self, learned: Any, scaled: ScaledRows) -> Residuals:
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

    def _model_name(self) -> str:
        return type(self.model).__name__
