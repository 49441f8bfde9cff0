"""Alarms on the page: one count everywhere, order with a cost, what a rule would do."""

from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from report.plant import PLAIN, QUOTED, stream
from report.test_data import changed, entry_of, glanced, in_use

from sightline import evaluate
from sightline.metrics.alarm_load import AlarmLoad
from sightline.report.alarms import (
    actions,
    false_alarms,
    repair_sentences,
    rules_figure,
)
from sightline.report.entries import entries_of
from sightline.report.overview import (
    commission_command,
    first_check,
    rule_advice,
)
from sightline.report.page import render
from sightline.report.redaction import redacted
from sightline.rules.choose import (
    count_words,
    false_alarm_words,
    is_over,
    load_words,
)
from sightline.rules.judging import Mask
from sightline.rules.named import rule_words
from sightline.rules.promise import Kept
from sightline.show.rules import KEPT_WORDS
from sightline.storage import Result
from sightline.text import share


def with_rule(entry, label, *, skill, per_day=3.0, share_of_time=0.001):
    """Return a detector whose rule for the budget has this skill and cost."""
    facts = entry.evaluation.rules
    chosen = facts.row(facts.chosen)
    load = replace(
        chosen.load, alarms=30, alarms_per_day=per_day, share_of_time=share_of_time
    )
    attacks = replace(
        chosen.attacks, skill=skill, skill_interval=(skill - 0.1, 1.0), p_value=0.001
    )
    row = replace(chosen, load=load, attacks=attacks)
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


def test_each_rule_has_one_number_of_alarms(entries):
    for entry in entries:
        evaluation = entry.evaluation
        p99 = in_use(entry)[-1]["alarms"].text
        load = evaluation.probe.load
        if evaluation.rules is None:
            assert p99.startswith(false_alarm_words(evaluation.probe))
        else:
            # All rules are compared on the later rows.
            load = evaluation.rules.present[0].load
            if len(in_use(entry)) == 1:
                assert load_words(load) in first_check(evaluation)
        rate = share(load.share_of_time, 1)
        assert p99 == count_words(load)
        assert in_use(entry)[-1]["share"].text == rate
        is_made = evaluation.rules in entry.at_a_glance
        assert is_made == (evaluation.rules is not None)


def test_earlier_results_keep_their_runs_and_say_so(entries):
    entry = entry_of(entries, PLAIN)
    old = replace(entry.evaluation.probe, load=None, attacks=None)
    p99 = in_use(changed(entry, probe=old, rules=None))[-1]
    assert p99["alarms"].text.endswith(" runs a day")
    assert p99["share"].text == share(old.false_alarm_rate, 1)
    notes = [note for cell in p99.values() for note in cell.notes]
    terms = {note.term for note in notes if not isinstance(note, str)}
    assert not terms & {"alarm-load", "skill"}


def test_a_rule_that_always_rings_shows_its_hours_and_is_never_crowned():
    given = stream(PLAIN, own=True)
    loud = evaluate(
        given.replace(alarms=np.ones(given.test.n_rows, int)), intervals=False
    )
    (entry,) = entries_of([Result(None, loud)])
    own = in_use(entry)[0]
    words = own["alarms"].text
    load = loud.own_rule.load
    # Once, and once more for every full hour: 24 to 26 a day from half a day on.
    assert load.alarms == 1 + int(load.days * 24)
    assert words == f"{load.alarms_per_day:.0f} a day"
    assert own["share"].text == "100.0%"
    assert own["caught"].values[0] == 0
    assert loud.own_rule.attacks.caught == 0


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
    (_, row) = [glanced(one) for one in over.at_a_glance][-2:]
    assert row["alarms"].notes[0].text.endswith("over the budget")


def test_without_rules_an_over_alarming_detector_comes_last_and_is_not_praised(entries):
    entry = entry_of(entries, PLAIN)
    named = replace(entry.evaluation.stream, detector="loud")
    attacks = replace(entry.evaluation.probe.attacks, p_value=0.001)
    often, seldom = (
        replace(entry.evaluation.probe.load, share_of_time=part) for part in (0.2, 0.01)
    )
    probe = replace(entry.evaluation.probe, load=often, attacks=attacks)
    loud = changed(entry, label="loud", rules=None, probe=probe, stream=named)
    named = replace(named, detector="calm")
    probe = replace(entry.evaluation.probe, load=seldom)
    calm = changed(entry, label="calm", rules=None, probe=probe, stream=named)
    assert order(loud, calm) == ["calm", "loud"]


