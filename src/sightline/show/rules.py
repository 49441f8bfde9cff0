"""What is shown of alarm rules: on later rows, promises, and members."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import TYPE_CHECKING

from sightline.evaluation.result import Evaluation
from sightline.rules.advice import count_words
from sightline.rules.judging import CommissioningFacts, Kept, RuleOutcome
from sightline.rules.limits import Budget
from sightline.rules.named import rule_words
from sightline.show.evaluations import name_of
from sightline.show.table import Column, Columns, RecordTable, TableCell, pick
from sightline.text import UNKNOWN, duration, mean_count, names, number, plural, share

if TYPE_CHECKING:
    from sightline.operation.apply import TagDrift
    from sightline.rules.rule import Member

LEGEND = """\
Limits are set on the first part of the test; these are rows after it. Alarms:
a standing one is counted for each hour. Raised: attacks in which an alarm starts;
skill: 1 for all attacks, 0 for chance, so that rules of different counts compare.
"""


def _of_attacks(outcome: RuleOutcome, text: str) -> str:
    """Return a text on attacks; a dash if there are none."""
    return text if outcome.attacks.n_attacks else UNKNOWN


RULES: Columns[RuleOutcome] = (
    Column("rule", "rule", lambda r: r.name, min_width=8),
    Column(
        "false_alarms",
        "false\nalarms",
        lambda r: count_words(r.load) if r.load.days else UNKNOWN,
        "r",
        tip="Alarms in attack-free time; a standing one is counted for each hour.",
    ),
    Column(
        "share_of_time",
        "time in\nalarm",
        lambda r: share(r.load.share_of_time, 1),
        "r",
        tip="Share of attack-free time.",
    ),
    Column(
        "raised",
        "raised",
        lambda r: _of_attacks(r, f"{r.attacks.raised} of {r.attacks.n_attacks}"),
        "r",
        tip="Attacks in which an alarm starts.",
    ),
    Column(
        "by_chance",
        "by\nchance",
        lambda r: _of_attacks(r, mean_count(r.attacks.raised_by_chance)),
        "r",
        tip="The mean count if each attack were an attack-free stretch.",
    ),
    Column(
        "skill",
        "skill",
        lambda r: UNKNOWN if r.attacks.skill is None else f"{r.attacks.skill:.2f}",
        "r",
        tip="1 for all attacks, 0 for chance, so that rules of different counts "
        "compare.",
    ),
    Column(
        "promise",
        "promise",
        lambda r: UNKNOWN if r.kept is None else str(r.kept),
        tip="What became of the promised number of alarms on later rows.",
    ),
)
TERMINAL = ("rule", "false_alarms", "share_of_time", "raised", "by_chance", "skill")
NOTEBOOK = ("rule", "false_alarms", "share_of_time", "raised", "by_chance", "promise")


def terminal_table(
    evaluations: Sequence[Evaluation],
) -> RecordTable[tuple[str, RuleOutcome]]:
    """Return rules in use and the chosen rule for the budget, on the same rows."""
    budgets = dict.fromkeys(str(e.rules.budget) for e in evaluations if e.rules)
    stream: Column[tuple[str, RuleOutcome]]
    stream = Column("stream", "stream", lambda r: r[0], min_width=8)
    return RecordTable(
        f"Alarm rules for a budget of {names(list(budgets))}, on later rows",
        (stream, *(column.over(itemgetter(1)) for column in pick(RULES, *TERMINAL))),
        [
            (name_of(e), outcome)
            for e in evaluations
            if e.rules is not None
            for outcome in (*e.rules.present, e.rules.row(e.rules.chosen))
        ],
        LEGEND,
    )


def notebook_table(facts: CommissioningFacts) -> RecordTable[RuleOutcome]:
    """Return rules in use and all rules for the budget, on judged rows."""
    rules = (*facts.present, *facts.table)
    return RecordTable("Rules on later rows", pick(RULES, *NOTEBOOK), rules)


MEMBERS: Columns["Member"] = (
    Column("score", "score", lambda m: m.name),
    Column("view", "looks at", lambda m: str(m.view)),
    Column("memory", "memory", lambda m: str(m.memory)),
    Column("rows", "rows", lambda m: str(m.span or "")),
    Column("limit", "limit", lambda m: number(m.limit), "r"),
)


# --- Commissioning --------------------------------------------------------------------

COST_LEGEND = """\
Promised: alarms a day that commissioning rows make at the limit, with the 90%
interval for later rows. Came true: on attack-free rows after the split; a
standing alarm counts again each hour. Lingering: the first hour of alarms that
attacks left behind; shown, not counted.
"""
USE_LEGEND = """\
Raised: attacks in which an alarm starts; rings: attacks with any alarm time; by
chance: the same for attack-free windows of their lengths. Skill: (raised -
chance) / (attacks - chance), so that rules of different counts compare.
"""


class Rates:
    """Alarm rates in words: a day or a week, with no digit that the days cannot tell.

    Parameters
    ----------
    per_day : float
        The budget; below 1 a day, rates are shown a week.
    """

    def __init__(self, per_day: float) -> None:
        self.unit, self.factor = ("a week", 7.0) if per_day < 1 else ("a day", 1.0)

    def text(self, per_day: float | None, days: float | None) -> str:
        """Return a rate; whole where its uncertainty is half an alarm or more."""
        if per_day is None or not days:
            return UNKNOWN
        error = math.sqrt(2 * max(per_day * days, 1.0)) / days * self.factor
        return f"{per_day * self.factor:,.{0 if error >= 0.5 else 1}f}"

    def of(self, row: RuleOutcome) -> str:
        """Return the rate that came true."""
        return self.text(row.load.alarms_per_day, row.load.days)

    def interval(self, row: RuleOutcome) -> str:
        """Return a promise with its interval."""
        if row.promised_per_day is None or row.promised_interval is None:
            return UNKNOWN
        low, high = (self.text(end, row.load.days) for end in row.promised_interval)
        return f"{self.text(row.promised_per_day, row.load.days)} ({low} to {high})"


def cost_table(facts: CommissioningFacts, rates: Rates) -> RecordTable[RuleOutcome]:
    """Return what every rule promised, and what came true on later rows."""
    return RecordTable(
        f"Alarm rules for {facts.budget}: made on {facts.days:.1f} attack-free days, "
        f"judged on {facts.judged_days:.1f} later ones with "
        f"{plural(facts.n_attacks, 'attack')}",
        (
            _name_column(facts),
            Column(
                "limit",
                "limit",
                lambda r: UNKNOWN if r.limit is None else number(r.limit),
                "r",
            ),
            Column("promised", f"promised\n{rates.unit}", rates.interval, "r"),
            Column(
                "came_true",
                f"came true\n{rates.unit}",
                rates.of,
                "r",
            ),
            *pick(RULES, "share_of_time"),
            Column(
                "lingering",
                "linger-\ning",
                lambda r: share(r.load.lingering_share, 1),
                "r",
            ),
            *pick(RULES, "promise"),
        ),
        (*facts.present, *facts.table),
        COST_LEGEND,
    )


def use_table(facts: CommissioningFacts) -> RecordTable[RuleOutcome]:
    """Return which attacks every rule raises; no record without attacks."""
    return RecordTable(
        f"What they raise of {plural(facts.n_attacks, 'attack')}",
        (
            _name_column(facts),
            Column("raised", "raised", lambda r: str(r.attacks.raised), "r"),
            *pick(RULES, "by_chance"),
            Column("rings", "rings", lambda r: str(r.attacks.rings), "r"),
            Column(
                "rings_by_chance",
                "by\nchance",
                lambda r: mean_count(r.attacks.rings_by_chance),
                "r",
            ),
            *pick(RULES, "skill"),
            Column("delay", "delay", lambda r: duration(r.attacks.delay_s), "r"),
        ),
        (*facts.present, *facts.table) if facts.n_attacks else (),
        USE_LEGEND,
    )


def _name_column(facts: CommissioningFacts) -> Column[RuleOutcome]:
    """Return the names of rules, with the rules in use and the chosen one marked."""

    def name(row: RuleOutcome) -> TableCell:
        if row.kept is None:
            return TableCell(f"{row.name} (now)")
        is_chosen = row.name == facts.chosen
        return (
            TableCell(f"{row.name} *", style="bold")
            if is_chosen
            else TableCell(row.name)
        )

    return Column("rule", "rule", name, wrap=False)


def rule_rows(facts: CommissioningFacts) -> Iterator[dict[str, object]]:
    """Yield the rows of ``rules.csv``: rules in use, then the family."""
    for row in (*facts.present, *facts.table):
        low, high = row.promised_interval or (None, None)
        load = asdict(row.load) | {"standing_per_day": row.load.standing_per_day}
        use = {k: v for k, v in asdict(row.attacks).items() if k != "which"}
        yield {
            "rule": row.name,
            "chosen": row.name == facts.chosen,
            "limit": row.limit,
            "promised_per_day": row.promised_per_day,
            "promised_low": low,
            "promised_high": high,
            "promise": row.kept,
            "hindsight_limit": row.hindsight_limit,
            **load,
            **use,
            "raised_ids": " ".join(row.attacks.which),
        }


def chosen_sentences(facts: CommissioningFacts, rates: Rates) -> Iterator[str]:
    """Yield what became of the chosen rule's promise, and before and after."""
    row = facts.row(facts.chosen)
    yield f"Chosen (*): {row.name}. {rule_words(row.name)}"
    yield kept_words(row, rates)
    if warning := share_warning(row, facts.accepted):
        yield warning
    for before in facts.present if facts.judged_days else ():
        text = (
            f"Before ({before.name}): {rates.of(before)} alarms {rates.unit}, "
            f"{share(before.load.share_of_time, 1)} of time"
        )
        after = (
            f"after ({row.name}): {rates.of(row)} alarms, "
            f"{share(row.load.share_of_time, 1)} of time"
        )
        if facts.n_attacks:
            text += f", {before.attacks.raised} of {facts.n_attacks} raised"
            after += f", {row.attacks.raised} of {facts.n_attacks} raised"
        yield f"{text}; {after}."


