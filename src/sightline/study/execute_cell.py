"""The work of one cell (train, export, evaluate), and the process in which it runs.

`run_cell` does what is left to do for a cell. `main` is the process that
`pools.CellProcess` starts: it reads one `CellRequest` per line from standard input
and writes one `Message` per line to standard output. When its input ends, because the
study was stopped or killed, the process ends at once, whatever it is doing.
"""

import hashlib
import importlib
import inspect
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from sightline.data.stream import ResidualStream
from sightline.detectors import detector_type
from sightline.detectors.base import LearnedDetector
from sightline.errors import SightlineError, StreamError
from sightline.evaluation.pipeline import evaluate
from sightline.export import export_stream
from sightline.files import brief
from sightline.parallel import threads
from sightline.progress import Progress, Step, StepKind
from sightline.storage import read_stream, write_results, write_stream
from sightline.study.cell import Cache, Cell, CellOutcome
from sightline.study.plan import refuse_unknown_keys

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
                stream = _train_and_export(cell, cache, folder, progress)
                write_stream(stream, folder / "stream.npz")
        if not cache.result(cell).exists():
            # Read from the file, so that evaluating the file again gives the same.
            stream = with_labels_of(read_stream(cache.stream(cell)), cell)
            evaluation = evaluate(
                stream,
                guard=cell.evaluation.guard,
                intervals=cell.evaluation.intervals,
                diagnosis=cell.evaluation.diagnosis,
                metrics=cell.evaluation.metrics,
                budget=cell.evaluation.budget,
                seed=cell.evaluation.seed,
                protocol=cell.evaluation.protocol,
                progress=progress,
            )
            with cache.new_result(cell) as folder:
                write_results([evaluation], folder)


def with_labels_of(stream: ResidualStream, cell: Cell) -> ResidualStream:
    """Return a stream with the study's labels for testbed and detector.

    The same cell may have other labels in another study; its residuals are the same.
    """
    return stream.replace(name=cell.name, detector=cell.detector, testbed=cell.testbed)


def _train_and_export(
    cell: Cell, cache: Cache, folder: Path, progress: Progress
) -> ResidualStream:
    """Train the detector of a cell, save it in `folder`, and return its stream."""
    _check_version(cell)
    train, test = cache.recordings(cell.content)
    detector = new_detector(
        cell.kind, cell.preset, cell.plant, cell.seed, cell.settings
    )
    if isinstance(detector, LearnedDetector):
        work = cache.work(cell)
        work.mkdir(parents=True, exist_ok=True)
        detector.fit(train, progress=progress, checkpoint=work / "checkpoint.npz")
        detector.save(folder / "detector.npz")
    else:
        progress(Step(StepKind.TRAINING))
        detector.fit(train)
    stream = export_stream(
        detector,
        train,
        test,
        testbed=cell.testbed,
        telemetry=cell.evaluation.telemetry,
        rule=cell.rule,
        preset=cell.preset if isinstance(detector, LearnedDetector) else "export",
        audit=cache.audit(cell.content),
        progress=progress,
    )
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
    requests: queue.Queue[bytes] = queue.Queue()

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
