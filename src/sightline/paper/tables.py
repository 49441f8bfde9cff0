"""The tables of a paper: columns over the runs of a study, and its printed values."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sightline.comparison.compare import Agreement, Comparison, why_undefined
from sightline.comparison.differences import PAIRED_FIGURES
from sightline.comparison.runs import DetectorRuns, TestbedRuns
from sightline.evaluation.localisation import Method, Moment
from sightline.evaluation.result import SegmentResult
from sightline.figures import FIGURES, Figure, MeasuredOn
from sightline.figures import published as published_entries
from sightline.paper.attack_files import alignment_columns, alignments
from sightline.paper.study import (
    NO_EVIDENCE,
    Example,
    ExampleCase,
    PaperStudy,
    asked_cases,
    card_of,
    card_of_runs,
    choose_cases,
    examples_on,
    note,
    plant_of,
    space_of,
    texts,
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
from sightline.show.phrases import EMPTY, FORMATS, SYMBOLS, Phrase, filled, words
from sightline.show.printed import (
    Group,
    PaperTable,
    number_cell,
    one_group,
    range_cell,
    text_cell,
)
from sightline.show.table import Column, Columns, TableCell
from sightline.text import names

ENDS = ("low", "high")
RANGE = ("", *ENDS)
# A compactness below this share of all others is set in bold: it marks another kind of
# residual space. The paper sets two of three such values in bold.
DISTINCT_COMPACTNESS = 0.5
P = Phrase("p", "$p$")
RHO = Phrase("rho", r"$\rho$")
LENGTH = Phrase("W", "$W$")
TWO_DIGITS = partial(phrases.fixed, digits=2)
PAPER = Phrase("paper", r"\emph{paper}")
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
PUBLISHED = (
    "main",
    "full",
    "cross_testbed_ranking",
    "detectors",
    "testbeds",
    "attack_cases",
    "agreement",
)

T = TypeVar("T")


def all_tables(
    study: PaperStudy, compared: Comparison, cases: Sequence[str] = ()
) -> tuple[list[PaperTable], list[str]]:
    """Return the tables that have rows, and a notice for each that has none.

    `cases` are attacks that ``attack_cases`` shows besides those chosen by rule.
    """
    results, alarms = "it needs results", "it needs attacks and --metrics"
    shared = "it needs two detectors of one testbed that share an attack"
    printed = "it needs a detector of the paper on a testbed of the paper"
    needs = (
        (testbed_table(study), results),
        (detector_table(study), results),
        (main_table(study), results),
        (supplementary_table(study, compared), results),
        (found_table(study, compared), "it needs attacks judged by the present rules"),
        (case_table(study, cases), "it needs an attack with a verdict"),
        (transfer_table(study, compared), "it needs at least two testbeds"),
        (agreement_table(study, compared), why_undefined(compared.agreement)),
        (difference_table(study, compared), shared),
        (alarm_table(study), alarms),
        (score_table(study), alarms),
        (localisation_table(study), "it needs attacks with known targets"),
        (alignment_table(study), "it needs a list of attacks"),
        (printed_values_table(study), printed),
        (printed_cases_table(study), printed),
        (printed_agreement_table(study, compared), printed),
    )
    return (
        [table for table, _ in needs if table.n_rows],
        [
            f"Skipped table '{table.name}': {need}."
            for table, need in needs
            if not table.n_rows
        ],
    )


# ---- what tables are made of ---------------------------------------------------------


def _table(
    name: str, columns: Columns[Any], groups: tuple[Group, ...], **more: Any
) -> PaperTable:
    """Return a table; what `PaperTable` does not take fills fields of its caption."""
    options = {k: more.pop(k) for k in ("grouped_by", "notes", "wide") if k in more}
    caption = filled(texts()["tables"][name], **more)
    return PaperTable(
        name=name, caption=caption, columns=columns, groups=groups, **options
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


def _detector(study: PaperStudy) -> Column[DetectorRuns]:
    """Return the column with the title of a detector."""
    return Column(
        "detector",
        "Detector",
        lambda runs: text_cell(runs.label, study.detector_title(runs.label)),
    )


def _csv_only(key: str, value: Callable[[T], object]) -> Column[T]:
    """Return a column of one value that is in CSV alone."""
    return Column(key, get=lambda one: TableCell(values=(value(one),)), is_shown=False)


def _number(
    key: str,
    header: str | Phrase,
    value: Callable[[T], float | None],
    how: Callable[[float | None], Phrase],
) -> Column[T]:
    """Return a column of numbers, printed by a function of `phrases`."""
    return Column(key, header, lambda one: number_cell(value(one), how), "r")


def _span(
    key: str,
    header: str | Phrase,
    values: Callable[[T], Sequence[float]],
    how: Callable[[float], Phrase],
) -> Column[T]:
    """Return a column of the lowest and the highest of several numbers."""
    return Column(
        key, header, lambda one: range_cell(values(one), how), "r", parts=ENDS
    )


def _figure(
    figure: Figure,
    *,
    header: Figure | None = None,
    bold: Callable[[DetectorRuns], bool] = lambda runs: False,
    mark: Callable[[DetectorRuns], Phrase] = lambda runs: EMPTY,
    with_range: bool = True,
    is_shown: bool = True,
) -> Column[DetectorRuns]:
    """Return the column of a figure over seeds: its mean, and in brackets its range.

    CSV has mean, lowest and highest. The range is not shown if all seeds agree in the
    printed digits.

    Parameters
    ----------
    figure, header : Figure
        The figure, and the one whose name is above the column; by default the same.
    bold, mark : callable
        Whether the mean is bold, and what follows it.
    with_range, is_shown : bool
        Whether the range, and the column, is shown.
    """
    how = FORMATS[FIGURES[figure].style]

    def get(runs: DetectorRuns) -> TableCell:
        spread = runs.spread(figure)
        if spread is None:
            return TableCell(values=(None, None, None), printed=phrases.UNKNOWN)
        mean, low, high = map(how, (spread.mean, spread.low, spread.high))
        printed = (mean.bold() if bold(runs) else mean) + mark(runs)
        if with_range:
            printed = phrases.ranged(printed, low, high)
        return TableCell(values=(spread.mean, spread.low, spread.high), printed=printed)

    title = figure_header(header or figure)
    return Column(figure, title, get, "r", parts=RANGE, is_shown=is_shown)


def _n_seeds(runs: DetectorRuns) -> int:
    return len(runs.results)


def _seeds_note(study: PaperStudy) -> Phrase:
    """Return what the brackets mean, if any detector has several seeds."""
    if not study.has_seeds:
        return EMPTY
    n = range_cell([_n_seeds(runs) for runs in study.runs], phrases.whole).printed
    return words(" ") + note("seeds", n=n or EMPTY)


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

    def rates(testbed: str) -> list[float]:
        return [s.n_attack / max(s.n_test - s.n_ignored, 1) for s in streams(testbed)]

    columns: Columns[str] = (
        Column("testbed", "Testbed", lambda t: text_cell(t, study.testbed_title(t))),
        _span(
            "n_test",
            "Test length",
            lambda t: [s.n_test for s in streams(t)],
            phrases.thousands,
        ),
        _span("attack_rate", "Attack rate", rates, phrases.percent),
        _span(
            "n_segments",
            "Processed seg.",
            lambda t: [s.n_segments for s in streams(t)],
            phrases.whole,
        ),
    )
    groups = one_group(study.testbeds)
    return _table("testbeds", columns, groups, grouped_by=None, wide=False)


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
    plants, groups = phrases.joined(titles, " / "), one_group(study.detectors)
    return _table("detectors", columns, groups, grouped_by=None, p=P, plants=plants)


# ---- figures of each detector on each testbed ----------------------------------------


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
        return _figure(figure, bold=lambda runs: runs.label in labels[runs.testbed])

    def mark(runs: DetectorRuns) -> Phrase:
        dagger = phrases.DAGGER if runs.is_mean_dominated else EMPTY
        if study.has_seeds:
            return dagger
        inner = FORMATS[FIGURES[robust].style](runs.mean(robust))
        return filled(" ({robust})", robust=inner) + dagger

    drift = Figure.D_DRIFT if study.has_seeds else robust
    columns: Columns[DetectorRuns] = (
        _detector(study),
        *map(bold, _SCORES),
        _figure(Figure.D_DRIFT, header=drift, mark=mark),
        _figure(robust, is_shown=study.has_seeds),
        _csv_only("mean_dominated", lambda runs: runs.is_mean_dominated),
        bold(Figure.COMPACTNESS),
        _figure(Figure.MEDIAN_D_FULL),
        _csv_only("n_seeds", _n_seeds),
    )
    return _table(
        "main",
        columns,
        _by_testbed(study, lambda t: study.on(t).detectors),
        notes=(note("bold"),),
        dagger=phrases.DAGGER,
        seeds=_seeds_note(study),
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


def supplementary_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return the paper's supplementary table; in CSV with intervals and floors.

    A row for each detector on each testbed. Of several seeds CSV has the 95% interval
    of their mean and the highest chance floor.

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
            known = (result.evaluation.floor or {} for result in runs.results)
            floors = [floor.value for one in known if (floor := one.get(figure))]
            interval = ranges.get((runs.testbed, runs.label, figure.value))
            low, high = interval or (None, None)
            return TableCell(values=(low, high, max(floors, default=None)))

        parts = ("interval_low", "interval_high", "floor")
        return Column(figure, get=get, parts=parts, is_shown=False)

    columns = (
        _detector(study),
        *map(_figure, _SUPPLEMENT),
        *map(uncertainty, _UNCERTAIN),
        _csv_only("n_seeds", _n_seeds),
    )
    groups = _by_testbed(study, lambda t: study.on(t).detectors)
    return _table("supplementary", columns, groups, seeds=_seeds_note(study))


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

    def columns_of(figure: Figure) -> Iterator[Column[DetectorRuns]]:
        # Of drift the robust one is enough to read.
        is_shown = figure is not Figure.D_DRIFT
        entry = FIGURES[figure]
        yield _figure(figure, with_range=False, is_shown=is_shown)
        yield Column(
            f"{figure}_paper",
            PAPER,
            lambda runs: number_cell(in_paper(runs)[entry.field], FORMATS[entry.style]),
            "r",
            is_shown=is_shown,
        )

    return _table(
        "main_beside_paper",
        (_detector(study), *(one for figure in _PRINTED for one in columns_of(figure))),
        _by_testbed(study, lambda t: filter(in_paper, study.on(t).detectors)),
    )


PrintedCase = tuple[dict[str, str], Sequence[SegmentResult]]


def printed_cases_table(study: PaperStudy) -> PaperTable:
    """Return the paper's case table with the same segments of the study beside it.

    The paper numbers processed segments from 0, in the order of time.

    Returns
    -------
    PaperTable
        Columns in CSV: ``testbed``, ``segment``, ``detectors``; for length, AUC,
        coverage, SDR and D_eff ``_low`` and ``_high`` over the detectors of the line,
        and ``_paper_low`` and ``_paper_high``, the printed values.
    """

    def records(testbed: str) -> Iterator[PrintedCase]:
        attacks = examples_on(study, testbed)
        for row in published("attack_cases"):
            number = int(row["segment"])
            if row["testbed"] != plant_of(testbed) or number >= len(attacks):
                continue
            mine = [
                one.segment
                for one in attacks[number]
                if row["of"]
                in ("median", space_of(one.runs), one.runs.detector.lower())
            ]
            if mine:
                yield row, mine

    def figure(name: str, how: Callable[[float], Phrase]) -> Iterator[Column[Any]]:
        def ours(record: PrintedCase) -> TableCell:
            values = known(record[1], name)
            if not values:
                return TableCell(values=(None, None), printed=phrases.UNKNOWN)
            if record[0]["of"] == "median" and name != "length":
                values = [float(np.median(values))]
            return range_cell(values, how)

        def paper(record: PrintedCase) -> TableCell:
            row = record[0]
            ends = [row.get(f"{name}_{end}") or row[name] for end in ENDS]
            return range_cell([float(end) for end in ends], how)

        head = {"d_eff": SYMBOLS["D_eff"], "length": LENGTH}.get(name, words(name))
        yield Column(name, head, ours, "r", parts=ENDS)
        yield Column(f"{name}_paper", PAPER, paper, "r", parts=ENDS)

    columns: Columns[PrintedCase] = (
        Column("segment", "Segment", lambda r: text_cell(r[0]["segment"])),
        Column("detectors", "Detectors", lambda r: text_cell(r[0]["of"])),
        *figure("length", phrases.whole),
        *figure("auc", phrases.fixed),
        *figure("coverage", TWO_DIGITS),
        *figure("sdr", phrases.powers),
        *figure("d_eff", phrases.powers),
    )
    groups = _by_testbed(study, records)
    return _table("attack_cases_beside_paper", columns, groups, length=LENGTH)


def printed_agreement_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return the correlations that the paper's finding 7 names, with the study's.

    Returns
    -------
    PaperTable
        Columns in CSV: ``testbed``, ``first``, ``second``, ``rho``, ``rho_paper``.
    """

    def records(testbed: str) -> Iterator[tuple[dict[str, str], float]]:
        rhos = {
            frozenset(study.name_of(label) for label in pair): row.rho
            for pair, row in agreement_of(compared, testbed).items()
        }
        for row in published("agreement"):
            rho = rhos.get(frozenset((row["first"], row["second"])))
            if row["testbed"] == plant_of(testbed) and rho is not None:
                yield row, rho

    columns: Columns[tuple[dict[str, str], float]] = (
        Column("first", "First", lambda r: text_cell(r[0]["first"])),
        Column("second", "Second", lambda r: text_cell(r[0]["second"])),
        _number("rho", RHO, lambda r: r[1], TWO_DIGITS),
        _number(
            "rho_paper",
            PAPER,
            lambda r: float(r[0]["rho"]),
            TWO_DIGITS,
        ),
    )
    groups = _by_testbed(study, records)
    return _table("agreement_beside_paper", columns, groups, wide=False, rho=RHO)


