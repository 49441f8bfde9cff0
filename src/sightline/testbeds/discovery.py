"""Find a testbed's files below a folder; recognise them by their first lines."""

import csv
import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sightline.data.arrays import require
from sightline.errors import FileError, SightlineError
from sightline.files import brief, reading

# Enough for the longest header (WADI A1: 7.6 kB) and a few rows below it.
_HEAD_BYTES = 65_536
_HEAD_LINES = 8
_LFS = "version https://git-lfs"
_SUFFIXES = (".csv", ".csv.gz", ".xlsx")
_DECIMAL_COMMA = re.compile(r"^\s*-?\d+,\d+(e-?\d+)?\s*$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the columns of a table are, and how its numbers are written.

    Parameters
    ----------
    columns : tuple of str
        Cleaned names of the columns, see `clean_name`.
    header_line : int
        The line of the header, counted from 0.
    separator : str
        Comma or semicolon.
    decimal_comma : bool
        Whether numbers are written as ``1,5``.
    """

    columns: tuple[str, ...]
    header_line: int
    separator: str
    decimal_comma: bool


class SourceFile:
    """A CSV or Excel file that may be part of a testbed; it is read when needed.

    Parameters
    ----------
    path : Path
        The file.
    root : Path
        The folder that was searched; `place` is the path below it.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.place = str(path.relative_to(root))
        self.is_excel = path.suffix.lower() == ".xlsx"
        self.is_gzip = path.suffix.lower() == ".gz"

    @cached_property
    def frame(self) -> Any:
        """All cells of the first sheet as text (Excel only)."""
        fastexcel = require("fastexcel", extra="excel", caller=f"{self.path}: Excel")
        try:
            sheet = fastexcel.read_excel(self.path).load_sheet(
                0, header_row=None, dtypes="string"
            )
            return sheet.to_polars()
        except Exception as error:  # fastexcel raises many types for a damaged file
            raise FileError(
                f"{self.path}: cannot be read as an Excel file ({brief(error)}): it "
                "may be damaged or cut short; copy it again from its source."
            ) from error

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the file's bytes, in hexadecimal digits."""
        return sha256_of(self.path)

    @property
    def likely_rows(self) -> int:
        """An upper estimate of the number of rows, by the length of the first few."""
        length = max(len(self.lines[-1]), 1)
        return int(1.2 * self.path.stat().st_size / length) + 1000

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The first lines, without line ends and byte order mark."""
        if self.is_excel:
            try:
                head = self.frame.head(_HEAD_LINES)
            except SightlineError:
                # A file that cannot be opened is not recognised as any part.
                return ("",)
            return tuple(_as_csv(row) for row in head.iter_rows())
        with reading(self.path):
            if self.is_gzip:
                head = self._unzipped()
            else:
                with self.path.open("rb") as file:
                    head = file.read(_HEAD_BYTES)
        text = head.decode("utf-8-sig", errors="replace")
        return tuple(line.rstrip("\r") for line in text.split("\n")[:_HEAD_LINES])

    def _unzipped(self) -> bytes:
        """Return the first bytes of a packed file, as far as it is intact."""
        try:
            with gzip.open(self.path) as file:
                return file.read(_HEAD_BYTES)
        except (EOFError, OSError, zlib.error):
            # A damaged file is recognised by its intact beginning; parsing it later
            # reports the damage. A pointer file is no gzip file at all.
            packed = self.path.read_bytes()[:_HEAD_BYTES]
            try:
                return zlib.decompressobj(wbits=31).decompress(packed)
            except zlib.error:
                return packed

    @property
    def is_pointer(self) -> bool:
        """Whether this is a Git LFS pointer instead of the data."""
        return not self.is_excel and self.lines[0].startswith(_LFS)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits."""
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_files(root: str | Path) -> list[SourceFile]:
    """Return the CSV and Excel files below a folder, at any depth.

    Files near the root come first, so that the obvious file wins over a copy; Excel
    files come last. Hidden files and folders are skipped.

    Raises
    ------
    FileError
        If the folder does not exist or cannot be read.
    """
    folder = Path(root).expanduser()
    with reading(folder):
        if not folder.is_dir():
            raise FileError(f"{folder}: there is no such folder; check --root.")
        paths = [
            path
            for path in folder.rglob("*")
            if path.name.lower().endswith(_SUFFIXES)
            and not any(part.startswith(".") for part in path.relative_to(folder).parts)
            and not path.name.startswith("~$")
            and path.is_file()
        ]
    files = [SourceFile(path, folder) for path in paths]
    return sorted(files, key=lambda f: (f.is_excel, f.place.count("/"), f.place))


def find_header(
    file: SourceFile, is_header: Callable[[Sequence[str]], bool]
) -> Layout | None:
    """Return the layout of a table, or None if no line is its header.

    Parameters
    ----------
    file : SourceFile
        Only its first lines are read.
    is_header : callable
        Takes the cleaned cells of a line; the first line it accepts is the header.
    """
    for number, line in enumerate(file.lines):
        for separator in (",",) if file.is_excel else (",", ";"):
            columns = [clean_name(cell) for cell in cells(line, separator)]
            if len(columns) > 1 and is_header(columns):
                below = file.lines[number + 1 : number + 2]
                return Layout(
                    columns=tuple(columns),
                    header_line=number,
                    separator=separator,
                    decimal_comma=separator == ";"
                    and any(
                        _DECIMAL_COMMA.match(cell)
                        for row in below
                        for cell in cells(row, separator)
                    ),
                )
    return None


def first_row(file: SourceFile, layout: Layout) -> dict[str, str]:
    """Return the cells of the first row of data by column; empty without a row."""
    below = file.lines[layout.header_line + 1 : layout.header_line + 2]
    row = cells(below[0], layout.separator) if below else []
    return dict(zip(layout.columns, (cell.strip() for cell in row), strict=False))


def cells(line: str, separator: str) -> list[str]:
    """Return the cells of a line, respecting quotes; empty if it is no table."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def clean_name(cell: str) -> str:
    r"""Return a column's name without blanks and without the historian's path.

    Examples
    --------
    >>> clean_name(" MV101")
    'MV101'
    >>> clean_name("\\\\HOST\\LOG_DATA\\1_AIT_001_PV")
    '1_AIT_001_PV'
    """
    return cell.strip().rpartition("\\")[2].strip()


def _as_csv(row: Sequence[str | None]) -> str:
    """Return a row of an Excel sheet as a line of CSV."""
    quoted = ('"' + (cell or "").replace('"', '""') + '"' for cell in row)
    return ",".join(quoted)
