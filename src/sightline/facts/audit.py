"""Are the files what they should be? Every answer is a finding, good or bad."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Floats, Ints
from sightline.data.recording import Recording, stamp, step_from
from sightline.data.segments import breaks_from_time, segments_of
from sightline.facts.leaks import shared_stretches
from sightline.progress import Progress
from sightline.testbeds import reader_of
from sightline.testbeds.base import listed
from sightline.testbeds.open_release import Opened, ParsedPart, Reader, open_parts
from sightline.testbeds.own_plant.folder import read_folder

Level = Literal["right", "note", "wrong"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at: it is right, worth knowing, or wrong."""

    level: Level
    text: str


@dataclass(frozen=True, kw_only=True)
class FileRow:
    """One file of the audit: its rows against the expected number, and its time."""

    place: str
    part: str
    rows: int
    expected: int | None
    first: str
    last: str
    gaps: int


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What `sightline inspect` shows."""

    title: str
    files: tuple[FileRow, ...]
    findings: tuple[Finding, ...]

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.level != "wrong" for finding in self.findings)


def inspect_testbed(
    name: str | Path,
    root: str | Path | None = None,
    *,
    release: str | None = None,
    cache: bool = True,
    progress: Progress | None = None,
) -> Audit:
    """Look at the files of a testbed, or of one's own plant, before they are trusted.

    Parameters
    ----------
    name, root, release, cache, progress
        As for `open_testbed`.

    Returns
    -------
    Audit
        Files, findings, and whether all is right.
    """
    found = reader_of(name, root, release)
    if found is None:
        return audit_folder(name)
    reader, folder, edition = found
    return audit_testbed(
        reader, folder, release=edition, use_cache=cache, progress=progress
    )


def audit_testbed(
    reader: Reader,
    root: str | Path,
    *,
    release: str | None = None,
    use_cache: bool = True,
    progress: Progress | None = None,
) -> Audit:
    """Look at a testbed's files before anyone trusts a number made from them."""
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
    """Look at one's own plant before anyone trusts a number made from it."""
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
    return Finding(level="right", text=text)


def _note(text: str) -> Finding:
    return Finding(level="note", text=text)


def _wrong(text: str) -> Finding:
    return Finding(level="wrong", text=text)


def _file_row(read: ParsedPart) -> FileRow:
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
    if opened.departures or departures:
        return [_wrong(text) for text in (*opened.departures, *departures)]
    counted = sum(read.part.expected.rows is not None for read in opened.parts)
    return [
        _right(
            f"{counted} of {len(opened.parts)} files have a known number of rows, and "
            "have it; labels are as many as they should be."
        )
    ]


def _gaps(read: ParsedPart) -> list[str]:
    """Return the gaps of a file; labels in a file of their own count by row."""
    if not read.parsed.channels:
        return []
    return _gaps_in(read.parsed.time, breaks_from_time(read.parsed.time))


def _gaps_in(time: Floats, breaks: Ints) -> list[str]:
    step_s = step_from(None, time) or 0.0
    return [
        f"{time[row] - time[row - 1] - step_s:,.0f} s after {stamp(time[row - 1])}"
        for row in breaks[1:].tolist()
    ]


def _of_gaps(parts: Sequence[ParsedPart]) -> list[Finding]:
    findings = []
    for read in parts:
        gaps, known = _gaps(read), read.part.expected.gaps
        place = read.part.file.place
        if known is not None and len(gaps) != known:
            findings.append(
                _wrong(
                    f"{place}: has {len(gaps)} gaps where the release has {known}"
                    f"{': ' if gaps else ''}{listed(gaps)}."
                )
            )
        elif gaps:
            findings.append(_note(f"{place}: lacks {listed(gaps)}."))
        back = int((np.diff(read.parsed.time) < 0).sum())
        if back:
            findings.append(
                _wrong(
                    f"{place}: time goes back {back:,} times: rows are out of order, "
                    "as in a re-cut or joined file."
                )
            )
    return findings


def _of_pauses(name: str, recording: Recording) -> list[Finding]:
    time, breaks = recording.time, recording.breaks
    if time is None or breaks is None or len(breaks) < 2:
        return []
    return [_note(f"{name}: lacks {listed(_gaps_in(time, breaks))}.")]


