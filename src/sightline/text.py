"""Numbers, shares, durations, counts and lists of names as people read them.

Every text of the command line, the report and the messages uses these functions, so
that one quantity looks the same everywhere. An unknown value (None) is an en dash.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from importlib import import_module

UNKNOWN = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
# Marks a mean that a few extreme points dominate.
DAGGER = "\N{DAGGER}"
# A message is at most this long; so are, within a longer one, its words.
MOST_LETTERS, MOST_IN_A_WORD = 400, 160
# Unicode's classes of characters that are not seen but change what is seen: controls,
# marks of writing direction and the like, and the separators of lines.
_UNSEEN = {"Cc", "Cf", "Zl", "Zp"}
# These are within words of some scripts and do not reorder others.
_JOINERS = "\u00ad\u200c\u200d"
# The font of all figures; matplotlib ships it.
FONT = "DejaVu Sans"
# With these a spreadsheet takes a cell for a formula.
_FORMULA = tuple("=+-@\t\r")


def share(value: float | None, digits: int = 0) -> str:
    """Return a share in per cent.

    Parameters
    ----------
    value : float or None
        The share, 0 to 1.
    digits : int
        Decimals. A positive share that would be rounded to 0 is ``<1%``, with one
        decimal ``<0.1%``.

    Examples
    --------
    >>> share(0.624), share(0.004), share(0.12345, 1), share(None) == UNKNOWN
    ('62%', '<1%', '12.3%', True)
    >>> share(0.0004, 1), share(0.0, 1)
    ('<0.1%', '0.0%')
    """
    if value is None:
        return UNKNOWN
    if 0 < value < 0.005 / 10**digits:
        return f"<{0.01 / 10**digits:.{digits}%}"
    return f"{value:.{digits}%}"


def number(value: float | None) -> str:
    """Return a number of any size with about three significant figures.

    From 1,000 it is a whole number with thousands separators; from a million, and
    below a thousandth, a power of ten. The minus is a minus sign, not a hyphen.

    Examples
    --------
    >>> number(0.01234), number(1234.5), number(2.5e7), number(-0.0)
    ('0.0123', '1,234', '2.5\u00d710\u2077', '0')
    """
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        mantissa, power = f"{value:.1e}".split("e")
        text = f"{mantissa}\u00d710{superscript(int(power))}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:z.3g}"
    return text.replace("-", MINUS)


def exact(value: float) -> str:
    """Return a number with the fewest digits that read back as the same number.

    Examples
    --------
    >>> exact(-9999.0), exact(2147483647.0), exact(1e38)
    ('-9999', '2147483647', '1e+38')
    """
    return repr(float(value)).removesuffix(".0")


def superscript(power: int) -> str:
    """Return a whole number in superscript digits."""
    return str(power).translate(_SUPERSCRIPT)


_SUPERSCRIPT = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)


def duration(seconds: float | None) -> str:
    """Return a time span in seconds, minutes, hours or days, whichever fits its size.

    Examples
    --------
    >>> duration(42), duration(600), duration(9000), duration(400_000)
    ('42 s', '10 min', '2.5 h', '4.6 days')
    >>> duration(0.4), duration(1.5)
    ('0.4 s', '1.5 s')
    """
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{number(seconds)} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.1f} days"


def span_s(text: str) -> float:
    """Return a time span such as ``8h`` in seconds.

    Raises
    ------
    ValueError
        If it is no number of s, min, h or d above 0.

    Examples
    --------
    >>> span_s("8h"), span_s("15 min"), span_s("90")
    (28800.0, 900.0, 90.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)?", text.strip())
    if match is None or not float(match[1]) > 0:
        raise ValueError(f"give a time like 15min or 4h, not {text!r}.")
    units = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
    return float(match[1]) * units[match[2] or "s"]


def size(n_bytes: int) -> str:
    """Return a number of bytes in kB, MB or GB, with about two significant figures.

    Examples
    --------
    >>> size(0), size(1_530), size(46_800_000), size(1_500_000_000)
    ('0 kB', '1.5 kB', '47 MB', '1.5 GB')
    """
    value, unit = n_bytes / 1e3, "kB"
    for larger in ("MB", "GB"):
        if value >= 1000:
            value, unit = value / 1e3, larger
    return f"{value:.1f} {unit}" if 0 < value < 10 else f"{value:,.0f} {unit}"


