"""Made-up residuals of real sizes, and one way to take the time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
WARM_UPS, RUNS = 1, 5


@dataclass(frozen=True)
class Arrays:
    train: npt.NDArray[np.float32]
    test: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int8]


def made_up(n_train: int, n_test: int, p: int, seed: int = 0) -> Arrays:
    """Correlated float32 noise, with 34 attacks that shift the mean.

    As on SWaT, attacks cover 12% of test, and one of them most of that: at 450,000 rows
    33 last 100 to 1,200 rows, one 35,000.
    """
    rng = np.random.default_rng(seed)
    mixing = np.eye(p) + rng.normal(size=(p, p)) / p
    mixing = mixing.astype(np.float32)
    train = rng.standard_normal((n_train, p), dtype=np.float32) @ mixing
    test = rng.standard_normal((n_test, p), dtype=np.float32) @ mixing
    labels = np.zeros(n_test, np.int8)
    lengths = np.append(np.linspace(100, 1200, 33), 35_000) * n_test / 450_000
    gap = (n_test - lengths.sum()) / 35
    for k, length in enumerate(lengths.astype(int)):
        start = int((k + 1) * gap + lengths[:k].sum())
        labels[start : start + max(length, 1)] = 1
    test[labels == 1] += 0.3
    return Arrays(train, test, labels)


def median_cpu_seconds(run: Callable[[], T], runs: int = RUNS) -> tuple[float, T]:
    """Return the median CPU seconds over the runs, and what the last one gave."""
    cpu, _, outcome = median_seconds(run, runs)
    return cpu, outcome


def median_seconds(run: Callable[[], T], runs: int = RUNS) -> tuple[float, float, T]:
    """Return median CPU and wall seconds over the runs, and what the last one gave."""
    for _ in range(WARM_UPS):
        run()
    seconds = []
    for _ in range(runs):
        cpu, wall = time.process_time(), time.perf_counter()
        outcome = run()
        seconds.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = np.median(seconds, axis=0)
    return float(cpu), float(wall), outcome