def kept_words(row: RuleOutcome, rates: Rates) -> str:
    """Return what became of a promise as a sentence."""
    if row.promised_interval is None:
        return "No attack-free row is left to judge its promise on."
    low, high = (rates.text(end, row.load.days) for end in row.promised_interval)
    came = rates.of(row)
    words = {
        Kept.KEPT: "the promise was kept",
        Kept.BROKEN: "the promise was broken",
        Kept.UNUSED: "the budget was not used: the limit is higher than it must be",
    }[row.kept or Kept.KEPT]
    text = f"It promised {low} to {high} alarms {rates.unit} and made {came}: {words}"
    if row.hindsight_limit is not None:
        text += (
            f" (in hindsight {number(row.hindsight_limit)} in place of "
            f"{number(row.limit)}; commission again with --calm on later rows)"
        )
    return f"{text}."


def share_warning(row: RuleOutcome, budget: Budget | None) -> str:
    """Return a sentence if time in alarm is more than twice the budget's share."""
    part = row.load.share_of_time
    if budget is None or part <= 2 * budget.share:
        return ""
    return (
        f"It was in alarm for {share(part, 1)} of attack-free time, more than twice "
        f"the {share(budget.share)} of the budget."
    )


# --- Applying -------------------------------------------------------------------------

DRIFT: Columns["TagDrift"] = (
    Column("channel", "tag", lambda tag: tag.channel),
    Column("shift", "shift in\nspreads", lambda tag: f"{tag.shift:+.2f}", "r"),
    Column("now", "share of\nenergy", lambda tag: share(tag.energy_share), "r"),
    Column("then", "then", lambda tag: share(tag.energy_share_then), "r"),
)
