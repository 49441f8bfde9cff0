"""What is shown of alarm rules: in use, on later rows, promises, and members."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from sightline.data.zones import stamp
from sightline.evaluation.localisation import Method, Moment
from sightline.evaluation.result import Evaluation
from sightline.judgement.verdicts import RungName
from sightline.metrics.alarm_load import DAY_S, AlarmLoad, AttackAlarms
from sightline.metrics.intervals import count_interval
from sightline.plugins import OURS
from sightline.plugins import RULES as RULE_GROUP
from sightline.rules.choose import MOST_COST, count_words, is_far_over, is_over
from sightline.rules.judging import BudgetOutcome, CommissioningFacts, RuleOutcome
from sightline.rules.limits import Budget
from sightline.rules.named import OTHER_WORDS, rule_words
from sightline.rules.promise import Kept, Period, Promise
from sightline.show.evaluations import (
    LATER_ROWS,
    RULE_WORDS,
    WHOLE_TEST,
    cost_of,
    name_of,
    on_rows,
    over_alarms,
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
    Labelling,
    duration,
    mean_count,
    names,
    number,
    p_value,
    per_day,
    plural,
    probability,
    share,
    slug,
)

if TYPE_CHECKING:
    from sightline.operation.apply import TagDrift
    from sightline.operation.recommission import SameRows
    from sightline.rules.rule import Member

LEGEND = """\
Limits are set on other rows than those on which rules are judged. Alarms: a standing
one is counted for each hour. Caught: an alarm starts in the attack, or
rises again by another tag; p: probability that chance catches as many or more.
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
    counts : tuple of int
        Attacks caught, of each seed.
    """

    evaluation: Evaluation
    rule: RungName
    counts: tuple[int, ...]

    @property
    def labels(self) -> Labelling:
        """What the labels of the record mark."""
        return self.evaluation.stream.labels


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


def skill_words(attacks: AttackAlarms) -> str:
    """Return a skill with two decimals, and its interval; a dash without attacks."""
    if attacks.skill is None or not attacks.n_attacks:
        return UNKNOWN
    text = f"{attacks.skill:z.2f}"
    if attacks.skill_interval is not None:
        low, high = attacks.skill_interval
        text += f" [{low:z.2f}, {high:z.2f}]"
    return text.replace("-", MINUS)


def delay_words(seconds: float | None) -> str:
    """Return the time to an alarm."""
    return "at once" if seconds == 0 else duration(seconds)


def _glance_use(record: GlanceRecord) -> AttackAlarms | None:
    """Return which attacks a rule catches; None if that was not counted."""
    if isinstance(record, CommissioningFacts):
        return record.row(record.chosen).attacks
    return on_rows(record.evaluation, record.rule).attacks


def _glance_caught(record: GlanceRecord) -> TableCell:
    """Return the attacks that a rule catches, of how many, with the interval."""
    attacks = _glance_use(record)
    if attacks is None:
        return TableCell(UNKNOWN, notes=("not counted in results so old",))
    n = attacks.n_attacks
    if not n:
        return TableCell(UNKNOWN)
    low, high = (100 * end / n for end in count_interval(attacks.caught, n))
    notes: list[CellNote | str] = []
    if isinstance(record, RuleInUse):
        facts, counts = record.evaluation.diagnosis, record.counts
        if facts is not None and facts.rule == record.rule and facts.is_standing:
            text = "\u25b2 never stops for long: its alarms say little"
            notes.append(CellNote(text, is_warning=True))
        if len(counts) > 1:
            mean, ends = sum(counts) / len(counts), f"{min(counts)} to {max(counts)}"
            notes.append(f"mean {mean:.1f}, {ends} over {len(counts)} seeds")
    bar = (
        f'<span class="range" role="img" aria-label="95% interval {low:.0f}% to '
        f'{high:.0f}%" title="95% interval {low:.0f}% to {high:.0f}%"><i style="left:'
        f'{low:.1f}%;width:{high - low:.1f}%"></i><b style="left:'
        f'{100 * attacks.caught / n:.1f}%"></b></span>'
    )
    text = f"{attacks.caught} of {n}"
    values = (attacks.caught, n)
    return TableCell(text, values, "bold", notes=tuple(notes), drawing=bar)


def _glance_chance(record: GlanceRecord) -> TableCell:
    """Return how many attacks would be caught by chance, and how likely that is."""
    attacks = _glance_use(record)
    if attacks is None or not attacks.n_attacks:
        return TableCell(UNKNOWN)
    p = () if attacks.p_value is None else (p_value(attacks.p_value),)
    return TableCell(mean_count(attacks.caught_by_chance), notes=p)


def _glance_alarms(record: GlanceRecord) -> TableCell:
    """Return the alarms of a rule in attack-free time; a note if they are too many."""
    warning = ""
    load: AlarmLoad | None
    if isinstance(record, CommissioningFacts):
        load = record.row(record.chosen).load
        words = count_words(load)
        if is_over(load, record):
            warning = "over the budget"
    else:
        alarms = rules_of(record.evaluation)[record.rule]
        load = on_rows(record.evaluation, record.rule).load
        words, _ = cost_of(record.evaluation, record.rule)
        if over_alarms(record.evaluation, record.rule):
            warning = "over-alarming"
            # In results of earlier versions an alarm that never stops touches an attack
            # each time, so it counts as no false alarm although it lasts all the time.
            if alarms.load is None and alarms.false_positive_segments == 0:
                words = "none fully outside attacks"
    term = "budget" if warning == "over the budget" else ""
    notes = (CellNote(f"\u25b2 {warning}", term, True),) if warning else ()
    return TableCell(words, notes=notes)


def _glance_share(record: GlanceRecord) -> str:
    if isinstance(record, CommissioningFacts):
        return share(record.row(record.chosen).load.share_of_time, 1)
    return cost_of(record.evaluation, record.rule)[1]


def _glance_rule(record: GlanceRecord) -> TableCell:
    if isinstance(record, RuleInUse):
        rows = on_rows(record.evaluation, record.rule).rows
        return TableCell(f"{RULE_WORDS[record.rule]} rule\n{rows}")
    rows = LATER_ROWS if record.split else WHOLE_TEST
    text = f"rule {record.chosen!r}\nfor {record.budget},\n{rows}"
    return TableCell(text, term="budget-rule")


def _glance_delay(record: GlanceRecord) -> str:
    """Return the median time to the alarm that catches an attack."""
    attacks = _glance_use(record)
    return UNKNOWN if attacks is None else delay_words(attacks.delay_s)


def _glance_named(record: GlanceRecord) -> TableCell:
    """Return how often the evidence points at the attacked tag, and by chance.

    Attacks of which a target is among the first three channels by the conditional
    deviation, at the first alarm of the p99 rule; a dash for other rules, and if no
    attack with an alarm has a known target.
    """
    figure = None
    if isinstance(record, RuleInUse) and record.rule == RungName.PROBE:
        found = record.evaluation.localisation
        figures = found.figures.get(Method.CONDITIONAL, {}) if found else {}
        figure = figures.get(Moment.FIRST_ALARM)
    if figure is None:
        return TableCell(UNKNOWN)
    hit, n = figure.hit_3, figure.n_attacks
    words = f"{round(hit.value * n)} of {n}"
    if hit.floor is None:
        return TableCell(words)
    chance = f"chance {mean_count(hit.floor.value * n)}"
    if hit.floor.above_floor:
        return TableCell(words, notes=(chance,))
    return TableCell(words, style="dim", notes=(f"{chance}: no better",))


GLANCE: Columns[GlanceRecord] = (
    Column("rule", "rule", _glance_rule, wrap=False, term="rule"),
    Column("caught", "attacks\ncaught", _glance_caught, "r", term="caught"),
    Column("by_chance", "by\nchance", _glance_chance, "r", term="chance"),
    Column("alarms", "false\nalarms", _glance_alarms, "r", term="false-alarms"),
    Column("share", "share\nof time", _glance_share, "r", term="time-in-alarm"),
    Column("delay", "delay", _glance_delay, "r", term="delay"),
    Column("named", "tag\nnamed", _glance_named, "r", term="first-three"),
)


def glance_table(
    testbed: str, rows: Sequence[GlanceRow]
) -> RecordTable[tuple[str, GlanceRecord]]:
    """Return what each alarm rule did on one testbed, in operators' words."""
    detector: Column[tuple[str, GlanceRecord]]
    detector = Column("detector", "detector", itemgetter(0), min_width=8)
    first_seed = ", first seed of each" if any(row.n_seeds > 1 for row in rows) else ""
    return RecordTable(
        f"At a glance on {testbed}{first_seed}",
        # What is named is left to the page: 80 columns are no more.
        (detector, *(column.over(itemgetter(1)) for column in GLANCE[:-1])),
        [
            ("" if k else row.detector, rule)
            for row in rows
            for k, rule in enumerate(row.rules)
        ],
    ).as_labelled(Labelling.of_all(rule.labels for row in rows for rule in row.rules))


