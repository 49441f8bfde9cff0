"""All candidates at once: their squared errors from inner products.

Sums and products are linear in their parameters, so that the error of every candidate
follows from inner products; none needs a pass over the rows of its own.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sightline.detectors.geco.candidates import LEAST_LEFT
from sightline.detectors.geco.formulas import PRODUCT, SUM
from sightline.detectors.geco.inner_products import InnerProducts, Stretch
from sightline.detectors.geco.product_blocks import Head, product_blocks, product_sums
from sightline.detectors.geco.search_state import SearchState
from sightline.detectors.geco.transitions import Transitions
from sightline.progress import Progress, Step, StepKind

# Candidates of a target and family that are kept, to be fitted exactly.
KEPT = 24


class Ranking:
    """The best candidates of each target by inner products.

    Parameters
    ----------
    transitions : Transitions
        What is to be told, and from what.
    max_inputs : int
        How many other channels a candidate may have.
    precision : {"float64", "float32"}
        Of the inner products of products.
    kept : int
        How many candidates of a target and family are kept.
    """

    def __init__(
        self,
        transitions: Transitions,
        max_inputs: int,
        precision: str = "float64",
        kept: int = KEPT,
    ) -> None:
        self.transitions, self.precision = transitions, precision
        self.max_inputs = min(max_inputs, transitions.n_channels - 1)
        self.inner = InnerProducts(transitions, precision)
        self.targets = self.inner.targets
        # The places of a column among the targets.
        self._place = {int(column): k for k, column in enumerate(self.targets)}
        shape = (len(self.targets), kept)
        self._sums = np.full(shape, np.inf)
        self._sum_sets = np.full((*shape, 3), -1, np.int16)

    def search(
        self,
        progress: Progress,
        state: SearchState,
        keep: Callable[[SearchState], None] | None,
    ) -> None:
        """File the best candidates of every target: sums here, products in `state`."""
        for k in range(len(self.targets)):
            self._file_sums(k)
        if not state.best.size:
            state.best = np.full(self._sums.shape, np.inf)
            state.sets = np.full(self._sum_sets.shape, -1, np.int16)
        blocks = product_blocks(len(self.inner.factors), self.max_inputs)
        if state.blocks_done == len(blocks) or not len(self.targets):
            return
        progress(Step(StepKind.SEARCHING, state.blocks_done, len(blocks), "formulas"))
        kept = self.inner.kept_stretches()
        for number in range(state.blocks_done, len(blocks)):
            self._file_products(blocks[number], kept or self.inner.stretches(), state)
            state.blocks_done = number + 1
            if keep is not None:
                keep(state)
            progress(Step(StepKind.SEARCHING, number + 1, len(blocks), "formulas"))

    def _file_sums(self, k: int) -> None:
        """File the sums of one target, its own lag projected out of everything."""
        from sightline._kernels.formulas import search_sums

        m = len(self.targets)
        others = np.delete(np.arange(m), k)
        gram, other = self.inner.gram
        along = gram[k, :m] / gram[k, k]
        slope = gram[k, m + k] / gram[k, k]
        left = gram[:m, :m] - np.outer(along, gram[k, :m])
        other_left = (
            other[:m, :m]
            - np.outer(along, other[k, :m])
            - np.outer(other[:m, k], along)
            + other[k, k] * np.outer(along, along)
        )
        cross = gram[:m, m + k] - along * gram[k, m + k]
        other_cross = other[:m, m + k] - along * other[k, m + k]
        other_cross -= slope * (other[:m, k] - along * other[k, k])
        square = gram[m + k, m + k] - slope * gram[k, m + k]
        other_square = other[m + k, m + k] - 2 * slope * other[k, m + k]
        other_square += slope**2 * other[k, k]
        part = np.ix_(others, others)
        search_sums(
            self.targets[others],
            np.diag(gram)[others],
            np.ascontiguousarray(left[part]),
            cross[others],
            max(float(square), 0.0),
            np.ascontiguousarray(other_left[part]),
            other_cross[others],
            max(float(other_square), 0.0),
            self.max_inputs,
            LEAST_LEFT["float64"],
            self._sums[k],
            self._sum_sets[k],
        )

    def _file_products(
        self, heads: Sequence[Head], stretches: Iterable[Stretch], state: SearchState
    ) -> None:
        """File all products that begin with these channels."""
        from sightline._kernels.formulas import search_products

        made = product_sums(heads, self.inner, stretches)
        gram, other = self.inner.gram
        m = len(self.targets)
        k = np.arange(m)
        search_products(
            made.inputs,
            self.targets,
            float(self.transitions.n_fitted),
            float(len(self.transitions) - self.transitions.n_fitted),
            np.column_stack([gram[k, k], gram[k, m + k], gram[m + k, m + k]]),
            np.column_stack(
                [
                    other[k, k],
                    other[k, m + k],
                    other[m + k, m + k],
                    other[k, -1],
                    other[m + k, -1],
                ]
            ),
            made.sums[0],
            made.squares[0],
            made.sums[1],
            made.squares[1],
            LEAST_LEFT[self.precision],
            state.best,
            state.sets,
        )

    def estimates(
        self, target: int, state: SearchState
    ) -> list[tuple[float, int, tuple[int, ...]]]:
        """Return the best candidates: squared error, family, inputs; best first."""
        if target not in self._place:
            return []
        k = self._place[target]
        found = []
        for family, best, sets in (
            (SUM, self._sums[k], self._sum_sets[k]),
            (PRODUCT, state.best[k], state.sets[k]),
        ):
            for error, chosen in zip(best, sets, strict=True):
                if np.isfinite(error):
                    inputs = tuple(int(c) for c in chosen if c >= 0)
                    found.append((float(error), family, inputs))
        return sorted(found)

    def unit(self, target: int) -> float:
        """Return what makes an estimate a mean square in the target's unit."""
        return float(self.inner.reach[1, target] ** 2 / len(self.transitions))

    def moved(self, target: int) -> float:
        """Return the square of all that a target moved, as estimates are."""
        place = len(self.targets) + self._place[target]
        return float(self.inner.gram[:, place, place].sum())
