"""Streams as ``*.npz`` files: numpy arrays in a zip, never pickled objects.

The arrays of a file::

    train, test            (rows, channels)  residuals; required
    calibration            (rows, channels)  attack-free residuals not trained on
    labels                 (test rows,)      1 attack, 0 normal, -1 ignored
    alarms, score          (test rows,)      the detector's own
    train_time, test_time  (rows,)           seconds, dates or ISO text
    train_breaks, test_breaks                first row of each continuous run
    channels               (channels,)       names, as text
    telemetry_train, telemetry_test          (rows, telemetry channels)
    telemetry_channels                       names, as text
    segments_json          one text          a list of {"id", "start", "stop", ...}
    meta_json              one text          detector, testbed, space, step_s, ...

All but the first two are optional. A file may come from anywhere, so sizes are checked
before memory is taken.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import read_arrays
from sightline.data.stream import ResidualStream
from sightline.errors import FileError, StreamError, naming
from sightline.files import brief, parse_json, staged_file
from sightline.storage import metadata

_TABLES = ("train", "test", "calibration", "telemetry_train", "telemetry_test")
_CLOCKS = ("train_time", "test_time", "train_breaks", "test_breaks")
_SERIES = ("labels", "alarms", "score", *_CLOCKS)
_NAMES = ("channels", "telemetry_channels")
_JSON = ("segments_json", "meta_json")


def read_npz(path: Path) -> ResidualStream:
    """Read a stream from an ``.npz`` file.

    Parameters
    ----------
    path : Path
        The file; its stem becomes the stream's name.

    Returns
    -------
    ResidualStream
        With its rows in memory. An array of an unknown name is not used; a notice of
        the stream says so.

    Raises
    ------
    FileError
        If the file is damaged, or has no train or test.
    StreamError
        If its arrays do not make a valid stream.
    """
    arrays, unknown = read_arrays(path, (*_TABLES, *_SERIES, *_NAMES, *_JSON))
    for name in ("train", "test"):
        if name not in arrays:
            listed = ", ".join(sorted([*arrays, *unknown])) or "nothing"
            raise FileError(
                f"{path}: has no array {name!r}; a stream needs `train`, `test` and "
                f"`labels` (found: {listed})."
            )
    with naming(path):
        given: dict[str, Any] = {
            name: arrays[name] for name in (*_TABLES, *_SERIES) if name in arrays
        }
        for name in _NAMES:
            if name in arrays:
                array = arrays[name]
                if array.ndim != 1 or array.dtype.kind not in "US":
                    raise StreamError(
                        f"`{name}` must be a list of names; got shape {array.shape} of "
                        f"type {array.dtype}."
                    )
                given[name] = [_text(item, name) for item in array.tolist()]
        if "segments_json" in arrays:
            given["segments"] = metadata.attacks_from(_json(arrays, "segments_json"))
        if "meta_json" in arrays:
            given |= vars(metadata.facts_from(_json(arrays, "meta_json"), "meta_json"))
        notices = [
            f"{path.name}: array {name!r} is not one Sightline knows; it was not used."
            for name in sorted(unknown)
        ]
        given["notices"] = [*given.get("notices", ()), *notices]
        stream = ResidualStream(**{**given, "name": metadata.stream_name(path)})
        metadata.check_meta(stream.meta, stream.channels)
        return stream


def write_npz(stream: ResidualStream, path: Path) -> None:
    """Write a stream to an ``.npz`` file, complete or not at all.

    The rows of a stream on disk are read into memory.
    """
    given = {
        k: v for k in (*_TABLES, *_SERIES) if (v := getattr(stream, k)) is not None
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        name: np.concatenate(list(values.chunks())) if name in _TABLES else values
        for name, values in given.items()
    }
    arrays["channels"] = np.array(stream.channels)
    if stream.telemetry_channels:
        arrays["telemetry_channels"] = np.array(stream.telemetry_channels)
    if stream.segments:
        arrays["segments_json"] = np.array(
            metadata.plain_json(metadata.attacks_json(stream.segments))
        )
    arrays["meta_json"] = np.array(metadata.plain_json(metadata.facts_json(stream)))
    with staged_file(path) as partial, open(partial, "wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def _text(value: object, name: str) -> str:
    """Return text or UTF-8 bytes as text."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise StreamError(
                f"`{name}` must be UTF-8 text; {brief(error)}."
            ) from error
    if isinstance(value, str):
        return value
    raise StreamError(f"`{name}` must be text; got {type(value).__name__}.")


def _json(arrays: dict[str, npt.NDArray[Any]], name: str) -> object:
    """Return the parsed JSON text in an array of one item."""
    array = arrays[name]
    if array.size != 1:
        raise StreamError(f"`{name}` must be one JSON text; got shape {array.shape}.")
    try:
        return parse_json(_text(array.item(), name))
    except StreamError:
        raise
    except ValueError as error:
        raise StreamError(f"`{name}` must be JSON text; {brief(error)}.") from error
