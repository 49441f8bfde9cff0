"""An evaluation on the workers of a Dask cluster that already runs.

This is the only module of the evaluation that knows Dask. Each table is divided into
parts that begin at a row group of its files, or soon after. A worker reads its part and
sends back what one pass computes from it: energies and sums, but no residuals, except
for the few rows that a chart or a repair needs. Other calls, such as the judgement of
some attacks, are made by workers that read the rows they need. Parts begin on the same
grid of rows as blocks do locally, so every figure is the same to the last bit.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from sightline._version import __version__
from sightline.data import row_tables
from sightline.data.arrays import Ints, require
from sightline.data.stream import ResidualStream
from sightline.errors import FileError, StreamError
from sightline.files import brief, reading
from sightline.parallel import one_thread_each, return_freed_arrays
from sightline.storage.parquet import ParquetRows

# Parts begin with a run of blocks, so that sums are added in the same order as locally.
GRID_ROWS = row_tables.GRID_ROWS
# Smaller parts cost more to send than to compute.
LEAST_ROWS = 2 * GRID_ROWS
# Short calls submitted per thread of a worker: one to work on, the other in its queue.
AHEAD = 2
# Seconds to wait for the scheduler, and for a first worker.
PATIENCE_S = 10
# Seconds to wait, during the work, for a new worker after the last one is gone, and for
# a scheduler that no longer answers.
LOST_S = 60
# Seconds between two looks at the workers of a cluster.
_LOOK_S = 1.0
TABLES = ("train", "test", "calibration", "telemetry_train", "telemetry_test")

T = TypeVar("T")


@contextmanager
def on_cluster(stream: ResidualStream, address: str) -> Iterator[ResidualStream]:
    """Give a stream whose rows are read by the workers of a Dask cluster.

    Parameters
    ----------
    stream : ResidualStream
        A stream read from a Parquet folder. The workers must see the folder under the
        same path.
    address : str
        Address of the scheduler, such as ``tcp://10.0.0.5:8786``.

    Yields
    ------
    ResidualStream
        The same stream. `evaluate` computes it on the cluster and returns the same
        figures as without one. It is valid within the ``with`` block only.

    Raises
    ------
    StreamError
        If the stream is not read from a Parquet folder.
    FileError
        If no scheduler answers, if it has no workers, or if a worker lacks this
        version of Sightline or the files.

    Examples
    --------
    >>> stream = read_stream("big")  # doctest: +SKIP
    >>> with on_cluster(stream, "tcp://10.0.0.5:8786") as shared:  # doctest: +SKIP
    ...     evaluation = evaluate(shared)
    """
    tables = {name: getattr(stream, name) for name in TABLES}
    parquet = {
        name: _with_absolute_paths(rows, name)
        for name, rows in tables.items()
        if rows is not None
    }
    dask = require("dask", extra="cluster", caller="A cluster")
    # A call takes along what it needs: energies and labels of the whole test, at most.
    large = dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
    with connected(address) as client, large:
        check_workers(client, address, [_files(rows) for rows in parquet.values()])
        runner = ClusterRunner(client, address)
        parted = {name: _parted(rows, runner) for name, rows in parquet.items()}
        yield stream.replace(**parted, notices=stream.notices)


def _with_absolute_paths(
    rows: row_tables.Rows, name: str
) -> ParquetRows | row_tables.KeptRows:
    """Return rows of Parquet files whose paths do not depend on the current folder."""
    if isinstance(rows, ParquetRows):
        return replace(rows, files=tuple(path.absolute() for path in rows.files))
    if isinstance(rows, row_tables.KeptRows):
        return row_tables.KeptRows(_with_absolute_paths(rows.rows, name), rows.keep)
    raise StreamError(
        f"`{name}` does not lie in Parquet files, which is what the workers of a "
        "cluster read: write the stream as a Parquet folder first, with "
        "sightline.write_stream(stream, 'folder')."
    )


def _files(rows: Any) -> tuple[Path, ...]:
    """Return the Parquet files of a table."""
    return rows.files if isinstance(rows, ParquetRows) else _files(rows.rows)


def _parted(rows: row_tables.Rows, runner: "ClusterRunner") -> row_tables.Rows:
    """Return the rows of Parquet files in parts that a runner computes."""
    if isinstance(rows, row_tables.KeptRows):
        return row_tables.KeptRows(_parted(rows.rows, runner), rows.keep)
    if not isinstance(rows, ParquetRows):
        raise TypeError(rows)
    return row_tables.PartedRows(
        rows, row_tables.Parts(_bounds(rows.group_starts), GRID_ROWS, runner)
    )


def _bounds(group_starts: Ints) -> Ints:
    """Return the first row of each part, and the end of the last.

    A part begins at a row group, moved to the grid; row groups are joined until a part
    has at least `LEAST_ROWS` rows.
    """
    places, end = [0], int(group_starts[-1])
    for start in row_tables.bounds_on_grid(group_starts, GRID_ROWS).tolist():
        if start - places[-1] >= LEAST_ROWS and end - start >= LEAST_ROWS:
            places.append(start)
    return np.array([*places, end])


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Give a client of a cluster that has at least one worker.

    Parameters
    ----------
    address : str
        Address of the scheduler.

    Raises
    ------
    FileError
        If no scheduler answers within `PATIENCE_S` seconds, or none of its workers
        registers within the same time.
    """
    distributed = require("distributed", extra="cluster", caller="A cluster")
    with _quiet(), _client(distributed, address) as client:
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's loggers from printing the tracebacks of a cluster that is lost.

    What they have to say is in the error that ends the work.
    """
    known = logging.root.manager.loggerDict
    names = [name for name in known if name.split(".")[0] == "distributed"]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@contextmanager
def _client(distributed: Any, address: str) -> Iterator[Any]:
    """Give a client; see `connected`."""
    try:
        # In a thread: this one may already run an event loop, as in a notebook.
        with ThreadPoolExecutor(1) as thread:
            check = _check_scheduler(distributed, address)
            thread.submit(asyncio.run, check).result()
        client = distributed.Client(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise FileError(
            f"{address}: no Dask scheduler answers there "
            f"({brief(error) or type(error).__name__}): start one with `dask "
            "scheduler`, and give the address that it prints."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError as error:
            raise FileError(
                f"{address}: the Dask scheduler there has no workers: start some with "
                f"`dask worker {address} --nthreads 1`."
            ) from error
        yield client


async def _check_scheduler(distributed: Any, address: str) -> None:
    """Ask the address for its identity; a client without answer waits much longer."""
    # The certificates of a `tls://` address are in Dask's configuration.
    secure = distributed.Security().get_connection_args("client")
    async with distributed.rpc(
        address, timeout=PATIENCE_S, connection_args=secure
    ) as server:
        identity = await asyncio.wait_for(server.identity(), PATIENCE_S)
    if identity["type"] != "Scheduler":
        raise ValueError(f"it is the address of a {identity['type']}")


def check_workers(client: Any, address: str, tables: Sequence[Sequence[Path]]) -> None:
    """Raise `FileError` if some worker lacks this version of Sightline, or a file.

    Parameters
    ----------
    client : distributed.Client
        A client of the cluster.
    address : str
        Address of its scheduler, for the message.
    tables : sequence of sequence of Path
        The files of each table; a worker must see each of them with the same size.
    """
    sizes = {str(path): _size(path) for files in tables for path in files}

    # A local function is sent by value, so that a worker without this module runs it.
    def look() -> tuple[str | None, str | None]:
        import os

        try:
            from sightline._version import __version__ as version
        except ImportError:
            return None, None
        for path, size in sizes.items():
            if not os.path.isfile(path) or os.path.getsize(path) != size:
                return version, path
        return version, None

    for worker, (version, missing) in client.run(look).items():
        if version != __version__:
            has = "has no sightline" if version is None else f"has sightline {version}"
            raise FileError(
                f"{address}: worker {worker} {has}, but this machine has "
                f"{__version__}: install the same version on all workers."
            )
        if missing is not None:
            raise FileError(
                f"{missing}: worker {worker} does not see the same file: put the "
                "stream where all workers find it under the same path."
            )


def _size(path: Path) -> int:
    with reading(path):
        return path.stat().st_size


class Patience:
    """Ends the waiting for a cluster whose scheduler or last worker is gone.

    Parameters
    ----------
    client : distributed.Client
        A client of the cluster.
    address : str
        Address of its scheduler, for error messages.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        # Since when there is nothing to wait for.
        self._since: float | None = None

    def check(self) -> dict[str, int]:
        """Return the threads of each worker; none if there is no worker for now.

        Raises
        ------
        FileError
            If there has been no worker, or no answer, for `LOST_S` seconds.
        """
        # What a client raises while it reconnects, or after it gave up.
        lost: tuple[type[BaseException], ...] = (Exception, asyncio.CancelledError)
        try:
            if self._client.status == "closed":
                raise ConnectionError("closed")
            count = self._client.scheduler.ncores
            threads: dict[str, int] = self._client.sync(
                count, callback_timeout=PATIENCE_S
            )
        except lost as error:
            # A client that has closed does not come back.
            is_over = self._client.status == "closed"
            self._wait("its scheduler does not answer", error, is_over=is_over)
            return {}
        if threads:
            self._since = None
        else:
            self._wait("its last worker is gone", None)
        return threads

    def _wait(
        self, what: str, cause: BaseException | None, *, is_over: bool = False
    ) -> None:
        """Raise `FileError` if that has lasted too long."""
        now = time.monotonic()
        # Another thread may have got an answer meanwhile.
        since = self._since or now
        self._since = since
        if is_over or now - since >= LOST_S:
            raise FileError(
                f"{self._address}: the cluster was lost during the work: {what} "
                f"(waited {now - since:.0f} s): look at the logs of its "
                "scheduler and workers, give each worker 2 GiB, and run again."
            ) from cause


