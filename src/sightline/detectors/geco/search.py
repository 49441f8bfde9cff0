"""The search for GeCo's formulas: complete, and in closed form.

Every target gets the formula with the least squared error among all sums and products
of up to three other channels. All are judged by inner products (`closed_form`); the
best few are then fitted exactly. Published, each candidate is fitted by scipy's
optimiser: the same formulas, at some thousand times the cost.
"""

import hashlib
import itertools
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sightline.data.arrays import Floats
from sightline.detectors.base import read_checkpoint, restoring, write_saved
from sightline.detectors.geco.closed_form import (
    BLOCK,
    LEAST_LEFT,
    N_BEST,
    FormulaRanking,
    SearchState,
)
from sightline.detectors.geco.formulas import (
    FAMILIES,
    MOST_INPUTS,
    PRODUCT,
    SUM,
    Formula,
    Transitions,
)
from sightline.detectors.settings import Settings
from sightline.progress import Progress, Step, StepKind, silent

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


def find_formulas(
    transitions: Transitions,
    channels: Sequence[str],
    *,
    max_inputs: int = MOST_INPUTS,
    search: str = "closed form",
    precision: str = "float64",
    progress: Progress = silent,
    state: SearchState | None = None,
    save: Callable[[SearchState], None] | None = None,
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
        Where to continue.
    save : callable, optional
        Called with the state whenever a block or a target is finished.
    """
    state = state or SearchState()
    ranking = None
    if search == "closed form":
        ranking = FormulaRanking(transitions, max_inputs, precision)
        ranking.search(progress, state, save)
    n_channels = len(channels)
    for target in range(len(state.formulas), n_channels):
        if ranking is None:
            # Exactly as published: an optimiser's noise decides between equals.
            fits = fits_by_optimiser(transitions, target, max_inputs)
            chosen = _first_of_the_best(fits, 0.0, 0.0)
        else:
            fits = _fits_of_the_best(ranking, target, state)
            with np.errstate(over="ignore"):
                rounding = float(np.square(_ROUNDING * ranking.inner.size[target]))
            chosen = _first_of_the_best(fits, _TIE, rounding)
        state.formulas.append(measured(transitions, target, channels, *chosen))
        if save is not None:
            save(state)
        progress(Step(StepKind.TRAINING, target + 1, n_channels, "the best formulas"))
    return state.formulas


def _fits_of_the_best(
    ranking: FormulaRanking, target: int, state: SearchState
) -> list[Fitted]:
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
    unit, movement = ranking.unit(target), ranking.movement(target)
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
    return [fit for fit in fits if fit is not None]


def _first_of_the_best(
    fits: Sequence[Fitted], tie: float, rounding: float
) -> tuple[int, tuple[int, ...], Floats]:
    """Return the first of the candidates whose error is the least, up to a tie."""
    if not fits:
        return SUM, (), _PERSISTENCE
    limit = min(fit[3] for fit in fits) * (1 + tie) + rounding
    in_order = sorted(fits, key=lambda fit: (fit[0], len(fit[1]), fit[1]))
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
        self._read: dict[int, Floats] = {}

    def of(self, family: int, inputs: tuple[int, ...]) -> list[Floats]:
        """Return the columns with a factor: the target's, then inputs or product."""
        if len(self._read) > _COLUMNS_AT_ONCE:
            self._read.clear()
        for number in inputs:
            if number not in self._read:
                self._read[number] = self.transitions.column(number)[0]
        columns = [self._read[number] for number in inputs]
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


def fits_by_optimiser(
    transitions: Transitions, target: int, max_inputs: int
) -> list[Fitted]:
    """Return all candidates of a target, without those the optimiser gives up."""
    columns_of = TargetColumns(transitions, target)
    fits = (
        fit_by_optimiser(columns_of, *candidate)
        for candidate in candidates(target, transitions.n_channels, max_inputs)
    )
    return [fit for fit in fits if fit is not None]


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


# ------------------------------------------------------------------------ checkpoint


@dataclass(frozen=True)
class Checkpoint:
    """A file for the state of one search: of these data with these settings.

    Parameters
    ----------
    path : path
        The file, which may not exist yet.
    fingerprint : str
        What the file must agree with, see `fingerprint_of`.
    channels : sequence of str
        Names of the columns.
    """

    path: Path
    fingerprint: str
    channels: Sequence[str]

    def state(self) -> SearchState | None:
        """Return the stored state; None if there is no file yet."""
        if not self.path.exists():
            return None
        _, arrays = read_checkpoint(self.path, _CHECKPOINT, self.fingerprint)
        with restoring(
            f"{self.path}: is not a whole checkpoint: delete it to start again."
        ):
            return SearchState.of_arrays(arrays, self.channels)

    def save(self, state: SearchState) -> None:
        """Write the state."""
        about = {"kind": _CHECKPOINT, "fingerprint": self.fingerprint}
        write_saved(self.path, about, state.arrays(self.channels))


def fingerprint_of(transitions: Transitions, settings: Settings, version: int) -> str:
    """Return what a checkpoint must agree with: data, settings, detector's version."""
    digest = hashlib.sha256()
    for array in (transitions.values, transitions.rows):
        digest.update(np.ascontiguousarray(array).data)
    # The number of blocks done means nothing without their size.
    facts = [transitions.n_fitted, asdict(settings), N_BEST, BLOCK, version]
    digest.update(json.dumps(facts).encode())
    return digest.hexdigest()
