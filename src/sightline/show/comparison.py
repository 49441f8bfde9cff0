"""What is shown of a comparison of detectors: terminal, notebook, page and print.

Each list of columns serves every renderer; what a terminal or a notebook shows of it is
picked below. In print detectors and testbeds have titles, hence the argument `title`.

Each figure stands beside its interval and its chance floor. Point-adjusted and
affiliation figures are high by chance, and stay out without a floor.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sightline.figures import FIGURES, Figure, FigureEntry, published
from sightline.rules.choose import load_words
from sightline.show.attacks import sure
from sightline.show.evaluations import CAUGHT, COUNTS, caught_of, load_cell
from sightline.show.phrases import Phrase, filled, fixed, words
from sightline.show.table import (
    CellNote,
    Column,
    Columns,
    RecordTable,
    TableCell,
    pick,
)
from sightline.text import (
    DAGGER,
    MINUS,
    UNKNOWN,
    correlation,
    names,
    probability,
    score,
    slug,
)

if TYPE_CHECKING:
    from sightline.comparison.compare import (
        Agreement,
        Comparison,
        Detections,
        Ranking,
        SeededFigure,
        SideBySide,
        Transfer,
    )
    from sightline.comparison.differences import Difference, MeanRanks
    from sightline.comparison.runs import DetectorRuns
    from sightline.evaluation.result import Interval

MAIN_FIGURES = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL, Figure.F1)
PAIR = ("first", "second")
# What CSV holds of a difference.
DIFFERENCE_PARTS = (
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
Title = Callable[[str], str]


def figure_header(figure: str) -> Phrase:
    r"""Return the header of a figure's column, with formulas in LaTeX.

    Examples
    --------
    >>> figure_header(Figure.P_FULL).latex, figure_header(Figure.F1).markdown
    ('$P_{\\mathrm{FULL}}$', 'F1@p99')
    """
    if figure == Figure.MAX_Z:
        return Phrase("max-z", "max-$z$")
    return filled(FIGURES[figure].symbol)


# ---- figures over seeds, and their order -----------------------------------------

# The figures of one detector on one testbed.
Seeded = Mapping[str, "SeededFigure"]


def _of(seeded: Seeded) -> "SeededFigure":
    """Return one of the figures, for the names that all have in common."""
    return next(iter(seeded.values()))


def _over_seeds(figure: Figure) -> Column[Seeded]:
    """Return the column of a figure: mean, range and 95% interval over seeds."""

    def get(seeded: Seeded) -> str:
        row = seeded[figure]
        text, low, high = score(row.mean), score(row.low), score(row.high)
        if low != high:
            text += f"\n{low}\u2013{high}"
        if row.n_seeds > 1 and row.interval is not None and row.interval[1] is not None:
            text += f"\n[{row.interval[0]:z.2f}, {row.interval[1]:z.2f}]"
        return text

    entry = FIGURES[figure]
    return Column(figure, entry.name, get, "r", tip=entry.sentence)


SEEDED: Columns[Seeded] = (
    Column("testbed", "testbed", lambda s: _of(s).testbed),
    Column("detector", "detector", lambda s: _of(s).detector),
    *(_over_seeds(figure) for figure in MAIN_FIGURES),
)


def figures_table(compared: "Comparison") -> RecordTable[Seeded]:
    """Return the main figures of each detector on each testbed, over its seeds.

    With several seeds, the 95% interval of their mean stands below their range.
    """
    rows: dict[tuple[str, str], dict[str, SeededFigure]] = {}
    for row in compared.figures:
        rows.setdefault((row.testbed, row.detector), {})[row.figure] = row
    several = any(row.n_seeds > 1 for row in compared.figures)
    over_seeds = ": mean over seeds, range, [95% interval]" if several else ""
    return RecordTable(
        f"Figures{over_seeds}", SEEDED, [rows[key] for key in sorted(rows)]
    )


# Columns of the paper's main table.
PAPER_FIGURES = (
    Figure.ROC_AUC,
    Figure.PAUC_1,
    Figure.P_FULL,
    Figure.MEDIAN_D_FULL,
    Figure.D_DRIFT,
    Figure.D_DRIFT_ROBUST,
    Figure.COMPACTNESS,
    Figure.F1,
    Figure.HINDSIGHT_F1,
)
# Whose alarms or score, in the order of the page.
ALARM_SOURCES = {
    "own_rule": "Alarms of the detector's own rule, on the whole test",
    "probe": "Alarms of the p99 rule, on the whole test",
}
SCORE_SOURCES = {
    "score": "The detector's own score",
    "largest": "Largest deviation of a tag, in units of its own tail",
    "energy": "Energy (deviation score)",
}


def figure_cell(
    runs: "DetectorRuns",
    known: FigureEntry,
    source: str | None = None,
    over_seeds: "Interval | None" = None,
) -> TableCell:
    """Return a figure of the first seed, and how far it can be trusted.

    Parameters
    ----------
    runs : DetectorRuns
        The detector.
    known : FigureEntry
        Which figure. It has a dagger if extreme points dominate it.
    source : str, optional
        Under a published name, whose alarms or score.
    over_seeds : tuple of float, optional
        95% interval of the mean over seeds.
    """
    evaluation = runs.evaluation
    if source and not known.can_show(known.measured(evaluation, source)):
        place = f"{source}.{known.key}"
        return TableCell(UNKNOWN, (None,), place=place)
    value, floor = known.of(evaluation, source), known.floor(evaluation, source)
    ends = known.range_text(known.interval(evaluation, source))
    notes: list[CellNote | str] = [ends] if ends else []
    is_below = floor is not None and not floor.above_floor
    if floor is not None:
        worse = ": no better" if is_below and source is None else ""
        text = f"chance {known.text(floor.value)}{worse}"
        notes.append(CellNote(text, is_warning=bool(worse)))
    if source is None and len(runs.results) > 1 and (seeds := runs.spread(known.key)):
        mean, low, high = map(known.text, (seeds.mean, seeds.low, seeds.high))
        text = f"mean {mean}, {low} to {high}"
        if over_seeds is not None:
            text += f"; 95% interval {known.range_text(over_seeds)}"
        notes.append(text)
    marked = known.key == Figure.D_DRIFT and evaluation.drift.mean_dominated
    return TableCell(
        known.text(value) + (DAGGER if marked else ""),
        (value,),
        "dim" if source and is_below else "",
        notes=tuple(notes),
        place=f"{source}.{known.key}" if source else known.place,
    )


def paper_table(
    entries: "Sequence[DetectorRuns]", compared: "Comparison | None" = None
) -> RecordTable["DetectorRuns"]:
    """Return the paper's main table: a row for each detector on each testbed."""
    ranges = {
        (row.testbed, row.detector, row.figure): row.interval
        for row in (compared.figures if compared else ())
    }

    def column(figure: Figure) -> Column["DetectorRuns"]:
        known = FIGURES[figure]

        def get(runs: "DetectorRuns") -> TableCell:
            over_seeds = ranges.get((runs.testbed, runs.label, figure))
            return figure_cell(runs, known, over_seeds=over_seeds)

        return Column(figure, known.name, get, "r", term=slug(figure), title=known.name)

    columns: Columns[DetectorRuns] = (
        Column("testbed", "testbed", lambda e: e.testbed, term="testbed"),
        Column("detector", "detector", lambda e: e.label, term="detector"),
        Column("p", "p", lambda e: str(e.evaluation.stream.p), "r", term="n-channels"),
        *map(column, PAPER_FIGURES),
    )
    return RecordTable("The paper's main table", columns, entries)


