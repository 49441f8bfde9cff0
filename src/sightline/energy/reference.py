"""The normal reference P0 = N(mu0, S0); only attack-free training residuals come in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from sightline.data import row_tables
from sightline.data.arrays import Floats, require
from sightline.energy.moments import N_FOLDS, Moments, fold_moments, merged
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

    def checked(self) -> "Reference":
        """Return the reference itself; StreamError if its covariance is singular."""
        _ = self._cholesky
        return self

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
    if estimator not in ESTIMATORS:
        raise StreamError(
            f"`estimator` must be one of {', '.join(ESTIMATORS)}; got {estimator!r}."
        )
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
    if estimator == "ledoit-wolf-standardised":
        fourth = scaled_fourth(rows, summed.mean, scale_of(summed))
        fitted = standardised_reference(summed, fourth)
    elif estimator == "minimum-covariance-determinant":
        fitted = _minimum_covariance_determinant(rows)
    else:
        fitted = _REFERENCE_OF[estimator](summed)
    return fitted.checked()


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


def _ledoit_wolf(moments: Moments) -> Reference:
    """Return the Ledoit-Wolf reference: the default, and the paper's protocol."""
    return _shrunk(moments, ledoit_wolf_shrinkage(moments), "ledoit-wolf")


def _oas(moments: Moments) -> Reference:
    """Return the reference by oracle approximating shrinkage (Chen et al. 2010)."""
    covariance = moments.covariance / moments.unit**2
    p, n = len(covariance), moments.count
    if p == 1:
        return _shrunk(moments, 0.0, "oas")
    alpha = float(np.mean(covariance**2))
    mu2 = (float(np.trace(covariance)) / p) ** 2
    denominator = (n + 1) * (alpha - mu2 / p)
    shrinkage = 1.0 if denominator == 0 else min((alpha + mu2) / denominator, 1.0)
    return _shrunk(moments, shrinkage, "oas")


def _shrunk(moments: Moments, shrinkage: float, estimator: str) -> Reference:
    """Return ``(1 - s) C + s (tr C / p) I`` as a reference."""
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
    """Return the plain covariance as a reference."""
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
    shrunk = _ledoit_wolf(correlation)
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
    fit = _REFERENCE_OF.get(estimator)
    if fit is None or len(folds) < N_FOLDS or min(fold.count for fold in folds) < 2:
        return None
    excess = []
    for k, fold in enumerate(folds):
        others = merged([*folds[:k], *folds[k + 1 :]])
        if others.constant.all():
            return None
        try:
            reference = fit(others)
            if one_sided:
                reference = reference.about_zero()
            energy = reference.mean_energy(fold)
        except StreamError:  # too few rows for an invertible covariance
            return None
        excess.append(energy - train_energy)
    return float(np.median(excess))
