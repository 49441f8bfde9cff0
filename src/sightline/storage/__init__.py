"""Streams and evaluations on disk. Only this package knows their file formats.

A stream is an ``.npz`` file, a Parquet folder or an IPAL folder (`read_stream`), or two
tables, train and test, in CSV or Parquet files (`read_tables`).
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.stream import ResidualStream
from sightline.data.stream_input import seconds_of, table_channels, without_ignored
from sightline.errors import FileError, naming
from sightline.files import damage, reading
from sightline.storage.ipal import read_ipal, state_file
from sightline.storage.metadata import is_npz, stream_name
from sightline.storage.npz import read_npz, write_npz
from sightline.storage.parquet import (
    columns_of,
    open_rows,
    read_column,
    read_parquet_folder,
    read_whole,
    write_parquet_folder,
)
from sightline.storage.results import (
    Result,
    check_out,
    folder_name,
    gather_results,
    read_evaluation,
    read_results,
    read_traces,
    write_json,
    write_results,
)

__all__ = [
    "Result",
    "check_out",
    "folder_name",
    "gather_results",
    "read_evaluation",
    "read_results",
    "read_stream",
    "read_tables",
    "read_traces",
    "stream_name",
    "write_json",
    "write_results",
    "write_stream",
]

# Rows from which column types are inferred; if later rows differ, all rows are used.
_INFER_ROWS = 10_000
# The name that polars gives to a second column of the same name.
_DUPLICATE = re.compile(r"^(.*)_duplicated_\d+$", re.MULTILINE)


def read_stream(path: str | Path, *, detector: str | None = None) -> ResidualStream:
    """Read a residual stream: an ``.npz`` file, a Parquet folder or an IPAL folder.

    The rows of a Parquet folder stay on disk and are read in chunks when needed.

    Parameters
    ----------
    path : path
        The file or folder; its name, without ``.npz``, becomes the stream's name.
    detector : str, optional
        Which detector's scores to take from an IPAL folder that holds several.

    Returns
    -------
    ResidualStream
        The checked stream.

    Raises
    ------
    FileError
        If the file or folder cannot be read.
    StreamError
        If its contents do not make a valid stream.
    """
    path = Path(path)
    with reading(path):
        if (path / "train").is_dir() or (path / "test").is_dir():
            return read_parquet_folder(path)
        if path.is_dir() and (state_file(path, "train") or state_file(path, "test")):
            return read_ipal(path, detector=detector)
        if path.is_dir():
            raise FileError(
                f"{path}: is a folder without train/*.parquet (a Parquet stream) and "
                "without train.state (an IPAL stream)."
            )
        if not path.exists():
            raise FileError(f"{path}: there is no such file or folder.")
        if not is_npz(path):
            raise FileError(
                f"{path}: is not an .npz file or a stream folder; for two tables pass "
                "--train and --test."
            )
        if path.stat().st_size == 0:
            raise FileError(f"{path}: is empty.")
        return read_npz(path)


def write_stream(stream: ResidualStream, path: str | Path) -> None:
    """Write a stream to a file or folder that `read_stream` reads back.

    It is written whole or not at all; an earlier stream of that name is replaced.

    Parameters
    ----------
    stream : ResidualStream
        The stream.
    path : path
        An ``.npz`` file if it ends in ``.npz``, else a folder of Parquet files.

    Raises
    ------
    FileError
        If it cannot be written, or the folder holds other files.
    StreamError
        If a channel has a name with another meaning in a Parquet folder, as ``label``.

    Examples
    --------
    >>> import tempfile
    >>> from sightline import ResidualStream, read_stream, write_stream
    >>> stream = ResidualStream([[0.1], [-0.2], [0.0]], [[0.1], [5.0]], [0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_stream(stream, f"{folder}/mine.npz")
    ...     read_stream(f"{folder}/mine.npz")
    ResidualStream 'mine': 1 channel, 3 train rows, 2 test rows, 1 attack
    """
    path = Path(path)
    if path.suffix.lower() == ".npz":
        write_npz(stream, path)
    else:
        write_parquet_folder(stream, path)


def read_tables(
    train: str | Path,
    test: str | Path,
    *,
    label: str | None = None,
    time: str | None = None,
    name: str | None = None,
    **known: Any,
) -> ResidualStream:
    r"""Read a stream from two CSV or Parquet tables, one column a channel.

    Parameters
    ----------
    train, test : path
        The tables. Two Parquet files are read in chunks, a CSV file whole.
    label : str, optional
        Column of `test` with 1 attack, 0 normal, -1 ignored. If `train` has it too, no
        row of `train` may be an attack, and ignored rows are left out.
    time : str, optional
        Column with time stamps: seconds, dates or ISO text.
    name : str, optional
        Name of the stream. Not given: the stem of `test`.
    **known
        Any further argument of `ResidualStream`, such as ``step_s``.

    Returns
    -------
    ResidualStream
        The checked stream; its channels are the columns of `train`, in that order.

    Raises
    ------
    FileError
        If a file cannot be read, or a column holds text; the message names the line.
    StreamError
        If the two tables do not make a valid stream.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train, test = Path(folder, "train.csv"), Path(folder, "test.csv")
    ...     _ = train.write_text("LIT101\n0.1\n-0.2\n0.0\n")
    ...     _ = test.write_text("LIT101,attack\n0.1,0\n5.0,1\n")
    ...     read_tables(train, test, label="attack", name="mine")
    ResidualStream 'mine': 1 channel, 3 train rows, 2 test rows, 1 attack
    """
    paths = Path(train), Path(test)
    name = name or paths[1].stem
    for path in paths:
        with reading(path):
            if not path.is_file():
                raise FileError(f"{path}: there is no such file.")
            if path.stat().st_size == 0:
                raise FileError(f"{path}: is empty.")
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
    """Return a stream of two Parquet files, which is read in chunks."""
    with naming(f"{train}, {test}"):
        train_columns, test_columns = columns_of([train]), columns_of([test])
        channels = table_channels(train_columns, test_columns, label=label, time=time)
        train_time = read_column([train], time, train_columns)
        rows, known["train_time"], known["train_breaks"] = without_ignored(
            open_rows([train], channels),
            read_column([train], label, train_columns),
            known.get("train_time") if train_time is None else train_time,
            known.get("train_breaks"),
        )
        return ResidualStream(
            rows,
            open_rows([test], channels),
            read_column([test], label, test_columns),
            test_time=read_column([test], time, test_columns),
            channels=channels,
            **known,
        )


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _read_frame(path: Path, *, label: str | None, time: str | None) -> Any:
    """Return a table as polars frame, with text columns as numbers or seconds."""
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
    """Return a CSV file as polars frame."""
    import polars as pl

    if path.suffix.lower() not in (".csv", ".txt", ".gz"):
        raise FileError(
            f"{path}: is neither .csv nor .parquet; a table must be one of them."
        )
    with damage(
        f"{path}: cannot be read as a table",
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError),
        advice="check that it has one header line and the same number of columns in "
        "each row",
    ):
        try:
            frame = pl.read_csv(path, infer_schema_length=_INFER_ROWS)
        except pl.exceptions.ComputeError:
            frame = pl.read_csv(path, infer_schema_length=None)
    twice = _DUPLICATE.search("\n".join(frame.columns))
    if twice is not None and twice[1] in frame.columns:
        raise FileError(f"{path}: has two columns called {twice[1]!r}: rename one.")
    return frame


def _seconds(column: Any, path: Path) -> Any:
    """Return a column of ISO text as seconds; raise if a row has none."""
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
    """Return a column of text as numbers; raise if one is not, naming its line.

    polars reads whole numbers as text if one is "nan" or padded with blanks.
    """
    import polars as pl

    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    is_bad = numbers.is_null() & column.is_not_null()
    if numbers.is_not_null().any() and not is_bad.any():
        return numbers
    row = int(is_bad.arg_max() or 0)
    content = "is empty" if column[row] is None else f"is {column[row]!r:.60}"
    raise FileError(
        f"{path}: column {column.name!r} must hold numbers; row {row} (line {row + 2}) "
        f"{content}: repair it, or, if this column is the label or the time, say so "
        "with --label or --time."
    )
