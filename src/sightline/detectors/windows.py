"""Windows over a recording that never cross a gap, as views and not as copies."""

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Ints

Matrix = npt.NDArray[np.floating]


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Stretches of `length` rows; each gives a residual for its last row.

    Parameters
    ----------
    values : array of shape (n, channels)
        The rows they are cut from.
    length : int
        Rows in a window.
    starts : array of shape (n_windows,)
        First row of each.
    steps : array of shape (n_windows,)
        Row of the recording that each one gives a residual for.
    is_warm_up : array of shape (n_windows,)
        Those that begin with repeated rows, because the run has no earlier ones.
    """

    values: Matrix
    length: int
    starts: Ints
    steps: Ints
    is_warm_up: Bools

    def __len__(self) -> int:
        return len(self.starts)


def forecast_windows(values: Matrix, breaks: Ints, length: int) -> Windows:
    """Return every stretch of `length` rows that lies within one run.

    Parameters
    ----------
    values : array of shape (n, channels)
        Rows.
    breaks : array of int
        First row of each run.
    length : int
        Rows in a window.

    Examples
    --------
    >>> windows = forecast_windows(np.zeros((7, 1)), np.array([0, 4]), 3)
    >>> windows.starts, windows.steps
    (array([0, 1, 4]), array([2, 3, 6]))
    """
    stops = np.append(breaks[1:], len(values))
    starts = np.concatenate(
        [
            np.arange(start, stop - length + 1)
            for start, stop in zip(breaks, stops, strict=True)
        ]
        or [np.empty(0, np.int64)]
    ).astype(np.int64)
    return Windows(
        values=values,
        length=length,
        starts=starts,
        steps=starts + length - 1,
        is_warm_up=np.zeros(len(starts), np.bool_),
    )


def padded_windows(
    values: Matrix, breaks: Ints, length: int, *, ahead: int = 0
) -> Windows:
    """Return a window for every row; the first ones of a run repeat its first row.

    Parameters
    ----------
    values, breaks, length
        As for `forecast_windows`.
    ahead : {0, 1}
        With 1 the window of a row ends one row before it, as in some published code.
    """
    stops = np.append(breaks[1:], len(values))
    pad = length - 1 + ahead
    before = np.arange(len(breaks)) * pad
    taken = np.concatenate(
        [
            np.concatenate([np.full(pad, start), np.arange(start, stop)])
            for start, stop in zip(breaks, stops, strict=True)
        ]
    )
    run = np.searchsorted(breaks, np.arange(len(values)), side="right") - 1
    rows = np.arange(len(values))
    return Windows(
        values=values[taken],
        length=length,
        starts=rows + before[run],
        steps=rows,
        is_warm_up=rows - breaks[run] < pad,
    )


def held_out_block(n_windows: int, share: float, seed: int) -> slice:
    """Return the windows of the held-out block: one stretch, its place drawn.

    GDN's rule: the length is the share rounded down, the first window the first draw
    of Python's generator after seeding.

    Parameters
    ----------
    n_windows : int
        Windows in train.
    share : float
        Share to hold out, 0 or more and less than 1; 0 gives an empty slice.
    seed : int
        Of the draw.

    Examples
    --------
    >>> held_out_block(47_515, 0.2, 5)
    slice(16740, 26243, None)
    """
    length = int(n_windows * share)
    if not length:
        return slice(0, 0)
    start = random.Random(seed).randrange(max(1, int(n_windows * (1 - share))))
    return slice(start, start + length)
