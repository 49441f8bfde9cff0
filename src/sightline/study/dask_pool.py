"""Cells on a Dask cluster that already runs.

Each cell is a task. A worker gives it a process of its own, so that the threads of a
worker do not share torch's random numbers. If a worker dies, the scheduler runs its
cells on another one, where they continue from their checkpoints in the shared cache.
"""

import os
import queue
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from sightline.cluster import check_workers, connected
from sightline.errors import FileError
from sightline.files import brief
from sightline.progress import Step
from sightline.study.cell import Cell, Outcome
from sightline.study.process_pool import (
    MOST_DEATHS,
    CellProcess,
    ProcessDiedError,
    Watcher,
)
from sightline.study.status import Board

if TYPE_CHECKING:
    from distributed import Client, Future


def run_on_cluster(
    cells: Sequence[Cell], cache: Path, address: str, watch: Watcher, board: Board
) -> None:
    """Run cells on the workers of a cluster; return when all have ended.

    Parameters
    ----------
    cells : sequence of Cell
        What to run.
    cache : Path
        Folder of the cache; all workers must see it under the same path.
    address : str
        Address of the scheduler, such as ``tcp://10.0.0.5:8786``.
    watch : callable
        Called from this thread alone, for each step and for the outcome of each cell.
    board : Board
        Its `n_slots` becomes the number of threads of the workers.

    Raises
    ------
    FileError
        If no scheduler answers, or a worker lacks Sightline or the cache.
    """
    if not cells:
        return
    with connected(address) as client:
        cache = cache.absolute()
        check_workers(client, address, [])
        _check_shared(client, cache)
        board.n_slots = max(sum(client.nthreads().values()), 1)
        topic = f"sightline-{uuid4().hex}"
        events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        client.subscribe_topic(topic, lambda event: events.put(tuple(event[1])))
        futures: list[Future[Outcome]] = []
        for cell in cells:
            key = f"{topic}-{cell.name}"
            future = client.submit(
                _run_on_worker, cell, str(cache), topic, key=key, pure=False
            )
            futures.append(future)
            future.add_done_callback(
                lambda ended, name=cell.name: events.put((name, ended))
            )
        try:
            _pass_on({cell.name: cell for cell in cells}, events, watch)
        finally:
            client.unsubscribe_topic(topic)
            client.cancel(futures, force=True)


def _pass_on(
    open_cells: dict[str, Cell],
    events: "queue.SimpleQueue[tuple[str, Any]]",
    watch: Watcher,
) -> None:
    """Pass steps and outcomes to `watch` until every cell has ended."""
    while open_cells:
        name, event = events.get()
        if name not in open_cells:
            continue
        if isinstance(event, str):
            watch(open_cells[name], msgspec.json.decode(event, type=Step))
        else:
            watch(open_cells.pop(name), _outcome(event))


def _outcome(ended: "Future[Outcome]") -> Outcome:
    """Return how the task of a cell ended, also if the scheduler gave it up."""
    try:
        return ended.result(timeout=30)
    except Exception as error:
        return Outcome(
            is_done=False,
            reason=f"The cluster gave it up ({type(error).__name__}: {brief(error)}).",
        )


def _run_on_worker(cell: Cell, cache: str, topic: str) -> Outcome:
    """Run a cell in a process of its own, on the worker that executes this task."""
    from distributed import get_worker

    worker = get_worker()

    def progress(step: Step) -> None:
        worker.log_event(topic, (cell.name, msgspec.json.encode(step).decode()))

    reason = ""
    for _ in range(MOST_DEATHS):
        process = CellProcess()
        try:
            return process.run(cell, Path(cache), progress)
        except ProcessDiedError as death:
            reason = (
                f"Its process on {worker.address} died {MOST_DEATHS} times ({death}), "
                "most likely for lack of memory: give the worker fewer threads."
            )
        finally:
            process.close()
    return Outcome(is_done=False, reason=reason)


def _check_shared(client: "Client", cache: Path) -> None:
    """Raise `FileError` if some worker does not see the folder of the cache."""
    mark = cache / f".seen-{uuid4().hex}"
    cache.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        seen: dict[str, bool] = client.run(os.path.exists, str(mark))
    finally:
        mark.unlink()
    blind = [address for address, does in seen.items() if not does]
    if blind:
        raise FileError(
            f"{cache}: worker {blind[0]} does not see this folder: name one that all "
            "workers share, with --cache."
        )
