"""Channels brought to a common scale, by statistics of train alone."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.data.filling import forward_fill

# What is done to a channel that never changes in train, so that it has no range:
# "unit": its one value is taken off; "ratio": divided by it (all-zero channels stay);
# "epsilon": as any other, divided by the little that is added to every range; "keep":
# nothing.
Constants = Literal["unit", "ratio", "epsilon", "keep"]
Matrix = npt.NDArray[np.floating]
# Rows scaled at a time, so that no second copy of a long recording is made.
_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """Scaled = (value - offset) / scale, channel by channel."""

    offset: Floats
    scale: Floats

    def apply(
        self, values: Matrix, dtype: type[np.floating], clip: tuple[float, float] | None
    ) -> Matrix:
        """Return scaled values."""
        scaled = np.empty(values.shape, dtype)
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            # What is too large for the precision becomes infinite, and is told later.
            with np.errstate(over="ignore"):
                scaled[rows] = (values[rows] - self.offset) / self.scale
        return scaled if clip is None else np.clip(scaled, *clip, out=scaled)


def fit_scaling(
    values: Matrix, *, epsilon: float = 0.0, constants: Constants = "unit"
) -> Scaling:
    """Return the scaling that brings each channel's range to 0 ... 1.

    Examples
    --------
    >>> scaling = fit_scaling(np.array([[1.0, 7.0], [3.0, 7.0]]))
    >>> scaling.offset, scaling.scale
    (array([1., 7.]), array([2., 1.]))
    """
    low = values.min(axis=0).astype(np.float64)
    high = values.max(axis=0).astype(np.float64)
    is_constant = low == high
    offset, scale = low, high - low + epsilon
    if constants == "unit":
        scale = np.where(is_constant, 1.0, scale)
    elif constants == "ratio":
        offset = np.where(is_constant, 0.0, offset)
        scale = np.where(is_constant, np.where(low == 0, 1.0, low), scale)
    elif constants == "keep":
        offset = np.where(is_constant, 0.0, offset)
        scale = np.where(is_constant, 1.0, scale)
    return Scaling(offset=offset, scale=scale)


def fill_missing(
    values: Matrix, breaks: npt.NDArray[np.int64], instead: Floats
) -> tuple[Matrix, int]:
    """Return values without gaps, and how many cells were filled.

    A cell takes the last value before it in its run; where there is none, the value
    given instead. What comes later is never looked at.
    """
    is_missing = ~np.isfinite(values)
    n_missing = int(is_missing.sum())
    if not n_missing:
        return values, 0
    filled, _ = forward_fill(values, breaks, is_missing=is_missing)
    without = ~np.isfinite(filled)
    filled[without] = np.broadcast_to(instead, filled.shape)[without]
    return filled, n_missing


def means_of(values: Matrix) -> Floats:
    """Return each channel's mean over what is known of it; 0 where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0, dtype=np.float64)
    mean = np.where(count > 0, total / np.maximum(count, 1), 0.0)
    # Rounding must not make a constant channel vary where its mean stands in.
    low = np.where(known, values, np.inf).min(axis=0)
    high = np.where(known, values, -np.inf).max(axis=0)
    return np.where(count > 0, np.clip(mean, low, high), 0.0)
