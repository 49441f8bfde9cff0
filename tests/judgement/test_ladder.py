"""The repair ladder on streams made by hand, one for each verdict, and its laws."""

from functools import cache

import numpy as np
import pytest

from sightline import ResidualStream, evaluate, read_stream, write_stream
from sightline.judgement.ladder import causes, decide
from sightline.judgement.verdicts import VERDICTS, RungOutcome
from sightline.storage.parquet import write_parquet_folder

RUNGS = ["detected", "recalibrate", "rereference", "refocus", "accumulate", "quiet"]
ATTACK = slice(3000, 3120)


def normal(n_rows, p, seed):
    return np.random.default_rng(seed).normal(size=(n_rows, p))


def calm_stream(p, n_test=6000):
    labels = np.zeros(n_test, np.int8)
    labels[ATTACK] = 1
    return normal(5000, p, 1), normal(n_test, p, 2), labels


def detected_stream():
    train, test, labels = calm_stream(10)
    test[ATTACK] += 3
    return ResidualStream(train, test, labels)


def threshold_stream():
    """Training had bursts, so that its limit is far too high."""
    train, test, labels = calm_stream(10)
    train[::25] *= 8
    test[ATTACK] += 2.5
    return ResidualStream(train, test, labels)


def drift_stream():
    """Operation has moved away from training; the attack moves back."""
    train, test, labels = calm_stream(10)
    test[labels == 0] += 4
    return ResidualStream(train, test, labels)


def diluted_stream():
    train, test, labels = calm_stream(60)
    test[ATTACK, 17] += 4
    return ResidualStream(train, test, labels)


def sequential_stream():
    train, test, labels = calm_stream(20)
    test[ATTACK] *= 1.15
    return ResidualStream(train, test, labels)


def quiet_stream():
    train, test, labels = calm_stream(10)
    test[ATTACK] *= 0.3
    return ResidualStream(train, test, labels)


def weak_stream():
    return ResidualStream(*calm_stream(10))


def with_telemetry(moves):
    stream = weak_stream()
    telemetry = normal(6000, 3, 4)
    telemetry[ATTACK, 1] += moves
    return stream.replace(
        telemetry_train=normal(5000, 3, 3),
        telemetry_test=telemetry,
        telemetry_channels=("LIT101", "FIT101", "P101"),
    )


def undecided_stream():
    train, test, labels = calm_stream(10, n_test=3200)
    labels[: ATTACK.start - 60] = -1
    return ResidualStream(train, test, labels)


STREAMS = {
    "detected": detected_stream,
    "threshold": threshold_stream,
    "drift": drift_stream,
    "diluted": diluted_stream,
    "sequential": sequential_stream,
    "quiet": quiet_stream,
    "weak-evidence": weak_stream,
    "not-in-telemetry": lambda: with_telemetry(0),
    "undecided": undecided_stream,
}


@cache
def evaluated(verdict):
    return evaluate(STREAMS[verdict](), intervals=False)


def diagnosis_of(stream):
    """Return all that a diagnosis says."""
    made = evaluate(stream, intervals=False).to_dict()
    told = ("verdict", "ladder", "refocus_channels", "contributing", "sentence")
    return {
        "segments": [{name: row[name] for name in told} for row in made["segments"]],
        "repairs": made["repairs"],
        "diagnosis": made["diagnosis"],
        "verdict_counts": made["verdict_counts"],
    }


def verdicts_of(stream):
    return [row.verdict for row in evaluate(stream, intervals=False).segments]


