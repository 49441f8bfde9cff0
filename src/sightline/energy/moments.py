"""Moments of residuals that add up, however the rows are cut.

One pass over any blocks, or over the partitions of a cluster, gives the moments of the
whole array; from them follow the reference and the mean energy of any part.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sightline.data import row_tables
from sightline.data.arrays import Bools, Floats, Residuals

N_FOLDS = 5
# Blocks whose sums share a pilot mean before they are merged with the rest.
RUN_BLOCKS = row_tables.RUN_BLOCKS


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums over a set of rows that a Gaussian reference needs; sets add up.

    With ``y = x - mean``:

    Parameters
    ----------
    count : int
        Number of rows n.
    mean : array of shape (p,)
        Mean of the rows.
    rest : array of shape (p,)
        ``sum y``, what rounding leaves of the mean: 0 but for the last digits, which
        matter if values lie far from 0.
    second : array of shape (p, p)
        ``sum y y'``; the covariance is ``second / n``.
    cubic : array of shape (p,)
        ``sum |y|^2 y``, needed to move `fourth` to another mean.
    fourth : float
        ``sum |y / unit|^4``, needed by Ledoit-Wolf shrinkage.
    first : array of shape (p,)
        The first row.
    constant : array of bool, shape (p,)
        Which channels never leave the value of the first row.
    unit : float
        1, or a power of two for rows so short that fourth powers would underflow.

    Examples
    --------
    >>> rows = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    >>> both = moments_of(rows[:1]) + moments_of(rows[1:])
    >>> both.mean.tolist(), both.constant.tolist()
    ([2.0, 1.0], [False, True])
    """

    count: int
    mean: Floats
    rest: Floats
    second: Floats
    cubic: Floats
    fourth: float
    first: Floats
    constant: Bools
    unit: float = 1.0

    def __add__(self, other: "Moments") -> "Moments":
        """Return the moments of both sets, by Chan's formula.

        It keeps its digits even if one of the sets holds a huge burst.
        """
        count = self.count + other.count
        mean = self.mean + (other.mean - self.mean) * (other.count / count)
        unit = max(self.unit, other.unit)
        a, b = _moved(self, mean), _moved(other, mean)
        return Moments(
            count=count,
            mean=mean,
            rest=a.rest + b.rest,
            second=a.second + b.second,
            cubic=a.cubic + b.cubic,
            fourth=a.fourth * (a.unit / unit) ** 4 + b.fourth * (b.unit / unit) ** 4,
            unit=unit,
            first=self.first,
            constant=self.constant & other.constant & (self.first == other.first),
        )

    @property
    def covariance(self) -> Floats:
        """Covariance, divided by the number of rows."""
        return self.second / self.count


