"""Adapters, with stand-ins for the libraries they are for, and with the libraries."""

import random

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from sightline import Attack, evaluate
from sightline.data.recording import Recording, Tag
from sightline.detectors.adapters import (
    FromFunction,
    FromOutlierDetector,
    FromRegressor,
    KnownExpectation,
    from_arrays,
)
from sightline.detectors.adapters.adapter import seeded
from sightline.detectors.adapters.models import has_many_outputs
from sightline.detectors.base import Detector
from sightline.detectors.conformance import (
    CHECKS,
    ConformanceError,
    DetectorTrial,
    check_detector,
)
from sightline.errors import StreamError
from sightline.export import export_stream

PYOD = "PyOD is not installed: pip install pyod tqdm"
AEON = "aeon is not installed (it wants numba before 0.64): pip install aeon"


def recording_of(values, **fields):
    values = np.asarray(values, float)
    tags = tuple(Tag(name=f"c{k}") for k in range(values.shape[1]))
    return Recording(values=values, tags=tags, **fields)


def plant(n_steps=600, n_channels=4, seed=0):
    """Return channels that move slowly and together, in many units."""
    noise = np.random.default_rng(seed).normal(size=(n_steps, n_channels))
    values = np.zeros((n_steps, n_channels))
    for t in range(1, n_steps):
        values[t] = 0.9 * values[t - 1] + noise[t] + 0.3 * noise[t, 0]
    return values * 10.0 ** np.arange(-2, n_channels - 2) + 30


def attacked():
    """Return train, and a test with an attack on one channel."""
    test, labels = plant(seed=1), np.zeros(600, int)
    labels[300:330] = 1
    test[300:330, 1] += 12 * test[:, 1].std()
    return recording_of(plant()), recording_of(test, labels=labels)


def in_units(told):
    return told.values * told.scale


# Stand-ins: what PyOD's and aeon's models have, and nothing of these libraries.


class LikePyOD:
    """Scores a row by its distance from train's mean, high where odd."""

    def fit(self, X, y=None):
        self.mean = X.mean(axis=0)
        self.decision_scores_ = self.decision_function(X)
        return self

    def decision_function(self, X):
        return np.linalg.norm(X - self.mean, axis=1)


class Signed(LikePyOD):
    def decision_function(self, X):
        return super().decision_function(X) - 1


class LikePyODsPCA(LikePyOD):
    def __init__(self, n_components=None, standardization=True):
        self.n_components, self.standardization = n_components, standardization

    def fit(self, X, y=None):
        if self.standardization:
            self.scaler_ = StandardScaler().fit(X)
            X = self.scaler_.transform(X)
        self.detector_ = PCA(self.n_components).fit(X)
        self.components_ = self.detector_.components_
        return super().fit(X)


class Network(torch.nn.Module):
    def __init__(self, n_channels):
        super().__init__()
        self.encoder = torch.nn.Linear(n_channels, 2)
        self.decoder = torch.nn.Sequential(
            torch.nn.Dropout(0.5), torch.nn.Linear(2, n_channels)
        )


class VariationalNetwork(Network):
    def encode(self, rows):
        return self.encoder(rows), torch.full((len(rows), 2), torch.nan)


class LikePyODsAutoEncoder(LikePyOD):
    network, preprocessing, device = Network, True, "cpu"

    def fit(self, X, y=None):
        self.model = self.network(X.shape[1])  # drawn from torch's own generator
        if self.preprocessing:
            self.X_mean, self.X_std = X.mean(axis=0), X.std(axis=0)
        return super().fit(X)


class LikePyODsVAE(LikePyODsAutoEncoder):
    network = VariationalNetwork


class Unscaled(LikePyODsAutoEncoder):
    preprocessing = False


