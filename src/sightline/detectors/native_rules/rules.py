"""The detectors' own scores and alarm rules, as published, from residuals alone.

Sightline judges residuals; these rules are for comparing with what papers report. Some
of them look at the test they are judged on; such a rule never acts unless it is named,
and its name says what it looks at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, check_series
from sightline.detectors.native_rules.label_searches import (
    ThresholdFound,
    best_adjusted_threshold,
    best_rank_threshold,
    check_scores,
)
from sightline.detectors.native_rules.peaks import (
    dynamic_thresholds,
    official_static,
    peaks_over_threshold,
)
from sightline.detectors.native_rules.scores import (
    FusagnetErrors,
    fusagnet_scores,
    gdn_scores,
    held_out_threshold,
)
from sightline.errors import StreamError

TEST_STATISTICS, TEST_LABELS = "test statistics", "test labels"


# -------------------------------------------------------------------------- rules


@dataclass(frozen=True)
class NativeRule:
    """How a detector's paper or code comes from scores to alarms.

    Parameters
    ----------
    name : str
        What one types; it says what of the test the rule looks at.
    what : str
        One sentence.
    looks_at : tuple of str
        "test statistics", "test labels", both, or nothing.
    """

    name: str
    what: str
    looks_at: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a name that hides what the rule looks at."""
        refuse_unless_named(self)


def refuse_unless_named(rule: NativeRule) -> None:
    """Refuse a rule that looks at the test and does not say so in its name.

    Labels are the graver: a rule that looks at both need only name them.
    """
    strange = [what for what in rule.looks_at if what not in _LOOKS]
    if strange:
        raise StreamError(
            f"A rule looks at {' or '.join(_LOOKS)}; {rule.name!r} has {strange[0]!r}."
        )
    for what in _LOOKS:
        if what in rule.looks_at:
            said = what.replace(" ", "-")
            if said not in rule.name:
                raise StreamError(
                    f"The rule {rule.name!r} looks at {what}: put {said!r} in its name."
                )
            return


_LOOKS = (TEST_LABELS, TEST_STATISTICS)

_BEST_BY_RANK = (
    "The best F1 score of 400 ranks on the labels of the test, scored by its own "
    "median and IQR; what the published code reports."
)

# The first of each that looks at nothing is the default.
RULES: Mapping[str, tuple[NativeRule, ...]] = MappingProxyType(
    {
        "gdn": (
            NativeRule(
                "held-out",
                "Median, IQR and threshold (the largest smoothed score) are those of "
                "the held-out block.",
            ),
            NativeRule(
                "by-test-statistics",
                "The threshold is the largest smoothed score of the held-out block, "
                "each block scored by its own median and IQR (report=val of the "
                "published code).",
                (TEST_STATISTICS,),
            ),
            NativeRule(
                "best-f1-on-test-labels", _BEST_BY_RANK, (TEST_STATISTICS, TEST_LABELS)
            ),
        ),
        "fusagnet": (
            NativeRule(
                "held-out",
                "Our own, for want of a published rule without labels: median, IQR and "
                "threshold (the largest fused score) are those of the held-out block.",
            ),
            NativeRule(
                "best-f1-on-test-labels", _BEST_BY_RANK, (TEST_STATISTICS, TEST_LABELS)
            ),
        ),
        "tranad": (
            NativeRule(
                "pot",
                "Peaks over threshold, fitted by maximum likelihood to the scores of "
                "the attack-free rows.",
            ),
            NativeRule(
                "pot-dynamic",
                "Peaks over threshold that goes on learning from earlier rows of the "
                "test without an alarm.",
            ),
            NativeRule(
                "official-static-by-test-statistics",
                "What the published code uses: nearly the start of the tail, weighted "
                "by where the test first exceeds it; without its point adjustment.",
                (TEST_STATISTICS,),
            ),
        ),
        "nsibf": (
            NativeRule(
                "best-f1-on-test-labels",
                "The best F1 score of 10,000 thresholds after point adjustment on the "
                "labels of the test; no rule without labels is published.",
                (TEST_STATISTICS, TEST_LABELS),
            ),
        ),
        "geco": (
            NativeRule(
                "cusum",
                "A sum of what exceeds the drift of each invariant, against its "
                "threshold; any invariant raises the alarm.",
            ),
        ),
    }
)


