"""One's own plant: a folder with train, test, and what is known of attacks and tags."""

import csv
import hashlib
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Labels
from sightline.data.downsampling import without_attacks
from sightline.data.recording import Recording, Role, Tag, stamp
from sightline.data.segments import Attack
from sightline.errors import FileError, naming
from sightline.files import reading
from sightline.testbeds.attack_tables import rows_within
from sightline.testbeds.base import Testbed, listed
from sightline.testbeds.own_plant.clock import check_zone, seconds_from
from sightline.testbeds.own_plant.exports import PlantSettings, Readings
from sightline.testbeds.own_plant.readings import in_order_of, read_readings
from sightline.text import did_you_mean

_SUFFIXES = (".parquet", ".csv")
_IGNORE = "ignore"
# Of a table, after its header.
_FIRST_LINE = 2
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
    told_tags = _told_tags(folder / "tags.csv")
    ignored = [name for name, row in told_tags.items() if row.get("role") == _IGNORE]
    train, test = (
        read_readings(path, settings, ignored=ignored) for path in paths.values()
    )
    test = in_order_of(train.channels, test, folder)
    notices = [*train.notices, *test.notices]
    if train.is_utc != test.is_utc:
        raise FileError(
            f"{folder}: time stamps of one table carry a zone and those of the other "
            "do not: state timezone in plant.toml."
        )
    if train.step_s != test.step_s:
        notices.append(
            f"Train has a row each {train.step_s:g} s and test one each "
            f"{test.step_s:g} s; state step_s in plant.toml if they should not differ."
        )
    tags = _tags(told_tags, train.channels, notices)
    listed_in = _only(folder, ["attacks.csv", "incidents.csv"])
    incidents = _incidents(listed_in, test.is_utc, settings) if listed_in else ()
    if listed_in is None and test.labels is None:
        notices.append(
            "No attacks.csv and no column 'label' in test: all of test is taken as "
            "normal."
        )
    made = [
        _recording(readings, tags, incidents, path)
        for readings, path in ((train, paths["train"]), (test, paths["test"]))
    ]
    quiet, told = without_attacks(made[0])
    notices.extend(told)
    known = {*train.channels, *ignored}
    notices.extend(_beyond(incidents, made, known))
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


