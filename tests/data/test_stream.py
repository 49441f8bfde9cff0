import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from strategies import ChunkedRows

from sightline import Attack, ResidualStream, StreamError
from sightline.data.row_tables import gather_rows
from sightline.data.segments import AttackOutcome, Segment, name_segments
from sightline.data.stream_input import seconds_of

TRAIN = np.arange(12.0).reshape(6, 2)
TEST = np.arange(10.0).reshape(5, 2) / 10
LABELS = [0, 1, 1, 0, -1]


def values_of(rows):
    return gather_rows(rows, np.arange(rows.n_rows))


def frame(library, columns):
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library](columns)


def columns_of(values, names="ab"):
    return {name: values[:, j] for j, name in enumerate(names)}


both_libraries = pytest.mark.parametrize("library", ["pandas", "polars"])


# Construction


def test_a_stream_keeps_what_it_is_given():
    stream = ResidualStream(
        TRAIN,
        TEST,
        LABELS,
        channels=["x", "y"],
        alarms=[0, 1, 0, 0, 0],
        score=[1, 2, 3, 4, 5],
        detector="GDN",
        testbed="SWaT",
        space="sensor",
        step_s=10,
        meta={"seed": 3},
    )
    np.testing.assert_array_equal(values_of(stream.train), TRAIN)
    np.testing.assert_array_equal(values_of(stream.test), TEST)
    assert stream.labels.tolist() == LABELS
    assert stream.alarms.tolist() == [0, 1, 0, 0, 0]
    assert stream.score.tolist() == [1, 2, 3, 4, 5]
    assert (stream.channels, stream.p) == (("x", "y"), 2)
    assert (stream.detector, stream.testbed, stream.space) == ("GDN", "SWaT", "sensor")
    assert (stream.step_s, stream.meta, stream.notices) == (10.0, {"seed": 3}, ())


def test_channels_without_names_are_numbered():
    assert ResidualStream(TRAIN, TEST).channels == ("channel_0", "channel_1")


def test_a_stream_without_labels_says_so():
    stream = ResidualStream(TRAIN, TEST)
    assert stream.labels.tolist() == [0] * 5
    assert stream.notices == (
        "No labels were given: every test row is taken as attack-free.",
    )


def test_float32_stays_float32():
    stream = ResidualStream(TRAIN.astype(np.float32), TEST)
    assert next(stream.train.chunks()).dtype == np.float32


def test_rows_are_taken_as_they_are():
    rows = ChunkedRows(TRAIN, [2])
    assert ResidualStream(rows, TEST).train is rows


def test_a_stream_cannot_be_changed_in_place():
    stream = ResidualStream(TRAIN, TEST)
    with pytest.raises(AttributeError):
        stream.labels = None


def test_repr_counts_in_words():
    stream = ResidualStream(TRAIN[:, :1], TEST[:, :1], LABELS, name="mine")
    assert repr(stream) == (
        "ResidualStream 'mine': 1 channel, 6 train rows, 5 test rows, 1 attack"
    )


def test_breaks_and_step_come_from_the_time_stamps():
    stream = ResidualStream(
        TRAIN, TEST, train_time=[0, 1, 2, 9, 10, 11], test_time=[0, 2, 4, 50, 52]
    )
    assert stream.train_breaks.tolist() == [0, 3]
    assert stream.test_breaks.tolist() == [0, 3]
    assert stream.step_s == 2.0


