"""Trimming, gap filling and down-sampling, worked by hand and held to laws."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import breaks as some_breaks
from strategies import seeds

from sightline import Attack, Recording, StreamError, Tag, open_testbed
from sightline.data.downsampling import (
    PRESETS,
    Preparation,
    downsampled,
    fill_gaps,
    preset,
    rows_of,
    without_attacks,
    without_shared_time,
)
from sightline.data.recording import seconds
from sightline.text import names

TAGS = (Tag(name="LIT101"), Tag(name="P101", role="actuator"))
SAMPLINGS = ("median", "mean", "stride", "first", "last", "by-role")
RULES = ("any", "majority", "first")


def recording(values, **known):
    values = np.asarray(values)
    if values.ndim == 1:
        values = values.reshape(-1, 1)
    tags = known.pop("tags", None) or tuple(
        Tag(name=f"T{k}") for k in range(values.shape[1])
    )
    return Recording(values=values, tags=tags, **known)


def spans(made):
    return [(attack.id, attack.start, attack.stop) for attack in made.attacks]


TWO_RUNS = recording(
    [[1, 10], [5, 20], [2, 30], [8, 40], [0, 50], [7, 60], [9, 70], [4, 80]],
    tags=TAGS,
    time=[0, 1, 2, 3, 4, 100, 101, 102],
    labels=[0, 0, 1, 1, 0, 0, 0, 1],
    attacks=[Attack(id="A", start=2, stop=4), Attack(id="B", start=7, stop=8)],
)


@pytest.mark.parametrize(
    ("sampling", "values", "time"),
    [
        ("median", [[3, 15], [5, 35], [8, 65]], [0, 2, 100]),
        ("mean", [[3, 15], [5, 35], [8, 65]], [0, 2, 100]),
        ("first", [[1, 10], [2, 30], [7, 60]], [0, 2, 100]),
        ("last", [[5, 20], [8, 40], [9, 70]], [1, 3, 101]),
        ("by-role", [[3, 20], [5, 40], [8, 70]], [0, 2, 100]),
        (
            "stride",
            [[1, 10], [2, 30], [0, 50], [7, 60], [4, 80]],
            [0, 2, 4, 100, 102],
        ),
    ],
)
def test_two_rows_become_one_as_worked_by_hand(sampling, values, time):
    made = downsampled(TWO_RUNS, every=2, sampling=sampling)
    assert made.values.tolist() == values
    assert made.time.tolist() == time
    assert made.step_s == 2.0
    assert made.breaks.tolist() == [0, 3 if sampling == "stride" else 2]
    assert made.tags == TAGS


@pytest.mark.parametrize(
    ("sampling", "values", "breaks"),
    [
        ("median", [[3, 15], [5, 35], [3.5, 55], [6.5, 75]], [0, 3]),
        ("last", [[5, 20], [8, 40], [7, 60], [4, 80]], [0, 3]),
        ("stride", [[1, 10], [2, 30], [0, 50], [9, 70]], [0, 3]),
    ],
)
def test_blocks_can_be_counted_through_a_gap(sampling, values, breaks):
    made = downsampled(TWO_RUNS, every=2, sampling=sampling, across_breaks=True)
    assert made.values.tolist() == values
    assert made.breaks.tolist() == breaks


@pytest.mark.parametrize(
    ("labels", "rule", "expected"),
    [
        ([0, 0, 0], "any", 0),
        ([0, 1, 0], "any", 1),
        ([0, -1, 0], "any", -1),
        ([-1, 1, -1], "any", 1),
        ([0, 1, 0], "majority", 0),
        ([0, 1, 1], "majority", 1),
        ([0, 1, -1], "majority", -1),
        ([-1, -1, 1], "majority", -1),
        ([-1, 0, 0], "majority", 0),
        ([-1, 1, 1], "majority", 1),
        ([0, 1, 1], "first", 0),
        ([1, 0, 0], "first", 1),
        ([-1, 1, 1], "first", -1),
        ([0, 1, 1, 0], "majority", 0),
        ([0, 1, 1, 1], "majority", 1),
        ([0, 1, -1, 0], "majority", 0),
        ([0, 1, 1, -1], "majority", -1),
    ],
)
def test_labels_of_a_block_are_worked_by_hand(labels, rule, expected):
    given = recording(np.zeros(len(labels)), labels=labels)
    made = downsampled(given, every=len(labels), label_rule=rule)
    assert made.labels.tolist() == [expected]


def test_attacks_go_to_the_blocks_they_touch():
    made = downsampled(TWO_RUNS, every=2)
    # Attack B lies in the row left over at the end.
    assert spans(made) == [("A", 1, 2)]
    assert made.labels.tolist() == [0, 1, 0]


def test_a_stride_that_ends_before_a_gap_sees_nothing_of_what_follows():
    given = recording(
        np.arange(6.0),
        labels=[0, 0, 0, 1, 1, 1],
        breaks=[0, 3],
        attacks=[Attack(id="A", start=3, stop=6)],
    )
    made = downsampled(given, every=2, sampling="stride")
    assert made.values.ravel().tolist() == [0, 2, 3, 5]
    assert made.labels.tolist() == [0, 0, 1, 1]
    assert spans(made) == [("A", 2, 4)]


def test_the_majority_of_a_last_stride_is_that_of_its_own_rows():
    given = recording(np.arange(8.0), labels=[0, 0, 0, 0, 0, 0, 0, 1])
    made = downsampled(given, every=5, sampling="stride", label_rule="majority")
    assert made.labels.tolist() == [0, 0]


def test_more_rows_a_block_than_there_are_is_refused():
    with pytest.raises(StreamError, match="`every` is 9 rows, but no continuous run"):
        downsampled(TWO_RUNS, every=9)
    with pytest.raises(StreamError, match="lower it"):
        downsampled(TWO_RUNS, every=6)
    assert downsampled(TWO_RUNS, every=6, across_breaks=True).n_steps == 1


def test_single_precision_stays_single():
    given = recording(np.arange(6, dtype=np.float32))
    assert downsampled(given, every=2).values.dtype == np.float32


def test_the_median_of_missing_cells_is_missing():
    made = downsampled(recording([1, np.nan, 3, 4.0]), every=2)
    np.testing.assert_array_equal(made.values.ravel(), [np.nan, 3.5])


@st.composite
def recordings(draw):
    label = st.sampled_from([0, 0, 1, -1])
    labels = np.array(draw(st.lists(label, min_size=1, max_size=40)))
    n_rows = len(labels)
    rng = np.random.default_rng(draw(seeds))
    bounds = st.tuples(st.integers(0, n_rows - 1), st.integers(1, 20))
    drawn = draw(st.lists(bounds, max_size=4))
    return recording(
        rng.normal(size=(n_rows, 2)),
        tags=TAGS,
        labels=labels,
        time=np.arange(float(n_rows)),
        breaks=draw(some_breaks(n_rows)),
        attacks=[
            Attack(id=str(k), start=start, stop=min(start + length, n_rows))
            for k, (start, length) in enumerate(drawn)
        ],
    )


def blocks_of(given, every, sampling, across_breaks):
    """Return the rows of each block, by the words of the documentation."""
    begins = [0] if across_breaks else given.breaks.tolist()
    blocks = [
        list(range(first, min(first + every, stop)))
        for start, stop in pairwise([*begins, given.n_steps])
        for first in range(start, stop, every)
    ]
    return [rows for rows in blocks if len(rows) == every or sampling == "stride"]


cases = st.tuples(
    recordings(), st.integers(2, 8), st.sampled_from(SAMPLINGS), st.booleans()
)


def sampled(case, rule="any"):
    given, every, sampling, across = case
    blocks = blocks_of(*case)
    if not blocks:
        with pytest.raises(StreamError, match="no continuous run is that long"):
            downsampled(given, every=every, sampling=sampling, across_breaks=across)
        return None, []
    made = downsampled(
        given, every=every, sampling=sampling, label_rule=rule, across_breaks=across
    )
    return made, blocks


@settings(max_examples=150, deadline=None)
@given(cases)
def test_values_are_those_of_the_blocks(case):
    given, _, sampling, _ = case
    made, blocks = sampled(case)
    if made is None:
        return
    assert made.n_steps == len(blocks)
    for k, rows in enumerate(blocks):
        values = given.values[rows]
        expected = {
            "median": np.median(values, axis=0),
            "mean": np.mean(values, axis=0),
            "stride": values[0],
            "first": values[0],
            "last": values[-1],
            "by-role": [np.median(values[:, 0]), values[-1, 1]],
        }[sampling]
        np.testing.assert_array_equal(made.values[k], expected)


@settings(max_examples=150, deadline=None)
@given(cases, st.sampled_from(RULES))
def test_labels_are_those_of_the_blocks(case, rule):
    given, *_ = case
    made, blocks = sampled(case, rule)
    for k, rows in enumerate(blocks):
        labels = given.labels[rows].tolist()
        least = 1 if rule == "any" else len(rows) // 2 + 1
        if rule == "first":
            expected = labels[0]
        elif labels.count(1) >= least:
            expected = 1
        else:
            expected = -1 if labels.count(1) + labels.count(-1) >= least else 0
        assert made.labels[k] == expected


@settings(max_examples=150, deadline=None)
@given(cases)
def test_attacks_are_the_blocks_they_touch(case):
    given, *_ = case
    made, blocks = sampled(case)
    if made is None:
        return
    expected = []
    for attack in given.attacks:
        attacked = set(range(attack.start, attack.stop))
        touched = [k for k, rows in enumerate(blocks) if attacked & set(rows)]
        if touched:
            expected.append((attack.id, touched[0], touched[-1] + 1))
    assert spans(made) == expected


@settings(max_examples=100, deadline=None)
@given(cases)
def test_a_run_begins_where_one_began(case):
    given, *_ = case
    made, blocks = sampled(case)
    if made is None:
        return
    firsts = [rows[0] for rows in blocks]
    expected = [0] + [
        k
        for k, (before, here) in enumerate(pairwise(firsts), start=1)
        if any(before < row <= here for row in given.breaks.tolist())
    ]
    assert made.breaks.tolist() == expected


@settings(max_examples=20, deadline=None)
@given(recordings(), st.sampled_from(SAMPLINGS), st.sampled_from(RULES))
def test_every_single_row_changes_nothing(given, sampling, rule):
    assert downsampled(given, every=1, sampling=sampling, label_rule=rule) is given
    as_it_is = Preparation(every=1, sampling=sampling, label_rule=rule)
    assert as_it_is.train(given) is given
    assert as_it_is.test(given) is given
    assert as_it_is.notices() == []


def test_medians_are_taken_in_pieces_of_any_number():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(2 * 16_384 + 5, 1))
    made = downsampled(recording(np.repeat(values, 3, axis=0)), every=3)
    np.testing.assert_array_equal(made.values, values)


def test_trimming_leaves_out_the_first_seconds():
    trimmed = Preparation(trim_s=3).train(TWO_RUNS)
    assert trimmed.time.tolist() == [3, 4, 100, 101, 102]
    assert trimmed.breaks.tolist() == [0, 2]
    assert trimmed.labels.tolist() == [1, 0, 0, 0, 1]
    assert spans(trimmed) == [("A", 0, 1), ("B", 4, 5)]


def test_trimming_is_of_train_only():
    assert Preparation(trim_s=3).test(TWO_RUNS) is TWO_RUNS


def test_trimming_counts_seconds_and_not_rows():
    assert Preparation(trim_s=50).train(TWO_RUNS).time.tolist() == [100, 101, 102]


def test_only_so_many_rows_are_kept_after_trimming():
    kept = Preparation(trim_s=1, train_rows=3).train(TWO_RUNS)
    assert kept.time.tolist() == [1, 2, 3]
    assert spans(kept) == [("A", 1, 3)]
    assert Preparation(train_rows=99).train(TWO_RUNS) is TWO_RUNS


def test_test_can_be_cut_after_a_moment():
    start = seconds("2026-11-15 08:00:00")
    given = replace(TWO_RUNS, time=start + np.arange(8.0), breaks=None)
    cut = Preparation(test_until="2026-11-15 08:00:04").test(given)
    assert cut.n_steps == 5
    assert spans(cut) == [("A", 2, 4)]


@settings(max_examples=50, deadline=None)
@given(recordings(), st.data())
def test_rows_of_a_recording_keep_what_is_theirs(given, data):
    start = data.draw(st.integers(0, given.n_steps - 1))
    stop = data.draw(st.integers(start + 1, given.n_steps))
    part = rows_of(given, start, stop)
    np.testing.assert_array_equal(part.values, given.values[start:stop])
    np.testing.assert_array_equal(part.labels, given.labels[start:stop])
    inner = [b - start for b in given.breaks.tolist() if start < b < stop]
    assert part.breaks.tolist() == [0, *inner]
    for attack in part.attacks:
        (whole,) = [a for a in given.attacks if a.id == attack.id]
        rows = range(max(whole.start, start), min(whole.stop, stop))
        assert range(attack.start + start, attack.stop + start) == rows


def test_a_gap_is_filled_with_the_row_before_it():
    given = recording(
        [1, 2, 3, 4.0],
        time=[0, 10, 40, 50],
        step_s=10,
        labels=[0, 1, 0, 0],
        attacks=[Attack(id="A", start=0, stop=2), Attack(id="B", start=2, stop=3)],
    )
    assert given.breaks.tolist() == [0, 2]
    filled = fill_gaps(given, 20)
    assert filled.values.ravel().tolist() == [1, 2, 2, 2, 3, 4]
    assert filled.time.tolist() == [0, 10, 20, 30, 40, 50]
    assert filled.labels.tolist() == [0, 1, 1, 1, 0, 0]
    assert filled.breaks.tolist() == [0]
    assert spans(filled) == [("A", 0, 2), ("B", 4, 5)]


def test_an_attack_over_a_gap_covers_what_is_filled():
    given = recording(
        [1, 2, 3.0],
        time=[0, 1, 4],
        step_s=1,
        labels=[1, 1, 1],
        attacks=[Attack(id="A", start=0, stop=3)],
    )
    filled = fill_gaps(given, 5)
    assert spans(filled) == [("A", 0, 5)]
    assert filled.labels.tolist() == [1] * 5


def test_a_longer_gap_stays_a_gap():
    given = recording([1, 2, 3, 4.0], time=[0, 10, 40, 70], step_s=10)
    assert fill_gaps(given, 19) is given
    assert fill_gaps(given, 0) is given
    assert fill_gaps(given, 20).breaks.tolist() == [0]
    mixed = recording([1, 2, 3, 4.0], time=[0, 10, 40, 80], step_s=10, breaks=[0, 2, 3])
    filled = fill_gaps(mixed, 20)
    assert filled.breaks.tolist() == [0, 5]
    assert filled.time.tolist() == [0, 10, 20, 30, 40, 80]


def test_a_break_without_a_gap_stays_a_break():
    given = recording([1, 2, 3.0], time=[0, 1, 3], step_s=1, breaks=[0, 1, 2])
    assert fill_gaps(given, 60).breaks.tolist() == [0, 1]


def test_without_time_stamps_there_are_no_gaps():
    given = recording([1, 2.0])
    assert fill_gaps(given, 60) is given


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(1, 40)), st.floats(0.5, 100))
def test_filled_time_is_even_and_every_row_is_an_earlier_one(rows, step_s):
    kept = np.array(sorted({0, *rows}))
    given = recording(kept.astype(float), time=kept * step_s, step_s=step_s)
    filled = fill_gaps(given, 41 * step_s)
    np.testing.assert_allclose(filled.time, np.arange(kept[-1] + 1) * step_s)
    assert filled.breaks.tolist() == [0]
    for row, value in enumerate(filled.values[:, 0].tolist()):
        assert value == kept[kept <= row].max()


def test_rows_of_train_that_are_not_normal_are_left_out_with_a_break():
    given = recording(
        np.arange(8.0), time=np.arange(8.0), labels=[0, 0, 1, 1, 0, -1, 0, 0]
    )
    quiet, (told,) = without_attacks(given)
    assert quiet.values.ravel().tolist() == [0, 1, 4, 6, 7]
    assert quiet.breaks.tolist() == [0, 2, 3]
    assert quiet.labels.tolist() == [0] * 5
    assert told == (
        "3 rows of train are labelled as attacks or ignored and were left out of it."
    )


def test_a_normal_train_stays_as_it_is():
    given = recording(np.arange(3.0))
    assert without_attacks(given) == (given, [])


def test_moments_of_test_are_left_out_of_train():
    train = recording(np.arange(6.0), time=np.arange(6.0))
    test = recording(np.arange(3.0), time=[2.0, 3.0, 9.0])
    cut = without_shared_time(train, test)
    assert cut.time.tolist() == [0, 1, 4, 5]
    assert cut.breaks.tolist() == [0, 2]
    assert without_shared_time(recording(np.arange(3.0)), test).n_steps == 3


def test_all_that_is_done_is_told():
    done = Preparation(
        trim_s=60,
        train_rows=20_000,
        test_until="2026-11-15 08:00:00",
        fill_gap_s=120,
        every=10,
        label_rule="majority",
    )
    assert done.notices() == [
        "Gaps of up to 120 s were filled with the row before.",
        "The first 60 s of train were left out.",
        "Only 20,000 rows of train were kept.",
        "Test was cut after 2026-11-15 08:00:00.",
        "Each row is made of 10 rows (median; label: majority), counted from the start "
        "of a run; blocks that are not full were left out.",
    ]
    strided = Preparation(every=5, sampling="stride", across_breaks=True)
    assert strided.notices() == [
        "Each row is made of 5 rows (stride; label: any), counted through gaps."
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"every": 0}, "`every` must be a whole number of rows, 1 or more; got 0."),
        ({"every": 2.5}, "`every` must be a whole number of rows, 1 or more; got 2.5."),
        (
            {"sampling": "mode"},
            "`sampling` must be one of median, mean, stride, first, last, by-role; got "
            "'mode'.",
        ),
        (
            {"label_rule": "all"},
            "`label_rule` must be one of any, majority, first; got 'all'.",
        ),
        ({"trim_s": -1}, "`trim_s` must be 0 or more seconds; got -1."),
        ({"trim_s": np.nan}, "`trim_s` must be 0 or more seconds; got nan."),
        ({"fill_gap_s": -1.5}, "`fill_gap_s` must be 0 or more seconds; got -1.5."),
    ],
)
def test_what_is_no_option_is_refused(options, sentence):
    with pytest.raises(StreamError) as caught:
        Preparation(**options)
    assert str(caught.value) == sentence


def test_options_not_given_leave_a_preset_as_it_is():
    gdn = preset("gdn", "swat")
    assert gdn.with_options(trim_s=None, every=None) == gdn
    assert gdn.with_options(every=3) == replace(gdn, every=3)


def test_a_preset_nobody_published_is_refused():
    with pytest.raises(StreamError) as caught:
        preset("mine", "swat")
    assert str(caught.value) == (
        "`preset` must be one of raw, gdn, nsibf, tranad, geco; got 'mine'."
    )


@pytest.mark.parametrize("name", ["gdn", "nsibf", "tranad", "geco"])
def test_a_preset_without_a_convention_for_the_plant_is_refused(name):
    with pytest.raises(StreamError) as caught:
        preset(name, "mine")
    said = str(caught.value)
    assert said.startswith(f"`preset` '{name}' says nothing about mine")
    assert names(list(PRESETS[name])) in said
    assert "Use 'raw' and give every, sampling, label_rule and trim_s" in said


def test_raw_does_nothing_to_any_plant():
    assert preset("raw", "mine") == Preparation()


def swat_like(n_rows=449_919, gap_s=81):
    time = np.arange(n_rows, dtype=np.float64)
    time[n_rows // 2 :] += gap_s
    values = np.stack([time, time % 7], axis=1).astype(np.float32)
    return recording(values, tags=TAGS, time=time)


def test_gdn_counts_through_the_gap_of_swat():
    made = preset("gdn", "swat").test(swat_like())
    assert made.n_steps == 44_991
    assert len(made.breaks) == 2


def test_gdn_leaves_out_six_hours_of_train():
    train = swat_like(n_rows=496_800, gap_s=0)
    assert preset("gdn", "swat").train(train).n_steps == (496_800 - 21_600) // 10


def test_geco_fills_the_gap_of_swat():
    made = preset("geco", "swat").test(swat_like())
    assert made.n_steps == 450_000
    assert made.breaks.tolist() == [0]
    assert np.unique(np.diff(made.time)).tolist() == [1.0]


def test_nsibf_cuts_wadi_short():
    start = seconds("2017-10-09 18:00:00")
    time = start + np.arange(172_801.0)
    given = recording(np.zeros((172_801, 2), np.float32), tags=TAGS, time=time)
    made = preset("nsibf", "wadi").test(given)
    assert made.n_steps == 15_701
    assert made.step_s == 5.0


def test_tranad_takes_every_tenth_row_of_wadi():
    train = swat_like(n_rows=300_000, gap_s=0)
    made = preset("tranad", "wadi").train(train)
    assert made.n_steps == 20_000
    assert made.time[0] == 996
    np.testing.assert_array_equal(np.diff(made.time), 10)


def written(folder, n_rows=40):
    rows = "".join(f"{k},{k * k % 11},{k % 2}\n" for k in range(n_rows))
    folder.mkdir()
    for name in ("train", "test"):
        (folder / f"{name}.csv").write_text("time,LIT101,P101\n" + rows)
    return folder


def test_options_reach_ones_own_plant(tmp_path):
    made = open_testbed(written(tmp_path / "mine"), trim_s=10, every=5, sampling="last")
    assert made.train.time.tolist() == [14, 19, 24, 29, 34, 39]
    assert made.test.n_steps == 8
    assert made.notices[-2:] == (
        "The first 10 s of train were left out.",
        "Each row is made of 5 rows (last; label: any), counted from the start of a "
        "run; blocks that are not full were left out.",
    )


def test_moments_that_occur_in_test_can_be_cut_and_are_told(tmp_path):
    folder = written(tmp_path / "mine")
    rows = "".join(f"{k},{k},1\n" for k in range(30, 60))
    (folder / "test.csv").write_text("time,LIT101,P101\n" + rows)
    made = open_testbed(folder, cut_leak=True)
    assert made.train.n_steps == 30
    assert any(
        text.startswith("10 rows of train were left out") for text in made.notices
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"preset": "gdn"}, "`preset` 'gdn' says nothing about mine: "),
        ({"preset": "mine"}, "`preset` must be one of raw, gdn"),
        ({"evry": 2}, "`open_testbed` has no option 'evry' for "),
        ({"sampling": "mode"}, "`sampling` must be one of "),
        ({"every": 41}, "`every` is 41 rows, but no continuous run is that long"),
    ],
)
def test_options_that_do_not_fit_ones_own_plant_are_refused(
    options, sentence, tmp_path
):
    with pytest.raises(StreamError) as caught:
        open_testbed(written(tmp_path / "mine"), **options)
    assert str(caught.value).startswith(sentence)


def test_trimming_all_of_train_is_refused(tmp_path):
    with pytest.raises(StreamError, match="trim_s"):
        open_testbed(written(tmp_path / "mine"), trim_s=100)
