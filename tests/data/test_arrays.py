import re

import numpy as np
import pytest

from sightline import MissingExtraError, StreamError
from sightline.data.arrays import (
    check_alarms,
    check_is_attack,
    check_labels,
    check_residuals,
    check_same_length,
    check_series,
    check_unique,
    require,
)


def test_require_returns_an_installed_module():
    assert require("numpy", extra="none", caller="test") is np


def test_require_names_the_extra_that_brings_a_missing_module():
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_module_anywhere", extra="detectors", caller="GDN")
    assert isinstance(caught.value, ImportError)
    assert str(caught.value) == (
        "GDN needs no_such_module_anywhere, which is not installed: "
        "pip install 'sightline-cps[detectors]'."
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_residuals_keep_their_precision_and_are_not_copied(dtype):
    given = np.ones((3, 2), dtype)
    checked = check_residuals(given, "train")
    assert checked.dtype == dtype
    assert np.shares_memory(checked, given)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float16, np.longdouble])
def test_other_real_residuals_become_float64(dtype):
    checked = check_residuals(np.array([[1, 2], [3, 4]], dtype), "train")
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, [[1, 2], [3, 4]])


def test_residuals_are_c_ordered():
    given = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    checked = check_residuals(given, "train")
    assert checked.flags.c_contiguous
    np.testing.assert_array_equal(checked, given)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1.0, 2.0], r"shape \(rows, channels\); got shape \(2,\); use `.reshape"),
        (np.zeros((2, 2, 2)), r"shape \(rows, channels\); got shape \(2, 2, 2\)\."),
        (np.zeros((3, 0)), "at least one channel"),
        ([[1.0], [1.0, 2.0]], "rectangular array.*; its rows differ"),
        ([[1.0, None]], "Python objects"),
        ([["a", "b"]], "must hold real numbers; got type <U1"),
        ([[1j]], "must hold real numbers; got type complex128"),
        ([[True]], "must hold real numbers; got type bool"),
    ],
)
def test_residuals_of_another_kind_are_refused(values, sentence):
    with pytest.raises(StreamError, match=f"^`train` .*{sentence}"):
        check_residuals(values, "train")


def test_a_series_is_read_as_float64():
    checked = check_series([1, 2], "score")
    assert checked.dtype == np.float64


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([[1.0], [2.0]], r"must have shape \(rows,\); got shape \(2, 1\)"),
        (["a"], "must hold real numbers"),
        ([0.0, np.nan, np.inf], r"must be finite; row 1 is nan \(2 such rows\)"),
        ([0.0, 1.0, -np.inf], r"must be finite; row 2 is -inf \(1 such rows\)"),
        ([None, 1.0], "Python objects"),
    ],
)
def test_a_series_of_another_kind_is_refused(values, sentence):
    with pytest.raises(StreamError, match=f"^`score` .*{sentence}"):
        check_series(values, "score")


@pytest.mark.parametrize(
    "values", [[0, 1, -1], [0.0, 1.0, -1.0], np.array([0, 1, -1], np.int16)]
)
def test_labels_are_read_from_any_kind_of_number(values):
    checked = check_labels(values)
    assert checked.dtype == np.int8
    assert checked.tolist() == [0, 1, -1]


def test_labels_are_read_from_booleans():
    assert check_labels([False, True]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("check", "values", "sentence"),
    [
        (check_labels, [0, 2, 3], r"must be 0, 1, -1; row 1 is 2 \(2 such rows\)"),
        (check_labels, [0.0, np.nan], "must be 0, 1, -1; row 1 is nan"),
        (check_labels, [0.5], "must be 0, 1, -1; row 0 is 0.5"),
        (check_labels, ["attack"], "must be 0, 1, -1; got type <U6.* map it"),
        (check_labels, [[0], [1]], r"must have shape \(rows,\); got shape \(2, 1\)"),
        (check_alarms, [0, -1], "must be 0, 1; row 1 is -1"),
        (check_is_attack, [0, -1], "must be 0, 1; row 1 is -1"),
        (check_is_attack, [0.0, 1.0], r"got type float64.*Did you pass .* wrong order"),
    ],
)
def test_codes_outside_the_list_are_refused(check, values, sentence):
    with pytest.raises(StreamError, match=sentence):
        check(values)


def test_arrays_of_different_lengths_are_refused_by_name():
    told = "`a` has 2, `b` has 3."
    with pytest.raises(StreamError, match=re.escape(told)):
        check_same_length(a=np.zeros(2), b=np.zeros(3))


def test_arrays_of_the_same_length_pass():
    assert check_same_length(a=np.zeros(2), b=np.ones(2)) is None


def test_a_name_that_occurs_twice_is_refused():
    with pytest.raises(StreamError, match="`tags` must be unique; 'b' occurs twice"):
        check_unique(["a", "b", "b"], "tags")
