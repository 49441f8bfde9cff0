"""A wide export: a column a tag, a row a time stamp; short gaps are filled."""

from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Ints, check_labels
from sightline.data.segments import GAP_FACTOR, breaks_from_time
from sightline.errors import FileError, naming
from sightline.testbeds.missing import hold
from sightline.testbeds.own_plant.exports import (
    LABEL,
    NOTHING_LEFT,
    Readings,
    Source,
    check_growth,
    median_step,
    numbers_of,
)


def read_wide(source: Source) -> Readings:
    """Take each column as a tag; short gaps get rows of their own, without values."""
    table, time, place = source.table, source.time, source.place
    label_name = source.names.get(LABEL)
    aside = {source.time_name, label_name, *source.ignored}
    channels = [column for column in table.columns if column not in aside]
    if not channels and source.ignored:
        raise FileError(f"{source.path}: {NOTHING_LEFT}")
    if not channels:
        raise FileError(f"{source.path}: has no column besides time to take as a tag.")
    notices: list[str] = []
    values = np.empty((table.height, len(channels)))
    for k, channel in enumerate(channels):
        values[:, k] = numbers_of(table[channel], source.path, place, notices)
    labels = None
    if label_name is not None:
        with naming(source.path):
            labels = check_labels(_plain(table[label_name]), label_name)
    order = _in_order(time, place, notices)
    if order is not None:
        time, values = time[order], values[order]
        labels = None if labels is None else labels[order]
    hold_s = source.settings.hold_s
    step_s = source.settings.step_s or median_step(time, source.path)
    lost = _lost_rows(time, step_s, hold_s)
    check_growth(len(time) + int(lost.sum()), len(time), source, step_s)
    taken, filled_time = _without_short_gaps(time, lost, step_s)
    n_filled = int((taken < 0).sum())
    if n_filled:
        notices.append(
            f"{place}: {n_filled:,} rows are missing in gaps of up to {hold_s:g} s and "
            "were put in, held at the last values."
        )
        values = np.where((taken < 0)[:, None], np.nan, values[taken])
        if labels is not None:
            before = np.maximum.accumulate(np.where(taken < 0, 0, taken))
            labels = labels[before]
        time = filled_time
    breaks = breaks_from_time(time, step_s)
    values, told = hold(
        values,
        breaks,
        channels=channels,
        step_s=step_s,
        place=place,
        time=time,
        hold_s=hold_s,
    )
    notices.extend(told)
    return Readings(
        channels=tuple(channels),
        values=values,
        time=time,
        breaks=breaks,
        step_s=step_s,
        labels=labels,
        is_utc=source.is_utc,
        notices=tuple(notices),
    )


def _plain(column: Any) -> Any:
    """Return a column as numpy has it; numbers of 128 bits as floats."""
    import polars as pl

    if column.dtype in (pl.Int128, pl.UInt128):
        column = column.cast(pl.Float64)
    return column.to_numpy()


def _in_order(time: Floats, place: str, notices: list[str]) -> Ints | None:
    """Return which rows to take so that time only grows; None if it does already."""
    steps = np.diff(time)
    if (steps > 0).all():
        return None
    order = np.argsort(time, kind="stable")
    # Of rows with one time stamp the last counts.
    is_last = np.append(np.diff(time[order]) > 0, True)
    n_twice = int((~is_last).sum())
    if n_twice:
        notices.append(
            f"{place}: {n_twice:,} rows repeat a time stamp; the last of each counts."
        )
    if (steps < 0).any():
        notices.append(
            f"{place}: rows were not in the order of time and were sorted; if clocks "
            "went back in autumn, state timezone in plant.toml."
        )
    return np.asarray(order[is_last])


def _lost_rows(time: Floats, step_s: float, hold_s: float) -> Ints:
    """Return how many rows lack between each row and the next, in short gaps."""
    steps = np.diff(time)
    is_short = (steps > GAP_FACTOR * step_s) & (steps <= hold_s + step_s)
    return np.where(is_short, np.rint(steps / step_s).astype(np.int64) - 1, 0)


def _without_short_gaps(time: Floats, lost: Ints, step_s: float) -> tuple[Ints, Floats]:
    """Return the row to take for each row of the grid, -1 where one is put in."""
    repeat = np.append(lost + 1, 1)
    taken = np.repeat(np.arange(len(time)), repeat)
    since = np.arange(len(taken)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    return np.where(since > 0, -1, taken), time[taken] + since * step_s
