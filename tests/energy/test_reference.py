import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.stats
import sklearn.covariance
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ChunkedRows, cuts, inner_cuts, seeds

from sightline import Reference, StreamError, energy_trace, fit_reference
from sightline.data.row_tables import ArrayRows
from sightline.energy.reference import ESTIMATORS, crossfit_excess, fold_moments, merged


def correlated(n, p, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    values = rng.standard_t(5, size=(n, p)) @ rng.normal(size=(p, p))
    return (values + rng.normal(size=p)).astype(dtype)


def with_constants(values, columns):
    values = values.copy()
    values[:, columns] = 3.0
    return values


def with_scales(values):
    return values * 10.0 ** np.linspace(-2, 2, values.shape[1])


TABLES = {
    "one channel": correlated(50, 1),
    "three rows": correlated(3, 2),
    "small": correlated(40, 3),
    "more channels than rows": correlated(30, 50),
    "two blocks": correlated(1500, 8),
    "many blocks": correlated(5000, 20),
    "constant channels": with_constants(correlated(300, 6), [0, 4]),
    "constant, p > n": with_constants(correlated(10, 25), [3]),
    "four decades of scale": with_scales(correlated(2000, 7)),
    "float32": correlated(1500, 5, dtype=np.float32),
    "float32, far from 0": correlated(1500, 5, dtype=np.float32) + np.float32(100),
    "far from 0": correlated(1500, 5) + 1e4,
}
each_table = pytest.mark.parametrize("values", TABLES.values(), ids=TABLES.keys())


def assert_same_covariance(found, expected, rtol=1e-9):
    """Compare entry by entry, in units of the two channels' spread."""
    spread = np.sqrt(np.diag(expected))
    spread[spread == 0] = 1.0
    within = np.outer(spread, spread)
    np.testing.assert_allclose(found / within, expected / within, rtol=0, atol=rtol)


# Oracles


@each_table
def test_ledoit_wolf_agrees_with_scikit_learn(values):
    covariance, shrinkage = sklearn.covariance.ledoit_wolf(values.astype(np.float64))
    reference = fit_reference(ArrayRows(values))
    assert reference.estimator == "ledoit-wolf"
    assert reference.shrinkage == pytest.approx(shrinkage, rel=1e-9, abs=1e-300)
    assert_same_covariance(reference.covariance, covariance)
    np.testing.assert_allclose(
        reference.mean, values.astype(np.float64).mean(axis=0), rtol=1e-12
    )


@settings(deadline=None, max_examples=40)
@given(st.integers(3, 80), st.integers(1, 12), seeds)
def test_ledoit_wolf_agrees_with_scikit_learn_on_any_shape(n, p, seed):
    values = correlated(n, p, seed)
    covariance, shrinkage = sklearn.covariance.ledoit_wolf(values)
    reference = fit_reference(ArrayRows(values))
    assert reference.shrinkage == pytest.approx(shrinkage, rel=1e-9, abs=1e-12)
    assert_same_covariance(reference.covariance, covariance)


@each_table
def test_oas_agrees_with_scikit_learn(values):
    centered = values.astype(np.float64)
    centered = centered - centered.mean(axis=0)
    covariance, shrinkage = sklearn.covariance.oas(centered)
    reference = fit_reference(ArrayRows(values), estimator="oas")
    assert reference.shrinkage == pytest.approx(shrinkage, rel=1e-9)
    assert_same_covariance(reference.covariance, covariance)


@pytest.mark.parametrize("name", ["one channel", "small", "many blocks", "float32"])
def test_empirical_agrees_with_scikit_learn(name):
    values = TABLES[name]
    expected = sklearn.covariance.empirical_covariance(values.astype(np.float64))
    reference = fit_reference(ArrayRows(values), estimator="empirical")
    assert reference.shrinkage is None
    assert_same_covariance(reference.covariance, expected)


@each_table
def test_standardised_ledoit_wolf_is_ledoit_wolf_in_units_of_the_spread(values):
    exact = values.astype(np.float64)
    spread = exact.std(axis=0)
    spread[np.ptp(exact, axis=0) == 0] = 1.0
    covariance, shrinkage = sklearn.covariance.ledoit_wolf(exact / spread)
    reference = fit_reference(ArrayRows(values), estimator="ledoit-wolf-standardised")
    assert reference.shrinkage == pytest.approx(shrinkage, rel=1e-9, abs=1e-300)
    assert_same_covariance(reference.covariance, covariance * np.outer(spread, spread))


def test_minimum_covariance_determinant_agrees_with_scikit_learn():
    values = correlated(300, 4)
    values[:40] += 50.0
    fitted = sklearn.covariance.MinCovDet(random_state=0).fit(values)
    reference = fit_reference(
        ArrayRows(values), estimator="minimum-covariance-determinant"
    )
    np.testing.assert_allclose(reference.mean, fitted.location_)
    np.testing.assert_allclose(reference.covariance, fitted.covariance_)
    assert reference.n_rows == 300


def test_minimum_covariance_determinant_draws_evenly_spaced_rows(monkeypatch):
    monkeypatch.setattr("sightline.energy.reference.MCD_ROWS", 80)
    values = correlated(300, 2)
    drawn = values[[row * 300 // 80 for row in range(80)]]
    fitted = sklearn.covariance.MinCovDet(random_state=0).fit(drawn)
    reference = fit_reference(
        ArrayRows(values), estimator="minimum-covariance-determinant"
    )
    np.testing.assert_allclose(reference.covariance, fitted.covariance_)
    assert reference.n_rows == 80


# Whitening


@each_table
def test_whitening_is_the_symmetric_inverse_root(values):
    reference = fit_reference(ArrayRows(values))
    root = reference.whitening
    np.testing.assert_allclose(root, root.T, rtol=1e-6, atol=1e-9 * np.abs(root).max())
    assert np.all(np.linalg.eigvalsh((root + root.T) / 2) > 0)
    np.testing.assert_allclose(
        root @ reference.covariance @ root.T, np.eye(len(root)), atol=1e-8
    )


def test_precision_is_the_inverse():
    reference = fit_reference(ArrayRows(TABLES["many blocks"]))
    np.testing.assert_allclose(
        reference.precision @ reference.covariance, np.eye(20), atol=1e-10
    )


# Refusals


def test_an_unknown_estimator_is_refused_with_the_known_ones():
    with pytest.raises(StreamError, match=r"must be one of ledoit-wolf, .*got 'lw'"):
        fit_reference(ArrayRows(TABLES["small"]), estimator="lw")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_train_that_never_changes_is_refused(estimator):
    with pytest.raises(StreamError, match="`train` never changes"):
        fit_reference(ArrayRows(np.full((20, 2), 3.0)), estimator=estimator)


@pytest.mark.parametrize("seed", range(6))
def test_a_singular_covariance_is_refused_when_fitted(seed):
    values = correlated(400, 3, seed)
    values = np.column_stack([values, values[:, 0] + values[:, 1]])
    with pytest.raises(StreamError, match=r"empirical covariance .* is singular"):
        fit_reference(ArrayRows(values), estimator="empirical")


@pytest.mark.parametrize("seed", range(6))
def test_two_train_rows_of_two_channels_are_refused_as_singular(seed):
    with pytest.raises(StreamError, match="is singular"):
        energy_trace(np.ones((1, 2)), fit_reference(ArrayRows(correlated(2, 2, seed))))


def test_a_nonfinite_train_value_is_named():
    values = correlated(2000, 3)
    values[1500, 2] = np.nan
    with pytest.raises(StreamError, match=r"`train` must be finite; row 1500, .* 'c'"):
        fit_reference(ArrayRows(values), channels=["a", "b", "c"])


def test_values_too_large_to_square_are_refused():
    values = correlated(20, 2)
    values[3, 0] = 1e300
    with pytest.raises(StreamError, match="`train` holds values too large"):
        fit_reference(ArrayRows(values))


# Moments


def moments_of(values, chunk_cuts=()):
    (whole,) = fold_moments(ChunkedRows(values, chunk_cuts), n_folds=1)
    return whole


def with_burst(values):
    values = values.copy()
    values[len(values) // 2, 0] += 1e12
    return values


def assert_moments_of(found, values, rtol=1e-10):
    """Compare with sums in extended precision about the mean that was found.

    Entries are in units of each channel's spread, so that a burst hides nothing.
    """
    wide = values.astype(np.longdouble)
    y = wide - found.mean
    squares = np.sum(y**2, axis=1)
    n, spread = len(values), np.sqrt(np.mean(y**2, axis=0))
    assert found.count == n
    np.testing.assert_allclose(
        found.mean, wide.mean(axis=0).astype(np.float64), rtol=1e-14, atol=1e-14
    )
    within = n * np.outer(spread, spread)
    np.testing.assert_allclose(
        (found.second / within).astype(np.float64),
        ((y.T @ y) / within).astype(np.float64),
        rtol=0,
        atol=rtol,
    )
    fourth = float(np.sum(squares**2))
    assert found.fourth == pytest.approx(fourth, rel=rtol)
    unit = np.sqrt(fourth / n) * n * spread
    np.testing.assert_allclose(
        (found.cubic / unit).astype(np.float64),
        ((squares @ y) / unit).astype(np.float64),
        rtol=0,
        atol=rtol,
    )


MOVES = {
    "plain": lambda values: values,
    "beside a burst": with_burst,
    "far from 0": lambda values: values + 1e8,
    "beside a burst, far from 0": lambda values: with_burst(values) + 1e8,
}
each_move = pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())


@each_move
@pytest.mark.parametrize("n", [10, 500, 4000])
def test_moments_are_those_of_the_rows(move, n):
    values = move(np.random.default_rng(n).gumbel(size=(n, 3)))
    assert_moments_of(moments_of(values), values)


@each_move
@settings(deadline=None, max_examples=25)
@given(st.data(), st.integers(2, 2500), seeds)
def test_moments_merged_over_any_partition_equal_the_whole(move, data, n, seed):
    values = move(np.random.default_rng(seed).gumbel(size=(n, 3)))
    parts = np.split(values, data.draw(inner_cuts(n)))
    assert_moments_of(merged([moments_of(part) for part in parts]), values)


@settings(deadline=None, max_examples=25)
@given(st.data(), st.integers(2, 2500), st.sampled_from([np.float32, np.float64]))
def test_any_chunking_gives_bit_identical_moments(data, n, dtype):
    values = np.random.default_rng(n).normal(size=(n, 3)).astype(dtype)
    whole = fold_moments(ArrayRows(values))
    chunked = fold_moments(ChunkedRows(values, data.draw(cuts(n))))
    assert len(whole) == len(chunked)
    for a, b in zip(whole, chunked, strict=True):
        assert (a.count, a.fourth) == (b.count, b.fourth)
        for field in ("mean", "second", "cubic", "constant"):
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


def test_folds_are_contiguous_and_even():
    values = np.arange(11.0)[:, None]
    folds = fold_moments(ArrayRows(values), n_folds=5)
    assert [fold.count for fold in folds] == [2, 2, 2, 2, 3]
    assert [fold.mean[0] for fold in folds] == [0.5, 2.5, 4.5, 6.5, 9.0]


def test_fewer_rows_than_folds_lose_none():
    folds = fold_moments(ArrayRows(np.array([[1.0], [2.0], [6.0]])), n_folds=5)
    whole = merged(folds)
    assert (whole.count, whole.mean[0]) == (3, 3.0)


def test_constant_channels_are_told_apart_from_quiet_ones():
    values = np.full((50, 3), 0.1)
    values[7, 1] = np.nextafter(0.1, 1)
    assert moments_of(values).constant.tolist() == [True, False, True]


def test_a_channel_that_changes_between_parts_is_not_constant():
    values = np.repeat([[1.0, 5.0], [2.0, 5.0]], [20, 30], axis=0)  # folds of 10
    assert merged(fold_moments(ArrayRows(values))).constant.tolist() == [False, True]


def test_ticks_count_every_row_once():
    seen = []
    fold_moments(
        ArrayRows(np.random.default_rng(0).normal(size=(3000, 2))), tick=seen.append
    )
    assert sum(seen) == 3000
    assert len(seen) > 1


# Energy and divergence


def test_mean_energy_is_the_mean_of_the_energies():
    reference = fit_reference(ArrayRows(correlated(500, 5)))
    values = correlated(700, 5, seed=1)
    assert reference.mean_energy(moments_of(values)) == pytest.approx(
        np.mean(energy_trace(values, reference)), rel=1e-12
    )


def test_mean_energy_beyond_p_half_is_divergence_plus_half_a_logdet():
    reference = fit_reference(ArrayRows(correlated(500, 4)))
    values = correlated(300, 4, seed=1)
    moments = moments_of(values)
    # Gaussian KL in the textbook form, with scipy's solver.
    lower = scipy.linalg.cho_factor(reference.covariance)
    shift = values.mean(axis=0) - reference.mean
    spread = np.cov(values.T, bias=True)
    logdet = np.linalg.slogdet(spread)[1] - np.linalg.slogdet(reference.covariance)[1]
    trace = np.trace(scipy.linalg.cho_solve(lower, spread))
    kl = (trace + shift @ scipy.linalg.cho_solve(lower, shift) - 4 - logdet) / 2
    assert reference.mean_energy(moments) - 2 == pytest.approx(
        kl + logdet / 2, rel=1e-11
    )


def unit_reference():
    return Reference(
        mean=np.zeros(1),
        covariance=np.eye(1),
        estimator="known",
        shrinkage=None,
        n_rows=0,
    )


def gaussian_divergence(mean, variance):
    """Moment-matched divergence to N(0, 1), by mean(e) - p/2 = KL + logdet / 2."""
    spread = np.sqrt(variance)
    moments = moments_of(np.array([[mean - spread], [mean + spread]]))
    return unit_reference().mean_energy(moments) - 0.5 - np.log(variance) / 2


def integrated_divergence(weights, means, spreads):
    """KL of a Gaussian mixture to N(0, 1), by numeric integration."""
    x = np.linspace(-40, 40, 400_001)
    density = sum(
        w * scipy.stats.norm.pdf(x, m, s)
        for w, m, s in zip(weights, means, spreads, strict=True)
    )
    held = density > 0
    ratio = np.log(density[held]) - scipy.stats.norm.logpdf(x[held])
    integrand = np.zeros_like(x)
    integrand[held] = density[held] * ratio
    return scipy.integrate.simpson(integrand, x=x)


@pytest.mark.parametrize(("mean", "spread"), [(0.0, 1.0), (2.0, 0.5), (-1.0, 3.0)])
def test_moment_matched_divergence_is_exact_for_a_gaussian(mean, spread):
    assert gaussian_divergence(mean, spread**2) == pytest.approx(
        integrated_divergence([1.0], [mean], [spread]), abs=1e-9
    )


@settings(deadline=None, max_examples=15)
@given(
    st.floats(0.05, 0.95),
    st.floats(-4, 4),
    st.floats(-4, 4),
    st.floats(0.2, 3),
    st.floats(0.2, 3),
)
def test_moment_matched_divergence_bounds_a_mixtures_from_below(w, m1, m2, s1, s2):
    weights, means, spreads = [w, 1 - w], [m1, m2], [s1, s2]
    mean = np.dot(weights, means)
    variance = np.dot(weights, np.square(means) + np.square(spreads)) - mean**2
    true = integrated_divergence(weights, means, spreads)
    assert gaussian_divergence(mean, variance) <= true + 1e-9


# Cross-fitting


ORACLES = {
    "ledoit-wolf": lambda values: sklearn.covariance.ledoit_wolf(values)[0],
    "oas": lambda values: sklearn.covariance.oas(values - values.mean(axis=0))[0],
    "empirical": sklearn.covariance.empirical_covariance,
}


@pytest.mark.parametrize(
    ("estimator", "n", "p"),
    [
        ("ledoit-wolf", 53, 3),
        ("ledoit-wolf", 400, 6),
        ("ledoit-wolf", 30, 20),
        ("oas", 100, 4),
        ("empirical", 100, 4),
    ],
)
def test_crossfit_excess_is_the_brute_force_one(estimator, n, p):
    values = correlated(n, p)
    reference = fit_reference(ArrayRows(values), estimator=estimator)
    train_energy = float(np.mean(energy_trace(values, reference)))
    excess = []
    for k in range(5):
        inside = np.zeros(n, bool)
        inside[n * k // 5 : n * (k + 1) // 5] = True
        covariance = ORACLES[estimator](values[~inside])
        centered = values[inside] - values[~inside].mean(axis=0)
        solved = np.linalg.solve(covariance, centered.T).T
        excess.append(np.mean(np.sum(centered * solved, axis=1) / 2) - train_energy)
    folds = fold_moments(ArrayRows(values))
    assert crossfit_excess(folds, train_energy, estimator=estimator) == pytest.approx(
        np.median(excess), rel=1e-9
    )


def test_too_few_rows_have_no_crossfit_excess():
    assert crossfit_excess(fold_moments(ArrayRows(correlated(9, 2))), 1.0) is None
    assert crossfit_excess(fold_moments(ArrayRows(correlated(10, 2))), 1.0) is not None
