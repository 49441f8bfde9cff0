import numpy as np
import pytest
import scipy.stats

from sightline.metrics.intervals import (
    Ends,
    count_interval,
    effective_attacks,
    interval_of,
    one_more_attack,
    weighted_median,
)

RNG = np.random.default_rng(0)


def drawn(values, weight, *, n=20_000, unseen=0.0):
    """The interval of a mean over attacks, from many draws."""
    gamma = np.vstack(
        [[0.0, *np.ones(len(weight))], RNG.exponential(size=(n, 1 + len(weight)))]
    )
    values, weight = np.array([values], float), np.asarray(weight) / np.sum(weight)
    ends = one_more_attack(values, weight, gamma, unseen)
    return interval_of(ends.estimate, ends)


@pytest.mark.parametrize(
    ("hits", "n"), [(0, 1), (1, 1), (0, 5), (2, 5), (5, 5), (3, 8), (20, 35), (35, 35)]
)
def test_zeros_and_ones_of_equal_weight_have_clopper_and_pearsons_interval(hits, n):
    exact = scipy.stats.binomtest(hits, n).proportion_ci(method="exact")
    found = drawn([1.0] * hits + [0.0] * (n - hits), np.ones(n))
    assert found == pytest.approx((exact.low, exact.high), abs=0.01)


def test_one_attack_that_is_wholly_seen_excludes_very_little():
    assert drawn([1.0], [1.0]) == pytest.approx((0.025, 1.0), abs=0.005)


def test_attacks_of_unlike_weight_tell_less():
    values = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    even, uneven = drawn(values, np.ones(6)), drawn(values, [20, 1, 1, 1, 1, 1])
    assert uneven[1] - uneven[0] > even[1] - even[0]


def test_one_more_attack_weighs_what_an_attack_weighs_on_average():
    gamma = np.array([[2.0, 1.0, 3.0]])
    ends = one_more_attack(np.array([[0.4, 0.9]]), np.array([0.25, 0.75]), gamma, 0.5)
    s = 0.25**2 + 0.75**2
    whole = 0.25 + 3 * 0.75 + 2 * s
    assert ends.low[0] == pytest.approx((0.25 * 0.4 + 2.25 * 0.9 + s) / whole)
    assert ends.high[0] == pytest.approx((0.25 * 0.4 + 2.25 * 0.9 + 2 * s) / whole)


def test_an_unseen_attack_may_rank_anywhere_among_attack_free_windows():
    gamma = np.array([[2.0, 1.0, 3.0], [2.0, 1.0, 3.0]])
    values, weight = np.array([[0.8, 0.9]]), np.array([0.5, 0.5])
    ends = one_more_attack(values, weight, gamma, np.array([0.0, 1.0]))
    assert ends.low == pytest.approx([(0.4 + 1.35) / 3, (0.4 + 1.35 + 1) / 3])


def test_a_figure_below_unseen_has_its_lowest_attack_once_more():
    gamma = np.array([[1.0, 1.0, 1.0]])
    ends = one_more_attack(np.array([[0.1, 0.5]]), np.array([0.5, 0.5]), gamma, 0.5)
    assert ends.low[0] == pytest.approx((0.5 * 0.1 + 0.5 * 0.5 + 0.5 * 0.1) / 1.5)


@pytest.mark.parametrize("n", [2, 5, 6, 20])
def test_a_median_is_bounded_above_from_six_attacks_on(n):
    d_full = np.arange(1.0, n + 1)
    gamma = np.vstack([[0.0, *np.ones(n)], RNG.exponential(size=(20_000, 1 + n))])
    ends = weighted_median(d_full, gamma)
    assert ends.estimate == np.median(d_full)
    low, high = interval_of(ends.estimate, ends, high=np.inf)
    assert low <= np.median(d_full)
    assert (high is None) is (n < 6)


def test_a_weighted_median_by_hand():
    gamma = np.array([[1.0, 2.0, 1.0, 3.0], [8.0, 1.0, 1.0, 1.0]])
    ends = weighted_median(np.array([30.0, 10.0, 20.0]), gamma)
    # One more attack at 0: weights 1, 1, 3, 2 of 0, 10, 20, 30; then 8 at 0.
    assert ends.low.tolist() == [20.0, 0.0]
    assert ends.high.tolist() == [20.0, np.inf]


def test_an_interval_holds_the_estimate_and_ends_where_the_figure_does():
    low, high = np.linspace(-3, 4, 701), np.linspace(-2, 5, 701)
    assert interval_of(0.5, Ends(low, high)) == (0.0, 1.0)
    assert interval_of(9.0, Ends(low, high), low=-np.inf, high=np.inf)[1] == 9.0
    assert interval_of(-9.0, Ends(low, high), low=-np.inf, high=np.inf)[0] == -9.0


def test_what_cannot_be_told_has_no_interval():
    known = np.linspace(0, 1, 50)
    assert interval_of(None, Ends(known, known)) is None
    assert interval_of(0.5, Ends(np.full(50, np.nan), known)) is None


def test_undefined_draws_are_left_out():
    known = np.linspace(0, 1, 102)
    holed = np.append(known, np.full(60, np.nan))
    assert interval_of(0.5, Ends(holed, holed)) == interval_of(0.5, Ends(known, known))


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_counts_have_an_exact_interval(n):
    for hits in range(n + 1):
        exact = scipy.stats.binomtest(hits, n).proportion_ci(method="exact")
        assert count_interval(hits, n) == pytest.approx(
            (n * exact.low, n * exact.high), abs=1e-10
        )


def test_one_attack_with_most_rows_weighs_like_few():
    assert effective_attacks(np.ones(35)) == pytest.approx(35)
    # One of 35 attacks holds two thirds of the rows.
    assert effective_attacks(np.append(np.ones(34), 68.0)) == pytest.approx(
        2.24, abs=0.01
    )


@pytest.mark.parametrize("n", [3, 5, 8])
def test_few_attacks_of_random_worth_are_covered(n):
    # 20% of attacks are worth nearly 1, the others nearly nothing.
    rng = np.random.default_rng(n)
    lengths = np.resize([10, 160, 20, 80, 40], n)
    covered = 0
    for _ in range(300):
        clear = rng.random(n) < 0.2
        values = np.where(clear, rng.uniform(0.8, 1, n), rng.uniform(0, 0.1, n))
        low, high = drawn(values, lengths, n=300)
        covered += low <= 0.2 * 0.9 + 0.8 * 0.05 <= high
    assert covered / 300 >= 0.93


def test_all_and_nothing_of_a_count_end_at_the_ends_of_its_range():
    assert count_interval(0, 26)[0] == 0.0
    assert count_interval(26, 26)[1] == 26.0


def test_more_hits_than_tries_have_no_interval():
    assert np.isnan(count_interval(12, 6)).all()
