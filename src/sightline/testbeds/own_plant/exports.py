"""What wide and long exports of a historian have in common."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Ints, Labels
from sightline.data.recording import stamp
from sightline.errors import FileError
from sightline.testbeds.base import listed
from sightline.testbeds.missing import HOLD_S

LABEL = "label"
# A grid may have so many times the rows of the table it is made of.
_MOST_GROWTH = 1000
NOTHING_LEFT = "tags.csv leaves no tag of it, for the role of all is ignore."


@dataclass(frozen=True, kw_only=True)
class PlantSettings:
    """What `plant.toml` may say."""

    timezone: str | None = None
    time_format: str | None = None
    step_s: float | None = None
    hold_s: float = HOLD_S


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A table as it came: its columns by lower-case name, and its time."""

    table: Any
    names: dict[str, str]
    time: Floats
    is_utc: bool
    path: Path
    place: str
    settings: PlantSettings
    ignored: frozenset[str]
    time_name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """A table in even steps of time: nan where nothing was read within the limit."""

    channels: tuple[str, ...]
    values: Floats
    time: Floats
    breaks: Ints
    step_s: float
    labels: Labels | None
    is_utc: bool
    notices: tuple[str, ...]


def numbers_of(column: Any, path: Path, place: str, notices: list[str]) -> Floats:
    """Return a column as numbers; what is text is missing, and told."""
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
    elif column.dtype == pl.String:
        stripped = column.str.strip_chars()
        numbers = stripped.cast(pl.Float64, strict=False)
        texts = stripped.filter(numbers.is_null() & (stripped != "").fill_null(False))
        if len(texts):
            counted = texts.value_counts(sort=True).rows()
            said = [f"{text!r:.40} {count:,} times" for text, count in counted]
            notices.append(
                f"{place}: {column.name} holds text, taken as missing: {listed(said)}."
            )
    else:
        numbers = pl.Series(column.name, [None] * len(column), pl.Float64)
    if numbers.null_count() == len(numbers):
        raise FileError(
            f"{path}: column {column.name!r} holds no number at all: take it out of "
            "the table, or give it the role ignore in tags.csv."
        )
    return np.asarray(numbers.fill_null(float("nan")).to_numpy(), np.float64)


def median_step(time: Floats, path: Path) -> float:
    """Return the usual step between time stamps, in seconds."""
    steps = np.diff(time)
    steps = steps[steps > 0]
    if not len(steps):
        raise FileError(
            f"{path}: has no two different time stamps, so that no step is known."
        )
    return float(np.median(steps))


def check_growth(n_rows: int, n_before: int, source: Source, step_s: float) -> None:
    """Refuse a grid that is mostly made up: a stray stamp, or too small a step."""
    if n_rows > _MOST_GROWTH * n_before + 1_000_000:
        first, last = (
            stamp(float(at)) for at in (source.time.min(), source.time.max())
        )
        raise FileError(
            f"{source.path}: rows each {step_s:g} s from {first} to {last} would be "
            f"{n_rows:,} where it has {n_before:,} time stamps: state a larger step_s "
            "in plant.toml, or take out a time stamp that is far off."
        )
