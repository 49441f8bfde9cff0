"""Where the cells of a study run: processes of this machine, or a Dask cluster.

`run_locally` uses as many processes as cores and memory can hold. `run_on_cluster`
makes each cell a task of a cluster that already runs. A worker gives it a process of
its own, so that the threads of a worker do not share torch's random numbers. If a
worker dies, the scheduler runs its cells on another one, where they continue from their
checkpoints in the shared cache.

Processes, not threads: torch's random numbers and the number of threads of a library
belong to a whole process, and a process that is killed harms no other cell.

This pool is our own. It was compared with `concurrent.futures.ProcessPoolExecutor` (one
executor of one process for each slot, started by "spawn"), which

- starts the user's script again in each worker, so that a script or notebook without an
  ``if __name__ == "__main__"`` guard fails at once (`BrokenProcessPool`);
- cannot be used within a Dask worker that has a nanny ("daemonic processes are not
  allowed to have children"), where `run_on_cluster` needs the same process;
- leaves its workers running when the study itself is killed;
- reports a dead worker without its exit code and its last line on standard error;
- gives a worker its environment (one thread per library) only by changing the
  environment of the user's own process.

A process with two pipes has none of these problems.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from sightline.cluster import connected
from sightline.errors import FileError
from sightline.evaluation.result import plain
from sightline.files import brief
from sightline.progress import Progress, Step, StepKind
from sightline.study.cell import Board, Cell, CellOutcome
from sightline.study.execute_cell import CellRequest, Message
from sightline.text import duration

if TYPE_CHECKING:
    from distributed import Client, Future

# Not ``python -m``, which would load the module a second time under another name.
_MAIN = "from sightline.study.execute_cell import main; main()"
# Called with a cell and its step, or how it ended.
Watcher = Callable[[Cell, Step | CellOutcome], None]
# A cell is given up after its process has died this many times.
MOST_DEATHS = 3
# One thread per library: otherwise the cells compete for the cores.
_ONE_THREAD = (
    "MKL_NUM_THREADS NUMBA_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS "
    "POLARS_MAX_THREADS"
).split()
# Bytes of memory for torch and other libraries, and for each byte of a testbed: copies
# of it scaled, in windows, as residuals and as energy.
_LIBRARY_BYTES = 7e8
_BYTES_PER_BYTE = 6


# Seconds that a process gets to end by itself before it is ended.
_GRACE_S = 2.0
# Seconds between two looks whether Ctrl-C was pressed.
_LOOK_S = 0.5


class ProcessDiedError(Exception):
    """The process ended before its cell did: it was killed, or ran out of memory."""


class CellProcess:
    """A process that runs one cell after another; see `execute_cell.main`."""

    def __init__(self) -> None:
        # Keeps what a process writes before it dies.
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | dict.fromkeys(_ONE_THREAD, "1"),
            # Ctrl-C goes to the study, which ends its processes itself.
            start_new_session=True,
        )

    def run(
        self,
        cell: Cell,
        cache: Path,
        progress: Progress,
        timeout_s: float | None = None,
    ) -> CellOutcome:
        """Run a cell and return how it ended.

        Parameters
        ----------
        cell : Cell
            What to run.
        cache : Path
            Folder of the cache.
        progress : callable
            Called from this thread with each `Step` of the cell.
        timeout_s : float, optional
            The process is ended after this many seconds, and the cell has failed.

        Raises
        ------
        ProcessDiedError
            If the process ended, or closed its pipes, before the cell did.
        """
        overdue = threading.Event()

        def end() -> None:
            overdue.set()
            self.kill()

        timer = None if timeout_s is None else threading.Timer(timeout_s, end)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            return self._outcome(cell, cache, progress)
        except ProcessDiedError:
            if timeout_s is None or not overdue.is_set():
                raise
            reason = (
                f"It was ended after {duration(timeout_s)}, the limit of "
                "--cell-timeout: raise the limit, or look where the detector hangs."
            )
            return CellOutcome(is_done=False, reason=reason)
        finally:
            if timer is not None:
                timer.cancel()

    def _outcome(self, cell: Cell, cache: Path, progress: Progress) -> CellOutcome:
        """Send a cell to the process, and read messages until it has ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101
        assert stdout is not None  # noqa: S101
        request = CellRequest(cache=os.path.abspath(cache), cell=cell)
        try:
            stdin.write(msgspec.json.encode(request, enc_hook=plain) + b"\n")
            stdin.flush()
        except OSError as error:
            raise ProcessDiedError(self._exit_reason()) from error
        for line in stdout:
            try:
                message = msgspec.json.decode(line, type=Message)
            except msgspec.DecodeError:  # cut short by the end of the process
                break
            if message.outcome is not None:
                return message.outcome
            if message.step is not None:
                progress(message.step)
        raise ProcessDiedError(self._exit_reason())

    def _exit_reason(self) -> str:
        """Return how the process ended, with its last line on standard error.

        One that lives on has closed its pipes: no message will come, and it is ended.
        """
        try:
            code = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            return "its detector closed the pipes through which it reports"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        ended = f"by signal {-code}" if code < 0 else f"with code {code}"
        return f"it ended {ended}" + (f", saying {lines[-1][:200]!r}" if lines else "")

    def kill(self) -> None:
        """End the process and those it started; a `run` under way raises."""
        self._process.kill()
        # Its detector may have started others, which hold its pipes.
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process at once and release its pipes."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            # A request that could not be sent no longer matters.
            with suppress(OSError):
                if stream is not None:
                    stream.close()


