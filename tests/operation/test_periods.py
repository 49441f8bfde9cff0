"""Periods of promises: the same from `apply` and from a watch, however files arrive."""

import json

import numpy as np
import pytest
from watched_plants import (
    BEGIN,
    CHANNELS,
    STEP_S,
    _no_waiting,  # noqa: F401
    dump,
    log_of,
    made,
    residuals,
    write_pieces,
    write_rule_file,
)

from sightline.data.row_tables import ArrayRows
from sightline.data.segments import breaks_from_time
from sightline.metrics.alarm_load import alarm_load
from sightline.operation.apply import ResidualRecord, apply_rule
from sightline.operation.watch import watch_folder
from sightline.operation.watch_state import WatchState
from sightline.rules.file import read_rule
from sightline.rules.promise import Kept

DAY, HOUR = 1440, 60


def record_of(time, rows):
    return ResidualRecord(
        name="whole",
        rows=ArrayRows(rows),
        breaks=breaks_from_time(time, STEP_S),
        is_attack_free=np.ones(len(rows), bool),
        time=time,
        timezone="UTC",
    )


def a_record(*gaps, days=6, factor=1.0):
    """Return time and rows of some days, with gaps of some hours after some hours."""
    rows = residuals(days * DAY, seed=3)
    rows[3 * DAY :] *= factor  # rougher from the fourth day on
    rows[2 * DAY - 200 : 2 * DAY + 200, 0] += 9  # stands where a period ends
    time = BEGIN + 7_000 + STEP_S * np.arange(len(rows))
    for after, hours in gaps:
        time[after * HOUR :] += hours * 3600
    return time, rows


def a_lost_plant():
    """Return a record in which all tags stand from the third day on, for two days."""
    time, rows = a_record((60, 5))
    rows[2 * DAY : 4 * DAY + 300] += 12.0
    return time, rows