class LikeAeon:
    """Scores a series (time along `axis`) by its distance from the rows before."""

    window_size = 3
    is_empty = False

    def get_tag(self, name):
        return {"fit_is_empty": self.is_empty}[name]

    def fit(self, X, y=None, axis=1):
        assert not self.is_empty
        self.series = X if axis == 0 else X.T
        self.spread = self.series.std(axis=0).max()
        return self

    def predict(self, X, axis=1):
        X = X if axis == 0 else X.T
        if len(X) < self.window_size:
            raise ValueError(f"Series is shorter than {self.window_size}.")
        spread = X.std() if self.is_empty else self.spread
        scores = np.zeros(len(X))
        scores[2:] = np.abs(X[2:] - (X[1:-1] + X[:-2]) / 2).max(axis=1) / spread
        return scores


class Unsupervised(LikeAeon):
    is_empty = True


class YesOrNo(LikeAeon):
    def predict(self, X, axis=1):
        return super().predict(X, axis) > 3


class DrawsFromAllGenerators(LikePyOD):
    def fit(self, X, y=None):
        self.noise = [random.random(), np.random.rand(), float(torch.rand(()))]  # noqa: NPY002
        return super().fit(X)

    def decision_function(self, X):
        if not hasattr(self, "noise"):
            return super().decision_function(X)
        return super().decision_function(X) + sum(self.noise) + np.random.rand()  # noqa: NPY002


def last_row(values):
    expected = np.full(values.shape, np.nan)
    expected[1:] = values[:-1]
    return expected


def mean_of(runs):
    return np.vstack(runs).mean(axis=0)


def at_mean(values, mean):
    return np.broadcast_to(mean, values.shape)


