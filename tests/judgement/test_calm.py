"""Calm windows: how long, how many, which are near, and what is visible."""

import numpy as np
import pytest
from more_calm_data import nearest

from sightline.data.segments import Segment
from sightline.judgement.calm import (
    LEAST_ROWS,
    LEAST_WINDOWS,
    NEAREST,
    CalmWindows,
    calm_windows,
    coverage,
    coverages,
    judged,
    running_count,
)


def test_windows_are_as_long_as_the_attack_where_there_are_twenty():
    windows = calm_windows([Segment(0, 1050)], 100)
    assert windows is not None
    assert windows.length == 100
    np.testing.assert_array_equal(windows.starts, np.arange(20) * 50)
    np.testing.assert_array_equal(windows.stops, windows.starts + 100)


def test_nineteen_windows_are_too_few_so_that_the_length_is_halved():
    windows = calm_windows([Segment(0, 1049)], 100)
    assert windows is not None
    assert windows.length == 50
    assert len(windows.starts) >= LEAST_WINDOWS


@pytest.mark.parametrize(
    ("n_rows", "length", "expected"),
    [
        (1050, 400, 100),
        (1049, 400, 50),
        (525, 50, 50),
        (524, 50, 25),
        (253, 50, 25),
        (252, 50, 20),  # 25 rows give only 19 windows (a step of 12)
        (210, 30, 20),
        (210, 20, 20),
        (209, 20, None),
        (209, 30, None),
        (209, 5000, None),
    ],
)
def test_lengths_are_halved_down_to_twenty_rows(n_rows, length, expected):
    windows = calm_windows([Segment(0, n_rows)], length)
    assert (None if windows is None else windows.length) == expected


def test_an_odd_length_is_halved_downwards_but_not_below_twenty():
    windows = calm_windows([Segment(0, 300)], 39)
    assert windows is not None
    assert windows.length == LEAST_ROWS


def test_an_attack_shorter_than_twenty_rows_keeps_its_length():
    windows = calm_windows([Segment(0, 100)], 5)
    assert windows is not None
    assert windows.length == 5


def test_a_short_attack_with_too_little_calm_has_no_windows():
    assert calm_windows([Segment(0, 20)], 5) is None
    assert calm_windows([], 5) is None


def test_windows_lie_wholly_in_calm_stretches():
    stretches = [Segment(10, 400), Segment(450, 455), Segment(600, 1500)]
    windows = calm_windows(stretches, 60)
    assert windows is not None
    for start, stop in zip(windows.starts, windows.stops, strict=True):
        assert any(s.start <= start and stop <= s.stop for s in stretches)


def test_the_nearest_windows_are_nearest_by_row():
    windows = CalmWindows(length=10, starts=np.arange(0, 1000, 5))
    near = windows.nearest(Segment(500, 510))
    assert near.length == 10
    assert len(near.starts) == NEAREST
    distance = np.abs(windows.starts - 500)
    farthest = np.abs(near.starts - 500).max()
    left_out = np.setdiff1d(windows.starts, near.starts)
    assert np.abs(left_out - 500).min() >= farthest
    assert farthest == np.sort(distance)[NEAREST - 1]
    assert (np.diff(near.starts) > 0).all()


def test_the_nearest_windows_are_nearest_by_clock():
    # The second half of the rows is another version of the same time.
    clock = np.tile(np.arange(1000), 2)
    windows = CalmWindows(length=10, starts=np.arange(0, 1990, 10))
    near = nearest(windows, Segment(100, 110), clock)
    assert (np.abs(clock[near.starts] - 100) <= 100).all()
    assert (near.starts >= 1000).any()
    assert (near.starts < 1000).any()


def test_all_windows_are_near_where_there_are_few():
    windows = CalmWindows(length=10, starts=np.arange(0, 300, 10))
    near = windows.nearest(Segment(900, 910))
    np.testing.assert_array_equal(near.starts, windows.starts)


def test_coverage_by_hand():
    counts = running_count(np.array([0, 1, 1, 0, 0, 1], bool))
    np.testing.assert_array_equal(counts, [0, 0, 1, 2, 2, 2, 3])
    assert coverage(counts, Segment(0, 6)) == 0.5
    assert coverage(counts, Segment(1, 3)) == 1.0
    assert coverage(counts, Segment(3, 5)) == 0.0
    windows = CalmWindows(length=2, starts=np.array([0, 1, 4]))
    np.testing.assert_array_equal(coverages(counts, windows), [0.5, 1.0, 0.5])


MOSTLY_QUIET = np.repeat([0.0, 0.6], [90, 10])


@pytest.mark.parametrize(
    ("own", "calm", "visible"),
    [
        (0.30, np.zeros(40), True),
        (0.29, np.zeros(40), False),
        (0.31, np.full(40, 0.01), True),
        (0.30, np.full(40, 0.01), False),
        (0.90, np.full(40, 0.60), True),
        (0.89, np.full(40, 0.60), False),
        (0.98, np.full(40, 0.90), False),
        (1.00, np.full(40, 0.70), True),
        (1.00, np.full(40, 0.71), False),
        (0.50, MOSTLY_QUIET, False),  # enough contrast, but not rare
        (0.60, MOSTLY_QUIET, False),  # equal to the 95th percentile is not above
        (0.61, MOSTLY_QUIET, True),
    ],
)
def test_both_contrast_and_rarity_are_needed(own, calm, visible):
    rung = judged(own, calm, by=("this",))
    assert rung.visible is visible
    assert rung.coverage == own
    assert rung.calm == np.median(calm)
    assert rung.limit == pytest.approx(np.quantile(calm, 0.95))
    assert rung.by == ("this",)


@pytest.mark.parametrize("usual", [k / 10 for k in range(8)])
def test_a_rounding_error_does_not_decide(usual):
    assert judged((10 * usual + 3) / 10, np.full(40, usual)).visible
