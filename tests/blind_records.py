"""Small records with fitted detectors, for tests of blind spots."""

from functools import cache

import numpy as np

from sightline import Recording, Tag, make_detector
from sightline.data.arrays import Floats
from sightline.detectors import LearnedDetector

TAGS = (
    Tag(name="LIT101", unit="mm", stage="P1"),
    Tag(name="FIT101", unit="m3/h", stage="P1"),
    Tag(name="AIT201", stage="P2"),
    Tag(name="PIT201", stage="P2"),
    Tag(name="P101", role="actuator", stage="P1"),
)


def ar1(n: int, p: int, coefficient: float, seed: int) -> Floats:
    """Autoregressive noise with a standard deviation of 1."""
    from scipy.signal import lfilter

    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n + 500, p)) * np.sqrt(1 - coefficient**2)
    return np.asarray(lfilter([1.0], [1.0, -coefficient], noise, axis=0)[500:])


def telemetry(n: int, seed: int, *, every_s: float = 10.0) -> Recording:
    """Four correlated sensors about 100 and a pump that switches, in rows of 10 s."""
    rng = np.random.default_rng(seed)
    mixing = np.array(
        [[1, 0.6, 0, 0], [0, 1, 0.4, 0], [0, 0, 1, 0.5], [0.3, 0, 0, 1.0]]
    )
    sensors = 100 + ar1(n, 4, 0.8, seed) @ mixing
    pump = 1.0 + (np.cumsum(rng.random(n) < 0.01) % 2)
    return Recording(values=np.column_stack([sensors, pump]), tags=TAGS, step_s=every_s)


@cache
def fitted(name: str = "var") -> tuple[LearnedDetector, Recording, Recording]:
    """A detector, the recording it was fitted on, and one for falsifications."""
    train, test = telemetry(20_000, 1), telemetry(36_000, 2)
    return make_detector(name).fit(train), train, test