def published_tables(
    entries: "Sequence[DetectorRuns]",
) -> list[RecordTable[FigureEntry]]:
    """Return the figures under published names: of each rule, then of each score.

    A row for each figure, a column for each detector of a testbed that has the alarms
    or the score. Figures that no detector has above its floor come last.
    """
    present = {s for e in entries for s in e.evaluation.alarm_metrics or {}}
    # A rule made for a budget is judged on rows that did not set its limit.
    made = sorted(present - {*ALARM_SOURCES, *SCORE_SOURCES})
    titles = {
        source: "Alarms of the rule made for the budget "
        f"({source.partition(':')[2]}), on judged rows"
        for source in made
    }
    order = ALARM_SOURCES | titles | SCORE_SOURCES
    return [
        published_table(source, title, entries)
        for source, title in order.items()
        if source in present
    ]


def published_table(
    source: str, title: str, entries: "Sequence[DetectorRuns]"
) -> RecordTable[FigureEntry]:
    """Return the figures of one set of alarms or one score."""
    runs = [e for e in entries if (e.evaluation.alarm_metrics or {}).get(source)]

    def name(known: FigureEntry) -> TableCell:
        figures = (known.measured(e.evaluation, source) for e in runs)
        definition = next((one.definition for one in figures if one), "")
        other = (definition,) if definition != known.definition else ()
        return TableCell(known.name, term=known.term, notes=other)

    def is_below(known: FigureEntry) -> bool:
        figures = (known.measured(e.evaluation, source) for e in runs)
        floors = [f.floor for f in figures if f and known.can_show(f) and f.floor]
        return bool(floors) and not any(floor.above_floor for floor in floors)

    def column(one: "DetectorRuns") -> Column[FigureEntry]:
        return Column(one.label, one.label, lambda f: figure_cell(one, f, source), "r")

    figures = [
        known
        for known in published()
        if any(known.can_show(known.measured(e.evaluation, source)) for e in runs)
    ]
    return RecordTable(
        title,
        (Column("figure", "figure", name, term="figure"), *map(column, runs)),
        sorted(figures, key=is_below),
        style=lambda known: "below" if is_below(known) else "",
    )


