"""Drift: has the normal reference moved between training and test."""

from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import Floats, finite

# A mean drift this many times the median one, with a whitened residual this large
# among normal steps, is the work of a few extreme points: the paper's dagger.
DAGGER_RATIO = 3.0
DAGGER_MAX_Z = 200.0
# Below this share of the train energy a drift is too small to divide by.
SMALL_DRIFT = 0.01


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How far normal test energy lies from train energy.

    `d_crossfit` is the excess that train rows show under a reference fitted without
    them: a `d_drift` of up to twice that needs no change of the plant to explain it.
    """

    d_drift: float | None
    d_drift_robust: float | None
    mean_dominated: bool
    d_gap: float | None = None
    d_shift: float | None = None
    d_crossfit: float | None = None


def is_mean_dominated(d_drift: float, d_drift_robust: float, max_z: float) -> bool:
    """Tell whether a few extreme points make the mean drift what it is.

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
    """Compare normal test energy with train energy.

    Parameters
    ----------
    train_mean : float
        Mean train energy.
    normal_sorted : array
        Energy of attack-free test steps, sorted.
    max_z : float
        Largest whitened residual among them.
    calibration_mean : float, optional
        Mean energy of attack-free rows the detector was not trained on: splits the
        drift into what the detector fits (`d_gap`) and what moved (`d_shift`).
    d_crossfit : float, optional
        See `Drift`.
    """
    d_drift = float(np.mean(normal_sorted)) - train_mean
    d_drift_robust = float(np.median(normal_sorted)) - train_mean
    d_gap = None if calibration_mean is None else calibration_mean - train_mean
    return Drift(
        d_drift=finite(d_drift),
        d_drift_robust=finite(d_drift_robust),
        mean_dominated=is_mean_dominated(d_drift, d_drift_robust, max_z),
        d_gap=d_gap,
        d_shift=None if d_gap is None else finite(d_drift - d_gap),
        d_crossfit=d_crossfit,
    )


def is_sdr_usable(drift: Drift, train_mean: float) -> bool:
    """Tell whether a drift is large and real enough to divide an attack by."""
    needed = max(SMALL_DRIFT * train_mean, 2.0 * (drift.d_crossfit or 0.0))
    moved = np.inf if drift.d_drift is None else drift.d_drift
    return moved > 0 and moved >= needed and not drift.mean_dominated
