"""From the files of a plant to the rows that a rule reads.

Telemetry passes through the saved detector of the rule; tables of residuals do not. A
file of a watched folder is read when it is new or has changed since it was read, and
when no program seems to write it any more.
"""

import hashlib
import os
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints, Labels
from sightline.data.downsampling import (
    Sampling,
    downsampled,
)
from sightline.data.recording import Recording, Role, Tag, forward_fill
from sightline.data.segments import GAP_FACTOR
from sightline.data.standing import LONGEST_S, STILL_LIMIT, StandingTags
from sightline.data.validity import (
    POOR_S,
    Codes,
    Gate,
    LastKnown,
    Unwatched,
    Validity,
    code_table,
    codes_of,
    hold,
    reading_words,
    spans,
    with_gaps,
)
from sightline.data.zones import AHEAD_S, FAR_S, stamp
from sightline.detectors import LearnedDetector, load_detector
from sightline.detectors.baselines import Baseline
from sightline.errors import FileError, StreamError
from sightline.export import ExportedRows, export_rows
from sightline.files import reading
from sightline.operation.watch_state import Fate, SeenFile
from sightline.progress import Progress, silent
from sightline.rules.file import file_digest
from sightline.rules.making import MadeRule
from sightline.rules.normal import Origin, Telemetry
from sightline.rules.rule import Rule
from sightline.tables.text_tables import EXCEL, PARQUET, is_table
from sightline.testbeds.base import HOLD_S
from sightline.testbeds.own_plant import read_folder
from sightline.testbeds.own_plant.exports import raw_readings, texts_in
from sightline.testbeds.own_plant.settings import PlantSettings, read_settings
from sightline.testbeds.own_plant.tables import StateWords, open_source
from sightline.text import duration, names, plural

# Tables of a folder that are no telemetry.
_NO_EXPORTS = ("tags", "attacks", "incidents")
# A file that changed less than this many seconds ago may still be written.
SETTLE_S: Final = 5.0
_PACKED: Final = ".gz"
# Without any reading of a long table for longer, rows are missing.
MOST_GAP_S: Final = 86_400.0


class ReadsRows(Protocol):
    """What says which rows a rule reads: a made rule, or one without members."""

    @property
    def rule(self) -> Rule:
        """Its channels and its step."""

    @property
    def origin(self) -> Origin | None:
        """How recordings are prepared."""


# --- A recording through the detector -------------------------------------------------


def detector_of(
    made: MadeRule, rule_path: Path, override: Path | None = None
) -> LearnedDetector:
    """Return the detector through which telemetry passes before the rule.

    Parameters
    ----------
    made : MadeRule
        As it was read.
    rule_path : Path
        Its file; the detector's path is relative to its folder.
    override : Path, optional
        Another place of the same file.

    Raises
    ------
    FileError
        If the rule names no detector, or the file is missing or another one.
    """
    saved = None if made.origin is None else made.origin.saved_detector
    if saved is None:
        raise FileError(
            f"{rule_path}: names no saved detector, so it cannot read telemetry: give "
            "residuals, or commission again with --detector."
        )
    folder = rule_path if rule_path.is_dir() else rule_path.parent
    path = folder / saved.path if override is None else override
    if not path.is_file():
        raise FileError(
            f"{path}: there is no such file, and the rule needs its detector: name it "
            "with --detector."
        )
    if file_digest(path) != saved.sha256:
        raise FileError(
            f"{path}: is not the detector that the rule was made for, or was changed "
            "since: commission again with this one."
        )
    return load_detector(path)


def with_forecast(made: MadeRule, detector: LearnedDetector) -> MadeRule:
    """Return a rule with the forecast of its detector, where that is a linear one.

    It has none where rows of the rule are made of several measured ones.
    """
    known = telemetry_of(made)
    tags = tuple(detector.channels or ())
    hold_s = np.array([known.holds.get(tag, HOLD_S) for tag in tags])
    found = None
    if isinstance(detector, Baseline) and known.step_s == made.rule.step_s:
        found = detector.forecast(hold_s)
    channels = [channel.name for channel in made.rule.channels]
    if found is None or [found.tags[k] for k in found.kept] != channels:
        return made
    return replace(made, forecast=found)


