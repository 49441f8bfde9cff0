"""A rule that watches a folder: the law of cutting, files of every kind, exit codes."""

import os
import re
import sqlite3
import time as clock
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner
from watched_plants import (
    BEGIN,
    CHANNELS,
    STEP_S,
    _no_waiting,  # noqa: F401
    dump,
    made,
    outputs,
    residuals,
    write_export,
    write_pieces,
    write_rule_file,
)

from sightline.cli.app import app
from sightline.data.row_tables import ArrayRows
from sightline.data.segments import breaks_from_time
from sightline.data.zones import iso_stamp, stamp
from sightline.errors import FileError, StreamError
from sightline.operation.alarms import AlarmKind
from sightline.operation.apply import ResidualRecord, apply_rule
from sightline.operation.telemetry import looked_at
from sightline.operation.watch import watch_folder
from sightline.operation.watch_state import Fate, WatchState
from sightline.rules.promise import Kept
from sightline.rules.rule import View
from sightline.text import per_day

N_ROWS = 3000
TIME = BEGIN + STEP_S * np.arange(N_ROWS)
ROWS = residuals(N_ROWS)


@pytest.fixture
def plant(tmp_path):
    """Return a folder with a rule and an empty folder of exports."""
    write_rule_file(tmp_path)
    (tmp_path / "exports").mkdir()
    return tmp_path


def watched(plant, **options):
    return watch_folder(
        plant / "rule.json", plant / "exports", plant / "state.db", **options
    )


def expected(time, rows):
    """Return the alarms of a whole record, as `apply` lists them, and their rows."""
    record = ResidualRecord(
        name="whole",
        rows=ArrayRows(rows),
        breaks=breaks_from_time(time, STEP_S),
        is_attack_free=np.ones(len(rows), bool),
        time=time,
        timezone="Europe/Berlin",
    )
    applied = apply_rule(made().deployed(), record)
    lines = [
        {"rule": "all", **asdict(alarm), "tags": list(alarm.tags)}
        for alarm in applied.alarms
    ]
    return applied, lines


def alarms_of(state):
    """Return ended and running alarms of a state, as lines."""
    said, rule = dump(state), made().chosen.rule
    running = [said["alarm"].as_alarm(rule.limit, 3)] if said["alarm"] else []
    return [
        {
            "rule": "all",
            "start": iso_stamp(one.start, "Europe/Berlin"),
            "end": iso_stamp(one.last, "Europe/Berlin"),
            "seconds": one.last - one.start + STEP_S,
            "peak": float(f"{one.peak:.4g}"),
            "member": one.member,
            "tags": list(one.tags),
        }
        for one in [*said["episodes"], *running]
    ]


# --- The law --------------------------------------------------------------------------


@given(data=st.data())
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_cutting_into_files_gives_the_alarms_of_one_record(tmp_path_factory, data):
    plant = tmp_path_factory.mktemp("plant")
    rule = write_rule_file(plant)
    cuts = sorted(data.draw(st.sets(st.integers(1, N_ROWS - 1), max_size=7)))
    gaps = data.draw(st.sets(st.integers(1, N_ROWS - 1), max_size=3))
    overlap = data.draw(st.integers(0, 40))
    time = TIME.copy()
    for row in gaps:
        time[row:] += data.draw(st.sampled_from([61.0, 600.0, 90_000.0]))
    folder = plant / "exports"
    folder.mkdir()
    edges = [0, *cuts, N_ROWS]
    names = data.draw(st.permutations(range(len(edges) - 1)))
    arrives = data.draw(st.integers(1, 3))
    for k, (start, stop) in enumerate(pairwise(edges)):
        first = max(start - overlap, 0)
        write_export(folder / f"{names[k]}.csv", time[first:stop], ROWS[first:stop])
        if k % arrives == 0:
            watch_folder(rule, folder, plant / "state.db")
    done = watch_folder(rule, folder, plant / "state.db")
    applied, wanted = expected(time, ROWS)
    assert alarms_of(plant / "state.db") == wanted
    whole = plant / "whole"
    write_pieces(whole, time, ROWS, [])
    watch_folder(rule, whole, plant / "other.db")
    one, other = dump(plant / "state.db"), dump(plant / "other.db")
    assert one.pop("read") != other.pop("read") or not cuts
    assert one == other
    if time[-1] - time[0] < 6 * 86_400:
        load, got = applied.outcome.load, done.week.load
        assert (got.alarms, got.standing) == (load.alarms, load.standing)
        assert got.share_of_time == pytest.approx(load.share_of_time)
        assert got.days == pytest.approx(load.days)
        assert done.week.drift.shift == pytest.approx(applied.drift.shift)
        ratio = applied.drift.energy_ratio
        assert done.week.drift.energy_ratio == pytest.approx(ratio)


