"""Checks of input arrays, and the array types of this package.

Public functions check their input once with these functions; private functions trust
it. A `check_x` function returns the cleaned input or raises `StreamError`, whose
message says what is wrong, where, and what to do. Row numbers in messages count from
0, as in numpy.
"""

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.errors import MissingExtraError, StreamError

_Item = TypeVar("_Item", bound=np.generic)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int8]
# Residuals keep the precision in which they are given; sums are made in float64.
Residuals = npt.NDArray[np.float32] | npt.NDArray[np.float64]

# The codes of labels.
ATTACK, NORMAL, IGNORED = 1, 0, -1


def require(module: str, *, extra: str, caller: str) -> ModuleType:
    """Import and return an optional dependency.

    Parameters
    ----------
    module : str
        The module to import, such as ``"torch"``.
    extra : str
        The extra of this package that installs it, such as ``"detectors"``.
    caller : str
        What needs the module; the subject of the error message.

    Raises
    ------
    MissingExtraError
        If it is not installed. The message gives the pip command.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{caller} needs {module}, which is not installed: "
            f"pip install 'sightline-cps[{extra}]'."
        ) from error


def as_rectangle(values: object, name: str) -> npt.NDArray[Any]:
    """Return values as a numpy array of any type; raise if rows differ in length."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise StreamError(
            f"`{name}` must be a rectangular array; its rows differ in length or kind."
        ) from error


def as_array(values: object, name: str) -> npt.NDArray[Any]:
    """Return values as a numpy array; raise for ragged lists and Python objects."""
    array = as_rectangle(values, name)
    if array.dtype == object:
        raise StreamError(
            f"`{name}` must be an array of numbers; it holds Python objects "
            "(missing values or mixed types): convert it to float first."
        )
    return array


def check_residuals(values: object, name: str) -> Residuals:
    """Return a C-ordered array of shape (rows, channels), float32 or float64.

    Arrays of these two types are not copied if they are C-ordered; other real numbers
    become float64. That values are finite is not checked here but where the rows are
    read, because they may not fit into memory.

    Parameters
    ----------
    values : array-like of shape (rows, channels)
        Real numbers, at least one channel.
    name : str
        The parameter's name, for the message.

    Raises
    ------
    StreamError
        If the shape or the type is another one.
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
        with np.errstate(all="ignore"):  # infinities are reported where rows are read
            array = array.astype(np.float64)
    return np.ascontiguousarray(array)


def check_series(values: object, name: str) -> Floats:
    """Return a finite float64 array of shape (rows,).

    Parameters
    ----------
    values : array-like of shape (rows,)
        Real numbers or booleans, all finite.
    name : str
        The parameter's name, for the message.

    Raises
    ------
    StreamError
        If the shape or the type is another one, or a value is not finite; the message
        names the first such row.
    """
    array = as_array(values, name)
    if array.ndim != 1:
        raise StreamError(
            f"`{name}` must have shape (rows,); got shape {array.shape}: "
            "flatten it with `.ravel()` if it has one value for each row."
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
    """Return int8 codes of shape (rows,); raise if a value is not among `codes`."""
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
    """Return labels as int8: 1 attack, 0 normal, -1 ignored.

    Integers, booleans and whole floats (1.0) are accepted; any other value raises
    `StreamError` with its first row.

    Examples
    --------
    >>> check_labels([0.0, 1.0, -1.0]).tolist()
    [0, 1, -1]
    """
    return _check_codes(values, name, (NORMAL, ATTACK, IGNORED), floats=True)


def check_alarms(values: object, name: str = "alarms") -> Labels:
    """Return alarms as int8: 1 in alarm, 0 not in alarm; otherwise as labels."""
    return _check_codes(values, name, (0, 1), floats=True)


def check_is_attack(values: object, name: str = "is_attack") -> Bools:
    """Return a boolean array from 0 and 1 or booleans.

    Floats are refused because they are probably scores: two swapped arguments.
    """
    return _check_codes(values, name, (NORMAL, ATTACK), floats=False).astype(np.bool_)


def check_same_length(**arrays: npt.NDArray[Any]) -> None:
    """Raise `StreamError` if arrays, given by name, differ in length."""
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = ", ".join(f"`{name}` has {len(a)}" for name, a in arrays.items())
        raise StreamError(f"Arrays must have the same number of rows; {lengths}.")


def read_only(array: npt.NDArray[_Item]) -> npt.NDArray[_Item]:
    """Return a view of an array that cannot be written through.

    Recordings hand out these: a detector that writes into its input would else change
    what is exported beside its residuals.

    Examples
    --------
    >>> seen = read_only(np.zeros(2))
    >>> seen[0] = 1.0
    Traceback (most recent call last):
    ...
    ValueError: assignment destination is read-only
    """
    view = array.view()
    view.flags.writeable = False
    return view


def check_unique(names: Sequence[str], what: str) -> None:
    """Raise `StreamError` if a name occurs twice in the parameter `what`."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise StreamError(f"`{what}` must be unique; {twice[0]!r} occurs twice.")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `StreamError` if a parameter has a value that is no choice."""
    if value not in tuple(choices):
        raise StreamError(
            f"`{name}` must be one of {', '.join(choices)}; got {value!r}."
        )


def finite(value: float) -> float | None:
    """Return a figure, or None where it overflowed or is undefined.

    Examples
    --------
    >>> finite(1.5), finite(float("inf")), finite(float("nan"))
    (1.5, None, None)
    """
    return float(value) if np.isfinite(value) else None
