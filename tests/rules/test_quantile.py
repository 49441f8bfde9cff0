import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import QuantileRule, StreamError

energies = st.lists(st.floats(0, 1e6), min_size=1, max_size=300)


@settings(deadline=None, max_examples=40)
@given(energies)
def test_the_threshold_is_numpys_percentile(energy):
    rule = QuantileRule.from_normal(energy)
    assert rule.threshold == pytest.approx(np.percentile(energy, 99), rel=1e-14)


@settings(deadline=None, max_examples=40)
@given(energies, st.floats(0, 1))
def test_at_most_the_rest_of_normal_energy_is_in_alarm(energy, quantile):
    rule = QuantileRule.from_normal(energy, quantile=quantile)
    n_alarms = int(np.sum(rule.alarms(np.array(energy))))
    # Interpolation may leave one step more than the exact share above.
    assert n_alarms <= (1 - quantile) * (len(energy) - 1) + 1


def test_energy_at_the_threshold_is_no_alarm():
    rule = QuantileRule(threshold=2.0, quantile=0.99)
    assert rule.alarms(np.array([1.0, 2.0, 2.1])).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("energy", "quantile", "sentence"),
    [
        ([], 0.99, "at least one normal step"),
        ([1.0, np.nan], 0.99, "`energy` must be finite; row 1"),
        ([1.0], 1.5, r"`quantile` must lie in \[0, 1\]; got 1.5"),
        ([1.0], np.nan, r"`quantile` must lie in \[0, 1\]; got nan"),
    ],
)
def test_what_makes_no_threshold_is_refused(energy, quantile, sentence):
    with pytest.raises(StreamError, match=sentence):
        QuantileRule.from_normal(energy, quantile=quantile)
