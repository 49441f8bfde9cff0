"""Times on the page and in tables are those of the plant's zone, in both changes."""

import csv
from collections import Counter
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from report.plant import N_TEST, SPANS, evaluations

from sightline import write_results
from sightline.report.alarms import false_alarms
from sightline.report.attacks import attack_groups
from sightline.report.charts import time_axis, zones_by_testbed
from sightline.report.entries import entries_of
from sightline.report.page import page_data, render
from sightline.storage import Result

BERLIN = ZoneInfo("Europe/Berlin")
CHANGES = {"spring": 1_774_746_000, "autumn": 1_792_890_000}


def result_at(middle, zone):
    """Return the result of a plant whose clock changes in the middle of the record."""
    base = evaluations()[0]
    time = middle - 10.0 * N_TEST / 2 + 10.0 * np.arange(N_TEST)
    return Result.of(
        replace(
            base,
            stream=replace(base.stream, timezone=zone),
            traces=replace(base.traces, test_time=time),
        )
    )


@pytest.mark.parametrize("change", CHANGES)
def test_false_alarms_are_counted_by_the_hour_of_the_zone(change):
    [entry] = entries_of([result_at(CHANGES[change], "Europe/Berlin")])
    starts = entry.traces.episode_start[entry.traces.episode_rule == 0]
    times = entry.traces.test_time[starts]
    expected = Counter(datetime.fromtimestamp(at, BERLIN).hour for at in times)
    found = false_alarms(entry)
    [p99] = [rule for rule in found if len(starts) == rule["n_read"]]
    assert p99["hours"] == [expected[hour] for hour in range(24)]
    assert p99["zone"] == "times in Europe/Berlin"
    # The same seconds without a zone are other hours.
    [plain] = entries_of([result_at(CHANGES[change], None)])
    assert false_alarms(plain)[found.index(p99)]["hours"] != p99["hours"]


@pytest.mark.parametrize("change", CHANGES)
def test_begins_of_attacks_are_those_of_the_zone_and_seconds_stay(change):
    middle = CHANGES[change]
    [entry] = entries_of([result_at(middle, "Europe/Berlin")])
    for attack, (start, _) in zip(attack_groups([entry]), SPANS, strict=True):
        at = datetime.fromtimestamp(entry.traces.test_time[start], BERLIN)
        assert attack.began.startswith(f"{at:%Y-%m-%d %H:%M:%S}")
    axis = time_axis(entry)
    assert axis["times"][0] == entry.traces.test_time[0]
    offsets = {"spring": (3600, 7200), "autumn": (7200, 3600)}[change]
    assert [offset for _, offset in axis["offsets"]] == list(offsets)
    assert axis["offsets"][1][0] == middle


@pytest.mark.parametrize(
    ("zone", "words", "suffix"),
    [
        ("Europe/Berlin", "times in Europe/Berlin", "+02:00"),
        ("UTC", "times in UTC", "+00:00"),
        (None, "times on the plant's own clock", ""),
    ],
)
def test_page_and_table_name_the_zone(tmp_path, zone, words, suffix):
    result = result_at(CHANGES["spring"] + 86_400, zone)
    entries = entries_of([result])
    assert zones_by_testbed(entries) == {"works": words}
    [drawn] = page_data(entries)["entries"]
    assert drawn["clock"]["zone"] == words
    assert f"{words[0].upper()}{words[1:]}.".replace("'", "&#39;") in render(entries)
    write_results([result.evaluation], tmp_path)
    table = tmp_path / result.name / "segments.csv"
    with table.open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    for row, (start, stop) in zip(rows, SPANS, strict=True):
        ends = [
            datetime.fromisoformat(row[name]) for name in ("start_time", "end_time")
        ]
        assert row["start_time"][19:] == suffix
        if suffix:
            time = result.traces.test_time[[start, stop - 1]]
            assert [end.timestamp() for end in ends] == time.tolist()


def test_a_record_without_dates_has_no_times_in_its_table(tmp_path):
    result = result_at(CHANGES["spring"], None)
    traces = replace(result.traces, test_time=None)
    write_results([replace(result.evaluation, traces=traces)], tmp_path)
    with (tmp_path / result.name / "segments.csv").open(encoding="utf-8") as handle:
        assert {row["start_time"] for row in csv.DictReader(handle)} == {""}
