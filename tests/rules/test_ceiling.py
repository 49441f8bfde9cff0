"""The ceiling: likelihoods by scipy, sums by brute force, delays by known truth."""

import numpy as np
import pytest
from ceiling import Kind, cusum, delays_of, limit_for_run_length, stream_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from sightline import Budget, ResidualStream, evaluate
from sightline._kernels.alarms import restarting_sum
from sightline.data.row_tables import ArrayRows
from sightline.data.segments import Segment
from sightline.metrics.alarm_load import Delays, counted, episodes_of
from sightline.rules.ceiling import (
    AttackLaw,
    Ceiling,
    CeilingOutcome,
    RuleAtCeiling,
    ceilings,
    with_sentences,
)
from sightline.rules.commission import commission
from sightline.rules.oracle import AttackFreeLaw, Claims, LikelihoodRatio, oracle_limit
from sightline.rules.scoring import score
from tests import strategies

SIZES = (1.0, 0.0, 4.0, 2.0, 0.0, 1.5)
LENGTH = 200


def attacked(seed=5, p=4, n=40_000, scale=1.0, order=slice(None)):
    """Return a stream with a shift of one channel, by another size in each attack."""
    rng = np.random.default_rng(seed)
    train, test = rng.normal(size=(10_000, p)), rng.normal(size=(n, p))
    labels = np.zeros(n, int)
    for k, size in enumerate(SIZES):
        rows = slice(16_000 + 3500 * k, 16_000 + 3500 * k + LENGTH)
        labels[rows] = 1
        test[rows, 0] += size
    return ResidualStream(
        (train * scale)[:, order], (test * scale)[:, order], labels, step_s=10.0
    )


def ceilings_of(stream, budget="6/day,1%"):
    made = commission(stream, budget=budget)
    return ceilings(score(stream), made)


@given(seed=strategies.seeds, p=st.integers(1, 6), n_rows=st.integers(2, 40))
@settings(deadline=None)
def test_increments_are_the_log_ratio_of_the_two_densities(seed, p, n_rows):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, p)) * rng.uniform(0.2, 3, p) + rng.normal(size=p)
    mean, second = rows.mean(axis=0), n_rows * np.cov(rows.T, bias=True).reshape(p, p)
    shrunk = (second + p * np.eye(p)) / (n_rows + p)
    new = rng.normal(size=(20, p)) * 2
    normal = multivariate_normal(np.zeros(p), np.eye(p))
    for ratio, law in (
        (LikelihoodRatio.of_moments(mean, second, n_rows), (mean, shrunk)),
        (LikelihoodRatio.of_spread(mean, 1.7), (mean, 1.7 * np.eye(p))),
        (LikelihoodRatio.of_mean(mean), (mean, np.eye(p))),
    ):
        expected = multivariate_normal(*law).logpdf(new) - normal.logpdf(new)
        np.testing.assert_allclose(
            ratio.increments(new), expected, rtol=1e-8, atol=1e-8
        )


@given(seed=strategies.seeds, limit=st.floats(0.5, 6), n_rows=st.integers(1, 300))
@settings(deadline=None)
def test_the_sum_restarts_after_an_alarm_and_where_rows_begin(seed, limit, n_rows):
    rng = np.random.default_rng(seed)
    steps, begins = rng.normal(size=n_rows) - 0.2, rng.random(n_rows) < 0.05
    out = np.zeros(n_rows, bool)
    last, _ = restarting_sum(steps, begins, limit, 0.4, out)
    total, places = 0.4, []
    for t in range(n_rows):
        total = max(0.0, (0.0 if begins[t] else total) + steps[t])
        if total > limit:
            places.append(t)
            total = 0.0
    assert np.flatnonzero(out).tolist() == places
    assert last == total


def cost(steps, limit, delays):
    """Return alarms and share of time, counted as for any rule."""
    exceeds = np.zeros(len(steps), bool)
    exceeds[cusum(steps, limit)] = True
    alarms = episodes_of(exceeds, delays)
    counts, _, rows = counted(alarms, np.ones(len(steps), bool), delays.unit)
    return int(counts.sum()), float(rows.sum() / len(steps))


