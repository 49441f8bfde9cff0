"""What a cell costs beyond its detector's own work, and what a second process buys.

    python bench/study.py

Twelve cells of a detector that costs next to nothing, on a short run of the simulated
plant; the same on one and on two processes; and again, when all of them are kept.
"""

import os
import tempfile
import time
from pathlib import Path

from sightline.study.plan import StudyPlan, plan_of
from sightline.study.run import run_study

N_CELLS = 12


def seconds_a_cell(plan: StudyPlan, out: Path, workers: int) -> float:
    """Return the time from the first finished cell to the last, for each of them."""
    ends: list[float] = []

    def watch(board) -> None:
        ended = sum(s.outcome is not None for s in board.standings.values())
        ends.extend([time.perf_counter()] * (ended - len(ends)))

    run_study(plan, out, workers=workers, watch=watch)
    return (ends[-1] - ends[0]) / (N_CELLS - 1)


def main() -> None:
    plan = plan_of(
        {
            "seeds": list(range(N_CELLS)),
            "testbeds": {"waterworks": {"quick": True}},
            "detectors": {"mean": {}},
            "evaluation": {"intervals": False, "diagnosis": False},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2):
            took = seconds_a_cell(plan, Path(folder) / str(workers), workers)
            load = os.getloadavg()[0]
            print(f"{workers} processes: {took:.2f} s a cell (load {load:.1f})")
        began = time.perf_counter()
        run_study(plan, Path(folder) / "2")
        print(f"all kept: {time.perf_counter() - began:.1f} s to open and write up")


if __name__ == "__main__":
    main()
