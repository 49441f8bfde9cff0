"""Smaller spaces against brute force: energies, limits, counts, names and ties."""

import numpy as np
import pytest
from strategies import ChunkedRows

from sightline import fit_reference
from sightline.data.row_tables import BLOCK_ROWS, ArrayRows, no_tick
from sightline.data.segments import Segment
from sightline.energy.reference import Reference
from sightline.judgement.calm import CalmWindows
from sightline.judgement.subspaces import (
    Exceedances,
    Family,
    SubspaceKind,
    count_above,
    family_of,
    upper_quantiles,
)

CHANNEL, GROUP, LARGEST = SubspaceKind
NAMES = ("FIT101", "LIT101", "MV101", "P101", "AIT201", "LIT301", "P302")
GROUPS = {"stage 1": NAMES[:4], "stage 3": NAMES[5:], "odd": NAMES[::2]}


def make_family(p=7, seed=0, groups=GROUPS):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(p, p)) + 2 * np.eye(p)
    reference = fit_reference(rng.normal(size=(400, p)) @ mixing + 3)
    return family_of(reference, NAMES[:p], groups)


def brute_energies(values, family):
    """Return the energy of each row in each space, by the textbook."""
    values = np.asarray(values, np.float64)
    mean, covariance = family.reference.mean, family.reference.covariance
    alone = 0.5 * (values - mean) ** 2 / np.diag(covariance)
    columns = [alone]
    for _, members in family.groups:
        inside = covariance[np.ix_(members, members)]
        moved = (values - mean)[:, list(members)]
        energy = 0.5 * np.einsum(
            "ti,ij,tj->t", moved, np.linalg.inv(inside), moved, optimize=True
        )
        columns.append(energy[:, None])
    ordered = -np.sort(-alone, axis=1)
    for k in range(2, min(5, values.shape[1]) + 1):
        columns.append(ordered[:, :k].sum(axis=1, keepdims=True))
    return np.concatenate(columns, axis=1)


def energies_of(values, family):
    out = np.empty((len(values), family.n_spaces))
    family.energies(np.asarray(values, np.float64), out)
    return out


def rows_like(n_rows, p=7, seed=1):
    rng = np.random.default_rng(seed)
    return 3 + 2 * rng.standard_t(4, size=(n_rows, p))


def test_the_family_is_channels_then_groups_then_the_largest():
    family = make_family()
    assert family.n_spaces == 7 + 3 + 4
    assert [space.column for space in family.spaces] == list(range(14))
    assert [space.name for space in family.spaces] == [
        *NAMES,
        "stage 1",
        "stage 3",
        "odd",
        "largest 2",
        "largest 3",
        "largest 4",
        "largest 5",
    ]
    members = [space.members for space in family.spaces]
    assert members[:7] == [(name,) for name in NAMES]
    assert members[7:10] == [NAMES[:4], NAMES[5:], NAMES[::2]]
    assert members[10:] == [()] * 4
    assert [space.size for space in family.spaces] == [*[1] * 7, 4, 2, 4, 2, 3, 4, 5]
    kinds = [space.kind for space in family.spaces]
    assert kinds == [CHANNEL] * 7 + [GROUP] * 3 + [LARGEST] * 4


@pytest.mark.parametrize(
    ("p", "largest"), [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (7, 4)]
)
def test_few_channels_have_fewer_sums(p, largest):
    family = make_family(p, groups=None)
    assert family.n_spaces == p + largest
    values = rows_like(50, p)
    np.testing.assert_allclose(
        energies_of(values, family), brute_energies(values, family), rtol=1e-9
    )


def test_a_group_of_one_channel_or_of_all_or_of_unknown_ones_is_none():
    groups = {
        "one": ["P101"],
        "twice one": ["P101", "P101"],
        "all": NAMES,
        "unknown": ["X", "Y"],
        "two and an unknown one": ["P302", "P101", "X"],
    }
    family = make_family(groups=groups)
    assert family.groups == (("two and an unknown one", (3, 6)),)


def test_energies_are_those_of_the_textbook():
    family, values = make_family(), rows_like(300)
    np.testing.assert_allclose(
        energies_of(values, family), brute_energies(values, family), rtol=1e-9
    )


