"""Published and own metrics of alarms against labels.

Every function takes labels and alarms, and returns a dict of its figures. They share
these rules:

- An attack is a maximal run of rows with label 1, rows [S, E) and L = E - S; an episode
  is a maximal run of alarmed rows. Attacks that touch are one.
- Breaks cut attacks, episodes, zones and tails, as if each run were a record of its
  own; values of attacks and episodes and numbers of rows are pooled over the runs.
- With label -1 a row is never in alarm and counts nowhere.
- Without an attack every figure is None. Without an alarm precision is None, and recall
  and F are 0. What needs a normal row is None if there is none.
- ``F_b = (1 + b^2) p r / (b^2 p + r)``, 0 if the denominator is 0.

Higher is better for all but delays. In place of labels, a function takes `AlarmRuns`,
which many calls for the same alarms can share.
"""

from math import exp, fsum

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints, check_choice
from sightline.errors import StreamError
from sightline.metrics.alarm_runs import AlarmRuns, Series, nab_sigmoid, overlapping

# A figure, or one for each attack; None where it is undefined.
Output = float | list[float | None] | None
Outputs = dict[str, Output]
# Where a row stands in its run, for the range-based metrics.
BIASES = ("flat", "front", "back", "middle")
CARDINALITIES = ("reciprocal", "one")
# The percentages K over which PA%K is averaged.
PAK_GRID = tuple(range(101))
# The figures of `event`; its first is no verdict, though one has the same word.
EVENT_OUTPUTS = tuple("detected false_alarms precision recall f1".split())
# NAB: share of the record, and its largest number of rows, in which nothing counts.
NAB_PROBATION_ROWS = 5000
# Steepness and centre of the falling weights of the rows after an attack (eTaPR).
TAIL_CENTRE, TAIL_SLOPE = 6.0, 12.0

Given = npt.ArrayLike | AlarmRuns


def point(labels: Given, alarms: Series = None, *, breaks: Series = None) -> Outputs:
    """Return precision, recall and F1 of single rows.

    ``TP / (TP + FP)``, ``TP / P`` and ``2 TP / (TP + FP + P)``, in rows. Higher is
    better.

    Parameters
    ----------
    labels : array-like of shape (n_rows,), or AlarmRuns
        1 attack, 0 normal, -1 ignored.
    alarms : array-like of shape (n_rows,)
        1 in alarm, 0 not. Left out if `labels` is an `AlarmRuns`.
    breaks : array-like of int, optional
        First row of each continuous run.

    Returns
    -------
    dict
        ``precision``, ``recall``, ``f1``, each from 0 to 1.

    Examples
    --------
    >>> point([0, 1, 1, 1, 0], [0, 0, 1, 1, 1])["recall"]
    0.667
    """
    return pak(labels, alarms, k=100, breaks=breaks)


