"""Parquet folders: parts in their order, columns by name, rows in chunks."""

import json
import tracemalloc
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import (
    CHANNELS,
    assert_same_evaluation,
    bare_stream,
    columns_of,
    refused,
)

from sightline import evaluate, read_stream, read_tables, write_stream
from sightline.audit import protocol as lint
from sightline.storage import parquet

# Metrics of alarms take long, and are compared in test_round_trips.py.
quick = partial(evaluate, metrics="none")


def write_part(path, columns, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(columns)), path, **options)


def write_folder(folder, stream, **changes):
    """Write train and test, one part each, without meta.json."""
    for split in ("train", "test"):
        columns = columns_of(stream, split)
        if split == "test":
            columns["label"] = columns.pop("y")
        columns |= changes.get(split, {})
        columns = {name: v for name, v in columns.items() if v is not None}
        write_part(folder / split / "part-0.parquet", columns)


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "sample", bare_stream())
    return tmp_path / "sample"


def test_a_folder_without_meta_json_is_read(folder):
    stream = read_stream(folder)
    assert stream.channels == CHANNELS
    assert_same_evaluation(quick(stream), quick(bare_stream()))


def test_unpadded_part_names_are_read_in_the_order_of_their_numbers(tmp_path):
    stream = bare_stream()
    for split in ("train", "test"):
        columns = columns_of(stream, split)
        if split == "test":
            columns["label"] = columns.pop("y")
        for k in range(13):
            rows = slice(5 * k, 5 * (k + 1) if k < 12 else None)
            part = {name: values[rows] for name, values in columns.items()}
            write_part(tmp_path / "sample" / split / f"part-{k}.parquet", part)
    names = [path.name for path in parquet.files_in(tmp_path / "sample" / "train")]
    assert names[1:3] == ["part-1.parquet", "part-2.parquet"]
    assert names[-1] == "part-12.parquet"
    assert_same_evaluation(quick(read_stream(tmp_path / "sample")), quick(stream))


def test_small_row_groups_and_shuffled_columns_change_nothing(tmp_path):
    stream = bare_stream()
    for split in ("train", "test"):
        columns = columns_of(stream, split)
        if split == "test":
            columns["label"] = columns.pop("y")
        for k in range(5):
            part = {
                name: columns[name][12 * k : 12 * (k + 1)]
                for name in np.roll(list(columns), k)
            }
            path = tmp_path / "sample" / split / f"{k}.parquet"
            write_part(path, part, row_group_size=4)
    got = read_stream(tmp_path / "sample")
    expected = stream.replace(
        train=stream.train.values[:60], channels=CHANNELS, name="sample"
    )
    assert_same_evaluation(quick(got), quick(expected))


@pytest.mark.parametrize("chunk_rows", [1, 7, 1000])
def test_the_size_of_a_chunk_changes_nothing(folder, monkeypatch, chunk_rows):
    monkeypatch.setattr(parquet, "CHUNK_ROWS", chunk_rows)
    assert_same_evaluation(quick(read_stream(folder)), quick(bare_stream()))


def big_table(n_rows, seed):
    values = np.random.default_rng(seed).normal(size=(n_rows, 40))
    return {f"c{j}": values[:, j] for j in range(40)}


