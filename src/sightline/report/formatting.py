"""The words, symbols, colours and number formats that the whole report shares."""

import re
from dataclasses import dataclass

from sightline.text import UNKNOWN, row_span

DAGGER = "\N{DAGGER}"


@dataclass(frozen=True)
class VerdictStyle:
    """How a verdict is shown: never by colour alone."""

    word: str
    symbol: str
    marker: str
    light: str
    dark: str
    meaning: str
    repair: str


# Okabe and Ito's colours, which readers with any colour vision tell apart; each
# verdict has a symbol of its own as well.
VERDICTS = {
    style.word: style
    for style in (
        VerdictStyle(
            "detected",
            "\u25cf",
            "circle",
            "#00805d",
            "#2cc79a",
            "the p99 rule sees it, beside the calm hours around it",
            "nothing to repair",
        ),
        VerdictStyle(
            "threshold",
            "\u25b2",
            "triangle-up",
            "#a86f00",
            "#f0b429",
            "the evidence ranks high; the limit from training does not extract it",
            "recalibrate the limit",
        ),
        VerdictStyle(
            "sequential",
            "\u2261",
            "hash-open",
            "#2c7fb0",
            "#66c2f0",
            "single points do not stand out, their accumulation does",
            "accumulate energy over time (EWMA, CUSUM)",
        ),
        VerdictStyle(
            "drift",
            "\u25e2",
            "triangle-se",
            "#c04f00",
            "#ff8a4c",
            "the evidence appears once the reference is fitted anew on calm test hours",
            "stabilise or update the reference",
        ),
        VerdictStyle(
            "diluted",
            "\u25c6",
            "diamond",
            "#a8467e",
            "#e58fc0",
            "the evidence is in a few channels and drowns when all are pooled",
            "score a smaller space by itself",
        ),
        VerdictStyle(
            "quiet",
            "\u25bd",
            "triangle-down-open",
            "#0062a3",
            "#7fb2ff",
            "less energy than normal: signals frozen or replayed",
            "alarm on too little movement as well",
        ),
        VerdictStyle(
            "undecided",
            "?",
            "star",
            "#6b6b6b",
            "#a8a8a8",
            "too few calm windows to judge",
            "record more calm hours",
        ),
        VerdictStyle(
            "weak-evidence",
            "\u25cb",
            "circle-open",
            "#3d3d3d",
            "#d0d0d0",
            "no repair shows it; the telemetry moves, or was not given",
            "a better model of the plant",
        ),
        VerdictStyle(
            "not-in-telemetry",
            "\u00d7",
            "x-thin",
            "#707070",
            "#9a9a9a",
            "no repair shows it, and the measured telemetry itself does not move",
            "nothing to see in this telemetry",
        ),
        VerdictStyle(
            "not-diagnosed",
            "\u00b7",
            "circle-dot",
            "#6b6b6b",
            "#a8a8a8",
            "evaluated without a diagnosis",
            "evaluate again without --no-diagnosis",
        ),
    )
}
# The rungs of the ladder, in its order.
RUNGS = {
    "own-rule": "Your own rule, as it runs today",
    "detected": "The p99 limit from training",
    "recalibrate": "Limit set anew on calm hours",
    "rereference": "Reference fitted anew on calm hours",
    "refocus": "A smaller space by itself",
    "accumulate": "Accumulated over time",
    "quiet": "Alarm on too little movement",
    "telemetry": "The telemetry itself",
}


def verdict_of(word: str | None) -> VerdictStyle:
    """Return how a verdict is shown."""
    return VERDICTS.get(word or "not-diagnosed", VERDICTS["not-diagnosed"])


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