def test_attack_segments_are_cut_at_breaks_and_named_by_overlap():
    stream = ResidualStream(
        TRAIN,
        TEST,
        [1, 1, 1, 0, 1],
        test_breaks=[0, 2],
        segments=[Attack(id="A", start=0, stop=1), Attack(id="B", start=1, stop=2)],
    )
    found = [(a.id, a.start, a.stop) for a in stream.attack_segments()]
    rest = [("unlisted-2", 2, 3), ("unlisted-3", 4, 5)]
    assert found == [("A", 0, 1), ("B", 1, 2), *rest]
    by_runs = [(a.id, a.start, a.stop) for a in stream.attack_segments(apart=False)]
    assert by_runs == [("A+B", 0, 2), *rest]


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        ([(2, 5), (5, 9)], [("1", 2, 5), ("2", 5, 9)]),
        # Inclusive times: the last row of one is the first of the next.
        ([(2, 6), (5, 9)], [("1", 2, 5), ("2", 5, 9)]),
        ([(5, 9), (2, 5)], [("2", 2, 5), ("1", 5, 9)]),
        # Both run at once, or a labelled row lies between them: one segment.
        ([(2, 7), (5, 9)], [("1+2", 2, 9)]),
        ([(2, 9), (4, 6)], [("1+2", 2, 9)]),
        ([(2, 9), (8, 9)], [("1+2", 2, 9)]),
        ([(2, 4), (5, 9)], [("1+2", 2, 9)]),
        ([(2, 3), (3, 6), (4, 6), (6, 9)], [("1", 2, 3), ("2+3", 3, 6), ("4", 6, 9)]),
        ([(0, 4), (4, 12)], [("1", 2, 4), ("2", 4, 9)]),
        ([(0, 2), (2, 9)], [("2", 2, 9)]),
    ],
)
def test_attacks_that_touch_are_segments_of_their_own(listed, wanted):
    attacks = [
        Attack(id=str(k), start=start, stop=stop, note=f"note {k}")
        for k, (start, stop) in enumerate(listed, start=1)
    ]
    found = name_segments([Segment(2, 9)], attacks)
    assert [(a.id, a.start, a.stop) for a in found] == wanted
    assert [a.id for a in name_segments([Segment(2, 9)], attacks, apart=False)] == [
        "+".join(a.id for a in attacks if Segment(2, 9).overlap(a.segment))
    ]


def test_an_outcome_is_kept_where_all_attacks_of_a_segment_have_it():
    words = [AttackOutcome.FAILED, AttackOutcome.FAILED, AttackOutcome.BLOCKED]
    attacks = [
        Attack(id=str(k), start=2, stop=9, outcome=word) for k, word in enumerate(words)
    ]
    (both,) = name_segments([Segment(2, 9)], attacks[:2])
    (mixed,) = name_segments([Segment(2, 9)], attacks)
    assert (both.outcome, mixed.outcome) == (AttackOutcome.FAILED, None)


def test_a_named_attack_without_a_labelled_row_is_told():
    stream = ResidualStream(
        TRAIN, TEST, LABELS, segments=[Attack(id="ghost", start=3, stop=5)]
    )
    assert stream.notices == ("Named attacks without a labelled test row: 'ghost'.",)


def test_time_stamps_that_jitter_into_many_runs_are_told():
    seconds = np.cumsum(np.where(np.arange(400) % 2, 1.0, 2.0))
    test = np.zeros((400, 2))
    jittery = ResidualStream(TRAIN, test, np.zeros(400, int), test_time=seconds)
    assert len(jittery.test_breaks) == 200
    assert "400 test rows into 200 runs" in jittery.notices[0]
    one_run = ResidualStream(
        TRAIN, test, np.zeros(400, int), test_time=seconds, test_breaks=[0]
    )
    assert one_run.notices == ()


