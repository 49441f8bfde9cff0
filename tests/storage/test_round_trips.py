"""What is written is what is read, and both formats give the same evaluation."""

import numpy as np
import pytest
from samples import assert_same_evaluation, bare_stream, full_stream, refused

from sightline import Attack, ResidualStream, evaluate, read_stream, write_stream
from sightline.storage.parquet import write_parquet_folder

PLACES = ["sample.npz", "sample"]
SERIES = "labels alarms score train_time test_time train_breaks test_breaks".split()
TABLES = "train test calibration telemetry_train telemetry_test".split()
FACTS = (
    "channels telemetry_channels segments space one_sided name detector testbed step_s "
    "meta notices"
).split()


def whole(rows):
    return None if rows is None else np.concatenate(list(rows.chunks()))


def assert_same_stream(one, other):
    for name in TABLES:
        expected, got = whole(getattr(one, name)), whole(getattr(other, name))
        np.testing.assert_array_equal(got, expected, name)
        if expected is not None:
            assert got.dtype == expected.dtype
    for name in SERIES:
        np.testing.assert_array_equal(getattr(other, name), getattr(one, name), name)
    for name in FACTS:
        assert getattr(other, name) == getattr(one, name), name


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [full_stream, bare_stream])
def test_everything_written_is_read_again(tmp_path, place, make):
    stream = make()
    write_stream(stream, tmp_path / place)
    assert_same_stream(stream, read_stream(tmp_path / place))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "field",
    "calibration alarms score train_time test_time segments space detector testbed "
    "step_s meta".split(),
)
def test_each_optional_field_may_be_missing_alone(tmp_path, place, field):
    stream = full_stream(**{field: () if field == "segments" else None})
    write_stream(stream, tmp_path / place)
    assert_same_stream(stream, read_stream(tmp_path / place))


@pytest.mark.parametrize("place", PLACES)
def test_sentences_about_the_input_survive(tmp_path, place):
    stream = full_stream(notices=["train: 3 cells were filled."])
    write_stream(stream, tmp_path / place)
    assert read_stream(tmp_path / place).notices == stream.notices
    assert "train: 3 cells were filled." in stream.notices


@pytest.mark.parametrize("place", PLACES)
def test_float32_stays_float32(tmp_path, place):
    stream = bare_stream()
    stream = stream.replace(
        train=whole(stream.train).astype(np.float32),
        test=whole(stream.test).astype(np.float32),
    )
    write_stream(stream, tmp_path / place)
    assert_same_stream(stream, read_stream(tmp_path / place))


@pytest.mark.parametrize("place", PLACES)
def test_breaks_from_time_stamps_survive(tmp_path, place):
    time = np.arange(50.0)
    time[30:] += 500
    stream = bare_stream(test_time=time)
    assert stream.test_breaks.tolist() == [0, 30]
    write_stream(stream, tmp_path / place)
    assert read_stream(tmp_path / place).test_breaks.tolist() == [0, 30]


@pytest.mark.parametrize("place", PLACES)
def test_odd_names_survive(tmp_path, place):
    odd = ["a.b", "a", "größe [m³]"]
    stream = bare_stream(
        channels=odd,
        detector="名前, \"x\"\n'y'",
        segments=[Attack(id="1+2/3", start=10, stop=15, targets=("ä,b",))],
    )
    write_stream(stream, tmp_path / place)
    assert_same_stream(stream, read_stream(tmp_path / place))


@pytest.mark.parametrize("place", PLACES)
def test_what_json_does_not_know_is_kept_as_text_or_numbers(tmp_path, place):
    meta = {"root": tmp_path, "seed": np.int64(4), "limits": np.array([1.5, 2.0])}
    write_stream(bare_stream(meta=meta), tmp_path / place)
    known = {"root": str(tmp_path), "seed": 4, "limits": [1.5, 2.0]}
    assert read_stream(tmp_path / place).meta == known


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "key", "detector step_s channels segments train_breaks meta".split()
)
def test_meta_may_use_the_keys_of_the_format(tmp_path, place, key):
    stream = full_stream(meta={key: {"mine": 1}, "seed": 2})
    write_stream(stream, tmp_path / place)
    assert_same_stream(stream, read_stream(tmp_path / place))


