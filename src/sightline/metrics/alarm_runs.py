"""Attacks and alarms as runs of rows: what every alarm metric is computed from.

Run edges are found once, in one pass over the rows. After that a metric costs as much
as there are attacks and alarm episodes, and alarms that are moved against the labels
(for a chance floor) need no pass over the rows at all.
"""

from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The labels of a test record as runs.

    Parameters
    ----------
    labels : int8 array of shape (n_rows,)
        1 attack, 0 normal, -1 ignored.
    breaks : int array
        First row of each continuous run of the record; the first is 0. No attack,
        episode, buffer, zone or tail crosses one.
    kept : dict
        What metrics derive from the labels alone, for their next call.
    """

    labels: Labels
    breaks: Ints
    kept: dict[tuple[int, int, bool, bool], Any] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(
        cls, labels: npt.ArrayLike, breaks: npt.ArrayLike | None = None
    ) -> "LabelledRows":
        """Check labels and breaks; `StreamError` says what is wrong with them."""
        checked = check_labels(labels)
        rows = np.zeros(1, np.int64)
        if breaks is not None:
            rows = check_breaks(breaks, "breaks", len(checked))
        return cls(checked, rows)

    @cached_property
    def attacks(self) -> tuple[Ints, Ints]:
        """First row of each attack, and the row after its last."""
        return run_bounds(self.labels == ATTACK, self.breaks)

    @cached_property
    def lengths(self) -> Ints:
        """Rows of each attack."""
        starts, stops = self.attacks
        return stops - starts

    @property
    def n_attacks(self) -> int:
        """Number of attacks."""
        return len(self.lengths)

    @cached_property
    def n_attack_rows(self) -> int:
        """Number of rows under attack."""
        return int(self.lengths.sum())

    @cached_property
    def counted(self) -> Bools:
        """Which rows count: all but those with label -1."""
        return np.asarray(self.labels != IGNORED)

    @cached_property
    def n_counted(self) -> int:
        """Number of rows that count."""
        return int(self.counted.sum())

    @cached_property
    def stretches(self) -> tuple[Ints, Ints, Ints]:
        """Runs of counted rows, cut at breaks.

        Their first rows, and their first and last numbers when only the counted rows
        are numbered.
        """
        starts, stops = run_bounds(self.counted, self.breaks)
        ends = np.cumsum(stops - starts)
        return starts, ends - (stops - starts), ends

    @cached_property
    def attack_rows(self) -> Ints:
        """Numbers of the attack rows among the counted rows."""
        return np.flatnonzero(self.labels[self.counted] == ATTACK)

    @cached_property
    def first_of_attack(self) -> Ints:
        """Where the rows of each attack begin in `attack_rows`."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def records(self) -> tuple[Ints, Ints]:
        """First row of the continuous run of each attack, and the row after it."""
        ends = np.append(self.breaks[1:], len(self.labels))
        run = np.searchsorted(self.breaks, self.attacks[0], side="right") - 1
        return self.breaks[run], ends[run]

    @cached_property
    def follows(self) -> Bools:
        """For each attack, whether another one follows in the same run."""
        first = self.records[0]
        return np.append(first[1:] == first[:-1], False) if len(first) else first > 0

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
    """Attacks and alarm episodes of a test record.

    Parameters
    ----------
    rows : LabelledRows
        The labels.
    starts, stops : int array of shape (n_episodes,)
        First row of each episode, and the row after its last. Ignored rows are never
        in alarm.

    Examples
    --------
    >>> runs = AlarmRuns.of([0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 0, 0])
    >>> runs.starts.tolist(), runs.stops.tolist(), runs.rows.n_attacks
    ([2], [4], 2)
    """

    rows: LabelledRows
    starts: Ints
    stops: Ints

    @classmethod
    def of(
        cls,
        labels: "npt.ArrayLike | LabelledRows",
        alarms: npt.ArrayLike,
        breaks: npt.ArrayLike | None = None,
    ) -> "AlarmRuns":
        """Return the runs of labels and alarms.

        Parameters
        ----------
        labels : array-like of shape (n_rows,), or LabelledRows
            1 attack, 0 normal, -1 ignored.
        alarms : array-like of shape (n_rows,)
            1 in alarm, 0 not.
        breaks : array-like of int, optional
            First row of each continuous run.

        Raises
        ------
        StreamError
            If lengths differ, or a value is none of these.
        """
        rows = (
            LabelledRows.of(labels, breaks)
            if not isinstance(labels, LabelledRows)
            else labels
        )
        checked = check_alarms(alarms)
        check_same_length(labels=rows.labels, alarms=checked)
        in_alarm = checked == 1
        return cls(rows, *run_bounds(in_alarm & rows.counted, rows.breaks))

    @cached_property
    def lengths(self) -> Ints:
        """Rows of each episode."""
        return self.stops - self.starts

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return len(self.starts)

    @cached_property
    def n_alarm_rows(self) -> int:
        """Number of rows in alarm."""
        return int(self.lengths.sum())

    @cached_property
    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """Attack, episode and number of shared rows of each pair that overlaps."""
        attack, episode = overlapping(*self.rows.attacks, self.starts, self.stops)
        starts, stops = self.rows.attacks
        shared = np.minimum(stops[attack], self.stops[episode]) - np.maximum(
            starts[attack], self.starts[episode]
        )
        return attack, episode, shared

    @cached_property
    def alarmed(self) -> Ints:
        """Rows in alarm of each attack."""
        attack, _, shared = self.pairs
        summed = np.bincount(attack, shared, minlength=self.rows.n_attacks)
        return summed.astype(np.int64)

    @cached_property
    def touching(self) -> Ints:
        """Number of episodes that overlap each attack."""
        return np.bincount(self.pairs[0], minlength=self.rows.n_attacks)

    @cached_property
    def touched(self) -> Ints:
        """Number of attacks that each episode overlaps."""
        return np.bincount(self.pairs[1], minlength=self.n_episodes)

    @cached_property
    def false_rows(self) -> int:
        """Number of rows in alarm outside the attacks."""
        return self.n_alarm_rows - int(self.alarmed.sum())

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
        return replace(self, starts=starts + moved, stops=stops + moved)


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
