"""The scored stream: the reference, the energy of every row, and the scored test."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.row_tables import Rows, Tick
from sightline.data.segments import Attack, Segment
from sightline.data.stream import ResidualStream
from sightline.energy.energy import Scored, Watch, score_rows
from sightline.energy.moments import Moments, fold_moments, merged
from sightline.energy.reference import (
    Reference,
    fit_reference,
    scale_of,
    standardised_reference,
)
from sightline.progress import Progress, Step, StepKind, silent


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredTest:
    """What every figure of a test record is measured on.

    Parameters
    ----------
    energy : array of shape (n_rows,)
        Energy of each test row under `reference`.
    labels : array of shape (n_rows,)
        1 attack, 0 normal, -1 ignored (a guard after attacks included).
    attacks : sequence of Attack
        The attacks in the order of their rows.
    breaks : array of int
        Rows at which a new recording begins; the first is 0.
    reference : Reference
        The model of normal operation, fitted on train.
    threshold : float
        The limit of the p99 rule (tau99): 1% of train energy exceeds it.
    alarms : array of bool, shape (n_rows,)
        Where energy is above `threshold`.
    own_alarms : array of bool, shape (n_rows,), optional
        Alarms of the user's own rule.
    step_s : float, optional
        Seconds a row.
    """

    energy: Floats
    labels: Labels
    attacks: Sequence[Attack]
    breaks: Ints
    reference: Reference
    threshold: float
    alarms: Bools
    own_alarms: Bools | None = None
    step_s: float | None = None

    @property
    def n_rows(self) -> int:
        """Number of test rows."""
        return len(self.energy)

    @cached_property
    def segments(self) -> list[Segment]:
        """The rows of each attack."""
        return [attack.segment for attack in self.attacks]

    @cached_property
    def is_normal(self) -> Bools:
        """Which rows are attack-free and not ignored."""
        return np.asarray(self.labels == NORMAL)

    @cached_property
    def is_ignored(self) -> Bools:
        """Which rows belong neither to an attack nor to normal operation."""
        return np.asarray(self.labels == IGNORED)


class Track:
    """Reports how many of all rows to be read are done, stage after stage.

    Parameters
    ----------
    progress : callable, optional
        Takes a `Step`; None reports nothing.
    stream : ResidualStream
        Train is read twice, test and calibration once.
    more_passes : int
        How often the test is read again after scoring.
    """

    def __init__(
        self, progress: Progress | None, stream: ResidualStream, *, more_passes: int = 0
    ) -> None:
        extra = stream.calibration.n_rows if stream.calibration else 0
        extra += more_passes * stream.test.n_rows
        self.total = 2 * stream.train.n_rows + stream.test.n_rows + extra
        self.done = 0
        self.progress = progress or silent

    def stage(self, kind: StepKind, detail: str = "") -> Tick:
        """Return the callback for the blocks of one stage."""

        def tick(rows: int) -> None:
            self.done += rows
            self.progress(Step(kind, self.done, self.total, detail))

        return tick

    def finish(self, kind: StepKind) -> None:
        """Report that all is done, if a stage needed fewer rows than it might have."""
        if self.done < self.total:
            self.progress(Step(kind, self.total, self.total))


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredStream:
    """The reference and all energies: what needs the residuals themselves.

    Parameters
    ----------
    folds : list of Moments
        Moments of contiguous folds of train.
    moments : Moments
        Moments of all of train.
    reference : Reference
        The model of normal operation, fitted on train.
    train, test : Scored
        Energy of the rows, and what the same pass shows.
    train_mean : float
        Mean train energy.
    calibration_mean : float, optional
        Mean calibration energy; None without calibration residuals.
    """

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
    watch: Watch | None,
    track: Track,
) -> ScoredStream:
    """Fit the reference and return the energy of every row.

    Parameters
    ----------
    stream : ResidualStream
        The residuals. Train is read twice (to fit, to score), test and calibration
        once.
    labels : array of shape (n_test,)
        1 attack, 0 normal, -1 ignore.
    estimator : str
        One of `sightline.energy.reference.ESTIMATORS`.
    watch : Watch, optional
        Collects from the whitened test rows.
    track : Track
        Reports the rows done.
    """
    folds = fold_moments(
        stream.train,
        channels=stream.channels,
        tick=track.stage(StepKind.FITTING_REFERENCE),
    )
    moments = merged(folds)
    reference = fit_reference(stream.train, estimator=estimator, moments=moments)

    def score(name: str, rows: Rows, **options: Any) -> Scored:
        return score_rows(
            rows,
            reference,
            name=name,
            channels=stream.channels,
            tick=track.stage(StepKind.SCORING, name),
            **options,
        )

    train = score("train", stream.train, scale=scale_of(moments))
    test = score(
        "test",
        stream.test,
        counted=labels == NORMAL,
        other=standardised_reference(moments, train.scaled_fourth)
        if (labels == ATTACK).any()
        else None,
        watch=watch,
    )
    calibration_mean = None
    if stream.calibration is not None:
        calibration = score("calibration", stream.calibration)
        # Energies may be so large that their sum overflows.
        with np.errstate(over="ignore"):
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
