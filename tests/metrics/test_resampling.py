import time

import numpy as np
import pytest
import scipy.signal
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import breaks, codes, make_stream, seeds, window_energies

from sightline import evaluate, fit_reference
from sightline.data.row_tables import gather_rows
from sightline.data.segments import Segment, segments_of
from sightline.evaluation.uncertainty import figures
from sightline.metrics.intervals import (
    Drawable,
    Floor,
    block_length,
    bootstrap,
    chance,
    count_interval,
    draws,
    figures_of_draw,
    floor_of,
    percentile_interval,
)

TRAIN_MEAN = 0.7


def ar(n, coefficient, seed):
    """An AR(1) series; the legacy generator never changes its numbers."""
    noise = np.random.RandomState(seed).standard_normal(n)
    noise[0] /= np.sqrt(1 - coefficient**2)
    return scipy.signal.lfilter([1.0], [1.0, -coefficient], noise)


def attacks_of(labels, first_rows=(0,)):
    return segments_of(labels == 1, np.asarray(first_rows))


@st.composite
def labelled_energy(draw, *, most=60):
    """Draw (energy, labels, is_alarm, first_rows), with ties or without."""
    labels = draw(codes([0, 0, 1, -1], least=4, most=most)).astype(np.int8)
    attack, normal = draw(
        st.lists(st.integers(0, len(labels) - 1), min_size=2, max_size=2, unique=True)
    )
    labels[attack], labels[normal] = 1, 0
    rng = np.random.default_rng(draw(seeds))
    energy = rng.exponential(size=len(labels)) + 0.5 * (labels == 1)
    if draw(st.booleans()):
        energy = np.floor(2 * energy)
    is_alarm = energy > draw(st.sampled_from([0.5, 1.5, 99.0]))
    return energy, labels, is_alarm, draw(breaks(len(labels)))


def scikit_figures(is_attack, energy, is_alarm):
    """Everything scikit-learn can say of rows that are all attack or normal."""
    auc, measured = sklearn.metrics.roc_auc_score, sklearn.metrics
    precision = measured.precision_score(is_attack, is_alarm, zero_division=np.nan)
    return {
        "roc_auc": auc(is_attack, energy),
        "pauc_1": 2 * auc(is_attack, energy, max_fpr=0.01) - 1,
        "pauc_5": 2 * auc(is_attack, energy, max_fpr=0.05) - 1,
        "average_precision": measured.average_precision_score(is_attack, energy),
        "f1": measured.f1_score(is_attack, is_alarm, zero_division=0.0),
        "precision": precision,
        "recall": measured.recall_score(is_attack, is_alarm),
    }


def mean_segment_auc(groups, normal):
    """Mean over groups of attack energies of their AUC against normal energies."""
    return np.mean(
        [
            sklearn.metrics.roc_auc_score(
                np.arange(len(group) + len(normal)) < len(group),
                np.concatenate([group, normal]),
            )
            for group in groups
        ]
    )


def assert_figures(found, expected):
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), (
            name
        )


# One draw


def weights(draw, n, most=3):
    """Whole weights, not all 0."""
    drawn = draw(st.lists(st.integers(0, most), min_size=n, max_size=n))
    if not any(drawn):
        drawn[draw(st.integers(0, n - 1))] = 1
    return np.array(drawn, float)


def blocks_by_definition(labels, first_rows, block):
    """Return the block of each normal row, and how many blocks there are."""
    number, filled, block_of = -1, 0, np.full(len(labels), -1)
    for row, label in enumerate(labels):
        if label != 0:
            continue
        goes_on = row > 0 and labels[row - 1] == 0 and row not in first_rows
        if not goes_on or filled == block:
            number, filled = number + 1, 0
        block_of[row] = number
        filled += 1
    return block_of, number + 1


