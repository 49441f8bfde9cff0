"""What is shown of alarm rules: in use, on later rows, promises, and members."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from sightline.evaluation.result import Evaluation
from sightline.judgement.judge import chance_of
from sightline.judgement.verdicts import RungName
from sightline.metrics.alarm_load import AlarmLoad
from sightline.metrics.intervals import count_interval
from sightline.plugins import OURS
from sightline.plugins import RULES as RULE_GROUP
from sightline.rules.choose import count_words, is_over, raised_words
from sightline.rules.judging import CommissioningFacts, Kept, RuleOutcome
from sightline.rules.limits import Budget
from sightline.rules.named import OTHER_WORDS, rule_words
from sightline.show.evaluations import (
    RULE_WORDS,
    cost_of,
    found,
    found_by_chance,
    load_of,
    name_of,
    rules_of,
)
from sightline.show.table import (
    CellNote,
    Column,
    Columns,
    RecordTable,
    TableCell,
    pick,
)
from sightline.text import (
    MINUS,
    UNKNOWN,
    delay,
    duration,
    mean_count,
    names,
    number,
    per_day,
    plural,
    share,
    slug,
)

if TYPE_CHECKING:
    from sightline.operation.apply import TagDrift
    from sightline.operation.recommission import SameRows
    from sightline.rules.rule import Member

LEGEND = """\
Limits are set on the first part of the test; these are rows after it. Alarms:
a standing one is counted for each hour. Raised: attacks in which an alarm starts;
skill: 1 for all attacks, 0 for chance, so that rules of different counts compare.
"""


# ---- rules in use, at a glance ---------------------------------------------------


class RuleInUse(NamedTuple):
    """What one alarm rule of a detector did.

    Parameters
    ----------
    evaluation : Evaluation
        Of the first seed.
    rule : RungName
        The detector's own rule, or the p99 rule.
    delay : float, optional
        Median number of rows to the first alarm, over the attacks found.
    counts : tuple of int
        Attacks found, of each seed.
    """

    evaluation: Evaluation
    rule: RungName
    delay: float | None
    counts: tuple[int, ...]


# A rule in use, or the rules for a budget, of which the chosen one is shown.
GlanceRecord = RuleInUse | CommissioningFacts


class GlanceRow(NamedTuple):
    """One detector at a glance: its rules, and the first thing to check with it."""

    testbed: str
    detector: str
    n_seeds: int
    check: str
    rules: tuple[GlanceRecord, ...]


def burden(load: AlarmLoad) -> str:
    """Return how alarms come, in the words of ISA-18.2.

    Examples
    --------
    >>> burden(AlarmLoad(alarms=143, days=1.6, alarms_per_day=90.6, share_of_time=0.1,
    ...                  standing=2, peak_10min=5, floods=0, chattering=1))
    'at most 5 in 10 min, 2 from standing, 1 chattering'
    """
    parts = [
        ((load.peak_10min or 0) > 1, f"at most {load.peak_10min} in 10 min"),
        (load.floods, plural(load.floods or 0, "flood")),
        (load.standing, f"{load.standing} from standing"),
        (load.chattering, f"{load.chattering} chattering"),
    ]
    return ", ".join(words for is_said, words in parts if is_said)


def skill_words(skill: float | None) -> str:
    """Return a skill with two decimals."""
    return UNKNOWN if skill is None else f"{skill:.2f}".replace("-", MINUS)


def delay_words(seconds: float | None) -> str:
    """Return the time to an alarm."""
    return "at once" if seconds == 0 else duration(seconds)


def _glance_found(record: GlanceRecord) -> TableCell:
    """Return the attacks that a rule finds or raises, of how many, and by chance."""
    if isinstance(record, CommissioningFacts):
        attacks = record.row(record.chosen).attacks
        chance = mean_count(attacks.raised_by_chance)
        text = (
            f"{attacks.raised} of {attacks.n_attacks} raised\n{chance} by chance, "
            f"skill {skill_words(attacks.skill)}"
        )
        return TableCell(text if attacks.n_attacks else UNKNOWN, style="bold")
    evaluation, rule, _, counts = record
    facts, n = evaluation.diagnosis, evaluation.stream.n_segments
    if not n:
        return TableCell(UNKNOWN)
    alarms, n_found = rules_of(evaluation)[rule], found(evaluation, rule)
    low, high = (100 * end / n for end in count_interval(n_found, n))
    present = facts if facts is not None and facts.rule == rule else None
    count = found_by_chance(evaluation, rule)
    if count is not None:
        chance = ("at most " if present is None else "") + chance_of(count)
    else:
        why = "attacks with any alarm" if facts is None else "by earlier rules"
        chance = f"{why}; chance not measured"
    notes: list[CellNote | str] = [
        f"95% interval {share(low / 100)} to {share(high / 100)}"
    ]
    if present is not None and present.rings:
        notes.append(f"any alarm in {alarms.hits} ({chance_of(present.rings)})")
    if alarms.attacks:
        text = f"alarm starts in {raised_words(alarms.attacks)}"
        notes.append(CellNote(text, "raised"))
    if present is not None and present.is_standing:
        text = "\u25b2 never stops for long: finds nothing"
        notes.append(CellNote(text, is_warning=True))
    if len(counts) > 1:
        mean, ends = sum(counts) / len(counts), f"{min(counts)} to {max(counts)}"
        notes.append(f"mean {mean:.1f}, {ends} over {len(counts)} seeds")
    bar = (
        f'<span class="range" aria-hidden="true"><i style="left:{low:.1f}%;'
        f'width:{high - low:.1f}%"></i><b style="left:{100 * n_found / n:.1f}%"></b>'
        "</span>"
    )
    text = f"{n_found} of {n}\n{chance}"
    return TableCell(text, (n_found, n), "bold", notes=tuple(notes), drawing=bar)


def _glance_alarms(record: GlanceRecord) -> TableCell:
    """Return false alarms, share of attack-free time, and how alarms come."""
    warning = ""
    load: AlarmLoad | None
    if isinstance(record, CommissioningFacts):
        load = record.row(record.chosen).load
        words, rate = count_words(load), share(load.share_of_time, 1)
        if is_over(load, record):
            warning = "over the budget"
    else:
        alarms = rules_of(record.evaluation)[record.rule]
        load = load_of(record.evaluation, record.rule)
        words, rate = cost_of(record.evaluation, record.rule)
        if alarms.over_alarming:
            warning = "over-alarming"
            # In results of earlier versions an alarm that never stops touches an attack
            # each time, so it counts as no false alarm although it lasts all the time.
            if alarms.load is None and alarms.false_positive_segments == 0:
                words = "none fully outside attacks"
    notes = []
    if load is not None and (comes := burden(load)):
        notes.append(CellNote(comes, "alarm-load"))
    if warning:
        notes.append(CellNote(f"\u25b2 {warning}", is_warning=True))
    return TableCell(f"{words}\n{rate} of time", notes=tuple(notes))


def _glance_rule(record: GlanceRecord) -> TableCell:
    if isinstance(record, RuleInUse):
        return TableCell(f"{RULE_WORDS[record.rule]} rule")
    text = f"rule {record.chosen!r}\nfor {record.budget},\non later rows"
    return TableCell(text, term="budget-rule")


GLANCE: Columns[GlanceRecord] = (
    Column("rule", "rule", _glance_rule, wrap=False, term="rule"),
    Column(
        "found",
        "attacks found,\nand by chance",
        _glance_found,
        "r",
        wrap=True,
        term="attacks-found",
    ),
    Column(
        "alarms",
        "false alarms,\nshare of time",
        _glance_alarms,
        "r",
        term="false-alarms",
    ),
    Column(
        "delay",
        "typical\ndelay",
        lambda r: (
            delay(r.delay, r.evaluation.stream.step_s)
            if isinstance(r, RuleInUse)
            else delay_words(r.row(r.chosen).attacks.delay_s)
        ),
        "r",
        term="delay",
    ),
)


def glance_table(
    testbed: str, rows: Sequence[GlanceRow]
) -> RecordTable[tuple[str, GlanceRecord]]:
    """Return what each alarm rule did on one testbed, in operators' words."""
    detector: Column[tuple[str, GlanceRecord]]
    detector = Column("detector", "detector", itemgetter(0))
    first_seed = ", first seed of each" if any(row.n_seeds > 1 for row in rows) else ""
    return RecordTable(
        f"At a glance on {testbed}{first_seed}",
        (detector, *(column.over(itemgetter(1)) for column in GLANCE)),
        [
            ("" if k else row.detector, rule)
            for row in rows
            for k, rule in enumerate(row.rules)
        ],
    )