def test_all_formats_give_the_same_evaluation_to_the_last_bit(tmp_path):
    stream = full_stream()
    expected = evaluate(stream)
    write_stream(stream, tmp_path / "sample.npz")
    assert_same_evaluation(expected, evaluate(read_stream(tmp_path / "sample.npz")))
    write_parquet_folder(stream, tmp_path / "sample", part_rows=7)
    assert len(list((tmp_path / "sample" / "train").iterdir())) == 9
    assert_same_evaluation(expected, evaluate(read_stream(tmp_path / "sample")))


def test_a_stream_read_from_a_folder_can_be_written_over_it(tmp_path):
    place = tmp_path / "sample"
    write_parquet_folder(full_stream(), place, part_rows=9)
    changed = read_stream(place).replace(detector="other")
    write_stream(changed, place)
    assert_same_stream(full_stream(detector="other"), read_stream(place))


def test_no_part_of_an_earlier_longer_stream_remains(tmp_path):
    place = tmp_path / "sample"
    write_parquet_folder(full_stream(), place, part_rows=9)
    write_stream(bare_stream(), place)
    assert_same_stream(bare_stream(), read_stream(place))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sample"]
    assert sorted(path.name for path in place.iterdir()) == [
        "meta.json",
        "test",
        "train",
    ]


def test_a_folder_with_other_things_in_it_is_not_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    with refused("thesis", "chapter1.tex", "choose another path"):
        write_stream(bare_stream(), tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


@pytest.mark.parametrize("channel", ["label", "time", "alarms", "score"])
def test_a_channel_named_like_a_series_is_refused_in_parquet_only(tmp_path, channel):
    stream = full_stream(channels=["a", "b", channel])
    with refused(channel, "rename", ".npz"):
        write_stream(stream, tmp_path / "sample")
    assert not list(tmp_path.iterdir())
    write_stream(stream, tmp_path / "sample.npz")
    assert_same_stream(stream, read_stream(tmp_path / "sample.npz"))


def test_a_name_that_is_no_text_is_refused_in_parquet(tmp_path):
    with refused("sample", "cannot be written as Parquet"):
        write_stream(bare_stream(channels=["a", "b", "\ud800"]), tmp_path / "sample")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("swat.npz", "swat"),
        ("SWAT.NPZ", "SWAT"),
        ("swat.v2.npz", "swat.v2"),
        ("2026.11.15", "2026.11.15"),
        ("swat.parquet", "swat.parquet"),
    ],
)
def test_a_file_is_called_by_its_stem_and_a_folder_by_its_name(tmp_path, place, name):
    write_stream(bare_stream(), tmp_path / place)
    assert read_stream(tmp_path / place).name == name


def test_the_folder_one_stands_in_has_a_name_too(tmp_path, monkeypatch):
    write_stream(bare_stream(), tmp_path / "plant")
    monkeypatch.chdir(tmp_path / "plant")
    assert read_stream(".").name == "plant"
    monkeypatch.chdir(tmp_path / "plant" / "train")
    assert read_stream("..").name == "plant"


@pytest.mark.parametrize("one_sided", [None, True, False])
@pytest.mark.parametrize("name", ["stream.npz", "stream"])
def test_a_stream_keeps_whether_it_is_one_sided(tmp_path, name, one_sided):
    train, test = np.random.default_rng(0).random((2, 50, 1))
    stream = ResidualStream(train, test, np.zeros(50, int), one_sided=one_sided)
    write_stream(stream, tmp_path / name)
    assert read_stream(tmp_path / name).one_sided is one_sided