@settings(deadline=None, max_examples=60)
@given(labelled_energy(), st.integers(1, 12), st.data())
def test_a_draw_gives_the_figures_of_rows_repeated(drawn, block, data):
    energy, labels, is_alarm, first_rows = drawn
    attacks = attacks_of(labels, first_rows)
    stream = Drawable.of(energy, labels, is_alarm, attacks, first_rows, block=block)
    block_of, n_blocks = blocks_by_definition(labels, first_rows, block)
    assert len(stream.block_rows) == n_blocks
    attack_weight = weights(data.draw, len(attacks))
    block_weight = weights(data.draw, n_blocks)
    times = np.zeros(len(labels), int)
    for attack, weight in zip(attacks, attack_weight, strict=True):
        times[attack.rows] = weight
    times[labels == 0] = block_weight[block_of[labels == 0]]
    rows = np.repeat(np.arange(len(labels)), times)
    normal = energy[rows[labels[rows] == 0]]
    repeated = np.repeat(np.arange(len(attacks)), attack_weight.astype(int))
    expected = scikit_figures(labels[rows] == 1, energy[rows], is_alarm[rows]) | {
        "mean_segment_auc": mean_segment_auc(
            [energy[attacks[k].rows] for k in repeated], normal
        ),
        "d_drift": np.mean(normal) - TRAIN_MEAN,
        "d_drift_robust": np.median(normal) - TRAIN_MEAN,
    }
    found = figures_of_draw(stream, attack_weight, block_weight, train_mean=TRAIN_MEAN)
    assert found.keys() == expected.keys()
    assert_figures(found, expected)


