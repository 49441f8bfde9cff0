"""Tables for the terminal: one or more evaluations, and a comparison of detectors."""

from collections.abc import Callable, Sequence
from functools import partial

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.comparison.compare import SEEN_BY_ALL, Comparison, SideBySide
from sightline.comparison.differences import Difference
from sightline.comparison.runs import Figure
from sightline.data.zones import FIRST_DATE, stamp, zone_words
from sightline.evaluation.protocol import Protocol
from sightline.evaluation.result import Evaluation, SegmentResult
from sightline.judgement.confidence import STANDING, confidence_word
from sightline.judgement.event_test import LEVEL
from sightline.judgement.judge import METHOD
from sightline.judgement.verdicts import Count, RungName, Verdict
from sightline.metrics.probe import AlarmMetrics
from sightline.rules.advice import count_words, false_alarm_words
from sightline.terminal import Terminal
from sightline.text import (
    UNKNOWN,
    mean_count,
    names,
    number,
    probability,
    row_span,
    share,
)

# Attacks that get a row; the others are in segments.csv.
MAX_ATTACKS = 40
# Missed attacks that are explained in words.
MAX_MISSED = 12
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
RULES_LEGEND = """\
Limits are set on the first part of the test; these are rows after it. Alarms:
a standing one is counted for each hour. Raised: attacks in which an alarm starts;
skill: 1 for all attacks, 0 for chance, so that rules of different counts compare.
"""
ATTACK_LEGEND = """\
Time in alarm: share of its rows. Window rank: share of normal windows of its
length with less evidence (D_FULL). Verdict: with the share of redrawn versions
of attack and attack-free time that give the same.
"""
EARLIER_RULES = (
    "Verdicts were made by the rules of an earlier version, which judged many attacks "
    "differently: evaluate again to renew them."
)
_RULES = {RungName.OWN_RULE: "own", RungName.PROBE: "p99"}
_Written = Callable[[float | None], str]


def summary(evaluations: Sequence[Evaluation]) -> RenderableType:
    """Return the table of evaluations, with details of the attacks of a single one.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        One row each, and one row each on the attacks found, with chance and cost. If
        there is only one, its attacks and the reasons why they were missed follow.

    Returns
    -------
    RenderableType
        For a `rich` console, at most 80 columns wide; ends with the errors and
        warnings of the data's audit, and all notices.
    """
    table = _table("Evaluation", ["stream"], [])
    table.columns[0].min_width = 8
    for header in (
        "false\nalarms",
        "ROC-AUC",
        "ROC-AUC\nper\nattack",
        "pAUC@1%",
        "energy\ntrain/test",
    ):
        table.add_column(header, justify="right", overflow="fold")
    for e in evaluations:
        level, rise = e.compactness.p_eff / 2, e.drift.d_drift_robust
        table.add_row(
            Text(_name(e)),
            _by_rule(e, partial(_false_alarms, e)),
            _with_interval(e, Figure.ROC_AUC, _share),
            _with_interval(e, Figure.MEAN_SEGMENT_AUC, _share),
            _with_interval(e, Figure.PAUC_1, _score),
            f"{number(level)}/{number(None if rise is None else level + rise)}",
        )
    parts: list[RenderableType] = [table, Text(LEGEND, style="dim")]
    parts += _found(evaluations)
    parts += _rules(evaluations)
    if len(evaluations) == 1 and evaluations[0].segments:
        parts += [_attacks(evaluations[0]), *_missed(evaluations[0])]
    if len(evaluations) == 1:
        parts += _advice(evaluations[0])
    serious = [one.line for e in evaluations for one in e.findings if one.is_serious]
    parts += [Text(f"- {line}", style="bold") for line in dict.fromkeys(serious)]
    notices = [(_name(e), notice) for e in evaluations for notice in _notices(e)]
    several = len(evaluations) > 1
    parts += [Text(f"- {n}: {text}" if several else f"- {text}") for n, text in notices]
    return Group(*parts)


def as_text(renderable: RenderableType, width: int = 80) -> str:
    """Return what a console would print, as plain text without styles.

    Parameters
    ----------
    renderable : RenderableType
        Such as `summary` returns.
    width : int
        Columns of the text.

    Examples
    --------
    >>> as_text(Text("a tag"))
    'a tag'
    """
    screen = Terminal(width=width)
    with screen.capture() as captured:
        screen.print(renderable)
    lines = captured.get().splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _notices(e: Evaluation) -> list[str]:
    """Return what a reader of the figures must know."""
    is_earlier = e.diagnosis is not None and e.diagnosis.method < METHOD
    return [*e.notices, EARLIER_RULES] if is_earlier else list(e.notices)


