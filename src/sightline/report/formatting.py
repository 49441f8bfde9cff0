"""The number formats that the whole report shares."""

import re

from sightline.text import UNKNOWN, row_span

DAGGER = "\N{DAGGER}"


def score(value: float | None) -> str:
    """Return a figure between 0 and 1 as papers print it."""
    return UNKNOWN if value is None else f"{value:.3f}".replace("-", "\u2212")


def delay(rows: float | None, step_s: float | None) -> str:
    """Return how long after an attack's start something came."""
    return "at once" if rows == 0 else row_span(rows, step_s)


def on_testbed(name: str) -> str:
    """Return where, as the end of a phrase; nothing where nobody said it.

    Examples
    --------
    >>> on_testbed("SWaT"), on_testbed("unknown")
    (' on SWaT', '')
    """
    return "" if name == "unknown" else f" on {name}"


def short(text: str, most: int = 40) -> str:
    """Return a name of at most so many letters: its ends, which tell it apart.

    Examples
    --------
    >>> short("PLANT_UNIT_LEVEL.PV", 9)
    'PLAN\u2026L.PV'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{text[-tail:]}"


def per_day(value: float | None) -> str:
    """Return a rate a day."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def slug(text: str) -> str:
    """Return text as a part of a link: letters, digits and hyphens.

    Examples
    --------
    >>> slug("SWaT A1/<b>")
    'swat-a1-b'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
