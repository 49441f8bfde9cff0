"""Time that is not watched: outages, dead tags, other units, and what a watch says."""

import os
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner
from watched_plants import (
    BEGIN,
    CHANNELS,
    LONG_AGO,
    STEP_S,
    _no_waiting,  # noqa: F401
    dump,
    log_of,
    made,
    residuals,
    write_export,
    write_pieces,
    write_rule_file,
)

from sightline import (
    Recording,
    Tag,
    commission,
    export_stream,
    read_rule,
    write_rule,
)
from sightline.cli.app import app
from sightline.data.validity import NotWatched, Unwatched, Validity
from sightline.data.zones import iso_stamp, stamp
from sightline.detectors import make_detector
from sightline.errors import FileError
from sightline.operation.live import LiveDetector, runs_of
from sightline.operation.telemetry import (
    TelemetryReader,
    export_settings,
    rule_rows,
)
from sightline.operation.watch import watch_folder
from sightline.rules.normal import Telemetry
from sightline.testbeds.own_plant.settings import PlantSettings

DAY = 1440
TAGS = tuple(Tag(name=name) for name in CHANNELS)


def times(n_rows):
    return BEGIN + STEP_S * np.arange(n_rows)


def telemetry(n_rows, seed=0):
    noise = np.random.default_rng(seed).normal(size=(n_rows, 4)) @ (np.eye(4) + 0.3)
    return 50 + 0.3 * np.cumsum(noise - noise.mean(axis=0), axis=0) % 7


def recording(rows, start=0):
    time = BEGIN + STEP_S * np.arange(start, start + len(rows))
    return Recording(values=rows, tags=TAGS, step_s=STEP_S, time=time)


def invoke(folder):
    words = [folder / "rule.json", "--folder", folder / "exports"]
    words += ["--state", folder / "state.db"]
    return CliRunner().invoke(app, ["watch", *map(str, words)])


@pytest.fixture(scope="module")
def rule_of_telemetry(tmp_path_factory):
    """Return the file of a rule that reads telemetry through a saved detector."""
    folder = tmp_path_factory.mktemp("rule")
    rows = telemetry(9000, seed=2)
    detector = make_detector("var").fit(recording(rows[:2000]))
    stream = export_stream(
        detector, recording(rows[:2000]), recording(rows[2000:], 2000)
    )
    detector.save(folder / "var.npz")
    done = commission(stream, budget="24/day,3%", first=0.9, choose="all")
    write_rule(done, folder / "rule.json", detector=folder / "var.npz")
    return folder / "rule.json"


# --- Every instrument is dead ---------------------------------------------------------


def test_two_days_without_any_value_are_no_watched_hour_and_exit_code_7(tmp_path):
    write_rule_file(tmp_path)
    rows = residuals(4 * DAY)
    # An alarm runs when the instruments die.
    rows[DAY - 5 : DAY, 1] += 40
    rows[DAY : 3 * DAY] = np.nan
    time = times(len(rows))
    write_pieces(tmp_path / "exports", time[: 3 * DAY], rows[: 3 * DAY], [DAY, 2 * DAY])
    result = invoke(tmp_path)
    assert result.exit_code == 7, result.output
    # BEGIN is 14:13:20 UTC.
    assert result.stdout.startswith("NOT WATCHED since 2026-09-22 16:13:20: no data.")
    assert "24.0 of 72.0 hours watched; not watched: 2026-09-22 16:13:20" in (
        result.stdout
    )
    assert "The promise is not judged" in result.stdout
    metrics = (tmp_path / "sightline.prom").read_text()
    assert 'sightline_watching{rule="all"} 0' in metrics
    state = dump(tmp_path / "state.db")
    assert sum(state["hours"][1]) == DAY
    end = float(time[3 * DAY - 1]) + STEP_S
    assert state["unwatched"] == [Unwatched(float(time[DAY]), end, NotWatched.NO_DATA)]
    # Data return: what ran then has ended, and rows are watched from the first on.
    write_export(tmp_path / "exports" / "later.csv", time[3 * DAY :], rows[3 * DAY :])
    result = invoke(tmp_path)
    assert result.exit_code in (0, 3), result.output
    assert "NOT WATCHED" not in result.stdout
    state = dump(tmp_path / "state.db")
    assert sum(state["hours"][1]) == 2 * DAY
    at_end = [one for one in state["episodes"] if one.last == time[DAY - 1]]
    assert len(at_end) == 1
    assert not [
        one
        for one in state["episodes"]
        if one.start < time[3 * DAY] and one.last >= time[DAY]
    ]


