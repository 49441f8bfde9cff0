"""Evaluations on disk: ``DIR/<stream>/evaluation.json``, tables and chart data.

What is read is what was written: `read_evaluation` gives an equal `Evaluation`. Files
of an older schema pass through one migration, so that all else sees the present one.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.blindspots.files import spots_beside
from sightline.blindspots.result import BlindSpots
from sightline.data.arrays import read_arrays
from sightline.errors import FileError, SightlineError
from sightline.evaluation.result import (
    SCHEMA,
    ChartData,
    Evaluation,
    EvaluationRecord,
    Protocol,
)
from sightline.files import (
    brief,
    is_staged,
    parse_json,
    read_document,
    reading,
    staged_file,
    staged_folder,
)
from sightline.judgement.verdicts import Reading, RungName, Verdict
from sightline.show.attacks import SEGMENTS, attacks_of
from sightline.show.evaluations import SUMMARY, NamedResult
from sightline.show.table import write_csv
from sightline.showing import Shown

Array = npt.NDArray[Any]
_AGAIN = "remove the result and evaluate again"
# Sums over rows and draws of larger numbers would overflow.
_MOST = 1e280
# Axes whose length the evaluation states; others must only agree with one another.
_TEST, _SEGMENTS = "test rows", "attacks"
_CHANNELS, _TELEMETRY = "channels", "telemetry channels"


class _TraceForm(NamedTuple):
    """What an array must be.

    Parameters
    ----------
    kinds : str
        Letters of numpy's kinds of type.
    shape : tuple of str or int
        The name of each axis, or its length.
    least, below : str or int, optional
        Bounds of whole numbers; a name stands for the length of that axis.
    is_finite : bool
        Whether nan and infinity are refused.
    """

    kinds: str
    shape: tuple[str | int, ...]
    least: int | None = None
    below: str | None = None
    is_finite: bool = True


_FORMS = {
    "train_energy": _TraceForm("f", ("train rows",)),
    "train_rows": _TraceForm("iu", ("train rows",), 0),
    "train_quantiles": _TraceForm("f", (1001,)),
    "test_energy": _TraceForm("f", (_TEST,)),
    "labels": _TraceForm("iu", (_TEST,), -1),
    "test_breaks": _TraceForm("iu", ("breaks",), 0),
    "roc_fpr": _TraceForm("f", ("corners",)),
    "roc_tpr": _TraceForm("f", ("corners",)),
    "segment_d_full": _TraceForm("f", (_SEGMENTS,), is_finite=False),
    "segment_d_ms": _TraceForm("f", (_SEGMENTS,), is_finite=False),
    "segment_group": _TraceForm("iu", (_SEGMENTS,), 0),
    "matched_d_full": _TraceForm("f", ("windows",), is_finite=False),
    "matched_starts": _TraceForm("iu", ("windows",), 0, _TEST),
    "matched_bounds": _TraceForm("iu", ("bounds",), 0),
    "segment_excess": _TraceForm("f", (_SEGMENTS,), is_finite=False),
    "test_time": _TraceForm("f", (_TEST,)),
    "channel_names": _TraceForm("U", (_CHANNELS,)),
    "telemetry_names": _TraceForm("U", (_TELEMETRY,)),
    "excerpt_rows": _TraceForm("iu", ("excerpts", 2), 0),
    "excerpt_columns": _TraceForm("iu", ("excerpts",), 0),
    "excerpt_channels": _TraceForm("iu", ("excerpts", "shown"), -1, _CHANNELS),
    "excerpt_telemetry": _TraceForm("iu", ("excerpts", "shown"), -1, _TELEMETRY),
    "excerpt_contributions": _TraceForm(
        "f", ("excerpts", "shown", "m"), is_finite=False
    ),
    "excerpt_signals": _TraceForm("f", ("excerpts", "shown", "m", 3), is_finite=False),
    "episode_rule": _TraceForm("iu", ("episodes",), 0),
    "episode_start": _TraceForm("iu", ("episodes",), 0, _TEST),
    "episode_length": _TraceForm("iu", ("episodes",), 1),
    "episode_channel": _TraceForm("iu", ("episodes",), -1, _CHANNELS),
    "own_first_alarm": _TraceForm("iu", (_SEGMENTS,), -1, _TEST),
    "state_channel": _TraceForm("iu", ("states",), 0, _TELEMETRY),
    "state_value": _TraceForm("f", ("states", "values"), is_finite=False),
    "state_time_share": _TraceForm("f", ("states", "values"), is_finite=False),
    "state_alarm_share": _TraceForm("f", ("states", "values"), is_finite=False),
    "rule_rows": _TraceForm("iu", ("trace",), 0, _TEST),
    "rule_peaks": _TraceForm("f", ("trace",), is_finite=False),
    "rule_alarms": _TraceForm("iu", ("alarms", 2), 0),
}
# Arrays that are all there or all missing, by how their names begin.
_TOGETHER = ("excerpt_", "episode_", "state_", "rule_")


def read_traces(
    path: str | Path, evaluation: EvaluationRecord | None = None
) -> ChartData:
    """Read the arrays for charts from a result folder, or from its ``traces.npz``.

    Parameters
    ----------
    path : path
        The folder or the file.
    evaluation : EvaluationRecord, optional
        The evaluation that the arrays belong to; then their lengths must agree with it.

    Returns
    -------
    ChartData
        None for each array that an older file lacks.

    Raises
    ------
    FileError
        If the file is missing or damaged, lacks an array that all results have, or
        holds one that does not fit the others; the message names the array.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "traces.npz"
    arrays = read_arrays(path)[0]
    if "train_energy" in arrays and "train_quantiles" not in arrays:
        # Older files hold the energy of every train row.
        energy = arrays["train_energy"]
        _check_form(path, "train_energy", energy, {})
        arrays["train_quantiles"] = np.quantile(energy, np.linspace(0, 1, 1001))
        arrays.setdefault("train_rows", np.arange(len(energy)))
    known = {field.name: field.default for field in fields(ChartData)}
    missing = [k for k, v in known.items() if v is MISSING and k not in arrays]
    if missing:
        raise FileError(f"{path}: has no array {missing[0]!r}: {_AGAIN}.")
    arrays = {name: arrays[name] for name in known if name in arrays}
    lengths: dict[str | int, int] = {}
    if evaluation is not None:
        lengths = {
            _TEST: evaluation.stream.n_test,
            _SEGMENTS: len(evaluation.segments),
            _CHANNELS: evaluation.stream.p,
        }
    for name, array in arrays.items():
        _check_form(path, name, array, lengths)
    for beginning in _TOGETHER:
        group = [name for name in _FORMS if name.startswith(beginning)]
        absent = [name for name in group if name not in arrays]
        if absent and len(absent) < len(group):
            raise _misfit(path, absent[0], "is missing, though related arrays are not")
    _check_places(path, arrays, lengths)
    return ChartData(**arrays)


