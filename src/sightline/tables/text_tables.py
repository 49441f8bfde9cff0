"""Read a table that someone exported: CSV and its relatives, Parquet, or Excel.

Encoding, separator, header and decimal sign are found in the first 64 kB. A plain
UTF-8 file then goes to polars as it is; other encodings, packed files and files with
other line ends are first brought to UTF-8 in memory.
"""

import csv
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Ints, require
from sightline.errors import FileError
from sightline.files import (
    brief,
    check_ordinary,
    check_unpacked,
    damage,
    reading,
    unpacked,
)
from sightline.tables.cells import columns_called, is_unit, name_and_unit
from sightline.text import names as listed
from sightline.text import plural

_HEAD_BYTES = 65_536
_HEAD_LINES = 200
# Rows from which column types are inferred; if later rows differ, all rows are used.
_INFER_ROWS = 10_000
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars (|)"}
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xls", ".xlsm")
# A sheet may have so many cells from the first to the last, or so many for each that is
# filled; and where its parts lie in the archive.
MOST_SHEET, _SPARSE, _SHEETS = 50_000_000, 4, "xl/worksheets/"
_CELLS = re.compile(rb"<(?:\w+:)?c\s[^>]*?\br=[\"']([A-Z]{1,3})(\d{1,7})[\"']")
_COLUMNS = re.compile(rb"<(?:\w+:)?c\s[^>]*?\br=[\"']([A-Z]{1,3})\d")
_ROW_NUMBERS = re.compile(
    rb"<(?:\w+:)?(?:row|c)\s[^>]*?\br=[\"'][A-Z]{0,3}(\d{1,7})[\"']"
)
_NO_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
AGAIN = "it may be damaged; save it again, or save it as CSV"
TEXT = (".csv", ".txt", ".tsv", ".csv.gz", ".txt.gz", ".tsv.gz", ".gz")
_COMMENTS = ("#", "//")
_BLANK = " \t\r\ufeff"
_STATED_SEPARATOR = re.compile(r"^\W{0,2}sep=(.)\W*$", re.IGNORECASE)
# A number or a date; a tag may begin with a digit, as 10TI001 does.
_NUMBER = re.compile(
    r"^(?:[-+]?[\d.,]*\d(?:[eE][-+]?\d+)?\s?%?|\d{1,4}[-/.]\d{1,2}[-/.]\d.*|\d+:\d\d.*)$"
)
# 0,5 and 1234,5 and 2,25 can only be decimal commas; 1,234 could be a thousand.
_CERTAIN_COMMA = re.compile(
    r"^\s*[-+]?(?:0\d*,\d+|\d{4,},\d+|\d+,(?:\d{1,2}|\d{4,}))(?:[eE][-+]?\d+)?\s*$"
)
_MOST_BELOW = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class ExportedTable:
    """A table as it was read.

    Parameters
    ----------
    frame : polars frame
        Its columns with names that are unique and without surrounding blanks; numbers
        where polars read numbers, else text. At least one row.
    path : Path
        The file.
    units : dict of str to str
        Units that stand in the header or in the row below it, by column.
    decimal_comma : bool
        Whether the numbers of the file have decimal commas.
    form : str
        How a text file is written, in words: separator, decimal sign and encoding.
    first_line : int
        The line of the file, counted from 1, that the first row stands on; 0 for a file
        without lines (Parquet).
    rows : array of int, optional
        For each row of `frame` its place below `first_line`, where lines were left
        out.
    notices : tuple of str
        What was left out or chosen, a sentence each.
    """

    frame: Any
    path: Path
    units: dict[str, str] = field(default_factory=dict)
    decimal_comma: bool = False
    form: str = ""
    first_line: int = 0
    rows: Ints | None = None
    notices: tuple[str, ...] = ()

    def place_of(self, row: int) -> str:
        """Return a row, counted from 0, in words: its line, or its row in Parquet."""
        if not self.first_line:
            return f"data row {row + 1}"
        below = row if self.rows is None else int(self.rows[row])
        return f"line {self.first_line + below}"


@dataclass(frozen=True, kw_only=True)
class _TextForm:
    """How a text file is written; lines count from 0."""

    separator: str
    names: tuple[str, ...]
    header_line: int
    n_below: int
    decimal_comma: bool
    units: dict[str, str]
    notices: tuple[str, ...]


