"""A Parquet copy of each parsed file, in a hidden folder beside the data.

It lies below the testbed's root, so that whoever deletes the data deletes it too. The
copy is named after the SHA-256 of the file it was made from: a file that changed has no
copy, and is read anew.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sightline.errors import FileError
from sightline.files import staged_file
from sightline.testbeds.csv_reader import ParsedFile
from sightline.testbeds.discovery import CACHE_FOLDER, SourceFile

# Raise it whenever a reader makes other numbers of the same bytes.
READER_VERSION = 1
_GROUP_ROWS = 65_536


def parsed_once(
    file: SourceFile, root: Path, parse: Callable[[], ParsedFile], *, use_cache: bool
) -> ParsedFile:
    """Return what a file holds: from its Parquet copy, else parsed and then copied."""
    if not use_cache:
        return parse()
    # Names of files have a longest length.
    stem = file.place.replace("/", "__")[-100:]
    folder = root / CACHE_FOLDER
    digest = file.sha256
    copy = folder / f"{stem}.{digest[:20]}.{READER_VERSION}.parquet"
    known = _read_copy(copy) if copy.is_file() else None
    if known is not None:
        return known
    parsed = parse()
    try:
        for older in folder.glob("*.parquet"):
            if re.fullmatch(
                rf"{re.escape(stem)}\.[0-9a-f]{{20}}\.\d+\.parquet", older.name
            ):
                older.unlink()
        with staged_file(copy) as partial:
            _write_copy(parsed, partial)
    except (FileError, OSError):
        # A folder that cannot be written to, or a full disk: nothing is lost but time.
        pass
    return parsed


def _write_copy(parsed: ParsedFile, path: Path) -> None:
    """Write rows as they lie in memory: a row's bytes are one cell of the table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept = {"channels": parsed.channels, "notices": parsed.notices}
    row = pa.binary(8 * max(len(parsed.channels), 1))
    fields = [pa.field("row", row), pa.field("time", pa.float64())]
    if parsed.labels is not None:
        fields.append(pa.field("label", pa.int8()))
    schema = pa.schema(fields, metadata={"sightline": json.dumps(kept)})
    values = parsed.values if parsed.channels else np.zeros((len(parsed.time), 1))
    with pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for start in range(0, len(values), _GROUP_ROWS):
            rows = slice(start, start + _GROUP_ROWS)
            block = np.ascontiguousarray(values[rows])
            arrays = [
                pa.FixedSizeBinaryArray.from_buffers(
                    row, len(block), [None, pa.py_buffer(block)]
                ),
                pa.array(parsed.time[rows]),
            ]
            if parsed.labels is not None:
                arrays.append(pa.array(parsed.labels[rows]))
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _read_copy(path: Path) -> ParsedFile | None:
    """Return what was copied; None where the copy is damaged and must be made anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            kept = json.loads(file.schema_arrow.metadata[b"sightline"])
            channels, notices = tuple(kept["channels"]), tuple(kept["notices"])
            n_rows, width = file.metadata.num_rows, max(len(channels), 1)
            values, time = np.empty((n_rows, width)), np.empty(n_rows)
            has_labels = "label" in file.schema_arrow.names
            labels = np.empty(n_rows, np.int8) if has_labels else None
            start = 0
            for batch in file.iter_batches(_GROUP_ROWS):
                rows = slice(start, start + batch.num_rows)
                cells = batch.column("row")
                values[rows] = np.frombuffer(cells.buffers()[1], np.float64).reshape(
                    -1, width
                )[cells.offset : cells.offset + len(cells)]
                time[rows] = batch.column("time").to_numpy()
                if labels is not None:
                    labels[rows] = batch.column("label").to_numpy()
                start = rows.stop
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        return None
    return ParsedFile(
        channels=channels,
        values=values if channels else values[:, :0],
        time=time,
        labels=labels,
        notices=notices,
    )
