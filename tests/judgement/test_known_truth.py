"""Streams whose truth is known by construction, and laws that hold for all."""

from functools import cache

import numpy as np
import pytest
from hard_streams import answer_of
from judged_streams import calm_stream, normal, rows_of, verdicts_of, with_test
from scipy.signal import lfilter
from scipy.stats import binom

from sightline import evaluate
from sightline.judgement.event_test import Flag

NO_CAUSE = {"weak-evidence", "not-in-telemetry", "undecided"}
ATTACK = slice(3000, 3120)


# --- One stream for each verdict ------------------------------------------------------


def mixed_stream():
    """Return attacks of several causes, correlated channels, breaks, ignored rows."""
    places = [(s, s + 120) for s in (700, 2000, 3400, 4800, 6200)]
    stream = calm_stream(
        *places, p=24, n_test=9000, test_breaks=[0, 1300, 5600], seed=7
    )
    train = stream.train.values.copy()
    train[:, 1] += 0.7 * train[:, 0]

    def attack(test):
        test[:, 1] += 0.7 * test[:, 0]
        test[700:820] += 2
        test[2000:2120, 5] += 3.5
        test[3400:3520] *= 1.2
        test[4800:4920] *= 0.3

    labels = stream.labels.copy()
    labels[7500:7700] = -1
    return with_test(stream, attack, train=train, labels=labels)


MIXED = ["detected", "diluted", "sequential", "quiet", "weak-evidence"]


@cache
def mixed_rows():
    return rows_of(mixed_stream())


def test_a_stream_with_five_truths_has_five_verdicts():
    assert [answer_of(row) for row in mixed_rows()] == MIXED
    assert mixed_rows()[1].evidence_channels[0] == "channel_5"
    assert [row.confidence > 0.7 for row in mixed_rows()] == [True] * 5


def test_a_limit_that_training_set_too_high_is_the_threshold():
    stream = calm_stream((3000, 3120))
    train = stream.train.values.copy()
    train[::25] *= 8
    stream = stream.replace(train=train)
    stream = with_test(
        stream, lambda test: test.__setitem__(ATTACK, test[ATTACK] + 2.5)
    )
    assert verdicts_of(stream) == ["threshold"]


def test_an_attack_that_moves_back_to_training_is_hidden_by_drift():
    def drift(test):
        test += 3.0
        test[ATTACK] -= 3.0

    assert verdicts_of(with_test(calm_stream((3000, 3120)), drift)) == ["drift"]


# --- Onset, late effects, aftermath ---------------------------------------------------


@pytest.mark.parametrize("length", [100, 300, 600])
def test_two_rows_of_15_deviations_at_the_onset_are_detected(length):
    def ring(test):
        test[5000:5002, 0] += 15

    stream = calm_stream((5000, 5000 + length), p=12, n_test=16_000)
    (row,) = rows_of(with_test(stream, ring))
    assert answer_of(row) == "detected"
    assert row.found.is_found
    assert row.coverage < 0.1
    assert "onset" in row.ladder["probe"].ways
    assert "its onset peaks at" in row.sentence


def test_one_row_at_40_times_the_limit_in_60_rows_is_found():
    stream = calm_stream((3000, 3060), p=12)
    limit = evaluate(stream, intervals=False).probe.tau99

    def ring(test):
        # Of 12 channels with unit spread: half the squared norm is the energy.
        test[3004] *= np.sqrt(2 * 40 * limit) / np.linalg.norm(test[3004])

    (row,) = rows_of(with_test(stream, ring))
    assert answer_of(row) == "detected"
    assert row.ladder["probe"].onset > 10


