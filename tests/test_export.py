"""From a fitted detector to a stream: the right rows with the right labels."""

from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sightline import (
    Attack,
    Recording,
    StreamError,
    Tag,
    evaluate,
    read_stream,
    write_stream,
)
from sightline.detectors import TrainingMean
from sightline.detectors.base import Residuals, Split
from sightline.export import export_stream
from sightline.progress import Step, StepKind

TAGS = (
    Tag(name="LIT101", stage="1"),
    Tag(name="P101", stage="1", role="actuator"),
    Tag(name="LIT201", stage="2"),
    Tag(name="CLOCK"),
)
NAMES = tuple(tag.name for tag in TAGS)


def with_added(one, amount, *cells):
    """Return a recording with something added to cells; its arrays are read-only."""
    values = one.values.copy()
    values[cells] += amount
    return replace(one, values=values)


def recording(n_steps, *, seed=0, **known):
    values = np.random.default_rng(seed).normal(size=(n_steps, len(TAGS)))
    return Recording(values=values, tags=TAGS, **known)


def labelled(n_steps, attacks=(), ignored=()):
    labels = np.zeros(n_steps, np.int8)
    for code, parts in ((-1, ignored), (1, attacks)):
        for start, stop in parts:
            labels[start:stop] = code
    return labels


def runs_of(seen):
    return pairwise([*seen.breaks, seen.n_steps])


class Forecaster:
    """Expects the mean of the two rows before; none for the first two of a run."""

    def __init__(self):
        self.seen = []

    def fit(self, recording):
        return self

    def residuals(self, recording):
        self.seen.append(recording)
        index = [t for a, b in runs_of(recording) for t in range(a + 2, b)]
        x = recording.values
        made = [x[t] - (x[t - 1] + x[t - 2]) / 2 for t in index]
        return Residuals(values=np.array(made), index=index, channels=NAMES)


class Blocks:
    """One row of three steps, blocks begin anew in each run; LIT201 is left out."""

    def fit(self, recording):
        self.mean = recording.values.mean(axis=0)
        return self

    def residuals(self, recording):
        index = [t for a, b in runs_of(recording) for t in range(a, b - 2, 3)]
        medians = [np.median(recording.values[t : t + 3], axis=0) for t in index]
        kept = [0, 1, 3]
        return Residuals(
            values=(np.array(medians) - self.mean)[:, kept],
            index=index,
            channels=tuple(NAMES[k] for k in kept),
            every=3,
        )


class Split12:
    """Knows what it learned from; the first row of each run is warm-up."""

    card = SimpleNamespace(name="split12")

    def fit(self, recording):
        n_steps = recording.n_steps
        self.split = Split(
            trained=np.arange(2, n_steps // 2),
            held_out=np.arange(n_steps // 2 + 2, n_steps),
        )
        return self

    def residuals(self, recording):
        is_warm_up = np.zeros(recording.n_steps, bool)
        is_warm_up[recording.breaks] = True
        return Residuals(
            values=recording.values.astype(np.float32),
            index=np.arange(recording.n_steps),
            channels=NAMES,
            space="sensor",
            is_warm_up=is_warm_up,
            scale=np.array([1, 2, 3, 4.5], np.float32),
            notices=("Two cells were filled.", f"{recording.n_steps} steps."),
        )

    def about(self):
        return {"detector": "split12", "preset": "export", "settings": {"seed": 3}}


@dataclass
class Given:
    """Returns what it was given: first for train, then for test."""

    made: list
    split: Split | None = None

    def fit(self, recording):
        return self

    def residuals(self, recording):
        return self.made.pop(0)


def rows_at(index, **known):
    index = np.asarray(index, np.int64)
    values = np.stack([index, -index], axis=1).astype(float)
    return Residuals(**({"values": values, "index": index, "channels": "ab"} | known))


# ---- by hand -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (NAMES, ()),
        (NAMES[:3], (f"1 of 4 tags has no residual of its own: {NAMES[3]}.",)),
        (
            NAMES[2:],
            (f"2 of 4 tags have no residual of their own: {NAMES[0]} and {NAMES[1]}.",),
        ),
        (("latent 1", "latent 2"), ()),
    ],
)
def test_tags_without_a_residual_are_named(channels, expected):
    made = [
        Residuals(values=np.ones((5, len(channels))), index=np.arange(5), channels=c)
        for c in (channels, channels)
    ]
    stream = export_stream(Given(made), recording(5), recording(5, seed=1))
    assert stream.notices == expected


