"""Evaluations on disk: ``DIR/<stream>/evaluation.json``, tables and traces."""

import csv
import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints
from sightline.errors import FileError
from sightline.evaluation.result import (
    SCHEMA,
    Evaluation,
    Rank,
    ReferenceFacts,
    StreamFacts,
    Traces,
)
from sightline.files import brief, is_staged, reading, staged_file, staged_folder
from sightline.metrics.drift import Drift
from sightline.metrics.probe import AlarmMetrics
from sightline.metrics.quality import Compactness, Quality
from sightline.metrics.segment import SegmentRow
from sightline.metrics.window_kl import Windows
from sightline.storage.metadata import parse_json
from sightline.storage.npz import read_arrays

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


@dataclass(frozen=True, eq=False)
class Result:
    """One evaluation on disk, with its traces."""

    folder: Path
    evaluation: Evaluation
    traces: dict[str, Any]

    @property
    def detector(self) -> str:
        """Who made the residuals; the stream's name where that is not known."""
        return self.evaluation.stream.detector or self.evaluation.stream.name

    @property
    def testbed(self) -> str:
        """Where they come from."""
        return self.evaluation.stream.testbed or "unknown"


def folder_name(name: str, guard: int) -> str:
    """Return the folder of an evaluation; a guard is told apart by name."""
    return f"{name}-guard{guard}" if guard else name


def check_out(out: str | Path, names: Sequence[str], *, overwrite: bool) -> None:
    """Refuse, before any work is done, to write over earlier results."""
    out = Path(out)
    with reading(out):
        for name in names:
            _check_name(name)
            if names.count(name) > 1:
                raise FileError(
                    f"Two streams are called {name!r}, and would overwrite one another "
                    f"in {out}: rename one of the files."
                )
            if (out / name).exists() and not overwrite:
                raise FileError(
                    f"{out / name}: holds earlier results, which are kept: choose "
                    "another --out, or pass --overwrite."
                )
        if out.exists() and not out.is_dir():
            raise FileError(f"{out}: is a file; --out must be a folder.")
        for path in _others(out, names):
            read_evaluation(path)


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or set(name) & set("/\\\0"):
        raise FileError(
            f"{name!r} cannot be the name of a stream, for its results go into a "
            "folder of that name: choose another."
        )


def _others(out: Path, names: Iterable[str]) -> list[Path]:
    """Return the evaluations that a folder holds besides those named."""
    found = sorted(out.glob("*/evaluation.json"))
    return [
        path
        for path in found
        if path.parent.name not in names and not is_staged(path.parent)
    ]


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
    if not evaluations:
        return
    rows = [
        _summary_row(path.parent.name, read_evaluation(path))
        for path in _others(out, names)
    ]
    rows += [_summary_row(*pair) for pair in zip(names, evaluations, strict=True)]
    with staged_folder(out) as folder:
        for name, evaluation in zip(names, evaluations, strict=True):
            (folder / name).mkdir()
            _write_folder(evaluation, folder / name)
        rows.sort(key=lambda row: str(row["result"]))
        _write_csv(rows, folder / "summary.csv")


def gather_results(folders: Sequence[Path], out: Path) -> None:
    """Copy result folders below another, and write a summary over all it then holds."""
    names = [folder.name for folder in folders]
    rows = [
        _summary_row(path.parent.name, read_evaluation(path))
        for path in _others(out, names)
    ]
    rows += [_summary_row(folder.name, read_evaluation(folder)) for folder in folders]
    if not rows:
        return
    with staged_folder(out) as partial:
        for folder in folders:
            shutil.copytree(folder, partial / folder.name)
        rows.sort(key=lambda row: str(row["result"]))
        _write_csv(rows, partial / "summary.csv")


def _write_folder(evaluation: Evaluation, folder: Path) -> None:
    values = evaluation.to_dict()
    columns = [field.name for field in fields(SegmentRow)]
    _write_csv(values["segments"], folder / "segments.csv", columns)
    if evaluation.traces is not None:
        _write_traces(evaluation.traces, folder / "traces.npz")
    (folder / "evaluation.json").write_text(
        json.dumps(values, indent=1, allow_nan=False, default=str) + "\n",
        encoding="utf-8",
    )


