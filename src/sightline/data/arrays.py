"""Input checks, in one voice: what is wrong, where, what to do.

Public functions call these once at the door; everything behind the door trusts
its input. Row numbers in messages count from 0, as numpy does.
"""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import MissingExtraError, StreamError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int8]
# Residuals keep the precision they came in; sums are made in float64.
Residuals = npt.NDArray[np.float32] | npt.NDArray[np.float64]

ATTACK, NORMAL, IGNORED = 1, 0, -1


def require(module: str, *, extra: str, caller: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{caller} needs {module}, which is not installed: "
            f"pip install 'sightline[{extra}]'."
        ) from error


def as_rectangle(values: object, name: str) -> npt.NDArray[Any]:
    """Return values as a numpy array of any type, refusing ragged lists."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise StreamError(
            f"`{name}` must be a rectangular array; its rows differ in length or kind."
        ) from error


def as_array(values: object, name: str) -> npt.NDArray[Any]:
    """Return values as a numpy array, refusing ragged lists and Python objects."""
    array = as_rectangle(values, name)
    if array.dtype == object:
        raise StreamError(
            f"`{name}` must be an array of numbers; it holds Python objects "
            "(missing values or mixed types): convert it to float first."
        )
    return array


def check_residuals(values: object, name: str) -> Residuals:
    """Return a C-ordered (rows, channels) float32 or float64 array.

    Finiteness is checked where the values are read anyway, row by row.
    """
    array = as_array(values, name)
    if array.ndim != 2:
        hint = "; use `.reshape(-1, 1)` for one channel" if array.ndim == 1 else ""
        raise StreamError(
            f"`{name}` must have shape (rows, channels); got shape {array.shape}{hint}."
        )
    if array.shape[1] == 0:
        raise StreamError(f"`{name}` must have at least one channel; it has none.")
    if array.dtype.kind not in "iuf":
        raise StreamError(
            f"`{name}` must hold real numbers; got type {array.dtype}: convert it "
            "to float first."
        )
    if array.dtype not in (np.float32, np.float64):
        with np.errstate(all="ignore"):  # an infinity is told where rows are read
            array = array.astype(np.float64)
    return np.ascontiguousarray(array)


def check_series(values: object, name: str) -> Floats:
    """Return a finite one-dimensional float64 array."""
    array = as_array(values, name)
    if array.ndim != 1:
        raise StreamError(
            f"`{name}` must have shape (rows,); got shape {array.shape}: "
            "flatten it with `.ravel()` if it is one value a row."
        )
    if array.dtype.kind not in "iufb":
        raise StreamError(f"`{name}` must hold real numbers; got type {array.dtype}.")
    with np.errstate(all="ignore"):
        series = array.astype(np.float64)
    finite = np.isfinite(series)
    if not finite.all():
        raise StreamError(
            f"`{name}` must be finite; row {int(np.argmin(finite))} is "
            f"{series[np.argmin(finite)]} ({int((~finite).sum())} such rows): "
            "remove or repair them."
        )
    return series


def _check_codes(
    values: object, name: str, codes: tuple[int, ...], floats: bool
) -> Labels:
    array = as_rectangle(values, name)
    if array.ndim != 1:
        raise StreamError(
            f"`{name}` must have shape (rows,); got shape {array.shape}: "
            "flatten it with `.ravel()`."
        )
    allowed = ", ".join(str(code) for code in codes)
    if array.dtype.kind not in ("biuf" if floats else "biu"):
        example = f" such as {str(array[0])!r:.40}" if len(array) else ""
        raise StreamError(
            f"`{name}` must be {allowed}; got type {array.dtype}{example}"
            + (
                ". Did you pass the arguments in the wrong order?"
                if array.dtype.kind == "f"
                else ": map it to these numbers first."
            )
        )
    legal = np.isin(array, codes)
    if not legal.all():
        row = int(np.argmin(legal))
        raise StreamError(
            f"`{name}` must be {allowed}; row {row} is {array[row]} "
            f"({int((~legal).sum())} such rows): map your labels to these numbers."
        )
    return array.astype(np.int8)


def check_labels(values: object, name: str = "labels") -> Labels:
    """Return int8 labels: 1 attack, 0 normal, -1 ignore. Float 1.0 counts as 1."""
    return _check_codes(values, name, (NORMAL, ATTACK, IGNORED), floats=True)


def check_alarms(values: object, name: str = "alarms") -> Labels:
    """Return int8 alarms: 1 in alarm, 0 not."""
    return _check_codes(values, name, (0, 1), floats=True)


def check_is_attack(values: object, name: str = "is_attack") -> Bools:
    """Return a boolean array; floats are refused, for they are likely scores."""
    return _check_codes(values, name, (NORMAL, ATTACK), floats=False).astype(np.bool_)


def check_same_length(**arrays: npt.NDArray[Any]) -> None:
    """Refuse arrays of different lengths, naming each."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"`{name}` has {n}" for name, n in lengths.items())
        raise StreamError(f"Arrays must have the same number of rows; {told}.")


def check_unique(names: Sequence[str], what: str) -> None:
    """Refuse a name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise StreamError(f"`{what}` must be unique; {name!r} occurs twice.")
        seen.add(name)
