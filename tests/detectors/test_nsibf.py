"""NSIBF on recordings: rows and their steps, phases, mishaps, search, saving."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sightline import FileError, Recording, StreamError, Tag, load_detector
from sightline.detectors.nsibf import NSIBF
from sightline.detectors.nsibf.filter import (
    UnscentedFilter,
    design_of,
    filter_tracks,
    measurements,
    repaired_root,
    smallest_ridge,
)
from sightline.testbeds import swat, wadi
from sightline.testbeds.base import tags_of

SMALL = {
    "window": 3,
    "input_range": 5,
    "epochs": 1,
    "lstm_width": 6,
    "transition_width": 8,
    "dtype": "float64",
    "batch_size": 64,
}


def plant(n=260, breaks=(0,), seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    pump = (np.sin(t / 15) > 0).astype(float)
    level = 5 + np.cumsum(pump - pump.mean()) / 10 + 0.01 * rng.normal(size=n)
    flow = 2 * pump + 0.05 * rng.normal(size=n)
    tags = (
        Tag(name="LIT", role="sensor"),
        Tag(name="P", role="actuator"),
        Tag(name="FIT", role="sensor"),
        Tag(name="SP", role="setpoint"),
    )
    values = np.column_stack([level, pump, flow, np.ones(n)])
    return Recording(values=values, tags=tags, step_s=1.0, breaks=np.array(breaks))


@pytest.fixture(scope="module")
def fitted():
    return NSIBF(**SMALL).fit(plant())


def test_a_detector_with_the_usual_windows_is_loaded(tmp_path):
    made = NSIBF(epochs=1).fit(plant(600))
    made.save(tmp_path / "it.npz")
    again = NSIBF.load(tmp_path / "it.npz")
    one, other = (d.residuals(plant(200)).values for d in (made, again))
    np.testing.assert_array_equal(one, other)


def one_filter(fitted, rows, track):
    """The filter of one track, step by step, in the plain form."""
    network = fitted.network
    weights = network.keras_arrays()
    plain = UnscentedFilter(
        weights["f"][3:],
        weights["h"],
        fitted.state_noise,
        fitted.measurement_noise,
        form="plain",
    )
    at = measurements(rows, 2, 3)
    reads = np.stack([rows[tau - 4 : tau + 1] for tau in track])
    with torch.no_grad():
        codes = plain.code_part(network.read(torch.from_numpy(reads)).numpy())
        state = network.encode(torch.from_numpy(at(track[:1]))).numpy()
    spread = 1e-5 * np.eye(plain.n)[None]
    newest, scores = [], []
    for t in range(1, len(track)):
        step = plain.step(state, spread, codes[t - 1 : t], at(track[t : t + 1]))
        state, spread = step.state, step.covariance
        newest.append(step.innovation[0, 2::3])
        scores.append(step.score[0])
    return np.array(newest), np.array(scores)


def test_one_row_a_window_with_the_step_of_its_newest_row(fitted):
    told = fitted.residuals(plant())
    # First valid row 4, then one window of 3 rows after another; the first starts it.
    assert told.index[:3].tolist() == [7, 10, 13]
    assert (told.every, told.spacing) == (1, 3)
    assert told.channels == ("LIT", "FIT")
    assert told.space == "sensor"
    assert told.score.shape == (len(told.index),)


@pytest.mark.parametrize("per_row", [False, True])
def test_filters_side_by_side_are_the_filters_one_by_one(fitted, per_row):
    recording = plant(n=140, breaks=(0, 50, 53), seed=3)
    made = NSIBF(**SMALL, per_row=per_row).fit(plant())
    told = made.residuals(recording)
    scaled = made._preprocessing.test(recording, made.settings, np.float64)
    rows = made.design.apply(scaled.values)
    tracks = filter_tracks(scaled.breaks, len(rows), window=3, reach=5, per_row=per_row)
    found = {}
    for track in tracks:
        newest, scores = one_filter(made, rows, track)
        for tau, value, score in zip(track[1:], newest, scores, strict=True):
            found[int(tau)] = (value, score)
    assert told.index.tolist() == sorted(found)
    wanted = np.array([found[tau][0] for tau in told.index])
    np.testing.assert_allclose(told.values, wanted, atol=1e-8)
    scores = np.array([found[tau][1] for tau in told.index])
    np.testing.assert_allclose(told.score, scores, rtol=1e-6)


def test_every_row_far_enough_into_a_run_is_told_by_phases(fitted):
    recording = plant(n=60)
    made = NSIBF(**SMALL, per_row=True).fit(plant())
    told = made.residuals(recording)
    assert told.index.tolist() == list(range(7, 60))
    assert told.spacing == 1
    # The first phase is the native filter.
    native = NSIBF(**SMALL).fit(plant()).residuals(recording)
    is_native = np.isin(told.index, native.index)
    np.testing.assert_allclose(told.values[is_native], native.values, atol=1e-9)


def test_the_noise_is_estimated_on_rows_the_network_never_saw(fitted):
    train = plant()
    assert fitted.split.trained.tolist() == list(range(196))
    assert fitted.split.held_out.tolist() == list(range(196, 260))
    windows = fitted._training_windows(
        replace(
            fitted._preprocessing.train(train, fitted.settings, np.float64),
        ),
        fitted.settings,
    )
    trained, validation = fitted._divided(windows)
    assert windows.steps[validation].max() <= 195
    assert set(trained).isdisjoint(validation)


def test_other_tags_are_left_out_or_read():
    rich = NSIBF(**SMALL, other_tags="use").fit(plant())
    poor = NSIBF(**SMALL).fit(plant())
    assert rich.design.n_inputs == poor.design.n_inputs + 1


def test_without_sensors_there_is_nothing_to_look_at():
    whole = plant()
    tags = tuple(replace(tag, role="actuator") for tag in whole.tags)
    with pytest.raises(StreamError, match="no tag of the recording has the role"):
        NSIBF(**SMALL).fit(replace(whole, tags=tags))


def test_a_filter_that_cannot_go_on_begins_anew_and_says_so(fitted, tmp_path):
    fitted.save(tmp_path / "nsibf.npz")
    broken = load_detector(tmp_path / "nsibf.npz")
    broken.state_noise = np.full_like(broken.state_noise, np.nan)
    told = broken.residuals(plant(n=90, seed=5))
    assert f"could not continue after {len(told.index)} steps" in " ".join(told.notices)
    # Each begins at the window before, so all is told, and nothing is put to 0.
    assert np.isfinite(told.values).all()
    assert not (told.values == 0).all(axis=1).any()


def test_a_negative_form_has_no_score():
    # Nothing is decoded, so that the covariance of a measurement is the noise alone.
    transition, decoder = (
        (np.zeros((2, 1)), np.zeros(1)),
        (np.zeros((1, 1)), np.zeros(1)),
    )
    for noise, score in ((0.25, 4.0), (-0.25, np.nan)):
        filters = UnscentedFilter(
            transition, decoder, np.eye(1), np.full((1, 1), noise), form="plain"
        )
        code = filters.code_part(np.zeros((1, 1)))
        step = filters.step(
            np.zeros((1, 1)), np.ones((1, 1, 1)), code, np.full((1, 1), 2.0)
        )
        np.testing.assert_allclose(step.score, [score])


def test_a_matrix_that_is_not_finite_cannot_be_repaired():
    assert np.isnan(repaired_root(np.array([[1.0, np.inf], [np.inf, 1.0]]))).all()
    near = repaired_root(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert np.isfinite(near).all()


def test_the_least_ridge_that_lets_a_covariance_factor():
    assert smallest_ridge(np.eye(3)) == 0.0
    flat = np.ones((3, 3))
    ridge = smallest_ridge(flat)
    assert 0 < ridge <= 1e-8
    np.linalg.cholesky(flat + ridge * np.eye(3))
    # A sensor that never moves has no noise at all.
    assert smallest_ridge(np.zeros((2, 2))) > 0


def test_a_search_keeps_the_draw_that_forecasts_best(tmp_path):
    made = NSIBF(**SMALL, search=3, search_epochs=1, seed=4).fit(plant())
    again = NSIBF(**SMALL, search=3, search_epochs=1, seed=4).fit(plant())
    assert made.chosen == again.chosen
    assert 1 <= made.chosen["state"] <= 6
    assert made.about()["chosen"] == made.chosen
    errors = {}
    rng = np.random.default_rng(4)
    from sightline.detectors.nsibf.filter import drawn_sizes

    for _ in range(3):
        sizes = drawn_sizes(rng, 2)
        one = NSIBF(**SMALL | sizes, seed=4).fit(plant())
        errors[tuple(sizes.values())] = one._forecast_error
    assert tuple(made.chosen.values()) == min(errors, key=errors.get)
    made.save(tmp_path / "searched.npz")
    loaded = load_detector(tmp_path / "searched.npz")
    assert loaded.chosen == made.chosen
    recording = plant(n=80, seed=9)
    told, same = made.residuals(recording), loaded.residuals(recording)
    assert (told.values == same.values).all()


def test_both_forms_agree_through_the_detector(fitted):
    recording = plant(n=120, seed=8)
    plain = NSIBF(**SMALL, form="plain").fit(plant())
    np.testing.assert_allclose(
        fitted.residuals(recording).values, plain.residuals(recording).values, atol=1e-9
    )


@pytest.mark.parametrize(
    ("tags", "sensors", "actuators"),
    [(swat.TAGS, 25, 26), (wadi.TAGS, 67, 26), (tags_of("hai", "21.03"), 27, None)],
    ids=["swat", "wadi", "hai"],
)
def test_the_sensor_subspace_of_the_testbeds(tags, sensors, actuators):
    values = np.zeros((3, len(tags)))
    roles = [tag.role for tag in tags]
    design = design_of(values, roles, use_others=False, most_levels=20)
    assert len(design.sensors) == sensors
    assert actuators is None or len(design.actuators) == actuators


def test_a_file_of_an_earlier_version_says_to_fit_again(tmp_path):
    path = tmp_path / "nsibf.npz"
    NSIBF(**SMALL).fit(plant()).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(str(arrays.pop("about_json"))) | {"version": 4}
    np.savez(path, about_json=np.array(json.dumps(about)), **arrays)
    with pytest.raises(FileError, match=r"version 4 of NSIBF.* or fit it again"):
        load_detector(path)
