"""An evaluation told in plain words, as a table for the terminal."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.comparison.compare import Comparison
from sightline.evaluation.result import Evaluation
from sightline.metrics.probe import AlarmMetrics

NOT_KNOWN = "-"
# More attacks than this are left to segments.csv.
MOST_ATTACKS = 40
# Of these so many are explained in words.
MOST_MISSED = 12
LEGEND = """\
Alarms: energy above the 99th percentile of train energy (p99), nothing tuned;
before it, where given, the detector's own rule.
Attack above normal: how often a step under attack has more energy than a
normal one (ROC-AUC, 50% is chance); the same with each attack weighing alike;
and at false-alarm rates up to 1% only (pAUC, 0 is chance, 1 is perfect). Below
each its 95% interval.
Normal energy: mean of train, median of attack-free test; a large rise is drift.
"""


ATTACK_LEGEND = """\
In alarm: share of its steps. Nearby: against normal steps close in time. As one
window: share of normal windows of its length that have less evidence (D_FULL).
"""
_PLAIN: dict[str, Any] = {
    "title_justify": "left",
    "title_style": "bold",
    "box": SIMPLE_HEAD,
    "pad_edge": False,
}


def summary(evaluations: Sequence[Evaluation]) -> RenderableType:
    """Return one table row for each evaluation, and below what to watch out for."""
    table = Table(title="What the residuals show", **_PLAIN)
    table.add_column("stream", overflow="fold", min_width=8)
    headers = [
        "attacks\nalarmed",
        "false\nalarms",
        "attack\nabove\nnormal",
        "each\nattack\nalike",
        "at <=1%\nfalse\nalarms",
        "normal\nenergy\ntrain/test",
    ]
    for header in headers:
        table.add_column(header, justify="right", overflow="fold")
    for e in evaluations:
        table.add_row(
            Text(_name(e)),
            _by_rule(e, partial(_alarmed, e)),
            _by_rule(e, _false_alarms),
            _with_interval(e, "roc_auc", _share),
            _with_interval(e, "mean_segment_auc", _share),
            _with_interval(e, "pauc_1", _score),
            _drift(e),
        )
    parts: list[RenderableType] = [table, Text(LEGEND, style="dim")]
    if len(evaluations) == 1 and evaluations[0].segments:
        parts += [_attacks(evaluations[0]), *_missed(evaluations[0])]
    return Group(*parts, *_remarks(evaluations))


def _attacks(e: Evaluation) -> RenderableType:
    """Return what the energy and the p99 rule made of each attack."""
    table = Table(title="Each attack", **_PLAIN)
    table.add_column("attack", overflow="fold", min_width=8)
    headers = (
        "rows",
        "in\nalarm",
        "first\nalarm",
        "above\nnormal",
        "the same\nnearby",
        "as one\nwindow",
    )
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for i, row in enumerate(e.segments[:MOST_ATTACKS]):
        first = NOT_KNOWN if row.first_alarm is None else f"{row.first_alarm:,} rows"
        table.add_row(
            Text(row.id),
            f"{row.start:,}-{row.stop - 1:,}",
            f"{row.coverage:.0%}",
            first if row.first_alarm_s is None else _duration(row.first_alarm_s),
            _share(row.auc),
            _share(row.auc_nearby),
            _outweighed(e, i),
        )
    hidden = len(e.segments) - MOST_ATTACKS
    legend = Text(ATTACK_LEGEND, style="dim")
    if hidden <= 0:
        return Group(table, legend)
    more = Text(f"... and {hidden} more in segments.csv", style="dim")
    return Group(table, more, legend)


def _missed(e: Evaluation) -> list[RenderableType]:
    """Return why attacks were missed, and what to check first."""
    if e.diagnosis is None:
        return []
    missed = [row for row in e.segments if row.verdict != "detected"]
    parts: list[RenderableType] = []
    if missed:
        parts.append(Text("Why attacks were missed", style="bold"))
    parts += [
        Text(f"{row.id} ({row.verdict}): {row.sentence}")
        for row in missed[:MOST_MISSED]
    ]
    if len(missed) > MOST_MISSED:
        more = f"... and {len(missed) - MOST_MISSED} more in segments.csv"
        parts.append(Text(more, style="dim"))
    return [*parts, Text(str(e.diagnosis["advice"]), style="bold"), Text()]


def _outweighed(e: Evaluation, i: int) -> str:
    """Return the share of its matched windows that an attack outweighs."""
    if e.traces is None or not e.segments[i].n_matched:
        return NOT_KNOWN
    k = e.traces.segment_group[i]
    first, last = e.traces.matched_bounds[k], e.traces.matched_bounds[k + 1]
    below = e.traces.matched_d_full[first:last] < e.traces.segment_d_full[i]
    return f"{below.mean():.1%}"


def _remarks(evaluations: Sequence[Evaluation]) -> list[RenderableType]:
    several = len(evaluations) > 1
    return [
        Text(f"- {_name(e)}: {remark}" if several else f"- {remark}")
        for e in evaluations
        for remark in e.notices
    ]


def _name(e: Evaluation) -> str:
    return f"{e.stream.name} (guard {e.guard})" if e.guard else e.stream.name


def _by_rule(e: Evaluation, told: Callable[[AlarmMetrics], str]) -> str:
    """Return what is told of the user's own rule, where there is one, then of p99."""
    rules = [e.probe] if e.own_rule is None else [e.own_rule, e.probe]
    return "\n".join(told(rule) for rule in rules)


def _alarmed(e: Evaluation, rule: AlarmMetrics) -> str:
    if e.stream.n_segments == 0:
        return NOT_KNOWN
    found = f"{rule.hits} of {e.stream.n_segments}"
    if e.own_rule is None:
        return found
    return f"own {found}" if rule is e.own_rule else f"p99 {found}"


