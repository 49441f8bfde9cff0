"""Subspaces: channels alone, groups, and the few largest channels of each row.

What is lost when all channels are pooled may stand out in a subspace. All subspaces of
a stream are scored in one pass over blocks of rows, one column each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from sightline.data import row_tables
from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.row_tables import Part, Rows, Tick
from sightline.data.segments import Segment
from sightline.energy.reference import Reference
from sightline.judgement.calm import BUDGET, CalmWindows, judged
from sightline.judgement.verdicts import RungOutcome

# Sums of up to this many of the largest channels of a row are subspaces.
MOST_LARGEST = 5


class SubspaceKind(StrEnum):
    """What a subspace consists of."""

    CHANNEL = "channel"
    GROUP = "group"
    LARGEST = "largest"


@dataclass(frozen=True)
class Subspace:
    """One subspace of a family.

    Parameters
    ----------
    kind : SubspaceKind
        One channel, a group of channels, or the largest channels of each row.
    name : str
        Its name in files: the channel's, the group's, or ``largest 3``. Any channel
        may have such a name; only `kind` says what it is.
    members : tuple of str
        Its channels; empty for the largest channels, which differ from row to row.
    size : int
        How many channels are pooled.
    column : int
        Its column among the subspaces of the family.

    Examples
    --------
    >>> Subspace(SubspaceKind.CHANNEL, "largest tank level", ("LIT",), 1, 0).phrase
    'largest tank level'
    >>> Subspace(SubspaceKind.LARGEST, "largest 3", (), 3, 9).phrase
    'the 3 largest channels of each row'
    """

    kind: SubspaceKind
    name: str
    members: tuple[str, ...]
    size: int
    column: int

    def __str__(self) -> str:
        """Return the name that files have."""
        return self.name

    @property
    def phrase(self) -> str:
        """The name as a part of a sentence."""
        if self.kind is SubspaceKind.LARGEST:
            return f"the {self.size} largest channels of each row"
        return self.name


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """A fixed family of subspaces under one reference.

    Parameters
    ----------
    reference : Reference
        Mean and covariance of all channels.
    channels : tuple of str
        Names of the channels.
    groups : tuple of (str, tuple of int)
        Name of each group, and the indices of its channels.
    largest : int
        The sums of the 2, 3, ... `largest` largest channels are subspaces.
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
        """Number of subspaces."""
        return len(self.channels) + len(self.groups) + self.most - 1

    @cached_property
    def spaces(self) -> tuple[Subspace, ...]:
        """The subspaces: each channel alone, each group, sums of the 2, 3, ... largest.

        Their order is that of the columns of `energies`.
        """
        alone = [(SubspaceKind.CHANNEL, name, (name,), 1) for name in self.channels]
        groups = [
            (SubspaceKind.GROUP, name, tuple(self.channels[j] for j in js), len(js))
            for name, js in self.groups
        ]
        sizes = range(2, self.most + 1)
        largest = [(SubspaceKind.LARGEST, f"largest {k}", (), k) for k in sizes]
        spaces = (*alone, *groups, *largest)
        return tuple(Subspace(*space, column) for column, space in enumerate(spaces))

    @cached_property
    def _factors(self) -> list[tuple[list[int], Floats]]:
        """Columns of each group, and the Cholesky factor of its covariance."""
        covariance = self.reference.covariance
        return [
            (list(js), np.asarray(np.linalg.cholesky(covariance[np.ix_(js, js)])))
            for _, js in self.groups
        ]

    def energies(self, block: Floats, out: Floats) -> None:
        """Write the energy of each row in each subspace.

        Energy is half the squared Mahalanobis distance under the marginal of the
        reference; 0 at its mean.

        Parameters
        ----------
        block : array of shape (n_rows, n_channels)
            Residuals.
        out : array of shape (n_rows, n_spaces)
            Overwritten.
        """
        from sightline._kernels.rows import single_energies

        centered = block - self.reference.mean
        variance = np.diag(self.reference.covariance)
        single_energies(centered, 0.5 / variance, self.most, out)
        p = len(self.channels)
        # Squares of wild rows overflow to infinity, which is above every limit.
        with np.errstate(over="ignore"):
            for k, (columns, factor) in enumerate(self._factors):
                whitened = np.linalg.solve(factor, centered[:, columns].T)
                out[:, p + k] = 0.5 * np.sum(whitened**2, axis=0)


