import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from sightline.data.recording import Recording, Tag
from sightline.data.validity import Validity
from sightline.detectors import baselines, load_detector, make_detector
from sightline.detectors.baselines import (
    LastValue,
    PCAReconstruction,
    TrainingMean,
    VectorAutoregression,
    fewest_components,
    left_out_errors,
    moments,
)
from sightline.detectors.preprocessing import expected_cells, held_out_block
from sightline.errors import FileError, StreamError
from sightline.export import without_lost
from sightline.progress import Step, StepKind

BASELINES = [TrainingMean, LastValue, PCAReconstruction]


def recording_of(values, **fields):
    values = np.asarray(values, float)
    tags = tuple(Tag(name=f"c{k}") for k in range(values.shape[1]))
    return Recording(values=values, tags=tags, **fields)


def plant(n_steps=1000, n_channels=7, n_causes=2, seed=0, noise=0.3):
    """Return channels that are mixtures of a few common causes, in many units."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n_steps, n_causes))
    mixed = causes @ rng.normal(size=(n_causes, n_channels))
    values = mixed + noise * rng.normal(size=mixed.shape)
    return values * 10.0 ** rng.integers(-3, 4, n_channels) + 50


def in_units(told):
    """Return residuals in the plant's units."""
    return told.values * told.scale


# The mean.


def test_mean_by_hand():
    train = recording_of([[0, 5], [2, 5], [4, 5], [10, 5]])
    detector = TrainingMean(validation_share=0).fit(train)
    told = detector.residuals(recording_of([[4, 5], [9, 7], [-6, 4]]))
    np.testing.assert_allclose(told.values, [[0, 0], [0.5, 2], [-1, -1]])
    np.testing.assert_allclose(told.scale, [10, 1])
    assert told.values.dtype == np.float64
    assert told.index.tolist() == [0, 1, 2]
    assert told.channels == ("c0", "c1")
    assert told.space == "observation"
    assert told.notices == ()


def test_mean_is_of_the_rows_that_are_not_held_out():
    values = plant()
    detector = TrainingMean(seed=7).fit(recording_of(values))
    block = np.arange(1000)[held_out_block(1000, 0.2, 7)]
    np.testing.assert_array_equal(detector.split.held_out, block)
    np.testing.assert_array_equal(
        detector.split.trained, np.setdiff1d(np.arange(1000), block)
    )
    np.testing.assert_allclose(
        in_units(detector.residuals(recording_of(values))),
        values - values[detector.split.trained].mean(axis=0),
        atol=1e-9,
    )


# The row before.


def test_last_value_by_hand():
    train = recording_of([[0.0, 1], [4, 1], [1, 1], [3, 1]])
    test = recording_of([[1, 1], [3, 1], [3, 2], [9, 2], [7, 1]], breaks=[0, 3])
    told = LastValue(validation_share=0).fit(train).residuals(test)
    np.testing.assert_allclose(told.values, [[0.5, 0], [0, 1], [-0.5, -1]])
    assert told.index.tolist() == [1, 2, 4]
    np.testing.assert_allclose(told.scale, [4, 1])


def test_last_value_splits_the_rows_it_can_tell():
    train = recording_of(plant(100), breaks=[0, 50])
    split = LastValue().fit(train).split
    told = np.setdiff1d(np.arange(100), [0, 50])
    assert len(split.held_out) == int(98 * 0.2)
    np.testing.assert_array_equal(np.union1d(split.trained, split.held_out), told)


def test_last_value_refuses_runs_of_one_row():
    detector = LastValue().fit(recording_of(plant(20)))
    lonely = recording_of(plant(3), breaks=[0, 1, 2])
    with pytest.raises(StreamError, match=r"No run of the recording has 2 rows, which"):
        detector.residuals(lonely)
    with pytest.raises(StreamError, match="Train leaves 0 rows to learn from"):
        LastValue().fit(lonely)


# PCA.


