"""Baselines every other detector must beat: the mean, the row before, and PCA.

They need numpy only, learn SWaT in seconds, and go through the same preprocessing and
the same held-out block as the networks, so that a comparison is of models alone.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints
from sightline.data.recording import Recording
from sightline.detectors.base import DetectorCard, LearnedDetector, Residuals, Split
from sightline.detectors.preprocessing import Preprocessing, PreprocessingSettings
from sightline.detectors.saving import Arrays
from sightline.detectors.settings import check_share, check_whole
from sightline.detectors.windows import forecast_windows, held_out_block
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind

# Rows taken at a time, so that no second copy of a long recording is made.
_ROWS_AT_ONCE = 16_384
# A channel with less than this left outside the components is in them all by itself.
_LEAST_LEFT = 1e-9
# Errors nearer to each other than this share of the mean's error are a tie.
_TIE = 1e-12


# On a testbed they see the rows the networks see.
_TEN_SECONDS = {"every": 10, "trim_s": 21_600.0}
SAME_ROWS: dict[str, dict[str, Any]] = {
    "swat": _TEN_SECONDS,
    "wadi": _TEN_SECONDS,
    "hai": {"every": 10},
    "waterworks": {"every": 10},
    "batadal": {},
}
WHY_SAME_ROWS = dict.fromkeys(
    SAME_ROWS, "the rows GDN is given, to be compared with it"
)


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(PreprocessingSettings):
    """What a baseline can be told besides the preprocessing.

    Parameters
    ----------
    validation_share : float
        Share of train that is held out: one block, its place drawn, not learned from.
    seed : int
        Draws the place of the block.
    """

    validation_share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        super().__post_init__()
        check_share(self, "validation_share")
        check_whole(self, 0, "seed")


@dataclass(frozen=True, kw_only=True)
class PCASettings(BaselineSettings):
    """What PCA can be told.

    Parameters
    ----------
    components : int, optional
        How many to keep; chosen on held-out rows if not given.
    """

    components: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        super().__post_init__()
        if self.components is not None:
            check_whole(self, 0, "components")


class Baseline(LearnedDetector):
    """What the baselines share: which rows they learn from, and which they tell of."""

    settings_type = BaselineSettings
    # Rows of one run it takes to tell a residual.
    looks_at: ClassVar[int] = 1
    preprocessing: Preprocessing

    @abstractmethod
    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        """Learn from some rows; others are there to choose by."""

    @abstractmethod
    def _apart(self, values: Floats, rows: Ints) -> Floats:
        """Return observed minus expected of these rows."""

    def _chosen(self) -> tuple[str, ...]:
        """Return sentences about what was chosen while learning."""
        return ()

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        # Seconds of work need no checkpoint.
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
        seen = self.preprocessing.test(recording, settings, np.float64)
        rows = forecast_windows(seen.values, seen.breaks, self.looks_at).steps
        if not len(rows):
            raise StreamError(
                f"No run of the recording has {self.looks_at} rows, which "
                f"{self.card.title} needs: give a longer recording."
            )
        values = self._apart(np.asarray(seen.values, np.float64), rows)
        progress(Step(StepKind.RESIDUALS, 1, 1))
        kept = self.preprocessing.kept
        return Residuals(
            values=values,
            index=seen.rows[rows],
            channels=tuple(recording.channels[k] for k in kept),
            space=self.card.space,
            every=settings.every,
            scale=seen.scale,
            notices=(*seen.notices, *self._chosen()),
        )

    def _arrays(self) -> Arrays:
        return self.preprocessing.arrays()

    def _restore(self, arrays: Arrays) -> None:
        self.preprocessing = Preprocessing.of_arrays(arrays)


class TrainingMean(Baseline):
    """Expects every channel to be at its mean over train.

    What it sees is what is seen without any model: values out of their usual place.
    """

    card = DetectorCard(
        name="mean",
        title="Training mean",
        paper="A baseline, no paper.",
        kind="constant",
        settings=SAME_ROWS,
        sources=WHY_SAME_ROWS,
    )
    mean: Floats

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        self.mean = values[trained[0]] + moments(values, trained, values[trained[0]])[0]

    def _apart(self, values: Floats, rows: Ints) -> Floats:
        return values[rows] - self.mean

    def _arrays(self) -> Arrays:
        return super()._arrays() | {"mean": self.mean}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self.mean = arrays["mean"]


class LastValue(Baseline):
    """Expects every channel to stay where it was one row before in the same run.

    The first row of a run has no row before it and no residual. What it sees are jumps;
    an attack that stays is seen when it begins and when it ends.
    """

    card = DetectorCard(
        name="last-value",
        title="Last value",
        paper="A baseline, no paper.",
        kind="forecast",
        settings=SAME_ROWS,
        sources=WHY_SAME_ROWS,
    )
    looks_at = 2

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        """Learn nothing: the scale of the channels is all there is."""

    def _apart(self, values: Floats, rows: Ints) -> Floats:
        return values[rows] - values[rows - 1]


class PCAReconstruction(Baseline):
    """Expects a row to be its projection on the leading principal components of train.

    Channels are standardised by the rows learned from, so that none counts more for its
    unit; residuals are in the same units as everyone's. A channel constant in these
    rows takes no part, and its residual is its value minus the constant.

    How many components: the number with the least error on held-out normal rows when
    each channel is told from the other ones, by least squares on their loadings. A
    channel that may reconstruct itself makes every further component look better; a
    fixed share of the variance keeps components that are one channel alone, which PCA
    then cannot see. For loadings P and H = PP' the error of channel c is
    ``((I - H) x)_c / (1 - H_cc)``, the leave-one-out residual of regression, so that
    the second moments of the held-out rows are all that is needed. Ties go to fewer
    components; none at all is the training mean. Without held-out rows the rows learned
    from choose.

    References
    ----------
    R. Bro, K. Kjeldahl, A. K. Smilde, H. A. L. Kiers: Cross-validation of component
    models: a critical look at current methods. Anal. Bioanal. Chem. 390, 2008.
    """

    card = DetectorCard(
        name="pca",
        title="PCA reconstruction",
        paper="A baseline, no paper.",
        kind="reconstruction",
        settings=SAME_ROWS,
        sources=WHY_SAME_ROWS,
    )
    settings_type = PCASettings
    mean: Floats
    deviation: Floats
    loadings: Floats

    def _learn_rows(self, values: Floats, trained: Ints, held_out: Ints) -> None:
        # About a row of its own a constant channel's sums are exactly 0.
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

    def _apart(self, values: Floats, rows: Ints) -> Floats:
        apart = np.empty((len(rows), values.shape[1]))
        start = 0
        for chunk in _chunks(values, rows):
            standard = (chunk - self.mean) / self.deviation
            standard -= (standard @ self.loadings) @ self.loadings.T
            apart[start : start + len(chunk)] = standard * self.deviation
            start += len(chunk)
        return apart

    def _chosen(self) -> tuple[str, ...]:
        n_channels, n_kept = self.loadings.shape
        none = "" if n_kept else ", so that it is the training mean"
        return (f"Principal components kept: {n_kept} of {n_channels}{none}.",)

    def _arrays(self) -> Arrays:
        return super()._arrays() | {
            "mean": self.mean,
            "deviation": self.deviation,
            "loadings": self.loadings,
        }

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self.mean = arrays["mean"]
        self.deviation = arrays["deviation"]
        self.loadings = arrays["loadings"]


def moments(values: Floats, rows: Ints, origin: Floats) -> tuple[Floats, Floats]:
    """Return means and second moments of some rows about an origin.

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
    """Return the squared error of channels told from the others, by components kept.

    Parameters
    ----------
    vectors : array of shape (n_channels, n_channels)
        Principal axes as columns, the leading one first.
    second : array of shape (n_channels, n_channels)
        Second moments of the rows to be told, about the mean of train.

    Returns
    -------
    array of shape (n_channels,)
        For 0, 1, ... n_channels - 1 components: the sum over channels of the mean
        square; inf where a channel lies in the components all by itself.
    """
    errors = np.full(len(vectors), np.inf)
    apart = np.eye(len(vectors))
    for k, axis in enumerate(vectors.T):
        left = np.diag(apart)
        if (left > _LEAST_LEFT).all():
            squares = np.einsum("ij,jk,ik->i", apart, second, apart, optimize=True)
            errors[k] = (squares / left**2).sum()
        apart = apart - np.outer(axis, axis)
    return errors


def fewest_components(vectors: Floats, second: Floats) -> int:
    """Return how many components tell channels from the others with the least error."""
    errors = left_out_errors(vectors, second)
    if not len(errors):
        return 0
    return int(np.argmax(errors <= errors.min() + _TIE * errors[0]))


def _chunks(values: Floats, rows: Ints) -> Iterator[npt.NDArray[np.float64]]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield values[rows[start : start + _ROWS_AT_ONCE]]
