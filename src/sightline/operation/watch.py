"""A rule that watches a folder: for cron, from file to file, killed at any moment.

Every run reads the files of the folder that it has not read yet, in order of their
time. A file is one transaction of the state: either all that follows from it is in the
state, or nothing. Page, metrics and lines are made from the state alone, so that a run
that was killed leaves nothing that the next one does not put right.
"""

import json
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats
from sightline.data.recording import step_from
from sightline.data.validity import POOR_S, code_table, reading_words
from sightline.data.zones import AHEAD_S, stamp
from sightline.detectors.base import LearnedDetector
from sightline.errors import FileError, SightlineError, StreamError
from sightline.files import sole_writer
from sightline.metrics.alarm_load import DAY_S, AlarmLoad
from sightline.operation.alarm_files import (
    ANSWERS,
    INCIDENTS,
    LOG,
    TABLE,
    CsvRows,
    WatchSettings,
    now_at,
    run_hooks,
    watch_settings,
    write_answers,
    write_incidents,
    write_log,
    write_table,
)
from sightline.operation.alarms import (
    PLANT,
    QUESTIONS,
    AlarmBook,
    AlarmKind,
    AlarmRecord,
    Event,
    Happening,
    in_order,
)
from sightline.operation.apply import MOST_TAGS
from sightline.operation.conditions import PlantConditions
from sightline.operation.live import OUTAGE, LiveDetector, LiveRule, Run, runs_of
from sightline.operation.telemetry import (
    SETTLE_S,
    Fresh,
    Gatekeeper,
    ResidualReader,
    TableReader,
    TableRows,
    TelemetryReader,
    check_step,
    dated_wrongly,
    detector_of,
    export_settings,
    exports_in,
    fresh_rows,
    joined,
    looked_at,
    memory_s,
    second_passes,
    telemetry_of,
)
from sightline.operation.watch_state import (
    DAMAGE,
    Fate,
    SeenFile,
    WatchMemory,
    WatchState,
)
from sightline.operation.week import Week, load_of, write_metrics, write_page
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.file import RULE_FILE, file_digest, read_rule
from sightline.rules.making import MadeRule
from sightline.rules.promise import Kept, Ledger, period_end
from sightline.tables.stamps import seconds_of_cell
from sightline.testbeds.own_plant.exports import texts_in
from sightline.text import counted, duration

PAGE: Final = "week.html"
METRICS: Final = "sightline.prom"
# New files together up to this many bytes are read once and kept until their turn.
_KEPT_BYTES: Final = 64 << 20

# Exit codes.
UNREADABLE: Final = 1
BROKEN_PROMISE: Final = 3
NO_DECISION: Final = 4
URGENT_ALARM: Final = 6
NOT_WATCHED: Final = 7
# No file for this many usual times between two, and this many seconds: no data.
SILENT_STEPS: Final = 3.0
SILENT_S: Final = 3600.0
# Rows that are enough to tell their usual step from gaps.
_ROWS_OF_STEP: Final = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchReport:
    """What one run of a watch did.

    Parameters
    ----------
    read, broken, waiting, late : tuple of str
        Names of files that were read, cannot be read, are left for the next time, or
        have only rows before the last one read.
    alarms : int
        Alarms that ended in this run.
    notices : tuple of str
        Sentences about files, in the order in which they came up.
    week : Week, optional
        The last seven days; None before the first row.
    silent_s : float
        Seconds since the last file arrived, if that is too long ago; else 0.
    running : tuple of AlarmRecord
        Alarms that run, the highest priority first, shelved ones included.
    off : tuple of AlarmKind
        Kinds of alarms that are turned off.
    zone : str, optional
        Zone of times; None for the plant's own clock.
    readings : str
        What the readings of this run were worth, if not all are good.
    n_waiting : int
        Alarms that have ended and nobody has acknowledged.
    """

    read: tuple[str, ...]
    broken: tuple[str, ...]
    waiting: tuple[str, ...]
    alarms: int
    notices: tuple[str, ...]
    week: Week | None
    silent_s: float = 0.0
    running: tuple[AlarmRecord, ...] = ()
    off: tuple[AlarmKind, ...] = ()
    zone: str | None = None
    readings: str = ""
    n_waiting: int = 0
    late: tuple[str, ...] = ()

    @property
    def is_broken(self) -> bool:
        """Whether the promise in force is broken, or the last one was."""
        return self.week is not None and self.week.kept is Kept.BROKEN

    @property
    def is_undecided(self) -> bool:
        """Whether questions about most tags stand unanswered."""
        return self.week is not None and bool(self.week.undecided)

    @property
    def is_watching(self) -> bool:
        """Whether the last row was watched by the rule, and files still arrive."""
        return not self.silent_s and (self.week is None or self.week.is_watching)

    @property
    def is_urgent(self) -> bool:
        """Whether an alarm of priority 1 or 2 runs that nobody has acknowledged."""
        return any(alarm.is_urgent for alarm in self.running)

    @property
    def exit_code(self) -> int:
        """What the command ends with: of several codes the largest."""
        return max(
            UNREADABLE * bool(self.broken or self.late),
            BROKEN_PROMISE * self.is_broken,
            NO_DECISION * self.is_undecided,
            URGENT_ALARM * self.is_urgent,
            NOT_WATCHED * (not self.is_watching),
        )


