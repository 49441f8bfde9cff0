"""Are two detectors alike? One paired procedure for interval, p-value and star.

A difference D of two detectors is a weighted mean of what each attack says of it, d_i
with weights w_i that sum to 1. Its error has these parts: the delete-one jackknife over
attacks; one more attack of mean weight that tells the two apart in nothing, which adds
``(D / (n_eff + 1))^2`` with ``n_eff = 1 / sum w_i^2``; the redrawing of attack-free
time in blocks; and the spread over seeds. To Student's t times the error comes a
margin for the attack that is unlike all seen: half the range of the d_i and 0, over
n + 1. The p-value is that of the level at which this interval reaches 0, so that a
star stands if and only if the interval, corrected for all that is tested together,
excludes 0. For identical copies every d_i is 0, the interval has width 0, and p is 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.data.arrays import Floats

N_PERMUTATIONS = 1999
# A difference less probable than this between detectors that are alike gets a star.
STAR_LEVEL = 0.05
# With fewer attacks no interval can be trusted.
FEWEST_ATTACKS = 5
# "Could have been seen": with a star in four of five such studies.
_POWER_SDS = 0.84
# Beyond this many attacks a number says no more than "very many".
MOST_NEEDED = 10_000


@dataclass(frozen=True, eq=False, kw_only=True)
class PairedFigure:
    """The difference of two detectors in one figure, and what moves it.

    Parameters
    ----------
    weight : array of shape (n_attacks,)
        What each attack weighs; above 0, and they sum to 1.
    by_attack : array of shape (n_attacks,)
        The difference in each attack.
    deviation : array of shape (n_draws,)
        How far the difference moves when attack-free time is redrawn.
    estimate : float, optional
        The difference itself, if it is not the weighted mean over attacks.
    seed_variance : float
        Variance of the mean over seeds; 0 if unknown.
    n_seeds : int
        Seeds behind it.

    Examples
    --------
    >>> n = 12
    >>> seen = PairedFigure(
    ...     weight=np.full(n, 1 / n),
    ...     by_attack=np.linspace(0.0, 0.4, n),
    ...     deviation=np.zeros(1),
    ... )
    >>> [round(end, 2) for end in seen.interval()], round(seen.p, 4)
    ([0.09, 0.31], 0.0009)
    """

    weight: Floats
    by_attack: Floats
    deviation: Floats
    estimate: float | None = None
    seed_variance: float = 0.0
    n_seeds: int = 0

    @property
    def n_attacks(self) -> int:
        """Number of attacks that both have."""
        return len(self.weight)

    @cached_property
    def difference(self) -> float:
        """The first detector minus the second."""
        if self.estimate is not None:
            return self.estimate
        return float(self.weight @ self.by_attack)

    @cached_property
    def _effective(self) -> float:
        """How many attacks of equal weight would tell as much."""
        return float(1 / np.sum(self.weight**2))

    @cached_property
    def _attack_variance(self) -> float:
        n, weight = self.n_attacks, self.weight
        without = (self.difference - weight * self.by_attack) / (1 - weight)
        jackknife = (n - 1) / n * float(np.sum((without - without.mean()) ** 2))
        return jackknife + (self.difference / (self._effective + 1)) ** 2

    @cached_property
    def error(self) -> float:
        """The standard error."""
        calm = float(np.mean(self.deviation**2))
        return float(np.sqrt(self._attack_variance + calm + self.seed_variance))

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom: of attacks and seeds, by Welch and Satterthwaite.

        Of the attacks, half-way between their number and that of effective ones, less
        one.
        """
        of_attacks = max((self.n_attacks + self._effective) / 2 - 1, 1.0)
        parts = self._attack_variance**2 / of_attacks
        if self.n_seeds > 1:
            parts += self.seed_variance**2 / (self.n_seeds - 1)
        return float(self.error**4 / parts) if parts else of_attacks

    @cached_property
    def margin(self) -> float:
        """Half-width that is there at any level: for an attack unlike all seen."""
        ends = np.append(self.by_attack, 0.0)
        return float(np.ptp(ends)) / (2 * (self.n_attacks + 1))

    def half_width(self, level: float = STAR_LEVEL) -> float:
        """Return half of the interval that misses the truth with chance `level`."""
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, 1 - level / 2)) * self.error + self.margin

    def interval(self, level: float = STAR_LEVEL) -> tuple[float, float]:
        """Return the interval that misses the truth with chance `level`."""
        half = self.half_width(level)
        return self.difference - half, self.difference + half

    @cached_property
    def p(self) -> float:
        """The level at which the interval reaches 0."""
        from scipy.special import stdtr

        beyond = abs(self.difference) - self.margin
        if beyond <= 0 or self.error == 0:
            return 1.0
        return float(2 * stdtr(self.freedom, -beyond / self.error))

    def detectable(self, level: float) -> float:
        """Return the smallest difference that four of five such studies would mark."""
        return self.half_width(level) + _POWER_SDS * self.error

    def n_needed(self, level: float) -> int | None:
        """Return about how many such attacks it takes to mark this difference.

        None if it is marked, or 0. At most ten times `MOST_NEEDED`, which stands for
        more.
        """
        if self.p <= level or self.difference == 0:
            return None
        from scipy.special import stdtrit

        n = np.arange(self.n_attacks + 1, 10 * MOST_NEEDED + 1)
        share = self.n_attacks / n
        errors = stdtrit(self.freedom / share, 1 - level / 2) + _POWER_SDS
        needed = errors * self.error * np.sqrt(share) + self.margin * share
        reached = np.flatnonzero(needed <= abs(self.difference))
        return int(n[reached[0]]) if len(reached) else 10 * MOST_NEEDED


