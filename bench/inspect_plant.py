"""What does the audit of a large export cost?

Writes a plant's folder with wide CSV tables of 1.5 GB in total and made-up values, and
runs `sightline inspect` on it in a process of its own: CPU time and peak memory. The
path of another version's source as argument compares the two on the same files.

    python bench/inspect_plant.py [OTHER/src]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

GOAL_RATIO, GOAL_GIB, N_TAGS, GIGABYTES = 1.3, 3.6, 100, 1.5
HERE = Path(__file__).parents[1] / "src"


def write_table(path: Path, begin: int, gigabytes: float, seed: int) -> None:
    """Write sensors with two or three decimals and valves, one row a second."""
    rng = np.random.default_rng(seed)
    at = begin
    with path.open("wb") as file:
        while file.tell() < gigabytes * 1e9:
            rows = np.arange(at, at + 50_000)
            columns = {"time": pl.from_epoch(pl.Series(rows)).dt.to_string("iso")}
            for k in range(N_TAGS):
                noise = rng.normal(0, 1, len(rows))
                wave = 500 + 50 * np.sin(rows / 900 + k)
                columns[f"T{k:03d}"] = pl.Series(
                    (rows // (50 + k)) % 2 if k % 4 == 3 else np.round(wave + noise, 3)
                )
            pl.DataFrame(columns).write_csv(file, include_header=at == begin)
            at += len(rows)


def measured(folder: Path, source: Path) -> tuple[float, float, int]:
    """Return seconds of CPU, GiB at the peak, and the exit code."""
    command = [sys.executable, "-m", "sightline", "inspect", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, child.returncode


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as temporary:
        folder = Path(temporary)
        write_table(folder / "train.csv", 1_700_000_000, GIGABYTES * 0.8, seed=1)
        write_table(folder / "test.csv", 1_710_000_000, GIGABYTES * 0.2, seed=2)
        cpu_s, gib, code = measured(folder, HERE)
        print(f"inspect: {cpu_s:.0f} s of CPU, {gib:.2f} GiB, exit code {code}")
        assert code == 0
        assert gib <= GOAL_GIB
        for other in sys.argv[1:]:
            other_s, other_gib, _ = measured(folder, Path(other))
            print(f"{other}: {other_s:.0f} s of CPU, {other_gib:.2f} GiB")
            print(f"ratio of CPU: {cpu_s / other_s:.2f}, goal {GOAL_RATIO}")
            assert cpu_s <= GOAL_RATIO * other_s


if __name__ == "__main__":
    main()
