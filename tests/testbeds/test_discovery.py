"""Files below a folder, and what one is told when they are not there."""

import sys

import pytest
from testbed_files import (
    ATTACK_V0,
    NORMAL_V0,
    fixture,
    place,
    put,
    refused,
    write_hai,
)

import sightline
from sightline.errors import SightlineError, StreamError
from sightline.progress import Step, StepKind
from sightline.testbeds import READERS, found_releases
from sightline.testbeds.csv_reader import (
    SourceFile,
    clean_name,
    find_files,
    find_header,
    first_row,
)

NAMES = tuple(READERS)
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


def opened(name, root, **options):
    options = {"strict": False, "cache": False} | options
    return sightline.open_testbed(name, root, **options)


def swat(folder):
    place(folder, NORMAL_V0)
    place(folder, ATTACK_V0)
    return folder


# ---- which files are looked at -----------------------------------------------------


def test_tables_are_found_at_any_depth_the_nearest_first_and_excel_last(tmp_path):
    names = ["b.csv", "a/c.csv", "a/b/d.CSV", "e.csv.gz", "f.xlsx", "a/g.XLSX"]
    for name in names:
        put(tmp_path / name, "x")
    found = [file.place for file in find_files(tmp_path)]
    assert found == ["b.csv", "e.csv.gz", "a/c.csv", "a/b/d.CSV", "f.xlsx", "a/g.XLSX"]


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.csv",
        ".git/a.csv",
        ".sightline-cache/a.csv",
        "a/.ipynb_checkpoints/b.csv",
        "~$open.xlsx",
        "readme.txt",
        "a.gz",
        "a.csv.zip",
        "a.xls",
    ],
)
def test_what_is_hidden_or_no_table_is_left_alone(tmp_path, name):
    put(tmp_path / name, "x")
    assert find_files(tmp_path) == []


def test_a_folder_called_like_a_table_is_no_table(tmp_path):
    (tmp_path / "a.csv").mkdir()
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere.csv")
    assert find_files(tmp_path) == []


def test_a_hidden_root_is_looked_into(tmp_path):
    put(tmp_path / ".data" / "a.csv", "x")
    assert [file.place for file in find_files(tmp_path / ".data")] == ["a.csv"]


def test_a_root_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    swat(tmp_path / "data")
    assert opened("swat", "~/data").test.n_steps == 5


ODD = {
    "empty": b"",
    "lines": b"\n\n\n",
    "zeros": b"\x00\x01\x02" * 100,
    "not-utf8": b"\xff\xfe\x00" * 50,
    "quotes": b'"' * 99,
    "long": b"a" * 99_999,
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_any_bytes_may_lie_beside(tmp_path, content, suffix):
    swat(tmp_path)
    put(tmp_path / f"other{suffix}", content)
    assert opened("swat", tmp_path).test.n_steps == 5
    files = find_files(tmp_path)
    for name, reader in READERS.items():
        assert found_releases(reader, files) == (["v0"] if name == "swat" else [])


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        (" MV101", "MV101"),
        ("Row ", "Row"),
        ("\\\\WIN-25J4RO10SBF\\LOG_DATA\\SUTD_WADI\\LOG_DATA\\2_P_003", "2_P_003"),
        ("Volume Flow RateRMS", "Volume Flow RateRMS"),
        ("", ""),
    ],
)
def test_names_lose_blanks_and_the_path_of_the_historian(cell, name):
    assert clean_name(cell) == name


def test_a_header_is_found_within_the_first_lines(tmp_path):
    path = put(tmp_path / "a.csv", 'one\ntwo\n\n a ;"b;c"; d \n1,5;x;\n')
    file = SourceFile(path, tmp_path)
    layout = find_header(file, lambda names: "d" in names)
    assert layout.columns == ("a", "b;c", "d")
    assert (layout.header_line, layout.separator) == (3, ";")
    assert layout.decimal_comma
    assert first_row(file, layout) == {"a": "1,5", "b;c": "x", "d": ""}
    assert find_header(file, lambda names: "e" in names) is None