# ---- rules on later rows ---------------------------------------------------------


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


def rule_key(name: str) -> str:
    """Return the glossary's key of an alarm rule; one that has no entry is "rule".

    Examples
    --------
    >>> rule_key("z~"), rule_key("energy without LIT101"), rule_key("z+x")
    ('rule-z-memory', 'rule-energy', 'rule')
    """
    base = name.partition(" without ")[0]
    if base not in OTHER_WORDS and base not in OURS[RULE_GROUP]:
        return "rule"
    return f"rule-{slug(base)}" + ("-memory" if base.endswith("~") else "")


def _of_attacks(outcome: RuleOutcome, count: int, by_chance: float) -> TableCell:
    """Return a count of attacks and of how many; a dash if there are none."""
    n = outcome.attacks.n_attacks
    if not n:
        return TableCell(UNKNOWN)
    return TableCell(f"{count} of {n}", notes=(f"{mean_count(by_chance)} by chance",))


def _by_chance(outcome: RuleOutcome, count: float) -> str:
    """Return a count by chance; a dash if there are no attacks."""
    return mean_count(count) if outcome.attacks.n_attacks else UNKNOWN


def _promise(outcome: RuleOutcome) -> TableCell:
    """Return what became of a promise."""
    if outcome.kept is None:
        return TableCell(UNKNOWN)
    word, _ = KEPT_WORDS[outcome.kept]
    term, limit = f"kept-{slug(outcome.kept)}", outcome.hindsight_limit
    if limit is None:
        return TableCell(word, term=term)
    note = f"in hindsight {number(limit)} would do"
    return TableCell(word, term=term, notes=(note,))


