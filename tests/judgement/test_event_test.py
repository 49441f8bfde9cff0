"""The test of one event: by hand, against a slow version, and its laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from sightline.judgement.event_test import (
    EFFECT,
    LEAST_ONSET,
    LEVEL,
    ONSET_ROWS,
    PEAK_EFFECT,
    Scores,
    Way,
    judge,
    p_values,
    statistics,
)

COVERAGE, PEAK, ONSET = range(len(Way))
NOTHING = -7.0


def outcome(own, calm, **known):
    """Return the outcome for scores of one attack and of its calm windows."""
    scores = Scores(own=np.asarray(own), calm=np.asarray(calm), **known)
    u, calm_u = scores.in_units
    length, is_alarm = calm_u.shape[1], scores.is_alarm
    return judge(
        statistics(u[None], length, is_alarm=is_alarm)[None],
        statistics(calm_u, length, is_alarm=is_alarm)[None, None],
        is_alarm=is_alarm,
    )


# --- Statistics -----------------------------------------------------------------------


def test_statistics_by_hand():
    u = np.zeros((1, 24))
    u[0, [2, 3, 20]] = 4.0, 2.0, 9.0
    coverage, peak, onset = statistics(u, 24)[0]
    assert coverage == 3 / 24
    assert peak == pytest.approx(np.log(15 / 3))
    assert onset == pytest.approx(np.log(6 / 3))
    # Peaks of the first rows only, as many as a calm window has; coverage of all.
    assert statistics(u, 20)[0, COVERAGE] == 3 / 24
    assert statistics(u, 20)[0, PEAK] == pytest.approx(np.log(6 / 3))


def test_at_the_limit_is_not_above_it():
    assert statistics(np.array([[1.0, 1.0, 1.5]]), 3)[0, COVERAGE] == pytest.approx(
        1 / 3
    )


def test_what_is_not_above_the_calm_median_has_no_logarithm():
    assert statistics(np.full((1, 30), -5.0), 30)[0].tolist() == [0, NOTHING, NOTHING]


@pytest.mark.parametrize(
    ("n_rows", "length", "has_onset"),
    [
        (LEAST_ONSET, LEAST_ONSET, False),
        (LEAST_ONSET + 1, LEAST_ONSET + 1, True),
        # Windows too short for an onset: the attack has none to compare either.
        (500, LEAST_ONSET, False),
    ],
)
def test_only_stretches_of_more_than_twenty_rows_have_an_onset(
    n_rows, length, has_onset
):
    found = statistics(np.full((1, n_rows), 3.0), length)[0, ONSET]
    assert found == pytest.approx(np.log(3) if has_onset else NOTHING)


def test_alarms_have_coverage_and_the_coverage_of_their_first_rows():
    u = np.zeros((1, 40))
    u[0, [0, 1, 2, 3, 30]] = 2.0
    found = statistics(u, 40, is_alarm=True)[0]
    assert found.tolist() == [5 / 40, 0.0, 4 / ONSET_ROWS]


def slow_statistics(u, length):
    """Return the three statistics of one stretch, written down row by row."""
    above = [value for value in u if value > 1]
    largest = sorted(u[:length], reverse=True)[:3]
    first = sorted(u[:10], reverse=True)[:3]
    peak, onset = (np.log(max(np.mean(v), np.exp(-7))) for v in (largest, first))
    has_onset = len(u) > 20 and length > 20
    return [len(above) / len(u), peak, onset if has_onset else NOTHING]


def slow_p_value(own, calm):
    """Return p of the largest t, window by window."""
    floors = [0.10, 0.5, 0.5]
    columns = [sorted(window[k] for window in calm) for k in range(3)]
    medians = [float(np.median(column)) for column in columns]
    scales = [
        max(float(np.percentile(column, 95)) - median, floor)
        for column, median, floor in zip(columns, medians, floors, strict=True)
    ]

    def largest(found):
        return max((found[k] - medians[k]) / scales[k] for k in range(3))

    reached = sum(largest(window) >= largest(own) - 1e-12 for window in calm)
    return (1 + reached) / (1 + len(calm))


@given(seeds, st.integers(5, 60), st.integers(5, 60), st.floats(0, 4))
def test_statistics_and_p_are_those_of_a_slow_version(seed, n_rows, n_calm, effect):
    rng = np.random.default_rng(seed)
    own, calm = rng.normal(size=n_rows) + effect, rng.normal(size=(n_calm, n_rows))
    u, calm_u = Scores(own=own, calm=calm).in_units
    median, limit = np.median(calm), np.percentile(calm, 99)
    np.testing.assert_allclose(u, (own - median) / (limit - median))
    expected = slow_statistics(u, n_rows)
    np.testing.assert_allclose(statistics(u[None], n_rows)[0], expected)
    slow = slow_p_value(expected, [slow_statistics(v, n_rows) for v in calm_u])
    assert outcome(own, calm).p_value[0] == pytest.approx(slow)


# --- p-values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "calm", "p_value"),
    [
        (5.0, [1, 2, 3, 4], 1 / 5),  # none is as large: the floor
        (4.0, [1, 2, 3, 4], 2 / 5),  # as large counts
        (2.5, [1, 2, 3, 4], 3 / 5),
        (0.0, [1, 2, 3, 4], 1.0),
        (0.0, [0] * 9, 1.0),
    ],
)
def test_p_values_by_hand(own, calm, p_value):
    found = p_values(np.array([own]), np.array([calm], float))
    assert found[0] == pytest.approx(p_value)


def test_without_an_effect_p_is_not_smaller_than_uniform():
    rng = np.random.default_rng(0)
    p, shown = [], 0
    for _ in range(1000):
        rows = rng.exponential(size=(61, 40))
        found = outcome(rows[0], rows[1:])
        p.append(found.p_value[0])
        shown += found.is_shown[0]
    # Median and scale come from the windows and not from the attack: a little too
    # often at the floor. Two points are allowed at every level.
    for level in (0.05, 0.10, 0.25, 0.5):
        assert np.mean(np.array(p) <= level) <= level + 0.02
    assert shown <= 10  # the minimum effect leaves far fewer than 5%


@given(seeds, st.floats(0, 5), st.floats(0, 5))
def test_a_larger_attack_never_has_a_larger_p(seed, one, other):
    rng = np.random.default_rng(seed)
    own, calm = rng.normal(size=50), rng.normal(size=(40, 50))
    small, large = sorted((one, other))
    smaller, larger = (outcome(own + size, calm) for size in (small, large))
    assert larger.p_value[0] <= smaller.p_value[0]
    assert larger.by_coverage[0] >= smaller.by_coverage[0]
    assert larger.by_peak[0] >= smaller.by_peak[0]


@given(seeds, st.sampled_from([0.25, 1.0, 8.0]), st.sampled_from([-64.0, 0.0, 32.0]))
def test_unit_and_zero_of_a_score_do_not_matter(seed, unit, constant):
    rng = np.random.default_rng(seed)
    # Coarse values: no rounding when a constant is added.
    own, calm = (np.round(rng.normal(size=s) * 64) / 64 for s in (50, (40, 50)))
    before = outcome(own, calm, limit=2.0)
    after = outcome(
        unit * (own + constant), unit * (calm + constant), limit=unit * (2.0 + constant)
    )
    assert after.p_value[0] == before.p_value[0]
    assert after.is_shown[0] == before.is_shown[0]


# --- The minimum effect ---------------------------------------------------------------


def covered(share, n_rows=100):
    """Return a row of statistics of a stretch with some coverage and no peak."""
    return [share, NOTHING, NOTHING]


MOSTLY_CALM = np.repeat([0.0, 0.6], [57, 3])


@pytest.mark.parametrize(
    ("own", "calm", "is_shown"),
    [
        (0.30, np.zeros(60), True),
        (0.29, np.zeros(60), False),
        (0.31, np.full(60, 0.01), True),
        (0.30, np.full(60, 0.01), False),
        (1.00, np.full(60, 0.70), True),
        (1.00, np.full(60, 0.71), False),
        # Of 60 windows 3 are at 0.6: p is 4/61 below it, and 1/61 above.
        (0.60, MOSTLY_CALM, False),
        (0.61, MOSTLY_CALM, True),
        # Too few windows for p to be at most 0.05, whatever the attack.
        (1.00, np.zeros(18), False),
        (1.00, np.zeros(19), True),
    ],
)
def test_coverage_needs_a_small_p_and_the_minimum_effect(own, calm, is_shown):
    found = judge(
        own=np.array([[covered(own)]]),
        calm=np.array([[[covered(share) for share in calm]]]),
    )
    assert bool(found.by_coverage[0]) is is_shown
    assert not found.by_peak[0]
    assert found.median[0, 0, COVERAGE] == pytest.approx(np.median(calm))


@pytest.mark.parametrize("usual", [k / 10 for k in range(8)])
def test_a_rounding_error_does_not_decide(usual):
    found = judge(
        own=np.array([[covered((10 * usual + 10 * EFFECT) / 10)]]),
        calm=np.array([[[covered(usual)] * 60]]),
    )
    assert found.by_coverage[0]


@pytest.mark.parametrize(
    ("peak", "calm_peak", "is_shown"),
    [
        (PEAK_EFFECT, 0.5, True),  # twice the limit, four times the calm ones
        (1.9, 0.5, False),
        (4.0, 2.0, True),
        (3.9, 2.0, False),
    ],
)
@pytest.mark.parametrize("way", [PEAK, ONSET])
def test_a_peak_is_twice_the_limit_and_twice_the_calm_ones(
    way, peak, calm_peak, is_shown
):
    own, calm = covered(0.0), covered(0.0)
    own[way], calm[way] = np.log(peak) + 1e-12, np.log(calm_peak)
    found = judge(own=np.array([[own]]), calm=np.array([[[calm] * 60]]))
    assert bool(found.by_peak[0]) is is_shown
    assert found.peak_effects[0].tolist() == [
        is_shown and way == PEAK,
        is_shown and way == ONSET,
    ]
    assert not found.by_coverage[0]
    assert Way(list(Way)[found.way[0]]) == list(Way)[way]


def test_one_calm_window_with_such_a_peak_is_enough_to_refuse_it():
    own, calm = covered(0.0), [covered(0.0) for _ in range(60)]
    own[PEAK] = calm[7][PEAK] = np.log(10.0)
    found = judge(own=np.array([[own]]), calm=np.array([[calm]]))
    assert found.p_value[0] == pytest.approx(2 / 61)
    assert found.p_value[0] <= LEVEL
    assert not found.by_peak[0]


# --- Rules ----------------------------------------------------------------------------


def test_a_limit_below_the_calm_median_is_still_the_limit():
    # Drift: every calm row is at 5 to 7, the limit of the rule is 4.
    calm = np.tile(np.linspace(5, 7, 40), (60, 1))
    own = np.concatenate([np.full(10, 3.0), np.full(30, 4.5)])
    u, calm_u = Scores(own=own, calm=calm, limit=4.0).in_units
    assert (calm_u > 1).all()
    np.testing.assert_array_equal(u > 1, own > 4)
    found = outcome(own + 100, calm, limit=4.0)
    assert found.median[0, 0, COVERAGE] == 1.0
    assert not found.is_shown[0]


def alarms(n_on, n_rows=100, at=50):
    rows = np.zeros(n_rows)
    rows[at : at + n_on] = 1.0
    return rows


@pytest.mark.parametrize(
    ("own", "ways"),
    [
        (alarms(30), {"coverage"}),
        (alarms(29), set()),
        (alarms(5, at=0), {"onset"}),
        (alarms(4, at=0), set()),
        (alarms(60, at=0), {"coverage", "onset"}),
    ],
)
def test_alarms_without_a_score_have_coverage_and_the_first_ten_rows(own, ways):
    found = outcome(own, np.zeros((60, 100)), is_alarm=True)
    by = {"coverage": found.by_coverage[0], "onset": found.by_peak[0]}
    assert {way for way, is_shown in by.items() if is_shown} == ways
    assert not found.peak_effects[0, 0]


def test_alarms_at_the_onset_of_every_calm_window_show_nothing():
    calm = np.tile(alarms(5, at=0), (60, 1))
    assert not outcome(alarms(5, at=0), calm, is_alarm=True).is_shown[0]


def test_scores_without_calm_rows_hold_none_of_them_in_memory():
    rng = np.random.default_rng(0)
    scores = Scores(own=rng.normal(size=30), calm=rng.normal(size=(60, 30)))
    bare = scores.without_calm()
    assert bare.calm.base is None
    assert bare.in_units[1].base is None
    assert bare.calm.size == bare.in_units[1].size == 0
    np.testing.assert_array_equal(bare.in_units[0], scores.in_units[0])
