"""The normal reference P0 = N(mu0, S0); only attack-free training residuals come in.

It is fitted on moments of residuals that add up, however the rows are cut: one pass
over any blocks, or over the partitions of a cluster, gives the moments of the whole
array; from them follow the reference and the mean energy of any part.
"""

import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add

import numpy as np

from sightline.data import row_tables
from sightline.data.arrays import Bools, Floats, Residuals, check_choice, require
from sightline.errors import StreamError
from sightline.parallel import one_thread_each
from sightline.showing import Shown
from sightline.text import plural

ESTIMATORS = (
    "ledoit-wolf",
    "ledoit-wolf-standardised",
    "oas",
    "empirical",
    "minimum-covariance-determinant",
)
# The robust estimator draws at most this many evenly spaced rows.
MCD_ROWS = 50_000
# Below this spread third powers of residuals lose digits in floating point.
SMALLEST_SPREAD = 1e-100
# A pivot this small compared with its own variance means a singular covariance.
SINGULAR_PIVOT = 1e-13
N_FOLDS = 5


# --- Moments --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums over a set of rows that a Gaussian reference needs; sets add up.

    With ``y = x - mean``:

    Parameters
    ----------
    count : int
        Number of rows n.
    mean : array of shape (p,)
        Mean of the rows.
    rest : array of shape (p,)
        ``sum y``, what rounding leaves of the mean: 0 but for the last digits, which
        matter if values lie far from 0.
    second : array of shape (p, p)
        ``sum y y'``; the covariance is ``second / n``.
    cubic : array of shape (p,)
        ``sum |y|^2 y``, needed to move `fourth` to another mean.
    fourth : float
        ``sum |y / unit|^4``, needed by Ledoit-Wolf shrinkage.
    first : array of shape (p,)
        The first row.
    constant : array of bool, shape (p,)
        Which channels never leave the value of the first row.
    unit : float
        1, or a power of two for rows so short that fourth powers would underflow.

    Examples
    --------
    >>> rows = row_tables.ArrayRows(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]))
    >>> both = merged(fold_moments(rows, n_folds=2))
    >>> both.mean.tolist(), both.constant.tolist()
    ([2.0, 1.0], [False, True])
    """

    count: int
    mean: Floats
    rest: Floats
    second: Floats
    cubic: Floats
    fourth: float
    first: Floats
    constant: Bools
    unit: float = 1.0

    def __add__(self, other: "Moments") -> "Moments":
        """Return the moments of both sets, by Chan's formula.

        It keeps its digits even if one of the sets holds a huge burst.
        """
        count = self.count + other.count
        mean = self.mean + (other.mean - self.mean) * (other.count / count)
        unit = max(self.unit, other.unit)
        a, b = _moved(self, mean), _moved(other, mean)
        return Moments(
            count=count,
            mean=mean,
            rest=a.rest + b.rest,
            second=a.second + b.second,
            cubic=a.cubic + b.cubic,
            fourth=a.fourth * (a.unit / unit) ** 4 + b.fourth * (b.unit / unit) ** 4,
            unit=unit,
            first=self.first,
            constant=self.constant & other.constant & (self.first == other.first),
        )

    @property
    def covariance(self) -> Floats:
        """Covariance, divided by the number of rows."""
        return self.second / self.count


def _moved(about: Moments, mean: Floats) -> Moments:
    """Return the same moments about another mean."""
    by = mean - about.mean
    n, total, second, cubic = about.count, about.rest, about.second, about.cubic
    trace, square = float(np.trace(second)), float(by @ by)
    cross = np.outer(total, by)
    # In the moments' own unit, so that fourth powers do not underflow.
    unit = about.unit
    step, spread = by / unit, second / unit / unit
    length = float(step @ step)
    return replace(
        about,
        mean=mean,
        rest=total - n * by,
        second=second - cross - cross.T + n * np.outer(by, by),
        cubic=cubic
        - 2 * second @ by
        - trace * by
        + 2 * float(total @ by) * by
        + square * total
        - n * square * by,
        fourth=about.fourth
        - 4 * float(step @ (cubic / unit / unit / unit))
        + 4 * float(step @ spread @ step)
        + 2 * length * float(np.trace(spread))
        - 4 * length * float(step @ (total / unit))
        + n * length**2,
    )


class _Sums:
    """Plain sums over a run of blocks, about the mean of the first block.

    The first block is part of the run, so that however far the others lie from it,
    the sums are at most `row_tables.RUN_BLOCKS` times what is left of them about the
    true mean: two digits, not all.
    """

    def __init__(self, n_channels: int) -> None:
        self.ones = np.ones(n_channels)
        # Rows y, then a column of ones and one of |y|^2, so that one product gives
        # `second`, `rest` and `cubic`.
        self.centered = np.ones((row_tables.BLOCK_ROWS, n_channels + 2))
        self.squares = np.empty(row_tables.BLOCK_ROWS)
        self.products = np.zeros((n_channels + 2, n_channels + 2))
        self.count = 0

    def add(self, block: Residuals) -> None:
        """Take in one block; FloatingPointError if its squares overflow."""
        from sightline._kernels.rows import center

        if self.count == 0:
            self.pilot = block.mean(axis=0, dtype=np.float64)
            self.first, self.fourth = block[0].copy(), 0.0
            self.still = np.arange(block.shape[1])
            self.products[...] = 0
        y, squares = self.centered[: len(block)], self.squares[: len(block)]
        center(block, self.pilot, self.ones, y, squares)
        y[:, -1] = squares
        if self.count == 0:
            # A power of two near the length of rows shorter than about 1e-60, so that
            # fourth powers do not underflow, and the unit changes no digit.
            largest = float(squares.max(initial=0.0))
            is_short = 0.0 < largest < 1e-120
            self.unit = 2.0 ** (math.frexp(largest)[1] // 2) if is_short else 1.0
        if self.unit != 1.0:
            squares = squares / self.unit**2
        fourth = float(squares @ squares)
        if not np.isfinite(fourth):
            raise FloatingPointError
        self.fourth += fourth
        self.products += y.T @ y
        if len(self.still):
            same = (block[:, self.still] == self.first[self.still]).all(axis=0)
            self.still = self.still[same]
        self.count += len(block)

    def take(self) -> Moments:
        """Return the moments of the blocks so far, and start again from none."""
        products = self.products.copy()
        total, cubic = products[-2:, :-2]
        constant = np.zeros(len(total), np.bool_)
        constant[self.still] = True
        about_pilot = Moments(
            count=self.count,
            mean=self.pilot,
            rest=total,
            second=products[:-2, :-2],
            cubic=cubic,
            fourth=self.fourth,
            unit=self.unit,
            first=self.first.astype(np.float64),
            constant=constant,
        )
        mean = self.pilot + total / self.count
        self.count = 0
        return _moved(about_pilot, mean)


def fold_moments(
    rows: row_tables.Rows,
    *,
    name: str = "train",
    channels: Sequence[str] | None = None,
    n_folds: int = N_FOLDS,
    tick: row_tables.Tick = row_tables.no_tick,
) -> list[Moments]:
    """Return the moments of contiguous folds of the rows, in one pass.

    The same bits come out whatever the chunks, parts or workers: sums are made block
    by block on one grid and merged in the order of the rows.

    Parameters
    ----------
    rows : Rows
        The residuals.
    name, channels : str, sequence of str
        What to call the array and its channels in an error.
    n_folds : int
        Number of folds, of nearly equal size. Empty folds are left out.
    tick : callable
        Called with the number of rows of each block done.

    Raises
    ------
    StreamError
        If a value is not finite, or its fourth power overflows.
    """
    cuts = [rows.n_rows * k // n_folds for k in range(n_folds + 1)]
    folds: dict[int, Moments] = {}
    try:
        # Run after run, on whatever worker, so that the last bit is always the same.
        for runs in row_tables.map_parts(
            rows, partial(_moments_of_runs, cuts=cuts), tick=tick
        ):
            for fold, run in runs:
                folds[fold] = folds[fold] + run if fold in folds else run
    except FloatingPointError:
        named = channels or [str(j) for j in range(rows.n_channels)]
        row_tables.refuse_nonfinite(rows, name, named)
    return list(folds.values())


def _moments_of_runs(
    part: row_tables.Part, *, cuts: Sequence[int]
) -> list[tuple[int, Moments]]:
    """Return the fold and the moments of each run of blocks."""
    n_rows, first = part.rows.n_rows, part.first
    inside = [cut - first for cut in cuts if 0 <= cut - first <= n_rows]
    run_rows = row_tables.GRID_ROWS
    ends = {*inside, *range(-first % run_rows, n_rows, run_rows), n_rows}
    sums = _Sums(part.rows.n_channels)
    runs = []
    # An overflow is looked for in the sums, and reported with its row and channel.
    with np.errstate(over="ignore", invalid="ignore"):
        for start, block in part.blocks(inside):
            sums.add(block)
            if start + len(block) in ends:
                runs.append((bisect_right(cuts, first + start) - 1, sums.take()))
    return runs


def merged(moments: Sequence[Moments]) -> Moments:
    """Return the moments of all sets together, merged one after the other."""
    return reduce(add, moments)


# --- The reference --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reference(Shown):
    """The model of normal operation: residuals follow N(mean, covariance).

    Parameters
    ----------
    mean : array of shape (p,)
        Mean of the train residuals.
    covariance : array of shape (p, p)
        Their (shrunk) covariance.
    estimator : str
        One of `ESTIMATORS`.
    shrinkage : float, optional
        In [0, 1]; None if the estimator has none.
    n_rows : int
        Number of rows it was fitted on.

    Examples
    --------
    >>> reference = fit_reference(np.random.default_rng(0).normal(size=(1000, 2)))
    >>> reference.mean.shape, reference.covariance.shape, reference.n_rows
    ((2,), (2, 2), 1000)
    """

    mean: Floats
    covariance: Floats
    estimator: str
    shrinkage: float | None
    n_rows: int

    def _line(self) -> str:
        rows, channels = plural(self.n_rows, "row"), plural(len(self.mean), "channel")
        return f"by {self.estimator} on {rows} of {channels}"

    @cached_property
    def factor(self) -> Floats:
        """Inverse of the lower Cholesky factor of the covariance."""
        from scipy.linalg.lapack import dtrtri

        return np.asarray(dtrtri(self._cholesky, lower=1)[0])

    @cached_property
    def whitening(self) -> Floats:
        """Symmetric whitening S^(-1/2): multiply rows by it from the right.

        It is the Cholesky whitening turned by an orthogonal matrix, so that energies
        stay exact if channels differ in scale by many decades. Rounding leaves it not
        quite symmetric, so the side matters.
        """
        u, _, vt = np.linalg.svd(self._cholesky)
        return np.ascontiguousarray(((u @ vt) @ self.factor).T)

    @cached_property
    def precision(self) -> Floats:
        """Inverse of the covariance."""
        return np.asarray(self.factor.T @ self.factor)

    @cached_property
    def _cholesky(self) -> Floats:
        try:
            lower = np.asarray(np.linalg.cholesky(self.covariance), np.float64)
        except np.linalg.LinAlgError:
            lower = np.zeros_like(self.covariance)
        pivots, variances = np.diag(lower) ** 2, np.diag(self.covariance)
        if not (pivots > SINGULAR_PIVOT * variances).all():
            raise StreamError(
                f"The {self.estimator} covariance of the train residuals is singular: "
                "give more train rows, or leave out channels that are constant or "
                "copies of one another."
            )
        return lower

    def about_zero(self) -> "Reference":
        """Return the reference with mean 0 and the second moments as covariance.

        For rows whose distance from 0, and not from their mean, tells how normal they
        are. Their mean energy is the same.
        """
        return replace(
            self,
            mean=np.zeros_like(self.mean),
            covariance=self.covariance + np.outer(self.mean, self.mean),
        )

    def mean_energy(self, moments: Moments) -> float:
        """Return the mean energy of rows, from their moments alone.

        ``tr(S^-1 (C + d d')) / 2`` with C the covariance of the rows and d the
        difference of the means.
        """
        shift = moments.mean - self.mean
        spread = moments.covariance + np.outer(shift, shift)
        return 0.5 * float(np.sum(self.precision * spread))


@one_thread_each()
def fit_reference(
    residuals: object,
    *,
    estimator: str = "ledoit-wolf",
    moments: Moments | None = None,
    channels: Sequence[str] | None = None,
) -> Reference:
    """Fit the normal reference on attack-free training residuals.

    Parameters
    ----------
    residuals : array of shape (n, p), or Rows
        Train residuals.
    estimator : str
        ``ledoit-wolf`` (the default, the paper's protocol); for sensitivity
        analysis ``ledoit-wolf-standardised``, ``oas``, ``empirical`` or
        ``minimum-covariance-determinant`` (on at most 50,000 evenly spaced rows; needs
        the extra ``robust``).
    moments : Moments, optional
        Moments of the residuals, if they were computed before.
    channels : sequence of str, optional
        Names for error messages.

    Returns
    -------
    Reference
        Mean and covariance, invertible.

    Raises
    ------
    StreamError
        If the rows are not finite, never vary, or give a singular covariance.

    Examples
    --------
    >>> reference = fit_reference([[-2.0], [0.0], [0.0], [2.0]])
    >>> reference.mean.tolist(), reference.covariance.tolist(), reference.shrinkage
    ([0.0], [[2.0]], 0.0)
    """
    check_choice("estimator", estimator, ESTIMATORS)
    rows = row_tables.as_rows(residuals, "train")
    if rows.n_rows < 2:
        raise StreamError(f"`train` must have at least 2 rows; it has {rows.n_rows}.")
    summed = moments or merged(fold_moments(rows, channels=channels, n_folds=1))
    if summed.constant.all():
        raise StreamError(
            "`train` never changes: every channel is constant, so there is no normal "
            "spread to measure against; check what the detector wrote."
        )
    if np.sqrt(np.trace(summed.covariance)) < SMALLEST_SPREAD:
        raise StreamError(
            "`train` holds values so small that their powers are lost in floating "
            f"point (a spread below {SMALLEST_SPREAD:g}): multiply residuals, train "
            "and test, by one large number."
        )
    fitted = _from_moments(summed, estimator)
    if estimator == "ledoit-wolf-standardised":
        fourth = scaled_fourth(rows, summed.mean, scale_of(summed))
        fitted = standardised_reference(summed, fourth)
    elif fitted is None:
        fitted = _minimum_covariance_determinant(rows)
    _ = fitted._cholesky  # or it says what is wrong
    return fitted


def ledoit_wolf_shrinkage(moments: Moments) -> float:
    """Return the Ledoit-Wolf shrinkage towards the scaled identity, in [0, 1].

    Ledoit and Wolf (2004), doi:10.1016/S0047-259X(03)00096-4; the same value as
    scikit-learn's ``ledoit_wolf``, from moments instead of rows. 0 leaves the
    covariance as it is, 1 replaces it by a multiple of the identity.

    Raises
    ------
    StreamError
        If fourth powers of the residuals overflow.
    """
    covariance = moments.covariance / moments.unit**2
    p = len(covariance)
    mu = float(np.trace(covariance)) / p
    squared = float(np.sum(covariance**2))
    if not np.isfinite(squared) or not np.isfinite(moments.fourth):
        raise StreamError(
            "`train` holds values so large that their fourth powers overflow; check "
            "its scale."
        )
    delta = (squared - p * mu**2) / p
    beta = (moments.fourth / moments.count - squared) / (p * moments.count)
    beta = min(beta, delta)
    return 0.0 if beta <= 0 else beta / delta


def _from_moments(moments: Moments, estimator: str) -> Reference | None:
    """Return ``(1 - s) C + s (tr C / p) I`` as a reference, with the estimator's s.

    None if the estimator needs more than moments.
    """
    covariance, shrinkage = moments.covariance, None
    p = len(covariance)
    if estimator == "ledoit-wolf":
        shrinkage = ledoit_wolf_shrinkage(moments)
    elif estimator == "oas":
        # Oracle approximating shrinkage (Chen et al. 2010).
        scaled = covariance / moments.unit**2
        alpha = float(np.mean(scaled**2))
        mu2 = (float(np.trace(scaled)) / p) ** 2
        below = (moments.count + 1) * (alpha - mu2 / p)
        shrinkage = 1.0 if below == 0 else min((alpha + mu2) / below, 1.0)
        shrinkage = 0.0 if p == 1 else shrinkage
    elif estimator != "empirical":
        return None
    if shrinkage is not None:
        target = shrinkage * float(np.trace(covariance)) / p
        covariance = (1 - shrinkage) * covariance
        covariance.flat[:: p + 1] += target
    return Reference(
        mean=moments.mean,
        covariance=covariance,
        estimator=estimator,
        shrinkage=shrinkage,
        n_rows=moments.count,
    )


def scale_of(moments: Moments) -> Floats:
    """Return each channel's standard deviation; 1 where it is constant."""
    scale = np.sqrt(np.diag(moments.covariance))
    scale[moments.constant | (scale == 0)] = 1.0
    return np.asarray(scale)


def scaled_fourth(rows: row_tables.Rows, mean: Floats, scale: Floats) -> float:
    """Return ``sum |(x - mean) / scale|^4`` over rows, in one pass."""
    task = partial(_scaled_fourths, mean=mean, weights=scale**-2.0)
    return sum(fourth for part in row_tables.map_parts(rows, task) for fourth in part)


def _scaled_fourths(
    part: row_tables.Part, *, mean: Floats, weights: Floats
) -> list[float]:
    """Return the same sum for each block of a part of the rows."""
    from sightline._kernels.rows import center

    buffer = np.empty((row_tables.BLOCK_ROWS, part.rows.n_channels))
    squares = np.empty(row_tables.BLOCK_ROWS)
    fourths = []
    for _, block in part.blocks():
        n = len(block)
        center(block, mean, weights, buffer[:n], squares[:n])
        fourths.append(float(squares[:n] @ squares[:n]))
    return fourths


def standardised_reference(moments: Moments, fourth: float) -> Reference:
    """Return the Ledoit-Wolf reference of residuals in units of their own spread.

    It does not depend on the units of the channels.

    Parameters
    ----------
    moments : Moments
        Moments of the train residuals, in their own units.
    fourth : float
        `scaled_fourth` of the same rows.
    """
    scale = scale_of(moments)
    within = np.outer(scale, scale)
    correlation = replace(
        moments, second=moments.second / within, fourth=fourth, unit=1.0
    )
    shrunk = _from_moments(correlation, "ledoit-wolf")
    assert shrunk is not None  # noqa: S101
    return replace(
        shrunk,
        covariance=shrunk.covariance * within,
        estimator="ledoit-wolf-standardised",
    )


def _minimum_covariance_determinant(rows: row_tables.Rows) -> Reference:
    """Return the robust reference of at most `MCD_ROWS` evenly spaced rows."""
    require("sklearn", extra="robust", caller="The robust estimator")
    from sklearn.covariance import MinCovDet

    n_drawn = min(rows.n_rows, MCD_ROWS)
    drawn = (np.arange(n_drawn) * rows.n_rows) // n_drawn
    # A covariance that is not of full rank is refused by us, in our words.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        fitted = MinCovDet(random_state=0).fit(row_tables.gather_rows(rows, drawn))
    return Reference(
        mean=np.asarray(fitted.location_),
        covariance=np.asarray(fitted.covariance_),
        estimator="minimum-covariance-determinant",
        shrinkage=None,
        n_rows=n_drawn,
    )


def crossfit_excess(
    folds: Sequence[Moments],
    train_energy: float,
    *,
    estimator: str = "ledoit-wolf",
    one_sided: bool = False,
) -> float | None:
    """Return how much energy a reference misses on train rows it did not see.

    The median over contiguous folds of: mean energy of the fold under the reference
    of the other folds, minus the mean train energy. With little or autocorrelated
    train data this is well above 0 without any drift; 0 with many independent rows.

    Parameters
    ----------
    folds : sequence of Moments
        Moments of contiguous folds of train.
    train_energy : float
        Mean train energy.
    estimator : str
        One of `ESTIMATORS`.
    one_sided : bool
        Whether references are taken about 0.

    Returns
    -------
    float or None
        None if folds are too small, or the estimator needs more than moments.
    """
    if len(folds) < N_FOLDS or min(fold.count for fold in folds) < 2:
        return None
    excess = []
    for k, fold in enumerate(folds):
        others = merged([*folds[:k], *folds[k + 1 :]])
        if others.constant.all():
            return None
        try:
            reference = _from_moments(others, estimator)
            if reference is None:
                return None
            if one_sided:
                reference = reference.about_zero()
            energy = reference.mean_energy(fold)
        except StreamError:  # too few rows for an invertible covariance
            return None
        excess.append(energy - train_energy)
    return float(np.median(excess))
