"""CPU seconds of the alarm and score metrics at SWaT's size, against published code.

    python bench/alarm_metrics.py

The references are no dependencies. Install those that you want to compare with, if
possible into an environment of their own: TSB-AD, tadpak, tsadmetrics, prts, vus. A
reference that is missing is named and left out. ESA-ADB is not on a package index: its
line is a plain transcription of the definition, below. Labels and scores are made up:
34 attacks in 449,919 rows, alarms in about 1,000 or 9,400 episodes.
"""

import time
from collections.abc import Callable
from importlib import import_module

import numpy as np
from bench_tools import made_up

from sightline.figures import FIGURES
from sightline.metrics import ALARM_METRICS, AlarmRuns, ScoreRanks
from sightline.metrics.alarm_figures import measure_figures

N_ROWS = 449_919
ALARM_FAMILIES = (
    "point pak pak_auc range etapr tapr affiliation event composite esa delay nab"
).split()


def record(smooth: int, share: float, levels: int) -> tuple[np.ndarray, ...]:
    """Labels, a smoothed noise lifted in every second attack, and its alarms."""
    labels = made_up(10, N_ROWS, 1).labels
    rng = np.random.default_rng(3)
    summed = np.concatenate([[0.0], np.cumsum(rng.random(N_ROWS + smooth))])
    scores = (summed[smooth:] - summed[:-smooth])[:N_ROWS] / smooth
    starts = np.flatnonzero(np.diff(labels, prepend=0) == 1)
    for k, start in enumerate(starts):
        stop = start + int(np.argmin(np.append(labels[start:], 0)))
        scores[start:stop] += 0.25 * rng.random() * (k % 2 == 0)
    if levels:
        scores = np.floor(scores * levels) / levels
    return labels, scores, (scores > np.quantile(scores, 1 - share)).astype(np.int8)


