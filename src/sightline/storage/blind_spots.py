"""Blind spots on disk: ``DIR/blindspots/<result>/blindspots.json`` and tables.

They lie beside the results, not in them, so that a study that is run again keeps them;
the page of the results shows them.
"""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from sightline.blindspots.result import BlindSpot, BlindSpots, spot_row
from sightline.errors import FileError
from sightline.evaluation.result import plain
from sightline.files import brief, read_document, reading, staged_folder, writing
from sightline.text import csv_cell

FOLDER: Final = "blindspots"
FILE: Final = "blindspots.json"
_PARTIAL: Final = "found-so-far.jsonl"


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
        ``tradeoff.csv``, ``attackers.csv`` and ``what_if.csv``.

    Returns
    -------
    Path
        The JSON file.
    """
    folder = Path(folder)
    tables: dict[str, Sequence[Mapping[str, object]]] = {
        "blindspots.csv": [spot_row(spot) for spot in found.spots],
        "tradeoff.csv": [asdict(one) for one in found.trade_off],
        "attackers.csv": [asdict(one) for one in found.attackers],
        "what_if.csv": [asdict(one) for one in found.what_if],
    }
    with staged_folder(folder, whole=True) as partial:
        values = json.dumps(plain(found), indent=1, allow_nan=False)
        (partial / FILE).write_text(values + "\n", encoding="utf-8")
        for name, rows in tables.items():
            if rows:
                _write_csv(rows, partial / name)
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
    try:
        return msgspec.json.decode(content, type=BlindSpots)
    except msgspec.DecodeError as error:
        raise FileError(
            f"{path}: holds no blind spots ({brief(error)}): search them again with "
            "`sightline blindspots`."
        ) from error


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
        if not self.path.is_file():
            return found
        with reading(self.path):
            lines = self.path.read_bytes().splitlines()
        for line in lines:
            try:
                one = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError:
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


def _write_csv(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    with open(
        path, "w", newline="", encoding="utf-8", errors="backslashreplace"
    ) as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {k: "" if v is None else csv_cell(v) for k, v in row.items()}
            )