@pytest.mark.parametrize("components", [0, 1, 3, 6])
def test_pca_is_scikit_learns(components):
    train, test = plant(seed=1), plant(300, seed=2)
    detector = PCAReconstruction(components=components).fit(recording_of(train))
    learned = train[detector.split.trained]
    scaler = StandardScaler().fit(learned)
    # Its answer for 0 components is not defined.
    pca = PCA(components or 1).fit(scaler.transform(learned))
    standard = scaler.transform(test)
    expected = pca.inverse_transform(pca.transform(standard)) if components else 0.0
    np.testing.assert_allclose(
        in_units(detector.residuals(recording_of(test))),
        (standard - expected) * scaler.scale_,
        rtol=1e-7,
        atol=1e-9 * scaler.scale_.max(),
    )


def test_error_of_a_channel_left_out_is_that_of_regression_without_it():
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    rows = rng.normal(size=(40, 5))
    expected = []
    for k in range(5):
        squares = 0.0
        for channel in range(5):
            others = np.delete(np.arange(5), channel)
            axes = vectors[:, :k]
            scores = np.linalg.lstsq(axes[others], rows[:, others].T)[0]
            squares += np.mean((rows[:, channel] - axes[channel] @ scores) ** 2)
        expected.append(squares)
    np.testing.assert_allclose(
        left_out_errors(vectors, rows.T @ rows / 40), expected, rtol=1e-9
    )


def test_a_channel_that_is_a_component_of_its_own_rules_the_number_out():
    assert left_out_errors(np.eye(3), np.eye(3)).tolist() == [3, np.inf, np.inf]
    assert fewest_components(np.eye(3), np.eye(3)) == 0


@pytest.mark.parametrize("n_causes", [1, 2, 3])
def test_pca_finds_the_number_of_common_causes(n_causes):
    train = recording_of(plant(4000, 12, n_causes, seed=n_causes))
    detector = PCAReconstruction().fit(train)
    assert detector.loadings.shape == (12, n_causes)
    assert detector.residuals(train).notices == (
        f"Principal components kept: {n_causes} of 12.",
    )


def test_channels_with_nothing_in_common_are_told_by_their_mean():
    train = recording_of(np.random.default_rng(5).normal(size=(5000, 4)))
    pca, mean = PCAReconstruction().fit(train), TrainingMean().fit(train)
    assert pca.loadings.shape == (4, 0)
    np.testing.assert_allclose(
        pca.residuals(train).values, mean.residuals(train).values, atol=1e-12
    )


def test_two_channels_that_say_the_same_by_hand():
    """On the line both are as expected; off it they share what is between them."""
    line = np.linspace(0, 8, 50)
    train = recording_of(np.column_stack([line, 100 - 10 * line]))
    detector = PCAReconstruction().fit(train)
    assert detector.loadings.shape == (2, 1)
    told = detector.residuals(recording_of([[2, 80], [2, 60], [6, 80]]))
    np.testing.assert_allclose(in_units(told), [[0, 0], [-1, -10], [2, 20]], atol=1e-9)


def test_exact_copies_do_not_invite_more_components_than_needed():
    cause = np.random.default_rng(0).normal(size=(500, 1))
    train = recording_of(np.hstack([cause, 2 * cause, -cause, cause + 7]))
    assert PCAReconstruction().fit(train).loadings.shape == (4, 1)