def page_glance(
    rows: Sequence[GlanceRow], notes: Mapping[str, Sequence[CellNote]]
) -> RecordTable[tuple[GlanceRow, GlanceRecord]]:
    """Return the same for the page, with notes below the name of each detector."""

    def detector(line: tuple[GlanceRow, GlanceRecord]) -> TableCell:
        row, rule = line
        is_first = rule is row.rules[0]
        return TableCell(row.detector, notes=tuple(notes[row.detector]) * is_first)

    def style(line: tuple[GlanceRow, GlanceRecord]) -> str:
        row, rule = line
        if isinstance(rule, CommissioningFacts):
            return "chosen"
        return "first" if rule is row.rules[0] else ""

    name: Column[tuple[GlanceRow, GlanceRecord]]
    name = Column("detector", "detector", detector, term="detector")
    columns: Columns[tuple[GlanceRow, GlanceRecord]]
    columns = (name, *(column.over(itemgetter(1)) for column in GLANCE))
    lines = [(row, rule) for row in rows for rule in row.rules]
    labels = Labelling.of_all(rule.labels for _, rule in lines)
    return RecordTable("At a glance", columns, lines, style=style).as_labelled(labels)


# ---- rules on later rows ---------------------------------------------------------


# What became of a promise: a word, and what it means.
KEPT_WORDS: dict[Kept, tuple[str, str]] = {
    Kept.KEPT: (
        "kept",
        "Alarms and time in alarm lie within what was promised for the period. Tags "
        "out of service ring no more; a rule out of service as a whole does.",
    ),
    Kept.BROKEN: (
        "broken",
        "More alarms than the 90% interval of the promise, or more time in alarm: the "
        "plant has changed. Answer its questions, or set the limit again.",
    ),
    Kept.UNUSED: (
        "fewer than promised",
        "Fewer false alarms than the interval of the promise: the limit is higher than "
        "these rows need.",
    ),
    Kept.UNJUDGED: (
        "not judged",
        "No attack-free rows were left to judge it on, less than half of the time was "
        "watched, or a gap of more than 28 days ended it.",
    ),
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


def _promise(outcome: RuleOutcome, budget: Budget | None = None) -> TableCell:
    """Return what became of a promise; never "kept" at over twice the budget."""
    if outcome.kept is None:
        return TableCell(UNKNOWN)
    if outcome.kept is Kept.KEPT and budget and is_far_over(outcome.load, budget):
        return TableCell("over twice\nthe budget", term="budget")
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
        "caught",
        "caught",
        lambda r: _of_attacks(r, r.attacks.caught, r.attacks.caught_by_chance),
        "r",
        tip="Attacks in which an alarm starts, or rises again by another tag.",
        term="caught",
        title="Caught\nby chance",
    ),
    Column(
        "by_chance",
        "by\nchance",
        lambda r: _by_chance(r, r.attacks.caught_by_chance),
        "r",
        tip="The mean count if each attack were an attack-free window.",
    ),
    Column(
        "skill",
        "skill",
        lambda r: skill_words(r.attacks),
        "r",
        tip="1 for all attacks, 0 for chance, so that rules of different counts "
        "compare; with its 95% interval.",
        term="skill",
    ),
    Column(
        "p_value",
        "p",
        lambda r: probability(r.attacks.p_value),
        "r",
        tip="Probability that chance catches as many attacks or more.",
        term="chance",
        title="p",
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
        "pauc_1",
        "pAUC\n@1%",
        lambda r: UNKNOWN if r.pauc_1 is None else f"{r.pauc_1:.3f}",
        "r",
        tip="How its score ranks attack rows among normal ones, whatever its limit, "
        "where at most 1% of normal rows are above.",
        term="pauc-1",
        title="pAUC@1%",
    ),
    Column(
        "promise",
        "promise",
        _promise,
        tip="What became of the promised number of alarms on later rows.",
        term="promise",
    ),
)


