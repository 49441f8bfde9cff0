"""The whole ladder against scikit-learn's core, in one process, at SWaT's size.

34 attacks; the ladder is what `evaluate` takes with a diagnosis beyond what it takes
without. Telemetry is told apart. One thread, CPU seconds.
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


def ladder_seconds(stream: ResidualStream) -> float:
    """Return the seconds a diagnosis adds."""
    run = partial(evaluate, stream, intervals=False)
    with_it, _ = median_cpu_seconds(partial(run, diagnosis=True))
    without, _ = median_cpu_seconds(partial(run, diagnosis=False))
    return with_it - without


def main() -> None:
    n_train, n_test, p, _ = SIZES["swat"]
    data = made_up(n_train, n_test, p)
    stream = ResidualStream(data.train, data.test, data.labels, step_s=1.0)
    ladder = ladder_seconds(stream)
    core, _ = median_cpu_seconds(partial(with_scikit_learn, data))
    told = stream.replace(telemetry_train=data.train, telemetry_test=data.test)
    telemetry = ladder_seconds(told) - ladder
    print(
        f"ladder, {n_train:,} + {n_test:,} rows x {p}: {ladder:.2f} s, scikit-learn "
        f"core {core:.2f} s, {ladder / core:.2f} (goal {GOAL}); telemetry "
        f"{telemetry:.2f} s"
    )
    before = None
    for n_rows in ROWS:
        data = made_up(n_rows // 2, n_rows // 2, p)
        stream = ResidualStream(data.train, data.test, data.labels, step_s=1.0)
        seconds = ladder_seconds(stream)
        growth = "" if before is None else f", {seconds / before:.2f} times the half"
        print(f"  {n_rows:>9,} rows: {seconds:.2f} s{growth}")
        before = seconds


if __name__ == "__main__":
    main()
