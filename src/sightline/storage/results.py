"""Evaluations on disk: ``DIR/<stream>/evaluation.json``, tables and traces."""

import csv
import json
import zipfile
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.checks import Floats, Ints
from sightline.errors import FileError
from sightline.evaluation import (
    SCHEMA,
    Evaluation,
    Rank,
    ReferenceFacts,
    StreamFacts,
    Traces,
    Windows,
)
from sightline.metrics.drift import Drift
from sightline.metrics.probe import AlarmMetrics
from sightline.metrics.quality import Compactness, Quality
from sightline.metrics.segment import SegmentRow
from sightline.storage.atomic import staged_file, staged_folder

# Train energy is kept as the lowest and highest of this many stretches.
TRAIN_STRETCHES = 10_000
# Columns of summary.csv that stand for a block of the evaluation.
_SUMMARY_BLOCKS = (
    "stream",
    "reference",
    "rank",
    "windows",
    "drift",
    "compactness",
    "probe",
    "own_rule",
)
_BLOCKS: dict[str, Any] = {
    "stream": StreamFacts,
    "reference": ReferenceFacts,
    "rank": Rank,
    "windows": Windows,
    "drift": Drift,
    "compactness": Compactness,
    "quality": Quality,
    "probe": AlarmMetrics,
    "own_rule": AlarmMetrics,
    "own_score": Rank,
}


def folder_name(name: str, guard: int) -> str:
    """Return the folder of an evaluation; a guard is told apart by name."""
    return f"{name}-guard{guard}" if guard else name


def check_out(out: str | Path, names: Sequence[str], *, overwrite: bool) -> None:
    """Refuse, before any work is done, to write over earlier results."""
    out = Path(out)
    for name in names:
        if names.count(name) > 1:
            raise FileError(
                f"Two streams are called {name!r}, and would overwrite one another in "
                f"{out}: rename one of the files."
            )
        if (out / name).exists() and not overwrite:
            raise FileError(
                f"{out / name}: holds earlier results, which are kept: choose another "
                "--out, or pass --overwrite."
            )
    if out.exists() and not out.is_dir():
        raise FileError(f"{out}: is a file; --out must be a folder.")


def write_results(
    evaluations: Sequence[Evaluation], out: str | Path, *, overwrite: bool = False
) -> None:
    """Write evaluations below a folder, and a summary over all it then holds.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        With their traces, as `evaluate` returns them.
    out : path
        Gets ``<stream>/evaluation.json``, ``segments.csv`` and ``traces.npz`` for each,
        and ``summary.csv``.
    overwrite : bool
        Whether earlier results of the same name may be replaced.

    Raises
    ------
    FileError
        Where results of that name exist, or the folder cannot be written.
    """
    out = Path(out)
    names = [folder_name(e.stream.name, e.guard) for e in evaluations]
    check_out(out, names, overwrite=overwrite)
    for name, evaluation in zip(names, evaluations, strict=True):
        with staged_folder(out / name) as folder:
            _write_segments(evaluation, folder / "segments.csv")
            if evaluation.traces is not None:
                _write_traces(evaluation.traces, folder / "traces.npz")
            (folder / "evaluation.json").write_text(
                json.dumps(evaluation.to_dict(), indent=1, allow_nan=False) + "\n",
                encoding="utf-8",
            )
    _write_summary(out)


def read_evaluation(path: str | Path) -> Evaluation:
    """Read an evaluation (without traces) from its folder or its JSON file."""
    path = Path(path)
    if path.is_dir():
        path = path / "evaluation.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileError(f"{path}: there is no such evaluation.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path}: is not a readable evaluation ({error}).") from error
    if not isinstance(values, dict) or not isinstance(values.get("stream"), dict):
        raise FileError(f"{path}: is JSON, but not an evaluation.")
    schema = values.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise FileError(
            f"{path}: has schema {schema!r}; this Sightline reads up to {SCHEMA}: "
            "update it."
        )
    blocks = {
        name: _fill(kind, values[name]) if isinstance(values.get(name), dict) else None
        for name, kind in _BLOCKS.items()
    }
    segments = tuple(_fill(SegmentRow, row) for row in values.get("segments") or [])
    rest = {
        key: value
        for key, value in values.items()
        if key not in blocks and key != "segments"
    }
    evaluation: Evaluation = _fill(Evaluation, rest | blocks | {"segments": segments})
    return evaluation


def read_traces(path: str | Path) -> dict[str, Any]:
    """Read the traces beside an evaluation, as named arrays."""
    path = Path(path)
    if path.is_dir():
        path = path / "traces.npz"
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(f"{path}: cannot be read ({error}).") from error


def _fill(kind: Any, values: dict[str, Any]) -> Any:
    """Make a dataclass of a dict: unknown keys are skipped, missing ones are None."""
    given = {}
    for field in fields(kind):
        if field.name in values:
            value = values[field.name]
            given[field.name] = tuple(value) if isinstance(value, list) else value
        elif field.default is not field.default_factory:  # both MISSING: no default
            continue
        else:
            given[field.name] = None
    return kind(**given)


def _write_segments(evaluation: Evaluation, path: Path) -> None:
    columns = [field.name for field in fields(SegmentRow)]
    rows = evaluation.to_dict()["segments"]
    with open(path, "w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, columns)
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _cell(value) for key, value in row.items()})


def _write_summary(out: Path) -> None:
    """Write one row for each evaluation that the folder holds."""
    rows = []
    for path in sorted(out.glob("*/evaluation.json")):
        values = read_evaluation(path).to_dict()
        row: dict[str, Any] = {"result": path.parent.name, "guard": values["guard"]}
        for block in _SUMMARY_BLOCKS:
            names = [field.name for field in fields(_BLOCKS[block])]
            prefix = "own_rule_" if block == "own_rule" else ""
            known = values[block] or {}
            row |= {
                "windows_n_segments"
                if (block, name) == ("windows", "n_segments")
                else f"{prefix}{name}": known.get(name)
                for name in names
            }
        rows.append(row)
    with (
        staged_file(out / "summary.csv") as partial,
        open(partial, "w", newline="", encoding="utf-8") as handle,
    ):
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _cell(value) for key, value in row.items()})


def _cell(value: Any) -> Any:
    """Return a CSV cell: empty for None, JSON for lists and objects."""
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _write_traces(traces: Traces, path: Path) -> None:
    kept = extreme_rows(traces.train_energy, TRAIN_STRETCHES)
    arrays: dict[str, npt.NDArray[Any]] = {
        "train_energy": traces.train_energy[kept],
        "train_rows": kept,
        "train_quantiles": np.quantile(traces.train_energy, np.linspace(0, 1, 1001)),
        "test_energy": traces.test_energy,
        "labels": traces.labels,
        "test_breaks": traces.test_breaks,
        "roc_fpr": traces.roc_fpr,
        "roc_tpr": traces.roc_tpr,
    }
    if traces.test_time is not None:
        arrays["test_time"] = traces.test_time
    np.savez(path, allow_pickle=False, **arrays)


def extreme_rows(values: Floats, n_stretches: int) -> Ints:
    """Return the rows of the lowest and the highest value of each stretch."""
    if len(values) <= 2 * n_stretches:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), n_stretches + 1).astype(np.int64)
    rows = [
        start + extreme(values[start:stop])
        for start, stop in pairwise(edges)
        for extreme in (np.argmin, np.argmax)
    ]
    return np.unique(np.array(rows, dtype=np.int64))
