"""Audit the files of a testbed: counts, gaps, labels, shared rows, missing numbers.

Every check returns findings, also where nothing is wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, NORMAL, Floats, Ints
from sightline.data.recording import Recording, stamp, step_from
from sightline.data.segments import breaks_from_time, run_bounds, segments_of
from sightline.progress import Progress, silent
from sightline.testbeds import reader_of
from sightline.testbeds.base import MOST_NAMES, ParsedPart, Reader
from sightline.testbeds.open_release import Opened, open_parts
from sightline.testbeds.own_plant import read_folder
from sightline.text import names

# Shorter equal stretches of train and test occur by chance, while a plant stands still.
LEAST_ROWS = 60
# A stretch with fewer different rows is a plant at rest, not a copy.
LEAST_DIFFERENT = 10
_MOST_TAGS = 8
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
Hashes = npt.NDArray[np.uint64]


class Level(StrEnum):
    """How serious a finding is.

    ``RIGHT`` is a check that passed, ``NOTE`` something to know before using the data,
    ``WRONG`` a reason not to trust them.
    """

    RIGHT = "right"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The outcome of one check.

    Parameters
    ----------
    level : Level
        Whether it is right, worth knowing, or wrong.
    text : str
        One sentence: what was checked, with counts and places.
    """

    level: Level
    text: str


