import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from strategies import window_energies

from sightline.data.segments import name_segments, segments_of
from sightline.metrics.measures import Drift, measure_segments
from sightline.metrics.ranking import rank_attacks

DRIFT = Drift(d_drift=2.0, d_drift_robust=2.0, mean_dominated=False)


def measured(
    energy, labels, is_alarm=None, *, first_rows=None, drift=DRIFT, step_s=None
):
    energy, labels = np.asarray(energy, float), np.asarray(labels, np.int8)
    first_rows = np.array([0]) if first_rows is None else first_rows
    attacks = name_segments(segments_of(labels == 1, first_rows), [])
    # One whitened channel that has just these energies.
    whitened = np.sqrt(2 * energy)[:, None]
    return measure_segments(
        attacks,
        energy,
        labels,
        np.zeros(len(labels), bool) if is_alarm is None else np.asarray(is_alarm, bool),
        rank_attacks(energy[labels == 1], np.sort(energy[labels == 0])),
        drift,
        windows=window_energies(whitened, labels, first_rows),
        train_mean=1.0,
        step_s=step_s,
    )


def test_no_attack_has_no_rows():
    assert measured([1.0, 2.0], [0, 0]) == []


def test_one_table_by_hand():
    first, second = measured(
        energy=[1, 5, 3, 7, 1, 9, 4, 2],
        labels=[0, 1, 1, 1, 0, -1, 1, 0],
        is_alarm=[0, 0, 1, 1, 0, 1, 0, 0],
        step_s=10.0,
    )
    assert (first.id, first.start, first.stop, first.length) == ("1", 1, 4, 3)
    assert (first.hit, first.coverage) == (True, pytest.approx(2 / 3))
    assert (first.first_alarm, first.first_alarm_s) == (1, 10.0)
    assert first.d_atk == pytest.approx(5 - 1)
    assert first.d_eff == pytest.approx(4 - 2)
    assert first.sdr == pytest.approx(4 / 2)
    assert (second.id, second.start, second.stop) == ("2", 6, 7)
    assert (second.hit, second.coverage) == (False, 0.0)
    assert (second.first_alarm, second.first_alarm_s) == (None, None)
    assert (first.auc, second.auc) == (1.0, 1.0)


def test_window_figures_by_hand():
    # Whitened: 0, then an attack 4, 2 with mean 3 and variance 1, then 0, 0, 0.
    (row,) = measured([0, 8, 2, 0, 0, 0], [0, 1, 1, 0, 0, 0])
    shrunk = (2 * 1 + 1) / (2 + 1)
    assert row.kl == pytest.approx((shrunk + 9 - 1 - np.log(shrunk)) / 2)
    assert row.kl_plain == pytest.approx((1 + 9 - 1 - np.log(1)) / 2)
    assert (row.kl_shrunk, row.reliable) == (False, True)
    assert row.d_full == pytest.approx(2 * row.kl)
    assert row.d_ms == pytest.approx(2 * 9 / 2)
    assert row.n_matched == 2  # rows 3 to 4 and 4 to 5


def test_one_step_has_no_plain_divergence():
    (row,) = measured([0, 8, 0], [0, 1, 0])
    assert (row.kl_plain, row.kl_shrunk, row.reliable) == (None, True, False)
    assert row.kl == pytest.approx((0.5 + 16 - 1 - np.log(0.5)) / 2)


def test_first_alarm_in_seconds_needs_the_step():
    (row,) = measured([1, 5], [0, 1], [0, 1])
    assert (row.first_alarm, row.first_alarm_s) == (0, None)


def test_without_any_drift_there_is_no_ratio():
    still = Drift(d_drift=0.0, d_drift_robust=0.0, mean_dominated=False)
    (row,) = measured([1, 5], [0, 1], drift=still)
    assert (row.sdr, row.sdr_usable) == (None, False)


@pytest.mark.parametrize(
    ("drift", "usable"),
    [
        (DRIFT, True),
        (Drift(d_drift=2.0, d_drift_robust=0.1, mean_dominated=True), False),
        (Drift(d_drift=-1.0, d_drift_robust=-1.0, mean_dominated=False), False),
    ],
)
def test_each_row_says_whether_its_ratio_can_be_used(drift, usable):
    (row,) = measured([1, 5], [0, 1], drift=drift)
    assert row.sdr_usable is usable


def test_a_break_cuts_a_segment_in_two():
    rows = measured([1, 5, 6, 1], [0, 1, 1, 0], first_rows=np.array([0, 2]))
    assert [(row.start, row.stop) for row in rows] == [(1, 2), (2, 3)]


def random_trace(n=6000):
    """A slowly moving trace with three attacks and some ignored rows."""
    rng = np.random.default_rng(4)
    energy = rng.exponential(size=n) + 3 * np.sin(np.arange(n) / 500) ** 2
    labels = np.zeros(n, np.int8)
    for start, stop, extra in [(40, 60, 1.0), (3000, 3150, 2.0), (5990, 6000, 0.5)]:
        labels[start:stop] = 1
        energy[start:stop] += extra
    labels[2900:2960] = -1
    return energy, labels


def test_auc_is_against_every_normal_step():
    energy, labels = random_trace()
    for row in measured(energy, labels):
        against = np.concatenate([energy[row.start : row.stop], energy[labels == 0]])
        is_attack = np.arange(len(against)) < row.length
        assert row.auc == pytest.approx(roc_auc_score(is_attack, against), rel=1e-12)


def test_auc_nearby_is_against_the_nearest_normal_steps():
    energy, labels = random_trace()
    rows = measured(energy, labels)
    wanted = {20: 1000, 150: 1500, 10: 1000}  # max(10 W, 1000)
    assert [row.length for row in rows] == list(wanted)
    for row in rows:
        normal = np.flatnonzero(labels == 0).tolist()

        def distance(step, row=row):
            before = step < row.start
            return (row.start - step if before else step - row.stop + 1, step)

        nearest = sorted(normal, key=distance)[: wanted[row.length]]
        against = np.concatenate([energy[row.start : row.stop], energy[nearest]])
        is_attack = np.arange(len(against)) < row.length
        assert row.auc_nearby == pytest.approx(
            roc_auc_score(is_attack, against), rel=1e-12
        )
        assert row.auc_nearby != row.auc


def test_auc_nearby_takes_every_normal_step_where_there_are_fewer():
    rng = np.random.default_rng(0)
    labels = np.zeros(300, int)
    labels[100:110] = 1
    (row,) = measured(rng.random(300), labels)
    assert row.auc_nearby == pytest.approx(row.auc, rel=1e-12)