def without_rounding(value):
    """Round figures, so that the order of sums does not matter."""
    if isinstance(value, dict):
        return {key: without_rounding(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_rounding(item) for item in value]
    return round(value, 9) if isinstance(value, float) else value


@pytest.mark.parametrize("verdict", STREAMS)
def test_each_verdict_has_a_stream_that_earns_it(verdict):
    (row,) = evaluated(verdict).segments
    assert row.verdict == verdict


def test_there_is_a_stream_for_each_verdict():
    assert set(STREAMS) == set(VERDICTS)


@pytest.mark.parametrize("verdict", STREAMS)
def test_every_rung_is_computed_whatever_the_verdict(verdict):
    (row,) = evaluated(verdict).segments
    expected = [] if verdict == "undecided" else list(RUNGS)
    if verdict == "not-in-telemetry":
        expected.append("telemetry")
    assert list(row.ladder) == expected
    for rung in row.ladder.values():
        assert set(vars(rung)) == {"coverage", "calm", "limit", "visible", "by"}
        assert rung.coverage >= 0


@pytest.mark.parametrize("verdict", STREAMS)
def test_contributing_causes_are_the_rungs_that_show_it(verdict):
    (row,) = evaluated(verdict).segments
    visible = [
        cause
        for name, cause in causes().items()
        if name in row.ladder and row.ladder[name].visible
    ]
    assert list(row.contributing) == visible
    if verdict in causes().values():
        assert verdict in row.contributing


@pytest.mark.parametrize("verdict", STREAMS)
def test_verdicts_are_counted_under_every_word(verdict):
    counts = evaluated(verdict).verdict_counts
    assert list(counts) == list(VERDICTS)
    assert counts == {word: int(word == verdict) for word in VERDICTS}


@pytest.mark.parametrize("verdict", STREAMS)
def test_a_stream_reports_how_often_calm_windows_are_blamed(verdict):
    facts = evaluated(verdict).diagnosis
    assert facts.telemetry_judged is (verdict == "not-in-telemetry")
    if verdict == "undecided":
        assert facts.false_cause_rate is None
        assert facts.n_calm_windows == 0
    else:
        assert 20 <= facts.n_calm_windows <= 100
        assert facts.false_cause_rate <= 0.1


def test_a_diluted_attack_names_its_channel():
    (row,) = evaluated("diluted").segments
    stream = diluted_stream()
    assert row.refocus_channels == (stream.channels[17],)
    assert row.ladder["refocus"].by == (stream.channels[17],)


def test_a_channel_may_have_the_name_of_a_kind_of_space():
    stream = diluted_stream()
    names = list(stream.channels)
    names[17] = "largest tank level"
    (row,) = evaluate(stream.replace(channels=names), intervals=False).segments
    assert row.refocus_channels == ("largest tank level",)
    assert row.ladder["refocus"].by == ("largest tank level",)
    assert "largest tank level alone stands out" in row.sentence


def test_telemetry_that_moves_makes_the_evidence_weak():
    (row,) = evaluate(with_telemetry(5), intervals=False).segments
    assert row.verdict == "weak-evidence"
    assert row.ladder["telemetry"].visible
    assert "FIT101" in row.sentence


def test_own_alarms_are_judged_first():
    stream = detected_stream()
    alarms = np.zeros(6000, np.int8)
    alarms[3000:3060] = 1
    (row,) = evaluate(stream.replace(alarms=alarms), intervals=False).segments
    assert list(row.ladder) == ["own-rule", *RUNGS]
    assert row.ladder["own-rule"].coverage == 0.5
    assert row.ladder["own-rule"].visible
    assert row.verdict == "detected"


def test_an_alarm_that_never_stops_detects_nothing():
    (row,) = evaluated("drift").segments
    assert row.ladder["detected"].calm > 0.9
    stream = weak_stream().replace(alarms=np.ones(6000, np.int8))
    (row,) = evaluate(stream, intervals=False).segments
    assert row.ladder["own-rule"].coverage == 1.0
    assert not row.ladder["own-rule"].visible


def test_groups_of_the_stream_are_smaller_spaces():
    train, test, labels = calm_stream(40)
    names = [f"c{j:02}" for j in range(40)]
    test[ATTACK, :6] += 1.6
    meta = {"groups": {"stage 1": names[:6], "stage 2": names[6:20], "notes": "none"}}
    stream = ResidualStream(train, test, labels, channels=names, meta=meta)
    (row,) = evaluate(stream, intervals=False).segments
    assert row.ladder["refocus"].by == ("stage 1",)
    assert row.refocus_channels == tuple(names[:6])


def test_without_attacks_there_is_nothing_to_diagnose():
    stream = weak_stream().replace(labels=np.zeros(6000, np.int8))
    found = evaluate(stream, intervals=False)
    assert found.diagnosis is None
    assert found.repairs is None
    assert found.verdict_counts is None


def test_a_diagnosis_can_be_left_out():
    found = evaluate(detected_stream(), intervals=False, diagnosis=False)
    assert found.diagnosis is None
    assert found.segments[0].verdict is None


def test_an_attack_may_fill_the_end_or_the_beginning_of_the_record():
    train, test, _ = calm_stream(10)
    labels = np.zeros(6000, np.int8)
    labels[:100], labels[-100:] = 1, 1
    test[labels == 1] += 3
    assert verdicts_of(ResidualStream(train, test, labels)) == ["detected"] * 2


def test_an_attack_of_one_row_can_be_judged():
    train, test, _ = calm_stream(10)
    labels = np.zeros(6000, np.int8)
    labels[77], labels[500] = 1, 1
    test[77] += 5
    found = verdicts_of(ResidualStream(train, test, labels))
    assert found[0] == "detected"
    assert found[1] in VERDICTS


def test_one_channel_is_enough():
    train, test, labels = calm_stream(1)
    test[ATTACK] += 5
    assert verdicts_of(ResidualStream(train, test, labels)) == ["detected"]


# --- Which rung names the cause ------------------------------------------------


def rungs_with(**coverages):
    unseen = {"telemetry": 0.0} if "telemetry" in coverages else {}
    names = dict.fromkeys(RUNGS, 0.0) | unseen | coverages
    return {
        name: RungOutcome(coverage=value, calm=0.0, limit=0.0, visible=value > 0)
        for name, value in names.items()
    }


@pytest.mark.parametrize(
    ("coverages", "verdict"),
    [
        ({"detected": 0.4, "recalibrate": 1.0}, "detected"),
        ({"recalibrate": 0.8, "rereference": 1.0}, "threshold"),
        ({"recalibrate": 0.79, "rereference": 1.0}, "drift"),
        ({"recalibrate": 0.35, "rereference": 1.0, "refocus": 1.0}, "drift"),
        ({"rereference": 0.5, "refocus": 0.9}, "diluted"),
        ({"recalibrate": 0.31, "accumulate": 1.0}, "threshold"),
        ({"accumulate": 0.4, "quiet": 0.2}, "sequential"),
        ({"quiet": 0.2}, "quiet"),
        ({"quiet": 0.2, "telemetry": 0.9}, "quiet"),
        ({}, "weak-evidence"),
        ({"telemetry": 0.9}, "weak-evidence"),
        ({"telemetry": 0.0}, "not-in-telemetry"),
    ],
)
def test_the_cause_is_the_cheapest_repair_that_gets_nearly_all(coverages, verdict):
    assert decide(rungs_with(**coverages)) == verdict


# --- Laws --------------------------------------------------------------------


def mixed_stream():
    """Return several attacks of different causes, with groups and telemetry."""
    train, test, _ = calm_stream(24, n_test=8000)
    train[:, 1] += 0.7 * train[:, 0]
    test[:, 1] += 0.7 * test[:, 0]
    labels = np.zeros(8000, np.int8)
    for start in (600, 2000, 3400, 4800, 6200):
        labels[start : start + 120] = 1
    test[600:720] += 2
    test[2000:2120, 5] += 3.2
    test[3400:3520] *= 1.15
    test[4800:4920] *= 0.3
    labels[7000:7200] = -1
    names = [f"c{j:02}" for j in range(24)]
    return ResidualStream(
        train,
        test,
        labels,
        channels=names,
        test_breaks=[0, 1300, 5600],
        step_s=1.0,
        telemetry_train=normal(5000, 4, 7),
        telemetry_test=normal(8000, 4, 8),
        alarms=(normal(8000, 1, 9)[:, 0] > 2.5).astype(np.int8),
        meta={"groups": {"stage 1": names[:5], "stage 2": names[5:9]}},
    )


@cache
def mixed_diagnosis():
    return diagnosis_of(mixed_stream())


def test_the_mixed_stream_has_all_its_causes():
    found = [row["verdict"] for row in mixed_diagnosis()["segments"]]
    assert found == ["detected", "diluted", "sequential", "quiet", "not-in-telemetry"]


def test_the_order_of_channels_does_not_matter():
    stream, order = mixed_stream(), np.random.default_rng(0).permutation(24)
    permuted = stream.replace(
        train=stream.train.values[:, order],
        test=stream.test.values[:, order],
        channels=[stream.channels[j] for j in order],
    )
    found, expected = diagnosis_of(permuted), mixed_diagnosis()
    for now, before in zip(found["segments"], expected["segments"], strict=True):
        assert now["verdict"] == before["verdict"]
        assert now["sentence"] == before["sentence"]
        assert sorted(now["refocus_channels"]) == sorted(before["refocus_channels"])
        assert without_rounding(now["ladder"]) == without_rounding(before["ladder"])
    assert found["verdict_counts"] == expected["verdict_counts"]


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**12, 1e3])
def test_the_unit_of_the_residuals_does_not_matter(factor):
    stream = mixed_stream()
    scaled = stream.replace(
        train=factor * stream.train.values, test=factor * stream.test.values
    )
    assert without_rounding(diagnosis_of(scaled)) == without_rounding(mixed_diagnosis())


