"""From finished cells to a study's folder: streams, results, tables, report."""

import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sightline._version import __version__
from sightline.comparison.compare import Comparison, compare
from sightline.errors import FileError
from sightline.evaluation.result import plain
from sightline.files import reading, staged_file, writing
from sightline.paper import Finding, write_up
from sightline.progress import Progress, Step, StepKind
from sightline.report import write_report
from sightline.report.entries import entries_of
from sightline.report.overview import GlanceRow, glance
from sightline.storage import (
    gather_results,
    read_results,
    read_stream,
    write_stream,
)
from sightline.storage.npz import read_arrays
from sightline.study.cache import Cache
from sightline.study.cell import Cell, Outcome
from sightline.study.execute_cell import named
from sightline.study.plan import StudyPlan
from sightline.study.testbed_snapshot import RecordedTestbed

MANIFEST = "study.json"
REPORT = "report.html"
_WRITINGS = (
    REPORT,
    "summary.csv",
    "comparison.json",
    "findings.json",
    "findings.md",
    "methods.md",
    "references.bib",
)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study that has ended.

    Parameters
    ----------
    folder : Path
        Where all that came of it is.
    done : tuple of str
        Names of the results.
    failed : mapping
        By name: why a cell failed.
    traces : mapping
        By name: where in the code it failed, where that may help.
    comparison : Comparison, optional
        Figures over seeds, differences, agreement; None if every cell failed.
    findings : tuple of Finding
        What of the paper's findings holds here.
    notices : tuple of str
        What of the tables and figures could not be made, and why.
    at_a_glance : tuple of GlanceRow
        For each detector on each testbed: what each alarm rule found, and what to
        check first; of the first seed, as the report has it.
    """

    folder: Path
    done: tuple[str, ...]
    failed: Mapping[str, str]
    traces: Mapping[str, str] = field(default_factory=dict)
    comparison: Comparison | None = None
    findings: tuple[Finding, ...] = ()
    notices: tuple[str, ...] = ()
    at_a_glance: tuple[GlanceRow, ...] = ()


def check_folder(names: Sequence[str], out: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds what a study would not replace by itself.

    `names` are those of its cells.
    """
    with reading(out):
        if overwrite or not out.exists():
            return
        if not out.is_dir():
            raise FileError(f"{out}: is a file; --out must be a folder.")
        if not (out / MANIFEST).exists():
            if any(out.glob("*/evaluation.json")) or (out / "summary.csv").exists():
                raise FileError(
                    f"{out}: holds results that are no study's: choose another --out, "
                    "or pass --overwrite."
                )
            return
        others = sorted(set(_cells_before(out)) - set(names))
    if others:
        raise FileError(
            f"{out}: holds another study, with {others[0]!r}, which this one has not: "
            "choose another --out, or pass --overwrite."
        )


def gather_study(
    plan: StudyPlan,
    testbeds: Mapping[str, RecordedTestbed],
    cells: Sequence[Cell],
    outcomes: Mapping[str, Outcome],
    cache: Cache,
    out: Path,
    progress: Progress,
) -> Study:
    """Put what was made into the study's folder, and write up what it says.

    `outcomes` are those of the cells that failed.
    """
    failed = {name: outcome.reason for name, outcome in outcomes.items()}
    traces = {name: outcome.trace for name, outcome in outcomes.items()}
    done = [cell for cell in cells if cell.name not in failed]
    _forget_others(out, done)
    for k, cell in enumerate(done):
        progress(Step(StepKind.WRITING, k, len(done), "streams"))
        _place_stream(cell, cache, out / "streams" / f"{cell.name}.npz")
    gather_results([cache.result(cell) for cell in done], out)
    with staged_file(out / MANIFEST) as partial:
        told = plain(_manifest(plan, testbeds, cells, failed))
        partial.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    names = tuple(cell.result_name for cell in done)
    if not done:
        _forget_writings(out)
        return Study(folder=out, done=names, failed=failed, traces=traces)
    results = read_results([out / name for name in names])
    compared = compare(results, progress=progress)
    progress(Step(StepKind.WRITING, detail="tables and figures"))
    written = write_up(results, out, overwrite=True, comparison=compared)
    progress(Step(StepKind.WRITING, detail="the report"))
    write_report(results, out / REPORT, title=plan.title, figures=True)
    return Study(
        folder=out,
        done=names,
        failed=failed,
        traces=traces,
        comparison=compared,
        findings=written.findings,
        notices=written.notices,
        at_a_glance=tuple(glance(entries_of(results))),
    )


def _cells_before(out: Path) -> dict[str, str]:
    """Return the cells of the study in a folder, and where their results are."""
    path = out / MANIFEST
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return {str(c["name"]): str(c.get("result", c["name"])) for c in cells}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(
            f"{path}: cannot be read: delete it, or choose another --out."
        ) from error


def _forget_others(out: Path, cells: Sequence[Cell]) -> None:
    """Remove what an earlier study left here that is not of this one."""
    try:
        before = _cells_before(out) if (out / MANIFEST).exists() else {}
    except FileError:
        # To be replaced, as whoever asked for this has said.
        return
    results = {cell.result_name for cell in cells}
    names = {cell.name for cell in cells}
    with writing(out):
        for name, result in before.items():
            if result not in results:
                shutil.rmtree(out / result, ignore_errors=True)
            if name not in names:
                (out / "streams" / f"{name}.npz").unlink(missing_ok=True)


def _forget_writings(out: Path) -> None:
    """Remove what an earlier run wrote about results that are no more."""
    with writing(out):
        for name in _WRITINGS:
            (out / name).unlink(missing_ok=True)
        for name in ("tables", "figures"):
            shutil.rmtree(out / name, ignore_errors=True)


def _place_stream(cell: Cell, cache: Cache, place: Path) -> None:
    """Give a stream a second name in the study, or write it under its names there."""
    with staged_file(place) as partial:
        kept = cache.stream(cell)
        try:
            told = json.loads(read_arrays(kept, ["meta_json"])[0]["meta_json"].item())
        except FileError as error:
            raise FileError(
                f"{kept}: is damaged: delete {kept.parent} and run the study again."
            ) from error
        # A killed run may have left one that is the kept file itself.
        partial.unlink(missing_ok=True)
        if (told["detector"], told["testbed"]) != (cell.detector, cell.testbed):
            renamed = partial.with_name(f"{partial.name}.npz")
            write_stream(named(read_stream(kept), cell), renamed)
            os.replace(renamed, partial)
            return
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
    # Where files lie on one machine says nothing on another.
    choices = [asdict(replace(testbed, root=None)) for testbed in plan.testbeds]
    return {
        "title": plan.title,
        "sightline": __version__,
        "python": platform.python_version(),
        "plan": asdict(plan) | {"testbeds": choices},
        "testbeds": {label: asdict(testbed) for label, testbed in testbeds.items()},
        "cells": [
            {
                "name": cell.name,
                "testbed": cell.testbed,
                "detector": cell.detector,
                "seed": cell.seed,
                "key": cell.key,
                "result": cell.result_name,
                "settings": dict(cell.resolved),
                "failed": failed.get(cell.name),
            }
            for cell in cells
        ],
    }
