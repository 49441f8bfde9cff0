"""TranAD: a transformer reconstructs the newest row, twice (Tuli et al., 2022).

Its alarm rules are peaks over threshold. Scores above a high start level are peaks. How
far they reach above it follows a generalised Pareto law, which gives the level that one
score in 1 / risk exceeds. The law is fitted by maximum likelihood with guards, or as
TranAD's code fits it, for comparison.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from sightline.data.arrays import Bools, Floats, Labels, check_choice, check_series
from sightline.data.recording import Tag
from sightline.detectors.base import Arrays, RuleInput, read_card
from sightline.detectors.native_rules import (
    NativeAlarms,
    NativeRule,
    TestUse,
    checked_errors,
    rule_named,
)
from sightline.detectors.preprocessing import RowWindows, ScaledRows, padded_windows
from sightline.detectors.settings import (
    Count,
    NonNegative,
    Share,
    TrainedSettings,
    checked_value,
)
from sightline.detectors.trained import Evaluator, WindowedDetector
from sightline.errors import StreamError
from sightline.text import share

if TYPE_CHECKING:
    from torch import Tensor, nn

# Settings of the network that its weights do not show.
_SHAPE = ("layer_norm", "ff_activation", "pos_encoding", "output")
# With fewer peaks than this the shape of the tail is unknown.
LEAST_PEAKS, LEAST_DISTINCT = 20, 11
# Share of new peaks after which a law is fitted again along a stream.
REFIT_AFTER = 0.001
# Below -1 the likelihood has no maximum, above 1 the tail has no mean.
LOWEST_SHAPE, HIGHEST_SHAPE = -0.5, 1.0

RULES = (
    NativeRule(
        "pot",
        "Peaks over threshold, fitted by maximum likelihood to the scores of the "
        "attack-free rows.",
    ),
    NativeRule(
        "pot-dynamic",
        "Peaks over threshold that goes on learning from earlier rows of the test "
        "without an alarm.",
    ),
    NativeRule(
        "official-static-by-test-statistics",
        "What the published code uses: nearly the start of the tail, weighted by where "
        "the test first exceeds it; without its point adjustment.",
        (TestUse.STATISTICS,),
    ),
)


class Pareto(NamedTuple):
    """A generalised Pareto law that starts at 0, and remarks on its fit."""

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


def _exponential(peaks: Floats, why: str) -> Pareto:
    """Return the law of shape 0, with the reason for it."""
    return Pareto(
        0.0,
        float(peaks.mean()),
        (f"{why}, so the tail was taken as exponential: give more calibration rows.",),
    )


def fit_pareto(peaks: Floats, previous: Pareto | None = None) -> Pareto:
    """Return the most likely generalised Pareto law of peaks, guarded.

    Parameters
    ----------
    peaks : array of shape (n_peaks,)
        How far scores reach above the start, all positive.
    previous : Pareto, optional
        The law of nearly the same peaks, to start from: a hundred times faster.

    Returns
    -------
    Pareto
        Exponential (shape 0) where there are too few peaks or no law fits; `notices`
        says so.
    """
    from scipy.stats import genpareto

    # Peaks are only ever added: once there are enough there always are.
    if previous is None or not previous.shape:
        if (n := len(peaks)) < LEAST_PEAKS:
            why = f"Only {n} scores lie in the tail ({LEAST_PEAKS} are needed)"
            return _exponential(peaks, why)
        if (n := len(np.unique(peaks))) < LEAST_DISTINCT:
            why = f"The tail has only {n} distinct scores ({LEAST_DISTINCT} are needed)"
            return _exponential(peaks, why)
    mean = float(peaks.mean())
    # SciPy's search takes steps of a fixed size, so peaks come in units of their mean.
    unit = peaks / mean
    law = None
    if previous is not None and previous.shape:
        law = _refined(unit, previous.shape * mean / previous.scale)
    if law is None:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                shape, _, scale = genpareto.fit(unit, floc=0)
        except (ValueError, RuntimeError):  # SciPy's FitError is a RuntimeError
            return _exponential(peaks, "No law could be fitted to the peaks")
        law = float(shape), float(scale)
    shape, scale = law
    if not (np.isfinite(shape) and np.isfinite(scale) and scale > 0):
        return _exponential(peaks, "No law could be fitted to the peaks")
    if LOWEST_SHAPE <= shape <= HIGHEST_SHAPE:
        return Pareto(shape, scale * mean)
    bound = min(max(shape, LOWEST_SHAPE), HIGHEST_SHAPE)
    notice = (
        f"The tail's shape came out as {shape:.3g}, was set to {bound:g} and the "
        "scale fitted again: look at the largest calibration scores."
    )
    return Pareto(bound, scale_of_shape(peaks, bound), (notice,))


def _refined(peaks: Floats, ratio: float) -> tuple[float, float] | None:
    """Return shape and scale at the nearest maximum of the likelihood.

    Newton's steps on the ratio shape / scale. None where no maximum is near, or where
    the shape is so near to 0 that rounding decides.
    """
    largest = float(peaks.max())
    for _ in range(12):
        if abs(ratio) < 1e-3 or 1 + ratio * largest <= 1e-9:
            return None
        inverse = 1 / (1 + ratio * peaks)
        shape = -float(np.log(inverse).mean())
        v, w = float(inverse.mean()), float(inverse @ inverse) / len(peaks)
        # Slope of the likelihood once the scale is eliminated, and its derivative.
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
    # Peaks that are all the same, or larger than 1e8, leave no range to search.
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

    end = minimize(
        squares,
        points,
        method="L-BFGS-B",
        jac=True,
        bounds=[(low, high)] * len(points),
    )
    return np.asarray(end.x, np.float64)


FITS: Mapping[str, Callable[[Floats, Pareto | None], Pareto]] = {
    "maximum-likelihood": fit_pareto,
    "official": official_pareto,
}


# ------------------------------------------------------------- peaks over threshold


@dataclass(frozen=True, kw_only=True)
class PeaksOverThreshold:
    """The tail of the calibration scores, and the threshold it implies.

    Parameters
    ----------
    start : float
        The score at which the tail starts.
    n_scores, n_peaks : int
        Number of scores, and how many of them lie above the start.
    shape, scale : float
        Of the generalised Pareto law of the peaks.
    threshold : float
        The level that one score in 1 / risk exceeds.
    notices : tuple of str
        Sentences about guards that acted.
    """

    start: float
    n_scores: int
    n_peaks: int
    shape: float
    scale: float
    threshold: float
    notices: tuple[str, ...] = ()


class DynamicThresholds(NamedTuple):
    """Threshold after each row of a stream, alarms, and the fit it started from."""

    thresholds: Floats
    alarms: Bools
    first: PeaksOverThreshold
    notices: tuple[str, ...]


def tail_quantile(
    start: float, law: Pareto, ratio: float, *, official: bool = False
) -> float:
    """Return the score that a share `ratio` of the peaks lies above.

    Parameters
    ----------
    start : float
        The score at which the tail starts.
    law : Pareto
        Of the peaks above it.
    ratio : float
        Share of the peaks, in (0, 1].
    official : bool
        Compute as TranAD's code does, which loses digits where the shape is nearly 0.

    Examples
    --------
    >>> tail_quantile(1.0, Pareto(1.0, 2.0), 0.25)
    7.0
    """
    shape, scale, _ = law
    if shape == 0.0:
        return float(start - scale * np.log(ratio))
    if official:
        return float(start + scale / shape * (ratio**-shape - 1))
    return float(start + scale / shape * np.expm1(-shape * np.log(ratio)))


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
        Calibration scores; the stream to be judged is not used.
    level : float
        Share of the scores below the tail.
    risk : float
        Share of attack-free scores that may exceed the threshold.
    fit : {"maximum-likelihood", "official"}
        Ours, or that of TranAD's code with its defects.

    Returns
    -------
    PeaksOverThreshold

    Raises
    ------
    StreamError
        If the scores are constant, or the tail is too small for the risk.
    """
    check_choice("fit", fit, FITS)
    for name, value in (("level", level), ("risk", risk)):
        if not 0 < value < 1:
            raise StreamError(f"`{name}` must be between 0 and 1; got {value}.")
    normal = check_series(scores, "scores")
    if len(normal) == 0:
        raise StreamError("`scores` must have at least one row; it has none.")
    if normal.min() == normal.max():
        raise StreamError(
            f"All calibration scores are {normal[0]:g}, so they have no tail: "
            "calibrate on rows whose scores vary."
        )
    rank = int(level * len(normal))
    start = float(np.partition(normal, rank)[rank])
    peaks = normal[normal > start] - start
    if risk * len(normal) >= len(peaks):
        raise StreamError(
            f"A risk of {risk:g} allows {risk * len(normal):.3g} of {len(normal)} "
            f"scores, but only {len(peaks)} lie in the tail above level {level:g}: "
            "lower the risk or the level."
        )
    law = FITS[fit](peaks, None)
    ratio = risk * len(normal) / len(peaks)
    return PeaksOverThreshold(
        start=start,
        n_scores=len(normal),
        n_peaks=len(peaks),
        shape=law.shape,
        scale=law.scale,
        threshold=tail_quantile(start, law, ratio, official=fit == "official"),
        notices=law.notices,
    )


