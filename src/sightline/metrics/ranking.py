"""Rank metrics: does an attack step have more energy than a normal step.

Everything follows from two numbers for each attack step: how many normal steps lie
below it, and how many lie at or below it. Two sorts give them, whatever number of
metrics is read from them. Also the correlation of two rankings.
"""

import warnings
from dataclasses import dataclass
from itertools import permutations

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
from sightline.figures import PAUC_RATES

# An exact p-value tries all orders of up to this many values.
MOST_PERMUTED = 7
# Fewer pairs have no rank correlation worth a number.
FEWEST_RANKED = 3


@dataclass(frozen=True, kw_only=True)
class Rank:
    """How well a trace ranks attack rows above normal rows. All None without attacks.

    Parameters
    ----------
    roc_auc : float, optional
        How often an attack row has more energy than a normal row.
        Formula: share of (attack, normal) pairs in the right order; a tie counts half.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Paper: ROC-AUC.
        Null: without attacks. Dominated by the longest attack; says little about the
        low false-alarm rates a plant can bear.
    pauc_1 : float, optional
        The same for false-alarm rates of at most 0.01.
        Formula: `(A - a^2/2) / (a - a^2/2)`, A the area under the ROC curve up to
        `a = 0.01`.
        Range: -0.005 to 1.
        Better: higher.
        Nothing wrong: 0.
        Paper: pAUC@1%.
        Null: without attacks. Coarse under some 1,000 normal rows.
    pauc_5 : float, optional
        The same up to 0.05.
        Formula: as `pauc_1`, with `a = 0.05`.
        Range: -0.026 to 1.
        Better: higher.
        Nothing wrong: 0.
        Paper: pAUC@5%.
        Null: without attacks.
    average_precision : float, optional
        Mean precision as the limit falls past each attack row.
        Formula: step-wise, no interpolation.
        Range: above 0, to 1.
        Better: higher.
        Nothing wrong: share of attack rows among attack and normal rows.
        Paper: AP.
        Null: without attacks. Depends on that share: do not compare it between test
        sets.
    mean_segment_auc : float, optional
        `segments.auc`, each attack weighing the same.
        Formula: mean over segments of `auc`.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Null: without attacks. Noisy with few segments.
    largest_segment_share : float, optional
        How much of all attack time lies in the longest attack.
        Formula: rows of the longest segment / `n_attack`.
        Range: above 0, to 1.
        Better: lower.
        Nothing wrong: 1 / `n_segments` if all are equally long.
        Null: without attacks. Near 1, the pooled figures describe that one attack.
    raw_roc_auc : float, optional
        ROC-AUC of the raw value instead of its energy.
        Formula: as `roc_auc`, with `r_t` for `e_t`.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Null: if p > 1, or without attacks. Equal to `roc_auc` of a stream that is
        judged one-sided; for a signed residual it ignores attacks that push down.
    """

    roc_auc: float | None = None
    pauc_1: float | None = None
    pauc_5: float | None = None
    average_precision: float | None = None
    mean_segment_auc: float | None = None
    largest_segment_share: float | None = None
    raw_roc_auc: float | None = None


@dataclass(frozen=True, eq=False)
class AttackRanks:
    """Where each attack step stands among the normal ones.

    Parameters
    ----------
    below, up_to : array of shape (n_attack,)
        Number of normal steps with less, and with at most, the energy of each attack
        step.
    at_least : array of shape (n_attack,)
        Number of attack steps with at least as much energy.
    n_normal : int
        Number of normal steps.
    """

    below: Ints
    up_to: Ints
    at_least: Ints
    n_normal: int


def rank_attacks(attack_energy: Floats, normal_sorted: Floats) -> AttackRanks:
    """Return where attack steps stand among normal ones.

    Parameters
    ----------
    attack_energy : array of shape (n_attack,)
        Energy of the attack steps in the order of the rows.
    normal_sorted : array of shape (n_normal,)
        Energy of the normal steps, sorted.
    """
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


def measure_rank(
    ranks: AttackRanks, lengths: Ints, *, raw: AttackRanks | None = None
) -> Rank:
    """Return the rank metrics of a test with attacks; all None without any.

    Parameters
    ----------
    ranks : AttackRanks
        Of all attack steps, in the order of the rows.
    lengths : array of shape (n_segments,)
        Steps of each attack.
    raw : AttackRanks, optional
        Ranks by the raw value of a single channel.
    """
    if len(lengths) == 0:
        return Rank()
    pauc_1, pauc_5 = (partial_auc_of_ranks(ranks, rate) for rate in PAUC_RATES)
    return Rank(
        roc_auc=roc_auc_of_ranks(ranks),
        pauc_1=pauc_1,
        pauc_5=pauc_5,
        average_precision=average_precision_of_ranks(ranks),
        mean_segment_auc=float(np.mean(mean_of_segments(auc_of_steps(ranks), lengths))),
        largest_segment_share=float(lengths.max() / lengths.sum()),
        raw_roc_auc=None if raw is None else roc_auc_of_ranks(raw),
    )


def roc_auc_of_ranks(ranks: AttackRanks) -> float:
    """Return the ROC-AUC, ties counted half."""
    return float(np.mean(auc_of_steps(ranks)))


def auc_of_steps(ranks: AttackRanks) -> Floats:
    """Return for each attack step the share of normal steps it outranks."""
    return (ranks.below + ranks.up_to) / (2.0 * ranks.n_normal)


