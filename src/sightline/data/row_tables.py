"""Tables of residuals, in memory or on disk, read in blocks on one fixed grid.

The grid does not depend on the pieces in which rows arrive, so that an array in
memory and a folder of Parquet parts give the same numbers to the last bit.

A pass over rows is a task that is carried out once on the whole table, or, where the
table lies in parts that others read, once on each of them (`map_parts`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints, Residuals, check_residuals
from sightline.errors import StreamError

# Two such blocks of 51 float64 channels fit a core's L2 cache.
BLOCK_ROWS = 1024

T = TypeVar("T")
S = TypeVar("S", bound=np.generic)
Tick = Callable[[int], None]


def no_tick(rows: int) -> None:
    """Progress that nobody watches."""


@runtime_checkable
class Rows(Protocol):
    """A table of residuals that can be read from the top as often as wanted."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_channels(self) -> int:
        """Number of columns."""

    def chunks(self) -> Iterator[Residuals]:
        """Yield the rows in order, in C-ordered pieces of any size."""

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows that are in memory."""

    values: Residuals

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def n_channels(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    def chunks(self) -> Iterator[Residuals]:
        """Yield the one array there is."""
        yield self.values

    def between(self, first: int, stop: int) -> "ArrayRows":
        """Return the rows from `first` up to `stop`."""
        return ArrayRows(self.values[first:stop])

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""
        return f"row {row}"


class CutRows(Rows, Protocol):
    """Rows of which some can be had by themselves."""

    def between(self, first: int, stop: int) -> Rows:
        """Return the rows from `first` up to `stop`."""


class Runner(Protocol):
    """Somebody who carries out calls elsewhere, several at a time."""

    def run(
        self, calls: Iterator[Callable[[], T]], done: Callable[[int], None]
    ) -> Iterator[T]:
        """Yield what the calls return, in order; tell `done` the number of each.

        Calls are drawn a few at a time, as others are done.
        """


class InParts(CutRows, Protocol):
    """Rows in parts that a runner's workers read: part k is rows [b[k], b[k + 1]).

    All bounds b but the last are multiples of `grid`, itself one of `BLOCK_ROWS`, so
    that a part is read in the same blocks as the whole.
    """

    @property
    def runner(self) -> Runner | None:
        """Who carries out tasks; None where the rows are read here."""

    @property
    def grid(self) -> int:
        """What bounds are multiples of."""

    @property
    def bounds(self) -> Ints:
        """Where parts begin and end."""


@dataclass(frozen=True, eq=False)
class PartedRows:
    """Rows that are read in parts by a runner's workers, each its own."""

    rows: CutRows
    bounds: Ints
    grid: int
    runner: Runner

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_channels(self) -> int:
        """Number of columns."""
        return self.rows.n_channels

    def chunks(self) -> Iterator[Residuals]:
        """Yield the rows in order, read here."""
        return self.rows.chunks()

    def between(self, first: int, stop: int) -> Rows:
        """Return the rows from `first` up to `stop`, for whoever reads them."""
        return self.rows.between(first, stop)

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""
        return self.rows.where(row)


