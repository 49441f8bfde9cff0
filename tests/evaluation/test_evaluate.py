import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import sklearn.covariance
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from on_disk import full_stream
from strategies import ChunkedRows, cuts, make_stream, seeds, streams

import sightline
from sightline import Attack, ResidualStream, StepKind, StreamError, evaluate
from sightline.data.row_tables import gather_rows

BLOCKS = {
    "stream": "detector testbed space p n_train n_test n_attack step_s",
    "reference": "estimator shrinkage",
    "rank": "roc_auc pauc_1 pauc_5 average_precision mean_segment_auc "
    "largest_segment_share raw_roc_auc",
    "windows": "p_full p_full_per_segment median_d_full n_segments "
    "n_matched_windows n_unmatched_segments",
    "drift": "d_drift d_drift_robust mean_dominated d_gap d_shift",
    "compactness": "p_eff compactness",
    "quality": "max_z max_z_test_normal excess_kurtosis chi_square_tail "
    "chi_square_tail_test chi_square_variance chi_square_variance_test "
    "constant_channels "
    "one_sided_channels scale_blind_channels",
    "probe": "tau99 f1 precision recall false_positive_segments hits "
    "false_alarm_rate false_alarms_per_day over_alarming",
}
OTHER_BLOCKS = (
    "two_sided own_rule intervals floor segments repairs verdict_counts bootstrap "
    "dropped_rows provenance"
)
SEGMENT = (
    "id start stop length auc auc_nearby kl kl_plain kl_mean kl_spread kl_volume "
    "d_full d_ms reliable d_atk d_eff sdr sdr_usable hit coverage first_alarm "
    "first_alarm_s kl_shrunk n_matched name targets note outcome"
)
# Filled by later parts of the walk.
OF_DIAGNOSIS = ("repairs", "verdict_counts")
OF_DIAGNOSIS_OF_A_SEGMENT = (
    "verdict confidence alternatives found evidence ladder ladder_p_value "
    "evidence_channels contributing windows flags aftermath_s telemetry signature "
    "signature_agrees sentence"
)


# For tests that do not look at intervals and floors.
quick = partial(evaluate, intervals=False)


def values_of(rows):
    return gather_rows(rows, np.arange(rows.n_rows))


