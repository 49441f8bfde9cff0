"""Alarm and score metrics against what the published implementations give."""

from itertools import pairwise

import numpy as np
import pytest
from golden_alarms import FACTS, arrays, large

from sightline.metrics import ALARM_METRICS

CASES = FACTS["cases"]


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
