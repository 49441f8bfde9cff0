"""``.npz`` streams that are damaged, foreign, or hold something else."""

import io
import json
import zipfile

import numpy as np
import pytest
from samples import CHANNELS, arrays_of, bare_stream, refused

from sightline import evaluate, read_stream, write_stream
from sightline.storage import npz


def write(tmp_path, **changes):
    """Write the sample's three arrays, with some changed, added or (None) left out."""
    arrays = arrays_of(bare_stream()) | changes
    path = tmp_path / "sample.npz"
    kept = {name: values for name, values in arrays.items() if values is not None}
    np.savez(path, allow_pickle=True, **kept)
    return path


def with_value(name, row, value, column=None):
    values = arrays_of(bare_stream())[name].astype(float)
    values[row if column is None else (row, column)] = value
    return {name: values}


def test_three_arrays_are_enough(tmp_path):
    stream = read_stream(write(tmp_path))
    assert stream.channels == ("channel_0", "channel_1", "channel_2")
    assert evaluate(stream, intervals=False).stream.n_attack == 9


def test_without_labels_every_row_is_normal_and_that_is_told(tmp_path):
    stream = read_stream(write(tmp_path, labels=None))
    assert not stream.labels.any()
    assert any("No labels were given" in notice for notice in stream.notices)


def test_an_unknown_array_is_told_and_not_read(tmp_path):
    path = write(tmp_path, weights=np.zeros(3), model=np.array([{"a": 1}], object))
    told = read_stream(path).notices
    assert [notice for notice in told if "'weights'" in notice and "not used" in notice]
    assert [notice for notice in told if "'model'" in notice]


def test_names_may_be_bytes(tmp_path):
    path = write(tmp_path, channels=np.array([b"a", b"b", "c\u00e4".encode()]))
    assert read_stream(path).channels == ("a", "b", "cä")


def test_bytes_in_another_order_are_read(tmp_path):
    train = bare_stream().train.values
    path = write(
        tmp_path, train=train.astype(">f8"), channels=np.array(list("abc"), ">U1")
    )
    assert (
        evaluate(read_stream(path), intervals=False).to_dict()["rank"]
        == (evaluate(bare_stream(), intervals=False).to_dict()["rank"])
    )


@pytest.mark.parametrize("kind", [np.float16, np.int32, np.uint8, np.longdouble])
def test_any_kind_of_real_number_is_read(tmp_path, kind):
    rng = np.random.default_rng(0)
    train, test = (rng.integers(0, 9, (n, 2)).astype(kind) for n in (60, 50))
    stream = read_stream(write(tmp_path, train=train, test=test))
    np.testing.assert_array_equal(stream.train.values, train.astype(float))