def _only(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the one of several files that is there; refuse two."""
    with reading(folder):
        found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) > 1:
        raise FileError(
            f"{folder}: has both {found[0].name} and {found[1].name}, and only one of "
            "them would be read: take one away."
        )
    return found[0] if found else None


def _table_path(folder: Path, name: str) -> Path:
    with reading(folder):
        if not folder.is_dir():
            raise FileError(f"{folder}: there is no such folder.")
    found = _only(folder, [f"{name}{suffix}" for suffix in _SUFFIXES])
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
        if key.endswith("_s") and not (is_number and 0 < value < float("inf")):
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
    for line, row in enumerate(csv.DictReader(lines, delimiter=separator), start=2):
        if None in row:
            raise FileError(
                f"{path}: line {line} has more cells than the header has columns: "
                "separate several tags by ';', and put text with commas in quotes."
            )
        cleaned = {k.strip().lower(): (v or "").strip() for k, v in row.items()}
        rows.append({_ALIASES.get(k, k): v for k, v in cleaned.items()})
    missing = [name for name in needed if rows and name not in rows[0]]
    if missing:
        raise FileError(
            f"{path}: needs the columns {', '.join(needed)}; {listed(missing)} is not "
            "there."
        )
    return rows


def _told_tags(path: Path) -> dict[str, dict[str, str]]:
    """Return what tags.csv says, by tag."""
    if not path.is_file():
        return {}
    told: dict[str, dict[str, str]] = {}
    for row in _rows(path, ["tag"]):
        if row["tag"] in told:
            raise FileError(f"{path}: names {row['tag']!r} twice: keep one line.")
        role = row.get("role", "").lower()
        if role not in ("", _IGNORE, *Role):
            raise FileError(
                f"{path}: role {role!r} of tag {row['tag']!r} is unknown; "
                f"{did_you_mean(role, [*Role, _IGNORE])}"
            )
        told[row["tag"]] = row | {"role": role}
    return told


def _tags(
    told: dict[str, dict[str, str]], channels: Sequence[str], notices: list[str]
) -> tuple[Tag, ...]:
    """Return one tag a channel, in the order of the table."""
    ignored = [name for name, row in told.items() if row.get("role") == _IGNORE]
    strange = [n for n in told if n not in channels and n not in ignored]
    silent = [name for name in channels if name not in told]
    if ignored:
        notices.append(
            f"tags.csv: {listed(ignored)} was left out, for its role is ignore."
        )
    if strange:
        notices.append(f"tags.csv: {listed(strange)} is in no table.")
    if told and silent:
        notices.append(f"tags.csv: says nothing of {listed(silent)}, taken as sensors.")
    rows = [told.get(name, {}) for name in channels]
    return tuple(
        Tag(
            name=name,
            role=Role(row.get("role") or Role.SENSOR),
            stage=row.get("stage") or None,
            unit=row.get("unit") or None,
        )
        for name, row in zip(channels, rows, strict=True)
    )


def _incidents(
    path: Path, is_utc: bool, settings: PlantSettings
) -> tuple[Incident, ...]:
    incidents = []
    rows = _rows(path, ["id", "start", "end"])
    for line, row in enumerate(rows, start=_FIRST_LINE):
        start, end = (
            _time(row[name], name, path, line, is_utc, settings)
            for name in ("start", "end")
        )
        if end < start:
            raise FileError(
                f"{path}: line {line}: attack {row['id']!r} ends before it starts; "
                "check start and end."
            )
        incidents.append(
            Incident(
                id=row["id"] or str(line - 1),
                start=start,
                end=end,
                tags=tuple(filter(None, (t.strip() for t in _split(row.get("tags"))))),
                note=row.get("note") or None,
                uncertainty_s=60 * _minutes(row.get("uncertainty_min"), path, line),
            )
        )
    return tuple(incidents)


def _time(
    cell: str, name: str, path: Path, line: int, is_utc: bool, settings: PlantSettings
) -> float:
    """Return one time stamp; each may say its own zone."""
    import polars as pl

    seconds, has_zone = seconds_from(
        pl.Series(name, [cell or None], pl.String),
        path=path,
        zone=settings.timezone,
        time_format=settings.time_format,
        first_line=line,
    )
    if has_zone != is_utc:
        told = ("the tables", "the list") if is_utc else ("the list", "the tables")
        raise FileError(
            f"{path}: line {line}: time stamps of {told[0]} carry a zone, those of "
            f"{told[1]} do not: state timezone in plant.toml."
        )
    return float(seconds[0])


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
    readings: Readings, tags: tuple[Tag, ...], incidents: Sequence[Incident], path: Path
) -> Recording:
    labels, attacks = _labelled(readings, incidents)
    with naming(path):
        return Recording(
            values=readings.values,
            tags=tags,
            labels=labels,
            time=readings.time,
            step_s=readings.step_s,
            breaks=readings.breaks,
            attacks=attacks,
            source=path.name,
        )


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
        if readings.labels is None:
            around = rows_within(
                time,
                (
                    incident.start - incident.uncertainty_s,
                    incident.end + incident.uncertainty_s,
                ),
            )
            labels[around & (labels == NORMAL)] = IGNORED
        if not len(rows):
            continue
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
    incidents: Sequence[Incident],
    recordings: Sequence[Recording],
    known: Collection[str],
) -> list[str]:
    """Return a sentence on incidents that no row saw, and on tags nobody records."""
    told = []
    for incident in incidents:
        span = (incident.start, incident.end)
        if any(
            r.time is not None and rows_within(r.time, span).any() for r in recordings
        ):
            continue
        is_inside = any(
            r.time is not None and r.time[0] <= incident.start <= r.time[-1]
            for r in recordings
        )
        why = "lies between two rows" if is_inside else "lies outside of train and test"
        told.append(f"Attack {incident.id} ({stamp(incident.start)}) {why}.")
    strange = {t: i.id for i in incidents for t in i.tags if t not in known}
    if strange:
        of = [f"{tag} (attack {id_})" for tag, id_ in strange.items()]
        told.append(f"Attacked tags that are not recorded: {listed(of)}.")
    return told


def _digest(path: Path) -> str:
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