SENTENCES = [
    ({"train": TRAIN[:, 0]}, "`train` must have shape (rows, channels)"),
    ({"test": TEST[:, :1]}, "`test` must have the 2 channels of `train`; it has 1"),
    ({"train": TRAIN[:1]}, "`train` must have at least 2 rows"),
    ({"train": TRAIN[:, :0], "test": TEST[:, :0]}, "at least one channel"),
    ({"test": TEST[:0], "labels": []}, "`test` must have at least 1 row"),
    ({"labels": [0, 1]}, "`labels` must have one value for each test row; got 2 for 5"),
    ({"labels": [0, 1, 2, 0, 0]}, "`labels` must be 0, 1, -1; row 2 is 2"),
    ({"labels": [1, 1, 1, 1, -1]}, "`labels` must mark some test rows as normal (0)"),
    ({"labels": ["n"] * 5}, "`labels` must be 0, 1, -1; got type <U1"),
    ({"alarms": [0, 1]}, "`alarms` must have one value for each test row"),
    ({"alarms": [0, 1, -1, 0, 0]}, "`alarms` must be 0, 1; row 2 is -1"),
    ({"score": [0.0, 1.0]}, "`score` must have one value for each test row"),
    ({"score": [0, np.nan, 0, 0, 0]}, "`score` must be finite; row 1 is nan"),
    ({"channels": ["x"]}, "`channels` must name every channel; got 1 names for 2"),
    ({"channels": ["x", "x"]}, "`channels` must be unique; 'x' occurs twice"),
    (
        {"calibration": TRAIN[:, :1]},
        "`calibration` must have the 2 channels of `train`",
    ),
    ({"calibration": TRAIN[:0]}, "`calibration` must have at least 1 row"),
    (
        {"train_time": [0, 1]},
        "`train_time` must have one value for each train row; got 2 for 6",
    ),
    (
        {"test_time": [0, 1]},
        "`test_time` must have one value for each test row; got 2 for 5",
    ),
    ({"test_time": ["noon"] * 5}, "`test_time` must be seconds, dates, or ISO text"),
    ({"train_breaks": [6]}, "`train_breaks` must lie within the 6 rows"),
    ({"test_breaks": [0.5]}, "`test_breaks` must be a list of row numbers"),
    ({"step_s": -1}, "`step_s` must be positive seconds; got -1"),
    (
        {"segments": [Attack(id="late", start=2, stop=9)]},
        "attack 'late' ends at row 9, after the 5 test rows",
    ),
    ({"segments": [Attack(id="odd", start=3, stop=3)]}, "needs 0 <= start < stop"),
    ({"telemetry_train": TRAIN}, "`telemetry_test` must be given together"),
    (
        {"telemetry_train": TRAIN[:3], "telemetry_test": TEST},
        "`telemetry_train` must have the rows of its residuals; got 3 for 6",
    ),
    (
        {"telemetry_train": TRAIN, "telemetry_test": TEST[:, :1]},
        "`telemetry_test` must have the 2 channels of `telemetry_train`; it has 1",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), SENTENCES)
def test_what_makes_no_stream_is_refused_in_a_sentence(change, sentence):
    with pytest.raises(StreamError) as caught:
        ResidualStream(**({"train": TRAIN, "test": TEST, "labels": LABELS} | change))
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(".")


# Time


@pytest.mark.parametrize(
    "values",
    [
        [0, 60],
        np.array(["1970-01-01T00:00", "1970-01-01T00:01"], "datetime64[ns]"),
        ["1970-01-01 00:00:00", "1970-01-01 00:01:00"],
        ["1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z"],
    ],
)
def test_time_in_any_form_becomes_seconds(values):
    assert seconds_of(values, "time").tolist() == [0.0, 60.0]


def test_a_missing_time_is_named():
    values = np.array(["2020-01-01", "NaT"], "datetime64[s]")
    with pytest.raises(StreamError, match="`time` must be complete; row 1 has no time"):
        seconds_of(values, "time")


# Frames


@both_libraries
def test_frames_bring_their_channel_names(library):
    stream = ResidualStream(
        frame(library, columns_of(TRAIN)), frame(library, columns_of(TEST))
    )
    assert stream.channels == ("a", "b")
    np.testing.assert_array_equal(values_of(stream.test), TEST)


@both_libraries
def test_tables_are_matched_by_channel_name(library):
    test = columns_of(TEST)
    stream = ResidualStream.from_tables(
        frame(library, columns_of(TRAIN)),
        frame(library, {"label": LABELS, "b": test["b"], "a": test["a"]}),
        label="label",
        detector="mine",
    )
    assert stream.channels == ("a", "b")
    assert stream.labels.tolist() == LABELS
    assert stream.detector == "mine"
    np.testing.assert_array_equal(values_of(stream.train), TRAIN)
    np.testing.assert_array_equal(values_of(stream.test), TEST)


@both_libraries
def test_tables_bring_time_stamps(library):
    second = datetime.timedelta(seconds=1)
    stamps = [datetime.datetime(2020, 1, 1) + k * second for k in (0, 1, 2, 60, 61)]
    stream = ResidualStream.from_tables(
        frame(library, columns_of(TRAIN)),
        frame(library, columns_of(TEST) | {"t": stamps}),
        time="t",
    )
    assert stream.test_breaks.tolist() == [0, 3]
    assert stream.step_s == 1.0
    assert stream.train_time is None


