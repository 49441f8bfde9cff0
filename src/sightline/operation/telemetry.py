"""From telemetry through the saved detector to the rows that a rule reads."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np

from sightline.data.arrays import NORMAL, Labels
from sightline.data.downsampling import Sampling, downsampled
from sightline.data.recording import Recording, Role, Tag
from sightline.data.segments import breaks_from_time
from sightline.detectors import LearnedDetector, load_detector
from sightline.errors import FileError, StreamError
from sightline.export import ExportedRows, export_rows
from sightline.files import reading
from sightline.progress import Progress, silent
from sightline.rules.file import file_digest
from sightline.rules.making import MadeRule
from sightline.rules.normal import Telemetry
from sightline.tables.text_tables import is_table
from sightline.testbeds.own_plant.exports import Readings, in_order_of, readings_of
from sightline.testbeds.own_plant.settings import PlantSettings, read_settings
from sightline.testbeds.own_plant.tables import States, open_source, states_of
from sightline.text import names

# Tables of a folder that are no telemetry.
_NO_EXPORTS = ("tags", "attacks", "incidents")


def detector_of(
    made: MadeRule, rule_path: Path, override: Path | None = None
) -> LearnedDetector:
    """Return the detector through which telemetry passes before the rule.

    Parameters
    ----------
    made : MadeRule
        As it was read.
    rule_path : Path
        Its file; the detector's path is relative to its folder.
    override : Path, optional
        Another place of the same file.

    Raises
    ------
    FileError
        If the rule names no detector, or the file is missing or another one.
    """
    saved = None if made.origin is None else made.origin.saved_detector
    if saved is None:
        raise FileError(
            f"{rule_path}: names no saved detector, so it cannot read telemetry: give "
            "residuals, or commission again with --detector."
        )
    folder = rule_path if rule_path.is_dir() else rule_path.parent
    path = folder / saved.path if override is None else override
    if not path.is_file():
        raise FileError(
            f"{path}: there is no such file, and the rule needs its detector: name it "
            "with --detector."
        )
    if file_digest(path) != saved.sha256:
        raise FileError(
            f"{path}: is not the detector that the rule was made for, or was changed "
            "since: commission again with this one."
        )
    return load_detector(path)


def exports_in(folder: Path) -> list[Path]:
    """Return the tables of rows in a folder by name, without lists and hidden files."""
    with reading(folder):
        return sorted(
            path
            for path in folder.iterdir()
            if is_table(path)
            and path.name.lower().partition(".")[0] not in _NO_EXPORTS
            and not path.name.startswith(".")
            and path.is_file()
        )


def export_settings(folder: Path, made: MadeRule) -> PlantSettings:
    """Return how tables of a folder are read: its plant.toml, else the rule's zone."""
    settings = read_settings(folder / "plant.toml")
    zone = None if made.origin is None else made.origin.timezone
    return replace(settings, timezone=settings.timezone or zone)


def read_exports(
    paths: Sequence[Path],
    made: MadeRule,
    detector: LearnedDetector,
    settings: PlantSettings,
) -> Recording:
    """Return tables of telemetry as one recording, in order of time.

    Parameters
    ----------
    paths : sequence of Path
        The tables, wide or long. Tags that the detector does not read are left out.
    made : MadeRule
        The rule; it says how words are read, and the step.
    detector : LearnedDetector
        Its detector.
    settings : PlantSettings
        See `export_settings`.

    Raises
    ------
    FileError
        If a table cannot be read, lacks a tag, or overlaps with another.
    """
    if not paths:
        raise FileError("There is no table of telemetry (CSV or Parquet) to read.")
    known = telemetry_of(made)
    sources = [open_source(path, settings, roles=known.roles) for path in paths]
    states = States(known.words) if known.words else states_of(sources)
    tables = [
        _with_tags(readings_of(source, states), detector, source.path)
        for source in sources
    ]
    order = np.argsort([table.time[0] for table in tables], kind="stable")
    tables = [tables[k] for k in order]
    for k, (one, other) in enumerate(pairwise(tables)):
        if other.time[0] <= one.time[-1]:
            raise FileError(
                f"{paths[order[k + 1]]}: overlaps in time with "
                f"{paths[order[k]].name}: give each time once."
            )
    time = np.concatenate([table.time for table in tables])
    step_s = tables[0].step_s
    return Recording(
        values=np.concatenate([table.values for table in tables]),
        tags=tuple(
            Tag(
                name=name,
                role=Role(known.roles.get(name, Role.SENSOR)),
                unit=tables[0].units.get(name),
            )
            for name in tables[0].channels
        ),
        labels=_joined_labels(tables),
        time=time,
        step_s=step_s,
        breaks=breaks_from_time(time, step_s),
        timezone=settings.timezone or ("UTC" if tables[0].is_utc else None),
        source=names([path.name for path in paths], 3),
    )


