"""Tables across detectors and testbeds: differences, attacks found, transfer."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from sightline.comparison.compare import (
    Agreement,
    Comparison,
    Detections,
    Transfer,
)
from sightline.comparison.differences import PAIRED_FIGURES, Difference
from sightline.comparison.runs import Figure
from sightline.judgement.verdicts import Count
from sightline.paper import markup
from sightline.paper.markup import Cell, Column, Group, PaperTable, Phrase, words
from sightline.paper.study import Study, space_of
from sightline.paper.tables import DETECTOR, P, header, testbed_groups
from sightline.rules.advice import count_words
from sightline.text import UNKNOWN, probability

RHO = Phrase("rho", r"$\rho$")
N = Phrase("n", "$n$")
_METRIC = Column("figure", words("Metric"), "l")
# Differences that are shown; those of other figures are in CSV.
_SHOWN = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL, Figure.RECALL)
_PAIR = ("first", "second")
_PARTS = (
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


def transfer_table(study: Study, compared: Comparison) -> PaperTable:
    """Return whether detectors rank alike on two testbeds, by three figures.

    A row for each figure and each two testbeds; no rows for a single testbed.

    Parameters
    ----------
    study : Study
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
    rows: dict[str, list[tuple[Cell, ...]]] = defaultdict(list)
    for row in compared.transfer:
        rows[row.figure].append(_transfer_row(study, row))
    return PaperTable(
        name="cross_testbed_ranking",
        caption=markup.caption("cross_testbed_ranking", n=N, rho=RHO, p=P),
        columns=(
            _METRIC,
            Column("testbeds", words("Testbeds"), "l", parts=("first", "second")),
            Column("n", N),
            Column("rho", RHO),
            Column("p_value", P),
            Column("p_exact", Phrase("exact p", "exact $p$")),
        ),
        groups=tuple(
            Group(name=figure, title="", rows=tuple(rows_of))
            for figure, rows_of in rows.items()
        ),
        grouped_by=None,
        wide=False,
    )


def _transfer_row(study: Study, row: Transfer) -> tuple[Cell, ...]:
    first, second = (words(study.testbed_title(name)) for name in row.testbeds)
    correlation = row.correlation
    return (
        Cell(header(Figure(row.figure)), (row.figure,)),
        Cell(first + Phrase(" - ", "--") + second, row.testbeds),
        markup.number_cell(correlation.n, markup.whole),
        Cell(markup.fixed(correlation.rho, 2), (correlation.rho,)),
        markup.number_cell(correlation.p_value, markup.fixed),
        markup.number_cell(correlation.p_exact, markup.fixed),
    )


def agreement_table(study: Study, compared: Comparison) -> PaperTable:
    """Return the agreement of each two detectors on each testbed.

    A row and a column for each detector; no rows for a testbed with one detector. See
    `sightline.comparison.compare.Agreement` for the number.

    Parameters
    ----------
    study : Study
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

    def rows(testbed: str) -> Iterator[tuple[Cell, ...]]:
        labels = [name for name in study.detectors if name in study.on(testbed)]
        rhos = agreement_of(compared, testbed)
        for label in labels if len(labels) > 1 else ():
            cells = (
                _rho_cell(rhos.get(frozenset((label, o)))) for o in study.detectors
            )
            yield markup.text_cell(label, study.short_title(label)), *cells

    parts = ("rho", "low", "high", "n_attacks")
    seeds = words(" and its range" if study.has_seeds else "")
    titles = {name: words(study.short_title(name)) for name in study.detectors}
    return PaperTable(
        name="agreement",
        caption=markup.caption("agreement", rho=RHO, seeds=seeds),
        columns=(
            DETECTOR,
            *(Column(name, title, parts=parts) for name, title in titles.items()),
        ),
        groups=testbed_groups(study, rows),
    )


def by_space(study: Study, testbed: str) -> list[str]:
    """Return the labels of a testbed's detectors, sorted by residual space."""
    detectors = study.on(testbed).detectors
    ordered = sorted(detectors, key=lambda runs: (str(space_of(runs)), runs.label))
    return [runs.label for runs in ordered]


def agreement_of(compared: Comparison, testbed: str) -> dict[frozenset[str], Agreement]:
    """Return the agreements on a testbed by the labels of the two detectors."""
    rows = (row for row in compared.agreement if row.testbed == testbed)
    return {frozenset(row.detectors): row for row in rows}


def _rho_cell(row: Agreement | None) -> Cell:
    """Return the cell of two detectors; a dash for a detector with itself."""
    if row is None or row.rho is None or row.rho_range is None:
        return Cell(markup.UNKNOWN, (None, None, None, row.n_matched if row else None))
    rhos = (row.rho, *row.rho_range)
    text = markup.ranged(*(markup.fixed(rho, 2) for rho in rhos))
    return Cell(text, (*rhos, row.n_matched))