def _check_form(
    path: Path, name: str, array: Array, lengths: dict[str | int, int]
) -> None:
    """Raise unless an array has its type, shape and bounds; note its lengths."""
    form = _FORMS[name]
    if array.dtype.kind not in form.kinds:
        raise _misfit(path, name, f"has the type {array.dtype}")
    if array.ndim != len(form.shape):
        raise _misfit(path, name, f"has the shape {array.shape}")
    for axis, length in zip(form.shape, array.shape, strict=True):
        expected = axis if isinstance(axis, int) else lengths.setdefault(axis, length)
        if length != expected:
            what = "columns" if isinstance(axis, int) else axis
            raise _misfit(path, name, f"has {length:,} {what} instead of {expected:,}")
    # Sums over many numbers must be finite too.
    if form.is_finite and array.dtype.kind == "f" and array.size:
        if not (np.abs(array, dtype=np.float64) < _MOST).all():
            raise _misfit(path, name, "holds what is no number")
    if form.least is not None and array.size:
        below = None if form.below is None else lengths.get(form.below)
        if int(array.min()) < form.least or (
            below is not None and int(array.max()) >= max(below, form.least + 1)
        ):
            raise _misfit(path, name, "points to what does not exist")


def _check_places(
    path: Path, arrays: Mapping[str, Array], lengths: Mapping[str | int, int]
) -> None:
    """Raise if numbers of rows, windows or lengths point beyond another array."""
    n_test = lengths[_TEST]
    bounds = arrays["matched_bounds"]
    n_windows = len(arrays["matched_starts"])
    wrong = {
        "labels": int(arrays["labels"].max(initial=0)) > 1,
        "test_breaks": _is_disordered(arrays["test_breaks"], n_test),
        "train_rows": _is_disordered(arrays["train_rows"], None),
        "matched_bounds": _is_disordered(bounds, n_windows),
        "segment_group": int(arrays["segment_group"].max(initial=-1)) >= len(bounds) - 1
        if lengths[_SEGMENTS]
        else False,
    }
    if "excerpt_rows" in arrays:
        rows, columns = arrays["excerpt_rows"], arrays["excerpt_columns"]
        ends = (rows[:, 1] <= rows[:, 0]) | (rows[:, 1] > n_test)
        wrong["excerpt_rows"] = bool(ends.any()) or len(rows) > lengths[_SEGMENTS]
        most = arrays["excerpt_contributions"].shape[2]
        wrong["excerpt_columns"] = bool((columns > most).any())
    if "episode_start" in arrays:
        stops = arrays["episode_start"] + arrays["episode_length"]
        wrong["episode_length"] = bool((stops > n_test).any())
    if "rule_rows" in arrays:
        wrong["rule_rows"] = _is_disordered(arrays["rule_rows"], n_test)
        ends = arrays["rule_alarms"]
        wrong["rule_alarms"] = bool(
            ((np.diff(ends) < 1) | (ends[:, 1:] > n_test)).any()
        )
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise _misfit(path, name, "points to what does not exist")