def test_a_forecaster_row_by_row():
    train = recording(6, breaks=[0, 3], time=[0, 10, 20, 100, 110, 120])
    test = recording(
        9,
        seed=1,
        breaks=[0, 5],
        time=[0, 10, 20, 30, 40, 500, 510, 520, 530],
        labels=[0, 0, 0, 1, 1, 1, -1, 0, 0],
        attacks=(
            Attack(id="A1", start=3, stop=6, targets=("P101",)),
            Attack(id="A2", start=5, stop=7),
        ),
    )
    stream = export_stream(Forecaster(), train, test)
    # Rows: train steps 2, 5; test steps 2, 3, 4, 7, 8.
    x = test.values
    assert_array_equal(stream.test.values[1], x[3] - (x[2] + x[1]) / 2)
    assert_array_equal(stream.labels, [0, 1, 1, 0, 0])
    assert_array_equal(stream.test_time, [20, 30, 40, 520, 530])
    assert_array_equal(stream.test_breaks, [0, 3])
    assert_array_equal(stream.train_time, [20, 120])
    assert_array_equal(stream.train_breaks, [0, 1])
    assert stream.segments == (Attack(id="A1", start=1, stop=3, targets=("P101",)),)
    assert stream.notices == ("test: no residual belongs to a step of 'A2'.",)
    assert stream.calibration is None
    assert stream.step_s == 10
    assert (stream.detector, stream.name, stream.testbed) == ("Forecaster",) * 2 + (
        None,
    )
    assert (stream.channels, stream.space) == (NAMES, "observation")
    assert stream.meta == {
        "groups": {"1": ["LIT101", "P101"], "2": ["LIT201"]},
        "rows": {"every": 1, "recording_step_s": 10.0, "trim_s": 0.0},
    }
    assert stream.telemetry_channels == train.channels


def test_rows_made_of_three_steps():
    train = recording(9, step_s=5.0)
    test = recording(
        17,
        step_s=5.0,
        breaks=[0, 10],
        #       0        3        6        .  10       13       .
        labels=[0, 0, 1, 0, -1, 0, -1, 1, 0, 1, 0, 0, 0, 0, 0, -1, 1],
        attacks=(
            Attack(id="A1", start=2, stop=3),
            Attack(id="A2", start=7, stop=10),
            Attack(id="A3", start=9, stop=10),
            Attack(id="A4", start=16, stop=17),
        ),
    )
    stream = export_stream(Blocks().fit(train), train, test, testbed="mill")
    # Rows: steps 0-2, 3-5, 6-8, 10-12, 13-15; 9 and 16 are in none.
    assert_array_equal(stream.labels, [1, -1, 1, 0, -1])
    assert_array_equal(stream.test_breaks, [0, 3])
    assert_array_equal(stream.train_breaks, [0])
    assert [(a.id, a.start, a.stop) for a in stream.segments] == [
        ("A1", 0, 1),
        ("A2", 2, 3),
    ]
    assert "'A3' and 'A4'" in stream.notices[0]
    assert stream.step_s == 15
    assert stream.test_time is None
    assert stream.name == "Blocks-mill"
    # Only one stage is left: nothing to tell apart.
    assert "groups" not in stream.meta


