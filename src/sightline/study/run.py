"""A study from plan to results: open testbeds, divide into cells, run them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import NORMAL
from sightline.detectors.base import LearnedDetector
from sightline.errors import SightlineError, StreamError
from sightline.export import check_rule
from sightline.files import brief
from sightline.progress import Progress, Step, StepKind, silent
from sightline.study.cache import Cache
from sightline.study.cell import Cell, Outcome, cell_name
from sightline.study.collect import Study, check_folder, gather_study
from sightline.study.plan import (
    DetectorChoice,
    StudyPlan,
    TestbedChoice,
    code_version,
    made_detector,
)
from sightline.study.process_pool import processes_that_fit, run_locally
from sightline.study.status import Board
from sightline.study.testbed_snapshot import RecordedTestbed, keep_testbed
from sightline.testbeds import open_testbed

# Called with the board whenever something is heard of a cell.
BoardWatcher = Callable[[Board], None]


def unwatched(board: Board) -> None:
    """Watch nothing."""


def open_testbeds(
    plan: StudyPlan, cache: Cache | None, progress: Progress = silent
) -> dict[str, RecordedTestbed]:
    """Open every testbed once, and keep it for the cells if asked to; by label."""
    return {choice.label: _opened(choice, cache, progress) for choice in plan.testbeds}


def _opened(
    choice: TestbedChoice, cache: Cache | None, progress: Progress
) -> RecordedTestbed:
    at = f"[testbeds.{choice.label}]"
    try:
        testbed = open_testbed(
            choice.testbed, choice.root, progress=progress, **choice.options
        )
    except SightlineError as error:
        raise type(error)(f"{at}: {error}") from error
    except TypeError as error:
        raise StreamError(f"{at} has an option of a wrong kind ({error}).") from error
    if (np.asarray(testbed.train.labels) != NORMAL).all():
        raise StreamError(f"{at}: no row of train is normal.")
    if cache is None:
        return RecordedTestbed.of(testbed)
    progress(Step(StepKind.WRITING, detail=choice.label))
    return keep_testbed(testbed, cache)


def cells_of(plan: StudyPlan, testbeds: Mapping[str, RecordedTestbed]) -> list[Cell]:
    """Return the cells of a plan; whatever cannot be made is refused here."""
    _check_names(plan)
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
    at = f"[detectors.{detector.label}]"
    try:
        made = made_detector(
            detector.detector, detector.preset, testbed.name, seed, settings
        )
        is_ours = isinstance(made, LearnedDetector)
        check_rule(made, detector.rule)
    except SightlineError as error:
        raise StreamError(f"{at}: {error}") from error
    except Exception as error:
        # A stranger's class may refuse its settings in any way.
        raise StreamError(f"{at}: {type(error).__name__}: {brief(error)}") from error
    if not hasattr(made, "residuals"):
        raise StreamError(f"{at}: {detector.detector} has no method `residuals`.")
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
        resolved=made.settings.to_dict() if is_ours else settings,
        seed=seed,
        evaluation=plan.evaluation,
        release=testbed.release,
        digests=testbed.digests,
        options=_told_options(plan, label),
    )


def _told_options(plan: StudyPlan, label: str) -> dict[str, Any]:
    """Return how a testbed was opened, without where its files lie."""
    (choice,) = (testbed for testbed in plan.testbeds if testbed.label == label)
    return {
        name: Path(value).name if name == "scenario" else value
        for name, value in choice.options.items()
    }


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
        Processes on this machine, 1 or more; by default as many as its cores and
        memory hold.
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
    if workers is not None and workers < 1:
        raise StreamError(f"`workers` must be 1 or more; got {workers}.")
    out = Path(out)
    kept = Cache(out / "cache" if cache is None else cache)
    check_folder(names_of(plan), out, overwrite=overwrite)
    testbeds = open_testbeds(plan, kept, progress)
    cells = cells_of(plan, testbeds)
    board = Board.of(cells)
    waiting = [cell for cell in cells if not kept.is_done(cell)]
    for cell in cells:
        if cell not in waiting:
            board.was_done(cell)
    watch(board)

    def heard(cell: Cell, said: Step | Outcome) -> None:
        board.take(cell, said)
        watch(board)

    if cluster is not None:
        from sightline.study.dask_pool import run_on_cluster

        run_on_cluster(waiting, kept.folder, cluster, heard, board)
    else:
        largest = max(testbed.n_bytes for testbed in testbeds.values())
        board.n_slots = workers or processes_that_fit(largest)
        run_locally(waiting, kept.folder, board.n_slots, heard)
    failed = {
        standing.cell.name: standing.outcome
        for standing in board.failed
        if standing.outcome is not None
    }
    return gather_study(plan, testbeds, cells, failed, kept, out, progress)


def _check_names(plan: StudyPlan) -> None:
    names = names_of(plan)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StreamError(
            f"Two pairs of a testbed and a detector would be called {twice!r}: give "
            "one of them another label."
        )


def names_of(plan: StudyPlan) -> list[str]:
    """Return what the cells of a plan will be called."""
    return [
        cell_name(testbed.label, detector.label, seed)
        for testbed in plan.testbeds
        for detector in plan.detectors
        for seed in plan.seeds
    ]