# What a better rule would do


def test_the_table_of_rules_shows_every_rule_as_it_was_judged(entries):
    entry = entry_of(entries, QUOTED)
    facts = entry.evaluation.rules
    outcomes = (*facts.present, *facts.table)
    assert rule_advice(entry.evaluation) == facts.advice
    table = render([entry]).partition('class="plain stack rules"')[2]
    lines = table.partition("</table>")[0].split("<tr")[2:]
    assert sum("chosen" in line for line in lines) == 1
    for line, row in zip(lines, outcomes, strict=True):
        assert f"{row.name}</" in unescape(line)
        assert f">{count_words(row.load)}<" in line
        assert f">{row.attacks.caught} of {row.attacks.n_attacks}<" in line
        assert ("over the budget" in line) == is_over(row.load, facts)
        assert rule_words(row.name) != row.name
        assert ("term-kept-" in line or "over twice" in line) == (row.kept is not None)
    assert set(KEPT_WORDS) == set(Kept)
    assert f"--budget {facts.budget} " in commission_command(entry)


def test_repairs_are_silent_where_causes_cannot_be_told_apart(entries):
    entry = entry_of(entries, QUOTED)
    wanted = [r.sentence for r in entry.evaluation.repairs.values() if r.sentence]
    assert repair_sentences(entry.evaluation) == wanted
    facts = replace(entry.evaluation.diagnosis, advice_withheld="Not told apart.")
    assert repair_sentences(replace(entry.evaluation, diagnosis=facts)) == []


def test_the_curve_marks_every_rule_and_draws_no_alarm_at_zero(entries):
    entry = entry_of(entries, PLAIN)
    facts = entry.evaluation.rules
    figure = rules_figure(entry)
    kinds = [point["kind"] for point in figure["points"]]
    assert kinds.count("chosen") == 1
    assert kinds.count("present") == len(facts.present)
    assert len(kinds) == len(facts.present) + len(facts.table)
    assert figure["per_day"] == facts.accepted.per_day
    assert 0 < figure["least"] < 1 / facts.judged_days
    assert len(figure["curves"]) == len(facts.curves)


def test_without_rules_the_section_says_why_or_nothing(entries):
    refused = entry_of(entries, "mean")
    reason = refused.evaluation.rules_refused
    assert rule_advice(refused.evaluation) == f"No alarm rule was made: {reason}"
    assert rules_figure(refused) is None
    unasked = render([entry_of(entries, PLAIN, "second")])
    assert "These results have no alarm rules" in unasked


# Where false alarms come from


def test_false_alarms_get_an_action(entries):
    entry = entry_of(entries, PLAIN)
    facts = entry.evaluation.rules
    assert actions(changed(entry, rules=None)) == []
    calm = replace(facts, noisy_channel=None, mask=None)
    assert actions(changed(entry, rules=calm)) == []
    without = replace(facts.table[0], name="energy without P101")
    noisy = replace(calm, noisy_channel="P101", table=(*facts.table, without))
    (text,) = actions(changed(entry, rules=noisy))
    assert text.startswith("P101 alone leads at least half of the false alarms")
    assert f"'energy without P101' makes {load_words(without.load)}" in text
    mask = Mask(
        channel="P101",
        value=0.0,
        minutes=10,
        n_before_split=9,
        n_expected=1.0,
        share_of_time=0.1,
        before=facts.present[0],
        after=facts.present[0],
        attacks_lost=(),
        is_advised=True,
        sentence="Mask P101.",
    )
    masked = changed(entry, rules=replace(calm, mask=mask))
    assert actions(masked) == ["Mask P101."]
    (hidden,), _ = redacted(list(masked.results))
    assert hidden.evaluation.rules.mask is None


def test_the_section_shows_the_same_count_as_the_glance_table(entries):
    for entry in entries:
        for alarms, rule in zip(false_alarms(entry), in_use(entry), strict=True):
            assert rule["alarms"].text == alarms["words"]
            assert rule["share"].text == alarms["rate"]
