"""Thresholds chosen on the labels of the test itself, as some papers report them.

Such a threshold flatters: nobody has these labels beforehand. Only rules whose name
says so may come here.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    as_array,
    check_alarms,
    check_labels,
    check_same_length,
    check_series,
)
from sightline.data.segments import run_bounds
from sightline.errors import StreamError

RANK_STEPS = 400
ADJUSTED_STEPS = 10_000
# Published codes add these to denominators so that nothing is divided by 0.
_GUARD, _LATENCY_GUARD = 1e-5, 1e-4


class ThresholdFound(NamedTuple):
    """A threshold and how well it parts attack rows from normal ones."""

    f1: float
    precision: float
    recall: float
    auc: float
    threshold: float


class AdjustedThresholdFound(NamedTuple):
    """A threshold and the counts it gives after point adjustment.

    `latency` is how many rows were filled in before the first hit, for each attack
    that was hit.
    """

    f1: float
    precision: float
    recall: float
    true_positives: int
    true_negatives: int
    false_positives: int
    false_negatives: int
    latency: float
    threshold: float


def _checked_labels(labels: object, n_rows: int) -> Labels:
    checked = check_labels(labels)
    if len(checked) != n_rows:
        raise StreamError(
            f"`labels` has {len(checked)} rows, but there are {n_rows} scores: give "
            "one label for each score."
        )
    if not (checked == ATTACK).any():
        raise StreamError(
            "`labels` marks no attack, so no threshold is better than another: choose "
            "a rule that needs no labels."
        )
    return checked


# -------------------------------------------------------------- row by row, by rank


def _share(part: Floats | float, whole: Floats | float) -> Floats:
    """Divide; nothing of nothing is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _auc(scores: Floats, attack: Bools) -> float:
    n_attack = int(attack.sum())
    n_pairs = n_attack * (len(attack) - n_attack)
    if n_pairs == 0:
        return float("nan")
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    return float((ranks[attack].sum() - n_attack * (n_attack + 1) / 2) / n_pairs)


def judged_at(
    scores: npt.ArrayLike, labels: npt.ArrayLike, threshold: float
) -> ThresholdFound:
    """Return how well a given threshold does; rows labelled -1 do not count.

    Examples
    --------
    >>> judged_at([0.1, 0.9, 0.8, 0.2], [0, 1, 0, 0], 0.5).precision
    0.5
    """
    known = check_series(scores, "scores")
    checked = _checked_labels(labels, len(known))
    counted = checked != IGNORED
    known, attack = known[counted], checked[counted] == ATTACK
    alarms = known > threshold
    hits = float((alarms & attack).sum())
    return ThresholdFound(
        f1=float(_share(2 * hits, float(alarms.sum() + attack.sum()))),
        precision=float(_share(hits, float(alarms.sum()))),
        recall=float(_share(hits, float(attack.sum()))),
        auc=_auc(known, attack),
        threshold=float(threshold),
    )


def best_rank_threshold(scores: npt.ArrayLike, labels: npt.ArrayLike) -> ThresholdFound:
    """Return the best of 400 thresholds by rank, as GDN and FuSAGNet report it.

    Scores are ranked, ties by position, and the F1 score is that of the ranks above a
    step. The threshold is the lowest score above that step; precision and recall are
    of the scores above the threshold, so they lack that one row, as published.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        Higher where it looks more like an attack.
    labels : array-like of shape (n_rows,)
        1 attack, 0 normal; rows labelled -1 are left out.

    Returns
    -------
    ThresholdFound
    """
    known = check_series(scores, "scores")
    checked = _checked_labels(labels, len(known))
    counted = checked != IGNORED
    known, attack = known[counted], checked[counted] == ATTACK
    order = np.argsort(known, kind="stable")
    steps = np.arange(RANK_STEPS) / RANK_STEPS * len(known)
    n_below = np.floor(steps).astype(np.int64)  # ranks count from 1
    hits_up_to = np.concatenate([[0], np.cumsum(attack[order])])
    n_attack = hits_up_to[-1]
    hits = (n_attack - hits_up_to[n_below]).astype(np.float64)
    f1 = _share(2 * hits, (len(known) - n_below + n_attack).astype(np.float64))
    best = int(np.argmax(f1))
    threshold = float(known[order[int(steps[best] + 1) - 1]])
    return judged_at(known, attack, threshold)._replace(f1=float(f1[best]))


# --------------------------------------------------------------- point adjustment


