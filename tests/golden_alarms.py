"""Golden vectors of the alarm metrics, and two records as long as a published one."""

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "golden"
FACTS = json.loads((FOLDER / "alarm_metrics.json").read_text(encoding="utf-8"))


@cache
def arrays():
    with np.load(FOLDER / "alarm_metrics.npz") as file:
        return dict(file)


def uniforms(seed, n):
    """SplitMix64: a generator that anyone can write down again."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)) * 2.0**-53


@cache
def large(name):
    """The labels, scores and alarms of a case as long as a published record."""
    facts, golden = FACTS["large"][name], arrays()
    n, smooth = facts["n"], facts["smooth"]
    summed = np.concatenate([[0.0], np.cumsum(uniforms(facts["seed"], n))])
    low = np.maximum(np.arange(n) - smooth + 1, 0)
    scores = (summed[1:] - summed[low]) / (np.arange(n) + 1 - low)
    labels = np.zeros(n, np.int8)
    lifts = uniforms(facts["seed"] + 1, facts["attacks"])
    runs = zip(golden[f"{name}_starts"], golden[f"{name}_stops"], strict=True)
    for k, (start, stop) in enumerate(runs):
        labels[start:stop] = 1
        if k % 2 == 0:
            scores[start:stop] += facts["lift"] * lifts[k]
    if facts["levels"]:
        scores = np.floor(scores * facts["levels"]) / facts["levels"]
    digest = hashlib.sha256(scores.astype("<f8").tobytes()).hexdigest()
    assert digest == facts["scores_sha256"]
    return labels, scores, (scores > facts["threshold"]).astype(np.int8)
