"""Whatever happens while a file is written, it is whole or not there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from on_disk import assert_same_stream
from strategies import make_stream

from sightline import (
    FileError,
    evaluate,
    files,
    read_evaluation,
    read_stream,
    write_results,
    write_stream,
)
from sightline.files import staged_file, staged_folder
from sightline.storage import read_traces

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
    time.sleep(60)

def wait_in_the_middle(file, **arrays):
    handle = open(file, "wb") if not hasattr(file, "write") else file
    handle.write(b"PK half a file")
    handle.flush()
    wait()

stream = make_stream(n_train=80, n_test=60, p=2, attacks=[(20, 30)])
evaluation = evaluate(stream, intervals=False)
{patch}
{write}
"""
PATCHES = {
    "while writing": "np.savez = wait_in_the_middle",
    "before flushing": "os.fsync = wait",
    "before renaming": "os.replace = os.rename = wait",
}


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
        process.wait(timeout=30)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
def test_a_stream_whose_writer_is_killed_is_not_there(tmp_path, patch):
    path = tmp_path / "s.npz"
    kill_while(patch, f"write_stream(stream, {str(path)!r})")
    assert not path.exists()
    write_stream(SMALL, path)
    assert_same_stream(read_stream(path), SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")
@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
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
