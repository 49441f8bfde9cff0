"""The refitted reference: out of fold, alternating in time, and near an attack."""

import more_calm_data
import numpy as np
import pytest

from sightline import energy_trace, fit_reference
from sightline.data.row_tables import ArrayRows
from sightline.data.segments import Segment
from sightline.judgement.calm import CalmWindows
from sightline.judgement.refit import (
    LOCAL_FOLDS,
    N_BLOCKS,
    alternating,
    folds_of,
    judge_local,
    refit_all,
    rows_around,
)

ALL_FOLDS = pytest.mark.parametrize("n_folds", [2, LOCAL_FOLDS])


def make_rows(n_rows=3000, p=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, p)) @ (rng.normal(size=(p, p)) + 2 * np.eye(p))


def refit(values, is_normal):
    return refit_all(ArrayRows(values), folds_of(is_normal))


@ALL_FOLDS
@pytest.mark.parametrize("n_rows", [20, 21, 39, 997, 4000])
def test_folds_are_balanced_and_taken_in_turn(n_rows, n_folds):
    fold = alternating(n_rows, n_folds)
    edges = np.flatnonzero(np.diff(fold)) + 1
    assert len(edges) == N_BLOCKS - 1
    lengths = np.diff([0, *edges, n_rows])
    assert lengths.max() - lengths.min() <= 1
    firsts = fold[[0, *edges]]
    np.testing.assert_array_equal(firsts, np.arange(N_BLOCKS) % n_folds)
    counts = np.bincount(fold, minlength=n_folds)
    assert counts.max() - counts.min() <= N_BLOCKS // n_folds


@ALL_FOLDS
def test_blocks_are_contiguous_in_time_whatever_the_order_of_rows(n_folds):
    clock = np.random.default_rng(0).permutation(2000)
    normal_rows = np.sort(np.random.default_rng(1).permutation(2000)[:1500])
    fold = more_calm_data.alternating(normal_rows, clock, n_folds)
    in_time = fold[np.argsort(clock[normal_rows])]
    assert np.count_nonzero(np.diff(in_time)) == N_BLOCKS - 1


def test_versions_of_the_same_time_are_in_the_same_block():
    clock = np.tile(np.arange(1000), 3)
    fold = more_calm_data.alternating(np.arange(3000), clock, 2).reshape(3, 1000)
    assert np.mean(fold[0] == fold[1]) > 0.98
    assert np.mean(fold[0] == fold[2]) > 0.98


def test_each_attack_free_row_is_judged_by_a_reference_that_never_saw_it():
    values, is_normal = make_rows(), np.ones(3000, bool)
    is_normal[700:800] = False
    values[700:800] += 50
    found = refit(values, is_normal)
    assert found is not None
    normal_rows = np.flatnonzero(is_normal)
    fold = alternating(len(normal_rows), 2)
    for k in (0, 1):
        others = fit_reference(values[normal_rows[fold != k]])
        own_rows = normal_rows[fold == k]
        np.testing.assert_allclose(
            found.energy[own_rows], energy_trace(values[own_rows], others), rtol=1e-8
        )
    expected = np.quantile(found.energy[is_normal], 0.99)
    assert found.limit == pytest.approx(expected, rel=1e-12)


def test_rows_of_attacks_take_the_smaller_of_two_energies():
    values, is_normal = make_rows(), np.ones(3000, bool)
    is_normal[700:800] = False
    found = refit(values, is_normal)
    assert found is not None
    np.testing.assert_array_equal(
        found.energy[700:800], np.minimum(*found.both)[700:800]
    )


def test_a_wild_row_moves_its_own_energy_and_that_of_the_other_fold_only():
    values, is_normal = make_rows(), np.ones(3000, bool)
    before = refit(values, is_normal)
    fold = alternating(3000, 2)
    wild = values.copy()
    wild[40] += 1e4
    after = refit(wild, is_normal)
    assert before is not None
    assert after is not None
    same_fold = (fold == fold[40]) & (np.arange(3000) != 40)
    np.testing.assert_array_equal(after.energy[same_fold], before.energy[same_fold])
    assert after.energy[40] > 1e6
    assert (after.energy[fold != fold[40]] != before.energy[fold != fold[40]]).all()


