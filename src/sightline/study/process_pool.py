"""Cells on this machine: as many processes as its cores and memory can hold."""

import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from sightline.progress import Step, StepKind
from sightline.study.cell import Cell, Outcome
from sightline.study.worker import CellProcess, ProcessDiedError

# Told what a cell is doing, or how it ended.
Watcher = Callable[[Cell, Step | Outcome], None]
# A cell whose process dies this often is given up.
MOST_DEATHS = 3
# Bytes for torch and its like, and for each byte of a testbed: copies made scaled, in
# windows, as residuals, as energy.
_ALONE_BYTES = 7e8
_BYTES_PER_BYTE = 6


def run_locally(
    cells: Sequence[Cell], cache: Path, n_processes: int, watch: Watcher
) -> None:
    """Carry out cells in several processes; return when all have ended.

    `watch` is called from this thread alone.
    """
    pool = _Pool(cache, cells, min(n_processes, len(cells)))
    try:
        left = len(cells)
        while left:
            cell, said = pool.news.get()
            watch(cell, said)
            left -= isinstance(said, Outcome)
    finally:
        pool.close()


class _Pool:
    """Processes at work, each with a thread that waits for its news."""

    def __init__(self, cache: Path, cells: Sequence[Cell], n_processes: int) -> None:
        self.cache = cache
        self.news: queue.SimpleQueue[tuple[Cell, Step | Outcome]] = queue.SimpleQueue()
        # With each cell, how often its process has died; None when all is over.
        self._waiting: queue.SimpleQueue[tuple[Cell, int] | None] = queue.SimpleQueue()
        for cell in cells:
            self._waiting.put((cell, 0))
        self._is_closed = False
        self._processes: dict[int, CellProcess] = {}
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(k,)) for k in range(n_processes)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        with self._lock:
            self._is_closed = True
            for process in self._processes.values():
                process.kill()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, k: int) -> None:
        while (asked := self._waiting.get()) is not None and not self._is_closed:
            cell, n_deaths = asked
            try:
                self.news.put((cell, self._run(k, cell)))
            except ProcessDiedError as death:
                self._end(k)
                self._mourn(cell, n_deaths + 1, death)
        self._end(k)

    def _run(self, k: int, cell: Cell) -> Outcome:
        with self._lock:
            if self._is_closed:
                raise ProcessDiedError("it was not begun")
            if k not in self._processes:
                self._processes[k] = CellProcess()
            process = self._processes[k]
        return process.run(cell, self.cache, lambda step: self.news.put((cell, step)))

    def _end(self, k: int) -> None:
        with self._lock:
            process = self._processes.pop(k, None)
        if process is not None:
            process.close()

    def _mourn(self, cell: Cell, n_deaths: int, death: ProcessDiedError) -> None:
        """Let a cell wait for another process, unless it has outlived too many."""
        if n_deaths < MOST_DEATHS:
            self.news.put(
                (cell, Step(StepKind.WAITING, detail="because its process died"))
            )
            self._waiting.put((cell, n_deaths))
            return
        reason = (
            f"Its process died {n_deaths} times ({death}), most likely for want of "
            "memory: run fewer cells at a time, with --workers 1."
        )
        self.news.put((cell, Outcome(is_done=False, reason=reason)))


def processes_that_fit(n_bytes: int) -> int:
    """Return how many cells this machine can hold, given the largest testbed's size."""
    each = _ALONE_BYTES + _BYTES_PER_BYTE * n_bytes
    memory = _free_memory()
    n_fit = n_cores() if memory is None else int(memory // each)
    return max(1, min(n_cores(), n_fit))


def n_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _free_memory() -> float | None:
    """Return the bytes nobody uses, as far as the system tells; None if it does not."""
    known = []
    for path, word in (
        ("/proc/meminfo", "MemAvailable:"),
        ("/sys/fs/cgroup/memory.max", ""),
    ):
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        for line in lines:
            number = line.removeprefix(word).split()[0]
            if line.startswith(word) and number.isdecimal():
                known.append(float(number) * (1024 if word else 1))
    return min(known, default=None)