def row_span(rows: float | None, step_s: float | None) -> str:
    """Return a number of rows as a duration, or as a count if the step is unknown.

    Examples
    --------
    >>> row_span(60, 10.0), row_span(60, None)
    ('10 min', '60 rows')
    """
    if rows is None:
        return UNKNOWN
    return f"{rows:,.0f} rows" if step_s is None else duration(rows * step_s)


class Labelling(StrEnum):
    """What the labels of a record mark; it decides which words we use.

    ``ATTACKS``
        Of a testbed, or of a stream whose recording is not known.
    ``INCIDENTS``
        Of a plant's own record.
    ``NONE``
        Nobody labelled a row: no alarm is known to be false.
    """

    ATTACKS = "attacks"
    INCIDENTS = "incidents"
    NONE = "none"

    @classmethod
    def of(cls, n_labelled: int, is_own_plant: bool) -> "Labelling":
        """Return what the labels of one record mark."""
        marked = cls.INCIDENTS if is_own_plant else cls.ATTACKS
        return marked if n_labelled else cls.NONE

    @classmethod
    def of_all(cls, labels: Iterable["Labelling"]) -> "Labelling":
        """Return the words for several records: those of attacks if one has attacks."""
        present = {*labels, cls.NONE}
        return next(one for one in cls if one in present)


def as_labelled(words: str, labels: Labelling, names: Iterable[str] = ()) -> str:
    """Return our words about alarms in those that fit the labels of a record.

    An attack on a plant's own record is an incident. Where nobody labelled a row,
    whether an alarm is false is not known, nor which time is attack-free.

    Parameters
    ----------
    words : str
        Words of ours.
    labels : Labelling
        What the record's labels mark.
    names : iterable of str
        Names of users that may be among the words; they stay as they are.

    Examples
    --------
    >>> as_labelled("2 false alarms a day, 1% of attack-free time", Labelling.NONE)
    '2 alarms a day, 1% of time'
    >>> as_labelled("Attack 'attack 3' of 7 attacks", Labelling.INCIDENTS, ["attack 3"])
    "Incident 'attack 3' of 7 incidents"
    """
    if labels is Labelling.ATTACKS:
        return words
    if labels is Labelling.NONE:
        words = without_false(words)
    held = sorted({n for n in names if "attack" in n.lower()}, key=len, reverse=True)
    kept = "".join(rf"(?<!\w){re.escape(name)}(?!\w)|" for name in held)
    return re.sub(
        # No key, option, column or file, such as "attack-table" and "attacks.csv".
        rf"{kept}(?<![\w.$#-])(?P<a>a)ttack(?P<s>s?)(?=-free\b|(?![\w-]|\.\w))",
        lambda m: m[0] if m["a"] is None else f"{_INCIDENT[m['a']]}{m['s']}",
        words,
        flags=re.IGNORECASE,
    )


_INCIDENT = {"a": "incident", "A": "Incident"}


def without_false(words: str) -> str:
    """Return our words, and no word of false alarms, nor of attack-free time."""
    # A hyphen stands also in keys, such as "false-alarms".
    of_alarms = r"(?:[ \n]|-(?=alarm r))a"
    words = re.sub(f"\\bfalse{of_alarms}", "a", words)
    words = re.sub(f"\\bFalse{of_alarms}", "A", words)
    words = words.replace("in attack-free time,", "at any time,")
    free = r"attack-free(?: |(\n))(?=days|rows|test|time in alarm)"
    return re.sub(rf"\b{free}|(?:^|(?<=of ))attack-free (?=time)", r"\1", words)