def test_split_warm_up_and_what_is_told():
    train = recording(12, breaks=[0, 4])
    test = recording(
        6,
        breaks=[0, 3],
        labels=[0, 0, 0, 1, 1, 0],
        attacks=(Attack(id="A1", start=3, stop=5),),
    )
    stream = export_stream(Split12().fit(train), train, test, name="mine")
    assert_array_equal(stream.train.values, train.values[[2, 3, 5]].astype("f4"))
    assert stream.train.values.dtype == np.float32
    # Step 4 is warm-up, so that a row is missing besides.
    assert_array_equal(stream.train_breaks, [0, 2])
    assert_array_equal(stream.calibration.values, train.values[8:].astype("f4"))
    assert_array_equal(stream.labels, [-1, 0, 0, -1, 1, 0])
    assert [(a.start, a.stop) for a in stream.segments] == [(3, 5)]
    assert (stream.name, stream.detector, stream.space) == ("mine", "mine", "sensor")
    assert stream.meta == {
        "detector_name": "split12",
        "detector_preset": "export",
        "detector_settings": {"seed": 3},
        "scale": [1.0, 2.0, 3.0, 4.5],
        "groups": {"1": ["LIT101", "P101"], "2": ["LIT201"]},
        "rows": {"every": 1, "trim_s": 0.0},
    }
    assert stream.notices == (
        "train and test: Two cells were filled.",
        "train: 12 steps.",
        "test: 6 steps.",
    )


def test_telemetry_is_what_was_measured_at_each_row():
    train, test = recording(12), recording(9, seed=1)
    stream = export_stream(Blocks().fit(train), train, test, telemetry=True)
    assert_array_equal(stream.telemetry_train.values, train.values[::3])
    assert_array_equal(stream.telemetry_test.values, test.values[::3])
    assert stream.telemetry_channels == NAMES
    stream = export_stream(Split12().fit(train), train, test, telemetry=True)
    assert_array_equal(stream.telemetry_train.values, train.values[2:6])


def test_missing_cells_of_telemetry_hold_the_last_value_of_their_run():
    train, test = recording(12), recording(9, seed=1, breaks=[0, 3])
    train, test = (
        with_added(train, np.nan, [5], [1]),
        with_added(test, np.nan, [3, 8], [0, 2]),
    )
    made = [rows_at(range(12)), rows_at(range(9))]
    stream = export_stream(Given(made), train, test, telemetry=True)
    assert stream.telemetry_train.values[5, 1] == train.values[4, 1]
    assert stream.telemetry_test.values[3, 0] == pytest.approx(
        train.values[:, 0].mean()
    )
    assert stream.telemetry_test.values[8, 2] == test.values[7, 2]
    assert np.isnan(test.values[3, 0])


def test_rows_of_train_that_are_not_normal_are_left_out_and_told():
    train = recording(12, labels=labelled(12, [(2, 4)], [(8, 9)]))
    made = [rows_at(range(12)), rows_at(range(5))]
    split = Split(trained=np.arange(6), held_out=np.arange(6, 12))
    stream = export_stream(Given(made, split), train, recording(5))
    assert_array_equal(stream.train.values[:, 0], [0, 1, 4, 5])
    assert_array_equal(stream.calibration.values[:, 0], [6, 7, 9, 10, 11])
    assert stream.notices == ("train: 3 rows not labelled normal were left out.",)


def test_an_attack_within_warm_up_alone_is_told():
    test = recording(
        6, labels=labelled(6, [(0, 1)]), attacks=(Attack(id="A1", start=0, stop=1),)
    )
    stream = export_stream(Split12().fit(recording(12)), recording(12), test)
    assert stream.attack_segments() == []
    assert "Named attacks without a labelled test row: 'A1'." in stream.notices


def test_a_detector_sees_neither_labels_nor_attacks():
    train = recording(8, labels=labelled(8, ignored=[(6, 8)]))
    test = recording(
        9, labels=labelled(9, [(4, 6)]), attacks=(Attack(id="A1", start=4, stop=6),)
    )
    detector = Forecaster()
    export_stream(detector, train, test)
    assert [seen.n_steps for seen in detector.seen] == [8, 9]
    for seen in detector.seen:
        assert not seen.labels.any()
        assert seen.attacks == ()
    assert test.labels.sum() == 2


def test_progress_is_told_of_both_recordings():
    told = []
    export_stream(Forecaster(), recording(8), recording(9), progress=told.append)
    assert told == [
        Step(StepKind.RESIDUALS, 0, 1, "of train"),
        Step(StepKind.RESIDUALS, 1, 1, "of train"),
        Step(StepKind.RESIDUALS, 0, 1, "of test"),
        Step(StepKind.RESIDUALS, 1, 1, "of test"),
    ]


