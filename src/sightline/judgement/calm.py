"""Calm windows: what a score does in attack-free stretches of an attack's length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.segments import Segment
from sightline.judgement.verdicts import RungOutcome
from sightline.metrics.window_kl import matched_starts

Counts = npt.NDArray[np.int32]
# A judgement needs this many calm windows, of at least so many rows.
LEAST_WINDOWS = 20
LEAST_ROWS = 20
# Alarms are compared with the calm windows nearest in time.
NEAREST = 40
# An attack must be covered by so much more than calm windows usually are,
CONTRAST = 0.30
# and more than this share of them.
RARE = 0.95
# The share of attack-free points above the limit of every rung.
BUDGET = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class CalmWindows:
    """Attack-free windows to set beside one attack: rows [start, start + length)."""

    length: int
    starts: Ints

    @property
    def stops(self) -> Ints:
        """One past the last row of each."""
        return self.starts + self.length

    def nearest(self, segment: Segment, clock: Ints) -> "CalmWindows":
        """Return the windows nearest to an attack in time."""
        centre = 0.5 * float(clock[segment.start] + clock[segment.stop - 1])
        middles = 0.5 * (clock[self.starts] + clock[self.stops - 1])
        order = np.argsort(np.abs(middles - centre), kind="stable")[:NEAREST]
        return CalmWindows(length=self.length, starts=np.sort(self.starts[order]))


def calm_windows(stretches: Sequence[Segment], length: int) -> CalmWindows | None:
    """Return calm windows as long as an attack, or shorter ones if there are too few.

    Shorter windows vary more, which errs on the careful side. None where there are too
    few of any length.
    """
    while True:
        starts = matched_starts(stretches, length)
        if len(starts) >= LEAST_WINDOWS:
            return CalmWindows(length=length, starts=starts)
        if length <= LEAST_ROWS:
            return None
        length = max(length // 2, LEAST_ROWS)


def running_count(is_above: Bools) -> Counts:
    """Return how many rows before each are above; windows follow by subtraction."""
    counts = np.zeros(len(is_above) + 1, np.int32)
    np.cumsum(is_above, out=counts[1:])
    return counts


def coverage(counts: Counts, segment: Segment) -> float:
    """Return the share of an attack's rows that are above."""
    return float(counts[segment.stop] - counts[segment.start]) / segment.length


def coverages(counts: Counts, windows: CalmWindows) -> Floats:
    """Return the share of each window's rows that are above."""
    return np.asarray((counts[windows.stops] - counts[windows.starts]) / windows.length)


def judged(own: float, calm: Floats, *, by: tuple[str, ...] = ()) -> RungOutcome:
    """Compare an attack's coverage with that of calm windows.

    Examples
    --------
    >>> judged(0.5, np.full(40, 0.01)).visible
    True
    >>> judged(0.98, np.full(40, 0.90)).visible  # an alarm that never stops
    False
    """
    usual, rare = float(np.median(calm)), float(np.quantile(calm, RARE))
    # Coverages are shares of whole rows; a rounding error must not decide.
    visible = own >= usual + CONTRAST - 1e-9 and own > rare
    return RungOutcome(coverage=own, calm=usual, limit=rare, visible=visible, by=by)
