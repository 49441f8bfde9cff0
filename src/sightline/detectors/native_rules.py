"""Alarm rules of the detectors themselves: what rules are, and what several share.

Sightline judges residuals; a detector's own rule serves to compare with its paper. Some
rules look at the test they are judged on. Such a rule acts only if it is named, and its
name says what it looks at. Errors are observed minus expected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    Bools,
    Floats,
    Labels,
    check_labels,
    check_residuals,
    check_series,
)
from sightline.data.arrays import Residuals as Matrix
from sightline.errors import StreamError

# Thresholds tried by `best_rank_threshold`.
RANK_STEPS = 400
# Least value an error is divided by, and number of rows a score is the mean of.
_LEAST_SPREAD, _SMOOTHED = 0.01, 4


class TestUse(StrEnum):
    """What of the test a rule looks at, in words."""

    __test__ = False  # no test class for pytest

    LABELS = "test labels"
    STATISTICS = "test statistics"


@dataclass(frozen=True)
class NativeRule:
    """An alarm rule of a detector's paper or code.

    Parameters
    ----------
    name : str
        What the user types. It contains "test-labels" or "test-statistics" if the rule
        looks at these; a rule that looks at both need only name the labels.
    what : str
        One sentence on what the rule does.
    looks_at : tuple of TestUse
        What of the test it looks at; empty for a rule that could run in service.

    Raises
    ------
    StreamError
        If the name hides what the rule looks at.

    Examples
    --------
    >>> NativeRule("best", "The best F1 score.", (TestUse.LABELS,))
    Traceback (most recent call last):
        ...
    sightline.errors.StreamError: The rule 'best' looks at test labels: put
    'test-labels' in its name.
    """

    name: str
    what: str
    looks_at: tuple[TestUse, ...] = ()

    def __post_init__(self) -> None:
        """Check `looks_at`, and that the name says it."""
        for what in self.looks_at:
            if what not in tuple(TestUse):
                raise StreamError(
                    f"A rule looks at {' or '.join(TestUse)}; {self.name!r} has "
                    f"{what!r}."
                )
        for what in TestUse:  # the labels first: they are the graver
            if what in self.looks_at:
                said = what.replace(" ", "-")
                if said not in self.name:
                    raise StreamError(
                        f"The rule {self.name!r} looks at {what}: put {said!r} in its "
                        "name."
                    )
                return


@dataclass(frozen=True, kw_only=True, eq=False)
class NativeAlarms:
    """Score and alarms of a test by a detector's own rule.

    Parameters
    ----------
    rule : NativeRule, optional
        None where there is a score but no rule.
    score : array of shape (n_rows,)
        Higher where a row looks more like an attack; nan where it is undefined.
    alarms : array of shape (n_rows,), optional
        Where the score exceeds the threshold, never point-adjusted.
    threshold : float or array of shape (n_rows,), optional
        One value for each row if the threshold moves.
    notices : tuple of str
        Sentences about what was chosen, counted or guarded.
    """

    rule: NativeRule | None
    score: Floats
    alarms: Bools | None = None
    threshold: float | Floats | None = None
    notices: tuple[str, ...] = ()

    @classmethod
    def above(
        cls,
        threshold: float,
        rule: NativeRule,
        score: Floats,
        notices: tuple[str, ...] = (),
    ) -> Self:
        """Return alarms where the score exceeds a threshold."""
        return cls(
            rule=rule,
            score=score,
            alarms=score > threshold,
            threshold=threshold,
            notices=notices,
        )


BEST_BY_RANK = NativeRule(
    "best-f1-on-test-labels",
    f"The best F1 score of {RANK_STEPS} ranks on the labels of the test, scored by its "
    "own median and IQR; what the published code reports.",
    (TestUse.STATISTICS, TestUse.LABELS),
)


def rule_named(rules: Sequence[NativeRule], name: str, whose: str) -> NativeRule:
    """Return the rule of this name.

    Parameters
    ----------
    rules : sequence of NativeRule
        All rules of a detector.
    name : str
        The rule asked for.
    whose : str
        The detector, for the error message.

    Raises
    ------
    StreamError
        If there is no such rule; the message lists those there are.
    """
    for rule in rules:
        if rule.name == name:
            return rule
    if not rules:
        raise StreamError(f"{whose} has no alarm rule of its own; got rule {name!r}.")
    raise StreamError(
        f"{whose} has no rule {name!r}: choose one of "
        f"{', '.join(rule.name for rule in rules)}, or none."
    )


def needed_labels(labels: npt.ArrayLike | None, rule: NativeRule) -> npt.ArrayLike:
    """Return the labels of the test; raise if they were not given."""
    if labels is None:
        raise StreamError(
            f"The rule {rule.name!r} needs the labels of the test: give `labels` or "
            "choose another rule."
        )
    return labels


def alarms_by_labels(
    rule: NativeRule, score: Floats, labels: npt.ArrayLike | None
) -> NativeAlarms:
    """Return the alarms of `best_rank_threshold`, with its figures in a notice."""
    best = best_rank_threshold(score, needed_labels(labels, rule))
    notice = (
        f"Chosen on the labels of the test: F1 {best.f1:.4f}, precision "
        f"{best.precision:.4f}, recall {best.recall:.4f}."
    )
    return NativeAlarms.above(best.threshold, rule, score, (notice,))


# ------------------------------------------------------ scores of GDN and FuSAGNet


def checked_errors(errors: object, name: str, n_channels: int | None = None) -> Matrix:
    """Return finite errors of shape (n_rows, n_channels), at least one row.

    Parameters
    ----------
    errors : array-like
        What was given.
    name : str
        Name of the argument, for the error messages.
    n_channels : int, optional
        The number of channels there must be.
    """
    values = check_residuals(errors, name)
    if len(values) == 0:
        raise StreamError(f"`{name}` must have at least one row; it has none.")
    if n_channels is not None and values.shape[1] != n_channels:
        raise StreamError(
            f"`{name}` has {values.shape[1]} channels where {n_channels} are scored: "
            "give both blocks with the same channels."
        )
    # A sum is finite only if every term is, except for overflow: look closer only then.
    with np.errstate(all="ignore"):
        total = values.sum(dtype=np.float64)
    if not np.isfinite(total):
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            raise StreamError(
                f"`{name}` must be finite; row {int(np.argmin(finite))} is not "
                f"({int((~finite).sum())} such rows): remove or repair them."
            )
    return values


def centre_and_spread(errors: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return median and inter-quartile range of each channel, over all other axes.

    Parameters
    ----------
    errors : array-like of shape (n_rows, n_channels) or (n_rows, n_channels, window)

    Returns
    -------
    centre, spread : array of shape (n_channels,)
    """
    values = np.asarray(errors)
    quartiles = np.empty((values.shape[1], 3))
    # Channel by channel: with long windows a copy of everything would not fit.
    for k in range(values.shape[1]):
        channel = values[:, k].astype(np.float64).ravel()
        quartiles[k] = np.percentile(channel, (25, 50, 75), overwrite_input=True)
    return quartiles[:, 1].copy(), quartiles[:, 2] - quartiles[:, 0]


