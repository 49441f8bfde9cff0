"""What is shown of a sensitivity: ranges of figures, and rankings that change."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sightline.evaluation.result import FigureRange
from sightline.figures import FIGURES
from sightline.show.table import Column, Columns, RecordTable, TableCell

FILE: Final = "sensitivity.json"


def _text(one: FigureRange, key: str) -> str:
    value = getattr(one, key)
    return "" if value is None else FIGURES[one.figure].text(value)


def _end(key: str, header: str) -> Column[FigureRange]:
    """Return the column of an end, with its choice unless it reads as default."""

    def get(one: FigureRange) -> TableCell:
        by, shown = getattr(one, f"{key}_by"), _text(one, key)
        if shown != _text(one, "default"):
            # Words instead of a name with hyphens, which no terminal breaks well.
            shown += f" {by.replace('-', ' ')}"
        return TableCell(shown, values=(getattr(one, key), by))

    return Column(key, header, get, parts=("", "by"))


RANGES: Columns[FigureRange] = (
    Column(
        "figure",
        "figure",
        lambda r: TableCell(FIGURES[r.figure].name, values=(str(r.figure),)),
    ),
    Column("stream", "stream", lambda r: r.stream),
    Column(
        "default",
        "default",
        lambda r: TableCell(_text(r, "default"), values=(r.default,)),
        "r",
    ),
    _end("low", "lowest, by"),
    _end("high", "highest, by"),
)


def ranking_lines(found: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each figure whose ranking of streams changes."""
    changed: Mapping[str, list[str]] = found["changed_rankings"]
    lines = [
        f"Streams change places by {FIGURES[figure].name} under {'; '.join(settings)}."
        for figure, settings in changed.items()
    ]
    if not lines and len({row["stream"] for row in found["ranges"]}) > 1:
        lines.append("No streams change places under any setting.")
    return lines


def page_sensitivity(
    folder: Path,
) -> tuple[RecordTable[FigureRange], list[str]] | None:
    """Return table and sentences of the sensitivity beside results; None without one.

    A file that is none is passed over: it belongs to somebody else.
    """
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        ranges = [FigureRange(**row) for row in found["ranges"]]
        lines = [*ranking_lines(found), *found["notices"]]
        known = [row for row in ranges if row.figure in FIGURES]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return RecordTable("Sensitivity", RANGES, known), lines