def test_factors_of_groups_are_computed_once_and_change_no_bit(monkeypatch):
    family, values = make_family(), rows_like(3 * BLOCK_ROWS)
    calls = []
    cholesky = np.linalg.cholesky
    monkeypatch.setattr(
        np.linalg, "cholesky", lambda matrix: calls.append(1) or cholesky(matrix)
    )
    blocks = np.split(values, 3)
    found = np.concatenate([energies_of(block, family) for block in blocks])
    assert len(calls) == len(GROUPS)
    for block, energies in zip(blocks, np.split(found, 3), strict=True):
        centered = block - family.reference.mean
        for k, (_, members) in enumerate(family.groups):
            inside = family.reference.covariance[np.ix_(members, members)]
            moved = centered[:, list(members)].T
            whitened = np.linalg.solve(cholesky(inside), moved)
            expected = 0.5 * np.sum(whitened**2, axis=0)
            np.testing.assert_array_equal(energies[:, 7 + k], expected)


def test_the_energy_of_a_group_is_its_marginal_mahalanobis():
    family, values = make_family(), rows_like(40)
    members = [5, 6]
    marginal = Reference(
        mean=family.reference.mean[members],
        covariance=family.reference.covariance[np.ix_(members, members)],
        estimator="empirical",
        shrinkage=None,
        n_rows=400,
    )
    moved = values[:, members] - marginal.mean
    expected = 0.5 * np.sum((moved @ marginal.precision) * moved, axis=1)
    np.testing.assert_allclose(energies_of(values, family)[:, 8], expected, rtol=1e-9)