# ---- what one is told --------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_is_not_there_is_told(tmp_path, name):
    with refused(str(tmp_path / "nowhere"), "no such folder", "--root"):
        opened(name, tmp_path / "nowhere")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_for_a_folder_is_told(tmp_path, name):
    path = put(tmp_path / "data.csv", "x")
    with refused(str(path), "no such folder", "--root"):
        opened(name, path)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_without_files_is_told(tmp_path, name):
    card = READERS[name].card
    with refused(str(tmp_path), card.title, "found 0 CSV", card.where.rstrip(".")):
        opened(name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_with_other_files_is_told(tmp_path, name):
    put(tmp_path / "other.csv", "a,b\n1,2\n")
    with refused(str(tmp_path), "no file that is", "found 1 CSV"):
        opened(name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_pointer_of_git_lfs_is_told(tmp_path, name):
    put(tmp_path / "data.csv", POINTER)
    with refused(str(tmp_path), "data.csv", "Git LFS pointer", "git lfs pull"):
        opened(name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_release_nobody_knows_is_refused(tmp_path, name):
    releases = READERS[name].card.releases
    with refused("'v9'", *releases):
        opened(name, tmp_path, release="v9")
    with refused("'v9'", *releases):
        opened(f"{name}-v9", tmp_path)


def test_a_testbed_nobody_knows_is_refused(tmp_path):
    with refused(
        "'swot'", "swat, wadi, hai, batadal, skab, waterworks, tep and network"
    ):
        opened("swot", tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_one_must_say_where_the_files_are(name):
    with refused(READERS[name].card.title, "--root", "root"):
        opened(name, None)


def test_the_simulated_plant_has_no_files_to_inspect(tmp_path):
    with refused("waterworks", "sightline simulate waterworks"):
        sightline.inspect_testbed("waterworks", tmp_path)


def test_a_label_source_nobody_knows_is_refused(tmp_path):
    with refused("labels", "built-in, list, adjusted", "'sheet'", kind=StreamError):
        opened("swat", swat(tmp_path), labels="sheet")


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("gdn", ("'gdn'", "hai", "swat and wadi only", "'raw'")),
        ("tranad", ("'tranad'", "hai", "wadi only")),
        ("mine", ("'mine'", "raw, gdn, nsibf, tranad, geco")),
    ],
)
def test_a_preset_that_says_nothing_about_a_testbed_is_refused(tmp_path, preset, words):
    write_hai(tmp_path, "21.03")
    with refused("preset", *words, kind=StreamError):
        opened("hai", tmp_path, preset=preset)


def test_an_option_nobody_knows_is_refused(tmp_path):
    with refused("'seeds'", "swat", kind=StreamError):
        opened("swat", swat(tmp_path), seeds=3)


def test_without_the_excel_library_one_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    path = put(tmp_path / "SWaT_Dataset_Normal_v0.xlsx", b"x")
    with refused(str(path), "fastexcel", "excel", kind=SightlineError):
        opened("swat", tmp_path)


def test_progress_is_told_for_each_file(tmp_path):
    told = []
    opened("swat", swat(tmp_path), progress=told.append)
    assert told == [
        Step(StepKind.READING, 0, 2, "Normal_v0"),
        Step(StepKind.READING, 1, 2, "Attack_v0"),
    ]


def test_a_name_may_be_written_in_capitals(tmp_path):
    assert opened("SWaT", swat(tmp_path)).name == "swat"


def test_every_release_that_is_whole_is_found(tmp_path):
    swat(tmp_path / "swat")
    for release in ("20.07", "23.05"):
        write_hai(tmp_path / release, release)
    put(tmp_path / "SWaT_Dataset_Normal_v1.csv", v1())
    files = find_files(tmp_path)
    found = {name: found_releases(reader, files) for name, reader in READERS.items()}
    assert found == {
        "swat": ["v0", "v1"],
        "wadi": [],
        "hai": ["23.05", "20.07"],
        "batadal": [],
        "skab": [],
    }


def v1():
    return fixture(NORMAL_V0).replace(b" 4:00:0", b" 4:30:0")
