"""Twenty million rows on a Dask cluster of one and of two workers of 2 GiB each.

A made-up stream of 10 + 10 million x 51 is written as a Parquet folder (4 GB, removed
at the end), and evaluated in whole: intervals, diagnosis, alarm rules, ceilings.
First a smaller one is evaluated on the cluster and here, and every figure compared
(not with 0). Each cluster evaluates the smaller one before its time is taken, so that
no compiling is counted.
Run: python bench/cluster.py [MILLIONS of train and of test rows [ROWS [WORKERS]]]
where ROWS are those of the smaller stream and WORKERS is a list such as 2 or
1,2,2,1,1,2: clusters of that many workers take turns. A machine that others use as
well changes its speed within minutes: neighbouring runs are compared.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"
# Client, scheduler and workers share the cores: Dask looks after itself less often, as
# docs/scale.md advises.
os.environ["DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL"] = "500ms"
os.environ["DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL"] = "2s"
os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"

import json
import multiprocessing
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from clusters import local_cluster

from sightline import evaluate, on_cluster, read_stream

MILLIONS, CHANNELS, ATTACKS, PART_ROWS = 10, 51, 36, 750_000
EQUAL, GIB = 1e-10, 2**30


@dataclass(frozen=True)
class Used:
    """Seconds, processor seconds and the most memory, of one process."""

    seconds: float
    cpu_s: float
    gib: float


def used(since: float = 0.0) -> Used:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Used(time.perf_counter() - since, time.process_time(), peak / GIB)


def stolen() -> float:
    """Return the processor seconds that a virtual machine wanted and did not get."""
    counted = Path("/proc/stat")
    if not counted.exists():  # Linux alone tells
        return 0.0
    return float(counted.read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


def labels_of(n_rows: int) -> np.ndarray:
    """Attacks of 100 to 5,000 rows, evenly spaced, and one twenty times as long."""
    labels = np.zeros(n_rows, np.int8)
    lengths = np.append(np.linspace(100, 5000, ATTACKS - 1), 100_000)
    scaled = np.minimum(lengths, lengths * n_rows / 10_000_000 + 20).astype(int)
    for k, length in enumerate(scaled.tolist()):
        start = (2 * k + 1) * n_rows // (2 * ATTACKS)
        labels[start : start + length] = 1
    return labels


def write(folder: Path, n_rows: int) -> Path:
    """Write train and test of `n_rows` each, in at least 8 parts."""
    part_rows = min(PART_ROWS, max(n_rows // 8, 1))
    mixing = np.random.default_rng(0).normal(size=(CHANNELS, CHANNELS)) / CHANNELS
    mixing = (np.eye(CHANNELS) + mixing).astype(np.float32)
    labels = labels_of(n_rows)
    for split, seed in (("train", 1), ("test", 2)):
        (folder / split).mkdir(parents=True)
        for start in range(0, n_rows, part_rows):
            rng = np.random.default_rng([seed, start])
            size = (min(part_rows, n_rows - start), CHANNELS)
            values = rng.standard_normal(size, dtype=np.float32) @ mixing
            columns = {}
            if split == "test":
                columns["label"] = labels[start : start + len(values)]
                values[columns["label"] == 1] += 0.3
            columns |= {f"c{j:02d}": values[:, j].copy() for j in range(CHANNELS)}
            path = folder / split / f"part-{start:012d}.parquet"
            pq.write_table(pa.table(columns), path, use_dictionary=["label"])
    # Without seconds a row there are neither alarm rules nor ceilings.
    (folder / "meta.json").write_text(json.dumps({"step_s": 1.0}))
    return folder


def evaluated(folder: str, address: str | None) -> tuple[dict[str, Any], Used]:
    since = time.perf_counter()
    stream = read_stream(folder)
    if address is None:
        return evaluate(stream).to_dict(), used(since)
    with on_cluster(stream, address) as shared:
        return evaluate(shared).to_dict(), used(since)


def apart(folder: Path, address: str | None) -> tuple[dict[str, Any], Used]:
    """Evaluate in a process of its own, whose memory is then known."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(evaluated, str(folder), address).result()


def furthest(one: Any, other: Any) -> float:
    """Return the largest difference of two nested results, beside 1 and their size."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return max((furthest(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list):
        assert len(one) == len(other)
        pairs = zip(one, other, strict=True)
        return max((furthest(a, b) for a, b in pairs), default=0.0)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) / max(1.0, abs(one)) if one != other else 0.0
    assert one == other, (one, other)
    return 0.0


def compare(folder: Path) -> None:
    here, _ = apart(folder, None)
    with local_cluster(nanny=True) as cluster:
        there, _ = apart(folder, cluster.address)
    distance = furthest(json.loads(json.dumps(here)), json.loads(json.dumps(there)))
    print(f"cluster and local differ by {distance:.1e} (goal {EQUAL})", flush=True)


def time_workers(folder: Path, small: Path, n_workers: int) -> tuple[float, float]:
    """Evaluate a stream with some workers; return seconds, and the CPU of the busiest.

    The CPU seconds are those of the client and of the busiest worker together.
    """
    with local_cluster(n_workers, nanny=True) as cluster:
        apart(small, cluster.address)
        with Client(cluster.address, set_as_default=False) as client:
            before = client.run(used)
            stolen_s = stolen()
            _, mine = apart(folder, cluster.address)
            stolen_s = stolen() - stolen_s
            after = client.run(used)
    cpu_s = [after[worker].cpu_s - before[worker].cpu_s for worker in after]
    peaks = ", ".join(f"{worker.gib:.2f}" for worker in after.values())
    print(
        f"{n_workers} of 2 GiB: {mine.seconds:.0f} s; processor "
        f"{', '.join(f'{one:.1f}' for one in cpu_s)} s of workers, "
        f"{mine.cpu_s:.1f} s of the client; peak {peaks} GiB of workers, "
        f"{mine.gib:.2f} GiB of the client; {stolen_s:.1f} s stolen from the cores",
        flush=True,
    )
    return mine.seconds, max(cpu_s) + mine.cpu_s


def main() -> None:
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else MILLIONS
    n_small = int(sys.argv[2]) if len(sys.argv) > 2 else 800_000
    turns = sys.argv[3] if len(sys.argv) > 3 else "1,2,1,2"
    counts = [int(n) for n in turns.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        small = write(Path(folder) / "small", n_small or 100_000)
        if n_small:
            compare(small)
        n_rows = int(millions * 1e6)
        big = write(Path(folder) / "big", n_rows)
        print(f"{2 * n_rows:,} rows x {CHANNELS}, {ATTACKS} attacks", flush=True)
        took = [(n, *time_workers(big, small, n)) for n in counts]
        if {1, 2} <= {*counts}:
            seconds, cpu_s = (
                [np.median([one[k] for one in took if one[0] == n]) for n in (1, 2)]
                for k in (1, 2)
            )
            gain, less = seconds[0] / seconds[1], cpu_s[0] / cpu_s[1]
            pairs = [sorted(pair) for pair in pairwise(took)]
            gains = [a[1] / b[1] for a, b in pairs if (a[0], b[0]) == (1, 2)]
            print(
                f"two workers are {gain:.2f} times as fast as one (medians); "
                f"neighbouring runs: {', '.join(f'{one:.2f}' for one in gains)}, "
                f"median {np.median(gains):.2f}"
            )
            print(f"client and busier worker have {less:.2f} times less (medians)")


if __name__ == "__main__":
    main()
