"""Formats that only the report needs; `sightline.text` has those all rooms share."""

import re

from sightline.text import UNKNOWN, row_span

# Marks a mean that a few extreme points dominate.
DAGGER = "\N{DAGGER}"
MINUS = "\N{MINUS SIGN}"


def score(value: float | None) -> str:
    """Return a figure between 0 and 1 with three decimals.

    Examples
    --------
    >>> score(0.9126), score(None) == UNKNOWN
    ('0.913', True)
    """
    return UNKNOWN if value is None else f"{value:.3f}".replace("-", MINUS)


def probability(value: float | None) -> str:
    """Return a p-value with three decimals.

    Examples
    --------
    >>> probability(0.0321), probability(0.0001)
    ('0.032', '<0.001')
    """
    return "<0.001" if value is not None and value < 0.0005 else score(value)


def correlation(value: float | None) -> str:
    """Return a correlation with its sign and two decimals.

    Examples
    --------
    >>> correlation(0.5), correlation(-0.5)
    ('+0.50', '\u22120.50')
    """
    return UNKNOWN if value is None else f"{value:+.2f}".replace("-", MINUS)


def per_day(value: float) -> str:
    """Return a rate: one decimal below 100 a day, whole numbers above.

    Examples
    --------
    >>> per_day(7.94), per_day(1118.2)
    ('7.9', '1,118')
    """
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


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


def slug(text: str) -> str:
    """Return text as a part of a link: letters, digits and hyphens.

    Examples
    --------
    >>> slug("SWaT A1/<b>")
    'swat-a1-b'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
