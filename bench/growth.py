"""What many attacks and many channels cost: CPU seconds of a whole `evaluate`.

Attacks of one row each: four times as many should cost at most four times as much.
And 1,000 channels with 2,000 rows.

    python bench/growth.py --attacks 400 1600 --channels 1000
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np

from sightline import ResidualStream, evaluate


def stream_of(n_rows: int, p: int, n_attacks: int) -> ResidualStream:
    """As many rows of train as of test; attacks of one row, evenly spread."""
    rng = np.random.default_rng(3)
    labels = np.zeros(n_rows, np.int8)
    at = np.linspace(50, n_rows - 50, n_attacks).astype(int)
    labels[at] = 1
    test = rng.normal(size=(n_rows, p))
    test[at] += 2.0
    return ResidualStream(rng.normal(size=(n_rows, p)), test, labels, step_s=10.0)


def seconds(stream: ResidualStream, *, diagnosis: bool = True) -> float:
    begin = time.process_time()
    evaluate(stream, diagnosis=diagnosis)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--attacks", type=int, nargs="*", default=[400, 1600])
    parser.add_argument("--channels", type=int, nargs="*", default=[1000])
    options = parser.parse_args()
    evaluate(stream_of(3000, 5, 10))  # compiles
    for n in options.attacks:
        stream = stream_of(options.rows, 10, n)
        rest = seconds(stream, diagnosis=False)
        whole = seconds(stream)
        print(
            f"{n:>5} attacks of one row in {options.rows:,} rows x 10: {whole:.1f} CPU "
            f"s, {whole - rest:.1f} of it diagnosis",
            flush=True,
        )
    for p in options.channels:
        whole = seconds(stream_of(2000, p, 5))
        print(f"{p:>5} channels, 2,000 rows: {whole:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
