"""Down-sampling and trimming happen once, and as the authors of each detector state."""

import numpy as np
import pytest

from sightline import (
    Recording,
    StreamError,
    Tag,
    evaluate,
    export_stream,
    make_detector,
    open_testbed,
)
from sightline.data.downsampling import Preparation, preset
from sightline.data.recording import AS_MEASURED, Prepared
from sightline.data.row_tables import gather_rows
from sightline.detectors.preprocessing import Preprocessing, left_to_do
from sightline.study.plan import plan_of
from sightline.study.run import cells_of, open_testbeds

# Measured rows in a row, how, and seconds trimmed from train. GDN's script: medians of
# 10 rows, 2,160 of them dropped; FuSAGNet drops 2,160 rows of GDN's files; TranAD reads
# every 10th row of WADI; NSIBF ships rows of 5 s; GeCo takes rows as they are. What no
# author states (marked on the card as our choice) follows the same detector on SWaT,
# without trimming.
SIX_HOURS = 21_600.0
STATED = {
    "gdn": {
        "swat": (10, "median", SIX_HOURS),
        "wadi": (10, "median", SIX_HOURS),
        "hai": (10, "median", 0.0),
        "waterworks": (10, "median", 0.0),
        "batadal": (1, "median", 0.0),
    },
    "fusagnet": {
        "swat": (10, "median", SIX_HOURS),
        "wadi": (10, "median", SIX_HOURS),
        "hai": (10, "median", 0.0),
        "waterworks": (10, "median", 0.0),
        "batadal": (1, "median", 0.0),
    },
    "tranad": {
        "swat": (10, "median", 0.0),
        "wadi": (10, "stride", 0.0),
        "hai": (10, "median", 0.0),
        "waterworks": (10, "median", 0.0),
        "batadal": (1, "median", 0.0),
    },
    "nsibf": {
        "swat": (5, "by-role", 0.0),
        "wadi": (5, "by-role", 0.0),
        "hai": (5, "by-role", 0.0),
        "waterworks": (5, "by-role", 0.0),
        "batadal": (1, "median", 0.0),
    },
    "geco": dict.fromkeys(
        ("swat", "wadi", "hai", "waterworks", "batadal"), (1, "median", 0.0)
    ),
}
CASES = [
    pytest.param(detector, testbed, *rows, id=f"{detector}-{testbed}")
    for detector, testbeds in STATED.items()
    for testbed, rows in testbeds.items()
]


def measured(n_rows=25_000, step_s=1.0):
    time = np.arange(n_rows) * step_s
    values = np.stack([time, np.sin(time / 50)], axis=1)
    tags = (Tag(name="LIT101"), Tag(name="FIT101"))
    return Recording(values=values, tags=tags, time=time)


def values_of(rows):
    return gather_rows(rows, np.arange(rows.n_rows))


@pytest.mark.parametrize(("detector", "testbed", "every", "sampling", "trim_s"), CASES)
def test_rows_and_trimming_of_a_card_are_as_stated_and_made_once(
    detector, testbed, every, sampling, trim_s
):
    settings = make_detector(detector, testbed=testbed).settings
    assert (settings.every, settings.sampling, settings.trim_s) == (
        every,
        sampling,
        trim_s,
    )
    if detector == "geco":
        settings = settings.preprocessing()
    raw = measured()
    done = Preparation(every=every, sampling=sampling, trim_s=trim_s).train(raw)
    for recording, steps in ((raw, every), (done, 1)):
        fitted = Preprocessing.fit(recording, settings)
        train = fitted.train(recording, settings, np.float64)
        assert train.every == steps
        seconds = recording.time[train.rows]
        assert seconds[0] == trim_s
        assert set(np.diff(seconds)) == {every}


@pytest.mark.parametrize(
    ("detector", "testbed"),
    [("gdn", "swat"), ("gdn", "wadi"), ("nsibf", "swat"), ("nsibf", "wadi")],
)
def test_a_papers_preset_and_its_card_ask_for_the_same_rows(detector, testbed):
    settings = make_detector(detector, testbed=testbed).settings
    rows = preset(detector, testbed)
    done = Prepared(every=rows.every, sampling=rows.sampling, trim_s=rows.trim_s)
    left = left_to_do(settings, done)
    assert (left.every, left.trim_s) == (1, 0.0)