def _is_disordered(places: Array, end: int | None) -> bool:
    """Return whether places do not increase, or go beyond an end."""
    is_beyond = end is not None and int(places.max(initial=0)) > end
    return is_beyond or bool((np.diff(places.astype(np.int64)) < 0).any())


def _misfit(path: Path, name: str, what: str) -> FileError:
    return FileError(f"{path}: array {name!r} {what}: {_AGAIN}.")


@dataclass(frozen=True, eq=False, repr=False)
class Result(Shown):
    """One evaluation with its chart data, and the folder it was read from.

    Parameters
    ----------
    folder : Path or None
        Where it was read from; None for a result that was never written.
    evaluation : Evaluation
        With its `traces`.
    blind_spots : BlindSpots, optional
        What the detector could not see, if that was searched.
    """

    folder: Path | None
    evaluation: Evaluation
    blind_spots: BlindSpots | None = None

    def _line(self) -> str:
        return f"{self.name!r}: {self.evaluation!r}"

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Result":
        """Return the result of an evaluation in memory."""
        return cls(None, evaluation)

    @property
    def traces(self) -> ChartData:
        """The arrays for charts; ValueError if the evaluation has none."""
        if self.evaluation.traces is None:
            raise ValueError("the evaluation was read without its traces")
        return self.evaluation.traces

    @property
    def name(self) -> str:
        """The name of the result's folder, or the one it would be written to."""
        if self.folder is not None:
            return self.folder.name
        e = self.evaluation
        return folder_name(e.stream.name, e.guard, e.protocol)

    @property
    def detector(self) -> str:
        """The detector that gave the residuals; the stream's name if not recorded."""
        return self.evaluation.stream.detector or self.evaluation.stream.name

    @property
    def testbed(self) -> str:
        """The testbed the residuals are from; "unknown" if not recorded."""
        return self.evaluation.stream.testbed or "unknown"


# What functions that read results take: evaluations in memory, results, or folders.
Given = Evaluation | Result | str | Path


