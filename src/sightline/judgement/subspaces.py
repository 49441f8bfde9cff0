"""Smaller spaces: channels alone, groups, and the few largest channels of each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.row_tables import (
    BLOCK_ROWS,
    Part,
    RowNumbers,
    Rows,
    Tick,
    joined,
    map_parts,
)
from sightline.data.segments import Segment
from sightline.energy.reference import Reference
from sightline.judgement.calm import BUDGET, CalmWindows, judged
from sightline.judgement.verdicts import RungOutcome

# The largest channels of a row are summed up to this many.
MOST_LARGEST = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """A fixed family of smaller spaces under one reference.

    Columns are: each channel alone, each group, the sums of the 2, 3, 4, 5 largest.
    """

    reference: Reference
    channels: tuple[str, ...]
    groups: tuple[tuple[str, tuple[int, ...]], ...] = ()
    largest: int = MOST_LARGEST

    @property
    def most(self) -> int:
        """How many of the largest channels are summed at most."""
        return min(self.largest, len(self.channels))

    @property
    def n_spaces(self) -> int:
        """Number of columns."""
        return len(self.channels) + len(self.groups) + self.most - 1

    def name(self, column: int) -> str:
        """Return what a column is called."""
        p, n_groups = len(self.channels), len(self.groups)
        if column < p:
            return self.channels[column]
        if column < p + n_groups:
            return self.groups[column - p][0]
        return f"largest {column - p - n_groups + 2}"

    def members(self, column: int) -> tuple[int, ...]:
        """Return the channels of a column; of a sum of the largest, none."""
        p, n_groups = len(self.channels), len(self.groups)
        if column < p:
            return (column,)
        return self.groups[column - p][1] if column < p + n_groups else ()

    def energies(self, block: Floats, out: Floats) -> None:
        """Write the energy of each row in each space."""
        from sightline._kernels.spaces import single_energies

        centered = block - self.reference.mean
        variance = np.diag(self.reference.covariance)
        single_energies(centered, 0.5 / variance, self.most, out)
        p = len(self.channels)
        for k, (_, members) in enumerate(self.groups):
            columns = list(members)
            inside = self.reference.covariance[np.ix_(columns, columns)]
            whitened = np.linalg.solve(
                np.linalg.cholesky(inside), centered[:, columns].T
            )
            out[:, p + k] = 0.5 * np.sum(whitened**2, axis=0)


def family_of(
    reference: Reference,
    channels: Sequence[str],
    groups: Mapping[str, Sequence[str]] | None,
) -> Family:
    """Return the family of a stream; a group of one channel, or of all, is none."""
    place = {name: k for k, name in enumerate(channels)}
    kept = []
    for name, members in (groups or {}).items():
        columns = tuple(sorted({place[m] for m in members if m in place}))
        if 1 < len(columns) < len(channels):
            kept.append((str(name), columns))
    return Family(reference=reference, channels=tuple(channels), groups=tuple(kept))


def upper_quantiles(rows: Rows, family: Family, counted: Bools, tick: Tick) -> Floats:
    """Return the limit of each space that `BUDGET` of the counted rows exceed."""
    n_counted = int(counted.sum())
    place = (n_counted - 1) * (1 - BUDGET)
    low = int(np.floor(place))
    n_kept = n_counted - low
    kept = _Largest(family.n_spaces, n_kept)
    # Parts that are begun later are told what is too small to matter by then.
    task = partial(_largest_of_part, family=family, n_kept=n_kept, floors=kept.floors)
    for values in map_parts(rows, task, counted, tick=tick):
        kept.add(values)
    limits = np.empty(family.n_spaces)
    for f in range(family.n_spaces):
        ordered = np.sort(kept.of(f))
        if not len(ordered):  # nothing but nan
            limits[f] = np.inf
            continue
        upper = ordered[min(1, len(ordered) - 1)]
        limits[f] = ordered[0] + (place - low) * (upper - ordered[0])
    return limits


def _largest_of_part(
    part: Part, counted: Bools, *, family: Family, n_kept: int, floors: Floats
) -> list[Floats]:
    """Return, unordered, the largest energies of each space that are above its floor.

    `n_kept` at most; what equals the floor is as good as one of those known already.
    """
    from sightline._kernels.spaces import keep_largest

    n_kept = min(n_kept, int(counted.sum()))
    kept = np.empty((family.n_spaces, 2 * n_kept + BLOCK_ROWS))
    counts = np.zeros(family.n_spaces, np.int64)
    floors = floors.copy()
    out = np.empty((BLOCK_ROWS, family.n_spaces))
    for start, block in part.blocks():
        stop = start + len(block)
        family.energies(np.asarray(block, np.float64), out[: len(block)])
        keep_largest(out[: len(block)], counted[start:stop], kept, counts, floors)
    return [_most(kept[f, : counts[f]], n_kept).copy() for f in range(family.n_spaces)]


def _most(values: Floats, n_kept: int) -> Floats:
    """Return the largest values, unordered, and the least of them first."""
    if len(values) <= n_kept or n_kept == 0:
        return values[:n_kept]
    return np.partition(values, len(values) - n_kept)[-n_kept:]


class _Largest:
    """The largest values of each space, from parts that come in one by one."""

    def __init__(self, n_spaces: int, n_kept: int) -> None:
        self.n_kept = n_kept
        self.floors = np.full(n_spaces, -np.inf)
        self._pieces: list[list[Floats]] = [[] for _ in range(n_spaces)]

    def add(self, values: Sequence[Floats]) -> None:
        """Take in the values of a part."""
        for f, of_space in enumerate(values):
            self._pieces[f].append(of_space)
            if sum(map(len, self._pieces[f])) > 2 * self.n_kept:
                self._pieces[f] = [self.of(f).copy()]
                self.floors[f] = self._pieces[f][0][0]

    def of(self, space: int) -> Floats:
        """Return the largest values of a space, unordered."""
        return _most(joined(self._pieces[space]), self.n_kept)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exceedances:
    """How many rows were above the limit of each space, up to the rows that matter."""

    family: Family
    positions: Ints
    counts: npt.NDArray[np.int32]
    bits: npt.NDArray[np.uint8]

    def above(self, column: int) -> Bools:
        """Return which rows are above the limit of one space."""
        return np.asarray((self.bits[:, column >> 3] >> (column & 7)) & 1, np.bool_)

    def _shares(self, starts: Ints, stops: Ints) -> Floats:
        first, last = (np.searchsorted(self.positions, at) for at in (starts, stops))
        n_rows = (stops - starts)[:, None]
        return np.asarray((self.counts[last] - self.counts[first]) / n_rows)

    def judged(self, segment: Segment, windows: CalmWindows) -> tuple[RungOutcome, int]:
        """Return the best space of an attack against the best of each calm window.

        Searching pays for itself: a window may pick its own best space too.
        """
        own = self._shares(np.array([segment.start]), np.array([segment.stop]))[0]
        calm = self._shares(windows.starts, windows.stops)
        # Of spaces that do equally well the one that is quieter in calm windows, then
        # the first by name, whatever their order.
        equal = np.flatnonzero(own == own.max()).tolist()
        usual = calm.mean(axis=0)
        best = min(equal, key=lambda space: (usual[space], self.family.name(space)))
        rung = judged(float(own[best]), calm.max(axis=1), by=(self.family.name(best),))
        return rung, best


def count_above(
    rows: Rows, family: Family, limits: Floats, positions: Ints, tick: Tick
) -> Exceedances:
    """Return how often each space is above its limit up to each of some rows."""
    counts = np.zeros((len(positions), family.n_spaces), np.int32)
    running = np.zeros(family.n_spaces, np.int32)
    bits, filled = [], 0
    task = partial(_count_in_part, family=family, limits=limits)
    for part in map_parts(rows, task, RowNumbers(positions), tick=tick):
        at_positions, total, is_above = part
        counts[filled : filled + len(at_positions)] = running + at_positions
        filled += len(at_positions)
        running += total
        bits.append(is_above)
    # The end of the table is in no part.
    counts[filled:] = running
    return Exceedances(
        family=family, positions=positions, counts=counts, bits=joined(bits)
    )


def _count_in_part(
    part: Part, positions: RowNumbers, *, family: Family, limits: Floats
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return counts up to each position, counts in all, and who is above in bits."""
    from sightline._kernels.spaces import count_exceedances

    n_spaces = family.n_spaces
    at_positions = np.zeros((len(positions.rows), n_spaces), np.int32)
    running = np.zeros(n_spaces, np.int32)
    bits = np.zeros((part.rows.n_rows, (n_spaces + 7) // 8), np.uint8)
    out = np.empty((BLOCK_ROWS, n_spaces))
    following = 0
    for start, block in part.blocks():
        family.energies(np.asarray(block, np.float64), out[: len(block)])
        following = count_exceedances(
            start,
            out[: len(block)],
            limits,
            positions.rows,
            following,
            running,
            at_positions,
            bits,
        )
    at_positions[following:] = running
    return at_positions, running, bits
