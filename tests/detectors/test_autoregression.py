import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from sightline.data.recording import Recording, Tag
from sightline.detectors import baselines
from sightline.detectors.baselines import (
    RIDGES,
    Lagged,
    LastValue,
    TrainingMean,
    VectorAutoregression,
    best_choice,
    lagged_moments,
)
from sightline.detectors.conformance import check_detector
from sightline.detectors.preprocessing import held_out_block
from sightline.errors import FileError, StreamError
from sightline.export import export_stream

DETECTORS = {
    "var": VectorAutoregression,
    "var-order-2": lambda: VectorAutoregression(order=2, ridge=0.01),
    "var-nothing-held-out": lambda: VectorAutoregression(validation_share=0.0),
    "var-trimmed": lambda: VectorAutoregression(trim_s=30, every=3),
}


@pytest.mark.parametrize("name", DETECTORS)
def test_it_passes_every_check(name):
    check_detector(DETECTORS[name])


def recording_of(values, **fields):
    values = np.asarray(values, float)
    tags = tuple(Tag(name=f"c{k}") for k in range(values.shape[1]))
    return Recording(values=values, tags=tags, **fields)


def plant(n_steps=1500, order=2, n_channels=4, seed=0, noise=1.0):
    """Return channels that depend on their last rows, in many units."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(order, n_channels, n_channels))
    mixing *= 0.9 / sum(np.linalg.norm(m, 2) for m in mixing)
    values = np.zeros((n_steps, n_channels))
    for t in range(order, n_steps):
        values[t] = noise * rng.normal(size=n_channels)
        for lag in range(order):
            values[t] += values[t - 1 - lag] @ mixing[lag]
    return values * 10.0 ** np.arange(-2, n_channels - 2) + 30


def in_units(told):
    return told.values * told.scale


def lag_matrix(values, rows, order):
    return np.hstack([values[rows - lag] for lag in range(1, order + 1)])


# Weights.


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("ridge", [0.0, 1e-6, 0.01, 3.0])
def test_residuals_are_those_of_scikit_learns_ridge(order, ridge):
    values, other = plant(), plant(300, seed=5)
    train = recording_of(values, breaks=[0, 400, 403, 900])
    detector = VectorAutoregression(order=order, ridge=ridge).fit(train)
    trained = detector.split.trained
    scaler = StandardScaler().fit(values[trained])
    standard = scaler.transform(values)
    model = Ridge(alpha=ridge * len(trained)).fit(
        lag_matrix(standard, trained, order), standard[trained]
    )
    told = detector.residuals(recording_of(other, breaks=[0, 120]))
    standard = scaler.transform(other)
    expected = model.predict(lag_matrix(standard, told.index, order))
    np.testing.assert_allclose(
        in_units(told) / scaler.scale_,
        standard[told.index] - expected,
        rtol=1e-8,
        atol=1e-10,
    )


def test_a_process_of_one_channel_by_hand():
    """Without ridge the weight is the regression of each row on the one before it."""
    values = np.array([0.0, 8, 4, 2, 1, 9, 3, 7])
    train = recording_of(values[:, np.newaxis])
    detector = VectorAutoregression(order=1, ridge=0.0, validation_share=0).fit(train)
    slope, level = np.polyfit(values[:-1], values[1:], 1)
    np.testing.assert_allclose(
        in_units(detector.residuals(train))[:, 0],
        values[1:] - slope * values[:-1] - level,
        atol=1e-12,
    )


def test_a_rule_without_noise_is_told_exactly():
    step = np.arange(600)
    turning = np.column_stack([np.cos(0.1 * step), 50 + 9 * np.sin(0.1 * step)])
    train = recording_of(turning)
    told = VectorAutoregression(order=1, ridge=0.0).fit(train).residuals(train)
    assert np.abs(told.values).max() < 1e-10


def test_much_ridge_leaves_the_mean():
    values = plant()
    detector = VectorAutoregression(order=1, ridge=1e12).fit(recording_of(values))
    mean = values[detector.split.trained].mean(axis=0)
    np.testing.assert_allclose(
        in_units(detector.residuals(recording_of(values))),
        values[1:] - mean,
        rtol=1e-6,
    )


def test_it_recovers_what_made_the_rows():
    train = recording_of(plant(20_000, order=2))
    detector = VectorAutoregression().fit(train)
    assert detector.order == 2
    left = in_units(detector.residuals(train)).std(axis=0)
    np.testing.assert_allclose(left, 10.0 ** np.arange(-2, 2), rtol=0.02)


def test_copies_of_a_channel_are_no_trouble():
    values = plant()
    train = recording_of(np.hstack([values, 3 * values, values[:, :1] + 7]))
    for ridge in (None, 0.0):
        detector = VectorAutoregression(ridge=ridge).fit(train)
        told = detector.residuals(train).values
        assert np.isfinite(told).all()
        np.testing.assert_allclose(told[:, :4], told[:, 4:8], atol=1e-7)


def test_it_keeps_its_digits_far_from_zero():
    values = plant()
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    near, far = recording_of(values), recording_of(values + 1e8)
    told = VectorAutoregression(ridge=0.01).fit(near).residuals(near).values
    moved = VectorAutoregression(ridge=0.01).fit(far).residuals(far).values
    np.testing.assert_allclose(moved, told, atol=1e-6)


# The choice.


@pytest.mark.parametrize("order", [1, 2, 3])
def test_held_out_rows_ask_for_as_many_rows_as_matter(order):
    rng = np.random.default_rng(order)
    values = np.zeros((6000, 2))
    for t in range(order, 6000):
        values[t] = 0.8 * values[t - order] + rng.normal(size=2)
    detector = VectorAutoregression().fit(recording_of(values))
    # More rows than needed cost nearly nothing here; fewer see nothing.
    assert detector.order >= order
    left = in_units(detector.residuals(recording_of(values))).std(axis=0)
    np.testing.assert_allclose(left, 1, rtol=0.03)


def test_the_choice_is_that_of_trying_all_on_the_held_out_rows():
    values = plant(150, order=3, n_channels=6, seed=2)
    detector = VectorAutoregression().fit(recording_of(values))
    trained, held_out = detector.split.trained, detector.split.held_out
    scaler = StandardScaler().fit(values[trained])
    standard = scaler.transform(values)
    errors = {}
    for order in range(1, 6):
        for ridge in RIDGES:
            model = Ridge(alpha=ridge * len(trained)).fit(
                lag_matrix(standard, trained, order), standard[trained]
            )
            expected = model.predict(lag_matrix(standard, held_out, order))
            errors[order, ridge] = ((standard[held_out] - expected) ** 2).mean()
    assert (detector.order, detector.ridge) == min(errors, key=errors.get)
    assert detector.residuals(recording_of(values)).notices == (
        f"Each row is predicted from the last {detector.order} rows, ridge "
        f"{detector.ridge:g}.",
    )


def test_rows_held_out_decide_and_rows_learned_from_do_not():
    """Channels follow themselves in train; where held out they do not."""
    values = plant(1200, order=1)
    honest = VectorAutoregression().fit(recording_of(values))
    block = held_out_block(1195, 0.2, 0)
    values[5 + block.start : 5 + block.stop] = np.random.default_rng(0).permutation(
        values[5 + block.start : 5 + block.stop]
    )
    doubting = VectorAutoregression().fit(recording_of(values))
    assert honest.ridge < 0.1
    assert doubting.ridge >= 1


def test_nothing_to_be_learned_takes_much_ridge():
    values = np.random.default_rng(1).normal(size=(400, 5))
    detector = VectorAutoregression().fit(recording_of(values))
    assert (detector.order, detector.ridge) == (1, 1.0)
    assert detector.residuals(recording_of(values)).notices == (
        "Each row is predicted from the last row, ridge 1.",
    )


def test_without_held_out_rows_cross_validation_chooses():
    """Generalised: the error of each row times what it is when it is left out."""
    values = plant(60, n_channels=3)
    detector = VectorAutoregression(validation_share=0).fit(recording_of(values))
    trained = detector.split.trained
    assert len(detector.split.held_out) == 0
    standard = StandardScaler().fit(values[trained]).transform(values)
    errors = {}
    for order in range(1, 6):
        past = lag_matrix(standard, trained, order)
        past = past - past.mean(axis=0)
        now = standard[trained]
        n = len(now)
        for ridge in RIDGES:
            gram = past.T @ past + n * ridge * np.eye(past.shape[1])
            hat = past @ np.linalg.solve(gram, past.T) + 1 / n
            left = ((now - hat @ now) ** 2).mean()
            errors[order, ridge] = left / (1 - np.trace(hat) / n) ** 2
    assert (detector.order, detector.ridge) == min(errors, key=errors.get)


def test_a_tie_goes_to_fewer_rows_and_more_ridge():
    flat = Lagged(10, np.zeros(3), np.diag([1.0, 0.0, 0.0]))
    chosen = best_choice(flat, flat, 1, (1, 2), (1.0, 0.1))
    assert (chosen.order, chosen.ridge) == (1, 1.0)


def test_no_order_has_more_weights_than_rows():
    values = np.random.default_rng(3).normal(size=(30, 8)).cumsum(axis=0)
    detector = VectorAutoregression().fit(recording_of(values))
    assert detector.order * 8 < len(detector.split.trained)
    wide = np.random.default_rng(3).normal(size=(20, 40))
    detector = VectorAutoregression().fit(recording_of(wide))
    assert detector.order == 1
    assert np.isfinite(detector.residuals(recording_of(wide)).values).all()


# Rows.


def test_rows_told_do_not_depend_on_what_is_chosen_and_never_cross_a_gap():
    values = plant(100)
    breaks = [0, 40, 44, 50]
    detector = VectorAutoregression().fit(recording_of(values, breaks=breaks))
    told = detector.residuals(recording_of(values, breaks=breaks))
    assert told.index.tolist() == [*range(5, 40), 49, *range(55, 100)]
    assert np.isin(detector.split.trained, told.index).all()
    told = (
        VectorAutoregression(order=2)
        .fit(recording_of(values))
        .residuals(recording_of(values, breaks=breaks))
    )
    assert told.index.tolist() == [
        *range(2, 40),
        42,
        43,
        *range(46, 50),
        *range(52, 100),
    ]


def test_what_lies_before_a_gap_is_not_learned_from():
    values = plant(400)
    other = values.copy()
    # Rows of a run too short to tell anything of.
    other[200:204] = values.max(axis=0)
    breaks = [0, 200, 204]
    told = [
        VectorAutoregression(scale_before_trim=True)
        .fit(recording_of(v, breaks=breaks))
        .weights
        for v in (values, other)
    ]
    np.testing.assert_allclose(told[0], told[1], rtol=1e-9, atol=1e-12)


def test_runs_that_are_too_short_are_refused():
    short = recording_of(plant(20), breaks=[0, 5, 10, 15])
    with pytest.raises(StreamError, match="Train leaves 0 rows to learn from, and Vec"):
        VectorAutoregression().fit(short)
    detector = VectorAutoregression().fit(recording_of(plant()))
    with pytest.raises(StreamError, match="No run of the recording has 6 rows, which"):
        detector.residuals(short)


def test_moments_do_not_depend_on_chunks(monkeypatch):
    values = plant(300)
    rows, columns = np.arange(3, 290), np.array([0, 2])
    mean, deviation = values[:, columns].mean(axis=0), values[:, columns].std(axis=0)
    monkeypatch.setattr(baselines, "_STACKED_ROWS", 17)
    made = lagged_moments(values, rows, 3, columns, mean, deviation)
    standard = (values[:, columns] - mean) / deviation
    stacked = np.hstack([standard[rows - lag] for lag in range(4)])
    np.testing.assert_allclose(made.mean, stacked.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(made.second, stacked.T @ stacked / len(rows))
    np.testing.assert_allclose(
        made.about(made.mean), np.cov(stacked.T, bias=True), atol=1e-12
    )
    train = recording_of(values)
    many = VectorAutoregression().fit(train).residuals(train).values
    monkeypatch.undo()
    one = VectorAutoregression().fit(train).residuals(train).values
    np.testing.assert_allclose(many, one, atol=1e-9)


@pytest.mark.parametrize("constant", [0.0, 0.1, -7e9])
def test_a_constant_channel_keeps_its_value_minus_the_constant(constant):
    values = plant(200)
    values[:, 2] = constant
    detector = VectorAutoregression().fit(recording_of(values))
    without = np.delete(values, 2, axis=1)
    same = VectorAutoregression().fit(recording_of(without))
    test = values.copy()
    test[50:, 2] += 4
    told = detector.residuals(recording_of(test)).values
    np.testing.assert_array_equal(told[:, 2], test[5:, 2] - constant)
    np.testing.assert_allclose(
        np.delete(told, 2, axis=1),
        same.residuals(recording_of(without)).values,
        atol=1e-10,
    )


def test_nothing_that_moves_is_told_by_its_mean():
    train = recording_of(np.full((30, 2), 5.0))
    for share in (0.0, 0.2):
        detector = VectorAutoregression(validation_share=share).fit(train)
        told = detector.residuals(recording_of(np.full((30, 2), 6.0)))
        np.testing.assert_array_equal(told.values, 1.0)


def test_it_beats_the_other_forecasts_on_held_out_rows():
    train = recording_of(plant())
    left = {}
    for kind in (VectorAutoregression, LastValue, TrainingMean):
        stream = export_stream(kind().fit(train), train, recording_of(plant(seed=8)))
        left[kind] = (np.vstack(list(stream.calibration.chunks())) ** 2).mean()
    assert left[VectorAutoregression] < min(left[LastValue], left[TrainingMean])


# Saving and settings.


@pytest.mark.parametrize("preset", ["export", "official"])
def test_saved_is_loaded_to_the_last_bit(preset, tmp_path):
    train, test = recording_of(plant(300)), recording_of(plant(100, seed=9))
    detector = VectorAutoregression(preset, every=2, seed=3).fit(train)
    detector.save(tmp_path / "it.npz")
    loaded = VectorAutoregression.load(tmp_path / "it.npz")
    told, again = detector.residuals(test), loaded.residuals(test)
    np.testing.assert_array_equal(told.values, again.values)
    assert told.notices == again.notices
    assert loaded.settings == detector.settings
    assert loaded.ridge == detector.ridge
    with pytest.raises(FileError, match="holds 'var', not the detector 'mean'"):
        TrainingMean.load(tmp_path / "it.npz")


def test_a_detector_that_looks_far_back_is_loaded(tmp_path):
    detector = VectorAutoregression(order=40).fit(recording_of(plant(300)))
    detector.save(tmp_path / "it.npz")
    assert VectorAutoregression.load(tmp_path / "it.npz").order == 40


@pytest.mark.parametrize("lacking", ["mean", "weights", "intercept", "ridge"])
def test_a_file_that_lacks_an_array_is_refused(lacking, tmp_path):
    VectorAutoregression().fit(recording_of(plant(50))).save(tmp_path / "it.npz")
    with np.load(tmp_path / "it.npz") as file:
        arrays = dict(file)
    del arrays[lacking]
    np.savez(tmp_path / "it.npz", **arrays)
    with pytest.raises(FileError, match=r"is not a whole detector .* fit it again\.$"):
        VectorAutoregression.load(tmp_path / "it.npz")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"order": 0}, "`order` must be a whole number, 1 or more; got 0"),
        ({"order": 1.5}, "`order` must be a whole number, 1 or more"),
        ({"ridge": -1}, "`ridge` must be a number, 0 or more; got -1"),
        ({"ridge": np.inf}, "`ridge` must be a number, 0 or more"),
        ({"validation_share": 1.0}, "`validation_share` must be a number, 0 or more"),
        ({"lags": 3}, "Vector autoregression has no setting 'lags'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(StreamError, match=sentence):
        VectorAutoregression(**settings)


def test_its_rows_on_a_testbed_are_those_of_the_other_baselines():
    assert VectorAutoregression.card.settings == TrainingMean.card.settings
    assert VectorAutoregression(testbed="swat").settings.every == 10
    assert VectorAutoregression.card.paper == "A baseline, no paper."
