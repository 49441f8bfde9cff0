"""A rule that watches a folder: for cron, from file to file, killed at any moment.

Every run reads the files of the folder that it has not read yet, in order of their
time. A file is one transaction of the state: either all that follows from it is in the
state, or nothing. Page, metrics and lines are made from the state alone, so that a run
that was killed leaves nothing that the next one does not put right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.data.recording import step_from
from sightline.detectors.base import LearnedDetector
from sightline.errors import FileError, SightlineError, StreamError
from sightline.files import sole_writer
from sightline.operation.live import LiveDetector, LiveRule, runs_of
from sightline.operation.telemetry import (
    SETTLE_S,
    Fresh,
    ResidualReader,
    TableReader,
    TableRows,
    TelemetryReader,
    check_step,
    detector_of,
    export_settings,
    exports_in,
    fresh_rows,
    joined,
    looked_at,
    telemetry_of,
)
from sightline.operation.watch_state import Fate, SeenFile, WatchMemory, WatchState
from sightline.operation.week import Week, write_lines, write_metrics, write_page
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.file import RULE_FILE, file_digest, read_rule
from sightline.rules.judging import Kept
from sightline.rules.making import MadeRule
from sightline.text import counted

PAGE: Final = "week.html"
METRICS: Final = "sightline.prom"
LINES: Final = "episodes.jsonl"
# New files together up to this many bytes are read once and kept until their turn.
_KEPT_BYTES: Final = 64 << 20

# Rows that are enough to tell their usual step from gaps.
_ROWS_OF_STEP: Final = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchReport:
    """What one run of a watch did.

    Parameters
    ----------
    read, broken, waiting : tuple of str
        Names of files that were read, cannot be read, or are left for the next time.
    alarms : int
        Alarms that ended in this run.
    notices : tuple of str
        Sentences about files, in the order in which they came up.
    week : Week, optional
        The last seven days; None before the first row.
    """

    read: tuple[str, ...]
    broken: tuple[str, ...]
    waiting: tuple[str, ...]
    alarms: int
    notices: tuple[str, ...]
    week: Week | None

    @property
    def is_broken(self) -> bool:
        """Whether the last seven days broke the promise."""
        return self.week is not None and self.week.kept is Kept.BROKEN


def watch_folder(
    rule: str | Path,
    folder: str | Path,
    state: str | Path,
    *,
    detector: str | Path | None = None,
    residuals: bool = False,
    out: str | Path | None = None,
    settle_s: float = SETTLE_S,
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
        Folder for page, metrics and lines; by default that of the state.
    settle_s : float
        A file that changed within this many seconds is left for the next run.
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
    with sole_writer(state_path):
        store = WatchState(state_path, len(made.rule.channels))
        try:
            about = {
                "rule": file_digest(path),
                "detector": "" if saved is None or model is None else saved.sha256,
            }
            with store.intact():
                known = store.about()
                for key, value in about.items():
                    if known.get(key, value) != value:
                        raise FileError(
                            f"{store.path}: was made with another {key}: name a new "
                            "file with --state, for alarms of two rules cannot be "
                            "joined."
                        )
                if not known:
                    with store.transaction():
                        store.set_about(about)
                watch = _WatchRun(store, made, model, folder, settle_s, progress)
                watch.read_new()
                return watch.report(Path(out) if out is not None else state_path.parent)
        finally:
            store.close()


class _WatchRun:
    """One run of a watch."""

    def __init__(
        self,
        store: WatchState,
        made: MadeRule,
        model: LearnedDetector | None,
        folder: Path,
        settle_s: float,
        progress: Progress,
    ) -> None:
        self.store, self.made, self.model = store, made, model
        self.folder, self.settle_s, self.progress = folder, settle_s, progress
        self.settings = export_settings(folder, made)
        self.notices: list[str] = []
        self.fates: dict[str, Fate] = {}
        self.n_alarms = 0

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

    # --- Files ------------------------------------------------------------------------

    def read_new(self) -> None:
        """Read all files that are new, in order of time."""
        known = self.store.files()
        new = [
            (path, seen)
            for path in exports_in(self.folder)
            if (seen := self._looked_at(path, known.get(path.name))) is not None
        ]
        if self.model is not None and "step_s" not in self.store.about():
            self._settle_step([path for path, seen in new if seen.fate is Fate.READ])
        kept: dict[str, TableRows] = {}
        is_small = sum(seen.size for _, seen in new) <= _KEPT_BYTES
        spans = []
        for path, seen in new:
            table = self._table(path, seen)
            if table is not None:
                spans.append((float(table.time[0]), path, seen))
                kept |= {path.name: table} if is_small else {}
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
        fresh, counts = fresh_rows(table, self.store.runs())
        note = " ".join([*table.notices, *_remarks(path, counts, known)])
        seen = replace(
            seen,
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
        self._note(seen)

    def _pass(self, table: TableRows) -> int:
        """Return how many alarms end; all that is remembered goes into the state."""
        saved = self.store.live()
        live = LiveRule(
            self.made, _under("rule/", saved.arrays), saved.alarm, saved.stretch
        )
        detector = None
        if self.model is not None:
            memory = _under("detector/", saved.arrays)
            detector = LiveDetector(self.model, self.made, table.step_s, memory)
        runs = self.store.runs()
        last = float(runs[-1, 1]) if len(runs) else None
        time, rows, begins = joined(table, last)
        for run in runs_of(time, rows, begins):
            first = float(run.time[0]) if run.begins else float(runs[-1, 0])
            self.store.put_run(first, float(run.time[-1]))
            for part in [run] if detector is None else detector.take(run):
                live.take(part)
                self._count(part.time, part.rows)
        for alarm in live.alarms:
            self.store.add_episode(alarm)
        for stretch in live.stretches:
            self.store.add_stretch(stretch)
        arrays = {f"rule/{name}": array for name, array in live.arrays().items()}
        if detector is not None:
            arrays |= {f"detector/{n}": array for n, array in detector.arrays().items()}
        self.store.put_live(
            WatchMemory(arrays=arrays, alarm=live.alarm, stretch=live.stretch)
        )
        return len(live.alarms)

    def _count(self, time: Floats, rows: Floats) -> None:
        hours = np.floor(time / 3600).astype(np.int64)
        cuts = np.flatnonzero(np.diff(hours)) + 1
        for hour, part in zip(
            hours[np.append(0, cuts)].tolist(), np.split(rows, cuts), strict=True
        ):
            self.store.add_hour(hour, part)

    # --- What is written --------------------------------------------------------------

    def report(self, out: Path) -> WatchReport:
        """Write page, metrics and lines from the state, and return what was done."""
        week = Week.of(self.store, self.made, self.zone)
        again = write_lines(
            self.store.episodes(), self.made.rule, self.zone, out / LINES
        )
        write_metrics(week, self.store, self.made, out / METRICS)
        if week is not None:
            write_page(week, self._remarks_of(week), out / PAGE)

        def names(fate: Fate) -> tuple[str, ...]:
            return tuple(name for name, found in self.fates.items() if found is fate)

        return WatchReport(
            read=names(Fate.READ),
            broken=names(Fate.BROKEN),
            waiting=names(Fate.WAITING),
            alarms=self.n_alarms,
            notices=(*self.notices, *([again] if again else [])),
            week=week,
        )

    def _remarks_of(self, week: Week) -> list[str]:
        """Return remarks about files of the week, and those not read."""
        return [
            file.note
            for file in self.store.files().values()
            if file.note and (file.last is None or file.last >= week.begin)
        ]


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
