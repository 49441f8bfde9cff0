import numpy as np
import pytest
from scipy.stats import chi2

from sightline.metrics.measures import (
    against_chi_square,
    measure_compactness,
    names_where,
    scale_blind,
)


def test_compactness_is_1_where_train_energy_is_half_the_channels():
    measured = measure_compactness(3.0, 6)
    assert (measured.p_eff, measured.compactness) == (6.0, 1.0)


def test_compactness_counts_the_effective_channels():
    measured = measure_compactness(1.0, 8)
    assert (measured.p_eff, measured.compactness) == (2.0, 0.25)


def test_a_channel_is_scale_blind_where_shrinkage_more_than_doubles_its_variance():
    raw = np.array([1.0, 1.0, 1.0, 0.0])
    shrunk = np.array([0.9, 2.0, 2.1, 0.5])
    constant = np.array([False, False, False, True])
    assert scale_blind(raw, shrunk, constant).tolist() == [False, False, True, False]


def test_names_follow_the_mask():
    assert names_where(np.array([True, False, True]), ["a", "b", "c"]) == ("a", "c")
    assert names_where(np.zeros(3, bool), ["a", "b", "c"]) == ()


def test_gaussian_residuals_follow_the_law_and_heavy_tails_do_not():
    rng = np.random.default_rng(1)
    p, n = 12, 200_000
    z = rng.normal(size=(n, p))
    tail, variance = against_chi_square(0.5 * np.sum(z**2, axis=1), p)
    assert abs(tail - 1) < 0.08
    assert abs(variance - 1) < 0.03
    heavy = z * np.sqrt(5 / rng.chisquare(7, size=(n, 1)))
    tail, variance = against_chi_square(0.5 * np.sum(heavy**2, axis=1), p)
    assert tail > 3
    assert variance > 3


def test_tail_is_counted_beyond_scipys_quantile():
    energy = np.linspace(0, 20, 1001)
    tail, variance = against_chi_square(energy, 5)
    assert tail == pytest.approx(np.mean(2 * energy > chi2(5).ppf(0.99)) * 100)
    assert variance == pytest.approx(energy.var() / 2.5)
    assert against_chi_square(np.array([0.0, 1e200]), 5)[1] is None
