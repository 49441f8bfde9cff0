"""Remarks: what a reader of the figures must know, in sentences."""

from collections.abc import Container, Iterator

from sightline.audit.protocol import DOMINANT_SHARE, LEAST_MOVE, moved_by_units
from sightline.data.stream import REFERENCE_KEY
from sightline.evaluation.result import (
    HINDSIGHT,
    SWITCHES,
    Protocol,
    StreamMeasures,
    Uncertainty,
)
from sightline.figures import FIGURES, Figure, FigureStyle
from sightline.metrics import intervals
from sightline.metrics.chance import FLOOR_SHARE
from sightline.text import as_labelled, names, share

# More channels than this are counted, not listed.
MOST_NAMES = 6
# Figures that are named if they are not shown to be better than chance.
_AT_CHANCE = (
    Figure.ROC_AUC,
    Figure.PAUC_1,
    Figure.MEAN_SEGMENT_AUC,
    Figure.P_FULL,
    Figure.F1,
)


def remarks(
    measures: StreamMeasures, uncertainty: Uncertainty, meta: Container[str] = ()
) -> list[str]:
    """Return sentences on what limits the figures; empty if nothing does.

    Parameters
    ----------
    measures : StreamMeasures
        What was measured on the stream.
    uncertainty : Uncertainty
        Intervals and floors of the same figures.
    meta : container of str
        What is known of the stream: `REFERENCE_KEY` where it has no training data.
    """
    said = [
        *_on_input(measures),
        *_on_alarms(measures, REFERENCE_KEY not in meta),
        *_on_channels(measures),
        *_on_chance(measures, uncertainty),
        *_on_largest(measures),
        *_on_attacks(measures),
    ]
    return [as_labelled(one, measures.stream.labels) for one in said]


def _on_input(measures: StreamMeasures) -> Iterator[str]:
    """Yield remarks on protocol, labels, dropped rows and the time step."""
    if measures.protocol is Protocol.PAPER:
        yield f"Protocol paper, to the letter of the paper: {' '.join(SWITCHES)}"
    if measures.stream.n_segments == 0:
        yield (
            "No test row is labelled an attack: figures that need one (ranking, "
            "precision, recall) are empty; drift, quality and alarms are measured. "
            "Whether an alarm is false is not known."
        )
    lost = [f"{n:,} of {part}" for part, n in measures.dropped_rows.items() if n]
    if lost:
        yield (
            f"Rows with non-finite residuals were dropped: {', '.join(lost)}. Row "
            "numbers count the remaining rows."
        )
    if measures.stream.step_s is None:
        yield (
            "The time step is not known, so no figure per day is given: add time "
            "stamps or step_s."
        )


def _on_alarms(measures: StreamMeasures, has_train: bool) -> Iterator[str]:
    """Yield remarks on rules in alarm too often, and on what the drift is and costs."""
    probe, own = measures.probe, measures.own_rule
    time = as_labelled("attack-free time", measures.stream.labels)
    if probe.over_alarming:
        yield (
            "Over-alarming: the p99 rule is in alarm for "
            f"{share(probe.time_in_alarm, 1)} of {time} (whole test)"
            + (
                "."
                if probe.attacks and probe.attacks.beats_chance
                else ", so a single alarm says little."
            )
        )
    if own is not None and own.over_alarming:
        yield (
            f"Your own rule is in alarm for {share(own.time_in_alarm, 1)} of {time} "
            "(whole test)."
        )
    if measures.drift.mean_dominated:
        yield (
            "A few extreme points dominate the mean drift (largest whitened residual "
            f"{measures.quality.max_z_test_normal:.3g}): read the median instead."
        )
    if measures.drift.d_gap is None and has_train:
        yield (
            "Drift mixes two causes: the detector fits its training data too well, and "
            "the plant has changed. Calibration residuals would separate them."
        )
    cost, hindsight = measures.drift_cost, measures.probe_test_calibrated
    if cost is not None and hindsight is not None and abs(cost) >= LEAST_MOVE:
        yield (
            f"Drift {'costs' if cost > 0 else 'gains'} {abs(cost):.3f} of F1: "
            f"{measures.probe.f1:.3f} with the limit from train, {hindsight.f1:.3f} "
            f"with the {HINDSIGHT}."
        )


