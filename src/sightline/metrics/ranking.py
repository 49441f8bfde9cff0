"""Rank metrics: does an attack step have more energy than a normal step.

Everything follows from two numbers for each attack step: how many normal steps lie
below it, and how many lie at or below it. Two sorts give them, whatever number of
metrics is read from them.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    Floats,
    Ints,
    check_is_attack,
    check_same_length,
    check_series,
)
from sightline.errors import StreamError, UndefinedMetricWarning


@dataclass(frozen=True, eq=False)
class AttackRanks:
    """Where each attack step stands among the normal ones.

    `below` and `up_to` count the normal steps with less, and with at most, the
    energy of each attack step; `at_least` the attack steps with at least as much.
    """

    below: Ints
    up_to: Ints
    at_least: Ints
    n_normal: int


def rank_attacks(attack_energy: Floats, normal_sorted: Floats) -> AttackRanks:
    """Place attack steps among normal ones, which come sorted."""
    # Sorted needles walk through memory in order: far fewer cache misses.
    order = np.argsort(attack_energy)
    attack_sorted = attack_energy[order]
    below, up_to, at_least = np.empty((3, len(order)), np.int64)
    below[order] = np.searchsorted(normal_sorted, attack_sorted, side="left")
    up_to[order] = np.searchsorted(normal_sorted, attack_sorted, side="right")
    at_least[order] = len(order) - np.searchsorted(
        attack_sorted, attack_sorted, side="left"
    )
    return AttackRanks(below, up_to, at_least, len(normal_sorted))


def roc_auc_of_ranks(ranks: AttackRanks) -> float:
    """Return the ROC-AUC, ties counted half."""
    return float(np.mean(auc_of_steps(ranks)))


def auc_of_steps(ranks: AttackRanks) -> Floats:
    """Return for each attack step the share of normal steps it outranks."""
    return (ranks.below + ranks.up_to) / (2.0 * ranks.n_normal)


def mean_of_segments(of_steps: Floats, lengths: Ints) -> Floats:
    """Return the mean over each segment of a value known for each attack step.

    Attack steps come in the order of the rows, so a segment's lie side by side.
    """
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    return np.asarray(np.add.reduceat(of_steps, first) / lengths)


def partial_auc_of_ranks(ranks: AttackRanks, max_fpr: float) -> float:
    """Return the area for false-alarm rates up to `max_fpr`, 0 at chance."""
    # One attack step lifts the ROC curve by 1 / n_attack, linearly while the
    # false-alarm rate passes over the normal steps it ties with.
    first = (ranks.n_normal - ranks.up_to) / ranks.n_normal
    last = (ranks.n_normal - ranks.below) / ranks.n_normal
    width = np.where(last > first, last - first, 1.0)
    reached = np.clip((max_fpr - first) / width, 0.0, 1.0)
    on_the_ramp = 0.5 * reached**2 * (last - first)
    area = float(np.mean(on_the_ramp + np.maximum(max_fpr - last, 0.0)))
    chance = max_fpr**2 / 2
    return (area - chance) / (max_fpr - chance)


def average_precision_of_ranks(ranks: AttackRanks) -> float:
    """Return the mean precision over the thresholds set by the attack steps."""
    false_alarms = ranks.n_normal - ranks.below
    return float(np.mean(ranks.at_least / (ranks.at_least + false_alarms)))


def roc_points(ranks: AttackRanks, n_most: int) -> tuple[Floats, Floats]:
    """Return corners (false-alarm rate, hit rate) of the ROC curve, at most `n_most`.

    Between two corners the curve is straight.
    """
    n_attack = len(ranks.at_least)
    if n_attack == 0:
        return np.empty(0), np.empty(0)
    hits, first_of = np.unique(ranks.at_least, return_index=True)
    rate_before = (ranks.n_normal - ranks.up_to[first_of]) / ranks.n_normal
    rate_after = (ranks.n_normal - ranks.below[first_of]) / ranks.n_normal
    hits_before = np.concatenate([[0], hits[:-1]])
    fpr = np.concatenate(
        [[0.0], np.column_stack([rate_before, rate_after]).ravel(), [1.0]]
    )
    tpr = np.concatenate(
        [[0.0], np.column_stack([hits_before, hits]).ravel() / n_attack, [1.0]]
    )
    kept = np.unique(np.linspace(0, len(fpr) - 1, n_most).astype(np.int64))
    return fpr[kept], tpr[kept]


def roc_auc_score(is_attack: npt.ArrayLike, energy: npt.ArrayLike) -> float:
    """Probability that an attack step has more energy than a normal step.

    Ties count one half, so a constant trace scores 0.5. Higher is better; 0.5 when
    energy tells nothing.

    Parameters
    ----------
    is_attack : array-like of shape (n_steps,)
        True, or 1, where the testbed was under attack.
    energy : array-like of shape (n_steps,)
        Energy of the same steps.

    Returns
    -------
    float
        In [0, 1]; nan, with UndefinedMetricWarning, if only one class occurs.

    Examples
    --------
    >>> roc_auc_score([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    0.75
    """
    ranks = _checked_ranks(is_attack, energy, "ROC-AUC")
    return float("nan") if ranks is None else roc_auc_of_ranks(ranks)


def partial_auc_score(
    is_attack: npt.ArrayLike, energy: npt.ArrayLike, *, max_fpr: float
) -> float:
    """Area under the ROC curve for low false-alarm rates, corrected for chance.

    ``(A - a^2/2) / (a - a^2/2)`` with A the area for rates up to a, linear
    interpolation at a. 1 is perfect, 0 is chance, negative is worse than chance.

    Parameters
    ----------
    is_attack : array-like of shape (n_steps,)
        True, or 1, where the testbed was under attack.
    energy : array-like of shape (n_steps,)
        Energy of the same steps.
    max_fpr : float
        Largest false-alarm rate a, in (0, 1].

    Returns
    -------
    float
        At most 1; nan, with UndefinedMetricWarning, if only one class occurs.

    Examples
    --------
    >>> partial_auc_score([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4], max_fpr=0.05)
    1.0
    """
    if not 0 < max_fpr <= 1:
        raise StreamError(f"`max_fpr` must lie in (0, 1]; got {max_fpr}.")
    ranks = _checked_ranks(is_attack, energy, "Partial AUC")
    return float("nan") if ranks is None else partial_auc_of_ranks(ranks, max_fpr)


def average_precision_score(is_attack: npt.ArrayLike, energy: npt.ArrayLike) -> float:
    """Mean precision as the threshold falls past each attack step (no interpolation).

    Higher is better; the share of attack steps when energy tells nothing.

    Parameters
    ----------
    is_attack : array-like of shape (n_steps,)
        True, or 1, where the testbed was under attack.
    energy : array-like of shape (n_steps,)
        Energy of the same steps.

    Returns
    -------
    float
        In (0, 1]; nan, with UndefinedMetricWarning, if only one class occurs.

    Examples
    --------
    >>> average_precision_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.833
    """
    ranks = _checked_ranks(is_attack, energy, "Average precision")
    return float("nan") if ranks is None else average_precision_of_ranks(ranks)


def _checked_ranks(
    is_attack: npt.ArrayLike, energy: npt.ArrayLike, metric: str
) -> AttackRanks | None:
    attacked = check_is_attack(is_attack)
    trace = check_series(energy, "energy")
    check_same_length(is_attack=attacked, energy=trace)
    if attacked.all() or not attacked.any():
        warnings.warn(
            f"{metric} needs both attack and normal steps; returning nan.",
            UndefinedMetricWarning,
            stacklevel=3,
        )
        return None
    return rank_attacks(trace[attacked], np.sort(trace[~attacked]))


def nearby_normal(normal_rows: Ints, start: int, stop: int, n_wanted: int) -> Ints:
    """Return positions in `normal_rows` of those nearest to rows [start, stop).

    Distance is to the nearer edge; the earlier row wins a tie.
    """
    split = int(np.searchsorted(normal_rows, start))
    before = np.arange(max(0, split - n_wanted), split)[::-1]
    after = np.arange(split, min(len(normal_rows), split + n_wanted))
    distance = np.concatenate(
        [start - normal_rows[before], normal_rows[after] - (stop - 1)]
    )
    nearest = np.argsort(distance, kind="stable")[:n_wanted]
    return np.concatenate([before, after])[nearest]
