"""Does the telemetry itself move? The one-step model and its five views."""

import numpy as np
import pytest
from strategies import ChunkedRows

from sightline import ResidualStream, evaluate, fit_reference
from sightline.data.row_tables import ArrayRows
from sightline.data.segments import Segment
from sightline.energy.energy import ScoredTest
from sightline.errors import StreamError
from sightline.facts.telemetry import RIDGE, Views, _held, fit_one_step
from sightline.judgement.calm import CalmWindows
from sightline.judgement.evidence import gather_telemetry


def autoregressive(n_rows, d=3, seed=0, phi=0.9):
    noise = np.random.default_rng(seed).normal(size=(n_rows, d))
    for t in range(1, n_rows):
        noise[t] += phi * noise[t - 1]
    return noise + 20


def by_least_squares(values, breaks=(0,)):
    now = np.setdiff1d(np.arange(len(values)), breaks)
    x, y = values[now - 1], values[now]
    mean, scale = x.mean(axis=0), x.std(axis=0)
    x, y = (x - mean) / scale, (y - mean) / scale
    d = values.shape[1]
    ridge = np.sqrt(RIDGE * len(x)) * np.eye(d)
    stacked = np.concatenate([x, ridge]), np.concatenate([y, np.zeros((d, d))])
    return mean, scale, np.linalg.lstsq(*stacked, rcond=None)[0]


@pytest.mark.parametrize("breaks", [(0,), (0, 1, 700, 2500)])
def test_the_model_is_ridge_regression_on_the_row_before(breaks):
    values = autoregressive(4000)
    model = fit_one_step(ChunkedRows(values, [5, 1500]), np.array(breaks))
    mean, scale, weights = by_least_squares(values, breaks)
    np.testing.assert_allclose(model.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(model.scale, scale, rtol=1e-9)
    np.testing.assert_allclose(model.weights, weights, atol=2e-3)


def test_a_model_needs_two_rows_in_a_run():
    with pytest.raises(StreamError, match="2 rows"):
        fit_one_step(ArrayRows(np.ones((3, 2))), np.array([0, 1, 2]))


def test_nothing_changes_or_surprises_at_a_break():
    values, breaks = autoregressive(3000), np.array([0, 1024, 2000])
    values[2000:] += 500
    views = Views(ArrayRows(values), breaks, fit_one_step(ArrayRows(values), breaks))
    seen = np.concatenate(list(views.chunks()))
    assert seen.shape == (views.n_rows, views.n_channels) == (3000, 15)
    np.testing.assert_array_equal(seen[:, :3], values)
    assert (seen[breaks, 3:12] == 0).all()
    inside = np.setdiff1d(np.arange(3000), breaks)
    change = values[inside] - values[inside - 1]
    np.testing.assert_array_equal(seen[inside, 3:6], change)


def gathered(train, test, segment, labels=None):
    windows = CalmWindows(length=segment.length, starts=np.arange(0, 1800, 50))
    if labels is None:
        labels = np.zeros(len(test), np.int8)
        labels[segment.rows] = 1
    edges = [windows.starts, windows.stops, [segment.start, segment.stop]]
    residuals = np.random.default_rng(0).normal(size=(len(test), 2))
    stream = ResidualStream(
        np.random.default_rng(1).normal(size=(len(train), 2)),
        residuals,
        labels,
        telemetry_train=train,
        telemetry_test=test,
    )
    energy = np.ones(len(test))
    scored = ScoredTest(
        energy=energy,
        labels=labels,
        attacks=stream.attack_segments(),
        breaks=stream.test_breaks,
        reference=fit_reference(residuals),
        threshold=1.0,
        alarms=energy > 1.0,
    )
    found = gather_telemetry(stream, scored, np.unique(np.concatenate(edges)))
    return None if found is None else found.judged(segment, windows)[0]


def waves(n_rows, seed):
    rng, t = np.random.default_rng(seed), np.arange(n_rows)
    return np.column_stack(
        [10 * np.sin(t / 40), 10 * np.cos(t / 40), rng.normal(size=n_rows)]
    ) + 0.01 * rng.normal(size=(n_rows, 3))


def test_a_ramp_inside_the_normal_range_is_a_surprise():
    train, test, segment = waves(5000, 0), waves(3000, 1), Segment(2000, 2080)
    test[segment.rows, 0] = np.linspace(-5, 5, 80)
    rung = gathered(train, test, segment)
    assert rung.visible
    assert "(surprise)" in rung.by[0]


def test_calm_telemetry_shows_nothing():
    rung = gathered(waves(5000, 0), waves(3000, 1), Segment(2000, 2080))
    assert not rung.visible


def test_constant_channels_and_frozen_telemetry_do_no_harm():
    train, test, segment = waves(5000, 0), waves(3000, 1), Segment(2000, 2080)
    train[:, 1] = test[:, 1] = 4.0
    assert not gathered(train, test, segment).visible
    test[segment.rows, 2] += 6
    assert gathered(train, test, segment).visible
    assert gathered(np.ones((500, 2)), np.ones((3000, 2)), segment) is None
    assert gathered(train, np.ones((3000, 3)), segment) is not None


def test_wild_ignored_rows_do_not_hide_a_surprise():
    train, test = waves(5000, 0), waves(3000, 1)
    segment, labels = Segment(2000, 2080), np.zeros(3000, np.int8)
    test[segment.rows, 0] = np.linspace(-5, 5, 80)
    labels[segment.rows] = 1
    # None of them in a window, yet each has an attack-free row after it.
    labels[2200:3000:20] = -1
    before = gathered(train, test, segment, labels)
    test[2200:3000:20] *= 1e4
    after = gathered(train, test, segment, labels)
    assert before.visible
    assert after == before


def test_telemetry_with_a_dead_channel_does_not_crash():
    rng, labels = np.random.default_rng(0), np.zeros(3000, np.int8)
    labels[2000:2080] = 1
    telemetry = waves(3000, 1)
    telemetry[:, 1] = 7.0
    stream = ResidualStream(
        rng.normal(size=(3000, 3)),
        rng.normal(size=(3000, 3)),
        labels,
        telemetry_train=np.ones((3000, 3)),
        telemetry_test=telemetry,
    )
    found = evaluate(stream, intervals=False)
    assert found.diagnosis.telemetry_judged is False
    assert found.segments[0].verdict == "weak-evidence"


def test_a_frozen_reading_shows_as_less_activity():
    values = autoregressive(3000)
    values[1500:1600, 1] = values[1500, 1]
    breaks = np.array([0])
    model = fit_one_step(ArrayRows(autoregressive(3000)), breaks)
    seen = np.concatenate(list(Views(ArrayRows(values), breaks, model).chunks()))
    activity = seen[:, 13]
    assert activity[1560:1600].max() < activity[100:1400].min()


def test_a_small_error_that_lasts_adds_up():
    values = autoregressive(3000)
    model = fit_one_step(ArrayRows(values), np.array([0]))
    surprise = np.concatenate(
        list(Views(ArrayRows(values), np.array([0]), model).chunks())
    )
    assert surprise[200:, 9].std() < 0.5 * surprise[200:, 6].std()


def test_missing_cells_hold_the_last_value():
    rows = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.inf], [3.0, 4.0]])
    wanted = [[0.0, 1.0], [2.0, 1.0], [2.0, 1.0], [3.0, 4.0]]
    assert _held(rows, None).tolist() == wanted
    assert _held(rows[:1], np.array([[9.0, 8.0]])).tolist() == [[9.0, 1.0]]
