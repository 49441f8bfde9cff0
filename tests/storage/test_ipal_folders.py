"""IPAL folders: what detectors of that framework write, as streams."""

import json
from pathlib import Path

import numpy as np
import pytest
from samples import bare_stream, refused, states_of, write_states

from sightline import evaluate, read_stream

SUFFIXES = [".state", ".state.gz"]
GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "geco_out.state"


@pytest.fixture
def states():
    return {split: states_of(bare_stream(), split) for split in ("train", "test")}


def write_folder(folder, states, suffix=".state"):
    for split, lines in states.items():
        write_states(folder / f"{split}{suffix}", lines)
    return folder


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_scores_are_residuals_and_alerts_are_alarms(tmp_path, states, suffix):
    stream = read_stream(write_folder(tmp_path / "plant", states, suffix))
    expected = bare_stream()
    assert (stream.name, stream.detector, stream.step_s) == ("plant", "GeCo", 2.0)
    np.testing.assert_array_equal(stream.train.values, expected.train.values)
    np.testing.assert_array_equal(stream.test.values, expected.test.values)
    np.testing.assert_array_equal(stream.labels, expected.labels == 1)
    np.testing.assert_array_equal(stream.alarms, np.arange(50) % 9 == 0)
    assert stream.test_time[0] == 1600000000


@pytest.mark.parametrize(
    ("mark", "label", "ids"),
    [
        (False, 0, []),
        (None, 0, []),
        (True, 1, ["1"]),
        ("A3", 1, ["A3"]),
        (7, 1, ["7"]),
        (["A1", "A2"], 1, ["['A1', 'A2']"]),
    ],
)
def test_malicious_false_and_null_are_normal_and_all_else_an_attack(
    tmp_path, states, mark, label, ids
):
    for state in states["test"]:
        state["malicious"] = False
    for state in states["test"][20:25]:
        state["malicious"] = mark
    stream = read_stream(write_folder(tmp_path / "plant", states))
    assert stream.labels[19:26].tolist() == [0, *[label] * 5, 0]
    assert [attack.id for attack in stream.attack_segments()] == ids


def test_attack_ids_name_segments_and_neighbours_are_apart(tmp_path, states):
    marks = {5: "A1", 6: "A1", 7: "A2", 20: "A1", 30: True}
    for row, state in enumerate(states["test"]):
        state["malicious"] = marks.get(row, False)
    stream = read_stream(write_folder(tmp_path / "plant", states))
    found = [(a.id, a.start, a.stop) for a in stream.attack_segments()]
    assert [(start, stop) for _, start, stop in found] == [
        (5, 7),
        (7, 8),
        (20, 21),
        (30, 31),
    ]
    assert [id_ for id_, _, _ in found] == ["A1", "A2", "A1/2", "unlisted-3"]


def test_a_missing_mark_is_normal(tmp_path, states):
    for state in states["test"]:
        del state["malicious"]
    assert not read_stream(write_folder(tmp_path / "plant", states)).labels.any()


def test_one_of_several_detectors_must_be_chosen(tmp_path, states):
    for state in states["train"] + states["test"]:
        state["scores"]["PASAD"] = [1.0 + state["timestamp"] % 7]
        state["alerts"]["PASAD"] = True
    folder = write_folder(tmp_path / "plant", states)
    with refused("train.state", "line 1", "GeCo, PASAD", "--detector"):
        read_stream(folder)
    stream = read_stream(folder, detector="PASAD")
    assert (stream.detector, stream.p) == ("PASAD", 1)
    assert stream.alarms.all()
    with refused("train.state", "'Nobody'", "GeCo, PASAD"):
        read_stream(folder, detector="Nobody")


def test_channels_may_be_named_in_the_first_line(tmp_path, states):
    states["test"][0]["_channels"] = ["LIT101", "FIT101", "P101"]
    stream = read_stream(write_folder(tmp_path / "plant", states))
    assert stream.channels == ("LIT101", "FIT101", "P101")


@pytest.mark.parametrize("key", ["alerts", "timestamp"])
def test_alarms_and_time_are_used_only_if_every_line_has_them(tmp_path, states, key):
    del states["test"][30][key]
    stream = read_stream(write_folder(tmp_path / "plant", states))
    gone = stream.alarms if key == "alerts" else stream.test_time
    assert gone is None


def test_empty_lines_do_not_count(tmp_path, states):
    folder = write_folder(tmp_path / "plant", states)
    text = (folder / "test.state").read_text()
    (folder / "test.state").write_text("\n" + text.replace("\n", "\n\n"))
    assert read_stream(folder).test.n_rows == 50


def test_an_attack_in_train_is_refused(tmp_path, states):
    states["train"][8]["malicious"] = "A1"
    with refused("plant", "`train`", "row 8", "leave them out"):
        read_stream(write_folder(tmp_path / "plant", states))


