import numpy as np
import polars as pl
import pytest
from on_disk import columns, measured, values_of, write_csv
from strategies import make_stream

from sightline import ResidualStream, read_tables
from sightline.storage import parquet
from sightline.storage.parquet import ParquetRows

STREAM = make_stream(n_train=300, n_test=200, p=3, attacks=[(50, 70), (120, 125)])
TRAIN, TEST = values_of(STREAM.train), values_of(STREAM.test)
LABELS = STREAM.labels


def write(path, table):
    """Write a table as its suffix says."""
    if path.suffix == ".parquet":
        pl.DataFrame(table).write_parquet(path, row_group_size=64)
    else:
        write_csv(path, table)
    return path


@pytest.fixture(params=[".csv", ".parquet"])
def pair(request, tmp_path):
    """Write a train and a test table in one format."""

    def written(train, test):
        return (
            write(tmp_path / f"train{request.param}", train),
            write(tmp_path / f"test{request.param}", test),
        )

    return written


@pytest.mark.parametrize("train", ["train.csv", "train.parquet"])
@pytest.mark.parametrize("test", ["test.csv", "test.parquet"])
def test_any_two_tables_give_the_figures_of_the_arrays(tmp_path, train, test):
    write(tmp_path / train, columns(TRAIN))
    write(tmp_path / test, columns(TEST, y=LABELS))
    stream = read_tables(tmp_path / train, tmp_path / test, label="y")
    assert measured(stream) == measured(STREAM.replace(channels=["c0", "c1", "c2"]))


def test_tables_and_frames_give_the_same_figures(pair):
    train, test = columns(TRAIN), columns(TEST, y=LABELS)
    frames = pl.DataFrame(train), pl.DataFrame(test)
    on_disk = read_tables(*pair(train, test), label="y")
    in_memory = ResidualStream.from_tables(*frames, label="y")
    assert measured(on_disk) == measured(in_memory)


def test_parquet_tables_are_read_in_chunks(tmp_path, monkeypatch):
    train = write(tmp_path / "train.parquet", columns(TRAIN))
    test = write(tmp_path / "test.parquet", columns(TEST))
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 50)
    stream = read_tables(train, test)
    assert isinstance(stream.train, ParquetRows)
    assert max(len(chunk) for chunk in stream.test.chunks()) <= 50


def test_time_is_taken_from_both_tables(pair):
    time = np.arange(len(TRAIN)) * 5.0
    paths = pair(columns(TRAIN, t=time), columns(TEST, t=time[: len(TEST)]))
    stream = read_tables(*paths, time="t")
    assert stream.step_s == 5.0
    assert stream.train_time.tolist() == time.tolist()
    assert stream.channels == ("c0", "c1", "c2")


@pytest.mark.parametrize("shape", ["{}", "{}Z", "{}+08:00"])
def test_iso_time_may_name_its_zone(pair, shape):
    rows = range(len(TEST))
    clock = (
        f"2020-01-01T{k // 100:02d}:{k % 100 // 60:02d}:{k % 60:02d}" for k in rows
    )
    stamps = [shape.format(stamp) for stamp in clock]
    stream = read_tables(*pair(columns(TRAIN), columns(TEST, t=stamps)), time="t")
    assert stream.step_s == 1.0
    assert 100 in stream.test_breaks


def test_train_rows_to_be_ignored_are_left_out(pair):
    y = np.where(np.arange(len(TRAIN)) < 9, -1, 0)
    paths = pair(columns(TRAIN, y=y), columns(TEST, y=LABELS))
    stream = read_tables(*paths, label="y")
    np.testing.assert_array_equal(values_of(stream.train), TRAIN[9:])


def test_without_a_label_every_row_is_normal(pair):
    stream = read_tables(*pair(columns(TRAIN), columns(TEST)))
    assert not stream.labels.any()
    assert "No labels were given" in stream.notices[0]


def test_fractions_that_turn_up_late_are_read(tmp_path):
    path = tmp_path / "t.csv"  # longer than the rows from which types are inferred
    path.write_text("c0\n" + "0\n" * 10_100 + "0.5\n")
    assert values_of(read_tables(path, path).train)[-1] == 0.5
