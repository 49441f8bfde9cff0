"""Tables of residuals, in memory or on disk, read in blocks on one fixed grid.

The grid does not depend on the pieces in which rows arrive: an array in memory and a
folder of Parquet files give the same numbers to the last bit.

A pass over the rows is a task. It runs once on the whole table or, if the table is
divided into parts that workers read, once on each part (`map_parts`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints, Residuals, check_residuals
from sightline.errors import StreamError
from sightline.parallel import map_threads, n_jobs

# Two such blocks of 51 float64 channels fit into a core's L2 cache.
BLOCK_ROWS = 1024
# Sums are made over runs of this many blocks; a part begins with a run.
RUN_BLOCKS = 32
GRID_ROWS = RUN_BLOCKS * BLOCK_ROWS
# Parts for each thread of this process, so that none waits long for the last.
PARTS_PER_JOB = 4

T = TypeVar("T")
S = TypeVar("S", bound=np.generic)
# Called with the number of rows that are done.
Tick = Callable[[int], None]


def no_tick(rows: int) -> None:
    """Ignore progress: the default where no callback is given."""


# Tables


@runtime_checkable
class Rows(Protocol):
    """A table of residuals that can be read from the top any number of times."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_channels(self) -> int:
        """Number of columns."""

    def chunks(self) -> Iterator[Residuals]:
        """Yield the rows in order, in C-ordered arrays of any number of rows."""

    def where(self, row: int) -> str:
        """Return the place of a row in words, for messages."""


class CutRows(Rows, Protocol):
    """Rows of which a range can be read alone."""

    def between(self, first: int, stop: int) -> Rows:
        """Return the rows [first, stop)."""