def _found(evaluations: Sequence[Evaluation]) -> list[RenderableType]:
    """Return how many attacks the present rules find, with chance and cost."""
    table = _found_table("Attacks found", "stream")
    for e in evaluations:
        facts = e.diagnosis
        if facts is not None and facts.found is not None:
            table.add_row(
                Text(_name(e)),
                *_found_cells(facts.rule, facts.found, facts.rings),
                share(facts.share_in_alarm, 1),
            )
        elif e.stream.n_segments:
            # Not judged: there are no calm windows that could tell what chance gives.
            rule, metrics = RungName.PROBE, e.probe
            if e.own_rule is not None:
                rule, metrics = RungName.OWN_RULE, e.own_rule
            rings = f"{metrics.hits} of {e.stream.n_segments}"
            unknown = ["not judged", UNKNOWN, UNKNOWN, rings, UNKNOWN, UNKNOWN]
            table.add_row(Text(_name(e)), _RULES[rule], *unknown)
    if not table.row_count:
        return []
    standing = [
        Text(_standing(_name(e), e.diagnosis.share_in_alarm), style="bold")
        for e in evaluations
        if e.diagnosis is not None and e.diagnosis.is_standing
    ]
    return [table, *standing, Text(FOUND_LEGEND, style="dim")]


def _found_table(title: str, *left: str) -> Table:
    """Return an empty table of attacks found: each count has its chance beside it."""
    headers = ["found", "by\nchance", "p", "any\nalarm", "by\nchance"]
    table = _table(title, [*left, "rule"], [*headers, "time in\nalarm"])
    for column in table.columns[: len(left)]:
        column.min_width = 8
    # Many columns: less space between them.
    table.padding = (0, 1, 0, 0)
    return table


def _found_cells(
    rule: RungName | None, found: Count | None, rings: Count | None
) -> list[str]:
    """Return the rule, and two counts with what chance gives."""

    def beside_chance(count: Count | None) -> list[str]:
        if count is None:
            return [UNKNOWN, UNKNOWN]
        by_chance = mean_count(count.by_chance).replace("under ", "<")
        return [f"{count.count} of {count.total}", by_chance]

    return [
        UNKNOWN if rule is None else _RULES[rule],
        *beside_chance(found),
        probability(None if found is None else found.p_value),
        *beside_chance(rings),
    ]


def _standing(name: str, share_in_alarm: float | None) -> str:
    """Return why a rule that never stops finds nothing."""
    return (
        f"{name}: the present rule is in alarm in {share(share_in_alarm)} of "
        f"attack-free time, {share(STANDING)} or more of a usual stretch of it. An "
        "alarm that does not stop finds nothing."
    )


def _rules(evaluations: Sequence[Evaluation]) -> list[RenderableType]:
    """Return the rules in use and the chosen rule for the budget, on the same rows."""
    headers = ["false\nalarms", "time in\nalarm", "raised", "by\nchance", "skill"]
    budgets = dict.fromkeys(str(e.rules.budget) for e in evaluations if e.rules)
    title = f"Alarm rules for a budget of {names(list(budgets))}, on later rows"
    table = _table(title, ["stream", "rule"], headers)
    for column in table.columns[:2]:
        column.min_width = 8
    for e in evaluations:
        if e.rules is None:
            continue
        for row in (*e.rules.present, e.rules.row(e.rules.chosen)):
            raised = row.attacks
            is_known = raised.n_attacks > 0
            table.add_row(
                Text(_name(e)),
                row.name,
                UNKNOWN if not row.load.days else count_words(row.load),
                share(row.load.share_of_time, 1),
                f"{raised.raised} of {raised.n_attacks}" if is_known else UNKNOWN,
                mean_count(raised.raised_by_chance) if is_known else UNKNOWN,
                UNKNOWN if raised.skill is None else f"{raised.skill:.2f}",
            )
    return [table, Text(RULES_LEGEND, style="dim")] if table.row_count else []


