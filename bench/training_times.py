"""Seconds of a training of SWaT's size, from made-up data: 475,200 rows of 51 tags.

Each network is trained for two epochs on a part of the rows, with the settings of its
card for SWaT. The second epoch, with the evaluation of a held-out block, is multiplied
by the number of rows and of epochs; an early stop would end it sooner. Detectors
without epochs are fitted on all rows. CPU seconds, one thread.

    python bench/training_times.py [--share 0.05] [--detectors gdn nsibf]
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import time

import numpy as np

from sightline import Recording, Tag, make_detector

ROWS = 475_200
STAGES = (5, 11, 9, 9, 13, 4)
SENSORS = 25
EPOCHS = 2
NETWORKS = ("gdn", "fusagnet", "tranad", "nsibf")
WHOLE = ("geco", "var", "pca", "last-value")


def made_up(rows: int) -> Recording:
    """Return noisy sines and switching actuators in SWaT's six stages."""
    rng = np.random.default_rng(0)
    t = np.arange(rows)[:, None]
    values = np.sin(t / rng.uniform(200, 4_000, 51) + rng.uniform(0, 6, 51))
    is_sensor = np.arange(51) % 2 == 0
    is_sensor[-1] = False
    values[:, is_sensor] += 0.1 * rng.normal(size=(rows, SENSORS))
    levels = np.arange(51) % 3 + 1
    switched = np.floor((values + 1) / 2.001 * levels)
    values = np.where(is_sensor, values, switched)
    stages = np.repeat(np.arange(6), STAGES)
    tags = tuple(
        Tag(
            name=f"C{column:02}",
            role="sensor" if is_sensor[column] else "actuator",
            stage=f"P{stage + 1}",
        )
        for column, stage in enumerate(stages)
    )
    return Recording(values=values, tags=tags, step_s=1.0)


def network(name: str, share: float) -> None:
    """Time the second epoch on a part, and say what a whole training would take."""
    usual = make_detector(name, testbed="swat").settings
    detector = make_detector(name, testbed="swat", epochs=EPOCHS)
    ends: dict[str, float] = {}

    def note(step) -> None:
        if ", epoch " in step.detail:
            ends[step.detail.split(", loss")[0]] = time.process_time()

    # Rows at the beginning that are not learned from count for nothing.
    trimmed = round(usual.trim_s)
    rows = trimmed + round((ROWS - trimmed) * share)
    detector.fit(made_up(rows), progress=note)
    first, second = ends.values()
    epoch = second - first
    whole_epoch = epoch / share
    print(
        f"{name}: {epoch:.1f} CPU s an epoch of {rows - trimmed:,} rows (measured); "
        f"{whole_epoch:.0f} s an epoch of {ROWS - trimmed:,} rows, "
        f"{whole_epoch * usual.epochs / 60:.1f} minutes for {usual.epochs} epochs "
        "(scaled)",
        flush=True,
    )


def whole(name: str, recording: Recording) -> None:
    began = time.process_time()
    make_detector(name, testbed="swat").fit(recording)
    spent = time.process_time() - began
    print(f"{name}: {spent:.1f} CPU s, all {ROWS:,} rows (measured)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--detectors", nargs="+", default=[*NETWORKS, *WHOLE])
    asked = parser.parse_args()
    for name in asked.detectors:
        if name in NETWORKS:
            network(name, asked.share)
        else:
            whole(name, made_up(ROWS))


if __name__ == "__main__":
    main()