def is_table(path: Path) -> bool:
    """Return whether a file has the ending of a table, in any case."""
    return path.name.lower().endswith((*PARQUET, *TEXT, *EXCEL))


def read_table(path: Path, *, least_columns: int = 1) -> ExportedTable:
    """Read a table: CSV, TSV, Parquet or Excel; text in any usual form.

    Parameters
    ----------
    path : Path
        ``.parquet``, ``.xlsx``, ``.csv``, ``.txt``, ``.tsv`` in any case, and text
        packed by gzip.
        Text is UTF-8, UTF-16 or else cp1252, separated by comma, semicolon, tab or
        ``|``. Lines before the header and rows of units below it are left out.
    least_columns : int
        A table with fewer columns is refused.

    Raises
    ------
    FileError
        If the file is no table, is cut short, unpacks to more than `files.unpacked`
        allows, has no header or no rows, or names a column twice.
    """
    with reading(path):
        if path.is_file() and path.stat().st_size == 0:
            raise FileError(f"{path}: is empty.")
        if path.suffix.lower() in PARQUET:
            return _named(_parquet(path), path)
        if path.suffix.lower() in EXCEL:
            return _read_workbook(path, least_columns)
        if not is_table(path):
            raise FileError(
                f"{path}: is neither .csv nor .parquet; a table must be one of them."
            )
        text, encoding = _text_of(path)
        return _read_text(path, text, encoding, least_columns)


def check_workbook(path: Path, advice: str = AGAIN) -> None:
    """Raise `FileError` unless a path is a file that can be read as a workbook.

    The library that reads workbooks waits for a pipe, and unpacks whatever is packed.
    `advice` is what to do with a damaged file.

    Raises
    ------
    FileError
        If it is no ordinary file, cannot be read, is damaged, unpacks to more than
        `check_unpacked` allows, or has a sheet that is nearly empty and huge.
    """
    length = 0
    # Not with a header that says how much is in it: what is in it counts.
    what = f"{path}: cannot be unpacked as an Excel file"
    with reading(path), damage(what, *_NO_ZIP, advice=advice):
        with path.open("rb") as file:
            if file.read(2) != b"PK":
                return  # the format of Excel before 2007, which is not packed
        with zipfile.ZipFile(path) as archive:
            for part in archive.infolist():
                extent = _SheetExtent()
                with archive.open(part) as member:
                    while piece := member.read(1 << 20):
                        length += len(piece)
                        check_unpacked(path, length)
                        if part.filename.startswith(_SHEETS):
                            extent.take(piece)
                extent.check(path)


@dataclass
class _SheetExtent:
    """How far the cells of a sheet reach, as its XML says piece by piece.

    The library that reads it makes a table of all cells between the first and the last.
    """

    n_cells: int = 0
    last_row: int = 0
    last_column: int = 0
    far_cell: str = ""
    rest: bytes = b""

    def take(self, piece: bytes) -> None:
        """Look at the next piece; a cell that is cut is looked at with the next one."""
        text = self.rest + piece
        cut = text.rfind(b"<")
        text, self.rest = text[:cut], text[cut:]
        names = _COLUMNS.findall(text)
        self.n_cells += len(names)
        row = max(map(int, {*_ROW_NUMBERS.findall(text)}), default=0)
        column = max(map(_column_number, {*names}), default=0)
        if row > self.last_row or column > self.last_column:
            far = [
                cell
                for cell in _CELLS.findall(text)
                if int(cell[1]) == row or _column_number(cell[0]) == column
            ]
            self.far_cell = b"".join(far[-1]).decode() if far else f"row {row}"
        self.last_row = max(self.last_row, row)
        self.last_column = max(self.last_column, column)

    def check(self, path: Path) -> None:
        """Raise `FileError` if the sheet is nearly empty and huge."""
        n_in_all = self.last_row * self.last_column
        if n_in_all > max(MOST_SHEET, _SPARSE * self.n_cells):
            raise FileError(
                f"{path}: a sheet of {n_in_all:,} cells, of which {self.n_cells:,} are "
                f"filled: the cell {self.far_cell} lies far from the others; clear it, "
                "or save the table as CSV."
            )


def _column_number(name: bytes) -> int:
    """Return the number of a column of a sheet; A is 1."""
    number = 0
    for letter in name:
        number = 26 * number + letter - ord("A") + 1
    return number