RULES: Columns[RuleOutcome] = (
    Column("rule", "rule", lambda r: r.name, min_width=8),
    Column("limit", "limit", lambda r: number(r.limit), "r", term="alarm-limit"),
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
        "lingering",
        "linger-\ning",
        lambda r: share(r.load.lingering_share, 1),
        "r",
        term="lingering",
    ),
    Column(
        "raised",
        "raised",
        lambda r: _of_attacks(r, r.attacks.raised, r.attacks.raised_by_chance),
        "r",
        tip="Attacks in which an alarm starts.",
        term="raised",
        title="Raised\nby chance",
    ),
    Column(
        "by_chance",
        "by\nchance",
        lambda r: _by_chance(r, r.attacks.raised_by_chance),
        "r",
        tip="The mean count if each attack were an attack-free stretch.",
    ),
    Column(
        "rings",
        "rings",
        lambda r: _of_attacks(r, r.attacks.rings, r.attacks.rings_by_chance),
        "r",
        term="any-alarm",
        title="Any alarm\nby chance",
    ),
    Column(
        "rings_by_chance",
        "by\nchance",
        lambda r: _by_chance(r, r.attacks.rings_by_chance),
        "r",
    ),
    Column(
        "skill",
        "skill",
        lambda r: skill_words(r.attacks.skill),
        "r",
        tip="1 for all attacks, 0 for chance, so that rules of different counts "
        "compare.",
        term="skill",
    ),
    Column(
        "delay",
        "delay",
        lambda r: delay_words(r.attacks.delay_s),
        "r",
        term="delay",
        title="Delay",
    ),
    Column(
        "promise",
        "promise",
        _promise,
        tip="What became of the promised number of alarms on later rows.",
        term="promise",
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


def page_table(facts: CommissioningFacts) -> RecordTable[RuleOutcome]:
    """Return rules in use and all rules for the budget, as the page shows them."""

    def role(row: RuleOutcome) -> str:
        if row.kept is None:
            return "present"
        return "chosen" if row.name == facts.chosen else ""

    def name(row: RuleOutcome) -> TableCell:
        marks = {"present": "\nin use", "chosen": "\n\u2605 chosen"}
        text = f"{row.name}{marks.get(role(row), '')}"
        return TableCell(text, term=rule_key(row.name))

    def promised(row: RuleOutcome) -> TableCell:
        if row.promised_per_day is None:
            return TableCell(UNKNOWN)
        ends = " to ".join(map(per_day, row.promised_interval or ()))
        return TableCell(f"{per_day(row.promised_per_day)} a day\n{ends}")

    def came_true(row: RuleOutcome) -> TableCell:
        load = row.load
        words = count_words(load) if load.days else UNKNOWN
        notes = [CellNote(burden(load))] if burden(load) else []
        if is_over(load, facts):
            notes.append(CellNote("\u25b2 over the budget", is_warning=True))
        text = f"{words}\n{share(load.share_of_time, 1)} of time"
        return TableCell(text, notes=tuple(notes))

    in_time = "Came true\nattack-free time in alarm"
    columns: Columns[RuleOutcome] = (
        Column("rule", "rule", name, term="rule"),
        *pick(RULES, "limit"),
        Column("promised", "promised", promised, "r", term="promised"),
        Column("came", "came", came_true, "r", term="false-alarms", title=in_time),
        *pick(RULES, "lingering", "raised", "rings", "skill", "delay", "promise"),
    )
    return RecordTable(
        f"All rules for {facts.budget}",
        columns,
        (*facts.present, *facts.table),
        style=role,
    )


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
            *pick(RULES, "limit"),
            Column("promised", f"promised\n{rates.unit}", rates.interval, "r"),
            Column(
                "came_true",
                f"came true\n{rates.unit}",
                rates.of,
                "r",
            ),
            *pick(RULES, "share_of_time", "lingering", "promise"),
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
            *pick(
                RULES,
                "raised",
                "by_chance",
                "rings",
                "rings_by_chance",
                "skill",
                "delay",
            ),
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


# --- Recommissioning ------------------------------------------------------------------

SAME_LEGEND = """\
All on the same rows, which set the limit of the new rule. Step: the smallest
lasting shift of a tag that is seen, in its spreads in train, median over tags.
Sight: 1 if a hundredth of a tag's range on these rows is seen in 15 minutes, 0
if its whole range is not; mean over tags.
"""


def same_rows_table(rows: Sequence["SameRows"]) -> RecordTable["SameRows"]:
    """Return the rule in use and the new one, on the same rows."""
    name: Column[SameRows] = Column("rule", "", lambda r: r.name, wrap=False)
    columns: list[Column[SameRows]] = [
        column.over(lambda r: r.outcome)
        for column in pick(RULES, "limit", "false_alarms", "share_of_time", "raised")
    ]
    return RecordTable(
        "The rule in use and the new one",
        (
            name,
            columns[0],
            Column("step", "step,\nspreads", lambda r: f"{r.step:.3g}", "r"),
            Column("sight", "sight", lambda r: f"{r.sight:.2f}", "r"),
            *columns[1:],
        ),
        rows,
        SAME_LEGEND,
    )


# --- Applying -------------------------------------------------------------------------

DRIFT: Columns["TagDrift"] = (
    Column("channel", "tag", lambda tag: tag.channel),
    Column("shift", "shift in\nspreads", lambda tag: f"{tag.shift:+.2f}", "r"),
    Column("now", "share of\nenergy", lambda tag: share(tag.energy_share), "r"),
    Column("then", "then", lambda tag: share(tag.energy_share_then), "r"),
)
