"""Write two CSV tables of residuals, read them back and evaluate them.

    python examples/two_tables.py [FOLDER]

The same from the command line::

    sightline evaluate --train FOLDER/train.csv --test FOLDER/test.csv \
        --label attack --time seconds
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

from sightline import evaluate, read_tables

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tables")
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(4)
channels = ["LIT101", "FIT101", "P101"]

test = rng.normal(size=(600, 3))
attack = np.zeros(600, int)
attack[300:330] = 1
test[300:330, 0] -= 5.0

pl.DataFrame(rng.normal(size=(1000, 3)), schema=channels).write_csv(
    folder / "train.csv"
)
pl.DataFrame(test, schema=channels).with_columns(
    attack=pl.Series(attack), seconds=pl.Series(10.0 * np.arange(600))
).write_csv(folder / "test.csv")

stream = read_tables(
    folder / "train.csv", folder / "test.csv", label="attack", time="seconds"
)
evaluation = evaluate(stream)
print(stream)
print(f"An attack row outranks a normal one {evaluation.rank.roc_auc:.0%} of the time.")
print(
    f"The p99 rule alarmed on {evaluation.probe.hits} of "
    f"{evaluation.stream.n_segments} attacks and is in alarm "
    f"{evaluation.probe.false_alarm_rate:.1%} of normal time."
)