def assert_same(found, expected, rel, where=""):
    """Compare two results value by value; channel lists in any order."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same(found[key], expected[key], rel, f"{where}.{key}")
    elif isinstance(expected, list) and where.endswith("_channels"):
        assert sorted(found) == sorted(expected), where
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert_same(a, b, rel, f"{where}[{k}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=rel, abs=rel), where
    else:
        assert found == expected, where


# What is written down


def test_results_have_the_stable_keys():
    written = evaluate(make_stream()).to_dict()
    for block, keys in BLOCKS.items():
        assert set(keys.split()) <= written[block].keys(), block
    assert set(OTHER_BLOCKS.split()) <= written.keys()
    for row in written["segments"]:
        named = f"{SEGMENT} {OF_DIAGNOSIS_OF_A_SEGMENT}".split()
        assert set(named) <= row.keys()


def test_what_was_not_asked_for_is_null():
    written = evaluate(make_stream(), diagnosis=False, metrics="none").to_dict()
    assert {written[block] for block in OF_DIAGNOSIS} == {None}
    for row in written["segments"]:
        assert {row[key] for key in OF_DIAGNOSIS_OF_A_SEGMENT.split()} == {None}


def test_windows_intervals_and_floors_are_filled():
    written = evaluate(make_stream(), metrics="none").to_dict()
    assert None not in written["windows"].values()
    assert None not in written["intervals"].values()
    assert None not in written["floor"].values()
    for row in written["segments"]:
        assert None not in (row["kl"], row["d_full"], row["d_ms"], row["n_matched"])
        # Of 40, 3 and 100 rows in 4 channels.
        assert row["kl_shrunk"] is (row["length"] == 3)
        assert (row["kl_plain"] is None) is row["kl_shrunk"]
        assert row["reliable"] is (row["length"] >= 8)


def test_results_are_plain_json():
    stream = make_stream(
        meta={"loss": np.float32("nan"), "seed": np.int64(3), "window": (1, 2)}
    )
    written = evaluate(stream).to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written["provenance"]["meta"] == {"loss": None, "seed": 3, "window": [1, 2]}


def test_provenance_names_the_versions():
    provenance = quick(make_stream()).provenance
    assert provenance.sightline == sightline.__version__
    assert provenance.numpy == np.__version__


def test_facts_are_those_of_the_stream():
    stream = make_stream(detector="GDN", testbed="SWaT", space="sensor", step_s=2)
    stream = stream.replace(labels=np.where(np.arange(1200) < 10, -1, stream.labels))
    facts = quick(stream).stream
    assert (facts.detector, facts.testbed, facts.space) == ("GDN", "SWaT", "sensor")
    assert (facts.p, facts.n_train, facts.n_test, facts.step_s) == (4, 1500, 1200, 2.0)
    assert (facts.n_attack, facts.n_ignored, facts.n_segments) == (143, 10, 3)


@settings(deadline=None, max_examples=60)
@given(streams())
def test_any_small_stream_gives_numbers_within_their_bounds(stream):
    evaluation = quick(stream)
    json.dumps(evaluation.to_dict(), allow_nan=False)
    lengths = [row.length for row in evaluation.segments]
    assert sum(lengths) == evaluation.stream.n_attack
    if lengths:
        assert 0 <= evaluation.rank.roc_auc <= 1
        assert evaluation.rank.mean_segment_auc == pytest.approx(
            np.mean([row.auc for row in evaluation.segments])
        )
        assert evaluation.rank.largest_segment_share == max(lengths) / sum(lengths)
    assert np.all(evaluation.traces.test_energy >= 0)
    hits = sum(row.hit for row in evaluation.segments)
    assert evaluation.probe.hits == (hits if lengths else None)


# Oracles


def test_energy_is_that_of_scikit_learns_ledoit_wolf():
    stream = make_stream(p=6)
    train, test = values_of(stream.train), values_of(stream.test)
    covariance, shrinkage = sklearn.covariance.ledoit_wolf(train)
    evaluation = quick(stream)
    assert evaluation.reference.shrinkage == pytest.approx(shrinkage, rel=1e-9)
    for rows, energy in (
        (train, evaluation.traces.train_energy),
        (test, evaluation.traces.test_energy),
    ):
        y = rows - train.mean(axis=0)
        expected = np.sum(y * np.linalg.solve(covariance, y.T).T, axis=1) / 2
        np.testing.assert_allclose(energy, expected, rtol=1e-9)


def test_figures_are_scikit_learns_on_the_energy():
    stream = make_stream()
    evaluation = quick(stream)
    energy, is_attack = evaluation.traces.test_energy, stream.labels == 1
    rank, auc = evaluation.rank, sklearn.metrics.roc_auc_score
    assert rank.roc_auc == pytest.approx(auc(is_attack, energy))
    assert rank.pauc_1 == pytest.approx(2 * auc(is_attack, energy, max_fpr=0.01) - 1)
    assert rank.pauc_5 == pytest.approx(2 * auc(is_attack, energy, max_fpr=0.05) - 1)
    assert rank.average_precision == pytest.approx(
        sklearn.metrics.average_precision_score(is_attack, energy)
    )
    probe = evaluation.probe
    assert probe.tau99 == pytest.approx(
        np.percentile(evaluation.traces.train_energy, 99), rel=1e-14
    )
    is_alarm = energy > probe.tau99
    assert probe.f1 == pytest.approx(sklearn.metrics.f1_score(is_attack, is_alarm))
    assert probe.precision == pytest.approx(
        sklearn.metrics.precision_score(is_attack, is_alarm)
    )
    assert probe.recall == pytest.approx(
        sklearn.metrics.recall_score(is_attack, is_alarm)
    )
    assert probe.false_alarm_rate == pytest.approx(np.mean(is_alarm[~is_attack]))


def test_drift_and_compactness_are_means_of_the_energy():
    stream = make_stream()
    evaluation = quick(stream)
    train = np.mean(evaluation.traces.train_energy)
    normal = evaluation.traces.test_energy[stream.labels == 0]
    drift = evaluation.drift
    assert drift.d_drift == pytest.approx(np.mean(normal) - train)
    assert drift.d_drift_robust == pytest.approx(np.median(normal) - train)
    assert evaluation.compactness.p_eff == pytest.approx(2 * train)
    assert evaluation.compactness.compactness == pytest.approx(2 * train / 4)
    for row in evaluation.segments:
        attack = np.mean(evaluation.traces.test_energy[row.start : row.stop])
        assert row.d_atk == pytest.approx(attack - train)
        assert row.d_eff == pytest.approx(row.d_atk - drift.d_drift)
        assert row.sdr == pytest.approx(row.d_atk / drift.d_drift)


# Laws


@settings(deadline=None, max_examples=15)
@given(st.data(), seeds, st.integers(900, 2600), st.integers(950, 2500))
def test_any_chunking_gives_a_bit_identical_evaluation(data, seed, n_train, n_test):
    stream = make_stream(seed, n_train=n_train, n_test=n_test, p=3)
    calibration = values_of(stream.train)[:800]
    whole = stream.replace(calibration=calibration)
    chunked = stream.replace(
        train=ChunkedRows(values_of(stream.train), data.draw(cuts(n_train))),
        test=ChunkedRows(values_of(stream.test), data.draw(cuts(n_test))),
        calibration=ChunkedRows(calibration, data.draw(cuts(800))),
    )
    # Metrics of alarms read nothing but the energy, which is compared below.
    a, b = (evaluate(one, metrics="none") for one in (whole, chunked))
    assert a.to_dict() == b.to_dict()
    np.testing.assert_array_equal(a.traces.train_energy, b.traces.train_energy)
    np.testing.assert_array_equal(a.traces.test_energy, b.traces.test_energy)


@settings(deadline=None, max_examples=10)
@given(st.permutations(range(5)), seeds)
def test_the_order_of_the_channels_changes_nothing(order, seed):
    stream = make_stream(seed, p=5)
    train, test = values_of(stream.train), values_of(stream.test)
    train[:, 2] = 4.0
    train[:, 3], test[:, 3] = np.abs(train[:, 3]) / 300, np.abs(test[:, 3]) / 300
    train[7, 1] += 40.0

    def written(columns):
        return evaluate(
            ResidualStream(
                train[:, columns],
                test[:, columns],
                stream.labels,
                channels=[f"c{j}" for j in columns],
            ),
            metrics="none",
        ).to_dict()

    expected = written([0, 1, 2, 3, 4])
    assert expected["quality"]["constant_channels"] == ["c2"]
    assert expected["quality"]["one_sided_channels"] == ["c3"]
    assert_same(written(list(order)), expected, rel=1e-8)


@settings(deadline=None, max_examples=10)
@given(st.floats(1e-6, 1e6), seeds)
def test_the_unit_of_all_residuals_changes_nothing(unit, seed):
    stream = make_stream(seed)
    scaled = stream.replace(
        train=values_of(stream.train) * unit, test=values_of(stream.test) * unit
    )
    found, expected = (
        evaluate(one, metrics="none").to_dict() for one in (scaled, stream)
    )
    assert_same(found, expected, rel=1e-8)


def test_float32_residuals_give_what_their_float64_copies_give():
    stream = make_stream()
    train = values_of(stream.train).astype(np.float32)
    test = values_of(stream.test).astype(np.float32)
    narrow = evaluate(stream.replace(train=train, test=test)).to_dict()
    wide = evaluate(
        stream.replace(train=train.astype(float), test=test.astype(float))
    ).to_dict()
    assert_same(narrow, wide, rel=1e-12)


def test_evaluating_changes_no_input():
    train, test = np.random.default_rng(0).normal(size=(2, 300, 2))
    labels = np.zeros(300, np.int8)
    labels[40:50] = 1
    before = train.copy(), test.copy(), labels.copy()
    evaluate(ResidualStream(train, test, labels), guard=5)
    for array, copy in zip((train, test, labels), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_ignored_rows_count_nowhere():
    stream = make_stream()
    labels = stream.labels.copy()
    labels[240:300] = labels[600:650] = -1
    stream = stream.replace(labels=labels)
    wild = values_of(stream.test)
    wild[labels == -1] *= 1000.0
    other = stream.replace(test=wild)
    # The floor moves the labels along the stream, so that they ignore other rows.
    one, two = (evaluate(each, metrics="none") for each in (other, stream))
    assert one.intervals == two.intervals
    found, expected = quick(other).to_dict(), quick(stream).to_dict()
    for result in (found, expected):
        # A run of alarms may pass through ignored rows.
        del result["probe"]["false_positive_segments"]
        del result["probe"]["false_alarms_per_day"]
    assert found == expected


def test_a_guard_is_the_same_as_ignoring_the_rows_after_each_attack():
    stream = make_stream(attacks=[(100, 130), (140, 150), (1150, 1195)])
    labels = stream.labels.copy()
    labels[130:140] = labels[150:170] = labels[1195:1200] = -1
    guarded = evaluate(stream, guard=20)
    by_hand = evaluate(stream.replace(labels=labels))
    assert (guarded.guard, by_hand.guard) == (20, 0)
    assert guarded.stream.n_ignored == 35
    assert guarded.to_dict() | {"guard": 0} == by_hand.to_dict()


def test_a_guard_stops_at_a_break():
    stream = make_stream(attacks=[(100, 130)], test_breaks=[135])
    labels = quick(stream, guard=20).traces.labels
    assert np.flatnonzero(labels == -1).tolist() == [130, 131, 132, 133, 134]


def test_a_guard_over_everything_is_refused():
    stream = make_stream(attacks=[(0, 1000)])
    with pytest.raises(StreamError, match="guard of 200 rows leaves no normal"):
        quick(stream, guard=200)


# Segments


def test_segments_are_cut_by_breaks_and_carry_their_names():
    stream = make_stream(
        attacks=[(200, 240), (500, 503), (800, 900)],
        test_breaks=[220],
        segments=[
            Attack(id="A1", start=190, stop=235, name="spoof", targets=("LIT101",)),
            Attack(id="A2", start=800, stop=850, note="first"),
            Attack(id="A3", start=840, stop=900, targets=("P101",), note="second"),
        ],
    )
    rows = quick(stream).segments
    assert [(row.id, row.start, row.stop) for row in rows] == [
        ("A1", 200, 220),
        ("A1/2", 220, 240),
        ("unlisted-3", 500, 503),
        ("A2+A3", 800, 900),
    ]
    assert (rows[0].name, rows[0].targets) == ("spoof", ("LIT101",))
    assert (rows[3].targets, rows[3].note) == (("P101",), "first; second")


def test_hit_coverage_and_first_alarm_follow_the_probe():
    stream = make_stream(step_s=5.0, strength=1.5)
    evaluation = quick(stream)
    is_alarm = evaluation.traces.test_energy > evaluation.probe.tau99
    for row in evaluation.segments:
        alarmed = np.flatnonzero(is_alarm[row.start : row.stop]).tolist()
        assert row.hit is bool(alarmed)
        assert row.coverage == len(alarmed) / row.length
        assert row.first_alarm == (alarmed[0] if alarmed else None)
        assert row.first_alarm_s == (5.0 * alarmed[0] if alarmed else None)
    assert {row.coverage for row in evaluation.segments} - {0.0, 1.0}


# What is missing


def test_without_an_attack_the_rest_is_measured_and_said():
    stream = make_stream(attacks=[], step_s=60)
    evaluation = evaluate(stream)
    assert set(evaluation.to_dict()["rank"].values()) == {None}
    probe = evaluation.probe
    assert (probe.f1, probe.precision, probe.recall) == (None, None, None)
    assert evaluation.segments == ()
    assert evaluation.reference.standardised_roc_auc is None
    assert abs(evaluation.drift.d_drift) < 0.3
    assert evaluation.compactness.compactness == pytest.approx(1.0, abs=0.05)
    assert evaluation.quality.max_z > 1
    assert probe.false_alarm_rate == pytest.approx(0.01, abs=0.01)
    assert probe.false_alarms_per_day == probe.false_positive_segments / (1200 / 1440)
    assert any("No test row is labelled an incident" in n for n in evaluation.notices)
    json.dumps(evaluation.to_dict(), allow_nan=False)


def test_a_step_and_a_calibration_block_leave_less_to_say():
    calm = np.random.default_rng(8).normal(size=(50, 4))
    known, unknown = make_stream(step_s=1, calibration=calm), make_stream()
    said = evaluate(known, metrics="none").notices
    more = evaluate(unknown, metrics="none").notices
    new = [notice for notice in more if notice not in said]
    assert [n[:30] for n in new] == [
        "The time step is not known, so",
        "Drift mixes two causes: the de",
    ]


# Optional input


def test_calibration_splits_the_drift():
    stream = make_stream()
    calibration = 1.2 * values_of(make_stream(n_train=500).train)
    plain, split = quick(stream), quick(stream.replace(calibration=calibration))
    assert (plain.drift.d_gap, plain.drift.d_shift) == (None, None)
    reference = sightline.fit_reference(stream.train)
    energy = sightline.energy_trace(calibration, reference)
    train = np.mean(plain.traces.train_energy)
    assert split.drift.d_gap == pytest.approx(np.mean(energy) - train)
    assert split.drift.d_shift == pytest.approx(plain.drift.d_drift - split.drift.d_gap)


def test_the_detectors_own_alarms_and_score_are_judged_beside_the_energy():
    stream = make_stream()
    alarms, score = np.zeros(1200, int), np.random.default_rng(0).random(1200)
    alarms[210:220] = alarms[300:310] = alarms[700] = 1
    score[stream.labels == 1] += 0.3
    evaluation = quick(stream.replace(alarms=alarms, score=score, step_s=86.4))
    own = evaluation.own_rule
    assert own.tau99 is None
    assert (own.precision, own.recall) == (10 / 21, 10 / 143)
    assert own.f1 == pytest.approx(20 / 164)
    assert (own.hits, own.false_positive_segments) == (1, 2)
    assert own.false_alarm_rate == 11 / 1057
    assert own.false_alarms_per_day == pytest.approx(2 / 1.057)
    assert own.over_alarming is False
    assert evaluation.own_score.roc_auc == pytest.approx(
        sklearn.metrics.roc_auc_score(stream.labels, score)
    )
    without = quick(stream)
    assert (without.own_rule, without.own_score) == (None, None)
    assert evaluation.rank == without.rank


# Quality


def scores(attack=lambda score: score, *, shift=1.0, seed=0):
    """Return train, test and labels of one score; `attack` changes it in an attack."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 0], [400, 50, 150])
    train, test = (rng.gamma(2.0, size=(n, 1)) + shift for n in (500, 600))
    test[labels == 1] = attack(test[labels == 1])
    return train, test, labels