ADAPTERS = {
    "ridge": lambda: FromRegressor(Ridge(), lags=3),
    "linear-every-3": lambda: FromRegressor(LinearRegression(), every=3, trim_s=20),
    "single-output": lambda: FromRegressor(GradientBoostingRegressor(n_estimators=3)),
    "unseeded-forest": lambda: FromRegressor(RandomForestRegressor(n_estimators=3)),
    "pipeline": lambda: FromRegressor(make_pipeline(StandardScaler(), Ridge())),
    "function": lambda: FromFunction(last_row),
    "fitted-function": lambda: FromFunction(at_mean, mean_of, validation_share=0),
    "forest": lambda: FromOutlierDetector(IsolationForest(n_estimators=10)),
    "mixture": lambda: FromOutlierDetector(GaussianMixture(2), use="score"),
    "sklearn-pca": lambda: FromOutlierDetector(PCA(2)),
    "pyod": lambda: FromOutlierDetector(LikePyOD()),
    "pyod-pca": lambda: FromOutlierDetector(LikePyODsPCA(2)),
    "pyod-pca-whole": lambda: FromOutlierDetector(LikePyODsPCA()),
    "pyod-autoencoder": lambda: FromOutlierDetector(LikePyODsAutoEncoder()),
    "pyod-vae": lambda: FromOutlierDetector(LikePyODsVAE()),
    "aeon": lambda: FromOutlierDetector(LikeAeon()),
    "draws": lambda: FromOutlierDetector(DrawsFromAllGenerators()),
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_passes_every_check(name):
    trial = DetectorTrial.of(ADAPTERS[name])
    for check in CHECKS:
        # A network that learned nothing follows a shift as it likes.
        if check != "sign" or name not in ("pyod-autoencoder", "pyod-vae"):
            CHECKS[check](trial)


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_adapter_makes_a_stream_that_is_evaluated(name):
    train, test = attacked()
    train = Recording(values=train.values, tags=train.tags, step_s=10.0)
    detector: Detector = ADAPTERS[name]().fit(train)
    stream = export_stream(detector, train, test)
    assert stream.calibration is not None or name == "fitted-function"
    assert stream.detector == detector.card.name
    assert stream.meta["detector_adapter"] == type(detector).__name__
    assert evaluate(stream, intervals=False, diagnosis=False).rank.roc_auc > 0.4


# Regressors.


def test_a_regressor_is_given_the_oldest_row_first():
    class Remembers:
        def fit(self, X, Y):
            self.seen = X, Y
            return self

        def predict(self, X):
            return X[:, -2:]

    values = plant(40, 2)
    train = recording_of(values, breaks=[0, 20])
    detector = FromRegressor(Remembers(), 3, validation_share=0).fit(train)
    scaled = (values - values.min(axis=0)) / np.ptp(values, axis=0)
    rows = np.r_[3:20, 23:40]
    X, Y = detector.learned.regressor.seen
    np.testing.assert_allclose(Y, scaled[rows])
    windows = [scaled[row - 3 : row].ravel() for row in rows]
    np.testing.assert_allclose(X, windows)
    told = detector.residuals(train)
    assert told.index.tolist() == rows.tolist()
    np.testing.assert_allclose(in_units(told), values[rows] - values[rows - 1])


def test_a_regressor_is_scikit_learns_on_rows_that_are_not_held_out():
    values, other = plant(), plant(200, seed=3)
    detector = FromRegressor(LinearRegression(), 2, seed=5).fit(recording_of(values))
    trained = detector.split.trained
    assert len(detector.split.held_out) == int(598 * 0.2)
    model = LinearRegression().fit(
        np.hstack([values[trained - 2], values[trained - 1]]), values[trained]
    )
    expected = model.predict(np.hstack([other[:-2], other[1:-1]]))
    told = detector.residuals(recording_of(other))
    np.testing.assert_allclose(in_units(told), other[2:] - expected, atol=1e-9)


def test_what_forecasts_one_number_is_fitted_once_a_channel():
    train = recording_of(plant(100))
    detector = FromRegressor(GradientBoostingRegressor(n_estimators=2)).fit(train)
    assert len(detector.learned.regressor.estimators_) == 4
    several = FromRegressor(RandomForestRegressor(n_estimators=2)).fit(train)
    assert several.learned.regressor.n_outputs_ == 4


@pytest.mark.parametrize("regressor", [Ridge(), GradientBoostingRegressor()])
def test_one_moving_channel_is_enough(regressor):
    values = plant(100, 2)
    values[:, 1] = 7
    detector = FromRegressor(regressor).fit(recording_of(values))
    test = values.copy()
    test[50, 1] = 9
    told = detector.residuals(recording_of(test)).values
    np.testing.assert_array_equal(np.flatnonzero(told[:, 1]), [49])
    assert told[49, 1] == 2


def test_nothing_that_moves_is_expected_to_rest():
    train = recording_of(np.full((20, 2), 3.0))
    told = FromRegressor(Ridge()).fit(train).residuals(train)
    np.testing.assert_array_equal(told.values, 0)


def test_the_regressor_given_is_not_touched():
    given = Ridge()
    FromRegressor(given).fit(recording_of(plant(50)))
    assert not hasattr(given, "coef_")


def test_who_forecasts_many_numbers_is_asked_and_not_tried():
    class Old:
        def _get_tags(self):
            return {"multioutput": False}

    assert not has_many_outputs(Old())
    assert not has_many_outputs(GradientBoostingRegressor())
    assert not has_many_outputs(make_pipeline(GradientBoostingRegressor()))
    assert has_many_outputs(make_pipeline(StandardScaler(), Ridge()))
    assert has_many_outputs(object())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FromRegressor(Ridge), r"an object with `fit`; got Ridge: make one"),
        (lambda: FromRegressor(PCA()), "an object with `predict`; got PCA"),
        (lambda: FromRegressor(Ridge(), 0), "`lags` must be 1 or more rows; got 0"),
        (lambda: FromRegressor(Ridge(), 1.5), "`lags` must be 1 or more rows"),
        (lambda: FromRegressor(Ridge(), every=0), "`every` must be a whole number"),
        (lambda: FromOutlierDetector(PCA), "an object with `fit`; got PCA: make one"),
        (lambda: FromOutlierDetector(3), "an object with `fit`; got 3: make one"),
        (lambda: FromOutlierDetector(PCA(), use="both"), "`use` must be recon"),
        (lambda: FromFunction(np.zeros(3)), "`expected` must be a function; got nd"),
        (lambda: FromFunction(last_row, fit=1), "`fit` must be a function; got int"),
        (lambda: FromFunction(last_row, seed=-1), "`seed` must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(make, sentence):
    with pytest.raises(StreamError, match=sentence):
        make()


def test_what_a_model_complains_of_is_one_sentence():
    class Fails(Ridge):
        def fit(self, X, Y):
            raise RuntimeError("no licence.\nmore of it")

    with pytest.raises(
        StreamError, match=r"^Fails could not learn from train \(RuntimeError: no lic"
    ) as told:
        FromRegressor(Fails()).fit(recording_of(plant(50)))
    assert str(told.value).endswith(": check that it accepts such rows by itself.")


def test_a_fit_that_fails_leaves_what_was_learned():
    train = recording_of(plant(50))
    detector = FromRegressor(Ridge()).fit(train)
    before = detector.residuals(train).values
    with pytest.raises(StreamError, match="Train leaves 0 rows"):
        detector.fit(recording_of(plant(1)))
    np.testing.assert_array_equal(detector.residuals(train).values, before)


def test_a_forecast_of_another_shape_is_refused():
    class Wide(Ridge):
        def predict(self, X):
            return np.zeros((len(X), 9))

    detector = FromRegressor(Wide()).fit(recording_of(plant(50)))
    with pytest.raises(StreamError, match=r"Wide must give one row of 4 channels"):
        detector.residuals(recording_of(plant(50)))


# Outlier detectors.


def test_a_score_of_pyod_is_a_space_of_one_dimension_and_says_so():
    train, test = attacked()
    told = FromOutlierDetector(LikePyOD()).fit(train).residuals(test)
    assert told.space == "score"
    assert told.channels == ("LikePyOD",)
    assert told.scale is None
    assert told.notices[0].startswith("LikePyOD gives one score a row and no expec")
    np.testing.assert_array_equal(told.score, told.values[:, 0])
    assert told.alarms is None
    assert told.values[300:330].mean() > 2 * told.values[:300].mean()
    stream = export_stream(FromOutlierDetector(LikePyOD()).fit(train), train, test)
    evaluation = evaluate(stream, intervals=False, diagnosis=False)
    assert evaluation.two_sided is not None
    assert evaluation.rank.roc_auc == evaluation.own_score.roc_auc
    assert evaluation.quality.one_sided_channels == ("LikePyOD",)


def test_a_score_with_a_sign_is_one_sided_too():
    train, test = attacked()
    detector = FromOutlierDetector(Signed(), name="mine").fit(train)
    stream = export_stream(detector, train, test)
    assert stream.channels == ("mine",)
    assert stream.score.min() < 0
    evaluation = evaluate(stream, intervals=False, diagnosis=False)
    assert evaluation.two_sided is not None
    assert evaluation.rank.roc_auc == pytest.approx(evaluation.own_score.roc_auc, 1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: IsolationForest(n_estimators=20, random_state=0),
        lambda: LocalOutlierFactor(novelty=True),
        lambda: OneClassSVM(nu=0.1),
    ],
)
def test_scikit_learns_own_alarms_and_score_are_exported(make):
    train, test = attacked()
    detector = FromOutlierDetector(make()).fit(train)
    stream = export_stream(detector, train, test)
    rows = detector.preprocessing.test(test, detector.settings, np.float64).values
    model = detector.learned.model
    np.testing.assert_array_equal(stream.alarms == 1, model.predict(rows) == -1)
    np.testing.assert_array_equal(stream.score, -model.score_samples(rows))
    assert 0 < stream.alarms.sum() < len(stream.alarms)
    assert export_stream(detector, train, test, rule="none").alarms is None