def _false_alarms(rule: AlarmMetrics) -> str:
    if rule.false_alarms_per_day is None:
        return f"{rule.false_positive_segments} in all"
    a_day = rule.false_alarms_per_day
    return f"{a_day:.1f}/day" if a_day < 1000 else f"{a_day:.2g}/day"


def _with_interval(
    e: Evaluation, name: str, written: Callable[[float | None], str]
) -> str:
    """Return a rank figure, and below it its 95% interval where there is one."""
    figure = written(getattr(e.rank, name))
    interval = (e.intervals or {}).get(name)
    if interval is None:
        return figure
    if written is _share:
        return f"{figure}\n{100 * interval[0]:.0f}-{interval[1]:.0%}"
    return f"{figure}\n{interval[0]:.2f}..{interval[1]:.2f}"


def _drift(e: Evaluation) -> str:
    train = e.compactness.p_eff / 2
    moved = e.drift.d_drift_robust
    test = None if moved is None else train + moved
    return f"{_number(train)}/{_number(test)}"


def _duration(seconds: float) -> str:
    if seconds < 1000:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def _share(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.1%}"


def _score(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.3f}"


def _number(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.3g}"


def comparison(compared: Comparison) -> RenderableType:
    """Return the tables of a comparison, those that have rows."""
    parts: list[RenderableType] = [
        figures_table(compared),
        _rankings(compared),
        _differences(compared),
        _agreement(compared),
        _transfer(compared),
        _verdicts(compared),
    ]
    shown = [part for part in parts if isinstance(part, Table) and part.row_count]
    return Group(*shown, *(Text(f"- {notice}") for notice in compared.notices))


def _verdicts(compared: Comparison) -> Table:
    """Return one row for each attack that detectors do not all see."""
    table = _table(
        "Attacks that not every detector sees", ["testbed", "attack", "verdicts"], []
    )
    for row in compared.verdicts:
        if row.reading != "seen by all":
            told = ", ".join(f"{name}: {word}" for name, word in row.verdicts.items())
            table.add_row(
                row.testbed, Text(row.attack), Text(f"{told} ({row.reading})")
            )
    return table


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=title, **_PLAIN)
    for header in left:
        table.add_column(header, overflow="fold")
    for header in right:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def figures_table(compared: Comparison) -> Table:
    """Return the main figures of each detector on each testbed, over its seeds."""
    shown = ("roc_auc", "pauc_1", "p_full", "f1")
    several = any(row.n_seeds > 1 for row in compared.figures)
    over_seeds = ": the mean over seeds, and below it the range" if several else ""
    table = _table(
        f"Figures{over_seeds}",
        ["testbed", "detector"],
        ["ROC-AUC", "pAUC 1%", "P_FULL", "F1@p99"],
    )
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for row in compared.figures:
        text = _score(row.mean)
        low, high = _score(row.low), _score(row.high)
        if low != high:
            text += f"\n{low}\u2013{high}"
        rows.setdefault((row.testbed, row.detector), {})[row.figure] = text
    for (testbed, detector), cells in sorted(rows.items()):
        table.add_row(testbed, detector, *(cells[name] for name in shown))
    return table


def _rankings(compared: Comparison) -> Table:
    """Return how often each ranking holds, where some detector has several seeds."""
    table = _table(
        "How often does the ranking hold over seeds? (a tie counts half)",
        ["testbed", "figure", "order, and how often each is above the next"],
        ["whole order"],
    )
    for row in compared.rankings:
        if max(row.n_seeds) > 1:
            steps = [
                f" {share:.0%} > {name}"
                for share, name in zip(row.above, row.order[1:], strict=True)
            ]
            told = row.order[0] + "".join(steps)
            table.add_row(row.testbed, row.figure, Text(told), f"{row.holds:.0%}")
    return table


def _differences(compared: Comparison) -> Table:
    table = _table(
        "Differences with 95% intervals, from the same draws (* leaves out 0)",
        ["testbed", "first - second"],
        ["ROC-AUC", "pAUC 1%"],
    )
    rows: dict[tuple[str, tuple[str, str]], dict[str, str]] = {}
    for row in compared.differences:
        text = f"{row.difference:+.3f}"
        if row.interval is not None:
            low, high = row.interval
            text += f" ({low:+.3f} to {high:+.3f})" + ("*" if low * high > 0 else " ")
        rows.setdefault((row.testbed, row.detectors), {})[row.figure] = text
    for (testbed, detectors), cells in rows.items():
        table.add_row(
            testbed,
            " - ".join(detectors),
            *(cells.get(name, NOT_KNOWN) for name in ("roc_auc", "pauc_1")),
        )
    return table


def _agreement(compared: Comparison) -> Table:
    table = _table(
        "Do detectors find the same attacks strong? (D_FULL over shared attacks)",
        ["testbed", "detectors"],
        ["rho", "attacks shared", "alone"],
    )
    for row in compared.agreement:
        table.add_row(
            row.testbed,
            " and ".join(row.detectors),
            NOT_KNOWN if row.rho is None else f"{row.rho:+.2f}",
            str(row.n_matched),
            f"{row.n_alone[0]} | {row.n_alone[1]}",
        )
    return table


def _transfer(compared: Comparison) -> Table:
    table = _table(
        "Does a ranking of detectors carry over to another testbed?",
        ["figure", "testbeds"],
        ["detectors", "rho", "p", "exact p"],
    )
    for row in compared.transfer:
        rho = row.correlation.rho
        table.add_row(
            row.figure,
            " - ".join(row.testbeds),
            str(row.correlation.n),
            NOT_KNOWN if rho is None else f"{rho:+.2f}",
            _score(row.correlation.p_value),
            _score(row.correlation.p_exact),
        )
    return table
