"""Calm time: the attack-free stretches with which an attack is compared.

*Calm* rows are labelled normal and are not the aftermath of an attack. An attack is
compared with calm windows of its length whose surroundings are in a similar state.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.segments import (
    Segment,
    covered_rows,
    evenly_chosen,
    segments_of,
    window_starts,
)

# A judgement needs this many calm windows, of at least this many rows.
LEAST_WINDOWS: Final = 40
LEAST_ROWS: Final = 20
# At most this many evenly spaced windows are scored, of at most this many rows.
MOST_WINDOWS: Final = 60
MOST_ROWS: Final = 4096
# The state of a stretch: mean log energy of this many calm rows on either side,
STATE_ROWS: Final = 300
# or of the other side alone where one has fewer than this.
LEAST_STATE_ROWS: Final = 100
# Two states within this distance are alike.
LIKE: Final = 0.35
# Fewer windows that do not overlap than this are few.
FEW_DISJOINT: Final = 19


class Flag(StrEnum):
    """What limits the comparison of an attack with calm time.

    ``UNMATCHED``
        Too few windows in a similar state: the nearest in state were taken.
    ``SHORTENED``
        The windows are shorter than the attack.
    ``STATE_CHANGED``
        The state after the attack differs from the state before it, so that a change of
        normal operation cannot be told from the attack.
    ``FEW_WINDOWS``
        Fewer than 19 of the windows do not overlap.
    """

    UNMATCHED = "unmatched"
    SHORTENED = "shortened"
    STATE_CHANGED = "state-changed"
    FEW_WINDOWS = "few-windows"


@dataclass(frozen=True, kw_only=True)
class WindowFacts:
    """With which calm windows an attack was compared.

    Parameters
    ----------
    count : int
        Windows that were scored.
    length : int
        Rows of each.
    matched : int
        Windows in a similar state, of which `count` were scored.
    disjoint : int
        How many of the matched windows do not overlap.
    """

    count: int
    length: int
    matched: int
    disjoint: int


@dataclass(frozen=True, kw_only=True, eq=False)
class CalmWindows:
    """Calm windows [start, start + length) to compare one attack with.

    Parameters
    ----------
    length : int
        Rows of each window.
    starts : array of int
        First row of each window that is scored, sorted.
    matched : array of int
        First row of every window in a similar state, sorted.
    disjoint : int
        How many of the matched windows do not overlap.
    flags : tuple of Flag
        What limits the comparison.
    """

    length: int
    starts: Ints
    matched: Ints
    disjoint: int
    flags: tuple[Flag, ...] = ()

    @property
    def facts(self) -> WindowFacts:
        """What the result says of the windows."""
        return WindowFacts(
            count=len(self.starts),
            length=self.length,
            matched=len(self.matched),
            disjoint=self.disjoint,
        )

    @property
    def segments(self) -> list[Segment]:
        """The rows of each window that is scored."""
        return [Segment(s, s + self.length) for s in self.starts.tolist()]

    def rows(self, n_rows: int) -> Bools:
        """Return which of `n_rows` rows lie in a matched window."""
        return covered_rows(self.matched, self.matched + self.length, n_rows)


def _disjoint(starts: Ints, length: int) -> int:
    """Return how many windows can be chosen, one after the other, without overlap."""
    # For each window the next one that begins after its end.
    following = np.searchsorted(starts, starts + length).tolist()
    count = k = 0
    while k < len(following):
        count, k = count + 1, following[k]
    return count


@dataclass(frozen=True, kw_only=True, eq=False)
class CalmTime:
    """The calm rows of a test record, with their energy.

    Parameters
    ----------
    is_attack_free : array of bool, shape (n_rows,)
        Rows labelled normal that are not the aftermath of an attack.
    log_energy : array of shape (n_rows,)
        Logarithm of the energy of each row.
    breaks : array of int
        Rows at which a new recording begins.
    """

    is_attack_free: Bools
    log_energy: Floats
    breaks: Ints

    def __getstate__(self) -> dict[str, object]:
        """Return what is sent to a worker: not what it finds itself."""
        fields = ("is_attack_free", "log_energy", "breaks")
        return {name: vars(self)[name] for name in fields}

    @cached_property
    def rows(self) -> Ints:
        """The numbers of the calm rows."""
        return np.flatnonzero(self.is_attack_free)

    @cached_property
    def _sums(self) -> Floats:
        """Sum of the log energy of the calm rows before each, and of all."""
        return np.concatenate([[0.0], np.cumsum(self.log_energy[self.rows])])

    @cached_property
    def _stretches(self) -> list[Segment]:
        return segments_of(self.is_attack_free, self.breaks)

    def windows_for(self, segment: Segment) -> CalmWindows | None:
        """Return the calm windows to compare an attack with.

        Windows begin every quarter of their length. Where there are fewer than
        `LEAST_WINDOWS` of the attack's length, the length is halved. A window matches
        if its state before and its state after are each within `LIKE` of one of the
        attack's two.

        Returns
        -------
        CalmWindows or None
            None where there are too few windows of `LEAST_ROWS` rows as well.
        """
        length = min(segment.length, MOST_ROWS)
        while len(starts := window_starts(self._stretches, length)) < LEAST_WINDOWS:
            if length <= LEAST_ROWS:
                return None
            length = max(length // 2, LEAST_ROWS)
        (before,), (after,) = self.state(
            np.array([segment.start]), np.array([segment.stop])
        )
        distance = np.zeros(len(starts))
        for state in self.state(starts, starts + length):
            to_nearer = np.minimum(np.abs(state - before), np.abs(state - after))
            distance = np.maximum(distance, np.nan_to_num(to_nearer, nan=0.0))
        flags = [Flag.SHORTENED] if length < segment.length else []
        order = np.flatnonzero(distance <= LIKE)
        if len(order) < LEAST_WINDOWS:
            flags.append(Flag.UNMATCHED)
            order = np.sort(np.argsort(distance, kind="stable")[:LEAST_WINDOWS])
        if abs(before - after) > LIKE:
            flags.append(Flag.STATE_CHANGED)
        matched = starts[order]
        disjoint = _disjoint(matched, length)
        if disjoint < FEW_DISJOINT:
            flags.append(Flag.FEW_WINDOWS)
        return CalmWindows(
            length=length,
            starts=evenly_chosen(matched, MOST_WINDOWS),
            matched=matched,
            disjoint=disjoint,
            flags=tuple(flags),
        )

    def state(self, starts: Ints, stops: Ints) -> tuple[Floats, Floats]:
        """Return the state before and after each stretch [start, stop).

        The mean log energy of the `STATE_ROWS` calm rows on that side. Where a side
        has fewer than `LEAST_STATE_ROWS`, that of the other side; nan where both have.
        """
        first = np.searchsorted(self.rows, starts)
        last = np.searchsorted(self.rows, stops)
        low = np.maximum(first - STATE_ROWS, 0)
        high = np.minimum(last + STATE_ROWS, len(self.rows))
        before = _mean(self._sums[first] - self._sums[low], first - low)
        after = _mean(self._sums[high] - self._sums[last], high - last)
        return (
            np.where(np.isnan(before), after, before),
            np.where(np.isnan(after), before, after),
        )


def _mean(total: Floats, count: Ints) -> Floats:
    """Return the mean of a state, nan if it has too few rows."""
    enough = np.where(count >= LEAST_STATE_ROWS, count, 1)
    return np.where(count >= LEAST_STATE_ROWS, total / enough, np.nan)
