"""Cells without a number are held at the last one, and at nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data import validity
from sightline.data.recording import forward_fill
from sightline.data.validity import Gate, LastKnown, Validity, codes_of

NAN = np.nan


def column(*values):
    return np.array(values, float).reshape(-1, 1)


@pytest.mark.parametrize(
    ("values", "breaks", "expected"),
    [
        ([1, 2, 3], [0], [1, 2, 3]),
        ([1, NAN, 3], [0], [1, 1, 3]),
        ([1, NAN, NAN, NAN, 5, NAN], [0], [1, 1, 1, 1, 5, 5]),
        ([NAN, 2, NAN], [0], [NAN, 2, 2]),
        ([NAN, NAN, 3], [0], [NAN, NAN, 3]),
        ([NAN, NAN], [0], [NAN, NAN]),
        ([1, NAN, NAN], [0, 2], [1, 1, NAN]),
        ([1, NAN, NAN, 4, NAN], [0, 1, 4], [1, NAN, NAN, 4, NAN]),
        ([np.inf, NAN], [0], [np.inf, np.inf]),
    ],
)
def test_values_are_held_as_worked_by_hand(values, breaks, expected):
    filled = forward_fill(column(*values), np.array(breaks))
    np.testing.assert_array_equal(filled, column(*expected))


def test_the_given_values_are_left_as_they_are():
    values = column(1, NAN)
    forward_fill(values, np.array([0]))
    assert np.isnan(values[1, 0])


def test_what_is_missing_may_be_said():
    values = column(1, np.inf, 3)
    filled = forward_fill(values, np.array([0]), is_missing=~np.isfinite(values))
    assert filled.ravel().tolist() == [1, 1, 3]


@st.composite
def holed(draw):
    """Draw values that name their own row and column, some missing, and breaks."""
    n_rows, n_channels = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    values = np.arange(n_rows)[:, None] + 1000.0 * np.arange(n_channels)
    share = draw(st.sampled_from([0.1, 0.5, 0.9]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values[rng.random(values.shape) < share] = NAN
    inner = draw(st.sets(st.integers(0, n_rows - 1), max_size=4))
    return values, np.array(sorted(inner | {0}))


@settings(max_examples=100, deadline=None)
@given(holed())
def test_a_held_value_is_the_last_of_its_tag_within_the_run(drawn):
    values, breaks = drawn
    filled = forward_fill(values, breaks)
    for (row, k), value in np.ndenumerate(filled):
        run = breaks[breaks <= row].max()
        earlier = [r for r in range(run, row + 1) if not np.isnan(values[r, k])]
        if earlier:
            assert value == earlier[-1] + 1000 * k
        else:
            assert np.isnan(value)


@settings(max_examples=50, deadline=None)
@given(holed(), st.integers(0, 29))
def test_later_rows_change_nothing_before_them(drawn, cut):
    values, breaks = drawn
    cut = min(cut + 1, len(values))
    whole = forward_fill(values, breaks)
    part = forward_fill(values[:cut], breaks[breaks < cut])
    np.testing.assert_array_equal(part, whole[:cut])


@pytest.mark.parametrize(("step_s", "hold_s"), [(0.1, 0.3), (0.2, 0.6), (10.0, 60)])
def test_the_limit_is_one_of_time_where_time_is_known(step_s, hold_s):
    n_held = round(hold_s / step_s)
    values = np.resize([1.0, *[NAN] * 9], (2000, 1))
    time = 1_794_700_800 + step_s * np.arange(2000)
    filled, _ = validity.hold(values, codes_of(values), time, hold_s)
    expected = np.arange(2000) % 10 <= n_held
    np.testing.assert_array_equal(~np.isnan(filled[:, 0]), expected)
    # A little later, and the last of them lies beyond the limit.
    time[np.arange(2000) % 10 >= 3] += 0.4 * step_s
    filled, _ = validity.hold(values, codes_of(values), time, hold_s)
    expected = np.arange(2000) % 10 < n_held
    np.testing.assert_array_equal(~np.isnan(filled[:, 0]), expected)


# Codes.


@st.composite
def coded(draw):
    """Draw values with codes of all kinds, the time of each row, and a cut."""
    n_rows, n_channels = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.choice([0, 0, 0, 4, 5, 5, 6, 7], (n_rows, n_channels)).astype(np.int8)
    values = np.where(codes == 0, rng.normal(size=codes.shape), NAN)
    time = np.cumsum(rng.choice([1.0, 1.0, 7.0], n_rows))
    return values, codes, time, draw(st.integers(0, n_rows))


@settings(max_examples=100, deadline=None)
@given(coded())
def test_rows_in_two_pieces_are_held_and_watched_as_at_once(drawn):
    values, codes, time, cut = drawn
    whole = validity.hold(values, codes, time, 5.0)
    last = LastKnown.nothing(values.shape[1])
    parts = [
        validity.hold(values[rows], codes[rows], time[rows], 5.0, last)
        for rows in (slice(cut), slice(cut, None))
    ]
    for k in (0, 1):
        np.testing.assert_array_equal(
            np.concatenate([part[k] for part in parts]), whole[k]
        )
    gate = Gate(step_s=300.0)
    pieces = [gate.reasons(*part).tolist() for part in parts]
    assert pieces[0] + pieces[1] == Gate(step_s=300.0).reasons(*whole).tolist()


@settings(max_examples=100, deadline=None)
@given(coded())
def test_what_is_held_is_a_good_reading_that_nothing_ended(drawn):
    values, codes, time, _ = drawn
    held, after = validity.hold(values, codes, time, 5.0)
    for (row, k), code in np.ndenumerate(after):
        before = codes[:row, k]
        ends = [r for r in range(row) if before[r] not in (0, 5)]
        good = [r for r in range(row) if before[r] == 0]
        is_known = bool(good) and (not ends or good[-1] > ends[-1])
        if codes[row, k] != Validity.MISSING:
            assert code == codes[row, k]
        elif is_known and time[row] - time[good[-1]] <= 5.0:
            assert (code, held[row, k]) == (Validity.HELD, values[good[-1], k])
        elif not is_known and ends and (not good or ends[-1] > good[-1]):
            assert code == codes[ends[-1], k]
        else:
            assert code == Validity.MISSING
    assert np.isnan(held[after >= Validity.BAD]).all()
    assert not np.isnan(held[after < Validity.BAD]).any()


def reasons(codes, **options):
    codes = np.array(codes, np.int8)
    found = Gate(**options).reasons(np.zeros(codes.shape), codes)
    return ["" if not k else str(list(validity.NotWatched)[k - 1]) for k in found]


def test_half_of_the_tags_make_an_outage_and_one_tag_does_not():
    rows = [[0, 0, 0, 0], [5, 4, 0, 0], [5, 0, 0, 0], [5, 4, 6, 7]]
    assert reasons(rows, step_s=1.0) == ["", "no data", "", "no data"]
    assert reasons([[0, 5], [5, 5], [1, 2]], step_s=1.0) == ["", "no data", ""]
    assert reasons([[0], [5]], step_s=1.0) == ["", "no data"]


def test_a_quarter_of_the_tags_may_be_away_for_ten_minutes():
    rows = [[0] * 7] + [[5, 5, 0, 0, 0, 0, 0]] * 4 + [[0] * 7]
    told = reasons(rows, step_s=300.0)
    assert told == ["", "", "", "too few tags", "too few tags", ""]


def test_a_plant_that_stands_still_or_has_just_started_is_not_watched():
    mode = validity.Mode(tag="P", running=(1.0,), settle_s=20.0)
    values = np.array([[0], [0], [1], [1], [NAN], [1], [0]], float)
    gate = Gate(step_s=10.0, mode=(0, mode))
    codes = np.zeros((7, 1), np.int8)
    told = gate.reasons(values, codes)
    assert (told != 0).tolist() == [True, True, True, True, False, False, True]
