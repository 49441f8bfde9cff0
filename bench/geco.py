"""CPU seconds of GeCo's search against the official code's and a prototype's figures.

20,000 rows of a made-up plant with 51 and 123 channels, and BATADAL's size, one thread.
The published search is not part of this project: its figures (and those of a prototype
in closed form) were measured on the same kind of machine, in CPU seconds. Inference is
told in steps a second of one core.

    python bench/geco.py [--quick]
"""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

from sightline import Recording, Tag
from sightline.detectors.geco import GeCo

# What, channels, rows, official CPU seconds (0: not measured), what is to be reached
# in CPU seconds and why.
SIZES = (
    ("BATADAL's size", 42, 8_761, 6_200.0, 10.0, "10 s"),
    ("51 channels", 51, 20_000, 31_000.0, 31.0, "1,000 times less than the official"),
    ("123 channels", 123, 20_000, 1_060_000.0, 1.25 * 157, "1.25 x 157 s (prototype)"),
)
# Official steps a second of one core with 42 and 119 invariants.
OFFICIAL_STEPS = {42: 9_450, 51: 8_070, 123: 3_230}


def plant(n_channels: int, n_rows: int, seed: int = 0) -> Recording:
    """Return a plant: a tenth constants, three tenths switches, coupled sensors."""
    rng = np.random.default_rng(seed)
    values = np.empty((n_rows, n_channels))
    order = rng.permutation(n_channels)
    n_constant, n_switches = round(0.1 * n_channels), round(0.3 * n_channels)
    constants = order[:n_constant]
    switches = order[n_constant : n_constant + n_switches]
    sensors = order[n_constant + n_switches :]
    values[:, constants] = rng.integers(0, 3, n_constant)
    flips = rng.random((n_rows, n_switches)) < 1 / rng.integers(50, 400, n_switches)
    values[:, switches] = 1 + np.cumsum(flips, axis=0) % 2
    sizes = 10.0 ** rng.uniform(-2, 3, len(sensors))
    state = np.zeros(len(sensors))
    drives = rng.integers(n_switches, size=(len(sensors), 2))
    upstream = rng.permutation(len(sensors))
    noise = 0.05 * rng.standard_normal((n_rows, len(sensors)))
    pushes = rng.normal(0, 0.1, (len(sensors), 2))
    on = values[:, switches] - 1.5
    for row in range(n_rows):
        pushed = (on[row, drives] * pushes).sum(axis=1)
        state = 0.97 * state + 0.02 * state[upstream] + pushed + noise[row]
        values[row, sensors] = state
    values[:, sensors] = sizes * (values[:, sensors] + 5)
    tags = tuple(Tag(name=f"C{column:03}") for column in range(n_channels))
    return Recording(values=values, tags=tags, step_s=1.0)


def cpu(run) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out 123 channels")
    asked = parser.parse_args()
    GeCo().fit(plant(6, 200)).cusum(plant(6, 200))  # compiles
    for what, n_channels, n_rows, official, goal, why in SIZES:
        if asked.quick and n_channels > 100:
            continue
        recording = plant(n_channels, n_rows)
        detector = GeCo()
        seconds = cpu(lambda d=detector, r=recording: d.fit(r))
        print(
            f"{what} x {n_rows:,}: search {seconds:.1f} CPU s (goal {goal:.0f}: {why}; "
            f"official {official:,.0f}, {official / seconds:,.0f} times as much)",
            flush=True,
        )
        looking = min(
            cpu(lambda d=detector, r=recording: d.residuals(r)) for _ in range(3)
        )
        judging = min(cpu(lambda d=detector, r=recording: d.cusum(r)) for _ in range(3))
        steps = OFFICIAL_STEPS[n_channels]
        print(
            f"  residuals {n_rows / looking:,.0f} steps/s, with CUSUM and alarms "
            f"{n_rows / judging:,.0f} steps/s (official {steps:,})",
            flush=True,
        )


if __name__ == "__main__":
    main()
