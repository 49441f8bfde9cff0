"""FuSAGNet's score and alarm rules.

Published code has errors as expected minus observed. The sign matters for the
reconstruction alone.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.data.arrays import Residuals as Matrix
from sightline.detectors.native_rules import (
    BEST_BY_RANK,
    NativeAlarms,
    NativeRule,
    NativeScores,
    TestUse,
    alarms_by_labels,
    centre_and_spread,
    checked_errors,
    held_out_threshold,
    normalised_errors,
    rule_named,
    smoothed,
)
from sightline.errors import StreamError

Windows = npt.NDArray[np.float32] | npt.NDArray[np.float64]

RULES = (
    NativeRule(
        "held-out",
        "Our own, for want of a published rule without labels: median, IQR and "
        "threshold (the largest fused score) are those of the held-out block.",
    ),
    BEST_BY_RANK,
)


@dataclass(frozen=True, eq=False)
class FusagnetErrors:
    """Both kinds of errors of one block, observed minus expected.

    Parameters
    ----------
    forecast : array of shape (n_rows, n_channels)
        Errors of the forecast of each row.
    windows : array of shape (n_rows, n_channels, window)
        Errors of the reconstruction of the window that each row was forecast from.
    """

    forecast: Matrix
    windows: Windows

    def __post_init__(self) -> None:
        """Check that shapes agree and all values are finite."""
        forecast = checked_errors(self.forecast, "forecast")
        windows = np.asarray(self.windows)
        if windows.ndim != 3 or windows.shape[:2] != forecast.shape:
            raise StreamError(
                "`windows` must have shape (rows, channels, window), with the rows and "
                f"channels of `forecast`; got {windows.shape} for {forecast.shape}."
            )
        flat = checked_errors(windows.reshape(len(windows), -1), "windows")
        object.__setattr__(self, "forecast", forecast)
        object.__setattr__(self, "windows", flat.reshape(windows.shape))


def forecast_scores(errors: Matrix, by: Matrix | None = None) -> Floats:
    """Return the scores of the forecast: signed errors are centred, then made positive.

    Parameters
    ----------
    errors : array of shape (n_rows, n_channels)
        Forecast errors.
    by : array of shape (n_other_rows, n_channels), optional
        Errors whose median and IQR are used; `errors` itself if not given.
    """
    centre, spread = centre_and_spread(errors if by is None else by)
    distance = normalised_errors(errors, centre, spread)
    return smoothed(np.abs(distance, out=distance))


def reconstruction_scores(windows: Windows, by: Windows | None = None) -> Floats:
    """Return the scores of the reconstruction, of shape (n_rows, n_channels).

    Of each window only the largest of expected minus observed counts, with its sign,
    as published: a reconstruction that is far too low does not show.

    Parameters
    ----------
    windows : array of shape (n_rows, n_channels, window)
        Observed minus expected.
    by : array of shape (n_other_rows, n_channels, window), optional
        Errors whose median and IQR are used; `windows` itself if not given.
    """
    centre, spread = centre_and_spread(windows if by is None else by)
    # The least of observed minus expected: the absolute value removes the sign.
    distance = normalised_errors(windows.min(axis=2), centre, spread)
    return smoothed(np.abs(distance, out=distance))


def fused_scores(forecast: Floats, reconstruction: Floats, alpha: float) -> Floats:
    """Return the weighted harmonic mean of both scores.

    Examples
    --------
    >>> fused_scores(np.array([1.0]), np.array([0.0]), 0.5)
    array([0.])
    """
    if not 0 <= alpha <= 1:
        raise StreamError(f"`alpha` must be from 0 to 1; got {alpha}.")
    weights = alpha * reconstruction + (1 - alpha) * forecast
    fused = (alpha + (1 - alpha)) * forecast * reconstruction
    return np.asarray(fused / (weights + 0.01), np.float64)


def fusagnet_scores(
    errors: FusagnetErrors, by: FusagnetErrors | None = None, *, alpha: float = 0.5
) -> NativeScores:
    """Return FuSAGNet's fused scores.

    Parameters
    ----------
    errors : FusagnetErrors
        Of the block to score.
    by : FusagnetErrors, optional
        Errors whose medians and IQRs are used; `errors` itself if not given.
    alpha : float
        Weight of the forecast in the loss the network was trained with.
    """
    basis = errors if by is None else by
    checked_errors(basis.forecast, "by", errors.forecast.shape[1])
    channels = fused_scores(
        forecast_scores(errors.forecast, basis.forecast),
        reconstruction_scores(errors.windows, basis.windows),
        alpha,
    )
    return NativeScores(channels, channels.max(axis=1))


def fusagnet_alarms(
    held_out: FusagnetErrors,
    test: FusagnetErrors,
    rule: str = "held-out",
    labels: npt.ArrayLike | None = None,
    *,
    alpha: float = 0.5,
) -> NativeAlarms:
    """Return FuSAGNet's alarms.

    Parameters
    ----------
    held_out, test : FusagnetErrors
        Of the held-out block and of the test.
    rule : str
        Name of one of `RULES`.
    labels : array-like of shape (n_rows,), optional
        Of the test; used only by the rule whose name says so.
    alpha : float
        Weight of the forecast in the loss the network was trained with.
    """
    chosen = rule_named(RULES, rule, "FuSAGNet")
    if TestUse.LABELS in chosen.looks_at:
        return alarms_by_labels(
            chosen, fusagnet_scores(test, alpha=alpha).score, labels
        )
    threshold = held_out_threshold(fusagnet_scores(held_out, alpha=alpha))
    score = fusagnet_scores(test, held_out, alpha=alpha).score
    return NativeAlarms(
        rule=chosen, score=score, alarms=score > threshold, threshold=threshold
    )
