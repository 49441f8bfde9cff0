"""What came of trying a finding on one testbed, and the chance to be fooled."""

from dataclasses import dataclass
from math import comb

HOLDS = "holds"
FAILS = "does not hold"
CANNOT = "cannot be judged"


@dataclass(frozen=True)
class Tried:
    """The outcome in one place, with the study's own numbers in a sentence."""

    where: str
    outcome: str
    sentence: str


def binomial_tail(n_seen: int, n: int, chance: float) -> float:
    """Return how likely so many or more of n are by chance.

    Examples
    --------
    >>> binomial_tail(2, 7, 0.05)
    0.0444
    """
    return sum(
        comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n_seen, n + 1)
    )
