"""Your own plant: a folder with train, test, and lists of attacks and tags.

==============================  =====================================================
``train.csv``, ``test.csv``     readings, wide or long, also as ``.parquet``; required
``attacks.csv``                 one line for each attack or incident, also called
                                ``incidents.csv``; columns id, start, end, tags, note,
                                uncertainty_min
``tags.csv``                    role, stage, unit and possible range of each tag
``plant.toml``                  time zone, format of time stamps, step, holding time
==============================  =====================================================

Columns of lists may be in any order and case, separated by commas or semicolons, and
some have alternative names (`data.attack_list`). Nothing is written into the folder.

`tables` reads one table, its columns and its time stamps; `exports` turns wide and long
tables into rows in even steps of time. `look` and `proposal` make such a folder of raw
exports (`sightline start`).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from sightline.data.downsampling import (
    TrainDecimals,
    rounded_like,
    with_trim,
    without_attacks,
)
from sightline.data.record_parts import away_from_incidents
from sightline.data.recording import Recording, Role, Tag, stamp
from sightline.data.segments import (
    Incident,
    breaks_from_time,
    labelled,
    rows_within,
)
from sightline.errors import FileError, naming
from sightline.files import reading
from sightline.progress import Progress, Step, StepKind, silent
from sightline.tables.cells import name_and_unit
from sightline.tables.lists import list_rows, read_incidents
from sightline.tables.stamps import seconds_of_cell
from sightline.tables.text_tables import EXCEL, PARQUET, TEXT
from sightline.testbeds.base import HOLD_S, MOST_NAMES, Testbed
from sightline.testbeds.csv_reader import sha256_of
from sightline.testbeds.own_plant.exports import (
    Readings,
    in_order_of,
    mode_of,
    readings_of,
)
from sightline.testbeds.own_plant.settings import PlantSettings, read_settings
from sightline.testbeds.own_plant.tables import leave_out_empty, open_source, states_of
from sightline.text import counted, did_you_mean, names, plural

LISTS = (".csv", ".txt", ".tsv", *EXCEL)
_IGNORE = "ignore"
_NUMBERS = {
    "low": "the end of the instrument's range",
    "high": "the end of the instrument's range",
    "resolution": "the smallest step of its values",
}


def read_folder(
    root: str | Path,
    *,
    train_decimals: TrainDecimals | None = None,
    progress: Progress = silent,
) -> Testbed:
    """Read your own plant from a folder; docs/own-plant.md describes its files.

    Parameters
    ----------
    root : path
        Holds train and test as CSV or Parquet, and optionally attacks.csv, tags.csv
        and plant.toml.
    train_decimals : TrainDecimals, optional
        Replaces what plant.toml says.
    progress : callable, optional
        Called with a `Step` for each table.

    Returns
    -------
    Testbed
        Named after the folder; without a release.

    Raises
    ------
    FileError
        If a file is missing, or cannot be read as what it should be.
    """
    folder = Path(root).expanduser()
    paths = _table_paths(folder)
    settings = read_settings(folder / "plant.toml")
    if train_decimals is not None:
        settings = replace(settings, train_decimals=train_decimals)
    tag_rows = _tag_rows(folder / "tags.csv")
    ignored = [name for name, row in tag_rows.items() if row["role"] == _IGNORE]
    roles = {name: row["role"] for name, row in tag_rows.items()}
    ranges = ranges_of(tag_rows)
    progress(Step(StepKind.READING, 0, len(paths), paths["train"].name))
    sources = [
        open_source(path, settings, ignored=ignored, roles=roles, ranges=ranges)
        for path in paths.values()
    ]
    empty = leave_out_empty(sources)
    states = states_of(sources)
    train = readings_of(sources.pop(0), states)
    progress(Step(StepKind.READING, 1, len(paths), paths["test"].name))
    test = in_order_of(train.channels, readings_of(sources.pop(), states), folder)
    settings.check_holds(train.channels, folder / "plant.toml")
    mode = mode_of(settings, train.channels, states, folder / "plant.toml")
    train, prepared = _prepared(train, test, settings, folder / "plant.toml")
    notices = [*train.notices, *test.notices, *empty, *states.notices()]
    notices += [*prepared, *_agreement(train, test, folder)]
    tags, tag_notices = _tags(tag_rows, train.channels, {**test.units, **train.units})
    notices.extend(tag_notices)
    attack_list, incidents, said = _incidents(folder, train, test, settings)
    notices.extend(said)
    if attack_list is None and test.labels is None:
        notices.append(
            "No attacks.csv and no column 'label' in test: all of test is taken as "
            "normal."
        )
    timezone = settings.timezone or ("UTC" if test.is_utc else None)
    recordings = [
        _recording(readings, tags, incidents, path, timezone)
        for readings, path in zip((train, test), paths.values(), strict=True)
    ]
    if settings.parts > 1:
        whole = _recording(
            _one_record(train, test, folder), tags, incidents, folder, timezone
        )
        recordings = [whole, replace(whole, parts=settings.parts)]
        normal = away_from_incidents(whole)
        n_left_out = whole.n_steps - normal.n_steps
        notices.append(
            f"Train and test are one record, judged in {settings.parts} parts, each by "
            f"a model of the others; {counted(n_left_out, 'row', 'is', 'are')} within "
            "an hour of an incident and not learned from."
        )
    else:
        normal, left_out = without_attacks(recordings[0])
        notices.extend(left_out)
    notices.extend(
        _unmatched(incidents, recordings, known_tags={*train.channels, *ignored})
    )
    used = [*paths.values(), *filter(None, (attack_list,))]
    used += [p for name in ("tags.csv", "plant.toml") if (p := folder / name).is_file()]
    return Testbed(
        name=folder.resolve().name,
        release="",
        train=with_trim(normal, settings.trim_start_s),
        test=recordings[1],
        notices=tuple(notices),
        digests={path.name: sha256_of(path) for path in used},
        words={
            tag: text for tag, text in states.texts.items() if tag in train.channels
        },
        accepts=settings.accept,
        incidents=incidents,
        holds={
            tag: min(float(hold), 1e300)
            for tag, hold in zip(
                train.channels, settings.holds_of(train.channels, roles), strict=True
            )
            if hold != HOLD_S
        },
        mode=None if mode is None else mode[1],
        date_order=settings.date_order,
    )


def ranges_of(
    tag_rows: Mapping[str, Mapping[str, str]],
) -> dict[str, tuple[float | None, float | None]]:
    """Return the range of each tag's instrument, by the rows of tags.csv."""
    found = {}
    for name, row in tag_rows.items():
        low, high = (float(row[k]) if row.get(k) else None for k in ("low", "high"))
        if low is not None or high is not None:
            found[name] = low, high
    return found