RANKINGS: Columns["Ranking"] = (
    Column("testbed", "testbed", lambda r: r.testbed),
    Column("figure", "figure", lambda r: FIGURES[r.figure].name),
    Column(
        "order",
        "order, and how often each is above the next",
        lambda r: (
            r.order[0]
            + "".join(
                f" {above:.0%} > {name}"
                for above, name in zip(r.above, r.order[1:], strict=True)
            )
        ),
    ),
    Column("holds", "whole order", lambda r: f"{r.holds:.0%}", "r"),
)


# A place among mean ranks: all ranks on a testbed, and the label of a detector.
Place = tuple["MeanRanks", str]


def _alike(place: Place) -> str:
    """Return who is not told apart from a detector."""
    row, label = place
    alike = [
        other
        for other in row.detectors
        if other != label
        and any(label in group and other in group for group in row.groups)
    ]
    if len(alike) == len(row.detectors) - 1 > 1:
        return "all others"
    return names(alike) or UNKNOWN


MEAN_RANKS: Columns[Place] = (
    Column("testbed", "testbed", lambda p: p[0].testbed),
    Column("detector", "detector", lambda p: p[1]),
    Column(
        "rank",
        "mean rank",
        lambda p: f"{p[0].ranks[p[0].detectors.index(p[1])]:.2f}",
        "r",
    ),
    Column("alike", "not told apart from", _alike),
)

# ---- differences -----------------------------------------------------------------

# Differences of two detectors of a testbed, by figure.
Pair = Mapping[str, "Difference"]


def pairs_of(compared: "Comparison") -> list[Pair]:
    """Return the differences of each two detectors."""
    pairs: dict[tuple[str, tuple[str, str]], dict[str, Difference]] = {}
    for row in compared.differences:
        pairs.setdefault((row.testbed, row.detectors), {})[row.figure] = row
    return list(pairs.values())


def first_of(pair: Pair) -> "Difference":
    """Return one of the differences, for what all have in common."""
    return next(iter(pair.values()))