def default_rule(detector: str) -> NativeRule | None:
    """Return the first rule of a detector that looks at nothing of the test."""
    return next((rule for rule in _rules(detector) if not rule.looks_at), None)


def native_rule(detector: str, name: str) -> NativeRule:
    """Return a detector's rule by its name."""
    for rule in _rules(detector):
        if rule.name == name:
            return rule
    known = ", ".join(rule.name for rule in _rules(detector))
    raise StreamError(
        f"{detector} has no rule {name!r}: choose one of {known}, or none."
    )


def _rules(detector: str) -> tuple[NativeRule, ...]:
    if detector not in RULES:
        raise StreamError(
            f"No native rules are known for {detector!r}: choose one of "
            f"{', '.join(RULES)}."
        )
    return RULES[detector]


@dataclass(frozen=True, kw_only=True, eq=False)
class NativeAlarms:
    """What a detector's own rule makes of a test.

    Parameters
    ----------
    rule : NativeRule, optional
        None where there is a score but no rule.
    score : array of shape (n_rows,)
        Higher where it looks more like an attack.
    alarms : array of shape (n_rows,), optional
        Where the score exceeds the threshold, never point-adjusted.
    threshold : float or array of shape (n_rows,), optional
        One for each row where it moves.
    notices : tuple of str
        Sentences about what was chosen, counted or guarded.
    """

    rule: NativeRule | None
    score: Floats
    alarms: Bools | None = None
    threshold: float | Floats | None = None
    notices: tuple[str, ...] = ()


def _needed(labels: npt.ArrayLike | None, rule: NativeRule) -> npt.ArrayLike:
    if labels is None:
        raise StreamError(
            f"The rule {rule.name!r} needs the labels of the test: give `labels` or "
            "choose another rule."
        )
    return labels


def _by_labels(
    rule: NativeRule, score: Floats, labels: npt.ArrayLike | None
) -> NativeAlarms:
    found: ThresholdFound = best_rank_threshold(score, _needed(labels, rule))
    return NativeAlarms(
        rule=rule,
        score=score,
        alarms=score > found.threshold,
        threshold=found.threshold,
        notices=(
            f"Chosen on the labels of the test: F1 {found.f1:.4f}, precision "
            f"{found.precision:.4f}, recall {found.recall:.4f}.",
        ),
    )


# ------------------------------------------------------------------------- alarms


def gdn_alarms(
    held_out_errors: npt.ArrayLike,
    test_errors: npt.ArrayLike,
    rule: str = "held-out",
    labels: npt.ArrayLike | None = None,
) -> NativeAlarms:
    """Return GDN's alarms.

    Parameters
    ----------
    held_out_errors, test_errors : array-like of shape (n_rows, n_channels)
        Forecast errors of the held-out block and of the test.
    rule : str
        One of ``RULES["gdn"]``.
    labels : array-like of shape (n_rows,), optional
        Of the test; looked at by rules that say so alone.
    """
    chosen = native_rule("gdn", rule)
    if TEST_LABELS in chosen.looks_at:
        return _by_labels(chosen, gdn_scores(test_errors).score, labels)
    held_out = gdn_scores(held_out_errors)
    by = None if TEST_STATISTICS in chosen.looks_at else held_out_errors
    score = gdn_scores(test_errors, by).score
    threshold = held_out_threshold(held_out)
    return NativeAlarms(
        rule=chosen, score=score, alarms=score > threshold, threshold=threshold
    )


