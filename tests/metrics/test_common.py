"""Laws that every metric of (is_attack, energy) obeys."""

import inspect
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import traces

from sightline import StreamError, UndefinedMetricWarning, metrics

METRICS = {
    "average_precision_score": metrics.average_precision_score,
    "partial_auc_score": partial(metrics.partial_auc_score, max_fpr=0.1),
    "roc_auc_score": metrics.roc_auc_score,
}
IS_ATTACK = [0, 0, 1, 0, 1]
ENERGY = [0.1, 0.7, 0.5, 0.2, 0.9]

each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())


def test_every_metric_is_filed():
    of_a_trace = {
        name
        for name in metrics.__all__
        if callable(getattr(metrics, name))
        and list(inspect.signature(getattr(metrics, name)).parameters)[:2]
        == ["is_attack", "energy"]
    }
    assert of_a_trace == set(METRICS)


def test_the_list_of_metrics_is_sorted():
    assert metrics.__all__ == sorted(metrics.__all__)


@each_metric
def test_swapped_arguments_are_refused(metric):
    with pytest.raises(StreamError, match="wrong order"):
        metric(ENERGY, IS_ATTACK)


@each_metric
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_energy_that_is_not_finite_is_refused(metric, bad):
    with pytest.raises(StreamError, match="`energy` must be finite; row 2"):
        metric(IS_ATTACK, [0.1, 0.7, bad, 0.2, 0.9])


@each_metric
def test_different_lengths_are_refused(metric):
    with pytest.raises(StreamError, match="`is_attack` has 4, `energy` has 5"):
        metric(IS_ATTACK[:4], ENERGY)


@each_metric
@pytest.mark.parametrize("codes", [[0, 0, 2, 0, 1], [0, 0, -1, 0, 1]])
def test_other_codes_than_0_and_1_are_refused(metric, codes):
    with pytest.raises(StreamError, match="`is_attack` must be 0, 1; row 2"):
        metric(codes, ENERGY)


@each_metric
@pytest.mark.parametrize("code", [0, 1])
def test_one_class_alone_is_nan_with_a_warning_at_the_callers_line(metric, code):
    with pytest.warns(UndefinedMetricWarning, match="needs both attack and") as told:
        value = metric([code] * 5, ENERGY)
    assert np.isnan(value)
    assert told[0].filename == __file__


@each_metric
def test_booleans_count_as_0_and_1(metric):
    assert metric(np.array(IS_ATTACK, bool), ENERGY) == metric(IS_ATTACK, ENERGY)


@each_metric
@settings(deadline=None, max_examples=25)
@given(traces(ties=True), st.floats(0.1, 10), st.floats(-5, 5))
def test_a_rising_transform_of_the_energy_changes_nothing(metric, trace, by, shift):
    is_attack, energy = trace
    value = metric(is_attack, energy)
    assert metric(is_attack, energy * by + shift) == value
    assert metric(is_attack, np.exp(energy / 4)) == value
    assert metric(is_attack, np.arctan(energy / 8)) == value


@each_metric
@settings(deadline=None, max_examples=25)
@given(traces(ties=True), st.randoms(use_true_random=False))
def test_the_order_of_the_steps_does_not_matter(metric, trace, random):
    is_attack, energy = trace
    order = list(range(len(energy)))
    random.shuffle(order)
    assert metric(is_attack[order], energy[order]) == pytest.approx(
        metric(is_attack, energy), rel=1e-12, abs=1e-12
    )


@each_metric
def test_attacks_above_every_normal_step_score_1(metric):
    assert metric([0, 1, 0, 1], [0.1, 0.8, 0.3, 0.9]) == 1.0


@each_metric
@settings(deadline=None, max_examples=25)
@given(traces(ties=False))
def test_no_trace_scores_above_1(metric, trace):
    assert metric(*trace) <= 1.0 + 1e-12
