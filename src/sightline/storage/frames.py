"""One table, in any form that `sightline.tables` reads, as a frame of numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, IGNORED, NORMAL
from sightline.data.stream_input import TableColumns, zone_in_text
from sightline.errors import FileError
from sightline.files import reading
from sightline.tables.cells import (
    has_certain_comma,
    label_codes,
    read_cells,
    word_numbers,
    words_in_text,
)
from sightline.tables.stamps import seconds_from
from sightline.tables.text_tables import PARQUET, ExportedTable


class NumberTable(NamedTuple):
    """A table of which every column that is used holds numbers.

    Parameters
    ----------
    frame : polars frame
        The table; time stamps are seconds, labels 1, 0 and -1.
    zone : str, optional
        "UTC" if its time stamps are text with offsets.
    notices : tuple of str
        How it was read, where that is not obvious.
    """

    frame: Any
    zone: str | None = None
    notices: tuple[str, ...] = ()


def check_table_file(path: Path) -> None:
    """Raise `FileError` if a table is missing or empty."""
    with reading(path):
        if not path.is_file():
            raise FileError(f"{path}: there is no such file.")
        if path.stat().st_size == 0:
            raise FileError(f"{path}: is empty.")


def is_parquet(path: Path) -> bool:
    """Return whether a file is a Parquet table, by its name."""
    return path.suffix.lower() in PARQUET


def read_numbers(
    table: ExportedTable, columns: TableColumns, time_format: str | None = None
) -> NumberTable:
    """Return a table with text as numbers, words of labels as codes, time as seconds.

    Parameters
    ----------
    table : ExportedTable
        The table as it was read.
    columns : TableColumns
        The columns of labels, time and alarms; columns to ignore stay as they are.
    time_format : str, optional
        The format of time stamps, where it cannot be found.

    Raises
    ------
    FileError
        If a cell is no number; the message names its line.
    """
    import polars as pl

    path, frame, notices = table.path, table.frame, list(table.notices)
    zone = None
    texts = [c for c in frame.columns if frame[c].dtype == pl.String]
    no_numbers = (columns.label, columns.time, *columns.ignore)
    channels = [c for c in texts if c not in no_numbers]
    decimal_comma = table.decimal_comma or any(
        has_certain_comma(frame[column]) for column in channels
    )
    for column in frame.columns:
        series = frame[column]
        if column == columns.time:
            seconds = seconds_from(
                series, path=path, time_format=time_format, place_of=_place_of(table)
            )
            notices += [f"{path.name}: {text}." for text in seconds.notices]
            zone = zone_in_text(series)
            frame = frame.with_columns(pl.Series(column, seconds.seconds))
        elif column == columns.label:
            codes, words = label_codes(series)
            _check_labels(codes, table, column)
            if words:
                notices.append(f"{path.name}: labels were read as {words}.")
            frame = frame.with_columns(pl.Series(column, codes))
        elif column in channels and (alarms := _alarm_codes(series, columns)):
            notices.append(f"{path.name}: alarms were read as {alarms[1]}.")
            frame = frame.with_columns(alarms[0])
        elif column in channels:
            frame = frame.with_columns(_numbers(series, table, decimal_comma))
        elif str(series.dtype) in ("Int128", "UInt128"):
            frame = frame.with_columns(series.cast(pl.Float64))
    return NumberTable(frame, zone, tuple(notices))


def _check_labels(codes: npt.NDArray[Any], table: ExportedTable, column: str) -> None:
    """Raise `FileError` with the line of the first label that is none of 0, 1, -1.

    A missing label is left to the stream, which names it too.
    """
    import polars as pl

    if codes.dtype.kind in "if":
        wrong = ~np.isin(codes, (ATTACK, NORMAL, IGNORED)) & ~np.isnan(codes)
    else:
        unknown = {
            word
            for word in set(codes.tolist())
            if label_codes(pl.Series([word], dtype=pl.String))[0].dtype.kind != "f"
        }
        wrong = np.array([word in unknown for word in codes.tolist()], bool)
    if wrong.any():
        row = int(wrong.argmax())
        value = codes[row] if codes.dtype.kind == "O" else f"{codes[row]:g}"
        raise FileError(
            f"{table.path}: column {column!r} must hold 0 (normal), 1 (attack) or -1 "
            f"(ignore), or words such as Normal and Attack; {_place_of(table)(row)} is "
            f"{value!r} ({int(wrong.sum())} such rows): map your labels to these."
        )


def _alarm_codes(column: Any, columns: TableColumns) -> tuple[Any, str] | None:
    """Return a column of alarms in two words as 0 and 1, and the map in words.

    None if it is something else.

    Exactly one of the two must be a word such as on, true, active or alarm.
    """
    import polars as pl

    if column.name != columns.alarms:
        return None
    texts = column.str.strip_chars().str.to_lowercase()
    words = texts.drop_nulls().unique().sort().to_list()
    codes = {word: (word_numbers([word]) or {}).get(word, -1) for word in words}
    if texts.null_count() or sorted(codes.values()) not in ([0], [1], [0, 1]):
        return None
    mapped = texts.replace_strict(codes, return_dtype=pl.Int8)
    return mapped.alias(column.name), words_in_text(codes, column.unique())


def _place_of(table: ExportedTable) -> Callable[[int], str]:
    """Return a function that names a row by its number and its line."""

    def place_of(row: int) -> str:
        line = f" ({table.place_of(row)})" if table.first_line else ""
        return f"row {row}{line}"

    return place_of


def _numbers(column: Any, table: ExportedTable, decimal_comma: bool) -> Any:
    """Return a column of text as numbers; raise if one is not, naming its line.

    polars reads whole numbers as text if one is "nan" or padded with blanks.
    """
    cells = read_cells(column, path=table.path, decimal_comma=decimal_comma)
    is_bad = cells.words.is_not_null()
    if cells.numbers.is_not_null().any() and not is_bad.any():
        return cells.numbers.alias(column.name)
    row = int(is_bad.arg_max() or 0)
    content = "is empty" if column[row] is None else f"is {column[row]!r:.60}"
    raise FileError(
        f"{table.path}: column {column.name!r} must hold numbers; "
        f"{_place_of(table)(row)} {content}: repair it, or, if this column is the "
        "label or the time, say so with --label or --time."
    )
