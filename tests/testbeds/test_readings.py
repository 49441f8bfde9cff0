"""One table of one's own plant: wide or long, as an even grid of what was known."""

import os
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import FileError, StreamError
from sightline.data.validity import NotWatched, Unwatched, Validity
from sightline.testbeds.own_plant import read_folder
from sightline.testbeds.own_plant.exports import in_order_of, readings_of
from sightline.testbeds.own_plant.settings import PlantSettings
from sightline.testbeds.own_plant.tables import open_source, states_of

NAN = np.nan


def read_readings(path, settings, *, ignored=()):
    """One table by itself."""
    source = open_source(path, settings, ignored=ignored)
    return readings_of(source, states_of([source]))


def read(folder, table, **options):
    """Read a table given as text (CSV) or as a frame (Parquet)."""
    if isinstance(table, str):
        path = folder / "test.csv"
        path.write_text(table, encoding="utf-8")
    else:
        path = folder / "test.parquet"
        table.write_parquet(path)
    return read_readings(path, PlantSettings(**options))


def refusal(folder, table, kind=FileError, **options):
    with pytest.raises(kind) as caught:
        read(folder, table, **options)
    said = str(caught.value)
    assert said.startswith(str(folder / "test."))
    assert said.endswith(".")
    assert "\n" not in said
    return said


def wide(*rows, header="time,A,B"):
    return "\n".join([header, *rows]) + "\n"


def long(*rows, header="tag,time,value"):
    return "\n".join([header, *rows]) + "\n"


# Wide tables.


def test_each_column_is_a_tag_and_each_row_a_step(tmp_path):
    found = read(tmp_path, wide("0,1,10", "1,2,20", "2,3,30"))
    assert found.channels == ("A", "B")
    assert found.values.tolist() == [[1, 10], [2, 20], [3, 30]]
    assert found.time.tolist() == [0, 1, 2]
    assert found.breaks.tolist() == [0]
    assert found.step_s == 1.0
    assert found.labels is None
    assert found.is_utc
    assert found.notices == ()


@pytest.mark.parametrize(
    "name",
    [
        "time",
        "Time",
        "TIMESTAMP",
        "DateTime",
        "date_time",
        "Date",
        " time ",
        "Timestamp ",
    ],
)
def test_the_column_of_time_has_several_names(tmp_path, name):
    found = read(tmp_path, wide("0,1,10", "1,2,20", header=f"{name},A,B"))
    assert found.time.tolist() == [0, 1]
    assert found.channels == ("A", "B")


def test_the_column_of_time_need_not_be_the_first(tmp_path):
    found = read(tmp_path, wide("1,0,10", "2,1,20", header="A,time,B"))
    assert found.channels == ("A", "B")
    assert found.values.tolist() == [[1, 10], [2, 20]]


def test_names_lose_their_blanks(tmp_path):
    found = read(tmp_path, wide("0,1,10", "1,2,20", header="time, A,B "))
    assert found.channels == ("A", "B")


def test_semicolons_and_decimal_commas_are_read(tmp_path):
    found = read(tmp_path, wide("0;1,5;10", "1;-2,5;20", header="time;A;B"))
    assert found.values.tolist() == [[1.5, 10], [-2.5, 20]]


def test_semicolons_with_decimal_points_are_read(tmp_path):
    found = read(tmp_path, wide("0;1.5;10", "1;-2.5;20", header="time;A;B"))
    assert found.values.tolist() == [[1.5, 10], [-2.5, 20]]


def test_decimal_commas_survive_text_in_their_column(tmp_path):
    rows = ("0;1,5;10", "1;Bad Input;20", "2;-2,5;30")
    found = read(tmp_path, wide(*rows, header="time;A;B"))
    np.testing.assert_array_equal(found.values[:, 0], [1.5, NAN, -2.5])


def test_decimal_commas_may_begin_after_the_first_row(tmp_path):
    found = read(tmp_path, wide("0;1;10", "1;2,5;20", "2;3,5;30", header="time;A;B"))
    assert found.values[:, 0].tolist() == [1, 2.5, 3.5]


