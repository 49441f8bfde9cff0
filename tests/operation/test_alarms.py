"""Alarms as a state machine: its table, the log of a watch, and those who see to it."""

import csv
import json
import os
import sqlite3
import stat
import sys
import time as clock
from dataclasses import replace
from datetime import datetime
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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

from sightline import commission, write_rule
from sightline.cli.app import app
from sightline.data.validity import Validity
from sightline.errors import FileError
from sightline.operation import alarm_files
from sightline.operation.alarm_files import alarm_desk, watch_settings
from sightline.operation.alarms import (
    KINDS,
    PLANT,
    TABLE,
    AlarmBook,
    AlarmKind,
    Event,
    Happening,
    State,
    in_order,
)
from sightline.operation.conditions import PlantConditions
from sightline.operation.telemetry import Gatekeeper
from sightline.operation.watch import watch_folder
from sightline.operation.watch_state import WatchState
from sightline.tables.lists import list_rows, read_incidents
from sightline.testbeds.own_plant.settings import PlantSettings

HOUR, DAY = 60, 1440


def times(n_rows, first=0):
    return BEGIN + STEP_S * np.arange(first, first + n_rows)


def quiet(n_rows):
    """Return residuals without any alarm."""
    return 0.5 * np.random.default_rng(3).normal(size=(n_rows, 4))


def watched(plant, **options):
    return watch_folder(
        plant / "rule.json", plant / "exports", plant / "state.db", **options
    )


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def watch(plant, *words):
    given = [plant / "rule.json", "--folder", plant / "exports"]
    return invoke("watch", *given, "--state", plant / "state.db", *words)


def events(lines, kind=None):
    return [
        (line["kind"], line["source"], line["event"])
        for line in lines
        if kind is None or line["kind"] == kind
    ]


@pytest.fixture
def plant(tmp_path):
    write_rule_file(tmp_path)
    (tmp_path / "exports").mkdir()
    return tmp_path


# --- The table ------------------------------------------------------------------------


def happening(event, kind=AlarmKind.ANOMALY, time=0.0, **more):
    source = "all" if kind is AlarmKind.ANOMALY else "LIT101"
    return Happening(event=event, kind=kind, source=source, time=time, **more)


def book_in(state):
    """Return a book with one alarm in a state, and the alarm."""
    book = AlarmBook("all", "f00")
    kind = AlarmKind.OUT if state is State.OUT else AlarmKind.ANOMALY
    if state is None:
        return book, None
    begins = Event.OUT if state is State.OUT else Event.STARTED
    book.take(happening(begins, kind, tags=("LIT101",), peak=1.5))
    if state is State.ENDED:
        book.take(happening(Event.ENDED, kind, 60.0))
    (alarm,) = book.alarms.values()
    assert alarm.below_shelf is state
    return book, alarm


@pytest.mark.parametrize(
    ("state", "event"),
    [*product([None, State.ACTIVE, State.OUT, State.ENDED], Event)],
    ids=str,
)
def test_every_state_and_event_do_what_the_table_says_or_nothing(state, event):
    book, alarm = book_in(state)
    if event is Event.UNSHELVED and alarm is not None:
        book.happen(alarm, happening(Event.SHELVED, alarm.kind, 70.0, until=90.0))
        alarm = book.alarms[alarm.id]
        assert alarm.state is State.SHELVED
    before = len(book.changes)
    is_out = state is State.OUT or (state, event) == (None, Event.OUT)
    kind = AlarmKind.OUT if is_out else AlarmKind.ANOMALY
    kind = AlarmKind.SHELVED if (state, event) == (None, Event.SHELVED) else kind
    book.happen(alarm, happening(event, kind, 80.0, until=500.0, by="Kim"))
    wanted = TABLE.get((state, event))
    changes = book.changes[before:]
    if wanted is None:
        assert changes == []
        return
    (change,) = changes
    assert change.event is event
    assert change.alarm.below_shelf is wanted
    is_shelved = event is Event.SHELVED
    assert change.alarm.state is (State.SHELVED if is_shelved else wanted)
    is_seen = event is Event.ACKNOWLEDGED or kind is AlarmKind.SHELVED
    assert change.alarm.acknowledged is is_seen


def test_a_shelved_alarm_comes_back_as_it_was_and_may_end_meanwhile():
    for ends in (False, True):
        book, alarm = book_in(State.ACTIVE)
        book.happen(alarm, happening(Event.SHELVED, time=10.0, until=90.0, by="Kim"))
        if ends:
            book.take(happening(Event.ENDED, time=20.0))
        assert book.alarms[alarm.id].state is State.SHELVED
        book.expire(89.0)
        assert book.alarms[alarm.id].state is State.SHELVED
        book.expire(500.0)
        last = book.changes[-1]
        assert (last.event, last.time) == (Event.UNSHELVED, 90.0)
        assert last.alarm.state is (State.ENDED if ends else State.ACTIVE)
        book.expire(900.0)
        assert book.changes[-1] is last