def promise_column(facts: CommissioningFacts) -> Column[RuleOutcome]:
    """Return what became of promises, beside the budget they were made for."""
    (column,) = pick(RULES, "promise")
    return replace(column, get=lambda row: _promise(row, facts.accepted))


TERMINAL = ("rule", "false_alarms", "share_of_time", "caught", "by_chance", "p_value")
NOTEBOOK = ("rule", "false_alarms", "share_of_time", "caught", "by_chance")


def terminal_table(
    evaluations: Sequence[Evaluation],
) -> RecordTable[tuple[str, RuleOutcome]]:
    """Return rules in use and the chosen rule for the budget, on the same rows."""
    budgets = dict.fromkeys(str(e.rules.budget) for e in evaluations if e.rules)
    stream: Column[tuple[str, RuleOutcome]]
    stream = Column("stream", "stream", lambda r: r[0], min_width=8)
    is_later = all(e.rules.split for e in evaluations if e.rules)
    rows = LATER_ROWS if is_later else "judged rows"
    return RecordTable(
        f"Alarm rules for a budget of {names(list(budgets))}, on {rows}",
        (stream, *(column.over(itemgetter(1)) for column in pick(RULES, *TERMINAL))),
        [
            (name_of(e), outcome)
            for e in evaluations
            if e.rules is not None
            for outcome in (*e.rules.present, e.rules.row(e.rules.chosen))
        ],
        LEGEND,
    ).as_labelled(Labelling.of_all(e.stream.labels for e in evaluations))


