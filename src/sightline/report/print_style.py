"""The style of all figures for print: sizes, colours, fonts, and reproducible files.

The report's figures and the paper's figures share it. Text is stored as outlines and
files hold no date, so the same results give the same bytes on every machine.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.data.arrays import Floats
from sightline.files import staged_file
from sightline.judgement.verdicts import all_infos, info_of
from sightline.text import FONT, drawable, short, superscript

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sightline.report.entries import Entry

# Width of one column of a two-column paper, and of both, in inches.
ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
# Longer names are shortened in the middle.
MAX_LETTERS = 40
PNG_DPI = 300
# In a notebook.
SCREEN_DPI = 110
# Stored in each file, so that `is_ours` recognises it.
CREATOR = "Sightline"
_STYLE: Any = {
    "font.family": [FONT],
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.titlesize": 8.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "lines.linewidth": 1.0,
    # Publishers refuse the fonts of type 3 that matplotlib writes by default.
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "sightline",
    "text.usetex": False,
    "mathtext.fontset": "dejavusans",
}
# Distinguishable with any colour vision. The page uses the same colours.
COLOURS = ("#332288", "#117733", "#b5479b", "#c4533f", "#2a9d8f", "#8a8420", "#882255")
# Coprime with the number of colours: a pair recurs only after 42 lines.
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
TAU, TRAIN, FLOOR, SOFT = "#b3261e", "#1d6fa5", "#8a6100", "#565d68"


@contextmanager
def styled() -> Iterator[None]:
    """Apply the print style, independent of the user's matplotlib settings."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def colour(k: int) -> str:
    """Return the k-th colour; after the last one they repeat."""
    return COLOURS[k % len(COLOURS)]


def marker(k: int) -> str:
    """Return the k-th marker; after the last one they repeat."""
    return MARKERS[k % len(MARKERS)]


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure that needs no screen.

    Parameters
    ----------
    width, height : float
        In inches; `ONE_COLUMN` and `TWO_COLUMNS` are the widths of a paper.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _figure_type()(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@cache
def _figure_type() -> "type[Figure]":
    """Return the class of figures, which a notebook shows without pyplot."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=SCREEN_DPI)
            return file.getvalue()

    return ShownFigure


def rendered(figure: "Figure") -> dict[str, bytes]:
    """Return a figure as files.

    Returns
    -------
    dict of str to bytes
        By file ending: ``pdf``, ``svg`` and ``png``. All share one layout and hold no
        date, so the same figure gives the same bytes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    # With an engine, also the one called "none", each file would be drawn twice.
    figure.set_layout_engine(None)
    files = {}
    for kind, metadata in (
        ("pdf", {"CreationDate": None, "Creator": CREATOR}),
        ("svg", {"Date": None, "Creator": CREATOR}),
        ("png", {"Software": CREATOR}),
    ):
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=PNG_DPI, metadata=metadata)
        files[kind] = file.getvalue()
    return files


def save(figure: "Figure", folder: Path, stem: str) -> list[Path]:
    """Write a figure as PDF, SVG and PNG.

    Parameters
    ----------
    figure : Figure
        Drawn inside `styled`.
    folder : Path
        Is created if needed.
    stem : str
        Name of the files without the ending.

    Returns
    -------
    list of Path
        The files, each written completely or not at all.
    """
    paths = []
    for kind, content in rendered(figure).items():
        paths.append(folder / f"{stem}.{kind}")
        with staged_file(paths[-1]) as partial:
            partial.write_bytes(content)
    return paths


def is_ours(path: Path) -> bool:
    """Return whether a file is a figure that `save` wrote: it names Sightline."""
    content = path.read_bytes()
    # A PDF file does so at its end, others at their beginning.
    return CREATOR.encode() in (content if path.suffix == ".pdf" else content[:4096])


def label(name: str, letters: int = MAX_LETTERS) -> str:
    """Return a name as a figure shows it: drawable, and shortened in the middle."""
    return drawable(short(name, letters))