RECORDS = {
    "all tags stand": a_lost_plant(),
    "whole": a_record(factor=1.7),
    "gaps": a_record((10, 3), (30, 20), (50, 9)),
    "hardly watched": a_record((4, 25), (5, 25), (20, 30), (100, 49)),
    "a long gap": a_record((60, 31 * 24)),
    "a long gap between periods": a_record((48, 31 * 24)),
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("n_rows", [HOUR, DAY, 977, 10**6])
def test_periods_are_those_of_the_whole_record(tmp_path, name, n_rows):
    time, rows = RECORDS[name]
    rule = write_rule_file(tmp_path)
    whole = apply_rule(read_rule(rule), record_of(time, rows)).outcome.periods
    exports = tmp_path / "exports"
    write_pieces(exports, time, rows, range(n_rows, len(rows), n_rows))
    done = watch_folder(rule, exports, tmp_path / "state.db")
    store = WatchState(tmp_path / "state.db", len(CHANNELS))
    ledger = store.ledger(read_rule(rule))
    store.close()
    past = ledger.past
    assert len(past) >= 3
    assert whole[: len(past)] == past
    assert [period.kept for period in whole[: len(past)]] == [p.kept for p in past]
    # The one that runs is the last of the record, if it is long enough to be judged.
    for running in whole[len(past) :]:
        assert running.begins == ledger.begins
        assert running.days == ledger.rows / DAY
        assert running.alarms == done.week.so_far.alarms
        assert running.share == pytest.approx(done.week.so_far.share_of_time)


def test_the_records_hold_every_end_of_a_period(tmp_path):
    """The law above would say little if all periods ended in the same way."""
    deployed = read_rule(write_rule_file(tmp_path))
    every = {
        (period.kept, bool(period.gap_s))
        for time, rows in RECORDS.values()
        for period in apply_rule(deployed, record_of(time, rows)).outcome.periods
    }
    assert {kept for kept, _ in every} >= {Kept.KEPT, Kept.BROKEN, Kept.UNJUDGED}
    assert (Kept.UNJUDGED, True) in every
    assert (Kept.UNJUDGED, False) in every


def test_a_rule_that_is_out_of_service_keeps_no_promise():
    time, rows = RECORDS["all tags stand"]
    deployed = made().deployed()
    applied = apply_rule(deployed, record_of(time, rows))
    assert applied.run.is_silent.any()
    # The days on which no tag is left that could ring.
    shares = [period.share for period in applied.outcome.periods]
    assert max(shares) > 0.9
    assert applied.outcome.periods[int(np.argmax(shares))].kept is Kept.BROKEN


def test_periods_add_up_to_the_whole_record():
    time, rows = RECORDS["whole"]
    outcome = apply_rule(made().deployed(), record_of(time, rows)).outcome
    rule = made().deployed().rule
    said = rule.run(rows, breaks=breaks_from_time(time, STEP_S))
    rang = alarm_load(said.episodes, np.ones(len(rows), bool), rule.delays, STEP_S)
    assert sum(p.alarms for p in outcome.periods) == rang.alarms
    days = sum(p.days for p in outcome.periods)
    share = sum(p.share * p.days for p in outcome.periods) / days
    assert days == pytest.approx(outcome.load.days)
    assert share == pytest.approx(rang.share_of_time)
    # A tag out of service rings no more: it costs, but was told once.
    assert said.standing.any()
    assert rang.alarms < outcome.load.alarms


def test_a_gap_of_28_days_goes_on_and_a_longer_one_begins_anew(tmp_path):
    deployed = made().deployed()
    for hours, ends in ((28 * 24 - 1, 0), (28 * 24 + 1, 1)):
        time, rows = a_record((60, hours))
        applied = apply_rule(deployed, record_of(time, rows))
        gaps = [period.gap_s for period in applied.outcome.periods if period.gap_s]
        assert len(gaps) == ends
        assert sum("neither kept nor broken" in text for text in applied.notices) == (
            ends
        )
    # The first promise after it is that of the rule.
    ended = next(k for k, p in enumerate(applied.outcome.periods) if p.gap_s)
    first, after = applied.outcome.periods[0], applied.outcome.periods[ended + 1]
    assert (after.low, after.high, after.most_share) == (
        first.low,
        first.high,
        first.most_share,
    )


def test_a_long_gap_ends_questions_and_what_was_followed(tmp_path):
    from dataclasses import replace

    from sightline import write_rule

    deployed, night = made().deployed("x~"), 360
    deployed = replace(deployed, rule=replace(deployed.rule, night=night))
    write_rule(deployed, tmp_path / "rule.json")
    rows = np.random.default_rng(7).standard_t(5, size=(9 * night, 4))
    rows[2 * night :, 1] += 8.0
    time = BEGIN + STEP_S * np.arange(len(rows))
    time[6 * night :] += 40 * 86_400
    run = apply_rule(deployed, record_of(time, rows)).run
    # Alarms after the gap are those of a rule that begins there.
    fresh = apply_rule(deployed, record_of(time[6 * night :], rows[6 * night :])).run
    assert run.in_alarm[6 * night :].tolist() == fresh.in_alarm.tolist()
    assert [q.row - 6 * night for q in run.questions if q.row > 6 * night] == [
        q.row for q in fresh.questions
    ]
    write_pieces(tmp_path / "exports", time, rows, [4000 // 3, 6 * night + 10])
    done = watch_folder(
        tmp_path / "rule.json", tmp_path / "exports", tmp_path / "state.db"
    )
    ended = [
        line
        for line in log_of(tmp_path)
        if line["kind"] == "question" and line["event"] == "ended"
    ]
    (line,) = ended
    assert line["text"].endswith("without data")
    assert any("neither kept nor broken" in text for text in done.week.warnings())
    starts = [one.start for one in dump(tmp_path / "state.db")["episodes"]]
    assert starts == [time[row] for row in run.episodes.starts][: len(starts)]


def test_a_promise_that_an_earlier_version_began_goes_on_with_its_rows(tmp_path):
    time, rows = RECORDS["whole"]
    rule, exports = write_rule_file(tmp_path), tmp_path / "exports"
    write_pieces(exports, time[:4000], rows[:4000], [])
    watch_folder(rule, exports, tmp_path / "state.db")
    store = WatchState(tmp_path / "state.db", len(CHANNELS))
    now = store.ledger(read_rule(rule))
    old = json.loads(store.about()["ledger"])
    # At a midnight (UTC), as it was begun then, and without counts of rows.
    del old["rows"], old["stood"]
    old["begins"] = 86_400.0 * (old["begins"] // 86_400 + 1)
    with store.transaction():
        store.set_about({"ledger": json.dumps(old)})
    read = store.ledger(read_rule(rule))
    store.close()
    assert 0 < read.rows == int((time[:4000] >= old["begins"]).sum()) < now.rows
    write_pieces(exports, time[4000:], rows[4000:], [], names=["later"])
    watch_folder(rule, exports, tmp_path / "state.db")
    store = WatchState(tmp_path / "state.db", len(CHANNELS))
    past = store.ledger(read_rule(rule)).past
    store.close()
    assert [period.days for period in past] == [1.0] * len(past)
    assert len(past) > len(now.past)
