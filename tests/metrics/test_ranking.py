import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import codes, traces

from sightline import StreamError
from sightline.metrics import (
    average_precision_score,
    partial_auc_score,
    roc_auc_score,
)
from sightline.metrics.ranking import (
    mean_of_segments,
    nearby_normal,
    rank_attacks,
    roc_points,
)

any_trace = st.booleans().flatmap(lambda ties: traces(ties=ties))


@settings(deadline=None, max_examples=60)
@given(any_trace)
def test_roc_auc_agrees_with_scikit_learn(trace):
    assert roc_auc_score(*trace) == pytest.approx(
        sklearn.metrics.roc_auc_score(*trace), rel=1e-12
    )


@settings(deadline=None, max_examples=60)
@given(any_trace, st.sampled_from([0.01, 0.05, 0.1, 0.37, 0.999]))
def test_partial_auc_agrees_with_scikit_learn_moved_to_0_at_chance(trace, max_fpr):
    mc_clish = sklearn.metrics.roc_auc_score(*trace, max_fpr=max_fpr)
    assert partial_auc_score(*trace, max_fpr=max_fpr) == pytest.approx(
        2 * mc_clish - 1, rel=1e-9, abs=1e-9
    )


@settings(deadline=None, max_examples=60)
@given(any_trace)
def test_average_precision_agrees_with_scikit_learn(trace):
    assert average_precision_score(*trace) == pytest.approx(
        sklearn.metrics.average_precision_score(*trace), rel=1e-12
    )


@settings(deadline=None, max_examples=40)
@given(any_trace)
def test_partial_auc_up_to_1_is_the_whole_auc_moved_to_0_at_chance(trace):
    assert partial_auc_score(*trace, max_fpr=1.0) == pytest.approx(
        2 * roc_auc_score(*trace) - 1, abs=1e-12
    )


# Energy tells nothing: chance.
CONSTANT = ([0, 1, 0, 1, 0], [3.0] * 5)


def test_a_constant_trace_is_at_chance():
    assert roc_auc_score(*CONSTANT) == 0.5
    assert partial_auc_score(*CONSTANT, max_fpr=0.05) == pytest.approx(0.0, abs=1e-15)
    assert average_precision_score(*CONSTANT) == pytest.approx(2 / 5)


# Worked by hand: attack, its energy among normals 1, 2, 3, 4.
@pytest.mark.parametrize(
    ("attack", "auc", "pauc_half", "precision"),
    [
        (5.0, 1.0, 1.0, 1.0),
        (3.5, 0.75, (0.25 - 0.125) / 0.375, 1 / 2),
        (4.0, 0.875, (0.125 + 0.25 - 0.125) / 0.375, 1 / 2),  # tied with one normal
        (0.5, 0.0, -0.125 / 0.375, 1 / 5),
    ],
)
def test_one_attack_step_by_hand(attack, auc, pauc_half, precision):
    trace = ([1, 0, 0, 0, 0], [attack, 1.0, 2.0, 3.0, 4.0])
    assert roc_auc_score(*trace) == pytest.approx(auc)
    assert partial_auc_score(*trace, max_fpr=0.5) == pytest.approx(pauc_half)
    assert average_precision_score(*trace) == pytest.approx(precision)


@pytest.mark.parametrize("max_fpr", [0.0, -0.1, 1.1, np.nan])
def test_a_false_alarm_rate_outside_0_to_1_is_refused(max_fpr):
    with pytest.raises(StreamError, match=r"`max_fpr` must lie in \(0, 1\]"):
        partial_auc_score([0, 1], [0.0, 1.0], max_fpr=max_fpr)


def ranks_of(is_attack, energy):
    return rank_attacks(energy[is_attack], np.sort(energy[~is_attack]))


@settings(deadline=None, max_examples=40)
@given(any_trace)
def test_the_area_under_the_roc_corners_is_the_auc(trace):
    fpr, tpr = roc_points(ranks_of(*trace), 10_000)
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0.0, 0.0, 1.0, 1.0)
    assert np.all(np.diff(fpr) >= 0)
    assert np.all(np.diff(tpr) >= 0)
    assert np.trapezoid(tpr, fpr) == pytest.approx(roc_auc_score(*trace), rel=1e-12)


def test_a_long_roc_curve_is_thinned_to_its_limit_with_both_ends():
    rng = np.random.default_rng(0)
    is_attack = rng.random(5000) < 0.3
    fpr, tpr = roc_points(ranks_of(is_attack, rng.random(5000)), 100)
    assert len(fpr) == len(tpr) == 100
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0.0, 0.0, 1.0, 1.0)


def test_no_attack_has_no_roc_curve():
    fpr, tpr = roc_points(rank_attacks(np.empty(0), np.arange(3.0)), 100)
    assert len(fpr) == len(tpr) == 0


def test_means_of_segments_are_taken_side_by_side():
    means = mean_of_segments(np.array([1.0, 3.0, 10.0, 0.0, 2.0]), np.array([2, 1, 2]))
    assert means.tolist() == [2.0, 10.0, 1.0]


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 15))
def test_nearby_normals_are_the_nearest_and_the_earlier_on_ties(data, n_wanted):
    labels = data.draw(codes([0, 1, -1], least=2))
    start = data.draw(st.integers(0, len(labels) - 1))
    stop = data.draw(st.integers(start + 1, len(labels)))
    labels[start:stop] = 1
    normal_rows = np.flatnonzero(labels == 0)

    def distance(row):
        return start - row if row < start else row - (stop - 1)

    expected = sorted(normal_rows.tolist(), key=lambda row: (distance(row), row))
    found = normal_rows[nearby_normal(normal_rows, start, stop, n_wanted)]
    assert sorted(found.tolist()) == sorted(expected[:n_wanted])
