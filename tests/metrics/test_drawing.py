import time

import numpy as np
import pytest
import scipy.signal
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import breaks, codes, make_stream, seeds, window_energies

from sightline import evaluate, fit_reference
from sightline.data.row_tables import gather_rows
from sightline.data.segments import segments_of
from sightline.evaluation.measure import matched_windows
from sightline.figures import with_interval
from sightline.metrics import intervals
from sightline.metrics.intervals import (
    Drawable,
    Draws,
    MatchedWindows,
    Value,
    attacks_of_rows,
    block_length,
    block_of_calm,
    blocks_of_rows,
    draw,
    drift_ends,
    ends_of,
    log_of,
    weights_of,
)


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


def cut(energy, labels, is_alarm, first_rows, block, windows=None):
    """Cut a stream into its attacks and blocks, as an evaluation does."""
    attacks = attacks_of(labels, first_rows)
    block_of = blocks_of_rows(labels, np.asarray(first_rows), block)
    known = {}
    if windows is not None:
        plan = windows.plan
        known["d_full"] = windows.attack_d_full
        known["windows"] = matched_windows(
            windows.attack_d_full,
            plan.group,
            np.array([attack.length for attack in attacks]),
            windows.normal_d_full,
            plan.starts[plan.is_normal],
            plan.normal_bounds,
            block_of,
        )
    return Drawable.of(
        energy,
        is_alarm,
        attacks_of_rows(attacks, len(labels)),
        block_of,
        block=block,
        n_attacks=len(attacks),
        n_blocks=int(block_of.max()) + 1,
        **known,
    )


def chosen(data, stream, *, most=3):
    """One draw of any block counts, not all 0, and any weights of attacks."""
    n_blocks, n_attacks = len(stream.block_rows), stream.n_attacks
    counts = data.draw(
        st.lists(st.integers(0, most), min_size=n_blocks, max_size=n_blocks)
    )
    if not any(counts):
        counts[0] = 1
    rng = np.random.default_rng(data.draw(seeds))
    gamma = rng.exponential(size=(1, 1 + n_attacks))
    return Draws(np.array([counts], np.int32), gamma, rng.exponential(size=1))


# One draw


@settings(deadline=None, max_examples=60)
@given(labelled_energy(), st.integers(1, 12), st.data())
def test_a_draw_is_scikit_learns_with_calm_rows_repeated(drawn, block, data):
    energy, labels, is_alarm, first_rows = drawn
    stream = cut(energy, labels, is_alarm, first_rows, block)
    block_of, n_blocks = blocks_by_definition(labels, first_rows, block)
    assert len(stream.block_rows) == n_blocks
    draws = chosen(data, stream)
    found = draw(stream, draws)
    weight = draws.counts[0][block_of[labels == 0]]
    normal = np.repeat(energy[labels == 0], weight)
    auc = sklearn.metrics.roc_auc_score
    for i, attack in enumerate(attacks_of(labels, first_rows)):
        own = energy[attack.rows]
        known = np.arange(len(own) + len(normal)) < len(own), np.append(own, normal)
        for value, expected in (
            (Value.AUC, auc(*known)),
            (Value.PAUC_1, 2 * auc(*known, max_fpr=0.01) - 1),
            (Value.PAUC_5, 2 * auc(*known, max_fpr=0.05) - 1),
            (Value.COVERAGE, is_alarm[attack.rows].mean()),
            (Value.HIT, float(is_alarm[attack.rows].any())),
        ):
            assert found.values[value][0, i] == pytest.approx(expected, abs=1e-9)
    assert found.mean[0] == pytest.approx(normal.mean())
    assert found.median[0] == pytest.approx(np.median(normal))
    alarmed = np.repeat(is_alarm[labels == 0], weight)
    assert found.false_rate[0] == pytest.approx(alarmed.mean())


@settings(deadline=None, max_examples=40)
@given(labelled_energy(), st.data())
def test_average_precision_is_scikit_learns_with_weights_of_rows(drawn, data):
    energy, labels, is_alarm, first_rows = drawn
    stream = cut(energy, labels, is_alarm, first_rows, 3)
    draws = chosen(data, stream)
    low, high = draw(stream, draws).average_precision[0]
    n_attack, n_normal = (labels == 1).sum(), (labels == 0).sum()
    share = stream.attack_rows / n_attack
    g_0, g = draws.gamma[0, 0], draws.gamma[0, 1:]
    more = g_0 * np.sum(share**2)
    scale = g @ share + more
    weight = np.zeros(len(labels))
    for i, attack in enumerate(attacks_of(labels, first_rows)):
        weight[attack.rows] = g[i] / scale
    block_of, _ = blocks_by_definition(labels, first_rows, 3)
    counts = draws.counts[0][block_of[labels == 0]]
    weight[labels == 0] = counts * n_normal / counts.sum()
    # One more attack lies above all; or it is worth what chance gives a row.
    rated = np.append(labels >= 0, True)
    expected = sklearn.metrics.average_precision_score(
        np.append(labels == 1, True)[rated],
        np.append(energy, 1e9)[rated],
        sample_weight=np.append(weight, n_attack * more / scale)[rated],
    )
    assert high == pytest.approx(expected)
    rated = labels >= 0
    without = sklearn.metrics.average_precision_score(
        labels[rated] == 1, energy[rated], sample_weight=weight[rated]
    )
    extra = more / scale
    by_chance = n_attack / (n_attack + n_normal)
    assert low == pytest.approx((1 - extra) * without + extra * by_chance)