def family_of(
    reference: Reference,
    channels: Sequence[str],
    groups: Mapping[str, Sequence[str]] | None,
) -> Family:
    """Return the family of subspaces of a stream.

    Unknown members of a group are left out; so is a group of one channel or of all,
    which is a subspace already or none at all.
    """
    index = {name: k for k, name in enumerate(channels)}
    usable = []
    for name, members in (groups or {}).items():
        columns = tuple(sorted({index[m] for m in members if m in index}))
        if 1 < len(columns) < len(channels):
            usable.append((str(name), columns))
    return Family(reference=reference, channels=tuple(channels), groups=tuple(usable))


def upper_quantiles(rows: Rows, family: Family, counted: Bools, tick: Tick) -> Floats:
    """Return the limit of each subspace that `BUDGET` of the counted rows exceed.

    Parameters
    ----------
    rows : Rows
        Residuals; they are read once, and only the largest energies are held.
    family : Family
        The subspaces.
    counted : array of bool, shape (n_rows,)
        Rows to count: those that are attack-free.
    tick : callable
        Called with the number of rows of each block read.

    Returns
    -------
    array of shape (n_spaces,)
        The same as ``np.quantile(energies[counted], 1 - BUDGET, axis=0)``; infinite
        where a subspace has no energy but nan.
    """
    n_counted = int(counted.sum())
    place = (n_counted - 1) * (1 - BUDGET)
    low = int(np.floor(place))
    n_kept = n_counted - low
    largest = _Largest(family.n_spaces, n_kept)
    # A part that starts later skips what is too small by then.
    floors = largest.floors
    task = partial(_largest_of_part, family=family, n_kept=n_kept, floors=floors)
    for values in row_tables.map_parts(rows, task, counted, tick=tick):
        largest.add(values)
    limits = np.empty(family.n_spaces)
    for f in range(family.n_spaces):
        ordered = np.sort(largest.of(f))
        if not len(ordered):  # nothing but nan
            limits[f] = np.inf
            continue
        upper = ordered[min(1, len(ordered) - 1)]
        # Between two infinite energies the limit is nan: then no row is above it.
        with np.errstate(invalid="ignore"):
            limits[f] = ordered[0] + (place - low) * (upper - ordered[0])
    return limits


def _largest_of_part(
    part: Part, counted: Bools, *, family: Family, n_kept: int, floors: Floats
) -> list[Floats]:
    """Return, unordered, the largest energies of each subspace that exceed its floor.

    At most `n_kept`. A value equal to the floor changes no limit.
    """
    from sightline._kernels.rows import keep_largest

    n_kept = min(n_kept, int(counted.sum()))
    kept = np.empty((family.n_spaces, 2 * n_kept + row_tables.BLOCK_ROWS))
    counts = np.zeros(family.n_spaces, np.int64)
    floors = floors.copy()
    out = np.empty((row_tables.BLOCK_ROWS, family.n_spaces))
    for start, block in part.blocks():
        stop = start + len(block)
        family.energies(np.asarray(block, np.float64), out[: len(block)])
        keep_largest(out[: len(block)], counted[start:stop], kept, counts, floors)
    return [_most(kept[f, : counts[f]], n_kept).copy() for f in range(family.n_spaces)]


def _most(values: Floats, n_kept: int) -> Floats:
    """Return the `n_kept` largest values, the smallest first, the others unordered."""
    if len(values) <= n_kept or n_kept == 0:
        return values[:n_kept]
    return np.partition(values, len(values) - n_kept)[-n_kept:]


