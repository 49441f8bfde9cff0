import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from on_disk import measured, values_of

from sightline import SightlineError, read_stream

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "geco_out.state"


def state(row, malicious=False, **more):
    return {
        "timestamp": 100.0 + row,
        "state": {"P1": 1},
        "malicious": malicious,
        "scores": {"GeCo": [0.5 * row, 1.0, -row], "Any": 0},
        "alerts": {"GeCo": row % 2 == 0},
    } | more


def write_states(path, states):
    text = "\n".join(json.dumps(s) for s in states) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


@pytest.fixture
def folder(tmp_path):
    """Write an IPAL folder from what is malicious in test, or from whole states."""

    def written(marks=(False, False), *, train=None, test=None, suffix=".state"):
        path = tmp_path / "plant.d"
        path.mkdir()
        train = train or [state(row) for row in range(5)]
        test = test or [state(row, mark) for row, mark in enumerate(marks)]
        write_states(path / f"train{suffix}", train)
        write_states(path / f"test{suffix}", test)
        return path

    return written


@pytest.mark.parametrize("suffix", [".state", ".state.gz"])
def test_a_folder_is_read_plain_or_compressed(folder, suffix):
    stream = read_stream(folder([False, "A", False], suffix=suffix))
    assert (stream.name, stream.detector, stream.p) == ("plant.d", "GeCo", 3)
    assert values_of(stream.train)[4].tolist() == [2.0, 1.0, -4.0]
    assert stream.test_time.tolist() == [100, 101, 102]
    assert stream.step_s == 1.0
    assert stream.notices == ()


@pytest.mark.parametrize(
    ("mark", "label"),
    [(False, 0), (None, 0), (True, 1), ("A1", 1), (7, 1), (0, 1)],
)
def test_whatever_is_not_false_or_null_is_an_attack(folder, mark, label):
    assert read_stream(folder([False, mark])).labels.tolist() == [0, label]


def test_a_state_without_malicious_is_normal(folder):
    test = [state(0), state(1)]
    del test[1]["malicious"]
    assert read_stream(folder(test=test)).labels.tolist() == [0, 0]


def test_ids_become_named_attacks(folder):
    marks = [False, "A", "A", False, 7, None, True, True, False, "B"]
    attacks = read_stream(folder(marks)).attack_segments()
    assert [(a.id, a.start, a.stop) for a in attacks] == [
        ("A", 1, 3),
        ("7", 4, 5),
        ("unlisted-3", 6, 8),
        ("B", 9, 10),
    ]


def test_attacks_that_touch_keep_both_ids(folder):
    attacks = read_stream(folder([False, "A", "B", False])).attack_segments()
    assert [a.id for a in attacks] == ["A+B"]


def test_an_id_beside_a_bare_true_is_kept(folder):
    attacks = read_stream(folder([False, True, "A", False])).attack_segments()
    assert [a.id for a in attacks] == ["A"]


def test_the_id_1_beside_a_bare_true_is_kept(folder):
    attacks = read_stream(folder([False, "A", False, True, 1])).attack_segments()
    assert [a.id for a in attacks] == ["A", "1"]


def test_alerts_become_alarms(folder):
    assert read_stream(folder([False] * 4)).alarms.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("alerts", [{}, None, {"Other": True}, {"GeCo": None}])
def test_alerts_that_are_not_all_there_are_no_alarms(folder, alerts):
    assert read_stream(folder(test=[state(0), state(1, alerts=alerts)])).alarms is None


def test_time_that_is_not_all_numbers_is_none(folder):
    test = [state(0), state(1, timestamp="late")]
    assert read_stream(folder(test=test)).test_time is None


def test_channels_are_named_where_the_file_names_them(folder):
    test = [state(0, _channels=["a", "b", "c"]), state(1)]
    assert read_stream(folder(test=test)).channels == ("a", "b", "c")


TWO = {"scores": {"X": [1.0, 2.0], "Y": [3.0], "Any": 1}}


def several():
    return [state(row, **TWO) for row in range(3)]


