"""Does the plant's own telemetry move? Levels, changes, surprises, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from sightline.data.arrays import (
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    Residuals,
)
from sightline.data.row_tables import (
    Carried,
    CutRows,
    OverRows,
    Part,
    Rows,
    Tick,
    carry_over,
    map_parts,
    no_tick,
    read_on_grid,
)
from sightline.data.segments import Segment
from sightline.energy.reference import fit_reference
from sightline.errors import StreamError
from sightline.judgement.calm import CalmWindows
from sightline.judgement.subspaces import (
    Exceedances,
    Family,
    count_above,
    upper_quantiles,
)
from sightline.judgement.verdicts import RungOutcome

# The ridge of the one-step model, in units of each channel's own variance.
RIDGE = 1e-3
VIEWS = ("level", "change", "surprise", "lasting surprise", "activity")
# Changes smaller than this share of a channel's spread are none.
LEAST_ACTIVITY = 1e-4
# Spans of the averages behind the last two.
LASTING, ACTIVE = 30, 10


@dataclass(frozen=True, kw_only=True, eq=False)
class OneStep:
    """A linear model of each row by the row before it, fitted on train telemetry."""

    mean: Floats
    scale: Floats
    weights: Floats

    def surprise(self, before: Floats, now: Floats) -> Floats:
        """Return what of `now` does not follow from `before`, in units of scale."""
        x, y = (before - self.mean) / self.scale, (now - self.mean) / self.scale
        return np.asarray(y - x @ self.weights)


def fit_one_step(rows: Rows, breaks: Ints) -> OneStep:
    """Fit the one-step model by ridge regression, in one pass over pairs of rows."""
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
    # Rows before and rows after have all but the same mean.
    inside = (both - count * np.outer(mean, mean)) / np.outer(scale, scale)
    across = (cross - count * np.outer(mean, mean)) / np.outer(scale, scale)
    inside.flat[:: d + 1] += RIDGE * count
    return OneStep(
        mean=mean + pilot, scale=scale, weights=np.linalg.solve(inside, across)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _PairSums:
    """Sums over pairs of a row x and the next y, about a pilot."""

    count: int
    total: Floats
    both: Floats
    cross: Floats


def _pair_sums(
    part: Part, begins: Bools, last: "Carried[Floats | None]", *, pilot: Floats
) -> _PairSums:
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
    begins = np.zeros(n_rows, np.bool_)
    begins[breaks] = True
    return begins


def _pairs(
    rows: Rows, begins: Bools, last: Floats | None
) -> Iterator[tuple[Floats, Floats, Bools]]:
    """Yield blocks of rows, each with the row before it, and whether there is one.

    `last` is the row before the first, if there is one.
    """
    for start, block in read_on_grid(rows):
        now = _held(np.asarray(block, np.float64), last)
        first = now[:1] if last is None else last
        before = np.concatenate([first, now[:-1]])
        yield before, now, ~begins[start : start + len(now)]
        last = now[-1:].copy()


def _held(block: Floats, last: Floats | None) -> Floats:
    """Return rows with missing cells held at the last value; 0 where there is none.

    One missing cell would else spoil all averages after it.
    """
    is_known = np.isfinite(block)
    if is_known.all():
        return block
    before = np.zeros((1, block.shape[1])) if last is None else last
    whole = np.concatenate([before, block])
    row = np.arange(len(whole))[:, None]
    known = np.concatenate([np.ones_like(before, np.bool_), is_known])
    newest = np.maximum.accumulate(np.where(known, row, 0), axis=0)
    return np.take_along_axis(whole, newest, axis=0)[1:]


@dataclass(frozen=True, eq=False)
class Carry:
    """What rows leave behind for those after them: the last row, two averages."""

    last: Floats | None
    averages: Floats


@dataclass(frozen=True, eq=False)
class Views(OverRows):
    """Telemetry in five views side by side, read in blocks.

    Besides level, change and surprise: the surprise averaged over a while, which shows
    a small error that lasts, and the log of the average size of changes, which shows a
    reading that is frozen or restless. `carried` is what the rows before leave behind.
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
        """Yield the columns of some rows; at a break nothing changes or surprises."""
        return (columns for columns, _ in self.carrying())

    def carrying(self) -> Iterator[tuple[Residuals, Carry]]:
        """Yield the columns of some rows, and what these leave behind."""
        from sightline._kernels.spaces import average_columns

        carry = (self.carried or _nothing_before(self.rows)).state
        states = carry.averages.copy()
        begins = _marked(self.breaks, self.n_rows)
        for before, now, is_pair in _pairs(self.rows, begins, carry.last):
            change = np.where(is_pair[:, None], now - before, 0.0)
            surprise = np.where(is_pair[:, None], self.model.surprise(before, now), 0.0)
            lasting, moving = np.empty_like(now), np.empty_like(now)
            size = np.abs(change) / self.model.scale
            average_columns(surprise, ~is_pair, 2 / (LASTING + 1), states[0], lasting)
            # That nothing is known of a change at a break does not make it a still one.
            size = np.where(is_pair[:, None], size, states[1])
            average_columns(
                size, np.zeros(len(now), np.bool_), 2 / (ACTIVE + 1), states[1], moving
            )
            activity = np.log(moving + LEAST_ACTIVITY)
            columns = np.concatenate([now, change, surprise, lasting, activity], axis=1)
            yield columns, Carry(now[-1:].copy(), states.copy())

    def between(self, first: int, stop: int) -> "Views":
        """Return the rows from `first` up to `stop`, which is a part."""
        low, high = np.searchsorted(self.breaks, [first, stop])
        return Views(
            cast(CutRows, self.rows).between(first, stop),
            self.breaks[low:high] - first,
            self.model,
            None if self.carried is None else self.carried.between(first, stop),
        )

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""
        return self.rows.where(row)


