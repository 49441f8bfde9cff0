"""Words and numbers as Markdown and as LaTeX have them."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$!])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    # After the end of a row these would be taken for an option of the line break.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    # Two in a row would make a dash, two quotes a closing mark.
    "-": "-{}",
    "'": "'{}",
    "`": "`{}",
}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# From here on, and below its inverse, two digits and a power of ten are easier read.
_LONG = 999.5
_SHORT = 0.01


@dataclass(frozen=True)
class Phrase:
    """A stretch of text in both forms, escaped where it was given by a user."""

    markdown: str
    latex: str

    def __add__(self, other: "Phrase") -> "Phrase":
        """Return both, one after the other."""
        return Phrase(self.markdown + other.markdown, self.latex + other.latex)

    def bold(self) -> "Phrase":
        """Return it in bold."""
        return Phrase(f"**{self.markdown}**", rf"\textbf{{{self.latex}}}")


NOTHING = Phrase("", "")
NOT_KNOWN = Phrase("—", "---")
DAGGER = Phrase("†", r"\textsuperscript{\dag}")


def words(text: object) -> Phrase:
    r"""Return any text, each special character made harmless in both forms.

    Examples
    --------
    >>> words("50 % of P_1|2").markdown
    '50 % of P\\_1\\|2'
    >>> words("50 % of P_1").latex
    '50 \\% of P\\_1'
    """
    line = one_line(str(text))
    return Phrase(escaped_markdown(line), escaped_latex(line))


def one_line(text: str) -> str:
    """Return text without line breaks and control characters, which no cell bears."""
    return "".join(c if c.isprintable() else " " for c in text)


def escaped_markdown(text: str) -> str:
    """Return text that Markdown shows as it is, in a table too."""
    return _MARKDOWN.sub(r"\\\1", text.replace("&", "&amp;"))


def escaped_latex(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    escaped = "".join(_LATEX.get(c, c) for c in text)
    # Only a mark that its like follows needs to be kept apart.
    return re.sub(r"([-'`])\{\}(?!\1)", r"\1", escaped)


def joined(phrases: Iterable[Phrase], between: str = ", ") -> Phrase:
    """Return phrases in a row."""
    listed = list(phrases)
    return Phrase(
        between.join(p.markdown for p in listed), between.join(p.latex for p in listed)
    )


def fixed(value: float | None, digits: int = 3) -> Phrase:
    """Return a number with so many decimals.

    Examples
    --------
    >>> fixed(-0.0031).latex
    '$-0.003$'
    """
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return Phrase(text, f"${text}$" if text.startswith("-") else text)


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
        return NOT_KNOWN
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
        return NOT_KNOWN
    if value != 0 and not _SHORT <= abs(value) < _LONG:
        return _scientific(value)
    text = f"{value:.3g}"
    return Phrase(text, f"${text}$" if text.startswith("-") else text)


def whole(value: float | None) -> Phrase:
    """Return a count, or a mean of counts with one decimal."""
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    return fixed(value, 0 if float(value).is_integer() else 1)


def thousands(value: float) -> Phrase:
    """Return a length as the paper writes it.

    Examples
    --------
    >>> [thousands(n).markdown for n in (640, 1_312, 31_988, 449_919)]
    ['640', '1.3k', '32k', '450k']
    """
    if value < 1000:
        return whole(value)
    text = f"{value / 1000:.1f}k" if value < 9950 else f"{value / 1000:.0f}k"
    return Phrase(text, text)


def percent(value: float) -> Phrase:
    """Return a share with one decimal."""
    return Phrase(f"{100 * value:.1f}%", rf"{100 * value:.1f}\%")


def span(low: Phrase, high: Phrase) -> Phrase:
    """Return a range; of negative numbers in words, for a dash would be read as sign.

    Examples
    --------
    >>> span(fixed(0.8061), fixed(0.8184)).latex
    '0.806--0.818'
    """
    if low == high:
        return low
    if low.markdown.startswith("-") or high.markdown.startswith("-"):
        return Phrase(
            f"{low.markdown} to {high.markdown}", f"{low.latex} to {high.latex}"
        )
    return Phrase(f"{low.markdown}-{high.markdown}", f"{low.latex}--{high.latex}")


def ranged(middle: Phrase, low: Phrase, high: Phrase) -> Phrase:
    """Return a figure and in brackets its range, which LaTeX sets below it."""
    if low == high:
        return middle
    between = span(low, high)
    return Phrase(
        f"{middle.markdown} ({between.markdown})",
        rf"\shortstack[r]{{{middle.latex}\\({between.latex})}}",
    )


def listed_in_words(names: Sequence[str]) -> str:
    """Return names as a sentence has them.

    Examples
    --------
    >>> listed_in_words(["GDN", "GeCo", "NSIBF"])
    'GDN, GeCo and NSIBF'
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _scientific(value: float) -> Phrase:
    mantissa, exponent = f"{value:.1e}".split("e")
    power = str(int(exponent))
    return Phrase(
        f"{mantissa}\N{MULTIPLICATION SIGN}10{power.translate(_SUPERSCRIPT)}",
        rf"${mantissa}{{\times}}10^{{{power}}}$",
    )
