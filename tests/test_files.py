"""Whatever happens while a file is written, it is whole or not there."""

import gzip
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from on_disk import assert_same_stream
from strategies import make_stream

from sightline import (
    FileError,
    evaluate,
    files,
    read_evaluation,
    read_plan,
    read_rule,
    read_stream,
    read_tables,
    write_results,
    write_stream,
)
from sightline.blindspots.files import FoundSoFar
from sightline.files import LEAST_LIMIT, sole_writer, staged_file, staged_folder
from sightline.storage import read_traces
from sightline.tables.lists import list_rows
from sightline.tables.text_tables import check_workbook
from sightline.testbeds.own_plant.look import look_at

SMALL = make_stream(n_train=80, n_test=60, p=2, attacks=[(20, 30)])
OTHER = make_stream(1, n_train=70, n_test=50, p=3, attacks=[(20, 30)])

# Says that it is there, then waits to be killed.
WAIT = """
import os, sys, time
import numpy as np
sys.path.insert(0, {tests!r})
from strategies import make_stream
from sightline import evaluate, write_results, write_stream
from sightline import files

def wait(*args, **kwargs):
    print("here", flush=True)
    time.sleep(900)

def wait_in_the_middle(file, **arrays):
    handle = open(file, "wb") if not hasattr(file, "write") else file
    handle.write(b"PK half a file")
    handle.flush()
    wait()

stream = make_stream(n_train=80, n_test=60, p=2, attacks=[(20, 30)])
if "evaluation" in {write!r}:
    evaluation = evaluate(stream, intervals=False)
{patch}
{write}
"""
PATCHES = {
    "while writing": "np.savez = wait_in_the_middle",
    "before flushing": "os.fsync = wait",
    "before renaming": "os.replace = os.rename = wait",
}


def moments(sample):
    """Return the patches; each takes a process of its own, so all but one are slow."""
    return [
        pytest.param(patch, id=name, marks=[pytest.mark.slow] * (name != sample))
        for name, patch in PATCHES.items()
    ]


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def visible(folder):
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))


def kill_while(patch, write):
    """Run until the patched call is reached, then kill."""
    program = WAIT.format(tests=str(Path(__file__).parent), patch=patch, write=write)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=300)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
