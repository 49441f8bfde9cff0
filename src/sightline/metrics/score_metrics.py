"""Metrics of a score against labels: rankings, oracle thresholds and volumes.

A row is in alarm at a threshold v if ``score >= v``; thresholds are the distinct
scores, from the highest down to everything alarmed. The rules on attacks, breaks and
ignored rows are those of `sightline.metrics.alarm_metrics`. Without an attack every
figure is None; without a normal row, what needs one. A score that is not finite raises.

The best-F1 figures are oracles: the threshold is chosen by looking at the labels. In
place of labels, a function takes `ScoreRanks`, which many calls can share: it sorts the
score once.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    NORMAL,
    Floats,
    Ints,
    check_choice,
    check_same_length,
    check_series,
)
from sightline.errors import StreamError
from sightline.metrics.alarm_metrics import Outputs, undefined
from sightline.metrics.alarm_runs import LabelledRows, Series

VARIANTS = ("vus", "aeon")


@dataclass(frozen=True, eq=False)
class ScoreRanks:
    """A score, sorted once, and the labels.

    Only counted rows have a number here; ``rolled`` moves the score against the labels.

    Parameters
    ----------
    rows : LabelledRows
        The labels.
    rank : int array of shape (n_counted,)
        Number of distinct scores above that of each row: 0 for the highest.
    levels : array of shape (n_levels,)
        The distinct scores, falling.
    up_to : int array of shape (n_levels,)
        Number of rows with at least each of them.
    shift : int
        Rows by which the score is moved on, round the record's end.
    kept : dict
        What moved copies share, by the number of thresholds at even places of the
        falling order: the first that alarms each row, and how many rows each alarms.

    Examples
    --------
    >>> ranks = ScoreRanks.of([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.4])
    >>> ranks.rank.tolist(), ranks.up_to.tolist()
    ([2, 0, 1, 1], [1, 3, 4])
    """

    rows: LabelledRows
    rank: npt.NDArray[np.int32]
    levels: Floats
    up_to: Ints
    shift: int = 0
    kept: dict[int, tuple[npt.NDArray[np.int32], Ints]] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(
        cls,
        labels: "npt.ArrayLike | LabelledRows | ScoreRanks",
        scores: Series = None,
        breaks: Series = None,
    ) -> "ScoreRanks":
        """Sort a score.

        Parameters
        ----------
        labels : array-like of shape (n_rows,), LabelledRows or ScoreRanks
            1 attack, 0 normal, -1 ignored. `ScoreRanks` are returned as they are.
        scores : array-like of shape (n_rows,)
            Higher is more anomalous; all finite.
        breaks : array-like of int, optional
            First row of each continuous run.

        Raises
        ------
        StreamError
            If lengths differ, or a score is not finite.
        """
        if isinstance(labels, ScoreRanks):
            return labels
        if scores is None:
            raise StreamError(
                "`scores` must be given: one number for each row of `labels`."
            )
        rows, checked = LabelledRows.of(labels, breaks), check_series(scores, "scores")
        check_same_length(labels=rows.labels, scores=checked)
        counted = checked[rows.counted]
        order = np.argsort(counted)[::-1]
        falling = counted[order]
        begins = np.append(True, falling[1:] != falling[:-1])[: len(falling)]
        rank = np.empty(len(order), np.int32)
        rank[order] = np.cumsum(begins, dtype=np.int32) - np.int32(1)
        first = np.flatnonzero(begins)
        up_to = np.append(first[1:], len(falling))[: len(first)]
        return cls(rows, rank, falling[first], up_to)

    def rolled(self, shift: int) -> "ScoreRanks":
        """Return the same score moved `shift` counted rows on, round the end."""
        return replace(self, shift=shift % max(self.rows.n_counted, 1))

    def at(self, rows: Ints, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the value of counted rows, by their number, after the move."""
        if self.shift == 0:
            return values[rows]
        moved = rows - self.shift
        moved[moved < 0] += self.rows.n_counted
        return values[moved]

    @cached_property
    def attack(self) -> npt.NDArray[np.int32]:
        """Rank of each attack row, in the order of the rows."""
        return np.asarray(self.at(self.rows.attack_rows, self.rank))

    @cached_property
    def attack_sorted(self) -> npt.NDArray[np.int32]:
        """The same, from the highest score on."""
        return np.sort(self.attack)

    @cached_property
    def highest(self) -> npt.NDArray[np.int32]:
        """Rank of the highest score of each attack."""
        return np.minimum.reduceat(self.attack, self.rows.first_of_attack)

    @property
    def n_normal(self) -> int:
        """Number of normal rows."""
        return self.rows.n_counted - self.rows.n_attack_rows

    def rows_above(self, rank: npt.NDArray[np.int32]) -> Ints:
        """Return the number of rows with more than the score of each rank."""
        return np.where(rank > 0, self.up_to[rank - 1], 0)

    def normal_up_to(self, rank: npt.NDArray[np.int32]) -> Ints:
        """Return the number of normal rows with at least the score of each rank."""
        attack = np.searchsorted(self.attack_sorted, rank, side="right")
        return self.up_to[rank] - attack


