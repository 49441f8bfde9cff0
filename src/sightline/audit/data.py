"""The audit of a testbed: what was read, and what is wrong with it.

`inspect_testbed` reads the files of a testbed and audits them; `audit_of` audits
recordings that are in memory, as a study does before it trains anything. Checks of
files against their release are here, checks of recordings in `sightline.audit.checks`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from sightline.audit.attack_facts import facts_of_recordings
from sightline.audit.checks import Recordings, check_recordings, gaps_in, time_at
from sightline.audit.codes import Finding, Severity, by_severity, finding
from sightline.audit.record import Audit, RecordingFacts, TableFacts
from sightline.data.recording import Recording
from sightline.data.segments import breaks_from_time
from sightline.data.zones import stamp
from sightline.progress import Progress, silent
from sightline.testbeds import open_parts, reader_of
from sightline.testbeds.base import MOST_NAMES, ParsedPart, Reader, Testbed
from sightline.testbeds.own_plant import read_folder
from sightline.text import names, plural


def inspect_testbed(
    name: str | Path,
    root: str | Path | None = None,
    *,
    release: str | None = None,
    cache: bool = True,
    progress: Progress | None = None,
) -> Audit:
    r"""Audit the files of a testbed, or of your own plant, before you use them.

    Compares counts, gaps and labels with what is published about the release, and
    looks in every recording for what makes results wrong or misleading: see
    docs/data-audit.md for all codes. Nothing is repaired.

    Parameters
    ----------
    name : str or path
        A published testbed, or a folder with your own plant.
    root, release, cache, progress : optional
        As for `open_testbed`.

    Returns
    -------
    Audit
        `files`, `findings` (the most serious first), checks that `passed`, and
        `is_right`: whether no finding is an error.

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
        progress = progress or silent
        return audit_of(read_folder(name, progress=progress), progress)
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
    counts = [
        finding("SL201", text) for text in (*opened.departures, *assembled.departures)
    ]
    of_files = [*counts, *_gaps_of_parts(opened.parts)]
    counted = sum(read.part.expected.rows is not None for read in opened.parts)
    passed = (
        f"The rows of {counted} of {plural(len(opened.parts), 'file')} and all labels "
        "were counted: the numbers are those of the release."
    )
    tags, found, right = check_recordings(
        Recordings(
            train=assembled.train,
            test=assembled.test,
            release=source,
            n_shared=assembled.n_shared,
            is_published=True,
        ),
        progress,
    )
    notices = (*opened.notices, *assembled.notices)
    tables = []
    for read in opened.parts:
        time = read.parsed.time
        tables.append(
            TableFacts(
                name=read.part.file.place,
                part=read.part.name,
                rows=len(time),
                expected=read.part.expected.rows,
                first=stamp(time[0]) if len(time) else "",
                last=stamp(time[-1]) if len(time) else "",
                gaps=len(_gaps(read)),
            )
        )
    return Audit(
        recording=RecordingFacts(
            plant=f"{reader.card.title} {opened.release}",
            tables=tuple(tables),
            tags=tags,
            notices=notices,
        ),
        findings=by_severity([*of_files, *found, *_notices(notices)]),
        passed=(*([] if counts else [passed]), *right),
    )