def point_adjusted(alarms: npt.ArrayLike, labels: npt.ArrayLike) -> Bools:
    """Return alarms with every attack filled that has at least one.

    Row 0 is never filled, as published. It turns one lucky row into a whole attack
    found, so it is for comparing with papers that do it.

    Examples
    --------
    >>> point_adjusted([0, 0, 1, 0, 1, 0], [0, 1, 1, 1, 0, 1]).astype(int)
    array([0, 1, 1, 1, 1, 0])
    """
    given, checked = check_alarms(alarms) == 1, check_labels(labels)
    check_same_length(alarms=given, labels=checked)
    filled: Bools = given.copy()
    attack = checked == ATTACK
    starts, stops = run_bounds(attack)
    if len(starts):
        hit = np.logical_or.reduceat(given[attack], _offsets(starts, stops))
        filled[attack] |= np.repeat(hit, stops - starts)
        filled[0] = given[0]
    return filled


def _offsets(starts: Ints, stops: Ints) -> Ints:
    """Return where each run begins once the rows between runs are taken out."""
    lengths = stops - starts
    return np.asarray(np.cumsum(lengths) - lengths, np.int64)


def _above(thresholds: Floats, values: Floats, weights: Ints) -> Ints:
    """Return for each threshold the weight of all values above it."""
    order = np.argsort(values)
    up_to = np.concatenate([[0], np.cumsum(weights[order])])
    n_below = np.searchsorted(values[order], thresholds, side="right")
    return np.asarray(up_to[-1] - up_to[n_below], np.int64)


def best_adjusted_threshold(
    scores: npt.ArrayLike, labels: npt.ArrayLike, n_thresholds: int = ADJUSTED_STEPS
) -> AdjustedThresholdFound:
    """Return the threshold of best F1 after point adjustment, as NSIBF reports it.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        A nan is no alarm at any threshold; it has no part in the range of thresholds.
    labels : array-like of shape (n_rows,)
        1 attack, 0 normal; an alarm at a row labelled -1 is neither right nor wrong.
    n_thresholds : int
        Equally spaced up to the 99.9 percentile of the scores.

    Returns
    -------
    AdjustedThresholdFound
    """
    known = check_scores(scores)
    checked = _checked_labels(labels, len(known))
    attack, normal = checked == ATTACK, checked == NORMAL
    finite = known[np.isfinite(known)]
    if len(finite) == 0:
        raise StreamError(
            "`scores` has no finite row, so there is no threshold to search for: give "
            "the scores of a filter that ran."
        )
    steps = np.arange(1, n_thresholds + 1) / n_thresholds
    thresholds = steps * float(np.percentile(finite, 99.9))
    highest = np.where(np.isnan(known), -np.inf, known)
    starts, stops = run_bounds(attack)
    of_attacks = np.maximum.reduceat(highest[attack], _offsets(starts, stops))
    # Row 0 is never filled: it counts by its own score, apart from its attack.
    filled = stops - np.maximum(starts, 1)
    hits = _above(thresholds, of_attacks, filled)
    if attack[0]:
        hits = hits + (highest[0] > thresholds)
    false_alarms = _above(
        thresholds, highest[normal], np.ones(int(normal.sum()), np.int64)
    )
    n_attack = int(attack.sum())
    precision = hits / (hits + false_alarms + _GUARD)
    recall = hits / (n_attack + _GUARD)
    f1 = 2 * precision * recall / (precision + recall + _GUARD)
    best = int(np.argmax(f1))
    threshold = float(thresholds[best])
    return AdjustedThresholdFound(
        f1=float(f1[best]),
        precision=float(precision[best]),
        recall=float(recall[best]),
        true_positives=int(hits[best]),
        true_negatives=int(normal.sum() - false_alarms[best]),
        false_positives=int(false_alarms[best]),
        false_negatives=int(n_attack - hits[best]),
        latency=_latency(highest > threshold, starts, stops),
        threshold=threshold,
    )


def _latency(alarms: Bools, starts: Ints, stops: Ints) -> float:
    """Return how many rows are filled before the first hit, for each attack hit."""
    rows = np.flatnonzero(alarms)
    at = np.searchsorted(rows, starts)
    first = np.append(rows, len(alarms))[at]
    hit = first < stops
    waited = np.maximum(first - np.maximum(starts, 1), 0)
    return float(waited[hit].sum() / (hit.sum() + _LATENCY_GUARD))


def check_scores(scores: object) -> Floats:
    """Return float64 scores of shape (n_rows,), which may hold nan."""
    array = as_array(scores, "scores")
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        raise StreamError(
            f"`scores` must be numbers of shape (rows,); got type {array.dtype} and "
            f"shape {array.shape}: give one score a row."
        )
    return np.asarray(array, np.float64)
