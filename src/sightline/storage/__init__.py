"""Streams and evaluations on disk. Only this package knows their file formats.

A stream is an ``.npz`` file, a Parquet folder or an IPAL folder (`read_stream`), or two
tables, train and test, in CSV or Parquet files (`read_tables`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightline.data.stream import ResidualStream
from sightline.data.stream_input import table_channels, without_ignored
from sightline.errors import FileError, naming
from sightline.files import reading
from sightline.storage.ipal import read_ipal, state_file
from sightline.storage.metadata import is_npz, stream_name
from sightline.storage.npz import read_npz, write_npz
from sightline.storage.parquet import (
    columns_of,
    open_rows,
    read_column,
    read_parquet_folder,
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
from sightline.tables.cells import has_certain_comma, label_codes, read_cells
from sightline.tables.stamps import seconds_from
from sightline.tables.text_tables import PARQUET, Table, read_table

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
        The tables, in any form that `sightline.tables` reads. Two Parquet files are
        read in chunks, a text file whole.
    label : str, optional
        Column of `test` with 1 attack, 0 normal, -1 ignored, or words such as Normal
        and Attack. If `train` has it too, no
        row of `train` may be an attack, and ignored rows are left out.
    time : str, optional
        Column with time stamps: seconds, dates or text.
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
    frames, notices = [], [*known.pop("notices", ())]
    for path in paths:
        frame, said = _read_frame(path, label=label, time=time)
        frames.append(frame)
        notices += said
    known["notices"] = notices
    with naming(f"{train}, {test}"):
        return ResidualStream.from_tables(
            *frames, label=label, time=time, name=name, **known
        )


def _from_parquet(
    train: Path, test: Path, *, label: str | None, time: str | None, **known: Any
) -> ResidualStream:
    """Return a stream of two Parquet files, which is read in chunks."""
    import polars as pl

    with naming(f"{train}, {test}"):
        train_columns, test_columns = columns_of([train]), columns_of([test])
        channels = table_channels(train_columns, test_columns, label=label, time=time)
        train_time = read_column([train], time, train_columns)
        labels, notices = [], [*known.get("notices", ())]
        for path, columns in ((train, train_columns), (test, test_columns)):
            codes, words = read_column([path], label, columns), ""
            if codes is not None:
                codes, words = label_codes(pl.Series(codes))
            labels.append(codes)
            notices += [f"{path.name}: labels were read as {words}."] if words else []
        known["notices"] = notices
        rows, known["train_time"], known["train_breaks"] = without_ignored(
            open_rows([train], channels),
            labels[0],
            known.get("train_time") if train_time is None else train_time,
            known.get("train_breaks"),
        )
        return ResidualStream(
            rows,
            open_rows([test], channels),
            labels[1],
            test_time=read_column([test], time, test_columns),
            channels=channels,
            **known,
        )


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in PARQUET


def _read_frame(
    path: Path, *, label: str | None, time: str | None
) -> tuple[Any, list[str]]:
    """Return a table of numbers as polars frame, and notices about how it was read."""
    import polars as pl

    table = read_table(path)
    frame, notices = table.frame, list(table.notices)
    texts = [c for c in frame.columns if frame[c].dtype == pl.String]
    channels = [c for c in texts if c not in (label, time)]
    decimal_comma = table.decimal_comma or any(
        has_certain_comma(frame[column]) for column in channels
    )
    for column in frame.columns:
        series = frame[column]
        if column == time:
            seconds = seconds_from(series, path=path, place_of=_place_of(table))
            notices += [f"{path.name}: {text}." for text in seconds.notices]
            frame = frame.with_columns(pl.Series(column, seconds.seconds))
        elif column == label:
            codes, words = label_codes(series)
            if words:
                notices.append(f"{path.name}: labels were read as {words}.")
            frame = frame.with_columns(pl.Series(column, codes))
        elif column in channels:
            frame = frame.with_columns(_numbers(series, table, decimal_comma))
        elif str(series.dtype) in ("Int128", "UInt128"):
            frame = frame.with_columns(series.cast(pl.Float64))
    return frame, notices


def _place_of(table: Table) -> Callable[[int], str]:
    """Return a function that names a row by its number and its line."""

    def place_of(row: int) -> str:
        line = f" ({table.place_of(row)})" if table.first_line else ""
        return f"row {row}{line}"

    return place_of


def _numbers(column: Any, table: Table, decimal_comma: bool) -> Any:
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
