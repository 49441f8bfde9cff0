"""What to change, in words: the rule that keeps the budget, with what it costs."""

from enum import StrEnum

from sightline.metrics.alarm_load import DAY_S, AlarmLoad, AttackAlarms
from sightline.metrics.probe import AlarmMetrics
from sightline.rules.judging import CommissioningFacts, Kept, RuleOutcome
from sightline.rules.named import CHOSEN
from sightline.text import duration, mean_count, number, per_day, plural, share

# Fewer alarms than this support no rate: they are counted.
FEW: int = 10
# In alarm for this share of calm time, a rule stands.
STANDS: float = 0.5
# A rule is better if its skill is larger by more than this.
CLEARLY: float = 0.05
PRESENT_WORDS = {"p99": "the p99 rule", "own": "your own rule"}


def load_words(load: AlarmLoad) -> str:
    """Return what alarms cost: a count or a rate, and the share of time.

    Examples
    --------
    >>> load_words(AlarmLoad(alarms=2, days=1.6, alarms_per_day=1.25,
    ...                      share_of_time=0.027))
    '2 alarms in 1.6 days (2.7% of time)'
    """
    number_of, _, span = count_words(load).partition(" ")
    noun = "alarm" if number_of == "1" else "alarms"
    return f"{number_of} {noun} {span} ({share(load.share_of_time, 1)} of time)"


def count_words(load: AlarmLoad) -> str:
    """Return how many alarms there are: a rate, or the count where there are few.

    An alarm that never stops has a rate however short the record is.

    Examples
    --------
    >>> from dataclasses import replace
    >>> few = AlarmLoad(alarms=2, days=1.6, alarms_per_day=1.25, share_of_time=0.027)
    >>> count_words(few)
    '2 in 1.6 days'
    >>> count_words(replace(few, alarms=145, alarms_per_day=90.6))
    '91 a day'
    >>> count_words(replace(few, days=None, alarms_per_day=None))
    '2 in total'
    """
    if load.alarms_per_day is None or load.days is None:
        return f"{load.alarms:,} in total"
    if load.alarms < FEW and load.share_of_time < STANDS:
        days = (
            f"{load.days:.1f} days" if load.days >= 0.1 else duration(load.days * DAY_S)
        )
        return f"{load.alarms} in {days}"
    return f"{per_day(load.alarms_per_day)} a day"


def false_alarm_words(rule: AlarmMetrics) -> str:
    """Return the false alarms of a rule in words, as every table shows them.

    Results of earlier versions have no episodes: their runs are shown and called so.
    """
    if rule.load is not None:
        return count_words(rule.load)
    if rule.false_alarms_per_day is None:
        return f"{plural(rule.false_positive_segments, 'run')} in total"
    return f"{per_day(rule.false_alarms_per_day)} runs a day"


def raised_words(attacks: AttackAlarms) -> str:
    """Return how many attacks are raised, with chance."""
    return (
        f"{attacks.raised} of {plural(attacks.n_attacks, 'attack')} "
        f"({mean_count(attacks.raised_by_chance)} by chance)"
    )


def is_over(load: AlarmLoad, facts: CommissioningFacts) -> bool:
    """Return whether alarms cost more than the budget allows."""
    budget = facts.accepted
    is_many = (load.alarms_per_day or 0.0) > budget.per_day
    return is_many or load.share_of_time > budget.share


class RuleDecision(StrEnum):
    """What to do with the rule in use.

    ``REPLACE``
        By the chosen rule, which keeps the budget or costs much less.
    ``KEEP``
        The rule in use keeps the budget, and the chosen one does no better.
    ``WAIT``
        Both are over the budget, and the chosen rule is not clearly cheaper.
    ``REFUSE``
        The chosen rule costs more by both counts and has no more skill.
    ``UNJUDGED``
        No later attack-free rows were left to judge on.
    """

    REPLACE = "replace"
    KEEP = "keep"
    WAIT = "wait"
    REFUSE = "refuse"
    UNJUDGED = "unjudged"


def decide(facts: CommissioningFacts) -> RuleDecision:
    """Return whether the chosen rule should replace the rule in use."""
    present, chosen = facts.present[-1], facts.row(facts.chosen)
    if not facts.judged_days:
        return RuleDecision.UNJUDGED
    if not is_over(present.load, facts):
        gain = (chosen.attacks.skill or 0.0) - (present.attacks.skill or 0.0)
        is_better = gain > CLEARLY and not is_over(chosen.load, facts)
        return RuleDecision.REPLACE if is_better else RuleDecision.KEEP
    if not is_over(chosen.load, facts):
        return RuleDecision.REPLACE
    count, usual = (row.load.alarms_per_day or 0.0 for row in (chosen, present))
    time, usual_time = chosen.load.share_of_time, present.load.share_of_time
    skill, usual_skill = (row.attacks.skill or 0.0 for row in (chosen, present))
    # At most half the cost by both counts, with as much skill.
    if 2 * count <= usual and 2 * time <= usual_time and skill >= usual_skill:
        return RuleDecision.REPLACE
    # More cost by both counts, and no more skill.
    is_worse = count >= usual and time >= usual_time and skill <= usual_skill
    return RuleDecision.REFUSE if is_worse else RuleDecision.WAIT


