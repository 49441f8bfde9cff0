"""What a linear detector expects, as numbers: for a rule that reads telemetry itself.

`rules/standalone.py` computes the residuals with numpy alone.
"""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from sightline.data.arrays import Floats, Ints


class ForecastKind(StrEnum):
    """How the residual is made of a scaled row x, with a mean and a unit each channel.

    ``MEAN``
        ``x - mean``.
    ``LAGS``
        ``x - mean - unit * (intercept + sum over lags l of s_l @ weights[l])``, where
        s_l is ``(x - mean) / unit`` of the row l + 1 rows before.
    ``COMPONENTS``
        ``unit * (s - s @ loadings @ loadings.T)``.
    """

    MEAN = "mean"
    LAGS = "lags"
    COMPONENTS = "components"


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearForecast:
    """What turns rows of telemetry into residuals.

    Parameters
    ----------
    kind : ForecastKind
        The formula.
    tags : tuple of str
        Columns of the telemetry.
    kept : array of int, shape (p,)
        Those that have a residual, in the order of the rule's channels.
    offset, scale : array of shape (n_tags,)
        A scaled reading is ``(reading - offset) / scale``.
    means : array of shape (n_tags,)
        In place of a reading where there is none before it.
    hold_s : array of shape (n_tags,)
        For so many seconds the last reading of a tag counts.
    looks_at : int
        Rows of one run that a residual needs, its own included.
    memory : int
        For so many rows after its return a tag that was lost has no residual.
    mean, unit, intercept : array of shape (p,)
        Of scaled rows.
    weights : array of shape (order, p, p)
        Of lags; empty without.
    loadings : array of shape (p, k)
        Principal components; empty without.
    covariance : array of shape (p, p)
        A lost reading is what the others expect of it; empty: its last value.
    ridge : float
        Added to each variance for that, as a share of it.
    noise : array of shape (p,)
        Variance of residuals of train: one that is more uncertain by lost readings is
        not known; empty: all are.
    """

    kind: ForecastKind
    tags: tuple[str, ...]
    kept: Ints
    offset: Floats
    scale: Floats
    means: Floats
    hold_s: Floats
    looks_at: int
    memory: int
    mean: Floats
    unit: Floats
    intercept: Floats
    weights: Floats
    loadings: Floats
    covariance: Floats
    ridge: float = 0.0
    noise: Floats = field(default_factory=lambda: np.empty(0))
