from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ChunkedRows, cuts, seeds

from sightline import (
    Reference,
    StreamError,
    contributions,
    energy_trace,
    fit_reference,
)
from sightline.data.row_tables import ArrayRows
from sightline.energy.energy import score_rows
from sightline.energy.reference import ESTIMATORS


def known_reference(p, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(p, p)) + 2 * np.eye(p)
    return Reference(
        mean=rng.normal(size=p),
        covariance=mixing @ mixing.T,
        estimator="known",
        shrinkage=None,
        n_rows=0,
    )


def drawn_from(reference, n, seed=1):
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(
        reference.mean, reference.covariance, size=n, method="cholesky"
    )


def exact_energy(row, reference):
    """Half of y' S^-1 y in rational arithmetic, by elimination."""
    y = [
        Fraction(float(value)) - Fraction(float(mean))
        for value, mean in zip(row, reference.mean, strict=True)
    ]
    rows = [
        [Fraction(float(entry)) for entry in line] + [value]
        for line, value in zip(reference.covariance, y, strict=True)
    ]
    p = len(y)
    for pivot in range(p):
        for below in range(p):
            if below != pivot:
                factor = rows[below][pivot] / rows[pivot][pivot]
                rows[below] = [
                    a - factor * b
                    for a, b in zip(rows[below], rows[pivot], strict=True)
                ]
    solved = [rows[j][p] / rows[j][j] for j in range(p)]
    return float(sum(a * b for a, b in zip(solved, y, strict=True)) / 2)


def symmetric_root(covariance):
    values, vectors = np.linalg.eigh(covariance)
    return vectors @ np.diag(values**-0.5) @ vectors.T


# Laws


