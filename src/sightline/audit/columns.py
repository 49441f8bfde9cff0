"""What the columns of a table hold, and which rows two tables share.

Shared rows are found by a rolling hash of windows of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.audit.record import TagSummary
from sightline.data.arrays import Floats
from sightline.data.recording import Recording
from sightline.data.segments import run_bounds

# Columns that are copied at a time: a column of a wide table is slow to read alone.
_COLUMNS_AT_ONCE = 16
# Values of a tag that are sorted at most; of more, evenly spaced ones.
MOST_SORTED = 10_000
# Windows of the outline of a tag.
OUTLINE_WINDOWS = 60
# Differences below this many units of rounding are no difference.
_ROUNDING_UNITS = 8
# Shorter equal stretches of train and test occur by chance, while a plant stands still.
LEAST_ROWS = 60
# A stretch with fewer different rows is a plant at rest, not a copy.
LEAST_DIFFERENT = 10
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
Hashes = npt.NDArray[np.uint64]


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
    # The lowest and highest value of each window, to a 1000th of the range; a window
    # without a finite value is left out.
    edges = np.linspace(0, len(column), OUTLINE_WINDOWS + 1)
    starts = np.unique(edges[:-1].astype(np.int64))
    low = np.minimum.reduceat(np.where(is_finite, column, np.inf), starts)
    high = np.maximum.reduceat(np.where(is_finite, column, -np.inf), starts)
    span = highest - lowest
    digits = 3 - int(np.floor(np.log10(span))) if 0 < span < np.inf else 6
    return TagSummary(
        lowest=lowest,
        highest=highest,
        spread=spread if np.isfinite(spread) else None,
        resolution=smallest_step(thinned(column), column.dtype),
        missing=1 - n_finite / len(column),
        outline=tuple(
            (round(a, digits), round(b, digits))
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
            if a <= b
        ),
    )


@dataclass(frozen=True, kw_only=True)
class SharedStretch:
    """A stretch of `length` consecutive rows that train and test share.

    Parameters
    ----------
    train_start, test_start : int
        Its first row in each.
    length : int
        Number of rows.
    """

    train_start: int
    test_start: int
    length: int


def shared_stretches(train: Recording, test: Recording) -> list[SharedStretch]:
    """Return the stretches of consecutive rows that are in both, value by value.

    Stretches below `LEAST_ROWS` rows or with fewer than `LEAST_DIFFERENT` different
    rows are left out: they occur by chance while a plant stands still. Time stamps are
    not compared.
    """
    return stretches_of_hashes(row_hashes(train.values), row_hashes(test.values))


def stretches_of_hashes(of_train_rows: Hashes, of_rows: Hashes) -> list[SharedStretch]:
    """Return the same as `shared_stretches`, from the hashes of the rows of both."""
    if min(len(of_train_rows), len(of_rows)) < LEAST_ROWS:
        return []
    of_test = _window_hashes(of_rows)
    of_train = _window_hashes(of_train_rows)
    order = np.argsort(of_train, kind="stable")
    place = np.searchsorted(of_train[order], of_test)
    source = order[np.minimum(place, len(order) - 1)]
    begins, ends = run_bounds(of_train[source] == of_test)
    stops = ends + LEAST_ROWS - 1
    return [
        SharedStretch(train_start=int(source[at]), test_start=at, length=stop - at)
        for at, stop in zip(begins.tolist(), stops.tolist(), strict=True)
        if len(np.unique(of_rows[at:stop])) >= LEAST_DIFFERENT
    ]


def row_hashes(values: npt.NDArray[np.floating]) -> Hashes:
    """Return a 64-bit hash of each row; two different rows collide about never."""
    draw = np.random.default_rng(0)
    hashes = np.zeros(len(values), np.uint64)
    for column in columns_of(values):
        weight = np.uint64(draw.integers(2**63)) | np.uint64(1)
        bits = column.astype(np.float64).view(np.uint64)
        # Mix the bits, because round numbers end in many zeros.
        hashes += (bits ^ (bits >> np.uint64(29))) * weight
    return hashes


def _window_hashes(hashes: Hashes) -> Hashes:
    """Return a rolling hash of the `LEAST_ROWS` rows from each row on.

    It is ``sum of hash[i + j] * base**j``, computed as a difference of cumulative sums
    modulo 2**64, in which an odd base has an inverse.
    """
    powers = np.full(len(hashes), _BASE)
    inverse = np.full(len(hashes) - LEAST_ROWS + 1, _INVERSE)
    powers[0] = inverse[0] = 1
    sums = np.cumsum(hashes * np.cumprod(powers))
    before = np.concatenate([np.zeros(1, np.uint64), sums])
    hashes = (before[LEAST_ROWS:] - before[:-LEAST_ROWS]) * np.cumprod(inverse)
    return np.asarray(hashes)
