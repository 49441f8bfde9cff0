"""What figures for print share: sizes, signs, scales, and how they are saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Floats
from sightline.files import staged_file
from sightline.report.entries import Entry
from sightline.report.formatting import VERDICTS, raised, short, verdict_of

# A column of a two-column paper, and both of them, in inches.
COLUMN, PAGE = 3.4, 7.0
# No name is drawn with more letters than these.
MOST_LETTERS = 40
# Pixels an inch of the PNG files.
DOTS = 220
# Who made a file, as the file tells.
MAKER = "Sightline"
STYLE: Any = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    # Names are text, not formulas, whatever signs they hold.
    "text.parse_math": False,
    "svg.hashsalt": "sightline",
    "svg.fonttype": "path",
}
LINES = ("#332288", "#117733", "#b5479b", "#c4533f", "#2a9d8f", "#8a8420", "#882255")
# One fewer than colours, so that both come round together only after 42 lines.
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))
TAU, TRAIN, FLOOR, SOFT = "#b3261e", "#1d6fa5", "#8a6100", "#565d68"
# What matplotlib calls the signs of the verdicts.
MARKS = {
    "detected": "o",
    "threshold": "^",
    "sequential": "s",
    "drift": ">",
    "diluted": "D",
    "quiet": "v",
    "undecided": "*",
    "weak-evidence": "o",
    "not-in-telemetry": "x",
    "not-diagnosed": ".",
}
HOLLOW = ("weak-evidence", "quiet", "sequential")


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, folder: Path, stem: str) -> list[Path]:
    """Write a figure as SVG and PNG, the same bytes each time."""
    # Laid out once, and not anew for each file.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    paths = []
    for ending, facts in (
        ("svg", {"Date": None, "Creator": MAKER}),
        ("png", {"Software": MAKER}),
    ):
        path = folder / f"{stem}.{ending}"
        with staged_file(path) as partial:
            figure.savefig(partial, format=ending, dpi=DOTS, metadata=facts)
        paths.append(path)
    return paths


def is_ours(path: Path) -> bool:
    """Tell whether a file is a figure that `save` wrote."""
    with path.open("rb") as file:
        return MAKER.encode() in file.read(4096)


def inches(text: str, size: float = 7.0) -> float:
    """Return how wide a text is drawn."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    font = FontProperties(family=STYLE["font.family"])
    return float(TextPath((0, 0), text, size=size, prop=font).get_extents().x1) / 72


def fitting(text: str, width: float, size: float = 8.5) -> str:
    """Return a name, shortened until it is no wider than so many inches."""
    most = MOST_LETTERS
    while most > 5 and inches(short(text, most), size) > width:
        most -= 1
    return short(text, most)


def mark(word: str, size: float = 4) -> dict[str, Any]:
    """Return how a verdict is marked: colour, sign, and filled or not."""
    colour = VERDICTS[word].light
    return {
        "marker": MARKS[word],
        "color": colour,
        "markerfacecolor": "white" if word in HOLLOW else colour,
        "linestyle": "none",
        "markersize": size,
        "markeredgewidth": 0.9,
    }


def plot_marks(
    axis: Any, x: Sequence[float], y: Sequence[float], words: Sequence[str], **size: Any
) -> None:
    """Mark points by their verdicts, all of one verdict at once."""
    for word in dict.fromkeys(words):
        picked = [k for k, one in enumerate(words) if one == word]
        at_x, at_y = [x[k] for k in picked], [y[k] for k in picked]
        # A mark at the edge is drawn whole.
        axis.plot(at_x, at_y, clip_on=False, **mark(word, **size))


def verdict_handles(entries: Sequence[Entry]) -> list[Any]:
    """Return a legend's handles for the verdicts that occur."""
    from matplotlib.lines import Line2D

    there = {verdict_of(s.verdict).word for e in entries for s in e.evaluation.segments}
    return [
        Line2D([], [], label=word, **mark(word)) for word in VERDICTS if word in there
    ]


def level_handles() -> list[Any]:
    """Return a legend's handles for the levels of energy."""
    from matplotlib.lines import Line2D

    looks = (
        (TAU, "-", "tau99"),
        (TRAIN, ":", "train level"),
        (FLOOR, "--", "drift floor"),
    )
    return [
        Line2D([], [], color=colour, lw=0.8, ls=dash, label=label)
        for colour, dash, label in looks
    ]


def log_scale(axis: Any, values: Floats, *, most: int = 4) -> None:
    """Give an axis (``ax.xaxis`` or ``ax.yaxis``) decades that are few and readable."""
    from matplotlib.ticker import FixedLocator, NullLocator

    known = values[values > 0]
    low, high = np.log10(known.min()), np.log10(known.max())
    step = max(1, int(np.ceil((high - low) / most)))
    powers = np.arange(np.ceil(low), np.floor(high) + 1, step)
    axis.set_major_locator(FixedLocator([float(10.0**power) for power in powers]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: power_of_ten(value))


def power_of_ten(value: float) -> str:
    """Return a power of ten as one writes it by hand.

    Examples
    --------
    >>> power_of_ten(0.1), power_of_ten(10), power_of_ten(1e6)
    ('0.1', '10', '10\u2076')
    """
    power = round(np.log10(value))
    return f"{10.0**power:g}" if -2 <= power <= 2 else f"10{raised(power)}"
