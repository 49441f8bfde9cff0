import csv
import json

import numpy as np
import pytest
from on_disk import figures_of, full_stream
from strategies import make_stream

from sightline import (
    FileError,
    SightlineError,
    evaluate,
    read_evaluation,
    read_results,
    write_results,
)
from sightline.evaluation.chart_data import extreme_rows
from sightline.evaluation.result import SCHEMA, Rank
from sightline.metrics.windows import Windows
from sightline.storage import check_out, folder_name, read_traces, write_json


@pytest.fixture(scope="module")
def full():
    return evaluate(full_stream().replace(name="full"))


def plain(name="plain", **options):
    stream = make_stream(n_train=80, n_test=60, p=2, attacks=[(20, 30)], name=name)
    return evaluate(stream, intervals=False, **options)


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def change(folder, **keys):
    """Change keys of an evaluation on disk; None leaves one out."""
    path = folder / "evaluation.json"
    values = json.loads(path.read_text()) | keys
    kept = {key: value for key, value in values.items() if value is not None}
    path.write_text(json.dumps(kept))
    return path


def test_an_evaluation_survives(tmp_path, full):
    write_results([full], tmp_path)
    found = read_evaluation(tmp_path / "full")
    assert found == full
    assert figures_of(found) == figures_of(full)


def test_an_evaluation_is_read_from_its_file_too(tmp_path):
    write_results([plain()], tmp_path)
    found = read_evaluation(tmp_path / "plain" / "evaluation.json")
    assert found.stream == read_evaluation(str(tmp_path / "plain")).stream


def test_what_is_read_can_be_written_again(tmp_path, full):
    write_results([full], tmp_path / "a")
    write_results([read_evaluation(tmp_path / "a" / "full")], tmp_path / "b")
    first, second = (
        (tmp_path / place / "full" / "evaluation.json").read_bytes() for place in "ab"
    )
    assert first == second


