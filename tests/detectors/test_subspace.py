"""A Kalman filter against closed forms, and PASAD against its published formulas."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from sightline.data.recording import Recording, Tag
from sightline.data.validity import Validity
from sightline.detectors import load_detector, subspace
from sightline.detectors.conformance import check_detector
from sightline.detectors.subspace import (
    KEPT_SHARE,
    KL_QUANTILE,
    MOST_AXES,
    MOST_SETTLING,
    SETTLED,
    KalmanFilter,
    Pasad,
    StateSpace,
    divergences,
    lag_moments,
    settling_filter,
)
from sightline.errors import FileError, StreamError
from sightline.export import export_stream, without_lost
from sightline.metrics.windows import energies_of_windows

KINDS = [KalmanFilter, Pasad]


def of_model(transition, output, state_noise, noise, n_steps, seed=0):
    """Return rows of ``x(t+1) = A x + w, y = C x + v``, beginning at rest."""
    rng = np.random.default_rng(seed)
    state, rows = np.zeros(len(transition)), np.empty((n_steps, len(output)))
    w = rng.normal(size=(n_steps, len(transition))) @ np.linalg.cholesky(state_noise).T
    v = rng.normal(size=rows.shape) @ np.linalg.cholesky(noise).T
    for t in range(n_steps):
        rows[t] = output @ state + v[t]
        state = transition @ state + w[t]
    return rows


def recorded(values, **fields):
    tags = tuple(Tag(name=f"c{k}") for k in range(values.shape[1]))
    return Recording(values=values, tags=tags, **({"step_s": 60.0} | fields))


def plant(n_steps=1500, seed=0, **fields):
    """Return two slow tags, one that follows another, and a constant."""
    rows = of_model(
        np.array([[0.95, 0.2], [-0.2, 0.9]]),
        np.array([[1.0, 0.0], [0.0, 100.0], [2.0, 3.0]]),
        np.eye(2),
        np.diag([0.5, 900.0, 1.0]),
        n_steps,
        seed,
    )
    return recorded(np.insert(rows, 1, 7.0, axis=1), **fields)


@pytest.mark.parametrize(
    "make",
    [
        *KINDS,
        lambda: KalmanFilter(order=3, every=2, trim_s=30),
        lambda: KalmanFilter(validation_share=0.0),
        lambda: Pasad(lag=7, every=2, sampling="stride"),
        lambda: Pasad(lag=1, validation_share=0.0),
    ],
)
def test_they_pass_every_check(make):
    check_detector(make)


# ------------------------------------------------------------------- Kalman filter


@pytest.mark.parametrize(("a", "q", "r"), [(0.9, 1.0, 2.0), (0.6, 1.0, 0.5)])
def test_an_autoregression_in_noise_gets_the_gain_of_the_closed_form(a, q, r):
    values = of_model(*(np.array([[x]]) for x in (a, 1.0, q, r)), 50_000)
    detector = KalmanFilter(order=1, validation_share=0.0).fit(recorded(3 * values + 5))
    # The Riccati equation of one state: P^2 + (r (1 - a^2) - q) P - q r = 0.
    half = (q - r * (1 - a**2)) / 2
    p = half + np.sqrt(half**2 + q * r)
    gain = a * p / (p + r)
    found = detector.output @ detector.gain
    assert detector.closed[0, 0] == pytest.approx(a - gain, abs=0.03)
    assert found[0, 0] == pytest.approx(gain, abs=0.02)
    residuals = detector.residuals(recorded(3 * values + 5))
    innovations = residuals.values[:, 0] * residuals.scale / 3
    assert innovations.var() == pytest.approx(p + r, rel=0.02)
    for lag in range(1, 6):  # white
        pairs = np.corrcoef(innovations[lag:], innovations[:-lag])
        assert abs(pairs[0, 1]) < 0.02


def test_two_states_in_three_tags_get_the_best_filter():
    transition = np.array([[0.8, 0.3], [-0.3, 0.8]])
    output = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]])
    state_noise, noise = np.diag([1.0, 0.5]), np.diag([0.5, 0.5, 1.0])
    values = of_model(transition, output, state_noise, noise, 50_000)
    detector = KalmanFilter(validation_share=0.0).fit(recorded(values))
    p = solve_discrete_are(transition.T, output.T, state_noise, noise)
    best = output @ p @ output.T + noise
    gain = transition @ p @ output.T @ np.linalg.inv(best)
    assert detector.closed.shape == (2, 2)
    ours = np.linalg.eigvals(detector.closed)
    wanted = np.linalg.eigvals(transition - gain @ output)
    np.testing.assert_allclose(
        np.sort_complex(ours), np.sort_complex(wanted), atol=0.03
    )
    residuals = detector.residuals(recorded(values))
    units = detector.deviation * residuals.scale
    found = detector.output @ detector.gain * np.outer(units, 1 / units)
    np.testing.assert_allclose(found, output @ gain, atol=0.03)
    innovations = residuals.values * residuals.scale
    np.testing.assert_allclose(np.cov(innovations.T), best, rtol=0.02, atol=0.02)
    # Of a later record they are as small, and white across tags too.
    later = of_model(transition, output, state_noise, noise, 20_000, seed=1)
    told = detector.residuals(recorded(later)).values * residuals.scale
    np.testing.assert_allclose(np.cov(told.T), best, rtol=0.05, atol=0.05)
    across = np.corrcoef(told[1:].T, told[:-1].T)[:3, 3:]
    assert np.abs(across).max() < 0.03


def test_a_run_begins_again_and_has_residuals_once_the_filter_has_settled():
    train, test = plant(), plant(400, seed=3)
    detector = KalmanFilter().fit(train)
    back = detector.look_back()
    assert 3 < back <= MOST_SETTLING
    cut = replace(test, breaks=np.array([0, 150, 150 + back]))
    told, whole = detector.residuals(cut), detector.residuals(test)
    begins = (back, 150, 150 + 2 * back)  # the second run is as long as it settles
    wanted = np.r_[begins[0] : begins[1], begins[2] : 400]
    np.testing.assert_array_equal(told.index, wanted)
    same = np.isin(whole.index, told.index)
    # What the filter began with has been forgotten: to a millionth of a deviation.
    gap = np.abs(told.values - whole.values[same]) / detector.deviation
    assert gap.max() < 10 * SETTLED
    short = plant(back, seed=3)
    with pytest.raises(StreamError, match=f"has {back + 1} rows, which Kalman filter"):
        detector.residuals(short)


def test_a_filter_that_would_not_settle_forgets_older_rows():
    # A level that hardly moves below large noise: its best gain is near 0.
    one = np.ones((1, 1))
    model = StateSpace(0.9999 * one, one, np.diag([1e-8, 1.0]), one, one)
    _, slow, weight, rows, _ = settling_filter(model, 10**5)
    assert (weight, rows > 1000) == (1.0, True)
    closed, gain, weight, rows, wait = settling_filter(model, 60)
    assert weight in [pytest.approx(SETTLED ** (k / 60)) for k in (0.5, 1)]
    assert 0 < wait < rows <= 61
    assert 0 < slow[0, 0] < gain[0, 0]
    assert 0 < closed[0, 0] <= weight
    assert closed[0, 0] ** (rows - 1) <= SETTLED < closed[0, 0] ** (rows - 2)


def test_without_a_filter_it_is_the_training_mean_and_says_so(monkeypatch):
    def refused(*_, **__):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(subspace, "solve_discrete_are", refused)
    train, test = plant(), plant(400, seed=3)
    told = (detector := KalmanFilter().fit(train)).residuals(test)
    assert told.notices[-1].startswith("No state-space model was found")
    mean = train.values[detector.split.trained].mean(axis=0)
    wanted = test.values[told.index] - mean
    np.testing.assert_allclose(told.values * told.scale, wanted, atol=1e-9)


def test_the_number_of_states_is_the_one_with_the_least_error_on_held_out_rows():
    train = plant(6000)
    chosen = KalmanFilter().fit(train)
    held = chosen.split.held_out

    def error(detector):
        told = detector.residuals(train)
        of = told.values[np.isin(told.index, held)] / detector.deviation
        return (of[:, [0, 2, 3]] ** 2).mean()

    errors = {k: error(KalmanFilter(order=k).fit(train)) for k in (1, 2, 3, 8)}
    assert errors[2] < 0.9 * errors[1]
    assert error(chosen) < 1.01 * min(errors.values())


# --------------------------------------------- its own rule: divergence of a window

START = np.array([0])


@pytest.mark.parametrize(
    ("rows", "length", "wanted"),
    [
        # One row: m = 3, C = 0, S = (0 + 1) / 2.
        ([[3.0]], 1, (0.5 + 9 - 1 + np.log(2)) / 2),
        # m = 0, C = 9, S = (2 * 9 + 1) / 3 = 19 / 3.
        ([[-3.0], [3.0]], 2, (19 / 3 - 1 - np.log(19 / 3)) / 2),
        # The row before the run is a pseudo-row: m = 1, C = (1 + 1 + 1) / 2, S = 4 / 3.
        ([[2.0]], 2, (4 / 3 + 1 - 1 - np.log(4 / 3)) / 2),
        # Two channels that move together: m = 0, C = [[1, 1], [1, 1]], S = (C + I) / 2.
        ([[1.0, 1.0], [-1.0, -1.0]], 2, (2 - 2 - np.log(0.75)) / 2),
    ],
)
def test_the_divergence_of_a_window_by_hand(rows, length, wanted):
    found = divergences(np.array(rows), START, length)
    assert found[-1] == pytest.approx(wanted, rel=1e-12)


def test_divergences_are_those_of_the_metrics_and_know_no_row_before_their_run():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)) + 0.3
    found = divergences(rows, np.array([0, 300]), 20)
    ends = np.r_[19:300, 319:500]
    parts = [rows[t - 19 : t + 1] for t in ends]
    means = np.array([part.mean(axis=0) for part in parts])
    seconds = np.array([20 * np.cov(part.T, bias=True) for part in parts])
    d_full, _ = energies_of_windows(np.full(len(ends), 20), means, seconds)
    np.testing.assert_allclose(found[ends], d_full / 20, rtol=1e-9)
    alone = divergences(rows[300:], START, 20)
    np.testing.assert_allclose(found[300:], alone, rtol=1e-12)


def test_without_pseudo_rows_it_is_mean_energy_and_the_logarithm_of_a_determinant():
    # Theorem 1 of the paper: KL = mean energy - p/2 - (log det C) / 2.
    rows = np.random.default_rng(1).normal(0.2, 1.5, size=(20_000, 3))
    covariance = np.cov(rows.T, bias=True)
    energy = (rows**2).sum(axis=1).mean() / 2
    wanted = energy - 1.5 - np.linalg.slogdet(covariance)[1] / 2
    assert divergences(rows, START, 20_000)[-1] == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("length", [200, 800])
def test_where_nothing_is_wrong_it_falls_to_0_with_the_length_of_the_window(length):
    # 2 W KL is chi-squared with p (p + 3) / 2 degrees of freedom, for long windows.
    rows = np.random.default_rng(2).normal(size=(100 * length, 4))
    alone = divergences(rows, np.arange(0, len(rows), length), length)
    mean = alone[length - 1 :: length].mean()
    assert mean == pytest.approx(4 * 7 / (4 * length), rel=0.15)


def test_a_value_beyond_all_bounds_is_infinite_and_leaves_other_windows_alone():
    rows = np.random.default_rng(3).normal(size=(60, 2))
    rows[30, 0] = 1e200
    found = divergences(rows, START, 5)
    assert np.flatnonzero(np.isinf(found)).tolist() == list(range(30, 35))
    rows[30, 0] = 1e12  # absorbs the pseudo-rows: large, and finite
    assert 1e20 < divergences(rows, START, 5)[30] < 1e25


def test_tags_that_move_together_ring_though_the_energy_of_each_row_is_as_usual():
    rng = np.random.default_rng(4)
    usual, together = rng.normal(size=(2, 60, 8))
    together[:] = together[:, :1]
    together *= np.sqrt((usual**2).sum(axis=1) / (together**2).sum(axis=1))[:, None]
    told = [divergences(rows, START, 60)[-1] for rows in (usual, together)]
    assert told[1] > 5 * told[0]


def test_alarms_are_above_a_quantile_of_train_and_where_an_attack_is():
    train, test = plant(6000), plant(3000, seed=3)
    detector = KalmanFilter().fit(train)
    values = np.array(test.values)
    values[1000:1200, 3] += 6 * np.random.default_rng(4).normal(size=200)
    labels = np.zeros(3000, int)
    labels[1000:1200] = 1
    stream = export_stream(detector, train, replace(test, values=values, labels=labels))
    assert stream.meta["native_rule"]["name"] == "kl"
    alarms = np.asarray(stream.alarms)[np.asarray(stream.labels) == 1]
    assert alarms[10:].mean() > 0.9
    before = np.asarray(stream.alarms)[: int(np.argmax(np.asarray(stream.labels)))]
    assert before.mean() < 0.1
    # The limit is the quantile of train's own divergences.
    learned = export_stream(detector, train, train)
    normal = np.isin(
        detector.residuals(train).index,
        np.r_[detector.split.trained, detector.split.held_out],
    )
    share = np.asarray(learned.alarms)[normal].mean()
    assert share == pytest.approx(1 - KL_QUANTILE, abs=2e-3)


@pytest.mark.parametrize(
    ("settings", "step_s", "rows"),
    [({}, 60.0, 10), ({}, 10.0, 60), ({}, 1.0, 120), ({"kl_rows": 33}, 1.0, 33)],
)
def test_a_window_lasts_ten_minutes_within_bounds(settings, step_s, rows):
    train = plant(900, step_s=step_s)
    stream = export_stream(KalmanFilter(**settings).fit(train), train, train)
    told = f"own rule: Each divergence is of {rows} rows and 3 tags."
    assert told in stream.notices


def test_a_plant_that_stands_still_has_no_divergence():
    still = recorded(np.full((400, 2), 3.0))
    detector = KalmanFilter().fit(still)
    assert export_stream(detector, still, still).alarms is None
    with pytest.raises(StreamError, match="needs a tag that moves in train"):
        export_stream(detector, still, still, rule="kl")


# --------------------------------------------------------------------------- PASAD


def published(train, test, lag):
    """Return the departure scores of one series, by the paper's formulas."""
    trajectory = np.array([train[k : k + lag] for k in range(len(train) - lag + 1)]).T
    left, singular, _ = np.linalg.svd(trajectory)
    share = np.cumsum(singular**2) / (singular**2).sum()
    r = min(int(np.argmax(share >= KEPT_SHARE)) + 1, MOST_AXES)
    basis = left[:, :r]
    centroid = basis.T @ trajectory.mean(axis=1)
    vectors = [test[k : k + lag] for k in range(len(test) - lag + 1)]
    return np.array([((centroid - basis.T @ v) ** 2).sum() for v in vectors])