def test_attacks_and_ignored_rows_do_not_reach_the_references():
    values, is_normal = make_rows(), np.ones(3000, bool)
    is_normal[1200:1300] = False
    before = refit(values, is_normal)
    values[1200:1300] *= 1e5
    after = refit(values, is_normal)
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(after.energy[is_normal], before.energy[is_normal])
    assert after.limit == before.limit


def test_an_attack_takes_the_smaller_coverage_of_the_two_references():
    values, is_normal = make_rows(), np.ones(3000, bool)
    is_normal[700:800] = False
    values[700:800] += 3
    found = refit(values, is_normal)
    assert found is not None
    windows = CalmWindows(length=100, starts=np.arange(900, 2800, 50))
    rung = found.judged(Segment(700, 800), windows)
    both = [np.mean(energy[700:800] > found.limit) for energy in found.both]
    assert rung.coverage == min(both)
    assert rung.by == ("whole record",)


def test_too_few_or_unchanging_rows_make_no_reference():
    assert refit(make_rows(19), np.ones(19, bool)) is None
    assert refit(np.ones((500, 3)), np.ones(500, bool)) is None


def test_local_rows_are_the_nearest_and_not_its_own():
    normal_rows = np.arange(20_000)
    segment = Segment(9000, 9400)
    rows = rows_around(segment, normal_rows, 5)
    assert len(rows) == 2000
    assert not np.isin(rows, np.arange(9000, 9400)).any()
    np.testing.assert_array_equal(rows, np.sort(rows))
    np.testing.assert_array_equal(
        rows, np.r_[np.arange(8000, 9000), np.arange(9400, 10_400)]
    )


def test_local_rows_are_attack_free_ones():
    normal_rows = np.setdiff1d(np.arange(9000), np.arange(4000, 5000))
    rows = rows_around(Segment(3500, 3600), normal_rows, 2)
    assert np.isin(rows, normal_rows).all()
    assert len(rows) == 2000


@pytest.mark.parametrize(
    ("length", "p", "times", "wanted"),
    [(100, 5, 1, 2000), (100, 150, 1, 3000), (1700, 5, 1, 3400), (100, 5, 3, 6000)],
)
def test_how_many_local_rows_are_wanted(length, p, times, wanted):
    segment = Segment(5000, 5000 + length)
    record = np.arange(20_000)
    rows = more_calm_data.rows_around(segment, record, record, p, times)
    assert len(rows) == wanted
    if times == 1:
        np.testing.assert_array_equal(rows_around(segment, record, p), rows)


def test_local_rows_of_several_versions_are_near_by_clock():
    clock = np.tile(np.arange(6000), 2)
    rows = more_calm_data.rows_around(
        Segment(100, 120), np.arange(200, 12_000), clock, 2, times=2
    )
    assert len(rows) == 4000
    assert (clock[rows] < 2200).all()
    assert (rows >= 6000).any()
    assert (rows < 6000).any()


def judged_locally(values, segment, breaks=(0,)):
    n_rows = len(values)
    outside = np.delete(np.arange(n_rows), segment.rows)
    rows = rows_around(segment, outside, values.shape[1])
    fold = alternating(len(rows), LOCAL_FOLDS)
    return judge_local(
        values[rows], rows, fold, values[segment.rows], segment, np.array(breaks)
    )


def test_a_local_refit_shows_an_attack_under_local_drift():
    values, segment = make_rows(6000), Segment(4000, 4100)
    values[3000:] += 40
    values[segment.rows] -= 40
    rung = judged_locally(values, segment)
    assert rung is not None
    assert rung.visible
    assert rung.coverage > 0.9
    assert rung.by == ("around it",)


def test_a_local_refit_does_not_show_a_calm_window():
    rung = judged_locally(make_rows(6000), Segment(4000, 4100))
    assert rung is not None
    assert not rung.visible
    assert rung.coverage < 0.1


def test_a_local_refit_needs_windows_and_rows_that_vary():
    values = make_rows(6000)
    every_fifteen = np.arange(0, 6000, 15)
    assert judged_locally(values, Segment(4000, 4100), every_fifteen) is None
    assert judged_locally(np.ones((6000, 3)), Segment(4000, 4100)) is None
    assert judged_locally(make_rows(110), Segment(5, 100)) is None
