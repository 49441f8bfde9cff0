"""What is shown of alarm rules: on later rows, and what their members look at."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.evaluation.result import Evaluation
from sightline.rules.advice import count_words
from sightline.rules.judging import CommissioningFacts, RuleOutcome
from sightline.show.evaluations import name_of
from sightline.show.table import Column, Columns, RecordTable, pick
from sightline.text import UNKNOWN, mean_count, names, number, share

if TYPE_CHECKING:
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


def _outcome(record: tuple[str, RuleOutcome]) -> RuleOutcome:
    return record[1]


def terminal_table(
    evaluations: Sequence[Evaluation],
) -> RecordTable[tuple[str, RuleOutcome]]:
    """Return rules in use and the chosen rule for the budget, on the same rows."""
    budgets = dict.fromkeys(str(e.rules.budget) for e in evaluations if e.rules)
    stream: Column[tuple[str, RuleOutcome]]
    stream = Column("stream", "stream", lambda r: r[0], min_width=8)
    return RecordTable(
        f"Alarm rules for a budget of {names(list(budgets))}, on later rows",
        (stream, *(column.over(_outcome) for column in pick(RULES, *TERMINAL))),
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
