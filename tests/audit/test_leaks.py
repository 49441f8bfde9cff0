"""A stretch of rows that train and test share is found, and nothing else is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.audit.protocol import LEAST_ROWS, SharedStretch, shared_stretches
from sightline.data.row_tables import ArrayRows


def plant(seed, n_rows=400, n_channels=3, kind=np.float64):
    """Return rows of which no two are alike."""
    noise = np.random.default_rng(seed).normal(size=(n_rows, n_channels))
    return noise.astype(kind)


def found(train, test):
    return shared_stretches(ArrayRows(train), ArrayRows(test))


def test_a_minute_at_one_row_a_second_is_a_stretch():
    assert LEAST_ROWS == 60


def test_recordings_of_their_own_share_nothing():
    assert found(plant(1), plant(2)) == []


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("length", [60, 61, 200])
@pytest.mark.parametrize("where", ["begin", "middle", "end"])
def test_a_planted_copy_is_found_in_its_place(kind, length, where):
    train, test = plant(1, kind=kind), plant(2, 300, kind=kind)
    at = {"begin": 0, "middle": 50, "end": 300 - length}[where]
    test[at : at + length] = train[120 : 120 + length]
    assert found(train, test) == [
        SharedStretch(train_start=120, test_start=at, length=length)
    ]


def test_fifty_nine_rows_are_not_told():
    train, test = plant(1), plant(2)
    test[50:109] = train[120:179]
    assert found(train, test) == []


def test_two_copies_are_told_apart():
    train, test = plant(1), plant(2)
    test[0:80] = train[100:180]
    test[80:150] = train[300:370]
    assert found(train, test) == [
        SharedStretch(train_start=100, test_start=0, length=80),
        SharedStretch(train_start=300, test_start=80, length=70),
    ]


def test_a_row_that_differs_in_one_channel_cuts_a_copy():
    train, test = plant(1), plant(2)
    test[0:150] = train[100:250]
    test[80, 2] += 1e-9
    assert found(train, test) == [
        SharedStretch(train_start=100, test_start=0, length=80),
        SharedStretch(train_start=181, test_start=81, length=69),
    ]


def test_all_of_train_in_test_is_one_stretch():
    train = plant(1)
    assert found(train, train.copy()) == [
        SharedStretch(train_start=0, test_start=0, length=400)
    ]


def test_single_precision_and_its_double_are_the_same_rows():
    train = plant(1, kind=np.float32)
    test = plant(2)
    test[10:90] = train[20:100].astype(np.float64)
    assert found(train, test) == [
        SharedStretch(train_start=20, test_start=10, length=80)
    ]


def test_missing_cells_can_be_copied_too():
    train, test = plant(1), plant(2)
    train[130:140, 1] = np.nan
    test[0:80] = train[100:180]
    assert found(train, test) == [
        SharedStretch(train_start=100, test_start=0, length=80)
    ]


@pytest.mark.parametrize("n_states", [1, 2, 9])
def test_a_plant_at_rest_is_no_leak(n_states):
    states = plant(3, n_states)
    train, test = plant(1), plant(2)
    train[100:300] = np.resize(states, (200, 3))
    test[50:250] = np.resize(states, (200, 3))
    assert found(train, test) == []


def test_a_plant_of_constant_rows_is_no_leak():
    assert found(np.ones((200, 2)), np.ones((300, 2))) == []


def test_a_copy_is_found_though_some_of_its_rows_occur_before():
    train, test = plant(1), plant(2)
    train[[10, 20, 30]] = train[[150, 200, 250]]
    test[0:180] = train[110:290]
    assert sum(stretch.length for stretch in found(train, test)) >= 177


def test_a_copy_is_found_where_every_row_comes_twice():
    # As of a plant whose historian is asked twice as often as it is told.
    train, test = np.repeat(plant(1, 200), 2, axis=0), plant(2)
    test[0:200] = train[100:300]
    assert sum(stretch.length for stretch in found(train, test)) >= 190


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 200),
    st.integers(0, 200),
    st.integers(1, 120),
    st.sampled_from([np.float32, np.float64]),
)
def test_a_copy_of_any_length_is_found_if_it_is_long_enough(source, at, length, kind):
    train, test = plant(1, kind=kind), plant(2, kind=kind)
    test[at : at + length] = train[source : source + length]
    stretch = SharedStretch(train_start=source, test_start=at, length=length)
    assert found(train, test) == ([stretch] if length >= LEAST_ROWS else [])
