"""The normal reference P0 = N(mu0, S0), from moments that add up.

Only attack-free training residuals come in here. One pass over any blocks, or
over the partitions of a cluster, gives the same reference as the whole array.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sightline.checks import Bools, Floats, Residuals
from sightline.errors import StreamError
from sightline.rows import BLOCK_ROWS, Rows, gather_rows, read_on_grid, refuse_nonfinite

ESTIMATORS = (
    "ledoit-wolf",
    "ledoit-wolf-standardised",
    "oas",
    "empirical",
    "minimum-covariance-determinant",
)
# The robust estimator draws at most this many evenly spaced rows.
MCD_ROWS = 50_000
N_FOLDS = 5

# Blocks whose sums share a pilot mean before they are merged with the rest.
RUN_BLOCKS = 32

Tick = Callable[[int], None]


def no_tick(rows: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, eq=False)
class Moments:
    """What a set of rows leaves behind for a Gaussian reference; sets add up.

    With y = x - mean: `second` = sum y y', `cubic` = sum |y|^2 y and `fourth` =
    sum |y|^4. The last two are what Ledoit-Wolf shrinkage needs and what lets them
    move to another mean. `first` is the first row; `constant` tells which channels
    never leave it.
    """

    count: int
    mean: Floats
    second: Floats
    cubic: Floats
    fourth: float
    first: Floats
    constant: Bools

    def __add__(self, other: "Moments") -> "Moments":
        """Merge by Chan's formula, which keeps its digits beside a huge burst."""
        count = self.count + other.count
        mean = self.mean + (other.mean - self.mean) * (other.count / count)
        a, b = _moved(self, mean), _moved(other, mean)
        return Moments(
            count=count,
            mean=mean,
            second=a.second + b.second,
            cubic=a.cubic + b.cubic,
            fourth=a.fourth + b.fourth,
            first=self.first,
            constant=self.constant & other.constant & (self.first == other.first),
        )

    @property
    def covariance(self) -> Floats:
        """Covariance, divided by the number of rows."""
        return self.second / self.count


def _moved(about: Moments, mean: Floats, total: Floats | None = None) -> Moments:
    """Return the sums about another mean; `total` is sum y where that is not 0."""
    by = mean - about.mean
    n, second, cubic = about.count, about.second, about.cubic
    total = np.zeros_like(by) if total is None else total
    trace, square = float(np.trace(second)), float(by @ by)
    cross = np.outer(total, by)
    return replace(
        about,
        mean=mean,
        second=second - cross - cross.T + n * np.outer(by, by),
        cubic=cubic
        - 2 * second @ by
        - trace * by
        + 2 * float(total @ by) * by
        + square * total
        - n * square * by,
        fourth=about.fourth
        - 4 * float(by @ cubic)
        + 4 * float(by @ second @ by)
        + 2 * square * trace
        - 4 * square * float(by @ total)
        + n * square**2,
    )


class _Sums:
    """Plain sums over a run of blocks, about the mean of the first block.

    The first block is part of the run, so that however far the others lie from it,
    the sums are at most `RUN_BLOCKS` times what is left of them about the true mean:
    two digits, not all.
    """

    def __init__(self, n_channels: int) -> None:
        self.centered = np.empty((BLOCK_ROWS, n_channels))
        self.squares = np.empty(BLOCK_ROWS)
        self.second = np.zeros((n_channels, n_channels))
        self.total, self.cubic = np.zeros((2, n_channels))
        self.count = 0

    def add(self, block: Residuals) -> None:
        """Take in one block; raises FloatingPointError where it is not finite."""
        from sightline.kernels import center_and_sum

        if self.count == 0:
            self.pilot = block.mean(axis=0, dtype=np.float64)
            self.first, self.fourth = block[0].copy(), 0.0
            self.still = np.arange(block.shape[1])
            for sums in (self.second, self.total, self.cubic):
                sums[...] = 0
        y, squares = self.centered[: len(block)], self.squares[: len(block)]
        center_and_sum(block, self.pilot, y, squares, self.total, self.cubic)
        fourth = float(squares @ squares)
        if not np.isfinite(fourth):
            raise FloatingPointError
        self.fourth += fourth
        self.second += y.T @ y
        if len(self.still):
            same = (block[:, self.still] == self.first[self.still]).all(axis=0)
            self.still = self.still[same]
        self.count += len(block)

    def take(self) -> Moments:
        """Return the moments of the blocks so far, and begin anew."""
        constant = np.zeros(len(self.total), np.bool_)
        constant[self.still] = True
        about_pilot = Moments(
            count=self.count,
            mean=self.pilot,
            second=self.second.copy(),
            cubic=self.cubic.copy(),
            fourth=self.fourth,
            first=self.first.astype(np.float64),
            constant=constant,
        )
        mean = self.pilot + self.total / self.count
        self.count = 0
        return _moved(about_pilot, mean, self.total)


