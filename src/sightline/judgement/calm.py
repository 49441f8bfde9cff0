"""Calm windows: what a score does in attack-free stretches of an attack's length.

An attack stands out by comparison only. Its coverage, the share of its rows above a
limit, is compared with that of attack-free windows of its length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.segments import Segment
from sightline.judgement.verdicts import RungOutcome
from sightline.metrics.window_kl import matched_starts

Counts = npt.NDArray[np.int32]
# A judgement needs this many calm windows of at least this many rows.
LEAST_WINDOWS = 20
LEAST_ROWS = 20
# Alarms are compared with this many calm windows, the nearest in time.
NEAREST = 40
# A visible attack exceeds the median coverage of calm windows by this much,
CONTRAST = 0.30
# and the coverage of this share of them.
RARE = 0.95
# Share of attack-free rows above the limit of every rung.
BUDGET = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class CalmWindows:
    """Attack-free windows [start, start + length) to compare one attack with.

    Parameters
    ----------
    length : int
        Rows of each window.
    starts : array of int
        First row of each window, sorted.
    """

    length: int
    starts: Ints

    @property
    def stops(self) -> Ints:
        """One past the last row of each window."""
        return self.starts + self.length

    def nearest(self, segment: Segment) -> "CalmWindows":
        """Return the `NEAREST` windows by the distance of their centres to a segment.

        Of windows at equal distance the earlier one comes first.
        """
        centre = 0.5 * float(segment.start + segment.stop - 1)
        centres = 0.5 * (self.starts + (self.stops - 1))
        order = np.argsort(np.abs(centres - centre), kind="stable")[:NEAREST]
        return CalmWindows(length=self.length, starts=np.sort(self.starts[order]))


def calm_windows(stretches: Sequence[Segment], length: int) -> CalmWindows | None:
    """Return calm windows as long as an attack, or shorter ones if there are too few.

    The length is halved until there are `LEAST_WINDOWS`. Shorter windows vary more, so
    that fewer attacks stand out: the error is on the careful side.

    Parameters
    ----------
    stretches : sequence of Segment
        Attack-free runs of rows.
    length : int
        Rows of the attack.

    Returns
    -------
    CalmWindows or None
        None where windows of `LEAST_ROWS` rows (or of the attack's own length, if it
        is shorter) are too few as well.
    """
    while True:
        starts = matched_starts(stretches, length)
        if len(starts) >= LEAST_WINDOWS:
            return CalmWindows(length=length, starts=starts)
        if length <= LEAST_ROWS:
            return None
        length = max(length // 2, LEAST_ROWS)


def running_count(is_above: Bools) -> Counts:
    """Return the number of rows above the limit before each row, and at the end of all.

    The count of rows [i, j) is ``counts[j] - counts[i]``.
    """
    counts = np.zeros(len(is_above) + 1, np.int32)
    np.cumsum(is_above, out=counts[1:])
    return counts


def coverage(counts: Counts, segment: Segment) -> float:
    """Return the share of a segment's rows that are above, from running counts."""
    return float(counts[segment.stop] - counts[segment.start]) / segment.length


def coverages(counts: Counts, windows: CalmWindows) -> Floats:
    """Return the share of each window's rows that are above, from running counts."""
    return np.asarray((counts[windows.stops] - counts[windows.starts]) / windows.length)


def judged(
    attack_coverage: float, calm: Floats, *, by: tuple[str, ...] = ()
) -> RungOutcome:
    """Compare an attack's coverage with that of calm windows.

    Parameters
    ----------
    attack_coverage : float
        Share of the attack's rows above the limit.
    calm : array of shape (n_windows,)
        The same share of each calm window.
    by : tuple of str
        What was used, for the outcome.

    Returns
    -------
    RungOutcome
        Visible if the coverage is at least `CONTRAST` above the median of the calm
        windows, and above their `RARE` quantile.

    Examples
    --------
    >>> judged(0.5, np.full(40, 0.01)).visible
    True
    >>> judged(0.98, np.full(40, 0.90)).visible  # an alarm that never stops
    False
    """
    usual, rare = float(np.median(calm)), float(np.quantile(calm, RARE))
    # Coverages are shares of whole rows; a rounding error must not decide.
    visible = attack_coverage >= usual + CONTRAST - 1e-9 and attack_coverage > rare
    return RungOutcome(
        coverage=attack_coverage, calm=usual, limit=rare, visible=visible, by=by
    )


@dataclass(frozen=True, eq=False)
class AboveLimit:
    """Rows above a limit, or in alarm, with their running counts.

    Parameters
    ----------
    rows : array of bool, shape (n_rows,)
        Which rows are above.
    """

    rows: Bools

    @cached_property
    def counts(self) -> Counts:
        """Running counts of the rows above."""
        return running_count(self.rows)

    def judged(self, segment: Segment, windows: CalmWindows) -> RungOutcome:
        """Compare the coverage of a segment with that of calm windows."""
        return judged(coverage(self.counts, segment), coverages(self.counts, windows))
