"""The work of one cell (train, export, evaluate), and the processes that run many.

`run_cell` does what is left to do for a cell. `main` is the process that `CellProcess`
starts: it reads one `CellRequest` per line from standard input and writes one `Message`
per line to standard output. When its input ends, because the study was stopped or
killed, the process ends at once, whatever it is doing. `run_locally` uses as many such
processes as cores and memory can hold; `run_on_cluster` makes each cell a task of a
Dask cluster that already runs.

Processes, not threads: torch's random numbers and the number of threads of a library
belong to a whole process, and a process that is killed harms no other cell.
"""

import hashlib
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any
from uuid import uuid4

import msgspec

from sightline.audit.record import Audit
from sightline.cluster import Cluster
from sightline.data.record_parts import parts_of
from sightline.data.recording import Recording
from sightline.data.stream import ResidualStream
from sightline.detectors import detector_type
from sightline.detectors.base import LearnedDetector
from sightline.energy.energy import joined_parts
from sightline.errors import SightlineError, StreamError
from sightline.evaluation.pipeline import evaluate
from sightline.evaluation.result import plain
from sightline.export import export_stream
from sightline.files import brief
from sightline.parallel import n_cores, threads
from sightline.progress import Progress, Step, StepKind
from sightline.storage import read_stream, write_results, write_stream
from sightline.study.cell import Board, Cache, Cell, CellOutcome
from sightline.study.costs import CellCost, cpu_seconds, forget_peak, write_cost
from sightline.study.plan import refuse_unknown_keys
from sightline.text import duration

# Least seconds between two messages about the same kind of step.
_MESSAGE_EVERY_S = 0.2
# The key of a stream's `meta` with the `KnownEffect` of each attack, as plain values.
TRUTH_KEY = "attack_truth"


def run_cell(cell: Cell, cache: Cache, progress: Progress) -> None:
    """Do what is left to do for a cell: its stream, then its evaluation.

    Every numerical library gets one thread, so that the numbers do not depend on the
    machine. If another study works on the same cell, this call waits for it.

    Parameters
    ----------
    cell : Cell
        What to do.
    cache : Cache
        Holds the testbed, and gets the stream and the evaluation.
    progress : callable
        Takes a `Step`.

    Raises
    ------
    SightlineError
        If the detector cannot be built, trained or evaluated.
    """
    from threadpoolctl import threadpool_limits

    waiting = Step(StepKind.WAITING, detail="for another study that works on it")
    lock = cache.locked(cell.key, lambda: progress(waiting))
    # One thread of ours, too: cells run side by side already.
    with threadpool_limits(limits=1), threads(1), lock:
        if not cache.stream(cell).exists():
            with cache.new_cell(cell) as folder:
                forget_peak()
                cost = CellCost(train_cpu_s=0.0)
                stream = _train_and_export(cell, cache, folder, progress, cost)
                write_cost(cost, folder)
                write_stream(stream, folder / "stream.npz")
        if not cache.result(cell).exists():
            # Read from the file, so that evaluating the file again gives the same.
            stream = with_labels_of(read_stream(cache.stream(cell)), cell)
            # All but whether telemetry is exported are options of `evaluate`.
            options = {
                k: v for k, v in vars(cell.evaluation).items() if k != "telemetry"
            }
            evaluation = evaluate(stream, **options, progress=progress)
            with cache.new_result(cell) as folder:
                write_results([evaluation], folder)


def with_labels_of(stream: ResidualStream, cell: Cell) -> ResidualStream:
    """Return a stream with the study's labels for testbed and detector.

    The same cell may have other labels in another study; its residuals are the same.
    """
    return stream.replace(name=cell.name, detector=cell.detector, testbed=cell.testbed)


