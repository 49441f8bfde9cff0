"""From a folder to parsed files: recognise, choose the release, read, check counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from sightline.data.arrays import ATTACK, Floats, Ints
from sightline.data.recording import Recording
from sightline.data.segments import breaks_from_time, run_bounds
from sightline.errors import FileError, SightlineError
from sightline.progress import Progress, Step, StepKind
from sightline.testbeds.base import Expected, TestbedCard, listed
from sightline.testbeds.cache import parsed_once
from sightline.testbeds.csv_reader import ParsedFile
from sightline.testbeds.discovery import Layout, SourceFile, find_files


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """A file that was recognised as one part of a testbed."""

    name: str
    releases: tuple[str, ...]
    file: SourceFile
    layout: Layout
    expected: Expected


@dataclass(frozen=True, kw_only=True, eq=False)
class ParsedPart:
    """A part and what it holds."""

    part: Part
    parsed: ParsedFile


@dataclass(frozen=True, kw_only=True, eq=False)
class Assembled:
    """Recordings made of parsed parts, and what there is to say about it.

    `departures` are ways in which it is not the release it should be; `n_shared` is the
    number of rows the release is known to have in both train and test.
    """

    train: Recording
    test: Recording
    notices: tuple[str, ...] = ()
    departures: tuple[str, ...] = ()
    n_shared: int = 0


class Reader(Protocol):
    """What a testbed's module does; the rest is the same for all."""

    @property
    def card(self) -> TestbedCard:
        """What the testbed is."""

    def recognise(self, file: SourceFile) -> Part | None:
        """Return what part a file is, by how it begins; None if it is none."""

    def needed(self, release: str) -> tuple[str, ...]:
        """Return the names of the parts a release is made of, train before test."""

    def parse(self, part: Part) -> ParsedFile:
        """Return what a part holds."""

    def default_labels(self, release: str) -> str:
        """Return the label source taken when none is asked for."""

    def assemble(
        self, release: str, parts: Sequence[ParsedPart], *, labels: str
    ) -> Assembled:
        """Return the recordings, labelled by one of the label sources."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """The parts of one release, parsed, and what was noticed on the way."""

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
    progress: Progress | None = None,
) -> Opened:
    """Find a testbed's files below a folder, choose the release and read them."""
    folder = Path(root).expanduser()
    files = find_files(folder)
    found = _recognised(reader, files)
    release, notices = _chosen(reader, folder, files, found, release)
    needed = reader.needed(release)
    parts = []
    for done, name in enumerate(needed):
        if progress is not None:
            progress(Step(StepKind.READING, done, len(needed), name))
        candidates = [p for p in found if p.name == name and release in p.releases]
        part = candidates[0]
        if len(candidates) > 1:
            others = [other.file.place for other in candidates[1:]]
            notices.append(
                f"{name} was read from {part.file.place}; also found, and not read: "
                f"{listed(others)}."
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
    """Return the releases of which every part is among files."""
    found = _recognised(reader, files)
    return [r for r in reader.card.releases if not _missing(reader, found, r)]


def _recognised(reader: Reader, files: Sequence[SourceFile]) -> list[Part]:
    """Return the parts among files; Excel is opened only where CSV does not suffice."""
    found: list[Part] = []
    for is_excel in (False, True):
        if is_excel and any(
            not _missing(reader, found, release) for release in reader.card.releases
        ):
            break
        for file in files:
            if file.is_excel == is_excel and not file.is_pointer:
                part = reader.recognise(file)
                if part is not None:
                    found.append(part)
    return found


def _missing(reader: Reader, found: Sequence[Part], release: str) -> list[str]:
    have = {part.name for part in found if release in part.releases}
    return [name for name in reader.needed(release) if name not in have]


def _chosen(
    reader: Reader,
    folder: Path,
    files: Sequence[SourceFile],
    found: Sequence[Part],
    wanted: str | None,
) -> tuple[str, list[str]]:
    """Return the release to read: the wanted one, else the first that is complete."""
    card = reader.card
    if wanted is not None:
        known = {release.lower(): release for release in card.releases}
        if wanted.lower() not in known:
            raise FileError(
                f"{card.title} has no release {wanted!r}; known are "
                f"{', '.join(card.releases)}."
            )
        wanted = known[wanted.lower()]
        if _missing(reader, found, wanted):
            raise _incomplete(reader, folder, files, found, wanted)
        return wanted, []
    complete = [r for r in card.releases if not _missing(reader, found, r)]
    if not complete:
        # The release of which most is there is the one that was meant.
        share = {
            release: len(_missing(reader, found, release)) / len(reader.needed(release))
            for release in card.releases
        }
        raise _incomplete(
            reader, folder, files, found, min(share, key=share.__getitem__)
        )
    notices = []
    if len(complete) > 1:
        notices.append(
            f"{folder} holds the releases {', '.join(complete)}; {complete[0]} was "
            f"read: ask for another with release={complete[1]!r}."
        )
    return complete[0], notices


def _incomplete(
    reader: Reader,
    folder: Path,
    files: Sequence[SourceFile],
    found: Sequence[Part],
    release: str,
) -> FileError:
    card = reader.card
    missing = _missing(reader, found, release)
    damaged = [part for part in found if not part.releases]
    if damaged:
        return FileError(f"{damaged[0].file.path}: is {damaged[0].name}")
    for file in files:
        if file.is_excel:
            try:
                _ = file.frame
            except SightlineError as error:  # it may have been the missing one
                return FileError(str(error))
    pointers = [file.place for file in files if file.is_pointer]
    there = [part.file.place for part in found if release in part.releases]
    what = f"{card.title} {release}" if len(card.releases) > 1 else card.title
    if pointers:
        return FileError(
            f"{folder}: {listed(pointers)} holds a Git LFS pointer of some 130 bytes "
            f"and not the data; {what} needs {listed(missing)}: run `git lfs pull` in "
            "that folder, or download the files themselves."
        )
    has = f"has {listed(there)} but not" if there else "has no file that is"
    return FileError(
        f"{folder}: {has} {listed(missing)} of {what}; found "
        f"{len(files)} CSV and Excel files in all: {card.where}"
    )


def _departures(read: ParsedPart) -> list[str]:
    """Return how a file differs from what is known of it, a sentence each."""
    expected, parsed, path = read.part.expected, read.parsed, read.part.file.path
    texts = []
    n_rows = len(parsed.values)
    if expected.rows is not None and n_rows != expected.rows:
        likely = (
            "it seems cut short" if n_rows < expected.rows else "it is another edition"
        )
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
        f"{path}: labels {has:,} {what} where {read.part.name} has {known:,}: its "
        "labels were changed; copy it again from its source, or read it as it is with "
        "strict=False."
        for what, (has, known) in counts.items()
        if known is not None and has != known
    )
    return texts


def stacked(parts: Sequence[ParsedPart], step_s: float) -> tuple[Floats, Floats, Ints]:
    """Return values, time and first rows of several files, one after the other."""
    starts = np.cumsum([0, *(len(p.parsed.values) for p in parts[:-1])])
    breaks = [
        start + breaks_from_time(p.parsed.time, step_s)
        for start, p in zip(starts, parts, strict=True)
    ]
    if len(parts) == 1:
        return parts[0].parsed.values, parts[0].parsed.time, breaks[0]
    return (
        np.concatenate([p.parsed.values for p in parts]),
        np.concatenate([p.parsed.time for p in parts]),
        np.concatenate(breaks),
    )