@both_libraries
def test_tables_bring_time_stamps_as_iso_text(library):
    stamps = [f"2020-01-01 00:00:{second:02d}" for second in (0, 1, 2, 30, 31)]
    stream = ResidualStream.from_tables(
        frame(library, columns_of(TRAIN)),
        frame(library, columns_of(TEST) | {"t": stamps}),
        time="t",
    )
    assert stream.test_breaks.tolist() == [0, 3]


@both_libraries
def test_tables_bring_time_stamps_with_a_zone(library):
    zone = datetime.UTC
    stamps = [datetime.datetime(2020, 1, 1, 0, 0, k, tzinfo=zone) for k in range(5)]
    stream = ResidualStream.from_tables(
        frame(library, columns_of(TRAIN)),
        frame(library, columns_of(TEST) | {"t": stamps}),
        time="t",
    )
    assert stream.step_s == 1.0


@both_libraries
def test_train_rows_to_be_ignored_are_left_out_with_their_time(library):
    train = columns_of(TRAIN) | {"y": [0, 0, -1, 0, 0, 0], "t": [0, 1, 2, 3, 4, 5]}
    test = columns_of(TEST) | {"y": LABELS, "t": range(5)}
    stream = ResidualStream.from_tables(
        frame(library, train), frame(library, test), label="y", time="t"
    )
    np.testing.assert_array_equal(values_of(stream.train), np.delete(TRAIN, 2, axis=0))
    assert stream.train_time.tolist() == [0, 1, 3, 4, 5]


@both_libraries
def test_what_is_given_beside_the_tables_loses_the_same_train_rows(library):
    train = columns_of(TRAIN) | {"y": [0, 0, -1, 0, 0, 0]}
    stream = ResidualStream.from_tables(
        frame(library, train),
        frame(library, columns_of(TEST) | {"y": LABELS}),
        label="y",
        train_time=[0, 1, 2, 3, 4, 5],
        train_breaks=[0, 2, 4],
    )
    assert stream.train_time.tolist() == [0, 1, 3, 4, 5]
    assert stream.train_breaks.tolist() == [0, 2, 3]


@both_libraries
def test_whole_number_and_float32_columns_are_read_together(library):
    train = {"a": np.arange(6), "b": np.arange(6, dtype=np.float32)}
    test = {"a": np.arange(5), "b": np.arange(5, dtype=np.float32)}
    stream = ResidualStream.from_tables(frame(library, train), frame(library, test))
    assert values_of(stream.train)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_columns_numbered_by_pandas_can_be_named_as_text():
    test = pd.DataFrame(np.column_stack([TEST, np.abs(LABELS)]))
    stream = ResidualStream.from_tables(pd.DataFrame(TRAIN), test, label="2")
    assert stream.channels == ("0", "1")
    assert stream.labels.tolist() == [0, 1, 1, 0, 1]


TABLE_SENTENCES = [
    ({}, {}, {"label": "y"}, "`test` has no column 'y' to take the label from"),
    ({}, {}, {"time": "t"}, "`test` has no column 't' to take the time from"),
    ({"c": range(6)}, {}, {}, "only in train: 'c'; only in test: none"),
    ({}, {"c": range(5)}, {}, "only in train: none; only in test: 'c'"),
    ({"c": ["x"] * 6}, {"c": ["x"] * 5}, {}, "convert it to float first"),
    ({"c": [True] * 6}, {"c": [True] * 5}, {}, "column 'c' must hold numbers"),
    (
        {"y": [0, 0, 1, 1, 0, 0]},
        {"y": LABELS},
        {"label": "y"},
        "`train` must be attack-free, for the normal reference is fitted on it; "
        "row 2 is the first of 2",
    ),
]


@both_libraries
@pytest.mark.parametrize(("in_train", "in_test", "named", "sentence"), TABLE_SENTENCES)
def test_tables_that_make_no_stream_are_refused(
    library, in_train, in_test, named, sentence
):
    train = frame(library, columns_of(TRAIN) | in_train)
    test = frame(library, columns_of(TEST) | in_test)
    with pytest.raises(StreamError) as caught:
        ResidualStream.from_tables(train, test, **named)
    assert sentence in str(caught.value)


