"""Delay-thresholded, latency-aware and proximity-aware figures.

Reference values: tsadmetrics 1.0.16 (delay-thresholded, latency-aware with batches of
one row) and PATE 0.1.1 (buffers of 20 rows), on records that a seed makes.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import StreamError
from sightline.metrics.timely_metrics import delayed, latency, pate, pate_f1

# seed, k, delay-thresholded F1, latency-aware F1, PATE of a score, PATE F1 of alarms
PUBLISHED = [
    (0, 2, 0.048780487804878044, 0.5046728, 0.765479666912011, 0.1762820274030163),
    (1, 7, 0.0, 0.5333332, 0.8692672688813797, 0.14253744112413114),
    (2, 1, 0.0, 0.4123710, 0.5743789204922685, 0.12125510306811782),
    (3, 6, 0.0, 0.0, 0.7451636930384589, 0.027312775330396485),
    (4, 1, 0.45614035087719296, 0.5691056, 0.8054813323655997, 0.19034982789492066),
    (5, 1, 0.0, 0.4479999, 0.8663918279188276, 0.17881259808213562),
    (6, 2, 0.3174603174603175, 0.5277776, 0.837185521003461, 0.27734380092306643),
    (7, 5, 0.6705882352941177, 0.6783625, 0.8197316034552522, 0.2682438121766754),
]


def record(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 400))
    labels = np.zeros(n, int)
    for _ in range(rng.integers(1, 6)):
        start = rng.integers(0, n)
        labels[start : start + rng.integers(1, 30)] = 1
    alarms = (rng.random(n) < 0.15).astype(int)
    return labels, alarms, rng.normal(size=n) + 2 * labels


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda row: f"seed {row[0]}")
def test_figures_are_those_of_the_published_code(published):
    seed, k, by_delay, by_latency, of_score, of_alarms = published
    labels, alarms, score = record(seed)
    assert delayed(labels, alarms, k=k)["f1"] == pytest.approx(by_delay, abs=1e-12)
    # The published code adds 1e-5 to denominators, and was written to 7 digits.
    assert latency(labels, alarms)["f1"] == pytest.approx(by_latency, abs=1e-6)
    assert pate(labels, score, buffer=20)["value"] == pytest.approx(of_score, abs=1e-12)
    assert pate_f1(labels, alarms, buffer=20)["f1"] == pytest.approx(
        of_alarms, abs=1e-12
    )


def test_a_hand_worked_record():
    labels = [0, 1, 1, 1, 1, 0, 0, 1, 1, 0]
    alarms = [0, 0, 1, 0, 1, 1, 0, 0, 0, 0]
    # The first attack is found in its second row.
    assert delayed(labels, alarms, k=1) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert delayed(labels, alarms, k=2) == {
        "precision": 4 / 5,
        "recall": 4 / 6,
        "f1": 8 / 11,
    }
    assert latency(labels, alarms) == {
        "precision": 3 / 4,
        "recall": 3 / 6,
        "f1": 6 / 10,
    }
    # Row 5 is the first of the buffer of rows 5 and 6: the middle of the attack is 2.5,
    # so it counts 1 - 2.5 / 3.5. Missed: rows 1 (weight 1) and 3, of which the first
    # alarm of one row makes 1 - 2 (2 - 1/2) / 6, and the second attack.
    with_buffer = 2 + 1 - 2.5 / 3.5
    missed = 1 + 0.5 + 2
    f1s = []
    for true in (2.0, with_buffer):
        precision, recall = true / 3, true / (true + missed)
        f1s.append(2 * precision * recall / (precision + recall))
    assert pate_f1(labels, alarms, buffer=2)["f1"] == pytest.approx(np.mean(f1s))


@given(st.integers(0, 2**32 - 1))
def test_perfect_alarms_reach_1_and_more_delay_is_never_worse(seed):
    labels, alarms, score = record(seed)
    assert delayed(labels, labels)["f1"] == latency(labels, labels)["f1"] == 1.0
    assert pate_f1(labels, labels)["f1"] == pytest.approx(1.0)
    assert pate(labels, labels)["value"] == pytest.approx(1.0)
    by_k = [delayed(labels, alarms, k=k)["f1"] for k in (1, 3, 30, 400)]
    assert by_k == sorted(by_k)
    assert 0 <= pate(labels, score)["value"] <= 1 + 1e-12


def test_no_buffer_crosses_a_break_and_ignored_rows_do_not_count():
    labels = np.array([0, 0, 1, 1, 0, 0, 0, 0])
    alarms = np.array([0, 0, 1, 1, 1, 0, 0, 0])
    near = pate_f1(labels, alarms, buffer=3)["f1"]
    cut = pate_f1(labels, alarms, buffer=3, breaks=[4])["f1"]
    assert cut < near
    labels[4] = -1
    assert pate_f1(labels, alarms, buffer=3)["f1"] == 1.0
    assert delayed(labels, alarms)["precision"] == 1.0


def test_without_an_attack_nothing_is_defined_and_nonsense_is_refused():
    quiet = np.zeros(9, int)
    assert delayed(quiet, quiet) == {"precision": None, "recall": None, "f1": None}
    assert (pate(quiet, quiet), pate_f1(quiet, quiet)) == (
        {"value": None},
        {"f1": None},
    )
    for call in (
        lambda: delayed([0, 1], [0, 1], k=0),
        lambda: pate([0, 1], [0, 1], buffer=-1),
        lambda: pate([0, 1], [0, 1], thresholds=1),
    ):
        with pytest.raises(StreamError):
            call()