def normalised_errors(
    errors: npt.ArrayLike, centre: npt.ArrayLike, spread: npt.ArrayLike
) -> Floats:
    """Return errors minus their centre, divided by their spread plus 0.01."""
    distance: Floats = np.asarray(errors, np.float64) - np.asarray(centre)
    distance /= np.abs(np.asarray(spread)) + _LEAST_SPREAD
    return distance


def smoothed(scores: npt.ArrayLike) -> Floats:
    """Return the mean of each row and the three before it; the first three rows are 0.

    Examples
    --------
    >>> smoothed([[4.0], [0.0], [0.0], [0.0], [8.0]]).ravel()
    array([0., 0., 0., 1., 2.])
    """
    given = np.asarray(scores, np.float64)
    means = np.zeros_like(given)
    n = len(given) - _SMOOTHED + 1
    if n > 0:
        mean = means[_SMOOTHED - 1 :]
        for k in range(_SMOOTHED):
            mean += given[k : k + n]
        mean /= _SMOOTHED
    return means


def held_out_threshold(scores: Floats) -> float:
    """Return the largest score over the channels and rows of a held-out block."""
    if len(scores) < _SMOOTHED:
        raise StreamError(
            f"The held-out block has {len(scores)} rows, but no score before row "
            f"{_SMOOTHED - 1}: hold out more."
        )
    return float(scores.max())


# ------------------------------------------- a threshold chosen on the test's labels


class LabelThreshold(NamedTuple):
    """A threshold, and how well it separates attack rows from normal ones.

    `f1`, `precision` and `recall` lie in [0, 1], higher is better.
    """

    f1: float
    precision: float
    recall: float
    threshold: float


def checked_test_labels(labels: object, n_rows: int) -> Labels:
    """Return labels of shape (n_rows,) that mark at least one attack."""
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


def _counted(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Bools]:
    """Return scores and whether they are of attacks, without ignored rows."""
    score = check_series(scores, "scores")
    checked = checked_test_labels(labels, len(score))
    is_counted = checked != IGNORED
    return score[is_counted], checked[is_counted] == ATTACK


def judged_at(
    scores: npt.ArrayLike, labels: npt.ArrayLike, threshold: float
) -> LabelThreshold:
    """Return how well a given threshold does; rows labelled -1 do not count.

    Examples
    --------
    >>> judged_at([0.1, 0.9, 0.8, 0.2], [0, 1, 0, 0], 0.5).precision
    0.5
    """
    score, attack = _counted(scores, labels)
    alarms = score > threshold
    hits, n_alarms, n_attack = (
        int(rows.sum()) for rows in (alarms & attack, alarms, attack)
    )
    return LabelThreshold(
        f1=2 * hits / (n_alarms + n_attack),
        precision=hits / n_alarms if n_alarms else 0.0,
        recall=hits / n_attack,
        threshold=float(threshold),
    )


def best_rank_threshold(scores: npt.ArrayLike, labels: npt.ArrayLike) -> LabelThreshold:
    """Return the best of 400 thresholds by rank, as GDN and FuSAGNet report it.

    Scores are ranked, ties by position, and the F1 score is that of the ranks above a
    step. The threshold is the lowest score above that step; precision and recall are
    of the scores above the threshold, so they lack that one row, as published. The
    result flatters: in service these labels are unknown.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        Higher where a row looks more like an attack.
    labels : array-like of shape (n_rows,)
        1 attack, 0 normal; rows labelled -1 are left out.

    Returns
    -------
    LabelThreshold
    """
    score, attack = _counted(scores, labels)
    order = np.argsort(score, kind="stable")
    steps = np.arange(RANK_STEPS) / RANK_STEPS * len(score)
    n_below = np.floor(steps).astype(np.int64)  # ranks count from 1
    hits_up_to = np.concatenate([[0], np.cumsum(attack[order])])
    n_attack = hits_up_to[-1]
    hits = n_attack - hits_up_to[n_below]
    f1 = 2 * hits / (len(score) - n_below + n_attack)
    best = int(np.argmax(f1))
    threshold = float(score[order[int(steps[best] + 1) - 1]])
    return judged_at(score, attack, threshold)._replace(f1=float(f1[best]))
