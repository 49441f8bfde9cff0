"""Files: `OSError` becomes `FileError`, and what is written is complete or absent.

A target has one writer at a time. `sole_writer` holds its lock, a hidden file
``.NAME.lock`` that is removed at the end; a second writer is refused with a sentence.
What is written lies under a hidden name of this writer alone until it is complete. A
writer that was killed leaves such a name behind; the next writer of the same target,
which holds the lock, removes it.
"""

import gzip
import json
import os
import re
import shutil
import stat
import threading
import tomllib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sightline.errors import FileError, SightlineError
from sightline.text import legible, size

if TYPE_CHECKING:
    from filelock import BaseFileLock

# Bytes that are read of a file that is read as a whole, and unpacked of a packed one.
MOST_DOCUMENT = 1 << 28
MOST_RATIO, LEAST_LIMIT, MOST_UNPACKED = 100, 1 << 27, 8 << 30
_ELSEWHERE = "remove it, or name another to write to"
_PARTIAL, _BEFORE, _LOCK = ".partial", ".before", ".lock"
# Stands for the name of a target in the hidden names that lie within it.
_WITHIN = "_"
# The paths of the locks that this thread holds; see `sole_writer`.
_HELD = threading.local()
# Deeper JSON than this could be read, but not written again.
_MOST_NESTED = 50


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an `OSError` raised inside into a `FileError` about reading `path`.

    A pipe, a socket or a device is refused at once: reading it might never end.

    Examples
    --------
    >>> with reading(Path("missing.csv")):
    ...     open("missing.csv")
    Traceback (most recent call last):
    ...
    sightline.errors.FileError: missing.csv: cannot be read (No such file or directory):
    check the path and its permissions.
    """
    check_ordinary(path)
    with _as_file_error(path, "read", "check the path and its permissions"):
        yield


def check_ordinary(path: Path, advice: str = "copy its content to a file") -> None:
    """Raise `FileError` if a path is neither a file nor a folder, but exists."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # what reads it says what is wrong
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise FileError(f"{path}: is no ordinary file: {advice}.")


def read_document(path: Path) -> bytes:
    """Return the content of a short file that is read as a whole: JSON, TOML, a list.

    Raises
    ------
    FileError
        If it cannot be read, or has more than `MOST_DOCUMENT` bytes.
    """
    with reading(path), path.open("rb") as file:
        content = file.read(MOST_DOCUMENT + 1)
    if len(content) > MOST_DOCUMENT:
        raise FileError(
            f"{path}: has more than {size(MOST_DOCUMENT)}, the limit for a file of its "
            "kind: check that it is the right file."
        )
    return content


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; ValueError if it is not JSON or too deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    # Lists and objects inside one another, level by level.
    level = [value]
    for _ in range(_MOST_NESTED):
        of_objects = (item.values() for item in level if isinstance(item, dict))
        of_lists = (item for item in level if isinstance(item, list))
        level = [*chain.from_iterable(of_objects), *chain.from_iterable(of_lists)]
    if level:
        raise ValueError(f"it is nested more than {_MOST_NESTED} levels deep")
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises
    ------
    FileError
        If it cannot be read, or is not TOML.
    """
    kinds = (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError)
    content = read_document(path)
    with damage(f"{path}: is not valid TOML", *kinds, advice="correct that line"):
        return tomllib.loads(content.decode("utf-8-sig"))


def unpacked(path: Path) -> bytes:
    """Return the content of a gzip file; no more is unpacked than `unpacked_limit`.

    Raises
    ------
    FileError
        If it is damaged, cut short, or unpacks to more than the limit.
    """
    parts, length = [], 0
    kinds = (EOFError, zlib.error, gzip.BadGzipFile)
    advice = "it may be damaged or cut short; copy it again from its source"
    with (
        reading(path),
        damage(f"{path}: cannot be unpacked", *kinds, advice=advice),
        gzip.open(path) as file,
    ):
        while part := file.read(1 << 20):
            length += len(part)
            check_unpacked(path, length)
            parts.append(part)
    return b"".join(parts)


def check_unpacked(path: Path, length: int) -> None:
    """Raise `FileError` if a packed file has unpacked to more than may be in it.

    The limit is `MOST_RATIO` times its size on disk, but at least `LEAST_LIMIT` and at
    most `MOST_UNPACKED`. Tables of measurements shrink some 5 to 50 times.
    """
    packed = path.stat().st_size
    limit = min(max(MOST_RATIO * packed, LEAST_LIMIT), MOST_UNPACKED)
    if length > limit:
        raise FileError(
            f"{path}: unpacks to more than {size(limit)}, the limit for its "
            f"{size(packed)}: unpack it yourself, look at it, and write it as Parquet."
        )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` raised inside into a `FileError` about writing `path`.

    A pipe, a socket or a device is refused at once: writing to it might never end.
    """
    check_ordinary(path, _ELSEWHERE)
    advice = "check the path, its permissions and the space left"
    with _as_file_error(path, "written", advice):
        yield


