"""What the chosen rule would do with other budgets: limit, cost, use and sight."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sightline.data.arrays import Floats
from sightline.rules.choose import places_of, sight_of
from sightline.rules.judging import BudgetOutcome, JudgedRows, judge_in_use
from sightline.rules.limits import LimitCurve
from sightline.rules.making import MadeRule, RuleMaker
from sightline.rules.rule import RuleRun

# Budgets that are tried, in multiples of the one that was given: 2 to 24 for 6 a day.
MULTIPLES: Final = (1 / 3, 1 / 2, 2 / 3, 5 / 6, 4 / 3, 5 / 3, 2, 5 / 2, 3, 7 / 2, 4)
# Of a longer record nothing is tried: what rules say of a row takes some 20 bytes each.
MOST_ROWS: Final = 2_000_000


def with_other_budgets(maker: RuleMaker, made: MadeRule) -> dict[float, MadeRule]:
    """Return a rule with the limits for other budgets, by their multiples.

    The limits come from the curve that gave the rule its own (`LimitCurve`): alarms a
    day and share of time change in proportion. Members of a joined rule keep the
    proportion of their limits.
    """
    name, rule = made.rule.name, made.rule
    curve = LimitCurve(maker.trace(name)[1], maker.budget)
    own = curve.at()
    return {
        times: replace(
            made, rule=replace(rule, limit=rule.limit * curve.at(times) / own)
        )
        for times in MULTIPLES
    }


def outcomes_of(
    runs: Mapping[float, RuleRun], maker: RuleMaker, judged: JudgedRows, ranges: Floats
) -> tuple[BudgetOutcome, ...]:
    """Return what a rule did on judged rows with each of some budgets, the least first.

    Parameters
    ----------
    runs : mapping of float to RuleRun
        What the rule says with the limit for so many budgets.
    maker : RuleMaker
        What made the rule.
    judged : JudgedRows
        The rows that were run.
    ranges : array of shape (p,)
        Of each tag; see `ranges_of`.
    """
    places = places_of(maker.fitting.period)
    found = []
    for times, run in sorted(runs.items()):
        said = judge_in_use(run, judged)
        _, step = sight_of(run.rule, maker.fitting, places, ranges)
        found.append(
            BudgetOutcome(
                per_day=maker.budget.per_day * times,
                share=maker.budget.share * times,
                limit=run.rule.limit,
                step=min(step, 1e12),
                load=said.load,
                attacks=said.attacks,
            )
        )
    return tuple(found)
