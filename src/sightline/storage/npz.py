"""Streams as ``*.npz``: numpy arrays in a zip, never pickled objects."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import FileError, StreamError, naming
from sightline.rows import Rows
from sightline.storage.atomic import staged_file
from sightline.storage.facts import attacks_from, attacks_to, known_from, known_to
from sightline.stream import ResidualStream

_TABLES = ("train", "test", "calibration", "telemetry_train", "telemetry_test")
_SERIES = (
    "labels",
    "alarms",
    "score",
    "train_time",
    "test_time",
    "train_breaks",
    "test_breaks",
)
_NAMES = ("channels", "telemetry_channels")
_JSON = ("segments_json", "meta_json")
# Reading a damaged zip member fails in one of these ways.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


def read_npz(path: Path) -> ResidualStream:
    """Read a stream from an ``.npz`` file."""
    arrays = _read_arrays(path)
    known = (*_TABLES, *_SERIES, *_NAMES, *_JSON)
    unknown = sorted(set(arrays) - set(known))
    notices = [
        f"{path.name}: array {name!r} is not one Sightline knows; it was not used."
        for name in unknown
    ]
    for name in ("train", "test"):
        if name not in arrays:
            raise FileError(
                f"{path}: has no array {name!r}; a stream needs `train`, `test` and "
                f"`labels` (found: {', '.join(sorted(arrays)) or 'nothing'})."
            )
    with naming(path):
        given: dict[str, Any] = {
            name: arrays[name] for name in (*_TABLES, *_SERIES) if name in arrays
        }
        for name in _NAMES:
            if name in arrays:
                given[name] = _texts(arrays[name], name)
        if "segments_json" in arrays:
            given["segments"] = attacks_from(_json(arrays, "segments_json"))
        if "meta_json" in arrays:
            given |= known_from(_json(arrays, "meta_json"), "meta_json")
        return ResidualStream(**{**given, "name": path.stem, "notices": notices})


def write_npz(stream: ResidualStream, path: Path) -> None:
    """Write a stream to an ``.npz`` file."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in _TABLES:
        rows = getattr(stream, name)
        if rows is not None:
            arrays[name] = _whole(rows)
    for name in _SERIES:
        if getattr(stream, name) is not None:
            arrays[name] = getattr(stream, name)
    arrays["channels"] = np.array(stream.channels)
    if stream.telemetry_channels:
        arrays["telemetry_channels"] = np.array(stream.telemetry_channels)
    if stream.segments:
        arrays["segments_json"] = np.array(json.dumps(attacks_to(stream.segments)))
    arrays["meta_json"] = np.array(json.dumps(known_to(stream)))
    with staged_file(path) as partial, open(partial, "wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def _whole(rows: Rows) -> npt.NDArray[Any]:
    return np.concatenate(list(rows.chunks()))


def _read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                info.filename.removesuffix(".npy"): _read_array(archive, info, path)
                for info in archive.infolist()
            }
    except _DAMAGE as error:
        if isinstance(error, FileError | StreamError):
            raise
        raise FileError(
            f"{path}: is not a readable .npz file ({error}): write it again with "
            "numpy.savez."
        ) from error


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path
) -> npt.NDArray[Any]:
    """Read one member, after checking that its header tells the truth."""
    name = info.filename.removesuffix(".npy")
    try:
        with archive.open(info) as member:
            version = np.lib.format.read_magic(member)
            read_header = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read_header(member)
            if dtype.hasobject:
                raise FileError(
                    f"{path}: array {name!r} holds pickled Python objects, which are "
                    "not read because they could run code: save it as numbers or text."
                )
            # A header may announce more than the file holds, or than memory does.
            announced = dtype.itemsize
            for extent in shape:
                announced *= int(extent)
            held = info.file_size - member.tell()
            if announced != held or min(shape, default=0) < 0:
                raise FileError(
                    f"{path}: array {name!r} is truncated or damaged (its header says "
                    f"{announced} bytes, the file holds {held}): write it again."
                )
        with archive.open(info) as member:
            return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
    except FileError:
        raise
    except _DAMAGE as error:
        raise FileError(
            f"{path}: array {name!r} cannot be read ({error}): write the file again "
            "with numpy.savez."
        ) from error


def _texts(array: npt.NDArray[Any], name: str) -> list[str]:
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise StreamError(
            f"`{name}` must be a list of names; got shape {array.shape} of type "
            f"{array.dtype}."
        )
    return [_text(item, name) for item in array.tolist()]


def _text(value: object, name: str) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise StreamError(f"`{name}` must be UTF-8 text; {error}.") from error
    if isinstance(value, str):
        return value
    raise StreamError(f"`{name}` must be text; got {type(value).__name__}.")


def _json(arrays: dict[str, npt.NDArray[Any]], name: str) -> object:
    array = arrays[name]
    if array.size != 1:
        raise StreamError(f"`{name}` must be one JSON text; got shape {array.shape}.")
    try:
        return json.loads(_text(array.item(), name))
    except (json.JSONDecodeError, RecursionError) as error:
        raise StreamError(f"`{name}` must be JSON text; {error}.") from error