# 2026-10-24 and 2026-03-28, 22:00 UTC: in Berlin an hour comes twice, or is missing.
NIGHTS = {"autumn": 1_792_879_200.0, "spring": 1_774_735_200.0}


def write_local(path, time, rows):
    """Write a table with stamps of Berlin's clock, without an offset."""
    stamps = pl.from_epoch(pl.Series(time.astype(np.int64)), "s")
    stamps = stamps.dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    columns = {name: rows[:, k] for k, name in enumerate(CHANNELS)}
    path.parent.mkdir(exist_ok=True)
    pl.DataFrame({"time": stamps.dt.strftime("%F %T"), **columns}).write_csv(path)
    os.utime(path, (clock.time() - 600, clock.time() - 600))


def dump_of_night(folder, night, cuts, *, at_once):
    """Return the state of a night, from files that arrive one by one or at once."""
    time, rows = NIGHTS[night] + STEP_S * np.arange(600), ROWS[1300:1900]
    rule = write_rule_file(folder)
    for k, (start, stop) in enumerate(pairwise([0, *cuts, len(time)])):
        path = folder / f"exports/{k:03d}.csv"
        write_local(path, time[start:stop], rows[start:stop])
        if not at_once:
            watch_folder(rule, folder / "exports", folder / "state.db")
    watch_folder(rule, folder / "exports", folder / "state.db")
    state = dump(folder / "state.db")
    assert sum(n for _, n, _ in state.pop("read")) == len(time)
    assert state["runs"] == [[time[0], time[-1]]]
    return state


@pytest.mark.parametrize("night", NIGHTS)
@pytest.mark.parametrize("cuts", ["hours", "half hours", "odd", "a day"])
def test_files_over_a_change_of_the_clock_give_the_same_as_one(tmp_path, night, cuts):
    step = {"hours": 60, "half hours": 30, "odd": 47, "a day": 120}[cuts]
    at = range(step, step + 1 if cuts == "a day" else 600, step)
    states = []
    for k, (rows, at_once) in enumerate([((), True), (at, True), (at, False)]):
        folder = tmp_path / str(k)
        folder.mkdir()
        states.append(dump_of_night(folder, night, rows, at_once=at_once))
    assert states[0] == states[1] == states[2]
    assert states[0]["log"]


def test_a_record_has_alarms_that_stand_and_units_out_of_service():
    # Or the law above would say little.
    applied, wanted = expected(TIME, ROWS)
    assert len(wanted) > 5
    assert applied.run.n_out.any()
    assert len({line["member"] for line in wanted}) > 1


# --- Files ----------------------------------------------------------------------------


def test_a_second_run_reads_nothing_and_changes_nothing(plant):
    write_pieces(plant / "exports", TIME, ROWS, [1000, 2000])
    assert len(watched(plant).read) == 3
    before = dump(plant / "state.db"), outputs(plant)
    done = watched(plant)
    assert (done.read, done.alarms, done.notices) == ((), 0, ())
    assert (dump(plant / "state.db"), outputs(plant)) == before