@pytest.mark.parametrize("patch", moments("while writing"))
def test_a_stream_whose_writer_is_killed_is_not_there(tmp_path, patch):
    path = tmp_path / "s.npz"
    kill_while(patch, f"write_stream(stream, {str(path)!r})")
    assert not path.exists()
    write_stream(SMALL, path)
    assert_same_stream(read_stream(path), SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
@pytest.mark.parametrize("patch", moments("before renaming"))
def test_results_whose_writer_is_killed_are_not_there(tmp_path, patch):
    kill_while(patch, f"write_results([evaluation], {str(tmp_path)!r})")
    assert visible(tmp_path) == []
    write_results([evaluate(SMALL, intervals=False)], tmp_path)
    assert visible(tmp_path) == ["stream", "summary.csv"]
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert read_evaluation(tmp_path / "stream").stream.n_test == 60


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
def test_old_results_survive_a_killed_writer(tmp_path):
    write_results([evaluate(OTHER, intervals=False)], tmp_path)
    before = contents(tmp_path)
    kill_while(
        PATCHES["before renaming"],
        f"write_results([evaluation], {str(tmp_path)!r}, overwrite=True)",
    )
    now = contents(tmp_path)
    assert {name: now.get(name) for name in before} == before
    write_results([evaluate(SMALL, intervals=False)], tmp_path, overwrite=True)
    assert read_evaluation(tmp_path / "stream").stream.n_test == 60
    assert visible(tmp_path) == ["stream", "summary.csv"]


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
def test_a_parquet_folder_whose_writer_is_killed_is_not_there(tmp_path):
    folder = tmp_path / "s"
    kill_while(PATCHES["before renaming"], f"write_stream(stream, {str(folder)!r})")
    assert not folder.exists()
    write_stream(SMALL, folder)
    assert_same_stream(read_stream(folder), SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


# Errors of the operating system


def failing(name, *, after=0):
    """Return a call that fails once `after` calls went well."""
    real, count = getattr(os, name), [0]

    def call(*args, **kwargs):
        count[0] += 1
        if count[0] == after + 1:
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    return call


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_full_disk_leaves_the_old_stream(tmp_path, monkeypatch, call):
    path = tmp_path / "s.npz"
    write_stream(OTHER, path)
    monkeypatch.setattr(os, call, failing(call))
    with pytest.raises(FileError) as caught:
        write_stream(SMALL, path)
    assert str(caught.value).startswith(f"{path}: cannot be written (No space left")
    assert "check the path" in str(caught.value)
    assert_same_stream(read_stream(path), OTHER)
    assert [p.name for p in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.parametrize("after", [0, 1])
def test_a_failing_rename_leaves_the_old_parquet_folder(tmp_path, monkeypatch, after):
    folder = tmp_path / "s"
    write_stream(OTHER, folder)
    monkeypatch.setattr(os, "rename", failing("rename", after=after))
    with pytest.raises(FileError, match="cannot be written"):
        write_stream(SMALL, folder)
    assert_same_stream(read_stream(folder), OTHER)
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_failing_move_leaves_old_results_as_they_were(tmp_path, monkeypatch, after):
    write_results([evaluate(OTHER, intervals=False)], tmp_path)
    before = contents(tmp_path)
    new = evaluate(SMALL, intervals=False)
    monkeypatch.setattr(os, "replace", failing("replace", after=after))
    with pytest.raises(FileError, match="cannot be written"):
        write_results([new], tmp_path, overwrite=True)
    assert contents(tmp_path) == before


def test_a_failing_second_stream_leaves_the_first_as_it_was(tmp_path, monkeypatch):
    old = [evaluate(OTHER.replace(name=name), intervals=False) for name in "ab"]
    new = [evaluate(SMALL.replace(name=name), intervals=False) for name in "ab"]
    write_results(old, tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr(os, "replace", failing("replace", after=4))
    with pytest.raises(FileError, match="cannot be written"):
        write_results(new, tmp_path, overwrite=True)
    assert contents(tmp_path) == before


def test_a_failing_rename_leaves_no_new_results(tmp_path, monkeypatch):
    new = evaluate(SMALL, intervals=False)
    monkeypatch.setattr(os, "rename", failing("rename"))
    with pytest.raises(FileError, match="cannot be written"):
        write_results([new], tmp_path / "out")
    assert contents(tmp_path) == {}


def test_a_failing_write_leaves_no_new_results(tmp_path, monkeypatch):
    new = evaluate(SMALL, intervals=False)
    monkeypatch.setattr(files.os, "fsync", failing("fsync", after=1))
    with pytest.raises(FileError, match="cannot be written"):
        write_results([new], tmp_path / "out")
    assert contents(tmp_path) == {}


def test_a_place_that_is_below_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileError, match="cannot be written"):
        write_stream(SMALL, tmp_path / "file" / "s.npz")
    assert (tmp_path / "file").read_text() == "mine"


# The two context managers


def fill(staged, name=""):
    with staged as partial:
        (partial / name).write_text("half")
        raise ZeroDivisionError


def test_a_bug_while_writing_a_file_is_no_file_error(tmp_path):
    with pytest.raises(ZeroDivisionError):
        fill(staged_file(tmp_path / "x"))
    assert contents(tmp_path) == {}


def test_a_bug_while_filling_a_folder_is_no_file_error(tmp_path):
    with pytest.raises(ZeroDivisionError):
        fill(staged_folder(tmp_path / "x"), "a")
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_appears_at_once(tmp_path):
    with staged_folder(tmp_path / "x") as partial:
        (partial / "a").write_text("1")
        assert not (tmp_path / "x").exists()
    assert contents(tmp_path) == {"x/a": b"1"}


def test_files_of_others_stay_in_a_folder_that_is_filled(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").write_text("kept")
    (tmp_path / "x" / "a").write_text("old")
    with staged_folder(tmp_path / "x") as partial:
        (partial / "a").write_text("new")
    assert contents(tmp_path) == {"x/a": b"new", "x/mine": b"kept"}


def test_files_of_others_go_from_a_folder_that_is_replaced(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "b").write_text("old")
    with staged_folder(tmp_path / "x", whole=True) as partial:
        (partial / "a").write_text("new")
    assert contents(tmp_path) == {"x/a": b"new"}


def test_what_a_killed_run_left_is_not_mixed_in(tmp_path):
    (tmp_path / ".x.partial").mkdir()
    (tmp_path / ".x.partial" / "stale").write_text("old")
    with staged_folder(tmp_path / "x") as partial:
        (partial / "a").write_text("new")
    assert contents(tmp_path) == {"x/a": b"new"}


def test_the_evaluation_takes_its_place_last(tmp_path, monkeypatch):
    write_results([evaluate(OTHER, intervals=False)], tmp_path)
    placed = []
    real = os.replace

    def noting(source, target):
        placed.append(Path(target).name)
        real(source, target)

    monkeypatch.setattr(os, "replace", noting)
    write_results([evaluate(SMALL, intervals=False)], tmp_path, overwrite=True)
    assert placed == ["segments.csv", "traces.npz", "evaluation.json", "summary.csv"]
    assert len(read_traces(tmp_path / "stream").labels) == 60


# Two writers, and what killed ones left


def in_another_process(write):
    """Run a write in a process of its own; return its exit code and what it said."""
    program = WAIT.format(tests=str(Path(__file__).parent), patch="", write=write)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", ["s.npz", "folder"])
def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path, name):
    path = tmp_path / name
    with sole_writer(path):
        code, said = in_another_process(f"write_stream(stream, {str(path)!r})")
        assert code == 1
        assert f"{path}: another run is writing there" in said
        write_stream(SMALL, path)
    assert_same_stream(read_stream(path), SMALL)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_what_killed_writers_left_is_swept_and_nothing_else(tmp_path):
    left = [".s.npz.0f3a9c41.partial", ".s.npz.partial"]
    others = [".t.npz.0f3a9c41.partial", ".s.npz.txt", "s.npz.partial"]
    for name in (*left, *others):
        (tmp_path / name).write_text("x")
    write_stream(SMALL, tmp_path / "s.npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*others, "s.npz"])


def test_a_folder_that_was_being_replaced_is_put_back(tmp_path):
    before = tmp_path / ".s.0f3a9c41.before"
    before.mkdir()
    (before / "old").write_text("x")
    with pytest.raises(ValueError, match="stop"), staged_folder(tmp_path / "s"):
        raise ValueError("stop")
    assert [p.name for p in tmp_path.rglob("*")] == ["s", "old"]


def test_folders_made_for_a_lock_alone_are_removed(tmp_path):
    with sole_writer(tmp_path / "a" / "b" / "c.json"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="pipes are of POSIX")
@pytest.mark.parametrize("read", [read_stream, read_evaluation, read_rule, read_plan])
def test_a_pipe_is_refused_at_once(tmp_path, read):
    path = tmp_path / "pipe.npz"
    os.mkfifo(path)
    with pytest.raises(FileError, match="is no ordinary file"):
        read(path)


def test_a_packed_file_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"time,a\n" + b"1,1\n" * 40_000_000, 9))
    with pytest.raises(FileError, match=r"unpacks to more than .* the limit for its"):
        read_tables(path, path)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="resolved without an error")
def test_a_link_to_itself_is_no_target(tmp_path):
    path = tmp_path / "loop.csv"
    path.symlink_to(path)
    with pytest.raises(FileError, match="cannot be written"), sole_writer(path):
        pass


# ---- workbooks -----------------------------------------------------------------------


@pytest.mark.parametrize("is_list", [False, True])
def test_a_pipe_for_a_workbook_is_refused_at_once(tmp_path, is_list):
    path = tmp_path / "a.xlsx"
    os.mkfifo(path)
    read = (lambda: list_rows(path, ["id"])) if is_list else (lambda: look_at(path))
    with pytest.raises(FileError, match="is no ordinary file"):
        read()


def test_a_workbook_that_unpacks_to_far_more_is_refused(tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"\0" * (LEAST_LIMIT + 1))
    with pytest.raises(FileError, match="unpacks to more than"):
        check_workbook(path)


def test_a_workbook_that_lies_about_its_size_is_refused(tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"\0" * 5000)
    size, small = (5000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, small))
    with pytest.raises(FileError, match="cannot be unpacked"):
        check_workbook(path)


@pytest.mark.skipif(os.name != "posix", reason="pipes with names are of POSIX")
@pytest.mark.parametrize(
    ("name", "write"),
    [
        (".a.lock", lambda folder: write_stream(SMALL, folder / "a")),
        ("a.npz", lambda folder: write_stream(SMALL, folder / "a.npz")),
        (
            ".a-found-so-far.jsonl",
            lambda folder: FoundSoFar(folder / "a", "key").add("LIT101", []),
        ),
    ],
)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path, name, write):
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileError, match="is no ordinary file"):
        write(tmp_path)
