"""Normal operation itself: drift, compactness, and warning signs in the residuals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import Bools, Floats, finite

# A mean drift this many times the median one, with a whitened residual this large
# among normal steps, is the work of a few extreme points: the paper's dagger.
DAGGER_RATIO = 3.0
DAGGER_MAX_Z = 200.0
# Below this share of the train energy a drift is too small to divide by.
SMALL_DRIFT = 0.01
# A drift within this many times `d_crossfit` needs no change of the plant.
CROSSFIT_FACTOR = 2.0
# Shrinkage that multiplies a channel's variance by more than this hides its spread.
BLIND_FACTOR = 2


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How far normal test energy lies from train energy.

    Parameters
    ----------
    d_drift : float, optional
        How much more energy normal test rows have than train rows, by the mean.
        Formula: `mean(e_test_normal) - mean(e_train)`.
        Range: any number.
        Better: near 0.
        Nothing wrong: 0.
        Paper: D_drift.
        Null: if the mean overflows. Not to be trusted if `mean_dominated`, or below
        twice `d_crossfit`.
    d_drift_robust : float, optional
        The same by the median of the test.
        Formula: `median(e_test_normal) - mean(e_train)`.
        Range: any number.
        Better: near 0.
        Nothing wrong: about -0.3, lower with heavy tails.
        Paper: D_drift (rob.).
        Null: if the median overflows. A median minus a mean: slightly negative is
        normal.
    mean_dominated : bool
        A few extreme rows make the mean drift what it is.
        Formula: `d_drift >= 3 * abs(d_drift_robust)` and `max_z_test_normal >= 200`.
        Better: false.
        Nothing wrong: false.
        Paper: the dagger.
        Null: never.
    d_gap : float, optional
        How much better the detector fits what it was trained on.
        Formula: `mean(e_calibration) - mean(e_train)`.
        Range: any number.
        Better: near 0.
        Nothing wrong: 0.
        Null: without calibration residuals.
    d_shift : float, optional
        The rest of the drift: what the plant changed.
        Formula: `d_drift - d_gap`.
        Range: any number.
        Better: near 0.
        Nothing wrong: 0.
        Null: without calibration residuals. Wrong if calibration rows were trained
        on; if they were recorded long after train, `d_gap` holds some of the shift.
    d_crossfit : float, optional
        How much energy train rows gain under a reference fitted without them.
        Formula: median over 5 contiguous folds of the fold's mean energy under the
        reference of the other four, minus `mean(e_train)`. Fold k of n train rows is
        rows `k n // 5` to `(k + 1) n // 5`, in the order of time; breaks do not matter.
        Range: any number.
        Better: near 0.
        Nothing wrong: 0.
        Null: with fewer than 2 rows per fold, if four folds give no usable covariance,
        and for `ledoit-wolf-standardised` and `minimum-covariance-determinant`.
        Negative with heavy tails.
    """

    d_drift: float | None
    d_drift_robust: float | None
    mean_dominated: bool
    d_gap: float | None = None
    d_shift: float | None = None
    d_crossfit: float | None = None


