from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.comparison.compare import rank_detectors

seeds = st.lists(st.integers(0, 4).map(lambda k: k / 4), min_size=1, max_size=3)


def by_brute_force(values, order):
    """List every combination of seeds; a tie of neighbours counts half."""
    shares = []
    for chosen in product(*(values[name] for name in order)):
        steps = [(np.sign(a - b) + 1) / 2 for a, b in pairwise(chosen)]
        shares.append(np.prod(steps))
    return np.mean(shares)


@given(st.lists(seeds, min_size=2, max_size=5))
def test_shares_are_those_of_all_combinations(listed):
    values = {f"d{k}": drawn for k, drawn in enumerate(listed)}
    ranking = rank_detectors("x", "roc_auc", values)
    means = [np.mean(values[name]) for name in ranking.order]
    assert means == sorted(means, reverse=True)
    assert ranking.holds == pytest.approx(by_brute_force(values, ranking.order))
    for (a, b), share in zip(pairwise(ranking.order), ranking.above, strict=True):
        assert share == pytest.approx(by_brute_force(values, (a, b)))


def test_by_hand():
    values = {"a": [0.9, 0.7], "b": [0.8, 0.6], "c": [0.5, 0.65]}
    ranking = rank_detectors("x", "f1", values)
    assert ranking.order == ("a", "b", "c")
    assert ranking.above == (0.75, 0.75)
    # Of eight: (.9 .8 .5) (.9 .8 .65) (.9 .6 .5) (.7 .6 .5) are in order.
    assert ranking.holds == 0.5
    assert ranking.n_seeds == (2, 2, 2)


def test_a_tie_counts_half():
    assert rank_detectors("x", "f1", {"a": [0.5], "b": [0.5]}).holds == 0.5


def test_many_combinations_are_still_exact():
    values = {f"d{k:02}": list(np.arange(20) - 100.0 * k) for k in range(20)}
    assert rank_detectors("x", "f1", values).holds == 1.0


def test_a_single_detector_is_not_ranked():
    assert rank_detectors("x", "f1", {"a": [0.5, 0.6], "b": []}) is None
