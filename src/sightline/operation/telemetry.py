"""From the files of a plant to the rows that a rule reads.

Telemetry passes through the saved detector of the rule; tables of residuals do not. A
file of a watched folder is read when it is new or has changed since it was read, and
when no program seems to write it any more.
"""

import hashlib
import os
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol, cast

import numpy as np

from sightline.data.arrays import NORMAL, Bools, Floats, Ints
from sightline.data.downsampling import Sampling, downsampled
from sightline.data.recording import Recording, Role, Tag
from sightline.data.segments import GAP_FACTOR, breaks_from_time
from sightline.detectors import LearnedDetector, load_detector
from sightline.errors import FileError, StreamError
from sightline.export import ExportedRows, export_rows
from sightline.files import reading
from sightline.operation.watch_state import Fate, SeenFile
from sightline.progress import Progress, silent
from sightline.rules.file import file_digest
from sightline.rules.making import MadeRule
from sightline.rules.normal import Telemetry
from sightline.tables.text_tables import PARQUET, is_table
from sightline.testbeds.own_plant.exports import Readings, in_order_of, readings_of
from sightline.testbeds.own_plant.settings import PlantSettings, read_settings
from sightline.testbeds.own_plant.tables import (
    StateWords,
    open_source,
    states_of,
)
from sightline.text import names, plural

# Tables of a folder that are no telemetry.
_NO_EXPORTS = ("tags", "attacks", "incidents")
# A file that changed less than this many seconds ago may still be written.
SETTLE_S: Final = 5.0
_PACKED: Final = ".gz"


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


def export_settings(folder: Path, made: MadeRule) -> PlantSettings:
    """Return how tables of a folder are read: its plant.toml, else the rule's zone."""
    settings = read_settings(folder / "plant.toml")
    zone = None if made.origin is None else made.origin.timezone
    return replace(settings, timezone=settings.timezone or zone)


def read_exports(
    paths: Sequence[Path],
    made: MadeRule,
    detector: LearnedDetector,
    settings: PlantSettings,
) -> Recording:
    """Return tables of telemetry as one recording, in order of time.

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
        If a table cannot be read, lacks a tag, or overlaps with another.
    """
    if not paths:
        raise FileError("There is no table of telemetry (CSV or Parquet) to read.")
    known = telemetry_of(made)
    sources = [open_source(path, settings, roles=known.roles) for path in paths]
    states = StateWords(known.words) if known.words else states_of(sources)
    tables = [
        _with_tags(readings_of(source, states), detector, source.path)
        for source in sources
    ]
    order = np.argsort([table.time[0] for table in tables], kind="stable")
    tables = [tables[k] for k in order]
    for k, (one, other) in enumerate(pairwise(tables)):
        if other.time[0] <= one.time[-1]:
            raise FileError(
                f"{paths[order[k + 1]]}: overlaps in time with "
                f"{paths[order[k]].name}: give each time once."
            )
    labels = None
    if any(table.labels is not None for table in tables):
        # Rows of tables without labels are normal.
        labels = np.concatenate(
            [
                np.full(len(table.time), NORMAL, np.int8)
                if table.labels is None
                else table.labels
                for table in tables
            ]
        )
    time = np.concatenate([table.time for table in tables])
    step_s = tables[0].step_s
    return Recording(
        values=np.concatenate([table.values for table in tables]),
        tags=tuple(
            Tag(
                name=name,
                role=Role(known.roles.get(name, Role.SENSOR)),
                unit=tables[0].units.get(name),
            )
            for name in tables[0].channels
        ),
        labels=labels,
        time=time,
        step_s=step_s,
        breaks=breaks_from_time(time, step_s),
        timezone=settings.timezone or ("UTC" if tables[0].is_utc else None),
        source=names([path.name for path in paths], 3),
    )


def _with_tags(readings: Readings, detector: LearnedDetector, path: Path) -> Readings:
    """Return the tags that a detector reads, in its order."""
    wanted = detector.channels or ()
    if missing := [name for name in wanted if name not in readings.channels]:
        raise FileError(
            f"{path}: lacks {names(missing, 3)}, which the rule's detector reads: "
            "export every tag that it learned from."
        )
    kept = [k for k, name in enumerate(readings.channels) if name in wanted]
    readings = replace(
        readings,
        channels=tuple(readings.channels[k] for k in kept),
        values=readings.values[:, kept],
    )
    return in_order_of(wanted, readings, path)


