"""The table at a glance of a study: the rule for the budget beside the rules in use."""

import io

from report.plant import evaluations
from rich.console import Console

from sightline.cli.study import _glance_table
from sightline.report.entries import entries_of
from sightline.report.overview import glance
from sightline.rules.advice import count_words
from sightline.storage import Result
from sightline.text import share


def test_the_rule_for_the_budget_stands_beside_the_rules_in_use():
    entries = entries_of([Result(None, evaluations()[0])])
    (row,) = glance(entries)
    file = io.StringIO()
    Console(width=80, file=file).print(_glance_table("works", [row]))
    text = " ".join(file.getvalue().split())
    chosen = row.commissioned.row(row.commissioned.chosen)
    assert f"rule '{chosen.name}'" in text
    attacks, load = chosen.attacks, chosen.load
    assert f"raised {attacks.raised} of {attacks.n_attacks}" in text
    costs = [(rule.false_alarms, rule.rate) for rule in row.rules]
    for words in (*costs, (count_words(load), share(load.share_of_time, 1))):
        assert all(word in text for word in words)