def test_a_byte_order_mark_and_line_ends_of_windows_do_not_matter(tmp_path):
    table = "\ufeff" + wide("0,1,10", "1,2,20").replace("\n", "\r\n")
    assert read(tmp_path, table).channels == ("A", "B")


def test_text_among_the_numbers_is_missing_and_told(tmp_path):
    rows = ("0,1,10", "1,Bad Input,20", "2,Bad Input,No Data", "3, 4 ,40")
    found = read(tmp_path, wide(*rows), hold_s=1.0)
    np.testing.assert_array_equal(found.values, [[1, 10], [NAN, 20], [4, 40]])
    assert found.validity.tolist() == [[0, 0], [Validity.BAD, 0], [0, 0]]
    assert found.unwatched == (Unwatched(2.0, 3.0, NotWatched.NO_DATA),)
    assert found.breaks.tolist() == [0, 2]
    assert found.notices == (
        "test.csv: 3 cells of bad quality by the source's own word ('Bad Input' 2 and "
        "'No Data' 1): A (2) and B (1).",
    )


def test_text_far_down_is_found_too(tmp_path):
    rows = [f"{k},{k}.5,1" for k in range(10_500)]
    rows[10_400] = "10400,Bad Input,1"
    found = read(tmp_path, wide(*rows))
    expected = [10_398.5, 10_399.5, NAN, 10_401.5]
    np.testing.assert_array_equal(found.values[10_398:10_402, 0], expected)
    assert "own word ('Bad Input' 1): A (1)" in found.notices[0]


def test_empty_cells_are_held(tmp_path):
    found = read(tmp_path, wide("0,1,", "1,,20", "2,3,30"))
    np.testing.assert_array_equal(found.values, [[1, NAN], [1, 20], [3, 30]])


