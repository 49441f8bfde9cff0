"""The tables of a paper: columns over the runs of a study, and its printed values."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from sightline.comparison.compare import Agreement, Comparison, why_undefined
from sightline.comparison.differences import PAIRED_FIGURES
from sightline.comparison.runs import DetectorRuns, TestbedRuns
from sightline.evaluation.localisation import Method, Moment
from sightline.evaluation.result import Evaluation
from sightline.figures import FIGURES, Figure, FigureEntry, MeasuredOn
from sightline.figures import published as published_entries
from sightline.metrics.alarm_figures import AlarmFigure
from sightline.metrics.localisation import LocalisationFigure, LocalisationFigures
from sightline.paper.example_attacks import case_table
from sightline.paper.study import (
    PaperStudy,
    caption,
    card_of,
    card_of_runs,
    note,
    plant_of,
    space_of,
)
from sightline.show import phrases
from sightline.show.comparison import (
    detection_columns,
    difference_columns,
    figure_header,
    first_of,
    pairs_of,
    transfer_columns,
)
from sightline.show.phrases import EMPTY, FORMATS, Phrase, filled, words
from sightline.show.printed import (
    Group,
    PaperTable,
    number_cell,
    one_group,
    range_cell,
    text_cell,
)
from sightline.show.table import Column, Columns, TableCell

RANGE = ("", "low", "high")
# A compactness below this share of all others is set in bold: it marks another kind of
# residual space. The paper sets two of three such values in bold.
DISTINCT_COMPACTNESS = 0.5
P = Phrase("p", "$p$")
RHO = Phrase("rho", r"$\rho$")
N = Phrase("n", "$n$")
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
# Differences that are shown; those of other figures are in CSV.
_SHOWN_DIFFERENCES = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL, Figure.RECALL)
# The paper's tables that come with the package.
PUBLISHED = ("main", "full", "cross_testbed_ranking", "detectors", "testbeds")


def all_tables(
    study: PaperStudy, compared: Comparison
) -> tuple[list[PaperTable], list[str]]:
    """Return the tables that have rows, and a notice for each that has none."""
    needs = (
        (testbed_table(study), "it needs results"),
        (detector_table(study), "it needs results"),
        (main_table(study), "it needs results"),
        (supplementary_table(study, compared), "it needs results"),
        (
            found_table(study, compared),
            "it needs attacks judged by the present rules",
        ),
        (case_table(study), "it needs an attack with a verdict"),
        (
            transfer_table(study, compared),
            "it needs at least two testbeds",
        ),
        (
            agreement_table(study, compared),
            why_undefined(compared.agreement),
        ),
        (
            difference_table(study, compared),
            "it needs two detectors of one testbed that share an attack",
        ),
        (alarm_table(study), "it needs attacks and --metrics"),
        (score_table(study), "it needs attacks and --metrics"),
        (localisation_table(study), "it needs attacks with known targets"),
        (
            printed_values_table(study),
            "it needs a detector of the paper on a testbed of the paper",
        ),
    )
    skipped = [(table.name, need) for table, need in needs if not table.n_rows]
    return (
        [table for table, _ in needs if table.n_rows],
        [f"Skipped table '{name}': {need}." for name, need in skipped],
    )


# ---- testbeds and detectors ----------------------------------------------------------


def testbed_table(study: PaperStudy) -> PaperTable:
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

    def streams(testbed: str) -> list[Any]:
        return [result.evaluation.stream for result in study.on(testbed).results]

    ends = ("low", "high")
    columns: Columns[str] = (
        Column("testbed", "Testbed", lambda t: text_cell(t, study.testbed_title(t))),
        Column(
            "n_test",
            "Test length",
            lambda t: range_cell([s.n_test for s in streams(t)], phrases.thousands),
            "r",
            parts=ends,
        ),
        Column(
            "attack_rate",
            "Attack rate",
            lambda t: range_cell(
                [s.n_attack / max(s.n_test - s.n_ignored, 1) for s in streams(t)],
                phrases.percent,
            ),
            "r",
            parts=ends,
        ),
        Column(
            "n_segments",
            "Processed seg.",
            lambda t: range_cell([s.n_segments for s in streams(t)], phrases.whole),
            "r",
            parts=ends,
        ),
    )
    return PaperTable(
        name="testbeds",
        caption=caption("testbeds"),
        columns=columns,
        groups=one_group(study.testbeds),
        grouped_by=None,
        wide=False,
    )


def detector_table(study: PaperStudy) -> PaperTable:
    """Return the paradigm, residual space and residual dimension of each detector.

    A row for each detector. What is not known of a detector without a card is a dash.

    Returns
    -------
    PaperTable
        Columns in CSV: ``detector``; ``paradigm``, how it comes to an expectation;
        ``space``, what its residuals are of; ``p_TESTBED`` for each testbed, the number
        of residual channels, empty where the detector was not run.
    """

    def paradigm(name: str) -> TableCell:
        card = card_of_runs(study.runs_of(name)[0])
        return text_cell(None if card is None else card.kind)

    def spaces(name: str) -> TableCell:
        listed = {space for r in study.runs_of(name) if (space := space_of(r))}
        return text_cell(", ".join(sorted(listed)) or None)

    def dimensions(name: str) -> TableCell:
        size_on = {r.testbed: r.evaluation.stream.p for r in study.runs_of(name)}
        sizes = [size_on.get(testbed) for testbed in study.testbeds]
        printed = phrases.joined(map(phrases.whole, sizes), " / ")
        return TableCell(values=tuple(sizes), printed=printed)

    columns: Columns[str] = (
        Column("detector", "Detector", lambda n: text_cell(n, study.detector_title(n))),
        Column("paradigm", "Paradigm", paradigm),
        Column("space", "Residual space", spaces),
        Column("p", P, dimensions, "c", parts=tuple(study.testbeds)),
    )
    titles = [words(study.testbed_title(testbed)) for testbed in study.testbeds]
    return PaperTable(
        name="detectors",
        caption=caption("detectors", p=P, plants=phrases.joined(titles, " / ")),
        columns=columns,
        groups=one_group(study.detectors),
        grouped_by=None,
    )


# ---- figures of each detector on each testbed ----------------------------------------


def detector_column(study: PaperStudy) -> Column[DetectorRuns]:
    """Return the column with the title of a detector."""
    return Column(
        "detector",
        "Detector",
        lambda runs: text_cell(runs.label, study.detector_title(runs.label)),
    )


N_SEEDS: Column[DetectorRuns] = Column(
    "n_seeds", get=lambda runs: TableCell(values=(len(runs.results),)), is_shown=False
)


def figure_cell(
    runs: DetectorRuns, figure: Figure, *, bold: bool = False, mark: Phrase = EMPTY
) -> TableCell:
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
    TableCell
        Its values are mean, lowest and highest. The range is not shown if all seeds
        agree in the printed digits.
    """
    spread, how = runs.spread(figure), FORMATS[FIGURES[figure].style]
    if spread is None:
        return TableCell(values=(None, None, None), printed=phrases.UNKNOWN)
    middle = (how(spread.mean).bold() if bold else how(spread.mean)) + mark
    printed = phrases.ranged(middle, how(spread.low), how(spread.high))
    return TableCell(values=(spread.mean, spread.low, spread.high), printed=printed)


