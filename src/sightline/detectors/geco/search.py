"""The search for GeCo's formulas: complete, and in closed form.

Every target gets the formula with the least squared error among all sums and products
of up to three other channels. Both are linear in their parameters, so that the error of
every candidate follows from inner products: no candidate needs a pass over the rows.
Columns are centred by their means over the rows fitted on, so that the offset drops out
of the normal equations, and scaled, so that rounding means the same for channels of any
unit. The best few candidates are then fitted exactly. Published, each is fitted by
scipy's optimiser: the same formulas, at some thousand times the cost.
"""

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.detectors.base import read_checkpoint, restoring, write_saved
from sightline.detectors.geco.formulas import (
    FAMILIES,
    MOST_INPUTS,
    PRODUCT,
    ROWS_AT_ONCE,
    SUM,
    Formula,
    Transitions,
    formula_arrays,
    formulas_of,
)
from sightline.progress import Progress, Step, StepKind, silent

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
# Errors that differ by less than this share are a tie: the earlier candidate wins.
_TIE = 1e-9
# An error below this share of the target's size is rounding, and a tie as well.
_ROUNDING = 1e-12
# A candidate is not fitted exactly if inner products put it above the best by more than
# they can be wrong: this share of the error and of the target's movement.
_WRONG = {"float64": 1e-6, "float32": 1e-4}
_PERSISTENCE = np.array([1.0, 0.0])
# Columns held while candidates of a target are fitted.
_COLUMNS_AT_ONCE = 24
_CHECKPOINT = "search checkpoint"

