"""Evidence that adds up, against a plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from sightline import Attack, ResidualStream, energy_trace, fit_reference
from sightline._kernels.rows import accumulate
from sightline.data.segments import Segment
from sightline.energy.energy import ScoredTest
from sightline.judgement.calm import AboveLimit, CalmWindows, running_count
from sightline.judgement.evidence import (
    SLACK,
    SPANS,
    WAYS,
    Accumulated,
    accumulate_energy,
    gather_evidence,
)


def plain_loop(values, counted, resets, level, slack, weight):
    out, begin = [], level if weight else 0.0
    state = begin
    for value, counts, anew in zip(values, counted, resets, strict=True):
        if anew:
            state = begin
        if counts and weight:
            state = (1 - weight) * state + weight * value
        elif counts:
            state = max(0.0, state + (value - level - slack))
        out.append(state)
    return np.array(out)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, weight=st.sampled_from([0.0, 2 / 31, 2 / 301, 1.0]))
def test_the_kernel_is_the_plain_loop(seed, weight):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=200)
    counted, resets = rng.random(200) < 0.8, rng.random(200) < 0.05
    level, slack = rng.normal(), rng.random()
    np.testing.assert_allclose(
        accumulate(values, counted, resets, level, slack, weight),
        plain_loop(values, counted, resets, level, slack, weight),
        rtol=1e-10,
        atol=1e-12,
    )


def test_a_sum_never_falls_below_zero_and_an_average_starts_at_its_level():
    every = np.ones(4, bool)
    values, never = np.array([-9.0, 3.0, -1.0, -9.0]), np.zeros(4, bool)
    found = accumulate(values, every, never, 0.0, 0.5, 0.0)
    np.testing.assert_allclose(found, [0, 2.5, 1.0, 0])
    found = accumulate(values, every, never, 1.0, 0.5, 0.5)
    np.testing.assert_allclose(found, [-4, -0.5, -0.75, -4.875])


def expected_above(energy, labels, resets):
    values, is_normal = np.log(energy), labels == 0
    level, spread = np.median(values[is_normal]), np.std(values[is_normal])
    traces = [
        plain_loop(values, labels != -1, resets, level, SLACK * spread, weight)
        for weight in (*(2 / (span + 1) for span in SPANS), 0.0)
    ]
    return traces, [t > np.quantile(t[is_normal], 0.99) for t in traces]


def accumulated(energy, labels, resets):
    return accumulate_energy(energy, labels == 0, labels != -1, resets)


def make_energy(n_rows=3000, seed=0):
    energy = np.random.default_rng(seed).chisquare(6, n_rows) / 2
    labels = np.zeros(n_rows, np.int8)
    labels[1000:1200] = 1
    labels[1500:1600] = -1
    energy[1000:1200] *= 1.6
    return energy, labels


def test_all_ways_are_the_plain_loop_at_the_same_budget():
    energy, labels = make_energy()
    resets = np.zeros(3000, bool)
    resets[[0, 1000, 1200, 2000]] = True
    found = accumulated(energy, labels, resets)
    names = [str(way) for way in found.above]
    assert names == ["average over 30", "average over 300", "cumulative sum"]
    traces, above = expected_above(energy, labels, resets)
    for k, way in enumerate(WAYS):
        np.testing.assert_array_equal(found.above[way].rows, above[k])
        np.testing.assert_array_equal(found.above[way].counts, running_count(above[k]))
        assert np.mean(above[k][labels == 0]) == pytest.approx(0.01, abs=0.001)
    low = traces[0] < np.quantile(traces[0][labels == 0], 0.01)
    np.testing.assert_array_equal(found.is_low, low)


def test_ignored_rows_change_nothing():
    energy, labels = make_energy()
    resets = np.arange(3000) == 0
    before = accumulated(energy, labels, resets)
    energy[labels == -1] *= 1e12
    after = accumulated(energy, labels, resets)
    for way in WAYS:
        np.testing.assert_array_equal(after.above[way].rows, before.above[way].rows)
    np.testing.assert_array_equal(after.is_low, before.is_low)


def test_an_energy_of_zero_is_only_very_little():
    energy, labels = make_energy()
    energy[[5, 1100, 2500]] = 0.0
    found = accumulated(energy, labels, np.arange(3000) == 0)
    assert found.is_low[2500]
    assert found.is_low[labels == 0].mean() == pytest.approx(0.01, abs=0.001)


def test_accumulation_starts_again_at_breaks_and_at_both_ends_of_attacks():
    rng = np.random.default_rng(2)
    train = rng.normal(size=(500, 2))
    reference = fit_reference(train)
    test, labels = rng.normal(size=(3000, 2)), np.zeros(3000, np.int8)
    attacks = [Attack(id=str(s), start=s, stop=s + 100) for s in (900, 2900)]
    for attack in attacks:
        labels[attack.segment.rows] = 1
    energy = energy_trace(test, reference)
    scored = ScoredTest(
        energy=energy,
        labels=labels,
        attacks=attacks,
        breaks=np.array([0, 2000]),
        reference=reference,
        threshold=5.0,
        alarms=energy > 5.0,
    )
    evidence = gather_evidence(ResidualStream(train, test, labels), scored)
    resets = np.zeros(3000, bool)
    resets[[0, 900, 1000, 2000, 2900]] = True
    _, above = expected_above(energy, labels, resets)
    for k, way in enumerate(WAYS):
        np.testing.assert_array_equal(evidence.accumulated.above[way].rows, above[k])


def with_rows_above(rows_of_each, n_rows=1000):
    above = {}
    for way, rows in zip(WAYS, rows_of_each, strict=False):
        is_above = np.zeros(n_rows, bool)
        is_above[rows] = True
        above[way] = AboveLimit(is_above)
    return Accumulated(above=above, is_low=np.zeros(n_rows, bool))


FAR = CalmWindows(length=100, starts=np.arange(0, 400, 10))
NEAR = CalmWindows(length=100, starts=np.arange(600, 900, 10))


def test_the_best_way_counts_and_says_which_it_is():
    ways = with_rows_above([slice(500, 540), slice(500, 570)])
    rung, way = ways.judged(Segment(500, 600), FAR, NEAR)
    assert (rung.visible, rung.coverage) == (True, 0.7)
    assert way == WAYS[1]
    assert rung.by == ("average over 300",)


def test_what_the_windows_near_it_have_too_is_not_its_own():
    ways = with_rows_above([slice(500, 1000), []])
    rung, _ = ways.judged(Segment(500, 600), FAR, NEAR)
    assert (rung.visible, rung.calm) == (False, 1.0)


def test_each_calm_window_may_pick_its_own_best_way():
    ways = with_rows_above([slice(500, 560), slice(0, 400)])
    rung, way = ways.judged(Segment(500, 600), FAR, NEAR)
    assert way == WAYS[0]
    assert rung.by == ("average over 30",)
    assert not rung.visible
