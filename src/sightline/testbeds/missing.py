"""Cells without a number: held at the last one within a limit, counted and told."""

from collections.abc import Sequence

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.data.filling import forward_fill
from sightline.testbeds.base import listed

# How long a reading is taken to stand when no other follows it.
HOLD_S = 60.0


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
    filled, counts = forward_fill(
        values, breaks, most_rows=hold_s / step_s, clock=clock
    )
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
