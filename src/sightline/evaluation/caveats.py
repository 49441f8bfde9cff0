"""What a reader of the figures must know, in sentences."""

from collections.abc import Iterator

from sightline.evaluation.result import Evaluation
from sightline.evaluation.uncertainty import figures
from sightline.text import names

_IN_WORDS = {
    "roc_auc": "ROC-AUC",
    "pauc_1": "pAUC at 1%",
    "mean_segment_auc": "AUC per attack",
    "p_full": "P_FULL",
    "f1": "F1",
    "hits": "attacks alarmed",
}


def remarks(evaluation: Evaluation) -> list[str]:
    """Return the sentences; none where there is nothing to watch out for."""
    return [
        *_about_input(evaluation),
        *_about_alarms(evaluation),
        *_about_drift(evaluation),
        *_about_channels(evaluation),
        *_about_attacks(evaluation),
    ]


def _about_input(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.stream.n_segments == 0:
        yield (
            "No test row is labelled an attack: what needs one (ranking, precision, "
            "recall) is left empty; drift, quality and false alarms are measured."
        )
    if any(evaluation.dropped_rows.values()):
        lost = evaluation.dropped_rows.items()
        rows = ", ".join(f"{n:,} of {where}" for where, n in lost if n)
        yield (
            f"Rows with non-finite residuals were dropped: {rows}; row numbers "
            "below count the rows that are left."
        )
    if evaluation.stream.step_s is None:
        yield (
            "Seconds a row are not known, so nothing is given per day: add time "
            "stamps or step_s."
        )


def _about_alarms(evaluation: Evaluation) -> Iterator[str]:
    probe, own = evaluation.probe, evaluation.own_rule
    if probe.over_alarming:
        yield (
            f"Over-alarming: {probe.false_alarm_rate:.0%} of normal test time is above "
            "the train p99 limit, so an alarm there says little."
        )
    if own is not None and own.over_alarming:
        yield (
            f"Your own rule is in alarm {own.false_alarm_rate:.0%} of normal test time."
        )


def _about_drift(evaluation: Evaluation) -> Iterator[str]:
    drift, quality = evaluation.drift, evaluation.quality
    if drift.mean_dominated:
        yield (
            "The mean drift is the work of a few extreme points (largest whitened "
            f"residual {quality.max_z_test_normal:.3g}): read the median instead."
        )
    if drift.d_gap is None:
        yield (
            "Drift holds both what the detector fits too well and what the plant "
            "changed; a calibration block would split the two."
        )


def _about_channels(evaluation: Evaluation) -> Iterator[str]:
    quality, rank = evaluation.quality, evaluation.rank
    if quality.one_sided_channels:
        yield (
            f"Never negative, so probably absolute errors or scores: "
            f"{names(quality.one_sided_channels, 6, quoted=True)}. Energy counts a low "
            "value as odd too; give signed residuals if you can."
        )
        if rank.raw_roc_auc is not None:
            yield f"Ranked by the raw value instead, ROC-AUC is {rank.raw_roc_auc:.1%}."
    if quality.scale_blind_channels:
        yield (
            f"Spread so little beside the others that they hardly count: "
            f"{names(quality.scale_blind_channels, 6, quoted=True)}."
        )
        if evaluation.reference.standardised_roc_auc is not None:
            yield (
                "In units of each channel's own spread ROC-AUC is "
                f"{evaluation.reference.standardised_roc_auc:.1%}."
            )
    if quality.constant_channels:
        yield f"Constant in train: {names(quality.constant_channels, 6, quoted=True)}."


def _about_attacks(evaluation: Evaluation) -> Iterator[str]:
    n_segments = evaluation.stream.n_segments
    at_chance = [
        f"{_IN_WORDS[name]} ({_figure(name, evaluation)}; chance "
        f"{_rounded(name, floor.value)})"
        for name, floor in (evaluation.floor or {}).items()
        if name in _IN_WORDS and floor is not None and not floor.above_floor
    ]
    if at_chance:
        yield (
            f"Not above what labels moved at random would give: {', '.join(at_chance)}."
        )
    if n_segments and evaluation.bootstrap and evaluation.bootstrap.few_events:
        yield (
            "One attack only: no interval can be given for what depends on attacks."
            if n_segments == 1
            else "Fewer than ten attacks: the intervals are wide and only "
            "roughly right."
        )
    if evaluation.windows.n_unmatched_segments:
        yield (
            "Longer than any attack-free stretch, so without normal windows to compare "
            f"with: {evaluation.windows.n_unmatched_segments} of {n_segments} attacks."
        )
    share = evaluation.rank.largest_segment_share
    if share is not None and share > 0.5 and n_segments > 1:
        yield (
            f"One attack holds {share:.0%} of all attack steps and dominates the "
            "pooled ranking; see the column where each attack weighs alike."
        )


def _figure(name: str, evaluation: Evaluation) -> str:
    return _rounded(name, figures(evaluation)[name] or 0.0)


def _rounded(name: str, value: float) -> str:
    return f"{value:.3g}" if name == "hits" else f"{value:.3f}"
