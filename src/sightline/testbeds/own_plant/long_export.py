"""A long export: one row a reading, put on an even grid of time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.segments import breaks_from_time
from sightline.errors import FileError
from sightline.testbeds.base import listed
from sightline.testbeds.missing import counted, left_open
from sightline.testbeds.own_plant.exports import (
    LABEL,
    NOTHING_LEFT,
    Readings,
    Source,
    check_growth,
    median_step,
    numbers_of,
)

_GOOD = ("good", "ok", "valid", "true")
# OPC: the two highest of eight bits say good.
_OPC_GOOD = 192


def read_long(source: Source, tag_name: str) -> Readings:
    """Put each tag's readings on one grid: the last one at or before each step."""
    table, names, time, place = source.table, source.names, source.time, source.place
    notices = _not_read(source, tag_name)
    values = numbers_of(table[names["value"]], source.path, place, notices)
    if "quality" in names:
        is_bad = _bad_quality(table[names["quality"]], place, notices)
        values = np.where(is_bad, np.nan, values)
    channels, parts = _by_tag(table[tag_name], time, ~np.isnan(values), source)
    step_s, hold_s = source.settings.step_s, source.settings.hold_s
    if step_s is None:
        step_s = median_step(np.unique(time), source.path)
        notices.append(
            f"{source.place}: one row each {step_s:g} s was made of it, the usual step "
            "between its readings; state another with step_s in plant.toml."
        )
    # The last step is at or after the last reading, which would be lost otherwise.
    n_steps = int(np.ceil((time.max() - time.min()) / step_s - 1e-6)) + 1
    check_growth(n_steps, len(np.unique(time)), source, step_s)
    grid = time.min() + step_s * np.arange(n_steps)
    placed = np.full((n_steps, len(channels)), np.nan)
    counts = np.zeros((len(channels), 2), np.int64)
    for k, mine in enumerate(parts):
        placed[:, k], *counts[k] = _on_grid(
            time[mine], values[mine], grid, step_s=step_s, hold_s=hold_s
        )
    notices += _told_of_grid(counts, channels, place, hold_s)
    made = _without_empty(
        Readings(
            channels=tuple(channels),
            values=placed,
            time=grid,
            breaks=np.zeros(1, np.int64),
            step_s=step_s,
            labels=None,
            is_utc=source.is_utc,
            notices=tuple(notices),
        ),
        place,
    )
    open_still = left_open(made.values, channels, place, hold_s)
    return replace(made, notices=(*made.notices, *open_still))


def _not_read(source: Source, tag_name: str) -> list[str]:
    """Tell of columns of a long table that nobody asked for."""
    known = {tag_name, source.time_name}
    known |= {
        source.names[name] for name in ("value", "quality") if name in source.names
    }
    others = [column for column in source.table.columns if column not in known]
    if not others:
        return []
    return [
        f"{source.place}: {listed(others)} is no part of a reading and is not read."
    ]


def _by_tag(
    tags: Any, time: Floats, is_read: Bools, source: Source
) -> tuple[list[str], list[Ints]]:
    """Return the tags, and for each its good readings in the order of time."""
    all_tags = sorted(set(tags))
    if LABEL in (tag.lower() for tag in all_tags):
        raise FileError(
            f"{source.path}: has a tag called {LABEL!r}: labels of a long table "
            "belong into attacks.csv, or a detector would learn them."
        )
    codes = tags.rank("dense").to_numpy() - 1
    order = np.lexsort((np.arange(len(time)), time, codes))
    order = order[is_read[order]]
    bounds = np.searchsorted(codes[order], np.arange(len(all_tags) + 1))
    kept = [k for k, tag in enumerate(all_tags) if tag not in source.ignored]
    if not kept:
        raise FileError(f"{source.path}: {NOTHING_LEFT}")
    return (
        [all_tags[k] for k in kept],
        [order[bounds[k] : bounds[k + 1]] for k in kept],
    )


def _on_grid(
    time: Floats, values: Floats, grid: Floats, *, step_s: float, hold_s: float
) -> tuple[Floats, int, int]:
    """Return a tag's value at each step, how many were held, how many passed over."""
    placed = np.full(len(grid), np.nan)
    if not len(time):
        return placed, 0, 0
    # A millionth of a second for what a float cannot hold.
    last = np.searchsorted(time, grid + 1e-6, side="right") - 1
    age = np.where(last >= 0, grid - time[last], np.inf)
    # A reading since the last step is the step's own; an older one is held.
    is_own = age < step_s - 1e-6
    is_fresh = is_own | (age <= hold_s + 1e-6)
    placed[is_fresh] = values[last[is_fresh]]
    n_passed = len(time) - len(np.unique(last[is_own]))
    return placed, int((is_fresh & ~is_own).sum()), n_passed


def _told_of_grid(
    counts: Ints, channels: Sequence[str], place: str, hold_s: float
) -> list[str]:
    held, passed = counts.T
    told = []
    if held.any():
        told.append(
            f"{place}: {int(held.sum()):,} cells without a reading of their own were "
            f"held at the last value for up to {hold_s:g} s: "
            f"{counted(held, channels)}."
        )
    if passed.any():
        told.append(
            f"{place}: {int(passed.sum()):,} readings were passed over for a later one "
            f"of the same step: {counted(passed, channels)}."
        )
    return told


def _without_empty(readings: Readings, place: str) -> Readings:
    """Leave out rows in which no tag has a value: the historian was down."""
    is_read = ~np.isnan(readings.values).all(axis=1)
    if not is_read.any():
        raise FileError(f"{place}: has no reading of good quality.")
    if is_read.all():
        return readings
    time = readings.time[is_read]
    lost = int((~is_read).sum())
    return replace(
        readings,
        values=readings.values[is_read],
        time=time,
        breaks=breaks_from_time(time, readings.step_s),
        notices=(
            *readings.notices,
            f"{place}: {lost:,} rows in which no tag had a value were left out.",
        ),
    )


def _bad_quality(column: Any, place: str, notices: list[str]) -> Any:
    """Return which readings are bad: by OPC code, by 1 and 0, or by word."""
    import polars as pl

    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    texts = texts.replace("", None)
    codes = texts.cast(pl.Float64, strict=False)
    if codes.null_count() == texts.null_count() < len(texts):
        is_flag = bool(codes.drop_nulls().is_in([0.0, 1.0]).all())
        # Nothing said is nothing good.
        numbers = codes.fill_null(0.0).to_numpy()
        is_bad = numbers < (1 if is_flag else _OPC_GOOD)
        good = "1 is good" if is_flag else "192 and more is good (OPC)"
    else:
        is_bad = ~texts.is_in(list(_GOOD)).fill_null(False).to_numpy()
        good = "'Good' is good"
    if is_bad.any():
        notices.append(
            f"{place}: {int(is_bad.sum()):,} of {len(is_bad):,} readings are of bad "
            f"quality ({good}) and taken as missing."
        )
    return is_bad