def mean_of_segments(of_steps: Floats, lengths: Ints) -> Floats:
    """Return the mean over each segment of a value that each attack step has.

    Parameters
    ----------
    of_steps : array of shape (n_attack,)
        Value of each attack step in the order of the rows, so that the steps of a
        segment are next to each other.
    lengths : array of shape (n_segments,)
        Steps of each segment.
    """
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    return np.asarray(np.add.reduceat(of_steps, first) / lengths)


def partial_auc_of_ranks(ranks: AttackRanks, max_fpr: float) -> float:
    """Return the chance-corrected ROC area for false-alarm rates up to `max_fpr`."""
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
    """Return corners of the ROC curve, at most `n_most`; straight lines join them.

    Returns
    -------
    fpr, tpr : array of shape (n_corners,)
        False-alarm rate and hit rate from (0, 0) to (1, 1); empty without attacks.
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
    """Return the probability that an attack step has more energy than a normal one.

    ``mean over (attack i, normal j) of [e_i > e_j] + [e_i = e_j] / 2``. Higher is
    better; 0.5 when energy tells nothing, as for a constant trace.

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
    """Return the ROC area for low false-alarm rates, corrected for chance.

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
    """Return the mean precision as the threshold falls past each attack step.

    ``mean over attack steps i of TP_i / (TP_i + FP_i)``, both counted among the steps
    with at least the energy of i; no interpolation. Higher is better; the share of
    attack steps when energy tells nothing.

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

    Examples
    --------
    >>> nearby_normal(np.array([0, 1, 2, 6, 7, 8]), 3, 6, 3).tolist()
    [2, 3, 1]
    """
    split = int(np.searchsorted(normal_rows, start))
    before = np.arange(max(0, split - n_wanted), split)[::-1]
    after = np.arange(split, min(len(normal_rows), split + n_wanted))
    distance = np.concatenate(
        [start - normal_rows[before], normal_rows[after] - (stop - 1)]
    )
    nearest = np.argsort(distance, kind="stable")[:n_wanted]
    return np.concatenate([before, after])[nearest]


@dataclass(frozen=True, kw_only=True)
class RankCorrelation:
    """Spearman's rho of two rankings, and how likely chance would give it.

    Parameters
    ----------
    n : int
        Number of pairs.
    rho : float, optional
        Rank correlation in [-1, 1]; 0 if the rankings are unrelated.
    p_value : float, optional
        Two-sided p by the t-approximation.
    p_exact : float, optional
        The same over all orders; None beyond `MOST_PERMUTED` pairs.
    """

    n: int
    rho: float | None
    p_value: float | None
    p_exact: float | None


def rank_correlation(first: Floats, second: Floats) -> RankCorrelation:
    """Return Spearman's rank correlation of two series; ties share their mean rank.

    Parameters
    ----------
    first, second : array of shape (n,)
        Values to be ranked, pair by pair.

    Returns
    -------
    RankCorrelation
        Undefined (None) with fewer than three pairs, or if all values of a series are
        equal.

    Examples
    --------
    >>> rank_correlation(np.arange(5.0), np.array([1.0, 0.0, 2.0, 4.0, 3.0])).rho
    0.8
    """
    from scipy.special import stdtr

    n, rho = len(first), spearman(first, second)
    if rho is None:
        return RankCorrelation(n=n, rho=None, p_value=None, p_exact=None)
    # Two-sided, by Student's t with n - 2 degrees of freedom.
    p_value = 0.0
    if abs(rho) < 1:
        t = rho * np.sqrt((n - 2) / (1 - rho**2))
        p_value = 2 * float(stdtr(n - 2, -abs(t)))
    p_exact = None
    if n <= MOST_PERMUTED:
        # The share of all orders that correlate at least as strongly.
        ranks, norm = _centred_ranks(first, second)
        orders = np.array(list(permutations(range(n))))
        reached = np.abs(ranks[1][orders] @ ranks[0] / norm) >= abs(rho) - 1e-12
        p_exact = float(np.mean(reached))
    return RankCorrelation(n=n, rho=rho, p_value=p_value, p_exact=p_exact)


def spearman(first: Floats, second: Floats) -> float | None:
    """Return the rho of `rank_correlation` alone."""
    ranks, norm = _centred_ranks(first, second)
    if len(first) < FEWEST_RANKED or norm == 0:
        return None
    return float(np.clip(ranks[0] @ ranks[1] / norm, -1, 1))


def _centred_ranks(first: Floats, second: Floats) -> tuple[list[Floats], float]:
    """Return the ranks of two series less their mean, and the product of both norms."""
    middle = (len(first) + 1) / 2
    ranks = [mean_ranks(series) - middle for series in (first, second)]
    return ranks, float(np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1])))


def mean_ranks(values: Floats) -> Floats:
    """Return the rank of each value in its row from 1, the mean rank for ties.

    Examples
    --------
    >>> mean_ranks(np.array([0.1, 5.0, 2.0, 2.0])).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    ranks = np.empty(values.shape)
    for row, of_row in zip(np.atleast_2d(values), np.atleast_2d(ranks), strict=True):
        rising = np.sort(row)
        first = np.searchsorted(rising, row, side="left")
        of_row[:] = (first + np.searchsorted(rising, row, side="right") + 1) / 2
    return ranks
