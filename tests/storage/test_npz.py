import numpy as np
import pytest
from on_disk import FACTS, assert_same_stream, full_stream, measured, save_npz
from strategies import make_stream

from sightline import FileError, SightlineError, read_stream, write_stream


def test_a_stream_with_every_field_survives(tmp_path):
    stream = full_stream()
    write_stream(stream, tmp_path / "full.npz")
    found = read_stream(tmp_path / "full.npz")
    assert found.name == "full"
    assert found.notices == ()
    assert_same_stream(found, stream)


def test_a_stream_of_residuals_alone_survives(tmp_path):
    stream = make_stream(attacks=[])
    write_stream(stream, tmp_path / "bare.npz")
    assert_same_stream(read_stream(tmp_path / "bare.npz"), stream)


def test_the_disk_changes_no_figure(tmp_path):
    stream = full_stream()
    write_stream(stream, tmp_path / "full.npz")
    assert measured(read_stream(tmp_path / "full.npz")) == measured(stream)


def test_float32_residuals_stay_float32(tmp_path):
    values = np.ones((9, 2), np.float32)
    path = save_npz(tmp_path / "s.npz", train=values, test=values, labels=[0] * 9)
    write_stream(read_stream(path), tmp_path / "again.npz")
    (chunk,) = read_stream(tmp_path / "again.npz").train.chunks()
    assert chunk.dtype == np.float32


def test_writing_again_replaces_the_file(tmp_path):
    path = tmp_path / "s.npz"
    write_stream(make_stream(p=4), path)
    write_stream(make_stream(p=2), path)
    assert read_stream(path).p == 2
    assert [p.name for p in tmp_path.iterdir()] == ["s.npz"]


def test_folders_on_the_way_are_made(tmp_path):
    write_stream(make_stream(), tmp_path / "a" / "b" / "s.npz")
    assert read_stream(tmp_path / "a" / "b" / "s.npz").p == 4


def test_a_file_may_hold_train_and_test_alone(tmp_path):
    stream = read_stream(save_npz(tmp_path / "s.npz", labels=None))
    assert not stream.labels.any()
    assert "No labels were given" in stream.notices[0]


@pytest.mark.parametrize(
    "given",
    [
        {"channels": np.array([b"a", b"b"])},
        {"channels": np.array(["a", "b"])},
    ],
)
def test_channels_may_be_text_or_bytes(tmp_path, given):
    stream = read_stream(save_npz(tmp_path / "s.npz", **given))
    assert stream.channels == ("a", "b")


@pytest.mark.parametrize(
    "time",
    [
        np.arange(40.0),
        np.arange(40),
        np.datetime64("2020-01-01T00:00:00") + np.arange(40),
        np.array([f"2020-01-01T00:00:{s:02d}" for s in range(40)]),
    ],
    ids=["float", "int", "datetime64", "iso"],
)
def test_time_stamps_come_as_numbers_dates_or_text(tmp_path, time):
    stream = read_stream(save_npz(tmp_path / "s.npz", test_time=time))
    assert stream.step_s == 1.0
    assert stream.test_breaks.tolist() == [0]


@pytest.mark.parametrize(
    "text",
    [
        np.array('{"detector": "D", "x": [1]}'),
        np.array(['{"detector": "D", "x": [1]}']),
    ],
    ids=["scalar", "one item"],
)
def test_meta_is_json_text(tmp_path, text):
    stream = read_stream(save_npz(tmp_path / "s.npz", meta_json=text))
    assert (stream.detector, stream.meta) == ("D", {"x": [1]})


def test_segments_name_the_attacks(tmp_path):
    text = '[{"id": 3, "start": 10, "stop": 15, "targets": "P1"}]'
    stream = read_stream(save_npz(tmp_path / "s.npz", segments_json=np.array(text)))
    assert [a.id for a in stream.attack_segments()] == ["3", "unlisted-2"]
    assert stream.attack_segments()[0].targets == ("P1",)


def test_an_unknown_array_is_told_and_not_used(tmp_path):
    stream = read_stream(save_npz(tmp_path / "s.npz", lables=np.zeros(40)))
    assert stream.notices == (
        "s.npz: array 'lables' is not one Sightline knows; it was not used.",
    )