def _figure_column(figure: Figure, *, is_shown: bool = True) -> Column[DetectorRuns]:
    """Return the column of a figure over seeds."""
    return Column(
        figure,
        figure_header(figure),
        lambda runs: figure_cell(runs, figure),
        "r",
        parts=RANGE,
        is_shown=is_shown,
    )


def _by_testbed(
    study: PaperStudy, records_on: Callable[[str], Iterable[Any]]
) -> tuple[Group, ...]:
    """Return a group with the title of each testbed that has records."""
    groups = (
        Group(name=t, title=study.testbed_title(t), records=tuple(records_on(t)))
        for t in study.testbeds
    )
    return tuple(group for group in groups if group.records)


def main_table(study: PaperStudy) -> PaperTable:
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
    robust = Figure.D_DRIFT_ROBUST

    def bold(figure: Figure) -> Column[DetectorRuns]:
        labels = {t: _outstanding(figure, study.on(t)) for t in study.testbeds}
        return Column(
            figure,
            figure_header(figure),
            lambda r: figure_cell(r, figure, bold=r.label in labels[r.testbed]),
            "r",
            parts=RANGE,
        )

    def drift(runs: DetectorRuns) -> TableCell:
        mark = phrases.DAGGER if runs.is_mean_dominated else EMPTY
        if not study.has_seeds:
            inner = figure_cell(runs, robust).printed or EMPTY
            mark = filled(" ({robust})", robust=inner) + mark
        return figure_cell(runs, Figure.D_DRIFT, mark=mark)

    columns: Columns[DetectorRuns] = (
        detector_column(study),
        *map(bold, _SCORES),
        Column(
            Figure.D_DRIFT,
            figure_header(Figure.D_DRIFT if study.has_seeds else robust),
            drift,
            "r",
            parts=RANGE,
        ),
        _figure_column(robust, is_shown=study.has_seeds),
        Column(
            "mean_dominated",
            get=lambda runs: TableCell(values=(runs.is_mean_dominated,)),
            is_shown=False,
        ),
        bold(Figure.COMPACTNESS),
        _figure_column(Figure.MEDIAN_D_FULL),
        N_SEEDS,
    )
    return PaperTable(
        name="main",
        caption=caption("main", dagger=phrases.DAGGER, seeds=_seeds_note(study)),
        columns=columns,
        groups=_by_testbed(study, lambda t: study.on(t).detectors),
        notes=(note("bold"),),
    )


