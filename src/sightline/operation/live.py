"""A rule and a detector that go on from file to file, with the same bits as at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.recording import Prepared, Recording, Role, Tag, forward_fill
from sightline.data.segments import run_bounds
from sightline.data.validity import Validity
from sightline.detectors.base import LearnedDetector
from sightline.detectors.preprocessing import left_to_do
from sightline.export import without_lost
from sightline.operation.alarms import (
    PLANT,
    AlarmKind,
    Event,
    Happening,
    priority_of,
)
from sightline.operation.apply import MOST_TAGS, leading_tags, spread_of
from sightline.operation.telemetry import (
    check_names,
    check_step,
    prepared,
    steps_to_join,
    telemetry_of,
)
from sightline.operation.watch_state import (
    AlarmWindow,
    OpenAlarm,
    OpenWindow,
    TimedAlarm,
)
from sightline.rules.making import MadeRule
from sightline.rules.rule import RuleRun
from sightline.rules.standalone import (
    ASKS_AFTER,
    LONG_GAP_S,
    MOST_IN_ALL,
    PLANT_CHANGED,
    Question,
)
from sightline.text import duration

# Rows that pass through a rule at a time, so that no long record is in memory twice.
_ROWS_AT_ONCE: Final = 8192
# Rows of residuals that a detector computes together, at the least.
_BLOCK: Final = 128
_ONE: Final = np.zeros(1, np.int64)
# Of a unit of several tags, those lead whose deviation is at least this share of the
# largest.
_LEAST_PART: Final = 0.5
OUTAGE: Final = "an outage"
BACK_AGAIN: Final = "itself: it is back"
MOST_ARE_BACK: Final = "itself: half of the tags are back, the others asked about alone"
S = TypeVar("S", bound=OpenWindow)


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Rows in order of time, of which the first may begin a recording.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds since 1970.
    rows : array of shape (n_rows, n_channels)
        Residuals, or what the plant measured.
    begins : bool
        Whether rows before it are missing: memory and alarms start again.
    measured : array of shape (n_rows, n_channels), optional
        Of residuals, what the plant measured.
    """

    time: Floats
    rows: Floats
    begins: bool
    measured: Floats | None = None


def runs_of(
    time: Floats, rows: Floats, begins: Bools, measured: Floats | None = None
) -> list[Run]:
    """Return rows in pieces, each without a break inside.

    Parameters
    ----------
    time, rows, measured : array
        See `Run`.
    begins : array of bool, shape (n_rows,)
        Rows before which others are missing.
    """
    if not len(time):
        return []
    firsts = np.union1d(np.flatnonzero(begins), _ONE)
    stops = [*firsts[1:].tolist(), len(time)]
    return [
        Run(
            time=time[a:b],
            rows=rows[a:b],
            begins=bool(begins[a]),
            measured=None if measured is None else measured[a:b],
        )
        for a, b in zip(firsts.tolist(), stops, strict=True)
    ]


