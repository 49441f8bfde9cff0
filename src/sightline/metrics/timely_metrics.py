"""Metrics that pay for being early or near: delay limits, latency, PATE.

The rules on attacks, breaks and ignored rows are those of
`sightline.metrics.alarm_metrics`; no buffer crosses a break.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints
from sightline.errors import StreamError
from sightline.metrics.alarm_metrics import Outputs, of_true_rows, undefined
from sightline.metrics.alarm_runs import AlarmRuns, LabelledRows, Series
from sightline.metrics.score_metrics import ScoreRanks

Alarmed = npt.ArrayLike | AlarmRuns
Scored = npt.ArrayLike | ScoreRanks


def delayed(
    labels: Alarmed, alarms: Series = None, *, k: int = 7, breaks: Series = None
) -> Outputs:
    """Return point-adjusted F1 where only attacks that are found soon count.

    An attack counts with all its rows if one of its first k rows is in alarm, and with
    none otherwise (Ren et al. 2019). Higher is better.

    Parameters
    ----------
    labels : array-like of shape (n_rows,), or AlarmRuns
        1 attack, 0 normal, -1 ignored.
    alarms : array-like of shape (n_rows,)
        0 or 1.
    k : int
        First rows of an attack in which it must be found, 1 or more.
    breaks : array-like of int, optional
        First row of each continuous run.

    Returns
    -------
    dict
        ``precision``, ``recall``, ``f1``.

    Examples
    --------
    >>> delayed([0, 1, 1, 1, 0, 1], [0, 0, 1, 0, 0, 1], k=1)["recall"]
    0.25
    """
    if k < 1:
        raise StreamError(f"`k` must be 1 or more rows; got {k}.")
    runs = AlarmRuns.of(labels, alarms, breaks)
    soon = (runs.first_alarms() - runs.rows.attacks[0] < k) & (runs.touching > 0)
    return of_true_rows(runs, int(runs.rows.lengths[soon].sum()))


def latency(
    labels: Alarmed, alarms: Series = None, *, breaks: Series = None
) -> Outputs:
    """Return F1 where an attack counts from its first alarm on.

    All rows of an attack from its first alarmed row to its end count as alarmed
    (Abdulaal et al. 2021, batches of one row). Higher is better. Parameters as for
    `delayed`.

    Returns
    -------
    dict
        ``precision``, ``recall``, ``f1``.

    Examples
    --------
    >>> latency([0, 1, 1, 1, 0], [0, 0, 1, 0, 0])["recall"]
    0.667
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    true = (runs.rows.attacks[1] - runs.first_alarms()).sum()
    return of_true_rows(runs, int(true))


def pate(
    labels: Scored,
    scores: Series = None,
    *,
    buffer: int = 100,
    thresholds: int = 250,
    breaks: Series = None,
) -> Outputs:
    """Return the proximity-aware area under precision and recall (PATE, 2024).

    An alarmed row counts 1 in an attack; in the `buffer` rows after it, and before it
    if the attack itself is found, less with its distance to the attack's middle: from
    1 there to 0 at the far end of the buffer. Precision is that sum over the alarmed
    rows. Missed rows of an attack count as missed, of one that is found less the later
    they are and the shorter its first alarm is. The value is the mean area over the
    four pairs of buffers of 0 and `buffer` rows before and after; points at which
    recall falls are left out of a curve. Thresholds are quantiles of the distinct
    scores, as the authors take them. Higher is better.

    Parameters
    ----------
    labels, scores, breaks
        As for `sightline.metrics.rank`.
    buffer : int
        Rows of the buffer, 0 or more.
    thresholds : int
        Number of thresholds, 2 or more.

    Returns
    -------
    dict
        ``value``.

    Examples
    --------
    >>> pate([0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0])
    {'value': 1.0}
    """
    ranks = ScoreRanks.of(labels, scores, breaks)
    if buffer < 0 or thresholds < 2:
        raise StreamError(
            f"`buffer` must be 0 or more rows and `thresholds` 2 or more; got {buffer} "
            f"and {thresholds}."
        )
    if not ranks.rows.n_attacks:
        return undefined("value")
    limits = _limits(ranks, thresholds)
    level = ranks.at(np.arange(ranks.rows.n_counted), ranks.rank)
    crossed = np.searchsorted(-limits, -ranks.levels, side="left")[level]
    areas = []
    for curve in _curves(ranks.rows, crossed, len(limits), buffer):
        precision = np.append(1.0, curve.precision)
        recall = np.append(0.0, curve.recall)
        kept = recall >= np.maximum.accumulate(recall)
        areas.append(np.trapezoid(precision[kept], recall[kept]))
    return {"value": float(np.mean(areas))}


