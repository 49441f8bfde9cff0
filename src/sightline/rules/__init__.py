"""Alarm rules: made for a budget, judged on later rows, taken to the plant.

================  ===================================================================
`probe`           the p99 rule of the paper, a quantile of train energy
`budget`          alarms a day and share of time
`rule`            a rule as a frozen value: batch and live
`family`          names of rules, and the views of rows that they need
`limits`          limits for a budget, and what they promise
`origin`          where a rule comes from
`commission`      commissioning rows, judged rows, the table of the family
================  ===================================================================
"""

from sightline.rules.budget import Budget
from sightline.rules.probe import QuantileRule
from sightline.rules.rule import Rule, RuleState

__all__ = ["Budget", "QuantileRule", "Rule", "RuleState"]
