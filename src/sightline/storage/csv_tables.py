"""Streams as two tables, train and test, in CSV or Parquet files."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.stream import ResidualStream
from sightline.data.stream_input import check_same_channels, seconds_of
from sightline.errors import FileError, StreamError, naming
from sightline.files import brief, reading
from sightline.storage.parquet import (
    columns_of,
    open_attack_free,
    open_rows,
    read_column,
    read_whole,
)

# Rows looked at to tell numbers from text; a file that surprises later is read anew.
_INFER_ROWS = 10_000
# What polars calls a second column of one name.
_DUPLICATE = re.compile(r"^(.*)_duplicated_\d+$", re.MULTILINE)


def read_tables(
    train: str | Path,
    test: str | Path,
    *,
    label: str | None = None,
    time: str | None = None,
    name: str | None = None,
    **known: Any,
) -> ResidualStream:
    """Read a stream from two CSV or Parquet tables, one column a channel.

    Parameters
    ----------
    train, test : path
        The tables; Parquet is read in chunks, CSV whole.
    label : str, optional
        Column of `test` with 1 attack, 0 normal, -1 ignore.
    time : str, optional
        Column with time stamps.
    name : str, optional
        What to call the stream; else the stem of `test`.
    **known
        Any further argument of `ResidualStream`, such as ``step_s``.
    """
    paths = Path(train), Path(test)
    name = name or paths[1].stem
    for path in paths:
        _must_exist(path)
    if all(_is_parquet(path) for path in paths):
        return _from_parquet(*paths, label=label, time=time, name=name, **known)
    frames = [_read_frame(path, label=label, time=time) for path in paths]
    with naming(f"{train}, {test}"):
        return ResidualStream.from_tables(
            *frames, label=label, time=time, name=name, **known
        )


def _from_parquet(
    train: Path, test: Path, *, label: str | None, time: str | None, **known: Any
) -> ResidualStream:
    with naming(f"{train}, {test}"):
        train_columns, test_columns = columns_of([train]), columns_of([test])
        for column, option in ((label, "label"), (time, "time")):
            if column is not None and column not in test_columns:
                raise StreamError(
                    f"`test` has no column {column!r} to take the {option} from; it "
                    f"has {', '.join(map(repr, test_columns[:6]))}"
                    f"{' and more' if len(test_columns) > 6 else ''}."
                )
        channels = [c for c in train_columns if c not in (label, time)]
        check_same_channels(
            channels, [c for c in test_columns if c not in (label, time)]
        )
        rows, train_time = open_attack_free(
            [train],
            channels,
            label=label if label in train_columns else None,
            time=time if time in train_columns else None,
            name="train",
        )
        return ResidualStream(
            rows,
            open_rows([test], channels),
            None if label is None else read_column([test], label),
            train_time=train_time,
            test_time=None if time is None else read_column([test], time),
            channels=channels,
            **known,
        )


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _read_frame(path: Path, *, label: str | None, time: str | None) -> Any:
    import polars as pl

    frame = read_whole(path) if _is_parquet(path) else _read_csv(path)
    if frame.height == 0:
        raise FileError(f"{path}: has a header but no rows.")
    for column in frame.columns:
        if str(frame[column].dtype) in ("Int128", "UInt128"):
            frame = frame.with_columns(frame[column].cast(pl.Float64))
        if frame[column].dtype != pl.String:
            continue
        if column == time:
            frame = frame.with_columns(_seconds(frame[column], path))
        elif column != label:
            frame = frame.with_columns(_numbers(frame[column], path))
    return frame


def _read_csv(path: Path) -> Any:
    import polars as pl

    if path.suffix.lower() not in (".csv", ".txt", ".gz"):
        raise FileError(
            f"{path}: is neither .csv nor .parquet; a table must be one of them."
        )
    try:
        try:
            frame = pl.read_csv(path, infer_schema_length=_INFER_ROWS)
        except pl.exceptions.ComputeError:
            frame = pl.read_csv(path, infer_schema_length=None)
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
        ValueError,
    ) as error:
        raise FileError(
            f"{path}: cannot be read as a table ({brief(error)}): check that it has "
            "one header line and the same number of columns in each row."
        ) from error
    twice = _DUPLICATE.search("\n".join(frame.columns))
    if twice is not None and twice[1] in frame.columns:
        raise FileError(f"{path}: has two columns called {twice[1]!r}: rename one.")
    return frame


def _seconds(column: Any, path: Path) -> Any:
    """Return a column of ISO text as seconds."""
    import polars as pl

    missing = column.is_null().arg_max()
    if column.has_nulls():
        raise FileError(
            f"{path}: column {column.name!r} must be complete; row {missing} (line "
            f"{missing + 2}) has no time."
        )
    with naming(path):
        seconds = seconds_of(np.array(column.to_list(), dtype=np.str_), column.name)
    return pl.Series(column.name, seconds)


def _numbers(column: Any, path: Path) -> Any:
    """Return a column of text as the numbers it holds, or say which is none.

    Whole numbers among which one is "nan", or padded with blanks, come as text.
    """
    import polars as pl

    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    is_bad = numbers.is_null() & column.is_not_null()
    if numbers.is_not_null().any() and not is_bad.any():
        return numbers
    row = int(is_bad.arg_max() or 0)
    found = "is empty" if column[row] is None else f"is {column[row]!r:.60}"
    raise FileError(
        f"{path}: column {column.name!r} must hold numbers; row {row} (line {row + 2}) "
        f"{found}: repair it, or, if this column is the label or the time, say so "
        "with --label or --time."
    )


def _must_exist(path: Path) -> None:
    with reading(path):
        if not path.is_file():
            raise FileError(f"{path}: there is no such file.")
        if path.stat().st_size == 0:
            raise FileError(f"{path}: is empty.")