def dynamic_thresholds(
    scores: npt.ArrayLike,
    stream: npt.ArrayLike,
    *,
    level: float = 0.98,
    risk: float = 1e-4,
    fit: str = "maximum-likelihood",
) -> DynamicThresholds:
    """Return a threshold that learns from a stream while judging it, row by row.

    A score above the threshold is an alarm and is not learned from; one above the start
    of the tail is a further peak. No row affects its own alarm, nor an earlier one.
    The law is fitted again once a share `REFIT_AFTER` of peaks has come in: at every
    peak while there are few, and seldom enough later for long streams.

    Parameters
    ----------
    scores, level, risk, fit
        As for `peaks_over_threshold`.
    stream : array-like of shape (n_rows,)
        Scores to be judged, in time.

    Returns
    -------
    DynamicThresholds
        `thresholds` are those after each row; a row was judged by the one before.
    """
    first = peaks_over_threshold(scores, level=level, risk=risk, fit=fit)
    normal = check_series(scores, "scores")
    judged = check_series(stream, "stream")
    candidates = np.flatnonzero(judged > first.start)
    peaks = np.empty(first.n_peaks + len(candidates))
    peaks[: first.n_peaks] = normal[normal > first.start] - first.start
    n_peaks = n_fitted = first.n_peaks
    law = Pareto(first.shape, first.scale)
    thresholds = np.empty(len(judged))
    alarms = np.zeros(len(judged), np.bool_)
    threshold, done, n_alarms = first.threshold, 0, 0
    n_fits = n_guarded = 0
    for row in candidates:
        if judged[row] > threshold:
            alarms[row] = True
            n_alarms += 1
            continue
        peaks[n_peaks] = judged[row] - first.start
        n_peaks += 1
        if n_peaks - n_fitted < REFIT_AFTER * n_fitted:
            continue
        n_fitted = n_peaks
        law = FITS[fit](peaks[:n_peaks], law)
        n_fits += 1
        n_guarded += bool(law.notices)
        n_scores = first.n_scores + int(row) + 1 - n_alarms
        thresholds[done:row] = threshold
        done = int(row)
        ratio = risk * n_scores / n_peaks
        level_now = tail_quantile(first.start, law, ratio, official=fit == "official")
        # A tail that has become too thin for the risk gives no more than its start.
        threshold = max(level_now, first.start)
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
    tail : PeaksOverThreshold
    """
    tail = peaks_over_threshold(scores, level=level, risk=risk, fit="official")
    judged = check_series(stream, "stream")
    if len(judged) == 0:
        raise StreamError("`stream` must have at least one row; it has none.")
    above = judged > tail.start
    before = int(np.argmax(above)) if above.any() else len(judged)
    mean = (before * tail.threshold + (len(judged) - before) * tail.start) / len(judged)
    return multiplier * mean, tail


# ------------------------------------------------------------------ score and alarms


def tranad_scores(errors: npt.ArrayLike) -> Floats:
    """Return TranAD's score of each row: the mean of squared errors over channels."""
    values = checked_errors(errors, "errors").astype(np.float64)
    return np.asarray(np.square(values, out=values).mean(axis=1), np.float64)


