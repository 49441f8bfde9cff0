"""What every table of attacks shows: terminal, notebook, ``segments.csv`` and frames.

`ATTACKS` are the columns for people, `SEGMENTS` those of ``segments.csv``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from sightline.data.segments import Attack
from sightline.data.zones import FIRST_DATE, iso_stamp, stamp, zone_words
from sightline.evaluation.result import Evaluation, SegmentResult
from sightline.judgement.ladder import LADDER, confidence_word
from sightline.judgement.verdicts import (
    RungName,
    RungOutcome,
    Verdict,
    agrees_with_owners,
    info_of,
)
from sightline.rules.ceiling import RuleAtCeiling
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
    names,
    number,
    probability,
    row_span,
    share,
)

# Attacks that get a row on a terminal; the others are in segments.csv.
MAX_ATTACKS = 40
# Names in a list before the rest is counted.
MOST_NAMES = 8
YES_NO = {True: "yes", False: "no", None: UNKNOWN}
LEGEND = """\
Caught: an alarm of the rule in use starts in it. Rows over limit: share of its rows
over that of the p99 rule, and the time to the first; an alarm goes on between them.
Window rank: share of attack-free windows of its length with less evidence (D_FULL).
Verdict: detected is caught, and singled out from attack-free time; an attack with
another verdict may be caught as attack-free windows are, by chance. With the share of
redrawn versions of attack and attack-free time that give the same.
"""


@dataclass(frozen=True)
class AttackRecord:
    """One attack of an evaluation: the evaluation, and which of its attacks it is."""

    evaluation: Evaluation
    index: int

    @property
    def segment(self) -> SegmentResult:
        """What is known of the attack."""
        return self.evaluation.segments[self.index]

    @property
    def ends(self) -> tuple[float, float] | None:
        """Time stamps of its first and last row; None without any since 1970."""
        traces = self.evaluation.traces
        time = None if traces is None else traces.test_time
        if time is None or not len(time) or time[0] < FIRST_DATE:
            return None
        segment = self.segment
        return float(time[segment.start]), float(time[segment.stop - 1])

    @property
    def window_rank(self) -> float | None:
        """Share of matched normal windows with less evidence; None without any."""
        traces = self.evaluation.traces
        if traces is None or not self.segment.n_matched:
            return None
        k = traces.segment_group[self.index]
        first, last = traces.matched_bounds[k], traces.matched_bounds[k + 1]
        below = traces.matched_d_full[first:last] < traces.segment_d_full[self.index]
        return float(below.mean())

    @property
    def agrees_with_owners(self) -> bool | None:
        """Whether the verdict fits what the owners say; None if it says nothing."""
        return agrees_with_owners(self.segment.verdict, self.segment.outcome)

    @property
    def at_ceiling(self) -> RuleAtCeiling | None:
        """How the chosen rule stands to the ceiling; None without one."""
        ceiling = self.segment.ceiling
        return ceiling.rules[0] if ceiling is not None and ceiling.rules else None


def attacks_of(evaluation: Evaluation) -> list[AttackRecord]:
    """Return the attacks of an evaluation as records of the tables."""
    return [AttackRecord(evaluation, k) for k in range(len(evaluation.segments))]


def row_range(start: int, stop: int) -> str:
    """Return the first and the last of some rows, which stay on one line.

    Examples
    --------
    >>> row_range(1000, 1090)
    '1,000\u20131,089'
    """
    return f"{start:,}\N{EN DASH}{stop - 1:,}"


def when(attack: AttackRecord) -> str:
    """Return its two times on two lines, the second without the date of the first.

    Without time stamps its rows.
    """
    if attack.ends is None:
        return f"{attack.segment.start:,}-{attack.segment.stop - 1:,}"
    zone = attack.evaluation.stream.timezone
    start, end = (stamp(moment, zone) for moment in attack.ends)
    date = start.split()[0] + " "
    return f"{start}\n{end.removeprefix(date)}"


def sure(verdict: str, confidence: float | None) -> str:
    """Return a verdict with how sure it is; older results do not say that.

    Examples
    --------
    >>> sure("diluted", 0.93), sure("diluted", None)
    ('diluted (sure, 93%)', 'diluted')
    """
    if confidence is None or verdict == Verdict.UNDECIDED:
        return str(verdict)
    return f"{verdict} ({confidence_word(confidence)}, {share(confidence)})"


def verdict_cell(segment: SegmentResult) -> TableCell:
    """Return the verdict with its symbol, and how sure it is."""
    if segment.verdict is None:
        return TableCell("not judged")
    text = sure(segment.verdict, segment.confidence)
    return TableCell(text, mark=info_of(segment.verdict))


ATTACKS: Columns[AttackRecord] = (
    Column("id", "attack", lambda a: a.segment.id, min_width=8),
    Column("when", "from, to", when, "r"),
    Column("rows", "rows", lambda a: row_range(a.segment.start, a.segment.stop)),
    Column("verdict", "verdict", lambda a: verdict_cell(a.segment)),
    Column(
        "caught",
        "caught",
        lambda a: YES_NO[a.segment.caught],
        tip="Whether an alarm of the rule in use starts in it.",
    ),
    Column(
        "coverage",
        "rows\nover\nlimit",
        lambda a: share(a.segment.coverage),
        "r",
        tip="Share of its rows over the limit of the p99 rule.",
    ),
    Column(
        "first_alarm",
        "first\nover\nlimit",
        lambda a: row_span(a.segment.first_alarm, a.evaluation.stream.step_s),
        "r",
        tip="Time from its begin to its first row over the limit of the p99 rule.",
    ),
    Column(
        "auc",
        "AUC",
        lambda a: share(a.segment.auc, 1),
        "r",
        tip="Probability that a row of the attack has more energy than a normal row.",
    ),
    Column(
        "window_rank",
        "window\nrank",
        lambda a: share(a.window_rank, 1),
        "r",
        tip="Share of attack-free windows of its length with less evidence (D_FULL).",
    ),
    Column("sentence", "why", lambda a: a.segment.sentence or ""),
)
TERMINAL = (
    *("id", "when", "caught", "coverage", "first_alarm", "auc", "window_rank"),
    "verdict",
)
NOTEBOOK = ("id", "rows", "caught", "verdict", "coverage", "first_alarm", "sentence")


def terminal_table(evaluation: Evaluation) -> RecordTable[AttackRecord]:
    """Return the attacks as a terminal shows them: times if the stream has dates."""
    records = attacks_of(evaluation)[:MAX_ATTACKS]
    if records and records[0].ends is not None:
        clock = f", {zone_words(evaluation.stream.timezone)}"
        return RecordTable(
            f"Each attack{clock}", pick(ATTACKS, *TERMINAL), records, LEGEND
        ).as_labelled(evaluation.stream.labels)
    return RecordTable(
        "Each attack", pick(ATTACKS, *TERMINAL, when="rows"), records, LEGEND
    ).as_labelled(evaluation.stream.labels)


def notebook_table(evaluation: Evaluation) -> RecordTable[AttackRecord]:
    """Return the attacks as a notebook shows them, each with the reason."""
    table = RecordTable("Attacks", pick(ATTACKS, *NOTEBOOK), attacks_of(evaluation))
    return table.as_labelled(evaluation.stream.labels)


def iso_time(end: int) -> Callable[[AttackRecord], TableCell]:
    """Return how an end of an attack is written, in ISO 8601 with the zone's offset."""

    def get(attack: AttackRecord) -> TableCell:
        ends, zone = attack.ends, attack.evaluation.stream.timezone
        return TableCell("" if ends is None else iso_stamp(ends[end], zone))

    return get


