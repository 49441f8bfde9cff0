"""How figures of a paper look: sizes, colours, fonts, and the same bytes each time."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONE_COLUMN = 3.4
TWO_COLUMNS = 7.0
# Okabe and Ito's colours, told apart with any colour vision; yellow is left out, for
# it is hard to see on white.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
DPI = 300
_STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 0.8,
    # Text as outlines: the same on every machine.
    "svg.fonttype": "path",
    "svg.hashsalt": "sightline",
    "text.usetex": False,
    "mathtext.fontset": "dejavusans",
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of a paper, whatever the user's own settings are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def rendered(figure: "Figure") -> dict[str, bytes]:
    """Return a figure as SVG and PNG, without a date or a version in them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    # Laid out once, both files have everything in the same place.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    made = {}
    for kind, metadata in (
        ("svg", {"Date": None, "Creator": None}),
        ("png", {"Software": None}),
    ):
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
        made[kind] = file.getvalue()
    return made


def drawable(text: str) -> str:
    """Return text that the font can draw, and that is not taken for a formula."""
    known = _characters()
    shown = "".join(c if ord(c) in known and c.isprintable() else "?" for c in text)
    return shown.replace("$", r"\$")


@cache
def _characters() -> frozenset[int]:
    from matplotlib import font_manager

    path = font_manager.findfont("DejaVu Sans")
    return frozenset(font_manager.get_font(path).get_charmap())


def colour(k: int) -> str:
    """Return the k-th colour; they begin anew when there are no more."""
    return COLOURS[k % len(COLOURS)]


def marker(k: int) -> str:
    """Return the k-th marker."""
    return MARKERS[k % len(MARKERS)]
