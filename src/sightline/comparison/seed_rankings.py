"""How often a ranking of detectors holds over their seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sightline.comparison.runs import Figure
from sightline.data.arrays import Floats

# Figures by which detectors are ranked on each testbed.
RANKED_FIGURES = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL, Figure.F1)


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The order of detectors on one testbed by one figure, and how often it holds.

    `order` is by the mean over seeds, highest first. `holds` is the share of seed
    combinations (one seed for each detector) with this whole order, and `above` the
    share of seed pairs in which each detector is above the next. A tie counts half.
    """

    testbed: str
    figure: str
    order: tuple[str, ...]
    n_seeds: tuple[int, ...]
    holds: float
    above: tuple[float, ...]


def rank_detectors(
    testbed: str, figure: str, values: Mapping[str, Sequence[float]]
) -> Ranking | None:
    """Rank detectors by their values over seeds; None for fewer than two.

    Examples
    --------
    >>> ranking = rank_detectors("swat", "roc_auc", {"a": [0.7, 0.9], "b": [0.8]})
    >>> ranking.order, ranking.holds
    (('a', 'b'), 0.5)
    """
    known = {name: np.array(seeds, float) for name, seeds in values.items() if seeds}
    if len(known) < 2:
        return None
    order = sorted(known, key=lambda name: (-known[name].mean(), name))
    beats = [_beats(known[first], known[second]) for first, second in pairwise(order)]
    # The whole order is there if each detector is above the next, so the shares of all
    # combinations come from one pass along the order: none need be listed or drawn.
    counts = np.ones(len(known[order[0]]))
    for table in beats:
        counts = counts @ table
    n_seeds = tuple(len(known[name]) for name in order)
    return Ranking(
        testbed=testbed,
        figure=figure,
        order=tuple(order),
        n_seeds=n_seeds,
        holds=float(counts.sum() / np.prod(np.array(n_seeds, float))),
        above=tuple(float(table.mean()) for table in beats),
    )


def _beats(first: Floats, second: Floats) -> Floats:
    """Return for each pair of seeds whether the first is above: 1, 0, or half a tie."""
    difference = first[:, None] - second[None, :]
    return np.asarray((np.sign(difference) + 1) / 2)
