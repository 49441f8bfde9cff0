"""What a table is: a list of columns over records; CSV files and frames of them.

A column says once what it is called, what it shows of a record, and what it means.
Renderers arrange columns and write them: `sightline.show.terminal` for the terminal,
`sightline.show.html` for notebooks and the page, this module for CSV files and frames
of polars or pandas, `sightline.show.printed` for Markdown and LaTeX.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from sightline.errors import StreamError
from sightline.show.phrases import Phrase
from sightline.text import Labelling, as_labelled, csv_cell, did_you_mean

if TYPE_CHECKING:
    from sightline.judgement.verdicts import VerdictInfo

LIBRARIES = ("polars", "pandas")
Record = TypeVar("Record")
# A column of a record serves every table whose records have what it asks for.
Seen = TypeVar("Seen", contravariant=True)
Other = TypeVar("Other")


class CellNote(NamedTuple):
    """A small line below a cell of the page; `term` is its entry in the glossary."""

    text: str
    term: str = ""
    is_warning: bool = False


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
    notes : tuple of CellNote or str
        What the page says below the text, beside what others show.
    term : str
        Entry of the page's glossary that explains the text.
    place : str
        Where ``evaluation.json`` has the value, such as ``rank.roc_auc``.
    drawing : str
        HTML that the page shows between the text and the notes.
    href : str
        Where on the page the text leads to, by id.
    """

    text: str = ""
    values: tuple[Any, ...] | None = None
    style: str = ""
    mark: "VerdictInfo | None" = None
    printed: Phrase | None = None
    notes: tuple[CellNote | str, ...] = ()
    term: str = ""
    place: str = ""
    drawing: str = ""
    href: str = ""


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
    term : str
        Entry of the page's glossary that explains it, and gives its header there.
    title : str
        Its header on the page, if another; a second line is small.

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
    term: str = ""
    title: str = ""

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
    style : callable, optional
        Takes a record, and returns the class of its row on the page.
    """

    title: str
    columns: Sequence[Column[Record]]
    records: Sequence[Record]
    legend: str = ""
    style: Callable[[Record], str] | None = None

    def as_labelled(self, labels: Labelling) -> "RecordTable[Record]":
        """Return the table in the words that fit the labels of its record."""
        if labels is Labelling.ATTACKS:
            return self
        columns = [
            replace(
                one,
                header=as_labelled(one.header, labels)
                if isinstance(one.header, str)
                else one.header,
                tip=as_labelled(one.tip, labels),
                title=as_labelled(one.title, labels),
            )
            for one in self.columns
        ]
        title, legend = (
            as_labelled(self.title, labels),
            as_labelled(self.legend, labels),
        )
        return replace(self, title=title, columns=columns, legend=legend)


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


# ---- as plain values ----------------------------------------------------------------


def field_cell(path: str) -> Callable[[Any], TableCell]:
    """Return how a plain value is found in a record by the names of its fields.

    Parameters
    ----------
    path : str
        Such as ``segment.found.p_value``; None where a record on the way is None.

    Examples
    --------
    >>> field_cell("real")(1.5).values, field_cell("real.found")(1.5).values
    ((1.5,), (None,))
    """
    names = path.split(".")

    def get(record: Any) -> TableCell:
        from sightline.evaluation.result import plain

        for name in names:
            record = getattr(record, name, None)
        return TableCell(values=(plain(record),))

    return get


def values_of(columns: Sequence[Column[Record]], record: Record) -> Iterator[Any]:
    """Yield the plain values of a record, column by column; lists are JSON text."""
    for column in columns:
        cell = column.cell(record)
        for value in (cell.text,) if cell.values is None else cell.values:
            yield json.dumps(value) if isinstance(value, list | dict) else value


def csv_line(values: Iterable[Any]) -> list[object]:
    """Return values as cells of a CSV file; None is empty, no text is a formula."""
    return ["" if value is None else csv_cell(value) for value in values]


def to_csv(columns: Sequence[Column[Record]], records: Iterable[Record]) -> str:
    """Return the content of a CSV file: a header, and one line for each record."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([name for column in columns for name in column.names])
    writer.writerows(csv_line(values_of(columns, record)) for record in records)
    return text.getvalue()


def write_csv(
    columns: Sequence[Column[Record]], records: Iterable[Record], path: Path
) -> None:
    """Write a CSV file. A file's or an attack's name may hold what is no character."""
    text = to_csv(columns, records)
    path.write_bytes(text.encode("utf-8", errors="backslashreplace"))


def to_frame(
    columns: Sequence[Column[Record]], records: Sequence[Record], library: str
) -> Any:
    """Return a frame of polars or pandas, with one row for each record.

    Raises
    ------
    StreamError
        If the library is another one.
    MissingExtraError
        If it is not installed.
    """
    from sightline.data.arrays import require

    if library not in LIBRARIES:
        raise StreamError(
            f"There is no frame of {library!r}; {did_you_mean(str(library), LIBRARIES)}"
        )
    frames = require(library, extra=library, caller="to_frame")
    heads = [name for column in columns for name in column.names]
    rows = [list(values_of(columns, record)) for record in records]
    by_name = {name: [row[k] for row in rows] for k, name in enumerate(heads)}
    if library == "pandas":
        return frames.DataFrame(by_name)
    return frames.DataFrame(by_name, strict=False)