@pytest.mark.parametrize("shift", [0.4, 1.0, 3.0])
def test_the_limit_is_the_lowest_that_keeps_the_budget(shift):
    rng = np.random.default_rng(11)
    steps = shift * rng.normal(size=50_000) - shift**2 / 2
    delays, budget = Delays.of_step(10.0), Budget(per_day=4, share=0.01)
    days = len(steps) * 10 / 86_400
    limit = oracle_limit(steps, np.zeros(1, np.int64), days, delays, budget)
    n_alarms, share = cost(steps, limit, delays)
    assert n_alarms <= 4 * days
    assert share <= 0.01
    n_alarms, share = cost(steps, limit / 1.0101, delays)
    assert n_alarms > 4 * days or share > 0.01


def test_a_row_claims_no_more_than_calm_rows_allow():
    rng = np.random.default_rng(3)
    gaussian = 2 * rng.normal(size=100_000) - 2
    # A true likelihood ratio keeps what it has, all but a few rows of the tail.
    kept = Claims.of(gaussian).of_rows(gaussian)
    assert np.mean(kept != gaussian) < 1e-3
    heavy = 2 * rng.standard_t(2, size=100_000) - 2
    claims = Claims.of(heavy)
    claimed = claims.of_rows(heavy)
    assert claimed.max() <= np.log(100_001)
    for level in (2.0, 5.0, 8.0):
        assert np.mean(claimed >= level) <= np.exp(-level) * (1 + 1e-9)
    order = np.argsort(heavy)
    assert (np.diff(claimed[order]) >= 0).all()


@pytest.mark.parametrize(
    "kind",
    [
        Kind("one channel by 1 sd", 3, 300, (1.0,)),
        pytest.param(Kind("by 2 sd", 10, 200, (2.0,)), marks=pytest.mark.slow),
        pytest.param(
            Kind("spread", 6, 400, (0.5,), (1.0, 3.0)), marks=pytest.mark.slow
        ),
    ],
    ids=lambda kind: kind.name,
)
def test_the_ceiling_is_where_the_best_test_is_and_no_rule_beats_it(kind):
    limit = limit_for_run_length(kind, 400_000)
    delays = {
        name: np.array(values)
        for name, values in delays_of(kind, limit, 200_000, seed=9001).items()
    }
    ceiling, true = delays.pop("ceiling"), delays.pop("true law")
    assert len(ceiling) > 40
    assert ceiling.min() >= 0
    assert ceiling.mean() + 1 == pytest.approx(true.mean() + 1, rel=0.05)
    for name, values in delays.items():
        assert values.mean() > ceiling.mean(), name
        assert np.mean(values < ceiling) <= 0.05, name


def test_an_attack_without_effect_is_not_seen_and_a_large_one_at_once():
    found = ceilings_of(attacked())
    seen = {size: one.delay_s for size, one in zip(SIZES, found, strict=True) if size}
    assert seen[4.0] == 0.0
    assert 0 <= seen[2.0] <= 100
    assert 0 < seen[1.0] <= 400
    for size, one in zip(SIZES, found, strict=True):
        if size == 0:
            assert one.delay_s is None
            assert not one.is_evident
            assert {rule.outcome for rule in one.rules} == {CeilingOutcome.UNSEEN}


def test_calm_rows_that_never_change_have_no_ceiling_and_the_rest_is_measured():
    stream = attacked()
    stuck = np.where(stream.labels[:, None] == 1, np.asarray(stream.test), 0.25)
    evaluation = evaluate(stream.replace(test=stuck), intervals=False, metrics="none")
    assert evaluation.rules is not None
    assert [segment.ceiling for segment in evaluation.segments] == [None] * len(SIZES)


@pytest.mark.parametrize("n_calibration", [0, 40_000])
def test_calibration_alone_may_have_the_calm_time_of_a_ceiling(n_calibration):
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1, 0], [2000, 200, 800])
    test = rng.normal(size=(3000, 4)) + 4.0 * labels[:, None]
    calibration = rng.normal(size=(n_calibration, 4)) if n_calibration else None
    stream = ResidualStream(
        rng.normal(size=(10_000, 4)),
        test,
        labels,
        step_s=10.0,
        calibration=calibration,
    )
    (segment,) = evaluate(stream, intervals=False, metrics="none").segments
    assert (segment.ceiling is not None) == (n_calibration > 0)
    if n_calibration:
        assert segment.ceiling.delay_s == 0.0


