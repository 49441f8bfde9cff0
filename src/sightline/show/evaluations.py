"""What is shown of evaluations: figures, attacks found, and ``summary.csv``.

`EVALUATIONS` are the figures on a terminal, `FOUND` the attacks found with chance and
cost (also of a comparison, and in print), `SUMMARY` the columns of ``summary.csv``.

An alarm rule *finds* an attack if it does during the attack what it does not do in
attack-free stretches of the same length (`sightline.judgement.event_test`). It *rings*
in an attack if it alarms at all. A rule that never stops rings in every attack and
finds none.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from math import isnan, nan
from typing import TYPE_CHECKING, NamedTuple

from sightline.evaluation.result import (
    Evaluation,
    Protocol,
    ReferenceFacts,
    SegmentResult,
    StreamFacts,
)
from sightline.figures import FIGURES, Figure
from sightline.judgement.event_test import LEVEL
from sightline.judgement.ladder import STANDING
from sightline.judgement.verdicts import Count, RungName, Verdict
from sightline.metrics.alarm_load import AlarmLoad, AlarmMetrics
from sightline.metrics.measures import Compactness, Drift
from sightline.metrics.ranking import Rank
from sightline.metrics.windows import Windows
from sightline.rules.choose import count_words, false_alarm_words
from sightline.show.phrases import Phrase, fixed, percent
from sightline.show.table import Column, Columns, RecordTable, TableCell, field_cell
from sightline.text import (
    UNKNOWN,
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
FOUND_LEGEND = f"""\
Found: the present rule does in the attack what few attack-free stretches of
its length do (at most {LEVEL:.0%}). Any alarm: attacks with at least one.
By chance: the mean count if each attack were such a stretch; p: probability of
that count or more. Time in alarm: share of attack-free time, the cost.
"""
# The two alarm rules in use, by the names of their rungs.
OWN, P99 = RungName.OWN_RULE, RungName.PROBE
RULE_WORDS = {OWN: "own", P99: "p99"}


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
        return f"{text}\n{low:.2f}..{high:.2f}"

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


class FoundRecord(NamedTuple):
    """How many attacks a present rule finds, with chance and cost.

    Of one evaluation, by name; not judged if `found` is None.
    """

    name: str
    rule: RungName | None
    found: Count | None
    rings: Count | None
    share_in_alarm: float | None


def _count(count: Count | None, unknown: str = UNKNOWN) -> TableCell:
    """Return a count of attacks and of how many."""
    if count is None:
        return TableCell(unknown, (None, None))
    return TableCell(f"{count.count} of {count.total}", (count.count, count.total))


def _chance(count: Count | None) -> TableCell:
    """Return the mean count by chance; nan where nothing can tell it."""
    if count is None or isnan(count.by_chance):
        return TableCell(UNKNOWN, (None,))
    text = mean_count(count.by_chance).replace("under ", "<")
    return TableCell(text, (count.by_chance,), printed=fixed(count.by_chance, 1))


def found_words(count: Count | None) -> str | None:
    """Return how many attacks, and how many by chance; None without attacks."""
    if count is None:
        return None
    chance = f"{mean_count(count.by_chance)} by chance, {p_value(count.p_value)}"
    return f"{count.count} of {count.total} ({chance})"


# A comparison has the same fields for each detector.
FOUND: Columns["FoundRecord | Detections"] = (
    Column(
        "rule",
        "rule",
        lambda r: TableCell(
            UNKNOWN if r.rule is None else RULE_WORDS[r.rule],
            (None if r.rule is None else str(r.rule),),
        ),
    ),
    Column(
        "found",
        "found",
        lambda r: _count(r.found, "not judged" if r.rings else UNKNOWN),
        "r",
        parts=("", "of"),
        tip="Attacks in which the present rule does what few attack-free stretches of "
        "their length do.",
    ),
    Column(
        "by_chance",
        "by\nchance",
        lambda r: _chance(r.found),
        "r",
        tip="The mean count if each attack were an attack-free stretch.",
    ),
    Column(
        "p_value",
        Phrase("p", "$p$"),
        lambda r: TableCell(
            probability(r.found.p_value if r.found else None),
            (r.found.p_value if r.found else None,),
        ),
        "r",
        tip="Probability of that count or more by chance.",
    ),
    Column(
        "rings",
        "any\nalarm",
        lambda r: _count(r.rings),
        "r",
        parts=("", "of"),
        tip="Attacks with at least one alarm.",
    ),
    Column("rings_by_chance", "by\nchance", lambda r: _chance(r.rings), "r"),
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


def load_cell(load: AlarmLoad | None) -> TableCell:
    """Return the alarms of a rule in attack-free time."""
    if load is None:
        return TableCell(UNKNOWN, (None,))
    return TableCell(count_words(load), (load.alarms_per_day,))


def found_table(evaluations: Sequence[Evaluation]) -> RecordTable[FoundRecord]:
    """Return how many attacks the present rules find, with chance and cost.

    An evaluation that was not judged, as it has no attack-free windows that could tell
    what chance gives, has its attacks with any alarm alone.
    """
    records = []
    for e in evaluations:
        facts = e.diagnosis
        if facts is not None and facts.found is not None:
            counts = facts.rule, facts.found, facts.rings, facts.share_in_alarm
            records.append(FoundRecord(name_of(e), *counts))
        elif e.stream.n_segments:
            rule = RungName.PROBE if e.own_rule is None else RungName.OWN_RULE
            rings = Count(
                count=(e.own_rule or e.probe).hits or 0,
                total=e.stream.n_segments,
                by_chance=nan,
                p_value=nan,
            )
            records.append(FoundRecord(name_of(e), rule, None, rings, None))
    name: Column[FoundRecord] = Column(
        "stream", "stream", lambda r: r.name, min_width=8
    )
    return RecordTable("Attacks found", (name, *FOUND), records, FOUND_LEGEND)


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


def load_of(evaluation: Evaluation, rule: RungName) -> AlarmLoad | None:
    """Return the false alarms of a rule in use, as the whole page shows them.

    Where rules were made for a budget, all rules are compared on the later rows, so
    that each rule has one number on a page; else on the whole record.

    Returns
    -------
    AlarmLoad, optional
        None in results of an earlier version.
    """
    facts = evaluation.rules
    for row in facts.present if facts is not None and facts.judged_days else ():
        if row.name == RULE_WORDS[rule]:
            return row.load
    return rules_of(evaluation)[rule].load


def cost_of(evaluation: Evaluation, rule: RungName) -> tuple[str, str]:
    """Return false alarms and share of attack-free time of a rule, in words."""
    alarms, load = rules_of(evaluation)[rule], load_of(evaluation, rule)
    if load is None:
        return false_alarm_words(alarms), share(alarms.time_in_alarm, 1)
    return count_words(load), share(load.share_of_time, 1)


def is_judged(evaluation: Evaluation, rule: RungName) -> bool:
    """Return whether the diagnosis says which attacks a rule finds."""
    facts = evaluation.diagnosis
    if facts is not None and facts.rule == rule:
        return True
    return any(rule in (segment.ladder or {}) for segment in evaluation.segments)


def is_found(segment: SegmentResult, rule: RungName) -> bool:
    """Return whether a rule alarms because of an attack: whether its rung is visible.

    Without a diagnosis, whether the p99 rule alarms during the attack at all.
    """
    rung = (segment.ladder or {}).get(rule)
    if rung is not None:
        return rung.visible
    if rule == P99 and segment.verdict is None:
        return bool(segment.hit)
    return rule == P99 and segment.verdict == Verdict.DETECTED


def found(evaluation: Evaluation, rule: RungName) -> int:
    """Return the number of attacks because of which a rule alarms.

    Without a diagnosis of the rule, attacks in which it alarms at all.
    """
    if is_judged(evaluation, rule):
        return sum(is_found(segment, rule) for segment in evaluation.segments)
    return int(rules_of(evaluation)[rule].hits or 0)


def found_by_chance(evaluation: Evaluation, rule: RungName) -> Count | None:
    """Return how many attacks a rule finds, with the number by chance.

    Of the present rule it is measured, with attack-free stretches in the place of the
    attacks. Another rule finds each of them with a probability of at most `LEVEL`,
    which bounds both figures from above.

    Returns
    -------
    Count, optional
        None without attacks or a diagnosis, and for results of an earlier version.
    """
    from scipy.special import bdtrc

    facts, n = evaluation.diagnosis, evaluation.stream.n_segments
    if facts is None or facts.found is None or not n:
        return None
    if facts.rule == rule:
        return facts.found
    count = found(evaluation, rule)
    p_value = float(bdtrc(min(count - 1, n), n, LEVEL))
    return Count(count=count, total=n, by_chance=LEVEL * n, p_value=p_value)


def standing_words(name: str, share_in_alarm: float | None) -> str:
    """Return why a rule that never stops finds nothing."""
    return (
        f"{name}: the present rule is in alarm in {share(share_in_alarm)} of "
        f"attack-free time, {share(STANDING)} or more of a usual stretch of it. An "
        "alarm that does not stop finds nothing."
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
    ),
)