def run_locally(
    cells: Sequence[Cell],
    cache: Path,
    n_processes: int,
    watch: Watcher,
    *,
    timeout_s: float | None = None,
    interrupted: Callable[[], None] = lambda: None,
) -> None:
    """Run cells in several processes; return when all have ended.

    A cell whose process dies is run again in a new one, up to `MOST_DEATHS` times. If
    this call is interrupted, all processes are ended.

    Parameters
    ----------
    cells : sequence of Cell
        What to run, in this order.
    cache : Path
        Folder of the cache.
    n_processes : int
        Processes at the same time.
    watch : callable
        Called from this thread alone, for each step and for the outcome of each cell.
    timeout_s : float, optional
        Seconds after which a cell is ended and has failed.
    interrupted : callable
        Called often; raises if the study is to stop.
    """
    pool = _Pool(cache, cells, min(n_processes, len(cells)), timeout_s)
    try:
        n_left = len(cells)
        while n_left:
            interrupted()
            try:
                cell, update = pool.updates.get(timeout=_LOOK_S)
            except Empty:
                continue
            watch(cell, update)
            n_left -= isinstance(update, CellOutcome)
    finally:
        pool.close()


class _Pool:
    """Processes, each with a thread that sends it cells and waits for messages."""

    def __init__(
        self,
        cache: Path,
        cells: Sequence[Cell],
        n_processes: int,
        timeout_s: float | None,
    ) -> None:
        self.updates: SimpleQueue[tuple[Cell, Step | CellOutcome]] = SimpleQueue()
        self._cache = cache
        self._timeout_s = timeout_s
        # Each cell with the number of times its process has died; None ends a thread.
        self._waiting: SimpleQueue[tuple[Cell, int] | None] = SimpleQueue()
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
        """End all processes at once, and wait for the threads."""
        with self._lock:
            self._is_closed = True
            for process in self._processes.values():
                process.kill()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, k: int) -> None:
        """Run waiting cells in process `k` until there are no more."""
        while (job := self._waiting.get()) is not None and not self._is_closed:
            cell, n_deaths = job
            try:
                self.updates.put((cell, self._run(k, cell)))
            except ProcessDiedError as death:
                self._end(k)
                self._retry_or_fail(cell, n_deaths + 1, death)
        self._end(k)

    def _run(self, k: int, cell: Cell) -> CellOutcome:
        """Run a cell in process `k`, which is started if it does not exist."""
        with self._lock:
            if self._is_closed:
                raise ProcessDiedError("it was not started")
            if k not in self._processes:
                self._processes[k] = CellProcess()
            process = self._processes[k]
        return process.run(
            cell,
            self._cache,
            lambda step: self.updates.put((cell, step)),
            self._timeout_s,
        )

    def _end(self, k: int) -> None:
        """End process `k`, if it exists."""
        with self._lock:
            process = self._processes.pop(k, None)
        if process is not None:
            process.close()

    def _retry_or_fail(self, cell: Cell, n_deaths: int, death: Exception) -> None:
        """Queue a cell again after its process died, or give it up."""
        if n_deaths < MOST_DEATHS:
            waiting = Step(StepKind.WAITING, detail="because its process died")
            self.updates.put((cell, waiting))
            self._waiting.put((cell, n_deaths))
            return
        reason = (
            f"Its process died {n_deaths} times ({death}): if memory ran out, run "
            "fewer cells at a time, with --workers 1."
        )
        self.updates.put((cell, CellOutcome(is_done=False, reason=reason)))