def _table_paths(folder: Path) -> dict[str, Path]:
    """Return the paths of train and test, as CSV or Parquet."""
    paths = {}
    with reading(folder):
        if not folder.is_dir():
            raise FileError(f"{folder}: there is no such folder.")
    for name in ("train", "test"):
        path = _only(folder, name, endings=(*PARQUET, *TEXT))
        if path is None:
            raise FileError(
                f"{folder}: has neither {name}.csv nor {name}.parquet; a plant's "
                "folder needs train and test."
            )
        paths[name] = path
    return paths


def _incidents(
    folder: Path, train: Readings, test: Readings, settings: PlantSettings
) -> tuple[Path | None, tuple[Incident, ...], tuple[str, ...]]:
    """Return the list of attacks of a folder, what it holds, and notices."""
    path = _only(folder, "attacks", "incidents", endings=LISTS)
    if path is None:
        return None, (), ()
    read_time = partial(_time, path=path, is_utc=test.is_utc, settings=settings)
    has_format = settings.time_format is not None
    listed = read_incidents(path, read_time, has_format=has_format)
    incidents = []
    for incident in listed.incidents:
        start, end = incident.listed
        if np.isinf(end):
            # An open incident ends with the table that it starts in.
            lasts = (train.time[-1], test.time[-1])
            end = min((t for t in lasts if t >= start), default=start)
        incidents.append(replace(incident, listed=(start, end)))
    return path, tuple(incidents), listed.notices