class AsArray:
    """Base of a table that ``np.asarray`` reads into memory.

    Examples
    --------
    >>> np.asarray(ArrayRows(np.eye(2)))
    array([[1., 0.],
           [0., 1.]])
    """

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """Return all rows as an array of shape (rows, channels)."""
        chunks = list(cast(Rows, self).chunks())
        values = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
        return np.array(values, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        """Return the size in one line."""
        rows = cast(Rows, self)
        return f"{type(self).__name__} of {rows.n_rows:,} x {rows.n_channels:,}"


@dataclass(frozen=True, eq=False, repr=False)
class ArrayRows(AsArray):
    """Rows in memory: an array of shape (rows, channels)."""

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
        """Yield the whole array."""
        yield self.values

    def between(self, first: int, stop: int) -> "ArrayRows":
        """Return the rows [first, stop)."""
        return ArrayRows(self.values[first:stop])

    def where(self, row: int) -> str:
        """Return the place of a row in words."""
        return f"row {row}"


def as_rows(values: object, name: str) -> Rows:
    """Return an array as `ArrayRows`; `Rows` are returned as they are."""
    if isinstance(values, Rows):
        return values
    return ArrayRows(check_residuals(values, name))


# Tables in parts


class Runner(Protocol):
    """Something that makes calls elsewhere, several at a time."""

    def run(
        self, calls: Iterable[Callable[[], T]], done: Callable[[int], None]
    ) -> Iterator[T]:
        """Yield what the calls return, in order; call `done` with each one's number."""

    def n_threads(self) -> int:
        """Return how many calls are made at the same time, at least 1."""


@dataclass(frozen=True, eq=False)
class Parts:
    """How a table is divided among the workers of a runner.

    Part k is rows [bounds[k], bounds[k + 1]). All bounds but the last are multiples of
    `grid`, itself a multiple of `BLOCK_ROWS`, so that a part is read in the same
    blocks as the whole table.
    """

    bounds: Ints
    grid: int
    runner: Runner


def parts_of(rows: Rows) -> Parts | None:
    """Return how rows are divided; None if they are read in this process."""
    return getattr(rows, "parts", None)


def bounds_on_grid(places: Ints, grid: int) -> Ints:
    """Return bounds of parts: `places` rounded up to the grid, from 0 to the last."""
    end = places[-1]
    bounds = np.unique(np.minimum(-(-places // grid) * grid, end))
    return bounds if len(bounds) > 1 else np.array([0, end])


def can_be_cut(rows: Rows) -> bool:
    """Return whether a range of rows can be read alone."""
    if isinstance(rows, OverRows) and not can_be_cut(rows.rows):
        return False
    return hasattr(rows, "between")


class OverRows(AsArray):
    """Base of a table computed from another row by row, and divided like that one."""

    rows: Rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_channels(self) -> int:
        """Number of columns."""
        return self.rows.n_channels

    @property
    def parts(self) -> Parts | None:
        """How the table is divided; None if it is read in this process."""
        return parts_of(self.rows)

    def where(self, row: int) -> str:
        """Return the place of a row in words."""
        return self.rows.where(row)


@dataclass(frozen=True, eq=False, repr=False)
class PartedRows(OverRows):
    """Rows of which the workers of a runner read one part each."""

    rows: CutRows
    division: Parts

    @property
    def parts(self) -> Parts:
        """How the table is divided."""
        return self.division

    def chunks(self) -> Iterator[Residuals]:
        """Yield the rows in order, read in this process."""
        return self.rows.chunks()

    def between(self, first: int, stop: int) -> Rows:
        """Return the rows [first, stop), to be read by a worker."""
        return self.rows.between(first, stop)

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrive at a worker as the table itself: a worker reads all that it needs."""
        return _as_is, (self.rows,)


def _as_is(rows: Rows) -> Rows:
    return rows


@dataclass(frozen=True, eq=False, repr=False)
class KeptRows(OverRows):
    """The rows of another table where `keep` is true."""

    rows: Rows
    keep: Bools

    @property
    def n_rows(self) -> int:
        """Number of rows where `keep` is true."""
        return int(self.keep.sum())

    def chunks(self) -> Iterator[Residuals]:
        """Yield the kept rows of each chunk."""
        start = 0
        for chunk in self.rows.chunks():
            yield chunk[self.keep[start : start + len(chunk)]]
            start += len(chunk)

    @property
    def parts(self) -> Parts | None:
        """How the kept rows are divided; bounds count kept rows."""
        parts = parts_of(self.rows)
        if parts is None:
            return None
        n_before = np.concatenate([[0], np.cumsum(self.keep)])
        return replace(parts, bounds=bounds_on_grid(n_before[parts.bounds], parts.grid))

    def between(self, first: int, stop: int) -> "KeptRows":
        """Return the kept rows [first, stop)."""
        numbers = self._row_numbers[first:stop]
        begin, end = (int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) else (0, 0)
        rows = cast(CutRows, self.rows).between(begin, end)
        return KeptRows(rows, self.keep[begin:end])

    def where(self, row: int) -> str:
        """Return the place of a kept row in the other table in words."""
        return self.rows.where(int(self._row_numbers[row]))

    @cached_property
    def _row_numbers(self) -> Ints:
        return np.flatnonzero(self.keep)


@dataclass(frozen=True, eq=False, repr=False)
class JoinedRows(AsArray):
    """The rows of several tables one after the other, read in this process."""

    tables: tuple[Rows, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows of all tables."""
        return sum(table.n_rows for table in self.tables)

    @property
    def n_channels(self) -> int:
        """Number of columns."""
        return self.tables[0].n_channels

    def chunks(self) -> Iterator[Residuals]:
        """Yield the chunks of one table after the other."""
        for table in self.tables:
            yield from table.chunks()

    def where(self, row: int) -> str:
        """Return the place of a row in its own table in words."""
        for table in self.tables[:-1]:
            if row < table.n_rows:
                return table.where(row)
            row -= table.n_rows
        return self.tables[-1].where(row)


def kept_rows(rows: Rows, keep: Bools) -> KeptRows:
    """Return the rows where `keep` is true.

    Only the range that holds them is read, where a table can be cut. One that is
    divided among workers stays divided.

    Examples
    --------
    >>> kept_rows(ArrayRows(np.arange(8.0)[:, None]), np.arange(8) > 5).n_rows
    2
    """
    used = np.flatnonzero(keep)
    if not len(used) or not can_be_cut(rows) or parts_of(rows) is not None:
        return KeptRows(rows, keep)
    first, stop = int(used[0]), int(used[-1]) + 1
    return KeptRows(cast(CutRows, rows).between(first, stop), keep[first:stop])


# Tasks


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a table, beginning with its row `first`, as a task gets them."""

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
    *series: Any,
    tick: Tick = no_tick,
) -> Iterator[T]:
    """Run a task on the table, or on each of its parts; yield what it returns.

    A table that is not divided among workers is divided among the threads of this
    process (`sightline.parallel`).

    Parameters
    ----------
    rows : Rows
        The table.
    task : callable
        Called with a `Part` and the part's share of each argument in `series`. It may
        run in another process: it must be picklable and change nothing.
    *series
        Arrays with one entry for each row, or objects with ``between(first, stop)``.
    tick : callable
        Called with the number of rows that are done.

    Yields
    ------
    object
        What the task returns, in the order of the parts; one value if the table is
        not divided.
    """
    parts = parts_of(rows)
    if parts is not None:
        places = parts.bounds
    else:
        n_parts = PARTS_PER_JOB * n_jobs() if n_jobs() > 1 and can_be_cut(rows) else 1
        even = np.linspace(0, rows.n_rows, n_parts + 1).astype(np.int64)
        places = bounds_on_grid(even, GRID_ROWS)
    bounds = list(pairwise(places.tolist()))
    if parts is None and len(bounds) < 2:
        yield task(Part(rows, 0, tick), *series)
        return

    def done(k: int) -> None:
        tick(bounds[k][1] - bounds[k][0])

    calls = (
        partial(task, *_share(rows, first, stop, series)) for first, stop in bounds
    )
    if parts is None:
        yield from map_threads(list(calls), done)
    else:
        yield from parts.runner.run(calls, done)


def make_calls(
    rows: Rows, calls: Sequence[Callable[[], T]], done: Tick = no_tick
) -> list[T]:
    """Return what independent calls return, in order; the workers of a table make them.

    Parameters
    ----------
    rows : Rows
        A table. If it is not divided among workers, the calls are made side by side in
        this process.
    calls : sequence of callable
        Functions without arguments; they may be made in another process.
    done : callable
        Called with the number of each call that has ended.
    """
    parts = parts_of(rows)
    if parts is None:
        return map_threads(calls, done)
    return list(parts.runner.run(calls, done))


def even_lots(costs: Sequence[float], n_lots: int) -> list[list[int]]:
    """Return the numbers of calls in lots of about the same cost, for as many threads.

    The dearest call goes first, each to the lot that has cost least so far.

    Examples
    --------
    >>> even_lots([1.0, 5.0, 2.0, 2.0], 2)
    [[1], [2, 3, 0]]
    """
    lots: list[list[int]] = [[] for _ in range(n_lots)]
    spent = [0.0] * n_lots
    for k in sorted(range(len(costs)), key=lambda k: -costs[k]):
        least = spent.index(min(spent))
        lots[least].append(k)
        spent[least] += costs[k]
    return lots


def _share(rows: Rows, first: int, stop: int, series: Sequence[Any]) -> list[Any]:
    """Return the part [first, stop) of rows, and of each series of one entry a row."""
    shares = [
        each.between(first, stop) if hasattr(each, "between") else each[first:stop]
        for each in series
    ]
    return [Part(cast(CutRows, rows).between(first, stop), first), *shares]


def joined(pieces: Sequence[npt.NDArray[S]]) -> npt.NDArray[S]:
    """Return arrays one after the other; a single one is not copied."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def read_on_grid(
    rows: Rows, cuts: Sequence[int] = ()
) -> Iterator[tuple[int, Residuals]]:
    """Yield (first row, block) on the grid of `BLOCK_ROWS` rows.

    The grid does not depend on the chunks in which the rows arrive.

    Parameters
    ----------
    rows : Rows
        The table.
    cuts : sequence of int
        Further rows at which a block begins.

    Raises
    ------
    StreamError
        If more or fewer rows arrive than `rows.n_rows`.

    Examples
    --------
    >>> rows = ArrayRows(np.zeros((1500, 2)))
    >>> [(start, len(block)) for start, block in read_on_grid(rows, [10])]
    [(0, 10), (10, 1014), (1024, 476)]
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
    """Return the rows with the sorted numbers `wanted` as one float64 array.

    The array has shape (len(wanted), channels).
    """
    if isinstance(rows, ArrayRows):
        return rows.values[wanted].astype(np.float64, copy=False)
    taken, filled = np.empty((len(wanted), rows.n_channels)), 0
    if parts_of(rows) is None:
        # Threads write where the rows belong, so that none is twice in memory.
        for _ in map_parts(rows, _gather, RowNumbers(wanted, taken)):
            pass
        return taken
    for piece in map_parts(rows, _gather, RowNumbers(wanted)):
        taken[filled : filled + len(piece)] = piece
        filled += len(piece)
    return taken


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """Sorted row numbers; those of a part count from the part's first row.

    `taken` is where these rows are written, if the readers share the memory.
    """

    rows: Ints
    taken: Floats | None = None

    def between(self, first: int, stop: int) -> "RowNumbers":
        """Return the numbers in [first, stop), counted from `first`."""
        low, high = np.searchsorted(self.rows, [first, stop])
        taken = None if self.taken is None else self.taken[low:high]
        return RowNumbers(self.rows[low:high] - first, taken)


def _gather(part: Part, wanted: RowNumbers) -> Floats:
    """Return the wanted rows of a part; if none is wanted, nothing is read."""
    taken = wanted.taken
    if taken is None:
        taken = np.empty((len(wanted.rows), part.rows.n_channels))
    if not len(wanted.rows):
        return taken
    for start, block in part.blocks():
        first, last = np.searchsorted(wanted.rows, [start, start + len(block)])
        taken[first:last] = block[wanted.rows[first:last] - start]
    return taken


def finite_rows(rows: Rows) -> tuple[Bools, int, tuple[int, int] | None]:
    """Return where residuals are not finite.

    Returns
    -------
    keep : bool array of shape (rows,)
        Which rows are finite in all channels.
    n_bad : int
        How many values are not finite.
    first : tuple of (row, column), or None
        The first of these values.
    """
    parts = list(map_parts(rows, _finite))
    firsts = [first for _, _, first in parts if first is not None]
    return (
        joined([keep for keep, _, _ in parts]),
        sum(n_bad for _, n_bad, _ in parts),
        firsts[0] if firsts else None,
    )


def _finite(part: Part) -> tuple[Bools, int, tuple[int, int] | None]:
    """Return the result of `finite_rows` for a part."""
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
    """Raise `StreamError` for rows whose sums are not finite.

    The message names the first residual that is not finite. If all are, they are too
    large to be squared.
    """
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