def test_a_file_that_grows_gives_its_new_rows_once(plant):
    path = plant / "exports" / "today.csv"
    write_export(path, TIME[:1500], ROWS[:1500])
    watched(plant)
    write_export(path, TIME[:2500], ROWS[:2500])
    done = watched(plant)
    assert done.notices == (
        "today.csv: changed after it was read; only rows after the last one were taken "
        "(1,000).",
    )
    assert alarms_of(plant / "state.db") == expected(TIME[:2500], ROWS[:2500])[1]
    os.utime(path, (5, 5))
    assert watched(plant).read == ()


def test_rows_that_were_changed_later_are_not_judged_again(plant):
    path = plant / "exports" / "a.csv"
    write_export(path, TIME[:1500], ROWS[:1500])
    watched(plant)
    before = alarms_of(plant / "state.db")
    write_export(path, TIME[:1500], ROWS[:1500] + 50)
    assert "changed after it was read" in watched(plant).notices[0]
    assert alarms_of(plant / "state.db") == before


def test_a_file_that_comes_late_is_left_out_and_said(plant):
    write_pieces(plant / "exports", TIME[:1000], ROWS[:1000], [], ["a"])
    write_pieces(plant / "exports", TIME[2000:], ROWS[2000:], [], ["c"])
    watched(plant)
    before = alarms_of(plant / "state.db")
    write_export(plant / "exports" / "b.csv", TIME[990:2010], ROWS[990:2010])
    assert watched(plant).notices == (
        "b.csv: 20 rows repeat a time that was read before; the first counts. b.csv: "
        "1,000 rows lie before the last row read and came too late; to have them "
        "judged, begin a new state.",
    )
    assert alarms_of(plant / "state.db") == before
    assert watched(plant).notices == ()


@pytest.mark.parametrize("order", ["012", "1|02", "0|1|2", "01|2"])
def test_a_file_of_2099_is_set_aside_and_swallows_no_other(plant, order):
    """File 1 has a clock that is wrong; bars stand between runs of the watch."""
    ahead = TIME[300:400] + 73 * 365.25 * 86_400
    reports = []
    for run in order.split("|"):
        for k in map(int, run):
            rows = slice(300 * k, 300 * (k + 1))
            time = ahead if k == 1 else TIME[rows]
            write_export(plant / f"exports/{k}.csv", time, ROWS[rows][: len(time)])
        reports.append(watched(plant))
    assert [name for report in reports for name in report.read] == ["0.csv", "2.csv"]
    assert reports[-1].broken == ("1.csv",)
    (said,) = [n for n in reports[-1].notices if "1.csv" in n]
    assert "dated later than the file itself, from 2099" in said
    assert reports[-1].exit_code >= 1
    last = dump(plant / "state.db")["runs"][-1][1]
    assert last == TIME[899]


def test_days_ahead_are_a_wrong_clock_only_beside_files_that_are_right(plant):
    shift = clock.time() + 30 * 86_400 - TIME[0]
    write_export(plant / "exports/0.csv", TIME[:300] + shift, ROWS[:300])
    assert watched(plant).read == ("0.csv",)
    write_export(plant / "exports/1.csv", TIME[300:600], ROWS[300:600])
    write_export(plant / "exports/2.csv", TIME[600:900] + shift, ROWS[600:900])
    report = watched(plant)
    assert report.broken == ("2.csv",)