def exports_in(folder: Path) -> list[Path]:
    """Return the tables of rows in a folder by name, without lists and hidden files."""
    with reading(folder):
        return sorted(
            path
            for path in folder.iterdir()
            if is_table(path)
            and path.name.lower().partition(".")[0] not in _NO_EXPORTS
            and not path.name.startswith(".")
            and path.is_file()
        )


def export_settings(folder: Path, made: ReadsRows) -> PlantSettings:
    """Return how tables of a folder are read: by its plant.toml, else as the rule says.

    A rule knows the zone, and the order of day and month.
    """
    settings = read_settings(folder / "plant.toml")
    zone = None if made.origin is None else made.origin.timezone
    order = settings.date_order or telemetry_of(made).date_order
    return replace(
        settings,
        timezone=settings.timezone or zone,
        date_order=order,
    )


def read_telemetry(
    sources: Sequence[Path],
    made: ReadsRows,
    detector: LearnedDetector,
    *,
    progress: Progress = silent,
) -> tuple[Recording, tuple[str, ...]]:
    """Return what a plant measured as one recording, and notices.

    Parameters
    ----------
    sources : sequence of Path
        Tables of telemetry, and folders of them; of the folder of a plant, its test.
    made, detector : MadeRule, LearnedDetector
        The rule and its detector.
    progress : callable, optional
        Called with a `Step`.
    """
    tables: list[Path] = []
    for source in sources:
        inside = exports_in(source) if source.is_dir() else [source]
        if {"train", "test"} <= {path.stem.lower() for path in inside}:
            if len(sources) > 1:
                raise FileError(f"{source}: is a plant's folder: give it alone.")
            plant = read_folder(source, progress=progress)
            return plant.test, plant.notices
        tables += inside
    folder = next((path.parent for path in tables), Path())
    return read_exports(tables, made, detector, export_settings(folder, made))


def read_exports(
    paths: Sequence[Path],
    made: ReadsRows,
    detector: LearnedDetector,
    settings: PlantSettings,
) -> tuple[Recording, tuple[str, ...]]:
    """Return tables of telemetry as one recording, in order of time, and notices.

    Parameters
    ----------
    paths : sequence of Path
        The tables, wide or long. Tags that the detector does not read are left out.
    made : MadeRule
        The rule; it says how words are read, and the step.
    detector : LearnedDetector
        Its detector.
    settings : PlantSettings
        See `export_settings`.

    Raises
    ------
    FileError
        If a table cannot be read or has no tag of the detector, or nothing in them can
        be watched.
    """
    if not paths:
        raise FileError(
            "There is no table of telemetry (CSV, Parquet or Excel) to read."
        )
    known, channels = telemetry_of(made), tuple(detector.channels or ())
    reader = TelemetryReader(channels=channels, settings=settings, known=known)
    by_path: dict[Path, TableRows] = {}
    step_s = None
    for path in paths:
        table = by_path[path] = reader(path, step_s)
        step_s = table.step_s
        if table.is_utc != by_path[paths[0]].is_utc:
            raise FileError(
                f"{path}: its time stamps carry a zone and those of other files do "
                "not, or the reverse: state timezone in plant.toml."
            )
    wrong = dated_wrongly({path: table.time for path, table in by_path.items()})
    if len(wrong) == len(paths):
        raise FileError(wrong[paths[0]])
    tables = [table for path, table in by_path.items() if path not in wrong]
    spans = {
        str(k): (float(table.time[0]), float(table.time[-1]), table.second_pass_s)
        for k, table in enumerate(tables)
        if len(table.time)
    }
    later = second_passes(spans)
    tables = [table.later(later.get(str(k), 0.0)) for k, table in enumerate(tables)]
    whole = replace(
        tables[0],
        time=np.concatenate([table.time for table in tables]),
        rows=np.concatenate([table.rows for table in tables]),
        codes=np.concatenate([table.codes for table in tables]),
    )
    order = in_order(whole.time)
    whole = replace(
        whole,
        time=whole.time[order],
        rows=whole.rows[order],
        codes=whole.codes[order],
    )
    poor_s = memory_s(detector, made)
    gate = Gatekeeper(channels, whole.step_s, settings, known, poor_s=poor_s)
    read = joined(whole, None)
    watched = gate.watched(*read)
    if not len(watched.time):
        raise FileError(
            f"{names([path.name for path in paths], 3)}: nothing was watched: in no "
            "row can at least half of the detector's tags be used."
        )
    firsts = np.flatnonzero(read[3])
    lasts = np.append(firsts[1:], len(read[0])) - 1
    runs = np.stack([read[0][firsts], read[0][lasts]], axis=1)
    notices = [*wrong.values()]
    notices += [notice for table in tables for notice in table.notices]
    texts = list(dict.fromkeys(t for one in tables for t in texts_in(one.words)))
    if said := reading_words(code_table(watched.codes), channels, texts):
        notices.append(said)
    labels = None
    if any(table.labels is not None for table in tables):
        # Rows of tables without labels are normal; a row that was filled in is as the
        # one before it.
        labels = np.concatenate(
            [
                np.zeros(len(table.time), np.int8)
                if table.labels is None
                else table.labels
                for table in tables
            ]
        )[order]
        at = np.searchsorted(whole.time, watched.time + 1e-6, side="right") - 1
        labels = labels[at]
    return Recording(
        values=watched.rows,
        labels=labels,
        tags=tuple(
            Tag(name=name, role=Role(known.roles.get(name, Role.SENSOR)))
            for name in channels
        ),
        time=watched.time,
        step_s=whole.step_s,
        breaks=np.append(0, np.flatnonzero(watched.begins[1:]) + 1),
        timezone=settings.timezone or ("UTC" if whole.is_utc else None),
        source=names([path.name for path in paths], 3),
        validity=watched.codes[watched.is_watched],
        unwatched=with_gaps(runs, watched.unwatched, whole.step_s),
    ), tuple(notices)


