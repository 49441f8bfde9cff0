"""Calm windows: where they lie, how long they are, which are in a similar state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import breaks, codes, seeds

from sightline.data.segments import Segment
from sightline.judgement.event_test import (
    FEW_DISJOINT,
    LEAST_ROWS,
    LEAST_WINDOWS,
    LIKE,
    MOST_ROWS,
    MOST_WINDOWS,
    AttackFreeRecord,
    Flag,
)

START = np.zeros(1, np.int64)


def calm_time(n_rows, attack, log_energy=None, breaks=START):
    is_attack_free = np.ones(n_rows, bool)
    is_attack_free[slice(*attack)] = False
    log_energy = np.zeros(n_rows) if log_energy is None else log_energy
    return AttackFreeRecord(
        is_attack_free=is_attack_free, log_energy=log_energy, breaks=breaks
    )


@given(codes([0, 0, 0, 1], least=300, most=1500), st.data(), st.integers(1, 200))
def test_windows_lie_in_calm_stretches_and_never_across_a_break(labels, data, length):
    starts = data.draw(breaks(len(labels)))
    calm = AttackFreeRecord(
        is_attack_free=labels == 0, log_energy=np.zeros(len(labels)), breaks=starts
    )
    windows = calm.windows_for(Segment(0, length))
    if windows is None:
        return
    assert len(windows.matched) >= LEAST_WINDOWS
    assert set(windows.starts) <= set(windows.matched)
    assert len(windows.starts) == min(len(windows.matched), MOST_WINDOWS)
    covered = np.zeros(len(labels), bool)
    for start in windows.matched.tolist():
        rows = range(start, start + windows.length)
        assert not labels[rows].any()
        assert not set(rows[1:]) & set(starts.tolist())
        covered[rows] = True
    np.testing.assert_array_equal(windows.rows(len(labels)), covered)
    n_disjoint, free = 0, 0
    for start in windows.matched.tolist():
        if start >= free:
            n_disjoint, free = n_disjoint + 1, start + windows.length
    assert windows.disjoint == n_disjoint
    assert (Flag.FEW_WINDOWS in windows.flags) == (n_disjoint < FEW_DISJOINT)
    assert (Flag.SHORTENED in windows.flags) == (windows.length < length)


@pytest.mark.parametrize(
    ("n_calm", "length", "expected"),
    [
        # 40 windows of 100 rows, one every 25, need 100 + 39 * 25 rows.
        (1075, 100, 100),
        (1074, 100, 50),
        (1075, 400, 100),
        (1075, 401, 100),
        (20 + 39 * 5, 1000, 20),
        (20 + 39 * 5 - 1, 1000, None),
        (20 + 39 * 5, 39, 20),  # not under 20 rows
        (5 + 39, 5, 5),  # a short attack keeps its length,
        (5 + 38, 5, None),  # and no shorter windows are tried
        (0, 5, None),
    ],
)
def test_lengths_are_halved_until_there_are_forty_windows(n_calm, length, expected):
    calm = calm_time(n_calm + length, (n_calm, n_calm + length))
    windows = calm.windows_for(Segment(n_calm, n_calm + length))
    assert (None if windows is None else windows.length) == expected
    if windows is not None:
        assert windows.length >= min(length, LEAST_ROWS)
        step = max(1, windows.length // 4)
        expected = np.arange(0, n_calm - windows.length + 1, step)
        np.testing.assert_array_equal(windows.matched, expected)


def test_windows_have_at_most_so_many_rows():
    attack = (100_000, 100_000 + 5 * MOST_ROWS)
    windows = calm_time(attack[1], attack).windows_for(Segment(*attack))
    assert windows.length == MOST_ROWS
    assert Flag.SHORTENED in windows.flags


def slow_state(calm, start, stop):
    """Return the state before and after a stretch, by their definition."""
    rows = np.flatnonzero(calm.is_attack_free)
    before = calm.log_energy[rows[rows < start]][-300:]
    after = calm.log_energy[rows[rows >= stop]][:300]
    usable = [side.mean() if len(side) >= 100 else None for side in (before, after)]
    if usable[0] is None and usable[1] is None:
        return None
    return [
        usable[1] if usable[0] is None else usable[0],
        usable[0] if usable[1] is None else usable[1],
    ]


@given(seeds, st.integers(0, 3500), st.integers(20, 300))
def test_matching_by_state_is_that_of_a_slow_version(seed, start, length):
    rng = np.random.default_rng(seed)
    # The state changes every 500 rows.
    log_energy = np.repeat(rng.normal(size=8), 500) + 0.1 * rng.normal(size=4000)
    attack = Segment(start, min(start + length, 4000))
    calm = calm_time(4000, (attack.start, attack.stop), log_energy)
    windows = calm.windows_for(attack)
    states = slow_state(calm, attack.start, attack.stop)
    step = max(1, windows.length // 4)
    every = [*range(0, attack.start - windows.length + 1, step)]
    every += range(attack.stop, 4000 - windows.length + 1, step)
    distance = {
        s: max(
            min(abs(side - own) for own in states)
            for side in slow_state(calm, s, s + windows.length)
        )
        for s in every
    }
    alike = [s for s in every if distance[s] <= LIKE]
    if len(alike) >= LEAST_WINDOWS:
        assert windows.matched.tolist() == alike
        assert Flag.UNMATCHED not in windows.flags
    else:
        nearest = sorted(every, key=lambda s: (distance[s], s))[:LEAST_WINDOWS]
        found = sorted(distance[s] for s in windows.matched.tolist())
        expected = sorted(distance[s] for s in nearest)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert Flag.UNMATCHED in windows.flags
    is_changed = abs(states[0] - states[1]) > LIKE
    assert (Flag.STATE_CHANGED in windows.flags) == is_changed


def test_a_window_leaves_its_own_rows_out_of_its_state():
    # One window of the record has a huge energy inside; its surroundings are as others.
    log_energy = np.zeros(6000)
    log_energy[1000:1100] = 50.0
    calm = calm_time(6000, (3000, 3100), log_energy)
    before, after = calm.state(np.array([1000]), np.array([1100]))
    assert (before[0], after[0]) == (0.0, 0.0)
    assert 1000 in calm.windows_for(Segment(3000, 3100)).matched


def test_one_side_stands_for_both_and_without_either_nothing_is_known():
    log_energy = np.concatenate([np.zeros(99), np.ones(400)])
    calm = calm_time(499, (99, 120), log_energy)
    before, after = calm.state(np.array([99]), np.array([120]))
    assert (before[0], after[0]) == (1.0, 1.0)
    short = calm_time(150, (60, 70), np.zeros(150))
    assert np.isnan(short.state(np.array([60]), np.array([70]))).all()
    # Then every window matches.
    windows = short.windows_for(Segment(60, 70))
    assert Flag.UNMATCHED not in windows.flags
