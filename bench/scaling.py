"""What rows, channels and attacks cost, and whether twice the rows cost twice the time.

First the core evaluation of 250k to 2M rows, the median of five runs; then the whole
(windows, intervals, diagnosis, rules), once each, for more rows, channels and attacks,
with the slope: by what power the time grows from one size to the next.
Run: python bench/scaling.py [core] [whole]
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import sys
import time
from functools import partial

import numpy as np
from bench_tools import made_up, median_cpu_seconds
from core import with_sightline

from sightline import ResidualStream, evaluate

ROWS = (250_000, 500_000, 1_000_000, 2_000_000)
CHANNELS, GOAL = 51, 2.2
# What is left as it is while something else grows.
USUAL = {"n_rows": 250_000, "p": CHANNELS, "n_attacks": 50}
GROWING = {
    "n_rows": (125_000, 250_000, 500_000),
    "p": (25, 51, 123),
    "n_attacks": (50, 200, 1000),
}
# The most that a slope may be.
MOST = {"n_rows": 1.0, "p": 2.0, "n_attacks": 1.0}


def core() -> None:
    before = None
    for n_rows in ROWS:
        data = made_up(n_rows // 2, n_rows // 2, CHANNELS)
        seconds, _ = median_cpu_seconds(partial(with_sightline, data))
        growth = "" if before is None else f", {seconds / before:.2f} times the half"
        print(f"{n_rows:>9,} rows x {CHANNELS}: {seconds:.3f} s{growth} (goal {GOAL})")
        before = seconds


def stream_of(n_rows: int, p: int, n_attacks: int) -> ResidualStream:
    """Half train, half test; attacks of 50 to 500 rows, each of its own length."""
    data = made_up(n_rows // 2, n_rows // 2, p)
    labels = np.zeros(n_rows // 2, np.int8)
    for k, length in enumerate(np.linspace(50, 500, n_attacks).astype(int)):
        start = (2 * k + 1) * len(labels) // (2 * n_attacks)
        labels[start : start + length] = 1
    data.test[labels == 1] += 0.2
    return ResidualStream(data.train, data.test, labels, step_s=1.0)


def cpu_seconds(stream: ResidualStream, **options: bool) -> float:
    start = time.process_time()
    evaluate(stream, jobs=1, **options)
    return time.process_time() - start


def whole() -> None:
    evaluate(stream_of(20_000, 3, 5))  # compile what is compiled
    print("rows, channels, attacks: without intervals and diagnosis; whole (CPU s)")
    for what, sizes in GROWING.items():
        before = None
        for size in sizes:
            case = USUAL | {what: size}
            stream = stream_of(**case)
            bare = cpu_seconds(stream, intervals=False, diagnosis=False)
            seconds = cpu_seconds(stream)
            slope = ""
            if before is not None:
                power = np.log(seconds / before[1]) / np.log(size / before[0])
                slope = f", slope {power:.2f} (at most {MOST[what]:.0f})"
            before = size, seconds
            print(
                f"{case['n_rows']:>9,} {case['p']:>4} {case['n_attacks']:>4}: "
                f"{bare:6.1f} {seconds:6.1f}{slope}",
                flush=True,
            )


def main() -> None:
    for run in (core, whole):
        if run.__name__ in (sys.argv[1:] or ["core", "whole"]):
            run()


if __name__ == "__main__":
    main()