@pytest.mark.parametrize("length", [120, 400])
def test_an_effect_in_the_last_quarter_is_detected(length):
    def late(test):
        test[3000 + 3 * length // 4 : 3000 + length] += 3.0

    stream = calm_stream((3000, 3000 + length), n_test=9000)
    assert verdicts_of(with_test(stream, late)) == ["detected"]


def test_an_attack_whose_recovery_is_in_alarm_is_detected():
    stop = 3400

    def recover(test):
        size = np.full(400, 3.0)
        size[::12] = 0.0  # 92% of the attack is in alarm
        test[3000:stop] += size[:, None]
        decay = 3.0 * np.exp(-5 * np.arange(1200) / 1200)
        test[stop : stop + 1200] += decay[:, None]

    (row,) = rows_of(with_test(calm_stream((3000, stop), n_test=12_000), recover))
    assert answer_of(row) == "detected"
    assert row.ladder["probe"].coverage == pytest.approx(0.92, abs=0.02)
    assert row.ladder["probe"].calm < 0.05
    assert 300 <= row.aftermath_s <= 1500


# --- Rules that never stop ------------------------------------------------------------


def doubled(test):
    test[ATTACK] *= np.sqrt(2)


@pytest.mark.parametrize("effect", [lambda test: None, doubled])
def test_an_alarm_that_never_stops_finds_nothing(effect):
    stream = with_test(calm_stream((3000, 3120)), effect, alarms=np.ones(6000, np.int8))
    evaluation = evaluate(stream, intervals=False)
    (row,) = evaluation.segments
    assert answer_of(row) != "detected"
    assert not row.found.is_found
    assert not row.ladder["own-rule"].visible
    facts = evaluation.diagnosis
    assert facts.is_standing
    assert (facts.found.count, facts.rings.count) == (0, 1)
    # It rings in every attack, and as often by chance.
    assert facts.rings.by_chance == pytest.approx(1.0)
    assert facts.rings.p_value > 0.9


@pytest.mark.parametrize("effect", [lambda test: None, doubled])
def test_a_p99_rule_that_drift_keeps_in_alarm_finds_nothing(effect):
    def drift(test):
        effect(test)
        test += 1.5

    evaluation = evaluate(with_test(calm_stream((3000, 3120)), drift), intervals=False)
    (row,) = evaluation.segments
    assert evaluation.diagnosis.share_in_alarm > 0.6
    assert evaluation.diagnosis.is_standing
    assert answer_of(row) != "detected"
    assert not row.found.is_found


def test_a_rule_that_stands_hides_nothing_that_a_repair_shows():
    stream = with_test(
        calm_stream((3000, 3120)),
        lambda test: test.__setitem__(ATTACK, test[ATTACK] + 3),
        alarms=np.ones(6000, np.int8),
    )
    (row,) = rows_of(stream)
    assert row.verdict == "threshold"
    assert row.ladder["probe"].visible


# --- Signed accumulation --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_bias_of_09_deviations_in_one_of_12_channels_is_sequential(seed):
    def bias(test):
        test[3000:3300, 7] += 0.9

    stream = calm_stream((3000, 3300), p=12, n_test=9000, seed=seed)
    (row,) = rows_of(with_test(stream, bias))
    assert row.verdict == "sequential"
    assert row.evidence_channels == ("channel_7",)


def test_a_slow_bias_in_one_of_43_channels_is_sequential_and_names_it():
    # As residuals of an LSTM: autocorrelated noise, and a bias that grows slowly.
    def lstm_like(n_rows, seed):
        return lfilter([np.sqrt(1 - 0.25)], [1, -0.5], normal(n_rows, 43, seed), axis=0)

    names = [f"TAG{j:02}" for j in range(43)]
    stream = calm_stream((5000, 5600), p=43, n_test=14_000, channels=names)
    test = lstm_like(14_000, 2)
    test[5000:5600, 17] += np.minimum(np.arange(600) / 100, 1.0) * 1.2
    (row,) = rows_of(stream.replace(train=lstm_like(12_000, 1), test=test))
    assert row.verdict == "sequential"
    assert row.evidence_channels == ("TAG17",)
    assert "Evidence in" in row.sentence
    assert "TAG17" in row.sentence


# --- Nothing there --------------------------------------------------------------------


def test_segments_without_effect_get_no_cause_and_are_not_found():
    n_found = n_blamed = n_segments = 0
    for seed in range(5):
        places = [(s, s + 60) for s in range(600, 11_400, 600)]
        phi = 0.2 * seed

        def calm(n_rows, number, phi=phi):
            return lfilter([1.0], [1.0, -phi], normal(n_rows, 8, number), axis=0)

        stream = calm_stream(*places, p=8, n_test=12_000, seed=seed)
        stream = stream.replace(train=calm(6000, seed), test=calm(12_000, 90 + seed))
        for row in rows_of(stream):
            n_segments += 1
            n_found += row.found.is_found
            n_blamed += row.verdict not in NO_CAUSE
    assert n_segments == 90
    assert n_found <= 0.05 * n_segments
    # What a rate of 5% exceeds once in a hundred times; of 540 such segments 23 were.
    assert n_blamed <= binom.ppf(0.99, n_segments, 0.05)


# --- Laws -----------------------------------------------------------------------------


def judged(rows):
    """Return verdict and confidence, and what is found, of each attack."""
    return [(row.verdict, row.confidence, row.found.is_found) for row in rows]


def test_the_order_of_channels_does_not_matter():
    stream, order = mixed_stream(), np.random.default_rng(0).permutation(24)
    rows = rows_of(
        stream.replace(
            train=stream.train.values[:, order],
            test=stream.test.values[:, order],
            channels=[stream.channels[j] for j in order],
        )
    )
    assert [answer_of(row) for row in rows] == MIXED
    for now, before in zip(rows, mixed_rows(), strict=True):
        assert now.found == before.found
        assert set(now.evidence_channels[:1]) == set(before.evidence_channels[:1])


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**12])
def test_the_unit_of_all_residuals_does_not_matter(factor):
    stream = mixed_stream()
    rows = rows_of(
        stream.replace(
            train=factor * stream.train.values, test=factor * stream.test.values
        )
    )
    assert judged(rows) == judged(mixed_rows())
    assert [row.ladder for row in rows] == [row.ladder for row in mixed_rows()]


