"""Forecasts of Darts and StatsForecast: residuals are the library's own errors.

They want other versions than the development environment has: their tests are skipped
by name where they are missing.
"""

import sys

import numpy as np
import pytest
from small_plants import plant, recording_of, runs_of_scaled

from sightline import MissingExtraError, StreamError, evaluate, export_stream
from sightline.detectors.adapters import FromDarts, FromStatsForecast
from sightline.detectors.conformance import check_detector

DARTS = "Darts is not installed: pip install u8darts"
STATSFORECAST = "StatsForecast is not installed: pip install statsforecast"


@pytest.fixture(scope="module")
def train():
    return recording_of(plant(), breaks=np.array([0, 350]))


@pytest.fixture(scope="module")
def test():
    return recording_of(plant(300, seed=1), breaks=np.array([0, 120]))


# Darts


def test_residuals_equal_the_errors_of_darts(train, test):
    pytest.importorskip("darts", reason=DARTS)
    from darts import TimeSeries
    from darts.models import LinearRegressionModel

    detector = FromDarts(LinearRegressionModel(lags=5)).fit(train)
    residuals = detector.residuals(test)
    rows, errors = [], []
    for first, values in runs_of_scaled(detector, test):
        own = detector.learned.residuals(
            TimeSeries.from_values(values), forecast_horizon=1, retrain=False
        )
        rows.append(first + np.asarray(own.time_index))
        errors.append(own.values())
    np.testing.assert_array_equal(residuals.index, np.concatenate(rows))
    assert np.abs(residuals.values - np.concatenate(errors)).max() < 1e-9
    assert len(residuals.index) == 300 - 2 * 5


def test_a_model_of_darts_passes_the_checks_of_our_own(train, test):
    pytest.importorskip("darts", reason=DARTS)
    from darts.models import LinearRegressionModel

    check_detector(lambda: FromDarts(LinearRegressionModel(lags=3)))
    detector = FromDarts(LinearRegressionModel(lags=3), name="ridge").fit(train)
    evaluation = evaluate(export_stream(detector, train, test), intervals=False)
    assert evaluation.stream.detector == "ridge"


def test_darts_models_that_learn_from_the_test_are_refused():
    pytest.importorskip("darts", reason=DARTS)
    from darts.models import NaiveSeasonal

    with pytest.raises(StreamError, match="would learn from the test"):
        FromDarts(NaiveSeasonal(K=1))


# StatsForecast


@pytest.mark.parametrize(
    "name", ["AutoARIMA", "AutoETS", "AutoRegressive", "AutoTheta"]
)
def test_residuals_equal_the_errors_of_statsforecast(name, train, test):
    pytest.importorskip("statsforecast", reason=STATSFORECAST)
    from statsforecast import models

    model = getattr(models, name)(**({"lags": 3} if name == "AutoRegressive" else {}))
    detector = FromStatsForecast(model).fit(train)
    residuals = detector.residuals(test)
    assert len(residuals.index) == 300 - 2 * 10
    compared = 0
    for first, values in runs_of_scaled(detector, test):
        for row in range(10, len(values), 7):
            at = int(np.flatnonzero(residuals.index == first + row)[0])
            for k, fitted in enumerate(detector.learned.models):
                earlier = np.ascontiguousarray(values[:row, k])
                own = values[row, k] - fitted.forward(y=earlier, h=1)["mean"][0]
                assert abs(residuals.values[at, k] - own) < 1e-9
                compared += 1
    assert compared > 100


def test_residuals_equal_the_cross_validation_of_statsforecast():
    pytest.importorskip("statsforecast", reason=STATSFORECAST)
    import pandas as pd
    from statsforecast import StatsForecast
    from statsforecast.models import ARIMA

    values, n_test = plant(260, 1), 40
    train, test = recording_of(values[:-n_test]), recording_of(values[-n_test - 30 :])
    model = ARIMA(order=(2, 0, 0))
    detector = FromStatsForecast(model, validation_share=0.0).fit(train)
    residuals = detector.residuals(test)
    scaled = np.concatenate(
        [runs_of_scaled(detector, each)[0][1] for each in (train, test)]
    )
    series = np.concatenate([scaled[: len(values) - n_test], scaled[-n_test:]])[:, 0]
    frame = pd.DataFrame({"unique_id": "a", "ds": np.arange(len(series)), "y": series})
    own = StatsForecast(models=[model], freq=1).cross_validation(
        df=frame, h=1, step_size=1, n_windows=n_test, refit=False
    )
    errors = (own["y"] - own["ARIMA"]).to_numpy()
    assert np.abs(residuals.values[-n_test:, 0] - errors).max() < 1e-9


def test_a_model_of_statsforecast_passes_the_checks_of_our_own():
    pytest.importorskip("statsforecast", reason=STATSFORECAST)
    from statsforecast.models import AutoRegressive

    check_detector(lambda: FromStatsForecast(AutoRegressive(lags=2)))


def test_statsforecast_models_that_cannot_go_on_are_refused():
    pytest.importorskip("statsforecast", reason=STATSFORECAST)
    from statsforecast.models import WindowAverage

    with pytest.raises(StreamError, match="object with `forward`; got WindowAverage"):
        FromStatsForecast(WindowAverage(3))


@pytest.mark.parametrize(
    ("adapter", "module", "extra"),
    [
        (FromDarts, "darts", "darts"),
        (FromStatsForecast, "statsforecast", "statsforecast"),
    ],
)
def test_a_library_that_is_missing_is_one_sentence(adapter, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install '.*\[{extra}\]'"):
        adapter(object())
