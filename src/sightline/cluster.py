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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, TypeVar
from uuid import uuid4

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
# Seconds to wait for the scheduler, and for a first worker.
PATIENCE_S = 10
# Seconds to wait, during the work, for a new worker after the last one is gone, and for
# a scheduler that no longer answers.
LOST_S = 60
# Seconds between two looks whether the cluster is still there.
_LOOK_S = 1.0
# What Dask sets a level of its own for.
_LOGGERS = ("distributed", "distributed.client")
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
    files: list[Path] = []

    def absolute(rows: ParquetRows) -> row_tables.Rows:
        files.extend(path.absolute() for path in rows.files)
        return replace(rows, files=tuple(files[-len(rows.files) :]))

    tables = {name: getattr(stream, name) for name in TABLES}
    tables = {
        name: _change(rows, absolute, name)
        for name, rows in tables.items()
        if rows is not None
    }
    dask = require("dask", extra="cluster", caller="A cluster")
    # A call takes along what it needs: energies and labels of the whole test, at most.
    large = dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
    with connected(address) as cluster, large:
        cluster.check_workers(files)

        def parted(rows: ParquetRows) -> row_tables.Rows:
            parts = row_tables.Parts(_bounds(rows.group_starts), GRID_ROWS, cluster)
            return row_tables.PartedRows(rows, parts)

        tables = {name: _change(rows, parted, name) for name, rows in tables.items()}
        yield stream.replace(**tables, notices=stream.notices)


def _change(
    rows: row_tables.Rows, change: Callable[[ParquetRows], row_tables.Rows], name: str
) -> row_tables.Rows:
    """Return a table with its rows of Parquet files changed."""
    if isinstance(rows, row_tables.KeptRows):
        return row_tables.KeptRows(_change(rows.rows, change, name), rows.keep)
    if isinstance(rows, ParquetRows):
        return change(rows)
    raise StreamError(
        f"`{name}` does not lie in Parquet files, which is what the workers of a "
        "cluster read: write the stream as a Parquet folder first, with "
        "sightline.write_stream(stream, 'folder')."
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
def connected(address: str) -> Iterator["Cluster"]:
    """Give a cluster that has at least one worker.

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
    # Tracebacks of a cluster that is lost are not printed: our error says the same.
    loggers = {name: logging.getLogger(name) for name in _LOGGERS}
    levels = {name: logger.level for name, logger in loggers.items()}
    for logger in loggers.values():
        logger.setLevel(logging.CRITICAL)
    try:
        with _client(distributed, address) as client:
            yield Cluster(client, address)
    finally:
        for name, logger in loggers.items():
            logger.setLevel(levels[name])


def _client(distributed: Any, address: str) -> Any:
    """Return a client that has a worker; see `connected`."""
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
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except TimeoutError as error:
        client.close()
        raise FileError(
            f"{address}: the Dask scheduler there has no workers: start some with "
            f"`dask worker {address} --nthreads 1`."
        ) from error
    return client


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


class Cluster:
    """Runs calls on the workers of a cluster; Dask's scheduler places them.

    Parameters
    ----------
    client : distributed.Client
        A client of the cluster.
    address : str
        Address of its scheduler, for error messages.
    """

    def __init__(self, client: Any, address: str) -> None:
        self.client = client
        self._address = address
        # Since when there is nothing to wait for.
        self._since: float | None = None

    def check_workers(self, files: Sequence[Path]) -> None:
        """Raise `FileError` if some worker lacks this version of Sightline, or a file.

        Parameters
        ----------
        files : sequence of Path
            Files of tables; a worker must see each of them with the same size.
        """
        sizes = {}
        for path in files:
            with reading(path):
                sizes[str(path)] = path.stat().st_size

        # A local function is sent by value: a worker without this module runs it.
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

        for worker, (version, missing) in self.client.run(look).items():
            if version != __version__:
                has = f"has sightline {version}" if version else "has no sightline"
                raise FileError(
                    f"{self._address}: worker {worker} {has}, but this machine has "
                    f"{__version__}: install the same version on all workers."
                )
            if missing is not None:
                raise FileError(
                    f"{missing}: worker {worker} does not see the same file: put the "
                    "stream where all workers find it under the same path."
                )

    def check(self) -> dict[str, int]:
        """Return the threads of each worker; none if there is no worker for now.

        Raises
        ------
        FileError
            If there has been no worker, or no answer, for `LOST_S` seconds.
        """
        threads: dict[str, int] = {}
        cause: BaseException | None = None
        try:
            if self.client.status == "closed":
                raise ConnectionError("closed")
            count = self.client.scheduler.ncores
            threads = self.client.sync(count, callback_timeout=PATIENCE_S)
        # What a client raises while it reconnects, or after it gave up.
        except (Exception, asyncio.CancelledError) as error:
            cause = error
        now = time.monotonic()
        self._since = None if threads else self._since or now
        # A client that has closed does not come back.
        is_over = self.client.status == "closed"
        if self._since is not None and (is_over or now - self._since >= LOST_S):
            lost = "scheduler does not answer" if cause else "last worker is gone"
            raise FileError(
                f"{self._address}: the cluster was lost during the work: its {lost} "
                f"(waited {now - self._since:.0f} s): look at the logs of its "
                "scheduler and workers, give each worker 2 GiB, and run again."
            ) from cause
        return threads

    def run(
        self, calls: Iterable[Callable[[], T]], done: Callable[[int], None]
    ) -> Iterator[T]:
        """Yield the values of the calls, in their order.

        If a worker dies, another one runs its calls.

        Parameters
        ----------
        calls : iterable of callable
            Functions without arguments that can be pickled.
        done : callable
            Called with 0, 1, ... as values arrive.

        Raises
        ------
        FileError
            If the scheduler, the last worker, or the same call's worker several times
            is lost; see `check`.
        """
        distributed = require("distributed", extra="cluster", caller="A cluster")
        lost = (distributed.KilledWorker, distributed.CancelledError, OSError)
        self._since = None
        futures = [self._submitted(call) for call in calls]
        try:
            for k, future in enumerate(futures):
                value = self._value(future)
                done(k)
                yield value
        except FileError:
            raise
        except lost as error:
            raise FileError(
                f"{self._address}: the cluster was lost during the evaluation "
                f"({type(error).__name__}): look at the logs of its scheduler and "
                "workers, and give each worker 2 GiB of memory."
            ) from error
        finally:
            # A scheduler that is gone needs no farewell.
            with suppress(Exception):
                self.client.cancel(futures)

    def n_threads(self) -> int:
        """Return the number of threads of all workers, at least 1."""
        return max(sum(self.check().values()), 1)

    def _submitted(self, call: Callable[[], Any]) -> Any:
        """Return the future of a call; its name tells Dask which take about as long."""
        name = getattr(getattr(call, "func", call), "__name__", "call")
        key = f"{name}-{uuid4().hex}"
        return self.client.submit(_run_call, call, pure=False, key=key)

    def _value(self, future: Any) -> Any:
        """Return the value of a call, or raise its error, as soon as it has ended."""
        ended = Event()
        future.add_done_callback(lambda _: ended.set())
        while not ended.wait(_LOOK_S):
            self.check()
        while True:
            # The value may still lie on a worker, which may be lost meanwhile.
            try:
                return future.result(timeout=LOST_S)
            except TimeoutError:
                self.check()


def _run_call(call: Callable[[], T]) -> T:
    """Run one call with one thread per library: a worker has its own threads."""
    return_freed_arrays()
    with one_thread_each():
        return call()
