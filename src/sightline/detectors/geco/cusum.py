"""GeCo's own second stage: errors added up, and alarms where that is too much."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.detectors.geco.formulas import Formula

# Added to the slack of the CUSUM at run time, as published.
EPSILON = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class CusumAlarms:
    """GeCo's own second stage: how much each formula's errors have added up.

    Parameters
    ----------
    values : array of shape (n_rows, n_formulas)
        The CUSUM, at its cap at most.
    is_alarm : array of shape (n_rows, n_formulas)
        Whether it is above its level; any of a row is an alarm of the detector.
    index : array of shape (n_rows,)
        Step of the recording.
    channels : tuple of str
        Targets of the formulas.
    """

    values: Floats
    is_alarm: Bools
    index: Ints
    channels: tuple[str, ...]


def cusum_of(
    residuals: Floats,
    begins: Bools,
    formulas: Sequence[Formula],
    *,
    threshold_factor: float,
    cusum_factor: float,
) -> tuple[Floats, Bools]:
    """Return the CUSUM of each formula's residuals, and where it is above its level."""
    from sightline._kernels.formulas import cusum_alarms

    drifts = np.array([formula.drift for formula in formulas])
    levels = threshold_factor * np.array([formula.threshold for formula in formulas])
    values = np.empty_like(residuals)
    is_alarm = np.empty(values.shape, np.bool_)
    cusum_alarms(
        residuals,
        begins,
        drifts,
        EPSILON,
        levels,
        levels + cusum_factor * drifts + EPSILON,
        values,
        is_alarm,
    )
    return values, is_alarm