def _outstanding(figure: Figure, runs: TestbedRuns) -> set[str]:
    """Return the labels with the highest mean; empty for a single detector.

    Of compactness, the one that is less than `DISTINCT_COMPACTNESS` of every other.
    """
    means = {detector.label: detector.mean(figure) for detector in runs.detectors}
    ordered = sorted((mean, label) for label, mean in means.items() if mean is not None)
    if len(ordered) < 2:
        return set()
    if figure is not Figure.COMPACTNESS:
        return {label for mean, label in ordered if mean == ordered[-1][0]}
    is_distinct = ordered[0][0] < DISTINCT_COMPACTNESS * ordered[1][0]
    return {ordered[0][1]} if is_distinct else set()


def _seeds_note(study: PaperStudy) -> Phrase:
    """Return what the brackets mean, if any detector has several seeds."""
    if not study.has_seeds:
        return EMPTY
    counts = [len(runs.results) for runs in study.runs]
    n = range_cell(counts, phrases.whole).printed or EMPTY
    return words(" ") + note("seeds", n=n)


def supplementary_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return the paper's supplementary table; in CSV with intervals and floors.

    A row for each detector on each testbed. Of several seeds CSV has the 95% interval
    of their mean and the highest chance floor.

    Parameters
    ----------
    study : PaperStudy
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
    ranges = {
        (row.testbed, row.detector, row.figure): row.interval
        for row in compared.figures
    }

    def uncertainty(figure: Figure) -> Column[DetectorRuns]:
        def get(runs: DetectorRuns) -> TableCell:
            evaluations = [result.evaluation for result in runs.results]
            floors = [
                f.value for e in evaluations if (f := (e.floor or {}).get(figure))
            ]
            interval = ranges.get((runs.testbed, runs.label, figure.value))
            low, high = interval or (None, None)
            return TableCell(values=(low, high, max(floors, default=None)))

        parts = ("interval_low", "interval_high", "floor")
        return Column(figure, get=get, parts=parts, is_shown=False)

    return PaperTable(
        name="supplementary",
        caption=caption("supplementary", seeds=_seeds_note(study)),
        columns=(
            detector_column(study),
            *map(_figure_column, _SUPPLEMENT),
            *map(uncertainty, _UNCERTAIN),
            N_SEEDS,
        ),
        groups=_by_testbed(study, lambda t: study.on(t).detectors),
    )


# ---- the paper's printed values ------------------------------------------------------


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


