"""The arrays for charts, ``traces.npz``: read, and checked against their evaluation.

A page or a comparison takes rows, attacks and channels by number out of these arrays.
So that none of them meets a number that points nowhere, shapes and contents are checked
once, here, and a damaged file is refused by the name of the array.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.archives import read_arrays
from sightline.errors import FileError
from sightline.evaluation.result import ChartData, EvaluationRecord

Array = npt.NDArray[Any]
_AGAIN = "remove the result and evaluate again"
# Sums over rows and draws of larger numbers would overflow.
_MOST = 1e280
# Axes whose length the evaluation states; others must only agree with one another.
_TEST, _SEGMENTS = "test rows", "attacks"
_CHANNELS, _TELEMETRY = "channels", "telemetry channels"


class _Form(NamedTuple):
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
    "train_energy": _Form("f", ("train rows",)),
    "train_rows": _Form("iu", ("train rows",), 0),
    "train_quantiles": _Form("f", (1001,)),
    "test_energy": _Form("f", (_TEST,)),
    "labels": _Form("iu", (_TEST,), -1),
    "test_breaks": _Form("iu", ("breaks",), 0),
    "roc_fpr": _Form("f", ("corners",)),
    "roc_tpr": _Form("f", ("corners",)),
    "segment_d_full": _Form("f", (_SEGMENTS,), is_finite=False),
    "segment_d_ms": _Form("f", (_SEGMENTS,), is_finite=False),
    "segment_group": _Form("iu", (_SEGMENTS,), 0),
    "matched_d_full": _Form("f", ("windows",), is_finite=False),
    "matched_starts": _Form("iu", ("windows",), 0, _TEST),
    "matched_bounds": _Form("iu", ("bounds",), 0),
    "segment_excess": _Form("f", (_SEGMENTS,), is_finite=False),
    "test_time": _Form("f", (_TEST,)),
    "channel_names": _Form("U", (_CHANNELS,)),
    "telemetry_names": _Form("U", (_TELEMETRY,)),
    "excerpt_rows": _Form("iu", ("excerpts", 2), 0),
    "excerpt_columns": _Form("iu", ("excerpts",), 0),
    "excerpt_channels": _Form("iu", ("excerpts", "shown"), -1, _CHANNELS),
    "excerpt_telemetry": _Form("iu", ("excerpts", "shown"), -1, _TELEMETRY),
    "excerpt_contributions": _Form("f", ("excerpts", "shown", "m"), is_finite=False),
    "excerpt_signals": _Form("f", ("excerpts", "shown", "m", 3), is_finite=False),
    "episode_rule": _Form("iu", ("episodes",), 0),
    "episode_start": _Form("iu", ("episodes",), 0, _TEST),
    "episode_length": _Form("iu", ("episodes",), 1),
    "episode_channel": _Form("iu", ("episodes",), -1, _CHANNELS),
    "own_first_alarm": _Form("iu", (_SEGMENTS,), -1, _TEST),
    "state_channel": _Form("iu", ("states",), 0, _TELEMETRY),
    "state_value": _Form("f", ("states", "values"), is_finite=False),
    "state_time_share": _Form("f", ("states", "values"), is_finite=False),
    "state_alarm_share": _Form("f", ("states", "values"), is_finite=False),
}
# Arrays that are all there or all missing, by how their names begin.
_TOGETHER = ("excerpt_", "episode_", "state_")


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
    _check(path, arrays, evaluation)
    return ChartData(**arrays)


def _check(
    path: Path, arrays: Mapping[str, Array], evaluation: EvaluationRecord | None
) -> None:
    """Raise `FileError` at the first array that does not fit."""
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
    if form.is_finite and array.dtype.kind == "f" and not _is_usable(array):
        raise _misfit(path, name, "holds what is no number")
    if form.least is not None and array.size:
        below = None if form.below is None else lengths.get(form.below)
        if int(array.min()) < form.least or (
            below is not None and int(array.max()) >= max(below, form.least + 1)
        ):
            raise _misfit(path, name, "points to what does not exist")


def _is_usable(array: Array) -> bool:
    """Return whether all numbers are finite, and so are sums over many of them."""
    return bool((np.abs(array, dtype=np.float64) < _MOST).all())


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
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise _misfit(path, name, "points to what does not exist")


def _is_disordered(places: Array, end: int | None) -> bool:
    """Return whether places do not increase, or go beyond an end."""
    is_beyond = end is not None and int(places.max(initial=0)) > end
    return is_beyond or bool((np.diff(places.astype(np.int64)) < 0).any())


def _misfit(path: Path, name: str, what: str) -> FileError:
    return FileError(f"{path}: array {name!r} {what}: {_AGAIN}.")
