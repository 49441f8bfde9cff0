"""An evaluation told in plain words, as a table for the terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.evaluation import Evaluation
from sightline.metrics.probe import AlarmMetrics

NOT_KNOWN = "-"


def summary(evaluations: Sequence[Evaluation]) -> RenderableType:
    """Return one table row for each evaluation, and below what to watch out for."""
    table = Table(
        title="What the residuals show", title_justify="left", caption_justify="left"
    )
    table.add_column("stream", overflow="fold")
    own = any(e.own_rule is not None for e in evaluations)
    if own:
        table.add_column("own rule:\nattacks alarmed", justify="right")
        table.add_column("own rule:\nfalse alarms", justify="right")
    table.add_column("p99 rule:\nattacks alarmed", justify="right")
    table.add_column("p99 rule:\nfalse alarms", justify="right")
    table.add_column(
        "an attack step\noutranks a normal\none (ROC-AUC)", justify="right"
    )
    table.add_column("the same at\n<=1% false\nalarms (pAUC)", justify="right")
    table.add_column("each attack\nweighing the\nsame (AUC)", justify="right")
    table.add_column("normal energy:\ntrain -> test\n(median)", justify="right")
    for e in evaluations:
        cells = [_name(e)]
        if own:
            cells += [_alarmed(e, e.own_rule), _false_alarms(e.own_rule)]
        cells += [
            _alarmed(e, e.probe),
            _false_alarms(e.probe),
            _share(e.rank.roc_auc),
            _score(e.rank.pauc_1),
            _share(e.rank.mean_segment_auc),
            _drift(e),
        ]
        table.add_row(*cells)
    legend = Text(
        "Ranking: 50% (pAUC 0) is chance, 100% (pAUC 1) perfect. p99 rule: alarm above "
        "the 99th percentile of train energy; no alarm rule is tuned.",
        style="dim",
    )
    return Group(table, legend, *_remarks(evaluations))


def remarks(evaluation: Evaluation) -> list[str]:
    """Return what a reader of the figures must know, one sentence each."""
    told = list(evaluation.notices)
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
            f"residual {_number(quality.max_z_test_normal)}): read the median instead."
        )
    if drift.d_gap is None:
        told.append(
            "Drift holds both what the detector fits too well and what the plant "
            "changed; a calibration block would split the two."
        )
    if quality.one_sided_channels:
        told.append(
            f"Never negative, so probably absolute errors or scores: "
            f"{_some(quality.one_sided_channels)}. Energy counts a low value as odd "
            "too; give signed residuals if you can."
        )
        if evaluation.rank.raw_roc_auc is not None:
            told.append(
                f"Ranked by the raw value instead, ROC-AUC is "
                f"{_share(evaluation.rank.raw_roc_auc)}."
            )
    if quality.scale_blind_channels:
        told.append(
            f"In so small a unit that they hardly count: "
            f"{_some(quality.scale_blind_channels)}. In units of each channel's own "
            f"spread ROC-AUC is {_share(evaluation.reference.standardised_roc_auc)}."
        )
    if quality.constant_channels:
        told.append(f"Constant in train: {_some(quality.constant_channels)}.")
    share = evaluation.rank.largest_segment_share
    if share is not None and share > 0.5 and evaluation.stream.n_segments > 1:
        told.append(
            f"One attack holds {share:.0%} of all attack steps and dominates the "
            "pooled ranking; see the column where each attack weighs the same."
        )
    return told


def _remarks(evaluations: Sequence[Evaluation]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for e in evaluations:
        lines += [Text(f"{_name(e)}: {remark}") for remark in remarks(e)]
    return lines


def _name(e: Evaluation) -> str:
    return f"{e.stream.name} (guard {e.guard})" if e.guard else e.stream.name


def _alarmed(e: Evaluation, rule: AlarmMetrics | None) -> str:
    if rule is None or e.stream.n_segments == 0:
        return NOT_KNOWN
    return f"{rule.hits} of {e.stream.n_segments}"


def _false_alarms(rule: AlarmMetrics | None) -> str:
    if rule is None:
        return NOT_KNOWN
    if rule.false_alarms_per_day is None:
        return f"{rule.false_positive_segments} in all"
    return f"{rule.false_alarms_per_day:.1f} a day"


def _drift(e: Evaluation) -> str:
    train = e.compactness.p_eff / 2
    return f"{_number(train)} -> {_number(train + e.drift.d_drift_robust)}"


def _share(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.1%}"


def _score(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.3f}"


def _number(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.3g}"


def _some(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