def test_apply_counts_a_gap_between_files_as_a_watch_does(tmp_path, rule_of_telemetry):
    """The same exports, with 12 hours that no file has and 2 that hold no value."""
    rows, time = telemetry(3 * DAY, seed=3), times(3 * DAY)
    rows[200:320] = np.nan
    is_there = (np.arange(len(rows)) < DAY) | (np.arange(len(rows)) >= DAY + DAY // 2)
    exports, out = tmp_path / "exports", tmp_path
    write_pieces(exports, time[is_there], rows[is_there], [DAY])
    said = set()
    for words in (
        (
            "watch",
            rule_of_telemetry,
            "--folder",
            exports,
            "--exit-zero",
            "--state",
            tmp_path / "state.db",
        ),
        ("apply", rule_of_telemetry, exports, "--out", out / "applied"),
    ):
        result = CliRunner().invoke(app, [str(word) for word in words])
        told = " ".join(result.stdout.split())
        said.add(re.search(r"hours watched; not watched: ([^.]*)", told)[1])
    (both,) = said
    assert both.count("(no data)") == 2
    assert f"{stamp(time[DAY], None)} to {stamp(time[DAY + DAY // 2], None)}" in both


def test_a_file_with_nothing_to_use_is_read_and_not_watched(tmp_path):
    write_rule_file(tmp_path)
    (tmp_path / "exports").mkdir()
    write_export(tmp_path / "exports" / "a.csv", times(30), np.full((30, 4), np.nan))
    result = invoke(tmp_path)
    assert result.exit_code == 7, result.output
    assert "1 file read" in result.stdout
    assert dump(tmp_path / "state.db")["hours"][0] == []


def test_no_new_file_for_hours_is_exit_code_7_and_goes_before_a_broken_promise(
    tmp_path,
):
    write_rule_file(tmp_path)
    rows = residuals(3000, factor=3)
    # No alarm runs at the end.
    rows[-60:] = 0.0
    (path,) = write_pieces(tmp_path / "exports", times(3000), rows, [])
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert invoke(tmp_path).exit_code == 3
    result = invoke(tmp_path)
    assert result.exit_code == 7
    last = iso_stamp(BEGIN + STEP_S * 3000, "Europe/Berlin")[:19].replace("T", " ")
    assert result.stdout.startswith(f"NOT WATCHED since {last}: no data.")
    # A file that cannot be read brings no data; one that can ends it.
    (tmp_path / "exports" / "b.csv").write_text("a,b\n1,2\n")
    path = tmp_path / "exports" / "b.csv"
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert invoke(tmp_path).exit_code == 7
    later = BEGIN + STEP_S * np.arange(3000, 3010)
    write_export(path, later, np.zeros((10, 4)))
    assert invoke(tmp_path).exit_code == 3
    events = [line["event"] for line in log_of(tmp_path) if line["kind"] == "no data"]
    assert events == ["started", "ended"]


# --- One tag is dead ------------------------------------------------------------------


def test_a_row_with_one_missing_residual_is_watched_without_that_tag(tmp_path):
    write_rule_file(tmp_path)
    rows = residuals(DAY)
    rows[200:900, 0] = np.nan
    rows[500:510, 3] += 40
    write_pieces(tmp_path / "exports", times(DAY), rows, [])
    watch_folder(tmp_path / "rule.json", tmp_path / "exports", tmp_path / "state.db")
    state = dump(tmp_path / "state.db")
    assert (sum(state["hours"][1]), state["unwatched"]) == (DAY, [])
    during = [one for one in state["episodes"] if 500 <= (one.start - BEGIN) / 60 < 510]
    assert [one.tags[0] for one in during] == ["LIT201"]


def test_a_dead_tag_leaves_the_residuals_of_others_as_they_are():
    detector = make_detector("last-value").fit(recording(telemetry(1500, seed=9)))
    plain = made().deployed()
    rule = replace(
        plain, origin=replace(plain.origin, telemetry=Telemetry(step_s=STEP_S))
    )
    rows, time, found = telemetry(DAY, seed=3), times(DAY), []
    dead = rows.copy()
    dead[300:900, 2] = np.nan
    for given in (rows, dead):
        live = LiveDetector(detector, rule, STEP_S)
        begins = np.arange(DAY) == 0
        runs = [part for run in runs_of(time, given, begins) for part in live.take(run)]
        found.append(np.concatenate([run.rows for run in runs]))
    others = [0, 1, 3]
    assert found[0][:, others].tobytes() == found[1][:, others].tobytes()
    n_before = DAY - len(found[1])
    lost = np.flatnonzero(np.isnan(found[1][:, 2])) + n_before
    # One row more: the first residual after it looks back at a held value.
    assert lost.tolist() == [*range(300, 901)]


def test_a_rule_of_telemetry_runs_on_while_a_tag_is_dead(tmp_path, rule_of_telemetry):
    rows = telemetry(2 * DAY, seed=4)
    rows[500 : 500 + DAY, 1] = np.nan
    write_pieces(tmp_path / "exports", times(len(rows)), rows, [DAY])
    done = watch_folder(rule_of_telemetry, tmp_path / "exports", tmp_path / "state.db")
    assert done.is_watching
    assert done.week.watched_share > 0.99
    assert dump(tmp_path / "state.db")["unwatched"] == []


# --- Units and columns ----------------------------------------------------------------


def read(path, **known):
    reader = TelemetryReader(
        channels=CHANNELS[:3],
        settings=PlantSettings(),
        known=Telemetry(step_s=STEP_S, **known),
    )
    return reader(path, None)


def write_table(path, header):
    stamps = [f"2026-09-22 00:{k:02d}:00" for k in range(30)]
    n_tags = header.count(",")
    lines = [f"{at},{','.join(['1.5'] * n_tags)}" for at in stamps]
    path.write_text("\n".join([header, *lines, ""]))
    return path


def test_a_long_table_has_rows_in_the_step_that_the_detector_reads(tmp_path):
    """A short one would say another step: its readings are 20 s apart, with jitter."""
    rng = np.random.default_rng(0)
    lines = ["tag,time,value"]
    for k in range(90):
        at = stamp(1_790_000_040 + 20 * k + float(rng.uniform(-4, 4)))
        lines += [f"{tag},{at},{k}.5" for tag in CHANNELS[k % 2 : 2]]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([*lines, ""]))
    table = read(path)
    assert table.step_s == STEP_S
    assert np.unique(np.diff(table.time)).tolist() == [STEP_S]
    assert (table.codes[:, 2] == Validity.MISSING).all()


