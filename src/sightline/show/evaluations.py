"""What is shown of evaluations: figures, attacks caught, and ``summary.csv``.

`EVALUATIONS` are the figures on a terminal, `COUNTS` the attacks caught with chance and
cost (also of a comparison, and in print), `SUMMARY` the columns of ``summary.csv``.

An attack is *caught* by a rule if an alarm starts in it, or rises again by another tag
(`sightline.metrics.alarm_load`): the one count of first screens and headlines. `COUNTS`
has the others beside it: attacks that the verdicts call *found* (the rule does in them
what it does not do in attack-free stretches of their length), and attacks with any
alarm, also one that began before.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from math import isnan, nan
from typing import TYPE_CHECKING, NamedTuple

from sightline.evaluation.result import (
    Evaluation,
    Protocol,
    ReferenceFacts,
    StreamFacts,
)
from sightline.figures import FIGURES, Figure
from sightline.judgement.event_test import LEVEL
from sightline.judgement.ladder import STANDING
from sightline.judgement.verdicts import Count, RungName
from sightline.metrics.alarm_load import (
    OVER_ALARMING_RATE,
    AlarmLoad,
    AlarmMetrics,
    AttackAlarms,
)
from sightline.metrics.measures import Compactness, Drift, Quality
from sightline.metrics.ranking import Rank
from sightline.metrics.windows import Windows
from sightline.rules.choose import count_words, false_alarm_words
from sightline.show.phrases import Phrase, fixed, percent
from sightline.show.table import (
    Column,
    Columns,
    RecordTable,
    TableCell,
    field_cell,
    pick,
)
from sightline.text import (
    UNKNOWN,
    Labelling,
    mean_count,
    number,
    p_value,
    probability,
    score,
    share,
)

if TYPE_CHECKING:
    from sightline.comparison.compare import Detections

LEGEND = """\
False alarms: of the limit that 1% of train energy exceeds (p99 rule), with
nothing tuned; if the detector has its own rule, this rule comes first.
ROC-AUC: probability that an attack row has more energy than a normal row (50% is
chance); per attack: the same with equal weight for each attack; pAUC@1%: the same
for false-alarm rates up to 1% (0 is chance, 1 is perfect). Below: 95% intervals.
Energy: mean of train, median of attack-free test rows; a large rise is drift.
"""
CAUGHT_LEGEND = """\
Caught: an alarm starts in the attack, or rises again by another tag; one left over
from before catches nothing. By chance: the same count over attack-free windows of
its length; p: probability of that count or more. Time in alarm: share of
attack-free time. All of the whole test.
"""
COUNTS_LEGEND = f"""\
{CAUGHT_LEGEND.rstrip()} Singled out, by the verdicts: the
rule does in the attack what few attack-free stretches of its length do (at most
{LEVEL:.0%}), so one that never stops singles out none. Any alarm: attacks with a row in
alarm, also of an alarm that began before.
"""
# The two alarm rules in use, by the names of their rungs.
OWN, P99 = RungName.OWN_RULE, RungName.PROBE
RULE_WORDS = {OWN: "own", P99: "p99"}
# The rows that a rule is counted on, in words.
WHOLE_TEST, LATER_ROWS = "whole test", "later rows"


def name_of(evaluation: Evaluation) -> str:
    """Return the stream's name, with guard and protocol if they are not the usual."""
    notes = [f"guard {evaluation.guard}"] if evaluation.guard else []
    if evaluation.protocol is not Protocol.SIGHTLINE:
        notes.append(f"protocol {evaluation.protocol}")
    name = evaluation.stream.name
    return f"{name} ({', '.join(notes)})" if notes else name


def false_alarms(evaluation: Evaluation) -> str:
    """Return false alarms a day, or their number if the step is unknown.

    One line for the detector's own rule, if it has one, and one for p99, by name.
    """
    lines = []
    for name, rule in (("own", evaluation.own_rule), ("p99", evaluation.probe)):
        if rule is not None:
            text = false_alarm_words(rule)
            if rule.load is not None:
                text += f"\n{share(rule.time_in_alarm, 1)} of time"
            lines.append(text if evaluation.own_rule is None else f"{name} {text}")
    return "\n".join(lines)


