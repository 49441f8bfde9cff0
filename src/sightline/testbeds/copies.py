"""Parquet copies of parsed files, which are read many times faster than the files.

Copies lie in a hidden folder below the data, so that deleting the data deletes them
too, or below the folder that the environment variable `VARIABLE` names. A copy is named
after the SHA-256 of its source: a file that changed has no copy and is parsed again.

An index in the user's cache directory, one small file for each folder of copies, says
where copies were written and when they were last used.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sightline.errors import FileError
from sightline.files import brief, reading, staged_file, writing
from sightline.testbeds.csv_reader import ParsedFile, SourceFile
from sightline.text import plural, size

# Where copies lie: a path, or `OFF`; not set, in `CACHE_FOLDER` below the data.
VARIABLE = "SIGHTLINE_CACHE"
OFF = "off"
CACHE_FOLDER = ".sightline-cache"
# Raise it whenever a reader makes other numbers of the same bytes.
READER_VERSION = 1
_GROUP_ROWS = 65_536
_COPY = re.compile(r".+\.[0-9a-f]{20}\.\d+\.parquet")
# Files beside the copies: kept out of git; one writer at a time; a killed writer's.
_GITIGNORE, _LOCK = ".gitignore", ".lock"
_IGNORE_ALL = "*\n"
_OURS = re.compile(
    rf"{_COPY.pattern}|\.{_COPY.pattern}(\.[0-9a-f]{{8}})?\.partial|"
    rf"(\.{_COPY.pattern})?\{_LOCK}"
)
_DIGEST = re.compile(r"[0-9a-f]{16}")


def copies_folder(root: Path) -> Path | None:
    """Return the folder for the copies of the files below a root; None if turned off.

    Below the folder that `VARIABLE` names, each root has a folder of its own, named
    after the SHA-256 of the root's absolute path.
    """
    setting = os.environ.get(VARIABLE, "").strip()
    if setting.lower() == OFF:
        return None
    if not setting:
        return root / CACHE_FOLDER
    return Path(setting).expanduser().absolute() / _digest(root.resolve())


class Copies:
    """The copies of the files below one folder, while its files are read.

    Parameters
    ----------
    root : Path
        The folder with the files.
    use_cache : bool
        If False, files are parsed, and copies are neither read nor written. So it is
        without pyarrow, too (the extra ``parquet``).
    """

    def __init__(self, root: Path, *, use_cache: bool) -> None:
        self._root = root
        can_copy = use_cache and find_spec("pyarrow") is not None
        self._folder = copies_folder(root) if can_copy else None
        self._sizes: list[int] = []
        self._is_used = False
        self._problem = ""

    def parsed(self, file: SourceFile, parse: Callable[[], ParsedFile]) -> ParsedFile:
        """Return the content of a file: from its copy, else parsed and copied.

        Parameters
        ----------
        file : SourceFile
            A file below the root.
        parse : callable
            Called without arguments if there is no intact copy.

        Returns
        -------
        ParsedFile
            The same arrays, bit for bit, whether parsed or read from the copy. Copies
            of older contents of the file are deleted. If the copy cannot be written,
            `finish` says why.
        """
        if self._folder is None:
            return parse()
        # File systems limit the length of a name.
        stem = file.place.replace("/", "__")[-100:]
        name = f"{stem}.{file.sha256[:20]}.{READER_VERSION}.parquet"
        copy = self._folder / name
        is_damaged = copy.is_file()
        copied = _read_copy(copy) if is_damaged else None
        if copied is not None:
            self._is_used = True
            return copied
        parsed = parse()
        try:
            self._write(parsed, copy, stem, is_damaged=is_damaged)
        except (OSError, NotImplementedError, FileError) as error:
            # A read-only folder or a full disk costs time, but no data.
            cause = error.__cause__ if isinstance(error, FileError) else error
            number = getattr(cause, "errno", None)
            self._problem = os.strerror(number) if number else brief(cause or error)
        return parsed

    def finish(self) -> str:
        """Note in the index that copies were used, and return what to announce.

        Returns
        -------
        str
            One sentence with place and size if copies were written, or why none could
            be; empty if there is nothing new.
        """
        if self._folder is None:
            return ""
        if self._sizes or self._is_used:
            _ignore_in_git(self._folder)
            # The index is a convenience: without one, copies are not listed.
            entry = _entry(self._folder)
            paths = {"folder": self._folder, "root": self._root}
            about = {name: str(path.absolute()) for name, path in paths.items()}
            with suppress(OSError, FileError), staged_file(entry) as partial:
                partial.write_text(json.dumps(about) + "\n", encoding="utf-8")
        if self._problem:
            what = "not all copies" if self._sizes else "no copy"
            return (
                f"{self._folder}: {what} could be written ({self._problem}), so files "
                f"are parsed again next time: set {VARIABLE} to a folder with space "
                f"that you may write to, or to {OFF}."
            )
        if not self._sizes:
            return ""
        return (
            f"Parquet copies of {plural(len(self._sizes), 'file')} "
            f"({size(sum(self._sizes))}) were written to {self._folder}, to be read "
            "faster next time: `sightline cache` lists and clears them, "
            f"{VARIABLE} puts them elsewhere, --no-cache makes none."
        )

    def _write(
        self, parsed: ParsedFile, copy: Path, stem: str, *, is_damaged: bool
    ) -> None:
        """Write a copy and remove those of older contents of the file.

        The bytes of a row are one cell of the table; channels and notices are stored in
        the file's metadata; pages carry checksums. If another process is writing copies
        here, or has written this one meanwhile, nothing is done.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq
        from filelock import FileLock, Timeout

        about = {"channels": parsed.channels, "notices": parsed.notices}
        values = parsed.values if parsed.channels else np.zeros((len(parsed.time), 1))
        buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
        row = pa.binary(8 * values.shape[1])
        rows = pa.FixedSizeBinaryArray.from_buffers(row, len(values), buffers)
        columns = {"row": rows, "time": parsed.time}
        if parsed.labels is not None:
            columns["label"] = parsed.labels
        folder = copy.parent
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        _ignore_in_git(folder)
        try:
            with FileLock(folder / _LOCK, timeout=0):
                if copy.is_file() and not is_damaged:
                    return
                for older in folder.glob("*.parquet"):
                    is_copy = _COPY.fullmatch(older.name)
                    if is_copy and older.name.rsplit(".", 3)[0] == stem:
                        older.unlink()
                with staged_file(copy) as partial:
                    pq.write_table(
                        pa.table(columns, metadata={"sightline": json.dumps(about)}),
                        partial,
                        row_group_size=_GROUP_ROWS,
                        compression="none",
                        use_dictionary=False,
                        write_statistics=False,
                        write_page_checksum=True,
                    )
                self._sizes.append(copy.stat().st_size)
        except Timeout:
            return