class _Batch:
    """Calls of one thread of this process that workers make.

    Parameters
    ----------
    calls : iterable of callable
        Functions without arguments.
    are_long : bool
        Whether a call takes seconds.
    """

    def __init__(self, calls: Iterable[Callable[[], Any]], *, are_long: bool) -> None:
        self.waiting = deque(calls)
        self.are_long = are_long
        # Whether its thread does something else for now, with a value that it got.
        self.is_away = False
        # Calls that were submitted, with their place in the order.
        self.under_way: dict[Any, int] = {}
        # Those that have ended; None where a call of another batch has.
        self.ended: SimpleQueue[Any] = SimpleQueue()


class ClusterRunner:
    """Runs calls on the workers of a cluster.

    Which worker makes a call is decided here, when it has room: Dask would queue a
    short call behind a long one, as it cannot know how long they take.

    Parameters
    ----------
    client : distributed.Client
        A client of the cluster.
    address : str
        Address of its scheduler, for error messages.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        self._patience = Patience(client, address)
        # Threads by worker, and when that was asked for.
        self._threads: dict[str, int] = {}
        self._asked_at = -_LOOK_S
        # Why the cluster is given up, once it is.
        self._lost: FileError | None = None
        # Batches of all threads of this process; by call the worker that got it, and
        # whether it is long.
        self._batches: list[_Batch] = []
        self._placed: dict[Any, tuple[str, bool]] = {}
        # A call may end while the thread that has the lock submits it.
        self._lock = RLock()

    def run(
        self,
        calls: Iterable[Callable[[], T]],
        done: Callable[[int], None],
        *,
        are_long: bool = False,
    ) -> Iterator[T]:
        """Yield the values of the calls, in their order.

        If a worker dies, another one runs its calls.

        Parameters
        ----------
        calls : iterable of callable
            Functions without arguments that can be pickled. They are sent as workers
            become free.
        done : callable
            Called with the index of each call that has ended, in any order.
        are_long : bool
            Whether a call takes seconds. Such a call waits here until a thread is free
            and no short one waits for it.

        Raises
        ------
        FileError
            If the scheduler, the last worker, or the same call's worker several times
            is lost; see `Patience`.
        """
        distributed = require("distributed", extra="cluster", caller="A cluster")
        lost = (distributed.KilledWorker, distributed.CancelledError, OSError)
        batch = _Batch(calls, are_long=are_long)
        with self._lock:
            if not self._batches:
                # What it waited for was before a pause.
                self._patience = Patience(self._client, self._address)
            self._batches.append(batch)
        try:
            yield from self._in_order(batch, done)
        except FileError:
            raise
        except lost as error:
            raise FileError(
                f"{self._address}: the cluster was lost during the evaluation "
                f"({type(error).__name__}): look at the logs of its scheduler and "
                "workers, and give each worker 2 GiB of memory."
            ) from error
        finally:
            with self._lock:
                self._batches.remove(batch)
                for future in batch.under_way:
                    self._placed.pop(future, None)
                self._wake_others(batch)
            for future in batch.under_way:
                # A scheduler that is gone needs no farewell.
                with suppress(Exception):
                    future.cancel()

    def n_threads(self) -> int:
        """Return the number of threads of all workers, at least 1."""
        return max(sum((self._patience.check() or self._threads).values()), 1)

    def _in_order(self, batch: _Batch, done: Callable[[int], None]) -> Iterator[Any]:
        """Keep all threads busy, and yield each value as soon as it is next."""
        ready: dict[int, Any] = {}
        n_submitted = n_yielded = 0
        while batch.waiting or batch.under_way:
            with self._lock:
                threads = self._threads_now()
                while batch.waiting and (worker := self._worker_for(batch, threads)):
                    future = self._client.submit(
                        _run_call,
                        batch.waiting.popleft(),
                        pure=False,
                        workers=[worker],
                        allow_other_workers=True,
                    )
                    batch.under_way[future] = n_submitted
                    self._placed[future] = worker, batch.are_long
                    n_submitted += 1
                    future.add_done_callback(partial(self._end, batch))
                if not batch.waiting:
                    # A long call may have waited for this one, and a worker be free.
                    self._wake_others(batch)
            try:
                future = batch.ended.get(timeout=_LOOK_S)
            except Empty:
                continue
            if future is None:
                continue
            k = batch.under_way.pop(future)
            ready[k] = _value(future, self._patience)
            done(k)
            while n_yielded in ready:
                with self._lock:
                    batch.is_away = True
                    self._wake_others(batch)
                yield ready.pop(n_yielded)
                batch.is_away = False
                n_yielded += 1

    def _end(self, batch: _Batch, future: Any) -> None:
        """Note that a call has ended, whatever its batch is doing."""
        with self._lock:
            self._placed.pop(future, None)
            self._wake_others(batch)
        batch.ended.put(future)

    def _threads_now(self) -> dict[str, int]:
        """Return the threads of each worker; they may join or leave at any time."""
        if self._lost is not None:
            raise self._lost
        if time.monotonic() - self._asked_at >= _LOOK_S:
            try:
                self._threads = self._patience.check()
            except FileError as error:
                # Others need not wait as long again.
                self._lost = error
                raise
            self._asked_at = time.monotonic()
        return self._threads

    def _worker_for(self, batch: _Batch, threads: dict[str, int]) -> str | None:
        """Return the worker that gets the next call of a batch; None if all are busy.

        A worker may have short calls in its queue, but none behind a long one, and no
        more than it has threads if they are the last: another may be free sooner.
        """
        if batch.are_long and any(
            other.waiting and not (other.are_long or other.is_away)
            for other in self._batches
        ):
            return None
        n_placed = Counter(worker for worker, _ in self._placed.values())
        with_long = {worker for worker, is_long in self._placed.values() if is_long}
        are_last = len(batch.waiting) <= sum(threads.values())

        def room(worker: str) -> int:
            has_queue = not (batch.are_long or are_last or worker in with_long)
            most = threads[worker] * (AHEAD if has_queue else 1)
            return most - n_placed[worker]

        freest = max(threads, key=room, default=None)
        return freest if freest is not None and room(freest) > 0 else None

    def _wake_others(self, batch: _Batch) -> None:
        """Let batches look again whether a worker is free."""
        for other in self._batches:
            if other is not batch and other.waiting:
                other.ended.put(None)


def _value(future: Any, patience: "Patience") -> Any:
    """Return the value of a call that has ended.

    The value may still lie on a worker; one that is lost meanwhile is noticed.
    """
    while True:
        try:
            return future.result(timeout=LOST_S)
        except TimeoutError:
            patience.check()


def _run_call(call: Callable[[], T]) -> T:
    """Run one call with one thread per library: a worker has its own threads."""
    return_freed_arrays()
    with one_thread_each():
        return call()