def fusagnet_alarms(
    held_out: FusagnetErrors,
    test: FusagnetErrors,
    rule: str = "held-out",
    labels: npt.ArrayLike | None = None,
    *,
    alpha: float = 0.5,
) -> NativeAlarms:
    """Return FuSAGNet's alarms.

    Parameters
    ----------
    held_out, test : FusagnetErrors
        Of the held-out block and of the test.
    rule : str
        One of ``RULES["fusagnet"]``.
    labels : array-like of shape (n_rows,), optional
        Of the test; looked at by rules that say so alone.
    alpha : float
        The weight of the forecast in the loss the network was trained with.
    """
    chosen = native_rule("fusagnet", rule)
    if TEST_LABELS in chosen.looks_at:
        return _by_labels(chosen, fusagnet_scores(test, alpha=alpha).score, labels)
    threshold = held_out_threshold(fusagnet_scores(held_out, alpha=alpha))
    score = fusagnet_scores(test, held_out, alpha=alpha).score
    return NativeAlarms(
        rule=chosen, score=score, alarms=score > threshold, threshold=threshold
    )


def tranad_alarms(
    train_scores: npt.ArrayLike,
    test_scores: npt.ArrayLike,
    rule: str = "pot",
    labels: npt.ArrayLike | None = None,
    *,
    level: float | None = None,
    risk: float | None = None,
    multiplier: float = 1.0,
) -> NativeAlarms:
    """Return TranAD's alarms.

    Parameters
    ----------
    train_scores, test_scores : array-like of shape (n_rows,)
        From `tranad_scores`.
    rule : str
        One of ``RULES["tranad"]``.
    labels : array-like, optional
        Never looked at.
    level, risk : float, optional
        Of `peaks_over_threshold`: 0.98 and 1e-4; for the official rule 0.993 (that of
        SWaT; 0.999 for WADI) and 1e-5.
    multiplier : float
        Of `official_static`; other rules refuse it.
    """
    chosen = native_rule("tranad", rule)
    score = check_series(test_scores, "test_scores")
    is_official = TEST_STATISTICS in chosen.looks_at
    if multiplier != 1.0 and not is_official:
        raise StreamError(
            f"`multiplier` means nothing to the rule {rule!r}: leave it out."
        )
    level = level if level is not None else 0.993 if is_official else 0.98
    risk = risk if risk is not None else 1e-5 if is_official else 1e-4
    if chosen.name == "pot-dynamic":
        moving = dynamic_thresholds(train_scores, score, level=level, risk=risk)
        return NativeAlarms(
            rule=chosen,
            score=score,
            alarms=moving.alarms,
            # What each row was judged by: the threshold after the row before.
            threshold=np.append(moving.first.threshold, moving.thresholds)[:-1],
            notices=moving.notices,
        )
    if is_official:
        threshold, found = official_static(
            train_scores, score, level=level, risk=risk, multiplier=multiplier
        )
    else:
        found = peaks_over_threshold(train_scores, level=level, risk=risk)
        threshold = found.threshold
    return NativeAlarms(
        rule=chosen,
        score=score,
        alarms=score > threshold,
        threshold=threshold,
        notices=found.notices,
    )


def nsibf_alarms(
    test_scores: npt.ArrayLike,
    rule: str | None = None,
    labels: npt.ArrayLike | None = None,
) -> NativeAlarms:
    """Return NSIBF's alarms, or its score alone if no rule is named.

    Parameters
    ----------
    test_scores : array-like of shape (n_rows,)
        A nan, where the filter's covariance was no covariance, stays nan and is no
        alarm.
    rule : str, optional
        One of ``RULES["nsibf"]``; none is the default, for none without labels is
        published.
    labels : array-like of shape (n_rows,), optional
        Of the test; looked at by rules that say so alone.
    """
    score = check_scores(test_scores)
    n_missing = int(np.isnan(score).sum())
    notices: tuple[str, ...] = ()
    if n_missing:
        notices = (f"{n_missing} of {len(score)} scores are nan and raise no alarm.",)
    if rule is None:
        return NativeAlarms(rule=None, score=score, notices=notices)
    chosen = native_rule("nsibf", rule)
    found = best_adjusted_threshold(score, _needed(labels, chosen))
    told = (
        f"Chosen on the labels of the test: F1 {found.f1:.4f}, precision "
        f"{found.precision:.4f}, recall {found.recall:.4f}, all after point adjustment."
    )
    return NativeAlarms(
        rule=chosen,
        score=score,
        alarms=score > found.threshold,
        threshold=found.threshold,
        notices=(*notices, told),
    )
