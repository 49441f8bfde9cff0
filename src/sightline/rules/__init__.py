"""Alarm rules: made for a budget, judged on later rows, taken to the plant.

=================  ==================================================================
`probe`            the p99 rule of the paper, a quantile of train energy
`budget`           alarms a day and share of time
`rule`             a rule as a frozen value: batch and live
`family`           names of rules, and the views of rows that they need
`limits`           limits for a budget, and what they promise
`fitting`          centres, own levels and cross-fitted traces of members
`making`           rules with a limit and a promise
`judging`          cost, attacks raised, promise kept, on rows not seen before
`advice`           what to change, in words
`commission`       commissioning rows, judged rows, the table of the family
`replacements`     rules in place of the present one, for every evaluation
`ceiling`          how early any rule could have been, by an oracle in hindsight
`against_ceiling`  how rules stand to that, the record and its words
`episodes`         the strongest alarms that no incident explains
`masking`          alarms masked after changes of state
`origin`           where a rule comes from
=================  ==================================================================
"""

from sightline.rules.budget import Budget
from sightline.rules.probe import QuantileRule
from sightline.rules.rule import Rule, RuleState

__all__ = ["Budget", "QuantileRule", "Rule", "RuleState"]