def unit_of(squares: Floats) -> float:
    """Return the unit in which fourth powers of rows do not underflow.

    Parameters
    ----------
    squares : array of shape (n,)
        The squared length of each row.

    Returns
    -------
    float
        1, or for rows shorter than about 1e-60 a power of two near their length, so
        that a change of unit changes no digit.
    """
    largest = float(squares.max(initial=0.0))
    if largest >= 1e-120 or largest == 0.0:
        return 1.0
    return float(2.0 ** (math.frexp(largest)[1] // 2))


def _moved(about: Moments, mean: Floats) -> Moments:
    """Return the same moments about another mean."""
    by = mean - about.mean
    n, total, second, cubic = about.count, about.rest, about.second, about.cubic
    trace, square = float(np.trace(second)), float(by @ by)
    cross = np.outer(total, by)
    fourth = None
    if about.unit != 1.0:
        # In the moments' own unit, so that fourth powers do not underflow.
        scaled = replace(
            about,
            mean=np.zeros_like(by),
            rest=total / about.unit,
            second=second / about.unit / about.unit,
            cubic=cubic / about.unit / about.unit / about.unit,
            unit=1.0,
        )
        fourth = _moved(scaled, by / about.unit).fourth
    return replace(
        about,
        mean=mean,
        rest=total - n * by,
        second=second - cross - cross.T + n * np.outer(by, by),
        cubic=cubic
        - 2 * second @ by
        - trace * by
        + 2 * float(total @ by) * by
        + square * total
        - n * square * by,
        fourth=about.fourth
        - 4 * float(by @ cubic)
        + 4 * float(by @ second @ by)
        + 2 * square * trace
        - 4 * square * float(by @ total)
        + n * square**2
        if fourth is None
        else fourth,
    )


class _Sums:
    """Plain sums over a run of blocks, about the mean of the first block.

    The first block is part of the run, so that however far the others lie from it,
    the sums are at most `RUN_BLOCKS` times what is left of them about the true mean:
    two digits, not all.
    """

    def __init__(self, n_channels: int) -> None:
        self.ones = np.ones(n_channels)
        # Rows y, then a column of ones and one of |y|^2, so that one product gives
        # `second`, `rest` and `cubic`.
        self.centered = np.ones((row_tables.BLOCK_ROWS, n_channels + 2))
        self.squares = np.empty(row_tables.BLOCK_ROWS)
        self.products = np.zeros((n_channels + 2, n_channels + 2))
        self.count = 0

    def add(self, block: Residuals) -> None:
        """Take in one block; FloatingPointError if its squares overflow."""
        from sightline._kernels.rows import center

        if self.count == 0:
            self.pilot = block.mean(axis=0, dtype=np.float64)
            self.first, self.fourth = block[0].copy(), 0.0
            self.still = np.arange(block.shape[1])
            self.products[...] = 0
        y, squares = self.centered[: len(block)], self.squares[: len(block)]
        center(block, self.pilot, self.ones, y, squares)
        y[:, -1] = squares
        if self.count == 0:
            self.unit = unit_of(squares)
        if self.unit != 1.0:
            squares = squares / self.unit**2
        fourth = float(squares @ squares)
        if not np.isfinite(fourth):
            raise FloatingPointError
        self.fourth += fourth
        self.products += y.T @ y
        if len(self.still):
            same = (block[:, self.still] == self.first[self.still]).all(axis=0)
            self.still = self.still[same]
        self.count += len(block)

    def take(self) -> Moments:
        """Return the moments of the blocks so far, and start again from none."""
        products = self.products.copy()
        total, cubic = products[-2:, :-2]
        constant = np.zeros(len(total), np.bool_)
        constant[self.still] = True
        about_pilot = Moments(
            count=self.count,
            mean=self.pilot,
            rest=total,
            second=products[:-2, :-2],
            cubic=cubic,
            fourth=self.fourth,
            unit=self.unit,
            first=self.first.astype(np.float64),
            constant=constant,
        )
        mean = self.pilot + total / self.count
        self.count = 0
        return _moved(about_pilot, mean)


def fold_moments(
    rows: row_tables.Rows,
    *,
    name: str = "train",
    channels: Sequence[str] | None = None,
    n_folds: int = N_FOLDS,
    tick: row_tables.Tick = row_tables.no_tick,
) -> list[Moments]:
    """Return the moments of contiguous folds of the rows, in one pass.

    The same bits come out whatever the chunks, parts or workers: sums are made block
    by block on one grid and merged in the order of the rows.

    Parameters
    ----------
    rows : Rows
        The residuals.
    name, channels : str, sequence of str
        What to call the array and its channels in an error.
    n_folds : int
        Number of folds, of nearly equal size. Empty folds are left out.
    tick : callable
        Called with the number of rows of each block done.

    Raises
    ------
    StreamError
        If a value is not finite, or its fourth power overflows.
    """
    cuts = [rows.n_rows * k // n_folds for k in range(n_folds + 1)]
    folds: dict[int, Moments] = {}
    try:
        # Run after run, on whatever worker, so that the last bit is always the same.
        for runs in row_tables.map_parts(
            rows, partial(_moments_of_runs, cuts=cuts), tick=tick
        ):
            for fold, run in runs:
                folds[fold] = folds[fold] + run if fold in folds else run
    except FloatingPointError:
        named = channels or [str(j) for j in range(rows.n_channels)]
        row_tables.refuse_nonfinite(rows, name, named)
    return list(folds.values())


def _moments_of_runs(
    part: row_tables.Part, *, cuts: Sequence[int]
) -> list[tuple[int, Moments]]:
    """Return the fold and the moments of each run of blocks."""
    n_rows, first = part.rows.n_rows, part.first
    inside = [cut - first for cut in cuts if 0 <= cut - first <= n_rows]
    run_rows = RUN_BLOCKS * row_tables.BLOCK_ROWS
    ends = {*inside, *range(-first % run_rows, n_rows, run_rows), n_rows}
    sums = _Sums(part.rows.n_channels)
    runs = []
    # An overflow is looked for in the sums, and reported with its row and channel.
    with np.errstate(over="ignore", invalid="ignore"):
        for start, block in part.blocks(inside):
            sums.add(block)
            if start + len(block) in ends:
                runs.append((bisect_right(cuts, first + start) - 1, sums.take()))
    return runs


def merged(moments: Sequence[Moments]) -> Moments:
    """Return the moments of all sets together, merged one after the other."""
    whole = moments[0]
    for part in moments[1:]:
        whole = whole + part
    return whole


def moments_of(rows: Floats) -> Moments:
    """Return the moments of rows in memory, shape (n, p), computed at once."""
    mean = rows.mean(axis=0)
    centered = rows - mean
    squares = np.einsum("tj,tj->t", centered, centered)
    unit = unit_of(squares)
    scaled = squares / unit**2
    return Moments(
        count=len(rows),
        mean=mean,
        rest=centered.sum(axis=0),
        second=centered.T @ centered,
        cubic=squares @ centered,
        fourth=float(scaled @ scaled),
        unit=unit,
        first=rows[0].copy(),
        constant=np.asarray((rows == rows[0]).all(axis=0)),
    )
