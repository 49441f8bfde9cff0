import numpy as np

from sightline.metrics.measures import (
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