def test_clusters_are_no_alarms_and_a_score_of_the_user_has_none():
    train, test = attacked()
    mixture = FromOutlierDetector(GaussianMixture(2), use="score").fit(train)
    assert mixture.residuals(test).alarms is None
    forest = IsolationForest(n_estimators=5, random_state=0)
    mine = FromOutlierDetector(forest, score=lambda model, X: X[:, 0]).fit(train)
    assert mine.residuals(test).alarms is None


def test_scikit_learns_score_is_turned_so_that_high_is_odd():
    train, test = attacked()
    detector = FromOutlierDetector(IsolationForest(random_state=0)).fit(train)
    told = detector.residuals(test)
    low = detector.learned.model.score_samples(
        (test.values - train.values.min(axis=0)) / np.ptp(train.values, axis=0)
    )
    np.testing.assert_array_equal(told.values[:, 0], -low)
    assert told.values[300:330].mean() > told.values[:300].mean()


def test_the_sign_of_a_score_is_never_guessed():
    class Unknown:
        def fit(self, X):
            return self

        def decision_function(self, X):
            return X[:, 0]

    train = recording_of(plant(50))
    with pytest.raises(StreamError, match="Unknown has no score whose direction is"):
        FromOutlierDetector(Unknown()).fit(train)
    told = FromOutlierDetector(
        Unknown(), score=lambda model, values: -model.decision_function(values)
    )
    assert (told.fit(train).residuals(train).values <= 0).all()