def pak(
    labels: Given,
    alarms: Series = None,
    *,
    k: float = 0.0,
    inclusive: bool = False,
    breaks: Series = None,
) -> Outputs:
    """Return point-adjusted precision, recall and F1 at K percent.

    An attack with c alarmed rows counts with all its L rows if ``c > (k / 100) L`` (in
    double precision, in that order), else with c. ``k=0`` is plain point adjustment,
    ``k=100`` none. Plain point adjustment gives alarms at random 0.9 on long attacks:
    never print it without its chance floor. Higher is better.

    Parameters
    ----------
    labels, alarms, breaks
        As for `point`.
    k : float
        From 0 to 100.
    inclusive : bool
        Whether exactly K percent is enough, as in tsadmetrics 1.0.16; tadpak, by the
        authors, wants more.

    Returns
    -------
    dict
        ``precision``, ``recall``, ``f1``, each from 0 to 1.

    Examples
    --------
    >>> pak([0, 1, 1, 1, 0], [0, 0, 1, 0, 1])
    {'precision': 0.75, 'recall': 1.0, 'f1': 0.857}
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    if not 0 <= k <= 100:
        raise StreamError(f"`k` must be a percentage from 0 to 100; got {k}.")
    return of_true_rows(runs, int(adjusted_rows(runs, k, inclusive).sum()))


def of_true_rows(runs: AlarmRuns, true: int) -> Outputs:
    """Return precision, recall and F1 with so many attack rows counted as alarmed."""
    n_attack, n_alarms = runs.rows.n_attack_rows, true + runs.false_rows
    if n_attack == 0:
        return undefined("precision", "recall", "f1")
    return {
        "precision": true / n_alarms if n_alarms else None,
        "recall": true / n_attack,
        "f1": 2 * true / (n_alarms + n_attack),
    }


def adjusted_rows(runs: AlarmRuns, k: float, inclusive: bool = False) -> Ints:
    """Return the rows with which each attack counts as alarmed at K percent."""
    alarmed, lengths = runs.alarmed, runs.rows.lengths
    if inclusive:
        whole = (alarmed > 0) & (alarmed / lengths >= k / 100)
    else:
        whole = alarmed > (k / 100) * lengths
    return np.where(whole, lengths, alarmed)


def pak_auc(labels: Given, alarms: Series = None, *, breaks: Series = None) -> Outputs:
    """Return the area under PA%K's F1 over K from 0 to 100, divided by 100.

    The trapezoid rule over ``K = 0, 1, ..., 100``. Higher is better. Parameters as for
    `point`.

    Returns
    -------
    dict
        ``value``, from 0 to 1.

    Examples
    --------
    >>> pak_auc([0, 1, 1, 1, 0], [0, 1, 1, 1, 0])
    {'value': 1.0}
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    if runs.rows.n_attacks == 0:
        return undefined("value")
    share = np.array(PAK_GRID)[:, np.newaxis] / 100
    lengths = runs.rows.lengths
    whole = runs.alarmed > share * lengths
    true = np.where(whole, lengths, runs.alarmed).sum(axis=1)
    f1 = 2 * true / (true + runs.false_rows + runs.rows.n_attack_rows)
    return {"value": float(np.trapezoid(f1) / (len(f1) - 1))}


def range_based(
    labels: Given,
    alarms: Series = None,
    *,
    beta: float = 1.0,
    alpha: float = 0.0,
    cardinality: str = "reciprocal",
    p_bias: str = "flat",
    r_bias: str = "flat",
    breaks: Series = None,
) -> Outputs:
    """Return range-based precision, recall and F (Tatbul and others, 2018).

    Recall of an attack is ``alpha [touched] + (1 - alpha) g w``: w the weight of its
    alarmed rows over that of all its rows, g one over the number of episodes that touch
    it (``reciprocal``) or 1 (``one``). Precision is the same of episodes against
    attacks, with alpha 0. Both are means over attacks and over episodes. Higher is
    better.

    Parameters
    ----------
    labels, alarms, breaks
        As for `point`.
    beta : float
        Weight of recall in F.
    alpha : float
        Reward for touching an attack at all, from 0 to 1.
    cardinality : {"reciprocal", "one"}
        Whether an attack hit by several episodes counts less.
    p_bias, r_bias : {"flat", "front", "back", "middle"}
        Weight of row t = 1, ..., L of an episode or attack: 1, L - t + 1, t, or t up to
        the middle and L - t + 1 after it.

    Returns
    -------
    dict
        ``precision``, ``recall``, ``f``, each from 0 to 1.

    Examples
    --------
    >>> range_based([0, 1, 1, 1, 1, 0], [0, 1, 0, 1, 0, 1])["recall"]
    0.25
    """
    for bias in (p_bias, r_bias):
        check_choice("bias", bias, BIASES)
    check_choice("cardinality", cardinality, CARDINALITIES)
    runs = AlarmRuns.of(labels, alarms, breaks)
    if runs.rows.n_attacks == 0:
        return undefined("precision", "recall", "f")
    once = cardinality == "one"
    recall = float(np.mean(range_recalls(runs, alpha, r_bias, once)))
    precision = None
    if runs.n_episodes:
        attack, episode, _ = runs.pairs
        attacks, episodes = runs.rows.attacks, (runs.starts, runs.stops)
        rewards = _overlap_reward(episodes, attacks, episode, attack, p_bias, once)
        precision = float(np.mean(rewards))
    f = _f_score(precision, recall, beta)
    return {"precision": precision, "recall": recall, "f": f}


