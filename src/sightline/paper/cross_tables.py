"""Tables across detectors and testbeds: does a ranking transfer, who agrees."""

from collections.abc import Sequence

from sightline.comparison.compare import Comparison, Transfer
from sightline.paper.markup import NOT_KNOWN, Phrase, fixed, ranged, whole, words
from sightline.paper.study import Study
from sightline.paper.table import Cell, Column, Group, PaperTable, text_cell
from sightline.paper.tables import D_FULL, DETECTOR, P_FULL

RHO = Phrase("rho", r"$\rho$")
FIGURE_TITLES = {
    "roc_auc": words("ROC-AUC"),
    "median_d_full": D_FULL,
    "p_full": P_FULL,
    "pauc_1": words("pAUC@1%"),
    "f1": words("F1@p99"),
}


def transfer_table(study: Study, compared: Comparison) -> PaperTable:
    """Return whether detectors rank alike on two testbeds, by three figures."""
    by_figure: dict[str, list[Transfer]] = {}
    for row in compared.transfer:
        by_figure.setdefault(row.figure, []).append(row)
    groups = tuple(
        Group(name=figure, title="", rows=tuple(_transfer_row(study, r) for r in rows))
        for figure, rows in by_figure.items()
    )
    return PaperTable(
        name="cross_testbed_ranking",
        caption=words("Cross-testbed ranking stability. ")
        + Phrase("n", "$n$")
        + words(" is the number of detectors shared by the two testbeds, ")
        + RHO
        + words(" is Spearman's rank correlation of means over seeds, ")
        + Phrase("p", "$p$")
        + words(
            " is two-sided: by the t-approximation, and exact over all orders. With "
            "few detectors these describe; they prove little."
        ),
        columns=(
            Column(key="figure", header=words("Metric"), align="l"),
            Column(
                key="testbeds",
                header=words("Testbeds"),
                align="l",
                parts=("first", "second"),
            ),
            Column(key="n", header=Phrase("n", "$n$")),
            Column(key="rho", header=RHO),
            Column(key="p_value", header=Phrase("p", "$p$")),
            Column(key="p_exact", header=Phrase("exact p", "exact $p$")),
        ),
        groups=groups,
        grouped_by=None,
        wide=False,
    )


def _transfer_row(study: Study, row: Transfer) -> tuple[Cell, ...]:
    first, second = (words(study.testbed_title(name)) for name in row.testbeds)
    found = row.correlation
    return (
        Cell(FIGURE_TITLES[row.figure], (row.figure,)),
        Cell(
            Phrase(
                f"{first.markdown} - {second.markdown}",
                f"{first.latex}--{second.latex}",
            ),
            row.testbeds,
        ),
        Cell(whole(found.n), (found.n,)),
        Cell(fixed(found.rho, 2), (found.rho,)),
        Cell(fixed(found.p_value), (found.p_value,)),
        Cell(fixed(found.p_exact), (found.p_exact,)),
    )


def agreement_table(study: Study, compared: Comparison) -> PaperTable:
    """Return Spearman's rho of D_FULL over shared attacks, for each two detectors."""
    groups = []
    for testbed in study.testbeds:
        here = {pair.detector for pair in study.on(testbed)}
        names = [name for name in study.detectors if name in here]
        rhos = agreement_of(compared, testbed)
        rows = tuple(
            (
                text_cell(row, study.short_title(row)),
                *(_rho_cell(rhos, row, name) for name in study.detectors),
            )
            for row in names
            if len(names) > 1
        )
        if rows:
            title = study.testbed_title(testbed)
            groups.append(Group(name=testbed, title=title, rows=rows))
    return PaperTable(
        name="agreement",
        caption=words("Cross-detector agreement on attacks: ")
        + RHO
        + words(
            " is Spearman's correlation of D_FULL over the attack segments that two "
            "detectors share, the mean over pairs of seeds"
        )
        + words(" and its range." if study.has_seeds else "."),
        columns=(
            DETECTOR,
            *(
                Column(
                    key=name,
                    header=words(study.short_title(name)),
                    parts=("rho", "low", "high", "n_attacks"),
                )
                for name in study.detectors
            ),
        ),
        groups=tuple(groups),
    )


def by_space(study: Study, testbed: str) -> list[str]:
    """Return the detectors of a testbed, those of one residual space together."""
    pairs = sorted(study.on(testbed), key=lambda p: (str(p.space), p.detector))
    return [pair.detector for pair in pairs]


Rho = tuple[float | None, tuple[float, float] | None, int]


def agreement_of(compared: Comparison, testbed: str) -> dict[frozenset[str], Rho]:
    """Return rho, its range and the number of attacks for each two detectors."""
    return {
        frozenset(row.detectors): (row.rho, row.rho_range, row.n_matched)
        for row in compared.agreement
        if row.testbed == testbed
    }


def _rho_cell(rhos: dict[frozenset[str], Rho], row: str, name: str) -> Cell:
    rho, between, n_attacks = rhos.get(frozenset((row, name)), (None, None, None))
    if rho is None or between is None:
        return Cell(NOT_KNOWN, (None, None, None, n_attacks))
    shown = ranged(fixed(rho, 2), fixed(between[0], 2), fixed(between[1], 2))
    return Cell(shown, (rho, *between, n_attacks))


def ranking_table(study: Study, compared: Comparison) -> PaperTable:
    """Return how often each ranking of detectors holds over seeds."""
    groups = []
    for testbed in study.testbeds:
        rows = tuple(
            (
                Cell(FIGURE_TITLES[row.figure], (row.figure,)),
                Cell(
                    _order([study.detector_title(n) for n in row.order], row.above),
                    (" > ".join(row.order),),
                ),
                Cell(_share(row.holds), (row.holds,)),
                Cell(words(""), (" ".join(map(str, row.above)),)),
            )
            for row in compared.rankings
            if row.testbed == testbed and max(row.n_seeds) > 1
        )
        if rows:
            title = study.testbed_title(testbed)
            groups.append(Group(name=testbed, title=title, rows=rows))
    return PaperTable(
        name="rankings",
        caption=words(
            "Order of detectors by the mean over seeds. Before each name: the share "
            "of seed pairs in which the one before it is above it; at the end: the "
            "share of seed combinations with this whole order. A tie counts half."
        ),
        columns=(
            Column(key="figure", header=words("Metric"), align="l"),
            Column(key="order", header=words("Order"), align="p{11cm}"),
            Column(key="holds", header=words("Whole order")),
            Column(key="above", shown=False),
        ),
        groups=tuple(groups),
    )


def _order(names: Sequence[str], above: Sequence[float]) -> Phrase:
    told = words(names[0])
    arrow = Phrase("→", r"$\to$")
    for share, name in zip(above, names[1:], strict=True):
        told = told + words(" ") + arrow + words(" (") + _share(share) + words(") ")
        told = told + words(name)
    return told


def _share(value: float) -> Phrase:
    return Phrase(f"{value:.0%}", rf"{100 * value:.0f}\%")