def test_alarms_of_shelved_tags_alone_are_shelved_until_another_tag_leads():
    book, alarm = book_in(State.ACTIVE)
    book.shelve_tag("LIT101", 10.0, 5000.0, "Kim", "")
    assert book.alarms[alarm.id].state is State.SHELVED
    both = ("LIT101", "FIT101")
    book.take(happening(Event.CHANGED, time=20.0, tags=both, peak=2.0))
    changed = book.alarms[alarm.id]
    assert (changed.state, changed.priority, changed.is_urgent) == (
        State.ACTIVE,
        2,
        True,
    )
    book.take(happening(Event.ENDED, time=30.0))
    book.take(happening(Event.STARTED, time=40.0, tags=("LIT101",), peak=9.0))
    assert book.changes[-1].alarm.state is State.SHELVED
    assert not book.changes[-1].alarm.is_urgent
    book.unshelve(book.find(AlarmKind.SHELVED, "LIT101"), 50.0, "Kim")
    assert [change.event for change in book.changes[-2:]] == [Event.UNSHELVED] * 2
    assert book.find(AlarmKind.ANOMALY, "all").is_urgent


def test_priorities_are_those_of_the_kinds_and_rise_with_peak_and_tags():
    book = AlarmBook("all", "f00")
    for kind in AlarmKind:
        event = Event.OUT if kind is AlarmKind.OUT else Event.STARTED
        book.take(happening(event, kind, tags=("LIT101",), peak=3.0))
        assert book.find(kind, book.changes[-1].alarm.source).priority == (
            KINDS[kind].priority
        )
    book.take(happening(Event.CHANGED, tags=("LIT101",), peak=3.01))
    assert book.find(AlarmKind.ANOMALY, "all").priority == 2


HAPPENINGS = st.lists(
    st.builds(
        happening,
        st.sampled_from([*Event]),
        st.sampled_from([AlarmKind.ANOMALY, AlarmKind.LOST, AlarmKind.OUT]),
        st.integers(0, 50).map(float),
    ),
    max_size=40,
)


@given(HAPPENINGS, st.data())
@settings(max_examples=60, deadline=None)
def test_the_log_does_not_depend_on_how_happenings_are_cut(happenings, data):
    """One book, or a new one from what is open at each cut: the same changes."""
    ordered = in_order(happenings)
    whole = AlarmBook("all", "f00")
    for one in ordered:
        whole.take(one)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(ordered)), max_size=4)))
    known, changes = {}, []
    for start, stop in zip([0, *cuts], [*cuts, len(ordered)], strict=True):
        is_open = (a for a in known.values() if a.is_running or a.until is not None)
        book = AlarmBook("all", "f00", is_open)
        for one in ordered[start:stop]:
            book.take(one)
        known |= book.alarms
        changes += book.changes
    assert changes == whole.changes
    running = [(a.kind, a.source) for a in whole.running]
    assert len(running) == len(set(running))


# --- What codes say -------------------------------------------------------------------


def conditions(codes, cuts=(), step_s=STEP_S, holds=0.0):
    """Return what codes say, read in pieces."""
    names = [f"T{k}" for k in range(codes.shape[1])]
    values = np.where(codes < Validity.BAD, 1.0, np.nan)
    gate_memory, memory, found = None, None, []
    for start, stop in zip([0, *cuts], [*cuts, len(codes)], strict=True):
        gate = Gatekeeper(names, step_s, PlantSettings(), None, gate_memory)
        begins = np.arange(start, stop) == 0
        part = slice(start, stop)
        read = gate.watched(
            times(len(codes))[part], values[part], codes[part].copy(), begins
        )
        tags = PlantConditions(names, step_s, memory, holds)
        found += tags.take(read)
        gate_memory, memory = gate.arrays(), tags.arrays()
    book = AlarmBook("all", "f00")
    for one in in_order(found):
        book.take(one)
    return [
        (c.event, c.alarm.kind, c.alarm.source, int((c.time - BEGIN) / STEP_S))
        for c in book.changes
    ]


def test_a_tag_without_a_value_for_an_hour_is_lost_until_it_has_one():
    codes = np.zeros((400, 5), np.int8)
    codes[100:200, 1] = Validity.MISSING
    codes[210:268, 2] = Validity.RANGE
    assert conditions(codes) == [
        (Event.STARTED, AlarmKind.LOST, "T1", 159),
        (Event.ENDED, AlarmKind.LOST, "T1", 200),
    ]


@pytest.mark.parametrize("cuts", [(), (30, 61), (239,)])
def test_a_tag_that_is_written_seldom_is_not_lost_before_its_first_value(cuts):
    codes = np.zeros((6 * HOUR, 9), np.int8)
    codes[:200, 1] = codes[:, 2] = Validity.MISSING
    codes[250:320, 1] = Validity.MISSING
    # Both are held for four hours; once the first has had a value, it is lost in one.
    assert conditions(codes, cuts, holds=4 * 3600.0) == [
        (Event.STARTED, AlarmKind.LOST, "T2", 239),
        (Event.STARTED, AlarmKind.LOST, "T1", 309),
        (Event.ENDED, AlarmKind.LOST, "T1", 320),
    ]


