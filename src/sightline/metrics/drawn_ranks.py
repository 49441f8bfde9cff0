"""Rank figures of a stream whose calm time is redrawn and whose attacks are reweighted.

Rows are sorted by falling energy once. All that a draw needs of the calm rows is how
many are drawn above each attack row, and at or above it. A sparse product counts those
between two such places, for many draws at a time.
"""

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats

if TYPE_CHECKING:
    from sightline.metrics.drawing import Drawable, Draws, Tick

# Draws are counted this many at a time; fewer if there are more counts than this.
_BATCH = 16
_MOST_COUNTS = 1 << 19
Side: TypeAlias = Literal["left", "right"]


class DrawnRanks(NamedTuple):
    """Rank figures, a row for each draw; nan for a draw without calm rows.

    `areas` are by attack, summed over its rows: the area under the ROC curve and that
    up to each limit of the false-alarm rate. `precision` is the average precision with
    one more attack, unseen and wholly seen; nan without attack rows. `median` is the
    median energy of calm rows.
    """

    areas: Floats
    precision: Floats
    median: Floats


def draw_ranks(
    stream: "Drawable",
    draws: "Draws",
    weight: Floats,
    extra: Floats,
    limits: Sequence[float],
    *,
    tick: "Tick",
) -> DrawnRanks:
    """Return the rank figures of each draw.

    Parameters
    ----------
    stream : Drawable
        The stream.
    draws : Draws
        Say how often each block of calm time is drawn.
    weight : array of shape (n, n_attacks)
        What a row of each attack weighs in the average precision; above 0.
    extra : array of shape (n,)
        How many rows one more attack weighs.
    limits : sequence of float
        Limits of the false-alarm rate, rising.
    tick : callable
        Called with the number of draws that are done, after some of them.
    """
    n, ranked = len(draws), _RankedRows(stream)
    ranks = DrawnRanks(
        np.full((n, stream.n_attacks, 1 + len(limits)), np.nan),
        np.full((n, 2), np.nan),
        np.full(n, np.nan),
    )
    for r, seen in enumerate(ranked.counted(draws.counts, tick)):
        if seen[-1] > 0:
            above, up_to = ranked.at_attack_rows(seen)
            ranks.areas[r] = ranked.areas(above, up_to, seen[-1], np.array(limits)).T
            ranks.precision[r] = ranked.precision(up_to, seen[-1], weight[r], extra[r])
            ranks.median[r] = ranked.median(seen, draws.counts[r])
    return ranks


class _RankedRows:
    """The calm rows of a stream by falling energy, and places among them.

    Places are those of the attack rows, and others so that no two are far apart: the
    median is looked for between two of them.
    """

    def __init__(self, stream: "Drawable") -> None:
        from scipy.sparse import csr_array

        n = stream.n_normal
        others = np.append(np.arange(0, n, isqrt(n) + 1), n)
        self._places = np.unique(np.concatenate([stream.above, stream.up_to, others]))
        self._above = np.searchsorted(self._places, stream.above)
        # None if no calm row has the energy of an attack row.
        self._up_to = None
        if (stream.up_to != stream.above).any():
            self._up_to = np.searchsorted(self._places, stream.up_to)
        # Row k has the calm rows between place k and the next, each by its block.
        self._between = csr_array(
            (np.ones(n, np.int32), stream.normal_block, self._places),
            shape=(len(self._places) - 1, len(stream.block_rows)),
        )
        # For each attack row the last of the same energy; none if all are different.
        self._last = None
        if stream.attack_tied.any():
            is_last = np.append(~stream.attack_tied[1:], True)
            self._last = np.flatnonzero(is_last)[np.cumsum(~stream.attack_tied) - 1]
        self._attack = stream.attack.astype(np.intp)
        self._stream = stream

    def counted(self, counts: npt.NDArray[np.int32], tick: "Tick") -> Iterator[Floats]:
        """Yield how many calm rows each draw has above each place; the last has all."""
        n_places = len(self._places)
        batch = max(1, min(_BATCH, _MOST_COUNTS // n_places))
        for first in range(0, len(counts), batch):
            part = counts[first : first + batch]
            seen = np.zeros((len(part), n_places))
            np.cumsum((self._between @ part.T).T, axis=1, out=seen[:, 1:])
            yield from seen
            tick(first + len(part))

    def at_attack_rows(self, seen: Floats) -> tuple[Floats, Floats]:
        """Return how many calm rows are above, and at or above, each attack row."""
        above = seen.take(self._above)
        return above, above if self._up_to is None else seen.take(self._up_to)

    def areas(
        self, above: Floats, up_to: Floats, total: float, limits: Floats
    ) -> Floats:
        """Return areas under the ROC curve, of shape (1 + n_limits, n_attacks)."""
        share = 1.0 / total
        areas = np.empty((1 + len(limits), self._stream.n_attacks))
        areas[0] = self._by_attack(1.0 - 0.5 * share * (above + up_to))
        # Rows come by falling energy: from here on none is above a limit.
        end = int(np.searchsorted(above, total * limits.max()))
        first, limit = share * above[:end], limits[:, None]
        ramps = np.maximum(limit - first, 0.0)
        if self._up_to is not None:
            # What a step that rises from rate first to last has up to each limit.
            last = share * up_to[:end]
            width = np.where(last > first, last - first, 1.0)
            inner = limit - 0.5 * (first + last)
            ramps = np.where(limit >= last, inner, 0.5 * ramps**2 / width)
        for k, ramp in enumerate(ramps, start=1):
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

    def median(self, seen: Floats, count: npt.NDArray[np.int32]) -> float:
        """Return the median energy of the calm rows that are drawn."""
        energy, half = self._stream.normal_energy, seen[-1] / 2
        upper, weight = self._first(seen, count, half, "left")
        lower = upper
        if weight == half:
            # Half of the rows end here: the median is between two of them.
            lower, _ = self._first(seen, count, half, "right")
        return float(0.5 * (energy[upper] + energy[lower]))

    def _first(
        self, seen: Floats, count: npt.NDArray[np.int32], least: float, side: Side
    ) -> tuple[int, float]:
        """Return the first calm row down to which `least` are drawn, and how many.

        With side ``right``, the first with more than that.
        """
        k = int(np.searchsorted(seen, least, side))
        start, stop = self._places[k - 1 : k + 1]
        down_to = seen[k - 1] + count[self._stream.normal_block[start:stop]].cumsum()
        i = int(np.searchsorted(down_to, least, side))
        return int(start) + i, float(down_to[i])