def test_a_standardised_reference_is_blind_to_the_unit_of_each_channel():
    stream = diluted_stream()
    factors = 2.0 ** np.random.default_rng(0).integers(-10, 10, 60)
    scaled = stream.replace(
        train=factors * stream.train.values, test=factors * stream.test.values
    )
    before, after = (
        evaluate(s, intervals=False, estimator="ledoit-wolf-standardised").segments[0]
        for s in (stream, scaled)
    )
    for name in ("detected", "recalibrate", "refocus", "accumulate"):
        now, then = after.ladder[name], before.ladder[name]
        assert now.by == then.by
        assert now.coverage == pytest.approx(then.coverage)
        assert now.visible is then.visible


def test_wild_residuals_in_ignored_rows_change_nothing():
    stream = mixed_stream()
    test = stream.test.values.copy()
    test[7000:7200] = 1e6 * normal(200, 24, 11)
    assert diagnosis_of(stream.replace(test=test)) == mixed_diagnosis()


def test_an_ignored_stretch_at_the_end_changes_nothing():
    train, test, labels = calm_stream(20)
    test[ATTACK] *= 1.15
    longer = ResidualStream(
        train,
        np.concatenate([test, 1e6 * normal(500, 20, 5)]),
        np.concatenate([labels, np.full(500, -1, np.int8)]),
    )
    found = without_rounding(diagnosis_of(longer))
    assert found == without_rounding(diagnosis_of(ResidualStream(train, test, labels)))


