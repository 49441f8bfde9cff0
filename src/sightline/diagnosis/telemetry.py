"""Does the plant's own telemetry move? Levels, changes, surprises, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.checks import (
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    Residuals,
)
from sightline.diagnosis.calm import CalmWindows, Rung
from sightline.diagnosis.spaces import (
    Exceedances,
    Family,
    count_above,
    upper_quantiles,
)
from sightline.errors import StreamError
from sightline.moments import Tick, no_tick
from sightline.reference import fit_reference
from sightline.rows import Rows, read_on_grid
from sightline.segments import Segment

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
    d = rows.n_channels
    count, total = 0, np.zeros(d)
    pilot: Floats | None = None
    both, cross = np.zeros((d, d)), np.zeros((d, d))
    for before, now, is_pair in _pairs(rows, breaks):
        pilot = now[0].copy() if pilot is None else pilot
        x, y = before[is_pair] - pilot, now[is_pair] - pilot
        count += len(x)
        total += x.sum(axis=0)
        both += x.T @ x
        cross += x.T @ y
    if pilot is None or count < 2:
        raise StreamError("`telemetry_train` must have at least 2 rows in a run.")
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


def _pairs(rows: Rows, breaks: Ints) -> Iterator[tuple[Floats, Floats, Bools]]:
    """Yield blocks of rows, each with the row before it, and whether there is one."""
    begins = np.zeros(rows.n_rows, np.bool_)
    begins[breaks] = True
    last: Floats | None = None
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
class Views:
    """Telemetry in five views side by side, read in blocks.

    Besides level, change and surprise: the surprise averaged over a while, which shows
    a small error that lasts, and the log of the average size of changes, which shows a
    reading that is frozen or restless.
    """

    rows: Rows
    breaks: Ints
    model: OneStep

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
        from sightline.kernels.spaces import average_columns

        states = np.zeros((2, self.rows.n_channels))
        for before, now, is_pair in _pairs(self.rows, self.breaks):
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
            yield np.concatenate([now, change, surprise, lasting, activity], axis=1)

    def where(self, row: int) -> str:
        """Say in words where a row is to be found."""
        return self.rows.where(row)


@dataclass(frozen=True, kw_only=True, eq=False)
class TelemetryEvidence:
    """How often each view of each channel is beyond what is usual."""

    exceedances: Exceedances

    def judged(self, segment: Segment, windows: CalmWindows) -> Rung:
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
        views = Views(train, train_breaks, model)
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
    tested = Views(test, np.unique(np.concatenate(begins)), model)
    limits = upper_quantiles(tested, family, is_normal, tick)
    return TelemetryEvidence(
        exceedances=count_above(tested, family, limits, positions, tick)
    )
