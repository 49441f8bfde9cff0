"""The first screen: the advice, its number, and nothing that the page contradicts."""

from dataclasses import replace

import pytest
from report.plant import PLAIN, QUOTED
from report.recordings import findings, recording_facts
from report.test_data import changed, entry_of

from sightline.judgement.verdicts import Verdict
from sightline.report.attacks import attack_groups
from sightline.report.entries import cost_of, found
from sightline.report.first_screen import first_screen, later_rows
from sightline.report.overview import first_check, glance
from sightline.report.page import _title
from sightline.rules.advice import RuleDecision, count_words, decide


def on_rules(entry, **load):
    """Return the entry with another load of its chosen rule."""
    facts = entry.evaluation.rules
    chosen = facts.row(facts.chosen)
    dearer = replace(chosen, load=replace(chosen.load, **load))
    table = tuple(dearer if row is chosen else row for row in facts.table)
    return changed(entry, rules=replace(facts, table=table))


def test_the_advice_is_the_one_of_the_other_sections(entries):
    for entry in entries:
        facts = entry.evaluation.rules
        if facts is None:
            continue
        advised = first_screen([entry]).advised
        now, other = advised.rules
        assert now.outcome is facts.present[-1]
        assert other.outcome is facts.row(facts.chosen)
        # The same number of alarms where the rule in use is spoken of.
        false_alarms = count_words(now.outcome.load)
        assert cost_of(entry.evaluation, entry.main_rule)[0] == false_alarms
        assert glance([entry])[0].rules[0].false_alarms == false_alarms
        is_replaced = decide(facts) is RuleDecision.REPLACE
        assert advised.heading.startswith("Replace") == is_replaced
        assert ("Replace" in first_check(entry.evaluation)) == is_replaced
        assert bool(advised.command) == is_replaced


@pytest.mark.parametrize(
    ("load", "heading"),
    [
        ({"alarms_per_day": 1.0, "share_of_time": 0.0}, "Replace"),
        ({"alarms_per_day": 900.0, "share_of_time": 0.9}, "Do not"),
    ],
)
def test_a_rule_that_costs_too_much_is_not_advised(entries, load, heading):
    entry = on_rules(entry_of(entries, PLAIN), **load)
    assert first_screen([entry]).advised.heading.startswith(heading)


def test_without_a_rule_it_says_why(entries):
    entry = entry_of(entries, PLAIN)
    refused = changed(entry, rules=None, rules_refused="Too short a record.")
    advised = first_screen([refused]).advised
    assert advised.heading == "No alarm rule could be made"
    assert advised.text == "Too short a record."
    assert later_rows([refused]) == ""
    none = first_screen([changed(entry, rules=None, rules_refused=None)]).advised
    assert "--budget" in none.text


def test_counts_are_those_of_the_results(entries):
    entry = entry_of(entries, QUOTED)
    others = [one for one in entries if one.testbed == entry.testbed and one != entry]
    screen = first_screen([entry, *others])
    n = entry.evaluation.stream.n_segments
    assert screen.found.count == f"{found(entry.evaluation, entry.main_rule)} of {n}"
    words = [info.word for info in entry.verdicts]
    assert screen.n_missed == n - words.count(Verdict.DETECTED)
    assert sum(count for *_, count in screen.missed) == screen.n_missed
    texts = [text for text, _ in screen.looked_at]
    assert "4,000 rows, 11.1 h in rows of 10 s" in texts
    assert f"{n} attacks" in texts
    assert "3 detectors" in texts
    load = entry.evaluation.rules.present[-1].load
    assert count_words(load).split()[0] in screen.found.cost


def test_findings_are_counted_by_severity(entries):
    entry = entry_of(entries, PLAIN)
    bare = first_screen([entry]).believed[0]
    assert "not audited" in bare.text
    audited = changed(entry, recording=recording_facts(), findings=findings())
    data = first_screen([audited]).believed[0]
    assert data.text.startswith("Data: 1 error")
    assert data.is_warning
    assert data.link == "your-data"
    (causes,) = [
        line for line in first_screen([entry]).believed if "False causes" in line.text
    ]
    n_windows = entry.evaluation.diagnosis.n_calm_windows
    assert f"{n_windows:,} attack-free windows" in causes.text


def test_the_title_is_a_name_and_never_a_path(entries):
    entry = entry_of(entries, PLAIN)
    assert _title([entry]) == "works"
    unnamed = replace(entry, testbed="unknown")
    assert _title([unnamed]) == entry.evaluation.stream.name
    known = replace(
        changed(entry, recording=recording_facts(plant="Riverside")), testbed="unknown"
    )
    assert _title([known]) == "Riverside"


def test_an_attack_that_a_repair_shows_more_clearly_is_not_called_hidden_and_visible(
    entries,
):
    for group in attack_groups(entries):
        for row in group.rows:
            hidden = row.verdict.word in (Verdict.DILUTED, Verdict.SEQUENTIAL)
            if hidden and row.segment.evidence.is_found:
                assert row.evidence.word == "yes, but clearer by a repair"
            if row.evidence.word == "no" and row.segment.evidence.p_value <= 0.05:
                assert ", but " in row.evidence.reason
