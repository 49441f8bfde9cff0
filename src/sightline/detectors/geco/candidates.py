"""What is tried for a target: every candidate in order, its columns and its errors."""

import itertools
from collections.abc import Iterator

import numpy as np

from sightline.data.arrays import Floats
from sightline.detectors.geco.formulas import PRODUCT, SUM
from sightline.detectors.geco.transitions import Transitions

# Other channels that a candidate can have: the search goes no further.
MOST_INPUTS = 3
# A column with less than this share of its square left outside those before it adds
# nothing that could be told from rounding.
LEAST_LEFT = {"float64": 1e-9, "float32": 1e-5}
# Columns held while candidates of a target are fitted.
_COLUMNS_AT_ONCE = 24

# What a candidate is: its family and its inputs, as columns.
Candidate = tuple[int, tuple[int, ...]]
# A candidate that was fitted: family, inputs, parameters, mean squared error.
Fitted = tuple[int, tuple[int, ...], Floats, float]


def candidates(
    target: int, n_channels: int, max_inputs: int = MOST_INPUTS
) -> Iterator[Candidate]:
    """Yield every candidate of a target, in the order in which ties are decided.

    Examples
    --------
    >>> list(candidates(0, 3, 1))
    [(0, ()), (0, (1,)), (0, (2,)), (1, (1,)), (1, (2,))]
    """
    others = [column for column in range(n_channels) if column != target]
    for family in (SUM, PRODUCT):
        for size in range(family, min(max_inputs, len(others)) + 1):
            for inputs in itertools.combinations(others, size):
                yield family, inputs


class Columns:
    """Columns of one target's candidates, each read once.

    Parameters
    ----------
    transitions : Transitions
        What is to be told, and from what.
    target : int
        The column that is told.
    """

    def __init__(self, transitions: Transitions, target: int) -> None:
        self.transitions = transitions
        self.own, self.after = transitions.column(target)
        self._read: dict[int, Floats] = {}

    def of(self, family: int, inputs: tuple[int, ...]) -> list[Floats]:
        """Return what has a factor of its own: own value, then inputs or product."""
        if len(self._read) > _COLUMNS_AT_ONCE:
            self._read.clear()
        for number in inputs:
            if number not in self._read:
                self._read[number] = self.transitions.column(number)[0]
        columns = [self._read[number] for number in inputs]
        if family == SUM or not columns:
            return [self.own, *columns]
        product = columns[0]
        for column in columns[1:]:
            product = product * column
        return [self.own, product]

    def errors(self, columns: list[Floats], parameters: Floats) -> Floats:
        """Return predicted minus observed, as published, of all transitions."""
        # From left to right, the offset last: the order decides the last bits.
        told = parameters[0] * columns[0]
        for factor, column in zip(parameters[1:-1], columns[1:], strict=True):
            told += factor * column
        told += parameters[-1]
        told -= self.after
        return np.asarray(told)