def test_the_unit_of_each_channel_does_not_matter_to_a_standardised_reference():
    stream = mixed_stream()
    factors = 2.0 ** np.random.default_rng(0).integers(-10, 10, 24)
    scaled = stream.replace(
        train=factors * stream.train.values, test=factors * stream.test.values
    )
    one, other = (
        evaluate(s, intervals=False, estimator="ledoit-wolf-standardised").segments
        for s in (stream, scaled)
    )
    assert [row.verdict for row in one] == [row.verdict for row in other]


@pytest.mark.parametrize("constant", [-8.0, 64.0])
def test_a_constant_added_to_the_residuals_does_not_matter(constant):
    stream = mixed_stream()
    rows = rows_of(
        stream.replace(
            train=stream.train.values + constant, test=stream.test.values + constant
        )
    )
    assert [answer_of(row) for row in rows] == MIXED


def test_no_row_of_an_attack_enters_what_is_said_of_another():
    stream = mixed_stream()
    wild = with_test(
        stream, lambda test: test.__setitem__(slice(700, 820), 1e6 * normal(120, 24, 3))
    )
    rows = rows_of(wild)
    assert answer_of(rows[0]) == "detected"
    for now, before in zip(rows[1:], mixed_rows()[1:], strict=True):
        for name in ("verdict", "confidence", "alternatives", "ladder", "windows"):
            assert getattr(now, name) == getattr(before, name), name
        assert (now.flags, now.aftermath_s) == (before.flags, before.aftermath_s)
        assert now.ladder_p_value == before.ladder_p_value


def test_wild_ignored_rows_change_nothing():
    stream = mixed_stream()
    wild = with_test(
        stream,
        lambda test: test.__setitem__(slice(7500, 7700), 1e6 * normal(200, 24, 3)),
    )
    assert [row.ladder for row in rows_of(wild)] == [r.ladder for r in mixed_rows()]


def test_float32_residuals_have_the_verdicts_of_float64():
    stream = mixed_stream()
    single = stream.replace(
        train=stream.train.values.astype(np.float32),
        test=stream.test.values.astype(np.float32),
    )
    assert verdicts_of(single) == MIXED


def test_a_plant_in_another_state_after_the_attack_is_said_to_be():
    def louder(test):
        test[3120:] *= 1.6

    (row,) = rows_of(with_test(calm_stream((3000, 3120)), louder))
    assert Flag.STATE_CHANGED in row.flags
    assert "state after the attack differs" in row.sentence


def test_too_little_calm_time_is_undecided_and_says_what_is_missing():
    labels = np.zeros(6000, np.int8)
    labels[:2900], labels[3120:] = -1, -1
    labels[3000:3120] = 1
    (row,) = rows_of(calm_stream((3000, 3120)).replace(labels=labels))
    assert (row.verdict, row.ladder, row.found) == ("undecided", {}, None)
    assert "at least 40 attack-free stretches" in row.sentence
