"""Cells without a number: held at the last one within a limit, counted and told."""

from collections.abc import Sequence

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.testbeds.base import listed

# How long a reading is taken to stand when no other follows it.
HOLD_S = 60.0


def held(
    values: Floats, breaks: Ints, most_rows: float, *, clock: Floats | None = None
) -> tuple[Floats, Ints]:
    """Return values with nan replaced by the last number, at most so many rows on.

    Rows are counted by `clock` where they are not evenly spaced in time. Nothing is
    held across a break, and nothing is taken from later rows. Also returns how many
    cells of each channel were held.

    Examples
    --------
    >>> values = np.array([[np.nan], [1.0], [np.nan], [np.nan], [2.0]])
    >>> filled, counts = held(values, np.array([0]), most_rows=1)
    >>> filled.ravel(), counts
    (array([nan,  1.,  1., nan,  2.]), array([1]))
    """
    counts = np.zeros(values.shape[1], np.int64)
    is_missing = np.isnan(values)
    holed = np.flatnonzero(is_missing.any(axis=0))
    if not len(holed):
        return values, counts
    filled = values.copy()
    rows = np.arange(len(values))
    clock = rows.astype(np.float64) if clock is None else clock
    run_start = breaks[np.searchsorted(breaks, rows, side="right") - 1]
    for k in holed:
        last_known = np.maximum.accumulate(np.where(is_missing[:, k], -1, rows))
        is_held = (
            is_missing[:, k]
            & (last_known >= run_start)
            & (clock - clock[last_known] <= most_rows + 1e-6)
        )
        filled[is_held, k] = values[last_known[is_held], k]
        counts[k] = is_held.sum()
    return filled, counts


def hold(
    values: Floats,
    breaks: Ints,
    *,
    channels: Sequence[str],
    step_s: float,
    place: str,
    time: Floats | None = None,
    hold_s: float = HOLD_S,
) -> tuple[Floats, list[str]]:
    """Return values held for up to `hold_s` seconds, and sentences on what was."""
    clock = None if time is None else time / step_s
    filled, counts = held(values, breaks, hold_s / step_s, clock=clock)
    told = []
    if counts.any():
        told.append(
            f"{place}: {int(counts.sum()):,} missing cells were held at the last value "
            f"for up to {hold_s:g} s: {counted(counts, channels)}."
        )
    return filled, told + left_open(filled, channels, place, hold_s)


def left_open(
    values: Floats, channels: Sequence[str], place: str, hold_s: float
) -> list[str]:
    """Return a sentence on cells that could not be held, if there are any."""
    counts = np.isnan(values).sum(axis=0)
    if not counts.any():
        return []
    return [
        f"{place}: {int(counts.sum()):,} cells have no number, for more than "
        f"{hold_s:g} s had passed since the last: {counted(counts, channels)}."
    ]


def counted(counts: Ints, channels: Sequence[str]) -> str:
    """Return channels with their counts, those without one left out."""
    return listed(
        [f"{channels[k]} ({counts[k]:,})" for k in np.flatnonzero(counts).tolist()]
    )
