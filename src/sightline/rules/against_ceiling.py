"""How rules stand to the ceiling of an attack: the record, and the same in words."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from sightline.rules.advice import PRESENT_WORDS
from sightline.rules.limits import Budget
from sightline.text import duration, per_day, share

# Evidence that a larger share of calm windows has is none.
CHANCE: Final = 0.05
BEYOND: Final = "beyond that a better model is needed"


class AttackLaw(StrEnum):
    """What the oracle knows of an attack."""

    MEAN = "mean"
    SPREAD = "mean and spread"
    FULL = "mean and covariance"


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


def is_evident(p_value: float, n_windows: int) -> bool:
    """Return whether evidence is rare among calm windows.

    Under 19 windows it is if none of them has as much.

    Examples
    --------
    >>> is_evident(0.04, 99), is_evident(0.06, 99), is_evident(0.1, 9)
    (True, False, True)
    """
    return p_value <= max(CHANCE, 1 / (1 + n_windows) + 1e-12)


def with_sentences(ceiling: Ceiling) -> Ceiling:
    """Return the ceiling with a sentence for each rule."""
    rules = [replace(rule, sentence=_sentence(ceiling, rule)) for rule in ceiling.rules]
    return replace(ceiling, rules=tuple(rules))


def rule_words(name: str) -> str:
    """Return what a rule is called within a sentence.

    Examples
    --------
    >>> rule_words("all"), rule_words("own")
    ("rule 'all'", 'your own rule')
    """
    return PRESENT_WORDS.get(name, f"rule {name!r}")


def _sentence(ceiling: Ceiling, rule: RuleAtCeiling) -> str:
    """Return how one rule stands to the ceiling, in words."""
    name = rule_words(rule.rule)
    subject = name[0].upper() + name[1:]
    raised = f"{subject} started no alarm in it"
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
    raised += _over(ceiling, rule)
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


def _over(ceiling: Ceiling, rule: RuleAtCeiling) -> str:
    """Return that a rule costs more than the oracle may; empty where it does not."""
    cost = rule.alarms_per_day
    if cost is None or cost <= Budget.parse(ceiling.budget).per_day:
        return ""
    return f" (it makes {per_day(cost)} alarms a day, more than {ceiling.budget})"
