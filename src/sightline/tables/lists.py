"""Short lists that people keep: attacks and incidents, tags, alarms.

A list is CSV in any usual form, or the first sheet of an Excel file.
"""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sightline.data.segments import Incident, Span
from sightline.errors import FileError
from sightline.files import brief, reading
from sightline.tables.stamps import iso_dates
from sightline.tables.text_tables import EXCEL, decoded, first_sheet
from sightline.text import from_csv_cell, names, plural

ReadTime = Callable[[str, str, int], float]
# Alternative names for the columns of a list of attacks.
_ALIASES = {
    **dict.fromkeys(("attack_id", "incident", "incident_id"), "id"),
    **dict.fromkeys(("nr", "ereignis", "vorfall"), "id"),
    **dict.fromkeys(("start_time", "starttime", "begin", "from"), "start"),
    **dict.fromkeys(("beginn", "von"), "start"),
    **dict.fromkeys(("stop", "end_time", "endtime", "until", "to"), "end"),
    **dict.fromkeys(("ende", "bis"), "end"),
    **dict.fromkeys(("duration", "duration_minutes"), "duration_min"),
    **dict.fromkeys(("targets", "tag"), "tags"),
    **dict.fromkeys(("description", "comment", "bemerkung", "beschreibung"), "note"),
}
_DAY = re.compile(r"^\d{4}-\d{1,2}-\d{1,2}$")


class IncidentList(NamedTuple):
    """A list of incidents, read.

    Parameters
    ----------
    incidents : tuple of Incident
        In the order of the list; the end of an open one is infinite.
    notices : tuple of str
        What was understood where the list does not say it, a sentence each.
    is_review : bool
        Whether it is a reviewed list of episodes, of which those decided ``incident``
        are incidents.
    normal, unknown : tuple of (start, end)
        The episodes of a reviewed list that were decided ``normal``, and the others.
    """

    incidents: tuple[Incident, ...]
    notices: tuple[str, ...] = ()
    is_review: bool = False
    normal: tuple[Span, ...] = ()
    unknown: tuple[Span, ...] = ()


class EpisodeDecision(StrEnum):
    """What somebody who knows the plant decided about an episode."""

    INCIDENT = "incident"
    NORMAL = "normal"
    UNKNOWN = "unknown"


_INCIDENT = EpisodeDecision.INCIDENT


def decision_of(row: Mapping[str, str], path: Path, line: int) -> EpisodeDecision:
    """Return the decision of a row of a review list; an empty one is unknown.

    Raises
    ------
    FileError
        If it is another word; the message names the line.
    """
    word = row.get("decision", "").strip().lower()
    try:
        return EpisodeDecision(word or EpisodeDecision.UNKNOWN)
    except ValueError:
        raise FileError(
            f"{path}: line {line}: decision must be incident, normal or unknown"
            f"; it is {row['decision']!r}."
        ) from None


def list_rows(
    path: Path, needed: Sequence[str], aliases: Mapping[str, str] | None = None
) -> dict[int, dict[str, str]]:
    """Return the rows of a list by line, each by lower-case column name.

    Parameters
    ----------
    path : Path
        A text file with one header line, separated by commas, semicolons or tabs; lines
        that begin with ``#`` are comments. Or an Excel file.
    needed : sequence of str
        Columns without which the list is refused.
    aliases : mapping of str to str, optional
        Other names of columns.

    Raises
    ------
    FileError
        If a line has more cells than the header, or a needed column is missing.
    """
    aliases = aliases or {}
    table = _excel(path) if path.suffix.lower() in EXCEL else _text(path)
    _, header = next(iter(table), (0, []))
    columns = [cell.strip().lower() for cell in header]
    columns = [aliases.get(name, name) for name in columns]
    missing = [name for name in needed if columns and name not in columns]
    if missing:
        raise FileError(
            f"{path}: needs the columns {', '.join(needed)}; {names(missing)} is "
            "missing."
        )
    rows: dict[int, dict[str, str]] = {}
    for line, cells in table[1:]:
        if any(cells[len(columns) :]):
            raise FileError(
                f"{path}: line {line} has more cells than the header has columns: "
                "separate several tags by ';', and put text with commas in quotes."
            )
        filled = [*cells, *[""] * (len(columns) - len(cells))]
        if any(filled):
            rows[line] = dict(zip(columns, filled, strict=False))
    return rows


def _text(path: Path) -> list[tuple[int, list[str]]]:
    """Return the cells of a text file, with the line of each row."""
    with reading(path):
        lines = {
            number: line
            for number, line in enumerate(decoded(path).splitlines(), start=1)
            if not line.startswith("#")
        }
    numbers = list(lines)
    header = next(iter(lines.values()), "")
    separator = max(",;\t", key=header.count)
    reader = csv.reader(lines.values(), delimiter=separator)
    try:
        return [
            (numbers[reader.line_num - 1], [from_csv_cell(c.strip()) for c in row])
            for row in reader
            if row
        ]
    except csv.Error as error:
        raise FileError(
            f"{path}: cannot be read as a list ({brief(error)}): save it as CSV."
        ) from error