def test_an_outage_is_no_data_and_loses_no_tag():
    codes = np.zeros((6 * HOUR, 4), np.int8)
    codes[100:200] = Validity.BAD
    codes[80:205, 0] = Validity.BAD
    # Outages do not count for the tag that was dead before.
    assert conditions(codes) == [
        (Event.STARTED, AlarmKind.NO_DATA, PLANT, 160),
        (Event.ENDED, AlarmKind.NO_DATA, PLANT, 200),
    ]


@pytest.mark.parametrize("cuts", [(), (100,), (159,), (160,), (161,), (120, 160)])
def test_data_that_return_just_in_time_raise_no_alarm(cuts):
    codes = np.zeros((6 * HOUR, 4), np.int8)
    codes[100:160] = codes[200:261] = Validity.BAD
    assert conditions(codes, cuts) == [
        (Event.STARTED, AlarmKind.NO_DATA, PLANT, 260),
        (Event.ENDED, AlarmKind.NO_DATA, PLANT, 261),
    ]


def test_units_and_frozen_tags_are_told_at_once_and_clocks_too():
    codes = np.zeros((300, 5), np.int8)
    codes[100:120, 0] = Validity.UNIT
    codes[130:150, 1] = Validity.FROZEN
    # Lost for a while, a frozen tag is frozen still.
    codes[135:140, 1] = Validity.MISSING
    codes[200:202, 3] = Validity.CLOCK
    codes[210:220, 4] = Validity.MOVED
    assert conditions(codes) == [
        (Event.STARTED, AlarmKind.UNIT, "T0", 100),
        (Event.ENDED, AlarmKind.UNIT, "T0", 120),
        (Event.STARTED, AlarmKind.FROZEN, "T1", 130),
        (Event.ENDED, AlarmKind.FROZEN, "T1", 150),
        (Event.STARTED, AlarmKind.CLOCK, PLANT, 200),
        (Event.ENDED, AlarmKind.CLOCK, PLANT, 202),
        (Event.STARTED, AlarmKind.MOVED, "T4", 210),
        (Event.ENDED, AlarmKind.MOVED, "T4", 220),
    ]


@given(st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=40, deadline=None)
def test_codes_in_pieces_say_the_same(seed, data):
    rng = np.random.default_rng(seed)
    codes = np.zeros((400, 5), np.int8)
    for _ in range(8):
        start, k = rng.integers(400), rng.integers(6)
        tags = slice(None) if k == 5 else k
        codes[start : start + rng.integers(150), tags] = rng.choice(
            [v for v in Validity if v is not Validity.HELD]
        )
    cuts = sorted(data.draw(st.sets(st.integers(1, 399), max_size=5)))
    assert conditions(codes, cuts) == conditions(codes)


# --- A watch --------------------------------------------------------------------------


def faulty(n_rows=4 * DAY):
    """Return residuals in which all kinds of things happen."""
    rows = residuals(n_rows)
    rows[500 : 500 + 5 * HOUR, 0] = np.nan
    rows[1800 : 1800 + 8 * HOUR] = np.nan
    # Everything stands, and the instruments die meanwhile.
    rows[3000 : 3000 + 5 * HOUR] += 60.0
    rows[3300:3301] = np.nan
    return rows


def test_by_hour_by_day_and_in_one_file_the_log_is_the_same(tmp_path):
    rule, rows = write_rule_file(tmp_path), faulty()
    time = times(len(rows))
    # Two hours are missing.
    is_there = np.ones(len(rows), bool)
    is_there[4200 : 4200 + 2 * HOUR] = False
    time, rows = time[is_there], rows[is_there]
    logs, dumps = [], []
    for name, step in (("hour", HOUR), ("day", DAY), ("one", len(rows))):
        place, folder = tmp_path / name, tmp_path / name / "exports"
        for cut in range(0, len(rows), step):
            part = slice(cut, cut + step)
            write_pieces(folder, time[part], rows[part], [], [f"{cut:05d}"])
            if name != "hour" or cut % (3 * HOUR) == 0:
                watch_folder(rule, folder, place / "state.db")
        if name == "hour":
            watch_folder(rule, folder, place / "state.db")
        logs.append(log_of(place))
        dumps.append(dump(place / "state.db"))
        dumps[-1].pop("read")
        assert dumps[-1]["log"] == logs[-1]
    assert logs[0] == logs[1] == logs[2]
    assert dumps[0] == dumps[1] == dumps[2]
    assert [line["seq"] for line in logs[0]] == [*range(1, len(logs[0]) + 1)]
    stamps = [line["time"] for line in logs[0]]
    assert stamps == sorted(stamps)
    kinds = {(line["kind"], line["event"]) for line in logs[0]}
    assert kinds >= {
        ("anomaly", "started"),
        ("anomaly", "changed"),
        ("anomaly", "ended"),
        ("no data", "started"),
        ("no data", "ended"),
        ("tag lost", "started"),
        ("tag lost", "ended"),
        ("tag out of service", "out-of-service"),
        ("tag out of service", "back"),
        ("rule out of service", "started"),
        ("rule out of service", "ended"),
    }
    by_outage = [line for line in logs[0] if line["text"].endswith("by an outage")]
    assert {line["event"] for line in by_outage} == {"ended", "back"}


