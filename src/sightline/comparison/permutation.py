"""Could the detectors be alike? Tests that exchange detectors within whole attacks.

If two detectors are alike, their values of an attack could as well be exchanged. Calm
time is the same for all attacks, so that a difference due to it is not exchanged: the
deviation that a random redraw of calm time makes is added, and the larger p-value of
with and without it counts (without it, pAUC@1% of alike detectors differs in 10 to 15%
of studies).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.metrics.ranking import mean_ranks

N_PERMUTATIONS = 1999
# All exchanges are tried for up to this many attacks.
MOST_EXHAUSTIVE = 10
# A difference this probable by exchanges alone gets a star.
STAR_LEVEL = 0.05
# Rounding must not make an exchange that gives the same look smaller.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class PairedValues:
    """What the attacks are worth to two detectors, and how calm time moves that.

    Parameters
    ----------
    weight : array of shape (n_attacks,)
        What each attack weighs; they sum to 1. 0 where not both detectors have it.
    difference : array of shape (n_attacks,)
        Its weight times the difference of its values.
    deviation : array of shape (n_draws,)
        How far the difference moves when calm time is redrawn.
    """

    weight: Floats
    difference: Floats
    deviation: Floats

    @property
    def n_attacks(self) -> int:
        """Number of attacks that both have."""
        return int(np.sum(self.weight > 0))

    @property
    def total(self) -> float:
        """The difference of the two detectors."""
        return float(self.difference.sum())


@dataclass(frozen=True, eq=False)
class Exchanges:
    """The exchanges that are tried, the same for all figures of a testbed.

    Parameters
    ----------
    signs : array of shape (n, n_attacks)
        -1 where the two detectors of a pair are exchanged, else 1; at random, for pairs
        with more attacks than those whose exchanges are all tried.
    orders : array of int, shape (n, n_attacks, n_detectors)
        Which detector's value each detector gets.
    draws : array of int, shape (n,)
        Which draw of calm time goes with each.
    """

    signs: Floats
    orders: Ints
    draws: Ints

    @classmethod
    def of(cls, has: Bools, n_draws: int, seed: int) -> "Exchanges":
        """Draw the exchanges.

        Parameters
        ----------
        has : array of bool, shape (n_detectors, n_attacks)
            Which detector has which attack: only those are exchanged.
        n_draws, seed : int
            Number of draws of calm time, and the seed.
        """
        rng = np.random.default_rng(seed)
        n_detectors, n_attacks = has.shape
        size = (N_PERMUTATIONS, n_attacks)
        orders = np.tile(np.arange(n_detectors), (*size, 1))
        keys = rng.random((*size, n_detectors))
        for pattern in np.unique(has, axis=1).T:
            attacks = np.flatnonzero((has == pattern[:, None]).all(axis=0))
            having = np.flatnonzero(pattern)
            if len(having) > 1:
                chosen = np.argsort(keys[:, attacks][:, :, having], axis=2)
                orders[np.ix_(np.arange(len(orders)), attacks, having)] = having[chosen]
        return cls(
            signs=rng.choice((1.0, -1.0), size=size),
            orders=orders,
            draws=rng.integers(0, n_draws, N_PERMUTATIONS),
        )

    def swapped(self, pair: "PairedValues") -> "LargestDifferences":
        """Return the difference of a pair in every exchange of its two detectors."""
        known = np.flatnonzero(pair.weight > 0)
        signs = self.signs[:, known]
        if len(known) <= MOST_EXHAUSTIVE:
            signs = _all_signs(len(known))
        plain = signs @ pair.difference[known]
        moved = plain + pair.deviation[np.resize(self.draws, len(plain))]
        return LargestDifferences(np.abs(plain), np.abs(moved))

    def exchanged(self, values: Floats) -> Floats:
        """Return the values after each exchange.

        Parameters
        ----------
        values : array of shape (n_detectors, n_attacks)
            What each attack is worth to each detector; nan where it has none.

        Returns
        -------
        array of shape (m, n_detectors, n_attacks)
            With 0 for nan.
        """
        known = np.nan_to_num(values).T
        taken = np.take_along_axis(known[None], self.orders, axis=2)
        return np.swapaxes(taken, 1, 2)


@cache
def _all_signs(n: int) -> Floats:
    """Return every choice of n signs, one in each row."""
    return np.array(list(product((1.0, -1.0), repeat=n)))


@dataclass(frozen=True, eq=False)
class LargestDifferences:
    """The largest difference of any pair, or of one, in every exchange.

    Parameters
    ----------
    plain, moved : array of shape (m,)
        Without and with the deviation of calm time.
    """

    plain: Floats
    moved: Floats

    def p(self, difference: float) -> float:
        """Return the probability of so large a difference if detectors are alike."""
        return max(_p(self.plain, difference), _p(self.moved, difference))

    @cached_property
    def critical(self) -> float:
        """What a difference must exceed to get a star."""
        return float(
            max(np.quantile(one, 1 - STAR_LEVEL) for one in (self.plain, self.moved))
        )

    @classmethod
    def of_pairs(
        cls,
        values: Floats,
        pairs: Mapping[tuple[int, int], PairedValues],
        exchanges: Exchanges,
    ) -> "LargestDifferences":
        """Exchange all detectors within each attack.

        Parameters
        ----------
        values : array of shape (n_detectors, n_attacks)
            What each attack is worth to each detector; nan where it has none.
        pairs : mapping
            By the two detectors.
        exchanges : Exchanges
            The exchanges.
        """
        if len(pairs) == 1:
            # There is nothing to correct for.
            (only,) = pairs.values()
            return exchanges.swapped(only)
        taken = exchanges.exchanged(values)
        plain, moved = np.zeros((2, len(taken)))
        means: dict[bytes, Floats] = {}
        for (a, b), pair in pairs.items():
            key = pair.weight.tobytes()
            if key not in means:
                means[key] = taken @ pair.weight
            swapped = means[key][:, a] - means[key][:, b]
            np.maximum(plain, np.abs(swapped), out=plain)
            swapped = swapped + pair.deviation[exchanges.draws]
            np.maximum(moved, np.abs(swapped), out=moved)
        return cls(plain, moved)


def _p(exchanged: Floats, difference: float) -> float:
    """Return (1 + exchanges that reach the difference) / (1 + exchanges)."""
    reached = np.sum(exchanged >= abs(difference) * (1 - _ROUNDING) - _ROUNDING)
    return float(1 + reached) / (1 + len(exchanged))


def ranks_of(values: Floats) -> Floats:
    """Return the rank of each detector in each attack; 1 is the best.

    Parameters
    ----------
    values : array of shape (n_detectors, n_attacks)
        Higher is better; ties share their mean rank.

    Examples
    --------
    >>> ranks_of(np.array([[0.9, 0.8], [0.7, 0.8], [0.2, 0.3]])).mean(axis=1)
    array([1.25, 1.75, 3.  ])
    """
    return np.column_stack([mean_ranks(-attack) for attack in values.T])


def critical_distance(ranks: Floats, exchanges: Exchanges) -> float:
    """Return the 95% point of the range of mean ranks over exchanges.

    Detectors whose mean ranks are closer than this are not told apart.
    """
    means = exchanges.exchanged(ranks).mean(axis=2)
    return float(np.quantile(np.ptp(means, axis=1), 1 - STAR_LEVEL))


def joined_groups(ranks: Floats, distance: float) -> list[list[int]]:
    """Return the largest groups of detectors that are closer than a distance.

    Parameters
    ----------
    ranks : array of shape (n_detectors,)
        Mean ranks, rising.
    distance : float
        The critical distance.

    Examples
    --------
    >>> joined_groups(np.array([1.0, 1.5, 2.2, 4.0]), 1.0)
    [[0, 1], [1, 2]]
    """
    groups: list[list[int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + distance)) - 1
        if last > first and (not groups or last > groups[-1][-1]):
            groups.append(list(range(first, last + 1)))
    return groups
