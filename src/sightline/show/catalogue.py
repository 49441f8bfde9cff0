"""What is shown of plants, recordings, files, settings, and cells of a study."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.data.recording import Recording, Tag
from sightline.data.zones import OWN_CLOCK
from sightline.show.table import (
    CellNote,
    Column,
    Columns,
    RecordTable,
    TableCell,
    pick,
)
from sightline.text import UNKNOWN, duration, number, plural, row_span, size

if TYPE_CHECKING:
    from sightline.audit.record import Audit, RecordingFacts, TableFacts
    from sightline.data.stream import ResidualStream
    from sightline.detectors.base import LearnedDetector
    from sightline.storage.companions import ReviewRow
    from sightline.study.cell import Cell
    from sightline.testbeds.base import Testbed

# A tag, and its values in a recording.
TagValues = tuple[Tag, np.typing.NDArray[Any]]


def _end(extreme: np.ufunc, tag: TagValues) -> str:
    """Return the lowest or highest value of a tag; unknown if none is a number."""
    values = np.where(np.isfinite(tag[1]), tag[1], np.nan)
    end = float(extreme.reduce(values)) if len(values) else np.nan
    return number(end) if np.isfinite(end) else UNKNOWN


CHANNELS: Columns[TagValues] = (
    Column("tag", "tag", lambda t: t[0].name),
    Column("role", "role", lambda t: str(t[0].role)),
    Column("stage", "stage", lambda t: t[0].stage or ""),
    Column("unit", "unit", lambda t: t[0].unit or ""),
    Column("lowest", "lowest", lambda t: _end(np.fmin, t), "r"),
    Column("highest", "highest", lambda t: _end(np.fmax, t), "r"),
)


def channels_table(recording: Recording) -> RecordTable[TagValues]:
    """Return the tags of a recording with their ranges."""
    columns = [recording.values[:, k] for k in range(len(recording.tags))]
    return RecordTable(
        "Channels", CHANNELS, list(zip(recording.tags, columns, strict=True))
    )


# Train or test, by name.
Part = tuple[str, Recording]
RECORDINGS: Columns[Part] = (
    Column("name", "", lambda p: p[0]),
    Column("steps", "steps", lambda p: f"{p[1].n_steps:,}", "r"),
    Column("step", "step", lambda p: duration(p[1].step_s), "r"),
    Column(
        "runs",
        "continuous",
        lambda p: plural(0 if p[1].breaks is None else len(p[1].breaks), "run"),
    ),
    Column("attacks", "attacks", lambda p: str(len(p[1].attacks)), "r"),
)


def recordings_table(testbed: "Testbed") -> RecordTable[Part]:
    """Return train and test of a testbed."""
    parts = [("train", testbed.train), ("test", testbed.test)]
    return RecordTable("Recordings", RECORDINGS, parts)


# A setting of a detector by name, and its value as text.
Setting = tuple[str, str]
SETTINGS: Columns[Setting] = (
    Column("setting", "setting", lambda s: s[0]),
    Column("value", "value", lambda s: s[1]),
)


def settings_table(settings: object) -> RecordTable[Setting]:
    """Return the settings of a detector; no rows if it has none."""
    listed = fields(settings) if is_dataclass(settings) else ()
    rows = [(field.name, str(getattr(settings, field.name))) for field in listed]
    return RecordTable("Settings", SETTINGS, rows)


def defaults_table(kind: "type[LearnedDetector]") -> RecordTable[Any]:
    """Return every setting with its default and its value in preset 'official'."""

    def default(field: Any) -> str:
        value = field.default
        if value is MISSING and field.default_factory is not MISSING:
            value = field.default_factory()
        return "required" if value is MISSING else repr(value)

    official: Mapping[str, object] = kind.official
    columns: Columns[Any] = (
        Column("setting", "setting", lambda f: f.name),
        Column("default", "default", default),
        Column(
            "official",
            "preset official",
            lambda f: repr(official[f.name]) if f.name in official else "",
        ),
    )
    return RecordTable(
        "", columns if official else columns[:2], fields(kind.settings_type)
    )


def _file_rows(file: "TableFacts") -> TableCell:
    """Return the rows of a file; a wrong number is printed in red."""
    if file.expected is None or file.expected == file.rows:
        return TableCell(f"{file.rows:,}")
    note = CellNote(f"{file.expected:,} expected", is_warning=True)
    return TableCell(f"{file.rows:,}", style="bold red", notes=(note,))


FILES: Columns["TableFacts"] = (
    Column("file", "file", lambda f: f.name, term="table"),
    Column("part", "part", lambda f: f.part, term="part"),
    Column("rows", "rows", _file_rows, "r", term="rows"),
    Column(
        "expected",
        "expected",
        lambda f: "-" if f.expected is None else f"{f.expected:,}",
        "r",
    ),
    Column("first", "first row", lambda f: f.first or UNKNOWN, term="first-row"),
    Column("last", "last row", lambda f: f.last or UNKNOWN, term="last-row"),
    Column("gaps", "gaps", lambda f: str(f.gaps), "r", term="gaps"),
    Column("times", "from, to", lambda f: f"{f.first}\n{f.last}", wrap=False),
)


def files_table(audit: "Audit") -> RecordTable["TableFacts"]:
    """Return the files of an audit."""
    times = f"from, to\n({audit.recording.timezone or OWN_CLOCK})"
    columns = pick(FILES, "file", "rows", "expected", "gaps", "times", times=times)
    return RecordTable(f"Audit: {audit.title}", columns, audit.files)


def page_files(facts: "RecordingFacts") -> RecordTable["TableFacts"]:
    """Return the tables of a recording as the page shows them."""
    columns = pick(FILES, "file", "part", "rows", "first", "last", "gaps")
    return RecordTable("Tables", columns, facts.tables)


def review_table(
    rows: "Sequence[ReviewRow]", stream: "ResidualStream"
) -> RecordTable["ReviewRow"]:
    """Return unexplained episodes, as a list to be reviewed."""

    def lasted(row: "ReviewRow") -> str:
        start, end = row.span
        if stream.test_time is None:
            return row_span(end - start + 1, stream.step_s)
        return duration(end - start + (stream.step_s or 0.0))

    columns: Columns[ReviewRow] = (
        Column("start", "Start", lambda r: r.cells["start"]),
        Column("lasted", "Lasted", lasted, "r"),
        Column("peak", "Peak", lambda r: r.cells["peak"], "r"),
        Column("tags", "Tags", lambda r: r.cells["tags"]),
        Column("decision", "Decision", lambda r: r.cells["decision"]),
    )
    return RecordTable("Unexplained episodes", columns, rows)


# ---- what a study, and copies of files, are made of ------------------------------


def cells_table(
    cells: "Sequence[Cell]", is_done: "Callable[[Cell], bool]"
) -> RecordTable["Cell"]:
    """Return the cells of a plan with their keys, and whether each is in the cache."""
    columns: Columns[Cell] = (
        Column("testbed", "testbed", lambda c: c.testbed),
        Column("detector", "detector", lambda c: c.detector),
        Column("seed", "seed", lambda c: str(c.seed)),
        Column("key", "key", lambda c: c.key[:12]),
        Column("done", "done", lambda c: "yes" if is_done(c) else "no"),
    )
    return RecordTable("Cells", columns, cells)


class CopiesPlace(NamedTuple):
    """A folder with copies of files, or the cache of a study: what for, and size."""

    folder: Path
    purpose: str
    n_files: int
    n_bytes: int
    last_used: float | None


COPIES: Columns[CopiesPlace] = (
    Column("place", "place, and what for", lambda c: f"{c.folder}\n{c.purpose}"),
    Column("files", "files", lambda c: str(c.n_files), "r"),
    Column("size", "size", lambda c: size(c.n_bytes), "r"),
    Column(
        "last_used",
        "last used",
        lambda c: (
            UNKNOWN
            if c.last_used is None
            else datetime.fromtimestamp(c.last_used).strftime("%Y-%m-%d %H:%M")
        ),
        "r",
    ),
)
