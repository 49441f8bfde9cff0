"""One cell of a study (a detector on a testbed with a seed), and how far each cell is.

A cell is identified by its content. Everything that its residuals depend on enters
`Cell.key`, so a finished cell is found again by any study that needs the same one.
`Board` holds the status of all cells, and estimates how long the rest will take.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from sightline._version import __version__
from sightline.audit.record import Audit, Finding
from sightline.data.arrays import read_arrays
from sightline.data.recording import AS_MEASURED, Prepared, Recording, Tag
from sightline.data.segments import Attack, KnownEffect
from sightline.errors import FileError
from sightline.evaluation.result import plain
from sightline.files import staged_file, staged_folder, writing
from sightline.progress import Step, StepKind
from sightline.storage.results import folder_name
from sightline.study.plan import EvaluationChoice
from sightline.testbeds import Testbed

# To be raised whenever the same key would give other residuals than before.
FORMAT = 1
# The fields of a cell, besides the telemetry, that its residuals depend on.
_KEY_FIELDS = "plant content kind version preset rule settings resolved seed".split()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a detector learns from, how it is set, and how it is evaluated.

    Parameters
    ----------
    testbed, detector : str
        Their labels in the study.
    plant : str
        The testbed's own name, which selects a detector's settings for it.
    content : str
        Digest of the testbed's two recordings as prepared for training.
    kind : str
        Name of a detector, or ``package.module:Class``.
    version : str
        Version of that detector's code; see `execute_cell.code_version`.
    preset : {"export", "official"}
        How the detector is trained.
    rule : str, optional
        The detector's own alarm rule to export with the stream.
    settings : mapping
        The settings that the plan sets.
    resolved : mapping
        All settings of the detector, defaults included.
    seed : int
        Seed of the training.
    evaluation : EvaluationChoice
        How the stream is evaluated.
    release : str
        Release of the testbed's files.
    digests : mapping
        Digest of each of the testbed's files, by name.
    options : mapping
        Options with which the testbed was opened. Like `release` and `digests` they
        are recorded with the stream and do not enter the key.
    """

    testbed: str
    detector: str
    plant: str
    content: str
    kind: str
    version: str
    preset: str
    rule: str | None
    settings: Mapping[str, Any]
    resolved: Mapping[str, Any]
    seed: int
    evaluation: EvaluationChoice
    release: str
    digests: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the stream and of its results."""
        return cell_name(self.testbed, self.detector, self.seed)

    @property
    def result_name(self) -> str:
        """Name of the folder with the evaluation, with guard and protocol if any."""
        return folder_name(self.name, self.evaluation.guard, self.evaluation.protocol)

    @property
    def key(self) -> str:
        """Digest of everything that the residuals depend on: 32 hex digits."""
        values = [getattr(self, name) for name in _KEY_FIELDS]
        return _digest(FORMAT, *values, self.evaluation.telemetry)

    @property
    def evaluation_key(self) -> str:
        """Digest of everything else that the evaluation depends on."""
        return _digest(
            __version__, self.testbed, self.detector, asdict(self.evaluation)
        )


@dataclass(frozen=True, kw_only=True)
class CellOutcome:
    """How a cell ended.

    Parameters
    ----------
    is_done : bool
        Whether stream and evaluation are in the cache.
    reason : str
        Why the cell failed, in one sentence.
    trace : str
        Traceback of an unexpected error, for a bug report.
    """

    is_done: bool
    reason: str = ""
    trace: str = ""


def cell_name(testbed: str, detector: str, seed: int) -> str:
    """Return the name of a stream and its results in a study.

    Examples
    --------
    >>> cell_name("swat", "gdn", 3)
    'swat-gdn-seed3'
    """
    return f"{testbed}-{detector}-seed{seed}"


def _digest(*values: object) -> str:
    """Return a digest of plain values; the order of keys in a mapping is ignored."""
    text = json.dumps(plain(list(values)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


_WAITING = Step(StepKind.WAITING)


@dataclass
class CellStatus:
    """One cell: its present step, or how it ended.

    Parameters
    ----------
    cell : Cell
        The cell.
    step : Step
        What it is doing.
    share : float, optional
        Share of the step that is done, in [0, 1]; None if unknown.
    started_at : float, optional
        When the cell began, by `time.monotonic`; None while it waits.
    step_started_at, step_started_share : float
        When the present kind of step began, and its share at that time.
    seconds : float, optional
        How long the cell took; None before it has ended.
    outcome : CellOutcome, optional
        How it ended.
    was_cached : bool
        Whether it was in the cache before the study began.
    """

    cell: Cell
    step: Step = _WAITING
    share: float | None = None
    started_at: float | None = None
    step_started_at: float = 0.0
    step_started_share: float = 0.0
    seconds: float | None = None
    outcome: CellOutcome | None = None
    was_cached: bool = False

    @property
    def text(self) -> str:
        """What the cell does, or how it ended, in words."""
        if self.outcome is None:
            return self.step.text
        if self.was_cached:
            return "done before"
        return "done" if self.outcome.is_done else "failed"

    @property
    def is_running(self) -> bool:
        """Whether some process works on the cell."""
        return self.started_at is not None and self.outcome is None

    @property
    def has_failed(self) -> bool:
        """Whether the cell ended without a result."""
        return self.outcome is not None and not self.outcome.is_done

    @property
    def seconds_so_far(self) -> float:
        """Seconds since the cell began; 0 while it waits."""
        return 0.0 if self.started_at is None else time.monotonic() - self.started_at

    def seconds_left(self) -> float | None:
        """Return how long the present step will still take; None if unknown."""
        if not self.is_running or self.share is None:
            return None
        done = self.share - self.step_started_share
        if done <= 0:
            return None
        return (time.monotonic() - self.step_started_at) * (1 - self.share) / done


class Board:
    """The status of all cells of a study.

    Parameters
    ----------
    cells : sequence of Cell
        In the order of the plan; at first every cell waits.

    Attributes
    ----------
    statuses : dict
        The status of each cell, by its name.
    n_slots : int
        How many cells run at the same time.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.statuses = {cell.name: CellStatus(cell) for cell in cells}
        self.n_slots = 1

    def mark_cached(self, cell: Cell) -> None:
        """Record that a cell was in the cache before the study began."""
        status = self.statuses[cell.name]
        status.was_cached = True
        status.outcome = CellOutcome(is_done=True)

    def update(self, cell: Cell, update: Step | CellOutcome) -> None:
        """Record a step of a cell, or how it ended.

        A waiting cell has not begun: a cell whose process died begins again, and its
        time is counted from there.
        """
        status, now = self.statuses[cell.name], time.monotonic()
        if isinstance(update, CellOutcome):
            status.seconds = status.seconds_so_far
            status.outcome, status.share = update, None
            return
        if update.kind is StepKind.WAITING:
            status.started_at, status.step, status.share = None, update, None
            return
        if status.started_at is None:
            status.started_at = now
        share = update.done / update.total if update.total else None
        # The next epoch continues a step; going back in the share starts a new one.
        went_back = (share or 0) < (status.share or 0)
        if update.kind is not status.step.kind or went_back:
            status.step_started_at, status.step_started_share = now, share or 0.0
        status.step, status.share = update, share

    def seconds_left(self) -> float | None:
        """Return how long the study will still take.

        Each open cell is assumed to take as long as ended cells of the same detector,
        on the same testbed if there are any. None while a detector has no ended cell.
        """
        left = 0.0
        for status in self.statuses.values():
            if status.outcome is not None:
                continue
            usual = self._usual_seconds(status.cell)
            if usual is None:
                return None
            usual_left = usual - status.seconds_so_far
            left += max(usual_left, status.seconds_left() or 0.0, 1.0)
        return left / self.n_slots

    def _usual_seconds(self, cell: Cell) -> float | None:
        """Return the mean time of ended cells of the same detector."""
        ended = [
            (other.cell.testbed, other.seconds)
            for other in self.statuses.values()
            if other.seconds is not None and other.cell.detector == cell.detector
        ]
        same = [seconds for testbed, seconds in ended if testbed == cell.testbed]
        times = same or [seconds for _, seconds in ended]
        return sum(times) / len(times) if times else None

    @property
    def failed(self) -> dict[str, CellOutcome]:
        """The outcome of each cell that failed, by the name of the cell."""
        return {
            name: status.outcome
            for name, status in self.statuses.items()
            if status.outcome is not None and not status.outcome.is_done
        }

    @property
    def text(self) -> str:
        """How many cells are done, running and failed, in words."""
        ended = [s for s in self.statuses.values() if s.outcome is not None]
        n_running = sum(s.is_running for s in self.statuses.values())
        n_cached = sum(s.was_cached for s in ended)
        n_failed = len(self.failed)
        words = f"{len(ended) - n_failed} of {len(self.statuses)} cells done"
        words += f" ({n_cached} before)" if n_cached else ""
        words += f", {n_running} running"
        return words + (f", {n_failed} failed" if n_failed else "")