@pytest.mark.parametrize("seed", range(5))
def test_a_score_is_ranked_by_its_own_value(seed):
    train, test, labels = scores(lambda score: 1.3 * score, seed=seed)
    evaluation = quick(ResidualStream(train, test, labels, score=test[:, 0]))
    raw = sklearn.metrics.roc_auc_score(labels, test[:, 0])
    partial_auc = sklearn.metrics.roc_auc_score(labels, test[:, 0], max_fpr=0.05)
    assert evaluation.rank.roc_auc == pytest.approx(raw, rel=0, abs=1e-12)
    # scikit-learn moves the partial area to where 0.5 is chance.
    assert (1 + evaluation.rank.pauc_5) / 2 == pytest.approx(partial_auc, abs=1e-12)
    alarms = test[:, 0] > np.quantile(train[:, 0], 0.99)
    assert evaluation.probe.f1 == pytest.approx(
        sklearn.metrics.f1_score(labels, alarms), abs=1e-12
    )
    assert evaluation.rank.raw_roc_auc == evaluation.rank.roc_auc
    assert replace(evaluation.rank, raw_roc_auc=None) == evaluation.own_score
    assert evaluation.quality.one_sided_channels == ("channel_0",)


def test_low_scores_in_an_attack_are_no_evidence():
    # Normal scores lie around 20; those of the attack are at most a tenth of that.
    train, test, labels = scores(lambda score: 0.05 * score, shift=18.0)
    one, two = (
        evaluate(ResidualStream(train, test, labels, one_sided=choice), metrics="none")
        for choice in (None, False)
    )
    assert one.rank.roc_auc < 0.1 < 0.5 < two.rank.roc_auc
    assert (one.probe.hits, two.probe.hits) == (0, 1)
    assert one.probe.f1 == 0 < two.probe.f1
    assert one.intervals["roc_auc"][0] <= one.rank.roc_auc
    assert one.segments[0].auc < 0.1
    assert one.two_sided.roc_auc == pytest.approx(two.rank.roc_auc, abs=1e-12)
    assert one.two_sided.pauc_1 == pytest.approx(two.rank.pauc_1, abs=1e-12)
    assert one.two_sided.f1 == pytest.approx(two.probe.f1, abs=1e-12)
    assert two.two_sided is None
    # How far a window is from train has two sides, whatever alarms look at.
    assert one.windows.p_full == two.windows.p_full
    assert [s.d_full for s in one.segments] == pytest.approx(
        [s.d_full for s in two.segments], rel=1e-9
    )
    (said,) = (text for text in one.notices if "one-sided" in text)
    assert "one_sided=False" in said
    assert f"{two.rank.roc_auc:.1%}" in said


