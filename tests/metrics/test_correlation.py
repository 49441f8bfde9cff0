from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from sightline.metrics.ranking import rank_correlation

values = st.lists(st.integers(-5, 5), min_size=3, max_size=12)


@settings(deadline=None, max_examples=150)
@given(values, st.randoms(use_true_random=False))
def test_rho_and_p_are_those_of_scipy(first, random):
    second = [random.randint(-5, 5) for _ in first]
    found = rank_correlation(np.array(first, float), np.array(second, float))
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found.rho is None
        return
    oracle = spearmanr(first, second)
    assert found.rho == pytest.approx(oracle.statistic, abs=1e-12)
    if abs(found.rho) < 1:
        assert found.p_value == pytest.approx(oracle.pvalue, rel=1e-9)


def test_the_exact_p_counts_all_orders():
    first = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    second = np.array([2.0, 1.0, 4.0, 3.0, 5.0])
    found = rank_correlation(first, second)
    orders = [spearmanr(first, order).statistic for order in permutations(second)]
    reached = np.mean(np.abs(orders) >= abs(found.rho) - 1e-12)
    assert found.p_exact == pytest.approx(reached)
    assert rank_correlation(np.arange(8.0), np.arange(8.0)).p_exact is None


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_pairs_have_no_correlation(n):
    found = rank_correlation(np.arange(float(n)), np.arange(float(n)))
    assert (found.n, found.rho, found.p_value, found.p_exact) == (n, None, None, None)
