"""Files: `OSError` becomes `FileError`, and what is written is complete or absent."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sightline.errors import FileError, SightlineError


def reading(path: Path) -> AbstractContextManager[None]:
    """Turn an `OSError` raised inside into a `FileError` about reading `path`.

    Examples
    --------
    >>> with reading(Path("missing.csv")):
    ...     open("missing.csv")
    Traceback (most recent call last):
    ...
    sightline.errors.FileError: missing.csv: cannot be read (No such file or directory):
    check the path and its permissions.
    """
    return _as_file_error(path, "read", "check the path and its permissions")


def writing(path: Path) -> AbstractContextManager[None]:
    """Turn an `OSError` raised inside into a `FileError` about writing `path`."""
    advice = "check the path, its permissions and the space left"
    return _as_file_error(path, "written", advice)


@contextmanager
def _as_file_error(path: Path, done: str, advice: str) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{path}: cannot be {done} ({error.strerror or error}): {advice}."
        ) from error


@contextmanager
def damage(
    what: str, *kinds: type[Exception], advice: str = "write it again"
) -> Iterator[None]:
    """Turn errors of a library raised inside into a `FileError`.

    Parameters
    ----------
    what : str
        The beginning of the message: the path, and what is wrong with it.
    *kinds : type
        The errors that the library raises for a damaged file.
    advice : str
        What to do.

    Examples
    --------
    >>> with damage("a.json: is not JSON", ValueError):
    ...     int("x")
    Traceback (most recent call last):
    ...
    sightline.errors.FileError: a.json: is not JSON (invalid literal for int() with
    base 10: 'x'): write it again.
    """
    try:
        yield
    except SightlineError:
        raise
    except kinds as error:
        raise FileError(f"{what} ({brief(error)}): {advice}.") from error


def brief(error: BaseException) -> str:
    """Return the first line of a library's message, at most 200 characters of it."""
    return (str(error).splitlines() or [""])[0][:200]


@contextmanager
def staged_file(target: Path) -> Iterator[Path]:
    """Write a file completely or not at all.

    Parameters
    ----------
    target : Path
        The file to write; its folder is created. A link is followed.

    Yields
    ------
    Path
        A path to write to. It replaces `target` when the block ends without an error.

    Raises
    ------
    FileError
        If `target` is no ordinary file, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with staged_file(Path(folder, "a.txt")) as partial:
    ...         _ = partial.write_text("complete")
    ...     Path(folder, "a.txt").read_text()
    'complete'
    """
    if not target.name or target.is_dir():
        raise FileError(f"{target}: is a folder: name a file in it to write to.")
    # The file is replaced, not a link to it.
    target = target.resolve()
    if target.exists() and not target.is_file():
        raise FileError(f"{target}: is no ordinary file: name another to write to.")
    partial = _hidden(target, "partial")
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
    """Write a folder completely or not at all.

    A new target appears by one rename. Into an existing one, files and new folders
    move one by one; if one of them cannot move, all are moved back.

    Parameters
    ----------
    target : Path
        The folder to write; folders above it are created.
    whole : bool
        Whether to replace an existing folder. Otherwise its other files stay.

    Yields
    ------
    Path
        An empty folder to fill. Its contents move to `target` when the block ends
        without an error.
    """
    with writing(target):
        is_filled = target.is_dir() and not whole
        # Inside an existing folder, because that may be on another disk.
        partial = target / ".partial" if is_filled else _hidden(target, "partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        # A killed run may have left one.
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
    """Return whether a path is a temporary one that a killed run may have left."""
    return path.name.startswith(".") and path.suffix in (".partial", ".before")


def _swap(partial: Path, target: Path) -> None:
    """Put a folder in place of an existing one; if that fails, restore it."""
    before = _hidden(target, "before")
    shutil.rmtree(before, ignore_errors=True)
    os.rename(target, before)
    try:
        os.rename(partial, target)
    except OSError:
        os.rename(before, target)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _moves(source: Path, target: Path) -> list[tuple[Path, Path]]:
    """Return pairs of (file, destination); files that readers wait for come last."""
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
    """Move all files, or none if one cannot be moved."""
    placed: list[tuple[Path, Path | None]] = []
    is_done = False
    try:
        for path, place in moves:
            before = _saved(place, path.with_name(f"{path.name}.before"))
            os.replace(path, place)
            placed.append((place, before))
        is_done = True
    finally:
        if not is_done:
            for place, before in placed:
                if before is not None:
                    os.replace(before, place)
                elif place.is_dir():
                    shutil.rmtree(place)
                else:
                    place.unlink()


def _saved(place: Path, before: Path) -> Path | None:
    """Save an existing file under a second name; return it, or None if none exists."""
    if not place.exists():
        return None
    try:
        os.link(place, before)
    except OSError:  # a file system without links
        shutil.copy2(place, before)
    return before


def _hidden(target: Path, what: str) -> Path:
    """Return a hidden path in the folder of `target`."""
    return target.with_name(f".{target.name}.{what}")


def _flush(path: Path) -> None:
    """Wait until a file is on the disk."""
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())
