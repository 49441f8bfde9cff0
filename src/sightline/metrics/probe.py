"""What one alarm rule makes of the energy: the controlled Stage-2 probe.

The same questions are asked of the detector's own alarms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Bools, Ints, Labels
from sightline.data.segments import Segment, run_bounds
from sightline.metrics.alarm_load import (
    DAY_S,
    AlarmLoad,
    AttackAlarms,
    Delays,
    alarm_load,
    attack_alarms,
    episodes_of,
)

# A rule that is in alarm more often than this while nothing happens over-alarms.
OVER_ALARMING_RATE = 0.05


@dataclass(frozen=True, kw_only=True)
class AlarmMetrics:
    """How one alarm rule did, judged row by row without point adjustment.

    Parameters
    ----------
    tau99 : float, optional
        The limit.
        Formula: 0.99 quantile of `e_train`.
        Range: from 0.
        Nothing wrong: near half the 0.99 quantile of a chi-squared with p degrees of
        freedom.
        Paper: tau_99.
        Null: in `own_rule`.
    f1 : float, optional
        Precision and recall in one figure.
        Formula: `2 TP / (2 TP + FP + FN)`, by rows.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: under 0.02.
        Paper: F1@p99.
        Null: without attacks. 0 without alarms. Depends on the share of attack rows.
    precision : float, optional
        Share of alarmed rows that are attack rows.
        Formula: alarmed attack rows / alarmed attack and normal rows.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: share of attack rows among attack and normal rows.
        Paper: Prec.
        Null: without attacks, or without any alarm.
    recall : float, optional
        Share of attack rows in alarm.
        Formula: alarmed attack rows / attack rows.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.01.
        Paper: Rec.
        Null: without attacks. Dominated by the longest attack.
    false_positive_segments : int
        False alarms, counted as runs.
        Formula: maximal runs of alarms that touch a normal row and no attack row; with
        protocol `paper` maximal runs of alarmed normal rows.
        Range: from 0.
        Better: lower.
        Nothing wrong: 0.01 of the normal rows if rows are independent, fewer runs if
        neighbours resemble each other.
        Paper: FP-seg.
        Null: never.
    hits : int, optional
        Attacks with at least one alarm.
        Formula: segments with an alarmed row.
        Range: 0 to `n_segments`.
        Better: higher.
        Nothing wrong: grows with the attacks' length.
        Paper: Hits.
        Null: without attacks. Worth little if `over_alarming`, or if not above its
        `floor`.
    false_alarm_rate : float
        Share of normal test rows in alarm.
        Formula: alarmed normal rows / normal rows.
        Range: 0 to 1.
        Better: lower.
        Nothing wrong: 0.01.
        Null: never.
    false_alarms_per_day : float, optional
        False alarms per day of attack-free test time.
        Formula: `false_positive_segments / (normal rows * step_s / 86,400)`.
        Range: from 0.
        Better: lower.
        Nothing wrong: see `false_positive_segments`.
        Null: if `step_s` is not known. Jumpy with less than a few days of normal rows.
    minutes_in_alarm_per_day : float, optional
        How long normal operation is in alarm.
        Formula: `false_alarm_rate * 1,440`.
        Range: 0 to 1,440.
        Better: lower.
        Nothing wrong: 14.4.
        Null: if `step_s` is not known.
    over_alarming : bool
        In alarm so often that a hit says little.
        Formula: `false_alarm_rate > 0.05`.
        Better: false.
        Nothing wrong: false.
        Null: never.
    load : AlarmLoad, optional
        What its alarms cost over attack-free time, counted as episodes.
        Formula: see `AlarmLoad`.
        Null: in results of earlier versions.
    attacks : AttackAlarms, optional
        Which attacks its alarms raise, beside what chance would.
        Formula: see `AttackAlarms`.
        Null: in results of earlier versions.
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
    load: AlarmLoad | None = None
    attacks: AttackAlarms | None = None

    @property
    def time_in_alarm(self) -> float:
        """Share of attack-free time in alarm; of normal rows in earlier results."""
        return self.false_alarm_rate if self.load is None else self.load.share_of_time


