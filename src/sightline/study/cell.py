"""One cell of a study (a detector on a testbed with a seed), and how far each cell is.

A cell is identified by its content. Everything that its residuals depend on enters
`Cell.key`, so a finished cell is found again by any study that needs the same one.
`Board` holds the status of all cells, and estimates how long the rest will take.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sightline._version import __version__
from sightline.evaluation.result import plain
from sightline.progress import Step, StepKind
from sightline.storage.results import folder_name
from sightline.study.plan import EvaluationChoice

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
class Outcome:
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
    outcome : Outcome, optional
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
    outcome: Outcome | None = None
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
        status.outcome = Outcome(is_done=True)

    def update(self, cell: Cell, update: Step | Outcome) -> None:
        """Record a step of a cell, or how it ended.

        A waiting cell has not begun: a cell whose process died begins again, and its
        time is counted from there.
        """
        status, now = self.statuses[cell.name], time.monotonic()
        if isinstance(update, Outcome):
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
    def failed(self) -> dict[str, Outcome]:
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
