import numpy as np
import pytest

from sightline.metrics.measures import (
    Drift,
    is_mean_dominated,
    is_sdr_usable,
    measure_drift,
)


def test_drift_is_mean_and_median_of_normal_energy_above_the_train_mean():
    drift = measure_drift(2.0, np.array([1.0, 2.0, 3.0, 14.0]), max_z=3.0)
    assert drift == Drift(d_drift=3.0, d_drift_robust=0.5, mean_dominated=False)


def test_calibration_splits_drift_into_gap_and_shift():
    drift = measure_drift(2.0, np.array([6.0, 8.0]), max_z=3.0, calibration_mean=2.5)
    assert (drift.d_gap, drift.d_shift) == (0.5, 4.5)
    assert drift.d_gap + drift.d_shift == drift.d_drift


def test_without_calibration_drift_is_not_split():
    drift = measure_drift(2.0, np.array([6.0]), max_z=3.0)
    assert (drift.d_gap, drift.d_shift) == (None, None)


@pytest.mark.parametrize(
    ("d_drift", "d_drift_robust", "max_z", "dominated"),
    [
        (30.0, 10.0, 200.0, True),
        (29.9, 10.0, 200.0, False),  # the median says much the same
        (30.0, 10.0, 199.9, False),  # no point is extreme
        (30.0, -10.0, 200.0, True),
        (-30.0, 1.0, 1e9, False),  # a few extreme points can only add energy
    ],
)
def test_the_dagger_needs_a_far_mean_and_an_extreme_point(
    d_drift, d_drift_robust, max_z, dominated
):
    assert is_mean_dominated(d_drift, d_drift_robust, max_z) is dominated


@pytest.mark.parametrize(
    ("d_drift", "mean_dominated", "d_crossfit", "usable"),
    [
        (5.0, False, None, True),
        (0.0, False, None, False),
        (-5.0, False, None, False),
        (0.99, False, None, False),  # under 1% of the train energy of 100
        (1.01, False, None, True),
        (5.0, True, None, False),
        (5.0, False, 2.4, True),
        (5.0, False, 2.6, False),  # under twice what train rows show themselves
        (5.0, False, -9.0, True),
    ],
)
def test_sdr_is_usable_only_where_drift_is_large_and_real(
    d_drift, mean_dominated, d_crossfit, usable
):
    drift = Drift(
        d_drift=d_drift,
        d_drift_robust=0.0,
        mean_dominated=mean_dominated,
        d_crossfit=d_crossfit,
    )
    assert is_sdr_usable(drift, train_mean=100.0) is usable
