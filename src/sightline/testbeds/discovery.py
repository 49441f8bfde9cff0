"""Files below a folder, known by how they begin and not by where they lie."""

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

CACHE_FOLDER = ".sightline-cache"
# Enough for the longest header (WADI A1: 7.6 kB) with a few rows below it.
_HEAD_BYTES = 65_536
_HEAD_LINES = 8
_LFS = "version https://git-lfs"
_SUFFIXES = (".csv", ".csv.gz", ".xlsx")
_DECIMAL_COMMA = re.compile(r"^\s*-?\d+,\d+(e-?\d+)?\s*$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the columns of a table are, and how its numbers are written."""

    columns: tuple[str, ...]
    header_line: int
    separator: str
    decimal_comma: bool


class SourceFile:
    """A file that may be part of a testbed; its beginning is read when asked for."""

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
        except Exception as error:  # fastexcel has many kinds, all meaning this
            raise FileError(
                f"{self.path}: cannot be read as an Excel file ({brief(error)}): it "
                "may be damaged or cut short; copy it again from its source."
            ) from error

    @cached_property
    def sha256(self) -> str:
        """What tells one content of the file from any other."""
        with reading(self.path), self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def likely_rows(self) -> int:
        """How many rows there may be, by the length of the first few, and some more."""
        length = max(len(self.lines[-1]), 1)
        return int(1.2 * self.path.stat().st_size / length) + 1000

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The first lines, without line ends and byte order mark."""
        if self.is_excel:
            try:
                head = self.frame.head(_HEAD_LINES)
            except SightlineError:
                # One that cannot be opened is nothing that can be recognised.
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
        try:
            with gzip.open(self.path) as file:
                return file.read(_HEAD_BYTES)
        except (EOFError, OSError, zlib.error):
            # What can be had of it is what it is recognised by; reading it whole says
            # later that it is damaged. A pointer file is no gzip file at all.
            packed = self.path.read_bytes()[:_HEAD_BYTES]
            try:
                return zlib.decompressobj(wbits=31).decompress(packed)
            except zlib.error:
                return packed

    @property
    def is_pointer(self) -> bool:
        """Whether this is a note where Git LFS keeps the file, not the file."""
        return not self.is_excel and self.lines[0].startswith(_LFS)


def find_files(root: str | Path) -> list[SourceFile]:
    """Return the CSV and Excel files below a folder, at any depth; Excel last.

    What lies less deep comes first, so that the obvious file wins over a copy.
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
    """Return where the header is and how cells are written, or None."""
    for number, line in enumerate(file.lines):
        for separator in (",",) if file.is_excel else (",", ";"):
            names = [clean_name(cell) for cell in cells(line, separator)]
            if len(names) > 1 and is_header(names):
                below = file.lines[number + 1 : number + 2]
                return Layout(
                    columns=tuple(names),
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
    """Return the cells of the first row of data, by name; empty if there is none."""
    below = file.lines[layout.header_line + 1 : layout.header_line + 2]
    found = cells(below[0], layout.separator) if below else []
    return dict(
        zip(layout.columns, (cell.strip() for cell in found), strict=False),
    )


def cells(line: str, separator: str) -> list[str]:
    """Return the cells of a line, minding quotes."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # not a table
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
    quoted = ('"' + (cell or "").replace('"', '""') + '"' for cell in row)
    return ",".join(quoted)