def _joined_labels(tables: Sequence[Readings]) -> Labels | None:
    """Return the labels of all tables; rows of tables without are normal."""
    if all(table.labels is None for table in tables):
        return None
    return np.concatenate(
        [
            np.full(len(table.time), NORMAL, np.int8)
            if table.labels is None
            else table.labels
            for table in tables
        ]
    )


def _with_tags(readings: Readings, detector: LearnedDetector, path: Path) -> Readings:
    """Return the tags that a detector reads, in its order."""
    wanted = detector.channels or ()
    if missing := [name for name in wanted if name not in readings.channels]:
        raise FileError(
            f"{path}: lacks {names(missing, 3)}, which the rule's detector reads: "
            "export every tag that it learned from."
        )
    kept = [k for k, name in enumerate(readings.channels) if name in wanted]
    readings = replace(
        readings,
        channels=tuple(readings.channels[k] for k in kept),
        values=readings.values[:, kept],
    )
    return in_order_of(wanted, readings, path)


def rule_rows(
    recording: Recording,
    made: MadeRule,
    detector: LearnedDetector,
    *,
    progress: Progress = silent,
) -> ExportedRows:
    """Return the rows of a recording that a rule reads.

    The recording is brought to the step that the detector learned from, passes through
    the detector, and must then have the channels and the step of the rule.

    Parameters
    ----------
    recording : Recording
        With the detector's channels.
    made : MadeRule
        The rule.
    detector : LearnedDetector
        Its detector.
    progress : callable, optional
        Called with a `Step`.

    Raises
    ------
    StreamError
        If step or channels do not fit.
    """
    telemetry, rule = telemetry_of(made), made.rule
    slower = prepared(recording, telemetry)
    rows = export_rows(detector, slower, preset=telemetry.preset, progress=progress)
    check_names(rows.channels, made)
    if rule.needs_score and rows.score is None:
        raise StreamError(
            f"The rule {rule.name!r} reads the detector's own score, which is not made "
            "from telemetry alone: choose another rule, or give a stream."
        )
    check_step(rows.step_s, made)
    return rows


def prepared(recording: Recording, telemetry: Telemetry) -> Recording:
    """Return a recording with rows of the step that the detector learned from."""
    every = steps_to_join(recording.step_s, telemetry)
    sampling = cast(Sampling, telemetry.sampling)
    return downsampled(recording, every=every, sampling=sampling)


def steps_to_join(step_s: float | None, telemetry: Telemetry) -> int:
    """Return how many measured rows make one row of the detector's recordings.

    Raises
    ------
    StreamError
        If no whole number of them does.
    """
    wanted = telemetry.step_s
    if wanted is None or step_s is None:
        return 1
    every = round(wanted / step_s)
    if every < 1 or abs(every * step_s - wanted) > 0.01 * wanted:
        raise StreamError(
            f"Rows are {step_s:g} s apart, and the rule's detector reads rows "
            f"{wanted:g} s apart: export them in that step, or a whole part of it."
        )
    return every


def check_names(channels: Sequence[str], made: MadeRule) -> None:
    """Raise unless rows have the channels of a rule, in their order."""
    wanted = [channel.name for channel in made.rule.channels]
    if list(channels) == wanted:
        return
    missing = [name for name in wanted if name not in channels]
    other = [name for name in channels if name not in wanted]
    what = (
        f"lack {names(missing, 3)}"
        if missing
        else f"also have {names(other, 3)}"
        if other
        else "have them in another order"
    )
    raise StreamError(
        f"The rule reads {len(wanted)} channels ({names(wanted, 3)}), and the rows "
        f"{what}: give the residuals of the detector it was made for."
    )


def check_step(step_s: float | None, made: MadeRule) -> None:
    """Raise if rows come in another step than a rule was made for."""
    wanted = made.rule.step_s
    if step_s is None or wanted is None or abs(step_s - wanted) <= 0.01 * wanted:
        return
    raise StreamError(
        f"Rows are {step_s:g} s apart, and the rule was made for rows {wanted:g} s "
        "apart: its delays and its promise hold for that step alone."
    )


def telemetry_of(made: MadeRule) -> Telemetry:
    """Return how recordings are prepared for the detector of a rule."""
    return Telemetry() if made.origin is None else made.origin.telemetry
