"""Two tables, in CSV or Parquet, as one stream."""

import gzip
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import assert_same_evaluation, bare_stream, columns_of, refused, write_csv

from sightline import evaluate, read_tables

# Metrics of alarms take long, and are compared in test_round_trips.py.
quick = partial(evaluate, metrics="none")
KINDS = [("csv", "csv"), ("parquet", "parquet"), ("csv", "parquet"), ("parquet", "csv")]
TIMES = {
    "train": [f"2015-12-28T10:00:{k:02d}" for k in range(60)],
    "test": [f"2016-01-02 10:{k // 10:02d}:{k % 10 * 6:02d}" for k in range(50)],
}


def write_table(path, columns):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        write_csv(path, columns)
    return path


def tables(tmp_path, kinds=("csv", "csv"), train=None, test=None):
    """Write the sample as two tables, with columns changed or (None) left out."""
    paths = []
    for split, kind, changes in zip(
        ("train", "test"), kinds, (train, test), strict=True
    ):
        columns = columns_of(bare_stream(), split) | (changes or {})
        columns = {name: v for name, v in columns.items() if v is not None}
        paths.append(write_table(tmp_path / f"{split}.{kind}", columns))
    return paths


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_any_mix_of_tables_gives_the_same_evaluation(tmp_path, kinds):
    stream = read_tables(*tables(tmp_path, kinds), label="y", name="sample")
    assert_same_evaluation(quick(stream), quick(bare_stream()))


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_columns_are_matched_by_name(tmp_path, kinds):
    columns = columns_of(bare_stream(), "test")
    train, _ = tables(tmp_path, kinds)
    turned = dict(reversed(columns.items()))
    test = write_table(tmp_path / f"turned.{kinds[1]}", turned)
    stream = read_tables(train, test, label="y", name="sample")
    assert_same_evaluation(quick(stream), quick(bare_stream()))


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_iso_text_is_time(tmp_path, kinds):
    paths = tables(tmp_path, kinds, {"t": TIMES["train"]}, {"t": TIMES["test"]})
    stream = read_tables(*paths, label="y", time="t")
    assert stream.train_time[:2].tolist() == [1451296800.0, 1451296801.0]
    assert stream.test_time[0] == 1451728800.0
    assert stream.step_s == 6.0


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_time_may_be_missing_in_train(tmp_path, kinds):
    paths = tables(tmp_path, kinds, test={"t": np.arange(50) * 4})
    stream = read_tables(*paths, label="y", time="t")
    assert stream.train_time is None
    assert stream.step_s == 4.0


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_ignored_train_rows_are_left_out(tmp_path, kinds):
    label = np.zeros(60, int)
    label[5:9] = -1
    changes = {"y": label, "t": np.arange(60)}
    paths = tables(tmp_path, kinds, changes, {"t": np.arange(50)})
    stream = read_tables(*paths, label="y", time="t")
    np.testing.assert_array_equal(stream.train_time, np.flatnonzero(label == 0))
    values = np.concatenate(list(stream.train.chunks()))
    np.testing.assert_array_equal(values, bare_stream().train.values[label == 0])


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_given_breaks_lose_the_ignored_train_rows_too(tmp_path, kinds):
    label = np.zeros(60, int)
    label[5:9] = -1
    paths = tables(tmp_path, kinds, {"y": label})
    stream = read_tables(*paths, label="y", train_breaks=[0, 20])
    assert stream.train_breaks.tolist() == [0, 16]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_attacks_in_train_are_refused_by_row(tmp_path, kinds):
    label = np.zeros(60, int)
    label[[7, 20]] = 1
    paths = tables(tmp_path, kinds, {"y": label})
    with refused(
        "train." + kinds[0], "`train`", "row 7", "2 labelled attack", "leave them out"
    ):
        read_tables(*paths, label="y")


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("option", ["label", "time"])
def test_an_option_that_names_no_column_lists_those_there_are(tmp_path, kinds, option):
    with refused("test." + kinds[1], "'attack'", option, "'LIT101'", "'y'"):
        read_tables(*tables(tmp_path, kinds), **{option: "attack"})


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_differing_columns_are_named(tmp_path, kinds):
    paths = tables(tmp_path, kinds, test={"P101": None, "P102": np.zeros(50)})
    with refused("only in train: 'P101'", "only in test: 'P102'"):
        read_tables(*paths, label="y")


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_a_label_column_that_is_not_named_is_pointed_at(tmp_path, kinds):
    with refused("only in test: 'y'", "name the label"):
        read_tables(*tables(tmp_path, kinds))


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_only_a_label_is_no_stream(tmp_path, kinds):
    nothing = {"LIT101": None, "FIT101": None, "P101": None}
    paths = tables(tmp_path, kinds, nothing | {"y": np.zeros(60)}, nothing)
    with refused("at least one channel"):
        read_tables(*paths, label="y")


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_a_label_in_words_is_mapped_and_announced(tmp_path, kinds):
    words = ["Normal", "A ttack", "Attack", "normal", "Normal"] * 10
    stream = read_tables(*tables(tmp_path, kinds, test={"y": words}), label="y")
    assert stream.labels.tolist() == [0, 1, 1, 0, 0] * 10
    assert stream.notices[0] == (
        f"test.{kinds[1]}: labels were read as A ttack = 1, Attack = 1, Normal = 0, "
        "normal = 0."
    )


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_a_label_of_unknown_words_is_refused(tmp_path, kinds):
    paths = tables(tmp_path, kinds, test={"y": ["Normal", "Attack 7"] * 25})
    text = (f"test.{kinds[1]}", "column 'y'", "'Attack 7' (25 such rows)")
    chunks = ("`labels`", "must be 0, 1, -1")
    with refused(*(chunks if set(kinds) == {"parquet"} else text)):
        read_tables(*paths, label="y")


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_other_numbers_than_0_1_and_minus_1_are_refused_by_row(tmp_path, kinds):
    marks = np.zeros(50, int)
    marks[[3, 4]] = 2
    paths = tables(tmp_path, kinds, test={"y": marks})
    text = (f"test.{kinds[1]}", "row 3", "is '2' (2 such rows)")
    chunks = ("`labels`", "row 3 is 2", "2 such rows")
    with refused(*(chunks if set(kinds) == {"parquet"} else text)):
        read_tables(*paths, label="y")


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_text_that_is_no_time_is_refused(tmp_path, kinds):
    paths = tables(tmp_path, kinds, test={"t": ["28/12/2015 at ten"] * 50})
    with refused("test." + kinds[1], "28/12/2015"):
        read_tables(*paths, label="y", time="t")


