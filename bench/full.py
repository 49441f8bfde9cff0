"""The whole evaluation against scikit-learn's core, in one process, at SWaT's size.

Whole: the core, up to 1000 matched windows for each of 34 attacks, 500 bootstrap
replicates of every figure, and 199 chance shifts. One thread, CPU seconds.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

from functools import partial

from bench_tools import made_up, median_cpu_seconds
from core import SIZES, with_scikit_learn

from sightline import ResidualStream, evaluate

GOAL = 3.0
ROWS = (250_000, 500_000, 1_000_000)


def main() -> None:
    n_train, n_test, p, _ = SIZES["swat"]
    data = made_up(n_train, n_test, p)
    stream = ResidualStream(data.train, data.test, data.labels, step_s=1.0)
    whole, evaluation = median_cpu_seconds(partial(evaluate, stream))
    core, _ = median_cpu_seconds(partial(with_scikit_learn, data))
    print(
        f"{n_train:,} + {n_test:,} rows x {p}, "
        f"{evaluation.windows.n_matched_windows:,} matched windows: "
        f"sightline {whole:.2f} s, scikit-learn core {core:.2f} s, "
        f"{whole / core:.2f} (goal {GOAL})"
    )
    before = None
    for n_rows in ROWS:
        data = made_up(n_rows // 2, n_rows // 2, p)
        stream = ResidualStream(data.train, data.test, data.labels, step_s=1.0)
        seconds, _ = median_cpu_seconds(partial(evaluate, stream))
        growth = "" if before is None else f", {seconds / before:.2f} times the half"
        print(f"  {n_rows:>9,} rows: {seconds:.2f} s{growth}")
        before = seconds


if __name__ == "__main__":
    main()