Given = npt.ArrayLike | ScoreRanks


def rank(labels: Given, scores: Series = None, *, breaks: Series = None) -> Outputs:
    """Return how well a score ranks attack rows above normal ones, and its best F1.

    ROC-AUC (ties half) and average precision (step-wise) as scikit-learn has them, and
    the trapezoid area under the precision-recall curve from recall 0, precision 1. The
    best F1, the largest ``2 TP / (TP + FP + P)`` over thresholds, is an **oracle**: its
    threshold saw the labels. Of equal best thresholds it is the highest. Higher is
    better.

    Parameters
    ----------
    labels : array-like of shape (n_rows,), or ScoreRanks
        1 attack, 0 normal, -1 ignored.
    scores : array-like of shape (n_rows,)
        Higher is more anomalous; all finite. Left out if `labels` is a `ScoreRanks`.
    breaks : array-like of int, optional
        First row of each continuous run.

    Returns
    -------
    dict
        ``roc_auc`` (None without a normal row), ``average_precision``,
        ``pr_auc_trapezoid``, ``best_f1``, ``best_f1_threshold``,
        ``best_f1_precision``, ``best_f1_recall``.

    Examples
    --------
    >>> rank([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])["best_f1"]
    0.8
    """
    ranks = ScoreRanks.of(labels, scores, breaks)
    n_attack = ranks.rows.n_attack_rows
    best = ("best_f1", "best_f1_threshold", "best_f1_precision", "best_f1_recall")
    if n_attack == 0:
        return undefined("roc_auc", "average_precision", "pr_auc_trapezoid", *best)
    # The levels that attack rows have, and where the rows of each begin.
    rising = ranks.attack_sorted
    first = np.flatnonzero(np.append(True, rising[1:] != rising[:-1]))
    level = rising[first]
    hits = np.append(first[1:], n_attack)
    false = ranks.up_to[level] - hits
    precision = hits / (hits + false)
    gained = np.diff(hits, prepend=0)
    i, f1 = _best_f1(hits, false, n_attack)
    above = ranks.rows_above(level)
    # Between two levels with attack rows the last level without new hits is the left
    # end of the step.
    before = np.where(above > 0, first / np.maximum(above, 1), 1.0)
    area = float(gained @ (precision + before)) / 2
    return {
        "roc_auc": _roc_auc(ranks, gained, above - first, false),
        "average_precision": float(gained @ precision) / n_attack,
        "pr_auc_trapezoid": area / n_attack,
        "best_f1": f1,
        "best_f1_threshold": float(ranks.levels[level[i]]),
        "best_f1_precision": float(precision[i]),
        "best_f1_recall": float(hits[i]) / n_attack,
    }


def _best_f1(hits: Ints, false: Ints, n_attack: int) -> tuple[int, float]:
    """Return where F1 is largest, the first place, and F1 there."""
    # One division: equal ratios are equal doubles.
    f1 = 2 * hits / (hits + false + n_attack)
    i = int(np.argmax(f1))
    return i, float(f1[i])


def _roc_auc(ranks: ScoreRanks, n_rows: Ints, above: Ints, up_to: Ints) -> float | None:
    """Return the ROC-AUC; None without a normal row.

    Parameters
    ----------
    ranks : ScoreRanks
        The score.
    n_rows, above, up_to : int array of shape (n_levels,)
        Attack rows at some levels, and normal rows above and down to each of them.
    """
    if ranks.n_normal == 0:
        return None
    pairs = 2.0 * ranks.n_normal * ranks.rows.n_attack_rows
    return float(n_rows @ (2 * ranks.n_normal - above - up_to)) / pairs