@pytest.mark.parametrize("factor", [1e-9, 0.5, 7.0, 1e9])
def test_the_unit_of_a_score_does_not_matter(factor):
    train, test, labels = scores(lambda score: 2 * score)
    expected = quick(ResidualStream(train, test, labels)).to_dict()
    scaled = quick(ResidualStream(factor * train, factor * test, labels)).to_dict()
    for block in ("rank", "two_sided", "probe", "drift", "compactness", "windows"):
        assert_same(scaled[block], expected[block], 1e-9, block)
    assert expected["compactness"]["compactness"] == pytest.approx(1)


@pytest.mark.parametrize("grow", [np.square, np.sqrt, np.log1p, np.expm1])
def test_a_growing_function_of_a_score_ranks_and_alarms_alike(grow):
    train, test, labels = scores(lambda score: 1.5 * score)
    expected = quick(ResidualStream(train, test, labels))
    grown = quick(ResidualStream(grow(train), grow(test), labels))
    assert_same(grown.to_dict()["rank"], expected.to_dict()["rank"], 1e-12)
    # An interpolated limit is not the same, but no row lies between the two.
    assert grown.probe.hits == expected.probe.hits
    assert grown.segments[0].coverage == expected.segments[0].coverage


def test_a_score_that_may_be_negative_is_measured_from_its_lowest_value():
    train, test, labels = scores(lambda score: score + 3, shift=-2.0)
    assert train.min() < 0
    judged = quick(ResidualStream(train, test, labels, space="score"))
    floored = np.maximum(test[:, 0], train.min())
    raw = sklearn.metrics.roc_auc_score(labels, floored)
    assert judged.rank.roc_auc == pytest.approx(raw, abs=1e-12)
    assert judged.quality.one_sided_channels == ()
    asked = quick(ResidualStream(train, test, labels, one_sided=True))
    assert asked.rank == judged.rank
    # Without a word it is a signed residual.
    plain = quick(ResidualStream(train, test, labels))
    assert plain.two_sided is None
    assert plain.rank.roc_auc == pytest.approx(judged.two_sided.roc_auc, abs=0.02)