def results_of(given: Given | Sequence[Given], caller: str) -> list[Result]:
    """Return results: those in memory as they are, those of folders read, each once.

    Parameters
    ----------
    given : Evaluation, Result or path, or sequence of these
        Evaluations need their traces.
    caller : str
        What needs the results; the subject of the error message.

    Raises
    ------
    SightlineError
        If something else is given, an evaluation has no traces, or two in memory are
        neither different detectors nor seeds by their names.

    Examples
    --------
    >>> results_of(3, "compare")
    Traceback (most recent call last):
    ...
    sightline.errors.SightlineError: compare takes a list of evaluations, such as
    [a, b], or folders of results; got int.
    """
    single = isinstance(given, Evaluation | Result | str | Path)
    if not single and not isinstance(given, Iterable):
        raise _not_results(given, caller)
    listed = [given] if single else list(given)  # type: ignore[arg-type]
    results: list[Result] = []
    folders: set[Path] = set()
    for one in listed:
        if isinstance(one, Evaluation | Result):
            results.append(one if isinstance(one, Result) else Result.of(one))
        elif isinstance(one, str | Path):
            for result in read_results([one]):
                folder = result.folder and result.folder.resolve()
                if folder is not None and folder not in folders:
                    folders.add(folder)
                    results.append(result)
        else:
            raise _not_results(one, caller)
    for result in results:
        if result.evaluation.traces is None:
            raise SightlineError(
                f"The evaluation of {result.evaluation.stream.name!r} has no traces, "
                f"which {caller} needs: read it with read_results, or evaluate the "
                "stream again."
            )
    # Names of detectors, and folders, are given on purpose; those of streams are not.
    seen: dict[tuple[object, ...], Evaluation] = {}
    for one in listed:
        if isinstance(one, Evaluation):
            key = (one.stream.name, one.stream.testbed, one.guard, one.protocol)
            twin = seen.setdefault(key, one)
            if one.stream.detector is None and twin is not one:
                raise SightlineError(
                    f"Two evaluations are called {one.stream.name!r} and name no "
                    "detector, so that they would count as two seeds of one: name "
                    "them, as in evaluate(..., detector='pca')."
                )
    return results


def _not_results(given: object, caller: str) -> SightlineError:
    return SightlineError(
        f"{caller} takes a list of evaluations, such as [a, b], or folders of results; "
        f"got {type(given).__name__}."
    )


def folder_name(name: str, guard: int, protocol: Protocol = Protocol.SIGHTLINE) -> str:
    """Return the name of the folder of an evaluation.

    A guard, and a protocol other than ours, are part of it.

    Examples
    --------
    >>> folder_name("gdn", 0), folder_name("gdn", 30, Protocol.PAPER)
    ('gdn', 'gdn-paper-guard30')
    """
    if protocol is not Protocol.SIGHTLINE:
        name = f"{name}-{protocol}"
    return f"{name}-guard{guard}" if guard else name


def check_out(
    out: str | Path, names: Sequence[str], *, overwrite: bool
) -> dict[Path, Evaluation]:
    """Refuse, before any work is done, to write over earlier results.

    Parameters
    ----------
    out : path
        The folder that is to hold the results.
    names : sequence of str
        Names of the result folders that are to be written.
    overwrite : bool
        Whether earlier results of these names may be replaced.

    Returns
    -------
    dict
        The other evaluations in the folder, by the path of their file. Pass them to
        `write_results`, which needs them for the summary.

    Raises
    ------
    FileError
        If a name cannot be a folder or is used twice, if results of that name exist,
        or if another evaluation in the folder cannot be read.
    """
    out = Path(out)
    with reading(out):
        for name in names:
            if name in ("", ".", "..") or set(name) & set("/\\\0"):
                raise FileError(
                    f"{name!r} cannot be the name of a stream, for its results go into "
                    "a folder of that name: choose another."
                )
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
        return {path: read_evaluation(path) for path in _others(out, names)}


def _others(out: Path, names: Iterable[str]) -> list[Path]:
    """Return the evaluations that a folder holds besides those named."""
    return [
        path
        for path in sorted(out.glob("*/evaluation.json"))
        if path.parent.name not in names and not is_staged(path.parent)
    ]


