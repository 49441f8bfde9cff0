"""Where each cell of a study stands, for whoever watches."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sightline.progress import Step, StepKind
from sightline.study.cell import Cell, Outcome

_WAITING = Step(StepKind.WAITING)


@dataclass
class Standing:
    """One cell: what it is doing, how far that is, since when."""

    cell: Cell
    step: Step = _WAITING
    share: float | None = None
    began: float | None = None
    step_began: float = 0.0
    step_share: float = 0.0
    seconds: float | None = None
    outcome: Outcome | None = None
    was_known: bool = False

    @property
    def doing(self) -> str:
        """What the cell does, or how it ended, in words."""
        if self.outcome is None:
            return self.step.text
        if self.was_known:
            return "done before"
        return "done" if self.outcome.is_done else "failed"

    @property
    def is_running(self) -> bool:
        """Whether somebody is at it."""
        return self.began is not None and self.outcome is None


@dataclass
class Board:
    """All cells of a study, in the order of the plan."""

    standings: dict[str, Standing]
    n_slots: int = 1
    clock: Callable[[], float] = field(default=time.monotonic)

    @classmethod
    def of(cls, cells: Sequence[Cell], **known: object) -> "Board":
        """Return a board on which every cell waits."""
        return cls({cell.name: Standing(cell) for cell in cells}, **known)  # type: ignore[arg-type]

    def was_done(self, cell: Cell) -> None:
        """Note that a cell is in the cache already."""
        standing = self.standings[cell.name]
        standing.was_known = True
        standing.outcome = Outcome(is_done=True)

    def take(self, cell: Cell, said: Step | Outcome) -> None:
        """Take in what is heard of a cell."""
        standing, now = self.standings[cell.name], self.clock()
        if isinstance(said, Outcome):
            standing.outcome, standing.share = said, None
            standing.seconds = 0.0 if standing.began is None else now - standing.began
            return
        if said.kind is StepKind.WAITING:
            standing.began, standing.step, standing.share = None, said, None
            return
        if standing.began is None:
            standing.began = now
        share = said.done / said.total if said.total else None
        # An epoch is not a new step; going back is.
        is_new = said.kind is not standing.step.kind or (share or 0) < (
            standing.share or 0
        )
        if is_new:
            standing.step_began, standing.step_share = now, share or 0.0
        standing.step, standing.share = said, share

    def seconds_left(self, standing: Standing) -> float | None:
        """Return how long the present step of a cell will still take."""
        if not standing.is_running or standing.share is None:
            return None
        done = standing.share - standing.step_share
        if done <= 0:
            return None
        return (self.clock() - standing.step_began) * (1 - standing.share) / done

    def whole_seconds_left(self) -> float | None:
        """Return how long all cells will take; None until like ones have ended."""
        left = 0.0
        for standing in self.standings.values():
            if standing.outcome is not None:
                continue
            usual = self._usual(standing.cell)
            if usual is None:
                return None
            so_far = 0.0 if standing.began is None else self.clock() - standing.began
            left += max(usual - so_far, self.seconds_left(standing) or 0.0, 1.0)
        return left / self.n_slots

    def _usual(self, cell: Cell) -> float | None:
        """Return how long ended cells of the same detector took."""
        ended = [
            other
            for other in self.standings.values()
            if other.seconds is not None and other.cell.detector == cell.detector
        ]
        here = [other for other in ended if other.cell.testbed == cell.testbed]
        times = [other.seconds for other in here or ended if other.seconds is not None]
        return sum(times) / len(times) if times else None

    @property
    def failed(self) -> list[Standing]:
        """The cells that failed."""
        return [
            standing
            for standing in self.standings.values()
            if standing.outcome is not None and not standing.outcome.is_done
        ]

    def count(self) -> str:
        """Return how many cells stand where, in words."""
        ended = [s for s in self.standings.values() if s.outcome is not None]
        running = sum(s.is_running for s in self.standings.values())
        known = sum(s.was_known for s in ended)
        words = [f"{len(ended) - len(self.failed)} of {len(self.standings)} cells done"]
        if known:
            words[0] += f" ({known} before)"
        words.append(f"{running} running")
        if self.failed:
            words.append(f"{len(self.failed)} failed")
        return ", ".join(words)