def first_sheet(path: Path, advice: str = AGAIN) -> Any:
    """Return all cells of the first sheet of an Excel file, as a frame of text.

    Raises
    ------
    FileError
        As `check_workbook`; `advice` is what to do with a damaged file.
    """
    fastexcel = require("fastexcel", extra="excel", caller=f"{path}: Excel")
    check_workbook(path, advice)
    # It raises many types.
    with damage(f"{path}: cannot be read as an Excel file", Exception, advice=advice):
        return (
            fastexcel.read_excel(path)
            .load_sheet(0, header_row=None, dtypes="string", skip_rows=0)
            .to_polars()
        )


def _read_workbook(path: Path, least_columns: int) -> ExportedTable:
    """Return the sheet of an Excel file that holds the most; others are notes.

    Its cells are read like those of a text table, so that titles above the header,
    units below it, decimal commas and words are understood in the same way.

    Raises
    ------
    FileError
        If no sheet holds anything, or as `read_table`.
    """
    import polars as pl

    fastexcel = require("fastexcel", extra="excel", caller=f"{path}: Excel")
    check_workbook(path)
    with damage(
        f"{path}: cannot be read as an Excel table", Exception, advice="save it as CSV"
    ):
        book = fastexcel.read_excel(path)
        frames = {
            name: book.load_sheet(name, header_row=None, dtypes="string").to_polars()
            for name in book.sheet_names
        }
    filled = [name for name, frame in frames.items() if frame.height]
    if not filled:
        raise FileError(f"{path}: is empty.")
    filled.sort(key=lambda name: -sum(frames[name].select(pl.all().count()).row(0)))
    frame = frames[filled[0]]
    header = _header_row(frame)
    # Sheets with the same header, such as one a month, are one table.
    names = frame.row(header)
    same = [
        name
        for name in book.sheet_names
        if name == filled[0]
        or (name in filled and names in frames[name].head(_HEAD_LINES).rows())
    ]
    below = [frames[name][_header_row(frames[name]) :] for name in same]
    frame = pl.concat([frame[:header], *below])
    if any(frame[c].str.contains(_CERTAIN_COMMA.pattern).any() for c in frame.columns):
        comma = pl.all().str.replace(r"^\s*(-?\d+),(\d+)\s*$", "${1}.${2}")
        frame = frame.with_columns(comma)
    # Rows above the header end with their last cell, as in a text.
    titles = [
        ";".join(f'"{cell}"' for cell in row if cell) for row in frame[:header].rows()
    ]
    body = frame[header:].write_csv(separator=";", include_header=False)
    text = "".join(f"{title}\n" for title in titles) + body
    sheets = listed(same, 4, quoted=True)
    table = _read_text(path, text.encode(), f"sheet {sheets}", least_columns)
    if others := [name for name in book.sheet_names if name in {*filled} - {*same}]:
        other = f"{path.name}: only the sheet {sheets} was read, not "
        table = replace(table, notices=(*table.notices, f"{other}{listed(others, 4)}."))
    return replace(table, form=f"Excel, sheet{'s' * (len(same) > 1)} {sheets}")


def _header_row(frame: Any) -> int:
    """Return the first row of a sheet in which more than half of the cells are full."""
    import polars as pl

    n_cells = frame.select(pl.sum_horizontal(pl.all().is_not_null())).to_series()
    return int((n_cells * 2 > frame.width).arg_max() or 0)


