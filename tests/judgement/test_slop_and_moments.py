"""Labels that slip, one moment of one tag, and attacks longer than their windows."""

from dataclasses import replace

import numpy as np
import pytest
from contradictions import contradictions
from hard_streams import answer_of
from judged_streams import calm_stream, normal, rows_of, with_test

from sightline import ResidualStream
from sightline.data.row_tables import ArrayRows
from sightline.data.segments import Segment
from sightline.energy.tag_extremes import FLOOR, MOST_AT_FLOOR, TagExtremes
from sightline.judgement.event_test import AttackFreeRecord, far_outside, with_margin


def spike(row, tag=4, size=40.0):
    def change(test):
        test[row, tag] += size

    return change


# --- Labels that slip -----------------------------------------------------------------


def test_an_attack_whose_label_is_late_by_the_whole_slop_is_detected():
    def change(test):
        test[2940:2950] += 9.0

    stream = with_test(calm_stream((3000, 3200)), change)
    (row,) = rows_of(stream)
    assert (answer_of(row), row.windows.margin) == ("detected", 60)
    assert "onset peaks" in row.sentence or "it peaks" in row.sentence
    (exact,) = rows_of(stream.replace(label_slop_s=0))
    assert answer_of(exact) != "detected"


def test_the_jump_back_after_an_attack_is_no_alarm_in_time():
    def change(test):
        test[3205:3215] += 9.0

    (row,) = rows_of(with_test(calm_stream((3000, 3200)), change))
    assert answer_of(row) != "detected"


@pytest.mark.parametrize("place", [(0, 100), (5900, 6000), (3000, 3001), (3000, 3009)])
def test_attacks_at_the_ends_and_of_a_few_rows_are_judged(place):
    (row,) = rows_of(with_test(calm_stream(place), spike(place[0])))
    assert answer_of(row) in ("detected", "threshold", "diluted")
    assert contradictions(row) == []


def test_touching_attacks_do_not_borrow_rows_of_one_another():
    def change(test):
        test[3000:3100] += 9.0

    stream = with_test(calm_stream((3000, 3100), (3100, 3200)), change)
    stream = stream.replace(test_breaks=[0, 3100])
    first, second = rows_of(stream)
    assert answer_of(first) == "detected"
    assert second.windows.margin == 0
    assert answer_of(second) != "detected"


def test_windows_have_attack_free_margins():
    calm = AttackFreeRecord(
        is_attack_free=np.ones(5000, np.bool_),
        log_energy=np.zeros(5000),
        breaks=np.array([0, 2000]),
    )
    windows = calm.windows_for(Segment(1000, 1100), (30, 20))
    assert windows.margins == (30, 20)
    for start in windows.matched.tolist():
        low, high = start - 30, start + 100 + 20
        assert (low >= 0 and high <= 2000) or (low >= 2000 and high <= 5000)


def test_margins_are_halved_before_windows_are():
    is_free = np.zeros(60 * 140, np.bool_)
    for k in range(60):
        is_free[140 * k : 140 * k + 130] = True
    calm = AttackFreeRecord(
        is_attack_free=is_free,
        log_energy=np.zeros(len(is_free)),
        breaks=np.zeros(1, np.int64),
    )
    windows = calm.windows_for(Segment(130, 230), (20, 20))
    assert (windows.margins, windows.length) == ((10, 10), 100)
    assert windows.label_margins == (20, 20)


def test_an_alarm_in_the_margin_is_an_onset():
    before, u = np.zeros((1, 20)), np.zeros((1, 60))
    before[0, 5:15] = 2.0
    found = with_margin(np.zeros((1, 3)), u, before, 60, is_alarm=True)
    assert found[0].tolist() == [0, 0, 1.0]


# --- One moment of one tag ------------------------------------------------------------


def test_a_spike_hidden_among_many_channels_is_diluted_and_names_its_tag():
    stream = calm_stream((3000, 3120), p=60, n_train=8000, n_test=24_000)
    (row,) = rows_of(with_test(stream, spike(3050, tag=17, size=14.0)))
    moment = row.ladder["moment"]
    assert moment.visible
    assert (moment.by[0], moment.row) == (stream.channels[17], 3050)
    assert answer_of(row) in ("diluted", "threshold", "detected")
    if answer_of(row) == "diluted":
        assert "limit for each tag" in row.sentence
        assert row.evidence_channels[0] == stream.channels[17]


def test_a_moment_is_not_tried_for_one_channel_or_a_score():
    (row,) = rows_of(with_test(calm_stream((3000, 3120), p=1), spike(3050, tag=0)))
    assert "moment" not in row.ladder
    rows = np.abs(normal(6000, 1, 3))
    stream = ResidualStream(
        np.abs(normal(4000, 1, 2)),
        rows,
        calm_stream((3000, 3120)).labels,
        one_sided=True,
        step_s=1,
    )
    (row,) = rows_of(stream)
    assert "moment" not in row.ladder
    assert row.untried == ()


