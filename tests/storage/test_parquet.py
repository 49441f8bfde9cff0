import json
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from on_disk import assert_same_stream, columns, full_stream, measured, values_of
from strategies import make_stream

from sightline import (
    FileError,
    SightlineError,
    StreamError,
    evaluate,
    read_stream,
    write_stream,
)
from sightline.storage import parquet

ALL_FOLDERS = ("train", "test", "calibration", "telemetry_train", "telemetry_test")


@dataclass(frozen=True)
class Layout:
    """How the rows of a table lie in its parts."""

    part_rows: int = 10**9
    row_group_size: int | None = None
    name: str = "part-{:03d}.parquet"
    shuffled: bool = False


LAYOUTS = {
    "one part": Layout(),
    "many small parts": Layout(part_rows=17, name="part-{:06d}.parquet"),
    "unpadded names": Layout(part_rows=97, name="part-{}.parquet"),
    "small row groups": Layout(row_group_size=13),
    "columns in another order": Layout(part_rows=400, shuffled=True),
    "all at once": Layout(61, 7, "{}.parquet", shuffled=True),
}


def lay_out(folder, layout):
    """Write the one part of a folder anew."""
    (part,) = folder.glob("*.parquet")
    table = pq.read_table(part)
    part.unlink()
    for k, first in enumerate(range(0, table.num_rows, layout.part_rows)):
        piece = table.slice(first, layout.part_rows)
        if layout.shuffled and k % 2:
            piece = piece.select(piece.column_names[::-1])
        pq.write_table(
            piece,
            folder / layout.name.format(k),
            row_group_size=layout.row_group_size,
        )


def write_parts(folder, *tables):
    folder.mkdir(parents=True)
    for k, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"part-{k}.parquet")


@pytest.fixture(scope="module")
def full():
    return full_stream()


@pytest.fixture(scope="module")
def full_figures(full):
    return measured(full)


def test_a_stream_with_every_field_survives(tmp_path, full):
    write_stream(full, tmp_path / "2020.01.02")
    found = read_stream(tmp_path / "2020.01.02")
    assert found.name == "2020.01.02"
    assert found.notices == ()
    assert_same_stream(found, full)


def test_a_stream_of_residuals_alone_survives(tmp_path):
    stream = make_stream(attacks=[])
    write_stream(stream, tmp_path / "bare")
    assert_same_stream(read_stream(tmp_path / "bare"), stream)


@pytest.mark.parametrize("suffix", [".npz", ""])
def test_one_format_becomes_the_other(tmp_path, full, suffix):
    other = "" if suffix else ".npz"
    write_stream(full, tmp_path / f"a{suffix}")
    write_stream(read_stream(tmp_path / f"a{suffix}"), tmp_path / f"b{other}")
    assert_same_stream(read_stream(tmp_path / f"b{other}"), full)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("chunk_rows", [parquet.CHUNK_ROWS, 50])
def test_no_layout_changes_a_bit_of_any_figure(
    tmp_path, monkeypatch, full, full_figures, layout, chunk_rows
):
    write_stream(full, tmp_path / "s")
    for name in ALL_FOLDERS:
        lay_out(tmp_path / "s" / name, layout)
    monkeypatch.setattr(parquet, "CHUNK_ROWS", chunk_rows)
    found = read_stream(tmp_path / "s")
    assert_same_stream(found, full)
    assert measured(found) == full_figures


def test_intervals_too_are_the_same_from_both_formats(tmp_path, full):
    for path in (tmp_path / "s.npz", tmp_path / "s"):
        write_stream(full, path)
    first, second = (
        evaluate(read_stream(path)).to_dict()
        for path in (tmp_path / "s.npz", tmp_path / "s")
    )
    assert first["intervals"]
    assert first == second


def test_float32_columns_give_the_figures_of_a_float32_array(tmp_path):
    stream = make_stream()
    stream = stream.replace(
        train=values_of(stream.train).astype(np.float32),
        test=values_of(stream.test).astype(np.float32),
    )
    write_stream(stream, tmp_path / "s")
    found = read_stream(tmp_path / "s")
    assert found.train.dtype == np.float32
    assert measured(found) == measured(stream)


def test_parts_are_as_long_as_wished(tmp_path, full):
    parquet.write_parquet_folder(full, tmp_path / "s", part_rows=500)
    assert len(list((tmp_path / "s" / "test").iterdir())) == 3
    assert_same_stream(read_stream(tmp_path / "s"), full)