def notebook_table(facts: CommissioningFacts) -> RecordTable[RuleOutcome]:
    """Return rules in use and all rules for the budget, on judged rows."""
    rules = (*facts.present, *facts.table)
    columns = (*pick(RULES, *NOTEBOOK), promise_column(facts))
    table = RecordTable("Rules on judged rows", columns, rules)
    return table.as_labelled(facts.labels)


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
        notes = [CellNote(burden(load), "alarm-load")] if burden(load) else []
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
        *pick(RULES, "lingering", "caught", "skill", "p_value", "delay", "pauc_1"),
        promise_column(facts),
    )
    return RecordTable(
        f"All rules for {facts.budget}",
        columns,
        (*facts.present, *facts.table),
        style=role,
    ).as_labelled(facts.labels)


def what_if_table(facts: CommissioningFacts) -> RecordTable[BudgetOutcome]:
    """Return what the chosen rule would do with other budgets, the least first."""

    def budget(row: BudgetOutcome) -> str:
        places = 0 if row.share >= 0.01 else 1
        return f"{row.per_day:.3g} a day, {share(row.share, places)} of time"

    def caught(row: BudgetOutcome) -> TableCell:
        use = row.attacks
        chance = f"{mean_count(use.caught_by_chance)} by chance"
        return TableCell(f"{use.caught} of {use.n_attacks}", notes=(chance,))

    columns: Columns[BudgetOutcome] = (
        Column("budget", "budget", budget, term="budget"),
        Column("limit", "limit", lambda r: number(r.limit), "r", term="alarm-limit"),
        Column(
            "alarms",
            "alarms",
            lambda r: count_words(r.load),
            "r",
            term="false-alarms",
        ),
        Column(
            "share",
            "time in alarm",
            lambda r: share(r.load.share_of_time, 1),
            "r",
            term="time-in-alarm",
        ),
        *(Column("caught", "caught", caught, "r", term="caught"),)
        * bool(facts.n_attacks),
        Column(
            "step",
            "smallest fault",
            lambda r: f"{number(r.step)} spreads" if r.step < 1e9 else UNKNOWN,
            "r",
            term="smallest-fault",
        ),
    )
    table = RecordTable("What if", columns, facts.what_if)
    return table.as_labelled(facts.labels)


