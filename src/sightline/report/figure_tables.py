"""Tables of figures: the paper's, those under published names, and comparisons.

Each figure stands beside its interval and its chance floor. Of published figures the
page has one table for each set of alarms or score: a row for each figure, a column for
each detector. Figures that no detector has above its floor come last. Point-adjusted
and affiliation figures are high by chance, and stay out without a floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline import text
from sightline.comparison import compare
from sightline.comparison.differences import Difference
from sightline.comparison.runs import TestbedRuns, group_runs
from sightline.evaluation.localisation import AttackLocalisation, Method, Moment
from sightline.evaluation.protocol import SWITCHES, Protocol
from sightline.evaluation.result import Evaluation, Interval
from sightline.figures import FIGURES, Figure, FigureEntry, published
from sightline.metrics.alarm_figures import AlarmFigure
from sightline.report.charts import JsonObject
from sightline.report.entries import (
    Entry,
)

# Whose alarms or score, in the order of the page.
ALARM_SOURCES = {
    "own_rule": "Alarms of the detector's own rule",
    "probe": "Alarms of the p99 rule",
}
SCORE_SOURCES = {
    "score": "The detector's own score",
    "energy": "Energy (deviation score)",
}
SOURCES = ALARM_SOURCES | SCORE_SOURCES
# By which a target counts as localised at a glance.
GLANCE_MOMENT = Moment.FIRST_ALARM


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """One figure of all detectors.

    Parameters
    ----------
    entry : FigureEntry
        Which figure.
    definition : str
        The definition that the results follow.
    figures : tuple of AlarmFigure, optional
        One for each detector of the table; None where it is undefined, or has no floor
        though it needs one.
    """

    entry: FigureEntry
    definition: str
    figures: tuple[AlarmFigure | None, ...]

    @property
    def is_other(self) -> bool:
        """Whether results follow another definition than the glossary states."""
        return self.entry.definition != self.definition

    @property
    def is_below(self) -> bool:
        """Whether no detector is better than chance, though it was measured."""
        floors = [one.floor for one in self.figures if one and one.floor]
        return bool(floors) and not any(floor.above_floor for floor in floors)


@dataclass(frozen=True, kw_only=True)
class FigureTable:
    """The figures of one set of alarms or score, for all detectors that have it.

    Parameters
    ----------
    source, title : str
        Key in ``alarm_metrics``, and what it is called.
    detectors : tuple of str
        Columns.
    rows : tuple of FigureRow
        Those above chance for a detector first.
    """

    source: str
    title: str
    detectors: tuple[str, ...]
    rows: tuple[FigureRow, ...]


def published_tables(entries: Sequence[Entry]) -> list[FigureTable]:
    """Return the tables of one testbed; none if no entry has such figures."""
    present = {s for e in entries for s in e.evaluation.alarm_metrics or {}}
    # Rules made for a budget stand between the other alarms and the scores.
    order = [*ALARM_SOURCES, *sorted(present - set(SOURCES)), *SCORE_SOURCES]
    return [_published_table(source, entries) for source in order if source in present]


def _published_table(source: str, entries: Sequence[Entry]) -> FigureTable:
    """Return the figures of one source; those below chance come last."""
    known = {e.label: (e.evaluation.alarm_metrics or {}).get(source) for e in entries}
    blocks = {label: block for label, block in known.items() if block}
    rows = []
    for entry in published():
        figures = [block.get(entry.key) for block in blocks.values()]
        definition = next((one.definition for one in figures if one), "")
        shown = tuple(one if entry.can_show(one) else None for one in figures)
        if any(shown):
            rows.append(FigureRow(entry=entry, definition=definition, figures=shown))
    # A rule made for a budget is judged on later rows.
    name = source.partition(":")[2]
    made = f"Alarms of the rule made for the budget ({name}), on later rows"
    return FigureTable(
        source=source,
        title=SOURCES.get(source, made),
        detectors=tuple(blocks),
        rows=tuple(sorted(rows, key=lambda row: row.is_below)),
    )


@dataclass(frozen=True, kw_only=True)
class LocalisedCell:
    """How often the evidence points at the attacked tag, at a glance.

    Parameters
    ----------
    text : str
        Attacks of which a target is among the first three channels, of all judged.
    chance : str
        The share by chance; empty if it was not measured.
    is_above : bool
        Whether it is better than chance, or that was not measured.
    """

    text: str
    chance: str
    is_above: bool


def localised(evaluation: Evaluation) -> LocalisedCell | None:
    """Return the cell at a glance; None if no attack with an alarm has a known target.

    By the conditional deviation, at the first alarm of the p99 rule.
    """
    found = evaluation.localisation
    figures = (found.figures if found else {}).get(Method.CONDITIONAL, {})
    figure = figures.get(GLANCE_MOMENT)
    if figure is None:
        return None
    hit, n = figure.hit_3, figure.n_attacks
    return LocalisedCell(
        text=f"{round(hit.value * n)} of {n}",
        chance=f"chance {text.mean_count(hit.floor.value * n)}" if hit.floor else "",
        is_above=hit.floor is None or hit.floor.above_floor,
    )


def localisation_of(entry: Entry, segment_id: str) -> JsonObject | None:
    """Return what the page draws of where one attack's evidence points.

    Returns
    -------
    mapping, optional
        ``sentence``, and ``moments``: the label of each moment and its channels with
        ``share`` and ``is_target``. None if the attack has no known target.
    """
    found = entry.evaluation.localisation
    attacks = found.attacks if found else ()
    attack = next((one for one in attacks if one.id == segment_id), None)
    if found is None or attack is None:
        return None
    labels = {Moment.FIRST_ALARM: "at the first alarm", Moment.ATTACK: "in the attack"}
    return {
        "sentence": _rank_sentence(attack, found.n_channels),
        "moments": [
            {
                "label": label,
                "channels": [
                    {
                        "channel": one.channel,
                        "share": one.share,
                        "is_target": one.channel in attack.targets,
                    }
                    for one in attack.leading.get(moment, ())
                ],
            }
            for moment, label in labels.items()
            if attack.leading.get(moment)
        ],
    }


def _rank_sentence(attack: AttackLocalisation, n_channels: int) -> str:
    """Return the ranks of the best-ranked target, by method."""
    named = {
        Method.CONDITIONAL: "by what other tags do not explain",
        Method.CONTRIBUTION: "by contribution",
        Method.ACCUMULATED: "accumulated with sign",
        Method.OWN: "by the detector's own attribution",
    }
    parts = []
    for method, label in named.items():
        ranks = attack.ranks.get(method, {})
        first, whole = ranks.get(Moment.FIRST_ALARM), ranks.get(Moment.ATTACK)
        if whole is not None:
            at_alarm = "" if first is None else f"{first:g} at the first alarm, "
            parts.append(f"{label} {at_alarm}{whole:g} in the attack")
    one = "The target" if len(attack.targets) == 1 else "The best-ranked target"
    return f"{one} has rank, of {n_channels} tags: {'; '.join(parts)}." if parts else ""


# Figures whose differences the page shows for all pairs.
DIFFERENCE_FIGURES = (
    Figure.ROC_AUC,
    Figure.PAUC_1,
    Figure.MEAN_SEGMENT_AUC,
    Figure.P_FULL,
    Figure.RECALL,
)
# Columns of the paper's main table.
PAPER_COLUMNS = (
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


@dataclass(frozen=True, kw_only=True)
class PaperCell:
    """One figure of a detector: its value, and how far it can be trusted.

    Parameters
    ----------
    figure : FigureEntry
        Which figure.
    value : float, optional
        Of the first seed; None if undefined.
    text : str
        The value as printed, with a dagger if extreme points dominate it.
    interval, floor, seeds : str
        The 95% interval, the chance level, and mean and range over seeds; empty if
        not computed, or with a single seed.
    is_above_floor : bool, optional
        Whether the value is better than chance; None if that was not tested.
    """

    figure: FigureEntry
    value: float | None
    text: str
    interval: str
    floor: str
    is_above_floor: bool | None
    seeds: str


@dataclass(frozen=True, kw_only=True)
class AgreementTable:
    """Rank correlation of D_FULL between detectors.

    Parameters
    ----------
    detectors : tuple of str
        Labels, in the order of rows and columns.
    rho : list of list of float or None
        Symmetric, from -1 to 1, with 1 on the diagonal; None where undefined.
    shared : list of list of int
        Number of attacks that two detectors share.
    """

    detectors: tuple[str, ...]
    rho: list[list[float | None]]
    shared: list[list[int]]


def differences(
    comparison: compare.Comparison, testbed: str
) -> list[tuple[Figure, list[Difference]]]:
    """Return the differences of a testbed's detectors, figure by figure."""
    tables = [
        (
            figure,
            [
                row
                for row in comparison.differences
                if (row.testbed, row.figure) == (testbed, figure)
            ],
        )
        for figure in DIFFERENCE_FIGURES
    ]
    return [(figure, rows) for figure, rows in tables if rows]