def test_the_log_and_what_the_rule_counts_agree(plant):
    rows = faulty()
    write_pieces(plant / "exports", times(len(rows)), rows, [])
    done = watched(plant)
    ended = [line for line in log_of(plant) if line["kind"] == "anomaly"]
    ended = [line for line in ended if line["event"] == "ended"]
    episodes = dump(plant / "state.db")["episodes"]
    assert len(ended) == len(episodes) == done.alarms
    for line, alarm in zip(ended, episodes, strict=True):
        assert line["peak"] == float(f"{alarm.peak:.4g}")
        assert {*line["tags"]} & {*alarm.tags}
        assert line["limit"] == made().chosen.rule.limit


def test_a_rule_of_which_all_units_stand_is_priority_1_and_exit_code_7(plant):
    rows = residuals(2 * DAY)
    rows[DAY:] += 80.0 * np.sign(np.random.default_rng(1).normal(size=(DAY, 4)))
    write_pieces(plant / "exports", times(len(rows)), rows, [])
    result = watch(plant)
    assert result.exit_code == 7
    assert result.stdout.startswith("NOT WATCHED since 2026-09-22 ")
    assert "rule out of service" in result.stdout.splitlines()[0]
    (line,) = [one for one in log_of(plant) if one["kind"] == "rule out of service"]
    assert (line["priority"], line["state"], line["acknowledged"]) == (
        1,
        "active",
        False,
    )
    page = (plant / "week.html").read_text()
    assert "No alarm in these days" not in page
    assert "out of service since" in page
    metrics = (plant / "sightline.prom").read_text()
    assert 'alarms_active{rule="all",kind="rule out of service",priority="1"} 1' in (
        metrics
    )


def test_an_outage_of_five_days_is_red_and_no_hour_of_it_counts(plant):
    rows = residuals(7 * DAY)
    rows[DAY : 6 * DAY] = np.nan
    write_pieces(plant / "exports", times(6 * DAY), rows[: 6 * DAY], [DAY])
    result = watch(plant)
    assert result.exit_code == 7
    assert "NOT WATCHED since 2026-09-22 16:13:20: no data." in result.stdout
    assert "24.0 of 144.0 hours watched" in result.stdout
    metrics = (plant / "sightline.prom").read_text()
    assert f'unwatched_seconds_total{{rule="all",reason="no data"}} {5 * 86400}' in (
        metrics
    )
    assert 'watched_seconds_total{rule="all"} 86400' in metrics
    last_good = [line for line in metrics.splitlines() if "last_good" in line][-1]
    assert float(last_good.split()[-1]) == times(1, DAY)[0]
    assert watch(plant, "--exit-zero").exit_code == 0
    write_export(plant / "exports" / "x.csv", times(DAY, 6 * DAY), rows[6 * DAY :])
    assert watch(plant).exit_code != 7
    told = events(log_of(plant), "no data")
    assert [event for _, _, event in told] == ["started", "ended"]


def test_no_file_raises_no_data_and_late_files_end_it(plant):
    rows = residuals(400)
    write_pieces(plant / "exports", times(200), rows[:200], [], ["a"])
    os.utime(plant / "exports" / "a.csv", (LONG_AGO, LONG_AGO))
    assert watch(plant).exit_code in (0, 3, 6)
    for _ in range(2):
        assert watch(plant).exit_code == 7
    (line,) = [one for one in log_of(plant) if one["kind"] == "no data"]
    assert (line["event"], line["priority"]) == ("started", 1)
    write_export(plant / "exports" / "b.csv", times(200, 200), rows[200:])
    assert watch(plant).exit_code in (0, 3, 6)
    assert [one["event"] for one in log_of(plant) if one["kind"] == "no data"] == [
        "started",
        "ended",
    ]


def test_a_promise_under_half_of_its_time_watched_is_unjudged_and_else_an_alarm(plant):
    rows = residuals(4 * DAY, factor=4)
    write_pieces(plant / "exports", times(len(rows)), rows, [])
    watched(plant)
    (line,) = [one for one in log_of(plant) if one["kind"] == "promise broken"]
    # BEGIN is 14:13:20 UTC; the first midnight is the first row of a new day.
    assert line["time"] == "2026-09-22T02:00:20+02:00"
    assert line["priority"] == 3


# --- Log and table --------------------------------------------------------------------