def range_recalls(
    runs: AlarmRuns, alpha: float = 0.0, bias: str = "flat", once: bool = False
) -> Floats:
    """Return the range-based recall of each attack; `once`: cardinality ``one``."""
    attack, episode, _ = runs.pairs
    attacks, episodes = runs.rows.attacks, (runs.starts, runs.stops)
    rewards = _overlap_reward(attacks, episodes, attack, episode, bias, once)
    return np.asarray(alpha * (runs.touching > 0) + (1 - alpha) * rewards)


def _overlap_reward(
    runs: tuple[Ints, Ints],
    others: tuple[Ints, Ints],
    of: Ints,
    other: Ints,
    bias: str,
    once: bool,
) -> Floats:
    """Return the weighted share of each run that other runs cover, times g."""
    start, lengths = runs[0][of], (runs[1] - runs[0])[of]
    first = np.maximum(others[0][other], start) - start
    last = np.minimum(others[1][other], runs[1][of]) - start
    covered = _weight_up_to(last, lengths, bias) - _weight_up_to(first, lengths, bias)
    n_runs = len(runs[0])
    whole = _weight_up_to(runs[1] - runs[0], runs[1] - runs[0], bias)
    share = np.bincount(of, covered, minlength=n_runs) / whole
    touching = np.bincount(of, minlength=n_runs)
    return share if once else share / np.maximum(touching, 1)


