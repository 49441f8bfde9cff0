"""Text, numbers and tables in Markdown and in LaTeX."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import TYPE_CHECKING

from sightline.comparison.runs import FigureStyle
from sightline.text import csv_cell, superscript

if TYPE_CHECKING:
    import jinja2

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$!])")
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "{}$&%#_"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # The name of this sign exists in the T1 encoding alone.
    '"': r"{\ttfamily\char34}",
    # After the end of a row these would be taken for an option of the line break.
    **{character: f"{{{character}}}" for character in "[]*"},
    # Two hyphens would become a dash, two quotes a closing quotation mark.
    **{character: f"{character}{{}}" for character in "-'`"},
}
# At most this many lines of a table are on one page.
_LINES_OF_A_PAGE = 56
# Numbers outside this range are written with two digits and a power of ten.
_COMPACT_RANGE = (0.01, 999.5)
_Value = str | float | int | bool | None


@dataclass(frozen=True)
class Phrase:
    """A piece of text in both forms; characters that are special there are escaped."""

    markdown: str
    latex: str

    def __add__(self, other: "Phrase") -> "Phrase":
        """Return both phrases, one after the other."""
        return Phrase(self.markdown + other.markdown, self.latex + other.latex)

    def bold(self) -> "Phrase":
        """Return the phrase in bold."""
        return Phrase(f"**{self.markdown}**", rf"\textbf{{{self.latex}}}")


def _symbol(letter: str, index: str) -> Phrase:
    return Phrase(f"{letter}_{index}", rf"${letter}_{{\mathrm{{{index}}}}}$")


EMPTY = Phrase("", "")
# The figures of the paper, as tables, captions and notes write them.
SYMBOLS = {
    "D_FULL": _symbol("D", "FULL"),
    "P_FULL": _symbol("P", "FULL"),
    "D_MS": _symbol("D", "MS"),
    "D_drift": _symbol("D", "drift"),
    "D_eff": _symbol("D", "eff"),
    "p_eff/p": Phrase("p_eff/p", r"$p_{\mathrm{eff}}/p$"),
}
UNKNOWN = Phrase("—", "---")
DAGGER = Phrase("†", r"\textsuperscript{\dag}")


def words(text: object) -> Phrase:
    r"""Return any text on one line, with special characters escaped.

    Examples
    --------
    >>> words("50 % of P_1|2").markdown
    '50 % of P\\_1\\|2'
    >>> words("50 % of P_1").latex
    '50 \\% of P\\_1'
    """
    line = one_line(str(text))
    return Phrase(escaped_markdown(line), escaped_latex(line))


def filled(template: str, **phrases: Phrase) -> Phrase:
    r"""Return a text whose ``{name}`` fields are replaced by phrases.

    Names of `SYMBOLS` in it become symbols.

    Examples
    --------
    >>> filled("{p} is 5 %.", p=Phrase("p", "$p$")).latex
    '$p$ is 5 \\%.'
    >>> filled("D_FULL is high.").latex
    '$D_{\\mathrm{FULL}}$ is high.'
    """
    total = EMPTY
    for text, name, _, _ in Formatter().parse(template):
        for piece in re.split(f"({'|'.join(SYMBOLS)})", text):
            total += SYMBOLS[piece] if piece in SYMBOLS else words(piece)
        total += EMPTY if name is None else phrases[name]
    return total


@cache
def texts() -> dict[str, dict[str, str]]:
    """Return the captions of tables and figures, and notes below tables, by name."""
    import msgspec

    path = files("sightline.paper") / "texts" / "captions.toml"
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, str]])


def caption(table: str, **phrases: Phrase) -> Phrase:
    """Return the caption of a table, with its fields filled in."""
    return filled(texts()["tables"][table], **phrases)


def note(name: str, **phrases: Phrase) -> Phrase:
    """Return a note of ``texts/captions.toml``, with its fields filled in."""
    return filled(texts()["notes"][name], **phrases)


def one_line(text: str) -> str:
    """Return text with line breaks and control characters replaced by spaces."""
    return "".join(c if c.isprintable() else " " for c in text)


def escaped_markdown(text: str) -> str:
    """Return text that Markdown shows unchanged, also in a cell of a table."""
    return _MARKDOWN.sub(r"\\\1", text.replace("&", "&amp;"))


def escaped_latex(text: str) -> str:
    """Return text that LaTeX shows unchanged."""
    escaped = "".join(_LATEX.get(c, c) for c in text)
    # Braces are needed only between two equal characters.
    return re.sub(r"([-'`])\{\}(?!\1)", r"\1", escaped)


def joined(phrases: Iterable[Phrase], separator: str = ", ") -> Phrase:
    """Return phrases as one, with a separator between them."""
    listed = list(phrases)
    return Phrase(
        separator.join(p.markdown for p in listed),
        separator.join(p.latex for p in listed),
    )


def fixed(value: float | None, digits: int = 3) -> Phrase:
    """Return a number with a fixed number of decimals.

    Parameters
    ----------
    value : float, optional
        None, nan and infinity are written as a dash.
    digits : int
        Number of decimals.

    Returns
    -------
    Phrase
        Without a sign where the rounded value is 0; negative numbers are formulas in
        LaTeX, so that they get a minus sign.

    Examples
    --------
    >>> fixed(-0.0031).latex, fixed(-0.0001).markdown
    ('$-0.003$', '0.000')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = f"{value:.{digits}f}"
    return _number(text.lstrip("-") if float(text) == 0 else text)


