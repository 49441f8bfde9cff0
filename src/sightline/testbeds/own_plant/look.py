"""Look at exports of a historian: what they hold, before a plant's folder is made.

An export is brought to one form: its time as dates, numbers as numbers, and columns
with the names that a plant's folder uses. Nothing is filled in.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Bools, Floats
from sightline.data.recording import Role
from sightline.data.segments import run_bounds
from sightline.data.validity import LEAST_TAGS, OUTAGE_SHARE
from sightline.errors import FileError
from sightline.tables.cells import (
    has_certain_comma,
    is_missing,
    label_codes,
    plain,
    read_cells,
    word_numbers,
    words_in_text,
)
from sightline.tables.stamps import date_order_of
from sightline.tables.text_tables import ExportedTable, read_table
from sightline.testbeds.base import HOLD_S
from sightline.testbeds.own_plant.exports import bad_quality
from sightline.testbeds.own_plant.settings import ColumnNames, PlantSettings
from sightline.testbeds.own_plant.tables import (
    ColumnRoles,
    columns_of,
    long_table,
    stamps_of,
    with_time,
)
from sightline.text import counted, names, plural

# A long export without any reading for this time, and this many steps, has an outage.
OUTAGE_S, OUTAGE_STEPS = 600.0, 20
# A tag with at most this many different values, all whole numbers, is an actuator.
_MOST_STATES = 4
_SETPOINT = re.compile(r"(^|[._\- ])(SP|SETPOINT|SOLL)\d*$|SETPOINT", re.IGNORECASE)
_ACTUATOR = re.compile(
    r"^(P|MV|XV|FV|LV|PV|TV|CV|HV|UV|SV|LCV|FCV|PCV|TCV|PUMP|VALVE)[-_ ]?\d",
    re.IGNORECASE,
)
# LIT101: the first of three or four digits is the stage.
_NUMBERED = re.compile(r"^[A-Za-z]{1,6}[-_]?(\d)\d{2,3}[A-Za-z]?\b")


@dataclass(frozen=True, kw_only=True)
class TagSeen:
    """One tag of an export.

    Parameters
    ----------
    name : str
        The tag.
    unit : str
        Its unit where the export states it; else empty.
    n_readings, n_values : int
        Readings with a value, and different ones among them (counted up to 50).
    first_s, last_s : float
        Time of its first and last reading.
    share : float
        Share of the rows outside outages with a reading, or one that is held by
        `hold_s`, in a wide table; of the time from its first to its last reading, in a
        long one.
    step_s, hold_s : float
        Usual time between two readings, and for how long one should be held: see
        `_own_hold_s`, infinite for states; 0 if the default will do. Outages do not
        count.
    words : str
        How its words will be read as numbers, such as ``"CLOSED = 0, OPEN = 1"``.
    are_states : bool
        Whether all its values are few whole numbers, or words.
    is_text : bool
        Whether it holds text that is neither a number nor a state.
    """

    name: str
    unit: str = ""
    n_readings: int = 0
    n_values: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    share: float = 1.0
    step_s: float = 0.0
    hold_s: float = 0.0
    words: str = ""
    are_states: bool = False
    is_text: bool = False

    @property
    def role(self) -> Role:
        """The role that its name and values suggest."""
        if _SETPOINT.search(self.name):
            return Role.SETPOINT
        if self.words or (self.are_states and self.n_values > 1):
            return Role.ACTUATOR
        is_still = self.n_values <= 1
        return Role.ACTUATOR if is_still and _ACTUATOR.match(self.name) else Role.SENSOR

    @property
    def stage(self) -> str:
        """The first of three or four digits of its name; empty if there are none."""
        match = _NUMBERED.match(self.name)
        return match[1] if match else ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Export:
    """An export as it was understood.

    Parameters
    ----------
    path : Path
        The file.
    is_long : bool
        Whether it has one row for each reading, instead of one column for each tag.
    frame : polars frame
        ColumnRoles ``time`` and one for each tag, or tag, time, value and quality.
    seconds : array of shape (n_rows,)
        Time of each row, as `is_utc` says.
    is_utc : bool
        Whether they are UTC, or on the plant's own clock.
    tags : tuple of TagSeen
        Its tags.
    outages : tuple of (float, float)
        Start and end of each time in which less than half of the tags were read, or
        none at all.
    date_order : {"", "day", "month"}
        Which number comes first in its dates, where they show it.
    attack_s : float, optional
        Time of the first row that a column of labels marks as an attack.
    form : str
        How the file is written: separator, decimal sign and encoding, or its format.
    time_words : str
        The column of time stamps and an example.
    notices : tuple of str
        What was chosen or left out while reading, a sentence each.
    """

    path: Path
    is_long: bool
    frame: Any
    seconds: Floats
    is_utc: bool
    tags: tuple[TagSeen, ...]
    outages: tuple[tuple[float, float], ...] = ()
    attack_s: float | None = None
    date_order: str = ""
    form: str = ""
    time_words: str = ""
    notices: tuple[str, ...] = ()


def look_at(
    path: Path,
    *,
    timezone: str | None = None,
    time_format: str | None = None,
    columns: ColumnNames | None = None,
    date_order: str = "",
) -> Export:
    """Read an export and say what it holds.

    Parameters
    ----------
    path : Path
        A table of `sightline.tables`, or an Excel file.
    timezone, time_format : str, optional
        Zone of stamps without offset, and form of the stamps, where it cannot be found.
    columns : ColumnNames, optional
        Which column is what, where names do not say it.
    date_order : {"", "day", "month"}
        As other exports of the plant have it, where this one does not tell.

    Raises
    ------
    FileError
        If it is no table, or has no column of time stamps or no tag.
    """
    import polars as pl

    table = read_table(path, least_columns=2)
    settings = PlantSettings(
        timezone=timezone,
        time_format=time_format,
        columns=columns or ColumnNames(),
        date_order=date_order,
    )
    chosen: list[str] = []
    found = columns_of(table, settings.columns, frozenset(), chosen)
    is_long = found.tag is not None
    units = _units_by_tag(table.frame, found.tag) if is_long else table.units
    if is_long:
        table = long_table(table, found, chosen)
    stamps, _ = stamps_of(table, found, settings)
    table, read = with_time(table, found, settings)
    frame, said = _long(table, found) if is_long else _wide(table, found)
    micros = pl.Series("time", np.rint(read.seconds * 1e6).astype(np.int64))
    attack_s = None
    if "label" in frame.columns:
        is_attack = np.asarray(frame["label"].to_numpy() == ATTACK)
        attack_s = float(read.seconds[is_attack].min()) if is_attack.any() else None
    tags, outages = _tags_seen(frame, units, read.seconds, is_long=is_long)
    return Export(
        path=path,
        is_long=is_long,
        frame=frame.with_columns(
            micros.cast(pl.Datetime("us", "UTC" if read.is_utc else None))
        ),
        seconds=read.seconds,
        is_utc=read.is_utc,
        tags=tags,
        outages=outages,
        attack_s=attack_s,
        date_order="" if time_format else date_order_of(stamps),
        time_words=f"column {found.time!r}, such as {str(stamps[0])!r}",
        form=table.form or path.suffix.lower().lstrip("."),
        notices=(
            *table.notices,
            *chosen,
            *(f"{path.name}: {text}." for text in read.notices),
            *said,
        ),
    )


def _wide(table: ExportedTable, columns: ColumnRoles) -> tuple[Any, list[str]]:
    """Return a table with one column for each tag, and a label if it has one."""
    import polars as pl

    frame, notices, label = table.frame, [], columns.label
    empty = [c for c in columns.tags if frame[c].null_count() == frame.height]
    tags = [c for c in columns.tags if c not in empty]
    if not tags:
        raise FileError(f"{table.path}: has no column besides time to take as a tag.")
    if empty:
        notices.append(f"{names(empty, 6, quoted=True)} is empty and is left out.")
    is_comma = table.decimal_comma or any(
        has_certain_comma(frame[c]) for c in tags if frame[c].dtype == pl.String
    )
    read = {
        c: _cells(frame[c], table.path, decimal_comma=is_comma).alias(c) for c in tags
    }
    n_bad = 0
    for tag, quality in columns.qualities.items():
        if tag in read:
            is_bad = pl.Series(bad_quality(frame[quality])[0])
            if is_bad.any():
                # A word: what the source calls bad is never held.
                cells = pl.when(~is_bad).then(read[tag].cast(pl.String))
                read[tag] = pl.select(cells.otherwise(pl.lit("Bad"))).to_series()
            n_bad += int(is_bad.sum())
    if columns.qualities:
        notices.append(
            f"{plural(len(columns.qualities), 'column')} of quality "
            f"({names(list(columns.qualities.values()), 3)}): by them "
            f"{counted(n_bad, 'cell', 'is', 'are')} bad."
        )
    if label is not None:
        codes, words = label_codes(frame[label])
        read["label"] = pl.Series("label", codes)
        mapped = f" ({words})" if words else ""
        notices.append(f"Column {label!r} is taken as labels{mapped}.")
    return pl.DataFrame(read), notices


def _long(table: ExportedTable, columns: ColumnRoles) -> tuple[Any, list[str]]:
    """Return a table with the columns tag, value and, if it has it, quality."""
    import polars as pl

    frame = table.frame
    value = _cells(
        frame[columns.values[0]], table.path, decimal_comma=table.decimal_comma
    )
    read = {"tag": frame[columns.tag], "value": value}
    if columns.quality is not None:
        read["quality"] = frame[columns.quality]
    return pl.DataFrame(read), []


def _units_by_tag(frame: Any, tag: str | None) -> dict[str, str]:
    """Return the unit of each tag of a long table that has a column of units."""
    import polars as pl

    units = ("unit", "units", "uom", "engunits")
    column = next((c for c in frame.columns if plain(c) in units), "")
    if not column:
        return {}
    tags = frame[tag].cast(pl.String).str.strip_chars()
    pairs = pl.DataFrame({"tag": tags, "unit": frame[column].cast(pl.String)})
    pairs = pairs.drop_nulls().unique().filter(pl.len().over("tag") == 1)
    return dict(pairs.iter_rows())


def _cells(column: Any, path: Path, *, decimal_comma: bool) -> Any:
    """Return a column as numbers; as text with decimal points if it has words."""
    import polars as pl

    if column.dtype == pl.Boolean or column.dtype.is_numeric():
        return column.cast(pl.Float64)
    cells = read_cells(column.cast(pl.String), path=path, decimal_comma=decimal_comma)
    if cells.words.null_count() == len(cells.words):
        return cells.numbers
    return cells.numbers.cast(pl.String).fill_null(cells.words)


def _tags_seen(
    frame: Any, units: Mapping[str, str], seconds: Floats, *, is_long: bool
) -> tuple[tuple[TagSeen, ...], tuple[tuple[float, float], ...]]:
    """Return every tag of an export, and its outages.

    Tags are in the order of the columns, or of the alphabet.
    """
    cells: dict[str, _Cells] = {}
    if is_long:
        rows = frame.select("tag", "value").with_row_index("row")
        for (name,), part in sorted(rows.partition_by("tag", as_dict=True).items()):
            chosen = part["row"].to_numpy()
            cells[str(name)] = _Cells(part["value"], seconds[chosen])
    else:
        for name in frame.columns:
            if name != "label":
                cells[name] = _Cells(frame[name], seconds)
    stamps = np.unique(seconds)
    outages: list[tuple[float, float]] = []
    steps = np.diff(stamps)
    step_s = float(np.median(steps)) if len(steps) else 0.0
    # The clock stands still during outages.
    ticks = steps.copy()
    if is_long:
        is_gap = steps >= max(OUTAGE_S, OUTAGE_STEPS * step_s)
        is_gap[is_gap] = _most_are_old(cells, stamps[1:][is_gap])
        outages += [(stamps[k], stamps[k + 1]) for k in np.flatnonzero(is_gap)]
        ticks[is_gap] = step_s
    else:
        lost = np.zeros(len(stamps), np.int64)
        for one in cells.values():
            intervals = np.diff(np.unique(one.time[one.is_read]))
            lost += ~one.is_known(stamps, _own_hold_s(intervals))
        is_out = lost >= max(OUTAGE_SHARE * len(cells), min(LEAST_TAGS, len(cells)))
        for first, stop in zip(*run_bounds(is_out), strict=True):
            end = stamps[stop] if stop < len(stamps) else stamps[-1] + step_s
            outages.append((float(stamps[first]), float(end)))
        stamps = stamps[~is_out]
        ticks = np.full(max(len(stamps) - 1, 0), step_s)
    clock = np.append(0.0, np.cumsum(ticks))
    seen = tuple(
        one.seen(name, units.get(name, ""), stamps, clock, is_long=is_long)
        for name, one in cells.items()
    )
    return seen, tuple((float(a), float(b)) for a, b in outages)


def _most_are_old(cells: Mapping[str, "_Cells"], ends: Floats) -> Bools:
    """Return at which times half of the tags have not been read for too long.

    An export of changes may say nothing for a while, because nothing changes.
    """
    n_old = np.zeros(len(ends), np.int64)
    for one in cells.values():
        time = np.unique(one.time[one.is_read])
        hold_s = max(_own_hold_s(np.diff(time)), HOLD_S) if len(time) > 2 else np.inf
        before = np.append(-np.inf, time)[np.searchsorted(time, ends)]
        n_old += ends - before > hold_s
    return np.asarray(n_old >= OUTAGE_SHARE * len(cells))


def _own_hold_s(intervals: Floats) -> float:
    """Return for how long readings so far apart should be held; 0 for the default.

    Twice what 99% of the intervals keep to; longer, up to twice that, as long as it is
    needed for all but a thousandth of the time: an export of changes has many short
    intervals, and long ones while nothing changes.
    """
    most = float(np.quantile(intervals, 0.99)) if len(intervals) else 0.0
    if most <= HOLD_S:
        return 0.0
    tries = most * np.linspace(2, 4, 9)
    late = np.array([np.maximum(intervals - hold_s, 0).sum() for hold_s in tries])
    return float(
        tries[np.argmax(np.append(late[:-1] <= 0.001 * intervals.sum(), True))]
    )


class _Cells:
    """The cells of one tag, and which of them hold a reading.

    Parameters
    ----------
    values : polars series
        Numbers or text.
    time : array
        Seconds of each.
    """

    def __init__(self, values: Any, time: Floats) -> None:
        import polars as pl

        self.time = time
        if values.dtype == pl.String:
            self.numbers = values.cast(pl.Float64, strict=False).fill_nan(None)
            words = pl.when(self.numbers.is_null()).then(values)
            self.words = pl.select(words).to_series()
        else:
            self.numbers = values.fill_nan(None)
            self.words = pl.repeat(None, len(values), dtype=pl.String, eager=True)
        # A reading is a number; where there are none, a word that is a state.
        is_number = self.numbers.null_count() < len(self.numbers)
        is_state = (self.words.is_not_null() & ~is_missing(self.words)).fill_null(False)
        is_read = self.numbers.is_not_null() if is_number else is_state
        self.is_read = np.asarray(is_read.to_numpy())

    def is_known(self, stamps: Floats, hold_s: float) -> Bools:
        """Return at which times there is a reading at most so many seconds old."""
        is_hit = np.isin(stamps, self.time[self.is_read])
        last = np.maximum.accumulate(np.where(is_hit, np.arange(len(stamps)), -1))
        return np.asarray((last >= 0) & (stamps - stamps[last] <= hold_s + 1e-6))

    def seen(
        self, name: str, unit: str, stamps: Floats, clock: Floats, *, is_long: bool
    ) -> TagSeen:
        """Return what the readings show; `clock` leaves outages out of `stamps`."""
        time = np.unique(self.time[self.is_read])
        at = np.searchsorted(stamps, time)
        at = at[(at < len(stamps)) & (stamps[np.minimum(at, len(stamps) - 1)] == time)]
        found = self.numbers.drop_nulls().unique().head(50).to_numpy()
        unique = self.words.drop_nulls().unique()
        different = sorted(unique.filter(~is_missing(unique)).to_list())
        mapped = None if len(found) else word_numbers(different)
        are_states = bool(mapped) or (
            0 < len(found) <= _MOST_STATES and bool((found == np.rint(found)).all())
        )
        intervals = np.diff(clock[at])
        usual = float(np.median(intervals)) if len(intervals) else 0.0
        hold_s = _own_hold_s(intervals)
        if are_states and (hold_s or (is_long and len(intervals) < 2)):
            hold_s = np.inf
        total = clock[-1] if len(clock) else 0.0
        share = float(self.is_known(stamps, hold_s).mean()) if len(stamps) else 0.0
        if is_long and len(at):
            ends = float(clock[at[-1]] - clock[at[0]])
            share = 1.0 if are_states else ends / max(total, 1e-9)
        return TagSeen(
            name=name,
            unit=unit,
            n_readings=int(self.is_read.sum()),
            n_values=len(found) or len(different),
            first_s=float(time[0]) if len(time) else np.inf,
            last_s=float(time[-1]) if len(time) else -np.inf,
            share=float(share),
            step_s=usual,
            hold_s=hold_s,
            words=words_in_text(mapped, different) if mapped else "",
            are_states=are_states,
            is_text=bool(different) and not len(found) and not mapped,
        )


def joined(exports: Sequence[Export]) -> Export:
    """Return several exports as one, in the order of their time.

    Raises
    ------
    FileError
        If one is wide and another long, or one has a zone and another not.
    """
    import polars as pl

    exports = sorted(exports, key=lambda export: float(export.seconds.min()))
    first = exports[0]
    for other in exports[1:]:
        if other.is_long != first.is_long:
            shapes = [("wide", "long")[e.is_long] for e in (first, other)]
            raise FileError(
                f"{first.path} is {shapes[0]} and {other.path} is {shapes[1]}: export "
                "both in one form."
            )
        if other.is_utc != first.is_utc:
            raise FileError(
                f"{first.path}, {other.path}: time stamps of one carry a zone and "
                "those of the other do not: state it with --timezone."
            )
    if len(exports) == 1:
        return first
    notices = [notice for export in exports for notice in export.notices]
    frames = [e.frame for e in exports]
    if any("label" in frame.columns for frame in frames):
        for k, export in enumerate(exports):
            if "label" not in export.frame.columns:
                frames[k] = frames[k].with_columns(label=pl.lit(float(NORMAL)))
                notices.append(
                    f"{export.path.name} has no column of labels: its rows are taken "
                    "as free of attacks."
                )
    frame = pl.concat(frames, how="diagonal_relaxed")
    seconds = np.concatenate([e.seconds for e in exports])
    units = {tag.name: tag.unit for export in exports for tag in export.tags}
    tags, outages = _tags_seen(
        frame.drop("time"), units, seconds, is_long=first.is_long
    )
    return Export(
        path=first.path,
        is_long=first.is_long,
        frame=frame,
        seconds=seconds,
        is_utc=first.is_utc,
        tags=tags,
        outages=outages,
        attack_s=min(
            (e.attack_s for e in exports if e.attack_s is not None), default=None
        ),
        date_order=next((e.date_order for e in exports if e.date_order), ""),
        form=first.form,
        time_words=first.time_words,
        notices=tuple(notices),
    )


def sentences(seen: Sequence[TagSeen]) -> dict[str, str]:
    """Return the tags of an export in words: roles, words, units."""
    by_role: dict[str, list[str]] = {}
    for tag in seen:
        by_role.setdefault(tag.role, []).append(tag.name)
    return {
        "tags": "; ".join(
            f"{len(tags):,} {role}{'s' if len(tags) > 1 else ''} ({names(tags, 5)})"
            for role, tags in by_role.items()
        ),
        "words": "; ".join(f"{t.name}: {t.words}" for t in seen if t.words),
        "units": names([f"{t.name} {t.unit}" for t in seen if t.unit], 6),
    }