def test_a_tag_that_is_ignored_may_hold_anything(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text(wide("0,1,auto", "1,2,manual"))
    found = read_readings(path, PlantSettings(), ignored=["B"])
    assert found.channels == ("A",)
    path.write_text(long("A,0,1", "A,1,2", "B,0,auto", "B,1,manual"))
    found = read_readings(path, PlantSettings(step_s=1.0), ignored=["B"])
    assert found.channels == ("A",)
    assert found.values.ravel().tolist() == [1, 2]


def test_true_and_false_are_one_and_zero(tmp_path):
    found = read(tmp_path, wide("0,true,10", "1,false,20"))
    assert found.values.tolist() == [[1, 10], [0, 20]]


def test_constant_tags_are_kept(tmp_path):
    found = read(tmp_path, wide("0,1,5", "1,2,5", "2,3,5"))
    assert found.channels == ("A", "B")


@pytest.mark.parametrize("name", ["label", "Label", "LABEL"])
def test_a_label_column_is_no_tag(tmp_path, name):
    rows = ("0,1,0", "1,2,1", "2,3,-1")
    found = read(tmp_path, wide(*rows, header=f"time,A,{name}"))
    assert found.channels == ("A",)
    assert found.labels.tolist() == [0, 1, -1]


def test_rows_out_of_order_are_sorted_with_their_labels_and_told(tmp_path):
    rows = ("2,3,1", "0,1,0", "1,2,0")
    found = read(tmp_path, wide(*rows, header="time,A,label"))
    assert found.values.ravel().tolist() == [1, 2, 3]
    assert found.labels.tolist() == [0, 0, 1]
    (told,) = found.notices
    assert told.startswith("test.csv: rows were not in the order of time")
    assert "state timezone in plant.toml" in told


def test_of_equal_rows_with_one_time_one_counts_and_is_told(tmp_path):
    found = read(tmp_path, wide("0,1,10", "1,2,", "1,2,", "2,4,40"))
    assert found.values.tolist() == [[1, 10], [2, 10], [4, 40]]
    assert found.notices[0] == (
        "test.csv: 1 rows repeat a time stamp; the last of each counts."
    )


def test_of_stamps_that_most_rows_share_the_last_counts(tmp_path):
    found = read(tmp_path, wide("0,1,10", "0,2,20", "60,3,30", "60,4,40", "120,5,50"))
    assert found.values.tolist() == [[2, 20], [4, 40], [5, 50]]


def test_different_rows_with_one_time_are_a_clock_that_cannot_be_believed(tmp_path):
    found = read(tmp_path, wide("0,1,10", "1,2,20", "1,3,30", "2,4,40"))
    assert found.values.tolist() == [[1, 10], [4, 40]]
    assert found.breaks.tolist() == [0, 1]
    assert found.notices == (
        "test.csv: the clock went back or repeated itself: from 1970-01-01 00:00:01 to "
        "1970-01-01 00:00:01 1 row has a time that others have as well; what they hold "
        "is not used.",
        "test.csv: 2 cells whose time cannot be believed: A (1) and B (1).",
    )
    assert found.clock == found.notices[:1]


@pytest.mark.parametrize("offset", [0.0, 0.4])
def test_a_clock_that_goes_back_is_not_believed_while_it_counts_time_twice(
    tmp_path, offset
):
    time = [*range(100), *(offset + t for t in range(80, 160))]
    found = read(tmp_path, wide(*(f"{t},{k},{k}" for k, t in enumerate(time))))
    assert np.flatnonzero(np.diff(found.time) > 1.5).tolist() == [79]
    begin = 100 if offset == 0 else 99.4
    assert found.time[80] == pytest.approx(begin, abs=1)
    assert len(found.breaks) == 2
    assert "the clock went back" in found.clock[0]


def test_a_clock_that_was_ahead_for_some_rows_is_not_believed_there(tmp_path):
    time = [*range(50), *range(100, 110), *range(60, 150)]
    found = read(tmp_path, wide(*(f"{t},{k},{k}" for k, t in enumerate(time))))
    assert not {*range(100, 110)} & {*found.time.tolist()}
    assert {*range(60, 100), *range(110, 150)} <= {*found.time.tolist()}


def test_rows_of_the_far_future_are_set_aside_and_named(tmp_path):
    path = tmp_path / "test.csv"
    stamps = [f"2026-11-15 08:00:{k:02d}" for k in range(10)]
    stamps[4] = "2099-11-15 08:00:04"
    path.write_text(wide(*(f"{at},{k},{k}" for k, at in enumerate(stamps))))
    os.utime(path, (1_794_729_700, 1_794_729_700))
    found = read_readings(path, PlantSettings())
    assert len(found.time) == 10
    assert found.values[4].tolist() == [3, 3]
    assert found.clock == (
        "test.csv: 1 row is dated later than the file itself and set aside: line 6, "
        "2099-11-15 08:00:04; correct the time stamp.",
    )
    # Where all rows are, the file's own time is wrong.
    os.utime(path, (1, 1))
    found = read_readings(path, PlantSettings())
    assert found.time.max() > 4e9


@pytest.mark.parametrize("month", [3, 10])
def test_the_hours_at_which_clocks_change_in_a_known_zone_are_no_clock_fault(
    tmp_path, month
):
    zone = ZoneInfo("Europe/Berlin")
    first = datetime(2026, month, 25 if month == 10 else 29, tzinfo=zone)
    time = first.timestamp() + 600 * np.arange(36)
    local = [datetime.fromtimestamp(t, zone).strftime("%F %T") for t in time]
    if month == 3:
        # A display that does not know of the hour that is skipped.
        local[12:12] = [f"2026-03-29 02:{m}0:00" for m in range(6)]
    path = tmp_path / "test.csv"
    path.write_text(wide(*(f"{at},{k},{k}" for k, at in enumerate(local))))
    found = read_readings(path, PlantSettings(timezone="Europe/Berlin"))
    assert found.time.tolist() == time.tolist()
    assert found.clock == ()
    assert not (found.validity == Validity.CLOCK).any()


def test_a_short_gap_gets_rows_of_its_own_that_are_held(tmp_path):
    rows = ("0,1,0", "10,2,1", "40,5,0", "50,6,0", "60,7,0")
    found = read(tmp_path, wide(*rows, header="time,A,label"))
    assert found.time.tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert found.values.ravel().tolist() == [1, 2, 2, 2, 5, 6, 7]
    assert found.labels.tolist() == [0, 1, 1, 1, 0, 0, 0]
    assert found.breaks.tolist() == [0]
    assert found.notices == (
        "test.csv: 2 rows are missing in gaps of up to 60 s and filled "
        "with the last values.",
        "test.csv: 2 cells without a reading: the last value was held: A (2).",
    )


def test_a_long_gap_is_a_break(tmp_path):
    rows = ("0,1,0", "10,2,0", "90,5,0", "100,6,0")
    found = read(tmp_path, wide(*rows, header="time,A,label"))
    assert found.time.tolist() == [0, 10, 90, 100]
    assert found.breaks.tolist() == [0, 2]
    assert found.notices == ()


@pytest.mark.parametrize(("hold_s", "n_rows"), [(19.0, 4), (20.0, 6)])
def test_the_limit_says_which_gap_is_short(tmp_path, hold_s, n_rows):
    found = read(tmp_path, wide("0,1,1", "10,2,1", "40,5,1", "50,6,1"), hold_s=hold_s)
    assert len(found.time) == n_rows


def test_a_stated_step_tells_gaps_from_steps(tmp_path):
    rows = [f"{10 * k},{k},1" for k in range(5)]
    assert read(tmp_path, wide(*rows), step_s=5.0).time.tolist() == [
        5.0 * k for k in range(9)
    ]


# Long tables.


def test_a_long_table_becomes_a_grid(tmp_path):
    found = read(tmp_path, long("B,0,10", "A,0,1", "A,1,2", "B,1,20"))
    assert found.channels == ("A", "B")
    assert found.values.tolist() == [[1, 10], [2, 20]]
    assert found.time.tolist() == [0, 1]
    assert found.step_s == 1.0
    assert found.notices == (
        "test.csv: got one row every 1 s, the usual step between its "
        "readings; state another with step_s in plant.toml.",
    )


@pytest.mark.parametrize("tag", ["tag", "Tag", "TagName", "tag_name", "Point"])
@pytest.mark.parametrize("time", ["time", "Timestamp"])
def test_columns_of_a_long_table_have_several_names(tmp_path, tag, time):
    header = f"{time},Value,{tag},Quality"
    found = read(tmp_path, long("0,1,A,Good", "1,2,A,Good", header=header))
    assert found.channels == ("A",)
    assert found.values.ravel().tolist() == [1, 2]


def test_numbers_may_name_tags(tmp_path):
    found = read(tmp_path, long("7,0,1", "7,1,2", "12,0,3", "12,1,4"))
    assert found.channels == ("12", "7")
    assert found.values.tolist() == [[3, 1], [4, 2]]


def test_names_of_tags_lose_their_blanks(tmp_path):
    found = read(tmp_path, long("A ,0,1", " A,1,2"))
    assert found.channels == ("A",)


def test_the_order_of_rows_does_not_matter(tmp_path):
    rows = ["A,0,1", "A,1,2", "A,2,3", "B,0,10", "B,1,20", "B,2,30"]
    straight = read(tmp_path, long(*rows))
    turned = read(tmp_path, long(*rows[::-1]))
    np.testing.assert_array_equal(turned.values, straight.values)


def test_of_readings_with_one_time_the_last_counts(tmp_path):
    found = read(tmp_path, long("A,0,1", "A,1,2", "A,1,3", "A,2,4"))
    assert found.values.ravel().tolist() == [1, 3, 4]


def test_a_reading_between_steps_is_seen_at_the_next_step(tmp_path):
    rows = ("A,0,1", "A,10,2", "A,14,3", "A,20,4", "A,29,5", "A,30,6")
    found = read(tmp_path, long(*rows), step_s=10.0)
    assert found.time.tolist() == [0, 10, 20, 30]
    assert found.values.ravel().tolist() == [1, 2, 4, 6]
    late = read(tmp_path, long("A,0,1", "A,10,2", "A,14,3", "A,30,4"), step_s=10.0)
    assert late.values.ravel().tolist() == [1, 2, 3, 4]
    assert late.notices == ()


def test_a_reading_that_is_late_does_not_get_lost(tmp_path):
    found = read(tmp_path, long("A,0,1", "A,10,2", "A,20,3", "A,24,4"), step_s=10.0)
    assert found.values.ravel().tolist()[-1] == 4


def test_irregular_steps_are_put_on_a_grid_of_the_usual_one(tmp_path):
    times = [0, 9, 20, 31, 40, 50, 60]
    found = read(tmp_path, long(*(f"A,{t},{k}" for k, t in enumerate(times))))
    assert found.step_s == 10.0
    assert found.time.tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert found.values.ravel().tolist() == [0, 1, 2, 2, 4, 5, 6]


def test_a_slow_tag_is_held_and_counted(tmp_path):
    rows = [f"A,{10 * k},{k}" for k in range(6)] + ["B,0,7", "B,30,8"]
    found = read(tmp_path, long(*rows), step_s=10.0, hold_s=20.0)
    assert found.values[:, 1].tolist() == [7, 7, 7, 8, 8, 8]
    assert found.notices == (
        "test.csv: the usual step of B (30 s) is longer than hold_s; if the historian "
        "writes only changes, state a longer one in the section [hold_s] of "
        "plant.toml, such as 'B' = 'forever'.",
        "test.csv: 4 cells without a reading: the last value was held: B (4).",
    )


def test_a_reading_is_held_no_longer_than_the_limit(tmp_path):
    rows = [f"A,{10 * k},{k}" for k in range(6)] + ["B,0,7"]
    found = read(tmp_path, long(*rows), step_s=10.0, hold_s=20.0)
    np.testing.assert_array_equal(found.values[:, 1], [7, 7, 7, NAN, NAN, NAN])


def test_a_limit_below_a_step_holds_nothing(tmp_path):
    rows = [f"A,{10 * k},{k}" for k in range(4)] + ["B,0,7"]
    found = read(tmp_path, long(*rows), step_s=10.0, hold_s=5.0)
    np.testing.assert_array_equal(found.values[:, 1], [7, NAN, NAN, NAN])


def test_tenths_of_a_second_are_held_and_counted_as_whole_ones_are(tmp_path):
    times = [f"{1_794_700_800 + k / 10:.1f}" for k in range(10)]
    rows = [f"A,{at},{k}" for k, at in enumerate(times)] + [f"B,{times[0]},7"]
    found = read(tmp_path, long(*rows), step_s=0.1, hold_s=0.3)
    assert found.values[:, 0].tolist() == list(range(10))
    np.testing.assert_array_equal(found.values[:, 1], [7] * 4 + [NAN] * 6)
    assert found.notices[0].endswith("the last value was held: B (3).")


def test_a_pause_of_the_historian_becomes_a_break(tmp_path):
    times = [*range(0, 50, 10), *range(1000, 1050, 10)]
    rows = [f"{tag},{t},{t}" for tag in "AB" for t in times]
    found = read(tmp_path, long(*rows), hold_s=20.0)
    assert found.time.tolist() == [*range(0, 70, 10), *range(1000, 1050, 10)]
    assert found.breaks.tolist() == [0, 7]
    assert found.unwatched == (Unwatched(70.0, 1000.0, NotWatched.NO_DATA),)


def test_a_tag_without_any_good_reading_is_kept_without_a_value(tmp_path):
    rows = ("A,0,1,Good", "A,1,2,Good", "B,0,5,Bad", "B,1,6,Bad")
    found = read(tmp_path, long(*rows, header="tag,time,value,quality"))
    assert found.channels == ("A", "B")
    np.testing.assert_array_equal(found.values, [[1, NAN], [2, NAN]])


def test_text_in_the_column_of_values_is_missing_and_told(tmp_path):
    found = read(tmp_path, long("A,0,1", "A,1,Wartung", "A,2,3"))
    assert found.values.ravel().tolist() == [1, 3]
    said = " ".join(found.notices)
    assert "text in 1 cell is no number and no state, and is taken as bad: val" in said
    assert found.words["A"][0].tolist() == [1]
    assert found.words["A"][1].to_list() == ["Wartung"]


@pytest.mark.parametrize(
    ("quality", "is_good", "how"),
    [
        (["Good", "good", " GOOD "], [1, 1, 1], None),
        (["Good", "Bad", "Uncertain"], [1, 0, 0], "'Good' is good"),
        (["OK", "valid", "Not connected"], [1, 1, 0], "'Good' is good"),
        (["true", "false", "true"], [1, 0, 1], "'Good' is good"),
        (["192", "216", "64"], [1, 1, 0], "192 and more is good (OPC)"),
        (["192", "0", "24"], [1, 0, 0], "192 and more is good (OPC)"),
        (["1", "0", "1"], [1, 0, 1], "1 is good"),
        (["1", "1", "1"], [1, 1, 1], None),
        (["Good", "", "Good"], [1, 0, 1], "'Good' is good"),
        (["192", "", "192"], [1, 0, 1], "192 and more is good (OPC)"),
        (["1", "", "0"], [1, 0, 0], "1 is good"),
    ],
)
def test_quality_is_a_word_a_code_or_a_flag(tmp_path, quality, is_good, how):
    rows = [f"A,{10 * k},{k + 1},{said}" for k, said in enumerate(quality)]
    table = long(*rows, header="tag,time,value,quality")
    found = read(tmp_path, table, step_s=10.0, hold_s=20.0)
    assert found.values.ravel().tolist() == [k + 1 for k in range(3) if is_good[k]]
    told = [text for text in found.notices if "of bad quality (" in text]
    n_bad = is_good.count(0)
    assert told == (
        [f"test.csv: {n_bad} of 3 readings are of bad quality ({how})."]
        if n_bad
        else []
    )


def test_quality_can_be_true_or_false(tmp_path):
    frame = pl.DataFrame(
        {
            "tag": ["A"] * 3,
            "time": [0, 10, 20],
            "value": [1, 2, 3],
            "quality": [True, False, True],
        }
    )
    found = read(tmp_path, frame, step_s=10.0, hold_s=10.0)
    assert found.values.ravel().tolist() == [1, 3]


# What holds for any table.


@st.composite
def long_tables(draw):
    """Draw readings of two tags at whole seconds, some bad, in any order."""
    readings = [("A", 0, 0, True), ("B", 0, 1, True)]
    times = st.lists(st.integers(1, 120), min_size=1, max_size=12)
    for tag in "AB":
        for time in draw(times):
            readings.append((tag, time, len(readings), draw(st.integers(0, 3)) > 0))
    return draw(st.permutations(readings))


def written_long(folder, readings, **toml):
    rows = [f"{t},{s},{v},{'Good' if g else 'Bad'}" for t, s, v, g in readings]
    table = long(*rows, header="tag,time,value,quality")
    for name in ("train", "test"):
        (folder / f"{name}.csv").write_text(table)
    said = "".join(f"{key} = {value}\n" for key, value in toml.items())
    (folder / "plant.toml").write_text(said)
    return read_folder(folder)


def last_at(readings, tag, at):
    """Return value, age in rows of 10 s, and quality of the last reading of a tag."""
    known = [(s, k, v, g) for k, (t, s, v, g) in enumerate(readings) if t == tag]
    known = [reading for reading in known if reading[0] <= at]
    if not known:
        return NAN, np.inf, True
    s, _, value, is_good = max(known)
    # It was seen at the first row at or after it.
    return value, at - -(-s // 10) * 10, is_good


@settings(max_examples=60, deadline=None)
@given(long_tables(), st.sampled_from([10, 25, 40]))
def test_a_cell_of_a_long_table_is_the_last_good_reading_within_the_limit(
    tmp_path_factory, readings, hold_s
):
    folder = tmp_path_factory.mktemp("plant")
    found = written_long(folder, readings, step_s=10, hold_s=hold_s)
    last = max(s for _, s, _, _ in readings)
    seen = {}
    for at in range(0, last + 1, 10):
        row = []
        for tag in "AB":
            value, age, is_good = last_at(readings, tag, at)
            row.append(value if is_good and age <= hold_s else NAN)
        if not np.isnan(row).all():
            seen[at] = row
    of_grid = dict(zip(found.test.time.tolist(), found.test.values, strict=True))
    for at, row in seen.items():
        np.testing.assert_array_equal(of_grid[at], row)
    # A row may follow for what was read after the last whole step.
    assert set(of_grid) - set(seen) <= {-(-last // 10) * 10.0}


@settings(max_examples=40, deadline=None)
@given(long_tables(), st.integers(20, 120), st.sampled_from([10, 25, 40]))
def test_what_is_read_later_changes_no_earlier_row_of_a_long_table(
    tmp_path_factory, readings, until, hold_s
):
    folder = tmp_path_factory.mktemp("plant")
    options = {"step_s": 10, "hold_s": hold_s}
    known = [reading for reading in readings if reading[1] <= until]
    if len({s for _, s, _, _ in known}) < 2:
        return
    whole = written_long(folder, readings, **options).test
    part = written_long(folder, known, **options).test
    both = min(part.time[-1], until)
    np.testing.assert_array_equal(
        part.values[part.time <= both], whole.values[whole.time <= both]
    )


@st.composite
def wide_tables(draw):
    """Draw rows ten seconds apart, some rows and some cells missing."""
    n_rows = draw(st.integers(3, 25))
    kept = sorted({0, 1} | draw(st.sets(st.integers(2, n_rows))))
    is_read = st.tuples(st.booleans(), st.booleans())
    rows = [(0, 0.0, 0.5), (1, 1.0, 1.5)]
    for row in kept[2:]:
        has_a, has_b = draw(is_read)
        rows.append((row, row if has_a else NAN, row + 0.5 if has_b else NAN))
    return rows


def written_wide(folder, rows, **toml):
    texts = [
        f"{10 * row},{'' if np.isnan(a) else a},{'' if np.isnan(b) else b}"
        for row, a, b in rows
    ]
    for name in ("train", "test"):
        (folder / f"{name}.csv").write_text(wide(*texts))
    said = "".join(f"{key} = {value}\n" for key, value in toml.items())
    (folder / "plant.toml").write_text(said)
    return read_folder(folder)


@settings(max_examples=60, deadline=None)
@given(wide_tables(), st.sampled_from([5, 10, 30, 60]))
def test_a_cell_of_a_wide_table_is_the_last_reading_within_the_limit_and_the_run(
    tmp_path_factory, rows, hold_s
):
    folder = tmp_path_factory.mktemp("plant")
    found = written_wide(folder, rows, step_s=10, hold_s=hold_s)
    test = found.test
    read_at = {10 * row: values for row, *values in rows}
    for index, at in enumerate(test.time.tolist()):
        for k in range(2):
            known = [
                (t, values[k])
                for t, values in read_at.items()
                if t <= at and not np.isnan(values[k])
            ]
            age, value = (at - known[-1][0], known[-1][1]) if known else (np.inf, NAN)
            np.testing.assert_equal(
                test.values[index, k], value if age <= hold_s else NAN
            )
    lost = set(read_at) - set(test.time.tolist())
    assert lost == {
        at for at in lost if any(u.start <= at < u.end for u in test.unwatched)
    }


@settings(max_examples=40, deadline=None)
@given(wide_tables(), st.integers(2, 25), st.sampled_from([10, 30, 60]))
def test_what_is_read_later_changes_no_earlier_row_of_a_wide_table(
    tmp_path_factory, rows, n_known, hold_s
):
    folder = tmp_path_factory.mktemp("plant")
    options = {"step_s": 10, "hold_s": hold_s}
    whole = written_wide(folder, rows, **options).test
    part = written_wide(folder, rows[:n_known], **options).test
    n = part.n_steps
    np.testing.assert_array_equal(part.time, whole.time[:n])
    np.testing.assert_array_equal(part.values, whole.values[:n])
    np.testing.assert_array_equal(part.breaks, whole.breaks[whole.breaks < n])


def test_the_limit_is_one_of_seconds_where_steps_are_uneven(tmp_path):
    times = [0, 10, *range(24, 130, 14), *range(136, 300, 10)]
    rows = [f"{t},{1 if t < 20 else ''},{t}" for t in times]
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text(wide(*rows))
    test = read_folder(tmp_path).test
    is_held = ~np.isnan(test.values[:, 0])
    assert test.time[is_held].max() <= 10 + 60


# What makes no table.


@pytest.mark.parametrize(
    ("table", "sentences"),
    [
        ("", ["is empty"]),
        ("time\n0\n1\n", ["must begin with a header of at least 2 columns"]),
        ("time,A\n", ["has a header but no rows"]),
        (
            wide("0,1,2", "1,1,2", header="when,A,B"),
            ["has no column of time stamps: name it", "It has when, A and B"],
        ),
        (
            wide("0,1,2", "1,1,2,3,4"),
            ["cannot be read as a table", "the same number of columns in each row"],
        ),
        (
            wide(*(f"{k},1,word {k}" for k in range(13))),
            ["column 'B' holds no number at all", "or take it out of the table"],
        ),
        (wide("0,1,", "1,2,"), ["column 'B' holds no number at all"]),
        (long("A,0,Bad", "A,1,Bad"), ["column 'value' holds no number at all"]),
        (
            wide("0,1,2"),
            ["needs two different time stamps", "its step is unknown"],
        ),
        (long("A,0,1", "B,0,2"), ["needs two different time stamps"]),
        (wide("0,1,2", ",1,2"), ["'time' must be complete; line 3 has no time"]),
        (wide("0,1,2", "1,2,3", header="time,A, A"), ["'A'"]),
        (wide("0,1,2", "1,2,3", header="time,A,A"), ["'A'"]),
        (long("A,0,1", ",1,2", "A,2,3"), ["'tag'", "line 3"]),
    ],
    ids=[
        "nothing",
        "one column",
        "no rows",
        "no time",
        "ragged",
        "text only",
        "empty only",
        "long text only",
        "one row",
        "long one moment",
        "no stamp",
        "name twice but for a blank",
        "name twice",
        "no tag",
    ],
)
def test_what_is_no_table_is_refused(tmp_path, table, sentences):
    said = refusal(tmp_path, table)
    for sentence in sentences:
        assert sentence in said


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        ("Attack 7", "`label` must be 0, 1, -1"),
        ("2", "row 1 is 2"),
        ("", "row 1 is"),
        ("99999999999999999999", "`label` must be 0, 1, -1"),
    ],
)
def test_labels_of_another_kind_are_refused(tmp_path, last, sentence):
    table = wide("0,1,0", f"1,2,{last}", header="time,A,label")
    said = refusal(tmp_path, table, kind=StreamError)
    assert sentence in said
    assert "map" in said


def test_a_damaged_parquet_file_is_refused(tmp_path):
    path = tmp_path / "test.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(FileError, match=r"test\.parquet: cannot be read as a table"):
        read_readings(path, PlantSettings())


@pytest.mark.parametrize("value", [NAN, np.inf])
@pytest.mark.parametrize("is_long", [False, True])
def test_time_that_is_no_number_is_refused(tmp_path, value, is_long):
    frame = pl.DataFrame({"time": [0.0, value, 2.0], "value": [1.0, 2.0, 3.0]})
    if is_long:
        frame = frame.with_columns(tag=pl.lit("A"))
    for name in ("train", "test"):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(FileError, match="time"):
        read_folder(tmp_path)


def test_a_reading_without_a_tag_is_refused_whatever_the_zone(tmp_path):
    rows = ("A,2026-11-15 08:00:00,1", ",2026-11-15 08:00:01,2")
    assert "line 3" in refusal(tmp_path, long(*rows), timezone="Europe/Berlin")


def test_both_tables_must_have_the_same_tags(tmp_path):
    found = read(tmp_path, wide("0,1,10", "1,2,20"))
    with pytest.raises(FileError, match="C is in train but not in test: both tables"):
        in_order_of(["A", "B", "C"], found, tmp_path)
    with pytest.raises(FileError, match="A and B is in test but not in train"):
        in_order_of([], found, tmp_path)


def test_columns_are_brought_into_one_order(tmp_path):
    found = read(tmp_path, wide("0,1,10", "1,2,20"))
    assert in_order_of(["A", "B"], found, tmp_path) is found
    turned = in_order_of(["B", "A"], found, tmp_path)
    assert turned.channels == ("B", "A")
    assert turned.values.tolist() == [[10, 1], [20, 2]]
