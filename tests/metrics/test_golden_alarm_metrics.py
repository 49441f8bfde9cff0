"""Alarm and score metrics against what the published implementations give."""

import hashlib
import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sightline.metrics import ALARM_METRICS

FOLDER = Path(__file__).parents[1] / "golden"
FACTS = json.loads((FOLDER / "alarm_metrics.json").read_text(encoding="utf-8"))
CASES = FACTS["cases"]


@cache
def arrays():
    with np.load(FOLDER / "alarm_metrics.npz") as file:
        return dict(file)


def check(ours, theirs, tolerance, what):
    if np.isnan(theirs):
        assert ours is None, what
    else:
        assert ours == pytest.approx(theirs, abs=tolerance * max(1, abs(theirs))), what


def values_of(call, labels, given):
    return ALARM_METRICS[call["metric"]](labels, given, **call["params"])


@pytest.mark.parametrize("name", FACTS["calls"])
def test_small_cases(name):
    call, golden = FACTS["calls"][name], arrays()
    given = call["input"].split(", ")[1]
    attacks = np.cumsum([0] + [case["attacks"] for case in CASES])
    n_compared = 0
    for i, (start, stop) in enumerate(pairwise(golden["offsets"])):
        if not golden[f"has_{name}"][i]:
            assert CASES[i]["name"] in FACTS["skipped"][name]
            continue
        figures = values_of(
            call, golden["labels"][start:stop], golden[given][start:stop]
        )
        assert set(figures) >= set(call["outputs"])
        for output, theirs in zip(
            call["outputs"], golden[f"ref_{name}"][i], strict=True
        ):
            where = f"{name} {output} {CASES[i]['name']}"
            check(figures[output], theirs, call["tolerance"], where)
            n_compared += 1
        for output in call["per_attack"]:
            theirs = golden[f"ref_{name}_{output}"][attacks[i] : attacks[i + 1]]
            for one, other in zip(figures[output], theirs, strict=True):
                check(one, other, call["tolerance"], f"{name} {output}")
    assert n_compared >= 40 * len(call["outputs"])


def test_cases_that_only_we_define_have_a_value():
    """NAB's code divides by zero for a window of one row; ours counts it."""
    golden = arrays()
    for name, cases in FACTS["skipped"].items():
        for case in cases:
            i = [c["name"] for c in CASES].index(case)
            rows = slice(*golden["offsets"][i : i + 2])
            call = FACTS["calls"][name]
            given = golden[call["input"].split(", ")[1]]
            figures = values_of(call, golden["labels"][rows], given[rows])
            assert all(figures[output] is not None for output in call["outputs"])


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


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, name) for case, facts in FACTS["large"].items() for name in facts["calls"]],
)
def test_large_cases(case, name):
    call = FACTS["large"][case]["calls"][name]
    labels, scores, alarms = large(case)
    figures = values_of(call, labels, alarms if "alarms" in call["input"] else scores)
    for output, theirs in zip(call["outputs"], call["values"], strict=True):
        theirs = np.nan if theirs is None else theirs
        check(figures[output], theirs, call["tolerance"], f"{case} {name} {output}")
