"""What a cell costs beyond its detector's own work, and what a second process buys.

    python bench/study.py

Twelve cells of a detector that costs next to nothing, on a short run of the simulated
plant; the same on one and on two processes; and again, when all of them are kept.
"""

import os
import tempfile
import time
from pathlib import Path

from sightline.study import plan_of, run_study

N_SEEDS = 12


def main() -> None:
    plan = plan_of(
        {
            "seeds": list(range(N_SEEDS)),
            "testbeds": {"waterworks": {"quick": True}},
            "detectors": {"mean": {}},
            "evaluation": {"intervals": False, "diagnosis": False},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2):
            out = Path(folder) / str(workers)
            first = None

            def watch(board) -> None:
                nonlocal first
                ended = [s for s in board.standings.values() if s.outcome is not None]
                if ended and first is None:
                    first = time.perf_counter()
                if len(ended) == N_SEEDS:
                    seconds = time.perf_counter() - first
                    print(
                        f"{workers} processes: {seconds / (N_SEEDS - 1):.2f} s a cell "
                        f"after the first (load {os.getloadavg()[0]:.1f})"
                    )

            run_study(plan, out, workers=workers, watch=watch)
        began = time.perf_counter()
        run_study(plan, out)
        print(
            f"all kept: {time.perf_counter() - began:.1f} s for opening and writing up"
        )


if __name__ == "__main__":
    main()