def powers(value: float | None) -> Phrase:
    r"""Return a number in two digits, with a power of ten where it is large or small.

    Examples
    --------
    >>> powers(86.0).latex
    '$8.6{\\times}10^{1}$'
    >>> powers(-9.4).markdown
    '-9.4'
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0 or 0.0995 <= abs(value) < 9.95:
        return fixed(value, 1 if value == 0 or abs(value) >= 0.995 else 2)
    return _scientific(value)


def compact(value: float | None) -> Phrase:
    """Return three digits up to a thousand, above it two and a power of ten.

    Examples
    --------
    >>> compact(38.72).latex, compact(526.0).markdown
    ('38.7', '526')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    low, high = _COMPACT_RANGE
    if value != 0 and not low <= abs(value) < high:
        return _scientific(value)
    return _number(f"{value:.3g}")


def whole(value: float | None) -> Phrase:
    """Return a count, or a mean of counts with one decimal.

    Examples
    --------
    >>> whole(31.0).markdown, whole(31.5).markdown
    ('31', '31.5')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return fixed(value, 0 if float(value).is_integer() else 1)


def thousands(value: float) -> Phrase:
    """Return the length of a recording as the paper writes it.

    Examples
    --------
    >>> [thousands(n).markdown for n in (640, 1_312, 31_988, 449_919)]
    ['640', '1.3k', '32k', '450k']
    """
    if value < 1000:
        return whole(value)
    text = f"{value / 1000:.1f}k" if value < 9950 else f"{value / 1000:.0f}k"
    return Phrase(text, text)


def percent(value: float, digits: int = 1) -> Phrase:
    r"""Return a share in per cent.

    Examples
    --------
    >>> percent(0.1216).latex, percent(0.5, 0).markdown
    ('12.2\\%', '50%')
    """
    return Phrase(f"{value:.{digits}%}", rf"{100 * value:.{digits}f}\%")


FORMATS: dict[FigureStyle, Callable[[float | None], Phrase]] = {
    FigureStyle.SCORE: fixed,
    FigureStyle.SIZE: powers,
    FigureStyle.COUNT: whole,
    FigureStyle.STATISTIC: compact,
}


def span(low: Phrase, high: Phrase) -> Phrase:
    """Return a range; with "to" if a number is negative, as a dash reads as a sign.

    Examples
    --------
    >>> span(fixed(0.8061), fixed(0.8184)).latex
    '0.806--0.818'
    """
    if low == high:
        return low
    if low.markdown.startswith("-") or high.markdown.startswith("-"):
        return low + Phrase(" to ", " to ") + high
    return low + Phrase("-", "--") + high


def ranged(middle: Phrase, low: Phrase, high: Phrase) -> Phrase:
    """Return a number with its range in brackets, in LaTeX on a second line.

    Without a range if both ends read the same.
    """
    if low == high:
        return middle
    ends = span(low, high)
    return Phrase(
        f"{middle.markdown} ({ends.markdown})",
        # The number stays on the line of its row, the range hangs below it.
        rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{middle.latex}\\[-2pt]"
        rf"{{\tiny({ends.latex})}}\end{{tabular}}",
    )


def _number(text: str) -> Phrase:
    return Phrase(text, f"${text}$" if text.startswith("-") else text)


def _scientific(value: float) -> Phrase:
    mantissa, exponent = f"{value:.1e}".split("e")
    power = int(exponent)
    return Phrase(
        f"{mantissa}\N{MULTIPLICATION SIGN}10{superscript(power)}",
        rf"${mantissa}{{\times}}10^{{{power}}}$",
    )


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    key : str
        The name in CSV.
    header : Phrase
        The text above the column.
    align : str
        ``l``, ``r`` or ``c``, or a LaTeX width such as ``p{3cm}``.
    parts : tuple of str
        In CSV there is one column for each part, called ``key`` or ``key_part``.
    is_shown : bool
        False for a column that is in CSV only.
    """

    key: str
    header: Phrase = EMPTY
    align: str = "r"
    parts: tuple[str, ...] = ("",)
    is_shown: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in CSV."""
        return tuple(f"{self.key}_{part}" if part else self.key for part in self.parts)


@dataclass(frozen=True)
class Cell:
    """A cell: the text that is shown, and the plain values of its parts for CSV."""

    text: Phrase
    values: tuple[_Value, ...]


def text_cell(text: str | None, title: str | None = None) -> Cell:
    """Return a cell of text; `title` is shown in its place where given."""
    shown = text if title is None else title
    return Cell(UNKNOWN if shown is None else words(shown), (text,))


def number_cell(value: float | None, how: Callable[[float | None], Phrase]) -> Cell:
    """Return the cell of one number, shown by one of the functions above."""
    return Cell(how(value), (value,))


def range_cell(values: Sequence[float], how: Callable[[float], Phrase]) -> Cell:
    """Return the cell of the lowest and the highest of several numbers."""
    low, high = min(values), max(values)
    return Cell(span(how(low), how(high)), (low, high))


def hidden_cell(value: _Value) -> Cell:
    """Return the cell of a column that is in CSV only."""
    return Cell(EMPTY, (value,))


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that belong together, such as those of one testbed."""

    name: str
    title: str
    rows: tuple[tuple[Cell, ...], ...]