def write_results(
    evaluations: Sequence[Evaluation],
    out: str | Path,
    *,
    overwrite: bool = False,
    neighbours: Mapping[Path, Evaluation] | None = None,
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
    neighbours : mapping, optional
        What `check_out` returned for the same folder, so that no evaluation is read
        twice.

    Raises
    ------
    FileError
        If results of that name exist, or the folder cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sightline import evaluate
    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> with TemporaryDirectory() as folder:
    ...     write_results([evaluate(train=rows, test=rows, name="mine")], folder)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['mine', 'summary.csv']
    """
    out = Path(out)
    names = [folder_name(e.stream.name, e.guard, e.protocol) for e in evaluations]
    if neighbours is None:
        neighbours = check_out(out, names, overwrite=overwrite)
    if not evaluations:
        return
    named = dict(zip(names, evaluations, strict=True))
    with staged_folder(out) as folder:
        for name, evaluation in named.items():
            place = folder / name
            place.mkdir()
            write_csv(SEGMENTS, attacks_of(evaluation), place / "segments.csv")
            if evaluation.traces is not None:
                charts = vars(evaluation.traces).items()
                arrays = {name: array for name, array in charts if array is not None}
                np.savez(place / "traces.npz", allow_pickle=False, **arrays)
            text = json.dumps(evaluation.to_dict(), indent=1, allow_nan=False)
            (place / "evaluation.json").write_text(text + "\n", encoding="utf-8")
        _write_summary(named, neighbours, out, folder)


def gather_results(folders: Sequence[Path], out: Path) -> None:
    """Copy result folders below another, and write a summary over all it then holds."""
    if not folders and not _others(out, ()):
        return
    named = {folder.name: read_evaluation(folder) for folder in folders}
    with staged_folder(out) as partial:
        for folder in folders:
            shutil.copytree(folder, partial / folder.name)
        _write_summary(named, {}, out, partial)


def _write_summary(
    named: Mapping[str, Evaluation],
    known: Mapping[Path, Evaluation],
    out: Path,
    folder: Path,
) -> None:
    """Write the figures of these evaluations, and of all others in `out`, by name.

    Evaluations of `known`, by the path of their file, are not read again.
    """
    every = dict(named)
    for path in _others(out, named):
        every[path.parent.name] = known.get(path) or read_evaluation(path)
    results = [NamedResult(name, every[name]) for name in sorted(every)]
    write_csv(SUMMARY, results, folder / "summary.csv")


def write_json(values: Mapping[str, object], path: Path, *, overwrite: bool) -> None:
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
    """Read an evaluation, without its traces.

    Parameters
    ----------
    path : path
        The result folder, or its ``evaluation.json``.

    Returns
    -------
    Evaluation
        Equal to the one that was written, but for `traces`, which are None.

    Raises
    ------
    FileError
        If the file is missing, damaged, or of a later schema.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sightline import evaluate
    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> evaluation = evaluate(train=rows, test=rows, name="mine")
    >>> with TemporaryDirectory() as folder:
    ...     write_results([evaluation], folder)
    ...     read_evaluation(f"{folder}/mine") == evaluation
    True
    """
    path = Path(path)
    if path.is_dir():
        path = path / "evaluation.json"
    with reading(path):
        if not path.exists():
            raise FileError(f"{path}: there is no such evaluation.")
    try:
        values = parse_json(read_document(path).decode("utf-8"))
    except ValueError as error:
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
    try:
        record = msgspec.convert(_migrated(values), EvaluationRecord)
    except (msgspec.DecodeError, ValueError, OverflowError) as error:
        raise FileError(
            f"{path}: is not an evaluation of schema {schema} ({brief(error)}): remove "
            "it and evaluate again."
        ) from error
    return Evaluation(**vars(record))


def evaluation_schema() -> dict[str, Any]:
    """Return the JSON schema of ``evaluation.json``, generated from its record types.

    The same is shipped with this module, as ``evaluation.schema.json``.

    Examples
    --------
    >>> sorted(evaluation_schema()["$defs"]["Drift"]["required"])
    ['d_drift', 'd_drift_robust', 'mean_dominated']
    """
    schema = msgspec.json.schema(EvaluationRecord)
    for definition in schema["$defs"].values():
        definition["description"] = definition["description"].partition("\n")[0]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


# Rungs of the ladder by the names they had before verdicts came from the event test.
_EARLIER_RUNGS = {
    "detected": RungName.PROBE.value,
    "recalibrate": RungName.EVIDENCE.value,
    "rereference": RungName.REFERENCE.value,
    "refocus": RungName.SPACE.value,
    "accumulate": RungName.MEMORY.value,
}
# The telemetry is a fact of the recording now, and no longer a rung.
_DROPPED_RUNG = "telemetry"


def _migrated(values: dict[str, Any]) -> dict[str, Any]:
    """Return the content of an older ``evaluation.json`` in the present layout.

    Schema 1 grew without a change of its number: what an older file lacks is null, or
    empty for a block, a list or a count. Unknown keys are left out. A diagnosis that
    names no method was made by the earlier rules: its rungs get their present names,
    and the record says so (``diagnosis.method`` is 1).
    """
    if values["schema"] < SCHEMA:
        values = values | _blocks_of_schema_1(values)
    values = _with_uncaught(_with_caught(values))
    diagnosis = values.get("diagnosis")
    if not isinstance(diagnosis, dict) or "method" in diagnosis:
        return values
    segments = values.get("segments")
    if isinstance(segments, list):
        segments = [
            segment
            | {
                "ladder": _renamed(segment.get("ladder")),
                "evidence_channels": segment.get("refocus_channels"),
            }
            if isinstance(segment, dict)
            else segment
            for segment in segments
        ]
    return values | {
        "diagnosis": diagnosis | {"method": 1},
        "repairs": _renamed(values.get("repairs")),
        "segments": segments,
    }


def _with_caught(value: Any) -> Any:
    """Return values in which every count of attacks has those caught.

    Earlier versions counted the attacks in which an alarm starts, and no more.
    """
    if isinstance(value, list):
        return [_with_caught(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "rings" in value and "caught" not in value:
        earlier = ("caught", "raised"), ("caught_by_chance", "raised_by_chance")
        value = value | {name: value.get(old) for name, old in earlier}
    return {name: _with_caught(one) for name, one in value.items()}


def _with_uncaught(values: Any) -> Any:
    """Return values in which what no alarm catches is not called detected.

    Earlier versions called an attack detected that the rule singles out, even if its
    alarm had begun before; and a signature whose rows are over the limit.
    """
    segments, detected = values.get("segments"), str(Verdict.DETECTED)
    instead, n_changed = str(Verdict.ALREADY_IN_ALARM), 0
    for one in segments if isinstance(segments, list) else ():
        if not isinstance(one, dict):
            continue
        if isinstance(read := one.get("signature"), dict):
            if read.get("reading") == detected:
                read["reading"] = str(Reading.COVERED)
        if one.get("caught") is not False:
            continue
        shares = one.get("alternatives")
        if isinstance(shares, dict) and detected in shares:
            shares[instead] = shares.pop(detected)
        if one.get("verdict") == detected:
            one["verdict"], n_changed = instead, n_changed + 1
            sentence = str(one.get("sentence") or "")
            one["sentence"] = sentence.replace(" detects it: ", " singles it out: ")
    counts = values.get("verdict_counts")
    if n_changed and isinstance(counts, dict) and isinstance(counts.get(detected), int):
        counts |= {detected: counts[detected] - n_changed, instead: n_changed}
    return values


def _blocks_of_schema_1(values: dict[str, Any]) -> dict[str, Any]:
    """Return what schema 1 lacks or has otherwise, in the present schema."""
    blocks = {key: values.get(key) or {} for key in ("rank", "windows", "provenance")}
    lost = values.get("dropped_rows") or {"train": 0, "test": 0, "calibration": 0}
    quality = values.get("quality")
    if isinstance(quality, dict):
        lists = {key: quality.get(key) or () for key in quality if "channels" in key}
        blocks["quality"] = quality | lists
    return blocks | {
        "schema": SCHEMA,
        "own_rule": values.get("own_rule"),
        "own_score": values.get("own_score"),
        "guard": values.get("guard") or 0,
        "dropped_rows": lost,
        "notices": values.get("notices") or (),
        "segments": values.get("segments") or (),
    }


def _renamed(by_rung: Any) -> Any:
    """Return values by the present names of the rungs."""
    if not isinstance(by_rung, dict):
        return by_rung
    return {
        _EARLIER_RUNGS.get(name, name): value
        for name, value in by_rung.items()
        if name != _DROPPED_RUNG
    }


def read_results(folders: Sequence[str | Path]) -> list[Result]:
    """Read every evaluation in the folders: result folders, or what holds them.

    Parameters
    ----------
    folders : sequence of path
        Folders that `write_results`, ``sightline evaluate`` or a study wrote.

    Returns
    -------
    list of Result
        Each with its `folder`, its `evaluation` and the arrays for charts.

    Raises
    ------
    FileError
        If a folder holds no evaluation, or one is damaged.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sightline import evaluate
    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> with TemporaryDirectory() as folder:
    ...     write_results([evaluate(train=rows, test=rows, name="mine")], folder)
    ...     [result.folder.name for result in read_results([folder])]
    ['mine']
    """
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
        results += [read_result(place) for place in places]
    return results


def read_result(folder: Path, evaluation: Evaluation | None = None) -> Result:
    """Read a result folder: its evaluation, unless it is given, and its charts.

    Raises
    ------
    FileError
        If one of them is damaged, or they do not fit together.
    """
    if evaluation is None:
        evaluation = read_evaluation(folder)
    traces = read_traces(folder, evaluation)
    return Result(folder, replace(evaluation, traces=traces), spots_beside(folder))
