"""The Parquet copies: same numbers, made once, and never trusted blindly."""

import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from testbed_files import (
    ATTACK_V0,
    NORMAL_V0,
    assert_same_recording,
    fixture,
    place,
    put,
    write_hai,
)

import sightline
from sightline.testbeds import csv_reader, open_release

FOLDER = ".sightline-cache"


def opened(name, root, **options):
    return sightline.open_testbed(name, root, strict=False, **options)


def assert_same(one, other):
    assert_same_recording(one.train, other.train)
    assert_same_recording(one.test, other.test)
    assert one.notices == other.notices
    assert one.digests == other.digests


def write_swat(folder):
    place(folder, NORMAL_V0)
    place(folder, ATTACK_V0)


def write_wadi(release):
    def write(folder):
        names = {
            "A1": ("wadi_A1_WADI_14days.csv", "wadi_A1_WADI_attackdata.csv"),
            "A2": ("wadi_A2_WADI_14days_new.csv", "wadi_A2_WADI_attackdataLABLE.csv"),
        }[release]
        for name in names:
            # A cell without a number in the second row, so that one is held.
            lines = fixture(name).split(b"\n")
            at = next(k for k, line in enumerate(lines) if line.startswith(b"1,"))
            cells = lines[at].split(b",")
            cells[5] = b"1.#QNAN"
            lines[at] = b",".join(cells)
            put(folder / name, b"\n".join(lines))

    return write


def write_release(release, **how):
    def write(folder):
        write_hai(folder, release, attacked={"test1": [(1, 3)]}, **how)

    return write


TESTBEDS = {
    "swat": write_swat,
    "wadi-A1": write_wadi("A1"),
    "wadi-A2": write_wadi("A2"),
    "hai-20.07": write_release("20.07", packed=True),
    "hai-21.03": write_release("21.03"),
    "hai-22.04": write_release("22.04"),
    "hai-23.05": write_release("23.05"),
}


@pytest.fixture
def parses(monkeypatch):
    """Return the paths of the files that were parsed, as they are."""
    paths = []
    original = csv_reader.read_cells

    def spy(file, *arguments, **options):
        paths.append(file.place)
        return original(file, *arguments, **options)

    monkeypatch.setattr(csv_reader, "read_cells", spy)
    return paths


def copies(root):
    return sorted(path.name for path in (root / FOLDER).iterdir())


@pytest.mark.parametrize("name", TESTBEDS)
def test_the_second_read_is_the_same_and_parses_nothing(tmp_path, parses, name):
    TESTBEDS[name](tmp_path)
    without = opened(name, tmp_path, cache=False)
    first = opened(name, tmp_path)
    parses.clear()
    second = opened(name, tmp_path)
    assert parses == []
    assert_same(first, without)
    assert_same(second, without)


def test_copies_lie_in_a_hidden_folder_beside_the_data(tmp_path):
    write_swat(tmp_path / "Physical")
    digests = opened("swat", tmp_path).digests
    assert len(copies(tmp_path)) == 2
    for path, digest in digests.items():
        assert any(
            name.startswith(path.replace("/", "__")) and digest[:20] in name
            for name in copies(tmp_path)
        )
    assert opened("swat", tmp_path).digests == digests


def test_no_copy_is_made_when_none_is_wanted(tmp_path, parses):
    write_swat(tmp_path)
    opened("swat", tmp_path, cache=False)
    assert not (tmp_path / FOLDER).exists()
    opened("swat", tmp_path)
    parses.clear()
    opened("swat", tmp_path, cache=False)
    assert len(parses) == 2


def test_a_change_is_noticed_by_content_and_not_by_size_or_date(tmp_path, parses):
    write_swat(tmp_path)
    path = tmp_path / "SWaT_Dataset_Normal_v0.csv"
    before = path.stat()
    opened("swat", tmp_path)
    content = path.read_bytes().replace(b",259.5,", b",259.7,")
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    parses.clear()
    read = opened("swat", tmp_path)
    assert parses == [path.name]
    assert read.train.values[1, 1] == 259.7


def test_copies_of_what_a_file_was_before_are_removed(tmp_path):
    write_swat(tmp_path)
    opened("swat", tmp_path)
    before = copies(tmp_path)
    path = tmp_path / "SWaT_Dataset_Normal_v0.csv"
    path.write_bytes(path.read_bytes().replace(b",259.5,", b",259.7,"))
    opened("swat", tmp_path)
    after = copies(tmp_path)
    assert len(before) == len(after) == 2
    assert len(set(before) & set(after)) == 1


