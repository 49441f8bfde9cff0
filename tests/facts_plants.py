"""A small made-up plant, for checks of what is planted in it."""

import numpy as np

from sightline import Recording, Tag
from sightline.data.segments import Attack

N_TRAIN, N_TEST = 6_000, 4_000
TAGS = ("LEVEL", "FLOW", "PRESSURE", "PUMP")
BEGIN = 1_700_000_000.0


def clean(dtype=np.float64, seed=0, n_attacks=8):
    """Return train and test of a plant with nothing wrong: values in two decimals.

    A level that follows its pump, a flow that is zero while the pump stands, and a
    pressure that drifts by the day. Attacks raise the pressure.
    """
    tables = []
    for k, n_rows in enumerate((N_TRAIN, N_TEST)):
        rng = np.random.default_rng([seed, k])
        step = np.arange(n_rows)
        pump = ((step // 200) % 2).astype(float)
        level = 500 + np.cumsum(np.where(pump > 0, 0.5, -0.5))
        flow = np.where(pump > 0, 2.5, 0.0) + pump * rng.normal(0, 0.05, n_rows)
        pressure = 40 + 3 * np.sin(step / 700) + rng.normal(0, 0.3, n_rows)
        level += rng.normal(0, 0.4, n_rows)
        tables.append(np.round(np.column_stack([level, flow, pressure, pump]), 2))
    train, test = tables
    labels = np.zeros(N_TEST, np.int8)
    attacks = []
    # Not evenly spaced, so that no shift moves all of them onto others.
    for k in range(n_attacks):
        start = 150 + 440 * k + 37 * (k * k % 5)
        labels[start : start + 40] = 1
        test[start : start + 40, 2] += 12
        attacks.append(Attack(id=str(k + 1), start=start, stop=start + 40))
    return (
        recording(train.astype(dtype)),
        recording(
            test.astype(dtype), BEGIN + 1e6, labels=labels, attacks=tuple(attacks)
        ),
    )


def recording(values, begin=BEGIN, **known):
    """Return a recording with one row every ten seconds."""
    time = begin + 10.0 * np.arange(len(values))
    tags = [Tag(name=name) for name in TAGS[: values.shape[1]]]
    return Recording(**({"values": values, "tags": tags, "time": time} | known))
