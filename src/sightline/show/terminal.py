"""Tables for a terminal, by rich."""

from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from sightline.show.table import RecordTable
from sightline.terminal import Terminal

# From this many columns on there is less space between them.
_MANY_COLUMNS = 8


def rendered(table: RecordTable[Any]) -> RichTable:
    """Return a table as a console prints it.

    Texts are folded where they do not fit, numbers stay on their line. Nothing in a
    name is taken as markup.
    """
    grid = RichTable(
        title=Text(table.title, style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0) if len(table.columns) >= _MANY_COLUMNS else (0, 1),
        show_header=any(column.header for column in table.columns),
    )
    for column in table.columns:
        is_text = column.align == "l" if column.wrap is None else column.wrap
        grid.add_column(
            column.header if isinstance(column.header, str) else column.line,
            justify="right" if column.align == "r" else "left",
            no_wrap=not is_text,
            overflow="fold" if is_text else "ellipsis",
            min_width=column.min_width,
        )
    for record in table.records:
        cells = (column.cell(record) for column in table.columns)
        grid.add_row(*(Text(cell.text, style=cell.style) for cell in cells))
    return grid


def with_legend(table: RecordTable[Any]) -> list[RenderableType]:
    """Return a table and its legend; nothing for a table without records."""
    if not table.records:
        return []
    # The terminal breaks the lines, not the source.
    legend = " ".join(table.legend.split())
    return [rendered(table), *([Text(f"{legend}\n", style="dim")] if legend else [])]


def facts(
    pairs: Iterable[tuple[str, str | Text]] | Iterable[tuple[Text, Text]],
    *,
    dim: bool = True,
    min_width: int | None = None,
) -> RichTable:
    """Return names with their texts, in two columns without lines.

    Parameters
    ----------
    pairs : iterable of pair
        Name and text.
    dim : bool
        Whether names are printed dim.
    min_width : int, optional
        Width of the names in characters, at the least.
    """
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim" if dim else "", min_width=min_width, overflow="fold")
    grid.add_column(overflow="fold")
    for pair in pairs:
        grid.add_row(*(Text(one) if isinstance(one, str) else one for one in pair))
    return grid


def bullets(title: str, sentences: Iterable[str]) -> list[RenderableType]:
    """Return a titled list of sentences, each once; nothing if there are none."""
    listed = list(dict.fromkeys(sentences))
    if not listed:
        return []
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    for sentence in listed:
        grid.add_row("-", Text(sentence))
    return [Text(f"\n{title}", style="bold"), grid]


def as_text(renderable: RenderableType, width: int = 80) -> str:
    """Return what a console would print, as plain text without styles.

    Parameters
    ----------
    renderable : RenderableType
        Such as `rendered` returns.
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