@given(seed=strategies.seeds, cuts=strategies.inner_cuts(3000))
@settings(deadline=None, max_examples=20)
def test_one_pass_finds_increments_of_calm_rows_and_the_rows_of_segments(seed, cuts):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(3000, 3)) @ rng.normal(size=(3, 3))
    stream = ResidualStream(values, values, step_s=1.0)
    test = score(stream).test
    # Some rows are neither calm nor of a segment, some are both.
    is_attack_free = rng.random(3000) < 0.8
    segments = [Segment(0, 7), Segment(1000, 1030), Segment(1020, 2100)]
    ratios = [LikelihoodRatio.of_mean(rng.normal(size=3)) for _ in range(2)]
    rows = strategies.ChunkedRows(values, cuts)
    calm = AttackFreeLaw.of(rows, test, is_attack_free)
    traces, own = calm.increments(ratios, segments)
    whitened = (values - calm.reference.mean) @ calm.reference.whitening
    for ratio, trace in zip(ratios, traces, strict=True):
        np.testing.assert_allclose(
            trace, ratio.increments(whitened[is_attack_free]), rtol=1e-10, atol=1e-10
        )
    for segment, found in zip(segments, own, strict=True):
        np.testing.assert_allclose(
            found, whitened[segment.rows], rtol=1e-10, atol=1e-10
        )


def test_no_bit_depends_on_which_attacks_are_looked_at_together():
    rng = np.random.default_rng(8)
    values = rng.normal(size=(5000, 51))
    test = score(ResidualStream(values, values, step_s=1.0)).test
    segments = [Segment(100, 1137), Segment(2000, 2051), Segment(3001, 4008)]
    is_attack_free = np.ones(5000, np.bool_)
    for segment in segments:
        is_attack_free[segment.rows] = False
    calm = AttackFreeLaw.of(ArrayRows(values), test, is_attack_free)
    ratios = [LikelihoodRatio.of_mean(rng.normal(size=51)) for _ in segments]
    traces, own = calm.increments(ratios, segments)
    for k, segment in enumerate(segments):
        [trace], [rows] = calm.increments([ratios[k]], [segment])
        np.testing.assert_array_equal(trace, traces[k])
        np.testing.assert_array_equal(rows, own[k])


def test_effect_free_attacks_are_seen_no_more_often_than_promised():
    rng = np.random.default_rng(77)
    n, p, n_attacks = 60_000, 6, 60
    labels = np.zeros(n, int)
    for start in np.linspace(22_000, 59_000, n_attacks).astype(int):
        labels[start : start + 40] = 1
    stream = ResidualStream(
        rng.normal(size=(5000, p)), rng.normal(size=(n, p)), labels, step_s=10.0
    )
    found = ceilings_of(stream)
    # 5% of 60, and three standard deviations.
    assert sum(one.delay_s is not None for one in found) <= 8


def test_units_and_the_order_of_channels_do_not_matter():
    given_units = ceilings_of(attacked())
    other = ceilings_of(
        attacked(scale=np.array([1e3, 1.0, 1e-4, 7.0]), order=[2, 0, 3, 1])
    )
    for one, two in zip(given_units, other, strict=True):
        assert one.delay_s == two.delay_s
        assert one.law is two.law
        assert one.limit == pytest.approx(two.limit, rel=0.02)


def test_no_row_before_the_attack_counts():
    stream = attacked()
    rows = next(stream.test.chunks()).copy()
    first = 16_000
    calm = ceilings_of(stream)[0]
    # The rows just before look like the attack: the sum begins high, but not negative.
    rows[first - 4 : first, 0] += 1.0
    raised = ceilings_of(stream.replace(test=rows))[0]
    assert 0 <= raised.delay_s <= calm.delay_s


def test_an_attack_that_begins_small_is_seen_by_the_law_of_its_beginning():
    """By the law of all its rows, the first two hundred are nearer to calm rows."""
    rng = np.random.default_rng(7)
    test, labels = rng.normal(size=(40_000, 4)), np.zeros(40_000, int)
    labels[30_000:30_800] = 1
    test[30_000:30_200, 0] += 0.8
    test[30_200:30_800, 0] += 100
    stream = ResidualStream(rng.normal(size=(10_000, 4)), test, labels, step_s=10.0)
    (found,) = ceilings_of(stream)
    assert found.delay_s < 600


