"""The work of one cell: learn, look, evaluate; each step only if not done before."""

import json
from pathlib import Path
from typing import Any

from sightline.data.stream import ResidualStream
from sightline.detectors.base import LearnedDetector
from sightline.errors import StreamError
from sightline.evaluation.pipeline import evaluate
from sightline.export import export_stream
from sightline.progress import Progress, Step, StepKind
from sightline.storage import read_stream, write_results, write_stream
from sightline.study.cache import Cache
from sightline.study.cell import Cell
from sightline.study.plan import code_version, made_detector
from sightline.study.testbed_snapshot import kept_recordings

WAITING = Step(StepKind.WAITING, detail="for another study that works on it")


def carry_out(cell: Cell, cache: Cache, progress: Progress) -> None:
    """Do what is left to do for a cell.

    Numbers do not depend on how many threads a machine has: every library gets one.
    """
    from threadpoolctl import threadpool_limits

    with (
        threadpool_limits(limits=1),
        cache.locked(cell.key, lambda: progress(WAITING)),
    ):
        if not cache.stream(cell).exists():
            with cache.new_cell(cell) as folder:
                write_stream(
                    _stream(cell, cache, folder, progress), folder / "stream.npz"
                )
        if not cache.result(cell).exists():
            # From the file, so that whoever evaluates it gets the same.
            stream = named(read_stream(cache.stream(cell)), cell)
            chosen = cell.evaluation
            found = evaluate(
                stream,
                guard=chosen.guard,
                intervals=chosen.intervals,
                diagnosis=chosen.diagnosis,
                seed=chosen.seed,
                progress=progress,
            )
            with cache.new_result(cell) as folder:
                write_results([found], folder)


def named(stream: ResidualStream, cell: Cell) -> ResidualStream:
    """Return a stream under the names that the study gives it."""
    return stream.replace(name=cell.name, detector=cell.detector, testbed=cell.testbed)


def _stream(
    cell: Cell, cache: Cache, folder: Path, progress: Progress
) -> ResidualStream:
    _check_version(cell)
    train, test = kept_recordings(cache.testbeds, cell.content)
    detector = made_detector(
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
        progress=progress,
    )
    _check_version(cell)
    return named(stream.replace(meta=dict(stream.meta) | _told(cell)), cell)


def _check_version(cell: Cell) -> None:
    """Refuse code that is not what the cell is called by."""
    if code_version(cell.kind) != cell.version:
        raise StreamError(
            f"The file of {cell.kind} is not what it was when the study began: run the "
            "study again."
        )


def _told(cell: Cell) -> dict[str, Any]:
    """Return what a reader of the stream must know to make it again."""
    told: dict[str, Any] = {
        "seed": cell.seed,
        "testbed_name": cell.plant,
        "testbed_release": cell.release,
        "testbed_content": cell.content,
        "testbed_digests": json.loads(json.dumps(dict(cell.digests))),
        "testbed_options": json.loads(json.dumps(dict(cell.options), default=str)),
    }
    return told
