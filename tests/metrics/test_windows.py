import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import sklearn.covariance
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    breaks,
    codes,
    inner_cuts,
    make_stream,
    seeds,
    streams,
    window_energies,
)

from sightline import ResidualStream, evaluate, fit_reference
from sightline.data.row_tables import gather_rows
from sightline.data.segments import Segment, segments_of
from sightline.metrics import windows
from sightline.metrics.windows import (
    divergence_parts,
    energies_of_windows,
    matched_starts,
    plain_kl,
    plan_windows,
)

# Oracles, straight from the definitions


def moments_of(window):
    mean = window.mean(axis=0)
    centered = window - mean
    return mean, centered.T @ centered / len(window)


def divergence(mean, covariance):
    """KL of N(mean, covariance) from N(0, I)."""
    log_det = np.linalg.slogdet(covariance)[1]
    return (np.trace(covariance) + mean @ mean - len(mean) - log_det) / 2


def shrunk(covariance, length):
    p = len(covariance)
    return (length * covariance + p * np.eye(p)) / (length + p)


def by_definition(window):
    """Return D_FULL and D_MS of a whitened window."""
    length = len(window)
    mean, covariance = moments_of(window)
    kl = divergence(mean, shrunk(covariance, length))
    return length * kl, length * (mean @ mean) / 2


def stretches_of(labels, first_rows):
    """Attack-free stretches, row by row: [first, last + 1]."""
    found = []
    for row, label in enumerate(labels):
        if label != 0:
            continue
        goes_on = row > 0 and labels[row - 1] == 0 and row not in first_rows
        if goes_on:
            found[-1][1] = row + 1
        else:
            found.append([row, row + 1])
    return found