def _read_text(
    path: Path, text: bytes | None, encoding: str, least_columns: int
) -> ExportedTable:
    """Return a text table; `text` is None if polars can read the file itself."""
    import polars as pl

    head = _head(path) if text is None else text[:_HEAD_BYTES]
    form = _form_of(path, head, least_columns)
    n_lines = len(head.decode("utf-8", errors="replace").rstrip("\r\n").split("\n"))
    is_whole = len(head) < _HEAD_BYTES and n_lines < _HEAD_LINES
    if is_whole and form.header_line + form.n_below + 1 == n_lines:
        raise FileError(f"{path}: has a header but no rows.")
    _check_end(path, text, form)
    try:
        frame = _parsed(path, text, form)
    except pl.exceptions.ComputeError as error:
        if text is None and "utf" in str(error).lower():
            # Letters that are not UTF-8 stand below the first 64 kB.
            return _read_text(path, *_as_utf8(path.read_bytes()), least_columns)
        raise _no_table(path, error) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _no_table(path, error) from error
    notices = list(form.notices)
    if encoding == "cp1252":
        notices.insert(
            0, f"{path.name}: is not UTF-8 text and was read as Windows text (cp1252)."
        )
    table = ExportedTable(
        frame=_with_names(frame, form, path),
        path=path,
        units=form.units,
        decimal_comma=form.decimal_comma,
        form=f"{_SEPARATORS.get(form.separator, form.separator)}, "
        f"{'decimal commas' if form.decimal_comma else 'decimal points'}, {encoding}",
        first_line=form.header_line + form.n_below + 2,
        notices=tuple(notices),
    )
    if table.frame.height and table.frame[:, 0].has_nulls():
        is_blank = table.frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        table = _filtered(table, ~is_blank) if is_blank.any() else table
    return _named(_without_headers(table, form), path)


def _no_table(path: Path, error: BaseException) -> FileError:
    return FileError(
        f"{path}: cannot be read as a table ({brief(error)}): check that it has one "
        "header line and the same number of columns in each row."
    )


def _head(path: Path) -> bytes:
    check_ordinary(path)
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def decoded(path: Path) -> str:
    """Return a short text file of any encoding that `read_table` knows.

    Raises
    ------
    FileError
        If it is no text.
    """
    text, _ = _text_of(path)
    data = path.read_bytes() if text is None else text
    return data.decode("utf-8-sig", errors="replace")


def _text_of(path: Path) -> tuple[bytes | None, str]:
    """Return a file as UTF-8 bytes, and its encoding; None if it is that already."""
    head = _head(path)
    packed = head.startswith(b"\x1f\x8b")
    data = unpacked(path) if packed else None
    if data is not None:
        head = data[:_HEAD_BYTES]
    if _is_plain(head):
        return data, "utf-8"
    if head.startswith((b"PK\x03\x04", b"%PDF", b"\x89PNG", b"\xd0\xcf\x11\xe0")):
        raise FileError(
            f"{path}: is no text, whatever its name says (it begins like an Excel, zip "
            "or picture file): export it as CSV or Parquet."
        )
    if _utf_16(head) is None and b"\0" in head:
        raise FileError(
            f"{path}: holds NUL bytes (the first at byte {head.index(0):,}): the file "
            "is damaged; export it again."
        )
    return _as_utf8(path.read_bytes() if data is None else data)


def _is_plain(head: bytes) -> bool:
    """Return whether text is UTF-8 with line ends that polars knows."""
    # The head may end in the middle of a letter.
    for end in range(4):
        try:
            head[: len(head) - end].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return b"\0" not in head and not (b"\r" in head and b"\n" not in head)
    return False


