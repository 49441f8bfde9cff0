"""Files that are whole or not there: written beside their place, then renamed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sightline.errors import FileError


@contextmanager
def staged_file(target: Path) -> Iterator[Path]:
    """Give a path to write to; put it in place of `target` once all went well."""
    partial = _beside(target, "partial")
    with _telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            _flush(partial)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def staged_folder(target: Path, *, whole: bool = False) -> Iterator[Path]:
    """Give a folder to fill; put its files into `target` once all went well.

    A new target appears whole, by one rename. Into an existing one the files move
    one by one, in alphabetical order but for ``evaluation.json``, which goes last:
    it is what readers look for. Other files of the target are left alone, unless
    the folder is to be replaced as a `whole`.
    """
    partial = _beside(target, "partial")
    with _telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        # What a killed run left behind.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            for path in _files_in(partial):
                _flush(path)
            if not target.exists():
                os.rename(partial, target)
            elif whole:
                _swap(partial, target)
            else:
                _move_into(target, partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def is_staged(path: Path) -> bool:
    """Tell whether a path is one that a killed run may have left behind."""
    return path.name.startswith(".") and path.suffix in (".partial", ".before")


def _swap(partial: Path, target: Path) -> None:
    before = _beside(target, "before")
    shutil.rmtree(before, ignore_errors=True)
    os.rename(target, before)
    try:
        os.rename(partial, target)
    except OSError:
        os.rename(before, target)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _move_into(target: Path, partial: Path) -> None:
    """Move all files, or leave the target as it was."""
    placed: list[tuple[Path, Path | None]] = []
    done = False
    try:
        for path in _files_in(partial):
            place = target / path.relative_to(partial)
            place.parent.mkdir(parents=True, exist_ok=True)
            before = _kept(place, path.with_name(f"{path.name}.before"))
            os.replace(path, place)
            placed.append((place, before))
        done = True
    finally:
        if not done:
            for place, before in placed:
                place.unlink() if before is None else os.replace(before, place)


def _kept(place: Path, before: Path) -> Path | None:
    """Keep the file of a place under a second name, if there is one."""
    if not place.exists():
        return None
    try:
        os.link(place, before)
    except OSError:  # a file system without links
        shutil.copy2(place, before)
    return before


def _files_in(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(files, key=lambda path: (path.name == "evaluation.json", path))


def _beside(target: Path, what: str) -> Path:
    return target.with_name(f".{target.name}.{what}")


@contextmanager
def _telling(target: Path) -> Iterator[None]:
    """Turn what the operating system says into one of our sentences."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{target}: cannot be written ({error.strerror or error}): check the "
            "path, its permissions and the space left."
        ) from error


def _flush(path: Path) -> None:
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())