def inches(text: str, size: float = 7.0) -> float:
    """Return the width of a text in inches at a font size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    path = TextPath((0, 0), text, size=size, prop=FontProperties(family=FONT))
    return float(path.get_extents().x1) / 72


def fitting(name: str, width: float, size: float = 8.0) -> str:
    """Return a name, shortened until it is at most `width` inches wide.

    At least five letters stay, even if they are wider.
    """
    letters = MAX_LETTERS
    while letters > 5 and inches(label(name, letters), size) > width:
        letters -= 1
    return label(name, letters)


def mark(word: str, size: float = 4) -> dict[str, Any]:
    """Return the keywords of `Axes.plot` that mark a verdict.

    Parameters
    ----------
    word : str
        The verdict; colour, marker and fill come from the table of verdicts.
    size : float
        Size of the marker in points.
    """
    info = info_of(word)
    return {
        "marker": info.print_marker,
        "color": info.light,
        "markerfacecolor": "white" if info.is_hollow else info.light,
        "linestyle": "none",
        "markersize": size,
        "markeredgewidth": 0.9,
    }


def plot_marks(
    axis: Any, x: Sequence[float], y: Sequence[float], words: Sequence[str], **size: Any
) -> None:
    """Mark points by their verdicts.

    Parameters
    ----------
    axis : Axes
        Where to draw.
    x, y : sequence of float
        Positions in data units.
    words : sequence of str
        The verdict of each point.
    size : float
        Size of the markers in points.
    """
    for word in dict.fromkeys(words):
        picked = [k for k, one in enumerate(words) if one == word]
        at_x, at_y = [x[k] for k in picked], [y[k] for k in picked]
        # A mark at the edge of the axes is drawn in full.
        axis.plot(at_x, at_y, clip_on=False, **mark(word, **size))


def verdict_handles(entries: "Sequence[Entry]") -> list[Any]:
    """Return legend handles of the verdicts that occur in the results."""
    from matplotlib.lines import Line2D

    words = {verdict.word for entry in entries for verdict in entry.verdicts}
    return [
        Line2D([], [], label=info.word, **mark(info.word))
        for info in all_infos()
        if info.word in words
    ]


def level_handles() -> list[Any]:
    """Return legend handles of the three energy levels."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=TAU, lw=0.8, ls="-", label="alarm limit (tau99)"),
        Line2D([], [], color=TRAIN, lw=0.8, ls=":", label="train level"),
        Line2D([], [], color=FLOOR, lw=0.8, ls="--", label="drift floor"),
    ]


def log_scale(axis: Any, values: Floats, *, most: int = 4) -> None:
    """Give a log axis few ticks at whole decades, or between them within one decade.

    Parameters
    ----------
    axis : Axis
        ``ax.xaxis`` or ``ax.yaxis``.
    values : array
        What is drawn; values of 0 or less are ignored.
    most : int
        About how many ticks there are at most.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    positive = values[values > 0]
    least, largest = float(positive.min()), float(positive.max())
    low, high = np.log10(least), np.log10(largest)
    step = max(1, int(np.ceil((high - low) / most)))
    ticks = 10.0 ** np.arange(np.ceil(low), np.floor(high) + 1, step)
    axis.set_major_formatter(lambda value, _: power_of_ten(value))
    if len(ticks) < 2:
        ticks = np.asarray(MaxNLocator(most - 1).tick_values(least, largest))
        ticks = ticks[(ticks > 0) & (ticks >= least) & (ticks <= largest)]
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_major_locator(FixedLocator(ticks.tolist()))
    axis.set_minor_locator(NullLocator())


def power_of_ten(value: float) -> str:
    """Return a power of ten as people write it by hand.

    Examples
    --------
    >>> power_of_ten(0.1), power_of_ten(10), power_of_ten(1e6)
    ('0.1', '10', '10\u2076')
    """
    power = round(np.log10(value))
    return f"{10.0**power:g}" if -2 <= power <= 2 else f"10{superscript(power)}"
