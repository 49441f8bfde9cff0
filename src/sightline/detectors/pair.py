"""Near and far: each tag from its neighbours now, and from readings of 10 min ago."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.data.recording import Recording
from sightline.detectors.base import Split
from sightline.detectors.baselines import (
    STACKED_ROWS,
    Baseline,
    baseline_card,
    standards,
)
from sightline.detectors.preprocessing import left_to_do
from sightline.detectors.settings import BaselineSettings, Count
from sightline.progress import Progress

# Rows that each forecast reads, and what is added to the variance of each of them.
LAGS = 3
NEAR_RIDGE, FAR_RIDGE = 1e-3, 1e-2
# The far forecast knows nothing of the last 10 minutes, within so many rows.
GAP_S = 600.0
GAP_ROWS = (1, 60)
FAR = " far"


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

    *Far* (channels whose names end in " far"): from three rows of all tags that are
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
        second, q = _second_moments(standard, trained, (*now, *past)), len(self.moving)
        n = q * len(now)
        inverse = np.linalg.inv(second[:n, :n] + NEAR_RIDGE * np.eye(n))[:, :q]
        damped = second[n:, n:] + FAR_RIDGE * np.eye(q * LAGS)
        weights = np.linalg.solve(damped, second[n:, :q])
        self.near = (inverse / np.diag(inverse)).reshape(len(now), q, q)
        self.far = weights.reshape(LAGS, q, q)

    def _row_residuals(self, values: Floats, rows: Ints) -> Floats:
        p, moving = values.shape[1], self.moving
        residuals = np.empty((len(rows), p + len(moving)))
        for start in range(0, len(rows), STACKED_ROWS):
            part = rows[start : start + STACKED_ROWS]
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


def _second_moments(values: Floats, rows: Ints, lags: Sequence[int]) -> Floats:
    """Return the second moments of rows joined with those so many rows before."""
    width = values.shape[1] * len(lags)
    second = np.zeros((width, width))
    for start in range(0, len(rows), STACKED_ROWS):
        part = rows[start : start + STACKED_ROWS]
        stacked = np.hstack([values[part - lag] for lag in lags])
        second += stacked.T @ stacked
    return second / len(rows)
