"""From a folder to parsed files: recognise, choose the release, read, check counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sightline.data.arrays import ATTACK
from sightline.data.segments import run_bounds
from sightline.errors import FileError, SightlineError
from sightline.progress import Progress, Step, StepKind, silent
from sightline.testbeds.base import MOST_NAMES, ParsedPart, Reader, ReleasePart
from sightline.testbeds.copies import Copies
from sightline.testbeds.csv_reader import SourceFile, find_files
from sightline.text import did_you_mean, names


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
    copies : str
        A sentence about the Parquet copies that were written; empty if none was.
    """

    release: str
    parts: tuple[ParsedPart, ...]
    notices: tuple[str, ...]
    departures: tuple[str, ...]
    copies: str = ""


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
        Takes a `Step` for each part, and one about copies that were written.

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
    copies = Copies(folder, use_cache=use_cache)
    parts = []
    for done, name in enumerate(needed):
        progress(Step(StepKind.READING, done, len(needed), name))
        part, *twins = [
            p for p in recognised if p.name == name and release in p.releases
        ]
        if twins:
            others = [twin.file.place for twin in twins]
            notices.append(
                f"{name} was read from {part.file.place}; also found, and not read: "
                f"{names(others, MOST_NAMES)}."
            )
        parsed = copies.parsed(part.file, partial(reader.parse, part))
        notices.extend(parsed.notices)
        parts.append(ParsedPart(part=part, parsed=parsed))
    if announcement := copies.finish():
        progress(Step(StepKind.NOTICE, detail=announcement))
    return Opened(
        release=release,
        parts=tuple(parts),
        notices=tuple(notices),
        departures=tuple(text for part in parts for text in _departures(part)),
        copies=announcement,
    )


def found_releases(reader: Reader, files: Sequence[SourceFile]) -> list[str]:
    """Return the releases of which every part is among some files."""
    return _complete(reader, _recognised(reader, files))


def _complete(reader: Reader, parts: Sequence[ReleasePart]) -> list[str]:
    """Return the releases of which no part is missing, in the order of the card."""
    return [r for r in reader.card.releases if not _missing(reader, parts, r)]


def _recognised(reader: Reader, files: Sequence[SourceFile]) -> list[ReleasePart]:
    """Return the parts among files, in the order of the files.

    Excel files are opened only if no release is complete without them. Git LFS pointers
    are never parts.
    """
    parts: list[ReleasePart] = []
    for is_excel in (False, True):
        if is_excel and _complete(reader, parts):
            break
        candidates = [f for f in files if f.is_excel == is_excel and not f.is_pointer]
        parts += filter(None, map(reader.recognise, candidates))
    return parts


def _missing(reader: Reader, parts: Sequence[ReleasePart], release: str) -> list[str]:
    """Return the names of the parts that a release lacks."""
    have = {part.name for part in parts if release in part.releases}
    return [name for name in reader.needed(release) if name not in have]


def _chosen(
    reader: Reader,
    folder: Path,
    files: Sequence[SourceFile],
    parts: Sequence[ReleasePart],
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
            f"The folder holds the releases {names(complete)}; {complete[0]} was read: "
            f"choose another with release={complete[1]!r}."
        )
    return complete[0], notices


def _incomplete(
    reader: Reader,
    folder: Path,
    files: Sequence[SourceFile],
    parts: Sequence[ReleasePart],
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