def test_a_nonfinite_score_is_named(tmp_path, states):
    states["test"][12]["scores"]["GeCo"][1] = float("nan")
    with refused("`test`", "row 12", "1 values"):
        evaluate(read_stream(write_folder(tmp_path / "plant", states)))


LINES = {
    "no JSON": ('{"scores": ', ["line 3", "one JSON object a line"]),
    "no object": ("[1, 2]", ["line 3", "JSON object"]),
    "no scores": ("{}", ["line 3", "'GeCo'", "list of numbers"]),
    "scores no object": ('{"scores": 5}', ["line 3", "'GeCo'"]),
    "a number": ('{"scores": {"GeCo": 5}}', ["line 3", "got 5"]),
    "text": ('{"scores": {"GeCo": [1, "x", 2]}}', ["line 3", "list of numbers"]),
    "true": ('{"scores": {"GeCo": [1, true, 2]}}', ["line 3", "list of numbers"]),
    "nothing": ('{"scores": {"GeCo": []}}', ["line 3", "list of numbers"]),
    "too few": ('{"scores": {"GeCo": [1, 2]}}', ["line 3", "2 values", "has 3"]),
    "too large": ('{"scores": {"GeCo": [1, 2, 1%s]}}' % ("0" * 400), ["too large"]),
    "5000 digits": ('{"scores": {"GeCo": [1, 2, 1%s]}}' % ("0" * 5000), ["line 3"]),
    "too deep": ("[" * 100_000, ["line 3"]),
    "not UTF-8": (b"\xff\xfe", ["cannot be read as IPAL states"]),
}


@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_bad_line_is_named(tmp_path, states, case, split):
    text, words = LINES[case]
    path = write_folder(tmp_path / "plant", states) / f"{split}.state"
    lines = path.read_bytes().splitlines()
    lines[2] = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(b"\n".join(lines))
    with refused(str(path), *words):
        read_stream(tmp_path / "plant")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_an_empty_file_is_told(tmp_path, states, suffix, split):
    states[split] = []
    with refused(f"{split}{suffix}", "is empty"):
        read_stream(write_folder(tmp_path / "plant", states, suffix))


@pytest.mark.parametrize("share", np.linspace(0.05, 0.97, 10))
def test_a_truncated_archive_is_refused(tmp_path, states, share):
    path = write_folder(tmp_path / "plant", states, ".state.gz") / "test.state.gz"
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with refused(str(path), "be whole"):
        read_stream(tmp_path / "plant")


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n", b"%PDF-1.7", b"PK\x03\x04", b"a,b"]
)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_foreign_file_is_refused(tmp_path, states, data, suffix):
    path = write_folder(tmp_path / "plant", states, suffix) / f"train{suffix}"
    path.write_bytes(data)
    with refused(str(path), "cannot be read as IPAL states"):
        read_stream(tmp_path / "plant")


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_missing_half_is_named(tmp_path, states, split):
    (write_folder(tmp_path / "plant", states) / f"{split}.state").unlink()
    with refused("plant", f"{split}.state", "both"):
        read_stream(tmp_path / "plant")


def test_vectors_of_different_lengths_in_train_and_test_are_refused(tmp_path, states):
    for state in states["test"]:
        state["scores"]["GeCo"].append(0.0)
    with refused("plant", "3 channels of `train`", "4"):
        read_stream(write_folder(tmp_path / "plant", states))


def test_what_geco_itself_wrote_is_evaluated(tmp_path):
    if not GOLDEN.is_file():
        pytest.skip(f"{GOLDEN.name} is not beside the project")
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    marks = [json.loads(line)["malicious"] for line in lines]
    first_attack = next(row for row, mark in enumerate(marks) if mark)
    folder = tmp_path / "geco"
    folder.mkdir()
    (folder / "train.state").write_text("\n".join(lines[:first_attack]))
    (folder / "test.state").write_text("\n".join(lines))
    stream = read_stream(folder)
    assert (stream.detector, stream.p, stream.step_s) == ("GeCo", 8, 1.0)
    assert stream.labels.sum() == sum(mark not in (False, None) for mark in marks)
    evaluation = evaluate(stream, intervals=False)
    assert evaluation.own_rule.hits >= 1
    assert evaluation.rank.roc_auc > 0.5


def test_a_bare_number_is_read_as_a_score_and_said_so(tmp_path):
    for split, mark in (("train", None), ("test", "A1")):
        states = [
            {"malicious": mark if t > 5 else None, "scores": {"PASAD": score}}
            for t, score in enumerate([0.1, 0.3, 0.2, 0.4, 0.1, 0.2, 0.9, 0.8])
        ]
        text = "".join(json.dumps(state) + "\n" for state in states)
        (tmp_path / f"{split}.state").write_text(text)
    stream = read_stream(tmp_path)
    assert stream.space == "score"
    first = next(iter(stream.test.chunks()))
    assert first[:3].ravel().tolist() == [0.1, 0.3, 0.2]
    assert "one number a row" in stream.notices[0]
