"""Baselines that every other detector must beat: mean, last value, PCA, VAR, pair.

They need numpy only, learn SWaT in seconds, and use the same preprocessing and the same
held-out block as the networks, so that a comparison is of the models alone. Vector
autoregression is the strongest of them: what a network detects beyond it is due to
being a network.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.linear_forecast import ForecastKind, LinearForecast
from sightline.data.recording import Recording
from sightline.detectors.base import (
    Arrays,
    DetectorCard,
    LearnedDetector,
    Residuals,
    Split,
)
from sightline.detectors.preprocessing import (
    Preprocessing,
    expected_cells,
    forecast_windows,
    left_to_do,
    rows_to_learn,
    uncertain_residuals,
)
from sightline.detectors.settings import BaselineSettings, Count, Natural, NonNegative
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind

# Rows worked on at a time, so that no second copy of a long recording is made.
_ROWS_AT_ONCE = 16_384
# Share of its variance added to each tag where others tell what it would be.
_RIDGE = 1e-3
# Rows of train, at most, that tell how large residuals are.
_ROWS_OF_NOISE = 50_000
_REPLACED = "where a tag was lost, what the other tags of its row tell is read instead."
# A channel with less than this left outside the components is one of them by itself.
_LEAST_LEFT = 1e-9
# Errors that differ by less than this share of the mean's error are a tie.
_TIE = 1e-12


def baseline_card(name: str, title: str, kind: str) -> DetectorCard:
    """Return the card of a baseline: on a testbed it gets the rows that GDN gets."""
    ten_seconds = {"every": 10, "trim_s": 21_600.0}
    settings: Mapping[str, Mapping[str, object]] = {
        "swat": ten_seconds,
        "wadi": ten_seconds,
        "hai": {"every": 10},
        "waterworks": {"every": 10},
        "batadal": {},
    }
    return DetectorCard(
        name=name,
        title=title,
        paper="A baseline, no paper.",
        kind=kind,
        settings=settings,
        sources=dict.fromkeys(
            settings, "the rows GDN is given, to be compared with it"
        ),
    )


@dataclass(frozen=True, kw_only=True)
class PCASettings(BaselineSettings):
    """Settings of PCA.

    Parameters
    ----------
    components : int, optional
        How many to keep; chosen on held-out rows if not given.
    """

    components: Natural | None = None


# Numbers of a linear form, and what detectors call them.
_FORECAST = {
    "mean": "mean",
    "unit": "deviation",
    "intercept": "intercept",
    "weights": "weights",
    "loadings": "loadings",
}


class Baseline(LearnedDetector):
    """What the baselines share: the rows learned from, and the rows with a residual.

    Attributes
    ----------
    preprocessing : Preprocessing
        Set by `fit`.
    """

    settings_type = BaselineSettings
    # Rows of one run that a residual needs.
    looks_at: ClassVar[int] = 1
    # Attributes that `fit` sets, arrays or numbers.
    learned: ClassVar[tuple[str, ...]] = ()
    # Which linear form its expectation is; None if it is none.
    form: ClassVar[ForecastKind | None] = None

    preprocessing: Preprocessing
    # Of the rows learned from. A tag that is lost has, before the model, the value
    # that the others expect of it; without a covariance its last one.
    mean: Floats
    covariance: Floats | None = None
    # Variance of the residuals of rows learned from, where others' cells enter them.
    noise: Floats | None = None

    @abstractmethod
    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        """Learn from the trained rows; the held-out rows may decide a choice."""

    @abstractmethod
    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        """Return observed minus expected of these rows."""

    def _choices(self) -> tuple[str, ...]:
        """Return sentences about what was chosen in learning."""
        return ()

    def _change(self) -> tuple[Floats, int] | None:
        """Return how residuals change with cells, by lag, and the first lag."""
        return None

    def _unknown(self, lost: Bools | None, rows: Ints) -> Bools | None:
        """Return which residuals of these rows rest on lost cells too much."""
        change = self._change()
        if lost is None or self.covariance is None or self.noise is None or not change:
            return None
        by_lag, first = change
        looked_at = lost[rows - first]
        for lag in range(first + 1, first + len(by_lag)):
            looked_at = looked_at | lost[rows - lag]
        return uncertain_residuals(
            looked_at, by_lag, self.covariance, _RIDGE, self.noise
        )

    def _columns(self, tags: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
        """Return the name of each residual, and which of the tags it is of."""
        return tuple(tags), np.arange(len(tags))

    def forecast(self, hold_s: Floats | None = None) -> LinearForecast | None:
        """Return what it expects as numbers; None if it is none of the linear forms.

        Parameters
        ----------
        hold_s : array of shape (n_channels,), optional
            For how long a reading of each channel is held; by default not at all.
        """
        rows, kind, covariance = self.settings, self.form, self.covariance
        if (
            kind is None
            or rows.every > 1
            or rows.clip is not None
            or rows.round_raw
            or rows.cross_gaps
            or (rows.missing, rows.test_scaling) != ("hold", "train")
        ):
            return None
        known, p = self.preprocessing, len(self.preprocessing.kept)
        numbers = {
            "mean": np.zeros(p),
            "unit": np.ones(p),
            "intercept": np.zeros(p),
            "weights": np.empty((0, p, p)),
            "loadings": np.empty((p, 0)),
        } | {
            name: np.asarray(getattr(self, own))
            for name, own in _FORECAST.items()
            if hasattr(self, own)
        }
        tags = tuple(self.channels or ())
        return LinearForecast(
            kind=kind,
            tags=tags,
            kept=known.kept,
            offset=known.scaling.offset,
            scale=known.scaling.scale,
            means=known.means,
            hold_s=np.zeros(len(tags)) if hold_s is None else hold_s,
            looks_at=self.looks_at,
            memory=self.memory(),
            covariance=np.empty((0, 0)) if covariance is None else covariance,
            ridge=0.0 if covariance is None else _RIDGE,
            noise=np.empty(0) if self.noise is None else self.noise,
            **numbers,
        )

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        # Fitting takes seconds: a checkpoint is not needed.
        preprocessing, train, trained, held_out = rows_to_learn(
            recording, self.settings, self.looks_at, self.card.title
        )
        values = np.asarray(train.values, np.float64)
        self._learn_rows(values, trained, held_out)
        if self._change() is not None:
            some = trained[:: 1 + len(trained) // _ROWS_OF_NOISE]
            self.noise = self._row_residuals(values, some).var(axis=0)
        self.preprocessing = preprocessing
        progress(Step(StepKind.TRAINING, 1, 1))
        return Split(trained=train.rows[trained], held_out=train.rows[held_out])

    def _residuals(
        self, recording: Recording, settings: Any, progress: Progress
    ) -> Residuals:
        scaled = self.preprocessing.test(recording, settings, np.float64)
        rows = forecast_windows(scaled.values, scaled.breaks, self.looks_at).steps
        if not len(rows):
            raise StreamError(
                f"No run of the recording has {self.looks_at} rows, which "
                f"{self.card.title} needs: give a longer recording."
            )
        measured, notices = np.asarray(scaled.values, np.float64), scaled.notices
        if scaled.is_lost is not None and self.covariance is not None:
            measured = expected_cells(
                measured, scaled.is_lost, self.mean, self.covariance, _RIDGE
            )
            filled, *others = notices or ("",)
            text = "; ".join(filter(None, (filled.removesuffix("."), _REPLACED)))
            notices = (text[:1].upper() + text[1:], *others)
        values = self._row_residuals(measured, rows)
        progress(Step(StepKind.RESIDUALS, 1, 1))
        tags = [recording.channels[k] for k in self.preprocessing.kept]
        channels, of = self._columns(tags)
        return Residuals(
            values=values,
            index=scaled.rows[rows],
            channels=channels,
            tags=tuple(tags[k] for k in of),
            space=self.card.space,
            every=scaled.every,
            scale=scaled.scale[of],
            is_unknown=self._unknown(scaled.is_lost, rows),
            notices=(*notices, *self._choices()),
        )

    def _look_back(self, settings: Any) -> int:
        return self.looks_at - 1

    def _arrays(self) -> Arrays:
        more = [n for n in ("covariance", "noise") if getattr(self, n) is not None]
        names = [*self.learned, *more]
        learned = {name: np.asarray(getattr(self, name)) for name in names}
        return self.preprocessing.arrays() | learned

    def _restore(self, arrays: Arrays) -> None:
        self.preprocessing = Preprocessing.of_arrays(arrays)
        for name in self.learned:
            array = arrays[name]
            setattr(self, name, array if array.ndim else array.item())
        # Files of earlier versions have none.
        self.covariance, self.noise = arrays.get("covariance"), arrays.get("noise")


class TrainingMean(Baseline):
    """Expects every channel to be at its mean over the rows learned from.

    It detects what needs no model: values away from their usual level.
    """

    card = baseline_card("mean", "Training mean", "constant")
    form = ForecastKind.MEAN
    learned = ("mean",)
    mean: Floats

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        self.mean, *_ = standards(values, trained)

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        return values[rows] - self.mean


class LastValue(Baseline):
    """Expects every channel to stay where it was one row before in the same run.

    The first row of a run has no row before it and no residual. It detects jumps; of
    an attack that lasts it detects the beginning and the end.
    """

    card = baseline_card("last-value", "Last value", "forecast")
    looks_at = 2

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        """Learn nothing beyond the scale of the channels."""

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        return values[rows] - values[rows - 1]


class PCAReconstruction(Baseline):
    """Expects a row to be its projection on the leading principal components of train.

    Channels are standardised by the rows learned from, so that no channel counts more
    because of its unit; residuals are in the same units as those of other detectors. A
    channel constant in these rows is left out of the model, and its residual is its
    value minus the constant.

    The number of components is the one with the least error on held-out normal rows
    when each channel is predicted from the others, by least squares on their loadings.
    If a channel may reconstruct itself, every further component looks better; a fixed
    share of the variance keeps components that are one channel alone, whose attacks PCA
    then cannot detect. For loadings P and H = PP' the error of channel c is
    ``((I - H) x)_c / (1 - H_cc)``, the leave-one-out residual of regression, so that
    only the second moments of the held-out rows are needed. Ties go to fewer
    components; with none the detector is the training mean. Without held-out rows the
    rows learned from decide.

    References
    ----------
    R. Bro, K. Kjeldahl, A. K. Smilde, H. A. L. Kiers: Cross-validation of component
    models: a critical look at current methods. Anal. Bioanal. Chem. 390, 2008.
    """

    card = baseline_card("pca", "PCA reconstruction", "reconstruction")
    settings_type = PCASettings
    form = ForecastKind.COMPONENTS
    learned = ("mean", "deviation", "loadings")
    mean: Floats
    deviation: Floats
    loadings: Floats

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        mean, covariance, deviation, moving = standards(values, trained)
        self.covariance = covariance
        n_kept = self.settings.components
        if n_kept is not None and n_kept >= max(len(moving), 1):
            raise StreamError(
                f"`components` is {n_kept}, but {len(moving)} channels of train move: "
                "give fewer components than that, or leave the choice to the detector."
            )
        part = np.ix_(moving, moving)
        units = np.outer(deviation, deviation)
        _, vectors = np.linalg.eigh((covariance / units)[part])
        vectors = vectors[:, ::-1]
        if n_kept is None:
            if len(held_out):
                covariance = moments(values, held_out, mean)[1]
            n_kept = fewest_components(vectors, (covariance / units)[part])
        loadings = np.zeros((len(mean), n_kept))
        loadings[moving] = vectors[:, :n_kept]
        self.mean, self.deviation, self.loadings = mean, deviation, loadings

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        residuals = np.empty((len(rows), values.shape[1]))
        start = 0
        for chunk in _chunks(values, rows):
            standard = (chunk - self.mean) / self.deviation
            standard -= (standard @ self.loadings) @ self.loadings.T
            residuals[start : start + len(chunk)] = standard * self.deviation
            start += len(chunk)
        return residuals

    def _change(self) -> tuple[Floats, int]:
        share = self.loadings @ self.loadings.T
        return (share / self.deviation[:, None] * self.deviation)[None], 0

    def _choices(self) -> tuple[str, ...]:
        n_channels, n_kept = self.loadings.shape
        remark = "" if n_kept else ", so that it is the training mean"
        return (f"Principal components kept: {n_kept} of {n_channels}{remark}.",)


def moments(values: Floats, rows: Ints, origin: Floats) -> tuple[Floats, Floats]:
    """Return means and second moments of some rows about an origin.

    Parameters
    ----------
    values : array of shape (n, n_channels)
        All rows.
    rows : array of int
        Which of them to use.
    origin : array of shape (n_channels,)
        Subtracted from every row.

    Returns
    -------
    mean : array of shape (n_channels,)
    second : array of shape (n_channels, n_channels)

    Examples
    --------
    >>> moments(np.array([[1.0], [3.0], [9.0]]), np.array([0, 1]), np.array([1.0]))
    (array([1.]), array([[2.]]))
    """
    total = np.zeros(values.shape[1])
    second = np.zeros((values.shape[1], values.shape[1]))
    for chunk in _chunks(values, rows):
        moved = chunk - origin
        total += moved.sum(axis=0)
        second += moved.T @ moved
    return total / len(rows), second / len(rows)


def standards(values: Floats, rows: Ints) -> tuple[Floats, Floats, Floats, Ints]:
    """Return what standardises channels by some rows.

    Returns
    -------
    mean : array of shape (n_channels,)
    covariance : array of shape (n_channels, n_channels)
    deviation : array of shape (n_channels,)
        1 for a channel that is constant in these rows.
    moving : array of int
        The channels that are not.
    """
    # Relative to one of its rows the sums of a constant channel are exactly 0.
    origin = values[rows[0]]
    offset, second = moments(values, rows, origin)
    covariance = second - np.outer(offset, offset)
    variance = np.diag(covariance)
    deviation = np.sqrt(np.where(variance > 0, variance, 1.0))
    return origin + offset, covariance, deviation, np.flatnonzero(variance > 0)


def left_out_errors(vectors: Floats, second: Floats) -> Floats:
    """Return the squared error of channels predicted from the others.

    Parameters
    ----------
    vectors : array of shape (n_channels, n_channels)
        Principal axes as columns, the leading one first.
    second : array of shape (n_channels, n_channels)
        Second moments of the rows to predict, about the mean of train.

    Returns
    -------
    array of shape (n_channels,)
        For 0, 1, ... n_channels - 1 components: the sum over channels of the mean
        square; inf where a channel is a component by itself.
    """
    errors = np.full(len(vectors), np.inf)
    outside = np.eye(len(vectors))
    for k, axis in enumerate(vectors.T):
        left = np.diag(outside)
        if (left > _LEAST_LEFT).all():
            squares = np.einsum("ij,jk,ik->i", outside, second, outside, optimize=True)
            errors[k] = (squares / left**2).sum()
        outside = outside - np.outer(axis, axis)
    return errors


def fewest_components(vectors: Floats, second: Floats) -> int:
    """Return the smallest number of components with the least `left_out_errors`."""
    errors = left_out_errors(vectors, second)
    if not len(errors):
        return 0
    return int(np.argmax(errors <= errors.min() + _TIE * errors[0]))


def _chunks(values: Floats, rows: Ints) -> Iterator[npt.NDArray[np.float64]]:
    """Yield copies of some rows, a limited number at a time."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield values[rows[start : start + _ROWS_AT_ONCE]]


