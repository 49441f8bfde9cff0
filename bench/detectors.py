"""CPU seconds of an epoch and of inference against the official code's figures.

20,000 rows of 51 channels, one thread, the paper's batch size, float32. The published
code is not part of this project: its figures were measured with it on the same kind of
machine and at the same sizes, one thread, CPU seconds. Memory is that of a process
that looks at SWaT's test trace (449,919 rows). `--cores` is what a second thread gains
at inference: wall seconds for 100,000 rows, the best of three alternating runs; the
machine must have two free cores.

    python bench/detectors.py [--memory] [--cores]
"""

import argparse
import os
import resource
import subprocess
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sightline import Recording, Tag, make_detector
from sightline.parallel import threads

STAGES = (5, 11, 9, 9, 13, 4)
SWAT_TEST_ROWS = 449_919
# Official seconds for an epoch's training and for inference, and the goals as shares.
OFFICIAL = {
    "gdn": (27.8, 11.8, 0.2, 0.15),
    "fusagnet": (43.0, 36.5, 1 / 3, 0.15),
    "tranad": (22.7, 19.8, 0.75, 0.3),
}
# Windows that are trained on: as many as in the official runs.
SHARES = {"gdn": 0.2, "fusagnet": 0.2, "tranad": 0.0}


def made_up(rows: int, seed: int = 0) -> Recording:
    """Return forty noisy sines and eleven binary channels in SWaT's six stages."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)[:, None]
    sines = np.sin(t / rng.uniform(20, 400, 40) + rng.uniform(0, 6, 40))
    values = np.hstack(
        [
            sines + 0.1 * rng.normal(size=(rows, 40)),
            np.sin(t / rng.uniform(20, 400, 11)) > 0.5,
        ]
    )
    stages = np.repeat(np.arange(6), STAGES)
    tags = tuple(
        Tag(name=f"C{column:02}", stage=f"P{stage + 1}")
        for column, stage in enumerate(stages)
    )
    return Recording(values=values, tags=tags, step_s=1.0)


def cpu(run) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def speed(name: str, recording: Recording) -> None:
    share = SHARES[name]

    def fit(epochs: int):
        made = make_detector(name, epochs=epochs, validation_share=share, seed=5)
        return made.fit(recording)

    fit(1)  # warm up
    # What every fit does once cancels out.
    epoch = cpu(lambda: fit(3)) - cpu(lambda: fit(1))
    detector = fit(1)
    detector.residuals(recording)
    looking = min(cpu(lambda: detector.residuals(recording)) for _ in range(3))
    training, inference, goal, looking_goal = OFFICIAL[name]
    print(
        f"{name}: epoch {epoch / 2:.1f} s against {training} s: "
        f"{epoch / 2 / training:.2f} (goal {goal:.2f}); inference {looking:.1f} s "
        f"against {inference} s: {looking / inference:.2f} (goal {looking_goal:.2f})",
        flush=True,
    )


def memory(name: str) -> None:
    """Look at a trace as long as SWaT's test; print the peak of resident memory."""
    detector = make_detector(name, epochs=1).fit(made_up(2_000))
    trace = made_up(SWAT_TEST_ROWS)
    seconds = cpu(lambda: detector.residuals(trace))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {SWAT_TEST_ROWS:,} rows in {seconds:.0f} s, peak {peak:.2f} GiB")


def cores(name: str, rows: int = 100_000) -> None:
    """Print what two threads gain over one, and that the residuals are the same."""
    detector = make_detector(name, epochs=1).fit(made_up(2_000))
    trace = made_up(rows)
    best, values = {1: np.inf, 2: np.inf}, {}
    for _ in range(3):
        for jobs in best:
            began = time.perf_counter()
            with threads(jobs):
                values[jobs] = detector.residuals(trace).values
            best[jobs] = min(best[jobs], time.perf_counter() - began)
    is_same = np.array_equal(values[1], values[2])
    print(
        f"{name}: {rows:,} rows in {best[1]:.2f} s by one thread, {best[2]:.2f} s by "
        f"two: {best[1] / best[2]:.2f} times as fast; same bits: {is_same}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true", help="peak memory as well")
    parser.add_argument("--cores", action="store_true", help="a second thread's gain")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory_of:
        memory(asked.memory_of)
        return
    if asked.cores:
        for name in OFFICIAL:
            cores(name)
        return
    recording = made_up(20_000)
    for name in OFFICIAL:
        speed(name, recording)
    for name in OFFICIAL if asked.memory else ():
        # A process of its own: the peak is over its whole life.
        subprocess.run([sys.executable, __file__, "--memory-of", name], check=True)


if __name__ == "__main__":
    main()
