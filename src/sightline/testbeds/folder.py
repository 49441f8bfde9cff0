"""One's own plant: a folder with train, test, and what is known of attacks and tags."""

import csv
import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from sightline.checks import ATTACK, IGNORED, NORMAL, Labels
from sightline.errors import FileError, StreamError
from sightline.files import reading
from sightline.recording import Recording, Tag
from sightline.segments import Attack
from sightline.testbeds.attack_tables import rows_within, stamp
from sightline.testbeds.base import Testbed, listed
from sightline.testbeds.clock import check_zone, seconds_from
from sightline.testbeds.missing import hold
from sightline.testbeds.preparation import without_attacks
from sightline.testbeds.readings import (
    PlantSettings,
    Readings,
    check_channels,
    read_readings,
)

_SUFFIXES = (".parquet", ".csv")
_IGNORE = "ignore"
# Other words for the columns of attacks.csv.
_ALIASES = {
    "attack_id": "id",
    "incident": "id",
    "incident_id": "id",
    "stop": "end",
    "targets": "tags",
}


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One line of `attacks.csv`: times in seconds, both ends inclusive."""

    id: str
    start: float
    end: float
    tags: tuple[str, ...] = ()
    note: str | None = None
    uncertainty_s: float = 0.0


def read_folder(root: str | Path) -> Testbed:
    """Read one's own plant; see docs/own-plant.md for the files it is made of."""
    folder = Path(root).expanduser()
    paths = {name: _table_path(folder, name) for name in ("train", "test")}
    settings = _settings(folder / "plant.toml")
    train, test = (read_readings(path, path.name, settings) for path in paths.values())
    check_channels(train.channels, test.channels, folder)
    notices = [*train.notices, *test.notices]
    if train.is_utc != test.is_utc:
        raise FileError(
            f"{folder}: time stamps of one table carry a zone and those of the other "
            "do not: state timezone in plant.toml."
        )
    tags = _tags(folder / "tags.csv", train.channels, notices)
    listed_in = _find(folder, "attacks", ".csv") or _find(folder, "incidents", ".csv")
    incidents = _incidents(listed_in, test.is_utc, settings) if listed_in else ()
    if listed_in is None and test.labels is None:
        notices.append(
            "No attacks.csv and no column 'label' in test: all of test is taken as "
            "normal."
        )
    made = []
    for name, readings in (("train", train), ("test", test)):
        recording, told = _recording(readings, tags, incidents, name, settings)
        notices.extend(told)
        made.append(recording)
    quiet, told = without_attacks(made[0])
    notices.extend(told)
    notices.extend(_beyond(incidents, made, tags))
    used = [*paths.values(), *filter(None, (listed_in,))]
    used += [p for name in ("tags.csv", "plant.toml") if (p := folder / name).is_file()]
    return Testbed(
        name=folder.resolve().name,
        release="",
        train=quiet,
        test=made[1],
        notices=tuple(notices),
        digests={path.name: _digest(path) for path in used},
    )


def _find(folder: Path, stem: str, *suffixes: str) -> Path | None:
    for suffix in suffixes or _SUFFIXES:
        if (folder / f"{stem}{suffix}").is_file():
            return folder / f"{stem}{suffix}"
    return None


def _table_path(folder: Path, name: str) -> Path:
    with reading(folder):
        if not folder.is_dir():
            raise FileError(f"{folder}: there is no such folder.")
        found = _find(folder, name)
    if found is None:
        raise FileError(
            f"{folder}: has neither {name}.csv nor {name}.parquet; a plant's folder "
            "needs train and test."
        )
    return found