def _train_and_export(
    cell: Cell, cache: Cache, folder: Path, progress: Progress, cost: CellCost
) -> ResidualStream:
    """Train the detector of a cell, save it in `folder`, and return its stream.

    What it costs is added to `cost`.
    """
    _check_version(cell)
    train, test = cache.recordings(cell.content)
    audit = cache.audit(cell.content)

    def exported(
        train: Recording, test: Recording, *, name: str, is_saved: bool = False
    ) -> ResidualStream:
        detector = new_detector(
            cell.kind, cell.preset, cell.plant, cell.seed, cell.settings
        )
        is_ours = isinstance(detector, LearnedDetector)
        checkpoint = cache.work(cell) / f"{name}.npz"
        is_resumed = checkpoint.exists()
        with cpu_seconds() as training:
            if is_ours:
                checkpoint.parent.mkdir(parents=True, exist_ok=True)
                detector.fit(train, progress=progress, checkpoint=checkpoint)
            else:
                progress(Step(StepKind.TRAINING))
                detector.fit(train)
        if is_ours and is_saved:
            detector.save(folder / "detector.npz")
        with cpu_seconds() as scoring:
            stream = _exported(detector, train, test, cell, audit, progress)
        cost.score_cpu_s += scoring[0]
        if is_resumed:
            cost.train_cpu_s = None
        elif cost.train_cpu_s is not None:
            cost.train_cpu_s += training[0]
        return stream

    if test.parts == 1:
        stream = exported(train, test, name="checkpoint", is_saved=True)
    else:
        parts = parts_of(train, test)
        streams = [
            exported(part.train, part.test, name=f"part{k}")
            for k, part in enumerate(parts, start=1)
        ]
        whole = exported(train, parts[-1].test, name="checkpoint", is_saved=True)
        stream = joined_parts(whole, streams, [part.begin_s for part in parts])
    _check_version(cell)
    origin: dict[str, object] = {
        "seed": cell.seed,
        "testbed_name": cell.plant,
        "testbed_release": cell.release,
        "testbed_content": cell.content,
        "testbed_digests": json.loads(json.dumps(dict(cell.digests))),
        "testbed_options": json.loads(json.dumps(dict(cell.options), default=str)),
    }
    if truth := cache.truth(cell.content):
        origin[TRUTH_KEY] = msgspec.to_builtins(truth)
    return with_labels_of(stream.replace(meta=dict(stream.meta) | origin), cell)


def _exported(
    detector: Any,
    train: Recording,
    test: Recording,
    cell: Cell,
    audit: Audit,
    progress: Progress,
) -> ResidualStream:
    """Return the stream of a trained detector, with what the cell asks for."""
    return export_stream(
        detector,
        train,
        test,
        testbed=cell.testbed,
        telemetry=cell.evaluation.telemetry,
        rule=cell.rule,
        preset=cell.preset if isinstance(detector, LearnedDetector) else "export",
        audit=audit,
        progress=progress,
    )


def _check_version(cell: Cell) -> None:
    """Raise `StreamError` if the detector's code is not the code of the cell's key."""
    if code_version(cell.kind) != cell.version:
        raise StreamError(
            f"The file of {cell.kind} has changed since the study began: run the study "
            "again."
        )


# ---- detectors by name ---------------------------------------------------------------