REFUSALS = {
    "no train": ({"train": None}, ["no array 'train'", "labels, test"]),
    "no test": ({"test": None}, ["no array 'test'"]),
    "one dimension": (
        {"train": np.zeros(60)},
        ["`train`", "(rows, channels)", "(60,)", ".reshape(-1, 1)"],
    ),
    "three dimensions": ({"test": np.zeros((50, 3, 1))}, ["`test`", "(50, 3, 1)"]),
    "a number": ({"train": np.array(1.0)}, ["`train`", "()"]),
    "no channel": ({"train": np.zeros((60, 0))}, ["`train`", "at least one channel"]),
    "other channels": (
        {"test": np.zeros((50, 4))},
        ["`test`", "3 channels of `train`", "4"],
    ),
    "no train row": ({"train": np.zeros((0, 3))}, ["`train`", "at least 2 rows", "0"]),
    "one train row": ({"train": np.zeros((1, 3))}, ["`train`", "at least 2", "1"]),
    "no test row": (
        {"test": np.zeros((0, 3)), "labels": np.zeros(0)},
        ["`test`", "at least 1 row"],
    ),
    "complex": ({"train": np.zeros((60, 3), complex)}, ["`train`", "real numbers"]),
    "text": ({"train": np.full((60, 3), "x")}, ["`train`", "real numbers", "float"]),
    "dates": ({"train": np.zeros((60, 3), "M8[s]")}, ["`train`", "real numbers"]),
    "records": ({"train": np.zeros(60, "f8,f8")}, ["`train`"]),
    "labels too short": ({"labels": np.zeros(49)}, ["`labels`", "49", "50 rows"]),
    "labels in a column": ({"labels": np.zeros((50, 1))}, ["`labels`", "(50, 1)"]),
    "label 2": (with_value("labels", 20, 2), ["`labels`", "row 20 is 2", "0, 1, -1"]),
    "label half": (with_value("labels", 3, 0.5), ["`labels`", "row 3 is 0.5"]),
    "label nan": (with_value("labels", 3, np.nan), ["`labels`", "row 3 is nan"]),
    "text labels": ({"labels": np.array(["no"] * 50)}, ["`labels`", "map it"]),
    "labels 1 and -1": (
        {"labels": np.where(np.arange(50) < 40, 1, -1)},
        ["`labels`", "normal (0)", "1 for normal and -1 for attack", "map"],
    ),
    "all attack": ({"labels": np.ones(50)}, ["`labels`", "normal (0)"]),
    "alarm 2": ({"alarms": np.full(50, 2)}, ["`alarms`", "0, 1", "row 0 is 2"]),
    "alarms too long": ({"alarms": np.zeros(51)}, ["`alarms`", "51", "50 rows"]),
    "score nan": ({"score": np.full(50, np.nan)}, ["`score`", "row 0 is nan"]),
    "score too short": ({"score": np.zeros(3)}, ["`score`", "3", "50 rows"]),
    "time nan": (
        {"test_time": np.r_[np.arange(49.0), np.nan]},
        ["`test_time`", "row 49 is nan"],
    ),
    "time not a time": (
        {"test_time": np.r_[np.zeros(49, "M8[s]"), np.datetime64("NaT")]},
        ["`test_time`", "row 49", "has no time"],
    ),
    "time too short": ({"train_time": np.arange(3.0)}, ["`train_time`", "3", "60"]),
    "time in columns": ({"test_time": np.zeros((50, 2))}, ["`test_time`", "(50, 2)"]),
    "time in words": ({"test_time": np.array(["noon"] * 50)}, ["`test_time`", "noon"]),
    "breaks beyond": ({"test_breaks": [0, 50]}, ["`test_breaks`", "50 rows"]),
    "breaks negative": ({"train_breaks": [-1]}, ["`train_breaks`", "-1"]),
    "breaks half": ({"train_breaks": [0.5]}, ["`train_breaks`", "row numbers"]),
    "calibration of others": (
        {"calibration": np.zeros((9, 2))},
        ["`calibration`", "3 channels", "2"],
    ),
    "no calibration": ({"calibration": np.zeros((0, 3))}, ["`calibration`", "empty"]),
    "half a telemetry": ({"telemetry_test": np.zeros((50, 1))}, ["given together"]),
    "telemetry too short": (
        {"telemetry_train": np.zeros((60, 1)), "telemetry_test": np.zeros((49, 1))},
        ["`telemetry_test`", "49", "50"],
    ),
    "too few names": ({"channels": ["a", "b"]}, ["`channels`", "2 names", "3"]),
    "a name twice": ({"channels": ["a", "b", "a"]}, ["`channels`", "'a'", "twice"]),
    "names of numbers": ({"channels": [1, 2, 3]}, ["`channels`", "list of names"]),
    "names in a row": ({"channels": [["a", "b", "c"]]}, ["`channels`", "(1, 3)"]),
    "names not UTF-8": (
        {"channels": np.array([b"a", b"b", b"\xff"])},
        ["`channels`", "UTF-8"],
    ),
    "names beyond Unicode": (
        {"channels": np.full(3, 0x7FFFFFFF, np.uint32).view("U1")},
        ["'channels'", "not text"],
    ),
    "meta no JSON": ({"meta_json": "{"}, ["`meta_json`", "JSON text"]),
    "meta a list": ({"meta_json": "[]"}, ["`meta_json`", "JSON object", "list"]),
    "meta a number": ({"meta_json": 5}, ["`meta_json`", "text"]),
    "meta twice": ({"meta_json": ["{}", "{}"]}, ["`meta_json`", "one JSON text"]),
    "meta too deep": (
        {"meta_json": '{"a":' + "[" * 500 + "]" * 500 + "}"},
        ["`meta_json`", "nested"],
    ),
    "meta far too deep": ({"meta_json": "[" * 9999}, ["`meta_json`", "nested"]),
    "meta of 5000 digits": ({"meta_json": "9" * 5000}, ["`meta_json`"]),
    "step zero": ({"meta_json": '{"step_s": 0}'}, ["`step_s`", "positive", "0"]),
    "step nan": ({"meta_json": '{"step_s": NaN}'}, ["`step_s`", "nan"]),
    "step huge": ({"meta_json": '{"step_s": 1%s}' % ("0" * 400)}, ["step_s", "large"]),
    **{
        f"meta {key} {k}": (
            {"meta_json": json.dumps({"meta": {key: value}})},
            [f"`{key}` of meta" if named else "meta scale of channel", *words],
        )
        for key, cases in {
            "scale": [
                ("robust", True, "list of 3 numbers", "is no list"),
                ({"channel_0": 1}, True, "is no list"),
                ([1.0, 2.0], True, "list of 3 numbers", "has 2"),
                ([1, 2, 3, 4], True, "has 4"),
                ([1, "2", 3], False, "'channel_1'", "'2'", "must be a number"),
                ([1, None, 3], False, "'channel_1'", "None"),
                ([1, 2, True], False, "'channel_2'", "True"),
                ([np.nan, 1, 1], True, "nan", "'channel_0'", "leave `scale` out"),
                ([1, 0, 1], True, "is 0", "'channel_1'"),
                ([1, 1, 1e308], True, "1e+308", "'channel_2'"),
                ([1, 1, -np.inf], True, "-inf", "'channel_2'"),
                ([1, 5e-324, 1], True, "5e-324", "'channel_1'"),
            ],
            "groups": [
                (["channel_0"], True, "list of channels for each stage"),
                ({"P1": "channel_0"}, True, "'P1'", "list of channels"),
                ({"P1": ["channel_O"]}, True, "'channel_O'", "'P1'", "did you mean"),
                ({"P1": ["channel_0", ["channel_1"]]}, True, "['channel_1']"),
                ({"P1": ["channel_0"], "P2": [None]}, True, "None", "'P2'"),
            ],
        }.items()
        for k, (value, named, *words) in enumerate(cases)
    },
    "segments no JSON": ({"segments_json": "x"}, ["`segments_json`", "JSON text"]),
    "segments an object": ({"segments_json": "{}"}, ["`segments`", "JSON list"]),
    "segment negative": (
        {"segments_json": '[{"id": "A", "start": -1, "stop": 3}]'},
        ["0 <= start < stop", "[-1, 3)"],
    ),
    "segment beyond": (
        {"segments_json": '[{"id": "A", "start": 1, "stop": 51}]'},
        ["'A'", "row 51", "50 test rows"],
    ),
    "pickled objects": (
        {"train": np.array([[1.0, None, 2.0]], object)},
        ["'train'", "pickled", "could run code"],
    ),
    "a pickled name": (
        {"meta_json": np.array({"a": 1}, object)},
        ["'meta_json'", "pickled"],
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_arrays_that_make_no_stream_are_refused(tmp_path, case):
    changes, words = REFUSALS[case]
    path = write(
        tmp_path, **{k: v if v is None else np.asarray(v) for k, v in changes.items()}
    )
    with refused(str(path), *words):
        read_stream(path)


@pytest.mark.parametrize("name", ["s.npz", "s"])
def test_no_stream_is_written_that_could_not_be_read(tmp_path, name):
    right = {"scale": np.array([1.0, -2.5, 1e-9]), "groups": {1: CHANNELS[:2]}}
    write_stream(bare_stream().replace(meta=right), tmp_path / name)
    assert read_stream(tmp_path / name).meta == {
        "scale": [1.0, -2.5, 1e-9],
        "groups": {"1": list(CHANNELS[:2])},
    }
    with refused("`scale` of meta", "has 2"):
        wrong = bare_stream().replace(meta={"scale": [1, 2]})
        write_stream(wrong, tmp_path / f"other-{name}")
    assert [path.name for path in tmp_path.iterdir()] == [name]


NONFINITE = {
    "nan": (
        "train",
        [(11, 1)],
        np.nan,
        ["`train`", "row 11", "'channel_1'", "1 values"],
    ),
    "infinity": ("test", [(0, 2)], np.inf, ["`test`", "row 0", "'channel_2'"]),
    "minus infinity": ("test", [(49, 0)], -np.inf, ["`test`", "row 49"]),
    "several": (
        "train",
        [(5, 2), (5, 1), (9, 0)],
        np.nan,
        ["row 5", "'channel_1'", "3 values", "2 rows", "--drop-nonfinite"],
    ),
    "in calibration": ("calibration", [(3, 0)], np.nan, ["`calibration`", "row 3"]),
}


@pytest.mark.parametrize("case", NONFINITE)
def test_the_first_nonfinite_value_is_named_and_all_are_counted(tmp_path, case):
    name, places, value, words = NONFINITE[case]
    arrays = arrays_of(bare_stream()) | {"calibration": np.ones((9, 3))}
    values = arrays[name].copy()
    for place in places:
        values[place] = value
    with refused(*words):
        evaluate(read_stream(write(tmp_path, **{name: values})))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("share", np.linspace(0, 0.995, 25))
def test_a_truncated_file_is_refused(tmp_path, compressed, share):
    save = np.savez_compressed if compressed else np.savez
    path = tmp_path / "cut.npz"
    save(path, **arrays_of(bare_stream()))
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with refused(str(path)):
        read_stream(path)


FOREIGN = {
    "PNG": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "PDF": b"%PDF-1.7\n%%EOF",
    "text": b"train test labels\n1 2 3\n",
    "Parquet": b"PAR1" + b"\x00" * 30 + b"PAR1",
    "gzip": b"\x1f\x8b\x08\x00" + b"\x00" * 20,
    "the end of a zip": b"PK\x05\x06" + b"\x00" * 18,
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused(tmp_path, kind):
    path = tmp_path / "foreign.npz"
    path.write_bytes(FOREIGN[kind])
    with refused(str(path)):
        read_stream(path)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty.npz").touch()
    with refused("empty.npz", "is empty"):
        read_stream(tmp_path / "empty.npz")


def test_a_lone_array_renamed_is_refused(tmp_path):
    path = tmp_path / "renamed.npz"
    with open(path, "wb") as handle:
        np.save(handle, np.zeros((5, 2)))
    with refused(str(path), "not a readable .npz", "numpy.savez"):
        read_stream(path)


def test_a_pickle_renamed_is_refused(tmp_path):
    path = tmp_path / "renamed.npz"
    with open(path, "wb") as handle:
        np.save(handle, np.array([{}], object), allow_pickle=True)
    with refused(str(path), "not a readable .npz"):
        read_stream(path)


def write_zip(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def stored(array, **changes):
    """Return an array as ``.npy`` bytes, with some words of its header replaced."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, np.lib.format.header_data_from_array_1_0(array) | changes
    )
    return buffer.getvalue() + array.tobytes()


def members(**changes):
    whole = {f"{k}.npy": stored(v) for k, v in arrays_of(bare_stream()).items()}
    return whole | {f"{k}.npy": v for k, v in changes.items()}


@pytest.mark.parametrize(
    "shape",
    [(10**9, 10**9), (60, 10**6), (61, 3), (59, 3), (-60, -3), (2**62, 4), (0,), ()],
)
@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["plain", "zipped"]
)
def test_a_header_that_announces_another_size_is_refused(tmp_path, shape, compression):
    train = stored(bare_stream().train.values, shape=shape)
    path = write_zip(tmp_path / "lie.npz", members(train=train), compression)
    with refused(str(path), "'train'"):
        read_stream(path)


@pytest.mark.parametrize("descr", ["<U0", "|S0", "|V0"])
def test_endless_items_without_a_size_are_refused(tmp_path, descr):
    names = stored(np.zeros(0), descr=descr, shape=(10**15,))
    path = write_zip(tmp_path / "endless.npz", members(channels=names))
    with refused(str(path), "'channels'", "damaged"):
        read_stream(path)


def test_an_array_larger_than_memory_is_told_to_be_so(tmp_path, monkeypatch):
    def fails(*args, **kwargs):
        raise MemoryError

    path = write(tmp_path)
    monkeypatch.setattr(npz.np.lib.format, "read_array", fails)
    with refused(str(path), "'train'", "memory", "Parquet folder"):
        read_stream(path)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"x",
        b"{}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': 5}",
        b"{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}",
        b"{'descr': 'no', 'fortran_order': False, 'shape': (1,)}",
        b"(" * 9000,
        b"\xff" * 40,
        b"'" + b"x" * 20_000,
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
def test_a_nonsense_header_is_refused(tmp_path, header, version):
    width = 2 if version == (1, 0) else 4
    data = (
        b"\x93NUMPY" + bytes(version) + len(header).to_bytes(width, "little") + header
    )
    path = write_zip(tmp_path / "odd.npz", members(train=data))
    with refused(str(path), "'train'"):
        read_stream(path)


@pytest.mark.parametrize("name", ["train.npy", "train"])
def test_two_arrays_of_one_name_are_refused(tmp_path, name):
    path = write_zip(tmp_path / "twice.npz", members())
    data = stored(np.zeros((60, 3)))
    with zipfile.ZipFile(path, "a") as archive:
        if name == "train.npy":
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr(name, data)
        else:
            archive.writestr(name, data)
    with refused(str(path), "two arrays", "'train'"):
        read_stream(path)


def set_in_directory(path, offset, value):
    """Overwrite bytes of the first entry of a zip's central directory."""
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + offset
    data[at : at + len(value)] = value
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (8, b"\x01\x00"),  # encrypted
        (8, b"\x20\x00"),  # patched data
        (8, b"\x40\x00"),  # strongly encrypted
        (10, b"\x63\x00"),  # a compression nobody knows
        (10, b"\x09\x00"),  # deflate64
        (10, b"\x0c\x00"),  # says bzip2, is not
        (10, b"\x0e\x00"),  # says LZMA, is not
        (16, b"\x00\x00\x00\x00"),  # wrong checksum
        (20, b"\x01\x00\x00\x00"),  # wrong compressed size
        (24, b"\xff\xff\xff\x7f"),  # wrong size
        (28, b"\xff\x00"),  # wrong length of the name
        (42, b"\xff\xff\xff\x7f"),  # wrong place
        (6, b"\xff\xff"),  # a version of zip to come
    ],
)
@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["plain", "zipped"]
)
def test_an_odd_zip_entry_is_refused(tmp_path, offset, value, compression):
    path = write_zip(tmp_path / "odd.npz", members(), compression)
    set_in_directory(path, offset, value)
    with refused(str(path)):
        read_stream(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_of_zip_are_read(tmp_path, compression):
    path = write_zip(tmp_path / "other.npz", members(), compression)
    assert read_stream(path).train.n_rows == 60


@pytest.mark.parametrize("name", ["missing.npz", "missing", "m" * 300 + ".npz"])
def test_a_missing_file_is_named(tmp_path, name):
    # A name that is too long for a sentence is shortened in its middle.
    with refused(name[-50:]):
        read_stream(tmp_path / name)


@pytest.mark.parametrize("name", ["stream.csv", "stream.parquet", "stream", "x.npz.gz"])
def test_another_kind_of_file_is_refused(tmp_path, name):
    (tmp_path / name).write_text("a,b\n1,2\n")
    with refused(name, "not an .npz file", "--train and --test"):
        read_stream(tmp_path / name)


def test_a_folder_without_anything_is_refused(tmp_path):
    with refused(str(tmp_path), "train/*.parquet", "train.state"):
        read_stream(tmp_path)