def test_rounding_below_zero_leaves_a_score_one_sided():
    train, test, labels = scores()
    train[3] = -1e-12
    assert quick(ResidualStream(train, test, labels)).two_sided is not None
    train[3] = -1e-3
    assert quick(ResidualStream(train, test, labels)).two_sided is None


def test_only_one_channel_can_be_one_sided():
    train, test = np.random.default_rng(0).random((2, 300, 2))
    assert quick(ResidualStream(train, test)).two_sided is None
    with pytest.raises(StreamError, match="this one has 2: leave it out"):
        ResidualStream(train, test, one_sided=True)
    with pytest.raises(StreamError, match="`one_sided` must be True or False; got 1"):
        ResidualStream(train[:, :1], test[:, :1], one_sided=1)


def test_a_score_without_attacks_has_no_two_sided_figure():
    train, test, _ = scores()
    evaluation = quick(ResidualStream(train, test))
    assert set(evaluation.to_dict()["two_sided"].values()) == {None}
    assert evaluation.drift.d_drift == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("where", ["train", "test"])
def test_one_negative_value_anywhere_makes_a_channel_two_sided(where):
    train, test = np.random.default_rng(0).random((2, 300, 2))
    arrays = {"train": train, "test": test}
    arrays[where][250, 1] = -0.001
    evaluation = quick(ResidualStream(**arrays))
    assert evaluation.quality.one_sided_channels == ("channel_0",)


