"""Baselines by subspaces of lagged rows: a Kalman filter, and PASAD.

They need numpy and scipy only. `kalman` is a linear state-space model of all tags;
`pasad` looks at each tag by itself, over half an hour.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import eigh, solve_discrete_are, solve_triangular

from sightline.data.arrays import Floats, Ints, Labels
from sightline.data.recording import Recording
from sightline.detectors.base import Arrays, RuleInput, Split
from sightline.detectors.baselines import (
    Baseline,
    baseline_card,
    joined_moments,
    standards,
)
from sightline.detectors.native_rules import NativeAlarms, NativeRule
from sightline.detectors.preprocessing import left_to_do
from sightline.detectors.settings import BaselineSettings, Count
from sightline.errors import StreamError
from sightline.progress import Progress

# A setting that counts rows is at most this share of train.
_SHARE_OF_TRAIN = 0.1
# Share of what squared singular values, or eigenvalues, sum up to that is kept.
KEPT_SHARE = 0.99


def leading(values: Floats, total: float) -> int:
    """Return how many of descending values make up 99% of a total.

    Examples
    --------
    >>> leading(np.array([9.0, 0.95, 0.05]), 10.0)
    2
    """
    enough = int((np.cumsum(values) < KEPT_SHARE * total).sum()) + 1
    return min(enough, len(values))


def runs_of_rows(rows: Ints) -> tuple[Ints, Ints]:
    """Return the first row and the length of each group of rows without a gap.

    Examples
    --------
    >>> runs_of_rows(np.array([3, 4, 9]))
    (array([3, 9]), array([2, 1]))
    """
    at = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    return rows[at], np.diff(at, append=len(rows))


class _LagBaseline(Baseline):
    """What both share: how many rows they look back follows from train's length."""

    learned: ClassVar[tuple[str, ...]] = ("mean", "deviation", "lag")
    deviation: Floats
    lag: int = 2

    @property
    def looks_at(self) -> int:  # type: ignore[override]
        """Rows of one run that a residual needs."""
        return self.lag

    def _lag_of(self, step_s: float, most: int) -> int:
        """Return the rows to look at, for rows of so many seconds."""
        raise NotImplementedError

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        every = left_to_do(self.settings, recording.prepared).every
        most = int(recording.n_steps // every * _SHARE_OF_TRAIN)
        self.lag = self._lag_of((recording.step_s or 1.0) * every, max(most, 2))
        return super()._learn(recording, progress, checkpoint)


# --------------------------------------------------------------- state-space model

# Rows of train, at most, that second moments are taken of, evenly chosen.
_ROWS_OF_MOMENTS = 50_000
# Rows of past and of future in a block Hankel matrix: 2 or more, so that each half has
# at most so many lines and no more than a tenth as many as there are rows.
_MOST_LINES, _MOST_BLOCKS = 600, 20
# Added to the variance of each line, which is 1, and to that of innovations.
_RIDGE, _LEAST_NOISE = 1e-4, 1e-6
# Numbers of states that are tried; those within 1% of the least error are a tie.
ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 45, 60)
_CLOSE = 1.01
# The filter has settled when the state it began with moves no expectation by more than
# this share of a tag's deviation; within so many rows. It has forgotten a lost tag when
# that share is no more than this.
SETTLED, MOST_SETTLING = 1e-6, 300
FORGOTTEN = 0.01
# Weights of each older row that are tried, as powers of the one that alone would do.
_WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0)


# Of its own alarm rule: seconds of a window, within so many rows; the share of train's
# divergences below the limit; values worked on at a time; and a tag moves in train
# whose spread is more than this share of its largest innovation.
KL_S, KL_ROWS = 600.0, (10, 120)
KL_QUANTILE = 0.99
_KL_VALUES = 4_000_000
_LEAST_SPREAD = 1e-9

KL = NativeRule(
    "kl",
    "The Gaussian KL divergence of the innovations of the last ten minutes, mean and "
    "covariance, from those of train (Kreso et al., 2026), above the 99th percentile "
    "of train's.",
)


