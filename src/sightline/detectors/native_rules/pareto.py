"""The generalised Pareto law of how far scores reach above a start level.

By maximum likelihood with guards, and as TranAD's code fits it, for comparison.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from sightline.data.arrays import Floats

# Fewer peaks than this tell no shape of the tail.
LEAST_PEAKS, LEAST_DISTINCT = 20, 11
# Below -1 the likelihood has no maximum, above 1 the tail has no mean.
LOWEST_SHAPE, HIGHEST_SHAPE = -0.5, 1.0


class Pareto(NamedTuple):
    """A generalised Pareto law that starts at 0, and what is to be said of its fit."""

    shape: float
    scale: float
    notices: tuple[str, ...] = ()


# --------------------------------------------------------------- maximum likelihood


def scale_of_shape(peaks: Floats, shape: float) -> float:
    """Return the most likely scale where the shape is given.

    Examples
    --------
    >>> scale_of_shape(np.array([1.0, 2.0, 6.0]), 0.0)
    3.0
    """
    from scipy.optimize import brentq

    mean = float(peaks.mean())
    if shape == 0.0:
        return mean

    # Falls with the scale from above 0 to -1, so that there is one root.
    def slope(scale: float) -> float:
        return (1 + shape) * float(np.mean(peaks / (scale + shape * peaks))) - 1

    lowest = max(-shape * float(peaks.max()), 0.0)
    low, high = lowest + 1e-12 * mean, lowest + mean
    while slope(high) > 0:
        high = lowest + 2 * (high - lowest)
    return float(brentq(slope, low, high, xtol=1e-14 * mean))


def _guarded(peaks: Floats, shape: float, scale: float) -> Pareto:
    """Keep the shape within bounds; the scale then follows from it."""
    if LOWEST_SHAPE <= shape <= HIGHEST_SHAPE:
        return Pareto(shape, scale)
    kept = min(max(shape, LOWEST_SHAPE), HIGHEST_SHAPE)
    return Pareto(
        kept,
        scale_of_shape(peaks, kept),
        (
            f"The tail's shape came out as {shape:.3g}, was set to {kept:g} and the "
            "scale fitted anew: look at the largest calibration scores.",
        ),
    )


def _exponential(peaks: Floats, why: str) -> Pareto:
    return Pareto(
        0.0,
        float(peaks.mean()),
        (f"{why}, so the tail was taken as exponential: give more calibration rows.",),
    )


def _too_few(peaks: Floats) -> str | None:
    if len(peaks) < LEAST_PEAKS:
        return f"Only {len(peaks)} scores lie in the tail ({LEAST_PEAKS} are needed)"
    n_distinct = len(np.unique(peaks))
    if n_distinct < LEAST_DISTINCT:
        return (
            f"The tail has only {n_distinct} distinct scores "
            f"({LEAST_DISTINCT} are needed)"
        )
    return None


def fit_pareto(peaks: Floats, previous: Pareto | None = None) -> Pareto:
    """Return the most likely generalised Pareto law of peaks, guarded.

    Parameters
    ----------
    peaks : array of shape (n_peaks,)
        How far scores reach above the start, all positive.
    previous : Pareto, optional
        The law of nearly the same peaks, to start from: a hundred times faster.
    """
    from scipy.stats import genpareto

    # Peaks are only ever added: enough once is enough for good.
    few = None if previous is not None and previous.shape else _too_few(peaks)
    if few is not None:
        return _exponential(peaks, few)
    mean = float(peaks.mean())
    # SciPy's search takes steps of a fixed size, so peaks come in units of their mean.
    unit = peaks / mean
    found = None
    if previous is not None and previous.shape:
        found = _refined(unit, previous.shape * mean / previous.scale)
    if found is None:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                shape, _, scale = genpareto.fit(unit, floc=0)
        except (ValueError, RuntimeError):  # SciPy's FitError is a RuntimeError
            return _exponential(peaks, "No law could be fitted to the peaks")
        found = float(shape), float(scale)
    shape, scale = found
    if not (np.isfinite(shape) and np.isfinite(scale) and scale > 0):
        return _exponential(peaks, "No law could be fitted to the peaks")
    return _guarded(peaks, shape, scale * mean)


def _refined(peaks: Floats, ratio: float) -> tuple[float, float] | None:
    """Move shape / scale to the nearest maximum of the likelihood, by Newton's steps.

    None where there is none near, or too near to shape 0 to be told by rounding.
    """
    largest = float(peaks.max())
    for _ in range(12):
        if abs(ratio) < 1e-3 or 1 + ratio * largest <= 1e-9:
            return None
        inverse = 1 / (1 + ratio * peaks)
        shape = -float(np.log(inverse).mean())
        v, w = float(inverse.mean()), float(inverse @ inverse) / len(peaks)
        # Slope of the likelihood once the scale is eliminated, and its own slope.
        excess = (1 + shape) * v - 1
        of_shape = (1 - v) / ratio
        of_excess = (1 + shape) * (w - v) / ratio + v * of_shape
        slope = excess / (ratio * shape)
        of_slope = of_excess / (ratio * shape) - slope * (1 / ratio + of_shape / shape)
        if not of_slope < 0:  # no maximum near
            return None
        step = slope / of_slope
        if abs(step) <= 1e-9 * (1 + abs(ratio)):
            return shape, shape / ratio
        ratio -= step
    return None


# ------------------------------------------------------------- as in TranAD's code


def official_pareto(peaks: Floats, previous: Pareto | None = None) -> Pareto:
    """Return the law that TranAD's code fits, with its defects.

    It prefers shape 0 where the mean peak is large (a wrong sign in that likelihood)
    and misses positive shapes (it looks for them too far out). For comparison only.

    Parameters
    ----------
    peaks : array of shape (n_peaks,)
        How far scores reach above the start, all positive.
    previous : Pareto, optional
        Not used: each fit starts afresh.
    """
    mean, least = float(peaks.mean()), float(peaks.min())
    tiny = 1e-8
    # Added one by one: the rounding decides whether 10 or 11 points are searched.
    nearest = -1 / float(peaks.max()) + tiny
    with np.errstate(all="ignore"):
        roots = np.concatenate(
            [
                _official_roots(peaks, nearest + tiny, -tiny),
                _official_roots(
                    peaks,
                    2 * (mean - least) / (mean * least),
                    2 * (mean - least) / least**2,
                ),
            ]
        )
        best = Pareto(0.0, mean)
        highest = len(peaks) * (1 + np.log(mean))  # should be negative
        for root in roots:
            shape = float(1 + np.log(1 + root * peaks).mean()) - 1
            if shape == 0.0:
                continue
            scale = shape / float(root)
            likelihood = -len(peaks) * np.log(scale) - (1 + 1 / shape) * np.sum(
                np.log(1 + shape / scale * peaks)
            )
            if likelihood > highest:
                best, highest = Pareto(shape, scale), likelihood
    return best


def _official_roots(peaks: Floats, low: float, high: float) -> Floats:
    """Return the ends of one joint search from regularly spaced points."""
    from scipy.optimize import minimize

    step = (high - low) / 11
    # Peaks that are all the same, or larger than 1e8, leave nothing to search in.
    if not (step > 0 and np.isfinite(high) and low + step < high):
        return np.empty(0)
    points = np.arange(low + step, high, step)

    def squares(at: Floats) -> tuple[float, Floats]:
        s = 1 + at[:, None] * peaks
        u, v = 1 + np.log(s).mean(axis=1), np.mean(1 / s, axis=1)
        of_u = (1 / at) * (1 - v)
        of_v = (1 / at) * (-v + np.mean(1 / s**2, axis=1))
        miss = u * v - 1
        return float(np.sum(miss**2)), 2 * miss * (u * of_v + v * of_u)

    found = minimize(
        squares,
        points,
        method="L-BFGS-B",
        jac=True,
        bounds=[(low, high)] * len(points),
    )
    return np.asarray(found.x, np.float64)


FITS: Mapping[str, Callable[[Floats, Pareto | None], Pareto]] = {
    "maximum-likelihood": fit_pareto,
    "official": official_pareto,
}