def difference_table(study: Study, compared: Comparison) -> PaperTable:
    """Return the differences of each two detectors, a row for each pair.

    Parameters
    ----------
    study : Study
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
    pairs: dict[tuple[str, tuple[str, str]], dict[str, Difference]] = {}
    for row in compared.differences:
        pairs.setdefault((row.testbed, row.detectors), {})[row.figure] = row
    return PaperTable(
        name="differences",
        caption=markup.caption("differences"),
        columns=(
            Column("detectors", words("First - second"), "l", parts=_PAIR),
            Column("n_attacks", words("Attacks")),
            Column("n_alone", is_shown=False, parts=("first", "second")),
            *(
                Column(figure, header(figure), parts=_PARTS, is_shown=figure in _SHOWN)
                for figure in PAIRED_FIGURES
            ),
        ),
        groups=testbed_groups(
            study,
            lambda t: [
                _difference_row(study, pair, rows)
                for (testbed, pair), rows in pairs.items()
                if testbed == t
            ],
        ),
        notes=(markup.note("differences"),),
    )


def _difference_row(
    study: Study, pair: tuple[str, str], rows: Mapping[str, Difference]
) -> tuple[Cell, ...]:
    """Return all differences of two detectors."""
    first, second = (words(study.short_title(label)) for label in pair)
    one = next(iter(rows.values()))
    return (
        Cell(first + Phrase(" - ", " -- ") + second, pair),
        markup.number_cell(one.n_attacks, markup.whole),
        Cell(markup.EMPTY, one.n_alone),
        *(_difference_cell(rows.get(figure)) for figure in PAIRED_FIGURES),
    )


def _difference_cell(row: Difference | None) -> Cell:
    """Return a difference with its interval, and a star if it is beyond chance."""
    if row is None:
        return Cell(markup.UNKNOWN, (None,) * len(_PARTS))
    low, high = row.interval or (None, None)
    text = markup.filled(
        "{difference} ({low} to {high}){star}",
        difference=markup.fixed(row.difference),
        low=markup.fixed(low, 2),
        high=markup.fixed(high, 2),
        star=words("*" if row.has_star else ""),
    )
    return Cell(
        text,
        (
            row.difference,
            low,
            high,
            row.p,
            row.p_adjusted,
            row.better,
            row.worse,
            row.same,
            row.detectable,
            row.n_needed,
        ),
    )


def found_table(study: Study, compared: Comparison) -> PaperTable:
    """Return how many attacks each detector's present rule finds, with chance and cost.

    Parameters
    ----------
    study : Study
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
        caption=markup.caption("found"),
        columns=(
            DETECTOR,
            Column("rule", words("Rule"), "l"),
            Column("found", words("Found"), parts=("", "of")),
            Column("by_chance", words("By chance")),
            Column("p_value", P),
            Column("rings", words("Any alarm"), parts=("", "of")),
            Column("rings_by_chance", words("By chance")),
            Column("alarms_per_day", words("False alarms")),
            Column("share_in_alarm", words("Time in alarm")),
            Column("is_standing", is_shown=False),
        ),
        groups=testbed_groups(
            study,
            lambda t: [
                _found_row(study, row, row.found)
                for row in compared.detections
                if row.testbed == t and row.found is not None
            ],
        ),
    )


def _found_row(study: Study, row: Detections, found: Count) -> tuple[Cell, ...]:
    """Return the counts of one detector, each with what chance gives."""
    rings, rate = row.rings, row.share_in_alarm
    n_rings = (None, None) if rings is None else (rings.count, rings.total)
    by_chance = None if rings is None else rings.by_chance
    return (
        markup.text_cell(row.detector, study.detector_title(row.detector)),
        markup.text_cell(None if row.rule is None else str(row.rule)),
        Cell(words(f"{found.count} of {found.total}"), (found.count, found.total)),
        Cell(markup.fixed(found.by_chance, 1), (found.by_chance,)),
        Cell(words(probability(found.p_value)), (found.p_value,)),
        Cell(words(UNKNOWN if rings is None else "{} of {}".format(*n_rings)), n_rings),
        Cell(markup.fixed(by_chance, 1), (by_chance,)),
        Cell(
            words(UNKNOWN if row.load is None else count_words(row.load)),
            (None if row.load is None else row.load.alarms_per_day,),
        ),
        Cell(words(UNKNOWN) if rate is None else markup.percent(rate), (rate,)),
        markup.hidden_cell(str(row.is_standing).lower()),
    )