def test_rows_of_the_testbed_are_not_made_again_by_the_detector():
    """The example of the documentation: it gave rows of 100 s."""
    sizes = {"days_train": 0.05, "days_test": 0.05}
    streams = []
    for options in ({}, {"every": 10}):
        opened = open_testbed("waterworks", **sizes, **options)
        detector = make_detector("pca", testbed="waterworks").fit(opened.train)
        streams.append(export_stream(detector, opened.train, opened.test))
    once, again = streams
    assert once.step_s == again.step_s == 10
    for stream in streams:
        assert stream.meta["rows"]["every"] == 10
        assert stream.meta["rows"]["trim_s"] == 0
    assert once.test.n_rows == again.test.n_rows
    assert once.test_time.tolist() == again.test_time.tolist()
    assert evaluate(again, intervals=False, diagnosis=False).stream.step_s == 10


def test_a_conflict_names_both():
    settings = make_detector("nsibf", testbed="waterworks").settings
    with pytest.raises(StreamError, match=r"rows made of 5 measured .*made of 10 "):
        left_to_do(settings, Prepared(every=10, sampling="median"))
    with pytest.raises(StreamError, match=r"sampling 'by-role'.*sampling 'median'"):
        left_to_do(settings, Prepared(every=5, sampling="median"))
    trimmed = make_detector("gdn", testbed="swat").settings
    with pytest.raises(StreamError, match=r"21600 s of train .* 3600 s were already"):
        left_to_do(trimmed, Prepared(trim_s=3600.0))


def test_a_detector_without_a_wish_takes_the_rows_as_they_are():
    settings = make_detector("geco", testbed="swat").settings
    done = Prepared(every=10, sampling="median", trim_s=3600.0)
    assert left_to_do(settings, done) == settings
    assert left_to_do(settings, AS_MEASURED) == settings


def test_a_study_refuses_a_conflict_before_it_trains():
    plan = plan_of(
        {
            "testbeds": {
                "waterworks": {"days_train": 0.05, "days_test": 0.05, "every": 10}
            },
            "detectors": {"pca": {}, "nsibf": {}},
        }
    )
    testbeds = open_testbeds(plan, None)
    assert testbeds["waterworks"].prepared == Prepared(every=10, sampling="median")
    with pytest.raises(StreamError, match=r"^\[detectors.nsibf\]: .*made of 5 "):
        cells_of(plan, testbeds)


# --------------------------------------------------- rows of the reference, cut of test


def test_rows_learned_from_and_rows_of_the_reference_are_two_settings():
    opened = open_testbed("waterworks", days_train=0.1, days_test=0.02)
    trained = make_detector("pca", every=10, trim_s=600.0).fit(opened.train)
    apart = make_detector("pca", every=10, trim_s=600.0, reference_trim_s=4000.0)
    apart.fit(opened.train)
    usual, other = (
        export_stream(one, opened.train, opened.test) for one in (trained, apart)
    )
    begin = opened.train.time[0]
    assert usual.train_time.min() - begin == 600
    assert other.train_time.min() - begin == 4000
    # The detector is the same: only the rows that fit the reference differ.
    rows = np.isin(usual.train_time, other.train_time)
    kept = values_of(usual.train)[rows]
    np.testing.assert_array_equal(values_of(other.train), kept)
    assert other.meta["rows"]["reference_trim_s"] == 4000
    earlier = make_detector("pca", every=10, trim_s=600.0, reference_trim_s=0.0)
    earlier.fit(opened.train)
    early = export_stream(earlier, opened.train, opened.test)
    assert early.train_time.min() == begin


def test_a_reference_without_rows_is_refused():
    opened = open_testbed("waterworks", days_train=0.02, days_test=0.02)
    detector = make_detector("pca", reference_trim_s=1e6).fit(opened.train)
    with pytest.raises(StreamError, match="1e\\+06 s leaves no row of train to fit"):
        export_stream(detector, opened.train, opened.test)


def test_test_may_be_cut_for_one_detector():
    opened = open_testbed("waterworks", days_train=0.02, days_test=0.02)
    until = "2024-01-01 00:40:00"
    detector = make_detector("pca", test_until=until).fit(opened.train)
    whole = make_detector("pca").fit(opened.train)
    cut, all_rows = (
        export_stream(one, opened.train, opened.test) for one in (detector, whole)
    )
    assert cut.test.n_rows < all_rows.test.n_rows
    with pytest.raises(StreamError, match="`test_until` must be a time stamp"):
        make_detector("pca", test_until="noon")