@pytest.mark.parametrize("row_group_size", [2_000, 40_000])
def test_a_large_folder_is_never_in_memory_whole(tmp_path, monkeypatch, row_group_size):
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 1_000)
    # The protocol's checks sample a fixed number of rows, however large a folder is.
    monkeypatch.setattr(lint, "MOST_ROWS", 500)
    monkeypatch.setattr(lint, "MOST_CELLS", 20_000)
    n_rows = 40_000
    for k, split in enumerate(("train", "test")):
        path = tmp_path / "large" / split / "part-0.parquet"
        options = {"row_group_size": row_group_size, "data_page_size": 16_384}
        write_part(path, big_table(n_rows, k), use_dictionary=False, **options)
    table_bytes = n_rows * 40 * 8
    lengths, arrow_bytes = [], []
    chunks = parquet.ParquetRows.chunks

    def counted(rows):
        for chunk in chunks(rows):
            lengths.append(len(chunk))
            arrow_bytes.append(pa.total_allocated_bytes())
            yield chunk

    # What is compiled and imported takes memory once, and each thread needs its own.
    evaluate(read_stream(tmp_path / "large"), intervals=False, jobs=1)
    monkeypatch.setattr(parquet.ParquetRows, "chunks", counted)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    evaluate(read_stream(tmp_path / "large"), intervals=False, jobs=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(lengths) <= 1_000
    # Moments, energy, pictures, and the checks of the protocol: a few passes.
    assert sum(lengths) <= 10 * n_rows
    assert peak < table_bytes / 3
    assert max(arrow_bytes) - before < 0.6 * table_bytes


def test_two_parquet_tables_are_read_in_chunks_too(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 10)
    stream = bare_stream()
    for split in ("train", "test"):
        write_part(tmp_path / f"{split}.parquet", columns_of(stream, split))
    tables = read_tables(
        tmp_path / "train.parquet", tmp_path / "test.parquet", label="y", name="sample"
    )
    assert [len(chunk) for chunk in tables.train.chunks()] == [10] * 6
    assert_same_evaluation(quick(tables), quick(stream))


def test_ignored_train_rows_are_left_out_with_their_time_and_breaks(tmp_path):
    stream = bare_stream()
    label = np.zeros(60, int)
    label[10:20] = -1
    extra = {"label": label, "time": np.arange(60.0)}
    write_folder(tmp_path / "s", stream, train=extra)
    (tmp_path / "s" / "meta.json").write_text('{"train_breaks": [0, 12, 30]}')
    kept = read_stream(tmp_path / "s")
    assert kept.train.n_rows == 50
    assert kept.train_time.tolist() == [*range(10), *range(20, 60)]
    assert kept.train_breaks.tolist() == [0, 10, 20]
    values = np.concatenate(list(kept.train.chunks()))
    np.testing.assert_array_equal(values, stream.train.values[label == 0])


def test_attacks_in_train_are_refused_by_row(tmp_path):
    label = np.zeros(60, int)
    label[[33, 34]] = 1
    write_folder(tmp_path / "s", bare_stream(), train={"label": label})
    with refused("s: ", "`train`", "row 33", "2 labelled attack", "leave them out"):
        read_stream(tmp_path / "s")


@pytest.mark.parametrize(
    "times",
    [
        np.arange(50) * np.timedelta64(3, "s") + np.datetime64("2020-01-01T00:00:00"),
        [f"2020-01-01T00:{k // 20:02d}:{k % 20 * 3:02d}" for k in range(50)],
        pa.array(["2020-01-01T00:00:00"] * 50).dictionary_encode(),
    ],
    ids=["datetime", "text", "category"],
)
def test_time_may_be_dates_or_iso_text(tmp_path, times):
    write_folder(tmp_path / "s", bare_stream(), test={"time": times})
    stream = read_stream(tmp_path / "s")
    assert stream.test_time[0] == np.datetime64("2020-01-01").astype("M8[s]").astype(
        int
    )
    assert stream.step_s in (3.0, None)


def test_whole_numbers_and_gaps_in_columns_are_numbers(tmp_path):
    test = {"LIT101": pa.array([*range(49), None]), "label": None}
    write_folder(tmp_path / "s", bare_stream(), test=test)
    with refused("`test`", "row 49 (part-0.parquet, row 49)", "'LIT101'", "1 values"):
        evaluate(read_stream(tmp_path / "s"))
    evaluation = quick(read_stream(tmp_path / "s"), nonfinite="drop")
    assert evaluation.dropped_rows["test"] == 1


def test_a_nonfinite_value_is_named_by_part_and_row(tmp_path):
    stream = bare_stream()
    for k, rows in enumerate((slice(0, 20), slice(20, 60))):
        part = {n: v[rows].copy() for n, v in columns_of(stream, "train").items()}
        if k == 1:
            part["P101"][4] = np.inf
        write_part(tmp_path / "s" / "train" / f"part-{k}.parquet", part)
    write_part(tmp_path / "s" / "test" / "a.parquet", columns_of(stream, "train"))
    with refused("`train`", "row 24 (part-1.parquet, row 4)", "'P101'"):
        evaluate(read_stream(tmp_path / "s"))


def put_channels(value):
    return lambda folder: (folder / "meta.json").write_text(
        json.dumps({"channels": value})
    )


def put_part(name, columns):
    return lambda folder: write_part(folder / name, columns)


def only_labels(folder):
    for split in ("train", "test"):
        write_part(folder / split / "part-0.parquet", {"label": [0] * 50})


REFUSALS = {
    "other columns in a part": (
        put_part("train/part-1.parquet", {"LIT101": [1.0], "new": [2.0]}),
        ["train/part-1.parquet", "part-0.parquet", "FIT101", "new"],
    ),
    "other columns in test": (
        put_part("test/part-0.parquet", {"LIT101": [1.0], "new": [2.0]}),
        ["only in train: 'FIT101' and 'P101'", "only in test: 'new'"],
    ),
    "text in a column": (
        put_part("test/part-0.parquet", {name: ["x"] * 3 for name in CHANNELS}),
        ["test/part-0.parquet", "'LIT101'", "must hold numbers", "string"],
    ),
    "no channel": (only_labels, ["at least one channel"]),
    "no rows in train": (
        put_part(
            "train/part-0.parquet",
            {name: pa.array([], pa.float64()) for name in CHANNELS},
        ),
        ["`train`", "at least 2 rows", "0"],
    ),
    "no rows in test": (
        put_part(
            "test/part-0.parquet",
            {name: pa.array([], pa.float64()) for name in CHANNELS},
        ),
        ["`test`", "at least 1 row"],
    ),
    "channels not a list": (
        put_channels("LIT101"),
        ["`channels`", "meta.json", "list"],
    ),
    "no channels": (put_channels([]), ["at least one channel"]),
    "channels not there": (put_channels(["LIT101", "Q"]), ["meta.json", "'Q'"]),
    "a channel twice": (put_channels(["P101", "P101"]), ["'P101'", "twice"]),
    "labels of another kind": (
        lambda folder: write_folder(
            folder, bare_stream(), test={"label": ["Normal", "Attack"] * 25}
        ),
        ["`labels`", "'Normal'", "map it to these numbers"],
    ),
    "calibration of other channels": (
        put_part("calibration/a.parquet", {"new": [1.0]}),
        ["same channels", "'new'"],
    ),
    "telemetry without test": (
        put_part("telemetry_train/a.parquet", {"level": np.zeros(60)}),
        ["telemetry_test", "is missing"],
    ),
    "telemetry of other length": (
        lambda folder: [
            put_part(f"telemetry_{split}/a.parquet", {"level": np.zeros(9)})(folder)
            for split in ("train", "test")
        ],
        ["`telemetry_train`", "9", "60"],
    ),
    "telemetry of other columns": (
        lambda folder: [
            put_part("telemetry_train/a.parquet", {"level": np.zeros(60)})(folder),
            put_part("telemetry_test/a.parquet", {"flow": np.zeros(50)})(folder),
        ],
        ["telemetry_test/a.parquet", "'level'"],
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_folder_that_does_not_fit_together_is_refused(folder, case):
    change, words = REFUSALS[case]
    change(folder)
    with refused(str(folder), *words):
        read_stream(folder)


def test_two_columns_of_one_name_are_refused_in_any_part(folder):
    part = pa.table([[1.0], [2.0], [3.0], [4.0]], names=[*CHANNELS, "P101"])
    pq.write_table(part, folder / "train" / "part-1.parquet")
    with refused("train/part-1.parquet", "'P101'", "rename"):
        read_stream(folder)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("train", ["train: is missing", "train/*.parquet"]),
        ("test", ["test: is missing", "test/*.parquet"]),
    ],
)
def test_a_missing_half_is_named(folder, missing, words):
    (folder / missing).rename(folder / "elsewhere")
    with refused(*words):
        read_stream(folder)


def test_an_empty_half_is_named(folder):
    (folder / "test" / "part-0.parquet").unlink()
    with refused(str(folder / "test"), "holds no *.parquet file"):
        read_stream(folder)


META = {
    "no JSON": ("{", ["must be a JSON object"]),
    "empty": ("", ["must be a JSON object"]),
    "a list": ("[]", ["must be a JSON object", "list"]),
    "not UTF-8": (b"\xff\xfe", ["must be a JSON object"]),
    "too deep": ('{"a":' + "[" * 400 + "]" * 400 + "}", ["nested"]),
    "far too deep": ("[" * 100_000, ["nested"]),
    "a number of 5000 digits": ('{"a": ' + "9" * 5000 + "}", ["meta.json"]),
    "step not a number": ('{"step_s": "fast"}', ["step_s", "must be a number", "fast"]),
    "step negative": ('{"step_s": -1}', ["`step_s`", "positive", "-1"]),
    "step true": ('{"step_s": true}', ["step_s", "must be a number", "True"]),
    "breaks text": ('{"train_breaks": "0"}', ["`train_breaks`", "list"]),
    "breaks ragged": ('{"train_breaks": [[1], 2]}', ["train_breaks", "[1]"]),
    "breaks beyond": ('{"test_breaks": [0, 50]}', ["`test_breaks`", "50 rows"]),
    "breaks negative": ('{"test_breaks": [-1]}', ["`test_breaks`", "-1"]),
    "breaks huge": ('{"test_breaks": [1e300]}', ["`test_breaks`"]),
    "segments no list": ('{"segments": {}}', ["`segments`", "JSON list", "dict"]),
    "segment no object": ('{"segments": [1]}', ["`segments` item 0", "id, start"]),
    "segment without stop": ('{"segments": [{"id": 1, "start": 2}]}', ["item 0"]),
    "segment at a half": (
        '{"segments": [{"id": 1, "start": 2.5, "stop": 4}]}',
        ["segments item 0 start", "2.5"],
    ),
    "segment negative": (
        '{"segments": [{"id": 1, "start": -2, "stop": 4}]}',
        ["0 <= start < stop", "[-2, 4)"],
    ),
    "segment backwards": (
        '{"segments": [{"id": 1, "start": 5, "stop": 5}]}',
        ["0 <= start < stop", "[5, 5)"],
    ),
    "segment beyond": (
        '{"segments": [{"id": "A7", "start": 40, "stop": 51}]}',
        ["'A7'", "row 51", "50 test rows"],
    ),
    "segment infinite": (
        '{"segments": [{"id": 1, "start": 0, "stop": 1e999}]}',
        ["segments item 0 stop"],
    ),
    "scale short": ('{"scale": [1]}', ["`scale` of meta", "3 numbers", "has 1"]),
    "scale nan": ('{"scale": [1, NaN, 1]}', ["`scale` of meta", "nan"]),
    "group unknown": ('{"groups": {"P": ["X"]}}', ["`groups` of meta", "'X'", "'P'"]),
    "targets no list": (
        '{"segments": [{"id": 1, "start": 0, "stop": 1, "targets": 5}]}',
        ["item 0", "targets"],
    ),
}


@pytest.mark.parametrize("case", META)
def test_a_bad_meta_json_is_refused(folder, case):
    text, words = META[case]
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "meta.json").write_bytes(data)
    with refused(str(folder), *words):
        read_stream(folder)


