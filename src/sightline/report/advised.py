"""What to change first: the rule in use of a detector against the one made for it."""

from dataclasses import dataclass

from sightline.report.entries import Entry
from sightline.report.glossary import rule_key
from sightline.report.overview import delay_words, rule_advice
from sightline.rules.advice import PRESENT_WORDS, Decision, count_words, decide
from sightline.rules.judging import CommissioningFacts, RuleOutcome
from sightline.rules.named import CHOSEN
from sightline.text import mean_count, per_day, plural, share


@dataclass(frozen=True, kw_only=True)
class RuleCost:
    """One rule in the small table of the advice.

    Parameters
    ----------
    name, key : str
        What it is called, and its entry in the glossary.
    role : str
        "now", "instead" or "compared".
    false_alarms, rate : str
        What it costs on later rows.
    raised, chance, delay : str
        Attacks raised, how many by chance, and how late; empty without attacks.
    """

    name: str
    key: str
    role: str
    false_alarms: str
    rate: str
    raised: str
    chance: str
    delay: str


@dataclass(frozen=True, kw_only=True)
class Advised:
    """What to change.

    Parameters
    ----------
    heading : str
        What to do, in one phrase.
    text : str
        Why, where there is no table of rules.
    rules : tuple of RuleCost
        The rule in use, and the one that is compared with it.
    basis, caveat : str
        On which rows; what speaks against trusting it.
    command : str
        The command that writes the rule; empty unless it is advised.
    """

    heading: str
    text: str = ""
    rules: tuple[RuleCost, ...] = ()
    basis: str = ""
    caveat: str = ""
    command: str = ""


def advised(entry: Entry) -> Advised:
    """Return what to change first with one detector."""
    evaluation, facts = entry.evaluation, entry.evaluation.rules
    if entry.is_earlier:
        return Advised(
            heading="Evaluate the stream again",
            text="These results were made by the rules of an earlier version.",
        )
    withheld = (evaluation.diagnosis and evaluation.diagnosis.advice_withheld) or ""
    if facts is None:
        refused = evaluation.rules_refused
        if refused is None:
            heading = "No alarm rule was asked for"
            text = "Evaluate again with a budget of false alarms (--budget 6/day,1%)."
        else:
            heading, text = "No alarm rule could be made", refused
        return Advised(heading=heading, text=f"{text} {withheld}".strip())
    present, chosen = facts.present[-1], facts.row(facts.chosen)
    words, decision = PRESENT_WORDS[present.name], decide(facts)
    replaced = f"Replace {words} of {entry.label} by rule {chosen.name!r}"
    headings = {
        Decision.REPLACE: replaced,
        Decision.KEEP: f"Keep {words} of {entry.label}",
        Decision.WAIT: f"Do not change the rule of {entry.label} yet",
        Decision.REFUSE: f"Do not use rule {chosen.name!r} with {entry.label}",
        Decision.UNJUDGED: f"Rule {chosen.name!r} is made, but not yet judged",
    }
    if decision is Decision.UNJUDGED:
        return Advised(heading=headings[decision], text=rule_advice(evaluation))
    is_advised = decision is Decision.REPLACE
    return Advised(
        heading=headings[decision],
        rules=(
            _rule_cost(present, words.removeprefix("the "), "now"),
            _rule_cost(
                chosen,
                f"rule {chosen.name!r}",
                "instead" if is_advised else "compared",
            ),
        ),
        basis=_basis(facts),
        caveat=" ".join(filter(None, [withheld, _caveat(facts, chosen)])),
        command=f"sightline commission {evaluation.stream.name}.npz --budget "
        f"{facts.budget} --choose {chosen.name} --out rule"
        if is_advised
        else "",
    )


def _rule_cost(row: RuleOutcome, name: str, role: str) -> RuleCost:
    """Return one row of the small table."""
    attacks = row.attacks
    has = attacks.n_attacks > 0
    return RuleCost(
        name=name,
        key=rule_key(row.name),
        role=role,
        false_alarms=count_words(row.load),
        rate=share(row.load.share_of_time, 1),
        raised=f"{attacks.raised} of {attacks.n_attacks}" if has else "",
        chance=f"{mean_count(attacks.raised_by_chance)} by chance" if has else "",
        delay=delay_words(attacks.delay_s) if has else "",
    )


def _basis(facts: CommissioningFacts) -> str:
    """Return on which rows the advice rests."""
    later = f" and {plural(facts.n_attacks, 'later attack')}" if facts.n_attacks else ""
    return (
        f"Made for {facts.budget}. Both are judged on {facts.judged_days:.1f} later "
        f"attack-free days{later}."
    )


def _caveat(facts: CommissioningFacts, chosen: RuleOutcome) -> str:
    """Return what speaks against trusting the number of alarms of the chosen rule."""
    parts = []
    if chosen.promised_per_day is not None and chosen.promised_interval:
        low, high = map(per_day, chosen.promised_interval)
        parts.append(
            f"{per_day(chosen.promised_per_day)} a day were expected of it (90% "
            f"interval {low} to {high})."
        )
    if facts.chosen != CHOSEN and any(repr(CHOSEN) in note for note in facts.notes):
        parts.append(
            f"It is chosen in hindsight: rule {CHOSEN!r} is over the budget there."
        )
    return " ".join(parts)