def rule_rows(
    recording: Recording,
    made: MadeRule,
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
    slower = prepared(recording, telemetry)
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


def check_names(channels: Sequence[str], made: MadeRule) -> None:
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


def check_step(step_s: float | None, made: MadeRule) -> None:
    """Raise if rows come in another step than a rule was made for."""
    wanted = made.rule.step_s
    if step_s is None or wanted is None or abs(step_s - wanted) <= 0.01 * wanted:
        return
    raise StreamError(
        f"Rows are {step_s:g} s apart, and the rule was made for rows {wanted:g} s "
        "apart: its delays and its promise hold for that step alone."
    )


def telemetry_of(made: MadeRule) -> Telemetry:
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
        Their values.
    is_utc : bool
        Whether time is UTC, or on the plant's own clock.
    step_s : float
        Seconds between rows.
    hold_s : float
        A gap of at most this many seconds is filled with the last row.
    notices : tuple of str
        What was left out, a sentence each.
    """

    time: Floats
    rows: Floats
    is_utc: bool
    step_s: float
    hold_s: float = 0.0
    notices: tuple[str, ...] = ()


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
    is_read = known is not None and known.fate is Fate.READ
    size, changed = facts.st_size, facts.st_mtime_ns
    if known and is_read and (known.size, known.changed) == (size, changed):
        return None
    ends_in_line = False
    with reading(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if path.suffix.lower() not in (*PARQUET, _PACKED):
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
        """Return the rows of a table; rows with a missing residual are left out.

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
        rows, time = np.stack(columns, axis=1), source.time
        is_whole = np.asarray(np.isfinite(rows).all(axis=1))
        lost = int((~is_whole).sum())
        order = in_order(time[is_whole])
        return TableRows(
            time=time[is_whole][order],
            rows=np.ascontiguousarray(rows[is_whole][order]),
            is_utc=source.is_utc,
            step_s=self.step_s,
            notices=(
                f"{path.name}: {plural(lost, 'row')} without a residual left out.",
            )
            if lost
            else (),
        )


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

        Raises
        ------
        FileError
            If it cannot be read, or lacks a tag. A long table may lack tags that did
            not change.
        """
        step = self.settings.step_s or step_s
        settings = replace(self.settings, step_s=step)
        source = open_source(path, settings, roles=self.known.roles)
        is_long = source.columns.tag is not None
        readings = readings_of(source, StateWords(self.known.words), may_be_empty=True)
        missing = [name for name in self.channels if name not in readings.channels]
        if missing and not (is_long and len(missing) < len(self.channels)):
            raise FileError(
                f"{path}: lacks {names(missing, 3)}, which the rule's detector reads: "
                "export every tag that it learned from."
            )
        rows = np.full((len(readings.time), len(self.channels)), np.nan)
        for k, name in enumerate(self.channels):
            if name not in missing:
                rows[:, k] = readings.values[:, readings.channels.index(name)]
        return TableRows(
            time=readings.time,
            rows=rows,
            is_utc=readings.is_utc,
            step_s=readings.step_s,
            hold_s=self.settings.hold_s,
        )


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
    fresh = replace(table, time=table.time[is_new], rows=table.rows[is_new])
    n_late = len(old) - n_again
    return fresh, Fresh(taken=int(is_new.sum()), again=n_again, late=n_late)


def joined(table: TableRows, last: float | None) -> tuple[Floats, Floats, Bools]:
    """Return time, rows and where a run begins, gaps up to `hold_s` filled.

    A filled row has no values: a detector holds the last ones.

    Parameters
    ----------
    table : TableRows
        Rows after `last`.
    last : float, optional
        Time of the last row read; None before the first.
    """
    step, hold = table.step_s, table.hold_s
    before = np.diff(table.time, prepend=-np.inf if last is None else last)
    is_short = (before > GAP_FACTOR * step) & (before <= hold + step)
    lost = np.where(is_short, np.rint(before / step) - 1, 0).astype(np.int64)
    begins = (before > GAP_FACTOR * step) & ~is_short
    if not lost.any():
        return table.time, table.rows, begins
    row = np.repeat(np.arange(len(lost)), lost + 1)
    place = np.arange(len(row)) - np.repeat(np.cumsum(lost + 1) - lost - 1, lost + 1)
    until = lost[row] - place
    rows = table.rows[row]
    rows[until > 0] = np.nan
    return table.time[row] - until * step, rows, begins[row] & (place == 0)
