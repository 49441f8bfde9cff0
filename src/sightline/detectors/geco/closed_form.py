"""All candidates at once: their squared errors from inner products.

Sums and products are linear in their parameters, so that the error of every candidate
follows from inner products; no candidate needs a pass over the rows. Columns are
centred by their means over the rows fitted on, so that the offset drops out of the
normal equations, and scaled, so that rounding means the same for channels of any unit.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.detectors.base import Arrays
from sightline.detectors.geco.formulas import (
    PRODUCT,
    ROWS_AT_ONCE,
    SUM,
    Formula,
    Transitions,
    formula_arrays,
    formulas_of,
)
from sightline.progress import Progress, Step, StepKind

# A column with less than this share of its square left outside those before it adds
# nothing that could be distinguished from rounding.
LEAST_LEFT = {"float64": 1e-9, "float32": 1e-5}
# Best candidates of a target and family that are fitted exactly.
N_BEST = 24
# Products whose sums are gathered before they are judged and the state is saved.
BLOCK = 8_192
# Prepared rows are held in memory up to this many bytes, else computed again each time.
_MOST_BYTES = 400_000_000
# Products worked on at a time: with the rows at a time, 4 MB.
_PRODUCTS_AT_ONCE = 256

# All but the last channel of some products, as places among the factors: each factor
# behind them makes one product.
Head = tuple[int, ...]


@dataclass
class SearchState:
    """How far a search is: enough to continue as if it had never been stopped.

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
        """Return the state as named arrays, for `of_arrays`."""
        return {
            "blocks_done": np.array(self.blocks_done),
            "best": self.best,
            "sets": self.sets,
        } | formula_arrays(self.formulas, channels)

    @classmethod
    def of_arrays(cls, arrays: Arrays, channels: Sequence[str]) -> "SearchState":
        """Return the state that `arrays` gave."""
        return cls(
            blocks_done=int(arrays["blocks_done"]),
            best=arrays["best"],
            sets=arrays["sets"],
            formulas=formulas_of(arrays, channels),
        )