def _difference(figure: str, *, is_shown: bool) -> Column[Pair]:
    """Return the column of a figure: difference, interval, a star if beyond chance."""

    def get(pair: Pair) -> TableCell:
        row = pair.get(figure)
        if row is None:
            return TableCell(UNKNOWN, (None,) * len(DIFFERENCE_PARTS))
        low, high = row.interval or (None, None)
        text, star = f"{row.difference:+z.3f}", "*" if row.has_star else ""
        if low is not None and high is not None:
            text += f" ({low:+z.2f} to {high:+z.2f}){star or ' '}"
        printed = filled(
            "{difference} ({low} to {high}){star}",
            difference=fixed(row.difference),
            low=fixed(low, 2),
            high=fixed(high, 2),
            star=words(star),
        )
        rest = (getattr(row, part) for part in DIFFERENCE_PARTS[3:])
        return TableCell(text, (row.difference, low, high, *rest), printed=printed)

    return Column(
        figure,
        figure_header(figure),
        get,
        "r",
        tip=FIGURES[figure].sentence,
        parts=DIFFERENCE_PARTS,
        is_shown=is_shown,
    )


def difference_columns(
    figures: Sequence[str], shown: Sequence[str], title: Title = str
) -> Columns[Pair]:
    """Return the columns of differences: the pair, its attacks, and each figure."""

    def pair_cell(pair: Pair) -> TableCell:
        labels = first_of(pair).detectors
        first, second = (words(title(label)) for label in labels)
        printed = first + Phrase(" - ", " -- ") + second
        return TableCell(" - ".join(map(title, labels)), labels, printed=printed)

    return (
        Column("detectors", "first - second", pair_cell, parts=PAIR),
        Column(
            "n_attacks",
            "attacks",
            lambda p: TableCell(str(first_of(p).n_attacks), (first_of(p).n_attacks,)),
            "r",
        ),
        Column(
            "n_alone",
            get=lambda p: TableCell(values=first_of(p).n_alone),
            parts=PAIR,
            is_shown=False,
        ),
        *(_difference(figure, is_shown=figure in shown) for figure in figures),
    )


def _with_primary(compared: "Comparison", figures: Sequence[str]) -> list[str]:
    """Return figures, the one that was named before first."""
    return list(dict.fromkeys([compared.primary, *figures]))


_SHOWN_DIFFERENCES = (Figure.PAUC_1, Figure.ROC_AUC)


def differences_table(compared: "Comparison") -> RecordTable[Pair]:
    """Return the differences of each two detectors, a row for each pair."""
    # Two have room in a terminal.
    figures = _with_primary(compared, _SHOWN_DIFFERENCES)[:2]
    columns = difference_columns(figures, figures)
    testbed: Column[Pair]
    testbed = Column("testbed", "testbed", lambda pair: first_of(pair).testbed)
    return RecordTable(
        "Differences with intervals corrected over all pairs (* excludes 0); judged by "
        f"{FIGURES[compared.primary].name}, all others also over all figures",
        (testbed, *pick(columns, "detectors", *figures)),
        pairs_of(compared),
    )


# Figures whose differences the page shows for all pairs.
PAGE_DIFFERENCES = (
    Figure.ROC_AUC,
    Figure.PAUC_1,
    Figure.MEAN_SEGMENT_AUC,
    Figure.P_FULL,
    Figure.RECALL,
)
# One difference in a row of its own.
DIFFERENCES: Columns["Difference"] = (
    Column("testbed", "testbed", lambda d: d.testbed),
    Column(
        "detectors",
        "first - second",
        lambda d: f" {MINUS} ".join(d.detectors),
        term="pair",
    ),
    Column("figure", "figure", lambda d: FIGURES[d.figure].name),
    Column(
        "difference",
        "difference",
        lambda d: f"{d.difference:+z.3f}" + (" ★" if d.has_star else ""),
        "r",
        term="difference",
    ),
    Column(
        "interval",
        "interval",
        lambda d: "{:+z.2f} to {:+z.2f}".format(*d.interval) if d.interval else UNKNOWN,
        "r",
        term="interval",
    ),
    Column(
        "p",
        "p",
        lambda d: probability(d.p_adjusted),
        "r",
        tip="Corrected over all pairs; in other figures than the primary one, over "
        "all of them too.",
        term="p-value",
    ),
    Column(
        "better",
        "better, worse",
        lambda d: UNKNOWN if d.better is None else f"{d.better}, {d.worse}",
        "r",
        term="better-worse",
    ),
    Column("power", "could have been seen", lambda d: d.power, term="power"),
)