def test_the_way_back_from_rows_of_the_future_is_said_and_gives_a_clean_watch(plant):
    """A first file 30 days ahead is believed; the right ones that follow are late."""
    folder, shift = plant / "exports", clock.time() + 30 * 86_400 - TIME[0]
    write_export(folder / "wrong.csv", TIME[:300] + shift, ROWS[:300])
    assert watched(plant).read == ("wrong.csv",)
    write_pieces(folder, TIME[:1500], ROWS[:1500], [700], "ab")
    done = watched(plant)
    assert (done.read, done.late) == ((), ("a.csv", "b.csv"))
    assert done.exit_code >= 1
    said = next(n for n in done.notices if n.startswith("a.csv"))
    assert "which lies in the future" in said
    back = re.search(r'--forget-after "(.*?)"', said)[1]
    assert (
        'sightline_files_late{rule="all"} 2' in (plant / "sightline.prom").read_text()
    )
    (folder / "wrong.csv").unlink()
    done = watched(plant, forget_after=back)
    assert done.read == ("a.csv", "b.csv")
    assert f"rows from {back[:13]}" in done.notices[0]
    assert alarms_of(plant / "state.db") == expected(TIME[:1500], ROWS[:1500])[1]
    assert (
        'sightline_files_late{rule="all"} 0' in (plant / "sightline.prom").read_text()
    )


@pytest.mark.parametrize("at", [500, 900, 1499])
def test_what_is_forgotten_is_read_again_with_the_same_hours(plant, at):
    folder = plant / "exports"
    write_pieces(folder, TIME[:1500], ROWS[:1500], [600, 1200])
    watched(plant)
    before = dump(plant / "state.db")
    done = watched(plant, forget_after=stamp(TIME[at], "Europe/Berlin"))
    assert [n for n in done.notices if "forgotten" in n]
    after = dump(plant / "state.db")
    assert after["hours"] == before["hours"]
    assert {name for name, _, _ in after["read"]} == {n for n, _, _ in before["read"]}
    begin = 3600 * (TIME[at] // 3600)
    assert [a for a in after["episodes"] if a.last < begin] == [
        a for a in before["episodes"] if a.last < begin
    ]
    with pytest.raises(FileError, match="nothing is to be forgotten"):
        watched(plant, forget_after="2099-01-01 00:00:00")


@pytest.mark.parametrize("place", [0, 150, 299])
def test_one_row_of_2099_in_a_table_of_residuals_is_set_aside(plant, place):
    time = TIME[:300].copy()
    time[place] += 73 * 365.25 * 86_400
    write_export(plant / "exports/a.csv", time, ROWS[:300])
    write_export(plant / "exports/b.csv", TIME[300:600], ROWS[300:600])
    done = watched(plant)
    assert done.read == ("a.csv", "b.csv")
    assert "1 row is dated later than the file itself and set aside" in done.notices[0]
    assert dump(plant / "state.db")["runs"][-1][1] == TIME[599]


def test_time_that_goes_back_inside_a_file_is_remarked(plant):
    order = np.r_[0:200, 150:300]
    write_export(plant / "exports/a.csv", TIME[order], ROWS[order])
    (said,) = watched(plant).notices
    assert said.startswith("a.csv: time goes back at 1 row, first after 20")
    assert dump(plant / "state.db")["runs"] == [[TIME[0], TIME[299]]]


def test_a_file_that_is_still_written_waits_and_so_do_those_after_it(plant):
    first, _ = write_pieces(plant / "exports", TIME, ROWS, [1500])
    os.utime(first, (clock.time(), clock.time()))
    done = watched(plant)
    assert done.waiting == ("part000.csv", "part001.csv")
    assert done.notices == (
        "part000.csv: may still be written; it is left for the next time.",
        "part001.csv: is left for the next time, as it follows part000.csv.",
    )
    assert done.read == ()
    # A clock that is ahead does not keep a file from being read for ever.
    os.utime(first, (clock.time() + 999, clock.time() + 999))
    assert watched(plant).read == ("part000.csv", "part001.csv")
    assert alarms_of(plant / "state.db") == expected(TIME, ROWS)[1]


def test_half_a_line_waits_once_and_a_file_without_last_line_end_is_read(plant):
    (path,) = write_pieces(plant / "exports", TIME, ROWS, [])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    os.utime(path, (5, 5))
    assert "ends within a line" in watched(plant).notices[0]
    path.write_bytes(whole.rstrip(b"\n"))
    os.utime(path, (5, 5))
    assert watched(plant).waiting == ("part000.csv",)
    assert watched(plant).read == ("part000.csv",)
    assert alarms_of(plant / "state.db") == expected(TIME, ROWS)[1]


@pytest.mark.parametrize("name", ["a.xlsx", "a.parquet", "a.csv.gz"])
def test_what_is_no_text_has_no_last_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"PK and so on")
    assert looked_at(tmp_path / name, None, 0.0).fate is Fate.READ
    (tmp_path / "a.csv").write_bytes(b"time,a")
    assert looked_at(tmp_path / "a.csv", None, 0.0).fate is Fate.WAITING


