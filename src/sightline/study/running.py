"""A study from plan to write-up: open, divide into cells, run, gather, compare."""

import json
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sightline._version import __version__
from sightline.atomic import staged_file
from sightline.checks import NORMAL
from sightline.detectors.base import LearnedDetector, Progress, silent
from sightline.errors import FileError, SightlineError, StreamError
from sightline.evaluation import plain
from sightline.files import reading, writing
from sightline.storage import gather_results, read_stream, write_stream
from sightline.storage.npz import read_arrays
from sightline.study.board import Board
from sightline.study.cache import Cache
from sightline.study.cell import Cell, Outcome
from sightline.study.local import processes_that_fit, run_locally
from sightline.study.plan import (
    DetectorChoice,
    StudyPlan,
    TestbedChoice,
    code_version,
    made_detector,
)
from sightline.study.recorded import RecordedTestbed, keep_testbed
from sightline.study.work import named
from sightline.testbeds import open_testbed

MANIFEST = "study.json"
# Called with the board whenever something is heard of a cell.
BoardWatcher = Callable[[Board], None]


def unwatched(board: Board) -> None:
    """Watch nothing."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study that has ended.

    Parameters
    ----------
    folder : Path
        Where its results are.
    done : tuple of str
        Names of the results.
    failed : mapping
        By name: why a cell failed.
    """

    folder: Path
    done: tuple[str, ...]
    failed: Mapping[str, str]


def open_testbeds(
    plan: StudyPlan, cache: Cache | None, progress: Progress = silent
) -> dict[str, RecordedTestbed]:
    """Open every testbed once, and keep it for the cells if asked to; by label."""
    return {choice.label: _opened(choice, cache, progress) for choice in plan.testbeds}


def _opened(
    choice: TestbedChoice, cache: Cache | None, progress: Progress
) -> RecordedTestbed:
    try:
        testbed = open_testbed(
            choice.testbed, choice.root, progress=progress, **choice.options
        )
    except TypeError as error:
        raise StreamError(
            f"[testbeds.{choice.label}] has an option of a wrong kind ({error})."
        ) from error
    if (np.asarray(testbed.train.labels) != NORMAL).all():
        raise StreamError(f"[testbeds.{choice.label}]: no row of train is normal.")
    if cache is None:
        return RecordedTestbed.of(testbed)
    progress(f"Keeping {choice.label}", 0, 0)
    return keep_testbed(testbed, cache.testbeds)


def cells_of(plan: StudyPlan, testbeds: Mapping[str, RecordedTestbed]) -> list[Cell]:
    """Return the cells of a plan; whatever cannot be made is refused here."""
    return [
        _cell(plan, label, recorded, detector, seed)
        for label, recorded in testbeds.items()
        for detector in plan.detectors
        for seed in plan.seeds
    ]


def _cell(
    plan: StudyPlan,
    label: str,
    testbed: RecordedTestbed,
    detector: DetectorChoice,
    seed: int,
) -> Cell:
    settings = detector.settings_on(label)
    try:
        made = made_detector(
            detector.detector, detector.preset, testbed.name, seed, settings
        )
    except (SightlineError, TypeError) as error:
        raise StreamError(f"[detectors.{detector.label}]: {error}") from error
    is_ours = isinstance(made, LearnedDetector)
    return Cell(
        testbed=label,
        detector=detector.label,
        plant=testbed.name,
        content=testbed.content,
        kind=detector.detector,
        version=code_version(detector.detector),
        preset=detector.preset,
        rule=detector.rule,
        settings=settings,
        resolved=made.settings.to_dict() if is_ours else {},
        seed=seed,
        evaluation=plan.evaluation,
        release=testbed.release,
        digests=testbed.digests,
    )


def run_study(
    plan: StudyPlan,
    out: str | Path,
    *,
    cache: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
    watch: BoardWatcher = unwatched,
) -> Study:
    """Train, export, evaluate and compare all that a plan names.

    What is done already is not done again: a study that was stopped or killed goes on
    where it was, and gives the same bits as one that never was.

    Parameters
    ----------
    plan : StudyPlan
        As `read_plan` gives it.
    out : path
        Gets ``streams/*.npz``, a result folder for each cell, ``summary.csv``, tables,
        figures, findings and ``methods.md``.
    cache : path, optional
        Where cells are kept, by content; studies may share one. ``out/cache`` unless
        given.
    workers : int, optional
        Processes on this machine; by default as many as its cores and memory hold.
    cluster : str, optional
        Address of a Dask scheduler to run the cells on; its workers must see `cache`.
    overwrite : bool
        Whether results of another study in `out` may be replaced.
    progress : callable, optional
        Told ``(what, done, total)`` before and after the cells.
    watch : callable, optional
        Shown the board whenever something is heard of a cell.

    Returns
    -------
    Study
        A failed cell does not stop the others; it is told here, with its reason.
    """
    out = Path(out)
    kept = Cache(out / "cache" if cache is None else cache)
    check_folder(plan, out, overwrite=overwrite)
    testbeds = open_testbeds(plan, kept, progress)
    cells = cells_of(plan, testbeds)
    board = Board.of(cells)
    waiting = [cell for cell in cells if not kept.is_done(cell)]
    for cell in cells:
        if cell not in waiting:
            board.was_done(cell)
    watch(board)

    def heard(cell: Cell, said: tuple[str, int, int] | Outcome) -> None:
        board.take(cell, said)
        watch(board)

    if cluster is not None:
        from sightline.study.cluster import run_on_cluster

        run_on_cluster(waiting, kept.folder, cluster, heard, board)
    else:
        largest = max(testbed.n_bytes for testbed in testbeds.values())
        board.n_slots = workers or processes_that_fit(largest)
        run_locally(waiting, kept.folder, board.n_slots, heard)
    return _gathered(plan, testbeds, cells, board, kept, out, progress)


