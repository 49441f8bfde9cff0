"""Tables for print: CSV with numbers in full precision, Markdown, and LaTeX floats."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sightline.show.phrases import UNKNOWN, Phrase, escaped_markdown, span, words
from sightline.show.table import Column, TableCell, csv_line, values_of
from sightline.text import UNKNOWN as UNKNOWN_TEXT

if TYPE_CHECKING:
    import jinja2

# At most this many lines of a table are on one page.
_LINES_OF_A_PAGE = 56


@dataclass(frozen=True, kw_only=True)
class Group:
    """Records that belong together, such as those of one testbed."""

    name: str
    title: str
    records: tuple[Any, ...]


def one_group(records: Iterable[Any]) -> tuple[Group, ...]:
    """Return the groups of a table whose rows are not grouped."""
    return (Group(name="", title="", records=tuple(records)),)


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table that is written as CSV, Markdown and LaTeX.

    Parameters
    ----------
    name : str
        The name of the files, and of the label in LaTeX.
    caption : Phrase
        The text above the table.
    columns : tuple of Column
        All columns; those that are not shown are in CSV alone.
    groups : tuple of Group
        The records, in groups.
    grouped_by : str, optional
        Header of the group names; None if the rows are not grouped.
    notes : tuple of Phrase
        Paragraphs below the table.
    wide : bool
        Whether the table spans both columns of a LaTeX page.
    """

    name: str
    caption: Phrase
    columns: tuple[Column[Any], ...]
    groups: tuple[Group, ...]
    grouped_by: str | None = "Testbed"
    notes: tuple[Phrase, ...] = ()
    wide: bool = True

    @property
    def n_rows(self) -> int:
        """The number of rows in all groups."""
        return sum(len(group.records) for group in self.groups)

    @property
    def shown_columns(self) -> list[Column[Any]]:
        """The columns that people read."""
        return [column for column in self.columns if column.is_shown]

    def shown_rows(self) -> Iterator[tuple[Group, list[Phrase]]]:
        """Yield the shown cells of each row, with the group of the row."""
        for group in self.groups:
            for record in group.records:
                cells = (column.cell(record) for column in self.shown_columns)
                yield group, [printed(cell) for cell in cells]

    def to_csv(self) -> str:
        """Return plain values, numbers in full precision, one line for each row."""
        text = io.StringIO()
        writer = csv.writer(text)
        head = [] if self.grouped_by is None else [self.grouped_by.lower()]
        writer.writerow(head + [name for c in self.columns for name in c.names])
        for group in self.groups:
            lead = [] if self.grouped_by is None else [group.name]
            for record in group.records:
                writer.writerow(csv_line([*lead, *values_of(self.columns, record)]))
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return the table with its caption above and its notes below."""
        columns = self.shown_columns
        rules = {"r": "--:", "c": ":-:"}
        lead = [] if self.grouped_by is None else [self.grouped_by]
        return render(
            "table.md",
            table=self,
            heads=lead + [header(column).markdown for column in columns],
            rules=["---"] * len(lead) + [rules.get(c.align, "---") for c in columns],
        )

    def to_latex(self) -> str:
        """Return floats with booktabs tables; each group has its title above it.

        A table is scaled down to the width of the text if it is wider. One that is
        too long for a page continues in another float under the same number.
        """
        columns = self.shown_columns
        # Text of a fixed width gives the short form another meaning.
        has_text = any(column.align.startswith("p") for column in columns)
        return render(
            "table.tex",
            table=self,
            columns=columns,
            end=r"\tabularnewline" if has_text else r"\\",
            kind="table*" if self.wide else "table",
            parts=list(self._pages()),
            cells=_latex_cells,
        )

    def _pages(self) -> Iterator[list[tuple[Group, list[Phrase]]]]:
        """Yield the shown rows, as many at a time as a page holds."""
        page: list[tuple[Group, list[Phrase]]] = []
        n_lines = 0
        for group, row in self.shown_rows():
            needed = 2 if any(r"\begin{tabular}" in cell.latex for cell in row) else 1
            if page and n_lines + needed > _LINES_OF_A_PAGE:
                yield page
                page, n_lines = [], 0
            page.append((group, row))
            n_lines += needed
        yield page


def printed(cell: TableCell) -> Phrase:
    """Return a cell in Markdown and LaTeX."""
    if cell.printed is not None:
        return cell.printed
    return UNKNOWN if cell.text == UNKNOWN_TEXT else words(cell.text)


def header(column: Column[Any]) -> Phrase:
    r"""Return the header of a column in Markdown and LaTeX; a text begins in capitals.

    Examples
    --------
    >>> header(Column("rings", "any\nalarm")).markdown
    'Any alarm'
    """
    if isinstance(column.header, Phrase):
        return column.header
    return words(column.line[:1].upper() + column.line[1:])


def text_cell(text: str | None, title: str | None = None) -> TableCell:
    """Return a cell of text; people read `title` in its place where given."""
    return TableCell(UNKNOWN_TEXT if text is None else title or text, (text,))


def number_cell(
    value: float | None, how: Callable[[float | None], Phrase]
) -> TableCell:
    """Return the cell of one number, printed by a function of `phrases`."""
    return TableCell(values=(value,), printed=how(value))


def range_cell(values: Sequence[float], how: Callable[[float], Phrase]) -> TableCell:
    """Return the cell of the lowest and the highest of several numbers."""
    low, high = min(values), max(values)
    return TableCell(values=(low, high), printed=span(how(low), how(high)))


def _stacked(column: Column[Any]) -> str:
    r"""Return the header of a column in LaTeX, one of several words on two lines.

    Examples
    --------
    >>> _stacked(Column("f1", "F1 (hindsight)", align="r"))
    '\\begin{tabular}[b]{@{}r@{}}F1\\\\(hindsight)\\end{tabular}'
    """
    text, align = header(column).latex, column.align
    spaces = [place for place, letter in enumerate(text) if letter == " "]
    if not spaces or align not in ("l", "r", "c"):
        return text
    # The break nearest to the middle.
    cut = min(spaces, key=lambda place: abs(place - len(text) / 2))
    lines = rf"{text[:cut]}\\{text[cut + 1 :]}"
    return rf"\begin{{tabular}}[b]{{@{{}}{align}@{{}}}}{lines}\end{{tabular}}"


def _latex_cells(row: Sequence[Phrase], columns: Sequence[Column[Any]]) -> str:
    """Return the cells of a row; text of a fixed width is not stretched to it."""
    return " & ".join(
        rf"\raggedright {cell.latex}" if column.align.startswith("p") else cell.latex
        for cell, column in zip(row, columns, strict=True)
    )


def render(template: str, package: str = "sightline.show", **values: object) -> str:
    """Return a template of a package, filled with values."""
    return _templates(package).get_template(template).render(**values)


@cache
def _templates(package: str) -> "jinja2.Environment":
    """Return the templates of a package, with marks that LaTeX does not use."""
    import jinja2

    folder = files(package) / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda n: (folder / n).read_text("utf-8")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        # Braces and per cent signs belong to LaTeX.
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["words"] = words
    environment.filters["markdown"] = escaped_markdown
    environment.filters["stacked"] = _stacked
    environment.filters["paragraph"] = lambda text: " ".join(text.split())
    return environment
