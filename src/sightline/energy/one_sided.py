"""Streams of one score: only larger values are anomalous.

Energy about the mean counts a very low value as far from normal. That is right for a
signed residual and wrong for a score. A stream of one channel that is judged one-sided
is measured upwards from a floor instead: with ``y_t = max(r_t - floor, 0)`` its
reference has mean 0 and variance ``E[y^2]`` of train, so that ``e_t = y_t^2 / (2
E[y^2])`` grows with the score, and its mean on train is still 1/2. Every figure follows
from this energy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from sightline.data import row_tables
from sightline.data.arrays import Floats, Residuals
from sightline.data.row_tables import CutRows, OverRows, Part, Rows
from sightline.data.stream import ResidualStream
from sightline.energy.moments import Moments
from sightline.energy.reference import Reference

# A score that should not be negative may be, by this share of the largest, by rounding.
ROUNDING = 1e-9
SCORE_SPACE = "score"


@dataclass(frozen=True, eq=False, repr=False)
class FlooredRows(OverRows):
    """Rows measured upwards from a floor; what lies below counts as the floor."""

    rows: Rows
    floor: float

    def chunks(self) -> Iterator[Residuals]:
        """Yield the rows of each chunk."""
        for chunk in self.rows.chunks():
            yield np.maximum(chunk - self.floor, 0.0)

    def between(self, first: int, stop: int) -> "FlooredRows":
        """Return the rows [first, stop)."""
        return FlooredRows(cast(CutRows, self.rows).between(first, stop), self.floor)


def as_judged(stream: ResidualStream) -> ResidualStream:
    """Return a stream with rows from their floor if it is judged one-sided.

    One-sided is a stream with `one_sided` True; if it is None, a stream of one channel
    whose space is ``"score"``, or that has no negative value in train up to rounding.
    The floor is 0 if train has no negative value, else the lowest value of train.

    Parameters
    ----------
    stream : ResidualStream
        Train is read once, if the stream has one channel.

    Returns
    -------
    ResidualStream
        With `one_sided` True; the same object if it is judged two-sided.

    Examples
    --------
    >>> judged = as_judged(ResidualStream([[0.0], [1.0], [2.0]], [[3.0]]))
    >>> judged.one_sided, as_judged(ResidualStream([[-1.0], [1.0]], [[3.0]])).one_sided
    (True, None)
    """
    if stream.p > 1 or stream.one_sided is False:
        return stream
    ranges = np.array(list(row_tables.map_parts(stream.train, _range_of_part)))
    low, high = float(ranges[:, 0].min()), float(ranges[:, 1].max())
    # Scoring refuses values that are not finite, and names the row.
    if not np.isfinite((low, high)).all():
        return stream
    is_positive = low >= -ROUNDING * high
    if not (stream.one_sided or stream.space == SCORE_SPACE or is_positive):
        return stream
    floor = 0.0 if is_positive else low
    given = ("train", "test", "calibration")
    tables: dict[str, Rows | None] = {name: getattr(stream, name) for name in given}
    floored = {k: FlooredRows(t, floor) for k, t in tables.items() if t is not None}
    return stream.replace(**floored, one_sided=True)


def _range_of_part(part: Part) -> tuple[float, float]:
    """Return the lowest and the highest value of a part of the rows."""
    ranges = [(block.min(), block.max()) for _, block in part.blocks() if len(block)]
    return float(np.min(ranges)), float(np.max(ranges))


def two_sided_energy(energy: Floats, reference: Reference, moments: Moments) -> Floats:
    """Return the energy about the mean of train of rows that were judged one-sided.

    Parameters
    ----------
    energy : array of shape (n_rows,)
        Their energy under the one-sided `reference`.
    reference, moments : Reference, Moments
        The one-sided reference, and the moments of the train rows from their floor.
    """
    height = np.sqrt(2.0 * energy * reference.covariance[0, 0])
    return np.asarray(0.5 * (height - moments.mean[0]) ** 2 / moments.covariance[0, 0])