def printed_values_table(study: PaperStudy) -> PaperTable:
    """Return the main table with the paper's printed values next to the study's.

    It has rows only for the paper's detectors on the paper's testbeds.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``detector``; for each figure
        of the main table, and for the alarms with the limit set in hindsight, its mean,
        ``_low`` and ``_high`` over seeds, and ``_paper``, the printed value.
    """

    def in_paper(runs: DetectorRuns) -> dict[str, float]:
        return published_figures(runs.testbed, runs.detector) or {}

    def mean(runs: DetectorRuns, figure: Figure) -> TableCell:
        cell, spread = figure_cell(runs, figure), runs.spread(figure)
        how = FORMATS[FIGURES[figure].style]
        return TableCell(
            values=cell.values, printed=how(spread.mean if spread else None)
        )

    def columns_of(figure: Figure) -> Iterator[Column[DetectorRuns]]:
        # Of drift the robust one is enough to read.
        is_shown = figure is not Figure.D_DRIFT
        entry = FIGURES[figure]
        yield Column(
            figure,
            figure_header(figure),
            lambda runs: mean(runs, figure),
            "r",
            parts=RANGE,
            is_shown=is_shown,
        )
        yield Column(
            f"{figure}_paper",
            Phrase("paper", r"\emph{paper}"),
            lambda runs: number_cell(in_paper(runs)[entry.field], FORMATS[entry.style]),
            "r",
            is_shown=is_shown,
        )

    return PaperTable(
        name="main_beside_paper",
        caption=caption("main_beside_paper"),
        columns=(
            detector_column(study),
            *(column for figure in _PRINTED for column in columns_of(figure)),
        ),
        groups=_by_testbed(
            study, lambda t: [runs for runs in study.on(t).detectors if in_paper(runs)]
        ),
    )


# ---- across detectors and testbeds ---------------------------------------------------


def transfer_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return whether detectors rank alike on two testbeds, by three figures.

    A row for each figure and each two testbeds; no rows for a single testbed.

    Parameters
    ----------
    study : PaperStudy
        For the titles.
    compared : Comparison
        Its `transfer` is written.

    Returns
    -------
    PaperTable
        Columns in CSV: ``figure``, ``testbeds_first``, ``testbeds_second``; ``n``,
        detectors that both have; ``rho``, from -1 to 1, empty for fewer than three;
        ``p_value`` and ``p_exact``, two-sided (exact for at most seven detectors).
    """
    figures = dict.fromkeys(row.figure for row in compared.transfer)
    groups = {f: [row for row in compared.transfer if row.figure == f] for f in figures}
    return PaperTable(
        name="cross_testbed_ranking",
        caption=caption("cross_testbed_ranking", n=N, rho=RHO, p=P),
        columns=transfer_columns(study.testbed_title),
        groups=tuple(
            Group(name=figure, title="", records=tuple(rows))
            for figure, rows in groups.items()
        ),
        grouped_by=None,
        wide=False,
    )


def agreement_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return the agreement of each two detectors on each testbed.

    A row and a column for each detector; no rows for a testbed with one detector. See
    `sightline.comparison.compare.Agreement` for the number.

    Parameters
    ----------
    study : PaperStudy
        For titles and order.
    compared : Comparison
        Its `agreement` is written.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``detector``, and for each
        detector ``_rho``, ``_low`` and ``_high`` over pairs of seeds, and
        ``_n_attacks``, the attacks that both have.
    """

    # A record is a testbed and the label of one of its detectors.
    def with_detector(other: str) -> Column[tuple[str, str]]:
        def get(record: tuple[str, str]) -> TableCell:
            testbed, label = record
            row = agreement_of(compared, testbed).get(frozenset((label, other)))
            if row is None or row.rho is None or row.rho_range is None:
                n = row.n_matched if row else None
                return TableCell(values=(None, None, None, n), printed=phrases.UNKNOWN)
            rhos = (row.rho, *row.rho_range)
            printed = phrases.ranged(*(phrases.fixed(rho, 2) for rho in rhos))
            return TableCell(values=(*rhos, row.n_matched), printed=printed)

        parts = ("rho", "low", "high", "n_attacks")
        return Column(other, words(study.short_title(other)), get, "r", parts=parts)

    def records(testbed: str) -> list[tuple[str, str]]:
        labels = [name for name in study.detectors if name in study.on(testbed)]
        return [(testbed, label) for label in labels] if len(labels) > 1 else []

    detector: Column[tuple[str, str]] = Column(
        "detector", "Detector", lambda r: text_cell(r[1], study.short_title(r[1]))
    )
    seeds = words(" and its range" if study.has_seeds else "")
    return PaperTable(
        name="agreement",
        caption=caption("agreement", rho=RHO, seeds=seeds),
        columns=(detector, *map(with_detector, study.detectors)),
        groups=_by_testbed(study, records),
    )


def agreement_of(compared: Comparison, testbed: str) -> dict[frozenset[str], Agreement]:
    """Return the agreements on a testbed by the labels of the two detectors."""
    rows = (row for row in compared.agreement if row.testbed == testbed)
    return {frozenset(row.detectors): row for row in rows}


