"""Time stamps of one's own plant become seconds, and say whether that is UTC."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import FileError
from sightline.tables.stamps import check_zone, seconds_from

BERLIN = "Europe/Berlin"
EIGHT = datetime(2026, 11, 15, 8, tzinfo=UTC).timestamp()


def seconds(stamps, *, zone=None, time_format=None):
    column = stamps if isinstance(stamps, pl.Series) else pl.Series("time", stamps)
    found, is_utc, *_ = seconds_from(
        column, path=Path("test.csv"), zone=zone, time_format=time_format
    )
    return found.tolist(), is_utc


def refusal(stamps, **options):
    with pytest.raises(FileError) as caught:
        seconds(stamps, **options)
    said = str(caught.value)
    assert said.startswith("test.csv: ")
    assert said.endswith(".")
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-15T08:00:00Z",
        "2026-11-15T08:00:00z",
        "2026-11-15 08:00:00Z",
        "2026-11-15 08:00:00 Z",
        "2026-11-15 08:00:00.000Z",
        "2026-11-15T09:00:00+01:00",
        "2026-11-15T09:00:00+0100",
        "2026-11-15 09:00:00 +01:00",
        "2026-11-15T03:00:00-05:00",
        "2026-11-15T13:30:00+05:30",
        "2026-11-15T09:00+01:00",
        "  2026-11-15T08:00:00Z  ",
    ],
)
def test_a_stamp_with_an_offset_is_utc(stamp):
    assert seconds([stamp]) == ([EIGHT], True)


@pytest.mark.parametrize(
    ("stamp", "after"),
    [
        ("2026-11-15 08:00:00", 0),
        ("2026-11-15T08:00:00", 0),
        ("2026-11-15 08:00", 0),
        ("2026-11-15 08:00:00.250", 0.25),
        ("2026-11-15T08:00:00.000001", 1e-6),
        ("2026-11-15", -8 * 3600),
    ],
)
def test_a_stamp_without_a_zone_stays_on_the_clock_of_the_plant(stamp, after):
    (found,), is_utc = seconds([stamp])
    assert found == pytest.approx(EIGHT + after, abs=1e-7)
    assert not is_utc


def test_an_offset_wins_over_the_stated_zone():
    assert seconds(["2026-11-15T08:00:00Z"], zone="Asia/Tokyo") == ([EIGHT], True)


def test_a_stated_zone_makes_it_utc():
    assert seconds(["2026-11-15 09:00:00"], zone=BERLIN) == ([EIGHT], True)
    assert seconds(["2026-11-15 08:00:00"], zone="UTC") == ([EIGHT], True)


def test_offsets_that_change_with_the_clocks_make_even_time():
    stamps = [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]
    found, is_utc = seconds(stamps)
    assert [b - a for a, b in pairwise(found)] == [1800.0] * 3
    assert is_utc


def local_hours(first, n_steps, minutes):
    """Stamps of a Berlin clock, evenly spaced in true time."""
    at = datetime.fromisoformat(first).replace(tzinfo=UTC)
    return [
        (at + k * timedelta(minutes=minutes))
        .astimezone(ZoneInfo(BERLIN))
        .strftime("%Y-%m-%d %H:%M:%S")
        for k in range(n_steps)
    ]


@pytest.mark.parametrize("minutes", [1, 20, 30])
def test_the_hour_that_comes_twice_in_autumn_is_told_by_order(minutes):
    stamps = local_hours("2026-10-24T22:00:00", 6 * 60 // minutes, minutes)
    assert len(set(stamps)) < len(stamps)
    found, _ = seconds(stamps, zone=BERLIN)
    steps = {b - a for a, b in pairwise(found)}
    assert steps == {60.0 * minutes}


def test_rows_that_share_a_stamp_of_the_hour_that_comes_twice_stay_together():
    stamps = [
        stamp for stamp in local_hours("2026-10-24T23:30:00", 7, 30) for _ in "AB"
    ]
    found, _ = seconds(stamps, zone=BERLIN)
    assert found[0::2] == found[1::2]


def test_the_hour_that_is_left_out_in_spring_needs_no_care():
    stamps = local_hours("2026-03-28T23:00:00", 8, 30)
    found, _ = seconds(stamps, zone=BERLIN)
    assert found[-1] - found[0] == 7 * 1800


def test_a_time_that_does_not_exist_is_refused():
    said = refusal(["2026-03-29 01:59:00", "2026-03-29 02:30:00"], zone=BERLIN)
    assert "2026-03-29 02:30:00 (data row 2) does not exist in Europe/Berlin" in said
    assert "the stamps are in another zone, or in none" in said


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([1_794_700_800, 1_794_700_801], [1_794_700_800.0, 1_794_700_801.0]),
        ([1_794_700_800.5, 1_794_700_801.5], [1_794_700_800.5, 1_794_700_801.5]),
        ([1_794_700_800_000, 1_794_700_800_250], [1_794_700_800.0, 1_794_700_800.25]),
        ([0, 10], [0.0, 10.0]),
    ],
)
def test_numbers_are_seconds_or_milliseconds_since_1970(numbers, expected):
    assert seconds(numbers) == (expected, True)


@pytest.mark.parametrize("a_second", [10**3, 10**6, 10**9])
def test_fractions_of_a_second_are_known_by_their_size(a_second):
    first = int(EIGHT)
    found, is_utc = seconds([first * a_second, (first + 1) * a_second])
    assert found == pytest.approx([EIGHT, EIGHT + 1], abs=1e-5)
    assert is_utc


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(639_000_000_000_000_000, id="ticks of .NET"),
        pytest.param(134_000_000_000_000_000, id="ticks of Windows"),
        pytest.param(45_981_333_333, id="days of WinCC"),
        pytest.param(10**13, id="milliseconds of 2286"),
    ],
)
def test_numbers_that_are_no_date_are_refused(number):
    assert "time_format" in refusal([number, number + 1])


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", BERLIN])
def test_a_column_of_times_is_taken_as_it_is(unit, zone):
    column = pl.Series("time", [datetime(2026, 11, 15, 8)]).cast(pl.Datetime(unit))
    if zone is not None:
        column = column.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    assert seconds(column) == ([EIGHT], zone is not None)


def test_a_column_of_days_is_taken_as_midnight():
    assert seconds([date(1970, 1, 2)]) == ([86_400.0], False)


def test_another_form_can_be_stated():
    stamps = ["15/11/2026 08:00:00", "15/11/2026 08:00:01"]
    found = seconds(stamps, time_format="%d/%m/%Y %H:%M:%S")
    assert found == ([EIGHT, EIGHT + 1], False)


def test_another_form_may_have_an_offset_or_a_zone():
    form = "%d.%m.%Y %H:%M"
    assert seconds(["15.11.2026 09:00"], time_format=form, zone=BERLIN)[0] == [EIGHT]
    with_offset = seconds(["15.11.2026 09:00 +0100"], time_format=f"{form} %z")
    assert with_offset == ([EIGHT], True)


def test_a_stated_form_is_the_only_one():
    refusal(["15.11.2026 08:00:00"], time_format="%d/%m/%Y %H:%M:%S")


def test_iso_8601_is_read_where_another_form_is_stated():
    form = "%d/%m/%Y %H:%M:%S"
    assert seconds(["2026-11-15 08:00:00"], time_format=form) == ([EIGHT], False)
    assert seconds(["15/11/2026 08:00:00"], time_format=form) == ([EIGHT], False)
    mixed = ["2026-11-15 08:00:00", "15/11/2026 08:00:00"]
    assert "data row 1 is '2026" in refusal(mixed, time_format=form)


def test_an_empty_cell_is_refused():
    said = refusal(["2026-11-15 08:00:00", None])
    assert "column 'time' must be complete; data row 2 has no time" in said


@pytest.mark.parametrize("row", [0, 1, 3])
def test_what_is_no_time_is_refused_by_its_row(row):
    stamps = [f"2026-11-15 08:00:0{k}" for k in range(4)]
    stamps[row] = "n/a"
    said = refusal(stamps)
    assert f"data row {row + 1} is 'n/a'" in said
    assert "give time_format in plant.toml, such as '%d/%m/%Y %H:%M:%S'" in said


@pytest.mark.parametrize("row", [0, 1, 3])
def test_what_is_no_time_among_offsets_is_refused_by_its_row(row):
    stamps = [f"2026-11-15T08:00:0{k}+01:00" for k in range(4)]
    stamps[row] = "n/a"
    assert f"data row {row + 1} is 'n/a'" in refusal(stamps)


def test_stamps_with_and_without_an_offset_do_not_mix():
    said = refusal(["2026-11-15T08:00:00Z", "2026-11-15T08:00:01"])
    assert "data row 2 is '2026-11-15T08:00:01'" in said


@pytest.mark.parametrize("form", ["%Q", "%", "%H:%M:%S", "%Y"])
def test_a_form_that_makes_no_time_is_refused(form):
    assert "give time_format" in refusal(["2026-11-15 08:00:00"], time_format=form)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("time", [True, False]),
        pl.Series("time", [time(8), time(9)]),
        pl.Series("time", [[1], [2]]),
        pl.Series("time", [{"a": 1}, {"a": 2}]),
    ],
    ids=["booleans", "hours", "lists", "structs"],
)
def test_a_column_of_something_else_is_refused(column):
    assert "'time'" in refusal(column)


@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Asia/Singapore", "Etc/GMT-8"])
def test_zones_are_known_by_name(zone):
    assert check_zone(zone, Path("plant.toml")) == zone


@pytest.mark.parametrize("zone", ["", "CEST!", "Europe", "../x", "UTC+1", "a\0b"])
def test_a_zone_nobody_knows_is_refused(zone):
    with pytest.raises(FileError, match=r"plant\.toml: timezone .* is not known") as e:
        check_zone(zone, Path("plant.toml"))
    with pytest.raises(FileError, match=r"^arrivals\.csv: timezone .* is not known"):
        seconds_from(pl.Series(["2026-11-15 08:00:00"]), path="arrivals.csv", zone=zone)
    assert "write it like 'Europe/Berlin' or 'UTC'." in str(e.value)


@settings(max_examples=30, deadline=None)
@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2099, 1, 1)),
    st.integers(-14 * 4, 14 * 4),
)
def test_any_moment_written_with_any_offset_is_that_moment(moment, quarters):
    zone = timezone(timedelta(minutes=15 * quarters))
    (found,), is_utc = seconds([moment.replace(tzinfo=zone).isoformat()])
    assert found == pytest.approx(moment.replace(tzinfo=zone).timestamp(), abs=1e-5)
    assert is_utc
