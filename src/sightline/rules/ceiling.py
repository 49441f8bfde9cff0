"""The ceiling of an attack: the record, how rules stand to it, and the same in words.

`sightline.rules.oracle` says what the oracle is, and finds what it sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.data.segments import Segment
from sightline.errors import StreamError
from sightline.metrics.alarm_load import AlarmLoad, first_rises
from sightline.rules.choose import PRESENT_WORDS
from sightline.rules.limits import Budget
from sightline.rules.oracle import (
    AttackFreeLaw,
    AttackLaw,
    find_sightings,
    first_alarm_rows,
)
from sightline.rules.scoring import ScoredStream
from sightline.text import duration, per_day, share

if TYPE_CHECKING:
    from sightline.rules.commission import Commissioning

BEYOND: Final = "beyond that a better model is needed"


class CeilingOutcome(StrEnum):
    """How a rule stands to the ceiling in one attack.

    ``LATER``
        A better rule could have alarmed earlier.
    ``MISSED``
        The rule raised no alarm; a better rule could have.
    ``AT_CEILING``
        No rule could be earlier by more than one row.
    ``UNSEEN``
        The oracle itself raises no alarm: no rule helps.
    ``UNJUDGED``
        The attack lies in the rows on which the rule was made.
    """

    LATER = "later"
    MISSED = "missed"
    AT_CEILING = "at-ceiling"
    UNSEEN = "unseen"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, kw_only=True)
class RuleAtCeiling:
    """One rule against the ceiling, in one attack.

    Parameters
    ----------
    rule : str
        The rule: the chosen one of those made for the budget, then the one in use
        (`p99` or `own`).
        Null: never.
    outcome : CeilingOutcome
        How it stands to the ceiling: `later`, `missed`, `at-ceiling` (within one row),
        `unseen` (the oracle raises no alarm) or `unjudged` (the attack lies in the rows
        on which the rule was made).
        Null: never.
    delay_s : float, optional
        Seconds from the attack's start to the alarm that starts in it.
        Range: from 0.
        Better: lower.
        Null: without such an alarm.
    divergence_share : float, optional
        Share of the attack's divergence from calm rows that had come in with the row of
        that alarm.
        Formula: sum of the increments up to that row / sum over the attack, within 0
        to 1.
        Range: 0 to 1.
        Better: lower.
        Null: without such an alarm, or if the sum over the attack is not above 0.
    efficiency : float, optional
        How well the rule extracts what the residuals hold.
        Formula: rows that the oracle needed / rows that the rule needed, at most 1.
        Range: above 0, to 1.
        Better: higher.
        Null: where one of them raised no alarm.
    could_save_s : float, optional
        Seconds by which a better rule could have been earlier.
        Formula: `delay_s` minus that of the ceiling, at least 0.
        Range: from 0.
        Better: lower.
        Null: where one of them raised no alarm.
    alarms_per_day : float, optional
        What the rule costs, to be read beside the budget that the oracle keeps.
        Range: from 0.
        Better: lower.
        Null: without attack-free rows to judge it on.
    sentence : str
        The same in words.
    """

    rule: str
    outcome: CeilingOutcome
    delay_s: float | None = None
    divergence_share: float | None = None
    efficiency: float | None = None
    could_save_s: float | None = None
    alarms_per_day: float | None = None
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """How early any rule could have raised one attack at the budget, in hindsight.

    Parameters
    ----------
    delay_s : float, optional
        Seconds from the attack's start to the oracle's alarm.
        Range: from 0.
        Better: lower.
        Null: if the oracle raises none: a better model is needed.
    p_value : float
        How rare evidence of this size is among calm windows of the attack's length.
        Formula: `(1 + k) / (1 + n)`, k of n windows as far from normal in hindsight.
        Range: above 0, to 1.
        Better: lower.
        Nothing wrong: uniform.
        Null: never.
    is_evident : bool
        Whether anything tells the attack from calm windows.
        Formula: `p_value <= 0.05`, or, under 19 windows, none of them as far from
        normal, or a rung of the ladder shows the attack.
        Better: true.
        Null: never. If false, the oracle sees nothing, whatever its sum is.
    n_windows : int
        How many calm windows these are.
        Range: 1 to 100.
        Better: more.
        Null: never.
    law : AttackLaw
        What the oracle knows of the attack: `mean`, `mean and spread` or `mean and
        covariance`.
        Null: never.
    limit : float
        Limit of its cumulative sum, in nats.
        Range: above 0.
        Nothing wrong: about the logarithm of the rows between two false alarms.
        Null: never. Much higher if calm rows are far from Gaussian.
    budget : str
        What the limit was set for.
        Null: never.
    rules : tuple of RuleAtCeiling
        How rules stand to it.
        Null: never.
    """

    delay_s: float | None
    p_value: float
    is_evident: bool
    n_windows: int
    law: AttackLaw
    limit: float
    budget: str
    rules: tuple[RuleAtCeiling, ...] = ()


def ceilings(
    scored: ScoredStream, made: "Commissioning", shown: Sequence[bool] = ()
) -> list[Ceiling | None]:
    """Return the ceiling of every attack, and how rules stand to it.

    Parameters
    ----------
    scored : ScoredStream
        The stream with its attacks and its attack-free time.
    made : Commissioning
        Rules made on this stream; their budget is the oracle's.
    shown : sequence of bool
        Which attacks another test has shown to differ from attack-free windows.

    Returns
    -------
    list of Ceiling or None
        In the order of the attacks. None where the oracle knows no law: for an attack
        of one row, where no attack-free window is as long, and everywhere if there are
        fewer than two attack-free rows, or they never change.
    """
    test, budget = scored.test, made.facts.accepted
    segments = test.segments
    if not segments:
        return []
    try:
        calm = AttackFreeLaw.of(scored.stream.test, test, test.attack_free.for_alarms)
    except StreamError:
        return [None] * len(segments)
    # The chosen rule, and the one in use.
    facts, present = made.facts, made.facts.present[-1]
    split = facts.split
    rises = made.alarms[facts.chosen].caught_at + split
    load = facts.row(facts.chosen).load
    rules = [
        _RuleAlarms(name=facts.chosen, rises=rises, first=split, load=load),
        _RuleAlarms(
            name=present.name,
            rises=scored.present.caught_at,
            first=0,
            load=present.load,
        ),
    ]
    sightings = [
        None if seen is None else seen.if_shown(is_shown)
        for seen, is_shown in zip(
            find_sightings(calm, segments, budget),
            shown or [False] * len(segments),
            strict=True,
        )
    ]
    first_rows = first_alarm_rows(calm, segments, sightings, budget)
    limits: list[Ceiling | None] = []
    early_rows = test.attack_free.margins[:, 0].tolist()
    for segment, early, seen, row in zip(
        segments, early_rows, sightings, first_rows, strict=True
    ):
        if seen is None:
            limits.append(None)
            continue
        ceiling = Ceiling(
            delay_s=None if row is None else row * calm.step_s,
            is_evident=seen.known.is_evident,
            p_value=seen.known.p_value,
            n_windows=seen.known.n_windows,
            law=seen.known.law,
            limit=seen.limit,
            budget=str(budget),
            rules=tuple(
                rule.against(segment, early, row, seen.claimed, calm.step_s)
                for rule in rules
            ),
        )
        limits.append(with_sentences(ceiling))
    return limits


@dataclass(frozen=True, kw_only=True, eq=False)
class _RuleAlarms:
    """Where the alarms of a rule rise, from the first row that it is judged on."""

    name: str
    rises: Ints
    first: int
    load: AlarmLoad

    def against(
        self,
        segment: Segment,
        early: int,
        oracle: int | None,
        own: Floats,
        step_s: float,
    ) -> RuleAtCeiling:
        """Return how the rule stands to the oracle's alarm in one attack.

        An alarm up to `early` rows before it counts as one in its first row.
        """
        cost = self.load.alarms_per_day
        if segment.start < self.first:
            return RuleAtCeiling(
                rule=self.name, outcome=CeilingOutcome.UNJUDGED, alarms_per_day=cost
            )
        begins, stops = np.array([[segment.start - early], [segment.stop]])
        at, is_caught = first_rises(self.rises, begins, stops)
        row = max(int(at[0]) - segment.start, 0) if is_caught[0] else None
        total = float(own.sum())
        share = efficiency = saved = None
        if row is not None and total > 0:
            share = float(np.clip(own[: row + 1].sum() / total, 0.0, 1.0))
        if row is not None and oracle is not None:
            efficiency = min((oracle + 1) / (row + 1), 1.0)
            saved = max(row - oracle, 0) * step_s
        if oracle is None:
            outcome = CeilingOutcome.UNSEEN
        elif row is None:
            outcome = CeilingOutcome.MISSED
        elif row > oracle + 1:
            outcome = CeilingOutcome.LATER
        else:
            outcome = CeilingOutcome.AT_CEILING
        return RuleAtCeiling(
            rule=self.name,
            outcome=outcome,
            delay_s=None if row is None else row * step_s,
            divergence_share=share,
            efficiency=efficiency,
            could_save_s=saved,
            alarms_per_day=cost,
        )


# --- Words ----------------------------------------------------------------------------


def with_sentences(ceiling: Ceiling) -> Ceiling:
    """Return the ceiling with a sentence for each rule."""
    rules = [replace(rule, sentence=_sentence(ceiling, rule)) for rule in ceiling.rules]
    return replace(ceiling, rules=tuple(rules))


def _sentence(ceiling: Ceiling, rule: RuleAtCeiling) -> str:
    """Return how one rule stands to the ceiling, in words."""
    name = PRESENT_WORDS.get(rule.rule, f"rule {rule.rule!r}")
    subject = name[0].upper() + name[1:]
    raised = f"{subject} did not catch it"
    if rule.delay_s is not None:
        raised = f"{subject} alarmed {_after(rule.delay_s)}"
    if rule.outcome is CeilingOutcome.UNJUDGED:
        return f"{subject} was made on rows around this attack. {_earliest(ceiling)}"
    if rule.outcome is CeilingOutcome.UNSEEN:
        by_chance = "" if rule.delay_s is None else ", which may be chance"
        return f"{raised}{by_chance}. {_earliest(ceiling)}"
    if rule.outcome is CeilingOutcome.MISSED:
        return f"{raised}. {_earliest(ceiling)}"
    if rule.outcome is CeilingOutcome.LATER:
        saved, part = duration(rule.could_save_s), rule.divergence_share
        collected = ""
        if part is not None:
            collected = f", with {share(part)} of the attack's divergence collected"
        return f"{raised}{collected}. A better rule could save {saved}; {BEYOND}."
    cost = rule.alarms_per_day
    if cost is not None and cost > Budget.parse(ceiling.budget).per_day:
        raised += (
            f" (it makes {per_day(cost)} alarms a day, more than {ceiling.budget})"
        )
    if not rule.delay_s:
        return f"{raised}: no rule can be earlier."
    return f"{raised}, at the ceiling: being earlier needs a better model."


def _after(delay_s: float | None) -> str:
    """Return when an alarm came."""
    return f"after {duration(delay_s)}" if delay_s else "in its first row"


def _earliest(ceiling: Ceiling) -> str:
    """Return how early any rule could be, or why none could be at all."""
    if ceiling.delay_s is not None:
        return f"A better rule could alarm {_after(ceiling.delay_s)}; {BEYOND}."
    if not ceiling.is_evident:
        n = round(ceiling.p_value * (1 + ceiling.n_windows)) - 1
        return (
            f"Even the ceiling does not see the attack: in hindsight {n} of "
            f"{ceiling.n_windows} attack-free stretches of this length are as far from "
            "normal. A better model is needed."
        )
    return (
        "Even a rule that knows the attack's law raises no alarm within it at "
        f"{ceiling.budget}. A better model is needed."
    )