def rule_rows(
    recording: Recording,
    made: ReadsRows,
    detector: LearnedDetector,
    *,
    progress: Progress = silent,
) -> ExportedRows:
    """Return the rows of a recording that a rule reads.

    The recording is brought to the step that the detector learned from, passes through
    the detector, and must then have the channels and the step of the rule.

    Parameters
    ----------
    recording : Recording
        With the detector's channels.
    made : MadeRule
        The rule.
    detector : LearnedDetector
        Its detector.
    progress : callable, optional
        Called with a `Step`.

    Raises
    ------
    StreamError
        If step or channels do not fit.
    """
    telemetry, rule = telemetry_of(made), made.rule
    whole = recording
    if steps_to_join(recording.step_s, telemetry) > 1:
        # Steps are joined after holding, as from file to file.
        breaks = np.zeros(1, np.int64) if whole.breaks is None else whole.breaks
        held = forward_fill(whole.values, breaks)
        whole = replace(whole, values=held, validity=whole.codes())
    slower = prepared(whole, telemetry)
    rows = export_rows(detector, slower, preset=telemetry.preset, progress=progress)
    check_names(rows.channels, made)
    if rule.needs_score and rows.score is None:
        raise StreamError(
            f"The rule {rule.name!r} reads the detector's own score, which is not made "
            "from telemetry alone: choose another rule, or give a stream."
        )
    check_step(rows.step_s, made)
    return rows


def prepared(recording: Recording, telemetry: Telemetry) -> Recording:
    """Return a recording with rows of the step that the detector learned from."""
    every = steps_to_join(recording.step_s, telemetry)
    sampling = cast(Sampling, telemetry.sampling)
    return downsampled(recording, every=every, sampling=sampling)


def steps_to_join(step_s: float | None, telemetry: Telemetry) -> int:
    """Return how many measured rows make one row of the detector's recordings.

    Raises
    ------
    StreamError
        If no whole number of them does.
    """
    wanted = telemetry.step_s
    if wanted is None or step_s is None:
        return 1
    every = round(wanted / step_s)
    if every < 1 or abs(every * step_s - wanted) > 0.01 * wanted:
        raise StreamError(
            f"Rows are {step_s:g} s apart, and the rule's detector reads rows "
            f"{wanted:g} s apart: export them in that step, or a whole part of it."
        )
    return every