@contextmanager
def _as_file_error(path: Path, done: str, advice: str) -> Iterator[None]:
    try:
        yield
    except SightlineError:
        raise
    except OSError as error:
        raise FileError(
            f"{path}: cannot be {done} ({error.strerror or error}): {advice}."
        ) from error
    except Exception as error:
        # polars has errors of its own for what the operating system refuses.
        found = re.search(r"\(os error (\d+)\)", str(error))
        if found is None:
            raise
        reason = os.strerror(int(found[1]))
        raise FileError(f"{path}: cannot be {done} ({reason}): {advice}.") from error


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
    try:
        text = str(error)
    except Exception:  # an error of user code may have no text
        text = type(error).__name__
    return legible((text[:10_000].splitlines() or [""])[0])[:200]


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
    target = _resolved(target)
    if target.exists() and not target.is_file():
        raise FileError(f"{target}: is no ordinary file: name another to write to.")
    with writing(target), sole_writer(target):
        partial = _hidden(target, _PARTIAL)
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
    with writing(target), sole_writer(target):
        is_filled = target.is_dir() and not whole
        # Inside an existing folder, because that may be on another disk.
        partial = _hidden(target / _WITHIN if is_filled else target, _PARTIAL)
        partial.mkdir()
        try:
            yield partial
            for path in partial.rglob("*"):
                if path.is_file():
                    _flush(path)
            if is_filled:
                _move_all(_moves(partial, target))
            elif target.exists():
                # In place of the existing one, which is restored if that fails.
                before = _hidden(target, _BEFORE)
                os.rename(target, before)
                try:
                    os.rename(partial, target)
                except OSError:
                    os.rename(before, target)
                    raise
                shutil.rmtree(before, ignore_errors=True)
            else:
                os.rename(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def sole_writer(target: Path) -> Iterator[None]:
    """Hold the lock of a file or folder that is to be written.

    A command holds it from its first check of the target to its last write; the
    functions of this module, called within, do not take it a second time. What a killed
    writer of the same target left is removed first. On a file system without locks
    nothing is held and nothing is removed.

    Parameters
    ----------
    target : Path
        The file or folder. Folders above it are created; they are removed again if
        they are empty at the end.

    Raises
    ------
    FileError
        If another process, or another thread, is writing there.

    Examples
    --------
    >>> import tempfile, threading
    >>> def second():
    ...     try:
    ...         with sole_writer(target):
    ...             pass
    ...     except FileError as error:
    ...         print(str(error).replace(str(target), "out"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "out")
    ...     with sole_writer(target):
    ...         other = threading.Thread(target=second)
    ...         other.start(), other.join()
    out: another run is writing there: wait until it has ended, or name another place.
    (None, None)
    """
    target = _resolved(target)
    # The lock lies beside the target; in it, if it is a folder below one where nothing
    # can be written, such as a disk.
    is_bound = target.is_dir() and not os.access(target.parent, os.W_OK)
    if is_bound or not target.name:
        path = target / _LOCK
    else:
        path = target.with_name(f".{target.name}{_LOCK}")
    held: set[Path] = _HELD.__dict__.setdefault("paths", set())
    # What is not complete yet has one writer, which holds the lock of its target.
    is_within = any(is_staged(Path(part)) for part in target.parts)
    if path in held or is_within:
        yield
        return
    with writing(target):
        above = (path.parent, *path.parent.parents)
        created = [folder for folder in above if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _acquired(path, target)
    try:
        held.add(path)
        if lock is not None:
            with writing(target):
                _sweep(target)
        yield
    finally:
        held.discard(path)
        if lock is not None:
            # Before the release: afterwards it may be the lock of the next writer.
            with suppress(OSError):
                path.unlink()
            lock.release()
        for folder in created:
            with suppress(OSError):
                folder.rmdir()


def _resolved(target: Path) -> Path:
    """Return where a path leads; `FileError` if its links lead in a circle."""
    try:
        return target.resolve()
    except (OSError, RuntimeError) as error:  # the latter before Python 3.13
        raise FileError(
            f"{target}: cannot be written ({brief(error)}): name another place."
        ) from error


def _acquired(path: Path, target: Path) -> "BaseFileLock | None":
    """Return the lock at a path, which is held; None where files cannot be locked."""
    from filelock import FileLock, Timeout

    check_ordinary(path, _ELSEWHERE)
    while True:
        with open(path, "ab") as opened:
            lock = FileLock(path, timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise FileError(
                    f"{target}: another run is writing there: wait until it has ended, "
                    "or name another place."
                ) from None
            except NotImplementedError:
                path.unlink(missing_ok=True)
                return None
            # The last writer removes the file: is it still the one that was locked?
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(opened.fileno()), path.stat()):
                    return lock
        lock.release()


def _sweep(target: Path) -> None:
    """Remove what killed writers left; put back a folder that was being replaced."""
    places = [(target.parent, target.name)]
    if target.is_dir():
        places.append((target, _WITHIN))
    for folder, name in places:
        for path in list(folder.iterdir()):
            if not is_staged(path) or _target_name(path) != name:
                continue
            if path.suffix == _BEFORE and not target.exists():
                os.rename(path, target)
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def is_staged(path: Path) -> bool:
    """Return whether a path is a temporary one that a killed run may have left.

    Examples
    --------
    >>> is_staged(Path(".a.csv.0f3a9c41.partial")), is_staged(Path("a.csv"))
    (True, False)
    """
    return path.name.startswith(".") and path.suffix in (_PARTIAL, _BEFORE)


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
            before = None
            if place.exists():
                before = path.with_name(f"{path.name}.before")
                try:
                    os.link(place, before)
                except OSError:  # a file system without links
                    shutil.copy2(place, before)
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


def _hidden(target: Path, suffix: str) -> Path:
    """Return a hidden path in the folder of `target` that no other writer uses."""
    return target.with_name(f".{target.name}.{uuid4().hex[:8]}{suffix}")


def _target_name(hidden: Path) -> str:
    """Return the name of the target of a hidden path; earlier versions had no digits.

    Examples
    --------
    >>> _target_name(Path(".a.csv.0f3a9c41.partial")), _target_name(Path(".a.partial"))
    ('a.csv', 'a')
    """
    name = hidden.stem.removeprefix(".")
    head, _, digits = name.rpartition(".")
    is_ours = len(digits) == 8 and set(digits) <= set("0123456789abcdef")
    return head if head and is_ours else name


def _flush(path: Path) -> None:
    """Wait until a file is on the disk."""
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())
