from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import ResidualStream, compare, evaluate, read_results, write_results
from sightline.comparison.differences import PAIRED_FIGURES, Clock, timed_results
from sightline.comparison.paired import (
    PairedFigure,
    critical_distance,
    holm,
    joined_groups,
)
from sightline.errors import SightlineError
from sightline.figures import FIGURES
from sightline.metrics.ranking import mean_ranks
from sightline.storage import Result

HISTORIC = Path(__file__).parents[1] / "historic_results"
N_ROWS = 4000
ATTACKS = [(start, start + 30 + 5 * k) for k, start in enumerate(range(300, 3900, 450))]
MEANS = {"roc_auc", "pauc_1", "pauc_5", "mean_segment_auc", "p_full", "recall", "hits"}


def labelled(attacks=ATTACKS, n=N_ROWS):
    labels = np.zeros(n, int)
    for start, stop in attacks:
        labels[start:stop] = 1
    return labels


def stream_of(detector, lift, *, seed=1, labels=None, **known):
    """A stream of three channels; all detectors share most of their noise."""
    labels = labelled() if labels is None else labels
    shared = np.random.default_rng(0).normal(size=(len(labels), 3))
    own = np.random.default_rng(seed).normal(size=(len(labels), 3))
    lifts = np.zeros(len(labels))
    lifts[labels == 1] = np.broadcast_to(lift, (labels == 1).sum())
    train = np.random.default_rng(9).normal(size=(1500, 3))
    known = {"test_time": 10.0 * np.arange(len(labels))} | known
    return ResidualStream(
        train,
        0.95 * shared + 0.31 * own + lifts[:, None],
        labels,
        detector=detector,
        testbed="plant",
        name=f"{detector}-{seed}",
        **known,
    )


def measured(*streams, intervals=False):
    return [evaluate(s, intervals=intervals, diagnosis=False) for s in streams]


def rows_of(compared, figure):
    return {d.detectors: d for d in compared.differences if d.figure == figure}


def in_blocks(stream, size, offset=0):
    """The stream with rows of `size` others, as a detector that averages them has."""
    values = np.concatenate([*stream.test.chunks()])
    n = len(values) // size
    labels = stream.labels[: n * size].reshape(n, size).max(axis=1)
    return stream.replace(
        test=values[: n * size].reshape(n, size, -1).mean(axis=1) * np.sqrt(size),
        labels=labels,
        test_time=stream.test_time[: n * size : size] + offset,
        test_breaks=None,
        step_s=None,
        segments=(),
        detector=f"{stream.detector} by {size}",
        name="coarse",
    )


# Two detectors


def test_a_clear_difference_gets_a_star_and_a_small_one_does_not():
    found = rows_of(
        compare(
            measured(
                stream_of("sharp", 3.0),
                stream_of("dull", 0.3, seed=2),
                stream_of("also sharp", 3.0, seed=3),
            )
        ),
        "roc_auc",
    )
    clear = found["sharp", "dull"]
    assert clear.difference > 0.2
    assert (clear.has_star, clear.better, clear.worse) == (True, 8, 0)
    low, high = clear.interval
    assert 0 < low <= clear.difference <= high
    alike = found["sharp", "also sharp"]
    assert not alike.has_star
    assert alike.interval[0] < 0 < alike.interval[1]


@pytest.mark.parametrize("figure", PAIRED_FIGURES)
def test_a_detector_does_not_differ_from_itself(figure):
    one = stream_of("one", 1.0)
    compared = compare(measured(one, one.replace(detector="two", name="two")))
    (row,) = rows_of(compared, figure).values()
    assert row.difference == 0
    assert row.interval == (0.0, 0.0)
    assert row.p == row.p_adjusted == 1.0
    assert not row.has_star
    if figure in MEANS:
        assert (row.better, row.worse, row.same) == (0, 0, 8)
    else:
        assert row.better is None


@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_a_detector_in_blocks_of_6_rows_is_paired(offset):
    fine = stream_of("one", 1.0)
    compared = compare(measured(fine, in_blocks(fine, 6, offset)))
    (row,) = rows_of(compared, "roc_auc").values()
    assert row.n_attacks == 8
    assert row.n_alone == (0, 0)
    assert compared.notices == ()


