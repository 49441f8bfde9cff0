"""What a view is made of, and the one template that turns it into HTML.

A view holds plain values alone. The template escapes every one of them, so that no name
of a tag or file can become markup.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from sightline.judgement.verdicts import VerdictInfo
from sightline.showing import Shown
from sightline.text import legible

if TYPE_CHECKING:
    from jinja2 import Template


# Rows of a table, and names in a list, before the rest is counted.
MOST_ROWS, MOST_NAMES = 40, 8


@dataclass(frozen=True)
class Mark:
    """A word with the symbol and the colours of its verdict."""

    word: str
    info: VerdictInfo


# A cell of a table, or the value of a fact.
Cell = str | Mark
Facts = Iterable[tuple[str, Cell | None]]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a view.

    Parameters
    ----------
    title : str
        Above it.
    headers : tuple of str
        One for each column.
    rows : tuple of tuple
        Cells: text, or a `Mark`.
    left_out : int
        How many rows there are beyond these.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int = 0


@dataclass(frozen=True, kw_only=True)
class View:
    """What is shown of a value.

    Parameters
    ----------
    kind, line : str
        What it is, and its one line, as in its `repr`.
    facts : tuple of pair
        Name and value, both text.
    tables : tuple of Table
        Those without rows are left out.
    notes : tuple of str
        Sentences below.
    """

    kind: str
    line: str
    facts: tuple[tuple[str, Cell], ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def rendered(view: View) -> str:
    """Return a view as HTML that needs nothing else: no script, no network.

    Parameters
    ----------
    view : View
        Plain values.

    Returns
    -------
    str
        A ``div`` with its style; every text is escaped, and what would control a
        terminal or the direction of writing is spelled out.

    Examples
    --------
    >>> "<b>" in rendered(View(kind="Stream", line="'<b>'"))
    False
    """
    return _template().render(view=view)


@cache
def _template() -> "Template":
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["legible"] = lambda text: legible(str(text))
    path = files("sightline.notebook") / "assets" / "view.html"
    return environment.from_string(path.read_text(encoding="utf-8"))


def shown(
    value: Shown,
    facts: Facts = (),
    tables: Iterable[Table] = (),
    notes: Sequence[str] = (),
) -> View:
    """Return a view; facts without a value and repeated notes are left out."""
    return View(
        kind=type(value).__name__,
        line=value._line(),
        facts=tuple((name, fact) for name, fact in facts if fact),
        tables=tuple(tables),
        notes=tuple(dict.fromkeys(notes)),
    )


def table_of(
    title: str, headers: tuple[str, ...], rows: tuple[tuple[Cell, ...], ...]
) -> Table:
    """Return a table of the first rows, and how many are left out."""
    return Table(
        title=title,
        headers=headers,
        rows=rows[:MOST_ROWS],
        left_out=max(0, len(rows) - MOST_ROWS),
    )


def named(name: str | None) -> str | None:
    """Return a name; None if it is empty, so that the fact is left out."""
    return name or None


def rows_of(start: int, stop: int) -> str:
    """Return the first and the last of some rows, which stay on one line.

    Examples
    --------
    >>> rows_of(1000, 1090)
    '1,000\u20131,089'
    """
    return f"{start:,}\N{EN DASH}{stop - 1:,}"
