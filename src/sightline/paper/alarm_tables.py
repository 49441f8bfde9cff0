"""Tables of the figures under their published names, and of localisation.

Each figure stands beside its chance floor in brackets. CSV has all figures; print those
that reviewers ask for most.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sightline.comparison.runs import DetectorRuns
from sightline.evaluation.localisation import Method, Moment
from sightline.evaluation.result import Evaluation
from sightline.metrics.alarm_figures import (
    ALARM_FIGURES,
    SCORE_FIGURES,
    AlarmFigure,
    FigureSpec,
)
from sightline.metrics.localisation import LocalisationFigure
from sightline.paper import markup
from sightline.paper.markup import Cell, Column, PaperTable, words
from sightline.paper.study import Study
from sightline.paper.tables import DETECTOR, N_SEEDS, testbed_groups

PARTS = ("", "floor", "interval_low", "interval_high")
_SHOWN = (
    "pa_f1",
    "pak_20_f1",
    "range_f1",
    "etapr_f1",
    "affiliation_f1",
    "event_f1",
    "nab_standard",
    *(spec.key for spec in SCORE_FIGURES),
)
_SOURCES = {
    "own_rule": "own rule",
    "probe": "p99 rule",
    "score": "own score",
    "energy": "energy",
}
_HITS = ("hit_1", "hit_3", "hit_5", "normalised_rank", "stage_hit_1")
_HIT_HEADERS = ("hit@1", "hit@3", "hit@5", "norm. rank", "stage hit@1")
_METHODS = {
    Method.CONTRIBUTION: "contribution",
    Method.CONDITIONAL: "conditional",
    Method.ACCUMULATED: "accumulated",
    Method.OWN: "own",
}
_MOMENTS = {Moment.FIRST_ALARM: "first alarm", Moment.ATTACK: "attack"}


def alarm_table(study: Study) -> PaperTable:
    """Return the alarm metrics of each detector's rules.

    Returns
    -------
    PaperTable
        Grouped by testbed, a row for each rule of each detector. CSV: ``testbed``,
        ``detector``, ``of`` (whose alarms), every key of ``alarm_metrics`` with
        ``_floor``, ``_interval_low`` and ``_interval_high`` (mean over seeds, highest
        floor, widest interval), ``n_seeds``.
    """
    made = {
        source
        for runs in study.runs
        for evaluation in _evaluations(runs)
        for source in evaluation.alarm_metrics or {}
        if source not in _SOURCES
    }
    sources = ("own_rule", "probe", *sorted(made))
    return _figure_table(study, "alarm_metrics", sources, ALARM_FIGURES)


def score_table(study: Study) -> PaperTable:
    """Return the same of the score metrics, of energy and of each own score."""
    return _figure_table(study, "score_metrics", ("score", "energy"), SCORE_FIGURES)


def _figure_table(
    study: Study, name: str, sources: Sequence[str], specs: Sequence[FigureSpec]
) -> PaperTable:
    """Return the figures of some sources, for all detectors that have them."""

    def rows(testbed: str) -> Iterator[tuple[Cell, ...]]:
        for runs in study.on(testbed).detectors:
            for source in sources:
                blocks = [b for e in _evaluations(runs) if (b := _block(e, source))]
                if blocks:
                    yield (
                        _detector_cell(study, runs),
                        markup.text_cell(_SOURCES.get(source, source)),
                        *(
                            _figure_cell(
                                spec, [b[spec.key] for b in blocks if spec.key in b]
                            )
                            for spec in specs
                        ),
                        markup.hidden_cell(len(blocks)),
                    )

    return PaperTable(
        name=name,
        caption=markup.caption(name),
        columns=(
            DETECTOR,
            Column("of", words("Of"), "l"),
            *(
                Column(
                    spec.key,
                    words(spec.title),
                    parts=PARTS,
                    is_shown=spec.key in _SHOWN,
                )
                for spec in specs
            ),
            N_SEEDS,
        ),
        groups=testbed_groups(study, rows),
    )


def localisation_table(study: Study) -> PaperTable:
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

    def rows(testbed: str) -> Iterator[tuple[Cell, ...]]:
        for runs in study.on(testbed).detectors:
            found = [e.localisation for e in _evaluations(runs) if e.localisation]
            for method, called in _METHODS.items():
                for moment, when in _MOMENTS.items():
                    figures = [
                        f
                        for one in found
                        if (f := one.figures.get(method, {}).get(moment))
                    ]
                    if figures:
                        yield (
                            _detector_cell(study, runs),
                            markup.text_cell(called),
                            markup.text_cell(when),
                            markup.number_cell(figures[0].n_attacks, markup.whole),
                            *(
                                _cell([v for f in figures if (v := getattr(f, hit))])
                                for hit in _HITS
                            ),
                            markup.hidden_cell(len(figures)),
                        )

    return PaperTable(
        name="localisation",
        caption=markup.caption("localisation"),
        columns=(
            DETECTOR,
            Column("method", words("By"), "l"),
            Column("moment", words("At"), "l"),
            Column("n_attacks", words("Attacks")),
            *(
                Column(hit, words(header), parts=PARTS)
                for hit, header in zip(_HITS, _HIT_HEADERS, strict=True)
            ),
            N_SEEDS,
        ),
        groups=testbed_groups(study, rows),
    )


def _evaluations(runs: DetectorRuns) -> list[Evaluation]:
    return [result.evaluation for result in runs.results]


def _block(evaluation: Evaluation, source: str) -> dict[str, AlarmFigure]:
    return (evaluation.alarm_metrics or {}).get(source, {})


def _detector_cell(study: Study, runs: DetectorRuns) -> Cell:
    return markup.text_cell(runs.label, study.detector_title(runs.label))


def _figure_cell(spec: FigureSpec, figures: Sequence[AlarmFigure]) -> Cell:
    """Return a figure; a dash if it needs a floor and has none."""
    if spec.needs_floor:
        figures = [figure for figure in figures if figure.floor is not None]
    return _cell(figures)


def _cell(figures: Iterable[AlarmFigure | LocalisationFigure]) -> Cell:
    """Return the mean over seeds, with the highest floor in brackets."""
    known = [figure for figure in figures if figure.value is not None]
    if not known:
        return Cell(markup.UNKNOWN, (None,) * len(PARTS))
    value = float(np.mean([f.value for f in known if f.value is not None]))
    floors = [f.floor.value for f in known if f.floor]
    ends = [f.interval for f in known if f.interval]
    floor = max(floors, default=None)
    is_score = abs(value) <= 1 and (floor is None or abs(floor) <= 1)
    how = markup.fixed if is_score else markup.compact
    text = how(value)
    if floor is not None:
        text = text + words(" (") + how(floor) + words(")")
    low = min((end[0] for end in ends), default=None)
    high = max((end[1] for end in ends), default=None)
    return Cell(text, (value, floor, low, high))
