"""Quantiles and chances that a page needs, without scipy.

To import scipy takes a tenth of the time of a page. Quantiles are found by Newton's
method from the mode of the density. The distribution is convex below it and concave
above it, so that each step ends on the same side of the quantile, nearer to it.
"""

from collections.abc import Callable
from functools import cache
from math import comb, lgamma, log, log1p, nan

import numpy as np

from sightline.data.arrays import Floats

# What the last step leaves is about the square of it; a term below this adds nothing.
_LAST_STEP = 1e-9
_LAST_TERM = 1e-17
_MOST_STEPS = 100


def half_chi_square(p: int, levels: Floats) -> Floats:
    """Return quantiles of half a chi-square variable with p degrees of freedom.

    Parameters
    ----------
    p : int
        Degrees of freedom, at least 1.
    levels : array of shape (n,)
        Probabilities from 0.001 to below 1.

    Examples
    --------
    >>> from scipy.stats import chi2
    >>> levels = np.array([0.01, 0.5, 0.9999])
    >>> bool(np.allclose(2 * half_chi_square(51, levels), chi2.ppf(levels, 51)))
    True
    """
    a = p / 2

    def step(x: Floats) -> Floats:
        # The density is x^(a-1) e^-x / Gamma(a), the distribution x times the density
        # times the sum of x^k / (a (a+1) ... (a+k)).
        density = np.exp((a - 1) * np.log(x) - x - lgamma(a))
        term, k = np.full(len(x), 1 / a), 0
        total = term.copy()
        while np.any(term > _LAST_TERM * total):
            k += 1
            term *= x / (a + k)
            total += term
        return np.asarray((levels - x * density * total) / density)

    return _newton(np.full(len(levels), max(a - 1, 1e-8)), step)


@cache
def least_probability(hits: int, n: int, level: float) -> float:
    """Return the probability with which n tries give `hits` or more at a level.

    With P(X >= hits) = level for the number X of hits; it is the lower end of the
    interval of Clopper and Pearson.

    Parameters
    ----------
    hits, n : int
        At least one hit, and at most n; else the probability is nan.
    level : float
        Small, such as 0.025.

    Examples
    --------
    >>> round(least_probability(1, 1, 0.025), 12)
    0.025
    """
    if not 1 <= hits <= n:
        return nan

    def step(x: Floats) -> Floats:
        own = float(x[0])
        if own == 0:  # at first, if there is one hit
            return np.array([level / n])
        each = _probabilities(hits, n, own)
        # The density of the hits-th smallest of n uniform variables.
        density = each[0] * hits / own
        return np.array([(level - float(each.sum())) / density])

    return float(_newton(np.array([(hits - 1) / max(n - 1, 1)]), step)[0])


def probability_of_hits(hits: int, n: int, probability: float) -> float:
    """Return the probability that n tries give `hits` or more.

    Parameters
    ----------
    hits, n : int
        Numbers of hits and tries.
    probability : float
        That of a hit, above 0 and below 1.

    Examples
    --------
    >>> probability_of_hits(0, 10, 0.5), probability_of_hits(2, 2, 0.5)
    (1.0, 0.25)
    """
    if not 1 <= hits <= n:
        return 1.0 if hits < 1 else 0.0
    return min(float(_probabilities(hits, n, probability).sum()), 1.0)


def _probabilities(hits: int, n: int, probability: float) -> Floats:
    """Return the probabilities of `hits` to n hits in n tries."""
    k = np.arange(hits, n + 1)
    more = np.cumsum(np.log((n - k[:-1]) / (k[:-1] + 1)))
    ways = log(comb(n, hits)) + np.append(0.0, more)
    if probability == 1:
        return np.where(k == n, 1.0, 0.0)
    logs = ways + k * log(probability) + (n - k) * log1p(-probability)
    return np.asarray(np.exp(logs))


def _newton(x: Floats, step: Callable[[Floats], Floats]) -> Floats:
    """Return x after steps until they are small."""
    for _ in range(_MOST_STEPS):
        change = step(x)
        x = x + change
        if np.all(np.abs(change) <= _LAST_STEP * x):
            break
    return x