def test_a_covariance_that_did_not_change_is_not_part_of_the_law():
    """Six rows a channel: a covariance fits them, and would be seen too early."""
    kind = Kind("shift", 51, 300, (1.0,))
    found = ceilings_of(stream_of(kind, 60_000, seed=5), "40/day,50%")
    assert len(found) > 10
    assert AttackLaw.FULL not in {each.law for each in found}


def test_an_attack_of_one_row_has_no_ceiling():
    stream = attacked()
    labels = stream.labels.copy()
    labels[39_000] = 1
    assert ceilings_of(stream.replace(labels=labels))[-1] is None


def test_the_share_of_divergence_grows_with_the_delay_and_ends_at_one():
    stream = attacked()
    alarms = np.zeros(40_000, int)
    start = 16_000 + 3500 * 2
    shares = []
    for delay in (0, 50, 150, LENGTH - 1):
        alarms[:] = 0
        alarms[start + delay] = 1
        own = ceilings_of(stream.replace(alarms=alarms))[2].rules[1]
        assert own.rule == "own"
        assert own.delay_s == 10.0 * delay
        shares.append(own.divergence_share)
        assert own.could_save_s == 10.0 * delay
        assert own.efficiency == pytest.approx(1 / (delay + 1))
    assert shares == sorted(shares)
    assert shares[0] < 0.02
    assert shares[-1] == 1.0


def one_rule(outcome, **known):
    ceiling = Ceiling(
        delay_s=known.pop("ceiling_s", 60.0),
        p_value=known.pop("p_value", 0.01),
        is_evident=known.pop("is_evident", True),
        n_windows=99,
        law=AttackLaw.MEAN,
        limit=7.0,
        budget="6/day,1%",
        rules=(RuleAtCeiling(rule="all", outcome=outcome, **known),),
    )
    return with_sentences(ceiling).rules[0].sentence


def test_every_outcome_has_its_sentence():
    later = one_rule(
        CeilingOutcome.LATER, delay_s=600.0, could_save_s=540.0, divergence_share=0.3
    )
    assert later == (
        "Rule 'all' alarmed after 10 min, with 30% of the attack's divergence "
        "collected. A better rule could save 9 min; beyond that a better model is "
        "needed."
    )
    assert one_rule(CeilingOutcome.MISSED) == (
        "Rule 'all' did not catch it. A better rule could alarm after 60 s; "
        "beyond that a better model is needed."
    )
    assert one_rule(CeilingOutcome.AT_CEILING, delay_s=60.0, could_save_s=0.0) == (
        "Rule 'all' alarmed after 60 s, at the ceiling: being earlier needs a better "
        "model."
    )
    assert one_rule(CeilingOutcome.AT_CEILING, delay_s=0.0, alarms_per_day=80.0) == (
        "Rule 'all' alarmed in its first row (it makes 80 alarms a day, more than "
        "6/day,1%): no rule can be earlier."
    )
    assert one_rule(
        CeilingOutcome.UNSEEN, ceiling_s=None, p_value=0.2, is_evident=False
    ) == (
        "Rule 'all' did not catch it. Even the ceiling does not see the attack: "
        "in hindsight 19 of 99 attack-free stretches of this length are as far from "
        "normal. A better model is needed."
    )
    assert "which may be chance" in one_rule(
        CeilingOutcome.UNSEEN, ceiling_s=None, delay_s=30.0
    )
    assert one_rule(CeilingOutcome.UNJUDGED).startswith("Rule 'all' was made on rows")


def test_evaluate_reports_it_for_every_attack_and_only_with_a_diagnosis():
    stream = attacked()
    found = evaluate(stream, intervals=False, metrics="none")
    assert [segment.ceiling.rules[0].rule for segment in found.segments] == [
        found.rules.chosen
    ] * len(SIZES)
    assert found.segments[2].ceiling.delay_s == 0.0
    without = evaluate(stream, intervals=False, metrics="none", diagnosis=False)
    assert all(segment.ceiling is None for segment in without.segments)


def test_an_attack_before_the_split_is_not_held_against_the_rule_made_there():
    stream = attacked()
    rows, labels = next(stream.test.chunks()).copy(), stream.labels.copy()
    rows[3000:3100, 1] += 3.0
    labels[3000:3100] = 1
    first = ceilings_of(stream.replace(test=rows, labels=labels))[0]
    assert first.rules[0].outcome is CeilingOutcome.UNJUDGED
    assert first.rules[1].outcome is not CeilingOutcome.UNJUDGED
    assert first.delay_s is not None
