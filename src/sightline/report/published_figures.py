"""Figures under their published names, each beside its chance floor, and localisation.

The page has one table for each set of alarms or score: a row for each figure, a column
for each detector. Figures that no detector has above its floor come last. Point-
adjusted and affiliation figures are high by chance, and stay out without a floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline import text
from sightline.evaluation.localisation import AttackLocalisation, Method, Moment
from sightline.evaluation.result import Evaluation
from sightline.figures import FIGURES, FigureEntry, published
from sightline.metrics.alarm_figures import AlarmFigure
from sightline.report.encoding import JsonObject
from sightline.report.entries import Entry

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
class FigureCell:
    """A figure of one detector.

    Parameters
    ----------
    text : str
        The value as printed; a dash if it is undefined or has no floor.
    value : float, optional
        The same number.
    chance, interval : str
        The chance floor and the 95% interval; empty if there is none.
    is_above : bool, optional
        Whether it is better than chance; None if that was not measured.
    """

    text: str
    value: float | None = None
    chance: str = ""
    interval: str = ""
    is_above: bool | None = None


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """One figure of all detectors.

    Parameters
    ----------
    key, title, definition : str
        Its key in ``evaluation.json``, its name, and the definition that is followed.
    cells : tuple of FigureCell
        One for each detector of the table.
    """

    key: str
    title: str
    definition: str
    cells: tuple[FigureCell, ...]

    @property
    def is_other(self) -> bool:
        """Whether results follow another definition than the glossary states."""
        spec = FIGURES.get(self.key)
        return spec is not None and spec.definition != self.definition

    @property
    def is_below(self) -> bool:
        """Whether no detector is better than chance, though it was measured."""
        measured = [cell.is_above for cell in self.cells if cell.is_above is not None]
        return bool(measured) and not any(measured)


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


def figure_tables(entries: Sequence[Entry]) -> list[FigureTable]:
    """Return the tables of one testbed; none if no entry has such figures."""
    present = {s for e in entries for s in e.evaluation.alarm_metrics or {}}
    # Rules made for a budget stand between the other alarms and the scores.
    order = [*ALARM_SOURCES, *sorted(present - set(SOURCES)), *SCORE_SOURCES]
    names = [name for name in order if name in present]
    return [
        figure_table(
            name, {e.label: e.evaluation for e in entries if _block(e.evaluation, name)}
        )
        for name in names
    ]


def _block(evaluation: Evaluation, source: str) -> dict[str, AlarmFigure]:
    return (evaluation.alarm_metrics or {}).get(source, {})


def figure_table(source: str, evaluations: dict[str, Evaluation]) -> FigureTable:
    """Return the table of one source, for detectors by label."""
    blocks = [_block(evaluation, source) for evaluation in evaluations.values()]
    rows = [
        FigureRow(
            key=key,
            title=spec.name,
            definition=next(b[key].definition for b in blocks if key in b),
            cells=tuple(figure_cell(spec, block.get(key)) for block in blocks),
        )
        for key, spec in ((entry.key, entry) for entry in published())
        if any(key in block for block in blocks)
    ]
    shown = [row for row in rows if any(cell.value is not None for cell in row.cells)]
    return FigureTable(
        source=source,
        title=SOURCES.get(source, _rule_title(source)),
        detectors=tuple(evaluations),
        rows=tuple(sorted(shown, key=lambda row: row.is_below)),
    )


def _rule_title(source: str) -> str:
    """Return the title of a rule made for a budget: it is judged on later rows."""
    name = source.partition(":")[2]
    return f"Alarms of the rule made for the budget ({name}), on later rows"


def figure_cell(spec: FigureEntry, figure: AlarmFigure | None) -> FigureCell:
    """Return one figure as text; a dash without a value or a floor that it needs."""
    if figure is None or figure.value is None:
        return FigureCell(text=text.UNKNOWN)
    if figure.floor is None and spec.needs_floor:
        return FigureCell(text=text.UNKNOWN)
    written = spec.text
    return FigureCell(
        text=written(figure.value),
        value=figure.value,
        chance=f"chance {written(figure.floor.value)}" if figure.floor else "",
        interval=" to ".join(map(written, figure.interval or ())),
        is_above=figure.floor.above_floor if figure.floor else None,
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