def best_pak(
    labels: Given,
    scores: Series = None,
    *,
    k: float = 0.0,
    levels: int | None = None,
    breaks: Series = None,
) -> Outputs:
    """Return the largest point-adjusted F1 at K percent over thresholds: an oracle.

    The threshold saw the labels, and point adjustment gives a score at random 0.9 on
    long attacks: never print it without its chance floor. Attack i counts whole from
    its ``(floor((k / 100) L) + 1)``-th largest score down. Higher is better.

    Parameters
    ----------
    labels, scores, breaks
        As for `rank`.
    k : float
        From 0 to 100; see `sightline.metrics.pak`.
    levels : int, optional
        Try this many even levels between the lowest and the highest score, alarmed
        where the score is above, as TSB-AD 1.5 does (100). All distinct scores if None.

    Returns
    -------
    dict
        ``f1``, and the highest ``threshold`` that reaches it.

    Examples
    --------
    >>> best_pak([0, 1, 1, 1, 0], [0.3, 0.2, 0.8, 0.1, 0.4])
    {'f1': 1.0, 'threshold': 0.8}
    """
    if not 0 <= k <= 100:
        raise StreamError(f"`k` must be a percentage from 0 to 100; got {k}.")
    ranks = ScoreRanks.of(labels, scores, breaks)
    n_attack = ranks.rows.n_attack_rows
    if n_attack == 0:
        return undefined("f1", "threshold")
    at, gained = _adjusted_gains(ranks, k)
    order = np.argsort(at, kind="stable")
    at, summed = at[order], np.cumsum(gained[order])
    last = np.flatnonzero(np.append(at[1:] != at[:-1], True))
    level, hits = at[last], summed[last]
    if levels is None:
        i, f1 = _best_f1(hits, ranks.normal_up_to(level), n_attack)
        return {"f1": f1, "threshold": float(ranks.levels[level[i]])}
    tried = np.linspace(ranks.levels[-1], ranks.levels[0], levels)[::-1]
    alarmed = np.searchsorted(-ranks.levels, -tried, side="left") - 1
    hits_at = np.append(0, hits)[np.searchsorted(level, alarmed, side="right")]
    seen = np.maximum(alarmed, 0).astype(np.int32)
    false = np.where(alarmed >= 0, ranks.normal_up_to(seen), 0)
    i, f1 = _best_f1(hits_at, false, n_attack)
    return {"f1": f1, "threshold": float(tried[i])}


def _adjusted_gains(ranks: ScoreRanks, k: float) -> tuple[npt.NDArray[np.int32], Ints]:
    """Return at which ranks attacks gain adjusted rows, and how many."""
    lengths = ranks.rows.lengths
    if k == 0:
        return ranks.highest, lengths
    at, gained = [], []
    for start, length in zip(
        ranks.rows.first_of_attack.tolist(), lengths.tolist(), strict=True
    ):
        rising = np.sort(ranks.attack[start : start + length])
        needed, gain = int(np.floor((k / 100) * length)) + 1, np.ones(length, np.int64)
        if needed <= length:
            # Rows at or below the turning point come with it, all at once.
            before = int(np.searchsorted(rising, rising[needed - 1], side="left"))
            gain[before], gain[before + 1 :] = length - before, 0
        at.append(rising)
        gained.append(gain)
    return np.concatenate(at), np.concatenate(gained)


