"""Advice: the rule that keeps the budget, with what it costs and what it raises."""

from dataclasses import replace

import pytest

from sightline.metrics.alarm_load import AlarmLoad, AttackAlarms
from sightline.rules.advice import RuleDecision, advice, decide, is_over, load_words
from sightline.rules.judging import CommissioningFacts, Kept, RuleOutcome


def outcome(name, per_day, share, raised=None, chance=0.0, **known):
    days = 10.0
    n = 0 if raised is None else 20
    count = raised or 0
    attacks = AttackAlarms(
        n_attacks=n,
        raised=count,
        raised_by_chance=chance,
        rings=count,
        rings_by_chance=chance,
        skill=(count - chance) / (n - chance) if n else None,
        delay_s=30.0,
    )
    load = AlarmLoad(
        alarms=round(per_day * days),
        days=days,
        alarms_per_day=per_day,
        share_of_time=share,
    )
    return RuleOutcome(
        name=name, limit=2.0, load=load, attacks=attacks, kept=Kept.KEPT, **known
    )


FACTS = CommissioningFacts(
    budget="6/day,1%",
    chosen="all",
    days=2.0,
    split=100,
    judged_days=10.0,
    n_attacks=20,
    uses_calibration=False,
    table=(outcome("energy", 4.0, 0.002, 9), outcome("all", 5.0, 0.004, 15, 1.0)),
    present=(outcome("p99", 80.0, 0.05, 17, 14.0),),
)


def with_rules(present, chosen):
    return replace(FACTS, present=(present,), table=(FACTS.table[0], chosen))


def test_a_rule_over_the_budget_is_replaced_with_before_and_after():
    text = advice(FACTS)
    assert text.startswith("Replace the p99 rule by rule 'all', made for 6/day,1%.")
    assert "80 alarms a day (5.0% of time) and raises 17 of 20 attacks (14" in text
    assert "5.0 alarms a day (0.4% of time) and raises 15 of 20 attacks (1" in text
    assert "Raising the p99 limit alone, from 2 to 2," in text


def test_a_rule_within_the_budget_that_raises_as_much_is_kept():
    facts = with_rules(
        outcome("own", 3.0, 0.001, 16, 1.0), outcome("all", 5.0, 0.004, 16, 1.0)
    )
    assert advice(facts).startswith("Keep your own rule: it keeps the budget")


def test_a_rule_within_the_budget_that_raises_less_is_replaced():
    facts = with_rules(
        outcome("own", 3.0, 0.001, 4, 1.0), outcome("all", 5.0, 0.004, 16, 1.0)
    )
    assert advice(facts).startswith("Replace your own rule")


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (outcome("all", 7.0, 0.004, 15), "more alarms than the budget allows"),
        (outcome("all", 5.0, 0.03, 15), "above the budget's 1%"),
        (replace(outcome("all", 9.0, 0.03, 15), kept=Kept.BROKEN), "broke its promise"),
        (
            replace(
                outcome("all", 0.1, 0.0, 15), kept=Kept.UNUSED, hindsight_limit=1.5
            ),
            "in hindsight 1.5 in place of 2",
        ),
    ],
)
def test_what_speaks_against_the_chosen_rule_stands_beside_it(chosen, words):
    assert words in advice(with_rules(FACTS.present[0], chosen))


def test_a_choice_made_in_hindsight_is_called_so():
    table = FACTS.table[0], outcome("all", 14.0, 0.134, 15), outcome("z", 3.0, 0.0, 16)
    text = advice(replace(FACTS, table=table, chosen="z"))
    assert "rule 'all', is over the budget on these rows with 14" in text
    assert "made in hindsight" in text
    assert "hindsight" not in advice(FACTS)


def test_without_attacks_only_the_cost_is_named():
    rows = outcome("energy", 4.0, 0.002), outcome("all", 5.0, 0.004)
    present = (outcome("p99", 80.0, 0.05),)
    facts = replace(FACTS, table=rows, present=present, n_attacks=0)
    assert "raises" not in advice(facts)


def test_without_later_rows_nothing_is_claimed():
    text = advice(replace(FACTS, judged_days=0.0))
    assert "no later attack-free rows" in text


def test_few_alarms_are_counted_and_not_turned_into_a_rate():
    load = AlarmLoad(alarms=1, days=0.3, alarms_per_day=3.3, share_of_time=0.0)
    assert load_words(load) == "1 alarm in 0.3 days (0.0% of time)"


def test_either_the_count_or_the_share_can_exceed_a_budget():
    assert is_over(outcome("a", 7.0, 0.0).load, FACTS)
    assert is_over(outcome("a", 1.0, 0.02).load, FACTS)
    assert not is_over(outcome("a", 6.0, 0.01).load, FACTS)


def test_a_rule_that_is_worse_in_everything_is_not_advised():
    present = outcome("p99", 27.0, 0.01, 12, 4.0)
    chosen = outcome("all", 38.0, 0.6, 9, 4.0)
    text = advice(with_rules(present, chosen))
    assert text.startswith("Do not use rule 'all', made for 6/day,1%: on 10.0 later")
    assert "makes 38 alarms a day (60.0% of time)" in text
    assert "where the p99 rule makes 27 alarms a day (1.0% of time)" in text
    assert "Raising the p99 limit alone" in text
    fewer = outcome("all", 20.0, 0.6, 9, 4.0)
    assert advice(with_rules(present, fewer)).startswith("Do not change the rule yet")


def test_a_rule_that_keeps_the_budget_is_not_replaced_by_one_that_does_not():
    present = outcome("own", 2.0, 0.001, 7, 0.1)
    chosen = outcome("all", 16.0, 0.26, 12, 1.0)
    text = advice(with_rules(present, chosen))
    assert text.startswith("Keep your own rule: it keeps the budget of 6/day,1%")
    assert "does no better: it makes 16 alarms a day (26.0% of time)" in text


def test_a_rule_over_the_budget_is_advised_only_if_it_is_much_cheaper():
    # Fewer alarms, but in alarm for more of the time: no reason to change.
    present = outcome("own", 7.5, 0.111, 7, 0.6)
    facts = with_rules(present, outcome("all", 3.8, 0.186, 8))
    text = advice(facts)
    assert decide(facts) is RuleDecision.WAIT
    assert text.startswith("Do not change the rule yet: on 10.0 later attack-free days")
    assert "neither your own rule nor rule 'all', made for 6/day,1%, keeps" in text
    assert "above the budget's 1%" in text
    assert "Rule 'energy' does keep it, with 4.0 alarms" in text
    facts = replace(facts, table=facts.table[1:])
    assert "No other rule that was made for it keeps it" in advice(facts)
    cheaper = with_rules(present, outcome("all", 3.0, 0.05, 8))
    assert decide(cheaper) is RuleDecision.REPLACE
    assert "above the budget's 1%" in advice(cheaper)