# Columns of segments.csv and of frames: every field of an attack, figures of the
# records within by themselves, to sort and filter by, and times.
SEGMENTS: Columns[AttackRecord] = (
    *(
        Column(field.name, get=field_cell(f"segment.{field.name}"))
        for field in fields(SegmentResult)
    ),
    *(
        Column(name.replace(".", "_"), get=field_cell(f"segment.{name}"))
        for name in (
            "found.p_value",
            "found.q_value",
            "found.statistic",
            "found.rule",
            "evidence.p_value",
            "telemetry.p_value",
            "telemetry.movement",
            "ceiling.delay_s",
            "ceiling.p_value",
        )
    ),
    *(
        Column(key, get=field_cell(f"at_ceiling.{name}"))
        for key, name in (
            ("ceiling_rule", "rule"),
            ("ceiling_outcome", "outcome"),
            ("rule_delay_s", "delay_s"),
            ("divergence_share", "divergence_share"),
            ("efficiency", "efficiency"),
            ("could_save_s", "could_save_s"),
        )
    ),
    Column("agrees_with_owners", get=field_cell("agrees_with_owners")),
    Column("start_time", get=iso_time(0)),
    Column("end_time", get=iso_time(1)),
)


# What each way to look at an attack shows of it: name of the rung, and its outcome.
Rung = tuple[str, RungOutcome]


def _beyond(name: str, value: float) -> str:
    """Return a share of rows beyond a limit, or a multiple of the usual."""
    rung = LADDER[RungName(name)] if name in LADDER else None
    if rung is None or rung.is_coverage:
        return share(value)
    return f"{number(value)} x usual"


def used(by: Sequence[str]) -> str:
    """Return what a rung used: channels, or what is accumulated over how many rows.

    Examples
    --------
    >>> used(("LIT101", "P101")), used(("the energy", "30"))
    ('LIT101 and P101', 'the energy over 30 rows')
    """
    if len(by) == 2 and by[1].isdigit():
        return f"{by[0]} over {by[1]} rows"
    return names(by, MOST_NAMES)


RUNGS: Columns[Rung] = (
    Column(
        "rung",
        "looked at",
        lambda r: LADDER[RungName(r[0])].label if r[0] in LADDER else str(r[0]),
    ),
    Column("visible", "shows it", lambda r: "yes" if r[1].visible else "no"),
    Column("coverage", "of the attack", lambda r: _beyond(r[0], r[1].coverage)),
    Column("calm", "of calm time", lambda r: _beyond(r[0], r[1].calm)),
    Column("p", "p", lambda r: probability(r[1].p_value)),
    Column("by", "by", lambda r: used(r[1].by)),
)


def ladder_table(ladder: Mapping[str, RungOutcome]) -> RecordTable[Rung]:
    """Return what each way to look at an attack shows of it."""
    title = "What would show it: share of rows beyond the limit"
    return RecordTable(title, RUNGS, list(ladder.items()))


# Attacks as labels and lists of attacks give them, before anything is measured.
LISTED: Columns[Attack] = (
    Column("id", "attack", lambda a: a.id),
    Column("rows", "rows", lambda a: row_range(a.start, a.stop)),
    Column("targets", "targets", lambda a: names(a.targets, MOST_NAMES)),
    Column("note", "note", lambda a: a.note or a.name or ""),
    Column("outcome", "by the owners", lambda a: a.outcome.words if a.outcome else ""),
)
