"""Small streams with stages, a score, attacks and gaps, and the rules made of them."""

from functools import cache

import numpy as np

from sightline import Attack, ResidualStream, commission
from sightline.rules.commission import Commissioning

STEP_S = 60.0
DAY = 1440
CHANNELS = ("LIT101", "FIT101", "MV101", "LIT201", "FIT201", "P201")
STAGES = {"P1": ["LIT101", "FIT101", "MV101"], "P2": ["LIT201", "FIT201"]}
BY_NAME = (
    "score",
    "largest3",
    "log-energy~",
    "quiet~",
    "cusum",
    "z+x~",
)


def residuals(rng: np.random.Generator, n_rows: int, p: int = 6) -> np.ndarray:
    """Return correlated residuals with heavy tails and some memory."""
    mixing = np.eye(p) + 0.4 * np.tri(p, k=-1)
    noise = rng.standard_t(4, size=(n_rows, p)) @ mixing
    for t in range(1, n_rows):
        noise[t] += 0.3 * noise[t - 1]
    return np.asarray(noise * np.geomspace(0.01, 30, p))


@cache
def plant_stream(seed: int = 0, days: int = 9) -> ResidualStream:
    """Return a stream of some days with a row a minute and an attack each later day."""
    rng = np.random.default_rng(seed)
    n = days * DAY
    train, test = residuals(rng, 3 * DAY), residuals(rng, n)
    labels = np.zeros(n, np.int8)
    attacks = []
    for k, start in enumerate(range(DAY, n - 100, DAY)):
        labels[start : start + 40] = 1
        test[start : start + 40, k % 6] += 12 * train[:, k % 6].std()
        attacks.append(Attack(id=f"A{k}", start=start, stop=start + 40))
    time = 1_790_000_000 + STEP_S * np.arange(n)
    time[n // 2 :] += 7200  # the historian was down for two hours
    return ResidualStream(
        train,
        test,
        labels,
        score=np.abs(test / train.std(axis=0)).sum(axis=1),
        channels=CHANNELS,
        test_time=time,
        segments=attacks,
        step_s=STEP_S,
        timezone="Europe/Berlin",
        name="mine",
        detector="var",
        meta={"groups": STAGES, "scale": [1.0, 2.0, 1.0, 0.5, 1.0, 1.0]},
    )


@cache
def made_rules() -> Commissioning:
    """Return the family and the rules by name."""
    return commission(plant_stream(), budget="6/day", rules=BY_NAME, choose="all")


@cache
def one_score() -> Commissioning:
    """Return rules of a single score, of which only large values count."""
    rng = np.random.default_rng(5)
    train, test = (np.abs(residuals(rng, n * DAY, 1)) for n in (3, 6))
    return commission(ResidualStream(train, test, step_s=STEP_S), budget="6/day")