# ---- across detectors and testbeds ---------------------------------------------------


def transfer_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return whether detectors rank alike on two testbeds, by three figures.

    A row for each figure and each two testbeds; no rows for a single testbed.

    Returns
    -------
    PaperTable
        Columns in CSV: ``figure``, ``testbeds_first``, ``testbeds_second``; ``n``,
        detectors that both have; ``rho``, from -1 to 1, empty for fewer than three;
        ``p_value`` and ``p_exact``, two-sided (exact for at most seven detectors).
    """
    by_figure: dict[str, list[Any]] = {}
    for row in compared.transfer:
        by_figure.setdefault(row.figure, []).append(row)
    return _table(
        "cross_testbed_ranking",
        transfer_columns(study.testbed_title),
        tuple(
            Group(name=figure, title="", records=tuple(rows))
            for figure, rows in by_figure.items()
        ),
        grouped_by=None,
        wide=False,
        n=Phrase("n", "$n$"),
        rho=RHO,
        p=P,
    )


def agreement_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return the agreement of each two detectors on each testbed.

    A row and a column for each detector; no rows for a testbed with one detector. See
    `sightline.comparison.compare.Agreement` for the number.

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

        parts = ("rho", *ENDS, "n_attacks")
        return Column(other, words(study.short_title(other)), get, "r", parts=parts)

    def records(testbed: str) -> list[tuple[str, str]]:
        labels = [name for name in study.detectors if name in study.on(testbed)]
        return [(testbed, label) for label in labels] if len(labels) > 1 else []

    detector: Column[tuple[str, str]] = Column(
        "detector", "Detector", lambda r: text_cell(r[1], study.short_title(r[1]))
    )
    return _table(
        "agreement",
        (detector, *map(with_detector, study.detectors)),
        _by_testbed(study, records),
        rho=RHO,
        seeds=words(" and its range" if study.has_seeds else ""),
    )


def agreement_of(compared: Comparison, testbed: str) -> dict[frozenset[str], Agreement]:
    """Return the agreements on a testbed by the labels of the two detectors."""
    rows = (row for row in compared.agreement if row.testbed == testbed)
    return {frozenset(row.detectors): row for row in rows}


def difference_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return the differences of each two detectors, a row for each pair.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``first``, ``second``,
        ``n_attacks`` (that both have), ``n_alone_first`` and ``n_alone_second``; for
        each figure ``_difference``, ``_low`` and ``_high`` (its interval), ``_p``,
        ``_p_adjusted``, ``_better``, ``_worse``, ``_same`` (attacks), ``_detectable``,
        ``_n_needed``; see `sightline.comparison.differences.Difference`.
    """
    pairs = pairs_of(compared)
    return _table(
        "differences",
        difference_columns(
            PAIRED_FIGURES,
            (compared.primary, *_SHOWN_DIFFERENCES),
            study.short_title,
        ),
        _by_testbed(
            study, lambda t: [pair for pair in pairs if first_of(pair).testbed == t]
        ),
        notes=(note("differences"),),
    )