def watch_folder(
    rule: str | Path,
    folder: str | Path,
    state: str | Path,
    *,
    detector: str | Path | None = None,
    residuals: bool = False,
    out: str | Path | None = None,
    settings: str | Path | None = None,
    on_alarm: str | None = None,
    csv: CsvRows = CsvRows.ALARMS,
    settle_s: float = SETTLE_S,
    forget_after: str | None = None,
    progress: Progress = silent,
) -> WatchReport:
    r"""Read the new files of a folder, and bring alarms, page and metrics up to date.

    Parameters
    ----------
    rule : path
        The ``rule.json``.
    folder : path
        Where exports arrive: tables of residuals with the rule's channels, or of
        telemetry if the rule names a saved detector. ``plant.toml`` in it says how they
        are read.
    state : path
        The SQLite file that remembers everything; made if it does not exist.
    detector : path, optional
        Where the saved detector is, if not where the rule says.
    residuals : bool
        Read tables of residuals although the rule names a detector.
    out : path, optional
        Folder for page, metrics, log and table; by default that of the state.
    settings : path, optional
        The ``watch.toml``: kinds of alarms that are turned off, and for how long
        something may be shelved. By default the one beside the state, if there is one.
    on_alarm : str, optional
        A command that is run for each new line of the log; see
        `sightline.operation.alarm_files.run_hook`.
    csv : CsvRows
        Whether ``alarms.csv`` has a row for each alarm, or for each change.
    settle_s : float
        A file that changed within this many seconds is left for the next run.
    forget_after : str, optional
        A time, down to the hour: rows from then on are forgotten first, and read again
        from the files that have them. The way back after rows that a wrong clock dated.
    progress : callable, optional
        Called with a `Step`.

    Returns
    -------
    WatchReport
        What was done; `is_broken` says whether the promise is.

    Raises
    ------
    FileError
        If rule, detector, folder or state cannot be used, or another watch runs on the
        same state.
    StreamError
        If the detector cannot go on from one file to the next.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sightline import ResidualStream, commission, write_rule
    >>> rows = np.random.default_rng(0).normal(size=(42_000, 2))
    >>> stream = ResidualStream(rows[:2000], rows[2000:], step_s=10.0, channels="ab")
    >>> with TemporaryDirectory() as folder:
    ...     exports = Path(folder, "exports")
    ...     exports.mkdir()
    ...     write_rule(commission(stream), f"{folder}/rule.json")
    ...     times = [f"2026-11-01 00:{k // 6:02d}:{k % 6}0" for k in range(300)]
    ...     lines = [f"{t},{a},{b}" for t, (a, b) in zip(times, rows)]
    ...     _ = (exports / "1.csv").write_text("\n".join(["time,a,b", *lines, ""]))
    ...     report = watch_folder(
    ...         f"{folder}/rule.json", exports, f"{folder}/state.db", settle_s=0.0
    ...     )
    >>> report.read, report.is_broken
    (('1.csv',), False)
    """
    path, folder, state_path = Path(rule), Path(folder), Path(state)
    path = path / RULE_FILE if path.is_dir() else path
    made = read_rule(path)
    if not folder.is_dir():
        raise FileError(f"{folder}: there is no such folder to watch.")
    if made.rule.needs_score:
        raise StreamError(
            f"The rule {made.rule.name!r} reads the detector's own score, which a "
            "watch does not have: choose another rule."
        )
    saved = None if made.origin is None else made.origin.saved_detector
    model = None
    if not residuals and (saved is not None or detector is not None):
        model = detector_of(made, path, None if detector is None else Path(detector))
        model.look_back(telemetry_of(made).preset)
    out = Path(out) if out is not None else state_path.parent
    with sole_writer(state_path):
        own = watch_settings(state_path, None if settings is None else Path(settings))
        store = WatchState(state_path, len(made.rule.channels))
        try:
            with store.intact():
                digests = {
                    "rule": file_digest(path),
                    "detector": "" if saved is None or model is None else saved.sha256,
                }
                watch = _WatchRun(
                    store, made, model, folder, own, settle_s, digests, progress
                )
                watch.places["rule_path"] = str(path.resolve())
                watch.begin(out.resolve())
                if forget_after is not None:
                    watch.forget_after(forget_after)
                watch.read_new()
                return watch.report(out, on_alarm, csv)
        finally:
            store.close()


