"""The Parquet copies: same numbers, made once, and never trusted blindly."""

import gzip
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from testbed_files import (
    ATTACK_V0,
    NORMAL_V0,
    assert_same_recording,
    fixture,
    place,
    put,
    refused,
    write_hai,
)

import sightline
from sightline.progress import StepKind
from sightline.testbeds import copies as copies_module
from sightline.testbeds import csv_reader
from sightline.testbeds.copies import clear_copies, list_copies

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
    return sorted(path.name for path in (root / FOLDER).glob("*.parquet"))


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
    monkeypatch.setattr(copies_module, "READER_VERSION", 999)
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
    def full(table, path, **options):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    write_swat(tmp_path)
    without = opened("swat", tmp_path, cache=False)
    monkeypatch.setattr(pq, "write_table", full)
    read = opened("swat", tmp_path)
    assert_same(read, without)
    assert copies(tmp_path) == []
    assert not list((tmp_path / FOLDER).glob(".*.partial"))
    for words in (str(tmp_path / FOLDER), "No space left on device", "SIGHTLINE_CACHE"):
        assert words in read.copies


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
    monkeypatch.setattr(copies_module, "_GROUP_ROWS", 7)
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


# ---- what is said, and where copies lie ----------------------------------------------


def test_copies_are_announced_once_with_place_and_size(tmp_path):
    write_swat(tmp_path)
    steps = []
    first = opened("swat", tmp_path, progress=steps.append)
    assert [s.detail for s in steps if s.kind is StepKind.NOTICE] == [first.copies]
    n_bytes = sum(path.stat().st_size for path in (tmp_path / FOLDER).glob("*.parquet"))
    assert first.copies.startswith(
        f"Parquet copies of 2 files ({n_bytes / 1e3:.1f} kB) were written to "
        f"{tmp_path / FOLDER}, "
    )
    steps.clear()
    assert opened("swat", tmp_path, progress=steps.append).copies == ""
    assert StepKind.NOTICE not in [step.kind for step in steps]
    # What is said about copies is nothing about the data.
    assert not any(FOLDER in text for text in first.notices)


def test_git_ignores_copies_also_those_of_an_earlier_version(tmp_path):
    write_swat(tmp_path)
    opened("swat", tmp_path)
    ignore = tmp_path / FOLDER / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.unlink()
    opened("swat", tmp_path)
    assert ignore.read_text() == "*\n"


def test_copies_may_lie_elsewhere_in_a_folder_for_each_root(
    tmp_path, parses, monkeypatch
):
    one, other, elsewhere = (tmp_path / name for name in ("one", "other", "elsewhere"))
    write_swat(one)
    write_swat(other)
    monkeypatch.setenv("SIGHTLINE_CACHE", str(elsewhere))
    without = opened("swat", one, cache=False)
    assert_same(opened("swat", one), without)
    opened("swat", other)
    assert not (one / FOLDER).exists()
    assert len(list(elsewhere.iterdir())) == 2
    parses.clear()
    # The root's absolute path decides, not how it was given.
    monkeypatch.chdir(one)
    assert_same_recording(opened("swat", ".").train, without.train)
    assert parses == []
    assert {place.root for place in list_copies()} == {one, other}
    assert [place.root for place in list_copies([one])] == [one]
    assert len(list_copies([elsewhere])) == 2


@pytest.mark.parametrize("word", ["off", "OFF"])
def test_copies_are_turned_off_by_the_environment(tmp_path, monkeypatch, word):
    write_swat(tmp_path)
    monkeypatch.setenv("SIGHTLINE_CACHE", word)
    monkeypatch.chdir(tmp_path)
    assert opened("swat", tmp_path).copies == ""
    assert len(list(tmp_path.iterdir())) == 2


def test_a_place_that_is_no_folder_is_no_error_and_is_said(tmp_path, monkeypatch):
    write_swat(tmp_path)
    file = put(tmp_path / "file", "no folder")
    monkeypatch.setenv("SIGHTLINE_CACHE", str(file))
    read = opened("swat", tmp_path)
    assert_same(read, opened("swat", tmp_path, cache=False))
    assert str(file) in read.copies
    assert "SIGHTLINE_CACHE" in read.copies
    assert file.read_text() == "no folder"