def seconds(run: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def etapr_reference(labels, scores, alarms):
    module = import_module("tsadmetrics.metrics.tem.tmem.EnhancedTimeseriesAwareFScore")
    metric = module.EnhancedTimeseriesAwareFScore(theta_p=0.5, theta_r=0.1)
    return lambda: metric._compute(labels, alarms)


def tapr_reference(labels, scores, alarms):
    module = import_module("tsadmetrics.metrics.tem.ptdm.TimeseriesAwareFScore")
    metric = module.TimeseriesAwareFScore(alpha=0.8, theta=0.5, delta=0.0)
    return lambda: metric._compute(labels, alarms)


def nab_reference(labels, scores, alarms):
    module = import_module("tsadmetrics.metrics.tem.dpm.NabScore")
    return lambda: module.NabScore()._compute(labels, alarms)


def affiliation_reference(labels, scores, alarms):
    generics = import_module("TSB_AD.evaluation.affiliation.generics")
    metrics = import_module("TSB_AD.evaluation.affiliation.metrics")

    def run():
        truth = generics.convert_vector_to_events(labels)
        found = generics.convert_vector_to_events(alarms)
        return metrics.pr_from_events(found, truth, (0, len(labels)))

    return run


def vus_reference(labels, scores, alarms):
    metricor = import_module("TSB_AD.evaluation.basic_metrics").basic_metricor()
    return lambda: metricor.RangeAUC_volume_opt(labels.astype(int), scores, 100)


def r_auc_reference(labels, scores, alarms):
    metricor = import_module("vus.utils.metrics").metricor()
    return lambda: metricor.RangeAUC(labels.astype(int), scores, window=100)


def pak_auc_reference(labels, scores, alarms):
    pak = import_module("tadpak.pak").pak
    f1_score = import_module("sklearn.metrics").f1_score
    return lambda: [
        f1_score(labels, pak(alarms.astype(float), labels, 0.5, k)) for k in range(101)
    ]


def best_pak_reference(labels, scores, alarms):
    """At every distinct score; None if there are too many to wait for."""
    pak = import_module("tadpak.pak").pak
    f1_score = import_module("sklearn.metrics").f1_score
    levels = np.unique(scores)
    if len(levels) > 1000:
        return None
    return lambda: [f1_score(labels, pak(scores, labels, v, 0)) for v in levels - 1e-9]


def range_reference(labels, scores, alarms):
    prts = import_module("prts")
    return lambda: (
        prts.ts_precision(labels, alarms, cardinality="reciprocal"),
        prts.ts_recall(labels, alarms, cardinality="reciprocal"),
    )


def rank_reference(labels, scores, alarms):
    metrics = import_module("sklearn.metrics")
    return lambda: (
        metrics.roc_auc_score(labels, scores),
        metrics.precision_recall_curve(labels, scores),
    )


def esa_reference(labels, scores, alarms):
    """Event-wise figures of ESA-ADB, written down from their definition."""

    def runs(mask):
        found, start = [], None
        for row, on in enumerate(mask.tolist()):
            if on and start is None:
                start = row
            elif not on and start is not None:
                found.append((start, row))
                start = None
        return found + ([] if start is None else [(start, len(mask))])

    def run():
        attacks, episodes = runs(labels), runs(alarms)
        touching = [
            sum(a < stop and b > start for a, b in episodes) for start, stop in attacks
        ]
        false = sum(all(b <= s or a >= e for s, e in attacks) for a, b in episodes)
        hits = sum(n > 0 for n in touching)
        extra = sum(max(n - 1, 0) for n in touching)
        rows = zip(alarms.tolist(), labels.tolist(), strict=True)
        false_rows = sum(on and not bad for on, bad in rows)
        normal = 1 - false_rows / labels.tolist().count(0)
        return hits / (hits + false) * normal, hits / (hits + extra)

    return run


REFERENCES = {
    "vus": (vus_reference, "TSB-AD", 0.12),
    "r_auc": (r_auc_reference, "vus", 0.06),
    "best_pak": (best_pak_reference, "tadpak", 0.06),
    "rank": (rank_reference, "scikit-learn", 0.10),
    "pak_auc": (pak_auc_reference, "tadpak", 0.005),
    "etapr": (etapr_reference, "tsadmetrics", 0.005),
    "tapr": (tapr_reference, "tsadmetrics", 0.005),
    "affiliation": (affiliation_reference, "TSB-AD (the authors' code)", 0.006),
    "range": (range_reference, "prts", 0.005),
    "esa": (esa_reference, "transcribed", 0.006),
    "nab": (nab_reference, "tsadmetrics", 0.006),
}


def compare(case: str, labels, scores, alarms) -> None:
    runs = AlarmRuns.of(labels, alarms)
    print(f"{case}: {runs.n_episodes} episodes, {len(np.unique(scores))} levels")
    print("metric       ours s   goal  reference s  ratio  reference")
    for name, (make, package, goal) in REFERENCES.items():
        given = alarms if name in ALARM_FAMILIES else scores
        ours = seconds(lambda f=ALARM_METRICS[name], g=given: f(labels, g), 7)
        line = f"{name:12} {ours:6.4f} {goal:6.3f}"
        try:
            reference = make(labels, scores, alarms)
        except ImportError as error:
            print(f"{line}  {package} is not installed ({error})")
            continue
        if reference is None:
            print(f"{line}  {package}: too many levels to wait for")
            continue
        theirs = seconds(reference, 1)
        print(f"{line}  {theirs:11.3f} {theirs / ours:6.0f}  {package}", flush=True)


def whole(labels, scores, alarms) -> None:
    """All families with runs found once, then all figures with their floors."""

    def families():
        runs = AlarmRuns.of(labels, alarms)
        return [ALARM_METRICS[name](runs) for name in ALARM_FAMILIES]

    print(f"all alarm families, runs found once: {seconds(families, 7):.4f} (0.03)")

    def floors(given):
        return lambda: measure_figures(given(), FIGURES, block=100)

    of_alarms = seconds(floors(lambda: AlarmRuns.of(labels, alarms)), 3)
    of_scores = seconds(floors(lambda: ScoreRanks.of(labels, scores)), 3)
    of_vus = seconds(
        lambda: measure_figures(ScoreRanks.of(labels, scores), ["vus_roc", "vus_pr"]), 3
    )
    print(f"alarm figures, 199 shifts, intervals: {of_alarms:.2f} (0.6)")
    print(f"score figures, 199 shifts: {of_scores:.2f}; VUS alone {of_vus:.2f} (3)")
    print(f"everything: {of_alarms + of_scores:.2f} (5)")


def main() -> None:
    for case, given in {
        "few episodes": record(60, 0.03, 0),
        "many episodes": record(3, 0.034, 200),
    }.items():
        compare(case, *given)
        whole(*given)


if __name__ == "__main__":
    main()
