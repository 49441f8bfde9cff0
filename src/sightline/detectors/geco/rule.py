"""GeCo's alarm rule: the CUSUM of each formula's errors against its level."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.detectors.geco.formulas import Formula
from sightline.detectors.native_rules import NativeRule

# Added to the slack of the CUSUM when it runs, as published.
EPSILON = 1e-10

RULES = (
    NativeRule(
        "cusum",
        "A sum of what exceeds the drift of each invariant, against its threshold; any "
        "invariant raises the alarm.",
    ),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class CusumAlarms:
    """The accumulated errors of each formula, and its alarms.

    Parameters
    ----------
    values : array of shape (n_rows, n_formulas)
        The CUSUM: 0 where nothing is wrong, at most its cap.
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
    """Return the CUSUM of each formula's residuals, and where it is above its level.

    Parameters
    ----------
    residuals : array of shape (n_rows, n_formulas)
        Observed minus expected.
    begins : array of shape (n_rows,)
        Rows at which a run begins; the CUSUM restarts there.
    formulas : sequence of Formula
        One for each column.
    threshold_factor : float
        Alarm level in multiples of train's largest CUSUM.
    cusum_factor : float
        Cap of the CUSUM above the level, in multiples of the drift.
    """
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
