"""Is a testbed read as fast as its files can be, and within bounded memory?

Writes SWaT's two CSV files at full size and in the exact format, with made-up values,
and reads them in turns with sightline and with one plain `polars.read_csv` each. Then
does WADI A1's normal file (1.2 million rows) in a process of its own, for its memory.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from sightline import open_testbed
from sightline.data.recording import seconds
from sightline.testbeds import swat, wadi
from sightline.testbeds.base import attack_table
from sightline.testbeds.copies import CACHE_FOLDER

GOAL_RATIO, GOAL_GIB, TURNS = 1.5, 4.0, 5
SWAT_ATTACK = "SWaT_Dataset_Attack_v0.csv"
SWAT_NORMAL = "SWaT_Dataset_Normal_v0.csv"
WADI_PREFIX = "\\\\WIN-25J4RO10SBF\\LOG_DATA\\SUTD_WADI\\LOG_DATA\\"


def values_of(tags, n_rows: int, rng: np.random.Generator) -> dict[str, pl.Series]:
    """Sensors with six digits, everything else 1 or 2."""
    return {
        tag.name: pl.Series(
            np.round(rng.random(n_rows) * 900, 4)
            if tag.role == "sensor"
            else rng.integers(1, 3, n_rows)
        )
        for tag in tags
    }


def stamps(begin: str, offsets: np.ndarray, form: str) -> pl.Series:
    start = datetime.fromisoformat(begin)
    times = pl.Series([start]).cast(pl.Datetime("ms")).to_physical()[0] + offsets * 1000
    return pl.Series(times).cast(pl.Datetime("ms")).dt.strftime(form)


def write_csv(path: Path, head: str, table: pl.DataFrame) -> None:
    with path.open("wb") as file:
        file.write(head.encode())
        table.write_csv(file, include_header=False, line_terminator="\r\n")


def write_swat(folder: Path) -> None:
    rng = np.random.default_rng(0)
    form = " %-d/%-m/%Y %-I:%M:%S %p"
    names = ",".join(swat.CHANNELS)
    normal = np.arange(496_800)
    table = pl.DataFrame(
        {
            "time": stamps("2015-12-22 16:00:00", normal, form),
            **values_of(swat.TAGS, len(normal), rng),
            "label": pl.Series(["Normal"]).extend_constant("Normal", len(normal) - 1),
        }
    )
    head = f",P1{',' * 51}\r\n Timestamp,{names},Normal/Attack\r\n"
    write_csv(folder / SWAT_NORMAL, head, table)
    attacked = np.arange(449_919)
    attacked[290_000:] += 81
    at = seconds("2015-12-28 10:00:00") + attacked
    is_attack = np.zeros(len(attacked), bool)
    for attack in attack_table("swat"):
        if attack.labelled is not None:
            is_attack |= (at >= attack.labelled[0]) & (at <= attack.labelled[1])
    table = pl.DataFrame(
        {
            "time": stamps("2015-12-28 10:00:00", attacked, form),
            **values_of(swat.TAGS, len(attacked), rng),
            "label": np.where(is_attack, "Attack", "Normal"),
        }
    )
    head = f"\ufeff Timestamp,{names},Normal/Attack\r\n"
    write_csv(folder / SWAT_ATTACK, head, table)


def write_wadi(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, begin, n_rows, head in (
        (
            "WADI_14days.csv",
            "2017-09-25 18:00:00",
            1_209_601,
            "Created: x\nNumber of rows: x\nInterpolation interval: 1 seconds\n\n",
        ),
        ("WADI_attackdata.csv", "2017-10-09 18:00:00", 172_801, ""),
    ):
        header = ",".join(
            ["Row", "Date", "Time", *(WADI_PREFIX + c for c in wadi.ALL_CHANNELS)]
        )
        with (folder / name).open("wb") as file:
            file.write(f"{head}{header}\n".encode())
            for first in range(0, n_rows, 100_000):
                rows = np.arange(first, min(first + 100_000, n_rows))
                columns = values_of(wadi.TAGS, len(rows), rng)
                empty = pl.Series([None] * len(rows), dtype=pl.Float64)
                table = pl.DataFrame(
                    {
                        "Row": rows + 1,
                        "Date": stamps(begin, rows, "%-m/%-d/%Y"),
                        "Time": stamps(begin, rows, "%-I:%M:%S.000 %p"),
                        **{c: columns.get(c, empty) for c in wadi.ALL_CHANNELS},
                    }
                )
                table.write_csv(file, include_header=False)


def cpu_of(run) -> float:
    before = os.times()
    run()
    after = os.times()
    return after.user - before.user + after.system - before.system


def bench_swat(folder: Path) -> None:
    def plain() -> None:
        pl.read_csv(folder / SWAT_NORMAL, skip_rows=1)
        pl.read_csv(folder / SWAT_ATTACK)

    def ours() -> None:
        open_testbed("swat", folder, cache=False)

    def first() -> None:
        shutil.rmtree(folder / CACHE_FOLDER, ignore_errors=True)
        open_testbed("swat", folder)

    def again() -> None:
        open_testbed("swat", folder)

    for run in (plain, ours, first):
        run()  # imports and the disk's cache
    taken = {
        run.__name__: median(cpu_of(run) for _ in range(TURNS))
        for run in (plain, ours, first, again)
    }
    said = {
        "plain": "one polars.read_csv of each file",
        "ours": "open_testbed('swat'), no Parquet copy",
        "first": "the same, writing the Parquet copy",
        "again": "from the Parquet copy",
    }
    for name, cpu_s in taken.items():
        print(f"{said[name]:40} {cpu_s:5.2f} s, ratio {cpu_s / taken['plain']:.2f}")
    print(f"goal of the ratio: {GOAL_RATIO}")


CHILD = """
import json, os, resource, sys
import sightline
testbed = sightline.open_testbed("wadi", sys.argv[1], cache=False)
times = os.times()
print(json.dumps({
    "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    "cpu_s": times.user + times.system,
    "shape": testbed.train.values.shape,
}))
"""


def bench_wadi(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    print(
        f"WADI A1, train {told['shape']} and test: {told['cpu_s']:.1f} CPU s, peak "
        f"{told['gib']:.2f} GiB (goal {GOAL_GIB})"
    )


def main() -> None:
    work = Path(tempfile.mkdtemp())
    try:
        for name, write, bench in (
            ("swat", write_swat, bench_swat),
            ("wadi", write_wadi, bench_wadi),
        ):
            folder = work / name
            folder.mkdir()
            write(folder)
            bench(folder)
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
