"""Evaluate residuals that are in memory, as an analyst does.

    python examples/own_residuals.py [FOLDER]

The arrays stand for the output of your detector: signed residuals (observed minus
expected) of train and test, labels, time stamps, and the alarms it raised.
"""

import sys

import numpy as np

from sightline import Attack, ResidualStream, evaluate, write_results

CHANNELS = ["LIT101", "FIT101", "P101", "AIT201"]
rng = np.random.default_rng(3)

# A day of training and two days of test, one row a minute.
train = rng.normal(size=(1440, 4))
test = rng.normal(size=(2880, 4))
labels = np.zeros(2880, int)
labels[900:960] = labels[2000:2030] = 1
test[900:960, 0] += 4.0  # the level reads far too high
test[2000:2030, 1:3] += 1.2  # flow and pump are a little off

stream = ResidualStream(
    train,
    test,
    labels,
    channels=CHANNELS,
    test_time=np.datetime64("2024-05-01T00:00") + 60 * np.arange(2880).astype("m8[s]"),
    segments=[
        Attack(id="A1", start=900, stop=960, targets=("LIT101",), note="level spoofed"),
        Attack(id="A2", start=2000, stop=2030, targets=("FIT101", "P101")),
    ],
    alarms=(np.abs(test).max(axis=1) > 3.5).astype(int),
    name="own-residuals",
    detector="mine",
    space="observation",
)
evaluation = evaluate(stream)

rank, own, drift = evaluation.rank, evaluation.own_rule, evaluation.drift
print(f"An attack row outranks a normal one {rank.roc_auc:.0%} of the time.")
print(
    f"My own rule alarmed on {own.hits} of {evaluation.stream.n_segments} attacks, "
    f"with {own.false_alarms_per_day:.1f} false alarms a day."
)
for attack in evaluation.segments:
    print(f"{attack.id}: {attack.coverage:.0%} of it above the p99 limit of train.")
print(f"Normal energy moved by {drift.d_drift:+.2f} between train and test.")

folder = sys.argv[1] if len(sys.argv) > 1 else "result"
write_results([evaluation], folder, overwrite=True)
print(f"Written: {folder}/own-residuals/evaluation.json")