@dataclass(frozen=True, kw_only=True)
class FileRow:
    """One file of the audit.

    Parameters
    ----------
    place, part : str
        Its path below the root, and the part of the release it is.
    rows, expected : int
        How many rows it has and should have; `expected` is None if unknown.
    first, last : str
        Its first and last time stamp; empty without rows.
    gaps : int
        Interruptions of its time stamps.
    """

    place: str
    part: str
    rows: int
    expected: int | None
    first: str
    last: str
    gaps: int


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What `sightline inspect` shows.

    Parameters
    ----------
    title : str
        The testbed and its release.
    files : tuple of FileRow
        Each file that was read.
    findings : tuple of Finding
        The outcome of every check, in the order of the checks.
    """

    title: str
    files: tuple[FileRow, ...]
    findings: tuple[Finding, ...]

    @property
    def is_right(self) -> bool:
        """Whether no finding has the level ``WRONG``."""
        return not _any_wrong(self.findings)


def inspect_testbed(
    name: str | Path,
    root: str | Path | None = None,
    *,
    release: str | None = None,
    cache: bool = True,
    progress: Progress | None = None,
) -> Audit:
    r"""Audit the files of a testbed, or of your own plant, before you use them.

    Checks counts against the release, gaps, labels against the attack list, rows that
    train and test share, tags that never vary, and cells that are not numbers. Nothing
    is repaired.

    Parameters
    ----------
    name : str or path
        A published testbed, or a folder with your own plant.
    root, release, cache, progress
        As for `open_testbed`.

    Returns
    -------
    Audit
        `files`, `findings`, and `is_right`: whether nothing is wrong.

    Raises
    ------
    FileError
        If files are missing or cannot be read at all.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for table in ("train", "test"):
    ...         rows = [f"2026-11-1{len(table)} 08:00:0{k},{k % 3}" for k in range(9)]
    ...         text = "\n".join(["time,LIT101", *rows])
    ...         _ = Path(folder, f"{table}.csv").write_text(text)
    ...     audit = inspect_testbed(folder)
    >>> audit.is_right, audit.files[0].rows
    (True, 9)
    """
    source = reader_of(name, root, release)
    if source is None:
        return audit_folder(name)
    reader, folder, edition = source
    return audit_testbed(
        reader, folder, release=edition, use_cache=cache, progress=progress or silent
    )


def audit_testbed(
    reader: Reader,
    root: str | Path,
    *,
    release: str | None = None,
    use_cache: bool = True,
    progress: Progress = silent,
) -> Audit:
    """Return the audit of a published testbed, labelled by its default source."""
    opened = open_parts(
        reader, root, release=release, use_cache=use_cache, progress=progress
    )
    source = reader.default_labels(opened.release)
    assembled = reader.assemble(opened.release, opened.parts, labels=source)
    train, test = assembled.train, assembled.test
    return Audit(
        title=f"{reader.card.title} {opened.release}",
        files=tuple(_file_row(read) for read in opened.parts),
        findings=(
            *_of_files(opened, assembled.departures),
            *_of_gaps(opened.parts),
            *_of_labels(test, is_exact=True, source=source),
            *_of_leaks(train, test, n_known=assembled.n_shared),
            *_of_tags(train, test),
            *_of_cells(train, test),
            *map(_note, (*opened.notices, *assembled.notices)),
        ),
    )


def audit_folder(root: str | Path) -> Audit:
    """Return the audit of your own plant, read from a folder."""
    testbed = read_folder(root)
    train, test = testbed.train, testbed.test
    return Audit(
        title=testbed.name,
        files=(_recording_row("train", train), _recording_row("test", test)),
        findings=(
            *_of_pauses("train", train),
            *_of_pauses("test", test),
            *_of_labels(test, is_exact=False, source="label column or attacks.csv"),
            *_of_leaks(train, test, n_known=0),
            *_of_tags(train, test),
            *_of_cells(train, test),
            *map(_note, testbed.notices),
        ),
    )


def _right(text: str) -> Finding:
    """Return a passed check."""
    return Finding(level=Level.RIGHT, text=text)


def _note(text: str) -> Finding:
    """Return something worth knowing."""
    return Finding(level=Level.NOTE, text=text)


def _wrong(text: str) -> Finding:
    """Return a failed check."""
    return Finding(level=Level.WRONG, text=text)


def _any_wrong(findings: Sequence[Finding]) -> bool:
    return any(finding.level is Level.WRONG for finding in findings)


def _file_row(read: ParsedPart) -> FileRow:
    """Return the row of one file of a published testbed."""
    time = read.parsed.time
    return FileRow(
        place=read.part.file.place,
        part=read.part.name,
        rows=len(time),
        expected=read.part.expected.rows,
        first=stamp(time[0]) if len(time) else "",
        last=stamp(time[-1]) if len(time) else "",
        gaps=len(_gaps(read)),
    )


def _recording_row(name: str, recording: Recording) -> FileRow:
    """Return the row of one table of your own plant."""
    return FileRow(
        place=name,
        part=name,
        rows=recording.n_steps,
        expected=None,
        first=_stamp(recording, 0) if recording.n_steps else "",
        last=_stamp(recording, -1) if recording.n_steps else "",
        gaps=0 if recording.breaks is None else len(recording.breaks) - 1,
    )


def _of_files(opened: Opened, departures: Sequence[str]) -> list[Finding]:
    """Compare the counts of files with those of the release."""
    if opened.departures or departures:
        return [_wrong(text) for text in (*opened.departures, *departures)]
    counted = sum(read.part.expected.rows is not None for read in opened.parts)
    return [
        _right(
            f"The rows of {counted} of {len(opened.parts)} files and all labels were "
            "counted: the numbers are those of the release."
        )
    ]


def _gaps(read: ParsedPart) -> list[str]:
    """Return the gaps of a file in words; a file with labels alone has none."""
    if not read.parsed.channels:
        return []
    return _gaps_in(read.parsed.time, breaks_from_time(read.parsed.time))


def _gaps_in(time: Floats, breaks: Ints) -> list[str]:
    """Return the length and the start of each gap."""
    step_s = step_from(None, time) or 0.0
    return [
        f"{time[row] - time[row - 1] - step_s:,.0f} s after {stamp(time[row - 1])}"
        for row in breaks[1:].tolist()
    ]


def _of_gaps(parts: Sequence[ParsedPart]) -> Iterator[Finding]:
    """Compare gaps with those of the release, and look for time that goes back."""
    for read in parts:
        gaps, expected = _gaps(read), read.part.expected.gaps
        place = read.part.file.place
        if expected is not None and len(gaps) != expected:
            yield _wrong(
                f"{place}: has {len(gaps)} gaps where the release has {expected}"
                f"{': ' if gaps else ''}{names(gaps, MOST_NAMES)}."
            )
        elif gaps:
            yield _note(f"{place}: lacks {names(gaps, MOST_NAMES)}.")
        if back := int((np.diff(read.parsed.time) < 0).sum()):
            yield _wrong(
                f"{place}: time goes back {back:,} times: rows are out of order, "
                "as in a re-cut or joined file."
            )


def _of_pauses(name: str, recording: Recording) -> list[Finding]:
    """Name the gaps of a table of your own plant."""
    time, breaks = recording.time, recording.breaks
    if time is None or breaks is None or len(breaks) < 2:
        return []
    return [_note(f"{name}: lacks {names(_gaps_in(time, breaks), MOST_NAMES)}.")]


def _of_labels(test: Recording, *, is_exact: bool, source: str) -> list[Finding]:
    """Compare labelled runs with listed attacks, both ways.

    If `is_exact`, a difference of rows is wrong; else it is a note.
    """
    if test.labels is None:
        return []
    is_labelled = test.labels == ATTACK
    runs = segments_of(is_labelled)
    summary = (
        f"{len(runs)} labelled runs ({source}) with {int(is_labelled.sum()):,} rows, "
        f"against {len(test.attacks)} known attacks."
    )
    if not test.attacks:
        return [_note(summary)]
    is_listed = np.zeros(test.n_steps, np.bool_)
    findings = []
    for attack in test.attacks:
        rows = slice(attack.start, attack.stop)
        is_listed[rows] = True
        if not is_labelled[rows].any() and (test.labels[rows] == NORMAL).any():
            at = _stamp(test, attack.start)
            findings.append(_wrong(f"Attack {attack.id} ({at}) has no labelled row."))
    unlisted = [run for run in runs if not is_listed[run.rows].any()]
    if unlisted:
        where = [f"{_stamp(test, run.start)} ({run.length:,} rows)" for run in unlisted]
        listed = names(where, MOST_NAMES)
        findings.append(_wrong(f"Labelled runs that are in no attack list: {listed}."))
    beyond = int((is_labelled & ~is_listed).sum()) - sum(r.length for r in unlisted)
    short = int((is_listed & (test.labels == NORMAL)).sum())
    if beyond or short:
        differs = (
            f"Known attacks are labelled {beyond:,} rows too long and {short:,} rows "
            "too short."
        )
        findings.append(_wrong(differs) if is_exact else _note(differs))
    return [*findings, _note(summary) if _any_wrong(findings) else _right(summary)]


def _of_leaks(train: Recording, test: Recording, *, n_known: int) -> list[Finding]:
    """Look for rows and time stamps of train that occur in test.

    Up to `n_known` rows are the release's own and a note; more are wrong.
    """
    findings = []
    stretches = shared_stretches(train, test)
    if stretches:
        total = sum(stretch.length for stretch in stretches)
        where = [
            f"{s.length:,} from {_stamp(train, s.train_start)} of train, at "
            f"{_stamp(test, s.test_start)} of test"
            for s in stretches
        ]
        text = (
            f"Train and test share {total:,} rows, value by value: "
            f"{names(where, MOST_NAMES)}. A detector trained on them has already seen "
            "them."
        )
        findings.append(_note(text) if total <= n_known else _wrong(text))
    if train.time is not None and test.time is not None:
        if twice := int(np.isin(train.time, test.time).sum()):
            text = f"{twice:,} time stamps of train occur in test too."
            # A file often begins with the moment at which the other ends.
            findings.append(_note(text) if twice <= max(n_known, 1) else _wrong(text))
    return findings or [_right("Train and test share no stretch of rows.")]


def _of_tags(train: Recording, test: Recording) -> Iterator[Finding]:
    """Name constant tags, and attacks that dropping constant tags would hide."""
    constant = {"train": _constant_tags(train), "test": _constant_tags(test)}
    for name, tags in constant.items():
        if tags:
            yield _note(
                f"{len(tags)} of {len(train.tags)} tags never vary in {name}: "
                f"{names(tags, _MOST_TAGS)}."
            )
    named = {t: f"{t} (attack {a.id})" for a in test.attacks for t in a.targets}
    if unmoved := [named[tag] for tag in named if tag in constant["test"]]:
        yield _note(
            "Attacked tags that never vary in test, so that the attack leaves no "
            f"trace in its own column: {names(unmoved, _MOST_TAGS)}."
        )
    only_train = set(constant["train"]) - set(constant["test"])
    if new := [named[tag] for tag in named if tag in only_train]:
        yield _note(
            "Attacked tags that vary in test only, so that dropping what is "
            f"constant in train would hide their attacks: {names(new, _MOST_TAGS)}."
        )


def _constant_tags(recording: Recording) -> list[str]:
    """Return the tags that have one value in all rows, nan included."""
    values = recording.values
    if not len(values):
        return []
    first = values[0]
    is_same = (values == first) | (np.isnan(values) & np.isnan(first))
    return [recording.tags[k].name for k in np.flatnonzero(is_same.all(axis=0))]


def _of_cells(train: Recording, test: Recording) -> list[Finding]:
    """Count cells that are nan or infinite, by tag."""
    findings = []
    for name, recording in (("train", train), ("test", test)):
        bad = (~np.isfinite(recording.values)).sum(axis=0).tolist()
        counted = [
            f"{tag.name} ({count:,})"
            for tag, count in zip(recording.tags, bad, strict=True)
            if count
        ]
        if counted:
            text = f"{name}: {sum(bad):,} cells are not finite numbers: "
            findings.append(_wrong(f"{text}{names(counted, MOST_NAMES)}."))
    return findings or [_right("Every cell is a finite number.")]


def _stamp(recording: Recording, row: int) -> str:
    """Return the time stamp of a row, or its number if there is no time."""
    if recording.time is None:
        return f"row {row}"
    return stamp(float(recording.time[row]), recording.timezone)


@dataclass(frozen=True, kw_only=True)
class SharedStretch:
    """A stretch of `length` consecutive rows that train and test share.

    Parameters
    ----------
    train_start, test_start : int
        Its first row in each.
    length : int
        Number of rows.
    """

    train_start: int
    test_start: int
    length: int


def shared_stretches(train: Recording, test: Recording) -> list[SharedStretch]:
    """Return the stretches of consecutive rows that are in both, value by value.

    Stretches below `LEAST_ROWS` rows or with fewer than `LEAST_DIFFERENT` different
    rows are left out: they occur by chance while a plant stands still. Time stamps are
    not compared.
    """
    if min(train.n_steps, test.n_steps) < LEAST_ROWS:
        return []
    of_rows = _row_hashes(test.values)
    of_test = _window_hashes(of_rows)
    of_train = _window_hashes(_row_hashes(train.values))
    order = np.argsort(of_train, kind="stable")
    place = np.searchsorted(of_train[order], of_test)
    source = order[np.minimum(place, len(order) - 1)]
    begins, ends = run_bounds(of_train[source] == of_test)
    stops = ends + LEAST_ROWS - 1
    return [
        SharedStretch(train_start=int(source[at]), test_start=at, length=stop - at)
        for at, stop in zip(begins.tolist(), stops.tolist(), strict=True)
        if len(np.unique(of_rows[at:stop])) >= LEAST_DIFFERENT
    ]


def _row_hashes(values: npt.NDArray[np.floating]) -> Hashes:
    """Return a 64-bit hash of each row; two different rows collide about never."""
    draw = np.random.default_rng(0)
    hashes = np.zeros(len(values), np.uint64)
    for k in range(values.shape[1]):
        weight = np.uint64(draw.integers(2**63)) | np.uint64(1)
        bits = np.ascontiguousarray(values[:, k], np.float64).view(np.uint64)
        # Mix the bits, because round numbers end in many zeros.
        hashes += (bits ^ (bits >> np.uint64(29))) * weight
    return hashes


def _window_hashes(hashes: Hashes) -> Hashes:
    """Return a rolling hash of the `LEAST_ROWS` rows from each row on.

    It is ``sum of hash[i + j] * base**j``, computed as a difference of cumulative sums
    modulo 2**64, in which an odd base has an inverse.
    """
    powers = np.full(len(hashes), _BASE)
    inverse = np.full(len(hashes) - LEAST_ROWS + 1, _INVERSE)
    powers[0] = inverse[0] = 1
    sums = np.cumsum(hashes * np.cumprod(powers))
    before = np.concatenate([np.zeros(1, np.uint64), sums])
    hashes = (before[LEAST_ROWS:] - before[:-LEAST_ROWS]) * np.cumprod(inverse)
    return np.asarray(hashes)
