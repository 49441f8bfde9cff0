"""The paper's tables of testbeds, detectors and figures, and its printed values."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files

from sightline.comparison.compare import Comparison
from sightline.comparison.runs import DetectorRuns, Figure, Spread, TestbedRuns
from sightline.evaluation.result import Interval
from sightline.paper import markup
from sightline.paper.markup import (
    SYMBOLS,
    Cell,
    Column,
    Group,
    PaperTable,
    Phrase,
    filled,
    words,
)
from sightline.paper.study import Study, card_of, card_of_runs, plant_of, space_of

RANGE = ("", "low", "high")
# A compactness below this share of all others is set in bold: it marks another kind of
# residual space. The paper sets two of three such values in bold.
DISTINCT_COMPACTNESS = 0.5
DETECTOR = Column("detector", words("Detector"), "l")
N_SEEDS = Column("n_seeds", is_shown=False)
P = Phrase("p", "$p$")
# Headers that are formulas; all others are the label of the figure.
_FORMULAS = {
    Figure.P_FULL: SYMBOLS["P_FULL"],
    Figure.MEDIAN_D_FULL: filled("med. D_FULL"),
    Figure.D_DRIFT: SYMBOLS["D_drift"],
    Figure.D_DRIFT_ROBUST: filled("D_drift (rob.)"),
    Figure.COMPACTNESS: SYMBOLS["p_eff/p"],
    Figure.MAX_Z: Phrase("max-z", "max-$z$"),
}
_SCORES = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL)
# The paper's columns of alarms are at a limit that 1% of the attack-free test rows
# exceed, so they are compared with these (docs/paper.md).
_HINDSIGHT = (
    Figure.HINDSIGHT_F1,
    Figure.HINDSIGHT_PRECISION,
    Figure.HINDSIGHT_RECALL,
    Figure.HINDSIGHT_FALSE_POSITIVE_SEGMENTS,
    Figure.HINDSIGHT_HITS,
)
_SUPPLEMENT = (
    Figure.AVERAGE_PRECISION,
    Figure.PAUC_5,
    Figure.F1,
    Figure.PRECISION,
    Figure.RECALL,
    Figure.FALSE_POSITIVE_SEGMENTS,
    Figure.HITS,
    Figure.MAX_Z,
    Figure.EXCESS_KURTOSIS,
    *_HINDSIGHT,
)
# Figures with a 95% interval and a chance floor, which are in CSV only.
_UNCERTAIN = (
    *_SCORES,
    Figure.MEDIAN_D_FULL,
    Figure.AVERAGE_PRECISION,
    Figure.PAUC_5,
    Figure.F1,
    Figure.PRECISION,
    Figure.RECALL,
    Figure.HITS,
)
_PRINTED = (
    *_SCORES,
    Figure.D_DRIFT,
    Figure.D_DRIFT_ROBUST,
    Figure.COMPACTNESS,
    Figure.MEDIAN_D_FULL,
    *_HINDSIGHT,
)
# The paper's tables that come with the package.
PUBLISHED = ("main", "full", "cross_testbed_ranking", "detectors", "testbeds")


def header(figure: Figure) -> Phrase:
    r"""Return the header of a figure's column.

    Examples
    --------
    >>> header(Figure.P_FULL).latex, header(Figure.F1).markdown
    ('$P_{\\mathrm{FULL}}$', 'F1@p99')
    """
    return _FORMULAS.get(figure, words(figure.label))


def testbed_table(study: Study) -> PaperTable:
    """Return the length of each test, its share of attack rows, and its segments.

    A row for each testbed. Ranges are over detectors and seeds, as each detector may
    have its own resolution and window.

    Returns
    -------
    PaperTable
        Columns in CSV, each but the first with ``_low`` and ``_high``: ``testbed``;
        ``n_test``, test rows; ``attack_rate``, attack rows / rows that are not ignored;
        ``n_segments``, attack segments.
    """
    rows = []
    for testbed in study.testbeds:
        streams = [result.evaluation.stream for result in study.on(testbed).results]
        rates = [s.n_attack / max(s.n_test - s.n_ignored, 1) for s in streams]
        rows.append(
            (
                markup.text_cell(testbed, study.testbed_title(testbed)),
                markup.range_cell([s.n_test for s in streams], markup.thousands),
                markup.range_cell(rates, markup.percent),
                markup.range_cell([s.n_segments for s in streams], markup.whole),
            )
        )
    ends = ("low", "high")
    return PaperTable(
        name="testbeds",
        caption=markup.caption("testbeds"),
        columns=(
            Column("testbed", words("Testbed"), "l"),
            Column("n_test", words("Test length"), parts=ends),
            Column("attack_rate", words("Attack rate"), parts=ends),
            Column("n_segments", words("Processed seg."), parts=ends),
        ),
        groups=markup.one_group(rows),
        grouped_by=None,
        wide=False,
    )


def detector_table(study: Study) -> PaperTable:
    """Return the paradigm, residual space and residual dimension of each detector.

    A row for each detector. What is not known of a detector without a card is a dash.

    Returns
    -------
    PaperTable
        Columns in CSV: ``detector``; ``paradigm``, how it comes to an expectation;
        ``space``, what its residuals are of; ``p_TESTBED`` for each testbed, the number
        of residual channels, empty where the detector was not run.
    """
    rows = []
    for name in study.detectors:
        all_runs = study.runs_of(name)
        card = card_of_runs(all_runs[0])
        spaces = ", ".join(sorted({space for r in all_runs if (space := space_of(r))}))
        size_on = {runs.testbed: runs.evaluation.stream.p for runs in all_runs}
        sizes = [size_on.get(testbed) for testbed in study.testbeds]
        rows.append(
            (
                markup.text_cell(name, study.detector_title(name)),
                markup.text_cell(None if card is None else card.kind),
                markup.text_cell(spaces or None),
                Cell(markup.joined(map(markup.whole, sizes), " / "), tuple(sizes)),
            )
        )
    titles = [words(study.testbed_title(testbed)) for testbed in study.testbeds]
    return PaperTable(
        name="detectors",
        caption=markup.caption("detectors", p=P, plants=markup.joined(titles, " / ")),
        columns=(
            DETECTOR,
            Column("paradigm", words("Paradigm"), "l"),
            Column("space", words("Residual space"), "l"),
            Column("p", P, "c", parts=tuple(study.testbeds)),
        ),
        groups=markup.one_group(rows),
        grouped_by=None,
    )


def main_table(study: Study) -> PaperTable:
    """Return the paper's main table: a row for each detector on each testbed.

    The best score of a testbed is bold, and so is a compactness below
    `DISTINCT_COMPACTNESS` of all others. Without seeds the robust drift is in brackets
    after the mean drift, as in the paper; with seeds it has a column of its own.

    Returns
    -------
    PaperTable
        Grouped by testbed, the highest ROC-AUC first. Columns in CSV: ``testbed``,
        ``detector``; mean, ``_low`` and ``_high`` over seeds of ``roc_auc``,
        ``pauc_1``, ``p_full``, ``d_drift``, ``d_drift_robust``, ``compactness`` and
        ``median_d_full``; ``mean_dominated``, whether extreme points dominate the mean
        drift of any seed (the dagger); ``n_seeds``.
    """
    bold = {
        testbed: {figure: _best(figure, study.on(testbed)) for figure in _SCORES}
        | {Figure.COMPACTNESS: _distinct(study.on(testbed))}
        for testbed in study.testbeds
    }
    robust = Figure.D_DRIFT_ROBUST

    def row(runs: DetectorRuns) -> Iterable[Cell]:
        def cell(figure: Figure, mark: Phrase = markup.EMPTY) -> Cell:
            is_bold = runs.label in bold[runs.testbed].get(figure, ())
            return figure_cell(runs, figure, bold=is_bold, mark=mark)

        mark = markup.DAGGER if runs.is_mean_dominated else markup.EMPTY
        if not study.has_seeds:
            mark = markup.filled(" ({robust})", robust=cell(robust).text) + mark
        yield from map(cell, _SCORES)
        yield cell(Figure.D_DRIFT, mark)
        yield cell(robust)
        yield markup.hidden_cell(runs.is_mean_dominated)
        yield cell(Figure.COMPACTNESS)
        yield cell(Figure.MEDIAN_D_FULL)
        yield markup.hidden_cell(len(runs.results))

    drift = header(Figure.D_DRIFT if study.has_seeds else robust)
    return PaperTable(
        name="main",
        caption=markup.caption("main", dagger=markup.DAGGER, seeds=_seeds_note(study)),
        columns=(
            DETECTOR,
            *map(_column, _SCORES),
            Column(Figure.D_DRIFT, drift, parts=RANGE),
            _column(robust, is_shown=study.has_seeds),
            Column("mean_dominated", is_shown=False),
            _column(Figure.COMPACTNESS),
            _column(Figure.MEDIAN_D_FULL),
            N_SEEDS,
        ),
        groups=_by_testbed(study, row),
        notes=(markup.note("bold"),),
    )


def supplementary_table(study: Study, compared: Comparison) -> PaperTable:
    """Return the paper's supplementary table; in CSV with intervals and floors.

    A row for each detector on each testbed. Of several seeds CSV has the 95% interval
    of their mean and the highest chance floor.

    Parameters
    ----------
    study : Study
        The results.
    compared : Comparison
        Its `figures` have the intervals.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``detector``; mean, ``_low``
        and ``_high`` over seeds of fourteen figures (average precision, pAUC@5%, F1,
        precision, recall, false-alarm runs, hits, max-z, excess kurtosis, and the five
        of alarms again with the limit set in hindsight (``test_calibrated_``));
        ``FIGURE_interval_low``, ``FIGURE_interval_high`` and ``FIGURE_floor`` of every
        figure that has them, empty if evaluated without intervals; ``n_seeds``.
    """

    def row(runs: DetectorRuns) -> Iterable[Cell]:
        yield from (figure_cell(runs, figure) for figure in _SUPPLEMENT)
        yield from (_uncertainty_cell(runs, figure, ranges) for figure in _UNCERTAIN)
        yield markup.hidden_cell(len(runs.results))

    ranges = {
        (row.testbed, row.detector, row.figure): row.interval
        for row in compared.figures
    }
    parts = ("interval_low", "interval_high", "floor")
    return PaperTable(
        name="supplementary",
        caption=markup.caption("supplementary", seeds=_seeds_note(study)),
        columns=(
            DETECTOR,
            *map(_column, _SUPPLEMENT),
            *(Column(figure, parts=parts, is_shown=False) for figure in _UNCERTAIN),
            N_SEEDS,
        ),
        groups=_by_testbed(study, row),
    )


@cache
def published(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of one of the paper's tables as the paper prints them.

    Parameters
    ----------
    name : str
        One of `PUBLISHED`.

    Returns
    -------
    tuple of dict
        Texts by column; an empty text where the paper prints a dash.

    Examples
    --------
    >>> published("main")[0]["roc_auc"]
    '0.877'
    """
    table = files("sightline.paper") / "paper_tables" / f"{name}.csv"
    lines = table.read_text(encoding="utf-8").splitlines()
    return tuple(csv.DictReader(line for line in lines if not line.startswith("#")))


