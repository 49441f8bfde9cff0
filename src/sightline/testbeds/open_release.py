"""From a folder to parsed files: recognise, choose the release, read, check counts.

Each parsed file is kept as a Parquet copy in a hidden folder below the testbed's root,
so that deleting the data deletes the copies too. A copy is named after the SHA-256 of
its source: a file that changed has no copy and is parsed again.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from sightline.data.arrays import ATTACK
from sightline.data.segments import run_bounds
from sightline.errors import FileError, SightlineError
from sightline.files import staged_file
from sightline.progress import Progress, Step, StepKind, silent
from sightline.testbeds.base import MOST_NAMES, ParsedPart, Part, Reader
from sightline.testbeds.csv_reader import ParsedFile, SourceFile, find_files
from sightline.text import did_you_mean, names

CACHE_FOLDER = ".sightline-cache"
# Raise it whenever a reader makes other numbers of the same bytes.
READER_VERSION = 1
_GROUP_ROWS = 65_536


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """The parts of one release, parsed.

    Parameters
    ----------
    release : str
        The release that was chosen.
    parts : tuple of ParsedPart
        In the order of `Reader.needed`.
    notices : tuple of str
        What was chosen or left out on the way.
    departures : tuple of str
        How the files differ from the counts the release is known to have.
    """

    release: str
    parts: tuple[ParsedPart, ...]
    notices: tuple[str, ...]
    departures: tuple[str, ...]


def open_parts(
    reader: Reader,
    root: str | Path,
    *,
    release: str | None,
    use_cache: bool,
    progress: Progress = silent,
) -> Opened:
    """Find a testbed's files below a folder, choose the release and read them.

    Parameters
    ----------
    reader : Reader
        The testbed.
    root : path
        Any folder above the files.
    release : str, optional
        The wanted release; else the first of the card that is complete.
    use_cache : bool
        Read from Parquet copies, and write them where there are none.
    progress : callable
        Takes a `Step` for each part.

    Raises
    ------
    FileError
        If a part is missing, damaged, or only a Git LFS pointer.
    """
    folder = Path(root).expanduser()
    files = find_files(folder)
    recognised = _recognised(reader, files)
    release, notices = _chosen(reader, folder, files, recognised, release)
    needed = reader.needed(release)
    parts = []
    for done, name in enumerate(needed):
        progress(Step(StepKind.READING, done, len(needed), name))
        part, *copies = [
            p for p in recognised if p.name == name and release in p.releases
        ]
        if copies:
            others = [copy.file.place for copy in copies]
            notices.append(
                f"{name} was read from {part.file.place}; also found, and not read: "
                f"{names(others, MOST_NAMES)}."
            )
        parsed = parsed_once(
            part.file, folder, partial(reader.parse, part), use_cache=use_cache
        )
        notices.extend(parsed.notices)
        parts.append(ParsedPart(part=part, parsed=parsed))
    return Opened(
        release=release,
        parts=tuple(parts),
        notices=tuple(notices),
        departures=tuple(text for part in parts for text in _departures(part)),
    )


def found_releases(reader: Reader, files: Sequence[SourceFile]) -> list[str]:
    """Return the releases of which every part is among some files."""
    return _complete(reader, _recognised(reader, files))


def _complete(reader: Reader, parts: Sequence[Part]) -> list[str]:
    """Return the releases of which no part is missing, in the order of the card."""
    return [r for r in reader.card.releases if not _missing(reader, parts, r)]


def _recognised(reader: Reader, files: Sequence[SourceFile]) -> list[Part]:
    """Return the parts among files, in the order of the files.

    Excel files are opened only if no release is complete without them. Git LFS pointers
    are never parts.
    """
    parts: list[Part] = []
    for is_excel in (False, True):
        if is_excel and _complete(reader, parts):
            break
        candidates = [f for f in files if f.is_excel == is_excel and not f.is_pointer]
        parts += filter(None, map(reader.recognise, candidates))
    return parts


def _missing(reader: Reader, parts: Sequence[Part], release: str) -> list[str]:
    """Return the names of the parts that a release lacks."""
    have = {part.name for part in parts if release in part.releases}
    return [name for name in reader.needed(release) if name not in have]


def _chosen(
    reader: Reader,
    folder: Path,
    files: Sequence[SourceFile],
    parts: Sequence[Part],
    wanted: str | None,
) -> tuple[str, list[str]]:
    """Return the release to read, and notices about the choice.

    Parameters
    ----------
    reader, folder, files, parts
        The testbed, the folder, all files in it, and those that were recognised.
    wanted : str, optional
        A release in upper or lower case; else the first that is complete.

    Raises
    ------
    FileError
        If the wanted release is unknown, or it, or every release, lacks a part.
    """
    card = reader.card
    if wanted is not None:
        by_name = {release.lower(): release for release in card.releases}
        if wanted.lower() not in by_name:
            raise FileError(
                f"{card.title} has no release {wanted!r}; "
                f"{did_you_mean(wanted, card.releases)}"
            )
        wanted = by_name[wanted.lower()]
        if _missing(reader, parts, wanted):
            raise _incomplete(reader, folder, files, parts, wanted)
        return wanted, []
    complete = _complete(reader, parts)
    if not complete:
        # The release of which the largest share is present is the likely one.
        share = {
            release: len(_missing(reader, parts, release)) / len(reader.needed(release))
            for release in card.releases
        }
        raise _incomplete(
            reader, folder, files, parts, min(share, key=share.__getitem__)
        )
    notices = []
    if len(complete) > 1:
        notices.append(
            f"{folder} holds the releases {names(complete)}; {complete[0]} was read: "
            f"choose another with release={complete[1]!r}."
        )
    return complete[0], notices


def _incomplete(
    reader: Reader,
    folder: Path,
    files: Sequence[SourceFile],
    parts: Sequence[Part],
    release: str,
) -> FileError:
    """Return the error for a release with missing parts.

    The message gives the most likely cause: a known damaged copy, an Excel file that
    cannot be opened, a Git LFS pointer, or else simply the names of the missing parts.
    """
    card = reader.card
    missing = names(_missing(reader, parts, release), MOST_NAMES)
    damaged = [part for part in parts if not part.releases]
    if damaged:
        return FileError(f"{damaged[0].file.path}: is {damaged[0].name}")
    for file in files:
        if file.is_excel:
            try:
                _ = file.frame
            except SightlineError as error:  # it may have been the missing one
                return FileError(str(error))
    pointers = [file.place for file in files if file.is_pointer]
    present = [part.file.place for part in parts if release in part.releases]
    what = f"{card.title} {release}" if len(card.releases) > 1 else card.title
    if pointers:
        return FileError(
            f"{folder}: {names(pointers, MOST_NAMES)} holds a Git LFS pointer of some "
            f"130 bytes and not the data; {what} needs {missing}: run `git lfs pull` "
            "in that folder, or download the files themselves."
        )
    has = (
        f"has {names(present, MOST_NAMES)} but not"
        if present
        else "has no file that is"
    )
    return FileError(
        f"{folder}: {has} {missing} of {what}; found "
        f"{len(files)} CSV and Excel files in all: {card.where}"
    )


def _departures(read: ParsedPart) -> list[str]:
    """Return how a file differs from its expected counts, a sentence each.

    Compared are rows and, if the file has labels, attack rows and attack runs; counts
    that are unknown are not compared.
    """
    expected, parsed, path = read.part.expected, read.parsed, read.part.file.path
    texts = []
    n_rows = len(parsed.values)
    if expected.rows is not None and n_rows != expected.rows:
        is_short = n_rows < expected.rows
        likely = "it seems cut short" if is_short else "it is another edition"
        texts.append(
            f"{path}: has {n_rows:,} rows where {read.part.name} has "
            f"{expected.rows:,}; {likely}: copy it again from its source, or read it "
            "as it is with strict=False."
        )
    if parsed.labels is None:
        return texts
    is_attack = parsed.labels == ATTACK
    counts = {
        "attack rows": (int(is_attack.sum()), expected.attack_rows),
        "attack runs": (len(run_bounds(is_attack)[0]), expected.attack_runs),
    }
    texts.extend(
        f"{path}: labels {count:,} {what} where {read.part.name} has {known:,}: its "
        "labels were changed; copy it again from its source, or read it as it is with "
        "strict=False."
        for what, (count, known) in counts.items()
        if known is not None and count != known
    )
    return texts


def parsed_once(
    file: SourceFile, root: Path, parse: Callable[[], ParsedFile], *, use_cache: bool
) -> ParsedFile:
    """Return the content of a file: from its Parquet copy, else parsed and copied.

    Parameters
    ----------
    file : SourceFile
        The file.
    root : Path
        The folder in which `CACHE_FOLDER` lies.
    parse : callable
        Called without arguments if there is no intact copy.
    use_cache : bool
        If False, parse and neither read nor write a copy.

    Returns
    -------
    ParsedFile
        The same arrays, bit for bit, whether parsed or read from the copy. Copies of
        older contents of the file are deleted; a copy that cannot be written is
        skipped.
    """
    if not use_cache:
        return parse()
    # File systems limit the length of a name.
    stem = file.place.replace("/", "__")[-100:]
    folder = root / CACHE_FOLDER
    digest = file.sha256
    copy = folder / f"{stem}.{digest[:20]}.{READER_VERSION}.parquet"
    copied = _read_copy(copy) if copy.is_file() else None
    if copied is not None:
        return copied
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
        # A read-only folder or a full disk costs time, but no data.
        pass
    return parsed


def _write_copy(parsed: ParsedFile, path: Path) -> None:
    """Write a Parquet copy in which the bytes of a row are one cell of the table.

    Channels and notices are stored in the file's metadata; pages carry checksums.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {"channels": parsed.channels, "notices": parsed.notices}
    row = pa.binary(8 * max(len(parsed.channels), 1))
    fields = [pa.field("row", row), pa.field("time", pa.float64())]
    if parsed.labels is not None:
        fields.append(pa.field("label", pa.int8()))
    schema = pa.schema(fields, metadata={"sightline": json.dumps(about)})
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
    """Return the content of a Parquet copy; None if the copy is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            about = json.loads(file.schema_arrow.metadata[b"sightline"])
            channels, notices = tuple(about["channels"]), tuple(about["notices"])
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
