"""Baselines that every other detector must beat: mean, last value and PCA.

They need numpy only, learn SWaT in seconds, and use the same preprocessing and the same
held-out block as the networks, so that a comparison is of the models alone.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints
from sightline.data.recording import Recording
from sightline.detectors.base import DetectorCard, LearnedDetector, Residuals, Split
from sightline.detectors.preprocessing import (
    Preprocessing,
    forecast_windows,
    held_out_block,
)
from sightline.detectors.saving import Arrays
from sightline.detectors.settings import BaselineSettings, Natural
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind

# Rows worked on at a time, so that no second copy of a long recording is made.
_ROWS_AT_ONCE = 16_384


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
    preprocessing: Preprocessing

    @abstractmethod
    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        """Learn from the trained rows; the held-out rows may decide a choice."""

    @abstractmethod
    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        """Return observed minus expected of these rows."""

    def _choices(self) -> tuple[str, ...]:
        """Return sentences about what was chosen in learning."""
        return ()

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        # Fitting takes seconds: a checkpoint is not needed.
        settings = self.settings
        preprocessing = Preprocessing.fit(recording, settings)
        train = preprocessing.train(recording, settings, np.float64)
        rows = forecast_windows(train.values, train.breaks, self.looks_at).steps
        # One row would make every channel constant.
        if len(rows) < 2:
            raise StreamError(
                f"Train leaves {len(rows)} rows to learn from, and {self.card.title} "
                "needs 2 or more: give a longer recording."
            )
        is_held_out = np.zeros(len(rows), np.bool_)
        is_held_out[
            held_out_block(len(rows), settings.validation_share, settings.seed)
        ] = True
        trained, held_out = rows[~is_held_out], rows[is_held_out]
        self._learn_rows(np.asarray(train.values, np.float64), trained, held_out)
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
        values = self._row_residuals(np.asarray(scaled.values, np.float64), rows)
        progress(Step(StepKind.RESIDUALS, 1, 1))
        kept = self.preprocessing.kept
        return Residuals(
            values=values,
            index=scaled.rows[rows],
            channels=tuple(recording.channels[k] for k in kept),
            space=self.card.space,
            every=scaled.every,
            scale=scaled.scale,
            notices=(*scaled.notices, *self._choices()),
        )

    def _look_back(self, settings: Any) -> int:
        return self.looks_at - 1

    def _arrays(self) -> Arrays:
        learned = {name: np.asarray(getattr(self, name)) for name in self.learned}
        return self.preprocessing.arrays() | learned

    def _restore(self, arrays: Arrays) -> None:
        self.preprocessing = Preprocessing.of_arrays(arrays)
        for name in self.learned:
            array = arrays[name]
            setattr(self, name, array if array.ndim else array.item())


class TrainingMean(Baseline):
    """Expects every channel to be at its mean over the rows learned from.

    It detects what needs no model: values away from their usual level.
    """

    card = baseline_card("mean", "Training mean", "constant")
    learned = ("mean",)
    mean: Floats

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        self.mean = values[trained[0]] + moments(values, trained, values[trained[0]])[0]

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
    learned = ("mean", "deviation", "loadings")
    mean: Floats
    deviation: Floats
    loadings: Floats

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        # Relative to one of its rows the sums of a constant channel are exactly 0.
        origin = values[trained[0]]
        offset, second = moments(values, trained, origin)
        covariance = second - np.outer(offset, offset)
        moving = np.flatnonzero(np.diag(covariance) > 0)
        mean = origin + offset
        deviation = np.ones(len(mean))
        deviation[moving] = np.sqrt(np.diag(covariance)[moving])
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
