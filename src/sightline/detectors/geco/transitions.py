"""Steps from one row to the next: which there are, and which are fitted on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.errors import StreamError

# Rows worked on at a time.
ROWS_AT_ONCE = 2_048


@dataclass(frozen=True, kw_only=True, eq=False)
class Transitions:
    """Rows that have a row before them, in order; the first ones are fitted on.

    Parameters
    ----------
    values : array of shape (n, channels)
        All rows, finite.
    rows : array of shape (n_transitions,)
        Rows that are told, each from the one before it.
    begins : array of shape (n_transitions,)
        Whether a run begins with this one.
    n_fitted : int
        How many are fitted on; the others help to choose.
    """

    values: Floats
    rows: Ints
    begins: Bools
    n_fitted: int

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(
        cls, values: Floats, breaks: Ints | None = None, fit_share: float = 0.8
    ) -> "Transitions":
        """Return the transitions within runs; `breaks` are the runs' first rows."""
        rows, begins = rows_told(len(values), breaks)
        n_fitted = int(fit_share * len(rows))
        if n_fitted < 2:
            raise StreamError(
                f"Train leaves {n_fitted} steps to fit formulas to, and 2 or more are "
                "needed: give a longer recording, or raise `fit_share`."
            )
        return cls(values=values, rows=rows, begins=begins, n_fitted=n_fitted)

    @property
    def n_channels(self) -> int:
        """How many channels a row has."""
        return int(self.values.shape[1])

    def column(self, number: int) -> tuple[Floats, Floats]:
        """Return what a channel was before each transition, and after it."""
        column = np.ascontiguousarray(self.values[:, number])
        return column[self.rows - 1], column[self.rows]

    def chunks(self) -> Iterator[tuple[bool, slice]]:
        """Yield stretches of transitions, and whether they are fitted on."""
        for is_fitted, start, stop in (
            (True, 0, self.n_fitted),
            (False, self.n_fitted, len(self)),
        ):
            for first in range(start, stop, ROWS_AT_ONCE):
                yield is_fitted, slice(first, min(first + ROWS_AT_ONCE, stop))


def rows_told(n_rows: int, breaks: Ints | None = None) -> tuple[Ints, Bools]:
    """Return the rows that have one before them in their run, and where runs begin.

    Examples
    --------
    >>> rows_told(5, np.array([0, 3]))
    (array([1, 2, 4]), array([ True, False,  True]))
    """
    is_told = np.ones(n_rows, np.bool_)
    is_told[0 if breaks is None else breaks] = False
    rows = np.flatnonzero(is_told)
    return rows, ~is_told[rows - 1]