def test_a_broken_file_is_named_others_go_on_and_it_is_tried_again(plant):
    write_pieces(plant / "exports", TIME[:1000], ROWS[:1000], [], ["a"])
    broken = plant / "exports" / "b.csv"
    broken.write_text("time,LIT101\n2026-09-22T00:00:00Z,1\n")
    os.utime(broken, (5, 5))
    done = watched(plant)
    assert (done.read, done.broken) == (("a.csv",), ("b.csv",))
    assert done.notices == (
        f"{broken}: lacks FIT101, MV101 and LIT201, which the rule reads: give the "
        "residuals of its detector, one column for each channel.",
    )
    assert watched(plant).broken == ("b.csv",)
    write_export(broken, TIME[1000:], ROWS[1000:])
    assert watched(plant).read == ("b.csv",)
    assert alarms_of(plant / "state.db") == expected(TIME, ROWS)[1]
    assert 'sightline_files_broken{rule="all"} 0' in (
        (plant / "sightline.prom").read_text()
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x00\x01\x02\n", "bad.csv"),
        (b"time,LIT101,FIT101,MV101,LIT201\n", "has a header but no rows"),
        (b"a,b\n1,2\n", "no column of time stamps"),
        (
            b"time,LIT101,FIT101,MV101,LIT201\nyesterday,1,2,3,4\n",
            "yesterday",
        ),
        (
            b"time,LIT101,FIT101,MV101,LIT201\n"
            + b"".join(
                b"2026-09-22T%02d:00:00Z,1,2,3,4\n" % hour for hour in range(24)
            ),
            "rows 60 s apart",
        ),
        (
            b"time,LIT101,FIT101,MV101,LIT201\n2026-09-22T00:00:00Z,1e300,2,3,4\n",
            "got 1e+300 for the channel 'LIT101'",
        ),
    ],
)
def test_what_is_no_table_of_residuals_gets_one_sentence(plant, content, words):
    path = plant / "exports" / "bad.csv"
    path.write_bytes(content)
    os.utime(path, (5, 5))
    done = watched(plant)
    assert done.broken == ("bad.csv",)
    (notice,) = done.notices
    assert words in notice
    assert "bad.csv" in notice
    assert "\n" not in notice
    assert dump(plant / "state.db")["runs"] == []


def test_stamps_with_and_without_a_zone_are_not_mixed(plant):
    # A rule without a zone.
    write_pieces(plant / "exports", TIME[:500], ROWS[:500], [])
    watched(plant)
    store = WatchState(plant / "state.db", len(CHANNELS))
    with store.transaction():
        store.set_about({"is_utc": "0"})
    store.close()
    write_export(plant / "exports" / "z.csv", TIME[500:900], ROWS[500:900])
    assert "carry a zone" in watched(plant).notices[0]


# --- State and lock -------------------------------------------------------------------


def test_a_watch_on_the_same_state_is_refused_while_another_runs(plant):
    write_pieces(plant / "exports", TIME, ROWS, [])
    with FileLock(plant / ".state.db.lock"):
        with pytest.raises(FileError) as error:
            watched(plant)
        assert "state.db: another run is writing there: wait" in str(error.value)
        result = invoke(plant)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert not (plant / "state.db").exists()
    assert watched(plant).read == ("part000.csv",)