def test_units_and_order_of_channels_do_not_move_a_moment():
    stream = with_test(calm_stream((3000, 3120), p=12), spike(3050, size=25.0))
    order = np.random.default_rng(0).permutation(12)
    units = 10.0 ** np.linspace(-3, 3, 12)
    other = stream.replace(
        train=(stream.train.values * units)[:, order],
        test=(stream.test.values * units)[:, order],
        channels=[stream.channels[k] for k in order],
    )
    permuted = stream.replace(
        train=stream.train.values[:, order],
        test=stream.test.values[:, order],
        channels=[stream.channels[k] for k in order],
    )
    (one,), (two,), (three,) = map(rows_of, (stream, other, permuted))
    assert one.verdict == three.verdict
    first, second = one.ladder["moment"], two.ladder["moment"]
    assert (first.by, first.visible) == (second.by, second.visible)
    assert first.coverage == pytest.approx(second.coverage)


def test_a_tag_that_hardly_ever_moves_does_not_hide_another():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(4000, 3))
    rows[:, 0] = 0.0
    rows[3000, 0], rows[3005, 1] = 1.0, 120.0
    is_free = np.ones(4000, np.bool_)
    is_free[2980:3040] = False
    known = TagExtremes.of(ArrayRows(rows), is_free, np.ones(3))
    usual = known.usual_for(30)
    ratio = usual.ratio(np.abs(rows[2990:3020]).max(axis=0))
    assert ratio[0] == MOST_AT_FLOOR
    assert ratio[1] > ratio[0]
    assert (usual.usual >= FLOOR).all()


def test_extremes_do_not_depend_on_how_rows_arrive():
    from strategies import ChunkedRows

    rows = normal(5000, 4, 3)
    is_free = np.arange(5000) % 1000 < 900
    whole = TagExtremes.of(ArrayRows(rows), is_free, np.ones(4))
    parts = TagExtremes.of(
        ChunkedRows(rows, [0, 7, 1001, 2500, 4999]), is_free, np.ones(4)
    )
    assert (whole.largest == parts.largest).all()
    assert (whole.centre == parts.centre).all()
    blocks = np.abs(rows - whole.centre).reshape(500, 10, 4).max(axis=1)
    assert (whole.largest == blocks).all()


def test_a_block_is_left_out_of_its_own_usual_extreme():
    rows = normal(2000, 2, 5)
    rows[500, 1] = rows[900, 1] = 50.0
    known = TagExtremes.of(ArrayRows(rows), np.ones(2000, np.bool_), np.ones(2))
    usual = known.usual_for(10)
    assert usual.rank == 2
    # Each of the two against the other and the rest.
    assert usual.usual[1] > 49
    assert usual.ratios[50] > 10
    assert usual.ratios[90] > 10


def test_huge_values_are_judged():
    def change(test):
        test[3050, 2] = 1e150

    (row,) = rows_of(with_test(calm_stream((3000, 3120)), change))
    assert answer_of(row) == "detected"
    assert np.isfinite(row.ladder["moment"].coverage)


def test_a_channel_that_never_leaves_its_median_is_no_evidence():
    stream = calm_stream((3000, 3200), p=8)

    def change(test):
        test[:, 5] = 0.0
        test[2500:3000, 5] = test[3200:3700, 5] = 6.0
        test[3000:3200, 2] += 3.0

    (row,) = rows_of(with_test(stream, change))
    assert stream.channels[5] not in row.evidence_channels


# --- Far outside, and long attacks ----------------------------------------------------


def test_a_handful_of_odd_windows_does_not_veto_what_is_far_outside():
    usual = np.zeros((1, 60))
    usual[0, :3] = 80.0
    lasts, _ = far_outside(np.array([100.0]), usual, np.array([9.0]), usual)
    assert lasts[0]
    usual[0, :4] = 80.0
    lasts, peaks = far_outside(np.array([100.0]), usual, np.array([9.0]), usual)
    assert not lasts[0]
    assert not peaks[0]


def test_no_rung_is_lost_in_an_attack_longer_than_its_windows():
    places = [(k, k + 60) for k in range(300, 3000, 300)]
    stream = calm_stream((3000, 9000), *places, n_test=9300)

    def change(test):
        test[3000:9000, 3] += 1.2

    *_, row = rows_of(with_test(stream, change))
    assert row.windows.length < 1500
    assert {"evidence", "space", "memory", "moment"} <= set(row.ladder)
    assert row.untried == ()
    assert row.verdict not in ("weak-evidence", "undecided")
    *_, nothing = rows_of(stream)
    assert nothing.verdict == "weak-evidence"


def test_what_could_not_be_tried_is_named_and_carries_no_confidence():
    # Attacks of five rows, and too few attack-free blocks of ten.
    stream = calm_stream((90, 95), n_train=500, n_test=180, label_slop_s=0)
    (row,) = rows_of(stream)
    if row.windows is not None and row.untried:
        assert (row.verdict, row.confidence) == ("undecided", None)
        assert "could not be tried" in row.sentence
    assert answer_of(row) in ("undecided", "detected")
    assert contradictions(replace(row)) == []
