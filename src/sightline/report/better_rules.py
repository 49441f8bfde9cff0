"""What a better alarm rule would do: advice, the table of rules, and their curve."""

from dataclasses import dataclass

from sightline.evaluation.result import Evaluation
from sightline.report.encoding import JsonObject
from sightline.report.entries import Entry
from sightline.report.overview import burden, delay_words, skill_words
from sightline.rules.advice import advice, count_words, is_over
from sightline.rules.judging import CommissioningFacts, Kept, RuleOutcome
from sightline.rules.named import rule_words
from sightline.text import UNKNOWN, mean_count, number, per_day, share, slug

# What became of a promise: a word, and what it means.
KEPT_WORDS: dict[Kept, tuple[str, str]] = {
    Kept.KEPT: ("kept", "The false alarms lie within the 90% interval of the promise."),
    Kept.BROKEN: (
        "broken",
        "More false alarms than the 90% interval of the promise: the plant has changed "
        "since the limit was set. Set it again on newer attack-free rows.",
    ),
    Kept.UNUSED: (
        "fewer than promised",
        "Fewer false alarms than the interval of the promise: the limit is higher than "
        "these rows need.",
    ),
    Kept.UNJUDGED: ("not judged", "No attack-free rows were left to judge it on."),
}


@dataclass(frozen=True, kw_only=True)
class RuleLine:
    """One rule in the table, as text.

    Parameters
    ----------
    name, words : str
        Name of the rule, and what it does.
    is_present, is_chosen, is_over : bool
        Whether it is in use, was chosen, and costs more than the budget.
    limit, promised, interval : str
        Its limit; promised alarms a day and their 90% interval.
    false_alarms, rate, lingering, burden : str
        What became true: count, share of time, share of time in which alarms linger
        after attacks, and how alarms come.
    raised, chance, rings, rings_chance, skill, delay : str
        Attacks in which an alarm starts, attacks with any alarm, each beside chance.
    kept, kept_key, kept_more : str
        What became of the promise, its entry in the glossary, and which limit would do
        in hindsight; empty for a rule in use.
    """

    name: str
    words: str
    is_present: bool
    is_chosen: bool
    is_over: bool
    limit: str
    promised: str
    interval: str
    false_alarms: str
    rate: str
    lingering: str
    burden: str
    raised: str
    chance: str
    rings: str
    rings_chance: str
    skill: str
    delay: str
    kept: str
    kept_key: str
    kept_more: str


@dataclass(frozen=True, kw_only=True)
class BetterRules:
    """What the page says of the rules of one detector.

    Parameters
    ----------
    advice : str
        The first thing to change, or why no rule could be made.
    facts : CommissioningFacts, optional
        Budget, days and attacks; None if no rule could be made.
    lines : tuple of RuleLine
        Rules in use first, then those for the budget.
    repairs : tuple of str
        What carrying out a repair as a rule would do.
    command : str
        The command that writes the rule; empty without one.
    """

    advice: str
    facts: CommissioningFacts | None = None
    lines: tuple[RuleLine, ...] = ()
    repairs: tuple[str, ...] = ()
    command: str = ""


def better_rules(entry: Entry) -> BetterRules | None:
    """Return what a better rule would do for a detector.

    Returns
    -------
    BetterRules, optional
        None where rules were not asked for, and for results of an earlier version.
    """
    evaluation = entry.evaluation
    facts = evaluation.rules
    if facts is None:
        refused = evaluation.rules_refused
        text = f"No alarm rule was made: {refused}"
        return None if refused is None else BetterRules(advice=text)
    present = [_line(row, facts, is_present=True) for row in facts.present]
    return BetterRules(
        advice=advice(facts),
        facts=facts,
        lines=(*present, *(_line(row, facts) for row in facts.table)),
        repairs=_repairs(evaluation),
        command=f"sightline commission {evaluation.stream.name}.npz "
        f"--budget {facts.budget} --choose {facts.chosen} --out rule",
    )


def _repairs(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the sentences of the repairs, where causes can be told apart."""
    facts = evaluation.diagnosis
    if facts is None or facts.advice_withheld is not None:
        return ()
    repairs = (evaluation.repairs or {}).values()
    return tuple(repair.sentence for repair in repairs if repair.sentence)


def _line(
    row: RuleOutcome, facts: CommissioningFacts, *, is_present: bool = False
) -> RuleLine:
    """Return the texts of one rule."""
    load, attacks = row.load, row.attacks
    more = ""
    if row.kept and row.hindsight_limit is not None:
        more = f"in hindsight {number(row.hindsight_limit)} would do"
    of = f" of {attacks.n_attacks}"
    has = attacks.n_attacks > 0
    low, high = row.promised_interval or (0.0, 0.0)
    return RuleLine(
        name=row.name,
        words=rule_words(row.name),
        is_present=is_present,
        is_chosen=not is_present and row.name == facts.chosen,
        is_over=is_over(load, facts),
        limit=number(row.limit),
        promised=""
        if row.promised_per_day is None
        else f"{per_day(row.promised_per_day)} a day",
        interval=f"{per_day(low)} to {per_day(high)}" if row.promised_interval else "",
        false_alarms=count_words(load) if load.days else UNKNOWN,
        rate=share(load.share_of_time, 1),
        lingering=share(load.lingering_share, 1),
        burden=burden(load),
        raised=f"{attacks.raised}{of}" if has else UNKNOWN,
        chance=mean_count(attacks.raised_by_chance) if has else "",
        rings=f"{attacks.rings}{of}" if has else UNKNOWN,
        rings_chance=mean_count(attacks.rings_by_chance) if has else "",
        skill=skill_words(attacks.skill),
        delay=delay_words(attacks.delay_s),
        kept=KEPT_WORDS[row.kept][0] if row.kept else "",
        kept_key=f"kept-{slug(row.kept)}" if row.kept else "",
        kept_more=more,
    )


def rules_figure(entry: Entry) -> JsonObject | None:
    """Return the curve "attacks raised against alarms a day" of every rule.

    Returns
    -------
    mapping, optional
        ``per_day`` of the budget, ``n_attacks``, ``least`` (where 0 alarms are drawn:
        half an alarm in all judged days), ``curves`` (in hindsight, by other limits)
        and ``points`` (each rule at its own limit, with what chance raises). None if
        no attack or no attack-free row was left to judge rules on.
    """
    facts = entry.budget_rules
    if facts is None:
        return None
    return {
        "per_day": facts.accepted.per_day,
        "budget": facts.budget,
        "n_attacks": facts.n_attacks,
        "least": 0.5 / facts.judged_days,
        "curves": [
            {"name": one.name, "per_day": one.alarms_per_day, "raised": one.raised}
            for one in facts.curves
        ],
        "points": [
            {
                "name": row.name,
                "kind": kind if row.name != facts.chosen else "chosen",
                "per_day": row.load.alarms_per_day,
                "raised": row.attacks.raised,
                "chance": row.attacks.raised_by_chance,
                "words": count_words(row.load),
            }
            for kind, rows in (("present", facts.present), ("rule", facts.table))
            for row in rows
        ],
    }