def fold_moments(
    rows: Rows,
    *,
    name: str = "train",
    channels: Sequence[str] | None = None,
    n_folds: int = N_FOLDS,
    tick: Tick = no_tick,
) -> list[Moments]:
    """Return the moments of contiguous folds of the rows, in one pass."""
    cuts = [rows.n_rows * k // n_folds for k in range(n_folds + 1)]
    ends = set(cuts) | set(range(0, rows.n_rows, RUN_BLOCKS * BLOCK_ROWS))
    folds: dict[int, Moments] = {}
    sums = _Sums(rows.n_channels)
    try:
        with np.errstate(all="ignore"):
            for start, block in read_on_grid(rows, cuts):
                sums.add(block)
                tick(len(block))
                if start + len(block) in ends:
                    fold = bisect_right(cuts, start) - 1
                    part = sums.take()
                    folds[fold] = folds[fold] + part if fold in folds else part
    except FloatingPointError:
        named = channels or [str(j) for j in range(rows.n_channels)]
        refuse_nonfinite(rows, name, named)
    return list(folds.values())


def merged(moments: Sequence[Moments]) -> Moments:
    """Return the moments of all of them together."""
    whole = moments[0]
    for part in moments[1:]:
        whole = whole + part
    return whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Where residuals sit while nothing is wrong: N(mean, covariance)."""

    mean: Floats
    covariance: Floats
    estimator: str
    shrinkage: float | None
    n_rows: int

    @cached_property
    def factor(self) -> Floats:
        """Return the inverse of the lower Cholesky factor of the covariance."""
        from scipy.linalg.lapack import dtrtri

        return np.asarray(dtrtri(self._cholesky, lower=1)[0])

    @cached_property
    def whitening(self) -> Floats:
        """Return the symmetric whitening S^(-1/2).

        It is the Cholesky one turned by an orthogonal matrix, so that energies
        stay exact where channels differ in scale by many decades.
        """
        u, _, vt = np.linalg.svd(self._cholesky)
        return np.asarray((u @ vt) @ self.factor)

    @cached_property
    def precision(self) -> Floats:
        """Inverse of the covariance."""
        return np.asarray(self.factor.T @ self.factor)

    @cached_property
    def _cholesky(self) -> Floats:
        try:
            return np.asarray(np.linalg.cholesky(self.covariance), np.float64)
        except np.linalg.LinAlgError as error:
            raise StreamError(
                f"The {self.estimator} covariance of the train residuals is singular: "
                "give more train rows, or leave out channels that are constant or "
                "copies of one another."
            ) from error

    def mean_energy(self, moments: Moments) -> float:
        """Return the mean energy of rows of which only the moments are known."""
        shift = moments.mean - self.mean
        spread = moments.covariance + np.outer(shift, shift)
        return 0.5 * float(np.sum(self.precision * spread))


def fit_reference(
    rows: Rows,
    *,
    estimator: str = "ledoit-wolf",
    moments: Moments | None = None,
    channels: Sequence[str] | None = None,
) -> Reference:
    """Fit the normal reference on attack-free training residuals.

    Parameters
    ----------
    rows : Rows
        Train residuals.
    estimator : str
        ``ledoit-wolf`` (the default, the paper's protocol); for sensitivity
        analysis ``ledoit-wolf-standardised``, ``oas``, ``empirical`` or
        ``minimum-covariance-determinant`` (on at most 50,000 evenly spaced rows).
    moments : Moments, optional
        Moments of `rows`, where they are known already.
    channels : sequence of str, optional
        Names for error messages.

    Returns
    -------
    Reference
        Mean and covariance, invertible.

    Raises
    ------
    StreamError
        Where the rows are not finite, never vary, or give a singular covariance.
    """
    if estimator not in ESTIMATORS:
        raise StreamError(
            f"`estimator` must be one of {', '.join(ESTIMATORS)}; got {estimator!r}."
        )
    known = moments or merged(fold_moments(rows, channels=channels, n_folds=1))
    if known.constant.all():
        raise StreamError(
            "`train` never changes: every channel is constant, so there is no normal "
            "spread to measure against; check what the detector wrote."
        )
    if estimator == "ledoit-wolf-standardised":
        scale = scale_of(known)
        return standardised_reference(known, scaled_fourth(rows, known.mean, scale))
    if estimator == "minimum-covariance-determinant":
        return _minimum_covariance_determinant(rows)
    return _REFERENCE_OF[estimator](known)


def ledoit_wolf_shrinkage(moments: Moments) -> float:
    """Return the Ledoit-Wolf shrinkage towards the scaled identity, in [0, 1].

    Ledoit and Wolf (2004), doi:10.1016/S0047-259X(03)00096-4; the same value as
    scikit-learn's ``ledoit_wolf``.
    """
    covariance = moments.covariance
    p = len(covariance)
    mu = float(np.trace(covariance)) / p
    squared = float(np.sum(covariance**2))
    delta = (squared - p * mu**2) / p
    beta = (moments.fourth / moments.count - squared) / (p * moments.count)
    beta = min(beta, delta)
    return 0.0 if beta <= 0 else beta / delta


def _ledoit_wolf(moments: Moments) -> Reference:
    return _shrunk(moments, ledoit_wolf_shrinkage(moments), "ledoit-wolf")


def _oas(moments: Moments) -> Reference:
    covariance = moments.covariance
    p, n = len(covariance), moments.count
    alpha = float(np.mean(covariance**2))
    mu2 = (float(np.trace(covariance)) / p) ** 2
    denominator = (n + 1) * (alpha - mu2 / p)
    shrinkage = 1.0 if denominator == 0 else min((alpha + mu2) / denominator, 1.0)
    return _shrunk(moments, shrinkage, "oas")


def _shrunk(moments: Moments, shrinkage: float, estimator: str) -> Reference:
    covariance = (1 - shrinkage) * moments.covariance
    p = len(covariance)
    target = shrinkage * float(np.trace(moments.covariance)) / p
    covariance.flat[:: p + 1] += target
    return Reference(
        mean=moments.mean,
        covariance=covariance,
        estimator=estimator,
        shrinkage=shrinkage,
        n_rows=moments.count,
    )


def _empirical(moments: Moments) -> Reference:
    return Reference(
        mean=moments.mean,
        covariance=moments.covariance,
        estimator="empirical",
        shrinkage=None,
        n_rows=moments.count,
    )


_REFERENCE_OF: dict[str, Callable[[Moments], Reference]] = {
    "ledoit-wolf": _ledoit_wolf,
    "oas": _oas,
    "empirical": _empirical,
}


def scale_of(moments: Moments) -> Floats:
    """Return each channel's standard deviation; 1 where it is constant."""
    scale = np.sqrt(np.diag(moments.covariance))
    scale[moments.constant | (scale == 0)] = 1.0
    return np.asarray(scale)


def scaled_fourth(rows: Rows, mean: Floats, scale: Floats) -> float:
    """Return the sum over rows of |(x - mean) / scale|^4."""
    from sightline.kernels import center_and_weigh

    buffer = np.empty((BLOCK_ROWS, rows.n_channels))
    return sum(
        center_and_weigh(block, mean, scale**-2.0, buffer[: len(block)])
        for _, block in read_on_grid(rows)
    )


def standardised_reference(moments: Moments, fourth: float) -> Reference:
    """Return Ledoit-Wolf on residuals in units of their own spread.

    It does not depend on the units of the channels. `fourth` is `scaled_fourth`.
    """
    scale = scale_of(moments)
    within = np.outer(scale, scale)
    correlation = replace(moments, second=moments.second / within, fourth=fourth)
    shrunk = _ledoit_wolf(correlation)
    return replace(
        shrunk,
        covariance=shrunk.covariance * within,
        estimator="ledoit-wolf-standardised",
    )


def _minimum_covariance_determinant(rows: Rows) -> Reference:
    from sklearn.covariance import MinCovDet

    n_drawn = min(rows.n_rows, MCD_ROWS)
    drawn = (np.arange(n_drawn) * rows.n_rows) // n_drawn
    fitted = MinCovDet(random_state=0).fit(gather_rows(rows, drawn))
    return Reference(
        mean=np.asarray(fitted.location_),
        covariance=np.asarray(fitted.covariance_),
        estimator="minimum-covariance-determinant",
        shrinkage=None,
        n_rows=n_drawn,
    )


def crossfit_excess(
    folds: Sequence[Moments], train_energy: float, *, estimator: str = "ledoit-wolf"
) -> float | None:
    """Return how much energy a reference misses on train rows it did not see.

    The median over contiguous folds of: mean energy of the fold under the reference
    of the other folds, minus the mean train energy. With little or autocorrelated
    train data this is well above 0 without any drift. None where folds are too small
    or the estimator needs more than moments.
    """
    fit = _REFERENCE_OF.get(estimator)
    if fit is None or len(folds) < N_FOLDS or min(fold.count for fold in folds) < 2:
        return None
    excess = []
    for k, fold in enumerate(folds):
        others = merged([*folds[:k], *folds[k + 1 :]])
        if others.constant.all():
            return None
        try:
            energy = fit(others).mean_energy(fold)
        except StreamError:  # too few rows for an invertible covariance
            return None
        excess.append(energy - train_energy)
    return float(np.median(excess))