# -------------------------------------------------------------- vector autoregression

# As far back as GDN looks, so that both have residuals for the same rows.
_MOST_LAGS = 5
# Ridges tried, in shares of a channel's variance.
RIDGES = tuple(10.0**power for power in range(1, -9, -1))
# Rows stacked with their lags at a time: some ten megabytes with WADI's channels.
_STACKED_ROWS = 4096
# Errors that differ by less than this share of the mean's error are a tie.
_CLOSE = 1e-9
# An eigenvalue below this share of the largest one is rounding.
_LEAST_EIGENVALUE = 1e-13


@dataclass(frozen=True, kw_only=True)
class AutoregressionSettings(BaselineSettings):
    """Settings of vector autoregression.

    Parameters
    ----------
    order : int, optional
        Rows it looks back; chosen from 1 to 5 on held-out rows if not given.
    ridge : float, optional
        Added to the variance of every standardised channel and lag, which is 1; chosen
        on held-out rows if not given.
    """

    order: Count | None = None
    ridge: NonNegative | None = None


class Lagged(NamedTuple):
    """Count, means and second moments of rows joined with the rows before them.

    Columns are the channels of the row itself, then of the one before it, and so on.
    """

    n_rows: int
    mean: Floats
    second: Floats

    def about(self, origin: Floats) -> Floats:
        """Return second moments about an origin."""
        crossed = np.outer(self.mean, origin)
        return self.second - crossed - crossed.T + np.outer(origin, origin)


