"""A study from plan to results: open the testbeds, list the cells, run them."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import numpy as np

from sightline.audit.data import audit_of, refusal, refused
from sightline.audit.record import Audit
from sightline.data.arrays import NORMAL
from sightline.detectors.base import LearnedDetector
from sightline.detectors.preprocessing import left_to_do
from sightline.errors import FileError, SightlineError, StreamError
from sightline.export import check_rule
from sightline.files import brief, sole_writer
from sightline.progress import Progress, Step, StepKind, silent
from sightline.study.cell import (
    Board,
    Cache,
    Cell,
    CellOutcome,
    RecordedTestbed,
    cell_name,
)
from sightline.study.collect import Study, check_folder, gather_study
from sightline.study.execute_cell import (
    CellRun,
    code_version,
    new_detector,
    processes_that_fit,
    run_locally,
    run_on_cluster,
)
from sightline.study.plan import DetectorChoice, StudyPlan, TestbedChoice
from sightline.testbeds import open_testbed

# Called with the board whenever the status of a cell changes.
BoardWatcher = Callable[[Board], None]
# Called with the label and the audit of each testbed, before anything is trained.
AuditWatcher = Callable[[str, Audit], None]


def run_study(
    plan: StudyPlan,
    out: str | Path,
    *,
    cache: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    cell_timeout_s: float | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
    watch: BoardWatcher = lambda board: None,
    audited: AuditWatcher = lambda label, audit: None,
) -> Study:
    """Train, export, evaluate and compare everything that a plan names.

    Finished cells are not computed again: a study that was stopped or killed continues
    where it was, and gives the same bits as one that ran without interruption. A cell
    that fails does not stop the others.

    Parameters
    ----------
    plan : StudyPlan
        As `read_plan` returns it.
    out : path
        Gets ``streams/*.npz``, a result folder for each cell, ``summary.csv``, tables,
        figures, findings, ``methods.md`` and ``report.html``.
    cache : path, optional
        Folder of finished cells, filed by content; studies may share one. By default
        ``out/cache``.
    workers : int, optional
        Processes on this machine, 1 or more; by default as many as its cores and its
        memory can hold.
    cluster : str, optional
        Address of a Dask scheduler on whose workers the cells run; all of them must
        see `cache`.
    cell_timeout_s : float, optional
        Seconds after which a cell is ended and counts as failed; by default as the plan
        says, which may be no limit.
    overwrite : bool
        Whether results of another study in `out` may be replaced.
    progress : callable, optional
        Called with each `Step` before and after the cells.
    watch : callable, optional
        Called with the board whenever the status of a cell changes.
    audited : callable, optional
        Called with label and audit of each testbed, before anything is trained.

    Returns
    -------
    Study
        Names of the results, the reasons of failed cells, and the comparison.

    Raises
    ------
    StreamError
        If a detector or testbed of the plan cannot be built; nothing is trained then.
    FileError
        If files of a testbed are missing, if the audit of a plant of the user has an
        error that ``plant.toml`` does not accept, or if `out` holds something else.

    Examples
    --------
    >>> plan = read_plan("studies/waterworks.toml")  # doctest: +SKIP
    >>> study = run_study(plan, "waterworks")  # doctest: +SKIP
    >>> study.failed  # doctest: +SKIP
    {}
    """
    if workers is not None and workers < 1:
        raise StreamError(f"`workers` must be 1 or more; got {workers}.")
    out = Path(out)
    cells_cache = Cache(out / "cache" if cache is None else cache)
    timeout_s = plan.cell_timeout_s if cell_timeout_s is None else cell_timeout_s
    with sole_writer(out), interrupts() as interrupted:
        check_folder(names_of(plan), out, overwrite=overwrite)
        testbeds = open_testbeds(plan, cells_cache, progress, audited)
        cells = cells_of(plan, testbeds)
        board = Board(cells)
        waiting = [cell for cell in cells if not cells_cache.is_done(cell)]
        for cell in cells:
            if cell not in waiting:
                board.mark_cached(cell)
        watch(board)

        def update(cell: Cell, step_or_outcome: Step | CellOutcome) -> None:
            board.update(cell, step_or_outcome)
            watch(board)

        run = CellRun(waiting, cells_cache.folder, update, timeout_s, interrupted)
        if cluster is not None:
            run_on_cluster(run, cluster, board)
        else:
            largest = max(testbed.n_bytes for testbed in testbeds.values())
            board.n_slots = workers or processes_that_fit(largest)
            run_locally(run, board.n_slots)
        interrupted()
        return gather_study(
            plan, testbeds, cells, board.failed, cells_cache, out, progress
        )


@contextmanager
def interrupts() -> Iterator[Callable[[], None]]:
    """Give a function that raises `KeyboardInterrupt` if Ctrl-C was pressed.

    Ctrl-C raises at once, as usual. Where that is swallowed, because it came within a
    callback of a library or while an object was being freed, the next call of the
    function raises it again. Outside the main thread nothing is changed.
    """
    pressed = threading.Event()

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        pressed.set()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


def open_testbeds(
    plan: StudyPlan,
    cache: Cache | None,
    progress: Progress = silent,
    audited: AuditWatcher = lambda label, audit: None,
) -> dict[str, RecordedTestbed]:
    """Open and audit every testbed of a plan once.

    Parameters
    ----------
    plan : StudyPlan
        Names the testbeds.
    cache : Cache, optional
        Gets their recordings, for the cells; None to check the testbeds only.
    progress : callable, optional
        Called with each `Step`.
    audited : callable, optional
        Called with label and audit of each testbed.

    Returns
    -------
    dict
        What was recorded about each testbed, by label.

    Raises
    ------
    FileError, StreamError
        If a testbed cannot be opened, no row of its train is normal, or it is a plant
        of the user with an error that ``plant.toml`` does not accept.
    """
    testbeds = {}
    for choice in plan.testbeds:
        # Every error names the table of the plan.
        at = f"[testbeds.{choice.label}]"
        try:
            testbed = open_testbed(
                choice.testbed,
                choice.root,
                cache=choice.cache,
                progress=progress,
                **choice.options,
            )
        except SightlineError as error:
            raise type(error)(f"{at}: {error}") from error
        except TypeError as error:
            wrong = f"{at} has an option of a wrong type ({error})."
            raise StreamError(wrong) from error
        if (np.asarray(testbed.train.labels) != NORMAL).all():
            raise StreamError(f"{at}: no row of train is normal.")
        audit = audit_of(testbed, progress)
        errors = refused(testbed, audit)
        # The error below says the first of them.
        rest = tuple(one for one in audit.findings if one not in errors[:1])
        audited(choice.label, replace(audit, findings=rest))
        if errors:
            raise FileError(f"{at}: {refusal(errors[0])}")
        if cache is None:
            testbeds[choice.label] = RecordedTestbed.of(testbed, audit)
            continue
        progress(Step(StepKind.WRITING, detail=choice.label))
        testbeds[choice.label] = cache.add_testbed(testbed, audit)
    return testbeds


def cells_of(plan: StudyPlan, testbeds: Mapping[str, RecordedTestbed]) -> list[Cell]:
    """Return the cells of a plan: testbeds x detectors x seeds, in this order.

    Every detector is built once, so that wrong settings are refused before anything is
    trained.

    Raises
    ------
    StreamError
        If a detector cannot be built, or two cells would have the same name.
    """
    names = names_of(plan)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StreamError(
            f"Two pairs of a testbed and a detector would be called {twice!r}: give "
            "one of them another label."
        )
    return [
        _cell(plan, testbed, testbeds[testbed.label], detector, seed)
        for testbed, detector in plan.pairs
        for seed in plan.seeds
    ]


def _cell(
    plan: StudyPlan,
    choice: TestbedChoice,
    testbed: RecordedTestbed,
    detector: DetectorChoice,
    seed: int,
) -> Cell:
    """Return one cell, after building its detector."""
    settings = plan.settings_on(detector, choice.label, testbed.name)
    preset = plan.preset_of(detector)
    at = f"[detectors.{detector.label}]"
    try:
        built = new_detector(detector.detector, preset, testbed.name, seed, settings)
        check_rule(built, detector.rule)
        if isinstance(built, LearnedDetector):
            left_to_do(built.settings, testbed.prepared)
    except SightlineError as error:
        raise StreamError(f"{at}: {error}") from error
    except Exception as error:
        # User code may refuse its settings in any way.
        raise StreamError(f"{at}: {type(error).__name__}: {brief(error)}") from error
    if not hasattr(built, "residuals"):
        raise StreamError(f"{at}: {detector.detector} has no method `residuals`.")
    is_ours = isinstance(built, LearnedDetector)
    return Cell(
        testbed=choice.label,
        detector=detector.label,
        plant=testbed.name,
        content=testbed.content,
        kind=detector.detector,
        version=code_version(detector.detector),
        preset=preset,
        rule=detector.rule,
        settings=settings,
        resolved=built.settings.to_dict() if is_ours else settings,
        seed=seed,
        evaluation=plan.evaluation,
        release=testbed.release,
        digests=testbed.digests,
        # Where files lie on one machine says nothing on another.
        options={
            name: Path(value).name if name == "scenario" else value
            for name, value in choice.options.items()
        },
    )


def names_of(plan: StudyPlan) -> list[str]:
    """Return the names of the cells of a plan, in their order."""
    return [
        cell_name(testbed.label, detector.label, seed)
        for testbed, detector in plan.pairs
        for seed in plan.seeds
    ]
