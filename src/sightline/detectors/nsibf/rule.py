"""NSIBF's alarm rule: a threshold chosen on the labels of the test, point-adjusted."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    NORMAL,
    Bools,
    Floats,
    Ints,
    as_array,
    check_alarms,
    check_labels,
    check_same_length,
)
from sightline.data.segments import run_bounds
from sightline.detectors.native_rules import (
    NativeAlarms,
    NativeRule,
    TestUse,
    checked_test_labels,
    needed_labels,
    rule_named,
)
from sightline.errors import StreamError

ADJUSTED_STEPS = 10_000
# The published code adds these to denominators so that none is 0.
_GUARD, _LATENCY_GUARD = 1e-5, 1e-4

RULES = (
    NativeRule(
        "best-f1-on-test-labels",
        f"The best F1 score of {ADJUSTED_STEPS:,} thresholds after point adjustment on "
        "the labels of the test; no rule without labels is published.",
        (TestUse.STATISTICS, TestUse.LABELS),
    ),
)


class AdjustedThreshold(NamedTuple):
    """A threshold and the counts it gives after point adjustment.

    `latency` is the mean number of rows filled in before the first hit, over the
    attacks that were hit.
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


def point_adjusted(alarms: npt.ArrayLike, labels: npt.ArrayLike) -> Bools:
    """Return alarms with every attack filled that has at least one.

    Row 0 is never filled, as published. One lucky row counts as a whole attack
    detected, so this serves only to compare with papers that do it.

    Parameters
    ----------
    alarms : array-like of shape (n_rows,)
        1 or True where there is an alarm.
    labels : array-like of shape (n_rows,)
        1 attack, 0 normal, -1 ignored.

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
    """Return where each run begins once the rows between runs are removed."""
    lengths = stops - starts
    return np.asarray(np.cumsum(lengths) - lengths, np.int64)


def _above(thresholds: Floats, values: Floats, weights: Ints) -> Ints:
    """Return for each threshold the total weight of the values above it."""
    order = np.argsort(values)
    up_to = np.concatenate([[0], np.cumsum(weights[order])])
    n_below = np.searchsorted(values[order], thresholds, side="right")
    return np.asarray(up_to[-1] - up_to[n_below], np.int64)


def best_adjusted_threshold(
    scores: npt.ArrayLike, labels: npt.ArrayLike, n_thresholds: int = ADJUSTED_STEPS
) -> AdjustedThreshold:
    """Return the threshold of best F1 after point adjustment, as NSIBF reports it.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        A nan raises no alarm at any threshold and does not count for their range.
    labels : array-like of shape (n_rows,)
        1 attack, 0 normal; an alarm at a row labelled -1 is neither right nor wrong.
    n_thresholds : int
        Number of thresholds, equally spaced up to the 99.9 percentile of the scores.

    Returns
    -------
    AdjustedThreshold
    """
    score = checked_scores(scores)
    checked = checked_test_labels(labels, len(score))
    attack, normal = checked == ATTACK, checked == NORMAL
    finite = score[np.isfinite(score)]
    if len(finite) == 0:
        raise StreamError(
            "`scores` has no finite row, so there is no threshold to search for: give "
            "the scores of a filter that ran."
        )
    steps = np.arange(1, n_thresholds + 1) / n_thresholds
    thresholds = steps * float(np.percentile(finite, 99.9))
    highest = np.where(np.isnan(score), -np.inf, score)
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
    return AdjustedThreshold(
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
    """Return the mean number of rows filled before the first hit of an attack."""
    rows = np.flatnonzero(alarms)
    at = np.searchsorted(rows, starts)
    first = np.append(rows, len(alarms))[at]
    hit = first < stops
    waited = np.maximum(first - np.maximum(starts, 1), 0)
    return float(waited[hit].sum() / (hit.sum() + _LATENCY_GUARD))


def checked_scores(scores: object) -> Floats:
    """Return float64 scores of shape (n_rows,), which may hold nan."""
    array = as_array(scores, "scores")
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        raise StreamError(
            f"`scores` must be numbers of shape (rows,); got type {array.dtype} and "
            f"shape {array.shape}: give one score a row."
        )
    return np.asarray(array, np.float64)


def nsibf_alarms(
    test_scores: npt.ArrayLike,
    rule: str | None = None,
    labels: npt.ArrayLike | None = None,
) -> NativeAlarms:
    """Return NSIBF's alarms, or its score alone if no rule is named.

    Parameters
    ----------
    test_scores : array-like of shape (n_rows,)
        A nan, where the filter's covariance was invalid, stays nan and raises no
        alarm.
    rule : str, optional
        Name of one of `RULES`; there is no default, for no rule without labels is
        published.
    labels : array-like of shape (n_rows,), optional
        Of the test; used only if a rule is named.
    """
    score = checked_scores(test_scores)
    n_missing = int(np.isnan(score).sum())
    notices: tuple[str, ...] = ()
    if n_missing:
        notices = (f"{n_missing} of {len(score)} scores are nan and raise no alarm.",)
    if rule is None:
        return NativeAlarms(rule=None, score=score, notices=notices)
    chosen = rule_named(RULES, rule, "NSIBF")
    best = best_adjusted_threshold(score, needed_labels(labels, chosen))
    figures = (
        f"Chosen on the labels of the test: F1 {best.f1:.4f}, precision "
        f"{best.precision:.4f}, recall {best.recall:.4f}, all after point adjustment."
    )
    return NativeAlarms(
        rule=chosen,
        score=score,
        alarms=score > best.threshold,
        threshold=best.threshold,
        notices=(*notices, figures),
    )
