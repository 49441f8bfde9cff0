"""Rules made for a budget, from commissioning rows alone."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sightline.metrics.alarm_load import Delays
from sightline.rules.budget import Budget
from sightline.rules.family import (
    members_of,
)
from sightline.rules.fitting import Fitting
from sightline.rules.limits import (
    Limit,
    Promise,
    Trace,
    alarms_at_level,
    promise_of,
    set_limit,
)
from sightline.rules.origin import Origin
from sightline.rules.rule import Member, Rule, View
from sightline.showing import Shown
from sightline.text import per_day

# Calibration rows ring alike above this p-value.
ALIKE: Final = 0.1


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MadeRule(Shown):
    """A rule with its limit for a budget, and what it promises.

    Parameters
    ----------
    rule : Rule
        The rule.
    limit : Limit
        Its limit, with what it costs on commissioning rows.
    promise : Promise
        How many alarms it will make.
    origin : Origin, optional
        Where it comes from; see `Commissioning.deployed`.
    """

    rule: Rule
    limit: Limit
    promise: Promise
    origin: Origin | None = None

    def _line(self) -> str:
        promised = f"promises {per_day(self.promise.per_day)} alarms a day"
        return f"{self.rule._line()}, {promised}"


class RuleMaker:
    """Makes rules for a budget, from commissioning rows alone.

    Parameters
    ----------
    fitting : Fitting
        Members with their levels and traces.
    budget : Budget
        Alarms a day, and share of time.
    delays : Delays
        On-delay and off-delay.
    """

    def __init__(self, fitting: Fitting, budget: Budget, delays: Delays) -> None:
        self.fitting, self.budget, self.delays = fitting, budget, delays
        self._place = {member.name: k for k, member in enumerate(fitting.members)}
        self._alone: dict[int, Limit] = {}

    def alone(self, k: int) -> Limit:
        """Return the limit of a member by itself."""
        if k not in self._alone:
            trace = self.fitting.trace(self.fitting.traces[:, k], self.delays)
            self._alone[k] = set_limit(trace, self.budget)
        return self._alone[k]

    def trace(self, name: str) -> tuple[list[Member], Trace]:
        """Return the members of a rule, and its trace over commissioning rows.

        Members of a joined rule are divided by their own limits.
        """
        fitting = self.fitting
        names = members_of(name, fitting.normal.has_stages)
        chosen = [self._place[member] for member in names]
        members = [fitting.members[k] for k in chosen]
        if len(members) == 1:
            return members, fitting.trace(fitting.traces[:, chosen[0]], self.delays)
        limits = [self.alone(k).value for k in chosen]
        members = [
            replace(member, limit=limit)
            for member, limit in zip(members, limits, strict=True)
        ]
        joint = fitting.traces[:, chosen[0]] / limits[0]
        for k, limit in zip(chosen[1:], limits[1:], strict=True):
            np.maximum(joint, fitting.traces[:, k] / limit, out=joint)
        return members, fitting.trace(joint, self.delays)

    def make(self, name: str) -> MadeRule:
        """Return a rule with its limit and its promise."""
        members, trace = self.trace(name)
        is_alone = len(members) == 1
        limit = (
            self.alone(self._place[members[0].name])
            if is_alone
            else set_limit(trace, self.budget)
        )
        kinds = dict.fromkeys(m.view for m in members if m.view is not View.SCORE)
        step_s = self.fitting.period.step_s
        rule = Rule(
            name=name,
            channels=self.fitting.normal.channels,
            views=tuple(self.fitting.views[kind] for kind in kinds),
            members=tuple(members),
            limit=limit.value,
            delays=self.delays,
            shelves=not is_alone,
            step_s=step_s,
            budget=self.budget,
        )
        return MadeRule(
            rule=rule, limit=limit, promise=promise_of(trace, limit, step_s)
        )

    def rings_alike(self, name: str, n_first: int) -> bool:
        """Return whether the first rows ring as often as the others.

        Alarms of a rule at the level with `N_PEAKS` of them: binomial test of how many
        fall into the first rows, with counts halved because alarms come in bursts.
        """
        starts = alarms_at_level(self.trace(name)[1])
        n, n_in_first = len(starts) // 2, int(np.sum(starts < n_first)) // 2
        share = n_first / self.fitting.period.n_rows
        return binomial_p_value(n_in_first, n, share) > ALIKE


def binomial_p_value(hits: int, n: int, share: float) -> float:
    """Return the p-value of the exact binomial test, two-sided.

    The chance of all counts that are at most as likely as `hits` of `n`.

    Examples
    --------
    >>> binomial_p_value(1, 4, 0.5)
    0.625
    """
    # To import scipy.stats takes half a second.
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(n + 1)
    choices = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    chances = np.exp(choices + xlogy(k, share) + xlog1py(n - k, -share))
    # Counts that are as likely differ in the last digits.
    return min(1.0, float(chances[chances <= chances[hits] * (1 + 1e-7)].sum()))
