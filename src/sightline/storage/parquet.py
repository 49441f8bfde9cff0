"""Streams as folders of Parquet files, and single Parquet tables, read in chunks.

A folder holds::

    train/*.parquet            one column for each channel; optionally label, time
    test/*.parquet             the same channels; optionally label, time, alarms, score
    calibration/*.parquet      the same channels; optional
    telemetry_train/*.parquet  one column for each channel of the plant; optional
    telemetry_test/*.parquet   the same columns; optional
    meta.json                  detector, testbed, space, step_s, channels, segments,
                               train_breaks, test_breaks, meta, notices; optional

Files of a folder are read in the order of the numbers in their names. Residuals are
never all in memory, and only the columns that are needed are read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Ints, Residuals, require
from sightline.data.row_tables import AsArray, Rows
from sightline.data.stream import ResidualStream
from sightline.data.stream_input import check_same_channels, without_ignored
from sightline.errors import FileError, StreamError, naming
from sightline.files import brief, damage, parse_json, read_document, staged_folder
from sightline.storage import metadata

# Rows decoded at a time: 3 MB for 51 channels of float32. More are no faster.
CHUNK_ROWS = 16_384
# Bytes of each column fetched at a time.
_BUFFER_BYTES = 131_072
_RESERVED = ("label", "time", "alarms", "score")
_TELEMETRY = ("telemetry_train", "telemetry_test")

# Columns with one value for each row; None if the stream has none.
_Series = Mapping[str, npt.NDArray[Any] | None]


@dataclass(frozen=True, eq=False, repr=False)
class ParquetRows(AsArray):
    """Some columns of Parquet files that follow one another.

    Parameters
    ----------
    files : tuple of Path
        The files, in order.
    columns : tuple of str
        The columns to read.
    group_rows : tuple of tuple of int
        Number of rows of each row group of each file.
    dtype : dtype
        float32 or float64.
    before : int
        Number of rows in the files before these, of which this is a range.
    skipped : int
        Number of rows left out at the beginning of the first file.
    taken : int, optional
        Number of rows. Not given: all that follow.
    threads : bool
        Whether to decode on several threads.
    """

    files: tuple[Path, ...]
    columns: tuple[str, ...]
    group_rows: tuple[tuple[int, ...], ...]
    dtype: "np.dtype[Any]"
    before: int = 0
    skipped: int = 0
    taken: int | None = None
    threads: bool = True

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.taken is not None:
            return self.taken
        return sum(map(sum, self.group_rows)) - self.skipped

    @property
    def group_starts(self) -> Ints:
        """First row of each row group, and the number of rows, of the whole files."""
        sizes = [n_rows for groups in self.group_rows for n_rows in groups]
        return np.cumsum([0, *sizes])

    @property
    def n_channels(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def chunks(self) -> Iterator[Residuals]:
        """Yield the rows in order, decoded `CHUNK_ROWS` at a time."""
        groups, to_skip = self._groups_to_skip()
        n_left = self.taken
        batches = _batches(
            self.files, self.columns, skip_groups=groups, threads=self.threads
        )
        for batch in batches:
            taken = batch[to_skip:] if n_left is None else batch[to_skip:][:n_left]
            to_skip = max(to_skip - batch.num_rows, 0)
            chunk = np.empty((taken.num_rows, len(self.columns)), self.dtype)
            for j, name in enumerate(self.columns):
                chunk[:, j] = _decoded(taken, name)
            yield chunk
            if n_left is not None:
                n_left -= len(chunk)
                if n_left == 0:
                    return

    def _groups_to_skip(self) -> tuple[int, int]:
        """Return how many row groups of the first file to skip, and then rows."""
        to_skip = self.skipped
        for group, n_rows in enumerate(self.group_rows[0]):
            if to_skip < n_rows:
                return group, to_skip
            to_skip -= n_rows
        return len(self.group_rows[0]), to_skip

    def between(self, first: int, stop: int) -> "ParquetRows":
        """Return the rows [first, stop), to be read on one thread."""
        begin = self.skipped + first
        ends = np.cumsum([sum(groups) for groups in self.group_rows])
        low, high = np.searchsorted(ends, [begin, begin + stop - first], side="right")
        low, high = min(int(low), len(ends) - 1), min(int(high), len(ends) - 1) + 1
        ahead = int(ends[low - 1]) if low else 0
        return replace(
            self,
            files=self.files[low:high],
            group_rows=self.group_rows[low:high],
            before=self.before + ahead,
            skipped=begin - ahead,
            taken=stop - first,
            threads=False,
        )

    def where(self, row: int) -> str:
        """Return the place of a row in words, with file and row in it."""
        number, in_file = self.before + self.skipped + row, self.skipped + row
        for path, n_rows in zip(self.files, map(sum, self.group_rows), strict=True):
            if in_file < n_rows:
                return f"row {number} ({path.name}, row {in_file})"
            in_file -= n_rows
        return f"row {number}"


def read_parquet_folder(folder: Path) -> ResidualStream:
    """Open a folder of Parquet files as a stream that is read in chunks.

    Parameters
    ----------
    folder : Path
        The folder; its name becomes the stream's name.

    Returns
    -------
    ResidualStream
        Labels, time stamps, alarms and scores are in memory, residuals are not.
        Train rows that are labelled -1 are left out.

    Raises
    ------
    FileError
        If a file is missing or damaged, or a column is missing or does not hold
        numbers.
    StreamError
        If the columns do not make a valid stream.
    """
    with naming(folder):
        meta = _read_meta(folder / "meta.json")
        listed = meta.pop("channels", None)
        segments = metadata.attacks_from(meta.pop("segments", []))
        breaks = {
            name: metadata.breaks_from(meta.pop(name, None), name)
            for name in ("train_breaks", "test_breaks")
        }
        facts = metadata.facts_from(meta, "meta.json")
        train_files, test_files = files_in(folder / "train"), files_in(folder / "test")
        columns, test_columns = columns_of(train_files), columns_of(test_files)
        channels = _channels(listed, columns)
        check_same_channels(channels, _channels(listed, test_columns))
        train, train_time, train_breaks = without_ignored(
            open_rows(train_files, channels),
            read_column(train_files, "label", columns),
            read_column(train_files, "time", columns),
            breaks["train_breaks"],
        )
        others = [c for c in test_columns if c not in channels]
        series = {name: read_column(test_files, name, others) for name in _RESERVED}
        stream = ResidualStream(
            train,
            open_rows(test_files, channels),
            series["label"],
            alarms=series["alarms"],
            score=series["score"],
            train_time=train_time,
            test_time=series["time"],
            train_breaks=train_breaks,
            test_breaks=breaks["test_breaks"],
            channels=channels,
            segments=segments,
            name=metadata.stream_name(folder),
            **vars(facts),
            **_open_optional(folder, channels, listed),
        )
        metadata.check_meta(stream.meta, stream.channels)
        return stream


def _open_optional(
    folder: Path, channels: Sequence[str], listed: object
) -> dict[str, Any]:
    """Return calibration and telemetry of a folder, as arguments of a stream."""
    given: dict[str, Any] = {}
    if (folder / "calibration").exists():
        files = files_in(folder / "calibration")
        check_same_channels(channels, _channels(listed, columns_of(files)))
        given["calibration"] = open_rows(files, channels)
    if any((folder / split).exists() for split in _TELEMETRY):
        names = columns_of(files_in(folder / _TELEMETRY[0]))
        given["telemetry_channels"] = names
        for split in _TELEMETRY:
            given[split] = open_rows(files_in(folder / split), names)
    return given


def write_parquet_folder(
    stream: ResidualStream, folder: Path, *, part_rows: int = 1_000_000
) -> None:
    """Write a stream as a folder of Parquet files, in place of an earlier one.

    Parameters
    ----------
    stream : ResidualStream
        The stream; none of its channels may have a name of another column.
    folder : Path
        The folder; if it exists, it must be one that this function wrote.
    part_rows : int
        The most rows of a file.

    Raises
    ------
    StreamError
        If a channel has the name of another column.
    FileError
        If the folder holds other files, or cannot be written.
    """
    _check_writable(stream, folder)
    of_test = (stream.labels, stream.test_time, stream.alarms, stream.score)
    test_columns = dict(zip(_RESERVED, of_test, strict=True))
    tables: list[tuple[str, Rows | None, Sequence[str], _Series]] = [
        ("train", stream.train, stream.channels, {"time": stream.train_time}),
        ("test", stream.test, stream.channels, test_columns),
        ("calibration", stream.calibration, stream.channels, {}),
        ("telemetry_train", stream.telemetry_train, stream.telemetry_channels, {}),
        ("telemetry_test", stream.telemetry_test, stream.telemetry_channels, {}),
    ]
    meta = metadata.facts_json(stream) | {
        "channels": list(stream.channels),
        "train_breaks": stream.train_breaks.tolist(),
        "test_breaks": stream.test_breaks.tolist(),
        "segments": metadata.attacks_json(stream.segments),
    }
    with staged_folder(folder, whole=True) as partial:
        for name, rows, channels, series in tables:
            if rows is not None:
                _write_files(partial / name, rows, channels, series, part_rows)
        (partial / "meta.json").write_text(metadata.plain_json(meta), encoding="utf-8")


def _check_writable(stream: ResidualStream, folder: Path) -> None:
    """Raise an error for a reserved channel name or other files in the folder."""
    clash = [name for name in stream.channels if name in _RESERVED]
    if clash:
        raise StreamError(
            f"`channels`: {clash[0]!r} cannot be a column of residuals in a Parquet "
            "folder, where it means something else: rename it, or write .npz."
        )
    contents = {"train", "test", "calibration", *_TELEMETRY, "meta.json"}
    if folder.is_dir():
        others = sorted({path.name for path in folder.iterdir()} - contents)
        if others:
            raise FileError(
                f"{folder}: holds {others[0]!r}, which is no part of a stream, so it "
                "is not replaced: choose another path."
            )


def _write_files(
    folder: Path, rows: Rows, channels: Sequence[str], series: _Series, part_rows: int
) -> None:
    """Write rows, and series with one value for each, as files of a new folder."""
    _check_arrow(folder)
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    start = 0
    for chunk in rows.chunks():
        for first in range(0, len(chunk), part_rows):
            piece = chunk[first : first + part_rows]
            columns = {name: piece[:, j] for j, name in enumerate(channels)}
            for name, values in series.items():
                if values is not None:
                    columns[name] = values[start : start + len(piece)]
            path = folder / f"part-{start:012d}.parquet"
            try:
                # Residuals hardly repeat, so a dictionary of them only takes space.
                pq.write_table(
                    pa.table(columns), path, use_dictionary=["label", "alarms"]
                )
            except (pa.ArrowException, UnicodeEncodeError) as error:
                raise FileError(
                    f"{folder}: cannot be written as Parquet ({brief(error)})."
                ) from error
            start += len(piece)


def files_in(folder: Path) -> tuple[Path, ...]:
    """Return the Parquet files of a folder, ``part-2`` before ``part-10``.

    Raises `FileError` if there is no such folder, or no such file in it.
    """
    if not folder.is_dir():
        raise FileError(
            f"{folder}: is missing; a Parquet stream is a folder with train/*.parquet "
            "and test/*.parquet."
        )
    files = sorted(
        folder.glob("*.parquet"),
        # Every second piece of a name is a number.
        key=lambda path: [
            (int(piece), "") if k % 2 else (0, piece)
            for k, piece in enumerate(re.split(r"(\d+)", path.name))
        ],
    )
    if not files:
        raise FileError(f"{folder}: holds no *.parquet file.")
    return tuple(files)


def columns_of(files: Sequence[Path]) -> list[str]:
    """Return the columns of Parquet files, in the order of the first file.

    Raises
    ------
    FileError
        If a file has two columns of one name, or other columns than the first file.
    """
    first: list[str] | None = None
    for path in files:
        names = list(_opened(path).schema_arrow.names)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise FileError(f"{path}: has two columns called {twice!r}: rename one.")
        if first is None:
            first = names
        elif set(names) != set(first):
            different = sorted(set(names) ^ set(first))
            raise FileError(
                f"{path}: has other columns than {files[0].name} (differing: "
                f"{', '.join(different[:6])}); all parts must have the same."
            )
    return first or []


def open_rows(files: Sequence[Path], columns: Sequence[str]) -> ParquetRows:
    """Return number columns of Parquet files as rows that are read in chunks.

    Parameters
    ----------
    files : sequence of Path
        The files, in the order of their rows.
    columns : sequence of str
        The columns, in the order of the channels.

    Returns
    -------
    ParquetRows
        In float32 if all columns fit into it, else in float64. Nothing but the
        metadata of the files has been read.

    Raises
    ------
    FileError
        If a column is missing or does not hold numbers, or a file is damaged.
    StreamError
        If there is no column.
    """
    if not columns:
        raise StreamError(
            f"{files[0].parent.name}/{files[0].name}: must have at least one channel; "
            "it has none."
        )
    _check_arrow(files[0])
    import pyarrow as pa

    types, group_rows = set(), []
    for path in files:
        opened = _opened(path)
        group_rows.append(_rows_of_groups(opened.metadata, path))
        for name in columns:
            index = opened.schema_arrow.get_field_index(name)
            if index < 0:
                raise FileError(f"{path}: has no column {name!r}.")
            kind = opened.schema_arrow.field(index).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
                raise FileError(
                    f"{path}: column {name!r} must hold numbers; it holds {kind}."
                )
            types.add(np.dtype(kind.to_pandas_dtype()))
    dtype = np.result_type(np.float32, *types)
    return ParquetRows(tuple(files), tuple(columns), tuple(group_rows), dtype)


def read_column(
    files: Sequence[Path], name: str | None, columns: Sequence[str]
) -> npt.NDArray[Any] | None:
    """Return one whole column of Parquet files; None if it is not among `columns`."""
    if name is None or name not in columns:
        return None
    pieces = [_decoded(batch, name) for batch in _batches(files, [name])]
    return np.concatenate(pieces) if pieces else np.empty(0)


def _rows_of_groups(table: Any, path: Path) -> tuple[int, ...]:
    """Return the number of rows of each row group; raise if their sum is wrong."""
    # Reading the columns of a group would end the process if they are damaged.
    counted = tuple(
        int(table.row_group(g).num_rows) for g in range(table.num_row_groups)
    )
    n_rows = int(table.num_rows)
    if n_rows != sum(counted) or n_rows < 0:
        raise FileError(
            f"{path}: is damaged (it contradicts itself on how many rows it has): "
            "write it again."
        )
    return counted


def _decoded(batch: Any, name: str) -> npt.NDArray[Any]:
    """Return a column of a batch as array; complete text becomes numpy text."""
    import pyarrow as pa

    column = batch.column(name)
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        is_text = column.type in (pa.string(), pa.large_string())
        if is_text and not column.null_count:
            return np.array(column.to_pylist(), dtype=np.str_)
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(
            column.type
        )
        if is_number and not column.null_count:
            # Does not import pandas, as `to_numpy` does if there is one.
            return np.from_dlpack(column)
        return np.asarray(column.to_numpy(zero_copy_only=False))
    except (pa.ArrowException, ValueError) as error:
        raise StreamError(
            f"`{name}` cannot be read as numbers ({brief(error)})."
        ) from error


def _check_arrow(path: Path) -> None:
    """Raise `MissingExtraError` if Parquet cannot be read or written."""
    require("pyarrow", extra="parquet", caller=f"{path}: Parquet")


def _opened(path: Path) -> Any:
    """Return an open Parquet file; raise `FileError` if it is none."""
    _check_arrow(path)
    import pyarrow.parquet as pq

    with _damaged(path, "is not a readable Parquet file"):
        # By default the whole file would be read into memory.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES)


def _damaged(path: Path, what: str = "is damaged") -> AbstractContextManager[None]:
    """Turn what pyarrow raises inside for a damaged file into a `FileError`."""
    import pyarrow as pa

    return damage(f"{path}: {what}", pa.ArrowException, OSError, ValueError)


def _batches(
    files: Sequence[Path],
    columns: Sequence[str],
    *,
    skip_groups: int = 0,
    threads: bool = True,
) -> Iterator[Any]:
    """Yield batches of rows, without the first `skip_groups` row groups."""
    for path in files:
        with _damaged(path), closing(_opened(path)) as opened:
            yield from opened.iter_batches(
                batch_size=CHUNK_ROWS,
                row_groups=range(skip_groups, opened.num_row_groups),
                columns=list(columns),
                use_threads=threads,
            )
        skip_groups = 0


def _read_meta(path: Path) -> dict[str, object]:
    """Return the JSON object in ``meta.json``; an empty one if there is no file."""
    if not path.exists():
        return {}
    try:
        meta = parse_json(read_document(path).decode("utf-8"))
    except ValueError as error:
        raise FileError(f"{path}: must be a JSON object; {brief(error)}.") from error
    if not isinstance(meta, dict):
        raise FileError(f"{path}: must be a JSON object; got {type(meta).__name__}.")
    return meta


def _channels(listed: object, columns: Sequence[str]) -> list[str]:
    """Return the residual columns: those listed in ``meta.json``, else all others."""
    if listed is None:
        return [name for name in columns if name not in _RESERVED]
    if not isinstance(listed, list):
        raise StreamError("`channels` in meta.json must be a list of column names.")
    missing = [name for name in listed if name not in columns]
    if missing:
        raise StreamError(
            f"`channels` in meta.json names columns that are not there: "
            f"{', '.join(map(repr, missing[:6]))}."
        )
    return [str(name) for name in listed]