@pytest.mark.parametrize("standardization", [True, False])
def test_pyods_pca_is_asked_what_it_expects(standardization):
    values = plant()
    model = LikePyODsPCA(2, standardization)
    detector = FromOutlierDetector(model).fit(recording_of(values))
    scaled = (values - values.min(axis=0)) / np.ptp(values, axis=0)
    inner = scaled
    if standardization:
        scaler = StandardScaler().fit(scaled[detector.split.trained])
        inner = scaler.transform(scaled)
    pca = PCA(2).fit(inner[detector.split.trained])
    expected = pca.inverse_transform(pca.transform(inner))
    if standardization:
        expected = scaler.inverse_transform(expected)
    told = detector.residuals(recording_of(values))
    np.testing.assert_allclose(told.values, scaled - expected, atol=1e-12)
    assert told.space == "observation"
    assert told.channels == ("c0", "c1", "c2", "c3")
    assert told.notices == ()
    as_score = FromOutlierDetector(model, use="score").fit(recording_of(values))
    assert as_score.residuals(recording_of(values)).space == "score"


def test_components_that_give_back_everything_leave_the_score():
    train = recording_of(plant())
    told = FromOutlierDetector(LikePyODsPCA()).fit(train).residuals(train)
    assert told.space == "score"
    assert told.notices[0].startswith("LikePyODsPCA reconstructs every row as it is")


@pytest.mark.parametrize(
    "kind", [LikePyODsAutoEncoder, LikePyODsVAE, Unscaled], ids=lambda k: k.__name__
)
def test_pyods_networks_are_asked_what_they_decode_without_noise(kind):
    train = recording_of(plant())
    detector = FromOutlierDetector(kind()).fit(train)
    told = detector.residuals(train)
    assert told.space == "observation"
    model = detector.learned.model
    scaled = (train.values - train.values.min(axis=0)) / np.ptp(train.values, axis=0)
    mean, deviation = 0.0, 1.0
    if kind is not Unscaled:
        mean, deviation = model.X_mean, model.X_std + 1e-8
    rows = torch.tensor((scaled - mean) / deviation, dtype=torch.float32)
    network = model.model
    assert not network.training
    with torch.no_grad():
        decoded = network.decoder[1](network.encoder(rows)).numpy()
    expected = decoded.astype(float) * deviation + mean
    np.testing.assert_allclose(told.values, scaled - expected, atol=1e-6)


def test_a_reconstruction_of_ones_own():
    train = recording_of(plant())
    detector = FromOutlierDetector(
        LikePyOD(), reconstruct=lambda model, values: 0 * values + model.mean
    )
    told = detector.fit(train).residuals(train)
    assert told.space == "observation"
    np.testing.assert_allclose(
        told.values[detector.split.trained].mean(axis=0), 0, atol=1e-12
    )


