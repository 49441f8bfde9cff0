import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import ResidualStream, StreamError, evaluate
from sightline.data.segments import Segment
from sightline.energy.attack_free import (
    AttackFreeTime,
    LeftOut,
    attack_free_before,
    label_margins,
    slop_rows,
)
from sightline.metrics.alarm_load import Delays, attack_alarms, episodes_of
from sightline.rules.scoring import NO_SLOP, score


def labelled(n_rows, *places):
    labels = np.zeros(n_rows, np.int8)
    for start, stop in places:
        labels[start:stop] = 1
    return labels, [Segment(start, stop) for start, stop in places]


def test_slop_in_rows_is_at_least_one():
    assert [slop_rows(step) for step in (1.0, 7.0, 60.0, 3600.0, None)] == [
        60,
        9,
        1,
        1,
        1,
    ]
    assert slop_rows(1.0, 0.0) == slop_rows(None, 0.0) == 0
    assert slop_rows(10.0, 25.0) == 3


@given(st.data())
def test_margins_leave_their_neighbours_alone(data):
    bounds = sorted(
        data.draw(st.lists(st.integers(0, 300), min_size=2, max_size=12, unique=True))
    )
    attacks = [Segment(a, b) for a, b in zip(bounds[::2], bounds[1::2], strict=False)]
    slop = data.draw(st.integers(0, 80))
    breaks = np.array(sorted(data.draw(st.sets(st.integers(0, 300), max_size=4))))
    margins = label_margins(attacks, 301, slop, breaks)
    taken = np.zeros(301, int)
    for attack, (before, after) in zip(attacks, margins.tolist(), strict=True):
        assert 0 <= min(before, after)
        assert max(before, after) <= min(slop, (attack.length + 1) // 2)
        taken[attack.start - before : attack.stop + after] += 1
        for row in breaks.tolist():
            assert not attack.start - before < row <= attack.start - 1
            assert not attack.stop < row < attack.stop + after
    assert taken.max() <= 1


def test_touching_attacks_and_ends_of_the_record_leave_no_margin():
    attacks = [Segment(0, 50), Segment(50, 90), Segment(290, 300)]
    assert label_margins(attacks, 300, 60).tolist() == [[0, 0], [0, 20], [5, 0]]


def test_rows_within_the_slop_are_not_attack_free_but_count_by_label():
    labels, attacks = labelled(400, (100, 160))
    time = AttackFreeTime.of(labels, attacks, 1.0, label_slop_s=20.0)
    slop = (time.left_out & LeftOut.SLOP) > 0
    assert np.flatnonzero(slop).tolist() == [*range(80, 100), *range(160, 180)]
    assert time.by_label.sum() == 340
    assert not time.without_aftermath[slop].any()
    assert not time.for_alarms[80:100].any()
    none = AttackFreeTime.of(labels, attacks, 1.0, label_slop_s=0.0)
    assert none.without_aftermath.sum() == 340
    assert none.for_alarms[80:100].all()


def test_slop_is_given_up_where_nothing_would_be_left_and_the_result_says_so():
    labels, attacks = labelled(100, (30, 100))
    time = AttackFreeTime.of(labels, attacks, 1.0)
    assert time.is_slop_given_up
    assert time.without_aftermath.sum() == 30
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 2))
    stream = ResidualStream(rng.normal(size=(200, 2)), rows, labels, step_s=1)
    assert NO_SLOP in score(stream).stream.notices
    assert NO_SLOP in evaluate(stream, intervals=False).notices
    assert NO_SLOP not in score(stream.replace(label_slop_s=0)).stream.notices


def test_before_a_split_no_later_label_is_read():
    labels, attacks = labelled(2000, (100, 160), (1290, 1330))
    rng = np.random.default_rng(0)
    energy, breaks = rng.random(2000), np.zeros(1, np.int64)
    args = energy, labels, breaks, attacks, 1.0
    before = attack_free_before(1290, *args)
    labels[1290:] = 0
    assert (
        before == attack_free_before(1290, energy, labels, breaks, attacks[:1], 1.0)
    ).all()
    assert before[1289] > before[99]


def test_an_alarm_within_the_slop_before_an_attack_counts_for_it():
    labels, attacks = labelled(1000, (500, 540))
    alarms = np.zeros(1000, bool)
    alarms[485:490] = True
    time = AttackFreeTime.of(labels, attacks, 1.0)
    found = episodes_of(alarms, Delays(), np.zeros(1, np.int64))
    early = time.margins[:, 0]
    use = attack_alarms(
        found, attacks, time.for_alarms, step_s=1.0, ids=["1"], early=early
    )
    assert (use.raised, use.rings, use.delay_s, use.which) == (1, 1, 0.0, ("1",))
    assert attack_alarms(found, attacks, time.for_alarms).raised == 0
    # Too early: more than half of the attack before it.
    alarms = np.roll(alarms, -10)
    found = episodes_of(alarms, Delays(), np.zeros(1, np.int64))
    assert attack_alarms(found, attacks, time.for_alarms, early=early).raised == 0


def test_false_alarms_within_the_slop_cost_nothing():
    labels, _ = labelled(2000, (500, 640))
    rng = np.random.default_rng(0)
    stream = ResidualStream(
        rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)), labels, step_s=1
    )
    alarms = np.zeros(2000, np.int8)
    alarms[450:455] = 1
    own = stream.replace(alarms=alarms)
    loads = [
        evaluate(one, intervals=False, diagnosis=False).own_rule
        for one in (own, own.replace(label_slop_s=0))
    ]
    assert [one.load.alarms for one in loads] == [0, 1]
    assert [one.attacks.raised for one in loads] == [1, 0]
    # By rows and labels, as the paper counts.
    assert loads[0].false_positive_segments == loads[1].false_positive_segments == 1
    assert loads[0].hits == loads[1].hits == 0


@pytest.mark.parametrize("value", [-1, np.nan, np.inf, True])
def test_what_is_no_slop_is_refused(value):
    with pytest.raises(StreamError, match="seconds, 0 or more"):
        ResidualStream([[0.0]] * 3, [[0.0]] * 3, label_slop_s=value)


def test_slop_is_kept_with_a_stream(tmp_path):
    from sightline import read_stream, write_stream

    stream = ResidualStream([[0.1], [0.2]], [[0.1], [5.0]], [0, 1], label_slop_s=30)
    write_stream(stream, tmp_path / "s.npz")
    assert read_stream(tmp_path / "s.npz").label_slop_s == 30.0