def views_of(rows: Rows, breaks: Ints, model: OneStep) -> Views:
    """Return telemetry in five views, in as many parts as the rows are."""
    begins = _marked(breaks, rows.n_rows)
    task = partial(_left_behind, model=model)
    nothing = _nothing_before(rows).state
    return Views(rows, breaks, model, carry_over(rows, task, nothing, begins))


def _nothing_before(rows: Rows) -> Carried[Carry]:
    return Carried({0: Carry(None, np.zeros((2, rows.n_channels)))})


def _left_behind(part: Part, carry: Carry, begins: Bools, *, model: OneStep) -> Carry:
    """Return what the rows of a part leave behind."""
    views = Views(part.rows, np.flatnonzero(begins), model, Carried({0: carry}))
    for _, after in views.carrying():
        carry = after
    return carry


@dataclass(frozen=True, kw_only=True, eq=False)
class TelemetryEvidence:
    """How often each view of each channel is beyond what is usual."""

    exceedances: Exceedances

    def judged(self, segment: Segment, windows: CalmWindows) -> RungOutcome:
        """Return the best view of an attack against the best of each calm window."""
        return self.exceedances.judged(segment, windows)[0]


def gather_telemetry(
    train: Rows,
    test: Rows,
    *,
    train_breaks: Ints,
    test_breaks: Ints,
    labels: Labels,
    positions: Ints,
    channels: Sequence[str],
    tick: Tick = no_tick,
) -> TelemetryEvidence | None:
    """Look at telemetry in three ways; None where train telemetry never varies."""
    try:
        model = fit_one_step(train, train_breaks)
        views = views_of(train, train_breaks, model)
        reference = fit_reference(views, estimator="ledoit-wolf-standardised")
    except (StreamError, np.linalg.LinAlgError):
        return None
    d = len(channels)
    family = Family(
        reference=reference,
        channels=tuple(f"{name} ({view})" for view in VIEWS for name in channels),
        groups=tuple(
            (f"all channels ({view})", tuple(range(k * d, (k + 1) * d)))
            for k, view in enumerate(VIEWS)
        ),
        # A sum over views of different kinds would mean nothing.
        largest=1,
    )
    # What an attack leaves behind is no surprise of calm hours; ignored rows are none.
    is_normal, is_ignored = labels == NORMAL, labels == IGNORED
    returns = np.flatnonzero(~is_normal[:-1] & is_normal[1:]) + 1
    begins = [test_breaks, returns, np.flatnonzero(is_ignored)]
    tested = views_of(test, np.unique(np.concatenate(begins)), model)
    limits = upper_quantiles(tested, family, is_normal, tick)
    return TelemetryEvidence(
        exceedances=count_above(tested, family, limits, positions, tick)
    )