def test_rows_left_out_to_warm_up_do_not_matter():
    full = stream_of("one", 1.5)
    labels = labelled()
    values = np.concatenate([*full.test.chunks()])
    late = full.replace(
        test=values[4:],
        labels=labels[4:],
        test_time=full.test_time[4:],
        test_breaks=None,
        segments=(),
        detector="two",
        name="two",
    )
    compared = compare(measured(full, late))
    (row,) = rows_of(compared, "mean_segment_auc").values()
    assert row.n_attacks == 8
    assert abs(row.difference) < 0.01


def test_the_difference_is_that_of_the_printed_figures_at_one_row_rate():
    evaluations = measured(stream_of("one", 1.5), stream_of("two", 0.5, seed=2))
    compared = compare(evaluations)
    for figure in PAIRED_FIGURES:
        (row,) = rows_of(compared, figure).values()
        n = 8 if figure == "hits" else 1
        a, b = (FIGURES[figure].of(e) / n for e in evaluations)
        assert row.difference == pytest.approx(a - b, abs=1e-9), figure


def test_pairing_is_much_sharper_than_two_intervals():
    strengths = [0.0, 1.0, 2.5, 0.0, 5.0, 0.5, 3.0, 0.0]
    lifts = np.repeat(strengths, [stop - start for start, stop in ATTACKS])
    evaluations = measured(
        stream_of("one", lifts), stream_of("two", 0.8 * lifts, seed=2), intervals=True
    )
    (row,) = rows_of(compare(evaluations), "pauc_1").values()
    low, high = row.interval
    separate = [np.diff(e.intervals["pauc_1"])[0] for e in evaluations]
    assert high - low < 0.9 * sum(separate)


def test_attacks_that_a_coarse_row_joins_count_as_one():
    labels = labelled([*ATTACKS, (3950, 3953), (3955, 3960)])
    fine = stream_of("one", 2.0, labels=labels)
    coarse = in_blocks(stream_of("two", 2.0, seed=2, labels=labels), 10)
    compared = compare(measured(fine, coarse))
    (row,) = rows_of(compared, "roc_auc").values()
    assert row.n_attacks == 9
    (notice,) = compared.notices
    assert "attacks 9 and 10 count as one" in notice


def test_attacks_that_one_lacks_are_left_out_and_counted():
    every = stream_of("one", 2.0)
    fewer = stream_of("two", 2.0, seed=2, labels=labelled(ATTACKS[:6]))
    compared = compare(measured(every, fewer))
    for row in compared.differences:
        assert row.n_attacks == 6
        assert row.n_alone == (2, 0)
        assert np.isfinite([row.difference, *row.interval]).all()
    alone = compare(
        measured(stream_of("one", 2.0, labels=labelled(ATTACKS[:6])), fewer)
    )
    # What the first has beyond the shared attacks counts nowhere.
    for figure in ("recall", "average_precision"):
        (a,), (b,) = (rows_of(c, figure).values() for c in (compared, alone))
        assert a.difference == pytest.approx(b.difference, abs=0.02), figure


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"test_time": 1e6 + 10.0 * np.arange(N_ROWS)}, "no attack in common"),
        ({"labels": np.zeros(N_ROWS, int), "segments": ()}, "two has no attack"),
    ],
)
def test_what_cannot_be_paired_is_said_with_the_reason(changes, why):
    other = stream_of("two", 2.0).replace(**changes)
    compared = compare(measured(stream_of("one", 2.0), other))
    assert compared.differences == ()
    (notice,) = compared.notices
    assert notice.startswith("plant: not compared are one and two: ")
    assert why in notice


def test_without_time_stamps_rows_are_paired_by_number_if_they_are_as_many():
    one, two = stream_of("one", 2.0), stream_of("two", 0.5, seed=2)
    unstamped = two.replace(test_time=None)
    stamped = rows_of(compare(measured(one, two)), "roc_auc")
    for streams in ((one, unstamped), (one.replace(test_time=None), unstamped)):
        (row,) = rows_of(compare(measured(*streams)), "roc_auc").values()
        expected = stamped["one", "two"]
        assert row.difference == pytest.approx(expected.difference)
    short = in_blocks(two, 6).replace(test_time=None)
    compared = compare(measured(one, short))
    assert compared.differences == ()
    (notice,) = compared.notices
    assert "4,000 and 666 test rows and not both have time stamps" in notice


