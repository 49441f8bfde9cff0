"""Tables across detectors and testbeds: attacks found, transfer, agreement."""

from collections import defaultdict
from collections.abc import Iterator

from sightline.comparison.compare import (
    Agreement,
    Comparison,
    Detections,
    Ranking,
    Transfer,
)
from sightline.comparison.runs import Figure
from sightline.judgement.verdicts import Count
from sightline.paper import markup
from sightline.paper.markup import Cell, Column, Group, PaperTable, Phrase, words
from sightline.paper.study import Study, space_of
from sightline.paper.tables import DETECTOR, P, header, testbed_groups
from sightline.text import UNKNOWN, probability

RHO = Phrase("rho", r"$\rho$")
N = Phrase("n", "$n$")
_METRIC = Column("figure", words("Metric"), "l")


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


def ranking_table(study: Study, compared: Comparison) -> PaperTable:
    """Return how often each ranking of detectors holds over seeds.

    A row for each figure on each testbed where a detector has two seeds or more.

    Parameters
    ----------
    study : Study
        For the titles.
    compared : Comparison
        Its `rankings` are written.

    Returns
    -------
    PaperTable
        Grouped by testbed. Columns in CSV: ``testbed``, ``figure``; ``order``, the
        labels with `` > `` between them; ``holds``, the share of seed combinations with
        the whole order; ``above``, for each two neighbours the share of seed pairs in
        which the first is above the second.
    """
    seeded = [row for row in compared.rankings if max(row.n_seeds) > 1]
    return PaperTable(
        name="rankings",
        caption=markup.caption("rankings"),
        columns=(
            _METRIC,
            Column("order", words("Order"), "p{11cm}"),
            Column("holds", words("Whole order")),
            Column("above", is_shown=False),
        ),
        groups=testbed_groups(
            study, lambda t: [_ranking_row(study, r) for r in seeded if r.testbed == t]
        ),
    )


def _ranking_row(study: Study, row: Ranking) -> tuple[Cell, ...]:
    """Return a ranking as names with arrows, each with the share of seed pairs."""
    order = words(study.detector_title(row.order[0]))
    for share, name in zip(row.above, row.order[1:], strict=True):
        order += markup.filled(
            " {arrow} ({share}) {name}",
            arrow=Phrase("→", r"$\to$"),
            share=markup.percent(share, 0),
            name=words(study.detector_title(name)),
        )
    return (
        Cell(header(Figure(row.figure)), (row.figure,)),
        Cell(order, (" > ".join(row.order),)),
        Cell(markup.percent(row.holds, 0), (row.holds,)),
        markup.hidden_cell(" ".join(map(str, row.above))),
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
        ``share_in_alarm``, of attack-free time; ``is_standing``.
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
        Cell(words(UNKNOWN) if rate is None else markup.percent(rate), (rate,)),
        markup.hidden_cell(str(row.is_standing).lower()),
    )
