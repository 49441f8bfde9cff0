import numpy as np
import pandas as pd
import polars as pl
import pytest

from sightline import StreamError
from sightline.data.stream_input import column_of, columns_of, is_frame, matrix_of

both_libraries = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])


@both_libraries
def test_a_frame_is_told_by_its_columns(frame):
    assert is_frame(frame({"a": [1.0]}))
    assert not is_frame(np.ones((2, 2)))
    assert not is_frame([[1.0]])


@both_libraries
def test_columns_come_in_the_order_asked_for(frame):
    table = frame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert columns_of(table, "train") == ["a", "b"]
    assert matrix_of(table, ["b", "a"], "train").tolist() == [[3.0, 1.0], [4.0, 2.0]]


def test_a_column_is_found_by_the_text_of_its_name():
    assert column_of(pd.DataFrame([[5, 6]]), "1").tolist() == [6]


@both_libraries
@pytest.mark.parametrize(
    ("dtypes", "dtype"),
    [
        ((np.float32, np.float32), np.float32),
        ((np.float32, np.float64), np.float64),
        ((np.int64, np.int64), np.float64),
        ((np.int8, np.float32), np.float32),
    ],
)
def test_columns_of_several_types_share_the_wider(frame, dtypes, dtype):
    table = frame({k: np.ones(2, d) for k, d in zip("ab", dtypes, strict=True)})
    assert matrix_of(table, ["a", "b"], "train").dtype == dtype


@both_libraries
def test_a_missing_value_is_a_nan_for_the_finiteness_check(frame):
    table = frame({"a": [1.0, None]})
    assert np.isnan(matrix_of(table, ["a"], "train")[1, 0])


@both_libraries
def test_no_channel_is_refused(frame):
    with pytest.raises(StreamError, match="`train` must have at least one channel"):
        matrix_of(frame({"a": [1.0]}), [], "train")
