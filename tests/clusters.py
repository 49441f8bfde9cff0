"""A real Dask cluster for tests: one scheduler, some workers, each its own process."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from distributed import Client

PATIENCE_S = 300
# One thread a worker, as on a cluster whose cores are shared out.
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class LocalCluster:
    """Where the scheduler listens, and the processes of the workers."""

    address: str
    worker_pids: tuple[int, ...]
    scheduler_pid: int = 0


@contextmanager
def local_cluster(
    n_workers: int = 2, memory_limit: str = "2GiB", *, nanny: bool = False
) -> Iterator[LocalCluster]:
    """Start a scheduler and workers of one thread each; end them all at the end.

    Without a nanny, a worker that is killed stays dead; with one, a worker that takes
    more than its memory is killed and started anew (`worker_pids` are the nannies').
    """
    with tempfile.TemporaryDirectory() as folder:
        found_at = Path(folder) / "scheduler.json"
        started: list[subprocess.Popen[bytes]] = []
        try:
            started.append(
                _start(
                    Path(folder),
                    "scheduler",
                    "--host=127.0.0.1",
                    "--port=0",
                    "--no-dashboard",
                    f"--scheduler-file={found_at}",
                )
            )
            started += [
                _start(
                    Path(folder),
                    "worker",
                    f"--scheduler-file={found_at}",
                    "--host=127.0.0.1",
                    "--nthreads=1",
                    f"--memory-limit={memory_limit}",
                    "--nanny" if nanny else "--no-nanny",
                    "--no-dashboard",
                    f"--local-directory={folder}",
                    f"--death-timeout={PATIENCE_S}",
                )
                for _ in range(n_workers)
            ]
            address = _address(found_at, started, n_workers)
            pids = [process.pid for process in started]
            yield LocalCluster(address, tuple(pids[1:]), pids[0])
        finally:
            for process in reversed(started):
                process.terminate() if nanny else process.kill()
            for process in started:
                process.wait()


def _start(folder: Path, role: str, *options: str) -> subprocess.Popen[bytes]:
    log = (folder / f"{role}-{time.monotonic_ns()}.log").open("wb")
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{role}", *options],
            cwd=folder,
            env=os.environ | _ONE_THREAD,
            stdout=log,
            stderr=log,
        )


def _address(
    found_at: Path, started: list[subprocess.Popen[bytes]], n_workers: int
) -> str:
    """Return the scheduler's address once all workers have reported to it."""
    until = time.monotonic() + PATIENCE_S
    while not found_at.exists():
        if started[0].poll() is not None or time.monotonic() > until:
            raise RuntimeError("The scheduler did not start.")
        time.sleep(0.05)
    with Client(
        scheduler_file=str(found_at), set_as_default=False, timeout=PATIENCE_S
    ) as client:
        if n_workers:
            client.wait_for_workers(n_workers, timeout=PATIENCE_S)
        return str(client.scheduler.address)