def test_values_in_another_unit_are_not_used_and_said(tmp_path):
    path = write_table(tmp_path / "a.csv", "time,LIT101 [mm],FIT101 [m3/h],MV101")
    table = read(path, units={"LIT101": "m", "FIT101": "m3/h"})
    codes = [Validity.UNIT, Validity.GOOD, Validity.GOOD]
    assert (table.codes == codes).all()
    assert table.notices == (
        "a.csv: LIT101 is in mm, and the rule was made for m: its values are not used. "
        "Export it in m (1 mm is 0.001 m), or commission again.",
    )


def test_a_tag_that_a_wide_file_lacks_is_missing_and_not_refused(tmp_path):
    table = read(write_table(tmp_path / "a.csv", "time,LIT101,MV101"))
    assert (table.codes == [Validity.GOOD, Validity.MISSING, Validity.GOOD]).all()
    assert table.notices == ("a.csv: has no column FIT101.",)
    with pytest.raises(FileError, match="has no tag that the rule's detector reads"):
        read(write_table(tmp_path / "b.csv", "time,OTHER,MORE"))


# --- The law --------------------------------------------------------------------------


def test_files_by_hour_by_day_and_one_file_give_one_state(tmp_path, rule_of_telemetry):
    n = 2 * DAY
    rows, time = telemetry(n, seed=7), times(n)
    rows[300:420] = np.nan  # an outage within files, one across midnight
    rows[DAY - 90 : DAY + 40] = np.nan
    rows[700:760, :2] = np.nan  # half of the tags: an outage too
    rows[900:1000, 3] = np.nan
    rows[1100:1130, 2] += 9
    time[2200:] += 7200
    states = []
    for size in (n, DAY, 60):
        folder = tmp_path / f"by{size}"
        write_pieces(folder, time, rows, [*range(size, n, size)])
        watch_folder(rule_of_telemetry, folder, tmp_path / f"{size}.db")
        states.append(dump(tmp_path / f"{size}.db"))
        states[-1].pop("read")
    assert states[0] == states[1] == states[2]
    assert len(states[0]["unwatched"]) == 3
    # A reading is held for 60 s, so that an outage begins one row later.
    n_out = [round((one.end - one.start) / STEP_S) for one in states[0]["unwatched"]]
    assert n_out == [119, 59, 129]


