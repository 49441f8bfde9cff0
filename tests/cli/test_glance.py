"""The table at a glance of a study: the rule for the budget beside the rules in use."""

import io

from report.plant import evaluations
from rich.console import Console

from sightline.report.entries import entries_of
from sightline.report.overview import glance
from sightline.rules.choose import count_words
from sightline.show.evaluations import cost_of
from sightline.show.rules import glance_table
from sightline.show.terminal import rendered
from sightline.storage import Result
from sightline.text import share


def test_the_rule_for_the_budget_stands_beside_the_rules_in_use():
    entries = entries_of([Result(None, evaluations()[0])])
    (row,) = glance(entries)
    file = io.StringIO()
    Console(width=80, file=file).print(rendered(glance_table("works", [row])))
    text = " ".join(file.getvalue().split())
    *in_use, made = row.rules
    chosen = made.row(made.chosen)
    assert f"rule '{chosen.name}'" in text
    attacks, load = chosen.attacks, chosen.load
    assert f"{attacks.caught} of {attacks.n_attacks}" in text
    costs = [cost_of(rule.evaluation, rule.rule) for rule in in_use]
    for words in (*costs, (count_words(load), share(load.share_of_time, 1))):
        assert all(word in text for word in words)