def test_copies_of_an_older_reader_are_not_trusted(tmp_path, parses, monkeypatch):
    write_swat(tmp_path)
    opened("swat", tmp_path)
    parses.clear()
    monkeypatch.setattr(open_release, "READER_VERSION", 999)
    opened("swat", tmp_path)
    assert len(parses) == 2
    assert all(".999." in name for name in copies(tmp_path))


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def garbage(path):
    path.write_bytes(b"PAR1" + bytes(500) + b"PAR1")


def other_table(path):
    pq.write_table(pa.table({"x": [1.0]}), path)


def fewer_columns(path):
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(table.column_names[:1]), path)


def flipped_bit(path):
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(656.636).tobytes())] ^= 1
    path.write_bytes(content)


DAMAGES = [empty, cut, garbage, other_table, fewer_columns, flipped_bit]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_copy_is_made_anew(tmp_path, parses, damage):
    write_swat(tmp_path)
    first = opened("swat", tmp_path)
    path = next((tmp_path / FOLDER).glob("*Normal*"))
    whole = path.read_bytes()
    damage(path)
    parses.clear()
    assert_same(opened("swat", tmp_path), first)
    assert parses == ["SWaT_Dataset_Normal_v0.csv"]
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path):
    write_swat(tmp_path)
    without = opened("swat", tmp_path, cache=False)
    put(tmp_path / FOLDER, "a file where the folder should be")
    assert_same(opened("swat", tmp_path), without)
    assert (tmp_path / FOLDER).is_file()


def test_a_path_too_long_for_the_name_of_a_copy_is_no_error(tmp_path):
    place(tmp_path / ("x" * 150) / ("y" * 150), NORMAL_V0)
    place(tmp_path, ATTACK_V0)
    for _ in range(2):
        assert opened("swat", tmp_path).train.n_steps == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_no_error(tmp_path):
    write_swat(tmp_path)
    tmp_path.chmod(0o555)
    try:
        assert opened("swat", tmp_path).test.n_steps == 5
    finally:
        tmp_path.chmod(0o755)


def test_a_full_disk_is_no_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(parsed, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    write_swat(tmp_path)
    without = opened("swat", tmp_path, cache=False)
    monkeypatch.setattr(open_release, "_write_copy", full)
    assert_same(opened("swat", tmp_path), without)
    assert copies(tmp_path) == []


def test_a_file_that_cannot_be_read_leaves_no_copy(tmp_path):
    write_swat(tmp_path)
    path = tmp_path / "SWaT_Dataset_Attack_v0.csv"
    path.write_bytes(path.read_bytes().replace(b"A ttack", b"Attacked"))
    for _ in range(2):
        with pytest.raises(sightline.FileError, match="Attacked"):
            opened("swat", tmp_path)
    assert not any("Attack" in name for name in copies(tmp_path))


def test_copies_are_not_taken_for_data(tmp_path):
    write_swat(tmp_path)
    opened("swat", tmp_path)
    put(tmp_path / FOLDER / "SWaT_Dataset_Normal_v0.csv", fixture(NORMAL_V0))
    read = opened("swat", tmp_path)
    assert not any("also found" in text for text in read.notices)


def test_label_sources_share_a_copy(tmp_path, parses):
    write_swat(tmp_path)
    built_in = opened("swat", tmp_path)
    parses.clear()
    by_list = opened("swat", tmp_path, labels="list")
    assert parses == []
    assert built_in.test.labels.tolist() != by_list.test.labels.tolist()


def test_many_rows_survive_the_copy(tmp_path, parses, monkeypatch):
    monkeypatch.setattr(open_release, "_GROUP_ROWS", 7)
    write_hai(tmp_path, "21.03", n_rows=50, attacked={"test2": [(3, 40)]})
    first = opened("hai", tmp_path)
    parses.clear()
    assert_same(opened("hai", tmp_path), first)
    assert parses == []


def test_packed_and_plain_twins_do_not_share_a_copy(tmp_path):
    write_hai(tmp_path, "21.03")
    first = opened("hai", tmp_path)
    path = tmp_path / "train1.csv"
    put(tmp_path / "train1.csv.gz", gzip.compress(path.read_bytes()))
    path.unlink()
    packed = opened("hai", tmp_path)
    assert_same_recording(first.train, packed.train)
    assert "train1.csv.gz" in packed.digests
