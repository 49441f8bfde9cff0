"""A table that can be written for people, for LaTeX and for programs."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from sightline.paper.markup import NOTHING, Phrase, words

Value = str | float | int | bool | None


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: what stands above it, and the columns it is in CSV.

    Parameters
    ----------
    key : str
        Its name in CSV.
    header : Phrase
        What people read above it.
    align : str
        ``l``, ``r`` or ``c``, or a LaTeX width such as ``p{3cm}``.
    parts : tuple of str
        In CSV the column is one for each part, called ``key`` or ``key_part``.
    shown : bool
        Whether people see it; what is for programs only is in CSV alone.
    """

    key: str
    header: Phrase = NOTHING
    align: str = "r"
    parts: tuple[str, ...] = ("",)
    shown: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """What it is called in CSV."""
        return tuple(f"{self.key}_{part}" if part else self.key for part in self.parts)


@dataclass(frozen=True)
class Cell:
    """What people read, and the plain values of its parts for CSV."""

    shown: Phrase
    values: tuple[Value, ...]


def text_cell(text: str, title: str | None = None) -> Cell:
    """Return a cell of text: as it is in CSV, by its title for people."""
    return Cell(words(text if title is None else title), (text,))


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that belong together, such as those of one testbed."""

    name: str
    title: str
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table of a paper.

    `grouped_by` is the header of what the groups are; None where rows are not grouped.
    """

    name: str
    caption: Phrase
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    grouped_by: str | None = "Testbed"
    notes: tuple[Phrase, ...] = ()
    wide: bool = True

    @property
    def n_rows(self) -> int:
        """How many rows there are in all groups."""
        return sum(len(group.rows) for group in self.groups)

    def to_csv(self) -> str:
        """Return plain values, numbers in full precision, one line for each row."""
        text = io.StringIO()
        writer = csv.writer(text)
        head = [] if self.grouped_by is None else [self.grouped_by.lower()]
        writer.writerow(head + [name for c in self.columns for name in c.names])
        for group in self.groups:
            for row in group.rows:
                lead = [] if self.grouped_by is None else [group.name]
                values = [value for cell in row for value in cell.values]
                writer.writerow(lead + ["" if v is None else v for v in values])
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return a table with its caption above and its notes below."""
        shown = [c for c in self.columns if c.shown]
        heads = [c.header.markdown for c in shown]
        rules = [
            "--:" if c.align == "r" else ":-:" if c.align == "c" else "---"
            for c in shown
        ]
        if self.grouped_by is not None:
            heads, rules = [self.grouped_by, *heads], ["---", *rules]
        lines = [self.caption.markdown, "", _piped(heads), _piped(rules)]
        for group in self.groups:
            for row in self._seen(group):
                lead = [] if self.grouped_by is None else [words(group.title).markdown]
                lines.append(_piped(lead + [phrase.markdown for phrase in row]))
        for note in self.notes:
            lines += ["", note.markdown]
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """Return a float with a booktabs table; a group's rows stand under its name."""
        shown = [c for c in self.columns if c.shown]
        kind = "table*" if self.wide else "table"
        lines = [
            r"% Needs \usepackage{booktabs}.",
            rf"\begin{{{kind}}}[t]",
            r"\centering",
            rf"\caption{{{self.caption.latex}}}",
            rf"\label{{tab:{self.name}}}",
            r"\scriptsize" if len(shown) > 6 else r"\footnotesize",
            r"\setlength{\tabcolsep}{3.5pt}",
            rf"\begin{{tabular}}{{@{{}}{''.join(c.align for c in shown)}@{{}}}}",
            r"\toprule",
            " & ".join(c.header.latex for c in shown) + r" \\",
        ]
        for group in self.groups:
            lines.append(r"\midrule")
            if self.grouped_by is not None:
                title = words(group.title).latex
                lines.append(
                    rf"\multicolumn{{{len(shown)}}}{{@{{}}l}}{{\textit{{{title}}}}}\\"
                )
            for row in self._seen(group):
                cells = " & ".join(phrase.latex for phrase in row)
                # Cells of two lines would touch those of the row above.
                end = r" \\[2pt]" if r"\shortstack" in cells else r" \\"
                lines.append(cells + end)
        lines += [r"\bottomrule", r"\end{tabular}"]
        if self.notes:
            told = r"\\ ".join(note.latex for note in self.notes)
            lines += [
                r"\par\smallskip",
                rf"\parbox{{\linewidth}}{{\footnotesize {told}}}",
            ]
        return "\n".join([*lines, rf"\end{{{kind}}}"]) + "\n"

    def _seen(self, group: Group) -> Iterator[list[Phrase]]:
        for row in group.rows:
            yield [
                cell.shown
                for cell, column in zip(row, self.columns, strict=True)
                if column.shown
            ]


def _piped(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
