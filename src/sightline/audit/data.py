"""The audit of a testbed: what was read, and what is wrong with it.

`inspect_testbed` reads the files of a testbed and audits them; `audit_of` audits
recordings that are in memory, as a study does before it trains anything. Files are
compared with their release; train and test pass the checks that `CHECKS` lists, each a
function of `Recordings` that yields findings with codes, and none where nothing is
wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.audit.attack_facts import facts_of_recordings
from sightline.audit.protocol import shared_stretches
from sightline.audit.record import (
    PASSED,
    Audit,
    Finding,
    RecordingFacts,
    Severity,
    TableFacts,
    TagFacts,
    TagSummary,
    by_severity,
    finding,
    worded,
)
from sightline.audit.tag_checks import check_tags
from sightline.data.arrays import ATTACK, NORMAL, Floats, Ints
from sightline.data.recording import Recording, step_from
from sightline.data.row_tables import ArrayRows
from sightline.data.segments import (
    GAP_FACTOR,
    ListedAttack,
    Span,
    breaks_from_time,
    rows_within,
    segments_of,
)
from sightline.data.standing import stillness_of
from sightline.data.zones import stamp
from sightline.metrics.ranking import mean_ranks
from sightline.progress import Progress, silent
from sightline.testbeds import open_parts, reader_of
from sightline.testbeds.base import MOST_NAMES, ParsedPart, Reader, Testbed
from sightline.testbeds.own_plant import read_folder
from sightline.text import Labelling, counted, duration, names, plural

# How many names and places a sentence lists before it counts the rest.
_MOST_NAMES, _MOST_TAGS = 4, 8
# Stamps from 0 to the first are counted from the first row; the others are dates.
_LATEST_COUNT, _YEAR_1990, _YEAR_2100 = 3.2e7, 631_152_000.0, 4_102_444_800.0
# From which number on stamps are no seconds since 1970, and what they are.
_UNITS = {1e17: "nanoseconds", 1e14: "microseconds", 1e11: "milliseconds"}
# A larger share of constant tags is no plant in operation.
_MOST_CONSTANT = 0.5
# Longest shift of the labels that is tried, and what a shift must show.
_LAG_S, _LAG_ROWS, _LAG_ATTACKS, _LAG_SHARE = 26 * 3600.0, 5, 6, 0.6
_LAG_SIGMA, _LAG_TIMES, _LOCAL_S = 7.0, 3.0, 6 * 3600.0


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
        assembled.train,
        assembled.test,
        progress,
        release=source,
        n_shared=assembled.n_shared,
        is_published=True,
    )
    notices = (*opened.notices, *assembled.notices)
    tables = [
        TableFacts(
            name=read.part.file.place,
            part=read.part.name,
            rows=len(time),
            expected=read.part.expected.rows,
            first=stamp(time[0]) if len(time) else "",
            last=stamp(time[-1]) if len(time) else "",
            gaps=len(_gaps(read)),
        )
        for read in opened.parts
        for time in [read.parsed.time]
    ]
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
        train,
        test,
        progress,
        n_shared=testbed.n_shared,
        incidents=testbed.incidents,
        is_published=testbed.accepts is None,
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
            holds=dict(testbed.holds),
            mode=testbed.mode,
            date_order=testbed.date_order,
            unwatched=(*train.unwatched, *test.unwatched),
            stillness=stillness_of(train, test),
            is_own_plant=testbed.accepts is not None,
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


# --- Checks of train and test ---------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Recordings:
    """What the checks look at.

    Parameters
    ----------
    train, test : Recording
        With the same tags in the same order.
    release : str, optional
        Source of the labels of a published testbed, which must be exactly those of the
        release; None for any other plant.
    n_shared : int
        How many rows of train the release itself repeats in test.
    incidents : sequence of ListedAttack
        All incidents that a plant of the user lists.
    is_published : bool
        Whether the recordings are what their owners say they should be: a published
        or simulated testbed.
    tags : sequence of TagFacts
        What each tag holds.
    unusual : array of shape (n_test,)
        How far each test row lies outside the range of train.
    """

    train: Recording
    test: Recording
    release: str | None
    n_shared: int
    incidents: Sequence[ListedAttack]
    is_published: bool
    tags: Sequence[TagFacts]
    unusual: Floats

    @property
    def tables(self) -> tuple[tuple[str, Recording], tuple[str, Recording]]:
        """Both recordings with their names."""
        return ("train", self.train), ("test", self.test)


# Cells may hold anything: what overflows is infinite or not a number, and no finding.
@np.errstate(over="ignore", invalid="ignore")
def check_recordings(
    train: Recording,
    test: Recording,
    progress: Progress,
    *,
    release: str | None = None,
    n_shared: int = 0,
    incidents: Sequence[ListedAttack] = (),
    is_published: bool = False,
) -> tuple[tuple[TagFacts, ...], list[Finding], list[str]]:
    """Return what each tag holds, all findings, and the checks that found nothing.

    Parameters
    ----------
    train, test, release, n_shared, incidents, is_published
        As of `Recordings`.
    progress : callable
        Called with a `Step` for each tag.

    Returns
    -------
    tags : tuple of TagFacts
        In the order of the columns.
    findings : list of Finding
        In the order of the checks.
    passed : list of str
        One sentence for each check without an error or warning.
    """
    tags, findings, unusual = check_tags(train, test, progress)
    given = Recordings(
        train=train,
        test=test,
        release=release,
        n_shared=n_shared,
        incidents=incidents,
        is_published=is_published,
        tags=tags,
        unusual=unusual,
    )
    found = (one for check in CHECKS for one in check(given))
    labels = Labelling.ATTACKS if is_published else Labelling.INCIDENTS
    findings += worded(found, labels, [attack.id for attack in test.attacks])
    serious = {one.code for one in findings if one.is_serious}
    passed = [
        text for codes, text in PASSED.items() if serious.isdisjoint(codes.split())
    ]
    if "SL211" not in serious and test.labels is not None and test.attacks:
        is_labelled = test.labels == ATTACK
        passed.insert(
            0,
            f"{len(segments_of(is_labelled))} labelled runs "
            f"({release or 'label column or attacks.csv'}) with "
            f"{int(is_labelled.sum()):,} rows, against {len(test.attacks)} known "
            "attacks.",
        )
    return tags, findings, passed


def time_at(recording: Recording, row: int) -> str:
    """Return the time stamp of a row, or its number if there is no time."""
    if recording.time is None:
        return f"row {row}"
    return stamp(float(recording.time[row]), recording.timezone)


def gaps_in(time: Floats, breaks: Ints, timezone: str | None = None) -> list[str]:
    """Return the length and the start of each gap; a new file alone is none."""
    step_s = step_from(None, time) or 0.0
    return [
        f"{time[row] - time[row - 1] - step_s:,.0f} s after "
        f"{stamp(float(time[row - 1]), timezone)}"
        for row in breaks[1:].tolist()
        if not 0 <= time[row] - time[row - 1] <= GAP_FACTOR * step_s
    ]


# Time


def check_dates(given: Recordings) -> Iterator[Finding]:
    """Look for numbers that were taken as seconds, and for unlikely dates."""
    for name, table in given.tables:
        if table.time is None or not table.n_steps:
            continue
        first, last = float(table.time[0]), float(table.time[-1])
        if unit := _mistaken_unit(first, last, table.step_s):
            yield finding(
                "SL205",
                f"{name}: time stamps from {first:.12g} to {last:.12g} look like "
                f"{unit} and were taken as seconds since 1970.",
                table=name,
                remedy="State time_format in plant.toml, or export time as text such "
                "as 2026-11-15 08:00:00.",
            )
        elif not (_YEAR_1990 <= first and last < _YEAR_2100):
            is_count = 0 <= first < _LATEST_COUNT and last < _YEAR_1990
            at = f"{time_at(table, 0)} to {time_at(table, table.n_steps - 1)}"
            yield finding(
                "SL204",
                f"{name}: its time runs from {at}"
                + (", as if counted from its first row." if is_count else "."),
                severity=Severity.NOTE if is_count else None,
                table=name,
                remedy="State time_format in plant.toml if these dates are wrong.",
            )


def _mistaken_unit(first: float, last: float, step_s: float | None) -> str:
    """Return what numbers that were taken as seconds probably are; else an empty text.

    Days of a spreadsheet lie between 20,000 and 80,000, in steps of whole seconds that
    divide an hour.
    """
    for least, unit in _UNITS.items():
        if first >= least:
            return unit
    seconds = 86_400 * (step_s or 0.0)
    is_whole = seconds > 0.5 and abs(seconds - round(seconds)) <= 0.01 * seconds
    divides = is_whole and 3600 % round(seconds) == 0
    is_serial = 20_000 <= first <= last <= 80_000 and divides
    return "days of a spreadsheet" if is_serial else ""


def check_order(given: Recordings) -> Iterator[Finding]:
    """Find a train that was recorded after test."""
    train, test = given.train.time, given.test.time
    if train is None or test is None or not (len(train) and len(test)):
        return
    if train.min() > test.max():
        yield finding(
            "SL206",
            f"Train begins {time_at(given.train, 0)}, after the end of test.",
            severity=Severity.NOTE if given.is_published else None,
            remedy="Learn from a time before the incidents if there is one.",
        )


# Labels and incidents


def check_incidents(given: Recordings) -> Iterator[Finding]:
    """Find incidents that lie in train, in a gap, or outside of both tables."""
    spans = {one.id: one.listed for one in given.incidents if one.listed is not None}
    train, test = given.train, given.test
    if not spans or train.time is None or test.time is None:
        return
    lost, in_train, n_outside = {}, [], 0
    for id_, span in spans.items():
        if rows_within(test.time, span).any():
            continue
        if _overlaps(train.time, span):
            in_train.append(id_)
            continue
        lost[id_] = f"{id_} ({stamp(span[0], test.timezone)})"
        n_outside += not _overlaps(test.time, span)
    if lost:
        where = {
            "in a gap": len(lost) - n_outside,
            "outside of train and test": n_outside,
        }
        said = [
            f"{count} of {len(spans)} lie {k}" for k, count in where.items() if count
        ]
        yield finding(
            "SL212",
            f"Incidents that cannot be judged: {names(said)}: "
            f"{names(list(lost.values()), _MOST_NAMES)}.",
            table="test",
            cells=list(lost.values())[:_MOST_TAGS],
            remedy="Check timezone in plant.toml and the times of the list, or export "
            "the missing time.",
        )
    listed = names(in_train, _MOST_TAGS)
    if in_train and len(in_train) == len(spans):
        text = f"All {len(spans)} incidents lie in train and none in test: {listed}."
        remedy = "Swap the two tables, or check the times of the list."
        yield finding("SL215", text, table="train", remedy=remedy)
    elif in_train:
        text = f"{len(in_train)} of {len(spans)} incidents lie in train: {listed}."
        remedy = "Check the times of the list; begin test before the first incident."
        yield finding("SL214", text, table="train", remedy=remedy)


def _overlaps(time: Floats, span: Span) -> bool:
    """Return whether a span has a part between the first and the last row."""
    return bool(len(time) and span[0] <= time.max() and span[1] >= time.min())


def check_labels(given: Recordings) -> Iterator[Finding]:
    """Compare labelled runs with listed attacks, both ways.

    A difference is an error in a published release, and in a plant of the user a
    warning, or a note if it is a matter of a few rows.
    """
    test = given.test
    if test.labels is None or not test.attacks:
        return
    severity = Severity.WARNING if given.release is None else Severity.ERROR
    is_labelled = test.labels == ATTACK
    is_listed = np.zeros(test.n_steps, np.bool_)
    remedy = "Correct the label column or the list of incidents."
    unlabelled = []
    for attack in test.attacks:
        rows = slice(attack.start, attack.stop)
        is_listed[rows] = True
        if not is_labelled[rows].any() and (test.labels[rows] == NORMAL).any():
            unlabelled.append(f"{attack.id} ({time_at(test, attack.start)})")
    if unlabelled:
        have = counted(len(unlabelled), "attack", "has", "have")
        yield finding(
            "SL211",
            f"{have} no labelled row: {names(unlabelled, _MOST_NAMES)}.",
            severity=severity,
            table="test",
            cells=unlabelled[:_MOST_NAMES],
            remedy=remedy,
        )
    unlisted = [
        run for run in segments_of(is_labelled) if not is_listed[run.rows].any()
    ]
    if unlisted:
        where = [f"{time_at(test, r.start)} ({r.length:,} rows)" for r in unlisted]
        yield finding(
            "SL211",
            f"Labelled runs that are in no attack list: {names(where, _MOST_NAMES)}.",
            severity=severity,
            table="test",
            cells=where[:_MOST_NAMES],
            remedy=remedy,
        )
    beyond = int((is_labelled & ~is_listed).sum()) - sum(r.length for r in unlisted)
    short = int((is_listed & (test.labels == NORMAL)).sum())
    if beyond or short:
        yield finding(
            "SL211",
            f"Known attacks are labelled {beyond:,} rows too long and {short:,} rows "
            "too short.",
            severity=Severity.NOTE if given.release is None else severity,
            table="test",
            remedy=remedy,
        )


def check_label_lag(given: Recordings) -> Iterator[Finding]:
    """Find labels that fit the telemetry far better if they are shifted in time.

    Rows of test are ranked by how far their tags lie outside their range in train, and
    the ranks are compared with their mean over six hours, so that drift does not count.
    The labels are moved along the ranks by up to `_LAG_S` each way; every attack has
    the same weight. A shift is reported only if it fits more than `_LAG_TIMES` times as
    well as no shift, stands out from all other shifts by `_LAG_SIGMA` of their spread,
    is no mere delay (at least half an attack long), and moves at least `_LAG_SHARE` of
    at least `_LAG_ATTACKS` attacks to a more unusual place.
    """
    test, step_s = given.test, given.test.step_s
    runs = segments_of(np.asarray(test.labels == ATTACK))
    most = min(test.n_steps // 4, int(_LAG_S / step_s) if step_s else test.n_steps)
    if len(runs) < _LAG_ATTACKS or most < _LAG_ROWS:
        return
    ranks = _local_ranks(given.unusual, int(_LOCAL_S / step_s) if step_s else most)
    # The mean over attacks of the mean rank of their rows, moved by each lag from -most
    # to most: a correlation. Beyond the ends ranks are 0.
    weights = np.zeros(len(ranks))
    for run in runs:
        weights[run.rows] = 1 / (run.length * len(runs))
    size = 1 << (len(ranks) + 2 * most).bit_length()
    padded = np.fft.rfft(np.append(np.zeros(most), ranks), size)
    fit = np.fft.irfft(padded * np.conj(np.fft.rfft(weights, size)), size)
    fit = fit[: 2 * most + 1]
    middle = float(np.median(fit))
    sigma = 1.4826 * float(np.median(np.abs(fit - middle)))
    lag, gain = int(np.argmax(fit)) - most, float(fit.max()) - middle
    length = float(np.median([run.length for run in runs]))
    if (
        abs(lag) < max(_LAG_ROWS, length / 2)
        or gain <= _LAG_SIGMA * sigma
        or gain <= _LAG_TIMES * max(float(fit[most]) - middle, 0.0)
    ):
        return
    so_far = np.append(0.0, np.cumsum(ranks))
    rows = np.array([(run.start, run.stop) for run in runs]).T
    moved_rows = np.clip(rows + lag, 0, test.n_steps)
    before, after = (so_far[b] - so_far[a] for a, b in (rows, moved_rows))
    n_better = int((after > before).sum())
    if n_better < _LAG_SHARE * len(runs):
        return
    shift = f"{abs(lag):,} rows"
    shift += f" ({duration(abs(lag) * step_s)})" if step_s else ""
    yield finding(
        "SL213",
        f"The labels fit the telemetry far better {shift} "
        f"{'later' if lag > 0 else 'earlier'}: {n_better} of {len(runs)} attacks would "
        "then lie where tags leave their range of train more.",
        table="test",
        remedy="Check timezone in plant.toml and the clock of the incidents.",
    )


def _local_ranks(values: Floats, width: int) -> Floats:
    """Return ranks from 0 to 1, minus their mean over about `width` rows around each.

    Equal values have their mean rank.
    """
    ranks = (mean_ranks(values) - 0.5) / len(values)
    so_far = np.append(0.0, np.cumsum(ranks))
    half = max(min(width, len(values) // 4) // 2, 1)
    rows = np.arange(len(values))
    first, stop = np.maximum(rows - half, 0), np.minimum(rows + half, len(values))
    return np.asarray(ranks - (so_far[stop] - so_far[first]) / (stop - first))


# What train and test share


def check_shared_rows(given: Recordings) -> Iterator[Finding]:
    """Look for rows of train that occur in test, whatever their time.

    Up to `n_shared` rows are the release's own and a note; more are an error. A record
    that is judged in parts is its own train.
    """
    if given.test.parts > 1:
        return
    stretches = shared_stretches(
        ArrayRows(given.train.values), ArrayRows(given.test.values)
    )
    total = sum(stretch.length for stretch in stretches)
    where = [
        f"{s.length:,} from {time_at(given.train, s.train_start)} of train, at "
        f"{time_at(given.test, s.test_start)} of test"
        for s in stretches
    ]
    if stretches:
        yield finding(
            "SL208",
            f"Train and test share {total:,} rows, value by value: "
            f"{names(where, _MOST_NAMES)}. A detector trained on them has already seen "
            "them.",
            severity=Severity.NOTE if total <= given.n_shared else None,
            cells=where[:_MOST_NAMES],
            remedy="Remove them from train.",
        )


def check_shared_times(given: Recordings) -> Iterator[Finding]:
    """Look for time stamps of train that occur in test."""
    if given.train.time is None or given.test.time is None or given.test.parts > 1:
        return
    twice = int(np.isin(given.train.time, given.test.time).sum())
    if twice:
        # A file often begins with the moment at which the other ends.
        is_known = twice <= max(given.n_shared, 1)
        yield finding(
            "SL207",
            f"{twice:,} time stamps of train occur in test too.",
            severity=Severity.NOTE if is_known else None,
            remedy="Remove those rows from train (`cut_leak=True` of open_testbed).",
        )


# Tags and cells


def check_constant(given: Recordings) -> Iterator[Finding]:
    """Name constant tags, and attacks that dropping constant tags would hide."""
    constant = {
        "train": [tag.name for tag in given.tags if _is_constant(tag.train)],
        "test": [tag.name for tag in given.tags if _is_constant(tag.test)],
    }
    for name, tags in constant.items():
        if len(tags) > _MOST_CONSTANT * len(given.tags):
            is_all = len(tags) == len(given.tags)
            yield finding(
                "SL227",
                f"{'All' if is_all else f'{len(tags)} of'} {len(given.tags)} tags "
                f"never vary in {name}.",
                severity=Severity.ERROR if is_all else None,
                table=name,
                remedy="Check that the export holds readings and not one row repeated.",
            )
        if tags:
            yield finding(
                "SL226",
                f"{len(tags)} of {len(given.train.tags)} tags never vary in {name}: "
                f"{names(tags, _MOST_TAGS)}.",
                table=name,
                tags=tags,
            )
    targets = {t: f"{t} (attack {a.id})" for a in given.test.attacks for t in a.targets}
    only_train = set(constant["train"]) - set(constant["test"])
    for text, chosen in (
        (
            "Attacked tags that never vary in test, so that the attack leaves no trace "
            "in its own column",
            [tag for tag in targets if tag in constant["test"]],
        ),
        (
            "Attacked tags that vary in test only, so that dropping what is constant "
            "in train would hide their attacks",
            [tag for tag in targets if tag in only_train],
        ),
    ):
        if chosen:
            listed = names([targets[tag] for tag in chosen], _MOST_TAGS)
            yield finding("SL216", f"{text}: {listed}.", tags=chosen)


def _is_constant(tag: TagSummary) -> bool:
    """Return whether a tag has one value in all rows, or none at all."""
    return tag.missing == 1 or (tag.missing == 0 and tag.lowest == tag.highest)


def check_finite(given: Recordings) -> Iterator[Finding]:
    """Count cells that are nan or infinite, by tag."""
    # One that is judged in parts is its own train.
    for name, table in given.tables[-1:] if given.test.parts > 1 else given.tables:
        missing = {tag.name: getattr(tag, name).missing for tag in given.tags}
        counts = {k: round(v * table.n_steps) for k, v in missing.items() if v}
        if counts:
            listed = [f"{tag} ({count:,})" for tag, count in counts.items()]
            yield finding(
                "SL225",
                f"{name}: {plural(sum(counts.values()), 'cell')} without a finite "
                f"number: {names(listed, _MOST_NAMES)}.",
                severity=None if given.is_published else Severity.WARNING,
                table=name,
                tags=sorted(counts, key=lambda tag: -counts[tag]),
                remedy="These tags are out of service in those rows. If a tag is only "
                "written when it changes, raise its hold_s in plant.toml; what the "
                "source calls bad is never held.",
            )


CHECKS: tuple[Callable[[Recordings], Iterator[Finding]], ...] = (
    check_dates,
    check_order,
    check_incidents,
    check_labels,
    check_label_lag,
    check_shared_rows,
    check_shared_times,
    check_constant,
    check_finite,
)