def write_json(values: dict[str, Any], path: Path, *, overwrite: bool) -> None:
    """Write plain values to a JSON file, which may exist only if `overwrite`."""
    with reading(path):
        if path.exists() and not overwrite:
            raise FileError(
                f"{path}: exists and is kept: choose another --out, or pass "
                "--overwrite."
            )
    with staged_file(path) as partial:
        text = json.dumps(values, indent=1, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


def read_evaluation(path: str | Path) -> Evaluation:
    """Read an evaluation (without traces) from its folder or its JSON file."""
    path = Path(path)
    if path.is_dir():
        path = path / "evaluation.json"
    try:
        values = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileError(f"{path}: there is no such evaluation.") from error
    except (OSError, ValueError) as error:
        raise FileError(
            f"{path}: is not a readable evaluation ({brief(error)}): remove it and "
            "evaluate again."
        ) from error
    if not isinstance(values, dict) or not isinstance(values.get("stream"), dict):
        raise FileError(f"{path}: is JSON, but not an evaluation.")
    schema = values.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise FileError(
            f"{path}: has schema {schema!r:.20}; this Sightline reads up to {SCHEMA}: "
            "update it."
        )
    blocks = {
        name: None
        if values.get(name) is None
        else _block(kind, values[name], f"{path}: {name}")
        for name, kind in _BLOCKS.items()
    }
    listed = values.get("segments") or []
    if not isinstance(listed, list):
        raise FileError(f"{path}: segments must be a list.")
    segments = tuple(_block(SegmentRow, row, f"{path}: segments") for row in listed)
    rest = {
        key: value
        for key, value in values.items()
        if key not in blocks and key != "segments"
    }
    evaluation: Evaluation = _fill(Evaluation, rest | blocks | {"segments": segments})
    return evaluation


def read_results(folders: Sequence[str | Path]) -> list[Result]:
    """Read every evaluation in the folders: result folders, or what holds them."""
    results = []
    for folder in map(Path, folders):
        places = (
            [folder]
            if (folder / "evaluation.json").is_file()
            else [path.parent for path in _others(folder, ())]
        )
        if not places:
            raise FileError(
                f"{folder}: holds no evaluation; give folders that `sightline "
                "evaluate` wrote."
            )
        results += [
            Result(place, read_evaluation(place), read_traces(place))
            for place in places
        ]
    return results


def read_traces(path: str | Path) -> dict[str, Any]:
    """Read the traces beside an evaluation, as named arrays."""
    path = Path(path)
    if path.is_dir():
        path = path / "traces.npz"
    return read_arrays(path)[0]


def _block(kind: Any, values: object, place: str) -> Any:
    if not isinstance(values, dict):
        raise FileError(f"{place} must hold named values; got {values!r:.60}.")
    return _fill(kind, values)


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


def _summary_row(result: str, evaluation: Evaluation) -> dict[str, Any]:
    values = evaluation.to_dict()
    row: dict[str, Any] = {"result": result, "guard": values["guard"]}
    for block in _SUMMARY_BLOCKS:
        prefix = "own_rule_" if block == "own_rule" else ""
        known = values[block] or {}
        for field in fields(_BLOCKS[block]):
            column = f"{prefix}{field.name}"
            # The stream has segments too.
            if (block, column) == ("windows", "n_segments"):
                column = "windows_n_segments"
            row[column] = known.get(field.name)
    return row


def _write_csv(
    rows: Sequence[dict[str, Any]], path: Path, columns: Sequence[str] = ()
) -> None:
    # A file's or an attack's name may hold what is not a character.
    with open(
        path, "w", newline="", encoding="utf-8", errors="backslashreplace"
    ) as handle:
        writer = csv.DictWriter(handle, columns or list(rows[0]))
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
        "segment_d_full": traces.segment_d_full,
        "segment_d_ms": traces.segment_d_ms,
        "segment_excess": traces.segment_excess,
        "segment_group": traces.segment_group,
        "matched_d_full": traces.matched_d_full,
        "matched_starts": traces.matched_starts,
        "matched_bounds": traces.matched_bounds,
    }
    # Whatever else there is: time stamps, and excerpts for pictures.
    arrays |= {
        name: values
        for name, values in vars(traces).items()
        if name not in arrays and values is not None
    }
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