def found_table(study: PaperStudy, compared: Comparison) -> PaperTable:
    """Return how many attacks each detector's rule catches, with chance and cost.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``detector``, ``rule``;
        ``caught`` and ``caught_of``, ``by_chance`` and ``p_value``; ``found`` and
        ``found_of``, as verdicts count, and ``found_by_chance``; ``rings`` and
        ``rings_of``, attacks with any alarm, and ``rings_by_chance``;
        ``alarms_per_day`` and ``share_in_alarm``, of attack-free time;
        ``is_standing``.
    """
    known = [row for row in compared.detections if row.found is not None]
    # The testbed is the name of the group; the last two repeat others in words.
    columns = detection_columns(study.detector_title)[1:-2]
    groups = _by_testbed(study, lambda t: [row for row in known if row.testbed == t])
    return _table("found", columns, groups)


# ---- figures under published names, and localisation ---------------------------------

PARTS = ("", "floor", "interval_low", "interval_high")
_SOURCES = {
    "own_rule": "own rule",
    "probe": "p99 rule",
    "score": "own score",
    "largest": "largest",
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
    """Figures of one detector, of something: by key, one mapping for each seed."""

    runs: DetectorRuns
    of: tuple[str, ...]
    seeds: Sequence[Mapping[str, Any]]


def alarm_table(study: PaperStudy) -> PaperTable:
    """Return the alarm metrics of each detector's rules.

    Each figure stands beside its chance floor in brackets. CSV has all figures; print
    those that reviewers ask for most.

    Returns
    -------
    PaperTable
        Grouped by testbed, a row for each rule of each detector. CSV: ``testbed``,
        ``detector``, ``of`` (whose alarms; of a rule made for a budget, that it is on
        later rows), every key of ``alarm_metrics`` with
        ``_floor``, ``_interval_low`` and ``_interval_high`` (mean over seeds, highest
        floor, widest interval), ``n_seeds``.
    """
    of_rules = {
        source
        for runs in study.runs
        for result in runs.results
        for source in result.evaluation.alarm_metrics or {}
        if source not in _SOURCES
    }
    sources = ("own_rule", "probe", *sorted(of_rules))
    return _published_table(study, "alarm_metrics", sources, MeasuredOn.ALARMS)


def score_table(study: PaperStudy) -> PaperTable:
    """Return the same of the score metrics, of energy and of other scores."""
    sources = ("score", "largest", "energy")
    return _published_table(study, "score_metrics", sources, MeasuredOn.SCORE)


def _published_table(
    study: PaperStudy, name: str, sources: Sequence[str], measured_on: MeasuredOn
) -> PaperTable:
    """Return the figures of some sources, for all detectors that have them."""

    def records(testbed: str) -> Iterator[Measured]:
        for runs in study.on(testbed).detectors:
            metrics = [r.evaluation.alarm_metrics or {} for r in runs.results]
            for source in sources:
                title = _SOURCES.get(source, f"{source}, judged rows")
                yield Measured(
                    runs, (title,), [s for one in metrics if (s := one.get(source))]
                )

    columns = (
        Column[Measured]("of", "Of", lambda m: m.of[0]),
        *(
            _with_floor(e.key, e.name, needs_floor=e.needs_floor, is_shown=e.in_print)
            for e in published_entries(measured_on)
        ),
    )
    return _measured_table(study, name, columns, records)


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

    def records(testbed: str) -> Iterator[Measured]:
        for runs in study.on(testbed).detectors:
            located = [r.evaluation.localisation for r in runs.results]
            for method, by in _METHODS.items():
                figures = [one.figures.get(method, {}) for one in located if one]
                for moment, at in _MOMENTS.items():
                    seeds = [vars(f) for one in figures if (f := one.get(moment))]
                    yield Measured(runs, (by, at), seeds)

    columns = (
        Column[Measured]("method", "By", lambda m: m.of[0]),
        Column[Measured]("moment", "At", lambda m: m.of[1]),
        _number(
            "n_attacks", "Attacks", lambda m: m.seeds[0]["n_attacks"], phrases.whole
        ),
        *(_with_floor(key, title) for key, title in _HITS.items()),
    )
    return _measured_table(study, "localisation", columns, records)


def _measured_table(
    study: PaperStudy,
    name: str,
    columns: Columns[Measured],
    records: Callable[[str], Iterable[Measured]],
) -> PaperTable:
    """Return a table of the records that have figures."""
    return _table(
        name,
        (
            _detector(study).over(lambda m: m.runs),
            *columns,
            _csv_only("n_seeds", lambda m: len(m.seeds)),
        ),
        _by_testbed(study, lambda t: [one for one in records(t) if one.seeds]),
    )


def _with_floor(
    key: str, title: str, *, needs_floor: bool = False, is_shown: bool = True
) -> Column[Measured]:
    """Return the mean of a figure over seeds, with the highest floor in brackets."""

    def get(measured: Measured) -> TableCell:
        figures = [figure for one in measured.seeds if (figure := one.get(key))]
        known = [
            one
            for one in figures
            if one.value is not None and (one.floor or not needs_floor)
        ]
        if not known:
            return TableCell(values=(None,) * len(PARTS), printed=phrases.UNKNOWN)
        value = float(np.mean([one.value for one in known]))
        floor = max((one.floor.value for one in known if one.floor), default=None)
        ends = [one.interval for one in known if one.interval]
        is_score = abs(value) <= 1 and (floor is None or abs(floor) <= 1)
        how = phrases.fixed if is_score else phrases.compact
        printed = how(value)
        if floor is not None:
            printed = printed + words(" (") + how(floor) + words(")")
        low = min((end[0] for end in ends), default=None)
        high = max((end[1] for end in ends), default=None)
        return TableCell(values=(value, floor, low, high), printed=printed)

    return Column(key, words(title), get, "r", parts=PARTS, is_shown=is_shown)


# ---- example attacks -----------------------------------------------------------------

# A row of the table: a case, and one detector or several on its attack.
Line = tuple[ExampleCase, Sequence[Example]]


def case_table(study: PaperStudy, asked: Sequence[str] = ()) -> PaperTable:
    """Return the values behind each case; no rows where no attack has a verdict.

    Attacks that were asked for follow those chosen by rule.

    Questions without an example, and examples unlike the paper's, are named in the
    notes.

    Returns
    -------
    PaperTable
        Columns in CSV: ``question``; ``attack_testbed`` and ``attack_id``;
        ``detectors``; ``length_low`` and ``length_high``, rows of the attack; ``auc``,
        ``coverage``, ``sdr`` and ``d_eff`` as in ``segments.csv``, medians over
        detectors with ``_low`` and ``_high``; ``verdict``, of all detectors together;
        ``confidence``, the lowest; ``sentence``.
    """
    has_verdicts = any(s.verdict for r in study.runs for s in r.evaluation.segments)
    cases = choose_cases(study) if has_verdicts else ()
    remarks = [note(case.remark) for case in cases if case.remark is not None]
    notes = [note("cases", length=LENGTH), *remarks]
    unanswered = [case.question for case in cases if not case.lines]
    if unanswered:
        notes.append(words(f"No attack of this study answers: {' '.join(unanswered)}"))
    cases = (*cases, *asked_cases(study, asked))
    lines = one_group((case, line) for case in cases for line in case.lines)
    columns = _case_columns(study)
    return _table("attack_cases", columns, lines, grouped_by=None, notes=tuple(notes))


def alignment_table(study: PaperStudy) -> PaperTable:
    """Return where each attack of a list lies in each detector.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``attack``, and for each detector
        ``_segment``, its id; ``_start`` and ``_stop``, rows; ``_state``: whole, in
        parts, shortened, merged with others, or lost.
    """
    groups = _by_testbed(study, lambda t: [(t, one) for one in alignments(study, t)])
    return _table("alignment", alignment_columns(study), groups)


def known(segments: Sequence[SegmentResult], name: str) -> list[float]:
    """Return a figure of some attacks, where it is defined."""
    values = (getattr(segment, name) for segment in segments)
    return [float(value) for value in values if value is not None]


def _over_detectors(
    name: str, header: str | Phrase, how: Callable[[float | None], Phrase]
) -> Column[Line]:
    """Return the column of a figure over the detectors of a line: median or range."""

    def get(row: Line) -> TableCell:
        attacks = [example.segment for example in row[1]]
        values = known(attacks, name)
        if not values:
            return TableCell(values=(None, None, None), printed=phrases.UNKNOWN)
        middle, low, high = float(np.median(values)), min(values), max(values)
        shown = phrases.span(how(low), how(high)) if row[0].is_range else how(middle)
        if name == "sdr" and not any(s.sdr_usable for s in attacks):
            shown = phrases.UNKNOWN
        return TableCell(values=(middle, low, high), printed=shown)

    return Column(name, header, get, "r", parts=RANGE)


def _case_columns(study: PaperStudy) -> Columns[Line]:
    """Return the columns: the attack, its detectors, and medians over them."""

    def segments(row: Line) -> list[SegmentResult]:
        return [example.segment for example in row[1]]

    def attack(row: Line) -> TableCell:
        testbed, id = row[1][0].runs.testbed, row[1][0].segment.id
        return TableCell(f"{study.testbed_title(testbed)}, segment {id}", (testbed, id))

    def detectors(row: Line) -> TableCell:
        labels = [example.runs.label for example in row[1]]
        titles = names([study.detector_title(label) for label in labels])
        title = "all detectors (median)" if row[0].is_of_all else titles
        title = "observation space (range)" if row[0].is_range else title
        return text_cell(names(labels), title)

    def least_sure(row: Line) -> float | None:
        known = [s.confidence for s in segments(row) if s.confidence is not None]
        return min(known, default=None)

    def sentence(row: Line) -> TableCell:
        first = row[1][0]
        if len(row[1]) == 1:
            return text_cell(first.segment.sentence)
        if any(s.verdict not in NO_EVIDENCE for s in segments(row)):
            said = (
                f"{study.detector_title(one.runs.label)}: {one.segment.verdict}"
                for one in row[1]
            )
            return text_cell(f"{'; '.join(said)}.")
        nothing = "None of the repairs makes this attack stand out in these residuals."
        return text_cell(f"{nothing} {first.telemetry}")

    return (
        Column("question", "Question", lambda r: r[0].question, "p{2.1cm}"),
        Column(
            "attack", "Testbed / segment", attack, "p{2.0cm}", parts=("testbed", "id")
        ),
        Column("detectors", "Detector", detectors, "p{1.6cm}"),
        _span(
            "length", LENGTH, lambda r: [s.length for s in segments(r)], phrases.whole
        ),
        _over_detectors("auc", "AUC", phrases.fixed),
        _over_detectors("coverage", words("p99 cov."), TWO_DIGITS),
        _over_detectors("sdr", "SDR", phrases.powers),
        _over_detectors("d_eff", SYMBOLS["D_eff"], phrases.powers),
        Column(
            "verdict",
            "Verdict",
            lambda r: ", ".join(sorted({str(s.verdict) for s in segments(r)})),
        ),
        _number("confidence", "Conf.", least_sure, TWO_DIGITS),
        Column("sentence", "In words", sentence, "p{4.6cm}"),
    )
