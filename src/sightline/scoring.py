"""All that needs the residuals themselves: the reference and every energy."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sightline.checks import ATTACK, NORMAL, Labels
from sightline.energy import Scored, score_rows
from sightline.metrics.windows import WindowWatch
from sightline.moments import Moments, fold_moments, merged
from sightline.reference import (
    Reference,
    fit_reference,
    scale_of,
    standardised_reference,
)
from sightline.rows import Tick
from sightline.stream import ResidualStream

# Told what is being done, and how many of how many rows are done.
Progress = Callable[[str, int, int], None]


class Track:
    """Counts the rows of each stage for whoever watches."""

    def __init__(
        self, progress: Progress | None, stream: ResidualStream, *, more_passes: int = 0
    ) -> None:
        extra = stream.calibration.n_rows if stream.calibration else 0
        extra += more_passes * stream.test.n_rows
        self.total = 2 * stream.train.n_rows + stream.test.n_rows + extra
        self.done = 0
        self.progress = progress

    def stage(self, doing: str) -> Tick:
        """Return what to call after each block of a stage."""

        def tick(rows: int) -> None:
            self.done += rows
            if self.progress is not None:
                self.progress(doing, self.done, self.total)

        return tick

    def finish(self, doing: str) -> None:
        """Say that all is done, where a stage needed fewer rows than it might have."""
        if self.progress is not None and self.done < self.total:
            self.progress(doing, self.total, self.total)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredStream:
    """The reference and all energies: what needed the residuals themselves."""

    folds: list[Moments]
    moments: Moments
    reference: Reference
    train: Scored
    test: Scored
    train_mean: float
    calibration_mean: float | None


def score_stream(
    stream: ResidualStream,
    labels: Labels,
    estimator: str,
    windows: WindowWatch | None,
    track: "Track",
) -> ScoredStream:
    """Fit the reference and score every row.

    Train is read twice (to fit, to score), test and calibration once. `windows` are
    filled from the whitened test rows; where there is no attack it may be None.
    """
    folds = fold_moments(
        stream.train, channels=stream.channels, tick=track.stage("Fitting reference")
    )
    moments = merged(folds)
    reference = fit_reference(stream.train, estimator=estimator, moments=moments)
    score = partial(score_rows, reference=reference, channels=stream.channels)
    train = score(
        stream.train,
        name="train",
        scale=scale_of(moments),
        tick=track.stage("Scoring train"),
    )
    test = score(
        stream.test,
        name="test",
        counted=labels == NORMAL,
        beside=standardised_reference(moments, train.scaled_fourth)
        if (labels == ATTACK).any()
        else None,
        watch=windows,
        tick=track.stage("Scoring test"),
    )
    calibration_mean = None
    if stream.calibration is not None:
        calibration = score(
            stream.calibration,
            name="calibration",
            tick=track.stage("Scoring calibration"),
        )
        calibration_mean = float(np.mean(calibration.energy))
    return ScoredStream(
        folds=folds,
        moments=moments,
        reference=reference,
        train=train,
        test=test,
        train_mean=float(np.mean(train.energy)),
        calibration_mean=calibration_mean,
    )
