import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.blindspots.places import (
    LEAST_PLACES,
    Grid,
    Timing,
    draw_places,
    quantile_sizes,
    rows_after,
    rows_before,
)
from sightline.errors import StreamError


def test_a_short_duration_is_judged_whole_a_long_one_at_both_ends():
    short = Grid(rows=5, judged=10, release=2, memory=3)
    assert short.runs == ((0, 7),)
    assert short.offsets[short.is_judged].tolist() == [0, 1, 2, 3, 4]
    assert short.offsets[short.is_release].tolist() == [5, 6]
    long = Grid(rows=100, judged=10, release=2, memory=3)
    assert long.runs == ((0, 5), (92, 102))
    assert long.offsets[long.is_judged].tolist() == [0, 1, 2, 3, 4, 95, 96, 97, 98, 99]


def test_judged_time_is_a_quarter_of_the_time_of_one_alarm():
    timing = Timing.of(10.0, 6.0)
    assert {grid.judged for grid in timing.grids} == {360}  # an hour at 6 a day


def test_durations_shorter_than_a_row_are_left_out_by_name():
    timing = Timing.of(3600.0, 6.0)
    assert [grid.rows for grid in timing.grids] == [1, 4]
    assert len(timing.left_out) == 3
    assert "60 s" in timing.left_out[0]
    with pytest.raises(StreamError, match="shorter than a row"):
        Timing.of(3600.0, 6.0, durations_s=[60.0])


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 59))
def test_room_before_and_after_equal_a_slow_count(free, cut):
    is_free = np.array(free)
    breaks = np.unique([0, min(cut, len(free) - 1)])
    after, before = rows_after(is_free, breaks), rows_before(is_free, breaks)
    for t in range(len(free)):
        n = t
        while n < len(free) and is_free[n] and (n == t or n not in breaks):
            n += 1
        assert after[t] == (n - t if is_free[t] else 0)
        n = t
        while n > 0 and n not in breaks and is_free[n - 1]:
            n -= 1
        assert before[t] == t - n


def _drawn(is_free, **how):
    breaks = np.zeros(1, np.int64)
    return draw_places(is_free, rows_before(is_free, breaks), breaks, before=5, **how)


def test_places_lie_one_in_each_part_and_avoid_what_is_not_free():
    is_free = np.ones(10_000, bool)
    is_free[:3500] = False
    is_free[5000:5400] = False
    places, fits = _drawn(is_free, lengths=[10, 300])
    assert len(places) == 40
    parts = np.array_split(np.flatnonzero(is_free), 40)
    assert all(one in part for one, part in zip(places, parts, strict=True))
    for place, fit in zip(places, fits, strict=True):
        assert is_free[place - 5 : place + 10].all()
        assert fit[1] == is_free[place : place + 300].all() * (place + 300 <= 10_000)


def test_the_same_seed_gives_the_same_places_another_seed_others():
    is_free = np.ones(5000, bool)
    first, again, other = (
        _drawn(is_free, lengths=[10], seed=seed)[0] for seed in (3, 3, 4)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_too_few_places_are_refused_in_one_sentence():
    is_free = np.zeros(1000, bool)
    is_free[500:560] = True
    with pytest.raises(StreamError, match=f"{LEAST_PLACES} are needed"):
        _drawn(is_free, lengths=[50])


def test_intervals_of_sizes_cover_as_they_say():
    rng = np.random.default_rng(1)
    n_draws, inside = 2000, {0.5: 0, 0.9: 0}
    for _ in range(n_draws):
        sizes = rng.exponential(size=40)
        for share in inside:
            _, low, high = quantile_sizes(sizes, share)
            inside[share] += low <= -np.log(1 - share) <= high
    assert 0.88 <= inside[0.5] / n_draws <= 0.97
    assert 0.88 <= inside[0.9] / n_draws <= 0.97


def test_below_29_places_a_90_percent_size_has_no_upper_limit():
    assert np.isinf(quantile_sizes(np.arange(1.0, 29.0), 0.9)[2])
    assert np.isfinite(quantile_sizes(np.arange(1.0, 30.0), 0.9)[2])