def _weight_up_to(t: Ints, length: Ints, bias: str) -> Ints:
    """Return the position weight of the first t rows of runs; whole numbers."""
    if bias == "flat":
        return t
    if bias == "back":
        return t * (t + 1) // 2
    front = t * length - t * (t - 1) // 2
    if bias == "front":
        return front
    half = length // 2
    rising = np.minimum(t, half)
    # After the middle the weights are those of `front`.
    before_half = half * length - half * (half - 1) // 2
    falling = np.where(t > half, front - before_half, 0)
    return np.asarray(rising * (rising + 1) // 2 + falling)


def etapr(
    labels: Given,
    alarms: Series = None,
    *,
    theta_p: float = 0.5,
    theta_r: float = 0.1,
    delta: float = 0.0,
    breaks: Series = None,
) -> Outputs:
    """Return the enhanced time-aware precision and recall (Hwang and others, 2022).

    With v the rows that an attack and an episode share, r the share of an attack and p
    the share of an episode that is covered: attacks with ``0 < r < theta_r`` lose all
    v, then episodes with ``0 < p < theta_p``, again and again until nothing changes.
    ``d = [r >= theta_r]``, ``c = [p >= theta_p]``, w the root of an episode's length
    over the sum of all roots. eTaRd is the mean of d, eTaRp that of min(r, 1), eTaR
    that of ``d (1 + min(r, 1)) / 2``; eTaPd is ``sum w c``, eTaPp ``sum w p``, eTaP
    ``sum w c (1 + p) / 2``; f1 is harmonic. Higher is better.

    Parameters
    ----------
    labels, alarms, breaks
        As for `point`.
    theta_p, theta_r : float
        Share of an episode, and of an attack, below which it does not count.
    delta : float
        The rows after an attack, up to ``delta (L - 1)``, count too, with a weight that
        falls from 1 to 0 along an S-curve. The tail ends before the next attack.

    Returns
    -------
    dict
        ``eTaR``, ``eTaRd``, ``eTaRp``, ``eTaP``, ``eTaPd``, ``eTaPp``, ``f1``.

    Examples
    --------
    >>> etapr([0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 0, 0])["eTaR"]
    0.875
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    if runs.rows.n_attacks == 0:
        return undefined("eTaR", "eTaRd", "eTaRp", "eTaP", "eTaPd", "eTaPp", "f1")
    r, p = _pruned(runs, theta_p, theta_r, delta)
    found, capped = r >= theta_r, np.minimum(r, 1.0)
    recall = float(np.mean(found * (1 + capped) / 2))
    outputs: Outputs = {
        "eTaR": recall,
        "eTaRd": float(np.mean(found)),
        "eTaRp": float(np.mean(capped)),
    }
    if runs.n_episodes == 0:
        return outputs | undefined("eTaP", "eTaPd", "eTaPp") | {"f1": 0.0}
    weight = np.sqrt(runs.lengths)
    weight /= weight.sum()
    correct = p >= theta_p
    precision = float(weight @ (correct * (1 + p) / 2))
    return outputs | {
        "eTaP": precision,
        "eTaPd": float(weight @ correct),
        "eTaPp": float(weight @ p),
        "f1": _f_score(precision, recall),
    }


def etapr_recalls(runs: AlarmRuns) -> Floats:
    """Return what each attack adds to eTaR, at the default parameters."""
    r, _ = _pruned(runs, theta_p=0.5, theta_r=0.1, delta=0.0)
    return np.asarray((r >= 0.1) * (1 + np.minimum(r, 1.0)) / 2)


def _pruned(
    runs: AlarmRuns, theta_p: float, theta_r: float, delta: float
) -> tuple[Floats, Floats]:
    """Return the covered share of attacks and episodes after eTaPR's pruning."""
    tails = (delta * (runs.rows.lengths - 1)).astype(np.int64)
    attack, episode, shared = _shared_with_tails(runs, tails)
    n_attacks, n_episodes = runs.rows.n_attacks, runs.n_episodes
    kept = shared.astype(np.float64)
    while True:
        r = np.bincount(attack, kept, minlength=n_attacks) / runs.rows.lengths
        lost = ((r > 0) & (r < theta_r))[attack] & (kept > 0)
        kept[lost] = 0.0
        p = np.bincount(episode, kept, minlength=n_episodes) / runs.lengths
        also = ((p > 0) & (p < theta_p))[episode] & (kept > 0)
        kept[also] = 0.0
        if not (lost.any() or also.any()):
            return r, p


def tapr(
    labels: Given,
    alarms: Series = None,
    *,
    alpha: float = 0.8,
    theta: float = 0.5,
    delta: int = 0,
    breaks: Series = None,
) -> Outputs:
    """Return the time-aware precision and recall (Hwang and others, 2019).

    As `etapr`, but nothing is pruned or weighed: ``TaR = alpha mean[r >= theta] +
    (1 - alpha) mean r`` with r at most 1, and TaP alike of the episodes. Higher is
    better.

    Parameters
    ----------
    labels, alarms, breaks
        As for `point`.
    alpha : float
        Weight of detection against coverage.
    theta : float
        Share from which an attack is detected and an episode correct.
    delta : int
        Rows after an attack that count too; see `etapr`.

    Returns
    -------
    dict
        ``TaR``, ``TaRd``, ``TaRp``, ``TaP``, ``TaPd``, ``TaPp``, ``f1``.

    Examples
    --------
    >>> tapr([0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 0, 0])["TaR"]
    0.95
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    n_attacks = runs.rows.n_attacks
    if n_attacks == 0:
        return undefined("TaR", "TaRd", "TaRp", "TaP", "TaPd", "TaPp", "f1")
    tails = np.full(n_attacks, delta)
    attack, episode, shared = _shared_with_tails(runs, tails)
    r = np.bincount(attack, shared, minlength=n_attacks) / runs.rows.lengths
    r = np.minimum(r, 1.0)
    detected, covered = float(np.mean(r >= theta)), float(np.mean(r))
    recall = alpha * detected + (1 - alpha) * covered
    outputs: Outputs = {"TaR": recall, "TaRd": detected, "TaRp": covered}
    if runs.n_episodes == 0:
        return outputs | undefined("TaP", "TaPd", "TaPp") | {"f1": 0.0}
    p = np.bincount(episode, shared, minlength=runs.n_episodes) / runs.lengths
    correct, share = float(np.mean(p >= theta)), float(np.mean(p))
    precision = alpha * correct + (1 - alpha) * share
    return outputs | {
        "TaP": precision,
        "TaPd": correct,
        "TaPp": share,
        "f1": _f_score(precision, recall),
    }


def _shared_with_tails(runs: AlarmRuns, tails: Ints) -> tuple[Ints, Ints, Floats]:
    """Return attack, episode and shared weight of each pair, tails included.

    The tail of an attack is rows E to E + `tails`, both included. It ends before the
    next attack if it would reach into it, and counts from two rows on. Its weights are
    summed exactly: shares that equal a limit occur.
    """
    attack, episode, shared = runs.pairs
    starts, stops = runs.rows.attacks
    never = len(runs.rows.labels) + int(tails.max()) + 1
    following = np.where(runs.rows.follows, np.append(starts[1:], 0), never)
    last = np.where(stops + tails > following, following - 1, stops + tails)
    ends = np.where(last > stops, np.minimum(last + 1, runs.rows.records[1]), stops)
    if not (last > stops).any():
        return attack, episode, shared.astype(np.float64)
    # A tail that just reaches the next attack shares a row with its tail: one by one.
    sums: dict[tuple[int, int], list[float]] = {
        (i, j): [float(rows)]
        for i, j, rows in zip(
            attack.tolist(), episode.tolist(), shared.tolist(), strict=True
        )
    }
    for i in np.flatnonzero(ends > stops).tolist():
        first, width = int(stops[i]), int(last[i] - stops[i])
        _, touching = overlapping(
            stops[i : i + 1], ends[i : i + 1], runs.starts, runs.stops
        )
        for j in touching.tolist():
            rows = range(
                max(first, int(runs.starts[j])), min(int(ends[i]), int(runs.stops[j]))
            )
            weights = [
                1 / (1 + exp(TAIL_SLOPE * (t - first) / width - TAIL_CENTRE))
                for t in rows
            ]
            sums.setdefault((i, j), []).append(fsum(weights))
    keys = sorted(sums)
    return (
        np.array([i for i, _ in keys], dtype=np.int64),
        np.array([j for _, j in keys], dtype=np.int64),
        np.array([fsum(sums[key]) for key in keys]),
    )


def affiliation(
    labels: Given, alarms: Series = None, *, breaks: Series = None
) -> Outputs:
    """Return affiliation precision, recall and F1 (Huet and others, 2022).

    Row i is the interval [i, i + 1). An attack's zone [z0, z1) reaches to the middle
    between it and its neighbours, and to the ends of the record; Z is its length. An
    alarmed point outside the attack, d away from it, scores ``1 - (L + min(d, M) + d) /
    Z`` with ``M = min(S - z0, z1 - E)``, one inside 1. A point y of the attack, d away
    from the nearest alarm of the zone, scores ``1 - (min(d, m) + d) / Z`` with ``m =
    min(y - z0, z1 - y)``. Precision and recall of an attack are the means of these, all
    in closed form; the figures are means over attacks, precision over those with an
    alarm in their zone. Alarms at random reach 0.6 to 0.7: never print it without its
    chance floor. Higher is better. Parameters as for `point`.

    Returns
    -------
    dict
        ``precision``, ``recall``, ``f1``; ``each_precision`` (None without an alarm in
        the zone) and ``each_recall`` (0 there), one for each attack.

    Examples
    --------
    >>> affiliation([0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0])["each_precision"]
    [0.667]
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    n_attacks = runs.rows.n_attacks
    if n_attacks == 0:
        nothing: Outputs = {"each_precision": [], "each_recall": []}
        return undefined("precision", "recall", "f1") | nothing
    # Where the zone of each attack begins and ends.
    starts, stops = runs.rows.attacks
    z0, z1 = (edge.astype(np.float64) for edge in runs.rows.records)
    follows, middle = runs.rows.follows[:-1], (stops[:-1] + starts[1:]) / 2
    z1[:-1] = np.where(follows, middle, z1[:-1])
    z0[1:] = np.where(follows, middle, z0[1:])
    zone, episode = overlapping(z0, z1, runs.starts, runs.stops)
    a = np.maximum(runs.starts[episode], z0[zone])
    b = np.minimum(runs.stops[episode], z1[zone])
    alarmed = np.bincount(zone, b - a, minlength=n_attacks)
    has_alarm = alarmed > 0
    summed = _precision_integral(runs, zone, a, b, z0, z1)
    each_precision = np.full(n_attacks, np.nan)
    each_precision[has_alarm] = summed[has_alarm] / alarmed[has_alarm]
    loss = _recall_loss(runs, zone, a, b, z0, z1)
    each_recall = np.where(has_alarm, 1.0 - loss / (z1 - z0) / runs.rows.lengths, 0.0)
    recall = float(np.mean(each_recall))
    defined = each_precision[has_alarm]
    precision = float(np.mean(defined)) if len(defined) else None
    return {
        "precision": precision,
        "recall": recall,
        "f1": _f_score(precision, recall),
        "each_precision": [
            v if ok else None
            for v, ok in zip(each_precision.tolist(), has_alarm, strict=True)
        ],
        "each_recall": list(each_recall.tolist()),
    }


def _precision_integral(
    runs: AlarmRuns, zone: Ints, a: Floats, b: Floats, z0: Floats, z1: Floats
) -> Floats:
    """Return the summed score of the alarmed points of each zone.

    `a` and `b` are the ends of the episodes, cut at the ends of the zones.
    """
    starts, stops = (edge.astype(np.float64) for edge in runs.rows.attacks)
    margin = np.minimum(starts - z0, z1 - stops)[zone]
    length, width = runs.rows.lengths[zone], (z1 - z0)[zone]
    start, stop = starts[zone], stops[zone]
    inside = np.maximum(np.minimum(b, stop) - np.maximum(a, start), 0.0)
    # Distances of the nearest and farthest alarmed point, before and after the attack.
    before = start - np.minimum(b, start), start - np.minimum(a, start)
    after = np.maximum(a, stop) - stop, np.maximum(b, stop) - stop
    total = inside
    for near, far in (before, after):
        rows = far - near
        turn_near, turn_far = np.minimum(near, margin), np.minimum(far, margin)
        plain = rows * (far + near) / 2
        cut = (turn_far - turn_near) * (turn_far + turn_near) / 2 + margin * (
            (far - turn_far) - (near - turn_near)
        )
        total = total + rows - (length * rows + plain + cut) / width
    return np.bincount(zone, total, minlength=len(z0)).astype(np.float64)


def _recall_loss(
    runs: AlarmRuns, zone: Ints, a: Floats, b: Floats, z0: Floats, z1: Floats
) -> Floats:
    """Return ``integral of min(d, m) + d`` over the points of each attack.

    d is not 0 only between alarms. In a gap between two alarms of the zone d < m; in
    the gap before the first, or after the last, m is the smaller one beyond the middle
    between the alarm and the far end of the zone.
    """
    starts, stops = (edge.astype(np.float64) for edge in runs.rows.attacks)
    is_first = np.append(True, zone[1:] != zone[:-1])[: len(zone)]
    is_last = np.append(zone[1:] != zone[:-1], True)[: len(zone)]
    start, stop = starts[zone], stops[zone]
    # Up to half of the gap after an alarm; all of it after the last.
    half_after = np.where(is_last, z1[zone], (b + np.append(a[1:], 0.0)[: len(a)]) / 2)
    low, high = np.clip([b, half_after], start, stop)
    turn = np.clip(np.where(is_last, (b + z1[zone]) / 2, half_after), low, high)
    rising = _square_gap(low - b, high - b) + _square_gap(low - b, turn - b)
    rising += _square_gap(z1[zone] - high, z1[zone] - turn)
    # Down from half of the gap before an alarm; all of it before the first.
    earlier = np.append(0.0, b[:-1])[: len(a)]
    half_before = np.where(is_first, z0[zone], (earlier + a) / 2)
    low, high = np.clip([half_before, a], start, stop)
    turn = np.clip(np.where(is_first, (a + z0[zone]) / 2, half_before), low, high)
    falling = _square_gap(a - high, a - low) + _square_gap(a - high, a - turn)
    falling += _square_gap(low - z0[zone], turn - z0[zone])
    return np.bincount(zone, rising + falling, minlength=len(z0)).astype(np.float64)


def _square_gap(low: Floats, high: Floats) -> Floats:
    """Return the integral of x from `low` to `high`, without cancellation."""
    return (high - low) * (high + low) / 2


def event(labels: Given, alarms: Series = None, *, breaks: Series = None) -> Outputs:
    """Return how many attacks have an alarm and how many episodes hit none.

    ``precision = detected / (detected + false_alarms)``, ``recall = detected / m``. An
    alarm that never ends reaches F1 1: read it with the share of time in alarm. Higher
    is better but for false alarms. Parameters as for `point`.

    Returns
    -------
    dict
        ``detected``, ``false_alarms``, ``precision``, ``recall``, ``f1``.

    Examples
    --------
    >>> event([0, 1, 1, 0, 0, 1], [1, 0, 1, 0, 0, 0])["f1"]
    0.5
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    if runs.rows.n_attacks == 0:
        return undefined(*EVENT_OUTPUTS)
    detected, false = _detected(runs)
    n_counted = detected + false
    values = (
        float(detected),
        float(false),
        detected / n_counted if n_counted else None,
        detected / runs.rows.n_attacks,
        2 * detected / (n_counted + runs.rows.n_attacks),
    )
    return dict(zip(EVENT_OUTPUTS, values, strict=True))


def _detected(runs: AlarmRuns) -> tuple[int, int]:
    """Return the number of attacks with an alarm, and of episodes that hit none."""
    return int((runs.touching > 0).sum()), int((runs.touched == 0).sum())


def composite(
    labels: Given, alarms: Series = None, *, breaks: Series = None
) -> Outputs:
    """Return the composite score: precision of rows, recall of attacks (Garg, 2021).

    ``TP / (TP + FP)`` in rows, ``detected / m``, and their harmonic mean. Higher is
    better. Parameters as for `point`.

    Returns
    -------
    dict
        ``precision``, ``recall``, ``f1``.

    Examples
    --------
    >>> composite([0, 1, 1, 0, 0, 1], [1, 0, 1, 0, 0, 0])
    {'precision': 0.5, 'recall': 0.5, 'f1': 0.5}
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    if runs.rows.n_attacks == 0:
        return undefined("precision", "recall", "f1")
    true = int(runs.alarmed.sum())
    precision = true / runs.n_alarm_rows if runs.n_episodes else None
    recall = _detected(runs)[0] / runs.rows.n_attacks
    f1 = _f_score(precision, recall)
    return {"precision": precision, "recall": recall, "f1": f1}


def esa(labels: Given, alarms: Series = None, *, breaks: Series = None) -> Outputs:
    """Return the corrected event-wise figures of ESA-ADB (Kotowski and others, 2024).

    Event precision times ``1 - FP / N``, event recall, their F with beta 0.5 and 1, and
    ``alarming_precision = detected / (detected + extra)``, extra the episodes that
    touch an attack after the first one. Higher is better. Parameters as for `point`.

    Returns
    -------
    dict
        ``precision``, ``recall``, ``alarming_precision``, ``f_0.5``, ``f_1``; all but
        recall and alarming precision are None without a normal row.

    Examples
    --------
    >>> esa([0, 1, 1, 1, 0, 0], [0, 1, 0, 1, 0, 0])["alarming_precision"]
    0.5
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    rows = runs.rows
    if rows.n_attacks == 0:
        return undefined("precision", "recall", "alarming_precision", "f_0.5", "f_1")
    detected, false = _detected(runs)
    recall = detected / rows.n_attacks
    extra = int(np.maximum(runs.touching - 1, 0).sum())
    outputs = undefined("precision") | {"recall": recall}
    outputs |= {"alarming_precision": None, "f_0.5": 0.0, "f_1": 0.0}
    n_normal = rows.n_counted - rows.n_attack_rows
    if runs.n_episodes:
        outputs["alarming_precision"] = detected / max(detected + extra, 1)
    if n_normal == 0:
        return outputs | undefined("f_0.5", "f_1")
    if runs.n_episodes:
        precision = detected / (detected + false) * (1 - runs.false_rows / n_normal)
        outputs["precision"] = precision
        outputs["f_0.5"] = _f_score(precision, recall, 0.5)
        outputs["f_1"] = _f_score(precision, recall)
    return outputs


def delay(labels: Given, alarms: Series = None, *, breaks: Series = None) -> Outputs:
    """Return the rows from an attack's start to its first alarmed row.

    Lower is better. Mean and median are over detected attacks, and so look better the
    more late attacks are missed; ``censored_mean`` takes L for a missed attack: rank by
    this. Parameters as for `point`.

    Returns
    -------
    dict
        ``mean``, ``median`` (None if nothing is detected), ``censored_mean``, and
        ``each``, with None for a missed attack.

    Examples
    --------
    >>> delay([0, 1, 1, 1, 0, 1], [0, 0, 0, 1, 1, 0])
    {'mean': 2.0, 'median': 2.0, 'censored_mean': 1.5, 'each': [2.0, None]}
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    if runs.rows.n_attacks == 0:
        return undefined("mean", "median", "censored_mean") | {"each": []}
    # Rows from each attack's start to its first alarm; all of it if missed.
    rows = runs.first_alarms() - runs.rows.attacks[0]
    found = runs.touching > 0
    detected = rows[found]
    return {
        "mean": float(np.mean(detected)) if len(detected) else None,
        "median": float(np.median(detected)) if len(detected) else None,
        "censored_mean": float(np.mean(rows)),
        "each": [
            float(v) if ok else None for v, ok in zip(rows.tolist(), found, strict=True)
        ],
    }


def nab(
    labels: Given,
    alarms: Series = None,
    *,
    fp_weight: float = 0.11,
    fn_weight: float = 1.0,
    probation: float = 0.0,
    breaks: Series = None,
) -> Outputs:
    """Return the score of the Numenta Anomaly Benchmark, attacks as its windows.

    With ``sig(x) = 2 / (1 + exp(5 x)) - 1``: the first alarmed row t of an attack
    scores ``sig(-(E - t) / L) / sig(-1)``, a missed attack ``-fn_weight``. An alarmed
    row outside scores ``fp_weight sig(x)``, ``x = (t - E' + 1) / (L' - 1)`` for the
    attack before it, and ``-fp_weight`` if x > 3, L' = 1 or no attack is before it.
    ``score = 100 (raw + fn m) / ((1 + fn) m)``: 100 is perfect, 0 is no alarm at all;
    most detectors are far below. Higher is better. Profiles: standard 0.11 and 1, few
    false alarms 0.22 and 1, few misses 0.11 and 2.

    Parameters
    ----------
    labels, alarms, breaks
        As for `point`.
    fp_weight, fn_weight : float
        Cost of an alarmed row outside, and of a missed attack.
    probation : float
        Share of the record at its start (at most of 5,000 rows) that does not count.

    Returns
    -------
    dict
        ``raw``, ``score``.

    Examples
    --------
    >>> nab([0, 1, 1, 0, 0], [0, 1, 0, 0, 0])
    {'raw': 1.0, 'score': 100.0}
    """
    runs = AlarmRuns.of(labels, alarms, breaks)
    rows = runs.rows
    n_rows = len(rows.labels)
    skipped = int(min(np.floor(probation * n_rows), probation * NAB_PROBATION_ROWS))
    stops = rows.attacks[1]
    counts = stops > skipped
    m = int(counts.sum())
    if m == 0:
        return undefined("raw", "score")
    left = ((stops - runs.first_alarms(skipped)) / rows.lengths)[counts]
    scores = nab_sigmoid(-left) / nab_sigmoid(np.array(-1.0))
    hits = np.where(left > 0, scores, -fn_weight)
    # False alarm rows from row `skipped` on: -1 each, and what is forgiven of it.
    begin = np.maximum(runs.starts, skipped)
    end = np.maximum(runs.stops, begin)
    attack, episode, _ = runs.pairs
    first = np.maximum(rows.attacks[0][attack], begin[episode])
    inside = np.maximum(np.minimum(stops[attack], end[episode]) - first, 0)
    n_false = int((end - begin).sum() - inside.sum())
    false = rows.late_alarm_scores(begin, end) - n_false
    raw = float(hits.sum()) + fp_weight * false
    return {"raw": raw, "score": 100 * (raw + fn_weight * m) / ((1 + fn_weight) * m)}


def _f_score(precision: float | None, recall: float, beta: float = 1.0) -> float:
    """Return the weighted harmonic mean; 0 if precision is undefined or both are 0."""
    if precision is None:
        return 0.0
    square = beta * beta
    below = square * precision + recall
    return (1 + square) * precision * recall / below if below else 0.0


def undefined(*names: str) -> Outputs:
    """Return None for each figure."""
    return dict.fromkeys(names)