@pytest.mark.parametrize("ties", [False, True])
def test_a_draw_of_a_longer_stream_is_scikit_learns_with_sample_weights(ties):
    rng = np.random.default_rng(1)
    labels = np.zeros(3000, np.int8)
    for start in range(100, 2900, 300):
        labels[start : start + 5 * start // 100] = 1
    labels[50:60] = labels[2950:2960] = -1
    energy = np.exp(ar(3000, 0.9, 0)) + 2 * (labels == 1) * rng.random(3000)
    energy = np.round(energy, 1) if ties else energy
    attacks, is_alarm = attacks_of(labels, [0, 777]), energy > 3
    stream = Drawable.of(energy, labels, is_alarm, attacks, np.array([0, 777]))
    block_of, n_blocks = blocks_by_definition(labels, [0, 777], stream.block)
    rated = labels >= 0
    for attack_weight, block_weight in draws(
        len(attacks), n_blocks, n_replicates=5, seed=3
    ):
        weight = np.zeros(3000)
        weight[labels == 0] = block_weight[block_of[labels == 0]]
        for attack, times in zip(attacks, attack_weight, strict=True):
            weight[attack.rows] = times
        found = figures_of_draw(stream, attack_weight, block_weight, train_mean=0.0)
        known = {
            "y_true": labels[rated] == 1,
            "y_score": energy[rated],
            "sample_weight": weight[rated],
        }
        auc = sklearn.metrics.roc_auc_score
        expected = {
            "roc_auc": auc(**known),
            "pauc_1": 2 * auc(**known, max_fpr=0.01) - 1,
            "pauc_5": 2 * auc(**known, max_fpr=0.05) - 1,
            "average_precision": sklearn.metrics.average_precision_score(**known),
            "d_drift": np.average(energy[labels == 0], weights=weight[labels == 0]),
            "d_drift_robust": np.median(
                np.repeat(energy[labels == 0], weight[labels == 0].astype(int))
            ),
        }
        assert_figures(found, expected)


def test_a_draw_with_nothing_but_ties_costs_about_what_others_do():
    labels = np.repeat([0, 1, 0], [8_000, 4_000, 8_000]).astype(np.int8)

    def seconds(energy):
        stream = Drawable.of(
            energy, labels, labels == 9, attacks_of(labels), np.array([0]), block=10
        )
        taken = []
        for _ in range(4):
            before = time.perf_counter()
            found = bootstrap(stream, train_mean=1.0, n_replicates=2)
            taken.append(time.perf_counter() - before)
        return min(taken), found["roc_auc"].tolist()

    tied, at_chance = seconds(np.ones(20_000))
    untied, _ = seconds(np.random.default_rng(0).random(20_000))
    assert at_chance == [0.5, 0.5]
    assert tied < 30 * untied


@settings(deadline=None, max_examples=40)
@given(labelled_energy(), st.data())
def test_window_figures_of_a_draw_are_those_of_attacks_repeated(drawn, data):
    energy, labels, is_alarm, first_rows = drawn
    whitened = np.sqrt(2 * energy)[:, None]
    windows = window_energies(whitened, labels, first_rows)
    attacks = attacks_of(labels, first_rows)
    stream = Drawable.of(energy, labels, is_alarm, attacks, first_rows, block=3)
    weight = weights(data.draw, len(attacks))
    found = figures_of_draw(
        stream,
        weight,
        np.ones(len(stream.block_rows)),
        train_mean=0.0,
        windows=windows.outcome,
    )
    own, pairs = [], []
    for k, times in enumerate(weight.astype(int)):
        for _ in range(times):
            own.append(windows.attack_d_full[k])
            pairs += [own[-1] > other for other in windows.matched(k)]
    assert found["median_d_full"] == pytest.approx(np.median(own), rel=1e-12)
    expected = np.mean(pairs) if pairs else np.nan
    assert found["p_full"] == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_everything_drawn_once_gives_the_evaluations_own_figures():
    stream = make_stream(strength=1.0, test_breaks=[0, 850])
    labels = stream.labels.copy()
    labels[300:310] = -1
    stream = stream.replace(labels=labels)
    evaluation = evaluate(stream, intervals=False)
    traces = evaluation.traces
    is_alarm = traces.test_energy > evaluation.probe.tau99
    attacks = [attack.segment for attack in stream.attack_segments()]
    assert len(attacks) == 4
    drawable = Drawable.of(
        traces.test_energy, labels, is_alarm, attacks, stream.test_breaks
    )
    reference = fit_reference(stream.train)
    centered = gather_rows(stream.test, np.arange(1200)) - reference.mean
    windows = window_energies(
        centered @ reference.whitening, labels, stream.test_breaks
    )
    found = figures_of_draw(
        drawable,
        np.ones(len(attacks)),
        np.ones(len(drawable.block_rows)),
        train_mean=float(np.mean(traces.train_energy)),
        windows=windows.outcome,
    )
    own = figures(evaluation)
    assert own.keys() - found.keys() == {"hits"}
    assert_figures(found, {name: own[name] for name in found})


# What is drawn


@settings(deadline=None, max_examples=60)
@given(codes([0, 0, 1, -1], most=80), st.integers(1, 20), st.data())
def test_blocks_lie_in_one_stretch_and_never_cross_a_break(labels, block, data):
    labels = labels.astype(np.int8)
    labels[data.draw(st.integers(0, len(labels) - 1))] = 0
    first_rows = data.draw(breaks(len(labels)))
    energy = np.arange(len(labels), 0.0, -1.0)  # falling, so rows stay in order
    attacks = attacks_of(labels, first_rows)
    stream = Drawable.of(energy, labels, energy > 9, attacks, first_rows, block=block)
    rows = np.flatnonzero(labels == 0)
    starts = set(first_rows.tolist())
    for number in range(len(stream.block_rows)):
        own = rows[stream.normal_block == number]
        assert stream.block_rows[number] == len(own)
        assert 1 <= len(own) <= block
        assert own.tolist() == list(range(own[0], own[-1] + 1))
        assert not starts & set(range(own[0] + 1, own[-1] + 1))
        after = own[-1] + 1
        if len(own) < block:
            ends = after == len(labels) or labels[after] != 0 or after in starts
            assert ends
        assert stream.block_energy[number] == pytest.approx(energy[own].sum())
        assert stream.block_alarms[number] == (energy[own] > 9).sum()
    assert stream.block_rows.sum() == len(rows)


def test_the_block_is_estimated_from_the_log_energy_of_normal_rows_alone():
    labels = np.zeros(6000, np.int8)
    labels[1000:3000] = 1
    energy = np.exp(ar(6000, 0.8, 0))
    energy[labels == 1] += 1e3
    stream = Drawable.of(energy, labels, energy > 9, attacks_of(labels), np.array([0]))
    assert stream.block == block_length(np.log(energy[labels == 0]))
    assert 1 < stream.block < block_length(np.log(energy))


def test_a_row_without_any_energy_has_a_block_length_too():
    labels = np.repeat([0, 1, 0], [60, 5, 60]).astype(np.int8)
    energy = np.random.default_rng(0).random(125)
    energy[::7] = 0.0
    stream = Drawable.of(energy, labels, energy > 9, attacks_of(labels), np.array([0]))
    assert stream.block >= 1


def test_a_very_long_stream_is_cut_into_a_bounded_number_of_blocks():
    n = 300_000
    labels = np.zeros(n, np.int8)
    energy = np.random.default_rng(0).random(n)
    stream = Drawable.of(energy, labels, energy > 1, [], np.array([0]))
    assert stream.block == 30
    assert len(stream.block_rows) == 10_000


def test_each_draw_draws_as_many_as_there_are():
    drawn = list(draws(7, 40, n_replicates=200, seed=0))
    assert {attacks.sum() for attacks, _ in drawn} == {7.0}
    assert {blocks.sum() for _, blocks in drawn} == {40.0}
    mean = np.mean([attacks for attacks, _ in drawn], axis=0)
    assert mean == pytest.approx(np.ones(7), abs=0.3)
    assert len({tuple(attacks) for attacks, _ in drawn}) > 100


def autocorrelated(n_attacks=8, n=6000, seed=0, coefficient=0.95):
    """Slow energy with attacks of differing strength."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(n, np.int8)
    energy = np.exp(ar(n, coefficient, seed) / 2)
    for start in np.linspace(100, n - 300, n_attacks).astype(int):
        labels[start : start + 150] = 1
        energy[start : start + 150] *= np.exp(rng.normal(1.0, 1.0))
    return energy, labels


def test_the_same_seed_draws_the_same_and_another_seed_does_not():
    energy, labels = autocorrelated(n=2000)
    attacks = attacks_of(labels)
    stream = Drawable.of(energy, labels, energy > 5, attacks, np.array([0]))

    def drawn(seed):
        return bootstrap(stream, train_mean=1.0, n_replicates=30, seed=seed)

    def moved(seed):
        return chance(energy, labels, energy > 5, attacks, n_shifts=30, seed=seed)

    for make in (drawn, moved):
        one, same, other = make(4), make(4), make(5)
        for name in one:
            np.testing.assert_array_equal(one[name], same[name])
        assert (one["roc_auc"] != other["roc_auc"]).any()


def test_whole_attacks_and_blocks_vary_many_times_more_than_single_points():
    energy, labels = autocorrelated()
    stream = Drawable.of(energy, labels, energy > 5, attacks_of(labels), np.array([0]))
    events = bootstrap(stream, train_mean=1.0, n_replicates=200)["roc_auc"]
    rng = np.random.default_rng(0)
    points = []
    for _ in range(100):
        rows = rng.integers(0, len(labels), len(labels))
        points.append(sklearn.metrics.roc_auc_score(labels[rows] == 1, energy[rows]))
    assert np.std(events) > 5 * np.std(points)


# Block length


def politis_white(series):
    """The block length, term by term, as in Politis and White (2004, 2009)."""
    n = len(series)
    y = series - np.mean(series)
    most = int(np.ceil(np.sqrt(n))) + max(5, int(np.log10(n)))
    r = [np.dot(y[: n - k], y[k:]) / n for k in range(most + 1)]
    run, limit = max(5, int(np.log10(n))), 2 * np.sqrt(np.log10(n) / n)
    small = [abs(value / r[0]) < limit for value in r]
    m = next(
        (m for m in range(most - run + 1) if all(small[m + 1 : m + run + 1])), None
    )
    if m is None or 2 * m > most:
        return None
    width = 2 * max(m, 1)
    g, long_run = 0.0, r[0]
    for k in range(1, width + 1):
        flat_top = min(1.0, 2 * (1 - k / width))
        g += 2 * flat_top * k * r[k]
        long_run += 2 * flat_top * r[k]
    if long_run <= 0:  # no such estimate makes sense
        return None
    best = (2 * g**2 / (4 / 3 * long_run**2) * n) ** (1 / 3)
    return max(1, min(np.ceil(best), np.ceil(min(3 * np.sqrt(n), n / 3))))


@pytest.mark.parametrize("n", [40, 150, 1000, 5000])
@pytest.mark.parametrize("coefficient", [-0.5, 0.0, 0.3, 0.6, 0.9])
def test_the_block_length_is_politis_and_whites(n, coefficient):
    compared = 0
    for seed in range(6):
        series = ar(n, coefficient, seed)
        expected = politis_white(series)
        if expected is not None:
            assert block_length(series) == expected
            compared += 1
    assert compared >= 2


# optimal_block_length(ar(...))["circular"] of the arch package, version 8.0.0. It
# counts its bandwidth from one lag further on, so the two agree to a few percent.
OF_ARCH = {
    (1000, 0.7, 0): 41.652,
    (1000, 0.9, 1): 30.385,
    (1000, 0.97, 0): 59.759,
    (1000, 0.97, 1): 55.209,
    (5000, 0.5, 0): 21.612,
    (5000, 0.7, 0): 33.076,
    (5000, 0.7, 1): 35.690,
    (5000, 0.9, 0): 73.614,
    (5000, 0.97, 0): 142.270,
    (20000, 0.5, 1): 43.003,
    (20000, 0.7, 0): 59.593,
    (20000, 0.9, 0): 142.146,
    (20000, 0.97, 1): 304.792,
}


@pytest.mark.parametrize("of", OF_ARCH, ids=str)
def test_the_block_length_is_about_that_of_the_arch_package(of):
    assert block_length(ar(*of)) == pytest.approx(OF_ARCH[of] + 0.5, rel=0.05, abs=1.5)


def test_white_noise_has_blocks_of_about_1():
    lengths = [block_length(ar(4000, 0.0, seed)) for seed in range(20)]
    assert np.median(lengths) <= 2
    assert max(lengths) <= 12


def test_slower_series_have_longer_blocks():
    medians = [
        np.median([block_length(ar(5000, a, seed)) for seed in range(5)])
        for a in (0.0, 0.3, 0.6, 0.9, 0.97)
    ]
    assert medians == sorted(medians)
    assert medians[-1] > 100


@pytest.mark.parametrize("coefficient", [0.5, 0.8])
@pytest.mark.parametrize("n", [4000, 32_000])
def test_the_block_length_of_ar_1_has_its_closed_form(coefficient, n):
    # sum |k| r_k = 2 a r_0 / (1 - a)^2 and sum r_k = r_0 (1 + a) / (1 - a).
    a = coefficient
    ratio = 2 * a / (1 - a**2)
    expected = (2 * ratio**2 / (4 / 3) * n) ** (1 / 3)
    lengths = [block_length(ar(n, a, seed)) for seed in range(8)]
    assert np.mean(lengths) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("series", [[], [1.0], np.arange(9.0), np.full(500, 3.0)])
def test_too_little_to_estimate_from_gives_single_rows(series):
    assert block_length(np.asarray(series, float)) == 1


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(10, 200), st.sampled_from([-0.99, 0.0, 0.99, 1.0]))
def test_the_block_length_stays_within_its_bounds(seed, n, coefficient):
    noise = np.random.default_rng(seed).normal(size=n)
    series = scipy.signal.lfilter([1.0], [1.0, -coefficient], noise)
    assert 1 <= block_length(series) <= np.ceil(min(3 * np.sqrt(n), n / 3))


# Intervals


@pytest.mark.parametrize("k", [2, 3, 5, 10, 40])
def test_an_interval_is_widened_about_the_estimate_for_few_attacks(k):
    replicates = np.linspace(0.4, 0.6, 1001)
    low, high = percentile_interval("roc_auc", 0.5, replicates, k)
    wider = np.sqrt(k / (k - 1)) * scipy.stats.t.ppf(0.975, k - 1) / 1.96
    assert low == pytest.approx(max(0.0, 0.5 - 0.095 * wider))
    assert high == pytest.approx(min(1.0, 0.5 + 0.095 * wider))


def test_a_skew_interval_stays_skew():
    replicates = np.concatenate([np.full(100, 0.1), np.full(100, 0.13)])
    low, high = percentile_interval("median_d_full", 0.12, replicates, 12)
    assert (0.12 - low) / (high - 0.12) == pytest.approx(2.0)


@pytest.mark.parametrize("name", ["d_drift", "d_drift_robust"])
@pytest.mark.parametrize("k", [0, 1, 2, 20])
def test_drift_needs_no_attacks_and_is_not_widened(name, k):
    replicates = np.random.default_rng(0).normal(size=500)
    assert percentile_interval(name, 0.3, replicates, k) == pytest.approx(
        tuple(np.quantile(replicates, [0.025, 0.975]))
    )


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("roc_auc", 0.0, 1.0),
        ("average_precision", 0.0, 1.0),
        ("mean_segment_auc", 0.0, 1.0),
        ("p_full", 0.0, 1.0),
        ("f1", 0.0, 1.0),
        ("precision", 0.0, 1.0),
        ("recall", 0.0, 1.0),
        ("pauc_1", None, 1.0),
        ("pauc_5", None, 1.0),
        ("median_d_full", 0.0, None),
        ("d_drift", None, None),
    ],
)
def test_intervals_are_clipped_to_what_a_figure_can_be(name, low, high):
    replicates = np.linspace(-3.0, 4.0, 701)
    found = percentile_interval(name, 0.5, replicates, 1000)
    assert found[0] == low if low is not None else found[0] < -2
    assert found[1] == high if high is not None else found[1] > 3


def test_what_cannot_be_told_has_no_interval():
    replicates = np.linspace(0, 1, 50)
    assert percentile_interval("roc_auc", 0.5, replicates, 1) is None
    assert percentile_interval("roc_auc", None, replicates, 5) is None
    assert percentile_interval("precision", 0.5, np.full(50, np.nan), 5) is None


def test_undefined_replicates_are_left_out():
    replicates = np.linspace(0, 1, 101)
    holed = np.concatenate([replicates, np.full(60, np.nan)])
    assert percentile_interval("precision", 0.5, holed, 20) == percentile_interval(
        "precision", 0.5, replicates, 20
    )


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_counts_have_an_exact_interval(n):
    for hits in range(n + 1):
        exact = scipy.stats.binomtest(hits, n).proportion_ci(method="exact")
        assert count_interval(hits, n) == pytest.approx(
            (n * exact.low, n * exact.high), abs=1e-10
        )


def test_a_widened_interval_of_few_attacks_covers_far_more_often():
    # Attacks of random strength; the truth is the mean over all strengths.
    rng = np.random.default_rng(0)
    n, k, length, n_streams = 400, 4, 20, 120
    labels = np.zeros(n, np.int8)
    for start in range(50, 50 + k * 80, 80):
        labels[start : start + length] = 1
    attacks = attacks_of(labels)
    strengths = rng.normal(1.0, 0.8, 4000)
    truth = np.mean(scipy.stats.norm.cdf(strengths / np.sqrt(2)))
    covered = np.zeros(2)
    for _ in range(n_streams):
        energy = rng.normal(size=n)
        for attack in attacks:
            energy[attack.rows] += rng.normal(1.0, 0.8)
        stream = Drawable.of(
            energy, labels, energy > 9, attacks, np.array([0]), block=1
        )
        replicates = bootstrap(stream, train_mean=0.0, n_replicates=100)
        values = replicates["mean_segment_auc"]
        ones = np.ones(k), np.ones(len(stream.block_rows))
        own = figures_of_draw(stream, *ones, train_mean=0.0)["mean_segment_auc"]
        low, high = percentile_interval("mean_segment_auc", own, values, k)
        plain_low, plain_high = np.percentile(values, [2.5, 97.5])
        covered += low <= truth <= high, plain_low <= truth <= plain_high
    assert covered[0] / n_streams > 0.9
    assert covered[1] / n_streams < 0.85


# Chance


@settings(deadline=None, max_examples=12)
@given(labelled_energy(most=24), seeds)
def test_each_shift_gives_the_figures_of_labels_rolled(drawn, seed):
    energy, labels, is_alarm, first_rows = drawn
    attacks = attacks_of(labels, first_rows)
    found = chance(energy, labels, is_alarm, attacks, n_shifts=40, seed=seed)
    # Ignored rows are as if they had never been recorded.
    rated = labels >= 0
    new_row = np.concatenate([[0], np.cumsum(rated)])
    attacks = [Segment(int(new_row[a.start]), int(new_row[a.stop])) for a in attacks]
    energy, labels, is_alarm = energy[rated], labels[rated], is_alarm[rated]
    n = len(labels)
    table = []
    for shift in range(1, max(n, 2)):
        rolled = np.roll(labels, shift)
        moved = [(np.arange(a.start, a.stop) + shift) % n for a in attacks]
        figures_there = scikit_figures(rolled == 1, energy, is_alarm)
        figures_there["hits"] = sum(is_alarm[rows].any() for rows in moved)
        figures_there["mean_segment_auc"] = mean_segment_auc(
            [energy[rows] for rows in moved], energy[rolled == 0]
        )
        table.append(figures_there)
    names = sorted(table[0])
    assert sorted(found) == names
    # What is undefined compares as -9.
    known = np.nan_to_num([[row[name] for name in names] for row in table], nan=-9.0)
    shifts = np.nan_to_num(np.column_stack([found[name] for name in names]), nan=-9.0)
    distance = np.abs(shifts[:, None] - known[None]).max(axis=2)
    assert distance.min(axis=1).max() < 1e-9
    # Every way of moving the labels is tried sooner or later.
    assert (
        len(np.unique(distance.argmin(axis=1))) > 1
        or len(known) == 1
        or (np.ptp(known, axis=0).max() < 1e-9)
    )


def test_a_shift_by_hand():
    # One attack of two rows in four; the three shifts, with ties.
    energy = np.array([3.0, 1.0, 1.0, 0.0])
    labels = np.array([1, 1, 0, 0], np.int8)
    found = chance(energy, labels, energy > 2, attacks_of(labels), n_shifts=60)
    by_shift = {1: (0.5, 0.0), 2: (0.125, 0.0), 3: (0.5, 1.0)}
    assert {*zip(found["roc_auc"], found["hits"], strict=True)} == {*by_shift.values()}


def test_attacks_that_wrap_round_the_end_stay_one_attack():
    labels = np.repeat([1, 0, 1, 0], [3, 7, 3, 7]).astype(np.int8)
    is_alarm = np.zeros(20, bool)
    is_alarm[[0, 19]] = True  # one attack across the end holds both
    energy = np.random.default_rng(0).random(20)
    found = chance(energy, labels, is_alarm, attacks_of(labels), n_shifts=200)
    assert {*found["hits"]} == {0.0, 1.0}
    assert found["recall"].max() == pytest.approx(2 / 6)


def test_window_figures_at_chance_are_those_of_matched_windows():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 0], [60, 10, 90]).astype(np.int8)
    whitened = rng.normal(size=(160, 2))
    windows = window_energies(whitened, labels)
    energy = np.sum(whitened**2, axis=1) / 2
    found = chance(
        energy, labels, energy > 3, attacks_of(labels), windows=windows, n_shifts=400
    )
    matched = windows.matched(0)
    others = {value: np.sum(matched < value) / (len(matched) - 1) for value in matched}
    assert {*found["median_d_full"]} == {*matched}  # each is drawn sooner or later
    for value, share in zip(found["median_d_full"], found["p_full"], strict=True):
        assert share == pytest.approx(others[value])
    assert np.mean(found["p_full"]) == pytest.approx(0.5, abs=0.06)


def test_windows_at_chance_need_another_window_to_compare_with():
    labels = np.repeat([0, 1, 0], [10, 10, 4]).astype(np.int8)
    whitened = np.random.default_rng(0).normal(size=(24, 2))
    windows = window_energies(whitened, labels)
    assert windows.plan.n_matched.tolist() == [1]
    energy = np.sum(whitened**2, axis=1)
    found = chance(energy, labels, energy > 1, attacks_of(labels), windows=windows)
    assert not {"p_full", "median_d_full"} & found.keys()
    assert len(found["roc_auc"]) == 199


# Floors


@pytest.mark.parametrize(("n_reach", "above"), [(0, True), (9, True), (10, False)])
def test_above_its_floor_is_a_figure_that_few_shifts_reach(n_reach, above):
    at_chance = np.full(199, 0.4)
    at_chance[:n_reach] = 0.7
    floor = floor_of(0.7, at_chance)
    assert floor.above_floor is above
    assert floor.value == pytest.approx(at_chance.mean())


def test_a_shift_without_the_figure_does_not_reach_it():
    at_chance = np.full(100, np.nan)
    at_chance[:6] = [0.9, 0.9, 0.9, 0.9, 0.9, 0.1]
    floor = floor_of(0.5, at_chance)
    assert floor == Floor(value=pytest.approx(4.6 / 6), above_floor=True)
    at_chance[:7] = 0.9
    assert floor_of(0.5, at_chance).above_floor is False


def test_what_is_not_known_has_no_floor():
    assert floor_of(None, np.ones(199)) is None
    assert floor_of(0.5, np.full(199, np.nan)) is None


def test_chance_streams_are_rarely_called_above_their_floor():
    rng = np.random.default_rng(0)
    n, n_streams = 400, 200
    labels = np.zeros(n, np.int8)
    for start, stop in ((30, 50), (120, 124), (200, 260), (330, 341)):
        labels[start:stop] = 1
    attacks, rated = attacks_of(labels), {"roc_auc", "average_precision", "p_full"}
    above = dict.fromkeys(rated, 0)
    for seed in range(n_streams):
        level = ar(n, 0.8, seed)
        whitened = rng.normal(size=(n, 2)) * np.exp(level / 4)[:, None]
        energy = np.sum(whitened**2, axis=1) / 2
        windows = window_energies(whitened, labels)
        at_chance = chance(
            energy, labels, energy > 3, attacks, windows=windows, seed=seed
        )
        stream = Drawable.of(
            energy, labels, energy > 3, attacks, np.array([0]), block=9
        )
        own = figures_of_draw(
            stream,
            np.ones(len(attacks)),
            np.ones(len(stream.block_rows)),
            train_mean=1.0,
            windows=windows.outcome,
        )
        for name in rated:
            above[name] += floor_of(own[name], at_chance[name]).above_floor
    # 5% of 200 is 10, give or take 3.
    for name, n_above in above.items():
        assert 2 <= n_above <= 20, name


def test_a_clear_stream_is_above_its_floor_in_everything():
    labels = np.zeros(3000, np.int8)
    for start in (100, 350, 800, 1700, 2850):
        labels[start : start + 30] = 1
    energy = np.exp(ar(3000, 0.3, 0)) + 40.0 * (labels == 1)
    attacks = attacks_of(labels)
    is_alarm = energy > 39.0
    at_chance = chance(energy, labels, is_alarm, attacks)
    perfect = dict.fromkeys(at_chance, 1.0) | {"hits": 5.0}
    for name, values in at_chance.items():
        assert floor_of(perfect[name], values).above_floor is True, name
