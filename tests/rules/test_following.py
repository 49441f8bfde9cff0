"""Means that are followed: laws of a night, and what a rule does with them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.rules.making import with_usual
from sightline.rules.normal import LEVEL_FLOOR
from sightline.rules.rule import View
from sightline.rules.standalone import (
    JUMP,
    LEEWAY,
    MOST_A_NIGHT,
    MOST_IN_ALL,
    Followed,
    Question,
    accepted,
    next_night,
)
from tests.rules.made_rules import made_rules, plant_stream

NIGHT = 360
RULES = ("all", "energy", "group", "z~")
MEDIANS = st.floats(-8, 8) | st.just(math.nan)


def after(*medians):
    """Return the state of one column after some nights."""
    state = Followed.at_rest(1)
    for median in medians:
        state = next_night(state, np.array([float(median)]))
    return state


def nightly(name):
    return replace(made_rules().rules[name].rule, night=NIGHT)


def rows_of_the_plant(nights=12):
    """Return rows of some nights without an attack in them."""
    stream = plant_stream()
    rows = np.concatenate(list(stream.test.chunks()))[stream.labels == 0]
    return rows[: nights * NIGHT].copy()


def has_alarm(run):
    return run.in_alarm | run.standing


@pytest.mark.parametrize(
    ("medians", "moved", "is_asked"),
    [
        ([0.25, -0.25], 0.0, False),  # within the leeway
        ([0.5] * 3, 0.0, False),  # most of seven nights are those of commissioning
        ([0.5] * 4, 0.25, False),  # 0.5 but for the leeway
        ([1.0] * 4, 0.25, False),  # at most 0.25 a night
        ([1.0] * 9, 0.75, False),  # ends the leeway short of where it lies
        ([2.5], 0.0, False),  # one night off is no question yet
        ([2.5, 2.5], 0.0, True),
        ([2.5, 2.5, 0.0], 0.0, False),  # back by itself
        ([2.5, math.nan, 2.5], 0.0, True),  # a night without values counts for nothing
        ([math.nan] * 3, 0.0, False),
        ([0, 0, 0, 0, 1, 1, 1], 0.0, False),  # most of seven nights were at rest
        ([0, 0, 0, 1, 1, 1, 1], 0.25, False),
    ],
)
def test_nights_by_hand(medians, moved, is_asked):
    state = after(*medians)
    assert state.moved.tolist() == [moved]
    assert state.is_asked.tolist() == [is_asked]


def test_where_a_column_lies_after_jumps():
    assert after(2.5).now.tolist() == [2.5]
    assert after(2.5, 3.5).now.tolist() == [3.0]
    assert after(9.0, 2.5, 3.5).off.tolist() == [3.0]
    assert after(-4.0, 2.5).now.tolist() == [2.5]  # on either side: where it lies now


def test_a_slow_drift_is_followed_so_far_and_then_asked_about():
    state = after(*np.arange(0, 6, 0.2))
    assert state.moved.tolist() == [MOST_IN_ALL]
    assert state.is_asked.tolist() == [True]
    normal = accepted(state, np.array([True]))
    assert normal.moved == pytest.approx(state.now)
    assert not normal.is_asked
    assert next_night(normal, normal.moved).moved == normal.moved
    # The allowance counts from there.
    further = normal
    for median in normal.moved[0] + np.arange(0, 3, 0.2):
        further = next_night(further, np.array([median]))
    assert normal.moved + 1.5 < further.moved <= normal.moved + MOST_IN_ALL


@given(st.lists(st.lists(MEDIANS, min_size=3, max_size=3), max_size=30))
def test_no_night_moves_far_and_jumps_move_nothing(nights):
    state = Followed.at_rest(3)
    for medians in np.array(nights).reshape(-1, 3):
        later = next_night(state, medians)
        step = np.abs(later.moved - state.moved)
        assert (step <= MOST_A_NIGHT + 1e-12).all()
        assert (np.abs(later.shift) <= MOST_IN_ALL).all()
        assert not step[~(np.abs(medians - state.moved) <= JUMP)].any()
        state = later


@given(
    st.lists(st.lists(st.floats(-LEEWAY, LEEWAY), min_size=2, max_size=2), max_size=20)
)
def test_nothing_moves_where_nothing_drifts_beyond_the_leeway(nights):
    state = Followed.at_rest(2)
    for medians in np.array(nights).reshape(-1, 2):
        state = next_night(state, medians)
    assert not state.moved.any()


@pytest.mark.parametrize("name", RULES)
def test_a_record_without_drift_is_read_as_by_the_fixed_rule(name):
    rule, rows = nightly(name), rows_of_the_plant()
    # The same night again and again, with its medians where they usually are.
    night = rows[:NIGHT]
    view = replace(
        rule,
        views=tuple(
            replace(view, usual=np.median(view.of(night), axis=0))
            for view in rule.views
        ),
    )
    again = np.concatenate([night] * 6)
    run, fixed = view.run(again), view.fixed.run(again)
    assert run.trace.tobytes() == fixed.trace.tobytes()
    assert not run.questions


@pytest.mark.parametrize("name", RULES)
def test_a_bias_is_in_alarm_on_its_last_night_as_on_its_first(name):
    rule, rows = nightly(name), rows_of_the_plant()
    rows[NIGHT:, 3] += 12 * made_rules().source.normal.spread[3]
    run = rule.run(rows)
    nights = has_alarm(run)[NIGHT:].reshape(-1, NIGHT).mean(axis=1)
    assert nights[0] > 0.99
    assert nights[-1] > 0.99
    # Asked about after two nights, once.
    asked = [one for one in run.questions if one.channel == 3]
    assert [one.row for one in asked] == [3 * NIGHT - 1]
    assert asked[0].off > JUMP


def test_a_question_says_by_how_much_a_tag_jumped_from_where_it_was_followed():
    rule, rows = nightly("x~"), rows_of_the_plant()
    spread = rule.views[0].spread[0]
    rows[: 8 * NIGHT, 0] -= 1.2 * spread  # followed, night by night
    rows[8 * NIGHT :, 0] += 2.0 * spread
    (asked,) = [one for one in rule.run(rows).questions if one.channel == 0]
    assert 2.0 < asked.off < 3.2 + 0.3
    assert asked.off > 2.0 + 0.3


def test_a_drift_that_the_fixed_rule_stands_in_is_followed():
    rule, rows = nightly("x~"), rows_of_the_plant(nights=30)
    spread = made_rules().source.normal.spread[0]
    rows[:, 0] += np.linspace(0, 2.5 * spread, len(rows))
    followed, fixed = rule.run(rows), rule.fixed.run(rows)
    assert has_alarm(fixed)[-NIGHT:].mean() > 0.5
    assert has_alarm(followed)[-NIGHT:].mean() < 0.1


def test_an_answer_moves_the_mean_and_never_the_limit():
    rule, rows = nightly("x~"), rows_of_the_plant()
    bias = 8 * made_rules().source.normal.spread[0]
    rows[NIGHT:, 0] += bias
    state = rule.start()
    state.advance(rows[: 4 * NIGHT])
    assert 0 in state.nights.asked()
    # The answer holds for all that jumped in the same night.
    state.nights.accept(0)
    assert not state.nights.asked()
    state.restart()
    assert state.rule.limit == rule.limit
    assert has_alarm(state.advance(rows[4 * NIGHT : 6 * NIGHT])).mean() < 0.1
    # What was normal before is now a deviation of as many spreads.
    back = rows[6 * NIGHT : 7 * NIGHT]
    back[:, 0] -= bias
    assert has_alarm(state.advance(back)).mean() > 0.9


def test_time_without_rows_and_channels_without_values_change_nothing():
    rule, rows = nightly("all"), rows_of_the_plant()
    state = rule.start()
    state.advance(rows[: 2 * NIGHT])
    before = state.nights.followed
    state.restart()
    lacking = rows[2 * NIGHT : 4 * NIGHT].copy()
    lacking[:, 0] = np.nan
    assert state.nights.followed is before
    state.advance(lacking)
    own = state.nights.channel == 0
    assert (state.nights.followed.learned[:, own] == before.learned[:, own])[-2:].all()
    assert not state.nights.asked()


def test_the_spread_of_a_column_that_stands_still_has_the_unit_of_its_channel():
    normal = made_rules().source.normal
    view = with_usual(normal.view(View.X), np.ones((50, 6)), normal)
    np.testing.assert_allclose(view.spread, LEVEL_FLOOR * normal.spread)
    rows = np.random.default_rng(0).normal(size=(5000, 6)) * normal.spread
    rows[:20] += 1e3 * normal.spread  # a few rows far off do not widen it
    view = with_usual(normal.view(View.X), rows, normal)
    np.testing.assert_allclose(view.spread, normal.spread, rtol=0.1)


def test_a_coarse_reading_has_a_spread_and_a_state_has_no_mean():
    """More than half of the rows have one value, so the median distance is 0."""
    normal = made_rules().source.normal
    rng, rows = np.random.default_rng(0), np.zeros((5000, 6))
    rows[:, 0] = np.round(rng.normal(0, 0.6, 5000))
    rows[:, 1] = rows[:, 0]
    rows[:20, 1] = 1e6  # a few rows far off do not widen it
    rows[:, 2] = rng.random(5000) < 0.2
    view = with_usual(normal.view(View.X), rows, normal)
    np.testing.assert_allclose(view.spread[:2], rows[:, 0].std(), rtol=0.1)
    np.testing.assert_allclose(view.spread[3:], LEVEL_FLOOR * normal.spread[3:])
    # A state that stays at its other value: nothing moves, nobody is asked.
    state, off = Followed.at_rest(1), (1.0 - 0.0) / view.spread[2]
    for _ in range(20):
        state = next_night(state, np.array([off]))
    assert not state.moved.any()
    assert not state.is_asked.any()


def test_questions_of_pieces_keep_their_rows():
    rule, rows = nightly("x~"), rows_of_the_plant()
    rows[NIGHT:, 0] += 8 * made_rules().source.normal.spread[0]
    rows[5 * NIGHT :, 0] -= 8 * made_rules().source.normal.spread[0]
    run = rule.run(rows, breaks=[100, 1000])
    asked, settled = run.questions
    assert asked == Question(3 * NIGHT - 1, 0, asked.off)
    assert settled == Question(6 * NIGHT - 1, 0, 0.0)
