"""Localisation: ranks, hits, chance and the law of the conditional deviation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import Attack, ResidualStream, StreamError, evaluate, fit_reference
from sightline.data.row_tables import ArrayRows
from sightline.evaluation import localisation
from sightline.evaluation.localisation import Method, Moment, localise
from sightline.metrics.intervals import count_interval
from sightline.metrics.localisation import measure_localisation
from sightline.metrics.ranking import mean_ranks

seeds = st.integers(0, 2**32 - 1)


def plant(rng, p, n):
    """Correlated residuals of normal operation."""
    return rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + rng.normal(size=p)


@given(seed=seeds, p=st.integers(2, 12), size=st.sampled_from([-30.0, 1.0, 8.0]))
@settings(max_examples=40, deadline=None)
def test_a_fault_in_one_channel_has_its_largest_conditional_deviation_there(
    seed, p, size
):
    """|P_kj| <= sqrt(P_kk P_jj): no other channel can deviate more."""
    rng = np.random.default_rng(seed)
    reference = fit_reference(plant(rng, p, 20 * p))
    faulty = int(rng.integers(p))
    rows = np.tile(reference.mean, (30, 1))
    rows[10:20, faulty] += size * np.sqrt(reference.covariance[faulty, faulty])
    names = [f"T{j}" for j in range(p)]
    attack = Attack(id="1", start=10, stop=20, targets=(names[faulty],))
    alarms = np.zeros(30, bool)
    alarms[12] = True
    found = localise(
        ArrayRows(rows),
        names,
        reference,
        [attack],
        alarms,
        stages={},
        uncertainty=False,
    )
    for method in (Method.CONDITIONAL, Method.ACCUMULATED):
        for moment in Moment:
            assert found.attacks[0].ranks[method][moment] == 1
            assert found.figures[method][moment].hit_1.value == 1
    for leading in found.attacks[0].leading.values():
        assert (leading[0].channel, leading[0].share) == (names[faulty], 1.0)


def test_strengths_by_hand():
    """Two channels, identity covariance: all methods follow from the residuals."""
    reference = fit_reference(
        np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]),
        estimator="empirical",
    )
    rows = ArrayRows(np.array([[0.0, 0.0], [3.0, -4.0], [3.0, 4.0], [0.0, 0.0]]))
    attack = Attack(id="a", start=1, stop=3, targets=("x",))
    strength = localisation._strengths(rows, reference, [attack], np.array([1]))
    expected = {
        (Method.CONTRIBUTION, Moment.ATTACK): [9.0, 16.0],
        (Method.CONTRIBUTION, Moment.FIRST_ALARM): [4.5, 8.0],
        (Method.CONDITIONAL, Moment.ATTACK): [9.0, 16.0],
        (Method.CONDITIONAL, Moment.FIRST_ALARM): [9.0, 16.0],
        (Method.ACCUMULATED, Moment.ATTACK): [6 / np.sqrt(2), 4.0],
        (Method.ACCUMULATED, Moment.FIRST_ALARM): [6 / np.sqrt(2), 0.0],
    }
    for (method, moment), values in expected.items():
        assert strength[method][moment][0] == pytest.approx(values)


def test_long_attacks_are_read_some_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    reference = fit_reference(plant(rng, 3, 100))
    rows = ArrayRows(rng.normal(size=(60, 3)))
    attacks = [
        Attack(id=str(k), start=s, stop=s + 9) for k, s in enumerate((0, 20, 40))
    ]
    first = np.array([2, -1, 0])
    whole = localisation._strengths(rows, reference, attacks, first)
    monkeypatch.setattr(localisation, "MOST_VALUES", 3 * 10)
    pieces = localisation._strengths(rows, reference, attacks, first)
    for method in whole:
        for moment in Moment:
            assert np.array_equal(
                whole[method][moment], pieces[method][moment], equal_nan=True
            )
    assert np.isnan(whole[Method.CONDITIONAL][Moment.FIRST_ALARM][1]).all()


@given(seed=seeds, n=st.integers(1, 6), p=st.integers(2, 9))
@settings(max_examples=30)
def test_ranks_are_one_to_p_whatever_the_order_of_channels(seed, n, p):
    rng = np.random.default_rng(seed)
    strength = rng.integers(0, 4, (n, p)).astype(float)
    ranks = mean_ranks(strength)
    assert ranks.sum(axis=1) == pytest.approx(p * (p + 1) / 2)
    order = rng.permutation(p)
    assert np.array_equal(mean_ranks(strength[:, order]), ranks[:, order])


def test_hits_have_the_exact_interval_of_a_count():
    strength = np.eye(6)[[0, 1, 2, 3]] + 0.001 * np.arange(6)
    figures = measure_localisation(strength, [[0], [1], [2], [5]])
    low, high = count_interval(3, 4)
    assert figures.n_attacks == 4
    assert figures.hit_1.value == 0.75
    assert figures.hit_1.interval == pytest.approx((low / 4, high / 4))
    # The last target is second strongest: (rank - 1) / (p - 1) is 0.2 for it.
    assert figures.normalised_rank.value == pytest.approx(0.05)
    low, high = figures.normalised_rank.interval
    assert 0 <= low <= 0.05 <= high < 0.7


def test_chance_gives_each_attack_the_targets_of_others():
    """All attacks have the same target: pointing at it is no skill."""
    strength = np.zeros((8, 5))
    strength[:, 2] = 1.0
    always = measure_localisation(strength, [[2]] * 8)
    assert (always.hit_1.value, always.hit_1.floor.value) == (1.0, 1.0)
    assert not always.hit_1.floor.above_floor
    skilled = measure_localisation(np.eye(8), [[k] for k in range(8)])
    assert skilled.hit_1.floor.above_floor
    assert skilled.hit_1.floor.value == pytest.approx(1 / 8, abs=0.05)
    assert skilled.normalised_rank.floor.value > 0.3


def test_a_stage_is_as_strong_as_its_strongest_channel():
    strength = np.array([[5.0, 0.0, 4.0], [0.0, 1.0, 3.0]])
    stages = np.array([0, 0, 1])
    figures = measure_localisation(strength, [[1], [0]], stages, uncertainty=False)
    assert figures.stage_hit_1.value == 0.5
    assert figures.hit_1.value == 0.0


def stream(**changes):
    rng = np.random.default_rng(5)
    train, test = rng.normal(size=(600, 4)), rng.normal(size=(400, 4))
    labels = np.zeros(400, int)
    attacks = []
    for k in range(6):
        start = 40 + 60 * k
        labels[start : start + 15] = 1
        test[start : start + 15, k % 3] += 9.0
        attacks.append(
            Attack(id=f"a{k}", start=start, stop=start + 15, targets=("ABC"[k % 3],))
        )
    known = {"channels": list("ABCD"), "segments": attacks}
    known["meta"] = {"groups": {"first": ["A", "B"], "second": ["C", "D"]}}
    return ResidualStream(train, test, labels, **(known | changes))


def test_an_evaluation_localises_its_attacks():
    e = evaluate(stream(), diagnosis=False, metrics="none")
    assert (e.localisation.n_channels, e.localisation.n_stages) == (4, 2)
    assert [a.id for a in e.localisation.attacks] == [f"a{k}" for k in range(6)]
    for by_moment in e.localisation.figures.values():
        for figures in by_moment.values():
            assert figures.n_attacks == 6
            assert figures.hit_1.value == figures.stage_hit_1.value == 1.0
            assert figures.hit_1.floor.value < 0.7
    assert set(e.localisation.figures) == {"contribution", "conditional", "accumulated"}


def test_a_detectors_own_attribution_is_judged_beside():
    given = stream()
    blame = np.zeros((400, 4))
    blame[:, 3] = 1.0
    e = evaluate(given, diagnosis=False, intervals=False, attribution=blame)
    own = e.localisation.figures["own"]["attack"]
    assert (own.hit_1.value, own.hit_3.value) == (0.0, 1.0)
    assert e.localisation.figures["conditional"]["attack"].hit_1.value == 1.0
    with pytest.raises(StreamError, match=r"shape \(400, 4\); got \(400, 3\)"):
        evaluate(given, attribution=blame[:, :3])
    blame[7, 0] = np.nan
    with pytest.raises(StreamError, match="must be finite; row 7"):
        evaluate(given, attribution=blame)


def test_an_attribution_does_not_fit_dropped_rows():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    broken = rows.copy()
    broken[3] = np.nan
    labels = np.zeros(50, int)
    labels[20:25] = 1
    given = ResidualStream(rows, broken, labels)
    with pytest.raises(StreamError, match="of which 1 were dropped"):
        evaluate(given, nonfinite="drop", attribution=np.zeros((50, 2)))


def test_attacks_without_a_target_among_the_channels_are_left_out():
    unknown = [Attack(id="1", start=40, stop=55, targets=("Z",))]
    for segments in (unknown, ()):
        e = evaluate(stream(segments=segments), diagnosis=False, metrics="none")
        assert e.localisation is None


def test_missed_attacks_have_no_rank_at_the_first_alarm():
    given = stream()
    quiet = np.zeros((400, 4))
    e = evaluate(given.replace(test=quiet), diagnosis=False, intervals=False)
    assert "first_alarm" not in e.localisation.figures["conditional"]
    assert e.localisation.attacks[0].ranks["conditional"]["first_alarm"] is None
    assert e.localisation.attacks[0].leading["first_alarm"] == ()
