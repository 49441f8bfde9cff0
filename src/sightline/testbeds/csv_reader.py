"""Find tables below a folder, recognise them by their first lines, and read them.

A table may have any dialect; it is read as numbers, time and text in bounded memory.
"""

import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Labels
from sightline.errors import FileError, SightlineError
from sightline.files import brief, reading, unpacked
from sightline.tables.text_tables import first_sheet, split_line

# Enough for the longest header (WADI A1: 7.6 kB) and a few rows below it.
_HEAD_BYTES = 65_536
_HEAD_LINES = 8
_LFS = "version https://git-lfs"
_SUFFIXES = (".csv", ".csv.gz", ".xlsx")
_DECIMAL_COMMA = re.compile(r"^\s*-?\d+,\d+(e-?\d+)?\s*$", re.IGNORECASE)
# What to do with a damaged file of a published record.
COPY_AGAIN = "it may be damaged or cut short; copy it again from its source"
# Rows parsed before they are copied into the one array.
_BATCH_ROWS = 32_768
_TAIL_BYTES = 65_536


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
        return first_sheet(self.path, COPY_AGAIN)

    @cached_property
    def content(self) -> bytes:
        """The whole text of a packed file, unpacked."""
        return unpacked(self.path)

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the file's bytes, in hexadecimal digits."""
        return sha256_of(self.path)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The first lines, without line ends and byte order mark."""
        if self.is_excel:
            try:
                head = self.frame.head(_HEAD_LINES)
            except SightlineError:
                # A file that cannot be opened is not recognised as any part.
                return ("",)
            quoted = (
                ['"' + (cell or "").replace('"', '""') + '"' for cell in row]
                for row in head.iter_rows()
            )
            return tuple(map(",".join, quoted))
        with reading(self.path), self.path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if self.is_gzip:
            # A damaged file is recognised by its intact beginning; parsing it later
            # reports the damage. A pointer file is no gzip file at all.
            packed, text = head, b""
            with suppress(zlib.error):
                while packed and len(text) < _HEAD_BYTES:  # it may have several members
                    member = zlib.decompressobj(wbits=31)
                    text += member.decompress(packed, _HEAD_BYTES)
                    packed = member.unused_data
            head = text or head
        lines = head.decode("utf-8-sig", errors="replace").split("\n")
        return tuple(line.rstrip("\r") for line in lines[:_HEAD_LINES])

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
            columns = [clean_name(cell) for cell in split_line(line, separator)]
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
                        for cell in split_line(row, separator)
                    ),
                )
    return None


def first_row(file: SourceFile, layout: Layout) -> dict[str, str]:
    """Return the cells of the first row of data by column; empty without a row."""
    below = file.lines[layout.header_line + 1 : layout.header_line + 2]
    row = split_line(below[0], layout.separator) if below else []
    return dict(zip(layout.columns, (cell.strip() for cell in row), strict=False))


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


@dataclass(frozen=True, kw_only=True, eq=False)
class ParsedFile:
    """The content of one file of a testbed.

    Parameters
    ----------
    channels : tuple of str
        Names of the columns of `values`.
    values : array of shape (n_rows, n_channels)
        The measured numbers; nan where the file has none.
    time : array of shape (n_rows,)
        Seconds since 1970 on the plant's own clock.
    labels : array of shape (n_rows,), optional
        1 attack, 0 normal, -1 ignore, as in the file; None if it has no labels.
    notices : tuple of str
        What was left out or corrected, a sentence each.
    """

    channels: tuple[str, ...]
    values: Floats
    time: Floats
    labels: Labels | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberCells:
    """The cells of a table: numbers in one array, text columns by name.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        The number columns; nan for an empty cell.
    texts : dict
        Text columns as polars series.
    n_empty : int
        How many empty rows at the end of the file were left out.
    """

    values: Floats
    texts: Mapping[str, Any]
    n_empty: int


def read_cells(
    file: SourceFile,
    layout: Layout,
    *,
    numbers: Sequence[str],
    texts: Sequence[str],
    missing: Sequence[str] = (),
) -> NumberCells:
    """Read some columns as numbers and some as text.

    Parameters
    ----------
    file, layout
        The table, and where its columns are.
    numbers, texts : sequence of str
        The columns to read as numbers and as text.
    missing : sequence of str
        Texts that mean "no number"; they become nan, as empty cells do.

    Raises
    ------
    FileError
        If the file is damaged or cut short, or a number column holds other text; the
        message names the row.
    """
    import polars as pl

    if file.is_excel:
        rows = file.frame.slice(layout.header_line + 1)
        rows = rows.rename(dict(zip(rows.columns, layout.columns, strict=True)))
        return _from_text(rows, file, numbers, texts, missing)
    columns = layout.columns
    if not file.is_gzip:  # gzip notices this itself
        with reading(file.path), file.path.open("rb") as lines:
            lines.seek(max(0, lines.seek(0, 2) - _TAIL_BYTES))
            tail = lines.read().decode("utf-8", errors="replace").rstrip("\r\n")
        n_cells = len(split_line(tail.rpartition("\n")[2], layout.separator))
        if n_cells < len(columns):
            raise FileError(
                f"{file.path}: ends in the middle of a row, after {n_cells} of "
                f"{len(columns)} columns: it was cut short; copy it again from its "
                "source."
            )
    try:
        try:
            schema = {c: pl.Float64 if c in numbers else pl.String for c in columns}
            scanned = _scanned(file, layout, missing=missing, schema=schema)
            batches = scanned.select([*numbers, *texts]).collect_batches(
                chunk_size=_BATCH_ROWS
            )
            # Somewhat more than its length and that of a line suggest.
            length = max(len(file.lines[-1]), 1)
            likely = int(1.2 * file.path.stat().st_size / length) + 1000
            return _gathered(batches, numbers, texts, likely=likely)
        except pl.exceptions.ComputeError:
            # Blanks around numbers, decimal commas in quotes, or no number at all.
            schema = dict.fromkeys(columns, pl.String)
            rows = _scanned(file, layout, missing=(), schema=schema).collect()
            return _from_text(rows, file, numbers, texts, missing)
    except (pl.exceptions.PolarsError, OSError, EOFError) as error:
        raise FileError(
            f"{file.path}: cannot be read as a table ({brief(error)}): it may be "
            "damaged or cut short; copy it again from its source."
        ) from error


def _scanned(
    file: SourceFile,
    layout: Layout,
    *,
    missing: Sequence[str],
    schema: Mapping[str, Any],
) -> Any:
    """Return a lazy frame over the rows below the header."""
    import polars as pl

    return pl.scan_csv(
        BytesIO(file.content) if file.is_gzip else file.path,
        glob=False,
        has_header=False,
        skip_lines=layout.header_line + 1,
        separator=layout.separator,
        decimal_comma=layout.decimal_comma,
        null_values=list(missing) or None,
        schema=schema,
    )


def _gathered(
    batches: Iterator[Any], numbers: Sequence[str], texts: Sequence[str], *, likely: int
) -> NumberCells:
    """Copy batches into one array, without empty rows at the end.

    `likely` rows are reserved; memory that is never touched costs nothing.
    """
    import polars as pl

    values = np.empty((likely, len(numbers)))
    n_rows = 0
    series: dict[str, list[Any]] = {text: [] for text in texts}
    for batch in batches:
        needed = n_rows + batch.height
        if needed > len(values):
            # A packed file; the system remaps pages here instead of copying them.
            values.resize((2 * needed, len(numbers)), refcheck=False)
        values[n_rows:needed] = batch.select(numbers).to_numpy(order="c")
        n_rows = needed
        for text in texts:
            series[text].append(batch[text])
    joined = {
        text: pl.concat(parts) if parts else pl.Series(text, [], pl.String)
        for text, parts in series.items()
    }
    n_full = _n_full(values[:n_rows], joined)
    values.resize((n_full, len(numbers)), refcheck=False)
    return NumberCells(
        values=values,
        texts={text: column.head(n_full) for text, column in joined.items()},
        n_empty=n_rows - n_full,
    )


def _n_full(values: Floats, texts: Mapping[str, Any]) -> int:
    """Return the number of rows up to the last one that holds anything."""
    for row in range(len(values) - 1, -1, -1):
        if not np.isnan(values[row]).all() or any(
            (column[row] or "").strip() for column in texts.values()
        ):
            return row + 1
    return 0


def _from_text(
    rows: Any,
    file: SourceFile,
    numbers: Sequence[str],
    texts: Sequence[str],
    missing: Sequence[str],
) -> NumberCells:
    """Return the cells of a table that was read as text; refuse what is no number.

    Blanks around numbers and decimal commas are accepted.
    """
    import polars as pl

    values = np.empty((rows.height, len(numbers)))
    for k, column in enumerate(numbers):
        cleaned = rows[column].str.strip_chars().str.replace(",", ".", literal=True)
        parsed = cleaned.cast(pl.Float64, strict=False)
        is_empty = cleaned.is_null() | (cleaned == "") | cleaned.is_in(list(missing))
        wrong = parsed.is_null() & ~is_empty
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise FileError(
                f"{file.path}: column {column!r} must hold numbers; data row {row + 1} "
                f"is {rows[column][row]!r:.60}: check that the file is the original "
                "one."
            )
        values[:, k] = parsed.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    n_full = _n_full(values, {text: rows[text] for text in texts})
    return NumberCells(
        values=values[:n_full],
        texts={text: rows[text].head(n_full) for text in texts},
        n_empty=len(values) - n_full,
    )


def seconds_of_text(
    texts: Any, formats: Sequence[str], *, file: SourceFile, column: str
) -> Floats:
    """Return time stamps as seconds since 1970, by the first format that fits all.

    Parameters
    ----------
    texts : polars series of text
        The stamps.
    formats : sequence of str
        In the notation of `strftime`, with ``%.3f`` for milliseconds.
    file, column
        Where the stamps are, for the message.

    Raises
    ------
    FileError
        If no format fits; the message names the first row that differs.
    """
    stripped = texts.str.strip_chars()
    for form in formats:
        times = stripped.str.to_datetime(form, time_unit="ms", strict=False)
        if not times.has_nulls():
            return np.asarray(times.to_physical().to_numpy() / 1000.0)
    first = stripped.str.to_datetime(formats[0], time_unit="ms", strict=False)
    row = int(first.is_null().arg_max() or 0)
    problem = "is empty" if texts[row] is None else f"is {texts[row]!r:.60}"
    advice = " The file may be cut short; copy it again from its source."
    example = datetime(2015, 12, 28, 16, 30).strftime(
        formats[0].replace("%.3f", ".000")
    )
    raise FileError(
        f"{file.path}: column {column!r} must hold time stamps like {example!r}; data "
        f"row {row + 1} {problem}.{advice if row == len(texts) - 1 else ''}"
    )