def pate_f1(
    labels: Alarmed, alarms: Series = None, *, buffer: int = 100, breaks: Series = None
) -> Outputs:
    """Return PATE's F1 of alarms: the mean over its four pairs of buffers.

    Parameters as for `pate` and `delayed`. Higher is better.

    Returns
    -------
    dict
        ``f1``.

    Examples
    --------
    >>> pate_f1([0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0])
    {'f1': 1.0}
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    if not runs.rows.n_attacks:
        return undefined("f1")
    is_alarm = np.zeros(len(runs.rows.labels), np.int64)
    starts, stops = runs.starts, runs.stops
    np.add.at(is_alarm, starts, 1)
    np.add.at(is_alarm, stops[stops < len(is_alarm)], -1)
    crossed = 1 - np.cumsum(is_alarm)[runs.rows.counted]
    values = []
    for curve in _curves(runs.rows, crossed, 1, buffer):
        precision, recall = float(curve.precision[0]), float(curve.recall[0])
        both = precision + recall
        values.append(2 * precision * recall / both if both else 0.0)
    return {"f1": float(np.mean(values))}


def _limits(ranks: ScoreRanks, n: int) -> Floats:
    """Return the thresholds, from the highest on, as PATE's authors choose them."""
    found = np.searchsorted(
        ranks.attack_sorted, np.arange(len(ranks.levels)), side="right"
    )
    kept = ranks.levels
    if len(found) > 2:
        # A level at which neither it nor the next one gains attack rows adds no corner.
        gains = np.diff(found) > 0
        inner = gains[:-1] | gains[1:]
        kept = kept[np.concatenate([[True], inner, [True]])]
    return np.percentile(kept, np.linspace(100, 0, n))


@dataclass(frozen=True, eq=False)
class _PateCurve:
    """Precision and recall at each threshold for one pair of buffers."""

    precision: Floats
    recall: Floats


def _curves(
    rows: LabelledRows, crossed: Ints, n_limits: int, buffer: int
) -> list[_PateCurve]:
    """Return the curve of each pair of buffers.

    Parameters
    ----------
    rows : LabelledRows
        The labels.
    crossed : int array of shape (n_counted,)
        Number of the first threshold at which each row is in alarm; `n_limits` or more
        if it never is.
    n_limits : int
        Number of thresholds.
    buffer : int
        Rows of the longer buffer.
    """

    def up_to(first: Ints, weight: Floats | None = None) -> Floats:
        counts = np.bincount(first, weight, minlength=n_limits + 1)
        return np.cumsum(counts[:n_limits])

    crossed = np.minimum(crossed, n_limits)
    number = np.cumsum(rows.counted) - 1
    n_alarmed = up_to(crossed)
    inside = crossed[rows.attack_rows]
    found_at = np.minimum.reduceat(inside, rows.first_of_attack)
    missed = _missed(inside, rows, n_limits)
    curves = []
    sizes = (0, buffer) if buffer else (0, 0)
    for before in sizes:
        for after in sizes:
            true = up_to(inside)
            for place, weight, attack in _buffers(rows, before, after):
                counts = rows.counted[place]
                gate = np.where(attack[counts] < 0, 0, found_at[attack[counts]])
                first = np.maximum(crossed[number[place[counts]]], gate)
                true = true + up_to(first, weight[counts])
            precision = np.divide(
                true, n_alarmed, out=np.zeros(n_limits), where=n_alarmed > 0
            )
            whole = true + missed
            recall = np.divide(true, whole, out=np.zeros(n_limits), where=whole > 0)
            curves.append(_PateCurve(precision, recall))
    return curves


def _buffers(
    rows: LabelledRows, before: int, after: int
) -> list[tuple[Ints, Floats, Ints]]:
    """Return rows near attacks, their weights, and the attack that must be found.

    That attack is -1 for rows after one: they count whether it is found or not.
    """
    starts, stops = rows.attacks
    ends = np.minimum(stops + after, rows.records[1])
    following = np.append(starts[1:], 0)
    ends[rows.follows] = np.minimum(ends, following)[rows.follows]
    begins = np.maximum(starts - before, rows.records[0])
    follows_one = np.append(False, rows.follows[:-1])
    earlier = np.append(0, ends[:-1])
    begins[follows_one] = np.maximum(begins, earlier)[follows_one]
    middle = (starts + stops - 1) / 2
    late, of_late = _rows_between(stops, ends)
    early, of_early = _rows_between(begins, starts)
    reach = (ends - 1 - middle)[of_late], (middle - begins)[of_early]
    return [
        (late, 1 - (late - middle[of_late]) / reach[0], np.full(len(late), -1)),
        (early, 1 - (middle[of_early] - early) / reach[1], of_early),
    ]


def _rows_between(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Return all rows of some runs, and the number of the run of each."""
    lengths = np.maximum(stops - starts, 0)
    of = np.repeat(np.arange(len(starts)), lengths)
    first = np.cumsum(lengths) - lengths
    return starts[of] + np.arange(len(of)) - first[of], of


def _missed(inside: Ints, rows: LabelledRows, n_limits: int) -> Floats:
    """Return the weight of missed attack rows at each threshold.

    Of an attack that is not found all rows count. Of one that is, a missed row counts 1
    up to the length of the first alarm in it after its start, then less and less.
    """
    lengths = rows.lengths
    of = np.repeat(np.arange(rows.n_attacks), lengths)
    place = np.arange(len(inside)) - rows.first_of_attack[of]
    most = np.maximum(lengths * (lengths - 1) / 2, 1.0)
    total = np.zeros(n_limits)
    for k in range(n_limits):
        is_alarm = inside <= k
        first = _first_of_each(np.where(is_alarm, place, lengths[of]), rows)
        gaps = ~is_alarm & (place > first[of])
        end = _first_of_each(np.where(gaps, place, lengths[of]), rows)
        run = (end - first)[of]
        far = (run + 1) * (place - run / 2) / most[of]
        weight = np.where((place <= run) | (first == lengths)[of], 1.0, 1 - far)
        total[k] = weight[~is_alarm].sum()
    return total


def _first_of_each(values: Ints, rows: LabelledRows) -> Ints:
    """Return the least value of each attack."""
    return np.minimum.reduceat(values, rows.first_of_attack)