def tranad_alarms(
    train_scores: npt.ArrayLike,
    test_scores: npt.ArrayLike,
    rule: str = "pot",
    labels: npt.ArrayLike | None = None,
    *,
    level: float | None = None,
    risk: float | None = None,
    multiplier: float = 1.0,
) -> NativeAlarms:
    """Return TranAD's alarms.

    Parameters
    ----------
    train_scores, test_scores : array-like of shape (n_rows,)
        From `tranad_scores`.
    rule : str
        Name of one of `RULES`.
    labels : array-like, optional
        Not used by any of the rules.
    level, risk : float, optional
        Of `peaks_over_threshold`: 0.98 and 1e-4; for the official rule 0.993 (that of
        SWaT; 0.999 for WADI) and 1e-5.
    multiplier : float
        Of `official_static`; other rules refuse it.
    """
    chosen = rule_named(RULES, rule, "TranAD")
    score = check_series(test_scores, "test_scores")
    is_official = TestUse.STATISTICS in chosen.looks_at
    if multiplier != 1.0 and not is_official:
        raise StreamError(
            f"`multiplier` means nothing to the rule {rule!r}: leave it out."
        )
    level = level if level is not None else 0.993 if is_official else 0.98
    risk = risk if risk is not None else 1e-5 if is_official else 1e-4
    if chosen.name == "pot-dynamic":
        moving = dynamic_thresholds(train_scores, score, level=level, risk=risk)
        return NativeAlarms(
            rule=chosen,
            score=score,
            alarms=moving.alarms,
            # The threshold each row was judged by: that after the row before.
            threshold=np.append(moving.first.threshold, moving.thresholds)[:-1],
            notices=moving.notices,
        )
    if is_official:
        threshold, tail = official_static(
            train_scores, score, level=level, risk=risk, multiplier=multiplier
        )
    else:
        tail = peaks_over_threshold(train_scores, level=level, risk=risk)
        threshold = tail.threshold
    return NativeAlarms.above(threshold, chosen, score, tail.notices)