MEMBERS: Columns["Member"] = (
    Column("score", "score", lambda m: m.name),
    Column("view", "looks at", lambda m: str(m.view)),
    Column("memory", "memory", lambda m: str(m.memory)),
    Column("rows", "rows", lambda m: str(m.span or "")),
    Column("limit", "limit", lambda m: number(m.limit), "r"),
)


# --- Commissioning --------------------------------------------------------------------

COST_LEGEND = """\
Promised: alarms a day that are expected of the first period, at most 7 watched
days, with the 90% interval; later ones are promised anew. Came true: on attack-free
rows after the split; a standing alarm counts again each hour. Lingering: the first
hour of alarms that attacks left behind; shown, not counted.
"""
USE_LEGEND = """\
Caught: attacks in which an alarm starts, or rises again by another tag; by chance:
the same for attack-free windows of their lengths; p: that chance catches as many
or more. Skill: (caught - chance) / (attacks - chance), with its 95% interval, so
that rules of different counts compare. pAUC@1%: how a rule's score ranks attack
rows among normal ones, whatever its limit.
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
        f"judged on {facts.judged_days:.1f} {facts.later_days} with "
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
            *pick(RULES, "share_of_time", "lingering"),
            promise_column(facts),
        ),
        (*facts.present, *facts.table),
        COST_LEGEND,
    ).as_labelled(facts.labels)


def use_table(facts: CommissioningFacts) -> RecordTable[RuleOutcome]:
    """Return which attacks every rule catches; no record without attacks."""
    return RecordTable(
        f"What they catch of {plural(facts.n_attacks, 'attack')}",
        (
            _name_column(facts),
            *pick(RULES, "caught", "by_chance", "skill", "p_value", "delay", "pauc_1"),
        ),
        (*facts.present, *facts.table) if facts.n_attacks else (),
        USE_LEGEND,
    ).as_labelled(facts.labels)


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
        use = asdict(row.attacks)
        caught, ends = use.pop("which"), use.pop("skill_interval") or (None, None)
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
            "skill_low": ends[0],
            "skill_high": ends[1],
            "roc_auc": row.roc_auc,
            "pauc_1": row.pauc_1,
            "caught_ids": " ".join(caught),
        }


def chosen_sentences(facts: CommissioningFacts, rates: Rates) -> Iterator[str]:
    """Yield what became of the chosen rule's promise, and before and after."""
    row = facts.row(facts.chosen)
    yield f"Chosen (*): {row.name}. {rule_words(row.name)}"
    yield kept_words(row, rates, facts.accepted)
    if warning := share_warning(row, facts.accepted):
        yield warning
    for before in facts.present if facts.judged_days else ():
        text = (
            f"Before ({before.name}): {rates.of(before)} alarms {rates.unit}, "
            f"{share(before.load.share_of_time, 1)} of time"
        )
        after = (
            f"after ({row.name}): {rates.of(row)} {rates.unit}, "
            f"{share(row.load.share_of_time, 1)} of time"
        )
        if facts.n_attacks:
            text += f", {before.attacks.caught} of {facts.n_attacks} caught"
            after += f", {row.attacks.caught} of {facts.n_attacks} caught"
        yield f"{text}; {after}."


def kept_words(row: RuleOutcome, rates: Rates, budget: Budget | None) -> str:
    """Return what became of a promise; never "kept" at over twice the budget."""
    if row.promised_interval is None:
        return "No attack-free row is left to judge its promise on."
    low, high = (rates.text(end, row.load.days) for end in row.promised_interval)
    came = rates.of(row)
    words = {
        Kept.KEPT: "the promise was kept",
        Kept.BROKEN: "the promise was broken",
        Kept.UNUSED: "the budget was not used: the limit is higher than it must be",
        Kept.UNJUDGED: "not judged, for too little of the time was watched",
    }[row.kept or Kept.KEPT]
    if row.periods:
        words = periods_words(row.periods)
    if row.kept is Kept.KEPT and budget and is_far_over(row.load, budget):
        words = f"{words if row.periods else 'as many as promised'}, and yet more than "
        words += "twice the budget"
    text = f"It promised {low} to {high} alarms {rates.unit} and made {came}: {words}"
    if row.hindsight_limit is not None:
        text += (
            f" (in hindsight {number(row.hindsight_limit)} in place of "
            f"{number(row.limit)}; commission again with --calm on later rows)"
        )
    return f"{text}."


