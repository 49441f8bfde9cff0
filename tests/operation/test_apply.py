"""A rule applied to rows whose alarms are worked out by hand."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from sightline.data.row_tables import ArrayRows
from sightline.data.validity import NotWatched, Unwatched
from sightline.metrics.alarm_load import Delays
from sightline.operation.apply import (
    ResidualRecord,
    apply_rule,
    drift_between,
    open_record,
)
from sightline.rules.limits import Budget, Limit
from sightline.rules.making import MadeRule
from sightline.rules.normal import CalmChannel, Origin
from sightline.rules.promise import Forecast, Kept, Promise
from sightline.rules.rule import Channel, LinearView, Member, Rule, View

# 2026-03-28 23:00 UTC: clocks in Berlin go forward two hours later.
BEGIN = 1_774_738_800.0
NAMES = ("A", "B", "C")


def hand_made(view: View = View.X) -> MadeRule:
    """Return a rule with a limit of 2 on each channel, or on stages {A, B} and {C}."""
    is_stage = view is View.STAGE
    each = np.arange(3)
    linear = LinearView(
        kind=view,
        mean=np.zeros(3),
        order=each,
        weights=np.eye(3),
        first=each,
        stop=each + 1,
        units=("P1", "P2") if is_stage else NAMES,
        bounds=np.array([0, 2, 3]) if is_stage else None,
    )
    rule = Rule(
        name="mine",
        channels=tuple(Channel(name=name) for name in NAMES),
        views=(linear,),
        members=(
            Member(name=view.value, view=view, levels=np.ones(len(linear.units))),
        ),
        limit=2.0,
        delays=Delays(off=3, unit=12),
        step_s=60.0,
        budget=Budget(per_day=24.0),
    )
    calm = tuple(
        CalmChannel(channel=n, mean=0.0, spread=s, calm_mean=0.0, calm_square=1.0)
        for n, s in zip(NAMES, (1.0, 2.0, 0.5), strict=True)
    )
    forecast = Forecast(per_day=24.0, spread=2.0, errors=(0.0,) * 12)
    promise = Promise(
        alarms=forecast, time=forecast, usual_s=60.0, budget=Budget(per_day=24.0)
    )
    return MadeRule(
        rule=rule,
        limit=Limit(value=2.0, alarms=2.0, share=0.0),
        promise=promise,
        origin=Origin(
            stream="s",
            stream_sha256="",
            sightline="0",
            begins=BEGIN - 600,
            ends=BEGIN + 120,
            calm=calm,
        ),
    )


def record(cells, n_rows=240, **changes) -> ResidualRecord:
    rows = np.zeros((n_rows, 3))
    for (row, channel), value in cells.items():
        rows[row, channel] = value
    given = {
        "name": "r",
        "rows": ArrayRows(rows),
        "breaks": np.zeros(1, np.int64),
        "is_attack_free": np.ones(n_rows, np.bool_),
        "time": BEGIN + 60.0 * np.arange(n_rows),
        "timezone": "Europe/Berlin",
    }
    return ResidualRecord(**(given | changes))


def test_alarms_by_hand():
    cells = {
        (1, 0): 3.0,  # before commissioning ends: listed, not judged
        (100, 1): -5.0,
        (102, 2): 2.5,
        (104, 1): 2.5,
        (130, 0): 2.0,  # equal to the limit: no exceedance
        (200, 2): 9.0,
    }
    applied = apply_rule(hand_made(), record(cells))
    listed = [
        (a.start, a.end, a.seconds, a.peak, a.member, a.tags) for a in applied.alarms
    ]
    assert listed == [
        ("2026-03-29T00:01:00+01:00",) * 2 + (60.0, 1.5, "x", ("A",)),
        (
            "2026-03-29T01:40:00+01:00",
            "2026-03-29T01:44:00+01:00",
            300.0,
            2.5,
            "x",
            ("B", "C"),
        ),
        ("2026-03-29T04:20:00+02:00",) * 2 + (60.0, 4.5, "x", ("C",)),
    ]
    assert applied.outcome.load.alarms == 2
    assert applied.outcome.load.days == (240 - 3) * 60 / 86_400
    assert applied.notices[0].startswith("3 rows are not later than")


def test_an_alarm_of_a_stage_names_its_tags_by_their_deviation_in_spreads():
    # A deviates by 3 spreads and B by 2, though B is the larger number.
    cells = {(50, 0): 3.0, (50, 1): 4.0}
    (alarm,) = apply_rule(hand_made(View.STAGE), record(cells)).alarms
    assert alarm.tags == ("A", "B")
    assert alarm.peak == (9 + 16) / 2 / 2


def test_no_alarm_crosses_a_break_and_rows_stand_for_times_without_a_clock():
    cells = {(49, 0): 3.0, (50, 0): 3.0}
    applied = apply_rule(
        hand_made(), record(cells, breaks=np.array([0, 50]), time=None)
    )
    assert [(a.start, a.end) for a in applied.alarms] == [("49", "49"), ("50", "50")]


def test_alarms_in_attacks_are_not_false():
    from sightline import Attack

    is_attack_free = np.ones(240, np.bool_)
    is_attack_free[95:130] = False
    attack = Attack(id="1", start=95, stop=120)
    applied = apply_rule(
        hand_made(),
        record({(100, 1): 9.0}, is_attack_free=is_attack_free, attacks=(attack,)),
    )
    assert applied.outcome.load.alarms == 0
    assert (applied.outcome.attacks.raised, applied.outcome.attacks.n_attacks) == (1, 1)


@pytest.mark.parametrize(("slop_s", "raised"), [(None, 1), (180.0, 1), (0.0, 0)])
def test_an_alarm_just_before_a_label_counts_by_the_slop_of_the_rule(
    tmp_path, slop_s, raised
):
    made = hand_made()
    made = replace(made, origin=replace(made.origin, label_slop_s=slop_s))
    rows, label = np.zeros((240, 3)), np.zeros(240, np.int8)
    label[100:110] = 1
    # One row before the label by default, three with 180 s.
    rows[99 if slop_s is None else 97, 1] = 9.0
    stamps = pl.from_epoch(pl.Series(BEGIN + 60 * np.arange(240)).cast(pl.Int64), "s")
    columns = {name: rows[:, k] for k, name in enumerate(NAMES)}
    frame = pl.DataFrame({"time": stamps, **columns, "label": label})
    frame.write_csv(tmp_path / "rows.csv", datetime_format="%FT%TZ")
    outcome = apply_rule(
        made, open_record(tmp_path / "rows.csv", made, tmp_path / "rule.json")
    ).outcome
    assert (outcome.attacks.raised, outcome.load.alarms) == (raised, 1 - raised)


def test_a_promise_is_broken_above_its_interval():
    # 24 a day is 4 in the 4 hours; 24 single alarms are too many.
    cells = {(row, 0): 9.0 for row in range(8, 240, 10)}
    applied = apply_rule(hand_made(), record(cells))
    assert applied.outcome.load.alarms == 24
    assert applied.outcome.kept is Kept.BROKEN
    assert apply_rule(hand_made(), record({(50, 0): 9.0})).outcome.kept is Kept.KEPT


def test_nothing_is_judged_where_no_row_is_later():
    early = record({}, time=BEGIN - 86_400 + 60.0 * np.arange(240))
    applied = apply_rule(hand_made(), early)
    assert applied.outcome.kept is Kept.UNJUDGED
    assert applied.drift is None


@pytest.mark.parametrize(("hours", "kept"), [(3, Kept.KEPT), (5, Kept.UNJUDGED)])
def test_time_that_was_not_watched_is_said_and_a_promise_needs_half_of_it(hours, kept):
    end = BEGIN + 240 * 60.0
    lost = Unwatched(end, end + hours * 3600.0, NotWatched.NO_DATA)
    before = Unwatched(BEGIN - 86_400.0, BEGIN - 7200.0, NotWatched.NO_DATA)
    applied = apply_rule(
        hand_made(), replace(record({(50, 0): 9.0}), unwatched=(before, lost))
    )
    assert applied.outcome.kept is kept
    said = applied.notices[0]
    assert said.startswith(f"4.0 of {4 + hours + 22:.1f} hours watched; not watched: ")
    assert said.endswith("(no data).")


def test_drift_by_hand_in_any_chunks():
    then = hand_made().origin.calm
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)) * [1.0, 2.0, 0.5] + [0.0, 3.0, 0.0]
    drift = drift_between(then, [rows])
    assert drift.tags[0].channel == "B"
    assert drift.tags[0].shift == pytest.approx(rows[:, 1].mean() / 2)
    squares = np.mean((rows / [1.0, 2.0, 0.5]) ** 2, axis=0)
    assert drift.tags[0].energy_share == pytest.approx(squares[1] / squares.sum())
    assert drift.tags[0].energy_share_then == pytest.approx(1 / 3)
    assert drift.energy_ratio == pytest.approx(squares.sum() / 3)
    cut = drift_between(then, np.split(rows, [7, 300]))
    assert cut.shift == pytest.approx(drift.shift)
    assert [tag.channel for tag in drift.moved] == ["B"]


def test_an_unused_budget_names_the_limit_that_these_rows_would_give():
    # 24 a day in 10 days, and peaks of 1 once an hour: the limit of 2 is never reached.
    cells = {(row, 0): 1.0 + row / 1e6 for row in range(30, 14_400, 60)}
    made = hand_made()
    outcome = apply_rule(made, record(cells, n_rows=14_400)).outcome
    assert outcome.kept is Kept.UNUSED
    assert 0.0 < outcome.hindsight_limit < 1.02
    again = replace(made, rule=made.rule.with_limit(outcome.hindsight_limit))
    load = apply_rule(again, record(cells, n_rows=14_400)).outcome.load
    assert 0 < load.alarms_per_day <= 24