def test_a_series_is_asked_run_by_run_with_time_in_rows():
    values = plant(100, 3)
    train = recording_of(values, breaks=[0, 40])
    detector = FromOutlierDetector(LikeAeon(), validation_share=0).fit(train)
    scaled = (values - values.min(axis=0)) / np.ptp(values, axis=0)
    np.testing.assert_allclose(detector.learned.model.series, scaled[40:])
    told = detector.residuals(train)
    assert told.notices[0] == (
        "LikeAeon learned from the longest run of train, 60 of 100 rows, because it "
        "uses windows."
    )
    model = detector.learned.model
    parts = [model.predict(part, axis=0) for part in (scaled[:40], scaled[40:])]
    np.testing.assert_allclose(told.values[:, 0], np.concatenate(parts))


def test_a_run_too_short_for_a_window_is_left_out_and_told():
    train = recording_of(plant(100))
    detector = FromOutlierDetector(LikeAeon()).fit(train)
    told = detector.residuals(recording_of(plant(50), breaks=[0, 20, 22]))
    assert told.index.tolist() == [*range(20), *range(22, 50)]
    assert told.notices[-2] == (
        "LikeAeon gives no score for a run of 2 rows (Series is shorter than 3)."
    )
    assert told.notices[-1] == "2 rows were left out, which have no score."
    with pytest.raises(StreamError, match=r"ValueError: Series is shorter than 3\)"):
        detector.residuals(recording_of(plant(4), breaks=[0, 2]))


def test_a_detector_that_learns_nothing_says_so():
    train = recording_of(plant(100), breaks=[0, 40])
    told = FromOutlierDetector(Unsupervised()).fit(train).residuals(train)
    assert told.notices[0] == (
        "Unsupervised learns nothing from train: it judges each run against the run "
        "itself, which looks ahead."
    )
    assert len(told.values) == 100
    with pytest.raises(ConformanceError, match="rows to come"):
        check_detector(lambda: FromOutlierDetector(Unsupervised()))


def test_a_detector_that_says_yes_or_no_says_so():
    train = recording_of(plant(100))
    told = FromOutlierDetector(YesOrNo()).fit(train).residuals(train)
    assert any("only 0 or 1" in text for text in told.notices)


def test_scores_of_another_shape_are_refused():
    class Two(LikePyOD):
        def decision_function(self, X):
            return np.zeros((len(X), 2))

    with pytest.raises(StreamError, match=r"must give one score for each of 80 rows"):
        FromOutlierDetector(Two()).fit(recording_of(plant(100)))


def test_an_infinite_score_is_not_hidden():
    class Sure(LikePyOD):
        def decision_function(self, X):
            scores = super().decision_function(X)
            scores[scores > 2] = np.inf
            scores[0] = np.nan
            return scores

    train, test = attacked()
    told = FromOutlierDetector(Sure()).fit(train).residuals(test)
    assert told.index.tolist() == list(range(1, 600))
    assert told.notices[-1] == "1 rows were left out, which have no score."
    is_infinite = np.isinf(told.values[:, 0])
    assert is_infinite.any()
    assert (test.labels[told.index[is_infinite]] == 1).all()


def test_generators_are_left_as_they_were_and_the_seed_draws():
    train = recording_of(plant(60))

    def drawn():
        return random.random(), np.random.rand(), float(torch.rand(()))  # noqa: NPY002

    with seeded(3):
        expected = drawn()
    with seeded(3):
        told = [
            FromOutlierDetector(DrawsFromAllGenerators(), seed=seed)
            .fit(train)
            .residuals(train)
            .values
            for seed in (0, 0, 1)
        ]
        assert drawn() == expected
    np.testing.assert_array_equal(told[0], told[1])
    assert (told[0] != told[2]).any()


# Functions.


def test_a_function_is_given_runs_in_the_plants_units():
    seen = []

    def learn(runs):
        seen.extend(runs)
        return 5.0

    values = plant(60)
    train = recording_of(values, breaks=[0, 25])
    detector = FromFunction(
        lambda run, learned: run - learned, learn, validation_share=0, name="five"
    ).fit(train)
    np.testing.assert_allclose(seen[0], values[:25])
    np.testing.assert_allclose(seen[1], values[25:])
    told = detector.residuals(train)
    np.testing.assert_allclose(in_units(told), 5.0)
    assert detector.card.name == "five"