def difference_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return the differences of each two detectors, a row for each pair.

    Parameters
    ----------
    study : PaperStudy
        For the titles.
    compared : Comparison
        Its `differences` are written.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``first``, ``second``,
        ``n_attacks`` (that both have), ``n_alone_first`` and ``n_alone_second``; for
        each figure ``_difference``, ``_low`` and ``_high`` (its 95% interval), ``_p``,
        ``_p_adjusted``, ``_better``, ``_worse``, ``_same`` (attacks), ``_detectable``,
        ``_n_needed``; see `sightline.comparison.differences.Difference`.
    """
    pairs = pairs_of(compared)
    return PaperTable(
        name="differences",
        caption=caption("differences"),
        columns=difference_columns(
            PAIRED_FIGURES, _SHOWN_DIFFERENCES, study.short_title
        ),
        groups=_by_testbed(
            study, lambda t: [pair for pair in pairs if first_of(pair).testbed == t]
        ),
        notes=(note("differences"),),
    )


def found_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return how many attacks each detector's present rule finds, with chance and cost.

    Parameters
    ----------
    study : PaperStudy
        For the titles.
    compared : Comparison
        Its `detections` are written.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``detector``, ``rule``;
        ``found`` and ``found_of``, ``by_chance`` and ``p_value``; ``rings`` and
        ``rings_of``, attacks with any alarm, and ``rings_by_chance``;
        ``alarms_per_day`` and ``share_in_alarm``, of attack-free time;
        ``is_standing``.
    """
    return PaperTable(
        name="found",
        caption=caption("found"),
        # The testbed is the name of the group; the last two repeat others in words.
        columns=detection_columns(study.detector_title)[1:-2],
        groups=_by_testbed(
            study,
            lambda t: [
                row
                for row in compared.detections
                if row.testbed == t and row.found is not None
            ],
        ),
    )


# ---- figures under published names, and localisation ---------------------------------

PARTS = ("", "floor", "interval_low", "interval_high")
_SOURCES = {
    "own_rule": "own rule",
    "probe": "p99 rule",
    "score": "own score",
    "energy": "energy",
}
_HITS = {
    "hit_1": "hit@1",
    "hit_3": "hit@3",
    "hit_5": "hit@5",
    "normalised_rank": "norm. rank",
    "stage_hit_1": "stage hit@1",
}
_METHODS = {
    Method.CONTRIBUTION: "contribution",
    Method.CONDITIONAL: "conditional",
    Method.ACCUMULATED: "accumulated",
    Method.OWN: "own",
}
_MOMENTS = {Moment.FIRST_ALARM: "first alarm", Moment.ATTACK: "attack"}


class Measured(NamedTuple):
    """Figures of one detector from one source, by key: one mapping for each seed."""

    runs: DetectorRuns
    source: str
    blocks: Sequence[Mapping[str, AlarmFigure]]


def _evaluations(runs: DetectorRuns) -> list[Evaluation]:
    return [result.evaluation for result in runs.results]


def alarm_table(study: PaperStudy) -> PaperTable:
    """Return the alarm metrics of each detector's rules.

    Each figure stands beside its chance floor in brackets. CSV has all figures; print
    those that reviewers ask for most.

    Returns
    -------
    PaperTable
        Grouped by testbed, a row for each rule of each detector. CSV: ``testbed``,
        ``detector``, ``of`` (whose alarms), every key of ``alarm_metrics`` with
        ``_floor``, ``_interval_low`` and ``_interval_high`` (mean over seeds, highest
        floor, widest interval), ``n_seeds``.
    """
    of_rules = {
        source
        for runs in study.runs
        for evaluation in _evaluations(runs)
        for source in evaluation.alarm_metrics or {}
        if source not in _SOURCES
    }
    sources = ("own_rule", "probe", *sorted(of_rules))
    entries = published_entries(MeasuredOn.ALARMS)
    return _published_table(study, "alarm_metrics", sources, entries)


def score_table(study: PaperStudy) -> PaperTable:
    """Return the same of the score metrics, of energy and of each own score."""
    entries = published_entries(MeasuredOn.SCORE)
    return _published_table(study, "score_metrics", ("score", "energy"), entries)