def published_figures(testbed: str, detector: str) -> dict[str, float] | None:
    """Return the paper's figures of a detector on a testbed, by name; None without.

    Examples
    --------
    >>> published_figures("WADI-A1", "GDN")["roc_auc"]
    0.53
    """
    card = card_of(detector)
    name = detector.lower() if card is None else card.name
    rows = [*published("main"), *published("full")]
    figures = {
        key: float(value)
        for row in rows
        if (row["testbed"], row["detector"]) == (plant_of(testbed), name)
        for key, value in row.items()
        if key not in ("testbed", "detector") and value
    }
    return figures or None


def printed_values_table(study: Study) -> PaperTable:
    """Return the main table with the paper's printed values next to the study's.

    It has rows only for the paper's detectors on the paper's testbeds.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``detector``; for each figure
        of the main table, and for the alarms with the limit set in hindsight, its mean,
        ``_low`` and ``_high`` over seeds, and ``_paper``, the printed value.
    """

    def row(runs: DetectorRuns) -> Iterable[Cell]:
        printed = published_figures(runs.testbed, runs.detector)
        for figure in _PRINTED if printed else ():
            spread, how = runs.spread(figure), markup.FORMATS[figure.style]
            yield Cell(how(spread.mean if spread else None), _parts(spread))
            yield markup.number_cell(printed[figure.key] if printed else None, how)

    columns, paper = [DETECTOR], Phrase("paper", r"\emph{paper}")
    for figure in _PRINTED:
        is_shown = figure is not Figure.D_DRIFT  # the robust drift is enough to read
        columns.append(_column(figure, is_shown=is_shown))
        columns.append(Column(f"{figure}_paper", paper, is_shown=is_shown))
    return PaperTable(
        name="main_beside_paper",
        caption=markup.caption("main_beside_paper"),
        columns=tuple(columns),
        groups=_by_testbed(study, row),
    )