def test_rows_of_which_nothing_is_expected_are_left_out():
    train = recording_of(plant(60), breaks=[0, 25])
    told = FromFunction(last_row).fit(train).residuals(train)
    assert told.index.tolist() == [*range(1, 25), *range(26, 60)]
    assert told.notices == ("2 rows were left out, where nothing is expected.",)
    np.testing.assert_allclose(
        in_units(told)[:24], np.diff(train.values[:25], axis=0), atol=1e-9
    )


def test_a_function_that_looks_ahead_is_found_out():
    with pytest.raises(ConformanceError, match="rows to come"):
        check_detector(lambda: FromFunction(lambda v: 0 * v + v.mean(axis=0)))


# Arrays.


def test_arrays_become_a_stream_in_three_lines():
    train, test = attacked()
    forecast = [last_row(recording.values) for recording in (train, test)]
    stream = export_stream(
        *from_arrays(
            train.values,
            forecast[0],
            test.values,
            forecast[1],
            labels=test.labels,
            attacks=[Attack(id="A1", start=300, stop=330, targets=("channel_1",))],
            held_out=np.arange(500, 600),
            step_s=10.0,
            name="mine",
        ),
        telemetry=True,
    )
    scale = np.ptp(train.values, axis=0)
    (made,) = stream.test.chunks()
    np.testing.assert_allclose(made, np.diff(test.values, axis=0) / scale)
    assert stream.train.n_rows == 499
    assert stream.calibration.n_rows == 100
    assert (stream.labels == 1).sum() == 30
    assert stream.segments[0].id == "A1"
    assert stream.segments[0].start == 299
    assert stream.telemetry_channels == stream.channels
    assert (stream.name, stream.step_s) == ("mine", 10.0)
    assert "train and test: 1 rows were left out, where a cell is missing." in (
        stream.notices
    )


def test_frames_bring_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(plant(20, 2), columns=["LIT101", "P101"])
    detector, train, test = from_arrays(frame, frame * 0, frame, frame * 0)
    assert detector.residuals(test).channels == ("LIT101", "P101")
    assert detector.fit(train) is detector


def test_known_expectations_know_their_two_recordings_only():
    values = plant(20)
    detector, train, test = from_arrays(values, 0 * values, values + 1, 0 * values)
    assert isinstance(detector, KnownExpectation)
    np.testing.assert_allclose(in_units(detector.residuals(train)), values)
    np.testing.assert_allclose(in_units(detector.residuals(test)), values + 1)
    with pytest.raises(StreamError, match="of two recordings, and this is neither"):
        detector.residuals(recording_of(values))
    with pytest.raises(StreamError, match="of two recordings, and this is neither"):
        detector.fit(Recording(values=values + 2, tags=train.tags))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train_expected": np.zeros((19, 4))}, "`train_expected` must give one row"),
        ({"test_expected": np.zeros((20, 3))}, "`test_expected` must give one row of"),
        ({"test_observed": np.zeros((20, 3))}, "`test_observed` must have the 4 cha"),
        ({"train_observed": np.zeros(20)}, "`train_observed` must have shape"),
        ({"train_observed": np.full((20, 4), np.nan)}, "`train_observed` has no row"),
        ({"channels": ["a", "b"]}, "`tags` must name every channel"),
        ({"held_out": [25]}, "`held_out` must be row numbers of train, 0 to 19"),
        ({"held_out": [0.5]}, "`held_out` must be row numbers of train"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes, sentence):
    names = ("train_observed", "train_expected", "test_observed", "test_expected")
    with pytest.raises(StreamError, match=sentence):
        from_arrays(**(dict.fromkeys(names, np.ones((20, 4))) | changes))


def test_nothing_expected_at_all_is_refused():
    nothing = np.full((20, 4), np.nan)
    detector, train, _ = from_arrays(plant(20), nothing, plant(20), nothing)
    with pytest.raises(StreamError, match="Every row of `train_expected` has a nan"):
        detector.residuals(train)


# The libraries themselves.


