"""Cells on a Dask cluster that the user already has.

Each cell is a task; a worker gives it a process of its own, so that the threads of a
worker do not share torch's random numbers. The scheduler runs the cells of a worker
that died on another one, where they go on from their checkpoints in the shared cache.
"""

import queue
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sightline.cluster import check_workers, connected
from sightline.errors import FileError
from sightline.files import brief
from sightline.progress import step_from
from sightline.study.cell import Cell, Outcome
from sightline.study.process_pool import Watcher
from sightline.study.status import Board
from sightline.study.worker import CellProcess, ProcessDiedError

if TYPE_CHECKING:
    from distributed import Client

# Times that the worker of a cell may die before the cell is given up.
MOST_DEATHS = 3


def run_on_cluster(
    cells: Sequence[Cell], cache: Path, address: str, watch: Watcher, board: Board
) -> None:
    """Carry out cells on the workers of a cluster; return when all have ended.

    `watch` is called from this thread alone.
    """
    if not cells:
        return
    from distributed import Future

    with connected(address) as client:
        cache = cache.absolute()
        check_workers(client, address, [])
        _check_shared(client, cache)
        board.n_slots = max(sum(client.nthreads().values()), 1)
        topic = f"sightline-{uuid4().hex}"
        heard: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        client.subscribe_topic(topic, lambda event: heard.put(tuple(event[1])))
        futures: list[Future[Any]] = []
        for cell in cells:
            future = client.submit(
                _on_worker,
                cell.to_dict(),
                str(cache),
                topic,
                key=f"{topic}-{cell.name}",
                pure=False,
            )
            futures.append(future)
            future.add_done_callback(
                lambda ended, name=cell.name: heard.put((name, ended))
            )
        try:
            _listen({cell.name: cell for cell in cells}, heard, watch)
        finally:
            client.unsubscribe_topic(topic)
            client.cancel(futures, force=True)


def _listen(
    left: dict[str, Cell], heard: "queue.SimpleQueue[tuple[str, Any]]", watch: Watcher
) -> None:
    """Pass on what is heard, until every cell has ended."""
    from distributed import Future

    while left:
        name, said = heard.get()
        if name not in left:
            continue
        if isinstance(said, Future):
            watch(left.pop(name), _outcome(said))
        else:
            watch(left[name], step_from(said))


def _outcome(ended: Any) -> Outcome:
    try:
        return Outcome(**ended.result(timeout=30))
    except Exception as error:
        # Also where the scheduler gave the cell up, or went away itself.
        return Outcome(
            is_done=False,
            reason=f"The cluster gave it up ({type(error).__name__}: {brief(error)}).",
        )


def _on_worker(values: Mapping[str, Any], cache: str, topic: str) -> dict[str, Any]:
    """Carry out a cell in a process of its own, on the worker this runs on."""
    from dataclasses import asdict

    from distributed import get_worker

    cell, worker = Cell.from_dict(values), get_worker()
    reason = ""
    for _ in range(MOST_DEATHS):
        process = CellProcess()
        try:
            return asdict(
                process.run(
                    cell,
                    Path(cache),
                    lambda step: worker.log_event(topic, (cell.name, asdict(step))),
                )
            )
        except ProcessDiedError as death:
            reason = (
                f"Its process on {worker.address} died {MOST_DEATHS} times ({death}), "
                "most likely for want of memory: give the worker fewer threads."
            )
        finally:
            process.close()
    return asdict(Outcome(is_done=False, reason=reason))


def _check_shared(client: "Client", cache: Path) -> None:
    """Refuse a cluster some of whose workers do not see the cache."""
    mark = cache / f".seen-{uuid4().hex}"
    cache.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        seen: dict[str, bool] = client.run(_sees, str(mark))
    finally:
        mark.unlink()
    blind = [address for address, does in seen.items() if not does]
    if blind:
        raise FileError(
            f"{cache}: worker {blind[0]} does not see this folder: name one that all "
            "workers share, with --cache."
        )


def _sees(path: str) -> bool:
    return Path(path).exists()
