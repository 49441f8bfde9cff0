"""Limits, tails and promises, against brute force, simulation and scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, genpareto, nbinom

from sightline import Budget, StreamError
from sightline.metrics.alarm_load import Delays, counted, episodes_of
from sightline.rules.limits import (
    RANK_RATIO,
    Limit,
    Promise,
    Trace,
    alarms_at_level,
    promise_of,
    set_limit,
    tail_level,
)
from sightline.rules.making import (
    LEAST_HALF,
    AttackFreePeriod,
    AttackFreeTable,
    Fitting,
    binomial_p_value,
)
from tests import strategies
from tests.rules.made_rules import made_rules, residuals


@st.composite
def traces(draw):
    n = draw(st.integers(2, 500))
    rng = np.random.default_rng(draw(strategies.seeds))
    values = rng.exponential(size=n)
    if draw(st.booleans()):  # rows that are equal
        values = np.floor(values * draw(st.integers(1, 5)))
    if draw(st.booleans()):  # something stands
        values[n // 3 : n // 2] += draw(st.floats(0, 4))
    on = draw(st.integers(1, 3))
    delays = Delays(
        on=on,
        within=on + draw(st.integers(0, 2)),
        off=draw(st.integers(0, 5)),
        unit=draw(st.integers(1, 30)),
    )
    breaks = draw(strategies.breaks(n))
    return Trace(values=values, breaks=breaks, days=n / 50, delays=delays)


def cost(trace, limit):
    found = episodes_of(trace.values > limit, trace.delays, trace.breaks)
    calm = np.ones(trace.n_rows, bool)
    counts, _, rows = counted(found, calm, trace.delays.unit)
    return counts.sum(), rows.sum() / trace.n_rows


def limit_by_brute_force(trace, budget):
    """Return the last candidate before the first that breaks the budget."""
    values = np.sort(trace.values)[::-1]
    n_most = min(len(values), int(max(0.2, budget.share) * len(values)) + 100)
    best, rank = 0, 1
    while rank < n_most:
        if values[rank] == values[rank - 1]:
            rank += 1
            continue
        limit = (values[rank] + values[rank - 1]) / 2
        n_alarms, share = cost(trace, limit)
        if n_alarms > budget.per_day * trace.days or share > budget.share:
            break
        best = rank
        rank = max(rank + 1, int(rank * RANK_RATIO))
    return (values[best] + values[best - 1]) / 2 if best else values[0]


@settings(deadline=None)
@given(traces(), st.floats(0.5, 20), st.floats(0.005, 0.6))
def test_the_limit_is_the_last_before_the_budget_breaks(trace, per_day, share):
    budget = Budget(per_day=per_day, share=share)
    limit = set_limit(trace, budget, tail=False)
    expected = limit_by_brute_force(trace, budget)
    assert limit.value == pytest.approx(expected, rel=1e-8, abs=1e-90)
    n_alarms, part = cost(trace, limit.value)
    assert (limit.alarms, limit.share) == (n_alarms, pytest.approx(part))
    assert n_alarms <= per_day * trace.days
    assert part <= share
    # No row equals the limit.
    assert not (trace.values == limit.value).any()


@settings(deadline=None)
@given(traces(), st.floats(0.1, 20))
def test_the_tail_only_raises_and_never_above_the_largest(trace, per_day):
    budget = Budget(per_day=per_day, share=0.2)
    plain, raised = (set_limit(trace, budget, tail=t) for t in (False, True))
    assert raised.value >= plain.value
    assert raised.value <= max(trace.values.max() * (1 + 1e-8), 1e-100)
    allowed = per_day * trace.days
    if raised.from_tail:
        assert allowed < 10
        assert raised.alarms == allowed
        assert cost(trace, raised.value)[0] <= allowed
    else:
        assert raised == plain


@pytest.mark.parametrize("shape", [-0.15, -1e-12, 0.0, 0.2, 0.4])
def test_the_tail_is_the_generalised_pareto_of_scipy(shape):
    law = genpareto(shape, loc=3.0, scale=2.0)
    peaks = law.ppf((np.arange(20_000) + 0.5) / 20_000)
    level = tail_level(peaks, 3.0, 100)
    assert level == pytest.approx(law.isf(100 / 20_000), rel=0.02)


def test_probability_weighted_moments_of_five_peaks():
    # Hosking and Wallis: with p_i = (i - 0.35) / n, a0 the mean and a1 the mean of
    # (1 - p_i) x_i: shape 2 - a0 / (a0 - 2 a1), scale 2 a0 a1 / (a0 - 2 a1).
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    p = (np.arange(1, 6) - 0.35) / 5
    a0, a1 = x.mean(), np.mean((1 - p) * x)
    shape, scale = 2 - a0 / (a0 - 2 * a1), 2 * a0 * a1 / (a0 - 2 * a1)
    assert -0.2 < shape < 0.5
    expected = genpareto(shape, scale=scale).isf(0.5 / 5)
    assert tail_level(x[::-1], 0.0, 0.5) == pytest.approx(expected)
    # Peaks that are all equal, or at the threshold, have the shortest tail.
    assert tail_level(np.zeros(5), 0.0, 1) == 0.0
    assert tail_level(x, 0.0, 50) == 0.0


def test_peaks_are_taken_where_there_are_sixty():
    rng = np.random.default_rng(3)
    trace = Trace(
        values=rng.exponential(size=20_000),
        breaks=np.zeros(1, np.int64),
        days=10.0,
        delays=Delays(off=10, unit=400),
    )
    starts = alarms_at_level(trace)
    assert 60 <= len(starts) <= 66
    assert (np.diff(starts) > 11).all()


@pytest.mark.parametrize(("alarms", "spread", "days"), [(12, 2, 2), (5, 3.5, 0.7)])
def test_the_promise_is_a_negative_binomial(alarms, spread, days):
    promise = Promise(per_day=6, share=0, days=1.5, spread=spread, alarms=alarms)
    shape, p = alarms / spread + 0.5, 1.5 / (1.5 + days)
    expected = spread * nbinom.ppf([0.05, 0.95], shape, p)
    assert promise.interval(days) == pytest.approx(tuple(expected))


def test_the_interval_of_a_promise_holds():
    """Counts in bursts of two, at a rate that two days have measured."""
    rng = np.random.default_rng(8)
    held = []
    for _ in range(600):
        rate = rng.uniform(3, 12)
        seen, later = 2 * rng.poisson(rate / 2 * np.array([2.0, 2.5]))
        promise = Promise(per_day=seen / 2, share=0, days=2, spread=2, alarms=seen)
        low, high = promise.interval(2.5)
        held.append(low <= later <= high)
    assert 0.87 < np.mean(held) < 0.99


def test_counts_that_come_in_bursts_vary_more():
    rng = np.random.default_rng(4)
    even, bursts = rng.exponential(size=(2, 43_200))
    # All that is large falls into a fifth of the time.
    bursts[8640:] *= 0.2
    breaks, d = np.zeros(1, np.int64), Delays.of_step(10.0)
    limit = Limit(value=5.0, alarms=10, share=0.001)
    spreads = [
        promise_of(Trace(values=v, breaks=breaks, days=5.0, delays=d), limit, 10.0)
        for v in (even, bursts)
    ]
    assert spreads[0].spread == 2.0  # at least this
    assert spreads[1].spread > 3.0
    assert spreads[0].per_day == 2.0


# --- Own tails ------------------------------------------------------------------------


@settings(deadline=None, max_examples=10)
@given(st.integers(40, 4000), strategies.seeds)
def test_levels_are_quantiles_of_all_rows_and_of_each_half(n, seed):
    normal = made_rules().source.normal
    rows = residuals(np.random.default_rng(seed), n)
    rows[:, 2] = normal.reference.mean[2]  # a valve that never moves
    table = AttackFreeTable(
        rows=strategies.ChunkedRows(rows), breaks=np.zeros(1, np.int64)
    )
    fitting = Fitting(normal, ["x"], AttackFreePeriod(tables=(table,), step_s=60.0))
    values = np.abs(rows - normal.reference.mean)
    floor = 1e-3 * normal.spread
    whole = np.maximum(np.quantile(values, 0.999, axis=0), floor)
    np.testing.assert_allclose(fitting.members[0].levels, whole, rtol=1e-12)
    half = (np.arange(n) * 10 // n) % 2
    levels = [
        np.maximum(np.quantile(values[half == k], 0.999, axis=0), LEAST_HALF * whole)
        for k in (0, 1)
    ]
    np.testing.assert_allclose(fitting.half_levels[0], levels, rtol=1e-12)
    # Each half is judged by the level of the other.
    other = np.where(half[:, None] == 0, levels[1], levels[0])
    expected = (values / other).max(axis=1)
    np.testing.assert_allclose(fitting.traces[:, 0], expected, rtol=1e-12)


# --- Budgets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "per_day", "share", "again"),
    [
        ("6/day", 6, 0.01, "6/day,1%"),
        ("6/day,1%", 6, 0.01, "6/day,1%"),
        ("1/week", 1 / 7, 0.01, "1/week,1%"),
        (" 2 a week , 0.5% ", 2 / 7, 0.005, "2/week,0.5%"),
        ("3 per hour", 72, 0.01, "72/day,1%"),
        ("1.5/Days,12.5%", 1.5, 0.125, "1.5/day,12.5%"),
    ],
)
def test_budgets_in_words(text, per_day, share, again):
    budget = Budget.parse(text)
    assert budget.per_day == pytest.approx(per_day)
    assert budget.share == pytest.approx(share)
    assert str(budget) == again
    assert Budget.parse(budget) is budget


@given(st.floats(1e-3, 1e4), st.floats(1e-6, 0.99))
def test_a_budget_survives_its_words(per_day, share):
    budget = Budget(per_day=per_day, share=share)
    again = Budget.parse(str(budget)) if "e" not in str(budget) else budget
    assert again.per_day == pytest.approx(per_day, rel=1e-9)
    assert again.share == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("six a day", "write alarms and a span"),
        ("6", "write alarms and a span"),
        (6, "write alarms and a span"),
        ("6/fortnight", "write alarms and a span"),
        ("0/day", "more than 0 alarms a day"),
        ("6/day,0%", "between 0% and 100%"),
        ("6/day,100%", "between 0% and 100%"),
    ],
)
def test_budgets_that_mean_nothing_are_refused(text, sentence):
    with pytest.raises(StreamError, match=sentence):
        Budget.parse(text)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_binomial_test_is_the_exact_one(share):
    for n in (1, 2, 7, 30):
        for hits in range(n + 1):
            expected = binomtest(hits, n, share).pvalue
            assert binomial_p_value(hits, n, share) == pytest.approx(expected)
