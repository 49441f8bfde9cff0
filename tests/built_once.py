"""Folders that take long to fill are filled once for all test processes of a run."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def built_once(
    factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]
) -> Path:
    """Return the folder that `build` filled, here or in another process of this run.

    It is only to be read: a test that damages something takes a copy.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, is_built = root / name, root / f"{name}.built"
    with FileLock(root / f"{name}.lock"):
        if not is_built.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            is_built.touch()
    return folder