def check_names(channels: Sequence[str], made: ReadsRows) -> None:
    """Raise unless rows have the channels of a rule, in their order."""
    wanted = [channel.name for channel in made.rule.channels]
    if list(channels) == wanted:
        return
    missing = [name for name in wanted if name not in channels]
    other = [name for name in channels if name not in wanted]
    what = (
        f"lack {names(missing, 3)}"
        if missing
        else f"also have {names(other, 3)}"
        if other
        else "have them in another order"
    )
    raise StreamError(
        f"The rule reads {len(wanted)} channels ({names(wanted, 3)}), and the rows "
        f"{what}: give the residuals of the detector it was made for."
    )


def check_step(step_s: float | None, made: ReadsRows) -> None:
    """Raise if rows come in another step than a rule was made for."""
    wanted = made.rule.step_s
    if step_s is None or wanted is None or abs(step_s - wanted) <= 0.01 * wanted:
        return
    raise StreamError(
        f"Rows are {step_s:g} s apart, and the rule was made for rows {wanted:g} s "
        "apart: its delays and its promise hold for that step alone."
    )


def memory_s(detector: LearnedDetector, made: ReadsRows) -> float:
    """Return how many seconds of rows one residual of a detector depends on.

    That of a detector that looks at all rows is not known: then it is `POOR_S`.
    """
    try:
        n_rows = detector.look_back(telemetry_of(made).preset) + 1
    except StreamError:
        return POOR_S
    return n_rows * (made.rule.step_s or 1.0)


def telemetry_of(made: ReadsRows) -> Telemetry:
    """Return how recordings are prepared for the detector of a rule."""
    return Telemetry() if made.origin is None else made.origin.telemetry


# --- Files of a watched folder --------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class TableRows:
    """The rows of one file, in order of time, each stamp once.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds since 1970.
    rows : array of shape (n_rows, n_channels)
        Their values; nothing is held yet.
    codes : array of int8, shape (n_rows, n_channels)
        The `Validity` of each cell.
    is_utc : bool
        Whether time is UTC, or on the plant's own clock.
    step_s : float
        Seconds between rows.
    hold_s : float
        A gap of at most this many seconds is filled with rows without a reading.
    notices : tuple of str
        What was left out, a sentence each.
    labels : array of int8, shape (n_rows,), optional
        Of a column of labels; `watch` does not look at them.
    second_pass_s : float
        See `sightline.tables.stamps.Seconds`; 0 where time is certain.
    """

    time: Floats
    rows: Floats
    codes: Codes
    is_utc: bool
    step_s: float
    hold_s: float = 0.0
    notices: tuple[str, ...] = ()
    labels: Labels | None = None
    second_pass_s: float = 0.0
    words: Mapping[str, tuple[Floats, Any]] = field(default_factory=dict)

    def where(self, keep: Bools) -> "TableRows":
        """Return some of the rows."""
        time, rows, codes = self.time[keep], self.rows[keep], self.codes[keep]
        return replace(self, time=time, rows=rows, codes=codes)

    def later(self, seconds: float) -> "TableRows":
        """Return the same rows at a later time."""
        if not seconds:
            return self
        words = {tag: (at + seconds, said) for tag, (at, said) in self.words.items()}
        return replace(self, time=self.time + seconds, words=words)


class TableReader(Protocol):
    """Reads one file."""

    def __call__(self, path: Path, step_s: float | None, /) -> TableRows:
        """Return its rows.

        Parameters
        ----------
        path : Path
            The file.
        step_s : float, optional
            Seconds between rows, once a file has said it.
        """


# --- Files ----------------------------------------------------------------------------