@dataclass(frozen=True, kw_only=True)
class Compactness:
    """Effective dimension of the residual space; a signature, not a mark.

    Parameters
    ----------
    p_eff : float
        Effective dimension of the normal residuals.
        Formula: `2 mean(e_train)`.
        Range: from 0; at most `p`, unless the estimator leaves rows out.
        Nothing wrong: p with many rows.
        Paper: p_eff.
        Null: never.
    compactness : float
        The share of the channels that is.
        Formula: `p_eff / p`.
        Range: from 0 to about 1.
        Nothing wrong: 1 with many rows.
        Paper: p_eff / p.
        Null: never. A signature of the kind of detector: neither high nor low is
        better.
    """

    p_eff: float
    compactness: float


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Warning signs in the residuals themselves.

    Parameters
    ----------
    max_z : float, optional
        Largest whitened residual on train.
        Formula: max of `abs(z_tj)` over train.
        Range: from 0 to about `sqrt(n (p + 1))`, so small with few rows.
        Better: lower.
        Nothing wrong: 4 to 6 for Gaussian residuals.
        Paper: max-z.
        Null: never.
    max_z_test_normal : float, optional
        The same on normal test rows.
        Formula: max of `abs(z_tj)` over normal test rows.
        Range: from 0.
        Better: lower.
        Nothing wrong: 4 to 6.
        Null: never.
    excess_kurtosis : float, optional
        Heavy tails on train: rare, very large residuals.
        Formula: `N sum z^4 / (sum z^2)^2 - 3` over all `N = n p` whitened train values.
        Range: from -2.
        Better: near 0.
        Nothing wrong: 0.
        Paper: kurt.
        Null: if fourth powers overflow. A few rows can make it huge.
    constant_channels : tuple of str
        Channels that never change on train.
        Formula: lowest = highest.
        Better: empty.
        Nothing wrong: empty.
        Null: never. Any change in test is far from normal, by an amount that shrinkage
        sets.
    one_sided_channels : tuple of str
        Channels that are never negative: probably absolute errors or scores.
        Formula: lowest of train and test >= 0, and not constant.
        Better: empty.
        Nothing wrong: empty.
        Null: never.
    scale_blind_channels : tuple of str
        Channels whose numbers are so small compared with the others that they hardly
        count.
        Formula: shrinkage more than doubles the channel's variance.
        Better: empty.
        Nothing wrong: empty.
        Null: never. See `reference.standardised_roc_auc`.
    """

    max_z: float | None
    max_z_test_normal: float | None
    excess_kurtosis: float | None
    constant_channels: tuple[str, ...] = ()
    one_sided_channels: tuple[str, ...] = ()
    scale_blind_channels: tuple[str, ...] = ()


def is_mean_dominated(d_drift: float, d_drift_robust: float, max_z: float) -> bool:
    """Return whether a few extreme points make the mean drift what it is.

    Examples
    --------
    >>> is_mean_dominated(86.0, -9.4, 8.9e4)  # GeCo on SWaT: the paper's dagger
    True
    >>> is_mean_dominated(590.0, 620.0, 38.7)  # NSIBF on SWaT
    False
    """
    return d_drift >= DAGGER_RATIO * abs(d_drift_robust) and max_z >= DAGGER_MAX_Z


def measure_drift(
    train_mean: float,
    normal_sorted: Floats,
    *,
    max_z: float,
    calibration_mean: float | None = None,
    d_crossfit: float | None = None,
) -> Drift:
    """Return how far normal test energy lies from train energy.

    Parameters
    ----------
    train_mean : float
        Mean train energy.
    normal_sorted : array of shape (n_normal,)
        Energy of attack-free test steps, sorted.
    max_z : float
        Largest whitened residual among them.
    calibration_mean : float, optional
        Mean energy of attack-free rows the detector was not trained on: splits the
        drift into what the detector fits (`d_gap`) and what moved (`d_shift`).
    d_crossfit : float, optional
        Excess of train rows under a reference fitted without them.

    Returns
    -------
    Drift
        A difference that overflows is None.

    Examples
    --------
    >>> drift = measure_drift(2.0, np.array([1.0, 2.0, 6.0]), max_z=5.0)
    >>> drift.d_drift, drift.d_drift_robust, drift.mean_dominated
    (1.0, 0.0, False)
    """
    # Energies may be so large that their sum overflows.
    with np.errstate(over="ignore"):
        d_drift = float(np.mean(normal_sorted)) - train_mean
        d_drift_robust = float(np.median(normal_sorted)) - train_mean
    d_gap = None if calibration_mean is None else finite(calibration_mean - train_mean)
    return Drift(
        d_drift=finite(d_drift),
        d_drift_robust=finite(d_drift_robust),
        mean_dominated=is_mean_dominated(d_drift, d_drift_robust, max_z),
        d_gap=d_gap,
        d_shift=None if d_gap is None else finite(d_drift - d_gap),
        d_crossfit=d_crossfit,
    )


def is_sdr_usable(drift: Drift, train_mean: float) -> bool:
    """Return whether a drift is large and real enough to divide an attack by.

    It must be above 0, above 1% of the train energy and above twice `d_crossfit`, and
    not be the work of a few extreme points.
    """
    moved = np.inf if drift.d_drift is None else drift.d_drift
    needed = max(SMALL_DRIFT * train_mean, CROSSFIT_FACTOR * (drift.d_crossfit or 0.0))
    return moved > 0 and moved >= needed and not drift.mean_dominated


def measure_compactness(train_mean: float, p: int) -> Compactness:
    """Return p_eff = 2 mean(e_train), and its share of the p channels.

    Examples
    --------
    >>> measure_compactness(12.5, 50)
    Compactness(p_eff=25.0, compactness=0.5)
    """
    return Compactness(p_eff=2 * train_mean, compactness=2 * train_mean / p)


def scale_blind(raw: Floats, shrunk: Floats, constant: Bools) -> Bools:
    """Return which channels' variance shrinkage more than doubles.

    Their own spread hardly counts in the energy: they come in a smaller unit.

    Parameters
    ----------
    raw, shrunk : array of shape (p,)
        Variance of each channel before and after shrinkage.
    constant : array of bool, shape (p,)
        Channels that never change, which do not count.
    """
    return (shrunk > BLIND_FACTOR * raw) & ~constant


def names_where(mask: Bools, channels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the channels that a mask selects."""
    return tuple(channels[j] for j in np.flatnonzero(mask).tolist())
