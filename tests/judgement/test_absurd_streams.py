"""Absurd sizes and places: no warning, no exception, finite figures, a verdict."""

import json

import numpy as np
import pytest
from hard_streams import answer_of
from judged_streams import calm_stream, rows_of, with_test

from sightline import ResidualStream, evaluate
from sightline.judgement.verdicts import Verdict


def judged(stream):
    """Return the rows of an evaluation that is strict JSON."""
    evaluation = evaluate(stream, intervals=False)
    json.dumps(evaluation.to_dict(), allow_nan=False)
    assert all(row.sentence for row in evaluation.segments)
    assert all("nan" not in row.sentence for row in evaluation.segments)
    return evaluation.segments


@pytest.mark.parametrize("size", [1e120, 1e152])
@pytest.mark.parametrize("rows", [slice(3000, 3120), slice(3010, 3011)])
def test_an_attack_of_absurd_size_is_detected(size, rows):
    stream = with_test(
        calm_stream((3000, 3120), (5000, 5060)),
        lambda test: test.__setitem__(rows, size),
    )
    found = judged(stream)
    assert answer_of(found[0]) == "detected"
    assert found[1].verdict == "weak-evidence"


def test_absurd_calm_rows_do_no_harm():
    for rows in (slice(1000, 1001), slice(1000, 1500), slice(0, 2900)):
        stream = with_test(
            calm_stream((3000, 3120)), lambda test, r=rows: test.__setitem__(r, 1e150)
        )
        (row,) = judged(stream)
        assert row.verdict in tuple(Verdict)


def test_a_whole_test_of_absurd_size_is_judged_or_undecided():
    stream = with_test(calm_stream((3000, 3120)), lambda test: test.__imul__(1e150))
    (row,) = judged(stream)
    assert not row.found.is_found


@pytest.mark.parametrize("where", ["train", "test", "attack"])
def test_frozen_channels_do_no_harm(where):
    stream = calm_stream((3000, 3120))
    train, test = stream.train.values.copy(), stream.test.values.copy()
    if where == "train":
        train[:, 3] = 5.0
    elif where == "test":
        test[:, 3] = 0.0
    else:
        test[3000:3120] = test[3000]
    (row,) = judged(stream.replace(train=train, test=test))
    assert row.verdict in tuple(Verdict)


def test_all_channels_frozen_at_their_mean_is_quiet():
    stream = with_test(
        calm_stream((3000, 3120)), lambda test: test.__setitem__(slice(3000, 3120), 0.0)
    )
    (row,) = judged(stream)
    assert row.verdict == "quiet"
    assert row.ladder["quiet"].coverage < 0.01


@pytest.mark.parametrize(
    "place", [(0, 60), (5940, 6000), (0, 1), (5999, 6000), (2000, 2001), (3000, 3009)]
)
@pytest.mark.parametrize("size", [0.0, 6.0])
def test_attacks_at_the_ends_and_of_one_row_are_judged(place, size):
    def attack(test):
        test[slice(*place)] += size

    (row,) = judged(with_test(calm_stream(place), attack))
    assert answer_of(row) == ("detected" if size else "weak-evidence")


@pytest.mark.parametrize("n_calm", [1, 10, 150, 270, 300])
def test_a_test_that_is_nearly_all_attack_is_undecided_or_judged(n_calm):
    stream = calm_stream((n_calm, 6000))
    telemetry = calm_stream(p=3, seed=4)
    stream = stream.replace(
        telemetry_train=telemetry.train.values, telemetry_test=telemetry.test.values
    )
    (row,) = judged(stream)
    # Windows of 20 rows, and 60 rows within the slop of the label.
    assert (answer_of(row) == "undecided") == (n_calm < 60 + 20 + 39 * 5)


@pytest.mark.parametrize("step_s", [0.1, 1.0])
def test_telemetry_rows_without_a_normal_one_give_no_answer(step_s):
    # Every row of ten seconds holds a step of an attack.
    labels = np.zeros(300, np.int8)
    labels[::10] = 1
    telemetry = calm_stream(p=2, n_test=300, seed=4)
    stream = ResidualStream(
        telemetry.train.values,
        telemetry.test.values,
        labels,
        telemetry_train=telemetry.train.values,
        telemetry_test=telemetry.test.values,
        step_s=step_s,
    )
    assert {row.telemetry for row in rows_of(stream)} == {None}


@pytest.mark.parametrize("p", [1, 2, 60])
def test_one_channel_and_many_are_judged(p):
    stream = with_test(
        calm_stream((3000, 3120), (5000, 5060), p=p),
        lambda test: test.__setitem__(slice(3000, 3120), test[3000:3120] + 6),
    )
    assert [answer_of(row) for row in judged(stream)] == ["detected", "weak-evidence"]


def test_a_short_train_is_enough():
    stream = calm_stream((3000, 3120), n_train=30, p=3)
    (row,) = judged(stream)
    assert row.verdict in tuple(Verdict)


def test_adjacent_attacks_are_judged_each_by_itself():
    def attack(test):
        test[3000:3060] += 5

    stream = calm_stream((3000, 3060), (3060, 3120), test_breaks=[0, 3060])
    found = judged(with_test(stream, attack))
    assert [answer_of(row) for row in found] == ["detected", "weak-evidence"]
