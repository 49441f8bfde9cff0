"""The folder of a study: streams, results, tables, report, and its manifest."""

import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from sightline._version import __version__
from sightline.blindspots.files import read_blind_spots, spots_folder
from sightline.comparison.compare import Comparison, compare
from sightline.comparison.differences import PRIMARY
from sightline.data.arrays import read_arrays
from sightline.data.recording import Recording
from sightline.data.stream import ResidualStream
from sightline.errors import FileError, StreamError
from sightline.evaluation.result import plain
from sightline.files import reading, staged_file, writing
from sightline.paper import PaperFinding, write_up
from sightline.progress import Progress, Step, StepKind
from sightline.report import write_report
from sightline.report.entries import entries_of
from sightline.report.overview import glance
from sightline.show.rules import GlanceRow
from sightline.show.table import to_frame
from sightline.storage import (
    gather_results,
    read_results,
    read_stream,
    write_stream,
)
from sightline.study.cell import Cache, Cell, CellOutcome, RecordedTestbed
from sightline.study.costs import COSTS, CostRow, cost_table, read_cost
from sightline.study.execute_cell import with_labels_of
from sightline.study.plan import StudyPlan
from sightline.text import did_you_mean

REPORT = "report.html"
MANIFEST = "study.json"
# What the manifest says of each cell, besides its result and settings.
_CELL_FACTS = ("name", "testbed", "detector", "seed", "key")
# What is written about all results together, besides tables/ and figures/.
_OVER_ALL = (
    f"{REPORT} summary.csv attacks.csv attacks-columns.csv comparison.json "
    "findings.json findings.md methods.md "
    "references.bib preview.tex"
).split()


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a study has produced.

    Parameters
    ----------
    folder : Path
        Folder of the study.
    done : tuple of str
        Names of the result folders in it.
    failed : mapping
        Why each failed cell failed, by its name.
    traces : mapping
        Traceback of each failed cell, by its name; empty for an expected error.
    comparison : Comparison, optional
        Figures over seeds, differences, agreement; None if every cell failed.
    findings : tuple of PaperFinding
        Which of the paper's findings hold in this study.
    notices : tuple of str
        What could not be compared, which tables and figures were skipped, and why.
    skipped : tuple of str
        Those of `notices` that are about a skipped table or figure.
    costs : tuple of (Cell, CellCost)
        What each cell cost: the table ``costs``.
    at_a_glance : tuple of GlanceRow
        For each detector on each testbed what each alarm rule detected, and what to
        check first; of the first seed, as in the report.
    """

    folder: Path
    done: tuple[str, ...]
    failed: Mapping[str, str]
    traces: Mapping[str, str] = field(default_factory=dict)
    comparison: Comparison | None = None
    findings: tuple[PaperFinding, ...] = ()
    notices: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    costs: tuple[CostRow, ...] = ()
    at_a_glance: tuple[GlanceRow, ...] = ()

    def cost_frame(self, library: str = "polars") -> Any:
        """Return what each cell cost as a frame of polars or pandas."""
        return to_frame(COSTS, self.costs, library)


def check_folder(names: Sequence[str], out: Path, *, overwrite: bool) -> None:
    """Raise `FileError` if a folder holds results that this study must not replace.

    Parameters
    ----------
    names : sequence of str
        Names of the study's cells. A study in `out` may have some or all of them: it
        is then continued or extended.
    out : Path
        Folder of the study; it need not exist.
    overwrite : bool
        Whether anything may be replaced.
    """
    with reading(out):
        if overwrite or not out.exists():
            return
        if not out.is_dir():
            raise FileError(f"{out}: is a file; --out must be a folder.")
        if not (out / MANIFEST).exists():
            if any(out.glob("*/evaluation.json")) or (out / "summary.csv").exists():
                raise FileError(
                    f"{out}: holds results that are not of a study: choose another "
                    "--out, or pass --overwrite."
                )
            return
        others = sorted(set(cells_in(out)) - set(names))
    if others:
        raise FileError(
            f"{out}: holds another study, with {others[0]!r}, which this one does not "
            "have: choose another --out, or pass --overwrite."
        )


def gather_study(
    plan: StudyPlan,
    testbeds: Mapping[str, RecordedTestbed],
    cells: Sequence[Cell],
    failed: Mapping[str, CellOutcome],
    cache: Cache,
    out: Path,
    progress: Progress,
) -> Study:
    """Fill the folder of a study from the cache, and compare its results.

    Parameters
    ----------
    plan : StudyPlan
        What was asked for.
    testbeds : mapping
        The opened testbeds, by label.
    cells : sequence of Cell
        All cells of the plan.
    failed : mapping
        CellOutcome of each cell that failed, by its name.
    cache : Cache
        Holds the stream and the evaluation of all other cells.
    out : Path
        Gets streams, detectors, results, manifest, tables and report. What an earlier
        run left there about cells that are no longer part of the study is removed.
    progress : callable
        Called with each `Step`.
    """
    done = [cell for cell in cells if cell.name not in failed]
    _remove_others(out, done)
    for k, cell in enumerate(done):
        progress(Step(StepKind.WRITING, k, len(done), "streams"))
        _place_stream(cell, cache, out / "streams" / f"{cell.name}.npz")
        saved = cache.stream(cell).with_name("detector.npz")
        if saved.is_file():
            with staged_file(out / "detectors" / f"{cell.name}.npz") as partial:
                partial.unlink(missing_ok=True)
                _link(saved, partial)
    # Before the results: a run that is killed between them goes on in its own folder.
    with staged_file(out / MANIFEST) as partial:
        manifest = plain(_manifest(plan, testbeds, cells, failed))
        partial.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    gather_results([cache.result(cell) for cell in done], out)
    _remove_stale_spots(out, done)
    study = Study(
        folder=out,
        done=tuple(cell.result_name for cell in done),
        failed={name: outcome.reason for name, outcome in failed.items()},
        traces={name: outcome.trace for name, outcome in failed.items()},
    )
    if not done:
        # What an earlier run wrote about results that no longer exist.
        with writing(out):
            for name in _OVER_ALL:
                (out / name).unlink(missing_ok=True)
            for name in ("tables", "figures"):
                shutil.rmtree(out / name, ignore_errors=True)
        return study
    results = read_results([out / name for name in study.done])
    compared = compare(results, primary=plan.primary, progress=progress)
    progress(Step(StepKind.WRITING, detail="tables and figures"))
    costs = [(cell, cost) for cell in done if (cost := read_cost(cell, cache))]
    written = write_up(
        results, out, overwrite=True, comparison=compared, cases=plan.cases
    )
    _write_costs(costs, out)
    progress(Step(StepKind.WRITING, detail="the report"))
    write_report(
        results, out / REPORT, title=plan.title, figures=True, comparison=compared
    )
    # Errors and warnings of the protocol linter, each once for a detector.
    protocol = [
        f"{result.detector} on {result.testbed}: {one.line}"
        for result in results
        for one in result.evaluation.findings
        if one.is_protocol and one.is_serious
    ]
    return replace(
        study,
        comparison=compared,
        findings=written.findings,
        notices=(*dict.fromkeys(protocol), *compared.notices, *written.notices),
        skipped=written.skipped,
        costs=tuple(costs),
        at_a_glance=tuple(glance(entries_of(results))),
    )


def _write_costs(costs: Sequence[CostRow], out: Path) -> None:
    """Write the table of costs; without any, remove that of an earlier run."""
    table = cost_table(costs)
    texts = {
        "csv": table.to_csv,
        "md": table.to_markdown,
        "tex": table.to_latex,
    }
    for kind, text in texts.items():
        path = out / "tables" / f"costs.{kind}"
        if costs:
            with staged_file(path) as partial:
                partial.write_text(text(), encoding="utf-8", errors="backslashreplace")
        else:
            with writing(path):
                path.unlink(missing_ok=True)


def _remove_stale_spots(out: Path, cells: Sequence[Cell]) -> None:
    """Remove blind spots of an earlier run whose detector or record was another."""
    for cell in cells:
        folder = spots_folder(out, cell.result_name)
        if not folder.is_dir():
            continue
        try:
            is_stale = read_blind_spots(folder).key != cell.key
        except FileError:
            is_stale = True
        if is_stale:
            with writing(folder):
                shutil.rmtree(folder)


def _remove_others(out: Path, cells: Sequence[Cell]) -> None:
    """Remove streams and results of an earlier run that are not of these cells."""
    try:
        before = cells_in(out) if (out / MANIFEST).exists() else {}
    except FileError:
        # Only with `overwrite`; the manifest will be replaced.
        return
    results = {cell.result_name for cell in cells}
    names = {cell.name for cell in cells}
    with writing(out):
        for name, result in before.items():
            if result not in results:
                shutil.rmtree(out / result, ignore_errors=True)
            if name not in names:
                for part in ("streams", "detectors"):
                    (out / part / f"{name}.npz").unlink(missing_ok=True)


def _place_stream(cell: Cell, cache: Cache, path: Path) -> None:
    """Link a stream of the cache into the study, or write it with other labels."""
    cached = cache.stream(cell)
    with staged_file(path) as partial:
        try:
            facts = json.loads(
                read_arrays(cached, ["meta_json"])[0]["meta_json"].item()
            )
            labels = facts["detector"], facts["testbed"]
        except (FileError, LookupError, TypeError, ValueError) as error:
            raise FileError(
                f"{cached}: is damaged: delete {cached.parent} and run the study again."
            ) from error
        # A killed run may have left a link to the cached file: never write into it.
        partial.unlink(missing_ok=True)
        if labels != (cell.detector, cell.testbed):
            relabelled = partial.with_name(f"{partial.name}.npz")
            write_stream(with_labels_of(read_stream(cached), cell), relabelled)
            os.replace(relabelled, partial)
            return
        _link(cached, partial)


def _link(cached: Path, path: Path) -> None:
    """Link a file, or copy it to another disk or a file system without links."""
    try:
        os.link(cached, path)
    except OSError:
        shutil.copyfile(cached, path)


def _manifest(
    plan: StudyPlan,
    testbeds: Mapping[str, RecordedTestbed],
    cells: Sequence[Cell],
    failed: Mapping[str, CellOutcome],
) -> dict[str, object]:
    """Return plan, testbeds and cells with their outcomes; no times, no paths."""
    # Where files and copies lie on one machine says nothing on another.
    choices = [
        asdict(replace(testbed, root=None, cache=True)) for testbed in plan.testbeds
    ]
    return {
        "title": plan.title,
        "sightline": __version__,
        "python": platform.python_version(),
        "plan": {
            key: value
            for key, value in (asdict(plan) | {"testbeds": choices}).items()
            # How long one was ready to wait says nothing about a result.
            if key != "cell_timeout_s" and (value or key != "only")
        },
        "testbeds": {label: asdict(testbed) for label, testbed in testbeds.items()},
        "cells": [
            {
                **{name: getattr(cell, name) for name in _CELL_FACTS},
                "result": cell.result_name,
                "settings": dict(cell.resolved),
                "failed": failed[cell.name].reason if cell.name in failed else None,
            }
            for cell in cells
        ],
    }


# ---- the manifest, as later commands read it -----------------------------------------


@dataclass(frozen=True)
class StudyCell:
    """A cell in the manifest of a study: where its files lie, and what it is made of.

    Parameters
    ----------
    name, result : str
        Name of its stream and detector, and of its result folder.
    detector, testbed : str
        Labels of both.
    key : str
        Of its content.
    failed : str, optional
        Why it failed.
    content : str
        Of its testbed's recordings, in the cache.
    """

    name: str
    detector: str
    testbed: str
    key: str
    result: str = ""
    failed: str | None = None
    content: str = ""


@dataclass(frozen=True)
class _Recorded:
    content: str


@dataclass(frozen=True)
class _Planned:
    primary: str = PRIMARY


@dataclass(frozen=True)
class _Manifest:
    """The part of a manifest that later commands read."""

    title: str
    cells: list[StudyCell]
    testbeds: dict[str, _Recorded]
    plan: _Planned = field(default_factory=lambda: _Planned())


def _read_manifest(folder: Path, remedy: str = "run the study again") -> _Manifest:
    """Return the manifest of the study in a folder; `FileError` if it is damaged."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise FileError(f"{path}: cannot be read: {remedy}.") from error


