"""Laws of the plant: water is conserved, actuators are legal, control keeps it safe."""

import numpy as np
import pytest
from water_accounts import water_of

from sightline.progress import Step, StepKind
from sightline.testbeds.waterworks import (
    Drift,
    Scenario,
    conditions_of,
    simulate,
)
from sightline.testbeds.waterworks.plant import (
    ACTUATORS,
    AREA_M2,
    COLUMN,
    HEIGHT_MM,
    NOISE,
    QUANTUM,
    SENSORS,
    T101,
    T401,
    VALVES,
    empty_rows,
)
from sightline.testbeds.waterworks.process import WaterworksPlant


def channel(values, tag):
    return values[:, COLUMN[tag]].astype(np.float64)


@pytest.mark.parametrize("made", ["quick", "peaceful"])
def test_no_water_is_made_or_lost(made, request):
    water = water_of(request.getfixturevalue(made))
    assert abs(water.error) < 1e-6 * water.raw
    for tank in water.tanks:
        assert tank.inflow > 0
        assert abs(tank.error) < 1e-6 * tank.inflow


@pytest.mark.parametrize(
    ("tank", "level", "inlet", "outlet"),
    [(T101, "LIT101", "FIT101", "FIT201"), (T401, "LIT401", "FIT301", "FIT401")],
)
def test_levels_are_what_the_recorded_flows_add_up_to(
    peaceful, tank, level, inlet, outlet
):
    values = peaceful.train.values[: 6 * 3600]
    flow = channel(values, inlet) - channel(values, outlet)
    stored = np.cumsum(flow)[1:] / 3600.0 / AREA_M2[tank] * 1000.0
    rise = channel(values, level)[1:] - channel(values, level)[0]
    # A meter of still water reads noise cut at zero, so sums of readings creep.
    assert np.abs(rise - (stored - stored[0])).max() < 30.0
    assert np.ptp(rise) > 150.0


def test_what_leaves_one_tank_enters_the_next(quick):
    t101, t301, t401, *_ = water_of(quick).tanks
    assert t301.inflow == pytest.approx(t101.outflow, rel=1e-12)
    assert t401.inflow <= t301.outflow


@pytest.mark.parametrize("made", ["quick", "peaceful"])
def test_actuators_take_only_legal_states(made, request):
    simulation = request.getfixturevalue(made)
    for recording in (simulation.train, simulation.test):
        for tag in ACTUATORS:
            legal = {0.0, 1.0, 2.0} if tag in VALVES else {1.0, 2.0}
            assert set(np.unique(channel(recording.values, tag))) <= legal, tag


def test_a_valve_passes_through_moving_and_takes_its_time(peaceful):
    code = channel(peaceful.train.values, "MV101")
    for step in np.flatnonzero(np.diff(code)):
        assert 0.0 in (code[step], code[step + 1])
    moving = np.flatnonzero(np.diff(np.concatenate([[0], code == 0, [0]])))
    lasted = moving[1::2] - moving[::2]
    assert set(lasted) == {7}


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_the_controlled_plant_neither_overflows_nor_runs_dry(seed):
    made = simulate(days_train=0.01, days_test=1, seed=seed, scenario=Scenario())
    for tank in water_of(made).tanks:
        assert 0.0 < tank.lowest <= tank.highest < HEIGHT_MM, tank
        assert tank.overflow == tank.unmet == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("strength", ["none", "mild", "strong"])
@pytest.mark.parametrize("seed", range(6))
def test_a_week_of_the_controlled_plant_is_safe_whatever_the_drift(seed, strength):
    made = simulate(
        days_train=0.1,
        days_test=7,
        seed=seed,
        drift=Drift.of(strength),
        scenario=Scenario(),
    )
    for tank in water_of(made).tanks:
        assert 0.0 < tank.lowest <= tank.highest < HEIGHT_MM, tank
        assert tank.overflow == tank.unmet == 0.0


def test_levels_swing_between_their_set_points(peaceful):
    for tag, low, high in (
        ("LIT101", 500, 800),
        ("LIT301", 800, 1000),
        ("LIT401", 800, 1000),
    ):
        level = channel(peaceful.train.values, tag)
        assert low - 60 < level.min() < low + 5, tag
        assert high - 5 < level.max() < high + 15, tag


