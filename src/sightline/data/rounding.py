"""Bring the values of train to the resolution of test.

A historian that exported train with nine decimals and test with two gives a detector
two different signals: in train a tag moves by less than the rounding step of test, so
every rounded value of test is a surprise. Train rounded like test removes that.
"""

from dataclasses import replace
from enum import StrEnum

import numpy as np

from sightline.data.arrays import Ints, Residuals
from sightline.data.recording import Recording
from sightline.text import names

# Values with more decimals than these are taken as not rounded.
MOST_DECIMALS = 9
# A column with fewer different values says little about its decimals: a closed valve
# is 0 in every row, whatever the format.
_FEWEST_VALUES = 10
# How many tags a notice names before it counts the rest.
_MOST_NAMES = 4


class TrainDecimals(StrEnum):
    """With how many decimals train is read.

    ``AS_TEST``
        Rounded to the decimals of test, where test has fewer.
    ``RAW``
        As it is in the files.
    """

    AS_TEST = "as-test"
    RAW = "raw"


def decimals_of(values: Residuals) -> Ints:
    """Return how many decimals are needed to write the values of each column.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Values that are not finite do not count.

    Returns
    -------
    array of shape (n_channels,)
        0 for whole numbers and for columns without a finite value;
        ``MOST_DECIMALS + 1`` for values that are not rounded.

    Examples
    --------
    >>> decimals_of(np.array([[1.0, 0.25, 1 / 3], [2.0, 0.5, np.nan]]))
    array([ 0,  2, 10])
    """
    tolerance = 1e-6 if values.dtype == np.float32 else 1e-13
    decimals = np.zeros(values.shape[1], np.int64)
    for k in range(values.shape[1]):
        column = values[:, k].astype(np.float64)
        rest = np.unique(column[np.isfinite(column)])
        while len(rest) and decimals[k] <= MOST_DECIMALS:
            error = np.abs(np.round(rest, int(decimals[k])) - rest)
            rest = rest[error > tolerance * np.abs(rest)]
            decimals[k] += bool(len(rest))
    return decimals


def rounded_like(train: Residuals, test: Residuals) -> tuple[Residuals, Ints]:
    """Return train with the decimals of test, column by column.

    A column with fewer than ten different values in test takes the largest number of
    decimals of all columns of test: it may be a valve that did not move.

    Parameters
    ----------
    train, test : array of shape (n_rows, n_channels)
        The same channels in the same order.

    Returns
    -------
    rounded : array of shape (n_rows, n_channels)
        A copy of `train`, or `train` itself if no column has more decimals than test.
    decimals : array of shape (n_channels,)
        To how many decimals a column was rounded; -1 where it was not.

    Examples
    --------
    >>> train = np.array([[1.23456, 3.0], [1.33333, 4.0]])
    >>> test = np.column_stack([np.arange(20) / 100, np.ones(20)])
    >>> rounded, decimals = rounded_like(train, test)
    >>> rounded, decimals
    (array([[1.23, 3.  ],
            [1.33, 4.  ]]), array([ 2, -1]))
    """
    decimals = decimals_of(test)
    n_different = [len(np.unique(column)) for column in test.T]
    is_short = np.array(n_different, np.int64) < _FEWEST_VALUES
    decimals[is_short] = decimals.max(initial=0)
    is_finer = (decimals_of(train) > decimals) & (decimals <= MOST_DECIMALS)
    decimals = np.where(is_finer, decimals, -1)
    if not is_finer.any():
        return train, decimals
    rounded = train.copy()
    for k in np.flatnonzero(is_finer):
        rounded[:, k] = np.round(train[:, k], int(decimals[k]))
        # Adding zero turns a negative zero into a plain one.
        rounded[:, k] += 0.0
    return rounded, decimals


def train_rounded_like(
    train: Recording, test: Recording
) -> tuple[Recording, tuple[str, ...]]:
    """Return train with the decimals of test, and a notice about it.

    Parameters
    ----------
    train, test : Recording
        Of the same plant.

    Returns
    -------
    rounded : Recording
        `train` itself if there was nothing to round; see `rounded_like`.
    notices : tuple of str
        One sentence: how many tags were rounded, and in which of them train varies
        by less than the last decimal of test. Empty if there was nothing to round.

    Examples
    --------
    >>> from sightline.data.recording import Tag
    >>> tags = [Tag(name="P_J280")]
    >>> train = Recording(values=[[2.974052906], [2.983], [2.961]], tags=tags)
    >>> test = Recording(values=[[2.97], [2.98], [2.96]], tags=tags)
    >>> rounded, notices = train_rounded_like(train, test)
    >>> notices[0][:60]
    '1 of 1 tags of train was rounded to the 2 decimals of test, '
    """
    values, decimals = rounded_like(train.values, test.values)
    columns = {k: d for k, d in enumerate(decimals.tolist()) if d >= 0}
    if not columns:
        return train, ()
    spreads = {k: float(np.nanstd(train.values[:, k])) for k in columns}
    narrow = [
        f"{train.channels[k]} (standard deviation {spreads[k]:.2g})"
        for k, digits in columns.items()
        if spreads[k] < 10.0**-digits
    ]
    coarse = "; train varies by less than the last of them in "
    coarse += names(narrow, _MOST_NAMES)
    notice = (
        f"{len(columns)} of {len(decimals)} tags of train "
        f"{'was' if len(columns) == 1 else 'were'} rounded to the "
        f"{' or '.join(map(str, sorted(set(columns.values()))))} decimals of test, so "
        "that a detector does not take the rounding of test for deviations"
        f"{coarse if narrow else ''}: read train as it is with "
        f"train_decimals='{TrainDecimals.RAW}'."
    )
    return replace(train, values=values), (notice,)
