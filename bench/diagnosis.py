"""The whole judgement at SWaT's size: 450,000 x 51, 34 attacks, with telemetry.

What `evaluate` takes with a diagnosis beyond what it takes without, and what telemetry
adds to that. One thread, CPU seconds.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

from functools import partial

from bench_tools import made_up, median_cpu_seconds
from core import SIZES

from sightline import ResidualStream, evaluate

GOAL = 20.0
ROWS = (100_000, 200_000, 400_000)


def judgement_seconds(stream: ResidualStream, runs: int = 3) -> float:
    """Return the seconds a diagnosis adds."""
    run = partial(evaluate, stream, intervals=False)
    with_it, _ = median_cpu_seconds(partial(run, diagnosis=True), runs)
    without, _ = median_cpu_seconds(partial(run, diagnosis=False), runs)
    return with_it - without


def main() -> None:
    n_train, n_test, p, _ = SIZES["swat"]
    data = made_up(n_train, n_test, p)
    stream = ResidualStream(data.train, data.test, data.labels, step_s=1.0)
    ladder = judgement_seconds(stream)
    both = stream.replace(telemetry_train=data.train, telemetry_test=data.test)
    whole = judgement_seconds(both)
    print(
        f"judgement, {n_train:,} + {n_test:,} rows x {p}: {whole:.1f} s with telemetry "
        f"(goal {GOAL:.0f}), {ladder:.1f} s without"
    )
    before = None
    for n_rows in ROWS:
        data = made_up(n_rows, n_rows, p)
        stream = ResidualStream(data.train, data.test, data.labels, step_s=1.0)
        seconds = judgement_seconds(stream, 1)
        growth = "" if before is None else f", {seconds / before:.2f} times the half"
        print(f"  {n_rows:>9,} rows of test: {seconds:.1f} s{growth}")
        before = seconds


if __name__ == "__main__":
    main()
