"""From a recording to scaled rows and windows: fill, trim, down-sample, scale, cut.

All statistics come from train alone, unless a setting says otherwise.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.downsampling import (
    Preparation,
    downsampled,
    sampled_blocks,
)
from sightline.data.recording import Prepared, Recording, Values, forward_fill
from sightline.data.segments import breaks_kept
from sightline.data.validity import is_usable
from sightline.detectors.base import Arrays
from sightline.detectors.settings import (
    BaselineSettings,
    Constants,
    PreprocessingSettings,
    RowSettings,
)
from sightline.errors import StreamError
from sightline.text import names

Matrix = npt.NDArray[np.floating]
Wanted = TypeVar("Wanted", bound=RowSettings)
# Rows scaled at a time, so that no second copy of a long recording is made.
_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """Scaled = (value - offset) / scale, channel by channel.

    Parameters
    ----------
    offset, scale : array of shape (n_channels,)
        In the plant's units; no scale is 0.
    """

    offset: Floats
    scale: Floats

    def apply(
        self, values: Matrix, dtype: type[np.floating], clip: tuple[float, float] | None
    ) -> Matrix:
        """Return scaled values of a type, clipped to low and high if given."""
        scaled = np.empty(values.shape, dtype)
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            # Values too large for the precision become infinite and are reported later.
            with np.errstate(over="ignore"):
                scaled[rows] = (values[rows] - self.offset) / self.scale
        return scaled if clip is None else np.clip(scaled, *clip, out=scaled)


def fit_scaling(
    values: Matrix,
    *,
    epsilon: float = 0.0,
    constants: Constants = "unit",
    by: Literal["range", "spread"] = "range",
) -> Scaling:
    """Return the scaling that brings each channel's range to 0 ... 1.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Finite.
    epsilon : float
        Added to every range.
    constants : {"unit", "ratio", "epsilon", "keep"}
        How a channel without a range is scaled: see `PreprocessingSettings`.
    by : {"range", "spread"}
        With "spread" mean and standard deviation are brought to 0 and 1 instead.

    Examples
    --------
    >>> scaling = fit_scaling(np.array([[1.0, 7.0], [3.0, 7.0]]))
    >>> scaling.offset, scaling.scale
    (array([1., 7.]), array([2., 1.]))
    """
    low = values.min(axis=0).astype(np.float64)
    high = values.max(axis=0).astype(np.float64)
    is_constant = low == high
    offset, scale = low, high - low + epsilon
    if by == "spread":
        offset = np.where(is_constant, low, values.mean(axis=0, dtype=np.float64))
        scale = values.std(axis=0, dtype=np.float64) + epsilon
    if constants == "unit":
        scale = np.where(is_constant, 1.0, scale)
    elif constants == "ratio":
        offset = np.where(is_constant, 0.0, offset)
        scale = np.where(is_constant, np.where(low == 0, 1.0, low), scale)
    elif constants == "keep":
        offset = np.where(is_constant, 0.0, offset)
        scale = np.where(is_constant, 1.0, scale)
    return Scaling(offset=offset, scale=scale)


def fill_missing(
    values: Matrix, breaks: npt.NDArray[np.int64], instead: Floats
) -> tuple[Matrix, int]:
    """Return values without missing cells, and how many cells were filled.

    A cell takes the last value before it in its run, else the value given instead.
    Later values are never used.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        A cell that is not finite is missing.
    breaks : array of int
        First row of each run.
    instead : array of shape (n_channels,)
        For cells without a value before them in their run.
    """
    is_missing = ~np.isfinite(values)
    n_missing = int(is_missing.sum())
    if not n_missing:
        return values, 0
    filled = forward_fill(values, breaks, is_missing=is_missing)
    without = ~np.isfinite(filled)
    filled[without] = np.broadcast_to(instead, filled.shape)[without]
    return filled, n_missing


def expected_cells(
    values: Values, is_lost: Bools, mean: Floats, covariance: Floats, ridge: float
) -> Values:
    """Return rows in which each lost cell is what the other cells of its row expect.

    That is the conditional mean given the cells that are not lost. A row's values do
    not depend on the rows beside it, to the last bit.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        What lost cells hold does not matter.
    is_lost : array of bool, shape (n_rows, n_channels)
        The cells to replace.
    mean, covariance : array of shape (n_channels,) and (n_channels, n_channels)
        Of normal rows.
    ridge : float
        Added to each variance, as a share of it.

    Examples
    --------
    >>> covariance = np.array([[1.0, 2.0], [2.0, 5.0]])
    >>> lost = np.array([[False, True]])
    >>> expected_cells(np.array([[3.0, 9.0]]), lost, np.zeros(2), covariance, 0.0)
    array([[3., 6.]])
    """
    filled = values.copy()
    for rows, columns, known, weights, _, unit in _told(is_lost, covariance, ridge):
        total = np.zeros((len(rows), len(columns)))
        for j, weight in zip(known.tolist(), weights, strict=True):
            total += ((values[rows, j] - mean[j]) / unit[j])[:, None] * weight
        filled[np.ix_(rows, columns)] = mean[columns] + total * unit[columns]
    return filled


def _told(
    lost: Bools, covariance: Floats, ridge: float
) -> Iterator[tuple[Ints, Ints, Ints, Floats, Floats, Floats]]:
    """Yield how lost cells follow from the others, for rows that lack the same.

    Rows, lost and other channels, weights of these, correlation, unit of channels.
    """
    variance = np.diag(covariance)
    unit = np.sqrt(np.where(variance > 0, variance, 1.0))
    correlation = covariance / np.outer(unit, unit)
    correlation.flat[:: len(unit) + 1] *= 1 + ridge
    at = np.flatnonzero(lost.any(axis=1))
    patterns, which = np.unique(lost[at], axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        columns, known = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        weights = np.linalg.pinv(correlation[np.ix_(known, known)], hermitian=True)
        weights = weights @ correlation[np.ix_(known, columns)]
        yield at[which.ravel() == k], columns, known, weights, correlation, unit


def uncertain_residuals(
    lost: Bools, change: Floats, covariance: Floats, ridge: float, noise: Floats
) -> Bools:
    """Return which residuals are more uncertain by lost cells than by themselves.

    A lost cell is what the others expect of it, with the variance that they leave. It
    enters the residuals of other channels: of one row, or in all rows alike, whatever
    is more.

    Parameters
    ----------
    lost : array of bool, shape (n_rows, n_channels)
        Channels with a lost cell among those that the residuals of a row depend on.
    change : array of shape (n_lags, n_channels, n_channels)
        By how much a residual (last axis) changes with a cell, by lag.
    covariance, ridge
        As of `expected_cells`.
    noise : array of shape (n_channels,)
        Variance of the residuals of normal rows.

    Examples
    --------
    >>> change, lost = np.array([[[0.0, 0.1], [2.0, 0.0]]]), np.array([[False, True]])
    >>> uncertain_residuals(lost, change, np.eye(2), 0.0, np.ones(2)).tolist()
    [[True, False]]
    """
    found = np.zeros(lost.shape, np.bool_)
    for rows, columns, known, weights, r, unit in _told(lost, covariance, ridge):
        left = r[np.ix_(columns, columns)] - r[np.ix_(columns, known)] @ weights
        left = left * np.outer(unit[columns], unit[columns])
        each, every = change[:, columns], change[:, columns].sum(axis=0)
        apart = np.einsum("lji,jk,lki->i", each, left, each)
        together = np.einsum("ji,jk,ki->i", every, left, every)
        found[rows] = np.maximum(apart, together) > noise
    return found


def means_of(values: Matrix) -> Floats:
    """Return each channel's mean over its finite cells; 0 for a channel without any."""
    is_finite = np.isfinite(values)
    count = is_finite.sum(axis=0)
    total = np.where(is_finite, values, 0.0).sum(axis=0, dtype=np.float64)
    mean = np.where(count > 0, total / np.maximum(count, 1), 0.0)
    # Rounding must not make a constant channel vary where its mean is filled in.
    low = np.where(is_finite, values, np.inf).min(axis=0)
    high = np.where(is_finite, values, -np.inf).max(axis=0)
    return np.where(count > 0, np.clip(mean, low, high), 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledRows:
    """Rows as a detector sees them.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Filled, down-sampled and scaled.
    rows : array of shape (n_rows,)
        Step of the recording of each row; the first of each block.
    breaks : array of int
        First row of each run.
    offset, scale : array of shape (n_channels,)
        What was subtracted from each channel, and what it was divided by then.
    every : int
        How many steps of the recording one row was made of.
    notices : tuple of str
        Sentences about what was filled.
    is_lost : array of bool, shape of `values`, optional
        Cells whose tag had no usable value: they hold an old one. None if there are
        none.
    """

    values: Matrix
    rows: Ints
    breaks: Ints
    offset: Floats
    scale: Floats
    every: int = 1
    notices: tuple[str, ...] = ()
    is_lost: Bools | None = None


def left_to_do(settings: Wanted, done: Prepared) -> Wanted:
    """Return the settings without what was already done to a recording.

    Down-sampling and trimming happen once. The settings say which rows the detector
    wants, in measured rows; the recording knows what its rows are.

    Parameters
    ----------
    settings : RowSettings
        `every` of 1 and `trim_s` of 0 take the rows as they are.
    done : Prepared
        What the testbed's options did: `Recording.prepared`.

    Raises
    ------
    StreamError
        If both were asked for and differ; the message names both.

    Examples
    --------
    >>> done = Prepared(every=10, sampling="median")
    >>> left_to_do(PreprocessingSettings(every=10), done).every
    1
    """
    every, trim_s = settings.every, settings.trim_s
    if every > 1 and done.every > 1:
        if (every, settings.sampling) != (done.every, done.sampling):
            raise StreamError(
                f"The detector's settings ask for rows made of {every} measured rows "
                f"(`every`; sampling {settings.sampling!r}), and each row of the "
                f"recording was already made of {done.every} (sampling "
                f"{done.sampling!r}) when the testbed was opened: take `every` out of "
                "the testbed's options, or set the detector's `every` to 1."
            )
        every = 1
    if trim_s and done.trim_s:
        if trim_s != done.trim_s:
            raise StreamError(
                f"The detector's settings leave out the first {trim_s:g} s of train "
                f"(`trim_s`), and the first {done.trim_s:g} s were already left out "
                "when the testbed was opened: take `trim_s` out of the testbed's "
                "options, or set the detector's `trim_s` to 0."
            )
        trim_s = 0.0
    return replace(settings, every=every, trim_s=trim_s)


@dataclass(frozen=True, kw_only=True, eq=False)
class Preprocessing:
    """What train determines: the scale of each channel, and the values for gaps.

    Parameters
    ----------
    scaling : Scaling
        Of all channels.
    means : array of shape (n_channels,)
        Train's means, for missing cells without a value before them.
    kept : array of int
        Columns a detector sees.
    """

    scaling: Scaling
    means: Floats
    kept: Ints

    @classmethod
    def fit(
        cls,
        recording: Recording,
        settings: PreprocessingSettings,
        *,
        unscaled: Bools | None = None,
    ) -> Self:
        """Return the preprocessing that train determines.

        Parameters
        ----------
        recording : Recording
            Train.
        settings : PreprocessingSettings
            What to do.
        unscaled : array of bool, optional
            Channels that stay in the plant's units.
        """
        settings = left_to_do(settings, recording.prepared)
        means = means_of(_rounded(recording, settings).values)
        filled = _filled(recording, settings, means)[0]
        if not settings.scale_before_trim:
            filled = Preparation(trim_s=settings.trim_s).train(filled)
        values = filled.values
        chosen = settings.constant_channels
        is_kept = (
            values.min(axis=0) < values.max(axis=0)
            if chosen == "drop"
            else np.ones(values.shape[1], np.bool_)
        )
        if not is_kept.any():
            raise StreamError(
                "Every channel of train is constant: there is nothing to learn from."
            )
        scaling = fit_scaling(
            values,
            epsilon=settings.range_epsilon,
            constants="unit" if chosen == "drop" else chosen,
            by=settings.scaler,
        )
        if unscaled is not None:
            scaling = Scaling(
                offset=np.where(unscaled, 0.0, scaling.offset),
                scale=np.where(unscaled, 1.0, scaling.scale),
            )
        return cls(scaling=scaling, means=means, kept=np.flatnonzero(is_kept))

    def train(
        self,
        recording: Recording,
        settings: PreprocessingSettings,
        dtype: type[np.floating],
    ) -> ScaledRows:
        """Return train as a detector sees it: down-sampled, scaled, trimmed.

        Rows are made before they are trimmed, as in the published pipelines, so that
        they are the same rows that `test` makes of the same recording.
        """
        settings = left_to_do(settings, recording.prepared)
        filled, notices = _filled(recording, settings, self.means)
        whole = self._scaled(filled, settings, dtype, self.scaling, notices)
        left = Preparation(trim_s=settings.trim_s).train(filled).n_steps
        cut = recording.n_steps - left
        is_kept = whole.rows >= cut
        if not is_kept.any():
            raise StreamError(
                f"`trim_s` of {settings.trim_s:g} s leaves no row of train: lower it."
            )
        return replace(
            whole,
            values=whole.values[is_kept],
            rows=whole.rows[is_kept],
            breaks=breaks_kept(whole.breaks, is_kept),
        )

    def test(
        self,
        recording: Recording,
        settings: PreprocessingSettings,
        dtype: type[np.floating],
    ) -> ScaledRows:
        """Return any recording as a detector sees it: down-sampled and scaled."""
        settings = left_to_do(settings, recording.prepared)
        filled, notices = _filled(recording, settings, self.means)
        scaling = self.scaling
        if settings.test_scaling == "own":
            constants: Constants = "unit"
            if settings.constant_channels in ("ratio", "epsilon"):
                constants = settings.constant_channels
            scaling = fit_scaling(
                filled.values,
                epsilon=settings.range_epsilon,
                constants=constants,
                by=settings.scaler,
            )
            notices = (
                *notices,
                "The recording was scaled by its own range, which looks ahead.",
            )
        return self._scaled(filled, settings, dtype, scaling, notices)

    def _scaled(
        self,
        recording: Recording,
        settings: PreprocessingSettings,
        dtype: type[np.floating],
        scaling: Scaling,
        notices: tuple[str, ...],
    ) -> ScaledRows:
        """Return the rows of a filled recording, down-sampled and scaled."""
        every, across = settings.every, settings.across_breaks
        starts, _ = sampled_blocks(
            recording, every=every, sampling=settings.sampling, across_breaks=across
        )
        sampled = downsampled(
            recording, every=every, sampling=settings.sampling, across_breaks=across
        )
        breaks = sampled.breaks
        if settings.cross_gaps or breaks is None:
            breaks = np.zeros(1, np.int64)
        kept = Scaling(offset=scaling.offset[self.kept], scale=scaling.scale[self.kept])
        values, is_lost = sampled.values, None
        if sampled.validity is not None:
            is_lost = ~is_usable(sampled.validity[:, self.kept])
        if len(self.kept) < values.shape[1]:
            values = values[:, self.kept]
        return ScaledRows(
            values=kept.apply(values, dtype, settings.clip),
            rows=starts,
            breaks=breaks,
            offset=kept.offset,
            scale=kept.scale,
            every=every,
            notices=notices,
            is_lost=is_lost if is_lost is not None and is_lost.any() else None,
        )

    def arrays(self) -> Arrays:
        """Return the parts as named arrays, for `of_arrays`."""
        return {
            "preprocessing/offset": self.scaling.offset,
            "preprocessing/scale": self.scaling.scale,
            "preprocessing/means": self.means,
            "preprocessing/kept": self.kept,
        }

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Self:
        """Return the preprocessing that `arrays` describes."""
        return cls(
            scaling=Scaling(
                offset=arrays["preprocessing/offset"],
                scale=arrays["preprocessing/scale"],
            ),
            means=arrays["preprocessing/means"],
            kept=arrays["preprocessing/kept"],
        )


def _filled(
    recording: Recording, settings: PreprocessingSettings, means: Floats
) -> tuple[Recording, tuple[str, ...]]:
    """Return a recording without missing cells, and sentences if there were any."""
    recording = _rounded(recording, settings)
    breaks = recording.breaks
    if settings.missing == "mean":
        breaks, means = np.arange(recording.n_steps), means_of(recording.values)
    if breaks is None:
        breaks = np.zeros(1, np.int64)
    filled, count = fill_missing(recording.values, breaks, means)
    if not count:
        return recording, ()
    how = (
        "the mean of the recording"
        if settings.missing == "mean"
        else "the last value before them (train's mean where there was none)"
    )
    notices = [
        f"{count:,} missing cells of {recording.values.size:,} were given {how}."
    ]
    empty = np.flatnonzero(~np.isfinite(recording.values).any(axis=0))
    if len(empty):
        named = names([recording.channels[column] for column in empty], 4)
        notices.append(f"No value was recorded of {named}: every cell was filled.")
    filled_in = replace(recording, values=filled, validity=recording.codes())
    return filled_in, tuple(notices)


def _rounded(recording: Recording, settings: PreprocessingSettings) -> Recording:
    """Return a recording in single precision, if the settings ask for it."""
    if not settings.round_raw:
        return recording
    rounded = recording.values.astype(np.float32).astype(np.float64)
    return replace(recording, values=rounded)


# ---------------------------------------------------------------------- windows


@dataclass(frozen=True, kw_only=True, eq=False)
class RowWindows:
    """Windows of `length` rows; each gives a residual for its last row.

    Parameters
    ----------
    values : array of shape (n, channels)
        The rows they are cut from.
    length : int
        Rows in a window.
    starts : array of shape (n_windows,)
        First row of each.
    steps : array of shape (n_windows,)
        Row of the recording that each one gives a residual for.
    is_warm_up : array of shape (n_windows,)
        Those that begin with repeated rows, because the run has no earlier ones.
    """

    values: Matrix
    length: int
    starts: Ints
    steps: Ints
    is_warm_up: Bools

    def __len__(self) -> int:
        return len(self.starts)


def forecast_windows(values: Matrix, breaks: Ints, length: int) -> RowWindows:
    """Return every window of `length` rows that lies within one run.

    Parameters
    ----------
    values : array of shape (n, channels)
        Rows.
    breaks : array of int
        First row of each run.
    length : int
        Rows in a window.

    Examples
    --------
    >>> windows = forecast_windows(np.zeros((7, 1)), np.array([0, 4]), 3)
    >>> windows.starts, windows.steps
    (array([0, 1, 4]), array([2, 3, 6]))
    """
    rows, run = np.arange(len(values)), _run_of(values, breaks)
    starts = rows[rows - breaks[run] >= length - 1] - (length - 1)
    return RowWindows(
        values=values,
        length=length,
        starts=starts,
        steps=starts + length - 1,
        is_warm_up=np.zeros(len(starts), np.bool_),
    )


def _run_of(values: Matrix, breaks: Ints) -> Ints:
    """Return the number of the run that each row belongs to."""
    rows = np.arange(len(values))
    return np.asarray(np.searchsorted(breaks, rows, side="right") - 1)


def padded_windows(
    values: Matrix, breaks: Ints, length: int, *, ahead: int = 0
) -> RowWindows:
    """Return a window for every row; the first ones of a run repeat its first row.

    Parameters
    ----------
    values, breaks, length
        As for `forecast_windows`.
    ahead : {0, 1}
        With 1 the window of a row ends one row before it, as in some published code.
    """
    rows, run = np.arange(len(values)), _run_of(values, breaks)
    pad = length - 1 + ahead
    repeated = np.repeat(breaks, pad)
    return RowWindows(
        values=values[np.insert(rows, repeated, repeated)],
        length=length,
        starts=rows + run * pad,
        steps=rows,
        is_warm_up=rows - breaks[run] < pad,
    )


def rows_to_learn(
    recording: Recording, settings: BaselineSettings, length: int, whose: str
) -> tuple[Preprocessing, ScaledRows, Ints, Ints]:
    """Return preprocessing, train, its rows to learn from, and those held out.

    Parameters
    ----------
    recording : Recording
        Train.
    settings : BaselineSettings
        Of preprocessing and held-out block.
    length : int
        Rows of one run that a residual needs: the first ones are in neither.
    whose : str
        Title of the detector, for the error message.

    Raises
    ------
    StreamError
        If there are fewer than two: one row would make every channel constant.
    """
    preprocessing = Preprocessing.fit(recording, settings)
    train = preprocessing.train(recording, settings, np.float64)
    rows = forecast_windows(train.values, train.breaks, length).steps
    if len(rows) < 2:
        raise StreamError(
            f"Train leaves {len(rows)} rows to learn from, and {whose} needs 2 or "
            "more: give a longer recording."
        )
    is_held_out = np.zeros(len(rows), np.bool_)
    block = held_out_block(len(rows), settings.validation_share, settings.seed)
    is_held_out[block] = True
    return preprocessing, train, rows[~is_held_out], rows[is_held_out]


def held_out_block(n_windows: int, share: float, seed: int) -> slice:
    """Return the windows of the held-out block: one run of them, its place drawn.

    GDN's rule: the length is the share rounded down, the first window the first draw
    of Python's generator after seeding.

    Parameters
    ----------
    n_windows : int
        Windows in train.
    share : float
        Share to hold out, 0 or more and less than 1; 0 gives an empty slice.
    seed : int
        Of the draw.

    Examples
    --------
    >>> held_out_block(47_515, 0.2, 5)
    slice(16740, 26243, None)
    """
    length = int(n_windows * share)
    if not length:
        return slice(0, 0)
    start = random.Random(seed).randrange(max(1, int(n_windows * (1 - share))))
    return slice(start, start + length)