def test_rows_whose_blocks_begin_elsewhere_than_those_learned_from():
    # Learned from blocks at 2, 5 and 8, held out at 14 and 17; rows begin at 0, 3, ...
    split = Split(trained=np.array([2, 5, 8]), held_out=np.array([14, 17]))
    made = [rows_at(range(0, 20, 3), every=3), rows_at(range(5))]
    stream = export_stream(Given(made, split), recording(20), recording(5))
    assert_array_equal(stream.train.values[:, 0], [3, 6])
    # The last row has but two steps, 18 and 19.
    assert_array_equal(stream.calibration.values[:, 0], [15, 18])


def test_a_trimmed_train_keeps_its_rows():
    train = recording(200, step_s=1.0, breaks=[0, 103])
    detector = TrainingMean(every=5, trim_s=12.0, validation_share=0.0).fit(train)
    stream = export_stream(detector, train, recording(50, step_s=1.0))
    # Steps 15-19 ... 95-99, then 103-107 ... 193-197.
    assert stream.train.n_rows == 17 + 19
    assert_array_equal(stream.train_breaks, [0, 17])
    assert (stream.detector, stream.step_s) == ("mean", 5.0)
    assert stream.meta["detector_settings"]["every"] == 5


# ---- refused -----------------------------------------------------------------------


def refused(made, *words, split=None, n_train=10, n_test=10, **options):
    with pytest.raises(StreamError) as caught:
        export_stream(
            Given(made, split), recording(n_train), recording(n_test), **options
        )
    text = str(caught.value)
    assert text.endswith(".")
    assert all(word in text for word in words), text


def test_channels_that_differ_are_refused():
    train = rows_at(range(10))
    refused([train, rows_at(range(10), channels=("a", "c"))], "'b' and 'c'")
    refused([train, rows_at(range(10), channels=("b", "a"))], "order differs")


def test_recordings_that_differ_bring_no_telemetry():
    test = replace(recording(10), tags=(*TAGS[:3], Tag(name="OTHER")))
    with pytest.raises(StreamError, match="'CLOCK' and 'OTHER'"):
        export_stream(
            Given([rows_at(range(10))] * 2), recording(10), test, telemetry=True
        )


def test_a_train_without_rows_is_refused():
    warm = rows_at(range(10), is_warm_up=np.ones(10, bool))
    refused([warm, rows_at(range(10))], "None of the 10 rows", "longer recording")
    nothing = Split(trained=np.arange(0), held_out=np.arange(10))
    refused([rows_at(range(10))] * 2, "None of the 10 rows", split=nothing)
    empty = rows_at([], values=np.empty((0, 2)))
    refused([empty, rows_at(range(10))], "None of the 0 rows")


def test_a_test_without_rows_is_refused():
    refused([rows_at(range(10)), rows_at([], values=np.empty((0, 2)))], "`test`")


def test_another_recording_than_the_fitted_one_is_refused():
    split = Split(trained=np.arange(5), held_out=np.arange(5, 11))
    refused([rows_at(range(10))] * 2, "10 steps", "fitted on", split=split)


def test_steps_beyond_the_recording_are_refused():
    refused([rows_at(range(11)), rows_at(range(10))], "train", "10 steps", "0 to 10")
    refused([rows_at(range(10)), rows_at(range(-1, 5))], "test", "-1 to 4")


# ---- against an oracle that walks step by step -------------------------------------

N_TRAIN = 15


@st.composite
def cases(draw):
    """Draw a recording with attacks, and rows of a detector that skips some steps."""
    n = draw(st.integers(4, 40))
    every = draw(st.integers(1, 4))
    steps = st.lists(st.integers(0, n - 1), min_size=1, unique=True)
    if draw(st.booleans()):  # rows that mostly follow one another
        gone = draw(st.sets(st.integers(0, n - 1), max_size=3))
        index = [t for t in range(draw(st.integers(0, 2)), n, every) if t not in gone]
    else:
        index = sorted(draw(steps))
    labels = np.array(
        draw(st.lists(st.sampled_from([0, 0, 1, -1]), min_size=n, max_size=n))
    )
    breaks = sorted({0, *draw(st.sets(st.integers(0, n - 1), max_size=4))})
    bounds = st.tuples(st.integers(0, n - 1), st.integers(1, 8))
    attacks = tuple(
        Attack(id=str(k), start=start, stop=min(start + length, n))
        for k, (start, length) in enumerate(draw(st.lists(bounds, max_size=5)))
    )
    warm = np.array(
        draw(st.lists(st.booleans(), min_size=len(index), max_size=len(index)))
    )
    made = (index or [0], every, warm if index else np.zeros(1, bool))
    test = recording(n, labels=labels, breaks=breaks, attacks=attacks, step_s=2.0)
    return test, *made