@pytest.mark.parametrize("lag", [1, 20, 65])
def test_scores_are_those_of_the_explicit_trajectory_matrix(lag):
    train, test = plant(700), plant(300, seed=2)
    detector = Pasad(lag=lag, validation_share=0.0).fit(train)
    told = detector.residuals(test)
    mean = train.values[lag - 1 :].mean(axis=0)
    spread = train.values[lag - 1 :].std(axis=0)
    np.testing.assert_array_equal(told.index, np.arange(lag - 1, 300))
    for tag in (0, 2, 3):
        learned, seen = (
            (r.values[:, tag] - mean[tag]) / spread[tag] for r in (train, test)
        )
        scores = (told.values[:, tag] * told.scale[tag] / spread[tag]) ** 2 * lag
        wanted = published(learned, seen, lag)
        np.testing.assert_allclose(scores, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(told.values[:, 1], 0, atol=1e-12)


def test_the_score_of_a_line_by_hand():
    # Lag 2, vectors (1, 1) and (-1, -1) only: one direction, (1, 1) / sqrt(2).
    values = np.repeat([1.0, -1.0], 50)[:, None]
    train = recorded(values, breaks=np.array([0, 50]))
    detector = Pasad(lag=2, validation_share=0.0).fit(train)
    told = detector.residuals(recorded(np.array([[2.0], [4.0], [-4.0], [-6.0]])))
    # (2 + 4) / sqrt(2), squared, over the lag: 9; of (4, -4) it is 0; then -5.
    wanted = [3.0, 0.0, -5.0]
    np.testing.assert_allclose(told.values[:, 0] * told.scale, wanted, atol=1e-12)


def test_moments_of_lagged_vectors_in_pieces_are_those_of_all_of_them():
    series = np.random.default_rng(0).normal(size=200).cumsum()
    rows = np.r_[10:50, 70:71, 120:200]
    vectors = np.array([series[t - 6 : t + 1] for t in rows])
    mean, second = lag_moments(series, rows, 7)
    np.testing.assert_allclose(mean, vectors.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(second, vectors.T @ vectors / len(rows), rtol=1e-12)


@pytest.mark.parametrize(
    ("step_s", "every", "lag"),
    [
        (1, 1, 200),
        (10, 1, 180),
        (10, 2, 90),
        (60, 1, 30),
        (3600, 1, 10),
        (None, 1, 200),
    ],
)
def test_the_lag_is_half_an_hour_within_bounds(step_s, every, lag):
    detector = Pasad(every=every).fit(plant(2000, step_s=step_s))
    assert (detector.lag, detector.look_back()) == (lag, lag - 1)
    told = detector.residuals(plant(900, step_s=step_s))
    assert told.notices[-1] == f"Each residual is of {lag} rows."


def test_nearer_to_the_centre_is_not_odd_and_what_leaves_the_subspace_is_not_seen():
    # A tag that swings: its rows are always equally far from the centroid.
    noise = np.random.default_rng(1).normal(0, 0.02, (3000, 1))
    values = np.sin(np.arange(3000) * 2 * np.pi / 40)[:, None] + noise
    test = np.array(values[:1600])
    test[400:500] *= 0.1
    test[800:900] *= 3
    test[1200:1300] += 3  # of a whole period: at right angles to every swing
    train, odd = recorded(values), recorded(test)
    detector = Pasad(lag=40).fit(train)
    told = detector.residuals(odd)
    size = dict(zip(told.index.tolist(), np.abs(told.values[:, 0]), strict=True))
    usual = size[300]
    for start, times in ((440, 0.1), (840, 3.0), (1240, 1.0)):
        for row in range(start, start + 60):
            assert size[row] == pytest.approx(times * usual, rel=0.2)
    # Above and below the middle alike: the square is the score, for any reference.
    assert abs(told.values[:300].mean()) < 0.1 * usual
    assert not export_stream(detector, train, odd).one_sided


# ---------------------------------------------------------------------------- both


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_after_saving(kind, tmp_path):
    detector, test = kind(every=2).fit(plant()), plant(700, seed=1)
    detector.save(tmp_path / "one.npz")
    again = load_detector(tmp_path / "one.npz")
    assert again.look_back() == detector.look_back()
    told, before = again.residuals(test), detector.residuals(test)
    assert told.values.tobytes() == before.values.tobytes()
    assert told.notices == before.notices


@pytest.mark.parametrize("wait", [np.nan, "many", [3, 4]])
def test_a_file_with_no_number_of_rows_to_wait_is_refused(wait, tmp_path):
    KalmanFilter().fit(plant()).save(tmp_path / "one.npz")
    with np.load(tmp_path / "one.npz") as file:
        arrays = dict(file) | {"wait": np.array(wait)}
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(FileError, match="is not a whole detector"):
        load_detector(tmp_path / "other.npz")


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_tag_is_replaced_by_what_the_others_tell(kind):
    train, test = plant(), plant(700, seed=1)
    detector = kind().fit(train)
    codes = np.full(test.values.shape, Validity.GOOD, np.int8)
    codes[300:310, 3] = Validity.MISSING
    values = np.array(test.values)
    values[300:310, 3] = 1e6
    told = detector.residuals(replace(test, values=values, validity=codes))
    assert np.abs(told.values * told.scale).max() < 1e4
    marked = replace(test, validity=codes)
    lost = np.isnan(without_lost(told, marked, detector, "export"))
    assert np.flatnonzero(lost.any(axis=0)).tolist() == [3]
    at = told.index[np.flatnonzero(lost[:, 3])]
    assert (at[0], at[-1]) == (300, 309 + detector.memory())
    assert 3 < detector.memory() <= detector.look_back()


@pytest.mark.parametrize("kind", KINDS)
def test_a_plant_that_stands_still_has_residuals_of_what_moves_later(kind):
    still = recorded(np.full((400, 2), 3.0))
    detector = kind().fit(still)
    told = detector.residuals(recorded(np.full((400, 2), 5.0)))
    np.testing.assert_array_equal(told.values, 2.0)
