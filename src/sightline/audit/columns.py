"""What one column holds: range, spread, resolution, missing cells, an outline."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sightline.audit.record import TagSummary
from sightline.data.arrays import Bools, Floats

# Columns that are copied at a time: a column of a wide table is slow to read alone.
_COLUMNS_AT_ONCE = 16
# Values of a tag that are sorted at most; of more, evenly spaced ones.
MOST_SORTED = 10_000
# Stretches of the outline of a tag.
STRETCHES = 60
# Differences below this many units of rounding are no difference.
_ROUNDING_UNITS = 8


def columns_of(
    values: npt.NDArray[np.floating],
) -> Iterator[npt.NDArray[np.floating]]:
    """Yield each column of a table, contiguous in memory, in their order."""
    for first in range(0, values.shape[1], _COLUMNS_AT_ONCE):
        yield from np.ascontiguousarray(values[:, first : first + _COLUMNS_AT_ONCE].T)


def thinned(column: npt.NDArray[np.floating]) -> Floats:
    """Return the finite ones of at most `MOST_SORTED` evenly spaced values, sorted."""
    chosen = column[:: -(-len(column) // MOST_SORTED) or 1]
    return np.sort(chosen[np.isfinite(chosen)]).astype(np.float64)


def smallest_step(ordered: Floats, dtype: npt.DTypeLike = np.float64) -> float | None:
    """Return the smallest step between two different values; None if there is none.

    Parameters
    ----------
    ordered : array
        Finite values, ascending.
    dtype : dtype
        The type the values were stored in: smaller differences than a few units of its
        rounding do not count.

    Examples
    --------
    >>> smallest_step(np.array([1.0, 1.0, 1.25, 1.75]))
    0.25
    """
    steps = np.diff(ordered)
    if not len(steps):
        return None
    largest = max(abs(ordered[0]), abs(ordered[-1]))
    steps = steps[steps > _ROUNDING_UNITS * float(np.finfo(dtype).eps) * largest]
    return float(steps.min()) if len(steps) else None


def summary_of(column: npt.NDArray[np.floating]) -> TagSummary:
    """Return range, spread, resolution, missing cells and outline of one column."""
    is_finite = np.isfinite(column)
    n_finite = int(is_finite.sum())
    if not n_finite:
        return TagSummary(
            lowest=None,
            highest=None,
            spread=None,
            resolution=None,
            missing=1.0 if len(column) else 0.0,
        )
    finite = column if n_finite == len(column) else column[is_finite]
    lowest, highest = float(finite.min()), float(finite.max())
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.std(finite, dtype=np.float64))
    return TagSummary(
        lowest=lowest,
        highest=highest,
        spread=spread if np.isfinite(spread) else None,
        resolution=smallest_step(thinned(column), column.dtype),
        missing=1 - n_finite / len(column),
        outline=_outline(column, is_finite, lowest, highest),
    )


def _outline(
    column: npt.NDArray[np.floating], is_finite: Bools, lowest: float, highest: float
) -> tuple[tuple[float, float], ...]:
    """Return the lowest and highest value of each stretch, to a 1000th of the range.

    A stretch without a finite value is left out.
    """
    starts = np.unique(np.linspace(0, len(column), STRETCHES + 1)[:-1].astype(np.int64))
    low = np.minimum.reduceat(np.where(is_finite, column, np.inf), starts)
    high = np.maximum.reduceat(np.where(is_finite, column, -np.inf), starts)
    span = highest - lowest
    digits = 3 - int(np.floor(np.log10(span))) if 0 < span < np.inf else 6
    return tuple(
        (round(a, digits), round(b, digits))
        for a, b in zip(low.tolist(), high.tolist(), strict=True)
        if a <= b
    )
