"""GDN's score and alarm rules."""

import numpy as np
import numpy.typing as npt

from sightline.detectors.native_rules import (
    BEST_BY_RANK,
    NativeAlarms,
    NativeRule,
    NativeScores,
    TestUse,
    alarms_by_labels,
    centre_and_spread,
    checked_errors,
    held_out_threshold,
    normalised_errors,
    rule_named,
    smoothed,
)

RULES = (
    NativeRule(
        "held-out",
        "Median, IQR and threshold (the largest smoothed score) are those of the "
        "held-out block.",
    ),
    NativeRule(
        "by-test-statistics",
        "The threshold is the largest smoothed score of the held-out block, each block "
        "scored by its own median and IQR (report=val of the published code).",
        (TestUse.STATISTICS,),
    ),
    BEST_BY_RANK,
)


def gdn_scores(errors: npt.ArrayLike, by: npt.ArrayLike | None = None) -> NativeScores:
    """Return GDN's scores: smoothed absolute errors in units of their spread.

    Parameters
    ----------
    errors : array-like of shape (n_rows, n_channels)
        Forecast errors; their sign does not matter.
    by : array-like of shape (n_other_rows, n_channels), optional
        Errors whose median and IQR are used; `errors` itself if not given.

    Returns
    -------
    NativeScores
        About 0 where nothing is wrong, higher where a row looks more like an attack.
    """
    size = np.abs(checked_errors(errors, "errors"))
    basis = size if by is None else np.abs(checked_errors(by, "by", size.shape[1]))
    channels = smoothed(normalised_errors(size, *centre_and_spread(basis)))
    return NativeScores(channels, channels.max(axis=1))


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
        Name of one of `RULES`.
    labels : array-like of shape (n_rows,), optional
        Of the test; used only by the rule whose name says so.
    """
    chosen = rule_named(RULES, rule, "GDN")
    if TestUse.LABELS in chosen.looks_at:
        return alarms_by_labels(chosen, gdn_scores(test_errors).score, labels)
    held_out = gdn_scores(held_out_errors)
    by = None if TestUse.STATISTICS in chosen.looks_at else held_out_errors
    score = gdn_scores(test_errors, by).score
    threshold = held_out_threshold(held_out)
    return NativeAlarms(
        rule=chosen, score=score, alarms=score > threshold, threshold=threshold
    )
