"""What is shown of results: evaluations, attacks, comparisons."""

from sightline.comparison.compare import Comparison
from sightline.comparison.runs import Figure
from sightline.evaluation.result import Evaluation, SegmentResult
from sightline.judgement.confidence import confidence_word
from sightline.judgement.ladder import LADDER
from sightline.judgement.verdicts import Count, RungName, RungOutcome, info_of
from sightline.notebook.view import (
    MOST_NAMES,
    Cell,
    Mark,
    View,
    named,
    rows_of,
    shown,
    table_of,
)
from sightline.rules.advice import advice, false_alarm_words, load_words
from sightline.storage import Result
from sightline.text import (
    UNKNOWN,
    mean_count,
    names,
    number,
    p_value,
    probability,
    row_span,
    score,
    share,
)

_RULES = {RungName.OWN_RULE: "the detector's own rule", RungName.PROBE: "the p99 rule"}


def evaluation_view(value: Evaluation) -> View:
    """Show figures, attacks and verdicts, advice and notices."""
    facts, rule = value.diagnosis, value.own_rule or value.probe
    found = facts.found if facts is not None else None
    using = _RULES.get(facts.rule) if facts is not None and facts.rule else None
    rows = tuple(_attack_row(value, segment) for segment in value.segments)
    serious = [finding.line for finding in value.findings if finding.is_serious]
    advised = [] if value.rules is None else [advice(value.rules)]
    withheld = [facts.advice_withheld] if facts and facts.advice_withheld else []
    return shown(
        value,
        [
            ("detector", named(value.stream.detector)),
            ("testbed", named(value.stream.testbed)),
            ("attacks found", _found(found) and f"{_found(found)}, by {using}"),
            ("false alarms", f"{false_alarm_words(rule)}, {_in_alarm(value)}"),
            ("ROC-AUC", _figure(value, Figure.ROC_AUC)),
            ("pAUC@1%", _figure(value, Figure.PAUC_1)),
            ("alarm limit (tau99)", number(value.probe.tau99)),
            ("energy, train to test", _drift(value)),
        ],
        [
            table_of(
                "Attacks",
                ("attack", "rows", "verdict", "time in alarm", "first alarm", "why"),
                rows,
            )
        ],
        [*advised, *withheld, *serious, *value.notices],
    )


def _attack_row(evaluation: Evaluation, segment: SegmentResult) -> tuple[Cell, ...]:
    return (
        segment.id,
        rows_of(segment.start, segment.stop),
        _verdict(segment),
        share(segment.coverage),
        row_span(segment.first_alarm, evaluation.stream.step_s),
        segment.sentence or "",
    )


def _verdict(segment: SegmentResult) -> Cell:
    """Return the verdict with its symbol, and how sure it is."""
    if segment.verdict is None:
        return "not judged"
    word = str(segment.verdict)
    if segment.confidence is not None:
        sure = confidence_word(segment.confidence)
        word += f" ({sure}, {share(segment.confidence)})"
    return Mark(word, info_of(segment.verdict))


def _found(count: Count | None) -> str | None:
    """Return how many attacks, and how many by chance; None without attacks."""
    if count is None:
        return None
    chance = f"{mean_count(count.by_chance)} by chance, {p_value(count.p_value)}"
    return f"{count.count} of {count.total} ({chance})"


def _in_alarm(e: Evaluation) -> str:
    rule = e.own_rule or e.probe
    return f"{share(rule.time_in_alarm, 1)} of attack-free time in alarm"


def _figure(e: Evaluation, figure: Figure) -> str | None:
    """Return a figure with its 95% interval; None where it is undefined."""
    value, ends = figure.of(e), (e.intervals or {}).get(figure)
    if value is None:
        return None
    if ends is None:
        return score(value)
    high = "no upper end" if ends[1] is None else score(ends[1])
    return f"{score(value)} (95% interval {score(ends[0])} to {high})"


def _drift(e: Evaluation) -> str:
    level, rise = e.compactness.p_eff / 2, e.drift.d_drift_robust
    after = number(None if rise is None else level + rise)
    return f"mean {number(level)} to median {after}"


def segment_view(value: SegmentResult) -> View:
    """Show its verdict, and what would show it."""
    ladder = value.ladder or {}
    rows = tuple(_rung_row(name, outcome) for name, outcome in ladder.items())
    headers = ("looked at", "shows it", "of the attack", "of calm time", "p", "by")
    return shown(
        value,
        [
            ("verdict", _verdict(value)),
            ("targets", names(value.targets, MOST_NAMES)),
            ("evidence in", names(value.evidence_channels or (), MOST_NAMES)),
            ("time in alarm (p99 rule)", share(value.coverage)),
            ("AUC", score(value.auc)),
            ("evidence (D_FULL)", number(value.d_full)),
        ],
        [table_of("What would show it: share of rows beyond the limit", headers, rows)],
        [text for text in (value.sentence, value.note) if text],
    )


def _rung_row(name: str, outcome: RungOutcome) -> tuple[str, ...]:
    """Return what one way to look at an attack shows of it."""
    rung = LADDER[RungName(name)] if name in LADDER else None
    written = share if rung is None or rung.is_coverage else _times
    return (
        str(name) if rung is None else rung.label,
        "yes" if outcome.visible else "no",
        written(outcome.coverage),
        written(outcome.calm),
        probability(outcome.p_value),
        _used(outcome.by),
    )


def _used(by: tuple[str, ...]) -> str:
    """Return what a rung used: channels, or what is accumulated over how many rows.

    Examples
    --------
    >>> _used(("LIT101", "P101")), _used(("the energy", "30"))
    ('LIT101 and P101', 'the energy over 30 rows')
    """
    if len(by) == 2 and by[1].isdigit():
        return f"{by[0]} over {by[1]} rows"
    return names(by, MOST_NAMES)


def _times(value: float) -> str:
    return f"{number(value)} x usual"


def result_view(value: Result) -> View:
    """Show its evaluation."""
    return evaluation_view(value.evaluation)


def comparison_view(value: Comparison) -> View:
    """Show figures side by side, differences, attacks found."""
    wanted = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL, Figure.F1)
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in value.figures:
        cells.setdefault((row.testbed, row.detector), {})[row.figure] = score(row.mean)
    figures = tuple(
        (*key, *(by_figure.get(f, UNKNOWN) for f in wanted))
        for key, by_figure in cells.items()
    )
    differences = tuple(
        (
            row.testbed,
            " - ".join(row.detectors),
            Figure(row.figure).label,
            f"{row.difference:+.3f}",
            _ends(row.interval),
            probability(row.p_adjusted) + (" *" if row.has_star else ""),
        )
        for row in value.differences
        if row.figure in (Figure.ROC_AUC, Figure.PAUC_1)
    )
    found = tuple(
        (
            row.testbed,
            row.detector,
            _found(row.found) or UNKNOWN,
            UNKNOWN if row.load is None else load_words(row.load),
        )
        for row in value.detections
    )
    heads = ("testbed", "detector")
    return shown(
        value,
        (),
        [
            table_of("Figures", (*heads, *(f.label for f in wanted)), figures),
            table_of(
                "Differences on shared attacks (* beyond chance over all pairs)",
                ("testbed", "first - second", "figure", "difference", "95%", "p"),
                differences,
            ),
            table_of("Attacks found", (*heads, "found", "false alarms"), found),
        ],
        value.notices,
    )


def _ends(interval: tuple[float, float] | None) -> str:
    return UNKNOWN if interval is None else f"{interval[0]:+.2f} to {interval[1]:+.2f}"
