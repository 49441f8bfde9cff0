"""All figures of a score, and of alarms, as one frame in one call."""

from typing import Any

import numpy.typing as npt

from sightline.figures import FIGURES, FigureEntry
from sightline.metrics.alarm_figures import ALL, AlarmFigure, chosen_figures
from sightline.metrics.alarm_figures import measure_figures as measure
from sightline.metrics.alarm_runs import AlarmRuns
from sightline.metrics.score_metrics import ScoreRanks
from sightline.show.table import Column, Columns, TableCell, to_frame

Row = tuple[FigureEntry, AlarmFigure]


def _column(key: str, get: Any) -> Column[Row]:
    return Column(key, get=lambda row: TableCell(values=(get(*row),)))


REPORT: Columns[Row] = (
    _column("figure", lambda entry, one: entry.key),
    _column("name", lambda entry, one: entry.name),
    _column("value", lambda entry, one: one.value),
    _column("chance", lambda entry, one: one.floor and one.floor.value),
    _column("p", lambda entry, one: one.floor and one.floor.p),
    _column("low", lambda entry, one: one.interval and one.interval[0]),
    _column("high", lambda entry, one: one.interval and one.interval[1]),
    _column("better", lambda entry, one: str(entry.better)),
    _column("of", lambda entry, one: str(entry.on)),
    _column("definition", lambda entry, one: one.definition),
)


def score_report(
    labels: npt.ArrayLike,
    score: npt.ArrayLike,
    alarms: npt.ArrayLike | None = None,
    *,
    breaks: npt.ArrayLike | None = None,
    metrics: str = ALL,
    chance: bool = True,
    seed: int = 0,
    library: str = "pandas",
) -> Any:
    """Return all published figures of a score, and of alarms, as one frame.

    No residuals and no training data are needed, and every row counts. What no score
    can say (why an attack is missed, where, whether normal operation has drifted) is
    said by `evaluate`.

    Parameters
    ----------
    labels : array of shape (n,)
        1 attack, 0 normal, -1 ignore.
    score : array of shape (n,)
        Larger where a row is more anomalous.
    alarms : array of shape (n,), optional
        0 or 1: adds the figures of alarms.
    breaks : array of int, optional
        First row of each continuous run.
    metrics : str
        Figures and families to measure, as for `evaluate`.
    chance : bool
        Whether to measure what chance gives: the score rolled against the labels.
    seed : int
        Seed of the draws of chance.
    library : {"pandas", "polars"}
        Whose frame.

    Returns
    -------
    frame
        A row for each figure: ``figure``, ``name``, ``value``, ``chance``, ``p`` (share
        of draws by chance that are at least as good), ``low`` and ``high`` (95%
        interval where there is one), ``better``, ``of`` (score or alarms) and
        ``definition``, as versions of one name differ.

    Examples
    --------
    >>> import numpy as np
    >>> labels, score = np.zeros(200, int), np.arange(200) % 7.0
    >>> labels[90:110], score[95:112] = 1, 9.0
    >>> frame = score_report(labels, score, score > 8, metrics="vus,pa_f1")
    >>> frame[["figure", "of"]].values.tolist()
    [['vus_roc', 'score'], ['vus_pr', 'score'], ['pa_f1', 'alarms']]
    """
    given: list[ScoreRanks | AlarmRuns] = [ScoreRanks.of(labels, score, breaks=breaks)]
    if alarms is not None:
        given.append(AlarmRuns.of(labels, alarms, breaks=breaks))
    keys = chosen_figures(metrics)
    rows = [
        (FIGURES[key], figure)
        for one in given
        for key, figure in measure(one, keys, uncertainty=chance, seed=seed).items()
    ]
    return to_frame(REPORT, rows, library)