def test_a_disk_that_fills_up_is_said_and_keeps_what_was_written(tmp_path, monkeypatch):
    original = pq.write_table

    def full_later(table, path, **options):
        if "Attack" in path.name:
            raise OSError(28, "No space left on device")
        original(table, path, **options)

    write_swat(tmp_path)
    monkeypatch.setattr(pq, "write_table", full_later)
    read = opened("swat", tmp_path)
    assert "not all copies could be written (No space left on device)" in read.copies
    assert len(copies(tmp_path)) == 1


def test_while_another_process_writes_nothing_is_written(tmp_path):
    write_swat(tmp_path)
    (tmp_path / FOLDER).mkdir()
    with FileLock(tmp_path / FOLDER / ".lock"):
        assert opened("swat", tmp_path).copies == ""
    assert copies(tmp_path) == []
    assert "2 files" in opened("swat", tmp_path).copies


# ---- listing and clearing ------------------------------------------------------------


def test_the_index_knows_copies_and_when_they_were_used(tmp_path):
    write_swat(tmp_path / "a")
    assert list_copies() == []
    opened("swat", tmp_path / "a")
    (place,) = list_copies()
    assert (place.folder, place.root) == (tmp_path / "a" / FOLDER, tmp_path / "a")
    assert place.n_files == 2
    assert place.n_bytes == sum(
        (place.folder / name).stat().st_size for name in copies(tmp_path / "a")
    )
    (entry,) = copies_module.index_folder().glob("*.json")
    for path in (entry, *place.folder.iterdir()):
        os.utime(path, (1e9, 1e9))
    assert list_copies()[0].last_used == 1e9
    opened("swat", tmp_path / "a")
    assert list_copies()[0].last_used > 1e9


def test_without_an_index_copies_are_found_by_the_root(tmp_path, monkeypatch):
    monkeypatch.setattr(
        copies_module, "index_folder", lambda: put(tmp_path / "file", "") / "index"
    )
    write_swat(tmp_path / "a")
    opened("swat", tmp_path / "a")
    assert list_copies() == []
    for path in (tmp_path / "a", tmp_path / "a" / FOLDER):
        assert [place.n_files for place in list_copies([path])] == [2]


def test_entries_of_lost_folders_and_damaged_entries_do_no_harm(tmp_path):
    write_swat(tmp_path / "a")
    opened("swat", tmp_path / "a")
    put(copies_module.index_folder() / "damaged.json", "[1")
    put(copies_module.index_folder() / "other.json", "[1]")
    assert len(list_copies()) == 1
    shutil.rmtree(tmp_path / "a" / FOLDER)
    assert list_copies() == []
    names = {path.name for path in copies_module.index_folder().glob("*.json")}
    assert names == {"damaged.json", "other.json"}


def test_clearing_removes_copies_and_the_empty_folder(tmp_path, parses):
    write_swat(tmp_path)
    first = opened("swat", tmp_path)
    before = {path.name for path in tmp_path.iterdir()} - {FOLDER}
    (listed,) = list_copies()
    put(tmp_path / FOLDER / f".x.csv.{'0' * 20}.1.parquet.partial", "half")
    (cleared,) = clear_copies([tmp_path])
    assert (cleared.n_files, cleared.others) == (2, ())
    assert cleared.n_bytes == listed.n_bytes + len("half")
    assert {path.name for path in tmp_path.iterdir()} == before
    assert list_copies() == []
    assert list(clear_copies()) == []
    assert_same(opened("swat", tmp_path), first)


FOREIGN = (
    "notes.txt",
    "mine.parquet",
    "SWaT.csv.0123.1.parquet",
    f"x.csv.{'g' * 20}.1.parquet",
    f"x.csv.{'0' * 20}.1.parquet.bak",
    "deep/x.csv",
)


@pytest.mark.parametrize("ignore", ["*\n", "mine\n"])
def test_clearing_leaves_what_is_no_copy(tmp_path, ignore):
    write_swat(tmp_path)
    opened("swat", tmp_path)
    for name in FOREIGN:
        put(tmp_path / FOLDER / name, name)
    put(tmp_path / FOLDER / ".gitignore", ignore)
    (cleared,) = clear_copies([tmp_path])
    assert cleared.n_files == 2
    expected = {name.partition("/")[0] for name in FOREIGN}
    assert set(cleared.others) - {".gitignore"} == expected
    for name in FOREIGN:
        assert (tmp_path / FOLDER / name).read_text() == name
    assert (tmp_path / FOLDER / ".gitignore").read_text() == ignore


def test_a_path_without_copies_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with refused(str(path), "no Parquet copies"):
            list_copies([path])
        with refused(str(path)):
            list(clear_copies([path]))
