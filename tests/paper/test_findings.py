from pathlib import Path

import numpy as np
import pytest

from sightline.paper import findings
from sightline.paper.findings import (
    SCOPE,
    findings_json,
    findings_markdown,
    judge_findings,
)
from sightline.paper.study import PaperStudy


def judged(results):
    return {f.number: f for f in judge_findings(PaperStudy(results))}


@pytest.fixture(scope="module")
def on_paper(paper):
    return judged(paper)


@pytest.mark.parametrize("number", [1, 3, 6])
def test_findings_of_the_paper_hold_with_its_figures(on_paper, number):
    assert on_paper[number].outcome == "holds"


def outcomes(finding):
    return [one.outcome for one in finding.tried]


def test_each_testbed_of_the_paper_by_itself(on_paper):
    assert outcomes(on_paper[1]) == ["holds", "cannot be judged", "does not hold"]
    assert outcomes(on_paper[3]) == ["does not hold", "holds", "holds"]
    assert outcomes(on_paper[6]) == ["holds"] * 3
    assert "0.025 (TranAD) to 0.764 (GeCo)" in on_paper[1].sentence
    assert "0.164" in on_paper[3].sentence


def test_without_diagnosis_attack_findings_cannot_be_judged(on_paper):
    for number in (2, 4, 5):
        assert on_paper[number].outcome == "cannot be judged"


def alike(make_result, f1s, **known):
    return [
        make_result("x", f"d{k}", roc_auc=0.8 + 0.01 * k, f1=f1, **known)
        for k, f1 in enumerate(f1s)
    ]


@pytest.mark.parametrize(
    ("f1s", "outcome"),
    [
        ((0.7, 0.6, 0.1), "holds"),
        ((0.7, 0.6, 0.5), "does not hold"),
        ((0.09, 0.01, 0.01), "does not hold"),  # none is worth the comparison
        ((0.7, 0.1), "cannot be judged"),
    ],
)
def test_finding_1_follows_the_spread_of_f1(make_result, f1s, outcome):
    assert judged(alike(make_result, f1s))[1].outcome == outcome


def test_finding_1_needs_intervals_that_do_not_overlap(make_result):
    wide = {"intervals": {"f1": (0.0, 0.9)}}
    found = judged(alike(make_result, (0.7, 0.6, 0.1), **wide))[1]
    assert found.outcome == "does not hold"
    assert "overlap" in found.sentence


def test_finding_1_leaves_out_who_ranks_far_below(make_result):
    results = alike(make_result, (0.7, 0.6, 0.5))
    results.append(make_result("x", "poor", roc_auc=0.55, f1=0.01))
    assert judged(results)[1].outcome == "does not hold"


def by_verdict(make_result, verdicts, **known):
    return judged([make_result("x", "a", verdicts=verdicts, **known)])


@pytest.mark.parametrize(("number", "word"), [(2, "drift"), (4, "diluted")])
def test_findings_2_and_4_follow_the_verdicts(make_result, number, word):
    many = by_verdict(make_result, [word] * 4 + ["weak-evidence"] * 2)
    assert many[number].outcome == "holds"
    assert "4 of 6" in many[number].sentence
    one = by_verdict(make_result, [word] + ["weak-evidence"] * 5)
    assert one[number].outcome == "does not hold"
    none = by_verdict(make_result, ["weak-evidence"] * 6)
    assert none[number].outcome == "does not hold"
    seen = by_verdict(make_result, [])
    assert seen[number].outcome == "cannot be judged"


def test_a_ladder_that_blames_calm_time_proves_less(make_result):
    verdicts = ["drift"] * 2 + ["weak-evidence"] * 4
    assert by_verdict(make_result, verdicts, chance=0.0)[2].outcome == "holds"
    assert by_verdict(make_result, verdicts, chance=0.1)[2].outcome == "does not hold"


@pytest.mark.parametrize("number", [2, 4, 5])
@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"chance": 0.4}, "causes cannot be told apart: 40% of attack-free windows"),
        ({"method": 1}, "verdicts by the rules of an earlier version"),
    ],
)
def test_causes_that_prove_nothing_are_left_out_and_named(
    make_result, number, known, why
):
    verdicts = ["drift"] * 3 + ["diluted"] * 3
    assert by_verdict(make_result, verdicts)[number].outcome == "holds"
    found = by_verdict(make_result, verdicts, **known)[number]
    assert found.outcome == "cannot be judged"
    assert f"Left out: a ({why}" in found.sentence
    both = [
        make_result("x", "a", verdicts=verdicts, **known),
        make_result("x", "b", verdicts=["weak-evidence"] * 6),
    ]
    found = judged(both)[number]
    assert found.outcome == "does not hold"
    assert "Left out: a (" in found.sentence


def test_finding_5_needs_two_proven_causes(make_result):
    two = by_verdict(make_result, ["drift"] * 3 + ["threshold"] * 2)
    assert two[5].outcome == "holds"
    assert "3 drift and 2 threshold" in two[5].sentence
    assert by_verdict(make_result, ["drift"] * 5)[5].outcome == "does not hold"