def _attacks(e: Evaluation) -> RenderableType:
    """Return the table of attacks: alarms of the p99 rule, evidence, verdict.

    When they were, if the stream has dates; else their rows.
    """
    time = None if e.traces is None else e.traces.test_time
    is_dated = time is not None and len(time) > 0 and float(time[0]) >= FIRST_DATE
    place = "from, to" if is_dated else "rows"
    headers = [place, "time in\nalarm", "first\nalarm", "AUC", "window\nrank"]
    clock = f", {zone_words(e.stream.timezone)}" if is_dated else ""
    table = _table(f"Each attack{clock}", ["attack"], headers)
    table.columns[0].min_width = 8
    table.add_column("verdict", overflow="fold")
    for i, row in enumerate(e.segments[:MAX_ATTACKS]):
        table.add_row(
            Text(row.id),
            _between(time[row.start], time[row.stop - 1], e.stream.timezone)
            if is_dated and time is not None
            else f"{row.start:,}-{row.stop - 1:,}",
            share(row.coverage),
            row_span(row.first_alarm, e.stream.step_s),
            _share(row.auc),
            _window_rank(e, i),
            UNKNOWN if row.verdict is None else _sure(row.verdict, row.confidence),
        )
    parts: list[RenderableType] = [table]
    if len(e.segments) > MAX_ATTACKS:
        parts.append(_more(len(e.segments) - MAX_ATTACKS))
    return Group(*parts, Text(ATTACK_LEGEND, style="dim"))


def _between(first: float, last: float, zone: str | None) -> str:
    """Return two times on two lines, the second without the date of the first.

    Examples
    --------
    >>> _between(1_792_887_600, 1_792_894_800, "UTC")
    '2026-10-25 00:20:00\\n02:20:00'
    """
    start, end = stamp(first, zone), stamp(last, zone)
    date = start.split()[0] + " "
    return f"{start}\n{end.removeprefix(date)}"


def _sure(verdict: str, confidence: float | None) -> str:
    """Return a verdict with how sure it is; older results do not say that.

    Examples
    --------
    >>> _sure("diluted", 0.93), _sure("diluted", None)
    ('diluted (sure, 93%)', 'diluted')
    """
    if confidence is None or verdict == Verdict.UNDECIDED:
        return str(verdict)
    return f"{verdict} ({confidence_word(confidence)}, {share(confidence)})"


def _missed(e: Evaluation) -> list[RenderableType]:
    """Return why attacks were missed, and what to check first.

    Where causes cannot be told apart on the stream, that is said first, and no advice
    is given.
    """
    facts = e.diagnosis
    if facts is None:
        return []
    parts: list[RenderableType] = []
    if facts.advice_withheld is not None:
        parts.append(Text(facts.advice_withheld, style="bold"))
    missed = [row for row in e.segments if row.verdict != Verdict.DETECTED]
    parts += [Text("Why attacks were missed", style="bold")] if missed else []
    parts += [Text(_reason(row)) for row in missed[:MAX_MISSED]]
    if len(missed) > MAX_MISSED:
        parts.append(_more(len(missed) - MAX_MISSED))
    if facts.advice_withheld is None and e.repairs:
        shown = [repair.sentence for repair in e.repairs.values() if repair.sentence]
        parts += [Text(f"- {sentence}") for sentence in shown]
    return [*parts, Text()]


def _advice(e: Evaluation) -> list[RenderableType]:
    """Return what to change first, or why no alarm rule could be made."""
    if e.rules is not None:
        return [Text(e.rules.advice, style="bold"), Text()]
    if e.rules_refused is not None:
        return [Text(f"No alarm rule was made: {e.rules_refused}"), Text()]
    return []


def _reason(row: SegmentResult) -> str:
    sure = "" if row.confidence is None else f", {share(row.confidence)}"
    return f"{row.id} ({row.verdict}{sure}): {row.sentence}"


def _more(n: int) -> Text:
    return Text(f"... and {n} more in segments.csv", style="dim")


def _window_rank(e: Evaluation, i: int) -> str:
    """Return the share of matched normal windows with less evidence than attack i."""
    if e.traces is None or not e.segments[i].n_matched:
        return UNKNOWN
    k = e.traces.segment_group[i]
    first, last = e.traces.matched_bounds[k], e.traces.matched_bounds[k + 1]
    below = e.traces.matched_d_full[first:last] < e.traces.segment_d_full[i]
    return _share(float(below.mean()))


def _name(e: Evaluation) -> str:
    notes = [f"guard {e.guard}"] if e.guard else []
    if e.protocol is not Protocol.SIGHTLINE:
        notes.append(f"protocol {e.protocol}")
    return f"{e.stream.name} ({', '.join(notes)})" if notes else e.stream.name


def _by_rule(e: Evaluation, describe: Callable[[AlarmMetrics], str]) -> str:
    """Return one line for the detector's own rule, if it has one, and one for p99."""
    rules = [e.probe] if e.own_rule is None else [e.own_rule, e.probe]
    return "\n".join(describe(rule) for rule in rules)


