"""NSIBF's filter and training against the official code's figures.

Steps a CPU second of the whole walk, LSTM codes included, for the SWaT and the WADI
configuration, one thread. The published code is not part of this project: its
figures were measured with it on the same kind of machine. `--epoch` prints CPU and wall
seconds of an epoch of 14,400 windows with 3,600 held out, which `nsibf_keras.py` does
in TensorFlow; `OMP_NUM_THREADS` sets the number of threads, one by default.

    python bench/nsibf.py [--epoch]
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import sys
import time
from itertools import pairwise

import numpy as np

from sightline import Recording, Tag, make_detector

# Sensors, actuators' levels, rows, official steps a CPU second (the best seen), goal as
# a multiple of it, official CPU seconds an epoch of 20,000 rows.
CASES = {
    "swat": (25, (3,) * 6 + (2,) * 9 + (1,) * 11, 20_000, 13.5, 100, 9.6),
    "wadi": (67, (3,) * 10 + (2,) * 16, 6_000, 2.7, 20, 12.1),
}


def made_up(sensors: int, levels: tuple[int, ...], rows: int) -> Recording:
    """Return sinusoids and switching actuators."""
    rng = np.random.default_rng(0)
    t = np.arange(rows)[:, None]
    analogue = np.sin(t / rng.uniform(50, 900, sensors) + rng.uniform(0, 6, sensors))
    analogue = analogue + 0.02 * rng.normal(size=analogue.shape)
    wave = np.sin(t / rng.uniform(50, 900, len(levels)))
    switched = np.floor((wave + 1) / 2.001 * np.array(levels))
    tags = [Tag(name=f"S{k}", role="sensor") for k in range(sensors)]
    tags += [Tag(name=f"A{k}", role="actuator") for k in range(len(levels))]
    values = np.hstack([analogue, switched])
    return Recording(values=values, tags=tuple(tags), step_s=5.0)


def cpu(run) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def epochs(n: int = 4) -> None:
    """Print the seconds of every epoch but the first, held-out block included."""
    sensors, levels, rows, *_ = CASES["swat"]
    detector = make_detector(
        "nsibf",
        testbed="swat",
        every=1,
        epochs=n,
        noise_share=0.1,
        validation_share=0.2,
    )
    first: dict[str, tuple[float, float]] = {}

    def note(step) -> None:
        if ", epoch " in step.detail:
            number = step.detail.split(", loss")[0]
            # Reported after the first batch of each epoch.
            first.setdefault(number, (time.process_time(), time.perf_counter()))

    detector.fit(made_up(sensors, levels, rows), progress=note)
    for one, two in list(pairwise(first.values()))[1:]:
        print(f"an epoch: {two[0] - one[0]:.2f} CPU s, {two[1] - one[1]:.2f} s wall")


def main() -> None:
    if "--epoch" in sys.argv[1:]:
        epochs()
        return
    for testbed, (sensors, levels, rows, official, goal, epoch) in CASES.items():
        recording = made_up(sensors, levels, rows)

        def fit(epochs: int, testbed=testbed, recording=recording):
            made = make_detector(
                "nsibf", testbed=testbed, every=1, epochs=epochs, noise_share=0.1
            )
            return made.fit(recording)

        detector = fit(1)
        told = detector.residuals(recording)
        seconds = cpu(lambda: detector.residuals(recording))  # noqa: B023
        speed = len(told.index) / seconds
        print(
            f"{testbed}: {speed:,.0f} filter steps a CPU second against {official}: "
            f"{speed / official:.0f} times (goal {goal})",
            flush=True,
        )
        share = 20_000 / rows
        training = (cpu(lambda: fit(3)) - cpu(lambda: fit(1))) / 2 * share
        print(
            f"{testbed}: an epoch of 20,000 rows {training:.1f} s against {epoch} s: "
            f"{training / epoch:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