def advice(facts: CommissioningFacts) -> str:
    """Return the first thing to change, with what it costs and what it raises.

    All figures are of judged rows, which set no limit. The advice keeps the budget on
    the rows that set its limit; where it did not on judged rows, that is said.

    Parameters
    ----------
    facts : CommissioningFacts
        The family and the rules in use on the same rows.
    """
    present, chosen = facts.present[-1], facts.row(facts.chosen)
    words, decision = PRESENT_WORDS[present.name], decide(facts)
    days = f"{facts.judged_days:.1f} later attack-free days"
    if decision is RuleDecision.UNJUDGED:
        return (
            f"Rule {chosen.name!r} is made for {facts.budget}; no later attack-free "
            "rows were left to judge it on."
        )
    before = f"{words} makes {load_words(present.load)}{_raised(present)}"
    after = f"makes {load_words(chosen.load)}{_raised(chosen)}"
    if decision is RuleDecision.KEEP:
        return (
            f"Keep {words}: it keeps the budget of {facts.budget} with "
            f"{load_words(present.load)}{_raised(present)}. Rule {chosen.name!r}, "
            f"made for the same budget, does no better: it {after}."
        )
    if decision is RuleDecision.REFUSE:
        return (
            f"Do not use rule {chosen.name!r}, made for {facts.budget}: on {days} it "
            f"{after}, where {before}. Set the limit again on newer attack-free rows."
            f"{_limit_alone(facts)}"
        )
    if decision is RuleDecision.WAIT:
        return (
            f"Do not change the rule yet: on {days} neither {words} nor rule "
            f"{chosen.name!r}, made for {facts.budget}, keeps this budget. "
            f"{before[:1].upper()}{before[1:]}; rule {chosen.name!r} {after}."
            f"{_warning(chosen, facts)}{_within(facts)}{_limit_alone(facts)}"
        )
    text = (
        f"Replace {words} by rule {chosen.name!r}, made for {facts.budget}. "
        f"On {days} {before}; rule {chosen.name!r} {after}."
    )
    return text + _warning(chosen, facts) + _hindsight(facts) + _limit_alone(facts)


def _within(facts: CommissioningFacts) -> str:
    """Return which rule keeps the budget on judged rows though it was not chosen."""
    kept = [row for row in facts.table if not is_over(row.load, facts)]
    if not kept:
        return " No other rule that was made for it keeps it on these rows either."
    best = max(kept, key=lambda row: row.attacks.skill or 0.0)
    return (
        f" Rule {best.name!r} does keep it, with {load_words(best.load)}"
        f"{_raised(best)}: seen in hindsight."
    )


def _raised(outcome: RuleOutcome) -> str:
    """Return what a rule raises, to follow what it costs; empty without attacks."""
    if not outcome.attacks.n_attacks:
        return ""
    return f" and raises {raised_words(outcome.attacks)}"


def _warning(chosen: RuleOutcome, facts: CommissioningFacts) -> str:
    """Return what speaks against trusting the chosen rule."""
    if chosen.kept is Kept.BROKEN:
        return (
            " It broke its promise on these rows: the plant has changed since its "
            "limit was set, so set it again on newer attack-free rows."
        )
    if (chosen.load.alarms_per_day or 0.0) > facts.accepted.per_day:
        return " On these rows it makes more alarms than the budget allows."
    if chosen.load.share_of_time > facts.accepted.share:
        return (
            " Its time in alarm on these rows is above the budget's "
            f"{share(facts.accepted.share)}: some alarms stand, as where the plant has "
            "not come back after an attack."
        )
    if chosen.kept is Kept.UNUSED and chosen.hindsight_limit is not None:
        return (
            " Its limit is higher than these rows need (in hindsight "
            f"{number(chosen.hindsight_limit)} in place of {number(chosen.limit)})."
        )
    return ""


def _hindsight(facts: CommissioningFacts) -> str:
    """Return that the usual rule is over the budget, so that another was chosen."""
    usual = next((row for row in facts.table if row.name == CHOSEN), None)
    if usual is None or facts.chosen == CHOSEN or not is_over(usual.load, facts):
        return ""
    return (
        f" The usual choice, rule {CHOSEN!r}, is over the budget on these rows with "
        f"{load_words(usual.load)}: taking another is a choice made in hindsight."
    )


def _limit_alone(facts: CommissioningFacts) -> str:
    """Return what raising the p99 limit alone would do."""
    present = facts.present[0]
    energy = next((row for row in facts.table if row.name == "energy"), None)
    is_chosen = facts.chosen == "energy"
    if energy is None or is_chosen or not is_over(present.load, facts):
        return ""
    return (
        f" Raising the p99 limit alone, from {number(present.limit)} to "
        f"{number(energy.limit)}, makes {load_words(energy.load)}{_raised(energy)}."
    )
