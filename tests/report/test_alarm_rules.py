"""Alarms on the page: one count everywhere, order with a cost, what a rule would do."""

from dataclasses import replace

import numpy as np
import pytest
from report.plant import PLAIN, QUOTED, stream
from report.test_data import changed, entry_of

from sightline import evaluate
from sightline.metrics.alarm_load import AlarmLoad
from sightline.report.entries import entries_of
from sightline.report.overview import glance, headline
from sightline.rules.advice import count_words, false_alarm_words, load_words
from sightline.storage import Result
from sightline.text import share


def with_rule(entry, label, *, skill, per_day=3.0, share_of_time=0.001):
    """Return a detector whose rule for the budget has this skill and cost."""
    facts = entry.evaluation.rules
    chosen = facts.row(facts.chosen)
    load = replace(
        chosen.load, alarms=30, alarms_per_day=per_day, share_of_time=share_of_time
    )
    row = replace(chosen, load=load, attacks=replace(chosen.attacks, skill=skill))
    facts = replace(facts, table=(row,), budget="6/day,1%")
    named = replace(entry.evaluation.stream, detector=label, testbed="works")
    return changed(entry, label=label, rules=facts, stream=named)


def order(*entries):
    return [entry.label for entry in entries_of([e.results[0] for e in entries])]


# Counting


@pytest.mark.parametrize(
    ("alarms", "days", "share_of_time", "words"),
    [
        (2, 1.6, 0.02, "2 in 1.6 days"),
        (1, 0.02, 0.02, "1 in 29 min"),
        (145, 1.6, 0.1, "91 a day"),
        (34, 10.0, 0.1, "3.4 a day"),
        (8, 0.33, 1.0, "24 a day"),
        (3, None, 0.0, "3 in total"),
    ],
)
def test_a_count_is_a_rate_only_where_alarms_support_one(
    alarms, days, share_of_time, words
):
    load = AlarmLoad(
        alarms=alarms,
        days=days,
        alarms_per_day=None if days is None else alarms / days,
        share_of_time=share_of_time,
    )
    assert count_words(load) == words


def test_page_shows_the_counts_of_the_terminal(entries):
    for entry, row in zip(entries, glance(entries), strict=True):
        evaluation = entry.evaluation
        p99 = row.rules[-1]
        load = evaluation.probe.load
        assert p99.false_alarms == false_alarm_words(evaluation.probe)
        assert p99.false_alarms == count_words(load)
        assert p99.rate == share(load.share_of_time, 1)
        if evaluation.rules is None:
            assert row.made is None
            continue
        chosen = evaluation.rules.row(evaluation.rules.chosen)
        assert row.made.false_alarms == count_words(chosen.load)
        assert row.made.raised == chosen.attacks.raised


def test_earlier_results_keep_their_runs_and_say_so(entries):
    entry = entry_of(entries, PLAIN)
    old = replace(entry.evaluation.probe, load=None, attacks=None)
    p99 = glance([changed(entry, probe=old, rules=None)])[0].rules[-1]
    assert p99.false_alarms.endswith(" runs a day")
    assert (p99.burden, p99.raised) == ("", "")
    assert p99.rate == share(old.false_alarm_rate, 1)


def test_a_rule_that_always_rings_shows_its_hours_and_is_never_crowned():
    given = stream(PLAIN, own=True)
    loud = evaluate(
        given.replace(alarms=np.ones(given.test.n_rows, int)), intervals=False
    )
    (entry,) = entries_of([Result(None, loud)])
    own = glance([entry])[0].rules[0]
    load = loud.own_rule.load
    # Once, and once more for every full hour: 24 to 26 a day from half a day on.
    assert load.alarms == 1 + int(load.days * 24)
    assert own.false_alarms == f"{load.alarms_per_day:.0f} a day"
    assert own.rate == "100.0%"
    assert own.found == 0
    assert loud.own_rule.attacks.raised == 0
    assert own.raised.startswith("0 of 6")
    head = headline([entry])
    assert "the best" not in head.title
    assert "the most" not in head.title
    assert f"{own.false_alarms.split()[0]} alarms a day (100.0% of time)" in head.chance


# Order


def test_detectors_are_ordered_by_skill_then_alarms_and_the_budget_comes_first(entries):
    entry = entry_of(entries, QUOTED)
    good = with_rule(entry, "good", skill=0.6)
    cheap = with_rule(entry, "cheap", skill=0.6, per_day=1.0)
    weak = with_rule(entry, "weak", skill=0.2)
    over = with_rule(entry, "over", skill=0.9, per_day=9.0)
    stands = with_rule(entry, "stands", skill=0.9, share_of_time=0.2)
    ordered = order(stands, weak, over, good, cheap)
    assert ordered == ["cheap", "good", "weak", "stands", "over"]
    title = headline([cheap, good, weak, over]).title
    assert title.startswith("With a rule for 6/day,1%, cheap raises")
    assert load_words(cheap.evaluation.rules.table[0].load) in title
    assert not title.endswith("the best of all")
    assert headline([good, weak]).title.endswith(", the best of all")
    assert headline([good, weak, over]).title.endswith("that keeps the budget")
    assert headline([over, stands]).title.endswith(", which is over the budget")
    chance = with_rule(entry, "chance", skill=-0.1)
    assert headline([chance]).title.endswith(", no more than by chance")


def test_without_rules_an_over_alarming_detector_comes_last_and_is_not_praised(entries):
    entry = entry_of(entries, PLAIN)
    named = replace(entry.evaluation.stream, detector="loud")
    probe = replace(entry.evaluation.probe, over_alarming=True)
    loud = changed(entry, label="loud", rules=None, probe=probe, stream=named)
    named = replace(named, detector="calm")
    calm = changed(entry, label="calm", rules=None, stream=named)
    assert order(loud, calm) == ["calm", "loud"]
    assert headline([loud]).title.endswith(
        "in alarm too often for an alarm to say much"
    )