class Choice(NamedTuple):
    """A lag order and a ridge, with their error and their weights."""

    error: float
    order: int
    ridge: float
    weights: Floats


class VectorAutoregression(Baseline):
    """Expects a row to be a linear function of the last few rows of all channels.

    Weights are those of ridge regression on channels standardised by the rows learned
    from, with an intercept that is not shrunk. A channel constant in these rows is left
    out of the model, and its residual is its value minus the constant.

    Order and ridge are the pair with the least squared error on held-out normal rows,
    each channel counting the same; ties go to fewer rows, then to more ridge. Without
    held-out rows generalised cross-validation on the rows learned from decides. No
    order is tried with more weights a channel than there are rows to learn them from.
    Only second moments of rows joined with their lags are needed, which take one pass:
    one eigendecomposition for each order gives every ridge.

    The first rows of a run have no residual, as many as the most lags tried (5), so
    that the rows with a residual do not depend on the choice.

    References
    ----------
    H. Lütkepohl: New Introduction to Multiple Time Series Analysis. Springer, 2005.
    G. H. Golub, M. Heath, G. Wahba: Generalized cross-validation as a method for
    choosing a good ridge parameter. Technometrics 21, 1979.
    """

    card = baseline_card("var", "Vector autoregression", "forecast")
    settings_type = AutoregressionSettings
    form = ForecastKind.LAGS
    learned = ("mean", "deviation", "intercept", "weights", "ridge")
    mean: Floats
    deviation: Floats
    intercept: Floats
    weights: Floats
    ridge: float

    @property
    def looks_at(self) -> int:  # type: ignore[override]
        """Rows of one run that a residual needs."""
        return (self.settings.order or _MOST_LAGS) + 1

    @property
    def order(self) -> int:
        """Rows it looks back."""
        return len(self.weights)

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        mean, self.covariance, deviation, moving = standards(values, trained)
        most, given = self.looks_at - 1, self.settings.ridge
        units = mean[moving], deviation[moving]
        learned = lagged_moments(values, trained, most, moving, *units)
        judged = (
            lagged_moments(values, held_out, most, moving, *units)
            if len(held_out)
            else None
        )
        # Those with fewer weights a channel than rows; at least order 1.
        enough = [p for p in range(1, most + 1) if p * len(moving) < len(trained)]
        orders = tuple(enough or [1]) if self.settings.order is None else (most,)
        chosen = best_choice(
            learned, judged, len(moving), orders, RIDGES if given is None else (given,)
        )
        n_channels, n_moving = len(mean), len(moving)
        weights = np.zeros((chosen.order, n_channels, n_channels))
        lags = chosen.weights.reshape(chosen.order, n_moving, n_moving)
        weights[np.ix_(np.arange(chosen.order), moving, moving)] = lags
        intercept = np.zeros(n_channels)
        past = learned.mean[n_moving : n_moving * (chosen.order + 1)]
        intercept[moving] = learned.mean[:n_moving] - past @ chosen.weights
        self.mean, self.deviation = mean, deviation
        self.intercept, self.weights = intercept, weights
        self.ridge = chosen.ridge

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        residuals = np.empty((len(rows), values.shape[1]))
        for start in range(0, len(rows), _STACKED_ROWS):
            part = rows[start : start + _STACKED_ROWS]
            expected = np.tile(self.intercept, (len(part), 1))
            for lag, weights in enumerate(self.weights, start=1):
                expected += (values[part - lag] - self.mean) / self.deviation @ weights
            residuals[start : start + len(part)] = (
                values[part] - self.mean - expected * self.deviation
            )
        return residuals

    def _change(self) -> tuple[Floats, int]:
        return self.weights / self.deviation[:, None] * self.deviation, 1

    def _choices(self) -> tuple[str, ...]:
        rows = "row" if self.order == 1 else f"{self.order} rows"
        return (f"Each row is predicted from the last {rows}, ridge {self.ridge:g}.",)