def figure_cell(
    runs: DetectorRuns,
    figure: Figure,
    *,
    bold: bool = False,
    mark: Phrase = markup.EMPTY,
) -> Cell:
    """Return a figure over seeds: its mean, and in brackets its range.

    Parameters
    ----------
    runs : DetectorRuns
        The seeds.
    figure : Figure
        The figure.
    bold : bool
        Whether the mean is bold.
    mark : Phrase
        What follows the mean.

    Returns
    -------
    Cell
        Its values are mean, lowest and highest. The range is not shown if all seeds
        agree in the printed digits.
    """
    spread, how = runs.spread(figure), markup.FORMATS[figure.style]
    if spread is None:
        return Cell(markup.UNKNOWN, _parts(None))
    middle = (how(spread.mean).bold() if bold else how(spread.mean)) + mark
    text = markup.ranged(middle, how(spread.low), how(spread.high))
    return Cell(text, _parts(spread))


def _by_testbed(
    study: Study, row: Callable[[DetectorRuns], Iterable[Cell]]
) -> tuple[Group, ...]:
    """Return a group for each testbed: its detectors, each followed by its cells.

    Detectors without cells are left out.
    """

    def rows(testbed: str) -> Iterator[tuple[Cell, ...]]:
        for runs in study.on(testbed).detectors:
            if cells := tuple(row(runs)):
                title = study.detector_title(runs.label)
                yield markup.text_cell(runs.label, title), *cells

    return testbed_groups(study, rows)