def test_a_folder_is_read_a_chunk_at_a_time(tmp_path, monkeypatch):
    write_stream(make_stream(n_train=1000), tmp_path / "s")
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 64)
    sizes = [len(chunk) for chunk in read_stream(tmp_path / "s").train.chunks()]
    assert max(sizes) <= 64
    assert sum(sizes) == 1000


def test_evaluating_a_folder_never_holds_all_its_residuals(tmp_path, monkeypatch):
    n_rows, p = 30_000, 40
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n_rows, p))
    write_stream(make_stream(p=p).replace(train=values), tmp_path / "s")
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 2000)
    evaluate(make_stream(p=p), intervals=False)  # loads the kernels
    tracemalloc.start()
    evaluate(read_stream(tmp_path / "s"), intervals=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < values.nbytes / 2


def test_decoding_a_folder_never_holds_all_its_residuals(tmp_path, monkeypatch):
    # Arrow holds a page of about a megabyte of each column, however long it is.
    values = np.random.default_rng(0).normal(size=(200_000, 30)).astype(np.float32)
    write_stream(make_stream(p=30).replace(train=values), tmp_path / "s")
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 2000)
    before = pa.total_allocated_bytes()
    rows = read_stream(tmp_path / "s").train
    most = max(pa.total_allocated_bytes() for _ in rows.chunks()) - before
    assert most < values.nbytes / 2


def test_train_rows_to_be_ignored_are_left_out(tmp_path):
    values = np.random.default_rng(0).normal(size=(20, 2))
    time = np.arange(20)
    write_parts(
        tmp_path / "s" / "train",
        columns(values, label=np.where(time == 5, -1, 0), time=time),
    )
    write_parts(tmp_path / "s" / "test", columns(values, label=time % 2, time=time))
    meta = {"train_breaks": [0, 5, 6, 10]}
    (tmp_path / "s" / "meta.json").write_text(json.dumps(meta))
    stream = read_stream(tmp_path / "s")
    np.testing.assert_array_equal(values_of(stream.train), np.delete(values, 5, axis=0))
    assert stream.train_time.tolist() == np.delete(time, 5).tolist()
    assert stream.train_breaks.tolist() == [0, 5, 9]
    assert stream.labels.tolist() == (time % 2).tolist()


def test_meta_and_labels_may_be_missing(tmp_path):
    values = np.random.default_rng(0).normal(size=(20, 2))
    write_parts(tmp_path / "s" / "train", columns(values))
    write_parts(tmp_path / "s" / "test", columns(values))
    stream = read_stream(tmp_path / "s")
    assert stream.channels == ("c0", "c1")
    assert "No labels were given" in stream.notices[0]


def test_whole_number_columns_are_residuals_too(tmp_path):
    table = {"a": np.arange(9), "b": np.arange(9, dtype=np.float32)}
    write_parts(tmp_path / "s" / "train", table)
    write_parts(tmp_path / "s" / "test", table)
    stream = read_stream(tmp_path / "s")
    assert values_of(stream.train)[:, 0].tolist() == list(range(9))


def test_time_may_be_dates_or_text(tmp_path):
    values = np.zeros((3, 1))
    stamps = ["2020-01-01T00:00:00", "2020-01-01T00:00:10", "2020-01-01T00:00:20"]
    write_parts(
        tmp_path / "s" / "train", columns(values, time=np.array(stamps, "M8[us]"))
    )
    write_parts(tmp_path / "s" / "test", columns(values, time=stamps))
    stream = read_stream(tmp_path / "s")
    assert stream.step_s == 10.0
    np.testing.assert_array_equal(stream.train_time, stream.test_time)