def test_several_channels_have_no_raw_ranking():
    assert quick(make_stream(p=2)).rank.raw_roc_auc is None
    assert quick(make_stream(p=1)).rank.raw_roc_auc is not None


def test_a_channel_in_a_smaller_unit_is_listed_and_ranked_in_its_own_units():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 0], [400, 100, 500])
    train, test = rng.standard_t(3, size=(200, 4)), rng.standard_t(3, size=(1000, 4))
    test[labels == 1, 3] += 4.0
    unit = np.array([1.0, 1.0, 1.0, 1e-3])
    evaluation = quick(ResidualStream(train * unit, test * unit, labels))
    assert evaluation.quality.scale_blind_channels == ("channel_3",)
    spread = train.std(axis=0)
    covariance, _ = sklearn.covariance.ledoit_wolf(train / spread)
    y = (test - train.mean(axis=0)) / spread
    energy = np.sum(y * np.linalg.solve(covariance, y.T).T, axis=1)
    expected = sklearn.metrics.roc_auc_score(labels, energy)
    assert evaluation.reference.standardised_roc_auc == pytest.approx(expected)
    assert evaluation.rank.roc_auc < expected - 0.2


def test_constant_channels_are_legal_and_listed():
    stream = make_stream()
    train, test = values_of(stream.train), values_of(stream.test)
    train[:, [0, 2]] = [3.0, -1e6]
    test[:, [0, 2]] = [3.0, -1e6]
    evaluation = quick(
        ResidualStream(train, test, stream.labels, channels=["a", "b", "c", "d"])
    )
    assert evaluation.quality.constant_channels == ("a", "c")
    assert evaluation.quality.scale_blind_channels == ()
    assert evaluation.quality.one_sided_channels == ()
    assert np.isfinite(evaluation.drift.d_drift)


