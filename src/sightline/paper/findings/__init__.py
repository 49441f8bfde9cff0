"""The paper's findings, each tested on a study; this module holds their vocabulary."""

from dataclasses import dataclass
from enum import StrEnum
from math import comb


class Outcome(StrEnum):
    """Whether a finding holds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be judged"


@dataclass(frozen=True)
class Trial:
    """The outcome of a finding in one place.

    Parameters
    ----------
    where : str
        A testbed, or two testbeds, by title.
    outcome : Outcome
        Whether the finding holds there.
    sentence : str
        The reason, with the numbers of the study.
    """

    where: str
    outcome: Outcome
    sentence: str


def binomial_tail(n_seen: int, n: int, chance: float) -> float:
    """Return the probability of `n_seen` or more successes in `n` trials.

    Parameters
    ----------
    n_seen, n : int
        Successes and trials.
    chance : float
        Probability of success in one trial.

    Returns
    -------
    float
        Between 0 and 1; 1 for `n_seen` 0.

    Examples
    --------
    >>> binomial_tail(2, 7, 0.05)
    0.0444
    """
    return sum(
        comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n_seen, n + 1)
    )