def not_compared(comparison: compare.Comparison) -> list[str]:
    """Return the notices on pairs that are not compared, and on joined attacks."""
    words = ("not compared are", "count as one")
    return [n for n in comparison.notices if any(word in n for word in words)]


def paper_table(
    entries: Sequence[Entry], comparison: compare.Comparison | None = None
) -> list[tuple[Entry, list[PaperCell]]]:
    """Return each entry with its cells of the paper's main table.

    Returns
    -------
    list of (Entry, list of PaperCell)
        The cells are in the order of `PAPER_COLUMNS`.
    """
    ranges = {
        (row.testbed, row.detector, row.figure): row.interval
        for row in (comparison.figures if comparison else ())
    }
    return [
        (
            entry,
            [
                _paper_cell(
                    entry, figure, ranges.get((entry.testbed, entry.label, figure))
                )
                for figure in PAPER_COLUMNS
            ],
        )
        for entry in entries
    ]


def _paper_cell(entry: Entry, figure: Figure, over_seeds: Interval | None) -> PaperCell:
    """Return a figure of the first seed, and how far it can be trusted."""
    evaluation, known = entry.evaluation, FIGURES[figure]
    value, floor = known.of(evaluation), known.floor(evaluation)
    marked = figure == Figure.D_DRIFT and evaluation.drift.mean_dominated
    seeds = ""
    if len(entry.results) > 1 and (spread := entry.spread(figure)):
        mean, low, high = map(known.text, (spread.mean, spread.low, spread.high))
        seeds = f"mean {mean}, {low} to {high}"
        if over_seeds is not None:
            seeds += f"; 95% interval {known.range_text(over_seeds)}"
    return PaperCell(
        figure=known,
        value=value,
        text=known.text(value) + (text.DAGGER if marked else ""),
        interval=known.range_text(known.interval(evaluation)),
        floor=f"chance {known.text(floor.value)}" if floor else "",
        is_above_floor=None if floor is None else floor.above_floor,
        seeds=seeds,
    )


