"""Seconds to simulate a week of plant time, in one thread.

Compilation comes first and is told apart. The goal is a week in under 5 CPU seconds.
Run: python bench/waterworks.py
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import time
from functools import partial

from bench_tools import median_cpu_seconds

from sightline.testbeds.waterworks import Scenario, simulate

GOAL_S = 5.0


def main() -> None:
    before = time.perf_counter()
    simulate(days_train=0.01, days_test=0.01, scenario=Scenario())
    print(f"first run, compiled or from cache: {time.perf_counter() - before:.1f} s")
    peace = Scenario()
    week = partial(simulate, days_train=7, days_test=1 / 86_400, scenario=peace)
    seconds, _ = median_cpu_seconds(week)
    print(f"a week of normal operation: {seconds:.2f} CPU s (goal: {GOAL_S:g})")
    seconds, _ = median_cpu_seconds(simulate)
    print(f"a week of train and four days of attacks: {seconds:.2f} CPU s")
    seconds, _ = median_cpu_seconds(partial(simulate, quick=True))
    print(f"the quick preset: {seconds:.2f} CPU s")


if __name__ == "__main__":
    main()
