"""What a table is: a list of columns over records.

A column says once what it is called, what it shows of a record, and what it means.
Renderers arrange columns and write them: `sightline.show.terminal` for the terminal,
`sightline.show.html` for notebooks, `sightline.show.plain` for CSV files and frames,
`sightline.show.printed` for Markdown and LaTeX.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sightline.show.phrases import Phrase

if TYPE_CHECKING:
    from sightline.judgement.verdicts import VerdictInfo

Record = TypeVar("Record")
# A column of a record serves every table whose records have what it asks for.
Seen = TypeVar("Seen", contravariant=True)
Other = TypeVar("Other")


@dataclass(frozen=True)
class TableCell:
    """What a column shows of one record.

    Parameters
    ----------
    text : str
        What people read.
    values : tuple
        Plain values for CSV and frames, one for each part of the column; by default the
        text.
    style : str
        How a terminal writes it: ``bold``, ``green``, ...
    mark : VerdictInfo, optional
        Verdict whose symbol and colours stand before the text in HTML.
    printed : Phrase, optional
        The text in Markdown and LaTeX; by default `text`, escaped.
    """

    text: str = ""
    values: tuple[Any, ...] | None = None
    style: str = ""
    mark: "VerdictInfo | None" = None
    printed: Phrase | None = None


@dataclass(frozen=True)
class Column(Generic[Seen]):
    """A column of a table.

    Parameters
    ----------
    key : str
        Its name in CSV files and frames, and where columns are picked.
    header : str or Phrase
        The text above it; where a line may be broken it has a line break.
    get : callable
        Takes a record, and returns what is shown of it: a text, or a `TableCell`.
    align : str
        ``l``, ``r`` or ``c``; in print also a LaTeX width such as ``p{3cm}``.
    tip : str
        What it means, in one sentence.
    parts : tuple of str
        In CSV there is one column for each part, called ``key`` or ``key_part``.
    is_shown : bool
        False for a column that is in CSV and frames alone.
    min_width : int, optional
        Characters that it keeps on a narrow terminal.
    wrap : bool, optional
        Whether a narrow terminal breaks its lines; by default texts at the left do.

    Examples
    --------
    >>> length = Column("n", "letters", lambda name: str(len(name)), "r")
    >>> length.cell("LIT101").text
    '6'
    """

    key: str
    header: str | Phrase = ""
    get: Callable[[Seen], str | TableCell] = field(default=str)
    align: str = "l"
    tip: str = ""
    parts: tuple[str, ...] = ("",)
    is_shown: bool = True
    min_width: int | None = None
    wrap: bool | None = None

    def cell(self, record: Seen) -> TableCell:
        """Return what is shown of a record."""
        shown = self.get(record)
        return shown if isinstance(shown, TableCell) else TableCell(shown)

    @property
    def line(self) -> str:
        """The header on one line."""
        header = self.header
        return (header if isinstance(header, str) else header.markdown).replace(
            "\n", " "
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in CSV."""
        return tuple(f"{self.key}_{part}" if part else self.key for part in self.parts)

    def over(self, find: Callable[[Other], Any]) -> "Column[Other]":
        """Return the same column of a table whose records hold these."""
        column: Any = self
        same: Column[Other]
        same = replace(column, get=lambda record: column.get(find(record)))
        return same


Columns = tuple[Column[Record], ...]


@dataclass(frozen=True)
class RecordTable(Generic[Record]):
    """Records and the columns in which they are shown.

    Parameters
    ----------
    title : str
        Above it.
    columns : sequence of Column
        In order.
    records : sequence
        One row each.
    legend : str
        What columns mean, below it.
    """

    title: str
    columns: Sequence[Column[Record]]
    records: Sequence[Record]
    legend: str = ""


def pick(
    columns: Iterable[Column[Record]], *keys: str, **headers: str
) -> Columns[Record]:
    """Return some columns by key, in the order of the keys.

    Parameters
    ----------
    columns : iterable of Column
        All of them.
    *keys : str
        Those to show.
    **headers : str
        By key, where another header fits the place better.
    """
    by_key = {column.key: column for column in columns}
    return tuple(
        replace(by_key[key], header=headers.get(key, by_key[key].header))
        for key in keys
    )
