"""Rank figures of a stream whose calm time is redrawn and whose attacks are reweighted.

Rows are sorted by falling energy once. All that a draw needs of the calm rows is how
many are drawn above each attack row, and at or above it: a running sum of how often
each calm row is drawn.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints

if TYPE_CHECKING:
    from sightline.metrics.drawing import Drawable, Draws, Tick

# Progress is reported after this many draws.
_TICK = 16


class Seen(NamedTuple):
    """How many of the first 0, 1, ... items one draw has; see `running_sums`.

    `sums` are those of several draws; its own are the bits of `mask` above `shift`.
    """

    sums: Ints
    shift: int
    mask: int

    def at(self, places: Ints) -> Ints:
        """Return how many of the first items it has, for some numbers of items."""
        seen = self.sums.take(places)
        seen >>= self.shift
        seen &= self.mask
        return seen


def running_sums(
    draws: "Draws", block: npt.NDArray[np.int32], bits: int
) -> Iterator[Seen]:
    """Yield for each draw how many of the first 0, 1, ... items are drawn.

    Several draws share a 64-bit integer, so that one running sum is that of all of
    them. What is yielded is valid until the next one.

    Parameters
    ----------
    draws : Draws
        Say how often each block is drawn.
    block : array of shape (n_items,)
        The block that each item is in, and with which it is drawn.
    bits : int
        How many the number of items of a draw has at most.
    """
    lanes = lanes_of(bits)
    # The type that numpy takes as it is, and the same memory for all draws.
    index, times = block.astype(np.intp), np.empty(len(block), np.int64)
    sums = np.zeros(1 + len(block), np.int64)
    for first, shared in enumerate(draws.shared(bits)):
        # No block is out of range; to check this would take a copy.
        shared.take(index, out=times, mode="clip")
        np.cumsum(times, out=sums[1:])
        for k in range(min(lanes, len(draws) - first * lanes)):
            yield Seen(sums, k * bits, (1 << bits) - 1)


def lanes_of(bits: int) -> int:
    """Return how many numbers of this many bits share a 64-bit integer.

    The last one may reach its sign, which `Seen` masks.
    """
    return 64 // max(bits, 1)


class DrawnRanks(NamedTuple):
    """Rank figures, a row for each draw; nan for a draw without calm rows.

    `areas` are by attack, summed over its rows: the area under the ROC curve and that
    up to each limit of the false-alarm rate. `precision` is the average precision with
    one more attack, unseen and wholly seen; nan without attack rows. `median` is the
    median energy of calm rows, nan if it is not needed.
    """

    areas: Floats
    precision: Floats
    median: Floats


def draw_ranks(
    stream: "Drawable",
    draws: Iterable[Seen],
    totals: Floats,
    weights: tuple[Floats, Floats],
    limits: Sequence[float],
    *,
    medians: bool,
    tick: "Tick",
) -> DrawnRanks:
    """Return the rank figures of each draw.

    Parameters
    ----------
    stream : Drawable
        The stream.
    draws : iterable of Seen
        The calm rows of each draw, by falling energy.
    totals : array of shape (n,)
        How many calm rows each draw has.
    weights : array of shape (n, n_attacks), array of shape (n,)
        What a row of each attack weighs in the average precision, above 0; and how
        many rows one more attack weighs.
    limits : sequence of float
        Limits of the false-alarm rate, rising.
    medians : bool
        Whether medians are needed.
    tick : callable
        Called with the number of draws that are done, after some of them.
    """
    n, ranked, (weight, extra) = len(totals), _RankedRows(stream), weights
    ranks = DrawnRanks(
        np.full((n, stream.n_attacks, 1 + len(limits)), np.nan),
        np.full((n, 2), np.nan),
        np.full(n, np.nan),
    )
    for r, seen in enumerate(draws):
        if (total := float(totals[r])) > 0:
            above, up_to = ranked.at_attack_rows(seen)
            ranks.areas[r] = ranked.areas(above, up_to, total, limits).T
            ranks.precision[r] = ranked.precision(up_to, total, weight[r], extra[r])
            if medians:
                ranks.median[r] = ranked.median(seen, int(total))
        if r % _TICK == _TICK - 1 or r == n - 1:
            tick(r + 1)
    return ranks


class _RankedRows:
    """The calm rows of a stream by falling energy, and the attack rows among them."""

    def __init__(self, stream: "Drawable") -> None:
        self._attack = stream.attack.astype(np.intp)
        self._has_equal = bool((stream.up_to != stream.above).any())
        # For each attack row the last of the same energy; none if all are different.
        self._last = None
        if stream.attack_tied.any():
            is_last = np.append(~stream.attack_tied[1:], True)
            self._last = np.flatnonzero(is_last)[np.cumsum(~stream.attack_tied) - 1]
        # Between two of these the median is looked for.
        n = stream.n_normal
        self._places = np.append(np.arange(0, n, isqrt(n) + 1), n)
        self._stream = stream

    def at_attack_rows(self, seen: Seen) -> tuple[Floats, Floats]:
        """Return how many calm rows are above, and at or above, each attack row."""
        above = seen.at(self._stream.above).astype(np.float64)
        if not self._has_equal:
            return above, above
        return above, seen.at(self._stream.up_to).astype(np.float64)

    def areas(
        self, above: Floats, up_to: Floats, total: float, limits: Sequence[float]
    ) -> Floats:
        """Return areas under the ROC curve, of shape (1 + n_limits, n_attacks)."""
        share = 1.0 / total
        areas = np.empty((1 + len(limits), self._stream.n_attacks))
        middle = 0.5 * (above + up_to) if self._has_equal else above
        areas[0] = self._stream.attack_rows - share * self._by_attack(middle)
        for k, limit in enumerate(limits, start=1):
            # Rows come by falling energy: from here on none is above the limit.
            end = int(above.searchsorted(total * limit))
            first = share * above[:end]
            ramp = limit - first
            if self._has_equal:
                # What a step that rises from rate first to last has up to the limit.
                last = share * up_to[:end]
                width = np.where(last > first, last - first, 1.0)
                inner = limit - 0.5 * (first + last)
                ramp = np.where(limit >= last, inner, 0.5 * ramp**2 / width)
            areas[k] = self._by_attack(ramp)
        return areas

    def _by_attack(self, values: Floats) -> Floats:
        """Return sums of values of the first attack rows, by attack."""
        attack = self._attack[: len(values)]
        summed = np.bincount(attack, values, self._stream.n_attacks)
        return summed.astype(np.float64, copy=False)

    def precision(
        self, up_to: Floats, total: float, weight: Floats, extra: float
    ) -> tuple[float, float]:
        """Return the average precision with one more attack, unseen and wholly seen."""
        n, n_normal = len(self._attack), self._stream.n_normal
        if n == 0:
            return np.nan, np.nan
        of_row = weight.take(self._attack)
        hits = np.cumsum(of_row)
        if self._last is not None:
            hits = hits.take(self._last)
        false = n_normal / total * up_to
        low = float(of_row @ (hits / (hits + false)))
        hits += extra
        high = float(of_row @ (hits / (hits + false)))
        by_chance = n / (n + n_normal)
        return (low + extra * by_chance) / n, (high + extra) / n

    def median(self, seen: Seen, total: int) -> float:
        """Return the median energy of the calm rows that are drawn."""
        energy, at_places = self._stream.normal_energy, seen.at(self._places)
        # The middle row, or both middle ones.
        lower, upper = (
            energy[self._row(seen, at_places, number)]
            for number in ((total + 1) // 2, total // 2 + 1)
        )
        return float(0.5 * (upper + lower))

    def _row(self, seen: Seen, at_places: Ints, number: int) -> int:
        """Return the calm row that is the first, second, ... of those drawn."""
        k = int(at_places.searchsorted(number))
        start, stop = self._places[k - 1 : k + 1]
        within = seen.at(np.arange(start + 1, stop + 1))
        return int(start) + int(within.searchsorted(number))