def lagged_moments(
    values: Floats,
    rows: Ints,
    order: int,
    columns: Ints,
    mean: Floats,
    deviation: Floats,
) -> Lagged:
    """Return moments of standardised rows joined with the `order` rows before each.

    Parameters
    ----------
    values : array of shape (n, n_channels)
        All rows.
    rows : array of int
        Rows to use; each has `order` rows before it in its run.
    order : int
        Number of lags.
    columns : array of int
        Channels to use.
    mean, deviation : array of shape (len(columns),)
        To standardise these channels.

    Examples
    --------
    >>> values = np.array([[1.0], [2.0], [4.0]])
    >>> one = np.ones(1)
    >>> lagged_moments(values, np.array([1, 2]), 1, np.array([0]), 0 * one, one)
    Lagged(n_rows=2, mean=array([3. , 1.5]), second=array([[10. ,  5. ],
           [ 5. ,  2.5]]))
    """
    n_columns = len(columns)
    width = n_columns * (order + 1)
    total, second = np.zeros(width), np.zeros((width, width))
    for start in range(0, len(rows), _STACKED_ROWS):
        part = rows[start : start + _STACKED_ROWS]
        stacked = np.empty((len(part), width))
        for lag in range(order + 1):
            taken = values[part - lag]
            if n_columns < values.shape[1]:
                taken = taken[:, columns]
            place = slice(lag * n_columns, (lag + 1) * n_columns)
            np.divide(taken - mean, deviation, out=stacked[:, place])
        total += stacked.sum(axis=0)
        second += stacked.T @ stacked
    return Lagged(len(rows), total / len(rows), second / len(rows))


