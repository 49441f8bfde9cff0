"""What one alarm rule makes of the energy: the controlled Stage-2 probe.

The same questions are asked of the detector's own alarms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Bools, Ints, Labels
from sightline.data.segments import Segment, run_bounds

DAY_S = 86_400.0
# A rule that is in alarm more often than this while nothing happens over-alarms.
OVER_ALARMING_RATE = 0.05


@dataclass(frozen=True, kw_only=True)
class AlarmMetrics:
    """How one alarm rule did. What is undefined is None.

    `tau99` is the threshold of the probe (None for the user's own rule). Rates a day
    are over attack-free test time.
    """

    tau99: float | None
    f1: float | None
    precision: float | None
    recall: float | None
    false_positive_segments: int
    hits: int | None
    false_alarm_rate: float
    false_alarms_per_day: float | None
    minutes_in_alarm_per_day: float | None
    over_alarming: bool


def f1_score(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; 0 where both are 0.

    Examples
    --------
    >>> f1_score(0.902, 0.663)
    0.764
    """
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def count_false_positive_segments(
    is_alarm: Bools, labels: Labels, breaks: Ints | None = None
) -> int:
    """Count maximal runs of alarms that touch normal steps and no attack step."""
    starts, stops = run_bounds(is_alarm, breaks)
    if len(starts) == 0:
        return 0
    n_attack = np.concatenate([[0], np.cumsum(labels == ATTACK)])
    n_normal = np.concatenate([[0], np.cumsum(labels == NORMAL)])
    without_attack = n_attack[stops] == n_attack[starts]
    with_normal = n_normal[stops] > n_normal[starts]
    return int(np.sum(without_attack & with_normal))


def judge_alarms(
    is_alarm: Bools,
    labels: Labels,
    attacks: Sequence[Segment],
    *,
    breaks: Ints | None = None,
    step_s: float | None = None,
    tau99: float | None = None,
) -> AlarmMetrics:
    """Judge alarms point by point, without point adjustment.

    Parameters
    ----------
    is_alarm : array of bool, shape (n_steps,)
        Where the rule is in alarm.
    labels : array of shape (n_steps,)
        1 attack, 0 normal, -1 ignore.
    attacks : sequence of Segment
        The attack runs of `labels`.
    breaks : array of int, optional
        First step of each continuous run; no run of alarms crosses one.
    step_s : float, optional
        Seconds a step, for the rates a day.
    tau99 : float, optional
        The threshold, to be kept with the result.
    """
    is_attack, is_normal = labels == ATTACK, labels == NORMAL
    n_attack, n_normal = int(is_attack.sum()), int(is_normal.sum())
    true_alarms = int(np.sum(is_alarm & is_attack))
    false_alarms = int(np.sum(is_alarm & is_normal))
    n_alarms = true_alarms + false_alarms
    precision = true_alarms / n_alarms if n_attack and n_alarms else None
    recall = true_alarms / n_attack if n_attack else None
    f1 = 2 * true_alarms / (n_attack + n_alarms) if n_attack else None
    n_false = count_false_positive_segments(is_alarm, labels, breaks)
    rate = false_alarms / n_normal
    # A step may be too short to make any time at all.
    days = None if step_s is None else n_normal * step_s / DAY_S or None
    return AlarmMetrics(
        tau99=tau99,
        f1=f1,
        precision=precision,
        recall=recall,
        false_positive_segments=n_false,
        hits=sum(bool(is_alarm[attack.rows].any()) for attack in attacks)
        if attacks
        else None,
        false_alarm_rate=rate,
        false_alarms_per_day=None if days is None else n_false / days,
        minutes_in_alarm_per_day=None if days is None else rate * DAY_S / 60,
        over_alarming=rate > OVER_ALARMING_RATE,
    )