def check_folder(plan: StudyPlan, out: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds what this study would not replace by itself."""
    with reading(out):
        if overwrite or not out.exists():
            return
        if not (out / MANIFEST).exists():
            if any(out.glob("*/evaluation.json")) or (out / "summary.csv").exists():
                raise FileError(
                    f"{out}: holds results that are no study's: choose another --out, "
                    "or pass --overwrite."
                )
            return
        try:
            before = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
            others = {cell["name"] for cell in before["cells"]} - set(_names(plan))
        except (ValueError, KeyError, TypeError) as error:
            raise FileError(
                f"{out / MANIFEST}: cannot be read: delete it, or choose another --out."
            ) from error
    if others:
        raise FileError(
            f"{out}: holds another study, with {sorted(others)[0]!r}, which this one "
            "has not: choose another --out, or pass --overwrite."
        )


def _names(plan: StudyPlan) -> list[str]:
    return [
        f"{testbed.label}-{detector.label}-seed{seed}"
        for testbed in plan.testbeds
        for detector in plan.detectors
        for seed in plan.seeds
    ]


def _gathered(
    plan: StudyPlan,
    testbeds: Mapping[str, RecordedTestbed],
    cells: Sequence[Cell],
    board: Board,
    cache: Cache,
    out: Path,
    progress: Progress,
) -> Study:
    """Put what was made into the study's folder, and write up what it says."""
    failed = {
        standing.cell.name: standing.outcome.reason
        for standing in board.failed
        if standing.outcome is not None
    }
    done = [cell for cell in cells if cell.name not in failed]
    _forget_others(out, [cell.name for cell in done])
    for k, cell in enumerate(done):
        progress("Gathering streams", k, len(done))
        _place_stream(cell, cache, out / "streams" / f"{cell.name}.npz")
    gather_results([cache.result(cell) for cell in done], out)
    with staged_file(out / MANIFEST) as partial:
        told = _manifest(plan, testbeds, cells, failed)
        partial.write_text(json.dumps(plain(told), indent=1) + "\n", encoding="utf-8")
    return Study(folder=out, done=tuple(cell.name for cell in done), failed=failed)


def _forget_others(out: Path, names: Sequence[str]) -> None:
    """Remove what an earlier study left here that is not of this one."""
    try:
        before = json.loads((out / MANIFEST).read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return
    with writing(out):
        for cell in before:
            if cell["name"] not in names:
                shutil.rmtree(out / cell["name"], ignore_errors=True)
                (out / "streams" / f"{cell['name']}.npz").unlink(missing_ok=True)


def _place_stream(cell: Cell, cache: Cache, place: Path) -> None:
    """Give a stream a second name in the study, or write it under its names there."""
    with staged_file(place) as partial:
        kept = cache.stream(cell)
        told = json.loads(read_arrays(kept, ["meta_json"])[0]["meta_json"].item())
        if (told["detector"], told["testbed"]) != (cell.detector, cell.testbed):
            write_stream(named(read_stream(kept), cell), partial.with_suffix(".npz"))
            os.replace(partial.with_suffix(".npz"), partial)
            return
        # A killed run may have left one that is the kept file itself.
        partial.unlink(missing_ok=True)
        try:
            os.link(kept, partial)
        except OSError:  # another disk, or one without links
            shutil.copyfile(kept, partial)


def _manifest(
    plan: StudyPlan,
    testbeds: Mapping[str, RecordedTestbed],
    cells: Sequence[Cell],
    failed: Mapping[str, str],
) -> dict[str, Any]:
    """Return what was asked for, of what, and what became of it; no times in it."""
    return {
        "title": plan.title,
        "sightline": __version__,
        "python": platform.python_version(),
        "plan": asdict(plan)
        # Where the files lie on one machine says nothing on another.
        | {"testbeds": [asdict(replace(t, root=None)) for t in plan.testbeds]},
        "testbeds": {label: asdict(testbed) for label, testbed in testbeds.items()},
        "cells": [
            {
                "name": cell.name,
                "testbed": cell.testbed,
                "detector": cell.detector,
                "seed": cell.seed,
                "key": cell.key,
                "settings": dict(cell.resolved),
                "failed": failed.get(cell.name),
            }
            for cell in cells
        ],
    }
