"""Localisation: does the evidence point at the tag that was attacked.

A method gives each channel a strength for each attack. The channels are ranked by it;
the attacked ones, the targets, should come first. Chance is measured by giving each
attack the targets of another one, which keeps how often each tag is attacked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.metrics.alarm_figures import Interval, draws_of, mean_interval
from sightline.metrics.chance import Floor, floor_of
from sightline.metrics.intervals import count_interval
from sightline.metrics.ranking import mean_ranks

# A target counts as localised if it is among this many first channels.
HIT_RANKS = (1, 3, 5)
# Permutations of the targets for the chance floor.
N_PERMUTATIONS = 199


@dataclass(frozen=True, kw_only=True)
class LocalisationFigure:
    """One figure of a localisation.

    Parameters
    ----------
    value : float
        The figure.
    floor : Floor, optional
        The same with the targets of other attacks; None if it was not asked for.
    interval : tuple of float, optional
        95% interval over attacks; None if it was not asked for.
    """

    value: float
    floor: Floor | None = None
    interval: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class LocalisationFigures:
    """How well one method localises the attacks with a known target.

    Parameters
    ----------
    n_attacks : int
        Number of attacks that were judged.
    hit_1, hit_3, hit_5 : LocalisationFigure
        Share of attacks of which a target is among the first 1, 3 and 5 channels.
    normalised_rank : LocalisationFigure
        Mean over attacks of ``(rank - 1) / (p - 1)``, itself the mean over an attack's
        targets: 0 if they come first, 0.5 at random. Lower is better.
    stage_hit_1 : LocalisationFigure, optional
        Share of attacks whose strongest stage is that of a target; None without stages.
    """

    n_attacks: int
    hit_1: LocalisationFigure
    hit_3: LocalisationFigure
    hit_5: LocalisationFigure
    normalised_rank: LocalisationFigure
    stage_hit_1: LocalisationFigure | None = None


def measure_localisation(
    strength: Floats,
    targets: Sequence[Sequence[int]],
    stage_of: Ints | None = None,
    *,
    uncertainty: bool = True,
    seed: int = 0,
) -> LocalisationFigures | None:
    """Return how well strengths point at the targets; None without an attack.

    Parameters
    ----------
    strength : array of shape (n_attacks, p)
        Strength of each channel in each attack; at least 2 channels.
    targets : sequence of sequence of int
        The channels that each attack targets; at least one for each.
    stage_of : int array of shape (p,), optional
        The stage of each channel; -1 for none.
    uncertainty : bool
        Whether to measure chance floors and intervals.
    seed : int
        Seed of the draws.

    Examples
    --------
    >>> strength = np.array([[9.0, 1.0, 0.0], [0.0, 3.0, 4.0]])
    >>> figures = measure_localisation(strength, [[0], [1]], uncertainty=False)
    >>> figures.hit_1.value, figures.hit_3.value, figures.normalised_rank.value
    (0.5, 1.0, 0.25)
    """
    n_attacks = len(strength)
    if n_attacks == 0:
        return None
    ranks = mean_ranks(-strength)  # 1 is the strongest
    stages = None
    if stage_of is not None:
        # 1 for each channel of the stage that has the strongest channel of an attack.
        first = stage_of[np.argmax(np.where(stage_of >= 0, strength, -np.inf), axis=1)]
        stages = np.asarray(stage_of == first[:, np.newaxis], dtype=np.float64)
    measured = _per_attack(ranks, targets, stages)
    floors: dict[str, Floor | None] = {}
    if uncertainty:
        rng = np.random.default_rng(seed)
        draws = []
        for _ in range(N_PERMUTATIONS):
            others = [targets[i] for i in rng.permutation(n_attacks)]
            moved = _per_attack(ranks, others, stages)
            draws.append({name: float(each.mean()) for name, each in moved.items()})
        floors = {
            name: floor_of(
                float(each.mean()),
                [draw[name] for draw in draws],
                lower_is_better=name == "normalised_rank",
            )
            for name, each in measured.items()
        }
    figures = {}
    for name, each in measured.items():
        interval: Interval | None = None
        if uncertainty and name == "normalised_rank":
            gamma = draws_of(n_attacks, np.random.default_rng(seed))
            interval = mean_interval(each, gamma)
        elif uncertainty:  # exact for a share of attacks
            low, high = count_interval(int(each.sum()), n_attacks)
            interval = low / n_attacks, high / n_attacks
        figures[name] = LocalisationFigure(
            value=float(each.mean()), floor=floors.get(name), interval=interval
        )
    return LocalisationFigures(n_attacks=n_attacks, **figures)


def _per_attack(
    ranks: Floats, targets: Sequence[Sequence[int]], stages: Floats | None
) -> Mapping[str, Floats]:
    """Return each figure of each attack, for given targets."""
    p = ranks.shape[1]
    best = np.array([ranks[i, list(t)].min() for i, t in enumerate(targets)])
    mean = np.array([ranks[i, list(t)].mean() for i, t in enumerate(targets)])
    figures = {f"hit_{k}": (best <= k).astype(np.float64) for k in HIT_RANKS}
    figures["normalised_rank"] = (mean - 1) / max(p - 1, 1)
    if stages is not None:
        figures["stage_hit_1"] = np.array(
            [stages[i, list(t)].max() for i, t in enumerate(targets)]
        )
    return figures