def bounds_on_grid(places: Ints, grid: int) -> Ints:
    """Return bounds of parts that begin at or next after some places, 0 to the end."""
    end = places[-1]
    bounds = np.unique(np.minimum(-(-places // grid) * grid, end))
    return bounds if len(bounds) > 1 else np.array([0, end])


def in_parts(rows: Rows) -> InParts | None:
    """Return rows that somebody else reads in parts; None where they are read here."""
    if getattr(rows, "runner", None) is None:
        return None
    return cast(InParts, rows)


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a table by themselves, of which row `first` is their first."""

    rows: Rows
    first: int = 0
    tick: Tick = no_tick

    def blocks(self, cuts: Sequence[int] = ()) -> Iterator[tuple[int, Residuals]]:
        """Yield (row counted from the part's first, block) on the grid, and tick."""
        for start, block in read_on_grid(self.rows, cuts):
            yield start, block
            self.tick(len(block))


def map_parts(
    rows: Rows,
    task: Callable[..., T],
    *beside: Any,
    tick: Tick = no_tick,
) -> Iterator[T]:
    """Carry out a task on the table, or on each of its parts; yield what it returns.

    Parameters
    ----------
    rows : Rows
        The table.
    task : callable
        Called with a `Part` and what lies beside its rows. It may run elsewhere: it
        must be picklable, and change nothing.
    *beside
        Arrays of one entry a row, or whatever can be cut by ``between(first, stop)``.
    tick : callable
        Told the number of rows done.
    """
    parted = in_parts(rows)
    if parted is None:
        yield task(Part(rows, 0, tick), *beside)
        return
    if parted.runner is None:
        raise ValueError("rows in parts without a runner")
    bounds = list(pairwise(parted.bounds.tolist()))

    def done(k: int) -> None:
        tick(bounds[k][1] - bounds[k][0])

    calls = (
        partial(
            task,
            Part(parted.between(first, stop), first),
            *(_cut(series, first, stop) for series in beside),
        )
        for first, stop in bounds
    )
    yield from parted.runner.run(calls, done)


def _cut(series: Any, first: int, stop: int) -> Any:
    between = getattr(series, "between", None)
    return series[first:stop] if between is None else between(first, stop)


@dataclass(frozen=True, eq=False)
class Carried(Generic[T]):
    """What is known at the first row of each part; of a part by itself, at row 0."""

    states: Mapping[int, T]

    @property
    def state(self) -> T:
        """Return what is known at the very first row."""
        return self.states[0]

    def between(self, first: int, stop: int) -> "Carried[T]":
        """Return what is known at the first row of a part."""
        return Carried({0: self.states[first]})


def carry_over(
    rows: Rows, task: Callable[..., T], state: T, *beside: Any
) -> Carried[T]:
    """Hand a state from part to part; return that at the first row of each.

    For what can only be known in order: `task` is called with a `Part`, the state at
    its first row, and what lies beside its rows. Where rows are not in parts, nothing
    is read.
    """
    parted = in_parts(rows)
    states = {0: state}
    if parted is None or parted.runner is None:
        return Carried(states)
    for first, stop in pairwise(parted.bounds[:-1].tolist()):
        part = Part(parted.between(first, stop), first)
        cut = [_cut(series, first, stop) for series in beside]
        call = partial(task, part, states[first], *cut)
        states[stop] = next(parted.runner.run(iter([call]), no_tick))
    return Carried(states)


def joined(pieces: Sequence[npt.NDArray[S]]) -> npt.NDArray[S]:
    """Return arrays one after the other; a lone one as it is."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


class OverRows:
    """What stands on another table, and is in parts where that is."""

    rows: Rows

    @property
    def runner(self) -> Runner | None:
        """Who carries out tasks; None where the rows are read here."""
        parted = in_parts(self.rows)
        return None if parted is None else parted.runner

    @property
    def grid(self) -> int:
        """What bounds are multiples of."""
        return cast(InParts, self.rows).grid

    @property
    def bounds(self) -> Ints:
        """Where parts begin and end."""
        return cast(InParts, self.rows).bounds


@dataclass(frozen=True, eq=False)
class KeptRows(OverRows):
    """The rows of another table where `keep` is true."""

    rows: Rows
    keep: Bools

    @property
    def n_rows(self) -> int:
        """Number of rows kept."""
        return int(self.keep.sum())

    @property
    def n_channels(self) -> int:
        """Number of columns."""
        return self.rows.n_channels

    def chunks(self) -> Iterator[Residuals]:
        """Yield what is kept of each piece."""
        start = 0
        for chunk in self.rows.chunks():
            yield chunk[self.keep[start : start + len(chunk)]]
            start += len(chunk)

    @property
    def bounds(self) -> Ints:
        """Where parts begin and end, in rows kept."""
        before = np.concatenate([[0], np.cumsum(self.keep)])
        return bounds_on_grid(before[super().bounds], self.grid)

    def between(self, first: int, stop: int) -> "KeptRows":
        """Return the kept rows from `first` up to `stop`."""
        of = self._kept[first:stop]
        begin, end = (int(of[0]), int(of[-1]) + 1) if len(of) else (0, 0)
        within = cast(CutRows, self.rows).between(begin, end)
        return KeptRows(within, self.keep[begin:end])

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""
        return self.rows.where(int(self._kept[row]))

    @cached_property
    def _kept(self) -> Ints:
        return np.flatnonzero(self.keep)


def as_rows(values: object, name: str) -> Rows:
    """Return an array as rows; what is rows already stays as it is."""
    if isinstance(values, Rows):
        return values
    return ArrayRows(check_residuals(values, name))


def read_on_grid(
    rows: Rows, cuts: Sequence[int] = ()
) -> Iterator[tuple[int, Residuals]]:
    """Yield (first row, block) on a grid of `BLOCK_ROWS` rows, cut also at `cuts`.

    The grid does not depend on the pieces in which the rows arrive.
    """
    edges = np.unique(
        np.concatenate(
            [np.arange(0, rows.n_rows, BLOCK_ROWS), cuts, [rows.n_rows]]
        ).astype(np.int64)
    )
    pending: list[Residuals] = []
    n_pending, k = 0, 0
    for chunk in rows.chunks():
        position = 0
        while k + 1 < len(edges):
            wanted = int(edges[k + 1] - edges[k]) - n_pending
            piece = chunk[position : position + wanted]
            position += len(piece)
            if len(piece) < wanted:
                if len(piece):
                    pending.append(piece)
                    n_pending += len(piece)
                break
            block = np.concatenate([*pending, piece]) if pending else piece
            yield int(edges[k]), block
            pending, n_pending = [], 0
            k += 1
        if position < len(chunk):
            raise StreamError(
                f"More residuals came than the {rows.n_rows} rows announced: the file "
                "changed while it was read."
            )
    if k + 1 < len(edges):
        raise StreamError(
            f"The residuals end after {int(edges[k]) + n_pending} rows where "
            f"{rows.n_rows} were announced: the file changed while it was read."
        )


def gather_rows(rows: Rows, wanted: Ints) -> Floats:
    """Return the wanted rows (sorted row numbers) as one float64 array."""
    taken, filled = np.empty((len(wanted), rows.n_channels)), 0
    for piece in map_parts(rows, _gather, RowNumbers(wanted)):
        if len(piece) == len(wanted):
            return piece
        taken[filled : filled + len(piece)] = piece
        filled += len(piece)
    return taken


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """Sorted row numbers; of a part, those in it, counted from its first row."""

    rows: Ints

    def between(self, first: int, stop: int) -> "RowNumbers":
        """Return the numbers from `first` up to `stop`."""
        low, high = np.searchsorted(self.rows, [first, stop])
        return RowNumbers(self.rows[low:high] - first)


def _gather(part: Part, wanted: RowNumbers) -> Floats:
    taken = np.empty((len(wanted.rows), part.rows.n_channels))
    if not len(wanted.rows):
        return taken
    for start, block in part.blocks():
        first, last = np.searchsorted(wanted.rows, [start, start + len(block)])
        taken[first:last] = block[wanted.rows[first:last] - start]
    return taken


def finite_rows(rows: Rows) -> tuple[Bools, int, tuple[int, int] | None]:
    """Return which rows are finite, how many values are not, and the first of them."""
    parts = list(map_parts(rows, _finite))
    firsts = [first for _, _, first in parts if first is not None]
    return (
        joined([keep for keep, _, _ in parts]),
        sum(n_bad for _, n_bad, _ in parts),
        firsts[0] if firsts else None,
    )


def _finite(part: Part) -> tuple[Bools, int, tuple[int, int] | None]:
    keep = np.ones(part.rows.n_rows, np.bool_)
    n_bad, first = 0, None
    for start, block in part.blocks():
        finite = np.isfinite(block)
        if finite.all():
            continue
        keep[start : start + len(block)] = finite.all(axis=1)
        bad = np.argwhere(~finite)
        n_bad += len(bad)
        if first is None:
            first = (part.first + start + int(bad[0, 0]), int(bad[0, 1]))
    return keep, n_bad, first


def refuse_nonfinite(rows: Rows, name: str, channels: Sequence[str]) -> None:
    """Say where the first non-finite residual is; else that values are too large."""
    keep, n_bad, first = finite_rows(rows)
    if first is not None:
        row, column = first
        raise StreamError(
            f"`{name}` must be finite; {rows.where(row)}, channel "
            f"{channels[column]!r} is the first of {n_bad} values that are not, in "
            f"{int((~keep).sum())} rows: repair them, or drop these rows with "
            "--drop-nonfinite (in Python: nonfinite='drop')."
        )
    raise StreamError(
        f"`{name}` holds values too large to be squared in floating point: look for "
        "fault codes such as 1e300 and remove them."
    )
