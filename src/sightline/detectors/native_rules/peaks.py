"""Peaks over threshold: an alarm level from the tail of attack-free scores.

Scores above a high start level are peaks; how far they reach above it follows a
generalised Pareto law, which tells the level that one score in 1 / risk exceeds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, check_series
from sightline.detectors.native_rules.pareto import FITS, Pareto
from sightline.errors import StreamError


@dataclass(frozen=True, kw_only=True)
class PeaksOverThreshold:
    """What was found in the tail of the calibration scores.

    Parameters
    ----------
    level, risk : float
        Share of scores below the start of the tail, and share of scores that may
        exceed the threshold.
    start : float
        The score at which the tail starts.
    n_scores, n_peaks : int
        How many scores there were, and how many of them above the start.
    shape, scale : float
        Of the generalised Pareto law of the peaks.
    threshold : float
        What one score in 1 / risk exceeds.
    notices : tuple of str
        Sentences about guards that acted.
    """

    level: float
    risk: float
    start: float
    n_scores: int
    n_peaks: int
    shape: float
    scale: float
    threshold: float
    notices: tuple[str, ...] = ()


class DynamicThresholds(NamedTuple):
    """Threshold after each row of a stream, alarms, and the start of it all."""

    thresholds: Floats
    alarms: Bools
    first: PeaksOverThreshold
    notices: tuple[str, ...]


def tail_quantile(start: float, law: Pareto, ratio: float) -> float:
    """Return the score that a share `ratio` of the peaks lies above.

    Examples
    --------
    >>> tail_quantile(1.0, Pareto(1.0, 2.0), 0.25)
    7.0
    """
    shape, scale, _ = law
    if shape == 0.0:
        return float(start - scale * np.log(ratio))
    return float(start + scale / shape * np.expm1(-shape * np.log(ratio)))


def _official_quantile(start: float, law: Pareto, ratio: float) -> float:
    # Loses digits where the shape is nearly 0, as the published code does.
    shape, scale, _ = law
    if shape == 0.0:
        return float(start - scale * np.log(ratio))
    return float(start + scale / shape * (ratio**-shape - 1))


def _quantile(fit: str) -> Callable[[float, Pareto, float], float]:
    return _official_quantile if fit == "official" else tail_quantile


def _tail(scores: object, level: float, risk: float, fit: str) -> tuple[Floats, float]:
    """Check everything once; return the scores and where their tail starts."""
    if fit not in FITS:
        raise StreamError(f"`fit` must be one of {', '.join(FITS)}; got {fit!r}.")
    for name, share in (("level", level), ("risk", risk)):
        if not 0 < share < 1:
            raise StreamError(f"`{name}` must be between 0 and 1; got {share}.")
    known = check_series(scores, "scores")
    if len(known) == 0:
        raise StreamError("`scores` must have at least one row; it has none.")
    if known.min() == known.max():
        raise StreamError(
            f"All calibration scores are {known[0]:g}, so they have no tail: calibrate "
            "on rows whose scores vary."
        )
    rank = int(level * len(known))
    return known, float(np.partition(known, rank)[rank])


def peaks_over_threshold(
    scores: npt.ArrayLike,
    *,
    level: float = 0.98,
    risk: float = 1e-4,
    fit: str = "maximum-likelihood",
) -> PeaksOverThreshold:
    """Return the threshold that attack-free scores imply.

    Parameters
    ----------
    scores : array-like of shape (n_scores,)
        Calibration scores; the stream to be judged has no part in this.
    level : float
        Share of the scores below the tail.
    risk : float
        Share of attack-free scores that may exceed the threshold.
    fit : {"maximum-likelihood", "official"}
        Ours, or that of TranAD's code with its defects.

    Returns
    -------
    PeaksOverThreshold
    """
    known, start = _tail(scores, level, risk, fit)
    peaks = known[known > start] - start
    _refuse_small_tail(len(known), len(peaks), level, risk)
    law = FITS[fit](peaks, None)
    return PeaksOverThreshold(
        level=level,
        risk=risk,
        start=start,
        n_scores=len(known),
        n_peaks=len(peaks),
        shape=law.shape,
        scale=law.scale,
        threshold=_quantile(fit)(start, law, risk * len(known) / len(peaks)),
        notices=law.notices,
    )


def _refuse_small_tail(n_scores: int, n_peaks: int, level: float, risk: float) -> None:
    if risk * n_scores >= n_peaks:
        raise StreamError(
            f"A risk of {risk:g} allows {risk * n_scores:.3g} of {n_scores} scores, "
            f"but only {n_peaks} lie in the tail above level {level:g}: lower the risk "
            "or the level."
        )


def dynamic_thresholds(
    scores: npt.ArrayLike,
    stream: npt.ArrayLike,
    *,
    level: float = 0.98,
    risk: float = 1e-4,
    fit: str = "maximum-likelihood",
    refit_after: float = 0.001,
) -> DynamicThresholds:
    """Return a threshold that learns from a stream while judging it, row by row.

    A score above the threshold is an alarm and teaches nothing; one above the start of
    the tail is a further peak. No row has a part in its own alarm, nor in earlier ones.

    Parameters
    ----------
    scores, level, risk, fit
        As for `peaks_over_threshold`.
    stream : array-like of shape (n_rows,)
        Scores to be judged, in time.
    refit_after : float
        The law is fitted anew once this share of peaks has come in: at every peak
        while there are fewer than 1 / `refit_after`, and seldom enough later for long
        streams.

    Returns
    -------
    DynamicThresholds
        `thresholds` are those after each row; a row was judged by the one before.
    """
    if not refit_after >= 0:
        raise StreamError(f"`refit_after` must be 0 or more; got {refit_after}.")
    first = peaks_over_threshold(scores, level=level, risk=risk, fit=fit)
    known = check_series(scores, "scores")
    seen = check_series(stream, "stream")
    quantile = _quantile(fit)
    candidates = np.flatnonzero(seen > first.start)
    peaks = np.empty(first.n_peaks + len(candidates))
    peaks[: first.n_peaks] = known[known > first.start] - first.start
    n_peaks = n_fitted = first.n_peaks
    law = Pareto(first.shape, first.scale)
    thresholds = np.empty(len(seen))
    alarms = np.zeros(len(seen), np.bool_)
    threshold, done, n_alarms = first.threshold, 0, 0
    n_fits = n_guarded = 0
    for row in candidates:
        if seen[row] > threshold:
            alarms[row] = True
            n_alarms += 1
            continue
        peaks[n_peaks] = seen[row] - first.start
        n_peaks += 1
        if n_peaks - n_fitted < refit_after * n_fitted:
            continue
        n_fitted = n_peaks
        law = FITS[fit](peaks[:n_peaks], law)
        n_fits += 1
        n_guarded += bool(law.notices)
        n_scores = first.n_scores + int(row) + 1 - n_alarms
        thresholds[done:row] = threshold
        done = int(row)
        # A tail that has become too thin for the risk says no more than its start.
        threshold = max(
            quantile(first.start, law, risk * n_scores / n_peaks), first.start
        )
    thresholds[done:] = threshold
    notices = first.notices
    if n_guarded:
        notices += (
            f"{n_guarded} of {n_fits} fits along the stream had too few peaks or an "
            "unlikely shape and were guarded.",
        )
    return DynamicThresholds(thresholds, alarms, first, notices)


def official_static(
    scores: npt.ArrayLike,
    stream: npt.ArrayLike,
    *,
    level: float = 0.993,
    risk: float = 1e-5,
    multiplier: float = 1.0,
) -> tuple[float, PeaksOverThreshold]:
    """Return the threshold TranAD's code uses, which depends on the judged stream.

    Its record is the fitted threshold up to the first score above the start of the
    tail, and that start from there on; the mean of the record is used.

    Parameters
    ----------
    scores, stream, level, risk
        As for `dynamic_thresholds`, with the values of TranAD's code for SWaT.
    multiplier : float
        What TranAD's code multiplies with, by data set; 1 for SWaT and WADI.

    Returns
    -------
    threshold : float
    found : PeaksOverThreshold
    """
    found = peaks_over_threshold(scores, level=level, risk=risk, fit="official")
    seen = check_series(stream, "stream")
    if len(seen) == 0:
        raise StreamError("`stream` must have at least one row; it has none.")
    above = seen > found.start
    before = int(np.argmax(above)) if above.any() else len(seen)
    mean = (before * found.threshold + (len(seen) - before) * found.start) / len(seen)
    return multiplier * mean, found