def _settings(path: Path) -> PlantSettings:
    if not path.is_file():
        return PlantSettings()
    with reading(path):
        try:
            said = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FileError(f"{path}: is not valid TOML ({error}).") from error
    known = {field.name for field in fields(PlantSettings)}
    for key, value in said.items():
        if key not in known:
            raise FileError(
                f"{path}: has an unknown key {key!r}; known are "
                f"{', '.join(sorted(known))}."
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key.endswith("_s") and not (is_number and value > 0):
            raise FileError(
                f"{path}: {key} must be positive seconds; got {value!r:.40}."
            )
        if not key.endswith("_s") and not isinstance(value, str):
            raise FileError(f"{path}: {key} must be text; got {value!r:.40}.")
    if "timezone" in said:
        check_zone(said["timezone"], path)
    return PlantSettings(**said)


def _rows(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """Return the lines of a small CSV table, names of columns cleaned."""
    with reading(path):
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise FileError(f"{path}: is not UTF-8 text; save it as UTF-8.") from error
    lines = text.splitlines()
    separator = ";" if lines and lines[0].count(";") > lines[0].count(",") else ","
    rows = []
    for row in csv.DictReader(lines, delimiter=separator):
        cleaned = {
            (k or "").strip().lower(): (v or "").strip()
            for k, v in row.items()
            if isinstance(v, str | None)
        }
        rows.append({_ALIASES.get(k, k): v for k, v in cleaned.items()})
    missing = [name for name in needed if rows and name not in rows[0]]
    if missing:
        raise FileError(
            f"{path}: needs the columns {', '.join(needed)}; {listed(missing)} is not "
            "there."
        )
    return rows


def _tags(path: Path, channels: Sequence[str], notices: list[str]) -> tuple[Tag, ...]:
    """Return one tag a channel, in the order of the table."""
    told = {}
    if path.is_file():
        told = {row["tag"]: row for row in _rows(path, ["tag"])}
        strange = [name for name in told if name not in channels]
        if strange:
            notices.append(f"{path.name}: {listed(strange)} is in no table.")
        silent = [name for name in channels if name not in told]
        if silent:
            notices.append(
                f"{path.name}: says nothing of {listed(silent)}, taken as sensors."
            )
    tags = []
    for name in channels:
        row = told.get(name, {})
        tags.append(
            Tag(
                name=name,
                role=row.get("role") or "sensor",
                stage=row.get("stage") or None,
                unit=row.get("unit") or None,
            )
        )
    ignored = [tag.name for tag in tags if tag.role == _IGNORE]
    if ignored:
        notices.append(
            f"{path.name}: {listed(ignored)} was left out, for its role is ignore."
        )
    if len(ignored) == len(tags):
        raise FileError(f"{path}: leaves no tag, for the role of all is ignore.")
    return tuple(tags)


def _incidents(
    path: Path, is_utc: bool, settings: PlantSettings
) -> tuple[Incident, ...]:
    import polars as pl

    rows = _rows(path, ["id", "start", "end"])
    incidents = []
    for line, row in enumerate(rows, start=2):
        span = []
        for name in ("start", "end"):
            at, has_zone = seconds_from(
                pl.Series(name, [row[name] or None], pl.String),
                path=path,
                zone=settings.timezone,
                time_format=settings.time_format,
            )
            if has_zone != is_utc:
                which = (
                    ("attacks", "the tables") if is_utc else ("the tables", "attacks")
                )
                raise FileError(
                    f"{path}: line {line}: time stamps of {which[1]} carry a zone, "
                    f"those of {which[0]} do not: state timezone in plant.toml."
                )
            span.append(float(at[0]))
        if span[1] < span[0]:
            raise FileError(
                f"{path}: line {line}: attack {row['id']!r} ends before it starts; "
                "check start and end."
            )
        incidents.append(
            Incident(
                id=row["id"] or str(line - 1),
                start=span[0],
                end=span[1],
                tags=tuple(filter(None, (t.strip() for t in _split(row.get("tags"))))),
                note=row.get("note") or None,
                uncertainty_s=60 * _minutes(row.get("uncertainty_min"), path, line),
            )
        )
    return tuple(incidents)


def _split(text: str | None) -> list[str]:
    return (text or "").replace(",", ";").split(";")


def _minutes(text: str | None, path: Path, line: int) -> float:
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


def _recording(
    readings: Readings,
    tags: Sequence[Tag],
    incidents: Sequence[Incident],
    name: str,
    settings: PlantSettings,
) -> tuple[Recording, list[str]]:
    kept = np.array([tag.role != _IGNORE for tag in tags])
    used = tuple(tag for tag in tags if tag.role != _IGNORE)
    values, told = hold(
        np.ascontiguousarray(readings.values[:, kept]),
        readings.breaks,
        tags=used,
        step_s=readings.step_s,
        place=name,
        hold_s=settings.hold_s,
    )
    labels, attacks = _labelled(readings, incidents)
    try:
        recording = Recording(
            values=values,
            tags=used,
            labels=labels,
            time=readings.time,
            step_s=readings.step_s,
            breaks=readings.breaks,
            attacks=attacks,
            source=name,
        )
    except StreamError as error:
        raise FileError(f"{name}: {error}") from error
    return recording, told


def _labelled(
    readings: Readings, incidents: Sequence[Incident]
) -> tuple[Labels, tuple[Attack, ...]]:
    """Return labels and attacks: of the table's own column, of the list, or of both.

    The list marks its rows as attacks; minutes of uncertainty before and after are
    ignored, for nobody knows what they are.
    """
    time = readings.time
    labels = (
        np.full(len(time), NORMAL, np.int8)
        if readings.labels is None
        else readings.labels.copy()
    )
    attacks = []
    for incident in incidents:
        rows = np.flatnonzero(rows_within(time, (incident.start, incident.end)))
        if not len(rows):
            continue
        if readings.labels is None:
            around = rows_within(
                time,
                (
                    incident.start - incident.uncertainty_s,
                    incident.end + incident.uncertainty_s,
                ),
            )
            labels[around & (labels == NORMAL)] = IGNORED
        attacks.append(
            Attack(
                id=incident.id,
                start=int(rows[0]),
                stop=int(rows[-1]) + 1,
                targets=incident.tags,
                note=incident.note,
            )
        )
    if readings.labels is None:
        for attack in attacks:
            labels[attack.start : attack.stop] = ATTACK
    return labels, tuple(attacks)


def _beyond(
    incidents: Sequence[Incident], recordings: Sequence[Recording], tags: Sequence[Tag]
) -> list[str]:
    """Return a sentence on incidents that no row saw, and on tags nobody records."""
    told = []
    seen = {attack.id for recording in recordings for attack in recording.attacks}
    for incident in incidents:
        if incident.id not in seen:
            told.append(
                f"Attack {incident.id} ({stamp(incident.start)}) lies outside of train "
                "and test."
            )
    names = {tag.name for tag in tags}
    strange = {t: i.id for i in incidents for t in i.tags if t not in names}
    if strange:
        of = [f"{tag} (attack {id_})" for tag, id_ in strange.items()]
        told.append(f"Attacked tags that are not recorded: {listed(of)}.")
    return told


def _digest(path: Path) -> str:
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
