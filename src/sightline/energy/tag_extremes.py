"""One tag at one moment: the largest rows of each tag against attack-free time.

Of each tag the largest distance from its attack-free median is kept in base blocks of
ten rows. The *usual* extreme of a tag is the q-th largest over attack-free blocks as
long as an attack with the margins of its label; the ratio of an attack is the largest
over the tags of (its largest distance) / (the usual one). Attack-free blocks are
treated alike, each left out of its own usual extreme.

This module knows residuals and a mask: no verdict, no rule.
"""

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.row_tables import Rows, gather_rows, read_on_grid
from sightline.data.segments import covered_rows

# Rows of a base block, in records of at most this many base blocks.
BASE_ROWS: Final = 10
MOST_BASE: Final = 100_000
# Attack-free rows from which the median of each tag is taken, evenly spaced.
MEDIAN_ROWS: Final = 20_000
# A tag's usual extreme is at least this share of its spread in train; a tag that never
# leaves its median by so much does not deviate.
FLOOR: Final = 1e-3
# A tag whose usual extreme is at the floor hardly ever moves: its ratio means that it
# does, not how much.
MOST_AT_FLOOR: Final = 10.0
# Blocks are shorter than the attack where there are not this many of its length,
WANTED_BLOCKS: Final = 60
# and nothing is said with fewer than this.
LEAST_BLOCKS: Final = 20
# Which of the largest blocks is the usual one: the second, from so many blocks on one
# more than this share of them.
MANY_BLOCKS: Final = 500
LEFT_OUT: Final = 0.002
MOST_LEFT_OUT: Final = 6
_HUGE: Final = 1e150


def usual_rank(n_blocks: int) -> int:
    """Return which of the largest blocks is the usual one.

    Examples
    --------
    >>> [usual_rank(n) for n in (60, 499, 500, 5000)]
    [2, 2, 2, 6]
    """
    if n_blocks < MANY_BLOCKS:
        return 2
    return min(MOST_LEFT_OUT, 1 + int(np.ceil(LEFT_OUT * n_blocks)))


@dataclass(frozen=True, kw_only=True, eq=False)
class UsualExtremes:
    """The extremes of attack-free blocks of one length.

    Parameters
    ----------
    n_base, n_blocks : int
        Base blocks of a block, and how many blocks there are.
    rank : int
        Which of the largest blocks is the usual one.
    usual : array of shape (p,)
        Usual extreme of each tag.
    largest, order : array of shape (n_kept, p)
        The largest blocks of each tag: their extremes and numbers.
    ratios : array of shape (n_blocks,)
        Largest ratio of each block, itself left out.
    floor : array of shape (p,)
        The least usual extreme.
    """

    n_base: int
    n_blocks: int
    rank: int
    usual: Floats
    largest: Floats
    order: Ints
    ratios: Floats
    floor: Floats

    def ratio(self, extremes: Floats, usual: Floats | None = None) -> Floats:
        """Return extremes of tags as multiples of the usual ones."""
        usual = self.usual if usual is None else usual
        ratio = extremes / usual
        capped = np.minimum(ratio, MOST_AT_FLOOR)
        return np.asarray(np.where(usual <= self.floor, capped, ratio))

    def without(self, is_own: Bools) -> Floats:
        """Return the usual extremes without some of the largest blocks.

        Parameters
        ----------
        is_own : array of bool, shape (n_kept, p)
            Which of the largest blocks to leave out.
        """
        counted = np.cumsum(~is_own, axis=0)
        place = np.argmax(counted >= self.rank, axis=0)
        place = np.where(counted[-1] >= self.rank, place, len(self.largest) - 1)
        kept = np.take_along_axis(self.largest, place[None], 0)[0]
        return np.asarray(np.maximum(kept, self.floor))


