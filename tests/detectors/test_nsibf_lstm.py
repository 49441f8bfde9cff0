"""NSIBF's own LSTM against torch's, and trainings in parts."""

import numpy as np
import pytest
import torch
from torch import nn

from sightline import Recording, Tag
from sightline._kernels.recurrent import gates_ahead
from sightline.detectors.networks import weights_of
from sightline.detectors.nsibf.detector import NSIBF
from sightline.detectors.nsibf.lstm import Reader
from sightline.parallel import threads

SIZES = pytest.mark.parametrize(
    ("batch", "rows", "inputs", "width", "layers"),
    [(1, 1, 1, 1, 1), (3, 2, 5, 4, 1), (7, 9, 3, 6, 2), (33, 12, 10, 17, 3)],
)


def lstm_of(inputs, width, layers):
    torch.manual_seed(3)
    return nn.LSTM(inputs, width, layers)


def both(reader, lstm, u):
    ours = reader.last_codes(lstm, u)
    double = nn.LSTM(lstm.input_size, lstm.hidden_size, lstm.num_layers).double()
    double.load_state_dict(lstm.state_dict())
    theirs = double(u.double().transpose(0, 1))[1][0][-1]
    return ours, theirs, double


@SIZES
def test_codes_and_gradients_are_those_of_torch(batch, rows, inputs, width, layers):
    lstm, reader = lstm_of(inputs, width, layers), Reader()
    # Twice: the second time in memory that the first has written to.
    for _ in range(2):
        u, slope = torch.randn(batch, rows, inputs), torch.randn(batch, width)
        ours, theirs, double = both(reader, lstm, u)
        torch.testing.assert_close(ours.double(), theirs, atol=5e-7, rtol=0)
        lstm.zero_grad()
        (ours * slope).sum().backward()
        (theirs * slope).sum().backward()
        for one, other in zip(lstm.parameters(), double.parameters(), strict=True):
            near = 2e-6 * max(1.0, other.grad.abs().max().item())
            torch.testing.assert_close(one.grad.double(), other.grad, atol=near, rtol=0)


def test_without_gradients_the_codes_are_the_same_bits():
    lstm, reader, u = lstm_of(5, 8, 2), Reader(), torch.randn(20, 6, 5)
    with torch.inference_mode():
        first = reader.last_codes(lstm, u)
    kept = reader.last_codes(lstm, u)
    kept.sum().backward()
    with torch.no_grad():
        assert torch.equal(reader.last_codes(lstm, u), first)
    assert torch.equal(kept, first)


def test_batches_before_their_way_back_do_not_share_memory():
    lstm, reader = lstm_of(2, 3, 2), Reader()
    one, two = torch.randn(2, 4, 5, 2)
    alone = torch.autograd.grad(reader.last_codes(lstm, one).sum(), lstm.weight_ih_l0)
    first, second = reader.last_codes(lstm, one), reader.last_codes(lstm, two)
    second.sum().backward()
    again = torch.autograd.grad(first.sum(), lstm.weight_ih_l0)
    assert torch.equal(alone[0], again[0])


def test_activations_are_good_to_single_precision_and_pass_a_nan_on():
    x = np.linspace(-30, 30, 40_001)
    x = np.concatenate([x, x / 1e3, x / 1e6, [90, -90, np.inf, -np.inf, np.nan]])
    x = x.astype(np.float32)
    n = len(x)
    gates, cells = np.tile(x, (1, 4)), np.zeros((2, n), np.float32)
    gates_ahead(0, gates, cells, np.zeros((2, n), np.float32))
    exact = x.astype(float)
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(-exact))
    for part, truth in ((0, sigmoid), (1, sigmoid), (2, np.tanh(exact)), (3, sigmoid)):
        ours = gates[0, part * n : (part + 1) * n]
        np.testing.assert_allclose(ours, truth, rtol=3e-7, atol=1e-34)
    assert np.isnan(gates[0, n - 1 :: n]).all()


def plant(rows=700):
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(rows)[:, None] / [5, 7, 11, 13]) + rng.normal(
        0, 0.1, (rows, 4)
    )
    values[:, 3] = values[:, 3] > 0
    roles = ("sensor", "sensor", "sensor", "actuator")
    tags = tuple(Tag(name=f"T{k}", role=role) for k, role in enumerate(roles))
    return Recording(values=values, tags=tags, step_s=5.0)


def trained(jobs, **overrides):
    settings = {"window": 3, "input_range": 6, "lstm_width": 5, "epochs": 2}
    with threads(jobs):
        made = NSIBF(**settings, batch_size=300, **overrides).fit(plant())
        return made, made.residuals(plant())


def test_a_batch_in_parts_gives_the_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(NSIBF, "windows_at_once", 64)
    (one, told), (two, again) = trained(1), trained(2, threads=2)
    for name, array in weights_of(one.network).items():
        np.testing.assert_array_equal(array, weights_of(two.network)[name])
    assert one.history == two.history
    np.testing.assert_array_equal(told.values, again.values)


def test_a_batch_in_parts_learns_what_a_whole_one_learns(monkeypatch):
    whole, _ = trained(1, dtype="float64")
    monkeypatch.setattr(NSIBF, "windows_at_once", 64)
    parts, _ = trained(1, dtype="float64")
    single, _ = trained(1)
    for name, array in weights_of(whole.network).items():
        np.testing.assert_allclose(weights_of(parts.network)[name], array, atol=1e-12)
        np.testing.assert_allclose(weights_of(single.network)[name], array, atol=1e-4)
    np.testing.assert_allclose(parts.history.train, whole.history.train, rtol=1e-12)
    np.testing.assert_allclose(
        parts.history.validation, whole.history.validation, rtol=1e-12
    )
