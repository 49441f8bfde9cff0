"""Excerpts for pictures: the right rows, channels and episodes, and bounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import Attack, ResidualStream, evaluate, read_results, write_results
from sightline.evaluation.chart_data import MOST_CHANNELS, MOST_COLUMNS, OWN, P99

P = 12


def stream(*, n_test=4000, spans=((500, 600), (2000, 2500)), telemetry=True, **known):
    rng = np.random.default_rng(3)
    train, test = rng.normal(size=(2000, P)), rng.normal(size=(n_test, P))
    labels = np.zeros(n_test, np.int8)
    for start, stop in spans:
        labels[start:stop] = 1
        test[start:stop, 4] += 9.0
    names = [f"T{j}" for j in range(P)]
    given_telemetry = {
        "telemetry_train": train + 50,
        "telemetry_test": test + 50,
        "telemetry_channels": names,
    }
    return ResidualStream(
        train,
        test,
        labels,
        channels=names,
        segments=[Attack(id="1", start=500, stop=600, targets=("T9",))],
        step_s=1.0,
        **(given_telemetry if telemetry else {}),
        **known,
    )


def traces_of(made):
    return evaluate(made, intervals=False, diagnosis=False).traces


@pytest.fixture(scope="module")
def traces():
    return traces_of(stream())


def test_the_strongest_channel_comes_first_and_targets_have_a_place(traces):
    assert traces.excerpt_channels.shape == (2, MOST_CHANNELS)
    assert list(traces.excerpt_channels[:, 0]) == [4, 4]
    assert 9 in traces.excerpt_channels[0]
    assert len(set(traces.excerpt_channels[0])) == MOST_CHANNELS


def test_a_picture_reaches_an_attacks_length_to_each_side(traces):
    assert traces.excerpt_rows.tolist() == [[400, 700], [1500, 3000]]
    assert traces.excerpt_columns.tolist() == [300, 300]


def test_columns_hold_lowest_highest_and_mean_of_the_telemetry():
    made = stream()
    traces = traces_of(made)
    low, high, mean = traces.excerpt_signals[1, 0, :300].T
    values = made.telemetry_test.values[1500:3000, 4].reshape(300, 5)
    np.testing.assert_allclose(low, values.min(axis=1), rtol=1e-6)
    np.testing.assert_allclose(high, values.max(axis=1), rtol=1e-6)
    np.testing.assert_allclose(mean, values.mean(axis=1), rtol=1e-6)
    assert traces.excerpt_telemetry[1, 0] == 4


def test_without_telemetry_residuals_stand_for_it():
    made = stream(telemetry=False)
    traces = traces_of(made)
    assert (traces.excerpt_telemetry == -1).all()
    values = made.test.values[1500:3000, 4].reshape(300, 5)
    np.testing.assert_allclose(
        traces.excerpt_signals[1, 0, :300, 1], values.max(axis=1), rtol=1e-6
    )
    assert traces.state_channel is None


def test_contributions_stand_out_during_the_attack(traces):
    heat = traces.excerpt_contributions[1, 0]
    assert heat[100:200].min() > 10 * np.median(heat[:100])


def test_false_alarms_are_those_counted_and_led_by_their_channel():
    rng = np.random.default_rng(0)
    made = stream(alarms=(rng.random(4000) < 0.01).astype(int))
    burst = made.test.values.copy()
    burst[1000:1010, 7] += 30.0
    evaluation = evaluate(made.replace(test=burst), intervals=False, diagnosis=False)
    traces = evaluation.traces
    for rule, alarms in ((P99, evaluation.probe), (OWN, evaluation.own_rule)):
        assert (traces.episode_rule == rule).sum() == alarms.false_positive_segments
    at = np.flatnonzero((traces.episode_start == 1000) & (traces.episode_rule == P99))
    assert traces.episode_length[at] == 10
    assert traces.episode_channel[at] == 7


def test_the_first_own_alarm_of_each_attack_is_told():
    alarms = np.zeros(4000, int)
    alarms[[530, 531]] = 1
    traces = traces_of(stream(alarms=alarms))
    assert traces.own_first_alarm.tolist() == [30, -1]


def test_states_of_the_plant_are_counted_for_false_alarms():
    made = stream()
    telemetry = made.telemetry_test.values.copy()
    telemetry[:, 2] = 1.0
    telemetry[:400, 2] = 2.0
    burst = made.test.values.copy()
    burst[50:400:20, 1] += 30.0
    traces = traces_of(made.replace(telemetry_test=telemetry, test=burst))
    assert traces.state_channel.tolist() == [2]
    states = traces.state_value[0]
    assert states[:2].tolist() == [1.0, 2.0]
    assert np.isnan(states[2:]).all()
    assert traces.state_time_share[0, 1] < 0.2 < traces.state_alarm_share[0, 1]


def test_excerpts_survive_the_disk(tmp_path):
    evaluation = evaluate(stream(), intervals=False)
    write_results([evaluation], tmp_path)
    (result,) = read_results([tmp_path])
    for name, values in vars(evaluation.traces).items():
        if name.startswith(("excerpt_", "episode_", "state_")) and values is not None:
            np.testing.assert_array_equal(getattr(result.traces, name), values, name)
    assert list(result.traces.channel_names) == [f"T{j}" for j in range(P)]


@settings(max_examples=20)
@given(
    st.integers(0, 3000),
    st.integers(1, 900),
)
def test_a_picture_is_bounded_and_holds_its_attack(start, length):
    stop = min(start + length, 3999)
    traces = traces_of(stream(spans=((start, max(stop, start + 1)),), telemetry=False))
    (first, last), (n_columns,) = traces.excerpt_rows[0], traces.excerpt_columns
    assert 0 <= first <= start < max(stop, start + 1) <= last <= 4000
    assert n_columns == min(last - first, MOST_COLUMNS)
    assert np.isfinite(traces.excerpt_signals[0, :, :n_columns]).all()
    assert np.isnan(traces.excerpt_signals[0, :, n_columns:]).all()
