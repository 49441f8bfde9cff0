"""Read one table as numbers, time and text, in any dialect and bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Labels
from sightline.errors import FileError
from sightline.files import brief, reading
from sightline.testbeds.discovery import Layout, SourceFile, cells

# Rows parsed before they are copied into the one array.
_BATCH_ROWS = 32_768
_TAIL_BYTES = 65_536


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
class Cells:
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

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)


def read_cells(
    file: SourceFile,
    layout: Layout,
    *,
    numbers: Sequence[str],
    texts: Sequence[str],
    missing: Sequence[str] = (),
) -> Cells:
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
        return _from_text(_excel_rows(file, layout), file, numbers, texts, missing)
    _check_last_line(file, layout)
    try:
        try:
            batches = _batches(file, layout, numbers, texts, missing)
            return _gathered(batches, numbers, texts, likely=file.likely_rows)
        except pl.exceptions.ComputeError:
            # Blanks around numbers, decimal commas in quotes, or no number at all.
            rows = _scanned(
                file,
                layout,
                missing=(),
                schema=dict.fromkeys(layout.columns, pl.String),
            ).collect()
            return _from_text(rows, file, numbers, texts, missing)
    except (pl.exceptions.PolarsError, OSError, EOFError) as error:
        raise FileError(
            f"{file.path}: cannot be read as a table ({brief(error)}): it may be "
            "damaged or cut short; copy it again from its source."
        ) from error


def _check_last_line(file: SourceFile, layout: Layout) -> None:
    """Refuse a file that ends in the middle of a row (gzip notices this itself)."""
    if file.is_gzip:
        return
    with reading(file.path), file.path.open("rb") as lines:
        lines.seek(max(0, lines.seek(0, 2) - _TAIL_BYTES))
        tail = lines.read().decode("utf-8", errors="replace").rstrip("\r\n")
    last = tail.rpartition("\n")[2]
    n_cells = len(cells(last, layout.separator))
    if n_cells < len(layout.columns):
        raise FileError(
            f"{file.path}: ends in the middle of a row, after {n_cells} of "
            f"{len(layout.columns)} columns: it was cut short; copy it again from its "
            "source."
        )


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
        file.path,
        glob=False,
        has_header=False,
        skip_lines=layout.header_line + 1,
        separator=layout.separator,
        decimal_comma=layout.decimal_comma,
        null_values=list(missing) or None,
        schema=schema,
    )


def _batches(
    file: SourceFile,
    layout: Layout,
    numbers: Sequence[str],
    texts: Sequence[str],
    missing: Sequence[str],
) -> Iterator[Any]:
    """Yield the wanted columns in batches of rows."""
    import polars as pl

    schema = {
        column: pl.Float64 if column in set(numbers) else pl.String
        for column in layout.columns
    }
    scanned = _scanned(file, layout, missing=missing, schema=schema)
    selected = scanned.select([*numbers, *texts])
    yield from selected.collect_batches(chunk_size=_BATCH_ROWS)


def _gathered(
    batches: Iterator[Any], numbers: Sequence[str], texts: Sequence[str], *, likely: int
) -> Cells:
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
    return Cells(
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


def _excel_rows(file: SourceFile, layout: Layout) -> Any:
    """Return the rows below the header of an Excel sheet, as text."""
    rows = file.frame.slice(layout.header_line + 1)
    return rows.rename(dict(zip(rows.columns, layout.columns, strict=True)))


def _from_text(
    rows: Any,
    file: SourceFile,
    numbers: Sequence[str],
    texts: Sequence[str],
    missing: Sequence[str],
) -> Cells:
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
    return Cells(
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
        times = _by_the_minute(stripped, form)
        if times is None:
            times = _one_by_one(stripped, form)
        if times is not None:
            return times
    first = stripped.str.to_datetime(formats[0], time_unit="ms", strict=False)
    row = int(first.is_null().arg_max() or 0)
    problem = "is empty" if texts[row] is None else f"is {texts[row]!r:.60}"
    ends = (
        " The file may be cut short; copy it again from its source."
        if row == len(texts) - 1
        else ""
    )
    raise FileError(
        f"{file.path}: column {column!r} must hold time stamps like "
        f"{_example(formats[0])}; data row {row + 1} {problem}.{ends}"
    )


# How many characters follow the seconds, by the end of a format.
_AFTER_SECONDS = {"%S": 0, "%S %p": 3, "%S%.3f %p": 7}


def _by_the_minute(texts: Any, form: str) -> Floats | None:
    """Parse one stamp of each minute and add the seconds; None if one does not fit.

    This is six times faster than parsing every stamp.
    """
    import polars as pl

    after = next((n for end, n in _AFTER_SECONDS.items() if form.endswith(end)), None)
    if after is None or not len(texts) or texts.has_nulls():
        return None
    within = texts.str.slice(-after - 2, 2).cast(pl.Float64, strict=False)
    begins = pl.Series([True]).append(
        (texts.str.head(-after - 2) != texts.str.head(-after - 2).shift(1))[1:]
    )
    if after:
        ends = texts.str.tail(after)
        begins = begins | (ends != ends.shift(1)).fill_null(True)
    starts = begins.arg_true().to_numpy()
    minutes = _one_by_one(texts.gather(starts), form)
    seconds = within.to_numpy()
    if minutes is None or within.has_nulls() or (seconds >= 60).any():
        return None
    lengths = np.diff(np.append(starts, len(texts)))
    return np.asarray(np.repeat(minutes - seconds[starts], lengths) + seconds)


def _one_by_one(texts: Any, form: str) -> Floats | None:
    """Parse each stamp by itself; None if one does not fit."""
    times = texts.str.to_datetime(form, time_unit="ms", strict=False)
    if times.has_nulls():
        return None
    return np.asarray(times.to_physical().to_numpy() / 1000.0)


def _example(form: str) -> str:
    """Return a time stamp as an example of a format."""
    return repr(datetime(2015, 12, 28, 16, 30).strftime(form.replace("%.3f", ".000")))