def _prepared(
    train: Readings, test: Readings, settings: PlantSettings, path: Path
) -> tuple[Readings, list[str]]:
    """Return train without its start and rounded like test, as plant.toml asks."""
    notices = []
    if settings.trim_start_s:
        keep = train.time >= train.time[0] + settings.trim_start_s
        if not keep.any():
            raise FileError(
                f"{path}: trim_start_s = {settings.trim_start_s:g} leaves no row of "
                "train: state fewer seconds."
            )
        n_cut = int((~keep).sum())
        notices.append(
            f"The first {plural(n_cut, 'row')} of train: left out, as trim_start_s in "
            "plant.toml asks."
        )
        time = train.time[keep]
        train = replace(
            train,
            values=train.values[keep],
            validity=train.validity[keep],
            time=time,
            breaks=breaks_from_time(time, train.step_s),
            labels=None if train.labels is None else train.labels[keep],
        )
    if settings.train_decimals is TrainDecimals.AS_TEST:
        values, decimals = rounded_like(train.values, test.values)
        said = [
            f"{name} ({decimals[k]})"
            for k, name in enumerate(train.channels)
            if decimals[k] >= 0
        ]
        if said:
            train = replace(train, values=np.asarray(values, np.float64))
            notices.append(
                "Train was rounded to the decimals of test, as train_decimals asks: "
                f"{names(said, MOST_NAMES)}."
            )
    return train, notices


def _one_record(train: Readings, test: Readings, folder: Path) -> Readings:
    """Return train and the test that follows it as one table."""
    # The last step of a long train may be the first of test, which knows more of it.
    n = int((train.time < test.time[0]).sum())
    if not len(train.time) - 1 <= n or n < 1 or test.step_s != train.step_s:
        raise FileError(
            f"{folder}: parts in plant.toml needs a test that follows train in the "
            "same step: leave `parts` out."
        )
    time = np.concatenate([train.time[:n], test.time])
    labels = None
    if train.labels is not None and test.labels is not None:
        labels = np.concatenate([train.labels[:n], test.labels])
    gaps = breaks_from_time(time, train.step_s)
    return replace(
        train,
        values=np.concatenate([train.values[:n], test.values]),
        validity=np.concatenate([train.validity[:n], test.validity]),
        time=time,
        breaks=np.union1d(
            np.append(train.breaks[train.breaks < n], n + test.breaks[1:]), gaps
        ),
        labels=labels,
        unwatched=(*train.unwatched, *test.unwatched),
    )


def _agreement(train: Readings, test: Readings, folder: Path) -> list[str]:
    """Refuse tables with different clocks or units; say if their steps differ."""
    if train.is_utc != test.is_utc:
        raise FileError(
            f"{folder}: time stamps of one table carry a zone and those of the other "
            "do not: state timezone in plant.toml."
        )
    for tag in train.channels:
        units = [readings.units.get(tag, "") for readings in (train, test)]
        if all(units) and units[0].lower() != units[1].lower():
            raise FileError(
                f"{folder}: {tag} is in {units[0]} in train and in {units[1]} in test: "
                "export both tables in one unit."
            )
    if train.step_s == test.step_s:
        return []
    return [
        f"Train has a row every {train.step_s:g} s and test one every "
        f"{test.step_s:g} s; state step_s in plant.toml if they should not differ."
    ]


def _only(folder: Path, *stems: str, endings: tuple[str, ...]) -> Path | None:
    """Return the one file with one of some names and endings; refuse two.

    Upper and lower case do not matter.
    """
    wanted = {stem + ending for stem in stems for ending in endings}
    with reading(folder):
        paths = sorted(
            path
            for path in folder.iterdir()
            if path.name.lower() in wanted and path.is_file()
        )
    if len(paths) > 1:
        raise FileError(
            f"{folder}: has both {paths[0].name} and {paths[1].name}, and only one of "
            "them would be read: remove one."
        )
    return paths[0] if paths else None


def _tag_rows(path: Path) -> dict[str, dict[str, str]]:
    """Return the rows of tags.csv by tag, roles checked; empty if there is none."""
    if not path.is_file():
        return {}
    rows: dict[str, dict[str, str]] = {}
    for line, row in list_rows(path, ["tag"]).items():
        tag, unit = name_and_unit(row["tag"])
        role = row.get("role", "").lower()
        if tag in rows:
            raise FileError(f"{path}: line {line}: names {tag!r} twice: keep one.")
        if role not in ("", _IGNORE, *Role):
            raise FileError(
                f"{path}: line {line}: role {role!r} of tag {tag!r} is unknown; "
                f"{did_you_mean(role, [*Role, _IGNORE])}"
            )
        for column, meaning in _NUMBERS.items():
            cell = row.get(column)
            try:
                is_number = not cell or math.isfinite(float(cell))
            except ValueError:
                is_number = False
            if not is_number:
                raise FileError(
                    f"{path}: line {line}: {column} {cell!r} of tag {tag!r} is no "
                    f"number: give {meaning}, or leave it empty."
                )
        rows[tag] = row | {"role": role, "unit": row.get("unit") or unit}
    return rows