@dataclass(frozen=True, kw_only=True, eq=False)
class TagExtremes:
    """The largest distance of each tag from its attack-free median, by base blocks.

    Parameters
    ----------
    centre : array of shape (p,)
        Median of the attack-free rows.
    floor : array of shape (p,)
        The distance below which a tag does not deviate.
    largest : array of shape (n_base, p)
        Largest distance within each base block.
    free : array of int
        Numbers of the base blocks that are attack-free as a whole.
    base_rows : int
        Rows of a base block.
    """

    centre: Floats
    floor: Floats
    largest: Floats
    free: Ints
    base_rows: int
    _usual: dict[int, UsualExtremes] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: Rows, is_attack_free: Bools, spread: Floats) -> "TagExtremes":
        """Return the extremes of a record; read once.

        Parameters
        ----------
        rows : Rows
            Residuals.
        is_attack_free : array of bool, shape (n_rows,)
            Which of them are attack-free; at least one.
        spread : array of shape (p,)
            Spread of each tag in train.
        """
        free = np.flatnonzero(is_attack_free)
        some = free[:: max(1, -(-len(free) // MEDIAN_ROWS))]
        centre = np.median(gather_rows(rows, some), axis=0)
        base = BASE_ROWS * max(1, -(-rows.n_rows // (BASE_ROWS * MOST_BASE)))
        n_base = -(-rows.n_rows // base)
        largest = np.zeros((n_base, rows.n_channels))
        for first, block in read_on_grid(rows):
            distance = np.abs(np.asarray(block, np.float64) - centre)
            number = np.arange(first, first + len(block)) // base
            edges = np.flatnonzero(np.diff(number, prepend=-1))
            here = np.maximum.reduceat(distance, edges, axis=0)
            where = number[edges]
            largest[where] = np.maximum(largest[where], here)
        starts = np.arange(0, rows.n_rows, base)
        whole = np.minimum.reduceat(is_attack_free, starts)
        return cls(
            centre=centre,
            floor=np.maximum(FLOOR * spread, 1e-300),
            largest=np.minimum(largest, _HUGE),
            free=np.flatnonzero(whole),
            base_rows=base,
        )

    def usual_for(self, n_rows: int) -> UsualExtremes | None:
        """Return the extremes of attack-free blocks for an attack of so many rows.

        Blocks are at least as long as the attack (lengths grow by a third or a half),
        or as long as `WANTED_BLOCKS` of them allow. None with too few.
        """
        wanted = -(-n_rows // self.base_rows)
        n_base = 1
        while n_base < wanted:
            n_base = n_base * 3 // 2 if n_base & (n_base - 1) == 0 else n_base * 4 // 3
            n_base = max(n_base, 2)
        n_base = max(1, min(n_base, len(self.free) // WANTED_BLOCKS))
        if len(self.free) // n_base < LEAST_BLOCKS:
            return None
        if n_base not in self._usual:
            self._usual[n_base] = self._of_length(n_base)
        return self._usual[n_base]

    def _of_length(self, n_base: int) -> UsualExtremes:
        """Return the extremes of blocks of so many base blocks."""
        n = len(self.free) // n_base
        p = self.largest.shape[1]
        blocks = self.largest[self.free[: n * n_base]].reshape(n, n_base, p)
        blocks = blocks[:, 0] if n_base == 1 else blocks.max(axis=1)
        rank = usual_rank(n)
        n_kept = min(n, 2 * rank + 2)
        order = np.argpartition(-blocks, n_kept - 1, axis=0)[:n_kept]
        largest = np.take_along_axis(blocks, order, 0)
        sorted_ = np.argsort(-largest, axis=0, kind="stable")
        order = np.take_along_axis(order, sorted_, 0)
        largest = np.take_along_axis(largest, sorted_, 0)
        found = UsualExtremes(
            n_base=n_base,
            n_blocks=n,
            rank=rank,
            usual=np.maximum(largest[rank - 1], self.floor),
            largest=largest,
            order=order,
            ratios=np.zeros(n),
            floor=self.floor,
        )
        found.ratios[:] = found.ratio(blocks).max(axis=1)
        for number in np.unique(order[:rank]).tolist():
            usual = found.without(order == number)
            found.ratios[number] = found.ratio(blocks[number], usual).max()
        return found

    def without(self, starts: Ints, stops: Ints) -> "TagExtremes":
        """Return the same where rows [start, stop) are not attack-free either."""
        first, last = starts // self.base_rows, -(-stops // self.base_rows)
        is_out = covered_rows(first, last, len(self.largest))
        return replace(self, free=self.free[~is_out[self.free]], _usual={})

    def reaching(self, tag: int, distance: float, n_base: int) -> float:
        """Return the share of attack-free blocks in which a tag is so far out."""
        n = len(self.free) // n_base
        blocks = self.largest[self.free[: n * n_base], tag].reshape(n, n_base)
        return float((blocks.max(axis=1) >= distance).mean())

    def blocks_of(self, start: int, stop: int, n_base: int) -> tuple[Ints, int, int]:
        """Return the base blocks of rows [start, stop), and the blocks that hold them.

        The blocks are numbered as `UsualExtremes.order` does: first, and the one past
        the last.
        """
        first, last = start // self.base_rows, -(-stop // self.base_rows)
        low, high = np.searchsorted(self.free, [first, last])
        return self.free[low:high], int(low) // n_base, -(-int(high) // n_base)