def _false_alarms(e: Evaluation, rule: AlarmMetrics) -> str:
    """Return false alarms a day, or their number if the step is unknown.

    With the name of the rule if there are two.
    """
    text = false_alarm_words(rule)
    if rule.load is not None:
        text += f"\n{share(rule.time_in_alarm, 1)} of time"
    name = _RULES[RungName.OWN_RULE if rule is e.own_rule else RungName.PROBE]
    return text if e.own_rule is None else f"{name} {text}"


def _with_interval(e: Evaluation, figure: Figure, written: _Written) -> str:
    """Return a figure, and below it its 95% interval if there is one."""
    text = written(figure.of(e))
    interval = (e.intervals or {}).get(figure)
    if interval is None:
        return text
    low, high = interval
    if high is None:
        return f"{text}\nfrom {written(low)}"
    if written is _share:
        return f"{text}\n{100 * low:.0f}-{high:.0%}"
    return f"{text}\n{low:.2f}..{high:.2f}"


def _share(value: float | None) -> str:
    return share(value, 1)


def _score(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _rho(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:+.2f}"


def comparison(compared: Comparison) -> RenderableType:
    """Return the tables of a comparison that have rows, and its notices.

    Parameters
    ----------
    compared : Comparison
        As `sightline.compare` returns it.

    Returns
    -------
    RenderableType
        For a `rich` console, at most 80 columns wide.
    """
    parts = (
        _mean_ranks,
        _differences,
        _rankings,
        _agreement,
        _transfer,
        _detections,
        _verdicts,
    )
    tables = [figures_table(compared), *(part(compared) for part in parts)]
    notices = [
        _standing(f"{row.detector} on {row.testbed}", row.share_in_alarm)
        for row in compared.detections
        if row.is_standing
    ]
    return Group(
        *(table for table in tables if table.row_count),
        *(
            Text(f"- {notice}")
            for notice in [*_seen(compared), *notices, *compared.notices]
        ),
    )


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    """Return an empty table with left-aligned texts and right-aligned numbers."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for header in left:
        table.add_column(header, overflow="fold")
    for header in right:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def figures_table(compared: Comparison) -> Table:
    """Return the main figures of each detector on each testbed, over its seeds.

    With several seeds, the 95% interval of their mean stands below their range.
    """
    figures = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL, Figure.F1)
    several = any(row.n_seeds > 1 for row in compared.figures)
    over_seeds = ": mean over seeds, range, [95% interval]" if several else ""
    headers = [figure.label for figure in figures]
    table = _table(f"Figures{over_seeds}", ["testbed", "detector"], headers)
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for row in compared.figures:
        text, low, high = _score(row.mean), _score(row.low), _score(row.high)
        if low != high:
            text += f"\n{low}\u2013{high}"
        if row.n_seeds > 1 and row.interval is not None and row.interval[1] is not None:
            text += f"\n[{row.interval[0]:.2f}, {row.interval[1]:.2f}]"
        rows.setdefault((row.testbed, row.detector), {})[row.figure] = text
    for (testbed, detector), cells in sorted(rows.items()):
        table.add_row(testbed, detector, *(cells[figure] for figure in figures))
    return table


def _rankings(compared: Comparison) -> Table:
    """Return how often each ranking holds, for detectors with several seeds."""
    table = _table(
        "How often does the order hold over seeds, attacks as they are? (tie: half)",
        ["testbed", "figure", "order, and how often each is above the next"],
        ["whole order"],
    )
    for row in compared.rankings:
        if max(row.n_seeds) > 1:
            steps = [
                f" {above:.0%} > {name}"
                for above, name in zip(row.above, row.order[1:], strict=True)
            ]
            order = Text(row.order[0] + "".join(steps))
            label = Figure(row.figure).label
            table.add_row(row.testbed, label, order, f"{row.holds:.0%}")
    return table


def _mean_ranks(compared: Comparison) -> Table:
    """Return the mean ranks over attacks, and who is not told apart from whom."""
    table = _table(
        "Mean rank over attacks, by the AUC of each attack (1 is the best)",
        ["testbed", "detector"],
        ["mean rank"],
    )
    table.add_column("not told apart from", overflow="fold")
    for row in compared.ranks:
        for label, rank in zip(row.detectors, row.ranks, strict=True):
            alike = [
                one
                for one in row.detectors
                if one != label
                and any(label in group and one in group for group in row.groups)
            ]
            others = len(row.detectors) - 1
            told = "all others" if len(alike) == others > 1 else names(alike)
            table.add_row(
                Text(row.testbed), Text(label), f"{rank:.2f}", Text(told or UNKNOWN)
            )
    return table


def _seen(compared: Comparison) -> list[str]:
    """Return for each testbed which differences could have been seen."""
    by_testbed: dict[str, list[Difference]] = {}
    for row in compared.differences:
        if row.figure == Figure.ROC_AUC:
            by_testbed.setdefault(row.testbed, []).append(row)
    notices = []
    for testbed, rows in by_testbed.items():
        sizes = [row.detectable for row in rows if row.detectable is not None]
        attacks = sorted({row.n_attacks for row in rows})
        n = " to ".join(str(k) for k in dict.fromkeys((attacks[0], attacks[-1])))
        if not sizes:
            notices.append(f"{testbed}: {rows[0].power}")
            continue
        ends = dict.fromkeys(f"{end:.2g}" for end in (min(sizes), max(sizes)))
        notices.append(
            f"{testbed}: with {n} attacks a difference in ROC-AUC of "
            f"{' to '.join(ends)}, by pair, could have been seen."
        )
    return notices


def _differences(compared: Comparison) -> Table:
    """Return the differences of two detectors, figure by figure."""
    figures = (Figure.ROC_AUC, Figure.PAUC_1)
    table = _table(
        "Differences with 95% intervals (* p, over all pairs in this figure, <= 0.05)",
        ["testbed", "first - second"],
        [figure.label for figure in figures],
    )
    rows: dict[tuple[str, tuple[str, str]], dict[str, str]] = {}
    for row in compared.differences:
        text = f"{row.difference:+.3f}"
        if row.interval is not None:
            low, high = row.interval
            text += f" ({low:+.2f} to {high:+.2f})" + ("*" if row.has_star else " ")
        rows.setdefault((row.testbed, row.detectors), {})[row.figure] = text
    for (testbed, detectors), cells in rows.items():
        values = (cells.get(figure, UNKNOWN) for figure in figures)
        table.add_row(testbed, " - ".join(detectors), *values)
    return table


def _agreement(compared: Comparison) -> Table:
    """Return the rank correlation of evidence for each two detectors."""
    table = _table(
        "Do detectors agree on which attacks are strong? (D_FULL)",
        ["testbed", "detectors"],
        ["rho", "shared attacks", "only one has"],
    )
    for row in compared.agreement:
        table.add_row(
            row.testbed,
            names(row.detectors),
            _rho(row.rho),
            str(row.n_matched),
            f"{row.n_alone[0]} | {row.n_alone[1]}",
        )
    return table


def _transfer(compared: Comparison) -> Table:
    """Return whether rankings of detectors hold on another testbed."""
    table = _table(
        "Does a ranking of detectors hold on another testbed?",
        ["figure", "testbeds"],
        ["detectors", "rho", "p", "exact p"],
    )
    for row in compared.transfer:
        table.add_row(
            Figure(row.figure).label,
            " - ".join(row.testbeds),
            str(row.correlation.n),
            _rho(row.correlation.rho),
            _score(row.correlation.p_value),
            _score(row.correlation.p_exact),
        )
    return table


def _detections(compared: Comparison) -> Table:
    """Return how many attacks each detector's present rule finds."""
    table = _found_table("Attacks found (first seeds)", "testbed", "detector")
    for row in compared.detections:
        cells = _found_cells(row.rule, row.found, row.rings)
        table.add_row(
            Text(row.testbed), Text(row.detector), *cells, share(row.share_in_alarm, 1)
        )
    return table


def _verdicts(compared: Comparison) -> Table:
    """Return the attacks that some detector misses, with the joint verdicts."""
    title = "Attacks that not every detector detects (verdicts of all together)"
    table = _table(title, ["testbed", "attack", "verdicts"], [])
    for row in compared.verdicts:
        if row.reading != SEEN_BY_ALL:
            table.add_row(row.testbed, Text(row.attack), Text(_side_by_side(row)))
    return table


def _side_by_side(row: SideBySide) -> str:
    """Return the verdicts on one attack, how sure they are, and who vetoes."""
    words = ", ".join(
        f"{name}: {_sure(word, row.confidences[name])}"
        for name, word in row.joint_verdicts.items()
    )
    text = f"{words} ({row.reading})"
    if row.vetoed_by:
        text += f". The telemetry's own test does not show it; {names(row.vetoed_by)} "
        text += "shows it." if len(row.vetoed_by) == 1 else "show it."
    return text
