"""From the outcomes of the rungs to a verdict, and what each rung looks at."""

import numpy as np
import pytest

from sightline.judgement.event_test import Judged
from sightline.judgement.ladder import (
    LADDER,
    LADDER_LEVEL,
    ORDER,
    MomentCases,
    causes,
    contributing,
    decide,
)
from sightline.judgement.record import averages
from sightline.judgement.verdicts import RungName, Verdict

N_WINDOWS = 60


def judged(coverage=0.0, *, peak=False, is_rare=True, is_far=False):
    """Return an outcome: shown by this coverage if above 0, or by its peak."""
    is_shown = coverage > 0
    return Judged(
        by_coverage=np.array([is_shown]),
        by_peak=np.array([peak]),
        p_value=np.array([1 / 61]),
        coverage=np.array([coverage]),
        best=np.zeros(1, np.int64),
        way=np.zeros(1, np.int64),
        t=np.array([10.0 if is_shown else 0.0]),
        calm_t=np.full((1, N_WINDOWS), 0.0 if is_rare else 20.0),
        median=np.zeros((1, 1, 3)),
        rare=np.zeros((1, 1, 3)),
        peak_effects=np.array([[peak, False]]),
        is_far=np.array([is_far]),
    )


NAMES = ("evidence", "reference", "space", "memory")
PEAK = "peak"


def verdict_of(probe=0.0, coverages=(), *, quiet=False, own_rule=None, **known):
    """Return the verdict; a coverage of None is a rung that does not apply."""
    outcomes = {} if own_rule is None else {"own-rule": judged(own_rule)}
    outcomes["probe"] = judged(probe)
    given = (*coverages, *[0.0] * (4 - len(coverages)))
    for name, coverage in zip(NAMES, given, strict=True):
        if coverage == PEAK:
            outcomes[name] = judged(peak=True)
        elif coverage is not None:
            outcomes[name] = judged(coverage)
    verdicts, _ = decide(outcomes, np.array([quiet]), **known)
    return ORDER[verdicts[0]]


@pytest.mark.parametrize(
    ("coverages", "verdict"),
    [
        # One repair alone.
        ((0.5, 0, 0, 0), "threshold"),
        ((0, 0.5, 0, 0), "drift"),
        ((0, 0, 0.5, 0), "diluted"),
        ((0, 0, 0, 0.5), "sequential"),
        ((0, 0, 0, 0), "weak-evidence"),
        ((0, None, 0, 0), "weak-evidence"),
        ((0, None, None, 0.5), "sequential"),
        # The first with 0.75 of the best.
        ((0.75, 1.0, 0, 0), "threshold"),
        ((0.74, 1.0, 0, 0), "drift"),
        ((0.74, 0.74, 1.0, 0), "diluted"),
        ((0.5, 0.75, 1.0, 0), "drift"),
        # Only those that cover half of what accumulation covers.
        ((0.5, 0, 0, 1.0), "threshold"),
        ((0.49, 0, 0, 1.0), "sequential"),
        ((0.45, 0.60, 0, 1.0), "drift"),
        ((0.4, 0, 0.35, 0.9), "sequential"),
        # Another reference by its peak alone comes after all that coverage shows.
        ((PEAK, 0, 0, 0), "threshold"),
        ((0, PEAK, 0, 0), "drift"),
        ((PEAK, PEAK, 0, 0), "threshold"),
        # What a single row shows does not have to accumulate.
        ((PEAK, 0, 0, 0.3), "threshold"),
        ((PEAK, 0, 0.3, 0), "diluted"),
    ],
)
def test_the_cause_is_the_cheapest_repair_that_gets_nearly_all(coverages, verdict):
    assert verdict_of(coverages=coverages) == verdict
    # Whatever a repair shows: what the present rule shows is detected.
    assert verdict_of(0.4, coverages) == "detected"
    # Quiet is judged last.
    if verdict == "weak-evidence":
        assert verdict_of(coverages=coverages, quiet=True) == "quiet"
    else:
        assert verdict_of(coverages=coverages, quiet=True) == verdict


def test_the_users_own_rule_is_the_present_one():
    assert verdict_of(own_rule=0.5) == "detected"
    # What the p99 rule shows and the own rule misses is a matter of the limit.
    assert verdict_of(0.5, own_rule=0.0) == "threshold"
    assert verdict_of(0.5, (0, 0, 0, 0.9), own_rule=0.0) == "threshold"
    assert verdict_of(own_rule=0.0) == "weak-evidence"


