"""What the chosen rule would do with other budgets: the laws of one curve of limits."""

from dataclasses import replace

import numpy as np
import pytest

from sightline import commission, evaluate
from sightline.rules import commission as commissioning
from sightline.rules.limits import Budget
from sightline.rules.what_if import MULTIPLES
from sightline.show.rules import what_if_table
from tests.rules.made_rules import made_rules, plant_stream


@pytest.fixture(scope="module")
def facts():
    return made_rules().facts


def test_the_budget_itself_gives_the_row_of_the_table(facts):
    now = facts.what_if[facts.what_if_now]
    row = facts.row(facts.chosen)
    assert (now.per_day, now.share) == (6.0, Budget.parse("6/day").share)
    assert (now.limit, now.load, now.attacks) == (row.limit, row.load, row.attacks)
    assert len(facts.what_if) == len(MULTIPLES) + 1


def test_a_larger_budget_has_a_lower_limit_and_sees_smaller_faults(facts):
    budgets = [one.per_day for one in facts.what_if]
    assert budgets == sorted(budgets)
    assert (budgets[0], budgets[-1]) == (2.0, 24.0)
    for name in ("limit", "step"):
        values = [getattr(one, name) for one in facts.what_if]
        assert values == sorted(values, reverse=True)
        assert values[0] > values[-1]
    assert facts.what_if[-1].load.alarms >= facts.what_if[0].load.alarms


def test_a_rule_of_one_member_is_the_one_commissioned_for_that_budget():
    stream = plant_stream()
    made = commission(stream, budget="6/day,1%", choose="energy").facts
    twice = commission(stream, budget="12/day,2%", choose="energy").facts
    other = next(one for one in made.what_if if one.per_day == 12.0)
    assert other.share == 0.02
    assert other.limit == pytest.approx(twice.row("energy").limit, rel=0.02)


def test_nothing_is_tried_on_a_record_that_is_too_long(monkeypatch):
    monkeypatch.setattr(commissioning, "MOST_ROWS", 100)
    assert commission(plant_stream(), budget="6/day").facts.what_if == ()


def test_the_trace_has_every_peak_and_alarm_of_the_chosen_rule():
    made = evaluate(plant_stream(), intervals=False, budget="6/day")
    traces, facts = made.traces, made.rules
    rows, peaks = traces.rule_rows, traces.rule_peaks
    assert rows[0] == facts.split
    assert (np.diff(rows) > 0).all()
    assert len(rows) == len(peaks)
    # Rows beyond the limit are in alarm, or of what is out of service.
    for start, stop in traces.rule_alarms:
        columns = (rows < stop) & (np.append(rows[1:], len(traces.labels)) > start)
        assert peaks[columns].max() > 1


def test_the_table_has_a_line_for_each_budget(facts):
    table = what_if_table(facts)
    texts = [table.columns[0].cell(one).text for one in table.records]
    assert texts[facts.what_if_now].startswith("6 a day, ")
    assert len(set(texts)) == len(texts)
    bare = what_if_table(replace(facts, n_attacks=0))
    assert "caught" not in [column.key for column in bare.columns]
