"""All figures of a score, and of alarms, as one frame in one call."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, IGNORED
from sightline.figures import FIGURES, PAUC_RATES, Figure, FigureEntry, MeasuredOn
from sightline.metrics.alarm_figures import ALL, AlarmFigure, chosen_figures
from sightline.metrics.alarm_figures import measure_figures as measure
from sightline.metrics.alarm_runs import AlarmRuns
from sightline.metrics.ranking import partial_auc_score
from sightline.metrics.score_metrics import ScoreRanks
from sightline.show.table import Column, Columns, TableCell, to_frame

Row = tuple[FigureEntry, AlarmFigure]


def _column(key: str, get: Any) -> Column[Row]:
    return Column(key, get=lambda row: TableCell(values=(get(*row),)))


def _plain(
    key: Figure, on: MeasuredOn, family: str, definition: str, **same: Any
) -> FigureEntry:
    """Return the entry of a figure that evaluations keep in a record of its own."""
    entry = FIGURES[key]
    return replace(
        entry, on=on, family=family, output=key, definition=definition, **same
    )


_ROWS = "rows, without point adjustment"
# What scikit-learn has too; evaluations have them outside `alarm_metrics`.
PLAIN = (
    _plain(
        Figure.ROC_AUC,
        MeasuredOn.SCORE,
        "rank",
        "share of pairs of attack row and normal row in the right order; ties half",
    ),
    _plain(Figure.AVERAGE_PRECISION, MeasuredOn.SCORE, "rank", "step-wise"),
    *(
        _plain(key, MeasuredOn.ALARMS, "point", _ROWS, name=key.capitalize())
        for key in (Figure.PRECISION, Figure.RECALL, Figure.F1)
    ),
)

REPORT: Columns[Row] = (
    _column("figure", lambda entry, one: str(entry.key)),
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
    """Return ROC-AUC, F1 and all published figures of a score and alarms, as one frame.

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
        Figures and families to measure, as for `evaluate`, beside ROC-AUC, average
        precision and pAUC at 1% and 5% of the score, precision, recall and F1 of the
        alarms.
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
    >>> frame["figure"].tolist()[:6]
    ['pauc_1', 'pauc_5', 'roc_auc', 'average_precision', 'vus_roc', 'vus_pr']
    """
    keys = chosen_figures(metrics)

    def measured(given: ScoreRanks | AlarmRuns) -> list[Row]:
        found = measure(given, keys, uncertainty=chance, seed=seed, more=PLAIN)
        plain = {entry.key: entry for entry in PLAIN}
        return [(plain.get(key) or FIGURES[key], one) for key, one in found.items()]

    of_score = measured(ScoreRanks.of(labels, score, breaks=breaks))
    rows = partial_areas(np.asarray(labels), np.asarray(score)) + of_score
    if alarms is not None:
        rows += measured(AlarmRuns.of(labels, alarms, breaks=breaks))
    return to_frame(REPORT, rows, library)


def partial_areas(labels: npt.NDArray[Any], score: npt.NDArray[Any]) -> list[Row]:
    """Return pAUC at 1% and 5%; None without attacks or normal rows. 0 is chance."""
    counted = labels != IGNORED
    is_attack = labels[counted] == ATTACK
    is_defined = 0 < is_attack.sum() < len(is_attack)
    definition = "ROC area at false-alarm rates up to the share: 0 chance, 1 perfect"
    return [
        (
            _plain(key, MeasuredOn.SCORE, "rank", definition),
            AlarmFigure(
                value=partial_auc_score(is_attack, score[counted], max_fpr=rate)
                if is_defined
                else None,
                definition=definition,
            ),
        )
        for key, rate in zip((Figure.PAUC_1, Figure.PAUC_5), PAUC_RATES, strict=True)
    ]