def test_an_attack_does_not_leak_into_the_verdict_of_another():
    stream = mixed_stream()
    test = stream.test.values.copy()
    test[600:720] *= 1000
    found = diagnosis_of(stream.replace(test=test))["segments"]
    assert found[0]["verdict"] == "detected"
    for now, before in zip(found[1:], mixed_diagnosis()["segments"][1:], strict=True):
        assert now["verdict"] == before["verdict"]
        assert now["ladder"] == before["ladder"]


def test_a_break_where_nothing_changes_keeps_the_verdicts():
    stream = diluted_stream()
    assert verdicts_of(stream.replace(test_breaks=[0, 1500, 4500])) == ["diluted"]


def test_float32_residuals_have_the_verdicts_of_float64():
    stream = mixed_stream()
    single = stream.replace(
        train=stream.train.values.astype(np.float32),
        test=stream.test.values.astype(np.float32),
    )
    found = [row["verdict"] for row in diagnosis_of(single)["segments"]]
    assert found == [row["verdict"] for row in mixed_diagnosis()["segments"]]


def test_a_stream_on_disk_has_the_diagnosis_of_the_one_in_memory(tmp_path):
    stream = mixed_stream()
    write_stream(stream, tmp_path / "stream.npz")
    write_stream(stream, tmp_path / "folder")
    write_parquet_folder(stream, tmp_path / "parts", part_rows=1111)
    for path in ("stream.npz", "folder", "parts"):
        assert diagnosis_of(read_stream(tmp_path / path)) == mixed_diagnosis()


def test_a_diagnosis_is_the_same_each_time():
    assert diagnosis_of(mixed_stream()) == mixed_diagnosis()
