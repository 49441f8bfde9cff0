"""A small plant whose channels move slowly and together, in many units."""

import numpy as np

from sightline.data.recording import Recording, Tag


def recording_of(values, **fields):
    tags = tuple(Tag(name=f"c{k}") for k in range(values.shape[1]))
    return Recording(values=values, tags=tags, **fields)


def plant(n_steps=600, n_channels=3, seed=0):
    noise = np.random.default_rng(seed).normal(size=(n_steps, n_channels))
    values = np.zeros((n_steps, n_channels))
    for t in range(1, n_steps):
        values[t] = 0.9 * values[t - 1] + noise[t] + 0.3 * noise[t, 0]
    return values * 10.0 ** np.arange(-1, n_channels - 1) + 30


def runs_of_scaled(detector, recording):
    """Return each run of a recording as the model sees it, and its first row."""
    scaled = detector.preprocessing.test(recording, detector.settings, np.float64)
    stops = [*scaled.breaks[1:], len(scaled.values)]
    return [
        (int(a), scaled.values[a:b]) for a, b in zip(scaled.breaks, stops, strict=True)
    ]