def pa_rank(labels: Given, scores: Series = None, *, breaks: Series = None) -> Outputs:
    """Return average precision and ROC-AUC of the point-adjusted score.

    Every row of an attack is raised to the attack's largest score; then as `rank`, with
    ``sum (R_k - R_(k-1)) Prec_k`` for the average precision. A score at random reaches
    0.95 on long attacks: never print it without its chance floor. Higher is better.
    Parameters as for `rank`.

    Returns
    -------
    dict
        ``average_precision``, ``roc_auc`` (None without a normal row).

    Examples
    --------
    >>> pa_rank([0, 1, 1, 0], [0.5, 0.1, 0.8, 0.2])
    {'average_precision': 1.0, 'roc_auc': 1.0}
    """
    ranks = ScoreRanks.of(labels, scores, breaks)
    n_attack = ranks.rows.n_attack_rows
    if n_attack == 0:
        return undefined("average_precision", "roc_auc")
    level, of = np.unique(ranks.highest, return_inverse=True)
    gained = np.bincount(of, ranks.rows.lengths).astype(np.int64)
    hits = np.cumsum(gained)
    false = ranks.normal_up_to(level)
    precision = hits / (hits + false)
    attack = np.searchsorted(ranks.attack_sorted, level, side="left")
    above = ranks.rows_above(level) - attack
    return {
        "average_precision": float(gained @ precision) / n_attack,
        "roc_auc": _roc_auc(ranks, gained, above, false),
    }


