"""Quantiles without scipy are those of scipy."""

import numpy as np
import pytest
from scipy.special import bdtrc, betaincinv, gammaincinv

from sightline.metrics.intervals import count_interval
from sightline.metrics.quantiles import (
    half_chi_square,
    least_probability,
    probability_of_hits,
)

LEVELS = np.array([0.001, 0.01, 0.3, 0.5, 0.95, 0.999, 0.9999])


@pytest.mark.parametrize("p", [1, 2, 3, 10, 51, 123, 1000])
def test_half_a_chi_square_variable_has_the_quantiles_of_scipy(p):
    expected = gammaincinv(p / 2, LEVELS)
    np.testing.assert_allclose(half_chi_square(p, LEVELS), expected, rtol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3, 26, 500, 1600])
def test_the_least_probability_is_the_quantile_of_a_beta_variable(n):
    for hits in {1, min(2, n), (n + 1) // 2, n}:
        for level in (0.001, 0.025, 0.2):
            expected = betaincinv(hits, n - hits + 1, level)
            found = least_probability(hits, n, level)
            assert found == pytest.approx(expected, rel=1e-12), (hits, level)


@pytest.mark.parametrize("n", [1, 2, 26, 1600])
def test_the_probability_of_hits_is_that_of_a_binomial_variable(n):
    for hits in {0, 1, n // 3, n}:
        for probability in (0.01, 0.05, 0.9):
            expected = bdtrc(hits - 1, n, probability) if hits else 1.0
            found = probability_of_hits(hits, n, probability)
            assert found == pytest.approx(expected, rel=1e-11), (hits, probability)


def test_all_and_nothing_of_a_count_end_at_the_ends_of_its_range():
    assert count_interval(0, 26)[0] == 0.0
    assert count_interval(26, 26)[1] == 26.0


def test_more_hits_than_tries_have_no_interval_and_no_chance():
    assert np.isnan(count_interval(12, 6)).all()
    assert probability_of_hits(12, 6, 0.05) == 0.0