# A candidate: its family and its inputs, as columns.
Candidate = tuple[int, tuple[int, ...]]
# A fitted candidate: family, inputs, parameters, mean squared error.
Fitted = tuple[int, tuple[int, ...], Floats, float]


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
    channels : sequence of str
        Names of the columns, for the checkpoint.
    checkpoint : path, optional
        File to store the state in.
    fingerprint : str
        What that file must agree with.
    """

    blocks_done: int = 0
    best: Floats = field(default_factory=lambda: np.empty((0, 0)))
    sets: npt.NDArray[np.int16] = field(
        default_factory=lambda: np.empty((0, 0, 3), np.int16)
    )
    formulas: list[Formula] = field(default_factory=list)
    channels: Sequence[str] = ()
    checkpoint: Path | None = None
    fingerprint: str = ""

    @classmethod
    def stored(cls, path: Path, fingerprint: str, channels: Sequence[str]) -> Self:
        """Return the state in a checkpoint; that of a new search without a file."""
        state = cls(channels=channels, checkpoint=path, fingerprint=fingerprint)
        if path.exists():
            _, arrays = read_checkpoint(path, _CHECKPOINT, fingerprint)
            what = f"{path}: is not a whole checkpoint: delete it to start again."
            with restoring(what):
                state.blocks_done = int(arrays["blocks_done"])
                state.best, state.sets = arrays["best"], arrays["sets"]
                state.formulas = formulas_of(arrays, channels)
        return state

    def save(self) -> None:
        """Write the state, if there is a file for it."""
        if self.checkpoint is None:
            return
        about = {"kind": _CHECKPOINT, "fingerprint": self.fingerprint}
        arrays = {
            "blocks_done": np.array(self.blocks_done),
            "best": self.best,
            "sets": self.sets,
        }
        formulas = formula_arrays(self.formulas, self.channels)
        write_saved(self.checkpoint, about, arrays | formulas)


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


# --------------------------------------------------- products of two and three channels


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
) -> tuple[npt.NDArray[np.int16], Floats, Floats]:
    """Return all products that begin with these channels, and their sums.

    Returns
    -------
    inputs : array of shape (n_products, 3)
        Channels of each product, filled up with -1.
    sums : array of shape (2, n_products, width)
        Over the rows fitted on and over the others: inner products with all last
        values, then with all changes, then the sum of the product itself.
    squares : array of shape (2, n_products)
        Sums of squares.
    """
    from sightline._kernels.formulas import build_products

    n_factors = len(inner.factors)
    counts = [n_factors - 1 - head[-1] for head in heads]
    inputs = np.full((sum(counts), 3), -1, np.int16)
    # Near the mean of a product, so that sums of squares keep their digits.
    pilots = np.empty(len(inputs))
    stops = np.cumsum(counts)
    for head, count, stop in zip(heads, counts, stops, strict=True):
        rows = slice(stop - count, stop)
        first, last = inner.factors[list(head)], inner.factors[head[-1] + 1 :]
        inputs[rows, : len(head)] = first
        inputs[rows, len(head)] = last
        pilots[rows] = np.prod(inner.means[first]) * inner.means[last]
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
    return inputs, sums, squares


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

    def search(self, progress: Progress, state: SearchState) -> None:
        """Judge all candidates; the best sums stay here, the best products in `state`.

        Parameters
        ----------
        progress : callable
            Called with a `Step`.
        state : SearchState
            Where to continue; changed in place, and saved after each block of products.
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
        width = 2 * len(self.targets) + len(self.inner.factors) + 1
        n_bytes = width * len(self.transitions) * np.dtype(self.precision).itemsize
        in_memory = list(self.inner.prepared_rows()) if n_bytes <= _MOST_BYTES else None
        for number in range(state.blocks_done, len(blocks)):
            prepared_rows = in_memory or self.inner.prepared_rows()
            self._judge_products(blocks[number], prepared_rows, state)
            state.blocks_done = number + 1
            state.save()
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

        inputs, sums, squares = product_sums(heads, self.inner, prepared_rows)
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
                sums[part],
                squares[part],
            )
            for part, (n_rows, g) in enumerate(
                ((n_fitted, gram), (len(self.transitions) - n_fitted, other))
            )
        )
        search_products(
            inputs,
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


# ---------------------------------------------------------------------------- search


def find_formulas(
    transitions: Transitions,
    channels: Sequence[str],
    *,
    max_inputs: int = MOST_INPUTS,
    search: str = "closed form",
    precision: str = "float64",
    progress: Progress = silent,
    state: SearchState | None = None,
) -> list[Formula]:
    """Return the best formula of every channel.

    Parameters
    ----------
    transitions : Transitions
        Rows to predict.
    channels : sequence of str
        Names of the columns.
    max_inputs : int
        How many other channels a formula may have, 3 at most.
    search : {"closed form", "curve_fit"}
        From inner products, or each candidate by scipy's optimiser as published.
    precision : {"float64", "float32"}
        Of the inner products of products; the best are always fitted in double. Single
        leaves out products that nearly equal the target's last value.
    progress : callable, optional
        Called with a `Step`.
    state : SearchState, optional
        Where to continue; saved whenever a block or a target is finished.
    """
    state = state or SearchState()
    ranking = None
    if search == "closed form":
        ranking = FormulaRanking(transitions, max_inputs, precision)
        ranking.search(progress, state)
    n_channels = len(channels)
    for target in range(len(state.formulas), n_channels):
        if ranking is None:
            # Exactly as published: an optimiser's noise decides between equals.
            columns = TargetColumns(transitions, target)
            tried = candidates(target, n_channels, max_inputs)
            fits = [fit_by_optimiser(columns, *candidate) for candidate in tried]
            chosen = _first_of_the_best(fits, 0.0, 0.0)
        else:
            fits = _fits_of_the_best(ranking, target, state)
            with np.errstate(over="ignore"):
                rounding = float(np.square(_ROUNDING * ranking.inner.size[target]))
            chosen = _first_of_the_best(fits, _TIE, rounding)
        state.formulas.append(measured(transitions, target, channels, *chosen))
        state.save()
        progress(Step(StepKind.TRAINING, target + 1, n_channels, "the best formulas"))
    return state.formulas


def _fits_of_the_best(
    ranking: FormulaRanking, target: int, state: SearchState
) -> list[Fitted | None]:
    """Return the best candidates, fitted exactly; none if the target is constant.

    A target that is constant on the rows fitted on gives an optimiser that starts from
    the last value no reason to move.
    """
    estimates = ranking.estimates(target, state)
    if not estimates:
        return []
    columns = TargetColumns(ranking.transitions, target)
    change = columns.after - columns.before
    if not change[: ranking.transitions.n_fitted].any():
        return []
    unit, place = ranking.unit(target), int(np.searchsorted(ranking.targets, target))
    # The sum of squares of its changes, in units of estimates.
    own = len(ranking.targets) + place
    movement = float(ranking.inner.gram[:, own, own].sum())
    share = _WRONG[ranking.precision]
    # The formula without inputs is always tried: ties are decided by order.
    fits = [fit_exactly(columns, SUM, ())]
    least = np.inf
    for estimate, family, inputs in estimates:
        if estimate * unit > least + share * (least + movement * unit):
            break
        if inputs:
            fits.append(fit_exactly(columns, family, inputs))
        least = min((fit[3] for fit in fits if fit is not None), default=np.inf)
    return fits


def _first_of_the_best(
    fits: Sequence[Fitted | None], tie: float, rounding: float
) -> tuple[int, tuple[int, ...], Floats]:
    """Return the first of the candidates whose error is the least, up to a tie."""
    fitted = [fit for fit in fits if fit is not None]
    if not fitted:
        return SUM, (), _PERSISTENCE
    limit = min(fit[3] for fit in fitted) * (1 + tie) + rounding
    in_order = sorted(fitted, key=lambda fit: (fit[0], len(fit[1]), fit[1]))
    family, inputs, parameters, _ = next(f for f in in_order if f[3] <= limit)
    return family, inputs, parameters


def measured(
    transitions: Transitions,
    target: int,
    channels: Sequence[str],
    family: int,
    inputs: tuple[int, ...],
    parameters: Floats,
) -> Formula:
    """Return a fitted candidate as a formula, with error, drift and threshold."""
    from sightline._kernels.formulas import cusum_peak

    columns = TargetColumns(transitions, target)
    errors = columns.errors(columns.of(family, inputs), parameters)
    drift = float(np.mean(np.abs(errors)) + np.std(errors))
    return Formula(
        target=channels[target],
        family=FAMILIES[family],
        inputs=tuple(channels[column] for column in inputs),
        parameters=tuple(parameters.tolist()),
        error=float(np.mean(errors**2)),
        drift=drift,
        threshold=cusum_peak(errors, drift, transitions.begins),
    )


# ------------------------------------------------------------------------ candidates


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


class TargetColumns:
    """Columns of one target's candidates, each read once.

    Parameters
    ----------
    transitions : Transitions
        Rows to predict.
    target : int
        The column to predict.

    Attributes
    ----------
    before, after : array of shape (n_transitions,)
        The target in the row before, and in the row to predict.
    """

    def __init__(self, transitions: Transitions, target: int) -> None:
        self.transitions = transitions
        self.before, self.after = transitions.column(target)
        self._read = lru_cache(_COLUMNS_AT_ONCE)(lambda k: transitions.column(k)[0])

    def of(self, family: int, inputs: tuple[int, ...]) -> list[Floats]:
        """Return the columns with a factor: the target's, then inputs or product."""
        columns: list[Floats] = [self._read(number) for number in inputs]
        if family == SUM or not columns:
            return [self.before, *columns]
        product = columns[0]
        for column in columns[1:]:
            product = product * column
        return [self.before, product]

    def errors(self, columns: list[Floats], parameters: Floats) -> Floats:
        """Return predicted minus observed, as published, of all transitions."""
        # From left to right, the offset last: the order decides the last bits.
        errors = parameters[0] * columns[0]
        for factor, column in zip(parameters[1:-1], columns[1:], strict=True):
            errors += factor * column
        errors += parameters[-1]
        errors -= self.after
        return np.asarray(errors)


def fit_exactly(
    columns_of: TargetColumns, family: int, inputs: tuple[int, ...]
) -> Fitted | None:
    """Return a candidate fitted by QR.

    Returns
    -------
    family, inputs, parameters, mean squared error
        None where its columns depend on each other on the rows fitted on.
    """
    columns, n_fitted = columns_of.of(family, inputs), columns_of.transitions.n_fitted
    with np.errstate(all="ignore"):
        parameters = _least_squares(
            [column[:n_fitted] for column in columns], columns_of.after[:n_fitted]
        )
        if parameters is None:
            return None
        error = float(np.mean(columns_of.errors(columns, parameters) ** 2))
    return (family, inputs, parameters, error) if np.isfinite(error) else None


def _least_squares(columns: list[Floats], after: Floats) -> Floats | None:
    """Return the parameters of a formula; None if columns depend on each other.

    The change from the last value is fitted: where it is small, no digits are lost to
    the size of the value itself. Centred and scaled columns do the rest.
    """
    n = len(columns)
    design = np.empty((len(after), n + 1), order="F")
    scales = np.empty(n)
    for k, column in enumerate(columns):
        centred = column - column[0]
        centred -= centred.mean()
        scales[k] = np.abs(centred).max()
        if not 0 < scales[k] < np.inf:
            return None
        np.divide(centred, scales[k], out=design[:, k])
    np.subtract(after, columns[0], out=design[:, n])
    design[:, n] -= design[:, n].mean()
    norms = np.einsum("ij,ij->j", design, design)
    triangle: Floats = np.linalg.qr(design, mode="r")  # type: ignore[assignment]
    if len(triangle) < n:
        return None
    # A column constant up to rounding: only rounding is left without its mean.
    size = np.array([np.abs(column).max() for column in columns])
    if (scales < 16 * np.finfo(float).eps * size).any():
        return None
    if (np.diag(triangle)[:n] ** 2 < LEAST_LEFT["float64"] * norms[:n]).any():
        return None
    factors = np.linalg.solve(triangle[:n, :n], triangle[:n, n]) / scales
    factors[0] += 1.0
    predicted = factors[0] * columns[0]
    for factor, column in zip(factors[1:], columns[1:], strict=True):
        predicted += factor * column
    return np.append(factors, np.mean(after - predicted))


def fit_by_optimiser(
    columns_of: TargetColumns, family: int, inputs: tuple[int, ...]
) -> Fitted | None:
    """Return a candidate fitted as the published code does, by scipy's `curve_fit`.

    Returns
    -------
    family, inputs, parameters, mean squared error
        None where the optimiser gives up.
    """
    from scipy.optimize import OptimizeWarning, curve_fit

    columns, n_fitted = columns_of.of(family, inputs), columns_of.transitions.n_fitted
    start = [1.0] + [float(family == PRODUCT)] * (len(columns) - 1) + [0.0]

    def predicted(given: Floats, *parameters: float) -> Floats:
        total = parameters[0] * given[0]
        for factor, column in zip(parameters[1:-1], given[1:], strict=True):
            total = total + factor * column
        return np.asarray(total + parameters[-1])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        try:
            parameters, _ = curve_fit(
                predicted,
                np.array([column[:n_fitted] for column in columns]),
                columns_of.after[:n_fitted],
                p0=start,
            )
        except (RuntimeError, TypeError, ValueError):
            # It gave up, or has fewer rows than parameters, or values not finite.
            return None
    error = float(np.mean(columns_of.errors(columns, parameters) ** 2))
    return family, inputs, np.asarray(parameters, np.float64), error
