"""Limits, against brute force, simulation and scipy."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from sightline import Budget, StreamError
from sightline.metrics.alarm_load import Delays, counted, episodes_of
from sightline.rules.limits import (
    MOST_SWING,
    RANK_RATIO,
    STEEPEST,
    Trace,
    alarms_at_level,
    set_limit,
    spread_of_counts,
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


def curve_by_brute_force(trace, budget):
    """Return costs in budgets and limits at which the cost is larger than before."""
    values = np.sort(trace.values)[::-1]
    n_most = min(len(values), int(max(0.2, budget.share) * len(values)) + 100)
    points, rank = [(0.0, max(values[0], 1e-100))], 1
    while rank < n_most:
        if values[rank] == values[rank - 1]:
            rank += 1
            continue
        limit = (values[rank] + values[rank - 1]) / 2
        n_alarms, share = cost(trace, limit)
        c = max(n_alarms / (budget.per_day * trace.days), share / budget.share)
        if c > points[-1][0]:
            points.append((c, max(limit, 1e-100)))
        if c > 20:
            break
        rank = max(rank + 1, int(rank * RANK_RATIO))
    return points


@settings(deadline=None)
@given(traces(), st.floats(0.5, 20), st.floats(0.005, 0.6))
def test_the_limit_lies_between_candidates_or_on_the_steepest_line(
    trace, per_day, share
):
    budget = Budget(per_day=per_day, share=share)
    limit, points = set_limit(trace, budget), curve_by_brute_force(trace, budget)
    within = [at for c, at in points if c <= 1][-1]
    beyond = [(c, at) for c, at in points if c > 1]
    steep = [[at * c**power for c, at in beyond] for power in STEEPEST]
    highest = max(within * (1 + 1e-8), 1e-100)
    assert limit.value <= min([highest, *(at * (1 + 1e-8) for at in steep[1])])
    # Not lower than the next candidate, nor than a steep fall asks for.
    least = min([beyond[0][1] if beyond else within, *steep[0]])
    assert limit.value >= least * (1 - 1e-8)
    n_alarms, part = cost(trace, limit.value)
    assert (limit.alarms, limit.share) == (n_alarms, pytest.approx(part))
    low, high = limit.interval
    assert low <= limit.value <= high


@pytest.mark.parametrize("n_glitches", [0, 3, 8])
@pytest.mark.parametrize("seed", range(5))
def test_nothing_jumps_where_a_budget_grows_by_a_twentieth(seed, n_glitches):
    """Between 3 and 40 allowed alarms, with and without a handful of glitches."""
    rng = np.random.default_rng(seed)
    values, later = rng.gamma(4.0, size=40_000), rng.gamma(4.0, size=800_000)
    at = rng.choice(40_000, n_glitches, replace=False)
    values[at] *= 10 ** rng.uniform(1, 6, n_glitches)
    breaks, delays = np.zeros(1, np.int64), Delays(off=30, unit=360)
    rows = [
        Trace(values=v, breaks=breaks, days=1.0, delays=delays) for v in (values, later)
    ]
    allowed = 3 * 1.05 ** np.arange(54)
    limits = [set_limit(rows[0], Budget(per_day=a)) for a in allowed]
    steps = [a.value / b.value for a, b in pairwise(limits)]
    assert min(steps) >= 1.0 - 1e-9
    assert max(steps) < 1.3
    made = np.array([limit.alarms for limit in limits])
    assert np.all(made <= np.maximum(1.05 * allowed, allowed + 1) + n_glitches)
    assert np.all(made[1:] <= np.maximum(1.3 * made[:-1], made[:-1] + 2))
    # Later rows are so many that counts tell the rate.
    counts = np.array([rows[1].cost_above(limit.value)[0] / 20 for limit in limits])
    assert np.all(counts[1:] <= np.maximum(1.3 * counts[:-1], counts[:-1] + 4))
    assert np.all(counts[1:] >= counts[:-1])
    # Glitches are spent from the budget, and hide nothing beyond their number.
    assert counts[-1] >= allowed[-1] - n_glitches - 3 * np.sqrt(2 * allowed[-1])
    # At 15 or more allowed they do not decide; clean rows never hang on few peaks.
    swings = [limit.swing for limit in limits]
    assert max(swings[n_glitches and 33 :]) < MOST_SWING


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


def test_counts_that_come_in_bursts_vary_more():
    rng = np.random.default_rng(4)
    even, bursts = rng.exponential(size=(2, 43_200))
    # All that is large falls into a fifth of the time.
    bursts[8640:] *= 0.2
    breaks, d = np.zeros(1, np.int64), Delays.of_step(10.0)
    spreads = [
        spread_of_counts(Trace(values=v, breaks=breaks, days=5.0, delays=d), 10.0)
        for v in (even, bursts)
    ]
    assert spreads[0] == 2.0  # at least this
    assert spreads[1] > 3.0


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