def test_meta_json_gives_names_step_and_attacks(folder):
    meta = {
        "detector": "GDN",
        "testbed": 7,
        "step_s": 2,
        "seed": 1,
        "channels": ["P101", "LIT101"],
        "segments": [{"id": 3, "start": 10, "stop": 15.0, "targets": "P101"}],
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    stream = read_stream(folder)
    assert (stream.detector, stream.testbed, stream.step_s) == ("GDN", "7", 2.0)
    assert stream.channels == ("P101", "LIT101")
    assert stream.meta == {"seed": 1}
    assert [a.id for a in stream.attack_segments()] == ["3", "unlisted-2"]
    assert stream.segments[0].targets == ("P101",)


def test_a_damaged_page_is_found_while_reading(tmp_path):
    write_stream(bare_stream(), tmp_path / "s")
    part = next((tmp_path / "s" / "train").iterdir())
    data = bytearray(part.read_bytes())
    data[4:200] = b"\xff" * 196
    part.write_bytes(data)
    with refused(part.name, "write it again"):
        evaluate(read_stream(tmp_path / "s"))


def test_a_part_that_shrinks_between_passes_is_told(folder):
    stream = read_stream(folder)
    columns = columns_of(bare_stream(), "train")
    short = {name: values[:5] for name, values in columns.items()}
    write_part(folder / "train" / "part-0.parquet", short)
    with refused("5 rows", "60", "changed"):
        evaluate(stream)


def test_a_part_that_vanishes_between_passes_is_told(folder):
    stream = read_stream(folder)
    (folder / "test" / "part-0.parquet").unlink()
    with refused("part-0.parquet", "not a readable Parquet file"):
        evaluate(stream)


def test_many_parts_do_not_stay_open(tmp_path):
    resource = pytest.importorskip("resource")
    parquet.write_parquet_folder(bare_stream(), tmp_path / "s", part_rows=1)
    assert len(parquet.files_in(tmp_path / "s" / "train")) == 60
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The lowest free number tells how many files are open already.
    with open(tmp_path / "s" / "meta.json") as handle:
        few = handle.fileno() + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, allowed[1]))
    try:
        evaluation = evaluate(read_stream(tmp_path / "s"), intervals=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    assert evaluation.stream.n_train == 60
