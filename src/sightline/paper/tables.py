"""The paper's tables of testbeds, detectors and figures, from a study's results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sightline.paper.markup import (
    DAGGER,
    NOT_KNOWN,
    NOTHING,
    Phrase,
    compact,
    fixed,
    joined,
    percent,
    powers,
    ranged,
    span,
    thousands,
    whole,
    words,
)
from sightline.paper.study import Pair, Spread, Study
from sightline.paper.table import Cell, Column, Group, PaperTable, text_cell

Written = Callable[[float | None], Phrase]
RANGE = ("", "low", "high")
# A compactness below this share of all others' marks another kind of residual space.
# The paper sets two of three such values in bold; they are those below one half.
DISTINCT_COMPACTNESS = 0.5
DETECTOR = Column(key="detector", header=words("Detector"), align="l")
N_SEEDS = Column(key="n_seeds", shown=False)
P_FULL = Phrase("P_FULL", r"$P_{\mathrm{FULL}}$")
D_FULL = Phrase("med. D_FULL", r"med. $D_{\mathrm{FULL}}$")
D_DRIFT = Phrase("D_drift", r"$D_{\mathrm{drift}}$")
COMPACTNESS = Phrase("p_eff/p", r"$p_{\mathrm{eff}}/p$")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a detector: where it is found and how it is written."""

    key: str
    place: str
    header: Phrase
    written: Written = fixed
    best: Callable[[Sequence[float]], float] | None = None

    @property
    def column(self) -> Column:
        """Its column: in CSV the mean, lowest and highest over seeds."""
        return Column(key=self.key, header=self.header, parts=RANGE)


ROC_AUC = Figure(key="roc_auc", place="rank.roc_auc", header=words("ROC-AUC"), best=max)
PAUC_1 = Figure(key="pauc_1", place="rank.pauc_1", header=words("pAUC@1%"), best=max)
WINDOWS = Figure(key="p_full", place="windows.p_full", header=P_FULL, best=max)
DRIFT = Figure(key="d_drift", place="drift.d_drift", header=D_DRIFT, written=powers)
ROBUST = Figure(
    key="d_drift_robust",
    place="drift.d_drift_robust",
    header=D_DRIFT + words(" (rob.)"),
    written=powers,
)
COMPACT = Figure(key="compactness", place="compactness.compactness", header=COMPACTNESS)
MEDIAN = Figure(
    key="median_d_full",
    place="windows.median_d_full",
    header=D_FULL,
    written=powers,
)
SUPPLEMENT = (
    Figure(key="average_precision", place="rank.average_precision", header=words("AP")),
    Figure(key="pauc_5", place="rank.pauc_5", header=words("pAUC@5%")),
    Figure(key="f1", place="probe.f1", header=words("F1@p99")),
    Figure(key="precision", place="probe.precision", header=words("Prec.")),
    Figure(key="recall", place="probe.recall", header=words("Rec.")),
    Figure(
        key="false_positive_segments",
        place="probe.false_positive_segments",
        header=words("FP-seg"),
        written=whole,
    ),
    Figure(key="hits", place="probe.hits", header=words("Hits"), written=whole),
    Figure(
        key="max_z",
        place="quality.max_z",
        header=Phrase("max-z", "max-$z$"),
        written=compact,
    ),
    Figure(
        key="excess_kurtosis",
        place="quality.excess_kurtosis",
        header=words("kurt."),
        written=compact,
    ),
)
# Figures that may have a 95 % interval and a chance floor, told in CSV alone.
_UNCERTAIN = ("average_precision", "pauc_5", "f1", "precision", "recall", "hits")
_ALSO_UNCERTAIN = ("roc_auc", "pauc_1", "p_full", "median_d_full")


def testbed_table(study: Study) -> PaperTable:
    """Return how long each test is, how much of it attack, and how many segments."""
    groups = []
    for testbed in study.testbeds:
        streams = [r.evaluation.stream for p in study.on(testbed) for r in p.seeds]
        rates = [s.n_attack / max(s.n_test - s.n_ignored, 1) for s in streams]
        groups.append(
            (
                text_cell(testbed, study.testbed_title(testbed)),
                _between([s.n_test for s in streams], thousands),
                _between(rates, percent),
                _between([s.n_segments for s in streams], whole),
            )
        )
    return PaperTable(
        name="testbeds",
        caption=words(
            "Testbeds. Test length and the number of processed attack segments vary "
            "with each detector's resolution and windows; ranges are over detectors. "
            "The attack rate is the share of labelled test rows."
        ),
        columns=(
            Column(key="testbed", header=words("Testbed"), align="l"),
            Column(key="n_test", header=words("Test length"), parts=("low", "high")),
            Column(
                key="attack_rate", header=words("Attack rate"), parts=("low", "high")
            ),
            Column(
                key="n_segments",
                header=words("Processed seg."),
                parts=("low", "high"),
            ),
        ),
        groups=(Group(name="", title="", rows=tuple(groups)),),
        grouped_by=None,
        wide=False,
    )