def page_differences(
    compared: "Comparison", testbed: str
) -> list[tuple[str, RecordTable["Difference"]]]:
    """Return the differences of a testbed's detectors, figure by figure."""
    keys = ("detectors", "difference", "interval", "p", "better", "power")
    figures = _with_primary(compared, PAGE_DIFFERENCES)
    of_figure: dict[str, list[Difference]] = {figure: [] for figure in figures}
    for row in compared.differences:
        if row.testbed == testbed and row.figure in of_figure:
            of_figure[row.figure].append(row)
    return [
        (figure, RecordTable("", pick(DIFFERENCES, *keys), rows))
        for figure, rows in of_figure.items()
        if rows
    ]


# ---- agreement and transfer ------------------------------------------------------

AGREEMENT: Columns["Agreement"] = (
    Column("testbed", "testbed", lambda a: a.testbed),
    Column("detectors", "detectors", lambda a: names(a.detectors)),
    Column("rho", "rho", lambda a: correlation(a.rho), "r"),
    Column("n_matched", "shared attacks", lambda a: str(a.n_matched), "r"),
    Column("n_alone", "only one has", lambda a: "{} | {}".format(*a.n_alone), "r"),
)


def transfer_columns(title: Title = str) -> Columns["Transfer"]:
    """Return the columns that say whether a ranking holds on another testbed."""

    def testbeds(row: "Transfer") -> TableCell:
        first, second = (words(title(name)) for name in row.testbeds)
        printed = first + Phrase(" - ", "--") + second
        text = f" {UNKNOWN} ".join(row.testbeds)
        return TableCell(text, row.testbeds, printed=printed)

    def number(value: float | None, text: str, digits: int = 3) -> TableCell:
        return TableCell(text, (value,), printed=fixed(value, digits))

    return (
        Column(
            "figure",
            "metric",
            lambda t: TableCell(
                FIGURES[t.figure].name, (t.figure,), printed=figure_header(t.figure)
            ),
            term="figure",
        ),
        Column("testbeds", "testbeds", testbeds, parts=PAIR, term="plants"),
        Column(
            "n",
            Phrase("n", "$n$"),
            lambda t: number(t.correlation.n, str(t.correlation.n), 0),
            "r",
            tip="Detectors that both testbeds have.",
            term="shared-detectors",
        ),
        Column(
            "rho",
            Phrase("rho", r"$\rho$"),
            lambda t: number(t.correlation.rho, correlation(t.correlation.rho), 2),
            "r",
            term="spearman",
        ),
        Column(
            "p_value",
            Phrase("p", "$p$"),
            lambda t: number(t.correlation.p_value, probability(t.correlation.p_value)),
            "r",
            term="p-value",
        ),
        Column(
            "p_exact",
            Phrase("exact p", "exact $p$"),
            lambda t: number(t.correlation.p_exact, probability(t.correlation.p_exact)),
            "r",
            term="exact-p",
        ),
    )


TRANSFER = ("figure", "testbeds", "n", "rho", "p_value", "p_exact")

# ---- attacks caught, and verdicts side by side ------------------------------------


def detection_columns(title: Title = str) -> Columns["Detections"]:
    """Return the columns of attacks caught by each detector, with chance and cost."""
    by_key: dict[str, Column[Detections]] = {c.key: c for c in COUNTS}
    cost = by_key.pop("share_in_alarm")
    return (
        Column("testbed", "testbed", lambda d: d.testbed, min_width=8),
        Column(
            "detector",
            "detector",
            lambda d: TableCell(title(d.detector), (d.detector,)),
            min_width=8,
        ),
        *by_key.values(),
        Column("alarms_per_day", "false\nalarms", lambda d: load_cell(d.load), "r"),
        cost,
        Column(
            "is_standing",
            get=lambda d: str(d.is_standing).lower(),
            is_shown=False,
        ),
        # Count, chance and p in one cell, for narrow tables.
        Column("caught_words", "caught", lambda d: caught_of(d.attacks) or UNKNOWN),
        Column(
            "load_words",
            "false alarms",
            lambda d: UNKNOWN if d.load is None else load_words(d.load),
        ),
    )