# ---------------------------------------------------------------------- the detector


@dataclass(frozen=True, kw_only=True)
class TranADSettings(TrainedSettings):
    """Settings of TranAD, beyond those of every trained detector.

    Parameters
    ----------
    window, hidden : int
        Rows in a window; width of the inner network.
    dropout : float
        Share dropped in training.
    layer_norm : bool
        Normalise after each branch, as in the paper and not in the code.
    ff_activation : {"identity", "relu", "leaky_relu"}
        Of the inner network; published, the identity.
    pos_encoding : {"official", "standard"}
        Sine and cosine added in every column, or in alternate columns.
    output : {"sigmoid", "linear"}
        Of the head.
    mask_target : bool
        Give the decoders the row before the one they are to reconstruct: another model
        than the published one.
    alignment : {"aligned", "official"}
        Give a row the window that ends with it, or the one that ends before it.
    exported : {"second", "first"}
        Which of the two reconstructions to use.
    residual : {"signed", "squared"}
        Observed minus expected, or its square, which the published code scores.
    pot_level, pot_risk : float, optional
        Of its own alarm rule: the quantile at which the tail of scores begins, and how
        often a normal score may exceed the threshold.
    pot_multiplier : float
        Of the rule that looks at test statistics.
    """

    window: Count = 10
    hidden: Count = 16
    dropout: Share = 0.1
    layer_norm: bool = False
    ff_activation: Literal["identity", "relu", "leaky_relu"] = "identity"
    pos_encoding: Literal["official", "standard"] = "official"
    output: Literal["sigmoid", "linear"] = "sigmoid"
    mask_target: bool = False
    alignment: Literal["aligned", "official"] = "aligned"
    exported: Literal["second", "first"] = "second"
    residual: Literal["signed", "squared"] = "signed"
    pot_level: Share | None = None
    pot_risk: Share | None = None
    pot_multiplier: NonNegative = 1.0
    epochs: Count = 5
    batch_size: Count = 128
    learning_rate: NonNegative = 1e-4
    weight_decay: NonNegative = 1e-5
    decoupled_decay: bool = True
    lr_factor: NonNegative = 0.9
    shuffle: bool = False
    keep_best: bool = False
    validation_share: Share = 0.1
    range_epsilon: NonNegative = 1e-4

    def __post_init__(self) -> None:
        """Check every field, and that a masked target has a row before it."""
        super().__post_init__()
        if self.mask_target:
            checked_value("window", self.window, Annotated[int, Meta(ge=2)])


