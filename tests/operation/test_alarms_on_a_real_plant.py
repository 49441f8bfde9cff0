"""Alarms of a real plant's month: by hour, by day, in one file; dead instruments."""

import gzip
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner
from watched_plants import (
    _no_waiting,  # noqa: F401
    dump,
    log_of,
)

from sightline import commission, export_stream, make_detector, open_testbed, write_rule
from sightline.cli.app import app
from sightline.operation.watch import watch_folder

GECCO = Path(__file__).parents[3] / "shared/data/gecco/export_2016.csv.gz"
HOUR, DAY = 60, 1440
# Rows of the export; the month that is watched follows those of the rule, and lies
# before the hour that the plant's clock counts twice.
FIRST, MONTH = 60_000, 30 * DAY
PH = 2
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not GECCO.is_file(), reason="../shared/data/gecco/export_2016.csv.gz is missing"
    ),
]


@pytest.fixture(scope="module")
def works(tmp_path_factory):
    """Return a folder with a rule, the export's settings, its header and its rows."""
    folder = tmp_path_factory.mktemp("works")
    header, *rows = gzip.decompress(GECCO.read_bytes()).splitlines(keepends=True)
    (folder / "early.csv").write_bytes(header + b"".join(rows[:FIRST]))
    words = ("start", folder / "early.csv", "--timezone", "Europe/Berlin")
    done = CliRunner().invoke(app, [*map(str, words), "--out", str(folder / "plant")])
    assert done.exit_code == 0, done.output
    plant = open_testbed(folder / "plant", cache=False)
    detector = make_detector("var").fit(plant.train)
    detector.save(folder / "var.npz")
    stream = export_stream(detector, plant.train, plant.test)
    made = commission(stream, budget="6/day,3%", choose="energy")
    write_rule(made, folder / "rule.json", detector=folder / "var.npz")
    return folder, (folder / "plant" / "plant.toml").read_bytes(), header, rows


def watched(works, name, rows, step, runs_each=1):
    """Return log and state of a month that arrives in files of some rows."""
    folder, settings, header, _ = works
    exports = folder / name / "exports"
    exports.mkdir(parents=True)
    (exports / "plant.toml").write_bytes(settings)
    for k, first in enumerate(range(0, len(rows), step)):
        path = exports / f"{first:06d}.csv"
        path.write_bytes(header + b"".join(rows[first : first + step]))
        if k % runs_each == 0 or first + step >= len(rows):
            done = watch_folder(
                folder / "rule.json", exports, folder / name / "s.db", settle_s=0
            )
    state = dump(folder / name / "s.db", 10)
    state.pop("read")
    return log_of(folder / name), state, done


def without(rows, first, stop, *tags):
    """Return rows in which some tags have no value for a while."""
    changed = list(rows)
    for k in range(first, stop):
        cells = changed[k].rstrip(b"\r\n").split(b";")
        for tag in tags:
            cells[1 + tag] = b"#Ausfall"
        changed[k] = b";".join(cells) + b"\n"
    return changed


def anomalies(log):
    return [
        (x["id"], x["event"], x["time"], x["tags"])
        for x in log
        if x["kind"] == "anomaly"
    ]


def test_by_hour_by_day_and_in_one_file(works):
    month = works[3][FIRST : FIRST + MONTH]
    one, in_one, _ = watched(works, "one", month, MONTH)
    by_day, days, _ = watched(works, "day", month, DAY)
    by_hour, hours, _ = watched(works, "hour", month, HOUR, 12)
    assert one == by_day == by_hour
    assert in_one == days == hours
    assert len(one) > 50


def test_a_dead_ph_meter_is_lost_within_an_hour_and_the_others_ring_as_before(works):
    three = works[3][FIRST : FIRST + 3 * DAY]
    plain, _, _ = watched(works, "plain", three, DAY)
    dead, _, _ = watched(works, "dead", without(three, DAY, 2 * DAY, PH), DAY)
    lost = [x for x in dead if (x["kind"], x["source"]) == ("tag lost", "QIR_pH_01")]
    assert [x["event"] for x in lost] == ["started", "ended"]
    since, told, back = (
        datetime.fromisoformat(x)
        for x in (lost[0]["start"], lost[0]["time"], lost[1]["time"])
    )
    assert told - since <= timedelta(hours=1)
    assert back - since == timedelta(days=1)
    assert len(anomalies(plain)) > 20
    assert anomalies(dead) == anomalies(plain)


def test_five_days_without_any_value_are_red(works):
    seven = works[3][FIRST : FIRST + 7 * DAY]
    out = without(seven, DAY, 6 * DAY, *range(10))
    log, _, done = watched(works, "out", out[: 6 * DAY], DAY)
    assert done.exit_code == 7
    (line,) = [x for x in log if x["kind"] == "no data"]
    assert (line["event"], line["priority"], line["state"]) == ("started", 1, "active")
    assert sum(day.hours for day in done.week.days) == pytest.approx(24, abs=0.6)
