"""The first screen: the advice, its number, and nothing that the page contradicts."""

from dataclasses import replace

from report.plant import PLAIN, QUOTED
from report.recordings import findings, recording_facts
from report.test_data import changed, entry_of, glanced
from report.test_page import Parsed, without_plotly

from sightline.judgement.verdicts import Verdict
from sightline.report.attacks import attack_groups
from sightline.report.overview import (
    advised,
    cost_words,
    first_check,
    later_rows,
    looked_at,
    others_catch,
    reviewed_first,
)
from sightline.report.page import default_title, render
from sightline.rules.choose import after_later_rows, count_words
from sightline.rules.judging import ChoiceOutcome
from sightline.show.evaluations import cost_of, on_rows


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
        advice = advised(entry)
        (_, _, now), (_, _, other) = advice.rules
        assert now is facts.present[-1]
        assert other is facts.row(facts.chosen)
        # The same number of alarms where the rule in use is spoken of.
        false_alarms = count_words(now.load)
        assert cost_of(entry.evaluation, entry.main_rule)[0] == false_alarms
        in_use = glanced(entry.at_a_glance[0])
        assert in_use["alarms"].text.splitlines()[0] == false_alarms
        assert advice.why == facts.advice
        assert advice.text in facts.advice
        assert facts.choice.sentence in first_check(entry.evaluation)
        action = facts.set_choice.action if facts.set_choice else None
        is_taken = facts.choice.outcome is ChoiceOutcome.TAKE
        assert bool(advice.command) == (is_taken and action.changes)
        first = advice.heading.split()[0]
        wanted = {None: first, "keep": "Keep", "add": "Add", "replace": "Take"}[action]
        assert first == wanted
        assert (first in ("Take", "Add", "Keep")) == facts.choice.outcome.has_rule


def test_a_rule_that_costs_too_much_on_later_rows_is_not_advised(entries):
    entry = entry_of(entries, PLAIN)
    rules = entry.evaluation.rules
    load = replace(rules.table[0].load, alarms_per_day=900.0, share_of_time=0.9)
    taken = replace(rules.choice, outcome=ChoiceOutcome.TAKE, sentence="Take it.")
    table = [replace(row, load=load) for row in rules.table]
    found = after_later_rows(taken, table, rules.accepted)
    assert found.outcome is ChoiceOutcome.NO_RULE
    facts = replace(rules, choice=found, set_choice=None)
    advice = advised(changed(entry, rules=facts))
    assert advice.heading.startswith("No rule yet for")
    assert not advice.command


def test_without_a_rule_it_says_why(entries):
    entry = entry_of(entries, PLAIN)
    refused = changed(entry, rules=None, rules_refused="Too short a record.")
    advice = advised(refused)
    assert advice.heading == "No alarm rule could be made"
    assert advice.text == "Too short a record."
    assert later_rows([refused]) == ""
    none = advised(changed(entry, rules=None, rules_refused=None))
    assert "--budget" in none.text


def test_counts_are_those_of_the_results(entries):
    entry = entry_of(entries, QUOTED)
    others = [one for one in entries if one.testbed == entry.testbed and one != entry]
    page = Parsed(without_plotly(render([entry, *others])))
    text = " ".join(page.text.split())
    n = entry.evaluation.stream.n_segments
    attacks = on_rows(entry.evaluation, entry.main_rule).attacks
    count = f"{attacks.caught} of {attacks.n_attacks}"
    assert f"{count} by the own rule of {entry.label}" in text
    words = [info.word for info in entry.verdicts]
    n_missed = n - words.count(Verdict.DETECTED)
    where = f"by the own rule of {entry.label} (whole test)"
    assert f"{n_missed} attacks are not caught and singled out {where}" in text
    assert sum(count for _, count in entry.verdict_counts) == n
    texts = [text for text, _ in looked_at([entry, *others])]
    assert "4,000 rows, 11.1 h in rows of 10 s" in texts
    assert f"{n} attacks" in texts
    assert "3 detectors" in texts
    assert others_catch(others).startswith("The rules in use of the other 2 catch ")
    load = entry.evaluation.rules.present[-1].load
    assert count_words(load).split()[0] in cost_words(entry)


def test_the_header_says_the_same_whichever_detector_comes_first(entries):
    entry = entry_of(entries, QUOTED)
    stream = entry.evaluation.stream
    coarse = replace(stream, n_test=stream.n_test // 10, step_s=100.0, p=1)
    other = changed(entry, label="coarse", stream=coarse)
    assert looked_at([entry, other])[:3] == looked_at([other, entry])[:3]
    assert looked_at([other, entry])[:2] == looked_at([entry])[:2]


def test_findings_are_counted_by_severity(entries):
    entry = entry_of(entries, PLAIN)
    (text, *_), *_ = reviewed_first([entry])
    assert "not audited" in text
    audited = changed(entry, recording=recording_facts(), findings=findings())
    text, _, link, is_warning = reviewed_first([audited])[0]
    assert text.startswith("Data: 1 error")
    assert is_warning
    assert link == "your-data"
    (causes,) = [text for text, *_ in reviewed_first([entry]) if "False causes" in text]
    n_windows = entry.evaluation.diagnosis.n_calm_windows
    assert f"{n_windows:,} attack-free windows" in causes


def test_the_title_is_a_name_and_never_a_path(entries):
    entry = entry_of(entries, PLAIN)
    assert default_title([entry]) == "works"
    unnamed = replace(entry, testbed="unknown")
    assert default_title([unnamed]) == entry.evaluation.stream.name
    known = replace(
        changed(entry, recording=recording_facts(plant="Riverside")), testbed="unknown"
    )
    assert default_title([known]) == "Riverside"


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
