"""Blind spots on disk: ``DIR/blindspots/<result>/blindspots.json`` and tables.

They lie beside the results, not in them, so that a study that is run again keeps them;
the page of the results shows them. A user's tables of attacks and of shapes are read
here too.
"""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from sightline.blindspots.attackers import Falsification, TagAction, WhatIfAttack
from sightline.blindspots.result import BlindSpot, BlindSpots, together_row
from sightline.blindspots.shapes import OwnShape, Shape
from sightline.errors import FileError, StreamError
from sightline.evaluation.result import plain
from sightline.files import damage, read_document, staged_folder, writing
from sightline.tables.lists import list_rows
from sightline.text import csv_cell, did_you_mean

FOLDER: Final = "blindspots"
FILE: Final = "blindspots.json"
_PARTIAL: Final = "found-so-far.jsonl"
_WRONG: Final = (msgspec.DecodeError, ValueError, OverflowError)
# What is divided by, or of which a logarithm is taken.
_ABOVE_0: Final = ("duration_s", "budget_per_day")


def spots_folder(out: Path, result: str) -> Path:
    """Return the folder of the blind spots of a result."""
    return out / FOLDER / result


def write_blind_spots(found: BlindSpots, folder: str | Path) -> Path:
    """Write blind spots: the record as JSON, and its tables as CSV.

    Parameters
    ----------
    found : BlindSpots
        As `find_blind_spots` gives them.
    folder : path
        Gets ``blindspots.json``, ``blindspots.csv`` and, as far as there are any,
        ``tradeoff.csv``, ``attackers.csv``, ``what_if.csv`` and ``together.csv``.

    Returns
    -------
    Path
        The JSON file.
    """
    folder = Path(folder)
    tables: dict[str, Sequence[Mapping[str, object]]] = {
        "blindspots.csv": found.rows(),
        "tradeoff.csv": [asdict(one) for one in found.trade_off],
        "attackers.csv": [asdict(one) for one in found.attackers],
        "what_if.csv": [asdict(one) for one in found.what_if],
        "together.csv": [together_row(one) for one in found.together],
    }
    with staged_folder(folder, whole=True) as partial:
        values = json.dumps(plain(found), indent=1, allow_nan=False)
        (partial / FILE).write_text(values + "\n", encoding="utf-8")
        for name, rows in tables.items():
            if rows:
                texts = [
                    {k: "" if v is None else csv_cell(v) for k, v in row.items()}
                    for row in rows
                ]
                with open(
                    partial / name,
                    "w",
                    newline="",
                    encoding="utf-8",
                    errors="backslashreplace",
                ) as file:
                    writer = csv.DictWriter(file, list(rows[0]))
                    writer.writeheader()
                    writer.writerows(texts)
    return folder / FILE


def read_blind_spots(path: str | Path) -> BlindSpots:
    """Return blind spots as they were written.

    Parameters
    ----------
    path : path
        The JSON file, or its folder.

    Raises
    ------
    FileError
        If there is no such file, or it is damaged.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    content = read_document(path)
    advice = "search them again with `sightline blindspots`"
    with damage(f"{path}: holds no blind spots", *_WRONG, advice=advice):
        found = msgspec.json.decode(content, type=BlindSpots)
        _check_spots(found.spots)
        for name in ("trade_off", "attackers", "what_if", "together"):
            _check(getattr(found, name), name, _ABOVE_0)
    return found


def _check_spots(spots: Sequence[BlindSpot]) -> None:
    """Raise `ValueError` if a spot holds a number that none can have."""
    _check(spots, "spots", _ABOVE_0)
    for spot in spots:
        if spot.sign not in (-1, 0, 1):
            raise ValueError(f"sign must be -1, 0 or 1, not {spot.sign:g}")


def _check(records: Sequence[object], where: str, names: Sequence[str]) -> None:
    """Raise `ValueError` if a number of some records is not above 0."""
    for record in records:
        for name in names:
            value = getattr(record, name, 1.0)
            if not value > 0:
                raise ValueError(f"{name} of {where} must be above 0, not {value:g}")


def spots_beside(result: Path | None) -> BlindSpots | None:
    """Return the blind spots of a result folder, if they were searched."""
    if result is None:
        return None
    path = spots_folder(result.parent, result.name) / FILE
    return read_blind_spots(path) if path.is_file() else None


class FoundSoFar:
    """What an interrupted search has found: one line for each tag.

    Parameters
    ----------
    folder : Path
        The folder of the blind spots.
    key : str
        Of detector, record, rules and settings; lines of another key are not used.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder.with_name(f".{folder.name}-{_PARTIAL}")
        self.key = key

    def read(self) -> dict[str, list[BlindSpot]]:
        """Return what was found before, by tag; a line that is cut is left out."""
        found: dict[str, list[BlindSpot]] = {}
        if not self.path.exists():
            return found
        for line in read_document(self.path).splitlines():
            try:
                one = msgspec.json.decode(line, type=_Line)
                _check_spots(one.spots)
            except _WRONG:
                continue
            if one.key == self.key:
                found[one.target] = one.spots
        return found

    def add(self, target: str, spots: list[BlindSpot]) -> None:
        """Keep what was found for one tag."""
        line = msgspec.json.encode(_Line(self.key, target, spots))
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                # A line that a killed run cut must not take this one with it.
                file.write(b"\n" + line + b"\n")
                file.flush()
                os.fsync(file.fileno())

    def clear(self) -> None:
        """Remove the file: all is found and written."""
        self.path.unlink(missing_ok=True)