def test_max_z_of_test_is_over_normal_rows_alone():
    stream = make_stream()
    test = values_of(stream.test)
    test[210] += 1e5  # attack
    plain = quick(stream).quality
    assert quick(stream.replace(test=test)).quality == plain
    test[50] += 1e5  # normal
    burst = quick(stream.replace(test=test)).quality
    assert burst.max_z == plain.max_z
    assert burst.max_z_test_normal > 1e3 > plain.max_z_test_normal


# Drift and ratios


def drifting(factor):
    stream = make_stream(n_train=3000)
    test = values_of(stream.test)
    return stream.replace(test=test * factor)


@pytest.mark.parametrize(
    ("factor", "usable"), [(2.0, True), (1.0, False), (0.5, False)]
)
def test_the_ratio_is_usable_only_under_real_drift(factor, usable):
    rows = quick(drifting(factor)).segments
    assert {row.sdr_usable for row in rows} == {usable}


def test_a_few_extreme_normal_points_dominate_the_mean():
    stream = make_stream(n_train=3000)
    test = values_of(stream.test)
    test[50] += 1e5
    evaluation = quick(stream.replace(test=test))
    assert evaluation.drift.mean_dominated is True
    assert not any(row.sdr_usable for row in evaluation.segments)
    assert quick(stream).drift.mean_dominated is False


def test_what_little_autocorrelated_train_data_shows_is_no_usable_drift():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3000, 20))
    walk = np.empty_like(noise)
    walk[0] = noise[0]
    for step in range(1, len(walk)):
        walk[step] = 0.9 * walk[step - 1] + noise[step]
    labels = np.zeros(2000, int)
    labels[500:520] = 1
    evaluation = quick(ResidualStream(walk[:1000], walk[1000:], labels))
    train = np.mean(evaluation.traces.train_energy)
    assert evaluation.drift.d_drift > 0.01 * train
    assert evaluation.segments[0].sdr_usable is False


# Non-finite rows, options, progress


