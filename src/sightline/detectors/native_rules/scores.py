"""The detectors' own scores, as published: what their alarm rules look at.

Errors are observed minus expected, as everywhere in Sightline; published codes have
them the other way round, which matters to FuSAGNet's reconstruction alone.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, check_residuals
from sightline.data.arrays import Residuals as Matrix
from sightline.errors import StreamError

Windows = npt.NDArray[np.float32] | npt.NDArray[np.float64]
# Least of what an error is divided by, and rows a score is the mean of.
_LEAST_SPREAD, _SMOOTHED = 0.01, 4


class NativeScores(NamedTuple):
    """Scores of each channel, and the largest of each row."""

    channels: Floats
    score: Floats


def _checked_errors(errors: object, name: str, n_channels: int | None = None) -> Matrix:
    """Return finite errors of shape (n_rows, n_channels)."""
    values = check_residuals(errors, name)
    if len(values) == 0:
        raise StreamError(f"`{name}` must have at least one row; it has none.")
    if n_channels is not None and values.shape[1] != n_channels:
        raise StreamError(
            f"`{name}` has {values.shape[1]} channels where {n_channels} are scored: "
            "give both blocks with the same channels."
        )
    # A sum is finite only if all of it is, but for overflow: look closer only then.
    with np.errstate(all="ignore"):
        total = values.sum(dtype=np.float64)
    if not np.isfinite(total):
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            raise StreamError(
                f"`{name}` must be finite; row {int(np.argmin(finite))} is not "
                f"({int((~finite).sum())} such rows): remove or repair them."
            )
    return values


def centre_and_spread(errors: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return median and inter-quartile range of each channel, over all other axes.

    Parameters
    ----------
    errors : array-like of shape (n_rows, n_channels) or (n_rows, n_channels, window)

    Returns
    -------
    centre, spread : array of shape (n_channels,)
    """
    values = np.asarray(errors)
    quartiles = np.empty((values.shape[1], 3))
    # Channel by channel: a copy of all of it would not fit where windows are long.
    for k in range(values.shape[1]):
        channel = values[:, k].astype(np.float64).ravel()
        quartiles[k] = np.percentile(channel, (25, 50, 75), overwrite_input=True)
    return quartiles[:, 1].copy(), quartiles[:, 2] - quartiles[:, 0]


def normalised_errors(
    errors: npt.ArrayLike, centre: npt.ArrayLike, spread: npt.ArrayLike
) -> Floats:
    """Return errors about their centre in units of their spread (plus 0.01)."""
    away: Floats = np.asarray(errors, np.float64) - np.asarray(centre)
    away /= np.abs(np.asarray(spread)) + _LEAST_SPREAD
    return away


def smoothed(scores: npt.ArrayLike) -> Floats:
    """Return the mean of each row and the three before it; the first three are 0.

    Examples
    --------
    >>> smoothed([[4.0], [0.0], [0.0], [0.0], [8.0]]).ravel()
    array([0., 0., 0., 1., 2.])
    """
    given = np.asarray(scores, np.float64)
    means = np.zeros_like(given)
    n = len(given) - _SMOOTHED + 1
    if n > 0:
        mean = means[_SMOOTHED - 1 :]
        for k in range(_SMOOTHED):
            mean += given[k : k + n]
        mean /= _SMOOTHED
    return means


def gdn_scores(errors: npt.ArrayLike, by: npt.ArrayLike | None = None) -> NativeScores:
    """Return GDN's scores.

    Parameters
    ----------
    errors : array-like of shape (n_rows, n_channels)
        Forecast errors; their sign does not matter.
    by : array-like of shape (n_other_rows, n_channels), optional
        Errors whose median and IQR are used; the scored ones if not given.
    """
    size = np.abs(_checked_errors(errors, "errors"))
    known = size if by is None else np.abs(_checked_errors(by, "by", size.shape[1]))
    channels = smoothed(normalised_errors(size, *centre_and_spread(known)))
    return NativeScores(channels, channels.max(axis=1))


def held_out_threshold(held_out: NativeScores) -> float:
    """Return the largest score over the channels and rows of a held-out block."""
    if len(held_out.score) < _SMOOTHED:
        raise StreamError(
            f"The held-out block has {len(held_out.score)} rows, but no score before "
            f"row {_SMOOTHED - 1}: hold out more."
        )
    return float(held_out.score.max())


# -------------------------------------------------------------- FuSAGNet's scores


@dataclass(frozen=True, eq=False)
class FusagnetErrors:
    """Both kinds of errors of one block, observed minus expected.

    Parameters
    ----------
    forecast : array of shape (n_rows, n_channels)
    windows : array of shape (n_rows, n_channels, window)
        Of the reconstruction of the window that each row was forecast from.
    """

    forecast: Matrix
    windows: Windows

    def __post_init__(self) -> None:
        """Check shapes and that all is finite."""
        forecast = _checked_errors(self.forecast, "forecast")
        windows = np.asarray(self.windows)
        if windows.ndim != 3 or windows.shape[:2] != forecast.shape:
            raise StreamError(
                "`windows` must have shape (rows, channels, window), with the rows and "
                f"channels of `forecast`; got {windows.shape} for {forecast.shape}."
            )
        flat = _checked_errors(windows.reshape(len(windows), -1), "windows")
        object.__setattr__(self, "forecast", forecast)
        object.__setattr__(self, "windows", flat.reshape(windows.shape))


def forecast_scores(errors: Matrix, by: Matrix | None = None) -> Floats:
    """Return FuSAGNet's forecast scores: signed errors are centred, then made positive.

    Parameters
    ----------
    errors, by
        As for `gdn_scores`.
    """
    centre, spread = centre_and_spread(errors if by is None else by)
    away = normalised_errors(errors, centre, spread)
    return smoothed(np.abs(away, out=away))


def reconstruction_scores(
    windows: Windows,
    by: Windows | None = None,
) -> Floats:
    """Return FuSAGNet's reconstruction scores, of shape (n_rows, n_channels).

    Of each window only the largest of expected minus observed is looked at, with its
    sign, as published: a reconstruction far too low does not show.

    Parameters
    ----------
    windows : array of shape (n_rows, n_channels, window)
        Observed minus expected.
    by : array of shape (n_other_rows, n_channels, window), optional
        Errors whose median and IQR are used; the scored ones if not given.
    """
    centre, spread = centre_and_spread(windows if by is None else by)
    # The least of observed minus expected; the sign goes with the absolute value.
    away = normalised_errors(windows.min(axis=2), centre, spread)
    return smoothed(np.abs(away, out=away))


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
        Of the block to be scored.
    by : FusagnetErrors, optional
        Errors whose medians and IQRs are used; the scored ones if not given.
    alpha : float
        The weight of the forecast in the loss the network was trained with.
    """
    known = errors if by is None else by
    _checked_errors(known.forecast, "by", errors.forecast.shape[1])
    channels = fused_scores(
        forecast_scores(errors.forecast, known.forecast),
        reconstruction_scores(errors.windows, known.windows),
        alpha,
    )
    return NativeScores(channels, channels.max(axis=1))


def tranad_scores(errors: npt.ArrayLike) -> Floats:
    """Return TranAD's score of each row: the mean of squared errors over channels."""
    values = _checked_errors(errors, "errors").astype(np.float64)
    return np.asarray(np.square(values, out=values).mean(axis=1), np.float64)