def test_every_pair_of_row_rates_and_warm_up_is_compared():
    base = stream_of("one", 2.0)
    streams = [
        base,
        stream_of("two", 1.0, seed=2),
        in_blocks(base, 6),
        in_blocks(base, 3),
    ]
    compared = compare(measured(*streams))
    names = [s.detector for s in streams]
    for figure in PAIRED_FIGURES:
        assert set(rows_of(compared, figure)) == set(combinations(names, 2)), figure


def test_evaluations_in_memory_compare_as_those_on_disk(tmp_path):
    evaluations = measured(stream_of("one", 2.0), stream_of("two", 0.5, seed=2))
    write_results(evaluations, tmp_path)
    assert compare(evaluations) == compare(read_results([tmp_path]))


def test_an_evaluation_without_traces_is_refused():
    (evaluation,) = measured(stream_of("one", 2.0))
    with pytest.raises(SightlineError, match="'one-1' has no traces"):
        compare([replace(evaluation, traces=None)])


@pytest.mark.parametrize("folder", sorted(p.name for p in HISTORIC.iterdir()))
def test_results_of_earlier_versions_can_be_compared(folder):
    results = read_results([HISTORIC / folder])
    for result in results:
        other = replace(
            result.evaluation, stream=replace(result.evaluation.stream, detector="b")
        )
        compared = compare([result, Result.of(other)], n_replicates=20)
        rows = [d for d in compared.differences if d.figure == "roc_auc"]
        assert [row.difference for row in rows] in ([0.0], [])
        assert rows or compared.notices


def test_fewer_than_five_attacks_have_no_interval():
    labels = labelled(ATTACKS[:4])
    compared = compare(
        measured(
            stream_of("one", 5.0, labels=labels),
            stream_of("two", 0.0, seed=2, labels=labels),
        )
    )
    (row,) = rows_of(compared, "roc_auc").values()
    assert row.difference > 0.3
    assert row.interval is row.p is row.p_adjusted is None
    assert not row.has_star
    assert row.power == "With 4 attacks no difference could have been seen: it takes 5."


@pytest.mark.parametrize("primary", ["roc_auc", "f1"])
def test_a_star_stands_if_and_only_if_the_interval_excludes_0(primary):
    lifts = {"a": 0.3, "b": 0.6, "c": 1.2, "d": 3.0}
    streams = [stream_of(n, lift, seed=k) for k, (n, lift) in enumerate(lifts.items())]
    compared = compare(measured(*streams), primary=primary)
    assert compared.primary == primary
    stars = {row.has_star for row in compared.differences}
    assert stars == {True, False}
    for row in compared.differences:
        assert row.has_star == (row.p_adjusted <= 0.05)
        assert row.p_adjusted >= row.p
        assert row.is_primary == (row.figure == primary)
        assert row.interval[0] <= row.difference <= row.interval[1]
        assert row.n_needed is None or not row.has_star


def test_the_figure_named_before_is_corrected_for_fewer_others():
    evaluations = measured(
        *(
            stream_of(n, lift, seed=k)
            for k, (n, lift) in enumerate({"a": 1, "b": 2, "c": 3}.items())
        )
    )
    named = rows_of(compare(evaluations, primary="roc_auc"), "roc_auc")
    other = rows_of(compare(evaluations, primary="recall"), "roc_auc")
    for pair, row in named.items():
        assert row.p == other[pair].p
        assert row.p_adjusted <= other[pair].p_adjusted


def test_a_figure_that_is_not_compared_cannot_be_primary():
    evaluations = measured(stream_of("one", 2.0), stream_of("two", 0.5, seed=2))
    with pytest.raises(SightlineError, match=r"did you mean 'roc_auc'\?"):
        compare(evaluations, primary="roc_au")


def test_power_says_which_difference_could_have_been_seen():
    compared = compare(measured(stream_of("one", 2.0), stream_of("two", 2.0, seed=2)))
    (row,) = rows_of(compared, "roc_auc").values()
    assert not row.has_star
    assert row.detectable > abs(row.difference)
    assert row.n_needed > 8
    assert row.power.startswith(
        f"With 8 attacks a difference of {row.detectable:.2g} could have been seen; to "
    )


# The paired procedure


def paired(by_attack, weight=None, **known):
    n = len(by_attack)
    weight = np.ones(n) if weight is None else np.asarray(weight, float)
    known = {"deviation": np.zeros(1)} | known
    return PairedFigure(
        weight=weight / weight.sum(), by_attack=np.asarray(by_attack, float), **known
    )


