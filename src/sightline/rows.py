"""Tables of residuals, in memory or on disk, read in blocks on one fixed grid.

The grid does not depend on the pieces in which rows arrive, so that an array in
memory and a folder of Parquet parts give the same numbers to the last bit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from sightline.checks import Bools, Floats, Ints, Residuals, check_residuals
from sightline.errors import StreamError

# Two such blocks of 51 float64 channels fit a core's L2 cache.
BLOCK_ROWS = 1024


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

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""
        return f"row {row}"


@dataclass(frozen=True, eq=False)
class KeptRows:
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

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""
        return self.rows.where(int(np.flatnonzero(self.keep)[row]))


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
    taken = np.empty((len(wanted), rows.n_channels))
    for start, block in read_on_grid(rows):
        first, last = np.searchsorted(wanted, [start, start + len(block)])
        taken[first:last] = block[wanted[first:last] - start]
    return taken


def finite_rows(rows: Rows) -> tuple[Bools, int, tuple[int, int] | None]:
    """Return which rows are finite, how many values are not, and the first of them."""
    keep = np.ones(rows.n_rows, np.bool_)
    n_bad, first = 0, None
    for start, block in read_on_grid(rows):
        finite = np.isfinite(block)
        if finite.all():
            continue
        keep[start : start + len(block)] = finite.all(axis=1)
        bad = np.argwhere(~finite)
        n_bad += len(bad)
        if first is None:
            first = (start + int(bad[0, 0]), int(bad[0, 1]))
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