def testbed_groups(
    study: Study, rows_on: Callable[[str], Iterable[tuple[Cell, ...]]]
) -> tuple[Group, ...]:
    """Return a group with the title of each testbed that has rows."""
    groups = (
        Group(name=t, title=study.testbed_title(t), rows=tuple(rows_on(t)))
        for t in study.testbeds
    )
    return tuple(group for group in groups if group.rows)


def _column(figure: Figure, *, is_shown: bool = True) -> Column:
    return Column(figure, header(figure), parts=RANGE, is_shown=is_shown)


def _parts(spread: Spread | None) -> tuple[float | None, ...]:
    return (spread.mean, spread.low, spread.high) if spread else (None, None, None)


def _seeds_note(study: Study) -> Phrase:
    """Return what the brackets mean, if any detector has several seeds."""
    if not study.has_seeds:
        return markup.EMPTY
    counts = [len(runs.results) for runs in study.runs]
    return words(" ") + markup.note(
        "seeds", n=markup.range_cell(counts, markup.whole).text
    )


def _best(figure: Figure, runs: TestbedRuns) -> set[str]:
    """Return the labels with the highest mean; empty for a single detector."""
    means = {detector.label: detector.mean(figure) for detector in runs.detectors}
    defined = [mean for mean in means.values() if mean is not None]
    if len(defined) < 2:
        return set()
    return {label for label, mean in means.items() if mean == max(defined)}


def _distinct(runs: TestbedRuns) -> set[str]:
    """Return whose compactness is less than half of every other."""
    means = ((one.mean(Figure.COMPACTNESS), one.label) for one in runs.detectors)
    ordered = sorted((mean, label) for mean, label in means if mean is not None)
    if len(ordered) < 2 or ordered[0][0] >= DISTINCT_COMPACTNESS * ordered[1][0]:
        return set()
    return {ordered[0][1]}


def _uncertainty_cell(
    runs: DetectorRuns,
    figure: Figure,
    ranges: Mapping[tuple[str, str, str], Interval | None],
) -> Cell:
    """Return the 95% interval over seeds, and the highest chance floor."""
    evaluations = [result.evaluation for result in runs.results]
    floors = [f.value for e in evaluations if (f := (e.floor or {}).get(figure))]
    interval = ranges.get((runs.testbed, runs.label, figure.value))
    low, high = interval or (None, None)
    return Cell(markup.EMPTY, (low, high, max(floors, default=None)))