def _published_table(
    study: PaperStudy, name: str, sources: Sequence[str], entries: Sequence[FigureEntry]
) -> PaperTable:
    """Return the figures of some sources, for all detectors that have them."""

    def records(testbed: str) -> Iterator[Measured]:
        for runs in study.on(testbed).detectors:
            for source in sources:
                of_seeds = ((e.alarm_metrics or {}) for e in _evaluations(runs))
                blocks = [b for one in of_seeds if (b := one.get(source))]
                if blocks:
                    yield Measured(runs, source, blocks)

    def column(entry: FigureEntry) -> Column[Measured]:
        def get(measured: Measured) -> TableCell:
            figures = [b[entry.key] for b in measured.blocks if entry.key in b]
            if entry.needs_floor:
                figures = [figure for figure in figures if figure.floor is not None]
            return _with_floor(figures)

        return Column(
            entry.key, words(entry.name), get, "r", parts=PARTS, is_shown=entry.in_print
        )

    columns: Columns[Measured] = (
        detector_column(study).over(lambda m: m.runs),
        Column("of", "Of", lambda m: _SOURCES.get(m.source, m.source)),
        *map(column, entries),
        Column(
            "n_seeds", get=lambda m: TableCell(values=(len(m.blocks),)), is_shown=False
        ),
    )
    return PaperTable(
        name=name,
        caption=caption(name),
        columns=columns,
        groups=_by_testbed(study, records),
    )


class Located(NamedTuple):
    """How well one way points at attacked tags: figures of each seed."""

    runs: DetectorRuns
    method: Method
    moment: Moment
    figures: Sequence[LocalisationFigures]


def localisation_table(study: PaperStudy) -> PaperTable:
    """Return how often the evidence points at the attacked tag.

    Returns
    -------
    PaperTable
        Grouped by testbed, a row for each detector, method and moment. CSV:
        ``testbed``, ``detector``, ``method``, ``moment``, ``n_attacks`` (of the first
        seed), and ``hit_1``, ``hit_3``, ``hit_5``, ``normalised_rank`` and
        ``stage_hit_1`` with ``_floor``, ``_interval_low`` and ``_interval_high``;
        ``n_seeds``.
    """

    def records(testbed: str) -> Iterator[Located]:
        for runs in study.on(testbed).detectors:
            of_seeds = [e.localisation for e in _evaluations(runs) if e.localisation]
            for method in _METHODS:
                for moment in _MOMENTS:
                    by_moment = (one.figures.get(method, {}) for one in of_seeds)
                    figures = [f for one in by_moment if (f := one.get(moment))]
                    if figures:
                        yield Located(runs, method, moment, figures)

    def column(hit: str) -> Column[Located]:
        return Column(
            hit,
            words(_HITS[hit]),
            lambda r: _with_floor([v for f in r.figures if (v := getattr(f, hit))]),
            "r",
            parts=PARTS,
        )

    columns: Columns[Located] = (
        detector_column(study).over(lambda r: r.runs),
        Column("method", "By", lambda r: _METHODS[r.method]),
        Column("moment", "At", lambda r: _MOMENTS[r.moment]),
        Column(
            "n_attacks",
            "Attacks",
            lambda r: number_cell(r.figures[0].n_attacks, phrases.whole),
            "r",
        ),
        *map(column, _HITS),
        Column(
            "n_seeds", get=lambda r: TableCell(values=(len(r.figures),)), is_shown=False
        ),
    )
    return PaperTable(
        name="localisation",
        caption=caption("localisation"),
        columns=columns,
        groups=_by_testbed(study, records),
    )


def _with_floor(figures: Iterable[AlarmFigure | LocalisationFigure]) -> TableCell:
    """Return the mean over seeds, with the highest floor in brackets."""
    known = [figure for figure in figures if figure.value is not None]
    if not known:
        return TableCell(values=(None,) * len(PARTS), printed=phrases.UNKNOWN)
    value = float(np.mean([f.value for f in known if f.value is not None]))
    floors = [f.floor.value for f in known if f.floor]
    ends = [f.interval for f in known if f.interval]
    floor = max(floors, default=None)
    is_score = abs(value) <= 1 and (floor is None or abs(floor) <= 1)
    how = phrases.fixed if is_score else phrases.compact
    printed = how(value)
    if floor is not None:
        printed = printed + words(" (") + how(floor) + words(")")
    low = min((end[0] for end in ends), default=None)
    high = max((end[1] for end in ends), default=None)
    return TableCell(values=(value, floor, low, high), printed=printed)