def processes_that_fit(n_bytes: int) -> int:
    """Return how many cells this machine can run at the same time, at least 1.

    Parameters
    ----------
    n_bytes : int
        Size of the largest testbed of the study, both recordings.
    """
    memory = _free_memory()
    n_fit = n_cores()
    if memory is not None:
        n_fit = min(n_fit, int(memory // (_LIBRARY_BYTES + _BYTES_PER_BYTE * n_bytes)))
    return max(1, n_fit)


def n_cores() -> int:
    """Return how many cores this process may use, which may be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _free_memory() -> float | None:
    """Return the bytes of free memory; None where the system does not report them."""
    limits = []
    for path, word, unit in (
        ("/proc/meminfo", "MemAvailable:", 1024),
        ("/sys/fs/cgroup/memory.max", "", 1),
    ):
        with suppress(OSError):
            for line in Path(path).read_text(encoding="utf-8").splitlines():
                number = line.removeprefix(word).split()[0]
                if line.startswith(word) and number.isdecimal():
                    limits.append(float(number) * unit)
    return min(limits, default=None)


def run_on_cluster(
    cells: Sequence[Cell],
    cache: Path,
    address: str,
    watch: Watcher,
    board: Board,
    *,
    timeout_s: float | None = None,
    interrupted: Callable[[], None] = lambda: None,
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
    timeout_s, interrupted
        As for `run_locally`.

    Raises
    ------
    FileError
        If no scheduler answers, a worker lacks Sightline or the cache, or the scheduler
        or the last worker is lost.
    """
    if not cells:
        return
    with connected(address) as cluster:
        cache, client = cache.absolute(), cluster.client
        cluster.check_workers([])
        _check_shared(client, cache)
        board.n_slots = max(sum(client.nthreads().values()), 1)
        topic = f"sightline-{uuid4().hex}"
        events: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        client.subscribe_topic(topic, lambda event: events.put(tuple(event[1])))
        futures: list[Future[CellOutcome]] = []
        for cell in cells:
            key = f"{topic}-{cell.name}"
            future = client.submit(
                _run_on_worker, cell, str(cache), topic, timeout_s, key=key, pure=False
            )
            futures.append(future)
            future.add_done_callback(
                lambda ended, name=cell.name: events.put((name, ended))
            )
        open_cells = {cell.name: cell for cell in cells}
        try:
            while open_cells:
                interrupted()
                try:
                    name, event = events.get(timeout=_LOOK_S)
                except Empty:
                    cluster.check()
                    continue
                if name not in open_cells:
                    continue
                if isinstance(event, str):
                    watch(open_cells[name], msgspec.json.decode(event, type=Step))
                else:
                    watch(open_cells.pop(name), _outcome(event))
        finally:
            # A scheduler that is gone needs no farewell.
            with suppress(Exception):
                client.unsubscribe_topic(topic)
                client.cancel(futures, force=True)


def _outcome(ended: "Future[CellOutcome]") -> CellOutcome:
    """Return how the task of a cell ended, also if the scheduler gave it up."""
    try:
        return ended.result(timeout=30)
    except Exception as error:
        return CellOutcome(
            is_done=False,
            reason=f"The cluster gave it up ({type(error).__name__}: {brief(error)}).",
        )


def _run_on_worker(
    cell: Cell, cache: str, topic: str, timeout_s: float | None
) -> CellOutcome:
    """Run a cell in a process of its own, on the worker that executes this task."""
    from distributed import get_worker

    worker = get_worker()

    def progress(step: Step) -> None:
        worker.log_event(topic, (cell.name, msgspec.json.encode(step).decode()))

    reason = ""
    for _ in range(MOST_DEATHS):
        process = CellProcess()
        try:
            return process.run(cell, Path(cache), progress, timeout_s)
        except ProcessDiedError as death:
            reason = (
                f"Its process on {worker.address} died {MOST_DEATHS} times ({death}): "
                "if memory ran out, give the worker fewer threads."
            )
        finally:
            process.close()
    return CellOutcome(is_done=False, reason=reason)


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
