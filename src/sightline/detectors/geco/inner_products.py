"""Channels centred and scaled, and the inner products of all that is told.

Columns are centred by their means over the rows fitted on, so that the offset falls
out of the normal equations, and scaled, so that channels of any unit can be compared
with rounding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.detectors.geco.transitions import Transitions

# Prepared rows are kept in memory up to this many bytes, else made anew each time.
_MOST_KEPT_BYTES = 400_000_000


@dataclass(frozen=True, eq=False)
class Stretch:
    """A stretch of rows as the search takes it.

    `told` has own lags and changes of the targets, centred and scaled, and ones;
    `factors` the channels as products take them, one in a row.
    """

    is_fitted: bool
    told: npt.NDArray[np.floating]
    factors: npt.NDArray[np.floating]


class InnerProducts:
    """Own lags and changes of all targets: their scales and inner products.

    Parameters
    ----------
    transitions : Transitions
        What is to be told, and from what.
    precision : {"float64", "float32"}
        Of the stretches that products are made from.

    Attributes
    ----------
    targets, factors : array
        Channels that are searched a formula for, and that products may have.
    size, means : array
        By channel: the largest value, and the mean as products see it.
    reach : array of shape (2, n_channels)
        What own lags and changes were divided by.
    gram : array of shape (2, width, width)
        Inner products over the rows fitted on, and over the others: of all own lags,
        then all changes, then ones.
    """

    def __init__(self, transitions: Transitions, precision: str) -> None:
        self.transitions, self.precision = transitions, precision
        self._look()
        self._gather()

    def _look(self) -> None:
        """Find means, sizes, and what moves; two passes, for means come first."""
        values, rows = self.transitions.values, self.transitions.rows
        n_fitted, n_channels = self.transitions.n_fitted, self.transitions.n_channels
        first = values[rows[0] - 1], values[rows[0]] - values[rows[0] - 1]
        # Sums about a row of its own: a constant channel's are exactly 0.
        total, reach = np.zeros((2, n_channels)), np.zeros((2, n_channels))
        size, moves = np.zeros(n_channels), np.zeros(n_channels, np.bool_)
        for is_fitted, chunk in self.transitions.chunks():
            before = values[rows[chunk] - 1]
            np.maximum(size, np.abs(before).max(axis=0), out=size)
            moves |= (before != first[0]).any(axis=0)
            if is_fitted:
                change = values[rows[chunk]] - before
                for k, columns in enumerate((before, change)):
                    apart = columns - first[k]
                    total[k] += apart.sum(axis=0)
                    np.maximum(reach[k], np.abs(apart).max(axis=0), out=reach[k])
        self._origin, self._offset = np.stack(first), total / n_fitted
        # A channel without a place in any product: constant in all of train.
        self.factors = np.flatnonzero(moves)
        self.size = np.where(size > 0, size, 1.0)
        # Constant where it is fitted: no own lag to tell from the offset.
        self.targets = np.flatnonzero(reach[0] > 0)
        self.means = (self._origin[0] + self._offset[0]) / self.size
        self.reach = np.where(reach > 0, reach, 1.0)

    def _gather(self) -> None:
        """Take the inner products of all that is told, on both parts of the rows."""
        width = 2 * len(self.targets) + 1
        self.gram = np.zeros((2, width, width))
        for is_fitted, chunk in self.transitions.chunks():
            told = self._told(chunk)
            self.gram[0 if is_fitted else 1] += told.T @ told

    def _told(self, chunk: slice) -> Floats:
        """Return own lags, changes and ones of some transitions."""
        values, rows = self.transitions.values, self.transitions.rows[chunk]
        m = len(self.targets)
        before = values[rows - 1][:, self.targets]
        change = values[rows][:, self.targets] - before
        told = np.empty((len(rows), 2 * m + 1))
        for k, columns in enumerate((before, change)):
            part = told[:, k * m : (k + 1) * m]
            np.subtract(columns, self._origin[k, self.targets], out=part)
            part -= self._offset[k, self.targets]
            part /= self.reach[k, self.targets]
        told[:, -1] = 1.0
        return told

    def stretches(self) -> Iterator[Stretch]:
        """Yield all rows as products are made from them."""
        dtype = np.dtype(self.precision)
        values, rows = self.transitions.values, self.transitions.rows
        for is_fitted, chunk in self.transitions.chunks():
            before = values[rows[chunk] - 1][:, self.factors]
            scaled = (before / self.size[self.factors]).T
            yield Stretch(
                is_fitted,
                self._told(chunk).astype(dtype, copy=False),
                np.ascontiguousarray(scaled, dtype),
            )

    def kept_stretches(self) -> list[Stretch] | None:
        """Return all of `stretches` at once, or none if they take too much memory."""
        width = 2 * len(self.targets) + len(self.factors) + 1
        n_bytes = len(self.transitions) * width * np.dtype(self.precision).itemsize
        return list(self.stretches()) if n_bytes <= _MOST_KEPT_BYTES else None