def energies(evaluation: Evaluation) -> tuple[str, str]:
    """Return mean energy of train and median energy of attack-free test rows."""
    level, rise = evaluation.compactness.p_eff / 2, evaluation.drift.d_drift_robust
    return number(level), number(None if rise is None else level + rise)


def _share(value: float | None) -> str:
    return share(value, 1)


def _figure(
    figure: Figure, header: str, write: Callable[[float | None], str]
) -> Column[Evaluation]:
    """Return the column of a figure, with its 95% interval below it."""
    entry = FIGURES[figure]

    def get(evaluation: Evaluation) -> str:
        text, ends = write(entry.of(evaluation)), entry.interval(evaluation)
        if ends is None:
            return text
        low, high = ends
        if high is None:
            return f"{text}\nfrom {write(low)}"
        if write is _share:
            return f"{text}\n{100 * low:.0f}-{high:.0%}"
        return f"{text}\n{low:z.2f}..{high:z.2f}"

    return Column(figure, header, get, "r", tip=entry.sentence, wrap=True)


EVALUATIONS: Columns[Evaluation] = (
    Column("stream", "stream", name_of, min_width=8),
    Column("false_alarms", "false\nalarms", false_alarms, "r", wrap=True),
    _figure(Figure.ROC_AUC, "ROC-AUC", _share),
    _figure(Figure.MEAN_SEGMENT_AUC, "ROC-AUC\nper\nattack", _share),
    _figure(Figure.PAUC_1, "pAUC@1%", score),
    Column(
        "energy", "energy\ntrain/test", lambda e: "/".join(energies(e)), "r", wrap=True
    ),
)


class CaughtRecord(NamedTuple):
    """How many attacks a present rule catches on the whole test, with chance and cost.

    Of one evaluation, by name; `found` and `rings` are None if it was not judged.
    """

    name: str
    rule: RungName
    attacks: AttackAlarms | None
    found: Count | None
    rings: Count | None
    share_in_alarm: float | None


def _caught(attacks: AttackAlarms | None) -> Count | None:
    """Return the attacks caught as a count with its chance."""
    if attacks is None or not attacks.n_attacks:
        return None
    return Count(
        count=attacks.caught,
        total=attacks.n_attacks,
        by_chance=attacks.caught_by_chance,
        p_value=nan if attacks.p_value is None else attacks.p_value,
    )


def _count(count: Count | None) -> TableCell:
    """Return a count of attacks and of how many."""
    if count is None:
        return TableCell(UNKNOWN, (None, None))
    return TableCell(f"{count.count} of {count.total}", (count.count, count.total))


def _chance(count: Count | None) -> TableCell:
    """Return the mean count by chance."""
    if count is None:
        return TableCell(UNKNOWN, (None,))
    text = mean_count(count.by_chance).replace("under ", "<")
    return TableCell(text, (count.by_chance,), printed=fixed(count.by_chance, 1))


def _p_value(count: Count | None) -> TableCell:
    p = None if count is None or isnan(count.p_value) else count.p_value
    return TableCell(probability(p), (p,))


def caught_of(attacks: AttackAlarms | None) -> str | None:
    """Return how many attacks, and how many by chance; None without attacks."""
    if attacks is None or not attacks.n_attacks:
        return None
    return f"{attacks.caught} of {attacks.n_attacks} ({caught_chance(attacks)})"


def caught_chance(attacks: AttackAlarms) -> str:
    """Return the chance that stands beside a count of attacks.

    Examples
    --------
    >>> caught_chance(AttackAlarms(n_attacks=9, caught=8, caught_by_chance=0.43,
    ...     raised=8, raised_by_chance=0.43, rings=9, rings_by_chance=0.6, skill=0.9,
    ...     delay_s=None, p_value=1e-9))
    '0.4 by chance, p < 0.001'
    """
    p = "" if attacks.p_value is None else f", {p_value(attacks.p_value)}"
    return f"{mean_count(attacks.caught_by_chance)} by chance{p}"


