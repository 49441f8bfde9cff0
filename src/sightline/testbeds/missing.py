"""Cells without a number: held at the last one within a limit, counted and told."""

from collections.abc import Sequence

import numpy as np

from sightline.checks import Floats, Ints
from sightline.recording import Tag
from sightline.testbeds.base import listed

# How long a reading is taken to stand when no other follows it.
HOLD_S = 60.0


def held(values: Floats, breaks: Ints, most_rows: int) -> tuple[Floats, Ints]:
    """Return values with nan replaced by the last number, at most so many rows on.

    Nothing is held across a break, and nothing is taken from later rows. Also returns
    how many cells of each channel were held.

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
    run_start = breaks[np.searchsorted(breaks, rows, side="right") - 1]
    for k in holed:
        last_known = np.maximum.accumulate(np.where(is_missing[:, k], -1, rows))
        is_held = (
            is_missing[:, k]
            & (last_known >= run_start)
            & (rows - last_known <= most_rows)
        )
        filled[is_held, k] = values[last_known[is_held], k]
        counts[k] = is_held.sum()
    return filled, counts


def hold(
    values: Floats,
    breaks: Ints,
    *,
    tags: Sequence[Tag],
    step_s: float,
    place: str,
    hold_s: float = HOLD_S,
) -> tuple[Floats, list[str]]:
    """Return values held for up to `hold_s` seconds, and a sentence on what was."""
    filled, counts = held(values, breaks, int(hold_s / step_s))
    told = []
    if counts.any():
        names = [
            f"{tags[k].name} ({counts[k]:,})" for k in np.flatnonzero(counts).tolist()
        ]
        told.append(
            f"{place}: {int(counts.sum()):,} missing cells were held at the last value "
            f"for up to {hold_s:g} s: {listed(names)}."
        )
    left = np.isnan(filled).sum(axis=0)
    if left.any():
        names = [f"{tags[k].name} ({left[k]:,})" for k in np.flatnonzero(left).tolist()]
        told.append(
            f"{place}: {int(left.sum()):,} cells have no number, for more than "
            f"{hold_s:g} s had passed since the last: {listed(names)}."
        )
    return filled, told
