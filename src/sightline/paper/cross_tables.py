"""Tables across detectors and testbeds: transfer of rankings, and agreement."""

from sightline.comparison.agreement import Agreement
from sightline.comparison.compare import Comparison, Ranking, Transfer
from sightline.comparison.runs import Figure
from sightline.paper.markup import (
    UNKNOWN,
    Cell,
    Column,
    Group,
    PaperTable,
    Phrase,
    caption,
    filled,
    fixed,
    hidden_cell,
    percent,
    ranged,
    text_cell,
    whole,
    words,
)
from sightline.paper.study import Study, space_of
from sightline.paper.tables import DETECTOR, P, header

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
    figures = dict.fromkeys(row.figure for row in compared.transfer)
    return PaperTable(
        name="cross_testbed_ranking",
        caption=caption("cross_testbed_ranking", n=N, rho=RHO, p=P),
        columns=(
            _METRIC,
            Column("testbeds", words("Testbeds"), "l", parts=("first", "second")),
            Column("n", N),
            Column("rho", RHO),
            Column("p_value", P),
            Column("p_exact", Phrase("exact p", "exact $p$")),
        ),
        groups=tuple(
            Group(
                name=figure,
                title="",
                rows=tuple(
                    _transfer_row(study, row)
                    for row in compared.transfer
                    if row.figure == figure
                ),
            )
            for figure in figures
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
        Cell(whole(correlation.n), (correlation.n,)),
        Cell(fixed(correlation.rho, 2), (correlation.rho,)),
        Cell(fixed(correlation.p_value), (correlation.p_value,)),
        Cell(fixed(correlation.p_exact), (correlation.p_exact,)),
    )


def agreement_table(study: Study, compared: Comparison) -> PaperTable:
    """Return the agreement of each two detectors on each testbed.

    A row and a column for each detector; no rows for a testbed with one detector. See
    `sightline.comparison.agreement.Agreement` for the number.

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
    groups = []
    for testbed in study.testbeds:
        labels = [name for name in study.detectors if name in study.on(testbed)]
        rhos = agreement_of(compared, testbed)
        rows = tuple(
            (
                text_cell(label, study.short_title(label)),
                *(_rho_cell(rhos.get(frozenset((label, o)))) for o in study.detectors),
            )
            for label in labels
            if len(labels) > 1
        )
        if rows:
            title = study.testbed_title(testbed)
            groups.append(Group(name=testbed, title=title, rows=rows))
    parts = ("rho", "low", "high", "n_attacks")
    return PaperTable(
        name="agreement",
        caption=caption(
            "agreement",
            rho=RHO,
            seeds=words(" and its range" if study.has_seeds else ""),
        ),
        columns=(
            DETECTOR,
            *(
                Column(name, words(study.short_title(name)), parts=parts)
                for name in study.detectors
            ),
        ),
        groups=tuple(groups),
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
        return Cell(UNKNOWN, (None, None, None, None if row is None else row.n_matched))
    low, high = row.rho_range
    text = ranged(fixed(row.rho, 2), fixed(low, 2), fixed(high, 2))
    return Cell(text, (row.rho, low, high, row.n_matched))


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
    groups = []
    for testbed in study.testbeds:
        rows = tuple(
            _ranking_row(study, row)
            for row in compared.rankings
            if row.testbed == testbed and max(row.n_seeds) > 1
        )
        if rows:
            title = study.testbed_title(testbed)
            groups.append(Group(name=testbed, title=title, rows=rows))
    return PaperTable(
        name="rankings",
        caption=caption("rankings"),
        columns=(
            _METRIC,
            Column("order", words("Order"), "p{11cm}"),
            Column("holds", words("Whole order")),
            Column("above", is_shown=False),
        ),
        groups=tuple(groups),
    )


def _ranking_row(study: Study, row: Ranking) -> tuple[Cell, ...]:
    """Return a ranking as names with arrows, each with the share of seed pairs."""
    order = words(study.detector_title(row.order[0]))
    for share, name in zip(row.above, row.order[1:], strict=True):
        order += filled(
            " {arrow} ({share}) {name}",
            arrow=Phrase("→", r"$\to$"),
            share=percent(share, 0),
            name=words(study.detector_title(name)),
        )
    return (
        Cell(header(Figure(row.figure)), (row.figure,)),
        Cell(order, (" > ".join(row.order),)),
        Cell(percent(row.holds, 0), (row.holds,)),
        hidden_cell(" ".join(map(str, row.above))),
    )
