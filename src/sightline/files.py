"""Files: `OSError` becomes `FileError`, and what is written is whole or absent."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sightline.errors import FileError


def reading(path: Path) -> AbstractContextManager[None]:
    """Turn what the operating system says while reading into one of our sentences."""
    return _telling(path, "read", "check the path and its permissions")


def writing(path: Path) -> AbstractContextManager[None]:
    """Turn what the operating system says while writing into one of our sentences."""
    advice = "check the path, its permissions and the space left"
    return _telling(path, "written", advice)


@contextmanager
def _telling(path: Path, done: str, advice: str) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{path}: cannot be {done} ({error.strerror or error}): {advice}."
        ) from error


def brief(error: BaseException) -> str:
    """Return the first line of what a library says, if need be cut."""
    return (str(error).splitlines() or [""])[0][:200]


@contextmanager
def staged_file(target: Path) -> Iterator[Path]:
    """Give a path to write to; put it in place of `target` once all went well."""
    if not target.name or target.is_dir():
        raise FileError(f"{target}: is a folder: name a file in it to write to.")
    # What a link leads to is replaced, not the link.
    target = target.resolve()
    if target.exists() and not target.is_file():
        raise FileError(f"{target}: is no ordinary file: name another to write to.")
    partial = _beside(target, "partial")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            _flush(partial)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def staged_folder(target: Path, *, whole: bool = False) -> Iterator[Path]:
    """Give a folder to fill; put what it holds into `target` once all went well.

    A new target appears whole, by one rename. Into an existing one files and new
    folders move one by one, or, if one cannot, none does; what else the target holds
    is left alone, unless it is to be replaced as a `whole`.
    """
    with writing(target):
        is_filled = target.is_dir() and not whole
        # Within a folder that exists, which may lie on a disk of its own.
        partial = target / ".partial" if is_filled else _beside(target, "partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        # What a killed run left behind.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            for path in partial.rglob("*"):
                if path.is_file():
                    _flush(path)
            if is_filled:
                _move_all(_moves(partial, target))
            elif target.exists():
                _swap(partial, target)
            else:
                os.rename(partial, target)
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


def _moves(source: Path, target: Path) -> list[tuple[Path, Path]]:
    """Return what is to be moved where: what readers look for after all else."""
    moves = []
    last = ("evaluation.json", "summary.csv")
    for path in sorted(source.iterdir(), key=lambda path: (path.name in last, path)):
        place = target / path.name
        if path.is_dir() and place.is_dir():
            moves += _moves(path, place)
        else:
            moves.append((path, place))
    return moves


def _move_all(moves: Sequence[tuple[Path, Path]]) -> None:
    """Move all, or leave everything as it was."""
    placed: list[tuple[Path, Path | None]] = []
    done = False
    try:
        for path, place in moves:
            before = _kept(place, path.with_name(f"{path.name}.before"))
            os.replace(path, place)
            placed.append((place, before))
        done = True
    finally:
        if not done:
            for place, before in placed:
                _undo(place, before)


def _undo(place: Path, before: Path | None) -> None:
    if before is not None:
        os.replace(before, place)
    elif place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()


def _kept(place: Path, before: Path) -> Path | None:
    """Keep the file of a place under a second name, if there is one."""
    if not place.exists():
        return None
    try:
        os.link(place, before)
    except OSError:  # a file system without links
        shutil.copy2(place, before)
    return before


def _beside(target: Path, what: str) -> Path:
    return target.with_name(f".{target.name}.{what}")


def _flush(path: Path) -> None:
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())