CAUGHT_IN_TERMINAL = ("testbed", "detector", *CAUGHT)
CAUGHT_IN_NOTEBOOK = ("testbed", "detector", "caught_words", "load_words")


def _side_by_side(row: "SideBySide") -> str:
    """Return the verdicts on one attack, how sure they are, and who vetoes."""
    verdicts = ", ".join(
        f"{name}: {sure(word, row.confidences[name])}"
        for name, word in row.joint_verdicts.items()
    )
    text = f"{verdicts} ({row.reading})"
    if row.vetoed_by:
        text += f". The telemetry's own test does not show it; {names(row.vetoed_by)} "
        text += "shows it." if len(row.vetoed_by) == 1 else "show it."
    return text


VERDICTS: Columns["SideBySide"] = (
    Column("testbed", "testbed", lambda r: r.testbed),
    Column("attack", "attack", lambda r: r.attack),
    Column("verdicts", "verdicts", _side_by_side),
)

# ---- what a terminal and a notebook show -----------------------------------------


def terminal_tables(compared: "Comparison") -> list[RecordTable[Any]]:
    """Return all tables of a comparison, also those without rows."""
    missed = [row for row in compared.verdicts if not row.is_seen_by_all]
    tables: list[RecordTable[Any]] = [
        figures_table(compared),
        RecordTable(
            "Mean rank over attacks, by the AUC of each attack (1 is the best)",
            MEAN_RANKS,
            [(row, label) for row in compared.ranks for label in row.detectors],
        ),
        differences_table(compared),
        RecordTable(
            "How often does the order hold over seeds, attacks as they are? "
            "(tie: half)",
            RANKINGS,
            [row for row in compared.rankings if max(row.n_seeds) > 1],
        ),
        RecordTable(
            "Do detectors agree on which attacks are strong? (D_FULL)",
            AGREEMENT,
            compared.agreement,
        ),
        RecordTable(
            "Does a ranking of detectors hold on another testbed?",
            pick(transfer_columns(), *TRANSFER, n="detectors"),
            compared.transfer,
        ),
        RecordTable(
            "Attacks caught (first seeds, whole test)",
            pick(detection_columns(), *CAUGHT_IN_TERMINAL),
            compared.detections,
        ),
        RecordTable(
            "Attacks that not every detector detects (verdicts of all together)",
            VERDICTS,
            missed,
        ),
    ]
    return [table.as_labelled(compared.labels) for table in tables]


def notebook_tables(compared: "Comparison") -> list[RecordTable[Any]]:
    """Return figures side by side, differences, attacks caught."""
    shown = _with_primary(compared, _SHOWN_DIFFERENCES)
    tables: list[RecordTable[Any]] = [
        figures_table(compared),
        RecordTable(
            "Differences on shared attacks (★ beyond chance over all pairs)",
            DIFFERENCES[:6],
            [row for row in compared.differences if row.figure in shown],
        ),
        RecordTable(
            "Attacks caught (whole test)",
            pick(detection_columns(), *CAUGHT_IN_NOTEBOOK),
            compared.detections,
        ),
    ]
    return [table.as_labelled(compared.labels) for table in tables]


def seen_differences(compared: "Comparison") -> list[str]:
    """Return for each testbed which differences in ROC-AUC could have been seen."""
    by_testbed: dict[str, list[Difference]] = {}
    for row in compared.differences:
        if row.figure == Figure.ROC_AUC:
            by_testbed.setdefault(row.testbed, []).append(row)
    notices = []
    for testbed, rows in by_testbed.items():
        sizes = [row.detectable for row in rows if row.detectable is not None]
        attacks = sorted({row.n_attacks for row in rows})
        n = " to ".join(str(k) for k in dict.fromkeys((attacks[0], attacks[-1])))
        if not sizes:
            notices.append(f"{testbed}: {rows[0].power}")
            continue
        ends = dict.fromkeys(f"{end:.2g}" for end in (min(sizes), max(sizes)))
        notices.append(
            f"{testbed}: with {n} attacks a difference in ROC-AUC of "
            f"{' to '.join(ends)}, by pair, could have been seen."
        )
    return notices
