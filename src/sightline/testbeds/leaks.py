"""Stretches of rows that train and test share: what is learnt there is remembered."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.recording import Recording

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
    of_train, of_test = _marks(train.values), _marks(test.values)
    order = np.argsort(of_train, kind="stable")
    place = np.searchsorted(of_train[order], of_test)
    place = np.minimum(place, len(order) - 1)
    source = order[place]
    is_shared = of_train[source] == of_test
    # Consecutive rows of test that are consecutive in train keep one distance.
    distance = np.where(is_shared, source - np.arange(len(of_test)), -len(of_test) - 1)
    begins = np.flatnonzero(np.diff(distance, prepend=-len(of_test) - 2))
    ends = np.append(begins[1:], len(distance))
    return [
        SharedStretch(
            train_start=int(source[begin]),
            test_start=int(begin),
            length=int(end - begin),
        )
        for begin, end in zip(begins, ends, strict=True)
        if is_shared[begin]
        and end - begin >= LEAST_ROWS
        and len(np.unique(of_test[begin:end])) >= LEAST_DIFFERENT
    ]


def _marks(values: npt.NDArray[np.floating]) -> npt.NDArray[np.uint64]:
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
