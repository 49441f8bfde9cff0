"""Testbeds and the audit of their files, as tables for the terminal."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.facts.audit import Audit, Level
from sightline.testbeds.base import TestbedCard

_MARKS: dict[Level, tuple[str, str]] = {
    "wrong": ("WRONG", "bold red"),
    "note": ("note", "yellow"),
    "right": ("right", "green"),
}


def cards_table(
    cards: Sequence[TestbedCard], found: Mapping[str, Sequence[str]] | None
) -> RenderableType:
    """Return what testbeds there are, and which were found below a folder."""
    parts: list[RenderableType] = []
    for card in cards:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", min_width=10)
        table.add_column(overflow="fold")
        table.add_row("what", Text(card.what))
        table.add_row("channels", Text(card.channels))
        table.add_row("attacks", Text(card.attacks))
        if len(card.releases) > 1:
            table.add_row("releases", Text(", ".join(card.releases)))
        table.add_row("licence", Text(card.licence))
        table.add_row("to get it", Text(card.where))
        table.add_row("found", _found(card, found))
        parts += [Text(card.name, style="bold"), table, Text()]
    parts.append(
        Text(
            "One's own plant: a folder with train.csv and test.csv; see "
            "docs/own-plant.md."
        )
    )
    return Group(*parts)


def _found(card: TestbedCard, found: Mapping[str, Sequence[str]] | None) -> Text:
    if not card.releases:
        return Text("always", style="green")
    if found is None:
        return Text("say where to look with --root", style="dim")
    releases = found.get(card.name, ())
    if not releases:
        return Text("no")
    return Text(", ".join(releases) if len(card.releases) > 1 else "yes", style="green")


def audit_table(audit: Audit) -> RenderableType:
    """Return what was found in files, what is wrong first."""
    files = Table(title=f"Audit: {audit.title}", title_justify="left", box=SIMPLE_HEAD)
    files.add_column("file", overflow="fold", ratio=1)
    files.add_column("rows", justify="right", no_wrap=True)
    files.add_column("expected", justify="right", no_wrap=True)
    files.add_column("gaps", justify="right", no_wrap=True)
    files.add_column("from, to", no_wrap=True)
    for row in audit.files:
        is_right = row.expected is None or row.expected == row.rows
        files.add_row(
            Text(row.place),
            Text(f"{row.rows:,}", style="" if is_right else "bold red"),
            "-" if row.expected is None else f"{row.expected:,}",
            str(row.gaps),
            f"{row.first}\n{row.last}",
        )
    findings = Table.grid(padding=(0, 2))
    findings.add_column(no_wrap=True)
    findings.add_column(overflow="fold")
    for level, (word, style) in _MARKS.items():
        for finding in audit.findings:
            if finding.level == level:
                findings.add_row(Text(word, style=style), Text(finding.text))
    n_wrong = sum(finding.level == "wrong" for finding in audit.findings)
    verdict = (
        Text("\nThe data are what they should be.", style="green")
        if audit.is_right
        else Text(
            f"\nThe data are not what they should be: {n_wrong} finding"
            f"{'' if n_wrong == 1 else 's'} above.",
            style="bold red",
        )
    )
    return Group(files, findings, verdict)