def starts_by_definition(labels, first_rows, length):
    starts = []
    for first, stop in stretches_of(labels, first_rows):
        start = first
        while start + length <= stop:
            starts.append(start)
            start += max(1, length // 2)
    n = len(starts)
    return [starts[k * n // 1000] for k in range(1000)] if n > 1000 else starts


def whitened_by_scipy(stream):
    """Test rows under scikit-learn's Ledoit-Wolf, whitened by scipy."""
    train, test = values_of(stream.train), values_of(stream.test)
    covariance, _ = sklearn.covariance.ledoit_wolf(train)
    root = scipy.linalg.sqrtm(covariance)
    return np.linalg.solve(np.real(root), (test - train.mean(axis=0)).T).T


def values_of(rows):
    return gather_rows(rows, np.arange(rows.n_rows))


def planned(energies):
    """Yield (place, start, length) of every planned window."""
    plan = energies.plan
    for i, length in enumerate(plan.lengths.tolist()):
        for place in range(plan.bounds[i], plan.bounds[i + 1]):
            yield place, int(plan.starts[place]), length


def assert_as_defined(energies, whitened, rel=1e-9):
    """Compare every planned window and all moments kept with the definitions."""
    expected = np.array(
        [by_definition(whitened[s : s + length]) for _, s, length in planned(energies)]
    ).reshape(-1, 2)
    np.testing.assert_allclose(energies.d_full, expected[:, 0], rtol=rel)
    np.testing.assert_allclose(energies.d_ms, expected[:, 1], rtol=rel, atol=1e-13)
    plan = energies.plan
    own_lengths = plan.lengths[plan.group]
    for i, (own, length) in enumerate(zip(plan.own, own_lengths, strict=True)):
        window = whitened[plan.starts[own] :][:length]
        mean, covariance = moments_of(window)
        np.testing.assert_allclose(energies.means[i], mean, rtol=1e-9, atol=1e-12)
        found = plain_kl(energies.means[i], energies.seconds[i], int(length))
        if length <= window.shape[1]:
            assert found is None
        elif np.linalg.cond(np.atleast_2d(np.corrcoef(window.T))) < 1e5:
            assert found == pytest.approx(divergence(mean, covariance), rel=rel)


@st.composite
def whitened_rows(draw, *, most_rows=500, most_run=90):
    """Draw (whitened, labels, first_rows): runs of any label, breaks anywhere."""
    p = draw(st.integers(1, 7))
    run = st.tuples(
        st.sampled_from([0, 0, 0, 1, -1]),
        st.one_of(st.integers(1, 9), st.integers(1, most_run), st.just(p)),
    )
    runs = draw(st.lists(run, min_size=1, max_size=12))
    labels = np.concatenate([np.full(n, label, np.int8) for label, n in runs])
    labels = labels[:most_rows]
    first_rows = draw(breaks(len(labels)))
    rng = np.random.default_rng(draw(seeds))
    spread = 10.0 ** rng.uniform(-2, 2, p)
    offset = draw(st.sampled_from([0.0, 1.0, 1e4])) * rng.normal(size=p)
    moved = 3 * (labels == 1)[:, None]
    return rng.normal(size=(len(labels), p)) * spread + offset + moved, (
        labels,
        first_rows,
    )


# The energies of windows


@settings(deadline=None, max_examples=150)
@given(whitened_rows())
def test_every_window_is_as_defined(drawn):
    whitened, labelled = drawn
    assert_as_defined(window_energies(whitened, *labelled), whitened)


@settings(deadline=None, max_examples=100)
@given(whitened_rows(), st.data())
def test_the_pieces_in_which_rows_arrive_change_nothing(drawn, data):
    whitened, labelled = drawn
    pieces = data.draw(inner_cuts(len(whitened), 30)) if len(whitened) > 1 else []
    whole = window_energies(whitened, *labelled)
    cut = window_energies(whitened, *labelled, cuts=pieces)
    for name in ("d_full", "d_ms", "means"):
        expected = getattr(whole, name)
        np.testing.assert_allclose(
            getattr(cut, name), expected, rtol=1e-10, atol=1e-13, err_msg=name
        )
    scale = np.abs(whole.seconds).max(initial=1e-300)
    np.testing.assert_allclose(cut.seconds, whole.seconds, atol=1e-12 * scale)


def long_stream(length, p=3, seed=0):
    """One attack of a length, and normal time before and after it."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 0, -1, 0], [2900, length, 777, 5, 3100]).astype(np.int8)
    return rng.normal(size=(len(labels), p)) + (labels == 1)[:, None], labels


@pytest.mark.parametrize(
    ("length", "block"),
    [(n, 1024) for n in (1, 2, 31, 32, 33, 64, 1023, 1024, 1025, 2047, 2500)]
    + [(n, 700) for n in (1, 32, 63, 700, 1400, 2500)]
    + [(n, 1) for n in (1, 2, 33)],
)
def test_windows_shorter_and_longer_than_a_block(length, block):
    whitened, labels = long_stream(length)
    pieces = range(block, len(whitened), block)
    energies = window_energies(whitened, labels, [0, 1300], pieces)
    assert_as_defined(energies, whitened)


@pytest.mark.parametrize("p", [1, 2, 5, 20])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_windows_of_about_as_many_rows_as_channels(p, offset):
    length = max(1, p + offset)
    labels = np.repeat([0, 1, 0], [40, length, 60]).astype(np.int8)
    whitened = np.random.default_rng(p).normal(size=(len(labels), p))
    energies = window_energies(whitened, labels)
    assert_as_defined(energies, whitened)
    plain = plain_kl(energies.means[0], energies.seconds[0], length)
    assert (plain is None) is (length <= p)


@pytest.mark.parametrize("length", [1, 5, 6])
def test_windows_of_far_fewer_rows_than_channels(length, monkeypatch):
    """By their own rows, or by moments where a run of rows ends within them."""
    p, block = 4 * 6, 64
    monkeypatch.setattr(windows, "RUN_ROWS", block)
    labels = np.repeat([0, 1, 0, 1, 0], [62, length, 300, length, 70]).astype(np.int8)
    whitened = np.random.default_rng(length).normal(size=(len(labels), p))
    whitened[200] *= 1e9
    pieces = range(block, len(whitened), block)
    energies = window_energies(whitened, labels, cuts=pieces)
    assert_as_defined(energies, whitened)
    monkeypatch.setattr(windows, "SHORT", p + 1)
    by_moments = window_energies(whitened, labels, cuts=pieces)
    for name in ("d_full", "d_ms", "means", "seconds"):
        one, other = getattr(energies, name), getattr(by_moments, name)
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_divergences_are_those_of_scipys_normal_distributions():
    rng = np.random.default_rng(0)
    p, length = 4, 60
    labels = np.repeat([0, 1, 0], [30, length, 30]).astype(np.int8)
    whitened = rng.normal(size=(len(labels), p)) @ rng.normal(size=(p, p)) + 1
    energies = window_energies(whitened, labels)
    mean, covariance = moments_of(whitened[30:90])
    reference = scipy.stats.multivariate_normal(np.zeros(p), np.eye(p))

    def by_scipy(covariance):
        window = scipy.stats.multivariate_normal(mean, covariance)
        crossed = np.trace(covariance) / 2 - reference.logpdf(mean)
        return crossed - window.entropy()

    plain = plain_kl(energies.means[0], energies.seconds[0], length)
    assert plain == pytest.approx(by_scipy(covariance), rel=1e-9)
    assert energies.attack_d_full[0] == pytest.approx(
        length * by_scipy(shrunk(covariance, length)), rel=1e-9
    )


def test_parts_of_the_divergence_sum_to_it_and_mean_what_they_say():
    rng = np.random.default_rng(3)
    for p, length in [(1, 5), (3, 30), (12, 200)]:
        rows = rng.normal(size=(length, p)) @ rng.normal(size=(p, p)) + rng.normal()
        mean, centred = rows.mean(axis=0), rows - rows.mean(axis=0)
        second = centred.T @ centred
        parts = divergence_parts(mean, second, length)
        assert parts.kl == pytest.approx(parts.mean + parts.spread + parts.volume)
        assert parts.spread + parts.volume >= 0
        energy = 0.5 * np.sum(rows**2, axis=1).mean()
        assert parts.mean + parts.spread == pytest.approx(energy - p / 2)
        # A shift changes nothing but the mean, other units of all rows the rest.
        moved = divergence_parts(mean + 1, second, length)
        assert moved[1:3] == parts[1:3]
        assert divergence_parts(mean, 4 * second, length).volume == pytest.approx(
            parts.volume - p * np.log(2)
        )
    frozen = divergence_parts(np.ones(2), np.diag([0.0, 10.0]), 10)
    assert frozen == (1.0, -0.5, None, None)


@pytest.mark.parametrize(
    ("mean", "variance", "length"), [(0.0, 1.0, 40), (2.0, 1.0, 40), (-1.0, 9.0, 7)]
)
def test_one_channel_has_a_closed_form(mean, variance, length):
    rng = np.random.default_rng(0)
    window = rng.normal(size=length)
    window = mean + np.sqrt(variance) * (window - window.mean()) / window.std()
    labels = np.repeat([0, 1, 0], [5, length, 5]).astype(np.int8)
    whitened = np.concatenate([np.zeros(5), window, np.zeros(5)])[:, None]
    energies = window_energies(whitened, labels)
    plain = plain_kl(energies.means[0], energies.seconds[0], length)
    assert plain == pytest.approx(
        (variance + mean**2 - 1 - np.log(variance)) / 2, rel=1e-9, abs=1e-12
    )
    between = (length * variance + 1) / (length + 1)
    assert energies.attack_d_full[0] == pytest.approx(
        length * (between + mean**2 - 1 - np.log(between)) / 2, rel=1e-9, abs=1e-11
    )


def exactly_white(n, p, seed):
    """Rows with mean 0 and covariance I to rounding."""
    rows = np.random.default_rng(seed).normal(size=(n, p + 1))
    rows[:, 0] = 1.0
    return np.sqrt(n) * np.linalg.qr(rows)[0][:, 1:]


def test_a_window_that_is_only_shifted_has_the_energy_of_its_shift():
    shift = np.array([1.5, -0.5, 0.0, 2.0])
    length, p = 50, 4
    attack = exactly_white(length, p, 1) + shift
    normal = np.random.default_rng(2).normal(size=(300, p))
    labels = np.repeat([0, 1, 0], [100, length, 200])
    stream = ResidualStream(
        exactly_white(800, p, 0),
        np.concatenate([normal[:100], attack, normal[100:]]),
        labels,
    )
    evaluation = evaluate(stream, estimator="empirical", intervals=False)
    (row,), traces = evaluation.segments, evaluation.traces
    expected = shift @ shift / 2
    assert row.kl == pytest.approx(expected, rel=1e-9)
    assert row.kl_plain == pytest.approx(expected, rel=1e-9)
    assert row.d_full == pytest.approx(length * expected, rel=1e-9)
    assert row.d_ms == pytest.approx(length * expected, rel=1e-9)
    assert traces.segment_d_full == pytest.approx([row.d_full], rel=1e-12)
    assert traces.segment_d_ms == pytest.approx([row.d_ms], rel=1e-12)
    assert traces.segment_excess == pytest.approx([row.d_ms], rel=1e-9)


def test_the_excess_of_a_spread_is_more_than_that_of_its_shift():
    stream = make_stream(attacks=[(200, 240)], strength=0.0)
    test = values_of(stream.test)
    test[200:240] *= 3.0
    traces = evaluate(stream.replace(test=test), intervals=False).traces
    assert traces.segment_excess[0] > 2 * traces.segment_d_ms[0]


@settings(deadline=None, max_examples=25)
@given(streams())
def test_the_excess_is_that_of_the_energy_trace(stream):
    evaluation = evaluate(stream, intervals=False)
    energy, p = evaluation.traces.test_energy, stream.p
    expected = [np.sum(energy[a.start : a.stop] - p / 2) for a in evaluation.segments]
    np.testing.assert_allclose(
        evaluation.traces.segment_excess, expected, rtol=1e-9, atol=1e-10
    )


# Theorem 1, and a reference that was fitted by others


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("p", [1, 3, 8])
def test_theorem_1_holds_where_the_plain_divergence_exists(seed, p):
    stream = make_stream(
        seed, p=p, attacks=[(0, 90), (300, 302), (500, 509), (640, 900), (1150, 1200)]
    )
    train, test = values_of(stream.train), values_of(stream.test) * 1.3
    test[640:900, 0] *= 4.0
    evaluation = evaluate(stream.replace(test=test), intervals=False)
    covariance, _ = sklearn.covariance.ledoit_wolf(train)
    log_det_reference = np.linalg.slogdet(covariance)[1]
    n_plain = 0
    for row in evaluation.segments:
        assert row.kl_shrunk is (row.length <= p)
        if row.kl_shrunk:
            assert row.kl_plain is None
            continue
        n_plain += 1
        mean, own = moments_of(test[row.start : row.stop])
        shift = mean - train.mean(axis=0)
        log_det = np.linalg.slogdet(own)[1] - log_det_reference
        spread = np.trace(scipy.linalg.solve(covariance, own, assume_a="pos"))
        moved = shift @ scipy.linalg.solve(covariance, shift, assume_a="pos")
        kl = (spread + moved - p - log_det) / 2
        assert row.kl_plain == pytest.approx(kl, rel=1e-9)
        energy = evaluation.traces.test_energy[row.start : row.stop]
        assert np.mean(energy) - p / 2 == pytest.approx(
            row.kl_plain + log_det / 2, rel=1e-9, abs=1e-9
        )
    assert n_plain >= 4


@settings(deadline=None, max_examples=25)
@given(streams())
def test_windows_of_a_stream_are_those_under_scikit_learns_reference(stream):
    evaluation = evaluate(stream, intervals=False)
    whitened, p = whitened_by_scipy(stream), stream.p
    traces = evaluation.traces
    for i, row in enumerate(evaluation.segments):
        d_full, d_ms = by_definition(whitened[row.start : row.stop])
        assert row.d_full == pytest.approx(d_full, rel=1e-7, abs=1e-10)
        assert row.d_ms == pytest.approx(d_ms, rel=1e-7, abs=1e-10)
        assert row.kl == pytest.approx(row.d_full / row.length, rel=1e-12)
        assert row.reliable is (row.length >= 2 * p)
        starts = starts_by_definition(stream.labels, stream.test_breaks, row.length)
        k = traces.segment_group[i]
        places = slice(traces.matched_bounds[k], traces.matched_bounds[k + 1])
        assert traces.matched_starts[places].tolist() == starts
        assert row.n_matched == len(starts)
        expected = [by_definition(whitened[s : s + row.length])[0] for s in starts]
        np.testing.assert_allclose(
            traces.matched_d_full[places], expected, rtol=1e-7, atol=1e-10
        )


# Which windows are matched


@settings(deadline=None, max_examples=100)
@given(codes([0, 1, -1], most=200), st.data())
def test_matched_windows_are_planned_as_defined(labels, data):
    labels = labels.astype(np.int8)
    first_rows = data.draw(breaks(len(labels)))
    attacks = segments_of(labels == 1, first_rows)
    plan = plan_windows(attacks, labels, first_rows)
    assert plan.lengths.tolist() == sorted({attack.length for attack in attacks})
    for i, attack in enumerate(attacks):
        k = plan.group[i]
        assert plan.lengths[k] == attack.length
        starts = plan.starts[plan.bounds[k] : plan.bounds[k + 1]]
        assert plan.starts[plan.own[i]] == attack.start
        expected = starts_by_definition(labels, first_rows, attack.length)
        alike = [a.start for a in attacks if a.length == attack.length]
        assert starts.tolist() == sorted([*expected, *alike])
        assert plan.n_matched[i] == len(expected)
        for start in expected:
            rows = slice(start, start + attack.length)
            assert (labels[rows] == 0).all()
            assert not np.isin(np.arange(start + 1, rows.stop), first_rows).any()


def test_matched_windows_by_hand():
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, -1, 0, 0, 0], np.int8)
    plan = plan_windows([Segment(6, 9)], labels, np.array([0, 11]))
    # Stretches of 6 rows, 2 and 2 about the break, and 3 after the ignored row.
    assert plan.starts.tolist() == [0, 1, 2, 3, 6, 14]
    assert (plan.own.tolist(), plan.n_matched.tolist()) == ([4], [5])


@pytest.mark.parametrize("length", [1, 2, 3, 7, 11])
def test_at_most_1000_windows_are_matched_evenly(length):
    stretches = [Segment(0, 2500), Segment(2600, 9001)]
    starts = matched_starts(stretches, length)
    every = [
        start
        for stretch in stretches
        for start in range(
            stretch.start, stretch.stop - length + 1, max(1, length // 2)
        )
    ]
    assert len(every) > 1000
    expected = np.array(every)[(np.arange(1000) * len(every)) // 1000]
    assert starts.tolist() == expected.tolist()


@pytest.mark.parametrize(("n_rows", "n_found"), [(1000, 1000), (1001, 1000)])
def test_1000_windows_are_all_kept(n_rows, n_found):
    starts = matched_starts([Segment(0, n_rows)], 1)
    assert len(starts) == n_found
    assert starts[0] == 0
    assert starts[-1] == 1000 * 999 // 1000 if n_rows == 1000 else 999 * 1001 // 1000


def test_no_stretch_is_long_enough():
    assert matched_starts([Segment(0, 4), Segment(9, 13)], 5).tolist() == []
    assert matched_starts([], 1).tolist() == []


# What all windows say together


@settings(deadline=None, max_examples=60)
@given(streams(), st.integers(0, 3))
def test_shares_and_medians_by_brute_force(stream, guard):
    labels = stream.labels.copy()
    for attack in stream.attack_segments():
        ends = [b for b in stream.test_breaks if b >= attack.stop]
        stop = min([attack.stop + guard, *ends])
        tail = labels[attack.stop : stop]
        tail[tail == 0] = -1
    if not (labels == 0).any():
        return
    evaluation = evaluate(stream, guard=guard, intervals=False)
    windows, whitened = evaluation.windows, whitened_by_scipy(stream)
    if not evaluation.segments:
        assert {*vars(windows).values()} == {None}
        return
    shares, all_won, own = [], [], []
    for row in evaluation.segments:
        own.append(by_definition(whitened[row.start : row.stop])[0])
        won = [
            own[-1] > by_definition(whitened[start : start + row.length])[0]
            for start in starts_by_definition(labels, stream.test_breaks, row.length)
        ]
        all_won += won
        if won:
            shares.append(np.mean(won))
    assert windows.n_segments == len(own)
    assert windows.n_matched_windows == len(all_won)
    assert windows.n_unmatched_segments == len(own) - len(shares)
    assert windows.median_d_full == pytest.approx(np.median(own), rel=1e-7)
    if all_won:
        assert windows.p_full == pytest.approx(np.mean(all_won), rel=1e-12)
        assert windows.p_full_per_segment == pytest.approx(np.mean(shares), rel=1e-12)
    else:
        assert (windows.p_full, windows.p_full_per_segment) == (None, None)


def test_pairs_and_segments_weigh_differently():
    # A short attack outweighs all its windows, a long one hardly any.
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 0, 1, 0], [500, 4, 500, 200, 500]).astype(np.int8)
    whitened = rng.normal(size=(len(labels), 2))
    whitened[500:504] += 20.0
    whitened[1004:1204] *= 0.999 / whitened[1004:1204].std(axis=0)
    whitened[1004:1204] -= whitened[1004:1204].mean(axis=0)
    energies = window_energies(whitened, labels)
    n_short, n_long = energies.plan.n_matched
    assert n_short > 10 * n_long
    assert energies.wins.tolist() == [n_short, 0]
    train = rng.normal(size=(2000, 2))
    windows = evaluate(ResidualStream(train, whitened, labels), intervals=False).windows
    assert windows.p_full > 0.95
    assert windows.p_full_per_segment < 0.75


# Degenerate streams


def test_a_long_attack_without_matched_windows_is_counted():
    stream = make_stream(attacks=[(50, 60), (100, 1000)])
    evaluation = evaluate(stream, intervals=False)
    first, second = evaluation.segments
    assert (first.n_matched > 0, second.n_matched) == (True, 0)
    assert second.d_full > 0
    windows = evaluation.windows
    assert (windows.n_segments, windows.n_unmatched_segments) == (2, 1)
    assert windows.n_matched_windows == first.n_matched
    assert windows.p_full == windows.p_full_per_segment
    assert windows.median_d_full == pytest.approx((first.d_full + second.d_full) / 2)


def test_nothing_but_an_unmatched_attack():
    evaluation = evaluate(make_stream(attacks=[(100, 1100)]), intervals=False)
    windows = evaluation.windows
    assert (windows.p_full, windows.p_full_per_segment) == (None, None)
    assert (windows.n_matched_windows, windows.n_unmatched_segments) == (0, 1)
    assert windows.median_d_full == evaluation.segments[0].d_full


def test_few_matched_windows_are_all_used():
    evaluation = evaluate(make_stream(attacks=[(300, 700)]), intervals=False)
    # 300 rows before are too few; of the 500 after, windows begin at 700 alone.
    assert evaluation.traces.matched_starts.tolist() == [700]
    assert evaluation.windows.p_full in (0.0, 1.0)


def test_no_attack_has_no_windows():
    evaluation = evaluate(make_stream(attacks=[]), intervals=False)
    assert {*vars(evaluation.windows).values()} == {None}
    assert len(evaluation.traces.matched_d_full) == 0
    assert evaluation.traces.matched_bounds.tolist() == [0]


@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("attack", [(0, 1), (0, 30), (1199, 1200), (1170, 1200)])
def test_an_attack_at_the_very_edge(p, attack):
    stream = make_stream(p=p, attacks=[attack])
    (row,) = evaluate(stream, intervals=False).segments
    d_full, d_ms = by_definition(whitened_by_scipy(stream)[slice(*attack)])
    assert row.d_full == pytest.approx(d_full, rel=1e-8)
    assert row.d_ms == pytest.approx(d_ms, rel=1e-8)
    assert row.n_matched > 0


def test_what_stands_still_has_a_shrunk_divergence():
    stream = make_stream(p=4)
    train, test = values_of(stream.train), values_of(stream.test)
    test[200:240, 1] = test[200, 1]  # still within one attack
    found = evaluate(stream.replace(test=test), intervals=False).segments
    assert [row.kl_shrunk for row in found] == [True, True, False]
    train[:, 2], test[:, 2] = 7.0, 7.0  # always still
    stream = stream.replace(train=train, test=test)
    evaluation = evaluate(stream, intervals=False)
    assert {row.kl_shrunk for row in evaluation.segments} == {True}
    whitened = whitened_by_scipy(stream)
    for row in evaluation.segments:
        assert row.kl_plain is None
        expected = by_definition(whitened[row.start : row.stop])[0]
        assert row.d_full == pytest.approx(expected, rel=1e-7)
    assert evaluation.windows.p_full > 0.8


def test_copies_of_a_channel_are_singular():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 0], [30, 40, 30]).astype(np.int8)
    whitened = rng.normal(size=(100, 3))
    whitened[:, 2] = whitened[:, 0] - 2 * whitened[:, 1]
    energies = window_energies(whitened, labels)
    assert plain_kl(energies.means[0], energies.seconds[0], 40) is None
    assert np.isfinite(energies.d_full).all()


@pytest.mark.parametrize("burst_row", [0, 100, 1023, 1024, 1500, 2970])
def test_a_burst_leaves_the_digits_of_all_other_windows_alone(burst_row):
    rng = np.random.default_rng(0)
    labels = np.zeros(3000, np.int8)
    labels[400:450] = labels[1000:1003] = labels[2000:2130] = 1
    calm = rng.normal(size=(3000, 4)) + 1
    wild = calm.copy()
    wild[burst_row] = [1e12, -1e12, 3e11, 1.0]
    blocks = [1024, 2048]
    energies = window_energies(wild, labels, cuts=blocks)
    without = window_energies(calm, labels, cuts=blocks)
    n_hit = 0
    for place, start, length in planned(energies):
        if start <= burst_row < start + length:
            n_hit += 1
            assert energies.d_full[place] > 1e21
        else:
            assert energies.d_full[place] == pytest.approx(
                without.d_full[place], rel=1e-12
            )
            d_full, d_ms = by_definition(calm[start : start + length])
            assert energies.d_full[place] == pytest.approx(d_full, rel=1e-9)
            assert energies.d_ms[place] == pytest.approx(d_ms, rel=1e-9)
    assert n_hit > 0


@pytest.mark.parametrize("size", [1e3, 1e9, 1e12, 1e100])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_window_with_a_burst_is_finite(size, p):
    # All else absorbed, the covariance has rank 1 in floating point.
    whitened = np.zeros((12, p))
    whitened[4] = size
    labels = np.repeat([0, 1, 0], [2, 4, 6]).astype(np.int8)
    found = window_energies(whitened, labels).attack_d_full[0]
    mean, spread = size / 4, size**2 * (1 / 4 - 1 / 16)
    between = (4 * p * spread + p) / (4 + p)  # the one eigenvalue that is not p/(4+p)
    trace = between + (p - 1) * p / (4 + p)
    log_det = np.log(between) + (p - 1) * np.log(p / (4 + p))
    expected = 4 * (trace + p * mean**2 - p - log_det) / 2
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_burst_in_whole_numbers_leaves_the_evaluation_finite():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        train, test = np.round(4 * rng.normal(size=(2, 400, 3)))
        labels = np.repeat([0, 1, 0], [200, 10, 190])
        test[202] = 2.0**40
        (row,) = evaluate(ResidualStream(train, test, labels), intervals=False).segments
        assert np.isfinite([row.kl, row.d_full, row.d_ms]).all()


# Laws


def noise_d_full(length, p, n_windows=60):
    """Mean D_FULL, and mean W kl_plain, of windows of pure noise."""
    rng = np.random.default_rng(length)
    labels = np.tile(np.repeat([1, 0], [length, 1]), n_windows).astype(np.int8)
    energies = window_energies(rng.normal(size=(len(labels), p)), labels)
    moments = zip(energies.means, energies.seconds, strict=True)
    plain = [plain_kl(mean, second, length) for mean, second in moments]
    if None in plain:
        assert set(plain) == {None}
        return energies.attack_d_full.mean(), None
    return energies.attack_d_full.mean(), length * np.mean(plain)


def test_noise_does_not_jump_where_windows_outgrow_the_channels():
    p = 50
    below, _ = noise_d_full(p - 1, p)
    at, none = noise_d_full(p, p)
    above, plain = noise_d_full(p + 1, p)
    assert none is None
    assert plain > 1000  # the plain value does jump
    assert at == pytest.approx(below, rel=0.04)
    assert above == pytest.approx(at, rel=0.04)


@settings(deadline=None, max_examples=15)
@given(seeds)
def test_an_invertible_map_of_the_residuals_changes_no_window(seed):
    rng = np.random.default_rng(seed)
    stream = make_stream(seed, n_train=400, n_test=600, attacks=[(90, 93), (200, 260)])
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    mapping = rotation * 10.0 ** rng.uniform(-3, 3, 4)
    mapped = stream.replace(
        train=values_of(stream.train) @ mapping + 5.0,
        test=values_of(stream.test) @ mapping + 5.0,
    )
    found, expected = (
        evaluate(s, estimator="empirical", intervals=False) for s in (mapped, stream)
    )
    for name in ("segment_d_full", "segment_d_ms", "segment_excess", "matched_d_full"):
        np.testing.assert_allclose(
            getattr(found.traces, name),
            getattr(expected.traces, name),
            rtol=1e-7,
            atol=1e-8,
            err_msg=name,
        )
    assert found.windows.p_full == expected.windows.p_full
    for a, b in zip(found.segments, expected.segments, strict=True):
        assert a.kl_shrunk is b.kl_shrunk
        assert a.kl_plain == (b.kl_plain and pytest.approx(b.kl_plain, rel=1e-7))


def test_a_stronger_attack_has_more_energy():
    means = [
        evaluate(make_stream(strength=s), intervals=False).windows.median_d_full
        for s in (0.0, 1.0, 2.0, 8.0)
    ]
    assert means == sorted(means)
    assert means[-1] > 10 * means[0]


def test_a_tie_is_not_won():
    labels = np.repeat([0, 1, 0], [6, 3, 8]).astype(np.int8)
    energies = window_energies(np.zeros((17, 2)), labels)
    assert (energies.d_full == energies.d_full[0]).all()
    assert energies.plan.n_matched.tolist() == [10]
    assert energies.wins.tolist() == [0]


def frozen_window(p, unit, seed=0):
    """Whitened rows of a window in which one channel stands still."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(p) + 0.3 * rng.normal(size=(p, p))
    units = np.r_[unit, np.ones(p - 1)]
    train = rng.normal(size=(3000, p)) @ mixing * units
    window = 7 + rng.normal(size=(4 * p + 9, p)) @ mixing * units
    window[:, p // 2] = window[0, p // 2]
    reference = fit_reference(train)
    return (window - reference.mean) @ reference.whitening


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("p", [1, 3, 8, 51])
def test_a_window_with_a_frozen_channel_has_no_plain_divergence(p, unit):
    for seed in range(20):
        rows = frozen_window(p, unit, seed)
        mean = rows.mean(axis=0)
        second = (rows - mean).T @ (rows - mean)
        assert plain_kl(mean, second, len(rows)) is None, seed
        lengths = np.array([len(rows)])
        d_full, d_ms = energies_of_windows(
            lengths, mean[None], second[None], is_plain=True
        )
        assert d_full == d_ms


def test_units_that_differ_do_not_make_a_window_singular():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 20)) * np.r_[1e-5, np.ones(19)]
    mean = rows.mean(axis=0)
    second = (rows - mean).T @ (rows - mean)
    assert plain_kl(mean, second, len(rows)) > 10  # log(1e5) from the small one


def test_a_frozen_channel_is_null_in_the_evaluation():
    rng = np.random.default_rng(0)
    mixing = np.eye(51) + 0.3 * rng.normal(size=(51, 51))
    train, test = (rng.normal(size=(n, 51)) @ mixing for n in (3000, 2000))
    labels = np.zeros(2000, int)
    labels[500:700] = labels[1500:1700] = 1
    test[500:700, 25] = test[500, 25]
    stream = ResidualStream(train, test, labels)
    frozen, moving = evaluate(stream, intervals=False, diagnosis=False).segments
    assert (frozen.kl_plain, frozen.kl_shrunk) == (None, True)
    assert moving.kl_plain > 0