# Seconds between two attempts to take a lock that another process holds.
_RETRY_S = 1.0
_SERIES = ("values", "labels", "time", "breaks")
_PARTS = ("train", "test")
_SIZES = "sizes.json"
_AUDIT = "audit.json"
_TRUTH = "truth.json"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class RecordedTestbed:
    """What a study records about a testbed that it has opened.

    Parameters
    ----------
    name, release : str
        The testbed's own name and the release of its files.
    content : str
        Digest of both recordings as prepared: the name of their folder in a cache.
    digests : mapping
        Digest of each file that was read, by name.
    notices : tuple of str
        Sentences about the files that a reader should see.
    n_train, n_test, n_channels, n_attacks : int
        Steps of the two recordings, channels, and attacks in test.
    n_bytes : int
        Size of both recordings in memory.
    findings : tuple of Finding
        What the audit found in the recordings.
    truth : tuple of KnownEffect
        What each attack does to the recorded values, of a simulated testbed.
    prepared : Prepared
        What the testbed's options did to the rows of train.
    """

    name: str
    release: str
    content: str
    digests: Mapping[str, str]
    notices: tuple[str, ...]
    n_train: int
    n_test: int
    n_channels: int
    n_attacks: int
    n_bytes: int
    findings: tuple[Finding, ...] = ()
    truth: tuple[KnownEffect, ...] = ()
    prepared: Prepared = AS_MEASURED

    @classmethod
    def of(cls, testbed: Testbed, audit: Audit) -> "RecordedTestbed":
        """Return the record of an opened testbed."""
        return cls(
            name=testbed.name,
            release=testbed.release,
            content=_content(testbed),
            digests=dict(testbed.digests),
            notices=testbed.notices,
            n_train=testbed.train.n_steps,
            n_test=testbed.test.n_steps,
            n_channels=len(testbed.train.tags),
            n_attacks=len(testbed.test.attacks),
            n_bytes=testbed.train.values.nbytes + testbed.test.values.nbytes,
            findings=audit.findings,
            truth=testbed.truth,
            prepared=testbed.train.prepared,
        )


