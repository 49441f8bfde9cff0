"""Scenarios on disk: CSV, one row an action, or TOML, one table an attack."""

import csv
import io
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from sightline.errors import FileError, StreamError
from sightline.testbeds.waterworks.scenario import (
    Action,
    PlannedAttack,
    Scenario,
    grouped,
)

DAY_S = 86_400
COLUMNS = ("id", "start_s", "duration_s", "tag", "kind", "value", "rate", "note")
_OPTIONAL = ("value", "rate", "note")


def default_scenario(days: float = 4.0) -> Scenario:
    """Return the shipped attacks that fit into so many days; they fill four.

    Examples
    --------
    >>> len(default_scenario().attacks) >= 36
    True
    """
    return _shipped("attacks.csv").within(round(days * DAY_S))


def quick_scenario(days: float = 0.5) -> Scenario:
    """Return the attacks of the quick preset; they fill half a day."""
    return _shipped("quick_attacks.csv").within(round(days * DAY_S))


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a ``.csv`` or ``.toml`` file.

    Raises
    ------
    FileError
        In one sentence: what is wrong, where, and what to do.
    """
    path = Path(path)
    parse: dict[str, Callable[[str, str], Scenario]] = {
        ".csv": _from_csv,
        ".toml": _from_toml,
    }
    if path.suffix.lower() not in parse:
        raise FileError(f"{path}: a scenario is a .csv or .toml file: rename it.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileError(
            f"{path}: cannot be read ({error.strerror or error}): check the path and "
            "its permissions."
        ) from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: is not UTF-8 text: save it as UTF-8.") from error
    return parse[path.suffix.lower()](text, str(path))


def scenario_to_csv(scenario: Scenario) -> str:
    """Return a scenario as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for attack in scenario.attacks:
        for action in attack.actions:
            writer.writerow(
                [
                    attack.id,
                    attack.start_s,
                    attack.duration_s,
                    action.tag,
                    action.kind,
                    _number(action.value),
                    _number(action.rate),
                    attack.note,
                ]
            )
    return text.getvalue()


def scenario_to_toml(scenario: Scenario) -> str:
    """Return a scenario as the text of a TOML file."""
    lines: list[str] = []
    for attack in scenario.attacks:
        lines += ["[[attack]]", f"id = {_quoted(attack.id)}"]
        lines += [f"start_s = {attack.start_s}", f"duration_s = {attack.duration_s}"]
        lines += [f"note = {_quoted(attack.note)}"]
        for action in attack.actions:
            lines += ["[[attack.action]]", f"tag = {_quoted(action.tag)}"]
            lines += [f"kind = {_quoted(action.kind)}"]
            if action.value is not None:
                lines += [f"value = {_number(action.value)}"]
            if action.rate is not None:
                lines += [f"rate = {_number(action.rate)}"]
        lines += [""]
    return "\n".join(lines)


def _shipped(name: str) -> Scenario:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _from_csv(text, name)


def _number(value: float | None) -> str:
    """Write a number so that it is read as the very same one."""
    if value is None:
        return ""
    return str(int(value)) if value % 1 == 0 and abs(value) < 1e15 else repr(value)


def _quoted(text: str) -> str:
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c
        for c in text.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Say in which file and row, as one sentence, what an object refused."""
    try:
        yield
    except StreamError as error:
        raise FileError(f"{place}: {error}") from error


def _from_csv(text: str, name: str) -> Scenario:
    try:
        return _from_rows(csv.DictReader(io.StringIO(text, newline="")), name)
    except csv.Error as error:
        raise FileError(f"{name}: is not CSV ({error}): correct that line.") from error


def _from_rows(reader: "csv.DictReader[str]", name: str) -> Scenario:
    header = [field.strip() for field in reader.fieldnames or ()]
    missing = [c for c in COLUMNS if c not in header and c not in _OPTIONAL]
    if missing:
        raise FileError(
            f"{name}: column {', '.join(missing)} is missing: a scenario has "
            f"{', '.join(COLUMNS)}."
        )
    reader.fieldnames = header
    rows = []
    for row in reader:
        place = f"{name}: line {reader.line_num}"
        # Cells beyond the header come under None, cells left out as None.
        cells = {key: (row[key] or "").strip() for key in header}
        with _at(place):
            rows.append((_attack_of_row(cells), place))
    with _at(name):
        return grouped(rows)


def _attack_of_row(cells: dict[str, str]) -> PlannedAttack:
    action = Action(
        tag=cells["tag"],
        kind=cells["kind"],
        value=_float_of(cells.get("value", ""), "value"),
        rate=_float_of(cells.get("rate", ""), "rate"),
    )
    return PlannedAttack(
        id=cells["id"],
        start_s=_seconds_of(cells["start_s"], "start_s"),
        duration_s=_seconds_of(cells["duration_s"], "duration_s"),
        actions=(action,),
        note=cells.get("note", ""),
    )


def _float_of(cell: object, column: str) -> float | None:
    if cell is None or cell == "":
        return None
    try:
        return float(str(cell))
    except ValueError as error:
        raise StreamError(f"{column} must be a number; got {str(cell)!r}.") from error


def _seconds_of(cell: object, column: str) -> int:
    seconds = _float_of(cell, column)
    if seconds is None or seconds % 1 != 0:
        raise StreamError(f"{column} must be whole seconds; got {str(cell)!r}.")
    return int(seconds)


def _from_toml(text: str, name: str) -> Scenario:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{name}: is not TOML ({error}): correct that line.") from error
    listed = tables.get("attack", [])
    if not _is_list_of_tables(listed) or set(tables) - {"attack"}:
        raise FileError(f"{name}: a scenario holds [[attack]] tables and nothing else.")
    attacks = []
    for number, table in enumerate(listed, start=1):
        with _at(f"{name}: attack table {number}"):
            attacks.append(_attack_of_table(table))
    with _at(name):
        return Scenario(attacks=tuple(attacks))


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _attack_of_table(table: dict[str, Any]) -> PlannedAttack:
    _check_keys(table, ("id", "start_s", "duration_s", "action"), ("note",))
    if not _is_list_of_tables(table["action"]):
        raise StreamError("actions must be [[attack.action]] tables.")
    for action in table["action"]:
        _check_keys(action, ("tag", "kind"), ("value", "rate"))
    return PlannedAttack(
        id=str(table["id"]),
        start_s=_seconds_of(table["start_s"], "start_s"),
        duration_s=_seconds_of(table["duration_s"], "duration_s"),
        actions=tuple(
            Action(
                tag=str(action["tag"]),
                kind=str(action["kind"]),
                value=_float_of(action.get("value"), "value"),
                rate=_float_of(action.get("rate"), "rate"),
            )
            for action in table["action"]
        ),
        note=str(table.get("note", "")),
    )


def _check_keys(
    table: dict[str, Any], needed: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    missing = [key for key in needed if key not in table]
    if missing:
        raise StreamError(f"{', '.join(missing)} is missing: give it.")
    unknown = [key for key in table if key not in needed + optional]
    if unknown:
        raise StreamError(
            f"{', '.join(unknown)} is unknown: use {', '.join(needed + optional)}."
        )