def _excel(path: Path) -> list[tuple[int, list[str]]]:
    """Return the cells of the first sheet of an Excel file, with their lines."""
    return [
        (line, [(cell or "").strip() for cell in row])
        for line, row in enumerate(first_sheet(path).rows(), start=1)
        if any(row)
    ]


def read_incidents(
    path: Path, read_time: ReadTime, *, has_format: bool = False
) -> IncidentList:
    """Return the lines of a list of attacks.

    Its columns are id, start, end, duration_min, tags, note and uncertainty_min. An
    empty id becomes the number of the row. Without an end an incident lasts for
    duration_min, or is open. A date without a time of day is the whole day. A list with
    a column decision is a review list, as ``sightline episodes`` writes it: it needs no
    id, and only rows decided ``incident`` count.

    Parameters
    ----------
    path : Path
        The list, as `list_rows` reads it.
    read_time : callable
        Returns the seconds of a cell, given the cell, its column and its line.
    has_format : bool
        Whether `read_time` knows the format of the times; else all times of the list
        decide together which number of a date is the day.

    Raises
    ------
    FileError
        If a time, a number of minutes or a decision cannot be read, or an attack ends
        before it starts; the message names the line.
    """
    rows = list_rows(path, ["start"], _ALIASES)
    first = next(iter(rows.values()), {"end": ""})
    is_review = "decision" in first
    if not is_review:
        list_rows(path, ["id", "start"], _ALIASES)
    if "end" not in first and "duration_min" not in first:
        list_rows(path, ["id", "start", "end"], _ALIASES)
    if not has_format:
        cells = [
            row.get(name, "") for row in rows.values() for name in ("start", "end")
        ]
        dates = iso_dates(cells)
        for k, row in enumerate(rows.values()):
            row["start"], row["end"] = dates[2 * k : 2 * k + 2]
    incidents, days, opened = [], [], []
    others: dict[EpisodeDecision, list[Span]] = {one: [] for one in EpisodeDecision}
    for number, (line, row) in enumerate(rows.items(), start=1):
        name = row.get("id") or str(number)
        start = read_time(row["start"], "start", line)
        end, how = _end(row, start, read_time, path, line)
        if end < start:
            raise FileError(
                f"{path}: line {line}: attack {name!r} ends before it starts; check "
                "start and end."
            )
        decision = decision_of(row, path, line) if is_review else _INCIDENT
        if decision is not _INCIDENT:
            others[decision].append((start, end))
            continue
        tags = re.split(r"\s*[;,]\s*", row.get("tags", ""))
        days += [name] if how == "day" else []
        opened += [name] if how == "open" else []
        incidents.append(
            Incident(
                id=name,
                listed=(start, end),
                targets=tuple(filter(None, tags)),
                note=row.get("note", ""),
                uncertainty_s=60 * _minutes(row, "uncertainty_min", path, line),
            )
        )
    notices = []
    if days:
        notices.append(
            f"{path.name}: {names(days, 4)}: dates without a time of day were taken as "
            "whole days."
        )
    if opened:
        notices.append(
            f"{path.name}: {names(opened, 4)} has no end and was taken to last until "
            "the end of the record; give end or duration_min."
        )
    _, normal, unknown = (tuple(others[one]) for one in EpisodeDecision)
    if is_review:
        notices.append(
            f"{path.name}: {len(incidents)} of {plural(len(rows), 'reviewed episode')} "
            f"are decided 'incident' and count as attacks, {len(normal)} are normal, "
            f"{len(unknown)} are not known."
        )
    return IncidentList(tuple(incidents), tuple(notices), is_review, normal, unknown)


def _end(
    row: Mapping[str, str], start: float, read_time: ReadTime, path: Path, line: int
) -> tuple[float, str]:
    """Return the last moment of an incident, and how it was found."""
    end = row.get("end", "")
    duration_s = 60 * _minutes(row, "duration_min", path, line)
    if not end and duration_s:
        return start + duration_s, "duration"
    if not end and not _DAY.match(row["start"]):
        return np.inf, "open"
    end = end or row["start"]
    if not _DAY.match(end):
        return read_time(end, "end", line), "end"
    try:
        following = date(*map(int, end.split("-"))) + timedelta(days=1)
    except ValueError:
        return read_time(end, "end", line), "end"
    return read_time(following.isoformat(), "end", line) - 1e-3, "day"


def _minutes(row: Mapping[str, str], name: str, path: Path, line: int) -> float:
    """Return a number of minutes, 0 if the cell is empty; refuse anything else."""
    text = row.get(name, "")
    try:
        minutes = float(text.replace(",", ".") or 0)
    except ValueError:
        minutes = -1.0
    if not 0 <= minutes < np.inf:
        raise FileError(
            f"{path}: line {line}: {name} must be 0 or more minutes; got {text!r}."
        )
    return minutes