def _utf_16(head: bytes) -> str | None:
    """Return which UTF-16 a text is, by its mark or its zeros; None if it is none."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if len(head) < 8:
        return None
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) < 0.4 * len(head) / 2 or min(even, odd) > 0.05 * len(head):
        return None
    return "utf-16-be" if even > odd else "utf-16-le"


def _as_utf8(data: bytes) -> tuple[bytes, str]:
    """Return text of any encoding as UTF-8 with line feeds, and its encoding."""
    encoding = _utf_16(data[:_HEAD_BYTES]) or "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            # Five bytes have no letter in cp1252; latin-1 has one for each.
            text = data.decode("latin-1")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8"), encoding


def split_line(line: str, separator: str) -> list[str]:
    """Return the cells of a line, respecting quotes; empty if it is no table."""
    try:
        row = next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []
    return [cell.strip(_BLANK) for cell in row]


def _width(cells: Sequence[str]) -> int:
    """Return the number of cells without empty ones at the end."""
    return max((k + 1 for k, cell in enumerate(cells) if cell), default=0)


def _is_comment(line: str) -> bool:
    return line.strip(_BLANK + '"').startswith(_COMMENTS)


def _form_of(path: Path, head: bytes, least_columns: int) -> _TextForm:
    """Find separator, header and decimal sign in the first lines of a file."""
    lines = [
        line.strip("\r\ufeff")
        for line in head.decode("utf-8", errors="replace").split("\n")
    ]
    if len(head) >= _HEAD_BYTES and len(lines) > 1:
        # The last line is cut.
        lines.pop()
    lines = lines[:_HEAD_LINES]
    stated = _STATED_SEPARATOR.match(lines[0])
    is_content = [bool(line.strip(_BLANK)) and not _is_comment(line) for line in lines]
    if stated:
        is_content[0] = False
    separator, n_cells = _separator(
        [line for line, content in zip(lines, is_content, strict=True) if content],
        stated[1] if stated else None,
    )
    rows = [
        split_line(line, separator) if content else []
        for line, content in zip(lines, is_content, strict=True)
    ]
    header_line = _header_line(rows, n_cells)
    if header_line is None or len(rows[header_line]) < least_columns:
        wanted = plural(max(least_columns, 1), "column")
        raise FileError(
            f"{path}: must begin with a header of at least {wanted}, separated by "
            "commas, semicolons, tabs or '|'."
        )
    header = rows[header_line]
    before = rows[header_line - 1] if header_line else []
    _check_header(path, header, header_line, before)
    below, units = _below(rows[header_line + 1 :], header)
    data = rows[header_line + 1 + below :]
    return _TextForm(
        separator=separator,
        names=tuple(header),
        header_line=header_line,
        n_below=below,
        decimal_comma=separator != ","
        and any(_CERTAIN_COMMA.match(cell) for row in data for cell in row),
        units={name: unit for name, unit in zip(header, units, strict=False) if unit},
        notices=tuple(
            _left_out(path.name, is_content, rows, header_line, below, units)
        ),
    )


def _separator(lines: Sequence[str], stated: str | None) -> tuple[str, int]:
    """Return the separator that gives most lines one number of cells, and that number.

    One cell and a comma if no separator gives two.
    """
    best, best_score = (",", 1), (0, 0)
    for separator in _SEPARATORS if stated is None else (stated,):
        counts = Counter(len(split_line(line, separator)) for line in lines)
        counts.pop(1, None)
        counts.pop(0, None)
        if counts:
            n_cells, n_lines = max(counts.items(), key=lambda item: (item[1], item[0]))
            if (n_lines, n_cells) > best_score:
                best, best_score = (separator, n_cells), (n_lines, n_cells)
    return best


def _header_line(rows: Sequence[Sequence[str]], n_cells: int) -> int | None:
    """Return the first line that is as wide as the rows; trailing separators aside."""
    full = [row for row in rows if len(row) == n_cells]
    has_trailing = bool(full) and all(not row[-1] for row in full[1:] or full)
    for k, row in enumerate(rows):
        width = _width(row)
        if width and (
            len(row) == n_cells
            or width == n_cells
            or (has_trailing and len(row) == n_cells - 1 and n_cells > 2)
        ):
            return k
    return None


def _check_header(
    path: Path, header: Sequence[str], line: int, before: Sequence[str]
) -> None:
    """Refuse a first line of numbers: the table has no header, or a shorter one."""
    filled = [cell for cell in header if cell]
    is_number = [bool(_NUMBER.match(cell)) for cell in filled]
    counted = [str(k) for k in range(len(filled))]
    if sum(is_number) * 2 > len(filled) and filled != counted:
        if len(before) > 1:
            raise FileError(
                f"{path}: line {line + 1} has {len(header)} cells and the names above "
                f"it are {len(before)}: if numbers have decimal commas, export with "
                "semicolons between the columns; else check the header."
            )
        raise FileError(
            f"{path}: line {line + 1} must hold the names of the columns; it holds "
            f"{listed(filled, 3, quoted=True)}: add a header line."
        )


def _below(
    rows: Sequence[Sequence[str]], header: Sequence[str]
) -> tuple[int, list[str]]:
    """Return how many lines below the header hold no reading, and the units in them.

    A line of units has more units than other texts. Where the header names a column of
    time, any line without a digit in that column and without a number is no reading.
    """
    times = columns_called("time", list(header))
    time_at = header.index(times[0]) if times else None
    n_below, units = 0, [""] * len(header)
    for k, row in enumerate(rows[:_MOST_BELOW]):
        filled = [cell for cell in row if cell]
        if not filled:
            continue
        if any(_NUMBER.match(cell) for cell in filled):
            break
        n_units = sum(map(is_unit, filled))
        in_time = row[time_at] if time_at is not None and time_at < len(row) else ""
        is_text = time_at is not None and not re.search(r"\d", in_time)
        if n_units * 2 > len(filled) and any(map(str.strip, filled)):
            units = [cell.strip("[]() ") if is_unit(cell) else "" for cell in row]
        elif not is_text:
            break
        n_below = k + 1
    if n_below == len([row for row in rows if row]):
        # Nothing else follows: these are the rows.
        return 0, [""] * len(header)
    return n_below, units


def _left_out(
    place: str,
    is_content: Sequence[bool],
    rows: Sequence[Sequence[str]],
    header_line: int,
    n_below: int,
    units: Sequence[str],
) -> list[str]:
    """Return notices about lines around the header."""
    notices = []
    n_before = sum(is_content[:header_line])
    if n_before:
        notices.append(
            f"{place}: {plural(n_before, 'line')} before the header in line "
            f"{header_line + 1} {'was' if n_before == 1 else 'were'} left out."
        )
    if any(units):
        notices.append(
            f"{place}: line {header_line + 1 + n_below} was taken as the units of the "
            f"columns: {listed([u for u in units if u], 4)}."
        )
    n_texts = sum(bool(row) for row in rows[header_line + 1 :][:n_below])
    n_texts -= any(units)
    if n_texts:
        notices.append(
            f"{place}: {plural(n_texts, 'line')} of text below the header "
            f"{'was' if n_texts == 1 else 'were'} left out."
        )
    return notices


def _check_end(path: Path, text: bytes | None, form: _TextForm) -> None:
    """Refuse a file that ends in the middle of a row."""
    if text is None:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _HEAD_BYTES))
            tail = file.read()
    else:
        tail = text[-_HEAD_BYTES:]
    if tail.endswith((b"\n", b"\r")) or b"\n" not in tail:
        return
    last = tail.rpartition(b"\n")[2].decode("utf-8", errors="replace")
    n_cells, n_names = len(split_line(last, form.separator)), _width(form.names)
    if last.strip() and not _is_comment(last) and 1 <= n_cells < n_names:
        raise FileError(
            f"{path}: ends in the middle of a row, after {n_cells} of {n_names} "
            "columns: it was cut short; copy it again from its source."
        )


def _parsed(path: Path, text: bytes | None, form: _TextForm) -> Any:
    """Return the rows below the header as polars reads them."""
    import polars as pl

    def read(infer: int | None) -> Any:
        return pl.read_csv(
            path if text is None else BytesIO(text),
            has_header=False,
            skip_lines=form.header_line + 1 + form.n_below,
            separator=form.separator,
            decimal_comma=form.decimal_comma,
            infer_schema_length=infer,
            glob=False,
        )

    try:
        return read(_INFER_ROWS)
    except pl.exceptions.NoDataError:
        raise FileError(f"{path}: has a header but no rows.") from None
    except pl.exceptions.ComputeError:
        # Text far down in a column of numbers: infer types from all rows.
        return read(None)


def _with_names(frame: Any, form: _TextForm, path: Path) -> Any:
    """Return the frame with the names of the header; extra cells must be empty."""
    import polars as pl

    names = list(form.names)
    extra = frame.columns[len(names) :]
    for column in extra:
        filled = frame[column].is_not_null()
        if filled.any():
            line = form.header_line + form.n_below + 2 + int(filled.arg_max() or 0)
            raise FileError(
                f"{path}: cannot be read as a table: line {line} has more cells than "
                f"the header has columns ({_width(names)}): check that it has one "
                "header line and the same number of columns in each row."
            )
    frame = frame.drop(extra)
    lacking = names[frame.width :]
    # The place before the name keeps repeated names apart until they are refused.
    frame.columns = [f"{k}\0{name}" for k, name in enumerate(names[: frame.width])]
    return frame.with_columns(
        pl.lit(None, pl.String).alias(f"{frame.width + k}\0{name}")
        for k, name in enumerate(lacking)
    )


def _filtered(table: ExportedTable, keep: Any) -> ExportedTable:
    """Return some rows of a table, which keep their line numbers."""
    rows = np.arange(len(keep)) if table.rows is None else table.rows
    return replace(table, frame=table.frame.filter(keep), rows=rows[keep.to_numpy()])


def _without_headers(table: ExportedTable, form: _TextForm) -> ExportedTable:
    """Leave out headers that are repeated inside a file, and comments.

    Two exports that were joined have the header twice: each column is then text.
    """
    import polars as pl

    frame = table.frame
    texts = [column for column in frame.columns if frame[column].dtype == pl.String]
    first = frame.columns[0]
    if first not in texts:
        return table
    cleaned = frame[first].str.strip_chars(_BLANK + '"').fill_null("")
    is_comment = cleaned.str.starts_with(_COMMENTS[0]) | cleaned.str.starts_with(
        _COMMENTS[1]
    )
    named = [k for k, name in enumerate(form.names) if name]
    lead = frame.columns[named[0]]
    is_header = pl.repeat(False, frame.height, eager=True)
    if lead in texts:
        is_header = (
            frame[lead].str.strip_chars(_BLANK) == form.names[named[0]]
        ).fill_null(False)
    for row in is_header.arg_true().to_list():
        cells = [str(cell or "").strip(_BLANK) for cell in frame.row(row)]
        if cells != list(form.names):
            raise FileError(
                f"{table.path}: {table.place_of(row)} holds another header than line "
                f"{form.header_line + 1}: write one file for each."
            )
    n_headers, n_comments = int(is_header.sum()), int(is_comment.sum())
    if not n_headers + n_comments:
        return table
    for k in range(form.n_below):
        is_header = is_header | is_header.shift(k + 1).fill_null(False)
    notices = list(table.notices)
    if n_headers:
        notices.append(
            f"{table.path.name}: the header stands {n_headers + 1} times in it; it was "
            "read as one table."
        )
    if n_comments:
        notices.append(
            f"{table.path.name}: {plural(n_comments, 'line')} of comment "
            f"{'was' if n_comments == 1 else 'were'} left out."
        )
    kept = _filtered(table, ~(is_header | is_comment))
    frame = kept.frame
    for column in texts:
        # Without the header, cells of a column may all be numbers.
        numbers = frame[column].cast(pl.Float64, strict=False)
        if numbers.null_count() == frame[column].null_count() < frame.height:
            frame = frame.with_columns(numbers)
    return replace(kept, frame=frame, notices=tuple(notices))


def _named(table: ExportedTable, path: Path) -> ExportedTable:
    """Return a table with clean names; refuse names that are repeated or missing."""
    frame = table.frame
    if frame.height == 0:
        raise FileError(f"{path}: has a header but no rows.")
    clean, units, notices, seen = {}, dict(table.units), list(table.notices), set()
    for column in frame.columns:
        raw = column.rpartition("\0")[2].strip(_BLANK)
        if not raw:
            frame, note = _without_unnamed(frame, column, path)
            notices += note
            continue
        name, unit = name_and_unit(raw)
        if name in seen:
            raise FileError(f"{path}: has two columns called {name!r}: rename one.")
        seen.add(name)
        clean[column] = name
        if raw in units:
            units[name] = units.pop(raw)
        if unit:
            units[name] = unit
    if not clean:
        raise FileError(f"{path}: no column has a name: add a header line.")
    return replace(
        table, frame=frame.rename(clean), units=units, notices=tuple(notices)
    )


def _without_unnamed(frame: Any, column: str, path: Path) -> tuple[Any, list[str]]:
    """Leave out a column without a name if it is empty or counts the rows."""
    import polars as pl

    content = frame[column]
    rest = frame.drop(column)
    at = frame.columns.index(column) + 1
    if content.null_count() == len(content):
        return rest, []
    if content.dtype.is_integer() and len(content) > 1:
        steps = content.diff().drop_nulls()
        if bool((steps == 1).all()):
            return rest, [
                f"{path.name}: column {at}, which has no name, counts the rows and was "
                "left out."
            ]
    if content.dtype == pl.String and bool((content.fill_null("") == "").all()):
        return rest, []
    raise FileError(
        f"{path}: column {at} has no name but holds "
        f"{content.drop_nulls()[0]!r:.40}: name it in the header."
    )


def _parquet(path: Path) -> ExportedTable:
    """Return a Parquet file; its rows have no lines."""
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise FileError(
            f"{path}: cannot be read as a table ({brief(error)}): it is not a readable "
            "Parquet file; write it again."
        ) from error
    for name, kind in frame.schema.items():
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise FileError(
                f"{path}: column {name!r} holds {kind}, which is neither numbers, text "
                "nor times: write each value as a column of its own."
            )
    return ExportedTable(frame=frame, path=path)