def best_choice(
    learned: Lagged,
    judged: Lagged | None,
    n_columns: int,
    orders: tuple[int, ...],
    ridges: tuple[float, ...],
) -> Choice:
    """Return the order and ridge with the least error on the rows that judge.

    Parameters
    ----------
    learned : Lagged
        Moments of the rows learned from.
    judged : Lagged, optional
        Moments of held-out rows; without them generalised cross-validation judges.
    n_columns : int
        Channels.
    orders, ridges : tuple
        What is tried; of a tie the first pair wins.
    """
    covariance = learned.about(learned.mean)
    other = covariance if judged is None else judged.about(learned.mean)
    now = slice(0, n_columns)
    variance = float(np.trace(other[now, now]))
    choices = []
    for order in orders:
        past = slice(n_columns, n_columns * (order + 1))
        values, vectors = np.linalg.eigh(covariance[past, past])
        values = np.maximum(values, 0.0)
        floor = _LEAST_EIGENVALUE * values.max(initial=0.0)
        turned = vectors.T @ covariance[past, now]
        crossed = vectors.T @ other[past, now]
        spread = vectors.T @ other[past, past] @ vectors
        for ridge in ridges:
            damped = values + ridge
            inverse = np.zeros_like(damped)
            np.divide(1.0, damped, out=inverse, where=damped > floor)
            weights = inverse[:, np.newaxis] * turned
            error = float(
                variance
                - 2 * np.vdot(weights, crossed)
                + np.vdot(weights, spread @ weights)
            )
            if judged is None:
                # Degrees of freedom: the intercept, and each direction after shrinking.
                used = 1 + float(values @ inverse)
                left = 1 - used / learned.n_rows
                error = error / left**2 if left > 0 else np.inf
            choices.append(Choice(error, order, ridge, vectors @ weights))
    enough = min(choice.error for choice in choices) + _CLOSE * variance
    return next(choice for choice in choices if choice.error <= enough)