class _Largest:
    """The largest values of each subspace, collected from one part after another."""

    def __init__(self, n_spaces: int, n_kept: int) -> None:
        self.n_kept = n_kept
        self.floors = np.full(n_spaces, -np.inf)
        self._pieces: list[list[Floats]] = [[] for _ in range(n_spaces)]

    def add(self, values: Sequence[Floats]) -> None:
        """Add the values of a part; keep at most twice as many as are needed."""
        for f, of_space in enumerate(values):
            self._pieces[f].append(of_space)
            if sum(map(len, self._pieces[f])) > 2 * self.n_kept:
                self._pieces[f] = [self.of(f).copy()]
                self.floors[f] = self._pieces[f][0][0]

    def of(self, space: int) -> Floats:
        """Return the largest values of a subspace, unordered."""
        return _most(row_tables.joined(self._pieces[space]), self.n_kept)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exceedances:
    """Counts of rows above the limit of each subspace, up to the rows that matter.

    Parameters
    ----------
    family : Family
        The subspaces.
    positions : array of int, shape (n_positions,)
        Sorted rows at which windows begin or end.
    counts : array of int32, shape (n_positions, n_spaces)
        Rows above the limit before each position.
    bits : array of uint8, shape (n_rows, ceil(n_spaces / 8))
        Which subspaces are above in each row, one bit each.
    """

    family: Family
    positions: Ints
    counts: npt.NDArray[np.int32]
    bits: npt.NDArray[np.uint8]

    def above(self, column: int) -> Bools:
        """Return which rows are above the limit of the subspace of a column."""
        return np.asarray((self.bits[:, column >> 3] >> (column & 7)) & 1, np.bool_)

    def _shares(self, starts: Ints, stops: Ints) -> Floats:
        first, last = (np.searchsorted(self.positions, at) for at in (starts, stops))
        n_rows = (stops - starts)[:, None]
        return np.asarray((self.counts[last] - self.counts[first]) / n_rows)

    def judged(
        self, segment: Segment, windows: CalmWindows
    ) -> tuple[RungOutcome, Subspace]:
        """Return the best subspace of an attack against the best of each calm window.

        Each window may take its own best subspace as well, so that a search among many
        is no advantage.
        """
        attack = self._shares(np.array([segment.start]), np.array([segment.stop]))[0]
        calm = self._shares(windows.starts, windows.stops)
        # Of equal subspaces the one that is quieter in calm windows, then the first by
        # name: the order of channels must not matter.
        equal = np.flatnonzero(attack == attack.max()).tolist()
        usual = calm.mean(axis=0)
        spaces = self.family.spaces
        best = min(equal, key=lambda column: (usual[column], spaces[column].name))
        by = (spaces[best].name,)
        return judged(float(attack[best]), calm.max(axis=1), by=by), spaces[best]


def count_above(
    rows: Rows, family: Family, limits: Floats, positions: Ints, tick: Tick
) -> Exceedances:
    """Count the rows above the limit of each subspace up to each of some positions.

    Parameters
    ----------
    rows : Rows
        Residuals; they are read once.
    family : Family
        The subspaces.
    limits : array of shape (n_spaces,)
        Limit of each subspace; a value equal to it is not above.
    positions : array of int
        Sorted rows; at each the count of rows before it is stored.
    tick : callable
        Called with the number of rows of each block read.
    """
    counts = np.zeros((len(positions), family.n_spaces), np.int32)
    running = np.zeros(family.n_spaces, np.int32)
    bits, filled = [], 0
    task = partial(_count_in_part, family=family, limits=limits)
    for part in row_tables.map_parts(
        rows, task, row_tables.RowNumbers(positions), tick=tick
    ):
        at_positions, total, is_above = part
        counts[filled : filled + len(at_positions)] = running + at_positions
        filled += len(at_positions)
        running += total
        bits.append(is_above)
    # The position after the last row is in no part.
    counts[filled:] = running
    return Exceedances(
        family=family, positions=positions, counts=counts, bits=row_tables.joined(bits)
    )


def _count_in_part(
    part: Part, positions: row_tables.RowNumbers, *, family: Family, limits: Floats
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return counts up to each position, total counts, and the bits of each row."""
    from sightline._kernels.rows import count_exceedances

    n_spaces = family.n_spaces
    at_positions = np.zeros((len(positions.rows), n_spaces), np.int32)
    running = np.zeros(n_spaces, np.int32)
    bits = np.zeros((part.rows.n_rows, (n_spaces + 7) // 8), np.uint8)
    out = np.empty((row_tables.BLOCK_ROWS, n_spaces))
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