def test_lines_are_completed_never_doubled_and_a_cut_is_told(plant):
    write_pieces(plant / "exports", times(3000), residuals(3000), [])
    watched(plant)
    path = plant / "alarms.jsonl"
    whole = path.read_bytes()
    lines = [json.loads(line) for line in whole.splitlines()]
    assert list(lines[0]) == [
        *("id", "seq", "time", "written", "kind", "state", "event", "acknowledged"),
        *("priority", "source", "tags", "text", "peak", "limit", "rule", "by", "until"),
        *("start", "end", "verdict", "note"),
    ]
    assert lines[0]["time"].endswith("+02:00")
    assert len(lines[0]["id"]) == 12
    # A kill while the last line was written.
    path.write_bytes(whole[:-1])
    assert "lines" in watched(plant).notices[0]
    assert path.read_bytes() == whole
    for n_bytes in (0, 10):
        path.write_bytes(whole[:n_bytes])
        (notice,) = watched(plant).notices
        assert notice.startswith(f"alarms.jsonl: lines 1 to {len(lines)} were missing")
        assert path.read_bytes() == whole
    path.write_bytes(b"edited\n" + whole)
    (notice,) = watched(plant).notices
    assert "was edited" in notice
    assert path.read_bytes() == b"edited\n" + whole
    rows = residuals(3600)
    write_export(plant / "exports" / "z.csv", times(600, 3000), rows[3000:] + 20)
    watched(plant)
    text = path.read_bytes()
    assert text.startswith(b"edited\n" + whole)
    added = [json.loads(line) for line in text[7 + len(whole) :].splitlines()]
    assert [line["seq"] for line in added] == [
        *range(len(lines) + 1, len(lines) + 1 + len(added))
    ]
    assert added
    path.unlink()
    watched(plant)
    assert path.read_bytes().startswith(whole)