def _tags(
    tag_rows: dict[str, dict[str, str]],
    channels: Sequence[str],
    units: Mapping[str, str],
) -> tuple[tuple[Tag, ...], list[str]]:
    """Return one tag for each channel, and notices about tags.csv.

    Channels that tags.csv does not list are sensors without stage and unit.
    """
    ignored = [name for name, row in tag_rows.items() if row["role"] == _IGNORE]
    extra = [n for n in tag_rows if n not in channels and n not in ignored]
    absent = [name for name in channels if name not in tag_rows]
    notices = []
    if ignored:
        notices.append(
            f"tags.csv: {names(ignored, MOST_NAMES)} was left out, because its role is "
            "ignore."
        )
    if extra:
        notices.append(f"tags.csv: {names(extra, MOST_NAMES)} is in no table.")
    if tag_rows and absent:
        notices.append(
            f"tags.csv: does not list {names(absent, MOST_NAMES)}, taken as sensors."
        )
    rows = [tag_rows.get(name, {}) for name in channels]
    tags = tuple(
        Tag(
            name=name,
            role=Role(row.get("role") or Role.SENSOR),
            stage=row.get("stage") or None,
            unit=row.get("unit") or units.get(name) or None,
            low=float(row["low"]) if row.get("low") else None,
            high=float(row["high"]) if row.get("high") else None,
            resolution=float(row["resolution"]) if row.get("resolution") else None,
        )
        for name, row in zip(channels, rows, strict=True)
    )
    return tags, notices


def _time(
    cell: str,
    name: str,
    line: int,
    *,
    path: Path,
    is_utc: bool,
    settings: PlantSettings,
) -> float:
    """Return one time stamp of the attack list as seconds.

    Each may carry its own offset; it must have one exactly if the time stamps of the
    tables do (`is_utc`).
    """
    seconds, has_zone = seconds_of_cell(
        cell,
        name,
        line,
        path=path,
        zone=settings.timezone,
        time_format=settings.time_format,
    )
    if has_zone != is_utc:
        sides = ("the tables", "the list") if is_utc else ("the list", "the tables")
        raise FileError(
            f"{path}: line {line}: time stamps of {sides[0]} carry a zone, those of "
            f"{sides[1]} do not: state timezone in plant.toml."
        )
    return seconds


def _recording(
    readings: Readings,
    tags: tuple[Tag, ...],
    incidents: Sequence[Incident],
    path: Path,
    timezone: str | None,
) -> Recording:
    """Return readings with their labels and attacks."""
    labels, attacks = labelled(readings.time, readings.labels, incidents)
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
            timezone=timezone,
            validity=readings.validity,
            unwatched=readings.unwatched,
        )


def _unmatched(
    incidents: Sequence[Incident],
    recordings: Sequence[Recording],
    *,
    known_tags: Collection[str],
) -> list[str]:
    """Return notices about incidents without a row, and tags that are not recorded."""
    lost: dict[str, list[str]] = {}
    times = [r.time for r in recordings if r.time is not None]
    for incident in incidents:
        start, _ = incident.listed
        if any(rows_within(time, incident.listed).any() for time in times):
            continue
        is_inside = any(time[0] <= start <= time[-1] for time in times)
        why = "in a gap, between two rows" if is_inside else "outside of train and test"
        at = stamp(start, recordings[0].timezone)
        lost.setdefault(why, []).append(f"{incident.id} ({at})")
    notices = [
        f"{counted(len(listed), 'incident', 'lies', 'lie')} {why}: {names(listed, 3)}."
        for why, listed in lost.items()
    ]
    unknown = {t: i.id for i in incidents for t in i.targets if t not in known_tags}
    if unknown:
        attacked = [f"{tag} (attack {id_})" for tag, id_ in unknown.items()]
        notices.append(
            f"Attacked tags that are not recorded: {names(attacked, MOST_NAMES)}."
        )
    return notices