class TranAD(WindowedDetector):
    """TranAD as its published code has it, which is not what its paper describes.

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns; "official" gives each row the window that ends before it, holds
        nothing out, and divides constant channels by 0.0001.
    testbed : str, optional
        Use the card's settings for this testbed.
    **overrides
        Any of `TranADSettings` by name.
    """

    card = read_card("tranad")
    rules = RULES
    settings_type = TranADSettings
    official: ClassVar[Mapping[str, Any]] = {
        "alignment": "official",
        "validation_share": 0.0,
        "constant_channels": "epsilon",
        "cross_gaps": True,
        "dtype": "float64",
    }

    def _windows(self, scaled: ScaledRows, settings: TranADSettings) -> RowWindows:
        return padded_windows(
            scaled.values,
            scaled.breaks,
            settings.window,
            ahead=int(settings.alignment == "official"),
        )

    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        from sightline.detectors.tranad.network import TranADNetwork

        sizes = self._chosen("window", "hidden", "dropout")
        return TranADNetwork(len(tags), **sizes, **self._chosen(*_SHAPE))

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.tranad.network import TranADNetwork

        return TranADNetwork.of_weights(weights, **self._chosen(*_SHAPE))

    def loss(self, network: "nn.Module", batch: "Tensor", epoch: int) -> "Tensor":
        """Return the published loss of a batch; epochs count from 1."""
        from sightline.detectors.tranad.network import tranad_loss

        first, second = network(*self._network_input(batch))
        return tranad_loss(first, second, batch[..., -1], epoch)

    def _network_input(self, batch: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return windows (batch, rows, channels), and the row given to the decoders."""
        row = batch[..., -2 if self.settings.mask_target else -1]
        return batch.transpose(1, 2), row

    def _evaluator(self, network: Any, settings: TranADSettings) -> Evaluator:
        which = int(settings.exported == "second")
        power = 2 if settings.residual == "squared" else 1
        return lambda batch: (
            (batch[..., -1] - network(*self._network_input(batch))[which]) ** power
        )

    def _inference_chunk(self, settings: TranADSettings) -> int:
        return 128

    def _remarks(self, scaled: ScaledRows) -> tuple[str, ...]:
        if self.settings.output != "sigmoid":
            return ()
        outside = float(np.mean((scaled.values < 0) | (scaled.values > 1)))
        if not outside:
            return ()
        return (
            f"{share(outside, 2)} of the cells lie outside train's range, which "
            "TranAD's output cannot reach: their residual is at least the overshoot.",
        )

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return TranAD's score and alarms; see `tranad_alarms`."""
        settings: TranADSettings = self.settings
        if (settings.exported, settings.residual) != ("second", "signed"):
            if rule is None:
                return None
            raise StreamError(
                f"TranAD's rule {rule!r} is of the errors of its second "
                "reconstruction: set `exported` to 'second' and `residual` to 'signed'."
            )
        return tranad_alarms(
            tranad_scores(given.normal_values),
            tranad_scores(given.test_residuals.values),
            rule or "pot",
            labels,
            level=settings.pot_level,
            risk=settings.pot_risk,
            multiplier=settings.pot_multiplier,
        )
