"""What a reader of the figures must know, in sentences."""

from sightline.evaluation import Evaluation
from sightline.intake import some_of
from sightline.uncertainty import figures

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
    told = []
    if evaluation.stream.n_segments == 0:
        told.append(
            "No test row is labelled an attack: what needs one (ranking, precision, "
            "recall) is left empty; drift, quality and false alarms are measured."
        )
    if any(evaluation.dropped_rows.values()):
        lost = evaluation.dropped_rows.items()
        rows = ", ".join(f"{n:,} of {where}" for where, n in lost if n)
        told.append(
            f"Rows with non-finite residuals were dropped: {rows}; row numbers "
            "below count the rows that are left."
        )
    if evaluation.stream.step_s is None:
        told.append(
            "Seconds a row are not known, so nothing is given per day: add time "
            "stamps or step_s."
        )
    quality, probe, drift = evaluation.quality, evaluation.probe, evaluation.drift
    if probe.over_alarming:
        told.append(
            f"Over-alarming: {probe.false_alarm_rate:.0%} of normal test time is above "
            "the train p99 limit, so an alarm there says little."
        )
    if evaluation.own_rule is not None and evaluation.own_rule.over_alarming:
        told.append(
            f"Your own rule is in alarm {evaluation.own_rule.false_alarm_rate:.0%} of "
            "normal test time."
        )
    if drift.mean_dominated:
        told.append(
            "The mean drift is the work of a few extreme points (largest whitened "
            f"residual {quality.max_z_test_normal:.3g}): read the median instead."
        )
    if drift.d_gap is None:
        told.append(
            "Drift holds both what the detector fits too well and what the plant "
            "changed; a calibration block would split the two."
        )
    if quality.one_sided_channels:
        told.append(
            f"Never negative, so probably absolute errors or scores: "
            f"{some_of(quality.one_sided_channels)}. Energy counts a low value as odd "
            "too; give signed residuals if you can."
        )
        if evaluation.rank.raw_roc_auc is not None:
            told.append(
                f"Ranked by the raw value instead, ROC-AUC is "
                f"{evaluation.rank.raw_roc_auc:.1%}."
            )
    if quality.scale_blind_channels:
        told.append(
            f"Spread so little beside the others that they hardly count: "
            f"{some_of(quality.scale_blind_channels)}."
        )
        if evaluation.reference.standardised_roc_auc is not None:
            told.append(
                "In units of each channel's own spread ROC-AUC is "
                f"{evaluation.reference.standardised_roc_auc:.1%}."
            )
    if quality.constant_channels:
        told.append(f"Constant in train: {some_of(quality.constant_channels)}.")
    at_chance = [
        f"{_IN_WORDS[name]} ({_figure(name, evaluation)}; chance "
        f"{_rounded(name, floor['value'])})"
        for name, floor in (evaluation.floor or {}).items()
        if name in _IN_WORDS and floor is not None and not floor["above_floor"]
    ]
    if at_chance:
        told.append(
            f"Not above what labels moved at random would give: {', '.join(at_chance)}."
        )
    few = evaluation.bootstrap is not None and evaluation.bootstrap["few_events"]
    if few and evaluation.stream.n_segments:
        told.append(
            f"With {evaluation.stream.n_segments} attacks the intervals are wide and "
            "only roughly right."
        )
    unmatched = evaluation.windows.n_unmatched_segments
    if unmatched:
        told.append(
            f"Longer than any attack-free stretch, so without normal windows to "
            f"compare with: {unmatched} of {evaluation.stream.n_segments} attacks."
        )
    share = evaluation.rank.largest_segment_share
    if share is not None and share > 0.5 and evaluation.stream.n_segments > 1:
        told.append(
            f"One attack holds {share:.0%} of all attack steps and dominates the "
            "pooled ranking; see the column where each attack weighs alike."
        )
    return told


def _figure(name: str, evaluation: Evaluation) -> str:
    return _rounded(name, figures(evaluation)[name] or 0.0)


def _rounded(name: str, value: float) -> str:
    return f"{value:.3g}" if name == "hits" else f"{value:.3f}"
