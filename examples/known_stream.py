"""Make a residual stream whose properties are known, and write it to a file.

A detector with 20 channels watches a plant for two days, one row every ten seconds.
Its residuals are Gaussian noise with some correlation. Four attacks follow:

- `pump`: a large shift on every channel; any rule sees it.
- `valve`: a shift on one channel only; pooled over 20 channels it is nearly lost.
- `creep`: a small lasting shift; it ranks above normal, but stays below the limit.
- `blocked`: an attack without effect; there is nothing to see.
"""

import sys
from pathlib import Path

import numpy as np

from sightline import Attack, ResidualStream, write_stream

STEP_S = 10
ROWS_A_DAY = 86_400 // STEP_S
N_CHANNELS = 20


def known_stream(seed: int = 1) -> ResidualStream:
    """Return the stream; the same seed gives the same numbers."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(N_CHANNELS) + 0.2 * rng.normal(size=(N_CHANNELS, N_CHANNELS))
    train = rng.normal(size=(2 * ROWS_A_DAY, N_CHANNELS)) @ mixing
    test = rng.normal(size=(2 * ROWS_A_DAY, N_CHANNELS)) @ mixing
    labels = np.zeros(len(test), int)
    attacks = [
        Attack(id="pump", start=3000, stop=3360, targets=("P101",)),
        Attack(id="valve", start=7000, stop=7180, targets=("channel_4",)),
        Attack(id="creep", start=11000, stop=11720, targets=("LIT301",)),
        Attack(id="blocked", start=15000, stop=15090, note="no physical effect"),
    ]
    for attack in attacks:
        labels[attack.start : attack.stop] = 1
    test[3000:3360] += 4.0 * mixing.sum(axis=0)
    test[7000:7180, 4] += 2.5
    test[11000:11720] += 0.5 * mixing.sum(axis=0)
    return ResidualStream(
        train.astype(np.float32),
        test.astype(np.float32),
        labels,
        test_time=np.arange(len(test)) * float(STEP_S),
        segments=attacks,
        detector="made up",
        testbed="none",
        space="observation",
    )


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "known.npz")
    write_stream(known_stream(), path)
    print(f"Written: {path}")