def divergences(rows: Floats, begins: Ints, length: int) -> Floats:
    """Return the Gaussian KL divergence of the last rows from N(0, I), for each row.

    ``(tr S + |m|^2 - p - log det S) / 2`` with mean m and covariance S of the last
    `length` rows, to which as many pseudo-rows of N(0, I) are added as there are
    channels: ``S = (W C + p I) / (W + p)``, so that S has an inverse. Rows before the
    first of a run count as pseudo-rows too. At least 0 but for rounding, higher where
    the rows look less like N(0, I); infinite beyond 1e150.

    Parameters
    ----------
    rows : array of shape (n_rows, p)
        Whitened innovations.
    begins : array of int
        First row of each run.
    length : int
        Rows of a window, W.

    Examples
    --------
    A window of two rows in one dimension: m = 2, C = 1, so S = (2 + 1) / 3 = 1.

    >>> float(divergences(np.array([[1.0], [3.0]]), np.array([0]), 2)[-1])
    2.0
    """
    n, p = rows.shape
    found, least = np.empty(n), p / (length + p)
    at_once = max(_KL_VALUES // (max(length, p) * p), 1)
    for first, stop in zip(begins, [*begins[1:], n], strict=True):
        padded = np.vstack([np.zeros((length - 1, p)), rows[first:stop]])
        windows = np.lib.stride_tricks.sliding_window_view(padded, length, axis=0)
        for at in range(0, stop - first, at_once):
            part = windows[at : at + at_once]
            absent = np.fmax(length - 1 - at - np.arange(len(part)), 0)
            with np.errstate(over="ignore", invalid="ignore"):
                mean = part.mean(axis=2)
                away = part - mean[:, :, None]
                spread = away @ away.transpose(0, 2, 1)
                spread += (p + absent)[:, None, None] * np.eye(p)
                spread /= length + p
                trace = np.einsum("kjj->k", spread)
                size = trace + np.einsum("kj,kj->k", mean, mean)
                volume = np.linalg.slogdet(spread)[1]
                # No eigenvalue can be smaller than pseudo-rows make it.
                volume = np.fmax(volume, p * np.log(least))
                value = np.where(np.isfinite(size), (size - p - volume) / 2, np.inf)
            found[first + at : first + at + len(part)] = value
    return found


@dataclass(frozen=True, kw_only=True)
class KalmanSettings(BaselineSettings):
    """Settings of the Kalman filter.

    Parameters
    ----------
    order : int, optional
        Number of states; chosen from 1 to 60 on held-out rows if not given.
    kl_rows : int, optional
        Rows of a window of its own alarm rule; by default those of ten minutes, 10 to
        120.
    """

    order: Count | None = None
    kl_rows: Count | None = None


class KalmanFilter(_LagBaseline):
    """Expects of each tag what a linear state-space model foretells of its next row.

    The model is ``x(t+1) = A x + w, y = C x + v`` of standardised tags. States are
    those of N4SID: the rows to come are projected on the rows before (block Hankel
    matrices, by the triangular factor of their second moments), and the leading
    singular vectors of the projection span the states. A, C and the covariances of w
    and v follow by least squares, the gain K by the Riccati equation. Residuals are the
    innovations ``y - C x`` of the filter ``x(t+1) = A x + K (y - C x)``.

    The filter begins each run in the mean of train; rows before it has settled have no
    residual. If it does not settle within `MOST_SETTLING` rows or a tenth of train, it
    gets the gain with which it does (exponential weighting of age). A channel constant
    in train is not in the model, and its residual is its value minus the constant.

    References
    ----------
    P. Van Overschee, B. De Moor: N4SID: subspace algorithms for the identification of
    combined deterministic-stochastic systems. Automatica 30, 1994.
    B. D. O. Anderson: Exponential data weighting in the Kalman-Bucy filter. Information
    Sciences 5, 1973.
    I. Kreso, M. Tarif, F. Moradi, I. Khazrak, M. M. Rezaee, M. Homaei: Information-
    theoretic digital twins for stealthy attack detection in industrial control systems:
    a closed-form KL divergence approach. arXiv 2603.01621, 2026 (its own alarm rule).
    """

    card = replace(
        baseline_card("kalman", "Kalman filter", "forecast"),
        paper="P. Van Overschee, B. De Moor, N4SID: subspace algorithms for the "
        "identification of combined deterministic-stochastic systems, Automatica 1994",
        faithful=(
            "States by orthogonal projection and singular values, A, C, Q, R and S by "
            "least squares, the gain by the Riccati equation; no inputs: actuators are "
            "tags like all others.",
        ),
        deviates=(
            f"At most {_ROWS_OF_MOMENTS:,} evenly chosen rows of train, each with the "
            "rows before it in its run, give the second moments.",
            f"States: the fewest, of {', '.join(map(str, ORDERS))}, with an error "
            "on held-out rows within 1% of the least; without held-out rows the "
            f"fewest with {KEPT_SHARE:.0%} of the squared singular values.",
            "Where the optimal filter would need more rows to settle than "
            f"{MOST_SETTLING} or a tenth of train, older rows are weighted less.",
            "Rule kl (I. Kreso et al., arXiv 2603.01621, 2026; of the paper only the "
            "abstract was read): length of the window, pseudo-rows and limit are our "
            "choice.",
        ),
    )
    settings_type = KalmanSettings
    rules = (KL,)
    learned = (*_LagBaseline.learned, "closed", "gain", "output", "weighting", "wait")
    closed: Floats
    gain: Floats
    output: Floats
    weighting: float
    wait: int

    def memory(self, preset: str = "export") -> int:
        """Return how many rows of a tag must be usable again until it is forgotten."""
        return self.wait

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return the divergence of the last rows and its alarms; see `divergences`.

        Mean and covariance are those of train's innovations, the limit is the 99th
        percentile of train's divergences, as that of the p99 rule of energies.
        """
        learned, tested = given.train_residuals, given.test_residuals
        normal = given.is_trained | given.is_held_out
        scale = learned.values[normal].std(axis=0)
        moving = scale > _LEAST_SPREAD * np.abs(learned.values[normal]).max(axis=0)
        if not moving.any():
            if rule is None:
                return None
            raise StreamError(f"The rule {rule!r} needs a tag that moves in train.")
        rows = learned.values[normal][:, moving] / scale[moving]
        second = np.cov(rows.T, bias=True).reshape(2 * rows.shape[1:])
        root = np.linalg.cholesky(second + _RIDGE * np.eye(len(second)))
        step_s = (given.train.step_s or 1.0) * learned.every
        length = self.settings.kl_rows or int(np.clip(KL_S / step_s, *KL_ROWS))
        by_record = [
            divergences(
                solve_triangular(
                    root,
                    (one.values[:, moving] / scale[moving] - rows.mean(axis=0)).T,
                    lower=True,
                ).T,
                np.flatnonzero(np.diff(one.index, prepend=-2 * one.every) != one.every),
                length,
            )
            for one in (learned, tested)
        ]
        limit = float(np.quantile(by_record[0][normal], KL_QUANTILE))
        notice = f"Each divergence is of {length} rows and {moving.sum()} tags."
        return NativeAlarms.above(limit, KL, by_record[1], (notice,))

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        # A damaged file is noticed when it is read.
        self.wait = min(int(self.wait), self.lag - 1)

    def _lag_of(self, step_s: float, most: int) -> int:
        return min(MOST_SETTLING, most) + 1

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        self.mean, self.covariance, self.deviation, moving = standards(values, trained)
        n_tags, p = len(self.mean), len(moving)
        self.closed, self.weighting, self.wait = np.zeros((0, 0)), 0.0, 0
        self.gain, self.output = np.zeros((0, n_tags)), np.zeros((n_tags, 0))
        some = trained[:: 1 + len(trained) // _ROWS_OF_MOMENTS]
        lines = min(_MOST_LINES, len(some) // 10)
        n_blocks = min(max(lines // max(p, 1), 2), _MOST_BLOCKS, self.lag // 2)
        lags = range(2 * n_blocks - 1, -1, -1)
        if not p or n_blocks < 2:
            return
        standard = ((values - self.mean) / self.deviation)[:, moving]
        second = joined_moments(standard, some, lags)
        orders: tuple[int | None, ...] = (self.settings.order,)
        if len(held_out) and orders == (None,):
            orders = ORDERS
        models = [identified(second, p, order) for order in orders]
        if len(models) > 1:
            some = held_out[:: 1 + len(held_out) // _ROWS_OF_MOMENTS]
            judged = joined_moments(standard, some, lags)
            errors = [model.error(judged) for model in models]
            close = _CLOSE * min(errors)
            models = [
                models[k] for k in np.argsort(np.fmax(errors, close), stable=True)
            ]
        for model in models:
            filtered = settling_filter(model, self.lag - 1)
            if filtered is not None:
                self.closed, gain, self.weighting, self.lag, self.wait = filtered
                n = len(gain)
                self.gain, self.output = np.zeros((n, n_tags)), np.zeros((n_tags, n))
                self.gain[:, moving], self.output[moving] = gain, model.output
                return

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        residuals = values[rows] - self.mean
        done, back, closed = 0, self.lag - 1, self.closed
        for first, length in zip(*runs_of_rows(rows), strict=True):
            run = values[first - back : first + length]
            states = ((run - self.mean) / self.deviation) @ self.gain.T
            state = np.zeros(len(closed))
            for t, entered in enumerate(states.copy()):
                states[t] = state
                state = closed @ state + entered
            expected = states[back:] @ self.output.T
            residuals[done : done + length] -= expected * self.deviation
            done += length
        return residuals

    def _choices(self) -> tuple[str, ...]:
        if not len(self.closed):
            return ("No state-space model was found: it expects the mean of train.",)
        told = f"States kept: {len(self.closed)}; settled after {self.lag - 1} rows."
        if self.weighting == 1:
            return (told,)
        weight = f"Weight of each older row, so that it settles: {self.weighting:.3g}."
        return told, weight


class StateSpace(NamedTuple):
    """A linear model of states and tags, and how rows before tell the states.

    With n states and p tags: A (n, n), C (p, n), the covariance of (w, v), that of
    states, and the weights of the rows before, the oldest first, for each state.
    """

    transition: Floats
    output: Floats
    noise: Floats
    states: Floats
    weights: Floats

    def error(self, second: Floats) -> float:
        """Return the mean square of what a row is beyond its expectation, by tag."""
        p, half = len(self.output), self.weights.shape[1]
        told = np.hstack([-self.output @ self.weights, np.eye(p)])
        part = second[: half + p, : half + p]
        return float(np.einsum("ij,jk,ik->", told, part, told, optimize=True)) / p


def identified(second: Floats, n_tags: int, order: int | None) -> StateSpace:
    """Return the model of some second moments, by N4SID.

    Parameters
    ----------
    second : array of shape (2 i n_tags, 2 i n_tags)
        Second moments of 2 i rows that follow one another, the oldest first.
    n_tags : int
        Tags, standardised.
    order : int, optional
        Number of states; by 99% of the squared singular values if not given.
    """
    half = len(second) // 2
    next_half = half + n_tags
    second = second + _RIDGE * np.eye(len(second))
    lower = np.linalg.cholesky(second)
    left, values, _ = np.linalg.svd(lower[half:, :half])
    n = order or leading(values**2, float((values**2).sum()))
    n = min(n, half - n_tags)
    observed = left[:, :n] * np.sqrt(values[:n])
    # States of this row and of the next, and this row itself, each of all lines.
    made = np.zeros((2 * n + n_tags, 2 * half))
    now, then = lower[:half, :half], lower[:next_half, :next_half]
    made[n + n_tags :, :half] = (
        np.linalg.pinv(observed) @ np.linalg.solve(now.T, lower[half:, :half].T).T
    )
    made[:n, :next_half] = (
        np.linalg.pinv(observed[:-n_tags])
        @ np.linalg.solve(then.T, lower[next_half:, :next_half].T).T
    )
    made[n : n + n_tags, half:next_half] = np.eye(n_tags)
    moments = made @ second @ made.T
    both, states = slice(0, n + n_tags), slice(n + n_tags, None)
    told = np.linalg.solve(moments[states, states], moments[states, both])
    model = np.asarray(told.T, np.float64)
    noise = moments[both, both] - model @ moments[states, both]
    return StateSpace(
        transition=model[:n],
        output=model[n:],
        noise=(noise + noise.T) / 2,
        states=moments[states, states],
        weights=made[states, :half],
    )


def settling_filter(
    model: StateSpace, most: int
) -> tuple[Floats, Floats, float, int, int] | None:
    """Return A - K C, K, the weight of each older row, rows to look at, and to wait.

    Of a few weights, 1 first, the first with which the filter settles within `most`
    rows; None if there is none.
    """
    transition, output, noise, states, _ = model
    n = len(transition)
    spread = np.linalg.cholesky(states + 1e-12 * np.trace(states) * np.eye(n))
    noise = noise + _LEAST_NOISE * np.eye(len(noise))
    q, r, s = noise[:n, :n], noise[n:, n:], noise[:n, n:]
    for power in _WEIGHTS:
        weight = SETTLED ** (power / most)
        a, c = transition / weight, output / weight
        try:
            p = solve_discrete_are(a.T, c.T, q, r, s=s)
        except (np.linalg.LinAlgError, ValueError):
            continue
        gain = np.linalg.solve(c @ p @ c.T + r, (a @ p @ c.T + s).T).T
        closed = transition - gain @ output
        begun, wait = spread, 0
        for row in range(most + 1):
            left = np.linalg.norm(output @ begun, axis=1).max()
            wait += int(left > FORGOTTEN)
            if left <= SETTLED:
                return closed, gain, weight, row + 1, wait
            begun = closed @ begun
    return None


# ------------------------------------------------------------------------ departure

# Seconds that a lagged vector lasts, within so many rows.
LAG_S = 1800.0
LAG_ROWS = (10, 500)
MOST_AXES = 30
# Lagged vectors projected by one product, and rows worked on at a time.
_VECTORS, _ROWS_AT_ONCE = 64, 32_768


@dataclass(frozen=True, kw_only=True)
class PasadSettings(BaselineSettings):
    """Settings of PASAD.

    Parameters
    ----------
    lag : int, optional
        Rows of a lagged vector; by default those of half an hour, 10 to 500, and at
        most a tenth of train.
    """

    lag: Count | None = None


class Pasad(_LagBaseline):
    """Expects the last rows of each tag where those of train are, in their subspace.

    For each standardised tag, with the vectors v of `lag` rows that follow one another
    in train: U the leading eigenvectors of the mean of ``v v'``, c the mean of
    ``U' v``. The published departure score of a row is ``D = |U' v - c|^2`` of the rows
    up to it. The residual is the root of ``D / lag``, in the tag's units, with the sign
    of ``U (U' v - c)`` in its last row; so it moves with the last reading, and 0 is the
    middle: a reference takes the square, not its sign, for odd.

    A row has a residual once as many rows as the lag are there in its run. A channel
    constant in train has its value minus the constant.

    References
    ----------
    W. Aoudi, M. Iturbe, M. Almgren: Truth will out: departure-based process-level
    detection of stealthy attacks on control systems. CCS 2018.
    """

    card = replace(
        baseline_card("pasad", "PASAD", "departure"),
        space="departure",
        paper="W. Aoudi, M. Iturbe, M. Almgren, Truth Will Out: Departure-Based "
        "Process-Level Detection of Stealthy Attacks on Control Systems, CCS 2018",
        faithful=(
            "Score: squared distance of the projected lagged vector from the centroid "
            "of train's, each tag by itself.",
        ),
        deviates=(
            "A residual is the root of the score over the lag, in the tag's units, "
            "with the sign of the projected departure in the last row: the published "
            "score has one side, and a reference would call rows odd that are nearer "
            "to the centroid than usual.",
            "Tags are standardised by train.",
            f"The paper chooses the dimension by eye: here {KEPT_SHARE:.0%} of the "
            f"eigenvalues' sum, at most {MOST_AXES}; the lag is half an hour.",
            "Vectors never cross a gap. Its threshold, the largest score of a "
            "validation period, is left to the alarm rules.",
        ),
    )
    settings_type = PasadSettings
    learned = (*_LagBaseline.learned, "moving", "bases", "centres")
    moving: Ints
    bases: Floats
    centres: Floats

    def _lag_of(self, step_s: float, most: int) -> int:
        return self.settings.lag or min(int(np.clip(LAG_S / step_s, *LAG_ROWS)), most)

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        known = standards(values, trained)
        self.mean, self.covariance, self.deviation, self.moving = known
        most = min(MOST_AXES, self.lag)
        self.bases = np.zeros((len(self.moving), self.lag, most))
        self.centres = np.zeros((len(self.moving), most))
        for k, tag in enumerate(self.moving):
            standard = (values[:, tag] - self.mean[tag]) / self.deviation[tag]
            middle, second = lag_moments(standard, trained, self.lag)
            top = (self.lag - most, self.lag - 1)
            variances, vectors = eigh(second, subset_by_index=top)
            r = leading(variances[::-1], float(np.trace(second)))
            self.bases[k, :, :r] = vectors[:, ::-1][:, :r]
            self.centres[k] = middle @ self.bases[k]

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        residuals = values[rows] - self.mean
        for basis, centre, tag in zip(
            self.bases, self.centres, self.moving.tolist(), strict=True
        ):
            r = max(int(basis.any(axis=0).sum()), 1)
            filters = np.zeros((self.lag + _VECTORS - 1, _VECTORS, r))
            for k in range(_VECTORS):
                filters[k : k + self.lag, k] = basis[:, :r]
            standard = (values[:, tag] - self.mean[tag]) / self.deviation[tag]
            done = 0
            for first, length in zip(*runs_of_rows(rows), strict=True):
                for at in range(first, first + length, _ROWS_AT_ONCE):
                    end = min(at + _ROWS_AT_ONCE, first + length)
                    left = projected(standard[at - self.lag + 1 : end], filters)
                    left -= centre[:r]
                    size = np.sqrt((left**2).sum(axis=1) / self.lag)
                    size = np.copysign(size, left @ basis[-1, :r])
                    residuals[done : done + end - at, tag] = size * self.deviation[tag]
                    done += end - at
        return residuals

    def _choices(self) -> tuple[str, ...]:
        return (f"Each residual is of {self.lag} rows.",)


def projected(series: Floats, filters: Floats) -> Floats:
    """Return each vector of a series, as many rows as a filter has, in a subspace.

    Parameters
    ----------
    series : array of shape (n,)
        Values that follow one another.
    filters : array of shape (lag + m - 1, m, r)
        The subspace m times, each one row later; so m vectors are one product.

    Returns
    -------
    array of shape (n - lag + 1, r)

    Examples
    --------
    >>> projected(np.array([1.0, 2.0, 5.0]), np.ones((2, 1, 1))).ravel()
    array([3., 7.])
    """
    width, m, r = filters.shape
    n = len(series) - (width - m)
    series = np.pad(series, (0, -n % m))
    windows = np.lib.stride_tricks.sliding_window_view(series, width)[::m]
    products = np.ascontiguousarray(windows) @ filters.reshape(width, m * r)
    return np.asarray(products.reshape(-1, r)[:n])


def lag_moments(series: Floats, rows: Ints, lag: int) -> tuple[Floats, Floats]:
    """Return the mean of lagged vectors, and that of their products.

    One pass over the series for the first line of the second moments; each further one
    is the line before it, without the first vector's part and with the last's.

    Parameters
    ----------
    series : array of shape (n,)
        All values.
    rows : array of int
        The last row of each vector, ascending.
    lag : int
        Rows of a vector.

    Examples
    --------
    >>> lag_moments(np.array([1.0, 2.0, 3.0]), np.array([1, 2]), 2)
    (array([1.5, 2.5]), array([[2.5, 4. ],
           [4. , 6.5]]))
    """
    firsts, lengths = runs_of_rows(rows)
    firsts = firsts - lag + 1
    steps = np.arange(lag - 1)
    heads = series[firsts[:, None] + steps]
    tails = series[(firsts + lengths)[:, None] + steps]
    second, first_line, total = np.empty((lag, lag)), np.zeros(lag), 0.0
    for first, length in zip(firsts, lengths, strict=True):
        part = series[first : first + length + lag - 1]
        first_line += np.correlate(part, part[:length], "valid")
        total += part[:length].sum()
    change = tails.T @ tails - heads.T @ heads
    second[0] = second[:, 0] = first_line
    for k in range(lag - 1):
        second[k + 1, 1:] = second[k, :-1] + change[k]
    mean = np.cumsum(np.append(total, (tails - heads).sum(axis=0)))
    return mean / len(rows), second / len(rows)