def test_a_nonfinite_row_is_an_error_that_says_where():
    stream = make_stream(channels=["a", "b", "c", "d"])
    test = values_of(stream.test)
    test[1100, 2] = np.inf
    with pytest.raises(StreamError, match=r"`test` must be finite; row 1100, .*'c'"):
        quick(stream.replace(test=test))


def test_dropping_rows_is_the_same_as_never_having_had_them():
    stream = make_stream(step_s=1, calibration=np.ones((5, 4)))
    train, test = values_of(stream.train), values_of(stream.test)
    calibration = np.ones((5, 4))
    train[3, 0] = test[210, 1] = test[700, 2] = calibration[1, 1] = np.nan
    holed = stream.replace(train=train, test=test, calibration=calibration)
    without = ResidualStream(
        np.delete(train, 3, axis=0),
        np.delete(test, [210, 700], axis=0),
        np.delete(stream.labels, [210, 700]),
        calibration=np.ones((4, 4)),
        step_s=1,
    )
    evaluation = evaluate(holed, nonfinite="drop")
    assert evaluation.dropped_rows == {"train": 1, "test": 2, "calibration": 1}
    (notice,) = [n for n in evaluation.notices if "were dropped" in n]
    assert "1 of train, 2 of test, 1 of calibration" in notice
    found, expected = evaluation.to_dict(), evaluate(without).to_dict()
    for key in ("dropped_rows", "notices"):
        del found[key], expected[key]
    assert found == expected


def test_options_that_do_not_exist_are_refused():
    with pytest.raises(StreamError, match="`nonfinite` must be error or drop"):
        quick(make_stream(), nonfinite="ignore")
    with pytest.raises(StreamError, match="`estimator` must be one of"):
        quick(make_stream(), estimator="mine")
    with pytest.raises(StreamError, match="`guard` must be 0 or more"):
        quick(make_stream(), guard=-1)


@pytest.mark.parametrize("estimator", sightline.energy.reference.ESTIMATORS)
def test_every_estimator_can_be_asked_for(estimator):
    evaluation = quick(make_stream(n_train=300), estimator=estimator)
    assert evaluation.reference.estimator == estimator
    assert evaluation.rank.roc_auc > 0.8


def test_progress_rises_to_the_total():
    seen = []
    stream = make_stream(calibration=np.ones((700, 4)))
    evaluate(stream, progress=seen.append)
    counted = (
        StepKind.DRAWING_INTERVALS,
        StepKind.DIAGNOSING,
        StepKind.MEASURING_ALARMS,
    )
    drawn, judged, alarms = ([s for s in seen if s.kind is kind] for kind in counted)
    read = [step for step in seen if step.kind not in counted]
    n_read = 3 * 1500 + 1200 + 700
    totals = ((read, n_read), (drawn, 500 + 199), (judged, 3), (alarms, 2))
    for part, total in totals:
        assert {step.total for step in part} == {total}
        done = [step.done for step in part]
        assert done == sorted(done)
        assert done[-1] == total
    assert len({step.text for step in seen}) == 7


# Warnings of numpy


def test_a_real_mistake_in_the_arithmetic_warns(monkeypatch):
    from sightline.metrics.measures import Compactness

    def wrong(train_mean, p):
        return Compactness(p_eff=np.log(np.array(-train_mean)), compactness=1 / p)

    monkeypatch.setattr("sightline.metrics.measures.measure_compactness", wrong)
    with pytest.warns(RuntimeWarning, match="invalid value encountered in log"):
        quick(make_stream())


@pytest.mark.parametrize("rows", [slice(210, 230), slice(800, 803)])
@pytest.mark.parametrize("size", [5e153, 1e120])
def test_values_whose_energies_overflow_are_none_and_do_not_warn(rows, size):
    stream = full_stream()
    test = gather_rows(stream.test, np.arange(stream.test.n_rows))
    test[rows] = size
    # Intervals of each size once.
    intervals = rows.start == 210
    evaluation = evaluate(stream.replace(test=test), intervals=intervals)
    figures = [*vars(evaluation.drift).values(), *vars(evaluation.windows).values()]
    for segment in evaluation.segments:
        figures += vars(segment).values()
    floats = [value for value in figures if isinstance(value, float)]
    assert np.isfinite(floats).all()