def test_the_file_is_strict_json(tmp_path, full):
    def refuse(constant):
        raise AssertionError(constant)

    write_results([full], tmp_path)
    text = (tmp_path / "full" / "evaluation.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=refuse)["schema"] == SCHEMA


def test_traces_survive(tmp_path, full):
    write_results([full], tmp_path)
    found = read_traces(tmp_path / "full")
    for name, values in vars(full.traces).items():
        np.testing.assert_array_equal(getattr(found, name), values, name)
        assert getattr(getattr(found, name), "dtype", None) == (
            None if values is None else values.dtype
        ), name


def test_traces_without_time_have_none(tmp_path):
    write_results([plain()], tmp_path)
    assert read_traces(tmp_path / "plain").test_time is None


def test_segments_are_a_table_with_a_row_for_each_attack(tmp_path, full):
    write_results([full], tmp_path)
    rows = rows_of(tmp_path / "full" / "segments.csv")
    assert [row["id"] for row in rows] == [s.id for s in full.segments]
    assert json.loads(rows[0]["targets"]) == ["LIT/101", "P 1"]
    assert float(rows[0]["auc"]) == full.segments[0].auc


def test_figures_of_the_judgement_are_columns_of_their_own(tmp_path, full):
    write_results([full, plain("unjudged")], tmp_path)
    rows = rows_of(tmp_path / "full" / "segments.csv")
    for row, segment in zip(rows, full.segments, strict=True):
        assert row["verdict"] == segment.verdict
        assert float(row["confidence"]) == segment.confidence
        assert float(row["found_p_value"]) == segment.found.p_value
        assert float(row["found_q_value"]) == segment.found.q_value
        assert row["found_statistic"] == segment.found.statistic
        assert row["found_rule"] == segment.found.rule == "own-rule"
        assert float(row["evidence_p_value"]) == segment.evidence.p_value
        assert float(row["telemetry_p_value"]) == segment.telemetry.p_value
        assert row["telemetry_movement"] == segment.telemetry.movement
        assert float(row["aftermath_s"]) == segment.aftermath_s
        assert json.loads(row["flags"]) == list(segment.flags)
    for row in rows_of(tmp_path / "unjudged" / "segments.csv"):
        assert row["found_p_value"] == row["telemetry_movement"] == ""


def test_without_attacks_the_table_of_segments_has_a_header_alone(tmp_path):
    stream = make_stream(n_train=80, n_test=60, p=2, attacks=[], name="calm")
    write_results([evaluate(stream, intervals=False)], tmp_path)
    lines = (tmp_path / "calm" / "segments.csv").read_text().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("id,start,stop")


def test_the_summary_has_a_row_for_each_evaluation(tmp_path, full):
    write_results([plain("b"), full, plain("a")], tmp_path)
    rows = rows_of(tmp_path / "summary.csv")
    assert [row["result"] for row in rows] == ["a", "b", "full"]
    assert float(rows[2]["roc_auc"]) == full.rank.roc_auc
    assert rows[2]["own_rule_f1"] != ""
    assert rows[0]["own_rule_f1"] == ""


def test_the_summary_covers_what_the_folder_held_before(tmp_path):
    write_results([plain("a")], tmp_path)
    before = (tmp_path / "a" / "evaluation.json").read_bytes()
    write_results([plain("b")], tmp_path)
    assert [row["result"] for row in rows_of(tmp_path / "summary.csv")] == ["a", "b"]
    assert (tmp_path / "a" / "evaluation.json").read_bytes() == before


def test_a_guard_has_a_folder_of_its_own(tmp_path):
    write_results([plain(), plain(guard=5)], tmp_path)
    found = [r.folder.name for r in read_results([tmp_path])]
    assert found == ["plain", "plain-guard5"] == ["plain", folder_name("plain", 5)]


def test_earlier_results_are_kept(tmp_path):
    write_results([plain()], tmp_path)
    before = (tmp_path / "plain" / "evaluation.json").read_bytes()
    with pytest.raises(FileError, match="holds earlier results, which are kept"):
        write_results([plain()], tmp_path)
    assert (tmp_path / "plain" / "evaluation.json").read_bytes() == before


def test_earlier_results_are_replaced_when_asked(tmp_path):
    write_results([plain()], tmp_path)
    (tmp_path / "plain" / "notes.txt").write_text("mine")
    (tmp_path / "plain" / "traces.npz").write_text("broken")
    write_results([plain()], tmp_path, overwrite=True)
    assert (tmp_path / "plain" / "notes.txt").read_text() == "mine"
    assert len(read_traces(tmp_path / "plain").labels) == 60
    assert len(rows_of(tmp_path / "summary.csv")) == 1


def test_two_of_one_name_are_refused(tmp_path):
    with pytest.raises(FileError, match="Two streams are called 'plain'"):
        write_results([plain(), plain()], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0"])
def test_a_name_that_is_no_folder_is_refused(tmp_path, name):
    with pytest.raises(FileError, match="cannot be the name of a stream"):
        check_out(tmp_path, [name], overwrite=True)


def test_results_do_not_go_into_a_file(tmp_path):
    path = tmp_path / "out"
    path.write_text("mine")
    with pytest.raises(FileError):
        write_results([plain()], path)
    assert path.read_text() == "mine"


def test_nothing_to_write_writes_nothing(tmp_path):
    write_results([], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Reading other versions, and damage


def test_keys_of_a_newer_minor_version_are_skipped(tmp_path):
    write_results([plain()], tmp_path)
    path = tmp_path / "plain" / "evaluation.json"
    values = json.loads(path.read_text())
    values["rank"]["new_figure"] = 1
    values["new_block"] = {"a": 1}
    values["segments"][0]["new_column"] = 3
    path.write_text(json.dumps(values))
    assert figures_of(read_evaluation(path)) == figures_of(plain())


@pytest.mark.parametrize(
    ("key", "empty"),
    [
        ("rank", Rank()),
        ("own_rule", None),
        ("guard", 0),
        ("notices", ()),
        ("windows", Windows()),
        ("segments", ()),
        ("dropped_rows", {"train": 0, "test": 0, "calibration": 0}),
    ],
)
def test_keys_an_older_version_lacks_are_empty(tmp_path, key, empty):
    write_results([plain()], tmp_path)
    found = read_evaluation(change(tmp_path / "plain", schema=1, **{key: None}))
    assert getattr(found, key) == empty
    assert found.schema == SCHEMA


# What the first evaluations held of each attack.
FIRST_COLUMNS = (
    "id start stop length auc auc_nearby d_atk d_eff sdr sdr_usable hit coverage "
    "first_alarm first_alarm_s"
).split()


def test_figures_an_older_version_lacks_are_none(tmp_path):
    evaluation = plain()
    write_results([evaluation], tmp_path)
    (row,) = evaluation.to_dict()["segments"]
    old = {name: row[name] for name in FIRST_COLUMNS}
    path = change(tmp_path / "plain", schema=1, rank={"roc_auc": 0.5}, segments=[old])
    found = read_evaluation(path)
    assert (found.rank.roc_auc, found.rank.pauc_1) == (0.5, None)
    assert found.segments[0].auc == evaluation.segments[0].auc
    assert (found.segments[0].kl, found.segments[0].verdict) == (None, None)


def test_an_older_evaluation_has_its_row_in_the_summary(tmp_path):
    write_results([plain("old")], tmp_path)
    change(tmp_path / "old", schema=1, rank=None, windows=None)
    write_results([plain("new")], tmp_path)
    new, old = rows_of(tmp_path / "summary.csv")
    assert old["f1"] == new["f1"] != ""
    assert old["roc_auc"] == ""
    assert new["roc_auc"] != ""


@pytest.mark.parametrize("schema", [SCHEMA + 1, 99, "1", None, 1.5])
def test_a_schema_that_is_not_known_is_refused(tmp_path, schema):
    write_results([plain()], tmp_path)
    path = change(tmp_path / "plain", schema=schema)
    with pytest.raises(FileError, match=f"this Sightline reads up to {SCHEMA}"):
        read_evaluation(path)


DAMAGED = {
    "empty": ("", "is not a readable evaluation"),
    "cut off": ('{"schema": 1, "stream": {', "is not a readable evaluation"),
    "a list": ("[]", "is JSON, but not an evaluation"),
    "no stream": ('{"schema": 1}', "is JSON, but not an evaluation"),
    "a stream without a name": (
        '{"schema": 1, "stream": {}}',
        "Object missing required field `name` - at `$.stream`",
    ),
}
DAMAGED_BLOCKS = {
    "a block of words": ({"rank": "good"}, "got `str` - at `$.rank`"),
    "segments no list": ({"segments": 3}, "got `int` - at `$.segments`"),
    "segments of words": ({"segments": ["a"]}, "got `str` - at `$.segments[0]`"),
    "a word for a figure": (
        {"drift": {"d_drift": "high", "d_drift_robust": 1, "mean_dominated": False}},
        "got `str` - at `$.drift.d_drift`",
    ),
    "a figure that all have": (
        {"probe": {"f1": 0.5}},
        "Object missing required field `tau99` - at `$.probe`",
    ),
}


@pytest.mark.parametrize(("keys", "why"), DAMAGED_BLOCKS.values(), ids=DAMAGED_BLOCKS)
def test_a_damaged_block_is_told_with_its_place(tmp_path, keys, why):
    write_results([plain()], tmp_path)
    path = change(tmp_path / "plain", **keys)
    with pytest.raises(FileError) as caught:
        read_evaluation(path)
    assert str(caught.value).startswith(f"{path}: is not an evaluation of schema ")
    assert why in str(caught.value)


@pytest.mark.parametrize(("text", "sentence"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_evaluation_is_told_with_its_name(tmp_path, text, sentence):
    path = tmp_path / "evaluation.json"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_evaluation(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)


def test_bytes_that_are_no_text_are_told(tmp_path):
    (tmp_path / "evaluation.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="is not a readable evaluation"):
        read_evaluation(tmp_path)


def test_a_missing_evaluation_is_told(tmp_path):
    with pytest.raises(FileError, match="there is no such evaluation"):
        read_evaluation(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"hello"])
def test_damaged_traces_are_told_with_their_name(tmp_path, damage):
    write_results([plain()], tmp_path)
    path = tmp_path / "plain" / "traces.npz"
    path.write_bytes(damage)
    with pytest.raises(FileError) as caught:
        read_traces(tmp_path / "plain")
    assert str(path) in str(caught.value)


def test_missing_traces_are_told_with_their_name(tmp_path):
    with pytest.raises(FileError, match=r"traces\.npz"):
        read_traces(tmp_path)


def test_a_damaged_neighbour_is_told_before_anything_is_written(tmp_path):
    write_results([plain("a")], tmp_path)
    (tmp_path / "a" / "evaluation.json").write_text("{")
    with pytest.raises(SightlineError, match="remove it and evaluate again"):
        write_results([plain("b")], tmp_path)
    assert not (tmp_path / "b").exists()


def test_what_a_killed_run_left_is_no_neighbour(tmp_path):
    left = tmp_path / ".a.partial"
    left.mkdir()
    (left / "evaluation.json").write_text("{")
    write_results([plain("b")], tmp_path)
    assert len(rows_of(tmp_path / "summary.csv")) == 1


def test_results_are_read_from_a_folder_or_what_holds_it(tmp_path):
    write_results([plain("a"), plain("b")], tmp_path)
    assert [r.folder.name for r in read_results([tmp_path])] == ["a", "b"]
    assert [r.folder.name for r in read_results([tmp_path / "b"])] == ["b"]


def test_who_made_a_result_falls_back_to_its_name(tmp_path, full):
    write_results([plain("a"), full], tmp_path)
    first, second = read_results([tmp_path])
    assert (first.detector, first.testbed) == ("a", "unknown")
    assert (second.detector, second.testbed) == ("GDN", "SWaT")


def test_a_json_file_is_kept_unless_asked(tmp_path):
    path = tmp_path / "x.json"
    write_json({"a": 1}, path, overwrite=False)
    with pytest.raises(FileError, match="exists and is kept"):
        write_json({"a": 2}, path, overwrite=False)
    write_json({"a": 3}, path, overwrite=True)
    assert json.loads(path.read_text()) == {"a": 3}


def test_thinning_keeps_the_lowest_and_highest_of_each_stretch():
    values = np.array([0.0, 5, 1, 2, -3, 2, 2, 9, 1, 1, 1, 0])
    assert extreme_rows(values, 3).tolist() == [0, 1, 4, 7, 8, 11]
    assert extreme_rows(values, 6).tolist() == list(range(12))


def test_a_long_train_is_thinned_but_keeps_its_extremes(tmp_path, monkeypatch):
    whole = plain().traces.train_energy
    monkeypatch.setattr("sightline.evaluation.chart_data.TRAIN_STRETCHES", 10)
    write_results([plain()], tmp_path)
    found = read_traces(tmp_path / "plain")
    assert len(found.train_energy) <= 20 < len(whole)
    np.testing.assert_array_equal(found.train_energy, whole[found.train_rows])
    assert found.train_energy.max() == whole.max()
    assert found.train_energy.min() == whole.min()
    assert found.train_quantiles[[0, 500, 1000]].tolist() == [
        whole.min(),
        np.median(whole),
        whole.max(),
    ]