class _Line(msgspec.Struct):
    """One line of the file."""

    key: str
    target: str
    spots: list[BlindSpot]


# --- Tables of the user ---------------------------------------------------------------


def read_attacks(path: str | Path) -> tuple[WhatIfAttack, ...]:
    """Return the attacks of a table.

    Parameters
    ----------
    path : path
        CSV with the columns id, duration_s (or duration_min), tag, kind, value, rate;
        others, such as those of a waterworks scenario, are not read.

    Raises
    ------
    FileError
        If a cell cannot be read; the message names the line.
    """
    path = Path(path)
    rows = list_rows(path, ("id", "tag", "kind"))
    attacks: dict[str, tuple[float, list[Falsification]]] = {}
    for line, row in rows.items():
        place = f"{path}: line {line}"
        duration_s = _duration(row, place)
        if row["kind"] not in tuple(TagAction):
            raise FileError(
                f"{place}: kind {row['kind']!r} is unknown; "
                f"{did_you_mean(row['kind'], list(TagAction))}"
            )
        try:
            action = Falsification(
                tag=row["tag"],
                kind=TagAction(row["kind"]),
                value=_number(row.get("value", ""), place, "value"),
                rate=_number(row.get("rate", ""), place, "rate"),
            )
        except StreamError as error:
            raise FileError(f"{place}: {error}") from error
        known = attacks.setdefault(row["id"], (duration_s, []))
        if known[0] != duration_s:
            raise FileError(
                f"{place}: attack {row['id']!r} has another duration than in its "
                "first row: give all of its rows the same."
            )
        known[1].append(action)
    if not attacks:
        raise FileError(f"{path}: holds no attack: give at least one row.")
    return tuple(
        WhatIfAttack(id=name, duration_s=length, actions=tuple(actions))
        for name, (length, actions) in attacks.items()
    )


def _duration(row: Mapping[str, str], place: str) -> float:
    for column, factor in (("duration_s", 1.0), ("duration_min", 60.0)):
        value = _number(row.get(column, ""), place, column)
        if value is not None:
            if not value > 0:
                raise FileError(f"{place}: {column} must be above 0; got {value:g}.")
            return value * factor
    raise FileError(f"{place}: says not how long it lasts: give duration_s.")


def _number(text: str, place: str, column: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise FileError(f"{place}: {column} {text!r} is no number.")
    return value


def read_shapes(path: str | Path) -> tuple[Shape, ...]:
    """Return a user's table of shapes.

    Parameters
    ----------
    path : path
        CSV with a column ``seconds`` and one column of weights for each shape.

    Raises
    ------
    FileError
        If a cell is no number, or there is no shape.
    """
    path = Path(path)
    rows = list_rows(path, ("seconds",))
    columns = [name for name in next(iter(rows.values()), {}) if name != "seconds"]
    if not columns:
        raise FileError(
            f"{path}: needs a column 'seconds' and a column of weights for each shape."
        )
    shapes = []
    for name in columns:
        seconds, weights = [], []
        for line, row in rows.items():
            at = _number(row["seconds"], f"{path}: line {line}", "seconds")
            weight = _number(row[name], f"{path}: line {line}", name)
            if at is not None and weight is not None:
                seconds.append(at)
                weights.append(weight)
        try:
            shapes.append(OwnShape(name, seconds, weights))
        except StreamError as error:
            raise FileError(f"{path}: {error}") from error
    return tuple(shapes)
