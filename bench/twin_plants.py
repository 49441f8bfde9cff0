"""CPU seconds of the two plants by other people's physics, and their balances.

Run: python bench/twin_plants.py (needs the extras tep and water)
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import time

import numpy as np

from sightline.testbeds import network, tep
from sightline.testbeds.network import opened_network
from sightline.testbeds.network import warmed_up as warm_network
from sightline.testbeds.tep import warmed_up as warm_process


def seconds(run) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def rows_of(plant, n_rows: int, n_tags: int) -> float:
    rows = np.empty((n_rows, n_tags), np.float32)
    return seconds(lambda: plant.run(rows))


def main() -> None:
    plant = warm_process(1).copy()
    print(f"tep, a day: {rows_of(plant, 2400, 53):.1f} CPU s")
    read, instruments, _ = opened_network("Net3")
    plant = warm_network(read, instruments, 1)
    first = plant.copy().state
    month = rows_of(plant, 30 * 288, len(read.tags))
    print(f"network Net3, a year: {month * 365 / 30:.0f} CPU s (from 30 days)")
    last = plant.state
    supplied = last.supplied - first.supplied
    missing = supplied - (last.delivered - first.delivered)
    missing -= last.volume - first.volume
    print(f"  water missing: {missing:.3g} of {supplied:.3g} m3")
    read, instruments, _ = opened_network("ky10")
    plant = warm_network(read, instruments, 1)
    day = rows_of(plant, 288, len(read.tags))
    print(f"network ky10, a day: {day:.1f} CPU s, {len(read.tags)} tags")
    print(f"tep, the default: {seconds(tep.simulate):.0f} CPU s")
    print(f"network, the default: {seconds(network.simulate):.0f} CPU s")


if __name__ == "__main__":
    main()
