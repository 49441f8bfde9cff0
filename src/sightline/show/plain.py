"""Tables as plain values: CSV files, and frames of polars or pandas."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sightline.data.arrays import require
from sightline.errors import StreamError
from sightline.evaluation.result import plain
from sightline.show.table import Column, Record, TableCell
from sightline.text import csv_cell, did_you_mean

LIBRARIES = ("polars", "pandas")


def field_cell(path: str) -> Callable[[Any], TableCell]:
    """Return how a plain value is found in a record by the names of its fields.

    Parameters
    ----------
    path : str
        Such as ``segment.found.p_value``; None where a record on the way is None.

    Examples
    --------
    >>> field_cell("real")(1.5).values, field_cell("real.found")(1.5).values
    ((1.5,), (None,))
    """
    names = path.split(".")

    def get(record: Any) -> TableCell:
        for name in names:
            record = getattr(record, name, None)
        return TableCell(values=(plain(record),))

    return get


def values_of(columns: Sequence[Column[Record]], record: Record) -> Iterator[Any]:
    """Yield the plain values of a record, column by column; lists are JSON text."""
    for column in columns:
        cell = column.cell(record)
        for value in (cell.text,) if cell.values is None else cell.values:
            yield json.dumps(value) if isinstance(value, list | dict) else value


def csv_line(values: Iterable[Any]) -> list[object]:
    """Return values as cells of a CSV file; None is empty, no text is a formula."""
    return ["" if value is None else csv_cell(value) for value in values]


def to_csv(columns: Sequence[Column[Record]], records: Iterable[Record]) -> str:
    """Return the content of a CSV file: a header, and one line for each record."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([name for column in columns for name in column.names])
    writer.writerows(csv_line(values_of(columns, record)) for record in records)
    return text.getvalue()


def write_csv(
    columns: Sequence[Column[Record]], records: Iterable[Record], path: Path
) -> None:
    """Write a CSV file. A file's or an attack's name may hold what is no character."""
    text = to_csv(columns, records)
    path.write_bytes(text.encode("utf-8", errors="backslashreplace"))


def to_frame(
    columns: Sequence[Column[Record]], records: Sequence[Record], library: str
) -> Any:
    """Return a frame of polars or pandas, with one row for each record.

    Raises
    ------
    StreamError
        If the library is another one.
    MissingExtraError
        If it is not installed.
    """
    if library not in LIBRARIES:
        raise StreamError(
            f"There is no frame of {library!r}; {did_you_mean(str(library), LIBRARIES)}"
        )
    frames = require(library, extra=library, caller="to_frame")
    heads = [name for column in columns for name in column.names]
    rows = [list(values_of(columns, record)) for record in records]
    by_name = {name: [row[k] for row in rows] for k, name in enumerate(heads)}
    if library == "pandas":
        return frames.DataFrame(by_name)
    return frames.DataFrame(by_name, strict=False)