def test_a_folder_is_replaced_as_a_whole(tmp_path, full):
    parquet.write_parquet_folder(full, tmp_path / "s", part_rows=100)
    small = make_stream(p=2)
    write_stream(small, tmp_path / "s")
    assert_same_stream(read_stream(tmp_path / "s"), small)
    assert sorted(p.name for p in (tmp_path / "s").iterdir()) == [
        "meta.json",
        "test",
        "train",
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_folder_with_something_else_is_not_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(FileError, match=r"holds 'thesis.tex'"):
        write_stream(make_stream(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["label", "time", "alarms", "score"])
def test_a_channel_cannot_have_the_name_of_another_column(tmp_path, name):
    stream = make_stream(p=2, channels=["a", name])
    with pytest.raises(StreamError, match=r"rename it, or write \.npz"):
        write_stream(stream, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_nan_is_found_in_its_part(tmp_path):
    values = np.random.default_rng(0).normal(size=(30, 2))
    bad = values.copy()
    bad[7, 1] = np.nan
    write_parts(tmp_path / "s" / "train", columns(values), columns(bad))
    write_parts(tmp_path / "s" / "test", columns(values))
    with pytest.raises(StreamError) as caught:
        evaluate(read_stream(tmp_path / "s"), intervals=False)
    assert "row 37 (part-1.parquet, row 7), channel 'c1' is the first of 1" in str(
        caught.value
    )


OK = columns(np.arange(8.0).reshape(4, 2))
REFUSED = {
    "no test folder": ([OK], [], None, "test: is missing"),
    "other columns in a part": (
        [OK, {"c0": [1.0]}],
        [OK],
        None,
        "part-1.parquet: has other columns than part-0.parquet (differing: c1)",
    ),
    "another channel in test": (
        [OK],
        [OK | {"x": [0.0] * 4}],
        None,
        "only in test: 'x'",
    ),
    "text": ([OK | {"c1": ["x"] * 4}], [OK], None, "column 'c1' must hold numbers"),
    "truth values": ([OK], [OK | {"c1": [True] * 4}], None, "it holds bool"),
    "attacks in train": ([OK | {"label": [0, 0, 1, 1]}], [OK], None, "row 2 is the"),
    "labels in words": ([OK], [OK | {"label": list("abcd")}], None, "0, 1, -1"),
    "missing labels": ([OK], [OK | {"label": [0, 1, None, 0]}], None, "0, 1, -1"),
    "only a label": ([{"label": [0, 0]}], [{"label": [0, 0]}], None, "one channel"),
    "meta is a list": ([OK], [OK], "[]", "meta.json: must be a JSON object; got list"),
    "meta is no JSON": ([OK], [OK], "{detector", "meta.json: must be a JSON object"),
    "meta names others": ([OK], [OK], '{"channels": ["z"]}', "not there: 'z'"),
    "channels no list": ([OK], [OK], '{"channels": "c0"}', "list of column names"),
    "segments no list": ([OK], [OK], '{"segments": 3}', "must be a JSON list"),
    "breaks no list": ([OK], [OK], '{"test_breaks": 3}', "`test_breaks` must be a"),
    "breaks outside": ([OK], [OK], '{"test_breaks": [4]}', "within the 4 rows"),
}


@pytest.mark.parametrize(
    ("train", "test", "meta", "sentence"), REFUSED.values(), ids=REFUSED
)
def test_what_makes_no_stream_is_refused_with_the_folders_name(
    tmp_path, train, test, meta, sentence
):
    folder = tmp_path / "s"
    for name, tables in (("train", train), ("test", test)):
        if tables:
            write_parts(folder / name, *tables)
    if meta is not None:
        (folder / "meta.json").write_text(meta)
    with pytest.raises(SightlineError) as caught:
        read_stream(folder)
    assert str(caught.value).startswith(str(folder))
    assert sentence in str(caught.value)


def test_a_part_that_is_no_parquet_is_named(tmp_path):
    write_stream(make_stream(), tmp_path / "s")
    (tmp_path / "s" / "test" / "part-1.parquet").write_bytes(b"hello")
    with pytest.raises(FileError, match=r"part-1.parquet: is not a readable Parquet"):
        read_stream(tmp_path / "s")


def test_an_empty_part_adds_nothing(tmp_path):
    empty = {name: values[:0] for name, values in OK.items()}
    write_parts(tmp_path / "s" / "train", OK, empty, OK)
    write_parts(tmp_path / "s" / "test", empty, OK)
    stream = read_stream(tmp_path / "s")
    assert (stream.train.n_rows, stream.test.n_rows) == (8, 4)
    assert np.isfinite(measured(stream)["probe"]["tau99"])


@pytest.mark.xfail(reason="a Parquet folder's meta.json uses these keys itself")
def test_meta_of_the_users_own_survives_whatever_its_keys(tmp_path):
    stream = make_stream(meta={"segments": "mine", "train_breaks": 3, "channels": 4})
    for path in (tmp_path / "s.npz", tmp_path / "s"):
        write_stream(stream, path)
        assert read_stream(path).meta == stream.meta