def _of_labels(test: Recording, *, is_exact: bool, source: str) -> list[Finding]:
    """Lay labelled runs and listed attacks side by side."""
    if test.labels is None:
        return []
    is_labelled = test.labels == ATTACK
    runs = segments_of(is_labelled)
    told = (
        f"{len(runs)} labelled runs ({source}) with {int(is_labelled.sum()):,} rows, "
        f"against {len(test.attacks)} known attacks."
    )
    if not test.attacks:
        return [_note(told)]
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
        findings.append(
            _wrong(f"Labelled runs that no attack list knows: {listed(where)}.")
        )
    beyond = int((is_labelled & ~is_listed).sum()) - sum(r.length for r in unlisted)
    short = int((is_listed & (test.labels == NORMAL)).sum())
    if beyond or short:
        differs = (
            f"Known attacks are labelled {beyond:,} rows too long and {short:,} rows "
            "too short."
        )
        findings.append(_wrong(differs) if is_exact else _note(differs))
    is_right = all(finding.level != "wrong" for finding in findings)
    return [*findings, _right(told) if is_right else _note(told)]


def _of_leaks(train: Recording, test: Recording, *, n_known: int) -> list[Finding]:
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
            f"Train and test share {total:,} rows, value by value: {listed(where)}. "
            "What is learnt from them has seen the test."
        )
        findings.append(_note(text) if total <= n_known else _wrong(text))
    if train.time is not None and test.time is not None:
        twice = int(np.isin(train.time, test.time).sum())
        if twice:
            text = f"{twice:,} time stamps of train occur in test too."
            # A file may well begin with the moment at which the other ended.
            findings.append(_note(text) if twice <= max(n_known, 1) else _wrong(text))
    return findings or [_right("Train and test share no stretch of rows.")]


def _of_tags(train: Recording, test: Recording) -> list[Finding]:
    """Name tags that never vary, and attacks on them that dropping them would hide."""
    still = {"train": _still(train), "test": _still(test)}
    findings = [
        _note(
            f"{len(names)} of {len(train.tags)} tags never vary in {name}: "
            f"{listed(names, 8)}."
        )
        for name, names in still.items()
        if names
    ]
    attacked = {tag: attack.id for attack in test.attacks for tag in attack.targets}
    unmoved = [f"{t} (attack {a})" for t, a in attacked.items() if t in still["test"]]
    if unmoved:
        findings.append(
            _note(
                "Attacked tags that never vary in test, so that the attack leaves no "
                f"trace in its own column: {listed(unmoved, 8)}."
            )
        )
    new = [
        f"{t} (attack {a})"
        for t, a in attacked.items()
        if t in still["train"] and t not in still["test"]
    ]
    if new:
        findings.append(
            _note(
                "Attacked tags that vary in test only, so that dropping what is "
                f"constant in train would hide their attacks: {listed(new, 8)}."
            )
        )
    return findings


def _still(recording: Recording) -> list[str]:
    values = recording.values
    if not len(values):
        return []
    first = values[0]
    # Equal to the first row, or nan where that is.
    is_still = ((values == first) | (np.isnan(values) & np.isnan(first))).all(axis=0)
    return [tag.name for tag, s in zip(recording.tags, is_still, strict=True) if s]


def _of_cells(train: Recording, test: Recording) -> list[Finding]:
    findings = []
    for name, recording in (("train", train), ("test", test)):
        bad = (~np.isfinite(recording.values)).sum(axis=0).tolist()
        counted = [
            f"{tag.name} ({count:,})"
            for tag, count in zip(recording.tags, bad, strict=True)
            if count
        ]
        if counted:
            findings.append(
                _wrong(
                    f"{name}: {sum(bad):,} cells are not finite numbers: "
                    f"{listed(counted)}."
                )
            )
    return findings or [_right("Every cell is a finite number.")]


def _stamp(recording: Recording, row: int) -> str:
    if recording.time is None:
        return f"row {row}"
    return stamp(float(recording.time[row]))
