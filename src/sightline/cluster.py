"""The same passes over rows on the workers of a Dask cluster that is already there.

The only file of the evaluation that knows Dask. A table becomes parts that begin where
a row group of its files does, or soon after; each worker reads its own and sends back
what a pass makes of them: energies and sums, never the residuals (but for the few rows
around attacks that a diagnosis refits on).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sightline._version import __version__
from sightline.data.arrays import Ints, require
from sightline.data.row_tables import (
    BLOCK_ROWS,
    KeptRows,
    PartedRows,
    Parts,
    Rows,
    bounds_on_grid,
)
from sightline.data.stream import ResidualStream
from sightline.energy.moments import RUN_BLOCKS
from sightline.errors import FileError, StreamError
from sightline.files import brief, reading
from sightline.storage.parquet import ParquetRows

# Parts begin with a run of blocks, so that sums are made in the same order as locally.
GRID_ROWS = RUN_BLOCKS * BLOCK_ROWS
# Smaller parts cost more to send than to compute.
LEAST_ROWS = 4 * GRID_ROWS
# Parts that each thread of the workers has before it: one to do, some to go on with.
AHEAD = 3
# How long to wait for the scheduler, and for a first worker.
PATIENCE_S = 10
TABLES = ("train", "test", "calibration", "telemetry_train", "telemetry_test")

T = TypeVar("T")


@contextmanager
def on_cluster(stream: ResidualStream, address: str) -> Iterator[ResidualStream]:
    """Give a stream whose rows are read by the workers of a Dask cluster.

    Parameters
    ----------
    stream : ResidualStream
        Read from a Parquet folder, which the workers see under the same path.
    address : str
        Of the scheduler, such as ``tcp://10.0.0.5:8786``.

    Yields
    ------
    ResidualStream
        The same stream; what is measured of it is measured on the cluster.

    Raises
    ------
    StreamError
        Where the stream does not lie in a Parquet folder.
    FileError
        Where nobody answers, or workers lack Sightline or the files.

    Examples
    --------
    >>> stream = read_stream("big")  # doctest: +SKIP
    >>> with on_cluster(stream, "tcp://10.0.0.5:8786") as shared:  # doctest: +SKIP
    ...     evaluation = evaluate(shared)
    """
    tables = {name: getattr(stream, name) for name in TABLES}
    there = {
        name: _in_place(rows, name) for name, rows in tables.items() if rows is not None
    }
    with connected(address) as client:
        check_workers(client, address, [_files(rows) for rows in there.values()])
        runner = ClusterRunner(client, address)
        changes: dict[str, Any] = {
            name: _parted(rows, runner) for name, rows in there.items()
        }
        yield stream.replace(**changes, notices=stream.notices)


def _in_place(rows: Rows, name: str) -> "ParquetRows | KeptRows":
    """Return rows of Parquet files, whose paths hold wherever one stands."""
    if isinstance(rows, ParquetRows):
        return replace(rows, files=tuple(path.absolute() for path in rows.files))
    if isinstance(rows, KeptRows):
        return KeptRows(_in_place(rows.rows, name), rows.keep)
    raise StreamError(
        f"`{name}` does not lie in Parquet files, which is what the workers of a "
        "cluster read: write the stream as a Parquet folder first, with "
        "sightline.write_stream(stream, 'folder')."
    )


def _files(rows: Any) -> tuple[Path, ...]:
    return rows.files if isinstance(rows, ParquetRows) else _files(rows.rows)


def _parted(rows: Rows, runner: "ClusterRunner") -> Rows:
    if isinstance(rows, KeptRows):
        return KeptRows(_parted(rows.rows, runner), rows.keep)
    if not isinstance(rows, ParquetRows):
        raise TypeError(rows)
    return PartedRows(rows, Parts(_bounds(rows.group_starts), GRID_ROWS, runner))


def _bounds(group_starts: Ints) -> Ints:
    """Return where parts begin: with row groups, unless these are small."""
    places, end = [0], int(group_starts[-1])
    for start in bounds_on_grid(group_starts, GRID_ROWS).tolist():
        if start - places[-1] >= LEAST_ROWS and end - start >= LEAST_ROWS:
            places.append(start)
    return np.array([*places, end])


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Give a client of the cluster, if somebody answers and somebody works."""
    distributed = require("distributed", extra="cluster", caller="A cluster")
    try:
        # In a thread, for there may be a loop in this one, as in a notebook.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _ask(distributed.rpc, address)).result()
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


async def _ask(rpc: Any, address: str) -> None:
    """Ask who is there: a client that finds nobody takes long to give up."""
    async with rpc(address, timeout=PATIENCE_S) as there:
        who = await asyncio.wait_for(there.identity(), PATIENCE_S)
    if who["type"] != "Scheduler":
        raise ValueError(f"it is the address of a {who['type']}")


def check_workers(client: Any, address: str, tables: Sequence[Sequence[Path]]) -> None:
    """Refuse a cluster on which some worker lacks Sightline, or some file."""
    sizes = {str(path): _size(path) for files in tables for path in files}

    # Inside a function, so that it is sent as it is to who may not have this module.
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
                f"{address}: worker {worker} {has}, and here it is {__version__}: "
                "install the same on all workers."
            )
        if missing is not None:
            raise FileError(
                f"{missing}: worker {worker} does not see this file as it is here: "
                "put the stream where all workers find it under the same path."
            )


def _size(path: Path) -> int:
    with reading(path):
        return path.stat().st_size


class ClusterRunner:
    """Carries out calls on the workers of a cluster."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address

    def run(
        self, calls: Iterator[Callable[[], T]], done: Callable[[int], None]
    ) -> Iterator[T]:
        """Yield what the calls return, in order; tell `done` the number of each.

        Calls are drawn as threads become free. Those of a worker that dies are carried
        out by another.
        """
        distributed = require("distributed", extra="cluster", caller="A cluster")
        lost = (distributed.KilledWorker, distributed.CancelledError, OSError)
        under_way: dict[Any, int] = {}
        try:
            yield from self._in_order(calls, done, under_way)
        except FileError:
            raise
        except lost as error:
            raise FileError(
                f"{self._address}: the cluster was lost on the way "
                f"({type(error).__name__}): look at the logs of its scheduler and "
                "workers, and give each worker 2 GiB of memory."
            ) from error
        finally:
            for future in under_way:
                with suppress(OSError):
                    future.cancel()

    def _in_order(
        self,
        calls: Iterator[Callable[[], T]],
        done: Callable[[int], None],
        under_way: dict[Any, int],
    ) -> Iterator[T]:
        """Keep all threads busy, and yield results as soon as it is their turn."""
        distributed = require("distributed", extra="cluster", caller="A cluster")
        finished = distributed.as_completed(loop=self._client.loop)
        ready: dict[int, T] = {}
        drawn = following = 0
        while True:
            for call in islice(calls, max(self._room() - len(under_way), 0)):
                future = self._client.submit(_carry_out, call, pure=False)
                under_way[future] = drawn
                finished.add(future)
                drawn += 1
            if following == drawn:
                return
            future = next(finished)
            k = under_way.pop(future)
            ready[k] = future.result()
            done(k)
            while following in ready:
                yield ready.pop(following)
                following += 1

    def _room(self) -> int:
        """Return how many parts to have under way, by who works there now."""
        n_threads: int = sum(self._client.nthreads().values())
        return AHEAD * max(n_threads, 1)


def _carry_out(call: Callable[[], T]) -> T:
    """Do one part's work on one thread: the cluster's threads are its workers'."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), np.errstate(all="ignore"):
        return call()
