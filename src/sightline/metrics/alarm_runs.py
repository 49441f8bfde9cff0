"""Attacks and alarms as runs of rows: what every alarm metric is computed from.

Run edges are found once, in one pass over the rows. After that a metric costs as much
as there are attacks and alarm episodes, and alarms that are moved against the labels
(for a chance floor) need no pass over the rows at all.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    Bools,
    Floats,
    Ints,
    Labels,
    check_alarms,
    check_labels,
    check_same_length,
)
from sightline.data.segments import check_breaks, run_bounds
from sightline.errors import StreamError

# One value for each row, or first rows of runs; None if not given.
Series = npt.ArrayLike | None


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledRows:
    """The labels of a test record as runs; `of` makes them.

    Parameters
    ----------
    labels : int8 array of shape (n_rows,)
        1 attack, 0 normal, -1 ignored.
    breaks : int array
        First row of each continuous run of the record; the first is 0. No attack,
        episode, buffer, zone or tail crosses one.
    attacks : tuple of int array
        First row of each attack, and the row after its last.
    lengths : int array of shape (n_attacks,)
        Rows of each attack.
    n_attacks, n_attack_rows : int
        Number of attacks, and of rows under attack.
    counted : array of bool, shape (n_rows,)
        Which rows count: all but those with label -1.
    n_counted : int
        Number of rows that count.
    stretches : tuple of int array
        Runs of counted rows, cut at breaks: their first rows, and their first and last
        numbers when only the counted rows are numbered.
    attack_rows : int array of shape (n_attack_rows,)
        Numbers of the attack rows among the counted rows.
    first_of_attack : int array of shape (n_attacks,)
        Where the rows of each attack begin in `attack_rows`.
    records : tuple of int array
        First row of the continuous run of each attack, and the row after it.
    follows : array of bool, shape (n_attacks,)
        For each attack, whether another one follows in the same run.
    kept : dict
        What metrics derive from the labels alone, for their next call.
    """

    labels: Labels
    breaks: Ints
    attacks: tuple[Ints, Ints]
    lengths: Ints
    n_attacks: int
    n_attack_rows: int
    counted: Bools
    n_counted: int
    stretches: tuple[Ints, Ints, Ints]
    attack_rows: Ints
    first_of_attack: Ints
    records: tuple[Ints, Ints]
    follows: Bools
    kept: dict[tuple[int, int, bool, bool], Any] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(
        cls, labels: "npt.ArrayLike | LabelledRows", breaks: Series = None
    ) -> "LabelledRows":
        """Check labels and breaks; `StreamError` says what is wrong with them."""
        if isinstance(labels, LabelledRows):
            return labels
        checked = check_labels(labels)
        runs = np.zeros(1, np.int64)
        if breaks is not None:
            runs = check_breaks(breaks, "breaks", len(checked))
        starts, stops = run_bounds(checked == ATTACK, runs)
        lengths, counted = stops - starts, np.asarray(checked != IGNORED)
        first, end = run_bounds(counted, runs)
        up_to = np.cumsum(end - first)
        run = np.searchsorted(runs, starts, side="right") - 1
        return cls(
            labels=checked,
            breaks=runs,
            attacks=(starts, stops),
            lengths=lengths,
            n_attacks=len(lengths),
            n_attack_rows=int(lengths.sum()),
            counted=counted,
            n_counted=int(counted.sum()),
            stretches=(first, up_to - (end - first), up_to),
            attack_rows=np.flatnonzero(checked[counted] == ATTACK),
            first_of_attack=np.cumsum(lengths) - lengths,
            records=(runs[run], np.append(runs[1:], len(checked))[run]),
            follows=np.append(run[1:] == run[:-1], False)[: len(run)],
        )

    @cached_property
    def _late_rows(self) -> tuple[Ints, Ints, Floats]:
        """Where NAB forgives an alarm after an attack, and how much, summed up.

        First rows after the attacks, where the sums of each begin, and for each of
        these rows ``sig(x) + 1`` summed from the first row on, with a 0 before it.
        """
        starts, stops = self.attacks
        ends = np.where(self.follows, np.append(starts[1:], 0), self.records[1])
        n_rows = np.minimum(ends - stops, 3 * (self.lengths - 1))
        sums = [
            np.append(0.0, np.cumsum(nab_sigmoid(np.arange(1, n + 1) / width) + 1.0))
            for n, width in zip(
                n_rows.tolist(), (self.lengths - 1).tolist(), strict=True
            )
        ]
        first = np.append(0, np.cumsum(n_rows + 1))
        return stops, first, np.concatenate(sums or [np.zeros(0)])

    def late_alarm_scores(self, starts: Ints, stops: Ints) -> float:
        """Return what NAB adds to -1 for each alarmed row, summed over episodes.

        An alarmed row outside the attacks scores ``sig(x)``, x its distance to the end
        of the attack before it in lengths of that attack, and -1 beyond three lengths.
        Rows of attacks add nothing.
        """
        after, first, summed = self._late_rows
        # An episode may lie after several attacks: take it apart where one ends.
        ends = np.append(self.attacks[0][1:], len(self.labels))
        i, j = overlapping(after, ends, starts, stops)
        n_rows = np.diff(first)[i] - 1
        low = np.minimum(np.maximum(starts[j] - after[i], 0), n_rows)
        high = np.minimum(stops[j] - after[i], n_rows)
        return float((summed[first[i] + high] - summed[first[i] + low]).sum())


def nab_sigmoid(x: Floats) -> Floats:
    """Return ``2 / (1 + exp(5 x)) - 1``: 1 far before 0, -1 far after."""
    return np.asarray(2.0 / (1.0 + np.exp(5.0 * x)) - 1.0)


@dataclass(frozen=True, eq=False)
class AlarmRuns:
    """Attacks and alarm episodes of a test record; `of` makes them.

    Parameters
    ----------
    rows : LabelledRows
        The labels.
    starts, stops, lengths : int array of shape (n_episodes,)
        First row of each episode, the row after its last, and its rows. Ignored rows
        are never in alarm.
    n_episodes, n_alarm_rows, false_rows : int
        Number of episodes, of rows in alarm, and of those outside the attacks.
    pairs : tuple of int array
        Attack, episode and number of shared rows of each pair that overlaps.
    alarmed, touching : int array of shape (n_attacks,)
        Rows in alarm of each attack, and number of episodes that overlap it.
    touched : int array of shape (n_episodes,)
        Number of attacks that each episode overlaps.

    Examples
    --------
    >>> runs = AlarmRuns.of([0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 0, 0])
    >>> runs.starts.tolist(), runs.stops.tolist(), runs.rows.n_attacks
    ([2], [4], 2)
    """

    rows: LabelledRows
    starts: Ints
    stops: Ints
    lengths: Ints
    n_episodes: int
    n_alarm_rows: int
    false_rows: int
    pairs: tuple[Ints, Ints, Ints]
    alarmed: Ints
    touching: Ints
    touched: Ints

    @classmethod
    def of(
        cls,
        labels: "npt.ArrayLike | LabelledRows | AlarmRuns",
        alarms: Series = None,
        breaks: Series = None,
    ) -> "AlarmRuns":
        """Return the runs of labels and alarms.

        Parameters
        ----------
        labels : array-like of shape (n_rows,), LabelledRows or AlarmRuns
            1 attack, 0 normal, -1 ignored. `AlarmRuns` are returned as they are.
        alarms : array-like of shape (n_rows,)
            1 in alarm, 0 not.
        breaks : array-like of int, optional
            First row of each continuous run.

        Raises
        ------
        StreamError
            If lengths differ, or a value is none of these.
        """
        if isinstance(labels, AlarmRuns):
            return labels
        if alarms is None:
            raise StreamError(
                "`alarms` must be given: 0 or 1 for each row of `labels`."
            )
        rows, checked = LabelledRows.of(labels, breaks), check_alarms(alarms)
        check_same_length(labels=rows.labels, alarms=checked)
        in_alarm = (checked == 1) & rows.counted
        return cls.between(rows, *run_bounds(in_alarm, rows.breaks))

    @classmethod
    def between(cls, rows: LabelledRows, starts: Ints, stops: Ints) -> "AlarmRuns":
        """Return the episodes [starts, stops) and how they meet the attacks."""
        first, end = rows.attacks
        attack, episode = overlapping(first, end, starts, stops)
        shared = np.minimum(end[attack], stops[episode]) - np.maximum(
            first[attack], starts[episode]
        )
        lengths = stops - starts
        alarmed = np.bincount(attack, shared, minlength=rows.n_attacks).astype(np.int64)
        return cls(
            rows=rows,
            starts=starts,
            stops=stops,
            lengths=lengths,
            n_episodes=len(starts),
            n_alarm_rows=int(lengths.sum()),
            false_rows=int(lengths.sum()) - int(alarmed.sum()),
            pairs=(attack, episode, shared),
            alarmed=alarmed,
            touching=np.bincount(attack, minlength=rows.n_attacks),
            touched=np.bincount(episode, minlength=len(starts)),
        )

    def first_alarms(self, skipped: int = 0) -> Ints:
        """Return the first alarmed row of each attack from row `skipped` on.

        The row after its last where there is none.
        """
        attack, episode, _ = self.pairs
        later = self.stops[episode] > skipped
        i, which = np.unique(attack[later], return_index=True)
        starts, stops = self.rows.attacks
        first = stops.copy()
        begins = self.starts[episode[later][which]]
        first[i] = np.minimum(
            np.maximum(np.maximum(begins, starts[i]), skipped), stops[i]
        )
        return first

    @cached_property
    def on_counted_rows(self) -> tuple[Ints, Ints]:
        """The episodes when only counted rows are numbered, joined where they touch."""
        first, before, _ = self.rows.stretches
        of = np.searchsorted(first, self.starts, side="right") - 1
        starts = self.starts - first[of] + before[of]
        return _joined(starts, starts + self.lengths)

    def rolled(self, shift: int) -> "AlarmRuns":
        """Return the same alarms moved `shift` counted rows on, round the record's end.

        An episode that meets the end, a break or an ignored row is cut there.
        """
        n = self.rows.n_counted
        starts, stops = self.on_counted_rows
        if len(starts) == 0 or shift % n == 0:
            return self
        starts, stops = starts + shift % n, stops + shift % n
        # Sorted again: those that now begin beyond the end come first.
        turn = int(np.searchsorted(starts, n))
        starts = np.concatenate([starts[turn:] - n, starts[:turn]])
        stops = np.concatenate([stops[turn:] - n, stops[:turn]])
        if stops[-1] > n:
            starts = np.concatenate([[0], starts])
            stops = np.concatenate([[stops[-1] - n], stops[:-1], [n]])
        return self.placed(*_joined(starts, stops))

    def placed(self, starts: Ints, stops: Ints) -> "AlarmRuns":
        """Return episodes given by numbers of counted rows, cut into the stretches."""
        first, before, ends = self.rows.stretches
        inner = ends[:-1]
        of = np.searchsorted(starts, inner, side="left") - 1
        cuts = inner[(of >= 0) & (inner < stops[of])]
        if len(cuts):
            starts = np.sort(np.concatenate([starts, cuts]))
            stops = np.sort(np.concatenate([stops, cuts]))
        if len(first) == 1:
            moved = first[0]
        else:
            stretch = np.searchsorted(before, starts, side="right") - 1
            moved = (first - before)[stretch]
        return AlarmRuns.between(self.rows, starts + moved, stops + moved)


def _joined(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Return sorted runs, those that touch as one."""
    apart = starts[1:] > stops[:-1]
    first = np.concatenate([[True], apart])[: len(starts)]
    last = np.concatenate([apart, [True]])[: len(stops)]
    return starts[first], stops[last]


def overlapping(
    starts: npt.NDArray[np.generic],
    stops: npt.NDArray[np.generic],
    other_starts: npt.NDArray[np.generic],
    other_stops: npt.NDArray[np.generic],
) -> tuple[Ints, Ints]:
    """Return the pairs of two lists of runs that overlap, in order.

    Parameters
    ----------
    starts, stops, other_starts, other_stops : array
        Half-open runs; each list is sorted and its runs do not overlap.

    Returns
    -------
    first, second : int array of shape (n_pairs,)
        Numbers of the runs of each pair.

    Examples
    --------
    >>> first = np.array([0, 10]), np.array([5, 20])
    >>> overlapping(*first, np.array([4, 12, 15]), np.array([11, 13, 16]))
    (array([0, 1, 1, 1]), array([0, 0, 1, 2]))
    """
    low = np.searchsorted(other_stops, starts, side="right")
    high = np.searchsorted(other_starts, stops, side="left")
    n = np.maximum(high - low, 0)
    first = np.repeat(np.arange(len(n)), n)
    within = np.arange(len(first)) - np.repeat(np.cumsum(n) - n, n)
    return first, low[first] + within
