"""A Parquet copy of each parsed file, in a hidden folder beside the data.

It lies below the testbed's root, so that whoever deletes the data deletes it too. The
copy is named after the SHA-256 of the file it was made from: a file that changed has no
copy, and is read anew.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sightline.atomic import staged_file
from sightline.errors import FileError
from sightline.testbeds.discovery import CACHE_FOLDER, SourceFile
from sightline.testbeds.tables import ParsedFile

# Raise it whenever a reader makes other numbers of the same bytes.
READER_VERSION = 1
_GROUP_ROWS = 65_536


def parsed_once(
    file: SourceFile, root: Path, parse: Callable[[], ParsedFile], *, use_cache: bool
) -> ParsedFile:
    """Return what a file holds: from its Parquet copy, else parsed and then copied."""
    if not use_cache:
        return parse()
    stem = file.place.replace("/", "__")
    folder = root / CACHE_FOLDER
    digest = file.fingerprint.sha256
    copy = folder / f"{stem}.{digest[:20]}.{READER_VERSION}.parquet"
    known = _read_copy(copy) if copy.is_file() else None
    if known is not None:
        return known
    parsed = parse()
    try:
        for older in folder.glob(f"{_literal(stem)}.*.parquet"):
            older.unlink()
        with staged_file(copy) as partial:
            _write_copy(parsed, partial)
    except (FileError, OSError):
        # A folder that cannot be written to, or a full disk: nothing is lost but time.
        pass
    return parsed


def _write_copy(parsed: ParsedFile, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept = {"channels": parsed.channels, "notices": parsed.notices}
    names = [f"c{k}" for k in range(len(parsed.channels))]
    fields = [pa.field(name, pa.float64()) for name in ["time", *names]]
    if parsed.labels is not None:
        fields.append(pa.field("label", pa.int8()))
    schema = pa.schema(fields, metadata={"sightline": json.dumps(kept)})
    with pq.ParquetWriter(
        path, schema, compression="lz4", use_dictionary=False, write_statistics=False
    ) as writer:
        for start in range(0, len(parsed.values), _GROUP_ROWS):
            rows = slice(start, start + _GROUP_ROWS)
            block = np.ascontiguousarray(parsed.values[rows].T)
            columns = [parsed.time[rows], *block]
            if parsed.labels is not None:
                columns.append(parsed.labels[rows])
            arrays = [pa.array(column) for column in columns]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _read_copy(path: Path) -> ParsedFile | None:
    """Return what was copied; None where the copy is damaged and must be made anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            kept = json.loads(file.schema_arrow.metadata[b"sightline"])
            n_rows = file.metadata.num_rows
            channels = tuple(kept["channels"])
            values = np.empty((n_rows, len(channels)))
            time = np.empty(n_rows)
            has_labels = "label" in file.schema_arrow.names
            labels = np.empty(n_rows, np.int8) if has_labels else None
            start = 0
            for batch in file.iter_batches(_GROUP_ROWS):
                rows = slice(start, start + batch.num_rows)
                time[rows] = batch.column("time").to_numpy()
                if labels is not None:
                    labels[rows] = batch.column("label").to_numpy()
                columns = [batch.column(k + 1) for k in range(len(channels))]
                values[rows] = np.stack(
                    [c.to_numpy(zero_copy_only=False) for c in columns], axis=1
                )
                start = rows.stop
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        return None
    return ParsedFile(
        channels=channels,
        values=values,
        time=time,
        labels=labels,
        notices=tuple(kept["notices"]),
    )


def _literal(text: str) -> str:
    """Return a glob pattern that matches a text and nothing else."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