def steps_of(first, every, n):
    return range(first, min(first + every, n))


def label_of(test, first, every, is_warm):
    codes = {int(test.labels[t]) for t in steps_of(first, every, test.n_steps)}
    if is_warm:
        return -1
    return 1 if 1 in codes else -1 if -1 in codes else 0


@given(cases())
def test_labels_attacks_and_breaks_of_test_are_those_of_its_steps(case):
    test, index, every, warm = case
    wanted = [label_of(test, t, every, w) for t, w in zip(index, warm, strict=True)]
    made = rows_at(index, every=every, is_warm_up=warm)
    detector = Given([rows_at(range(N_TRAIN)), made])
    if 0 not in wanted:
        with pytest.raises(StreamError, match="some test rows as normal"):
            export_stream(detector, recording(N_TRAIN), test)
        return
    stream = export_stream(detector, recording(N_TRAIN), test)
    assert_array_equal(stream.labels, wanted)
    assert stream.step_s == 2.0 * every
    touched = {}
    for attack in test.attacks:
        span = set(range(attack.start, attack.stop))
        rows = [
            k
            for k, t in enumerate(index)
            if span & set(steps_of(t, every, test.n_steps))
        ]
        if rows:
            touched[attack.id] = (rows[0], rows[-1] + 1)
            assert rows == list(range(rows[0], rows[-1] + 1))
    assert {a.id: (a.start, a.stop) for a in stream.segments} == touched
    begins = [0]
    for k, (before, now) in enumerate(pairwise(index), start=1):
        crossed = any(b in range(before + 1, now + 1) for b in test.breaks)
        if crossed or now - before > every:
            begins.append(k)
    assert_array_equal(stream.test_breaks, begins)


@given(cases(), st.data())
def test_train_and_calibration_are_the_rows_of_the_split(case, data):
    train, index, every, warm = case
    place = st.sampled_from(["trained", "held out", "neither"])
    n = train.n_steps
    places = data.draw(st.lists(place, min_size=n, max_size=n))
    trained, held_out = (
        np.array([t for t in range(n) if places[t] == where], np.int64)
        for where in ("trained", "held out")
    )
    kept = [
        t for t, w in zip(index, warm, strict=True) if label_of(train, t, every, w) == 0
    ]

    def is_part(t, firsts):
        known = {int(first) + k for first in firsts for k in range(every)}
        return known.issuperset(steps_of(t, every, n))

    wanted = [t for t in kept if is_part(t, trained)]
    made = rows_at(index, every=every, is_warm_up=warm)
    detector = Given(
        [made, rows_at(range(5))], Split(trained=trained, held_out=held_out)
    )
    if len(wanted) < 2:
        with pytest.raises(StreamError, match="train"):
            export_stream(detector, train, recording(5))
        return
    stream = export_stream(detector, train, recording(5))
    assert_array_equal(stream.train.values[:, 0], wanted)
    apart = [t for t in kept if is_part(t, held_out)]
    if apart:
        assert_array_equal(stream.calibration.values[:, 0], apart)
    else:
        assert stream.calibration is None
    begins = [0]
    for k, (before, now) in enumerate(pairwise(wanted), start=1):
        crossed = any(b in range(before + 1, now + 1) for b in train.breaks)
        if crossed or now - before > every:
            begins.append(k)
    assert_array_equal(stream.train_breaks, begins)


@given(st.lists(st.sampled_from([0, 1, -1]), min_size=21, max_size=21))
@settings(max_examples=20)
def test_labels_change_nothing_but_labels(codes):
    # The last block is normal, or there would be no stream.
    labels = [*codes, 0, 0, 0]
    train = recording(24)
    bare = export_stream(Blocks().fit(train), train, recording(24, seed=2))
    told = export_stream(
        Blocks().fit(train), train, recording(24, seed=2, labels=labels)
    )
    assert_array_equal(bare.test.values, told.test.values)
    assert_array_equal(bare.train.values, told.train.values)
    assert_array_equal(bare.test_breaks, told.test_breaks)


