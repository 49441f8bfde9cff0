"""Vector autoregression: the next row from the last few rows of all channels.

The strongest linear baseline: whatever a network detects beyond it is due to being a
network. It needs numpy only and uses the same preprocessing and the same held-out block
as the other detectors.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.detectors.baselines import Baseline, baseline_card, moments
from sightline.detectors.settings import BaselineSettings, Count, NonNegative

# As far back as GDN looks, so that both have residuals for the same rows.
_MOST_LAGS = 5
# Ridges tried, in shares of a channel's variance.
RIDGES = tuple(10.0**power for power in range(1, -9, -1))
# Rows stacked with their lags at a time: some ten megabytes with WADI's channels.
_ROWS_AT_ONCE = 4096
# Errors that differ by less than this share of the mean's error are a tie.
_TIE = 1e-9
# An eigenvalue below this share of the largest one is rounding.
_LEAST_EIGENVALUE = 1e-13


@dataclass(frozen=True, kw_only=True)
class AutoregressionSettings(BaselineSettings):
    """Settings of vector autoregression.

    Parameters
    ----------
    order : int, optional
        Rows it looks back; chosen from 1 to 5 on held-out rows if not given.
    ridge : float, optional
        Added to the variance of every standardised channel and lag, which is 1; chosen
        on held-out rows if not given.
    """

    order: Count | None = None
    ridge: NonNegative | None = None


class Lagged(NamedTuple):
    """Count, means and second moments of rows joined with the rows before them.

    Columns are the channels of the row itself, then of the one before it, and so on.
    """

    n_rows: int
    mean: Floats
    second: Floats

    def about(self, origin: Floats) -> Floats:
        """Return second moments about an origin."""
        crossed = np.outer(self.mean, origin)
        return self.second - crossed - crossed.T + np.outer(origin, origin)


class Choice(NamedTuple):
    """A lag order and a ridge, with their error and their weights."""

    error: float
    order: int
    ridge: float
    weights: Floats


class VectorAutoregression(Baseline):
    """Expects a row to be a linear function of the last few rows of all channels.

    Weights are those of ridge regression on channels standardised by the rows learned
    from, with an intercept that is not shrunk. A channel constant in these rows is left
    out of the model, and its residual is its value minus the constant.

    Order and ridge are the pair with the least squared error on held-out normal rows,
    each channel counting the same; ties go to fewer rows, then to more ridge. Without
    held-out rows generalised cross-validation on the rows learned from decides. No
    order is tried with more weights a channel than there are rows to learn them from.
    Only second moments of rows joined with their lags are needed, which take one pass:
    one eigendecomposition for each order gives every ridge.

    The first rows of a run have no residual, as many as the most lags tried (5), so
    that the rows with a residual do not depend on the choice.

    References
    ----------
    H. Lütkepohl: New Introduction to Multiple Time Series Analysis. Springer, 2005.
    G. H. Golub, M. Heath, G. Wahba: Generalized cross-validation as a method for
    choosing a good ridge parameter. Technometrics 21, 1979.
    """

    card = baseline_card("var", "Vector autoregression", "forecast")
    settings_type = AutoregressionSettings
    learned = ("mean", "deviation", "intercept", "weights", "ridge")
    mean: Floats
    deviation: Floats
    intercept: Floats
    weights: Floats
    ridge: float

    @property
    def looks_at(self) -> int:  # type: ignore[override]
        """Rows of one run that a residual needs."""
        return (self.settings.order or _MOST_LAGS) + 1

    @property
    def order(self) -> int:
        """Rows it looks back."""
        return len(self.weights)

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        # Relative to one of its rows the sums of a constant channel are exactly 0.
        origin = values[trained[0]]
        offset, second = moments(values, trained, origin)
        variance = np.diag(second) - offset**2
        moving = np.flatnonzero(variance > 0)
        mean = origin + offset
        deviation = np.ones(len(mean))
        deviation[moving] = np.sqrt(variance[moving])
        most, given = self.looks_at - 1, self.settings.ridge
        units = mean[moving], deviation[moving]
        learned = lagged_moments(values, trained, most, moving, *units)
        judged = (
            lagged_moments(values, held_out, most, moving, *units)
            if len(held_out)
            else None
        )
        orders = (
            _orders(len(moving), len(trained), most)
            if self.settings.order is None
            else (most,)
        )
        chosen = best_choice(
            learned, judged, len(moving), orders, RIDGES if given is None else (given,)
        )
        n_channels, n_moving = len(mean), len(moving)
        weights = np.zeros((chosen.order, n_channels, n_channels))
        lags = chosen.weights.reshape(chosen.order, n_moving, n_moving)
        weights[np.ix_(np.arange(chosen.order), moving, moving)] = lags
        intercept = np.zeros(n_channels)
        past = learned.mean[n_moving : n_moving * (chosen.order + 1)]
        intercept[moving] = learned.mean[:n_moving] - past @ chosen.weights
        self.mean, self.deviation = mean, deviation
        self.intercept, self.weights = intercept, weights
        self.ridge = chosen.ridge

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        residuals = np.empty((len(rows), values.shape[1]))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            expected = np.tile(self.intercept, (len(part), 1))
            for lag, weights in enumerate(self.weights, start=1):
                expected += (values[part - lag] - self.mean) / self.deviation @ weights
            residuals[start : start + len(part)] = (
                values[part] - self.mean - expected * self.deviation
            )
        return residuals

    def _choices(self) -> tuple[str, ...]:
        rows = "row" if self.order == 1 else f"{self.order} rows"
        return (f"Each row is predicted from the last {rows}, ridge {self.ridge:g}.",)


def lagged_moments(
    values: Floats,
    rows: Ints,
    order: int,
    columns: Ints,
    mean: Floats,
    deviation: Floats,
) -> Lagged:
    """Return moments of standardised rows joined with the `order` rows before each.

    Parameters
    ----------
    values : array of shape (n, n_channels)
        All rows.
    rows : array of int
        Rows to use; each has `order` rows before it in its run.
    order : int
        Number of lags.
    columns : array of int
        Channels to use.
    mean, deviation : array of shape (len(columns),)
        To standardise these channels.

    Examples
    --------
    >>> values = np.array([[1.0], [2.0], [4.0]])
    >>> one = np.ones(1)
    >>> lagged_moments(values, np.array([1, 2]), 1, np.array([0]), 0 * one, one)
    Lagged(n_rows=2, mean=array([3. , 1.5]), second=array([[10. ,  5. ],
           [ 5. ,  2.5]]))
    """
    n_columns = len(columns)
    width = n_columns * (order + 1)
    total, second = np.zeros(width), np.zeros((width, width))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[start : start + _ROWS_AT_ONCE]
        stacked = np.empty((len(part), width))
        for lag in range(order + 1):
            taken = values[part - lag]
            if n_columns < values.shape[1]:
                taken = taken[:, columns]
            place = slice(lag * n_columns, (lag + 1) * n_columns)
            np.divide(taken - mean, deviation, out=stacked[:, place])
        total += stacked.sum(axis=0)
        second += stacked.T @ stacked
    return Lagged(len(rows), total / len(rows), second / len(rows))


def best_choice(
    learned: Lagged,
    judged: Lagged | None,
    n_columns: int,
    orders: tuple[int, ...],
    ridges: tuple[float, ...],
) -> Choice:
    """Return the order and ridge with the least error on the rows that judge.

    Parameters
    ----------
    learned : Lagged
        Moments of the rows learned from.
    judged : Lagged, optional
        Moments of held-out rows; without them generalised cross-validation judges.
    n_columns : int
        Channels.
    orders, ridges : tuple
        What is tried; of a tie the first pair wins.
    """
    covariance = learned.about(learned.mean)
    other = covariance if judged is None else judged.about(learned.mean)
    now = slice(0, n_columns)
    variance = float(np.trace(other[now, now]))
    choices = []
    for order in orders:
        past = slice(n_columns, n_columns * (order + 1))
        values, vectors = np.linalg.eigh(covariance[past, past])
        values = np.maximum(values, 0.0)
        floor = _LEAST_EIGENVALUE * values.max(initial=0.0)
        turned = vectors.T @ covariance[past, now]
        crossed = vectors.T @ other[past, now]
        spread = vectors.T @ other[past, past] @ vectors
        for ridge in ridges:
            damped = values + ridge
            inverse = np.zeros_like(damped)
            np.divide(1.0, damped, out=inverse, where=damped > floor)
            weights = inverse[:, np.newaxis] * turned
            error = float(
                variance
                - 2 * np.vdot(weights, crossed)
                + np.vdot(weights, spread @ weights)
            )
            if judged is None:
                # Degrees of freedom: the intercept, and each direction after shrinking.
                used = 1 + float(values @ inverse)
                left = 1 - used / learned.n_rows
                error = error / left**2 if left > 0 else np.inf
            choices.append(Choice(error, order, ridge, vectors @ weights))
    enough = min(choice.error for choice in choices) + _TIE * variance
    return next(choice for choice in choices if choice.error <= enough)


def _orders(n_columns: int, n_rows: int, most: int) -> tuple[int, ...]:
    """Return the orders with fewer weights a channel than rows; at least order 1."""
    fitting = [p for p in range(1, most + 1) if p * n_columns < n_rows]
    return tuple(fitting) or (1,)