class LiveRule:
    """A rule that turns rows into alarms, and goes on where it stopped.

    Parameters
    ----------
    made : MadeRule
        The rule.
    saved : mapping of str to array, optional
        What `arrays` gave.
    alarm, stretch : OpenAlarm, OpenWindow, optional
        What ran then.

    Attributes
    ----------
    alarms, stretches : list
        What has ended.
    happenings : list of Happening
        What happened to alarms, to tags and to the rule, in no order.
    """

    def __init__(
        self,
        made: MadeRule,
        saved: Mapping[str, npt.NDArray[Any]] | None = None,
        alarm: OpenAlarm | None = None,
        stretch: OpenWindow | None = None,
    ) -> None:
        self.rule, self.alarm, self.stretch = made.rule, alarm, stretch
        self.spread = spread_of(made)
        self.state = self.rule.start(saved)
        self.latch = np.zeros(3, np.int64) if saved is None else saved["stretch"].copy()
        # Time of the last row, and how many units were out of service in it.
        self.last = np.array([np.nan, 0.0])
        if saved is not None:
            self.last = saved.get("last", self.last).copy()
        # When the last nights began.
        self.begun = np.full(ASKS_AFTER, np.nan)
        if saved is not None:
            self.begun = saved.get("begun", self.begun).copy()
        # Rows of the last `take` in which the rule stood, out of service.
        self.n_silent = 0
        self.alarms: list[TimedAlarm] = []
        self.stretches: list[AlarmWindow] = []
        self.happenings: list[Happening] = []

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that it remembers, besides what runs."""
        own = {name: getattr(self, name).copy() for name in ("last", "begun")}
        own["stretch"] = self.latch.copy()
        return {**self.state.arrays(), **own}

    def take(self, run: Run) -> None:
        """Let some more rows pass."""
        self.n_silent = 0
        if run.begins:
            gap_s = float(run.time[0] - self.last[0])
            self.stop(OUTAGE)
            if gap_s > LONG_GAP_S:
                self._begin_anew(f"{duration(gap_s)} without data")
        for start in range(0, len(run.time), _ROWS_AT_ONCE):
            stop = start + _ROWS_AT_ONCE
            out, begun = self.out_of_service(), self._nights_of(run.time[start:stop])
            said = self.state.advance(run.rows[start:stop])
            self.n_silent += int(said.is_silent.sum())
            self._follow(said, run.time[start:stop], run.rows[start:stop])
            self._serve(said, run.time[start:stop], out)
            for question in said.questions:
                time = float(run.time[start + question.row])
                nights = begun[~(begun > time)]
                self._ask(question, time, float(nights[-ASKS_AFTER]))
            self.begun = begun[-ASKS_AFTER:].copy()

    def _nights_of(self, time: Floats) -> Floats:
        """Return when the last nights began, and those that begin in some rows."""
        if self.state.nights is None:
            return self.begun
        first = -int(self.state.nights.count[0]) % self.rule.night
        return np.concatenate([self.begun, time[first :: self.rule.night]])

    def _ask(self, question: Question, time: float, begun: float) -> None:
        """Note that a person is asked about a tag or the whole plant, or no longer."""
        is_plant = question.channel == PLANT_CHANGED
        tags = [self.rule.channels[j].name for j in question.together]
        source = PLANT if is_plant else self.rule.channels[question.channel].name
        back = MOST_ARE_BACK if is_plant else BACK_AGAIN
        is_jump = question.off and abs(question.off) != MOST_IN_ALL
        self.happenings.append(
            Happening(
                event=Event.STARTED if question.off else Event.ENDED,
                kind=AlarmKind.CHANGE if is_plant else AlarmKind.QUESTION,
                source=source,
                time=time,
                start=begun if is_jump and begun == begun else None,
                tags=tuple(tags),
                peak=question.off or None,
                n_tags=len(self.rule.channels) if is_plant else None,
                why="" if question.off else back,
            )
        )

    def _begin_anew(self, why: str) -> None:
        """Follow means from the usual ones again; what is asked about is over."""
        time = float(self.last[0]) + (self.rule.step_s or 1.0)
        nights = self.state.nights
        for channel in () if nights is None else nights.asked():
            is_plant = channel == PLANT_CHANGED
            self.happenings.append(
                Happening(
                    event=Event.ENDED,
                    kind=AlarmKind.CHANGE if is_plant else AlarmKind.QUESTION,
                    source=PLANT if is_plant else self.rule.channels[channel].name,
                    time=time,
                    why=why,
                )
            )
        self.state.begin_anew()
        self.begun[:] = np.nan

    def stop(self, why: str) -> None:
        """End all that runs, one step after the last row; memory starts again."""
        time = float(self.last[0]) + (self.rule.step_s or 1.0)
        if self.alarm is not None:
            self._happened(Event.ENDED, self.alarm, time, why)
        for name in self._names(self.out_of_service()):
            self._served(Event.BACK, AlarmKind.OUT, name, time, why)
        if self._is_out(int(self.last[1])):
            self._served(Event.ENDED, AlarmKind.RULE_OUT, self.rule.name, time, why)
        self.last[1] = 0.0
        self.state.restart()
        self.latch[:] = 0
        self._end([self.alarm], [self.stretch])
        self.alarm = self.stretch = None

    # --- What is out of service -------------------------------------------------------

    def out_of_service(self) -> set[tuple[int, int]]:
        """Return the units that are out of service now: member, and unit of it."""
        found = set()
        for m, state in enumerate(self.state.service):
            energy = self.state.energies[m]
            for j in np.flatnonzero(state[:, 2] == 1).tolist():
                found.add((m, j if energy is None else int(energy.order[j])))
        return found

    def _names(self, units: set[tuple[int, int]]) -> list[str]:
        return sorted({self.rule.unit_name(*unit) for unit in units})

    def _is_out(self, n_units: int) -> bool:
        """Return whether the rule is out of service with so many of its units."""
        return 2 * n_units > self.rule.n_units

    def _serve(self, said: RuleRun, time: Floats, out: set[tuple[int, int]]) -> None:
        """Note which tags go out of service and return, and the rule as a whole."""
        for row in np.unique(said.service[:, 0]).tolist():
            before = self._names(out)
            for _, m, unit, is_out in said.service[said.service[:, 0] == row].tolist():
                (out.add if is_out else out.discard)((m, unit))
            now = self._names(out)
            for name in sorted({*now} - {*before}):
                self._served(Event.OUT, AlarmKind.OUT, name, float(time[row]))
            for name in sorted({*before} - {*now}):
                self._served(Event.BACK, AlarmKind.OUT, name, float(time[row]))
        turns = np.diff(said.rule_is_out, prepend=self._is_out(int(self.last[1])))
        for row in np.flatnonzero(turns).tolist():
            event = Event.STARTED if said.rule_is_out[row] else Event.ENDED
            self._served(event, AlarmKind.RULE_OUT, self.rule.name, float(time[row]))
        if len(time):
            self.last[:] = time[-1], said.n_out[-1]

    def _served(
        self, event: Event, kind: AlarmKind, source: str, time: float, why: str = ""
    ) -> None:
        self.happenings.append(
            Happening(
                event=event, kind=kind, source=source, time=time, why=why, by="rule"
            )
        )

    # --- Alarms -----------------------------------------------------------------------

    def _end(
        self,
        alarms: Sequence[OpenAlarm | None],
        stretches: Sequence[OpenWindow | None],
    ) -> None:
        limit = self.rule.limit
        self.alarms += [a.as_alarm(limit, MOST_TAGS) for a in alarms if a is not None]
        self.stretches += [one.so_far() for one in stretches if one is not None]

    def _follow(self, said: RuleRun, time: Floats, values: Floats) -> None:
        """Follow alarms and stretches through what the rule says of some rows."""
        from sightline._kernels.alarms import latch

        alarms, self.alarm = _followed(
            self.alarm,
            said.in_alarm,
            said.exceeds,
            time,
            OpenAlarm,
            lambda alarm, rows: self._lead(alarm, said, rows, values, time),
        )
        for alarm in alarms:
            self._happened(Event.ENDED, alarm, alarm.over)
        # The alarm of what is out of service is counted as standing until it ends.
        marks = (said.exceeds & said.in_alarm) | said.standing
        latched = np.empty_like(marks)
        latch(marks, 1, 1, self.rule.delays.off, self.latch, latched)
        stretches, self.stretch = _followed(
            self.stretch, latched, marks, time, OpenWindow
        )
        self._end(alarms, stretches)

    def _happened(
        self, event: Event, alarm: OpenAlarm, time: float, why: str = ""
    ) -> None:
        end = alarm.last + (self.rule.step_s or 1.0)
        self.happenings.append(
            Happening(
                event=event,
                kind=AlarmKind.ANOMALY,
                source=self.rule.name,
                time=time,
                start=alarm.start,
                end=end if event is Event.ENDED else None,
                tags=alarm.told,
                peak=alarm.peak / self.rule.limit,
                limit=self.rule.limit,
                why=why,
            )
        )

    def _lead(
        self,
        alarm: OpenAlarm,
        said: RuleRun,
        rows: Ints,
        values: Floats,
        time: Floats,
    ) -> None:
        """Add to an alarm who leads in further exceedances."""
        self._tell(alarm, said, rows, values, time)
        top = int(rows[np.argmax(said.trace[rows])])
        if not alarm.member or said.trace[top] > alarm.peak:
            alarm.peak = float(said.trace[top])
            alarm.member = said.rule.members[said.leading[top]].name
            alarm.at_peak = said.units_at(top)
            alarm.tags_at_peak = leading_tags(said, top, values[top], self.spread)
        pairs = np.stack([said.leading[rows], said.unit[rows]], axis=1)
        _, firsts, counts = np.unique(
            pairs, axis=0, return_index=True, return_counts=True
        )
        for k in np.argsort(firsts).tolist():
            for name in said.units_at(int(rows[firsts[k]])):
                alarm.leading[name] = alarm.leading.get(name, 0) + int(counts[k])

    def _tell(
        self,
        alarm: OpenAlarm,
        said: RuleRun,
        rows: Ints,
        values: Floats,
        time: Floats,
    ) -> None:
        """Note that an alarm starts, has another leading tag, or a higher priority.

        A row counts that is the largest so far, or the first of a unit.
        """
        trace = said.trace[rows]
        largest = np.maximum.accumulate(np.append(alarm.peak, trace))
        pairs = np.stack([said.leading[rows], said.unit[rows]], axis=1)
        _, firsts = np.unique(pairs, axis=0, return_index=True)
        is_new = trace > largest[:-1]
        is_new[[k for k in firsts if self._is_first(alarm, said, rows[k])]] = True
        before = OpenAlarm(start=alarm.start, last=alarm.last, told=alarm.told)
        before.peak = alarm.peak
        for k in np.flatnonzero(is_new).tolist():
            row, n_told = int(rows[k]), len(before.told)
            limit, peak = self.rule.limit, before.peak
            tags = leading_tags(said, row, values[row], self.spread, _LEAST_PART)
            named = dict.fromkeys((*before.told, *(tags or said.units_at(row))))
            before.told = tuple(named)[: max(MOST_TAGS, n_told)]
            before.peak = max(peak, float(said.trace[row]))
            if not n_told and not alarm.member and k == 0:
                self._happened(Event.STARTED, before, float(time[row]))
            elif len(before.told) > n_told or (
                priority_of(AlarmKind.ANOMALY, before.told, before.peak / limit)
                < priority_of(AlarmKind.ANOMALY, before.told, peak / limit)
            ):
                self._happened(Event.CHANGED, before, float(time[row]))
        alarm.told = before.told

    @staticmethod
    def _is_first(alarm: OpenAlarm, said: RuleRun, row: int) -> bool:
        return not {*said.units_at(row)} <= {*alarm.leading}


def _followed(
    running: S | None,
    latched: Bools,
    marks: Bools,
    time: Floats,
    kind: Callable[..., S],
    more: Callable[[S, Ints], None] = lambda one, rows: None,
) -> tuple[list[S], S | None]:
    """Return the stretches that end in some rows, and the one that goes on.

    Parameters
    ----------
    running : OpenWindow, optional
        The one that runs before these rows.
    latched, marks : array of bool
        Rows within a stretch, the latch included; and its exceedances.
    time : array
        Of the rows.
    kind : type
        Of a new stretch.
    more : callable
        Called with a stretch and further exceedances of it.
    """
    ended = []
    if running is not None and not latched[0]:
        running.over = float(time[0])
        ended, running = [running], None
    for start, stop in zip(*run_bounds(latched), strict=True):
        if running is None:
            running = kind(start=float(time[start]), last=float(time[start]))
        rows = start + np.flatnonzero(marks[start:stop])
        if len(rows):
            running.last = float(time[rows[-1]])
            running.rows = running.age + int(rows[-1] - start) + 1
            more(running, rows)
        running.age += int(stop - start)
        if stop < len(time):
            running.over = float(time[stop])
            ended.append(running)
            running = None
    return ended, running


class LiveDetector:
    """A detector that turns measured rows into residuals, and goes on where it stopped.

    Residuals are computed in blocks on a grid that begins with each run; a block that
    is not full yet is filled up with its last row. So a row has the same neighbours in
    every computation, and its residual the same bits, however files were cut.

    Parameters
    ----------
    detector : LearnedDetector
        Fitted.
    made : MadeRule
        The rule; it says how rows are prepared for the detector.
    step_s : float
        Seconds between measured rows.
    saved : mapping of str to array, optional
        What `arrays` gave.

    Raises
    ------
    StreamError
        If the detector's residuals depend on more than a few earlier rows, or the step
        does not fit.
    """

    def __init__(
        self,
        detector: LearnedDetector,
        made: MadeRule,
        step_s: float,
        saved: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        self.detector, self.made, self.step_s = detector, made, step_s
        self.telemetry = telemetry_of(made)
        self.look_back = detector.look_back(self.telemetry.preset)
        self.n_prepared = steps_to_join(step_s, self.telemetry)
        own = left_to_do(
            detector.row_settings(self.telemetry.preset),
            Prepared(every=self.n_prepared, sampling=self.telemetry.sampling),
        )
        self.every = self.n_prepared * own.every
        check_step(step_s * self.every, made)
        sampling = own.sampling if own.every > 1 else self.telemetry.sampling
        # A stride takes the first row of a block and need not wait for the others.
        self.takes_first = self.every > 1 and sampling == "stride"
        self.block = max(_BLOCK, 2 * (self.look_back + 1))
        roles = self.telemetry.roles
        self.tags = tuple(
            Tag(name=name, role=Role(roles.get(name, Role.SENSOR)))
            for name in detector.channels or ()
        )
        self.restart()
        if saved is not None:
            self.time, self.rows = saved["time"], saved["rows"]
            self.last = saved["last"]
            self.lost = saved.get("lost", np.zeros(self.rows.shape, np.bool_))
            self.first, self.n_done, self.after = saved["counts"].tolist()

    def restart(self) -> None:
        """Forget all earlier rows, as after a break."""
        # Rows of the run from number `first` on; its residuals up to `n_done` are out,
        # and the last of them was number `after` - 1.
        self.time, self.rows = np.empty(0), np.empty((0, len(self.tags)))
        self.lost = np.empty(self.rows.shape, np.bool_)
        self.last = np.full(len(self.tags), np.nan)
        self.first, self.n_done, self.after = 0, 0, -1

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that it remembers."""
        counts = np.array([self.first, self.n_done, self.after], np.int64)
        parts = {"time": self.time, "rows": self.rows, "last": self.last}
        return parts | {"counts": counts, "lost": self.lost}

    def take(self, run: Run) -> list[Run]:
        """Return the residuals of some more measured rows; nan where a tag has none."""
        if run.begins:
            self.restart()
        known = np.concatenate([self.last[None], run.rows])
        filled = forward_fill(known, _ONE)
        self.last = filled[-1]
        self.time = np.concatenate([self.time, run.time])
        self.rows = np.concatenate([self.rows, filled[1:]])
        self.lost = np.concatenate([self.lost, np.isnan(run.rows)])
        n_rows = self.first + len(self.rows)
        n_complete = (n_rows + self.every - 1 if self.takes_first else n_rows) // (
            self.every
        )
        found: list[Run] = []
        for block in range(self.n_done // self.block, -(-n_complete // self.block)):
            found += self._block(block, n_complete)
        self.n_done = max(self.n_done, n_complete)
        # The rows that the unfinished block needs.
        begin = self._begin(self.n_done // self.block) - self.first
        self.time, self.rows = self.time[begin:].copy(), self.rows[begin:].copy()
        self.lost = self.lost[begin:].copy()
        self.first += begin
        return found

    @property
    def pending(self) -> float:
        """Time from which on rows wait for others to be complete; else infinity."""
        n_rows = self.first + len(self.rows)
        place = self.n_done * self.every - self.first
        return float(self.time[place]) if place < n_rows - self.first else np.inf

    def _begin(self, block: int) -> int:
        """Return the first measured row, counted in the run, that a block needs."""
        return max(block * self.block - self.look_back, 0) * self.every

    def _block(self, block: int, n_complete: int) -> list[Run]:
        """Return the new residuals of a block of the grid."""
        begin = self._begin(block)
        rows = self.rows[begin - self.first :]
        n_wanted = (block + 1) * self.block * self.every - begin
        rows = rows[:n_wanted]
        at = np.minimum(np.arange(n_wanted), len(rows) - 1)
        lost = self.lost[begin - self.first :][at]
        recording = Recording(
            values=rows[at],
            tags=self.tags,
            step_s=self.step_s,
            validity=np.where(lost, Validity.MISSING, Validity.GOOD).astype(np.int8),
        )
        recording = prepared(recording, self.telemetry)
        preset = self.telemetry.preset
        made = self.detector.residuals(recording, preset=preset)
        check_names(made.channels, self.made)
        residuals = without_lost(made, recording, self.detector, preset)
        number = (begin + made.index * self.n_prepared) // self.every
        is_new = (number >= self.n_done) & (number < n_complete)
        # Rows before the block were only there to look back at.
        is_new &= number // self.block == block
        is_new &= np.isfinite(made.values).all(axis=1)
        number, values = number[is_new], np.asarray(residuals[is_new], np.float64)
        if not len(number):
            return []
        first = number * self.every - self.first
        time = self.time[first]
        begins = np.diff(number, prepend=self.after - 1) != 1
        self.after = int(number[-1]) + 1
        names = [tag.name for tag in recording.tags]
        measured = None
        if {*made.channels} <= {*names}:
            of = [names.index(name) for name in made.channels]
            measured = np.asarray(
                recording.values[made.index[is_new]][:, of], np.float64
            )
        return runs_of(time, values, begins, measured)
