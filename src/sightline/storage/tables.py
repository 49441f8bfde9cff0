"""Streams as two tables, train and test, in CSV or Parquet files."""

from pathlib import Path
from typing import Any

from sightline.errors import FileError, StreamError, naming
from sightline.storage.parquet import (
    columns_of,
    open_attack_free,
    open_rows,
    read_column,
)
from sightline.stream import ResidualStream, check_same_channels

# Rows looked at to tell numbers from text; a file that surprises later is read anew.
_INFER_ROWS = 10_000


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
    if all(path.suffix.lower() in (".parquet", ".pq") for path in paths):
        return _from_parquet(*paths, label=label, time=time, name=name, **known)
    frames = [_read_frame(path, skip={label, time}) for path in paths]
    with naming(f"{train}, {test}"):
        return ResidualStream.from_tables(
            *frames, label=label, time=time, name=name, **known
        )


def _from_parquet(
    train: Path, test: Path, *, label: str | None, time: str | None, **known: Any
) -> ResidualStream:
    for path in (train, test):
        _must_exist(path)
    with naming(f"{train}, {test}"):
        train_columns, test_columns = columns_of([train]), columns_of([test])
        for column, option in ((label, "label"), (time, "time")):
            if column is not None and column not in test_columns:
                raise StreamError(
                    f"`test` has no column {column!r} to take the {option} from."
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


def _read_frame(path: Path, skip: set[str | None]) -> Any:
    import polars as pl

    _must_exist(path)
    suffix = path.suffix.lower()
    try:
        if suffix in (".parquet", ".pq"):
            frame = pl.read_parquet(path)
        elif suffix in (".csv", ".txt", ".gz"):
            frame = _read_csv(path)
        else:
            raise FileError(
                f"{path}: is neither .csv nor .parquet; a table must be one of them."
            )
    except (pl.exceptions.PolarsError, ValueError) as error:
        first_line = (str(error).splitlines() or [""])[0][:200]
        raise FileError(
            f"{path}: cannot be read as a table ({first_line}): check that it has one "
            "header line and the same number of columns in each row."
        ) from error
    if frame.height == 0:
        raise FileError(f"{path}: has a header but no rows.")
    for column in frame.columns:
        if frame[column].dtype == pl.String and column not in skip:
            _refuse_text(path, frame[column])
    return frame


def _read_csv(path: Path) -> Any:
    import polars as pl

    try:
        return pl.read_csv(path, infer_schema_length=_INFER_ROWS)
    except pl.exceptions.ComputeError:
        return pl.read_csv(path, infer_schema_length=None)


def _refuse_text(path: Path, column: Any) -> None:
    """Say which cell of a channel is not a number."""
    import polars as pl

    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    row = int((numbers.is_null() & column.is_not_null()).arg_max() or 0)
    raise FileError(
        f"{path}: column {column.name!r} must hold numbers; row {row} (line {row + 2}) "
        f"is {column[row]!r:.60}: repair it, or, if this column is the label or the "
        "time, say so with --label or --time."
    )


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise FileError(f"{path}: there is no such file.")
    if path.stat().st_size == 0:
        raise FileError(f"{path}: is empty.")
