"""Checks of input arrays, arrays of files that are not trusted, and array types.

Public functions check their input once with these functions; private functions trust
it. A `check_x` function returns the cleaned input or raises `StreamError`, whose
message says what is wrong, where, and what to do. Row numbers in messages count from
0, as in numpy.
"""

import importlib
import lzma
import math
import struct
import sys
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.errors import FileError, MissingExtraError, StreamError
from sightline.files import check_ordinary, damage
from sightline.text import size

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


# Reading a damaged zip member fails in one of these ways.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    EOFError,
    OverflowError,
    RuntimeError,
    ValueError,
    OSError,
)
_ADVICE = "write the file again with numpy.savez"
# An array larger than this must not be packed to less than this share of its size:
# measurements shrink some 2 to 20 times.
_LARGE_BYTES, _MOST_RATIO = 1 << 27, 100


def read_arrays(
    path: Path, wanted: Collection[str] | None = None
) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Return arrays of an ``.npz`` file, and the names of those not read.

    Parameters
    ----------
    path : Path
        The file.
    wanted : collection of str, optional
        The names to read. Not given: all.

    Raises
    ------
    FileError
        If the file is damaged, holds two arrays of one name, or pickled objects.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    others: list[str] = []
    unreadable = damage(
        f"{path}: is not a readable .npz file", *_DAMAGE, advice=_ADVICE
    )
    check_ordinary(path)
    with unreadable, zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in arrays:
                raise FileError(f"{path}: holds two arrays called {name!r}.")
            if wanted is None or name in wanted:
                arrays[name] = _read_array(archive, info, f"{path}: array {name!r}")
            else:
                others.append(name)
    return arrays, others


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: str
) -> npt.NDArray[Any]:
    """Read one array, after checking that its header agrees with its size.

    Few bytes that unpack to an array that fills the memory are refused.
    """
    try:
        with damage(f"{place} cannot be read", *_DAMAGE, advice=_ADVICE):
            if info.file_size > max(_LARGE_BYTES, _MOST_RATIO * info.compress_size):
                raise FileError(
                    f"{place} unpacks from {size(info.compress_size)} to "
                    f"{size(info.file_size)}, which is more than measurements do: "
                    "write the file again with numpy.savez, which does not pack."
                )
            with archive.open(info) as member:
                _check_header(member, info.file_size, place)
            with archive.open(info) as member:
                array = np.asarray(np.lib.format.read_array(member, allow_pickle=False))
            if array.dtype.kind == "U" and array.nbytes:
                # numpy fails on code points beyond Unicode.
                text = array.astype(array.dtype.newbyteorder("="))
                if np.frombuffer(text, np.uint32).max(initial=0) > sys.maxunicode:
                    raise ValueError("it holds what is not text")
            return array
    except MemoryError as error:
        raise FileError(
            f"{place} says it has {info.file_size:,} bytes, more than memory holds: "
            "write the stream as a Parquet folder, which is read in chunks."
        ) from error


def _check_header(member: IO[bytes], size: int, place: str) -> None:
    """Raise `FileError` for pickles, and if the header disagrees with the size.

    A header can announce an array that is larger than memory; numpy would allocate it
    before it reads.
    """
    version = np.lib.format.read_magic(member)
    headers = np.lib.format
    is_first = version == (1, 0)
    read = headers.read_array_header_1_0 if is_first else headers.read_array_header_2_0
    shape, _, dtype = read(member)
    if dtype.hasobject:
        raise FileError(
            f"{place} holds pickled Python objects, which are not read because they "
            "could run code: save it as numbers or text."
        )
    n_items = math.prod(int(extent) for extent in shape)
    expected, actual = n_items * dtype.itemsize, size - member.tell()
    # Items of size 0 take no byte in the file, but time and memory later.
    is_endless = dtype.itemsize == 0 and n_items > 1
    if expected != actual or is_endless or min(shape, default=0) < 0:
        raise FileError(
            f"{place} is truncated or damaged (its header says {expected} bytes, "
            f"the file holds {actual}): write it again."
        )
