"""The table at a glance of a study: the rule for the budget beside the rules in use."""

import io

from report.plant import evaluations
from rich.console import Console

from sightline.cli.study import _glance_table
from sightline.report.entries import entries_of
from sightline.report.overview import glance
from sightline.storage import Result


def test_the_rule_for_the_budget_stands_beside_the_rules_in_use():
    entries = entries_of([Result(None, evaluations()[0])])
    (row,) = glance(entries)
    file = io.StringIO()
    Console(width=80, file=file).print(_glance_table("works", [row]))
    text = " ".join(file.getvalue().split())
    assert f"rule '{row.made.rule}'" in text
    assert f"raised {row.made.raised} of {row.made.n_attacks}" in text
    for rule in (*row.rules, row.made):
        assert rule.false_alarms in text
        assert rule.rate in text
