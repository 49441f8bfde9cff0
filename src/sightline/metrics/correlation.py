"""Do two rankings agree: Spearman's rho and two ways to judge it."""

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from sightline.data.arrays import Floats

# Up to so many values all orders are tried for the exact p.
MOST_PERMUTED = 7
# Fewer pairs have no rank correlation worth a number.
FEWEST_RANKED = 3


@dataclass(frozen=True, kw_only=True)
class RankCorrelation:
    """Spearman's rho over n pairs; p by the t-approximation, and exact for few."""

    n: int
    rho: float | None
    p_value: float | None
    p_exact: float | None


def rank_correlation(first: Floats, second: Floats) -> RankCorrelation:
    """Correlate the ranks of two series; ties share their mean rank.

    None where fewer than three pairs, or a series without any order, leave it
    undefined.

    Examples
    --------
    >>> rank_correlation(np.arange(5.0), np.array([1.0, 0.0, 2.0, 4.0, 3.0])).rho
    0.8
    """
    n = len(first)
    ranks = [_mean_ranks(series) - (n + 1) / 2 for series in (first, second)]
    norm = float(np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1])))
    if n < FEWEST_RANKED or norm == 0:
        return RankCorrelation(n=n, rho=None, p_value=None, p_exact=None)
    rho = float(np.clip(ranks[0] @ ranks[1] / norm, -1, 1))
    return RankCorrelation(
        n=n,
        rho=rho,
        p_value=_t_approximation(rho, n),
        p_exact=_exact(ranks[0], ranks[1], norm, rho) if n <= MOST_PERMUTED else None,
    )


def _mean_ranks(series: Floats) -> Floats:
    _, inverse, counts = np.unique(series, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def _t_approximation(rho: float, n: int) -> float:
    from scipy.special import stdtr

    if abs(rho) == 1:
        return 0.0
    t = rho * np.sqrt((n - 2) / (1 - rho**2))
    return 2 * float(stdtr(n - 2, -abs(t)))


def _exact(first: Floats, second: Floats, norm: float, rho: float) -> float:
    """Return the share of all orders that correlate at least as strongly."""
    orders = np.array(list(permutations(range(len(second)))))
    reached = np.abs(second[orders] @ first / norm) >= abs(rho) - 1e-12
    return float(np.mean(reached))