def test_several_detectors_must_be_chosen_from(folder):
    path = folder(train=several(), test=several())
    with pytest.raises(SightlineError, match="found X, Y: choose one with --detector"):
        read_stream(path)


@pytest.mark.parametrize(("detector", "p"), [("X", 2), ("Y", 1)])
def test_a_detector_is_chosen(folder, detector, p):
    path = folder(train=several(), test=several())
    stream = read_stream(path, detector=detector)
    assert (stream.detector, stream.p) == (detector, p)


def test_a_detector_that_is_not_there_is_told(folder):
    path = folder(train=several(), test=several())
    with pytest.raises(SightlineError, match=r"'Z' has no list .* have: X, Y\."):
        read_stream(path, detector="Z")


def bad_test(line):
    return [state(0), state(1), line]


REFUSED = {
    "no scores": (bad_test({}), "line 3: scores of 'GeCo' must be a list"),
    "one number": (bad_test(state(2, scores={"GeCo": 1})), "line 3"),
    "words": (bad_test(state(2, scores={"GeCo": ["a", 1, 2]})), "line 3"),
    "truth": (bad_test(state(2, scores={"GeCo": [True, 1, 2]})), "line 3"),
    "too short": (
        bad_test(state(2, scores={"GeCo": [1, 2]})),
        "line 3: scores of 'GeCo' has 2 values where the first line has 3",
    ),
    "a list": (bad_test([1]), "line 3 must be a JSON object"),
    "no vector at all": ([state(0, scores={"Any": 1})] * 2, "line 1: detector 'GeCo'"),
}


@pytest.mark.parametrize(("test", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_bad_state_is_refused_with_file_and_line(folder, test, sentence):
    path = folder(test=test)
    with pytest.raises(SightlineError) as caught:
        read_stream(path)
    assert str(caught.value).startswith(f"{path / 'test.state'}: ")
    assert sentence in str(caught.value)


def test_an_attack_in_train_is_refused(folder):
    path = folder(train=[state(0), state(1, "A"), state(2)])
    with pytest.raises(SightlineError, match="row 1 is the first of 1 labelled attack"):
        read_stream(path)


@pytest.mark.parametrize("missing", ["train", "test"])
def test_both_files_are_needed(folder, missing):
    path = folder()
    (path / f"{missing}.state").unlink()
    with pytest.raises(SightlineError, match=f"has no {missing}.state"):
        read_stream(path)


def test_an_empty_state_file_is_told(folder):
    path = folder()
    (path / "test.state").write_text("")
    with pytest.raises(SightlineError, match=r"test.state: is empty"):
        read_stream(path)


def test_a_truncated_archive_is_told(folder):
    path = folder(suffix=".state.gz")
    whole = (path / "test.state.gz").read_bytes()
    (path / "test.state.gz").write_bytes(whole[:-12])
    with pytest.raises(SightlineError, match="cannot be read as IPAL states"):
        read_stream(path)


@pytest.mark.skipif(not GOLDEN.exists(), reason=f"{GOLDEN.name} is not here")
def test_what_ipal_itself_wrote_is_read(tmp_path):
    lines = GOLDEN.read_text().splitlines(keepends=True)
    states = [json.loads(line) for line in lines]
    first_attack = next(k for k, s in enumerate(states) if s["malicious"])
    (tmp_path / "train.state").write_text("".join(lines[:first_attack]))
    (tmp_path / "test.state").write_text("".join(lines))
    stream = read_stream(tmp_path)
    np.testing.assert_array_equal(
        values_of(stream.test), [s["scores"]["GeCo"] for s in states]
    )
    assert stream.detector == "GeCo"
    assert stream.labels.tolist() == [int(bool(s["malicious"])) for s in states]
    assert stream.alarms.tolist() == [int(s["alerts"]["GeCo"]) for s in states]
    assert [a.id for a in stream.attack_segments()] == ["1", "2", "3", "4", "5"]
    assert measured(stream)["own_rule"]["hits"] > 0