# ---- what comes after --------------------------------------------------------------


@pytest.fixture
def stream():
    train = recording(600, breaks=[0, 200], time=_time(600, 200))
    test = recording(
        500,
        seed=1,
        breaks=[0, 300],
        time=_time(500, 300),
        labels=labelled(500, [(100, 130), (400, 430)], [(130, 140)]),
        attacks=(
            Attack(id="A1", start=100, stop=130, targets=("LIT101",), note="up"),
            Attack(id="A2", start=400, stop=430),
        ),
    )
    test = with_added(test, 9.0, slice(100, 130), 0)
    return export_stream(
        Split12().fit(train), train, test, testbed="mill", telemetry=True
    )


def _time(n_steps, gap):
    time = 10.0 * np.arange(n_steps)
    time[gap:] += 3600
    return time


@pytest.mark.parametrize("file", ["split12-mill.npz", "split12-mill"])
def test_a_stream_survives_the_disk(stream, file, tmp_path):
    write_stream(stream, tmp_path / file)
    back = read_stream(tmp_path / file)
    for name in ("train", "test", "calibration", "telemetry_train", "telemetry_test"):
        rows, again = getattr(stream, name), getattr(back, name)
        assert_array_equal(
            np.concatenate(list(rows.chunks())), np.concatenate(list(again.chunks()))
        )
    for name in ("labels", "train_time", "test_time", "train_breaks", "test_breaks"):
        assert_array_equal(getattr(stream, name), getattr(back, name))
    for name in ("segments", "channels", "telemetry_channels", "space", "detector"):
        assert getattr(stream, name) == getattr(back, name)
    assert back.meta == stream.meta
    assert (back.name, back.testbed, back.step_s) == ("split12-mill", "mill", 10.0)


def test_a_stream_can_be_evaluated(stream):
    evaluation = evaluate(stream, intervals=False)
    assert [row.id for row in evaluation.segments] == ["A1", "A2"]
    assert evaluation.segments[0].verdict == "detected"
    assert evaluation.segments[0].auc > 0.99
    assert evaluation.drift.d_gap is not None
    assert evaluation.diagnosis.telemetry_judged
    assert "train and test: Two cells were filled." in evaluation.notices


@pytest.mark.parametrize("kind", [Forecaster, Blocks])
def test_streams_of_others_can_be_evaluated(kind):
    train = recording(300, step_s=1.0)
    test = recording(
        300, seed=1, breaks=[0, 100], step_s=1.0, labels=labelled(300, [(150, 180)])
    )
    test = with_added(test, np.arange(30)[:, None] ** 2, slice(150, 180))
    stream = export_stream(kind().fit(train), train, test)
    evaluation = evaluate(stream, intervals=False)
    assert len(evaluation.segments) == 1
    assert evaluation.segments[0].auc > 0.9


def test_streams_carry_telemetry_unless_it_is_switched_off():
    train, test = recording(12), recording(6)
    made = Split12().fit(train)
    stream = export_stream(made, train, test)
    assert stream.telemetry_channels == train.channels
    assert stream.telemetry_test.n_rows == stream.test.n_rows
    bare = export_stream(made, train, test, telemetry=False)
    assert bare.telemetry_test is None
    assert_array_equal(bare.test.values, stream.test.values)


def test_large_telemetry_is_announced(monkeypatch):
    monkeypatch.setattr("sightline.export._LARGE_BYTES", 100)
    told = []
    train = recording(12)
    made = Split12().fit(train)
    export_stream(made, train, recording(6), progress=told.append)
    (notice,) = [step.detail for step in told if step.kind is StepKind.NOTICE]
    assert "telemetry=False leaves it out" in notice


def test_tables_show_the_name_of_a_detector_of_ones_own():
    train = recording(12)
    made = Split12().fit(train)
    shown = {
        name: export_stream(made, train, recording(6), name=name).detector
        for name in (None, "mine", "mine-seed2")
    }
    assert shown == {None: "split12", "mine": "mine", "mine-seed2": "mine"}