def one_group(rows: Iterable[tuple[Cell, ...]]) -> tuple[Group, ...]:
    """Return the groups of a table whose rows are not grouped."""
    return (Group(name="", title="", rows=tuple(rows)),)


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table that is written as CSV, Markdown and LaTeX.

    Parameters
    ----------
    name : str
        The name of the files, and of the label in LaTeX.
    caption : Phrase
        The text above the table; see `caption`.
    columns : tuple of Column
        All columns; each row has a cell for each.
    groups : tuple of Group
        The rows, in groups.
    grouped_by : str, optional
        Header of the group names; None if the rows are not grouped.
    notes : tuple of Phrase
        Paragraphs below the table.
    wide : bool
        Whether the table spans both columns of a LaTeX page.
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
        """The number of rows in all groups."""
        return sum(len(group.rows) for group in self.groups)

    def shown_rows(self) -> Iterator[tuple[Group, list[Phrase]]]:
        """Yield the shown cells of each row, with the group of the row."""
        for group in self.groups:
            for row in group.rows:
                cells = zip(row, self.columns, strict=True)
                yield group, [cell.text for cell, column in cells if column.is_shown]

    def to_csv(self) -> str:
        """Return plain values, numbers in full precision, one line for each row."""
        text = io.StringIO()
        writer = csv.writer(text)
        head = [] if self.grouped_by is None else [self.grouped_by.lower()]
        writer.writerow(head + [name for c in self.columns for name in c.names])
        for group in self.groups:
            for row in group.rows:
                lead = [] if self.grouped_by is None else [group.name]
                values = lead + [value for cell in row for value in cell.values]
                writer.writerow(["" if v is None else csv_cell(v) for v in values])
        return text.getvalue()

    def to_markdown(self) -> str:
        """Return the table with its caption above and its notes below."""
        columns = [column for column in self.columns if column.is_shown]
        rules = {"r": "--:", "c": ":-:"}
        lead = [] if self.grouped_by is None else [self.grouped_by]
        return render(
            "table.md",
            table=self,
            heads=lead + [column.header.markdown for column in columns],
            rules=["---"] * len(lead) + [rules.get(c.align, "---") for c in columns],
        )

    def to_latex(self) -> str:
        """Return floats with booktabs tables; each group has its title above it.

        A table is scaled down to the width of the text if it is wider. One that is
        too long for a page continues in another float under the same number.
        """
        columns = [column for column in self.columns if column.is_shown]
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


def _stacked(column: Column) -> str:
    r"""Return the header of a column in LaTeX, one of several words on two lines.

    Examples
    --------
    >>> _stacked(Column("f1", words("F1 (hindsight)")))
    '\\begin{tabular}[b]{@{}r@{}}F1\\\\(hindsight)\\end{tabular}'
    """
    text, align = column.header.latex, column.align
    spaces = [place for place, letter in enumerate(text) if letter == " "]
    if not spaces or align not in ("l", "r", "c"):
        return text
    # The break nearest to the middle.
    cut = min(spaces, key=lambda place: abs(place - len(text) / 2))
    lines = rf"{text[:cut]}\\{text[cut + 1 :]}"
    return rf"\begin{{tabular}}[b]{{@{{}}{align}@{{}}}}{lines}\end{{tabular}}"


def _latex_cells(row: Sequence[Phrase], columns: Sequence[Column]) -> str:
    """Return the cells of a row; text of a fixed width is not stretched to it."""
    return " & ".join(
        rf"\raggedright {cell.latex}" if column.align.startswith("p") else cell.latex
        for cell, column in zip(row, columns, strict=True)
    )


def render(template: str, **values: object) -> str:
    """Return a template of this package, filled with values."""
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> "jinja2.Environment":
    import jinja2

    folder = files("sightline.paper") / "templates"
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