def pyod_models():
    """Return what makes a model, and the space its residuals are in."""
    pytest.importorskip("pyod", reason=PYOD)
    pytest.importorskip("tqdm", reason=PYOD)
    from pyod.models.auto_encoder import AutoEncoder
    from pyod.models.iforest import IForest
    from pyod.models.knn import KNN
    from pyod.models.pca import PCA as PyODPCA
    from pyod.models.vae import VAE

    quiet = {"epoch_num": 2, "verbose": 0}
    sizes = {"encoder_neuron_list": [4], "decoder_neuron_list": [4], "latent_dim": 2}
    return {
        "IForest": (lambda: IForest(n_estimators=10), "score"),
        "KNN": (KNN, "score"),
        "PCA": (lambda: PyODPCA(n_components=2), "observation"),
        "AutoEncoder": (
            lambda: AutoEncoder(hidden_neuron_list=[4, 2], **quiet),
            "observation",
        ),
        "VAE": (lambda: VAE(**sizes, **quiet), "observation"),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("IForest", "KNN", "PCA"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("AutoEncoder", "VAE")
        ),
    ],
)
def test_pyods_own_models_pass_every_check(name):
    make, space = pyod_models()[name]
    check_detector(lambda: FromOutlierDetector(make()))
    train, test = attacked()
    detector = FromOutlierDetector(make()).fit(train)
    stream = export_stream(detector, train, test)
    assert stream.space == space
    assert evaluate(stream, intervals=False, diagnosis=False).rank.roc_auc > 0.7
    rows = detector.preprocessing.test(test, detector.settings, np.float64).values
    model = detector.learned.model
    if name == "VAE":  # its score draws random numbers
        return
    np.testing.assert_array_equal(stream.alarms, model.predict(rows))
    np.testing.assert_allclose(stream.score, model.decision_function(rows), rtol=1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param("AutoEncoder", marks=pytest.mark.slow), "PCA"]
)
def test_pyods_own_distance_is_that_of_our_residuals(name):
    make, _ = pyod_models()[name]
    train, test = attacked()
    detector = FromOutlierDetector(make()).fit(train)
    model = detector.learned.model
    told = detector.residuals(test).values
    if name == "AutoEncoder":
        scaled = (test.values - train.values.min(axis=0)) / np.ptp(train.values, axis=0)
        own = model.decision_function(scaled)
        ours = np.linalg.norm(told / (model.X_std + 1e-8), axis=1)
        np.testing.assert_allclose(ours, own, rtol=1e-4)
    else:
        # Nothing is left along the components that are kept.
        along = told / model.scaler_.scale_ @ model.components_.T
        np.testing.assert_allclose(along, 0, atol=1e-9)


def test_pyods_ecod_scores_rows_by_the_others_it_is_asked_about():
    """What docs say of it: it looks ahead, and check_detector finds out."""
    pytest.importorskip("pyod", reason=PYOD)
    from pyod.models.ecod import ECOD

    with pytest.raises(ConformanceError, match="'gaps' failed"):
        check_detector(lambda: FromOutlierDetector(ECOD()))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_aeons_own_detectors_are_scored_run_by_run():
    pytest.importorskip("aeon.anomaly_detection.series", reason=AEON)
    from aeon.anomaly_detection.series.distance_based import KMeansAD
    from aeon.anomaly_detection.series.outlier_detection import STRAY

    train, test = attacked()
    makers = {
        "KMeansAD": lambda: KMeansAD(n_clusters=5, window_size=10, random_state=0),
        "STRAY": STRAY,
    }
    for name, make in makers.items():
        trial = DetectorTrial.of(lambda make=make: FromOutlierDetector(make()))
        for what, check in CHECKS.items():
            # Both look ahead: by the windows a row is in, or at the run as a whole.
            if what != "rows to come":
                check(trial)
        detector = FromOutlierDetector(make()).fit(train)
        stream = export_stream(detector, train, test)
        assert stream.space == "score"
        assert stream.channels == (name,)
        assert ("learns nothing" in " ".join(stream.notices)) == (name == "STRAY")
        if name == "KMeansAD":
            assert evaluate(stream, intervals=False, diagnosis=False).rank.roc_auc > 0.8