def looked_at(
    path: Path, known: SeenFile | None, settle_s: float = SETTLE_S
) -> SeenFile | None:
    """Return what there is to do with a file; None if there is nothing.

    Parameters
    ----------
    path : Path
        The file.
    known : SeenFile, optional
        As it was when it was looked at before.
    settle_s : float
        See `SETTLE_S`.

    Returns
    -------
    SeenFile or None
        With the fate ``WAITING`` if it may still be written: it is empty, or it is
        not as it was at the last look and changed within the last seconds or has a
        last line without end. With the fate ``READ`` if it is to be read. None if it
        was read as it is.
    """
    with reading(path):
        facts = path.stat()
    is_read = known is not None and known.fate in (Fate.READ, Fate.LATE)
    size, changed = facts.st_size, facts.st_mtime_ns
    if known and is_read and (known.size, known.changed) == (size, changed):
        return None
    ends_in_line = False
    with reading(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if path.suffix.lower() not in (*PARQUET, *EXCEL, _PACKED):
            file.seek(-min(4, os.fstat(file.fileno()).st_size), os.SEEK_END)
            ends_in_line = not file.read().rstrip(b"\0").endswith((b"\n", b"\r"))
    if known and is_read and known.digest == digest:
        return None
    is_same = known is not None and known.digest == digest
    is_young = clock.time() - changed / 1e9 < settle_s
    if not size or (is_young and not is_same):
        why = "may still be written"
    elif not is_same and ends_in_line:
        why = "ends within a line and may still be written"
    else:
        why = ""
    return SeenFile(
        name=path.name,
        size=size,
        changed=changed,
        digest=digest,
        fate=Fate.WAITING if why else Fate.READ,
        rows=known.rows if known else 0,
        note=f"{path.name}: {why}; it is left for the next time." if why else "",
    )


# --- Residuals ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ResidualReader:
    """Reads tables of residuals.

    Parameters
    ----------
    channels : sequence of str
        The rule's channels; other columns are left out.
    settings : PlantSettings
        Zone and format of time stamps.
    step_s : float
        Seconds a row, as the rule was made for.
    """

    channels: Sequence[str]
    settings: PlantSettings
    step_s: float

    def __call__(self, path: Path, step_s: float | None = None, /) -> TableRows:
        """Return the rows of a table; a cell without a residual is missing.

        Raises
        ------
        FileError
            If it is no table of residuals with time stamps.
        """
        import polars as pl

        source = open_source(path, self.settings)
        frame = source.table.frame
        if missing := [name for name in self.channels if name not in frame.columns]:
            raise FileError(
                f"{path}: lacks {names(missing, 3)}, which the rule reads: give the "
                "residuals of its detector, one column for each channel."
            )
        columns = []
        for name in self.channels:
            cells = source.cells[name].numbers if name in source.cells else None
            series = frame[name] if cells is None else cells
            if not series.dtype.is_numeric():
                raise FileError(f"{path}: column {name!r} holds no numbers.")
            numbers = series.cast(pl.Float64).fill_null(float("nan"))
            columns.append(np.asarray(numbers.to_numpy()))
        order = in_order(source.time)
        rows = np.stack(columns, axis=1)[order]
        rows[~np.isfinite(rows)] = np.nan
        return TableRows(
            time=source.time[order],
            rows=rows,
            codes=codes_of(rows),
            is_utc=source.is_utc,
            step_s=self.step_s,
            notices=(*source.clock, *_back_words(path, source.time)),
            second_pass_s=source.second_pass_s,
        )


def _back_words(path: Path, time: Floats) -> list[str]:
    """Return where the time of a table goes back; empty where it does not."""
    back = np.flatnonzero(np.diff(time) < 0)
    if not len(back):
        return []
    return [
        f"{path.name}: time goes back at {plural(len(back), 'row')}, first after "
        f"{stamp(float(time[back[0]]), None)}: rows were put in order of time, each "
        "stamp once."
    ]


# --- Telemetry ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TelemetryReader:
    """Reads exports of what the plant measured.

    Parameters
    ----------
    channels : sequence of str
        The detector's channels; other tags are left out.
    settings : PlantSettings
        How tables are read.
    known : Telemetry
        How words are read, and the roles of tags.
    """

    channels: Sequence[str]
    settings: PlantSettings
    known: Telemetry

    def __call__(self, path: Path, step_s: float | None = None, /) -> TableRows:
        """Return the rows of an export, wide or long, in even steps.

        A tag that it lacks is missing in every row, and one in another unit than the
        detector learned cannot be used.

        Raises
        ------
        FileError
            If it cannot be read, or has no tag of the detector.
        """
        settings = replace(self.settings, step_s=self.settings.step_s or step_s)
        known = self.known
        source = open_source(path, settings, roles=known.roles, ranges=known.ranges)
        is_long = source.columns.tag is not None
        if is_long and settings.step_s is None:
            # A long table has rows in any step: those that the detector reads.
            source.settings = replace(settings, step_s=known.step_s)
        readings = raw_readings(source, StateWords(known.words), may_be_empty=True)
        found = {name: k for k, name in enumerate(readings.channels)}
        present = [(k, found[n]) for k, n in enumerate(self.channels) if n in found]
        if not present:
            raise FileError(
                f"{path}: has no tag that the rule's detector reads: it has "
                f"{names(readings.channels, 3)}, and the detector reads "
                f"{names(self.channels, 3)}."
            )
        rows = np.full((len(readings.time), len(self.channels)), np.nan)
        codes = np.full(rows.shape, Validity.MISSING, np.int8)
        codes[(readings.validity == Validity.CLOCK).any(axis=1)] = Validity.CLOCK
        notices = [*readings.clock]
        for k, place in present:
            rows[:, k], codes[:, k] = (
                readings.values[:, place],
                readings.validity[:, place],
            )
            tag = self.channels[k]
            wanted, unit = known.units.get(tag), readings.units.get(tag)
            if wanted and unit and wanted.lower() != unit.lower():
                codes[:, k] = Validity.UNIT
                notices.append(
                    f"{path.name}: {tag} is in {unit}, and the rule was made for "
                    f"{wanted}: its values are not used. Export it in {wanted}"
                    f"{_conversion(unit, wanted)}, or commission again."
                )
        lost = [n for n in self.channels if n not in found]
        if lost and not is_long:
            notices.append(f"{path.name}: has no column {names(lost, 3)}.")
        return TableRows(
            time=readings.time,
            rows=rows,
            codes=codes,
            is_utc=readings.is_utc,
            step_s=readings.step_s,
            # Between long tables, as within one, nothing was written.
            hold_s=MOST_GAP_S if is_long else self.settings.hold_s,
            notices=tuple(notices),
            words=readings.words,
            labels=readings.labels,
            second_pass_s=source.second_pass_s,
        )


def dated_wrongly(
    times: Mapping[Path, Floats], *, others_are_right: bool = False
) -> dict[Path, str]:
    """Return a sentence for each file that a wrong clock dated.

    All of its rows lie in its future, by more than `AHEAD_S` where other files agree
    with the time at which they were written, else by more than `FAR_S`: it may be the
    clock of this computer that is wrong.

    Parameters
    ----------
    times : mapping of Path to array
        Seconds of the rows of each file.
    others_are_right : bool
        Whether files that were read before agree.
    """
    now = clock.time()
    ahead = {
        path: time.min() - max(path.stat().st_mtime, now)
        for path, time in times.items()
        if len(time)
    }
    others_are_right |= any(seconds <= AHEAD_S for seconds in ahead.values())
    most = AHEAD_S if others_are_right else FAR_S
    return {
        path: f"{path}: is set aside: all of its rows are dated later than the file "
        f"itself, from {stamp(float(times[path].min()), None)} on. Correct the clock "
        "that wrote them, and the time stamps."
        for path, seconds in ahead.items()
        if seconds > most
    }


# Parts and multiples of a unit.
_PREFIXES: Final = {
    "": 1.0,
    "µ": 1e-6,
    "m": 1e-3,
    "c": 1e-2,
    "d": 0.1,
    "h": 1e2,
    "k": 1e3,
    "M": 1e6,
}


def _conversion(unit: str, wanted: str) -> str:
    """Return in words how one unit becomes another, where that is exact; else nothing.

    Examples
    --------
    >>> _conversion("V", "mV"), _conversion("bar", "mbar"), _conversion("l/s", "m")
    (' (1 V is 1000 mV)', ' (1 bar is 1000 mbar)', '')
    """
    for one, size in _PREFIXES.items():
        for other, part in _PREFIXES.items():
            base = unit.removeprefix(one)
            if base and unit == one + base and wanted == other + base:
                return f" (1 {unit} is {size / part:.12g} {wanted})"
    return ""


def second_passes(
    times: Mapping[str, tuple[float, float, float]],
    runs: Floats | None = None,
    firsts: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return how many seconds later each file is than it reads.

    A file with nothing but rows of the hour that comes twice in autumn does not say
    which pass it is of. It is the second if files before it, by name, or rows that were
    read before, are of the first.

    Parameters
    ----------
    times : mapping of str to (float, float, float)
        By file, in the order of their names: first and last time of each, and
        `TableRows.second_pass_s`.
    runs : array of shape (n, 2), optional
        First and last time of what was read before.
    firsts : mapping of str to float, optional
        First time of files that were read before and have changed.
    """
    taken = [] if runs is None else [(a, b) for a, b in runs.tolist()]
    taken += [(a, b) for a, b, second_s in times.values() if not second_s]
    found = dict.fromkeys(times, 0.0)
    for name, (first, last, second_s) in times.items():
        if not second_s:
            continue
        before = (firsts or {}).get(name)
        is_taken = any(a <= last and first <= b for a, b in taken)
        if before == first + second_s or (before is None and is_taken):
            found[name] = second_s
        taken.append((first + found[name], last + found[name]))
    return found


def in_order(time: Floats) -> Ints:
    """Return rows in order of time; of rows with one stamp the last counts."""
    order = np.argsort(time, kind="stable")
    is_last = np.append(np.diff(time[order]) > 0, True)[: len(order)]
    return np.asarray(order[is_last])


# --- Rows that go on ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fresh:
    """How many rows of a file were new.

    Parameters
    ----------
    taken : int
        New rows.
    again : int
        Rows with a time that was read before.
    late : int
        Rows that lie before the last row read, in a gap.
    """

    taken: int
    again: int
    late: int


def fresh_rows(table: TableRows, runs: Floats) -> tuple[TableRows, Fresh]:
    """Return the rows of a file after all that was read, and how many others it has.

    Parameters
    ----------
    table : TableRows
        The file.
    runs : array of shape (n, 2)
        First and last time of each continuous run that was read, ascending.
    """
    last = runs[-1, 1] if len(runs) else -np.inf
    is_new = table.time > last
    old = table.time[~is_new]
    run = np.searchsorted(runs[:, 0], old, side="right") - 1
    is_again = (run >= 0) & (old <= runs[np.maximum(run, 0), 1]) if len(old) else []
    n_again = int(np.sum(is_again))
    n_late = len(old) - n_again
    return table.where(is_new), Fresh(
        taken=int(is_new.sum()), again=n_again, late=n_late
    )


def joined(table: TableRows, last: float | None) -> tuple[Floats, Floats, Codes, Bools]:
    """Return time, rows, codes and where a run begins, gaps up to `hold_s` filled.

    A filled row has no reading.

    Parameters
    ----------
    table : TableRows
        Rows after `last`.
    last : float, optional
        Time of the last row read; None before the first.
    """
    step, longest = table.step_s, table.hold_s
    before = np.diff(table.time, prepend=-np.inf if last is None else last)
    is_short = (before > GAP_FACTOR * step) & (before <= longest + step)
    lost = np.where(is_short, np.rint(before / step) - 1, 0).astype(np.int64)
    begins = (before > GAP_FACTOR * step) & ~is_short
    if not lost.any():
        return table.time, table.rows, table.codes, begins
    row = np.repeat(np.arange(len(lost)), lost + 1)
    place = np.arange(len(row)) - np.repeat(np.cumsum(lost + 1) - lost - 1, lost + 1)
    until = lost[row] - place
    rows, codes = table.rows[row], table.codes[row]
    rows[until > 0], codes[until > 0] = np.nan, Validity.MISSING
    return table.time[row] - until * step, rows, codes, begins[row] & (place == 0)


_LAST: Final = ("values", "time", "codes")


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchedRows:
    """What the gate says of rows that were read.

    Parameters
    ----------
    time, rows : array
        Of the watched rows; nan where a tag is out of service.
    begins : array of bool
        Watched rows before which others are missing or were not watched.
    unwatched : tuple of Unwatched
        The time that was not.
    read_time : array of shape (n_read,)
        Of all rows that were read, watched or not.
    codes : array of int8, shape (n_read, n_tags)
        The `Validity` of each of their cells, held ones included.
    is_watched : array of bool, shape (n_read,)
        Which of them are watched.
    stands_since : mapping of int to array of shape (n_read,)
        For tags that are frozen in some rows: since when they show their value.
    """

    time: Floats
    rows: Floats
    begins: Bools
    unwatched: tuple[Unwatched, ...]
    read_time: Floats
    codes: Codes
    is_watched: Bools
    stands_since: Mapping[int, Floats]


def _standing_tags(
    channels: Sequence[str],
    known: Telemetry | None,
    holds: float | Floats,
    saved: Mapping[str, npt.NDArray[Any]] | None,
) -> StandingTags:
    """Return what follows tags that stand still; nothing of residuals.

    What is held stands still as well, so that no tag has a limit below its hold.
    """
    known = Telemetry() if known is None else known
    longest = np.array([known.longest_s.get(name, np.nan) for name in channels])
    held = np.where(np.asarray(holds) <= LONGEST_S, holds, 0.0)
    constant = {
        k: known.constant[name]
        for k, name in enumerate(channels)
        if name in known.constant
    }
    return StandingTags(len(channels), np.maximum(longest, held), constant, saved)


class Gatekeeper:
    """Holds readings and decides which rows are watched, from file to file.

    `watch` and `apply` both let rows pass here and nowhere else.

    Parameters
    ----------
    channels : sequence of str
        Of the rows.
    step_s : float
        Seconds a row.
    known : Telemetry, optional
        How long readings are held, and the mode; None for residuals, which are never
        held.
    settings : PlantSettings
        What plant.toml says of holding; it goes before what the rule says.
    saved : mapping of str to array, optional
        What `arrays` gave.
    poor_s : float
        See `Gate`; of a detector, `memory_s`.
    """

    def __init__(
        self,
        channels: Sequence[str],
        step_s: float,
        settings: PlantSettings,
        known: Telemetry | None = None,
        saved: Mapping[str, npt.NDArray[Any]] | None = None,
        poor_s: float = POOR_S,
    ) -> None:
        self.channels = tuple(channels)
        self.holds: float | Floats = 0.0
        mode = None
        if known is not None:
            own = settings.holds_of(channels, known.roles)
            made = np.array([known.holds.get(name, HOLD_S) for name in channels])
            self.holds = np.where(own == HOLD_S, made, own)
            if known.mode is not None and known.mode.tag in channels:
                mode = (list(channels).index(known.mode.tag), known.mode)
        self.last = LastKnown.nothing(len(channels))
        self.standing = _standing_tags(channels, known, self.holds, saved)
        self.gate = Gate(step_s=step_s, poor_s=poor_s, mode=mode)
        self.was_out = np.zeros(1, np.bool_)
        if saved is not None and "values" in saved:
            self.last = LastKnown(**{k: saved[k].copy() for k in _LAST})
            self.gate.state = saved["gate"].copy()
            self.was_out = saved["out"].copy()

    def frozen_words(self) -> str:
        """Return in words after how long each tag is called frozen; empty if none."""
        limits = STILL_LIMIT * self.standing.longest_s
        order = np.argsort(limits, kind="stable")
        said = [
            f"{self.channels[k]} after {duration(float(limits[k]))}"
            for k in order.tolist()
            if np.isfinite(limits[k])
        ]
        if not said:
            return ""
        n_none = len(limits) - len(said)
        none = f" {plural(n_none, 'tag')} may stand for any time." if n_none else ""
        return f"A tag that stands still is called frozen: {names(said, 60)}.{none}"

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that it remembers."""
        last = {name: getattr(self.last, name) for name in _LAST}
        own = {"gate": self.gate.state, "out": self.was_out}
        return last | own | self.standing.arrays()

    def watched(
        self, time: Floats, rows: Floats, codes: Codes, begins: Bools
    ) -> WatchedRows:
        """Return the rows that are watched, the time that is not, and all codes.

        Parameters
        ----------
        time, rows, codes, begins
            As `joined` returns them.
        """
        rows, codes = hold(rows, codes, time, self.holds, self.last)
        reasons = self.gate.reasons(rows, codes, begins)
        is_watched = reasons == 0
        after_out = np.append(self.was_out, ~is_watched[:-1])[: len(is_watched)]
        if len(is_watched):
            self.was_out = ~is_watched[-1:]
        begins = (begins | after_out)[is_watched]
        at, values, marked = time[is_watched], rows[is_watched], codes[is_watched]
        stands = self.standing.mark(at, values, marked, begins)
        if is_watched.all():
            codes = marked
        else:
            codes = codes.copy()
            codes[is_watched] = marked
            place = np.maximum(np.cumsum(is_watched) - 1, 0)
            stands = {k: since[place] for k, since in stands.items()}
        return WatchedRows(
            time=at,
            rows=values,
            begins=begins,
            unwatched=spans(time, reasons, self.gate.step_s),
            read_time=time,
            codes=codes,
            is_watched=is_watched,
            stands_since=stands,
        )