def periods_words(periods: Sequence[Period]) -> str:
    """Return how many of the promises for some periods were broken, or not used."""
    kept = [period.kept for period in periods]
    days = max(round(max(period.days for period in periods)), 1)
    each = "each watched day" if days == 1 else f"every {days} watched days"
    counts = [f"{kept.count(Kept.BROKEN) or 'none'} broken"]
    if Kept.UNJUDGED in kept:
        counts.append(f"{kept.count(Kept.UNJUDGED)} not judged")
    if Kept.UNUSED in kept:
        counts.append(f"{kept.count(Kept.UNUSED)} not used")
    return f"of {plural(len(kept), 'promise')}, renewed {each}, {', '.join(counts)}"


def share_warning(row: RuleOutcome, budget: Budget | None) -> str:
    """Return a sentence if time in alarm is more than twice the budget's share."""
    part = row.load.share_of_time
    if budget is None or round(part, 3) <= MOST_COST * budget.share:
        return ""
    return (
        f"It was in alarm for {share(part, 1)} of the time, more than twice the "
        f"{share(budget.share)} of the budget."
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
        for column in pick(RULES, "limit", "false_alarms", "share_of_time", "caught")
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
    ).as_labelled(Labelling.of(rows[0].outcome.attacks.n_attacks, is_own_plant=True))


def period_table(
    periods: Sequence[Period], zone: str | None = None
) -> RecordTable[Period]:
    """Return what was promised for each period, and what came.

    Parameters
    ----------
    periods : sequence of Period
        In order.
    zone : str, optional
        Of the times at which they begin; None for the plant's own clock.
    """

    def begins(period: Period) -> str:
        return UNKNOWN if period.begins is None else stamp(period.begins, zone)

    def promised(period: Period) -> str:
        return f"{period.low:.0f} to {period.high:.0f}"

    def became(period: Period) -> str:
        if period.gap_s:
            days = plural(round(period.gap_s / DAY_S), "day")
            return f"ended: {days} without data"
        return KEPT_WORDS[period.kept][0]

    columns: Columns[Period] = (
        Column("begins", "from", begins),
        Column("days", "watched\ndays", lambda p: f"{p.days:.1f}", "r"),
        Column("promised", "alarms\npromised", promised, "r"),
        Column("alarms", "came", lambda p: f"{p.alarms:.0f}", "r"),
        Column("most", "time in alarm\nat most", lambda p: share(p.most_share, 1), "r"),
        Column("share", "came", lambda p: share(p.share, 1), "r"),
        Column("kept", "promise", became),
    )
    return RecordTable("Promises, one after the other", columns, periods)


def promise_words(promise: Promise) -> str:
    """Return what a rule promises for its next period, and what that would notice."""
    low, high = promise.interval(promise.days)
    days = plural(round(promise.days), "watched day")
    return (
        f"The next {days.removeprefix('1 ')} should bring {low:.0f} to {high:.0f} "
        f"alarms (90%) and at most {share(promise.most_share(promise.days), 1)} of "
        "time in alarm, without tags out of service. In 9 of 10 cases "
        f"{promise.notices():.1f} times the budget would break it within {days}."
    )


# --- Applying -------------------------------------------------------------------------

DRIFT: Columns["TagDrift"] = (
    Column("channel", "tag", lambda tag: tag.channel),
    Column("shift", "shift in\nspreads", lambda tag: f"{tag.shift:+z.2f}", "r"),
    Column("now", "share of\nenergy", lambda tag: share(tag.energy_share), "r"),
    Column("then", "then", lambda tag: share(tag.energy_share_then), "r"),
)