def holm(p: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return p-values corrected for one another, and the level each is tested at.

    By Holm: the smallest of m is tested at 5% / m, the next at 5% / (m - 1), up to the
    first that fails; all from there on are tested at its level. So a corrected p is at
    most 5% if and only if the p is at most its level.

    Examples
    --------
    >>> adjusted, levels = holm([0.001, 0.2, 0.02])
    >>> [round(p, 3) for p in adjusted], [round(level, 4) for level in levels]
    ([0.003, 0.2, 0.04], [0.0167, 0.05, 0.025])
    """
    order = np.argsort(p, kind="stable")
    adjusted, levels = [1.0] * len(p), [STAR_LEVEL] * len(p)
    largest, failed = 0.0, None
    for place, k in enumerate(order.tolist()):
        n_left = len(p) - place
        largest = max(largest, min(1.0, n_left * p[k]))
        if failed is None and largest > STAR_LEVEL:
            failed = STAR_LEVEL / n_left
        adjusted[k], levels[k] = largest, failed or STAR_LEVEL / n_left
    return adjusted, levels


def power_sentence(
    n_attacks: int, detectable: float | None, n_needed: int | None
) -> str:
    """Return in one sentence which difference could have been seen.

    Examples
    --------
    >>> power_sentence(26, 0.08, 110)
    'With 26 attacks a difference of 0.08 could have been seen; to see this one takes
     about 110 such attacks.'
    """
    attacks = f"{n_attacks} attack{'' if n_attacks == 1 else 's'}"
    if detectable is None:
        return (
            f"With {attacks} no difference could have been seen: it takes "
            f"{FEWEST_ATTACKS}."
        )
    start = f"With {attacks} a difference of {detectable:.2g} could have been seen"
    if n_needed is None:
        return f"{start}."
    many = (
        f"more than {MOST_NEEDED:,}"
        if n_needed > MOST_NEEDED
        else f"about {n_needed:,}"
    )
    return f"{start}; to see this one takes {many} such attacks."


# --- Mean ranks -----------------------------------------------------------------------


def critical_distance(ranks: Floats, seed: int) -> float:
    """Return the 95% point of the range of mean ranks if detectors were alike.

    The detectors are exchanged at random within each attack. Detectors whose mean ranks
    are closer than this are not told apart.

    Parameters
    ----------
    ranks : array of shape (n_detectors, n_attacks)
        Rank of each detector in each attack.
    seed : int
        The same seed gives the same distance.
    """
    rng = np.random.default_rng(seed)
    keys = rng.random((N_PERMUTATIONS, *ranks.T.shape))
    taken = np.take_along_axis(ranks.T[None], np.argsort(keys, axis=2), axis=2)
    return float(np.quantile(np.ptp(taken.mean(axis=1), axis=1), 1 - STAR_LEVEL))


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
