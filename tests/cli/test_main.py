"""What no command can answer for ends in one sentence: memory, Ctrl-C, a full disk."""

import errno
import os
import subprocess
import sys

import pytest

import sightline.__main__ as command
from sightline.cli import app as commands


def raised(error: BaseException, context: BaseException | None = None):
    """Return a command line that raises an error while it handles another."""

    def fail():
        if context is None:
            raise error
        try:
            raise context
        except type(context):
            raise error  # noqa: B904

    return fail


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libx.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
    ],
)
@pytest.mark.parametrize("is_behind", [False, True])
def test_lack_of_memory_is_one_sentence(monkeypatch, capsys, error, is_behind):
    # llvmlite hides the reason behind an error of its own.
    made = raised(OSError("not found"), error) if is_behind else raised(error)
    monkeypatch.setattr(commands, "app", made)
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 1
    assert capsys.readouterr().err == f"{command._MEMORY}\n"


@pytest.mark.skipif(os.name != "posix", reason="ulimit is of POSIX")
def test_a_limit_on_memory_in_which_libraries_hang_is_one_sentence():
    run = f"ulimit -v 450000; exec {sys.executable} -m sightline --help"
    done = subprocess.run(
        ["sh", "-c", run], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert done.stderr == (
        "error: The limit on memory (ulimit -v) is 439 MB, and 1000 MB are the least "
        "that is needed: raise it.\n"
    )


def test_ctrl_c_during_the_import_ends_with_130(monkeypatch):
    monkeypatch.setattr(commands, "app", raised(KeyboardInterrupt()))
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 130


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(commands, "app", raised(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        command.main()