def by_space(make_result, compactnesses):
    return judged(
        [
            make_result("x", f"{space}{k}", space=space, compactness=value)
            for k, (space, value) in enumerate(compactnesses)
        ]
    )


@pytest.mark.parametrize(
    ("compactnesses", "outcome"),
    [
        ([("obs", 0.7), ("obs", 0.8), ("inv", 0.2)], "holds"),
        ([("obs", 0.7), ("obs", 0.8), ("inv", 0.65)], "does not hold"),
        ([("obs", 0.7), ("obs", 0.8), ("inv", 0.75)], "does not hold"),
        ([("obs", 0.7), ("inv", 0.2)], "cannot be judged"),
        ([("obs", 0.7), ("obs", 0.2), ("obs", 0.3)], "cannot be judged"),
        ([("obs", 0.7), ("obs", 0.2), (None, 0.3)], "cannot be judged"),
    ],
)
def test_finding_3_follows_compactness(make_result, compactnesses, outcome):
    assert by_space(make_result, compactnesses)[3].outcome == outcome


def two_plants(make_result, second, jitter=0.0):
    first = [0.6, 0.7, 0.8, 0.9]
    return [
        make_result(bed, f"d{k}", seed=seed, roc_auc=roc + sign * jitter * (k % 2))
        for bed, rocs in (("x", first), ("y", second))
        for k, roc in enumerate(rocs)
        for seed, sign in enumerate((-1, 1))
    ]


def test_finding_6_follows_the_rankings(make_result):
    other = judged(two_plants(make_result, [0.9, 0.8, 0.7, 0.6]))[6]
    assert other.outcome == "holds"
    assert "-1.00 over 4 detectors" in other.sentence
    same = judged(two_plants(make_result, [0.6, 0.7, 0.8, 0.9]))[6]
    assert same.outcome == "does not hold"
    assert "First on both is d3" in same.sentence
    unsure = judged(two_plants(make_result, [0.6, 0.7, 0.8, 0.9], jitter=0.35))[6]
    assert unsure.outcome == "cannot be judged"
    assert "leave it open" in unsure.sentence


def test_finding_6_needs_two_testbeds_and_three_detectors(make_result):
    one = [make_result("x", name) for name in "abc"]
    assert judged(one)[6].outcome == "cannot be judged"
    few = [make_result(bed, name) for bed in "xy" for name in "ab"]
    assert judged(few)[6].outcome == "cannot be judged"


def agreeing(make_result, *, across):
    rng = np.random.default_rng(0)
    base = np.arange(8.0)
    other = rng.permutation(8).astype(float) if not across else base
    orders = {"a": base, "b": base + 0.1 * (base > 4), "c": other}
    return judged(
        [
            make_result(
                "x", name, space="inv" if name == "c" else "obs", d_full=1 + order
            )
            for name, order in orders.items()
        ]
    )


def test_finding_7_follows_agreement(make_result):
    apart = agreeing(make_result, across=False)[7]
    assert apart.outcome == "holds"
    assert "1.00 within a space (1 pairs)" in apart.sentence
    assert agreeing(make_result, across=True)[7].outcome == "does not hold"


def test_finding_7_needs_pairs_of_both_kinds(make_result):
    same = [make_result("x", name) for name in "abc"]
    assert judged(same)[7].outcome == "cannot be judged"


def test_no_attack_at_all_refutes_nothing(make_result, attack_free):
    found = judged([attack_free(make_result("x", name)) for name in "abcd"])
    assert {f.outcome for f in found.values()} == {"cannot be judged"}


def test_findings_are_written_with_their_rules(on_paper):
    findings = tuple(on_paper.values())
    told = findings_markdown(findings)
    assert told.count("\n## ") == 7
    assert told.count("\nRule: ") == 7
    assert SCOPE in told
    listed = findings_json(findings)["findings"]
    assert [f["number"] for f in listed] == list(range(1, 8))
    assert all(f["rule"] and f["tried"] for f in listed)


def test_rules_and_docs_state_the_limits_that_are_used():
    rules = [finding.rule for finding in judge_findings(PaperStudy([]))]
    docs = Path(__file__).parents[2].joinpath("docs/study-tables.md").read_text()
    for number, limits in {
        1: (findings.SIMILAR_ROC_AUC, findings.LEAST_F1, findings.F1_RATIO),
        2: (findings.FEWEST_MISSED, findings.LEVEL, findings.MOST_FALSE_CAUSES),
        3: (findings.COMPACTNESS_GAP,),
        6: (f"{findings.N_SEED_DRAWS:,}", findings.WEAK_RHO, f"{findings.SURE:.0%}"),
        7: (f"{findings.N_ATTACK_DRAWS:,}", findings.FEWEST_ATTACKS),
    }.items():
        for limit in limits:
            assert str(limit) in rules[number - 1]
            assert str(limit) in docs
    assert not any("{" in rule for rule in rules)