def test_a_hand_worked_interval():
    # d = 1, 0, 0, 0, 1, equal weights: D = 0.4, jackknife variance s^2 / n = 0.3 / 5.
    seen = paired([1, 0, 0, 0, 1])
    assert seen.difference == pytest.approx(0.4)
    error = np.sqrt(0.3 / 5 + (0.4 / 6) ** 2)
    assert seen.error == pytest.approx(error)
    assert seen.freedom == pytest.approx(4)
    assert seen.margin == pytest.approx(1 / 12)
    half = scipy.stats.t.ppf(0.975, 4) * error + 1 / 12
    assert seen.interval() == pytest.approx((0.4 - half, 0.4 + half))
    assert seen.p == pytest.approx(2 * scipy.stats.t.sf((0.4 - 1 / 12) / error, 4))


def test_of_equal_weights_the_jackknife_is_the_error_of_a_mean():
    values = np.random.default_rng(1).normal(size=12)
    values -= values.mean()
    assert paired(values).error == pytest.approx(scipy.stats.sem(values))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(-100, 100), min_size=5, max_size=20),
    st.integers(0, 2**32 - 1),
    st.floats(1e-6, 0.5),
)
def test_the_interval_reaches_0_at_the_level_p(values, seed, level):
    weight = np.random.default_rng(seed).exponential(size=len(values)) + 0.01
    shares = np.array(values) / 100
    seen, turned = paired(shares, weight), paired(-shares, weight)
    low, high = seen.interval(level)
    if abs(seen.p - level) > 1e-9:
        assert (low > 0 or high < 0) == (seen.p < level)
    assert turned.interval(level) == pytest.approx((-high, -low))
    assert turned.p == pytest.approx(seen.p)


@pytest.mark.parametrize(
    "more",
    [{"deviation": np.array([-0.2, 0.2])}, {"seed_variance": 0.04, "n_seeds": 3}],
)
def test_attack_free_time_and_seeds_make_p_larger(more):
    values = [0.3, 0.2, 0.4, 0.2, 0.1, 0.5, 0.2, 0.3]
    assert paired(values).p < 0.01
    assert paired(values, **more).p > 0.1


def test_holm_is_that_of_the_textbook():
    adjusted, levels = holm([0.01, 0.04, 0.03, 0.005])
    assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # The third smallest fails at 5% / 2; so does the one after it.
    assert levels == pytest.approx([0.05 / 3, 0.025, 0.025, 0.0125])
    assert holm([]) == ([], [])


def test_five_alike_detectors_rarely_get_a_star():
    rng = np.random.default_rng(0)
    n_studies, any_star, plain_star = 200, 0, 0
    for _ in range(n_studies):
        values = rng.random((5, 12)) + rng.random(12)
        p = [paired(a - b).p for a, b in combinations(values, 2)]
        any_star += min(holm(p)[0]) <= 0.05
        plain_star += min(p) <= 0.05
    assert any_star <= 0.07 * n_studies
    assert plain_star > 0.1 * n_studies


@pytest.mark.parametrize("n", [5, 12, 35])
def test_the_interval_covers_the_truth_and_is_not_much_too_long(n):
    """Differences of correlated detectors, with lengths that vary."""
    rng = np.random.default_rng(n)
    n_streams, truth = 400, 0.09375

    def drawn(size):
        strength = rng.beta(0.5, 0.5, size)
        return strength * 0.1875 + 0.15 * rng.normal(size=size)

    held, length, totals = 0, 0.0, []
    for _ in range(n_streams):
        seen = paired(drawn(n), np.exp(rng.normal(0, 0.9, n)))
        low, high = seen.interval()
        held += low <= truth <= high
        length += (high - low) / n_streams
        totals.append(seen.difference)
    oracle = np.diff(np.quantile(totals, [0.025, 0.975]))[0]
    assert held >= 0.92 * n_streams
    assert length <= (2.0 if n == 5 else 1.5) * oracle


def test_ranks_are_told_apart_by_more_than_the_range_that_chance_gives():
    rng = np.random.default_rng(0)
    values = np.vstack([rng.random((3, 20)), 2 + rng.random(20)])
    ranks = mean_ranks(-values.T).T
    distance = critical_distance(ranks, 0)
    # Nemenyi's distance for four groups and 20 blocks is 2.569 sqrt(4 * 5 / 120).
    assert distance == pytest.approx(2.569 * np.sqrt(20 / 120), rel=0.12)
    order = np.argsort(ranks.mean(axis=1))
    groups = joined_groups(ranks.mean(axis=1)[order], distance)
    assert order[0] == 3
    assert groups == [[1, 2, 3]]


