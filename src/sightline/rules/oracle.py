"""The test that is fastest for two known laws: a sum of log likelihood ratios.

`sightline.rules.ceiling` says what it is for.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.metrics.alarm_load import DAY_S, Delays
from sightline.rules.limits import SMALLEST_LIMIT, Budget, Trace, clusters_of, set_limit

# Ratios of neighbouring candidate limits: each tried within the last step before.
RATIOS: Final = (1.3, 1.06, 1.01)
# Share of the budget that goes to single rows: a lone spike does not add up.
ROW_SHARE: Final = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class LikelihoodRatio:
    """Log likelihood ratio of an attack's law to the normal law, for whitened rows.

    ``l(z) = isotropic z'z / 2 + weights' (directions' z)^2 / 2 + linear' z + constant``

    Parameters
    ----------
    linear : array of shape (p,)
        For a mean that is shifted.
    constant : float
        So that it is the logarithm of a ratio of densities.
    isotropic : float
        For a variance that is the same in all directions.
    directions, weights : array of shape (p, k) and (k,), optional
        Orthonormal directions, and what the variance along each weighs.
    """

    linear: Floats
    constant: float
    isotropic: float = 0.0
    directions: Floats | None = None
    weights: Floats | None = None

    @classmethod
    def of_law(cls, mean: Floats, covariance: Floats) -> "LikelihoodRatio":
        """Return the ratio of ``N(mean, covariance)`` to ``N(0, I)``."""
        variance, directions = np.linalg.eigh(covariance)
        along = mean @ directions
        constant = -0.5 * float(np.sum(along**2 / variance + np.log(variance)))
        return cls(
            linear=directions @ (along / variance),
            constant=constant,
            directions=directions,
            weights=1 - 1 / variance,
        )

    @classmethod
    def of_moments(cls, mean: Floats, second: Floats, n_rows: int) -> "LikelihoodRatio":
        """Return the ratio of ``N(m, (W C + p I) / (W + p))`` to ``N(0, I)``.

        Parameters
        ----------
        mean : array of shape (p,)
            Mean of the attack's whitened rows.
        second : array of shape (p, p)
            Their centred second-moment sum.
        n_rows : int
            Their number, W.
        """
        p = len(mean)
        return cls.of_law(mean, (second + p * np.eye(p)) / (n_rows + p))

    @classmethod
    def of_spread(cls, mean: Floats, variance: float) -> "LikelihoodRatio":
        """Return the ratio of ``N(m, c I)`` to ``N(0, I)``."""
        log_det = len(mean) * float(np.log(variance))
        return cls(
            linear=mean / variance,
            constant=-0.5 * (float(mean @ mean) / variance + log_det),
            isotropic=1 - 1 / variance,
        )

    @classmethod
    def of_mean(cls, mean: Floats) -> "LikelihoodRatio":
        """Return the ratio of ``N(m, I)`` to ``N(0, I)``."""
        return cls(linear=mean, constant=-0.5 * float(mean @ mean))

    def increments(self, rows: Floats, energy: Floats | None = None) -> Floats:
        """Return the log likelihood ratio of each whitened row.

        Parameters
        ----------
        rows : array of shape (n_rows, p)
            The rows.
        energy : array of shape (n_rows,), optional
            Half the sum of squares of each, if it is known.

        Examples
        --------
        >>> ratio = LikelihoodRatio.of_mean(np.array([2.0, 0.0]))
        >>> ratio.increments(np.array([[0.0, 5.0], [2.0, -1.0]])).tolist()
        [-2.0, 2.0]
        """
        found = rows @ self.linear + self.constant
        if self.isotropic:
            if energy is None:
                energy = 0.5 * np.einsum("tj,tj->t", rows, rows)
            found += self.isotropic * energy
        if self.directions is not None and self.weights is not None:
            along = rows @ self.directions
            np.square(along, out=along)
            found += 0.5 * (along @ self.weights)
        return np.asarray(found)


def restarting(
    increments: Floats, breaks: Ints, limit: float, start: float = 0.0
) -> tuple[Ints, float, float]:
    """Return the rows at which the sum exceeds, its last value, and its largest."""
    from sightline._kernels.alarms import restarting_sum

    begins, out = np.zeros((2, len(increments)), np.bool_)
    begins[breaks] = True
    last, largest = restarting_sum(increments, begins, limit, start, out)
    return np.flatnonzero(out), last, largest


def oracle_limit(
    increments: Floats, breaks: Ints, days: float, delays: Delays, budget: Budget
) -> float:
    """Return the limit of the restarting sum that keeps a budget over calm rows.

    Candidates run from the highest down; it is the last before the first that makes
    more alarms, or a larger share of time, than the budget allows.

    Parameters
    ----------
    increments : array of shape (n_rows,)
        Log likelihood ratio of calm rows.
    breaks : array of int
        First row of each stretch.
    days : float
        Days of all rows.
    delays, budget : Delays, Budget
        How alarms are joined and counted, and how many are accepted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=40_000) - 0.5  # a shift of one standard deviation
    >>> budget = Budget(per_day=24, share=0.5)
    >>> round(oracle_limit(rows, np.array([0]), 1.0, Delays(), budget), 1)
    5.4
    """

    def is_kept(limit: float) -> bool:
        places = restarting(increments, breaks, limit)[0]
        starts, lasts = clusters_of(places, breaks, delays.off)
        rows = lasts - starts + 1
        n_alarms = len(starts) + int(np.sum(rows // delays.unit))
        within = float(rows.sum()) <= budget.share * len(increments)
        return n_alarms <= budget.per_day * days and within

    top = restarting(increments, breaks, np.inf)[2]
    limit = max(top * (1 + 1e-9), SMALLEST_LIMIT)
    for ratio in RATIOS:
        while limit > 1e-3 and is_kept(limit / ratio):
            limit /= ratio
    return limit


@dataclass(frozen=True, kw_only=True, eq=False)
class Claims:
    """How much evidence a row may claim, by the calm rows of the record.

    A likelihood ratio exceeds x in no more than 1 / x of normal rows. Where more calm
    rows do, because their tails are heavier than a Gaussian's, the evidence of a row is
    minus the logarithm of the share of calm rows with at least as much.

    Parameters
    ----------
    above : array of float
        Increments of calm rows above 0, rising.
    n_rows : int
        Number of all calm rows.

    Examples
    --------
    >>> claims = Claims.of(np.array([0.0] * 98 + [50.0, 60.0]))
    >>> claims.of_rows(np.array([-3.0, 1.0, 55.0, 80.0])).round(1).tolist()
    [-3.0, 1.0, 3.9, 4.6]
    """

    above: Floats
    n_rows: int

    @classmethod
    def of(cls, calm: Floats) -> "Claims":
        """Return what the increments of calm rows allow."""
        return cls(above=np.sort(calm[calm > 0]), n_rows=len(calm))

    def of_rows(self, increments: Floats) -> Floats:
        """Return increments of any rows, none above what a row may claim."""
        claimed = increments.copy()
        is_above = increments > 0
        values = increments[is_above]
        # Sorted needles walk through memory in order: far fewer cache misses.
        order = np.argsort(values)
        n_as_large = np.empty(len(values), np.int64)
        n_as_large[order] = np.searchsorted(self.above, values[order])
        np.subtract(len(self.above), n_as_large, out=n_as_large)
        most = np.log((1 + self.n_rows) / (1 + n_as_large))
        claimed[is_above] = np.minimum(values, most)
        return claimed


@dataclass(frozen=True, kw_only=True, eq=False)
class Oracle:
    """The test that knows an attack's law, with limits for a budget."""

    trace: Floats
    claims: Claims
    row_limit: float
    limit: float

    @classmethod
    def of(cls, raw: Floats, breaks: Ints, step_s: float, budget: Budget) -> "Oracle":
        """Return the oracle by the increments of calm rows and where they begin."""
        delays, claims = Delays.of_step(step_s), Claims.of(raw)
        days = len(raw) * step_s / DAY_S
        rows = replace(budget, per_day=ROW_SHARE * budget.per_day)
        summed = replace(budget, per_day=(1 - ROW_SHARE) * budget.per_day)
        every = Trace(values=raw, breaks=breaks, days=days, delays=delays)
        trace = claims.of_rows(raw)
        return cls(
            trace=trace,
            claims=claims,
            row_limit=set_limit(every, rows, tail=False).value,
            limit=oracle_limit(trace, breaks, days, delays, summed),
        )

    def first_alarm(self, increments: Floats, start: float) -> int | None:
        """Return the row of the first alarm in an attack."""
        claimed = self.claims.of_rows(increments)
        summed = restarting(claimed, np.empty(0, np.int64), self.limit, start)[0]
        single = np.flatnonzero(increments > self.row_limit)
        first = [int(rows[0]) for rows in (summed, single) if len(rows)]
        return min(first) if first else None
