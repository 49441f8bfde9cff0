"""Models of Time-Series-Library: residuals are the model's own errors.

The library is no package; a small module with the signature of its models stands in.
"""

import types
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_plants import plant, recording_of, runs_of_scaled

from sightline import StreamError
from sightline.detectors.adapters import FromTimeSeriesLibrary
from sightline.detectors.conformance import check_detector


@pytest.fixture(scope="module")
def train():
    return recording_of(plant(), breaks=np.array([0, 350]))


@pytest.fixture(scope="module")
def test():
    return recording_of(plant(300, seed=1), breaks=np.array([0, 120]))


class Model(torch.nn.Module):
    """A linear forecast of each channel, with the signature of the library's models."""

    def __init__(self, configs):
        super().__init__()
        self.task_name, self.pred_len = configs.task_name, configs.pred_len
        ahead = configs.pred_len if "forecast" in configs.task_name else configs.seq_len
        self.linear = torch.nn.Linear(configs.seq_len, ahead)
        self.calls = []

    def forward(self, x_enc, x_mark_enc, x_dec, x_mark_dec, mask=None):
        assert x_mark_enc is None
        self.calls.append((x_enc.shape, None if x_dec is None else x_dec.shape))
        if "forecast" in self.task_name:
            assert torch.all(x_dec[:, -self.pred_len :] == 0)
        return self.linear(x_enc.transpose(1, 2)).transpose(1, 2)


def configs(**changes):
    settings = {
        "task_name": "long_term_forecast",
        "seq_len": 12,
        "label_len": 4,
        "pred_len": 3,
        "train_epochs": 2,
        "batch_size": 32,
        "learning_rate": 1e-2,
    }
    return SimpleNamespace(**settings | changes)


@pytest.mark.parametrize("task", ["long_term_forecast", "anomaly_detection"])
def test_residuals_equal_the_errors_of_a_model_of_time_series_library(
    task, train, test
):
    torch.manual_seed(0)
    chosen = configs(task_name=task)
    detector = FromTimeSeriesLibrary(Model(chosen).double(), chosen).fit(train)
    residuals = detector.residuals(test)
    is_forecast = task != "anomaly_detection"
    before = 12 if is_forecast else 11
    assert len(residuals.index) == 300 - 2 * before
    for first, values in runs_of_scaled(detector, test):
        rows = torch.as_tensor(np.asarray(values, np.float64))
        for row in range(before, len(rows)):
            # As the library's own test loop does, one window at a time.
            if is_forecast:
                past = rows[row - 12 : row][None]
                decoded = torch.cat([past[:, -4:], torch.zeros(1, 3, 3)], 1).double()
                expected = detector.learned(past, None, decoded, None)[0, -3]
            else:
                window = rows[row - 11 : row + 1][None]
                expected = detector.learned(window, None, None, None)[0, -1]
            own = (rows[row] - expected).detach().numpy()
            at = int(np.flatnonzero(residuals.index == first + row)[0])
            assert np.abs(residuals.values[at] - own).max() < 1e-9


def test_training_lowers_the_error_and_leaves_the_given_model_alone(train, test):
    torch.manual_seed(0)
    model = Model(configs()).double()
    given = model.linear.weight.detach().clone()

    def error(epochs):
        chosen = configs(train_epochs=epochs)
        detector = FromTimeSeriesLibrary(model, chosen).fit(train)
        return float(np.mean(detector.residuals(test).values ** 2)), detector

    untrained, kept = error(0)
    trained, _ = error(20)
    assert trained < 0.5 * untrained
    assert torch.equal(model.linear.weight, given)
    assert torch.equal(kept.learned.linear.weight, given)


def test_the_same_seed_trains_the_same_model(train, test):
    torch.manual_seed(0)
    model = Model(configs())
    one, two = (
        FromTimeSeriesLibrary(model, configs()).fit(train).residuals(test)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.values, two.values)


def test_a_model_of_time_series_library_passes_the_checks_of_our_own():
    chosen = configs(seq_len=4, label_len=2, pred_len=1, train_epochs=1)

    def made():
        torch.manual_seed(0)
        return FromTimeSeriesLibrary(Model(chosen), chosen)

    check_detector(made)


def test_wrong_models_and_settings_are_one_sentence():
    with pytest.raises(StreamError, match="takes a torch module"):
        FromTimeSeriesLibrary(Model, configs())
    with pytest.raises(StreamError, match="`seq_len` must be 1 or more rows; got None"):
        FromTimeSeriesLibrary(Model(configs()), types.SimpleNamespace(pred_len=1))


def test_a_detector_is_named_after_the_file_of_its_model():
    detector = FromTimeSeriesLibrary(Model(configs()), configs())
    assert detector.card.name == __name__.rpartition(".")[2]
    assert repr(detector).endswith("not fitted")