def detector_table(study: Study) -> PaperTable:
    """Return what each detector is, and the dimension of its residuals."""
    rows = []
    for name in study.detectors:
        pairs = [study.pair(testbed, name) for testbed in study.testbeds]
        card = study.card(name)
        spaces = sorted({str(p.space) for p in pairs if p is not None and p.space})
        kind = None if card is None else card.kind
        dimensions = [None if p is None else p.first.stream.p for p in pairs]
        rows.append(
            (
                text_cell(name, study.detector_title(name)),
                Cell(NOT_KNOWN if kind is None else words(kind), (kind,)),
                Cell(
                    words(", ".join(spaces)) if spaces else NOT_KNOWN,
                    (", ".join(spaces) or None,),
                ),
                Cell(joined(map(whole, dimensions), " / "), tuple(dimensions)),
            )
        )
    plants = joined((words(study.testbed_title(t)) for t in study.testbeds), " / ")
    return PaperTable(
        name="detectors",
        caption=words("Detectors, paradigms, and residual spaces. ")
        + Phrase("p", "$p$")
        + words(" is the residual dimension on ")
        + plants
        + words("."),
        columns=(
            DETECTOR,
            Column(key="paradigm", header=words("Paradigm"), align="l"),
            Column(key="space", header=words("Residual space"), align="l"),
            Column(
                key="p",
                header=Phrase("p", "$p$"),
                align="c",
                parts=tuple(study.testbeds),
            ),
        ),
        groups=(Group(name="", title="", rows=tuple(rows)),),
        grouped_by=None,
        wide=False,
    )


def main_table(study: Study) -> PaperTable:
    """Return the paper's main table: one row for each detector on each testbed."""
    groups = []
    for testbed in study.testbeds:
        pairs = study.on(testbed)
        bold = {f.key: _best(f, pairs) for f in (ROC_AUC, PAUC_1, WINDOWS)}
        bold["compactness"] = _distinct(pairs)
        rows = tuple(_main_row(study, pair, bold) for pair in pairs)
        groups.append(
            Group(name=testbed, title=study.testbed_title(testbed), rows=rows)
        )
    drift = DRIFT.column
    if not study.has_seeds:  # one column as in the paper, its companion in brackets
        drift = Column(key="d_drift", header=ROBUST.header, parts=RANGE)
    return PaperTable(
        name="main",
        caption=words(
            "Main detector-level Stage-1 summary. Each column answers a different "
            "question about residual evidence before any alarm rule. "
        )
        + DAGGER
        + words(" marks rows whose mean drift extreme residuals dominate.")
        + seeds_told(study),
        columns=(
            DETECTOR,
            *(figure.column for figure in (ROC_AUC, PAUC_1, WINDOWS)),
            drift,
            Column(
                key="d_drift_robust",
                header=ROBUST.header,
                parts=RANGE,
                shown=study.has_seeds,
            ),
            Column(key="mean_dominated", shown=False),
            *(figure.column for figure in (COMPACT, MEDIAN)),
            N_SEEDS,
        ),
        groups=tuple(groups),
        notes=(
            words(
                "Bold: the best of a testbed; of p_eff/p, which is no mark, a value "
                "less than half of any other."
            ),
        ),
    )


def supplementary_table(study: Study) -> PaperTable:
    """Return the paper's supplementary table; in CSV with intervals and floors."""
    uncertain = (*_ALSO_UNCERTAIN, *_UNCERTAIN)
    groups = []
    for testbed in study.testbeds:
        rows = []
        for pair in study.on(testbed):
            cells = [text_cell(pair.detector, study.detector_title(pair.detector))]
            cells += [figure_cell(pair, figure) for figure in SUPPLEMENT]
            cells += [_uncertainty(pair, name) for name in uncertain]
            rows.append((*cells, Cell(whole(0), (len(pair.seeds),))))
        groups.append(
            Group(name=testbed, title=study.testbed_title(testbed), rows=tuple(rows))
        )
    return PaperTable(
        name="supplementary",
        caption=words(
            "Supplementary within-detector metrics. AP and pAUC@5% are computed from "
            "residual energy. F1@p99, precision and recall are at the 99th percentile "
            "of train energy, point by point. FP-seg counts runs of false alarms, Hits "
            "the attack segments with at least one alarm. max-z and excess kurtosis "
            "are of whitened train residuals."
        )
        + seeds_told(study),
        columns=(
            DETECTOR,
            *(figure.column for figure in SUPPLEMENT),
            *(
                Column(
                    key=name,
                    parts=("interval_low", "interval_high", "floor"),
                    shown=False,
                )
                for name in uncertain
            ),
            N_SEEDS,
        ),
        groups=tuple(groups),
    )