def with_two_limits(entries: Sequence[Entry]) -> list[Entry]:
    """Return the detectors whose p99 rule was also judged with a limit in hindsight.

    Entries without attacks, and results that do not know the second limit, are left
    out.
    """
    return [entry for entry in entries if entry.evaluation.drift_cost is not None]


def protocol_note(entries: Sequence[Entry]) -> str:
    """Return which detectors were evaluated to the letter of the paper; or nothing."""
    letter = [e.label for e in entries if e.protocol is Protocol.PAPER]
    if not letter:
        return ""
    who = "All figures" if len(letter) == len(entries) else text.names(letter)
    return f"{who}: to the letter of the paper. {' '.join(SWITCHES)}"


def agreement_table(entries: Sequence[Entry]) -> AgreementTable | None:
    """Return the agreement of the detectors of one testbed.

    Parameters
    ----------
    entries : sequence of Entry
        All entries of one testbed. Those without attacks are left out.

    Returns
    -------
    AgreementTable, optional
        With the values of `sightline.comparison.compare`, which are also those of
        `sightline compare` and of the paper's tables. None with fewer than two
        detectors.
    """
    attacked = tuple(entry for entry in entries if entry.evaluation.segments)
    if len(attacked) < 2:
        return None
    labels = tuple(entry.label for entry in attacked)
    rho: list[list[float | None]] = [[None] * len(attacked) for _ in attacked]
    shared = [[0] * len(attacked) for _ in attacked]
    for i, entry in enumerate(attacked):
        rho[i][i], shared[i][i] = 1.0, len(entry.evaluation.segments)
    for pair in compare.agreements(TestbedRuns(attacked[0].testbed, attacked)):
        i, j = (labels.index(label) for label in pair.detectors)
        rho[i][j] = rho[j][i] = pair.rho
        shared[i][j] = shared[j][i] = pair.n_matched
    return AgreementTable(detectors=labels, rho=rho, shared=shared)


def transfer(entries: Sequence[Entry]) -> list[compare.Transfer]:
    """Return how rankings of detectors transfer from one testbed to another.

    Returns
    -------
    list of Transfer
        For each figure and each two testbeds that share at least two detectors.
    """
    results = [result for entry in entries for result in entry.results]
    rows = compare.ranking_transfer(compare.seeded_figures(group_runs(results)))
    return [row for row in rows if row.correlation.n >= 2]
