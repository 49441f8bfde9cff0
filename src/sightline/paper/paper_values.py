"""The figures that the paper prints, and a study's own beside them."""

import csv
from functools import cache
from importlib.resources import files

from sightline.paper.markup import Phrase, words
from sightline.paper.study import Study, card_of, plant_of
from sightline.paper.table import Cell, Column, Group, PaperTable, text_cell
from sightline.paper.tables import (
    COMPACT,
    DRIFT,
    MEDIAN,
    PAUC_1,
    RANGE,
    ROBUST,
    ROC_AUC,
    WINDOWS,
    range_of,
)

TABLES = ("main", "full", "cross_testbed_ranking", "detectors", "testbeds")
_BESIDE = (ROC_AUC, PAUC_1, WINDOWS, DRIFT, ROBUST, COMPACT, MEDIAN)


@cache
def published(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of one of the paper's tables as it prints them.

    Examples
    --------
    >>> published("main")[0]["roc_auc"]
    '0.877'
    """
    table = files("sightline.paper") / "paper_tables" / f"{name}.csv"
    lines = table.read_text(encoding="utf-8").splitlines()
    return tuple(csv.DictReader(line for line in lines if not line.startswith("#")))


def published_figures(testbed: str, detector: str) -> dict[str, float] | None:
    """Return what the paper prints for a detector on a testbed; None if nothing."""
    card = card_of(detector)
    name = detector.lower() if card is None else card.name
    found: dict[str, float] = {}
    for table in ("main", "full"):
        for row in published(table):
            if (row["testbed"], row["detector"]) == (plant_of(testbed), name):
                found |= {
                    key: float(value)
                    for key, value in row.items()
                    if key not in ("testbed", "detector") and value
                }
    return found or None


def beside_paper(study: Study) -> PaperTable | None:
    """Return the main table with the paper's figures; None where it has none."""
    groups = []
    for testbed in study.testbeds:
        rows = []
        for pair in study.on(testbed):
            theirs = published_figures(testbed, pair.detector)
            if theirs is None:
                continue
            cells = [text_cell(pair.detector, study.detector_title(pair.detector))]
            for figure in _BESIDE:
                value = theirs[figure.key]
                ours = pair.spread(figure.place)
                cells += [
                    Cell(
                        figure.written(None if ours is None else ours.mean),
                        range_of(ours),
                    ),
                    Cell(figure.written(value), (value,)),
                ]
            rows.append(tuple(cells))
        if rows:
            title = study.testbed_title(testbed)
            groups.append(Group(name=testbed, title=title, rows=tuple(rows)))
    if not groups:
        return None
    columns = [Column(key="detector", header=words("Detector"), align="l")]
    for figure in _BESIDE:
        is_shown = figure is not DRIFT  # its robust companion is enough to read
        columns += [
            Column(key=figure.key, header=figure.header, parts=RANGE, shown=is_shown),
            Column(
                key=f"{figure.key}_paper",
                header=Phrase("paper", r"\emph{paper}"),
                shown=is_shown,
            ),
        ]
    return PaperTable(
        name="main_beside_paper",
        caption=words(
            "This study's figures beside those of Shi, Xiang, Zhang and Fu (columns "
            '"paper"). Training, seeds, releases of the data and their preparation may '
            "differ, so a difference is no error of either. Of several seeds the mean "
            "is given; ranges are in the main table."
        ),
        columns=tuple(columns),
        groups=tuple(groups),
    )