def figure_cell(
    pair: Pair, figure: Figure, *, bold: bool = False, mark: Phrase = NOTHING
) -> Cell:
    """Return a figure of a pair: its mean, and in brackets its range over seeds.

    The range is left out where seeds do not differ in what is printed.
    """
    spread = pair.spread(figure.place)
    if spread is None:
        return Cell(NOT_KNOWN, (None, None, None))
    how = figure.written
    middle = how(spread.mean).bold() if bold else how(spread.mean)
    shown = ranged(middle + mark, how(spread.low), how(spread.high))
    return Cell(shown, range_of(spread))


def range_of(spread: Spread | None) -> tuple[float | None, ...]:
    """Return mean, lowest and highest."""
    if spread is None:
        return (None, None, None)
    return (spread.mean, spread.low, spread.high)


def seeds_told(study: Study) -> Phrase:
    """Return what the brackets are, where some pair has several seeds."""
    if not study.has_seeds:
        return words("")
    counts = sorted({len(pair.seeds) for pair in study.pairs})
    n = span(whole(counts[0]), whole(counts[-1]))
    return (
        words(" Figures are means over seeds (")
        + n
        + words(
            " for each detector and testbed); brackets give the lowest and the highest "
            "where they differ in the printed digits."
        )
    )


def _main_row(study: Study, pair: Pair, bold: dict[str, set[str]]) -> tuple[Cell, ...]:
    def cell(figure: Figure) -> Cell:
        is_best = pair.detector in bold.get(figure.key, ())
        return figure_cell(pair, figure, bold=is_best)

    dagger = pair.is_mean_dominated
    mark = DAGGER if dagger else NOTHING
    robust = cell(ROBUST)
    # Without seeds the robust companion stands in brackets, as in the paper.
    if not study.has_seeds:
        mark = words(" (") + robust.shown + words(")") + mark
    drift = figure_cell(pair, DRIFT, mark=mark)
    return (
        text_cell(pair.detector, study.detector_title(pair.detector)),
        *(cell(figure) for figure in (ROC_AUC, PAUC_1, WINDOWS)),
        drift,
        robust,
        Cell(words(""), (dagger,)),
        *(cell(figure) for figure in (COMPACT, MEDIAN)),
        Cell(words(""), (len(pair.seeds),)),
    )


def _best(figure: Figure, pairs: Sequence[Pair]) -> set[str]:
    means = {pair.detector: pair.mean(figure.place) for pair in pairs}
    known = {name: mean for name, mean in means.items() if mean is not None}
    if figure.best is None or len(known) < 2:  # alone, nobody is best
        return set()
    best = figure.best(list(known.values()))
    return {name for name, mean in known.items() if mean == best}


def _distinct(pairs: Sequence[Pair]) -> set[str]:
    """Return whose compactness is less than half of everyone else's."""
    means = [(pair.mean(COMPACT.place), pair.detector) for pair in pairs]
    known = sorted((mean, name) for mean, name in means if mean is not None)
    if len(known) < 2 or known[0][0] >= DISTINCT_COMPACTNESS * known[1][0]:
        return set()
    return {known[0][1]}


def _between(values: Sequence[float], how: Callable[[float], Phrase]) -> Cell:
    low, high = min(values), max(values)
    return Cell(span(how(low), how(high)), (low, high))


def _uncertainty(pair: Pair, name: str) -> Cell:
    """Return the widest 95 % interval of any seed, and the highest chance floor."""
    intervals, floors = [], []
    for result in pair.seeds:
        interval = (result.evaluation.intervals or {}).get(name)
        floor = (result.evaluation.floor or {}).get(name)
        if interval is not None:
            intervals.append(interval)
        if floor is not None:
            floors.append(floor["value"])
    low = min((i[0] for i in intervals), default=None)
    high = max((i[1] for i in intervals), default=None)
    return Cell(words(""), (low, high, max(floors, default=None)))
