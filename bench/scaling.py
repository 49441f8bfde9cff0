"""Does twice the data cost twice the time? Core evaluation of 250k to 2M rows."""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

from functools import partial

from bench_tools import made_up, median_cpu_seconds
from core import with_sightline

ROWS = (250_000, 500_000, 1_000_000, 2_000_000)
CHANNELS, GOAL = 51, 2.2


def main() -> None:
    before = None
    for n_rows in ROWS:
        data = made_up(n_rows // 2, n_rows // 2, CHANNELS)
        seconds, _ = median_cpu_seconds(partial(with_sightline, data))
        growth = "" if before is None else f", {seconds / before:.2f} times the half"
        print(f"{n_rows:>9,} rows x {CHANNELS}: {seconds:.3f} s{growth} (goal {GOAL})")
        before = seconds


if __name__ == "__main__":
    main()
