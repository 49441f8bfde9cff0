"""A detector that reads falsified telemetry: what blind spots need of Stage 1."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from sightline.blindspots.places import Grid
from sightline.blindspots.rule_view import Change, RowChange
from sightline.blindspots.shapes import TagFacts
from sightline.blindspots.telemetry import (
    ConvolvedChange,
    Deltas,
    LinearStage1,
    PlaceRows,
    Stage1,
    Telemetry,
)
from sightline.data.arrays import Floats, Ints
from sightline.data.downsampling import (
    Sampling,
    downsampled,
    sampled_blocks,
    sampled_column,
)
from sightline.data.recording import Recording, Role
from sightline.detectors.base import Detector, LearnedDetector, unlabelled
from sightline.detectors.preprocessing import fill_missing, left_to_do, means_of
from sightline.errors import SightlineError, StreamError
from sightline.export import ExportedRows, export_rows

# A detector is linear if twice the change gives twice the response, to this share.
LINEAR: Final = 1e-3
# A cut record must give the residuals of the whole one to this share of their spread:
# networks calculate in single precision, in batches of other sizes.
AS_WHOLE: Final = 1e-3
# Rows that a detector of unknown memory is given before a place, at the most.
MOST_MEMORY: Final = 4096
_TEST_PLACES: Final = 3
_TEST_ROWS: Final = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectorRows:
    """A record as a detector's rows, from which pieces are cut.

    Parameters
    ----------
    detector : Detector
        Fitted.
    recording : Recording
        One row for each row of the detector, without missing cells.
    telemetry : Telemetry
        The measured steps.
    exported : ExportedRows
        Residuals of the whole record.
    rows : array of int, shape (n_residuals,)
        The row that each residual belongs to.
    """

    detector: Detector
    recording: Recording
    telemetry: Telemetry
    exported: ExportedRows
    rows: Ints

    def pieces(self, first: Ints, n_rows: int) -> Recording:
        """Return some stretches of the record, one after the other."""
        index = (first[:, None] + np.arange(n_rows)).ravel()
        source = self.recording
        return replace(
            source,
            values=source.values[index],
            time=None if source.time is None else source.time[index],
            labels=None,
            breaks=np.arange(len(first)) * n_rows,
            attacks=(),
        )

    def through(self, pieces: Recording) -> tuple[Floats, Ints]:
        """Return residuals of pieces, and the row of the pieces that each has."""
        try:
            made = self.detector.residuals(pieces)
        except SightlineError as error:
            raise StreamError(
                "The detector refuses a recording that is cut into pieces "
                f"({str(error).rstrip('.')}): blind spots need one that reads short "
                "stretches. Give its residual stream instead, and they are sought in "
                "residual space."
            ) from error
        return np.asarray(made.values, np.float64), made.index

    def of_runs(
        self, places: Ints, runs: Sequence[tuple[int, int]], memory: int, added: Deltas
    ) -> Floats:
        """Return residuals at the places, shape (n_places, n_offsets, n_channels).

        Parameters
        ----------
        places : array of int
            Rows of the record.
        runs : sequence of pair of int
            Stretches of telemetry rows, counted from the place; the first `memory` of
            each have no residual in the answer.
        memory : int
            Rows that the detector remembers.
        added : mapping of int to array of shape (n_places, n_telemetry_rows)
            What is added to columns.
        """
        out, begin = [], 0
        for start, stop in runs:
            n = stop - start
            pieces = self.pieces(places + start, n)
            values = pieces.values.astype(np.float64, copy=True)
            for column, delta in added.items():
                values[:, column] += delta[:, begin : begin + n].ravel()
            made, index = self.through(replace(pieces, values=values))
            out.append(_after_memory(made, index, len(places), n, memory))
            begin += n
        return np.concatenate(out, axis=1)


def _after_memory(
    made: Floats, index: Ints, n_places: int, n_rows: int, memory: int
) -> Floats:
    """Return the residuals of each piece without its first rows.

    Raises
    ------
    StreamError
        If one of them is missing.
    """
    piece, row = index // n_rows, index % n_rows
    is_kept = row >= memory
    n_kept = n_rows - memory
    out = np.full((n_places, n_kept, made.shape[1]), np.nan)
    out[piece[is_kept], row[is_kept] - memory] = made[is_kept]
    if np.isnan(out).any():
        raise StreamError(
            "The detector gives no residual for some rows of a short stretch: blind "
            "spots need one for every row after those that it looks back at."
        )
    return out


@dataclass(frozen=True, eq=False)
class AnyStage1:
    """A detector that is called for every change.

    Parameters
    ----------
    source : DetectorRows
        The record.
    memory : int
        Earlier rows that a residual depends on.
    is_linear : bool
        Whether residuals change in proportion.
    """

    source: DetectorRows
    memory: int
    is_linear: bool

    def change(self, deltas: Deltas, rows: PlaceRows) -> Change:
        """Return how the residuals change; see `Stage1`.

        A place at which nothing is added has no change, and is not read.
        """
        twin = self._twin(rows)
        changed = np.zeros_like(twin)
        is_read = np.logical_or.reduce([d.any(axis=1) for d in deltas.values()])
        if is_read.any():
            falsified = self.source.of_runs(
                rows.places[is_read],
                rows.runs,
                self.memory,
                {column: delta[is_read] for column, delta in deltas.items()},
            )
            changed[is_read] = falsified - twin[is_read]
        return RowChange(changed)

    def _twin(self, rows: PlaceRows) -> Floats:
        known = self._twins
        key = (rows.grid, rows.places.tobytes())
        if key not in known:
            known[key] = self.source.of_runs(rows.places, rows.runs, self.memory, {})
        return known[key]

    @cached_property
    def _twins(self) -> dict[Any, Floats]:
        return {}


def detector_rows(
    detector: Detector, recording: Recording, tags: tuple[TagFacts, ...]
) -> DetectorRows:
    """Return a record as rows of a detector.

    Parameters
    ----------
    detector : Detector
        Fitted.
    recording : Recording
        Attack-free telemetry, or one with attacks, which places avoid.
    tags : tuple of TagFacts
        One for each channel.
    """
    filled, _ = fill_missing(
        recording.values, np.asarray(recording.breaks), means_of(recording.values)
    )
    whole = unlabelled(replace(recording, values=filled))
    every, across = 1, False
    sampling: Sampling = "median"
    if isinstance(detector, LearnedDetector):
        settings = left_to_do(detector.row_settings(), recording.prepared)
        every, sampling = settings.every, settings.sampling
        across = settings.across_breaks
    starts, _ = sampled_blocks(
        whole, every=every, sampling=sampling, across_breaks=across
    )
    rows = downsampled(whole, every=every, sampling=sampling, across_breaks=across)
    exported = export_rows(detector, recording)
    step_s = recording.step_s
    if step_s is None or exported.step_s is None:
        raise StreamError(
            "Seconds a row are not known, so durations cannot be written: give time "
            "stamps or `step_s`."
        )
    if exported.step_s != rows.step_s:
        raise StreamError(
            "The detector joins steps of a recording by itself: down-sample the "
            "recording before, with `every` of the testbed."
        )

    def sample(blocks: Floats, tag: TagFacts) -> Floats:
        is_sensor = tag.role is Role.SENSOR
        return sampled_column(blocks, sampling, is_sensor=is_sensor)

    telemetry = Telemetry(
        values=filled,
        tags=tags,
        starts=starts,
        every=every,
        sample=sample,
        step_s=step_s,
    )
    return DetectorRows(
        detector=detector,
        recording=rows,
        telemetry=telemetry,
        exported=exported,
        rows=np.searchsorted(starts, exported.index),
    )


def stage_of(source: DetectorRows, places: Ints, tags: Sequence[TagFacts]) -> Stage1:
    """Return a detector as Stage 1: by its responses if it is linear, else itself.

    Parameters
    ----------
    source : DetectorRows
        The record.
    places : array of int
        Rows of the record at which it is tried.
    tags : sequence of TagFacts
        The tags that will be falsified.

    Raises
    ------
    StreamError
        If the detector refuses a cut recording, or its residuals there are others than
        those of the whole record however many rows come before.
    """
    memory = memory_of(source, places)
    tried = places[:: max(len(places) // _TEST_PLACES, 1)][:_TEST_PLACES]
    grid = Grid(rows=_TEST_ROWS, judged=_TEST_ROWS, release=1, memory=0)
    rows = PlaceRows(grid=grid, places=tried, memory=memory)
    plain = AnyStage1(source, memory, is_linear=False)
    taps, is_linear, is_steady = {}, True, True
    for tag in tags:
        size = 0.05 * tag.range or 1.0
        delta = size * np.tile(rows.is_falsified, (len(tried), 1)).astype(np.float64)
        one, two = (
            plain.change({tag.column: factor * delta}, rows).rows  # type: ignore[attr-defined]
            for factor in (1.0, 2.0)
        )
        largest = np.abs(two).max(initial=0.0)
        is_linear &= bool(np.abs(two - 2 * one).max(initial=0.0) <= LINEAR * largest)
        if not is_linear:
            break
        impulse = np.zeros_like(delta)
        impulse[:, memory] = size
        response = plain.change({tag.column: impulse}, rows).rows  # type: ignore[attr-defined]
        taps[tag.column] = response[0, : memory + 1] / size
        predicted = ConvolvedChange({tag.column: delta}, taps, rows).through(
            np.eye(one.shape[2])
        )
        is_steady &= bool(np.abs(predicted - one).max() <= LINEAR * largest)
    if is_linear and is_steady:
        return LinearStage1(taps)
    return AnyStage1(source, memory, is_linear=is_linear)


def memory_of(source: DetectorRows, places: Ints) -> int:
    """Return how many earlier rows the residuals of a detector depend on.

    As the detector says, if it says so; else rows are doubled until a cut record gives
    the residuals of the whole one.
    """
    detector = source.detector
    try:
        wanted = detector.look_back() if isinstance(detector, LearnedDetector) else 1
    except StreamError:
        wanted = 1
    tried = places[:: max(len(places) // _TEST_PLACES, 1)][:_TEST_PLACES]
    residuals = np.asarray(source.exported.values, np.float64)
    # Residuals may be so large that their squares overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        spread = residuals.std(axis=0)
    spread = np.maximum(spread, AS_WHOLE * spread.max(initial=0.0) + 1e-12)
    n_after = min(_TEST_ROWS, len(source.recording.values) - int(tried.max()))
    at = np.searchsorted(source.rows, tried[:, None] + np.arange(n_after))
    whole = residuals[at]
    memory = wanted
    while memory <= min(MOST_MEMORY, int(tried.min())):
        runs = ((-memory, n_after),)
        cut = source.of_runs(tried, runs, memory, {})
        if (np.abs(cut - whole) <= AS_WHOLE * spread).all():
            return memory
        memory = max(2 * memory, 1)
    raise StreamError(
        "The detector's residuals of a short stretch are others than those of the "
        f"whole record, even with {MOST_MEMORY:,} rows before: blind spots cannot be "
        "sought through it. Give its residual stream instead."
    )