def _ignore_in_git(folder: Path) -> None:
    """Write a ``.gitignore`` beside copies, unless there is one."""
    ignore = folder / _GITIGNORE
    with suppress(OSError):
        if not ignore.exists():
            ignore.write_text(_IGNORE_ALL, encoding="utf-8")


# ---- where copies are ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CopiesFolder:
    """A folder with copies.

    Parameters
    ----------
    folder : Path
        Where the copies are.
    root : Path, optional
        The folder with the files they are copies of; None if that is not known.
    n_files, n_bytes : int
        How many copies there are, and their size together.
    last_used : float, optional
        When copies were last read or written, in seconds since 1970; None if there is
        no copy.
    """

    folder: Path
    root: Path | None
    n_files: int
    n_bytes: int
    last_used: float | None


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """What was removed from a folder with copies.

    Parameters
    ----------
    folder : Path
        Where the copies were.
    n_files, n_bytes : int
        How many copies were removed, and their size together.
    others : tuple of str
        Names of files that are no copies: they were left, and so was the folder.
    """

    folder: Path
    n_files: int
    n_bytes: int
    others: tuple[str, ...]


def list_copies(paths: Sequence[Path] = ()) -> list[CopiesFolder]:
    """Return the folders with copies, the largest first.

    Parameters
    ----------
    paths : sequence of Path
        Folders with data, or with copies. By default all folders that the index knows,
        and those below the folder that `VARIABLE` names.

    Raises
    ------
    FileError
        If there are no copies at one of the paths, or it cannot be read.
    """
    roots = _indexed()
    listed = []
    for folder in _folders(paths, roots):
        with reading(folder):
            copies = [file for file in _ours(folder) if _COPY.fullmatch(file.name)]
            facts = [copy.stat() for copy in copies]
        entry = _entry(folder)
        used = [entry.stat().st_mtime] if entry.exists() else []
        root = folder.parent if folder.name == CACHE_FOLDER else roots.get(folder)
        listed.append(
            CopiesFolder(
                folder=folder,
                root=root,
                n_files=len(copies),
                n_bytes=sum(fact.st_size for fact in facts),
                last_used=max((*used, *(f.st_mtime for f in facts)), default=None),
            )
        )
    return sorted(listed, key=lambda place: (-place.n_bytes, place.folder))