def test_held_out_rows_choose_the_number():
    """Two channels go together in the rows learned from, not in those held out."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1000, 2))
    values[:, 1] = values[:, 0] + 0.1 * values[:, 1]
    assert PCAReconstruction().fit(recording_of(values)).loadings.shape == (2, 1)
    values[held_out_block(1000, 0.2, 0), 1] *= -1
    assert PCAReconstruction().fit(recording_of(values)).loadings.shape == (2, 0)


def test_without_held_out_rows_the_rows_learned_from_choose():
    detector = PCAReconstruction(validation_share=0).fit(recording_of(plant(noise=0.1)))
    assert len(detector.split.held_out) == 0
    assert detector.loadings.shape == (7, 2)


def test_pca_keeps_its_digits_far_from_zero():
    values = plant(seed=3)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    near = PCAReconstruction().fit(recording_of(values)).residuals(recording_of(values))
    far = values + 1e8
    moved = PCAReconstruction().fit(recording_of(far)).residuals(recording_of(far))
    np.testing.assert_allclose(moved.values, near.values, atol=1e-7)


@pytest.mark.parametrize("components", [7, 100])
def test_more_components_than_there_is_to_tell_are_refused(components):
    values = plant(n_channels=8)
    values[:, 3] = 1
    with pytest.raises(StreamError, match=f"is {components}, but 7 channels of train"):
        PCAReconstruction(components=components).fit(recording_of(values))


def test_one_moving_channel_and_none_at_all_are_told_by_their_mean():
    values = np.column_stack([np.arange(10.0), np.full(10, 3.0)])
    for part in (values, values[:, 1:]):
        train = recording_of(part)
        told = PCAReconstruction(validation_share=0).fit(train).residuals(train)
        np.testing.assert_allclose(in_units(told), part - part.mean(axis=0), atol=1e-12)


def test_moments_do_not_depend_on_chunks(monkeypatch):
    values = np.random.default_rng(0).normal(3, 2, size=(1000, 4))
    rows = np.arange(100, 900)
    monkeypatch.setattr(baselines, "_ROWS_AT_ONCE", 37)
    offset, second = moments(values, rows, values[100])
    part = values[rows]
    np.testing.assert_allclose(values[100] + offset, part.mean(axis=0))
    np.testing.assert_allclose(
        second - np.outer(offset, offset), np.cov(part.T, bias=True)
    )
    many = PCAReconstruction().fit(recording_of(values))
    told = many.residuals(recording_of(values)).values
    monkeypatch.undo()
    one = PCAReconstruction().fit(recording_of(values))
    np.testing.assert_allclose(
        told, one.residuals(recording_of(values)).values, atol=1e-12
    )


# All of them.


@pytest.mark.parametrize("kind", [TrainingMean, PCAReconstruction])
@pytest.mark.parametrize("constant", [0.0, 0.1, -7e9])
def test_a_constant_channel_keeps_its_value_minus_the_constant(kind, constant):
    values = plant(200)
    values[:, 2] = constant
    detector = kind().fit(recording_of(values))
    test = values.copy()
    test[50:, 2] += 4
    told = detector.residuals(recording_of(test)).values[:, 2]
    np.testing.assert_array_equal(told, test[:, 2] - constant)


@pytest.mark.parametrize("kind", BASELINES)
def test_a_channel_that_moves_only_where_held_out_is_constant_to_it(kind):
    values = plant(200)
    block = held_out_block(200 - (kind is LastValue), 0.2, 0)
    values[:, 1] = 0
    values[(block.start + block.stop) // 2, 1] = 5
    told = kind().fit(recording_of(values)).residuals(recording_of(values))
    assert np.isfinite(told.values).all()


@pytest.mark.parametrize("kind", BASELINES)
def test_one_row_is_made_of_many_and_train_is_trimmed(kind):
    values = plant(120)
    detector = kind(every=5, trim_s=20, validation_share=0.25)
    detector.fit(recording_of(values, step_s=1, breaks=[0, 63]))
    steps = np.sort(np.concatenate([detector.split.trained, detector.split.held_out]))
    expected = [*range(20, 59, 5), *range(63, 116, 5)]
    if kind is LastValue:
        expected = [step for step in expected if step not in (20, 63)]
    assert steps.tolist() == expected
    told = detector.residuals(recording_of(values, step_s=1, breaks=[0, 63]))
    assert told.every == 5
    assert np.isin(told.index, [*range(0, 59, 5), *range(63, 116, 5)]).all()
    medians = np.median(values[65 + 3 : 65 + 8], axis=0)
    row = int(np.flatnonzero(told.index == 68)[0])
    if kind is TrainingMean:
        mean = np.mean(
            [np.median(values[s : s + 5], axis=0) for s in detector.split.trained],
            axis=0,
        )
        np.testing.assert_allclose(in_units(told)[row], medians - mean, rtol=1e-9)


@pytest.mark.parametrize("kind", BASELINES)
def test_constant_channels_can_be_left_out(kind):
    values = plant(100)
    values[:, [0, 4]] = 1
    train = recording_of(values)
    told = kind(constant_channels="drop").fit(train).residuals(train)
    assert told.channels == ("c1", "c2", "c3", "c5", "c6")
    assert told.values.shape[1] == len(told.scale) == 5


@pytest.mark.parametrize("kind", BASELINES)
def test_missing_cells_are_filled_and_told(kind):
    values = plant(100)
    train = recording_of(values)
    holed = values.copy()
    holed[10, 3] = np.nan
    held = values.copy()
    held[10, 3] = values[9, 3]
    detector = kind().fit(train)
    # Of a file of an earlier version, which has no covariance.
    detector.covariance = None
    told, same = (detector.residuals(recording_of(v)) for v in (holed, held))
    np.testing.assert_array_equal(told.values, same.values)
    assert told.notices[0].startswith(
        "1 missing cells of 700 were given the last value"
    )
    empty = values.copy()
    empty[:, 2] = np.nan
    told = kind().fit(recording_of(empty)).residuals(recording_of(empty))
    np.testing.assert_array_equal(told.values[:, 2], 0)


@pytest.mark.parametrize("kind", [PCAReconstruction, VectorAutoregression])
def test_the_other_tags_go_on_while_one_is_lost(kind, tmp_path):
    rng = np.random.default_rng(0)
    slow = [
        np.convolve(rng.normal(size=3000), 0.95 ** np.arange(80))[:3000] for _ in "ab"
    ]
    values = np.stack(slow, axis=1) @ rng.normal(size=(2, 7))
    values += 0.3 * rng.normal(size=values.shape)
    detector = kind().fit(recording_of(values[:2000]))
    day, dead = values[2000:], values[2000:].copy()
    dead[100:, 3] = np.nan
    others = [0, 1, 2, 4, 5, 6]
    whole = in_units(detector.residuals(recording_of(day)))[200:, others]
    told = detector.residuals(recording_of(dead))
    lost = in_units(told)[200:, others]
    detector.save(tmp_path / "it.npz")
    loaded = kind.load(tmp_path / "it.npz").residuals(recording_of(dead))
    np.testing.assert_array_equal(loaded.values, told.values)
    # Two sentences of their own would contradict each other.
    assert told.notices[0].endswith(
        "(train's mean where there was none); where a tag was lost, what the other "
        "tags of its row tell is read instead."
    )
    detector.covariance = None
    held = in_units(detector.residuals(recording_of(dead)))[200:, others]
    spread = whole.std(axis=0)
    assert (lost.std(axis=0) < 1.1 * spread).all()
    assert (held.std(axis=0) > 1.3 * spread).any()


def test_expected_cells_by_hand_and_of_any_scale():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)) + 5
    mean, covariance = rows.mean(axis=0), np.cov(rows, rowvar=False)
    lost = rng.random((50, 4)) < 0.3
    filled = expected_cells(rows, lost, mean, covariance, 0.0)
    np.testing.assert_array_equal(filled[~lost], rows[~lost])
    for row, is_lost, wanted in zip(rows, lost, filled, strict=True):
        known = ~is_lost
        weights = np.linalg.solve(
            covariance[np.ix_(known, known)], covariance[np.ix_(known, is_lost)]
        )
        expected = mean[is_lost] + (row[known] - mean[known]) @ weights
        np.testing.assert_allclose(wanted[is_lost], expected, rtol=1e-6)
    # A row is the same to the last bit whatever rows are beside it, in any unit.
    one = expected_cells(rows[7:8], lost[7:8], mean, covariance, 0.0)
    np.testing.assert_array_equal(one, filled[7:8])
    unit = 2.0 ** np.array([40, -9, 0, 3])
    scaled = covariance * np.outer(unit, unit)
    again = expected_cells(rows * unit, lost, mean * unit, scaled, 0.0)
    np.testing.assert_allclose(again / unit, filled, rtol=1e-5)


@pytest.mark.parametrize("kind", BASELINES)
@pytest.mark.parametrize("preset", ["export", "official"])
def test_saved_is_loaded_to_the_last_bit(kind, preset, tmp_path):
    train, test = recording_of(plant(200)), recording_of(plant(100, seed=9))
    detector = kind(preset, every=2, seed=3, clip=(-1.0, 2.0)).fit(train)
    detector.save(tmp_path / "it.npz")
    loaded = kind.load(tmp_path / "it.npz")
    told, again = detector.residuals(test), loaded.residuals(test)
    np.testing.assert_array_equal(told.values, again.values)
    np.testing.assert_array_equal(told.scale, again.scale)
    assert told.notices == again.notices
    assert loaded.settings == detector.settings
    np.testing.assert_array_equal(loaded.split.held_out, detector.split.held_out)
    other = BASELINES[BASELINES.index(kind) - 1]
    with pytest.raises(FileError, match=f"holds '{kind.card.name}', not"):
        other.load(tmp_path / "it.npz")


@pytest.mark.parametrize("kind", BASELINES)
def test_a_file_that_lacks_an_array_is_refused(kind, tmp_path):
    detector = kind().fit(recording_of(plant(50)))
    detector.save(tmp_path / "it.npz")
    with np.load(tmp_path / "it.npz") as file:
        arrays = dict(file)
    lacking = "preprocessing/scale" if kind is LastValue else "mean"
    del arrays[lacking]
    np.savez(tmp_path / "it.npz", **arrays)
    with pytest.raises(FileError, match=r"is not a whole detector .* fit it again\.$"):
        kind.load(tmp_path / "it.npz")


@pytest.mark.parametrize("kind", BASELINES)
def test_a_fit_that_is_refused_leaves_what_was_learned(kind):
    train = recording_of(plant(50))
    detector = kind().fit(train)
    before = detector.residuals(train).values
    with pytest.raises(StreamError, match="needs 2 or more: give a longer recording"):
        detector.fit(recording_of(plant(1, seed=4)))
    np.testing.assert_array_equal(detector.residuals(train).values, before)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"validation_share": 1.0}, "`validation_share` must be a number, 0 or more"),
        ({"seed": -1}, "`seed` must be a whole number, 0 or more"),
        ({"components": -1}, "`components` must be a whole number, 0 or more"),
        ({"components": "two"}, "`components` must be a whole number, 0 or more"),
        ({"component": 1}, "has no setting 'component'; did you mean 'components'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(StreamError, match=sentence):
        PCAReconstruction(**settings)


def test_progress_is_told():
    heard = []
    train = recording_of(plant(20))
    detector = TrainingMean().fit(train, progress=heard.append)
    detector.residuals(train, progress=heard.append)
    assert heard == [Step(StepKind.TRAINING, 1, 1), Step(StepKind.RESIDUALS, 1, 1)]


@pytest.mark.parametrize("kind", BASELINES)
def test_cards_claim_no_paper_and_need_no_extra(kind):
    assert kind.card.paper == "A baseline, no paper."
    assert kind.card.extra is None
    assert kind.card.space == "observation"


@pytest.mark.parametrize("name", ["var", "pca"])
def test_a_residual_that_says_nothing_without_a_lost_tag_is_unknown(name, tmp_path):
    """B follows A, which nothing else tells; C and D are told by one another."""
    rng = np.random.default_rng(4)
    a, common = rng.normal(size=(2, 3000))
    b = 2 * np.roll(a, 1 if name == "var" else 0) + rng.normal(0, 0.6, 3000)
    c, d = common + rng.normal(0, 0.3, (2, 3000))
    values = np.column_stack([a, b, c, d])
    tags = tuple(Tag(name=tag) for tag in "ABCD")
    train = Recording(values=values[:2000], tags=tags, step_s=1.0)
    options = {"components": 2} if name == "pca" else {}
    detector = make_detector(name, **options).fit(train)
    later = values[2000:].copy()
    codes = np.zeros(later.shape, np.int8)
    codes[500:600, 0] = codes[800:900, 2] = Validity.BAD
    later[codes == Validity.BAD] = np.nan
    record = Recording(values=later, tags=tags, step_s=1.0, validity=codes)
    found = detector.residuals(record)
    shown = without_lost(found, record, detector, "export")
    is_known = np.zeros((len(later), 4), bool)
    is_known[found.index] = np.isfinite(shown)
    inside = slice(520, 590)
    assert not is_known[inside, :2].any()
    assert is_known[inside, 2:].all()
    assert is_known[820:890, [0, 1]].all()
    assert is_known[650:790].all()
    # It is saved; a detector of an earlier version knows no noise.
    detector.save(tmp_path / "detector.npz")
    again = load_detector(tmp_path / "detector.npz")
    np.testing.assert_array_equal(again.residuals(record).is_unknown, found.is_unknown)
    again.noise = None
    assert again.residuals(record).is_unknown is None