def detector_class(detector: str) -> type[Any]:
    """Return the class of a detector.

    Parameters
    ----------
    detector : str
        A name of `list_detectors`, or ``package.module:Class`` of something that is
        installed or lies in the current folder.

    Raises
    ------
    StreamError
        If there is no such detector, or its module cannot be imported.
    """
    if ":" not in detector:
        return detector_type(detector)
    # The processes of cells find modules of the current folder; this one must too.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module, _, name = detector.partition(":")
    try:
        kind: type[Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise StreamError(
            f"There is no {detector!r} to import ({brief(error)}): give "
            "package.module:Class of something installed or in the current folder."
        ) from error
    except Exception as error:
        # User code may fail in any way while it is imported.
        raise StreamError(
            f"{detector!r} cannot be imported ({type(error).__name__}: {brief(error)})."
        ) from error
    if not callable(kind) or not hasattr(kind, "fit"):
        raise StreamError(f"{detector!r} is not a class with `fit` and `residuals`.")
    return kind


def new_detector(
    detector: str, preset: str, testbed: str, seed: int, settings: Mapping[str, Any]
) -> Any:
    """Return an untrained detector.

    Parameters
    ----------
    detector : str
        As for `detector_class`.
    preset, testbed : str
        Preset, and name of the plant; used by the detectors of this package alone.
    seed : int
        Seed; passed to a class of the user only if its constructor takes `seed`.
    settings : mapping
        Further arguments of the constructor.
    """
    kind = detector_class(detector)
    if issubclass(kind, LearnedDetector):
        return kind(preset, testbed=testbed, seed=seed, **settings)
    parameters = inspect.signature(kind).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    arguments = dict(settings)
    if "seed" in parameters or takes_any:
        arguments["seed"] = seed
    if not takes_any:
        refuse_unknown_keys(arguments, list(parameters), detector)
    return kind(**arguments)


def code_version(detector: str) -> str:
    """Return a text that changes whenever a detector's residuals may: part of a key.

    For a detector of this package it is the version on its card; for any other class
    it is the digest of its source file.
    """
    kind = detector_class(detector)
    if kind.__module__.startswith("sightline."):
        return str(kind.card.version)
    source = inspect.getsourcefile(kind)
    text = b"" if source is None else Path(source).read_bytes()
    return hashlib.sha256(text).hexdigest()


# ---- the process ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CellRequest:
    """A line to the process: run this cell.

    Parameters
    ----------
    cache : str
        Absolute path of the cache's folder.
    cell : Cell
        The cell to run.
    """

    cache: str
    cell: Cell


@dataclass(frozen=True, kw_only=True)
class Message:
    """A line from the process about its cell; one of the two fields is set.

    Parameters
    ----------
    step : Step, optional
        What the cell is doing.
    outcome : CellOutcome, optional
        How the cell ended; the last message about it.
    """

    step: Step | None = None
    outcome: CellOutcome | None = None


def main() -> None:
    """Run one cell after another until standard input ends."""
    # Anything that prints to standard output must not be taken for a message.
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Nor may a detector that reads or closes standard input touch the requests.
    source = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    requests: SimpleQueue[bytes] = SimpleQueue()

    def read_requests() -> None:
        with suppress(OSError, ValueError):
            for line in source:
                requests.put(line)
        _end()

    threading.Thread(target=read_requests, daemon=True).start()
    while True:
        request = msgspec.json.decode(requests.get(), type=CellRequest)
        outcome = _outcome(request.cell, Cache(request.cache), messages)
        _send(messages, Message(outcome=outcome))


def _end() -> None:
    """End this process and those it started: what they make would reach no reader."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _outcome(cell: Cell, cache: Cache, messages: IO[bytes]) -> CellOutcome:
    """Run a cell, report its steps, and return how it ended; no error escapes."""
    last: tuple[StepKind, str] | None = None
    last_at = 0.0

    def progress(step: Step) -> None:
        nonlocal last, last_at
        now = time.monotonic()
        if (step.kind, step.detail) != last or now - last_at > _MESSAGE_EVERY_S:
            last, last_at = (step.kind, step.detail), now
            _send(messages, Message(step=step))

    try:
        run_cell(cell, cache, progress)
    except SightlineError as error:
        return CellOutcome(is_done=False, reason=str(error))
    except MemoryError:
        return CellOutcome(
            is_done=False,
            reason="Memory ran out: run fewer cells at a time, with --workers 1.",
        )
    except BaseException as error:
        # User code may fail in any way, or call sys.exit; the other cells go on.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        try:
            trace = traceback.format_exc()[-20_000:]
        except Exception as failure:  # an error of user code may have no text
            trace = f"no traceback ({type(failure).__name__})"
        return CellOutcome(
            is_done=False,
            reason=f"{type(error).__name__}: {brief(error)} "
            f"({os.path.basename(frame.filename)}, line {frame.lineno})",
            trace=trace,
        )
    return CellOutcome(is_done=True)


def _send(messages: IO[bytes], message: Message) -> None:
    """Write a message as one line; end the process if its reader is gone."""
    try:
        messages.write(msgspec.json.encode(message) + b"\n")
        messages.flush()
    except (OSError, ValueError):
        _end()


# ---- many cells: processes of this machine, or a Dask cluster ------------------------

# Not ``python -m``, which would load the module a second time under another name.
_MAIN = "from sightline.study.execute_cell import main; main()"
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


class CellProcess:
    """Runs one cell after another in a process of its own; see `main`.

    The process is started for the first cell, and again if it died: it was killed, ran
    out of memory, or its detector closed its pipes.

    Not `concurrent.futures.ProcessPoolExecutor`, which starts the user's script again
    in each worker, cannot be used within a Dask worker that has a nanny, leaves its
    workers running when the study itself is killed, and reports a dead worker without
    its exit code and its last line on standard error.

    Parameters
    ----------
    cache : Path
        Folder of the cache.
    timeout_s : float, optional
        Seconds after which a cell is ended and has failed.
    advice : str
        What to do if memory ran out.
    """

    def __init__(self, cache: Path, timeout_s: float | None, advice: str) -> None:
        self._cache, self._timeout_s, self._advice = cache, timeout_s, advice
        self._lock, self._is_closed = threading.Lock(), False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, cell: Cell, progress: Progress) -> CellOutcome:
        """Run a cell and return how it ended.

        If the process dies, the cell is run again in a new one, up to `MOST_DEATHS`
        times. After `close` it is not run.

        Parameters
        ----------
        cell : Cell
            What to run.
        progress : callable
            Called from this thread with each `Step` of the cell.
        """
        reason = ""
        for n_deaths in range(MOST_DEATHS):
            if n_deaths:
                died = "because its process died"
                progress(Step(StepKind.WAITING, detail=died))
            with self._lock:
                if self._is_closed:
                    break
                process = self._process = self._process or self._started()
            begin, limit = time.monotonic(), self._timeout_s or threading.TIMEOUT_MAX
            timer = threading.Timer(limit, _kill, [process])
            timer.daemon = True
            timer.start()
            outcome = self._outcome(process, cell, progress)
            timer.cancel()
            if outcome is not None:
                return outcome
            if time.monotonic() - begin >= limit:
                reason = (
                    f"It was ended after {duration(limit)}, the limit of "
                    "--cell-timeout: raise the limit, or look where the detector hangs."
                )
                self._end()
                break
            reason = (
                f"Its process died {n_deaths + 1} times ({self._end()}): if memory ran "
                f"out, {self._advice}."
            )
        return CellOutcome(is_done=False, reason=reason)

    def _started(self) -> subprocess.Popen[bytes]:
        """Return a new process."""
        # Holds what a process writes before it dies.
        self._errors = tempfile.TemporaryFile()
        return subprocess.Popen(
            [sys.executable, "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | dict.fromkeys(_ONE_THREAD, "1"),
            # Ctrl-C goes to the study, which ends its processes itself.
            start_new_session=True,
        )

    def _outcome(
        self, process: subprocess.Popen[bytes], cell: Cell, progress: Progress
    ) -> CellOutcome | None:
        """Send a cell to a process; return how it ended, or None if the process did."""
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None  # noqa: S101
        assert stdout is not None  # noqa: S101
        request = CellRequest(cache=os.path.abspath(self._cache), cell=cell)
        # A message may be cut short by the end of the process.
        with suppress(OSError, msgspec.DecodeError):
            stdin.write(msgspec.json.encode(request, enc_hook=plain) + b"\n")
            stdin.flush()
            for line in stdout:
                message = msgspec.json.decode(line, type=Message)
                if message.outcome is not None:
                    return message.outcome
                if message.step is not None:
                    progress(message.step)
        return None

    def _end(self) -> str:
        """End the process; return how it ended by itself, and its last line."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return "it was ended"
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        code = process.poll()
        _kill(process)
        # A request that could not be sent no longer matters.
        with suppress(OSError), process:
            pass
        with self._errors as errors:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
        if code is None:
            return "its detector closed the pipes through which it reports"
        ended = f"by signal {-code}" if code < 0 else f"with code {code}"
        return f"it ended {ended}" + (f", saying {lines[-1][:200]!r}" if lines else "")

    def close(self) -> None:
        """End the process at once; a `run` under way returns, and no other begins."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                _kill(self._process)
        self._end()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that its detector started, which hold its pipes."""
    process.kill()
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class CellRun:
    """Cells to run, and who hears of them.

    Parameters
    ----------
    cells : sequence of Cell
        What to run, in this order.
    cache : Path
        Folder of the cache.
    watch : callable
        Called from the study's thread alone, with each cell and its step, or how it
        ended.
    timeout_s : float, optional
        Seconds after which a cell is ended and has failed.
    interrupted : callable
        Called often; raises if the study is to stop.
    """

    cells: Sequence[Cell]
    cache: Path
    watch: Callable[[Cell, Step | CellOutcome], None]
    timeout_s: float | None
    interrupted: Callable[[], None]


def run_locally(run: CellRun, n_processes: int) -> None:
    """Run cells in several processes; return when all have ended.

    If this call is interrupted, all processes are ended.
    """
    if not run.cells:
        return
    updates: SimpleQueue[tuple[Cell, Step | CellOutcome]] = SimpleQueue()
    advice = "run fewer cells at a time, with --workers 1"
    processes = [
        CellProcess(run.cache, run.timeout_s, advice)
        for _ in range(min(n_processes, len(run.cells)))
    ]
    # The threads share one iterator, from which each takes its next cell.
    waiting = iter(run.cells)

    def tell(cell: Cell, update: Step | CellOutcome) -> None:
        updates.put((cell, update))

    def work(process: CellProcess) -> None:
        for cell in waiting:
            tell(cell, process.run(cell, partial(tell, cell)))
        process.close()

    with ThreadPoolExecutor(len(processes)) as threads_of_processes:
        try:
            for process in processes:
                threads_of_processes.submit(work, process)
            n_left = len(run.cells)
            while n_left:
                run.interrupted()
                with suppress(Empty):
                    cell, update = updates.get(timeout=_LOOK_S)
                    run.watch(cell, update)
                    n_left -= isinstance(update, CellOutcome)
        finally:
            for process in processes:
                process.close()


def processes_that_fit(n_bytes: int) -> int:
    """Return how many cells this machine can run at the same time, at least 1.

    Parameters
    ----------
    n_bytes : int
        Size of the largest testbed of the study, both recordings.
    """
    # Bytes of free memory, where the system reports them.
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
    needed = _LIBRARY_BYTES + _BYTES_PER_BYTE * n_bytes
    return max(1, min([n_cores(), *(int(limit // needed) for limit in limits)]))


def run_on_cluster(run: CellRun, address: str, board: Board) -> None:
    """Run cells on the workers of a cluster; return when all have ended.

    A worker gives a cell a process of its own, so that the threads of a worker do not
    share torch's random numbers. If a worker dies, the scheduler runs its cells on
    another one, where they continue from their checkpoints in the shared cache.

    Parameters
    ----------
    run : CellRun
        The cells; all workers must see the cache under the same path.
    address : str
        Address of the scheduler, such as ``tcp://10.0.0.5:8786``.
    board : Board
        Its `n_slots` becomes the number of threads of the workers.

    Raises
    ------
    FileError
        If no scheduler answers, a worker lacks Sightline or the cache, or the scheduler
        or the last worker is lost.
    """
    if not run.cells:
        return
    cache, cluster = run.cache.absolute(), Cluster(address)
    with cluster.connected():
        cluster.check_workers(
            {Cache(cache).testbed(cell.content) / "train.npz" for cell in run.cells},
            "name a folder that all workers share, with --cache",
        )
        board.n_slots = cluster.n_threads()
        topic = f"sightline-{uuid4().hex}"
        steps: SimpleQueue[tuple[str, str]] = SimpleQueue()
        cluster.client.subscribe_topic(topic, lambda event: steps.put(event[1]))
        open_cells = {
            cluster.submit(
                partial(_run_on_worker, cell, cache, topic, run.timeout_s)
            ): cell
            for cell in run.cells
        }
        with cluster.watching(list(open_cells)):
            while open_cells:
                run.interrupted()
                by_name = {cell.name: cell for cell in open_cells.values()}
                while not steps.empty():
                    name, text = steps.get()
                    if name in by_name:
                        run.watch(by_name[name], msgspec.json.decode(text, type=Step))
                for future in cluster.ended(list(open_cells)):
                    try:
                        outcome = future.result(timeout=30)
                    except Exception as error:
                        why = f"{type(error).__name__}: {brief(error)}"
                        reason = f"The cluster gave it up ({why})."
                        outcome = CellOutcome(is_done=False, reason=reason)
                    run.watch(open_cells.pop(future), outcome)


def _run_on_worker(
    cell: Cell, cache: Path, topic: str, timeout_s: float | None
) -> CellOutcome:
    """Run a cell in a process of its own, on the worker that executes this task."""
    from distributed import get_worker

    worker = get_worker()

    def progress(step: Step) -> None:
        worker.log_event(topic, (cell.name, msgspec.json.encode(step).decode()))

    advice = f"give the worker {worker.address} fewer threads"
    process = CellProcess(cache, timeout_s, advice)
    try:
        return process.run(cell, progress)
    finally:
        process.close()