def clear_copies(paths: Sequence[Path] = ()) -> Iterator[Cleared]:
    """Remove copies, and the folders that hold nothing else; yield what was removed.

    Only files are removed whose names are those of copies, of a copy that a killed
    process left half-written, and of a lock; a ``.gitignore`` goes with the last one.

    Parameters
    ----------
    paths : sequence of Path
        As for `list_copies`.

    Raises
    ------
    FileError
        If there are no copies at one of the paths, or a file cannot be removed.
    """
    for folder in _folders(paths, _indexed()):
        n_files = n_bytes = 0
        with writing(folder):
            for file in _ours(folder):
                n_files += _COPY.fullmatch(file.name) is not None
                n_bytes += file.stat().st_size
                file.unlink(missing_ok=True)
            others = [
                file
                for file in folder.iterdir()
                if not (
                    file.name == _GITIGNORE
                    and file.read_bytes() == _IGNORE_ALL.encode()
                )
            ]
            if not others:
                (folder / _GITIGNORE).unlink(missing_ok=True)
                folder.rmdir()
        with suppress(OSError):
            _entry(folder).unlink(missing_ok=True)
        yield Cleared(
            folder=folder,
            n_files=n_files,
            n_bytes=n_bytes,
            others=tuple(sorted(file.name for file in others)),
        )


def index_folder() -> Path:
    """Return the folder of the index, in the user's cache directory."""
    from platformdirs import user_cache_path

    return user_cache_path("sightline", appauthor=False) / "copies"


def _indexed() -> dict[Path, Path]:
    """Return the root of each folder in the index; entries of lost folders go."""
    found = {}
    for entry in sorted(index_folder().glob("*.json")):
        try:
            about = json.loads(entry.read_text(encoding="utf-8"))
            folder, root = Path(about["folder"]), Path(about["root"])
            if folder.is_dir():
                found[folder] = root
            else:
                entry.unlink(missing_ok=True)
        except (OSError, ValueError, KeyError, TypeError):
            # The index is a convenience: a damaged entry is written again at next use.
            continue
    return found


def _folders(paths: Sequence[Path], indexed: Iterable[Path]) -> list[Path]:
    """Return the folders with copies at some paths; all known ones without paths."""
    if not paths:
        setting = os.environ.get(VARIABLE, "").strip()
        base = None if setting.lower() in ("", OFF) else Path(setting).expanduser()
        return list(dict.fromkeys([*indexed, *(_below(base) if base else ())]))
    folders: list[Path] = []
    for path in paths:
        path = path.expanduser().absolute()
        with reading(path):
            elsewhere = copies_folder(path)
            near = [path / CACHE_FOLDER, *([elsewhere] if elsewhere else ())]
            if path.name == CACHE_FOLDER or _DIGEST.fullmatch(path.name):
                near.append(path)
            at_path = [f for f in near if f.is_dir()] + _below(path)
        if not at_path:
            raise FileError(
                f"{path}: there are no Parquet copies here: name a folder with data, "
                "or no folder to see all."
            )
        folders += at_path
    return list(dict.fromkeys(folders))


def _below(base: Path) -> list[Path]:
    """Return the folders of copies in a folder that `VARIABLE` named."""
    with reading(base):
        if not base.is_dir():
            return []
        return [
            folder
            for folder in sorted(base.absolute().iterdir())
            if _DIGEST.fullmatch(folder.name) and folder.is_dir() and _ours(folder)
        ]


def _ours(folder: Path) -> list[Path]:
    """Return the files of a folder that this module has written, by their names."""
    return [
        file
        for file in sorted(folder.iterdir())
        if _OURS.fullmatch(file.name) and file.is_file()
    ]


def _entry(folder: Path) -> Path:
    """Return the path of a folder's entry in the index."""
    return index_folder() / f"{_digest(folder.absolute())}.json"


def _digest(path: Path) -> str:
    """Return a short name for a path: 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]


# ---- one copy ------------------------------------------------------------------------


def _read_copy(path: Path) -> ParsedFile | None:
    """Return the content of a Parquet copy; None if the copy is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            about = json.loads(file.schema_arrow.metadata[b"sightline"])
            channels, notices = tuple(about["channels"]), tuple(about["notices"])
            n_rows, width = file.metadata.num_rows, max(len(channels), 1)
            values, time = np.empty((n_rows, width)), np.empty(n_rows)
            has_labels = "label" in file.schema_arrow.names
            labels = np.empty(n_rows, np.int8) if has_labels else None
            start = 0
            for batch in file.iter_batches(_GROUP_ROWS):
                rows = slice(start, start + batch.num_rows)
                cells = batch.column("row")
                values[rows] = np.frombuffer(cells.buffers()[1], np.float64).reshape(
                    -1, width
                )[cells.offset : cells.offset + len(cells)]
                time[rows] = batch.column("time").to_numpy()
                if labels is not None:
                    labels[rows] = batch.column("label").to_numpy()
                start = rows.stop
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        return None
    return ParsedFile(
        channels=channels,
        values=values if channels else values[:, :0],
        time=time,
        labels=labels,
        notices=notices,
    )