def test_bad_input_in_a_csv_is_named_by_row_and_line(tmp_path):
    values = bare_stream().test.values[:, 0].astype(object)
    values[17] = "Bad Input"
    paths = tables(tmp_path, test={"LIT101": values})
    with refused("test.csv", "'LIT101'", "row 17", "line 19", "'Bad Input'", "repair"):
        read_tables(*paths, label="y")


def test_bad_input_far_down_is_named_too(tmp_path):
    n_rows = 12_000
    values = np.arange(n_rows).astype(object)
    values[11_500] = "Bad Input"
    path = write_csv(tmp_path / "long.csv", {"a": values, "b": np.arange(n_rows)})
    with refused("'a'", "row 11500", "line 11502", "'Bad Input'"):
        read_tables(path, path)


def test_a_column_without_any_value_is_named(tmp_path):
    paths = tables(tmp_path, train={"P101": [""] * 60})
    with refused("train.csv", "'P101'", "row 0", "is empty"):
        read_tables(*paths, label="y")


def test_an_empty_cell_is_a_value_that_is_not_finite(tmp_path):
    values = bare_stream().train.values[:, 2].astype(object)
    values[40] = ""
    stream = read_tables(*tables(tmp_path, train={"P101": values}), label="y")
    with refused("`train`", "row 40", "'P101'", "--drop-nonfinite"):
        evaluate(stream)


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-Infinity"])
def test_nan_written_among_whole_numbers_is_not_finite(tmp_path, text):
    path = write_csv(tmp_path / "t.csv", {"a": [1, 2, text, 4], "b": [1, 2, 3, 5]})
    with refused("`train`", "row 2", "'a'", "--drop-nonfinite"):
        evaluate(read_tables(path, path))


def test_numbers_padded_with_blanks_are_numbers(tmp_path):
    path = tmp_path / "padded.csv"
    path.write_text("a, b\n 1, 2.5\n 3 , 4\n")
    stream = read_tables(path, path)
    assert stream.test.values.tolist() == [[1.0, 2.5], [3.0, 4.0]]


def test_a_missing_time_is_named_by_row_and_line(tmp_path):
    times = [*TIMES["test"]]
    times[9] = ""
    paths = tables(tmp_path, test={"t": times})
    with refused("test.csv", "'t'", "row 9", "line 11"):
        read_tables(*paths, label="y", time="t")


