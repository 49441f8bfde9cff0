"""The tables of docs/metrics.md, made from the docstrings of the records.

    python tests/metric_tables.py    writes the tables of the page again

A field's description begins with what it says; labelled sentences follow, such as
``Better: higher.`` Between ``<!-- table: Rank -->`` and ``<!-- end -->`` the page holds
the table of the record `Rank`.
"""

import inspect
import re
from dataclasses import fields
from pathlib import Path

from sightline.evaluation.result import (
    ReferenceFacts,
    SegmentResult,
    StreamFacts,
    TwoSided,
)
from sightline.judgement.verdicts import DiagnosisFacts, SegmentDiagnosis
from sightline.metrics.alarm_load import AlarmMetrics
from sightline.metrics.measures import Compactness, Drift, Quality, SegmentMeasures
from sightline.metrics.ranking import Rank
from sightline.metrics.windows import Windows
from sightline.rules.ceiling import Ceiling, RuleAtCeiling

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
RECORDS = {
    kind.__name__: kind
    for kind in (
        StreamFacts,
        ReferenceFacts,
        Rank,
        TwoSided,
        Drift,
        Compactness,
        Quality,
        AlarmMetrics,
        SegmentMeasures,
        SegmentDiagnosis,
        DiagnosisFacts,
        Windows,
        Ceiling,
        RuleAtCeiling,
    )
}
# The records of these are two tables on the page.
JOINED = {SegmentResult: (SegmentMeasures, SegmentDiagnosis, SegmentResult)}
LABELS = ("Formula", "Range", "Better", "Nothing wrong", "Paper", "Null")
HEAD = (
    "| key | what it says | formula | range | better | nothing wrong | paper | null, "
    "and when not to trust it |\n|---|---|---|---|---|---|---|---|\n"
)
_LABEL = re.compile(rf"(?:^|\s)({'|'.join(LABELS)}): ")
_MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.S)


def descriptions(kind: type) -> dict[tuple[str, ...], str]:
    """Return the description of each entry of "Parameters", by the names it is for."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")[2]
    # Another section, such as Examples, ends the parameters.
    text = re.split(r"\n\w+\n-+\n", text)[0]
    found: dict[tuple[str, ...], str] = {}
    names: tuple[str, ...] = ()
    for line in text.splitlines():
        if line and not line.startswith(" "):
            names = tuple(line.partition(" : ")[0].split(", "))
            found[names] = ""
        elif names:
            found[names] = f"{found[names]} {line.strip()}".strip()
    return found


def parts(description: str) -> dict[str, str]:
    """Return what a description says under each label; the plain text under ""."""
    pieces = _LABEL.split(description)
    said = {"": pieces[0], **dict(zip(pieces[1::2], pieces[2::2], strict=True))}
    return {label: text.strip().removesuffix(".") for label, text in said.items()}


def table(kind: type) -> str:
    """Return the table of a record, a row for each entry of its docstring."""
    rows = []
    for names, description in descriptions(kind).items():
        said = parts(description)
        cells = [", ".join(f"`{name}`" for name in names), said[""]]
        cells += [said.get(label) or "-" for label in LABELS]
        rows.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def with_tables(page: str) -> str:
    """Return the page with every marked table made again."""
    return _MARKED.sub(lambda m: f"{m[1]}{table(RECORDS[m[2]])}{m[3]}", page)


def undocumented(kind: type) -> set[str]:
    """Return the fields of a record that its docstring does not describe."""
    kinds = JOINED.get(kind, (kind,))
    documented = {n for one in kinds for names in descriptions(one) for n in names}
    return {field.name for field in fields(kind)} ^ documented


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
