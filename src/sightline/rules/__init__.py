"""Alarm rules: made for a budget, judged on later rows, taken to the plant.

=================  ==================================================================
`named`            every rule by name: view, memory, words; other forms follow from it
`standalone`       what a rule computes, in plain numpy: the file ``rule.py``
`rule`             a rule as a frozen value: on a record, and live
`limits`           budgets, limits for them, and what they promise; the paper's p99
`normal`           what rules know of train, and where they come from
`making`           members fitted on attack-free rows; rules with limit and promise
`file`             ``rule.json`` and ``rule.py`` on disk
`judging`          cost, attacks caught, promise kept, on rows not seen before
`choose`           the one decision: which rule, or none yet, in words
`scoring`          a stream scored: energy, alarms, attack-free time
`commission`       commissioning rows, judged rows, the table of the family
`oracle`           how early any rule could have been, in hindsight
`ceiling`          how rules stand to that, the record and its words
`episodes`         the strongest alarms that no incident explains
`masking`          what makes false alarms: a channel, or a change of state
=================  ==================================================================
"""

from sightline.rules.limits import Budget, QuantileRule
from sightline.rules.rule import Rule, RuleState

__all__ = ["Budget", "QuantileRule", "Rule", "RuleState"]
