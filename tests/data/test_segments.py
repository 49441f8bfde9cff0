from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import breaks, codes

from sightline import Attack, Segment, StreamError
from sightline.data.segments import (
    breaks_from_time,
    check_breaks,
    name_segments,
    segments_of,
    with_guard,
)


def run_of_each_row(n_rows, first_rows):
    """Number of the continuous run each row lies in, counted row by row."""
    return [sum(first <= row for first in first_rows) for row in range(n_rows)]


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 3), (4, 2)])
def test_an_empty_or_negative_segment_is_refused(start, stop):
    with pytest.raises(StreamError, match="needs 0 <= start < stop; got"):
        Segment(start, stop)


@given(st.lists(st.integers(0, 20), min_size=4, max_size=4, unique=True))
def test_overlap_counts_the_rows_both_have(places):
    a, b = Segment(*sorted(places[:2])), Segment(*sorted(places[2:]))
    both = set(range(a.start, a.stop)) & set(range(b.start, b.stop))
    assert a.overlap(b) == b.overlap(a) == len(both)


def test_length_and_rows_speak_of_the_same_rows():
    segment = Segment(2, 5)
    assert len(np.arange(9)[segment.rows]) == segment.length == 3


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_segments_are_the_maximal_runs_within_each_stretch(data):
    mask = data.draw(codes([0, 1])) == 1
    first_rows = data.draw(breaks(len(mask)))
    stretch = run_of_each_row(len(mask), first_rows)
    runs = [
        [row for row, _ in rows]
        for (held, _), rows in groupby(
            enumerate(zip(mask, stretch, strict=True)), key=lambda item: item[1]
        )
        if held
    ]
    found = segments_of(mask, first_rows)
    assert [list(range(s.start, s.stop)) for s in found] == runs


def test_no_rows_have_no_segments():
    assert segments_of(np.empty(0, bool)) == []


@pytest.mark.parametrize(
    ("time", "first_rows"),
    [
        ([], []),
        ([5.0], [0]),
        ([0, 1, 2, 3], [0]),
        ([0, 1, 2.5, 3.5], [0]),  # 1.5 median steps are not yet a gap
        ([0, 1, 2.6, 3.6], [0, 2]),
        ([0, 1, 2, 1, 2], [0, 3]),  # time goes back
        ([0, 0, 1, 1, 2], [0]),  # two rows of one second
        ([7, 7, 7], [0]),
    ],
)
def test_a_gap_or_a_step_back_in_time_makes_a_break(time, first_rows):
    assert breaks_from_time(np.array(time, float)).tolist() == first_rows


@pytest.mark.parametrize(
    ("given_breaks", "first_rows"),
    [([], [0]), ([3], [0, 3]), ([5, 0, 3, 3], [0, 3, 5])],
)
def test_breaks_are_sorted_and_begin_at_row_0(given_breaks, first_rows):
    assert check_breaks(given_breaks, "breaks", 6).tolist() == first_rows


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1.0], "must be a list of row numbers .*of type float64"),
        ([True, False], "must be a list of row numbers .*of type bool"),
        ([[1]], r"must be a list of row numbers .*got shape \(1, 1\)"),
        ([[0], [1, 2]], "`breaks`"),
        ([-1], "must lie within the 6 rows; got -1 to -1"),
        ([2, 6], "must lie within the 6 rows; got 2 to 6"),
    ],
)
def test_breaks_that_are_no_rows_are_refused(values, sentence):
    with pytest.raises(StreamError, match=sentence):
        check_breaks(values, "breaks", 6)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(0, 12))
def test_the_guard_ignores_the_normal_rows_just_after_an_attack(data, guard):
    labels = data.draw(codes([0, 1, -1])).astype(np.int8)
    first_rows = data.draw(breaks(len(labels)))
    stretch = run_of_each_row(len(labels), first_rows)
    expected = [
        -1
        if label == 0
        and any(
            labels[row - back] == 1 and stretch[row - back] == stretch[row]
            for back in range(1, min(guard, row) + 1)
        )
        else label
        for row, label in enumerate(labels)
    ]
    before = labels.copy()
    attacks = segments_of(labels == 1, first_rows)
    assert with_guard(labels, attacks, first_rows, guard).tolist() == expected
    np.testing.assert_array_equal(labels, before)


def test_a_negative_guard_is_refused():
    with pytest.raises(StreamError, match="`guard` must be 0 or more rows; got -1"):
        with_guard(np.zeros(3, np.int8), [], np.zeros(1, np.int64), -1)


def test_runs_are_numbered_where_no_attack_is_named():
    named = name_segments([Segment(1, 3), Segment(5, 6)], [])
    assert [(a.id, a.start, a.stop) for a in named] == [("1", 1, 3), ("2", 5, 6)]


def test_attacks_of_one_segment_are_joined():
    attacks = [
        Attack(id="A", start=0, stop=4, name="spoof", targets=("P1", "P2")),
        Attack(id="B", start=2, stop=8, targets=("P2", "P3"), note="stealthy"),
    ]
    (joined,) = name_segments([Segment(1, 7)], attacks)
    assert joined == Attack(
        id="A+B",
        start=1,
        stop=7,
        name="spoof",
        targets=("P1", "P2", "P3"),
        note="stealthy",
    )


def test_an_attack_cut_in_two_gets_part_numbers_and_a_stranger_is_unlisted():
    attacks = [Attack(id="A", start=0, stop=10)]
    runs = [Segment(0, 4), Segment(6, 9), Segment(12, 13)]
    assert [a.id for a in name_segments(runs, attacks)] == ["A", "A/2", "unlisted-3"]


def test_ids_stay_unique_where_a_part_number_is_another_attacks_id():
    attacks = [Attack(id="A", start=0, stop=4), Attack(id="A/2", start=5, stop=6)]
    named = name_segments([Segment(0, 2), Segment(2, 4), Segment(5, 6)], attacks)
    assert len({a.id for a in named}) == 3
