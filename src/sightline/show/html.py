"""Tables and facts as HTML for a notebook, by one template.

A view holds plain values alone. The template escapes every one of them, so that no name
of a tag or file can become markup.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sightline.show.table import RecordTable, TableCell
from sightline.showing import Shown
from sightline.text import legible

if TYPE_CHECKING:
    from jinja2 import Template


# Rows of a table, and names in a list, before the rest is counted.
MOST_ROWS, MOST_NAMES = 40, 8
Facts = Iterable[tuple[str, str | TableCell | None]]


@dataclass(frozen=True, kw_only=True)
class NotebookView:
    """What is shown of a value.

    Parameters
    ----------
    kind, line : str
        What it is, and its one line, as in its `repr`.
    facts : tuple of pair
        Name and value.
    tables : tuple of RecordTable
        Of each the first `MOST_ROWS` records; those without records are left out.
    notes : tuple of str
        Sentences below.
    """

    kind: str
    line: str
    facts: tuple[tuple[str, str | TableCell], ...] = ()
    tables: tuple[RecordTable[Any], ...] = ()
    notes: tuple[str, ...] = ()


def shown(
    value: Shown,
    facts: Facts = (),
    tables: Iterable[RecordTable[Any]] = (),
    notes: Sequence[str] = (),
) -> NotebookView:
    """Return a view; facts without a value and repeated notes are left out."""
    return NotebookView(
        kind=type(value).__name__,
        line=value._line(),
        facts=tuple((name, fact) for name, fact in facts if fact),
        tables=tuple(tables),
        notes=tuple(dict.fromkeys(notes)),
    )


def rendered(view: NotebookView) -> str:
    """Return a view as HTML that needs nothing else: no script, no network.

    Parameters
    ----------
    view : NotebookView
        Plain values.

    Returns
    -------
    str
        A ``div`` with its style; every text is escaped, and what would control a
        terminal or the direction of writing is spelled out.

    Examples
    --------
    >>> "<b>" in rendered(NotebookView(kind="Stream", line="'<b>'"))
    False
    """
    return _template().render(view=view, most=MOST_ROWS)


@cache
def _template() -> "Template":
    """Return the template, read once."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["legible"] = lambda text: legible(str(text))
    path = files("sightline.show") / "templates" / "view.html"
    return environment.from_string(path.read_text(encoding="utf-8"))