def _on_channels(measures: StreamMeasures) -> Iterator[str]:
    """Yield remarks on one-sided, too small or constant channels, and on units."""
    quality, two_sided = measures.quality, measures.two_sided
    if two_sided is not None:
        yield (
            "Judged one-sided, as a score: only high values of the single channel "
            "count as anomalous, in all figures. Give one_sided=False if low values "
            "are anomalous too"
            + (
                "."
                if two_sided.roc_auc is None
                else f"; ROC-AUC is then {share(two_sided.roc_auc, 1)}."
            )
        )
    elif quality.one_sided_channels:
        yield (
            "Never negative, probably absolute errors or scores: "
            f"{names(quality.one_sided_channels, MOST_NAMES, quoted=True)}. Energy "
            "also counts unusually low values as anomalies: give signed residuals if "
            "you can."
        )
    if quality.scale_blind_channels:
        yield (
            "Spread too small, compared with the other channels, to count: "
            f"{names(quality.scale_blind_channels, MOST_NAMES, quoted=True)}."
        )
    if quality.constant_channels:
        constant = names(quality.constant_channels, MOST_NAMES, quoted=True)
        yield f"Constant in train: {constant}."
    if moved := moved_by_units(measures):
        yield (
            "Units decide: with each channel in units of its own spread you would get "
            f"{names(moved)}."
        )


def _on_chance(measures: StreamMeasures, uncertainty: Uncertainty) -> Iterator[str]:
    """Yield remarks on figures at chance, and on intervals from few attacks."""
    at_chance = []
    for entry in (FIGURES[figure] for figure in _AT_CHANCE):
        floor = entry.floor(uncertainty)
        if floor is not None and not floor.above_floor:
            form = ".3g" if entry.style is FigureStyle.COUNT else ".3f"
            value = f"{entry.of(measures) or 0.0:{form}}"
            p = "" if floor.p is None else f", p {floor.p:.2g}"
            at_chance.append(
                f"{entry.spoken} ({value}; chance {floor.value:{form}}{p})"
            )
    if at_chance:
        yield (
            "Not shown to be better than chance (attack-free windows in their place, "
            f"p above {FLOOR_SHARE:g}): {', '.join(at_chance)}."
        )
    n_segments, drawn = measures.stream.n_segments, uncertainty.bootstrap
    if n_segments and drawn is not None and drawn.few_events:
        effective = drawn.effective_attacks
        if n_segments == 1:
            yield "Only one attack: intervals only exclude what it contradicts."
        elif n_segments < intervals.FEW_EVENTS or effective is None:
            yield f"Fewer than {intervals.FEW_EVENTS} attacks: intervals are wide."
        else:
            largest = share(measures.rank.largest_segment_share)
            yield (
                f"{n_segments} attacks weigh like {effective.rows:.1f} in pooled "
                f"figures: one holds {largest} of the rows."
            )


def _on_largest(measures: StreamMeasures) -> Iterator[str]:
    """Yield how the score `largest` ranks attack rows, beside the energy."""
    figures = (
        (one.roc_auc, one.pauc_1) for one in (measures.largest, measures.rank) if one
    )
    texts = [
        f"{roc:.3f} and {pauc:.3f}" for roc, pauc in figures if roc and pauc is not None
    ]
    if measures.largest is not None and len(texts) == 2:
        yield (
            f"Score largest (the oddest tag, in units of its own tail): ROC-AUC and "
            f"pAUC@1% {texts[0]}; of the energy {texts[1]}. Its levels were set on "
            "attack-free rows of the first part of the test."
        )


def _on_attacks(measures: StreamMeasures) -> Iterator[str]:
    """Yield remarks on attacks that are too long to compare, or dominate."""
    n_segments = measures.stream.n_segments
    if measures.windows.n_unmatched_segments:
        yield (
            f"{measures.windows.n_unmatched_segments} of {n_segments} attacks are "
            "longer than any attack-free stretch, so there are no normal windows to "
            "compare them with."
        )
    largest = measures.rank.largest_segment_share
    if largest is not None and largest > DOMINANT_SHARE and n_segments > 1:
        yield (
            f"One attack holds {share(largest)} of all attack rows and dominates the "
            "pooled ranking: read the AUC per attack as well."
        )
