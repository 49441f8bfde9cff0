"""Telemetry in five views: level, change, surprise, lasting surprise, activity.

A one-step model fitted on train telemetry predicts each row from the row before. What
it does not explain is the surprise. All views are read in blocks of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints, Residuals
from sightline.data.recording import forward_fill
from sightline.data.row_tables import (
    Carried,
    CutRows,
    OverRows,
    Part,
    Rows,
    carry_over,
    map_parts,
    read_on_grid,
)
from sightline.errors import StreamError

# Ridge of the one-step model, in units of the variance of each channel.
RIDGE = 1e-3
VIEWS = ("level", "change", "surprise", "lasting surprise", "activity")
# Smaller changes, as a share of a channel's spread, make no difference.
LEAST_ACTIVITY = 1e-4
# Spans in rows of the averages of surprise and of activity.
LASTING, ACTIVE = 30, 10


@dataclass(frozen=True, kw_only=True, eq=False)
class OneStep:
    """A linear model of each row by the row before it, fitted on train telemetry.

    Parameters
    ----------
    mean, scale : array of shape (n_channels,)
        Mean and standard deviation on train; the scale of a constant channel is 1.
    weights : array of shape (n_channels, n_channels)
        Weights of the standardised row before.
    """

    mean: Floats
    scale: Floats
    weights: Floats

    def surprise(self, before: Floats, now: Floats) -> Floats:
        """Return the residual of `now` given `before`, in units of `scale`.

        Both have shape (n_rows, n_channels), and so has the result; 0 where a row is
        exactly as predicted.
        """
        x, y = (before - self.mean) / self.scale, (now - self.mean) / self.scale
        return np.asarray(y - x @ self.weights)


def fit_one_step(rows: Rows, breaks: Ints) -> OneStep:
    """Fit the one-step model by ridge regression, in one pass over pairs of rows.

    Parameters
    ----------
    rows : Rows
        Train telemetry. A missing cell holds the last value of its channel.
    breaks : array of int
        Rows without a row before them.

    Raises
    ------
    StreamError
        If no two rows follow one another.
    """
    begins = _marked(breaks, rows.n_rows)
    last = carry_over(rows, _last_row, None, begins)
    pilot = _first_row(rows)
    parts = list(map_parts(rows, partial(_pair_sums, pilot=pilot), begins, last))
    count = sum(part.count for part in parts)
    if count < 2:
        raise StreamError("`telemetry_train` must have at least 2 rows in a run.")
    total, both, cross = parts[0].total, parts[0].both, parts[0].cross
    for part in parts[1:]:
        total, both, cross = total + part.total, both + part.both, cross + part.cross
    d = rows.n_channels
    mean = total / count
    variance = np.diag(both) / count - mean**2
    scale = np.sqrt(np.maximum(variance, 0))
    scale[scale == 0] = 1.0
    # Rows before and rows after have nearly the same mean.
    inside = (both - count * np.outer(mean, mean)) / np.outer(scale, scale)
    across = (cross - count * np.outer(mean, mean)) / np.outer(scale, scale)
    inside.flat[:: d + 1] += RIDGE * count
    return OneStep(
        mean=mean + pilot, scale=scale, weights=np.linalg.solve(inside, across)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _PairSums:
    """Sums over pairs of a row x and the next row y, both minus a pilot row."""

    count: int
    total: Floats
    both: Floats
    cross: Floats


def _pair_sums(
    part: Part, begins: Bools, last: "Carried[Floats | None]", *, pilot: Floats
) -> _PairSums:
    """Return the sums over the pairs of a part."""
    d = part.rows.n_channels
    count, total = 0, np.zeros(d)
    both, cross = np.zeros((d, d)), np.zeros((d, d))
    for before, now, is_pair in _pairs(part.rows, begins, last.state):
        x, y = before[is_pair] - pilot, now[is_pair] - pilot
        count += len(x)
        total += x.sum(axis=0)
        both += x.T @ x
        cross += x.T @ y
    return _PairSums(count=count, total=total, both=both, cross=cross)


def _first_row(rows: Rows) -> Floats:
    """Return the first row, 0 where it is missing."""
    for chunk in rows.chunks():
        if len(chunk):
            return np.array(_held(np.asarray(chunk[:1], np.float64), None)[0])
    return np.zeros(rows.n_channels)


def _last_row(part: Part, last: Floats | None, begins: Bools) -> Floats | None:
    """Return the last row, held where it is missing, given the row before the part."""
    for _, now, _ in _pairs(part.rows, begins, last):
        last = now[-1:].copy()
    return last


def _marked(breaks: Ints, n_rows: int) -> Bools:
    """Return which rows begin a recording."""
    begins = np.zeros(n_rows, np.bool_)
    begins[breaks] = True
    return begins


def _pairs(
    rows: Rows, begins: Bools, last: Floats | None
) -> Iterator[tuple[Floats, Floats, Bools]]:
    """Yield blocks of rows before, rows, and whether each has a row before it.

    `last` is the row before the first block, None at the beginning of the table.
    """
    for start, block in read_on_grid(rows):
        now = _held(np.asarray(block, np.float64), last)
        first = now[:1] if last is None else last
        before = np.concatenate([first, now[:-1]])
        yield before, now, ~begins[start : start + len(now)]
        last = now[-1:].copy()


def _held(block: Floats, last: Floats | None) -> Floats:
    """Return rows with missing cells held at the last value; 0 where there is none.

    Otherwise one missing cell would spoil all averages after it.
    """
    if np.isfinite(block).all():
        return block
    before = np.zeros((1, block.shape[1])) if last is None else last
    whole = np.concatenate([before, block])
    one_run = np.zeros(1, np.int64)
    return forward_fill(whole, one_run, is_missing=~np.isfinite(whole))[0][1:]


@dataclass(frozen=True, eq=False)
class Carry:
    """State after some rows, for the rows after them: the last row, two averages."""

    last: Floats | None
    averages: Floats


@dataclass(frozen=True, eq=False)
class Views(OverRows):
    """Telemetry in five views, side by side, read in blocks.

    The columns are, for all channels each: their level; their change from row to row;
    their surprise under the one-step model; the surprise averaged over `LASTING` rows,
    which shows a small error that lasts; and their activity, the log of the average
    size of changes over `ACTIVE` rows, which shows a frozen or restless reading.

    Parameters
    ----------
    rows : Rows
        Telemetry.
    breaks : array of int
        Rows without a row before them: they have no change and no surprise.
    model : OneStep
        Fitted on train telemetry.
    carried : Carried, optional
        State after the rows before, where `rows` is a part of a table.
    """

    rows: Rows
    breaks: Ints
    model: OneStep
    carried: Carried[Carry] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_channels(self) -> int:
        """Five columns for each channel of the telemetry."""
        return len(VIEWS) * self.rows.n_channels

    def chunks(self) -> Iterator[Residuals]:
        """Yield the columns of blocks of rows; change and surprise are 0 at breaks."""
        return (columns for columns, _ in self.carrying())

    def carrying(self) -> Iterator[tuple[Residuals, Carry]]:
        """Yield the columns of blocks of rows, and the state after each block."""
        from sightline._kernels.rows import average_columns

        carry = (self.carried or _nothing_before(self.rows)).state
        states = carry.averages.copy()
        begins = _marked(self.breaks, self.n_rows)
        for before, now, is_pair in _pairs(self.rows, begins, carry.last):
            change = np.where(is_pair[:, None], now - before, 0.0)
            surprise = np.where(is_pair[:, None], self.model.surprise(before, now), 0.0)
            lasting, moving = np.empty_like(now), np.empty_like(now)
            size = np.abs(change) / self.model.scale
            average_columns(surprise, ~is_pair, 2 / (LASTING + 1), states[0], lasting)
            # The change at a break is unknown, which does not mean that it is 0.
            size = np.where(is_pair[:, None], size, states[1])
            average_columns(
                size, np.zeros(len(now), np.bool_), 2 / (ACTIVE + 1), states[1], moving
            )
            activity = np.log(moving + LEAST_ACTIVITY)
            columns = np.concatenate([now, change, surprise, lasting, activity], axis=1)
            yield columns, Carry(now[-1:].copy(), states.copy())

    def between(self, first: int, stop: int) -> "Views":
        """Return the rows [first, stop) of a table in parts."""
        low, high = np.searchsorted(self.breaks, [first, stop])
        return Views(
            cast(CutRows, self.rows).between(first, stop),
            self.breaks[low:high] - first,
            self.model,
            None if self.carried is None else self.carried.between(first, stop),
        )

    def where(self, row: int) -> str:
        """Return in words where a row is stored."""
        return self.rows.where(row)


def views_of(rows: Rows, breaks: Ints, model: OneStep) -> Views:
    """Return telemetry in five views, in the same parts as the rows."""
    begins = _marked(breaks, rows.n_rows)
    task = partial(_left_behind, model=model)
    nothing = _nothing_before(rows).state
    return Views(rows, breaks, model, carry_over(rows, task, nothing, begins))


def _nothing_before(rows: Rows) -> Carried[Carry]:
    """Return the state before the first row."""
    return Carried({0: Carry(None, np.zeros((2, rows.n_channels)))})


def _left_behind(part: Part, carry: Carry, begins: Bools, *, model: OneStep) -> Carry:
    """Return the state after the rows of a part."""
    views = Views(part.rows, np.flatnonzero(begins), model, Carried({0: carry}))
    for _, after in views.carrying():
        carry = after
    return carry