def test_a_standing_rule_finds_nothing_and_says_nothing_of_the_other():
    own, both = frozenset(["own-rule"]), frozenset(["own-rule", "probe"])
    assert verdict_of(standing=frozenset(["probe"]), probe=0.5) == "weak-evidence"
    assert verdict_of(own_rule=0.5, standing=own) == "weak-evidence"
    assert verdict_of(0.5, own_rule=0.5, standing=own) == "threshold"
    assert verdict_of(0.5, own_rule=0.5, standing=both) == "weak-evidence"
    assert verdict_of(0.5, (0.5,), own_rule=0.5, standing=both) == "threshold"


@pytest.mark.parametrize(
    ("n_reached", "verdict"), [(1, "threshold"), (2, "weak-evidence")]
)
def test_the_ladder_pays_for_its_length(n_reached, verdict):
    # Some calm windows stand out as much in another rung: p of 2/61 and 3/61.
    outcomes = {"probe": judged(), "evidence": judged(0.5), "memory": judged()}
    outcomes["memory"].calm_t[0, :n_reached] = 10.0
    verdicts, p_value = decide(outcomes, np.zeros(1, bool))
    assert p_value[0] == pytest.approx((1 + n_reached) / 61)
    assert ORDER[verdicts[0]] == verdict


def test_many_cases_are_decided_as_each_by_itself():
    one, other = judged(0.6), judged()
    both = {
        name: Judged(
            **{
                key: np.concatenate([getattr(a, key), getattr(b, key)])
                for key in vars(one)
            }
        )
        for name, a, b in (
            ("probe", other, other),
            ("evidence", other, one),
            ("memory", other, other),
        )
    }
    found, _ = decide(both, np.array([True, True]))
    assert [ORDER[k] for k in found] == ["quiet", "threshold"]


def test_other_causes_that_are_shown_contribute():
    names = ["probe", "evidence", "reference", "memory"]
    assert contributing(names, Verdict.DRIFT) == ("threshold", "sequential")
    assert contributing([], Verdict.DETECTED) == ()


def test_every_rung_but_the_rules_proves_a_cause_and_has_a_repair():
    proving = {name for name in LADDER if name not in ("own-rule", "probe")}
    assert set(causes()) == proving
    assert all(LADDER[name].repair for name in proving)
    assert list(LADDER) == list(RungName)
    # A few channels, and one moment of one tag, are both cured by smaller spaces.
    assert len(set(causes().values())) == len(proving) - 1


def moment(*, far=False):
    return MomentCases(is_shown=np.array([True]), is_far=np.array([far]))


@pytest.mark.parametrize(
    ("coverages", "far", "verdict"),
    [
        ((0, 0, 0, 0), False, "diluted"),
        ((0, 0, 0, 0.9), False, "diluted"),
        ((PEAK, 0, 0, 0.9), False, "threshold"),
        ((0, 0.9, 0, 0), False, "drift"),
        # Far outside it is cheaper than another reference.
        ((0, 0.9, 0, 0), True, "diluted"),
        ((PEAK, 0.9, 0, 0), True, "threshold"),
        ((0.9, 0.9, 0, 0), True, "threshold"),
        ((0, PEAK, 0, 0), False, "diluted"),
    ],
)
def test_one_moment_of_one_tag_has_its_place(coverages, far, verdict):
    assert verdict_of(0.0, coverages, moment=moment(far=far)) == verdict


def test_nothing_shown_is_undecided_where_a_rung_was_not_tried():
    assert verdict_of(0.0, (0, 0, None, 0), untried=True) == "undecided"
    assert verdict_of(0.0, (0, 0, None, 0.9), untried=True) == "sequential"


def test_far_outside_a_handful_of_windows_does_not_veto():
    outcomes = {"probe": judged()}
    outcomes["evidence"] = judged(0.9, is_rare=False, is_far=True)
    verdicts, p_value = decide(outcomes, np.zeros(1, bool))
    assert p_value[0] > LADDER_LEVEL
    assert ORDER[verdicts[0]] == "threshold"


@pytest.mark.parametrize("span", [30, 300])
def test_averages_are_the_recursion_and_keep_their_spread(span):
    rows = np.random.default_rng(0).normal(size=(400, 2))
    w, state, expected = 2 / (span + 1), np.zeros(2), []
    for t, row in enumerate(rows, start=1):
        state = (1 - w) * state + w * row
        expected.append(state / np.sqrt(1 - (1 - w) ** (2 * t)))
    np.testing.assert_allclose(averages(rows, span), expected)
    many = averages(np.random.default_rng(1).normal(size=(200, 4000)), span)
    spread = many.std(axis=1)
    np.testing.assert_allclose(spread, spread[0], rtol=0.08)
