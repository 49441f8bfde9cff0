"""Train is brought to the decimals of test, and to no fewer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.data.downsampling import (
    MOST_DECIMALS,
    decimals_of,
    rounded_like,
    train_rounded_like,
)
from sightline.data.recording import Recording, Tag


@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=30), st.integers(0, 6)
)
def test_written_decimals_are_found(numbers, decimals):
    values = np.array([float(f"{n}e-{decimals}") for n in numbers])
    (found,) = decimals_of(values[:, None])
    assert found <= decimals
    texts = [f"{value:.{found}f}" for value in values]
    assert [float(text) for text in texts] == values.tolist()


def test_values_of_single_precision_have_their_decimals_too():
    values = np.arange(20, dtype=np.float32)[:, None] / np.float32(10)
    assert decimals_of(values).tolist() == [1]


def test_train_gets_the_decimals_of_test_and_no_fewer():
    rng = np.random.default_rng(0)
    train = 10 * rng.normal(size=(50, 3))
    test = 10 * rng.normal(size=(40, 3))
    test[:, 0], test[:, 1] = np.round(test[:, 0], 2), np.round(test[:, 1])
    rounded, decimals = rounded_like(train, test)
    assert decimals.tolist() == [2, 0, -1]
    np.testing.assert_array_equal(rounded[:, 0], np.round(train[:, 0], 2))
    np.testing.assert_array_equal(rounded[:, 1], np.round(train[:, 1]))
    np.testing.assert_array_equal(rounded[:, 2], train[:, 2])
    again, decimals = rounded_like(np.round(train, 1)[:, :1], test[:, :1])
    np.testing.assert_array_equal(again, np.round(train, 1)[:, :1])
    assert decimals.tolist() == [-1]


def test_a_tag_that_does_not_move_in_test_takes_the_decimals_of_the_table():
    train = np.random.default_rng(0).normal(size=(50, 2))
    test = np.column_stack([np.arange(40) / 100, np.zeros(40)])
    rounded, decimals = rounded_like(train, test)
    assert decimals.tolist() == [2, 2]
    np.testing.assert_array_equal(rounded, np.round(train, 2))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_do_not_count(value):
    assert decimals_of(np.array([[value], [0.5]])).tolist() == [1]
    assert decimals_of(np.full((3, 1), value)).tolist() == [0]
    assert decimals_of(np.array([[np.pi]])).tolist() == [MOST_DECIMALS + 1]


def test_what_is_rounded_once_is_not_rounded_again():
    generator = np.random.default_rng(1)
    test = generator.normal(size=(50, 3)).round(2)
    once, decimals = rounded_like(generator.normal(size=(80, 3)), test)
    again, nothing = rounded_like(once, test)
    assert decimals.tolist() == [2, 2, 2]
    assert not np.signbit(once[once == 0]).any()
    assert again is once
    assert nothing.tolist() == [-1, -1, -1]


def test_the_notice_names_tags_that_vary_less_than_the_last_decimal():
    generator = np.random.default_rng(1)
    tags = [Tag(name="wide"), Tag(name="narrow"), Tag(name="state", role="actuator")]
    values = generator.normal(size=(400, 3)) * [3, 0.004, 0]
    train = Recording(values=values, tags=tags, time=np.arange(400.0))
    test = Recording(
        values=(generator.normal(size=(99, 3)) * [3, 0.05, 0]).round(2), tags=tags
    )
    rounded, notices = train_rounded_like(train, test)
    assert len(notices) == 1
    for words in (
        "2 of 3 tags of train were rounded to the 2 decimals",
        "in narrow (standard deviation 0.0039)",
        "train_decimals='raw'",
    ):
        assert words in notices[0]
    assert np.array_equal(rounded.time, train.time)
    assert np.array_equal(rounded.values, train.values.round(2) + 0.0)
    assert train_rounded_like(rounded, test) == (rounded, ())
