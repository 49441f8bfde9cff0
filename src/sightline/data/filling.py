"""Filling: a missing cell takes the last value, a gap of rows takes the last row."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints

Values = TypeVar("Values", bound=npt.NDArray[np.floating])


def forward_fill(
    values: Values,
    breaks: Ints,
    *,
    is_missing: Bools | None = None,
    most_rows: float = np.inf,
    clock: Floats | None = None,
) -> tuple[Values, Ints]:
    """Replace missing cells by the last value of their channel in the same run.

    Nothing is carried across a break, and nothing is taken from later rows. A cell
    with no value before it, or with one that is too old, stays as it is.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Not changed; returned itself where nothing is missing.
    breaks : array of int
        First row of each continuous run, beginning with 0.
    is_missing : array of shape (n_rows, n_channels), optional
        Which cells to fill; by default those that are nan.
    most_rows : float
        The largest age of a value that is carried on, in rows.
    clock : array of shape (n_rows,), optional
        The time of each row in units of a row, where rows are not evenly spaced.

    Returns
    -------
    filled : array of shape (n_rows, n_channels)
        Of the type of `values`.
    counts : array of shape (n_channels,)
        How many cells of each channel were filled.

    Examples
    --------
    >>> values = np.array([[np.nan], [1.0], [np.nan], [np.nan], [2.0]])
    >>> filled, counts = forward_fill(values, np.array([0]), most_rows=1)
    >>> filled.ravel(), counts
    (array([nan,  1.,  1., nan,  2.]), array([1]))
    """
    counts = np.zeros(values.shape[1], np.int64)
    is_missing = np.isnan(values) if is_missing is None else is_missing
    columns = np.flatnonzero(is_missing.any(axis=0))
    if not len(columns):
        return values, counts
    filled = values.copy()
    rows = np.arange(len(values))
    clock = rows.astype(np.float64) if clock is None else clock
    run_start = breaks[np.searchsorted(breaks, rows, side="right") - 1]
    for k in columns:
        last = np.maximum.accumulate(np.where(is_missing[:, k], -1, rows))
        is_filled = (
            is_missing[:, k]
            & (last >= run_start)
            & (clock - clock[last] <= most_rows + 1e-6)
        )
        filled[is_filled, k] = values[last[is_filled], k]
        counts[k] = is_filled.sum()
    return filled, counts


def expanded_rows(lost: Ints) -> tuple[Ints, Ints]:
    """Return the rows of a table whose gaps are filled with the row before them.

    Parameters
    ----------
    lost : array of shape (n_rows - 1,)
        How many rows are missing between each row and the next.

    Returns
    -------
    row : array of int
        For each row of the filled table, the row of the table it repeats.
    since : array of int
        How many steps after that row it lies; 0 for the row itself.

    Examples
    --------
    >>> expanded_rows(np.array([0, 2]))
    (array([0, 1, 1, 1, 2]), array([0, 0, 1, 2, 0]))
    """
    repeat = np.append(lost + 1, 1)
    row = np.repeat(np.arange(len(repeat)), repeat)
    since = np.arange(len(row)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    return row, since
