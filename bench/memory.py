"""How much memory does a stream larger than memory need? 10 million x 51 in Parquet.

Writes a folder of float32 parts (2 GB, half train, half test) to a temporary place,
then evaluates it with the command line and reports the largest resident size.
Run: python bench/memory.py [ROWS]
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
CHANNELS, PART_ROWS, GOAL_GIB = 51, 500_000, 1.5


def write_folder(folder: Path) -> None:
    """Write parts one by one, so that making the data needs little memory."""
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(CHANNELS)]
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
        for part in range(ROWS // 2 // PART_ROWS):
            values = rng.standard_normal((PART_ROWS, CHANNELS), dtype=np.float32)
            columns = {name: values[:, j].copy() for j, name in enumerate(names)}
            if split == "test":
                label = np.zeros(PART_ROWS, np.int8)
                label[1000:21_000] = 1
                columns["label"] = label
            # Noise does not compress; trying to would only take time.
            pq.write_table(
                pa.table(columns),
                folder / split / f"part-{part}.parquet",
                compression="none",
                use_dictionary=False,
            )
    (folder / "meta.json").write_text(json.dumps({"step_s": 1.0}))


def main() -> None:
    work = Path(tempfile.mkdtemp())
    try:
        write_folder(work / "large")
        start = time.perf_counter()
        subprocess.run(
            [
                *(sys.executable, "-m", "sightline", "evaluate"),
                *(str(work / "large"), "--out", str(work / "result")),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.perf_counter() - start
        # Linux counts in KiB; the writer above is not a child.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(
            f"{ROWS:,} x {CHANNELS} float32 from Parquet: {peak:.2f} GiB resident "
            f"(goal {GOAL_GIB}), {seconds:.1f} s"
        )
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
