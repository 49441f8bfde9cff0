"""The core of an evaluation against the same with scikit-learn, in one process.

Core: reference, train and test energy, rank metrics, drift, probe; of test also the
largest coordinate, by which drift is judged. `evaluate` also looks at the shape of
train (largest coordinate, kurtosis), which is run as well.
Both sides get the same float32 arrays and take turns: a warm-up, then nine turns, of
which medians of seconds and of ratios are printed. First CPU seconds of one thread
each, then wall seconds of all cores (Sightline's own threads, those of the library for
linear algebra under scikit-learn; needs a machine without other work).
Sightline sums in float64. scikit-learn computes in the precision it is given, so it is
run twice: on the float32 arrays as they are (six digits), and on float64 copies, which
is what it takes to get Sightline's digits.
Run: python bench/core.py [swat] [wadi]
"""

import sys
import time
from functools import partial
from itertools import product

import numpy as np
from bench_tools import WARM_UPS, Arrays, made_up
from scipy.linalg import solve_triangular
from sklearn.covariance import ledoit_wolf
from sklearn.metrics import average_precision_score, roc_auc_score
from threadpoolctl import threadpool_limits

from sightline.data.row_tables import ArrayRows
from sightline.data.segments import segments_of
from sightline.energy.energy import score_rows
from sightline.energy.reference import fit_reference, fold_moments, merged, scale_of
from sightline.metrics.alarm_load import judge_alarms
from sightline.metrics.measures import measure_drift
from sightline.metrics.ranking import (
    average_precision_of_ranks,
    partial_auc_of_ranks,
    rank_attacks,
    roc_auc_of_ranks,
)
from sightline.parallel import threads
from sightline.rules import QuantileRule

RUNS = 9
# Rows of train and test, channels, and the ratio to stay under.
SIZES = {
    "swat": (475_200, 449_919, 51, 0.30),
    "wadi": (1_209_601, 172_801, 123, 0.30),
}


def with_sightline(data: Arrays, *, energy_only: bool = True) -> list[float]:
    train, test = ArrayRows(data.train), ArrayRows(data.test)
    moments = merged(fold_moments(train))
    reference = fit_reference(train, moments=moments)
    scored_train = score_rows(
        train, reference, name="train", scale=scale_of(moments), energy_only=energy_only
    )
    is_normal = data.labels == 0
    scored = score_rows(test, reference, name="test", counted=is_normal)
    normal_sorted = np.sort(scored.energy[is_normal])
    ranks = rank_attacks(scored.energy[~is_normal], normal_sorted)
    rule = QuantileRule.from_normal(scored_train.energy)
    train_mean = float(np.mean(scored_train.energy))
    drift = measure_drift(train_mean, normal_sorted, max_z=scored.max_z or 0.0)
    probe = judge_alarms(
        rule.alarms(scored.energy), data.labels, segments_of(~is_normal), step_s=1.0
    )
    return [
        roc_auc_of_ranks(ranks),
        partial_auc_of_ranks(ranks, 0.01),
        partial_auc_of_ranks(ranks, 0.05),
        average_precision_of_ranks(ranks),
        drift.d_drift,
        probe.f1 or 0.0,
    ]


def with_scikit_learn(data: Arrays, dtype: type = np.float32) -> list[float]:
    train, test = (
        data.train.astype(dtype, copy=False),
        data.test.astype(dtype, copy=False),
    )
    covariance, _ = ledoit_wolf(train)
    mean = train.mean(axis=0)
    factor = np.linalg.cholesky(covariance)

    def energy(rows):
        whitened = solve_triangular(factor, (rows - mean).T, lower=True)
        return 0.5 * (whitened**2).sum(axis=0)

    train_energy, test_energy = energy(train), energy(test)
    is_attack = data.labels == 1
    alarms = test_energy > np.percentile(train_energy, 99)
    hits = np.sum(alarms & is_attack)
    return [
        roc_auc_score(is_attack, test_energy),
        2 * roc_auc_score(is_attack, test_energy, max_fpr=0.01) - 1,
        2 * roc_auc_score(is_attack, test_energy, max_fpr=0.05) - 1,
        average_precision_score(is_attack, test_energy),
        float(test_energy[~is_attack].mean() - train_energy.mean()),
        2 * hits / (alarms.sum() + is_attack.sum()),
    ]


def in_turns(data: Arrays, n_threads: int | None) -> None:
    """Print seconds and ratios of runs that take turns: a slower minute meets all."""
    sides = {
        "sightline": (threads, with_sightline),
        "sightline, shape of train too": (
            threads,
            partial(with_sightline, energy_only=False),
        ),
        "scikit-learn in float32": (threadpool_limits, with_scikit_learn),
        "scikit-learn in float64": (
            threadpool_limits,
            partial(with_scikit_learn, dtype=np.float64),
        ),
    }
    seconds = {name: [] for name in sides}
    figures = {}
    for turn in range(WARM_UPS + RUNS):
        for name, (limited, run) in sides.items():
            with limited(n_threads):
                cpu, wall = time.process_time(), time.perf_counter()
                figures[name] = run(data)
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if turn >= WARM_UPS:
                seconds[name].append(cpu if n_threads else wall)
    print(f"  {'CPU s of one thread' if n_threads else 's wall on all cores'}:")
    for name, digits in zip(sides, (0.0, 1e-9, 2e-3, 1e-9), strict=True):
        np.testing.assert_allclose(
            figures["sightline"], figures[name], rtol=digits, atol=digits
        )
        print(f"    {name}: {np.median(seconds[name]):.3f}")
    ours, theirs = list(sides)[:2], list(sides)[2:]
    for one, other in product(ours, theirs):
        ratios = np.divide(seconds[one], seconds[other])
        print(
            f"    {one} / {other}: {np.median(ratios):.3f} "
            f"({ratios.min():.3f} to {ratios.max():.3f})"
        )


def main() -> None:
    for name in sys.argv[1:] or SIZES:
        n_train, n_test, p, goal = SIZES[name]
        data = made_up(n_train, n_test, p)
        print(f"{name}: {n_train:,} + {n_test:,} rows x {p} (goal: ratio {goal})")
        for n_threads in (1, None):
            in_turns(data, n_threads)


if __name__ == "__main__":
    main()
