"""Time stamps that cannot be believed: of clocks that go back, repeat or leap."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints

# A row may be dated this much later than its file was changed: zones are not known.
AHEAD_S: Final = 86_400.0
# No plant writes rows this far ahead of its time.
FAR_S: Final = 10 * 365.25 * 86_400.0
# Rows of two passes of a clock collide within this share of a step. Where more rows
# than this go back in time, a table is in no order, and no clock went back.
_NEAR: Final = 0.5
_MOST_BACK: Final = 0.1


def is_ahead(time: Floats, changed: float) -> Bools:
    """Return which rows lie in the future of their file, and contradict its others.

    They are later than the file was changed, by more than `AHEAD_S`, while all others
    are not; and between the two lies more than that time without any row. Where all
    rows of a file are in its future, its own time is wrong, and none is returned.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds since 1970.
    changed : float
        When the file was changed last.

    Examples
    --------
    >>> is_ahead(np.array([0.0, 60.0, 4e9, 120.0]), 180.0).tolist()
    [False, False, True, False]
    """
    is_late = time > changed + AHEAD_S
    if not is_late.any() or is_late.all():
        return np.zeros(len(time), np.bool_)
    gap = time[is_late].min() - time[~is_late].max()
    return np.asarray(is_late & (gap > AHEAD_S))


@dataclass(frozen=True, kw_only=True, eq=False)
class TimeOrder:
    """The rows of a table in order of time, each stamp once.

    Parameters
    ----------
    rows : array of int
        The rows that are kept; of several with one stamp the last.
    is_doubtful : array of bool
        Which of them have a time that another row has as well, or nearly.
    n_twice : int
        Rows left out because a later one has the same stamp, none of them doubtful.
    is_sorted : bool
        Whether rows were in another order.
    """

    rows: Ints
    is_doubtful: Bools
    n_twice: int
    is_sorted: bool


def in_time_order(
    time: Floats, values: npt.NDArray[np.floating], step_s: float
) -> TimeOrder | None:
    """Return the rows of a table in order of time; None if they are, each stamp once.

    A clock that went back counts some time twice. Nothing says which rows of that time
    are right, so all are doubtful: those with a stamp that another row with other
    values has too, and those nearer than half a step to a row before the clock went
    back. Rows that are only in another order are not; nor are stamps that most rows
    share, as those without seconds.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds of each row, in the order of the table.
    values : array of shape (n_rows, n_tags)
        What they hold; nan where nothing.
    step_s : float
        The usual step.

    Examples
    --------
    >>> time = np.array([0.0, 10.0, 20.0, 30.0, 20.0, 30.0, 40.0])
    >>> order = in_time_order(time, np.arange(7.0)[:, None], 10.0)
    >>> order.rows.tolist(), order.is_doubtful.tolist()
    ([0, 1, 4, 5, 6], [False, False, True, True, False])
    """
    steps = np.diff(time)
    if (steps > 0).all():
        return None
    order = np.argsort(time, kind="stable")
    ordered = time[order]
    is_last = np.append(np.diff(ordered) > 0, True)
    stamp = np.append(0, np.cumsum(is_last[:-1]))
    is_same = ~is_last[:-1]
    differs = np.zeros(len(is_same), np.bool_)
    pairs = np.flatnonzero(is_same)
    one, other = values[order[pairs]], values[order[pairs + 1]]
    differs[pairs] = ~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1)
    if np.median(np.bincount(stamp)) > 1:
        differs[:] = False
    is_back = steps < 0
    if is_back.sum() <= _MOST_BACK * len(time):
        run = np.append(0, np.cumsum(is_back))[order]
        is_near = np.diff(ordered) <= _NEAR * step_s * (1 + 1e-9)
        differs |= is_near & ~is_same & (np.diff(run) != 0)
    doubtful = np.zeros(int(stamp[-1]) + 1, np.bool_)
    doubtful[stamp[:-1][differs]] = doubtful[stamp[1:][differs]] = True
    return TimeOrder(
        rows=np.asarray(order[is_last]),
        is_doubtful=doubtful,
        n_twice=int((~is_last & ~doubtful[stamp]).sum()),
        is_sorted=bool(is_back.any()),
    )
