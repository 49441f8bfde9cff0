"""Streams as folders of Parquet parts, and single Parquet tables, read in chunks.

A folder holds ``train/*.parquet`` and ``test/*.parquet`` (one column a channel, plus
``label`` and ``time``; in test also ``alarms`` and ``score``), optionally
``calibration/``, ``telemetry_train/`` and ``telemetry_test/``, and ``meta.json``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Ints, Residuals
from sightline.data.row_tables import KeptRows, Rows
from sightline.data.segments import breaks_kept, check_breaks
from sightline.data.stream import ResidualStream
from sightline.data.stream_input import attack_free_rows, check_same_channels
from sightline.errors import FileError, StreamError, naming
from sightline.files import brief, staged_folder
from sightline.storage.metadata import (
    attacks_from,
    attacks_to,
    breaks_from,
    known_from,
    known_to,
    parse_json,
    plain_json,
)
from sightline.storage.paths import stream_name

# Rows decoded at a time: 51 channels of float32 make 13 MB.
CHUNK_ROWS = 65_536
# Bytes of each column fetched at a time.
_BUFFER_BYTES = 131_072
_RESERVED = ("label", "time", "alarms", "score")
_TELEMETRY = ("telemetry_train", "telemetry_test")


@dataclass(frozen=True, eq=False)
class ParquetRows:
    """Some columns of Parquet files that belong one after another.

    `group_rows` are the rows of each row group of each file. Of a part of a longer
    table, `before` is the number of rows in the files before these, `skipped` that of
    rows left out at the beginning of the first file, and `taken` that of its own.
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
        """First row of each row group of a whole table, and the end."""
        sizes = [n_rows for groups in self.group_rows for n_rows in groups]
        return np.cumsum([0, *sizes])

    @property
    def n_channels(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def chunks(self) -> Iterator[Residuals]:
        """Yield the rows in order, decoded a piece at a time."""
        groups, to_skip = self._groups_to_skip()
        to_come = self.taken
        batches = _batches(
            self.files, self.columns, skip_groups=groups, threads=self.threads
        )
        for batch in batches:
            taken = batch[to_skip:] if to_come is None else batch[to_skip:][:to_come]
            to_skip = max(to_skip - batch.num_rows, 0)
            chunk = np.empty((taken.num_rows, len(self.columns)), self.dtype)
            for j, name in enumerate(self.columns):
                chunk[:, j] = _decoded(taken, name)
            yield chunk
            if to_come is not None:
                to_come -= len(chunk)
                if to_come == 0:
                    return

    def _groups_to_skip(self) -> tuple[int, int]:
        """Return how many row groups of the first file, and then rows, to leave out."""
        to_skip = self.skipped
        for group, n_rows in enumerate(self.group_rows[0]):
            if to_skip < n_rows:
                return group, to_skip
            to_skip -= n_rows
        return len(self.group_rows[0]), to_skip

    def between(self, first: int, stop: int) -> "ParquetRows":
        """Return the rows from `first` up to `stop`, to be read on one thread."""
        begin = self.skipped + first
        ends = np.cumsum([sum(groups) for groups in self.group_rows])
        low, high = np.searchsorted(ends, [begin, begin + stop - first], side="right")
        low, high = min(int(low), len(ends) - 1), min(int(high), len(ends) - 1) + 1
        ahead = int(ends[low - 1]) if low else 0
        return ParquetRows(
            self.files[low:high],
            self.columns,
            self.group_rows[low:high],
            self.dtype,
            before=self.before + ahead,
            skipped=begin - ahead,
            taken=stop - first,
            threads=False,
        )

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""
        number, in_file = self.before + self.skipped + row, self.skipped + row
        for path, groups in zip(self.files, self.group_rows, strict=True):
            if in_file < sum(groups):
                return f"row {number} ({path.name}, row {in_file})"
            in_file -= sum(groups)
        return f"row {number}"


def read_parquet_folder(folder: Path) -> ResidualStream:
    """Open a folder of Parquet parts as a stream that is read in chunks."""
    with naming(folder):
        meta = _read_meta(folder / "meta.json")
        listed = meta.pop("channels", None)
        segments = attacks_from(meta.pop("segments", []))
        train_breaks, test_breaks = (
            breaks_from(meta.pop(name, None), name)
            for name in ("train_breaks", "test_breaks")
        )
        known = known_from(meta, "meta.json")
        train_files = parts_of(folder / "train")
        columns = columns_of(train_files)
        channels = _channels(listed, columns)
        test_files = parts_of(folder / "test")
        test_columns = columns_of(test_files)
        check_same_channels(channels, _channels(listed, test_columns))
        extra = [c for c in test_columns if c not in channels]
        train, train_time = open_attack_free(
            train_files,
            channels,
            label="label" if "label" in columns else None,
            time="time" if "time" in columns else None,
            name="train",
        )
        series = {
            name: read_column(test_files, name) if name in extra else None
            for name in _RESERVED
        }
        given: dict[str, Any] = known
        if (folder / "calibration").exists():
            files = parts_of(folder / "calibration")
            check_same_channels(channels, _channels(listed, columns_of(files)))
            given["calibration"] = open_rows(files, channels)
        if any((folder / part).exists() for part in _TELEMETRY):
            files = parts_of(folder / _TELEMETRY[0])
            names = columns_of(files)
            given["telemetry_channels"] = names
            given["telemetry_train"] = open_rows(files, names)
            given["telemetry_test"] = open_rows(parts_of(folder / _TELEMETRY[1]), names)
        return ResidualStream(
            train,
            open_rows(test_files, channels),
            series["label"],
            alarms=series["alarms"],
            score=series["score"],
            train_time=train_time,
            test_time=series["time"],
            train_breaks=_breaks_kept(train_breaks, train),
            test_breaks=test_breaks,
            channels=channels,
            segments=segments,
            name=stream_name(folder),
            **given,
        )


def write_parquet_folder(
    stream: ResidualStream, folder: Path, *, part_rows: int = 1_000_000
) -> None:
    """Write a stream as a folder of Parquet parts, in place of an earlier one."""
    _check_writable(stream, folder)
    test_columns = {
        "label": stream.labels,
        "time": stream.test_time,
        "alarms": stream.alarms,
        "score": stream.score,
    }
    tables: list[tuple[str, Rows | None, Sequence[str], dict[str, Any]]] = [
        ("train", stream.train, stream.channels, {"time": stream.train_time}),
        ("test", stream.test, stream.channels, test_columns),
        ("calibration", stream.calibration, stream.channels, {}),
        ("telemetry_train", stream.telemetry_train, stream.telemetry_channels, {}),
        ("telemetry_test", stream.telemetry_test, stream.telemetry_channels, {}),
    ]
    meta = known_to(stream) | {
        "channels": list(stream.channels),
        "train_breaks": stream.train_breaks.tolist(),
        "test_breaks": stream.test_breaks.tolist(),
        "segments": attacks_to(stream.segments),
    }
    with staged_folder(folder, whole=True) as partial:
        for name, rows, channels, series in tables:
            if rows is not None:
                _write_parts(partial / name, rows, channels, series, part_rows)
        (partial / "meta.json").write_text(plain_json(meta), encoding="utf-8")


def _check_writable(stream: ResidualStream, folder: Path) -> None:
    clash = [name for name in stream.channels if name in _RESERVED]
    if clash:
        raise StreamError(
            f"`channels`: {clash[0]!r} cannot be a column of residuals in a Parquet "
            "folder, where it means something else: rename it, or write .npz."
        )
    own = {"train", "test", "calibration", *_TELEMETRY, "meta.json"}
    if folder.is_dir():
        other = sorted({path.name for path in folder.iterdir()} - own)
        if other:
            raise FileError(
                f"{folder}: holds {other[0]!r}, which is no part of a stream, so it is "
                "not replaced: choose another path."
            )


def _write_parts(
    folder: Path,
    rows: Rows,
    channels: Sequence[str],
    series: dict[str, npt.NDArray[Any] | None],
    part_rows: int,
) -> None:
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
                # Residuals hardly repeat, so a dictionary of them only costs.
                pq.write_table(
                    pa.table(columns), path, use_dictionary=["label", "alarms"]
                )
            except (pa.ArrowException, UnicodeEncodeError) as error:
                raise FileError(
                    f"{folder}: cannot be written as Parquet ({brief(error)})."
                ) from error
            start += len(piece)


def _breaks_kept(breaks: list[int] | None, rows: Rows) -> list[int] | Ints | None:
    """Return where runs begin among the rows that are kept; empty ones vanish."""
    if breaks is None or not isinstance(rows, KeptRows):
        return breaks
    whole = check_breaks(breaks, "train_breaks", len(rows.keep))
    return breaks_kept(whole, rows.keep)


def parts_of(folder: Path) -> tuple[Path, ...]:
    """Return the Parquet files of a folder, ``part-2`` before ``part-10``."""
    if not folder.is_dir():
        raise FileError(
            f"{folder}: is missing; a Parquet stream is a folder with train/*.parquet "
            "and test/*.parquet."
        )
    files = sorted(folder.glob("*.parquet"), key=lambda path: _natural(path.name))
    if not files:
        raise FileError(f"{folder}: holds no *.parquet file.")
    return tuple(files)


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [
        (1, int(piece), "") if piece.isdecimal() else (0, 0, piece)
        for piece in re.split(r"(\d+)", name)
    ]


def columns_of(files: Sequence[Path]) -> list[str]:
    """Return the columns of the parts, which must agree; their order may not."""
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
    """Open number columns of Parquet parts, to be read in chunks."""
    import pyarrow as pa

    if not columns:
        raise StreamError(
            f"{files[0].parent.name}/{files[0].name}: must have at least one channel; "
            "it has none."
        )
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


def open_attack_free(
    files: Sequence[Path],
    channels: Sequence[str],
    *,
    label: str | None,
    time: str | None,
    name: str,
) -> tuple[Rows, npt.NDArray[Any] | None]:
    """Open train rows, without those to be ignored; refuse attacks among them."""
    rows: Rows = open_rows(files, channels)
    stamps = None if time is None else read_column(files, time)
    if label is None:
        return rows, stamps
    keep = attack_free_rows(read_column(files, label), name)
    if keep.all():
        return rows, stamps
    return KeptRows(rows, keep), None if stamps is None else stamps[keep]


def read_column(files: Sequence[Path], name: str) -> npt.NDArray[Any]:
    """Return one whole column of the parts."""
    pieces = [_decoded(batch, name) for batch in _batches(files, [name])]
    if not pieces:
        return np.empty(0)
    return np.concatenate(pieces)


def read_whole(path: Path) -> Any:
    """Return a Parquet file as one polars frame."""
    import polars as pl
    import pyarrow as pa

    columns_of([path])
    opened = _opened(path)
    _rows_of_groups(opened.metadata, path)
    try:
        return pl.from_arrow(opened.read())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(
            f"{path}: is damaged ({brief(error)}): write it again."
        ) from error


def _rows_of_groups(metadata: Any, path: Path) -> tuple[int, ...]:
    """Return the rows of each row group, if the file agrees with itself about them."""
    # Asking for the columns of a group would end the process where they are damaged.
    counted = tuple(
        int(metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)
    )
    n_rows = int(metadata.num_rows)
    if n_rows != sum(counted) or n_rows < 0:
        raise FileError(
            f"{path}: is damaged (it contradicts itself on how many rows it has): "
            "write it again."
        )
    return counted


def _decoded(batch: Any, name: str) -> npt.NDArray[Any]:
    """Return a column of a batch; text as numpy text, if it is complete."""
    import pyarrow as pa

    column = batch.column(name)
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(
            column.type
        )
        if is_text and not column.null_count:
            return np.array(column.to_pylist(), dtype=np.str_)
        return np.asarray(column.to_numpy(zero_copy_only=False))
    except (pa.ArrowException, ValueError) as error:
        raise StreamError(
            f"`{name}` cannot be read as numbers ({brief(error)})."
        ) from error


def _opened(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # By default the whole file would be fetched into memory.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(
            f"{path}: is not a readable Parquet file ({brief(error)}): write it again."
        ) from error


def _batches(
    files: Sequence[Path],
    columns: Sequence[str],
    *,
    skip_groups: int = 0,
    threads: bool = True,
) -> Iterator[Any]:
    """Yield some rows at a time; `skip_groups` row groups of the first file not."""
    import pyarrow as pa

    for path in files:
        opened = _opened(path)
        try:
            yield from opened.iter_batches(
                batch_size=CHUNK_ROWS,
                row_groups=range(skip_groups, opened.num_row_groups),
                columns=list(columns),
                use_threads=threads,
            )
            skip_groups = 0
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, FileError | StreamError):
                raise
            raise FileError(
                f"{path}: is damaged ({brief(error)}): write it again."
            ) from error
        finally:
            opened.close()


def _read_meta(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        meta = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: must be a JSON object; {brief(error)}.") from error
    if not isinstance(meta, dict):
        raise FileError(f"{path}: must be a JSON object; got {type(meta).__name__}.")
    return meta


def _channels(listed: object, columns: Sequence[str]) -> list[str]:
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
