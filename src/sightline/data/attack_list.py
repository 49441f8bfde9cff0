"""Lists of attacks: when each ran, on which tags, and the rows of time it covers."""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Labels
from sightline.data.segments import Attack
from sightline.errors import FileError
from sightline.files import reading
from sightline.text import names

Span = tuple[float, float]
ReadTime = Callable[[str, str, int], float]
# Alternative names for the columns of attacks.csv.
_ALIASES = dict.fromkeys(("attack_id", "incident", "incident_id"), "id")
_ALIASES |= {"stop": "end", "targets": "tags"}


@dataclass(frozen=True, kw_only=True)
class ListedAttack:
    """One line of an attack list; times in seconds, both ends inclusive.

    Parameters
    ----------
    id : str
        The number in the owners' list; ``"U..."`` for a labelled run without one.
    listed : (start, end), optional
        When the owners say it ran; None for an attack without an end time.
    labelled : (start, end), optional
        When the label column of the files marks it.
    adjusted : (start, end), optional
        When a later study of the readings saw it.
    targets : tuple of str
        The attacked tags that are recorded.
    note : str
        What the attacker did and aimed at.
    has_no_impact : bool
        Whether the owners say that nothing physical followed.
    file : str
        The part of the release it lies in (HAI).
    """

    id: str
    listed: Span | None
    labelled: Span | None = None
    adjusted: Span | None = None
    targets: tuple[str, ...] = ()
    note: str = ""
    has_no_impact: bool = False
    file: str = ""

    def over(self, start: int, stop: int) -> Attack:
        """Return the attack over rows [start, stop)."""
        note = self.note or None
        return Attack(
            id=self.id, start=start, stop=stop, targets=self.targets, note=note
        )


@dataclass(frozen=True, kw_only=True)
class Incident(ListedAttack):
    """One line of your own `attacks.csv`: its times may be uncertain.

    Parameters
    ----------
    uncertainty_s : float
        By how many seconds start and end may be wrong.
    """

    listed: Span
    uncertainty_s: float = 0.0


def list_rows(path: Path, needed: Sequence[str]) -> dict[int, dict[str, str]]:
    """Return the rows of a small CSV table by line, each by lower-case column name.

    Parameters
    ----------
    path : Path
        UTF-8, with one header line; separated by commas or semicolons. Lines that
        begin with ``#`` are comments.
    needed : sequence of str
        Columns without which the table is refused.

    Raises
    ------
    FileError
        If a line has more cells than the header, or a needed column is missing.
    """
    with reading(path):
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise FileError(f"{path}: is not UTF-8 text; save it as UTF-8.") from error
    lines = {
        number: line
        for number, line in enumerate(text.splitlines(), start=1)
        if not line.startswith("#")
    }
    numbers = list(lines)
    header = next(iter(lines.values()), "")
    separator = ";" if header.count(";") > header.count(",") else ","
    reader = csv.DictReader(lines.values(), delimiter=separator)
    rows: dict[int, dict[str, str]] = {}
    for row in reader:
        line = numbers[reader.line_num - 1]
        if None in row:
            raise FileError(
                f"{path}: line {line} has more cells than the header has columns: "
                "separate several tags by ';', and put text with commas in quotes."
            )
        cleaned = {k.strip().lower(): (v or "").strip() for k, v in row.items()}
        rows[line] = {_ALIASES.get(k, k): v for k, v in cleaned.items()}
    first = next(iter(rows.values()), {})
    missing = [name for name in needed if first and name not in first]
    if missing:
        raise FileError(
            f"{path}: needs the columns {', '.join(needed)}; {names(missing)} is "
            "missing."
        )
    return rows


def read_incidents(path: Path, read_time: ReadTime) -> tuple[Incident, ...]:
    """Return the lines of a list of attacks.

    Its columns are id, start, end, tags, note and uncertainty_min. An empty id becomes
    the number of the row.

    Parameters
    ----------
    path : Path
        The list, as `list_rows` reads it.
    read_time : callable
        Returns the seconds of a cell, given the cell, its column and its line.

    Raises
    ------
    FileError
        If a time or an uncertainty cannot be read, or an attack ends before it starts;
        the message names the line.
    """
    incidents = []
    rows = list_rows(path, ["id", "start", "end"])
    for number, (line, row) in enumerate(rows.items(), start=1):
        start, end = (read_time(row[name], name, line) for name in ("start", "end"))
        if end < start:
            raise FileError(
                f"{path}: line {line}: attack {row['id']!r} ends before it starts; "
                "check start and end."
            )
        incidents.append(
            Incident(
                id=row["id"] or str(number),
                listed=(start, end),
                targets=tuple(
                    filter(None, re.split(r"\s*[;,]\s*", row.get("tags", "").strip()))
                ),
                note=row.get("note", ""),
                uncertainty_s=60 * _minutes(row.get("uncertainty_min"), path, line),
            )
        )
    return tuple(incidents)


def _minutes(text: str | None, path: Path, line: int) -> float:
    """Return a number of minutes, 0 if the cell is empty; refuse anything else."""
    try:
        minutes = float(text or 0)
    except ValueError:
        minutes = -1.0
    if not minutes >= 0:
        raise FileError(
            f"{path}: line {line}: uncertainty_min must be 0 or more minutes; got "
            f"{text!r}."
        )
    return minutes


def rows_within(time: Floats, span: Span) -> Bools:
    """Return which rows lie in a span of seconds, both ends included."""
    return np.asarray((time >= span[0]) & (time <= span[1]))


def attacks_at(
    time: Floats, spans: Iterable[tuple[ListedAttack, Span | None]]
) -> tuple[Attack, ...]:
    """Return attacks by the rows they cover; an attack without a row is left out.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds of each row.
    spans : iterable of (ListedAttack, (start, end) or None)
        Each attack with the time it is taken to have run; None leaves it out.
    """
    attacks = []
    for attack, span in spans:
        if span is None:
            continue
        rows = np.flatnonzero(rows_within(time, span))
        if len(rows):
            attacks.append(attack.over(int(rows[0]), int(rows[-1]) + 1))
    return tuple(attacks)


def labels_of(attacks: Sequence[Attack], n_rows: int) -> Labels:
    """Return labels of shape (n_rows,) that mark exactly the rows of some attacks."""
    labels = np.zeros(n_rows, np.int8)
    for attack in attacks:
        labels[attack.start : attack.stop] = ATTACK
    return labels


def labelled(
    time: Floats, labels: Labels | None, incidents: Sequence[Incident]
) -> tuple[Labels, tuple[Attack, ...]]:
    """Return labels of shape (n_rows,) and attacks by row.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds of each row.
    labels : array of shape (n_rows,), optional
        Labels of the recording itself, which then decide. Not given: incidents mark
        their rows as attacks, and the rows within their uncertainty before and after
        are ignored.
    incidents : sequence of Incident
        The list; an incident without a row gives no attack.
    """
    attacks = attacks_at(time, ((i, i.listed) for i in incidents))
    if labels is not None:
        return labels.copy(), attacks
    labels = labels_of(attacks, len(time))
    for incident in incidents:
        start, end = incident.listed
        margin = incident.uncertainty_s
        around = rows_within(time, (start - margin, end + margin))
        labels[around & (labels == NORMAL)] = IGNORED
    return labels, attacks