def cells_in(out: Path) -> dict[str, str]:
    """Return the result folder of each cell of the study in a folder, by name."""
    manifest = _read_manifest(out, "delete it, or choose another --out")
    return {cell.name: cell.result or cell.name for cell in manifest.cells}


def study_cells(folder: Path) -> list[StudyCell]:
    """Return the cells of the study in a folder that did not fail.

    Raises
    ------
    FileError
        If its manifest cannot be read.
    """
    manifest = _read_manifest(folder)
    return [
        replace(cell, content=manifest.testbeds[cell.testbed].content)
        for cell in manifest.cells
        if cell.failed is None and cell.testbed in manifest.testbeds
    ]


@dataclass(frozen=True, eq=False)
class SavedCell:
    """A finished cell with what it was made of.

    Parameters
    ----------
    cell : StudyCell
        Names and places.
    stream : ResidualStream
        Its residuals.
    saved : Path, optional
        The file of its detector.
    recordings : pair of Recording, optional
        Train and test; None without the detector's file.
    """

    cell: StudyCell
    stream: ResidualStream
    saved: Path | None
    recordings: tuple[Recording, Recording] | None


def saved_cells(
    folder: Path, detector: str | None = None, cache: Path | None = None
) -> Iterator[SavedCell]:
    """Yield the cells of a study; of one detector or cell, if it is named.

    Raises
    ------
    StreamError
        If the study has no such detector.
    """
    known = study_cells(folder)
    cells = [cell for cell in known if detector in (None, cell.detector, cell.name)]
    if not cells:
        options = sorted({cell.detector for cell in known})
        raise StreamError(
            f"{folder}: has no detector {detector!r}; "
            f"{did_you_mean(detector or '', options)}"
        )
    kept = Cache(cache or folder / "cache")
    for cell in cells:
        saved = folder / "detectors" / f"{cell.name}.npz"
        stream = read_stream(folder / "streams" / f"{cell.name}.npz")
        if saved.is_file():
            yield SavedCell(cell, stream, saved, kept.recordings(cell.content))
        else:
            yield SavedCell(cell, stream, None, None)


def title_and_primary(folders: Sequence[Path]) -> tuple[str | None, str]:
    """Return title and primary figure of a study, if one folder is given and holds it.

    None, and `PRIMARY`, if not.
    """
    if len(folders) != 1 or not (folders[0] / MANIFEST).is_file():
        return None, PRIMARY
    manifest = _read_manifest(folders[0])
    return manifest.title, manifest.plan.primary