def plural(count: int, word: str) -> str:
    """Return a count with its noun, which takes an s unless the count is one.

    Examples
    --------
    >>> plural(1, "attack"), plural(1200, "attack")
    ('1 attack', '1,200 attacks')
    """
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def counted(count: int, word: str, one: str, many: str) -> str:
    """Return a number of things with the verb that agrees with it.

    Examples
    --------
    >>> counted(1, "row", "is", "are"), counted(2, "row", "is", "are")
    ('1 row is', '2 rows are')
    """
    return f"{plural(count, word)} {one if count == 1 else many}"


def names(
    items: Sequence[object], most: int | None = None, *, quoted: bool = False
) -> str:
    """Return names as a list in words.

    Parameters
    ----------
    items : sequence
        The names; an empty sequence gives an empty text.
    most : int, optional
        How many names to list at most; the others are counted.
    quoted : bool
        Whether to put each name in quotation marks, as in error messages.

    Examples
    --------
    >>> names(["LIT101"]), names(["a", "b", "c"]), names(["a", "b", "c"], most=2)
    ('LIT101', 'a, b and c', 'a, b and 1 more')
    >>> print(names(["label", "time"], quoted=True))
    'label' and 'time'
    """
    words = [repr(str(item)) if quoted else str(item) for item in items]
    if most is not None and len(words) > most:
        words = [*words[:most], f"{len(words) - most:,} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def by_kind(notices: Sequence[str]) -> list[str]:
    """Return one line for each kind of remark, with the number of files it is about.

    Examples
    --------
    >>> by_kind(["a.csv: 3 rows are late.", "b.csv: 40 rows are late.", "c.csv: Fine."])
    ['a.csv: 3 rows are late. (And 1 file more.)', 'c.csv: Fine.']
    """
    kinds: dict[str, list[str]] = {}
    for notice in notices:
        _, colon, text = notice.partition(": ")
        # What it is about: the names and numbers after a further colon may differ.
        kind = text.partition(": ")[0]
        kind = re.sub(r"[\d.,:-]+|\b(is|are|was|were)\b|s\b", "#", kind)
        kinds.setdefault(kind if colon else notice, []).append(notice)
    return [
        same[0]
        if len(same) == 1
        else f"{same[0]} (And {plural(len(same) - 1, 'file')} more.)"
        for same in kinds.values()
    ]


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return the choice that a misspelt word is near to, else all choices.

    Examples
    --------
    >>> did_you_mean("hold", ["hold_s", "step_s"])
    "did you mean 'hold_s'?"
    >>> did_you_mean("colour", ["hold_s", "step_s"])
    'use hold_s or step_s.'
    """
    choices = [str(choice) for choice in choices]
    near = difflib.get_close_matches(word, choices, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"use {names(choices).replace(' and ', ' or ')}."


def score(value: float | None) -> str:
    """Return a figure between 0 and 1 with three decimals.

    Examples
    --------
    >>> score(0.9126), score(None) == UNKNOWN
    ('0.913', True)
    """
    return UNKNOWN if value is None else f"{value:z.3f}".replace("-", MINUS)


def probability(value: float | None) -> str:
    """Return a p-value with three decimals.

    Examples
    --------
    >>> probability(0.0321), probability(0.0001)
    ('0.032', '<0.001')
    """
    return "<0.001" if value is not None and value < 0.0005 else score(value)


def p_value(value: float | None) -> str:
    """Return a p-value by its name, with the two figures that ranks support.

    Examples
    --------
    >>> p_value(0.0164), p_value(0.377), p_value(0.00995), p_value(2e-9)
    ('p 0.016', 'p 0.38', 'p 0.01', 'p < 0.001')
    """
    if value is None:
        return f"p {UNKNOWN}"
    return "p < 0.001" if value < 0.001 else f"p {round(value, 3):.2g}"


def mean_count(value: float) -> str:
    """Return an expected number of events with one decimal.

    Examples
    --------
    >>> mean_count(0.43), mean_count(17.24), mean_count(0.01), mean_count(0)
    ('0.4', '17.2', 'under 0.1', '0')
    """
    if value <= 0:
        return "0"
    return "under 0.1" if value < 0.05 else f"{value:.1f}"


def correlation(value: float | None) -> str:
    """Return a correlation with its sign and two decimals.

    Examples
    --------
    >>> correlation(0.5), correlation(-0.5), correlation(-0.001)
    ('+0.50', '\u22120.50', '+0.00')
    """
    return UNKNOWN if value is None else f"{value:+z.2f}".replace("-", MINUS)


def per_day(value: float) -> str:
    """Return a rate: one decimal below 10 a day, whole numbers above.

    Examples
    --------
    >>> per_day(7.94), per_day(17.94), per_day(1118.2)
    ('7.9', '18', '1,118')
    """
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def delay(rows: float | None, step_s: float | None) -> str:
    """Return the time from the start of an attack, in seconds or else in rows.

    Examples
    --------
    >>> delay(0, 10.0), delay(6, 10.0), delay(6, None)
    ('at once', '60 s', '6 rows')
    """
    return "at once" if rows == 0 else row_span(rows, step_s)


def on_testbed(name: str) -> str:
    """Return a testbed as the end of a phrase; nothing if it has no name.

    Examples
    --------
    >>> on_testbed("SWaT"), on_testbed("unknown")
    (' on SWaT', '')
    """
    return "" if name == "unknown" else f" on {name}"


def short(text: str, letters: int = 40) -> str:
    """Return a name, shortened in the middle if it has more than `letters` letters.

    Examples
    --------
    >>> short("PLANT_UNIT_LEVEL.PV", 9)
    'PLAN\u2026L.PV'
    """
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{text[-tail:]}"


def legible(text: str) -> str:
    r"""Return text with characters that control a terminal or a reader escaped.

    Escape codes, line breaks, and marks that reverse the direction of writing become
    ``\x1b`` and the like. Names from files go through here before they are printed.

    Examples
    --------
    >>> print(legible("LIT\x1b[31m101\n\u202e"))
    LIT\x1b[31m101\n\u202e
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode()
        if unicodedata.category(one) in _UNSEEN and one not in _JOINERS
        else one
        for one in text
    )


def message(text: str) -> str:
    """Return the text of an error or notice as one legible line of bounded length.

    Above `MOST_LETTERS` characters, first long words (a name, a number) are shortened
    in the middle, then the whole: its beginning says what is wrong, its end what to do.

    Examples
    --------
    >>> message("There is no '" + "9" * 5000 + "'.")[:30], len(message("a " * 900))
    ("There is no '99999999999999999", 400)
    """
    line = legible(text)
    if len(line) > MOST_LETTERS:
        words = (short(word, MOST_IN_A_WORD) for word in line.split(" "))
        line = short(" ".join(words), MOST_LETTERS)
    return line


def drawable(text: str) -> str:
    r"""Return text with "?" for characters the font lacks, and no formula in it.

    Examples
    --------
    >>> drawable("tank$1")
    'tank\\$1'
    """
    known = _characters()
    drawn = "".join(c if ord(c) in known and c.isprintable() else "?" for c in text)
    return drawn.replace("$", r"\$")


@cache
def _characters() -> frozenset[int]:
    """Return the code points that the font of figures has."""
    # By name, so that who only needs words does not depend on the drawing library.
    fonts = import_module("matplotlib.font_manager")
    return frozenset(fonts.get_font(fonts.findfont(FONT)).get_charmap())


def csv_cell(value: object) -> object:
    """Return the value for a cell of a CSV file; no text of it becomes a formula.

    A text that begins with one of ``= + - @``, a tab or a carriage return, and is no
    number, gets an apostrophe in front, which spreadsheets take as the mark of a text.
    `from_csv_cell` takes it away.

    Examples
    --------
    >>> csv_cell("=1+1"), csv_cell("-0.5"), csv_cell(-0.5), csv_cell("LIT101")
    ("'=1+1", '-0.5', -0.5, 'LIT101')
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def from_csv_cell(cell: str) -> str:
    """Return the text that `csv_cell` made a cell of.

    Examples
    --------
    >>> from_csv_cell("'=1+1"), from_csv_cell("'quoted'")
    ('=1+1', "'quoted'")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def slug(text: str) -> str:
    """Return text as a part of a link: letters, digits and hyphens.

    Examples
    --------
    >>> slug("SWaT A1/<b>")
    'swat-a1-b'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