def test_an_export_of_changes_by_the_hour_has_no_rows_missing(
    tmp_path, rule_of_telemetry
):
    """As a historian writes it: files begin and end with the changes in them."""
    rows, time = telemetry(DAY, seed=5), times(DAY)
    made = read_rule(rule_of_telemetry)
    holds = dict.fromkeys(CHANNELS, 4 * 3600.0)
    origin = replace(made.origin, telemetry=replace(made.origin.telemetry, holds=holds))
    (tmp_path / "rule").mkdir()
    detector = rule_of_telemetry.parent / "var.npz"
    write_rule(
        replace(made, origin=origin), tmp_path / "rule/rule.json", detector=detector
    )
    kept = [
        (float(at), f"{CHANNELS[k]},{iso_stamp(float(at), 'UTC')},{row[k]:.6g}")
        for j, (at, row) in enumerate(zip(time, rows, strict=True))
        # Nothing changes for the last half of each hour.
        for k in range(4)
        if j % 60 < 30 or j in (0, DAY - 1)
    ]
    states = []
    for size in (86_400, 7200):
        folder = tmp_path / f"by{size}"
        folder.mkdir()
        for k in range(int(DAY * STEP_S // size) + 1):
            inside = [line for at, line in kept if int((at - BEGIN) // size) == k]
            if inside:
                text = "\n".join(["tag,time,value", *inside, ""])
                (folder / f"{k:03d}.csv").write_text(text)
        watch_folder(tmp_path / "rule", folder, tmp_path / f"{size}.db", settle_s=0)
        states.append(dump(tmp_path / f"{size}.db"))
        states[-1].pop("read")
    assert states[0] == states[1]
    assert states[0]["unwatched"] == []
    # The first rows have too few before them for a residual.
    assert sum(states[0]["hours"][1]) == DAY - 5


def test_dates_are_read_in_the_order_that_the_rule_remembers(tmp_path):
    known = Telemetry(step_s=STEP_S, date_order="day")
    rule = replace(made().deployed(), origin=None)
    assert not export_settings(tmp_path, rule).date_order
    origin = replace(made().deployed().origin, telemetry=known)
    settings = export_settings(tmp_path, replace(rule, origin=origin))
    path = write_table(tmp_path / "a.csv", "time,LIT101,MV101")
    path.write_text(path.read_text().replace("2026-09-22", "03/09/2026"))
    reader = TelemetryReader(channels=CHANNELS[:3], settings=settings, known=known)
    first = reader(path).time[0]
    assert stamp(first, settings.timezone).startswith("2026-09-03 00:00:00")
    with pytest.raises(FileError, match="day and month cannot be told apart"):
        read(path)


def test_faster_rows_with_lost_cells_give_apply_the_residuals_of_watch():
    """Three rows of 20 s are joined to the row of a minute that a detector reads."""
    detector = make_detector("var").fit(recording(telemetry(1500, seed=9)))
    plain = made().deployed()
    known = Telemetry(step_s=STEP_S, sampling="median")
    rule = replace(plain, origin=replace(plain.origin, telemetry=known))
    n = 1200
    rows = telemetry(n, seed=3)
    rows[100:400, 1] = rows[500, 2] = rows[601:603, 0] = np.nan
    time = BEGIN + STEP_S / 3 * np.arange(n)
    begins = np.isin(np.arange(n), [0, 700])
    record = Recording(
        values=rows,
        tags=TAGS,
        step_s=STEP_S / 3,
        time=time,
        breaks=np.flatnonzero(begins),
    )
    at_once = rule_rows(record, rule, detector)
    live, found = LiveDetector(detector, rule, STEP_S / 3), []
    for part in np.split(np.arange(n), [250, 501, 602, 640]):
        for run in runs_of(time[part], rows[part], begins[part]):
            found += live.take(run)
    values = np.concatenate([run.rows for run in found])
    # One lost row of three is held, two are a lost residual; so are the five after it,
    # which look back at them.
    assert np.isnan(values).sum(axis=0).tolist() == [6, 105, 0, 0]
    np.testing.assert_array_equal(
        np.concatenate([run.time for run in found]), at_once.time
    )
    np.testing.assert_allclose(values, at_once.values, rtol=1e-4, atol=1e-6)