def test_a_file_that_is_no_state_is_refused_and_stays(plant):
    (plant / "state.db").write_text(
        "not a database, and longer than a header of one" * 9
    )
    before = (plant / "state.db").read_bytes()
    with pytest.raises(FileError, match="is no state of a watch"):
        watched(plant)
    assert (plant / "state.db").read_bytes() == before


def test_a_state_that_lacks_a_table_is_refused(plant):
    write_pieces(plant / "exports", TIME, ROWS, [])
    watched(plant)
    with sqlite3.connect(plant / "state.db") as database:
        database.execute("DROP TABLE files")
    with pytest.raises(FileError, match=r"or was damaged or edited \(no such table"):
        watched(plant)


def test_a_database_of_another_program_is_refused(plant):
    with sqlite3.connect(plant / "state.db") as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    with pytest.raises(FileError, match="is a database of another program"):
        watched(plant)


def test_a_state_of_a_newer_version_is_refused(plant):
    watched(plant)
    with sqlite3.connect(plant / "state.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(FileError, match="was written by a newer Sightline"):
        watched(plant)


def test_a_rule_that_reads_the_own_score_is_refused(plant, monkeypatch):
    from sightline.operation import watch

    rule = made().deployed()
    member = replace(rule.rule.members[0], view=View.SCORE)
    scored = replace(rule, rule=replace(rule.rule, members=(member,)))
    monkeypatch.setattr(watch, "read_rule", lambda path: scored)
    with pytest.raises(StreamError, match="own score"):
        watched(plant)


# --- What is written ------------------------------------------------------------------


def test_metrics_have_the_form_that_prometheus_reads(plant):
    write_pieces(plant / "exports", TIME, ROWS, [])
    done = watched(plant)
    text = (plant / "sightline.prom").read_text()
    names = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            assert re.fullmatch(r"# TYPE sightline_[a-z_]+ (counter|gauge)", line)
            names.append(line.split()[2])
        elif not line.startswith("# HELP "):
            form = r'sightline_[a-z_]+\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\} -?[0-9.e+-]+'
            assert re.fullmatch(form, line)
            assert line.startswith(names[-1] + "{")
    assert len(names) == len(set(names))
    assert f'week_alarms{{rule="all"}} {done.week.load.alarms}\n' in text
    assert text.count("sightline_tag_shift{") == len(CHANNELS)
    assert text.endswith("\n")


def test_the_page_shows_the_figures_of_the_week(plant):
    write_pieces(plant / "exports", TIME, ROWS, [])
    done = watched(plant)
    page = (plant / "week.html").read_text()
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    week = done.week
    low, high = week.promise.interval(week.promise.days)
    rate = per_day(week.load.alarms / (N_ROWS / 1440))
    assert f"{week.load.alarms} alarms in 2.1 days ({rate} a day); in alarm" in page
    # A period ends with its last row, at any time of the day: two whole days are over.
    assert (
        f"Promised for 1 watched day from {stamp(TIME[2880], 'Europe/Berlin')} on: "
        f"{low:.0f} to {high:.0f} alarms (90%)" in page
    )
    assert [period.days for period in week.ledger.past] == [1.0, 1.0]
    # 14:13:20 UTC is 16:13:20 in Berlin: three days, of which the first has 8 hours.
    assert [day.date for day in week.days] == ["2026-09-21", "2026-09-22", "2026-09-23"]
    assert [round(day.hours, 1) for day in week.days] == [7.8, 24.0, 18.2]
    assert sum(day.alarms for day in week.days) == week.load.alarms
    of_rule = [one for one in week.records if one.kind is AlarmKind.ANOMALY]
    assert [(one.start, one.end - STEP_S) for one in of_rule] == [
        (one.start, one.last) for one in week.alarms
    ]
    for one in week.records:
        assert stamp(one.start, "Europe/Berlin") in page
    top = {tag.channel: tag for tag in week.drift.tags}
    shifts = ROWS.mean(axis=0)
    calm = {one.channel: one for one in made().deployed().origin.calm}
    for k, name in enumerate(CHANNELS):
        shift = (shifts[k] - calm[name].calm_mean) / calm[name].spread
        assert top[name].shift == pytest.approx(shift)
    assert week.drift.tags[0].channel == "MV101"


def test_a_week_is_counted_by_hand(plant):
    # An alarm of 150 rows that begins before the week and stands for two hours in it.
    from sightline.operation.watch_state import AlarmWindow, Hours, TimedAlarm
    from sightline.operation.week import Week

    begin = 3600.0 * 960
    alarm = TimedAlarm(
        start=begin - 30 * 60,
        last=begin + 120 * 60,
        rows=151,
        peak=2.0,
        member="x",
        tags=("LIT101",),
    )
    later = replace(alarm, start=begin + 86_400, last=begin + 86_400 + 59 * 60, rows=60)
    week = Week(
        made=made().deployed(),
        zone=None,
        begin=begin,
        end=begin + 2 * 86_400,
        last=begin + 2 * 86_400 - 60,
        hours=Hours(
            hour=np.arange(960, 1008),
            rows=np.full(48, 60),
            sums=np.zeros((48, 2, 4)),
        ),
        alarms=(alarm, later),
        stretches=tuple(
            AlarmWindow(start=one.start, last=one.last, rows=one.rows)
            for one in (alarm, later)
        ),
        is_running=False,
    )
    # A unit is 60 rows. Of the first 30 rows lie before the week, and units 1 and 2
    # become full in it; the second starts in it and is one full unit.
    assert week.load.standing == 2 + 1
    assert week.load.alarms == 1 + 3
    assert week.load.share_of_time == pytest.approx((121 + 60) / 2880)
    assert [day.alarms for day in week.days] == [2, 2]


# --- The command ----------------------------------------------------------------------


def invoke(plant, *words):
    given = [plant / "rule.json", "--folder", plant / "exports"]
    given += ["--state", plant / "state.db", *words]
    return CliRunner().invoke(app, ["watch", *(str(word) for word in given)])


def test_the_command_says_what_it_did(plant):
    write_pieces(plant / "exports", TIME[:1400], residuals(1400), [700])
    result = invoke(plant, "--out", plant / "www")
    # What stands is more time than was promised.
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith("2 files read; ")
    assert (plant / "www" / "week.html").is_file()
    assert result.stderr == ""


def test_a_broken_promise_is_exit_code_3_and_proposes_a_remedy(plant):
    write_pieces(plant / "exports", TIME, residuals(N_ROWS, factor=3), [])
    result = invoke(plant)
    # An alarm of two tags runs, which nobody has acknowledged.
    assert result.exit_code == 6
    assert result.stdout.startswith("RUNNING since 2026-09-23 15:32:20: FIT101, ")
    assert "The promise is broken" in result.stdout
    assert invoke(plant, "--exit-zero").exit_code == 0
    assert "sightline recommission" in result.stdout
    assert 'promise_broken{rule="all"} 1' in (plant / "sightline.prom").read_text()


def test_an_unused_limit_is_said_with_the_remedy(plant):
    quiet = 0.1 * np.random.default_rng(0).normal(size=(9000, 4))
    write_pieces(plant / "exports", BEGIN + STEP_S * np.arange(9000), quiet, [])
    result = invoke(plant)
    assert result.exit_code == 0
    assert watched(plant).week.kept is Kept.UNUSED
    assert "fewer alarms than promised" in result.stdout
    assert "sightline recommission" in result.stdout


def test_a_broken_file_is_exit_code_1(plant):
    (plant / "exports" / "b.csv").write_text("a,b\n1,2\n")
    os.utime(plant / "exports" / "b.csv", (5, 5))
    result = invoke(plant)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


def test_a_folder_that_is_missing_is_one_sentence(plant):
    (plant / "exports").rmdir()
    result = invoke(plant)
    assert result.exit_code == 1
    assert result.stderr.endswith("exports: there is no such folder to watch.\n")
