"""Text and numbers as Markdown and LaTeX write them."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from string import Formatter

from sightline.figures import FigureStyle
from sightline.text import superscript

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
# Numbers outside this range are written with two digits and a power of ten.
_COMPACT_RANGE = (0.01, 999.5)


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
    return _number(f"{value:z.{digits}f}")


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
    return _number(f"{value:z.3g}")


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