def test_the_largest_are_sorted_sums_even_with_ties():
    family = make_family()
    spread = np.sqrt(np.diag(family.reference.covariance))
    values = family.reference.mean + spread * np.array(
        [[1, 1, 1, 1, 1, 1, 1], [0, 2, 0, 2, 0, 0, 0], [0] * 7, [7, 6, 5, 4, 3, 2, 1]]
    )
    np.testing.assert_allclose(
        energies_of(values, family)[:, -4:],
        0.5 * np.array([[2, 3, 4, 5], [8, 8, 8, 8], [0] * 4, [85, 110, 126, 135]]),
        atol=1e-12,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "n_rows", [1, 2, 99, 100, 101, 102, 1023, 1024, 1025, 3001, 9000]
)
def test_limits_are_the_99th_percentiles(n_rows, dtype):
    family, values = make_family(), rows_like(n_rows).astype(dtype)
    counted = np.ones(n_rows, bool)
    found = upper_quantiles(ArrayRows(values), family, counted, no_tick)
    expected = np.quantile(brute_energies(values, family), 0.99, axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("order", ["rising", "falling", "as they come"])
def test_limits_do_not_depend_on_the_order_of_rows(order):
    family, values = make_family(), rows_like(12_000)
    size = np.argsort(np.sum((values - 3) ** 2, axis=1))
    rows = {"rising": values[size], "falling": values[size[::-1]]}.get(order, values)
    found = upper_quantiles(ArrayRows(rows), family, np.ones(12_000, bool), no_tick)
    expected = np.quantile(brute_energies(values, family), 0.99, axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_limits_of_rows_with_many_ties():
    family, values = make_family(), np.round(rows_like(8000) / 4) * 4
    found = upper_quantiles(ArrayRows(values), family, np.ones(8000, bool), no_tick)
    expected = np.quantile(brute_energies(values, family), 0.99, axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_limits_of_rows_that_are_all_the_same():
    family, values = make_family(), np.full((5000, 7), 4.0)
    found = upper_quantiles(ArrayRows(values), family, np.ones(5000, bool), no_tick)
    np.testing.assert_allclose(found, brute_energies(values, family)[0], rtol=1e-9)


def test_limits_look_at_counted_rows_only():
    family, values = make_family(), rows_like(5000)
    counted = np.random.default_rng(3).random(5000) < 0.3
    values[~counted] *= 1000
    found = upper_quantiles(ArrayRows(values), family, counted, no_tick)
    expected = np.quantile(brute_energies(values[counted], family), 0.99, axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("n_rows", [1, 57, BLOCK_ROWS, 2 * BLOCK_ROWS + 1])
def test_counts_are_those_of_brute_force_at_every_row(n_rows):
    family, values = make_family(), rows_like(n_rows)
    energies = energies_of(values, family)
    limits = np.quantile(energies, 0.8, axis=0)
    positions = np.arange(n_rows + 1)
    found = count_above(ArrayRows(values), family, limits, positions, no_tick)
    above = energies > limits
    expected = np.concatenate(
        [np.zeros((1, family.n_spaces), int), np.cumsum(above, 0)]
    )
    np.testing.assert_array_equal(found.counts, expected)
    for column in range(family.n_spaces):
        np.testing.assert_array_equal(found.above(column), above[:, column])


def test_a_value_at_its_limit_is_not_above():
    family, values = make_family(), rows_like(10)
    energies = energies_of(values, family)
    found = count_above(
        ArrayRows(values), family, energies[4], np.array([0, 4, 5, 10]), no_tick
    )
    np.testing.assert_array_equal(found.counts[1], found.counts[2])


def test_limits_and_counts_do_not_depend_on_how_rows_arrive():
    family, values = make_family(), rows_like(5000)
    counted = np.ones(5000, bool)
    chunked = ChunkedRows(values, [1, 1, 700, 1024, 1025, 4999])
    limits = upper_quantiles(ArrayRows(values), family, counted, no_tick)
    np.testing.assert_array_equal(
        upper_quantiles(chunked, family, counted, no_tick), limits
    )
    positions = np.array([0, 1023, 1024, 3000, 5000])
    at_once = count_above(ArrayRows(values), family, limits, positions, no_tick)
    pieces = count_above(chunked, family, limits, positions, no_tick)
    np.testing.assert_array_equal(pieces.counts, at_once.counts)
    np.testing.assert_array_equal(pieces.bits, at_once.bits)


def hand_made(above, channels):
    """Return exceedances of channels alone, from which rows are above."""
    above = np.asarray(above, bool)
    family = Family(
        reference=fit_reference(np.random.default_rng(0).normal(size=(9, 1))),
        channels=tuple(channels),
    )
    full = np.zeros((len(above), family.n_spaces), bool)
    full[:, : above.shape[1]] = above
    counts = np.concatenate([np.zeros((1, family.n_spaces)), np.cumsum(full, axis=0)])
    return Exceedances(
        family=family,
        positions=np.arange(len(above) + 1),
        counts=counts.astype(np.int32),
        bits=np.packbits(full, axis=1, bitorder="little"),
    )


@pytest.mark.parametrize("channels", [("B", "A", "C"), ("A", "C", "B")])
def test_of_spaces_that_do_equally_well_the_first_by_name_is_taken(channels):
    above = np.zeros((100, 3), bool)
    above[:5] = True
    found = hand_made(above, channels)
    windows = CalmWindows(length=10, starts=np.arange(10, 90, 2))
    rung, space = found.judged(Segment(0, 10), windows)
    assert rung.by == ("A",)
    assert space.column == channels.index("A")
    assert (rung.coverage, rung.calm, rung.visible) == (0.5, 0.0, True)


def test_the_best_space_wins_whatever_its_name():
    above = np.zeros((100, 3), bool)
    above[:5, 0], above[:6, 2] = True, True
    rung, space = hand_made(above, "ABC").judged(
        Segment(0, 10), CalmWindows(length=10, starts=np.arange(10, 90, 2))
    )
    assert (rung.by, space.column, rung.coverage) == (("C",), 2, 0.6)


def test_a_calm_window_may_pick_its_own_best_space():
    # The attack is in A; each calm window has as much in B or C, never in A.
    above = np.zeros((410, 3), bool)
    above[:5, 0] = True
    rows = np.arange(10, 410)
    busy = rows % 10 < 5
    above[rows[busy], 1 + (rows[busy] // 10) % 2] = True
    rung, _ = hand_made(above, "ABC").judged(
        Segment(0, 10), CalmWindows(length=10, starts=np.arange(10, 410, 10))
    )
    assert rung.coverage == 0.5
    assert rung.calm == 0.5
    assert not rung.visible