def test_an_unknown_array_of_objects_is_never_unpickled(tmp_path):
    path = save_npz(tmp_path / "s.npz", mine=np.array([{}, None], dtype=object))
    assert "'mine'" in read_stream(path).notices[0]


def test_a_compressed_file_is_read(tmp_path):
    values = np.random.default_rng(0).normal(size=(9, 2))
    np.savez_compressed(tmp_path / "s.npz", train=values, test=values)
    assert read_stream(tmp_path / "s.npz").train.n_rows == 9


def test_capital_letters_in_the_suffix_are_read_and_written(tmp_path):
    write_stream(make_stream(), tmp_path / "S.NPZ")
    assert read_stream(tmp_path / "S.NPZ").name == "S"


REFUSED = [
    ({"train": None}, "has no array 'train'"),
    ({"test": None}, "has no array 'test'"),
    ({"train": np.zeros(9)}, "`train` must have shape (rows, channels)"),
    ({"train": np.zeros((1, 2))}, "`train` must have at least 2 rows"),
    ({"test": np.zeros((40, 3))}, "train has 2, test has 3"),
    ({"labels": np.zeros(39)}, "got 39 for 40 rows"),
    ({"labels": np.full(40, 2)}, "row 0 is 2 (40 such rows)"),
    ({"labels": np.full(40, "x")}, "`labels` must be 0, 1, -1"),
    ({"labels": np.resize([1, -1], 40)}, "map it to 0 and 1"),
    ({"alarms": np.full(40, -1)}, "`alarms` must be 0, 1"),
    ({"score": np.full(40, np.nan)}, "`score` must be finite; row 0"),
    ({"calibration": np.zeros((5, 3))}, "`calibration` must have the 2 channels"),
    ({"channels": np.array(["a"])}, "got 1 names for 2 channels"),
    ({"channels": np.array(["a", "a"])}, "'a' occurs twice"),
    ({"channels": np.zeros(2)}, "`channels` must be a list of names"),
    ({"test_time": np.zeros(3)}, "got 3 for 40 rows"),
    ({"test_breaks": np.array([40])}, "must lie within the 40 rows"),
    ({"telemetry_train": np.zeros((60, 1))}, "must be given together"),
    ({"train": np.array([[{}, 1]])}, "'train' holds pickled Python objects"),
    ({"train": np.zeros((9, 2), complex)}, "must hold real numbers"),
    ({"meta_json": np.array("{")}, "`meta_json` must be JSON text"),
    ({"meta_json": np.array("[]")}, "`meta_json` must be a JSON object"),
    ({"meta_json": np.array(["{}", "{}"])}, "must be one JSON text"),
    ({"meta_json": np.zeros(1)}, "`meta_json` must be text"),
    ({"meta_json": np.array('{"step_s": "1"}')}, "step_s` must be a number"),
    ({"segments_json": np.array("nope")}, "`segments_json` must be JSON text"),
    ({"segments_json": np.array("{}")}, "must be a JSON list of objects"),
    ({"segments_json": np.array('[{"id": 1}]')}, "item 0 must be an object"),
    (
        {"segments_json": np.array('[{"id": "a", "start": 30, "stop": 41}]')},
        "attack 'a' ends at row 41, after the 40 test rows",
    ),
]


@pytest.mark.parametrize(("arrays", "sentence"), REFUSED, ids=[s for _, s in REFUSED])
def test_what_makes_no_stream_is_refused_with_the_files_name(
    tmp_path, arrays, sentence
):
    path = save_npz(tmp_path / "bad.npz", **arrays)
    with pytest.raises(SightlineError) as caught:
        read_stream(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)


def test_a_path_that_is_neither_is_told_of_tables(tmp_path):
    path = tmp_path / "residuals.csv"
    path.write_text("a\n1\n")
    with pytest.raises(FileError, match="pass --train and --test"):
        read_stream(path)


def test_facts_that_are_not_known_stay_unknown(tmp_path):
    write_stream(make_stream(), tmp_path / "s.npz")
    found = read_stream(tmp_path / "s.npz")
    unknown = {name for name in FACTS if getattr(found, name) in (None, (), {})}
    assert unknown == set(FACTS) - {"channels"}