def test_mean_ranks_of_a_comparison_are_over_the_attacks_that_all_have():
    streams = [stream_of("sharp", 4.0), stream_of("dull", 0.0, seed=2)]
    streams.append(stream_of("fewer", 0.0, seed=3, labels=labelled(ATTACKS[:7])))
    (row,) = compare(measured(*streams)).ranks
    assert row.detectors[0] == "sharp"
    assert row.n_attacks == 7
    assert row.ranks[0] == pytest.approx(1.0, abs=0.2)
    assert ("sharp",) not in row.groups
    assert all("sharp" not in group for group in row.groups)


def test_a_detectable_difference_is_marked_in_four_of_five_studies():
    rng = np.random.default_rng(0)
    detectable = np.mean(
        [paired(rng.normal(size=20)).detectable(0.05) for _ in range(100)]
    )
    assert detectable > 2.8 / np.sqrt(20)  # what normal theory gives
    marked = [paired(detectable + rng.normal(size=20)).p <= 0.05 for _ in range(300)]
    assert 0.7 < np.mean(marked) < 0.9


def test_as_many_attacks_as_needed_mark_the_difference():
    values = np.array([0.3, -0.1, 0.2, 0.1, -0.2, 0.3, 0.1, 0.0])
    seen = paired(values)
    n = seen.n_needed(0.05)
    assert 8 < n < 100
    assert paired(np.resize(values, n)).p <= 0.05
    assert paired(np.resize(values, 8)).n_needed(0.5) is None


# Seeds


def seeds_of(detector, lifts):
    return [stream_of(detector, lift, seed=k) for k, lift in enumerate(lifts)]


@pytest.mark.parametrize(("n_seeds", "has_spread"), [(1, False), (2, False), (4, True)])
def test_the_spread_over_seeds_is_in_the_interval_from_three_on(n_seeds, has_spread):
    lifts = (0.2, 2.0, 0.5, 1.5)[:n_seeds]
    evaluations = measured(*seeds_of("one", lifts), intervals=True)
    compared = compare(evaluations)
    (row,) = [f for f in compared.figures if f.figure == "mean_segment_auc"]
    assert row.n_seeds == n_seeds
    assert row.seeds_in_interval is has_spread
    values = [e.rank.mean_segment_auc for e in evaluations]
    assert row.mean == pytest.approx(np.mean(values))
    low, high = row.interval
    assert low <= row.mean <= high
    if n_seeds == 1:
        assert row.interval == evaluations[0].intervals["mean_segment_auc"]
    if has_spread:
        t = scipy.stats.t.ppf(0.975, n_seeds - 1)
        assert row.mean - low >= t * np.std(values, ddof=1) / 2 - 1e-9


def test_differences_hold_the_spread_of_both_detectors():
    def length(*lifts):
        evaluations = measured(*seeds_of("one", lifts), *seeds_of("two", (0.5,) * 3))
        (row,) = rows_of(compare(evaluations), "mean_segment_auc").values()
        assert row.seeds_in_interval
        return row.interval[1] - row.interval[0]

    assert length(0.2, 1.0, 3.0) > length(1.0, 1.0, 1.0) + 0.1


def test_a_clock_has_blocks_of_the_longest_and_all_attacks():
    evaluations = measured(
        stream_of("one", 2.0), in_blocks(stream_of("two", 1.0), 6), intervals=True
    )
    results = [Result.of(e) for e in evaluations]
    (timed,) = timed_results(results)
    clock = Clock.of(timed)
    blocks = [e.bootstrap.block for e in evaluations]
    longest = max(10 * blocks[0], 60 * blocks[1])
    assert [d.block for d in clock.drawables.values()] == [longest / 10, longest / 60]
    assert clock.n_attacks == 8
    seconds = [clock.seconds(result) for result in results]
    np.testing.assert_array_equal(seconds[0], [10.0 * (b - a) for a, b in ATTACKS])
    assert (np.abs(seconds[0] - seconds[1]) <= 120).all()
    for result in results:
        assert (
            clock.drawables[result].block_rows.sum()
            == (result.traces.labels == 0).sum()
        )
