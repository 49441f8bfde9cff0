"""The workers of a Dask cluster that already runs: evaluations, and cells of studies.

For an evaluation each table is divided into parts that begin at a row group of its
files, or soon after. A worker reads its part and sends back what one pass computes from
it: energies and sums, but no residuals, except for the few rows that a chart or a
repair needs. Other calls, such as the judgement of some attacks, are made by workers
that read the rows they need. Parts begin on the same grid of rows as blocks do locally,
so every figure is the same to the last bit.

Dask's scheduler places the calls, and makes those of a lost worker again.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from sightline._version import __version__
from sightline.data import row_tables
from sightline.data.arrays import Ints, require
from sightline.data.stream import ResidualStream
from sightline.errors import FileError, SightlineError, StreamError
from sightline.files import brief, reading
from sightline.parallel import one_thread_each, return_freed_arrays
from sightline.storage.parquet import ParquetRows

# Parts begin with a run of blocks, so that sums are added in the same order as locally.
GRID_ROWS = row_tables.GRID_ROWS
# Smaller parts cost more to send than to compute.
LEAST_ROWS = 2 * GRID_ROWS
# Seconds to wait for the scheduler, and for a first worker.
PATIENCE_S = 10
# Seconds to wait, during the work, for a new worker after the last one is gone.
LOST_S = 60
# Seconds between two looks whether there is still a worker.
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
    cluster = Cluster(address)
    files: list[Path] = []

    def parted(name: str, rows: row_tables.Rows) -> row_tables.Rows:
        if isinstance(rows, row_tables.KeptRows):
            return row_tables.KeptRows(parted(name, rows.rows), rows.keep)
        if not isinstance(rows, ParquetRows):
            raise StreamError(
                f"`{name}` does not lie in Parquet files, which is what the workers of "
                "a cluster read: write the stream as a Parquet folder first, with "
                "sightline.write_stream(stream, 'folder')."
            )
        paths = tuple(path.absolute() for path in rows.files)
        files.extend(paths)
        parts = row_tables.Parts(_bounds(rows.group_starts), GRID_ROWS, cluster)
        return row_tables.PartedRows(replace(rows, files=paths), parts)

    tables = {
        name: parted(name, rows)
        for name in TABLES
        if (rows := getattr(stream, name)) is not None
    }
    with cluster.connected():
        cluster.check_workers(
            files, "put the stream where all workers find it under the same path"
        )
        yield stream.replace(**tables, notices=stream.notices)


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


class Cluster:
    """Runs calls on the workers of a cluster, inside ``with cluster.connected()``.

    Parameters
    ----------
    address : str
        Address of its scheduler.
    client : distributed.Client, optional
        A client of the cluster; `connected` makes one.
    """

    def __init__(self, address: str, client: Any = None) -> None:
        self.address, self.client = address, client

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Be connected to the scheduler, which has at least one worker.

        Raises
        ------
        FileError
            If no scheduler answers within `PATIENCE_S` seconds, or none of its workers
            registers within the same time.
        """
        dask = require("dask", extra="cluster", caller="A cluster")
        distributed = require("distributed", extra="cluster", caller="A cluster")
        try:
            # In a thread: this one may already run an event loop, as in a notebook.
            with ThreadPoolExecutor(1) as thread:
                check = _check_scheduler(distributed, self.address)
                thread.submit(asyncio.run, check).result()
            self.client = distributed.Client(
                self.address, timeout=PATIENCE_S, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise FileError(
                f"{self.address}: no Dask scheduler answers there "
                f"({brief(error) or type(error).__name__}): start one with `dask "
                "scheduler`, and give the address that it prints."
            ) from error
        # A call takes along what it needs: all energies and labels, at most.
        large = {"distributed.admin.large-graph-warning-threshold": "1TB"}
        with ExitStack() as stack, dask.config.set(large), self.client:
            # Tracebacks of a cluster that is lost: our error says the same.
            for name in ("distributed", "distributed.client"):
                logger = logging.getLogger(name)
                stack.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.CRITICAL)
            try:
                self.client.wait_for_workers(1, timeout=PATIENCE_S)
            except TimeoutError as error:
                raise FileError(
                    f"{self.address}: the Dask scheduler there has no workers: start "
                    f"some with `dask worker {self.address} --nthreads 1`."
                ) from error
            yield

    def check_workers(self, files: Iterable[Path], remedy: str) -> None:
        """Raise `FileError` if some worker lacks this version of Sightline, or a file.

        Parameters
        ----------
        files : iterable of Path
            A worker must see each of them with the same size.
        remedy : str
            What to do if it does not.
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
                    f"{self.address}: worker {worker} {has}, but this machine has "
                    f"{__version__}: install the same version on all workers."
                )
            if missing is not None:
                raise FileError(
                    f"{missing}: worker {worker} does not see the same file: {remedy}."
                )

    def run(
        self, calls: Iterable[Callable[[], T]], done: Callable[[int], None]
    ) -> Iterator[T]:
        """Yield the values of the calls, in their order.

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
            is lost.
        """
        futures = [self.submit(call) for call in calls]
        with self.watching(futures):
            for k, future in enumerate(futures):
                value = self._value(future)
                done(k)
                yield value

    def _value(self, future: Any) -> Any:
        """Return the value of a call, or raise its error, as soon as it has ended."""
        while True:
            # The value may still lie on a worker, which may be lost meanwhile.
            if self.ended([future]):
                with suppress(TimeoutError):
                    return future.result(timeout=LOST_S)

    def submit(self, call: Callable[[], T]) -> Any:
        """Return the future of a call; its name tells Dask which take about as long."""
        name = getattr(getattr(call, "func", call), "__name__", "call")
        key = f"{name}-{uuid4().hex}"
        return self.client.submit(_run_call, call, pure=False, key=key)

    def ended(self, futures: Collection[Any]) -> set[Any]:
        """Return those futures that have ended, at the latest after `_LOOK_S` seconds.

        Raises
        ------
        TimeoutError
            If there has been no worker for `LOST_S` seconds.
        """
        distributed = require("distributed", extra="cluster", caller="A cluster")
        with self.client.as_current(), suppress(TimeoutError):
            return set(distributed.wait(futures, _LOOK_S, "FIRST_COMPLETED").done)
        if not self.client.nthreads():
            self.client.wait_for_workers(1, timeout=LOST_S)
        return set()

    @contextmanager
    def watching(self, futures: Collection[Any]) -> Iterator[None]:
        """Raise `FileError` if the cluster is lost; cancel the futures at the end."""
        from distributed import CancelledError, KilledWorker

        try:
            yield
        except SightlineError:
            raise
        except (KilledWorker, CancelledError, OSError) as error:
            is_idle = isinstance(error, TimeoutError)
            why = "its last worker is gone" if is_idle else type(error).__name__
            raise FileError(
                f"{self.address}: the cluster was lost during the work ({why}): look "
                "at the logs of its scheduler and workers, give each worker 2 GiB, and "
                "run again."
            ) from error
        finally:
            # A scheduler that is gone needs no farewell.
            with suppress(Exception):
                self.client.cancel(futures, force=True)

    def n_threads(self) -> int:
        """Return the number of threads of all workers, at least 1."""
        return int(max(sum(self.client.nthreads().values()), 1))


async def _check_scheduler(distributed: Any, address: str) -> None:
    """Ask the address for its identity; a client without answer waits for ever."""
    # The certificates of a `tls://` address are in Dask's configuration.
    secure = distributed.Security().get_connection_args("client")
    async with distributed.rpc(
        address, timeout=PATIENCE_S, connection_args=secure
    ) as server:
        identity = await asyncio.wait_for(server.identity(), PATIENCE_S)
    if identity["type"] != "Scheduler":
        raise ValueError(f"it is the address of a {identity['type']}")


def _run_call(call: Callable[[], T]) -> T:
    """Run one call with one thread per library: a worker has its own threads."""
    return_freed_arrays()
    with one_thread_each():
        return call()