def test_a_missing_label_is_refused_by_row(tmp_path):
    marks = np.zeros(50).astype(object)
    marks[6] = ""
    with refused("`labels`", "row 6", "nan"):
        read_tables(*tables(tmp_path, test={"y": marks}), label="y")


def test_numbers_too_large_for_64_bits_are_numbers(tmp_path):
    path = write_csv(tmp_path / "huge.csv", {"a": [1, 2, 3, 2**70]})
    stream = read_tables(path, path)
    assert stream.test.values[:, 0].tolist() == [1.0, 2.0, 3.0, 2.0**70]


def test_a_csv_may_be_compressed(tmp_path):
    train, test = tables(tmp_path)
    for path in (train, test):
        path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    zipped = [path.with_suffix(".csv.gz") for path in (train, test)]
    stream = read_tables(*zipped, label="y", name="sample")
    assert_same_evaluation(
        evaluate(stream, intervals=False), evaluate(bare_stream(), intervals=False)
    )


def test_the_test_table_names_the_stream(tmp_path):
    assert read_tables(*tables(tmp_path), label="y").name == "test"
    assert read_tables(*tables(tmp_path), label="y", name="mine").name == "mine"


def test_more_may_be_said_of_the_stream(tmp_path):
    stream = read_tables(*tables(tmp_path), label="y", step_s=5.0, detector="PCA")
    assert (stream.step_s, stream.detector) == (5.0, "PCA")


TEXTS = {
    "nothing": ("", ["is empty"]),
    "a header only": ("a,b\n", ["has a header but no rows"]),
    "a row too long": ("a,b\n1,2\n3,4,5\n", ["same number of columns"]),
    "two columns of one name": ("a,b,a\n1,2,3\n4,5,6\n", ["two columns", "'a'"]),
    "three columns of one name": ("b,a,a,a\n1,2,3,4\n", ["two columns", "'a'"]),
    "prose": ("Dear all,\nplease find attached\n", ["bad.csv"]),
    "not UTF-8": (b"a,b\n1,\xff\n2,3\n", ["bad.csv"]),
    "PNG": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00", ["bad.csv"]),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", ["bad.csv"]),
    "a zip": (b"PK\x03\x04\x14\x00\x00\x00\x08\x00" * 9, ["bad.csv"]),
    "true and false": ("a\ntrue\nfalse\n", ["'a'", "must hold numbers"]),
    "one row": ("a,b\n1,2\n", ["`train`", "at least 2 rows"]),
}


@pytest.mark.parametrize("case", TEXTS)
def test_what_is_no_table_of_numbers_is_refused(tmp_path, case):
    text, words = TEXTS[case]
    path = tmp_path / "bad.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(str(path), *words):
        read_tables(path, path)


@pytest.mark.parametrize("data", [b"PAR1", b"\x89PNG\r\n", b"a,b\n1,2\n", b"PAR1" * 9])
@pytest.mark.parametrize("both", [True, False], ids=["alone", "beside a CSV"])
def test_what_is_no_parquet_is_refused(tmp_path, data, both):
    path = tmp_path / "bad.parquet"
    path.write_bytes(data)
    other = path if both else tables(tmp_path)[1]
    with refused(str(path), "is not a readable Parquet file", "write it again"):
        read_tables(path, other)


@pytest.mark.parametrize("share", np.linspace(0, 0.99, 12))
@pytest.mark.parametrize("kinds", KINDS[1:3], ids="-".join)
def test_a_truncated_parquet_table_is_refused(tmp_path, share, kinds):
    train, test = tables(tmp_path, kinds)
    data = test.read_bytes()
    test.write_bytes(data[: int(share * len(data))])
    with refused("test.parquet"):
        read_tables(train, test, label="y")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table", "neither .csv nor .parquet"),
        ("table.npz", "neither .csv nor .parquet"),
        ("table.xlsx", "cannot be read as an Excel table"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path, name, words):
    (tmp_path / name).write_text("a\n1\n2\n")
    with refused(name, words):
        read_tables(tmp_path / name, tmp_path / name)


@pytest.mark.parametrize("name", ["missing.csv", "missing.parquet", "x" * 300 + ".csv"])
def test_a_missing_table_is_named(tmp_path, name):
    # A name that is too long for a sentence is shortened in its middle.
    with refused(name[-50:]):
        read_tables(tmp_path / name, tmp_path / name)


def test_a_folder_is_no_table(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with refused("folder.csv", "no such file"):
        read_tables(tmp_path / "folder.csv", tmp_path / "folder.csv")
