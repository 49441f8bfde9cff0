"""Windows and the held-out block, against definitions written out row by row."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.detectors.preprocessing import (
    forecast_windows,
    held_out_block,
    padded_windows,
)


@st.composite
def rows_in_runs(draw):
    """Rows that tell their own number, where runs begin, and a window's length."""
    n = draw(st.integers(1, 40))
    breaks = draw(st.sets(st.integers(0, n - 1), max_size=6)) | {0}
    values = np.arange(2.0 * n).reshape(n, 2)
    return values, np.array(sorted(breaks)), draw(st.integers(1, 12))


def runs_of(breaks, n):
    return list(zip(breaks.tolist(), [*breaks[1:].tolist(), n], strict=True))


def cut(windows):
    """The windows themselves, (windows, length, channels)."""
    rows = windows.starts[:, np.newaxis] + np.arange(windows.length)
    return windows.values[rows]


@given(rows_in_runs())
def test_forecast_windows_are_all_that_lie_within_one_run(drawn):
    values, breaks, length = drawn
    expected = [
        range(first, first + length)
        for start, stop in runs_of(breaks, len(values))
        for first in range(start, stop)
        if first + length <= stop
    ]
    made = forecast_windows(values, breaks, length)
    assert len(made) == len(expected)
    assert made.starts.tolist() == [rows[0] for rows in expected]
    assert made.steps.tolist() == [rows[-1] for rows in expected]
    assert not made.is_warm_up.any()
    for window, rows in zip(cut(made), expected, strict=True):
        assert (window == values[list(rows)]).all()


@given(rows_in_runs(), st.booleans())
def test_padded_windows_repeat_the_first_row_of_their_run(drawn, official):
    values, breaks, length = drawn
    ahead = int(official)
    made = padded_windows(values, breaks, length, ahead=ahead)
    assert made.steps.tolist() == list(range(len(values)))
    found = cut(made)
    for start, stop in runs_of(breaks, len(values)):
        for t in range(start, stop):
            rows = [max(t - ahead - length + 1 + k, start) for k in range(length)]
            assert (found[t] == values[rows]).all()
            # Warm-up: it would have wanted a row from before its run.
            assert made.is_warm_up[t] == (t - ahead - length + 1 < start)


@given(st.integers(1, 30))
def test_official_row_of_tranad_ends_a_row_earlier(n):
    # Section 2.5: element k of row i is x[max(i - 10 + k, 0)]; aligned, the window of
    # t is x[max(t - 9 + k, 0)] and equals official row t + 1.
    x, one_run = np.arange(1.0 * n)[:, np.newaxis], np.array([0])
    official = cut(padded_windows(x, one_run, 10, ahead=1))[..., 0]
    aligned = cut(padded_windows(x, one_run, 10))[..., 0]
    for i in range(n):
        assert official[i].tolist() == [max(i - 10 + k, 0) for k in range(10)]
        assert aligned[i].tolist() == [max(i - 9 + k, 0) for k in range(10)]
    assert (aligned[:-1] == official[1:]).all()
    # Its first two rows are ten copies of x[0]; the last sample is in none.
    assert (official[:2] == 0).all()
    assert n == 1 or official.max() == n - 2


def test_padding_begins_afresh_in_each_run():
    x = np.arange(8.0)[:, np.newaxis]
    made = padded_windows(x, np.array([0, 5]), 3)
    assert cut(made)[..., 0].tolist() == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [5, 5, 5],
        [5, 5, 6],
        [5, 6, 7],
    ]
    assert np.flatnonzero(made.is_warm_up).tolist() == [0, 1, 5, 6]


def test_forecast_windows_copy_no_rows():
    values = np.zeros((50, 3))
    assert np.shares_memory(forecast_windows(values, np.array([0]), 5).values, values)


def test_padded_windows_hold_each_row_once():
    # A window for each row would hold it `length` times; only the padding is added.
    made = padded_windows(np.zeros((500, 3)), np.array([0, 100]), 10)
    assert len(made.values) == 500 + 2 * 9


@pytest.mark.parametrize(
    ("rows", "trimmed", "count"),
    [
        (496_800, 2_160, 47_515),
        (449_919, 0, 44_986),
        (1_209_601, 2_160, 118_795),
        (172_801, 0, 17_275),
    ],
    ids=["swat-train", "swat-test", "wadi-train", "wadi-test"],
)
def test_as_many_windows_as_gdn_publishes(rows, trimmed, count):
    values = np.zeros((rows // 10 - trimmed, 1), np.float32)
    assert len(forecast_windows(values, np.array([0]), 5 + 1)) == count


@pytest.mark.parametrize(
    ("n", "share", "seed", "start", "length"),
    [
        (47_515, 0.2, 5, 16_740, 9_503),
        (118_795, 0.2, 5, 81_644, 23_759),
        (47_515, 0.1, 0, 25_247, 4_751),
    ],
)
def test_worked_values_of_the_held_out_block(n, share, seed, start, length):
    assert held_out_block(n, share, seed) == slice(start, start + length)


@given(st.integers(0, 3000), st.floats(0, 0.99), st.integers(0, 2**32))
def test_held_out_block_is_the_first_draw_after_seeding(n, share, seed):
    block = held_out_block(n, share, seed)
    length = int(n * share)
    assert block.stop - block.start == length
    assert 0 <= block.start <= block.stop <= n
    if length and int(n * (1 - share)):
        before = random.getstate()
        random.seed(seed)
        drawn = random.randrange(int(n * (1 - share)))
        random.setstate(before)
        assert block.start == drawn


def test_held_out_block_leaves_the_global_generator_alone():
    before = random.getstate()
    held_out_block(100, 0.2, 5)
    assert random.getstate() == before