def table(plant):
    with (plant / "alarms.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_has_a_row_an_alarm_or_a_row_a_change(plant):
    write_pieces(plant / "exports", times(3000), residuals(3000), [])
    watched(plant)
    rows, lines = table(plant), log_of(plant)
    assert list(rows[0]) == [
        *("id", "time", "source", "kind", "priority", "state", "acknowledged", "text"),
        *("tags", "start", "end", "duration_s", "by", "until"),
    ]
    newest = {line["id"]: line for line in lines}
    assert [row["id"] for row in rows] == [*newest]
    for row in rows:
        line = newest[row["id"]]
        assert row["tags"] == ";".join(line["tags"])
        assert row["state"] == line["state"]
        assert row["acknowledged"] == "false"
        assert (row["end"], row["duration_s"]) == ("", "") or (
            float(row["duration_s"]) >= STEP_S
        )
    assert any(";" in row["tags"] for row in rows)
    assert watch(plant, "--csv", "changes").exit_code in (0, 3, 6)
    assert [row["time"] for row in table(plant)] == [line["time"] for line in lines]


# --- The hook -------------------------------------------------------------------------


def hook(plant, body):
    """Write a program that is run for each line, and return its command."""
    path = plant / "hook.py"
    path.write_text(f"import json, os, sys, time\nplace = {str(plant)!r}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"'{sys.executable}' '{path}'"


NOTE = """
line = json.load(sys.stdin)
with open(place + "/told.jsonl", "a") as file:
    own = {k: v for k, v in os.environ.items() if k.startswith("SIGHTLINE_")}
    print(json.dumps([line, own]), file=file)
"""


def told(plant):
    path = plant / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_command_gets_each_line_once_and_in_order(plant):
    command = hook(plant, NOTE)
    write_pieces(plant / "exports", times(700), residuals(700), [400])
    assert watched(plant, on_alarm=command).notices == ()
    lines = [json.loads(x) for x in (plant / "alarms.jsonl").read_text().splitlines()]
    assert [line for line, _ in told(plant)] == lines
    line, own = told(plant)[-1]
    assert own["SIGHTLINE_EVENT"] == line["event"]
    assert own["SIGHTLINE_ID"] == line["id"]
    assert own["SIGHTLINE_KIND"] == line["kind"]
    assert own["SIGHTLINE_PRIORITY"] == str(line["priority"])
    assert own["SIGHTLINE_TEXT"] == line["text"]
    watched(plant, on_alarm=command)
    assert len(told(plant)) == len(lines)


def test_a_command_that_fails_is_counted_and_tried_again_from_that_line(plant):
    fails = 'if json.loads(line)["seq"] == 2: sys.exit("no line to the outside")\n'
    body = "line = sys.stdin.read()\n" + fails
    body += (
        'open(place + "/told.jsonl", "a").write(json.dumps([json.loads(line)]) + "\\n")'
    )
    write_pieces(plant / "exports", times(900), residuals(900), [])
    for n in (1, 2):
        (notice,) = watched(plant, on_alarm=hook(plant, body)).notices
        assert "ended with 1 (no line to the outside) at line 2 of the log" in notice
        assert [line["seq"] for (line,) in told(plant)] == [1]
        metrics = (plant / "sightline.prom").read_text()
        assert f'sightline_hook_failures_total{{rule="all"}} {n}\n' in metrics
    assert watched(plant, on_alarm=hook(plant, body.replace(fails, ""))).notices == ()
    seqs = [line["seq"] for (line,) in told(plant)]
    assert seqs == [*range(1, len(log_of(plant)) + 1)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/no/such/program", "cannot be run"),
        ("'half", "cannot be run"),
        ("", "is empty"),
        (None, "took longer than 0 s"),
    ],
)
def test_a_command_that_cannot_be_run_or_hangs_is_one_remark(
    plant, monkeypatch, command, words
):
    if command is None:
        command = hook(plant, "time.sleep(60)")
        monkeypatch.setattr(alarm_files, "HOOK_S", 0.2)
    write_pieces(plant / "exports", times(900), residuals(900), [])
    begun = clock.monotonic()
    (notice,) = watched(plant, on_alarm=command).notices
    assert words in notice
    assert clock.monotonic() - begun < 30


def test_no_shell_reads_the_command(plant):
    write_pieces(plant / "exports", times(900), residuals(900), [])
    command = f"{hook(plant, NOTE)} ; touch {plant}/made"
    assert watched(plant, on_alarm=command).notices == ()
    assert not (plant / "made").exists()
    assert told(plant)


def test_lines_before_there_was_a_command_are_not_told(plant):
    write_pieces(plant / "exports", times(900), residuals(900), [])
    watched(plant)
    command = hook(plant, NOTE)
    watched(plant, on_alarm=command)
    assert not (plant / "told.jsonl").exists()
    id_ = log_of(plant)[0]["id"]
    invoke("alarm", "ack", plant / "state.db", id_, "--by", "Kim")
    watched(plant, on_alarm=command)
    assert [line["event"] for line, _ in told(plant)] == ["acknowledged"]


# --- Those who see to alarms ----------------------------------------------------------


def test_a_plant_engineer_sees_to_an_alarm_until_it_has_ended(plant):
    rows = quiet(1200)
    rows[650:1000, 3] += 30.0
    write_pieces(plant / "exports", times(680), rows[:680], [], ["a"])
    state = plant / "state.db"
    result = watch(plant)
    assert result.exit_code == 6
    assert result.stdout.startswith("RUNNING since 2026-09-22 03:03:20: LIT201")
    id_ = [x["id"] for x in log_of(plant) if x["kind"] == "anomaly"][-1]
    listed = invoke("alarm", "list", state)
    assert listed.exit_code == 0
    assert id_ in listed.stdout
    done = invoke(
        *("alarm", "ack", state, id_[:6], "--by", "Kim", "--as", "real"),
        *("--note", "valve; stuck"),
    )
    assert done.exit_code == 0, done.output
    line = log_of(plant)[-1]
    assert (
        line["event"],
        line["state"],
        line["by"],
        line["verdict"],
        line["note"],
    ) == (*("acknowledged", "active", "Kim", "real", "valve; stuck"),)
    # It runs on, and nobody need be called any more.
    write_export(plant / "exports" / "b.csv", times(10, 680), rows[680:690])
    assert watch(plant).exit_code == 0
    page = (plant / "week.html").read_text()
    assert "active, acknowledged" in page
    (incident,) = read_list(plant)
    assert (incident.id, incident.targets) == (id_, ("LIT201",))
    assert incident.listed[1] == np.inf
    done = invoke("alarm", "shelve", state, id_, "--by", "Kim", "--for", "2h")
    assert done.exit_code == 0, done.output
    result = watch(plant)
    assert "Shelved (by Kim): LIT201 unlike the other tags" in result.stdout
    assert 'sightline_alarms_shelved{rule="all"} 1' in (
        (plant / "sightline.prom").read_text()
    )
    write_export(plant / "exports" / "c.csv", times(510, 690), rows[690:])
    watched(plant)
    own = [x for x in log_of(plant) if x["id"] == id_]
    assert [x["event"] for x in own if x["event"] != "changed"] == [
        "started",
        "acknowledged",
        "shelved",
        "ended",
    ]
    assert (own[-1]["state"], own[-1]["until"] is not None) == ("shelved", True)
    (incident,) = read_list(plant)
    assert incident.listed[1] < np.inf
    assert invoke("alarm", "unshelve", state, id_, "--by", "Kim").exit_code == 0
    assert log_of(plant)[-1]["state"] == "ended"
    # The verdict was wrong.
    invoke("alarm", "ack", state, id_, "--by", "Ana", "--as", "false")
    assert read_list(plant) == ()
    (row,) = list_rows(plant / "incidents.csv", ["id"]).values()
    assert (row["id"], row["decision"]) == (id_, "normal")
    invoke("alarm", "ack", state, id_, "--by", "Ana", "--as", "maintenance")
    (row,) = list_rows(plant / "incidents.csv", ["id"]).values()
    assert row["decision"] == "unknown"


def read_list(plant):
    def read_time(cell, column, line):
        return datetime.fromisoformat(cell).timestamp()

    return read_incidents(plant / "incidents.csv", read_time).incidents


def test_older_alarms_that_wait_are_counted_and_not_listed(plant):
    rows = quiet(3200)
    for k in range(30):
        rows[100 + 100 * k : 110 + 100 * k, 3] += 30.0
    rows[50:53, 1] = np.nan
    write_pieces(plant / "exports", times(3200), rows, [], ["a"])
    said = watch(plant).stdout
    # The promise is broken too.
    assert "1 file read; 30 alarms of the rule ended." in said
    assert "31 alarms of all kinds have ended and nobody has acknowledged:" in said
    assert "Of 12,800 readings 3 were missing (FIT101)." in said
    listed = " ".join(invoke("alarm", "list", plant / "state.db").stdout.split())
    assert listed.count("unlike the other tags") == 20
    assert (
        "And 11 older alarms that nobody has acknowledged, of 2026-09-21 to" in listed
    )
    every = invoke("alarm", "list", plant / "state.db", "--all").stdout
    assert " ".join(every.split()).count("unlike the other tags") == 30


def test_a_shelved_tag_has_a_line_and_its_time_is_over_at_the_next_run(
    plant, monkeypatch
):
    rows = quiet(1200)
    rows[650:, 3] += 30.0
    write_pieces(plant / "exports", times(600), rows[:600], [], ["a"])
    watched(plant)
    state = plant / "state.db"
    done = invoke("alarm", "shelve", state, "LIT201", "--by", "Kim", "--for", "8h")
    assert done.exit_code == 0, done.output
    (line,) = log_of(plant)[-1:]
    assert (line["kind"], line["source"], line["event"], line["state"]) == (
        *("tag shelved", "LIT201", "shelved", "shelved"),
    )
    write_export(plant / "exports" / "b.csv", times(70, 600), rows[600:670])
    result = watch(plant)
    assert result.exit_code == 0
    assert "Shelved (by Kim): LIT201 is shelved since" in result.stdout
    (started,) = [x for x in log_of(plant) if x["event"] == "started"][-1:]
    assert (started["state"], started["tags"]) == ("shelved", ["LIT201"])
    later = clock.time() + 9 * 3600
    monkeypatch.setattr(alarm_files.clock, "time", lambda: later)
    write_export(plant / "exports" / "c.csv", times(10, 670), rows[670:680])
    os.utime(plant / "exports" / "c.csv", (later - 60, later - 60))
    assert watch(plant).exit_code == 6
    assert [x["event"] for x in log_of(plant)[-2:]] == ["unshelved", "unshelved"]
    assert {x["kind"] for x in log_of(plant)[-2:]} == {"tag shelved", "anomaly"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ack", "STATE"], 2, "needs the id of an alarm"),
        (["ack", "STATE", "x"], 2, "and --by NAME"),
        (["list", "STATE", "x"], 2, "list takes no id"),
        (
            ["shelve", "STATE", "LIT101", "--by", "K", "--as", "real"],
            2,
            "belongs to ack",
        ),
        (["shelve", "STATE", "LIT101", "--by", "K", "--for", "soon"], 2, "4h, not"),
        (["shelve", "STATE", "LIT101", "--by", "K", "--for", "25h"], 1, "max_shelved"),
        (["shelve", "STATE", "LIT10", "--by", "K"], 1, "did you mean 'LIT101'?"),
        (["unshelve", "STATE", "LIT101", "--by", "K"], 1, "no alarm and no tag"),
        (["ack", "STATE", "zzzz", "--by", "K"], 1, "--all` shows all alarms"),
        (["ack", "nowhere.db", "x", "--by", "K"], 1, "there is no such state"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(plant, words, code, said):
    watched(plant)
    words = [plant / "state.db" if word == "STATE" else word for word in words]
    result = invoke("alarm", *words)
    assert result.exit_code == code
    assert said in result.output.replace("\n", " ")
    if code == 1:
        assert result.stderr.count("\n") == 1


def test_a_list_of_incidents_of_a_person_is_not_overwritten(plant):
    write_pieces(plant / "exports", times(900), residuals(900), [])
    watched(plant)
    (plant / "incidents.csv").write_text("id,start,end\n")
    id_ = log_of(plant)[0]["id"]
    words = ("alarm", "ack", plant / "state.db", id_, "--by", "Kim", "--as", "real")
    result = invoke(*words)
    assert result.exit_code == 1
    assert "is a list of your own" in result.stderr
    assert (plant / "incidents.csv").read_text() == "id,start,end\n"


# --- Settings -------------------------------------------------------------------------


def test_a_kind_that_is_turned_off_is_silent_and_said(plant):
    rows = faulty()
    write_pieces(plant / "exports", times(1000), rows[:1000], [], ["a"])
    watched(plant)
    assert ("tag lost", "LIT101", "started") in events(log_of(plant))
    (plant / "watch.toml").write_text('off = ["anomaly", "no data"]\n')
    write_export(plant / "exports" / "b.csv", times(3000, 1000), rows[1000:4000])
    n_before = len(log_of(plant))
    result = watch(plant)
    assert "Turned off in watch.toml: anomaly and no data." in result.stdout
    assert "Turned off in watch.toml:" in (plant / "week.html").read_text()
    new = log_of(plant)[n_before:]
    assert new
    kinds = {line["kind"] for line in new if line["event"] == "started"}
    assert kinds & {"anomaly", "no data"} == set()
    assert len(dump(plant / "state.db")["episodes"]) > 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("of = []", "there is no key 'of': did you mean 'off'?"),
        ("off = ['clok']", "there is no kind of alarm 'clok': did you mean 'clock'?"),
        ("off = 'clock'", "off must be a list"),
        ("max_shelved = '3 weeks'", "give a time like"),
        ("max_shelved = '48h'", "max_shelved is 24h at most"),
        ("off = [", "is not valid TOML"),
    ],
)
def test_settings_that_cannot_be_read_are_one_sentence(tmp_path, text, words):
    (tmp_path / "watch.toml").write_text(text)
    with pytest.raises(FileError, match=r"watch\.toml") as error:
        watch_settings(tmp_path / "state.db")
    assert words in str(error.value)


def test_settings_say_for_how_long_something_is_shelved(plant):
    watched(plant)
    path = plant / "other.toml"
    path.write_text("max_shelved = '2h'\n")
    words = ("alarm", "shelve", plant / "state.db", "LIT101", "--by", "Kim")
    assert "longer than 2.0 h" in invoke(*words, "--settings", path).stderr
    assert invoke(*words, "--settings", path, "--for", "90min").exit_code == 0


# --- Another rule, another version ----------------------------------------------------


def test_a_new_rule_goes_on_with_history_and_ids(plant):
    rows = residuals(3000)
    rows[1480:1500, 3] += 30.0
    write_pieces(plant / "exports", times(1500), rows[:1500], [], ["a"])
    watched(plant)
    before, old = log_of(plant), dump(plant / "state.db")
    assert old["alarm"] is not None
    rule = made().deployed()
    limit = replace(rule.limit, value=2.0)
    rule = replace(rule, rule=rule.rule.with_limit(2.0), limit=limit)
    write_rule(rule, plant / "rule.json")
    assert watched(plant).notices == ()
    lines = log_of(plant)
    assert lines[: len(before)] == before
    ends = lines[len(before) :]
    assert {line["text"].rpartition(" by ")[2] for line in ends} == {"a new rule"}
    assert ("anomaly", "all", "ended") in events(ends)
    write_export(plant / "exports" / "b.csv", times(1500, 1500), rows[1500:])
    watched(plant)
    store = WatchState(plant / "state.db", len(CHANNELS))
    rules = json.loads(store.about()["rules"])
    store.close()
    assert [rule["since"] for rule in rules] == [None, float(times(1500)[-1])]
    assert rules[0]["rule"] != rules[1]["rule"]
    now = dump(plant / "state.db")
    n_old = len(old["episodes"])
    assert now["episodes"][:n_old] == old["episodes"]
    assert len(now["episodes"]) > n_old + 1
    assert sum(now["hours"][1]) == 3000
    late = [x for x in log_of(plant)[len(lines) :] if x["kind"] == "anomaly"]
    assert {line["limit"] for line in late} == {2.0}


def test_a_rule_of_other_channels_goes_on_too(plant):
    rows = residuals(1500)
    write_pieces(plant / "exports", times(1500), rows, [], ["a"])
    watched(plant)
    rng = np.random.default_rng(0)
    from sightline import ResidualStream

    stream = ResidualStream(
        rng.normal(size=(2000, 2)),
        rng.normal(size=(12_000, 2)),
        channels=CHANNELS[:2],
        step_s=STEP_S,
        timezone="Europe/Berlin",
    )
    write_rule(
        commission(stream, budget="12/day,3%", choose="all"), plant / "rule.json"
    )
    write_export(plant / "exports" / "b.csv", times(500, 1500), residuals(500))
    done = watched(plant)
    assert done.read == ("b.csv",)
    assert len(done.week.drift.tags) == 2


def test_a_state_without_a_log_gets_one(plant):
    rows = residuals(3000)
    write_pieces(plant / "exports", times(1500), rows[:1500], [], ["a"])
    watched(plant)
    whole = dump(plant / "state.db")
    with sqlite3.connect(plant / "state.db") as database:
        database.execute("DROP TABLE alarms")
        database.execute("DROP TABLE changes")
        database.execute("ALTER TABLE live DROP COLUMN waiting")
        database.execute(
            "DELETE FROM about WHERE key NOT IN ('rule','detector','is_utc')"
        )
        database.execute("PRAGMA user_version = 2")
    database.close()
    (plant / "alarms.jsonl").unlink()
    with (
        pytest.raises(FileError, match="run `sightline watch` once"),
        alarm_desk(plant / "state.db"),
    ):
        pass
    write_export(plant / "exports" / "b.csv", times(1500, 1500), rows[1500:])
    watched(plant)
    now = dump(plant / "state.db")
    assert now["episodes"][: len(whole["episodes"])] == whole["episodes"]
    of_rule = [x for x in log_of(plant) if x["kind"] == "anomaly"]
    assert sum(x["event"] == "ended" for x in of_rule) == len(now["episodes"])
    first = next(x for x in whole["log"] if x["kind"] == "anomaly")
    assert of_rule[0]["id"] == first["id"]
