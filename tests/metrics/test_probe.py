import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import breaks, codes

from sightline.data.segments import segments_of
from sightline.metrics import f1_score
from sightline.metrics.alarm_load import false_alarm_runs, judge_alarms


def marks(text):
    """Read '.' as 0, '#' as 1 and '?' as -1."""
    return np.array([{".": 0, "#": 1, "?": -1}[mark] for mark in text], np.int8)


def judged(alarms, labels, first_rows=None, **known):
    is_alarm, codes_ = marks(alarms) == 1, marks(labels)
    attacks = segments_of(codes_ == 1, first_rows)
    return judge_alarms(is_alarm, codes_, attacks, breaks=first_rows, **known)


@pytest.mark.parametrize(
    ("alarms", "labels", "first_rows", "count"),
    [
        ("........", "..##....", None, 0),
        ("#.......", "..##....", None, 1),
        ("#.#.#..#", "..##....", None, 3),  # rows 0, 4 and 7; row 2 is an attack
        ("##......", "..##....", None, 1),
        (".##.....", "..##....", None, 0),  # the run touches the attack
        ("...###..", "..##....", None, 0),
        (".##.....", "..##....", [0, 2], 1),  # a break keeps it from the attack
        ("####....", "........", [0, 2], 2),
        ("....##..", "..##??..", None, 0),  # a run of ignored rows is no false alarm
        ("....###.", "..##??..", None, 1),  # but it counts where it goes on
        ("...###..", "..##??..", None, 0),
        ("##..##..", "........", None, 2),
    ],
)
def test_false_positive_segments_by_hand(alarms, labels, first_rows, count):
    rows = None if first_rows is None else np.array(first_rows)
    assert len(false_alarm_runs(marks(alarms) == 1, marks(labels), rows)[0]) == count


def test_one_table_by_hand():
    #                10 normal, 5 attack, 2 ignored rows of 60 s
    labels = "...##..###..??..."
    alarms = "#..#.......###.##"
    found = judged(alarms, labels, step_s=60.0, tau99=2.5)
    # Alarms: 1 of 5 attack rows, rows 0, 11, 15 and 16 of 10 normal ones.
    assert found.tau99 == 2.5
    assert found.precision == 1 / 5
    assert found.recall == 1 / 5
    assert found.f1 == pytest.approx(1 / 5)
    assert found.hits == 1
    assert found.false_positive_segments == 3
    assert found.false_alarm_rate == 4 / 10
    # 10 minutes of normal time: 144 times as much in a day.
    assert found.false_alarms_per_day == pytest.approx(3 * 144)
    assert found.minutes_in_alarm_per_day == pytest.approx(4 * 144)
    assert found.over_alarming is True


def test_hits_count_segments_cut_at_breaks():
    assert judged("##......", "####....").hits == 1
    assert judged(".##.....", "####....", np.array([0, 2])).hits == 2


def test_over_alarming_is_decided_on_attack_free_rows():
    alarms = np.array([True] * 10 + [False] * 90)
    free = np.array([False] * 10 + [True] * 90)
    labels = np.zeros(100, np.int8)
    assert judge_alarms(alarms, labels, []).over_alarming
    assert not judge_alarms(alarms, labels, [], is_attack_free=free).over_alarming


@pytest.mark.parametrize(("n_false", "over"), [(5, False), (6, True)])
def test_over_alarming_begins_above_one_step_in_twenty(n_false, over):
    alarms = "#" * n_false + "." * (100 - n_false)
    assert judged(alarms, "." * 100).over_alarming is over


def test_rates_a_day_need_the_step():
    found = judged("#..", "...")
    assert (found.false_alarms_per_day, found.minutes_in_alarm_per_day) == (None, None)


def test_without_an_attack_false_alarms_are_still_counted():
    found = judged("#..#", "...?")
    assert (found.f1, found.precision, found.recall) == (None, None, None)
    assert (found.false_positive_segments, found.false_alarm_rate) == (1, 1 / 3)


def test_a_silent_rule_has_no_precision_and_recalls_nothing():
    found = judged("....", "..##")
    assert (found.f1, found.precision, found.recall, found.hits) == (0.0, None, 0.0, 0)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_figures_agree_with_scikit_learn_on_the_rows_that_are_not_ignored(data):
    labels = data.draw(codes([0, 1, -1], least=3)).astype(np.int8)
    labels[:2] = [0, 1]
    is_alarm = np.resize(data.draw(codes([0, 1])) == 1, len(labels))
    is_alarm[1] = True
    first_rows = data.draw(breaks(len(labels)))
    found = judge_alarms(is_alarm, labels, segments_of(labels == 1), breaks=first_rows)
    known = labels != -1
    truth, guess = labels[known] == 1, is_alarm[known]
    assert found.f1 == pytest.approx(sklearn.metrics.f1_score(truth, guess))
    assert found.precision == pytest.approx(
        sklearn.metrics.precision_score(truth, guess)
    )
    assert found.recall == pytest.approx(sklearn.metrics.recall_score(truth, guess))
    assert found.false_alarm_rate == pytest.approx(
        1 - sklearn.metrics.recall_score(~truth, ~guess)
    )
    assert f1_score(found.precision, found.recall) == pytest.approx(found.f1)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_ignored_rows_never_count(data):
    labels = data.draw(codes([0, 1, -1], least=3)).astype(np.int8)
    labels[0] = 0
    is_alarm = np.resize(data.draw(codes([0, 1])) == 1, len(labels))
    attacks = segments_of(labels == 1)

    def figures(alarms):
        found = judge_alarms(alarms, labels, attacks)
        return (found.f1, found.precision, found.recall, found.hits)

    assert figures(is_alarm | (labels == -1)) == figures(is_alarm & (labels != -1))


def test_f1_of_nothing_is_0():
    assert f1_score(0.0, 0.0) == 0.0