def test_backwash_comes_every_30_to_50_minutes_and_cleans_the_membrane(peaceful):
    values = peaceful.train.values
    starts = np.flatnonzero(np.diff(channel(values, "P602")) > 0)
    assert 1800 < np.median(np.diff(starts)) < 3000
    pressure, flow = channel(values, "DPIT301"), channel(values, "FIT301")
    filters = flow > 1.8
    before = [
        np.median(pressure[s - 600 : s][filters[s - 600 : s]]) for s in starts[1:]
    ]
    after = [
        np.median(pressure[s : s + 600][filters[s : s + 600]])
        for s in starts[:-1]
        if filters[s : s + 600].sum() > 60
    ]
    assert np.median(after) < np.median(before) - 3.0


def test_dosing_brings_the_water_to_its_set_points(peaceful):
    values = peaceful.train.values
    assert channel(values, "AIT201").mean() == pytest.approx(252, abs=2)
    assert channel(values, "AIT202").mean() == pytest.approx(7.0, abs=0.05)
    assert channel(values, "AIT203").mean() == pytest.approx(440, abs=8)
    assert channel(values, "AIT402").mean() == pytest.approx(222, abs=8)
    rises = np.diff(channel(values, "AIT203"))
    doses = channel(values, "P205")[1:] == 2
    flows = channel(values, "FIT201")[1:] > 1
    assert rises[doses & flows].mean() > 0 > rises[~doses & flows].mean()


def test_standby_pumps_stand_and_no_sensor_is_constant(peaceful):
    values = peaceful.train.values
    for tag in ("P102", "P202", "P204", "P206", "P301", "P401", "P404", "P502"):
        assert set(channel(values, tag)) == {1.0}, tag
    for tag in SENSORS:
        assert channel(values, tag).std() > 0.5 * NOISE[COLUMN[tag]], tag


def test_readings_are_multiples_of_their_quantum_and_not_negative(peaceful):
    for tag in SENSORS:
        quanta = channel(peaceful.train.values, tag) / QUANTUM[COLUMN[tag]]
        assert np.abs(quanta - np.round(quanta)).max() < 0.02, tag
        assert quanta.min() >= 0.0


def test_test_without_drift_is_like_train_and_no_copy_of_it(peaceful):
    train, test = peaceful.train.values, peaceful.test.values
    assert not np.array_equal(train, test)
    for tag in SENSORS:
        one, other = channel(train, tag), channel(test, tag)
        assert abs(one.mean() - other.mean()) < 0.75 * one.std(), tag


@pytest.mark.slow
def test_a_week_and_four_days_have_the_same_means():
    made = simulate(scenario=Scenario())
    for tag in SENSORS:
        one, other = channel(made.train.values, tag), channel(made.test.values, tag)
        assert abs(one.mean() - other.mean()) < 0.3 * one.std(), tag


@pytest.mark.parametrize("chunk_steps", [1, 977, 3600, 100_000])
def test_the_length_of_chunks_does_not_matter(chunk_steps):
    conditions = conditions_of(Drift())
    whole, pieces = empty_rows(8000), empty_rows(8000)
    runner = WaterworksPlant.warmed_up(4, conditions)
    runner.copy().run(whole)
    runner.chunk_steps = chunk_steps
    runner.run(pieces)
    assert whole.tobytes() == pieces.tobytes()


def test_seeds_differ():
    one, other = (
        simulate(days_train=0.01, days_test=0.01, seed=seed, scenario=Scenario())
        for seed in (1, 2)
    )
    assert not np.array_equal(one.train.values, other.train.values)


def test_progress_is_told_up_to_the_end():
    told = []
    simulate(
        days_train=0.1,
        days_test=0.1,
        scenario=Scenario(),
        progress=told.append,
    )
    assert Step(StepKind.SIMULATING, 8640, 8640, "train") in told
    assert told[-1] == Step(StepKind.SIMULATING, 8640, 8640, "test")


def test_recordings_follow_one_another_in_time(quick):
    train, test = quick.train.time, quick.test.time
    assert test[0] == train[-1] + 1
    assert (quick.train.step_s, len(quick.train.breaks)) == (1.0, 1)
    assert not quick.train.labels.any()
