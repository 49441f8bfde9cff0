"""Rows that train and test share, found by a rolling hash of stretches of rows."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.audit.columns import columns_of
from sightline.data.recording import Recording
from sightline.data.segments import run_bounds

# Shorter equal stretches of train and test occur by chance, while a plant stands still.
LEAST_ROWS = 60
# A stretch with fewer different rows is a plant at rest, not a copy.
LEAST_DIFFERENT = 10
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
Hashes = npt.NDArray[np.uint64]


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
