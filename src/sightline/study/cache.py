"""Where finished cells are kept, and cells at work leave what they can be resumed from.

A cell appears whole, by one rename, or not at all. Several studies, on this machine or
on others that see the same folder, may share one cache: whoever works at a cell holds
its lock, which the operating system takes away from a process that dies.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sightline.files import staged_folder, writing
from sightline.study.cell import Cell

# Seconds between two looks at a lock that somebody else holds.
_LOOK_AGAIN_S = 1.0


class Cache:
    """A folder of testbeds and cells, each called by its content."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.testbeds = self.folder / "testbeds"

    def stream(self, cell: Cell) -> Path:
        """Return where the residuals of a cell are."""
        return self._cell(cell) / "stream.npz"

    def result(self, cell: Cell) -> Path:
        """Return where the evaluation of a cell is."""
        return self._evaluations(cell) / cell.result_name

    def is_done(self, cell: Cell) -> bool:
        """Tell whether nothing is left to do for a cell."""
        return self.stream(cell).exists() and self.result(cell).exists()

    def work(self, cell: Cell) -> Path:
        """Return the folder for what a cell leaves behind while it is at work."""
        return self.folder / "work" / cell.key

    @contextmanager
    def locked(self, key: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold a lock; `waiting` is called as long as somebody else does."""
        from filelock import FileLock, Timeout

        place = self.folder / "locks" / f"{key}.lock"
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(place)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                waiting()
                time.sleep(_LOOK_AGAIN_S)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def new_cell(self, cell: Cell) -> Iterator[Path]:
        """Give a folder to put a cell's stream into; it appears whole or not at all."""
        with staged_folder(self._cell(cell), whole=True) as partial:
            yield partial
            # It gets a second name in each study: nobody may write into it by that.
            (partial / "stream.npz").chmod(0o444)
            about = json.dumps(cell.to_dict(), indent=1, sort_keys=True)
            (partial / "cell.json").write_text(about + "\n", encoding="utf-8")
        # Nothing is left to be taken up.
        shutil.rmtree(self.work(cell), ignore_errors=True)

    @contextmanager
    def new_result(self, cell: Cell) -> Iterator[Path]:
        """Give a folder to put a cell's evaluation into."""
        with staged_folder(self._evaluations(cell), whole=True) as partial:
            yield partial

    def _cell(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.key

    def _evaluations(self, cell: Cell) -> Path:
        return self.folder / "evaluations" / f"{cell.key}-{cell.evaluation_key}"
