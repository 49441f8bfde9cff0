"""What a rule is applied to: rows of a stream, of a table, or of a plant."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.data.arrays import ATTACK, Bools, Floats, Ints, Labels
from sightline.data.row_tables import ArrayRows, Rows
from sightline.data.segments import (
    Attack,
    breaks_from_time,
    name_segments,
    segments_of,
)
from sightline.data.stream_input import TableColumns
from sightline.energy.attack_free import AttackFreeTime
from sightline.errors import FileError, naming
from sightline.operation.telemetry import (
    check_names,
    check_step,
    detector_of,
    export_settings,
    exports_in,
    read_exports,
    rule_rows,
)
from sightline.progress import Progress, silent
from sightline.rules.making import MadeRule
from sightline.rules.normal import raw_rows, stream_digest
from sightline.rules.scoring import score
from sightline.storage import read_stream
from sightline.storage.frames import check_table_file, read_numbers
from sightline.storage.ipal import state_file
from sightline.storage.metadata import is_npz
from sightline.tables.cells import columns_called
from sightline.tables.stamps import seconds_from
from sightline.tables.text_tables import PARQUET, TEXT, Table, read_table
from sightline.testbeds.own_plant import read_folder
from sightline.text import names


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """Rows that a rule is applied to.

    Parameters
    ----------
    name : str
        For people.
    rows : Rows
        Residuals of the rule's channels.
    breaks : array of int
        Rows at which a new run begins.
    is_quiet : array of bool, shape (n_rows,)
        Attack-free rows, as far as labels say.
    attacks : tuple of Attack
        By rows; empty without labels.
    time : array of shape (n_rows,), optional
        Seconds since 1970 of each row.
    timezone : str, optional
        Zone to show times in; None for the plant's own clock.
    score : array of shape (n_rows,), optional
        The detector's own score.
    is_commissioned : bool
        Whether these are the rows that the rule was made on.
    notices : tuple of str
        What was filled or left out.
    """

    name: str
    rows: Rows
    breaks: Ints
    is_quiet: Bools
    attacks: tuple[Attack, ...] = ()
    time: Floats | None = None
    timezone: str | None = None
    score: Floats | None = None
    is_commissioned: bool = False
    notices: tuple[str, ...] = ()


def open_record(
    source: Path,
    made: MadeRule,
    rule_path: Path,
    *,
    detector: Path | None = None,
    progress: Progress = silent,
) -> Record:
    """Return the rows at a path, ready for a rule.

    Parameters
    ----------
    source : Path
        A residual stream (its test rows); a CSV or Parquet table of residuals; or a
        folder of telemetry, which first passes through the rule's detector.
    made, rule_path : MadeRule, Path
        The rule and its file.
    detector : Path, optional
        Where the rule's detector lies, if not where the rule says.
    progress : callable, optional
        Called with a `Step`.

    Raises
    ------
    FileError
        If nothing at the path can be read.
    StreamError
        If channels or step are not those of the rule.
    """
    with naming(source):
        if _is_stream(source):
            return _from_stream(source, made)
        if source.is_dir():
            return _from_folder(source, made, rule_path, detector, progress)
        check_table_file(source)
        if source.suffix.lower() not in (*TEXT, *PARQUET):
            raise FileError(
                f"{source}: is neither a stream (.npz), a table (.csv, .parquet) nor a "
                "folder of telemetry."
            )
        return _from_table(source, made)


def _is_stream(path: Path) -> bool:
    parts = ("train", "test")
    return is_npz(path) or (
        path.is_dir()
        and any((path / part).is_dir() or state_file(path, part) for part in parts)
    )


def _from_stream(path: Path, made: MadeRule) -> Record:
    stream = read_stream(path)
    check_names(stream.channels, made)
    check_step(stream.step_s, made)
    scored = score(stream)
    stream, test, origin = scored.stream, scored.test, made.origin
    return Record(
        name=stream.name,
        rows=raw_rows(stream.test),
        breaks=stream.test_breaks,
        is_quiet=test.attack_free.for_alarms,
        attacks=tuple(test.attacks),
        time=stream.test_time,
        timezone=stream.timezone,
        score=stream.score,
        is_commissioned=origin is not None
        and origin.stream_sha256 == stream_digest(stream),
        notices=stream.notices,
    )


def _from_table(path: Path, made: MadeRule) -> Record:
    """Return the rows of a table of residuals; its other columns are left out."""
    import polars as pl

    table = read_table(path)
    every = table.frame.columns
    channels = [channel.name for channel in made.rule.channels]
    free = [column for column in every if column not in channels]
    known = {
        role: next(iter(columns_called(role, free)), None) for role in ("time", "label")
    }
    score = next((name for name in free if name.lower() == "score"), None)
    used = (*known.values(), score)
    other = [column for column in free if column not in used]
    check_names([name for name in channels if name in every], made)
    ignored = [*other, *filter(None, (known["time"],))]
    columns = TableColumns(label=known["label"], score=score, ignore=tuple(ignored))
    numbers = read_numbers(table, columns)
    frame = numbers.frame
    time, zone = _clock(table, known["time"], made)
    labels = None if known["label"] is None else frame[known["label"]].to_numpy()
    breaks = np.zeros(1, np.int64)
    if time is not None:
        step_s = float(np.median(np.diff(time))) if len(time) > 1 else None
        check_step(step_s, made)
        breaks = breaks_from_time(time, made.rule.step_s)
    attacks, is_quiet = _labelled(frame.height, labels, (), breaks, made.rule.step_s)
    notices = list(numbers.notices)
    if other:
        notices.append(f"{path.name}: {names(other, 4)} is no channel of the rule.")
    return Record(
        name=path.stem,
        rows=ArrayRows(frame.select(channels).cast(pl.Float64).to_numpy()),
        breaks=breaks,
        is_quiet=is_quiet,
        attacks=attacks,
        time=time,
        timezone=zone,
        score=None if score is None else frame[score].cast(pl.Float64).to_numpy(),
        notices=tuple(notices),
    )


def _clock(
    table: Table, column: str | None, made: MadeRule
) -> tuple[Floats | None, str | None]:
    """Return the seconds of each row, and the zone to show them in.

    Time stamps without an offset are on the clock of the rule's plant.
    """
    if column is None:
        return None, None
    zone = None if made.origin is None else made.origin.timezone
    read = seconds_from(
        table.frame[column], path=table.path, zone=zone, place_of=table.place_of
    )
    return read.seconds, (zone or "UTC") if read.is_utc else None


def _from_folder(
    folder: Path,
    made: MadeRule,
    rule_path: Path,
    detector_path: Path | None,
    progress: Progress,
) -> Record:
    """Return the rows of a plant's test, or of all tables of telemetry in a folder."""
    detector = detector_of(made, rule_path, detector_path)
    tables = exports_in(folder)
    stems = {path.stem.lower() for path in tables}
    if {"train", "test"} <= stems:
        plant = read_folder(folder, progress=progress)
        recording, notices = plant.test, plant.notices
    else:
        recording = read_exports(tables, made, detector, export_settings(folder, made))
        notices = ()
    rows = rule_rows(recording, made, detector, progress=progress)
    attacks, is_quiet = _labelled(
        len(rows.values), rows.labels, rows.attacks, rows.breaks, rows.step_s
    )
    return Record(
        name=folder.resolve().name,
        rows=ArrayRows(rows.values),
        breaks=rows.breaks,
        is_quiet=is_quiet,
        attacks=attacks,
        time=rows.time,
        timezone=recording.timezone,
        score=rows.score,
        notices=(*notices, *rows.notices),
    )


def _labelled(
    n_rows: int,
    labels: Labels | None,
    listed: Sequence[Attack],
    breaks: Ints,
    step_s: float | None,
) -> tuple[tuple[Attack, ...], Bools]:
    """Return attacks, and which rows are attack-free and not just after one."""
    if labels is None:
        return (), np.ones(n_rows, np.bool_)
    attacks = name_segments(segments_of(labels == ATTACK, breaks), listed)
    runs = [attack.segment for attack in attacks]
    return tuple(attacks), AttackFreeTime.of(labels, runs, step_s).beyond_guard
