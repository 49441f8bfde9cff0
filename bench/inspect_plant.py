"""What does the audit of a large export cost?

Writes a plant's folder with wide CSV tables of 1.5 GB in total and made-up values, and
runs `sightline inspect` on it in a process of its own: CPU time and peak memory. The
path of another version's source as argument compares the two on the same files.

    python bench/inspect_plant.py [OTHER/src]
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

GOAL_RATIO, GOAL_GIB, N_TAGS, GIGABYTES = 1.3, 3.6, 100, 1.5
HERE = Path(__file__).parents[1] / "src"
RUN = """
import json, resource, sys
from sightline.cli.app import app
try:
    app(["inspect", sys.argv[1]])
except SystemExit as ended:
    code = ended.code
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "cpu_s": used.ru_utime + used.ru_stime,
    "gib": used.ru_maxrss / 2**20,
    "exit": code,
}))
"""


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


def measured(folder: Path, source: Path) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": str(source)}
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout.splitlines()[-1])


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as temporary:
        folder = Path(temporary)
        write_table(folder / "train.csv", 1_700_000_000, GIGABYTES * 0.8, seed=1)
        write_table(folder / "test.csv", 1_710_000_000, GIGABYTES * 0.2, seed=2)
        now = measured(folder, HERE)
        print(f"inspect: {now['cpu_s']:.0f} s of CPU, {now['gib']:.2f} GiB")
        assert now["exit"] == 0
        assert now["gib"] <= GOAL_GIB
        for other in sys.argv[1:]:
            before = measured(folder, Path(other))
            ratio = now["cpu_s"] / before["cpu_s"]
            print(f"before: {before['cpu_s']:.0f} s, {before['gib']:.2f} GiB")
            print(f"ratio of CPU: {ratio:.2f}, goal {GOAL_RATIO}")
            assert ratio <= GOAL_RATIO


if __name__ == "__main__":
    main()