@dataclass(frozen=True, eq=False)
class _Buffers:
    """The normal rows near attacks, and what they weigh at each window.

    Rows that weigh the same at every window share a profile: a row is described by the
    distance of the nearest attack, and by the reach at which a second attack joins (two
    weights are at least 1.4 together, and the sum is capped at 1).

    Parameters
    ----------
    rows, profile : int array of shape (n_rows,)
        The buffer rows by their number among counted rows, and their profile.
    weight : array of shape (n_windows, n_profiles)
        Weight of each profile at each window.
    before, after : int array of shape (n_attacks, largest reach)
        The rows before and after each attack, nearest first; -1 where there is none.
    group_starts : int array of shape (n_groups,)
        First attack of each group of attacks whose buffers join, for one reach after
        the other: ``reach * n_attacks + attack``.
    group_reach : int array of shape (n_groups,)
        The reach of each of them.
    """

    rows: Ints
    profile: Ints
    weight: Floats
    before: Ints
    after: Ints
    group_starts: Ints
    group_reach: Ints

    @classmethod
    def of(cls, rows: LabelledRows, windows: Ints, aeon: bool, gap: int) -> "_Buffers":
        """Find the rows near attacks, and which attacks join at each reach.

        Parameters
        ----------
        rows : LabelledRows
            The labels.
        windows : int array of shape (n_windows,)
            The windows w; a buffer reaches w // 2 rows.
        aeon : bool
            Whether it reaches one row less after an attack.
        gap : int
            Attacks join if at most this many rows lie between their buffers' edges.
        """
        most = int(windows.max()) // 2
        starts, stops = rows.attacks
        offsets = np.arange(1, most + 1)
        first, end = (edge[:, np.newaxis] for edge in rows.records)
        number = np.cumsum(rows.counted) - 1
        numbered, near = [], []
        for side, less in (
            (starts[:, np.newaxis] - offsets, 0),
            (stops[:, np.newaxis] - 1 + offsets, int(aeon)),
        ):
            row = np.clip(side, 0, len(rows.labels) - 1)
            usable = (side >= first) & (side < end) & rows.counted[row]
            shifted = np.full(row.shape, -1)
            shifted[:, less:] = np.where(usable, number[row], -1)[:, : most - less]
            numbered.append(shifted)
            weighs = usable & (rows.labels[row] == NORMAL)
            distance = np.broadcast_to(offsets, row.shape)[weighs]
            near.append((number[row[weighs]], distance + less, distance))
        row, joined, distance = map(np.concatenate, zip(*near, strict=True))
        # Which attacks join at each reach.
        reach = np.arange(most + 1)[:, np.newaxis]
        both = reach + np.maximum(reach - int(aeon), 0) + gap
        joins = rows.follows[:-1] & (starts[1:] - stops[:-1] + 1 <= both)
        is_first = np.concatenate([np.ones((most + 1, 1), np.bool_), ~joins], axis=1)
        groups = np.flatnonzero(is_first.ravel())
        profiles = _profiles(row, joined, distance, windows)
        before, after = numbered
        return cls(*profiles, before, after, groups, groups // len(starts))

    def seen(
        self, ranks: ScoreRanks, first: npt.NDArray[np.int32], n_thresholds: int
    ) -> Floats:
        """Return the share of groups with an alarm, by reach and threshold.

        `first` is the first threshold that alarms each row.
        """
        rows = ranks.rows
        own = np.minimum.reduceat(
            ranks.at(rows.attack_rows, first), rows.first_of_attack
        )
        alarmed = np.tile(own, (self.before.shape[1] + 1, 1))
        for side in (self.before, self.after):
            found = ranks.at(np.maximum(side, 0), first)
            found[side < 0] = n_thresholds
            around = np.minimum.accumulate(found, axis=1).T
            np.minimum(alarmed[1:], around, out=alarmed[1:])
        of_group = np.minimum.reduceat(alarmed.ravel(), self.group_starts)
        n_reaches, width = len(alarmed), n_thresholds + 1
        counts = np.bincount(
            self.group_reach * width + of_group, minlength=n_reaches * width
        ).reshape(n_reaches, width)
        n_groups = np.bincount(self.group_reach, minlength=n_reaches)
        return np.cumsum(counts[:, :-1], axis=1) / n_groups[:, np.newaxis]


def _profiles(
    row: Ints, joined: Ints, distance: Ints, windows: Ints
) -> tuple[Ints, Ints, Floats]:
    """Return the distinct rows, their profile, and the weight of each profile.

    Parameters
    ----------
    row, joined, distance : int array
        A row near an attack, the reach from which it belongs to the attack's buffer,
        and its distance; a row occurs once for each attack near it.
    windows : int array
        The windows.
    """
    order = np.lexsort((distance, joined, row))
    row, joined, distance = row[order], joined[order], distance[order]
    rows, first = np.unique(row, return_index=True)
    n_near = np.diff(np.append(first, len(row)))
    never = int(windows.max()) + 1
    second = np.append(joined, never)[first + 1]
    second = np.where(n_near > 1, second, never)
    kinds = np.stack([joined[first], distance[first], second], axis=1)
    kinds, profile = np.unique(kinds, axis=0, return_inverse=True)
    reach = windows[:, np.newaxis] // 2
    near, away, both = kinds.T
    share = 1.0 - away / np.maximum(windows[:, np.newaxis], 1)
    weight = np.where(reach >= near, np.sqrt(np.maximum(share, 0.0)), 0.0)
    return rows, profile.ravel(), np.where(reach >= both, 1.0, weight)


def vus(
    labels: Given,
    scores: Series = None,
    *,
    window: int = 100,
    thresholds: int = 250,
    variant: str = "vus",
    breaks: Series = None,
) -> Outputs:
    """Return the volume under the range ROC and PR surfaces (Paparrizos, 2022).

    The mean over windows w = 0, ..., `window` of the areas of `r_auc`, with these
    differences in the variant ``vus``: ``P' = P + B_k / 2`` with B_k the weight of the
    alarmed buffer rows; groups are attacks joined while ``last + h >= first - h``; PR
    is ``sum (R_k - R_(k-1)) Prec_k``. Thresholds are the falling scores at
    ``linspace(0, n - 1, thresholds)``, truncated to whole numbers. Higher is better.

    Parameters
    ----------
    labels, scores, breaks
        As for `rank`.
    window : int
        Largest window, 0 or more rows.
    thresholds : int
        Number of thresholds, 2 or more.
    variant : {"vus", "aeon"}
        As TSB-AD 1.5 and vus 0.0.6 compute it, or as aeon 1.6.0.

    Returns
    -------
    dict
        ``roc`` and ``pr``; ``roc`` is None without a normal row.

    Examples
    --------
    >>> vus([0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0], window=0)
    {'roc': 1.0, 'pr': 1.0}
    """
    ranks = ScoreRanks.of(labels, scores, breaks)
    _check_volume(window, thresholds, variant)
    if ranks.rows.n_attacks == 0:
        return undefined("roc", "pr")
    windows = np.arange(window + 1)
    return _areas(ranks, windows, thresholds, variant, sliding=variant == "vus")


def r_auc(
    labels: Given,
    scores: Series = None,
    *,
    window: int = 100,
    thresholds: int = 250,
    variant: str = "vus",
    breaks: Series = None,
) -> Outputs:
    """Return the areas under the range ROC and PR curves at one window.

    With ``h = window // 2``, a normal row d <= h away from an attack weighs ``sqrt(1 -
    d / window)``, summed over attacks, at most 1. At threshold k, tp_k attack rows and
    weight B_k of buffer rows are alarmed: ``R = min((tp_k + B_k) / P', 1) X``, P' the
    attack rows and half of all buffer weight, X the share of groups (runs of rows that
    weigh) with an alarm; ``FPR = (N_k - tp_k - B_k) / (n - P')``, ``Prec = (tp_k + B_k)
    / N_k``, N_k the alarmed rows. Both areas by trapezoid, PR from precision 1. Even a
    perfect score does not reach ROC 1. In the variant ``aeon`` the buffer after an
    attack is one row shorter, and FPR is at most 1. Higher is better.

    Parameters
    ----------
    labels, scores, breaks, thresholds, variant
        As for `vus`.
    window : int
        The window.

    Returns
    -------
    dict
        ``roc`` and ``pr``; ``roc`` is None without a normal row.

    Examples
    --------
    >>> r_auc([0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0], window=0)
    {'roc': 1.0, 'pr': 1.0}
    """
    ranks = ScoreRanks.of(labels, scores, breaks)
    _check_volume(window, thresholds, variant)
    if ranks.rows.n_attacks == 0:
        return undefined("roc", "pr")
    return _areas(ranks, np.array([window]), thresholds, variant, sliding=False)


def _check_volume(window: int, thresholds: int, variant: str) -> None:
    check_choice("variant", variant, VARIANTS)
    if window < 0:
        raise StreamError(f"`window` must be 0 or more rows; got {window}.")
    if thresholds < 2:
        raise StreamError(f"`thresholds` must be 2 or more; got {thresholds}.")


def _areas(
    ranks: ScoreRanks, windows: Ints, n_thresholds: int, variant: str, *, sliding: bool
) -> Outputs:
    """Return the mean areas over windows; `sliding`: by the rules of VUS."""
    rows, aeon = ranks.rows, variant == "aeon"
    key = (int(windows[0]), int(windows[-1]), aeon, sliding)
    if key not in rows.kept:
        rows.kept[key] = _Buffers.of(rows, windows, aeon, 0 if sliding else 1)
    buffers: _Buffers = rows.kept[key]
    if n_thresholds not in ranks.kept:
        places = np.linspace(0, rows.n_counted - 1, n_thresholds).astype(np.int64)
        # A place in the falling order is at the level whose rows reach past it.
        level = np.searchsorted(ranks.up_to, places, side="right")
        of_level = np.searchsorted(level, np.arange(len(ranks.levels)))
        of_row = of_level.astype(np.int32)[ranks.rank]
        ranks.kept[n_thresholds] = of_row, ranks.up_to[level]
    first, n_alarmed = ranks.kept[n_thresholds]
    attack = ranks.at(rows.attack_rows, first)
    true = np.cumsum(np.bincount(attack, minlength=n_thresholds))
    n_profiles = buffers.weight.shape[1]
    place = buffers.profile * n_thresholds + ranks.at(buffers.rows, first)
    counts = np.bincount(place, minlength=n_profiles * n_thresholds)
    counts = counts.reshape(n_profiles, n_thresholds).astype(np.float64)
    weight = buffers.weight @ np.cumsum(counts, axis=1)
    seen = buffers.seen(ranks, first, n_thresholds)[windows // 2]
    positive = rows.n_attack_rows + (weight if sliding else weight[:, -1:]) / 2
    hits = true + weight
    recall = np.minimum(hits / positive, 1.0) * seen
    precision = hits / n_alarmed
    gained = np.diff(recall, axis=1, prepend=0.0)
    if not sliding:
        earlier = np.concatenate(
            [np.ones((len(windows), 1)), precision[:, :-1]], axis=1
        )
        precision = (precision + earlier) / 2
    roc = None
    if ranks.n_normal:
        fpr = (n_alarmed - hits) / (rows.n_counted - positive)
        # Curves from (0, 0) to (1, 1).
        zero, one = np.zeros((len(fpr), 1)), np.ones((len(fpr), 1))
        x = np.concatenate([zero, np.minimum(fpr, 1.0) if aeon else fpr, one], axis=1)
        y = np.concatenate([zero, recall, one], axis=1)
        roc = float(np.mean(np.trapezoid(y, x, axis=1)))
    return {"roc": roc, "pr": float(np.mean((gained * precision).sum(axis=1)))}