# Kinds of alarms that a rule raises; others stay where another rule goes on.
_OF_RULE: Final = (
    AlarmKind.ANOMALY,
    AlarmKind.OUT,
    AlarmKind.RULE_OUT,
    AlarmKind.PROMISE,
    *QUESTIONS,
)


class _WatchRun:
    """One run of a watch."""

    def __init__(
        self,
        store: WatchState,
        made: MadeRule,
        model: LearnedDetector | None,
        folder: Path,
        own: WatchSettings,
        settle_s: float,
        digests: Mapping[str, str],
        progress: Progress,
    ) -> None:
        self.store, self.made, self.model = store, made, model
        self.folder, self.settle_s, self.progress = folder, settle_s, progress
        self.own, self.digests = own, digests
        self.places = {"folder": str(folder.resolve())}
        self.settings = export_settings(folder, made)
        self.notices: list[str] = []
        self.fates: dict[str, Fate] = {}
        self.arrived_before: dict[str, int] = {}
        # By how many seconds rows of files are later than they read.
        self.later: dict[str, float] = {}
        self.n_alarms = 0
        self.cells = code_table(np.empty((0, len(self.channels)), np.int8))
        self.texts: dict[str, None] = {}

    @property
    def zone(self) -> str | None:
        """Zone in which times are shown."""
        is_utc = self.store.about().get("is_utc") == "1"
        return self.settings.timezone or ("UTC" if is_utc else None)

    def _reader(self) -> TableReader:
        if self.model is not None:
            return TelemetryReader(
                channels=self.model.channels or (),
                settings=self.settings,
                known=telemetry_of(self.made),
            )
        return ResidualReader(
            channels=[channel.name for channel in self.made.rule.channels],
            settings=self.settings,
            step_s=self.made.rule.step_s or 1.0,
        )

    # --- The state, the rule and the clock --------------------------------------------

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the columns of files."""
        if self.model is not None:
            return tuple(self.model.channels or ())
        return tuple(channel.name for channel in self.made.rule.channels)

    def begin(self, out: Path) -> None:
        """Bring the state to this version, to this rule, and to this moment."""
        known = self.store.about()
        wanted = {
            **self.digests,
            "channels": json.dumps(self.channels),
            "rule_name": self.made.rule.name,
            "rule_tags": json.dumps([one.name for one in self.made.rule.channels]),
        }
        with self.store.transaction():
            if self.store.migrated:
                self._migrate(known)
            is_new = any(
                known.get(key, value) != value for key, value in self.digests.items()
            )
            if is_new:
                self._begin_rule(known)
            self.store.set_about(wanted | {"out": str(out), **self.places})
            if is_new or "rules" not in known:
                self._list_rule(known)
            self._put_zone()
            book = self._book()
            book.expire(now_at(self.zone))
            book.turn_off(self._last() or 0.0)
            self._put_changes(book)

    def _book(self) -> AlarmBook:
        return AlarmBook(
            self.made.rule.name,
            self.digests["rule"],
            self.store.open_alarms(),
            self.own.off,
        )

    def _put_changes(self, book: AlarmBook) -> None:
        self.store.put_changes(book.changes, self.zone, clock.time())

    def _put_zone(self) -> None:
        if self.store.about().get("zone") != (self.zone or ""):
            self.store.set_about({"zone": self.zone or ""})

    def _last(self) -> float | None:
        """Return the time of the last row that was read."""
        runs = self.store.runs()
        return float(runs[-1, 1]) if len(runs) else None

    def _migrate(self, known: Mapping[str, str]) -> None:
        """Make a log of the alarms of a state that has none."""
        self.store.migrate()
        name, step = self.made.rule.name, self.made.rule.step_s or 1.0
        book = AlarmBook(name, known.get("rule", self.digests["rule"]))
        running = self.store.live().alarm
        alarms = self.store.episodes()
        if running is not None:
            alarms.append(running.as_alarm(self.made.rule.limit, MOST_TAGS))
        for k, one in enumerate(alarms):
            begun = Happening(
                event=Event.STARTED,
                kind=AlarmKind.ANOMALY,
                source=name,
                time=one.start,
                tags=one.tags,
                peak=one.peak,
            )
            book.take(begun)
            if running is None or k < len(alarms) - 1:
                time = one.last + step
                book.take(replace(begun, event=Event.ENDED, time=time, start=None))
        self._put_changes(book)

    def _begin_rule(self, known: Mapping[str, str]) -> None:
        """End what runs of the rule before; history, files and ids stay."""
        saved, last = self.store.live(), self._last() or 0.0
        old = AlarmBook(
            known.get("rule_name", ""), known.get("rule", ""), self.store.open_alarms()
        )
        limit = self.made.rule.limit
        for alarm in old.running:
            if alarm.kind is AlarmKind.ANOMALY:
                limit = alarm.limit or limit
            if alarm.kind in _OF_RULE:
                event = Event.BACK if alarm.kind is AlarmKind.OUT else Event.ENDED
                old.take(
                    Happening(
                        event=event,
                        kind=alarm.kind,
                        source=alarm.source,
                        time=last + (self.made.rule.step_s or 1.0),
                        why="a new rule",
                    )
                )
        self._put_changes(old)
        if saved.alarm is not None:
            self.store.add_episode(saved.alarm.as_alarm(limit, MOST_TAGS))
        if saved.stretch is not None:
            self.store.add_stretch(saved.stretch.so_far())
        # How readings are held and which tags are lost does not depend on the rule.
        is_same = known.get("channels") == json.dumps(self.channels)
        kept = {
            name: array
            for name, array in saved.arrays.items()
            if is_same and name.startswith(("gate/", "tags/"))
        }
        self.store.put_live(WatchMemory(arrays=kept, waiting=saved.waiting))
        self.store.begin_rule()

    def _list_rule(self, known: Mapping[str, str]) -> None:
        """Add the rule to those that this state was made with."""
        now = {"name": self.made.rule.name, **self.digests, "since": self._last()}
        with self.store.intact(*DAMAGE):
            rules = [*json.loads(known.get("rules", "[]")), now]
        self.store.set_about({"rules": json.dumps(rules)})

    def forget_after(self, text: str) -> None:
        """Forget all rows from a time on, and end what runs."""
        name, zone = "--forget-after", self.settings.timezone
        seconds, _ = seconds_of_cell(text, name, 1, path=name, zone=zone)
        begin, last = 3600.0 * (seconds // 3600), self._last()
        said = stamp(begin, self.zone)
        if last is None or last < begin:
            raise FileError(
                f"No row from {said} on was read: nothing is to be forgotten."
            )
        book, why = self._book(), f"rows from {said} on are forgotten"
        for alarm in book.running:
            if alarm.kind is not AlarmKind.SHELVED:
                event = Event.BACK if alarm.kind is AlarmKind.OUT else Event.ENDED
                time = max(alarm.start, begin)
                book.take(
                    Happening(
                        event=event,
                        kind=alarm.kind,
                        source=alarm.source,
                        time=time,
                        why=why,
                    )
                )
        with self.store.transaction():
            self._put_changes(book)
            self.store.forget_after(begin)
        self.notices.append(
            f"{self.store.path.name}: {why}; memory begins again there."
        )

    # --- Files ------------------------------------------------------------------------

    def read_new(self) -> None:
        """Read all files that are new, in order of time."""
        known = self.store.files()
        self.arrived_before = {name: file.changed for name, file in known.items()}
        new = [
            (path, seen)
            for path in exports_in(self.folder)
            if (seen := self._looked_at(path, known.get(path.name))) is not None
        ]
        if self.model is not None and "step_s" not in self.store.about():
            self._settle_step([path for path, seen in new if seen.fate is Fate.READ])
        kept: dict[str, TableRows] = {}
        is_small = sum(seen.size for _, seen in new) <= _KEPT_BYTES
        times: dict[str, tuple[float, float, float]] = {}
        for path, seen in new:
            table = self._table(path, seen)
            if table is not None:
                ends = float(table.time[0]), float(table.time[-1])
                times[path.name] = (*ends, table.second_pass_s)
                kept |= {path.name: table} if is_small else {}
        self.later = second_passes(
            times,
            self.store.runs(),
            {n: file.first for n, file in known.items() if file.first is not None},
        )
        spans = [
            (times[path.name][0] + self.later[path.name], path, seen)
            for path, seen in new
            if path.name in times
        ]
        now = clock.time()
        wrong = dated_wrongly(
            {path: np.array([first]) for first, path, _ in spans},
            others_are_right=any(
                file.last is not None
                and file.last <= max(file.changed / 1e9, now) + AHEAD_S
                for file in known.values()
            ),
        )
        for _, path, seen in spans:
            if path in wrong:
                self._break(seen, FileError(wrong[path]))
        spans = [span for span in spans if span[1] not in wrong]
        spans.sort(key=lambda span: (span[0], span[1].name))
        waits_for = ""
        for k, (_, path, seen) in enumerate(spans):
            self.progress(Step(StepKind.READING, k, len(spans), path.name))
            if seen.fate is Fate.READ and waits_for:
                note = f"{path.name}: is left for the next time, as it follows "
                seen = replace(
                    seen, fate=Fate.WAITING, digest="", note=f"{note}{waits_for}."
                )
            if seen.fate is Fate.WAITING:
                waits_for = waits_for or path.name
                self._put(seen)
            elif (table := kept.get(path.name) or self._table(path, seen)) is not None:
                self._take(table, path, seen, known.get(path.name))

    def _settle_step(self, paths: Sequence[Path]) -> None:
        """Write the seconds between rows: of the first file that has enough of them.

        A short file may lie across a gap. If none is long enough, the step is that of
        the detector's recordings; without any, the next run looks again.
        """
        step_s = telemetry_of(self.made).step_s
        for path in paths:
            try:
                table = self._reader()(path, None)
            except SightlineError:
                continue
            if len(table.time) >= _ROWS_OF_STEP:
                step_s = table.step_s
                break
        if step_s is not None and paths:
            with self.store.transaction():
                self.store.set_about({"step_s": f"{step_s!r}"})

    def _looked_at(self, path: Path, known: SeenFile | None) -> SeenFile | None:
        try:
            return looked_at(path, known, self.settle_s)
        except FileError as error:
            self._break(
                SeenFile(
                    name=path.name, size=0, changed=0, digest="", fate=Fate.BROKEN
                ),
                error,
            )
            return None

    def _table(self, path: Path, seen: SeenFile) -> TableRows | None:
        """Return the rows of a file; None, and a remark, if it cannot be read."""
        about = self.store.about()
        step, is_utc = about.get("step_s"), about.get("is_utc")
        try:
            table = self._reader()(path, None if step is None else float(step))
            if not len(table.time):
                raise FileError(f"{path}: has no complete row.")
            if is_utc is not None and is_utc != str(int(table.is_utc)):
                raise FileError(
                    f"{path}: its time stamps carry a zone and those of earlier files "
                    "do not, or the reverse: state timezone in plant.toml."
                )
            if self.model is None and len(table.time) >= _ROWS_OF_STEP:
                check_step(step_from(None, table.time), self.made)
            if seen.fate is Fate.READ and _has_changed(path, seen):
                note = f"{path.name}: was written while it was read; it is left for "
                self._put(
                    replace(seen, fate=Fate.WAITING, note=f"{note}the next time.")
                )
                return None
        except SightlineError as error:
            if seen.fate is Fate.WAITING:
                self._put(seen)
            else:
                self._break(seen, error)
            return None
        return table

    def _break(self, seen: SeenFile, error: SightlineError) -> None:
        note = str(error)
        named = note if seen.name in note else f"{seen.name}: {note}"
        self._put(replace(seen, fate=Fate.BROKEN, note=named))

    def _put(self, seen: SeenFile) -> None:
        """Write what became of a file that was not read."""
        with self.store.transaction():
            self.store.put_file(seen)
        self._note(seen)

    def _note(self, seen: SeenFile) -> None:
        self.fates[seen.name] = seen.fate
        if seen.note:
            self.notices.append(seen.note)

    # --- Rows -------------------------------------------------------------------------

    def _take(
        self, table: TableRows, path: Path, seen: SeenFile, known: SeenFile | None
    ) -> None:
        """Let the rows of a file pass through detector and rule: one transaction."""
        table = table.later(self.later[path.name])
        fresh, counts = fresh_rows(table, self.store.runs())
        remarks = _remarks(path, counts, known)
        is_late = counts.late and not counts.taken and not counts.again
        if is_late:
            remarks.append(self._late_words(path))
        note = " ".join([*table.notices, *remarks])
        seen = replace(
            seen,
            fate=Fate.LATE if is_late else seen.fate,
            first=float(table.time[0]),
            last=float(table.time[-1]),
            rows=seen.rows + counts.taken,
            note=note,
        )
        try:
            with self.store.transaction():
                if "is_utc" not in self.store.about():
                    self.store.set_about({"is_utc": f"{table.is_utc:d}"})
                n_alarms = self._pass(fresh) if counts.taken else 0
                self.store.put_file(seen)
        except StreamError as error:
            # What the detector refuses, such as values that are no telemetry of it.
            self._break(seen, error)
            return
        self.n_alarms += n_alarms
        self.texts |= dict.fromkeys(texts_in(table.words))
        self._note(seen)

    def _late_words(self, path: Path) -> str:
        """Return what to do where all rows of a file came too late."""
        runs, now = self.store.runs(), clock.time()
        last, said = float(runs[-1, 1]), f"{path.name}: none of its rows is judged"
        if last <= max(path.stat().st_mtime, now) + AHEAD_S:
            return f"{said}: the last row read is of {stamp(last, self.zone)}."
        good = runs[runs[:, 1] <= now + AHEAD_S, 1]
        back = float(good[-1]) + 3600.0 if len(good) else float(runs[0, 0])
        return (
            f"{said}: the last row read is of {stamp(last, self.zone)}, which lies in "
            "the future. Take the file with that row away, and go back with `sightline "
            f'watch ... --forget-after "{stamp(back, self.zone)}"`.'
        )

    def _pass(self, table: TableRows) -> int:
        """Return how many alarms end; all that is remembered goes into the state."""
        saved = self.store.live()
        gate = self._gate(table.step_s, saved.arrays)
        tags = PlantConditions(
            self.channels, table.step_s, _under("tags/", saved.arrays), gate.holds
        )
        live = LiveRule(
            self.made, _under("rule/", saved.arrays), saved.alarm, saved.stretch
        )
        detector = None
        if self.model is not None:
            memory = _under("detector/", saved.arrays)
            detector = LiveDetector(self.model, self.made, table.step_s, memory)
        runs, last = self.store.runs(), self._last()
        if last is not None and np.isnan(live.last[0]):
            live.last[0] = last
        read = joined(table, last)
        # What was read is read once, watched or not.
        for start, stop in _runs(read[3]):
            first = float(read[0][start]) if read[3][start] else float(runs[-1, 0])
            self.store.put_run(first, float(read[0][stop - 1]))
        watched = gate.watched(*read)
        self.cells += code_table(watched.codes)
        for span in watched.unwatched:
            self.store.add_unwatched(span, table.step_s)
        happenings = [*saved.waiting, *tags.take(watched, table.words)]
        n_ended = 0
        for run in runs_of(watched.time, watched.rows, watched.begins):
            for part in [run] if detector is None else detector.take(run):
                self._put_minutes(part, detector)
                for day in _by_day(part):
                    n_ended += self._take_day(live, day, happenings)
        is_judged_until = np.inf if detector is None else detector.pending
        if not watched.is_watched[-1:].all():
            live.stop(OUTAGE)
            is_judged_until = np.inf
        n_ended += self._put_ended(live)
        happenings = in_order([*happenings, *live.happenings])
        book = self._book()
        for one in happenings:
            if one.time < is_judged_until:
                book.take(one)
        self._put_changes(book)
        arrays = {f"rule/{name}": array for name, array in live.arrays().items()}
        arrays |= {f"gate/{name}": array for name, array in gate.arrays().items()}
        arrays |= {f"tags/{name}": array for name, array in tags.arrays().items()}
        if detector is not None:
            arrays |= {f"detector/{n}": array for n, array in detector.arrays().items()}
        self.store.put_live(
            WatchMemory(
                arrays=arrays,
                alarm=live.alarm,
                stretch=live.stretch,
                waiting=tuple(h for h in happenings if h.time >= is_judged_until),
            )
        )
        return n_ended

    def _put_minutes(self, part: Run, detector: LiveDetector | None) -> None:
        """Remember the last row of each minute, for pictures of alarms."""
        scales = [one.scale for one in self.made.rule.channels]
        if detector is None:
            # What residuals are about is not known: they are expected to be 0.
            factors = np.array([one or 1.0 for one in scales])
            with np.errstate(over="ignore"):
                measured = part.rows * factors
            self.store.put_minutes(part.time, measured, np.zeros_like(part.rows))
        elif part.measured is not None:
            factors = np.array([np.nan if one is None else one for one in scales])
            with np.errstate(over="ignore", invalid="ignore"):
                expected = part.measured - part.rows * factors
            self.store.put_minutes(part.time, part.measured, expected)

    def _gate(
        self, step_s: float, saved: Mapping[str, npt.NDArray[Any]] | None = None
    ) -> Gatekeeper:
        model, made = self.model, self.made
        return Gatekeeper(
            self.channels,
            step_s,
            self.settings,
            None if model is None else telemetry_of(made),
            _under("gate/", saved or {}),
            POOR_S if model is None else memory_s(model, made),
        )

    def _put_ended(self, live: LiveRule) -> int:
        """Write what has ended since the last time; return how many alarms."""
        alarms, stretches = live.alarms, live.stretches
        live.alarms, live.stretches = [], []
        for alarm in alarms:
            self.store.add_episode(alarm)
        for stretch in stretches:
            self.store.add_stretch(stretch)
        return len(alarms)

    def _take_day(self, live: LiveRule, day: Run, happenings: list[Happening]) -> int:
        """Let rows of a day (UTC) pass the rule; return how many alarms end.

        Periods of the promise end between two rows. Whether one is broken is also said
        at the first row of a day. So nothing depends on when files arrive.
        """
        ledger, first, n_ended = self.store.ledger(self.made), 0, self._put_ended(live)
        step_s = self.made.rule.step_s or 1.0
        if ledger.rows and live.last[0] < DAY_S * (day.time[0] // DAY_S):
            kept = ledger.kept(self._load(ledger, live))
            happenings += self._kept(kept, float(day.time[0]))
        while first < len(day.time):
            time = day.time[first:]
            if not ledger.rows:
                ledger = replace(ledger, begins=float(time[0]))
            last = float(live.last[0] if ledger.rows else time[0])
            n = ledger.promise.n_rows(step_s)
            end = period_end(time, ledger.begins, last, ledger.rows, n, step_s)
            part = slice(first, None if end is None else first + end.row)
            if rows := len(day.time[part]):
                begins = day.begins and not first
                live.take(Run(time=day.time[part], rows=day.rows[part], begins=begins))
                self._count(day.time[part], day.rows[part])
                n_ended += self._put_ended(live)
                n_silent = ledger.n_silent + live.n_silent
                ledger = replace(ledger, rows=ledger.rows + rows, n_silent=n_silent)
                first += rows
            if end is not None:
                load, stood = self._load(ledger, live), live.alarm
                ledger = ledger.ended(
                    end,
                    float(day.time[first]),
                    load,
                    self.made.promise,
                    0 if stood is None else stood.rows,
                )
                happenings += self._kept(ledger.past[-1].kept, ledger.begins, end.gap_s)
        self.store.put_ledger(ledger)
        return n_ended

    def _load(self, ledger: Ledger, live: LiveRule) -> AlarmLoad:
        """Return what came since the promise in force began."""
        return load_of(self.store, self.made, ledger, live.alarm)

    def _kept(self, kept: Kept, time: float, gap_s: float = 0.0) -> list[Happening]:
        """Return that the promise is broken from a time on, or no longer."""
        if kept is Kept.UNJUDGED and not gap_s:
            return []
        event = Event.STARTED if kept is Kept.BROKEN else Event.ENDED
        return [
            Happening(
                event=event,
                kind=AlarmKind.PROMISE,
                source=self.made.rule.name,
                time=time,
                why=f"{duration(gap_s)} without data" if gap_s else "",
            )
        ]

    def _count(self, time: Floats, rows: Floats) -> None:
        hours = np.floor(time / 3600).astype(np.int64)
        cuts = np.flatnonzero(np.diff(hours)) + 1
        for hour, part in zip(
            hours[np.append(0, cuts)].tolist(), np.split(rows, cuts), strict=True
        ):
            self.store.add_hour(hour, part)

    # --- What is written --------------------------------------------------------------

    def report(self, out: Path, on_alarm: str | None, rows: CsvRows) -> WatchReport:
        """Write all files from the state, call for each new line, say what was done."""
        silent_s = self._silent_s()
        with self.store.transaction():
            self._put_zone()
            self.store.set_about({"csv": rows})
            if silent_s:
                self._miss_data()
        said = write_log(self.store, out / LOG)
        write_table(self.store, rows, out / TABLE)
        write_incidents(self.store, self.zone, self.store.path.parent / INCIDENTS)
        write_answers(self.store, self.zone, self.store.path.parent / ANSWERS)
        remarks = [*([said] if said else []), *run_hooks(self.store, on_alarm)]
        week = Week.of(self.store, self.made, self.zone)
        write_metrics(week, self.store, self.made, out / METRICS)
        if week is not None:
            off, step_s = sorted(self.own.off), self.made.rule.step_s or 1.0
            frozen = self._gate(step_s).frozen_words()
            write_page(week, off, self._remarks_of(week), frozen, out / PAGE)

        def names(fate: Fate) -> tuple[str, ...]:
            return tuple(name for name, found in self.fates.items() if found is fate)

        return WatchReport(
            read=names(Fate.READ),
            broken=names(Fate.BROKEN),
            late=names(Fate.LATE),
            waiting=names(Fate.WAITING),
            alarms=self.n_alarms,
            notices=(*self.notices, *remarks),
            week=week,
            silent_s=silent_s,
            running=tuple(self._book().running),
            off=tuple(sorted(self.own.off)),
            zone=self.zone,
            readings=reading_words(self.cells, self.channels, [*self.texts]),
            n_waiting=sum(one.is_waiting for one in self.store.alarms()),
        )

    def _miss_data(self) -> None:
        """Raise the alarm that no file arrives, which no row can raise."""
        arrays, book = self.store.live().arrays, self._book()
        last = arrays.get("tags/last", np.array([np.nan]))[0]
        if np.isnan(last):
            return
        step = float(self.store.about().get("step_s", self.made.rule.step_s or 1.0))
        start = float(last) + step
        book.take(
            Happening(
                event=Event.STARTED,
                kind=AlarmKind.NO_DATA,
                source=PLANT,
                time=start + self._longest_silence(),
                start=start,
            )
        )
        self._put_changes(book)

    def _silent_s(self) -> float:
        """Return for how long no file has arrived, if longer than usual."""
        arrived = {name: file.changed for name, file in self.store.files().items()}
        # A file that cannot be read has arrived all the same.
        if arrived != self.arrived_before or not arrived:
            return 0.0
        silent = clock.time() - max(arrived.values()) / 1e9
        return silent if silent > self._longest_silence() else 0.0

    def _longest_silence(self) -> float:
        """Return for how long no file may arrive, in seconds."""
        changed = [file.changed for file in self.store.files().values()]
        steps = np.diff(np.sort(changed)) / 1e9
        usual = float(np.median(steps)) if len(steps) else 0.0
        return max(SILENT_STEPS * usual, SILENT_S)

    def _remarks_of(self, week: Week) -> list[str]:
        """Return remarks about files of the week, and those not read."""
        return [
            file.note
            for file in self.store.files().values()
            if file.note and (file.last is None or file.last >= week.begin)
        ]


def _by_day(run: Run) -> list[Run]:
    """Return a run in pieces, each of which lies within one day (UTC)."""
    cuts = np.flatnonzero(np.diff(np.floor(run.time / DAY_S))) + 1
    edges = [0, *cuts.tolist(), len(run.time)]
    return [
        Run(time=run.time[a:b], rows=run.rows[a:b], begins=run.begins and a == 0)
        for a, b in pairwise(edges)
    ]


def _runs(begins: Bools) -> list[tuple[int, int]]:
    """Return first row and stop of each run."""
    firsts = np.union1d([0], np.flatnonzero(begins)).astype(int).tolist()
    return list(zip(firsts, [*firsts[1:], len(begins)], strict=True))


def _under(
    prefix: str, arrays: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]] | None:
    """Return the arrays whose names begin with a prefix; None if there are none."""
    found = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    return found or None


def _has_changed(path: Path, seen: SeenFile) -> bool:
    try:
        facts = path.stat()
    except OSError:
        return True
    return (facts.st_size, facts.st_mtime_ns) != (seen.size, seen.changed)


def _remarks(path: Path, counts: Fresh, known: SeenFile | None) -> list[str]:
    """Return sentences about rows of a file that were not taken."""
    found = []
    if known is not None and known.fate is Fate.READ:
        found.append(
            f"{path.name}: changed after it was read; only rows after the last one "
            f"were taken ({counts.taken:,})."
        )
    elif counts.again:
        found.append(
            f"{path.name}: {counted(counts.again, 'row', 'repeats', 'repeat')} a time "
            "that was read before; the first counts."
        )
    if counts.late:
        found.append(
            f"{path.name}: {counted(counts.late, 'row', 'lies', 'lie')} before the "
            "last row read and came too late; to have them judged, begin a new state."
        )
    return found
