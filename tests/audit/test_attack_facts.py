"""What the telemetry says of attacks: whether it moves, and when the plant is back."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from strategies import ChunkedRows, breaks, cuts, seeds

from sightline import ResidualStream, evaluate
from sightline.audit import attack_facts
from sightline.audit.attack_facts import (
    MOST_WINDOWS,
    STEP_S,
    AttackFacts,
    Movement,
    facts_of_attacks,
    prepare,
    telemetry_aftermath,
)
from sightline.audit.record import Audit, RecordingFacts, carried
from sightline.data.row_tables import ArrayRows
from sightline.data.segments import Attack, Segment
from sightline.energy.attack_free import (
    CAP_LENGTHS,
    ENERGY_BLOCK_ROWS,
    LEAST_FAR,
    energy_aftermath,
)

START = np.zeros(1, np.int64)


def smooth(n_rows, p, seed):
    """Return telemetry of a plant: each channel follows its own past."""
    rng = np.random.default_rng(seed)
    return lfilter([1.0], [1.0, -0.9], rng.normal(size=(n_rows, p)), axis=0)


TRAIN, TEST = smooth(3000, 4, 1), smooth(4000, 4, 2)
ATTACK = Attack(id="A", start=2000, stop=2060)


def labels_of(*attacks, n_rows=4000):
    labels = np.zeros(n_rows, np.int8)
    for attack in attacks:
        labels[attack.start : attack.stop] = 1
    return labels


def telemetry_of(test=TEST, labels=None, *, train=TRAIN, step_s=10.0, starts=START):
    return prepare(
        ArrayRows(train),
        ArrayRows(test),
        labels=labels_of(ATTACK) if labels is None else labels,
        train_breaks=START,
        test_breaks=starts,
        channels=[f"T{j}" for j in range(test.shape[1])],
        step_s=step_s,
    )


def fact_of(test, **known):
    (fact,) = facts_of_attacks(telemetry_of(test, **known), [ATTACK])
    return fact


# --- Does it move? --------------------------------------------------------------------


def changed(rows, channel, change):
    test = TEST.copy()
    test[rows, channel] = change(test[rows, channel])
    return test


ROWS = slice(2000, 2060)
BACK_AND_FORTH = 3 * (-1.0) ** np.arange(60)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v + 15,  # a jump
        lambda v: np.full_like(v, v[0]),  # a frozen reading
        lambda v: v + BACK_AND_FORTH,  # restless, about the same level
        lambda v: v + 0.5 * np.arange(60),  # a ramp
    ],
)
def test_what_moves_is_said_to_move_and_in_which_channel(change):
    fact = fact_of(changed(ROWS, 2, change))
    assert fact.movement is Movement.MOVES
    assert fact.p_value == 1 / (1 + MOST_WINDOWS)
    assert fact.channels[0] == "T2"
    assert fact.view in ("change", "surprise")


def test_what_stays_still_is_said_to_be_still():
    fact = fact_of(TEST)
    assert fact.movement is Movement.STILL
    assert fact.p_value > attack_facts.STILL
    assert fact.n_windows == MOST_WINDOWS


def test_stretches_without_effect_are_seldom_said_to_move():
    p = []
    for seed in range(12):
        test = smooth(4000, 4, 100 + seed)
        # Each by itself, so that the others are calm time.
        for start in range(100, 3900, 190):
            attack = Attack(id="A", start=start, stop=start + 30)
            telemetry = telemetry_of(test, labels_of(attack))
            p.append(facts_of_attacks(telemetry, [attack])[0].p_value)
    assert np.mean(np.array(p) <= 0.05) <= 0.09
    assert np.mean(np.array(p) <= 0.20) <= 0.25


def test_the_onset_is_when_the_leading_channel_first_moves():
    fact = fact_of(changed(slice(2020, 2060), 1, lambda v: v + 25))
    assert fact.channels[0] == "T1"
    assert fact.onset_s == 20 * 10.0
    assert fact_of(TEST, step_s=None).onset_s is None


@pytest.mark.parametrize("usual", [0.0, 7.0, 1e6])
def test_a_channel_that_stands_still_in_calm_time_and_moves_is_at_the_floor(usual):
    train, test = (np.column_stack([v, np.full(len(v), usual)]) for v in (TRAIN, TEST))
    assert fact_of(test, train=train).movement is Movement.STILL
    test[2030:2040, 4] += 1e-6 * max(usual, 1)
    fact = fact_of(test, train=train)
    assert fact.p_value == 1 / (1 + fact.n_windows)
    assert fact.channels[0] == "T4"


def test_too_little_calm_time_gives_no_answer():
    labels = np.ones(4000, np.int8)
    labels[:20] = 0
    attack = Attack(id="A", start=20, stop=4000)
    (fact,) = facts_of_attacks(telemetry_of(labels=labels), [attack])
    assert (fact.movement, fact.p_value, fact.n_windows) == (None, None, 0)
    assert telemetry_of(labels=np.ones(4000, np.int8)) is None


def test_no_row_of_another_attack_enters_the_facts():
    other = Attack(id="B", start=3000, stop=3050)
    labels = labels_of(ATTACK, other)
    frozen = (np.column_stack([v, np.ones(len(v))]) for v in (TRAIN, TEST))
    train, test = frozen
    wild = test.copy()
    wild[3000:3050] = 1e9 * np.random.default_rng(0).normal(size=(50, 5))
    facts = [
        facts_of_attacks(telemetry_of(v, labels, train=train), [ATTACK, other])
        for v in (test, wild)
    ]
    assert facts[0][0] == facts[1][0]
    assert facts[0][1].movement is Movement.STILL
    assert facts[1][1].movement is Movement.MOVES


@pytest.mark.parametrize("size", [1e200, -1e308, np.inf, np.nan])
def test_absurd_cells_of_an_attack_do_no_harm(size):
    fact = fact_of(changed(slice(2010, 2020), 0, lambda v: np.full_like(v, size)))
    assert np.isfinite(fact.p_value)
    assert (fact.movement is Movement.MOVES) or not np.isfinite(size)


def test_absurd_train_gives_no_answer():
    assert telemetry_of(train=1e200 * TRAIN) is None


def test_missing_cells_hold_the_last_value():
    test = TEST.copy()
    test[:5, 0] = np.nan  # nothing before: the first value
    test[700:720, 1] = np.nan
    held = test.copy()
    held[:5, 0], held[700:720, 1] = test[5, 0], test[699, 1]
    one, other = telemetry_of(test), telemetry_of(held)
    np.testing.assert_array_equal(one.level, other.level)


# --- Rows of several steps ------------------------------------------------------------


@given(seeds, st.integers(40, 200), st.sampled_from([0.5, 1.0, 3.0, 20.0]), st.data())
def test_averages_of_steps_are_those_of_a_slow_version(seed, n_rows, step_s, data):
    rng = np.random.default_rng(seed)
    values, starts = rng.normal(size=(n_rows, 2)), data.draw(breaks(n_rows))
    labels = rng.choice([0, 0, 0, 1, -1], size=n_rows).astype(np.int8)
    labels[0] = 0
    every = max(1, round(STEP_S / step_s))
    stops = [*starts[1:].tolist(), n_rows]
    blocks = [
        range(first, min(first + every, stop))
        for start, stop in zip(starts.tolist(), stops, strict=True)
        for first in range(start, stop, every)
    ]
    train = rng.normal(size=(100, 2))
    given = {"labels": labels, "train_breaks": START, "test_breaks": starts}
    given |= {"channels": ["a", "b"], "step_s": step_s}
    rows = ChunkedRows(values, data.draw(cuts(n_rows)))
    found = prepare(ArrayRows(train), rows, **given)
    wanted = [
        1 if 1 in labels[b] else -1 if -1 in labels[b] else 0 for b in map(list, blocks)
    ]
    if 0 not in wanted:
        assert found is None
        return
    usual = np.array([train[k : k + every].mean(axis=0) for k in range(0, 100, every)])
    level = np.array([values[list(b)].mean(axis=0) for b in blocks])
    level = (level - usual.mean(axis=0)) / usual.std(axis=0)
    np.testing.assert_allclose(found.level, level, atol=1e-9)
    assert found.labels.tolist() == wanted
    assert found.starts.tolist() == [b[0] for b in blocks]
    assert found.step_s == every * step_s
    first_rows = [k for k, b in enumerate(blocks) if b[0] in set(starts.tolist())]
    assert found.breaks.tolist() == first_rows
    for k in range(len(blocks)):
        is_new = k in first_rows or (wanted[k] == 0 and wanted[k - 1] != 0)
        change = np.zeros(2) if is_new else level[k] - level[k - 1]
        np.testing.assert_allclose(found.change[k], change, atol=1e-9)
    start, last = sorted(data.draw(st.tuples(*2 * [st.integers(0, n_rows - 1)])))
    touched = [k for k, b in enumerate(blocks) if b[0] <= last and b[-1] >= start]
    expected = Segment(touched[0], touched[-1] + 1)
    assert found.rows_of(Segment(start, last + 1)) == expected
    whole = prepare(ArrayRows(train), ArrayRows(values), **given)
    for name in ("level", "change", "surprise"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


def test_the_surprise_is_the_residual_of_ridge_regression_within_runs():
    train, test = smooth(500, 3, 3), smooth(300, 3, 4)
    starts = np.array([0, 120])
    found = telemetry_of(test, np.zeros(300, np.int8), train=train, starts=starts)
    scale = train.std(axis=0)
    learned, tested = ((rows - train.mean(axis=0)) / scale for rows in (train, test))
    inside = learned[:-1].T @ learned[:-1] + 1e-3 * 499 * np.eye(3)
    weights = np.linalg.inv(inside) @ learned[:-1].T @ learned[1:]
    wanted = np.zeros_like(tested)
    wanted[1:] = tested[1:] - tested[:-1] @ weights
    wanted[120] = 0.0
    np.testing.assert_allclose(found.surprise, wanted, atol=1e-9)


# --- Aftermath ------------------------------------------------------------------------


def energies(after, n_rows=8000, attack=(3000, 3400), seed=0):
    """Return energies of normal rows, times `after` in the rows after an attack."""
    rng = np.random.default_rng(seed)
    energy = rng.chisquare(10, n_rows) / 2
    energy[slice(*attack)] *= 10
    energy[attack[1] : attack[1] + len(after)] *= after
    return energy


def removed(energy, *attacks, step_s=1.0, ignored=()):
    labels = np.zeros(len(energy), np.int8)
    for start, stop in attacks:
        labels[start:stop] = 1
    for start, stop in ignored:
        labels[start:stop] = -1
    segments = [Segment(*attack) for attack in attacks]
    return energy_aftermath(energy, labels, START, segments, step_s)


def decay(n_rows):
    return 1 + 9 * np.exp(-5 * np.arange(n_rows) / n_rows)


@pytest.mark.parametrize("length", [400, 600, 1000])
@pytest.mark.parametrize("step_s", [1.0, 10.0, None])
def test_a_recovery_of_1200_rows_is_removed(length, step_s):
    attack = (3000, 3000 + length)
    energy = energies(decay(1200), 12_000, attack)
    (n_after,) = removed(energy, attack, step_s=step_s)
    assert 300 <= n_after <= 1500
    assert n_after % ENERGY_BLOCK_ROWS == 0


def test_a_plant_that_is_back_at_once_has_no_aftermath():
    assert removed(energies(np.ones(1)), (3000, 3400)) in ([0], [20], [40])
    usual = [removed(energies(np.ones(1), seed=k), (3000, 3400))[0] for k in range(20)]
    assert np.mean(np.array(usual) > 0) <= 0.2


def test_a_change_that_stays_is_a_new_normal():
    cap = CAP_LENGTHS * 400
    for lasts, is_removed in ((cap - 100, True), (cap + 100, False)):
        (n_after,) = removed(energies(np.full(lasts, 5.0)), (3000, 3400), step_s=60.0)
        assert (n_after > 0) is is_removed


def test_the_aftermath_ends_before_three_blocks_that_are_as_usual():
    after = np.ones(1000)
    after[:100] = after[140:200] = 10.0  # two blocks between are as usual,
    after[260:300] = 10.0  # then three: what comes later is not aftermath
    assert removed(energies(after), (3000, 3400)) == [200]


def test_other_attacks_and_ignored_rows_are_passed_over():
    energy = energies(np.full(300, 10.0))
    energy[3500:3600] = 1e-9
    assert removed(energy, (3000, 3400)) == [100]
    assert removed(energy, (3000, 3400), ignored=[(3500, 3600)]) == [300]
    assert removed(energy, (3000, 3400), (3500, 3600))[0] == 300


def test_few_far_blocks_remove_nothing():
    cap = CAP_LENGTHS * 400
    n_far = 100 + LEAST_FAR * ENERGY_BLOCK_ROWS
    for short, expected in ((0, True), (101, False)):
        n_before = n_far - 100 - short
        attack = (n_before, n_before + 400)
        energy = energies(np.full(200, 10.0), attack[1] + cap, attack)
        found = removed(energy, attack, step_s=None)
        assert found == [200 if expected else 0]


def test_the_recovery_of_telemetry_is_removed_in_seconds():
    test = smooth(6000, 4, 5)
    attack = Attack(id="A", start=2000, stop=2200)
    labels = labels_of(attack, n_rows=6000)
    test[2000:2200, 1] += 40
    test[2200:2600, 1] += 40 * np.exp(-np.arange(400) / 130)
    for step_s, seconds in ((10.0, 10.0), (None, 1.0)):
        telemetry = telemetry_of(test, labels, step_s=step_s)
        (fact,) = facts_of_attacks(telemetry, [attack])
        (rows,) = telemetry_aftermath(telemetry, [attack.segment])
        assert 200 <= rows <= 450
        assert fact.aftermath_s == rows * seconds


# --- In a stream ----------------------------------------------------------------------


def stream_of(seed=0, **known):
    rng = np.random.default_rng(seed)
    residuals = rng.normal(size=(3000, 3)), rng.normal(size=(4000, 3))
    return ResidualStream(
        *residuals,
        labels_of(ATTACK),
        segments=[ATTACK],
        telemetry_train=TRAIN,
        telemetry_test=changed(ROWS, 2, lambda v: v + 15),
        step_s=10.0,
        **known,
    )


def telemetry_in(stream):
    return evaluate(stream, intervals=False).segments[0].telemetry


def test_the_same_telemetry_gives_all_detectors_the_same_facts():
    facts = [telemetry_in(stream_of(seed)) for seed in range(3)]
    assert facts[0].movement is Movement.MOVES
    assert facts[0] == facts[1] == facts[2]


def test_facts_that_a_recording_carries_win():
    known = AttackFacts(
        id="A", movement=Movement.STILL, p_value=0.5, n_windows=77, aftermath_s=500.0
    )
    recording = RecordingFacts(plant="made up", tables=(), tags=(), attacks=(known,))
    audit = Audit(recording=recording, findings=(), passed=())
    stream = stream_of(meta=carried(audit))
    assert telemetry_in(stream) == known
    row = evaluate(stream, intervals=False).segments[0]
    assert row.verdict == "not-in-telemetry"
    assert row.aftermath_s == 500.0
    # Facts of other attacks say nothing of this one.
    others = replace(
        audit, recording=replace(recording, attacks=(replace(known, id="B"),))
    )
    assert telemetry_in(stream_of(meta=carried(others))).movement is Movement.MOVES


def test_without_a_step_no_seconds_are_reported():
    row = evaluate(stream_of().replace(step_s=None), intervals=False).segments[0]
    assert row.aftermath_s is None
    assert row.telemetry.aftermath_s is None
    assert row.telemetry.movement is Movement.MOVES