def test_arrays_are_no_tables():
    with pytest.raises(StreamError, match="`train` must be a pandas or polars frame"):
        ResidualStream.from_tables(TRAIN, TEST)


def test_a_column_that_occurs_twice_is_refused():
    train = pd.DataFrame(TRAIN, columns=["a", "a"])
    with pytest.raises(StreamError, match="`train columns` must be unique; 'a'"):
        ResidualStream.from_tables(train, train)


def test_frames_in_another_order_are_refused_where_order_counts():
    train, test = pd.DataFrame(columns_of(TRAIN)), pd.DataFrame(columns_of(TEST))
    with pytest.raises(StreamError, match="in the same order"):
        ResidualStream(train, test[["b", "a"]])


def test_a_calibration_frame_in_another_order_is_not_taken_as_it_stands():
    train, test = pd.DataFrame(columns_of(TRAIN)), pd.DataFrame(columns_of(TEST))
    with pytest.raises(StreamError, match="calibration"):
        ResidualStream(train, test, calibration=train[["b", "a"]])


def test_a_telemetry_frame_in_another_order_is_not_taken_as_it_stands():
    train, test = pd.DataFrame(columns_of(TRAIN)), pd.DataFrame(columns_of(TEST))
    with pytest.raises(StreamError, match="telemetry"):
        ResidualStream(
            TRAIN, TEST, telemetry_train=train, telemetry_test=test[["b", "a"]]
        )


def test_telemetry_frames_bring_their_names():
    stream = ResidualStream(
        TRAIN,
        TEST,
        telemetry_train=pd.DataFrame(columns_of(TRAIN, "uv")),
        telemetry_test=pd.DataFrame(columns_of(TEST, "uv")),
    )
    assert stream.telemetry_channels == ("u", "v")


# Replacing


def test_replace_changes_one_field_and_keeps_the_others():
    stream = ResidualStream(
        TRAIN, TEST, LABELS, channels=["x", "y"], step_s=2, test_breaks=[3]
    )
    changed = stream.replace(detector="other")
    assert changed.detector == "other"
    assert changed.train is stream.train
    assert changed.test_breaks.tolist() == [0, 3]
    assert (changed.channels, changed.step_s) == (("x", "y"), 2.0)
    assert stream.detector is None


def test_replace_checks_anew():
    with pytest.raises(StreamError, match="`labels` must be 0, 1, -1"):
        ResidualStream(TRAIN, TEST, LABELS).replace(labels=[5] * 5)


def test_replacing_labels_takes_back_the_notice_that_there_are_none():
    assert ResidualStream(TRAIN, TEST).replace(labels=LABELS).notices == ()


def test_replacing_time_finds_its_breaks():
    stream = ResidualStream(TRAIN, TEST, LABELS)
    assert stream.replace(test_time=[0, 1, 2, 30, 31]).test_breaks.tolist() == [0, 3]


def test_replacing_facts_checks_no_rows_again(monkeypatch):
    stream = ResidualStream(TRAIN, TEST, LABELS, test_time=[0, 1, 2, 30, 31])

    def refuse(*arguments):
        raise AssertionError("the labels were checked again")

    monkeypatch.setattr("sightline.data.arrays.check_labels", refuse)
    changed = stream.replace(step_s=10, name="other", meta={"seed": 1}, notices=["a"])
    assert (changed.step_s, changed.name, changed.notices) == (10.0, "other", ("a",))
    assert changed.meta == {"seed": 1}
    assert changed.labels is stream.labels
    assert (stream.step_s, stream.name) == (1.0, "stream")
    assert changed.replace(step_s=None).step_s == 1.0
    with pytest.raises(StreamError, match="`step_s` must be positive seconds"):
        stream.replace(step_s=-1)
    with pytest.raises(AssertionError, match="checked again"):
        stream.replace(labels=LABELS)


def test_an_unknown_field_cannot_be_replaced():
    with pytest.raises(TypeError, match="nonsense"):
        ResidualStream(TRAIN, TEST).replace(nonsense=1)
