"""How far a figure may be trusted: intervals with one more attack.

With 95% confidence an interval holds the value of a figure for endlessly many attacks
of these lengths, of the kinds these are a sample of, and endless calm time of the same
stationary process; detector, reference, limit and share of attack rows as they are. It
says nothing about other plants, other kinds of attack, or drift.

Most figures are means ``sum w_i v_i`` over attacks, with weights that sum to 1. In each
draw the calm rows are redrawn in blocks, the attacks get weights g from Exp(1), and one
more attack gets as much weight as an attack has on average: ``s = sum w_i^2``. It is
unseen for the lower end, wholly seen for the upper end,

    (sum g_i w_i v_i + g_0 s u) / (sum g_i w_i + g_0 s).

For values of 0 and 1 and equal weights this is the interval of Clopper and Pearson.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sightline.data.arrays import Floats
from sightline.figures import Figure
from sightline.metrics.drawing import DrawnStream, Draws, Value

# With fewer effective attacks than this an interval is marked.
FEW_EVENTS = 10
LEVEL = 0.95
_TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


class Weighting(StrEnum):
    """By what an attack weighs in a figure: rows, matched windows, or all alike."""

    ROWS = "rows"
    WINDOWS = "windows"
    EQUAL = "equal"


@dataclass(frozen=True)
class WeightedMean:
    """A figure that is a mean over attacks.

    Parameters
    ----------
    value : Value
        What an attack is worth.
    weighting : Weighting
        What it weighs.
    unseen : float
        What an attack is worth that leaves no trace.
    """

    value: Value
    weighting: Weighting
    unseen: float = 0.0


# Figures that are means over attacks, by their key in `sightline.figures`.
MEANS = {
    Figure.ROC_AUC: WeightedMean(Value.AUC, Weighting.ROWS, 0.5),
    Figure.PAUC_1: WeightedMean(Value.PAUC_1, Weighting.ROWS),
    Figure.PAUC_5: WeightedMean(Value.PAUC_5, Weighting.ROWS),
    Figure.MEAN_SEGMENT_AUC: WeightedMean(Value.AUC, Weighting.EQUAL, 0.5),
    Figure.P_FULL: WeightedMean(Value.BEATEN, Weighting.WINDOWS, 0.5),
    Figure.P_FULL_PER_SEGMENT: WeightedMean(Value.BEATEN, Weighting.EQUAL, 0.5),
    Figure.RECALL: WeightedMean(Value.COVERAGE, Weighting.ROWS),
    Figure.HITS: WeightedMean(Value.HIT, Weighting.EQUAL),
}


@dataclass(frozen=True, eq=False)
class Ends:
    """A figure in every draw, with one more attack unseen and wholly seen.

    Row 0 of both is the figure itself.
    """

    low: Floats
    high: Floats

    @property
    def estimate(self) -> float:
        """The figure itself."""
        return float(self.low[0])

    def __sub__(self, other: "Ends") -> "Ends":
        """Return the difference; one more attack is seen by one of both."""
        return Ends(self.low - other.high, self.high - other.low)


def effective_attacks(weight: Floats) -> float:
    """Return how many attacks of equal weight would tell as much: 1 / sum w^2.

    Parameters
    ----------
    weight : array of shape (n_attacks,)
        What each attack weighs, in any unit.

    Examples
    --------
    >>> effective_attacks(np.array([1.0, 1.0, 1.0, 1.0]))
    4.0
    >>> round(effective_attacks(np.array([68.0, *34 * [1.0]])), 1)
    2.2
    """
    return float(weight.sum() ** 2 / np.sum(weight**2))


def one_more_attack(
    values: Floats, weight: Floats, gamma: Floats, unseen: float
) -> Ends:
    """Return a mean over attacks in every draw, with one more attack.

    Parameters
    ----------
    values : array of shape (n, n_attacks) or (1, n_attacks)
        What each attack is worth in each draw.
    weight : array of shape (n_attacks,)
        Its weight; they sum to 1.
    gamma : array of shape (n, 1 + n_attacks)
        Weights from Exp(1); the first is that of one more attack.
    unseen : float
        What that attack is worth if it leaves no trace; the lowest of all values where
        the figure itself is below that.

    Examples
    --------
    >>> gamma = np.random.default_rng(0).exponential(size=(20_000, 2))
    >>> ends = one_more_attack(np.ones((1, 1)), np.ones(1), gamma, 0.0)
    >>> round(float(np.quantile(ends.low, 0.025)), 2)
    0.03
    """
    if float(values[0] @ weight) < unseen:
        unseen = float(np.min(values[0]))
    drawn = gamma[:, 1:] * weight
    more = gamma[:, 0] * np.sum(weight**2)
    whole = drawn.sum(axis=1) + more
    seen = np.einsum("ri,ri->r", drawn, np.broadcast_to(values, drawn.shape))
    return Ends((seen + more * unseen) / whole, (seen + more) / whole)


def interval_of(
    estimate: float | None, ends: Ends, *, low: float = 0.0, high: float = 1.0
) -> tuple[float, float | None] | None:
    """Return the 95% interval: 2.5% point of the low, 97.5% point of the high end.

    It is stretched to hold the estimate, and cut to the range of the figure.

    Parameters
    ----------
    estimate : float, optional
        The figure itself.
    ends : Ends
        The figure in every draw; nan does not count.
    low, high : float
        The range of the figure.

    Returns
    -------
    tuple, or None
        None if the figure is undefined. The upper end is None if it is infinite.
    """
    draws = [end[1:][~np.isnan(end[1:])] for end in (ends.low, ends.high)]
    if estimate is None or not all(map(len, draws)):
        return None
    # A value that was drawn, as there is none between a number and infinity.
    at = [
        float(np.quantile(drawn, tail, method="inverted_cdf"))
        for drawn, tail in zip(draws, _TAILS, strict=True)
    ]
    bottom, top = max(min(at[0], estimate), low), min(max(at[1], estimate), high)
    if not np.isfinite(bottom):
        return None
    return bottom, (top if np.isfinite(top) else None)


def weights_of(drawn: DrawnStream) -> dict[Weighting, Floats]:
    """Return what each attack of a stream weighs, by kind; they need not sum to 1."""
    stream = drawn.stream
    return {
        Weighting.ROWS: stream.attack_rows,
        Weighting.WINDOWS: stream.n_windows,
        Weighting.EQUAL: np.ones(stream.n_attacks),
    }


def ends_of(
    drawn: DrawnStream, draws: Draws, weights: Mapping[Weighting, Floats]
) -> dict[str, Ends]:
    """Return every figure with an interval but the drifts, in every draw.

    Parameters
    ----------
    drawn : DrawnStream
        What a stream gives in every draw.
    draws : Draws
        The draws.
    weights : mapping
        What each attack weighs, by kind.

    Returns
    -------
    dict
        By figure; without what the stream does not have.
    """
    ends = {"false_alarm_rate": Ends(drawn.false_rate, drawn.false_rate_more)}
    if drawn.stream.n_attacks == 0:
        return ends
    for figure, mean in MEANS.items():
        if mean.value in drawn.values:
            drawn_mean = mean_of(mean, drawn, draws, weights)
            if drawn_mean is not None:
                ends[figure.value] = drawn_mean
    ends |= _alarm_ends(drawn, ends["recall"])
    precision = drawn.average_precision
    ends["average_precision"] = Ends(precision[:, 0], precision[:, 1])
    if drawn.stream.d_full is not None:
        ends["median_d_full"] = weighted_median(drawn.stream.d_full, draws.gamma)
    return ends


def mean_of(
    mean: WeightedMean,
    drawn: DrawnStream,
    draws: Draws,
    weights: Mapping[Weighting, Floats],
) -> Ends | None:
    """Return a mean over attacks in every draw; None if no attack has a value."""
    values = drawn.values[mean.value]
    known = ~np.isnan(values[0])
    weight = np.where(known, weights[mean.weighting], 0.0)
    if weight.sum() == 0:
        return None
    weight, gamma = weight[known] / weight.sum(), draws.of_attacks(known).gamma
    return one_more_attack(values[:, known], weight, gamma, mean.unseen)


def _alarm_ends(drawn: DrawnStream, recall: Ends) -> dict[str, Ends]:
    """Return F1 and precision, from recall and the share of calm rows in alarm."""
    n_attack, n_normal = drawn.stream.attack_rows.sum(), drawn.stream.n_normal
    pairs = (recall.low, drawn.false_rate_more), (recall.high, drawn.false_rate)
    f1, precision = [], []
    for share, rate in pairs:
        true, alarms = share * n_attack, share * n_attack + rate * n_normal
        f1.append(2 * true / (n_attack + alarms))
        precision.append(true / np.where(alarms > 0, alarms, np.nan))
    return {"f1": Ends(*f1), "precision": Ends(*precision)}


def weighted_median(values: Floats, gamma: Floats) -> Ends:
    """Return the weighted median in every draw, with one more attack at 0 or infinity.

    Parameters
    ----------
    values : array of shape (n_attacks,)
        At least 0 each.
    gamma : array of shape (n, 1 + n_attacks)
        The weight of one more attack, and of each attack.
    """
    order = np.argsort(values)
    rising, weight, more = values[order], gamma[:, 1:][:, order], gamma[:, :1]
    return Ends(
        _medians(np.append(0.0, rising), np.hstack([more, weight])),
        _medians(np.append(rising, np.inf), np.hstack([weight, more])),
    )


def _medians(rising: Floats, weight: Floats) -> Floats:
    """Return the median of sorted values by each row of weights.

    The mean of the two middle values where the weight is halved between them.
    """
    below = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
    # So that equal weights are halved where they should be.
    lower = rising[np.argmax(below >= 0.5 - 1e-12, axis=1)]
    upper = rising[np.argmax(below > 0.5 + 1e-12, axis=1)]
    return np.asarray(np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper))


def drift_ends(drawn: DrawnStream, train_mean: float) -> dict[str, Ends]:
    """Return both drifts in every draw of calm blocks; they need no attack."""
    # Energies may be so large that their sum overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        d_drift, robust = drawn.mean - train_mean, drawn.median - train_mean
    return {"d_drift": Ends(d_drift, d_drift), "d_drift_robust": Ends(robust, robust)}


def count_interval(hits: int, n: int) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) 95% interval of a count of n.

    Examples
    --------
    >>> low, high = count_interval(0, 10)
    >>> low, round(high, 2)
    (0.0, 3.08)
    """
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else betaincinv(hits, n - hits + 1, _TAILS[0])
    high = 1.0 if hits == n else 1 - betaincinv(n - hits, hits + 1, _TAILS[0])
    return float(low * n), float(high * n)
