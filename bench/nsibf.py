"""NSIBF's filter against the official code's figures.

Steps a CPU second of the whole walk, LSTM codes included, for the SWaT and the WADI
configuration, one thread. The published code is not part of this project: its
figures were measured with it on the same kind of machine.

    python bench/nsibf.py
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import time

import numpy as np

from sightline import Recording, Tag, make_detector

# Sensors, actuators' levels, rows, official steps a CPU second (the best seen), goal as
# a multiple of it.
CASES = {
    "swat": (25, (3,) * 6 + (2,) * 9 + (1,) * 11, 20_000, 13.5, 100),
    "wadi": (67, (3,) * 10 + (2,) * 16, 6_000, 2.7, 20),
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


def main() -> None:
    for testbed, (sensors, levels, rows, official, goal) in CASES.items():
        recording = made_up(sensors, levels, rows)

        detector = make_detector(
            "nsibf", testbed=testbed, every=1, epochs=1, noise_share=0.1
        ).fit(recording)
        told = detector.residuals(recording)
        seconds = cpu(lambda: detector.residuals(recording))  # noqa: B023
        speed = len(told.index) / seconds
        print(
            f"{testbed}: {speed:,.0f} filter steps a CPU second against {official}: "
            f"{speed / official:.0f} times (goal {goal})",
            flush=True,
        )


if __name__ == "__main__":
    main()