class Cache:
    """A folder of testbeds and cells, each filed by its content.

    Parameters
    ----------
    folder : path
        The folder; it need not exist yet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def stream(self, cell: Cell) -> Path:
        """Return the path of a cell's residual stream."""
        return self._cell(cell) / "stream.npz"

    def result(self, cell: Cell) -> Path:
        """Return the folder of a cell's evaluation."""
        return self._evaluations(cell) / cell.result_name

    def is_done(self, cell: Cell) -> bool:
        """Return whether both the stream and the evaluation of a cell exist."""
        return self.stream(cell).exists() and self.result(cell).exists()

    def work(self, cell: Cell) -> Path:
        """Return the folder for the checkpoints of a cell that is under way."""
        return self.folder / "work" / cell.key

    def testbed(self, content: str) -> Path:
        """Return the folder of a testbed's recordings, by their digest."""
        return self.folder / "testbeds" / content

    @contextmanager
    def locked(self, key: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold a lock while the body runs.

        Parameters
        ----------
        key : str
            Name of the lock.
        waiting : callable
            Called about once a second while another process holds the lock.
        """
        from filelock import FileLock, Timeout

        path = self.folder / "locks" / f"{key}.lock"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                waiting()
                time.sleep(_RETRY_S)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def new_cell(self, cell: Cell) -> Iterator[Path]:
        """Give a folder for a cell's stream; it appears complete or not at all."""
        with staged_folder(self._cell(cell), whole=True) as partial:
            yield partial
            # Each study links to these: writing to the link must not change them.
            for name in ("stream.npz", "detector.npz"):
                if (partial / name).is_file():
                    (partial / name).chmod(0o444)
            text = msgspec.json.encode(cell, enc_hook=plain, order="sorted")
            (partial / "cell.json").write_bytes(
                msgspec.json.format(text, indent=1) + b"\n"
            )
        # The checkpoints are of no more use.
        shutil.rmtree(self.work(cell), ignore_errors=True)

    @contextmanager
    def new_result(self, cell: Cell) -> Iterator[Path]:
        """Give a folder for a cell's evaluation; it appears complete or not at all."""
        with staged_folder(self._evaluations(cell), whole=True) as partial:
            yield partial

    def add_testbed(self, testbed: Testbed, audit: Audit) -> RecordedTestbed:
        """Write a testbed's facts, and its recordings unless they are complete here."""
        recorded = RecordedTestbed.of(testbed, audit)
        folder = self.testbed(recorded.content)
        with self.locked(f"testbed-{recorded.content}", lambda: None):
            if not self._is_complete(recorded.content):
                with staged_folder(folder, whole=True) as partial:
                    sizes = {}
                    for part in _PARTS:
                        path = partial / f"{part}.npz"
                        arrays = _arrays(getattr(testbed, part))
                        with open(path, "wb") as handle:
                            np.savez(handle, allow_pickle=False, **arrays)
                        sizes[path.name] = path.stat().st_size
                    text = json.dumps(sizes) + "\n"
                    (partial / _SIZES).write_text(text, encoding="utf-8")
            for name, facts in ((_AUDIT, audit), (_TRUTH, testbed.truth)):
                with staged_file(folder / name) as path:
                    path.write_bytes(msgspec.json.encode(facts) + b"\n")
        return recorded

    def _is_complete(self, content: str) -> bool:
        """Return whether both recordings exist and have the size that was written."""
        folder = self.testbed(content)
        try:
            text = (folder / _SIZES).read_bytes()
            sizes = msgspec.json.decode(text, type=dict[str, int])
            return set(sizes) == {f"{part}.npz" for part in _PARTS} and all(
                (folder / name).stat().st_size == size for name, size in sizes.items()
            )
        except (OSError, ValueError, msgspec.DecodeError):
            return False

    def recordings(self, content: str) -> tuple[Recording, Recording]:
        """Return train and test of a testbed, equal to the last bit to the original.

        Raises
        ------
        FileError
            If a file is missing or damaged.
        """
        train, test = (
            _read_recording(self.testbed(content) / f"{part}.npz") for part in _PARTS
        )
        return train, test

    def audit(self, content: str) -> Audit:
        """Return the audit of a testbed.

        Raises
        ------
        FileError
            If its file is missing or damaged.
        """
        return _read_facts(self.testbed(content) / _AUDIT, Audit)

    def truth(self, content: str) -> tuple[KnownEffect, ...]:
        """Return what is known about each attack of a testbed; empty if nothing is.

        Raises
        ------
        FileError
            If its file is missing or damaged.
        """
        return _read_facts(self.testbed(content) / _TRUTH, tuple[KnownEffect, ...])

    def _cell(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.key

    def _evaluations(self, cell: Cell) -> Path:
        return self.folder / "evaluations" / f"{cell.key}-{cell.evaluation_key}"


def _read_facts(path: Path, kind: type[_T]) -> _T:
    """Return the record in a JSON file; `FileError` if it is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise FileError(f"{path}: is damaged: run the study again.") from error


def _content(testbed: Testbed) -> str:
    """Return the digest of a testbed's name and of every array of its recordings."""
    digest = hashlib.sha256(testbed.name.encode())
    for part in _PARTS:
        for name, array in sorted(_arrays(getattr(testbed, part)).items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()[:32]


def _arrays(recording: Recording) -> dict[str, npt.NDArray[Any]]:
    """Return a recording as arrays: up to four series, and one text for the rest.

    The digest of a testbed is computed from these arrays, so they must not change
    without need: every cell of every cache would be computed again.
    """
    series = {name: getattr(recording, name) for name in _SERIES}
    about: dict[str, Any] = {
        "tags": [
            # A range that is not known is left out.
            {
                name: value
                for name, value in asdict(tag).items()
                if name not in ("low", "high", "resolution") or value is not None
            }
            for tag in recording.tags
        ],
        "attacks": [asdict(attack) for attack in recording.attacks],
        "step_s": recording.step_s,
        "source": recording.source,
    }
    if recording.timezone is not None:
        about["timezone"] = recording.timezone
    if recording.label_slop_s is not None:
        about["label_slop_s"] = recording.label_slop_s
    if recording.prepared != AS_MEASURED:
        about["prepared"] = asdict(recording.prepared)
    if recording.parts > 1:
        about["parts"] = recording.parts
    # As bytes: numpy's own text type drops zeros at the end.
    text = json.dumps(about, sort_keys=True).encode()
    return {name: array for name, array in series.items() if array is not None} | {
        "about": np.frombuffer(text, np.uint8)
    }


@dataclass(frozen=True, kw_only=True)
class _About:
    """Everything of a recording but its series, as stored in JSON."""

    tags: tuple[Tag, ...]
    attacks: tuple[Attack, ...]
    step_s: float | None
    source: str
    timezone: str | None = None
    label_slop_s: float | None = None
    prepared: Prepared = AS_MEASURED
    parts: int = 1


def _read_recording(path: Path) -> Recording:
    """Return the recording that `_arrays` describes; `FileError` if it is damaged."""
    try:
        arrays = read_arrays(path)[0]
        about = msgspec.json.decode(arrays["about"].tobytes(), type=_About)
        return Recording(
            values=arrays["values"],
            labels=arrays["labels"],
            breaks=arrays["breaks"],
            time=arrays.get("time"),
            **vars(about),
        )
    except (FileError, KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path}: is damaged: delete {path.parent} and run the study again."
        ) from error
