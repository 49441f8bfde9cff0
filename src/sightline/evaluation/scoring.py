"""All that needs the residuals themselves: the reference and every energy."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Labels
from sightline.data.row_tables import Tick
from sightline.data.stream import ResidualStream
from sightline.energy.energy import Scored, score_rows
from sightline.energy.moments import Moments, fold_moments, merged
from sightline.energy.reference import (
    Reference,
    fit_reference,
    scale_of,
    standardised_reference,
)
from sightline.metrics.window_kl import WindowWatch
from sightline.progress import Progress, Step, StepKind


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

    def stage(self, kind: StepKind, detail: str = "") -> Tick:
        """Return what to call after each block of a stage."""

        def tick(rows: int) -> None:
            self.done += rows
            if self.progress is not None:
                self.progress(Step(kind, self.done, self.total, detail))

        return tick

    def finish(self, kind: StepKind) -> None:
        """Say that all is done, where a stage needed fewer rows than it might have."""
        if self.progress is not None and self.done < self.total:
            self.progress(Step(kind, self.total, self.total))


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
        stream.train,
        channels=stream.channels,
        tick=track.stage(StepKind.FITTING_REFERENCE),
    )
    moments = merged(folds)
    reference = fit_reference(stream.train, estimator=estimator, moments=moments)
    score = partial(score_rows, reference=reference, channels=stream.channels)
    train = score(
        stream.train,
        name="train",
        scale=scale_of(moments),
        tick=track.stage(StepKind.SCORING, "train"),
    )
    test = score(
        stream.test,
        name="test",
        counted=labels == NORMAL,
        beside=standardised_reference(moments, train.scaled_fourth)
        if (labels == ATTACK).any()
        else None,
        watch=windows,
        tick=track.stage(StepKind.SCORING, "test"),
    )
    calibration_mean = None
    if stream.calibration is not None:
        calibration = score(
            stream.calibration,
            name="calibration",
            tick=track.stage(StepKind.SCORING, "calibration"),
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
