"""How far a search is."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.detectors.geco.formulas import Formula, formula_arrays, formulas_of
from sightline.detectors.saving import Arrays


@dataclass
class SearchState:
    """How far a search is: enough to go on as if it had never been stopped.

    Parameters
    ----------
    blocks_done : int
        Blocks of products that were judged.
    best, sets : array
        By target: the least errors of products so far, and their inputs.
    formulas : list of Formula
        Of the targets that are finished.
    """

    blocks_done: int = 0
    best: Floats = field(default_factory=lambda: np.empty((0, 0)))
    sets: npt.NDArray[np.int16] = field(
        default_factory=lambda: np.empty((0, 0, 3), np.int16)
    )
    formulas: list[Formula] = field(default_factory=list)

    def arrays(self, channels: Sequence[str]) -> Arrays:
        """Return it as named arrays."""
        return {
            "blocks_done": np.array(self.blocks_done),
            "best": self.best,
            "sets": self.sets,
        } | formula_arrays(self.formulas, channels)

    @classmethod
    def of_arrays(cls, arrays: Arrays, channels: Sequence[str]) -> "SearchState":
        """Take back what `arrays` gave."""
        return cls(
            blocks_done=int(arrays["blocks_done"]),
            best=arrays["best"],
            sets=arrays["sets"],
            formulas=formulas_of(arrays, channels),
        )
