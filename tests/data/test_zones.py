"""Times in a plant's zone: stamps, offsets and hours across changes of the clock."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from sightline import (
    Recording,
    ResidualStream,
    StreamError,
    Tag,
    evaluate,
    export_stream,
    make_detector,
    open_testbed,
    read_results,
    read_stream,
    read_tables,
    write_results,
    write_stream,
)
from sightline.data.downsampling import downsampled
from sightline.data.zones import (
    iso_stamp,
    local_seconds,
    offset_changes,
    stamp,
    zone_words,
)

BERLIN = "Europe/Berlin"
# The clock goes forward at 01:00 UTC on 29 March 2026, back on 25 October 2026.
SPRING = 1_774_746_000
AUTUMN = 1_792_890_000
VALUES = [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("at", "shown", "iso"),
    [
        (SPRING - 1, "2026-03-29 01:59:59", "2026-03-29T01:59:59+01:00"),
        (SPRING, "2026-03-29 03:00:00", "2026-03-29T03:00:00+02:00"),
        (AUTUMN - 3601, "2026-10-25 01:59:59", "2026-10-25T01:59:59+02:00"),
        (AUTUMN - 1, "2026-10-25 02:59:59 +02:00", "2026-10-25T02:59:59+02:00"),
        (AUTUMN, "2026-10-25 02:00:00 +01:00", "2026-10-25T02:00:00+01:00"),
        (AUTUMN + 3600, "2026-10-25 03:00:00", "2026-10-25T03:00:00+01:00"),
    ],
)
def test_a_stamp_is_right_on_both_sides_of_a_change(at, shown, iso):
    assert stamp(at, BERLIN) == shown
    assert iso_stamp(at, BERLIN) == iso
    # The text with its offset is the same second.
    assert datetime.fromisoformat(iso).timestamp() == at


def test_utc_and_the_plants_own_clock_show_seconds_as_they_are():
    assert stamp(SPRING) == stamp(SPRING, "UTC") == "2026-03-29 01:00:00"
    assert iso_stamp(SPRING, "UTC") == "2026-03-29T01:00:00+00:00"
    assert iso_stamp(SPRING) == "2026-03-29T01:00:00"
    assert zone_words(BERLIN) == "times in Europe/Berlin"
    assert zone_words("UTC") == "times in UTC"
    assert zone_words(None) == "times on the plant's own clock"


@pytest.mark.parametrize("at", [1e15, -1e15, float("nan"), float("inf")])
def test_a_time_that_no_date_holds_is_shown_as_seconds(at):
    assert stamp(at, BERLIN) == f"{at:g} s"
    assert iso_stamp(at, BERLIN) == ""


@pytest.mark.parametrize("zone", [BERLIN, "America/St_Johns", "Africa/Casablanca"])
def test_local_seconds_agree_with_the_rules_of_the_zone(zone):
    time = np.arange(SPRING - 40 * 86_400, AUTUMN + 40 * 86_400, 1200.5)
    offsets = [
        datetime.fromtimestamp(at, ZoneInfo(zone)).utcoffset().total_seconds()
        for at in time
    ]
    np.testing.assert_array_equal(local_seconds(time, zone), time + offsets)
    # The order of the rows does not matter.
    np.testing.assert_array_equal(local_seconds(time[::-1], zone)[::-1], time + offsets)


def test_changes_are_found_to_the_second():
    changes = offset_changes(SPRING - 1000, AUTUMN + 1000, BERLIN)
    assert changes == [[SPRING - 1000, 3600], [SPRING, 7200], [AUTUMN, 3600]]
    assert offset_changes(SPRING, AUTUMN - 1, BERLIN) == [[SPRING, 7200]]
    assert offset_changes(SPRING - 1, AUTUMN, "UTC") == [[SPRING - 1, 0]]
    assert offset_changes(SPRING - 1, AUTUMN, None) == [[SPRING - 1, 0]]


def test_a_recording_and_a_stream_refuse_an_unknown_zone():
    tags = [Tag(name="LIT101")]
    with pytest.raises(StreamError, match="'Berlin' is not known; write it like"):
        Recording(values=VALUES, tags=tags, timezone="Berlin")
    stream = ResidualStream(VALUES, VALUES, [0, 0], timezone=BERLIN)
    assert stream.replace(name="other").timezone == BERLIN
    with pytest.raises(StreamError, match="is not known"):
        stream.replace(timezone="../Berlin")


@pytest.mark.parametrize(
    ("time", "zone"),
    [
        (["2026-03-29T01:59:59+01:00", "2026-03-29T03:00:00+02:00"], "UTC"),
        (["2026-03-29 01:00:00Z", "2026-03-29 01:00:01Z"], "UTC"),
        (["2026-03-29 01:00:00", "2026-03-29 01:00:01"], None),
        (["2026-03-29", "2026-03-30"], None),
        ([SPRING, SPRING + 1], None),
        (None, None),
    ],
)
def test_text_with_an_offset_makes_the_times_of_a_stream_utc(time, zone):
    assert ResidualStream(VALUES, VALUES, test_time=time).timezone == zone


@pytest.mark.parametrize("library", ["polars", "pandas", "parquet"])
def test_a_frame_whose_times_have_a_zone_gives_it_to_the_stream(tmp_path, library):
    shown = ["2026-10-25T02:59:59+02:00", "2026-10-25T02:00:00+01:00"]
    frame = pl.DataFrame({"time": shown, "LIT101": [1.0, 2.0]}).with_columns(
        pl.col("time").str.to_datetime(time_zone=BERLIN)
    )
    if library == "parquet":
        frame.write_parquet(tmp_path / "a.parquet")
        stream = read_tables(*[tmp_path / "a.parquet"] * 2, time="time")
    else:
        given = frame if library == "polars" else frame.to_pandas()
        stream = ResidualStream.from_tables(given, given, time="time")
    assert stream.timezone == ("UTC" if library == "pandas" else BERLIN)
    assert stream.test_time.tolist() == [AUTUMN - 1, AUTUMN]


@pytest.mark.parametrize(
    ("settings", "first", "zone"),
    [
        (f'timezone = "{BERLIN}"\n', "2026-10-25 00:30:00", BERLIN),
        ("", "2026-10-25 00:30:00+02:00", "UTC"),
        (f'timezone = "{BERLIN}"\n', "2026-10-25 00:30:00+02:00", BERLIN),
        ("", "2026-10-25 00:30:00", None),
    ],
)
def test_the_zone_of_a_plant_reaches_the_result(tmp_path, settings, first, zone):
    start = datetime.fromisoformat(first)
    # Rows through the night of the change, by the clock on the wall.
    known = start if start.tzinfo else start.replace(tzinfo=ZoneInfo(zone or "UTC"))
    seconds = known.timestamp() + 60 * np.arange(240)
    shown = [
        datetime.fromtimestamp(at, start.tzinfo or known.tzinfo).isoformat(" ")[
            : len(first)
        ]
        for at in seconds
    ]
    rng = np.random.default_rng(0)
    for name in ("train", "test"):
        level = rng.normal(size=240)
        rows = [f"{at},{x:.6f}" for at, x in zip(shown, level, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["time,LIT101", *rows]) + "\n")
    (tmp_path / "plant.toml").write_text(settings)
    plant = open_testbed(tmp_path)
    assert (plant.train.timezone, plant.test.timezone) == (zone, zone)
    np.testing.assert_array_equal(plant.test.time, seconds)
    test = downsampled(plant.test, every=2)
    assert test.timezone == zone
    detector = make_detector("last-value").fit(plant.train)
    stream = export_stream(detector, plant.train, test)
    for name in ("stream.npz", "stream.parquet"):
        write_stream(stream, tmp_path / name)
        stored = read_stream(tmp_path / name)
        assert stored.timezone == zone
        np.testing.assert_array_equal(stored.test_time, stream.test_time)
    write_results([evaluate(stored, intervals=False)], tmp_path / "results")
    [read] = read_results([tmp_path / "results"])
    assert read.evaluation.stream.timezone == zone
