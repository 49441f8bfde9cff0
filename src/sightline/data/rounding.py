"""Bring the values of train to the resolution of test.

A historian that exported train with nine decimals and test with two gives a detector
two different signals: in train a tag moves by less than the rounding step of test, so
every rounded value of test is a surprise. Train rounded like test removes that.
"""

import numpy as np

from sightline.data.arrays import Floats, Ints

# Values with more decimals than these are taken as not rounded.
MOST_DECIMALS = 9
# A column with fewer different values says little about its decimals: a closed valve
# is 0 in every row, whatever the format.
_FEWEST_VALUES = 10


def decimals_of(values: Floats) -> Ints:
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


def rounded_like(train: Floats, test: Floats) -> tuple[Floats, Ints]:
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
    return rounded, decimals