# ------------------------------------------------------------------- near and far

# Rows that each forecast reads, and what is added to the variance of each of them.
LAGS = 3
NEAR_RIDGE, FAR_RIDGE = 1e-3, 1e-2
# The far forecast knows nothing of the last 10 minutes, within so many rows.
GAP_S = 600.0
GAP_ROWS = (1, 60)
FAR = "-far"


@dataclass(frozen=True, kw_only=True)
class PairSettings(BaselineSettings):
    """Settings of near and far.

    Parameters
    ----------
    gap : int, optional
        Rows before the present one that the far forecast does not read; by default
        those of 10 minutes, 1 to 60.
    """

    gap: Count | None = None


class NearAndFar(Baseline):
    """Expects each tag by two ridge regressions, one channel for each.

    *Near*: from the last three rows of all tags and the present row of all others. With
    A the second moments of standardised rows joined with the three before them, plus
    `NEAR_RIDGE`, and B its inverse, the residual of tag j is column j of ``X B`` over
    ``B_jj``: the ridge regression without the tag's own column, with no fit for each
    tag.

    *Far* (channels whose names end in "-far"): from three rows of all tags that are
    older than 10 minutes (`gap`), with `FAR_RIDGE`. It still shows a falsification to
    which near has got used; for as long after its end it expects that it goes on.

    A channel constant in train is in neither model, and has one residual: its value
    minus the constant. The first rows of a run, as many as far looks back, have none.
    """

    card = replace(
        baseline_card("pair", "Near and far", "forecast"), space="near and far"
    )
    settings_type = PairSettings
    learned = ("mean", "deviation", "moving", "near", "far", "gap")
    mean: Floats
    deviation: Floats
    moving: Ints
    near: Floats
    far: Floats
    gap: int = GAP_ROWS[1]

    @property
    def looks_at(self) -> int:  # type: ignore[override]
        """Rows of one run that a residual needs."""
        return (self.settings.gap or self.gap) + LAGS + 1

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        every = left_to_do(self.settings, recording.prepared).every
        rows = GAP_S / ((recording.step_s or 1.0) * every)
        self.gap = self.settings.gap or int(np.clip(round(rows), *GAP_ROWS))
        return super()._learn(recording, progress, checkpoint)

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        self.mean, self.covariance, self.deviation, self.moving = standards(
            values, trained
        )
        now, past = range(LAGS + 1), range(self.gap + 1, self.gap + LAGS + 1)
        standard = ((values - self.mean) / self.deviation)[:, self.moving]
        q, moments_of = len(self.moving), partial(moments_between, standard, trained)
        near = moments_of(now, now) + NEAR_RIDGE * np.eye(q * len(now))
        damped = moments_of(past, past) + FAR_RIDGE * np.eye(q * LAGS)
        inverse = np.linalg.inv(near)[:, :q]
        near = inverse / np.diag(inverse)
        far = np.linalg.solve(damped, moments_of(past, (0,)))
        self.near = np.asarray(near, np.float64).reshape(len(now), q, q)
        self.far = np.asarray(far, np.float64).reshape(LAGS, q, q)

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        p, moving = values.shape[1], self.moving
        residuals = np.empty((len(rows), p + len(moving)))
        for start in range(0, len(rows), _STACKED_ROWS):
            part = rows[start : start + _STACKED_ROWS]
            out = residuals[start : start + len(part)]
            out[:, :p] = values[part] - self.mean
            far = standard = out[:, moving] / self.deviation[moving]
            near = standard @ self.near[0]
            for lag in range(1, LAGS + 1):
                past = self._standard(values, part - lag)
                near = near + past @ self.near[lag]
                past = self._standard(values, part - self.gap - lag)
                far = far - past @ self.far[lag - 1]
            out[:, moving] = near * self.deviation[moving]
            out[:, p:] = far * self.deviation[moving]
        return residuals

    def _standard(self, values: Floats, rows: Ints) -> Floats:
        return ((values[rows] - self.mean) / self.deviation)[:, self.moving]

    def _columns(self, tags: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
        far = tuple(f"{tags[k]}{FAR}" for k in self.moving)
        return (*tags, *far), np.append(np.arange(len(tags)), self.moving)

    def _choices(self) -> tuple[str, ...]:
        rows = "row" if self.gap == 1 else f"{self.gap} rows"
        return (f"The far forecast reads nothing of the last {rows}.",)


def moments_between(
    values: Floats, rows: Ints, first: Sequence[int], second: Sequence[int]
) -> Floats:
    """Return the second moments of rows so many rows before with others before.

    The sum over rows t of ``v[t - a] v[t - b]'`` is that of ``v[t] v[t - (b - a)]'``
    but for the ends of runs, so each distance of two lags is multiplied once.
    """
    is_in = np.zeros(len(values), np.bool_)
    is_in[rows] = True
    by_distance: dict[int, Floats] = {}

    def moment(a: int, b: int) -> Floats:
        if a > b:
            return moment(b, a).T
        d = b - a
        if d not in by_distance:
            by_distance[d] = _lagged_product(values, rows, d)
        is_moved = np.zeros(len(values), np.bool_)
        is_moved[rows - a] = True
        entered, left = np.flatnonzero(is_moved & ~is_in), rows[~is_moved[rows]]
        edges = (_lagged_product(values, ends, d) for ends in (entered, left))
        return by_distance[d] + next(edges) - next(edges)

    return np.block([[moment(a, b) for b in second] for a in first]) / len(rows)


def _lagged_product(values: Floats, rows: Ints, lag: int) -> Floats:
    """Return the sum over rows t of ``v[t] v[t - lag]'``."""
    found = np.zeros((values.shape[1],) * 2)
    for start in range(0, len(rows), _STACKED_ROWS):
        part = rows[start : start + _STACKED_ROWS]
        at, n = int(part[0]), len(part)
        if part[-1] - at < n:
            # No row is left out: views do without copies.
            now, past = values[at : at + n], values[at - lag : at - lag + n]
        else:
            now, past = values[part], values[part - lag]
        found += now.T @ (past if lag else now)
    return found


def joined_moments(values: Floats, rows: Ints, lags: Sequence[int]) -> Floats:
    """Return the second moments of rows joined with those so many rows before."""
    width = values.shape[1] * len(lags)
    second = np.zeros((width, width))
    for start in range(0, len(rows), _STACKED_ROWS):
        part = rows[start : start + _STACKED_ROWS]
        stacked = np.hstack([values[part - lag] for lag in lags])
        second += stacked.T @ stacked
    return second / len(rows)