# A comparison has the same fields for each detector.
COUNTS: Columns["CaughtRecord | Detections"] = (
    Column("rule", "rule", lambda r: TableCell(RULE_WORDS[r.rule], (str(r.rule),))),
    Column(
        "caught",
        "caught",
        lambda r: _count(_caught(r.attacks)),
        "r",
        parts=("", "of"),
        tip="Attacks in which an alarm starts, or rises again by another tag.",
        term="caught",
    ),
    Column(
        "by_chance",
        "by\nchance",
        lambda r: _chance(_caught(r.attacks)),
        "r",
        tip="The same count over attack-free windows of the attacks' lengths.",
    ),
    Column(
        "p_value",
        Phrase("p", "$p$"),
        lambda r: _p_value(_caught(r.attacks)),
        "r",
        tip="Probability of that count or more by chance.",
    ),
    Column(
        "found",
        "singled\nout",
        lambda r: _count(r.found),
        "r",
        parts=("", "of"),
        tip="Attacks in which the present rule does what few attack-free stretches of "
        "their length do, as verdicts count.",
        term="attacks-found",
    ),
    Column(
        "found_by_chance",
        "by\nchance",
        lambda r: _chance(r.found),
        "r",
    ),
    Column(
        "rings",
        "any\nalarm",
        lambda r: _count(r.rings),
        "r",
        parts=("", "of"),
        tip="Attacks with at least one row in alarm.",
        term="any-alarm",
    ),
    Column(
        "rings_by_chance",
        "by\nchance",
        lambda r: _chance(r.rings),
        "r",
    ),
    Column(
        "share_in_alarm",
        "time in\nalarm",
        lambda r: TableCell(
            share(r.share_in_alarm, 1),
            (r.share_in_alarm,),
            printed=None if r.share_in_alarm is None else percent(r.share_in_alarm),
        ),
        "r",
        tip="Share of attack-free time, the cost.",
    ),
)
CAUGHT = ("rule", "caught", "by_chance", "p_value", "share_in_alarm")


def load_cell(load: AlarmLoad | None) -> TableCell:
    """Return the alarms of a rule in attack-free time."""
    if load is None:
        return TableCell(UNKNOWN, (None,))
    return TableCell(count_words(load), (load.alarms_per_day,))


def caught_table(
    evaluations: Sequence[Evaluation], *, with_others: bool = False
) -> RecordTable[CaughtRecord]:
    """Return how many attacks the present rules catch, with chance and cost.

    `with_others` sets the other counts of attacks beside it, and explains them.
    """
    records = [
        CaughtRecord(
            name_of(e),
            rule,
            alarms.attacks,
            facts.found if facts is not None and facts.rule == rule else None,
            facts.rings if facts is not None and facts.rule == rule else None,
            alarms.time_in_alarm,
        )
        for e in evaluations
        if e.stream.n_segments
        for facts in [e.diagnosis]
        for rule, alarms in list(rules_of(e).items())[: None if with_others else 1]
    ]
    name: Column[CaughtRecord] = Column(
        "stream", "stream", lambda r: r.name, min_width=8
    )
    if with_others:
        return RecordTable("Counts of attacks", COUNTS, records, COUNTS_LEGEND)
    caught: Columns[CaughtRecord] = (name, *pick(COUNTS, *CAUGHT))
    table = RecordTable("Attacks caught", caught, records, CAUGHT_LEGEND)
    return table.as_labelled(Labelling.of_all(e.stream.labels for e in evaluations))


# ---- the rules in use of one evaluation -------------------------------------------


def rules_of(evaluation: Evaluation) -> dict[RungName, AlarmMetrics]:
    """Return the metrics of each alarm rule; the detector's own rule comes first.

    Returns
    -------
    dict of RungName to AlarmMetrics
        `P99` always; `OWN` only if the stream has alarms of its own.
    """
    p99 = {P99: evaluation.probe}
    return p99 if evaluation.own_rule is None else {OWN: evaluation.own_rule} | p99


