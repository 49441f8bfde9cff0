"""Stretches of rows that train and test share: what is learnt there is remembered."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.recording import Recording
from sightline.data.segments import run_bounds

Marks = npt.NDArray[np.uint64]
_BASE = np.uint64(0x9E3779B97F4A7C15)
# Shorter ones occur by chance, where a plant stands still.
LEAST_ROWS = 60
# A stretch with fewer different rows is a plant at rest, not a copy.
LEAST_DIFFERENT = 10


@dataclass(frozen=True, kw_only=True)
class SharedStretch:
    """Rows [train_start, ...) of train equal rows [test_start, ...) of test."""

    train_start: int
    test_start: int
    length: int


def shared_stretches(train: Recording, test: Recording) -> list[SharedStretch]:
    """Return the stretches of consecutive rows that are in both, value by value."""
    if min(train.n_steps, test.n_steps) < LEAST_ROWS:
        return []
    of_rows = _row_marks(test.values)
    of_train, of_test = _window_marks(_row_marks(train.values)), _window_marks(of_rows)
    order = np.argsort(of_train, kind="stable")
    place = np.searchsorted(of_train[order], of_test)
    source = order[np.minimum(place, len(order) - 1)]
    begins, ends = run_bounds(of_train[source] == of_test)
    return [
        SharedStretch(
            train_start=int(source[begin]),
            test_start=begin,
            length=stop - begin,
        )
        for begin, stop in zip(
            begins.tolist(), (ends + LEAST_ROWS - 1).tolist(), strict=True
        )
        if len(np.unique(of_rows[begin:stop])) >= LEAST_DIFFERENT
    ]


def _row_marks(values: npt.NDArray[np.floating]) -> Marks:
    """Return a 64-bit mark for each row; equal rows have equal marks.

    Two different rows share one with probability 2**-64 or so.
    """
    draw = np.random.default_rng(0)
    marks = np.zeros(len(values), np.uint64)
    for k in range(values.shape[1]):
        weight = np.uint64(draw.integers(2**63)) | np.uint64(1)
        bits = np.ascontiguousarray(values[:, k], np.float64).view(np.uint64)
        # Stirred, for bits of round numbers are mostly zero at one end.
        marks += (bits ^ (bits >> np.uint64(29))) * weight
    return marks


def _window_marks(marks: Marks) -> Marks:
    """Return a mark for the `LEAST_ROWS` rows from each row on.

    ``sum of mark[i + j] * base**j``, from sums over all rows before; everything is
    modulo 2**64, in which an odd base has an inverse.
    """
    powers = np.full(len(marks), _BASE)
    inverse = np.full(
        len(marks) - LEAST_ROWS + 1, np.uint64(pow(int(_BASE), -1, 2**64))
    )
    powers[0] = inverse[0] = 1
    before = np.concatenate(
        [np.zeros(1, np.uint64), np.cumsum(marks * np.cumprod(powers))]
    )
    marks = (before[LEAST_ROWS:] - before[:-LEAST_ROWS]) * np.cumprod(inverse)
    return np.asarray(marks)
