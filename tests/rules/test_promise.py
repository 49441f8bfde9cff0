"""Promises against scipy, by hand, and by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nbinom

from sightline.metrics.alarm_load import Delays
from sightline.rules.limits import Budget, Trace, set_limit
from sightline.rules.promise import (
    LEAST_BETWEEN,
    MOST_BUDGETS,
    REMEMBERED,
    WIDTHS,
    Forecast,
    Kept,
    Promise,
    as_a_whole,
    count_at,
    first_promise,
    origins,
)

COUNTS = st.integers(0, 400)


def promise(forecast, **changes):
    options = {"usual_s": 60.0, "budget": Budget()} | changes
    return Promise(alarms=forecast, time=forecast, **options)


@given(
    st.floats(0.3, 300),
    st.floats(2, 50),
    st.floats(0.15, 2),
    st.sampled_from([0.05, 0.5, 0.95]),
)
def test_quantiles_are_those_of_the_negative_binomial(mean, spread, between, level):
    variance = spread * mean + (between * mean) ** 2
    p = mean / variance
    expected = nbinom.ppf(level, mean * p / (1 - p), p)
    assert count_at(level, mean, variance) == expected


def test_a_forecast_by_hand():
    first = Forecast(per_day=6.0, spread=2.0)
    assert first.between == pytest.approx(0.9)
    hit = first.after(42, 7.0)
    assert hit.per_day == 6.0
    assert hit.errors == (0.0,)
    assert hit.width == pytest.approx(np.exp(-0.039))
    assert hit.between == pytest.approx((8 * 0.81 / 9) ** 0.5 * np.exp(-0.039))
    miss = first.after(700, 7.0)
    assert miss.per_day == pytest.approx(6 + 0.35 * 94)
    assert miss.errors == (pytest.approx(np.log(701 / 43) ** 2 - 2 / 43),)
    assert miss.width == pytest.approx(np.exp(0.35))
    # Commissioning rows say nothing of how wide a promise must be.
    assert first.after(700, 7.0, is_later=False).width == 1.0


@settings(deadline=None)
@given(st.lists(COUNTS, max_size=40))
def test_what_is_learned_stays_within_bounds(counts):
    forecast = Forecast(per_day=6.0, spread=2.0)
    for count in counts:
        forecast = forecast.after(count, 7.0)
        low, high = forecast.interval(7.0)
        assert 0 <= low <= high
        assert WIDTHS[0] <= forecast.width <= WIDTHS[1]
    assert len(forecast.errors) <= REMEMBERED
    assert forecast.between >= LEAST_BETWEEN * WIDTHS[0]


def test_where_nothing_changes_the_promise_narrows():
    rng = np.random.default_rng(0)
    forecast, widths = Forecast(per_day=6.0, spread=2.0), []
    for _ in range(30):
        low, high = forecast.interval(7.0)
        widths.append(high - low)
        forecast = forecast.after(float(2 * rng.poisson(21)), 7.0)
    assert widths[-1] < widths[0] / 2


@pytest.mark.parametrize("kind", ["steady", "regimes", "drift", "steps"])
def test_nine_of_ten_promises_are_kept(kind):
    """Counts of 40 weeks at 6 a day, whose rate changes in four ways."""
    rng, kept = np.random.default_rng(3), []
    for _ in range(30):
        rate = np.full(40, 6.0)
        if kind == "regimes":
            rate *= np.exp(0.5 * rng.normal(size=40))
        elif kind == "drift":
            rate *= np.exp(np.cumsum(0.15 * rng.normal(size=40)))
        elif kind == "steps":
            rate[rng.integers(40) :] *= 2.5
        forecast = Forecast(per_day=6.0, spread=2.0)
        for each in rate:
            low, high = forecast.interval(7.0)
            count = 2 * rng.poisson(3.5 * each)
            kept.append(low <= count <= high)
            forecast = forecast.after(float(count), 7.0)
    assert np.mean(kept) > 0.88


def test_three_budgets_are_noticed_within_a_week_after_quiet_ones():
    rng, noticed = np.random.default_rng(1), []
    for weeks in (0, 4, 12):
        forecast = Forecast(per_day=6.0, spread=2.0)
        for _ in range(weeks):
            forecast = forecast.after(float(2 * rng.poisson(21)), 7.0)
        high = forecast.interval(7.0)[1]
        noticed.append(np.mean(2 * rng.poisson(63, size=400) > high))
    assert noticed == sorted(noticed)
    assert noticed[0] > 0.5
    assert noticed[2] > 0.99


def test_a_period_is_judged_by_count_and_by_time():
    made = promise(Forecast(per_day=6.0, spread=2.0, errors=(0.0,) * 12))
    low, high = made.interval(7.0)
    most = made.most_share(7.0)
    assert most == 0.01  # no less than the budget
    for alarms, share, is_judged, kept in (
        (high, most, True, Kept.KEPT),
        (high + 1, 0.0, True, Kept.BROKEN),
        (high, most + 0.001, True, Kept.BROKEN),
        (low - 1, 0.0, True, Kept.UNUSED),
        (high + 1, 1.0, False, Kept.UNJUDGED),
    ):
        period = made.period(7.0, alarms, share, is_judged=is_judged)
        assert period.kept is kept
        # What is not judged teaches nothing.
        assert (made.after(period) == made) == (not is_judged)


def test_nothing_above_ten_budgets_is_promised():
    made = promise(Forecast(per_day=200.0, spread=2.0), usual_s=3600.0)
    assert made.interval(7.0)[1] == MOST_BUDGETS * 6 * 7
    assert made.most_share(7.0) == pytest.approx(MOST_BUDGETS * 0.01)


def test_one_broken_promise_in_many_is_chance():
    made = promise(Forecast(per_day=6.0, spread=2.0))

    def whole(*alarms):
        periods = [made.period(7.0, float(count), 0.0) for count in alarms]
        return as_a_whole(tuple(periods), made)

    assert whole(42, 42) is Kept.KEPT
    assert whole(900) is Kept.BROKEN
    assert whole(900, *[42] * 7) is Kept.KEPT
    assert whole(900, 900, *[42] * 6) is Kept.BROKEN
    assert whole(0, 0, 0) is Kept.UNUSED
    assert whole() is Kept.UNJUDGED


def test_the_first_promise_is_fed_by_origins_within_the_commissioning_rows():
    rng = np.random.default_rng(2)
    values = rng.exponential(size=40_320)  # 28 days of minutes
    calm = Trace(
        values=values,
        breaks=np.zeros(1, np.int64),
        days=28.0,
        delays=Delays.of_step(60.0),
    )
    assert list(origins(calm, 7.0)) == [(13_440, 23_520), (23_520, 33_600)]
    budget = Budget(per_day=6)
    steady = first_promise(calm, set_limit(calm, budget), budget, 60.0)
    assert len(steady.alarms.errors) == 2
    low, high = steady.interval(7.0)
    assert low < 42 < high
    # Where the last weeks were rougher the promise is higher and wider.
    values[23_520:] *= 1.5
    rough = first_promise(calm, set_limit(calm, budget), budget, 60.0)
    assert sum(rough.alarms.errors) > sum(steady.alarms.errors)
    assert rough.interval(7.0)[1] > high


def test_a_narrow_promise_notices_less():
    wide = promise(Forecast(per_day=6.0, spread=2.0))
    narrow = promise(Forecast(per_day=6.0, spread=2.0, errors=(0.0,) * 12))
    assert 1 < narrow.notices() < wide.notices() < 6
