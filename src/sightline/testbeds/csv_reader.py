"""One file as numbers, time and texts, whatever its dialect; in bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Labels
from sightline.errors import FileError
from sightline.files import brief, reading
from sightline.testbeds.discovery import Layout, SourceFile, cells

# Rows parsed before they are put in their place.
_BATCH_ROWS = 32_768
_TAIL_BYTES = 65_536


@dataclass(frozen=True, kw_only=True, eq=False)
class ParsedFile:
    """What one file of a testbed holds.

    Parameters
    ----------
    channels : tuple of str
        Names of the columns of `values`.
    values : array of shape (n_rows, n_channels)
        The measured numbers; nan where the file has none.
    time : array of shape (n_rows,)
        Seconds since 1970 on the plant's own clock.
    labels : array of shape (n_rows,), optional
        1 attack, 0 normal, -1 ignore, as the file says; None if it says nothing.
    notices : tuple of str
        What was left out or found odd, a sentence each.
    """

    channels: tuple[str, ...]
    values: Floats
    time: Floats
    labels: Labels | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The cells of a table: numbers in one array, text columns by name.

    `n_empty` rows at the end, without anything in them, are left out.
    """

    values: Floats
    texts: dict[str, Any]
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

    A cell that is empty or among `missing` becomes nan; any other text among numbers
    is refused, with its place.
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
    """Refuse a file that ends in the middle of a row (a packed one says so itself)."""
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
    file: SourceFile, layout: Layout, *, missing: Sequence[str], schema: dict[str, Any]
) -> Any:
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
    import polars as pl

    kept = set(numbers)
    schema = {
        column: pl.Float64 if column in kept else pl.String for column in layout.columns
    }
    scanned = _scanned(file, layout, missing=missing, schema=schema)
    selected = scanned.select([*numbers, *texts])
    yield from selected.collect_batches(chunk_size=_BATCH_ROWS)


def _gathered(
    batches: Iterator[Any],
    numbers: Sequence[str],
    texts: Sequence[str],
    *,
    likely: int,
) -> Cells:
    """Put batches into one array; room that is not needed costs nothing."""
    import polars as pl

    values = np.empty((likely, len(numbers)))
    n_rows = 0
    heard: dict[str, list[Any]] = {text: [] for text in texts}
    for batch in batches:
        needed = n_rows + batch.height
        if needed > len(values):
            # A packed file; the system moves pages here, it need not copy them.
            values.resize((2 * needed, len(numbers)), refcheck=False)
        values[n_rows:needed] = batch.select(numbers).to_numpy(order="c")
        n_rows = needed
        for text in texts:
            heard[text].append(batch[text])
    joined = {
        text: pl.concat(parts) if parts else pl.Series(text, [], pl.String)
        for text, parts in heard.items()
    }
    n_full = _n_full(values[:n_rows], joined)
    values.resize((n_full, len(numbers)), refcheck=False)
    return Cells(
        values=values,
        texts={text: told.head(n_full) for text, told in joined.items()},
        n_empty=n_rows - n_full,
    )


def _n_full(values: Floats, texts: dict[str, Any]) -> int:
    """Return the number of rows up to the last one that holds anything."""
    for row in range(len(values) - 1, -1, -1):
        if not np.isnan(values[row]).all() or any(
            (told[row] or "").strip() for told in texts.values()
        ):
            return row + 1
    return 0


def _excel_rows(file: SourceFile, layout: Layout) -> Any:
    rows = file.frame.slice(layout.header_line + 1)
    return rows.rename(dict(zip(rows.columns, layout.columns, strict=True)))


def _from_text(
    rows: Any,
    file: SourceFile,
    numbers: Sequence[str],
    texts: Sequence[str],
    missing: Sequence[str],
) -> Cells:
    import polars as pl

    values = np.empty((rows.height, len(numbers)))
    for k, column in enumerate(numbers):
        cleaned = rows[column].str.strip_chars().str.replace(",", ".", literal=True)
        parsed = cleaned.cast(pl.Float64, strict=False)
        nothing = cleaned.is_null() | (cleaned == "") | cleaned.is_in(list(missing))
        wrong = parsed.is_null() & ~nothing
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
    """Return time stamps as seconds, by the first format that fits them all."""
    stripped = texts.str.strip_chars()
    for form in formats:
        times = _by_the_minute(stripped, form)
        if times is None:
            times = _each_by_itself(stripped, form)
        if times is not None:
            return times
    first = stripped.str.to_datetime(formats[0], time_unit="ms", strict=False)
    row = int(first.is_null().arg_max() or 0)
    found = "is empty" if texts[row] is None else f"is {texts[row]!r:.60}"
    ends = (
        " The file may be cut short; copy it again from its source."
        if row == len(texts) - 1
        else ""
    )
    raise FileError(
        f"{file.path}: column {column!r} must hold time stamps like "
        f"{_example(formats[0])}; data row {row + 1} {found}.{ends}"
    )


# What follows the seconds, by the end of a format: there they can be cut out.
_AFTER_SECONDS = {"%S": 0, "%S %p": 3, "%S%.3f %p": 7}


def _by_the_minute(texts: Any, form: str) -> Floats | None:
    """Parse one stamp of each minute and add the seconds: six times faster than all.

    None where the stamps are not all of that form.
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
    minutes = _each_by_itself(texts.gather(starts), form)
    seconds = within.to_numpy()
    if minutes is None or within.has_nulls() or (seconds >= 60).any():
        return None
    lengths = np.diff(np.append(starts, len(texts)))
    return np.asarray(np.repeat(minutes - seconds[starts], lengths) + seconds)


def _each_by_itself(texts: Any, form: str) -> Floats | None:
    """Return the seconds of each time stamp; None if one is not of that form."""
    times = texts.str.to_datetime(form, time_unit="ms", strict=False)
    if times.has_nulls():
        return None
    return np.asarray(times.to_physical().to_numpy() / 1000.0)


def _example(form: str) -> str:
    from datetime import datetime

    return repr(datetime(2015, 12, 28, 16, 30).strftime(form.replace("%.3f", ".000")))