def audit_of(testbed: Testbed, progress: Progress = silent) -> Audit:
    """Return the audit of an opened testbed, from its recordings alone.

    Parameters
    ----------
    testbed : Testbed
        As read, or as prepared for training: what detectors see.
    progress : callable, optional
        Called with a `Step` for each tag.

    Returns
    -------
    Audit
        Counts of files are not compared with the release; `inspect_testbed` does that.

    Examples
    --------
    >>> from sightline import open_testbed
    >>> audit = audit_of(open_testbed("waterworks", days_train=0.05, days_test=0.05))
    >>> audit.title, audit.is_right, len(audit.recording.tags)
    ('waterworks-seed1', True, 51)
    """
    train, test = testbed.train, testbed.test
    tags, found, right = check_recordings(
        Recordings(
            train=train,
            test=test,
            n_shared=testbed.n_shared,
            incidents=testbed.incidents,
            is_published=testbed.accepts is None,
        ),
        progress,
    )
    gaps = []
    for name, table in (("train", train), ("test", test)):
        if table.time is not None and table.breaks is not None:
            lacking = gaps_in(table.time, table.breaks, table.timezone)
            gaps += [_lacking(name, lacking)] if lacking else []
    return Audit(
        recording=RecordingFacts(
            plant=testbed.revision,
            timezone=test.timezone or "",
            tables=(_table("train", train), _table("test", test)),
            tags=tags,
            words=testbed.words,
            notices=testbed.notices,
            attacks=facts_of_recordings(train, test, testbed.truth),
        ),
        findings=by_severity([*gaps, *found, *_notices(testbed.notices)]),
        passed=tuple(right),
    )


def refused(testbed: Testbed, audit: Audit) -> tuple[Finding, ...]:
    """Return the errors for which a plant must not be trained on.

    Published and simulated testbeds are never refused. A plant of the user is, for each
    error that its ``plant.toml`` does not accept.
    """
    if testbed.accepts is None:
        return ()
    return tuple(one for one in audit.errors if one.code not in testbed.accepts)


def refusal(error: Finding) -> str:
    """Return why a plant must not be trained on, and what to do about it."""
    remedy = f"{error.remedy.removesuffix('.')}, or" if error.remedy else "Mend it, or"
    return (
        f"{error.code}: {error.text.removesuffix('.')}. {remedy} write accept = "
        f'["{error.code}"] into plant.toml to use the data as they are.'
    )


def _notices(notices: Iterable[str]) -> list[Finding]:
    """Return what was done while reading, as notes."""
    return [finding("SL209", text) for text in notices]


def _table(name: str, recording: Recording) -> TableFacts:
    """Return the facts of one recording."""
    has_rows = recording.n_steps > 0
    return TableFacts(
        name=name,
        part=name,
        rows=recording.n_steps,
        first=time_at(recording, 0) if has_rows else "",
        last=time_at(recording, recording.n_steps - 1) if has_rows else "",
        gaps=0 if recording.breaks is None else max(len(recording.breaks) - 1, 0),
    )


def _gaps(read: ParsedPart) -> list[str]:
    """Return the gaps of a file in words; a file with labels alone has none."""
    if not read.parsed.channels:
        return []
    return gaps_in(read.parsed.time, breaks_from_time(read.parsed.time))


def _gaps_of_parts(parts: Sequence[ParsedPart]) -> Iterator[Finding]:
    """Compare gaps with those of the release, and look for time that goes back."""
    for read in parts:
        gaps, expected = _gaps(read), read.part.expected.gaps
        place = read.part.file.place
        if expected is not None and len(gaps) != expected:
            yield finding(
                "SL202",
                f"{place}: has {len(gaps)} gaps where the release has {expected}"
                f"{': ' if gaps else ''}{names(gaps, MOST_NAMES)}.",
                severity=Severity.ERROR,
                table=place,
                cells=gaps[:MOST_NAMES],
                remedy="Get the file again from its owners.",
            )
        elif gaps:
            yield _lacking(place, gaps)
        if back := int((np.diff(read.parsed.time) < 0).sum()):
            yield finding(
                "SL203",
                f"{place}: time goes back {back:,} times: rows are out of order, as in "
                "a re-cut or joined file.",
                table=place,
                remedy="Get the file again, or sort its rows by time.",
            )


def _lacking(place: str, gaps: Sequence[str]) -> Finding:
    """Return the note on the gaps of a table."""
    return finding(
        "SL202",
        f"{place}: lacks {names(gaps, MOST_NAMES)}.",
        table=place,
        cells=gaps[:MOST_NAMES],
    )
