"""What the terminal shows of evaluations and of a comparison: tables and sentences."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from sightline.comparison.compare import Comparison
from sightline.evaluation.result import Evaluation
from sightline.judgement.judge import METHOD
from sightline.judgement.verdicts import Verdict
from sightline.show import attacks, rules
from sightline.show.comparison import seen_differences, terminal_tables
from sightline.show.evaluations import (
    EVALUATIONS,
    LEGEND,
    caught_table,
    name_of,
    standing_words,
)
from sightline.show.table import RecordTable
from sightline.show.terminal import rendered, with_legend
from sightline.text import Labelling, as_labelled, names, plural, share

# Missed attacks that are explained in words.
MAX_MISSED = 12
EARLIER_RULES = (
    "Verdicts were made by the rules of an earlier version, which judged many attacks "
    "differently: evaluate again to renew them."
)


def audit_words(n_serious: int) -> str:
    """Return where the errors and warnings of an audit are printed."""
    findings = plural(n_serious, "serious finding")
    return (
        f"The audit of the data made {findings}: `sightline inspect` and the report "
        "have them."
    )


def summary(evaluations: Sequence[Evaluation]) -> RenderableType:
    """Return the table of evaluations, with details of the attacks of a single one.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        One row each, and one row each on the attacks caught, with chance and cost. If
        there is only one, its attacks and the reasons why they were missed follow.

    Returns
    -------
    RenderableType
        For a `rich` console, at most 80 columns wide; ends with the errors and
        warnings of the protocol, how many the data's audit has, and all notices.
    """
    table = RecordTable("Evaluation", EVALUATIONS, evaluations, LEGEND)
    labels = Labelling.of_all(e.stream.labels for e in evaluations)
    parts = with_legend(table.as_labelled(labels))
    if caught := with_legend(caught_table(evaluations)):
        standing = [
            Text(standing_words(name_of(e), e.diagnosis.share_in_alarm), style="bold")
            for e in evaluations
            if e.diagnosis is not None and e.diagnosis.is_standing
        ]
        parts += [caught[0], *standing, *caught[1:]]
    parts += with_legend(rules.terminal_table(evaluations))
    if len(evaluations) == 1:
        (e,) = evaluations
        parts += _attacks(e)
        if e.rules is not None:
            parts += [Text(e.rules.advice, style="bold"), Text()]
        elif e.rules_refused is not None:
            refused = as_labelled(e.rules_refused, labels)
            parts += [Text(f"No alarm rule was made: {refused}"), Text()]
    serious = [one for e in evaluations for one in e.findings if one.is_serious]
    of_method = dict.fromkeys(one.line for one in serious if one.is_protocol)
    parts += [Text(f"- {line}", style="bold") for line in of_method]
    if n_data := len({one.line for one in serious if not one.is_protocol}):
        parts.append(Text(f"- {audit_words(n_data)}"))
    return Group(*parts, *seen_notices(evaluations))


def seen_notices(evaluations: Sequence[Evaluation]) -> Iterator[Text]:
    """Yield each notice once, with the streams it is about; none named if it is all."""
    about: dict[str, list[str]] = {}
    for e in evaluations:
        is_earlier = e.diagnosis is not None and e.diagnosis.method < METHOD
        for notice in dict.fromkeys((*e.notices, *[EARLIER_RULES] * is_earlier)):
            about.setdefault(notice, []).append(name_of(e))
    for notice, streams in about.items():
        is_of_all = len(streams) == len(evaluations)
        yield Text(f"- {'' if is_of_all else f'{names(streams)}: '}{notice}")


def _attacks(e: Evaluation) -> list[RenderableType]:
    """Return the table of attacks, why attacks were missed, and what to check first.

    Where causes cannot be told apart on the stream, that is said first, and no advice
    is given.
    """
    parts = with_legend(attacks.terminal_table(e))
    if len(e.segments) > attacks.MAX_ATTACKS:
        parts.insert(1, _more(len(e.segments) - attacks.MAX_ATTACKS))
    facts, labels = e.diagnosis, e.stream.labels
    if facts is None or not parts:
        return parts
    if facts.advice_withheld is not None:
        parts.append(Text(facts.advice_withheld, style="bold"))
    missed = [row for row in e.segments if row.verdict != Verdict.DETECTED]
    why = as_labelled("Attacks that are not detected, and why", labels)
    parts += [Text(why, style="bold")] if missed else []
    for row in missed[:MAX_MISSED]:
        sure = "" if row.confidence is None else f", {share(row.confidence)}"
        why = as_labelled(row.sentence or "", labels)
        parts.append(Text(f"{row.id} ({row.verdict}{sure}): {why}"))
    if len(missed) > MAX_MISSED:
        parts.append(_more(len(missed) - MAX_MISSED))
    if facts.advice_withheld is None and e.repairs:
        sentences = [one.sentence for one in e.repairs.values() if one.sentence]
        parts += [Text(f"- {sentence}") for sentence in sentences]
    return [*parts, Text()]


def _more(n: int) -> Text:
    return Text(f"... and {n} more in segments.csv", style="dim")


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
    standing = [
        standing_words(f"{row.detector} on {row.testbed}", row.share_in_alarm)
        for row in compared.detections
        if row.is_standing
    ]
    notices = [*seen_differences(compared), *standing, *compared.notices]
    return Group(
        *(rendered(table) for table in terminal_tables(compared) if table.records),
        *(Text(f"- {as_labelled(notice, compared.labels)}") for notice in notices),
    )