@settings(deadline=None, max_examples=40)
@given(labelled_energy(), st.data())
def test_windows_count_as_often_as_the_block_of_their_middle_row(drawn, data):
    energy, labels, is_alarm, first_rows = drawn
    windows = window_energies(np.sqrt(2 * energy)[:, None], labels, first_rows)
    stream = cut(energy, labels, is_alarm, first_rows, 4, windows)
    draws = chosen(data, stream)
    found = draw(stream, draws).values[Value.BEATEN][0]
    block_of, _ = blocks_by_definition(labels, first_rows, 4)
    plan = windows.plan
    starts = plan.starts[plan.is_normal]
    for i, attack in enumerate(attacks_of(labels, first_rows)):
        k = plan.group[i]
        begins = starts[plan.normal_bounds[k] : plan.normal_bounds[k + 1]]
        times = draws.counts[0][block_of[begins + attack.length // 2]]
        beaten = windows.matched(i) < windows.attack_d_full[i]
        if times.sum():
            assert found[i] == pytest.approx(np.average(beaten, weights=times))


def test_windows_of_many_attacks_are_summed_as_those_of_each():
    rng = np.random.default_rng(3)
    n_attacks, n_blocks = 60, 40
    attack_of = np.repeat(np.append(np.arange(n_attacks), -1), [2] * n_attacks + [400])
    block_of = np.repeat(np.append(-1, np.arange(n_blocks)), [120] + [10] * n_blocks)
    windows = [
        MatchedWindows(
            rng.integers(0, n_blocks, size).astype(np.int32), rng.random(size) < 0.6
        )
        for size in rng.integers(0, 9, n_attacks)
    ]
    stream = Drawable.of(
        rng.exponential(size=520),
        np.zeros(520, np.bool_),
        attack_of.astype(np.int32),
        block_of.astype(np.int32),
        block=10,
        n_attacks=n_attacks,
        n_blocks=n_blocks,
        d_full=np.ones(n_attacks),
        windows=windows,
    )
    draws = Draws.of(n_attacks, n_blocks, n=20, seed=1)
    beaten = draw(stream, draws).values[Value.BEATEN]
    for i, own in enumerate(windows):
        for r, times in enumerate(draws.counts):
            weight = times[own.block]
            if weight.sum():
                assert beaten[r, i] == weight[own.is_beaten].sum() / weight.sum()
            else:
                np.testing.assert_equal(beaten[r, i], beaten[0, i])


def test_everything_drawn_once_gives_the_evaluations_own_figures():
    stream = make_stream(strength=1.0, test_breaks=[0, 850])
    labels = stream.labels.copy()
    labels[300:310] = -1
    stream = stream.replace(labels=labels)
    evaluation = evaluate(stream, intervals=False)
    traces = evaluation.traces
    is_alarm = traces.test_energy > evaluation.probe.tau99
    reference = fit_reference(stream.train)
    centered = gather_rows(stream.test, np.arange(1200)) - reference.mean
    whitened = centered @ reference.whitening
    windows = window_energies(whitened, labels, stream.test_breaks)
    drawable = cut(
        traces.test_energy, labels, is_alarm, stream.test_breaks, 20, windows
    )
    assert drawable.n_attacks == 4
    draws = Draws.of(4, len(drawable.block_rows), n=3, seed=0)
    drawn = draw(drawable, draws)
    ends = ends_of(drawn, draws, weights_of(drawn))
    ends |= drift_ends(drawn, float(np.mean(traces.train_energy)))
    own = {e.key: e.of(evaluation) for e in with_interval()}
    own["hits"] /= 4
    assert own.keys() == ends.keys()
    for name, expected in own.items():
        assert ends[name].low[0] == pytest.approx(expected, rel=1e-9), name
        assert ends[name].high[0] == pytest.approx(expected, rel=1e-9), name


@settings(deadline=None, max_examples=30)
@given(labelled_energy(), st.integers(1, 6), st.integers(1, 200), seeds)
def test_draws_made_together_are_those_made_alone(drawn, block, most_counts, seed):
    stream = cut(*drawn, block)
    draws = Draws.of(stream.n_attacks, len(stream.block_rows), n=20, seed=seed)
    ticks = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_MOST_COUNTS", most_counts)
        together = draw(stream, draws, tick=ticks.append)
    assert ticks == sorted(set(ticks))
    assert ticks[-1] == len(draws)
    for r in range(len(draws)):
        one = slice(r, r + 1)
        own = Draws(draws.counts[one], draws.gamma[one], draws.more_calm[one])
        alone = draw(stream, own)
        for value in (Value.AUC, Value.PAUC_1, Value.PAUC_5):
            np.testing.assert_array_equal(
                together.values[value][r], alone.values[value][0]
            )
        assert together.median[r] == alone.median[0]
        # Weights of attacks are a product, whose order of sums depends on its size.
        np.testing.assert_allclose(
            together.average_precision[r], alone.average_precision[0], rtol=1e-12
        )


def test_a_draw_without_calm_rows_gives_nothing():
    labels = np.repeat([0, 1, 0], 5).astype(np.int8)
    stream = cut(np.arange(15.0), labels, labels == 9, [0], 5)
    counts = np.array([[0, 0], [1, 1]], np.int32)
    drawn = draw(stream, Draws(counts, np.ones((2, 2)), np.ones(2)))
    assert np.isnan(drawn.median[0])
    assert np.isnan(drawn.average_precision[0]).all()
    assert np.isnan(drawn.values[Value.AUC][0]).all()
    assert drawn.values[Value.AUC][1] == [0.5]


def test_a_draw_with_nothing_but_ties_costs_about_what_others_do():
    labels = np.repeat([0, 1, 0], [8_000, 4_000, 8_000]).astype(np.int8)

    def seconds(energy):
        stream = cut(energy, labels, labels == 9, [0], 10)
        draws = Draws.of(1, len(stream.block_rows), n=2, seed=0)
        taken = []
        for _ in range(4):
            before = time.process_time()
            found = draw(stream, draws)
            taken.append(time.process_time() - before)
        return min(taken), found.values[Value.AUC][:, 0].tolist()

    tied, at_chance = seconds(np.ones(20_000))
    untied, _ = seconds(np.random.default_rng(0).random(20_000))
    assert at_chance == [0.5, 0.5, 0.5]
    assert tied < 30 * untied


# What is drawn


@settings(deadline=None, max_examples=60)
@given(codes([0, 0, 1, -1], most=80), st.integers(1, 20), st.data())
def test_blocks_lie_in_one_stretch_and_never_cross_a_break(labels, block, data):
    labels = labels.astype(np.int8)
    labels[data.draw(st.integers(0, len(labels) - 1))] = 0
    first_rows = data.draw(breaks(len(labels)))
    energy = np.arange(len(labels), 0.0, -1.0)  # falling, so rows stay in order
    stream = cut(energy, labels, energy > 9, first_rows, block)
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


def test_a_very_long_stream_is_cut_into_a_bounded_number_of_blocks():
    assert block_of_calm(np.random.default_rng(0).normal(size=300_000)) == 30


def test_a_row_without_any_energy_has_a_logarithm_too():
    assert np.isfinite(log_of(np.array([0.0, 1.0]))).all()


def test_each_draw_draws_as_many_blocks_as_there_are():
    draws = Draws.of(7, 40, n=200, seed=0)
    assert set(draws.counts.sum(axis=1)) == {40}
    assert set(draws.counts[0]) == {1}
    assert draws.gamma[0].tolist() == [0.0, *7 * [1.0]]
    assert draws.counts[1:].mean(axis=0) == pytest.approx(np.ones(40), abs=0.35)
    assert draws.gamma[1:].mean() == pytest.approx(1.0, abs=0.1)
    same, other = (Draws.of(7, 40, n=200, seed=seed) for seed in (0, 1))
    assert (draws.counts == same.counts).all()
    assert (draws.gamma == same.gamma).all()
    assert (draws.counts != other.counts).any()


def test_one_more_block_raises_the_share_of_calm_rows_in_alarm():
    labels = np.zeros(100, np.int8)
    is_alarm = np.zeros(100, bool)
    is_alarm[:9] = True  # the first of ten blocks is in alarm for nine of ten rows
    stream = cut(np.arange(100.0), labels, is_alarm, [0], 10)
    draws = Draws(np.ones((1, 10), np.int32), np.ones((1, 1)), np.array([2.0]))
    found = draw(stream, draws)
    assert found.false_rate[0] == pytest.approx(0.09)
    assert found.false_rate_more[0] == pytest.approx((9 + 20 * 0.9) / 120)
    quiet = draw(cut(np.arange(100.0), labels, labels == 9, [0], 10), draws)
    assert quiet.false_rate_more[0] == pytest.approx(20 * 0.5 / 120)


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