# -------------------------------------------------------------------- inner products


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Some rows as the search takes them.

    `columns` has last values and changes of the targets, centred and scaled, and ones;
    `factors` the channels as products take them, one in a row.
    """

    is_fitted: bool
    columns: npt.NDArray[np.floating]
    factors: npt.NDArray[np.floating]


class InnerProducts:
    """Last values and changes of all targets: their scales and inner products.

    Parameters
    ----------
    transitions : Transitions
        Rows to predict.
    precision : {"float64", "float32"}
        Of the rows that products are made from.

    Attributes
    ----------
    targets, factors : array
        Channels that get a searched formula, and channels that products may contain.
    size, means : array
        By channel: the largest value, and the mean in units of it.
    reach : array of shape (2, n_channels)
        What last values and changes were divided by.
    gram : array of shape (2, width, width)
        Inner products over the rows fitted on, and over the others: of all last
        values, then all changes, then ones.
    """

    def __init__(self, transitions: Transitions, precision: str) -> None:
        self.transitions, self.precision = transitions, precision
        self._measure()
        width = 2 * len(self.targets) + 1
        self.gram = np.zeros((2, width, width))
        for is_fitted, chunk in self.transitions.chunks():
            columns = self._columns(chunk)
            self.gram[0 if is_fitted else 1] += columns.T @ columns

    def _measure(self) -> None:
        """Compute means and sizes, and find the channels that change."""
        values, rows = self.transitions.values, self.transitions.rows
        n_fitted, n_channels = self.transitions.n_fitted, self.transitions.n_channels
        first = values[rows[0] - 1], values[rows[0]] - values[rows[0] - 1]
        # Sums relative to one of the rows: those of a constant channel are exactly 0.
        total, reach = np.zeros((2, n_channels)), np.zeros((2, n_channels))
        size, moves = np.zeros(n_channels), np.zeros(n_channels, np.bool_)
        for is_fitted, chunk in self.transitions.chunks():
            before = values[rows[chunk] - 1]
            np.maximum(size, np.abs(before).max(axis=0), out=size)
            moves |= (before != first[0]).any(axis=0)
            if is_fitted:
                change = values[rows[chunk]] - before
                for k, columns in enumerate((before, change)):
                    distance = columns - first[k]
                    total[k] += distance.sum(axis=0)
                    np.maximum(reach[k], np.abs(distance).max(axis=0), out=reach[k])
        self._origin, self._offset = np.stack(first), total / n_fitted
        # A channel that is constant in all of train is in no product.
        self.factors = np.flatnonzero(moves)
        self.size = np.where(size > 0, size, 1.0)
        # Constant where it is fitted: its last value is the same as the offset.
        self.targets = np.flatnonzero(reach[0] > 0)
        self.means = (self._origin[0] + self._offset[0]) / self.size
        self.reach = np.where(reach > 0, reach, 1.0)

    def _columns(self, chunk: slice) -> Floats:
        """Return last values, changes and ones of some transitions."""
        values, rows = self.transitions.values, self.transitions.rows[chunk]
        m = len(self.targets)
        before = values[rows - 1][:, self.targets]
        change = values[rows][:, self.targets] - before
        result = np.empty((len(rows), 2 * m + 1))
        for k, columns in enumerate((before, change)):
            part = result[:, k * m : (k + 1) * m]
            np.subtract(columns, self._origin[k, self.targets], out=part)
            part -= self._offset[k, self.targets]
            part /= self.reach[k, self.targets]
        result[:, -1] = 1.0
        return result

    def prepared_rows(self) -> Iterator[PreparedRows]:
        """Yield all rows as products are made from them."""
        dtype = np.dtype(self.precision)
        values, rows = self.transitions.values, self.transitions.rows
        for is_fitted, chunk in self.transitions.chunks():
            before = values[rows[chunk] - 1][:, self.factors]
            scaled = (before / self.size[self.factors]).T
            yield PreparedRows(
                is_fitted,
                self._columns(chunk).astype(dtype, copy=False),
                np.ascontiguousarray(scaled, dtype),
            )

    def prepared_in_memory(self) -> list[PreparedRows] | None:
        """Return all of `prepared_rows` at once; None if they take too much memory."""
        width = 2 * len(self.targets) + len(self.factors) + 1
        n_bytes = len(self.transitions) * width * np.dtype(self.precision).itemsize
        return list(self.prepared_rows()) if n_bytes <= _MOST_BYTES else None


# --------------------------------------------------- products of two and three channels


@dataclass(frozen=True, eq=False)
class SumsOfProducts:
    """Inputs of products, and their sums over the rows fitted on and over the others.

    `sums` has, for each product, its inner products with all last values, then with
    all changes, then its own sum; `squares` its sum of squares.
    """

    inputs: npt.NDArray[np.int16]
    sums: Floats
    squares: Floats


def product_blocks(n_factors: int, max_inputs: int) -> list[list[Head]]:
    """Return the heads of all products in their order, in blocks of bounded size.

    A product of one channel is a sum of one and is left to the sums.
    """
    heads: list[Head] = []
    for size in range(1, max_inputs):
        heads += itertools.combinations(range(n_factors), size)
    blocks: list[list[Head]] = []
    filled = BLOCK
    for head in heads:
        count = n_factors - 1 - head[-1]
        if not count:
            continue
        if filled + count > BLOCK:
            blocks.append([])
            filled = 0
        blocks[-1].append(head)
        filled += count
    return blocks


def product_sums(
    heads: Sequence[Head], inner: InnerProducts, prepared_rows: Iterable[PreparedRows]
) -> SumsOfProducts:
    """Return the sums of all products that begin with these channels."""
    from sightline._kernels.formulas import build_products

    n_factors = len(inner.factors)
    counts = [n_factors - 1 - head[-1] for head in heads]
    inputs, pilots = _inputs_and_pilots(heads, counts, inner)
    sums = np.zeros((2, len(inputs), 2 * len(inner.targets) + 1))
    squares = np.zeros((2, len(inputs)))
    buffer = np.empty(
        (max(_PRODUCTS_AT_ONCE, n_factors), ROWS_AT_ONCE), inner.precision
    )
    for prepared in prepared_rows:
        part = 0 if prepared.is_fitted else 1
        factors, columns = prepared.factors, prepared.columns
        built = buffer[:, : len(columns)]
        done = held = 0
        for head, count in zip(heads, counts, strict=True):
            if held + count > len(built):
                sums[part, done : done + held] += built[:held] @ columns
                done, held = done + held, 0
            factor = factors[head[0]]
            if len(head) == 2:
                factor = factor * factors[head[1]]
            rows = slice(done + held, done + held + count)
            build_products(
                factor,
                factors[head[-1] + 1 :],
                pilots[rows],
                built[held : held + count],
                squares[part, rows],
            )
            held += count
        sums[part, done : done + held] += built[:held] @ columns
    return SumsOfProducts(inputs, sums, squares)


def _inputs_and_pilots(
    heads: Sequence[Head], counts: Sequence[int], inner: InnerProducts
) -> tuple[npt.NDArray[np.int16], Floats]:
    """Return the channels of each product, and what is subtracted from its values.

    That is near the mean of the product, so that sums of squares keep their digits.
    """
    inputs = np.full((sum(counts), 3), -1, np.int16)
    pilots = np.empty(len(inputs))
    start = 0
    for head, count in zip(heads, counts, strict=True):
        rows = slice(start, start + count)
        first, last = inner.factors[list(head)], inner.factors[head[-1] + 1 :]
        inputs[rows, : len(head)] = first
        inputs[rows, len(head)] = last
        pilots[rows] = np.prod(inner.means[first]) * inner.means[last]
        start += count
    return inputs, pilots


# --------------------------------------------------------------------------- ranking


class FormulaRanking:
    """The best candidates of each target by inner products.

    Parameters
    ----------
    transitions : Transitions
        Rows to predict.
    max_inputs : int
        How many other channels a candidate may have.
    precision : {"float64", "float32"}
        Of the inner products of products.
    n_best : int
        How many candidates of a target and family are kept.
    """

    def __init__(
        self,
        transitions: Transitions,
        max_inputs: int,
        precision: str = "float64",
        n_best: int = N_BEST,
    ) -> None:
        self.transitions, self.precision = transitions, precision
        self.max_inputs = min(max_inputs, transitions.n_channels - 1)
        self.inner = InnerProducts(transitions, precision)
        self.targets = self.inner.targets
        # The place of a column among the targets.
        self._place = {int(column): k for k, column in enumerate(self.targets)}
        shape = (len(self.targets), n_best)
        self._sums = np.full(shape, np.inf)
        self._sum_sets = np.full((*shape, 3), -1, np.int16)

    def search(
        self,
        progress: Progress,
        state: SearchState,
        save: Callable[[SearchState], None] | None,
    ) -> None:
        """Judge all candidates; the best sums stay here, the best products in `state`.

        Parameters
        ----------
        progress : callable
            Called with a `Step`.
        state : SearchState
            Where to continue; changed in place.
        save : callable, optional
            Called with the state after each block of products.
        """
        for k in range(len(self.targets)):
            self._judge_sums(k)
        if not state.best.size:
            state.best = np.full(self._sums.shape, np.inf)
            state.sets = np.full(self._sum_sets.shape, -1, np.int16)
        blocks = product_blocks(len(self.inner.factors), self.max_inputs)
        if state.blocks_done == len(blocks) or not len(self.targets):
            return
        progress(Step(StepKind.SEARCHING, state.blocks_done, len(blocks), "formulas"))
        in_memory = self.inner.prepared_in_memory()
        for number in range(state.blocks_done, len(blocks)):
            prepared_rows = in_memory or self.inner.prepared_rows()
            self._judge_products(blocks[number], prepared_rows, state)
            state.blocks_done = number + 1
            if save is not None:
                save(state)
            progress(Step(StepKind.SEARCHING, number + 1, len(blocks), "formulas"))

    def _judge_sums(self, k: int) -> None:
        """Judge the sums of one target, after projecting out its last value."""
        from sightline._kernels.formulas import Inner, search_sums

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
            Inner(
                np.ascontiguousarray(left[part]),
                cross[others],
                max(float(square), 0.0),
            ),
            Inner(
                np.ascontiguousarray(other_left[part]),
                other_cross[others],
                max(float(other_square), 0.0),
            ),
            self.max_inputs,
            LEAST_LEFT["float64"],
            self._sums[k],
            self._sum_sets[k],
        )

    def _judge_products(
        self,
        heads: Sequence[Head],
        prepared_rows: Iterable[PreparedRows],
        state: SearchState,
    ) -> None:
        """Judge all products that begin with these channels."""
        from sightline._kernels.formulas import ProductSums, search_products

        products = product_sums(heads, self.inner, prepared_rows)
        gram, other = self.inner.gram
        m = len(self.targets)
        k = np.arange(m)
        n_fitted = self.transitions.n_fitted
        fitted, rest = (
            ProductSums(
                float(n_rows),
                np.column_stack(
                    [g[k, k], g[k, m + k], g[m + k, m + k], g[k, -1], g[m + k, -1]]
                ),
                products.sums[part],
                products.squares[part],
            )
            for part, (n_rows, g) in enumerate(
                ((n_fitted, gram), (len(self.transitions) - n_fitted, other))
            )
        )
        search_products(
            products.inputs,
            self.targets,
            fitted,
            rest,
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
        candidates = []
        for family, best, sets in (
            (SUM, self._sums[k], self._sum_sets[k]),
            (PRODUCT, state.best[k], state.sets[k]),
        ):
            for error, chosen in zip(best, sets, strict=True):
                if np.isfinite(error):
                    inputs = tuple(int(c) for c in chosen if c >= 0)
                    candidates.append((float(error), family, inputs))
        return sorted(candidates)

    def unit(self, target: int) -> float:
        """Return the factor from an estimate to a mean square in the target's unit."""
        return float(self.inner.reach[1, target] ** 2 / len(self.transitions))

    def movement(self, target: int) -> float:
        """Return the sum of squares of a target's changes, in units of estimates."""
        place = len(self.targets) + self._place[target]
        return float(self.inner.gram[:, place, place].sum())
