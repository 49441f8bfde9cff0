import csv
import io
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.show.comparison import DIFFERENCES
from sightline.show.phrases import (
    Phrase,
    compact,
    fixed,
    powers,
    ranged,
    thousands,
    whole,
    words,
)
from sightline.show.printed import Group, PaperTable, text_cell
from sightline.show.rules import skill_words
from sightline.show.table import Column, TableCell
from sightline.text import correlation, from_csv_cell, number, score

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


def table_of(text):
    return PaperTable(
        name="t",
        caption=words(text),
        columns=(
            Column("detector", "detector", text_cell),
            Column(
                "x",
                words("x"),
                lambda _: TableCell(values=(1 / 3, 0.1, 0.2), printed=fixed(1 / 3)),
                "r",
                parts=("", "low", "high"),
            ),
            Column("n", get=lambda _: TableCell(values=(3,)), is_shown=False),
        ),
        groups=(Group(name=text, title=text, records=(text,)),),
        notes=(words(text),),
    )


@given(texts)
def test_any_text_survives_csv_and_numbers_keep_all_digits(text):
    head, row = csv.reader(io.StringIO(table_of(text).to_csv(), newline=""))
    assert head == ["testbed", "detector", "x", "x_low", "x_high", "n"]
    assert [from_csv_cell(cell) for cell in row[:2]] == [text, text]
    assert [float(value) for value in row[2:]] == [1 / 3, 0.1, 0.2, 3]


@given(texts)
def test_any_text_leaves_a_markdown_table_its_columns(text):
    lines = table_of(text).to_markdown().split("\n")
    (row,) = [line for line in lines if line.startswith("| ") and "0.333" in line]
    bars = re.findall(r"(?<!\\)(?:\\\\)*\|", row)
    assert len(bars) == 4


@given(texts)
def test_no_special_character_reaches_latex(text):
    escaped = words(text).latex
    for command in (
        r"\textbackslash{}",
        r"\textasciitilde{}",
        r"\textasciicircum{}",
        r"\textless{}",
        r"\textgreater{}",
        r"\textbar{}",
        r"{\ttfamily\char34}",
        "-{}",
        "'{}",
        "`{}",
        "{[}",
        "{]}",
        "{*}",
        *(f"\\{c}" for c in "{}$&%#_"),
    ):
        escaped = escaped.replace(command, "")
    assert not set(escaped) & set("\\{}$&%#_~^[]*")


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("a&b%c_d#e", r"a\&b\%c\_d\#e"),
        ("{x}$~^\\", r"\{x\}\$\textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("a--b", "a-{}-b"),
        ("well-known", "well-known"),
        ("[1]", "{[}1{]}"),
    ],
)
def test_latex_by_hand(text, latex):
    assert words(text).latex == latex


def test_lines_are_not_broken_by_names():
    assert "\n" not in words("a\nb\r\tc").markdown


@pytest.mark.parametrize(
    ("how", "value", "markdown", "latex"),
    [
        (powers, 86.0, "8.6×10¹", r"$8.6{\times}10^{1}$"),  # noqa: RUF001
        (powers, -9.4, "-9.4", "$-9.4$"),
        (powers, 1.6e12, "1.6×10¹²", r"$1.6{\times}10^{12}$"),  # noqa: RUF001
        (powers, -0.55, "-0.55", "$-0.55$"),
        (powers, -3.0e-5, "-3.0×10⁻⁵", r"$-3.0{\times}10^{-5}$"),  # noqa: RUF001
        (powers, 4.0, "4.0", "4.0"),
        (powers, 9.96, "1.0×10¹", r"$1.0{\times}10^{1}$"),  # noqa: RUF001
        (powers, 0.0, "0.0", "0.0"),
        (compact, 3.5, "3.5", "3.5"),
        (compact, 999.7, "1.0×10³", r"$1.0{\times}10^{3}$"),  # noqa: RUF001
        (fixed, -0.0031, "-0.003", "$-0.003$"),
        (fixed, -0.0001, "0.000", "0.000"),
        (whole, 31.0, "31", "31"),
        (whole, 31.5, "31.5", "31.5"),
        (thousands, 3_312, "3.3k", "3.3k"),
        (fixed, None, "—", "---"),
        (powers, float("nan"), "—", "---"),
    ],
)
def test_numbers_as_the_paper_writes_them(how, value, markdown, latex):
    assert how(value) == Phrase(markdown, latex)


def test_ranges():
    told = ranged(fixed(0.812), fixed(0.806), fixed(0.818))
    assert told.markdown == "0.812 (0.806-0.818)"
    top = r"\begin{tabular}[t]{@{}r@{}}0.812\\[-2pt]"
    assert told.latex == rf"{top}{{\tiny(0.806--0.818)}}\end{{tabular}}"
    below = ranged(fixed(-0.1, 1), fixed(-0.2, 1), fixed(0.1, 1))
    assert below.markdown == "-0.1 (-0.2 to 0.1)"


def test_a_latex_table_is_whole():
    latex = table_of("A&B").to_latex()
    assert latex.count(r"\begin{") == latex.count(r"\end{") == 2
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert latex.count(rule) == 1
    assert r"\multicolumn{2}{@{}l}{\textit{A\&B}}\\" in latex
    assert r"A\&B & 0.333 \\" in latex


@given(st.floats(-1.0, 1.0))
def test_no_number_is_a_negative_zero(value):
    difference = SimpleNamespace(
        difference=value, interval=(value, value), has_star=False
    )
    columns = {column.key: column for column in DIFFERENCES}
    skilled = SimpleNamespace(skill=value, skill_interval=(value, value), n_attacks=1)
    for text in (
        *(columns[key].cell(difference).text for key in ("difference", "interval")),
        *(correlation(value), score(value), number(value), skill_words(skilled)),
        *(fixed(value).markdown, whole(value).markdown, compact(value).markdown),
    ):
        assert not re.search(r"[-\u2212]0(\.0+)?(?![\d.]|\u00d7)", text), text
