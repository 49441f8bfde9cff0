"""Quality: are the residuals fit to be measured, and how compact is their space."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import Bools, Floats


@dataclass(frozen=True, kw_only=True)
class Compactness:
    """Effective dimension of the residual space; a signature, not a score."""

    p_eff: float
    compactness: float


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Warning signs in the residuals themselves."""

    max_z: float | None
    max_z_test_normal: float | None
    excess_kurtosis: float | None
    constant_channels: tuple[str, ...] = ()
    one_sided_channels: tuple[str, ...] = ()
    scale_blind_channels: tuple[str, ...] = ()


def measure_compactness(train_mean: float, p: int) -> Compactness:
    """Return p_eff = 2 mean(e_train), and its share of the p channels.

    Examples
    --------
    >>> measure_compactness(12.5, 50)
    Compactness(p_eff=25.0, compactness=0.5)
    """
    return Compactness(p_eff=2 * train_mean, compactness=2 * train_mean / p)


def scale_blind(raw: Floats, shrunk: Floats, constant: Bools) -> Bools:
    """Tell which channels' variance shrinkage more than doubles.

    Their own spread hardly counts in the energy: they come in a smaller unit.
    """
    return (shrunk > 2 * raw) & ~constant


def names_where(mask: Bools, channels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the channels that a mask selects."""
    return tuple(channels[j] for j in np.flatnonzero(mask).tolist())
