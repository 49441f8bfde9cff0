"""Smaller spaces: channels alone, groups, and the few largest channels of each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.checks import Bools, Floats, Ints
from sightline.diagnosis.calm import BUDGET, CalmWindows, Rung, judged
from sightline.moments import Tick
from sightline.reference import Reference
from sightline.rows import BLOCK_ROWS, Rows, read_on_grid
from sightline.segments import Segment

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
        from sightline.kernels.spaces import single_energies

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
    from sightline.kernels.spaces import keep_largest

    n_counted = int(counted.sum())
    place = (n_counted - 1) * (1 - BUDGET)
    low = int(np.floor(place))
    n_kept = n_counted - low
    kept = np.empty((family.n_spaces, 2 * n_kept + BLOCK_ROWS))
    counts = np.zeros(family.n_spaces, np.int64)
    floors = np.full(family.n_spaces, -np.inf)
    out = np.empty((BLOCK_ROWS, family.n_spaces))
    for start, block in read_on_grid(rows):
        stop = start + len(block)
        family.energies(np.asarray(block, np.float64), out[: len(block)])
        keep_largest(out[: len(block)], counted[start:stop], kept, counts, floors)
        tick(len(block))
    limits = np.empty(family.n_spaces)
    for f in range(family.n_spaces):
        ordered = np.sort(kept[f, : counts[f]])[-n_kept:]
        if not len(ordered):  # nothing but nan
            limits[f] = np.inf
            continue
        upper = ordered[min(1, len(ordered) - 1)]
        limits[f] = ordered[0] + (place - low) * (upper - ordered[0])
    return limits


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

    def judged(self, segment: Segment, windows: CalmWindows) -> tuple[Rung, int]:
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
    from sightline.kernels.spaces import count_exceedances

    n_spaces = family.n_spaces
    at_positions = np.zeros((len(positions), n_spaces), np.int32)
    running = np.zeros(n_spaces, np.int32)
    bits = np.zeros((rows.n_rows, (n_spaces + 7) // 8), np.uint8)
    out = np.empty((BLOCK_ROWS, n_spaces))
    following = 0
    for start, block in read_on_grid(rows):
        family.energies(np.asarray(block, np.float64), out[: len(block)])
        following = count_exceedances(
            start,
            out[: len(block)],
            limits,
            positions,
            following,
            running,
            at_positions,
            bits,
        )
        tick(len(block))
    at_positions[following:] = running
    return Exceedances(
        family=family, positions=positions, counts=at_positions, bits=bits
    )
