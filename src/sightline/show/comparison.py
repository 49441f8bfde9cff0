"""What is shown of a comparison of detectors: terminal, notebook and print.

Each list of columns serves every renderer; what a terminal or a notebook shows of it is
picked below. In print detectors and testbeds have titles, hence the argument `title`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from sightline.figures import FIGURES, Figure
from sightline.rules.advice import load_words
from sightline.show.attacks import sure
from sightline.show.evaluations import FOUND, found_words, load_cell
from sightline.show.phrases import FORMULAS, Phrase, filled, fixed, words
from sightline.show.phrases import UNKNOWN as NO_PHRASE
from sightline.show.table import Cell, Column, Columns, Table, pick
from sightline.text import UNKNOWN, correlation, names, probability, score

if TYPE_CHECKING:
    from sightline.comparison.compare import (
        Agreement,
        Comparison,
        Detections,
        Ranking,
        SeededFigure,
        SideBySide,
        Transfer,
    )
    from sightline.comparison.differences import Difference, MeanRanks

MAIN_FIGURES = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL, Figure.F1)
PAIR = ("first", "second")
# What CSV holds of a difference.
DIFFERENCE_PARTS = (
    "difference",
    "low",
    "high",
    "p",
    "p_adjusted",
    "better",
    "worse",
    "same",
    "detectable",
    "n_needed",
)
# Figures of one detector on one testbed, and differences of two detectors, by figure.
ByFigure = "Mapping[str, SeededFigure]"
Pair = "Mapping[str, Difference]"
Title = Callable[[str], str]


def figure_header(figure: Figure) -> Phrase:
    r"""Return the header of a figure's column, a formula in LaTeX where it is one.

    Examples
    --------
    >>> figure_header(Figure.P_FULL).latex, figure_header(Figure.F1).markdown
    ('$P_{\\mathrm{FULL}}$', 'F1@p99')
    """
    symbol = FIGURES[figure].symbol
    return FORMULAS[figure] if figure in FORMULAS else words(symbol)