@pytest.mark.parametrize("p", [1, 2, 7, 30])
def test_twice_the_energy_of_gaussian_residuals_is_chi_square(p):
    reference = known_reference(p)
    energy = energy_trace(drawn_from(reference, 20_000), reference)
    assert scipy.stats.kstest(2 * energy, scipy.stats.chi2(p).cdf).pvalue > 0.01


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), seeds, st.floats(0, 3))
def test_no_invertible_map_changes_the_energy_under_the_empirical_reference(
    p, seed, decades
):
    rng = np.random.default_rng(seed)
    train, test = rng.normal(size=(60, p)), 3 * rng.normal(size=(20, p))
    left, right = (np.linalg.qr(rng.normal(size=(p, p)))[0] for _ in range(2))
    stretch = 10.0 ** rng.uniform(-decades / 2, decades / 2, size=p)
    turned = left @ np.diag(stretch) @ right
    moved = rng.normal(size=p)

    def energy(change):
        reference = fit_reference(ArrayRows(change(train)), estimator="empirical")
        return energy_trace(change(test), reference)

    np.testing.assert_allclose(
        energy(lambda rows: rows @ turned + moved), energy(lambda rows: rows), rtol=1e-8
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_contributions_add_up_to_the_energy(estimator):
    known = known_reference(5)
    reference = fit_reference(ArrayRows(drawn_from(known, 400)), estimator=estimator)
    rows = 3 * drawn_from(known, 1500, seed=2)
    parts = contributions(rows, reference)
    assert parts.shape == rows.shape
    np.testing.assert_allclose(
        parts.sum(axis=1), energy_trace(rows, reference), rtol=1e-10
    )


def test_a_contribution_may_be_negative_where_a_channel_explains_another():
    reference = Reference(
        mean=np.zeros(2),
        covariance=np.array([[1.0, 0.9], [0.9, 1.0]]),
        estimator="known",
        shrinkage=None,
        n_rows=0,
    )
    # S^-1 (2, 1) = (1.1, -0.8) / 0.19, by hand.
    (parts,) = contributions([[2.0, 1.0]], reference)
    np.testing.assert_allclose(parts, [1.1 / 0.19, -0.4 / 0.19], rtol=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.data(), st.integers(1, 2500), st.sampled_from([np.float32, np.float64]))
def test_any_chunking_gives_bit_identical_energy(data, n, dtype):
    reference = known_reference(3)
    values = drawn_from(reference, n).astype(dtype)
    chunked = ChunkedRows(values, data.draw(cuts(n)))
    np.testing.assert_array_equal(
        energy_trace(chunked, reference), energy_trace(values, reference)
    )
    np.testing.assert_array_equal(
        contributions(chunked, reference), contributions(values, reference)
    )


# Oracles


@pytest.mark.parametrize("estimator", ESTIMATORS[:4])
@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_six_decades_of_scale_cost_no_digits(estimator, order):
    decades = {
        "rising": [-3, -2, -1, 1, 2, 3],
        "falling": [3, 2, 1, -1, -2, -3],
        "mixed": [-1, 3, -3, 2, -2, 1],
    }[order]
    scale = 10.0 ** np.array(decades)
    train = drawn_from(known_reference(6), 2000) * scale
    reference = fit_reference(ArrayRows(train), estimator=estimator)
    rows = 5 * drawn_from(known_reference(6), 20, seed=3) * scale
    exact = [exact_energy(row, reference) for row in rows]
    np.testing.assert_allclose(energy_trace(rows, reference), exact, rtol=1e-12)
    np.testing.assert_allclose(
        contributions(rows, reference).sum(axis=1), exact, rtol=1e-12
    )


def test_the_energy_under_a_second_reference_costs_no_digits_either():
    scale = 10.0 ** np.array([-3, -2, -1, 1, 2, 3])
    train = drawn_from(known_reference(6), 2000) * scale
    rows = train[:20]
    beside = fit_reference(ArrayRows(train), estimator="empirical")
    first = fit_reference(ArrayRows(3 * train + scale))
    scored = score_rows(ArrayRows(rows), first, name="test", other=beside)
    exact = [exact_energy(row, beside) for row in rows]
    np.testing.assert_allclose(scored.other_energy, exact, rtol=1e-12)


def test_float32_residuals_are_scored_in_float64():
    reference = known_reference(4)
    narrow = drawn_from(reference, 50).astype(np.float32)
    np.testing.assert_array_equal(
        energy_trace(narrow, reference),
        energy_trace(narrow.astype(np.float64), reference),
    )


@pytest.mark.parametrize("p", [1, 3, 12])
def test_max_z_and_kurtosis_are_those_of_the_symmetrically_whitened_values(p):
    known = known_reference(p)
    train = drawn_from(known, 1500) + np.random.default_rng(5).standard_t(
        4, size=(1500, p)
    )
    reference = fit_reference(ArrayRows(train))
    z = (train - train.mean(axis=0)) @ symmetric_root(reference.covariance)
    scored = score_rows(ArrayRows(train), reference, name="train")
    assert scored.max_z == pytest.approx(np.abs(z).max(), rel=1e-9)
    assert scored.excess_kurtosis == pytest.approx(
        scipy.stats.kurtosis(z, axis=None), rel=1e-9
    )


def test_only_counted_rows_make_max_z():
    reference = known_reference(3)
    rows = drawn_from(reference, 2000)
    rows[[7, 1500]] += 1e6
    counted = np.ones(2000, bool)
    counted[[7, 1500]] = False
    z = (rows - reference.mean) @ symmetric_root(reference.covariance)
    scored = score_rows(ArrayRows(rows), reference, name="test", counted=counted)
    assert scored.max_z == pytest.approx(np.abs(z[counted]).max(), rel=1e-9)
    assert np.all(scored.energy[~counted] > 1e6)


def test_no_counted_row_has_no_max_z():
    reference = known_reference(2)
    rows = drawn_from(reference, 5)
    nobody = np.zeros(5, bool)
    scored = score_rows(ArrayRows(rows), reference, name="test", counted=nobody)
    assert (scored.max_z, scored.excess_kurtosis) == (None, None)


# Refusals


@pytest.mark.parametrize("measure", [energy_trace, contributions])
def test_nonfinite_residuals_are_refused_by_row_and_channel(measure):
    rows = drawn_from(known_reference(2), 1500)
    rows[1200, 1] = np.nan
    with pytest.raises(
        StreamError, match=r"`residuals` must be finite; row 1200, .*'1'"
    ):
        measure(rows, known_reference(2))


@pytest.mark.parametrize("measure", [energy_trace, contributions])
def test_other_channels_than_the_references_are_refused(measure):
    with pytest.raises(StreamError, match=r"must have the 2 channels .*; got 3"):
        measure(np.zeros((4, 3)), known_reference(2))


def test_values_too_large_to_square_are_refused():
    with pytest.raises(StreamError, match="`residuals` holds values too large"):
        energy_trace([[1e300, 0.0]], known_reference(2))


def test_energy_alone_is_the_same_energy():
    rng = np.random.default_rng(5)
    for p, scale in ((1, 1.0), (7, 1e-6), (51, 1e3), (123, 1.0)):
        rows = rng.normal(size=(3000, p)) @ rng.normal(size=(p, p)) * scale
        rows[::7, 0] *= 1e4
        reference = fit_reference(rows[:2000])
        whole, alone = (
            score_rows(ArrayRows(rows), reference, name="test", energy_only=only)
            for only in (False, True)
        )
        np.testing.assert_allclose(alone.energy, whole.energy, rtol=1e-10)
        assert (alone.max_z, alone.excess_kurtosis) == (None, None)
        assert alone.scaled_fourth == whole.scaled_fourth