class RuleOnRows(NamedTuple):
    """What a rule in use did on one set of rows, and on which.

    Load and attacks are None in results of earlier versions.
    """

    load: AlarmLoad | None
    attacks: AttackAlarms | None
    rows: str


def on_rows(evaluation: Evaluation, rule: RungName) -> RuleOnRows:
    """Return what a rule in use did, as first screens show it.

    Where rules were made for a budget, all rules are compared on the later rows (on the
    whole test if limits were set on other rows or parts of the record); else,
    or if all attacks lie before these, on the whole test.
    """
    facts = evaluation.rules
    if facts is not None and facts.judged_days:
        for row in facts.present:
            is_usable = facts.n_attacks or not evaluation.stream.n_segments
            if row.name == RULE_WORDS[rule] and is_usable:
                rows = LATER_ROWS if facts.split else WHOLE_TEST
                return RuleOnRows(row.load, row.attacks, rows)
    alarms = rules_of(evaluation)[rule]
    return RuleOnRows(alarms.load, alarms.attacks, WHOLE_TEST)


def over_alarms(evaluation: Evaluation, rule: RungName) -> bool:
    """Return whether a rule is in alarm too often, on the rows that are shown."""
    load = on_rows(evaluation, rule).load
    if load is None:
        return rules_of(evaluation)[rule].over_alarming
    return load.share_of_time > OVER_ALARMING_RATE


def cost_of(evaluation: Evaluation, rule: RungName) -> tuple[str, str]:
    """Return false alarms and share of attack-free time of a rule, in words."""
    alarms, load = rules_of(evaluation)[rule], on_rows(evaluation, rule).load
    if load is None:
        return false_alarm_words(alarms), share(alarms.time_in_alarm, 1)
    return count_words(load), share(load.share_of_time, 1)


def is_judged(evaluation: Evaluation, rule: RungName) -> bool:
    """Return whether the diagnosis says which attacks a rule finds."""
    facts = evaluation.diagnosis
    if facts is not None and facts.rule == rule:
        return True
    return any(rule in (segment.ladder or {}) for segment in evaluation.segments)


def standing_words(name: str, share_in_alarm: float | None) -> str:
    """Return why the alarms of a rule that never stops say little."""
    return (
        f"{name}: the present rule is in alarm in {share(share_in_alarm)} of "
        f"attack-free time, {share(STANDING)} or more of a usual stretch of it. An "
        "alarm that does not stop says little."
    )


class NamedResult(NamedTuple):
    """The name of a result's folder, and its evaluation."""

    result: str
    evaluation: Evaluation


# Blocks of the evaluation whose figures are columns of summary.csv, with a prefix where
# they would else have the names of others.
_BLOCKS: tuple[tuple[str, type, str], ...] = (
    ("stream", StreamFacts, ""),
    ("reference", ReferenceFacts, ""),
    ("rank", Rank, ""),
    ("windows", Windows, ""),
    ("drift", Drift, ""),
    ("compactness", Compactness, ""),
    ("quality", Quality, ""),
    ("probe", AlarmMetrics, ""),
    ("probe_test_calibrated", AlarmMetrics, "test_calibrated_"),
    ("own_rule", AlarmMetrics, "own_rule_"),
)


SUMMARY: Columns[NamedResult] = (
    Column("result", get=lambda named: named.result),
    Column("guard", get=field_cell("evaluation.guard")),
    Column("protocol", get=lambda named: str(named.evaluation.protocol)),
    *(
        Column(
            # The stream has segments too.
            "windows_n_segments"
            if (block, field.name) == ("windows", "n_segments")
            else f"{prefix}{field.name}",
            get=field_cell(f"evaluation.{block}.{field.name}"),
        )
        for block, record, prefix in _BLOCKS
        for field in fields(record)
        # Lists of channels are in evaluation.json.
        if not field.name.endswith("_channels")
    ),
)