def f1_score(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall.

    ``2 P R / (P + R)``, in [0, 1]. Higher is better; 0 if both are 0.

    Parameters
    ----------
    precision, recall : float
        In [0, 1].

    Examples
    --------
    >>> f1_score(0.902, 0.663)
    0.764
    """
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def false_alarm_runs(
    is_alarm: Bools, labels: Labels, breaks: Ints | None = None
) -> tuple[Ints, Ints]:
    """Return the runs of alarms that touch normal steps and no attack step.

    Parameters
    ----------
    is_alarm, labels : array of shape (n_steps,)
        Where the rule is in alarm; 1 attack, 0 normal, -1 ignore.
    breaks : array of int, optional
        First step of each continuous run; no run of alarms crosses one.

    Returns
    -------
    starts, stops : array of int, shape (n_runs,)
        First step of each run, and the step past its end; empty without false alarms.

    Examples
    --------
    >>> alarms = np.array([1, 1, 0, 1, 0, 1], bool)
    >>> starts, stops = false_alarm_runs(alarms, np.array([0, 0, 0, 1, 0, 0]))
    >>> starts.tolist(), stops.tolist()
    ([0, 5], [2, 6])
    """
    starts, stops = run_bounds(is_alarm, breaks)
    before = [np.append(0, np.cumsum(labels == mark)) for mark in (ATTACK, NORMAL)]
    n_attack, n_normal = (counts[stops] - counts[starts] for counts in before)
    is_false = (n_attack == 0) & (n_normal > 0)
    return starts[is_false], stops[is_false]


def judge_alarms(
    is_alarm: Bools,
    labels: Labels,
    attacks: Sequence[Segment],
    *,
    breaks: Ints | None = None,
    step_s: float | None = None,
    tau99: float | None = None,
    is_attack_free: Bools | None = None,
    ids: Sequence[str] = (),
    by_rows: bool = False,
) -> AlarmMetrics:
    """Return how a rule did, row by row and without point adjustment.

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
        The threshold, for the record.
    is_attack_free : array of bool, optional
        Calm rows, over which alarms are counted as episodes; by default all normal
        rows.
    ids : sequence of str
        Names of the attacks.
    by_rows : bool
        Count `false_positive_segments` as maximal runs of false-positive rows, as the
        paper does; else as runs of alarms that touch no attack row.

    Returns
    -------
    AlarmMetrics
        See there for formulas, and for when a figure is None.

    Examples
    --------
    >>> labels = np.array([0, 0, 1, 1, 0])
    >>> alarms = np.array([0, 1, 0, 1, 0], bool)
    >>> found = judge_alarms(alarms, labels, [Segment(2, 4)])
    >>> found.precision, found.recall, found.f1, found.hits
    (0.5, 0.5, 0.5, 1)
    """
    is_attack, is_normal = labels == ATTACK, labels == NORMAL
    n_attack, n_normal = int(is_attack.sum()), int(is_normal.sum())
    true_alarms = int(np.sum(is_alarm & is_attack))
    false_alarms = int(np.sum(is_alarm & is_normal))
    n_alarms = true_alarms + false_alarms
    runs = (
        run_bounds(is_alarm & is_normal, breaks)
        if by_rows
        else false_alarm_runs(is_alarm, labels, breaks)
    )
    n_false = len(runs[0])
    rate = false_alarms / n_normal
    is_attack_free = is_normal if is_attack_free is None else is_attack_free
    delays = Delays.of_step(step_s)
    episodes = episodes_of(is_alarm, delays, breaks)
    # A step may be too short to make any time at all.
    days = None if step_s is None else n_normal * step_s / DAY_S or None
    return AlarmMetrics(
        tau99=tau99,
        f1=2 * true_alarms / (n_attack + n_alarms) if n_attack else None,
        precision=true_alarms / n_alarms if n_attack and n_alarms else None,
        recall=true_alarms / n_attack if n_attack else None,
        false_positive_segments=n_false,
        hits=sum(bool(is_alarm[attack.rows].any()) for attack in attacks)
        if attacks
        else None,
        false_alarm_rate=rate,
        false_alarms_per_day=None if days is None else n_false / days,
        minutes_in_alarm_per_day=None if days is None else rate * DAY_S / 60,
        over_alarming=rate > OVER_ALARMING_RATE,
        load=alarm_load(episodes, is_attack_free, delays, step_s, exceeds=is_alarm),
        attacks=attack_alarms(
            episodes, attacks, is_attack_free, step_s=step_s, breaks=breaks, ids=ids
        ),
    )
