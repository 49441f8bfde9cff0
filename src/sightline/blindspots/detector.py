"""A detector that reads falsified telemetry: what blind spots need of Stage 1."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from sightline.blindspots.places import (
    Change,
    ConvolvedChange,
    Deltas,
    Grid,
    LinearStage1,
    PlaceRows,
    Stage1,
    TelemetryRecord,
)
from sightline.blindspots.rule_view import RowChange, TwinRecord, far_from
from sightline.blindspots.shapes import TrainTag
from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.downsampling import (
    Sampling,
    downsampled,
    sampled_blocks,
    sampled_column,
)
from sightline.data.recording import Recording, Role
from sightline.detectors.base import (
    Detector,
    LearnedDetector,
    Residuals,
    RuleInput,
    unlabelled,
)
from sightline.detectors.preprocessing import fill_missing, left_to_do, means_of
from sightline.errors import SightlineError, StreamError
from sightline.export import ExportedRows, export_rows, rule_input
from sightline.metrics.alarm_load import AlarmLoad, Delays, alarm_load, episodes_of

# A detector is linear if twice the change gives twice the response, to this share.
LINEAR: Final = 1e-3
# A cut record must give the residuals of the whole one to this share of their spread:
# networks calculate in single precision, in batches of other sizes.
AS_WHOLE: Final = 1e-3
# Rows that a detector of unknown memory is given before a place, at the most.
MOST_MEMORY: Final = 4096
_TEST_PLACES: Final = 3
_TEST_ROWS: Final = 20
OWN: Final = "own"
# Rows before a place that the rule is given, for what it smooths.
_BEFORE: Final = 30


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectorRows:
    """A record as a detector's rows, from which pieces are cut.

    Parameters
    ----------
    detector : Detector
        Fitted.
    recording : Recording
        One row for each row of the detector, without missing cells.
    telemetry : TelemetryRecord
        The measured steps.
    exported : ExportedRows
        Residuals of the whole record.
    rows : array of int, shape (n_residuals,)
        The row that each residual belongs to.
    """

    detector: Detector
    recording: Recording
    telemetry: TelemetryRecord
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
            # The residuals of each piece without its first rows.
            piece, row = index // n, index % n
            is_kept = row >= memory
            residuals = np.full((len(places), n - memory, made.shape[1]), np.nan)
            residuals[piece[is_kept], row[is_kept] - memory] = made[is_kept]
            if np.isnan(residuals).any():
                raise StreamError(
                    "The detector gives no residual for some rows of a short stretch: "
                    "blind spots need one for every row after those that it looks back "
                    "at."
                )
            out.append(residuals)
            begin += n
        return np.concatenate(out, axis=1)


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
    detector: Detector, recording: Recording, tags: tuple[TrainTag, ...]
) -> DetectorRows:
    """Return a record as rows of a detector.

    Parameters
    ----------
    detector : Detector
        Fitted.
    recording : Recording
        Attack-free telemetry, or one with attacks, which places avoid.
    tags : tuple of TrainTag
        One for each channel.
    """
    filled, _ = fill_missing(
        recording.values, np.asarray(recording.breaks), means_of(recording.values)
    )
    # A tag without a value is held: pieces of the record must give its residuals.
    held = replace(recording, values=filled, validity=None)
    whole = unlabelled(held)
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
    exported = export_rows(detector, held)
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

    def sample(blocks: Floats, tag: TrainTag) -> Floats:
        is_sensor = tag.role is Role.SENSOR
        return sampled_column(blocks, sampling, is_sensor=is_sensor)

    telemetry = TelemetryRecord(
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


def stage_of(source: DetectorRows, places: Ints, tags: Sequence[TrainTag]) -> Stage1:
    """Return a detector as Stage 1: by its responses if it is linear, else itself.

    Parameters
    ----------
    source : DetectorRows
        The record.
    places : array of int
        Rows of the record at which it is tried.
    tags : sequence of TrainTag
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
    tried = places[:: max(len(places) // _TEST_PLACES, 1)][:_TEST_PLACES]
    residuals = np.asarray(source.exported.values, np.float64)
    # Residuals may be so large that their squares overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        spread = residuals.std(axis=0)
    spread = np.maximum(spread, AS_WHOLE * spread.max(initial=0.0) + 1e-12)
    n_after = min(_TEST_ROWS, len(source.recording.values) - int(tried.max()))
    at = np.searchsorted(source.rows, tried[:, None] + np.arange(n_after))
    whole = residuals[at]
    memory = stated_memory(source.detector, least=0)
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


def stated_memory(detector: Detector, least: int = 1) -> int:
    """Return the rows that a detector says it looks back at; 1 where it does not."""
    if not isinstance(detector, LearnedDetector):
        return 1
    try:
        return max(detector.look_back(), least)
    except StreamError:
        return 1


@dataclass(frozen=True, kw_only=True)
class OwnRule:
    """Name and delays of a detector's own rule, as other rules have them."""

    name: str
    delays: Delays


@dataclass(frozen=True, eq=False)
class OwnRuleView:
    """The own rule at the places, for one duration; see `RuleView`."""

    source: "OwnRuleViews"
    grid: Grid
    places: Ints
    is_usable: Bools
    is_linear: bool = False

    @property
    def rule(self) -> OwnRule:
        """Name and delays."""
        return self.source.rule

    def crossings(self, change: Change) -> Floats:
        """Refuse: the rule is not known in closed form."""
        raise StreamError("A detector's own rule has no closed form.")

    def raises(self, change: Change) -> Bools:
        """Return which usable rows raise an alarm under a change."""
        p = self.source.record.rows.shape[1]
        added, first, pieces = change.through(np.eye(p)), 0, []
        for start, stop in self.grid.runs:
            part = added[:, first : first + stop - start]
            pieces.append(self.source.alarms(self.places + start, part))
            first += stop - start
        return np.asarray(np.concatenate(pieces, axis=1) & self.is_usable)


class OwnRuleViews:
    """A detector's own rule over a record and at places; see `RuleViews`.

    Parameters
    ----------
    given : RuleInput
        What the rule may look at; its test is replaced.
    detector : LearnedDetector
        Fitted, with a rule that looks at nothing of the test.
    record : TwinRecord
        The record.
    places : array of int
        First row of each falsification.
    grids : sequence of Grid
        The durations.
    fits : array of bool, shape (n_places, n_grids)
        The places at which each of them fits.
    """

    def __init__(
        self,
        given: RuleInput,
        detector: LearnedDetector,
        record: TwinRecord,
        places: Ints,
        grids: Sequence[Grid],
        fits: Bools,
    ) -> None:
        self.given, self.detector, self.record = given, detector, record
        self.places, self.grids, self.fits = places, grids, fits
        self.rule = OwnRule(name=OWN, delays=Delays.of_step(record.step_s))
        self.is_alarm = self._of_rows(record.rows)
        self.is_usable = far_from(self.is_alarm, self.rule.delays.off)

    def views(self) -> list[OwnRuleView]:
        """Return the rule at the places, one for each duration."""
        return [self.at(grid, self.fits[:, k]) for k, grid in enumerate(self.grids)]

    def at(self, grid: Grid, fits: Bools) -> OwnRuleView:
        """Return the rule for one duration at the places at which it fits."""
        places = self.places[fits]
        return OwnRuleView(
            self, grid, places, self.is_usable[places[:, None] + grid.offsets]
        )

    def load(self) -> AlarmLoad:
        """Return the alarms of the rule on the free rows of the record."""
        episodes = episodes_of(self.is_alarm, self.rule.delays, self.record.breaks)
        return alarm_load(
            episodes, self.record.is_free, self.rule.delays, self.record.step_s
        )

    def alarms(self, first: Ints, added: Floats) -> Bools:
        """Return alarms of falsified stretches, shape (n_places, n_rows).

        Parameters
        ----------
        first : array of int
            First row of each stretch.
        added : array of shape (n_places, n_rows, n_channels)
            What is added to the residuals.
        """
        n = added.shape[1]
        before = np.minimum(first, _BEFORE)
        length = _BEFORE + n
        rows = np.maximum(first - before, 0)[:, None] + np.arange(length)
        values = self.record.rows[np.minimum(rows, len(self.record.rows) - 1)].copy()
        inside = before[:, None] + np.arange(n)
        values[np.arange(len(first))[:, None], inside] += added
        alarms = self._of_rows(values.reshape(-1, values.shape[2]))
        by_place = alarms.reshape(len(first), length)
        return np.take_along_axis(by_place, inside, axis=1)

    def _of_rows(self, values: Floats) -> Bools:
        """Return the alarms of residual rows."""
        known = self.given.test_residuals
        residuals = Residuals(
            values=values,
            index=np.arange(len(values)),
            channels=known.channels,
            space=known.space,
            scale=known.scale,
        )
        made = self.detector.native_alarms(
            replace(self.given, test_residuals=residuals)
        )
        if made is None or made.alarms is None or len(made.alarms) != len(values):
            raise StreamError(
                "it does not judge residual rows by themselves, so falsified ones "
                "cannot be put before it."
            )
        return np.asarray(made.alarms, np.bool_)


def own_rule_of(
    detector: object, train: Recording, test: Recording
) -> tuple[RuleInput, LearnedDetector] | None:
    """Return what a detector's own rule needs; None if it has none for service."""
    if not isinstance(detector, LearnedDetector):
        return None
    if not any(not rule.looks_at for rule in detector.rules):
        return None
    given: Any = rule_input(detector, train, test)
    return given, detector
